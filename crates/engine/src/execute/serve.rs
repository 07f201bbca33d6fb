//! Serving those who wait, and what else is done between commands: deleting what reads found
//! expired.

use std::sync::Arc;

use tidemill_resp::encode::ReplyBuffer;
use tidemill_store::{Found, Section, SlotNumber};

use super::credit::check_waiter_memory;
use super::permission;
use super::registry;
use super::script;
use super::tracking::register_waiter;
use super::unit::commit;
use crate::access::context::{Access, Caller, Cx};
use crate::access::key_hashes::KeyHashes;
use crate::access::locks::LockSet;
use crate::access::outcome::Stop;
use crate::access::unit::Unit;
use crate::access::unwatch::unwatch;
use crate::command::Flags;
use crate::error::{CommandError, NO_MEMORY_FOR_REPLY};
use crate::memory::Room;
use crate::shared::Shared;
use crate::slots::mailbox::Message;
use crate::slots::parking::WaitTarget;
use crate::slots::ready::ReadyKey;
use crate::slots::waiter::{WaitEnd, Waiter};
use crate::worker::Worker;
use crate::worker::registrations::Registration;
use crate::worker::session::Session;
use crate::worker::subscriptions::unsubscribe_all;

/// Serves the waiters of all keys that became ready, in the order of their arrival: each by a unit
/// of its own, under the locks of the one that wrote the keys. Returns the last one.
pub(crate) fn serve_ready<'k>(
    shared: &'k Shared,
    worker: &mut Worker,
    mut unit: Unit<'k>,
    section: Section<'_>,
) -> Unit<'k> {
    let mut index = 0;
    // Serving can make more keys ready, also those whose turn is over: they are served too. It
    // ends, since only waiters that are served do that.
    while let Some(ready) = unit.begin_ready(index) {
        unit = serve_key(shared, worker, unit, section, (index, ready.clone()));
        unit = serve_choosy(shared, worker, unit, section, ready);
        index += 1;
    }
    unit.clear_ready();
    unit
}

/// Serves the waiters of the ready key at `index`.
fn serve_key<'k>(
    shared: &'k Shared,
    worker: &mut Worker,
    mut unit: Unit<'k>,
    section: Section<'_>,
    (index, ready): (usize, ReadyKey),
) -> Unit<'k> {
    loop {
        let lock = unit.lock(ready.key_hash.slot).expect("a ready key's slot is locked");
        let found = lock.find(ready.database, ready.key_hash, &ready.key, section);
        let Some(kind) = found.map(|found| found.entry.kind()) else { return unit };
        let Some(waiter) = lock.side().first_waiter(ready.database, &ready.key, kind) else {
            return unit;
        };
        if !is_of_use(shared, worker, &unit, found, &waiter) {
            return unit;
        }
        if let Err(taken) = add_slots(shared, &mut unit, &waiter, &ready.key) {
            postpone(shared, worker, ready, taken);
            return unit;
        }
        // Slots that were added let the clock go on: the handler judges as this does.
        if !is_of_use(shared, worker, &unit, found, &waiter) {
            return unit;
        }
        if let Some(owed) = owed_before(shared, worker, &mut unit, section, &waiter, &ready.key)
            && !is_upcoming(&unit, index, &owed)
        {
            // Its turn is behind the other's. One that waits for a slot already wakes the worker
            // for both; otherwise the other is tried first, and either is served or waits for a
            // slot then.
            worker.postponed_is_due |= worker.postponed.position(&owed).is_none();
            worker.postponed.push(owed);
            worker.postponed.push(ready);
            return unit;
        }
        if waiter.serve() {
            unit = serve_one(shared, worker, unit, section, &waiter, &ready.key);
        }
    }
}

/// Serves those waiters of a ready key that its command would answer something, each looked at
/// once: those for streams. One that would get nothing stays as it is, and keeps its time.
fn serve_choosy<'k>(
    shared: &'k Shared,
    worker: &mut Worker,
    mut unit: Unit<'k>,
    section: Section<'_>,
    ready: ReadyKey,
) -> Unit<'k> {
    let mut last = None;
    loop {
        let lock = unit.lock(ready.key_hash.slot).expect("a ready key's slot is locked");
        let side = lock.side();
        let Some(waiter) = side.choosy_waiter_behind(ready.database, &ready.key, last) else {
            return unit;
        };
        last = Some(waiter.id);
        if !would_answer(shared, worker, &mut unit, section, &waiter, &ready) {
            continue;
        }
        if let Err(taken) = add_slots(shared, &mut unit, &waiter, &ready.key) {
            postpone(shared, worker, ready, taken);
            return unit;
        }
        // Slots that were added let the clock go on: the handler judges as this does.
        if would_answer(shared, worker, &mut unit, section, &waiter, &ready) && waiter.serve() {
            unit = serve_one(shared, worker, unit, section, &waiter, &ready.key);
        }
    }
}

/// True if a waiter's command would answer something of a key.
fn would_answer(
    shared: &Shared,
    worker: &Worker,
    unit: &mut Unit<'_>,
    section: Section<'_>,
    waiter: &Waiter,
    ready: &ReadyKey,
) -> bool {
    let Some(answers) = waiter.block.answers else { return false };
    let lock = unit.lock(ready.key_hash.slot).expect("a ready key's slot is locked");
    let found = lock.find(ready.database, ready.key_hash, &ready.key, section);
    let entry = found.map(|found| found.entry);
    let entry = entry.filter(|&entry| !unit.is_over(shared, worker, entry));
    answers(&waiter.arguments.view(), &ready.key, entry, shared.keyspace.seed())
}

/// True if a key comes behind the ready one at `index`.
fn is_upcoming(unit: &Unit<'_>, index: usize, key: &ReadyKey) -> bool {
    unit.ready().and_then(|ready| ready.position(key)).is_some_and(|at| at > index)
}

/// Adds the slots of the keys that the waiter's command looks at before `key`, and of those that it
/// writes besides.
///
/// # Errors
///
/// The slot that is taken.
fn add_slots<'k>(
    shared: &'k Shared,
    unit: &mut Unit<'k>,
    waiter: &Waiter,
    key: &[u8],
) -> Result<(), SlotNumber> {
    let view = waiter.arguments.view();
    let also = waiter.block.also.iter().map(|&position| view.get(position));
    for key in waiter.keys_before(key).chain(also.clone()) {
        let slot = SlotNumber::of_key(key);
        if !unit.try_add(shared, slot) {
            return Err(slot);
        }
    }
    if also.len() > 0 {
        unit.mark_held();
    }
    Ok(())
}

/// Leaves a key's waiters until a slot that is taken is released, which wakes the worker.
fn postpone(shared: &Shared, worker: &mut Worker, ready: ReadyKey, taken: SlotNumber) {
    worker.postponed.push(ready);
    let place = WaitTarget::Slot(taken);
    let word = shared.keyspace.word(taken);
    // The release of a slot cannot be missed: see `SlotWord::announce_waiting`. Slots in hand are
    // of no concern: the parking's own lock is taken behind all others, and nothing is waited for
    // under it.
    let is_parked = shared.parking.park_worker(place, worker.index, || word.announce_waiting());
    worker.postponed_is_due |= !is_parked;
}

/// True if a key has what a waiter waits for.
fn is_of_use(
    shared: &Shared,
    worker: &Worker,
    unit: &Unit<'_>,
    found: Option<Found<'_>>,
    waiter: &Waiter,
) -> bool {
    found.is_some_and(|found| {
        found.entry.kind() == waiter.block.kind && !unit.is_over(shared, worker, found.entry)
    })
}

/// A key that the waiter's command looks at before `key`, with something for its waiters that they
/// have not got yet.
///
/// Its writer could not lock all that serving them takes, and tries again. Until then its
/// waiters keep their order, and the one at hand is not served from a later key. A key that this
/// unit wrote and serves later is none of these: the waiter's command takes from it first, as it
/// would if it were sent now.
fn owed_before(
    shared: &Shared,
    worker: &Worker,
    unit: &mut Unit<'_>,
    section: Section<'_>,
    waiter: &Waiter,
    key: &[u8],
) -> Option<ReadyKey> {
    let database = waiter.database;
    waiter.keys_before(key).find_map(|key| {
        let key_hash = shared.keyspace.key_hash(key);
        let lock = unit.lock(key_hash.slot).expect("keys before the ready one are locked");
        let found = lock.find(database, key_hash, key, section);
        let is_of_use = is_of_use(shared, worker, unit, found, waiter);
        is_of_use.then(|| ReadyKey { database, key: key.into(), key_hash })
    })
}

/// Runs the waiter's command in its place, as a unit. The reply goes to its worker once the journal
/// has the record.
fn serve_one<'k>(
    shared: &'k Shared,
    worker: &mut Worker,
    unit: Unit<'k>,
    section: Section<'_>,
    waiter: &Arc<Waiter>,
    key: &[u8],
) -> Unit<'k> {
    let id = shared.commands.find(waiter.command.name.as_bytes());
    let id = id.expect("a waiter's command is in the table");
    let (_, handler) = registry::handlers().of_keyed(id);
    if let Err((denial, user)) = permission::check_waiter(shared, worker, id, waiter) {
        return refuse_one(
            shared,
            worker,
            unit,
            waiter,
            &denial.error(user.name(), waiter.command),
        );
    }
    if worker.may_refuse_memory()
        && waiter.command.flags.contains(Flags::DENYOOM)
        && let Err(error) = check_waiter_memory(shared, worker)
    {
        return refuse_one(shared, worker, unit, waiter, &error);
    }
    let mut reply = ReplyBuffer::new(waiter.protocol);
    let args = waiter.arguments.view();
    let start_ns = shared.clock.monotonic_ns();
    let mut unit = unit;
    register_waiter(shared, &mut unit, waiter);
    let ((outcome, mut unit), changed) = worker.serve(waiter, |worker| {
        let caller = Caller::blocked_client(shared, worker, &mut reply, waiter, key);
        let access = Access::Locked(unit);
        let mut cx = caller.calls((waiter.command, &args), section, access, KeyHashes::None);
        let outcome = handler(&mut cx);
        (outcome, cx.into_unit())
    });
    let error = match outcome.map_err(|stop| *stop) {
        Err(Stop::Error(error)) => Some(error),
        _ => reply.has_failed().then(|| NO_MEMORY_FOR_REPLY.into()),
    };
    if let Some(error) = error {
        worker.stats(shared).command(id).failed.add(1);
        reply.clear();
        answer_error(shared, worker, &mut reply, &error);
    }
    worker.publish_misses(shared);
    unit.end_command(shared, worker, waiter.database, &args);
    unit.succeed(shared, worker);
    // It stays in the queues of its other keys until its worker takes it back; who no longer waits
    // is skipped.
    let end = WaitEnd::Served(shared.clock.monotonic_ns().saturating_sub(start_ns));
    let (session, id) = (waiter.session, waiter.id);
    let message = Message::Unblocked { session, waiter: id, end: Some(end), reply, changed };
    unit.note_served(waiter.worker, message);
    unit
}

/// Writes an error reply for a client that waited, and counts it.
#[cold]
fn answer_error(shared: &Shared, worker: &Worker, reply: &mut ReplyBuffer, error: &CommandError) {
    let wire = error.wire();
    worker.stats(shared).error_replies.add(1);
    shared.count_error(&wire);
    reply.error(wire);
}

/// Ends the wait of a client that may not have any more what it waits for. It takes nothing.
#[cold]
fn refuse_one<'k>(
    shared: &Shared,
    worker: &Worker,
    mut unit: Unit<'k>,
    waiter: &Waiter,
    error: &CommandError,
) -> Unit<'k> {
    let mut reply = ReplyBuffer::new(waiter.protocol);
    answer_error(shared, worker, &mut reply, error);
    let (session, end) = (waiter.session, WaitEnd::Denied);
    let changed = Vec::new();
    let message = Message::Unblocked { session, waiter: waiter.id, end: Some(end), reply, changed };
    unit.note_served(waiter.worker, message);
    unit
}

/// Serves the queues that could not be served because a slot was taken. To be called with no lock
/// in hand.
///
/// Each is tried once. Those that fail again wait for the slot that they failed at, so that a
/// worker which has nothing else to do sleeps meanwhile.
pub fn serve_postponed(shared: &Shared, worker: &mut Worker, section: Section<'_>) {
    if worker.postponed.is_empty() {
        return;
    }
    worker.postponed_is_due = false;
    for ready in worker.postponed.take() {
        match LockSet::one(shared, ready.key_hash.slot) {
            Ok(locks) => {
                let mut unit = Unit::new(shared, worker, locks);
                unit.note_ready(ready);
                commit(shared, worker, unit, section);
            }
            Err(_) => {
                let slot = ready.key_hash.slot;
                postpone(shared, worker, ready, slot);
            }
        }
    }
}

/// The wait `id` of a session is over, however it ended: takes its registrations back, and returns
/// it if it was the session's present one. To be called by the session's worker.
#[must_use]
pub fn end_wait(
    shared: &Shared,
    worker: &mut Worker,
    session: &mut Session,
    id: u64,
) -> Option<Arc<Waiter>> {
    let waiter = session.unblock(id)?;
    forget(shared, worker, &waiter);
    Some(waiter)
}

/// Removes a waiter from the queues of its keys, and its deadline.
fn forget(shared: &Shared, worker: &mut Worker, waiter: &Arc<Waiter>) {
    worker.deadlines.remove(waiter);
    let registration =
        |&position: &usize| Registration::Wait { waiter: Arc::clone(waiter), position };
    worker.ended.take_back(shared, waiter.block.keys.iter().map(registration));
}

/// A connection is gone: whatever its session was in the middle of ends.
pub fn end_session(shared: &Shared, worker: &mut Worker, mut session: Session) {
    if script::must_go_on(worker, &session) {
        worker.orphans.push(session);
        return;
    }
    unwatch(shared, worker, &mut session, None);
    let ticket = session.ticket(worker.index);
    shared.token.leave(ticket);
    if session.lock_attempts > 0 {
        shared.parking.leave(ticket);
    }
    if session.is_monitor {
        shared.monitors.remove(session.id());
    }
    script::end_suspended(shared, worker, &mut session);
    unsubscribe_all(shared, worker, &mut session);
    worker.end_tracking(shared, &mut session);
    worker.receivers.end(session.id());
    worker.migrations.forget(session.id());
    if let Some(waiter) = session.waiter.take() {
        // A client served at this moment still has its registrations.
        let _ = waiter.end();
        forget(shared, worker, &waiter);
    }
}

/// Deletes the keys that reads found expired, each as a write of its own. What is taken, or has a
/// name for whose record there is no memory, is left to the next sweep.
pub fn delete_expired(shared: &Shared, worker: &mut Worker, section: Section<'_>) {
    if worker.expired.is_empty() {
        return;
    }
    let expired = std::mem::take(&mut worker.expired);
    if worker.settings.import_mode || shared.is_paused() {
        return;
    }
    for expired in expired {
        if !Room::of(shared).has_name_copies(&expired.key) {
            continue;
        }
        let Ok(locks) = LockSet::one(shared, expired.key_hash.slot) else { continue };
        // Beginning an edit deletes what has expired.
        edit_beside(shared, worker, locks, section, expired.database, |cx| {
            let _ = cx.edit(&expired.key).is_gone();
        });
    }
}

/// Changes keys on behalf of no client, as a unit under locks of their slots. Its changes are no
/// command's and do not count.
pub(crate) fn edit_beside<'k>(
    shared: &'k Shared,
    worker: &mut Worker,
    locks: LockSet<'k>,
    section: Section<'_>,
    database: usize,
    edit: impl FnOnce(&mut Cx<'k, '_>),
) {
    let former = worker.begin_changes(0, false);
    let mut reply = ReplyBuffer::default();
    let no_arguments = tidemill_resp::request::OwnedArguments::new([]);
    let access = Access::Locked(Unit::new(shared, worker, locks));
    let caller = Caller::server(shared, &mut *worker, &mut reply, database);
    let no_command = (&crate::command::Command::BASE_REF, &no_arguments.view());
    let mut cx = caller.calls(no_command, section, access, KeyHashes::None);
    edit(&mut cx);
    let unit = cx.into_unit();
    commit(shared, worker, unit, section);
    worker.begin_changes(former.0, former.1);
}
