//! Positions of a command's keys among its arguments.

use bitflags::bitflags;
use smallvec::SmallVec;
use tidemill_resp::request::ArgumentView;

bitflags! {
    /// Access of a command to the keys of one specification.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct KeyFlags: u16 {
        /// Reads and writes the value.
        const RW = 1;
        /// Reads the value only.
        const RO = 1 << 1;
        /// Overwrites the value without reading it.
        const OW = 1 << 2;
        /// Removes the key.
        const RM = 1 << 3;
        /// User data is returned, copied or used.
        const ACCESS = 1 << 4;
        /// User data is changed.
        const UPDATE = 1 << 5;
        /// User data is added.
        const INSERT = 1 << 6;
        /// User data is removed.
        const DELETE = 1 << 7;
        /// The argument is not always a key.
        const NOT_KEY = 1 << 8;
        /// More keys than these may be touched.
        const INCOMPLETE = 1 << 9;
        /// The flags depend on the arguments.
        const VARIABLE_FLAGS = 1 << 10;
    }
}

impl KeyFlags {
    const fn all_of(flags: &[KeyFlags]) -> KeyFlags {
        let mut all = KeyFlags::empty();
        let mut rest = flags;
        while let [flag, others @ ..] = rest {
            all = all.union(*flag);
            rest = others;
        }
        all
    }
}

/// Start of the keys of a specification.
#[derive(Clone, Copy, Debug)]
pub enum Start {
    /// At this argument.
    Index(usize),
    /// Behind this word, searched from an argument on (from the end when negative).
    Keyword(&'static str, i32),
    /// Nowhere that can be said.
    Unknown,
}

/// Number of keys that follow.
#[derive(Clone, Copy, Debug)]
pub enum Find {
    /// Up to `last` arguments behind the first (counted from the end when negative), every
    /// `step`-th; of what is left only the `limit`-th part when it is above 1.
    Range {
        /// Offset of the last key from the first; negative counts from the last argument.
        last: i32,
        /// Distance of two keys.
        step: usize,
        /// Divides the arguments that are left, when above 1.
        limit: usize,
    },
    /// As many as an argument says.
    Count {
        /// Offset of the count from the start.
        count: usize,
        /// Offset of the first key from the start.
        first: usize,
        /// Distance of two keys.
        step: usize,
    },
    /// Nothing that can be said.
    Unknown,
}

/// One rule for finding keys among a command's arguments.
#[derive(Clone, Copy, Debug)]
pub struct KeySpec {
    /// Access to these keys.
    pub flags: KeyFlags,
    /// Their start.
    pub start: Start,
    /// Number of them.
    pub find: Find,
    /// Anything to know about the rule.
    pub notes: Option<&'static str>,
    /// The arguments may end before the first key. Valkey knows no such rule: `PFMERGE key` has no
    /// keys for it, and is checked by no ACL.
    pub may_be_none: bool,
}

/// Positions of keys among the arguments.
pub type KeyPositions = SmallVec<[usize; 4]>;

impl KeySpec {
    const fn of(start: Start, find: Find, flags: &[KeyFlags]) -> KeySpec {
        KeySpec { flags: KeyFlags::all_of(flags), start, find, notes: None, may_be_none: false }
    }

    /// One key, the first argument.
    #[must_use]
    pub const fn first(flags: &[KeyFlags]) -> KeySpec {
        KeySpec::one(1, flags)
    }

    /// One key, at argument `index`.
    #[must_use]
    pub const fn one(index: usize, flags: &[KeyFlags]) -> KeySpec {
        KeySpec::range(index, 0, flags)
    }

    /// All arguments.
    #[must_use]
    pub const fn all(flags: &[KeyFlags]) -> KeySpec {
        KeySpec::range(1, -1, flags)
    }

    /// Keys from argument `index` to `last` (see [`Find::Range`]).
    #[must_use]
    pub const fn range(index: usize, last: i32, flags: &[KeyFlags]) -> KeySpec {
        KeySpec::of(Start::Index(index), Find::Range { last, step: 1, limit: 0 }, flags)
    }

    /// As many keys as the argument at `index` says, right behind it.
    #[must_use]
    pub const fn counted(index: usize, flags: &[KeyFlags]) -> KeySpec {
        KeySpec::of(Start::Index(index), Find::Count { count: 0, first: 1, step: 1 }, flags)
    }

    /// One key behind a word, which is looked for from argument `from` on.
    #[must_use]
    pub const fn behind(word: &'static str, from: i32, flags: &[KeyFlags]) -> KeySpec {
        let find = Find::Range { last: 0, step: 1, limit: 0 };
        KeySpec::of(Start::Keyword(word, from), find, flags)
    }

    /// All arguments behind a word, which is looked for from argument `from` on.
    #[must_use]
    pub const fn all_behind(word: &'static str, from: i32, flags: &[KeyFlags]) -> KeySpec {
        let find = Find::Range { last: -1, step: 1, limit: 0 };
        KeySpec::of(Start::Keyword(word, from), find, flags)
    }

    /// The first half of all arguments behind a word, searched from argument `from` on.
    #[must_use]
    pub const fn halves_behind(word: &'static str, from: i32, flags: &[KeyFlags]) -> KeySpec {
        let find = Find::Range { last: -1, step: 1, limit: 2 };
        KeySpec::of(Start::Keyword(word, from), find, flags)
    }

    /// Keys that no rule finds.
    #[must_use]
    pub const fn unknown(flags: &[KeyFlags]) -> KeySpec {
        KeySpec::of(Start::Unknown, Find::Unknown, flags)
    }

    /// Only every `step`-th argument is a key.
    #[must_use]
    pub const fn every(self, step: usize) -> KeySpec {
        let find = match self.find {
            Find::Range { last, limit, .. } => Find::Range { last, step, limit },
            Find::Count { count, first, .. } => Find::Count { count, first, step },
            Find::Unknown => Find::Unknown,
        };
        KeySpec { find, ..self }
    }

    /// With anything to know about the rule.
    #[must_use]
    pub const fn notes(self, notes: &'static str) -> KeySpec {
        KeySpec { notes: Some(notes), ..self }
    }

    /// There need not be any such key.
    #[must_use]
    pub const fn may_be_none(self) -> KeySpec {
        KeySpec { may_be_none: true, ..self }
    }

    /// Appends the positions of this rule's keys; `false` when the arguments do not fit the rule.
    #[must_use]
    pub fn positions(&self, args: &ArgumentView<'_>, into: &mut KeyPositions) -> bool {
        let Some(start) = self.start_of(args) else {
            return self.may_be_none || matches!(self.start, Start::Keyword(..) | Start::Unknown);
        };
        match self.find {
            Find::Range { last, step, limit } => {
                let last = match usize::try_from(last) {
                    Ok(offset) => start + offset,
                    Err(_) if limit > 1 => start + (args.len() - start) / limit - 1,
                    Err(_) => {
                        let Some(last) = args.len().checked_add_signed(last as isize) else {
                            return false;
                        };
                        last
                    }
                };
                if last >= args.len() || last < start {
                    return false;
                }
                into.extend((start..=last).step_by(step));
                true
            }
            Find::Count { count, first, step } => {
                if start + count >= args.len() {
                    return false;
                }
                let Some(keys) = tidemill_resp::number::parse_integer(args.get(start + count))
                else {
                    return false;
                };
                let Ok(keys) = usize::try_from(keys) else { return false };
                let first = start + first;
                match keys.checked_mul(step).and_then(|span| first.checked_add(span)) {
                    Some(end) if keys > 0 && end - (step - 1) <= args.len() => {
                        into.extend((first..end).step_by(step));
                        true
                    }
                    _ => false,
                }
            }
            Find::Unknown => true,
        }
    }

    /// True if the arguments reach to where the rule looks for its keys.
    pub(crate) fn begins_in(&self, args: &ArgumentView<'_>) -> bool {
        self.start_of(args).is_some()
    }

    fn start_of(&self, args: &ArgumentView<'_>) -> Option<usize> {
        match self.start {
            Start::Index(index) => (index < args.len()).then_some(index),
            Start::Keyword(word, from) => {
                let matches =
                    |&index: &usize| args.get(index).eq_ignore_ascii_case(word.as_bytes());
                let found = if from >= 0 {
                    (from as usize..args.len()).find(matches)
                } else {
                    (1..args.len().saturating_add_signed(from as isize + 1)).rev().find(matches)
                };
                found.map(|index| index + 1).filter(|&index| index < args.len())
            }
            Start::Unknown => None,
        }
    }
}
