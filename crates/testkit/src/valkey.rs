//! A real Valkey as a child process, to compare with: `make setup` puts it into build/tools/bin.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;
use tidemill_resp::reply::{ReplyParser, ReplyProgress, Value};
use tidemill_resp::request::encode_into;

/// Time that Valkey may take to listen; far more than it takes on a busy machine.
const START_MAX: Duration = Duration::from_secs(30);
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// Server behind a socket in a directory of its own; killed and waited for when dropped.
#[derive(Debug)]
pub struct Valkey {
    process: Child,
    directory: TempDir,
}

impl Valkey {
    /// Starts a server with these options beside its socket. `None`, with a note on the standard
    /// error, where Valkey is not installed.
    ///
    /// # Panics
    ///
    /// If it cannot be started.
    #[must_use]
    pub fn start(options: &[&str]) -> Option<Self> {
        let binary =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("../../build/tools/bin/valkey-server");
        if !binary.exists() {
            eprintln!("skipped: no {}; run `make setup`", binary.display());
            return None;
        }
        let directory = tempfile::tempdir().expect("a directory of its own");
        let process = Command::new(binary)
            .args(["--port", "0", "--unixsocket", "socket"])
            .args(options)
            .stdout(Stdio::null())
            .current_dir(&directory)
            .spawn()
            .expect("valkey-server starts");
        Some(Self { process, directory })
    }

    /// Connects; blocks until the server listens.
    ///
    /// # Panics
    ///
    /// If it does not within half a minute.
    #[must_use]
    pub fn connect(&self) -> Connection {
        Connection { stream: self.connect_raw(), received: Vec::new() }
    }

    /// Socket of a new connection, for what is not RESP; blocks and panics as `connect`.
    #[must_use]
    pub fn connect_raw(&self) -> UnixStream {
        let start = Instant::now();
        loop {
            match UnixStream::connect(self.directory.path().join("socket")) {
                Ok(stream) => return stream,
                Err(error) => assert!(start.elapsed() < START_MAX, "no answer: {error}"),
            }
            thread::sleep(POLL_INTERVAL);
        }
    }
}

impl Drop for Valkey {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Connection to a server; closed when dropped. It panics when the server closes it, or does not
/// speak RESP.
#[derive(Debug)]
pub struct Connection {
    stream: UnixStream,
    received: Vec<u8>,
}

impl Connection {
    /// Sends a command and waits for its reply.
    pub fn ask(&mut self, words: &[impl AsRef<[u8]>]) -> Value {
        self.ask_all(std::slice::from_ref(&words)).pop().expect("a reply for each command")
    }

    /// Sends all commands at once and waits for a reply to each.
    pub fn ask_all<W: AsRef<[u8]>>(&mut self, commands: &[impl AsRef<[W]>]) -> Vec<Value> {
        let mut requests = Vec::new();
        for words in commands {
            let words: Vec<&[u8]> = words.as_ref().iter().map(AsRef::as_ref).collect();
            encode_into(&words, &mut requests);
        }
        self.stream.write_all(&requests).expect("Valkey reads");
        commands.iter().map(|_| self.receive()).collect()
    }

    /// Waits for a reply, or a push.
    pub fn receive(&mut self) -> Value {
        let mut parser = ReplyParser::new();
        loop {
            let (value, consumed) = match parser.parse(&self.received).expect("Valkey speaks RESP")
            {
                ReplyProgress::Complete { value, consumed } => (Some(value), consumed),
                ReplyProgress::Incomplete { consumed, .. } => (None, consumed),
            };
            self.received.drain(..consumed);
            if let Some(value) = value {
                return value;
            }
            let mut chunk = [0; 64 * 1024];
            let count = self.stream.read(&mut chunk).expect("Valkey answers");
            assert!(count > 0, "Valkey closed the connection");
            self.received.extend_from_slice(&chunk[..count]);
        }
    }
}
