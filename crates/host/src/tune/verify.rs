//! Whether what was applied is in force.

use super::journal::Journal;
use super::value::is_same;
use super::{Report, TuneError, persist, store};
use crate::Root;

/// Compares each applied value and file with what is there now. Changes nothing and needs no rights beyond
/// reading the journal.
///
/// # Errors
/// When the journal cannot be read.
pub fn verify(root: &Root) -> Result<Report, TuneError> {
    let journal = Journal::read(root)?;
    let mut report = Report::default();
    for (index, entry) in journal.entries.iter().enumerate() {
        let later = &journal.entries[index + 1..];
        if !entry.persistence.is_runtime() || later.iter().any(|later| later.path == entry.path) {
            continue;
        }
        let (rule, path, to) = (&entry.rule, &entry.path, &entry.to);
        match store::value(root, path) {
            Ok(now) if is_same(path, &now, to) => {
                report.done(format!("in force {rule} {path}: {now}"));
            }
            Ok(now) if !entry.is_persisted && !journal.is_of_this_boot(entry) => {
                report.left(format!("gone     {rule} {path}: {now}, {to} went with the last boot"));
            }
            Ok(now) => report.left(format!("changed  {rule} {path}: {now}, not {to}")),
            Err(error) => report.left(format!("refused  {rule} {error}")),
        }
    }
    for file in &journal.files {
        match persist::current(root, &file.path) {
            Ok(current) if current == file.after => {
                report.done(format!("in force {}", file.path));
            }
            Ok(None) => report.left(format!("gone     {}: removed by somebody else", file.path)),
            Ok(Some(_)) => report.left(format!("changed  {}: edited since", file.path)),
            Err(error) => report.left(format!("refused  {error}")),
        }
    }
    Ok(report)
}
