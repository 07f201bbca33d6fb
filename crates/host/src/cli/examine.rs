//! `doctor` and `plan`: what only reads.

use super::Outcome;
use super::arguments::{DoctorArguments, Look, PlanArguments};
use super::show;
use crate::Root;
use crate::facts::{Host, Inspect, Server};
use crate::rules::{self, Verdict};
use crate::tune;

pub(super) fn doctor(arguments: &DoctorArguments) -> Result<Outcome, String> {
    let root = open(&arguments.look)?;
    let host = Host::read(&root, inspect(&root, &arguments.look)?);
    let findings = rules::examine(&host);
    let text = findings.iter().map(show::finding).collect();
    let worst = findings.iter().map(|finding| finding.verdict).max();
    let status = match worst {
        Some(Verdict::Problem) => 3,
        Some(Verdict::Advice) => 1,
        _ => 0,
    };
    Ok(Outcome { text, status })
}

pub(super) fn plan(arguments: &PlanArguments) -> Result<Outcome, String> {
    let root = open(&arguments.look)?;
    let host = Host::read(&root, inspect(&root, &arguments.look)?);
    let mut text = show::placement(&host);
    let changes = tune::select(&rules::examine(&host), &[]).map_err(|error| error.to_string())?;
    text.push_str(&show::changes(&tune::plan(&root, changes)));
    Ok(Outcome { text, status: 0 })
}

pub(super) fn open(look: &Look) -> Result<Root, String> {
    Root::open(&look.machine.root).map_err(|error| error.to_string())
}

pub(super) fn inspect(root: &Root, look: &Look) -> Result<Inspect, String> {
    let mut server = Server::captured(root).map_err(|error| error.to_string())?;
    if let Some(pid) = look.pid {
        root.names(&format!("/proc/{pid}/task")).map_err(|error| error.to_string())?;
        server.get_or_insert_default().pid = Some(pid);
    }
    Ok(Inspect { server, interval: look.interval, ..Inspect::default() })
}
