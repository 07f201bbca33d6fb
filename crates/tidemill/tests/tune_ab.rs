//! `tidemill tune ab` on the real binary: the load runs, the tree ends as it began unless the change is kept.
#![allow(clippy::unwrap_used)] // helpers of tests; the lint knows only test functions

use std::path::Path;
use std::process::{Child, ChildStdin, Command, Output, Stdio};

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

/// The load generator's server that does nothing; ends with its input.
struct Nothing {
    child: Child,
    _input: ChildStdin,
    port: u16,
}

impl Nothing {
    fn start() -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tidemill"));
        command.args(["bench", "--serve-nothing"]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
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

fn ab(root: &Path, rule: &str, load: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidemill"));
    command.args(["tune", "ab", rule, "--interval", "0", "--blocks", "2", "--load", load]);
    command.arg("--root").arg(root).output().unwrap()
}

#[test]
fn without_a_verdict_the_change_is_not_kept() {
    let (tree, server) = (machine(), Nothing::start());
    let load =
        format!("-h 127.0.0.1 -p {} -t 1 -c 2 --test-time 0.2 --hide-histogram", server.port);
    let output = ab(tree.path(), "R5", &load);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(text.contains("in 2 runs") && text.ends_with("not kept\n"), "{text}");
    let mode = std::fs::read_to_string(tree.path().join("proc/sys/vm/zone_reclaim_mode")).unwrap();
    assert_eq!(mode, "1\n");
    assert!(!tree.path().join("var/lib/tidemill-tune/journal.json").exists());
}

#[test]
fn a_load_that_fails_leaves_nothing_applied() {
    let tree = machine();
    for (rule, load, says) in
        [("R5", "--no-such-flag", "no-such-flag"), ("R99", "-t 1", "there is no rule R99")]
    {
        let output = ab(tree.path(), rule, load);
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(text.contains(says), "{text}");
        let mode = tree.path().join("proc/sys/vm/zone_reclaim_mode");
        assert_eq!(std::fs::read_to_string(mode).unwrap(), "1\n");
    }
}
