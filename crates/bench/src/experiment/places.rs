//! CPUs by what they are, not by their number: `{cpu0}`, `{core0}`, `{others0}`, `{node0}`.
//!
//! The numbers of CPUs say nothing about which of them share a core or a memory, so experiment
//! files name places and the machine's topology fills them in. A place that this machine lacks, or
//! that is the same as a simpler one, is an error whose text is the reason to skip the arm.

use tidemill_host::topology::Topology;
use tidemill_host::{CpuSet, Root};

/// Replaces the places in a text by CPU lists of this machine.
///
/// # Errors
/// Reason why the machine has no such place.
pub(super) fn fill_places(text: &str) -> Result<String, String> {
    if !["{cpu", "{core", "{others", "{node"].iter().any(|place| text.contains(place)) {
        return Ok(text.into());
    }
    let topology = Topology::read(&Root::live()).map_err(|error| error.to_string())?;
    fill(text, &topology)
}

fn fill(text: &str, topology: &Topology) -> Result<String, String> {
    let mut filled = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('{') {
        filled += before;
        let Some((name, behind)) = after.split_once('}') else {
            rest = after;
            filled.push('{');
            continue;
        };
        let digits = name.trim_start_matches(|character: char| character.is_ascii_lowercase());
        let kind = &name[..name.len() - digits.len()];
        match (kind, digits.parse()) {
            ("cpu" | "core" | "others" | "node", Ok(index)) => {
                filled += &place(kind, index, topology)?.to_string();
            }
            _ => filled += &format!("{{{name}}}"),
        }
        rest = behind;
    }
    Ok(filled + rest)
}

fn place(kind: &str, index: usize, topology: &Topology) -> Result<CpuSet, String> {
    if kind == "node" {
        let nodes = &topology.nodes;
        let node = nodes.get(index).filter(|_| nodes.len() > 1);
        let node = node.ok_or_else(|| format!("this machine has {} NUMA node", nodes.len()))?;
        return Ok(node.cpus.clone());
    }
    let core = topology.cores.get(index).ok_or_else(|| {
        format!("this machine has {} cores, and core {index} is asked for", topology.cores.len())
    })?;
    let first = core.cpus.first().ok_or("a core without CPUs")?;
    match kind {
        "cpu" => Ok(CpuSet::single(first)),
        "core" if core.cpus.len() > 1 => Ok(core.cpus.clone()),
        "core" => Err("a core of this machine has one thread: the same as a logical CPU".into()),
        _ => {
            let node = topology.nodes.get(core.node).map_or(&topology.online, |node| &node.cpus);
            let others = node.minus(&core.cpus);
            if others.is_empty() {
                Err("there is no other core on the node".into())
            } else {
                Ok(others)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidemill_host::topology::{Core, Node};

    /// Two nodes of two cores of two threads, numbered as machines do: siblings are far apart.
    fn machine() -> Topology {
        let set = |list: &str| CpuSet::parse_list(list).unwrap();
        let core = |list: &str, node| Core {
            cpus: set(list),
            package: node as i32,
            last_level_cache: CpuSet::new(),
            cluster: CpuSet::new(),
            node,
            is_top_class: true,
        };
        let node = |id, list: &str| Node { id: Some(id), cpus: set(list), memory_kib: None };
        Topology {
            cores: vec![core("0,4", 0), core("1,5", 0), core("2,6", 1), core("3,7", 1)],
            nodes: vec![node(0, "0-1,4-5"), node(1, "2-3,6-7")],
            online: set("0-7"),
            ..Topology::default()
        }
    }

    #[test]
    fn places_follow_the_topology_and_not_the_numbers() {
        let filled = |text| fill(text, &machine());
        assert_eq!(filled("a {core0};{core2} {port}").unwrap(), "a 0,4;2,6 {port}");
        assert_eq!(filled("{cpu3}/{others0}/{node1}").unwrap(), "3/1,5/2-3,6-7");
        assert!(filled("{core4}").unwrap_err().contains("4 cores"));
        assert_eq!(filled("{open").unwrap(), "{open");
    }

    #[test]
    fn a_place_that_means_nothing_here_is_refused() {
        let mut machine = machine();
        machine.nodes.truncate(1);
        machine.cores.truncate(1);
        machine.cores[0].cpus = CpuSet::single(0);
        machine.nodes[0].cpus = CpuSet::single(0);
        for place in ["{core0}", "{others0}", "{node0}", "{node1}", "{cpu1}"] {
            assert!(fill(place, &machine).is_err(), "{place}");
        }
    }
}
