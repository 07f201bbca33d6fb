//! A file that is written from its beginning to its end.

use std::io;

use tidemill_rdb::encode::Output;

use super::SnapshotError;
use crate::disk::DiskFile;
use crate::limits::{SAVE_BUFFER_BYTES, SYNC_STEP_BYTES};

/// Output into memory, for a few bytes.
#[derive(Debug, Default)]
pub(super) struct Memory(pub(super) Vec<u8>);

impl Output for Memory {
    type Error = SnapshotError;

    fn write(&mut self, bytes: &[u8]) -> Result<(), SnapshotError> {
        self.0.try_reserve(bytes.len())?;
        self.0.extend_from_slice(bytes);
        Ok(())
    }
}

/// Buffer in front of a file.
#[derive(Debug)]
pub struct FileOutput {
    file: Box<dyn DiskFile>,
    buffer: Vec<u8>,
    /// Bytes that are in the file.
    written: u64,
    /// Bytes of it that are durable.
    synced: u64,
    /// True if it is synced while it is written, so that the sync at its end is short and the
    /// system never has much of it to write at once.
    syncs_in_steps: bool,
}

impl FileOutput {
    /// Output into an empty file.
    #[must_use]
    pub fn new(file: Box<dyn DiskFile>, syncs_in_steps: bool) -> FileOutput {
        let buffer = Vec::with_capacity(SAVE_BUFFER_BYTES);
        FileOutput { file, buffer, written: 0, synced: 0, syncs_in_steps }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.write_all_at(&self.buffer, self.written)?;
        self.written += self.buffer.len() as u64;
        self.buffer.clear();
        if self.syncs_in_steps && self.written - self.synced >= SYNC_STEP_BYTES {
            self.file.sync()?;
            self.synced = self.written;
        }
        Ok(())
    }

    /// Writes what is left and makes all of it durable; returns its length.
    ///
    /// # Errors
    ///
    /// Those of the file.
    pub fn finish(mut self) -> io::Result<u64> {
        self.flush()?;
        self.file.sync()?;
        Ok(self.written)
    }
}

impl Output for FileOutput {
    type Error = SnapshotError;

    fn write(&mut self, bytes: &[u8]) -> Result<(), SnapshotError> {
        if self.buffer.len() + bytes.len() > SAVE_BUFFER_BYTES {
            self.flush()?;
        }
        if bytes.len() >= SAVE_BUFFER_BYTES {
            self.file.write_all_at(bytes, self.written)?;
            self.written += bytes.len() as u64;
            return Ok(());
        }
        self.buffer.extend_from_slice(bytes);
        Ok(())
    }
}
