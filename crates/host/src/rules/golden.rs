//! One tree per rule and verdict: as it should be, a finding, without a subject, not to be told.
//!
//! A last test counts: a rule without a golden tree for a verdict must be among those that cannot
//! have one.

use std::collections::BTreeSet;

use super::tests::judge;
use super::*;
use crate::testing::tree;

/// Verdict of the rule on a golden tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Ok,
    Finding,
    NotApplicable,
    CannotTell,
}

use Kind::{CannotTell, Finding as Found, NotApplicable, Ok as Healthy};

type Files = &'static [(&'static str, &'static str)];
type Golden = (&'static str, Kind, &'static [Files]);

const NOTHING: Files = &[("nothing", "")];
const TWO_CPUS: Files = &[
    ("sys/devices/system/cpu/online", "0-1\n"),
    ("sys/devices/system/cpu/cpu0/topology/core_cpus_list", "0\n"),
    ("sys/devices/system/cpu/cpu1/topology/core_cpus_list", "1\n"),
];
/// Three workers on CPU 0 to 2, interrupts on CPU 3.
const FOUR_CPUS: Files = &[
    ("sys/devices/system/cpu/online", "0-3\n"),
    ("sys/devices/system/cpu/cpu0/topology/core_cpus_list", "0\n"),
    ("sys/devices/system/cpu/cpu1/topology/core_cpus_list", "1\n"),
    ("sys/devices/system/cpu/cpu2/topology/core_cpus_list", "2\n"),
    ("sys/devices/system/cpu/cpu3/topology/core_cpus_list", "3\n"),
];
const SIBLINGS: Files = &[
    ("sys/devices/system/cpu/online", "0-3\n"),
    ("sys/devices/system/cpu/cpu0/topology/core_cpus_list", "0,2\n"),
    ("sys/devices/system/cpu/cpu1/topology/core_cpus_list", "1,3\n"),
    ("sys/devices/system/cpu/cpu2/topology/core_cpus_list", "0,2\n"),
    ("sys/devices/system/cpu/cpu3/topology/core_cpus_list", "1,3\n"),
];
const TWO_NODES: Files = &[
    ("sys/devices/system/node/node0/cpulist", "0-1\n"),
    ("sys/devices/system/node/node1/cpulist", "2-3\n"),
    ("tidemill/pid", "7\n"),
    ("proc/7/status", "Cpus_allowed_list:\t0-1\n"),
];
const NIC: Files = &[
    ("sys/class/net/eth0/operstate", "up\n"),
    ("sys/class/net/eth0/device/msi_irqs/24", "msix\n"),
    ("sys/class/net/eth0/queues/tx-0/xps_cpus", "0\n"),
];
/// Two CPUs for interrupts.
const SIXTEEN_CPUS: Files = &[
    ("sys/devices/system/cpu/online", "0-15\n"),
    ("sys/devices/system/cpu/cpu0/topology/core_cpus_list", "0\n"),
    ("sys/devices/system/cpu/cpu1/topology/core_cpus_list", "1\n"),
    ("sys/devices/system/cpu/cpu2/topology/core_cpus_list", "2\n"),
    ("sys/devices/system/cpu/cpu3/topology/core_cpus_list", "3\n"),
    ("sys/devices/system/cpu/cpu4/topology/core_cpus_list", "4\n"),
    ("sys/devices/system/cpu/cpu5/topology/core_cpus_list", "5\n"),
    ("sys/devices/system/cpu/cpu6/topology/core_cpus_list", "6\n"),
    ("sys/devices/system/cpu/cpu7/topology/core_cpus_list", "7\n"),
    ("sys/devices/system/cpu/cpu8/topology/core_cpus_list", "8\n"),
    ("sys/devices/system/cpu/cpu9/topology/core_cpus_list", "9\n"),
    ("sys/devices/system/cpu/cpu10/topology/core_cpus_list", "10\n"),
    ("sys/devices/system/cpu/cpu11/topology/core_cpus_list", "11\n"),
    ("sys/devices/system/cpu/cpu12/topology/core_cpus_list", "12\n"),
    ("sys/devices/system/cpu/cpu13/topology/core_cpus_list", "13\n"),
    ("sys/devices/system/cpu/cpu14/topology/core_cpus_list", "14\n"),
    ("sys/devices/system/cpu/cpu15/topology/core_cpus_list", "15\n"),
];
const QUEUES: &str = "tidemill/channels/eth0/combined";
const QUEUES_MAX: &str = "tidemill/channels/eth0/combined_max";
const NO_NIC: Files = &[("sys/class/net/lo/operstate", "unknown\n")];
/// A server of a systemd unit, in swap, with memory left.
const SWAPPED: Files = &[
    ("proc/swaps", "Filename\n/swap\n"),
    ("proc/sys/vm/swappiness", "1\n"),
    ("proc/vmstat", "pswpin 0\n"),
    ("proc/meminfo", "MemTotal: 100000 kB\nMemAvailable: 40000 kB\n"),
    ("proc/mounts", "cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n"),
    ("tidemill/pid", "7\n"),
    ("proc/7/status", "VmSwap:\t 500 kB\n"),
    ("proc/7/cgroup", "0::/system.slice/valkey.service\n"),
    ("sys/fs/cgroup/system.slice/valkey.service/memory.swap.max", "max\n"),
];
const OTHER_SYSCTLS: Files = &[
    ("proc/sys/vm/other", "1\n"),
    ("proc/sys/net/core/other", "1\n"),
    ("sys/kernel/mm/other", ""),
];
const VALKEY: Files = &[("tidemill/info", "valkey_version:9.1.2\n")];
/// Two threads, the main one on CPU 0.
const THREADS: Files = &[
    ("tidemill/pid", "7\n"),
    ("proc/7/task/7/status", "Name:\tvalkey\nCpus_allowed_list:\t0\n"),
    ("proc/7/task/8/status", "Name:\tbio\nCpus_allowed_list:\t1\n"),
];
/// Its first worker on CPU 0.
const TIDEMILL: Files = &[
    ("tidemill/pid", "7\n"),
    ("tidemill/info", "tidemill_version:1\n"),
    ("proc/7/task/7/status", "Name:\tworker-0\nCpus_allowed_list:\t0\n"),
];
const GROUP: Files = &[
    ("proc/mounts", "cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n"),
    ("proc/self/cgroup", "0::/a\n"),
    ("sys/fs/cgroup/a/cpu.max", "200000 100000\n"),
];
const MEMORY: Files = &[("proc/meminfo", "MemTotal: 1000 kB\n")];

const THP: &str = "sys/kernel/mm/transparent_hugepage/enabled";
const RPS: &str = "sys/class/net/eth0/queues/rx-0/rps_cpus";
const IRQ: &str = "proc/irq/24/smp_affinity_list";
const IRQ_EFFECTIVE: &str = "proc/irq/24/effective_affinity_list";
const GOVERNOR: &str = "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor";
const SLEEP: Files = &[
    ("sys/devices/system/cpu/cpuidle/current_driver", "intel_idle\n"),
    ("sys/devices/system/cpu/cpu0/cpuidle/state1/latency", "100\n"),
    ("sys/devices/system/cpu/cpu1/cpuidle/state1/latency", "2\n"),
    ("sys/devices/system/cpu/cpu1/power/pm_qos_resume_latency_us", "0\n"),
];
const QOS: &str = "sys/devices/system/cpu/cpu0/power/pm_qos_resume_latency_us";
const PREEMPTED: Files = &[
    ("proc/sys/kernel/sched_latency_ns", "6000000\n"),
    ("tidemill/pid", "7\n"),
    ("proc/7/task/7/status", "nonvoluntary_ctxt_switches:\t1\n"),
    ("second/proc/7/task/7/status", "nonvoluntary_ctxt_switches:\t900\n"),
];
const WAKEUP: &str = "proc/sys/kernel/sched_wakeup_granularity_ns";
const CLOCK: &str = "sys/devices/system/clocksource/clocksource0/current_clocksource";
const CLOCKS: Files =
    &[("sys/devices/system/clocksource/clocksource0/available_clocksource", "tsc hpet acpi_pm\n")];
const VULNERABILITY: &str = "sys/devices/system/cpu/vulnerabilities/meltdown";
const ARM: Files =
    &[("proc/cpuinfo", "CPU implementer\t: 0x41\n"), (THP, "[always] madvise never\n")];
const PMD: &str = "sys/kernel/mm/transparent_hugepage/hpage_pmd_size";
const GUEST: Files = &[("proc/cpuinfo", "flags\t\t: fpu hypervisor\n")];
const CONNTRACK_MAX: Files = &[("proc/sys/net/netfilter/nf_conntrack_max", "100\n")];
const CONNTRACK: &str = "proc/sys/net/netfilter/nf_conntrack_count";
const TCP: &str = "proc/net/tcp";
const CONFIG: &str = "tidemill/config";
const INFO: &str = "tidemill/info";

#[rustfmt::skip]
const GOLDEN: &[Golden] = &[
    ("R1", Healthy, &[&[(THP, "always [madvise] never\n")]]),
    ("R1", Found, &[&[(THP, "[always] madvise never\n")]]),
    ("R1", NotApplicable, &[OTHER_SYSCTLS]),
    ("R1", CannotTell, &[NOTHING]),
    ("R2", Healthy, &[&[("proc/sys/vm/overcommit_memory", "1\n")]]),
    ("R2", Found, &[&[("proc/sys/vm/overcommit_memory", "0\n")]]),
    ("R2", NotApplicable, &[&[("proc/sys/vm/overcommit_memory", "2\n")]]),
    ("R2", CannotTell, &[OTHER_SYSCTLS]),
    ("R3", Healthy, &[&[("proc/swaps", "Filename\n/swap\n"), ("proc/sys/vm/swappiness", "1\n"), ("proc/vmstat", "pswpin 0\n")]]),
    ("R3", Found, &[&[("proc/swaps", "Filename\n/swap\n"), ("proc/sys/vm/swappiness", "60\n"), ("proc/vmstat", "pswpin 0\n")]]),
    ("R3", Found, &[SWAPPED, &[("tidemill/info", "valkey_version:9.1.2\nconnected_slaves:1\n")]]),
    ("R3", NotApplicable, &[&[("proc/swaps", "Filename\n")]]),
    ("R3", CannotTell, &[NOTHING]),
    ("R4", Healthy, &[&[("proc/sys/vm/watermark_scale_factor", "10\n"), ("proc/vmstat", "allocstall_normal 0\n")]]),
    ("R4", Found, &[&[("proc/sys/vm/watermark_scale_factor", "10\n"), ("proc/vmstat", "allocstall_normal 0\n"), ("second/proc/vmstat", "allocstall_normal 9\n")]]),
    ("R4", NotApplicable, &[OTHER_SYSCTLS]),
    ("R4", CannotTell, &[NOTHING]),
    ("R5", Healthy, &[&[("proc/sys/vm/zone_reclaim_mode", "0\n")]]),
    ("R5", Found, &[&[("proc/sys/vm/zone_reclaim_mode", "1\n")]]),
    ("R5", NotApplicable, &[OTHER_SYSCTLS]),
    ("R5", CannotTell, &[NOTHING]),
    ("R6", Healthy, &[FOUR_CPUS, TWO_NODES, &[("proc/sys/kernel/numa_balancing", "0\n"), ("proc/7/numa_maps", "0 default anon=9 N0=99 N1=1 kernelpagesize_kB=4\n")]]),
    ("R6", Found, &[FOUR_CPUS, TWO_NODES, &[("proc/sys/kernel/numa_balancing", "1\n"), ("proc/vmstat", "numa_hint_faults 1\n"), ("second/proc/vmstat", "numa_hint_faults 9\n")]]),
    ("R6", Found, &[FOUR_CPUS, TWO_NODES, &[("proc/sys/kernel/numa_balancing", "0\n"), ("proc/7/numa_maps", "0 default N0=900 N1=1 kernelpagesize_kB=4\n1 default N1=9 kernelpagesize_kB=2048\n")]]),
    ("R6", NotApplicable, &[FOUR_CPUS, &[("proc/sys/kernel/numa_balancing", "1\n"), ("sys/devices/system/node/node0/cpulist", "0-3\n")]]),
    ("R6", CannotTell, &[NOTHING]),
    ("R7", Healthy, &[&[("proc/sys/net/core/somaxconn", "4096\n"), ("proc/sys/net/ipv4/tcp_max_syn_backlog", "4096\n"), ("proc/net/netstat", "TcpExt: ListenOverflows\nTcpExt: 0\n")]]),
    ("R7", Found, &[&[("proc/sys/net/core/somaxconn", "128\n"), ("proc/sys/net/ipv4/tcp_max_syn_backlog", "4096\n"), ("proc/net/netstat", "TcpExt: ListenOverflows\nTcpExt: 0\n")]]),
    ("R7", CannotTell, &[OTHER_SYSCTLS]),
    ("R8", Healthy, &[&[("proc/net/softnet_stat", "00000009 00000000 00000000\n")]]),
    ("R8", Found, &[OTHER_SYSCTLS, &[("proc/net/softnet_stat", "00000009 00000000 00000000\n"), ("second/proc/net/softnet_stat", "00000009 00000003 00000000\n")]]),
    ("R8", CannotTell, &[NOTHING]),
    ("R9", Healthy, &[&[("proc/sys/net/core/busy_poll", "0\n")]]),
    ("R9", Found, &[TWO_CPUS, NIC, &[("proc/sys/net/core/busy_poll", "50\n"), (RPS, "0\n"), ("sys/class/net/eth0/queues/rx-1/rps_cpus", "0\n")]]),
    ("R9", NotApplicable, &[OTHER_SYSCTLS]),
    ("R9", CannotTell, &[NOTHING]),
    ("R10", Healthy, &[FOUR_CPUS, NIC, &[(RPS, "8\n")]]),
    ("R10", Found, &[FOUR_CPUS, NIC, &[(RPS, "f\n")]]),
    ("R10", Found, &[FOUR_CPUS, NIC, VALKEY, &[(RPS, "8\n"), ("proc/sys/net/core/rps_sock_flow_entries", "32768\n")]]),
    ("R10", Found, &[FOUR_CPUS, NIC, &[(RPS, "0\n"), ("sys/class/net/eth0/queues/tx-1/xps_cpus", "0\n")]]),
    ("R10", NotApplicable, &[FOUR_CPUS, NO_NIC]),
    ("R10", CannotTell, &[FOUR_CPUS, NIC]),
    ("R11", Healthy, &[FOUR_CPUS, NIC, &[(IRQ, "3\n")]]),
    ("R11", Healthy, &[FOUR_CPUS, NIC, &[(IRQ, "3\n"), (IRQ_EFFECTIVE, "0\n")]]),
    ("R11", Found, &[FOUR_CPUS, NIC, &[(IRQ, "0-1\n")]]),
    ("R11", Found, &[SIXTEEN_CPUS, NIC, &[(IRQ, "12\n"), (QUEUES, "1\n"), (QUEUES_MAX, "8\n")]]),
    ("R11", NotApplicable, &[FOUR_CPUS, NO_NIC]),
    ("R11", CannotTell, &[FOUR_CPUS, NIC]),
    ("R12", Healthy, &[FOUR_CPUS, &[("tidemill/processes", "irqbalance\n"), ("etc/default/irqbalance", "IRQBALANCE_BANNED_CPULIST=\"0-2\"\n")]]),
    ("R12", Found, &[FOUR_CPUS, &[("tidemill/processes", "irqbalance\n"), ("etc/default/irqbalance", "IRQBALANCE_BANNED_CPULIST=1\n")]]),
    ("R12", NotApplicable, &[FOUR_CPUS, &[("tidemill/processes", "sshd\n")]]),
    ("R12", CannotTell, &[FOUR_CPUS]),
    ("R13", Healthy, &[TWO_CPUS, NIC, &[("tidemill/ethtool/eth0", "rx-usecs=3 rx-frames=0\n")]]),
    ("R13", Found, &[TWO_CPUS, NIC, &[("tidemill/ethtool/eth0", "rx-usecs=300 rx-frames=0\n")]]),
    ("R13", NotApplicable, &[TWO_CPUS, NO_NIC]),
    ("R13", CannotTell, &[TWO_CPUS, NIC]),
    ("R14", Healthy, &[&[(CONFIG, "repl-disable-tcp-nodelay no\n")]]),
    ("R14", Found, &[&[(CONFIG, "repl-disable-tcp-nodelay yes\n")]]),
    ("R14", NotApplicable, &[NOTHING]),
    ("R14", CannotTell, &[VALKEY]),
    ("R15", Healthy, &[&[("proc/sys/fs/nr_open", "1048576\n"), ("proc/sys/fs/file-max", "9223372036854775807\n")]]),
    ("R15", Found, &[&[("proc/sys/fs/nr_open", "1024\n"), ("proc/sys/fs/file-max", "1048576\n")]]),
    ("R15", CannotTell, &[NOTHING]),
    ("R16", Healthy, &[TWO_CPUS, &[(GOVERNOR, "performance\n")]]),
    ("R16", Found, &[TWO_CPUS, &[(GOVERNOR, "powersave\n")]]),
    ("R16", NotApplicable, &[TWO_CPUS]),
    ("R16", CannotTell, &[NOTHING]),
    ("R17", Healthy, &[TWO_CPUS, SLEEP, &[(QOS, "10\n")]]),
    ("R17", Found, &[TWO_CPUS, SLEEP, &[(QOS, "0\n")]]),
    ("R17", NotApplicable, &[TWO_CPUS, &[("sys/devices/system/cpu/cpuidle/current_driver", "none\n")]]),
    ("R17", CannotTell, &[TWO_CPUS, SLEEP]),
    ("R18", Healthy, &[SIBLINGS, THREADS]),
    ("R18", Healthy, &[SIBLINGS, TIDEMILL, &[("proc/7/task/8/status", "Name:\tsweep\nCpus_allowed_list:\t2\n")]]),
    ("R18", Found, &[SIBLINGS, TIDEMILL, &[("proc/7/task/8/status", "Name:\tworker-1\nCpus_allowed_list:\t2\n")]]),
    ("R18", Found, &[SIBLINGS, THREADS, &[("proc/7/task/8/status", "Name:\tio\nCpus_allowed_list:\t2\n")]]),
    ("R18", NotApplicable, &[TWO_CPUS]),
    ("R18", CannotTell, &[NOTHING]),
    ("R19", Healthy, &[FOUR_CPUS, &[("sys/devices/system/cpu/isolated", "3\n")]]),
    ("R19", Found, &[FOUR_CPUS, &[("sys/devices/system/cpu/nohz_full", "0-3\n")]]),
    ("R19", NotApplicable, &[FOUR_CPUS]),
    ("R19", CannotTell, &[NOTHING]),
    ("R20", Healthy, &[GROUP, &[("sys/fs/cgroup/a/cpu.stat", "nr_throttled 0\n")]]),
    ("R20", Found, &[GROUP, &[("sys/fs/cgroup/a/cpu.stat", "nr_throttled 3\n")]]),
    ("R20", NotApplicable, &[&[("proc/mounts", "none / ext4 rw 0 0\n"), ("proc/self/cgroup", "\n")]]),
    ("R20", CannotTell, &[GROUP]),
    ("R21", Healthy, &[PREEMPTED, &[(WAKEUP, "4000000\n")]]),
    ("R21", Found, &[PREEMPTED, &[(WAKEUP, "1000000\n")]]),
    ("R21", NotApplicable, &[&[("proc/sys/kernel/other", "1\n"), ("sys/kernel/debug/sched/preempt", "full\n")]]),
    ("R21", CannotTell, &[&[("proc/sys/kernel/other", "1\n")]]),
    ("R22", Healthy, &[CLOCKS, &[(CLOCK, "tsc\n")]]),
    ("R22", Found, &[CLOCKS, &[(CLOCK, "hpet\n")]]),
    ("R22", CannotTell, &[CLOCKS]),
    ("R23", Healthy, &[&[(CONFIG, "port 6379\n"), (TCP, "head\n0: 0100007F:18EB 0B00000A:9000 01\n")]]),
    ("R23", Found, &[&[(CONFIG, "port 6379\n"), (TCP, "head\n0: 0100007F:18EB 0100007F:9000 01\n")]]),
    ("R23", Found, &[&[(CONFIG, "port 6379\n"), (TCP, "head\n"), ("proc/net/tcp6", "head\n0: 00000000000000000000000001000000:18EB 00000000000000000000000001000000:9000 01\n")]]),
    ("R23", NotApplicable, &[NOTHING]),
    ("R23", CannotTell, &[VALKEY]),
    ("R24", Healthy, &[TWO_CPUS, &[(VULNERABILITY, "Mitigation: PTI\n")]]),
    ("R24", Found, &[TWO_CPUS, &[(VULNERABILITY, "Vulnerable\n")]]),
    ("R24", NotApplicable, &[TWO_CPUS]),
    ("R24", CannotTell, &[NOTHING]),
    ("R25", Healthy, &[GUEST, &[("proc/stat", "cpu 9 0 9 900 0 0 0 0\n")]]),
    ("R25", Found, &[GUEST, &[("proc/stat", "cpu 9 0 9 900 0 0 0 90\n")]]),
    ("R25", NotApplicable, &[&[("proc/cpuinfo", "flags\t\t: fpu\n")]]),
    ("R25", CannotTell, &[NOTHING]),
    ("R26", Healthy, &[ARM, &[(PMD, "2097152\n")]]),
    ("R26", Found, &[ARM, &[(PMD, "536870912\n")]]),
    ("R26", NotApplicable, &[GUEST]),
    ("R26", CannotTell, &[ARM]),
    ("R27", Healthy, &[CONNTRACK_MAX, &[(CONNTRACK, "5\n")]]),
    ("R27", Found, &[CONNTRACK_MAX, &[(CONNTRACK, "95\n")]]),
    ("R27", NotApplicable, &[OTHER_SYSCTLS]),
    ("R27", CannotTell, &[NOTHING]),
    ("affinity", Healthy, &[TWO_CPUS, THREADS]),
    ("affinity", Found, &[TWO_CPUS, THREADS, &[("proc/7/task/8/status", "Name:\tbio\nCpus_allowed_list:\t0\n")]]),
    ("affinity", NotApplicable, &[TWO_CPUS]),
    ("affinity", CannotTell, &[TWO_CPUS, VALKEY]),
    ("maxmemory", Healthy, &[MEMORY, &[(CONFIG, "maxmemory 768000\n")]]),
    ("maxmemory", Found, &[MEMORY, &[(CONFIG, "maxmemory 1000000\n")]]),
    ("maxmemory", NotApplicable, &[MEMORY]),
    ("maxmemory", CannotTell, &[MEMORY, VALKEY]),
    ("save", Healthy, &[&[(CONFIG, "save \n")]]),
    ("save", Found, &[VALKEY, &[(CONFIG, "save 3600 1\n")]]),
    ("save", NotApplicable, &[NOTHING]),
    ("save", CannotTell, &[VALKEY]),
    ("loglevel", Healthy, &[&[(CONFIG, "loglevel notice\n")]]),
    ("loglevel", Found, &[&[(CONFIG, "loglevel debug\n")]]),
    ("loglevel", NotApplicable, &[NOTHING]),
    ("loglevel", CannotTell, &[VALKEY]),
    ("allocator", Healthy, &[&[(INFO, "mem_allocator:jemalloc-5.3.0\n")]]),
    ("allocator", Found, &[&[(INFO, "mem_allocator:libc\n")]]),
    ("allocator", NotApplicable, &[NOTHING]),
    ("allocator", CannotTell, &[VALKEY]),
    ("value-size", Healthy, &[&[(INFO, "total_net_output_bytes:900\ntotal_commands_processed:9\n")]]),
    ("value-size", Found, &[&[(INFO, "total_net_output_bytes:90000\ntotal_commands_processed:9\n")]]),
    ("value-size", NotApplicable, &[NOTHING]),
    ("value-size", CannotTell, &[VALKEY]),
    ("data-directory", Healthy, &[&[(CONFIG, "dir /data\n"), ("proc/mounts", "/dev/sda1 / ext4 rw 0 0\n"), ("sys/block/sda/queue/rotational", "0\n")]]),
    ("data-directory", Found, &[&[(CONFIG, "dir /data/db\n"), ("proc/mounts", "/dev/sda1 / ext4 rw 0 0\nhost:/x /data nfs4 rw 0 0\n")]]),
    ("data-directory", NotApplicable, &[NOTHING]),
    ("data-directory", CannotTell, &[VALKEY]),
    ("tuners", Healthy, &[&[("etc/tuned/active_profile", "throughput-performance\n"), ("tidemill/processes", "bpftune\ntuned\n")]]),
    ("tuners", Found, &[&[("etc/tuned/active_profile", "balanced\n")]]),
    ("tuners", NotApplicable, &[&[("proc/1/comm", "systemd\n")]]),
    ("tuners", CannotTell, &[NOTHING]),
];

/// Verdicts a rule cannot give to a machine that runs servers, and why.
const IMPOSSIBLE: &[(&str, Kind, &str)] = &[
    ("R7", NotApplicable, "every kernel has accept queues; only machines of clients do without"),
    ("R8", NotApplicable, "every kernel with a network has packet queues"),
    ("R15", NotApplicable, "every kernel limits descriptors"),
    ("R22", NotApplicable, "every kernel reads some clock"),
];

fn kind(verdict: Verdict) -> Kind {
    match verdict {
        Verdict::Ok => Healthy,
        Verdict::Advice | Verdict::Problem => Found,
        Verdict::NotApplicable => NotApplicable,
        Verdict::CannotTell => CannotTell,
    }
}

#[test]
fn every_golden_tree_gets_its_verdict() {
    let mut wrong = Vec::new();
    for (id, wanted, parts) in GOLDEN {
        // Later files replace earlier ones of the same path.
        let (_directory, root) = tree(&parts.concat());
        let finding = judge(&root, id);
        if kind(finding.verdict) != *wanted {
            wrong
                .push(format!("{id}: {wanted:?} wanted, {}: {}", finding.verdict, finding.summary));
        }
        if *wanted == Found {
            assert!(!finding.action.is_empty(), "{id}: a finding without advice");
            assert!(!finding.evidence.is_empty(), "{id}: a finding without evidence");
        }
        if *wanted == CannotTell {
            assert!(!finding.summary.is_empty(), "{id}: silence");
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn every_rule_has_a_golden_tree_for_every_verdict_it_can_give() {
    let kinds = [Healthy, Found, NotApplicable, CannotTell];
    let covered: BTreeSet<_> = GOLDEN.iter().map(|(id, kind, _)| (*id, *kind)).collect();
    for rule in all() {
        for kind in kinds {
            let impossible =
                IMPOSSIBLE.iter().find(|(id, verdict, _)| (*id, *verdict) == (rule.id, kind));
            let is_covered = covered.contains(&(rule.id, kind));
            assert_ne!(is_covered, impossible.is_some(), "{} {kind:?} {impossible:?}", rule.id);
        }
    }
}

#[test]
fn the_rules_are_r1_to_r27_and_the_settings_of_servers_each_once() {
    let ids: Vec<&str> = all().map(|rule| rule.id).collect();
    for number in 1..=27 {
        let id = format!("R{number}");
        assert_eq!(ids.iter().filter(|known| **known == id).count(), 1, "{id}");
    }
    let of_servers =
        ["affinity", "maxmemory", "save", "loglevel", "allocator", "value-size", "data-directory"];
    assert!(of_servers.iter().all(|id| ids.contains(id)), "{ids:?}");
    assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), ids.len(), "{ids:?}");
}

/// Changes that a rule proposes for the tree of these files, as `path key: from -> to`.
fn proposed(id: &str, parts: &[Files]) -> Vec<String> {
    let (_directory, root) = tree(&parts.concat());
    let shown = |change: Change| {
        let key = match change.persistence {
            Persistence::DropIn { key, .. } => format!(" {key}"),
            _ => String::new(),
        };
        format!("{}{key}: {} -> {}", change.path, change.from, change.to)
    };
    judge(&root, id).changes.into_iter().map(shown).collect()
}

#[test]
fn a_server_is_kept_out_of_swap_only_with_replicas_and_headroom() {
    let replicas: Files = &[("tidemill/info", "valkey_version:9.1.2\nconnected_slaves:1\n")];
    let alone: Files = &[("tidemill/info", "valkey_version:9.1.2\nconnected_slaves:0\n")];
    let full: Files = &[("proc/meminfo", "MemTotal: 100000 kB\nMemAvailable: 10400 kB\n")];
    let no_unit: Files = &[("proc/7/cgroup", "0::/user.slice/session-1.scope\n")];
    assert_eq!(
        proposed("R3", &[SWAPPED, replicas]),
        ["/etc/systemd/system/valkey.service.d/90-tidemill.conf MemorySwapMax: max -> 0"]
    );
    for without in
        [&[SWAPPED, alone][..], &[SWAPPED, replicas, full], &[SWAPPED, replicas, no_unit]]
    {
        assert!(proposed("R3", without).is_empty(), "{without:?}");
    }
}

#[test]
fn queues_are_raised_to_the_cpus_for_interrupts_and_never_beyond_the_device() {
    let with = |combined: &'static str, most: &'static str| {
        let (_directory, root) = tree(&[SIXTEEN_CPUS, NIC, &[(IRQ, "12\n")]].concat());
        crate::testing::write(root.directory(), QUEUES, combined);
        crate::testing::write(root.directory(), QUEUES_MAX, most);
        judge(&root, "R11").changes.into_iter().map(|change| change.to).collect::<Vec<_>>()
    };
    assert_eq!(with("1\n", "8\n"), ["2"]);
    for enough in [("1\n", "1\n"), ("2\n", "8\n"), ("8\n", "8\n"), ("0\n", "0\n")] {
        assert!(with(enough.0, enough.1).is_empty(), "{enough:?}");
    }
}

#[test]
fn transmit_queues_without_cpus_get_equal_shares() {
    const FIRST: &str = "sys/class/net/eth0/queues/tx-0/xps_cpus";
    const SECOND: &str = "sys/class/net/eth0/queues/tx-1/xps_cpus";
    let queues: Files = &[(RPS, "0\n"), (SECOND, "0\n")];
    assert_eq!(
        proposed("R10", &[FOUR_CPUS, NIC, queues]),
        [format!("/{FIRST}: 0 -> 5"), format!("/{SECOND}: 0 -> a")]
    );
    assert!(proposed("R10", &[FOUR_CPUS, NIC, queues, &[(FIRST, "f\n")]]).is_empty());
}

/// Texts that no rule expects: nothing, extremes, other alphabets, brackets, all CPUs there could
/// be.
const NONSENSE: &[&str] = &[
    "",
    "-1",
    "9223372036854775807",
    "18446744073709551615 18446744073709551615 18446744073709551615 18446744073709551615",
    "99999999999999999999999999",
    "\u{e9}\u{20ac}: \u{1f980}",
    "][ [] (null)",
    "0-65535",
];

#[test]
fn nonsense_in_any_file_of_a_golden_tree_is_judged_without_a_panic() {
    // Findings come from the longest ways through the rules.
    for (id, _, parts) in GOLDEN.iter().filter(|(_, kind, _)| *kind == Found) {
        let files = parts.concat();
        let (directory, root) = tree(&files);
        for (path, text) in &files {
            // The field names of a line stay, so that its values are reached.
            let value = text.rfind([':', ' ', '\t']).map_or(0, |at| at + 1);
            for nonsense in NONSENSE {
                for text in [(*nonsense).to_owned(), format!("{}{nonsense}\n", &text[..value])] {
                    crate::testing::write(directory.path(), path, &text);
                    judge(&root, id);
                }
            }
            crate::testing::write(directory.path(), path, text);
        }
    }
}
