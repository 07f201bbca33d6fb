//! A server of ours and a real Valkey, which are asked the same.

use std::io::Write;
use std::os::unix::net::UnixStream;

use tidemill_resp::reply::{ReplyParser, ReplyProgress, Value};
use tidemill_resp::request::encode;

use super::Server;
use super::valkey::{Valkey, receive};

/// A connection to each.
pub struct Beside {
    ours: Server,
    connection: u64,
    theirs: UnixStream,
    _valkey: Valkey,
}

impl Beside {
    /// Both servers, empty; none when Valkey is not installed.
    pub fn start(name: &str) -> Option<Beside> {
        let valkey = Valkey::start(name)?;
        let theirs = valkey.connect();
        let mut ours = Server::new(1, 1_000_000);
        let connection = ours.connect(0);
        Some(Beside { ours, connection, theirs, _valkey: valkey })
    }

    /// Sends a command to both, and returns what ours and Valkey answer.
    pub fn ask(&mut self, words: &[&[u8]]) -> (Value, Value) {
        let ours = parsed(&self.ours.call_for_bytes(self.connection, words));
        self.theirs.write_all(&encode(words)).expect("the server reads");
        (ours, receive(&mut self.theirs))
    }

    /// Sends a command, given as words between blanks, to both, and asserts that they answer the
    /// same; returns it.
    pub fn check(&mut self, command: &str) -> Value {
        let words: Vec<&[u8]> = command.split(' ').map(str::as_bytes).collect();
        let (ours, theirs) = self.ask(&words);
        assert_eq!(ours, theirs, "{command:.300}");
        ours
    }
}

/// A whole reply.
pub fn parsed(reply: &[u8]) -> Value {
    match ReplyParser::new().parse(reply).expect("RESP") {
        ReplyProgress::Complete { value, .. } => value,
        ReplyProgress::Incomplete { .. } => panic!("no whole reply: {reply:?}"),
    }
}
