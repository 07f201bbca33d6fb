//! Line at the start of every reply.

use memchr::memchr;

use super::error::ReplyError;
use crate::limits::REPLY_LINE_BYTES_MAX;
use crate::number::parse_integer;

/// The line of `input` without its type byte and end, and the position behind it. `None`:
/// incomplete.
///
/// Only CR LF ends a line; a CR elsewhere in it is refused.
pub(super) fn read_line(input: &[u8]) -> Result<Option<(&[u8], usize)>, ReplyError> {
    // The type byte and both bytes of the end come on top of the line.
    let seen = &input[..input.len().min(REPLY_LINE_BYTES_MAX + 3)];
    match memchr(b'\r', seen) {
        Some(0) => Err(ReplyError::UnknownType(b'\r')),
        Some(end) => match input.get(end + 1) {
            Some(b'\n') if end - 1 > REPLY_LINE_BYTES_MAX => Err(ReplyError::TooLongLine),
            Some(b'\n') => Ok(Some((&input[1..end], end + 2))),
            Some(_) => Err(ReplyError::InvalidCrlf),
            None => Ok(None),
        },
        None if input.len() > REPLY_LINE_BYTES_MAX + 1 => Err(ReplyError::TooLongLine),
        None => Ok(None),
    }
}

/// A length, or `None` for -1, which RESP2 uses for null.
pub(super) fn parse_length(line: &[u8]) -> Result<Option<u64>, ReplyError> {
    match parse_integer(line) {
        Some(-1) => Ok(None),
        Some(length) => u64::try_from(length).map(Some).map_err(|_| ReplyError::InvalidLength),
        None => Err(ReplyError::InvalidLength),
    }
}
