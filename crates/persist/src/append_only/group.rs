//! Groups: what was written to an increment at a time, with a checksum, so that a tail that a loss
//! of power tore is told from damage in the middle.
//!
//! A group is `#GROUP`, `#SYNCED:<bytes>:<word>` if more has become durable since the last one, its
//! commands, and `#GROUP:<offset>:<CRC-32C>` over everything from its offset on. Valkey skips such
//! lines. Bytes below what `#SYNCED` says were durable: damage there is damage. Behind it, sectors
//! may be missing or zero after a loss of power, within values too; no reply has left that depends
//! on them under `appendfsync always`, so the first group that is not as it was written ends the
//! file. The first line tells a group whose end is missing from commands that Valkey appended,
//! which have no checksum and are taken as they are.
//!
//! # Marks and values
//!
//! The last `#SYNCED` decides what may be cut off, so no value may pass for one. A scan from the
//! front tells commands from marks by the lengths of strings, but ends at the first damage, and the
//! marks that prove it to be damage are behind it. They are looked for in the file's bytes, values
//! included, and are known by the file's word: 128 random bits in its first line, which was durable
//! before the first command came. No client reads or guesses it. A mark has it combined with the
//! offset of its own line, so that a copy of the file in a value of the file has no mark either.
//! From a mark on, groups are found by scanning: what is not lost is as it was written, a lost
//! sector is zeros, which are no part of a length or a line, so no scan leads into a value.
//!
//! Files of older versions have no word (`#SYNCED:<bytes>`), nor do Valkey's. Of these, marks
//! between commands count, found by a scan from the front. Behind the place where it ends, a line
//! may be a mark or part of a value: what it calls durable is refused if it is damaged, and never
//! cut off. The next start appends to no such file, but to a new one.
//!
//! Rejected: the checksum of the group around a mark as its proof, which a client can compute for a
//! value, whose offset it can guess.

use std::io;

use crc::{CRC_32_ISCSI, Crc, Digest, Table};

use super::scan::{Piece, Scan};
use crate::disk::DiskFile;
use crate::limits::SCAN_BYTES;

static CRC: Crc<u32, Table<16>> = Crc::<u32, Table<16>>::new(&CRC_32_ISCSI);

const SYNCED: &str = "#SYNCED:";
const GROUP: &str = "#GROUP:";

/// Bytes of a line about durable bytes, at most.
const MARK_BYTES_MAX: u64 = 64;

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

/// Word of a file: random, so that no client can write a line with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FileWord(u128);

impl FileWord {
    /// A word for a new file.
    ///
    /// # Errors
    ///
    /// The system has no random numbers.
    pub(super) fn random() -> io::Result<FileWord> {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes).map_err(|error| io::Error::other(error.to_string()))?;
        Ok(FileWord(u128::from_le_bytes(bytes)))
    }

    /// The word that the first line of a file has; none in files of older versions and of Valkey.
    ///
    /// # Errors
    ///
    /// The file cannot be read.
    pub(super) fn of(file: &dyn DiskFile) -> io::Result<Option<FileWord>> {
        let begin = read_up_to(file, 0, MARK_BYTES_MAX as usize)?;
        let line = begin.split_inclusive(|&byte| byte == b'\n').next().unwrap_or_default();
        match group_mark(line) {
            Some(GroupMark::Synced { bytes: 0, tag: Some(tag) }) => Ok(Some(FileWord(tag))),
            _ => Ok(None),
        }
    }

    /// The word as the line at an offset has it: a copy of the file within a value has its lines at
    /// other offsets.
    fn tag(self, offset: u64) -> u128 {
        self.0 ^ u128::from(offset)
    }

    /// Line at an offset that says how much is durable.
    pub(super) fn synced_line(self, bytes: u64, offset: u64) -> String {
        format!("{SYNCED}{bytes}:{:032x}\r\n", self.tag(offset))
    }
}

/// Annotation of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupMark {
    /// Durable bytes.
    Synced {
        /// Number of bytes of the file that were durable.
        bytes: u64,
        /// The file's word, as this line has it; none in files of older versions.
        tag: Option<u128>,
    },
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
    if let Some(text) = text.strip_prefix(SYNCED) {
        let (bytes, tag) = text.split_once(':').map_or((text, None), |(a, b)| (a, Some(b)));
        let tag = tag.map(|tag| u128::from_str_radix(tag, 16)).transpose().ok()?;
        return Some(GroupMark::Synced { bytes: bytes.parse().ok()?, tag });
    }
    let (start, checksum) = text.strip_prefix(GROUP)?.split_once(':')?;
    let checksum = u32::from_str_radix(checksum, 16).ok()?;
    Some(GroupMark::End { start: start.parse().ok()?, checksum })
}

/// Offset at which a tail begins that is not as it was written; none if the file has no marks, all
/// of it is whole, or what is wrong may have been durable.
///
/// # Errors
///
/// The file cannot be read.
pub(super) fn torn_tail(file: &dyn DiskFile, durable: &DurableBytes) -> io::Result<Option<u64>> {
    let Some(certain) = durable.certain else { return Ok(None) };
    let cut = torn_behind(file, certain)?;
    Ok(cut.filter(|&offset| durable.allows_cut(offset)))
}

/// As [`torn_tail`], behind durable bytes.
fn torn_behind(file: &dyn DiskFile, durable: u64) -> io::Result<Option<u64>> {
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

/// Durable bytes of a file, as it says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DurableBytes {
    /// Bytes that were durable for certain, which end between two groups; none if nothing says so.
    certain: Option<u64>,
    /// Bytes of which a line says so whose place is not known to be outside of a value; no less
    /// than `certain`. Nothing below is cut off.
    claimed: u64,
}

impl DurableBytes {
    /// A file that says nothing.
    pub(super) const UNKNOWN: DurableBytes = DurableBytes { certain: None, claimed: 0 };

    /// Those of a file without a snapshot. Blocks on the disk: reads back from the end to the last
    /// mark, or, in a file without a word, scans all of it.
    ///
    /// # Errors
    ///
    /// The file cannot be read.
    pub(super) fn of(file: &dyn DiskFile) -> io::Result<DurableBytes> {
        let Some(word) = FileWord::of(file)? else { return DurableBytes::by_scan(file) };
        let mut certain = None;
        walk_marks_back(file, 0, |mark| {
            let is_own = mark.tag == Some(word.tag(mark.offset));
            if is_own {
                certain = certain.max(Some(mark.bytes));
            }
            is_own
        })?;
        Ok(DurableBytes { certain, claimed: certain.unwrap_or(0) })
    }

    /// Those of a file without a word: marks between commands. Behind the place where it stops
    /// being commands a line may be a mark or be in a value.
    fn by_scan(file: &dyn DiskFile) -> io::Result<DurableBytes> {
        let mut scan = Scan::new(file, 0);
        let mut certain = None;
        let end = loop {
            match scan.next_piece()? {
                Piece::Group { offset, mark: GroupMark::Synced { bytes, .. } } => {
                    certain = certain.max(Some(bytes).filter(|&bytes| bytes <= offset));
                }
                Piece::Command { .. } | Piece::Timestamp { .. } | Piece::Group { .. } => {}
                Piece::End => break scan.offset(),
                Piece::Truncated { offset } | Piece::Broken { offset } => break offset,
            }
        };
        let mut claimed = certain.unwrap_or(0);
        walk_marks_back(file, end, |mark| {
            claimed = claimed.max(mark.bytes);
            false
        })?;
        Ok(DurableBytes { certain, claimed })
    }

    /// True if bytes from an offset on may be cut off.
    pub(super) fn allows_cut(&self, offset: u64) -> bool {
        offset >= self.claimed
    }
}

/// Mark of durable bytes, and the offset of its line.
#[derive(Clone, Copy, Debug)]
struct PlacedMark {
    offset: u64,
    bytes: u64,
    tag: Option<u128>,
}

/// Calls with every line that looks like a mark, piece by piece from the end of a file back to an
/// offset at which a line begins, until a piece has one for which that returns true. A mark names
/// no more bytes than come before it. Each byte is read once, and some at the ends of pieces twice.
fn walk_marks_back(
    file: &dyn DiskFile,
    from: u64,
    mut is_sought: impl FnMut(PlacedMark) -> bool,
) -> io::Result<()> {
    let length = file.length()?;
    let mut end = length;
    while end > from {
        let start = end.saturating_sub(SCAN_BYTES as u64).max(from);
        // Room for a line that begins in this piece and ends in the next.
        let stop = length.min(end + MARK_BYTES_MAX);
        let piece = read_up_to(file, start, (stop - start) as usize)?;
        let mut offset = start;
        let mut is_found = false;
        for line in piece.split_inclusive(|&byte| byte == b'\n') {
            // The first line begins before this piece, or is looked at with the piece before.
            let is_whole = offset > start || start == from;
            if is_whole && let Some(GroupMark::Synced { bytes, tag }) = group_mark(line) {
                is_found |= bytes <= offset && is_sought(PlacedMark { offset, bytes, tag });
            }
            offset += line.len() as u64;
        }
        if is_found {
            break;
        }
        end = start;
    }
    Ok(())
}

/// Bytes of a file from an offset on, fewer at its end.
fn read_up_to(file: &dyn DiskFile, offset: u64, count: usize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; count];
    let mut filled = 0;
    while filled < count {
        match file.read_at(&mut bytes[filled..], offset + filled as u64)? {
            0 => break,
            count => filled += count,
        }
    }
    bytes.truncate(filled);
    Ok(bytes)
}
