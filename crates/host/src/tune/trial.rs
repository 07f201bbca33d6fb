//! One rule's changes, switched on and off during measurements.

use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

use super::{
    ApplyOptions, Planned, RevertOptions, TuneError, apply, fleeting, plan, revert, select, store,
};
use crate::Root;
use crate::rules::{Change, Finding, Persistence};

/// In the undo journal, the name of what no rule proposes.
const NO_RULE: &str = "experiment";

/// The changes of one rule, planned once, so that every run of a comparison switches the same.
#[derive(Debug)]
pub struct Trial {
    root: Root,
    rule: String,
    planned: Vec<Planned>,
}

/// Measurement of a trial.
#[derive(Clone, Debug)]
pub struct TrialPlan {
    /// Flags of `tidemill bench` for each run; they name the server.
    pub load: String,
    /// The metric that decides.
    pub metric: String,
    /// Blocks of three runs: without the change, without it again, with it.
    pub blocks: u16,
    /// Smallest gain worth keeping, as a fraction.
    pub threshold: f64,
    /// Seed of the order of the runs; drawn when absent.
    pub seed: Option<u64>,
    /// Destination of a report in JSON.
    pub json: Option<PathBuf>,
}

/// Measures a trial. Implemented outside of this crate, which knows no load generator.
pub trait Judge {
    /// Runs the comparison and prints what came of it; leaves the change in force only when it was
    /// worth keeping, also when a signal ends it. Blocks for all runs. Returns the status the
    /// process shall end with.
    fn judge(&self, trial: &mut Trial, plan: TrialPlan) -> ExitCode;
}

impl Trial {
    /// Plans a rule's changes on a machine.
    ///
    /// # Errors
    /// One line: the rule is unknown, proposes nothing here, has changes that take a restart or
    /// belong to another tuner, or is applied already.
    pub fn new(root: Root, rule: &str, findings: &[Finding]) -> Result<Self, String> {
        let changes = select(findings, &[rule.to_owned()]).map_err(|error| error.to_string())?;
        if changes.is_empty() {
            return Err(format!("{rule} proposes no change here: see `tidemill tune doctor`"));
        }
        Self::of_changes(root, rule, changes, &format!("--only {rule}"))
    }

    /// Plans values that no rule proposes, by the absolute paths of their settings; each goes back
    /// to what is in force now.
    ///
    /// # Errors
    /// One line: a setting is not there, belongs to another tuner, or is still in force from such a
    /// trial that was killed.
    pub fn of_settings(root: Root, wanted: &[(String, String)]) -> Result<Self, String> {
        let change = |(path, to): &(String, String)| {
            let from = store::value(&root, path).map_err(|error| error.to_string())?;
            let (path, to, persistence) = (path.clone(), to.clone(), Persistence::Tmpfiles);
            Ok(Change { rule: NO_RULE, path, from, to, persistence })
        };
        let changes = wanted.iter().map(change).collect::<Result<Vec<_>, String>>()?;
        Self::of_changes(root, NO_RULE, changes, "")
    }

    fn of_changes(
        root: Root,
        rule: &str,
        changes: Vec<Change>,
        undo: &str,
    ) -> Result<Self, String> {
        let planned = plan(&root, changes);
        for one in &planned {
            let path = &one.change.path;
            if !one.change.persistence.is_runtime() {
                return Err(format!(
                    "{path}: takes a restart, so it cannot be switched under load"
                ));
            }
            if let Some(manager) = &one.manager {
                return Err(format!("{path}: {manager} manages it"));
            }
        }
        let applied = fleeting(&root, &[rule.to_owned()]).map_err(|error| error.to_string())?;
        if !applied.is_empty() {
            let command = format!("tidemill tune revert {undo}");
            return Err(format!("{rule} is applied: `{}` first", command.trim_end()));
        }
        Ok(Self { root, rule: rule.to_owned(), planned })
    }

    /// The rule.
    pub fn rule(&self) -> &str {
        &self.rule
    }

    /// Writes the changes; the undo journal knows them.
    ///
    /// # Errors
    /// What was refused.
    pub fn apply(&mut self) -> io::Result<()> {
        let report = apply(&self.root, &self.planned, &ApplyOptions::default());
        settled(report, "applied in part")
    }

    /// Undoes them. Harmless when nothing is applied.
    ///
    /// # Errors
    /// Changes that were refused, or made by others meanwhile.
    pub fn revert(&mut self) -> io::Result<()> {
        let options = RevertOptions { only: vec![self.rule.clone()], forget: false };
        settled(revert(&self.root, &options), "reverted in part")
    }
}

fn settled(report: Result<super::Report, TuneError>, otherwise: &str) -> io::Result<()> {
    let report = report.map_err(io::Error::other)?;
    if report.left_count == 0 {
        return Ok(());
    }
    Err(io::Error::other(format!("{otherwise}: {}", report.lines.join("; "))))
}
