//! One client's connection: its socket, its half-read request, its unsent replies.

use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering;

use rustix::event::epoll::EventFlags;
use tidemill_engine::session::Session;
use tidemill_resp::encode::{Protocol, ReplyBuffer};
use tidemill_resp::request::RequestParser;

use crate::backlog::SoftLimit;
use crate::input::Input;

/// What the event loop must do for a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Read requests.
    Open,
    /// Its last request waits for something: keep what arrives, execute nothing.
    Waiting,
    /// Its replies pile up: keep what arrives, execute nothing until it has taken some.
    Held,
    /// Send what is left, then close.
    Closing,
}

/// How long nothing has gone either way. Only `timeout` asks, ten times a second, so it is found by comparing counts of
/// bytes instead of being noted with each of them.
#[derive(Debug)]
pub(crate) struct Idleness {
    bytes: u64,
    /// Monotonic.
    since_ms: u64,
}

impl Idleness {
    pub(crate) fn new(now_ms: u64) -> Idleness {
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
    pub(crate) socket: OwnedFd,
    pub(crate) session: Session,
    pub(crate) parser: RequestParser,
    /// Bytes read and not executed yet. No memory while idle.
    pub(crate) input: Input,
    /// Replies that the socket did not take yet. No memory while idle.
    pub(crate) output: ReplyBuffer,
    pub(crate) soft_limit: SoftLimit,
    /// Microseconds its worker spent on it in the tick that is measured; see [`crate::balance`].
    pub(crate) work: u64,
    pub(crate) mode: Mode,
    pub(crate) idleness: Idleness,
    /// The events that the kernel was asked for last.
    pub(crate) interest: EventFlags,
    /// Whether it stands in the worker's queue of connections to go on with.
    pub(crate) is_queued: bool,
    /// Whether it sits out while others have their share, and is neither read nor executed for; see [`crate::fairness`].
    pub(crate) is_resting: bool,
    /// The round of [`crate::fairness`] in which it had its last turn.
    pub(crate) round: u64,
    /// The client sends nothing more: the end of its stream was read. See `worker::ending`.
    pub(crate) is_input_over: bool,
    /// The client takes nothing more: sending to it has failed. Replies are dropped.
    pub(crate) is_output_over: bool,
}

impl Connection {
    /// What the client speaks.
    pub(crate) fn protocol(&self) -> Protocol {
        self.output.protocol()
    }

    /// Open, with nothing left to execute: what it sends next begins a request, and may be of any size.
    pub(crate) fn expects_request(&self) -> bool {
        self.mode == Mode::Open
            && self.input.is_empty()
            && !self.is_queued
            && !self.is_resting
            && self.session.is_authenticated
    }

    /// Whether a turn could do something for it: requests are there, or the rest of a reply is.
    pub(crate) fn has_work(&self) -> bool {
        !self.input.is_empty() || self.session.has_rest()
    }

    /// Whether its last request waits for what the end of the client ends too: for another client's write in a blocking
    /// command, or for the end of `CLIENT PAUSE`. One that waits for a lock does not: it runs, whoever is there to hear of it.
    pub(crate) fn waits_for_others(&self) -> bool {
        // Relaxed: written by this thread.
        let is_postponed = || self.session.client.is_postponed.load(Ordering::Relaxed);
        self.mode == Mode::Waiting && (self.session.is_blocked() || is_postponed())
    }

    /// When its input is over and nothing of it is left to be executed: it is to be closed once its replies are sent.
    pub(crate) fn close_if_run_out(&mut self) {
        let may_go_on = self.is_queued || self.is_resting && self.has_work();
        if self.is_input_over && self.mode == Mode::Open && !may_go_on {
            self.mode = Mode::Closing;
            // Half a request at most.
            self.input = Input::default();
        }
    }

    /// Whether another worker may have it.
    pub(crate) fn is_movable(&self) -> bool {
        let is_ending = self.is_input_over || self.is_output_over;
        self.mode == Mode::Open && !is_ending && self.session.is_movable()
    }

    /// Open, with nothing left to send and nothing to be asked of the kernel or noted: how most turns end.
    pub(crate) fn is_at_ease(&self) -> bool {
        self.mode == Mode::Open
            && !self.is_resting
            && self.output.is_empty()
            && self.interest == EventFlags::IN
            && self.soft_limit == SoftLimit::default()
    }

    /// Whether `timeout` ends the client: nothing has gone either way for longer, and it does not wait for the server. To be
    /// asked at each tick, at a monotonic time.
    pub(crate) fn has_idled(&mut self, timeout_ms: u64, now_ms: u64) -> bool {
        let client = &self.session.client;
        let idle_ms =
            self.idleness.at(now_ms, client.input_bytes.value() + client.output_bytes.value());
        idle_ms > timeout_ms && self.mode != Mode::Waiting && !self.session.is_monitor
    }

    /// Memory that the client takes, unsent payloads in full.
    pub(crate) fn memory_bytes(&self) -> u64 {
        let output = self.output.len().max(self.output.allocated_bytes());
        let input = self.input.allocated_bytes() + self.parser.allocated_bytes();
        let buffers = input + output + self.session.queued_bytes();
        (size_of::<Connection>() + buffers) as u64 + self.session.client.registered_bytes()
    }

    /// The client as the log names it: what identifies it and what it has piled up, but nothing it chose itself.
    pub(crate) fn describe(&self, now_ms: u64) -> String {
        let client = &self.session.client;
        // Relaxed: written by this thread.
        let last_ms = client.last_command_ms.load(Ordering::Relaxed);
        format!(
            "id={} addr={} laddr={} fd={} name=*redacted* age={} idle={} db={} qbuf={} multi-mem={} omem={} \
             user=*redacted*",
            client.id,
            client.address,
            client.local_address,
            client.descriptor,
            now_ms.saturating_sub(client.connected_ms) / 1000,
            now_ms.saturating_sub(last_ms) / 1000,
            self.session.database,
            self.input.len(),
            self.session.queued_bytes(),
            self.output.len(),
        )
    }

    /// Lets others see how much the client has sent that is not executed yet, and what that takes.
    pub(crate) fn publish_pending(&self) {
        let client = &self.session.client;
        // Relaxed, here and below: for others' information only, and written by this thread alone. Mostly nothing is left
        // and nothing was.
        if client.pending_bytes.load(Ordering::Relaxed) != 0 || !self.input.is_empty() {
            self.publish_memory();
        }
    }

    /// As [`publish_pending`](Self::publish_pending), when something is left or has changed.
    #[cold]
    pub(crate) fn publish_memory(&self) {
        let client = &self.session.client;
        for (shown, bytes) in [
            (&client.pending_bytes, self.input.len()),
            (&client.pending_memory_bytes, self.input.allocated_bytes()),
            (&client.parsed_memory_bytes, self.parser.allocated_bytes()),
        ] {
            shown.store(bytes as u64, Ordering::Relaxed);
        }
    }

    /// Lets others see how much of its replies is unsent: what the buffer takes, or payloads by reference.
    pub(crate) fn publish_unsent(&self) {
        let bytes = self.output.len().max(self.output.allocated_bytes()) as u64;
        // Relaxed: as above.
        self.session.client.unsent_bytes.store(bytes, Ordering::Relaxed);
    }
}
