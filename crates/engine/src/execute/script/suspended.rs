//! Runs whose turn is over. Each waits with the worker of its session, which knows that it has one,
//! and goes on where long replies do: at the connection's next turn, before its next request.

use std::sync::Arc;

use tidemill_resp::encode::ReplyBuffer;
use tidemill_resp::request::{ArgumentView, OwnedArguments};
use tidemill_script::Run;

use super::run::{Begin, Ended, Request, SharedRun, finish, leave_table, run, turn};
use super::state::{Limits, Reach, Restart, RunNotes, RunState};
use crate::access::context::Lookups;
use crate::access::handler::ScriptCommand;
use crate::access::section::Enter;
use crate::access::unit::SuspendedUnit;
use crate::command::{Command, CommandId};
use crate::execute::executor::{Executor, Step};
use crate::execute::turn_result::{Next, Turn};
use crate::execute::{registry, serve};
use crate::limits::LOCK_ATTEMPTS_MAX;
use crate::script::{Kind, RunningScript};
use crate::shared::Shared;
use crate::slots::mailbox::Message;
use crate::slots::parking::WaitTarget;
use crate::worker::Worker;
use crate::worker::scripts::Machine;
use crate::worker::session::{ReplyMode, Session};

/// How a suspended run reaches keys.
enum SuspendedReach {
    Unit(Box<SuspendedUnit>),
    Lookups(Lookups),
}

/// A run between two turns.
struct Suspended {
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
    wants_reply: bool,
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
    let pending = PendingScript {
        id: request.id,
        command: request.command,
        how: request.how,
        arguments: OwnedArguments::new(request.args.iter()),
        suspended: Some(suspend(executor, machine, (state, run))),
        wants_reply: executor.session.reply_mode == ReplyMode::On,
        elapsed_ns: executor.worker.run.take_elapsed_ns(executor.shared.clock.monotonic_ns()),
    };
    put(executor, pending);
}

fn suspend<'k, E>(
    executor: &mut Executor<'k, '_, E>,
    machine: Machine,
    (mut state, run): (RunState<'k>, Run),
) -> Suspended {
    let selected = executor.session.database;
    executor.session.select(state.database);
    let reach = match state.lend() {
        Reach::Unit(unit) => SuspendedReach::Unit(Box::new(unit.suspend())),
        Reach::Lookups(lookups) => SuspendedReach::Lookups(lookups),
        Reach::Lent => unreachable!("no command runs between two turns"),
    };
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
            SuspendedReach::Unit(unit) => Reach::Unit(unit.resume(shared)),
            SuspendedReach::Lookups(lookups) => Reach::Lookups(lookups),
        };
        executor.session.select(self.selected);
        let mut state = RunState::new(self.limits, reach, (self.database, self.time));
        state.has_written = self.has_written;
        state.running = self.running;
        state.notes = self.notes;
        (state, self.machine, self.run)
    }
}

impl<E: Enter> Executor<'_, '_, E> {
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
                self.session.end_attempts(self.shared, self.worker.index);
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
        let request =
            Request { id: pending.id, command: pending.command, how: pending.how, args: &args };
        let Some(suspended) = pending.suspended.take() else {
            let step = run(self, request);
            // One that is suspended again was kept as a new one.
            if let Some(again) = take_suspended(self.worker, self.session) {
                pending.suspended = Some(again);
            }
            return step;
        };
        let (state, machine, run) = suspended.resume(self);
        match turn(self, request, (state, machine), Begin::Resume(run), None) {
            Ended::Finished(state, result) => finish(self, request, (state, result)),
            Ended::Suspended(state, run) => {
                if let Some(running) = &state.running {
                    announce(self.shared, self.worker, running);
                }
                pending.suspended = Some(suspend(self, machine, (state, run)));
                Step::Done
            }
            Ended::Restart(mut state, restart) => {
                leave_table(self.shared, &mut state);
                match restart {
                    Restart::Locked(_) => {
                        // Without locks again, it would take as long again: with the token.
                        self.session.lock_attempts = LOCK_ATTEMPTS_MAX;
                        self.run_pending(pending)
                    }
                    Restart::Token => Step::Wait(WaitTarget::Token),
                    Restart::Wait(place) => Step::Wait(place),
                }
            }
        }
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
    let threshold_us = worker.settings.busy_reply_us;
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

/// True if a run of the session has changed data: it goes on although its client is gone.
pub(crate) fn must_go_on(worker: &Worker, session: &Session) -> bool {
    let pending = pending_of(worker, session);
    let suspended = pending.and_then(|pending| pending.suspended.as_ref());
    suspended.is_some_and(|suspended| suspended.has_written)
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
        executor.go_on_with_script(&[]);
        // It is an orphan still, or ends.
        serve::end_session(shared, worker, session);
    }
}

/// Wakes the sessions that wait for what a run has, once it has had it for longer than the server
/// waits: they are told.
fn announce(shared: &Shared, worker: &Worker, running: &RunningScript) {
    let threshold_us = worker.settings.busy_reply_us;
    let elapsed_us = shared.clock.monotonic_us().saturating_sub(running.started_us);
    if threshold_us == 0 || elapsed_us < threshold_us {
        return;
    }
    let (slots, has_token) = running.held();
    for slot in slots {
        shared.parking.wake_all(WaitTarget::Slot(slot), || {});
    }
    if has_token {
        for ticket in shared.token.queue() {
            shared.mailboxes.post(ticket.worker, Message::Wake { session: ticket.session });
        }
    }
}

/// The client of a run that has changed nothing is gone: the run ends.
pub(crate) fn end(shared: &Shared, worker: &mut Worker, session: &mut Session) {
    let Some(pending) = take(worker, session) else { return };
    let Some(suspended) = pending.suspended else { return };
    if let Some(running) = &suspended.running {
        shared.scripts.running.leave(running);
    }
    worker.scripts.abandoned.push((suspended.machine, suspended.run));
    if let SuspendedReach::Unit(unit) = suspended.reach {
        unit.resume(shared).abandon();
    }
}
