//! Findings and changes as text.

use crate::facts::Host;
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

/// The placement with its reasons, or why there is none.
pub(super) fn placement(host: &Host<'_>) -> String {
    match (&host.placement, &host.topology) {
        (Ok(placement), Ok(topology)) => {
            format!("{}\n\n{}\n", placement.reasons.join("\n"), placement.picture(topology))
        }
        (Err(error), _) => format!("no placement: {error}\n"),
        (_, Err(error)) => format!("no placement: {error}\n"),
    }
}

/// Changes as a diff, with what makes each last and who else manages it.
pub(super) fn changes(planned: &[Planned]) -> String {
    planned.iter().map(change).collect()
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
