//! `apply`, `revert`, `verify` and `ab`.

use std::io::{BufRead, Write};
use std::process::ExitCode;

use super::arguments::{AbArguments, ApplyArguments, RevertArguments, VerifyArguments};
use super::{Outcome, STATUS_LEFT, examine, show};
use crate::capture;
use crate::facts::Host;
use crate::output::note;
use crate::rules;
use crate::tune::{self, ApplyOptions, Judge, Report, RevertOptions, Trial, TrialPlan};

pub(super) fn apply(arguments: &ApplyArguments) -> Result<Outcome, String> {
    let look = &arguments.plan.look;
    let root = examine::open(look)?;
    // A typing error is told before the samples are taken.
    tune::select(&[], &arguments.only).map_err(|error| error.to_string())?;
    let host = Host::read(&root, examine::planned_inspect(&root, &arguments.plan)?);
    let findings = rules::examine(&host);
    let changes = tune::select(&findings, &arguments.only).map_err(|error| error.to_string())?;
    let planned = tune::plan(&root, changes);
    let fleeting = match arguments.persist {
        true => tune::fleeting(&root, &arguments.only).map_err(|error| error.to_string())?,
        false => Vec::new(),
    };
    if planned.is_empty() && fleeting.is_empty() {
        return Ok(Outcome { text: "nothing to change\n".to_owned(), status: 0 });
    }
    if !arguments.yes {
        let mut output = std::io::stdout();
        let changes = show::changes(&planned);
        let fleeting: String =
            fleeting.iter().map(|line| format!("{line}\n  is made to last\n")).collect();
        let question = format!("{changes}{fleeting}\nwrite these? [y/N] ");
        // Without a reader there is no consent.
        output
            .write_all(question.as_bytes())
            .and_then(|()| output.flush())
            .map_err(|error| format!("the changes cannot be shown: {error}"))?;
        if !is_agreed(&mut std::io::stdin().lock()) {
            return Ok(Outcome { text: "nothing was changed\n".to_owned(), status: STATUS_LEFT });
        }
    }
    let options = ApplyOptions {
        only: arguments.only.clone(),
        persist: arguments.persist,
        take_over: arguments.take_over,
    };
    tune::apply(&root, &planned, &options).map(outcome).map_err(|error| error.to_string())
}

/// True if the next line says yes; the end of input says no.
fn is_agreed(input: &mut impl BufRead) -> bool {
    let mut line = String::new();
    let is_read = input.read_line(&mut line).is_ok();
    is_read && matches!(line.trim().to_ascii_lowercase().as_str(), "y" | "yes")
}

pub(super) fn revert(arguments: &RevertArguments) -> Result<Outcome, String> {
    let root = capture::open(&arguments.machine.root)?;
    tune::select(&[], &arguments.only).map_err(|error| error.to_string())?;
    let options = RevertOptions { only: arguments.only.clone(), forget: arguments.forget };
    let report = tune::revert(&root, &options).map_err(|error| error.to_string())?;
    if report == Report::default() {
        return Ok(Outcome { text: "nothing to revert\n".to_owned(), status: 0 });
    }
    Ok(outcome(report))
}

pub(super) fn verify(arguments: &VerifyArguments) -> Result<Outcome, String> {
    let root = capture::open(&arguments.machine.root)?;
    let report = tune::verify(&root).map_err(|error| error.to_string())?;
    if report == Report::default() {
        return Ok(Outcome { text: "nothing is applied\n".to_owned(), status: 0 });
    }
    Ok(outcome(report))
}

/// `ab`: the judge measures and decides, this crate switches.
pub(super) fn compare(
    arguments: &AbArguments,
    judge: Option<&dyn Judge>,
) -> Result<ExitCode, String> {
    let judge = judge.ok_or("no load generator is built in")?;
    let root = examine::open(&arguments.look)?;
    tune::select(&[], std::slice::from_ref(&arguments.rule)).map_err(|error| error.to_string())?;
    let findings = {
        let host = Host::read(&root, examine::inspect(&root, &arguments.look)?);
        rules::examine(&host)
    };
    let mut trial = Trial::new(root, &arguments.rule, &findings)?;
    let rule = trial.rule();
    note(format_args!("if this process is killed, undo with: tidemill tune revert --only {rule}"));
    let plan = TrialPlan {
        load: arguments.load.clone(),
        metric: arguments.metric.clone(),
        blocks: arguments.blocks,
        threshold: arguments.threshold,
        seed: arguments.seed,
        json: arguments.json.clone(),
    };
    Ok(judge.judge(&mut trial, plan))
}

fn outcome(report: Report) -> Outcome {
    let status = if report.left_count > 0 { STATUS_LEFT } else { 0 };
    let mut text = report.lines.join("\n");
    text.push('\n');
    Outcome { text, status }
}
