//! Putting a placement in force on threads of this process, by system calls.
//!
//! The calls act on the calling thread or process and return at once; threads started afterwards,
//! and a program started in its place, inherit what was set. Settings of the machine are changed by
//! [`crate::tune`].

use std::io;
use std::time::Duration;

use crate::{CpuSet, sys};

/// Pins the calling thread to a set of CPUs of any size, and reads back what the kernel made of it.
///
/// # Errors
/// The kernel's error; `InvalidInput` for an empty set, and when the kernel granted fewer CPUs than
/// asked (a cpuset takes the others away).
pub fn pin_current_thread(cpus: &CpuSet) -> io::Result<()> {
    pin_thread(0, cpus)
}

/// As [`pin_current_thread`], for another thread by its number.
///
/// # Errors
/// As [`pin_current_thread`].
pub fn pin_thread(thread: i32, cpus: &CpuSet) -> io::Result<()> {
    if cpus.is_empty() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "no CPU to pin to"));
    }
    sys::set_affinity(thread, cpus)?;
    let granted = sys::affinity(thread)?;
    if granted != *cpus {
        let message = format!("asked for CPU {cpus}, the kernel granted {granted}");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
    }
    Ok(())
}

/// The affinity mask of the calling thread.
///
/// # Errors
/// The kernel's error.
pub fn current_affinity() -> io::Result<CpuSet> {
    sys::affinity(0)
}

/// Treatment of a program by the scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// `SCHED_OTHER`: the default.
    Other,
    /// `SCHED_BATCH`: waking up does not preempt others.
    Batch,
    /// `SCHED_IDLE`: only what others leave.
    Idle,
}

/// Sets policy and slice of the calling thread and reads them back; either stays as it is when not
/// given.
///
/// # Errors
/// The kernel's error; `Unsupported` when it took the slice without effect, as kernels before 6.12
/// do.
pub fn set_scheduling(policy: Option<Policy>, slice: Option<Duration>) -> io::Result<()> {
    let mut wanted = sys::scheduling()?;
    if let Some(policy) = policy {
        wanted.policy = match policy {
            Policy::Other => libc::SCHED_OTHER,
            Policy::Batch => libc::SCHED_BATCH,
            Policy::Idle => libc::SCHED_IDLE,
        } as u32;
    }
    if let Some(slice) = slice {
        wanted.runtime_ns = slice.as_nanos().try_into().unwrap_or(u64::MAX);
    }
    sys::set_scheduling(wanted)?;
    let granted = sys::scheduling()?;
    if slice.is_some() && granted.runtime_ns != wanted.runtime_ns {
        let message = format!("the kernel's slice is {} ns", granted.runtime_ns);
        return Err(io::Error::new(io::ErrorKind::Unsupported, message));
    }
    Ok(())
}

/// Source of new memory, by the kernel's numbers of memory nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MemoryPolicy {
    /// From one node while it has free memory, then from others.
    Prefer(u32),
    /// From one node only: the kernel kills when that is full.
    Bind(u32),
    /// From each of these nodes in turn, page by page.
    Interleave(Vec<u32>),
}

/// Sets where the calling thread, and the threads and programs it starts afterwards, take new
/// memory from. Memory that is there already stays where it is.
///
/// # Errors
/// The kernel's error: EINVAL for a node without memory or outside the cpuset, ENOSYS without NUMA,
/// EPERM in containers that do not allow it.
pub fn set_memory_policy(policy: &MemoryPolicy) -> io::Result<()> {
    let (mode, nodes) = match policy {
        MemoryPolicy::Prefer(node) => (libc::MPOL_PREFERRED, CpuSet::single(*node)),
        MemoryPolicy::Bind(node) => (libc::MPOL_BIND, CpuSet::single(*node)),
        // A set of numbers, though not of CPUs.
        MemoryPolicy::Interleave(nodes) => (libc::MPOL_INTERLEAVE, nodes.iter().copied().collect()),
    };
    sys::set_memory_policy(mode, &nodes)
}

/// Forbids transparent huge pages to the calling process, or leaves them to the machine's setting.
///
/// # Errors
/// The kernel's error.
pub fn forbid_huge_pages(forbidden: bool) -> io::Result<()> {
    sys::forbid_huge_pages(forbidden)
}

/// An interface's interrupt coalescing as the kernel tells it: `rx-usecs=3 rx-frames=0 ...`.
///
/// # Errors
/// The kernel's error; EOPNOTSUPP when the driver has no such setting.
pub fn coalescing(interface: &str) -> io::Result<String> {
    let values = sys::coalescing(interface)?;
    Ok(format!(
        "rx-usecs={} rx-frames={} tx-usecs={} tx-frames={}",
        values.rx_usecs, values.rx_frames, values.tx_usecs, values.tx_frames
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Line of `numa_maps` about a mapping of this thread that was made under a policy.
    fn policies_under(policy: MemoryPolicy) -> String {
        let under = move || {
            set_memory_policy(&policy).unwrap();
            std::fs::read_to_string("/proc/thread-self/numa_maps").unwrap_or_default()
        };
        std::thread::spawn(under).join().unwrap()
    }

    #[test]
    fn memory_policies_are_those_the_kernel_tells_and_absent_nodes_are_refused() {
        let has_nodes = std::fs::exists("/proc/self/numa_maps").unwrap()
            && std::fs::exists("/sys/devices/system/node/node0").unwrap();
        if !has_nodes || set_memory_policy(&MemoryPolicy::Prefer(0)).is_err() {
            eprintln!("memory policies are not to be had here: not tested");
            return;
        }
        for (policy, told) in [
            (MemoryPolicy::Prefer(0), " prefer:0 "),
            (MemoryPolicy::Bind(0), " bind:0 "),
            (MemoryPolicy::Interleave(vec![0]), " interleave:0 "),
        ] {
            let maps = policies_under(policy.clone());
            assert!(maps.contains(told), "{policy:?}: {maps}");
        }
        let absent = MemoryPolicy::Bind(crate::limits::MEMORY_NODE_MAX);
        assert!(set_memory_policy(&absent).is_err());
    }

    #[test]
    fn pinning_is_read_back_and_other_threads_keep_their_mask() {
        let before = current_affinity().unwrap();
        let one = CpuSet::single(before.first().unwrap());
        let pinned = one.clone();
        std::thread::spawn(move || {
            pin_current_thread(&pinned).unwrap();
            assert_eq!(current_affinity().unwrap(), pinned);
        })
        .join()
        .unwrap();
        assert_eq!(current_affinity().unwrap(), before);
    }

    #[test]
    fn pinning_to_absent_cpus_or_none_is_an_error() {
        assert!(pin_current_thread(&CpuSet::single(40_000)).is_err());
        assert!(pin_current_thread(&CpuSet::new()).is_err());
        let partly = current_affinity().unwrap().or(&CpuSet::single(2_000));
        std::thread::spawn(move || {
            let error = pin_current_thread(&partly).unwrap_err();
            assert!(error.to_string().contains("granted"), "{error}");
        })
        .join()
        .unwrap();
    }
}
