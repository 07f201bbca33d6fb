//! Placement on machines captured elsewhere; each test says why the plan is what it is.
//!
//! The captures live beside the repository (`../shared/fixtures/topology`). Without them these
//! tests say so and pass; the machines made up in `placement::tests` cover the same rules.
#![allow(clippy::unwrap_used)] // helpers of tests; the lint knows only test functions

use std::path::PathBuf;
use std::process::Command;

use tempfile::TempDir;
use tidemill_host::placement::{Allowed, GivenUp, Placement, PlacementOptions, plan};
use tidemill_host::topology::Topology;
use tidemill_host::{CpuSet, Root};

struct Machine {
    _directory: TempDir,
    root: Root,
    topology: Topology,
}

/// Unpacks a capture; `None`, with a line that says so, when it is not there.
fn machine(name: &str) -> Option<Machine> {
    let fixtures =
        PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/fixtures/topology");
    let archive = fixtures.join(format!("{name}.tar.bz2"));
    if !archive.exists() {
        eprintln!("absent, not tested: {}", archive.display());
        return None;
    }
    let directory = tempfile::tempdir().unwrap();
    let mut unpack = Command::new("tar");
    unpack.arg("-xjf").arg(&archive).arg("-C").arg(directory.path()).arg("--strip-components=1");
    assert!(unpack.status().unwrap().success(), "tar could not unpack {}", archive.display());
    let root = Root::open(directory.path()).unwrap();
    let topology = Topology::read(&root).unwrap();
    Some(Machine { _directory: directory, root, topology })
}

impl Machine {
    fn plan(&self, options: &PlacementOptions) -> Placement {
        let allowed = Allowed::of_process(&self.root, "self");
        plan(&self.topology, &allowed, options).unwrap()
    }
}

fn cpus(list: &str) -> CpuSet {
    CpuSet::parse_list(list).unwrap()
}

fn check(placement: &Placement, workers: usize, on: &str, irq: &str, background: &str) {
    let reasons = placement.reasons.join("\n");
    assert_eq!(placement.workers.len(), workers, "{reasons}");
    assert_eq!(placement.worker_cpus(), cpus(on), "{reasons}");
    assert_eq!(placement.irq, cpus(irq), "{reasons}");
    assert_eq!(placement.background, cpus(background), "{reasons}");
}

#[test]
fn smt_socket_with_the_nic_keeps_siblings_idle() {
    let Some(machine) = machine("32intel64-2p8co2t+8ve") else { return };
    let placement = machine.plan(&PlacementOptions::default());
    check(&placement, 6, "0-5", "6,22", "7,23");
    assert_eq!(placement.reserved, cpus("16-21"));
    assert_eq!(placement.memory_node, Some(0));
    assert!(placement.given_up.is_empty());
    assert!(placement.reasons.iter().any(|reason| reason.contains("network interface is there")));
}

#[test]
fn sub_numa_node_with_every_fourth_cpu_is_one_node_of_ten_cores() {
    let Some(machine) = machine("memorysidecaches") else { return };
    let placement = machine.plan(&PlacementOptions::default());
    check(&placement, 8, "0,4,8,12,16,20,24,28", "32,72", "36,76");
}

#[test]
fn hybrid_machine_puts_workers_on_performance_cores_and_background_on_efficiency_cores() {
    let Some(machine) = machine("20em64t-hybrid-1p6c2t+2ca4co1t") else { return };
    let placement = machine.plan(&PlacementOptions::default());
    check(&placement, 5, "0,2,4,6,8", "10-11", "12-19");
    assert_eq!(placement.memory_node, None);
}

#[test]
fn arm_machine_of_128_cpus_stays_on_one_node_of_32() {
    let Some(machine) = machine("128arm-2pa2n8cluster4co") else { return };
    let placement = machine.plan(&PlacementOptions::default());
    check(&placement, 28, "0-27", "28-29", "30-31");
    let spread = machine.plan(&PlacementOptions { across_nodes: true, ..Default::default() });
    assert_eq!(spread.workers.len(), 28 + 3 * 30);
    assert_eq!(spread.memory_node, None);
}

#[test]
fn cpus_of_an_offline_node_are_passed_over_for_those_with_memory() {
    let Some(machine) = machine("offline-cpu0-node0") else { return };
    let placement = machine.plan(&PlacementOptions::default());
    check(&placement, 6, "5,7,9,11,13,15", "17", "19");
    assert_eq!(placement.memory_node, Some(1));
}

#[test]
fn cpuset_of_six_cpus_over_two_nodes_uses_the_four_of_the_first() {
    let Some(machine) = machine("32amd64-4s2n4c-cgroup2") else { return };
    let placement = machine.plan(&PlacementOptions::default());
    check(&placement, 3, "0-2", "3", "3");
    assert_eq!(placement.given_up, [GivenUp::SeparateBackground]);
}

#[test]
fn interfaces_on_two_nodes_are_ambiguous_until_memory_or_the_operator_decides() {
    let Some(machine) = machine("32em64t-2n8c+dax+nvme+mic+dimms") else { return };
    let placement = machine.plan(&PlacementOptions::default());
    check(&placement, 6, "0-5", "6", "7");
    let by_memory = PlacementOptions {
        memory_bytes_by_node: vec![(0, 1 << 20), (1, 1 << 30)],
        ..Default::default()
    };
    check(&machine.plan(&by_memory), 6, "8-13", "14", "15");
    let by_name = PlacementOptions { nic: Some("ib0".into()), ..Default::default() };
    check(&machine.plan(&by_name), 6, "8-13", "14", "15");
}
