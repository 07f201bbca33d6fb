//! `doctor`, `plan` and `capture`: what only reads.

use std::fs::OpenOptions;
use std::io::{BufWriter, IsTerminal};
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt;

use super::Outcome;
use super::arguments::{CaptureArguments, DoctorArguments, Look, PlanArguments, Profile, Role};
use super::show;
use crate::facts::{self, AskError, Credentials, Host, Inspect, Server};
use crate::rules::{self, Verdict};
use crate::tune;
use crate::{Root, capture};

pub(super) fn doctor(arguments: &DoctorArguments) -> Result<Outcome, String> {
    let root = open(&arguments.look)?;
    let host = Host::read(&root, inspect(&root, &arguments.look)?);
    let findings = rules::examine(&host);
    let text = match arguments.json {
        true => show::json(&findings),
        false => {
            let told: String = findings.iter().map(show::finding).collect();
            told + &show::without_root(&root, &findings)
        }
    };
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
    let host = Host::read(&root, planned_inspect(&root, arguments)?);
    let mut text = show::placement(&host, arguments.instances)?;
    let findings = rules::examine(&host);
    let changes = tune::select(&findings, &[]).map_err(|error| error.to_string())?;
    text.push_str(&show::changes(&tune::plan(&root, changes)));
    text.push_str(&show::without_root(&root, &findings));
    Ok(Outcome { text, status: 0 })
}

pub(super) fn open(look: &Look) -> Result<Root, String> {
    capture::open(&look.machine.root)
}

pub(super) fn capture(arguments: &CaptureArguments) -> Result<Outcome, String> {
    let mut root = open(&arguments.look)?;
    let inspect = inspect(&root, &arguments.look)?;
    let out = &arguments.out;
    let fail = |error: std::io::Error| format!("{}: {error}", out.display());
    let file =
        OpenOptions::new().write(true).create_new(true).mode(0o600).open(out).map_err(fail)?;
    let written = capture::capture(&mut root, inspect, BufWriter::new(&file));
    match written.and_then(|findings| file.sync_all().map(|()| findings)) {
        Ok(findings) => {
            let more = show::without_root(&root, &findings);
            Ok(Outcome { text: format!("wrote {}\n{more}", out.display()), status: 0 })
        }
        Err(error) => {
            // Half an archive is worth less than none.
            let _ = std::fs::remove_file(out);
            Err(fail(error))
        }
    }
}

pub(super) fn planned_inspect(root: &Root, arguments: &PlanArguments) -> Result<Inspect, String> {
    Ok(Inspect {
        is_client: arguments.role == Role::Client,
        prefers_throughput: arguments.profile == Profile::Throughput,
        ..inspect(root, &arguments.look)?
    })
}

pub(super) fn inspect(root: &Root, look: &Look) -> Result<Inspect, String> {
    let mut server = Server::captured(root).map_err(|error| error.to_string())?;
    let mut address = None;
    if let Some(port) = look.port {
        let found = facts::listening(root, port).map_err(|error| error.to_string())?;
        let found = found.ok_or_else(|| format!("nobody listens on port {port}"))?;
        server.get_or_insert_default().pid = found.pid;
        address = Some(found.address);
    }
    if let Some(pid) = look.pid {
        root.names(&format!("/proc/{pid}/task")).map_err(|error| error.to_string())?;
        server.get_or_insert_default().pid = Some(pid);
        address = facts::address_of(root, pid).unwrap_or_default();
    }
    if let (Some(server), Some(address), true) = (&mut server, address, root.is_live()) {
        ask(server, address, look.user.clone());
    }
    Ok(Inspect { server, interval: look.interval, ..Inspect::default() })
}

/// Asks a running server; one that does not answer is still looked at from outside.
fn ask(server: &mut Server, address: SocketAddr, user: Option<String>) {
    let variables = ["REDISCLI_AUTH", "VALKEYCLI_AUTH"];
    let password = variables.iter().find_map(|name| std::env::var(name).ok());
    let mut credentials = Credentials { user, password };
    let mut answers = facts::ask(address, &credentials);
    let wants_password = matches!(answers, Err(AskError::Password(_)));
    if wants_password && credentials.password.is_none() && std::io::stdin().is_terminal() {
        credentials.password = rpassword::prompt_password(format!("password of {address}: ")).ok();
        answers = facts::ask(address, &credentials);
    }
    match answers {
        Err(error) => server.silence = Some(error.to_string()),
        Ok(answers) => {
            server.info = answers.info;
            match answers.config {
                Ok(config) => server.config = config,
                Err(error) => server.silence = Some(error.to_string()),
            }
        }
    }
}
