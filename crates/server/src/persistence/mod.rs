//! Files of the server's data: who writes and who loads them.

mod background;
mod log_base;
mod snapshot_file;

pub(crate) use background::{Job, serve};
pub(crate) use snapshot_file::{NotSaved, SnapshotFile, SnapshotMove, close_gate, take_token};
