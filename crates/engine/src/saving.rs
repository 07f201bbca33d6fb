//! Files of data: the interface to the process around the engine.

use std::fmt;

use tidemill_store::{Cut, Heap};

use crate::access::section::ReadSide;
use crate::shared::Shared;

/// Reason why data was not saved or loaded; the log has the details.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SavingFailed;

/// Files of data, as commands use them. The beginner of a save has noted it in
/// [`Shared::snapshots`]; its end is noted here.
pub trait Saving: fmt::Debug + Send + Sync {
    /// Saves a cut in the place of the last snapshot. All others are stopped; blocks until the file
    /// is durable.
    ///
    /// # Errors
    ///
    /// [`SavingFailed`]; the old file is then as it was.
    fn save(
        &self,
        shared: &Shared,
        cut: Cut,
        reader: &mut dyn ReadSide,
        heap: &Heap,
    ) -> Result<(), SavingFailed>;

    /// Writes the empty file that was begun under this number, in the place of the last snapshot.
    /// Blocks until it is durable, or has failed: its end is noted, and the log has the reason.
    fn save_nothing(&self, shared: &Shared, number: u32);

    /// Lets a thread beside the workers write the empty file that was begun, and end it.
    ///
    /// # Errors
    ///
    /// [`SavingFailed`]: there is no thread to be had.
    fn save_nothing_beside(&self, shared: &Shared) -> Result<(), SavingFailed>;

    /// True while the append-only file, which was switched off, is not closed yet: it may get
    /// records, and some of it may not be durable.
    fn is_log_closing(&self) -> bool;

    /// Closes an append-only file that was switched off. Blocks on the disk.
    fn close_log(&self);

    /// Leaves a cut to a thread that saves it beside the workers.
    ///
    /// # Errors
    ///
    /// [`SavingFailed`]: there is no such thread.
    fn save_in_background(&self, shared: &Shared, cut: Cut) -> Result<(), SavingFailed>;

    /// Begins a rewrite of the append-only file by a thread beside the workers, which ends it in
    /// [`Shared::rewrites`]. The beginner has noted it there.
    ///
    /// # Errors
    ///
    /// [`SavingFailed`]; the rewrite has ended then.
    fn rewrite_log(&self, shared: &Shared) -> Result<(), SavingFailed>;

    /// Looks whether there is a snapshot, of a version that is read.
    ///
    /// # Errors
    ///
    /// [`SavingFailed`].
    fn check_loadable(&self, shared: &Shared) -> Result<(), SavingFailed>;

    /// Leaves the loading of the snapshot, or of the append-only file, to a thread beside the
    /// workers. It was begun in [`Shared::loading`](crate::shared::Loading), for a session that
    /// waits; its end is noted there.
    ///
    /// # Errors
    ///
    /// [`SavingFailed`]: there is no such thread.
    fn load_in_background(&self, source: LoadSource) -> Result<(), SavingFailed>;
}

/// Treatment of the keys and libraries that there are when a file is loaded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Present {
    /// Keys were removed before, or there were none; libraries are those of the file alone.
    #[default]
    Removed,
    /// They stay. One that the file has too is a fault.
    Kept,
    /// They stay, unless the file has one of the same name.
    Replaced,
}

/// Files that all data is loaded from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoadSource {
    /// The snapshot.
    Snapshot(Present),
    /// The append-only file.
    Log,
}

/// No files: nothing is saved.
#[derive(Clone, Copy, Debug)]
pub struct NoFiles;

impl Saving for NoFiles {
    fn save(
        &self,
        shared: &Shared,
        cut: Cut,
        _reader: &mut dyn ReadSide,
        heap: &Heap,
    ) -> Result<(), SavingFailed> {
        cut.end(heap);
        shared.end_save(false);
        Err(SavingFailed)
    }

    fn save_nothing(&self, shared: &Shared, number: u32) {
        shared.snapshots.end_empty(number);
    }

    fn save_nothing_beside(&self, _: &Shared) -> Result<(), SavingFailed> {
        Err(SavingFailed)
    }

    fn is_log_closing(&self) -> bool {
        false
    }

    fn close_log(&self) {}

    fn save_in_background(&self, shared: &Shared, cut: Cut) -> Result<(), SavingFailed> {
        drop(cut);
        shared.end_save(false);
        Err(SavingFailed)
    }

    fn rewrite_log(&self, shared: &Shared) -> Result<(), SavingFailed> {
        shared.rewrites.end(0, false);
        Err(SavingFailed)
    }

    fn check_loadable(&self, _shared: &Shared) -> Result<(), SavingFailed> {
        Err(SavingFailed)
    }

    fn load_in_background(&self, _source: LoadSource) -> Result<(), SavingFailed> {
        Err(SavingFailed)
    }
}
