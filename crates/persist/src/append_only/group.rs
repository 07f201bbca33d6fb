//! Groups: what was written to an increment at a time, with a checksum, so that a tail that a loss
//! of power tore is told from damage in the middle.
//!
//! A group is `#GROUP`, `#SYNCED:<bytes>` if more has become durable since the last one, its
//! commands, and `#GROUP:<offset>:<CRC-32C>` over everything from its offset on. Valkey skips such
//! lines. Bytes below what `#SYNCED` says were durable: damage there is damage. Behind it, sectors
//! may be missing or zero after a loss of power, within values too; no reply has left that depends
//! on them under `appendfsync always`, so the first group that is not as it was written ends the
//! file. The first line tells a group whose end is missing from commands that Valkey appended,
//! which have no checksum and are taken as they are.

use std::io;

use crc::{CRC_32_ISCSI, Crc, Digest, Table};

use super::scan::{Piece, Scan};
use crate::disk::DiskFile;
use crate::limits::SCAN_BYTES;

static CRC: Crc<u32, Table<16>> = Crc::<u32, Table<16>>::new(&CRC_32_ISCSI);

const SYNCED: &str = "#SYNCED:";
const GROUP: &str = "#GROUP:";

/// First line of a group.
pub(super) const GROUP_BEGIN: &str = "#GROUP\r\n";

/// Checksum of a group that is being written or read.
pub(super) struct GroupSum(Digest<'static, u32, Table<16>>);

impl GroupSum {
    pub(super) fn new() -> GroupSum {
        GroupSum(CRC.digest())
    }

    pub(super) fn add(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// Last line of the group that began at an offset.
    pub(super) fn line(self, offset: u64) -> String {
        format!("{GROUP}{offset}:{:08x}\r\n", self.0.finalize())
    }
}

/// Line that says how much is durable.
pub(super) fn synced_line(bytes: u64) -> String {
    format!("{SYNCED}{bytes}\r\n")
}

/// Annotation of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupMark {
    /// Number of bytes of the file that were durable.
    Synced(u64),
    /// Begin of a group.
    Begin,
    /// End of a group.
    End {
        /// Offset of its first byte.
        start: u64,
        /// Checksum of everything from there to this line.
        checksum: u32,
    },
}

/// The mark that an annotation is, if it is one.
pub(super) fn group_mark(annotation: &[u8]) -> Option<GroupMark> {
    if annotation == GROUP_BEGIN.as_bytes() {
        return Some(GroupMark::Begin);
    }
    let text = std::str::from_utf8(annotation).ok()?.strip_suffix("\r\n")?;
    if let Some(bytes) = text.strip_prefix(SYNCED) {
        return bytes.parse().ok().map(GroupMark::Synced);
    }
    let (start, checksum) = text.strip_prefix(GROUP)?.split_once(':')?;
    let checksum = u32::from_str_radix(checksum, 16).ok()?;
    Some(GroupMark::End { start: start.parse().ok()?, checksum })
}

/// Offset at which a tail begins that is not as it was written; none if the file has no marks, or
/// all of it is whole.
///
/// # Errors
///
/// The file cannot be read.
pub(super) fn torn_tail(file: &dyn DiskFile) -> io::Result<Option<u64>> {
    let Some(durable) = last_synced(file)? else { return Ok(None) };
    let mut scan = Scan::new(file, durable);
    // End of the last group with a checksum; the same, or of the last command outside of a group.
    let (mut checked, mut whole) = (durable, durable);
    let mut group = None;
    loop {
        match scan.next_piece()? {
            Piece::Group { offset, mark: GroupMark::Begin } => {
                if group.replace(offset).is_some() {
                    return Ok(Some(whole));
                }
            }
            Piece::Group { offset, mark: GroupMark::End { start, checksum } } => {
                let is_begun = group.take().is_none_or(|begun| begun == start);
                let is_behind = checked <= start && start <= offset;
                if !is_begun || !is_behind || sum_of(file, start..offset)? != checksum {
                    return Ok(Some(whole.min(start.max(checked))));
                }
                checked = scan.offset();
                whole = checked;
            }
            Piece::Command { .. } | Piece::Timestamp { .. } | Piece::Group { .. } => {
                if group.is_none() {
                    whole = scan.offset();
                }
            }
            Piece::End => return Ok(group.is_some().then_some(whole)),
            Piece::Truncated { .. } | Piece::Broken { .. } => return Ok(Some(whole)),
        }
    }
}

fn sum_of(file: &dyn DiskFile, range: std::ops::Range<u64>) -> io::Result<u32> {
    let mut sum = GroupSum::new();
    let mut buffer = vec![0; SCAN_BYTES];
    let mut position = range.start;
    while position < range.end {
        let wanted = buffer.len().min((range.end - position) as usize);
        match file.read_at(&mut buffer[..wanted], position)? {
            0 => break,
            count => {
                sum.add(&buffer[..count]);
                position += count as u64;
            }
        }
    }
    Ok(sum.0.finalize())
}

/// Bytes of a file that were durable for certain, by the last line that says so; none if no line
/// does. A line within a value may say so too: then more is taken for durable than is, and damage
/// there stops the start instead of being cut off.
pub(super) fn last_synced(file: &dyn DiskFile) -> io::Result<Option<u64>> {
    let length = file.length()?;
    // Room for a line that begins in one piece and ends in the next.
    const OVERLAP_BYTES: u64 = 64;
    let mut end = length;
    loop {
        let start = end.saturating_sub(SCAN_BYTES as u64);
        let stop = length.min(end + OVERLAP_BYTES);
        let mut piece = vec![0; (stop - start) as usize];
        let mut filled = 0;
        while filled < piece.len() {
            match file.read_at(&mut piece[filled..], start + filled as u64)? {
                0 => break,
                count => filled += count,
            }
        }
        let lines = piece[..filled].split_inclusive(|&byte| byte == b'\n').rev();
        let durable = lines.filter_map(|line| match group_mark(line) {
            Some(GroupMark::Synced(bytes)) if bytes <= length => Some(bytes),
            _ => None,
        });
        if let Some(bytes) = durable.max() {
            return Ok(Some(bytes));
        }
        if start == 0 {
            return Ok(None);
        }
        end = start;
    }
}
