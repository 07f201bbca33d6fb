//! Replies: what a server sends.
//!
//! A [`ReplyBuffer`] is a run of bytes with large payloads inserted by reference, so that a server sends them by
//! `writev` from where they are stored. Its methods are named after what a command means (`map`, `double`,
//! `null`); the client's [`Protocol`] decides what that looks like, and RESP2 gets what Redis sends it. What was
//! appended can be taken back up to a [`Mark`], and an aggregate's length can be given when its end is known.

mod buffer;
mod framed;
mod header;
mod reply;

pub use buffer::{Mark, ReplyBuffer, Segments};
pub(crate) use header::write_header;
pub use reply::{Aggregate, Deferred, Protocol};

#[cfg(test)]
mod tests;
