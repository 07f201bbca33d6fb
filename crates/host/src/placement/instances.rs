//! Several servers on one machine: all on one node while its cores suffice, spread over the nodes
//! after that.

use super::plan::{Placement, plan};
use super::{Allowed, PlacementError, PlacementOptions};
use crate::CpuSet;
use crate::topology::Topology;

/// One server of several.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Instance {
    /// Its workers' CPUs.
    pub cpus: CpuSet,
    /// The memory node to bind to; `None` when there is one only or none is known.
    pub memory_node: Option<u32>,
}

/// Placement of several servers.
#[derive(Clone, Debug, PartialEq)]
pub struct Instances {
    /// One per server.
    pub list: Vec<Instance>,
    /// Reason.
    pub reason: String,
    /// The plan they are cut from: its interrupts and background CPUs serve all of them.
    pub placement: Placement,
}

/// Cuts a plan into `count` servers, each with its own cores while there are enough, and none on
/// two nodes.
///
/// # Errors
/// As [`plan`]; `count` outside 1 to [`crate::limits::WORKERS_MAX`].
pub fn instances(
    topology: &Topology,
    allowed: &Allowed,
    options: &PlacementOptions,
    count: usize,
) -> Result<Instances, PlacementError> {
    if count == 0 || count > crate::limits::WORKERS_MAX {
        return Err(PlacementError::InstanceCount(count));
    }
    let options = PlacementOptions { server_count: count, ..options.clone() };
    let near =
        plan(topology, allowed, &PlacementOptions { across_nodes: false, ..options.clone() })?;
    let near_count = near.workers.len();
    let far = plan(topology, allowed, &PlacementOptions { across_nodes: true, ..options })?;
    let far_count = far.workers.len();
    let (placement, reason) = if count <= near_count {
        let reason = format!(
            "one node: its {near_count} worker cores suffice for {count} servers, and memory and \
             network interface stay near"
        );
        (near, reason)
    } else if far_count > near_count {
        let reason = format!(
            "spread: one node has {near_count} worker cores for {count} servers, all nodes have \
             {far_count}; each server stays on one node with its memory"
        );
        (far, reason)
    } else {
        let reason = format!(
            "{count} servers share {near_count} worker cores: expect each to wait for others"
        );
        (near, reason)
    };
    Ok(Instances { list: deal(topology, &placement, count), reason, placement })
}

/// Gives each server a node, then cuts each node's workers into equal runs of neighbours.
fn deal(topology: &Topology, placement: &Placement, count: usize) -> Vec<Instance> {
    let mut by_node: Vec<(Option<usize>, Vec<&CpuSet>)> = Vec::new();
    for cpus in &placement.workers {
        let node = topology.node_holding(cpus);
        match by_node.iter_mut().find(|(known, _)| *known == node) {
            Some((_, workers)) => workers.push(cpus),
            None => by_node.push((node, vec![cpus])),
        }
    }
    let mut shares = vec![0; by_node.len()];
    for _ in 0..count {
        // The node with the most workers per server, the first of equals.
        let most = (0..by_node.len()).max_by(|&a, &b| {
            let per_server =
                |index: usize| by_node[index].1.len() as f64 / (shares[index] + 1) as f64;
            per_server(a).total_cmp(&per_server(b)).then(b.cmp(&a))
        });
        if let Some(most) = most {
            shares[most] += 1;
        }
    }
    let mut list = Vec::new();
    for ((node, workers), share) in by_node.into_iter().zip(shares) {
        let memory_node =
            node.filter(|_| topology.nodes.len() > 1).and_then(|node| topology.nodes.get(node)?.id);
        for index in 0..share {
            let run = match workers.len() >= share {
                true => {
                    &workers[index * workers.len() / share..(index + 1) * workers.len() / share]
                }
                false => &workers[index % workers.len()..index % workers.len() + 1],
            };
            let cpus = run.iter().fold(CpuSet::new(), |all, cpus| all.or(cpus));
            list.push(Instance { cpus, memory_node });
        }
    }
    list
}
