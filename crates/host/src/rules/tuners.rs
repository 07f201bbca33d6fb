//! Other programs that tune this machine: reported, so that no operator is surprised by a value
//! that comes back.

use super::{Judgement, Outcome, Rule};
use crate::facts::{Probe, process_names};
use crate::tune::managers;

pub(super) const RULES: &[Rule] = &[Rule {
    id: "tuners",
    title: "other tuners",
    harm: 38,
    why: "a setting that another program manages is written back by it",
    effect: "",
    judge: other_tuners,
}];

/// Profiles of tuned made to save power, or for desks.
const SAVING_PROFILES: &[&str] = &["balanced", "balanced-battery", "desktop", "powersave"];

fn other_tuners(probe: &mut Probe<'_>) -> Outcome {
    let root = probe.host.root;
    let profile = root.text("/etc/tuned/active_profile").unwrap_or_default();
    let found = managers(root);
    for manager in &found {
        probe.note(format!("{}: {} files or patterns", manager.name, manager.claim_count()));
    }
    if profile.split_whitespace().any(|name| SAVING_PROFILES.contains(&name)) {
        return Ok(Judgement::advice(format!("tuned's profile is {profile}"))
            .so("tuned-adm profile throughput-performance, or network-latency, before any single \
                 setting")
            .with_root());
    }
    if found.is_empty() {
        process_names(root)?;
        return Ok(Judgement::not_applicable("neither tuned, irqbalance nor bpftune is at work"));
    }
    let names: Vec<&str> = found.iter().map(|manager| manager.name.as_str()).collect();
    Ok(Judgement::ok(format!("{}: `apply` leaves alone what they set", names.join(", "))))
}
