//! A file that is written past the system's cache (`O_DIRECT`).

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{Mode, OFlags, open};

use super::DiskFile;
use crate::limits::BLOCK_ALIGNMENT;

/// A file with two descriptors: one past the cache for whole blocks, the other for all else, and
/// for file systems that refuse the first. No part of a file goes by both ways at once.
#[derive(Debug)]
pub(super) struct DirectFile {
    cached: File,
    direct: Option<File>,
    /// The file system opened the file so, and takes no writes.
    is_refused: AtomicBool,
}

impl DirectFile {
    /// A file that is open for writing.
    pub(super) fn new(cached: File) -> DirectFile {
        // The same file, whatever its path means by now.
        let path = format!("/proc/self/fd/{}", cached.as_raw_fd());
        let flags = OFlags::WRONLY | OFlags::DIRECT | OFlags::CLOEXEC;
        let direct = open(path, flags, Mode::empty()).ok().map(File::from);
        DirectFile { cached, direct, is_refused: AtomicBool::new(false) }
    }

    fn direct_for(&self, bytes: &[u8], position: u64) -> Option<&File> {
        let places = [bytes.as_ptr() as u64, bytes.len() as u64, position];
        let is_aligned = places.iter().all(|place| place.is_multiple_of(BLOCK_ALIGNMENT as u64));
        self.direct.as_ref().filter(|_| is_aligned && !self.is_cached())
    }
}

impl DiskFile for DirectFile {
    fn read_at(&self, buffer: &mut [u8], position: u64) -> io::Result<usize> {
        self.cached.read_at(buffer, position)
    }

    fn write_at(&self, bytes: &[u8], position: u64) -> io::Result<usize> {
        if let Some(direct) = self.direct_for(bytes, position) {
            match direct.write_at(bytes, position) {
                Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
                    self.is_refused.store(true, Ordering::Relaxed);
                }
                written => return written,
            }
        }
        self.cached.write_at(bytes, position)
    }

    fn length(&self) -> io::Result<u64> {
        self.cached.length()
    }

    fn set_length(&self, bytes: u64) -> io::Result<()> {
        self.cached.set_length(bytes)
    }

    fn sync(&self) -> io::Result<()> {
        self.cached.sync()
    }

    fn is_cached(&self) -> bool {
        // Relaxed: a hint, on the one thread that writes.
        self.direct.is_none() || self.is_refused.load(Ordering::Relaxed)
    }
}
