//! Verdicts on trees made up here: what each says, and that nothing readable never means healthy.

use super::*;
use crate::Root;
use crate::facts::{Inspect, Server};
use crate::testing::tree;

const CPUS: &[(&str, &str)] = &[
    ("sys/devices/system/cpu/online", "0-1\n"),
    ("sys/devices/system/cpu/cpu0/topology/core_cpus_list", "0\n"),
    ("sys/devices/system/cpu/cpu1/topology/core_cpus_list", "1\n"),
];

pub(super) fn judge(root: &Root, id: &str) -> Finding {
    let server = Server::captured(root).unwrap();
    let host = Host::read(root, Inspect { server, ..Inspect::default() });
    all().find(|rule| rule.id == id).unwrap().judge(&host)
}

fn verdict(id: &str, files: &[(&str, &str)]) -> Verdict {
    let all: Vec<_> = CPUS.iter().chain(files).copied().collect();
    judge(&tree(&all).1, id).verdict
}

#[test]
fn an_empty_capture_is_never_called_healthy_by_a_rule_of_the_kernel() {
    let (_directory, root) = tree(&[("nothing", "")]);
    let host = Host::read(&root, Inspect::default());
    for finding in examine(&host).iter().filter(|finding| finding.id.starts_with('R')) {
        assert!(
            matches!(finding.verdict, Verdict::CannotTell | Verdict::NotApplicable),
            "{} {}",
            finding.id,
            finding.summary
        );
    }
}

#[test]
fn huge_pages_are_a_problem_only_to_a_server_that_forks() {
    const ENABLED: &str = "sys/kernel/mm/transparent_hugepage/enabled";
    let always = (ENABLED, "[always] madvise never");
    assert_eq!(verdict("R1", &[always]), Verdict::Advice);
    let valkey = ("tidemill/info", "valkey_version:9.1.2\ntotal_forks:3\n");
    assert_eq!(verdict("R1", &[always, valkey]), Verdict::Problem);
    assert_eq!(verdict("R1", &[(ENABLED, "always [madvise] never"), valkey]), Verdict::Ok);
    let ours = ("tidemill/info", "tidemill_version:1\n");
    assert_eq!(verdict("R1", &[(ENABLED, "always madvise [never]"), ours]), Verdict::Advice);
    let other = ("sys/kernel/mm/other", "");
    assert_eq!(verdict("R1", &[other]), Verdict::CannotTell);
    let sysctl = ("proc/sys/vm/swappiness", "1\n");
    assert_eq!(verdict("R1", &[other, sysctl]), Verdict::NotApplicable);
    assert_eq!(verdict("R1", &[(ENABLED, "nonsense")]), Verdict::CannotTell);
}

#[test]
fn throttling_outranks_every_other_problem() {
    let mounts = ("proc/mounts", "cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n");
    let group = ("proc/self/cgroup", "0::/a\n");
    let limit = ("sys/fs/cgroup/a/cpu.max", "200000 100000\n");
    let stat = ("sys/fs/cgroup/a/cpu.stat", "nr_periods 9\nnr_throttled 4\n");
    let never = ("sys/fs/cgroup/a/cpu.stat", "nr_periods 9\nnr_throttled 0\n");
    assert_eq!(verdict("R20", &[mounts, group, limit, never]), Verdict::Ok);
    assert_eq!(verdict("R20", &[mounts, group, limit]), Verdict::CannotTell);
    let swaps = ("proc/sys/vm/zone_reclaim_mode", "1\n");
    let files: Vec<_> = CPUS.iter().chain(&[mounts, group, limit, stat, swaps]).copied().collect();
    let (_directory, root) = tree(&files);
    let findings = examine(&Host::read(&root, Inspect::default()));
    assert_eq!((findings[0].id, findings[0].verdict), ("R20", Verdict::Problem));
    assert!(findings.iter().any(|other| other.id == "R5" && other.verdict == Verdict::Problem));
}

#[test]
fn counters_are_judged_by_growth_between_two_samples() {
    let scale = ("proc/sys/vm/watermark_scale_factor", "10\n");
    let first = ("proc/vmstat", "allocstall_normal 5\n");
    assert_eq!(verdict("R4", &[scale, first]), Verdict::CannotTell);
    assert_eq!(
        verdict("R4", &[scale, first, ("second/proc/vmstat", "allocstall_normal 5\n")]),
        Verdict::Ok
    );
    let grown = ("second/proc/vmstat", "allocstall_normal 6\n");
    assert_eq!(verdict("R4", &[scale, first, grown]), Verdict::Problem);
    assert_eq!(verdict("R4", &[("proc/sys/vm/swappiness", "1\n"), first]), Verdict::NotApplicable);
}

#[test]
fn packets_are_steered_when_one_cpu_is_saturated_with_them() {
    // 16 CPUs, two of them for interrupts, one queue that is not steered.
    let mut files = vec![
        ("sys/devices/system/cpu/online".to_owned(), "0-15\n".to_owned()),
        ("sys/class/net/eth0/operstate".to_owned(), "up\n".to_owned()),
        ("sys/class/net/eth0/device/uevent".to_owned(), String::new()),
        ("sys/class/net/eth0/queues/rx-0/rps_cpus".to_owned(), "0000\n".to_owned()),
    ];
    for cpu in 0..16 {
        let path = format!("sys/devices/system/cpu/cpu{cpu}/topology/core_cpus_list");
        files.push((path, format!("{cpu}\n")));
    }
    let with = |second: &str| {
        let stat = ("proc/stat", "cpu 9 0 9 9 0 0 9 0\ncpu3 5 0 5 90 0 0 100 0\nintr 5\n");
        let second = ("second/proc/stat", second);
        let files = files.iter().map(|(path, text)| (path.as_str(), text.as_str()));
        let files: Vec<_> = files.chain([stat, second]).collect();
        judge(&tree(&files).1, "R10")
    };
    let saturated = with("cpu 9 0 9 9 0 0 9 0\ncpu3 5 0 5 100 0 0 190 0\nintr 5\n");
    assert_eq!(saturated.verdict, Verdict::Advice, "{saturated:#?}");
    assert_eq!(saturated.changes[0].to, "f000", "{saturated:#?}");
    assert!(
        saturated.evidence.iter().any(|line| line.contains("90 % of the time in softirq on CPU 3"))
    );
    assert_eq!(with("cpu3 5 0 5 180 0 0 110 0\n").verdict, Verdict::Ok);
}

#[test]
fn sysctls_of_forking_swapping_and_reclaiming_machines() {
    const OVERCOMMIT: &str = "proc/sys/vm/overcommit_memory";
    assert_eq!(verdict("R2", &[(OVERCOMMIT, "1\n")]), Verdict::Ok);
    assert_eq!(verdict("R2", &[(OVERCOMMIT, "2\n")]), Verdict::NotApplicable);
    assert_eq!(verdict("R2", &[(OVERCOMMIT, "0\n")]), Verdict::Advice);
    assert_eq!(verdict("R2", &[]), Verdict::CannotTell);
    assert_eq!(verdict("R5", &[("proc/sys/vm/zone_reclaim_mode", "0\n")]), Verdict::Ok);
    assert_eq!(verdict("R5", &[("proc/sys/vm/swappiness", "1\n")]), Verdict::NotApplicable);
    assert_eq!(verdict("R3", &[("proc/swaps", "Filename\n")]), Verdict::NotApplicable);
}

#[test]
fn under_eevdf_a_preempted_thread_is_advised_a_longer_slice() {
    let sched = [
        ("proc/sys/kernel/other", "1\n"),
        ("sys/kernel/debug/sched/base_slice_ns", "3000000\n"),
        ("sys/kernel/debug/sched/features", "PLACE_LAG RUN_TO_PARITY\n"),
        ("tidemill/pid", "7\n"),
        ("proc/7/task/7/status", "nonvoluntary_ctxt_switches:\t5\n"),
        // Started after the first sample.
        ("proc/7/task/9/comm", "new\n"),
    ];
    let with = |more: &[(&'static str, &'static str)]| verdict("R21", &[&sched[..], more].concat());
    let later = "second/proc/7/task/7/status";
    assert_eq!(with(&[(later, "nonvoluntary_ctxt_switches:\t6\n")]), Verdict::Ok);
    assert_eq!(with(&[(later, "nonvoluntary_ctxt_switches:\t900\n")]), Verdict::Advice);
    let off = ("sys/kernel/debug/sched/features", "NO_RUN_TO_PARITY\n");
    assert_eq!(with(&[off]), Verdict::Advice);
}

#[test]
fn without_a_topology_rules_name_the_path_and_the_kernels_answer() {
    let (_directory, root) =
        tree(&[("sys/class/net/lo/operstate", "unknown\n"), ("proc/irq/1/x", "")]);
    for id in ["R10", "R11", "R16", "R18"] {
        let finding = judge(&root, id);
        assert_eq!(finding.verdict, Verdict::CannotTell, "{id}");
        assert!(
            finding.summary.contains("/sys/devices/system/cpu: absent"),
            "{id}: {}",
            finding.summary
        );
        assert!(finding.summary.contains("os error 2"), "{id}: {}", finding.summary);
    }
}

#[test]
fn maxclients_that_a_server_lowered_to_its_descriptors_are_a_problem() {
    let judged = |maxclients: &str, limits: &str| {
        let kernel = [("proc/sys/fs/nr_open", "1048576\n"), ("proc/sys/fs/file-max", "1048576\n")];
        let config = format!("maxclients {maxclients}\n");
        let limits = format!("Max open files            {limits}                 files\n");
        let server = [("tidemill/pid", "7\n"), ("proc/7/limits", &limits)];
        let group = [("proc/7/cgroup", "0::/system.slice/valkey.service\n")];
        let told = [("tidemill/info", "valkey_version:9.1.2\n"), ("tidemill/config", &config)];
        let files = [&kernel[..], &server[..], &group[..], &told[..]].concat();
        judge(&tree(&files).1, "R15")
    };
    let lowered = judged("2016", "2048                 2048");
    assert_eq!(lowered.verdict, Verdict::Problem, "{}", lowered.summary);
    assert_eq!((&*lowered.changes[0].from, &*lowered.changes[0].to), ("2048", "10032"));
    assert_eq!(judged("4960", "4992                 5000").verdict, Verdict::Problem);
    // Room to raise the limit further: this many clients are what was asked for.
    assert_eq!(judged("2016", "2048                 4096").verdict, Verdict::Ok);
    assert_eq!(judged("1000", "2048                 2048").verdict, Verdict::Ok);
    assert_eq!(judged("100", "65536                65536").verdict, Verdict::Ok);
    assert_eq!(judged("10000", "10032                10032").verdict, Verdict::Ok);
}

/// docs/tuning/rules.md.
fn document() -> String {
    let mut text = "# Rules of `tidemill tune doctor`\n\n\
        Written by a test from the rules themselves (crates/host/src/rules). \"Measured\" is what \
        a rule's source found; `tidemill tune ab` finds what it is worth here.\n\n\
        | rule | about | why it matters | measured |\n|---|---|---|---|\n"
        .to_owned();
    let mut rules: Vec<&Rule> = all().collect();
    // R1 to R27 by number, then the server's settings.
    let number = |rule: &Rule| rule.id.strip_prefix('R').and_then(|id| id.parse::<u32>().ok());
    rules.sort_by_key(|rule| number(rule).unwrap_or(u32::MAX));
    for rule in rules {
        text += &format!("| {} | {} | {} | {} |\n", rule.id, rule.title, rule.why, rule.effect);
    }
    text
}

#[test]
fn the_document_of_the_rules_is_fresh() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/tuning/rules.md");
    if std::env::var_os("TIDEMILL_WRITE_DOCS").is_some() {
        std::fs::write(path, document()).unwrap();
    }
    let written = std::fs::read_to_string(path).unwrap_or_default();
    assert_eq!(written, document(), "run with TIDEMILL_WRITE_DOCS=1 to write docs/tuning/rules.md");
}
