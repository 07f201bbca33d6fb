//! R14, R15 and the server's own settings: what its INFO, CONFIG and process state say.

use super::{Change, Judgement, Outcome, Rule};
use crate::ReadError;
use crate::facts::{self, Kind, Probe, Server};

pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "R14",
        title: "delayed packets",
        harm: 30,
        why: "servers set TCP_NODELAY themselves; only replication can be told to wait up to 40 ms",
        effect: "",
        judge: delayed_packets,
    },
    Rule {
        id: "R15",
        title: "file descriptors",
        harm: 78,
        why: "a server lowers maxclients silently to what its descriptors allow",
        effect: "",
        judge: descriptors,
    },
    Rule {
        id: "affinity",
        title: "threads and their CPUs",
        harm: 64,
        why: "children and background threads inherit the mask of the thread that starts them",
        effect: "p99 GET/PUT 504/1175 µs unpinned, 260/482 µs bound to a core",
        judge: affinity,
    },
    Rule {
        id: "maxmemory",
        title: "memory limit",
        harm: 74,
        why: "without a limit the kernel chooses what to kill; too near to all memory leaves \
              nothing for buffers",
        effect: "75 to 80 % of memory is the published advice",
        judge: memory_limit,
    },
    Rule {
        id: "save",
        title: "save points",
        harm: 42,
        why: "each save point forks and writes everything, at a time load chooses",
        effect: "",
        judge: save_points,
    },
    Rule {
        id: "loglevel",
        title: "log level",
        harm: 22,
        why: "debug and verbose write a line for ordinary events",
        effect: "",
        judge: log_level,
    },
    Rule {
        id: "allocator",
        title: "allocator",
        harm: 28,
        why: "libc's allocator fragments under changing value sizes",
        effect: "",
        judge: allocator,
    },
    Rule {
        id: "value-size",
        title: "value sizes",
        harm: 12,
        why: "a reply beyond about 1,000 bytes takes more than one packet",
        effect: "throughput against value size is a curve: plot yours",
        judge: value_size,
    },
    Rule {
        id: "data-directory",
        title: "data directory",
        harm: 56,
        why: "a write that waits for a network or a disk arm stalls who waits for durability",
        effect: "",
        judge: data_directory,
    },
];

/// Descriptors a server needs beside those of its clients.
const DESCRIPTORS_SPARE: u64 = 32;

/// The most that Tidemill keeps for itself, which grows with its workers; Redis and Valkey keep
/// [`DESCRIPTORS_SPARE`].
const DESCRIPTORS_SPARE_MAX: u64 = 1_024;

/// Step, in descriptors, in which Redis and Valkey look for a limit they may have.
const DESCRIPTORS_STEP: u64 = 16;

/// Clients to provide for when no server tells its limit.
const CLIENTS_USUAL: u64 = 10_000;

/// The server; rules that need one end otherwise.
fn server<'a>(probe: &Probe<'a>) -> Result<&'a Server, Judgement> {
    probe.host.server().ok_or_else(|| Judgement::not_applicable("no server was named"))
}

/// A CONFIG parameter, noted as evidence.
fn setting(probe: &mut Probe<'_>, parameter: &str) -> Result<String, Judgement> {
    let server = server(probe)?;
    match server.config.get(parameter) {
        Some(value) => {
            probe.note(format!("CONFIG {parameter}: {value}"));
            Ok(value.clone())
        }
        None => Err(Judgement::cannot_tell(match &server.silence {
            Some(silence) => format!("CONFIG {parameter} is not told: {silence}"),
            None => format!("CONFIG {parameter} is not told"),
        })),
    }
}

/// Runs a rule whose early ends are judgements.
fn settled(outcome: Result<Judgement, Judgement>) -> Outcome {
    Ok(outcome.unwrap_or_else(|judgement| judgement))
}

fn delayed_packets(probe: &mut Probe<'_>) -> Outcome {
    settled(setting(probe, "repl-disable-tcp-nodelay").map(|value| {
        match value.as_str() {
            "yes" => Judgement::advice("replicas are told of writes up to 40 ms late")
                .so("CONFIG SET repl-disable-tcp-nodelay no, unless the link is narrow"),
            _ => Judgement::ok("nothing is delayed on purpose"),
        }
    }))
}

fn descriptors(probe: &mut Probe<'_>) -> Outcome {
    const NR_OPEN: &str = "/proc/sys/fs/nr_open";
    const FILE_MAX: &str = "/proc/sys/fs/file-max";
    let clients = probe.host.server().and_then(|server| server.setting("maxclients"));
    let needed = clients.unwrap_or(CLIENTS_USUAL).saturating_add(DESCRIPTORS_SPARE);
    probe.note(format!("needed: {needed} descriptors"));
    let mut changes = Vec::new();
    for path in [NR_OPEN, FILE_MAX] {
        let value: u64 =
            probe.text(path)?.trim().parse().map_err(|_| ReadError::malformed(path))?;
        if value < needed {
            changes.push(Change::sysctl(
                "R15",
                path,
                value,
                needed.checked_next_power_of_two().unwrap_or(needed),
            ));
        }
    }
    if !changes.is_empty() {
        return Ok(Judgement::problem("the kernel allows fewer descriptors than the clients need")
            .so("raise them, then the server's own limit (LimitNOFILE=)")
            .changing(changes)
            .with_restart());
    }
    let Some(pid) = probe.host.pid() else {
        return Ok(Judgement::ok(format!(
            "the kernel allows {needed} descriptors; no server was named"
        )));
    };
    let path = format!("/proc/{pid}/limits");
    let limits = probe.host.root.text(&path)?;
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"));
    let mut words = line.into_iter().flat_map(str::split_whitespace);
    let (Some(soft), Some(hard)) = (words.next(), words.next()) else {
        return Err(ReadError::malformed(&path).into());
    };
    probe.note(format!("{path} Max open files: {soft}, at most {hard}"));
    let number = |word: &str| match word {
        "unlimited" => Ok(u64::MAX),
        word => word.parse().map_err(|_| ReadError::malformed(&path)),
    };
    let (limit, most) = (number(soft)?, number(hard)?);
    let kind = probe.host.server().and_then(Server::kind);
    let is_lowered = clients.is_some_and(|clients| is_lowered(kind, clients, limit, most));
    let needed = if is_lowered { CLIENTS_USUAL + DESCRIPTORS_SPARE } else { needed };
    let enough = limit >= needed;
    let unit = facts::unit_of(probe.host.root, pid);
    let lasting = unit.map(|unit| Change::drop_in("R15", &unit, "LimitNOFILE", soft, needed));
    Ok(match enough {
        true => Judgement::ok(format!("{soft} descriptors for {needed}")),
        false => Judgement::problem(format!(
            "{soft} descriptors, {needed} needed: maxclients was lowered"
        ))
        .so(format!(
            "LimitNOFILE={needed} in a drop-in of its systemd unit, or ulimit -n, and restart"
        ))
        .changing(lasting.into_iter().collect())
        .with_root()
        .with_restart(),
    })
}

/// True if a server that may not raise its limit of descriptors further seems to have lowered
/// maxclients to the limit, as Redis, Valkey and Tidemill do on start: CONFIG then reports only the
/// lowered number.
fn is_lowered(kind: Option<Kind>, clients: u64, limit: u64, most: u64) -> bool {
    let spare_max = match kind {
        Some(Kind::Tidemill) => DESCRIPTORS_SPARE_MAX,
        _ => DESCRIPTORS_SPARE,
    };
    let is_at_most = most.saturating_sub(limit) < DESCRIPTORS_STEP;
    let spare = limit.saturating_sub(clients);
    is_at_most && clients < CLIENTS_USUAL && (DESCRIPTORS_SPARE..=spare_max).contains(&spare)
}

fn affinity(probe: &mut Probe<'_>) -> Outcome {
    let Some(pid) = probe.host.pid() else {
        return Ok(match probe.host.server() {
            None => Judgement::not_applicable("no server was named"),
            Some(_) => Judgement::cannot_tell("the server's process is not known"),
        });
    };
    let masks = super::cpu::thread_masks(probe, pid)?;
    let main_thread = pid.to_string();
    let Some((_, _, main)) = masks.iter().find(|(thread, ..)| *thread == main_thread) else {
        return Ok(Judgement::cannot_tell("its main thread is not among its threads"));
    };
    let online = super::topology(probe)?.online.clone();
    let shares = |mask: &crate::CpuSet| mask == main && main.len() == 1;
    let crowd: Vec<&str> = masks
        .iter()
        .filter(|(thread, _, mask)| *thread != main_thread && shares(mask))
        .map(|(_, name, _)| name.as_str())
        .collect();
    if !crowd.is_empty() {
        return Ok(Judgement::problem(format!(
            "CPU {main} of the main thread is also that of {}",
            crowd.join(", ")
        ))
        .so(
            "give background threads and children lists of their own: bio-cpulist, bgsave-cpulist, \
                 aof-rewrite-cpulist",
        )
        .with_restart());
    }
    let forks = probe.host.server().and_then(Server::forks) == Some(true);
    let listed = probe.host.server().is_some_and(|server| {
        server.config.get("bgsave-cpulist").is_some_and(|list| !list.is_empty())
    });
    if main.len() == 1 && forks && !listed {
        return Ok(Judgement::advice(format!(
            "the main thread is pinned to CPU {main}: so is each snapshot's child"
        ))
        .so("set bgsave-cpulist and aof-rewrite-cpulist to other CPUs")
        .with_restart());
    }
    if masks.iter().all(|(_, _, mask)| online.is_subset(mask)) {
        return Ok(Judgement::advice(
            "no thread is pinned: the scheduler moves them between cores",
        )
        .so("see `tidemill tune plan`, or start it with `tidemill tune run`")
        .with_restart());
    }
    Ok(Judgement::ok(format!("{} threads, the main one on CPU {main}", masks.len())))
}

fn memory_limit(probe: &mut Probe<'_>) -> Outcome {
    let limit = match setting(probe, "maxmemory") {
        Ok(limit) => limit,
        Err(judgement) => return Ok(judgement),
    };
    let limit: u64 = limit.parse().map_err(|_| ReadError::malformed("CONFIG maxmemory"))?;
    let total_kib = super::memory::memory_total_kib(probe)?;
    let mut total = u64::try_from(total_kib).unwrap_or(0).saturating_mul(1024);
    for (directory, is_second) in probe.host.groups.directories("memory") {
        let file = if is_second { "memory.max" } else { "memory.limit_in_bytes" };
        if let Ok(bytes) = probe.host.root.value::<u64>(&format!("{directory}/{file}"))
            && bytes < total
        {
            probe.note(format!("{directory}/{file}: {bytes}"));
            total = bytes;
        }
    }
    let percent = limit.saturating_mul(100) / total.max(1);
    let wanted = total / 100 * 75;
    Ok(match (limit, percent) {
        (0, _) => Judgement::advice("no limit: memory ends where the kernel kills")
            .so(format!("CONFIG SET maxmemory {wanted} (75 % of what there is)")),
        (_, 81..) => Judgement::problem(format!("maxmemory is {percent} % of the memory there is"))
            .so(format!("CONFIG SET maxmemory {wanted} (75 %)")),
        _ => Judgement::ok(format!("maxmemory is {percent} % of the memory there is")),
    })
}

fn save_points(probe: &mut Probe<'_>) -> Outcome {
    let forks = server(probe).ok().and_then(Server::forks);
    settled(setting(probe, "save").map(|points| {
        match (points.is_empty(), forks) {
            (true, _) => Judgement::ok("no save points: snapshots come when asked for"),
            (false, Some(false)) => Judgement::ok("save points, written without a fork"),
            _ => Judgement::advice(format!("save points \"{points}\" fork under load"))
                .so("CONFIG SET save \"\" where replicas or an append-only file keep the data"),
        }
    }))
}

fn log_level(probe: &mut Probe<'_>) -> Outcome {
    settled(setting(probe, "loglevel").map(|level| match level.as_str() {
        "debug" | "verbose" => {
            Judgement::advice(format!("loglevel {level}")).so("CONFIG SET loglevel notice")
        }
        _ => Judgement::ok(format!("loglevel {level}")),
    }))
}

fn allocator(probe: &mut Probe<'_>) -> Outcome {
    let server = match server(probe) {
        Ok(server) => server,
        Err(judgement) => return Ok(judgement),
    };
    let Some(name) = server.info.get("mem_allocator") else {
        return Ok(Judgement::cannot_tell("INFO mem_allocator is not told"));
    };
    probe.note(format!("INFO mem_allocator: {name}"));
    Ok(match name.starts_with("libc") {
        true => Judgement::advice("libc's allocator")
            .so("build with jemalloc, or watch mem_fragmentation_ratio"),
        false => Judgement::ok(name.clone()),
    })
}

/// A reply up to this many bytes fits one packet beside its framing.
const REPLY_PACKET_BYTES: u64 = 1_000;

fn value_size(probe: &mut Probe<'_>) -> Outcome {
    let server = match server(probe) {
        Ok(server) => server,
        Err(judgement) => return Ok(judgement),
    };
    let told = ("total_net_output_bytes", "total_commands_processed");
    let (Some(bytes), Some(commands)) = (server.number(told.0), server.number(told.1)) else {
        return Ok(Judgement::cannot_tell("INFO stats are not told"));
    };
    let mean = bytes / commands.max(1);
    probe.note(format!("INFO {} / {}: {mean} bytes per command", told.0, told.1));
    Ok(match mean > REPLY_PACKET_BYTES {
        true => Judgement::advice(format!("replies average {mean} bytes: more than one packet"))
            .so("split or compress large values, if the curve of your own load says so"),
        false => Judgement::ok(format!("replies average {mean} bytes")),
    })
}

fn data_directory(probe: &mut Probe<'_>) -> Outcome {
    let directory = match setting(probe, "dir") {
        Ok(directory) => directory,
        Err(judgement) => return Ok(judgement),
    };
    if directory.is_empty() {
        return Ok(Judgement::not_applicable("the server names no data directory"));
    }
    let mounts = probe.host.root.text("/proc/mounts")?;
    let rows = mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>());
    let inside = |point: &str| {
        let prefix = point.trim_end_matches('/');
        directory == prefix || directory.starts_with(&format!("{prefix}/"))
    };
    let holding = rows.filter(|row| row.len() > 2 && inside(row[1])).max_by_key(|row| row[1].len());
    let Some(row) = holding else {
        return Ok(Judgement::cannot_tell(format!("no mount holds {directory}")));
    };
    probe.note(format!("/proc/mounts: {} on {} type {}", row[0], row[1], row[2]));
    if row[2].starts_with("nfs") || matches!(row[2], "cifs" | "ceph" | "fuse.sshfs" | "9p") {
        return Ok(Judgement::problem(format!(
            "{directory} is on a network file system ({})",
            row[2]
        ))
        .so("move it to a local disk, and restart")
        .with_restart());
    }
    let device = row[0].rsplit('/').next().unwrap_or_default();
    let whole = device.trim_end_matches(|c: char| c.is_ascii_digit());
    let whole = if device.starts_with("nvme") { whole.trim_end_matches('p') } else { whole };
    let rotates = [device, whole]
        .into_iter()
        .find_map(|name| probe.host.root.text(&format!("/sys/block/{name}/queue/rotational")).ok());
    Ok(match rotates.as_deref() {
        Some("1") => Judgement::advice(format!(
            "{directory} is on {device}, which says it has a disk arm"
        ))
        .so("a solid-state disk, or no appendfsync always (a virtual disk may say so wrongly)"),
        Some(_) => Judgement::ok(format!("{directory} is on {device}")),
        None => Judgement::ok(format!("{directory} is on {} ({})", row[0], row[2])),
    })
}
