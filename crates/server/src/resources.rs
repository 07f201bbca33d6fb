//! Resources of threads beside their CPUs: memory for their start, time slices, a scheduling
//! policy, memory nodes, huge pages.
//!
//! Kernels of some age and containers refuse one or the other. The server is right without any of
//! them, so that a refusal is one line of the log and never the end of a start.

use std::io;
use std::path::Path;
use std::sync::Once;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tidemill_engine::config::ServerConfig;
use tidemill_engine::system_error::reason;
use tidemill_host::Root;
use tidemill_host::apply::{
    MemoryPolicy, Policy, pin_current_thread, set_memory_policy, set_scheduling,
};
use tidemill_host::placement::Placement;

use crate::allocator;
use crate::limits::BACKGROUND_NICE;

const HUGE_PAGES: &str = "/sys/kernel/mm/transparent_hugepage/enabled";

/// Settings that each worker applies to itself when it starts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WorkerResources {
    slice_us: u32,
    asks_for_huge_pages: bool,
}

impl WorkerResources {
    pub(crate) fn wanted(config: &ServerConfig) -> Self {
        Self {
            slice_us: config.worker_slice_us,
            asks_for_huge_pages: config.asks_for_huge_pages && has_huge_pages(),
        }
    }

    /// Takes them for the calling thread, the worker `index`. A kernel refuses all workers alike,
    /// so the first speaks for all of them.
    pub(crate) fn take(self, index: usize) {
        let is_first = index == 0;
        if self.slice_us > 0 {
            let slice = Duration::from_micros(self.slice_us.into());
            let taken = set_scheduling(None, Some(slice));
            if let (Err(error), true) = (taken, is_first) {
                refused(&format!("worker-slice-us {}", self.slice_us), &reason(&error));
            }
        }
        if self.asks_for_huge_pages
            && let (Err(why), true) = (allocator::ask_for_huge_pages(), is_first)
        {
            refused("huge-pages yes", &why);
        }
    }
}

fn refused(setting: &str, why: &str) {
    log::warn!("{setting} is not in force: {why}");
}

/// True if a process that asks can get huge pages here; logs the reason when not.
fn has_huge_pages() -> bool {
    match Root::live().text(HUGE_PAGES) {
        Err(error) => refused("huge-pages yes", &error.to_string()),
        Ok(text) if text.contains("[never]") => {
            refused("huge-pages yes", &format!("{HUGE_PAGES}: {text}"));
        }
        Ok(_) => return true,
    }
    false
}

/// Sets where the calling thread, and the threads it starts afterwards, take memory from.
pub(crate) fn set_memory_nodes(config: &ServerConfig, placement: &Placement) {
    let name = &config.memory_policy;
    let set = match memory_policy(name, &placement.worker_nodes) {
        Ok(None) => return,
        Ok(Some(policy)) => set_memory_policy(&policy).map_err(|error| reason(&error)),
        Err(why) => Err(why.to_owned()),
    };
    if let Err(why) = set {
        refused(&format!("memory-policy {name}"), &why);
    }
}

/// The policy of this name for workers on these memory nodes; `None` for the kernel's own.
fn memory_policy(name: &str, nodes: &[u32]) -> Result<Option<MemoryPolicy>, &'static str> {
    match (name, nodes) {
        ("prefer" | "bind" | "interleave", []) => Err("no memory nodes are known"),
        ("prefer", [node]) => Ok(Some(MemoryPolicy::Prefer(*node))),
        ("bind", [node]) => Ok(Some(MemoryPolicy::Bind(*node))),
        ("prefer" | "bind", _) => Err("workers are on several memory nodes"),
        ("interleave", _) => Ok(Some(MemoryPolicy::Interleave(nodes.to_vec()))),
        _ => Ok(None),
    }
}

/// Gives the calling thread, and the threads it starts afterwards, the policy of background
/// threads.
pub(crate) fn set_background_policy(config: &ServerConfig) {
    static TOLD: Once = Once::new();
    if !config.background_is_batch {
        return;
    }
    if let Err(error) = set_scheduling(Some(Policy::Batch), None) {
        TOLD.call_once(|| refused("background-scheduling batch", &reason(&error)));
    }
}

/// Starts a thread that keeps memory back for allocations that cannot fail, as the workers do.
///
/// # Errors
///
/// When the system gives no thread, or not the memory that one takes: neither the allocator, which
/// makes an arena for a new thread, nor the standard library, which maps a stack for its signals,
/// survives that later on.
pub(crate) fn start_thread<T: Send + 'static>(
    name: &str,
    body: impl FnOnce() -> T + Send + 'static,
) -> io::Result<JoinHandle<T>> {
    if !allocator::has_room_for_thread() {
        return Err(io::ErrorKind::OutOfMemory.into());
    }
    thread::Builder::new().name(name.into()).spawn(move || {
        allocator::keep_reserve();
        body()
    })
}

/// Starts a background thread by `spawn`, on the CPUs that the plan leaves to such threads: a
/// thread inherits its parent's affinity, policy and priority.
///
/// # Errors
///
/// Text for the operator.
pub(crate) fn in_background<T: Send>(
    config: &ServerConfig,
    placement: &Placement,
    spawn: impl FnOnce() -> io::Result<T> + Send,
) -> Result<T, String> {
    let parent = || {
        if let Some(cpus) = placement.background_affinity() {
            pin_current_thread(cpus)?;
        }
        set_background_policy(config);
        if placement.is_background_low_priority {
            // Of this thread, by Linux; refused is no reason not to start.
            let _ = rustix::process::setpriority_process(None, BACKGROUND_NICE);
        }
        spawn()
    };
    let spawned = thread::scope(|scope| {
        let parent = thread::Builder::new().spawn_scoped(scope, parent)?;
        parent.join().unwrap_or_else(|_| Err(io::Error::other("its parent has panicked")))
    });
    spawned.map_err(|error| format!("no background thread: {error}"))
}

/// Memory that the process may have, in bytes: the machine's, or less by the limits of its control
/// groups.
pub(crate) fn memory_bytes() -> u64 {
    let system = rustix::system::sysinfo();
    let machine = u64::from(system.mem_unit).saturating_mul(system.totalram as u64);
    let own = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let own = own.lines().find_map(|line| line.strip_prefix("0::/")).unwrap_or_default();
    // A group inside others is bound by theirs too.
    let limits = Path::new("/sys/fs/cgroup").join(own);
    let limits = limits.ancestors().take_while(|path| path.starts_with("/sys/fs/cgroup"));
    let limits = limits.filter_map(|path| {
        std::fs::read_to_string(path.join("memory.max")).ok()?.trim().parse::<u64>().ok()
    });
    limits.fold(machine, u64::min)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_comes_from_the_workers_nodes_or_the_policy_makes_no_sense() {
        assert_eq!(memory_policy("default", &[0, 1]), Ok(None));
        assert_eq!(memory_policy("prefer", &[3]), Ok(Some(MemoryPolicy::Prefer(3))));
        assert_eq!(memory_policy("bind", &[3]), Ok(Some(MemoryPolicy::Bind(3))));
        assert_eq!(
            memory_policy("interleave", &[0, 1]),
            Ok(Some(MemoryPolicy::Interleave(vec![0, 1])))
        );
        assert_eq!(memory_policy("bind", &[0, 1]), Err("workers are on several memory nodes"));
        assert_eq!(memory_policy("interleave", &[]), Err("no memory nodes are known"));
    }
}
