//! `EXEC`: all queued commands as one.
//!
//! The slots of all queued commands' keys and of all watched keys are locked together; then the
//! watch is judged, the clock taken, and the commands run one after the other. A transaction with a
//! command on the whole keyspace runs with all other workers stopped instead: nothing else is
//! simple to understand, and such transactions are rare.

use smallvec::SmallVec;
use tidemill_store::SlotNumber;
use tidemill_store::gate::ClosedGate;

use super::executor::{Executor, Step};
use super::keyed::{self, key_positions, lock};
use super::permission;
use super::script;
use super::unit::{commit, run_inner};
use crate::access::handler::Handler;
use crate::access::locks::{LockSet, Slots, ascending};
use crate::access::section::{Enter, OpenSection};
use crate::access::unit::Unit;
use crate::access::unwatch::unwatch;
use crate::acl::Context;
use crate::command::{CommandId, Flags, Scope};
use crate::error::CommandError;
use crate::memory::Room;
use crate::shared::Shared;
use crate::slots::parking::WaitTarget;
use crate::slots::token::TokenGuard;
use crate::worker::session::{Queued, Transaction};

/// Locks that keep others away from a transaction while it runs.
struct Exclusion<'k> {
    unit: Unit<'k>,
    gate: Option<ClosedGate<'k>>,
    token: Option<TokenGuard<'k>>,
    /// It makes several changes, which are one to readers.
    publishes_several: bool,
}

/// Slots that a transaction touches.
struct Footprint {
    /// The slots of all keys of its commands, and of all watched keys.
    slots: Slots,
    publishes_several: bool,
}

/// Runs `EXEC`, whose id is `id`, for a session with an open transaction.
pub(crate) fn exec<E: Enter>(executor: &mut Executor<'_, '_, E>, id: CommandId) -> Step {
    let Some(transaction) = executor.session.transaction.take() else {
        executor.error(&"ERR EXEC without MULTI".into());
        return Step::Done;
    };
    if transaction.is_aborted {
        unwatch(executor.shared, executor.worker, executor.session, None);
        executor.worker.stats(executor.shared).command(id).failed.add(1);
        executor.error(&"EXECABORT Transaction discarded because of previous errors.".into());
        return Step::Done;
    }
    match check_memory(executor, &transaction) {
        Ok(None) => {}
        Ok(Some(target)) => {
            executor.session.transaction = Some(transaction);
            return Step::Wait(target);
        }
        Err(reason) => return refuse(executor, id, &reason),
    }
    let shared = executor.shared;
    let Exclusion { mut unit, mut gate, mut token, publishes_several } =
        match exclude(executor, &transaction) {
            Ok(exclusion) => exclusion,
            Err(place) => {
                executor.session.transaction = Some(transaction);
                return Step::Wait(place);
            }
        };
    executor.worker.refresh_clock(shared);
    if is_watch_broken(executor, &mut unit) {
        unwatch(shared, executor.worker, executor.session, Some(&mut unit));
        executor.reply.null_array();
        return Step::Done;
    }
    unwatch(shared, executor.worker, executor.session, Some(&mut unit));
    if publishes_several {
        unit.mark_held();
    }
    executor.reply.array(transaction.queued.len());
    unit = run_all(executor, unit, &transaction, &mut gate);
    if unit.ready().is_some() {
        // Waiters are served after the transaction, by the time that it is then.
        executor.worker.refresh_clock(shared);
        unit.release_clock();
    }
    if gate.is_some() && token.is_none() {
        // Others run on before somebody else may stop them.
        token = unit.take_token();
    }
    let guard = executor.reader.enter();
    commit(shared, executor.worker, unit, guard.section());
    drop((gate, token));
    Step::Done
}

/// Refuses a transaction: there is no memory for it, or no writes are accepted.
#[cold]
fn refuse<E: Enter>(
    executor: &mut Executor<'_, '_, E>,
    id: CommandId,
    reason: &CommandError,
) -> Step {
    unwatch(executor.shared, executor.worker, executor.session, None);
    executor.worker.stats(executor.shared).command(id).rejected.add(1);
    let text = [b"EXECABORT Transaction discarded because of: ", &*reason.wire()].concat();
    executor.error(&CommandError::Bytes(text));
    Step::Done
}

/// Runs all queued commands, one after the other.
fn run_all<'k, E: Enter>(
    executor: &mut Executor<'k, '_, E>,
    mut unit: Unit<'k>,
    transaction: &Transaction,
    gate: &mut Option<ClosedGate<'k>>,
) -> Unit<'k> {
    let shared = executor.shared;
    let mut start_ns = shared.clock.monotonic_ns();
    // A command that closes the connection is the last one whose reply is sent; the others run
    // nevertheless.
    let mut reply_end = None;
    for (index, queued) in transaction.queued.iter().enumerate() {
        let (mark, before) = (executor.reply.mark(), executor.reply.len());
        unit = run_queued(executor, unit, queued, gate);
        executor.keep_places(before, transaction.queued.len() - index - 1);
        let now_ns = shared.clock.monotonic_ns();
        let called = (queued.id, shared.commands.command(queued.id));
        let reply_bytes = executor.reply.appended_bytes(mark);
        executor.note_queued(called, &queued.arguments.view(), now_ns - start_ns, reply_bytes);
        start_ns = now_ns;
        if executor.session.close_after_reply && reply_end.is_none() {
            reply_end = Some(executor.reply.mark());
        }
        executor.reader.quiescent();
    }
    if let Some(mark) = reply_end {
        executor.reply.truncate(mark);
    }
    unit
}

/// Runs a queued command, if the session's user may still call it: rules may have changed since it
/// was queued, by a command of this transaction too.
fn run_queued<'k, E: Enter>(
    executor: &mut Executor<'k, '_, E>,
    unit: Unit<'k>,
    queued: &Queued,
    gate: &mut Option<ClosedGate<'k>>,
) -> Unit<'k> {
    let call = (queued.id, &queued.arguments.view());
    if !executor.session.is_unrestricted
        && let Err(denial) = permission::check(executor, call, Context::Multi)
    {
        executor.error(&denial.error_in_exec());
        return unit;
    }
    if let Some(Handler::Script(how)) = executor.handlers.of(queued.id) {
        let command = executor.shared.commands.command(queued.id);
        let request = script::Request { id: queued.id, command, how, args: call.1 };
        return script::run_in_transaction(executor, unit, request, gate);
    }
    run_inner(executor, unit, call, gate.as_ref())
}

/// True if a transaction publishes messages by command.
#[cold]
fn publishes(shared: &Shared, transaction: &Transaction) -> bool {
    let name = |queued: &Queued| shared.commands.command(queued.id).name;
    transaction.queued.iter().any(|queued| matches!(name(queued), "publish" | "spublish"))
}

/// Ok if the commands may write and take memory, and there is some for what they store and for the
/// least that they answer; or the target to wait for first.
fn check_memory<E: Enter>(
    executor: &mut Executor<'_, '_, E>,
    transaction: &Transaction,
) -> Result<Option<WaitTarget>, CommandError> {
    let denied = |queued: &Queued| {
        executor.shared.commands.command(queued.id).flags.contains(Flags::DENYOOM)
    };
    if executor.worker.is_limited()
        && transaction.queued.iter().any(denied)
        && let Some(target) = executor.make_room()?
    {
        return Ok(Some(target));
    }
    let writes =
        |queued: &Queued| executor.shared.commands.command(queued.id).flags.contains(Flags::WRITE);
    if executor.worker.refuses_writes && transaction.queued.iter().any(writes) {
        return Err(executor.shared.write_refused());
    }
    let bytes = transaction.queued_bytes as u64;
    Room::of(executor.shared).check(bytes + bytes / 4)?;
    executor.make_places(transaction.queued.len())?;
    Ok(None)
}

/// Locks what the transaction touches, or stops everybody else if it touches everything.
fn exclude<'k, E: Enter>(
    executor: &Executor<'k, '_, E>,
    transaction: &Transaction,
) -> Result<Exclusion<'k>, WaitTarget> {
    let shared: &'k Shared = executor.shared;
    if shared.lanes.is_any_crowded() && publishes(shared, transaction) {
        // Under its locks it will not wait.
        return Err(WaitTarget::Lane);
    }
    let Footprint { slots, publishes_several } = footprint(executor, transaction);
    let is_whole =
        transaction.queued.iter().map(|queued| shared.commands.command(queued.id)).any(|command| {
            command.scope == Scope::Keyspace || command.flags.contains(Flags::DISCOVERS_KEYS)
        });
    if !is_whole {
        let has_script = transaction.queued.iter().any(|queued| runs_script(shared, queued));
        let locks = match has_script {
            // It may touch keys that nobody named, and what ran before it is not taken back.
            true => LockSet::with_token(shared, &slots, executor.ticket(), executor.reader.seat())?,
            false => lock(executor, &slots)?,
        };
        let unit = Unit::new(shared, locks);
        return Ok(Exclusion { unit, gate: None, token: None, publishes_several });
    }
    let seat = executor.reader.seat();
    let token = shared.token.try_take(executor.ticket(), seat).ok_or(WaitTarget::Token)?;
    let gate = shared.close_gate(seat, executor.session.gate_attempts());
    let gate = gate.ok_or(WaitTarget::Gate)?;
    let locks = LockSet::all(shared, &slots).ok_or(WaitTarget::Gate)?;
    let unit = Unit::new(shared, locks);
    Ok(Exclusion { unit, gate: Some(gate), token: Some(token), publishes_several })
}

fn runs_script(shared: &Shared, queued: &Queued) -> bool {
    shared.commands.command(queued.id).scope == Scope::Script
}

fn footprint<E>(executor: &Executor<'_, '_, E>, transaction: &Transaction) -> Footprint {
    let mut slots: SmallVec<[SlotNumber; 16]> = SmallVec::new();
    let calls = transaction.queued.iter().map(|queued| {
        let args = queued.arguments.view();
        let command = executor.shared.commands.command(queued.id);
        let positions = key_positions(command, &args).unwrap_or_default();
        slots.extend(positions.iter().map(|&index| SlotNumber::of_key(args.get(index))));
        (command, positions.len())
    });
    let publishes_several = keyed::publishes_several(calls);
    if let Some(watch) = &executor.session.watch {
        slots.extend(watch.keys.iter().map(|watched| SlotNumber::of_key(&watched.key)));
    }
    Footprint { slots: ascending(slots), publishes_several }
}

/// True if a watched key changed, or has expired since it was watched. All watched slots are
/// locked.
fn is_watch_broken<E: Enter>(executor: &Executor<'_, '_, E>, unit: &mut Unit<'_>) -> bool {
    let Some(watch) = &executor.session.watch else { return false };
    if watch.flag.is_set() {
        return true;
    }
    let shared = executor.shared;
    let guard = executor.reader.enter();
    watch.keys.iter().any(|watched| {
        let key_hash = shared.keyspace.key_hash(&watched.key);
        let lock = unit.lock(key_hash.slot).expect("watched slots are locked");
        let found = lock.find(watched.database, key_hash, &watched.key, guard.section());
        let was_expired = lock.side().was_expired(watched.database, &watched.key, &watch.flag);
        !was_expired
            && found.is_some_and(|found| unit.is_over(shared, executor.worker, found.entry))
    })
}
