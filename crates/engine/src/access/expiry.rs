//! Judging expiries: everything that asks whether the time of a key or of a field is over asks
//! here.
//!
//! Two rules make "expired" final (`tidemill_store::word::ExpiryFloor` has the proof and the
//! models):
//!
//! - A clock to judge by is the worker's own, or the server's expiry floor if that is later. A unit
//!   under locks takes it once, behind its last lock
//!   ([`LockSet::expiry_clock`](crate::access::locks::LockSet::expiry_clock)); a command that reads
//!   without locks takes it at its first judgement.
//! - A command that finds something expired raises the floor before it answers; without the slot's
//!   lock, the finding has to be confirmed by the slot's word.
//!
//! Handlers of keys judge through [`Cx`](crate::access::context::Cx), walks through [`SlotJudge`].
//! New expiries are counted from the same clock, so that none begins behind the floor. One that has
//! passed is stored by `MSETEX` alone, which raises the floor behind it first, and in import mode.

use std::cell::Cell;

use tidemill_store::EntryRef;
use tidemill_store::word::{SlotWord, Word};

use crate::expiry_clock::ExpiryClock;
use crate::shared::Shared;
use crate::worker::Worker;

/// Judges the entries of one slot that a walk reads at a time.
#[derive(Debug)]
pub(crate) struct SlotJudge<'s> {
    shared: &'s Shared,
    clock: ExpiryClock,
    /// The slot's word and what it said before the reading; none for who holds the lock or runs
    /// alone.
    word: Option<(&'s SlotWord, Word)>,
    is_certain: Cell<bool>,
}

impl<'s> SlotJudge<'s> {
    /// For a reading without the lock that begins now; `before` is the word as it is now.
    pub(crate) fn unlocked(
        shared: &'s Shared,
        worker: &Worker,
        (word, before): (&'s SlotWord, Word),
    ) -> SlotJudge<'s> {
        let clock = worker.expiry_clock(shared);
        SlotJudge { shared, clock, word: Some((word, before)), is_certain: Cell::new(true) }
    }

    /// For who holds the slot's lock, or runs while all others are stopped.
    pub(crate) fn locked(shared: &'s Shared, worker: &Worker) -> SlotJudge<'s> {
        SlotJudge::by(shared, worker.locked_expiry_clock(shared))
    }

    /// For a unit that runs while all others are stopped, with its clock of the slot.
    pub(crate) fn by(shared: &'s Shared, clock: ExpiryClock) -> SlotJudge<'s> {
        SlotJudge { shared, clock, word: None, is_certain: Cell::new(true) }
    }

    /// True if the time of an entry is over.
    pub(crate) fn is_over(&self, entry: EntryRef<'_>) -> bool {
        let passed = entry.expires_at_ms().filter(|&at_ms| self.clock.has_passed(at_ms));
        let Some(at_ms) = passed else { return false };
        match self.word {
            None => self.shared.saw_expired(at_ms),
            Some((word, before)) => {
                let counts = self.shared.confirms_expired(at_ms, word, before);
                self.is_certain.set(self.is_certain.get() && counts);
            }
        }
        true
    }

    /// True if all judgements count; otherwise the slot has to be read again.
    pub(crate) fn is_certain(&self) -> bool {
        self.is_certain.get()
    }
}
