//! Strings that may be stored as integers.

use itoa::Buffer;

/// A string as it is stored: bytes, or an integer in the place of its decimal text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Text<'a> {
    /// The bytes.
    Bytes(&'a [u8]),
    /// An integer.
    Integer(i64),
}

impl<'a> Text<'a> {
    /// The bytes; an integer's digits are put into `digits`.
    pub fn bytes<'s>(self, digits: &'s mut Buffer) -> &'s [u8]
    where
        'a: 's,
    {
        match self {
            Text::Bytes(bytes) => bytes,
            Text::Integer(value) => digits.format(value).as_bytes(),
        }
    }
}
