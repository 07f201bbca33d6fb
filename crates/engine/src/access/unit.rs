//! Unit of execution: what becomes visible, and is journaled, as one.
//!
//! A unit is a command under locks, a transaction, the command of a blocked client that is served,
//! or a deletion of something expired. It owns its locks and whatever is noted under them until its
//! end: changes, effects, keys that became ready, replies to clients that were served. Nothing of
//! it is kept in the worker, so several may exist at once and one may outlive a turn.
//!
//! **Its number in the journal** is taken once it has its last lock and before anything of it can
//! be seen; no slot is added afterwards. A unit whose slots are held, or that runs with all others
//! stopped, is seen by nobody before its slots are given back: its number is taken then. Any other
//! is seen with its first publication: its number is taken just before.
//!
//! A blocked client is served by a unit of its own, with a number of its own. It takes over the
//! locks of the unit that served it ([`Unit::succeed`]) and may add to them.

use tidemill_resp::request::ArgumentView;
use tidemill_store::gate::ClosedGate;
use tidemill_store::{EntryRef, Pin, SlotLock, SlotNumber};

use crate::access::locks::{DetachedLocks, LockSet};
use crate::access::outbox::Outbox;
use crate::commit::{Effects, Journal, Record, RecordNumber};
use crate::expiry_clock::ExpiryClock;
use crate::limits::HELD_SAMPLE;
use crate::shared::Shared;
use crate::slots::mailbox::Message;
use crate::slots::parking::WaitTarget;
use crate::slots::ready::{ReadyKey, ReadyKeys};
use crate::slots::registry::SlotRegistry;
use crate::slots::token::TokenGuard;
use crate::worker::Worker;

/// A unit that is executed. Its end is `commit`; one that is dropped before must not have changed
/// anything.
#[derive(Debug)]
pub struct Unit<'k> {
    locks: LockSet<'k>,
    /// Changes of the present command.
    changes: u64,
    /// Notes of units that are journaled or serve blocked clients. Apart, because every command
    /// pays for the size of a unit.
    notes: Option<Box<Notes>>,
}

/// Notes that most units do without. Their buffers go from unit to unit of a worker.
#[derive(Debug, Default)]
struct Notes {
    /// True if the journal was switched on when the unit began.
    is_journaled: bool,
    number: Option<RecordNumber>,
    effects: Effects,
    ready: ReadyKeys,
    /// Replies to served clients, with their workers.
    served: Vec<(usize, Message)>,
    /// Records of concealed units that are done, by the order of their numbers to come.
    concealed: Vec<Record>,
    /// Messages and events that wait for the end; none if they are told at once.
    outbox: Option<Outbox>,
    /// Time since which its slots are held, monotonic ns, if that is timed.
    held_since_ns: Option<u64>,
}

impl<'k> Unit<'k> {
    /// A unit that begins under these locks.
    #[inline(always)]
    pub(crate) fn new(shared: &'k Shared, worker: &Worker, locks: LockSet<'k>) -> Unit<'k> {
        let notes = shared.sinks.journal().map(|_| Notes::journaled(worker));
        Unit { locks, changes: 0, notes }
    }

    fn notes(&mut self) -> &mut Notes {
        self.notes.get_or_insert_default()
    }

    /// True if nobody sees its changes before its locks are given back.
    fn is_concealed(&self) -> bool {
        self.locks.is_held() || self.locks.is_alone()
    }

    /// Marks its slots held: readers see its changes at once, with its end.
    pub(crate) fn mark_held(&mut self) {
        self.locks.mark_held();
    }

    /// As [`Unit::mark_held`], and times some of these units.
    pub(crate) fn mark_held_timed(&mut self, shared: &'k Shared, worker: &Worker) {
        if self.locks.is_held() {
            return;
        }
        let stats = worker.stats(shared);
        if stats.held_units.value().is_multiple_of(HELD_SAMPLE) && worker.settings.latency_tracking
        {
            self.notes().held_since_ns = Some(shared.clock.monotonic_ns());
        }
        stats.held_units.add(1);
        self.locks.mark_held();
    }

    /// The lock of a slot, if it has that.
    #[inline]
    pub(crate) fn lock(&mut self, slot: SlotNumber) -> Option<&mut SlotLock<'k, SlotRegistry>> {
        self.locks.lock(slot)
    }

    /// The lock of a slot, for a change that is published next.
    #[inline]
    pub(crate) fn lock_to_publish(
        &mut self,
        shared: &Shared,
        slot: SlotNumber,
    ) -> Option<&mut SlotLock<'k, SlotRegistry>> {
        if !self.is_concealed()
            && let Some(notes) = &mut self.notes
        {
            notes.take_number(shared, &self.locks);
        }
        self.locks.lock(slot)
    }

    /// Pins the current versions of all collections in its slots; none without slots.
    pub(crate) fn pin_all(&mut self) -> Option<Pin> {
        self.locks.pin_all()
    }

    /// Adds a slot, trying for some microseconds.
    ///
    /// # Errors
    ///
    /// Target to wait for with no lock.
    pub(crate) fn add_without_waiting(
        &mut self,
        shared: &'k Shared,
        slot: SlotNumber,
    ) -> Result<(), WaitTarget> {
        self.assert_grows();
        self.locks.add_without_waiting(shared, slot)
    }

    /// Adds a slot; waits for it if the locks may: see [`LockSet::add`].
    ///
    /// # Errors
    ///
    /// Target to wait for with no lock.
    pub(crate) fn add(&mut self, shared: &'k Shared, slot: SlotNumber) -> Result<(), WaitTarget> {
        self.assert_grows();
        self.locks.add(shared, slot)
    }

    /// Adds a slot without waiting; tells whether the unit has it now.
    #[must_use]
    pub(crate) fn try_add(&mut self, shared: &'k Shared, slot: SlotNumber) -> bool {
        self.assert_grows();
        self.locks.try_add(shared, slot)
    }

    /// A slot that joins a numbered unit may bring along a record of a higher number, which this
    /// one's would then precede.
    fn assert_grows(&self) {
        let has_number = self.notes.as_ref().is_some_and(|notes| notes.number.is_some());
        assert!(!has_number, "a unit with a number takes no further slot");
    }

    /// Locks all slots that it has not locked yet: see [`LockSet::lock_all`].
    pub(crate) fn lock_all(&mut self, shared: &'k Shared, alone: &ClosedGate<'_>) {
        self.assert_grows();
        self.locks.lock_all(shared, alone);
    }

    /// Slots that it has locked.
    pub(crate) fn slots(&self) -> impl ExactSizeIterator<Item = SlotNumber> + use<'_, 'k> {
        self.locks.slots()
    }

    /// True if it may wait for further slots.
    #[must_use]
    pub(crate) fn may_wait(&self) -> bool {
        self.locks.has_token() || self.locks.is_alone()
    }

    /// Lets it wait for further slots from now on.
    pub(crate) fn give_token(&mut self, token: TokenGuard<'k>) {
        self.locks.give_token(token);
    }

    /// Takes the token out, for who has to give it back later than the locks.
    pub(crate) fn take_token(&mut self) -> Option<TokenGuard<'k>> {
        self.locks.take_token()
    }

    /// Ends a concealed unit whose changes were taken back: nothing of it is journaled, and nobody
    /// is served.
    pub(crate) fn abandon(mut self) {
        debug_assert!(self.notes.as_ref().is_none_or(|notes| notes.number.is_none()));
        self.notes = None;
    }

    /// Lets messages and events wait for the end of the unit, which may be taken back before.
    pub(crate) fn defer_messages(&mut self) {
        self.notes().outbox.get_or_insert_default();
    }

    /// Messages and events that wait; none if they are told at once.
    #[inline]
    pub(crate) fn outbox(&mut self) -> Option<&mut Outbox> {
        self.notes.as_mut()?.outbox.as_mut()
    }

    /// Tells what waits: the unit is not taken back any more. From then on messages and events are
    /// told at once.
    #[inline]
    pub(crate) fn deliver_messages(&mut self, shared: &Shared, worker: &Worker) {
        if let Some(notes) = &mut self.notes
            && let Some(mut outbox) = notes.outbox.take()
        {
            outbox.deliver(shared, worker);
        }
    }

    /// Clock of everything under its locks: see [`LockSet::expiry_clock`].
    #[must_use]
    pub(crate) fn expiry_clock(&self, shared: &Shared, worker: &Worker) -> ExpiryClock {
        self.locks.expiry_clock(shared, worker)
    }

    /// Clock of a key, whose slot is locked: see [`LockSet::clock_of_key`].
    #[must_use]
    pub(crate) fn clock_of_key(&self, shared: &Shared, worker: &Worker, key: &[u8]) -> ExpiryClock {
        self.locks.clock_of_key(shared, worker, key)
    }

    /// Clock of all keys of a slot, for who runs alone: see [`LockSet::clock_of_slot`].
    #[must_use]
    pub(crate) fn clock_of_slot(
        &self,
        shared: &Shared,
        worker: &Worker,
        slot: SlotNumber,
    ) -> ExpiryClock {
        self.locks.clock_of_slot(shared, worker, slot)
    }

    /// True if an entry, whose slot is locked, has expired: see [`LockSet::is_over`].
    pub(crate) fn is_over(&self, shared: &Shared, worker: &Worker, entry: EntryRef<'_>) -> bool {
        self.locks.is_over(shared, worker, entry)
    }

    /// Lets the clock go on: whatever follows is judged by the time that it is then.
    pub(crate) fn release_clock(&mut self) {
        self.locks.release_clock();
    }

    /// True if its effects are journaled.
    #[must_use]
    pub(crate) fn is_journaled(&self) -> bool {
        self.notes.as_ref().is_some_and(|notes| notes.is_journaled)
    }

    /// Effects of its commands; none to be noted where it is not journaled.
    pub(crate) fn effects(&mut self) -> Option<&mut Effects> {
        let notes = self.notes.as_mut()?;
        notes.is_journaled.then_some(&mut notes.effects)
    }

    /// Notes changes of the present command.
    #[inline(always)]
    pub(crate) fn note_changes(&mut self, count: u64) {
        self.changes += count;
    }

    /// Number of changes of the present command.
    #[must_use]
    pub(crate) fn changes(&self) -> u64 {
        self.changes
    }

    /// Another number for the changes of the present command.
    pub(crate) fn set_changes(&mut self, count: u64) {
        self.changes = count;
    }

    /// Notes a key that somebody waits for.
    #[cold]
    pub(crate) fn note_ready(&mut self, key: ReadyKey) {
        self.notes().ready.push(key);
    }

    /// Keys that became ready, in the order in which they did.
    pub(crate) fn ready(&self) -> Option<&ReadyKeys> {
        self.notes.as_ref().map(|notes| &notes.ready).filter(|ready| !ready.is_empty())
    }

    /// The key at `index` of those that became ready, whose waiters are looked at now.
    pub(crate) fn begin_ready(&mut self, index: usize) -> Option<ReadyKey> {
        self.notes.as_mut()?.ready.begin(index)
    }

    /// Forgets the keys that became ready: their waiters were looked at.
    pub(crate) fn clear_ready(&mut self) {
        self.notes().ready.clear();
    }

    /// Notes a reply to a client that was served, and the client's worker.
    pub(crate) fn note_served(&mut self, worker: usize, message: Message) {
        self.notes().served.push((worker, message));
    }

    /// End of a command of the unit: its changes are counted, its effect is noted.
    #[inline]
    pub(crate) fn end_command(
        &mut self,
        shared: &Shared,
        worker: &mut Worker,
        database: usize,
        args: &ArgumentView<'_>,
    ) {
        let changes = std::mem::take(&mut self.changes);
        if let Some(effects) = self.effects() {
            match shared.commands.own_name(args.get(0)) {
                None => effects.end_command(database, args.iter(), changes),
                Some(name) => {
                    let name = std::iter::once(name.as_bytes());
                    effects.end_command(database, name.chain(args.iter().skip(1)), changes);
                }
            }
        }
        if changes > 0 {
            worker.count_changes(shared, changes);
        }
    }

    /// Ends the unit without giving its locks back: another one begins under them. The record of
    /// one that was seen goes to the journal at once, that of a concealed one with its locks.
    #[inline]
    pub(crate) fn succeed(&mut self, shared: &Shared, worker: &Worker) {
        self.changes = 0;
        let is_concealed = self.is_concealed();
        if let Some(notes) = &mut self.notes {
            notes.end_record(shared, worker.index, is_concealed);
        }
    }

    /// Ends the last unit under these locks and gives them back. Returns the replies to the clients
    /// that were served, if any may have been: they are to be sent then.
    #[inline]
    pub(crate) fn release(
        mut self,
        shared: &Shared,
        worker: &Worker,
    ) -> Option<Vec<(usize, Message)>> {
        self.succeed(shared, worker);
        // Before the first slot is unmarked: nobody has seen any of it yet.
        let Unit { notes, locks, .. } = &mut self;
        notes.take().map(|notes| notes.end(shared, worker, locks))
    }
}

/// A unit between two turns of its session: see [`Unit::suspend`].
#[derive(Debug)]
pub(crate) struct SuspendedUnit {
    locks: DetachedLocks,
    effects: Effects,
    ready: ReadyKeys,
    outbox: Option<Outbox>,
    held_since_ns: Option<u64>,
}

impl SuspendedUnit {
    /// Goes on with the unit. The journal is as it was: it is switched with the gate closed, which
    /// needs the token.
    pub(crate) fn resume<'k>(self, shared: &'k Shared, worker: &Worker) -> Unit<'k> {
        let mut unit = Unit::new(shared, worker, self.locks.attach(shared));
        let has_notes = !self.ready.is_empty() || self.outbox.is_some();
        if unit.notes.is_some() || has_notes || self.held_since_ns.is_some() {
            let notes = unit.notes();
            notes.held_since_ns = self.held_since_ns;
            notes.effects = self.effects;
            notes.ready = self.ready;
            notes.outbox = self.outbox;
        }
        unit
    }
}

impl Unit<'_> {
    /// Puts a unit with the token aside between two of its commands: its slots stay locked.
    ///
    /// # Panics
    ///
    /// Without the token, or with a number.
    pub(crate) fn suspend(self) -> SuspendedUnit {
        let notes = self.notes.map(|notes| *notes).unwrap_or_default();
        assert!(notes.number.is_none() && notes.served.is_empty() && notes.concealed.is_empty());
        let Notes { effects, ready, outbox, held_since_ns, .. } = notes;
        SuspendedUnit { locks: self.locks.detach(), effects, ready, outbox, held_since_ns }
    }
}

impl Notes {
    /// Notes of a unit that is journaled, in the memory of an earlier one's if there is some.
    #[cold]
    fn journaled(worker: &Worker) -> Box<Notes> {
        let mut notes: Box<Notes> = worker.spare_notes.take();
        notes.is_journaled = true;
        notes
    }

    /// Takes the number of a unit that is seen with its next publication.
    #[cold]
    fn take_number(&mut self, shared: &Shared, locks: &LockSet<'_>) {
        if let Some(journal) = self.journal(shared)
            && self.number.is_none()
        {
            let number = journal.number();
            self.number = Some(number);
            note_number(shared, locks, number);
        }
    }

    /// The journal if it was switched on when the unit began; it may be off by now.
    fn journal<'s>(&self, shared: &'s Shared) -> Option<&'s dyn Journal> {
        shared.sinks.installed_journal().filter(|_| self.is_journaled)
    }

    #[cold]
    fn end_record(&mut self, shared: &Shared, worker: usize, is_concealed: bool) {
        let Some(journal) = self.journal(shared) else { return };
        let record = self.effects.record();
        match self.number.take() {
            Some(number) => journal.append(worker, number, record),
            None if record.is_empty() => {}
            None => {
                debug_assert!(is_concealed, "a change that was seen has a number");
                self.concealed.push(std::mem::take(record));
            }
        }
    }

    /// Numbers and appends the records of concealed units; returns the replies to served clients.
    #[cold]
    fn end(
        mut self: Box<Self>,
        shared: &Shared,
        worker: &Worker,
        locks: &LockSet<'_>,
    ) -> Vec<(usize, Message)> {
        if let Some(since_ns) = self.held_since_ns.take() {
            let held_ns = shared.clock.monotonic_ns().saturating_sub(since_ns);
            shared.stats[worker.index].spreads.held_ns.record(held_ns);
        }
        if let Some(journal) = self.journal(shared) {
            let mut last = None;
            for mut record in self.concealed.drain(..) {
                let number = journal.number();
                journal.append(worker.index, number, &mut record);
                last = Some(number);
            }
            if let Some(number) = last {
                note_number(shared, locks, number);
            }
        }
        let served = std::mem::take(&mut self.served);
        self.keep_for_next(worker);
        served
    }

    /// Leaves the memory to the worker's next unit, without anything of this one, and not more of
    /// it than most units take.
    fn keep_for_next(mut self: Box<Self>, worker: &Worker) {
        let Notes { is_journaled, number, effects, ready, served, concealed, outbox, .. } =
            &mut *self;
        debug_assert!(number.is_none() && served.is_empty() && concealed.is_empty());
        (*is_journaled, *outbox) = (false, None);
        concealed.shrink_to(0);
        if !ready.is_empty() {
            *ready = ReadyKeys::default();
        }
        if effects.clear_for_next() {
            worker.spare_notes.keep(self);
        }
    }
}

/// Lets the slots of a unit tell its number, before anything of it can be seen: its locks are all
/// that it will have.
fn note_number(shared: &Shared, locks: &LockSet<'_>, number: RecordNumber) {
    if locks.is_alone() {
        shared.slot_records.note_any(number);
    } else {
        shared.slot_records.note(locks.slots(), number);
    }
}
