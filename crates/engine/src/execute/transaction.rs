//! `EXEC`: all queued commands as one.
//!
//! The slots of all queued commands' keys and of all watched keys are locked together; then the watch is judged, the
//! clock taken, and the commands run one after the other. A transaction with a command on the whole keyspace runs with
//! all other workers stopped instead: nothing else is simple to understand, and such transactions are rare.

use std::sync::Arc;

use smallvec::SmallVec;
use tidemill_store::SlotNumber;
use tidemill_store::gate::ClosedGate;

use super::keyed::{self, key_positions, lock};
use super::turn::{Client, Step};
use crate::command::{CommandId, Flags, Handler, Stop};
use crate::context::{Access, Cx, SessionCx};
use crate::known_keys::KnownKeys;
use crate::locks::{LockSet, Slots, ascending};
use crate::parking::{Place, TokenGuard};
use crate::registrations::Registration;
use crate::section::{Enter, OpenSection};
use crate::session::{Queued, Session, Transaction, Watch, WatchedKey};
use crate::shared::Shared;
use crate::worker::Worker;

/// What a transaction holds while it runs.
struct Exclusion<'k> {
    locks: LockSet<'k>,
    gate: Option<ClosedGate<'k>>,
    token: Option<TokenGuard<'k>>,
    /// What it does is several changes, which are one to readers.
    publishes_several: bool,
}

/// What a transaction touches.
struct Footprint {
    /// The slots of all keys of its commands, and of all watched keys.
    slots: Slots,
    publishes_several: bool,
}

/// Runs `EXEC`, whose id is `id`, for a session with an open transaction.
pub(crate) fn exec<E: Enter>(client: &mut Client<'_, '_, E>, id: CommandId) -> Step {
    let Some(transaction) = client.session.transaction.take() else {
        client.error(&"ERR EXEC without MULTI".into());
        return Step::Done;
    };
    if transaction.is_aborted {
        unwatch(client.shared, client.worker, client.session, None);
        client.worker.stats(client.shared).command(id).failed.add(1);
        client.error(&"EXECABORT Transaction discarded because of previous errors.".into());
        return Step::Done;
    }
    if is_refused_for_memory(client, &transaction) {
        unwatch(client.shared, client.worker, client.session, None);
        client.worker.stats(client.shared).command(id).rejected.add(1);
        client.error(
            &"EXECABORT Transaction discarded because of: OOM command not allowed when used \
              memory > 'maxmemory'."
                .into(),
        );
        return Step::Done;
    }
    let shared = client.shared;
    let mut exclusion = match exclude(client, &transaction) {
        Ok(exclusion) => exclusion,
        Err(place) => {
            client.session.transaction = Some(transaction);
            return Step::Wait(place);
        }
    };
    client.worker.refresh_clock(shared);
    if is_watch_broken(client, &mut exclusion.locks) {
        unwatch(shared, client.worker, client.session, Some(&mut exclusion.locks));
        client.reply.null_array();
        return Step::Done;
    }
    unwatch(shared, client.worker, client.session, Some(&mut exclusion.locks));
    if exclusion.publishes_several {
        exclusion.locks.mark_held();
    }
    client.reply.array(transaction.queued.len());
    let mut locks = std::mem::take(&mut exclusion.locks);
    let mut start_ns = shared.clock.monotonic_ns();
    // A command that closes the connection is the last one whose reply is sent; the others run all the same.
    let mut reply_end = None;
    for queued in &transaction.queued {
        let mark = client.reply.mark();
        locks = run_queued(client, queued, locks, exclusion.gate.as_ref());
        let now_ns = shared.clock.monotonic_ns();
        let called = (queued.id, shared.commands.command(queued.id));
        let reply_bytes = client.reply.appended_bytes(mark);
        client.note_queued(called, &queued.arguments.view(), now_ns - start_ns, reply_bytes);
        start_ns = now_ns;
        if client.session.close_after_reply && reply_end.is_none() {
            reply_end = Some(client.reply.mark());
        }
        client.reader.quiescent();
    }
    if let Some(mark) = reply_end {
        client.reply.truncate(mark);
    }
    if !client.worker.ready.is_empty() {
        // Who waits is served after the transaction, by the time that it is then.
        client.worker.refresh_clock(shared);
        locks.release_clock();
    }
    let guard = client.reader.enter();
    keyed::release(shared, client.worker, locks, guard.section());
    drop((exclusion.gate, exclusion.token));
    Step::Done
}

fn is_refused_for_memory<E>(client: &Client<'_, '_, E>, transaction: &Transaction) -> bool {
    let denied =
        |queued: &Queued| client.shared.commands.command(queued.id).flags.contains(Flags::DENYOOM);
    client.worker.out_of_memory && transaction.queued.iter().any(denied)
}

/// Locks what the transaction touches, or stops everybody else if it touches everything.
fn exclude<'k, E: Enter>(
    client: &Client<'k, '_, E>,
    transaction: &Transaction,
) -> Result<Exclusion<'k>, Place> {
    let shared: &'k Shared = client.shared;
    let Footprint { slots, publishes_several } = footprint(client, transaction);
    let is_whole =
        transaction.queued.iter().map(|queued| shared.commands.command(queued.id)).any(|command| {
            matches!(command.handler, Handler::Whole(_))
                || command.flags.contains(Flags::MEETS_KEYS)
        });
    if !is_whole {
        let locks = lock(client, &slots)?;
        return Ok(Exclusion { locks, gate: None, token: None, publishes_several });
    }
    let seat = client.reader.seat();
    let token = shared.token.try_take(&shared.parking, seat).ok_or(Place::Token)?;
    let gate = shared.close_gate(seat, client.session.gate_attempts());
    let gate = gate.ok_or(Place::Gate)?;
    let locks = LockSet::all(shared, &slots).ok_or(Place::Gate)?;
    Ok(Exclusion { locks, gate: Some(gate), token: Some(token), publishes_several })
}

fn footprint<E>(client: &Client<'_, '_, E>, transaction: &Transaction) -> Footprint {
    let mut slots: SmallVec<[SlotNumber; 16]> = SmallVec::new();
    let calls = transaction.queued.iter().map(|queued| {
        let args = queued.arguments.view();
        let command = client.shared.commands.command(queued.id);
        let positions = key_positions(command, &args).unwrap_or_default();
        slots.extend(positions.iter().map(|&index| SlotNumber::of_key(args.get(index))));
        (command, positions.len())
    });
    let publishes_several = keyed::publishes_several(calls);
    if let Some(watch) = &client.session.watch {
        slots.extend(watch.keys.iter().map(|watched| SlotNumber::of_key(&watched.key)));
    }
    Footprint { slots: ascending(slots), publishes_several }
}

/// Whether a watched key changed, or has expired since it was watched. All watched slots are locked.
fn is_watch_broken<E: Enter>(client: &Client<'_, '_, E>, locks: &mut LockSet<'_>) -> bool {
    let Some(watch) = &client.session.watch else { return false };
    if watch.flag.is_set() {
        return true;
    }
    let shared = client.shared;
    let guard = client.reader.enter();
    watch.keys.iter().any(|watched| {
        let key_hash = shared.keyspace.key_hash(&watched.key);
        let lock = locks.lock(key_hash.slot).expect("watched slots are locked");
        let found = lock.find(watched.database, key_hash, &watched.key, guard.section());
        let was_expired = lock.side().was_expired(watched.database, &watched.key, &watch.flag);
        !was_expired && found.is_some_and(|found| locks.is_over(shared, client.worker, found.entry))
    })
}

/// Runs one queued command under the transaction's locks.
fn run_queued<'k, E: Enter>(
    client: &mut Client<'k, '_, E>,
    queued: &Queued,
    mut locks: LockSet<'k>,
    alone: Option<&ClosedGate<'_>>,
) -> LockSet<'k> {
    let shared: &'k Shared = client.shared;
    let command = shared.commands.command(queued.id);
    let args = queued.arguments.view();
    let database = client.session.database;
    let (outcome, locks) = match command.handler {
        Handler::Keyed(handler) => {
            let guard = client.reader.enter();
            let mut cx = Cx {
                args: &args,
                reply: &mut *client.reply,
                worker: &mut *client.worker,
                shared,
                database,
                section: guard.section(),
                access: Access::Locked(locks),
                known: KnownKeys::None,
                touch: !client.session.no_touch,
                may_block: false,
                rest: None,
                ready_key: None,
                command,
            };
            let outcome = handler(&mut cx);
            let Access::Locked(locks) = cx.access else { unreachable!("it stays locked") };
            (outcome, locks)
        }
        Handler::Session(handler) | Handler::Whole(handler) => {
            let mut cx = SessionCx {
                args,
                reply: &mut *client.reply,
                worker: &mut *client.worker,
                session: &mut *client.session,
                shared: client.shared,
                reader: &mut *client.reader,
                command,
                in_transaction: true,
                alone,
                locks: Some(&mut locks),
            };
            (handler(&mut cx), locks)
        }
        Handler::Container => (Err(super::admit::container_error(command, &args).into()), locks),
    };
    let changes = std::mem::take(&mut client.worker.changes);
    if shared.sinks.journal.is_some() {
        client.worker.effects.end_command(database, &args, changes);
    }
    let stats = client.worker.stats(shared);
    stats.changes.add(changes);
    stats.commands_processed.add(1);
    let of_command = stats.command(queued.id);
    match outcome.map_err(|stop| *stop) {
        Ok(()) => {}
        Err(Stop::Error(error)) => {
            of_command.failed.add(1);
            client.error(&error);
        }
        Err(stop) => unreachable!("a queued command neither blocks nor waits: {stop:?}"),
    }
    locks
}

/// Stops watching: under the locks at hand, which are of all watched slots, or of each slot as it becomes free.
pub(crate) fn unwatch(
    shared: &Shared,
    worker: &mut Worker,
    session: &mut Session,
    locks: Option<&mut LockSet<'_>>,
) {
    let Some(watch) = session.watch.take() else { return };
    session.client.set_watch(None);
    session.client.note_watched(0, 0);
    let Some(locks) = locks else {
        let Watch { flag, keys, .. } = *watch;
        let registration = |WatchedKey { database, key }| Registration::Watch {
            database,
            key,
            flag: Arc::clone(&flag),
        };
        worker.ended.take_back(shared, keys.into_iter().map(registration));
        return;
    };
    for watched in &watch.keys {
        let lock = locks.lock(SlotNumber::of_key(&watched.key)).expect("watched slots are locked");
        lock.side().unwatch(watched.database, &watched.key, &watch.flag);
    }
}
