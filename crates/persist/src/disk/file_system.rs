//! The disk of the operating system.

use std::ffi::OsString;
use std::fs::{self, File, Metadata, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicU8, Ordering};
use std::thread;

use tidemill_engine::shared::DiskFault;

use super::direct::DirectFile;
use super::{Disk, DiskFile, DiskLock};
use crate::limits::SLOW_SYNC;

/// Permissions of new files, before the process's mask: those that Valkey gives.
const FILE_MODE: u32 = 0o644;

/// EIO of Linux.
const EIO: i32 = 5;

/// The fault that tests asked for.
static FAULT: AtomicU8 = AtomicU8::new(DiskFault::None as u8);

/// The disk of the operating system.
#[derive(Clone, Copy, Debug, Default)]
pub struct FileSystem;

impl FileSystem {
    /// Lets files fail from now on, all of the process, for tests.
    pub fn fail(fault: DiskFault) {
        // Relaxed: applies from some moment on.
        FAULT.store(fault as u8, Ordering::Relaxed);
    }
}

/// Fails if a fault is asked for.
fn fail_by(fault: DiskFault) -> io::Result<()> {
    match FAULT.load(Ordering::Relaxed) == fault as u8 {
        true => Err(io::Error::from_raw_os_error(EIO)),
        false => Ok(()),
    }
}

/// Pauses if the device is to be slow.
fn pause_by_fault() {
    if FAULT.load(Ordering::Relaxed) == DiskFault::SlowSync as u8 {
        thread::sleep(SLOW_SYNC);
    }
}

impl Disk for FileSystem {
    fn open(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        Ok(Box::new(File::open(path)?))
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        Ok(Box::new(writable().create(true).truncate(true).open(path)?))
    }

    fn create_direct(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        let file = writable().create(true).truncate(true).open(path)?;
        Ok(Box::new(DirectFile::new(file)))
    }

    fn open_or_create(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        Ok(Box::new(writable().create(true).open(path)?))
    }

    fn create_directory(&self, path: &Path) -> io::Result<()> {
        match fs::create_dir(path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => Ok(()),
            result => result,
        }
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn unlink(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<OsString>> {
        fs::read_dir(directory)?.map(|entry| Ok(entry?.file_name())).collect()
    }

    fn sync_directory(&self, directory: &Path) -> io::Result<()> {
        pause_by_fault();
        File::open(directory)?.sync_all()
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn DiskLock>> {
        let file = writable().create(true).open(path)?;
        match file.try_lock() {
            Ok(()) => Ok(Box::new(FileLock { file })),
            Err(TryLockError::WouldBlock) => Err(io::ErrorKind::WouldBlock.into()),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }
}

fn writable() -> OpenOptions {
    let mut options = File::options();
    options.read(true).write(true).mode(FILE_MODE);
    options
}

impl DiskFile for File {
    fn read_at(&self, buffer: &mut [u8], position: u64) -> io::Result<usize> {
        FileExt::read_at(self, buffer, position)
    }

    fn write_at(&self, bytes: &[u8], position: u64) -> io::Result<usize> {
        fail_by(DiskFault::Write)?;
        if fail_by(DiskFault::ShortWrite).is_err() {
            let part = &bytes[..bytes.len() / 2];
            // Halves of halves are taken until one byte is left.
            return match part.is_empty() {
                true => Err(io::Error::from_raw_os_error(EIO)),
                false => FileExt::write_at(self, part, position),
            };
        }
        FileExt::write_at(self, bytes, position)
    }

    fn length(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn set_length(&self, bytes: u64) -> io::Result<()> {
        self.set_len(bytes)
    }

    fn sync(&self) -> io::Result<()> {
        fail_by(DiskFault::Sync)?;
        pause_by_fault();
        // The length is part of what `fdatasync` makes durable; the times of the file are not.
        self.sync_data()
    }
}

/// Lock of an open file, which ends with its descriptor, also when the process is killed. The file
/// is not unlinked: another process might have it open and wait for the same name.
#[derive(Debug)]
struct FileLock {
    file: File,
}

impl DiskLock for FileLock {
    fn is_at(&self, path: &Path) -> bool {
        let same = |at: &Metadata, own: &Metadata| (at.dev(), at.ino()) == (own.dev(), own.ino());
        let found = fs::metadata(path).and_then(|at| Ok(same(&at, &self.file.metadata()?)));
        found.unwrap_or(false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::Block;
    use crate::limits::BLOCK_BYTES;

    #[test]
    fn a_path_is_locked_once() {
        let folder = tempfile::tempdir().expect("a folder can be made");
        let path = folder.path().join("lock");
        let first = FileSystem.lock(&path).expect("nobody has the lock");
        let refused = FileSystem.lock(&path).expect_err("it is taken");
        assert_eq!(refused.kind(), io::ErrorKind::WouldBlock);
        assert!(first.is_at(&path));
        drop(first);
        FileSystem.lock(&path).expect("it was released");
    }

    #[test]
    fn a_lock_whose_file_was_replaced_is_not_at_its_path() {
        let folder = tempfile::tempdir().expect("a folder can be made");
        let path = folder.path().join("lock");
        let lock = FileSystem.lock(&path).expect("nobody has the lock");
        fs::remove_file(&path).expect("it is there");
        assert!(!lock.is_at(&path));
        let anew = FileSystem.lock(&path).expect("it is another file");
        assert!(anew.is_at(&path) && !lock.is_at(&path));
    }

    /// Whole blocks and what is left go different ways, into the same file.
    #[test]
    fn a_file_that_is_written_past_the_cache_has_all_bytes() {
        let folder = tempfile::tempdir().expect("a folder can be made");
        let path = folder.path().join("file");
        fs::write(&path, "what is there before is gone").expect("the folder is writable");
        let file = FileSystem.create_direct(&path).expect("the folder is writable");
        let mut written = Vec::new();
        for length in [BLOCK_BYTES, BLOCK_BYTES, 5000, 3] {
            let bytes: Vec<u8> = std::iter::repeat_with(|| fastrand::u8(..)).take(length).collect();
            let mut block = Block::default();
            assert_eq!(block.fill(&bytes), Ok(&b""[..]));
            file.write_all_at(block.bytes(), written.len() as u64).expect("there is room");
            written.extend_from_slice(&bytes);
        }
        file.sync().expect("the device works");
        assert_eq!(file.length().expect("it is open"), written.len() as u64);
        drop(file);
        assert!(fs::read(&path).expect("it is there") == written);
    }

    #[test]
    fn writing_beyond_the_end_and_cutting_change_the_length() {
        let folder = tempfile::tempdir().expect("a folder can be made");
        let path = folder.path().join("file");
        let file = FileSystem.create(&path).expect("the folder is writable");
        file.write_all_at(b"abc", 2).expect("there is room");
        assert_eq!(file.length().expect("it is open"), 5);
        file.set_length(3).expect("it is writable");
        let mut buffer = [7; 4];
        assert_eq!(file.read_at(&mut buffer, 0).expect("it is open"), 3);
        assert_eq!(&buffer, b"\0\0a\x07");
        FileSystem.open_or_create(&path).expect("it is there");
        assert_eq!(file.length().expect("it is open"), 3);
    }
}
