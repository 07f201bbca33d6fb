//! A run from its request to its reply.

use std::sync::Arc;

use smallvec::SmallVec;
use tidemill_resp::encode::Protocol as WireProtocol;
use tidemill_resp::request::ArgumentView;
use tidemill_script::{Interpreter, Progress, Protocol, Reply, Run, ScriptError};
use tidemill_store::gate::ClosedGate;
use tidemill_store::{KeyHash, SlotNumber};

use super::host::ScriptHost;
use super::inner::abandon;
use super::prepare::{Call, prepare};
use super::replies;
use super::state::{Limits, Reach, Restart, RunState, Spanning};
use super::suspended;
use super::undo::Undo;
use crate::access::context::Lookups;
use crate::access::handler::ScriptCommand;
use crate::access::locks::{LockSet, Slots, ascending};
use crate::access::section::{Enter, OpenSection};
use crate::access::unit::Unit;
use crate::command::{Command, CommandId, FIRST_SCRIPT_KEY};
use crate::error::CommandError;
use crate::execute::executor::{Executor, Step};
use crate::execute::keyed::lock;
use crate::execute::transaction::{Alone, Ran};
use crate::execute::unit::commit;
use crate::limits::{LOCK_ATTEMPTS_MAX, READ_ATTEMPTS_MAX, SCRIPT_SLICE_US, SEEN_SLOTS_MAX};
use crate::script::{Kind, RunningScript};
use crate::shared::Shared;
use crate::slots::parking::WaitTarget;
use crate::telemetry::command_log::shortened;
use crate::telemetry::shown_arguments;
use crate::worker::scripts::{Machine, RunBuffers};

/// A command that runs a script.
#[derive(Clone, Copy)]
pub(crate) struct Request<'a> {
    pub(crate) id: CommandId,
    pub(crate) command: &'static Command,
    pub(crate) how: ScriptCommand,
    pub(crate) args: &'a ArgumentView<'a>,
    /// Hash of the argument that is the first key, if there is one, where it is known.
    pub(crate) key_hash: Option<KeyHash>,
}

/// Start of a turn of a run: a new script, or one that was suspended.
pub(super) enum Begin<'c, 'a> {
    /// A script from its beginning.
    Start(&'c Call<'a>),
    /// A run that was suspended.
    Resume(Run),
}

/// End of an attempt at a run.
pub(super) enum Ended {
    /// With a result.
    Finished(Result<Reply, ScriptError>),
    /// Its turn is over.
    Suspended(Run),
    /// It begins anew, and has left nothing behind.
    Restart(Restart),
}

/// Runs a script outside of transactions. A run whose turn ends is left with the worker, and its
/// session knows.
pub(crate) fn run<E: Enter>(executor: &mut Executor<'_, '_, E>, request: Request<'_>) -> Step {
    if executor.worker.must_reclaim() {
        return Step::Wait(WaitTarget::Memory);
    }
    if executor.shared.lanes.is_any_crowded() && !request.how.is_read_only {
        // It may publish, and does not wait then.
        return Step::Wait(WaitTarget::Lane);
    }
    let is_out_of_memory = match is_out_of_memory(executor, request.how) {
        Ok(is_out_of_memory) => is_out_of_memory,
        Err(place) => return Step::Wait(place),
    };
    let how = (request.how, is_out_of_memory);
    let call = match prepare((executor.shared, executor.worker), how, request.args) {
        Ok(call) => call,
        Err(error) => return refuse(executor, request, &error),
    };
    let mut seen = None;
    let mut attempts = 0;
    loop {
        attempts += 1;
        let how = (&call, is_out_of_memory);
        let begun = attempt(executor, request.key_hash, how, (attempts, seen.as_deref()));
        let mut state = match begun {
            Ok(state) => state,
            Err(place) => return Step::Wait(place),
        };
        let begin = Begin::Start(&call);
        match turn(executor, request, (&mut state, call.machine()), begin, None) {
            Ended::Finished(result) => {
                return finish(executor, request, &mut state, result);
            }
            Ended::Suspended(run) => {
                suspended::keep(executor, request, call.machine(), (state, run));
                return Step::Done;
            }
            Ended::Restart(restart) => {
                if state.met_undeclared {
                    call.undeclared().note();
                }
                match restart {
                    Restart::Stale(_) if attempts < READ_ATTEMPTS_MAX => {}
                    Restart::Stale(slots) | Restart::Locked(slots) => seen = Some(slots),
                    Restart::Token => return Step::Wait(WaitTarget::Token),
                    Restart::Wait(place) => return Step::Wait(place),
                }
            }
        }
    }
}

/// Runs a script within a transaction, whose unit has the token or runs alone. A gate that the
/// script closes is left to the transaction.
pub(crate) fn run_in_transaction<'k, E: Enter>(
    executor: &mut Executor<'k, '_, E>,
    unit: Unit<'k>,
    request: Request<'_>,
    alone: &mut Alone<'k>,
) -> Ran<'k> {
    // The memory that the transaction may take was judged with its other commands.
    let is_out_of_memory = is_out_of_memory(executor, request.how).unwrap_or(false);
    let how = (request.how, is_out_of_memory);
    let call = match prepare((executor.shared, executor.worker), how, request.args) {
        Ok(call) => call,
        Err(error) => {
            refuse(executor, request, &error);
            return Ran::Done(unit);
        }
    };
    let limits = Limits::of(&call, is_out_of_memory);
    let start = (executor.session.database, time(executor));
    // Other commands of the transaction have run since the clock was read.
    let start_us = executor.shared.clock.monotonic_us();
    let mut state = RunState::new(limits, Reach::Unit(unit), start, start_us);
    let gate = alone.gate.as_ref();
    match turn(executor, request, (&mut state, call.machine()), Begin::Start(&call), gate) {
        Ended::Finished(result) => {
            let (unit, gate) = finish_in_transaction(executor, request, (&mut state, result));
            alone.gate = gate.or_else(|| alone.gate.take());
            Ran::Done(unit)
        }
        Ended::Suspended(run) => {
            state.gate = state.gate.or_else(|| alone.gate.take());
            if let Some(token) = alone.token.take()
                && let Some(unit) = state.unit()
            {
                unit.give_token(token);
            }
            Ran::Suspended(suspended::suspend(executor, call.machine(), (state, run)))
        }
        Ended::Restart(_) => unreachable!("a transaction has the token: its scripts go on"),
    }
}

/// Ends a run within a transaction: its result is a reply. Returns the unit, and the gate if the
/// run has closed it.
pub(super) fn finish_in_transaction<'k, E: Enter>(
    executor: &mut Executor<'k, '_, E>,
    request: Request<'_>,
    (state, result): (&mut RunState<'k>, Result<Reply, ScriptError>),
) -> (Unit<'k>, Option<ClosedGate<'k>>) {
    let Reach::Unit(unit) = state.lend() else { unreachable!("it was a unit") };
    let gate = state.gate.take();
    answer(executor, request, state, result);
    (unit, gate)
}

/// True if there is no memory left for what a script may store, and none can be had.
///
/// # Errors
///
/// Target to wait for: keys are evicted first.
fn is_out_of_memory<E: Enter>(
    executor: &mut Executor<'_, '_, E>,
    how: ScriptCommand,
) -> Result<bool, WaitTarget> {
    if how.is_read_only || !executor.worker.may_refuse_memory() {
        return Ok(false);
    }
    match executor.make_room() {
        Ok(None) => Ok(false),
        Ok(Some(target)) => Err(target),
        Err(_) => Ok(true),
    }
}

/// Answers a request that runs nothing.
fn refuse<E: Enter>(
    executor: &mut Executor<'_, '_, E>,
    request: Request<'_>,
    error: &CommandError,
) -> Step {
    if let Some(line) = executor.script_line(request.command, request.args) {
        executor.shared.monitors.send(&executor.shared.lanes, &line.into());
    }
    executor.count_failed(request.id, 1);
    executor.error(error);
    Step::Done
}

pub(super) fn time<E>(executor: &Executor<'_, '_, E>) -> (u64, u64) {
    (executor.worker.now_us(), executor.worker.ahead_ms())
}

/// State in which an attempt at a run begins; `seen` are the slots that attempts without locks have
/// looked at.
fn attempt<'k, E: Enter>(
    executor: &mut Executor<'k, '_, E>,
    key_hash: Option<KeyHash>,
    (call, is_out_of_memory): (&Call<'_>, bool),
    (attempts, seen): (u32, Option<&[SlotNumber]>),
) -> Result<RunState<'k>, WaitTarget> {
    let mut first_key = key_hash.filter(|_| call.key_count > 0);
    let reach = match seen {
        None if call.is_read_only
            && executor.session.lock_attempts == 0
            && executor.session.tracking.is_none() =>
        {
            Reach::Lookups(Lookups::new())
        }
        seen => {
            let seen = seen.unwrap_or_default();
            Reach::Unit(lock_declared(executor, call, seen, &mut first_key)?)
        }
    };
    let is_repeated = attempts > 1;
    let start_us = if is_repeated {
        executor.worker.refresh_clock(executor.shared);
        executor.shared.clock.monotonic_us()
    } else {
        // The clock was read when the command before it ended.
        executor.worker.refresh_clock_as_timed(executor.shared);
        executor.worker.run.start_us()
    };
    executor.worker.begin_lookups();
    let limits = Limits::of(call, is_out_of_memory);
    let start = (executor.session.database, time(executor));
    let mut state = RunState::new(limits, reach, start, start_us);
    state.first_key = first_key;
    Ok(state)
}

/// Locks the slots of the declared keys and those of `seen`. The hash of the first key is computed
/// if it is the only one.
fn lock_declared<'k, E: Enter>(
    executor: &Executor<'k, '_, E>,
    call: &Call<'_>,
    seen: &[SlotNumber],
    first_key: &mut Option<KeyHash>,
) -> Result<Unit<'k>, WaitTarget> {
    let shared: &'k Shared = executor.shared;
    if executor.session.lock_attempts == 0 && seen.is_empty() && !call.undeclared().were_met() {
        match call.key_count {
            0 => return Ok(Unit::new(shared, executor.worker, LockSet::default())),
            1 => {
                let hash = || shared.keyspace.key_hash(call.text(0));
                let locks = LockSet::one(shared, first_key.get_or_insert_with(hash).slot)?;
                return Ok(Unit::new(shared, executor.worker, locks));
            }
            _ => {}
        }
    }
    let declared: SmallVec<[SlotNumber; 4]> =
        (0..call.key_count).map(|index| SlotNumber::of_key(call.text(index))).collect();
    let slots: Slots = ascending(declared.into_iter().chain(seen.iter().copied()));
    let ticket = executor.ticket();
    let is_awaited = executor.session.lock_attempts > 0 && shared.token.is_awaited_by(ticket);
    let needs_token = is_awaited
        || call.undeclared().were_met()
        || slots.len() > SEEN_SLOTS_MAX
        || executor.session.lock_attempts >= LOCK_ATTEMPTS_MAX;
    let locks = match needs_token {
        true => LockSet::with_token(shared, &slots, &executor.contender())?,
        false => lock(executor, &slots)?,
    };
    Ok(Unit::new(shared, executor.worker, locks))
}

/// Runs a script for one turn.
pub(super) fn turn<'k, E: Enter>(
    executor: &mut Executor<'k, '_, E>,
    request: Request<'_>,
    (state, machine): (&mut RunState<'k>, Machine),
    begin: Begin<'_, '_>,
    outer_gate: Option<&ClosedGate<'k>>,
) -> Ended {
    let shared = executor.shared;
    if let Begin::Start(_) = begin
        && let Some(line) = executor.script_line(request.command, request.args)
    {
        state.notes.shown.push(shared, line);
    }
    let mut interpreter = match executor.worker.scripts.take(shared, machine) {
        Ok(interpreter) => interpreter,
        Err(message) => {
            let (place, is_counted, is_killed) = (None, false, false);
            let error = ScriptError { message, place, is_counted, is_killed };
            return Ended::Finished(Err(error));
        }
    };
    let mut buffers = std::mem::take(&mut executor.worker.script_buffers);
    let before = executor.worker.swap_time(state.time);
    executor.worker.runs_script = true;
    let progress =
        execute(executor, request, state, &mut interpreter, (begin, &mut buffers), outer_gate);
    executor.worker.runs_script = false;
    executor.worker.swap_time(before);
    buffers.shrink();
    executor.worker.script_buffers = buffers;
    executor.worker.scripts.give_back(machine, interpreter);
    match (state.restart.take(), progress) {
        (Some(restart), _) => begin_anew(executor, (request, state), restart),
        (None, Progress::Done(reply)) => judge(executor, (request, state), Ok(reply)),
        (None, Progress::Failed(error)) => judge(executor, (request, state), Err(error)),
        (None, Progress::Suspended(run)) => Ended::Suspended(run),
    }
}

/// Executes a turn within one read section.
fn execute<'k, E: Enter>(
    executor: &mut Executor<'k, '_, E>,
    request: Request<'_>,
    state: &mut RunState<'k>,
    interpreter: &mut Interpreter,
    (begin, buffers): (Begin<'_, '_>, &mut RunBuffers),
    outer_gate: Option<&ClosedGate<'k>>,
) -> Progress {
    let shared = executor.shared;
    let protocol = match executor.reply.protocol() {
        WireProtocol::Resp2 => Protocol::Resp2,
        WireProtocol::Resp3 => Protocol::Resp3,
    };
    let guard = executor.reader.enter();
    let section = guard.section();
    let start_us = state.turn_start_us;
    let kind = request.kind();
    let describe = || running(request, start_us);
    let is_kept = state.unit().is_some_and(|unit| !unit.may_wait());
    let first_key = state.first_key.map(|hash| (request.args.get(FIRST_SCRIPT_KEY), hash));
    let mut reader = Spanning { inner: &*executor.reader };
    executor.worker.begin_attempt(is_kept);
    let mut host = ScriptHost {
        executor: Executor {
            shared,
            handlers: executor.handlers,
            worker: &mut *executor.worker,
            session: &mut *executor.session,
            reader: &mut reader,
            reply: &mut buffers.reply,
        },
        state,
        outer_gate,
        section,
        undo: is_kept.then(Undo::default),
        arguments: &mut buffers.arguments,
        first_key,
        turn_end_us: start_us + SCRIPT_SLICE_US,
        is_late: false,
        describe: &describe,
        kind,
    };
    let progress = match begin {
        Begin::Start(call) => {
            let texts: SmallVec<[&[u8]; 8]> =
                (FIRST_SCRIPT_KEY..call.args.len()).map(|index| call.args.get(index)).collect();
            let (keys, arguments) = texts.split_at(call.key_count);
            match call.kind {
                Kind::Script => {
                    interpreter.start(call.script, keys, arguments, protocol, &mut host)
                }
                Kind::Function => {
                    interpreter.call(call.script, keys, arguments, protocol, &mut host)
                }
            }
        }
        Begin::Resume(run) => interpreter.resume(run, &mut host),
    };
    let undo = host.undo.take();
    if state.restart.is_some()
        && let Reach::Unit(unit) = state.lend()
    {
        executor.worker.revoke_attempt();
        abandon(unit, undo.filter(|_| state.has_written), section, &executor.worker.heap);
    }
    // Its slots are still locked: a snapshot of before its changes does not find them counted.
    executor.worker.confirm_attempt(shared);
    progress
}

/// Judges what a run without locks has seen, before anything of it is answered.
fn judge<'k, E: Enter>(
    executor: &mut Executor<'k, '_, E>,
    (request, state): (Request<'_>, &mut RunState<'k>),
    result: Result<Reply, ScriptError>,
) -> Ended {
    if let Reach::Lookups(lookups) = &state.reach
        && lookups.stale_slot(executor.shared).is_some()
    {
        let slots = lookups.slots();
        return begin_anew(executor, (request, state), Restart::Stale(slots));
    }
    Ended::Finished(result)
}

/// Ends a run so that it begins anew, or with the error of one that was killed.
fn begin_anew<'k, E: Enter>(
    executor: &mut Executor<'k, '_, E>,
    (request, state): (Request<'_>, &mut RunState<'k>),
    restart: Restart,
) -> Ended {
    executor.worker.uncount_lookups();
    executor.session.select(state.database);
    // Runs are killed in the table: nobody is told so behind this.
    if leave_table(executor.shared, state).is_some_and(|running| running.is_killed()) {
        let message = format!("ERR {}", request.kind().killed()).into_bytes();
        let (place, is_counted, is_killed) = (None, false, true);
        return Ended::Finished(Err(ScriptError { message, place, is_counted, is_killed }));
    }
    Ended::Restart(restart)
}

/// Ends a run: its unit is committed, its result is the reply.
pub(super) fn finish<'k, E: Enter>(
    executor: &mut Executor<'k, '_, E>,
    request: Request<'_>,
    state: &mut RunState<'k>,
    result: Result<Reply, ScriptError>,
) -> Step {
    let shared: &'k Shared = executor.shared;
    let gate = state.gate.take();
    let reach = state.lend();
    executor.worker.publish_misses(shared);
    if let Reach::Unit(mut unit) = reach {
        // Others run on before somebody else may stop them.
        let token = gate.as_ref().and_then(|_| unit.take_token());
        if unit.ready().is_some() {
            // Waiters are served after the run, by the time that it is then.
            executor.worker.refresh_clock(shared);
            unit.release_clock();
        }
        let guard = executor.reader.enter();
        commit(shared, executor.worker, unit, guard.section());
        drop((gate, token));
    }
    answer(executor, request, state, result);
    Step::Done
}

/// Notes a run and writes its reply.
fn answer<E: Enter>(
    executor: &mut Executor<'_, '_, E>,
    request: Request<'_>,
    state: &mut RunState<'_>,
    result: Result<Reply, ScriptError>,
) {
    leave_table(executor.shared, state);
    executor.session.select(state.database);
    state.notes.ran.count(executor);
    state.notes.publish_logged((executor.shared, &*executor.worker));
    state.notes.shown.send(executor.shared);
    match result {
        Ok(reply) => {
            count_errors(executor, request, &reply);
            replies::write(executor.reply, &reply);
        }
        Err(error) => fail(executor, request, error),
    }
}

/// Counts the errors of a result; those that a command answered have been. As in Valkey, each of
/// these counts as a failure of the call, and all of the script's own as one.
fn count_errors<E>(executor: &Executor<'_, '_, E>, request: Request<'_>, reply: &Reply) {
    let stats = executor.worker.stats(executor.shared);
    let (mut answered, mut has_own) = (0, false);
    replies::for_each_error(reply, &mut |text, is_own| {
        if is_own {
            has_own = true;
            stats.error_replies.add(1);
            executor.shared.count_error_of_script(text);
        } else {
            answered += 1;
        }
    });
    executor.count_failed(request.id, answered + u64::from(has_own));
}

/// Answers the error of a run.
fn fail<E: Enter>(executor: &mut Executor<'_, '_, E>, request: Request<'_>, error: ScriptError) {
    // Errors are counted by their first word, of a text on one line.
    let mut text = error.message;
    text.iter_mut().filter(|byte| matches!(byte, b'\r' | b'\n')).for_each(|byte| *byte = b' ');
    if let Some((chunk, line)) = error.place {
        let line = format!(":{line}.");
        let place = [b" script: on @", &*chunk, line.as_bytes()].concat();
        // A script chooses how long the text is: without memory for the place it goes without.
        if text.try_reserve_exact(place.len()).is_ok() {
            text.extend_from_slice(&place);
        }
    }
    executor.count_failed(request.id, 1);
    if error.is_counted {
        executor.reply.error(text);
    } else {
        executor.error(&CommandError::Bytes(text));
    }
}

impl<'a> Request<'a> {
    /// The request of a run that goes on, or begins anew.
    pub(super) fn again(
        (id, command): (CommandId, &'static Command),
        how: ScriptCommand,
        args: &'a ArgumentView<'a>,
    ) -> Request<'a> {
        Request { id, command, how, args, key_hash: None }
    }

    fn kind(&self) -> Kind {
        match self.how.name {
            crate::access::handler::ScriptName::Function => Kind::Function,
            _ => Kind::Script,
        }
    }
}

/// Entry of a run in the table of those that take long.
fn running(request: Request<'_>, start_us: u64) -> RunningScript {
    let name = request.args.get(1).to_vec();
    let command = shortened(shown_arguments(request.command, *request.args));
    RunningScript::new(request.kind(), name, command, start_us)
}

/// Takes a run out of the table; returns its entry, if it had one.
fn leave_table(shared: &Shared, state: &mut RunState<'_>) -> Option<SharedRun> {
    let running = state.running.take()?;
    shared.scripts.running.leave(&running);
    Some(running)
}

/// Entry of a run in the table.
pub(super) type SharedRun = Arc<RunningScript>;
