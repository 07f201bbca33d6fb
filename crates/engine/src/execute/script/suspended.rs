//! Runs whose turn is over. Each waits with the worker of its session, which knows that it has one,
//! and goes on where long replies do: at the connection's next turn, before its next request.

use std::sync::Arc;

use tidemill_resp::encode::ReplyBuffer;
use tidemill_resp::request::{ArgumentView, OwnedArguments};
use tidemill_script::{Reply, Run, ScriptError};

use super::run::{Begin, Ended, Request, SharedRun, finish, finish_in_transaction, run, turn};
use super::state::{Limits, Reach, Restart, RunNotes, RunState};
use crate::access::context::Lookups;
use crate::access::handler::{Handler, ScriptCommand};
use crate::access::section::Enter;
use crate::access::unit::SuspendedUnit;
use crate::command::{Command, CommandId};
use crate::execute::executor::{Executor, Step};
use crate::execute::transaction::{self, Alone, Ran, SuspendedTransaction};
use crate::execute::turn_result::{Next, Turn};
use crate::execute::{registry, serve};
use crate::limits::LOCK_ATTEMPTS_MAX;
use crate::script::{Holds, Kind, RunningScript};
use crate::shared::{Shared, log_level};
use crate::slots::mailbox::Message;
use crate::slots::parking::{Ticket, WaitTarget};
use crate::worker::scripts::Machine;
use crate::worker::session::{ReplyMode, Session};
use crate::worker::{AttemptLookups, Worker};

/// Access of a suspended run to keys.
enum SuspendedReach {
    Unit(Box<SuspendedUnit>),
    /// Lookups, what they count, and how often databases had been replaced then: the gate is passed
    /// before the run goes on.
    Lookups(Lookups, AttemptLookups, u64),
}

/// A run between two turns.
pub(crate) struct Suspended {
    machine: Machine,
    run: Run,
    limits: Limits,
    reach: SuspendedReach,
    has_written: bool,
    running: Option<SharedRun>,
    database: usize,
    /// Database that the run has selected.
    selected: usize,
    time: (u64, u64),
    notes: RunNotes,
}

/// The request of a run that takes several turns.
pub(crate) struct PendingScript {
    id: CommandId,
    command: &'static Command,
    how: ScriptCommand,
    arguments: OwnedArguments,
    /// None for a run that begins anew.
    suspended: Option<Suspended>,
    /// The transaction of which it is a command.
    transaction: Option<Box<SuspendedTransaction>>,
    wants_reply: bool,
    /// Memory of the request, or of all commands of the transaction, when it was suspended.
    request_bytes: usize,
    elapsed_ns: u64,
}

impl std::fmt::Debug for PendingScript {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("PendingScript").field("command", &self.command.name).finish()
    }
}

/// Keeps a run whose turn is over for its next one.
pub(super) fn keep<'k, E: Enter>(
    executor: &mut Executor<'k, '_, E>,
    request: Request<'_>,
    machine: Machine,
    (state, run): (RunState<'k>, Run),
) {
    // Room for a large one was looked for before it ran.
    let arguments = OwnedArguments::try_new(request.args)
        .unwrap_or_else(|| OwnedArguments::new(request.args.iter()));
    let pending = PendingScript {
        id: request.id,
        command: request.command,
        how: request.how,
        request_bytes: arguments.allocated_bytes(),
        arguments,
        suspended: Some(suspend(executor, machine, (state, run))),
        transaction: None,
        wants_reply: executor.session.reply_mode == ReplyMode::On,
        elapsed_ns: executor.worker.run.take_elapsed_ns(executor.shared.clock.monotonic_ns()),
    };
    put(executor, pending);
}

/// Keeps a transaction whose script's turn is over.
pub(crate) fn keep_transaction<E: Enter>(
    executor: &mut Executor<'_, '_, E>,
    suspended: Suspended,
    mut transaction: SuspendedTransaction,
) {
    let request_bytes = transaction.queued_bytes();
    let (id, arguments) = transaction.take_call();
    let elapsed_ns = executor.worker.run.take_elapsed_ns(executor.shared.clock.monotonic_ns());
    let pending = PendingScript {
        id,
        command: executor.shared.commands.command(id),
        how: how(executor, id),
        arguments,
        request_bytes,
        suspended: Some(suspended),
        transaction: Some(Box::new(transaction)),
        wants_reply: executor.session.reply_mode == ReplyMode::On,
        elapsed_ns,
    };
    put(executor, pending);
}

/// Way in which a command names the script that it runs.
fn how<E>(executor: &Executor<'_, '_, E>, id: CommandId) -> ScriptCommand {
    match executor.handlers.of(id) {
        Some(Handler::Script(how)) => how,
        _ => unreachable!("only scripts are suspended"),
    }
}

/// Puts a run aside. One that has stopped all others locks all slots instead.
pub(super) fn suspend<'k, E: Enter>(
    executor: &mut Executor<'k, '_, E>,
    machine: Machine,
    (mut state, run): (RunState<'k>, Run),
) -> Suspended {
    let selected = executor.session.database;
    executor.session.select(state.database);
    let gate = state.gate.take();
    let reach = match state.lend() {
        Reach::Unit(mut unit) => {
            if let Some(gate) = &gate {
                unit.lock_all(executor.shared, gate);
            }
            SuspendedReach::Unit(Box::new(unit.suspend()))
        }
        Reach::Lookups(lookups) => {
            let counted = executor.worker.take_lookups();
            SuspendedReach::Lookups(lookups, counted, executor.shared.keyspace.replaced_count())
        }
        Reach::Lent => unreachable!("no command runs between two turns"),
    };
    drop(gate);
    Suspended {
        machine,
        run,
        limits: state.limits,
        reach,
        has_written: state.has_written,
        running: state.running.take(),
        database: state.database,
        selected,
        time: state.time,
        notes: std::mem::take(&mut state.notes),
    }
}

fn put<E>(executor: &mut Executor<'_, '_, E>, pending: PendingScript) {
    executor.session.has_pending_script = true;
    let reply = pending.transaction.as_ref().map_or(0, |kept| kept.reply.allocated_bytes());
    executor.session.client.note_suspended((pending.request_bytes + reply) as u64);
    executor.worker.pending_scripts.insert(executor.session.id(), Box::new(pending));
}

fn take(worker: &mut Worker, session: &mut Session) -> Option<PendingScript> {
    session.has_pending_script = false;
    let pending = worker.pending_scripts.remove(&session.id())?;
    pending.downcast().ok().map(|pending| *pending)
}

impl Suspended {
    fn resume<'k, E>(self, executor: &mut Executor<'k, '_, E>) -> (RunState<'k>, Machine, Run) {
        let shared: &'k Shared = executor.shared;
        let reach = match self.reach {
            SuspendedReach::Unit(unit) => Reach::Unit(unit.resume(shared, executor.worker)),
            SuspendedReach::Lookups(mut lookups, counted, replaced_count) => {
                if shared.keyspace.replaced_count() != replaced_count {
                    lookups.spoil();
                }
                executor.worker.go_on_with_lookups(counted);
                Reach::Lookups(lookups)
            }
        };
        executor.session.select(self.selected);
        let start_us = executor.worker.run.start_us();
        let mut state = RunState::new(self.limits, reach, (self.database, self.time), start_us);
        state.has_written = self.has_written;
        state.running = self.running;
        state.notes = self.notes;
        (state, self.machine, self.run)
    }
}

impl<'k, E: Enter> Executor<'k, '_, E> {
    /// Goes on with the session's run: that is the connection's turn. Requests behind it wait in
    /// `input`.
    #[cold]
    pub(crate) fn go_on_with_script(&mut self, input: &[u8]) -> Option<Turn> {
        let mut pending = take(self.worker, self.session)?;
        self.reader.seat().pass();
        self.worker.refresh_settings(self.shared);
        let start_ns = self.shared.clock.monotonic_ns();
        self.worker.run.begin_turn(start_ns);
        self.worker.run.begin(start_ns);
        let before = self.reply.len();
        let mark = self.reply.mark();
        let step = self.run_pending(&mut pending);
        let end_ns = self.shared.clock.monotonic_ns();
        pending.elapsed_ns += end_ns.saturating_sub(start_ns);
        self.worker.run.begin(end_ns);
        self.replace_failed_reply(before);
        let next = match step {
            Step::Wait(place) => {
                let next = self.park(place);
                put(self, pending);
                next
            }
            Step::Done if pending.suspended.is_some() => {
                put(self, pending);
                Next::Turn
            }
            Step::Done | Step::Blocked => {
                self.session.end_attempts(self.shared, self.worker);
                self.session.client.note_suspended(0);
                let reply_bytes = self.reply.len() - before;
                self.note_script(&pending, reply_bytes);
                if !pending.wants_reply {
                    self.reply.truncate(mark);
                }
                self.next_behind(input)
            }
        };
        Some(Turn { consumed: 0, next })
    }

    fn next_behind(&self, input: &[u8]) -> Next {
        if self.session.close_after_reply || self.session.client.is_killed() {
            return Next::Close;
        }
        if input.is_empty() { Next::Input { wanted: 1 } } else { Next::Turn }
    }

    fn run_pending(&mut self, pending: &mut PendingScript) -> Step {
        let args = pending.arguments.view();
        let request = Request::again((pending.id, pending.command), pending.how, &args);
        let Some(suspended) = pending.suspended.take() else {
            let step = run(self, request);
            // One that is suspended again was kept as a new one.
            if let Some(again) = take_suspended(self.worker, self.session) {
                pending.suspended = Some(again);
            }
            return step;
        };
        let (mut state, machine, run) = suspended.resume(self);
        let begun_ns = self.shared.clock.monotonic_ns();
        let ended = turn(self, request, (&mut state, machine), Begin::Resume(run), None);
        if let Some(transaction) = &mut pending.transaction {
            transaction.script_ns += self.shared.clock.monotonic_ns().saturating_sub(begun_ns);
        }
        match ended {
            Ended::Finished(result) => match pending.transaction.take() {
                None => finish(self, request, &mut state, result),
                Some(transaction) => {
                    self.go_on_with_transaction(pending, transaction, (&mut state, result))
                }
            },
            Ended::Suspended(run) => {
                if let Some(running) = &state.running {
                    announce(self.shared, self.worker, running);
                }
                pending.suspended = Some(suspend(self, machine, (state, run)));
                Step::Done
            }
            Ended::Restart(Restart::Stale(_) | Restart::Locked(_)) => {
                // Without locks again, it would take as long again: with the token.
                self.session.lock_attempts = LOCK_ATTEMPTS_MAX;
                self.run_pending(pending)
            }
            Ended::Restart(Restart::Token) => Step::Wait(WaitTarget::Token),
            Ended::Restart(Restart::Wait(place)) => Step::Wait(place),
        }
    }

    /// Goes on with a transaction behind a script that has ended.
    fn go_on_with_transaction(
        &mut self,
        pending: &mut PendingScript,
        mut transaction: Box<SuspendedTransaction>,
        ended: (&mut RunState<'k>, Result<Reply, ScriptError>),
    ) -> Step {
        let mut reply = std::mem::take(&mut transaction.reply);
        let mut inner = self.with_reply(&mut reply);
        let mark = (inner.reply.mark(), inner.reply.len());
        let args = pending.arguments.view();
        let request = Request::again((pending.id, pending.command), pending.how, &args);
        let (unit, gate) = finish_in_transaction(&mut inner, request, ended);
        let arguments = std::mem::replace(&mut pending.arguments, OwnedArguments::new([]));
        let mut alone = Alone { gate, token: None };
        let ran = transaction.go_on(&mut inner, (unit, &mut alone), arguments, mark);
        match ran {
            Ran::Done(unit) => {
                self.answer_with(&mut reply);
                transaction::end(self, unit, alone);
                self.session.show_transaction();
                (pending.id, pending.command) = transaction.exec;
                pending.arguments = OwnedArguments::new([&b"EXEC"[..]]);
                // Scripts show themselves.
                self.show(pending.command, &pending.arguments.view());
            }
            Ran::Suspended(suspended) => {
                transaction.reply = reply;
                (pending.id, pending.arguments) = transaction.take_call();
                pending.command = self.shared.commands.command(pending.id);
                pending.how = how(self, pending.id);
                pending.suspended = Some(suspended);
                pending.transaction = Some(transaction);
            }
        }
        Step::Done
    }

    /// Notes all about a run that took several turns.
    fn note_script(&mut self, pending: &PendingScript, reply_bytes: usize) {
        let called = (pending.id, pending.command);
        let args: ArgumentView<'_> = pending.arguments.view();
        self.note_long(called, &args, pending.elapsed_ns, reply_bytes);
    }
}

/// Takes what a run that began anew, and was suspended, has left.
fn take_suspended(worker: &mut Worker, session: &mut Session) -> Option<Suspended> {
    take(worker, session)?.suspended
}

/// The run that has what a session would wait for, and has run for longer than the server waits.
pub(crate) fn busy_holder(shared: &Shared, worker: &Worker, place: WaitTarget) -> Option<Kind> {
    let slot = match place {
        WaitTarget::Slot(slot) => Some(slot),
        WaitTarget::Token => None,
        _ => return None,
    };
    let threshold_us = worker.settings.busy_reply.after_us;
    if threshold_us == 0 {
        return None;
    }
    let now_us = shared.clock.monotonic_us();
    let holder = shared.scripts.running.holder(slot, now_us.checked_sub(threshold_us)?)?;
    Some(holder.kind)
}

fn pending_of<'w>(worker: &'w Worker, session: &Session) -> Option<&'w PendingScript> {
    worker.pending_scripts.get(&session.id())?.downcast_ref()
}

/// True if a run of the session has changed data, or is a part of a transaction: it goes on
/// although its client is gone.
pub(crate) fn must_go_on(worker: &Worker, session: &Session) -> bool {
    pending_of(worker, session).is_some_and(|pending| {
        let has_written = pending.suspended.as_ref().is_some_and(|run| run.has_written);
        has_written || pending.transaction.is_some()
    })
}

/// Gives the runs whose clients are gone a turn each. To be called by the worker between commands,
/// as long as it [has something postponed](Worker::has_postponed).
pub fn run_orphans<E: Enter>(shared: &Arc<Shared>, worker: &mut Worker, reader: &mut E) {
    for mut session in std::mem::take(&mut worker.orphans) {
        let mut reply = ReplyBuffer::default();
        let mut executor = Executor {
            shared,
            handlers: registry::handlers(),
            worker: &mut *worker,
            session: &mut session,
            reader: &mut *reader,
            reply: &mut reply,
        };
        // Changes are not those of the session that was served last, which may not want to be told.
        executor.worker.begin_changes(executor.session.id(), false);
        executor.go_on_with_script(&[]);
        // It is an orphan still, or ends.
        serve::end_session(shared, worker, session);
    }
}

/// Wakes the sessions that wait for what a run has, once it has had it for longer than the server
/// waits: they are told.
fn announce(shared: &Shared, worker: &Worker, running: &RunningScript) {
    let threshold_us = worker.settings.busy_reply.after_us;
    let elapsed_us = shared.clock.monotonic_us().saturating_sub(running.started_us);
    if threshold_us == 0 || elapsed_us < threshold_us {
        return;
    }
    log_slow(shared, running, elapsed_us);
    if worker.settings.busy_reply.is_for_all {
        shared.scripts.running.tell(running);
    }
    let has_token = match running.held() {
        Holds::Nothing => false,
        Holds::Slots(slots, has_token) => {
            for slot in slots {
                shared.parking.wake_all(WaitTarget::Slot(slot), || {});
            }
            has_token
        }
        Holds::All => {
            shared.parking.wake_every_slot();
            true
        }
    };
    if has_token {
        // A thread that is no worker waits without a mailbox, and is answered nothing.
        let queue = shared.token.queue().into_iter();
        for ticket in queue.filter(|ticket| ticket.worker != Ticket::THREAD) {
            shared.mailboxes.post(ticket.worker, Message::Wake { session: ticket.session });
        }
    }
}

/// Tells the log, once for each run, of one that has run for longer than `busy-reply-threshold`.
pub(super) fn log_slow(shared: &Shared, running: &RunningScript, elapsed_us: u64) {
    if !running.begin_log() {
        return;
    }
    let command = match running.kind {
        Kind::Script => "SCRIPT KILL",
        Kind::Function => "FUNCTION KILL",
    };
    let (name, elapsed_ms) = (running.shown_name(), elapsed_us / 1_000);
    let text = format!(
        "Slow script detected: {name} has run for {elapsed_ms} milliseconds. {command} ends it, \
        unless it has written."
    );
    shared.host.log(log_level::WARNING, text.as_bytes());
}

/// The client of a run that has changed nothing is gone: the run ends.
pub(crate) fn end(shared: &Shared, worker: &mut Worker, session: &mut Session) {
    let Some(pending) = take(worker, session) else { return };
    let Some(mut suspended) = pending.suspended else { return };
    if let Some(running) = &suspended.running {
        shared.scripts.running.leave(running);
    }
    suspended.notes.publish_logged((shared, worker));
    worker.scripts.abandon(suspended.machine, suspended.run);
    if let SuspendedReach::Unit(unit) = suspended.reach {
        unit.resume(shared, worker).abandon();
    }
}
