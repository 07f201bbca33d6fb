//! Changing a machine's settings so that each change can be undone: apply, revert, verify.
//!
//! Before anything is written, an undo journal on disk says what will be: the rule, the file, the
//! value found and the value wanted, and the boot it belongs to. The process may therefore end at
//! any moment. Each entry is afterwards judged by what is in the file *now*: the wanted value is
//! ours and is taken back, the value found is already right, anything else is another program's and
//! is left alone. Files that make a change last carry a mark, are replaced in one step, and are
//! removed only when they hold what was written.
//!
//! Everything works below any [`crate::Root`]: a tree of plain files then takes the machine's
//! place. What it is not: a supervisor. Nothing is written again when another program changes a
//! value later; [`verify`] says so.

mod apply;
mod journal;
mod managers;
mod persist;
mod revert;
mod store;
#[cfg(test)]
mod tests;
mod trial;
mod value;
mod verify;

use std::fmt;

pub use apply::{ApplyOptions, Planned, apply, fleeting, plan, select};
pub use managers::{Manager, managers};
pub use revert::{RevertOptions, revert};
pub use trial::{Judge, Trial, TrialPlan};
pub use verify::verify;

use crate::{ReadError, Refusal};

/// Lines about a command's actions, and the number of actions that failed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// One line for each change, in the order of the work.
    pub lines: Vec<String>,
    /// Changes that were refused or left alone.
    pub left_count: usize,
}

impl Report {
    fn done(&mut self, line: impl Into<String>) {
        self.lines.push(line.into());
    }

    fn left(&mut self, line: impl Into<String>) {
        self.lines.push(line.into());
        self.left_count += 1;
    }
}

/// Reason that a command did nothing at all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TuneError {
    /// A rule of this name does not exist.
    UnknownRule(String),
    /// The undo journal cannot be read or written.
    Journal(ReadError),
    /// The undo journal is of another version: found, known.
    JournalVersion(u64, u64),
    /// The undo journal is not one.
    JournalMalformed(String, String),
    /// Another `tidemill tune` is at work.
    Busy(String),
}

impl fmt::Display for TuneError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownRule(rule) => write!(f, "there is no rule {rule}"),
            Self::Journal(error) if error.refusal == Refusal::NotPermitted => {
                write!(f, "undo journal {error}; root may")
            }
            Self::Journal(error) => write!(f, "undo journal {error}"),
            Self::JournalVersion(found, known) => {
                write!(f, "the undo journal has version {found}, this program knows {known}")
            }
            Self::JournalMalformed(path, why) => write!(f, "undo journal {path}: {why}"),
            Self::Busy(path) => write!(f, "{path}: another `tidemill tune` is at work"),
        }
    }
}

impl std::error::Error for TuneError {}
