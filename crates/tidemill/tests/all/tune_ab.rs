//! `tidemill tune ab` on the real binary: the load runs, the tree ends as it began unless the
//! change is kept.
#![allow(clippy::unwrap_used)] // helpers of tests; the lint knows only test functions

use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use crate::common::{LONG, Nothing, ended, signal, tidemill};

const FILES: &[(&str, &str)] = &[
    ("proc/sys/kernel/random/boot_id", "1\n"),
    ("proc/sys/vm/zone_reclaim_mode", "1\n"),
    ("sys/devices/system/cpu/online", "0\n"),
    ("sys/devices/system/cpu/cpu0/topology/core_cpus_list", "0\n"),
];

fn machine() -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    for (path, text) in FILES {
        let path = directory.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    directory
}

fn command(root: &Path, rule: &str, blocks: u32, load: &str) -> Command {
    let mut command =
        tidemill(&["tune", "ab", rule, "--interval", "0", "--load", load, "--blocks"]);
    command.arg(blocks.to_string()).arg("--root").arg(root);
    command
}

fn ab(root: &Path, rule: &str, load: &str) -> Output {
    command(root, rule, 2, load).output().unwrap()
}

fn mode(root: &Path) -> String {
    std::fs::read_to_string(root.join("proc/sys/vm/zone_reclaim_mode")).unwrap()
}

fn journal_exists(root: &Path) -> bool {
    root.join("var/lib/tidemill-tune/journal.json").exists()
}

#[test]
fn without_a_verdict_the_change_is_not_kept() {
    let (tree, server) = (machine(), Nothing::start());
    let load =
        format!("-h 127.0.0.1 -p {} -t 1 -c 2 --test-time 0.2 --hide-histogram", server.port);
    let output = ab(tree.path(), "R5", &load);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(4), "{output:?}");
    assert!(text.contains("ops/s, 2 blocks") && text.ends_with("reverted\n"), "{text}");
    assert_eq!(mode(tree.path()), "1\n");
    assert!(!journal_exists(tree.path()));
}

#[test]
fn a_signal_ends_the_runs_and_reverts_the_change() {
    let server = Nothing::start();
    let load = format!("-p {} -t 1 -c 2 --test-time 1 --hide-histogram", server.port);
    for name in ["INT", "TERM", "HUP"] {
        let tree = machine();
        let mut run = command(tree.path(), "R5", 10_000, &load);
        let mut child = run.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let start = Instant::now();
        while mode(tree.path()) != "0\n" && start.elapsed() < LONG {
            std::thread::sleep(Duration::from_millis(5));
        }
        signal(&child, name);
        let status = ended(&mut child);
        assert_eq!(status.code(), Some(130), "{name}: {status}");
        assert_eq!(mode(tree.path()), "1\n", "{name}");
        assert!(!journal_exists(tree.path()), "{name}");
    }
}

#[test]
fn a_load_that_fails_leaves_nothing_applied() {
    let tree = machine();
    for (rule, load, status, says) in [
        ("R5", "--no-such-flag", 2, "no-such-flag"),
        ("R99", "-t 1", 2, "there is no rule R99"),
        ("R5", "-p 1 -t 1 --test-time 1", 1, "Connection refused"),
    ] {
        let output = ab(tree.path(), rule, load);
        assert_eq!(output.status.code(), Some(status), "{output:?}");
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(text.contains(says), "{text}");
        assert_eq!(mode(tree.path()), "1\n");
        assert!(!journal_exists(tree.path()));
    }
}
