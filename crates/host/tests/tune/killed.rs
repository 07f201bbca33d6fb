//! `apply` and `revert` killed at every system call that changes a file, and refused by every
//! errno.
//!
//! This program runs itself again under strace, which kills the child with SIGKILL at the N-th
//! call, or lets one call fail. A tree of plain files takes the machine's place. Without strace it
//! says so and proves nothing.

use std::collections::BTreeMap;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};

use tempfile::TempDir;

use super::CHILD;

/// Every call that `apply` and `revert` change files with. strace counts each by itself.
const CALLS: &[&str] =
    &["write", "renameat", "renameat2", "fsync", "mkdirat", "unlinkat", "fchmod"];
/// Far more calls than one run makes.
const CALLS_MAX: usize = 1_000;

const MACHINE: &[(&str, &str)] = &[
    ("proc/sys/kernel/random/boot_id", "3f0c\n"),
    ("proc/sys/vm/zone_reclaim_mode", "1\n"),
    ("proc/sys/vm/overcommit_memory", "0\n"),
    ("proc/sys/net/core/somaxconn", "128\n"),
    ("proc/sys/net/ipv4/tcp_max_syn_backlog", "128\n"),
    ("proc/sys/fs/nr_open", "1048576\n"),
    ("proc/sys/fs/file-max", "1048576\n"),
    ("proc/net/netstat", "TcpExt: ListenOverflows\nTcpExt: 0\n"),
    (
        "proc/42/limits",
        "Max open files            1024                 4096                 files\n",
    ),
    ("proc/42/cgroup", "0::/system.slice/valkey.service\n"),
    ("proc/42/task/42/status", "Name:\tvalkey\nCpus_allowed_list:\t0-3\n"),
    ("proc/irq/24/smp_affinity_list", "0-1\n"),
    ("tidemill/pid", "42\n"),
    ("sys/kernel/mm/transparent_hugepage/enabled", "[always] madvise never\n"),
    ("sys/kernel/mm/transparent_hugepage/defrag", "[always] defer madvise never\n"),
    ("sys/devices/system/cpu/online", "0-3\n"),
    ("sys/devices/system/cpu/cpu0/topology/core_cpus_list", "0\n"),
    ("sys/devices/system/cpu/cpu1/topology/core_cpus_list", "1\n"),
    ("sys/devices/system/cpu/cpu2/topology/core_cpus_list", "2\n"),
    ("sys/devices/system/cpu/cpu3/topology/core_cpus_list", "3\n"),
    ("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "powersave\n"),
    ("sys/class/net/eth0/operstate", "up\n"),
    ("sys/class/net/eth0/device/msi_irqs/24", "msix\n"),
    ("sys/class/net/eth0/queues/rx-0/rps_cpus", "f\n"),
];

const JOURNAL: &str = "var/lib/tidemill-tune/journal.json";

type Files = BTreeMap<String, String>;

fn directory() -> TempDir {
    // Kept in memory where possible: a run syncs some forty files.
    let memory = tempfile::tempdir_in("/dev/shm");
    memory.or_else(|_| tempfile::tempdir()).unwrap()
}

fn put(directory: &Path, path: &str, text: &str) {
    let path = directory.join(path);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

fn machine() -> TempDir {
    let directory = directory();
    for (path, text) in MACHINE {
        put(directory.path(), path, text);
    }
    directory
}

fn copy(from: &Path) -> TempDir {
    let to = directory();
    for (path, text) in files(from) {
        put(to.path(), &path, &text);
    }
    let journal = std::fs::read_to_string(from.join(JOURNAL)).unwrap();
    put(to.path(), JOURNAL, &journal);
    to
}

/// Every file but those of the journal's own directory.
fn files(directory: &Path) -> Files {
    let mut found = Files::new();
    let mut open = vec![directory.to_owned()];
    while let Some(next) = open.pop() {
        for path in std::fs::read_dir(next).unwrap().map(|entry| entry.unwrap().path()) {
            let name = path.strip_prefix(directory).unwrap().to_str().unwrap().to_owned();
            if path.is_dir() {
                open.push(path);
            } else if !name.starts_with("var/lib/tidemill-tune/") {
                found.insert(name, std::fs::read_to_string(&path).unwrap());
            }
        }
    }
    found
}

/// A run of `tidemill tune` over a tree, with an injection of strace's where one is given.
fn tune(root: &Path, words: &[&str], inject: Option<String>) -> (ExitStatus, String) {
    let own = std::env::current_exe().unwrap();
    let mut command = match inject {
        None => Command::new(own),
        Some(inject) => {
            let mut command = Command::new("strace");
            command.args(["-qq", "-o", "/dev/null", "-e"]).arg(format!("inject={inject}")).arg(own);
            command
        }
    };
    command.arg(CHILD).args(words).arg("--root").arg(root).stdin(Stdio::null());
    let output = command.output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    (output.status, String::from_utf8(text).unwrap())
}

const APPLY: &[&str] = &["apply", "--yes", "--persist", "--interval", "0"];
const REVERT: &[&str] = &["revert"];

/// Runs a command that is killed at the `number`-th `call`; whether it was.
fn killed(root: &Path, words: &[&str], call: &str, number: usize) -> bool {
    let (status, text) = tune(root, words, Some(format!("{call}:signal=KILL:when={number}")));
    assert!(status.signal() == Some(9) || status.success(), "{status}: {text}");
    status.signal().is_some()
}

fn check_same(found: &Files, wanted: &Files, after_what: &str) {
    let names = found.keys().chain(wanted.keys());
    let mut names = names.filter(|name| found.get(*name) != wanted.get(*name));
    if let Some(name) = names.next() {
        panic!("{name}: {:?}, not {:?}, {after_what}", found.get(name), wanted.get(name));
    }
}

/// Reverts undisturbed and compares everything with how it was.
fn check_reverted(root: &Path, before: &Files, after_what: &str) {
    let (status, text) = tune(root, REVERT, None);
    assert!(status.success(), "revert after {after_what}: {status}\n{text}");
    check_same(&files(root), before, &format!("{after_what}\n{text}"));
    let (status, text) = tune(root, REVERT, None);
    assert!(status.success() && text == "nothing to revert\n", "after {after_what}: {text}");
}

/// Kills at each call until the command ends by itself; how often it was killed.
fn at_each_call(mut killed_and_checked: impl FnMut(&str, usize) -> bool) -> usize {
    let up_to = |call: &&str| {
        let last = (1..CALLS_MAX).find(|&number| !killed_and_checked(call, number));
        last.expect("the command ends by itself at some time") - 1
    };
    CALLS.iter().map(up_to).sum()
}

fn revert_restores_everything_after_apply_was_killed_at_any_call() -> usize {
    let before = files(machine().path());
    at_each_call(|call, number| {
        let tree = machine();
        let was_killed = killed(tree.path(), APPLY, call, number);
        if !was_killed {
            assert_ne!(files(tree.path()), before, "apply changed nothing");
        }
        check_reverted(tree.path(), &before, &format!("apply killed at {call} {number}"));
        was_killed
    })
}

fn revert_restores_everything_after_revert_was_killed_at_any_call() -> usize {
    let before = files(machine().path());
    let applied = machine();
    let (status, text) = tune(applied.path(), APPLY, None);
    assert!(status.success(), "{status}\n{text}");
    at_each_call(|call, number| {
        let tree = copy(applied.path());
        let was_killed = killed(tree.path(), REVERT, call, number);
        check_reverted(tree.path(), &before, &format!("revert killed at {call} {number}"));
        was_killed
    })
}

fn apply_goes_on_after_apply_and_revert_were_killed() {
    let before = files(machine().path());
    let whole = machine();
    tune(whole.path(), APPLY, None);
    let after = files(whole.path());
    for number in 1..CALLS_MAX {
        let tree = machine();
        if !killed(tree.path(), APPLY, "fsync", number) {
            return;
        }
        // The first one's end decides if this one is killed: both are worth trying.
        killed(tree.path(), REVERT, "fsync", number * 7 % 50 + 1);
        let (status, again) = tune(tree.path(), APPLY, None);
        assert!(status.success(), "{status}\n{again}");
        check_same(&files(tree.path()), &after, &format!("apply after a kill at fsync {number}"));
        check_reverted(
            tree.path(),
            &before,
            &format!("apply killed at fsync {number}, then again"),
        );
    }
}

fn each_refusal_has_its_own_words_and_stops_nothing_else() {
    let before = files(machine().path());
    let is_root = std::fs::metadata("/proc/self").is_ok_and(|own| {
        use std::os::unix::fs::MetadataExt;
        own.uid() == 0
    });
    let denied = if is_root { "refused even to root" } else { "not permitted" };
    for (errno, says) in [
        ("ENOENT", "absent"),
        ("EROFS", "read-only"),
        ("EACCES", "not permitted"),
        ("EPERM", denied),
        ("EBUSY", "busy"),
        ("EINVAL", "value refused"),
        ("EIO", "refused by the device"),
    ] {
        // The first rename is the journal's, the second the first value's.
        let tree = machine();
        let renames = format!("renameat,renameat2:error={errno}:when=2");
        let (status, text) = tune(tree.path(), APPLY, Some(renames));
        assert_eq!(status.code(), Some(1), "{errno}: {text}");
        let refused: Vec<&str> = text.lines().filter(|line| line.starts_with("refused ")).collect();
        assert_eq!(refused.len(), 1, "{errno}: {text}");
        assert!(refused[0].contains(says), "{errno}: {}", refused[0]);
        assert!(text.lines().filter(|line| line.starts_with("applied ")).count() >= 5, "{text}");
        check_reverted(tree.path(), &before, errno);

        let tree = machine();
        let renames = format!("renameat,renameat2:error={errno}:when=1");
        let (status, text) = tune(tree.path(), APPLY, Some(renames));
        assert_eq!(status.code(), Some(2), "{errno}: {text}");
        assert_eq!(text.lines().count(), 1, "{errno}: {text}");
        assert!(text.contains("undo journal") && text.contains(says), "{errno}: {text}");
        let left: Files = files(tree.path());
        assert_eq!(left, before, "{errno}");
    }
}

/// Runs all tests of this part.
pub fn all() {
    let strace = Command::new("strace").args(["-qq", "-o", "/dev/null", "true"]).status();
    if !strace.is_ok_and(|status| status.success()) {
        eprintln!("no strace that may trace: not tested");
        return;
    }
    let apply_calls = revert_restores_everything_after_apply_was_killed_at_any_call();
    println!("apply killed at each of its {apply_calls} calls ... ok");
    let revert_calls = revert_restores_everything_after_revert_was_killed_at_any_call();
    println!("revert killed at each of its {revert_calls} calls ... ok");
    assert!(apply_calls > 20 && revert_calls > 20, "strace saw too few calls");
    apply_goes_on_after_apply_and_revert_were_killed();
    println!("apply after both were killed ... ok");
    each_refusal_has_its_own_words_and_stops_nothing_else();
    println!("each errno ... ok");
}
