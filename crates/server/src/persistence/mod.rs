//! Files of the server's data: who writes them, and loading at start.

mod background;
mod snapshot_file;

pub(crate) use background::serve;
pub(crate) use snapshot_file::SnapshotFile;
