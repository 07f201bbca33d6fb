//! Reading position in bytes that have arrived: numbers, lengths, strings.

use crate::error::DecodeError;
use crate::limits::LZF_RATIO_MAX;
use crate::lzf::{self, LzfError};
use crate::text::Text;

/// Reason why something cannot be read now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Bytes are missing behind those that have arrived.
    Short {
        /// Least number of them.
        missing: u64,
        /// Name of the part that they belong to.
        expected: &'static str,
    },
    /// The bytes are wrong.
    Wrong(DecodeError),
}

impl From<DecodeError> for Fault {
    fn from(error: DecodeError) -> Fault {
        Fault::Wrong(error)
    }
}

/// Position in bytes that have arrived.
#[derive(Clone, Debug)]
pub(crate) struct Cursor<'b> {
    bytes: &'b [u8],
    at: usize,
    /// Offset of the first byte in the file or payload.
    base: u64,
}

/// A length, or in its place how the string is encoded.
enum Length {
    Plain(u64),
    Encoded(u8),
}

impl<'b> Cursor<'b> {
    pub(crate) fn new(bytes: &'b [u8], base: u64) -> Cursor<'b> {
        Cursor { bytes, at: 0, base }
    }

    /// Bytes that were read.
    pub(crate) fn consumed(&self) -> usize {
        self.at
    }

    /// Goes back to where `consumed` was said.
    pub(crate) fn rewind(&mut self, consumed: usize) {
        self.at = consumed;
    }

    /// Offset of the next byte.
    pub(crate) fn offset(&self) -> u64 {
        self.base + self.at as u64
    }

    pub(crate) fn take(&mut self, count: u64, expected: &'static str) -> Result<&'b [u8], Fault> {
        let there = (self.bytes.len() - self.at) as u64;
        if count > there {
            return Err(Fault::Short { missing: count - there, expected });
        }
        let taken = &self.bytes[self.at..self.at + count as usize];
        self.at += taken.len();
        Ok(taken)
    }

    pub(crate) fn array<const N: usize>(
        &mut self,
        expected: &'static str,
    ) -> Result<[u8; N], Fault> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N as u64, expected)?);
        Ok(array)
    }

    pub(crate) fn byte(&mut self, expected: &'static str) -> Result<u8, Fault> {
        Ok(self.array::<1>(expected)?[0])
    }

    fn length(&mut self, expected: &'static str) -> Result<Length, Fault> {
        let offset = self.offset();
        let first = self.byte(expected)?;
        Ok(match first >> 6 {
            0 => Length::Plain(u64::from(first)),
            1 => {
                let low = self.byte(expected)?;
                Length::Plain(u64::from(first & 63) << 8 | u64::from(low))
            }
            2 if first == 0x80 => Length::Plain(u32::from_be_bytes(self.array(expected)?).into()),
            2 if first == 0x81 => Length::Plain(u64::from_be_bytes(self.array(expected)?)),
            3 => Length::Encoded(first & 63),
            _ => {
                return Err(DecodeError::malformed(offset, "a length", first.into()).into());
            }
        })
    }

    /// A number that is stored as a length.
    pub(crate) fn count(&mut self, expected: &'static str) -> Result<u64, Fault> {
        let offset = self.offset();
        match self.length(expected)? {
            Length::Plain(count) => Ok(count),
            Length::Encoded(encoding) => {
                let found = u64::from(encoding) | 0xc0;
                Err(DecodeError::malformed(offset, expected, found).into())
            }
        }
    }

    /// A string; a compressed one is put into `scratch`.
    pub(crate) fn string<'s>(
        &mut self,
        scratch: &'s mut Vec<u8>,
        expected: &'static str,
    ) -> Result<Text<'s>, Fault>
    where
        'b: 's,
    {
        let offset = self.offset();
        let encoding = match self.length(expected)? {
            Length::Plain(length) => return Ok(Text::Bytes(self.take(length, expected)?)),
            Length::Encoded(encoding) => encoding,
        };
        match encoding {
            0 => Ok(Text::Integer(i8::from_le_bytes(self.array(expected)?).into())),
            1 => Ok(Text::Integer(i16::from_le_bytes(self.array(expected)?).into())),
            2 => Ok(Text::Integer(i32::from_le_bytes(self.array(expected)?).into())),
            3 => Ok(Text::Bytes(self.compressed(scratch, expected)?)),
            _ => {
                let found = u64::from(encoding);
                let expected = "a string encoded as an integer or compressed";
                Err(DecodeError::malformed(offset, expected, found).into())
            }
        }
    }

    fn compressed<'s>(
        &mut self,
        scratch: &'s mut Vec<u8>,
        expected: &'static str,
    ) -> Result<&'s [u8], Fault> {
        let offset = self.offset();
        let compressed_bytes = self.count("the length of a compressed string")?;
        let length = self.count("the length of a string before compression")?;
        let is_possible = length > 0 && length <= compressed_bytes.saturating_mul(LZF_RATIO_MAX);
        if !is_possible {
            let expected = "a length that compression can reach";
            return Err(DecodeError::malformed(offset, expected, length).into());
        }
        let input = self.take(compressed_bytes, expected)?;
        scratch.clear();
        let no_memory = || DecodeError::NoMemory { offset, bytes: length };
        let length = usize::try_from(length).map_err(|_| no_memory())?;
        scratch.try_reserve_exact(length).map_err(|_| no_memory())?;
        lzf::decompress(input, length, scratch).map_err(|error| {
            let expected = match error {
                LzfError::Truncated => "a compressed string without a run that is cut off",
                LzfError::Reference => "a compressed string that refers to bytes of its own",
                LzfError::Length => "a compressed string of the length that it claims",
            };
            DecodeError::malformed(offset, expected, length as u64)
        })?;
        Ok(scratch)
    }

    /// Passes a string without decompressing it.
    pub(crate) fn skip_string(&mut self, expected: &'static str) -> Result<(), Fault> {
        let offset = self.offset();
        let bytes = match self.length(expected)? {
            Length::Plain(length) => length,
            Length::Encoded(encoding @ 0..=2) => 1 << encoding,
            Length::Encoded(3) => {
                let compressed_bytes = self.count(expected)?;
                self.count(expected)?;
                compressed_bytes
            }
            Length::Encoded(other) => {
                return Err(DecodeError::malformed(offset, expected, other.into()).into());
            }
        };
        self.take(bytes, expected).map(drop)
    }

    /// Eight bytes of a time in milliseconds.
    pub(crate) fn milliseconds(&mut self, expected: &'static str) -> Result<i64, Fault> {
        Ok(i64::from_le_bytes(self.array(expected)?))
    }

    pub(crate) fn double(&mut self, expected: &'static str) -> Result<f64, Fault> {
        Ok(f64::from_le_bytes(self.array(expected)?))
    }
}
