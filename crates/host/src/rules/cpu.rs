//! R16 to R22 and R24 to R26: frequency, sleep, siblings, isolation, quota, scheduler, clock,
//! machine kind.

use super::{Change, Judgement, Outcome, Rule, Untold, placement, topology};
use crate::facts::{Growth, Kind, Knob, Probe, Server};
use crate::{CpuSet, ReadError, Refusal};

pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "R16",
        title: "CPU frequency",
        harm: 48,
        why: "a core that saves power between requests answers the next one slowly",
        effect: "",
        judge: frequency,
    },
    Rule {
        id: "R17",
        title: "CPU sleep states",
        harm: 35,
        why: "waking from a deep sleep takes tens to hundreds of microseconds",
        effect: "",
        judge: sleep_states,
    },
    Rule {
        id: "R18",
        title: "sibling threads",
        harm: 52,
        why: "two busy threads on one physical core share its execution units and its caches",
        effect: "GET ops/s with QSBR: one thread per CPU 196,715, two per CPU 191,652",
        judge: siblings,
    },
    Rule {
        id: "R19",
        title: "isolated CPUs",
        harm: 62,
        why: "the scheduler balances nothing between isolated CPUs; without a tick each system \
              call costs more",
        effect: "",
        judge: isolation,
    },
    Rule {
        id: "R20",
        title: "CPU quota",
        harm: 100,
        why: "a group that used up its quota is stopped for the rest of the period, up to 100 ms",
        effect: "",
        judge: quota,
    },
    Rule {
        id: "R21",
        title: "wakeup preemption",
        harm: 45,
        why: "a woken task that preempts a worker costs two context switches and cold caches",
        effect: "together with huge pages 1.6 times the throughput of the defaults, on CFS with \
                 large values",
        judge: preemption,
    },
    Rule {
        id: "R22",
        title: "clock source",
        harm: 68,
        why: "with a slow clock each reading of the time is a system call or a device access",
        effect: "",
        judge: clock,
    },
    Rule {
        id: "R24",
        title: "mitigations",
        harm: 5,
        why: "mitigations make system calls dearer; switching them off is no tuner's decision",
        effect: "",
        judge: mitigations,
    },
    Rule {
        id: "R25",
        title: "containers and virtual machines",
        harm: 88,
        why: "a host's owner decides what a guest cannot: its CPUs may be taken away at any time",
        effect: "",
        judge: guest,
    },
    Rule {
        id: "R26",
        title: "ARM64 page size",
        harm: 66,
        why: "with 64 KiB pages a huge page is 512 MiB",
        effect: "",
        judge: arm_pages,
    },
];

const CPU: &str = "/sys/devices/system/cpu";

/// CPUs whose speed and sleep matter: workers' and interrupts'.
fn busy_cpus(probe: &Probe<'_>) -> Result<CpuSet, Untold> {
    let placement = placement(probe)?;
    Ok(placement.worker_cpus().or(&placement.irq))
}

fn frequency(probe: &mut Probe<'_>) -> Outcome {
    let busy = busy_cpus(probe)?;
    let mut changes = Vec::new();
    let mut seen = 0;
    for cpu in busy.iter() {
        let directory = format!("{CPU}/cpu{cpu}/cpufreq");
        let governor = match probe.host.root.text(&format!("{directory}/scaling_governor")) {
            Err(error) if error.refusal == Refusal::Absent => continue,
            governor => governor?,
        };
        seen += 1;
        if governor != "performance" {
            probe.note(format!("{directory}/scaling_governor: {governor}"));
            let path = format!("{directory}/scaling_governor");
            changes.push(Change::oneshot("R16", &path, &governor, "performance"));
            continue;
        }
        // intel_pstate refuses any other preference under this governor, so one that differs is
        // left alone.
        let path = format!("{directory}/energy_performance_preference");
        if let Ok(preference) = probe.host.root.text(&path) {
            probe.note(format!("{path}: {preference}"));
        }
    }
    if seen == 0 {
        let told = probe.host.root.names(&format!("{CPU}/cpu{}", busy.first().unwrap_or(0)))?;
        probe.note(format!("{CPU}/cpu*/cpufreq: absent ({} other files)", told.len()));
        return Ok(Judgement::not_applicable(
            "no frequency can be set here, as in most virtual machines",
        ));
    }
    Ok(match changes.is_empty() {
        true => Judgement::ok(format!("governor performance on {seen} CPUs")),
        false => Judgement::advice(format!(
            "{} busy CPUs do not run at full speed at once",
            changes.len()
        ))
        .so("set the governor `performance` on workers' and interrupts' CPUs")
        .changing(changes),
    })
}

/// The slowest exit, in µs, of the sleep states of a CPU that are not disabled.
fn slowest_exit_us(probe: &Probe<'_>, cpu: u32) -> u64 {
    let directory = format!("{CPU}/cpu{cpu}/cpuidle");
    let states = probe.host.root.names(&directory).unwrap_or_default();
    let exits = states.iter().filter_map(|state| {
        let disabled =
            probe.host.root.value::<u32>(&format!("{directory}/{state}/disable")).unwrap_or(0);
        let exit = probe.host.root.value::<u64>(&format!("{directory}/{state}/latency")).ok()?;
        (disabled == 0).then_some(exit)
    });
    exits.max().unwrap_or(0)
}

/// Sleep states that wake within this time, in µs, are left to the kernel.
const EXIT_FAST_US: u64 = 20;

fn sleep_states(probe: &mut Probe<'_>) -> Outcome {
    let driver = match probe.knob(&format!("{CPU}/cpuidle/current_driver")) {
        Ok(Knob::Value(driver)) => driver,
        Err(error) if error.refusal != Refusal::Absent => return Err(error.into()),
        _ => {
            probe.host.root.names(CPU)?;
            return Ok(Judgement::not_applicable("no sleep states are told"));
        }
    };
    if driver == "none" {
        return Ok(Judgement::not_applicable("the kernel has no driver for sleep states"));
    }
    if probe.host.inspect.prefers_throughput {
        return Ok(Judgement::not_applicable("sleep is left alone when throughput counts"));
    }
    let mut changes = Vec::new();
    for cpu in busy_cpus(probe)?.iter() {
        let exit_us = slowest_exit_us(probe, cpu);
        let path = format!("{CPU}/cpu{cpu}/power/pm_qos_resume_latency_us");
        let limit = probe.host.root.text(&path)?;
        // 0 means no limit here; `n/a` forbids all sleep.
        let limited =
            limit == "n/a" || limit.parse::<u64>().is_ok_and(|us| us > 0 && us <= EXIT_FAST_US);
        if exit_us > EXIT_FAST_US && !limited {
            probe.note(format!("{path}: {limit}, slowest exit {exit_us} µs"));
            changes.push(Change::oneshot("R17", &path, limit, EXIT_FAST_US));
        }
    }
    Ok(match changes.is_empty() {
        true => Judgement::ok(format!("busy CPUs wake within {EXIT_FAST_US} µs")),
        false => Judgement::advice(format!("{} busy CPUs may sleep too deeply", changes.len()))
            .so("limit the wake-up time of workers' and interrupts' CPUs; costs power")
            .changing(changes),
    })
}

/// Affinity masks of the server's threads: (thread, name, mask).
pub(super) fn thread_masks(
    probe: &mut Probe<'_>,
    pid: u32,
) -> Result<Vec<(String, String, CpuSet)>, ReadError> {
    let directory = format!("/proc/{pid}/task");
    let mut masks = Vec::new();
    for thread in probe.host.root.names(&directory)? {
        let path = format!("{directory}/{thread}/status");
        let Ok(status) = probe.host.root.text(&path) else { continue };
        let field =
            |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
        let mask = field("Cpus_allowed_list:").and_then(|list| CpuSet::parse_list(list).ok());
        let mask = mask.ok_or_else(|| ReadError::malformed(&path))?;
        let name = field("Name:").unwrap_or("?").to_owned();
        probe.note(format!("{path} {name}: {mask}"));
        masks.push((thread, name, mask));
    }
    if masks.is_empty() {
        return Err(ReadError { path: directory, refusal: Refusal::Absent, errno: libc::ENOENT });
    }
    Ok(masks)
}

fn siblings(probe: &mut Probe<'_>) -> Outcome {
    let topology = topology(probe)?;
    if topology.notes.iter().any(|note| note.contains("siblings")) {
        return Ok(Judgement::cannot_tell("sysfs does not tell the siblings of every CPU"));
    }
    if topology.cores.iter().all(|core| core.cpus.len() == 1) {
        return Ok(Judgement::not_applicable("each core runs one thread"));
    }
    let Some(pid) = probe.host.pid() else {
        return Ok(Judgement::ok("no server was named; the plan gives each worker a core"));
    };
    let masks = thread_masks(probe, pid)?;
    // The plan puts Tidemill's background threads on workers' siblings.
    let is_ours = probe.host.server().and_then(Server::kind) == Some(Kind::Tidemill);
    let counts = |name: &str| !is_ours || name.starts_with("worker");
    let masks = masks.iter().filter(|(_, name, _)| counts(name)).map(|(_, _, mask)| mask);
    let pinned: Vec<&CpuSet> = masks.filter(|mask| mask.len() == 1).collect();
    let crowded = topology.cores.iter().filter(|core| {
        let on_core = pinned.iter().filter(|mask| mask.is_subset(&core.cpus));
        let mut cpus: Vec<u32> = on_core.filter_map(|mask| mask.first()).collect();
        cpus.sort_unstable();
        cpus.dedup();
        cpus.len() > 1
    });
    let crowded: Vec<String> = crowded.map(|core| core.cpus.to_string()).collect();
    Ok(match crowded.is_empty() {
        true => Judgement::ok("no two pinned threads of the server share a core"),
        false => Judgement::advice(format!("pinned threads share the cores {}", crowded.join(" ")))
            .so("one worker per core; whether the sibling stays idle is worth an experiment")
            .with_restart(),
    })
}

fn isolation(probe: &mut Probe<'_>) -> Outcome {
    let list = |probe: &mut Probe<'_>, file: &str| -> Result<Option<CpuSet>, ReadError> {
        let path = format!("{CPU}/{file}");
        match probe.knob(&path)? {
            Knob::Absent => Ok(None),
            Knob::Value(text) => {
                CpuSet::parse_list(&text).map(Some).map_err(|_| ReadError::malformed(&path))
            }
        }
    };
    let isolated = list(probe, "isolated")?.unwrap_or_default();
    let tickless = list(probe, "nohz_full")?.unwrap_or_default();
    if isolated.is_empty() && tickless.is_empty() {
        return Ok(Judgement::not_applicable("no CPU is isolated or without a tick"));
    }
    let workers = placement(probe)?.worker_cpus();
    if let Some(pid) = probe.host.pid() {
        let masks = thread_masks(probe, pid)?;
        let stacked = masks.iter().find(|(_, _, mask)| mask.and(&isolated).len() > 1);
        if let Some((_, name, mask)) = stacked {
            return Ok(Judgement::problem(format!(
                "thread {name} may use isolated CPUs {mask}: it stays on the first"
            ))
            .so("pin threads one to one on isolated CPUs")
            .with_restart());
        }
    }
    Ok(match workers.intersects(&tickless) {
        true => Judgement::advice(format!(
            "workers' CPUs {} run without a tick",
            workers.and(&tickless)
        ))
        .so("nohz_full makes each system call dearer: leave it off for a server (kernel \
                 command line)")
        .with_root(),
        false => Judgement::ok(format!("isolated CPUs {isolated} are left alone")),
    })
}

fn quota(probe: &mut Probe<'_>) -> Outcome {
    let directories = probe.host.groups.directories("cpu");
    if directories.is_empty() {
        let process = probe.host.pid().map_or("self".to_owned(), |pid| pid.to_string());
        probe.host.root.text("/proc/mounts")?;
        probe.text(&format!("/proc/{process}/cgroup"))?;
        return Ok(Judgement::not_applicable("no control group is mounted"));
    }
    let Some(quota) = probe.host.groups.quota(probe.host.root) else {
        let seen =
            directories.iter().any(|(directory, _)| probe.host.root.names(directory).is_ok());
        if !seen {
            return Err(ReadError {
                path: directories[0].0.clone(),
                refusal: Refusal::Absent,
                errno: libc::ENOENT,
            }
            .into());
        }
        return Ok(Judgement::ok("no quota on the way up"));
    };
    probe.note(format!("{}: {} CPUs", quota.directory, quota.cpus));
    let field = |name: &'static str| {
        move |text: &str| -> Option<u64> {
            text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok())
        }
    };
    let path = format!("{}/cpu.stat", quota.directory);
    let throttled = probe.growth(&path, "nr_throttled", field("nr_throttled "))?;
    let advice = "raise the quota or take fewer workers; in Kubernetes an integer Guaranteed \
                  request with the static CPU manager";
    Ok(match throttled {
        Growth::Grew(by, _) => {
            Judgement::problem(format!("throttled {by} times between the samples"))
                .so(advice)
                .by_host_owner()
        }
        Growth::Still(0) | Growth::Once(0) if quota.cpus.fract() > 0.0 => {
            Judgement::advice(format!("a quota of {} CPUs, not throttled so far", quota.cpus))
                .so("whole CPUs: a part of one cannot run a worker")
                .by_host_owner()
        }
        Growth::Still(0) | Growth::Once(0) => {
            Judgement::ok(format!("a quota of {} CPUs, never throttled", quota.cpus))
        }
        Growth::Still(total) | Growth::Once(total) => {
            Judgement::problem(format!("throttled {total} times since the group was made"))
                .so(advice)
                .by_host_owner()
        }
    })
}

/// Involuntary context switches of the server's threads between the samples; `None` without a
/// server.
fn involuntary(probe: &mut Probe<'_>) -> Result<Option<Growth>, ReadError> {
    let Some(pid) = probe.host.pid() else { return Ok(None) };
    let mut most: Option<Growth> = None;
    for thread in probe.host.root.names(&format!("/proc/{pid}/task"))? {
        let path = format!("/proc/{pid}/task/{thread}/status");
        let field = |text: &str| {
            let line =
                text.lines().find_map(|line| line.strip_prefix("nonvoluntary_ctxt_switches:"));
            line?.trim().parse().ok()
        };
        // One that was started after the first sample has none.
        let Ok(growth) = probe.growth(&path, "nonvoluntary_ctxt_switches", field) else { continue };
        let by = |growth: Growth| if let Growth::Grew(by, _) = growth { by } else { 0 };
        if most.is_none_or(|most| by(growth) >= by(most)) {
            most = Some(growth);
        }
    }
    Ok(most)
}

/// Involuntary switches between two samples from which preemption is worth a change.
const SWITCHES_MANY: u64 = 100;

fn preemption(probe: &mut Probe<'_>) -> Outcome {
    const OLD: &str = "/proc/sys/kernel/sched_wakeup_granularity_ns";
    const OLD_LATENCY: &str = "/proc/sys/kernel/sched_latency_ns";
    const DEBUG: &str = "/sys/kernel/debug/sched";
    if let Some(wakeup_ns) = probe.numeric_knob(OLD)? {
        let latency_ns = probe.number(OLD_LATENCY)?;
        let change = |to: i64| Change::sysctl("R21", OLD, wakeup_ns, to);
        return granularity(probe, wakeup_ns, latency_ns, change);
    }
    let names = probe.host.root.names(DEBUG)?;
    if names.iter().any(|name| name == "wakeup_granularity_ns") {
        let path = format!("{DEBUG}/wakeup_granularity_ns");
        let wakeup_ns = probe.number(&path)?;
        let latency_ns = probe.number(&format!("{DEBUG}/latency_ns"))?;
        let change = |to: i64| Change::oneshot("R21", &path, wakeup_ns, to);
        return granularity(probe, wakeup_ns, latency_ns, change);
    }
    if !names.iter().any(|name| name == "base_slice_ns") {
        return Ok(Judgement::not_applicable("this kernel has no setting for wakeup preemption"));
    }
    let features = probe.text(&format!("{DEBUG}/features"))?;
    if features.split_whitespace().any(|feature| feature == "NO_RUN_TO_PARITY") {
        return Ok(Judgement::advice("EEVDF, with RUN_TO_PARITY switched off")
            .so(format!("echo RUN_TO_PARITY > {DEBUG}/features"))
            .with_root());
    }
    Ok(match involuntary(probe)? {
        Some(Growth::Grew(by, _)) if by >= SWITCHES_MANY => Judgement::advice(format!(
            "a thread was preempted {by} times between the samples"
        ))
        .so("free its CPU of others, or compare a longer slice (Linux 6.12): worker-slice-us of \
             Tidemill, `tidemill tune run --slice-us` for others")
        .with_restart(),
        _ => Judgement::ok(
            "EEVDF lets a task finish its slice (RUN_TO_PARITY); slices are set per thread",
        ),
    })
}

fn granularity(
    probe: &mut Probe<'_>,
    wakeup_ns: i64,
    latency_ns: i64,
    change: impl Fn(i64) -> Change,
) -> Outcome {
    if wakeup_ns > latency_ns / 2 {
        return Ok(Judgement::ok("woken tasks do not preempt"));
    }
    Ok(match involuntary(probe)? {
        None => Judgement::cannot_tell("no server was named: whether it is preempted is unknown"),
        Some(Growth::Once(_)) => Judgement::cannot_tell("context switches need two samples"),
        Some(Growth::Grew(by, _)) if by >= SWITCHES_MANY => Judgement::advice(format!(
            "a thread was preempted {by} times between the samples"
        ))
        .so("raise the wakeup granularity just above half the latency, or free the CPU of others")
        .changing(vec![change(latency_ns / 2 + latency_ns / 20)]),
        Some(_) => Judgement::ok("the server is hardly ever preempted"),
    })
}

fn clock(probe: &mut Probe<'_>) -> Outcome {
    const DIRECTORY: &str = "/sys/devices/system/clocksource/clocksource0";
    let path = format!("{DIRECTORY}/current_clocksource");
    let current = probe.text(&path)?;
    let fast = ["tsc", "kvm-clock", "arch_sys_counter", "hyperv_clocksource_tsc_page"];
    if fast.contains(&current.as_str()) {
        return Ok(Judgement::ok(format!("{current} is read without a system call")));
    }
    let available = probe.text(&format!("{DIRECTORY}/available_clocksource"))?;
    let better = fast.iter().find(|name| available.split_whitespace().any(|word| word == **name));
    Ok(match better {
        Some(better) => Judgement::problem(format!("{current} is slow, {better} is available"))
            .so(format!("switch to {better}, after asking the kernel log why it was not chosen"))
            .changing(vec![Change::tmpfiles("R22", &path, current, better)]),
        None => Judgement::problem(format!("{current} is slow and nothing better is offered"))
            .so("ask the host's owner for another machine type")
            .by_host_owner(),
    })
}

fn mitigations(probe: &mut Probe<'_>) -> Outcome {
    let directory = format!("{CPU}/vulnerabilities");
    let names = match probe.host.root.names(&directory) {
        Err(error)
            if error.refusal == Refusal::Absent
                && probe.host.root.names(&format!("{CPU}/cpu0/topology")).is_ok() =>
        {
            return Ok(Judgement::not_applicable("this kernel tells of no vulnerabilities"));
        }
        names => names?,
    };
    if names.is_empty() {
        return Ok(Judgement::cannot_tell(format!("{directory}: empty")));
    }
    let (mut active, mut open) = (0, Vec::new());
    for name in names {
        let state = probe.text(&format!("{directory}/{name}"))?;
        active += usize::from(state.starts_with("Mitigation"));
        if state.starts_with("Vulnerable") {
            open.push(name);
        }
    }
    Ok(match open.is_empty() {
        true => Judgement::ok(format!("{active} mitigations in force; reported only")),
        false => Judgement::advice(format!("without mitigation: {}", open.join(", ")))
            .so("nothing for a tuner to change: a matter of microcode, kernel and policy")
            .by_host_owner(),
    })
}

fn guest(probe: &mut Probe<'_>) -> Outcome {
    let root = probe.host.root;
    let marks = ["/run/systemd/container", "/.dockerenv", "/run/.containerenv"];
    let is_container = marks.iter().any(|path| root.exists(path));
    let cpuinfo = root.text("/proc/cpuinfo");
    let is_virtual = root.exists("/sys/hypervisor/type")
        || cpuinfo
            .as_ref()
            .is_ok_and(|text| text.split_whitespace().any(|flag| flag == "hypervisor"));
    if let (false, false, Err(error)) = (is_container, is_virtual, cpuinfo) {
        return Err(error.into());
    }
    probe.note(format!("container: {is_container}, virtual machine: {is_virtual}"));
    if !is_container && !is_virtual {
        return Ok(Judgement::not_applicable(
            "neither a container nor a virtual machine, as far as one can see",
        ));
    }
    let field = |position: usize| {
        move |text: &str| -> Option<u64> {
            let row = text.lines().find_map(|line| line.strip_prefix("cpu "))?;
            row.split_whitespace().nth(position)?.parse().ok()
        }
    };
    let total = probe.growth("/proc/stat", "cpu", |text| {
        (0..8).try_fold(0u64, |sum, at| Some(sum.saturating_add(field(at)(text)?)))
    })?;
    let steal = probe.growth("/proc/stat", "steal", field(7))?;
    let percent = match (steal, total) {
        (Growth::Grew(steal, _), Growth::Grew(total, _)) => {
            steal.saturating_mul(100) / total.max(1)
        }
        (Growth::Once(steal), Growth::Once(total)) => steal.saturating_mul(100) / total.max(1),
        _ => 0,
    };
    if percent >= 2 {
        return Ok(Judgement::problem(format!(
            "{percent} % of the CPU time was stolen by other guests"
        ))
        .so("ask the host's owner for CPUs of your own")
        .by_host_owner());
    }
    if is_container && is_read_only(probe) {
        return Ok(Judgement::advice("a container whose kernel settings are read-only")
            .so("run `tidemill tune doctor` on the host, or ask its owner")
            .by_host_owner());
    }
    Ok(Judgement::ok("no CPU time is stolen"))
}

fn is_read_only(probe: &mut Probe<'_>) -> bool {
    let mounts = probe.host.root.text("/proc/mounts").unwrap_or_default();
    mounts.lines().any(|line| {
        let fields: Vec<&str> = line.split(' ').collect();
        fields.len() > 3
            && matches!(fields[1], "/proc/sys" | "/sys")
            && fields[3].split(',').any(|option| option == "ro")
    })
}

fn arm_pages(probe: &mut Probe<'_>) -> Outcome {
    let cpuinfo = probe.text("/proc/cpuinfo")?;
    if !cpuinfo.contains("CPU implementer") {
        return Ok(Judgement::not_applicable("no ARM64 machine"));
    }
    let directory = "/sys/kernel/mm/transparent_hugepage";
    let bytes = probe.number(&format!("{directory}/hpage_pmd_size"))?;
    let path = format!("{directory}/enabled");
    let enabled = probe.choice(&path)?.unwrap_or_default();
    Ok(match (bytes, enabled.as_str()) {
        (0..=2_097_152, _) => Judgement::ok("huge pages are 2 MiB"),
        (_, "always") => {
            Judgement::problem(format!("huge pages of {} MiB for everybody", bytes >> 20))
                .so("set madvise")
                .changing(vec![Change::tmpfiles("R26", &path, "always", "madvise")])
        }
        _ => Judgement::ok(format!("huge pages are {} MiB, for those who ask", bytes >> 20)),
    })
}
