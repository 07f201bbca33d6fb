//! Verification that applied changes are in force.

use super::journal::{Entry, Journal};
use super::value::is_same;
use super::{Report, TuneError, persist, store};
use crate::rules::Persistence;
use crate::{Root, topology};

/// Compares each applied value and file with what is there now. Changes nothing and needs no rights
/// beyond reading the journal.
///
/// # Errors
/// When the journal cannot be read.
pub fn verify(root: &Root) -> Result<Report, TuneError> {
    let journal = Journal::read(root)?;
    let mut report = Report::default();
    for (index, entry) in journal.entries.iter().enumerate() {
        let subject = entry.subject();
        let mut later = journal.entries[index + 1..].iter();
        if !entry.persistence.is_runtime() || later.any(|later| later.subject() == subject) {
            continue;
        }
        let path = &path_now(root, &journal, entry);
        let (rule, to) = (&entry.rule, &entry.to);
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

/// Path of an entry's setting in this boot: interrupts get other numbers. One that is no more keeps
/// its old path.
fn path_now(root: &Root, journal: &Journal<'_>, entry: &Entry) -> String {
    match &entry.persistence {
        Persistence::Interrupt { interface, index } if !journal.is_of_this_boot(entry) => {
            let number = topology::interrupts(root, interface).get(*index).copied();
            number.map(|number| format!("/proc/irq/{number}/smp_affinity_list"))
        }
        _ => None,
    }
    .unwrap_or_else(|| entry.path.clone())
}
