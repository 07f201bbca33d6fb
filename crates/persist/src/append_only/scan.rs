//! Scan of a file of commands: where each one begins, and where the file stops being one.

use std::io;

use tidemill_resp::request::{ArgumentView, Arguments, Limits, Progress, RequestParser};

use super::group::{GroupMark, group_mark};
use crate::disk::DiskFile;
use crate::limits::SCAN_BYTES;

/// Commands of a file, from front to back.
#[derive(Debug)]
pub struct Scan<'f> {
    file: &'f dyn DiskFile,
    /// Bytes of the file from `buffer_offset` on.
    buffer: Vec<u8>,
    /// Position in the buffer of what comes next.
    position: usize,
    buffer_offset: u64,
    is_at_end: bool,
    parser: RequestParser,
    arguments: Arguments,
}

/// Next piece of a file of commands.
#[derive(Debug)]
pub enum Piece<'s> {
    /// A command.
    Command {
        /// Offset of its first byte.
        offset: u64,
        /// The command and its arguments.
        arguments: ArgumentView<'s>,
        /// Its bytes.
        bytes: &'s [u8],
    },
    /// An annotation with the time at which the commands behind it were written, Unix time in
    /// seconds.
    Timestamp {
        /// Offset of its first byte.
        offset: u64,
        /// The time.
        unix_seconds: i64,
    },
    /// An annotation of a group of commands that were written together.
    Group {
        /// Offset of its first byte.
        offset: u64,
        /// The annotation.
        mark: GroupMark,
    },
    /// The end of the file, between two commands.
    End,
    /// The end of the file within a command.
    Truncated {
        /// Offset of the command.
        offset: u64,
    },
    /// No command.
    Broken {
        /// Offset of what should be a command.
        offset: u64,
    },
}

impl<'f> Scan<'f> {
    /// A scan from an offset on, at which a command begins.
    #[must_use]
    pub fn new(file: &'f dyn DiskFile, offset: u64) -> Scan<'f> {
        Scan {
            file,
            buffer: Vec::new(),
            position: 0,
            buffer_offset: offset,
            is_at_end: false,
            parser: RequestParser::new(),
            arguments: Arguments::new(),
        }
    }

    /// Offset of what comes next.
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.buffer_offset + self.position as u64
    }

    /// Takes the next piece. Blocks on the disk.
    ///
    /// # Errors
    ///
    /// The file cannot be read.
    pub fn next_piece(&mut self) -> io::Result<Piece<'_>> {
        loop {
            let offset = self.offset();
            let rest = &self.buffer[self.position..];
            let found = match rest {
                [b'#', ..] => rest.iter().position(|&byte| byte == b'\n').map(|end| end + 1),
                [b'*', b'1'..=b'9', ..] => {
                    let limits = Limits { bulk_bytes_max: usize::MAX, authenticated: true };
                    match self.parser.parse(rest, &limits, &mut self.arguments) {
                        Ok(Progress::Complete { consumed }) => Some(consumed),
                        Ok(Progress::Incomplete { .. }) => None,
                        Err(_) => return Ok(Piece::Broken { offset }),
                    }
                }
                [] if self.is_at_end => return Ok(Piece::End),
                [] | [b'*'] => None,
                _ => return Ok(Piece::Broken { offset }),
            };
            let Some(length) = found else {
                if self.is_at_end {
                    return Ok(Piece::Truncated { offset });
                }
                self.fill()?;
                continue;
            };
            let from = self.position;
            self.position += length;
            if self.buffer[from] == b'*' {
                let bytes = &self.buffer[from..from + length];
                return Ok(Piece::Command { offset, arguments: self.arguments.view(bytes), bytes });
            }
            let annotation = &self.buffer[from..from + length];
            if annotation.contains(&0) {
                // The rest of its line was lost; commands may be hidden in it.
                return Ok(Piece::Broken { offset });
            }
            if let Some(unix_seconds) = timestamp(annotation) {
                return Ok(Piece::Timestamp { offset, unix_seconds });
            }
            if let Some(mark) = group_mark(annotation) {
                return Ok(Piece::Group { offset, mark });
            }
        }
    }

    /// Reads more behind what has not been taken yet.
    fn fill(&mut self) -> io::Result<()> {
        self.buffer.drain(..self.position);
        self.buffer_offset += self.position as u64;
        self.position = 0;
        let length = self.buffer.len();
        // As much again as a command has already, so that a large one is not looked at too often.
        let wanted = SCAN_BYTES.max(length);
        self.buffer.try_reserve_exact(wanted)?;
        self.buffer.resize(length + wanted, 0);
        let read =
            self.file.read_at(&mut self.buffer[length..], self.buffer_offset + length as u64);
        self.buffer.truncate(length + *read.as_ref().unwrap_or(&0));
        match read {
            Ok(0) => self.is_at_end = true,
            Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
            _ => {}
        }
        Ok(())
    }
}

fn timestamp(annotation: &[u8]) -> Option<i64> {
    let digits = annotation.strip_prefix(b"#TS:")?.trim_ascii_end();
    std::str::from_utf8(digits).ok()?.parse().ok()
}
