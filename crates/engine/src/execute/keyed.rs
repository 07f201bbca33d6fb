//! Execution of commands on keys: without a lock, under one, or under several.

use std::mem::ManuallyDrop;
use std::sync::Arc;

use tidemill_resp::encode::Protocol;
use tidemill_resp::request::{ArgumentView, OwnedArguments};
use tidemill_store::{KeyHash, SlotNumber};

use super::credit::is_exempt;
use super::executor::Executor;
use super::tracking::is_registered;
use super::transaction::lock_alone;
use super::unit::commit;
use crate::access::context::{Access, Caller, Verdict};
use crate::access::found_keys::FoundKeys;
use crate::access::handler::KeyedHandler;
use crate::access::key_hashes::{HashedKeys, KeyHashes};
use crate::access::locks::{LockSet, Slots, spin};
use crate::access::outcome::{Outcome, Stop};
use crate::access::section::{Enter, OpenSection};
use crate::access::unit::Unit;
use crate::blocking::Block;
use crate::command::{Command, Flags};
use crate::error::{CommandError, NO_MEMORY_LEFT};
use crate::limits::{
    LOCK_ATTEMPTS_MAX, ONE_SLOT_ATTEMPTS_MAX, READ_ATTEMPT_NS_MAX, READ_ATTEMPTS_MAX,
    RESULT_ATTEMPTS_MAX,
};
use crate::shared::Shared;
use crate::slots::parking::WaitTarget;
use crate::slots::waiter::Waiter;
use crate::worker::Worker;
use crate::worker::session::{Session, SessionTracking};

/// Runs a command on keys outside of transactions.
#[inline(always)]
pub(crate) fn run<E: Enter>(
    executor: &mut Executor<'_, '_, E>,
    (command, handler): (&'static Command, KeyedHandler),
    args: &ArgumentView<'_>,
    key: Option<(usize, KeyHash)>,
) -> Outcome {
    if command.flags.contains(Flags::READONLY) {
        let outcome = if args.len() > 2 && command.may_have_several_keys() {
            read_several(executor, (command, handler), args)
        } else {
            read(executor, (command, handler), args, known(args, key))
        };
        let Err(mut stop) = outcome else { return Ok(()) };
        if matches!(*stop, Stop::Disturbed) {
            match run_found(executor, (command, handler), args, key) {
                Ok(()) => return Ok(()),
                Err(found) => stop = found,
            }
        }
        if !matches!(*stop, Stop::NeedLocks) {
            return Err(stop);
        }
    }
    run_write(executor, (command, handler), args, key)
}

/// Runs a command under the locks of its keys, or without them while it computes.
#[inline(always)]
pub(super) fn run_write<E: Enter>(
    executor: &mut Executor<'_, '_, E>,
    (command, handler): (&'static Command, KeyedHandler),
    args: &ArgumentView<'_>,
    key: Option<(usize, KeyHash)>,
) -> Outcome {
    let outcome = write(executor, (command, handler), args, key, true);
    match &outcome {
        Err(stop) if matches!(**stop, Stop::TakesLong) => {
            write_result(executor, (command, handler), args, key)
        }
        _ => outcome,
    }
}

/// Runs a command that stores what it computes from its keys, without their locks while it
/// computes: see [`Cx::lock_for_result`](crate::access::context::Cx::lock_for_result).
#[cold]
fn write_result<E: Enter>(
    executor: &mut Executor<'_, '_, E>,
    (command, handler): (&'static Command, KeyedHandler),
    args: &ArgumentView<'_>,
    key: Option<(usize, KeyHash)>,
) -> Outcome {
    for _ in 0..RESULT_ATTEMPTS_MAX {
        let outcome = run_found(executor, (command, handler), args, key);
        if !matches!(&outcome, Err(stop) if matches!(**stop, Stop::NeedLocks)) {
            return outcome;
        }
    }
    write(executor, (command, handler), args, key, false)
}

/// Hashes of the keys when `key` is one of them: its argument and hash.
#[inline(always)]
fn known(args: &ArgumentView<'_>, key: Option<(usize, KeyHash)>) -> KeyHashes<'static> {
    key.map_or(KeyHashes::None, |(index, hash)| KeyHashes::One(args.get(index), hash))
}

/// Runs a reading command that may have several keys without a lock.
#[inline(never)]
fn read_several<E: Enter>(
    executor: &mut Executor<'_, '_, E>,
    (command, handler): (&'static Command, KeyedHandler),
    args: &ArgumentView<'_>,
) -> Outcome {
    let mut keys =
        HashedKeys::of(executor.shared, args, &command.key_positions(args).unwrap_or_default());
    read(executor, (command, handler), args, KeyHashes::Several(&mut keys))
}

/// Runs a reading command without a lock, and once more when what it saw does not count.
#[inline(always)]
fn read<E: Enter>(
    executor: &mut Executor<'_, '_, E>,
    (command, handler): (&'static Command, KeyedHandler),
    args: &ArgumentView<'_>,
    mut known: KeyHashes<'_>,
) -> Outcome {
    let mark = executor.reply.mark();
    executor.worker.begin_lookups();
    let guard = executor.reader.enter();
    let mut attempts = 0;
    loop {
        let (worker, reply) = (&mut *executor.worker, &mut *executor.reply);
        // Never dropped: see `end_lookups`.
        let mut cx = ManuallyDrop::new(
            Caller::client(executor.shared, worker, reply, executor.session).calls(
                (command, args),
                guard.section(),
                Access::optimistic(),
                known.reborrow(),
            ),
        );
        let outcome = handler(&mut cx);
        let verdict = cx.verdict();
        cx.end_lookups();
        match verdict {
            Verdict::Valid => {
                let Err(stop) = outcome else { return Ok(()) };
                if stop.is_repeated() {
                    executor.worker.uncount_lookups();
                }
                return Err(stop);
            }
            Verdict::Stale(slot) => {
                executor.worker.uncount_lookups();
                executor.reply.truncate(mark);
                attempts += 1;
                give_up(executor.shared, (executor.worker, executor.session), slot, attempts)?;
            }
        }
    }
}

/// Ends the attempts at a read that did not count because of `slot`, if it is not to be tried
/// again, with why it stops.
///
/// A command that reads many keys, or for long, may never see all of them still: nobody goes on
/// until nobody writes.
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
        return Err(Stop::wait(WaitTarget::Slot(slot)));
    }
    // At least what the attempt took: other commands of its batch may have run since the clock was
    // read.
    let elapsed_ns = worker.run.elapsed_ns(shared.clock.monotonic_ns());
    if attempts >= READ_ATTEMPTS_MAX || elapsed_ns > READ_ATTEMPT_NS_MAX {
        return Err(Box::new(Stop::Disturbed));
    }
    Ok(())
}

/// Runs a command on what is found under the locks of its keys' slots. They are kept for the
/// lookups only: see [`found_keys`](crate::access::found_keys). One that writes takes them again.
///
/// # Errors
///
/// [`Stop::NeedLocks`] when that is not enough.
#[inline(never)]
fn run_found<E: Enter>(
    executor: &mut Executor<'_, '_, E>,
    (command, handler): (&'static Command, KeyedHandler),
    args: &ArgumentView<'_>,
    key: Option<(usize, KeyHash)>,
) -> Outcome {
    if command.flags.contains(Flags::DISCOVERS_KEYS) {
        return Err(Box::new(Stop::NeedLocks));
    }
    let shared = executor.shared;
    let positions = command.key_positions(args).unwrap_or_default();
    let mut hashed = None;
    let mut known = known_keys(shared, args, &positions, key, &mut hashed);
    let locks = lock(executor, &known.slots()).map_err(Stop::wait)?;
    let mark = executor.reply.mark();
    executor.worker.begin_lookups();
    let guard = executor.reader.enter();
    let section = guard.section();
    let unit = Unit::new(shared, executor.worker, locks);
    let (worker, reply) = (&mut *executor.worker, &mut *executor.reply);
    let mut cx = Caller::client(shared, worker, reply, executor.session).calls(
        (command, args),
        section,
        Access::Locked(unit),
        known.reborrow(),
    );
    let mut found = FoundKeys::new(cx.database, positions.len(), cx.clock());
    for &position in &positions {
        let key = args.get(position);
        let entry = cx.peek(key);
        found.add(key, entry);
    }
    if !found.is_settled() {
        return Err(Box::new(Stop::NeedLocks));
    }
    if found.need_pin() {
        found.keep(cx.pin_all());
    }
    // The locks go. Nothing was changed under them.
    cx.go_on_with(found);
    let outcome = handler(&mut cx);
    let lacked_any = cx.lacked_any();
    if cx.is_locked() {
        let mut unit = cx.into_unit();
        unit.end_command(shared, executor.worker, executor.session.database, args);
        commit(shared, executor.worker, unit, section);
    }
    if lacked_any || matches!(&outcome, Err(stop) if stop.is_repeated()) {
        executor.worker.uncount_lookups();
    }
    if lacked_any {
        executor.reply.truncate(mark);
        return Err(Box::new(Stop::NeedLocks));
    }
    outcome
}

/// Hashes of the keys at `positions`; `hashed` has room for them.
#[inline]
fn known_keys<'c>(
    shared: &Shared,
    args: &ArgumentView<'_>,
    positions: &[usize],
    key: Option<(usize, KeyHash)>,
    hashed: &'c mut Option<HashedKeys>,
) -> KeyHashes<'c> {
    match (positions, key) {
        (&[position], Some((index, _))) if position == index => known(args, key),
        _ => KeyHashes::Several(hashed.insert(HashedKeys::of(shared, args, positions))),
    }
}

/// Runs a command under the locks of its keys' slots.
#[inline(never)]
fn write<E: Enter>(
    executor: &mut Executor<'_, '_, E>,
    (command, handler): (&'static Command, KeyedHandler),
    args: &ArgumentView<'_>,
    key: Option<(usize, KeyHash)>,
    may_release: bool,
) -> Outcome {
    let shared = executor.shared;
    let meets_keys = command.flags.contains(Flags::DISCOVERS_KEYS);
    // Slots that it meets later count as well.
    let needs_token = meets_keys && executor.session.lock_attempts >= LOCK_ATTEMPTS_MAX;
    let mut hashed = None;
    let (known, key_count) = match key {
        Some(_) if !command.may_have_several_keys() => (known(args, key), 1),
        _ => {
            let positions = command.key_positions(args).unwrap_or_default();
            (known_keys(shared, args, &positions, key, &mut hashed), positions.len())
        }
    };
    let locks = match &known {
        KeyHashes::One(_, hash)
            if !needs_token && executor.session.lock_attempts < ONE_SLOT_ATTEMPTS_MAX =>
        {
            LockSet::one(shared, hash.slot)
        }
        _ if needs_token && executor.contender().needs_gate() => {
            return write_alone(executor, (command, handler), args, known);
        }
        _ if needs_token => LockSet::with_token(shared, &known.slots(), &executor.contender()),
        _ => lock(executor, &known.slots()),
    };
    let locks = locks.map_err(Stop::wait)?;
    write_locked(executor, (command, handler), args, (locks, key_count, known), may_release)
}

/// Runs a command that discovers keys with all other workers stopped: no slot that it meets is
/// taken.
#[cold]
fn write_alone<E: Enter>(
    executor: &mut Executor<'_, '_, E>,
    called: (&'static Command, KeyedHandler),
    args: &ArgumentView<'_>,
    known: KeyHashes<'_>,
) -> Outcome {
    let slots = known.slots();
    let (locks, alone) = lock_alone(executor, &slots).map_err(Stop::wait)?;
    let outcome = write_locked(executor, called, args, (locks, slots.len(), known), true);
    drop(alone);
    outcome
}

/// Runs a command under the locks of the slots of its keys, of which there are `key_count`.
#[inline(always)]
fn write_locked<'k, E: Enter>(
    executor: &mut Executor<'k, '_, E>,
    (command, handler): (&'static Command, KeyedHandler),
    args: &ArgumentView<'_>,
    (locks, key_count, known): (LockSet<'k>, usize, KeyHashes<'_>),
    may_release: bool,
) -> Outcome {
    let shared: &'k Shared = executor.shared;
    let mut unit = Unit::new(shared, executor.worker, locks);
    if publishes_several([(command, key_count)]) {
        unit.mark_held_timed(shared, executor.worker);
    }
    let takes_pieces = executor.takes_pieces();
    executor.worker.begin_lookups();
    let guard = executor.reader.enter();
    let section = guard.section();
    let (worker, reply) = (&mut *executor.worker, &mut *executor.reply);
    let caller = Caller::client(shared, worker, reply, executor.session)
        .may_wait(command.flags.contains(Flags::BLOCKING))
        .may_release(may_release)
        .takes_pieces(takes_pieces.then_some(&mut executor.session.pending_reply));
    let mut cx = caller.calls((command, args), section, Access::Locked(unit), known);
    let mut outcome = handler(&mut cx);
    let mut unit = cx.into_unit();
    if let Err(stop) = &mut outcome
        && let Some(block) = stop.take_block()
    {
        let protocol = executor.reply.protocol();
        let (worker, session) = (&mut *executor.worker, &mut *executor.session);
        if worker.lacks_memory && !is_exempt(shared, worker) {
            outcome = Err(CommandError::from(NO_MEMORY_LEFT).into());
        } else {
            register(shared, worker, session, protocol, &mut unit, (command, args), block);
        }
        // A consumer of a group is seen before it waits.
        unit.end_command(shared, worker, session.database, args);
        commit(shared, worker, unit, section);
        return outcome;
    }
    if let Err(stop) = &outcome
        && stop.is_repeated()
    {
        executor.worker.uncount_lookups();
    }
    unit.end_command(shared, executor.worker, executor.session.database, args);
    commit(shared, executor.worker, unit, section);
    outcome
}

/// True if a unit may publish several times: its slots are held then, so that readers see one
/// change. `calls` are its commands with the number of their keys: one command, or all of a
/// transaction, for which one is no other case.
///
/// Several changes are one to readers even within one slot: a reader of the first must see the
/// second. A script holds its slots itself before it writes; what publishes before it in its
/// transaction must be held as well, because slots may join only a unit that has no number yet.
#[inline]
pub(crate) fn publishes_several<'c>(calls: impl IntoIterator<Item = (&'c Command, usize)>) -> bool {
    let (mut writes, mut is_several) = (false, false);
    for (index, (command, key_count)) in calls.into_iter().enumerate() {
        writes |= command.may_change_data();
        is_several |= index > 0 || key_count > 1 || command.flags.contains(Flags::SEVERAL_CHANGES);
    }
    writes && is_several
}

/// Locks slots: by trying, or with the token after many failures.
pub(crate) fn lock<'k, E: Enter>(
    executor: &Executor<'k, '_, E>,
    slots: &Slots,
) -> Result<LockSet<'k>, WaitTarget> {
    let shared: &'k Shared = executor.shared;
    let attempts_max = if slots.len() < 2 { ONE_SLOT_ATTEMPTS_MAX } else { LOCK_ATTEMPTS_MAX };
    if executor.session.lock_attempts < attempts_max {
        return LockSet::several(shared, slots);
    }
    // A session that finds the token taken tries once more without it before it waits for its turn.
    LockSet::with_token(shared, slots, &executor.contender())
        .or_else(|place| LockSet::several(shared, slots).map_err(|_| place))
}

/// Registers the client as a waiter, under the locks of all its keys.
fn register(
    shared: &Shared,
    worker: &mut Worker,
    session: &mut Session,
    protocol: Protocol,
    unit: &mut Unit<'_>,
    (command, args): (&'static Command, &ArgumentView<'_>),
    block: Block,
) {
    let mut fixed = block.fixed_arguments.iter().peekable();
    let arguments = args.iter().enumerate().map(|(index, argument)| {
        fixed.next_if(|(position, _)| *position == index).map_or(argument, |(_, fixed)| fixed)
    });
    let arguments = OwnedArguments::new(arguments);
    let sent = !block.fixed_arguments.is_empty();
    let sent = sent.then(|| OwnedArguments::new(args.iter()));
    let waiter = Waiter::new(
        shared.next_waiter_id(),
        (worker.index, session.id(), Arc::clone(session.account())),
        session.database,
        (command, arguments),
        protocol,
        block,
        shared.clock.monotonic_us(),
    );
    let tracking = session.tracking.as_deref();
    let tracker = tracking.and_then(SessionTracking::of_reads).filter(|_| is_registered(command));
    let waiter = waiter.tracked(tracker.cloned(), session.is_noloop()).touching(!session.no_touch);
    let waiter = Arc::new(waiter.sent_as(sent));
    for key in waiter.keys() {
        let slot = SlotNumber::of_key(key);
        let side = unit.lock(slot).expect("a blocking command locks all its keys").side();
        worker.ended.settle(slot, side);
        side.wait(waiter.database, key, &waiter);
    }
    worker.deadlines.insert(&waiter);
    session.client.set_waiter(Some(Arc::clone(&waiter)));
    // `end_client` kills, then takes the mutex of the wait, which `set_waiter` has taken: it finds
    // the wait there, or this sees the client killed.
    if session.client.is_killed() {
        let _ = waiter.end();
    }
    session.waiter = Some(Arc::clone(&waiter));
}
