//! Findings and changes as text.

use serde_json::json;

use crate::facts::Host;
use crate::placement::{Allowed, Placement, instances};
use crate::rules::{Finding, Verdict};
use crate::tune::Planned;

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
        format!("{}\n\n{}\n", placement.reasons.join("\n"), placement.picture(topology))
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
