//! Files of the server's data: who writes and who loads them.

mod background;
mod snapshot_file;

pub(crate) use background::serve;
pub(crate) use snapshot_file::SnapshotFile;
