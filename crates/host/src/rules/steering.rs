//! R10: which CPUs do the packet work of a queue, and which send through it.

use std::collections::BTreeMap;

use super::network::nics;
use super::{Change, Judgement, Outcome, placement, topology};
use crate::facts::{Kind, Knob, Probe};
use crate::topology::Nic;
use crate::{CpuSet, ReadError};

/// The share of time, in percent, the busiest CPU spent in softirq between the samples; `None` with
/// one sample.
fn busiest_softirq(probe: &mut Probe<'_>, cpus: &CpuSet) -> Result<Option<u64>, ReadError> {
    let (first, second) = probe.samples("/proc/stat")?;
    let Some(second) = second else { return Ok(None) };
    let (first, second) = (cpu_times(first), cpu_times(second));
    let shares = cpus.iter().filter_map(|cpu| {
        let ((total, soft), (total_later, soft_later)) = (first.get(&cpu)?, second.get(&cpu)?);
        let spent = total_later.saturating_sub(*total).max(1);
        Some((soft_later.saturating_sub(*soft).saturating_mul(100) / spent, cpu))
    });
    let busiest = shares.max();
    if let Some((percent, cpu)) = busiest {
        probe.note(format!(
            "/proc/stat: {percent} % of the time in softirq on CPU {cpu}, on no other more"
        ));
    }
    Ok(busiest.map(|(percent, _)| percent))
}

/// All time and that in softirq by CPU, in ticks since boot, from `/proc/stat`.
fn cpu_times(stat: &str) -> BTreeMap<u32, (u64, u64)> {
    let rows = stat.lines().filter_map(|line| {
        let (cpu, times) = line.strip_prefix("cpu")?.split_once(' ')?;
        let times: Vec<u64> =
            times.split_whitespace().take(8).filter_map(|time| time.parse().ok()).collect();
        let total = times.iter().fold(0, |sum: u64, time| sum.saturating_add(*time));
        Some((cpu.parse().ok()?, (total, *times.get(6)?)))
    });
    rows.collect()
}

pub(super) fn packet_steering(probe: &mut Probe<'_>) -> Outcome {
    let nics = nics(probe)?;
    if nics.is_empty() {
        return Ok(Judgement::not_applicable("no network interface with a device is up"));
    }
    let placement = placement(probe)?;
    let workers = placement.worker_cpus();
    let target = placement.irq.or(&placement.background).minus(&workers);
    let online = topology(probe)?.online.clone();
    let (mut on_workers, mut unsteered) = (Vec::new(), Vec::new());
    let mut seen = 0;
    for nic in &nics {
        for queue in 0..nic.receive_queue_count {
            let path = format!("/sys/class/net/{}/queues/rx-{queue}/rps_cpus", nic.name);
            let text = match probe.knob(&path)? {
                Knob::Absent => continue,
                Knob::Value(text) => text,
            };
            seen += 1;
            let mask = CpuSet::parse_mask(&text).map_err(|_| ReadError::malformed(&path))?;
            let change = Change::udev("R10", &path, text.trim(), mask_like(&target, &text));
            if mask.intersects(&workers) && mask != target {
                on_workers.push(change);
            } else if mask.is_empty() && nic.receive_queue_count < placement.irq.len().max(1) {
                unsteered.push(change);
            }
        }
    }
    if seen == 0 {
        return Ok(Judgement::cannot_tell("no interface shows the masks of its receive queues"));
    }
    if !on_workers.is_empty() {
        return Ok(Judgement::advice("packet work is steered onto workers' CPUs")
            .so(format!("steer it to CPU {target}, or nowhere when that is empty"))
            .changing(on_workers));
    }
    if let Some(judgement) = flow_steering(probe)? {
        return Ok(judgement);
    }
    if let Some(judgement) = transmit_steering(probe, &nics, &online)? {
        return Ok(judgement);
    }
    if unsteered.is_empty() || target.is_empty() {
        return Ok(Judgement::ok("packet work stays off the workers, or has queues enough"));
    }
    Ok(match busiest_softirq(probe, &online)? {
        Some(80..) => {
            Judgement::advice("one CPU is saturated with packet work and others are free for it")
                .so(format!("steer packets to CPU {target}"))
                .changing(unsteered)
        }
        Some(_) => Judgement::ok("no CPU is saturated with packet work"),
        None if probe.host.has_two_samples() => Judgement::ok("no packet work between the samples"),
        None => Judgement::cannot_tell("whether a CPU is saturated needs two samples"),
    })
}

/// A finding when packets follow the flow to a server whose one thread does all the reading: they
/// take its time.
fn flow_steering(probe: &mut Probe<'_>) -> Result<Option<Judgement>, ReadError> {
    const PATH: &str = "/proc/sys/net/core/rps_sock_flow_entries";
    let kind = probe.host.server().and_then(|server| server.kind());
    if !matches!(kind, Some(Kind::Redis | Kind::Valkey)) {
        return Ok(None);
    }
    // Absent from kernels without packet steering; unreadable ones are judged by what else was
    // read.
    let entries = probe.numeric_knob(PATH).unwrap_or_default().unwrap_or_default();
    Ok((entries > 0).then(|| {
        Judgement::advice("flow steering brings packet work to the CPU of the one main thread")
            .so("set net.core.rps_sock_flow_entries = 0; it suits servers with many threads that \
                 read")
            .changing(vec![Change::sysctl("R10", PATH, entries, 0)])
    }))
}

/// A finding when an interface has several transmit queues and no CPU has one of its own: a
/// connection then sends through the queue its hash chooses, and workers meet at that queue's lock.
/// Masks that are set already are left alone.
fn transmit_steering(
    probe: &mut Probe<'_>,
    nics: &[&Nic],
    online: &CpuSet,
) -> Result<Option<Judgement>, ReadError> {
    let mut changes = Vec::new();
    for nic in nics.iter().filter(|nic| nic.transmit_queue_count > 1) {
        let count = nic.transmit_queue_count;
        let (mut shares, mut unset_count) = (Vec::new(), 0);
        for queue in 0..count {
            let path = format!("/sys/class/net/{}/queues/tx-{queue}/xps_cpus", nic.name);
            let Knob::Value(text) = probe.knob(&path)? else { break };
            let mask = CpuSet::parse_mask(&text).map_err(|_| ReadError::malformed(&path))?;
            if !mask.is_empty() {
                break;
            }
            unset_count += 1;
            // Queues beyond the number of CPUs stay without one.
            let share: CpuSet = online.iter().skip(queue).step_by(count).collect();
            if !share.is_empty() {
                shares.push(Change::udev("R10", &path, text.trim(), mask_like(&share, &text)));
            }
        }
        if unset_count == count {
            changes.append(&mut shares);
        }
    }
    Ok((!changes.is_empty()).then(|| {
        Judgement::advice("no CPU has a transmit queue of its own, though there are several")
            .so("give each transmit queue its share of the CPUs (XPS)")
            .changing(changes)
    }))
}

/// A mask with as many groups as the kernel printed, zeros written out.
fn mask_like(cpus: &CpuSet, printed: &str) -> String {
    let printed = printed.trim();
    let width = printed.rsplit(',').next().map_or(8, str::len);
    let mask = cpus.to_mask();
    let groups = printed.split(',').count().max(mask.split(',').count());
    let missing = groups - mask.split(',').count();
    let full = format!("{}{mask}", "00000000,".repeat(missing));
    if groups > 1 || width >= 8 {
        return full;
    }
    // Small machines print fewer digits, and read back what they print.
    let digits = full.trim_start_matches('0');
    format!("{digits:0>width$}")
}
