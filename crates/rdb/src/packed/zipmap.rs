//! Zipmaps, in which Redis 2.4 kept small hashes.
//!
//! ```text
//! count: u8 | length | name | length | unused: u8 | value | unused bytes | ... | 255
//! ```
//!
//! A length is one byte up to 253, or 254 and four bytes. The count is 254 when there are more.

use super::Bytes;
use crate::error::DecodeError;
use crate::text::Text;

const END: u8 = 255;
const LONG: u8 = 254;

/// Names and values, in turn, that were not read yet.
#[derive(Clone, Debug)]
pub(crate) struct Zipmap<'b> {
    bytes: Bytes<'b>,
    at: usize,
    element_count: u64,
}

impl<'b> Zipmap<'b> {
    pub(super) fn new(bytes: Bytes<'b>) -> Result<Zipmap<'b>, DecodeError> {
        bytes.byte(0, "the count of a zipmap")?;
        Ok(Zipmap { bytes, at: 1, element_count: 0 })
    }

    pub(super) fn next(&mut self) -> Result<Option<Text<'b>>, DecodeError> {
        let (bytes, expected) = (self.bytes, "a length in a zipmap");
        let is_value = self.element_count % 2 == 1;
        let first = bytes.byte(self.at, expected)?;
        if first == END {
            return self.end(is_value);
        }
        let length = match first {
            LONG => {
                let length = u32::from_le_bytes(bytes.array(self.at + 1, expected)?);
                // Valkey refuses it too: who passes over it by the short form reads elsewhere.
                if length < u32::from(LONG) {
                    return Err(bytes.error(self.at, "a length in one byte", length.into()));
                }
                self.at += 5;
                length as usize
            }
            length => {
                self.at += 1;
                usize::from(length)
            }
        };
        let mut unused = 0;
        if is_value {
            unused = usize::from(bytes.byte(self.at, "the unused bytes of a value")?);
            self.at += 1;
        }
        let text = bytes.get(self.at, length, "a name or value in a zipmap")?;
        bytes.get(self.at + length, unused, "the unused bytes of a value")?;
        self.at += length + unused;
        self.element_count += 1;
        Ok(Some(Text::Bytes(text)))
    }

    fn end(&self, is_value: bool) -> Result<Option<Text<'b>>, DecodeError> {
        let bytes = self.bytes;
        if is_value {
            return Err(bytes.error(self.at, "a value", END.into()));
        }
        if self.at + 1 != bytes.bytes.len() {
            let behind = bytes.bytes.len() - self.at - 1;
            return Err(bytes.error(self.at + 1, "the end of a zipmap", behind as u64));
        }
        let count = u64::from(bytes.byte(0, "the count of a zipmap")?);
        if count < u64::from(LONG) && count * 2 != self.element_count {
            return Err(bytes.error(0, "as many names as there are", count));
        }
        Ok(None)
    }
}
