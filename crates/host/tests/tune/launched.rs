//! `tidemill tune run`: what the started command sees of what was set for it.
//!
//! This program runs itself again as `tidemill tune`, which then becomes the command.

use std::process::Command;

use super::CHILD;

/// Exit status, and output and errors together.
fn run(words: &[&str]) -> (i32, String) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    let output = command.args([CHILD, "run"]).args(words).output().unwrap();
    let text = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
    (output.status.code().unwrap(), text)
}

fn the_command_sees_affinity_huge_pages_policy_and_limits() {
    let allowed = tidemill_host::apply::current_affinity().unwrap();
    let last = allowed.last().unwrap().to_string();
    let script =
        "grep -E '^(Cpus_allowed_list|THP_enabled):' /proc/self/status; ulimit -n; chrt -p $$";
    let (status, text) = run(&[
        "--cpus",
        &last,
        "--memory-node",
        "any",
        "--thp",
        "never",
        "--nofile",
        "64",
        "--policy",
        "batch",
        "--",
        "sh",
        "-c",
        script,
    ]);
    assert_eq!(status, 0, "{text}");
    assert!(text.contains(&format!("Cpus_allowed_list:\t{last}\n")), "{text}");
    assert!(text.contains("THP_enabled:\t0\n"), "{text}");
    assert!(text.contains("\n64\n"), "{text}");
    assert!(text.contains("SCHED_BATCH"), "{text}");
}

fn requested_huge_pages_are_an_option_of_the_allocator_beside_those_that_were_set() {
    let script = "echo $MALLOC_CONF $_RJEM_MALLOC_CONF; grep THP_enabled /proc/self/status";
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([CHILD, "run", "--cpus", "all", "--thp", "request", "--", "sh", "-c", script]);
    command.env("MALLOC_CONF", "narenas:2").env_remove("_RJEM_MALLOC_CONF");
    let output = command.output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(text, "narenas:2,thp:always thp:always\nTHP_enabled:\t1\n");
}

fn the_command_keeps_its_arguments_and_its_exit_status() {
    let (status, text) =
        run(&["--cpus", "all", "--", "sh", "-c", "echo \"$0 $1\"; exit 7", "--pid", "x y"]);
    assert_eq!((status, text.as_str()), (7, "--pid x y\n"));
    let (status, text) = run(&["--", "true"]);
    assert_eq!((status, text.as_str()), (0, ""), "the plan's CPUs and node suit this machine");
}

fn failed_setting_or_start_is_one_line_and_nothing_starts() {
    for (words, wanted, says) in [
        (&["--cpus", "40000", "--", "echo", "started"][..], 2, "--cpus"),
        (&["--cpus", "", "--", "echo", "started"], 2, "the list is empty"),
        (&["--memory-node", "900", "--cpus", "all", "--", "echo", "started"], 2, "--memory-node"),
        (&["--slice-us", "5", "--", "echo", "started"], 2, "--slice-us"),
        (&["--nofile", "18446744073709551615", "--", "echo", "started"], 2, "--nofile"),
        (&["--", "/no/such/command"], 127, "/no/such/command"),
        (&["--", "/dev"], 126, "/dev"),
        (&[], 2, "COMMAND"),
    ] {
        let (status, text) = run(words);
        assert_eq!(status, wanted, "{words:?}: {text}");
        assert!(text.contains(says) && text.lines().count() == 1, "{words:?}: {text}");
        assert!(!text.contains("started"), "{words:?}: {text}");
    }
}

fn a_slice_is_set_or_refused_but_never_ignored_in_silence() {
    let (status, text) = run(&["--slice-us", "3000", "--", "grep", "se.slice", "/proc/self/sched"]);
    match status {
        2 => assert!(text.contains("slice"), "{text}"),
        _ if text.contains("se.slice") => assert!(text.contains("3000000"), "{text}"),
        _ => eprintln!("/proc/self/sched tells no slice: not compared"),
    }
}

/// Runs all tests of this part.
pub fn all() {
    the_command_sees_affinity_huge_pages_policy_and_limits();
    requested_huge_pages_are_an_option_of_the_allocator_beside_those_that_were_set();
    the_command_keeps_its_arguments_and_its_exit_status();
    failed_setting_or_start_is_one_line_and_nothing_starts();
    a_slice_is_set_or_refused_but_never_ignored_in_silence();
    println!("tidemill tune run ... ok");
}
