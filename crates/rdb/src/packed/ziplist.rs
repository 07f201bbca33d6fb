//! Ziplists, in which Redis up to 6.2 kept small collections.
//!
//! ```text
//! bytes: u32 | last: u32 | count: u16 | previous bytes | head | body | ... | 255
//! ```
//!
//! `last` is the offset of the last element; each element begins with the bytes of the one before.

use super::{Bytes, integer_of_24_bits};
use crate::error::DecodeError;
use crate::text::Text;

const HEADER_BYTES: usize = 10;
const END: u8 = 255;
const LONG: u8 = 254;

/// Count from which on the elements have to be counted.
const COUNT_UNKNOWN: u16 = u16::MAX;

/// Elements that were not read yet.
#[derive(Clone, Debug)]
pub(crate) struct Ziplist<'b> {
    bytes: Bytes<'b>,
    at: usize,
    previous_bytes: usize,
    element_count: u64,
}

impl<'b> Ziplist<'b> {
    pub(super) fn new(bytes: Bytes<'b>) -> Result<Ziplist<'b>, DecodeError> {
        let total = u32::from_le_bytes(bytes.array(0, "the size of a ziplist")?);
        if total as usize != bytes.bytes.len() {
            return Err(bytes.error(0, "the size of a ziplist", total.into()));
        }
        bytes.get(0, HEADER_BYTES, "the header of a ziplist")?;
        Ok(Ziplist { bytes, at: HEADER_BYTES, previous_bytes: 0, element_count: 0 })
    }

    pub(super) fn next(&mut self) -> Result<Option<Text<'b>>, DecodeError> {
        let (bytes, start) = (self.bytes, self.at);
        let first = bytes.byte(start, "an element of a ziplist")?;
        if first == END {
            return self.end();
        }
        let (previous_bytes, head_at) = match first {
            LONG => {
                let length = bytes.array(start + 1, "the bytes of the element before")?;
                (u32::from_le_bytes(length) as usize, start + 5)
            }
            length => (usize::from(length), start + 1),
        };
        if previous_bytes != self.previous_bytes {
            let expected = "the bytes of the element before";
            return Err(bytes.error(start, expected, previous_bytes as u64));
        }
        let (text, end) = element(bytes, head_at)?;
        self.previous_bytes = end - start;
        self.at = end;
        self.element_count += 1;
        Ok(Some(text))
    }

    fn end(&self) -> Result<Option<Text<'b>>, DecodeError> {
        let bytes = self.bytes;
        if self.at + 1 != bytes.bytes.len() {
            let behind = bytes.bytes.len() - self.at - 1;
            return Err(bytes.error(self.at + 1, "the end of a ziplist", behind as u64));
        }
        let count = u16::from_le_bytes(bytes.array(8, "the count of a ziplist")?);
        if count != COUNT_UNKNOWN && u64::from(count) != self.element_count {
            return Err(bytes.error(8, "as many elements as there are", count.into()));
        }
        let last = u32::from_le_bytes(bytes.array(4, "the offset of the last element")?);
        if last as usize != self.at - self.previous_bytes {
            return Err(bytes.error(4, "the offset of the last element", last.into()));
        }
        Ok(None)
    }
}

/// The element whose head is at `at`, and where it ends.
fn element<'b>(bytes: Bytes<'b>, at: usize) -> Result<(Text<'b>, usize), DecodeError> {
    let expected = "an element of a ziplist";
    let head = bytes.byte(at, expected)?;
    let text = |at, length| {
        let text = bytes.get(at, length, "a string in a ziplist")?;
        Ok((Text::Bytes(text), at + length))
    };
    let (value, body_bytes) = match head {
        0..=0x3f => return text(at + 1, usize::from(head)),
        0x40..=0x7f => {
            let low = usize::from(bytes.byte(at + 1, expected)?);
            return text(at + 2, usize::from(head & 63) << 8 | low);
        }
        0x80 => {
            let length = u32::from_be_bytes(bytes.array(at + 1, expected)?);
            return text(at + 5, length as usize);
        }
        0xc0 => (i16::from_le_bytes(bytes.array(at + 1, expected)?).into(), 2),
        0xd0 => (i32::from_le_bytes(bytes.array(at + 1, expected)?).into(), 4),
        0xe0 => (i64::from_le_bytes(bytes.array(at + 1, expected)?), 8),
        0xf0 => (integer_of_24_bits(bytes.array(at + 1, expected)?), 3),
        0xfe => (i8::from_le_bytes(bytes.array(at + 1, expected)?).into(), 1),
        0xf1..=0xfd => (i64::from(head & 15) - 1, 0),
        _ => return Err(bytes.error(at, "the head of an element", head.into())),
    };
    Ok((Text::Integer(value), at + 1 + body_bytes))
}
