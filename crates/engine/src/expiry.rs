//! Judging expiries: everything that asks whether the time of a key or of a field is over asks here.
//!
//! Two rules make "expired" final (`tidemill_store::word::ExpiryFloor` has the proof and the models):
//!
//! - A clock to judge by is the worker's own, or the server's expiry floor if that is later. A unit under locks takes it once,
//!   behind its last lock ([`LockSet::expiry_clock`](crate::locks::LockSet::expiry_clock)); a command that reads without
//!   locks takes it at its first judgement.
//! - Whoever finds something expired raises the floor before it answers; without the slot's lock, the finding has to be
//!   confirmed by the slot's word.
//!
//! Handlers of keys judge through [`Cx`](crate::context::Cx), walks through [`SlotJudge`]. New expiries are counted from the
//! same clock, so that none begins behind the floor.

use std::cell::Cell;

use tidemill_store::EntryRef;
use tidemill_store::word::{SlotWord, Word};

use crate::shared::Shared;
use crate::worker::Worker;

/// One moment by which expiries are judged and from which new ones are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExpiryClock {
    now_ms: u64,
    ahead_ms: u64,
}

impl ExpiryClock {
    /// The worker's clock, or one that shows `floor_ms` if that is later.
    fn new(worker: &Worker, floor_ms: u64) -> ExpiryClock {
        ExpiryClock { now_ms: worker.now_ms().max(floor_ms), ahead_ms: worker.ahead_ms() }
    }

    /// The server's time: Unix time in milliseconds that never goes back.
    #[must_use]
    pub fn now_ms(self) -> u64 {
        self.now_ms
    }

    /// The expiry that a client means by an absolute Unix time in milliseconds, which it takes from the wall clock.
    #[must_use]
    pub fn expiry_at(self, wall_ms: i64) -> Option<u64> {
        Some(wall_ms.checked_add_unsigned(self.ahead_ms)?.max(0) as u64)
    }

    /// An expiry as an absolute time for clients and journals: what [`expiry_at`](ExpiryClock::expiry_at) takes.
    #[must_use]
    pub fn wall_ms(self, at_ms: u64) -> u64 {
        at_ms.saturating_sub(self.ahead_ms)
    }

    /// Whether something that expires at `at_ms` has expired.
    #[must_use]
    #[inline]
    pub fn has_passed(self, at_ms: u64) -> bool {
        self.now_ms > at_ms
    }

    /// Whether something that is to expire at `at_ms` need not be stored: a millisecond earlier than [`has_passed`], as in
    /// Redis.
    ///
    /// [`has_passed`]: ExpiryClock::has_passed
    #[must_use]
    pub fn has_come(self, at_ms: u64) -> bool {
        self.now_ms >= at_ms
    }

    /// Whether somebody has found something expired since that this clock may have found alive.
    pub(crate) fn is_behind(self, shared: &Shared) -> bool {
        shared.expiry_floor.load() > self.now_ms
    }

    /// The latest expiry that has passed.
    #[must_use]
    pub fn last_passed_ms(self) -> u64 {
        self.now_ms.saturating_sub(1)
    }
}

impl Shared {
    /// The clock of a worker that holds no locks.
    #[must_use]
    #[inline]
    pub fn expiry_clock(&self, worker: &Worker) -> ExpiryClock {
        ExpiryClock::new(worker, self.expiry_floor.load())
    }

    /// The clock of a worker that has just taken the last of its locks.
    #[must_use]
    pub fn locked_expiry_clock(&self, worker: &Worker) -> ExpiryClock {
        ExpiryClock::new(worker, self.expiry_floor.load_locked())
    }

    /// Something that expires at `at_ms` at the latest was found expired under its slot's lock, or by somebody who makes
    /// nothing of it: from now on it is so for everybody.
    pub fn saw_expired(&self, at_ms: u64) {
        self.expiry_floor.raise(at_ms.saturating_add(1));
    }

    /// As [`Shared::saw_expired`], without a lock; `before` is the slot's word as loaded before the lookup. Tells whether
    /// the finding counts.
    #[must_use]
    pub fn confirms_expired(&self, at_ms: u64, word: &SlotWord, before: Word) -> bool {
        self.expiry_floor.confirms_expired(at_ms.saturating_add(1), word, before)
    }
}

/// Judges the entries of one slot that a walk reads at a time.
#[derive(Debug)]
pub(crate) struct SlotJudge<'s> {
    shared: &'s Shared,
    clock: ExpiryClock,
    /// The slot's word and what it said before the reading; none for who holds the lock or runs alone.
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
        let clock = shared.expiry_clock(worker);
        SlotJudge { shared, clock, word: Some((word, before)), is_certain: Cell::new(true) }
    }

    /// For who holds the slot's lock, or runs while all others are stopped.
    pub(crate) fn locked(shared: &'s Shared, worker: &Worker) -> SlotJudge<'s> {
        let clock = shared.locked_expiry_clock(worker);
        SlotJudge { shared, clock, word: None, is_certain: Cell::new(true) }
    }

    /// Whether the time of an entry is over.
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

    /// Whether all judgements count; otherwise the slot has to be read again.
    pub(crate) fn is_certain(&self) -> bool {
        self.is_certain.get()
    }
}
