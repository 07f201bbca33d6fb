//! Writing the changes of a plan.

use super::journal::{Entry, Journal};
use super::managers::managers;
use super::value::is_same;
use super::{Report, TuneError, persist, store};
use crate::rules::{self, Change, Finding};
use crate::{ReadError, Root};

/// Options of applying.
#[derive(Clone, Debug, Default)]
pub struct ApplyOptions {
    /// Rules whose earlier changes shall be made to last, too; empty for all.
    pub only: Vec<String>,
    /// True if changes shall outlive a reboot.
    pub persist: bool,
    /// True if files that tuned, irqbalance or bpftune manage are written, too.
    pub take_over: bool,
}

/// One change, with its manager and the file that would make it last.
#[derive(Clone, Debug)]
pub struct Planned {
    /// The change.
    pub change: Change,
    /// Other program that sets the same file.
    pub manager: Option<String>,
    /// The file that would make it last; `None` when names in it cannot be written down safely.
    pub lasting_file: Option<String>,
}

/// The changes that findings propose, of all rules or of those named, each file once.
///
/// # Errors
/// [`TuneError::UnknownRule`].
pub fn select(findings: &[Finding], only: &[String]) -> Result<Vec<Change>, TuneError> {
    for name in only {
        if !rules::all().any(|rule| rule.id.eq_ignore_ascii_case(name)) {
            return Err(TuneError::UnknownRule(name.escape_default().to_string()));
        }
    }
    let is_named = |rule: &str| only.iter().any(|name| name.eq_ignore_ascii_case(rule));
    let mut changes: Vec<Change> = Vec::new();
    for change in findings.iter().flat_map(|finding| &finding.changes) {
        let is_known = changes.iter().any(|other| {
            other.path == change.path
                && (other.persistence.is_runtime() || other.persistence == change.persistence)
        });
        if !is_known && (only.is_empty() || is_named(change.rule)) {
            changes.push(change.clone());
        }
    }
    Ok(changes)
}

/// Adds to each change who else manages its file and what would make it last.
pub fn plan(root: &Root, changes: Vec<Change>) -> Vec<Planned> {
    let managers = managers(root);
    let planned = changes.into_iter().map(|change| {
        let manager = managers.iter().find(|manager| manager.claims(&change.path));
        Planned {
            manager: manager.map(|manager| manager.name.clone()),
            lasting_file: persist::file_of_change(&change),
            change,
        }
    });
    planned.collect()
}

/// Values applied before that no file makes last yet, as `rule path: value`.
///
/// # Errors
/// When the journal cannot be read.
pub fn fleeting(root: &Root, only: &[String]) -> Result<Vec<String>, TuneError> {
    let journal = Journal::read(root)?;
    let entries = journal.entries.iter().filter(|entry| is_fleeting(&journal, entry, only));
    Ok(entries.map(|entry| format!("{} {}: {}", entry.rule, entry.path, entry.to)).collect())
}

fn is_fleeting(journal: &Journal<'_>, entry: &Entry, only: &[String]) -> bool {
    let is_chosen =
        only.is_empty() || only.iter().any(|rule| rule.eq_ignore_ascii_case(&entry.rule));
    let is_safe = persist::file_of(&entry.path, &entry.to, &entry.persistence).is_some();
    is_chosen && is_safe && !entry.is_persisted && journal.is_of_this_boot(entry)
}

/// Writes a plan: the journal first, then each value, which is read back, then the files that make
/// it last, also those of values applied earlier without them. Single refusals go to the report.
/// Blocks on file writes.
///
/// # Errors
/// When the journal cannot be read or written before the first change: nothing was changed then.
pub fn apply(
    root: &Root,
    planned: &[Planned],
    options: &ApplyOptions,
) -> Result<Report, TuneError> {
    let mut journal = Journal::open(root)?;
    let mut report = Report::default();
    drop_unwritten_entries(root, &mut journal);
    let old_count = journal.entries.len();
    for planned in planned {
        if let Some(entry) = accept(root, planned, options, &journal.boot_id, &mut report) {
            journal.entries.push(entry);
        }
    }
    journal.save()?;
    let mut index = old_count;
    while index < journal.entries.len() {
        match write(root, &mut journal.entries[index], &mut report) {
            Ok(()) => index += 1,
            Err(refusal) => {
                let entry = journal.entries.remove(index);
                report.left(format!("refused {} {refusal}", entry.rule));
            }
        }
    }
    if options.persist {
        for index in 0..journal.entries.len() {
            let is_fleeting = is_fleeting(&journal, &journal.entries[index], &options.only);
            journal.entries[index].is_persisted |= is_fleeting;
        }
    }
    journal.save()?;
    if options.persist {
        persist::synchronize(root, &mut journal, &mut report)?;
        journal.save()?;
    }
    Ok(report)
}

/// Drops entries a process was killed before it wrote: the last ones of each file that holds the
/// value found.
fn drop_unwritten_entries(root: &Root, journal: &mut Journal<'_>) {
    let mut settled: Vec<String> = Vec::new();
    for index in (0..journal.entries.len()).rev() {
        let entry = &journal.entries[index];
        if settled.contains(&entry.subject()) || entry.is_persisted {
            continue;
        }
        if !entry.persistence.is_runtime() {
            journal.entries.remove(index);
            continue;
        }
        store::sweep_value(root, &entry.path);
        let now = store::value(root, &entry.path);
        let is_original = now.is_ok_and(|now| is_same(&entry.path, &now, &entry.from));
        if is_original || !journal.is_of_this_boot(entry) {
            journal.entries.remove(index);
        } else {
            settled.push(entry.subject());
        }
    }
}

/// The entry for a change that shall be made; `None`, with a line in the report, for one that shall
/// not.
fn accept(
    root: &Root,
    planned: &Planned,
    options: &ApplyOptions,
    boot_id: &str,
    report: &mut Report,
) -> Option<Entry> {
    let change = &planned.change;
    let Change { rule, path, from, to, .. } = change;
    if let Some(manager) = planned.manager.as_ref().filter(|_| !options.take_over) {
        report.left(format!("left    {rule} {path}: {manager} manages it (--take-over writes it)"));
        return None;
    }
    if options.persist && planned.lasting_file.is_none() {
        report.left(format!("left    {rule} {path}: a name in it cannot be made to last safely"));
        return None;
    }
    if !change.persistence.is_runtime() {
        if !options.persist {
            report.left(format!("left    {rule} {path}: only a file can hold it (--persist)"));
            return None;
        }
        return Some(Entry::new(change, from, boot_id));
    }
    match store::value(root, path) {
        Err(error) => report.left(format!("refused {rule} {error}")),
        Ok(now) if !is_same(path, &now, from) => {
            report.left(format!("left    {rule} {path}: {now} by now, {from} in the plan"));
        }
        Ok(now) if is_same(path, &now, to) => {
            report.done(format!("kept    {rule} {path}: {now} already"));
        }
        Ok(now) => return Some(Entry::new(change, &now, boot_id)),
    }
    None
}

/// Writes one value and reads it back.
fn write(root: &Root, entry: &mut Entry, report: &mut Report) -> Result<(), ReadError> {
    if !entry.persistence.is_runtime() {
        return Ok(());
    }
    store::set_value(root, &entry.path, &entry.to)?;
    let now = store::value(root, &entry.path)?;
    let Entry { rule, path, from, to, .. } = entry;
    if is_same(path, &now, to) {
        report.done(format!("applied {rule} {path}: {from} -> {now}"));
    } else if is_same(path, &now, from) {
        let path = path.clone();
        return Err(ReadError { path, refusal: crate::Refusal::Ignored, errno: 0 });
    } else {
        report.left(format!("applied {rule} {path}: {from} -> {now}, the kernel's answer to {to}"));
        entry.to = now;
    }
    Ok(())
}
