//! Errors of a stream of replies.

use std::fmt;

/// Bytes that are no RESP. The connection is of no further use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplyError {
    /// A type byte of no kind of reply.
    UnknownType(u8),
    /// A length is not a number, negative, or beyond counting.
    InvalidLength,
    /// Invalid text of a number, truth value or null.
    InvalidScalar,
    /// A line or a payload does not end in CR LF.
    InvalidCrlf,
    /// A line longer than [`REPLY_LINE_BYTES_MAX`](crate::limits::REPLY_LINE_BYTES_MAX).
    TooLongLine,
    /// Aggregates deeper than [`REPLY_DEPTH_MAX`](crate::limits::REPLY_DEPTH_MAX).
    TooDeep,
}

impl fmt::Display for ReplyError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReplyError::UnknownType(byte) => {
                write!(formatter, "unknown reply type '{}'", byte.escape_ascii())
            }
            ReplyError::InvalidLength => formatter.write_str("invalid length in reply"),
            ReplyError::InvalidScalar => formatter.write_str("invalid value in reply"),
            ReplyError::InvalidCrlf => formatter.write_str("invalid CRLF in reply"),
            ReplyError::TooLongLine => formatter.write_str("too long line in reply"),
            ReplyError::TooDeep => formatter.write_str("too deeply nested reply"),
        }
    }
}

impl std::error::Error for ReplyError {}
