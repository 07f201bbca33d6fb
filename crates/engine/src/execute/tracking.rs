//! Registration of what clients read that keep copies of it (`CLIENT TRACKING`), and the bound of
//! what is registered.
//!
//! A key is registered under its slot's lock before it is read. One who listens to a prefix, whose
//! keys are not registered, takes the lock too: a change that did not find the prefix is
//! seen by the read then.

use tidemill_resp::request::ArgumentView;
use tidemill_store::SlotNumber;
use tidemill_store::limits::SLOT_COUNT;

use super::executor::Executor;
use crate::access::locks::LockSet;
use crate::access::unit::Unit;
use crate::command::{Command, Flags, Scope};
use crate::limits::{TRACKED_KEYS_EVICTED_MAX, TRACKED_KEYS_LOCKED_MAX, TRACKED_KEYS_WALKED_MAX};
use crate::shared::Shared;
use crate::slots::parking::WaitTarget;
use crate::slots::registry::SlotRegistry;
use crate::slots::waiter::Waiter;
use crate::worker::Worker;
use crate::worker::session::SessionTracking;

/// True if what a command reads is registered. What a script reads, its commands tell.
pub(super) fn is_registered(command: &Command) -> bool {
    command.flags.contains(Flags::READONLY) && command.scope != Scope::Script
}

impl<E> Executor<'_, '_, E> {
    /// Registers the keys that a command is about to read, each under the lock of its slot.
    ///
    /// # Errors
    ///
    /// Slot to wait for. The command begins anew then.
    #[cold]
    pub(super) fn register_reads(
        &mut self,
        command: &'static Command,
        args: &ArgumentView<'_>,
    ) -> Result<(), WaitTarget> {
        let Some(tracking) = self.session.tracking.as_deref().filter(|_| is_registered(command))
        else {
            return Ok(());
        };
        for &position in &command.key_positions(args).unwrap_or_default() {
            let key = args.get(position);
            let slot = SlotNumber::of_key(key);
            let mut locks = LockSet::one(self.shared, slot)?;
            let lock = locks.lock(slot).expect("it has just been locked");
            register((self.shared, self.worker), tracking, lock.side(), key);
        }
        Ok(())
    }

    /// As [`Executor::register_reads`], for a command of a unit that has the slots locked.
    #[inline]
    pub(super) fn register_inner_reads(
        &mut self,
        unit: &mut Unit<'_>,
        command: &'static Command,
        args: &ArgumentView<'_>,
    ) {
        if self.session.tracking.is_some() {
            self.register_inner_reads_now(unit, command, args);
        }
    }

    #[cold]
    fn register_inner_reads_now(
        &mut self,
        unit: &mut Unit<'_>,
        command: &'static Command,
        args: &ArgumentView<'_>,
    ) {
        let Some(tracking) = self.session.tracking.as_deref().filter(|_| is_registered(command))
        else {
            return;
        };
        for &position in &command.key_positions(args).unwrap_or_default() {
            let key = args.get(position);
            if let Some(lock) = unit.lock(SlotNumber::of_key(key)) {
                register((self.shared, self.worker), tracking, lock.side(), key);
            }
        }
    }
}

fn register(
    (shared, worker): (&Shared, &mut Worker),
    tracking: &SessionTracking,
    side: &mut SlotRegistry,
    key: &[u8],
) {
    let Some(tracker) = tracking.of_reads() else { return };
    let totals = &shared.tracking.totals;
    side.tracked.track(totals, key, tracker);
    evict_one(shared, worker, side);
}

/// Registers the keys of a blocked client that its command is about to read in its place.
pub(super) fn register_waiter(shared: &Shared, unit: &mut Unit<'_>, waiter: &Waiter) {
    let Some(tracker) = &waiter.tracker else { return };
    let args = waiter.arguments.view();
    for &position in &waiter.command.key_positions(&args).unwrap_or_default() {
        let key = args.get(position);
        if let Some(lock) = unit.lock(SlotNumber::of_key(key)) {
            lock.side().tracked.track(&shared.tracking.totals, key, tracker);
        }
    }
}

/// Takes the oldest key of a slot out if there are too many in all. Tells whether it did.
fn evict_one(shared: &Shared, worker: &mut Worker, side: &mut SlotRegistry) -> bool {
    let keys_max = worker.settings.tracked_keys_max;
    if keys_max == 0 {
        return false;
    }
    let evicted = side.tracked.evict(&shared.tracking.totals, keys_max);
    let is_evicted = evicted.is_some();
    if let Some(evicted) = evicted {
        // It is told to everybody: it is no change of anybody's.
        let former = worker.begin_changes(0, false);
        worker.post_invalidation(shared, evicted);
        worker.begin_changes(former.0, former.1);
    }
    is_evicted
}

/// Forgets what is left of sessions that have ended, and keys that are too many since the limit was
/// lowered. One worker does so, for a moment. To be called some times a second.
pub fn limit_tracked(shared: &Shared, worker: &mut Worker) {
    let tracking = &shared.tracking;
    let keys_max = worker.settings.tracked_keys_max;
    let Ok(mut walk) = tracking.walk.try_lock() else { return };
    if walk.slots_left == 0 && walk.ended != tracking.ended() {
        walk.ended = tracking.ended();
        walk.slots_left = SLOT_COUNT;
        walk.next_number = 0;
    }
    let (mut walked, mut evicted) = (0, 0);
    for _ in 0..SLOT_COUNT {
        let is_excessive = keys_max > 0 && tracking.totals.keys() > keys_max;
        let is_over = walked >= TRACKED_KEYS_WALKED_MAX || evicted >= TRACKED_KEYS_EVICTED_MAX;
        if is_over || (walk.slots_left == 0 && !is_excessive) {
            return;
        }
        let slot = SlotNumber::from_index(walk.next_slot % SLOT_COUNT);
        let slot = slot.expect("it is below the number of slots");
        let from = std::mem::take(&mut walk.next_number);
        // One that is taken keeps what is dead in it until somebody meets that.
        if let Some(mut lock) = shared.keyspace.try_lock(slot)
            && let Some(side) = lock.side_if_any().filter(|side| !side.tracked.is_empty())
        {
            let left = TRACKED_KEYS_LOCKED_MAX.min(TRACKED_KEYS_WALKED_MAX - walked);
            let (looked, next) = side.tracked.forget_ended(&tracking.totals, from, left);
            walked += looked;
            while evicted < TRACKED_KEYS_EVICTED_MAX && evict_one(shared, worker, side) {
                evicted += 1;
            }
            if let Some(number) = next {
                walk.next_number = number;
                continue;
            }
        }
        walk.next_slot = (walk.next_slot + 1) % SLOT_COUNT;
        walk.slots_left = walk.slots_left.saturating_sub(1);
    }
}
