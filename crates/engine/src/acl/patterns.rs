//! Patterns of keys, split into a literal prefix and the rest.

use bitflags::bitflags;

use crate::command::KeyFlags;
use crate::glob;

bitflags! {
    /// Permissions on keys.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(super) struct Access: u8 {
        /// `%R~`
        const READ = 1;
        /// `%W~`
        const WRITE = 1 << 1;
    }
}

impl Access {
    /// Permissions that a command needs for a key. None where it only asks for the key's existence,
    /// type or size: any permission is enough then.
    pub(super) fn needed_for(flags: KeyFlags) -> Access {
        let writes = KeyFlags::INSERT.union(KeyFlags::DELETE).union(KeyFlags::UPDATE);
        let mut needed = Access::empty();
        needed.set(Access::READ, flags.contains(KeyFlags::ACCESS));
        needed.set(Access::WRITE, flags.intersects(writes));
        needed
    }
}

/// Rest of a pattern behind its literal prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rest {
    /// Nothing: the pattern is the key.
    Nothing,
    /// One star: the pattern is the key's prefix.
    Anything,
    /// Something else.
    Glob,
}

/// Pattern of keys with the permissions on them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct KeyPattern {
    pattern: Box<[u8]>,
    prefix_bytes: usize,
    rest: Rest,
    access: Access,
}

impl KeyPattern {
    pub(super) fn new(pattern: &[u8], access: Access) -> KeyPattern {
        let is_special = |byte: &u8| b"*?[\\".contains(byte);
        let prefix_bytes = pattern.iter().position(is_special).unwrap_or(pattern.len());
        let rest = match &pattern[prefix_bytes..] {
            [] => Rest::Nothing,
            b"*" => Rest::Anything,
            _ => Rest::Glob,
        };
        KeyPattern { pattern: pattern.into(), prefix_bytes, rest, access }
    }

    pub(super) fn is_of(&self, pattern: &[u8]) -> bool {
        *self.pattern == *pattern
    }

    pub(super) fn add(&mut self, access: Access) {
        self.access |= access;
    }

    /// True if it gives these permissions on a key.
    #[inline]
    pub(super) fn allows(&self, needed: Access, key: &[u8]) -> bool {
        if !self.access.contains(needed) || !key.starts_with(&self.pattern[..self.prefix_bytes]) {
            return false;
        }
        match self.rest {
            Rest::Nothing => key.len() == self.prefix_bytes,
            Rest::Anything => true,
            Rest::Glob => glob::matches(&self.pattern, key, false),
        }
    }

    /// True if it gives these permissions on all keys.
    pub(super) fn allows_all(&self, needed: Access) -> bool {
        self.access.contains(needed) && self.is_of(b"*")
    }

    /// The rule that makes it: `~key`, `%R~key`, `%W~key`.
    pub(super) fn describe(&self, into: &mut Vec<u8>) {
        let before: &[u8] = match (self.access.contains(Access::READ), self.access) {
            (true, Access::READ) => b"%R~",
            (true, _) => b"~",
            (false, _) => b"%W~",
        };
        into.extend_from_slice(before);
        into.extend_from_slice(&self.pattern);
    }
}
