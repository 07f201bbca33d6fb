//! RESP2 and RESP3, parsed and encoded without I/O.
//!
//! The server parses [`request`]s and [`encode`]s replies; the load generator does the reverse with
//! [`request::encode`] and [`reply`]. Both read bytes that another program wrote: every function
//! here answers any input with a value or an error, and never holds more memory than its input
//! warrants. [`number`] reads and prints numbers with exactly Redis's strictness, because a
//! command's answer depends on it.
//!
//! Not part of this crate: sockets, clocks and command names.

pub mod encode;
pub mod limits;
pub mod number;
pub mod reply;
pub mod request;
