//! Lookups without locks: what a command has looked up, and whether it counts.

use std::cell::Cell;

use tidemill_store::SlotNumber;
use tidemill_store::word::Word;

use crate::expiry_clock::ExpiryClock;
use crate::shared::Shared;

/// A lookup without a lock: the slot's word before it, and whether there was an entry of which all
/// that is read is of one moment by itself.
///
/// Slot and flag share a word: small fields that are written one by one and then copied together
/// hold the processor up.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen {
    before: Word,
    slot_and_flag: u64,
}

impl Seen {
    #[inline(always)]
    pub(super) fn new(slot: SlotNumber, before: Word, is_whole_hit: bool) -> Seen {
        Seen { before, slot_and_flag: (slot.index() as u64) << 1 | u64::from(is_whole_hit) }
    }

    #[inline(always)]
    pub(super) fn slot(&self) -> SlotNumber {
        SlotNumber::from_index((self.slot_and_flag >> 1) as usize).expect("it was one before")
    }

    #[inline(always)]
    pub(super) fn is_whole_hit(&self) -> bool {
        self.slot_and_flag & 1 == 1
    }
}

/// All lookups of a command that reads without locks; nearly all make one.
#[derive(Debug)]
pub(crate) enum Sightings {
    None,
    One(Seen),
    Several(Vec<Seen>),
}

impl Sightings {
    #[inline(always)]
    pub(super) fn push(&mut self, seen: Seen) {
        match self {
            Sightings::None => *self = Sightings::One(seen),
            _ => self.push_another(seen),
        }
    }

    /// Of the only lookup, which found an entry, one leaf is read.
    #[inline(always)]
    pub(super) fn reads_one_leaf(&mut self) {
        if let Sightings::One(seen) = self {
            seen.slot_and_flag |= 1;
        }
    }

    /// The lookups of a slot do not count: the command has to run again.
    #[cold]
    pub(super) fn spoil(&mut self, slot: SlotNumber) {
        let of_slot = |seen: &mut Seen| {
            if seen.slot() == slot {
                seen.before = Word::of_vain_lookup();
            }
        };
        match self {
            Sightings::None => {}
            Sightings::One(seen) => of_slot(seen),
            Sightings::Several(all) => all.iter_mut().for_each(of_slot),
        }
    }

    /// No lookup counts: the command has to run again.
    fn spoil_all(&mut self) {
        let all = match self {
            Sightings::None => &mut [],
            Sightings::One(seen) => std::slice::from_mut(seen),
            Sightings::Several(all) => all,
        };
        all.iter_mut().for_each(|seen| seen.before = Word::of_vain_lookup());
    }

    /// The word of a slot as it was loaded before the last lookup in it.
    pub(super) fn word_before(&self, slot: SlotNumber) -> Option<Word> {
        let all = match self {
            Sightings::None => &[],
            Sightings::One(seen) => std::slice::from_ref(seen),
            Sightings::Several(all) => all,
        };
        all.iter().rev().find(|seen| seen.slot() == slot).map(|seen| seen.before)
    }

    fn push_another(&mut self, seen: Seen) {
        let mut all = match std::mem::replace(self, Sightings::None) {
            Sightings::None => Vec::new(),
            Sightings::One(first) => vec![first],
            Sightings::Several(all) => all,
        };
        all.push(seen);
        *self = Sightings::Several(all);
    }
}

/// Findings of a command that reads without locks.
#[derive(Debug)]
pub(crate) struct Lookups {
    pub(super) seen: Sightings,
    /// The time by which expiries are judged, once one was.
    pub(super) clock: Cell<Option<ExpiryClock>>,
}

impl Lookups {
    /// Nothing looked up yet.
    pub(crate) fn new() -> Lookups {
        Lookups { seen: Sightings::None, clock: Cell::new(None) }
    }

    /// Number of lookups.
    pub(crate) fn len(&self) -> usize {
        match &self.seen {
            Sightings::None => 0,
            Sightings::One(_) => 1,
            Sightings::Several(all) => all.len(),
        }
    }

    /// Slots that keys were looked up in.
    pub(crate) fn slots(&self) -> Vec<SlotNumber> {
        match &self.seen {
            Sightings::None => Vec::new(),
            Sightings::One(seen) => vec![seen.slot()],
            Sightings::Several(all) => all.iter().map(Seen::slot).collect(),
        }
    }

    /// No lookup counts any more: what was found is in another database, or in none.
    #[cold]
    pub(crate) fn spoil(&mut self) {
        self.seen.spoil_all();
    }

    /// A slot that changed or is held since a lookup in it.
    #[inline(always)]
    pub(crate) fn stale_slot(&self, shared: &Shared) -> Option<SlotNumber> {
        let now = |seen: &Seen| shared.keyspace.word(seen.slot()).load_after();
        let changed = match &self.seen {
            Sightings::None => None,
            Sightings::One(seen) if seen.is_whole_hit() => {
                (!seen.before.confirms_hit(now(seen))).then_some(seen)
            }
            Sightings::One(seen) => (!seen.before.is_unchanged(now(seen))).then_some(seen),
            Sightings::Several(all) if self.is_outdated(shared) => all.first(),
            Sightings::Several(all) => all.iter().find(|seen| !seen.before.is_unchanged(now(seen))),
        };
        changed.map(Seen::slot)
    }

    /// True if something may have expired for everybody since it was found alive. A read of several
    /// keys takes effect where this looks: behind the last lookup and before the words are loaded
    /// again. One key was alive when it was judged.
    fn is_outdated(&self, shared: &Shared) -> bool {
        self.clock.get().is_some_and(|clock| shared.has_expired_since(clock))
    }
}

/// Judgement of what an optimistic handler saw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It counts.
    Valid,
    /// It does not: this slot changed or is held.
    Stale(SlotNumber),
}
