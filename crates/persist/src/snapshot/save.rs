//! A snapshot as a file that takes the place of the last one.
//!
//! The new file is complete and durable under another name before it gets its own, so that the old
//! one is there until the new one is, whatever happens in between.

use std::path::{Path, PathBuf};

use tidemill_engine::shared::{Host, Shared};
use tidemill_rdb::Version;
use tidemill_rdb::file::Writer;
use tidemill_store::{Cut, Heap};

use super::{CutAccess, FileOutput, SnapshotError, WriteRules, begin_file, write};
use crate::disk::Disk;

/// Circumstances of a save.
#[derive(Clone, Debug)]
pub struct SaveRules {
    /// Of the file's content.
    pub content: WriteRules,
    /// `rdb-save-incremental-fsync`.
    pub syncs_in_steps: bool,
}

/// Path of the file of a save before it is complete.
#[must_use]
pub fn temporary(path: &Path) -> PathBuf {
    temporary_of(path, "")
}

/// As [`temporary`], of an empty file.
#[must_use]
pub fn temporary_empty(path: &Path) -> PathBuf {
    temporary_of(path, "empty-")
}

fn temporary_of(path: &Path, kind: &str) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!("temp-{kind}{name}"))
}

/// Directory of a file.
fn directory(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Saves a cut; returns the bytes of the file. Blocks until it is durable.
///
/// # Errors
///
/// [`SnapshotError`]; the old file is then as it was, unless the directory could not be synced: the
/// new one may then be in its place.
pub fn save(
    disk: &dyn Disk,
    path: &Path,
    cut: Cut,
    shared: &Shared,
    access: &mut dyn CutAccess,
    heap: &Heap,
    rules: &SaveRules,
) -> Result<u64, SnapshotError> {
    let temporary = temporary(path);
    let created = match rules.syncs_in_steps {
        true => disk.create_direct(&temporary),
        false => disk.create(&temporary),
    };
    let file = match created {
        Ok(file) => file,
        Err(error) => {
            cut.end(heap);
            return Err(error.into());
        }
    };
    // The file that is replaced, open until then: a rename that frees the blocks of a large file
    // takes long, and a client that cancels the save waits for it.
    let mut old = None;
    let out = FileOutput::new(file, rules.syncs_in_steps, &*shared.host);
    let saved = write(cut, shared, access, heap, &rules.content, out).and_then(|out| {
        let mut finished = Ok::<u64, SnapshotError>(0);
        let mut out = Some(out);
        access.offline(&mut || {
            if let Some(out) = out.take() {
                finished = out.finish().map_err(SnapshotError::from).and_then(|bytes| {
                    old = disk.open(path).ok();
                    let put =
                        shared.snapshots.put_unless_cancelled(|| disk.rename(&temporary, path));
                    put.ok_or(SnapshotError::Cancelled)??;
                    Ok(bytes)
                });
            }
        });
        finished
    });
    match saved {
        Ok(bytes) => {
            let mut synced = Ok(());
            access.offline(&mut || {
                synced = disk.sync_directory(directory(path));
                drop(old.take());
            });
            synced?;
            Ok(bytes)
        }
        Err(error) => {
            // Its remains take room; the next save replaces it.
            let _ = disk.unlink(&temporary);
            Err(error)
        }
    }
}

/// Saves a keyspace without keys, with the sources of these libraries of functions, beside a save
/// that was cancelled and may still be under way. Blocks until the file is durable.
///
/// # Errors
///
/// As [`save`].
pub fn save_nothing(
    disk: &dyn Disk,
    path: &Path,
    libraries: &[Box<[u8]>],
    host: &dyn Host,
    rules: &SaveRules,
) -> Result<(), SnapshotError> {
    let temporary = temporary_empty(path);
    let out = FileOutput::new(disk.create(&temporary)?, false, host);
    let written = begin_file(libraries, &rules.content, out, Version::COMMON)
        .and_then(Writer::end)
        .and_then(|out| Ok(out.finish()?))
        .and_then(|_| Ok(disk.rename(&temporary, path)?));
    if let Err(error) = written {
        let _ = disk.unlink(&temporary);
        return Err(error);
    }
    Ok(disk.sync_directory(directory(path))?)
}
