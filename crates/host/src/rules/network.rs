//! R7 to R13, R23 and R27: queues, packet processing, interrupts of network interfaces,
//! connections.

use super::{Change, Judgement, Outcome, Persistence, Rule, Untold, placement, steering, topology};
use crate::facts::{self, Channels, Probe};
use crate::topology::Nic;
use crate::{CpuSet, ReadError, Refusal};

pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "R7",
        title: "accept queue",
        harm: 80,
        why: "the shortest of somaxconn, tcp_max_syn_backlog and tcp-backlog holds; a full queue \
              drops connections, which come back a second later",
        effect: "",
        judge: accept_queue,
    },
    Rule {
        id: "R8",
        title: "packet backlog and budget",
        harm: 72,
        why: "packets beyond the backlog are dropped, keep-alive probes of very many idle \
              connections among them, which leave in bursts, and after three the connection; a \
              budget that runs out leaves packets waiting",
        effect: "",
        judge: packet_backlog,
    },
    Rule {
        id: "R9",
        title: "busy polling",
        harm: 20,
        why: "polling burns a core; with epoll it only helps when all sockets share one queue",
        effect: "",
        judge: busy_polling,
    },
    Rule {
        id: "R10",
        title: "packet steering",
        harm: 55,
        why: "packet work that runs on a worker's core takes its time and its cache; workers that \
              send through one queue wait for its lock",
        effect: "761 to 834 GET/s and 777 to 860 SET/s with packet work off the server's CPUs",
        judge: steering::packet_steering,
    },
    Rule {
        id: "R11",
        title: "queues and interrupts of network interfaces",
        harm: 58,
        why: "interrupts on a worker's core interrupt it; on another socket they cost remote \
              memory accesses",
        effect: "memory access 18 % slower when interrupts and server are on different sockets",
        judge: interrupts,
    },
    Rule {
        id: "R12",
        title: "irqbalance",
        harm: 50,
        why: "it moves interrupts back every ten seconds; its ban list replaces the default ban",
        effect: "",
        judge: irqbalance,
    },
    Rule {
        id: "R13",
        title: "interrupt coalescing",
        harm: 15,
        why: "waiting for more packets per interrupt trades latency for throughput; only a \
              measurement decides",
        effect: "",
        judge: coalescing,
    },
    Rule {
        id: "R23",
        title: "Unix socket for clients on this host",
        harm: 25,
        why: "the loopback goes through the whole of TCP",
        effect: "30 % and more is claimed, and shrinks as pipelines grow: measure",
        judge: unix_socket,
    },
    Rule {
        id: "R27",
        title: "connection tracking",
        harm: 82,
        why: "when the table is full, new connections are dropped without an answer",
        effect: "",
        judge: connection_tracking,
    },
];

const SOMAXCONN: &str = "/proc/sys/net/core/somaxconn";
const SYN_BACKLOG: &str = "/proc/sys/net/ipv4/tcp_max_syn_backlog";
const BACKLOG_ENOUGH: i64 = 4_096;
const BACKLOG_TARGET: i64 = 65_535;

/// A counter of `/proc/net/netstat`, where a line of names precedes a line of values.
fn netstat(name: &'static str) -> impl Fn(&str) -> Option<u64> {
    move |text| {
        let lines: Vec<&str> = text.lines().collect();
        let pairs = lines.chunks_exact(2);
        let mut found = pairs.filter_map(|pair| {
            let position = pair[0].split_whitespace().position(|field| field == name)?;
            pair[1].split_whitespace().nth(position)?.parse().ok()
        });
        found.next()
    }
}

fn accept_queue(probe: &mut Probe<'_>) -> Outcome {
    let somaxconn = probe.number(SOMAXCONN)?;
    let syn = probe.number(SYN_BACKLOG)?;
    let own = probe.host.server().and_then(|server| server.setting("tcp-backlog"));
    let own = own.and_then(|backlog| i64::try_from(backlog).ok());
    if let Some(own) = own {
        probe.note(format!("CONFIG tcp-backlog: {own}"));
    }
    let overflows =
        probe.growth("/proc/net/netstat", "ListenOverflows", netstat("ListenOverflows"))?;
    let effective = somaxconn.min(syn).min(own.unwrap_or(i64::MAX));
    let wanted = own.unwrap_or(0).max(BACKLOG_ENOUGH);
    let mut changes = Vec::new();
    for (path, value) in [(SOMAXCONN, somaxconn), (SYN_BACKLOG, syn)] {
        if value < wanted || (overflows.grows() == Some(true) && value < BACKLOG_TARGET) {
            changes.push(Change::sysctl("R7", path, value, BACKLOG_TARGET));
        }
    }
    if overflows.grows() == Some(true) {
        return Ok(Judgement::problem(format!(
            "connections overflow an accept queue of {effective}"
        ))
        .so("raise somaxconn, tcp_max_syn_backlog and the server's tcp-backlog together, then \
                 restart it")
        .changing(changes)
        .with_restart());
    }
    Ok(match changes.is_empty() {
        true => Judgement::ok(format!("accept queues hold {effective}, none overflows")),
        false => Judgement::advice(format!("accept queues hold only {effective}"))
            .so("raise them; a server takes the new value when it listens again")
            .changing(changes)
            .with_restart(),
    })
}

/// The sum of a hexadecimal column of `/proc/net/softnet_stat`.
fn softnet(column: usize) -> impl Fn(&str) -> Option<u64> {
    move |text| {
        let mut rows = text.lines().filter(|line| !line.trim().is_empty());
        rows.try_fold(0u64, |sum, line| {
            let count = u64::from_str_radix(line.split_whitespace().nth(column)?, 16).ok()?;
            Some(sum.saturating_add(count))
        })
    }
}

fn packet_backlog(probe: &mut Probe<'_>) -> Outcome {
    const PATH: &str = "/proc/net/softnet_stat";
    let dropped = probe.growth(PATH, "dropped", softnet(1))?;
    let squeezed = probe.growth(PATH, "time_squeeze", softnet(2))?;
    let mut changes = Vec::new();
    let mut double = |probe: &mut Probe<'_>, file: &str| -> Result<(), ReadError> {
        let path = format!("/proc/sys/net/core/{file}");
        if let Some(value) = probe.numeric_knob(&path)? {
            changes.push(Change::sysctl("R8", &path, value, value.saturating_mul(2)));
        }
        Ok(())
    };
    if dropped.grows() == Some(true) {
        double(probe, "netdev_max_backlog")?;
    }
    if squeezed.grows() == Some(true) {
        double(probe, "netdev_budget")?;
        double(probe, "netdev_budget_usecs")?;
    }
    Ok(match (dropped.grows(), squeezed.grows()) {
        (Some(true), _) => Judgement::problem("packets are dropped for want of backlog")
            .so("double it")
            .changing(changes),
        (_, Some(true)) => Judgement::advice("packet processing runs out of its budget")
            .so("double the budget, or spread the load over more CPUs (R10)")
            .changing(changes),
        (Some(false), Some(false)) => Judgement::ok("nothing dropped, no budget ran out"),
        _ => Judgement::cannot_tell("dropped or squeezed since boot; growth needs two samples"),
    })
}

/// Interfaces that are up, have a device and are no virtual bundle: the ones with queues to set.
pub(super) fn nics<'a>(probe: &Probe<'a>) -> Result<Vec<&'a Nic>, Untold> {
    let host = probe.host;
    host.root.names("/sys/class/net")?;
    let topology = topology(probe)?;
    Ok(topology.nics.iter().filter(|nic| nic.is_up).collect())
}

fn busy_polling(probe: &mut Probe<'_>) -> Outcome {
    const PATH: &str = "/proc/sys/net/core/busy_poll";
    let Some(usecs) = probe.numeric_knob(PATH)? else {
        return Ok(Judgement::not_applicable("this kernel does not busy-poll"));
    };
    if usecs == 0 {
        return Ok(Judgement::ok("off; worth an experiment with one queue and a spare core only"));
    }
    let nics = nics(probe)?;
    Ok(match nics.iter().any(|nic| nic.receive_queue_count > 1) {
        true => Judgement::advice("on, though interfaces have several queues")
            .so("set net.core.busy_poll = 0 unless a measurement says otherwise")
            .changing(vec![Change::sysctl("R9", PATH, usecs, 0)]),
        false => Judgement::ok("on with one queue per interface"),
    })
}

/// Interfaces with fewer queues than CPUs to take their interrupts, though the device has more.
fn missing_queues(probe: &mut Probe<'_>, nics: &[&Nic], irq: &CpuSet) -> Vec<Change> {
    let mut changes = Vec::new();
    for nic in nics {
        let found = match facts::channels(probe.host.root, &nic.name) {
            Ok(Some(found)) => found,
            Ok(None) => continue,
            Err(error) => {
                probe.note(error.to_string());
                continue;
            }
        };
        let Channels { combined, combined_max } = found;
        probe.note(format!("ethtool -l {}: {combined} of {combined_max} queues", nic.name));
        let wanted = combined_max.min(u32::try_from(irq.len()).unwrap_or(u32::MAX));
        if combined < wanted {
            changes.push(Change::queues(&nic.name, combined, wanted));
        }
    }
    changes
}

fn interrupts(probe: &mut Probe<'_>) -> Outcome {
    let nics = nics(probe)?;
    if nics.is_empty() {
        return Ok(Judgement::not_applicable("no network interface with a device is up"));
    }
    let placement = placement(probe)?;
    let queues = missing_queues(probe, &nics, &placement.irq);
    if !queues.is_empty() {
        return Ok(Judgement::advice(
            "interfaces have fewer queues than CPUs for their interrupts",
        )
        .so("`ethtool -L` (the link may pause; at boot it needs the program ethtool), then \
                 this again: interrupts are numbered anew")
        .changing(queues));
    }
    let visible: Vec<&Nic> = nics.into_iter().filter(|nic| !nic.interrupts.is_empty()).collect();
    if visible.is_empty() {
        return Ok(Judgement::not_applicable("no interrupts of network interfaces are visible"));
    }
    let workers = placement.worker_cpus();
    probe.host.root.names("/proc/irq")?;
    let mut changes = Vec::new();
    for nic in visible {
        let targets: Vec<u32> = placement.irq.iter().collect();
        for (index, number) in nic.interrupts.iter().enumerate() {
            let path = format!("/proc/irq/{number}/smp_affinity_list");
            // An interrupt that is allocated and not requested has no directory.
            let list = match probe.host.root.text(&path) {
                Err(error) if error.refusal == Refusal::Absent => continue,
                list => list?,
            };
            let effective = format!("/proc/irq/{number}/effective_affinity_list");
            let effective = probe.host.root.text(&effective).unwrap_or_else(|_| list.clone());
            let on = CpuSet::parse_list(&effective).map_err(|_| ReadError::malformed(&path))?;
            let allowed = CpuSet::parse_list(&list).map_err(|_| ReadError::malformed(&path))?;
            // A new list takes effect with the next interrupt: until then the old CPU is told.
            let on = if on.is_subset(&allowed) { on } else { allowed };
            if !on.intersects(&workers) || targets.is_empty() {
                continue;
            }
            probe.note(format!("{path}: {list}, in effect {effective}"));
            let to = targets[index % targets.len()];
            let lasting = Persistence::Interrupt { interface: nic.name.clone(), index };
            changes.push(Change::new("R11", &path, list, to, lasting));
        }
    }
    Ok(match (changes.is_empty(), placement.irq.is_empty()) {
        (_, true) => Judgement::not_applicable("too few CPUs to move interrupts off the workers"),
        (true, false) => Judgement::ok("no interrupt of a network interface is on a worker's CPU"),
        (false, false) => {
            Judgement::advice(format!("{} interrupts land on workers' CPUs", changes.len()))
                .so(format!("move them to CPU {}", placement.irq))
                .changing(changes)
        }
    })
}

/// True if a program of this name runs.
pub(super) fn runs(probe: &mut Probe<'_>, program: &str) -> Result<bool, ReadError> {
    let found = facts::runs(probe.host.root, program)?;
    probe.note(format!("processes: {program} {}", if found { "runs" } else { "does not run" }));
    Ok(found)
}

fn irqbalance(probe: &mut Probe<'_>) -> Outcome {
    if !runs(probe, "irqbalance")? {
        return Ok(Judgement::not_applicable("irqbalance does not run"));
    }
    let placement = placement(probe)?;
    let topology = topology(probe)?;
    let wanted = placement.worker_cpus().or(&topology.isolated).or(&topology.tickless);
    let files = ["/etc/default/irqbalance", "/etc/sysconfig/irqbalance"];
    let settings = probe.text(files[0]).or_else(|_| probe.text(files[1]))?;
    let lines = settings.lines().map(str::trim).filter(|line| !line.starts_with('#'));
    let setting =
        lines.filter_map(|line| line.strip_prefix("IRQBALANCE_BANNED_CPULIST=")).next_back();
    let banned = setting.map(|list| list.trim_matches('"')).unwrap_or_default();
    let banned = CpuSet::parse_list(banned).map_err(|_| ReadError::malformed(files[0]))?;
    if placement.irq.is_empty() {
        return Ok(Judgement::not_applicable("too few CPUs to keep interrupts off the workers"));
    }
    Ok(match wanted.is_subset(&banned) {
        true => Judgement::ok(format!("irqbalance keeps off CPU {banned}")),
        false => Judgement::advice("irqbalance may put interrupts on workers' CPUs")
            .so(format!(
                "set IRQBALANCE_BANNED_CPULIST={} (it replaces the default ban, so this is \
                 the union of workers and isolated CPUs) and restart irqbalance; rather than \
                 stopping it",
                wanted.or(&banned)
            ))
            .with_root(),
    })
}

/// Text of a capture for an interface without interrupt coalescing.
pub(crate) const UNSUPPORTED: &str = "unsupported";

fn coalescing(probe: &mut Probe<'_>) -> Outcome {
    let nics = nics(probe)?;
    if nics.is_empty() {
        return Ok(Judgement::not_applicable("no network interface with a device is up"));
    }
    let mut told = Vec::new();
    for nic in nics {
        match probe.host.root.text(&format!("/tidemill/ethtool/{}", nic.name)) {
            Ok(text) if text == UNSUPPORTED => {}
            Ok(text) => told.push(format!("{}: {}", nic.name, text.replace('\n', " "))),
            Err(error) if !probe.host.root.is_live() => return Err(error.into()),
            Err(_) => {
                let read = crate::apply::coalescing(&nic.name);
                let read = read.map_err(|error| ReadError {
                    path: format!("ethtool -c {}", nic.name),
                    refusal: Refusal::from_errno(error.raw_os_error().unwrap_or(0), false),
                    errno: error.raw_os_error().unwrap_or(0),
                });
                match read {
                    Err(error) if error.errno == libc::EOPNOTSUPP => {}
                    read => told.push(format!("{}: {}", nic.name, read?)),
                }
            }
        }
    }
    if told.is_empty() {
        return Ok(Judgement::not_applicable(
            "no interface can wait for more packets per interrupt",
        ));
    }
    told.iter().for_each(|line| probe.note(line.clone()));
    let long = told.iter().any(|line| {
        let mut words = line.split([' ', '=']);
        words.any(|word| word == "rx-usecs")
            && words.next().and_then(|n| n.parse::<u32>().ok()) > Some(100)
    });
    Ok(match long && !probe.host.inspect.prefers_throughput {
        true => Judgement::advice("interrupts wait more than 100 µs for further packets")
            .so("compare a lower `ethtool -C DEVICE rx-usecs` under your own load; note the \
                 original first")
            .with_root(),
        false => Judgement::ok("interrupts come soon; changes are for measurements only"),
    })
}

/// True if an address of `/proc/net/tcp` or `tcp6` is a loopback one, as little-endian machines
/// print it.
pub(crate) fn is_loopback(address: &str) -> bool {
    let host = address.split(':').next().unwrap_or_default();
    match host.len() {
        8 => host.ends_with("7F"),
        // `::1`, and 127.0.0.0/8 mapped.
        32 => {
            host == "00000000000000000000000001000000"
                || (host.starts_with("0000000000000000FFFF0000") && host.ends_with("7F"))
        }
        _ => false,
    }
}

/// Established connections of a table of sockets to a local port, from loopback addresses.
fn loopback_clients(table: &str, port: u64) -> usize {
    let suffix = format!(":{port:04X}");
    let rows = table.lines().skip(1).filter(|row| {
        let fields: Vec<&str> = row.split_whitespace().collect();
        fields.len() > 3
            && fields[1].ends_with(&suffix)
            && is_loopback(fields[2])
            && fields[3] == "01"
    });
    rows.count()
}

fn unix_socket(probe: &mut Probe<'_>) -> Outcome {
    let Some(server) = probe.host.server() else {
        return Ok(Judgement::not_applicable("no server was named"));
    };
    let Some(port) = server.setting("port").or_else(|| server.number("tcp_port")) else {
        return Ok(Judgement::cannot_tell("the server does not tell its port"));
    };
    let has_socket = server.config.get("unixsocket").is_some_and(|path| !path.is_empty());
    probe.note(format!("CONFIG unixsocket: {}", if has_socket { "set" } else { "none" }));
    let root = probe.host.root;
    // Absent where IPv6 is switched off.
    let over_six = root.head("/proc/net/tcp6").unwrap_or_default();
    let clients =
        loopback_clients(&root.head("/proc/net/tcp")?, port) + loopback_clients(&over_six, port);
    probe.note(format!("/proc/net/tcp: {clients} clients of port {port} on this host"));
    Ok(match (clients, has_socket) {
        (0, _) => Judgement::ok("no client comes over the loopback"),
        (_, true) => Judgement::advice(format!(
            "{clients} clients on this host use TCP, there is a Unix socket"
        ))
        .so("compare both under your own load"),
        (_, false) => Judgement::advice(format!("{clients} clients on this host use TCP"))
            .so("offer them a Unix socket and compare under your own load")
            .with_restart(),
    })
}

fn connection_tracking(probe: &mut Probe<'_>) -> Outcome {
    const COUNT: &str = "/proc/sys/net/netfilter/nf_conntrack_count";
    const MAX: &str = "/proc/sys/net/netfilter/nf_conntrack_max";
    let net_is_seen = probe.host.root.names("/proc/sys/net").is_ok();
    let count = match probe.number(COUNT) {
        Err(error) if error.refusal == Refusal::Absent && net_is_seen => {
            return Ok(Judgement::not_applicable("connections are not tracked"));
        }
        count => count?,
    };
    let most = probe.number(MAX)?.max(1);
    let percent = count.saturating_mul(100) / most;
    let change = || vec![Change::sysctl("R27", MAX, most, most.saturating_mul(2))];
    Ok(match percent {
        90.. => Judgement::problem(format!("the table of tracked connections is {percent} % full"))
            .so("double it, or do not track the server's port")
            .changing(change()),
        60..90 => {
            Judgement::advice(format!("the table of tracked connections is {percent} % full"))
                .so("double it, or do not track the server's port")
                .changing(change())
        }
        _ => Judgement::ok(format!("the table of tracked connections is {percent} % full")),
    })
}
