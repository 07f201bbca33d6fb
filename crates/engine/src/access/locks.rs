//! The locks of one command, transaction or script.
//!
//! Several slots are locked in ascending order by trying. A session that fails gives back all it
//! has and parks at the one that was taken: no session waits while it has a slot locked. After some
//! failures it takes the server's single token, with which it tries for longer, and after some more
//! it stops all other workers while it locks its slots. Scripts that go on to their end whatever
//! they meet are the exception: see `wait_for`.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;

use smallvec::SmallVec;
use tidemill_store::gate::{ClosedGate, Seat};
use tidemill_store::limits::SLOT_COUNT;
use tidemill_store::{DetachedLock, EntryRef, Pin, SlotLock, SlotNumber};

use crate::expiry_clock::ExpiryClock;
use crate::limits::{SLOT_SET_MIN, SLOT_WAIT_US_MAX, SLOT_WAITS_MAX, SPIN_ROUNDS};
use crate::shared::Shared;
use crate::slots::parking::{Ticket, WaitTarget};
use crate::slots::registry::SlotRegistry;
use crate::slots::slot_set::SlotSet;
use crate::slots::token::{DetachedToken, TokenGuard};
use crate::worker::Worker;
use crate::worker::session::Session;

/// Slots to lock, ascending and without repetition.
pub type Slots = SmallVec<[SlotNumber; 4]>;

/// Sorts slots and removes repetitions.
#[must_use]
pub fn ascending(slots: impl IntoIterator<Item = SlotNumber>) -> Slots {
    let mut slots: Slots = slots.into_iter().collect();
    if slots.len() >= SLOT_SET_MIN {
        return SlotSet::new(slots).iter().collect();
    }
    slots.sort_unstable();
    slots.dedup();
    slots
}

/// Locks that are held, by ascending slot. Dropping it releases them, the token last.
#[derive(Debug, Default)]
pub struct LockSet<'k> {
    locks: SmallVec<[SlotLock<'k, SlotRegistry>; 1]>,
    /// The index of the lock that was asked for last: it is asked for several times in a row.
    last: usize,
    /// The slots of `locks` by their order, when they are many.
    ranks: Option<Box<SlotSet>>,
    held: bool,
    /// True if nobody else runs.
    alone: bool,
    /// The time by which everything under these locks is judged, once something was; what was
    /// locked before the last one may have an earlier one.
    clock: Cell<Option<ExpiryClock>>,
    /// Clocks of slots that were locked before others, if something was judged by them.
    earlier: Option<Box<EarlierClocks>>,
    token: Option<TokenGuard<'k>>,
}

/// Clocks by which something was judged before more slots were locked. What they showed alive
/// stays so for these locks: else a script would see a key go between two of its commands.
#[derive(Debug, Default)]
struct EarlierClocks {
    clocks: Vec<ExpiryClock>,
    /// Number of clocks that were there when a slot was locked; none for the first slots.
    joined: BTreeMap<SlotNumber, usize>,
}

impl EarlierClocks {
    /// The clock of a slot, unless it is the present one.
    fn of(&self, slot: SlotNumber) -> Option<ExpiryClock> {
        let index = self.joined.get(&slot).copied().unwrap_or(0);
        self.clocks.get(index).copied()
    }

    /// A slot is locked after these clocks.
    fn join(&mut self, slot: SlotNumber) {
        self.joined.insert(slot, self.clocks.len());
    }
}

/// Locks of a unit between two turns: see [`LockSet::detach`].
#[derive(Debug)]
pub(crate) struct DetachedLocks {
    locks: Vec<DetachedLock>,
    held: bool,
    clock: Option<ExpiryClock>,
    earlier: Option<Box<EarlierClocks>>,
    token: DetachedToken,
}

impl DetachedLocks {
    /// The locks again.
    pub(crate) fn attach(self, shared: &Shared) -> LockSet<'_> {
        LockSet {
            locks: self.locks.into_iter().map(|lock| shared.keyspace.attach(lock)).collect(),
            held: self.held,
            clock: Cell::new(self.clock),
            earlier: self.earlier,
            token: Some(shared.token.attach(self.token)),
            ..LockSet::default()
        }
    }
}

impl<'k> LockSet<'k> {
    /// Detaches all locks and the token: they stay taken until they are attached again.
    ///
    /// # Panics
    ///
    /// Without the token: who waits for a slot must not wait for somebody who waits.
    pub(crate) fn detach(mut self) -> DetachedLocks {
        let token = self.token.take().expect("only the holder of the token keeps its locks");
        DetachedLocks {
            locks: self.locks.drain(..).map(SlotLock::detach).collect(),
            held: self.held,
            clock: self.clock.get(),
            earlier: self.earlier.take(),
            token: token.detach(),
        }
    }

    /// No lock yet of the slots that will be locked.
    fn for_slots(slots: &Slots) -> LockSet<'k> {
        let is_many = slots.len() >= SLOT_SET_MIN;
        LockSet {
            locks: SmallVec::with_capacity(slots.len()),
            ranks: is_many.then(|| Box::new(SlotSet::new(slots.iter().copied()))),
            ..LockSet::default()
        }
    }

    /// Locks one slot, spinning for a moment if it is taken.
    ///
    /// # Errors
    ///
    /// Target to wait for.
    #[inline]
    pub fn one(shared: &'k Shared, slot: SlotNumber) -> Result<LockSet<'k>, WaitTarget> {
        let lock = spin(|| shared.keyspace.try_lock(slot)).ok_or(WaitTarget::Slot(slot))?;
        let mut locks = SmallVec::new();
        locks.push(lock);
        Ok(LockSet { locks, ..LockSet::default() })
    }

    /// Locks several slots by trying in ascending order; gives all back when one is taken.
    ///
    /// # Errors
    ///
    /// Target to wait for.
    pub fn several(shared: &'k Shared, slots: &Slots) -> Result<LockSet<'k>, WaitTarget> {
        let mut set = LockSet::for_slots(slots);
        for &slot in slots {
            // Spinning is for the first only: the others are waited for with nothing in hand.
            let lock = if set.locks.is_empty() {
                spin(|| shared.keyspace.try_lock(slot))
            } else {
                shared.keyspace.try_lock(slot)
            };
            set.locks.push(lock.ok_or(WaitTarget::Slot(slot))?);
        }
        Ok(set)
    }

    /// Locks several slots with the token: tries for each some microseconds long, and gives all
    /// back, the token too, when one stays taken. A session to which that happened
    /// [`SLOT_WAITS_MAX`] times stops all other workers while it locks them: then none is taken.
    ///
    /// # Errors
    ///
    /// Target to wait for.
    pub fn with_token(
        shared: &'k Shared,
        slots: &Slots,
        contender: &Contender<'_>,
    ) -> Result<LockSet<'k>, WaitTarget> {
        let token = contender.take_token(shared)?;
        let gate = contender.needs_gate().then(|| contender.close_gate(shared)).transpose()?;
        let mut set = LockSet::for_slots(slots);
        for &slot in slots {
            let lock = spin(|| shared.keyspace.try_lock(slot));
            set.locks.push(lock.ok_or(WaitTarget::Slot(slot))?);
        }
        drop(gate);
        set.token = Some(token);
        Ok(set)
    }

    /// No locks at all: for the time that the gate is closed and nobody else runs, all slots are
    /// free to be locked.
    #[must_use]
    pub fn all(shared: &'k Shared, slots: &Slots) -> Option<LockSet<'k>> {
        let locks: Option<SmallVec<_>> =
            slots.iter().map(|&slot| shared.keyspace.try_lock(slot)).collect();
        locks.map(|locks| LockSet { locks, alone: true, ..LockSet::for_slots(slots) })
    }

    /// No lock, while the gate is closed and nobody else runs.
    pub(crate) fn alone() -> LockSet<'k> {
        LockSet { alone: true, ..LockSet::default() }
    }

    /// Slots that are locked.
    pub(crate) fn slots(&self) -> impl ExactSizeIterator<Item = SlotNumber> + use<'_, 'k> {
        self.locks.iter().map(SlotLock::slot)
    }

    /// Lets it wait for slots that it adds.
    pub(crate) fn give_token(&mut self, token: TokenGuard<'k>) {
        debug_assert!(self.token.is_none(), "there is one token");
        self.token = Some(token);
    }

    /// Takes the token out.
    pub(crate) fn take_token(&mut self) -> Option<TokenGuard<'k>> {
        self.token.take()
    }

    /// Marks all slots held: what follows is one change to readers.
    pub fn mark_held(&mut self) {
        self.locks.iter_mut().for_each(SlotLock::mark_held);
        self.held = true;
    }

    /// Pins the current versions of all collections in its slots; none without slots.
    pub(crate) fn pin_all(&mut self) -> Option<Pin> {
        self.locks.first_mut().map(SlotLock::pin_all)
    }

    /// Adds a slot without waiting, if it is free or locked by this set already; tells whether it
    /// is locked now.
    #[must_use]
    pub fn try_add(&mut self, shared: &'k Shared, slot: SlotNumber) -> bool {
        let Err(index) = self.position(slot) else { return true };
        let Some(lock) = shared.keyspace.try_lock(slot) else { return false };
        self.insert(index, lock);
        true
    }

    /// Locks all slots that it has not locked yet, while the gate is closed: then others may run
    /// again.
    pub(crate) fn lock_all(&mut self, shared: &'k Shared, _alone: &ClosedGate<'_>) {
        self.end_clock();
        let mut locked = std::mem::take(&mut self.locks).into_iter().peekable();
        let mut all = SmallVec::with_capacity(SLOT_COUNT);
        for slot in SlotNumber::all() {
            let lock = locked.next_if(|lock| lock.slot() == slot).unwrap_or_else(|| {
                let lock = shared.keyspace.try_lock(slot);
                let mut lock = lock.expect("nobody holds a slot while all others are stopped");
                if self.held {
                    lock.mark_held();
                }
                if let Some(earlier) = &mut self.earlier {
                    earlier.join(slot);
                }
                lock
            });
            all.push(lock);
        }
        self.locks = all;
        (self.last, self.ranks, self.alone) = (0, None, false);
    }

    fn insert(&mut self, index: usize, mut lock: SlotLock<'k, SlotRegistry>) {
        if self.held {
            lock.mark_held();
        }
        self.end_clock();
        if let Some(earlier) = &mut self.earlier {
            earlier.join(lock.slot());
        }
        self.locks.insert(index, lock);
        self.ranks = None;
    }

    /// More slots are locked: their entries are judged by a clock taken behind their locks. What
    /// was judged before stays right: its slot is locked, so nobody has answered otherwise.
    fn end_clock(&mut self) {
        if let Some(clock) = self.clock.take() {
            self.earlier.get_or_insert_default().clocks.push(clock);
        }
    }

    /// Adds a slot, trying for some microseconds.
    ///
    /// # Errors
    ///
    /// Target to wait for with no lock.
    pub fn add_without_waiting(
        &mut self,
        shared: &'k Shared,
        slot: SlotNumber,
    ) -> Result<(), WaitTarget> {
        let Err(index) = self.position(slot) else { return Ok(()) };
        let lock = spin(|| shared.keyspace.try_lock(slot)).ok_or(WaitTarget::Slot(slot))?;
        self.insert(index, lock);
        Ok(())
    }

    /// Adds a slot; waits for it if this set may: with the token in hand, or while nobody else
    /// runs.
    ///
    /// # Errors
    ///
    /// Target to wait for with no lock.
    pub fn add(&mut self, shared: &'k Shared, slot: SlotNumber) -> Result<(), WaitTarget> {
        let Err(index) = self.position(slot) else { return Ok(()) };
        let lock = match (spin(|| shared.keyspace.try_lock(slot)), &self.token) {
            (Some(lock), _) => lock,
            (None, Some(token)) => wait_for(shared, slot, token),
            // While the gate is closed only this set has locks, which does not have this
            // one.
            (None, None) if self.alone => unreachable!("nobody else runs"),
            (None, None) => return Err(WaitTarget::Slot(slot)),
        };
        self.insert(index, lock);
        Ok(())
    }

    /// The time from which new expiries are counted, and by which those under the lock that was
    /// taken last are judged: one moment behind it. It costs a full fence, so it is taken when
    /// something that expires is met.
    #[must_use]
    pub fn expiry_clock(&self, shared: &Shared, worker: &Worker) -> ExpiryClock {
        self.clock.get().unwrap_or_else(|| {
            let clock = worker.locked_expiry_clock(shared);
            self.clock.set(Some(clock));
            clock
        })
    }

    /// The time by which expiries of a key, whose slot is locked, are judged: one moment behind its
    /// lock.
    #[must_use]
    pub(crate) fn clock_of_key(&self, shared: &Shared, worker: &Worker, key: &[u8]) -> ExpiryClock {
        let earlier = self.earlier.as_ref().and_then(|clocks| clocks.of(SlotNumber::of_key(key)));
        earlier.unwrap_or_else(|| self.expiry_clock(shared, worker))
    }

    /// As [`clock_of_key`](Self::clock_of_key), of all keys of a slot, for who runs alone. In a
    /// slot that is not locked others may have seen until then what has expired.
    #[must_use]
    pub(crate) fn clock_of_slot(
        &self,
        shared: &Shared,
        worker: &Worker,
        slot: SlotNumber,
    ) -> ExpiryClock {
        if !self.alone && self.position(slot).is_err() {
            return worker.locked_expiry_clock(shared);
        }
        let earlier = self.earlier.as_ref().and_then(|clocks| clocks.of(slot));
        earlier.unwrap_or_else(|| self.expiry_clock(shared, worker))
    }

    /// True if the time of an entry, whose slot is locked, is over. Then it is for everybody.
    pub(crate) fn is_over(&self, shared: &Shared, worker: &Worker, entry: EntryRef<'_>) -> bool {
        let Some(at_ms) = entry.expires_at_ms() else { return false };
        let is_over = self.clock_of_key(shared, worker, entry.key()).has_passed(at_ms);
        if is_over {
            shared.saw_expired(at_ms);
        }
        is_over
    }

    /// Lets the clock go on: what follows is judged by the time that it is then.
    pub fn release_clock(&mut self) {
        self.clock.set(None);
        self.earlier = None;
    }

    /// Number of locked slots.
    #[must_use]
    pub fn len(&self) -> usize {
        self.locks.len()
    }

    /// True if no slot is locked.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.locks.is_empty()
    }

    /// True if its slots are marked held.
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.held
    }

    /// True if nobody else runs while it exists.
    #[must_use]
    pub fn is_alone(&self) -> bool {
        self.alone
    }

    /// True if it has the token.
    #[must_use]
    pub fn has_token(&self) -> bool {
        self.token.is_some()
    }

    fn position(&self, slot: SlotNumber) -> Result<usize, usize> {
        match self.ranks.as_ref().and_then(|ranks| ranks.rank(slot)) {
            Some(index) => Ok(index),
            None => self.locks.binary_search_by_key(&slot, SlotLock::slot),
        }
    }

    /// The lock of a slot, if it is in the set.
    #[must_use]
    #[inline]
    pub fn lock(&mut self, slot: SlotNumber) -> Option<&mut SlotLock<'k, SlotRegistry>> {
        if self.locks.get(self.last).is_none_or(|lock| lock.slot() != slot) {
            self.last = self.position(slot).ok()?;
        }
        Some(&mut self.locks[self.last])
    }
}

/// A session that locks slots with the token, and how often it has waited in vain.
#[derive(Clone, Copy, Debug)]
pub struct Contender<'s> {
    /// Its place in a line.
    pub ticket: Ticket,
    /// Seat of its worker.
    pub seat: &'s Rc<Seat>,
    /// Number of times that it waited for a slot.
    pub slot_waits: u32,
    /// Vain attempts to close the gate.
    pub gate_attempts: u32,
}

impl<'s> Contender<'s> {
    /// A session of a worker, with the worker's seat.
    pub(crate) fn of(session: &Session, worker: usize, seat: &'s Rc<Seat>) -> Contender<'s> {
        Contender {
            ticket: session.ticket(worker),
            seat,
            slot_waits: session.slot_waits(),
            gate_attempts: session.gate_attempts(),
        }
    }

    /// True if waiting for slots did not help.
    pub(crate) fn needs_gate(&self) -> bool {
        self.slot_waits >= SLOT_WAITS_MAX
    }

    /// Takes the token.
    ///
    /// # Errors
    ///
    /// It is taken: the session is in the queue for it.
    pub(crate) fn take_token<'k>(&self, shared: &'k Shared) -> Result<TokenGuard<'k>, WaitTarget> {
        shared.token.try_take(self.ticket, self.seat).ok_or(WaitTarget::Token)
    }

    /// Stops all other workers; to be called with the token.
    ///
    /// # Errors
    ///
    /// They did not stop in time.
    pub(crate) fn close_gate<'k>(&self, shared: &'k Shared) -> Result<ClosedGate<'k>, WaitTarget> {
        shared.close_gate(self.seat, self.gate_attempts)
    }
}

/// Tries some microseconds long.
#[inline]
pub(crate) fn spin<T>(mut attempt: impl FnMut() -> Option<T>) -> Option<T> {
    for _ in 0..SPIN_ROUNDS {
        if let Some(success) = attempt() {
            return Some(success);
        }
        std::hint::spin_loop();
    }
    None
}

/// Waits for a slot, within the worker. Only for a script that has the token and cannot be taken
/// back, at a key that it did not declare: it can neither begin anew nor be suspended within a
/// command. All others let go of slots, and park.
///
/// The holder of the slot gives it back, but another one may be quicker than this thread again and
/// again. So when that lasts, all others are stopped: at their next boundary at the latest they
/// hold nothing. The holder of the token is the only one who may close the gate, and nobody waits
/// for it within a command.
fn wait_for<'k>(
    shared: &'k Shared,
    slot: SlotNumber,
    token: &TokenGuard<'_>,
) -> SlotLock<'k, SlotRegistry> {
    let try_lock = || shared.keyspace.try_lock(slot);
    let until_us = shared.clock.monotonic_us() + SLOT_WAIT_US_MAX;
    while shared.clock.monotonic_us() < until_us {
        if let Some(lock) = spin(try_lock) {
            return lock;
        }
        std::thread::yield_now();
    }
    let gate = shared.keyspace.close_gate(token.seat(), || false);
    let lock = try_lock().expect("nobody holds a slot while all others are stopped");
    drop(gate);
    lock
}
