//! A signal ends a run with a change of the machine in force: the change is undone. A run of the
//! load that is ended early reports. One test, in a process of its own: every run in it hears its
//! signals.

#![allow(clippy::unwrap_used)] // A helper that fails fails its test.

mod common;

use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use self::common::{REDIS, Scratch, Server};
use rustix::process::{Signal, getpid, kill_process};
use tidemill_bench::cli::run_experiment;
use tidemill_bench::load::control::Reply;

/// Sends the signals once the change was made for the `count`th time and half a second passed, so
/// that the load runs, and gives the exit code of the experiment.
fn interrupted(words: &[&str], log: &Path, count: usize, signals: &[Signal]) -> ExitCode {
    let words: Vec<_> = words.iter().map(Into::into).collect();
    let run = std::thread::spawn(move || run_experiment(words));
    let start = Instant::now();
    let applied = || {
        let text = std::fs::read_to_string(log).unwrap_or_default();
        text.lines().filter(|line| *line == "applied").count()
    };
    while applied() < count {
        assert!(start.elapsed() < Duration::from_secs(120), "the change is never made");
        assert!(!run.is_finished(), "the experiment ended by itself");
        std::thread::sleep(Duration::from_millis(10));
    }
    std::thread::sleep(Duration::from_millis(500));
    for &signal in signals {
        kill_process(getpid(), signal).unwrap();
    }
    run.join().unwrap()
}

#[test]
fn a_signal_undoes_the_change_that_is_in_force_and_a_run_still_reports() {
    let redis = Server::start(REDIS, "interrupt", &[]);
    let scratch = Scratch::new("interrupt");
    let (mark, log) = (scratch.0.join("mark"), scratch.0.join("log"));
    let apply = format!("touch {} && echo applied >> {}", mark.display(), log.display());
    // Slow, so that a second signal meets it half way.
    let revert = format!("sleep 0.3; rm -f {}; echo reverted >> {}", mark.display(), log.display());
    let address = format!("127.0.0.1:{}", redis.port);
    for (signals, again) in [
        (&[Signal::INT][..], 1),
        (&[Signal::INT, Signal::INT, Signal::INT], 2),
        (&[Signal::TERM], 1),
        (&[Signal::HUP], 1),
    ] {
        let _ = std::fs::remove_file(&log);
        let load = "-t 1 -c 2 --test-time 1";
        let words =
            ["ab", "--apply", &apply, "--revert", &revert, "--address", &address, "--load", load];
        let code = interrupted(&words, &log, again, signals);
        assert_eq!((code, mark.exists()), (ExitCode::from(130), false), "ab, {signals:?}");
        assert_eq!(scratch.file("log").lines().last(), Some("reverted"), "ab, {signals:?}");

        let _ = std::fs::remove_file(&log);
        let file = scratch.0.join("e.toml");
        let text = format!(
            "name = \"interrupted\"\naa = false\n[[arm]]\nname = \"without\"\naddress = \
             \"{address}\"\n\
             [[arm]]\nname = \"with\"\naddress = \"{address}\"\napply = \"{apply}\"\nrevert = \
             \"{revert}\"\n\
             [[load]]\nname = \"l\"\nflags = \"{load}\"\n"
        );
        std::fs::write(&file, text).unwrap();
        let out = scratch.0.join(format!("out-{again}-{}-{:?}", signals.len(), signals[0]));
        let words =
            ["run", file.to_str().unwrap(), "--change-machine", "--out", out.to_str().unwrap()];
        let code = interrupted(&words, &log, again, signals);
        assert_eq!((code, mark.exists()), (ExitCode::from(130), false), "run, {signals:?}");
        assert_eq!(scratch.file("log").lines().last(), Some("reverted"), "run, {signals:?}");
    }
    a_signal_ends_programs_that_measure(&scratch, &log);
    assert_eq!(redis.control().call(&["FLUSHALL"]).unwrap(), Reply::Text(b"OK".to_vec()));
    a_run_that_is_ended_early_reports(&redis);
}

/// A program that is ended has no figures: its run is none, and the experiment was interrupted, not
/// wrong.
fn a_signal_ends_programs_that_measure(scratch: &Scratch, log: &Path) {
    let _ = std::fs::remove_file(log);
    let script = scratch.0.join("measure.sh");
    std::fs::write(&script, format!("echo applied >> {}\nsleep 600\n", log.display())).unwrap();
    let program = format!("program = \"sh {}\"", script.display());
    let text = format!(
        "name = \"programs\"\nprimary = [\"ops_per_second\"]\n[[arm]]\nname = \"a\"\n{program}\n\
         [[arm]]\nname = \"b\"\n{program}\n[[load]]\nname = \"l\"\nflags = \"\"\n"
    );
    let file = scratch.0.join("programs.toml");
    std::fs::write(&file, text).unwrap();
    let out = scratch.0.join("out-programs");
    let words = ["run", file.to_str().unwrap(), "--out", out.to_str().unwrap()];
    assert_eq!(interrupted(&words, log, 1, &[Signal::INT]), ExitCode::from(130));
    let journal = std::fs::read_to_string(out.join("journal.jsonl")).unwrap();
    assert_eq!(journal.lines().count(), 1, "{journal}");
}

/// The last in this process: after the first signal, a second one would end the process at once.
fn a_run_that_is_ended_early_reports(redis: &Server) {
    let code = std::thread::scope(|scope| {
        let load =
            scope.spawn(|| redis.bench("-c 2 --test-time 600 --json-out-file {dir}/out.json"));
        let start = Instant::now();
        while redis.control().call(&["DBSIZE"]).unwrap() == Reply::Integer(0) {
            assert!(start.elapsed() < Duration::from_secs(120), "the load never begins");
            std::thread::sleep(Duration::from_millis(10));
        }
        kill_process(getpid(), Signal::INT).unwrap();
        load.join().unwrap()
    });
    assert_eq!(code, ExitCode::from(130));
    assert!(redis.file("out.txt").contains("Totals"));
    let document: serde_json::Value = serde_json::from_str(&redis.file("out.json")).unwrap();
    let stats = &document["ALL STATS"];
    assert_eq!(stats["Runtime"]["Interrupted"], "true");
    assert!(stats["Totals"]["Count"].as_u64().unwrap() > 0);
}
