//! RESP2 and RESP3, parsed and encoded without I/O.
//!
//! The server parses [`request`]s and [`encode`]s replies; the load generator does the reverse with
//! [`request::encode`] and [`reply`]. Both see bytes that another program wrote: every function here
//! answers any input with a value or an error, and never holds more memory than the input it was given warrants.
//! [`number`] reads and prints numbers with exactly Redis's strictness, because a command's answer depends on it.
//!
//! What it is not: there are no sockets, no clock and no command names here.

pub mod encode;
pub mod limits;
pub mod number;
pub mod reply;
pub mod request;
