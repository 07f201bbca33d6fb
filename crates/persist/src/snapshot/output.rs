//! A file that is written from its beginning to its end.
//!
//! Bytes are gathered into blocks, and a thread writes one block while the next one is filled: what
//! makes them, and the disk, take their time side by side. A small file needs no thread, and where
//! there is none to be had, a block is written before the next one is filled.
//!
//! Rejected: `sync_file_range`, so that the system writes beside us. The bytes are copied into the
//! page cache then, which costs four times the CPU of writing past it ([`Disk::create_direct`]),
//! and is no faster.
//!
//! [`Disk::create_direct`]: crate::disk::Disk::create_direct

use std::fmt;
use std::io;
use std::mem;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, channel, sync_channel};

use super::SnapshotError;
use crate::disk::{Block, DiskFile};
use crate::limits::{BLOCKS_QUEUED, SYNC_STEP_BYTES};

use tidemill_engine::shared::Host;
use tidemill_rdb::encode::Output;

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

/// The file, with its end.
#[derive(Debug)]
struct Target {
    file: Box<dyn DiskFile>,
    /// Bytes that are in the file.
    written: u64,
    /// Bytes of it that are durable.
    synced: u64,
    /// True if it is synced while it is written, so that the sync at its end is short and the
    /// system never has much of it to write at once.
    syncs_in_steps: bool,
}

impl Target {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all_at(bytes, self.written)?;
        self.written += bytes.len() as u64;
        let is_step = self.written - self.synced >= SYNC_STEP_BYTES;
        if self.syncs_in_steps && is_step && self.file.is_cached() {
            self.file.sync()?;
            self.synced = self.written;
        }
        Ok(())
    }
}

/// Thread that writes blocks.
#[derive(Debug)]
struct WriterThread {
    /// Way of full blocks to the thread; none once there are no more.
    full: Option<SyncSender<Block>>,
    /// Way of empty ones back.
    empty: Receiver<Block>,
    /// True if nobody wants the file any more.
    is_given_up: Arc<AtomicBool>,
    /// Way of the target back, at the end of the thread; none once it has been taken.
    ended: Option<Receiver<io::Result<Target>>>,
}

impl WriterThread {
    /// Starts the thread, with the CPUs and the priority of the calling one; returns the target if
    /// there is none to be had.
    fn start(target: Target, host: &dyn Host) -> Result<WriterThread, Target> {
        let (give_target, given) = sync_channel::<Target>(1);
        let (end, ended) = channel();
        let (full, to_write) = sync_channel::<Block>(BLOCKS_QUEUED);
        let (written, empty) = sync_channel::<Block>(BLOCKS_QUEUED + 2);
        let is_given_up = Arc::new(AtomicBool::new(false));
        let is_over = Arc::clone(&is_given_up);
        let write_all = move |mut target: Target| {
            for mut block in to_write {
                // Relaxed: a hint, looked at again and again.
                if is_over.load(Ordering::Relaxed) {
                    break;
                }
                target.write(block.bytes())?;
                block.clear();
                // There is room; at the end it is not taken back.
                let _ = written.try_send(block);
            }
            Ok(target)
        };
        let body = move || {
            // Without one the caller has kept it.
            let Ok(target) = given.recv() else { return };
            // The receiver waits for it, until the end of the process.
            let _ = end.send(write_all(target));
        };
        if host.start_thread("snapshot-write", Box::new(body)).is_err() {
            return Err(target);
        }
        give_target.send(target).map_err(|refused| refused.0)?;
        Ok(WriterThread { full: Some(full), empty, is_given_up, ended: Some(ended) })
    }

    /// Hands a full block over; returns an empty one. Blocks while the disk is behind.
    fn exchange(&mut self, block: Block) -> io::Result<Block> {
        let is_taken = self.full.as_ref().is_some_and(|full| full.send(block).is_ok());
        if !is_taken {
            // It ends before the last block only by an error.
            return Err(self.end().err().unwrap_or_else(|| io::ErrorKind::BrokenPipe.into()));
        }
        Ok(self.empty.try_recv().unwrap_or_default())
    }

    /// Waits until all blocks are written.
    fn end(&mut self) -> io::Result<Target> {
        self.full = None;
        let ended = self.ended.take().map(|ended| ended.recv());
        let Some(Ok(target)) = ended else {
            return Err(io::Error::other("the thread that writes the file has ended"));
        };
        target
    }
}

impl Drop for WriterThread {
    /// Waits for the block at hand: the file's name may be given to another file behind this.
    fn drop(&mut self) {
        if self.ended.is_some() {
            self.is_given_up.store(true, Ordering::Relaxed);
            let _ = self.end();
        }
    }
}

/// Writer of the file's blocks.
#[derive(Debug)]
enum Sink {
    /// No block is full yet, or there was no thread to be had.
    Inline(Target),
    Thread(WriterThread),
    /// An error has ended it.
    Failed,
}

/// Buffer in front of a file.
pub struct FileOutput<'h> {
    host: &'h dyn Host,
    sink: Sink,
    block: Block,
}

impl fmt::Debug for FileOutput<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let FileOutput { host: _, sink, block } = self;
        formatter.debug_struct("FileOutput").field("sink", sink).field("block", block).finish()
    }
}

impl<'h> FileOutput<'h> {
    /// Output into an empty file, by a thread that the host starts.
    #[must_use]
    pub fn new(
        file: Box<dyn DiskFile>,
        syncs_in_steps: bool,
        host: &'h dyn Host,
    ) -> FileOutput<'h> {
        let target = Target { file, written: 0, synced: 0, syncs_in_steps };
        FileOutput { host, sink: Sink::Inline(target), block: Block::default() }
    }

    /// Hands the block over, which is full, or writes it.
    fn flush(&mut self) -> io::Result<()> {
        let started = match mem::replace(&mut self.sink, Sink::Failed) {
            Sink::Inline(target) => WriterThread::start(target, self.host),
            Sink::Thread(thread) => Ok(thread),
            Sink::Failed => return Err(io::Error::other("writing the file has failed before")),
        };
        self.sink = match started {
            Ok(mut thread) => {
                self.block = thread.exchange(mem::take(&mut self.block))?;
                Sink::Thread(thread)
            }
            Err(mut target) => {
                target.write(self.block.bytes())?;
                self.block.clear();
                Sink::Inline(target)
            }
        };
        Ok(())
    }

    /// Writes what is left and makes all of it durable; returns its length.
    ///
    /// # Errors
    ///
    /// Those of the file.
    pub fn finish(mut self) -> io::Result<u64> {
        let mut target = match mem::replace(&mut self.sink, Sink::Failed) {
            Sink::Inline(target) => target,
            Sink::Thread(mut thread) => thread.end()?,
            Sink::Failed => return Err(io::Error::other("writing the file has failed before")),
        };
        target.write(self.block.bytes())?;
        target.file.sync()?;
        Ok(target.written)
    }
}

impl Output for FileOutput<'_> {
    type Error = SnapshotError;

    fn write(&mut self, mut bytes: &[u8]) -> Result<(), SnapshotError> {
        loop {
            bytes = self.block.fill(bytes)?;
            if bytes.is_empty() {
                return Ok(());
            }
            self.flush()?;
        }
    }
}
