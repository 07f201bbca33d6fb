//! Usage of threads and processes by the kernel's account: CPU time, run-queue waits, context
//! switches, migrations, memory.
//!
//! Read from `/proc` as text: a few reads at the beginning and the end of a run, nothing during
//! it. Hardware counters are in `hardware`.

use std::collections::BTreeMap;
use std::fs;

use serde::{Deserialize, Serialize};

/// Resources one thread used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ThreadUsage {
    /// Time in user mode, nanoseconds (clock ticks for other processes: 10 ms).
    pub user_ns: u64,
    /// Time in the kernel, nanoseconds (clock ticks: 10 ms).
    pub system_ns: u64,
    /// Time on a CPU as the scheduler accounts it, nanoseconds; 0 where it does not.
    pub cpu_ns: u64,
    /// Time runnable without running, nanoseconds.
    pub run_queue_wait_ns: u64,
    /// Context switches because it waited.
    pub voluntary_switches: u64,
    /// Context switches because it was taken off.
    pub involuntary_switches: u64,
    /// Moves to another CPU; `None` where the kernel does not tell.
    pub migrations: Option<u64>,
}

impl ThreadUsage {
    /// The calling thread so far.
    pub fn of_this_thread() -> Self {
        let mut usage = Self::read("/proc/thread-self").unwrap_or_default();
        let cpu = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        usage.cpu_ns = cpu.tv_sec as u64 * 1_000_000_000 + cpu.tv_nsec as u64;
        usage
    }

    fn read(directory: &str) -> Option<Self> {
        let mut usage = Self::default();
        let stat = fs::read_to_string(format!("{directory}/stat")).ok()?;
        // The command name may hold anything, blanks and parentheses too.
        let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_ascii_whitespace().collect();
        let tick_ns = 1_000_000_000 / rustix::param::clock_ticks_per_second().max(1);
        usage.user_ns = fields.get(11)?.parse::<u64>().ok()? * tick_ns;
        usage.system_ns = fields.get(12)?.parse::<u64>().ok()? * tick_ns;
        if let Ok(schedstat) = fs::read_to_string(format!("{directory}/schedstat")) {
            let mut numbers = schedstat.split_ascii_whitespace().map(|word| word.parse().ok());
            usage.cpu_ns = numbers.next().flatten().unwrap_or(0);
            usage.run_queue_wait_ns = numbers.next().flatten().unwrap_or(0);
        }
        let status = fs::read_to_string(format!("{directory}/status")).ok()?;
        usage.voluntary_switches = field(&status, "voluntary_ctxt_switches:").unwrap_or(0);
        usage.involuntary_switches = field(&status, "nonvoluntary_ctxt_switches:").unwrap_or(0);
        if let Ok(sched) = fs::read_to_string(format!("{directory}/sched")) {
            usage.migrations = sched
                .lines()
                .find(|line| line.starts_with("se.nr_migrations"))
                .and_then(|line| line.rsplit_once(':')?.1.trim().parse().ok());
        }
        Some(usage)
    }

    /// Usage since an earlier reading.
    pub fn since(&self, start: &Self) -> Self {
        Self {
            user_ns: self.user_ns.saturating_sub(start.user_ns),
            system_ns: self.system_ns.saturating_sub(start.system_ns),
            cpu_ns: self.cpu_ns.saturating_sub(start.cpu_ns),
            run_queue_wait_ns: self.run_queue_wait_ns.saturating_sub(start.run_queue_wait_ns),
            voluntary_switches: self.voluntary_switches.saturating_sub(start.voluntary_switches),
            involuntary_switches: self
                .involuntary_switches
                .saturating_sub(start.involuntary_switches),
            migrations: self
                .migrations
                .map(|count| count.saturating_sub(start.migrations.unwrap_or(0))),
        }
    }

    /// Both together.
    pub fn plus(&self, other: &Self) -> Self {
        Self {
            user_ns: self.user_ns + other.user_ns,
            system_ns: self.system_ns + other.system_ns,
            cpu_ns: self.cpu_ns + other.cpu_ns,
            run_queue_wait_ns: self.run_queue_wait_ns + other.run_queue_wait_ns,
            voluntary_switches: self.voluntary_switches + other.voluntary_switches,
            involuntary_switches: self.involuntary_switches + other.involuntary_switches,
            migrations: match (self.migrations, other.migrations) {
                (Some(ours), Some(theirs)) => Some(ours + theirs),
                (ours, theirs) => ours.or(theirs),
            },
        }
    }

    /// The scheduler's CPU time, or user and system time where it keeps none.
    pub fn busy_ns(&self) -> u64 {
        if self.cpu_ns > 0 { self.cpu_ns } else { self.user_ns + self.system_ns }
    }
}

fn field(text: &str, name: &str) -> Option<u64> {
    text.lines()
        .find_map(|line| line.strip_prefix(name))
        .and_then(|rest| rest.split_ascii_whitespace().next()?.parse().ok())
}

/// A reading of a process and its threads.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct ProcessUsage {
    /// Process id.
    pub pid: u32,
    /// Name of the program as the kernel has it.
    pub name: String,
    /// Resident memory in bytes.
    pub resident_bytes: u64,
    /// Most resident memory since the process began, in bytes; children have their own.
    #[serde(default)]
    pub peak_bytes: u64,
    /// Threads by id, with their names.
    pub threads: BTreeMap<u32, (String, ThreadUsage)>,
}

impl ProcessUsage {
    /// Reads a process; `None` when it is gone or may not be looked at.
    pub fn read(pid: u32) -> Option<Self> {
        let name = fs::read_to_string(format!("/proc/{pid}/comm")).ok()?.trim().to_string();
        let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        let resident_bytes = field(&status, "VmRSS:").unwrap_or(0) * 1024;
        let peak_bytes = field(&status, "VmHWM:").unwrap_or(0) * 1024;
        let mut threads = BTreeMap::new();
        for entry in fs::read_dir(format!("/proc/{pid}/task")).ok()?.flatten() {
            let Some(id) = entry.file_name().to_str().and_then(|id| id.parse::<u32>().ok()) else {
                continue;
            };
            let directory = format!("/proc/{pid}/task/{id}");
            let Ok(comm) = fs::read_to_string(format!("{directory}/comm")) else { continue };
            if let Some(usage) = ThreadUsage::read(&directory) {
                threads.insert(id, (comm.trim().to_string(), usage));
            }
        }
        Some(Self { pid, name, resident_bytes, peak_bytes, threads })
    }

    /// Usage since an earlier reading; threads that are gone since are missed.
    pub fn since(&self, start: &Self) -> Self {
        let threads = self.threads.iter().map(|(&id, (name, usage))| {
            let before = start.threads.get(&id).map(|entry| entry.1).unwrap_or_default();
            (id, (name.clone(), usage.since(&before)))
        });
        Self { threads: threads.collect(), ..self.clone() }
    }

    /// All threads together.
    pub fn total(&self) -> ThreadUsage {
        self.threads.values().fold(ThreadUsage::default(), |sum, entry| sum.plus(&entry.1))
    }
}

/// The process that listens on a TCP port of this machine, if it can be found and looked at.
pub fn listener_of_port(port: u16) -> Option<u32> {
    let wanted = format!(":{port:04X}");
    for table in ["/proc/net/tcp", "/proc/net/tcp6"] {
        let Ok(text) = fs::read_to_string(table) else { continue };
        for line in text.lines().skip(1) {
            let fields: Vec<&str> = line.split_ascii_whitespace().collect();
            // State 0A is LISTEN; the tenth field is the inode.
            if fields.len() > 9
                && fields[1].ends_with(&wanted)
                && fields[3] == "0A"
                && let Some(pid) = owner_of_socket(fields[9])
            {
                return Some(pid);
            }
        }
    }
    None
}

/// The process that listens on a Unix socket.
pub fn listener_of_path(path: &std::path::Path) -> Option<u32> {
    let path = path.to_str()?;
    let text = fs::read_to_string("/proc/net/unix").ok()?;
    text.lines().find_map(|line| {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        // Flags 00010000: it accepts connections.
        (fields.len() > 7 && fields[7] == path && fields[3] == "00010000")
            .then(|| owner_of_socket(fields[6]))
            .flatten()
    })
}

fn owner_of_socket(inode: &str) -> Option<u32> {
    let wanted = format!("socket:[{inode}]");
    for entry in fs::read_dir("/proc").ok()?.flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else {
            continue;
        };
        let Ok(descriptors) = fs::read_dir(format!("/proc/{pid}/fd")) else { continue };
        for descriptor in descriptors.flatten() {
            if fs::read_link(descriptor.path()).is_ok_and(|link| link.to_str() == Some(&wanted)) {
                return Some(pid);
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_busy_thread_shows_its_cpu_time() {
        let clock = || rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        let cpu_ns = || clock().tv_sec as u64 * 1_000_000_000 + clock().tv_nsec as u64;
        let start = ThreadUsage::of_this_thread();
        let began_ns = cpu_ns();
        let mut number = 1u64;
        while cpu_ns() - began_ns < 50_000_000 {
            number = std::hint::black_box(number.wrapping_mul(3));
        }
        let used = ThreadUsage::of_this_thread().since(&start);
        // The figure of the system may be a tick behind.
        assert!(used.cpu_ns > 30_000_000 && used.cpu_ns < 2_000_000_000, "{used:?}");
    }

    #[test]
    fn listeners_are_found_by_port_and_path() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        assert_eq!(listener_of_port(port), Some(std::process::id()));
        let path = std::env::temp_dir().join(format!("tidemill-{}.sock", std::process::id()));
        let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
        assert_eq!(listener_of_path(&path), Some(std::process::id()));
        drop(listener);
        fs::remove_file(path).unwrap();
    }
}
