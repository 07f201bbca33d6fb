//! Serving those who wait, and what else is done between commands: deleting what reads found expired.

use std::sync::Arc;

use smallvec::SmallVec;
use tidemill_rcu::Section;
use tidemill_resp::encode::ReplyBuffer;
use tidemill_store::SlotNumber;

use super::keyed::release;
use crate::blocking::Waiter;
use crate::command::{Handler, Stop};
use crate::context::{Access, Cx};
use crate::locks::LockSet;
use crate::mailbox::Message;
use crate::session::Session;
use crate::shared::Shared;
use crate::worker::{ReadyKey, Worker};

/// Serves the waiters of all keys that became ready, in the order of their arrival. `locks` holds those keys' slots.
pub(crate) fn serve_ready<'k>(
    shared: &'k Shared,
    worker: &mut Worker,
    mut locks: LockSet<'k>,
    section: Section<'_>,
) -> LockSet<'k> {
    let mut index = 0;
    // Serving can make more keys ready: they are served too.
    while index < worker.ready.len() {
        let ready = worker.ready[index].clone();
        locks = serve_key(shared, worker, locks, section, &ready);
        index += 1;
    }
    worker.ready.clear();
    locks
}

fn serve_key<'k>(
    shared: &'k Shared,
    worker: &mut Worker,
    mut locks: LockSet<'k>,
    section: Section<'_>,
    ready: &ReadyKey,
) -> LockSet<'k> {
    loop {
        let lock = locks.lock(ready.key_hash.slot).expect("a ready key's slot is locked");
        let found = lock.find(ready.database, ready.key_hash, &ready.key, section);
        let Some(waiter) = lock.side().first_waiter(ready.database, &ready.key) else {
            return locks;
        };
        let is_useful = found.is_some_and(|found| found.entry.kind() == waiter.block.kind);
        if !is_useful {
            return locks;
        }
        if !add_slots(shared, &mut locks, &waiter) {
            worker.postponed.push(ready.clone());
            return locks;
        }
        if waiter.serve() {
            let key = first_useful_key(shared, &mut locks, section, &waiter, &ready.key);
            locks = serve_one(shared, worker, locks, section, &waiter, &key);
        }
    }
}

/// The first of a waiter's keys that is of use to it, as its command would find it.
///
/// One that this unit has just written may stand before the key at hand, with its waiters still to be served. A key whose
/// slot is not locked here is of no use: whoever wrote it served its waiters first.
fn first_useful_key(
    shared: &Shared,
    locks: &mut LockSet<'_>,
    section: Section<'_>,
    waiter: &Waiter,
    ready_key: &[u8],
) -> Box<[u8]> {
    let mut is_useful = |key: &[u8]| {
        let key_hash = shared.keyspace.key_hash(key);
        locks
            .lock(key_hash.slot)
            .and_then(|lock| lock.find(waiter.database, key_hash, key, section))
            .is_some_and(|found| found.entry.kind() == waiter.block.kind)
    };
    waiter.keys().find(|key| is_useful(key)).unwrap_or(ready_key).into()
}

/// Adds the slots of what the waiter's command writes besides the key it waits for.
fn add_slots<'k>(shared: &'k Shared, locks: &mut LockSet<'k>, waiter: &Waiter) -> bool {
    let view = waiter.arguments.view();
    let slots: SmallVec<[SlotNumber; 1]> =
        waiter.block.also.iter().map(|&position| SlotNumber::of_key(view.get(position))).collect();
    let all = slots.iter().all(|&slot| locks.try_add(shared, slot));
    if all && !slots.is_empty() {
        locks.mark_held();
    }
    all
}

/// Runs the waiter's command in its place and sends the reply to its worker.
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
    let mut cx = Cx {
        args,
        reply: &mut reply,
        worker: &mut *worker,
        shared,
        database: waiter.database,
        section,
        access: Access::Locked(locks),
        known: None,
        touch: true,
        may_block: false,
        ready_key: Some(key),
        command: waiter.command,
    };
    let outcome = handler(&mut cx);
    let Access::Locked(locks) = cx.access else { unreachable!("a write stays locked") };
    if let Err(Stop::Error(error)) = outcome {
        reply.error(error.wire());
    }
    let changes = std::mem::take(&mut worker.changes);
    if shared.sinks.journal.is_some() {
        worker.effects.end_command(waiter.database, &args, changes);
    }
    worker.stats(shared).changes.add(changes);
    // It stays in the queues of its other keys until somebody looks at them; who no longer waits is skipped.
    let message = Message::Unblocked { session: waiter.session, waiter: waiter.id, reply };
    shared.mailboxes.post(waiter.worker, message);
    locks
}

/// Serves the queues that could not be served because a slot was taken. To be called with no lock in hand.
pub fn serve_postponed(shared: &Shared, worker: &mut Worker, section: Section<'_>) {
    for ready in std::mem::take(&mut worker.postponed) {
        match LockSet::one(shared, ready.key_hash.slot) {
            Ok(locks) => {
                worker.ready.push(ready);
                release(shared, worker, locks, section);
            }
            Err(_) => worker.postponed.push(ready),
        }
    }
}

/// Removes a waiter whose wait ended without a key from the queues of its keys, as far as their slots are free.
pub fn end_wait(shared: &Shared, waiter: &Arc<Waiter>) {
    for key in waiter.keys() {
        // A slot that is taken keeps the waiter: it is dead, and skipped by whoever serves the queue.
        if let Some(mut lock) = shared.keyspace.try_lock(SlotNumber::of_key(key))
            && let Some(side) = lock.side_if_any()
        {
            side.stop_waiting(waiter.database, key, waiter);
        }
    }
}

/// A connection is gone: whatever its session was in the middle of ends.
pub fn end_session(shared: &Shared, mut session: Session) {
    super::transaction::unwatch(shared, &mut session, None);
    if let Some(waiter) = session.waiter.take()
        && waiter.end()
    {
        end_wait(shared, &waiter);
    }
}

/// Deletes the keys that reads found expired, each as a write of its own. What is taken is left to the next sweep.
pub fn delete_expired(shared: &Shared, worker: &mut Worker, section: Section<'_>) {
    if worker.expired.is_empty() {
        return;
    }
    for expired in std::mem::take(&mut worker.expired) {
        let Ok(locks) = LockSet::one(shared, expired.key_hash.slot) else { continue };
        let locks =
            delete_if_expired(shared, worker, locks, section, expired.database, &expired.key);
        worker.changes = 0;
        release(shared, worker, locks, section);
    }
}

/// Deletes a key if its time is over. Its slot is locked.
pub(crate) fn delete_if_expired<'k>(
    shared: &'k Shared,
    worker: &mut Worker,
    locks: LockSet<'k>,
    section: Section<'_>,
    database: usize,
    key: &[u8],
) -> LockSet<'k> {
    let mut reply = ReplyBuffer::default();
    let no_arguments = tidemill_resp::request::OwnedArguments::new([]);
    let mut cx = Cx {
        args: no_arguments.view(),
        reply: &mut reply,
        worker,
        shared,
        database,
        section,
        access: Access::Locked(locks),
        known: None,
        touch: false,
        may_block: false,
        ready_key: None,
        command: &crate::command::Command::BASE_REF,
    };
    // Beginning an edit deletes what has expired.
    let _ = cx.edit_in(database, key).is_gone();
    let Access::Locked(locks) = cx.access else { unreachable!("a write stays locked") };
    locks
}
