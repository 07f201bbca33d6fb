//! Counts replies without building them.
//!
//! A load generator needs to know how many replies arrived and whether each was a value, a nil or
//! an error; decoding them would cost more than everything else it does. The scanner reads type
//! bytes and lengths, skips bodies arithmetically (also across receives, so that a value larger
//! than the buffer is never gathered), and keeps two numbers between calls.
//!
//! It trusts the server's framing but nothing else: a malformed length or type is an error, a line
//! without an end is bounded. It does not check UTF-8, nested types or numbers.

use std::fmt;

/// The longest line (error text, simple string) that is accepted.
const LINE_BYTES_MAX: usize = 64 * 1024;

/// Kind of a top-level reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplyKind {
    /// Anything that is neither of the others.
    Value,
    /// Null of either protocol version.
    Nil,
    /// An error.
    Error,
    /// A RESP3 push message: answers no request.
    Push,
}

/// One complete top-level reply.
#[derive(Clone, Copy, Debug)]
pub struct Reply<'a> {
    /// Kind of the reply.
    pub kind: ReplyKind,
    /// Its size on the wire.
    pub bytes: u64,
    /// Nulls inside an aggregate.
    pub nested_nils: u64,
    /// Elements of the outermost aggregate; 0 for others.
    pub elements: u64,
    /// All its bytes, when they were in one buffer (always so for errors and in `whole` mode).
    pub raw: Option<&'a [u8]>,
}

/// Bytes that are not RESP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScanError {
    /// Description of the invalid bytes.
    pub reason: String,
}

impl fmt::Display for ScanError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "the server sent something that is not RESP: {}", self.reason)
    }
}

impl std::error::Error for ScanError {}

/// State between receives.
#[derive(Clone, Debug, Default)]
pub struct Scanner {
    body_left: u64,
    elements_left: u64,
    kind: Option<ReplyKind>,
    nested_nils: u64,
    elements: u64,
    bytes_before: u64,
}

enum Line {
    Incomplete,
    /// Simple line that ends before this position.
    Simple(usize),
    /// Length line: value (-1 for null) and the position after it.
    Length(i64, usize),
}

impl Scanner {
    /// Reports every reply that ends in `buffer` and returns how many bytes were used; the rest is
    /// to be given again with more behind it. With `whole`, a reply is used up only when complete,
    /// so that `raw` is always there.
    ///
    /// # Errors
    /// When the bytes are not RESP.
    #[inline]
    pub fn scan<'a>(
        &mut self,
        buffer: &'a [u8],
        whole: bool,
        mut on_reply: impl FnMut(Reply<'a>),
    ) -> Result<usize, ScanError> {
        let mut at = 0;
        let mut start = if self.elements_left == 0 { Some(0) } else { None };
        while at < buffer.len() {
            if self.elements_left == 0 {
                start = Some(at);
                *self = Self::default();
                if let Some((kind, length)) = common_reply(&buffer[at..]) {
                    self.kind = Some(kind);
                    at += length;
                } else {
                    self.elements_left = 1;
                }
            }
            if self.elements_left > 0 {
                let Some(next) = self.take_part(buffer, at)? else { break };
                at = next;
            }
            if self.elements_left == 0 {
                let from = start.unwrap_or(0);
                on_reply(Reply {
                    kind: self.kind.unwrap_or(ReplyKind::Value),
                    bytes: self.bytes_before + (at - from) as u64,
                    nested_nils: self.nested_nils,
                    elements: self.elements,
                    raw: start.map(|start| &buffer[start..at]),
                });
            }
        }
        if self.elements_left > 0 {
            match start {
                Some(start) if whole => {
                    *self = Self::default();
                    return Ok(start);
                }
                // Nothing of the reply was used: it starts again with the next buffer.
                Some(start) if start == at => {
                    *self = Self::default();
                }
                from => self.bytes_before += (at - from.unwrap_or(0)) as u64,
            }
        }
        Ok(at)
    }

    /// Takes what there is of a body, or a header; `None` when that is not complete.
    fn take_part(&mut self, buffer: &[u8], at: usize) -> Result<Option<usize>, ScanError> {
        if self.body_left == 0 {
            return self.header(buffer, at);
        }
        let taken = self.body_left.min((buffer.len() - at) as u64);
        self.body_left -= taken;
        if self.body_left == 0 {
            self.elements_left -= 1;
        }
        Ok(Some(at + taken as usize))
    }

    /// Takes the header at `at`; `None` when it is not complete.
    #[inline]
    fn header(&mut self, buffer: &[u8], at: usize) -> Result<Option<usize>, ScanError> {
        let kind = buffer[at];
        let top = self.kind.is_none();
        let mut reply_kind = ReplyKind::Value;
        let next = match (kind, read_line(buffer, at)?) {
            (_, Line::Incomplete) => return Ok(None),
            (b'$' | b'=' | b'!', Line::Length(length, next)) => {
                if length >= 0 {
                    self.body_left = length as u64 + 2;
                } else {
                    self.elements_left -= 1;
                    reply_kind = ReplyKind::Nil;
                }
                if kind == b'!' {
                    reply_kind = ReplyKind::Error;
                }
                next
            }
            (b'|', Line::Length(length, next)) => {
                // Attributes precede the reply they belong to: they add elements and are none.
                self.claim(2 * length.max(0) as u64);
                return Ok(Some(next));
            }
            (_, Line::Length(length, next)) => {
                let width = if kind == b'%' { 2 } else { 1 };
                let elements = length.max(0) as u64 * width;
                self.elements_left -= 1;
                self.claim(elements);
                if top {
                    self.elements = elements;
                }
                match (kind, length) {
                    (_, -1) => reply_kind = ReplyKind::Nil,
                    (b'>', _) => reply_kind = ReplyKind::Push,
                    _ => {}
                }
                next
            }
            (_, Line::Simple(next)) => {
                self.elements_left -= 1;
                match kind {
                    b'-' => reply_kind = ReplyKind::Error,
                    b'_' => reply_kind = ReplyKind::Nil,
                    _ => {}
                }
                next
            }
        };
        if top {
            self.kind = Some(reply_kind);
        } else if reply_kind == ReplyKind::Nil {
            self.nested_nils += 1;
        }
        Ok(Some(next))
    }
}

impl Scanner {
    /// Nested aggregates may claim more elements than there are numbers: a reply that never ends.
    #[inline]
    fn claim(&mut self, elements: u64) {
        self.elements_left = self.elements_left.saturating_add(elements);
    }
}

/// Kind and length of a reply that is most of what loads receive, if all of it is there: `+OK`, a
/// nil, a string of up to 999 bytes.
#[inline]
fn common_reply(bytes: &[u8]) -> Option<(ReplyKind, usize)> {
    let digit = |byte: u8| usize::from(byte - b'0');
    let (header, body) = match *bytes {
        [b'+', b'O', b'K', b'\r', b'\n', ..] => return Some((ReplyKind::Value, 5)),
        [b'$', b'-', b'1', b'\r', b'\n', ..] => return Some((ReplyKind::Nil, 5)),
        [b'$', a @ b'0'..=b'9', b'\r', b'\n', ..] => (4, digit(a)),
        [b'$', a @ b'0'..=b'9', b @ b'0'..=b'9', b'\r', b'\n', ..] => (5, 10 * digit(a) + digit(b)),
        [b'$', a @ b'0'..=b'9', b @ b'0'..=b'9', c @ b'0'..=b'9', b'\r', b'\n', ..] => {
            (6, 100 * digit(a) + 10 * digit(b) + digit(c))
        }
        _ => return None,
    };
    let length = header + body + 2;
    (length <= bytes.len()).then_some((ReplyKind::Value, length))
}

#[inline]
fn read_line(buffer: &[u8], at: usize) -> Result<Line, ScanError> {
    match buffer[at] {
        b'$' | b'*' | b'%' | b'~' | b'>' | b'|' | b'=' | b'!' => read_length(buffer, at + 1),
        b'+' | b'-' | b':' | b'_' | b',' | b'#' | b'(' => {
            match memchr::memchr(b'\n', &buffer[at..]) {
                Some(length) => Ok(Line::Simple(at + length + 1)),
                None if buffer.len() - at > LINE_BYTES_MAX => {
                    Err(ScanError { reason: format!("a line of more than {LINE_BYTES_MAX} bytes") })
                }
                None => Ok(Line::Incomplete),
            }
        }
        other => Err(ScanError { reason: format!("type byte {:?}", other as char) }),
    }
}

#[inline]
fn read_length(buffer: &[u8], from: usize) -> Result<Line, ScanError> {
    let mut at = from;
    let mut length: i64 = 0;
    let negative = buffer.get(at) == Some(&b'-');
    if negative {
        at += 1;
    }
    let first_digit = at;
    while let Some(&byte) = buffer.get(at) {
        if byte.is_ascii_digit() {
            // Eighteen digits cannot overflow; no length comes near.
            if at - first_digit >= 18 {
                return Err(ScanError { reason: "a length of more than 18 digits".into() });
            }
            length = length * 10 + i64::from(byte - b'0');
            at += 1;
        } else if byte == b'\r' && at > first_digit {
            return match buffer.get(at + 1) {
                None => Ok(Line::Incomplete),
                Some(b'\n') if !negative => Ok(Line::Length(length, at + 2)),
                Some(b'\n') if length == 1 => Ok(Line::Length(-1, at + 2)),
                _ => Err(ScanError { reason: "a length line with a bad end".into() }),
            };
        } else {
            return Err(ScanError { reason: format!("byte {:?} in a length", byte as char) });
        }
    }
    Ok(Line::Incomplete)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every reply form of both protocol versions: wire bytes, kind, nested nils, elements.
    const FORMS: &[(&[u8], ReplyKind, u64, u64)] = &[
        (b"+OK\r\n", ReplyKind::Value, 0, 0),
        (b"+PONG\r\n", ReplyKind::Value, 0, 0),
        (b"-ERR no\r\n", ReplyKind::Error, 0, 0),
        (b":42\r\n", ReplyKind::Value, 0, 0),
        (b"$5\r\nhe\r\no\r\n", ReplyKind::Value, 0, 0),
        (b"$0\r\n\r\n", ReplyKind::Value, 0, 0),
        (b"$12\r\nhe\r\nhe\r\nhe\r\n\r\n", ReplyKind::Value, 0, 0),
        (
            b"$105\r\n+OK\r\n+OK\r\n+OK\r\n+OK\r\n+OK\r\n+OK\r\n+OK\r\n+OK\r\n+OK\r\n+OK\r\n\
              +OK\r\n+OK\r\n+OK\r\n+OK\r\n+OK\r\n+OK\r\n+OK\r\n+OK\r\n+OK\r\n+OK\r\n+OK\r\n\r\n",
            ReplyKind::Value,
            0,
            0,
        ),
        (b"$-1\r\n", ReplyKind::Nil, 0, 0),
        (b"*-1\r\n", ReplyKind::Nil, 0, 0),
        (b"_\r\n", ReplyKind::Nil, 0, 0),
        (b"*0\r\n", ReplyKind::Value, 0, 0),
        (b"*3\r\n$1\r\na\r\n$-1\r\n*2\r\n:1\r\n_\r\n", ReplyKind::Value, 2, 3),
        (b"%1\r\n+k\r\n~2\r\n#t\r\n,1.5\r\n", ReplyKind::Value, 0, 2),
        (b">2\r\n+invalidate\r\n*0\r\n", ReplyKind::Push, 0, 2),
        (b"|1\r\n+ttl\r\n:1\r\n$2\r\nhi\r\n", ReplyKind::Value, 0, 0),
        (b"!7\r\nERR bad\r\n", ReplyKind::Error, 0, 0),
        (b"=7\r\ntxt:abc\r\n", ReplyKind::Value, 0, 0),
        (b"(12345678901234567890\r\n", ReplyKind::Value, 0, 0),
    ];

    fn scan_in_pieces(wire: &[u8], cut: usize, whole: bool) -> Vec<(ReplyKind, u64, u64, u64)> {
        let mut scanner = Scanner::default();
        let mut replies = Vec::new();
        let mut kept: Vec<u8> = Vec::new();
        for piece in wire.chunks(cut) {
            kept.extend_from_slice(piece);
            let used = scanner
                .scan(&kept, whole, |reply| {
                    assert!(!whole || reply.raw.is_some());
                    replies.push((reply.kind, reply.nested_nils, reply.elements, reply.bytes));
                })
                .unwrap();
            kept.drain(..used);
        }
        assert!(kept.is_empty(), "left over: {kept:?}");
        replies
    }

    #[test]
    fn every_reply_form_is_counted_however_the_bytes_are_cut() {
        let wire: Vec<u8> = FORMS.iter().flat_map(|form| form.0.iter().copied()).collect();
        let expected: Vec<_> =
            FORMS.iter().map(|form| (form.1, form.2, form.3, form.0.len() as u64)).collect();
        for whole in [false, true] {
            for cut in 1..=wire.len() {
                assert_eq!(scan_in_pieces(&wire, cut, whole), expected, "cut {cut} whole {whole}");
            }
        }
    }

    #[test]
    fn bodies_larger_than_the_buffer_are_skipped_without_being_gathered() {
        let mut scanner = Scanner::default();
        let mut sizes = Vec::new();
        assert_eq!(scanner.scan(b"$1000000\r\n", false, |_| unreachable!()), Ok(10));
        for _ in 0..1000 {
            assert_eq!(scanner.scan(&[b'x'; 1000], false, |_| unreachable!()), Ok(1000));
        }
        assert_eq!(scanner.scan(b"\r\n+OK\r\n", false, |reply| sizes.push(reply.bytes)), Ok(7));
        assert_eq!(sizes, [1_000_012, 5]);
    }

    #[test]
    fn bytes_that_are_not_resp_are_an_error() {
        for wire in [&b"HTTP/1.1 400\r\n"[..], b"$x\r\n", b"$-2\r\n", b"*\r\n", b"$1\rx"] {
            assert!(Scanner::default().scan(wire, false, |_| {}).is_err(), "{wire:?}");
        }
        let digits = [&b"$"[..], &[b'9'; 19], b"\r\n"].concat();
        assert!(Scanner::default().scan(&digits, false, |_| {}).is_err());
        // More elements than 64 bits count, in two forms.
        let nested = b"%999999999999999999\r\n|999999999999999999\r\n".repeat(20);
        assert_eq!(Scanner::default().scan(&nested, false, |_| {}), Ok(nested.len()));
        let line = [&b"+"[..], &[b'x'; LINE_BYTES_MAX + 1]].concat();
        assert!(Scanner::default().scan(&line, false, |_| {}).is_err());
    }
}
