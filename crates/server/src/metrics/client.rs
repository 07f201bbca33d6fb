//! A connection to the metrics port: one request after the other, each within its time.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Instant;

use rustix::event::PollFlags;

use super::http::{self, Parsed, Request};
use crate::limits::{METRICS_ANSWER, METRICS_IDLE, METRICS_REQUEST, METRICS_REQUEST_BYTES_MAX};

/// Bytes read at a time.
const CHUNK_BYTES: usize = 4096;

/// A connection, which never blocks.
#[derive(Debug)]
pub(super) struct Client {
    stream: TcpStream,
    input: Vec<u8>,
    output: Vec<u8>,
    /// Bytes of `output` that were sent.
    sent: usize,
    /// Since when it waits for a request, or takes its answer.
    since: Instant,
    deadline: Instant,
    /// True if input has arrived since the last look, or an answer has ended since.
    may_ask: bool,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Open,
    /// The client sends no more; what arrived is answered.
    HalfClosed,
    /// Input is ignored. Closing at once would reset the connection, and the answer might be lost.
    Ending,
    Over,
}

impl Client {
    /// A connection that was just accepted: its request is on its way.
    pub(super) fn new(stream: TcpStream, now: Instant) -> io::Result<Client> {
        stream.set_nonblocking(true)?;
        let (input, output) = (Vec::new(), Vec::new());
        let deadline = now + METRICS_REQUEST;
        let (may_ask, state) = (false, State::Open);
        Ok(Client { stream, input, output, sent: 0, since: now, deadline, may_ask, state })
    }

    pub(super) fn stream(&self) -> &TcpStream {
        &self.stream
    }

    pub(super) fn deadline(&self) -> Instant {
        self.deadline
    }

    /// True if there may be a request that the poll does not report.
    pub(super) fn may_ask(&self) -> bool {
        self.may_ask && !self.is_answering()
    }

    pub(super) fn is_over(&self) -> bool {
        self.state == State::Over
    }

    /// Events to wait for. A client that receives its answer, or whose input may have a request, is
    /// not read: pipelined requests wait.
    pub(super) fn interest(&self) -> PollFlags {
        match () {
            () if self.is_answering() => PollFlags::OUT,
            () if self.may_ask => PollFlags::empty(),
            () => PollFlags::IN,
        }
    }

    fn is_answering(&self) -> bool {
        self.sent < self.output.len()
    }

    /// Order in which clients are closed for a new one: waiting clients before answered ones, the
    /// longest first.
    pub(super) fn rank(&self) -> (bool, Instant) {
        (self.is_answering(), self.since)
    }

    /// Reads or writes once; the poll said that it can.
    pub(super) fn progress(&mut self, now: Instant) {
        if self.is_answering() {
            self.send(now);
        } else if !self.may_ask {
            self.receive(now);
        }
    }

    fn receive(&mut self, now: Instant) {
        let mut chunk = [0; CHUNK_BYTES];
        match self.stream.read(&mut chunk) {
            Ok(0) if self.state == State::Open && !self.input.is_empty() => {
                (self.state, self.may_ask) = (State::HalfClosed, true);
            }
            Ok(0) => self.state = State::Over,
            Ok(_) if self.state == State::Ending => {}
            Ok(count) => {
                if self.input.is_empty() {
                    self.deadline = now + METRICS_REQUEST;
                }
                self.input.extend_from_slice(&chunk[..count]);
                self.may_ask = true;
            }
            Err(error) if is_temporary(&error) => {}
            Err(_) => self.state = State::Over,
        }
    }

    /// Takes the next request, if one is whole and the last one was answered.
    pub(super) fn request(&mut self) -> Option<Parsed> {
        if self.is_answering() || !std::mem::take(&mut self.may_ask) {
            return None;
        }
        let parsed = http::parse(&self.input);
        match parsed {
            Some(parsed) => drop(self.input.drain(..parsed.bytes)),
            // The rest will never come.
            None if self.state == State::HalfClosed => self.state = State::Over,
            None => {}
        }
        parsed
    }

    /// Begins to send the answer to a request.
    pub(super) fn answer(&mut self, parsed: Parsed, body: &str, now: Instant) {
        if !parsed.keeps_alive {
            self.state = State::Ending;
            self.input = Vec::new();
        }
        self.output = http::answer(parsed, body);
        self.sent = 0;
        (self.since, self.deadline) = (now, now + METRICS_ANSWER);
        self.send(now);
    }

    fn send(&mut self, now: Instant) {
        match self.stream.write(&self.output[self.sent..]) {
            Ok(count) => self.sent += count,
            Err(error) if is_temporary(&error) => {}
            Err(_) => self.state = State::Over,
        }
        if self.is_answering() || self.is_over() {
            return;
        }
        (self.output, self.sent, self.since) = (Vec::new(), 0, now);
        if self.state == State::Ending {
            // It has gone already where this fails.
            let _ = self.stream.shutdown(Shutdown::Write);
            self.deadline = now + METRICS_REQUEST;
        } else {
            self.may_ask = !self.input.is_empty();
            let patience = if self.may_ask { METRICS_REQUEST } else { METRICS_IDLE };
            self.deadline = now + patience;
        }
    }

    /// Ends a client whose time is over. One that has sent a part of a request is answered.
    pub(super) fn expire(&mut self, now: Instant) {
        if now < self.deadline || self.is_over() {
            return;
        }
        let is_late = self.state == State::Open && !self.is_answering() && !self.input.is_empty();
        if is_late {
            self.answer(Parsed::last(Request::Late), "", now);
        } else {
            self.state = State::Over;
        }
    }
}

fn is_temporary(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}

const _: () = assert!(CHUNK_BYTES <= METRICS_REQUEST_BYTES_MAX, "input is parsed after each");

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn pipelined_requests_wait_in_the_system() {
        const REQUEST: &[u8] = b"GET / HTTP/1.1\r\n\r\n";
        const COUNT: usize = 20_000;
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port of loopback");
        let mut asking =
            TcpStream::connect(listener.local_addr().expect("it is bound")).expect("it listens");
        let now = Instant::now();
        let mut client = Client::new(listener.accept().expect("one asks").0, now).expect("set up");
        let sender = asking.try_clone().expect("a second handle");
        let sender = std::thread::spawn(move || (&sender).write_all(&REQUEST.repeat(COUNT)));
        let mut answers = [0; 1 << 16];
        for _ in 0..COUNT {
            let parsed = loop {
                client.progress(now);
                if let Some(parsed) = client.request() {
                    break parsed;
                }
            };
            assert_eq!(parsed.request, Request::UnknownPath);
            client.answer(parsed, "", now);
            assert!(client.input.len() <= METRICS_REQUEST_BYTES_MAX, "{}", client.input.len());
            assert!(asking.read(&mut answers).is_ok_and(|count| count > 0));
        }
        sender.join().expect("no panic").expect("all was taken");
    }
}
