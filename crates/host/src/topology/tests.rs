//! Machines read from trees of sysfs made up here, and what is planned for them.
//!
//! Names say why the plan is what it is.

use super::*;
use crate::placement::{Allowed, Placement, PlacementOptions, plan};
use crate::testing::{tree, write};
use crate::{CpuSet, Root};

/// Files of a machine, by path.
#[derive(Default)]
struct Machine {
    files: Vec<(String, String)>,
}

const CPU: &str = "sys/devices/system/cpu";

impl Machine {
    fn with(mut self, path: &str, text: impl ToString) -> Self {
        self.files.push((path.to_owned(), text.to_string()));
        self
    }

    fn online(self, list: &str) -> Self {
        self.with(&format!("{CPU}/online"), list)
    }

    /// CPUs that share a core, of one socket.
    fn core(mut self, package: u32, siblings: &[u32]) -> Self {
        let list: Vec<String> = siblings.iter().map(u32::to_string).collect();
        for cpu in siblings {
            let directory = format!("{CPU}/cpu{cpu}/topology");
            self = self
                .with(&format!("{directory}/core_cpus_list"), list.join(","))
                .with(&format!("{directory}/physical_package_id"), package);
        }
        self
    }

    fn node(self, id: u32, list: &str) -> Self {
        self.with(&format!("sys/devices/system/node/node{id}/cpulist"), list)
    }

    fn read(&self) -> Topology {
        let files: Vec<(&str, &str)> =
            self.files.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
        Topology::read(&tree(&files).1).unwrap()
    }
}

fn planned(topology: &Topology) -> Placement {
    plan(topology, &Allowed::default(), &PlacementOptions::default()).unwrap()
}

fn cpus(list: &str) -> CpuSet {
    CpuSet::parse_list(list).unwrap()
}

/// Two sockets of four cores of two threads; the second socket's CPUs come in between, as some
/// firmware numbers.
fn two_sockets() -> Machine {
    let mut machine = Machine::default().online("0-15");
    for core in 0..8 {
        machine = machine.core(core % 2, &[core, core + 8]);
    }
    machine.node(0, "0,2,4,6,8,10,12,14").node(1, "1,3,5,7,9,11,13,15")
}

#[test]
fn siblings_and_nodes_come_from_the_files_and_not_from_the_numbers() {
    let topology = two_sockets().read();
    assert_eq!(topology.cores.len(), 8);
    let core = topology.cores.iter().find(|core| core.cpus.contains(10)).unwrap();
    assert_eq!((&core.cpus, core.package), (&cpus("2,10"), 0));
    let placement = planned(&topology);
    assert_eq!((placement.worker_cpus(), placement.irq), (cpus("0,2,4"), cpus("6,14")));
    assert_eq!(placement.memory_node, Some(0));
}

#[test]
fn nodes_that_claim_the_same_cpu_are_replaced_by_sockets() {
    let topology = two_sockets().node(1, "1,3,5,7,9,11,13,15,0").read();
    assert!(topology.notes[0].contains("CPU 0 belong to more than one memory node"));
    let nodes: Vec<_> = topology.nodes.iter().map(|node| (node.id, node.cpus.clone())).collect();
    let (even, odd) = ("0,2,4,6,8,10,12,14", "1,3,5,7,9,11,13,15");
    assert_eq!(nodes, [(None, cpus(even)), (None, cpus(odd))]);
    let placement = planned(&topology);
    assert_eq!(placement.worker_cpus(), cpus("0,2,4"));
    assert_eq!(placement.memory_node, None, "a memory policy for an unknown node");
}

#[test]
fn nodes_that_tear_siblings_apart_are_replaced_by_sockets() {
    let topology = two_sockets().node(0, "0-7").node(1, "8-15").read();
    assert!(topology.notes[0].contains("belong to different memory nodes"), "{:?}", topology.notes);
    assert!(topology.nodes.iter().all(|node| node.id.is_none()));
}

#[test]
fn nodes_without_cpus_take_no_threads() {
    let machine = two_sockets().node(2, "").node(3, "\n");
    let expander = "sys/devices/system/node/node2/meminfo";
    let topology = machine.with(expander, "Node 2 MemTotal: 9999999999 kB").read();
    assert_eq!(topology.nodes.len(), 2);
    assert_eq!(planned(&topology).memory_node, Some(0));
}

#[test]
fn cpus_that_no_node_claims_are_used_after_those_with_memory() {
    let topology = two_sockets().node(1, "").read();
    assert!(topology.notes[0].contains("belong to no memory node"), "{:?}", topology.notes);
    assert_eq!(planned(&topology).memory_node, Some(0));
    assert_eq!(topology.nodes[1].cpus, cpus("1,3,5,7,9,11,13,15"));
}

#[test]
fn siblings_that_disagree_are_cores_of_their_own() {
    let topology = Machine::default()
        .online("0-2")
        .with(&format!("{CPU}/cpu0/topology/core_cpus_list"), "0-1")
        .with(&format!("{CPU}/cpu1/topology/core_cpus_list"), "1-2")
        .with(&format!("{CPU}/cpu2/topology/core_cpus_list"), "2")
        .read();
    assert_eq!(topology.cores.len(), 3);
    assert!(topology.notes[0].contains("they disagree"), "{:?}", topology.notes);
}

#[test]
fn old_kernels_tell_siblings_by_other_names_and_as_masks() {
    let topology = Machine::default()
        .with(&format!("{CPU}/cpu0/topology/thread_siblings_list"), "0,2")
        .with(&format!("{CPU}/cpu2/topology/thread_siblings"), "00000000,00000005")
        .with(&format!("{CPU}/cpu1/topology/thread_siblings"), ",a")
        .with(&format!("{CPU}/cpu3/topology/core_cpus"), "a")
        .with(&format!("{CPU}/cpu3/online"), "1")
        .read();
    let cores: Vec<_> = topology.cores.iter().map(|core| core.cpus.clone()).collect();
    assert_eq!(cores, [cpus("0,2"), cpus("1,3")]);
}

#[test]
fn offline_and_missing_cpus_get_nothing() {
    let sparse = Machine::default().core(0, &[3, 7]).core(0, &[900, 901]).core(0, &[5]);
    let topology = sparse.online("3,900-901").read();
    assert_eq!((&topology.online, topology.cores.len()), (&cpus("3,900-901"), 2));
    assert_eq!(planned(&topology).worker_cpus(), cpus("3,900"));
    let off = Machine::default().core(0, &[0]).core(0, &[1]).with(&format!("{CPU}/cpu1/online"), 0);
    assert_eq!(off.read().online, cpus("0"));
    let none = tree(&[("sys/devices/system/cpu/cpu0/online", "0")]);
    assert_eq!(Topology::read(&none.1).unwrap_err(), TopologyError::NoCpuOnline);
}

#[test]
fn workers_stay_off_slow_cores_by_capacity_and_by_kind() {
    let four = || (0..4).fold(Machine::default().online("0-3"), |all, cpu| all.core(0, &[cpu]));
    let capacity = |machine: Machine, cpu: u32, value: u32| {
        machine.with(&format!("{CPU}/cpu{cpu}/cpu_capacity"), value)
    };
    let by_capacity = (0..4)
        .fold(four(), |machine, cpu| capacity(machine, cpu, if cpu < 2 { 430 } else { 1024 }));
    assert_eq!(planned(&by_capacity.read()).worker_cpus(), cpus("2-3"));
    let by_kind =
        four().with("sys/devices/cpu_core/cpus", "0-1").with("sys/devices/cpu_atom/cpus", "2-3");
    let placement = planned(&by_kind.read());
    assert_eq!((placement.worker_cpus(), placement.irq), (cpus("0-1"), cpus("2")));
    assert_eq!(placement.background, cpus("3"));
}

#[test]
fn nonsense_about_speeds_and_nodes_is_no_panic() {
    let most = u64::MAX.to_string();
    let four = (0..4).fold(Machine::default().online("0-3"), |all, cpu| {
        all.core(0, &[cpu]).with(&format!("{CPU}/cpu{cpu}/cpu_capacity"), &most)
    });
    let node = "sys/devices/system/node/node0";
    let topology = four
        .with(&format!("{node}/cpulist"), "0-3,99-98")
        .with(&format!("{node}/meminfo"), "MemTotal:")
        .with(&format!("{CPU}/cpu0/topology/physical_package_id"), "-9223372036854775809")
        .read();
    assert!(topology.cores.iter().all(|core| core.is_top_class));
    // No node and not every socket is told: CPU 0 is taken for a socket of its own.
    assert_eq!(planned(&topology).worker_cpus(), cpus("1-2"));
}

#[test]
fn a_machine_of_2048_cpus_is_read_whole_and_planned_on_one_node() {
    let (directory, _) = tree(&[("sys/devices/system/cpu/online", "0-2047\n")]);
    for cpu in 0..2048u32 {
        let sibling = (cpu + 1024) % 2048;
        let path = format!("{CPU}/cpu{cpu}/topology/core_cpus_list");
        let (low, high) = (cpu.min(sibling), cpu.max(sibling));
        write(directory.path(), &path, &format!("{low},{high}\n"));
    }
    for node in 0..8u32 {
        let first = node * 128;
        let list = format!("{first}-{},{}-{}\n", first + 127, first + 1024, first + 1151);
        write(directory.path(), &format!("sys/devices/system/node/node{node}/cpulist"), &list);
    }
    let topology = Topology::read(&Root::open(directory.path()).unwrap()).unwrap();
    assert_eq!(
        (topology.online.len(), topology.cores.len(), topology.nodes.len()),
        (2048, 1024, 8)
    );
    let placement = planned(&topology);
    assert_eq!(placement.worker_cpus(), cpus("0-111"));
    assert_eq!(placement.reserved, cpus("1024-1135"));
    assert_eq!(placement.irq, cpus("112-119,1136-1143"));
    assert!(placement.picture(&topology).contains("2047"));
}
