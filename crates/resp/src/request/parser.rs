//! Resumable parser of the requests of one connection.

use std::ops::Range;

use memchr::memchr;

use super::arguments::{Arguments, SharedBytes};
use super::error::ProtocolError;
use super::inline;
use crate::limits::{
    ARGUMENT_COUNT_MAX, BULK_BYTES_MAX, INLINE_BYTES_MAX, REMEMBERED_ARGUMENT_COUNT_MIN,
    UNAUTHENTICATED_ARGUMENT_COUNT_MAX, UNAUTHENTICATED_BULK_BYTES_MAX,
};
use crate::number::parse_integer;

/// Limits of the requests of one client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Longest argument, `proto-max-bulk-len`, in bytes.
    pub bulk_bytes_max: usize,
    /// True if the client may send requests of any size; false until it has authenticated.
    pub authenticated: bool,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { bulk_bytes_max: BULK_BYTES_MAX, authenticated: true }
    }
}

/// Result of parsing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// A whole request. The next one begins `consumed` bytes into the input.
    Complete {
        /// Bytes of the input up to the end of the request, blank requests before it included.
        consumed: usize,
    },
    /// No whole request yet. Drop `consumed` bytes, keep the rest, and call again with more bytes
    /// behind it.
    Incomplete {
        /// Bytes of blank requests, which are not needed any more.
        consumed: usize,
        /// Least number of bytes that the request lacks: a buffer should have room for them. A
        /// client may claim as much as the limits allow and never send it, so reserve with care.
        wanted: usize,
    },
}

/// Last argument of a request, received into memory of its own.
#[derive(Clone, Copy, Debug)]
pub struct LargeArgument<'a> {
    /// Position in the input at which its bytes would begin. Those behind it follow there.
    pub position: usize,
    /// All of its bytes.
    pub bytes: &'a SharedBytes,
}

/// Incomplete request of many arguments, and the position where parsing stopped.
#[derive(Debug)]
struct Remembered {
    args: Arguments,
    position: usize,
    missing_count: usize,
}

/// Parser that finds one request after the other in the bytes of one connection: one pointer, null
/// while no request is half-read. After an error the parser and the connection are finished.
#[derive(Debug, Default)]
pub struct RequestParser {
    remembered: Option<Box<Remembered>>,
}

/// Result of one attempt at a request; positions count from the start of the input.
enum Step {
    Complete { end: usize },
    Blank { end: usize },
    Incomplete { wanted: usize },
}

/// Result of reading a line with a length.
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

    /// True if the parser holds no part of a request by itself.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.remembered.is_none()
    }

    /// Bytes of memory that the parser takes besides itself: none unless it holds part of a
    /// request.
    #[must_use]
    pub fn allocated_bytes(&self) -> usize {
        let remembered = self.remembered.as_ref();
        remembered.map_or(0, |held| size_of::<Remembered>() + held.args.allocated_bytes())
    }

    /// Parses the first request of `input` into `args`. Blank requests (an empty line, `*0`, a
    /// negative count) are skipped. After [`Progress::Incomplete`] the next input has to begin with
    /// the bytes that were not consumed.
    ///
    /// # Errors
    /// [`ProtocolError`] as Valkey 9.1 would answer; the connection has to be closed.
    #[inline(always)]
    pub fn parse(
        &mut self,
        input: &[u8],
        limits: &Limits,
        args: &mut Arguments,
    ) -> Result<Progress, ProtocolError> {
        if self.remembered.is_none()
            && let Some(consumed) = short_request(input, args)
        {
            return Ok(Progress::Complete { consumed });
        }
        self.parse_any((input, None), limits, args)
    }

    /// As [`parse`](Self::parse), of an input that lacks the bytes of one argument.
    ///
    /// # Errors
    /// As [`parse`](Self::parse).
    pub fn parse_with_large(
        &mut self,
        input: &[u8],
        large: LargeArgument<'_>,
        limits: &Limits,
        args: &mut Arguments,
    ) -> Result<Progress, ProtocolError> {
        self.parse_any((input, Some(large)), limits, args)
    }

    /// Place of the last argument of the request that begins `input`, if all before it is there,
    /// and it can be received into memory of its own. The place may be behind the end of the input.
    #[must_use]
    pub fn last_argument(&self, input: &[u8]) -> Option<Range<usize>> {
        // Parsing has compared the lengths with those of the client.
        let limits = &Limits { bulk_bytes_max: usize::MAX, authenticated: true };
        let value = |line: Result<Line, ProtocolError>| match line {
            Ok(Line::Value { value, next }) => Some((usize::try_from(value).ok()?, next)),
            _ => None,
        };
        if !self.is_idle() || input.first() != Some(&b'*') {
            return None;
        }
        let (count, mut position) = value(argument_count(input, 0, limits))?;
        // Of more arguments, it would be found again and again.
        if count > REMEMBERED_ARGUMENT_COUNT_MIN {
            return None;
        }
        for _ in 1..count {
            let (length, start) = value(bulk_length(input, position, limits))?;
            position = start + length + 2;
            // None if the next line is not there.
            input.get(position)?;
        }
        let (length, start) = value(bulk_length(input, position, limits))?;
        (count > 0).then(|| start..start + length)
    }

    fn parse_any(
        &mut self,
        (input, large): (&[u8], Option<LargeArgument<'_>>),
        limits: &Limits,
        args: &mut Arguments,
    ) -> Result<Progress, ProtocolError> {
        let mut start = 0;
        loop {
            let step = match input.get(start) {
                None => Step::Incomplete { wanted: 1 },
                Some(b'*') => self.multibulk((input, large), start, limits, args)?,
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

    fn multibulk(
        &mut self,
        (input, large): (&[u8], Option<LargeArgument<'_>>),
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
        self.bulks((input, large), (start, next), count as usize, limits, args)
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
        self.bulks((input, None), (0, position), missing_count, limits, args)
    }

    fn bulks(
        &mut self,
        (input, large): (&[u8], Option<LargeArgument<'_>>),
        (start, mut position): (usize, usize),
        mut missing_count: usize,
        limits: &Limits,
        args: &mut Arguments,
    ) -> Result<Step, ProtocolError> {
        while missing_count > 0 {
            // A large argument is elsewhere, behind a head that may be followed by anything.
            if large.is_none()
                && let Some((body, length)) = short_argument(input, position)
            {
                if !args.try_push(body, length) {
                    return Err(ProtocolError::NoMemory);
                }
                position = body + length + 2;
                missing_count -= 1;
                continue;
            }
            let (body, length) = match bulk_length(input, position, limits)? {
                Line::Value { value, next } => (next, value as usize),
                Line::Incomplete => {
                    return Ok(self.leave(start, position, missing_count, 1, args));
                }
            };
            let large = large.filter(|large| large.position == body);
            // Cannot overflow: a length is at most i64::MAX and a position at most isize::MAX.
            let end = if large.is_some() { body } else { body + length };
            match input.get(end..end + 2) {
                Some(b"\r\n") => {}
                Some(_) => return Err(ProtocolError::InvalidCrlf),
                None => {
                    let wanted = end + 2 - input.len();
                    return Ok(self.leave(start, position, missing_count, wanted, args));
                }
            }
            if let Some(large) = large {
                args.push_large(large.bytes);
            } else if !args.try_push(body, length) {
                return Err(ProtocolError::NoMemory);
            }
            position = end + 2;
            missing_count -= 1;
        }
        Ok(Step::Complete { end: position })
    }

    /// Stops in the middle of a request, and remembers the position if reading it again would cost
    /// more than that. Behind blank requests, whose removal moves the input, it is read again once.
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

/// Fast path: reads a whole request of up to nine arguments of up to 99 bytes each, as nearly all
/// are; returns its length. Any other request, wrong or incomplete, is left to the slow path, which
/// begins anew.
#[inline]
fn short_request(input: &[u8], args: &mut Arguments) -> Option<usize> {
    let [b'*', count @ b'1'..=b'9', b'\r', b'\n', ..] = *input else { return None };
    args.clear();
    short_arguments(input, 4, count - b'0', args)
}

/// Reads `count` arguments from `position` on, each of up to 99 bytes; returns the position behind
/// them.
#[inline(always)]
pub(super) fn short_arguments(
    input: &[u8],
    mut position: usize,
    count: u8,
    args: &mut Arguments,
) -> Option<usize> {
    for _ in 0..count {
        let (start, length) = short_argument(input, position)?;
        args.push(start, length);
        position = start + length + 2;
    }
    Some(position)
}

/// Start and length of a whole argument of up to 99 bytes at a position.
#[inline(always)]
fn short_argument(input: &[u8], position: usize) -> Option<(usize, usize)> {
    let head = eight_bytes(input, position)?;
    let digit = |index: u32| ((head >> (8 * index)) as u8).wrapping_sub(b'0');
    let (length, header_bytes) = if head & 0xffff_00ff == HEADER_OF_ONE_DIGIT {
        let ones = digit(1);
        if ones > 9 {
            return None;
        }
        (ones, 4)
    } else if head & 0xff_ff00_00ff == HEADER_OF_TWO_DIGITS {
        let (tens, ones) = (digit(1), digit(2));
        // A leading zero is left to the slow path too, which refuses it.
        if tens.wrapping_sub(1) > 8 || ones > 9 {
            return None;
        }
        (tens * 10 + ones, 5)
    } else {
        return None;
    };
    let (start, length) = (position + header_bytes, usize::from(length));
    (input.get(start + length..)?.first_chunk()? == b"\r\n").then_some((start, length))
}

/// Eight bytes from `position` on, little-endian; zeros behind the end of the input.
#[inline]
fn eight_bytes(input: &[u8], position: usize) -> Option<u64> {
    let rest = input.get(position..)?;
    if let Some(bytes) = rest.first_chunk() {
        return Some(u64::from_le_bytes(*bytes));
    }
    let last = u64::from_le_bytes(*input.last_chunk()?);
    last.checked_shr(64 - 8 * rest.len() as u32)
}

/// `$?\r\n`, little-endian, without the digit.
const HEADER_OF_ONE_DIGIT: u64 = 0x0a0d_0024;
/// `$??\r\n`, little-endian, without the digits.
const HEADER_OF_TWO_DIGITS: u64 = 0x0a_0d00_0024;

/// Reads `*<count>` at `start`.
fn argument_count(input: &[u8], start: usize, limits: &Limits) -> Result<Line, ProtocolError> {
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

/// Reads `$<length>` at `start`.
fn bulk_length(input: &[u8], start: usize, limits: &Limits) -> Result<Line, ProtocolError> {
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

/// Position of the CR that ends the line at `start`, once the byte behind it is there too.
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::encode::encode;
    use super::*;

    #[test]
    fn requests_in_unusual_form_are_left_to_the_slow_path() {
        for input in [
            "*1\r\n$04\r\nPING\r\n",
            "*1\r\n$+4\r\nPING\r\n",
            "*1\r\n$:\r\n0123456789\r\n",
            "*1\r\n$4 \r\nPING\r\n",
            "*01\r\n$4\r\nPING\r\n",
            "*0\r\n",
            "*1\r\n$4\r\nPING\n\r",
            "*1\n\r$4\r\nPING\r\n",
            "*1\r\n#4\r\nPING\r\n",
        ] {
            let followed = [input, "*1\r\n$4\r\nPING\r\n"].concat();
            assert_eq!(
                short_request(followed.as_bytes(), &mut Arguments::new()),
                None,
                "{input:?}"
            );
        }
    }

    proptest! {
        /// A request that the fast path reads is read alike by the slow path, and short requests
        /// are read by the fast path.
        #[test]
        fn fast_path_and_slow_path_agree(
            arguments in proptest::collection::vec(
                proptest::collection::vec(any::<u8>(), 0..120),
                1..12,
            ),
            // Byte to overwrite, if it is within the request, its new value, and the length at
            // which the input is cut.
            (at, byte) in (
                0_usize..120,
                prop_oneof![Just(b'0'), Just(b'\r'), b'0'..=b':', any::<u8>()],
            ),
            cut in 0_usize..400,
        ) {
            let whole = encode(&arguments.iter().map(Vec::as_slice).collect::<Vec<_>>());
            let mut short = Arguments::new();
            let is_short = arguments.len() <= 9 && arguments.iter().all(|bytes| bytes.len() <= 99);
            let followed = [&whole[..], b"*1\r\n$4\r\nPING\r\n"].concat();
            for input in [&whole, &followed] {
                prop_assert_eq!(short_request(input, &mut short), is_short.then_some(whole.len()));
            }
            let mut broken = whole.clone();
            if let Some(place) = broken.get_mut(at) {
                *place = byte;
            }
            for input in [&whole[..], &broken, &whole[..cut.min(whole.len())]] {
                let Some(consumed) = short_request(input, &mut short) else { continue };
                let mut slow = Arguments::new();
                let mut parser = RequestParser::new();
                let read = parser.parse_any((input, None), &Limits::default(), &mut slow);
                prop_assert_eq!(read, Ok(Progress::Complete { consumed }));
                let (one, other) = (short.view(input), slow.view(input));
                prop_assert!(one.iter().eq(other.iter()));
            }
        }
    }
}
