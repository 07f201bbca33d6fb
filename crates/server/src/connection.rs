//! One client's connection: its socket, its half-read request, its unsent replies.

use std::sync::atomic::Ordering;

use rustix::event::epoll::EventFlags;
use tidemill_engine::shared::clients::CLIENT_BYTES;
use tidemill_engine::worker::session::Session;
use tidemill_resp::encode::{Protocol, ReplyBuffer};
use tidemill_resp::request::RequestParser;

use crate::backlog::SoftLimit;
use crate::connection_state::ConnectionState;
use crate::held_replies::HeldReplies;
use crate::input::Input;
use crate::transport::Transport;

/// Time without traffic either way. Only `timeout` asks, ten times a second, so it is found by
/// comparing counts of bytes instead of being noted with each of them.
#[derive(Debug)]
struct Idleness {
    bytes: u64,
    /// Monotonic time at which `bytes` was first seen.
    since_ms: u64,
}

impl Idleness {
    fn new(now_ms: u64) -> Idleness {
        Idleness { bytes: 0, since_ms: now_ms }
    }

    /// Milliseconds since `bytes`, of requests and replies so far, were first seen.
    fn at(&mut self, now_ms: u64, bytes: u64) -> u64 {
        if self.bytes != bytes {
            *self = Idleness { bytes, since_ms: now_ms };
        }
        now_ms.saturating_sub(self.since_ms)
    }
}

/// One connection.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) transport: Transport,
    pub(crate) session: Session,
    pub(crate) parser: RequestParser,
    /// Bytes read and not executed yet. No memory while idle.
    pub(crate) input: Input,
    /// Replies that the socket did not take yet. No memory while idle.
    pub(crate) output: ReplyBuffer,
    /// Replies that come behind `output`, and wait for the append-only file.
    pub(crate) held: HeldReplies,
    /// Pushes for the end of a reply that is made in pieces.
    pub(crate) postponed_pushes: Option<Box<ReplyBuffer>>,
    pub(crate) soft_limit: SoftLimit,
    /// Bytes of its buffers that its worker counts for `maxmemory`: those of the last tick.
    pub(crate) counted_bytes: u64,
    /// Microseconds its worker spent on it in the tick that is measured; see [`crate::balance`].
    pub(crate) work: u64,
    pub(crate) state: ConnectionState,
    idleness: Idleness,
    /// Events that the kernel was asked to report last.
    pub(crate) interest: EventFlags,
    /// Round of [`crate::fairness`] in which it had its last turn.
    pub(crate) round: u64,
}

impl Connection {
    /// A new connection, at a monotonic time.
    pub(crate) fn new(transport: Transport, session: Session, now_ms: u64) -> Connection {
        Connection {
            transport,
            session,
            parser: RequestParser::new(),
            input: Input::default(),
            output: ReplyBuffer::new(Protocol::Resp2),
            held: HeldReplies::default(),
            postponed_pushes: None,
            soft_limit: SoftLimit::default(),
            counted_bytes: 0,
            work: 0,
            state: ConnectionState::NEW,
            idleness: Idleness::new(now_ms),
            interest: EventFlags::IN,
            round: 0,
        }
    }

    /// Protocol that the client speaks.
    pub(crate) fn protocol(&self) -> Protocol {
        self.output.protocol()
    }

    /// True if it is open with nothing left to execute, unless it is in the run queue: its next
    /// bytes begin a request, of any size.
    #[inline]
    pub(crate) fn expects_request(&self) -> bool {
        self.state.is_open() && self.input.is_empty() && self.session.is_authenticated
    }

    /// True if it may be sent what is no reply: it is not about to be closed, and was not killed.
    pub(crate) fn may_be_pushed(&self) -> bool {
        !self.state.is_closing() && !self.session.client.is_killed()
    }

    /// Keeps pushes until its present reply is complete. They count as what is sent and not taken.
    pub(crate) fn postpone_pushes(&mut self, pushes: &mut ReplyBuffer) {
        self.postponed_pushes.get_or_insert_default().append(pushes);
    }

    /// Bytes of pushes that wait until its present reply is complete.
    fn postponed_bytes(&self) -> usize {
        self.postponed_pushes.as_ref().map_or(0, |pushes| pushes.len())
    }

    /// True if a turn could do something for it: there are requests or the rest of a reply.
    pub(crate) fn has_work(&self) -> bool {
        !self.input.is_empty()
            || self.session.has_pending_reply()
            || self.session.has_pending_script()
    }

    /// True if its last request waits for an event that the end of the client replaces: another
    /// client's write in a blocking command, or the end of `CLIENT PAUSE`. A request that waits for
    /// a lock does not count: it runs although the client has gone.
    pub(crate) fn waits_for_others(&self) -> bool {
        // Relaxed: written by this thread.
        let is_postponed = || self.session.client.is_postponed.load(Ordering::Relaxed);
        self.state.is_waiting() && (self.session.is_blocked() || is_postponed())
    }

    /// Begins to close when its input is over and nothing of it is left to execute: it is closed
    /// once its replies are sent. `is_queued` says that it is in the run queue.
    pub(crate) fn begin_closing_if_done(&mut self, is_queued: bool) {
        let may_go_on = is_queued || self.state.is_throttled() && self.has_work();
        if self.state.ends_when_done() && !may_go_on {
            self.begin_closing();
        }
    }

    /// Begins to close: nothing more of it is executed, and it is closed once its replies are sent.
    pub(crate) fn begin_closing(&mut self) {
        self.state.begin_closing();
        self.input = Input::default();
    }

    /// True if another worker may take it over.
    pub(crate) fn is_movable(&self) -> bool {
        self.state.is_movable() && self.session.is_movable() && self.held.is_empty()
    }

    /// Events that the kernel is to report.
    pub(crate) fn wanted_events(&self) -> EventFlags {
        let mut events = EventFlags::empty();
        events.set(EventFlags::IN, self.state.is_read());
        events.set(EventFlags::OUT, self.unsent_bytes() > 0);
        events
    }

    /// Number of bytes on their way to the client, encrypted or not.
    pub(crate) fn unsent_bytes(&self) -> usize {
        self.output.len() + self.transport.unsent_bytes()
    }

    /// As [`unsent_bytes`](Self::unsent_bytes), with the replies that wait.
    pub(crate) fn unsent_reply_bytes(&self) -> usize {
        self.unsent_bytes() + self.held.len()
    }

    /// All that the client has not taken: replies, and pushes that wait for the end of one.
    pub(crate) fn backlog_bytes(&self) -> usize {
        self.unsent_reply_bytes() + self.postponed_bytes()
    }

    /// Memory of the backlog, payloads by reference in full.
    fn unsent_memory_bytes(&self) -> usize {
        let output = self.output.len().max(self.output.allocated_bytes());
        output + self.transport.unsent_bytes() + self.held.len() + self.postponed_bytes()
    }

    /// True if it is open with no events to ask of the kernel and no limit being timed, after a
    /// send that took all: the state in which most turns end.
    pub(crate) fn is_idle_and_drained(&self) -> bool {
        self.state.is_open()
            && self.output.is_empty()
            && self.held.is_empty()
            && self.interest == EventFlags::IN
            && self.soft_limit == SoftLimit::default()
    }

    /// True if `timeout` ends the client: nothing was transferred either way for longer, and the
    /// client does not wait for the server or for its script. Called at each tick, with a
    /// monotonic time.
    pub(crate) fn has_idled(&mut self, timeout_ms: u64, now_ms: u64) -> bool {
        let client = &self.session.client;
        let idle_ms =
            self.idleness.at(now_ms, client.input_bytes.value() + client.output_bytes.value());
        idle_ms > timeout_ms
            && !self.state.is_waiting()
            && !self.session.has_pending_script()
            && !self.session.is_monitor
            && !self.session.is_subscriber
    }

    /// Memory that the client takes, unsent payloads in full: what `CLIENT LIST` shows of it.
    pub(crate) fn memory_bytes(&self) -> u64 {
        let output = self.output.len().max(self.output.allocated_bytes());
        let output = output + self.transport.memory_bytes() + self.held.len();
        let output = output + self.postponed_bytes();
        let input = self.input.allocated_bytes() + self.parser.allocated_bytes();
        let buffers = input + output + self.session.queued_bytes();
        CLIENT_BYTES + buffers as u64 + self.session.client.registered_bytes()
    }

    /// The client as the log names it: what identifies it and the size of its backlog, but nothing
    /// it chose itself.
    pub(crate) fn describe(&self, now_ms: u64) -> String {
        let client = &self.session.client;
        // Relaxed: written by this thread.
        let last_ms = client.last_command_ms.load(Ordering::Relaxed);
        format!(
            "id={} addr={} laddr={} fd={} name=*redacted* age={} idle={} db={} qbuf={} \
             multi-mem={} omem={} user=*redacted*",
            client.id,
            client.address,
            client.local_address,
            client.descriptor,
            now_ms.saturating_sub(client.connected_ms) / 1000,
            now_ms.saturating_sub(last_ms) / 1000,
            self.session.database,
            self.input.len(),
            self.session.queued_bytes(),
            self.backlog_bytes(),
        )
    }

    /// Publishes the number of bytes that the client has sent and that are not executed yet, and
    /// their memory.
    pub(crate) fn publish_pending(&self) {
        let client = &self.session.client;
        // Relaxed, here and below: for others' information only, and written by this thread alone.
        // Mostly nothing is left and nothing was.
        if client.pending_bytes.load(Ordering::Relaxed) != 0 || !self.input.is_empty() {
            self.publish_memory();
        }
    }

    /// As [`publish_pending`](Self::publish_pending), when something is left or has changed.
    #[cold]
    pub(crate) fn publish_memory(&self) {
        let client = &self.session.client;
        // The head of a large argument is parsed: as in Valkey it counts among the arguments.
        let head_bytes = self.input.head_bytes();
        for (shown, bytes) in [
            (&client.pending_bytes, self.input.len() - head_bytes),
            (&client.pending_memory_bytes, self.input.allocated_bytes() - head_bytes),
            (&client.parsed_memory_bytes, self.parser.allocated_bytes() + head_bytes),
        ] {
            shown.store(bytes as u64, Ordering::Relaxed);
        }
    }

    /// Publishes all that its memory is made of, for those who compare it with others'.
    pub(crate) fn publish_sizes(&self) {
        self.publish_memory();
        self.publish_unsent();
        let transport_bytes = self.transport.memory_bytes() - self.transport.unsent_bytes();
        // Relaxed: as above.
        self.session.client.transport_bytes.store(transport_bytes as u64, Ordering::Relaxed);
    }

    /// Publishes the size of its unsent replies: memory of the buffer, or payloads by reference.
    pub(crate) fn publish_unsent(&self) {
        let client = &self.session.client;
        let bytes = self.unsent_memory_bytes() as u64;
        let parts = u32::try_from(self.output.part_count()).unwrap_or(u32::MAX);
        // Relaxed, both: as above.
        client.unsent_bytes.store(bytes, Ordering::Relaxed);
        client.unsent_parts.store(parts, Ordering::Relaxed);
    }
}
