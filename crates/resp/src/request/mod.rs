//! Requests, as clients send them.
//!
//! [`RequestParser`] finds one request at a time in a buffer the caller owns and answers with
//! ranges of that buffer ([`Arguments`]): only code that keeps an argument copies it. An idle
//! connection's parser is one null pointer. A request that arrives in pieces is continued where the
//! parser stopped, so that neither a long argument nor a million short ones are read twice.
//!
//! Strictness and error texts are those of Valkey 9.1 ([`ProtocolError`]), with one difference: a
//! NUL byte in an inline request is an ordinary byte here, while Valkey stops looking for the end
//! of the line at it and waits.

mod arguments;
mod encode;
mod error;
mod heads;
mod inline;
mod parser;

pub use arguments::{ArgumentBuffer, ArgumentView, Arguments, OwnedArguments, SharedBytes};
pub use encode::{encode, encode_into};
pub use error::ProtocolError;
pub use heads::Heads;
pub use inline::{UnbalancedQuotes, split_arguments};
pub use parser::{LargeArgument, Limits, Progress, RequestParser};

#[cfg(test)]
mod tests;
