//! A real Valkey as a child process, to compare with: `make setup` puts it into build/tools/bin.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tidemill_resp::reply::{ReplyParser, ReplyProgress, Value};
use tidemill_resp::request::encode;

/// A server of our own, ended with the value.
pub struct Valkey {
    process: Child,
    directory: PathBuf,
}

impl Valkey {
    /// A server in a directory of this name; none when it is not installed.
    pub fn start(name: &str) -> Option<Valkey> {
        let binary =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("../../build/tools/bin/valkey-server");
        if !binary.exists() {
            eprintln!("skipped: no {}; run `make setup`", binary.display());
            return None;
        }
        let directory =
            std::env::temp_dir().join(format!("tidemill-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&directory).expect("a directory of our own");
        let process = Command::new(binary)
            .args(["--port", "0", "--unixsocket", "socket"])
            .stdout(Stdio::null())
            .current_dir(&directory)
            .spawn()
            .expect("valkey-server starts");
        Some(Valkey { process, directory })
    }

    /// A connection.
    pub fn connect(&self) -> UnixStream {
        let deadline = Instant::now() + Duration::from_secs(20);
        loop {
            match UnixStream::connect(self.directory.join("socket")) {
                Ok(stream) => return stream,
                Err(error) if Instant::now() > deadline => panic!("no answer: {error}"),
                Err(_) => std::thread::sleep(Duration::from_millis(20)),
            }
        }
    }
}

impl Drop for Valkey {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

/// Sends a command and returns its reply.
pub fn ask(stream: &mut UnixStream, words: &[&str]) -> Value {
    let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
    stream.write_all(&encode(&words)).expect("the server reads");
    receive(stream)
}

/// Waits for a reply.
pub fn receive(stream: &mut UnixStream) -> Value {
    let (mut parser, mut buffer) = (ReplyParser::new(), Vec::new());
    loop {
        match parser.parse(&buffer).expect("the server speaks RESP") {
            ReplyProgress::Complete { value, .. } => return value,
            ReplyProgress::Incomplete { consumed, .. } => drop(buffer.drain(..consumed)),
        }
        let mut chunk = [0; 16 * 1024];
        let count = stream.read(&mut chunk).expect("the server answers");
        assert!(count > 0, "the server closed the connection");
        buffer.extend_from_slice(&chunk[..count]);
    }
}
