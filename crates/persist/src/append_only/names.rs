//! Names of a log's files.

use std::io;
use std::path::PathBuf;

use super::manifest::Manifest;
use crate::disk::Disk;

/// Names of a log's files.
#[derive(Clone, Debug)]
pub struct LogNames {
    /// Directory of the server, `dir`.
    pub root: PathBuf,
    /// Name of the log's directory in it, `appenddirname`.
    pub directory_name: String,
    /// First part of the names of files, `appendfilename`.
    pub file_name: String,
    /// Name of the snapshot in `root`, `dbfilename`.
    pub snapshot_name: String,
}

impl LogNames {
    /// Directory of the log.
    #[must_use]
    pub fn directory(&self) -> PathBuf {
        self.root.join(&self.directory_name)
    }

    /// The manifest.
    #[must_use]
    pub fn manifest(&self) -> PathBuf {
        self.directory().join(format!("{}.manifest", self.file_name))
    }

    /// The log of older versions, which was one file.
    #[must_use]
    pub fn single_file(&self) -> PathBuf {
        self.root.join(&self.file_name)
    }

    /// The snapshot.
    #[must_use]
    pub fn snapshot(&self) -> PathBuf {
        self.root.join(&self.snapshot_name)
    }

    /// Puts a manifest in the place of the present one, as a whole or not at all, also across a
    /// loss of power. Blocks on the disk.
    ///
    /// # Errors
    ///
    /// The present manifest is as it was, unless only the last step failed, which makes the
    /// directory durable.
    pub fn write_manifest(&self, disk: &dyn Disk, manifest: &Manifest) -> io::Result<()> {
        let path = self.manifest();
        let temporary = self.directory().join(format!("temp-{}.manifest", self.file_name));
        let file = disk.create(&temporary)?;
        file.write_all_at(manifest.text().as_bytes(), 0)?;
        file.sync()?;
        disk.rename(&temporary, &path)?;
        disk.sync_directory(&self.directory())
    }
}
