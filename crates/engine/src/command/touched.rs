//! Keys, channels and databases that a call touches, and how: what access control asks for.

use smallvec::SmallVec;
use tidemill_resp::request::ArgumentView;

use super::declaration::{Categories, Command, Flags, Scope};
use super::keys::{Find, KeyFlags, KeyPositions};

/// A key among the arguments, and what the command does with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyAccess {
    /// Index of the argument.
    pub position: usize,
    /// Access to it.
    pub flags: KeyFlags,
}

/// Keys among the arguments.
pub type KeyAccesses = SmallVec<[KeyAccess; 4]>;

/// Appends the positions of arguments that number databases.
pub type DatabasePositions = fn(&ArgumentView<'_>, &mut KeyPositions);

/// Databases that a command touches.
#[derive(Clone, Copy, Debug)]
pub enum Databases {
    /// The selected one, if it is about data at all.
    Selected,
    /// The selected one, and those that arguments number.
    AlsoNumbered(DatabasePositions),
    /// Those that arguments number.
    Numbered(DatabasePositions),
    /// All.
    All,
}

/// Arguments that name channels which the command publishes or subscribes to. Unsubscribing takes
/// no permission: channels to leave are not declared.
#[derive(Clone, Copy, Debug)]
pub struct Channels {
    first: usize,
    are_several: bool,
    /// They are patterns.
    pub are_patterns: bool,
}

impl Channels {
    /// The first argument.
    #[must_use]
    pub const fn first() -> Channels {
        Channels { first: 1, are_several: false, are_patterns: false }
    }

    /// All arguments.
    #[must_use]
    pub const fn all() -> Channels {
        Channels { are_several: true, ..Channels::first() }
    }

    /// All arguments, which are patterns.
    #[must_use]
    pub const fn patterns() -> Channels {
        Channels { are_patterns: true, ..Channels::all() }
    }

    /// Indexes of the arguments.
    #[must_use]
    pub fn positions(self, args: &ArgumentView<'_>) -> std::ops::Range<usize> {
        let end = if self.are_several { args.len() } else { self.first + 1 };
        self.first..end.min(args.len())
    }
}

impl Command {
    /// True if a call runs with all other workers stopped: one that may touch any key. `DEBUG`
    /// counts as such for some of its subcommands, but `SLEEP` is a stand-in for commands that take
    /// long.
    pub(crate) fn stops_others(&self, args: &ArgumentView<'_>) -> bool {
        let is_sleep = |word: &[u8]| word.eq_ignore_ascii_case(b"SLEEP");
        let sleeps = || self.name == "debug" && args.len() > 1 && is_sleep(args.get(1));
        self.flags.contains(Flags::DISCOVERS_KEYS) || self.scope == Scope::Keyspace && !sleeps()
    }

    /// True if its handler may change data: it writes, or it reads and stores what it found, as
    /// `PFCOUNT` does with its estimate.
    #[inline]
    pub(crate) fn may_change_data(&self) -> bool {
        let stores_estimate = Flags::READONLY.union(Flags::MAY_REPLICATE);
        self.flags.contains(Flags::WRITE) || self.flags.contains(stores_estimate)
    }

    /// All keys among the arguments with the access to each, or `None` when the arguments do not
    /// fit. Arguments that are not always keys are left out.
    #[must_use]
    pub fn key_accesses(&self, args: &ArgumentView<'_>) -> Option<KeyAccesses> {
        let mut accesses = KeyAccesses::new();
        let own = self.key_flags.map(|flags_of| flags_of(args));
        let mut earlier_count = 0;
        for (index, spec) in self.keys.iter().enumerate() {
            earlier_count = accesses.len();
            let mut positions = KeyPositions::new();
            if self.follows(spec) && !spec.positions(args, &mut positions) {
                return None;
            }
            // Keys that no specification describes belong to the last one.
            if let Some(more_keys) = self.more_keys.filter(|_| index + 1 == self.keys.len()) {
                more_keys(args, &mut positions);
            }
            if spec.flags.contains(KeyFlags::NOT_KEY) {
                continue;
            }
            let flags = own.unwrap_or(spec.flags.difference(KeyFlags::VARIABLE_FLAGS));
            accesses.extend(positions.iter().map(|&position| KeyAccess { position, flags }));
        }
        if self.more_keys.is_some() && earlier_count > 0 {
            // The finder may know that an argument where others have a key is none in this call, or
            // find it as well.
            let all = self.key_positions(args)?;
            let (earlier, found) = accesses.split_at(earlier_count);
            let is_found =
                |access: &KeyAccess| found.iter().any(|it| it.position == access.position);
            let is_kept = |access: &&KeyAccess| all.contains(&access.position) && !is_found(access);
            accesses = earlier.iter().filter(is_kept).chain(found).copied().collect();
        }
        Some(accesses)
    }

    /// Access to its key, if it always has exactly one and each call has the same access.
    pub(crate) fn only_key(&self) -> Option<KeyFlags> {
        let [spec] = self.keys else { return None };
        let is_one = matches!(spec.find, Find::Range { last: 0, .. }) && !spec.may_be_none;
        let varies = self.key_flags.is_some() || self.more_keys.is_some();
        let is_key = !spec.flags.intersects(KeyFlags::NOT_KEY.union(KeyFlags::VARIABLE_FLAGS));
        (is_one && !varies && is_key).then_some(spec.flags)
    }

    /// True if it works on data of the selected database.
    #[must_use]
    pub fn is_about_data(&self) -> bool {
        self.flags.intersects(Flags::WRITE.union(Flags::READONLY))
            || self.categories.contains(Categories::KEYSPACE)
            || self.keys.iter().any(|spec| !spec.flags.contains(KeyFlags::NOT_KEY))
    }
}
