//! Replies, as a server sends them.
//!
//! A [`ReplyBuffer`] is a run of bytes with large payloads inserted by reference, so that a server
//! sends them by `writev` from where they are stored. Its methods are named after the meaning of a
//! reply (`map`, `double`, `null`); the client's [`Protocol`] decides its bytes, and RESP2 clients
//! get what Redis sends them. Appended bytes can be taken back up to a [`Mark`], and an aggregate's
//! length can be given when its end is known.

mod buffer;
mod framed;
mod header;
mod reply;
mod run;

pub use buffer::{Mark, ReplyBuffer, Segments};
pub(crate) use header::write_header;
pub use reply::{Aggregate, Deferred, Protocol};

#[cfg(test)]
mod tests;
