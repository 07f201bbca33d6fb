//! `apply`, `verify` and `revert` on the running kernel, in a network namespace of their own.
//!
//! The accept queue's limits are kept per network namespace, so they can be changed here without
//! being noticed; a mount namespace keeps the journal and the lasting file from the machine.
//! Where namespaces are refused this says so and proves nothing.

use std::process::{Command, Output};

use super::CHILD;

/// `$0` is this program.
const PREPARE: &str = "set -e; mount -t tmpfs none /var/lib; \
    mount -t tmpfs none /etc/sysctl.d; cd /proc/sys/net; \
    echo 128 > core/somaxconn; echo 129 > ipv4/tcp_max_syn_backlog; set +e; ";

fn namespaced(script: &str) -> Output {
    let script =
        format!("{PREPARE} tune() {{ \"$0\" {CHILD} \"$@\"; echo \"status $?\"; }}; {script}");
    let own = std::env::current_exe().unwrap();
    let mut command = Command::new("unshare");
    command.args(["-r", "-m", "-n", "sh", "-c", &script]).arg(own).output().unwrap()
}

fn told(script: &str) -> String {
    let output = namespaced(script);
    String::from_utf8([output.stdout, output.stderr].concat()).unwrap()
}

const APPLY: &str = "tune apply --only R7 --interval 0 --persist --yes; ";
const SHOW: &str = "cat core/somaxconn ipv4/tcp_max_syn_backlog; ";

fn kernel_settings_are_applied_read_back_verified_and_reverted() {
    let text = told(&format!("{APPLY} {SHOW} tune verify; tune revert; {SHOW} ls /etc/sysctl.d"));
    let lines: Vec<&str> = text.lines().collect();
    let wanted = [
        "applied R7 /proc/sys/net/core/somaxconn: 128 -> 65535",
        "applied R7 /proc/sys/net/ipv4/tcp_max_syn_backlog: 129 -> 65535",
        "wrote   /etc/sysctl.d/99-tidemill.conf",
        "status 0",
        "65535",
        "65535",
        "in force R7 /proc/sys/net/core/somaxconn: 65535",
        "in force R7 /proc/sys/net/ipv4/tcp_max_syn_backlog: 65535",
        "in force /etc/sysctl.d/99-tidemill.conf",
        "status 0",
        "removed /etc/sysctl.d/99-tidemill.conf",
        "restored R7 /proc/sys/net/ipv4/tcp_max_syn_backlog: 65535 -> 129",
        "restored R7 /proc/sys/net/core/somaxconn: 65535 -> 128",
        "status 0",
        "128",
        "129",
    ];
    assert_eq!(lines, wanted, "{text}");
}

fn a_read_only_kernel_file_is_refused_in_its_own_words() {
    let text = told(&format!(
        "mount --bind core/somaxconn core/somaxconn; mount -o remount,bind,ro core/somaxconn; \
         {APPLY} tune revert; cat ipv4/tcp_max_syn_backlog"
    ));
    assert!(text.contains("refused R7 /proc/sys/net/core/somaxconn: read-only"), "{text}");
    assert!(text.contains("applied R7 /proc/sys/net/ipv4/tcp_max_syn_backlog"), "{text}");
    assert!(text.contains("status 1") && text.ends_with("129\n"), "{text}");
}

fn values_written_by_others_since_stay() {
    let text = told(&format!("{APPLY} echo 777 > core/somaxconn; tune revert; cat core/somaxconn"));
    assert!(
        text.contains("left    R7 /proc/sys/net/core/somaxconn: 777, changed by somebody else"),
        "{text}"
    );
    assert!(text.ends_with("status 1\n777\n"), "{text}");
}

fn without_an_answer_nothing_is_written() {
    let text = told(&format!("tune apply --only R7 --interval 0 </dev/null; {SHOW} tune verify"));
    assert!(
        text.contains("write these? [y/N] nothing was changed\nstatus 1\n128\n129\n"),
        "{text}"
    );
    assert!(text.ends_with("nothing is applied\nstatus 0\n"), "{text}");
}

/// Runs all tests of this part.
pub fn all() {
    let possible = Command::new("unshare").args(["-r", "-m", "-n", "sh", "-c", PREPARE]).status();
    if !possible.is_ok_and(|status| status.success()) {
        eprintln!("no namespaces of our own to be had: not tested");
        return;
    }
    kernel_settings_are_applied_read_back_verified_and_reverted();
    a_read_only_kernel_file_is_refused_in_its_own_words();
    values_written_by_others_since_stay();
    without_an_answer_nothing_is_written();
    println!("apply, verify and revert on the running kernel ... ok");
}
