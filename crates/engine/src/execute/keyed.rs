//! How a command on keys is run: without a lock, under one, or under several.

use std::sync::Arc;

use tidemill_resp::encode::Protocol;
use tidemill_resp::request::{ArgumentView, OwnedArguments};
use tidemill_store::{KeyHash, Section, SlotNumber};

use super::serve;
use super::turn::Client;
use crate::blocking::{Block, Waiter};
use crate::command::{Command, Flags, KeyPositions, Outcome, Stop};
use crate::context::{Access, Cx, Verdict};
use crate::error::CommandError;
use crate::found_keys::FoundKeys;
use crate::known_keys::{HashedKeys, KnownKeys};
use crate::limits::{LOCK_ATTEMPTS_MAX, READ_ATTEMPT_NS_MAX, READ_ATTEMPTS_MAX};
use crate::locks::{LockSet, Slots, spin};
use crate::parking::Place;
use crate::section::{Enter, OpenSection};
use crate::session::Session;
use crate::shared::Shared;
use crate::worker::Worker;

/// A handler of a command on keys.
pub(crate) type KeyedHandler = fn(&mut Cx<'_, '_>) -> Outcome;

/// Runs a command on keys outside of transactions.
#[inline(always)]
pub(crate) fn run<E: Enter>(
    client: &mut Client<'_, '_, E>,
    (command, handler): (&'static Command, KeyedHandler),
    args: &ArgumentView<'_>,
    key: Option<(usize, KeyHash)>,
) -> Outcome {
    if command.flags.contains(Flags::READONLY) {
        let outcome = if args.len() > 2 && command.may_have_several_keys() {
            read_several(client, (command, handler), args)
        } else {
            read(client, (command, handler), args, known(args, key))
        };
        let outcome = match outcome {
            Err(stop) if matches!(*stop, Stop::Disturbed) => {
                read_found(client, (command, handler), args, key)
            }
            outcome => outcome,
        };
        match outcome {
            Err(stop) if matches!(*stop, Stop::NeedLocks) => {}
            outcome => return outcome,
        }
    }
    write(client, (command, handler), args, key)
}

/// What is known of the keys when `key` is one of them: its argument and hash.
#[inline(always)]
fn known(args: &ArgumentView<'_>, key: Option<(usize, KeyHash)>) -> KnownKeys<'static> {
    key.map_or(KnownKeys::None, |(index, hash)| KnownKeys::One(args.get(index), hash))
}

/// Runs a reading command that may have several keys without a lock.
#[inline(never)]
fn read_several<E: Enter>(
    client: &mut Client<'_, '_, E>,
    (command, handler): (&'static Command, KeyedHandler),
    args: &ArgumentView<'_>,
) -> Outcome {
    let mut keys = HashedKeys::of(client.shared, args, &key_positions(command, args)?);
    read(client, (command, handler), args, KnownKeys::Several(&mut keys))
}

/// Runs a reading command without a lock, and once more when what it saw does not count.
#[inline(always)]
fn read<E: Enter>(
    client: &mut Client<'_, '_, E>,
    (command, handler): (&'static Command, KeyedHandler),
    args: &ArgumentView<'_>,
    mut known: KnownKeys<'_>,
) -> Outcome {
    let mark = client.reply.mark();
    let lookups = client.worker.lookups(client.shared);
    let guard = client.reader.enter();
    let mut attempts = 0;
    loop {
        let mut cx = Cx {
            args,
            reply: &mut *client.reply,
            worker: &mut *client.worker,
            shared: client.shared,
            database: client.session.database,
            section: guard.section(),
            access: Access::optimistic(),
            known: known.reborrow(),
            touch: !client.session.no_touch,
            may_block: false,
            rest: None,
            ready_key: None,
            command,
        };
        let outcome = handler(&mut cx);
        match cx.verdict() {
            Verdict::Valid => {
                if matches!(&outcome, Err(stop) if stop.is_repeated()) {
                    client.worker.uncount_lookups(client.shared, lookups);
                }
                return outcome;
            }
            Verdict::Stale(slot) => {
                client.worker.uncount_lookups(client.shared, lookups);
                client.reply.truncate(mark);
                attempts += 1;
                give_up(client.shared, (client.worker, client.session), slot, attempts)?;
            }
        }
    }
}

/// Whether a read that did not count, because of `slot`, is not to be tried again; then why it stops.
///
/// Whoever reads many keys, or for long, may never see all of them still: nobody goes on until nobody writes.
#[cold]
fn give_up(
    shared: &Shared,
    (worker, session): (&Worker, &Session),
    slot: SlotNumber,
    attempts: u32,
) -> Result<(), Box<Stop>> {
    let word = shared.keyspace.word(slot);
    // A change of several keys is over within microseconds, mostly.
    let is_held = spin(|| (!word.load().is_held()).then_some(())).is_none();
    if is_held && session.lock_attempts < LOCK_ATTEMPTS_MAX {
        return Err(Stop::wait(Place::Slot(slot)));
    }
    // At least what the attempt took: other commands of its batch may have run since the clock was read.
    let elapsed_ns = worker.run.elapsed_ns(shared.clock.monotonic_ns());
    if attempts >= READ_ATTEMPTS_MAX || elapsed_ns > READ_ATTEMPT_NS_MAX {
        return Err(Box::new(Stop::Disturbed));
    }
    Ok(())
}

/// Runs a reading command on what is found under the locks of its keys' slots. They are kept for the lookups only: see
/// [`found_keys`](crate::found_keys).
///
/// # Errors
///
/// [`Stop::NeedLocks`] when that is not enough.
#[inline(never)]
fn read_found<E: Enter>(
    client: &mut Client<'_, '_, E>,
    (command, handler): (&'static Command, KeyedHandler),
    args: &ArgumentView<'_>,
    key: Option<(usize, KeyHash)>,
) -> Outcome {
    if command.flags.contains(Flags::MEETS_KEYS) {
        return Err(Box::new(Stop::NeedLocks));
    }
    let shared = client.shared;
    let positions = key_positions(command, args)?;
    let mut hashed = None;
    let mut known = known_keys(shared, args, &positions, key, &mut hashed);
    let locks = lock(client, &known.slots()).map_err(Stop::wait)?;
    let mark = client.reply.mark();
    let lookups = client.worker.lookups(shared);
    let guard = client.reader.enter();
    let mut cx = Cx {
        args,
        reply: &mut *client.reply,
        worker: &mut *client.worker,
        shared,
        database: client.session.database,
        section: guard.section(),
        access: Access::Locked(locks),
        known: known.reborrow(),
        touch: !client.session.no_touch,
        may_block: false,
        rest: None,
        ready_key: None,
        command,
    };
    let mut found = FoundKeys::new(cx.database, positions.len(), cx.clock());
    for &position in &positions {
        let key = args.get(position);
        let entry = cx.peek(key);
        found.add(key, entry);
    }
    if !found.is_settled() {
        return Err(Box::new(Stop::NeedLocks));
    }
    // The locks go. Nothing was changed under them.
    cx.access = Access::Found(found);
    let outcome = handler(&mut cx);
    let lacked_any = !matches!(&cx.access, Access::Found(found) if !found.lacked_any());
    if lacked_any || matches!(&outcome, Err(stop) if stop.is_repeated()) {
        client.worker.uncount_lookups(shared, lookups);
    }
    if lacked_any {
        client.reply.truncate(mark);
        return Err(Box::new(Stop::NeedLocks));
    }
    outcome
}

/// What is known of the keys at `positions`; `hashed` has room for them.
fn known_keys<'c>(
    shared: &Shared,
    args: &ArgumentView<'_>,
    positions: &[usize],
    key: Option<(usize, KeyHash)>,
    hashed: &'c mut Option<HashedKeys>,
) -> KnownKeys<'c> {
    match (positions, key) {
        (&[position], Some((index, _))) if position == index => known(args, key),
        _ => KnownKeys::Several(hashed.insert(HashedKeys::of(shared, args, positions))),
    }
}

/// Runs a command under the locks of its keys' slots.
#[inline(never)]
fn write<E: Enter>(
    client: &mut Client<'_, '_, E>,
    (command, handler): (&'static Command, KeyedHandler),
    args: &ArgumentView<'_>,
    key: Option<(usize, KeyHash)>,
) -> Outcome {
    let shared = client.shared;
    let positions = key_positions(command, args)?;
    let meets_keys = command.flags.contains(Flags::MEETS_KEYS);
    // Slots that it meets later count as well.
    let needs_token = meets_keys && client.session.lock_attempts >= LOCK_ATTEMPTS_MAX;
    let mut hashed = None;
    let known = known_keys(shared, args, &positions, key, &mut hashed);
    let locks = match &known {
        KnownKeys::One(_, hash) if !needs_token => LockSet::one(shared, hash.slot),
        _ if needs_token => LockSet::with_token(shared, &known.slots(), client.reader.seat()),
        _ => lock(client, &known.slots()),
    };
    let mut locks = locks.map_err(Stop::wait)?;
    if publishes_several([(command, positions.len())]) {
        locks.mark_held();
    }
    let takes_pieces = client.takes_pieces();
    let lookups = meets_keys.then(|| client.worker.lookups(shared));
    let guard = client.reader.enter();
    let section = guard.section();
    let mut cx = Cx {
        args,
        reply: &mut *client.reply,
        worker: &mut *client.worker,
        shared,
        database: client.session.database,
        section,
        access: Access::Locked(locks),
        known,
        touch: !client.session.no_touch,
        may_block: command.flags.contains(Flags::BLOCKING),
        rest: takes_pieces.then_some(&mut client.session.rest),
        ready_key: None,
        command,
    };
    let mut outcome = handler(&mut cx);
    let Access::Locked(mut locks) = cx.access else { unreachable!("a write stays locked") };
    if let Err(stop) = &mut outcome
        && let Some(block) = stop.take_block()
    {
        let protocol = client.reply.protocol();
        let (worker, session) = (&mut *client.worker, &mut *client.session);
        register(shared, worker, session, protocol, &mut locks, (command, args), block);
        release(shared, worker, locks, section);
        return outcome;
    }
    if let (Err(stop), Some(lookups)) = (&outcome, lookups)
        && stop.is_repeated()
    {
        client.worker.uncount_lookups(shared, lookups);
    }
    finish(client.shared, client.worker, client.session.database, args, locks, section);
    outcome
}

/// Whether a unit may publish several times: its slots are held then, so that readers see one change. `calls` are its
/// commands with the number of their keys: one command, or all of a transaction, for which one is no other case.
///
/// Several changes are one to readers even within one slot: a reader of the first must see the second.
#[inline]
pub(crate) fn publishes_several<'c>(calls: impl IntoIterator<Item = (&'c Command, usize)>) -> bool {
    let (mut writes, mut is_several) = (false, false);
    for (index, (command, key_count)) in calls.into_iter().enumerate() {
        writes |= command.flags.contains(Flags::WRITE);
        is_several |= index > 0 || key_count > 1 || command.flags.contains(Flags::SEVERAL_CHANGES);
    }
    writes && is_several
}

/// Locks slots: by trying, or with the token after many failures.
pub(crate) fn lock<'k, E: Enter>(
    client: &Client<'k, '_, E>,
    slots: &Slots,
) -> Result<LockSet<'k>, Place> {
    let shared: &'k Shared = client.shared;
    if client.session.lock_attempts < LOCK_ATTEMPTS_MAX || slots.len() < 2 {
        LockSet::several(shared, slots)
    } else {
        LockSet::with_token(shared, slots, client.reader.seat())
    }
}

/// The positions of a command's keys.
pub(crate) fn key_positions(
    command: &Command,
    args: &ArgumentView<'_>,
) -> Result<KeyPositions, CommandError> {
    // Arguments that do not fit are the handler's to complain about; it cannot touch a key then.
    Ok(command.key_positions(args).unwrap_or_default())
}

/// What follows the handler under the locks: waiters are served, the journal is written. Then the locks go.
pub(crate) fn finish<'k>(
    shared: &'k Shared,
    worker: &mut Worker,
    database: usize,
    args: &ArgumentView<'_>,
    locks: LockSet<'k>,
    section: Section<'_>,
) {
    let changes = std::mem::take(&mut worker.changes);
    if shared.sinks.journal.is_some() {
        worker.effects.end_command(database, args, changes);
    }
    if changes > 0 {
        worker.stats(shared).changes.add(changes);
    }
    release(shared, worker, locks, section);
}

/// Serves waiters, writes the journal, releases, and sends what was served.
pub(crate) fn release<'k>(
    shared: &'k Shared,
    worker: &mut Worker,
    mut locks: LockSet<'k>,
    section: Section<'_>,
) {
    if !worker.ready.is_empty() {
        locks = serve::serve_ready(shared, worker, locks, section);
    }
    if let Some(journal) = &shared.sinks.journal {
        let record = worker.effects.take();
        if !record.is_empty() {
            journal.append(record);
        }
    }
    drop(locks);
    // Behind the record, so that a worker which sends nothing before the journal's tail is durable holds these replies
    // back too; and without the locks, which a wake-up need not prolong.
    for (owner, reply) in worker.served.drain(..) {
        shared.mailboxes.post(owner, reply);
    }
}

/// Registers the client as a waiter, under the locks of all its keys.
fn register(
    shared: &Shared,
    worker: &mut Worker,
    session: &mut Session,
    protocol: Protocol,
    locks: &mut LockSet<'_>,
    (command, args): (&'static Command, &ArgumentView<'_>),
    block: Block,
) {
    let waiter = Arc::new(Waiter::new(
        shared.next_waiter_id(),
        (worker.index, session.id()),
        session.database,
        (command, OwnedArguments::new(args.iter())),
        protocol,
        block,
        shared.clock.monotonic_us(),
    ));
    for key in waiter.keys() {
        let slot = SlotNumber::of_key(key);
        let side = locks.lock(slot).expect("a blocking command locks all its keys").side();
        worker.ended.settle(slot, side);
        side.wait(waiter.database, key, &waiter);
    }
    worker.deadlines.insert(&waiter);
    session.client.set_waiter(Some(Arc::clone(&waiter)));
    session.waiter = Some(Arc::clone(&waiter));
    worker.changes = 0;
}
