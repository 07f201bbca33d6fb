//! Undoing what was applied, last first.

use super::journal::{Entry, Journal};
use super::value::is_same;
use super::{Report, TuneError, persist, store};
use crate::{Refusal, Root};

/// Options of reverting.
#[derive(Clone, Debug, Default)]
pub struct RevertOptions {
    /// Rules to undo; empty for all.
    pub only: Vec<String>,
    /// True if values that others changed since are forgotten and left as they are.
    pub forget: bool,
}

/// Remaining action for an entry.
enum Undo {
    /// Nothing: the value found before is in force.
    Original,
    /// Nothing: it went with the last boot.
    Gone,
    /// The value found before has to be written.
    Restore,
    /// The value is another program's.
    Foreign(String),
}

/// Removes the files that make changes last, then writes the values found before, in reverse order.
/// A value that others changed since is left alone and stays in the journal. Can be repeated after
/// any interruption.
///
/// # Errors
/// When the journal cannot be read or written.
pub fn revert(root: &Root, options: &RevertOptions) -> Result<Report, TuneError> {
    let mut report = Report::default();
    if Journal::read(root)?.is_empty() {
        return Ok(report);
    }
    let mut journal = Journal::open(root)?;
    let is_chosen = |entry: &Entry| {
        options.only.is_empty()
            || options.only.iter().any(|rule| rule.eq_ignore_ascii_case(&entry.rule))
    };
    let chosen = journal.entries.iter_mut().filter(|entry| is_chosen(entry));
    let had_file: Vec<bool> = chosen.map(|entry| std::mem::take(&mut entry.is_persisted)).collect();
    persist::synchronize(root, &mut journal, &mut report)?;
    if options.forget {
        journal.files.retain(|file| persist::is_as_written(root, file));
    }
    let chosen: Vec<usize> =
        (0..journal.entries.len()).filter(|&index| is_chosen(&journal.entries[index])).collect();
    let mut foreign: Vec<String> = Vec::new();
    for (index, had_file) in chosen.into_iter().zip(had_file).rev() {
        let entry = journal.entries[index].clone();
        if undo(root, &journal, &entry, had_file, &mut foreign, options.forget, &mut report) {
            journal.entries.remove(index);
            journal.save()?;
        }
    }
    journal.save()?;
    Ok(report)
}

/// Undoes one entry; whether it is done with.
fn undo(
    root: &Root,
    journal: &Journal<'_>,
    entry: &Entry,
    had_file: bool,
    foreign: &mut Vec<String>,
    forget: bool,
    report: &mut Report,
) -> bool {
    let Entry { rule, path, from, to, .. } = entry;
    if !entry.persistence.is_runtime() {
        // Its file was written anew without it, unless it was edited since.
        let known = journal.files.iter().find(|file| file.path == *path);
        return known.is_none_or(|file| persist::is_as_written(root, file));
    }
    store::sweep_value(root, path);
    match judge(root, journal, entry, foreign) {
        Ok(Undo::Original) => report.done(format!("kept    {rule} {path}: {from} already")),
        Ok(Undo::Gone) if had_file => report.done(format!(
            "gone    {rule} {path}: of an earlier boot; what its file set at boot lasts until the \
             next"
        )),
        Ok(Undo::Gone) => report.done(format!("gone    {rule} {path}: went with the last boot")),
        Ok(Undo::Restore) => match restore(root, entry) {
            Ok(()) => report.done(format!("restored {rule} {path}: {to} -> {from}")),
            Err(error) => {
                report.left(format!("refused {rule} {error}"));
                return false;
            }
        },
        Ok(Undo::Foreign(now)) if forget => {
            report.done(format!("forgot  {rule} {path}: stays {now}, {from} before"));
        }
        Ok(Undo::Foreign(now)) => {
            foreign.push(path.clone());
            report.left(format!(
                "left    {rule} {path}: {now}, changed by somebody else since it was set to {to} \
                 ({from} before)"
            ));
            return false;
        }
        Err(error) => {
            report.left(format!("left    {rule} {error}"));
            return false;
        }
    }
    true
}

fn judge(
    root: &Root,
    journal: &Journal<'_>,
    entry: &Entry,
    foreign: &[String],
) -> Result<Undo, crate::ReadError> {
    let Entry { path, from, to, .. } = entry;
    if !journal.is_of_this_boot(entry) {
        return Ok(Undo::Gone);
    }
    let now = match store::value(root, path) {
        // An interface or module that went away took its settings along.
        Err(error) if error.refusal == Refusal::Absent => return Ok(Undo::Gone),
        now => now?,
    };
    Ok(match (is_same(path, &now, from), is_same(path, &now, to)) {
        _ if foreign.contains(path) => Undo::Foreign(now),
        (true, _) => Undo::Original,
        (_, true) => Undo::Restore,
        _ => Undo::Foreign(now),
    })
}

fn restore(root: &Root, entry: &Entry) -> Result<(), crate::ReadError> {
    let Entry { path, from, .. } = entry;
    store::set_value(root, path, from)?;
    match is_same(path, &store::value(root, path)?, from) {
        true => Ok(()),
        false => Err(crate::ReadError { path: path.clone(), refusal: Refusal::Ignored, errno: 0 }),
    }
}
