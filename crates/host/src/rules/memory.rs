//! R1 to R6: huge pages, overcommit, swap, reclaim, memory nodes.

use super::{Change, Judgement, Outcome, Rule};
use crate::facts::{Growth, Probe};

pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "R1",
        title: "transparent huge pages",
        harm: 70,
        why: "after a fork each first write to a huge page copies 2 MiB; a server that never forks \
              only gains",
        effect: "with 10 KB to 1 MB values, pipeline 100, 25 clients: up to 1.6 times the \
                 throughput together with wakeup preemption off; nothing was measured for small \
                 values",
        judge: huge_pages,
    },
    Rule {
        id: "R2",
        title: "memory overcommit",
        harm: 75,
        why: "a fork of a large server needs as much promised memory again; refused, the snapshot \
              fails",
        effect: "",
        judge: overcommit,
    },
    Rule {
        id: "R3",
        title: "swap",
        harm: 85,
        why: "a page read back from swap stalls a worker for milliseconds",
        effect: "",
        judge: swap,
    },
    Rule {
        id: "R4",
        title: "direct reclaim",
        harm: 65,
        why: "an allocation that finds no free page reclaims by itself, in the server's thread",
        effect: "",
        judge: reclaim,
    },
    Rule {
        id: "R5",
        title: "zone reclaim",
        harm: 60,
        why: "the kernel drops page cache of the local node rather than taking remote memory",
        effect: "",
        judge: zone_reclaim,
    },
    Rule {
        id: "R6",
        title: "automatic NUMA balancing",
        harm: 40,
        why: "pages are unmapped to learn who touches them; a server bound to one node pays and \
              learns nothing",
        effect: "memory on the other socket costs 18 % more per access",
        judge: numa_balancing,
    },
];

const THP: &str = "/sys/kernel/mm/transparent_hugepage";

fn huge_pages(probe: &mut Probe<'_>) -> Outcome {
    let Some(enabled) = probe.choice(&format!("{THP}/enabled")).or_else(absent_with_mm(probe))?
    else {
        return Ok(Judgement::not_applicable("this kernel has no transparent huge pages"));
    };
    let defrag = probe.choice(&format!("{THP}/defrag")).ok().flatten();
    let forks = probe.host.server().and_then(|server| server.forks());
    for field in ["total_forks", "latest_fork_usec"] {
        if let Some(value) = probe.host.server().and_then(|server| server.number(field)) {
            probe.note(format!("INFO {field}: {value}"));
        }
    }
    if let Some(pid) = probe.host.pid() {
        note_status(probe, pid, "THP_enabled");
    }
    let mut changes = Vec::new();
    if enabled == "always" {
        changes.push(Change::tmpfiles("R1", &format!("{THP}/enabled"), &enabled, "madvise"));
    }
    if let Some(defrag) = defrag.filter(|defrag| defrag == "always") {
        changes.push(Change::tmpfiles("R1", &format!("{THP}/defrag"), defrag, "madvise"));
    }
    Ok(match (enabled.as_str(), forks) {
        ("never", Some(false)) => {
            Judgement::advice("`never` forbids huge pages even to a server that asks")
                .so("set madvise and compare Tidemill with `huge-pages yes` and with `no`")
                .changing(vec![Change::tmpfiles(
                    "R1",
                    &format!("{THP}/enabled"),
                    "never",
                    "madvise",
                )])
        }
        ("always", Some(false)) => Judgement::advice(
            "every process gets huge pages, asked or not; this server never forks",
        )
        .so("madvise leaves the choice to each program; compare under your own load")
        .changing(changes),
        ("always", Some(true)) => Judgement::problem("huge pages everywhere, and the server forks")
            .so("set madvise, then restart the server: pages it has stay huge")
            .changing(changes)
            .with_restart(),
        ("always", None) => {
            Judgement::advice("huge pages everywhere; whether a server forks is not known")
                .so("set madvise unless nothing here forks")
                .changing(changes)
        }
        _ if !changes.is_empty() => {
            Judgement::advice("page faults compact memory at once (defrag always)")
                .so("set defrag to madvise")
                .changing(changes)
        }
        _ => Judgement::ok(format!("{enabled}: only programs that ask get huge pages")),
    })
}

/// Absent, when `/sys/kernel/mm` is there without the directory of huge pages.
fn absent_with_mm<'p>(
    probe: &'p Probe<'_>,
) -> impl FnOnce(crate::ReadError) -> Result<Option<String>, crate::ReadError> + use<'p> {
    // Captures by other tools hold a part of /sys/kernel/mm: only one with sysctls, too, proves an
    // absence.
    let has_sysctls = probe.host.root.names("/proc/sys/vm").is_ok();
    let has_mm = has_sysctls && probe.host.root.names("/sys/kernel/mm").is_ok();
    let has_thp = probe.host.root.names(THP).is_ok();
    move |error| if has_mm && !has_thp { Ok(None) } else { Err(error) }
}

fn note_status(probe: &mut Probe<'_>, pid: u32, field: &str) {
    let status = probe.host.root.text(&format!("/proc/{pid}/status")).unwrap_or_default();
    if let Some(line) = status.lines().find(|line| line.starts_with(field)) {
        probe.note(format!("/proc/{pid}/status: {}", line.replace('\t', " ")));
    }
}

fn overcommit(probe: &mut Probe<'_>) -> Outcome {
    const PATH: &str = "/proc/sys/vm/overcommit_memory";
    let forks = probe.host.server().and_then(|server| server.forks());
    let change = |from: i64| vec![Change::sysctl("R2", PATH, from, 1)];
    Ok(match (probe.number(PATH)?, forks) {
        (1, _) => Judgement::ok("memory may be promised beyond what there is"),
        (2, _) => Judgement::not_applicable("strict accounting is this machine's policy"),
        (_, Some(false)) => Judgement::ok("the server does not fork"),
        (mode, Some(true)) => {
            Judgement::problem("a fork may be refused for want of promised memory")
                .so("set vm.overcommit_memory = 1")
                .changing(change(mode))
        }
        (mode, None) => Judgement::advice("a server that forks may be refused memory")
            .so("set vm.overcommit_memory = 1 if a server here forks")
            .changing(change(mode)),
    })
}

fn vmstat(field: &'static str) -> impl Fn(&str) -> Option<u64> {
    move |text| {
        let values = text.lines().filter_map(|line| {
            let (name, value) = line.split_once(' ')?;
            name.starts_with(field).then(|| value.trim().parse::<u64>().ok())?
        });
        let found: Vec<u64> = values.collect();
        (!found.is_empty()).then(|| found.into_iter().fold(0, u64::saturating_add))
    }
}

fn swap(probe: &mut Probe<'_>) -> Outcome {
    const PATH: &str = "/proc/sys/vm/swappiness";
    let devices = probe.text("/proc/swaps")?.lines().count().saturating_sub(1);
    if devices == 0 {
        return Ok(Judgement::not_applicable("no swap is configured"));
    }
    let swappiness = probe.number(PATH)?;
    let swapped_kib = probe.host.pid().map(|pid| status_kib(probe, pid, "VmSwap:")).transpose()?;
    let reads = probe.growth("/proc/vmstat", "pswpin", vmstat("pswpin"))?;
    let change = match swappiness {
        0 | 1 => Vec::new(),
        from => vec![Change::sysctl("R3", PATH, from, 1)],
    };
    Ok(match (swapped_kib, reads.grows(), swappiness) {
        (Some(kib), _, _) if kib > 0 => {
            let unswapped = without_swap(probe, kib)?;
            let lasting = match unswapped {
                None => "MemorySwapMax=0 for its unit only with replicas and headroom",
                Some(_) => {
                    "MemorySwapMax=0 for its unit, as it has replicas and headroom, and a restart"
                }
            };
            Judgement::problem(format!("{kib} KiB of the server are in swap"))
                .so(format!(
                    "lower vm.swappiness; {lasting}; swapoff only while used swap is below free \
                     memory"
                ))
                .changing(change.into_iter().chain(unswapped).collect())
        }
        (_, Some(true), _) => Judgement::problem("pages are being read back from swap")
            .so("find who swaps; lower vm.swappiness")
            .changing(change),
        (_, _, 2..) => {
            Judgement::advice(format!("swappiness {swappiness} swaps idle server pages early"))
                .so("set vm.swappiness = 1")
                .changing(change)
        }
        _ => Judgement::ok("swap is the last resort and not in use by the server"),
    })
}

/// Share of all memory, in percent, that must stay available beside what comes back from swap.
const HEADROOM_PERCENT: i64 = 10;

/// Keeps the server's unit out of swap from its next start on. Only where replicas hold the data,
/// too, and memory is left: without swap the kernel kills the server when memory ends. Needs a
/// systemd unit on cgroup version 2.
fn without_swap(
    probe: &mut Probe<'_>,
    swapped_kib: u64,
) -> Result<Option<Change>, crate::ReadError> {
    let has_replicas = probe
        .host
        .server()
        .and_then(|server| server.number("connected_slaves"))
        .is_some_and(|count| count > 0);
    let unit = probe.host.pid().and_then(|pid| crate::facts::unit_of(probe.host.root, pid));
    let groups = probe.host.groups.directories("memory");
    let limit = groups.first().filter(|(_, is_second)| *is_second);
    let (Some(unit), Some((group, _)), true) = (unit, limit, has_replicas) else { return Ok(None) };
    let available_kib = meminfo_kib(probe, "MemAvailable:")?;
    let reserve_kib = memory_total_kib(probe)? / 100 * HEADROOM_PERCENT;
    let swapped_kib = i64::try_from(swapped_kib).unwrap_or(i64::MAX);
    if available_kib.saturating_sub(swapped_kib) < reserve_kib {
        return Ok(None);
    }
    let from = probe.text(&format!("{group}/memory.swap.max"))?;
    Ok((from != "0").then(|| Change::drop_in("R3", &unit, "MemorySwapMax", from, 0)))
}

fn status_kib(probe: &mut Probe<'_>, pid: u32, field: &str) -> Result<u64, crate::ReadError> {
    let path = format!("/proc/{pid}/status");
    let status = probe.host.root.text(&path)?;
    let line = status.lines().find_map(|line| line.strip_prefix(field));
    let kib = line.and_then(|rest| rest.split_whitespace().next()?.parse().ok());
    let kib = kib.ok_or_else(|| crate::ReadError::malformed(&path))?;
    probe.note(format!("{path} {field} {kib} KiB"));
    Ok(kib)
}

fn reclaim(probe: &mut Probe<'_>) -> Outcome {
    const SCALE: &str = "/proc/sys/vm/watermark_scale_factor";
    const FREE: &str = "/proc/sys/vm/min_free_kbytes";
    let Some(scale) = probe.numeric_knob(SCALE)? else {
        return Ok(Judgement::not_applicable("this kernel has no watermark_scale_factor"));
    };
    let stalls = probe.growth("/proc/vmstat", "allocstall", vmstat("allocstall"))?;
    match stalls.grows() {
        Some(false) => return Ok(Judgement::ok("no allocation stalls")),
        None => {
            return Ok(Judgement::cannot_tell(
                "allocations stalled since boot; growth needs two samples",
            ));
        }
        Some(true) => {}
    }
    if scale < 50 {
        return Ok(Judgement::problem("allocations stall in direct reclaim")
            .so("wake the background reclaim earlier: vm.watermark_scale_factor = 50")
            .changing(vec![Change::sysctl("R4", SCALE, scale, 50)]));
    }
    let free_kib = probe.number(FREE)?;
    let total_kib = memory_total_kib(probe)?;
    let most_kib = total_kib / 100;
    if free_kib >= most_kib {
        return Ok(Judgement::problem("allocations stall although the reserves are large")
            .so("the machine is short of memory: lower maxmemory or move load"));
    }
    let to_kib = free_kib.saturating_mul(2).min(most_kib);
    Ok(Judgement::problem("allocations stall although background reclaim starts early")
        .so("raise vm.min_free_kbytes, to at most 1 % of memory")
        .changing(vec![Change::sysctl("R4", FREE, free_kib, to_kib)]))
}

/// Total memory from `/proc/meminfo`.
pub(super) fn memory_total_kib(probe: &mut Probe<'_>) -> Result<i64, crate::ReadError> {
    meminfo_kib(probe, "MemTotal:")
}

fn meminfo_kib(probe: &mut Probe<'_>, field: &str) -> Result<i64, crate::ReadError> {
    const PATH: &str = "/proc/meminfo";
    let text = probe.text(PATH)?;
    let line = text.lines().find_map(|line| line.strip_prefix(field));
    let kib = line.and_then(|rest| rest.split_whitespace().next()?.parse().ok());
    kib.ok_or_else(|| crate::ReadError::malformed(PATH))
}

fn zone_reclaim(probe: &mut Probe<'_>) -> Outcome {
    const PATH: &str = "/proc/sys/vm/zone_reclaim_mode";
    Ok(match probe.numeric_knob(PATH)? {
        None => Judgement::not_applicable("this kernel knows no memory nodes"),
        Some(0) => Judgement::ok("remote memory is taken before page cache is dropped"),
        Some(mode) => Judgement::problem("local reclaim comes before remote memory")
            .so("set vm.zone_reclaim_mode = 0")
            .changing(vec![Change::sysctl("R5", PATH, mode, 0)]),
    })
}

fn numa_balancing(probe: &mut Probe<'_>) -> Outcome {
    const PATH: &str = "/proc/sys/kernel/numa_balancing";
    let Some(mode) = probe.numeric_knob(PATH)? else {
        return Ok(Judgement::not_applicable("this kernel does not balance memory nodes"));
    };
    let nodes = probe.host.root.names("/sys/devices/system/node")?;
    let count = nodes.iter().filter(|name| name.starts_with("node")).count();
    probe.note(format!("/sys/devices/system/node: {count} nodes"));
    if count < 2 {
        return Ok(Judgement::not_applicable("there is one memory node"));
    }
    if let Some(judgement) = probe.host.pid().and_then(|pid| misplaced(probe, pid)) {
        return Ok(judgement);
    }
    if mode == 0 {
        return Ok(Judgement::ok("off"));
    }
    let faults = probe.growth("/proc/vmstat", "numa_hint_faults", vmstat("numa_hint_faults"))?;
    let bound = probe.host.pid().map(|pid| is_on_one_node(probe, pid)).transpose()?;
    Ok(match (bound, faults) {
        (None, _) => Judgement::cannot_tell(
            "no server was named: whether it is bound to one node is unknown",
        ),
        (Some(false), _) => {
            Judgement::ok("the server is not bound to one node: balancing may help it")
        }
        (Some(true), Growth::Grew(by, _)) => Judgement::advice(format!(
            "{by} hinting faults, though the server is bound to one node"
        ))
        .so("set kernel.numa_balancing = 0 unless other programs here need it")
        .changing(vec![Change::sysctl("R6", PATH, mode, 0)]),
        (Some(true), Growth::Still(_)) => Judgement::ok("bound to one node, no hinting faults"),
        (Some(true), Growth::Once(_)) => Judgement::cannot_tell("hinting faults need two samples"),
    })
}

/// From this share of a server's memory on other nodes, in percent, a restart with a memory policy
/// pays.
const MISPLACED_PERCENT_MIN: u64 = 10;

/// A finding when a server bound to one node has memory on others.
fn misplaced(probe: &mut Probe<'_>, pid: u32) -> Option<Judgement> {
    let host = probe.host;
    let topology = host.topology.as_ref().ok()?;
    let status = host.root.text(&format!("/proc/{pid}/status")).ok()?;
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
    let cpus = crate::CpuSet::parse_list(list).ok()?;
    let node = topology.nodes.get(topology.node_holding(&cpus)?)?.id?;
    // Absent on kernels without memory nodes, and refused to other users. The kernel walks the page
    // tables for it: meanwhile the server's page faults go on and its new mappings wait, so it is
    // read where it can matter only.
    let path = format!("/proc/{pid}/numa_maps");
    let kib_by_node = kib_by_node(&host.root.head(&path).ok()?);
    let total = kib_by_node.iter().fold(0u64, |sum, (_, kib)| sum.saturating_add(*kib));
    let here = kib_by_node.iter().filter(|(id, _)| *id == node);
    let near = here.fold(0u64, |sum, (_, kib)| sum.saturating_add(*kib));
    let percent = (total - near).saturating_mul(100) / total.max(1);
    probe.note(format!("{path}: {near} of {total} KiB on node {node}"));
    if percent < MISPLACED_PERCENT_MIN {
        return None;
    }
    let unit = crate::facts::unit_of(host.root, pid);
    let settings = [("CPUAffinity", cpus.to_string()), ("NUMAPolicy", "bind".to_owned())];
    let settings = settings.into_iter().chain([("NUMAMask", node.to_string())]);
    let changes = unit.iter().flat_map(|unit| {
        settings.clone().map(|(key, value)| Change::drop_in("R6", unit, key, "not set", value))
    });
    Some(
        Judgement::problem(format!("{percent} % of the memory is not on node {node} of its CPUs"))
            .so("CPUAffinity=, NUMAPolicy=bind and NUMAMask= in a drop-in of its systemd unit, or \
                 `tidemill tune run`")
            .changing(changes.collect())
            .with_restart(),
    )
}

/// KiB of memory by node number, from `/proc/PID/numa_maps`.
fn kib_by_node(maps: &str) -> Vec<(u32, u64)> {
    let mut found = Vec::new();
    for line in maps.lines() {
        let word = |name: &str| line.split(' ').find_map(|word| word.strip_prefix(name));
        let page_kib: u64 =
            word("kernelpagesize_kB=").and_then(|kib| kib.parse().ok()).unwrap_or(4);
        for word in line.split(' ') {
            let Some((node, pages)) = word.strip_prefix('N').and_then(|word| word.split_once('='))
            else {
                continue;
            };
            if let (Ok(node), Ok(pages)) = (node.parse(), pages.parse::<u64>()) {
                found.push((node, pages.saturating_mul(page_kib)));
            }
        }
    }
    found
}

fn is_on_one_node(probe: &mut Probe<'_>, pid: u32) -> Result<bool, crate::ReadError> {
    let path = format!("/proc/{pid}/status");
    let status = probe.host.root.text(&path)?;
    let line = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    let cpus = line.and_then(|list| crate::CpuSet::parse_list(list).ok());
    let cpus = cpus.ok_or_else(|| crate::ReadError::malformed(&path))?;
    probe.note(format!("{path} Cpus_allowed_list: {cpus}"));
    Ok(probe.host.topology.as_ref().is_ok_and(|topology| topology.node_holding(&cpus).is_some()))
}
