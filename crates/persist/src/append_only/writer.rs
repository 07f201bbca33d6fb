//! Writer: the increment that is appended to.

use std::fmt::Write as _;
use std::io;
use std::sync::Arc;

use tidemill_journal::{Cursor, Journal, RecordNumber};

use super::group::{GroupSum, synced_line};
use super::load::Loaded;
use super::names::LogNames;
use crate::disk::{Disk, DiskFile};
use crate::limits::GATHERED_BYTES_MAX;

/// The increment that is appended to. One thread at a time has it.
#[derive(Debug)]
pub(super) struct Writer {
    pub(super) file: Arc<dyn DiskFile>,
    /// Length of the file, which is always that of whole records: what is behind it comes from a
    /// write that failed, and is overwritten.
    pub(super) length: u64,
    /// Bytes of the other files.
    pub(super) other_bytes: u64,
    /// Bytes of all files when the log was rewritten or loaded last.
    pub(super) base_bytes: u64,
    /// True if something may be behind `length`.
    is_torn: bool,
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

impl Writer {
    /// Opens the last increment of a log that was loaded, or begins the first one. The journal's
    /// stream is written from its present end on.
    pub(super) fn open(
        disk: &dyn Disk,
        names: &LogNames,
        loaded: Loaded,
        journal: &Journal,
    ) -> io::Result<Writer> {
        let Loaded { mut manifest, tail_bytes, other_bytes, .. } = loaded;
        let is_new = manifest.increments.is_empty();
        disk.create_directory(&names.directory())?;
        if is_new {
            // The name of the log's directory.
            disk.sync_directory(&names.root)?;
            let name = manifest.push_increment(&names.file_name);
            // One of this name is in no manifest: it is left from a start that did not get here.
            disk.create(&names.directory().join(&name))?;
            names.write_manifest(disk, &manifest)?;
            log::info!("Creating AOF incr file {name} on server start");
        }
        for entry in std::mem::take(&mut manifest.history) {
            // One that is absent was removed before the manifest could say so.
            let _ = disk.unlink(&names.directory().join(&entry.name));
        }
        let last = manifest.increments.last().expect("one was pushed");
        let file = disk.open_or_create(&names.directory().join(&last.name))?;
        // A mark of its own, durable before there is anything that could be torn.
        let mark = synced_line(tail_bytes);
        file.write_all_at(mark.as_bytes(), tail_bytes)?;
        file.sync()?;
        let base_bytes = tail_bytes + other_bytes;
        Ok(Writer {
            file: Arc::from(file),
            length: tail_bytes + mark.len() as u64,
            other_bytes,
            base_bytes,
            is_torn: false,
            synced: tail_bytes,
            synced_in_file: tail_bytes,
            scratch: Vec::new(),
            cursor: journal.merge().attach(),
            timestamp: 0,
        })
    }

    /// Appends whatever the journal has; returns the number of the last record. With a time, in
    /// Unix seconds, the records of each second are annotated with it.
    ///
    /// # Errors
    ///
    /// The file could not be written; the records are kept for another attempt, which overwrites a
    /// part that was written.
    pub(super) fn append(
        &mut self,
        journal: &Journal,
        unix_seconds: Option<i64>,
    ) -> io::Result<RecordNumber> {
        let merged = journal.drain(&mut journal.merge());
        if self.cursor.offset() == merged.offset {
            return Ok(merged.number);
        }
        if self.is_torn {
            self.file.set_length(self.length)?;
        }
        // A start after a failure must find whole records, so a part of them is cut off.
        self.is_torn = true;
        let written = self.write(merged.offset, unix_seconds);
        let cut = written.is_err().then(|| self.file.set_length(self.length));
        self.is_torn = cut.is_some_and(|cut| cut.is_err());
        let (cursor, length) = written?;
        self.cursor = cursor;
        self.length = length;
        self.timestamp = unix_seconds.unwrap_or(self.timestamp);
        Ok(merged.number)
    }

    /// Writes the journal's stream up to an offset as one group; returns the cursor and the length
    /// of the file behind it.
    fn write(&mut self, end: u64, unix_seconds: Option<i64>) -> io::Result<(Cursor, u64)> {
        let mut head = String::new();
        if self.synced_in_file != self.synced {
            head.push_str(&synced_line(self.synced));
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

    /// The file was synced when it had this length.
    pub(super) fn note_synced(&mut self, file: &Arc<dyn DiskFile>, length: u64) {
        if Arc::ptr_eq(file, &self.file) {
            self.synced = length;
        }
    }

    /// Bytes of all files.
    pub(super) fn log_bytes(&self) -> u64 {
        self.length + self.other_bytes
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
