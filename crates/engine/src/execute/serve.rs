//! Serving those who wait, and what else is done between commands: deleting what reads found expired.

use std::sync::Arc;

use tidemill_resp::encode::ReplyBuffer;
use tidemill_store::{Found, Section, SlotNumber};

use super::keyed::release;
use crate::blocking::{WaitEnd, Waiter};
use crate::command::{Handler, Stop};
use crate::context::{Access, Cx};
use crate::known_keys::KnownKeys;
use crate::locks::LockSet;
use crate::mailbox::Message;
use crate::ready::ReadyKey;
use crate::registrations::Registration;
use crate::session::Session;
use crate::shared::Shared;
use crate::worker::Worker;

/// Serves the waiters of all keys that became ready, in the order of their arrival. `locks` holds those keys' slots.
pub(crate) fn serve_ready<'k>(
    shared: &'k Shared,
    worker: &mut Worker,
    mut locks: LockSet<'k>,
    section: Section<'_>,
) -> LockSet<'k> {
    let mut index = 0;
    // Serving can make more keys ready: they are served too.
    while let Some(ready) = worker.ready.get(index).cloned() {
        locks = serve_key(shared, worker, locks, section, (index, ready));
        index += 1;
    }
    worker.ready.clear();
    locks
}

/// Serves the waiters of the ready key at `index`.
fn serve_key<'k>(
    shared: &'k Shared,
    worker: &mut Worker,
    mut locks: LockSet<'k>,
    section: Section<'_>,
    (index, ready): (usize, ReadyKey),
) -> LockSet<'k> {
    loop {
        let lock = locks.lock(ready.key_hash.slot).expect("a ready key's slot is locked");
        let found = lock.find(ready.database, ready.key_hash, &ready.key, section);
        let Some(waiter) = lock.side().first_waiter(ready.database, &ready.key) else {
            return locks;
        };
        if !is_of_use(shared, worker, &locks, found, &waiter) {
            return locks;
        }
        if !add_slots(shared, &mut locks, &waiter, &ready.key) {
            worker.postponed.push(ready);
            return locks;
        }
        // Slots that were added let the clock go on: the handler judges as this does.
        if !is_of_use(shared, worker, &locks, found, &waiter) {
            return locks;
        }
        let is_upcoming = |key: &ReadyKey| worker.ready.position(key).is_some_and(|at| at > index);
        if let Some(owed) = owed_before(shared, worker, &mut locks, section, &waiter, &ready.key)
            && !is_upcoming(&owed)
        {
            worker.postponed.push(owed);
            worker.postponed.push(ready);
            return locks;
        }
        if waiter.serve() {
            locks = serve_one(shared, worker, locks, section, &waiter, &ready.key);
        }
    }
}

/// Adds the slots of what the waiter's command looks at before it comes to `key`, and of what it writes besides.
fn add_slots<'k>(shared: &'k Shared, locks: &mut LockSet<'k>, waiter: &Waiter, key: &[u8]) -> bool {
    let view = waiter.arguments.view();
    let mut before = waiter.keys_before(key);
    let also = waiter.block.also.iter().map(|&position| view.get(position));
    let is_locked = before.all(|key| locks.try_add(shared, SlotNumber::of_key(key)))
        && also.clone().all(|key| locks.try_add(shared, SlotNumber::of_key(key)));
    if is_locked && also.len() > 0 {
        locks.mark_held();
    }
    is_locked
}

/// Whether a key has what a waiter waits for.
fn is_of_use(
    shared: &Shared,
    worker: &Worker,
    locks: &LockSet<'_>,
    found: Option<Found<'_>>,
    waiter: &Waiter,
) -> bool {
    found.is_some_and(|found| {
        found.entry.kind() == waiter.block.kind && !locks.is_over(shared, worker, found.entry)
    })
}

/// A key that the waiter's command comes to before `key`, with something for its waiters that they have not got yet.
///
/// Whoever wrote it could not lock all that serving them takes, and tries again. Until then its waiters keep their order,
/// and the one at hand is not served from a later key. A key that this unit wrote and comes to later is none of these: the
/// waiter's command takes from it first, as it would if it were sent now.
fn owed_before(
    shared: &Shared,
    worker: &Worker,
    locks: &mut LockSet<'_>,
    section: Section<'_>,
    waiter: &Waiter,
    key: &[u8],
) -> Option<ReadyKey> {
    let database = waiter.database;
    waiter.keys_before(key).find_map(|key| {
        let key_hash = shared.keyspace.key_hash(key);
        let lock = locks.lock(key_hash.slot).expect("keys before the ready one are locked");
        let found = lock.find(database, key_hash, key, section);
        let is_of_use = is_of_use(shared, worker, locks, found, waiter);
        is_of_use.then(|| ReadyKey { database, key: key.into(), key_hash })
    })
}

/// Runs the waiter's command in its place. The reply goes to its worker once the journal has the record.
fn serve_one<'k>(
    shared: &'k Shared,
    worker: &mut Worker,
    locks: LockSet<'k>,
    section: Section<'_>,
    waiter: &Arc<Waiter>,
    key: &[u8],
) -> LockSet<'k> {
    let Handler::Keyed(handler) = waiter.command.handler else {
        unreachable!("only commands on keys wait for keys")
    };
    let mut reply = ReplyBuffer::new(waiter.protocol);
    let args = waiter.arguments.view();
    let start_ns = shared.clock.monotonic_ns();
    let mut cx = Cx {
        args: &args,
        reply: &mut reply,
        worker: &mut *worker,
        shared,
        database: waiter.database,
        section,
        access: Access::Locked(locks),
        known: KnownKeys::None,
        touch: true,
        may_block: false,
        rest: None,
        ready_key: Some(key),
        command: waiter.command,
    };
    let outcome = handler(&mut cx);
    let Access::Locked(locks) = cx.access else { unreachable!("a write stays locked") };
    if let Err(Stop::Error(error)) = outcome.map_err(|stop| *stop) {
        reply.error(error.wire());
    }
    let changes = std::mem::take(&mut worker.changes);
    if shared.sinks.journal.is_some() {
        worker.effects.end_command(waiter.database, &args, changes);
    }
    worker.stats(shared).changes.add(changes);
    // It stays in the queues of its other keys until its worker takes it back; who no longer waits is skipped.
    let end = WaitEnd::Served(shared.clock.monotonic_ns().saturating_sub(start_ns));
    let message = Message::Unblocked { session: waiter.session, waiter: waiter.id, end, reply };
    worker.served.push((waiter.worker, message));
    locks
}

/// Serves the queues that could not be served because a slot was taken. To be called with no lock in hand.
pub fn serve_postponed(shared: &Shared, worker: &mut Worker, section: Section<'_>) {
    for ready in worker.postponed.take() {
        match LockSet::one(shared, ready.key_hash.slot) {
            Ok(locks) => {
                worker.ready.push(ready);
                release(shared, worker, locks, section);
            }
            Err(_) => worker.postponed.push(ready),
        }
    }
}

/// The wait `id` of a session is over, however it ended: takes its registrations back, and returns it if it was the
/// session's present one. To be called by the session's worker.
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
    super::transaction::unwatch(shared, worker, &mut session, None);
    if session.is_monitor {
        shared.monitors.remove(session.id());
    }
    if let Some(waiter) = session.waiter.take() {
        // Who was served at this moment has registrations all the same.
        let _ = waiter.end();
        forget(shared, worker, &waiter);
    }
}

/// Deletes the keys that reads found expired, each as a write of its own. What is taken is left to the next sweep.
pub fn delete_expired(shared: &Shared, worker: &mut Worker, section: Section<'_>) {
    if worker.expired.is_empty() {
        return;
    }
    for expired in std::mem::take(&mut worker.expired) {
        let Ok(locks) = LockSet::one(shared, expired.key_hash.slot) else { continue };
        // Beginning an edit deletes what has expired.
        let locks = edit_beside(shared, worker, locks, section, expired.database, |cx| {
            let _ = cx.edit(&expired.key).is_gone();
        });
        worker.changes = 0;
        release(shared, worker, locks, section);
    }
}

/// Changes keys on behalf of no client. Their slots are locked.
pub(crate) fn edit_beside<'k>(
    shared: &'k Shared,
    worker: &mut Worker,
    locks: LockSet<'k>,
    section: Section<'_>,
    database: usize,
    edit: impl FnOnce(&mut Cx<'k, '_>),
) -> LockSet<'k> {
    let mut reply = ReplyBuffer::default();
    let no_arguments = tidemill_resp::request::OwnedArguments::new([]);
    let mut cx = Cx {
        args: &no_arguments.view(),
        reply: &mut reply,
        worker,
        shared,
        database,
        section,
        access: Access::Locked(locks),
        known: KnownKeys::None,
        touch: false,
        may_block: false,
        rest: None,
        ready_key: None,
        command: &crate::command::Command::BASE_REF,
    };
    edit(&mut cx);
    let Access::Locked(locks) = cx.access else { unreachable!("a write stays locked") };
    locks
}
