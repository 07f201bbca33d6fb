//! Persistence: snapshots of the keyspace, append-only files, and loading of both at start.
//!
//! All files are reached through a [`disk::Disk`], so that crashes, torn writes and full disks are
//! tested on a simulated one. A snapshot is taken without fork: the store hands the pre-images of
//! what changes over to the thread that writes the file. When a save is due, and what a client is
//! answered, is decided by the engine and the server.
//!
//! Not part of this crate: sockets, the format of RDB files (`tidemill-rdb`), commands.

pub mod append_only;
pub mod check;
pub mod disk;
pub mod limits;
pub mod load;
pub mod snapshot;
pub mod test_delay;
