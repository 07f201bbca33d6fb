//! `tidemill bench` and `tidemill experiment` as processes: what they say, how they end, what they
//! leave behind.
#![allow(clippy::unwrap_used)] // helpers of tests; the lint knows only test functions

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Output, Stdio};
use std::time::{Duration, Instant};

use crate::common::{LONG, Nothing, ended, experiment_file, server, signal, tidemill};

fn bench(words: &str) -> Output {
    let words: Vec<&str> = ["bench"].into_iter().chain(words.split_whitespace()).collect();
    tidemill(&words).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn a_server_elsewhere_that_holds_keys_is_warned_of_before_anything_is_written() {
    let server = server();
    let load = format!("-p {} -t 1 -c 2 -n 200 --key-maximum 9", server.port);
    // An address of every machine, so that it may be another one; it leads to this one.
    let elsewhere = format!("{load} -h 0.0.0.0 --preload --key-prefix mine-");
    let empty = bench(&format!("{elsewhere} --cleanup"));
    assert_eq!(empty.status.code(), Some(0), "{empty:?}");
    assert_eq!(
        text(&empty.stderr),
        "",
        "no keys, no warning, although our own were there meanwhile"
    );
    // Processes of another machine cannot be looked at.
    assert!(text(&empty.stdout).contains("us CPU per operation (from INFO)"), "{empty:?}");
    assert_eq!(bench(&format!("{load} --preload --key-prefix theirs-")).status.code(), Some(0));
    let warned = bench(&elsewhere);
    assert_eq!(warned.status.code(), Some(0), "{warned:?}");
    let says = "WARNING: 0.0.0.0:{port} is not this machine and holds 10 keys; keys named mine-* \
        will be overwritten";
    let says = says.replace("{port}", &server.port.to_string());
    assert!(text(&warned.stderr).contains(&says), "{}", text(&warned.stderr));
    let local = bench(&format!("{load} -h LocalHost"));
    assert_eq!((local.status.code(), text(&local.stderr)), (Some(0), String::new()));
}

#[test]
fn progress_is_shown_on_a_terminal_at_four_hertz_and_nowhere_else() {
    let nothing = Nothing::start();
    let words = format!("bench -p {} -t 1 -c 2 --test-time 1.5 -o /dev/null", nothing.port);
    let piped = bench(words.strip_prefix("bench ").unwrap());
    assert_eq!((text(&piped.stdout), text(&piped.stderr)), (String::new(), String::new()));
    let start = Instant::now();
    let line = format!("{} {words}", env!("CARGO_BIN_EXE_tidemill"));
    // Gives the command a terminal of its own.
    let mut script = std::process::Command::new("script");
    let shown = script.args(["-q", "-e", "-c", &line, "/dev/null"]).stdin(Stdio::null());
    let shown = text(&shown.output().unwrap().stdout);
    let updates = shown.matches("\r[RUN #1").count();
    let most = 4.0 * start.elapsed().as_secs_f64() + 1.0;
    assert!(updates >= 1 && updates as f64 <= most, "{updates} updates: {shown:?}");
    assert!(shown.contains("ops/sec") && shown.contains("msec latency"), "{shown:?}");
}

#[test]
fn a_reader_that_is_gone_is_no_reason_to_panic() {
    let nothing = Nothing::start();
    let port = nothing.port.to_string();
    for words in [
        "--help",
        "--version",
        "no-such-part",
        "bench --help",
        "bench --no-such-flag",
        "bench --pipeline 0",
        "bench -p PORT -t 1 -c 1 -n 10 --show-config",
        "bench -p 1 -t 1 -c 1 -n 10",
        "experiment list",
        "experiment run /no/such/file",
        "experiment ab --apply true --revert true --blocks 1 --load '-p PORT -t 1 -c 1 \
         --test-time 0.1'",
    ] {
        let words = words.replace("PORT", &port);
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut command = std::process::Command::new("sh");
        command.args(["-c", &format!("exec \"$0\" {words}"), env!("CARGO_BIN_EXE_tidemill")]);
        let other = writer.try_clone().unwrap();
        let mut child = command.stdin(Stdio::null()).stdout(writer).stderr(other).spawn().unwrap();
        let status = ended(&mut child);
        // 101 is a panic's.
        assert!(status.code().is_some_and(|code| code != 101), "{words}: {status}");
    }
}

#[test]
fn init_writes_a_file_that_runs_and_never_writes_over_one() {
    let directory = tempfile::tempdir().unwrap();
    let init = || {
        let mut command = tidemill(&["experiment", "init"]);
        command.current_dir(&directory).output().unwrap()
    };
    let first = init();
    assert_eq!(first.status.code(), Some(0), "{first:?}");
    let file = directory.path().join("experiment.toml");
    let written = std::fs::read_to_string(&file).unwrap();
    assert!(written.lines().filter(|line| line.starts_with('#')).count() > 10, "{written}");
    let second = init();
    assert_eq!(second.status.code(), Some(2), "{second:?}");
    std::fs::write(&file, written.replace("blocks = 10", "blocks = none")).unwrap();
    let mut run = tidemill(&["experiment", "run", "experiment.toml"]);
    let wrong = run.current_dir(&directory).output().unwrap();
    assert_eq!(wrong.status.code(), Some(2), "{wrong:?}");
    let says = text(&wrong.stderr);
    assert!(says.contains("experiment.toml: line 4, column 10: "), "{says}");
}

fn run(file: &str, out: &Path) -> Child {
    let mut command = tidemill(&["experiment", "run", file, "--out"]);
    command.arg(out).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

/// Processes that a process started and has not waited for.
fn children(parent: u32) -> Vec<u32> {
    let stat = |pid: &u32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let (_, fields) = stat.rsplit_once(')')?;
        let fields: Vec<&str> = fields.split_whitespace().collect();
        (fields[0] != "Z" && fields[1].parse() == Ok(parent)).then_some(())
    };
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(|pid| stat(pid).is_some()).collect()
}

#[test]
fn signals_end_an_experiment_and_its_servers_however_often_they_come() {
    for name in ["TERM", "INT", "HUP"] {
        let directory = tempfile::tempdir().unwrap();
        let arm = "server = \"{tidemill} server --port {port} --bind 127.0.0.1 --save '' \
               --worker-threads 1\"";
        let file = experiment_file(directory.path(), arm, 2, "--test-time 600");
        let out = directory.path().join("out");
        let mut child = run(&file, &out);
        let start = Instant::now();
        let servers = loop {
            let servers = children(child.id());
            if !servers.is_empty() {
                break servers;
            }
            assert!(start.elapsed() < LONG, "no server is started");
            std::thread::sleep(Duration::from_millis(5));
        };
        for _ in 0..3 {
            signal(&child, name);
        }
        let status = ended(&mut child);
        let left: Vec<&u32> =
            servers.iter().filter(|pid| Path::new(&format!("/proc/{pid}")).exists()).collect();
        for pid in &left {
            // The server started for this test must not outlive it.
            let _ = std::process::Command::new("kill").arg(pid.to_string()).status();
        }
        assert!(left.is_empty(), "{name}: {left:?} go on");
        assert_eq!(status.code(), Some(130), "{name}: {status}");
    }
}

/// Keys that no machine writes while a test waits.
const ENDLESS: &str = "--preload --key-maximum 1000000000000";

/// The first line of a server's answer.
fn ask(port: u16, command: &str) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.write_all(format!("{command}\r\n").as_bytes()).unwrap();
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).unwrap();
    line
}

/// Sends a signal once keys are written to an empty server, and gives the status.
fn end_at_first_key(port: u16, child: &mut Child, name: &str) -> Option<i32> {
    let start = Instant::now();
    while ask(port, "DBSIZE") == ":0\r\n" {
        assert!(start.elapsed() < LONG, "the preload never begins");
        std::thread::sleep(Duration::from_millis(5));
    }
    signal(child, name);
    let status = ended(child).code();
    assert_eq!(ask(port, "FLUSHALL"), "+OK\r\n");
    status
}

#[test]
fn a_signal_ends_the_preload_before_the_load() {
    let server = server();
    for name in ["TERM", "INT"] {
        let words = format!("bench -p {} -t 1 -c 1 -n 1 {ENDLESS}", server.port);
        let mut command = tidemill(&words.split(' ').collect::<Vec<_>>());
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        assert_eq!(end_at_first_key(server.port, &mut child, name), Some(130), "{name}");
        let says = std::io::read_to_string(child.stderr.take().unwrap()).unwrap();
        assert!(says.contains("stopped before the load began"), "{name}: {says}");
    }
    let directory = tempfile::tempdir().unwrap();
    let arm = format!("address = \"127.0.0.1:{}\"", server.port);
    let flags = format!("--test-time 0.05 {ENDLESS}");
    let file = experiment_file(directory.path(), &arm, 1, &flags);
    let out = directory.path().join("out");
    let mut child = run(&file, &out);
    assert_eq!(end_at_first_key(server.port, &mut child, "INT"), Some(130));
    let journal = std::fs::read_to_string(out.join("journal.jsonl")).unwrap();
    assert_eq!(journal.lines().count(), 1, "{journal}");
}

/// Runs the program with stacks of 256 MiB and an address space of `kib` KiB until it ends by
/// itself: its status, and what it says of its failure.
fn with_address_space(kib: u32, words: &str) -> (Option<i32>, String) {
    let script = format!("ulimit -v {kib}; exec \"$0\" {words}");
    let mut command = std::process::Command::new("sh");
    command.args(["-c", &script, env!("CARGO_BIN_EXE_tidemill")]);
    command.env("RUST_MIN_STACK", (256 << 20).to_string());
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let status = ended(&mut child);
    (status.code(), std::io::read_to_string(child.stderr.take().unwrap()).unwrap())
}

#[test]
fn a_thread_that_cannot_be_started_ends_the_load_with_the_systems_error() {
    let nothing = Nothing::start();
    let words = format!("bench -p {} -t 16 -c 1 --test-time 0.1", nothing.port);
    // Room for some of the stacks and not for all.
    let (status, says) = with_address_space(2 << 20, &words);
    assert_eq!(status, Some(3), "{says}");
    assert!(says.contains("a load thread cannot be started: "), "{says}");
}

#[test]
fn a_thread_that_cannot_be_started_ends_the_experiment_with_the_systems_error() {
    let nothing = Nothing::start();
    let directory = tempfile::tempdir().unwrap();
    for arm in [format!("address = \"127.0.0.1:{}\"", nothing.port), "program = \"yes\"".into()] {
        let file = experiment_file(directory.path(), &arm, 1, "--test-time 0.1");
        let out = tempfile::tempdir().unwrap();
        let words = format!("experiment run {file} --out {}", out.path().display());
        // No room for one stack.
        let (status, says) = with_address_space(256 << 10, &words);
        assert_eq!(status, Some(1), "{arm}: {says}");
        assert!(says.contains("a thread cannot be started: "), "{arm}: {says}");
    }
}

#[test]
fn experiment_killed_at_any_moment_resumes_and_no_run_is_lost() {
    let nothing = Nothing::start();
    let directory = tempfile::tempdir().unwrap();
    let arm = format!("address = \"127.0.0.1:{}\"", nothing.port);
    let file = experiment_file(directory.path(), &arm, 5, "--test-time 0.05");
    let out = directory.path().join("out");
    let journal = || std::fs::read_to_string(out.join("journal.jsonl")).unwrap_or_default();
    let whole = |text: &str| text.rfind('\n').map_or(0, |at| at + 1);
    for pause_ms in [0, 3, 30, 90, 100, 170, 40] {
        let before = journal();
        let mut child = run(&file, &out);
        std::thread::sleep(Duration::from_millis(pause_ms));
        // It may be through already, on a fast machine.
        let _ = child.kill();
        child.wait().unwrap();
        let kept = &before[..whole(&before)];
        assert_eq!(&journal()[..kept.len()], kept, "killed after {pause_ms} ms");
    }
    let before = journal();
    let status = ended(&mut run(&file, &out));
    assert_eq!(status.code(), Some(0), "{status}");
    let after = journal();
    assert!(after.starts_with(&before[..whole(&before)]));
    let runs: Vec<serde_json::Value> =
        after.lines().skip(1).map(|line| serde_json::from_str(line).unwrap()).collect();
    let mut seen: Vec<(u64, &str)> = runs
        .iter()
        .map(|run| (run["block"].as_u64().unwrap(), run["arm"].as_str().unwrap()))
        .collect();
    seen.sort_unstable();
    let wanted: Vec<(u64, &str)> =
        (0..5).flat_map(|block| ["A/A", "a", "b"].map(|arm| (block, arm))).collect();
    assert_eq!(seen, wanted);
}
