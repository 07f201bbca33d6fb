//! `EXEC`: all queued commands as one.
//!
//! The slots of all queued commands' keys and of all watched keys are locked together; then the
//! watch is judged, the clock taken, and the commands run one after the other. A transaction with a
//! command on the whole keyspace runs with all other workers stopped instead: nothing else is
//! simple to understand, and such transactions are rare.

use smallvec::SmallVec;
use tidemill_resp::encode::{Mark, ReplyBuffer};
use tidemill_resp::request::OwnedArguments;
use tidemill_store::SlotNumber;
use tidemill_store::gate::ClosedGate;

use super::admit::is_script_for_memory;
use super::executor::{Executor, Step};
use super::keyed::{self, lock};
use super::permission;
use super::script::{self, Suspended};
use super::unit::{close_gate, commit, run_inner};
use crate::access::handler::Handler;
use crate::access::key_hashes::KeyHashes;
use crate::access::locks::{LockSet, Slots, ascending};
use crate::access::section::{Enter, OpenSection};
use crate::access::unit::Unit;
use crate::access::unwatch::unwatch;
use crate::acl::Context;
use crate::command::{Command, CommandId, Flags, Scope};
use crate::error::CommandError;
use crate::shared::Shared;
use crate::slots::parking::WaitTarget;
use crate::slots::token::TokenGuard;
use crate::worker::session::{Queued, Transaction};

/// Closed gate of a transaction with a command on the whole keyspace, and the token that goes with
/// it. The gate opens first.
#[derive(Default)]
pub(crate) struct Alone<'k> {
    pub(crate) gate: Option<ClosedGate<'k>>,
    pub(crate) token: Option<TokenGuard<'k>>,
}

/// Locks that keep others away from a transaction while it runs.
struct Exclusion<'k> {
    unit: Unit<'k>,
    alone: Alone<'k>,
    /// It makes several changes, which are one to readers.
    publishes_several: bool,
}

/// State of a transaction when its commands, or one that is a script, have had a turn.
pub(crate) enum Ran<'k> {
    Done(Unit<'k>),
    Suspended(Suspended),
}

/// Course of a transaction through its commands.
struct Course {
    queued: Vec<Queued>,
    next: usize,
    /// End of the replies that are sent: behind a command that closes the connection, the others
    /// run nevertheless.
    reply_end: Option<Mark>,
}

/// A transaction between two turns of a script of it.
pub(crate) struct SuspendedTransaction {
    course: Course,
    /// `EXEC`.
    pub(crate) exec: (CommandId, &'static Command),
    /// Replies so far: none leaves before the transaction is done.
    pub(crate) reply: ReplyBuffer,
    /// Nanoseconds that the script has taken.
    pub(crate) script_ns: u64,
    /// Time of all commands: [`Worker::swap_time`](crate::worker::Worker::swap_time).
    time: (u64, u64),
}

impl SuspendedTransaction {
    /// Memory of its commands' arguments. Takes time with their number.
    pub(crate) fn queued_bytes(&self) -> usize {
        self.course.queued.iter().map(|queued| queued.arguments.allocated_bytes()).sum()
    }

    /// Takes out the call of the script that is suspended.
    pub(crate) fn take_call(&mut self) -> (CommandId, OwnedArguments) {
        let queued = &mut self.course.queued[self.course.next];
        (queued.id, std::mem::replace(&mut queued.arguments, OwnedArguments::new([])))
    }

    /// Runs the commands behind the script that has ended. `before` are the places in the replies
    /// before its own.
    pub(crate) fn go_on<'k, E: Enter>(
        &mut self,
        executor: &mut Executor<'k, '_, E>,
        (unit, alone): (Unit<'k>, &mut Alone<'k>),
        arguments: OwnedArguments,
        before: (Mark, usize),
    ) -> Ran<'k> {
        self.course.queued[self.course.next].arguments = arguments;
        self.course.end_command(executor, before, Some(std::mem::take(&mut self.script_ns)));
        let now = executor.worker.swap_time(self.time);
        let begun_ns = executor.shared.clock.monotonic_ns();
        let ran = run_all(executor, unit, &mut self.course, alone);
        if matches!(ran, Ran::Suspended(_)) {
            self.script_ns = executor.shared.clock.monotonic_ns().saturating_sub(begun_ns);
        }
        executor.worker.swap_time(now);
        ran
    }
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
        executor.count_failed(id, 1);
        executor.error(&"EXECABORT Transaction discarded because of previous errors.".into());
        return Step::Done;
    }
    let has_script = has_script(executor.shared, &transaction);
    // Beside the connection's, since a script may take several turns.
    let mut replies = ReplyBuffer::new(executor.reply.protocol());
    let checked = match has_script {
        true => check_memory(&mut executor.with_reply(&mut replies), &transaction),
        false => check_memory(executor, &transaction),
    };
    match checked {
        Ok(None) => {}
        Ok(Some(target)) => {
            executor.session.transaction = Some(transaction);
            return Step::Wait(target);
        }
        Err(reason) => return refuse(executor, id, &reason),
    }
    let shared = executor.shared;
    let Exclusion { mut unit, mut alone, publishes_several } = match exclude(executor, &transaction)
    {
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
        unit.mark_held_timed(shared, executor.worker);
    }
    let mut course = Course { queued: transaction.queued, next: 0, reply_end: None };
    if !has_script {
        executor.reply.array(course.queued.len());
        let Ran::Done(unit) = run_all(executor, unit, &mut course, &mut alone) else {
            unreachable!("only scripts are suspended")
        };
        end(executor, unit, alone);
        return Step::Done;
    }
    run_scripts(executor, id, (unit, alone), course, replies)
}

/// Runs a transaction with scripts, whose replies are put together in `replies`.
fn run_scripts<'k, E: Enter>(
    executor: &mut Executor<'k, '_, E>,
    id: CommandId,
    (unit, mut alone): (Unit<'k>, Alone<'k>),
    mut course: Course,
    mut replies: ReplyBuffer,
) -> Step {
    let shared = executor.shared;
    let time = (executor.worker.now_us(), executor.worker.ahead_ms());
    let begun_ns = shared.clock.monotonic_ns();
    replies.array(course.queued.len());
    let ran = run_all(&mut executor.with_reply(&mut replies), unit, &mut course, &mut alone);
    match ran {
        Ran::Done(unit) => {
            executor.answer_with(&mut replies);
            end(executor, unit, alone);
        }
        Ran::Suspended(suspended) => {
            let exec = (id, shared.commands.command(id));
            let script_ns = shared.clock.monotonic_ns().saturating_sub(begun_ns);
            let transaction =
                SuspendedTransaction { course, exec, reply: replies, script_ns, time };
            script::keep_transaction(executor, suspended, transaction);
        }
    }
    Step::Done
}

/// Ends a transaction whose commands have run.
pub(crate) fn end<'k, E: Enter>(
    executor: &mut Executor<'k, '_, E>,
    mut unit: Unit<'k>,
    mut alone: Alone<'k>,
) {
    let shared = executor.shared;
    if unit.ready().is_some() {
        // Waiters are served after the transaction, by the time that it is then.
        executor.worker.refresh_clock(shared);
        unit.release_clock();
    }
    if alone.gate.is_some() && alone.token.is_none() {
        // Others run on before somebody else may stop them.
        alone.token = unit.take_token();
    }
    let guard = executor.reader.enter();
    commit(shared, executor.worker, unit, guard.section());
    drop(alone);
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

/// Runs the queued commands from the next one on, one after the other, up to a script whose turn
/// ends.
fn run_all<'k, E: Enter>(
    executor: &mut Executor<'k, '_, E>,
    mut unit: Unit<'k>,
    course: &mut Course,
    alone: &mut Alone<'k>,
) -> Ran<'k> {
    let mut start_ns = executor.shared.clock.monotonic_ns();
    while let Some(queued) = course.queued.get(course.next) {
        let before = (executor.reply.mark(), executor.reply.len());
        if is_denied(executor, queued) {
            course.end_command(executor, before, None);
            continue;
        }
        match run_queued(executor, unit, queued, alone) {
            Ran::Done(ran) => unit = ran,
            suspended @ Ran::Suspended(_) => return suspended,
        }
        let now_ns = executor.shared.clock.monotonic_ns();
        course.end_command(executor, before, Some(now_ns - start_ns));
        start_ns = now_ns;
    }
    if let Some(mark) = course.reply_end {
        executor.reply.truncate(mark);
    }
    Ran::Done(unit)
}

impl Course {
    /// Notes the command that has ended, and the nanoseconds that it took if it was called; the
    /// next one comes.
    fn end_command<E: Enter>(
        &mut self,
        executor: &mut Executor<'_, '_, E>,
        (mark, before): (Mark, usize),
        elapsed_ns: Option<u64>,
    ) {
        let queued = &self.queued[self.next];
        self.next += 1;
        executor.keep_places(before, self.queued.len() - self.next);
        if let Some(elapsed_ns) = elapsed_ns {
            let called = (queued.id, executor.shared.commands.command(queued.id));
            let reply_bytes = executor.reply.appended_bytes(mark);
            executor.note_queued(called, &queued.arguments.view(), elapsed_ns, reply_bytes);
        }
        executor.session.close_after_reply |= executor.session.exceeds_output_limit;
        if executor.session.close_after_reply && self.reply_end.is_none() {
            self.reply_end = Some(executor.reply.mark());
        }
        executor.reader.quiescent();
    }
}

/// Answers a queued command that the session's user may not call any more: rules may have changed
/// since it was queued, by a command of this transaction too. Returns true if it is one.
fn is_denied<E: Enter>(executor: &mut Executor<'_, '_, E>, queued: &Queued) -> bool {
    if executor.session.is_unrestricted {
        return false;
    }
    let call = (queued.id, &queued.arguments.view());
    let denial = permission::check(executor, call, Context::Multi).err();
    if let Some(denial) = &denial {
        executor.error(&denial.error_in_exec());
    }
    denial.is_some()
}

/// Runs a queued command.
fn run_queued<'k, E: Enter>(
    executor: &mut Executor<'k, '_, E>,
    unit: Unit<'k>,
    queued: &Queued,
    alone: &mut Alone<'k>,
) -> Ran<'k> {
    let call = (queued.id, &queued.arguments.view());
    let command = executor.shared.commands.command(queued.id);
    if let Some(Handler::Script(how)) = executor.handlers.of(queued.id) {
        executor.count_call();
        let request = script::Request { id: queued.id, command, how, args: call.1, key_hash: None };
        return script::run_in_transaction(executor, unit, request, alone);
    }
    if alone.gate.is_none() && command.stops_others(call.1) {
        // A script before it was suspended: the gate is open since.
        alone.gate = Some(close_gate(executor.shared, executor.reader.seat()));
    }
    let (unit, error) = run_inner(executor, unit, call, KeyHashes::None, alone.gate.as_ref());
    if let Some(error) = error {
        executor.count_failed(queued.id, 1);
        executor.count_error(&error);
    }
    executor.count_call();
    Ran::Done(unit)
}

/// True if a transaction runs scripts.
fn has_script(shared: &Shared, transaction: &Transaction) -> bool {
    let scope = |queued: &Queued| shared.commands.command(queued.id).scope;
    transaction.queued.iter().any(|queued| scope(queued) == Scope::Script)
}

/// True if a transaction publishes messages by command.
#[cold]
fn publishes(shared: &Shared, transaction: &Transaction) -> bool {
    let name = |queued: &Queued| shared.commands.command(queued.id).name;
    transaction.queued.iter().any(|queued| matches!(name(queued), "publish" | "spublish"))
}

/// True if a queued command is refused where there is no memory.
fn takes_memory<E>(executor: &mut Executor<'_, '_, E>, queued: &Queued) -> bool {
    executor.shared.commands.command(queued.id).flags.contains(Flags::DENYOOM)
        || is_script_for_memory(executor, queued.id, &queued.arguments.view())
}

/// Ok if the commands may write and take memory, and there is some for what they store and for the
/// least that they answer; or the target to wait for first.
fn check_memory<E: Enter>(
    executor: &mut Executor<'_, '_, E>,
    transaction: &Transaction,
) -> Result<Option<WaitTarget>, CommandError> {
    if executor.worker.may_refuse_memory()
        && transaction.queued.iter().any(|queued| takes_memory(executor, queued))
        && let Some(target) = executor.make_room()?
    {
        return Ok(Some(target));
    }
    let writes =
        |queued: &Queued| executor.shared.commands.command(queued.id).flags.contains(Flags::WRITE);
    if executor.worker.refuses_writes && transaction.queued.iter().any(writes) {
        return Err(executor.shared.write_refused());
    }
    executor.check_transaction_room(transaction)?;
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
    let stops_others =
        |queued: &Queued| shared.commands.command(queued.id).stops_others(&queued.arguments.view());
    if !transaction.queued.iter().any(stops_others) {
        let locks = match has_script(shared, transaction) {
            // It may touch keys that nobody named, and what ran before it is not taken back.
            true => LockSet::with_token(shared, &slots, &executor.contender())?,
            false => lock(executor, &slots)?,
        };
        let unit = Unit::new(shared, executor.worker, locks);
        return Ok(Exclusion { unit, alone: Alone::default(), publishes_several });
    }
    let (locks, alone) = lock_alone(executor, &slots)?;
    let unit = Unit::new(shared, executor.worker, locks);
    Ok(Exclusion { unit, alone, publishes_several })
}

/// Stops all other workers and locks slots, which are free then.
pub(crate) fn lock_alone<'k, E: Enter>(
    executor: &Executor<'k, '_, E>,
    slots: &Slots,
) -> Result<(LockSet<'k>, Alone<'k>), WaitTarget> {
    let shared: &'k Shared = executor.shared;
    let contender = executor.contender();
    let token = contender.take_token(shared)?;
    let gate = contender.close_gate(shared)?;
    let locks = LockSet::all(shared, slots).ok_or(WaitTarget::Gate)?;
    Ok((locks, Alone { gate: Some(gate), token: Some(token) }))
}

fn footprint<E>(executor: &Executor<'_, '_, E>, transaction: &Transaction) -> Footprint {
    let mut slots: SmallVec<[SlotNumber; 16]> = SmallVec::new();
    let calls = transaction.queued.iter().map(|queued| {
        let args = queued.arguments.view();
        let command = executor.shared.commands.command(queued.id);
        let positions = command.key_positions(&args).unwrap_or_default();
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
