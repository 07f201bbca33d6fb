//! Move of the snapshot to another name or directory, which is taken back unless it is committed.
//!
//! `CONFIG SET dir` moves the process before other directives of the same command are applied, of
//! which some have paths that begin in its directory, and any may fail. Until the end of that the
//! place is locked: a save that begins meanwhile waits, and goes where the snapshot stays.

use std::os::fd::OwnedFd;
use std::sync::{RwLockWriteGuard, TryLockError};

use rustix::fs::{Mode, OFlags};
use tidemill_engine::system_error::reason;
use tidemill_persist::disk::DiskLock;

use super::{Place, SnapshotFile, locked};

/// Move of the snapshot. Dropped without [`commit`](Self::commit), it leaves name and lock as they
/// were, and takes the process back to the directory that it was in.
pub(crate) struct SnapshotMove<'f> {
    file: &'f SnapshotFile,
    /// Dropped before `place`: the process is back when a save goes on.
    former: Option<FormerDirectory>,
    place: RwLockWriteGuard<'f, Place>,
    next: Place,
    /// True if the lock that there is has the next name, too.
    keeps_lock: bool,
    /// Lock of the next name otherwise, if the server saves.
    lock: Option<Box<dyn DiskLock>>,
}

impl SnapshotFile {
    /// Begins to save and load under another name, in another directory if there is one, which
    /// becomes the working directory. Locks the name if the server `saves`. Does not wait.
    ///
    /// # Errors
    ///
    /// Text for the operator: there is no such directory, another server saves there, or a file is
    /// being written. Nothing is changed then.
    pub(crate) fn move_to(
        &self,
        directory: Option<&str>,
        name: &str,
        saves: bool,
    ) -> Result<SnapshotMove<'_>, String> {
        let place = match self.place.try_write() {
            Ok(place) => place,
            Err(TryLockError::Poisoned(place)) => place.into_inner(),
            Err(TryLockError::WouldBlock) => return Err("a snapshot is being saved".into()),
        };
        let leave = |directory| FormerDirectory::leave(&place.directory, directory);
        let former = directory.map(leave).transpose()?;
        let next = Place::here(name);
        let present = locked(&self.lock);
        let keeps_lock = present.as_ref().is_some_and(|lock| lock.is_at(&next.lock_path()));
        drop(present);
        let lock = (saves && !keeps_lock).then(|| self.take_lock(&next)).transpose();
        let lock = lock.map_err(|error| error.to_string())?;
        Ok(SnapshotMove { file: self, former, place, next, keeps_lock, lock })
    }
}

impl SnapshotMove<'_> {
    /// Lets the move take effect, and gives back the lock of the name before.
    pub(crate) fn commit(mut self) {
        *self.place = self.next;
        if !self.keeps_lock {
            *locked(&self.file.lock) = self.lock;
        }
        self.former.into_iter().for_each(FormerDirectory::forget);
    }
}

/// Directory that the process has left, and goes back to when this is dropped.
struct FormerDirectory {
    /// For people to read.
    path: String,
    descriptor: Option<OwnedFd>,
}

impl FormerDirectory {
    /// Leaves the working directory, of this path, for another one.
    fn leave(path: &str, next: &str) -> Result<FormerDirectory, String> {
        // Not by its path: it may have been moved or removed. Not to be read, which may be refused.
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let descriptor = rustix::fs::open(".", flags, Mode::empty());
        let descriptor = descriptor.map_err(|error| reason(&error.into()))?;
        std::env::set_current_dir(next).map_err(|error| reason(&error))?;
        Ok(FormerDirectory { path: path.to_owned(), descriptor: Some(descriptor) })
    }

    /// Lets the process stay where it is.
    fn forget(mut self) {
        self.descriptor = None;
    }
}

impl Drop for FormerDirectory {
    fn drop(&mut self) {
        let Some(descriptor) = &self.descriptor else { return };
        if let Err(error) = rustix::process::fchdir(descriptor) {
            log::error!("Can't go back to {}: {}", self.path, reason(&error.into()));
        }
    }
}
