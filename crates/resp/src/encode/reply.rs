//! One method per kind of reply.

use bytes::Bytes;

use super::buffer::ReplyBuffer;
use super::framed::append_framed;
use super::header::ready_header;
use crate::number::{format_double, printed_as_integer};

/// Version of the protocol that a client speaks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protocol {
    /// Protocol of a connection before `HELLO 3`.
    #[default]
    Resp2,
    /// Typed replies, pushes and attributes.
    Resp3,
}

/// A text without the line ends around it.
fn trim_line_ends(text: &[u8]) -> &[u8] {
    let is_text = |byte: &u8| !matches!(byte, b'\r' | b'\n');
    let first = text.iter().position(is_text).unwrap_or(text.len());
    let end = text.iter().rposition(is_text).map_or(first, |last| last + 1);
    &text[first..end]
}

/// Kind of reply that contains others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Aggregate {
    /// A sequence.
    Array,
    /// Pairs; its length counts pairs. RESP2: an array of twice the length.
    Map,
    /// A sequence without order. RESP2: an array.
    Set,
    /// An out-of-band message. RESP2: an array.
    Push,
}

/// Aggregate whose length is yet to be given, see [`ReplyBuffer::begin`].
#[derive(Debug)]
#[must_use = "an aggregate that is begun has to be ended"]
pub struct Deferred {
    aggregate: Aggregate,
    at: u64,
    shared_count: usize,
}

/// Header with a placeholder for the length: right for none, one digit to overwrite below ten.
const UNKNOWN_LENGTH: [u8; 4] = *b"*0\r\n";

impl ReplyBuffer {
    /// `+<text>`; the text must not contain CR or LF.
    #[inline]
    pub fn simple_string(&mut self, text: &str) {
        debug_assert!(!text.contains(['\r', '\n']), "a status is one line");
        self.run.push(b'+');
        self.run.append(text.as_bytes());
        self.run.append(b"\r\n");
    }

    /// `+OK`.
    #[inline]
    pub fn ok(&mut self) {
        self.run.append(b"+OK\r\n");
    }

    /// `+QUEUED`.
    #[inline]
    pub fn queued(&mut self) {
        self.run.append(b"+QUEUED\r\n");
    }

    /// `+PONG`.
    #[inline]
    pub fn pong(&mut self) {
        self.run.append(b"+PONG\r\n");
    }

    /// `-<text>`, where the text begins with the error's code (`ERR`, `WRONGTYPE`). Because errors
    /// echo what clients sent, CR and LF become spaces, and are left out at both ends, as in Redis.
    pub fn error(&mut self, text: impl AsRef<[u8]>) {
        let text = trim_line_ends(text.as_ref());
        if !self.run.reserve(text.len() + 3) {
            return;
        }
        self.run.push(b'-');
        let one_line =
            text.iter().map(|&byte| if matches!(byte, b'\r' | b'\n') { b' ' } else { byte });
        self.run.bytes.extend(one_line);
        self.run.append(b"\r\n");
    }

    /// `:<value>`.
    #[inline]
    pub fn integer(&mut self, value: i64) {
        self.run.header(b':', value);
    }

    /// A string of any bytes, copied.
    #[inline(always)]
    pub fn bulk(&mut self, payload: impl AsRef<[u8]>) {
        let payload = payload.as_ref();
        match ready_header(b'$', payload.len()) {
            Some((header, header_bytes)) => {
                append_framed(&mut self.run, header, header_bytes, payload);
            }
            None => {
                self.run.header(b'$', payload.len() as i64);
                self.run.append(payload);
                self.run.append(b"\r\n");
            }
        }
    }

    /// A string of any bytes, inserted by reference: worth it for payloads of some KiB and more.
    pub fn bulk_shared(&mut self, payload: Bytes) {
        self.run.header(b'$', payload.len() as i64);
        self.insert_shared(payload);
        self.run.append(b"\r\n");
    }

    /// A string that is the decimal form of `value`: the answer of commands that read an integer as
    /// a string.
    #[inline]
    pub fn bulk_integer(&mut self, value: i64) {
        self.bulk(itoa::Buffer::new().format(value));
    }

    /// No value. RESP2: the null string.
    #[inline]
    pub fn null(&mut self) {
        match self.protocol {
            Protocol::Resp2 => self.run.append(b"$-1\r\n"),
            Protocol::Resp3 => self.run.append(b"_\r\n"),
        }
    }

    /// No value where there would be an array. RESP2: the null array.
    #[inline]
    pub fn null_array(&mut self) {
        match self.protocol {
            Protocol::Resp2 => self.run.append(b"*-1\r\n"),
            Protocol::Resp3 => self.run.append(b"_\r\n"),
        }
    }

    /// An array; `count` replies follow.
    #[inline]
    pub fn array(&mut self, count: usize) {
        self.run.header(b'*', count as i64);
    }

    /// A map; `count` pairs of replies follow. RESP2: an array of twice as many.
    #[inline]
    pub fn map(&mut self, count: usize) {
        self.aggregate(Aggregate::Map, count);
    }

    /// A set; `count` replies follow. RESP2: an array.
    #[inline]
    pub fn set(&mut self, count: usize) {
        self.aggregate(Aggregate::Set, count);
    }

    /// An out-of-band message; `count` replies follow. RESP2: an array.
    #[inline]
    pub fn push(&mut self, count: usize) {
        self.aggregate(Aggregate::Push, count);
    }

    /// The header of an aggregate of known length.
    #[inline]
    pub fn aggregate(&mut self, aggregate: Aggregate, count: usize) {
        let (kind, count) = aggregate.header(self.protocol, count);
        self.run.header(kind, count as i64);
    }

    /// Attributes of the reply that follows them: `count` pairs. False in RESP2, which has none:
    /// nothing was written, and the pairs must not be written either.
    #[must_use = "in RESP2 the pairs must not be written"]
    pub fn attribute(&mut self, count: usize) -> bool {
        let has_attributes = self.protocol == Protocol::Resp3;
        if has_attributes {
            self.run.header(b'|', count as i64);
        }
        has_attributes
    }

    /// A floating-point number, in Redis's shortest form. RESP2: that form as a string.
    pub fn double(&mut self, value: f64) {
        match (self.protocol, printed_as_integer(value)) {
            (Protocol::Resp2, Some(integer)) => self.bulk_integer(integer),
            (Protocol::Resp2, None) => self.bulk(format_double(value).as_str()),
            (Protocol::Resp3, _) => self.line(b',', format_double(value).as_str()),
        }
    }

    /// A floating-point number whose digits are given. RESP2: a string.
    pub fn double_text(&mut self, digits: &str) {
        match self.protocol {
            Protocol::Resp2 => self.bulk(digits),
            Protocol::Resp3 => self.line(b',', digits),
        }
    }

    /// A truth value. RESP2: 1 or 0.
    #[inline]
    pub fn boolean(&mut self, value: bool) {
        self.run.append(match (self.protocol, value) {
            (Protocol::Resp2, true) => b":1\r\n",
            (Protocol::Resp2, false) => b":0\r\n",
            (Protocol::Resp3, true) => b"#t\r\n",
            (Protocol::Resp3, false) => b"#f\r\n",
        });
    }

    /// An integer of any size, given as digits. RESP2: a string.
    pub fn big_number(&mut self, digits: &str) {
        match self.protocol {
            Protocol::Resp2 => self.bulk(digits),
            Protocol::Resp3 => self.line(b'(', digits),
        }
    }

    /// Text with a three-letter format (`txt`, `mkd`). RESP2: a string.
    pub fn verbatim(&mut self, format: [u8; 3], text: impl AsRef<[u8]>) {
        let text = text.as_ref();
        match self.protocol {
            Protocol::Resp2 => self.bulk(text),
            Protocol::Resp3 => {
                self.run.header(b'=', text.len() as i64 + 4);
                self.run.append(&format);
                self.run.push(b':');
                self.run.append(text);
                self.run.append(b"\r\n");
            }
        }
    }

    /// Bytes that are a reply, or part of one, already.
    #[inline]
    pub fn raw(&mut self, bytes: &[u8]) {
        self.run.append(bytes);
    }

    /// As [`raw`](Self::raw), inserted by reference.
    pub fn raw_shared(&mut self, bytes: Bytes) {
        self.insert_shared(bytes);
    }

    /// Begins an aggregate whose length is known at its end only. Aggregates begun inside it must
    /// be ended before it.
    ///
    /// Costs four bytes and, from ten elements on, one move of the bytes behind them: far less than
    /// producing them.
    pub fn begin(&mut self, aggregate: Aggregate) -> Deferred {
        let deferred = Deferred { aggregate, at: self.end(), shared_count: self.shared.len() };
        self.run.append(&UNKNOWN_LENGTH);
        deferred
    }

    /// Gives an aggregate its length: elements, or pairs of a map.
    pub fn end_with(&mut self, deferred: Deferred, count: usize) {
        let (kind, count) = deferred.aggregate.header(self.protocol, count);
        let start = (deferred.at - self.base) as usize;
        let mut digits = itoa::Buffer::new();
        let digits = digits.format(count).as_bytes();
        // The header may be missing after a failure.
        if self.run.has_failed() || !self.run.reserve(digits.len()) {
            return;
        }
        self.run.bytes[start] = kind;
        if count < 10 {
            self.run.bytes[start + 1] = b'0' + count as u8;
            return;
        }
        self.run.bytes.splice(start + 1..start + 2, digits.iter().copied());
        for shared in self.shared.range_mut(deferred.shared_count..) {
            shared.at += digits.len() as u64 - 1;
        }
    }

    fn line(&mut self, kind: u8, text: &str) {
        self.run.push(kind);
        self.run.append(text.as_bytes());
        self.run.append(b"\r\n");
    }
}

impl Aggregate {
    #[inline]
    fn header(self, protocol: Protocol, count: usize) -> (u8, usize) {
        match (protocol, self) {
            (Protocol::Resp2, Aggregate::Map) => (b'*', count * 2),
            (Protocol::Resp2, _) | (Protocol::Resp3, Aggregate::Array) => (b'*', count),
            (Protocol::Resp3, Aggregate::Map) => (b'%', count),
            (Protocol::Resp3, Aggregate::Set) => (b'~', count),
            (Protocol::Resp3, Aggregate::Push) => (b'>', count),
        }
    }
}
