//! Helpers that the tests that run loads share. Every test crate uses its part.

#![allow(dead_code, clippy::unwrap_used)] // A helper that fails fails its test.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};

use tidemill_bench::cli::run_bench;
use tidemill_bench::load::control::Control;
use tidemill_bench::load::settings::Target;

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

/// A new, empty directory that no other test has; removed with the value.
pub struct Scratch(pub PathBuf);

impl Scratch {
    pub fn new(name: &str) -> Self {
        // Tests of one process may choose the same name.
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let (process, number) = (std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(format!("tidemill-{name}-{process}-{number}"));
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

/// A Redis or Valkey in a directory of its own, killed with the value.
pub struct Server {
    process: tidemill_testkit::server::Server,
    pub port: u16,
    pub scratch: Scratch,
}

impl Server {
    /// Starts one with these options beside its port.
    pub fn start(program: &str, name: &str, options: &[&str]) -> Self {
        let kind = if program == VALKEY { "valkey" } else { "redis" };
        let options: Vec<String> = options.iter().map(|&option| option.to_owned()).collect();
        Self::start_on(program, Scratch::new(&format!("{kind}-{name}")), |port| {
            [vec!["--port".to_owned(), port.to_string()], options.clone()].concat()
        })
    }

    /// Starts one in this directory, with options that are made for its port.
    pub fn start_on(
        program: &str,
        scratch: Scratch,
        mut options: impl FnMut(u16) -> Vec<String>,
    ) -> Self {
        let command = |port| {
            let mut command = Command::new(program);
            command.args(["--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]);
            command.args(options(port)).current_dir(&scratch.0).stdout(Stdio::null());
            command
        };
        let process = tidemill_testkit::server::Server::start(command)
            .unwrap_or_else(|error| panic!("{program} (scripts/setup installs it): {error}"));
        Self { port: process.port, process, scratch }
    }

    pub fn kill(&mut self) {
        self.process.kill();
    }

    /// Runs `tidemill bench` with one thread on it; the report is `out.txt`. `{dir}` means the
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
