//! Helpers that the tests of the binary share. Every test crate uses its part.

#![allow(dead_code, clippy::unwrap_used)] // A helper that fails fails its test.

use std::path::Path;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use tidemill_testkit::server::Server;

/// Longer than a busy machine takes for anything here.
pub const LONG: Duration = Duration::from_secs(120);

/// The binary with these arguments.
pub fn tidemill(words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidemill"));
    command.args(words);
    command
}

/// The load generator's server that does nothing; ends with its input.
pub struct Nothing {
    child: Child,
    _input: ChildStdin,
    pub port: u16,
}

impl Nothing {
    pub fn start() -> Self {
        let mut command = tidemill(&["bench", "--serve-nothing"]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        let output = child.stdout.take().unwrap();
        std::io::BufRead::read_line(&mut std::io::BufReader::new(output), &mut line).unwrap();
        let input = child.stdin.take().unwrap();
        Self { child, _input: input, port: line.trim().parse().unwrap() }
    }
}

impl Drop for Nothing {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Our own server with two workers.
pub fn server() -> Server {
    let start = |port: u16| {
        let port = port.to_string();
        let words = [
            "server",
            "--bind",
            "127.0.0.1",
            "--worker-threads",
            "2",
            "--save",
            "",
            "--port",
            &port,
        ];
        let mut command = tidemill(&words);
        command.stdout(Stdio::null());
        command
    };
    Server::start(start).unwrap()
}

/// File of an experiment with two arms, in a directory of its own.
pub fn experiment_file(directory: &Path, arm: &str, blocks: u32, flags: &str) -> String {
    let arms: String =
        ["a", "b"].map(|name| format!("[[arm]]\nname = \"{name}\"\n{arm}\n")).concat();
    let text = format!(
        "name = \"e\"\nblocks = {blocks}\n{arms}\
         [[load]]\nname = \"l\"\nflags = \"-t 1 -c 2 {flags}\"\n"
    );
    let file = directory.join("e.toml");
    std::fs::write(&file, text).unwrap();
    file.display().to_string()
}

/// The status of a child that is to end by itself.
pub fn ended(child: &mut Child) -> ExitStatus {
    let start = Instant::now();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status;
        }
        if start.elapsed() > LONG {
            let _ = child.kill();
            panic!("it does not end");
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Sends a signal to a child that was not waited for.
pub fn signal(child: &Child, name: &str) {
    let sent = Command::new("kill").args(["-s", name, &child.id().to_string()]).status();
    assert!(sent.unwrap().success(), "{name}");
}
