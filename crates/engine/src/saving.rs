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

    /// As [`Saving::save`], of no data at all.
    ///
    /// # Errors
    ///
    /// As [`Saving::save`].
    fn save_nothing(&self, shared: &Shared) -> Result<(), SavingFailed>;

    /// Leaves a cut to a thread that saves it beside the workers.
    ///
    /// # Errors
    ///
    /// [`SavingFailed`]: there is no such thread.
    fn save_in_background(&self, shared: &Shared, cut: Cut) -> Result<(), SavingFailed>;

    /// Loads the snapshot into an empty keyspace, with all others stopped.
    ///
    /// # Errors
    ///
    /// [`SavingFailed`]; a part of it may be loaded then.
    fn load(
        &self,
        shared: &Shared,
        reader: &mut dyn ReadSide,
        heap: &Heap,
    ) -> Result<(), SavingFailed>;
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

    fn save_nothing(&self, _shared: &Shared) -> Result<(), SavingFailed> {
        Err(SavingFailed)
    }

    fn save_in_background(&self, shared: &Shared, cut: Cut) -> Result<(), SavingFailed> {
        drop(cut);
        shared.end_save(false);
        Err(SavingFailed)
    }

    fn load(
        &self,
        _shared: &Shared,
        _reader: &mut dyn ReadSide,
        _heap: &Heap,
    ) -> Result<(), SavingFailed> {
        Err(SavingFailed)
    }
}
