//! The disk of the operating system.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use super::{Disk, DiskFile, DiskLock};

/// Permissions of new files, before the process's mask: those that Valkey gives.
const FILE_MODE: u32 = 0o644;

/// The disk of the operating system.
#[derive(Clone, Copy, Debug, Default)]
pub struct FileSystem;

impl Disk for FileSystem {
    fn open(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        Ok(Box::new(File::open(path)?))
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        Ok(Box::new(writable().create(true).truncate(true).open(path)?))
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
        File::open(directory)?.sync_all()
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn DiskLock>> {
        let file = writable().create(true).open(path)?;
        match file.try_lock() {
            Ok(()) => Ok(Box::new(FileLock { _file: file })),
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
        FileExt::write_at(self, bytes, position)
    }

    fn length(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn set_length(&self, bytes: u64) -> io::Result<()> {
        self.set_len(bytes)
    }

    fn sync(&self) -> io::Result<()> {
        // The length is part of what `fdatasync` makes durable; the times of the file are not.
        self.sync_data()
    }
}

/// Lock of an open file, which ends with its descriptor, also when the process is killed. The file
/// is not unlinked: another process might have it open and wait for the same name.
#[derive(Debug)]
struct FileLock {
    _file: File,
}

impl DiskLock for FileLock {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_locked_once() {
        let folder = tempfile::tempdir().expect("a folder can be made");
        let path = folder.path().join("lock");
        let first = FileSystem.lock(&path).expect("nobody has the lock");
        let refused = FileSystem.lock(&path).expect_err("it is taken");
        assert_eq!(refused.kind(), io::ErrorKind::WouldBlock);
        drop(first);
        FileSystem.lock(&path).expect("it was released");
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
