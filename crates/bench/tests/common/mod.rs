//! What the tests that run loads share. Every test crate uses its part.

#![allow(dead_code, clippy::unwrap_used)] // A helper that fails fails its test.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use tidemill_bench::cli::run_bench;
use tidemill_bench::load::control::Control;
use tidemill_bench::load::settings::Target;

/// How long a server may take to come up; far more than it takes on a busy machine.
const START_LIMIT: Duration = Duration::from_secs(60);

/// Debian's Redis.
pub const REDIS: &str = "redis-server";
/// Valkey as `scripts/setup` installs it.
pub const VALKEY: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../../build/tools/bin/valkey-server");

/// The warnings of a text report that a correct run never gives.
///
/// That the load thread was busy says how fast the machine is, not whether the run was right.
pub fn doubts(report: &str) -> Vec<&str> {
    let lines = report.lines().filter(|line| line.starts_with("WARNING"));
    lines.filter(|line| !line.ends_with("the client may be the bottleneck")).collect()
}

/// A port that was free a moment ago.
pub fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// A new, empty directory that no other test has; removed with the value.
pub struct Scratch(pub PathBuf);

impl Scratch {
    pub fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("tidemill-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub fn file(&self, name: &str) -> String {
        std::fs::read_to_string(self.0.join(name)).unwrap()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A real server on a port of the system's choice, stopped with the value.
pub struct Server {
    pub child: Child,
    pub port: u16,
    pub scratch: Scratch,
}

impl Server {
    /// Starts a Redis or Valkey with these options beside its port, in a directory of its own.
    pub fn start(program: &str, name: &str, options: &[&str]) -> Self {
        let kind = if program == VALKEY { "valkey" } else { "redis" };
        let scratch = Scratch::new(&format!("{kind}-{name}"));
        let port = free_port();
        let port_text = port.to_string();
        let own = ["--port", &port_text].into_iter().chain(options.iter().copied());
        Self::start_on(port, program, &own.collect::<Vec<_>>(), scratch)
    }

    /// Starts one whose options name the port, in this directory.
    pub fn start_on(port: u16, program: &str, options: &[&str], scratch: Scratch) -> Self {
        let child = Command::new(program)
            .args(["--bind", "127.0.0.1", "--save", "", "--appendonly", "no"])
            .args(options)
            .current_dir(&scratch.0)
            .stdout(Stdio::null())
            .spawn()
            .unwrap_or_else(|error| panic!("{program} (scripts/setup installs it): {error}"));
        let mut server = Self { child, port, scratch };
        let start = Instant::now();
        while std::net::TcpStream::connect(("127.0.0.1", port)).is_err() {
            let ended = server.child.try_wait().unwrap();
            assert!(ended.is_none(), "{program} ended: {ended:?}");
            assert!(start.elapsed() < START_LIMIT, "{program} does not listen");
            std::thread::sleep(Duration::from_millis(20));
        }
        server
    }

    /// Runs `tidemill bench` with one thread on it; the report is `out.txt`. `{dir}` stands for the
    /// server's directory.
    pub fn bench(&self, words: &str) -> ExitCode {
        self.bench_words(&words.split_whitespace().collect::<Vec<_>>())
    }

    /// The same with words that hold blanks.
    pub fn bench_words(&self, words: &[&str]) -> ExitCode {
        let directory = self.directory().display().to_string();
        let own = format!("-h 127.0.0.1 -p {} -t 1 -o {{dir}}/out.txt", self.port);
        let words = own.split(' ').chain(words.iter().copied());
        run_bench(words.map(|word| word.replace("{dir}", &directory).into()).collect())
    }

    pub fn control(&self) -> Control {
        Control::connect(&Target::tcp("127.0.0.1", self.port)).unwrap()
    }

    pub fn directory(&self) -> &Path {
        &self.scratch.0
    }

    pub fn file(&self, name: &str) -> String {
        self.scratch.file(name)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
