//! A file that is written from its beginning to its end.
//!
//! Bytes are gathered into blocks, and a thread writes one block while the next one is filled: what
//! makes them, and the disk, take their time side by side. A small file needs no thread.
//!
//! Rejected: `sync_file_range`, so that the system writes beside us. The bytes are copied into the
//! page cache then, which costs four times the CPU of writing past it ([`Disk::create_direct`]),
//! and is no faster.
//!
//! [`Disk::create_direct`]: crate::disk::Disk::create_direct

use std::io;
use std::mem;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};

use super::SnapshotError;
use crate::disk::{Block, DiskFile};
use crate::limits::{BLOCKS_QUEUED, SYNC_STEP_BYTES};

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
    thread: Option<JoinHandle<io::Result<Target>>>,
}

impl WriterThread {
    /// Starts the thread, with the CPUs and the priority of the calling one.
    fn spawn(mut target: Target) -> io::Result<WriterThread> {
        let (full, to_write) = sync_channel::<Block>(BLOCKS_QUEUED);
        let (written, empty) = sync_channel::<Block>(BLOCKS_QUEUED + 2);
        let is_given_up = Arc::new(AtomicBool::new(false));
        let is_over = Arc::clone(&is_given_up);
        let body = move || {
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
        let thread = thread::Builder::new().name("snapshot-write".into()).spawn(body)?;
        Ok(WriterThread { full: Some(full), empty, is_given_up, thread: Some(thread) })
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
        let ended = self.thread.take().map(JoinHandle::join);
        let Some(Ok(target)) = ended else {
            return Err(io::Error::other("the thread that writes the file has ended"));
        };
        target
    }
}

impl Drop for WriterThread {
    /// Waits for the block at hand: the file's name may be given to another file behind this.
    fn drop(&mut self) {
        if self.thread.is_some() {
            self.is_given_up.store(true, Ordering::Relaxed);
            let _ = self.end();
        }
    }
}

/// Writer of the file's blocks.
#[derive(Debug)]
enum Sink {
    /// No block is full yet.
    Inline(Target),
    Thread(WriterThread),
    /// An error has ended it.
    Failed,
}

/// Buffer in front of a file.
#[derive(Debug)]
pub struct FileOutput {
    sink: Sink,
    block: Block,
}

impl FileOutput {
    /// Output into an empty file.
    #[must_use]
    pub fn new(file: Box<dyn DiskFile>, syncs_in_steps: bool) -> FileOutput {
        let target = Target { file, written: 0, synced: 0, syncs_in_steps };
        FileOutput { sink: Sink::Inline(target), block: Block::default() }
    }

    /// Hands the block over, which is full.
    fn flush(&mut self) -> io::Result<()> {
        let mut thread = match mem::replace(&mut self.sink, Sink::Failed) {
            Sink::Inline(target) => WriterThread::spawn(target)?,
            Sink::Thread(thread) => thread,
            Sink::Failed => return Err(io::Error::other("writing the file has failed before")),
        };
        self.block = thread.exchange(mem::take(&mut self.block))?;
        self.sink = Sink::Thread(thread);
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

impl Output for FileOutput {
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
