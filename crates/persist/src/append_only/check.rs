//! Check of a log without a server: how far its files are whole, and where to cut them.

use std::fmt;
use std::io;
use std::path::Path;

use super::MAGICS_OF_RDB;
use super::group::{DurableBytes, GroupMark, torn_tail};
use super::scan::{Piece, Scan};
use crate::disk::DiskFile;

/// Result of checking one file of commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileCheck {
    /// Bytes of the file.
    pub bytes: u64,
    /// Bytes up to which it consists of whole commands and transactions.
    pub whole_bytes: u64,
    /// Line on which what follows begins, from 1; annotations do not count, as in Valkey's tool.
    pub whole_lines: u64,
    /// Reason why it is not whole.
    pub fault: Option<FileFault>,
    /// Offset of the first annotation with a time after the one that was asked for, or of the group
    /// that has it: a part of a group is taken for a torn one.
    pub later_than_asked: Option<u64>,
}

/// Reason why a file is not whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileFault {
    /// It ends within a command.
    Truncated,
    /// It ends within a transaction.
    InTransaction,
    /// Something is no command.
    Broken,
    /// A group of commands is not as it was written.
    Torn,
}

impl fmt::Display for FileFault {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            FileFault::Truncated => "it ends within a command",
            FileFault::InTransaction => "it ends within a transaction",
            FileFault::Broken => "what follows is no command",
            FileFault::Torn => "what follows is not as it was written",
        })
    }
}

/// Checks the commands of a file from an offset on, at which its snapshot ends; with a time in Unix
/// seconds, looks for commands that are later. Blocks on the disk.
///
/// # Errors
///
/// The file cannot be read.
pub fn check_file(file: &dyn DiskFile, start: u64, until: Option<i64>) -> io::Result<FileCheck> {
    let bytes = file.length()?;
    let (whole_bytes, whole_lines) = (start, 1);
    let mut check =
        FileCheck { bytes, whole_bytes, whole_lines, fault: None, later_than_asked: None };
    let (mut transaction, mut group) = (None, None);
    let mut lines = 1;
    let mut scan = Scan::new(file, start);
    check.fault = loop {
        match scan.next_piece()? {
            Piece::Command { offset, arguments, .. } => {
                lines += 1 + 2 * arguments.len() as u64;
                if arguments.get(0).eq_ignore_ascii_case(b"multi") {
                    transaction.get_or_insert(offset);
                } else if arguments.get(0).eq_ignore_ascii_case(b"exec") {
                    transaction = None;
                }
            }
            Piece::Timestamp { offset, unix_seconds } => {
                if until.is_some_and(|until| unix_seconds > until) {
                    check.later_than_asked.get_or_insert(group.unwrap_or(offset));
                }
            }
            Piece::Group { offset, mark: GroupMark::Begin } => group = Some(offset),
            Piece::Group { mark: GroupMark::End { .. }, .. } => group = None,
            Piece::Group { .. } => {}
            Piece::End => break transaction.map(|_| FileFault::InTransaction),
            Piece::Truncated { .. } => break Some(FileFault::Truncated),
            Piece::Broken { .. } => break Some(FileFault::Broken),
        }
        if transaction.is_none() {
            check.whole_bytes = scan.offset();
            check.whole_lines = lines;
        }
    };
    let torn = if start == 0 { torn_tail(file, &DurableBytes::of(file)?)? } else { None };
    if let Some(offset) = torn.filter(|&offset| offset < check.whole_bytes) {
        check.whole_bytes = offset;
        check.fault = Some(FileFault::Torn);
    }
    Ok(check)
}

/// True if a file begins with a snapshot, which is not checked here.
///
/// # Errors
///
/// The file cannot be read.
pub fn is_snapshot(file: &dyn DiskFile) -> io::Result<bool> {
    let mut magic = [0; 6];
    let mut length = 0;
    while length < magic.len() {
        match file.read_at(&mut magic[length..], length as u64)? {
            0 => return Ok(false),
            count => length += count,
        }
    }
    Ok(MAGICS_OF_RDB.iter().any(|start| magic.starts_with(start)))
}

/// True if a path is that of a manifest, by its name.
#[must_use]
pub fn is_manifest(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "manifest")
}
