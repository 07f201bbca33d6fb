//! `tidemill tune doctor` beside running servers, Tidemill, Valkey and Redis, each with a password.
//!
//! Valkey comes from `make setup`, Redis from the distribution; one that is absent is named and
//! passed over.
#![allow(clippy::unwrap_used)] // helpers of tests; the lint knows only test functions

use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use tidemill_testkit::server::Server;

const PASSWORD: &str = "open-sesame-4711";

/// A server with a password, in a directory of its own.
struct Guarded {
    server: Server,
    _directory: tempfile::TempDir,
}

impl Guarded {
    /// `None` when the program is not installed.
    fn start(program: &Path, words: &[&str]) -> Option<Self> {
        let directory = tempfile::tempdir().unwrap();
        let start = |port: u16| {
            let mut command = Command::new(program);
            command.args(words).args(["--bind", "127.0.0.1", "--port", &port.to_string()]);
            command.args(["--requirepass", PASSWORD]).current_dir(directory.path());
            command.stdout(Stdio::null()).stderr(Stdio::null());
            command
        };
        Some(Self { server: Server::start(start).ok()?, _directory: directory })
    }

    fn doctor(&self, by_process: bool, variable: Option<(&str, &str)>) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tidemill"));
        command.args(["tune", "doctor", "--json", "--interval", "0"]);
        match by_process {
            true => command.arg("--pid").arg(self.server.id().to_string()),
            false => command.arg("--port").arg(self.server.port.to_string()),
        };
        command.env_remove("REDISCLI_AUTH").env_remove("VALKEYCLI_AUTH").envs(variable);
        command.stdin(Stdio::null()).output().unwrap()
    }
}

fn servers() -> Vec<(&'static str, Guarded)> {
    let valkey = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../build/tools/bin/valkey-server");
    let forking = ["--save", "3600 1"];
    let found = [
        ("Tidemill", Guarded::start(Path::new(env!("CARGO_BIN_EXE_tidemill")), &["server"])),
        ("Valkey", Guarded::start(&valkey, &forking)),
        ("Redis", Guarded::start(Path::new("redis-server"), &forking)),
    ];
    let named = found.into_iter().filter_map(|(name, server)| {
        if server.is_none() {
            eprintln!("absent, not tested: {name}");
        }
        Some((name, server?))
    });
    named.collect()
}

/// The finding of a rule; the process has ended as documented.
fn finding(output: &Output, id: &str) -> Value {
    assert!(matches!(output.status.code(), Some(0 | 1 | 3)), "{output:?}");
    let told: Value = serde_json::from_slice(&output.stdout).unwrap();
    let findings = told["findings"].as_array().unwrap();
    findings.iter().find(|finding| finding["id"] == id).unwrap().clone()
}

fn check_secret(output: &Output) {
    let text = [output.stdout.as_slice(), &output.stderr].concat();
    assert!(!String::from_utf8_lossy(&text).contains(PASSWORD), "the password was printed");
}

#[test]
fn each_server_is_asked_with_the_password_from_the_environment() {
    for (name, server) in servers() {
        for variable in ["REDISCLI_AUTH", "VALKEYCLI_AUTH"] {
            let output = server.doctor(variable == "REDISCLI_AUTH", Some((variable, PASSWORD)));
            check_secret(&output);
            let level = finding(&output, "loglevel");
            assert_eq!(level["verdict"], "ok", "{name}: {level}");
            let queue = finding(&output, "R7")["evidence"].to_string();
            assert!(queue.contains("CONFIG tcp-backlog: 511"), "{name}: {queue}");
            let threads = finding(&output, "affinity")["evidence"].to_string();
            let task = format!("/proc/{0}/task/{0}/status", server.server.id());
            assert!(threads.contains(&task), "{name}: {threads}");
            let save = finding(&output, "save");
            let wanted = if name == "Tidemill" { "ok" } else { "advice" };
            assert_eq!(save["verdict"], wanted, "{name}: {save}");
            let mode = finding(&output, "R2")["summary"].to_string();
            assert_eq!(name == "Tidemill", mode.contains("does not fork"), "{name}: {mode}");
        }
    }
}

#[test]
fn capture_keeps_the_answers_of_the_server_and_no_password() {
    for (name, server) in servers() {
        let directory = tempfile::tempdir().unwrap();
        let archive = directory.path().join("capture.tar");
        let mut capture = Command::new(env!("CARGO_BIN_EXE_tidemill"));
        capture.args([
            "tune",
            "capture",
            "--interval",
            "0",
            "--port",
            &server.server.port.to_string(),
        ]);
        let output = capture.arg(&archive).env("REDISCLI_AUTH", PASSWORD).output().unwrap();
        assert!(output.status.success(), "{name}: {output:?}");
        check_secret(&output);
        let bytes = std::fs::read(&archive).unwrap();
        let secret = PASSWORD.as_bytes();
        assert!(!bytes.windows(secret.len()).any(|window| window == secret), "{name}");
        let mut unpack = Command::new("tar");
        unpack.arg("-xf").arg(&archive).arg("-C").arg(directory.path());
        assert!(unpack.status().unwrap().success());
        let mut doctor = Command::new(env!("CARGO_BIN_EXE_tidemill"));
        doctor.args(["tune", "doctor", "--json", "--root"]).arg(directory.path());
        let level = finding(&doctor.output().unwrap(), "loglevel");
        assert_eq!(level["verdict"], "ok", "{name}: {level}");
    }
}

#[test]
fn without_the_right_password_the_server_is_looked_at_from_outside() {
    for (name, server) in servers() {
        for (variable, says) in
            [(None, "NOAUTH"), (Some(("REDISCLI_AUTH", "guessed")), "WRONGPASS")]
        {
            let output = server.doctor(false, variable);
            let level = finding(&output, "loglevel");
            assert_eq!(level["verdict"], "cannot tell", "{name}: {level}");
            assert!(level["summary"].to_string().contains(says), "{name}: {level}");
            let threads = finding(&output, "affinity");
            assert_ne!(threads["verdict"], "cannot tell", "{name}: {threads}");
            assert!(!String::from_utf8_lossy(&output.stdout).contains("guessed"), "{name}");
        }
    }
}
