//! Check of an RDB file without a keyspace: all of it is read, nothing is kept.

mod statistics;

use std::io::{self, Write};
use std::path::Path;

use tidemill_rdb::file::{Event, Progress, Reader};
use tidemill_rdb::{DecodeError, ReadError, Version, VersionCheck};

use crate::disk::Disk;
use crate::limits::LOAD_CHUNK_BYTES;

pub use statistics::{Statistics, StatisticsFormat};

/// Counts of what a file has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Checked {
    /// Its version.
    pub version: u16,
    /// Keys whose values are whole.
    pub keys: u64,
    /// Keys with an expiry.
    pub expiring: u64,
    /// Libraries of functions.
    pub libraries: u64,
    /// Bytes up to its end.
    pub bytes: u64,
    /// Bytes behind its end, as the commands of an append-only file.
    pub bytes_behind: u64,
    /// Fields about the file.
    pub fields: Vec<(String, String)>,
    /// The key that was read last.
    pub last_key: Option<Vec<u8>>,
}

/// Fault of a file.
#[derive(Debug)]
pub enum CheckFault {
    /// It cannot be read.
    Io(io::Error),
    /// Its bytes are wrong.
    Decode(DecodeError),
}

/// Reads a file to its end, its checksum included.
///
/// # Errors
///
/// [`CheckFault`], beside what was whole before.
pub fn check(disk: &dyn Disk, path: &Path) -> (Checked, Result<(), CheckFault>) {
    let mut checked = Checked::default();
    let result = read(disk, path, &mut checked, None);
    (checked, result)
}

fn read(
    disk: &dyn Disk,
    path: &Path,
    checked: &mut Checked,
    mut statistics: Option<&mut Statistics>,
) -> Result<(), CheckFault> {
    let file = disk.open(path).map_err(CheckFault::Io)?;
    let mut reader = Reader::new(VersionCheck::Relaxed, true);
    let mut buffer = vec![0; LOAD_CHUNK_BYTES];
    loop {
        let count = file.read_at(&mut buffer, checked.bytes).map_err(CheckFault::Io)?;
        if count == 0 {
            reader.end().map_err(CheckFault::Decode)?;
        }
        checked.bytes += count as u64;
        let fed = reader.feed(&buffer[..count], |event| {
            if let Some(statistics) = &mut statistics {
                statistics.note(&event);
            }
            note(checked, event);
            Ok::<(), std::convert::Infallible>(())
        });
        match fed {
            Ok(Progress::More) => {}
            Ok(Progress::Done { behind }) => {
                let length = file.length().map_err(CheckFault::Io)?;
                checked.bytes -= behind as u64;
                checked.bytes_behind = length.saturating_sub(checked.bytes);
                return Ok(());
            }
            Err(ReadError::Decode(error)) => return Err(CheckFault::Decode(error)),
            Err(ReadError::Sink(never)) => match never {},
        }
    }
}

fn note(checked: &mut Checked, event: Event<'_>) {
    let text = |bytes: &[u8]| bytes.escape_ascii().to_string();
    match event {
        Event::Version(version) => checked.version = version.0,
        Event::Aux { name, value } => checked.fields.push((text(name), text(value))),
        Event::Functions(_) => checked.libraries += 1,
        Event::Key { name, expires_at_ms, .. } => {
            checked.expiring += u64::from(expires_at_ms.is_some());
            checked.last_key = Some(name.to_vec());
        }
        Event::KeyEnd => checked.keys += 1,
        _ => {}
    }
}

/// Checks a file and prints what it has in the words of Valkey's tool; tells whether it is whole.
/// Counts its keys in `statistics`.
///
/// # Errors
///
/// Those of `out`.
pub fn report(
    disk: &dyn Disk,
    path: &Path,
    statistics: Option<&mut Statistics>,
    out: &mut dyn Write,
) -> io::Result<bool> {
    let mut checked = Checked::default();
    let result = read(disk, path, &mut checked, statistics);
    writeln!(out, "[offset 0] Checking RDB file {}", path.display())?;
    let version = Version(checked.version);
    let origin = match () {
        () if version.is_foreign() => Some("Foreign"),
        () if !version.is_known() => Some("Future"),
        () => None,
    };
    if let Some(origin) = origin {
        writeln!(out, "[offset 9] {origin} RDB version {} detected", checked.version)?;
    }
    for (name, value) in &checked.fields {
        writeln!(out, "[info] AUX FIELD {name} = '{value}'")?;
    }
    let is_whole = result.is_ok();
    match result {
        Ok(()) => {
            writeln!(out, "[offset {}] Checksum OK", checked.bytes)?;
            let verdict = match origin {
                Some(_) => "OK, but loading requires config 'rdb-version-check relaxed'",
                None => "OK! \\o/",
            };
            writeln!(out, "[offset {}] \\o/ RDB looks {verdict}", checked.bytes)?;
        }
        Err(fault) => report_fault(&checked, &fault, out)?,
    }
    writeln!(out, "[info] version {}", checked.version)?;
    writeln!(out, "[info] {} keys read", checked.keys)?;
    writeln!(out, "[info] {} expires", checked.expiring)?;
    writeln!(out, "[info] {} functions", checked.libraries)?;
    if checked.bytes_behind > 0 {
        writeln!(out, "[info] {} bytes behind the end", checked.bytes_behind)?;
    }
    Ok(is_whole)
}

fn report_fault(checked: &Checked, fault: &CheckFault, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "--- RDB ERROR DETECTED ---")?;
    match fault {
        CheckFault::Io(error) => writeln!(out, "[offset {}] {error}", checked.bytes)?,
        CheckFault::Decode(error) => {
            let offset = error.offset();
            if let DecodeError::UnknownType { found, version, .. } = error {
                let origin = if version.is_foreign() { "foreign" } else { "future" };
                let number = version.0;
                let text = match version.is_foreign() || !version.is_known() {
                    true => format!(
                        "Unknown object type {found} in RDB file with {origin} version {number}"
                    ),
                    false => format!("Invalid object type: {found}"),
                };
                writeln!(out, "[offset {offset}] {text}")?;
            }
            writeln!(out, "[offset {offset}] {error}")?;
        }
    }
    if let Some(key) = &checked.last_key {
        writeln!(out, "[additional info] Reading key '{}'", key.escape_ascii())?;
    }
    Ok(())
}
