//! Options of an operator about placement, and their faults.

use std::fmt;
use std::str::FromStr;

use crate::CpuSet;
use crate::limits::WORKERS_MAX;

/// The setting `cpu-placement`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// The plan of this module: one worker per physical core, its sibling left idle while cores
    /// last.
    #[default]
    Auto,
    /// No affinity is set at all.
    Off,
    /// One logical CPU per worker; background threads stay among the workers' CPUs.
    Logical,
    /// Both siblings of one core per worker; background threads stay among the workers' CPUs.
    Physical,
    /// Both siblings of one core per worker; background threads on the other cores.
    Split,
}

impl FromStr for Mode {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.to_ascii_lowercase().as_str() {
            "auto" => Ok(Self::Auto),
            "off" => Ok(Self::Off),
            "logical" => Ok(Self::Logical),
            "physical" => Ok(Self::Physical),
            "split" => Ok(Self::Split),
            _ => Err("argument must be one of auto, off, logical, physical, split".to_owned()),
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Auto => "auto",
            Self::Off => "off",
            Self::Logical => "logical",
            Self::Physical => "physical",
            Self::Split => "split",
        })
    }
}

/// The operator's wishes; the default asks for nothing.
#[derive(Clone, Debug, Default)]
pub struct PlacementOptions {
    /// `cpu-placement`.
    pub mode: Mode,
    /// `worker-threads`: exact number of workers; `None` lets the plan decide.
    pub worker_count: Option<usize>,
    /// `workers-per-core`: 1 (or 0, unset) or 2. Two share a core, or a CPU where cores have one
    /// thread.
    pub workers_per_core: usize,
    /// `server-cpulist`: workers on these CPUs only.
    pub server_cpus: Option<CpuSet>,
    /// `bio-cpulist`: background threads.
    pub background_cpus: Option<CpuSet>,
    /// `bgsave-cpulist`: threads that write snapshots.
    pub snapshot_cpus: Option<CpuSet>,
    /// `aof-rewrite-cpulist`: threads that rewrite the journal.
    pub journal_rewrite_cpus: Option<CpuSet>,
    /// Name of the network interface the clients come through; `None` takes those that are up.
    pub nic: Option<String>,
    /// Number of servers that the plan is cut into; 0 and 1 mean one. Several have workers
    /// on both of two cores.
    pub server_count: usize,
    /// Workers beyond one memory node.
    pub across_nodes: bool,
    /// Bytes of the server's memory per node number, for ambiguous interfaces.
    pub memory_bytes_by_node: Vec<(u32, u64)>,
}

/// Reason that there is no plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PlacementError {
    /// No CPU is both online and allowed.
    NoCpuAllowed,
    /// A cpulist names CPUs that are offline or not allowed: the setting, the list, the CPUs at
    /// fault.
    NotAllowed(&'static str, CpuSet, CpuSet),
    /// A cpulist is empty.
    EmptyList(&'static str),
    /// `worker-threads` outside 1 to [`WORKERS_MAX`].
    WorkerCount(usize),
    /// `workers-per-core` above 2.
    WorkersPerCore(usize),
    /// Number of servers outside 1 to [`WORKERS_MAX`].
    InstanceCount(usize),
    /// There is no such network interface.
    NoSuchNic(String),
}

impl fmt::Display for PlacementError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoCpuAllowed => f.write_str("no CPU is both online and allowed"),
            Self::NotAllowed(setting, list, wrong) => {
                write!(
                    f,
                    "{setting} {list}: CPU {wrong} is offline or not allowed for this process"
                )
            }
            Self::EmptyList(setting) => write!(f, "{setting}: the list is empty"),
            Self::WorkerCount(count) => {
                write!(f, "worker-threads {count}: must be between 1 and {WORKERS_MAX}")
            }
            Self::WorkersPerCore(count) => {
                write!(f, "workers-per-core {count}: must be 1 or 2")
            }
            Self::InstanceCount(count) => {
                write!(f, "instances {count}: must be between 1 and {WORKERS_MAX}")
            }
            Self::NoSuchNic(name) => {
                write!(f, "there is no network interface `{name}` with a device")
            }
        }
    }
}

impl std::error::Error for PlacementError {}
