//! Reads a [`Topology`] from sysfs below a [`Root`].

use std::collections::BTreeMap;

use super::model::{Core, Nic, Node, Topology, TopologyError};
use crate::limits::TOP_CLASS_SPEED_PERCENT;
use crate::{CpuSet, Root};

const CPU: &str = "/sys/devices/system/cpu";
const NODE: &str = "/sys/devices/system/node";
const NET: &str = "/sys/class/net";

impl Topology {
    /// Reads the machine below `root`. Blocks on file reads only.
    ///
    /// # Errors
    /// [`TopologyError`] when there is no CPU directory or nothing in it is online; everything else
    /// that is missing becomes a note.
    pub fn read(root: &Root) -> Result<Self, TopologyError> {
        let names = root.names(CPU).map_err(TopologyError::NoCpuDirectory)?;
        let present: CpuSet = names.iter().filter_map(|name| numbered(name, "cpu")).collect();
        let mut topology = Self {
            online: online_cpus(root, &present),
            isolated: root.cpu_list(&format!("{CPU}/isolated")).unwrap_or_default(),
            tickless: root.cpu_list(&format!("{CPU}/nohz_full")).unwrap_or_default(),
            ..Self::default()
        };
        if topology.online.is_empty() {
            return Err(TopologyError::NoCpuOnline);
        }
        topology.read_cores(root);
        topology.read_nodes(root);
        topology.rank_cores(root);
        topology.nics = read_nics(root);
        Ok(topology)
    }

    fn read_cores(&mut self, root: &Root) {
        let mut untold = CpuSet::new();
        let siblings: BTreeMap<u32, CpuSet> = self
            .online
            .iter()
            .map(|cpu| {
                let told = siblings_of(root, cpu).map(|cpus| cpus.and(&self.online));
                let told = told.filter(|cpus| cpus.contains(cpu));
                if told.is_none() {
                    untold.insert(cpu);
                }
                (cpu, told.unwrap_or_else(|| CpuSet::single(cpu)))
            })
            .collect();
        if !untold.is_empty() {
            self.notes
                .push(format!("siblings of CPU {untold} are not told; each is taken for a core"));
        }
        for (&cpu, told) in &siblings {
            // Siblings have to agree about each other; those that do not are cores of their own
            // here.
            let mutual: CpuSet = told.iter().filter(|sibling| siblings[sibling] == *told).collect();
            if mutual.first() != Some(cpu) {
                continue;
            }
            if mutual != *told {
                self.notes.push(format!("CPU {cpu} says its siblings are {told}, they disagree"));
            }
            let core = self.read_core(root, cpu, mutual);
            self.cores.push(core);
        }
    }

    fn read_core(&self, root: &Root, cpu: u32, cpus: CpuSet) -> Core {
        let topology = format!("{CPU}/cpu{cpu}/topology");
        let set = |list: &str, mask: &str| {
            let list = root.cpu_list(&format!("{topology}/{list}"));
            let told = list.or_else(|_| root.cpu_mask(&format!("{topology}/{mask}")));
            told.unwrap_or_default().and(&self.online)
        };
        Core {
            cpus,
            package: root.value(&format!("{topology}/physical_package_id")).unwrap_or(-1),
            last_level_cache: last_level_cache(root, cpu).and(&self.online),
            cluster: set("cluster_cpus_list", "cluster_cpus"),
            node: 0,
            is_top_class: true,
        }
    }

    fn read_nodes(&mut self, root: &Root) {
        let told = told_nodes(root, &self.online);
        let contradiction = contradiction(&told, &self.cores);
        let mut nodes = told;
        if let Some(contradiction) = contradiction {
            self.notes.push(format!("{contradiction}; packages stand in for nodes"));
            nodes = Vec::new();
        } else if nodes.is_empty() {
            self.notes.push("memory nodes are not told; packages stand in for them".to_owned());
        }
        let covered = nodes.iter().fold(CpuSet::new(), |all, node| all.or(&node.cpus));
        let rest = self.online.minus(&covered);
        if !nodes.is_empty() && !rest.is_empty() {
            self.notes.push(format!("CPU {rest} belong to no memory node that is online"));
        }
        nodes.extend(package_groups(&self.cores, &rest));
        for core in &mut self.cores {
            core.node = nodes.iter().position(|node| core.cpus.intersects(&node.cpus)).unwrap_or(0);
        }
        self.nodes = nodes;
    }

    fn rank_cores(&mut self, root: &Root) {
        let Some(speeds) = speeds(root, &self.online, &self.cores) else { return };
        let fastest = speeds.iter().copied().max().unwrap_or(0);
        for (core, speed) in self.cores.iter_mut().zip(speeds) {
            let wanted = fastest.saturating_mul(TOP_CLASS_SPEED_PERCENT);
            core.is_top_class = speed.saturating_mul(100) >= wanted;
        }
    }
}

fn numbered(name: &str, stem: &str) -> Option<u32> {
    let digits = name.strip_prefix(stem)?;
    digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok())?
}

/// `online` when it can be read, else the CPUs whose own file does not say 0 (CPU 0 often has
/// none).
fn online_cpus(root: &Root, present: &CpuSet) -> CpuSet {
    let is_off = |cpu| root.text(&format!("{CPU}/cpu{cpu}/online")).is_ok_and(|text| text == "0");
    match root.cpu_list(&format!("{CPU}/online")) {
        Ok(online) if online.intersects(present) => online.and(present),
        _ => present.iter().filter(|&cpu| !is_off(cpu)).collect(),
    }
}

/// In the order of trust: lists of this kernel generation, of the one before, then masks.
fn siblings_of(root: &Root, cpu: u32) -> Option<CpuSet> {
    let path = |file: &str| format!("{CPU}/cpu{cpu}/topology/{file}");
    let found = root
        .cpu_list(&path("core_cpus_list"))
        .or_else(|_| root.cpu_list(&path("thread_siblings_list")))
        .or_else(|_| root.cpu_mask(&path("core_cpus")))
        .or_else(|_| root.cpu_mask(&path("thread_siblings")));
    found.ok().filter(|cpus| !cpus.is_empty())
}

/// The CPUs below the cache of the highest level from 3 on; a shared L2 is a cluster, not a place
/// for all workers.
fn last_level_cache(root: &Root, cpu: u32) -> CpuSet {
    let directory = format!("{CPU}/cpu{cpu}/cache");
    let names = root.names(&directory).unwrap_or_default();
    let mut highest = (2, CpuSet::new());
    for name in names.iter().filter(|name| name.starts_with("index")) {
        let level = root.value::<u32>(&format!("{directory}/{name}/level")).unwrap_or(0);
        let shared = root
            .cpu_list(&format!("{directory}/{name}/shared_cpu_list"))
            .or_else(|_| root.cpu_mask(&format!("{directory}/{name}/shared_cpu_map")));
        if let (true, Ok(shared)) = (level > highest.0, shared) {
            highest = (level, shared);
        }
    }
    highest.1
}

/// Nodes with at least one online CPU. CPU-less ones (memory expanders, persistent memory) take no
/// threads.
fn told_nodes(root: &Root, online: &CpuSet) -> Vec<Node> {
    let names = root.names(NODE).unwrap_or_default();
    let nodes = names.iter().filter_map(|name| {
        let id = numbered(name, "node")?;
        let directory = format!("{NODE}/{name}");
        let list = root.cpu_list(&format!("{directory}/cpulist"));
        let cpus = list.or_else(|_| root.cpu_mask(&format!("{directory}/cpumap"))).ok()?;
        Some(Node {
            id: Some(id),
            cpus: cpus.and(online),
            memory_kib: node_memory_kib(root, &directory),
        })
    });
    nodes.filter(|node| !node.cpus.is_empty()).collect()
}

fn node_memory_kib(root: &Root, directory: &str) -> Option<u64> {
    let text = root.text(&format!("{directory}/meminfo")).ok()?;
    let line = text.lines().find(|line| line.contains("MemTotal:"))?;
    line.split_whitespace().rev().nth(1)?.parse().ok()
}

fn contradiction(nodes: &[Node], cores: &[Core]) -> Option<String> {
    let mut seen = CpuSet::new();
    for node in nodes {
        let twice = seen.and(&node.cpus);
        if !twice.is_empty() {
            return Some(format!("CPU {twice} belong to more than one memory node"));
        }
        seen = seen.or(&node.cpus);
    }
    let touched =
        |core: &Core| nodes.iter().filter(|node| node.cpus.intersects(&core.cpus)).count();
    let torn = cores.iter().find(|core| touched(core) > 1)?;
    Some(format!("the siblings {} belong to different memory nodes", torn.cpus))
}

fn package_groups(cores: &[Core], cpus: &CpuSet) -> Vec<Node> {
    let mut groups: BTreeMap<i32, CpuSet> = BTreeMap::new();
    for core in cores {
        let members = core.cpus.and(cpus);
        if !members.is_empty() {
            let group = groups.entry(core.package).or_default();
            *group = group.or(&members);
        }
    }
    let nodes = groups.into_values();
    nodes.map(|cpus| Node { id: None, cpus, memory_kib: None }).collect()
}

/// One number per core from the first source that covers every core: capacity, kind, maximum
/// frequency.
fn speeds(root: &Root, online: &CpuSet, cores: &[Core]) -> Option<Vec<u64>> {
    let from_file = |file: &str| -> Option<Vec<u64>> {
        let first = |core: &Core| core.cpus.first();
        cores
            .iter()
            .map(|core| root.value(&format!("{CPU}/cpu{}/{file}", first(core)?)).ok())
            .collect()
    };
    let from_kind = || -> Option<Vec<u64>> {
        let fast = root.cpu_list("/sys/devices/cpu_core/cpus").ok()?.and(online);
        let slow = root.cpu_list("/sys/devices/cpu_atom/cpus").ok()?.and(online);
        let told = !fast.is_empty() && fast.or(&slow) == *online;
        told.then(|| cores.iter().map(|core| u64::from(core.cpus.intersects(&fast))).collect())
    };
    from_file("cpu_capacity").or_else(from_kind).or_else(|| from_file("cpufreq/cpuinfo_max_freq"))
}

fn read_nics(root: &Root) -> Vec<Nic> {
    let names = root.names(NET).unwrap_or_default();
    let nics = names.into_iter().filter_map(|name| {
        let directory = format!("{NET}/{name}");
        let device = device_directory(root, &directory)?;
        let queues = root.names(&format!("{directory}/queues")).unwrap_or_default();
        let count = |stem: &str| queues.iter().filter(|queue| queue.starts_with(stem)).count();
        let node = root.value::<i64>(&format!("{device}/numa_node")).ok();
        let state = root.text(&format!("{directory}/operstate")).unwrap_or_default();
        let interrupts = interrupts_below(root, &device);
        let list = |number: &u32| root.cpu_list(&format!("/proc/irq/{number}/smp_affinity_list"));
        Some(Nic {
            node: node.and_then(|node| u32::try_from(node).ok()),
            local_cpus: local_cpus(root, &device),
            is_up: !matches!(state.as_str(), "down" | "notpresent" | "lowerlayerdown"),
            receive_queue_count: count("rx-"),
            transmit_queue_count: count("tx-"),
            interrupt_cpus: interrupts.iter().map(|n| list(n).unwrap_or_default()).collect(),
            interrupts,
            name,
        })
    });
    nics.collect()
}

/// The message-signalled interrupts of a network interface, in the order of their numbers; the
/// numbers are other ones at each boot, the order is not.
pub(crate) fn interrupts(root: &Root, interface: &str) -> Vec<u32> {
    let device = device_directory(root, &format!("{NET}/{interface}"));
    device.map(|device| interrupts_below(root, &device)).unwrap_or_default()
}

fn interrupts_below(root: &Root, device: &str) -> Vec<u32> {
    let names = root.names(&format!("{device}/msi_irqs")).unwrap_or_default();
    names.iter().filter_map(|name| name.parse().ok()).collect()
}

/// The directory with `numa_node` and `msi_irqs`: a virtio device keeps both on its PCI parent.
fn device_directory(root: &Root, interface: &str) -> Option<String> {
    let device = format!("{interface}/device");
    if !root.exists(&device) {
        return None;
    }
    let parent = format!("{device}/..");
    let has_own = root.exists(&format!("{device}/msi_irqs"));
    let is_virtio = root.link_name(&format!("{device}/subsystem")).as_deref() == Some("virtio");
    Some(if is_virtio && !has_own { parent } else { device })
}

fn local_cpus(root: &Root, device: &str) -> CpuSet {
    let list = root.cpu_list(&format!("{device}/local_cpulist"));
    list.or_else(|_| root.cpu_mask(&format!("{device}/local_cpus"))).unwrap_or_default()
}
