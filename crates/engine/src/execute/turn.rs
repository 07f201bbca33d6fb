//! One connection's turn: parse, prefetch, execute.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use smallvec::SmallVec;
use tidemill_resp::encode::{Mark, ReplyBuffer};
use tidemill_resp::request::{
    ArgumentView, Arguments, Limits, Progress, ProtocolError, RequestParser,
};
use tidemill_store::{KeyBytes, KeyHash, LANES, SlotNumber};

use super::{admit, keyed, transaction};
use crate::command::{Command, CommandId, Flags, Handler, Outcome, Stop};
use crate::context::SessionCx;
use crate::error::CommandError;
use crate::limits::{
    BATCH_REQUESTS_MAX, BRIEF_REQUEST_BYTES_MAX, GATE_RETRY_US, HASHED_TOGETHER_MIN,
    PREFETCHED_ENTRIES_MAX, TURN_COMMANDS_MAX, TURN_REPLY_BYTES_MAX, TURN_US_MAX,
};
use crate::parking::{Place, Ticket, WakeUp};
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
    /// A wake-up: something that its next request needs is not to be had now.
    WakeUp(WakeUp),
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
    /// What is under its keys is a collection.
    is_of_collections: bool,
    /// A small and complete request of a brief reading command.
    is_brief_read: bool,
}

impl Request {
    fn key_hash(&self) -> Option<KeyHash> {
        self.key.map(|(_, hash)| hash)
    }

    fn key_hash_mut(&mut self) -> Option<&mut KeyHash> {
        self.key.as_mut().map(|(_, hash)| hash)
    }
}

/// What a request calls, by its first argument and how many follow.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Called {
    id: CommandId,
    /// The argument that is its first key, or 0.
    key: u8,
    is_of_collections: bool,
    is_brief_read: bool,
}

/// Requests parsed ahead. One per worker, reused for all connections.
#[derive(Debug)]
pub struct Batch {
    arguments: Vec<Arguments>,
    requests: Vec<Request>,
    /// It holds what [`look_ahead`] parsed, which is all of the input of the next turn.
    is_parsed: bool,
}

impl Default for Batch {
    fn default() -> Self {
        Batch::of(BATCH_REQUESTS_MAX)
    }
}

impl Batch {
    /// Room for one request.
    #[must_use]
    pub fn of_one() -> Batch {
        Batch::of(1)
    }

    fn of(requests: usize) -> Batch {
        Batch {
            arguments: (0..requests).map(|_| Arguments::new()).collect(),
            requests: Vec::with_capacity(requests),
            is_parsed: false,
        }
    }

    /// Whether the input of the next turn was parsed already.
    #[must_use]
    pub fn is_parsed(&self) -> bool {
        self.is_parsed
    }

    /// Hashes the keys of all requests, and calls `prefetch` for the slot of each.
    #[inline]
    fn hash_keys(&mut self, shared: &Shared, input: &[u8], prefetch: impl Fn(SlotNumber)) {
        let Batch { arguments, requests, .. } = self;
        for (requests, arguments) in requests.chunks_mut(LANES).zip(arguments.chunks(LANES)) {
            if requests.len() >= HASHED_TOGETHER_MIN {
                hash_together(shared, requests, arguments, input);
            } else {
                for (request, arguments) in requests.iter_mut().zip(arguments) {
                    let view = arguments.view(&input[request.start..]);
                    if let Some((index, known)) = &mut request.key {
                        *known = shared.keyspace.key_hash(view.get(*index));
                    }
                }
            }
            requests.iter().filter_map(Request::key_hash).for_each(|known| prefetch(known.slot));
        }
    }

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

/// Parses the input of a connection ahead of its turn, if it is one short request of a kind that was seen before: the turn
/// is to be given the same batch then.
///
/// For connections that became ready together: see [`prefetch`].
pub fn look_ahead(
    shared: &Shared,
    worker: &Worker,
    parser: &RequestParser,
    batch: &mut Batch,
    input: &[u8],
) {
    batch.requests.clear();
    let Some((length, called)) = worker.heads.parse(input, &mut batch.arguments[0]) else { return };
    if length == input.len() && parser.is_idle() {
        batch.requests.push(request(Some(called), 0, length));
        batch.hash_keys(shared, input, |slot| shared.keyspace.prefetch_word(slot));
        batch.is_parsed = true;
    }
}

/// Asks the processor for what the requests of several connections will need that use one database; `batches` are their
/// batches.
///
/// A client that waits for each reply has one request in its batch. Where many do, their cache misses overlap all the same.
pub fn prefetch<'b, E: Enter, B: Iterator<Item = &'b mut Batch>>(
    shared: &Shared,
    reader: &E,
    database: usize,
    batches: B,
) {
    let guard = reader.enter();
    let mut keys: SmallVec<[&mut KeyHash; PREFETCHED_ENTRIES_MAX]> =
        batches.flat_map(|batch| &mut batch.requests).filter_map(Request::key_hash_mut).collect();
    let hashes = keys.iter().map(|key| **key);
    for key in hashes.clone() {
        shared.keyspace.prefetch_table(database, key.slot, guard.section());
    }
    shared.keyspace.prefetch_buckets(database, hashes, guard.section());
    let keys = keys.iter_mut().map(|key| &mut **key);
    shared.keyspace.prefetch_entries(database, keys, guard.section());
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
    let is_parsed = std::mem::take(&mut batch.is_parsed);
    let mut client = Client { shared, worker, session, reader, reply };
    if client.session.rest.is_some()
        && let Some(turn) = client.go_on(input)
    {
        return turn;
    }
    let mut start_us = None;
    let mut consumed = 0;
    let mut count = 0;
    loop {
        client.reader.seat().pass();
        // What another worker has answered applies to whatever was sent after that answer: settings, and being killed.
        client.worker.refresh_settings(shared);
        if client.session.client.is_killed() {
            return Turn { consumed: input.len(), next: Next::Close };
        }
        let parsed = if is_parsed {
            Parsed::Input { consumed: 0, wanted: 1 }
        } else {
            client.parse(batch, parser, &input[consumed..])
        };
        let now_ns = shared.clock.monotonic_ns();
        client.worker.run.begin(now_ns);
        let start_us = *start_us.get_or_insert_with(|| {
            client.worker.run.begin_turn(now_ns);
            now_ns / 1000
        });
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

/// What is known of a request before its key is hashed.
#[inline(always)]
fn request(called: Option<Called>, start: usize, length: usize) -> Request {
    let end = start + length;
    let Some(Called { id, key, is_of_collections, is_brief_read }) = called else {
        let (is_of_collections, is_brief_read) = (false, false);
        return Request { start, end, id: None, key: None, is_of_collections, is_brief_read };
    };
    let key = (key > 0).then(|| (usize::from(key), KeyHash::default()));
    let is_brief_read = is_brief_read && length <= BRIEF_REQUEST_BYTES_MAX;
    Request { start, end, id: Some(id), key, is_of_collections, is_brief_read }
}

/// Hashes the keys of up to [`LANES`] requests side by side; one without a key takes the place of an empty one.
#[inline(never)]
fn hash_together(shared: &Shared, requests: &mut [Request], arguments: &[Arguments], input: &[u8]) {
    let mut keys = [KeyBytes::default(); LANES];
    for ((key, request), arguments) in keys.iter_mut().zip(&*requests).zip(arguments) {
        if let Some((index, _)) = request.key {
            let view = arguments.view(&input[request.start..]);
            let (behind, length) = view.get_in_buffer(index);
            *key = KeyBytes::new(behind, length);
        }
    }
    let hashes = shared.keyspace.key_hashes(&keys);
    for (known, hash) in requests.iter_mut().map(Request::key_hash_mut).zip(hashes) {
        if let Some(known) = known {
            *known = hash;
        }
    }
}

struct Executed {
    consumed: usize,
    next: Option<Next>,
}

impl<E: Enter> Client<'_, '_, E> {
    /// Fills the batch from `input`, and says what comes behind it.
    fn parse(&mut self, batch: &mut Batch, parser: &mut RequestParser, input: &[u8]) -> Parsed {
        let parsed = self.parse_requests(batch, parser, input);
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
        input: &[u8],
    ) -> Parsed {
        let limits = Limits {
            bulk_bytes_max: self.worker.settings.bulk_bytes_max,
            authenticated: self.session.is_authenticated,
        };
        batch.requests.clear();
        let mut offset = 0;
        for arguments in &mut batch.arguments {
            // A request that authenticates changes what the next may be: it runs before that is parsed.
            if !limits.authenticated && offset > 0 {
                return Parsed::Full;
            }
            if offset == input.len() && parser.is_idle() {
                return Parsed::Input { consumed: 0, wanted: 1 };
            }
            let rest = &input[offset..];
            if parser.is_idle()
                && let Some((length, called)) = self.worker.heads.parse(rest, arguments)
            {
                batch.requests.push(request(Some(called), offset, length));
                offset += length;
                continue;
            }
            match parser.parse(rest, &limits, arguments) {
                Ok(Progress::Complete { consumed }) => {
                    let called = self.called(&arguments.view(rest));
                    batch.requests.push(request(called, offset, consumed));
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
        let id = commands.find(view.get(0))?;
        let traits = commands.traits(id);
        let key = if usize::from(traits.fixed_key) < view.len() { traits.fixed_key } else { 0 };
        let is_brief_read = traits.is_brief_read && commands.command(id).takes(view.len());
        Some(Called { id, key, is_of_collections: traits.is_of_collections, is_brief_read })
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
        self.end_run(|index| batch.view(index, input));
        executed
    }

    /// Asks the processor for the entries of the requests from `first` on that are executed next.
    #[inline]
    fn prefetch_entries(&self, requests: &mut [Request], first: usize) {
        let guard = self.reader.enter();
        let end = requests.len().min(first + PREFETCHED_ENTRIES_MAX);
        let keys = requests[first..end].iter_mut().filter_map(Request::key_hash_mut);
        self.shared.keyspace.prefetch_entries(self.session.database, keys, guard.section());
    }

    /// Asks the processor for the collections under the keys of the next requests, whose entries were asked for long ago.
    #[inline]
    fn prefetch_values(&self, requests: &[Request]) {
        let next = &requests[..requests.len().min(PREFETCHED_ENTRIES_MAX)];
        if next.iter().any(|next| next.is_of_collections) {
            self.prefetch_values_of(next);
        }
    }

    #[inline(never)]
    fn prefetch_values_of(&self, requests: &[Request]) {
        let guard = self.reader.enter();
        let of_collections = requests.iter().filter(|request| request.is_of_collections);
        let keys = of_collections.filter_map(Request::key_hash);
        self.shared.keyspace.prefetch_values(self.session.database, keys, guard.section());
    }

    fn execute_requests(&mut self, batch: &mut Batch, input: &[u8]) -> Executed {
        let mut consumed = 0;
        let mut reads_briefly = self.reads_briefly();
        for index in 0..batch.requests.len() {
            let next = index + PREFETCHED_ENTRIES_MAX;
            if index % PREFETCHED_ENTRIES_MAX == 0 && batch.requests.len() > 1 {
                self.prefetch_values(&batch.requests[index..]);
                if next < batch.requests.len() {
                    self.prefetch_entries(&mut batch.requests, next);
                }
            }
            let request = &batch.requests[index];
            let view = batch.view(index, input);
            let (step, is_full) = if request.is_brief_read && reads_briefly {
                match self.read_briefly(index, request, &view) {
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
                let step = self.execute_measured(index, request, &view);
                if alone {
                    self.end_run(|index| batch.view(index, input));
                }
                reads_briefly = self.reads_briefly();
                (step, self.is_turn_used_up(alone))
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

    /// Whether the turn ends with the command that has just run, which was timed alone or not: others come first now.
    #[inline]
    fn is_turn_used_up(&self, alone: bool) -> bool {
        self.reply.len() > TURN_REPLY_BYTES_MAX
            || self.session.rest.is_some()
            || alone && self.worker.run.fills_turn(TURN_US_MAX * 1000)
    }

    /// Executes a request for which [`Request::is_brief_read`] and [`Client::reads_briefly`] hold.
    #[inline]
    fn read_briefly(&mut self, index: usize, request: &Request, view: &ArgumentView<'_>) -> Step {
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
        view: &ArgumentView<'_>,
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
        self.session.count_attempt(place);
        let ticket = Ticket { worker: self.worker.index, session: self.session.id() };
        let shared = self.shared;
        let is_parked = match place {
            Place::Slot(slot) => {
                shared.parking.park(place, ticket, || shared.keyspace.word(slot).announce_waiting())
            }
            Place::Token => shared.parking.park(place, ticket, || shared.token.announce_waiting()),
            Place::Gate => {
                let retry_us = shared.clock.monotonic_us() + GATE_RETRY_US;
                return Next::WakeUp(WakeUp::At(retry_us));
            }
            Place::Pause => return Next::WakeUp(WakeUp::PauseEnd),
            Place::Memory => return Next::WakeUp(WakeUp::Memory),
        };
        if is_parked {
            self.worker.stats(shared).parked.add(1);
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
        args: &ArgumentView<'_>,
        key: Option<(usize, KeyHash)>,
    ) -> Step {
        let shared = self.shared;
        let is_held_back = shared.may_hold_back() && self.is_held_back(command);
        if is_held_back || self.session.lock_attempts > 0 {
            // Relaxed: for others' information only.
            self.session.client.is_postponed.store(is_held_back, Ordering::Relaxed);
        }
        if is_held_back {
            return Step::Wait(Place::Pause);
        }
        if self.must_reclaim_first(command) {
            return Step::Wait(Place::Memory);
        }
        let before = self.reply.len();
        if command.name == "exec" && self.session.transaction.is_some() {
            return self.exec(id, command, args);
        }
        let result = match command.handler {
            Handler::Keyed(handler) => keyed::run(self, (command, handler), args, key),
            Handler::Session(handler) | Handler::Whole(handler) => {
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
                    locks: None,
                };
                handler(&mut cx)
            }
            Handler::Container => Err(admit::container_error(command, args).into()),
        };
        let step = self.settle(id, result);
        if self.session.rest.is_some() {
            self.note_begun(id, command, args, self.reply.len() - before);
        } else if matches!(step, Step::Blocked) {
            // It counts when its wait is over: `note_unblocked`.
            self.show(command, args);
        } else if !matches!(step, Step::Wait(_)) {
            self.note_ran(id, command, args);
        }
        step
    }

    /// Whether a command has to wait until a pause is over: `EXEC` when one of its commands has to.
    #[cold]
    fn is_held_back(&self, command: &Command) -> bool {
        let queued = match &self.session.transaction {
            Some(transaction) if command.name == "exec" => transaction.queued.as_slice(),
            _ => &[],
        };
        let queued = queued.iter().map(|queued| self.shared.commands.command(queued.id).flags);
        self.shared.holds_back(queued.fold(command.flags, Flags::union))
    }

    /// Whether a command that retires memory has to wait until the worker has freed some: before its first lock, when
    /// it holds no reference that a grace period would wait for.
    #[inline]
    fn must_reclaim_first(&self, command: &Command) -> bool {
        let retires = command.flags.contains(Flags::WRITE) || command.name == "exec";
        retires && self.worker.must_reclaim()
    }

    #[inline]
    fn settle(&mut self, id: CommandId, outcome: Outcome) -> Step {
        match outcome {
            Ok(()) => Step::Done,
            Err(stop) => self.settle_stop(id, *stop),
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
            Stop::NeedLocks | Stop::Disturbed | Stop::Block(_) => {
                unreachable!("resolved by the keyed runner")
            }
        }
    }

    /// Runs `EXEC`. Its commands count for themselves, and the time of all for `EXEC` too.
    fn exec(&mut self, id: CommandId, command: &'static Command, args: &ArgumentView<'_>) -> Step {
        let step = transaction::exec(self, id);
        if matches!(step, Step::Done) {
            self.session.show_transaction();
            self.note_ran(id, command, args);
        }
        step
    }
}
