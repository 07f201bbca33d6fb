//! Append-only file: the journal on the disk, in several files with a manifest as Valkey's.
//!
//! A log is a base (a snapshot, absent while nothing was ever rewritten) and increments (commands
//! behind it). [`load()`] replays it at start; [`AppendOnlyFile`] appends the journal's stream to
//! the last increment and says which records are written and which are durable, so that replies
//! wait for theirs. Directories of Valkey are read, and Valkey reads ours.
//!
//! Not here: threads (the server starts them), sockets, and what is done with replies that wait.

mod check;
mod file;
mod group;
mod load;
mod manifest;
mod names;
mod rewrite;
mod scan;
mod writer;

pub use check::{FileCheck, FileFault, check_file, is_manifest, is_snapshot};
pub use file::{AppendOnlyFile, EmptyBase, FsyncPolicy, LogStatus, WakeWorker, WriteFailure};
pub use group::GroupMark;
pub use load::{LoadError, Loaded, Replay, ReplayFault, Stopped, find, load, read_manifest};
pub use manifest::{FileRole, Manifest, ManifestEntry, ManifestError};
pub use names::LogNames;
pub use rewrite::{BaseForm, Rewrite};
pub use scan::{Piece, Scan};

/// First bytes of a snapshot.
const MAGICS_OF_RDB: [&[u8]; 2] = [b"REDIS", b"VALKEY"];

#[cfg(test)]
mod tests;
