//! Other programs that set the same things: tuned, irqbalance, bpftune.
//!
//! A setting written against one of them is written back by it sooner or later. So what they claim
//! is left alone unless the operator says otherwise.

use glob::Pattern;

use crate::Root;
use crate::facts::runs;

/// A program that manages settings of this machine.
#[derive(Clone, Debug)]
pub struct Manager {
    /// Its name, with the profile where it has one.
    pub name: String,
    claims: Vec<Pattern>,
}

/// Profiles that include each other deeper than this are in a circle.
const INCLUDES_MAX: usize = 8;

/// Files that bpftune's tuners for packet queues and socket buffers write.
const BPFTUNE: &[&str] = &[
    "/proc/sys/net/core/netdev_max_backlog",
    "/proc/sys/net/core/netdev_budget*",
    "/proc/sys/net/core/rmem_*",
    "/proc/sys/net/core/wmem_*",
    "/proc/sys/net/ipv4/tcp_*mem",
];

impl Manager {
    fn new(name: impl Into<String>, claims: impl IntoIterator<Item = String>) -> Self {
        let claims = claims.into_iter().filter_map(|claim| Pattern::new(&claim).ok()).collect();
        Self { name: name.into(), claims }
    }

    /// True if it sets the file at this path.
    pub fn claims(&self, path: &str) -> bool {
        self.claims.iter().any(|claim| claim.matches(path))
    }

    /// Number of files or patterns of files that it sets.
    pub fn claim_count(&self) -> usize {
        self.claims.len()
    }
}

/// The managers at work on a host. One whose presence cannot be told is taken for absent, except
/// tuned, whose profile is a file.
pub fn managers(root: &Root) -> Vec<Manager> {
    let mut found = Vec::new();
    if let Ok(profiles) = root.text("/etc/tuned/active_profile") {
        let names: Vec<&str> = profiles.split_whitespace().collect();
        let claims: Vec<String> =
            names.iter().flat_map(|name| profile_claims(root, name, 0)).collect();
        if !names.is_empty() {
            found.push(Manager::new(format!("tuned (profile {})", names.join(" ")), claims));
        }
    }
    let does_run = |program| runs(root, program).unwrap_or(false);
    if does_run("irqbalance") {
        found.push(Manager::new("irqbalance", ["/proc/irq/*/smp_affinity*".to_owned()]));
    }
    if does_run("bpftune") {
        found.push(Manager::new("bpftune", BPFTUNE.iter().map(|claim| (*claim).to_owned())));
    }
    found
}

/// Settings of a profile of tuned and those it includes, as patterns of paths.
fn profile_claims(root: &Root, profile: &str, depth: usize) -> Vec<String> {
    let is_name = !profile.is_empty() && !profile.contains('/') && !profile.starts_with('.');
    if depth >= INCLUDES_MAX || !is_name {
        return Vec::new();
    }
    let places = ["/etc/tuned/profiles", "/etc/tuned", "/usr/lib/tuned/profiles", "/usr/lib/tuned"];
    let files = places.iter().map(|place| format!("{place}/{profile}/tuned.conf"));
    let Some(text) = files.into_iter().find_map(|file| root.text(&file).ok()) else {
        return Vec::new();
    };
    let mut section = String::new();
    let mut claims = Vec::new();
    for line in text.lines().map(str::trim) {
        if let Some(name) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            section = name.to_owned();
            continue;
        }
        let Some((key, value)) = line.split_once('=') else { continue };
        let (key, value) = (key.trim(), value.trim());
        if section == "main" && key == "include" {
            let included = value.split([',', ' ']).filter(|name| !name.is_empty());
            claims.extend(included.flat_map(|name| profile_claims(root, name, depth + 1)));
        } else if !key.starts_with('#') {
            claims.extend(claim(&section, key));
        }
    }
    claims
}

/// File that one line of a profile sets, if rules of ours write it, too.
fn claim(section: &str, key: &str) -> Option<String> {
    const CPU: &str = "/sys/devices/system/cpu/cpu*";
    const THP: &str = "/sys/kernel/mm/transparent_hugepage";
    Some(match (section, key) {
        ("sysctl", key) => format!("/proc/sys/{}", key.replace('.', "/")),
        ("sysfs", path) => path.to_owned(),
        ("vm", "transparent_hugepages" | "transparent_hugepage") => format!("{THP}/enabled"),
        ("vm", "transparent_hugepage.defrag") => format!("{THP}/defrag"),
        ("cpu", "governor") => format!("{CPU}/cpufreq/scaling_governor"),
        ("cpu", "energy_performance_preference") => {
            format!("{CPU}/cpufreq/energy_performance_preference")
        }
        ("cpu", "pm_qos_resume_latency_us") => format!("{CPU}/power/pm_qos_resume_latency_us"),
        ("scheduler", "sched_wakeup_granularity_ns") => {
            "/sys/kernel/debug/sched/wakeup_granularity_ns".to_owned()
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::tree;

    #[test]
    fn profile_claims_the_settings_of_itself_and_its_includes() {
        let (_directory, root) = tree(&[
            ("etc/tuned/active_profile", "mine\n"),
            ("etc/tuned/mine/tuned.conf", "[main]\ninclude=base\n[sysctl]\nvm.swappiness = 10\n"),
            (
                "usr/lib/tuned/base/tuned.conf",
                "[main]\ninclude=mine\n[vm]\ntransparent_hugepages=always\n\
                 [cpu]\ngovernor=performance\n",
            ),
        ]);
        let found = managers(&root);
        assert_eq!(found.len(), 1);
        assert!(found[0].claims("/proc/sys/vm/swappiness"));
        assert!(found[0].claims("/sys/kernel/mm/transparent_hugepage/enabled"));
        assert!(found[0].claims("/sys/devices/system/cpu/cpu11/cpufreq/scaling_governor"));
        assert!(!found[0].claims("/proc/sys/vm/overcommit_memory"));
    }

    #[test]
    fn irqbalance_and_bpftune_are_found_among_the_processes() {
        let (_directory, root) = tree(&[("tidemill/processes", "bpftune\nirqbalance\n")]);
        let found = managers(&root);
        assert!(found[0].claims("/proc/irq/24/smp_affinity_list"));
        assert!(found[1].claims("/proc/sys/net/core/netdev_budget_usecs"));
        assert!(!found[1].claims("/proc/sys/net/core/somaxconn"));
        let (_directory, root) = tree(&[("proc/7/comm", "bash\n")]);
        assert!(managers(&root).is_empty());
    }
}
