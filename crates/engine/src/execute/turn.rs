//! One connection's turn: parse, prefetch, execute.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tidemill_resp::encode::{Mark, ReplyBuffer};
use tidemill_resp::request::{
    ArgumentView, LargeArgument, Limits, Progress, ProtocolError, RequestParser,
};
use tidemill_store::KeyHash;

use super::batch::{Batch, Request, request};
use super::brief::BriefAccess;
use super::executor::{Executor, Step};
use super::look_ahead::Requests;
use super::turn_result::{Next, Turn};
use super::{admit, keyed, registry, script, transaction};
use crate::access::handler::Handler;
use crate::access::outcome::{Outcome, Stop};
use crate::access::section::{Enter, OpenSection};
use crate::access::session_context::SessionCx;
use crate::access::unwatch::unwatch;
use crate::admin::scripting::busy_error;
use crate::command::{Command, CommandId, Flags};
use crate::error::CommandError;
use crate::limits::{
    GATE_RETRY_US, LANE_RETRY_US, LARGE_BYTES_MIN, PREFETCHED_ENTRIES_MAX, TURN_COMMANDS_MAX,
    TURN_REPLY_BYTES_MAX, TURN_US_MAX,
};
use crate::settings::Quiescent;
use crate::shared::Shared;
use crate::slots::parking::{WaitTarget, WakeUp};
use crate::worker::Worker;
use crate::worker::called::{Called, Course};
use crate::worker::session::{ReplyMode, Session};

/// End of the parsing of a batch.
enum Parsed {
    /// The batch is full.
    Full,
    /// The input ends within a request.
    Input { consumed: usize, wanted: usize },
    /// The input is no protocol.
    Broken(ProtocolError),
}

/// Executes what `input` holds of requests, up to a connection's share of time.
///
/// Replies are appended to `reply`. Runs on the worker's thread and never blocks it for long.
#[allow(clippy::too_many_arguments)]
pub fn run_turn<E: Enter>(
    shared: &Arc<Shared>,
    worker: &mut Worker,
    session: &mut Session,
    reader: &mut E,
    requests: Requests<'_>,
    parser: &mut RequestParser,
    input: &[u8],
    reply: &mut ReplyBuffer,
) -> Turn {
    let (batch, is_parsed, large) = requests.into_batch();
    let handlers = registry::handlers();
    worker.begin_changes(session.id(), session.is_noloop());
    worker.reply_need.begin();
    let mut executor = Executor { shared, handlers, worker, session, reader, reply };
    // Relaxed: written by this thread.
    executor.worker.serves_import =
        executor.session.client.is_import_source.load(Ordering::Relaxed);
    let turn = run_requests(&mut executor, (batch, is_parsed), parser, (input, large));
    executor.worker.serves_import = false;
    turn
}

#[inline(always)]
fn run_requests<E: Enter>(
    executor: &mut Executor<'_, '_, E>,
    (batch, is_parsed): (&mut Batch, bool),
    parser: &mut RequestParser,
    (input, mut large): (&[u8], Option<LargeArgument<'_>>),
) -> Turn {
    let shared = executor.shared;
    if let Some(turn) = executor.go_on_with_last(input) {
        return turn;
    }
    let mut start_us = None;
    let mut consumed = 0;
    let mut count = 0;
    loop {
        if executor.reader.seat().pass() {
            executor.worker.refresh_loading(shared);
        }
        // Changes that another worker has answered apply to requests sent after that answer:
        // settings, users, and being killed.
        executor.worker.refresh_settings(shared);
        executor.session.refresh_user(&shared.users);
        if executor.session.client.is_killed() {
            return Turn { consumed: input.len(), next: Next::Close };
        }
        let large = large.take();
        let parsed = if is_parsed {
            Parsed::Input { consumed: 0, wanted: 1 }
        } else {
            executor.parse(batch, parser, (&input[consumed..], large))
        };
        let now_ns = shared.clock.monotonic_ns();
        executor.worker.run.begin(now_ns);
        let start_us = *start_us.get_or_insert_with(|| {
            executor.worker.run.begin_turn(now_ns);
            executor.worker.migrations.session = executor.session.id();
            now_ns / 1000
        });
        let executed = executor.execute_batch(batch, &input[consumed..]);
        if large.is_some() {
            batch.release_large();
        }
        if executor.worker.settings.quiescent == Quiescent::Batch {
            executor.reader.quiescent();
        }
        count += batch.requests.len();
        consumed += executed.consumed;
        if let Some(next) = executed.next {
            // Requests that were parsed ahead are parsed again.
            *parser = RequestParser::new();
            return Turn { consumed, next };
        }
        match parsed {
            Parsed::Full => {}
            Parsed::Input { consumed: blank, wanted } => {
                return Turn { consumed: consumed + blank, next: Next::Input { wanted } };
            }
            Parsed::Broken(error) => {
                executor.refuse_protocol(&error);
                return Turn { consumed: input.len(), next: Next::Close };
            }
        }
        let now_us = executor.worker.run.start_us();
        if count >= TURN_COMMANDS_MAX || now_us - start_us > TURN_US_MAX {
            return Turn { consumed, next: Next::Turn };
        }
    }
}

/// True if a line is of an HTTP request: a web page that its visitor's browser lets talk to this
/// server can put commands into the body, behind lines that are none. Nothing behind such a line is
/// executed.
fn is_http(name: &[u8]) -> bool {
    name.eq_ignore_ascii_case(b"POST") || name.eq_ignore_ascii_case(b"Host:")
}

struct Executed {
    consumed: usize,
    next: Option<Next>,
}

impl<E: Enter> Executor<'_, '_, E> {
    /// Goes on with the last request, if it did not end with its turn: a script, or a long reply.
    /// None when nothing of it is left.
    #[inline(always)]
    fn go_on_with_last(&mut self, input: &[u8]) -> Option<Turn> {
        if self.session.has_pending_script {
            self.worker.reply_need.depend_on_all();
            if let Some(turn) = self.go_on_with_script(input) {
                return Some(turn);
            }
        }
        if self.session.pending_reply.is_some() {
            self.worker.reply_need.depend_on_all();
            self.go_on(input)
        } else {
            None
        }
    }

    /// Answers input that is no protocol. The connection is closed then.
    #[cold]
    fn refuse_protocol(&mut self, error: &ProtocolError) {
        self.session.is_broken = true;
        let mut text = Vec::new();
        error.write_wire(&mut text);
        self.reply.raw(&text);
    }

    /// Fills the batch from `input`, and says what comes behind it.
    fn parse(
        &mut self,
        batch: &mut Batch,
        parser: &mut RequestParser,
        (input, large): (&[u8], Option<LargeArgument<'_>>),
    ) -> Parsed {
        let parsed = self.parse_requests(batch, parser, (input, large));
        let (keyspace, database) = (&self.shared.keyspace, self.session.database);
        let guard = self.reader.enter();
        batch.hash_keys(self.shared, input, |slot| {
            keyspace.prefetch_word(slot);
            keyspace.prefetch_table(database, slot, guard.section());
        });
        parsed
    }

    fn parse_requests(
        &mut self,
        batch: &mut Batch,
        parser: &mut RequestParser,
        (input, mut large): (&[u8], Option<LargeArgument<'_>>),
    ) -> Parsed {
        let limits = Limits {
            bulk_bytes_max: self.worker.string_bytes_max(),
            authenticated: self.session.is_authenticated,
        };
        batch.requests.clear();
        let mut offset = 0;
        // Requests that are read by their heads leave the parser as it is.
        let mut is_idle = parser.is_idle();
        for arguments in &mut batch.arguments {
            // A request that authenticates changes what the next may be: it runs before that is
            // parsed.
            if !limits.authenticated && offset > 0 {
                return Parsed::Full;
            }
            if offset == input.len() && is_idle {
                return Parsed::Input { consumed: 0, wanted: 1 };
            }
            let rest = &input[offset..];
            if is_idle && let Some((length, called)) = self.worker.heads.parse(rest, arguments) {
                batch.requests.push(request(Some(called), offset, length));
                offset += length;
                continue;
            }
            let parsed = match large.take() {
                None => parser.parse(rest, &limits, arguments),
                Some(large) => parser.parse_with_large(rest, large, &limits, arguments),
            };
            match parsed {
                Ok(Progress::Complete { consumed }) => {
                    is_idle = parser.is_idle();
                    let called = self.called(&arguments.view(rest));
                    let mut request = request(called, offset, consumed);
                    if arguments.view(rest).large_bytes() > 0 {
                        request.course = Course::Full;
                    }
                    batch.requests.push(request);
                    if let Some(called) = called {
                        self.worker.heads.remember(rest, arguments, called);
                    }
                    offset += consumed;
                }
                Ok(Progress::Incomplete { consumed, wanted }) => {
                    return Parsed::Input { consumed, wanted };
                }
                Err(error) => return Parsed::Broken(error),
            }
        }
        Parsed::Full
    }

    fn called(&self, view: &ArgumentView<'_>) -> Option<Called> {
        let commands = &self.shared.commands;
        let id = commands.called_by(view.get(0), self.session.replays)?;
        let traits = commands.traits(id);
        let has_key = usize::from(traits.fixed_key) < view.len()
            && (!traits.is_script || script::has_short_key(view));
        let key = if has_key { traits.fixed_key } else { 0 };
        let command = commands.command(id);
        let course = if !command.takes(view.len()) {
            Course::Full
        } else if traits.is_brief_read {
            if command.name == "get" { Course::Get } else { Course::BriefRead }
        } else if traits.is_brief_write && command.name == "set" && view.len() == 3 {
            Course::Set
        } else if traits.is_brief_write {
            self.handlers.write_run_of(id).map_or(Course::BriefWrite, Course::WriteRun)
        } else {
            Course::Full
        };
        Some(Called { id, key, is_of_collections: traits.is_of_collections, course })
    }

    fn execute_batch(&mut self, batch: &mut Batch, input: &[u8]) -> Executed {
        if batch.requests.len() > 1 {
            let guard = self.reader.enter();
            let keys = batch.requests.iter().filter_map(Request::key_hash);
            self.shared.keyspace.prefetch_buckets(self.session.database, keys, guard.section());
            drop(guard);
            self.prefetch_entries(&mut batch.requests, 0);
        }
        let executed = self.execute_requests(batch, input);
        if self.worker.reply_need.is_noted() {
            self.note_reads(&batch.requests);
        }
        self.end_run(|index| batch.view(index, input));
        executed
    }

    fn execute_requests(&mut self, batch: &mut Batch, input: &[u8]) -> Executed {
        let mut consumed = 0;
        let mut brief = self.brief_access();
        let (mut index, mut runs_from) = (0, 0);
        while index < batch.requests.len() {
            if index % PREFETCHED_ENTRIES_MAX == 0 && batch.requests.len() > 1 {
                self.prefetch_next(batch, index, input);
            }
            let request = &batch.requests[index];
            let view = batch.arguments[index].view(&input[request.start..]);
            let before = self.reply.len();
            let (step, is_full) = if self.is_brief_read(request, &view, brief.reads) {
                match self.read_briefly((index, before), request, &view) {
                    Step::Done if self.reply.len() <= TURN_REPLY_BYTES_MAX => {
                        consumed = request.end;
                        index += 1;
                        continue;
                    }
                    step => {
                        self.replace_failed_reply(before);
                        (step, true)
                    }
                }
            } else {
                self.worker.reply_need.depend_on_all();
                if let Course::WriteRun(family) = request.course
                    && index >= runs_from
                {
                    let run = self.run_writes(batch, (index, family), input);
                    runs_from = run.next;
                    if run.end > index {
                        consumed = batch.requests[run.end - 1].end;
                        if self.ends_turn(batch, run.end, input) {
                            return Executed { consumed, next: Some(Next::Turn) };
                        }
                        self.prefetch_behind_run(batch, (index, run.end), input);
                        index = run.end;
                        continue;
                    }
                }
                self.execute_singly(batch, (index, before), &view, input, &mut brief)
            };
            let next = match step {
                Step::Done if self.session.close_after_reply => Some(Next::Close),
                Step::Done => is_full.then_some(Next::Turn),
                Step::Wait(place) => {
                    return Executed { consumed, next: Some(self.park(place)) };
                }
                Step::Blocked => Some(Next::Unblock),
            };
            if self.worker.settings.quiescent == Quiescent::Command {
                self.reader.quiescent();
            }
            self.session.end_attempts(self.shared, self.worker);
            consumed = request.end;
            if next.is_some() {
                self.note_activity(request, view);
                return Executed { consumed, next };
            }
            index += 1;
        }
        if let Some((index, request)) = batch.requests.iter().enumerate().next_back() {
            self.note_activity(request, batch.view(index, input));
        }
        Executed { consumed, next: None }
    }

    /// Executes a request that is no brief read, behind replies of `before` bytes; true if the turn
    /// ends with it.
    #[inline(always)]
    fn execute_singly(
        &mut self,
        batch: &Batch,
        (index, before): (usize, usize),
        view: &ArgumentView<'_>,
        input: &[u8],
        brief: &mut BriefAccess,
    ) -> (Step, bool) {
        let request = &batch.requests[index];
        if self.is_brief_write(request, brief.writes) {
            return self.write_briefly((index, before), request, view);
        }
        let executed = self.execute_fully(batch, (index, before), view, input);
        *brief = self.brief_access();
        executed
    }

    /// Executes a request after every question, behind replies of `before` bytes; true if the turn
    /// ends with it.
    #[inline(always)]
    fn execute_fully(
        &mut self,
        batch: &Batch,
        (index, before): (usize, usize),
        view: &ArgumentView<'_>,
        input: &[u8],
    ) -> (Step, bool) {
        let request = &batch.requests[index];
        let bytes = request.end - request.start + view.large_bytes();
        let alone = self.is_timed_alone(request.id, bytes);
        if alone {
            self.end_run(|index| batch.view(index, input));
        }
        let before = self.take_pushes(before, request.id);
        let is_large = bytes >= LARGE_BYTES_MIN as usize;
        let step = match is_large.then(|| self.check_request_room(request.id, view)) {
            Some(Err(error)) => self.refuse(request.id, &error),
            _ => self.execute_measured((index, before), request, view),
        };
        if alone {
            self.end_run(|index| batch.view(index, input));
        }
        let is_full = self.is_turn_used_up(alone);
        if is_full {
            self.replace_failed_reply(before);
        }
        (step, is_full)
    }

    /// Boundary between two commands: a subscriber gets what was posted so far, behind the reply to
    /// its last command and before the reply to its next. Returns the length of the replies, which
    /// was `before`.
    #[inline]
    fn take_pushes(&mut self, before: usize, id: Option<CommandId>) -> usize {
        let session = &*self.session;
        if session.is_subscriber | session.may_have_pushes {
            self.take_pushes_now(before, id)
        } else {
            before
        }
    }

    #[cold]
    fn take_pushes_now(&mut self, before: usize, id: Option<CommandId>) -> usize {
        let Executor { shared, worker, session, reply, .. } = self;
        worker.drain_lane(shared);
        worker.receivers.take_inbox(session.id(), reply);
        session.may_have_pushes = session.tracking.is_some();
        if let Some(tracking) = &mut session.tracking
            && session.lock_attempts == 0
        {
            let is_about_client = id.is_some_and(|id| shared.commands.command(id).name == "client");
            tracking.begin_command(is_about_client, session.transaction.is_some());
        }
        if reply.has_failed() {
            // A message is missing: the client must not go on without it.
            reply.recover(before);
            session.lacked_memory = true;
            session.close_after_reply = true;
        }
        reply.len()
    }

    /// True if the turn ends with the command that has just run, which was timed alone or not:
    /// others come first now.
    #[inline]
    pub(super) fn is_turn_used_up(&self, alone: bool) -> bool {
        self.reply.len() > TURN_REPLY_BYTES_MAX
            || self.session.pending_reply.is_some()
            || self.session.has_pending_script
            || alone && self.worker.run.fills_turn(TURN_US_MAX * 1000)
    }

    /// Executes a request, and notes what it was.
    fn execute_measured(
        &mut self,
        (index, before): (usize, usize),
        request: &Request,
        view: &ArgumentView<'_>,
    ) -> Step {
        self.worker.run.request = index;
        let ran = self.worker.run.ran.len();
        let step = self.execute(request, view);
        // A subcommand is another command than the request's.
        if let Some(&(id, _)) = self.worker.run.ran.get(ran..).and_then(<[_]>::last) {
            // A reply that `CLIENT REPLY` took back counts as nothing.
            let reply_bytes = self.reply.len().saturating_sub(before);
            let request_bytes = request.end - request.start + view.large_bytes();
            self.note_sizes(id, view, request_bytes, reply_bytes);
        }
        step
    }

    /// Parks the session, or lets it try again at once when what it waits for is free by now.
    pub(crate) fn park(&mut self, place: WaitTarget) -> Next {
        self.session.count_attempt(place, || self.shared.clock.monotonic_us());
        let ticket = self.ticket();
        let shared = self.shared;
        if place != WaitTarget::Token {
            // Its turn would come while it waits for something else.
            shared.token.leave(ticket);
        }
        let is_parked = match place {
            WaitTarget::Slot(slot) => {
                shared.parking.park(place, ticket, || shared.keyspace.word(slot).announce_waiting())
            }
            // In the queue since it found the token taken.
            WaitTarget::Token | WaitTarget::Migration => true,
            WaitTarget::Gate => {
                let retry_us = shared.clock.monotonic_us() + GATE_RETRY_US;
                return Next::WakeUp(WakeUp::At(retry_us));
            }
            WaitTarget::Reload => {
                let session = self.session.id();
                shared.parking.park(place, ticket, || shared.loading.is_reloading(session))
            }
            WaitTarget::Lane => {
                let retry_us = shared.clock.monotonic_us() + LANE_RETRY_US;
                return Next::WakeUp(WakeUp::At(retry_us));
            }
            WaitTarget::Eviction { until_us } => return Next::WakeUp(WakeUp::At(until_us)),
            WaitTarget::Pause => return Next::WakeUp(WakeUp::PauseEnd),
            WaitTarget::Memory => return Next::WakeUp(WakeUp::Memory),
        };
        if is_parked {
            self.worker.stats(shared).parked.add(1);
            if let WaitTarget::Slot(slot) = place
                && shared.hot_keys.is_on()
            {
                shared.hot_keys.note_park(self.worker.index, slot.index(), self.worker.now_ms());
            }
            Next::WakeUp(WakeUp::Message)
        } else {
            Next::Turn
        }
    }

    /// Executes one request.
    #[inline]
    fn execute(&mut self, request: &Request, args: &ArgumentView<'_>) -> Step {
        if request.id.is_none() && is_http(args.get(0)) {
            self.session.sent_http = true;
            self.session.close_after_reply = true;
            return Step::Done;
        }
        let mark = self.reply.mark();
        let mode = self.session.reply_mode;
        let admitted = admit::admit(self, request.id, args);
        let step = match admitted {
            Ok(admit::Admitted::Run(id, command)) => self.run(id, command, args, request.key),
            Ok(admit::Admitted::Queued) => {
                self.reply.queued();
                Step::Done
            }
            Ok(admit::Admitted::Waiting(target)) => Step::Wait(target),
            Err(error) => {
                self.error(&error);
                Step::Done
            }
        };
        if matches!(step, Step::Done) {
            self.keep_silent(mode, mark);
        }
        step
    }

    /// Takes a reply back that `CLIENT REPLY` does not want; `before` was the mode when the command
    /// began.
    #[inline]
    pub(crate) fn keep_silent(&mut self, before: ReplyMode, mark: Mark) {
        let now = self.session.reply_mode;
        if before == ReplyMode::On && now == ReplyMode::On {
            return;
        }
        if before != ReplyMode::On && now != ReplyMode::On {
            self.reply.truncate(mark);
        }
        self.session.reply_mode = match now {
            ReplyMode::SkipNext => ReplyMode::Skip,
            ReplyMode::Skip => ReplyMode::On,
            other => other,
        };
    }

    /// Writes an error reply, and counts it.
    pub(crate) fn error(&mut self, error: &CommandError) {
        self.count_error(error);
        self.write_error(error);
    }

    /// Counts an error reply.
    pub(crate) fn count_error(&self, error: &CommandError) {
        self.worker.stats(self.shared).error_replies.add(1);
        self.shared.count_error(&error.wire());
    }

    /// Writes an error reply that its caller counts.
    pub(crate) fn write_error(&mut self, error: &CommandError) {
        if matches!(error, CommandError::ReplyTooLarge) {
            self.note_too_large();
        }
        self.reply.error(error.wire());
    }

    /// Runs an admitted command by its handler and counts it.
    pub(crate) fn run(
        &mut self,
        id: CommandId,
        command: &'static Command,
        args: &ArgumentView<'_>,
        key: Option<(usize, KeyHash)>,
    ) -> Step {
        let shared = self.shared;
        if self.waits_for_pause((id, command), args) {
            return Step::Wait(WaitTarget::Pause);
        }
        if self.must_reclaim_first(command) {
            return Step::Wait(WaitTarget::Memory);
        }
        if self.session.may_have_pushes
            && let Err(place) = self.register_reads(command, args)
        {
            return self.settle(id, Err(Stop::wait(place)), self.reply.len());
        }
        let before = self.reply.len();
        if command.name == "exec" && self.session.transaction.is_some() {
            return self.exec(id, command, args);
        }
        let result = match self.handlers.of(id) {
            Some(Handler::Keyed(handler)) => keyed::run(self, (command, handler), args, key),
            Some(Handler::Script(how)) => {
                let key_hash = key.map(|(_, hash)| hash);
                let request = script::Request { id, command, how, args, key_hash };
                return self.run_script(request);
            }
            Some(Handler::Session(handler)) => {
                let mut cx = SessionCx {
                    args: *args,
                    reply: &mut *self.reply,
                    worker: &mut *self.worker,
                    session: &mut *self.session,
                    shared,
                    reader: &mut *self.reader,
                    command,
                    in_transaction: false,
                    alone: None,
                    unit: None,
                };
                handler(&mut cx)
            }
            None => Err(admit::container_error(command, args).into()),
        };
        self.worker.publish_misses(shared);
        let step = self.settle(id, result, before);
        if self.session.pending_reply.is_some() {
            self.note_begun(id, command, args, self.reply.len() - before);
        } else if matches!(step, Step::Blocked) {
            // It counts when its wait is over: `note_unblocked`.
            self.show(command, args);
        } else if !matches!(step, Step::Wait(_)) {
            self.note_ran(id, command, args);
        }
        step
    }

    /// Runs a script, which shows itself to monitors.
    fn run_script(&mut self, request: script::Request<'_>) -> Step {
        let id = request.id;
        self.session.client.show_command(id);
        let step = script::run(self, request);
        if let Step::Wait(place) = step
            && let Some(kind) = script::busy_holder(self.shared, self.worker, place)
        {
            return self.refuse_busy(id, kind);
        }
        if matches!(step, Step::Done) && !self.session.has_pending_script {
            self.worker.run.note(id);
        }
        step
    }

    /// Answers a command that needs what a script has had for too long.
    #[cold]
    fn refuse_busy(&mut self, id: CommandId, kind: script::Kind) -> Step {
        // With its first attempt it may have joined the queue, where nobody would look for it, and
        // left something for the second.
        self.shared.token.leave(self.ticket());
        self.session.forget_attempts(self.shared, self.worker);
        self.worker.stats(self.shared).command(id).rejected.add(1);
        self.error(&busy_error(kind));
        Step::Done
    }

    /// True if a command has to wait until a pause is over. Lets others see it.
    #[inline]
    pub(super) fn waits_for_pause(
        &mut self,
        called: (CommandId, &Command),
        args: &ArgumentView<'_>,
    ) -> bool {
        let is_held_back = self.shared.may_hold_back() && self.is_held_back(called, args);
        if is_held_back || self.session.lock_attempts > 0 {
            // Relaxed: for others' information only.
            self.session.client.is_postponed.store(is_held_back, Ordering::Relaxed);
        }
        is_held_back
    }

    /// True if a command has to wait until a pause is over: `EXEC` when one of its commands has to,
    /// if it runs them.
    #[cold]
    fn is_held_back(
        &mut self,
        (id, command): (CommandId, &Command),
        args: &ArgumentView<'_>,
    ) -> bool {
        if self.session.replays {
            return false;
        }
        let Executor { shared, handlers, worker, session, .. } = self;
        let queued = match &session.transaction {
            Some(transaction) if command.name == "exec" && !session.is_transaction_refused() => {
                transaction.queued.as_slice()
            }
            _ => &[],
        };
        let queued = queued.iter().map(|queued| (queued.id, queued.arguments.view()));
        let mut calls = queued.chain(std::iter::once((id, *args)));
        calls.any(|(id, args)| {
            let flags = shared.commands.command(id).flags;
            let only_reads = match handlers.of(id) {
                Some(Handler::Script(how)) => script::only_reads((shared, worker), how, &args),
                _ => false,
            };
            shared.holds_back(if only_reads { Flags::READONLY } else { flags })
        })
    }

    /// True if a command that retires memory has to wait until the worker has freed some: before
    /// its first lock, when it holds no reference that a grace period would wait for.
    #[inline]
    fn must_reclaim_first(&self, command: &Command) -> bool {
        let retires = command.flags.contains(Flags::WRITE) || command.name == "exec";
        retires && self.worker.must_reclaim()
    }

    #[inline]
    pub(super) fn settle(&mut self, id: CommandId, outcome: Outcome, before: usize) -> Step {
        match outcome {
            Ok(()) => Step::Done,
            Err(stop) => self.settle_stop(id, *stop, before),
        }
    }

    #[cold]
    fn settle_stop(&mut self, id: CommandId, stop: Stop, before: usize) -> Step {
        match stop {
            Stop::Error(error) => {
                self.count_failed(id, 1);
                self.take_back(&error, before);
                self.error(&error);
                self.session.close_after_reply |= self.session.exceeds_output_limit;
                Step::Done
            }
            Stop::Wait(place) => match script::busy_holder(self.shared, self.worker, place) {
                Some(kind) => self.refuse_busy(id, kind),
                None => Step::Wait(place),
            },
            Stop::Blocked => Step::Blocked,
            Stop::NeedLocks | Stop::TakesLong | Stop::Disturbed | Stop::Block(_) => {
                unreachable!("resolved by the keyed runner")
            }
        }
    }

    /// Ends a transaction that needs what a script has had for too long.
    #[cold]
    fn discard_busy(&mut self, id: CommandId, kind: script::Kind) -> Step {
        self.shared.token.leave(self.ticket());
        self.session.transaction = None;
        self.session.show_transaction();
        unwatch(self.shared, self.worker, self.session, None);
        self.worker.stats(self.shared).command(id).rejected.add(1);
        let error = busy_error(kind);
        let text = [b"EXECABORT Transaction discarded because of: ", &*error.wire()].concat();
        self.error(&CommandError::Bytes(text));
        Step::Done
    }

    /// Runs `EXEC`. Its commands count for themselves, and the time of all for `EXEC` too.
    fn exec(&mut self, id: CommandId, command: &'static Command, args: &ArgumentView<'_>) -> Step {
        self.session.client.show_command(id);
        let step = transaction::exec(self, id);
        if let Step::Wait(place) = step
            && let Some(kind) = script::busy_holder(self.shared, self.worker, place)
        {
            return self.discard_busy(id, kind);
        }
        if matches!(step, Step::Done) {
            self.session.show_transaction();
            if !self.session.has_pending_script {
                self.note_ran(id, command, args);
            }
        }
        step
    }
}
