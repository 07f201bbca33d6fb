//! The resumable parser of one connection.

use memchr::memchr;

use super::arguments::Arguments;
use super::error::ProtocolError;
use super::inline;
use crate::limits::{
    ARGUMENT_COUNT_MAX, BULK_BYTES_MAX, INLINE_BYTES_MAX, REMEMBERED_ARGUMENT_COUNT_MIN,
    UNAUTHENTICATED_ARGUMENT_COUNT_MAX, UNAUTHENTICATED_BULK_BYTES_MAX,
};
use crate::number::parse_integer;

/// What the requests of one client may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Longest argument, `proto-max-bulk-len`, in bytes.
    pub bulk_bytes_max: usize,
    /// Whether the client may send requests of any size; until it has authenticated it may not.
    pub authenticated: bool,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { bulk_bytes_max: BULK_BYTES_MAX, authenticated: true }
    }
}

/// What the parser found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// A whole request. The next one begins `consumed` bytes into the input.
    Complete {
        /// Bytes of the input up to the end of the request, blank requests before it included.
        consumed: usize,
    },
    /// No whole request yet. Drop `consumed` bytes, keep the rest, and call again with more bytes behind it.
    Incomplete {
        /// Bytes of blank requests, which nobody needs any more.
        consumed: usize,
        /// Bytes that the request lacks at the very least: what a buffer should have room for. A client may claim
        /// as much as the limits allow and never send it, so reserve with care.
        wanted: usize,
    },
}

/// Where an incomplete request of many arguments was left.
#[derive(Debug)]
struct Remembered {
    args: Arguments,
    position: usize,
    missing_count: usize,
}

/// Finds one request after the other in the bytes of one connection: one pointer, null while nothing is
/// half-read. After an error the parser and the connection are finished.
#[derive(Debug, Default)]
pub struct RequestParser {
    remembered: Option<Box<Remembered>>,
}

/// What one attempt at a request came to; positions count from the start of the input.
enum Step {
    Complete { end: usize },
    Blank { end: usize },
    Incomplete { wanted: usize },
}

/// What a line with a length came to.
enum Line {
    Value { value: i64, next: usize },
    Incomplete,
}

impl RequestParser {
    /// A parser at the beginning of a request.
    #[must_use]
    pub fn new() -> RequestParser {
        RequestParser::default()
    }

    /// Whether the parser holds part of a request by itself.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.remembered.is_none()
    }

    /// Parses the first request of `input` into `args`. Blank requests (an empty line, `*0`, a negative count) are
    /// skipped. After [`Progress::Incomplete`] the next input has to begin with the bytes that were not consumed.
    ///
    /// # Errors
    /// [`ProtocolError`] as Valkey 9.1 would answer; the connection has to be closed.
    #[inline]
    pub fn parse(
        &mut self,
        input: &[u8],
        limits: &Limits,
        args: &mut Arguments,
    ) -> Result<Progress, ProtocolError> {
        let mut start = 0;
        loop {
            let step = match input.get(start) {
                None => Step::Incomplete { wanted: 1 },
                Some(b'*') => self.multibulk(input, start, limits, args)?,
                Some(_) => inline_request(input, start, args)?,
            };
            match step {
                Step::Complete { end } => return Ok(Progress::Complete { consumed: end }),
                Step::Blank { end } => start = end,
                Step::Incomplete { wanted } => {
                    return Ok(Progress::Incomplete { consumed: start, wanted });
                }
            }
        }
    }

    #[inline]
    fn multibulk(
        &mut self,
        input: &[u8],
        start: usize,
        limits: &Limits,
        args: &mut Arguments,
    ) -> Result<Step, ProtocolError> {
        if let Some(remembered) = self.remembered.take() {
            return self.resume(*remembered, input, limits, args);
        }
        let Line::Value { value: count, next } = argument_count(input, start, limits)? else {
            return Ok(Step::Incomplete { wanted: 1 });
        };
        if count <= 0 {
            return Ok(Step::Blank { end: next });
        }
        args.clear();
        self.bulks(input, start, next, count as usize, limits, args)
    }

    #[cold]
    fn resume(
        &mut self,
        remembered: Remembered,
        input: &[u8],
        limits: &Limits,
        args: &mut Arguments,
    ) -> Result<Step, ProtocolError> {
        let Remembered { args: kept, position, missing_count } = remembered;
        *args = kept;
        self.bulks(input, 0, position, missing_count, limits, args)
    }

    #[inline]
    fn bulks(
        &mut self,
        input: &[u8],
        start: usize,
        mut position: usize,
        mut missing_count: usize,
        limits: &Limits,
        args: &mut Arguments,
    ) -> Result<Step, ProtocolError> {
        while missing_count > 0 {
            let (body, length) = match bulk_length(input, position, limits)? {
                Line::Value { value, next } => (next, value as usize),
                Line::Incomplete => {
                    return Ok(self.leave(start, position, missing_count, 1, args));
                }
            };
            // Cannot overflow: a length is at most i64::MAX and a position at most isize::MAX.
            let end = body + length;
            match input.get(end..end + 2) {
                Some(b"\r\n") => {}
                Some(_) => return Err(ProtocolError::InvalidCrlf),
                None => {
                    let wanted = end + 2 - input.len();
                    return Ok(self.leave(start, position, missing_count, wanted, args));
                }
            }
            args.push(body, length);
            position = end + 2;
            missing_count -= 1;
        }
        Ok(Step::Complete { end: position })
    }

    /// Stops in the middle of a request, and remembers where if reading it again would cost more than that.
    /// Behind blank requests, whose removal moves the input, it is read again once.
    #[cold]
    fn leave(
        &mut self,
        start: usize,
        position: usize,
        missing_count: usize,
        wanted: usize,
        args: &mut Arguments,
    ) -> Step {
        if start == 0 && args.len() >= REMEMBERED_ARGUMENT_COUNT_MIN {
            let args = std::mem::take(args);
            self.remembered = Some(Box::new(Remembered { args, position, missing_count }));
        }
        Step::Incomplete { wanted }
    }
}

/// Reads `*<count>` at `start`.
#[inline]
fn argument_count(input: &[u8], start: usize, limits: &Limits) -> Result<Line, ProtocolError> {
    if let [b'*', digit @ b'1'..=b'9', b'\r', b'\n', ..] = input[start..] {
        return Ok(Line::Value { value: i64::from(digit - b'0'), next: start + 4 });
    }
    long_argument_count(input, start, limits)
}

fn long_argument_count(input: &[u8], start: usize, limits: &Limits) -> Result<Line, ProtocolError> {
    let Some(end) = line_end(input, start, ProtocolError::TooBigMultibulkCount)? else {
        return Ok(Line::Incomplete);
    };
    if input[end + 1] != b'\n' {
        return Err(ProtocolError::InvalidCrlf);
    }
    let value = parse_integer(&input[start + 1..end])
        .filter(|&count| count <= ARGUMENT_COUNT_MAX)
        .ok_or(ProtocolError::InvalidMultibulkLength)?;
    if value > UNAUTHENTICATED_ARGUMENT_COUNT_MAX && !limits.authenticated {
        return Err(ProtocolError::UnauthenticatedMultibulkLength);
    }
    Ok(Line::Value { value, next: end + 2 })
}

/// Reads `$<length>` at `start`. Lengths of one and two digits, which are nearly all, take the short way.
#[inline]
fn bulk_length(input: &[u8], start: usize, limits: &Limits) -> Result<Line, ProtocolError> {
    match input[start..] {
        [b'$', ones @ b'0'..=b'9', b'\r', b'\n', ..] => {
            Ok(Line::Value { value: i64::from(ones - b'0'), next: start + 4 })
        }
        [b'$', tens @ b'1'..=b'9', ones @ b'0'..=b'9', b'\r', b'\n', ..] => {
            let value = i64::from(tens - b'0') * 10 + i64::from(ones - b'0');
            Ok(Line::Value { value, next: start + 5 })
        }
        _ => long_bulk_length(input, start, limits),
    }
}

fn long_bulk_length(input: &[u8], start: usize, limits: &Limits) -> Result<Line, ProtocolError> {
    let Some(end) = line_end(input, start, ProtocolError::TooBigBulkCount)? else {
        return Ok(Line::Incomplete);
    };
    if input[start] != b'$' {
        return Err(ProtocolError::ExpectedDollar(input[start]));
    }
    if input[end + 1] != b'\n' {
        return Err(ProtocolError::InvalidCrlf);
    }
    let value = parse_integer(&input[start + 1..end])
        .filter(|&length| length >= 0 && length as u64 <= limits.bulk_bytes_max as u64)
        .ok_or(ProtocolError::InvalidBulkLength)?;
    if value as u64 > UNAUTHENTICATED_BULK_BYTES_MAX && !limits.authenticated {
        return Err(ProtocolError::UnauthenticatedBulkLength);
    }
    Ok(Line::Value { value, next: end + 2 })
}

/// The position of the CR that ends the line at `start`, once the byte behind it is there too.
fn line_end(
    input: &[u8],
    start: usize,
    too_long: ProtocolError,
) -> Result<Option<usize>, ProtocolError> {
    let rest = &input[start..];
    match memchr(b'\r', &rest[..rest.len().min(INLINE_BYTES_MAX + 1)]) {
        Some(length) if length + 1 < rest.len() => Ok(Some(start + length)),
        Some(_) => Ok(None),
        None if rest.len() > INLINE_BYTES_MAX => Err(too_long),
        None => Ok(None),
    }
}

#[cold]
fn inline_request(input: &[u8], start: usize, args: &mut Arguments) -> Result<Step, ProtocolError> {
    let rest = &input[start..];
    let Some(length) = memchr(b'\n', &rest[..rest.len().min(INLINE_BYTES_MAX + 1)]) else {
        if rest.len() > INLINE_BYTES_MAX {
            return Err(ProtocolError::TooBigInline);
        }
        return Ok(Step::Incomplete { wanted: 1 });
    };
    let line = &rest[..length];
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    inline::split_into(line, args).map_err(|_| ProtocolError::UnbalancedQuotes)?;
    let end = start + length + 1;
    Ok(if args.is_empty() { Step::Blank { end } } else { Step::Complete { end } })
}
