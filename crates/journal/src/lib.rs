//! Journal: what all workers change, as one stream of commands.
//!
//! A unit of execution takes a [`RecordNumber`] before anything of it can be seen, and pushes its
//! [`Record`] into the lane of its worker. The [merge](Journal::merge) puts the records of all
//! lanes in the order of their numbers and appends them to a [`Cursor`]'s stream: RESP as Valkey's
//! append-only files and replicas have it, with `SELECT` where the database changes and `MULTI` and
//! `EXEC` around units of several effects, unless those are of commands by themselves. Each reader
//! of the stream (an append-only file, a replica, a backlog) has a cursor of its own and takes as
//! long as it wants.
//!
//! One stream, and not one per worker: replicas of Redis and Valkey take one, and an offset in it
//! means the same to all. Lanes, and not one queue: a worker pushes under the locks of its
//! slots, where it must not wait for another worker.
//!
//! No files, no sockets, no clock. Nothing here blocks for longer than it takes to exchange two
//! buffers, apart from [`Journal::merge`], which waits for another merge.

mod journal;
mod lane;
pub mod limits;
mod merge;
mod primitive;
mod record;
mod segment;
mod stream;

pub use journal::{Journal, RecordNumber};
pub use merge::{Merge, Merged};
pub use record::{Effect, Effects, Record};
pub use segment::SegmentBytes;
pub use stream::Cursor;
