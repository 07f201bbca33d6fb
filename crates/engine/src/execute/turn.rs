//! One connection's turn: parse, prefetch, execute.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tidemill_rcu::Section;
use tidemill_resp::encode::{Mark, ReplyBuffer};
use tidemill_resp::request::{
    ArgumentView, Arguments, Limits, Progress, ProtocolError, RequestParser,
};
use tidemill_store::KeyHash;

use super::{admit, keyed, transaction};
use crate::command::{Command, CommandId, Find, Flags, Handler, Start, Stop};
use crate::context::SessionCx;
use crate::error::CommandError;
use crate::limits::{
    BATCH_REQUESTS_MAX, PAUSE_US, TURN_COMMANDS_MAX, TURN_REPLY_BYTES_MAX, TURN_US_MAX,
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
        let id = self.shared.commands.find(view.get(0));
        let key = id.and_then(|id| {
            let index = fixed_key(self.shared.commands.command(id))?;
            (index < view.len()).then(|| (index, self.shared.keyspace.key_hash(view.get(index))))
        });
        Request { start, end, id, key }
    }

    fn execute_batch(&mut self, batch: &Batch, input: &[u8]) -> Executed {
        if batch.requests.len() > 1 {
            let guard = self.reader.enter();
            prefetch(self.shared, self.session.database, &batch.requests, guard.section());
        }
        let executed = self.execute_requests(batch, input);
        self.end_run(|index| batch.view(index, input));
        executed
    }

    fn execute_requests(&mut self, batch: &Batch, input: &[u8]) -> Executed {
        let mut consumed = 0;
        for (index, request) in batch.requests.iter().enumerate() {
            let view = batch.view(index, input);
            let request_bytes = request.end - request.start;
            let alone = self.is_timed_alone(request.id, request_bytes);
            if alone {
                self.end_run(|index| batch.view(index, input));
            }
            self.worker.run.request = index;
            let (mark, ran) = (self.reply.mark(), self.worker.run.count());
            let step = self.execute(request, view);
            if self.worker.run.count() > ran
                && let Some(command) = self.command_that_ran()
            {
                let reply_bytes = self.reply.appended_bytes(mark);
                self.note_sizes(command, view, request_bytes, reply_bytes);
            }
            if alone {
                self.end_run(|index| batch.view(index, input));
            }
            let next = match step {
                Step::Done if self.session.close_after_reply => Some(Next::Close),
                Step::Done if self.reply.len() > TURN_REPLY_BYTES_MAX => Some(Next::Turn),
                Step::Done => None,
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
                self.note_activity(request.id);
                return Executed { consumed, next };
            }
        }
        self.note_activity(batch.requests.last().and_then(|request| request.id));
        Executed { consumed, next: None }
    }

    fn note_activity(&self, id: Option<CommandId>) {
        if let Some(id) = id {
            let client = &self.session.client;
            // Relaxed: for others' information only.
            client.last_command.store(id.index() as u32 + 1, Ordering::Relaxed);
            client.last_command_ms.store(self.worker.now_ms(), Ordering::Relaxed);
        }
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

    fn settle(&mut self, id: CommandId, result: Result<(), Stop>) -> Step {
        let stats = self.worker.stats(self.shared);
        let step = match result {
            Ok(()) => Step::Done,
            Err(Stop::Error(error)) => {
                stats.command(id).failed.add(1);
                self.error(&error);
                Step::Done
            }
            Err(Stop::Wait(place)) => return Step::Wait(place),
            Err(Stop::NeedLocks) => unreachable!("resolved by the keyed runner"),
            Err(Stop::Block(_)) => Step::Blocked,
        };
        let stats = self.worker.stats(self.shared);
        stats.commands_processed.add(1);
        step
    }

    /// Runs `EXEC`. Its commands count for themselves, and the time of all for `EXEC` too.
    fn exec(&mut self, id: CommandId, command: &'static Command, args: ArgumentView<'_>) -> Step {
        let step = transaction::exec(self);
        if matches!(step, Step::Done) {
            // Relaxed: for others' information only.
            self.session.client.queued.store(u64::MAX, Ordering::Relaxed);
            self.note_ran(id, command, args);
        }
        step
    }
}

/// The argument that is a command's first key, if it always stands in the same place.
#[inline]
fn fixed_key(command: &Command) -> Option<usize> {
    match command.keys.first()?.start {
        Start::Index(index) if matches!(command.keys[0].find, Find::Range { .. }) => Some(index),
        _ => None,
    }
}

/// Asks the processor for what the requests will need, step by step, so that the misses of all of them overlap.
fn prefetch(shared: &Shared, database: usize, requests: &[Request], section: Section<'_>) {
    let keys = || requests.iter().filter_map(|request| request.key.map(|(_, hash)| hash));
    for key in keys() {
        shared.keyspace.prefetch_table(database, key, section);
    }
    for key in keys() {
        shared.keyspace.prefetch_bucket(database, key, section);
    }
    for key in keys() {
        shared.keyspace.prefetch_entry(database, key, section);
    }
}
