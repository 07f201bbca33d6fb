//! Listpacks, in which small collections are kept since Redis 7.0.
//!
//! ```text
//! bytes: u32 | count: u16 | head | body | back length | ... | 255
//! ```
//!
//! The back length is that of head and body, seven bits per byte, the last one first.

use std::collections::TryReserveError;

use tidemill_resp::number::parse_integer;

use super::{Bytes, integer_of_24_bits};
use crate::error::DecodeError;
use crate::limits::LISTPACK_ELEMENT_OVERHEAD_BYTES;
use crate::text::Text;

const HEADER_BYTES: usize = 6;
const END: u8 = 255;

/// Count from which on the elements have to be counted.
const COUNT_UNKNOWN: u16 = u16::MAX;

/// Digits of the longest integer, with its sign.
const INTEGER_BYTES_MAX: usize = 20;

/// Elements that were not read yet.
#[derive(Clone, Debug)]
pub(crate) struct Listpack<'b> {
    bytes: Bytes<'b>,
    at: usize,
    element_count: u64,
}

impl<'b> Listpack<'b> {
    pub(crate) fn new(bytes: Bytes<'b>) -> Result<Listpack<'b>, DecodeError> {
        let total = u32::from_le_bytes(bytes.array(0, "the size of a listpack")?);
        if total as usize != bytes.bytes.len() {
            return Err(bytes.error(0, "the size of a listpack", total.into()));
        }
        bytes.get(0, HEADER_BYTES, "the header of a listpack")?;
        Ok(Listpack { bytes, at: HEADER_BYTES, element_count: 0 })
    }

    /// Bytes behind the elements that were read.
    pub(crate) fn unread_bytes(&self) -> usize {
        self.bytes.bytes.len() - self.at
    }

    /// Offset of the next element in the input.
    pub(crate) fn offset(&self) -> u64 {
        self.bytes.base + self.at as u64
    }

    pub(crate) fn next(&mut self) -> Result<Option<Text<'b>>, DecodeError> {
        if self.bytes.byte(self.at, "an element of a listpack")? == END {
            return self.end();
        }
        let (text, end) = element(self.bytes, self.at)?;
        let (back, back_bytes) = back_length(end - self.at);
        let expected = "the back length of an element";
        let found = self.bytes.get(end, back_bytes, expected)?;
        if found != &back[..back_bytes] {
            return Err(self.bytes.error(end, expected, found[0].into()));
        }
        self.at = end + back_bytes;
        self.element_count += 1;
        Ok(Some(text))
    }

    fn end(&self) -> Result<Option<Text<'b>>, DecodeError> {
        let bytes = self.bytes;
        if self.at + 1 != bytes.bytes.len() {
            let behind = bytes.bytes.len() - self.at - 1;
            return Err(bytes.error(self.at + 1, "the end of a listpack", behind as u64));
        }
        let count = u16::from_le_bytes(bytes.array(4, "the count of a listpack")?);
        if count != COUNT_UNKNOWN && u64::from(count) != self.element_count {
            return Err(bytes.error(4, "as many elements as there are", count.into()));
        }
        Ok(None)
    }
}

/// The element that begins at `at`, and where its body ends.
fn element<'b>(bytes: Bytes<'b>, at: usize) -> Result<(Text<'b>, usize), DecodeError> {
    let expected = "an element of a listpack";
    let head = bytes.byte(at, expected)?;
    let text = |at, length| {
        let text = bytes.get(at, length, "a string in a listpack")?;
        Ok((Text::Bytes(text), at + length))
    };
    let (value, body_bytes) = match head {
        0..=0x7f => (i64::from(head), 0),
        0x80..=0xbf => return text(at + 1, usize::from(head & 63)),
        0xc0..=0xdf => {
            let low = bytes.byte(at + 1, expected)?;
            let bits = i64::from(head & 31) << 8 | i64::from(low);
            (bits << 51 >> 51, 1)
        }
        0xe0..=0xef => {
            let low = usize::from(bytes.byte(at + 1, expected)?);
            return text(at + 2, usize::from(head & 15) << 8 | low);
        }
        0xf0 => {
            let length = u32::from_le_bytes(bytes.array(at + 1, expected)?);
            return text(at + 5, length as usize);
        }
        0xf1 => (i16::from_le_bytes(bytes.array(at + 1, expected)?).into(), 2),
        0xf2 => (integer_of_24_bits(bytes.array(at + 1, expected)?), 3),
        0xf3 => (i32::from_le_bytes(bytes.array(at + 1, expected)?).into(), 4),
        0xf4 => (i64::from_le_bytes(bytes.array(at + 1, expected)?), 8),
        _ => return Err(bytes.error(at, "the head of an element", head.into())),
    };
    Ok((Text::Integer(value), at + 1 + body_bytes))
}

/// Bytes of the back length of an element, and how many they are.
fn back_length(length: usize) -> ([u8; 5], usize) {
    let bytes = match length {
        0..=127 => 1,
        128..=16_382 => 2,
        16_383..=2_097_150 => 3,
        2_097_151..=268_435_454 => 4,
        _ => 5,
    };
    let mut back = [0; 5];
    for (index, byte) in back[..bytes].iter_mut().enumerate() {
        let seven_bits = (length >> (7 * (bytes - 1 - index)) & 127) as u8;
        *byte = if index == 0 { seven_bits } else { seven_bits | 128 };
    }
    (back, bytes)
}

/// Listpack under construction.
#[derive(Debug)]
pub(crate) struct Builder {
    bytes: Vec<u8>,
    element_count: u64,
}

impl Default for Builder {
    fn default() -> Builder {
        Builder { bytes: vec![0; HEADER_BYTES], element_count: 0 }
    }
}

impl Builder {
    pub(crate) fn is_empty(&self) -> bool {
        self.element_count == 0
    }

    /// Bytes of the finished listpack.
    pub(crate) fn total_bytes(&self) -> usize {
        self.bytes.len() + 1
    }

    pub(crate) fn element_count(&self) -> u64 {
        self.element_count
    }

    /// The elements as they are stored.
    pub(crate) fn body(&self) -> &[u8] {
        &self.bytes[HEADER_BYTES..]
    }

    /// Adds the elements of another one.
    pub(crate) fn append(&mut self, other: &Builder) -> Result<(), TryReserveError> {
        self.bytes.try_reserve(other.body().len())?;
        self.bytes.extend_from_slice(other.body());
        self.element_count += other.element_count;
        Ok(())
    }

    /// Adds a text; one that is the decimal text of an integer is stored as such.
    pub(crate) fn push(&mut self, text: &[u8]) -> Result<(), TryReserveError> {
        let integer = (text.len() <= INTEGER_BYTES_MAX).then(|| parse_integer(text)).flatten();
        if let Some(value) = integer {
            return self.push_integer(value);
        }
        self.bytes.try_reserve(text.len() + LISTPACK_ELEMENT_OVERHEAD_BYTES)?;
        let start = self.bytes.len();
        match text.len() {
            length @ 0..=63 => self.bytes.push(length as u8 | 0x80),
            length @ 64..=4095 => {
                self.bytes.extend_from_slice(&[(length >> 8) as u8 | 0xe0, length as u8]);
            }
            length => {
                self.bytes.push(0xf0);
                self.bytes.extend_from_slice(&(length as u32).to_le_bytes());
            }
        }
        self.bytes.extend_from_slice(text);
        self.end_element(start);
        Ok(())
    }

    pub(crate) fn push_integer(&mut self, value: i64) -> Result<(), TryReserveError> {
        self.bytes.try_reserve(LISTPACK_ELEMENT_OVERHEAD_BYTES)?;
        let start = self.bytes.len();
        let body = value.to_le_bytes();
        match value {
            0..=127 => self.bytes.push(value as u8),
            -4096..=4095 => {
                self.bytes.extend_from_slice(&[(value >> 8) as u8 & 31 | 0xc0, value as u8]);
            }
            _ => {
                let (head, width) = match value {
                    -32_768..=32_767 => (0xf1, 2),
                    -8_388_608..=8_388_607 => (0xf2, 3),
                    -2_147_483_648..=2_147_483_647 => (0xf3, 4),
                    _ => (0xf4, 8),
                };
                self.bytes.push(head);
                self.bytes.extend_from_slice(&body[..width]);
            }
        }
        self.end_element(start);
        Ok(())
    }

    fn end_element(&mut self, start: usize) {
        let (back, count) = back_length(self.bytes.len() - start);
        self.bytes.extend_from_slice(&back[..count]);
        self.element_count += 1;
    }

    /// Ends it. What is added afterwards is not part of it: it has to be cleared first.
    pub(crate) fn finish(&mut self) -> Result<&[u8], TryReserveError> {
        self.bytes.try_reserve(1)?;
        self.bytes.push(END);
        let total = u32::try_from(self.bytes.len()).unwrap_or(u32::MAX);
        let count = u16::try_from(self.element_count).unwrap_or(COUNT_UNKNOWN);
        self.bytes[..4].copy_from_slice(&total.to_le_bytes());
        self.bytes[4..6].copy_from_slice(&count.to_le_bytes());
        Ok(&self.bytes)
    }

    /// Empties it, and keeps its memory.
    pub(crate) fn clear(&mut self) {
        self.bytes.truncate(HEADER_BYTES);
        self.element_count = 0;
    }
}

/// Bytes that an element takes in a listpack.
pub(crate) fn element_bytes(text: &[u8]) -> usize {
    let integer = (text.len() <= INTEGER_BYTES_MAX).then(|| parse_integer(text)).flatten();
    let body = match integer {
        Some(0..=127) => 1,
        Some(-4096..=4095) => 2,
        Some(-32_768..=32_767) => 3,
        Some(-8_388_608..=8_388_607) => 4,
        Some(-2_147_483_648..=2_147_483_647) => 5,
        Some(_) => 9,
        None => {
            text.len()
                + match text.len() {
                    0..=63 => 1,
                    64..=4095 => 2,
                    _ => 5,
                }
        }
    };
    body + back_length(body).1
}
