//! One connection's turn: parse, prefetch, execute.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tidemill_resp::encode::{Mark, ReplyBuffer};
use tidemill_resp::request::{
    ArgumentView, Arguments, Limits, Progress, ProtocolError, RequestParser,
};
use tidemill_store::KeyHash;

use super::{admit, keyed, transaction};
use crate::command::{Command, CommandId, Flags, Handler, Stop};
use crate::context::SessionCx;
use crate::error::CommandError;
use crate::limits::{
    BATCH_REQUESTS_MAX, BRIEF_REQUEST_BYTES_MAX, PAUSE_US, TURN_COMMANDS_MAX, TURN_REPLY_BYTES_MAX,
    TURN_US_MAX,
};
use crate::parking::{Place, Ticket};
use crate::section::{Enter, OpenSection};
use crate::session::{ReplyMode, Session};
use crate::settings::Quiescent;
use crate::shared::Shared;
use crate::worker::Worker;

/// What a connection needs next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// More bytes; at least so many.
    Input {
        /// Bytes that the next request lacks at the very least.
        wanted: usize,
    },
    /// Another turn: it has used this one up.
    Turn,
    /// A wake-up: something that its next request needs is taken. With a time, it also tries again then (monotonic µs).
    WakeUp {
        /// When to try again without a wake-up.
        retry_us: Option<u64>,
    },
    /// An `Unblocked` message: its last request waits for a key.
    Unblock,
    /// To be closed once its replies are sent.
    Close,
}

/// What a turn came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn {
    /// Bytes of input that are done with.
    pub consumed: usize,
    /// What the connection needs next.
    pub next: Next,
}

/// One parsed request.
#[derive(Clone, Copy, Debug)]
struct Request {
    /// Where its bytes begin in the input; its arguments count from here.
    start: usize,
    end: usize,
    id: Option<CommandId>,
    /// The first key's argument and hash, for commands with a key in a fixed place.
    key: Option<(usize, KeyHash)>,
    /// A small and complete request of a brief reading command.
    is_brief_read: bool,
}

/// Requests parsed ahead. One per worker, reused for all connections.
#[derive(Debug)]
pub struct Batch {
    arguments: Vec<Arguments>,
    requests: Vec<Request>,
}

impl Default for Batch {
    fn default() -> Self {
        Batch {
            arguments: (0..BATCH_REQUESTS_MAX).map(|_| Arguments::new()).collect(),
            requests: Vec::with_capacity(BATCH_REQUESTS_MAX),
        }
    }
}

impl Batch {
    /// The arguments of the request at an index.
    fn view<'a>(&'a self, index: usize, input: &'a [u8]) -> ArgumentView<'a> {
        self.arguments[index].view(&input[self.requests[index].start..])
    }

    /// Gives memory back that large requests left allocated.
    pub fn shrink(&mut self) {
        self.arguments.iter_mut().for_each(Arguments::shrink);
    }
}

/// What ended the parsing of a batch.
enum Parsed {
    /// The batch is full.
    Full,
    /// The input ends within a request.
    Input { consumed: usize, wanted: usize },
    /// The input is no protocol.
    Broken(ProtocolError),
}

/// What one request came to.
pub(crate) enum Step {
    Done,
    Wait(Place),
    Blocked,
}

/// Everything that executing for one connection needs.
pub(crate) struct Client<'k, 's, E> {
    pub(crate) shared: &'k Arc<Shared>,
    pub(crate) worker: &'s mut Worker,
    pub(crate) session: &'s mut Session,
    pub(crate) reader: &'s mut E,
    pub(crate) reply: &'s mut ReplyBuffer,
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
    batch: &mut Batch,
    parser: &mut RequestParser,
    input: &[u8],
    reply: &mut ReplyBuffer,
) -> Turn {
    let mut client = Client { shared, worker, session, reader, reply };
    let mut start_us = None;
    let mut consumed = 0;
    let mut count = 0;
    loop {
        shared.gate.pass(client.worker.index);
        // What another worker has answered applies to whatever was sent after that answer: settings, and being killed.
        client.worker.refresh_settings(shared);
        if client.session.client.is_killed() {
            return Turn { consumed: input.len(), next: Next::Close };
        }
        let parsed = client.parse(batch, parser, &input[consumed..]);
        let now_ns = shared.clock.monotonic_ns();
        client.worker.run.begin(now_ns);
        let start_us = *start_us.get_or_insert(now_ns / 1000);
        let executed = client.execute_batch(batch, &input[consumed..]);
        if client.worker.settings.quiescent == Quiescent::Batch {
            client.reader.quiescent();
        }
        count += batch.requests.len();
        consumed += executed.consumed;
        if let Some(next) = executed.next {
            // What was parsed ahead is parsed again.
            *parser = RequestParser::new();
            return Turn { consumed, next };
        }
        match parsed {
            Parsed::Full => {}
            Parsed::Input { consumed: blank, wanted } => {
                return Turn { consumed: consumed + blank, next: Next::Input { wanted } };
            }
            Parsed::Broken(error) => {
                let mut text = Vec::new();
                error.write_wire(&mut text);
                client.reply.raw(&text);
                return Turn { consumed: input.len(), next: Next::Close };
            }
        }
        let now_us = client.worker.run.start_us();
        if count >= TURN_COMMANDS_MAX || now_us - start_us > TURN_US_MAX {
            return Turn { consumed, next: Next::Turn };
        }
    }
}

/// Whether a line is of an HTTP request: a web page that its visitor's browser lets talk to this server can put commands into
/// the body, behind lines that are none. Nothing behind such a line is executed.
fn is_http(name: &[u8]) -> bool {
    name.eq_ignore_ascii_case(b"POST") || name.eq_ignore_ascii_case(b"Host:")
}

struct Executed {
    consumed: usize,
    next: Option<Next>,
}

impl<E: Enter> Client<'_, '_, E> {
    /// Fills the batch from `input`, and says what comes behind it.
    fn parse(&mut self, batch: &mut Batch, parser: &mut RequestParser, input: &[u8]) -> Parsed {
        let limits = Limits {
            bulk_bytes_max: self.worker.settings.bulk_bytes_max,
            authenticated: self.session.is_authenticated,
        };
        batch.requests.clear();
        let mut offset = 0;
        for arguments in &mut batch.arguments {
            if offset == input.len() && parser.is_idle() {
                return Parsed::Input { consumed: 0, wanted: 1 };
            }
            match parser.parse(&input[offset..], &limits, arguments) {
                Ok(Progress::Complete { consumed }) => {
                    let view = arguments.view(&input[offset..]);
                    let request = self.recognize(&view, offset, offset + consumed);
                    batch.requests.push(request);
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

    #[inline]
    fn recognize(&self, view: &ArgumentView<'_>, start: usize, end: usize) -> Request {
        let commands = &self.shared.commands;
        let Some(id) = commands.find(view.get(0)) else {
            return Request { start, end, id: None, key: None, is_brief_read: false };
        };
        let traits = commands.traits(id);
        let index = usize::from(traits.fixed_key);
        let has_key = index > 0 && index < view.len();
        let key = has_key.then(|| (index, self.shared.keyspace.key_hash(view.get(index))));
        let is_brief_read = traits.is_brief_read
            && end - start <= BRIEF_REQUEST_BYTES_MAX
            && commands.command(id).takes(view.len());
        Request { start, end, id: Some(id), key, is_brief_read }
    }

    fn execute_batch(&mut self, batch: &Batch, input: &[u8]) -> Executed {
        if batch.requests.len() > 1 {
            let guard = self.reader.enter();
            let keys = batch.requests.iter().filter_map(|request| Some(request.key?.1));
            self.shared.keyspace.prefetch(self.session.database, keys, guard.section());
        }
        let executed = self.execute_requests(batch, input);
        self.end_run(|index| batch.view(index, input));
        executed
    }

    fn execute_requests(&mut self, batch: &Batch, input: &[u8]) -> Executed {
        let mut consumed = 0;
        let mut reads_briefly = self.reads_briefly();
        for (index, request) in batch.requests.iter().enumerate() {
            let view = batch.view(index, input);
            let (step, is_full) = if request.is_brief_read && reads_briefly {
                match self.read_briefly(index, request, view) {
                    Step::Done if self.reply.len() <= TURN_REPLY_BYTES_MAX => {
                        consumed = request.end;
                        continue;
                    }
                    step => (step, true),
                }
            } else {
                let alone = self.is_timed_alone(request.id, request.end - request.start);
                if alone {
                    self.end_run(|index| batch.view(index, input));
                }
                let step = self.execute_measured(index, request, view);
                if alone {
                    self.end_run(|index| batch.view(index, input));
                }
                reads_briefly = self.reads_briefly();
                (step, self.reply.len() > TURN_REPLY_BYTES_MAX)
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
            self.session.lock_attempts = 0;
            consumed = request.end;
            if next.is_some() {
                self.note_activity(request, view);
                return Executed { consumed, next };
            }
        }
        if let Some((index, request)) = batch.requests.iter().enumerate().next_back() {
            self.note_activity(request, batch.view(index, input));
        }
        Executed { consumed, next: None }
    }

    /// Whether brief reads of this client need no more than their lookup: nothing about the client, and nothing about the
    /// server, asks for a look at each command. Commands of others that change this are seen from the next batch on.
    #[inline]
    fn reads_briefly(&self) -> bool {
        let session = &*self.session;
        let settings = &self.worker.settings;
        session.is_authenticated
            && session.transaction.is_none()
            && session.reply_mode == ReplyMode::On
            && session.lock_attempts == 0
            && !session.is_monitor
            && !self.shared.may_hold_back()
            && !self.shared.monitors.is_watched()
            && !self.times_each_alone()
            && settings.quiescent != Quiescent::Command
    }

    /// Executes a request for which [`Request::is_brief_read`] and [`Client::reads_briefly`] hold.
    #[inline]
    fn read_briefly(&mut self, index: usize, request: &Request, view: ArgumentView<'_>) -> Step {
        let id = request.id.expect("a recognized request has a command");
        let command = self.shared.commands.command(id);
        let Handler::Keyed(handler) = command.handler else { unreachable!("it reads keys") };
        let before = self.reply.len();
        self.worker.run.request = index;
        let result = keyed::run(self, (command, handler), view, request.key);
        let step = self.settle(id, result);
        if !matches!(step, Step::Wait(_)) {
            self.worker.run.note(id);
            let reply_bytes = self.reply.len() - before;
            self.note_sizes(command, view, request.end - request.start, reply_bytes);
        }
        step
    }

    /// Executes a request, and notes what it was.
    fn execute_measured(
        &mut self,
        index: usize,
        request: &Request,
        view: ArgumentView<'_>,
    ) -> Step {
        self.worker.run.request = index;
        let (before, ran) = (self.reply.len(), self.worker.run.count());
        let step = self.execute(request, view);
        if self.worker.run.count() > ran
            && let Some(command) = self.command_that_ran()
        {
            // What `CLIENT REPLY` took back counts as nothing.
            let reply_bytes = self.reply.len().saturating_sub(before);
            self.note_sizes(command, view, request.end - request.start, reply_bytes);
        }
        step
    }

    /// Lets others see what the client asked for last: no command when there is none of that name.
    #[inline]
    fn note_activity(&self, request: &Request, view: ArgumentView<'_>) {
        let commands = &self.shared.commands;
        let called = request.id.and_then(|id| {
            let command = commands.command(id);
            let is_whole = command.subcommands.is_empty() || view.len() < 2;
            if is_whole { Some(id) } else { commands.find_subcommand(command, view.get(1)) }
        });
        let client = &self.session.client;
        // Relaxed: for others' information only.
        client.last_command.store(called.map_or(0, |id| id.index() as u32 + 1), Ordering::Relaxed);
        client.last_command_ms.store(self.worker.now_ms(), Ordering::Relaxed);
    }

    /// Parks the session, or lets it try again at once when what it waits for is free by now.
    fn park(&mut self, place: Place) -> Next {
        self.session.lock_attempts += 1;
        let ticket = Ticket { worker: self.worker.index, session: self.session.id() };
        let shared = self.shared;
        let is_parked = match place {
            Place::Slot(slot) => {
                shared.parking.park(place, ticket, || shared.keyspace.word(slot).announce_waiting())
            }
            Place::Token => shared.parking.park(place, ticket, || shared.token.announce_waiting()),
            Place::Pause => {
                let retry_us = shared.clock.monotonic_us() + PAUSE_US;
                return Next::WakeUp { retry_us: Some(retry_us) };
            }
        };
        if is_parked {
            self.worker.stats(shared).parked.add(1);
            Next::WakeUp { retry_us: None }
        } else {
            Next::Turn
        }
    }

    /// Executes one request.
    #[inline]
    fn execute(&mut self, request: &Request, args: ArgumentView<'_>) -> Step {
        if request.id.is_none() && is_http(args.get(0)) {
            self.session.sent_http = true;
            self.session.close_after_reply = true;
            return Step::Done;
        }
        let mark = self.reply.mark();
        let mode = self.session.reply_mode;
        let admitted = admit::admit(self, request.id, &args);
        let step = match admitted {
            Ok(admit::Admitted::Run(id, command)) => self.run(id, command, args, request.key),
            Ok(admit::Admitted::Queued) => {
                self.reply.queued();
                Step::Done
            }
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

    /// Takes a reply back that `CLIENT REPLY` does not want; `before` was the mode when the command began.
    #[inline]
    fn keep_silent(&mut self, before: ReplyMode, mark: Mark) {
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

    /// Writes an error reply.
    pub(crate) fn error(&mut self, error: &CommandError) {
        self.worker.stats(self.shared).error_replies.add(1);
        let wire = error.wire();
        self.shared.count_error(&wire);
        self.reply.error(wire);
    }

    /// Runs an admitted command by its handler and counts it.
    pub(crate) fn run(
        &mut self,
        id: CommandId,
        command: &'static Command,
        args: ArgumentView<'_>,
        key: Option<(usize, KeyHash)>,
    ) -> Step {
        let shared = self.shared;
        if shared.holds_back(command) || self.must_reclaim_first(command) {
            return Step::Wait(Place::Pause);
        }
        if command.name == "exec" && self.session.transaction.is_some() {
            return self.exec(id, command, args);
        }
        let result = match command.handler {
            Handler::Keyed(handler) => keyed::run(self, (command, handler), args, key),
            Handler::Session(handler) | Handler::Whole(handler) => {
                let mut cx = SessionCx {
                    args,
                    reply: &mut *self.reply,
                    worker: &mut *self.worker,
                    session: &mut *self.session,
                    shared,
                    reader: &mut *self.reader,
                    command,
                    in_transaction: false,
                    alone: None,
                };
                handler(&mut cx)
            }
            Handler::Container => Err(Stop::Error(admit::container_error(command, &args))),
        };
        let step = self.settle(id, result);
        if !matches!(step, Step::Wait(_)) {
            self.note_ran(id, command, args);
        }
        step
    }

    /// Whether a command that retires memory has to wait until the worker has freed some: before its first lock, when
    /// it holds no reference that a grace period would wait for.
    #[inline]
    fn must_reclaim_first(&self, command: &Command) -> bool {
        let retires = command.flags.contains(Flags::WRITE) || command.name == "exec";
        retires && self.worker.heap.retired().is_over_limit()
    }

    #[inline]
    fn settle(&mut self, id: CommandId, result: Result<(), Stop>) -> Step {
        match result {
            Ok(()) => Step::Done,
            Err(stop) => self.settle_stop(id, stop),
        }
    }

    #[cold]
    fn settle_stop(&mut self, id: CommandId, stop: Stop) -> Step {
        match stop {
            Stop::Error(error) => {
                self.worker.stats(self.shared).command(id).failed.add(1);
                self.error(&error);
                Step::Done
            }
            Stop::Wait(place) => Step::Wait(place),
            Stop::Blocked => Step::Blocked,
            Stop::NeedLocks | Stop::Block(_) => unreachable!("resolved by the keyed runner"),
        }
    }

    /// Runs `EXEC`. Its commands count for themselves, and the time of all for `EXEC` too.
    fn exec(&mut self, id: CommandId, command: &'static Command, args: ArgumentView<'_>) -> Step {
        let step = transaction::exec(self);
        if matches!(step, Step::Done) {
            self.session.show_transaction();
            self.note_ran(id, command, args);
        }
        step
    }
}
