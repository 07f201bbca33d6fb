//! The data model of a machine; plain values, no I/O.

use std::fmt;

use crate::{CpuSet, ReadError};

/// Topology of a machine, as placement needs it.
#[derive(Clone, Debug, Default)]
pub struct Topology {
    /// Physical cores with at least one online CPU, ordered by their first CPU.
    pub cores: Vec<Core>,
    /// Groups of CPUs around one memory, ordered by number; those without an online CPU are left
    /// out.
    pub nodes: Vec<Node>,
    /// Network interfaces that have a device of their own, by name.
    pub nics: Vec<Nic>,
    /// CPUs that run.
    pub online: CpuSet,
    /// CPUs taken from the scheduler at boot (`isolcpus=`) or by an isolated cgroup partition.
    pub isolated: CpuSet,
    /// CPUs without a periodic tick (`nohz_full=`).
    pub tickless: CpuSet,
    /// Missing or contradictory facts, and the assumptions made instead.
    pub notes: Vec<String>,
}

/// One physical core.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Core {
    /// Its online logical CPUs: the siblings.
    pub cpus: CpuSet,
    /// Physical package (socket), -1 where the platform does not say.
    pub package: i32,
    /// Online CPUs below the same last-level cache; empty when sysfs does not say.
    pub last_level_cache: CpuSet,
    /// Online CPUs in the same cluster (a shared L2 or interconnect stop); empty when sysfs does
    /// not say.
    pub cluster: CpuSet,
    /// Index into [`Topology::nodes`].
    pub node: usize,
    /// True if it belongs to the fastest kind of core of this machine.
    pub is_top_class: bool,
}

/// CPUs around one memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Kernel's node number; `None` for a group that replaces unknown or contradictory nodes.
    pub id: Option<u32>,
    /// Its online CPUs.
    pub cpus: CpuSet,
    /// Its memory in KiB; `None` when not told.
    pub memory_kib: Option<u64>,
}

/// A network interface with a device behind it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nic {
    /// Its name, such as `eth0`.
    pub name: String,
    /// The device's memory node; `None` when the platform says -1 or nothing.
    pub node: Option<u32>,
    /// CPUs near the device, if it tells them; otherwise empty.
    pub local_cpus: CpuSet,
    /// True if the link is up (`operstate` up or unknown).
    pub is_up: bool,
    /// Receive queues.
    pub receive_queue_count: usize,
    /// Transmit queues.
    pub transmit_queue_count: usize,
    /// Numbers of its message-signalled interrupts.
    pub interrupts: Vec<u32>,
    /// The CPUs that each of them may land on, in the same order; empty for one that is not in use
    /// or not told.
    pub interrupt_cpus: Vec<CpuSet>,
}

/// Reason that no topology could be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TopologyError {
    /// `sys/devices/system/cpu` is not there or cannot be listed.
    NoCpuDirectory(ReadError),
    /// The directory is there, but no CPU is online in it.
    NoCpuOnline,
}

impl fmt::Display for TopologyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoCpuDirectory(error) => write!(f, "no CPUs to read: {error}"),
            Self::NoCpuOnline => f.write_str("/sys/devices/system/cpu: no CPU is online there"),
        }
    }
}

impl std::error::Error for TopologyError {}

impl Topology {
    /// Index of the node with this number.
    pub fn node_index(&self, id: u32) -> Option<usize> {
        self.nodes.iter().position(|node| node.id == Some(id))
    }

    /// Index of the one node that holds all these CPUs; `None` when they are spread or none.
    pub fn node_holding(&self, cpus: &CpuSet) -> Option<usize> {
        let cpus = cpus.and(&self.online);
        if cpus.is_empty() {
            return None;
        }
        self.nodes.iter().position(|node| cpus.is_subset(&node.cpus))
    }
}
