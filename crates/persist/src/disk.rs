//! Files and directories as persistence uses them.
//!
//! The trait is narrow on purpose: each operation is one that can fail, tear or be forgotten by a
//! power loss in a way of its own, and code that may only do these things can be run on a simulated
//! disk with all of them. [`FileSystem`] is the real one.
//!
//! A file is durable once both its bytes ([`DiskFile::sync`]) and its name
//! ([`Disk::sync_directory`]) are.

mod block;
mod direct;
mod file_system;
pub mod simulated;

use std::ffi::OsString;
use std::fmt::Debug;
use std::io;
use std::path::Path;

pub use block::Block;
pub use file_system::FileSystem;

/// Files and directories.
pub trait Disk: Debug + Send + Sync {
    /// Opens a file for reading.
    ///
    /// # Errors
    ///
    /// The file is absent or cannot be read.
    fn open(&self, path: &Path) -> io::Result<Box<dyn DiskFile>>;

    /// Makes an empty file for reading and writing; one of this name loses its content.
    ///
    /// # Errors
    ///
    /// The file cannot be made.
    fn create(&self, path: &Path) -> io::Result<Box<dyn DiskFile>>;

    /// As [`Disk::create`], for a file that is written once, in [`Block`]s: where the system can,
    /// they go to the device past its cache, which saves a copy of them and leaves the cache to
    /// others.
    ///
    /// # Errors
    ///
    /// The file cannot be made.
    fn create_direct(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        self.create(path)
    }

    /// Opens a file for reading and writing, and makes it when it is absent.
    ///
    /// # Errors
    ///
    /// The file cannot be opened or made.
    fn open_or_create(&self, path: &Path) -> io::Result<Box<dyn DiskFile>>;

    /// Makes a directory; one that exists is left alone.
    ///
    /// # Errors
    ///
    /// It cannot be made, or something else has the name.
    fn create_directory(&self, path: &Path) -> io::Result<()>;

    /// Gives a file another name, and takes the name away from a file that has it, in one step.
    ///
    /// # Errors
    ///
    /// Both names are then as before.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes a name. Files that are open stay readable.
    ///
    /// # Errors
    ///
    /// The name is absent or may not be removed.
    fn unlink(&self, path: &Path) -> io::Result<()>;

    /// Names in a directory, in no order.
    ///
    /// # Errors
    ///
    /// The directory is absent or cannot be read.
    fn list(&self, directory: &Path) -> io::Result<Vec<OsString>>;

    /// Makes the names in a directory durable: files made, renamed and unlinked there before.
    /// Blocks on the device.
    ///
    /// # Errors
    ///
    /// The device failed: nothing is known of what is durable.
    fn sync_directory(&self, directory: &Path) -> io::Result<()>;

    /// Locks a path against other processes, and against this one, until the lock is dropped or the
    /// process ends in any way. Never waits. The file of the lock stays, empty.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::WouldBlock`] when somebody has the lock; others when the file cannot be
    /// made or locked.
    fn lock(&self, path: &Path) -> io::Result<Box<dyn DiskLock>>;
}

/// Open file. Positions are the caller's: none is kept here.
pub trait DiskFile: Debug + Send + Sync {
    /// Reads at a position; fewer bytes than asked for mean little, zero means the end.
    ///
    /// # Errors
    ///
    /// The device failed.
    fn read_at(&self, buffer: &mut [u8], position: u64) -> io::Result<usize>;

    /// Writes at a position, possibly a part only; returns how many bytes.
    ///
    /// # Errors
    ///
    /// Nothing was written.
    fn write_at(&self, bytes: &[u8], position: u64) -> io::Result<usize>;

    /// Length in bytes.
    ///
    /// # Errors
    ///
    /// The device failed.
    fn length(&self) -> io::Result<u64>;

    /// Cuts or lengthens the file.
    ///
    /// # Errors
    ///
    /// The file has its old length.
    fn set_length(&self, bytes: u64) -> io::Result<()>;

    /// Makes content and length durable. Blocks on the device.
    ///
    /// # Errors
    ///
    /// Nothing is known of what is durable, and a later success does not mean what was written
    /// before.
    fn sync(&self) -> io::Result<()>;

    /// True if what is written waits in the system's cache until it is synced.
    fn is_cached(&self) -> bool {
        true
    }

    /// Writes all bytes at a position.
    ///
    /// # Errors
    ///
    /// Some of the bytes may have been written.
    fn write_all_at(&self, mut bytes: &[u8], mut position: u64) -> io::Result<()> {
        while !bytes.is_empty() {
            match self.write_at(bytes, position) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => {
                    bytes = &bytes[count..];
                    position += count as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// Lock of a path; dropping it releases the path.
pub trait DiskLock: Debug + Send + Sync {
    /// True if a path names what is locked. Otherwise it was removed or replaced, and another
    /// process may have locked the path anew.
    fn is_at(&self, path: &Path) -> bool;
}
