//! Files that make changes last over a reboot; each is ours as a whole and says so in its first
//! line.
//!
//! Their text is a function of the journal's lasting entries, so undoing one entry writes the file
//! anew without it and undoing the last one removes the file.

use std::collections::{BTreeMap, BTreeSet};

use rustix::fs::Mode;

use super::journal::{Entry, Journal, OwnFile};
use super::{Report, TuneError, store};
use crate::rules::{Change, Persistence};
use crate::{Refusal, Root};

const MARK: &str =
    "# Written by `tidemill tune apply --persist`; `tidemill tune revert` removes it.";

/// Sorts after the distributions' `99-sysctl.conf`, which would win otherwise.
const SYSCTL: &str = "/etc/sysctl.d/99-tidemill.conf";
const TMPFILES: &str = "/etc/tmpfiles.d/tidemill.conf";
const UDEV: &str = "/etc/udev/rules.d/99-tidemill.rules";
const ONESHOT: &str = "/etc/systemd/system/tidemill-tune.service";
/// Starts the unit without a symbolic link into a directory of systemd's.
const WANTED: &str = "/etc/systemd/system/multi-user.target.d/90-tidemill.conf";

/// The file that makes a change last; `None` when a name in it cannot be written down safely.
pub(super) fn file_of(path: &str, value: &str, persistence: &Persistence) -> Option<String> {
    // Names come from the machine: an interface may be called `$(reboot)`.
    let is_safe = |text: &str| {
        text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b" ._/:,@+-".contains(&byte))
    };
    let file = match persistence {
        Persistence::Sysctl => SYSCTL,
        Persistence::Tmpfiles => TMPFILES,
        Persistence::Udev => UDEV,
        Persistence::Oneshot => ONESHOT,
        Persistence::Interrupt { interface, .. } | Persistence::Queues { interface }
            if !is_safe(interface) =>
        {
            return None;
        }
        Persistence::Interrupt { .. } | Persistence::Queues { .. } => ONESHOT,
        Persistence::DropIn { .. } => path,
    };
    (is_safe(path) && is_safe(value)).then(|| file.to_owned())
}

/// As [`file_of`], for a change.
pub(super) fn file_of_change(change: &Change) -> Option<String> {
    file_of(&change.path, &change.to, &change.persistence)
}

/// The texts of all files the entries need, by path.
fn texts(entries: &[Entry]) -> BTreeMap<String, String> {
    // The last entry of a setting wins; a text must not depend on the order of the work.
    let mut lasting: BTreeMap<(bool, String), &Entry> = BTreeMap::new();
    for entry in entries.iter().filter(|entry| entry.is_persisted) {
        let is_after_queues = !matches!(entry.persistence, Persistence::Queues { .. });
        lasting.insert((is_after_queues, entry.subject()), entry);
    }
    let mut files: BTreeMap<String, String> = BTreeMap::new();
    for entry in lasting.into_values() {
        let Some(file) = file_of(&entry.path, &entry.to, &entry.persistence) else { continue };
        let head = head(&file);
        let text = files.entry(file).or_insert_with(|| format!("{MARK}\n{head}"));
        text.push_str(&line(entry));
    }
    if let Some(unit) = files.get_mut(ONESHOT) {
        *unit = unit.replacen("\n\n[Service]", &format!("\n{}\n[Service]", waits(entries)), 1);
        unit.push_str("RemainAfterExit=yes\n");
        files.insert(WANTED.to_owned(), format!("{MARK}\n[Unit]\nWants=tidemill-tune.service\n"));
    }
    files
}

/// Lines that hold the unit back until the interfaces whose queues and interrupts it sets are
/// there: a driver may load after `network.target`.
fn waits(entries: &[Entry]) -> String {
    let lasting = entries.iter().filter(|entry| entry.is_persisted);
    let interfaces: BTreeSet<&str> = lasting
        .filter_map(|entry| match &entry.persistence {
            Persistence::Interrupt { interface, .. } | Persistence::Queues { interface } => {
                Some(&**interface)
            }
            _ => None,
        })
        .collect();
    let wait = |interface| {
        let device = format!("sys-subsystem-net-devices-{}.device", escaped(interface));
        format!("Wants={device}\nAfter={device}\n")
    };
    interfaces.into_iter().map(wait).collect()
}

/// A name as systemd writes it into that of a unit: `-` parts paths there, `%` starts a specifier.
fn escaped(name: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b":_.".contains(&byte);
    let escape =
        |byte| if plain(byte) { char::from(byte).into() } else { format!("\\x{byte:02x}") };
    name.bytes().map(escape).collect()
}

fn head(file: &str) -> &'static str {
    match file {
        ONESHOT => {
            "[Unit]\nDescription=Settings of tidemill \
             tune\nAfter=network.target\n\n[Service]\nType=oneshot\n"
        }
        SYSCTL | TMPFILES | UDEV => "",
        _ => "[Service]\n",
    }
}

fn line(entry: &Entry) -> String {
    let Entry { rule, path, to, .. } = entry;
    match &entry.persistence {
        Persistence::Sysctl => format!("# {rule}\n{} = {to}\n", sysctl_key(path)),
        Persistence::Tmpfiles => format!("# {rule}\nw {path} - - - - {to}\n"),
        Persistence::Udev => {
            let below = path.trim_start_matches("/sys/class/net/");
            let (interface, attribute) = below.split_once('/').unwrap_or((below, ""));
            // The interface may get its name in the same event, or keep the kernel's.
            let rule_for = |key: &str| {
                format!(
                    "ACTION==\"add\", SUBSYSTEM==\"net\", {key}==\"{interface}\", \
                     ATTR{{{attribute}}}=\"{to}\"\n"
                )
            };
            format!("# {rule}\n{}{}", rule_for("KERNEL"), rule_for("NAME"))
        }
        Persistence::Oneshot => {
            format!("# {rule}\nExecStart=-/bin/sh -c 'echo {to} > {path}'\n")
        }
        Persistence::Queues { interface } => {
            format!("# {rule}\nExecStart=-/bin/sh -c 'ethtool -L {interface} combined {to}'\n")
        }
        // `$$` is systemd's `$`. On virtio the interrupts are the PCI parent's.
        Persistence::Interrupt { interface, index } => format!(
            "# {rule}\nExecStart=-/bin/sh -c 'cd -P /sys/class/net/{interface}/device && \
             {{ cd msi_irqs 2>/dev/null || cd ../msi_irqs; }} && n=$$(ls | sort -n | sed -n {}p) \
             && echo {to} > /proc/irq/$$n/smp_affinity_list'\n",
            index + 1
        ),
        Persistence::DropIn { key, .. } => format!("# {rule}\n{key}={to}\n"),
    }
}

/// The key of a sysctl: with slashes where a name in it holds a dot, as that of a VLAN does.
fn sysctl_key(path: &str) -> String {
    let below = path.trim_start_matches("/proc/sys/");
    if below.contains('.') { below.to_owned() } else { below.replace('/', ".") }
}

/// Makes the files on disk those the journal's lasting entries need. Files that were edited
/// since, or that were there before without our mark, are left alone and named in the report.
///
/// # Errors
/// When the journal cannot be written; refusals of single files go to the report.
pub(super) fn synchronize(
    root: &Root,
    journal: &mut Journal<'_>,
    report: &mut Report,
) -> Result<(), TuneError> {
    let mut wanted = texts(&journal.entries);
    for path in journal.files.iter().map(|file| file.path.clone()).collect::<Vec<_>>() {
        wanted.entry(path).or_default();
    }
    for (path, text) in wanted {
        let text = (!text.is_empty()).then_some(text);
        synchronize_one(root, journal, report, &path, text)?;
    }
    Ok(())
}

fn synchronize_one(
    root: &Root,
    journal: &mut Journal<'_>,
    report: &mut Report,
    path: &str,
    text: Option<String>,
) -> Result<(), TuneError> {
    let current = match current(root, path) {
        Ok(current) => current,
        Err(error) => {
            report.left(format!("left    {error}"));
            return Ok(());
        }
    };
    let known = journal.files.iter().position(|file| file.path == path);
    let is_ours = match (&current, known.map(|index| &journal.files[index])) {
        (None, _) => true,
        (Some(_), None) => false,
        (current, Some(file)) => *current == file.before || *current == file.after,
    };
    if !is_ours {
        report.left(format!("left    {path}: somebody else wrote or edited it"));
        return Ok(());
    }
    let file = OwnFile { path: path.to_owned(), before: current.clone(), after: text.clone() };
    match known {
        Some(index) => journal.files[index] = file,
        None => journal.files.push(file),
    }
    journal.save()?;
    let written = match &text {
        Some(text) => store::replace(root, path, text, Mode::from_raw_mode(0o644)),
        None => store::remove(root, path),
    };
    match (written, text) {
        (Err(error), _) => report.left(format!("refused {error}")),
        (Ok(()), Some(text)) if current.as_ref() != Some(&text) => {
            report.done(format!("wrote   {path}"));
        }
        (Ok(()), Some(_)) => {}
        (Ok(()), None) => {
            remove_drop_in_directory(root, path);
            journal.files.retain(|file| file.path != path);
            report.done(match current {
                Some(_) => format!("removed {path}"),
                None => format!("gone    {path}: absent already"),
            });
        }
    }
    Ok(())
}

fn remove_drop_in_directory(root: &Root, path: &str) {
    if let Some((directory, _)) = path.rsplit_once('/')
        && directory.starts_with("/etc/systemd/system/")
        && directory.ends_with(".d")
    {
        store::remove_empty_directory(root, directory);
    }
}

/// True if a file holds the text last written to it.
pub(super) fn is_as_written(root: &Root, file: &OwnFile) -> bool {
    current(root, &file.path).is_ok_and(|current| current == file.after)
}

/// A file's whole text, with its last newline; `None` when it is absent.
pub(super) fn current(root: &Root, path: &str) -> Result<Option<String>, crate::ReadError> {
    match root.text(path) {
        // Every text of ours ends with one newline, which reading takes away.
        Ok(text) => Ok(Some(format!("{text}\n"))),
        Err(error) if error.refusal == Refusal::Absent => Ok(None),
        Err(error) => Err(error),
    }
}
