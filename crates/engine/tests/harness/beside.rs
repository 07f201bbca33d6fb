//! A server of ours and a real Valkey, which are asked the same.

use tidemill_resp::reply::{ReplyParser, ReplyProgress, Value};
use tidemill_testkit::valkey::{Connection, Valkey};

use super::Server;

/// A connection to each.
pub struct Beside {
    ours: Server,
    connection: u64,
    theirs: Connection,
    _valkey: Valkey,
}

impl Beside {
    /// Both servers, empty, ours with one worker; none when Valkey is not installed.
    pub fn start() -> Option<Beside> {
        Self::with(Server::new(1, 1_000_000), 0)
    }

    /// This server of ours, with the connection on one of its workers.
    pub fn with(mut ours: Server, worker: usize) -> Option<Beside> {
        let valkey = Valkey::start(&[])?;
        let connection = ours.connect(worker);
        Some(Beside { ours, connection, theirs: valkey.connect(), _valkey: valkey })
    }

    /// Sends a command to ours.
    pub fn ours(&mut self, words: &[impl AsRef<[u8]>]) -> Value {
        let words: Vec<&[u8]> = words.iter().map(AsRef::as_ref).collect();
        parsed(&self.ours.call_for_bytes(self.connection, &words))
    }

    /// Sends a command to Valkey.
    pub fn theirs(&mut self, words: &[impl AsRef<[u8]>]) -> Value {
        self.theirs.ask(words)
    }

    /// Sends a command to both, and returns what ours and Valkey answer.
    pub fn ask(&mut self, words: &[impl AsRef<[u8]>]) -> (Value, Value) {
        (self.ours(words), self.theirs(words))
    }

    /// Sends a command, given as words between blanks, to both, and asserts that they answer the
    /// same; returns it.
    pub fn check(&mut self, command: &str) -> Value {
        self.check_words(&command.split(' ').collect::<Vec<_>>())
    }

    /// The same with words that may hold blanks.
    pub fn check_words(&mut self, words: &[&str]) -> Value {
        let (ours, theirs) = self.ask(words);
        assert_eq!(ours, theirs, "{:.300}", words.join(" "));
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
