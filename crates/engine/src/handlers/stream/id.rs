//! Ids in arguments and replies.

use std::ops::Deref;

use smallvec::SmallVec;
use tidemill_resp::encode::ReplyBuffer;
use tidemill_store::value::stream::StreamId;

use crate::access::options::parse_unsigned;
use crate::error::CommandError;

const INVALID: CommandError = CommandError::Text(std::borrow::Cow::Borrowed(
    "ERR Invalid stream ID specified as stream command argument",
));

/// Longest id that is read at all.
const ID_BYTES_MAX: usize = 127;

/// Id whose number may be left to the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum GivenId {
    /// `ms-seq`
    Whole(StreamId),
    /// `ms-*`
    Milliseconds(u64),
}

/// Digits of which no number is too great for 64 bits.
const SAFE_DIGITS: usize = 19;

/// A number of 64 bits, as C reads one; nearly all are digits only.
#[inline]
fn number(text: &[u8]) -> Option<u64> {
    digits_only(text).or_else(|| parse_unsigned(text))
}

#[inline]
fn digits_only(text: &[u8]) -> Option<u64> {
    let (safe, rest) = text.split_at(text.len().min(SAFE_DIGITS));
    if safe.is_empty() {
        return None;
    }
    let digit = |byte: u8| Some(u64::from(byte.wrapping_sub(b'0'))).filter(|&digit| digit < 10);
    let mut number = 0_u64;
    for &byte in safe {
        number = 10 * number + digit(byte)?;
    }
    for &byte in rest {
        number = number.checked_mul(10)?.checked_add(digit(byte)?)?;
    }
    Some(number)
}

/// An id's text as C sees it; none of one that is too long.
fn c_text(text: &[u8]) -> Option<&[u8]> {
    (text.len() <= ID_BYTES_MAX).then(|| crate::error::until_nul(text))
}

/// The id `ms-seq`, or `ms` with another number.
fn parse(text: &[u8], missing_seq: u64) -> Option<StreamId> {
    let text = c_text(text)?;
    match text.iter().position(|&byte| byte == b'-') {
        Some(at) => Some(StreamId { ms: number(&text[..at])?, seq: number(&text[at + 1..])? }),
        None => Some(StreamId { ms: number(text)?, seq: missing_seq }),
    }
}

/// An id without `-` and `+`; its number is 0 if it is missing.
pub(super) fn strict(text: &[u8]) -> Result<StreamId, CommandError> {
    parse(text, 0).ok_or(INVALID)
}

/// As [`strict`], or the least or the greatest id.
pub(super) fn lenient(text: &[u8], missing_seq: u64) -> Result<StreamId, CommandError> {
    match c_text(text) {
        Some(b"-") => Ok(StreamId::MIN),
        Some(b"+") => Ok(StreamId::MAX),
        _ => parse(text, missing_seq).ok_or(INVALID),
    }
}

/// As [`strict`], or `ms-*`.
pub(super) fn given(text: &[u8]) -> Result<GivenId, CommandError> {
    if let Some(ms) = c_text(text).and_then(|text| text.strip_suffix(b"-*")) {
        return number(ms).map(GivenId::Milliseconds).ok_or(INVALID);
    }
    strict(text).map(GivenId::Whole)
}

/// All ids from an argument on.
pub(super) fn all<'a>(
    arguments: impl Iterator<Item = &'a [u8]>,
) -> Result<SmallVec<[StreamId; 8]>, CommandError> {
    let mut ids = SmallVec::new();
    for argument in arguments {
        ids.push(strict(argument)?);
    }
    Ok(ids)
}

/// First id of an interval.
pub(super) fn start(text: &[u8]) -> Result<StreamId, CommandError> {
    match text {
        [b'(', _, ..] => {
            let after = strict(&text[1..])?.next();
            after.ok_or_else(|| "ERR invalid start ID for the interval".into())
        }
        _ => lenient(text, 0),
    }
}

/// Last id of an interval.
pub(super) fn end(text: &[u8]) -> Result<StreamId, CommandError> {
    match text {
        [b'(', _, ..] => {
            let id = parse(&text[1..], u64::MAX).ok_or(INVALID)?;
            id.previous().ok_or_else(|| "ERR invalid end ID for the interval".into())
        }
        _ => lenient(text, u64::MAX),
    }
}

/// Longest text of an id: two numbers of twenty digits.
const ID_TEXT_BYTES_MAX: usize = 41;

/// Text of an id.
#[derive(Clone, Copy, Debug)]
pub(super) struct IdText {
    /// The text is at the end.
    bytes: [u8; ID_TEXT_BYTES_MAX],
    start: usize,
}

impl Deref for IdText {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[self.start..]
    }
}

impl AsRef<[u8]> for IdText {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

/// The id as clients see it.
pub(super) fn text(id: StreamId) -> IdText {
    let mut text = IdText { bytes: [0; ID_TEXT_BYTES_MAX], start: ID_TEXT_BYTES_MAX };
    text.put_digits(id.seq);
    text.put(b'-');
    text.put_digits(id.ms);
    text
}

impl IdText {
    #[inline]
    fn put(&mut self, byte: u8) {
        self.start -= 1;
        self.bytes[self.start] = byte;
    }

    /// Puts a number before what is there.
    #[inline]
    fn put_digits(&mut self, number: u64) {
        if number < 10 {
            return self.put(b'0' + number as u8);
        }
        let mut buffer = itoa::Buffer::new();
        let digits = buffer.format(number).as_bytes();
        let end = self.start;
        self.start -= digits.len();
        self.bytes[self.start..end].copy_from_slice(digits);
    }
}

/// Answers an id.
pub(super) fn reply(reply: &mut ReplyBuffer, id: StreamId) {
    reply.bulk(text(id));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(ms: u64, seq: u64) -> StreamId {
        StreamId { ms, seq }
    }

    #[test]
    fn ids_are_read_as_valkey_reads_them() {
        assert_eq!(strict(b"5").ok(), Some(id(5, 0)));
        assert_eq!(strict(b"05-1").ok(), Some(id(5, 1)));
        assert_eq!(strict(b"18446744073709551615-1").ok(), Some(id(u64::MAX, 1)));
        assert_eq!(strict(b"0000000000000000000000007-1").ok(), Some(id(7, 1)));
        for text in
            ["", "-", "+", "5-", "-5", "5-x", "5-1-1", "99999999999999999999", "5--6", "5 ", "++5"]
        {
            assert!(strict(text.as_bytes()).is_err(), "{text}");
        }
        for text in [" 5", "+5", "\t+5", "5-0", "5- +0", "5\0x", "5-+0\0-"] {
            assert_eq!(strict(text.as_bytes()).ok(), Some(id(5, 0)), "{text}");
        }
        assert_eq!(strict(b"5- -6").ok(), Some(id(5, u64::MAX - 5)));
        assert!(strict(&[&b"5\0"[..], &[b'x'; 126]].concat()).is_err(), "too long as a whole");
        for text in ["18446744073709551616", "18446744073709551615x", "1/2", "1:2"] {
            assert!(strict(text.as_bytes()).is_err(), "{text}");
        }
        assert_eq!(given(b"5-*").ok(), Some(GivenId::Milliseconds(5)));
        assert_eq!(given(b"+5-*\0x").ok(), Some(GivenId::Milliseconds(5)));
        assert!(given(b"-*").is_err() && given(b"*").is_err());
        assert_eq!(end(b"5").ok(), Some(id(5, u64::MAX)));
        assert_eq!(end(b"(5").ok(), Some(id(5, u64::MAX - 1)));
        assert_eq!(start(b"(5").ok(), Some(id(5, 1)));
        assert_eq!(start(b"-").ok(), Some(StreamId::MIN));
        assert_eq!(end(b"+\0x").ok(), Some(StreamId::MAX));
        assert!(start(b"(").is_err() && start(b"(-").is_err());
    }

    #[test]
    fn a_text_is_read_back() {
        for (ms, seq) in [(0, 0), (9, 10), (10, 9), (1_700_000_000_000, 99), (u64::MAX, u64::MAX)] {
            assert_eq!(&*text(id(ms, seq)), format!("{ms}-{seq}").as_bytes());
        }
    }
}
