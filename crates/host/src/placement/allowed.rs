//! CPUs that this process, or a captured host, may use: affinity mask, effective cpuset, CPU quota.

use crate::{CpuSet, Root, cgroup, sys};

/// Limits on a process from outside.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Allowed {
    /// The affinity mask; `None` when not told.
    pub mask: Option<CpuSet>,
    /// CPUs of the effective cpuset; `None` when not told.
    pub cpuset: Option<CpuSet>,
    /// Whole and part CPUs of the smallest quota among the cgroup and its ancestors.
    pub quota_cpus: Option<f64>,
}

impl Allowed {
    /// Reads the limits of the calling thread and its cgroup. Blocks on file reads only.
    pub fn of_current_process() -> Self {
        Self { mask: sys::affinity(0).ok(), ..Self::of_cgroup(&Root::live(), "self") }
    }

    /// Reads the limits of a process (`self` or a number) below a root that may be a capture.
    pub fn of_process(root: &Root, process: &str) -> Self {
        let status = root.text(&format!("/proc/{process}/status")).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
        let mask = line.and_then(|list| CpuSet::parse_list(list).ok());
        Self { mask: mask.filter(|mask| !mask.is_empty()), ..Self::of_cgroup(root, process) }
    }

    fn of_cgroup(root: &Root, process: &str) -> Self {
        let groups = cgroup::Membership::read(root, process);
        Self {
            mask: None,
            cpuset: groups.effective_cpus(root),
            quota_cpus: groups.quota(root).map(|quota| quota.cpus),
        }
    }
}
