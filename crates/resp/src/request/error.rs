//! Errors of requests.

use std::fmt;

/// Request that breaks the protocol. The connection is to be closed after the error was sent: the
/// start of the next request is unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProtocolError {
    /// An inline request longer than [`INLINE_BYTES_MAX`](crate::limits::INLINE_BYTES_MAX).
    TooBigInline,
    /// The line with the number of arguments has no end.
    TooBigMultibulkCount,
    /// The line with an argument's length has no end.
    TooBigBulkCount,
    /// The number of arguments is no number or above the maximum.
    InvalidMultibulkLength,
    /// The length of an argument is no number, negative, or above `proto-max-bulk-len`.
    InvalidBulkLength,
    /// A client that has yet to authenticate sent too many arguments.
    UnauthenticatedMultibulkLength,
    /// A client that has yet to authenticate sent too long an argument.
    UnauthenticatedBulkLength,
    /// An argument begins with this byte instead of `$`.
    ExpectedDollar(u8),
    /// A line or an argument does not end in CR LF.
    InvalidCrlf,
    /// A quote of an inline request is never closed.
    UnbalancedQuotes,
    /// No memory for the list of the arguments. Valkey ends then.
    NoMemory,
}

impl ProtocolError {
    /// Appends the reply of Valkey 9.1, from `-` to CR LF. Bytes, not text: the unexpected byte is
    /// echoed as it was sent.
    pub fn write_wire(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"-ERR Protocol error: ");
        match *self {
            ProtocolError::ExpectedDollar(got) => {
                out.extend_from_slice(b"expected '$', got '");
                out.push(if matches!(got, b'\r' | b'\n') { b' ' } else { got });
                out.push(b'\'');
            }
            other => out.extend_from_slice(other.reason().as_bytes()),
        }
        out.extend_from_slice(b"\r\n");
    }

    fn reason(self) -> &'static str {
        match self {
            ProtocolError::TooBigInline => "too big inline request",
            ProtocolError::TooBigMultibulkCount => "too big mbulk count string",
            ProtocolError::TooBigBulkCount => "too big bulk count string",
            ProtocolError::InvalidMultibulkLength => "invalid multibulk length",
            ProtocolError::InvalidBulkLength => "invalid bulk length",
            ProtocolError::UnauthenticatedMultibulkLength => "unauthenticated multibulk length",
            ProtocolError::UnauthenticatedBulkLength => "unauthenticated bulk length",
            ProtocolError::ExpectedDollar(_) => "expected '$'",
            ProtocolError::InvalidCrlf => "invalid CRLF in request",
            ProtocolError::UnbalancedQuotes => "unbalanced quotes in request",
            ProtocolError::NoMemory => "no memory for the arguments",
        }
    }
}

impl fmt::Display for ProtocolError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            ProtocolError::ExpectedDollar(got) => {
                write!(formatter, "expected '$', got '{}'", got.escape_ascii())
            }
            other => formatter.write_str(other.reason()),
        }
    }
}

impl std::error::Error for ProtocolError {}
