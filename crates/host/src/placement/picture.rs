//! A machine drawn in text, with the roles of its CPUs.

use std::fmt::Write;

use super::plan::Placement;
use crate::CpuSet;
use crate::topology::{Core, Topology};

const CORES_PER_LINE: usize = 8;

impl Placement {
    /// Draws sockets, nodes, caches, cores with their siblings and interfaces, and what runs on
    /// each CPU: `w3` worker 3, `i` interrupts, `b` background threads, `-` a sibling left idle,
    /// `.` nothing.
    pub fn picture(&self, topology: &Topology) -> String {
        let mut text = String::new();
        for (index, node) in topology.nodes.iter().enumerate() {
            let name = node.id.map_or("no known memory node".to_owned(), |id| format!("node {id}"));
            let memory =
                node.memory_kib.map_or(String::new(), |kib| format!(", {} MiB", kib / 1024));
            let nics: Vec<&str> = topology
                .nics
                .iter()
                .filter(|nic| nic.is_up && nic.node.is_some() && nic.node == node.id)
                .map(|nic| nic.name.as_str())
                .collect();
            let nics =
                if nics.is_empty() { String::new() } else { format!(", {}", nics.join(" ")) };
            let _ = writeln!(text, "{name} (CPU {}{memory}{nics})", node.cpus);
            let cores = topology.cores.iter().filter(|core| core.node == index);
            self.draw_cores(&mut text, &cores.collect::<Vec<_>>());
        }
        text
    }

    fn draw_cores(&self, text: &mut String, cores: &[&Core]) {
        let mut groups: Vec<(i32, &CpuSet)> =
            cores.iter().map(|core| (core.package, &core.last_level_cache)).collect();
        groups.sort_by_key(|(package, cache)| (*package, cache.first()));
        groups.dedup();
        for (package, cache) in groups {
            let socket =
                if package < 0 { "socket ?".to_owned() } else { format!("socket {package}") };
            let cache_name = if cache.is_empty() { String::new() } else { format!(", L3 {cache}") };
            let _ = writeln!(text, "  {socket}{cache_name}");
            let here = cores.iter().filter(|core| core.package == package);
            let here: Vec<String> = here
                .filter(|core| core.last_level_cache == *cache)
                .map(|core| self.draw_core(core))
                .collect();
            let width = here.iter().map(String::len).max().unwrap_or(0);
            for line in here.chunks(CORES_PER_LINE) {
                let line: Vec<String> = line.iter().map(|core| format!("{core:width$}")).collect();
                let _ = writeln!(text, "    {}", line.join(" ").trim_end());
            }
        }
    }

    fn draw_core(&self, core: &Core) -> String {
        let cpus = core.cpus.iter().map(|cpu| format!("{cpu}:{}", self.roles(cpu)));
        let slow = if core.is_top_class { "" } else { "~" };
        format!("{slow}[{}]", cpus.collect::<Vec<_>>().join(" "))
    }

    fn roles(&self, cpu: u32) -> String {
        let mut roles: Vec<String> = (0..)
            .zip(&self.workers)
            .filter(|(_, cpus)| cpus.contains(cpu))
            .map(|(worker, _): (usize, _)| format!("w{worker}"))
            .collect();
        if roles.len() > 2 {
            roles = vec!["w*".to_owned()];
        }
        let others = [(&self.irq, "i"), (&self.background, "b"), (&self.reserved, "-")];
        roles.extend(
            others
                .iter()
                .filter(|(cpus, _)| cpus.contains(cpu))
                .map(|(_, role)| (*role).to_owned()),
        );
        if roles.is_empty() { ".".to_owned() } else { roles.concat() }
    }
}
