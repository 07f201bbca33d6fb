//! Writer: the increment that is appended to.

use std::fmt::Write as _;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex};

use tidemill_journal::{Cursor, Journal, Merged, RecordNumber};

use super::file::lock;
use super::group::{FileWord, GROUP_BEGIN, GroupSum};
use crate::disk::{Disk, DiskFile};
use crate::limits::GATHERED_BYTES_MAX;

/// The increment that is appended to. One thread at a time has it.
#[derive(Debug)]
pub(super) struct Writer {
    pub(super) file: Arc<dyn DiskFile>,
    word: FileWord,
    /// Length of the file, which is always that of whole records: what is behind it comes from a
    /// write that failed, and is overwritten.
    pub(super) length: u64,
    /// Bytes of the other files.
    other_bytes: u64,
    /// True if something may be behind `length`.
    is_torn: bool,
    /// True if a sync of the file failed: a later one that succeeds proves nothing.
    is_untrusted: bool,
    /// Length up to which the file is durable for certain.
    synced: u64,
    /// As the last annotation says.
    synced_in_file: u64,
    /// Bytes of a small group.
    scratch: Vec<u8>,
    cursor: Cursor,
    /// Second of the last annotation.
    timestamp: i64,
}

/// Increment to append to.
#[derive(Debug)]
pub(super) struct Increment {
    file: Arc<dyn DiskFile>,
    word: FileWord,
    /// Its length, all of which is durable.
    length: u64,
}

impl Increment {
    /// Makes a file for a writer: it says that it holds nothing yet, durably, before there is
    /// anything that could be torn. Its name is not durable yet.
    pub(super) fn create(disk: &dyn Disk, path: &Path) -> io::Result<Increment> {
        Increment::marked(disk.create(path)?, FileWord::random()?, 0)
    }

    /// Goes on with the last increment of a log that was loaded, up to the end of its last whole
    /// command, and makes it durable. None if it has no word: nothing is to be appended then.
    pub(super) fn go_on(disk: &dyn Disk, path: &Path, bytes: u64) -> io::Result<Option<Increment>> {
        let file = disk.open_or_create(path)?;
        // Of two writes the later one may be on the disk alone: what the mark calls durable is so
        // before.
        file.sync()?;
        let word = FileWord::of(&*file)?;
        word.map(|word| Increment::marked(file, word, bytes)).transpose()
    }

    /// Appends a mark, durable before there is anything that could be torn.
    fn marked(file: Box<dyn DiskFile>, word: FileWord, bytes: u64) -> io::Result<Increment> {
        let mark = word.synced_line(bytes, bytes);
        file.write_all_at(mark.as_bytes(), bytes)?;
        file.sync()?;
        Ok(Increment { file: Arc::from(file), word, length: bytes + mark.len() as u64 })
    }
}

impl Writer {
    /// A writer of an increment, beside other files of `other_bytes`, which reads at a cursor.
    pub(super) fn new(increment: Increment, other_bytes: u64, cursor: Cursor) -> Writer {
        let Increment { file, word, length } = increment;
        Writer {
            file,
            word,
            length,
            other_bytes,
            is_torn: false,
            is_untrusted: false,
            synced: length,
            synced_in_file: length,
            scratch: Vec::new(),
            cursor,
            timestamp: 0,
        }
    }

    /// Goes on in another increment, which is empty but for its mark. Records that were not written
    /// yet go there.
    pub(super) fn switch(&mut self, increment: Increment) {
        let Increment { file, word, length } = increment;
        self.other_bytes += self.length;
        self.file = file;
        self.word = word;
        self.length = length;
        (self.synced, self.synced_in_file) = (length, length);
        self.is_torn = false;
        self.is_untrusted = false;
    }

    /// Appends whatever the journal has, up to the end of a cut if there is one; returns the number
    /// of the last record. With a time, in Unix seconds, the records of each second are annotated
    /// with it.
    ///
    /// # Errors
    ///
    /// The file could not be written; the records are kept for another attempt, which overwrites a
    /// part that was written.
    pub(super) fn append(
        &mut self,
        journal: &Journal,
        cut: &Mutex<Option<Merged>>,
        unix_seconds: Option<i64>,
    ) -> io::Result<RecordNumber> {
        let end = {
            let mut merge = journal.merge();
            let merged = journal.drain(&mut merge);
            // The merge is kept meanwhile: what comes behind a cut that is made now is not in
            // `merged`.
            lock(cut).unwrap_or(merged)
        };
        if self.cursor.offset() == end.offset {
            return Ok(end.number);
        }
        if self.is_torn {
            self.file.set_length(self.length)?;
        }
        // A start after a failure must find whole records, so a part of them is cut off.
        self.is_torn = true;
        let written = self.write(end.offset, unix_seconds);
        let cut = written.is_err().then(|| self.file.set_length(self.length));
        self.is_torn = cut.is_some_and(|cut| cut.is_err());
        let (cursor, length) = written?;
        self.cursor = cursor;
        self.length = length;
        self.timestamp = unix_seconds.unwrap_or(self.timestamp);
        Ok(end.number)
    }

    /// Writes the journal's stream up to an offset as one group; returns the cursor and the length
    /// of the file behind it.
    fn write(&mut self, end: u64, unix_seconds: Option<i64>) -> io::Result<(Cursor, u64)> {
        let mut head = String::from(GROUP_BEGIN);
        if self.synced_in_file != self.synced {
            let offset = self.length + head.len() as u64;
            head.push_str(&self.word.synced_line(self.synced, offset));
        }
        if let Some(now) = unix_seconds.filter(|&now| now > self.timestamp) {
            // Writing into a string does not fail.
            let _ = write!(head, "#TS:{now}\r\n");
        }
        let mut group = GroupWrite {
            file: &*self.file,
            position: self.length,
            sum: GroupSum::new(),
            gathered: &mut self.scratch,
        };
        group.gathered.clear();
        group.add(head.as_bytes())?;
        let mut cursor = self.cursor.clone();
        while let Some(bytes) = cursor.read_until(end) {
            group.add(&bytes)?;
        }
        let length = group.end(self.length)?;
        self.synced_in_file = self.synced;
        Ok((cursor, length))
    }

    /// A sync of a file that had this length has ended.
    pub(super) fn note_synced(&mut self, file: &Arc<dyn DiskFile>, length: u64, succeeded: bool) {
        if !Arc::ptr_eq(file, &self.file) {
            return;
        }
        if succeeded && !self.is_untrusted {
            self.synced = length;
        }
        self.is_untrusted |= !succeeded;
    }

    /// True if a sync of the file failed.
    pub(super) fn is_untrusted(&self) -> bool {
        self.is_untrusted
    }

    /// Says in the file that all of it is durable, if it is: damage of it is not taken for a torn
    /// tail then. Blocks on the device.
    pub(super) fn seal(&mut self) -> io::Result<()> {
        if self.synced != self.length || self.synced_in_file == self.synced {
            return Ok(());
        }
        let mark = self.word.synced_line(self.length, self.length);
        self.file.write_all_at(mark.as_bytes(), self.length)?;
        self.file.sync()?;
        self.synced_in_file = self.length;
        self.length += mark.len() as u64;
        self.synced = self.length;
        Ok(())
    }

    /// Bytes of all files.
    pub(super) fn log_bytes(&self) -> u64 {
        self.length + self.other_bytes
    }

    /// Bytes of the other files are others now.
    pub(super) fn set_other_bytes(&mut self, bytes: u64) {
        self.other_bytes = bytes;
    }
}

/// One group on its way into a file: small pieces are gathered, so that a small group is one write.
struct GroupWrite<'w> {
    file: &'w dyn DiskFile,
    /// Position in the file of what was gathered.
    position: u64,
    sum: GroupSum,
    gathered: &'w mut Vec<u8>,
}

impl GroupWrite<'_> {
    fn add(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.sum.add(bytes);
        if self.gathered.len() + bytes.len() > GATHERED_BYTES_MAX {
            self.flush()?;
        }
        if bytes.len() > GATHERED_BYTES_MAX {
            self.file.write_all_at(bytes, self.position)?;
            self.position += bytes.len() as u64;
        } else {
            self.gathered.extend_from_slice(bytes);
        }
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.write_all_at(self.gathered, self.position)?;
        self.position += self.gathered.len() as u64;
        self.gathered.clear();
        Ok(())
    }

    /// Ends the group that began at an offset; returns the length of the file.
    fn end(mut self, start: u64) -> io::Result<u64> {
        let line = std::mem::replace(&mut self.sum, GroupSum::new()).line(start);
        self.gathered.extend_from_slice(line.as_bytes());
        self.flush()?;
        Ok(self.position)
    }
}
