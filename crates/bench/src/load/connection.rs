//! One load connection: its socket, its requests on their way, and its random numbers.

use std::collections::VecDeque;
use std::io;

use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags};

use crate::limits::VECTORED_SLICES;
use crate::load::command::{Output, Template, Unsent};
use crate::load::control::Stream;
use crate::load::keys::{KeySource, Random};
use crate::load::scan::Scanner;
use crate::load::settings::Endpoint;
use crate::load::tls::TlsStream;
use crate::load::values::Slab;

/// A request whose reply has not arrived.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pending {
    pub sent_ns: u64,
    pub kind: u32,
    /// The reply is compared with what belongs to the front of `checks`.
    pub checked: bool,
}

/// The place of a connection in the mix of commands.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct MixPosition {
    pub kind: usize,
    pub repeated: u32,
}

/// Result of sending on a socket.
pub(super) enum Sent {
    Everything,
    Blocked,
    Lost(io::Error),
}

pub(super) struct Connection {
    pub stream: Stream,
    pub pending: VecDeque<Pending>,
    /// Intended starts of the pending requests, then of those that wait for room (open loop only).
    pub intended: VecDeque<u64>,
    /// Keys whose values sampled replies must have.
    pub checks: VecDeque<u64>,
    pub output: Output,
    /// Bytes of a reply line that is not complete.
    pub kept: Vec<u8>,
    pub scanner: Scanner,
    pub keys: Vec<KeySource>,
    pub random: Random,
    pub mix: MixPosition,
    pub issued: u64,
    pub completed: u64,
    /// Requests since this socket was connected.
    pub issued_on_socket: u64,
    pub waits_for_room: bool,
    /// Endpoint that the socket leads to.
    pub endpoint: Endpoint,
    /// Requests to send while measuring.
    pub limit: u64,
    /// Attempts to reconnect in a row that failed.
    pub attempts: u32,
    pub cursor: Vec<u8>,
    /// SCAN calls since the cursor was 0.
    pub continuations: u32,
}

impl Connection {
    pub fn new(stream: Stream, keys: Vec<KeySource>, random: Random, mix: MixPosition) -> Self {
        Self {
            stream,
            pending: VecDeque::new(),
            intended: VecDeque::new(),
            checks: VecDeque::new(),
            output: Output::default(),
            kept: Vec::new(),
            scanner: Scanner::default(),
            keys,
            random,
            mix,
            issued: 0,
            completed: 0,
            issued_on_socket: 0,
            waits_for_room: false,
            endpoint: Endpoint::Tcp(String::new(), 0),
            limit: u64::MAX,
            attempts: 0,
            cursor: b"0".to_vec(),
            continuations: 0,
        }
    }

    /// Goes on over another socket. What was on its way over the old one is lost; scheduled
    /// requests that were not sent are kept.
    pub fn replace_stream(&mut self, stream: Stream) {
        self.stream = stream;
        self.forget_pending();
        self.output = Output::default();
        self.kept.clear();
        self.scanner = Scanner::default();
        self.issued_on_socket = 0;
        self.waits_for_room = false;
        self.attempts = 0;
    }

    /// Drops the requests that will get no reply.
    pub fn forget_pending(&mut self) {
        let pending = self.pending.len().min(self.intended.len());
        self.intended.drain(..pending);
        self.pending.clear();
        self.checks.clear();
    }

    /// The command that is due.
    #[inline]
    pub fn next_kind(&mut self, templates: &[Template]) -> usize {
        let kind = self.mix.kind;
        self.mix.repeated += 1;
        if self.mix.repeated >= templates[kind].command().ratio {
            let behind = |kind: usize| if kind + 1 < templates.len() { kind + 1 } else { 0 };
            let mut next = behind(kind);
            while templates[next].command().ratio == 0 && next != kind {
                next = behind(next);
            }
            self.mix = MixPosition { kind: next, repeated: 0 };
        }
        kind
    }

    /// True if another `receive` would find bytes although the socket is not readable.
    #[inline]
    pub fn holds_plaintext(&self) -> bool {
        matches!(&self.stream, Stream::Tls(stream) if stream.holds_plaintext())
    }

    /// Receives once into the buffer; `None` when nothing is there.
    #[inline]
    pub fn receive(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        if let Stream::Tls(stream) = &mut self.stream {
            return match stream.receive(buffer) {
                Ok(count) => Ok(Some(count)),
                Err(error) if may_come_back(&error) => Ok(None),
                Err(error) => Err(error),
            };
        }
        match rustix::net::recv(&self.stream, buffer, RecvFlags::empty()) {
            Ok((count, _)) => Ok(Some(count)),
            Err(Errno::AGAIN | Errno::INTR) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Sends the waiting bytes that the socket takes.
    #[inline]
    pub fn flush(&mut self, slab: &Slab) -> Sent {
        if let Stream::Tls(stream) = &mut self.stream {
            return match flush_tls(stream, &mut self.output, slab) {
                Ok(()) => Sent::Everything,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => Sent::Blocked,
                Err(error) => Sent::Lost(error),
            };
        }
        while !self.output.is_empty() {
            let sent = match self.output.unsent(slab, VECTORED_SLICES) {
                Unsent::One(bytes) => rustix::net::send(&self.stream, bytes, SendFlags::NOSIGNAL),
                Unsent::Many(slices) => {
                    let slices: Vec<_> =
                        slices.iter().map(|slice| io::IoSlice::new(slice)).collect();
                    rustix::io::writev(&self.stream, &slices)
                }
            };
            match sent {
                Ok(count) => self.output.advance(count),
                Err(Errno::AGAIN) => return Sent::Blocked,
                Err(Errno::INTR) => {}
                Err(error) => return Sent::Lost(error.into()),
            }
        }
        Sent::Everything
    }
}

fn may_come_back(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

/// Encrypts what waits, a round at a time so that little is held twice, and sends it.
fn flush_tls(stream: &mut TlsStream, output: &mut Output, slab: &Slab) -> io::Result<()> {
    loop {
        stream.flush_socket()?;
        if output.is_empty() {
            return Ok(());
        }
        let encrypted = match output.unsent(slab, VECTORED_SLICES) {
            Unsent::One(bytes) => stream.encrypt(bytes)?,
            Unsent::Many(slices) => {
                slices.iter().map(|slice| stream.encrypt(slice)).sum::<io::Result<usize>>()?
            }
        };
        output.advance(encrypted);
    }
}
