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
    #[inline]
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

/// Bytes of a prefix that are compared as one word.
const HEAD_BYTES: usize = size_of::<u64>();

/// Prefix of up to eight bytes, all keys with which may be read.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReadablePrefix {
    head: u64,
    mask: u64,
}

impl ReadablePrefix {
    /// True if a key has the prefix. False says nothing of keys of less than eight bytes.
    #[inline]
    pub(super) fn begins(self, key: &[u8]) -> bool {
        key.first_chunk().is_some_and(|word| u64::from_le_bytes(*word) & self.mask == self.head)
    }
}

/// Pattern of keys with the permissions on them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct KeyPattern {
    pattern: Box<[u8]>,
    prefix_bytes: usize,
    /// First eight bytes of the prefix, and the bits of a word that a shorter one fills.
    head: u64,
    head_mask: u64,
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
        let (mut head, mut head_mask) = ([0; HEAD_BYTES], [0; HEAD_BYTES]);
        let head_bytes = prefix_bytes.min(HEAD_BYTES);
        head[..head_bytes].copy_from_slice(&pattern[..head_bytes]);
        head_mask[..head_bytes].fill(u8::MAX);
        let [head, head_mask] = [head, head_mask].map(u64::from_le_bytes);
        KeyPattern { pattern: pattern.into(), prefix_bytes, head, head_mask, rest, access }
    }

    /// True if a key begins with the literal prefix. Most prefixes and keys are told apart, and
    /// short prefixes found, by one word.
    #[inline]
    fn begins(&self, key: &[u8]) -> bool {
        if let Some(word) = key.first_chunk().copied().map(u64::from_le_bytes)
            && (word & self.head_mask != self.head || self.prefix_bytes <= HEAD_BYTES)
        {
            return word & self.head_mask == self.head;
        }
        key.starts_with(&self.pattern[..self.prefix_bytes])
    }

    pub(super) fn pattern(&self) -> &[u8] {
        &self.pattern
    }

    /// Adds the permissions of another with the same pattern.
    pub(super) fn add(&mut self, other: &KeyPattern) {
        self.access |= other.access;
    }

    /// True if it gives these permissions on a key.
    #[inline]
    pub(super) fn allows(&self, needed: Access, key: &[u8]) -> bool {
        if !self.access.contains(needed) || !self.begins(key) {
            return false;
        }
        match self.rest {
            Rest::Nothing => key.len() == self.prefix_bytes,
            Rest::Anything => true,
            Rest::Glob => glob::matches(&self.pattern, key, false),
        }
    }

    /// Its prefix, if all keys with it may be read and it is one word.
    pub(super) fn readable_prefix(&self) -> Option<ReadablePrefix> {
        let is_one = self.access.contains(Access::READ)
            && self.rest == Rest::Anything
            && self.prefix_bytes <= HEAD_BYTES;
        is_one.then_some(ReadablePrefix { head: self.head, mask: self.head_mask })
    }

    /// True if it gives these permissions on all keys.
    pub(super) fn allows_all(&self, needed: Access) -> bool {
        self.access.contains(needed) && *self.pattern == *b"*"
    }

    /// Bytes of the pattern.
    pub(super) fn text_bytes(&self) -> usize {
        self.pattern.len()
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

#[cfg(test)]
mod tests {
    use super::{Access, KeyPattern};

    #[test]
    fn prefixes_of_any_length_are_compared_whole() {
        let text = b"0123456789abcdefghij";
        for prefix_bytes in 0..=text.len() {
            let pattern = [&text[..prefix_bytes], b"*"].concat();
            let pattern = KeyPattern::new(&pattern, Access::READ);
            for key_bytes in 0..=text.len() {
                let key = &text[..key_bytes];
                let begins = key_bytes >= prefix_bytes;
                assert_eq!(pattern.allows(Access::READ, key), begins, "{prefix_bytes} {key_bytes}");
                let quick = pattern.readable_prefix().map(|prefix| prefix.begins(key));
                let is_quick = begins && key_bytes >= 8;
                assert_eq!(quick, (prefix_bytes <= 8).then_some(is_quick));
                for at in 0..key_bytes {
                    let mut other = key.to_vec();
                    other[at] ^= 0x80;
                    let expected = begins && at >= prefix_bytes;
                    assert_eq!(pattern.allows(Access::READ, &other), expected, "{at} of {key:?}");
                }
            }
            let pattern = [&text[..prefix_bytes], b"*"].concat();
            assert!(KeyPattern::new(&pattern, Access::WRITE).readable_prefix().is_none());
            assert!(
                KeyPattern::new(&text[..prefix_bytes], Access::READ).readable_prefix().is_none()
            );
            let exact = KeyPattern::new(&text[..prefix_bytes], Access::READ);
            let found = (0..=text.len()).filter(|&end| exact.allows(Access::READ, &text[..end]));
            assert_eq!(found.collect::<Vec<_>>(), [prefix_bytes]);
        }
    }
}
