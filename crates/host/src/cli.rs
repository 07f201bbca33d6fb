//! `tidemill tune`: command line of the host doctor.
//!
//! Exit status of `doctor`: 0 nothing to do, 1 advice, 3 at least one problem, 2 wrong usage or an unreadable
//! root. `plan` writes nothing and ends with 0 or 2.

use std::ffi::OsString;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use crate::Root;
use crate::facts::{Host, Inspect, Server};
use crate::rules::{self, Finding, Verdict};

const USAGE: &str = "\
Usage: tidemill tune doctor [--root DIR] [--pid N] [--interval SECONDS]
       tidemill tune plan   [--root DIR] [--pid N] [--interval SECONDS]

  doctor  judges this host, or one captured below DIR, by every rule; changes nothing
  plan    draws the machine with workers, interrupts and background threads, and
          prints the writes the rules propose; writes nothing

Counters are judged over two samples, SECONDS apart (default 1, 0 takes one sample).
doctor exits with 0 when there is nothing to do, 1 on advice, 3 on a problem, 2 on wrong usage.
";

const STATUS_USAGE: u8 = 2;

struct Arguments {
    root: PathBuf,
    pid: Option<u32>,
    interval: Duration,
}

/// Runs `tidemill tune` with the arguments that follow the subcommand.
pub fn run(args: Vec<OsString>) -> ExitCode {
    let words: Option<Vec<String>> = args.into_iter().map(|word| word.into_string().ok()).collect();
    let words = words.unwrap_or_default();
    let command = words.first().map(String::as_str);
    let show: fn(&Host<'_>) -> (String, u8) = match command {
        Some("doctor") => doctor,
        Some("plan") => plan,
        Some("-h" | "--help" | "help") => {
            print!("{USAGE}");
            return ExitCode::SUCCESS;
        }
        _ => {
            eprint!("{USAGE}");
            return ExitCode::from(STATUS_USAGE);
        }
    };
    match examine(&words[1..], show) {
        Ok((text, status)) => {
            // A reader that went away, such as `head`, is no error of ours.
            let _ = std::io::stdout().write_all(text.as_bytes());
            ExitCode::from(status)
        }
        Err(message) => {
            eprintln!("tidemill tune: {message}");
            ExitCode::from(STATUS_USAGE)
        }
    }
}

fn examine(words: &[String], show: fn(&Host<'_>) -> (String, u8)) -> Result<(String, u8), String> {
    let arguments = parse(words)?;
    let root = Root::open(&arguments.root).map_err(|error| error.to_string())?;
    let mut server = Server::captured(&root).map_err(|error| error.to_string())?;
    if let Some(pid) = arguments.pid {
        root.names(&format!("/proc/{pid}/task")).map_err(|error| error.to_string())?;
        server.get_or_insert_default().pid = Some(pid);
    }
    let inspect = Inspect { server, interval: arguments.interval, ..Inspect::default() };
    Ok(show(&Host::read(&root, inspect)))
}

fn parse(words: &[String]) -> Result<Arguments, String> {
    let mut arguments =
        Arguments { root: PathBuf::from("/"), pid: None, interval: Duration::from_secs(1) };
    let mut words = words.iter();
    while let Some(option) = words.next() {
        let value = words.next().ok_or_else(|| format!("{option} needs a value, or is unknown"))?;
        let wrong = || format!("{option} {value}: not understood");
        match option.as_str() {
            "--root" => arguments.root = PathBuf::from(value),
            "--pid" => arguments.pid = Some(value.parse().map_err(|_| wrong())?),
            "--interval" => {
                let seconds: f64 = value.parse().map_err(|_| wrong())?;
                arguments.interval = Duration::try_from_secs_f64(seconds).map_err(|_| wrong())?;
            }
            _ => return Err(format!("unknown option {option}")),
        }
    }
    Ok(arguments)
}

fn doctor(host: &Host<'_>) -> (String, u8) {
    let findings = rules::examine(host);
    let text: String = findings.iter().map(describe).collect();
    let worst = findings.iter().map(|finding| finding.verdict).max();
    let status = match worst {
        Some(Verdict::Problem) => 3,
        Some(Verdict::Advice) => 1,
        _ => 0,
    };
    (text, status)
}

fn describe(finding: &Finding) -> String {
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

fn plan(host: &Host<'_>) -> (String, u8) {
    let mut text = match (&host.placement, &host.topology) {
        (Ok(placement), Ok(topology)) => {
            format!("{}\n\n{}\n", placement.reasons.join("\n"), placement.picture(topology))
        }
        (Err(error), _) => format!("no placement: {error}\n"),
        (_, Err(error)) => format!("no placement: {error}\n"),
    };
    for finding in rules::examine(host) {
        for change in &finding.changes {
            text.push_str(&format!("{} {}\n", change.rule, change.path));
            text.push_str(&format!("  - {}\n  + {}\n", change.from, change.to));
        }
    }
    (text, 0)
}
