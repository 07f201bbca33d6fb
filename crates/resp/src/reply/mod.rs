//! Replies, as a client reads them.
//!
//! [`ReplyParser`] builds owned [`Value`]s for tests and tools. [`ReplyScanner`] only counts
//! complete replies, which suffices a load generator for most of them: it keeps no bytes between
//! reads and builds nothing. Both read RESP2 and RESP3 alike, since the type bytes do not overlap.
//! Streamed strings and aggregates (`$?`, `*?`), which no known server sends, are refused.

mod error;
mod line;
mod parser;
mod scanner;
mod value;

pub use error::ReplyError;
pub use parser::{ReplyParser, ReplyProgress};
pub use scanner::{ReplyScanner, ScanCounts};
pub use value::Value;

#[cfg(test)]
mod tests;
