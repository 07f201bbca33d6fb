//! Findings and changes as text.

use serde_json::json;

use crate::facts::Host;
use crate::placement::{Allowed, Placement, instances};
use crate::rules::{Finding, Verdict};
use crate::topology::Nic;
use crate::tune::Planned;
use crate::{CpuSet, Refusal, Root};

/// One finding: a line, and the details where there is something to do.
pub(super) fn finding(finding: &Finding) -> String {
    let mut text = format!(
        "{:14} {:14} {}: {}\n",
        finding.verdict, finding.id, finding.title, finding.summary
    );
    if finding.verdict < Verdict::Advice {
        return text;
    }
    for line in &finding.evidence {
        text.push_str(&format!("    read     {line}\n"));
    }
    text.push_str(&format!("    why      {}\n", finding.why));
    if !finding.effect.is_empty() {
        text.push_str(&format!("    measured {}\n", finding.effect));
    }
    if !finding.action.is_empty() {
        text.push_str(&format!("    do       {}{}\n", finding.action, needs(finding)));
    }
    text
}

fn needs(finding: &Finding) -> String {
    let needs = [
        (finding.needs.root, "root"),
        (finding.needs.restart, "a restart of the server"),
        (finding.needs.host_owner, "the host's owner"),
    ];
    let words: Vec<&str> =
        needs.iter().filter(|(needed, _)| *needed).map(|(_, word)| *word).collect();
    if words.is_empty() { String::new() } else { format!(" (needs {})", words.join(", ")) }
}

/// All findings as one JSON object; texts are those of the plain output.
pub(super) fn json(findings: &[Finding]) -> String {
    let list: Vec<_> = findings.iter().map(finding_json).collect();
    let mut text = format!("{:#}", json!({ "version": 1, "findings": list }));
    text.push('\n');
    text
}

fn finding_json(finding: &Finding) -> serde_json::Value {
    let changes: Vec<_> = finding
        .changes
        .iter()
        .map(|change| json!({ "path": change.path, "from": change.from, "to": change.to }))
        .collect();
    json!({
        "verdict": finding.verdict.to_string(),
        "id": finding.id,
        "title": finding.title,
        "summary": finding.summary,
        "evidence": finding.evidence,
        "why": finding.why,
        "measured": finding.effect,
        "action": finding.action,
        "needs": {
            "root": finding.needs.root,
            "restart": finding.needs.restart,
            "host_owner": finding.needs.host_owner,
        },
        "changes": changes,
    })
}

/// The placement of one server, or of several, with its reasons, or why there is none.
pub(super) fn placement(host: &Host<'_>, instance_count: usize) -> Result<String, String> {
    let (placement, topology) = match (&host.placement, &host.topology) {
        (Ok(placement), Ok(topology)) => (placement, topology),
        (Err(error), _) => return Ok(format!("no placement: {error}\n")),
        (_, Err(error)) => return Ok(format!("no placement: {error}\n")),
    };
    let draw = |placement: &Placement| {
        let nics = topology.nics.iter().filter(|nic| nic.is_up);
        let interfaces: String = nics.map(|nic| interface(host, nic, placement)).collect();
        let reasons = placement.reasons.join("\n");
        format!("{reasons}\n\n{}{interfaces}\n", placement.picture(topology))
    };
    if instance_count == 1 {
        return Ok(draw(placement));
    }
    let limits = Allowed { mask: None, ..host.allowed.clone() };
    let several = instances(topology, &limits, &host.inspect.placement, instance_count)
        .map_err(|error| error.to_string())?;
    let mut text = draw(&several.placement);
    text.push_str(&format!("{instance_count} servers: {}\n", several.reason));
    for (number, instance) in (1..).zip(&several.list) {
        let memory =
            instance.memory_node.map_or(String::new(), |node| format!(", memory of node {node}"));
        text.push_str(&format!("  server {number}: CPU {}{memory}\n", instance.cpus));
    }
    text.push('\n');
    Ok(text)
}

/// A network interface with its queues, and the CPUs that take its interrupts now and by the plan.
fn interface(host: &Host<'_>, nic: &Nic, placement: &Placement) -> String {
    let node = nic.node.map_or("no known node".to_owned(), |node| format!("node {node}"));
    let (name, receive) = (&nic.name, nic.receive_queue_count);
    let mut text = format!(
        "{name} ({node}), queues: {receive} receive, {} transmit\n",
        nic.transmit_queue_count
    );
    let mut now = CpuSet::new();
    let mut requested = CpuSet::new();
    for &number in &nic.interrupts {
        let files = ["effective_affinity_list", "smp_affinity_list"];
        let mut lists = files.iter().map(|file| format!("/proc/irq/{number}/{file}"));
        // An interrupt that is allocated and not requested has no directory.
        if let Some(cpus) = lists.find_map(|path| host.root.cpu_list(&path).ok()) {
            now = now.or(&cpus);
            requested.insert(number);
        }
    }
    if !requested.is_empty() {
        let planned = match placement.irq.is_empty() {
            true => "stay there".to_owned(),
            false => format!("planned on CPU {}", placement.irq),
        };
        text.push_str(&format!("  interrupts {requested} on CPU {now}, {planned}\n"));
    }
    text
}

/// Findings and changes that root's rights would add; empty for root and for captures.
pub(super) fn without_root(root: &Root, findings: &[Finding]) -> String {
    match root.is_live() && !rustix::process::geteuid().is_root() {
        true => root_adds(findings),
        false => String::new(),
    }
}

pub(super) fn root_adds(findings: &[Finding]) -> String {
    let untold: Vec<&str> = findings
        .iter()
        .filter(|finding| finding.refusal == Some(Refusal::NotPermitted))
        .map(|finding| finding.id)
        .collect();
    match untold.is_empty() {
        true => "\nroot could tell no more; apply and revert need it\n".to_owned(),
        false => {
            format!("\nroot could tell of {}, too; apply and revert need it\n", untold.join(", "))
        }
    }
}

/// Changes as a diff, with what makes each last and who else manages it.
pub(super) fn changes(planned: &[Planned]) -> String {
    let mut text: String = planned.iter().map(change).collect();
    if !planned.is_empty() {
        text.push_str("`tidemill tune revert` writes the old values back and removes the files\n");
    }
    text
}

fn change(planned: &Planned) -> String {
    let change = &planned.change;
    let name = match &change.persistence {
        crate::rules::Persistence::DropIn { key, .. } => format!(" {key}"),
        _ => String::new(),
    };
    let mut text = format!("{} {}{name}\n", change.rule, change.path);
    text.push_str(&format!("  - {}\n  + {}\n", change.from, change.to));
    text.push_str(&match &planned.lasting_file {
        Some(file) => format!("  lasts by {file} (--persist)\n"),
        None => "  cannot be made to last: a name in it is not safe in a file\n".to_owned(),
    });
    if let Some(manager) = &planned.manager {
        text.push_str(&format!("  left alone: {manager} manages it (--take-over writes it)\n"));
    }
    text
}
