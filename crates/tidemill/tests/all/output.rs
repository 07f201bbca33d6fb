//! Standard output and files of reports that cannot be written: exit statuses, and what is said.
#![allow(clippy::unwrap_used)] // helpers of tests; the lint knows only test functions

use std::fs::OpenOptions;
use std::path::Path;
use std::process::{Output, Stdio};

use crate::common::{Nothing, experiment_file, tidemill};

/// Exit status and standard error of the binary with a standard output.
fn run(words: &[&str], output: impl Into<Stdio>) -> (Option<i32>, String) {
    let output = tidemill(words).stdin(Stdio::null()).stdout(output).output().unwrap();
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

/// A pipe without a reader.
fn gone() -> Stdio {
    std::io::pipe().unwrap().1.into()
}

/// A device that is always full.
fn full() -> std::fs::File {
    OpenOptions::new().write(true).open("/dev/full").unwrap()
}

#[test]
fn a_reader_that_is_gone_is_no_failure_and_a_full_disk_is_one() {
    let (nothing, directory) = (Nothing::start(), tempfile::tempdir().unwrap());
    let arm = format!("address = \"127.0.0.1:{}\"", nothing.port);
    let file = experiment_file(directory.path(), &arm, 1, "--test-time 0.05");
    let reports = directory.path().join("out").display().to_string();
    let port = nothing.port.to_string();
    for words in [
        &["tune", "--help"][..],
        &["bench", "--help"],
        &["bench", "-p", &port, "-t", "1", "-c", "1", "-n", "10"],
        &["experiment", "--help"],
        &["experiment", "list"],
        &["experiment", "run", &file, "--out", &reports],
        &["completions", "bash"],
    ] {
        let (status, says) = run(words, gone());
        assert_eq!(status, Some(0), "{words:?} | true: {says}");
        assert!(!says.contains("Broken pipe"), "{words:?} | true: {says}");
        let (status, says) = run(words, full());
        assert_eq!(status, Some(1), "{words:?} >/dev/full: {says}");
        assert!(says.contains("standard output: No space left"), "{words:?}: {says}");
    }
    // Findings have statuses of their own, as long as they can be read.
    let doctor = ["tune", "doctor", "--json", "--interval", "0"];
    let (read, (unread, _)) = (run(&doctor, Stdio::null()), run(&doctor, gone()));
    assert_eq!(unread, read.0);
    let (status, says) = run(&doctor, full());
    assert_eq!(status, Some(1), "{says}");
    assert!(says.contains("standard output: No space left"), "{says}");
}

#[test]
fn standard_error_that_cannot_be_written_leaves_the_exit_status() {
    for (words, wanted) in [
        (&["tune"][..], 2),
        (&["tune", "no-such-command"], 2),
        (&["tune", "run", "--", "/no/such/program"], 127),
        (&["tune", "--help"], 1),
        (&["bench", "--no-such-flag"], 2),
        (&["experiment", "list"], 1),
    ] {
        let status = tidemill(words).stdout(full()).stderr(full()).status().unwrap();
        assert_eq!(status.code(), Some(wanted), "{words:?}");
    }
}

#[test]
fn a_report_file_that_cannot_be_written_is_a_failure_also_without_a_reader() {
    let nothing = Nothing::start();
    let port = nothing.port.to_string();
    let words = ["bench", "-p", &port, "-t", "1", "-c", "1", "-n", "10", "-o", "/dev/full"];
    let (status, says) = run(&words, gone());
    assert_eq!(status, Some(1), "{says}");
    assert!(says.contains("/dev/full: No space left"), "{says}");
    for option in ["-o", "--json-out-file", "--client-stats"] {
        let (status, says) = run(&["bench", "-p", &port, "-n", "10", option, ""], Stdio::null());
        assert_eq!(status, Some(2), "{option}: {says}");
    }
    let directory = tempfile::tempdir().unwrap();
    let arm = format!("address = \"127.0.0.1:{port}\"");
    let file = experiment_file(directory.path(), &arm, 1, "--test-time 0.05");
    let words = ["experiment", "run", &file, "--out", "/dev/null/reports"];
    let (status, says) = run(&words, Stdio::null());
    assert_eq!((status, says.contains("/dev/null/reports: ")), (Some(1), true), "{says}");
    let out = directory.path().join("out");
    std::fs::create_dir_all(out.join("report.html")).unwrap();
    let words = ["experiment", "run", &file, "--out", out.to_str().unwrap()];
    let (status, says) = run(&words, Stdio::null());
    assert_eq!((status, says.contains("out/report.html: Is a dir")), (Some(1), true), "{says}");
}

/// A judgement with its report in this file; the change leaves a mark.
fn ab(port: u16, directory: &Path, json: &str) -> Output {
    let apply = format!("touch {}", directory.join("mark").display());
    let load = format!("-p {port} -t 1 -c 1 --test-time 0.1");
    let words = ["experiment", "ab", "--apply", &apply, "--revert", "true", "--blocks", "1"];
    tidemill(&words).args(["--load", &load, "--json", json]).output().unwrap()
}

#[test]
fn ab_refuses_a_file_before_the_change_and_prints_the_table_whatever_becomes_of_it() {
    let (nothing, directory) = (Nothing::start(), tempfile::tempdir().unwrap());
    let refused = ab(nothing.port, directory.path(), "/no/such/folder/ab.json");
    let says = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(2), "{says}");
    assert!(says.contains("--json: /no/such/folder/ab.json: "), "{says}");
    assert!(!directory.path().join("mark").exists());
    // A device that can be opened and not written: found only behind the runs.
    let judged = ab(nothing.port, directory.path(), "/dev/full");
    let says = String::from_utf8_lossy(&judged.stderr).into_owned();
    assert_eq!(judged.status.code(), Some(4), "{says}");
    assert!(says.contains("/dev/full: No space left"), "{says}");
    let table = String::from_utf8_lossy(&judged.stdout).into_owned();
    assert!(table.ends_with("reverted\n"), "{table}");
}
