//! Values of fields, and texts that are integers.
//!
//! ```text
//! first byte | value
//! 0-191      | text of that length
//! 191 + n    | text whose length has n bytes, 1 to 8, little endian
//! 199 + n    | integer of n bytes, 1 to 8, the sign in its lowest bit
//! 208-255    | integer from 0 to 47
//! ```

use super::number::{Bytes, of_signed, to_signed};

const TEXT_BYTES_MAX: u8 = 191;
const SIZED_TEXT: u8 = TEXT_BYTES_MAX + 1;
const INTEGER: u8 = 199;
const SMALL_INTEGER: u8 = 208;

/// Digits of the longest 64-bit integer, with its sign.
const INTEGER_TEXT_BYTES_MAX: usize = 20;

/// Value of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldValue<'a> {
    /// A value whose text is the only spelling of a 64-bit integer.
    Integer(i64),
    /// Any other text.
    Text(&'a [u8]),
}

impl<'a> FieldValue<'a> {
    /// The value of a text.
    #[must_use]
    pub fn of(text: &'a [u8]) -> FieldValue<'a> {
        parse_integer(text).map_or(FieldValue::Text(text), FieldValue::Integer)
    }

    /// Appends the value's head, behind which a text follows.
    pub(super) fn push_head(self, bytes: &mut Bytes) {
        match self {
            FieldValue::Integer(value @ 0..=47) => bytes.push(SMALL_INTEGER + value as u8),
            FieldValue::Integer(value) => push_sized(bytes, INTEGER, of_signed(value)),
            FieldValue::Text(text) if text.len() <= usize::from(TEXT_BYTES_MAX) => {
                bytes.push(text.len() as u8);
            }
            FieldValue::Text(text) => push_sized(bytes, TEXT_BYTES_MAX, text.len() as u64),
        }
    }

    /// Text behind the head.
    pub(super) fn text(self) -> &'a [u8] {
        match self {
            FieldValue::Integer(_) => &[],
            FieldValue::Text(text) => text,
        }
    }

    /// The value at the start of some bytes, and what follows it.
    #[inline]
    pub(super) fn read(bytes: &'a [u8]) -> (FieldValue<'a>, &'a [u8]) {
        let (first, rest) = (bytes[0], &bytes[1..]);
        let (length, rest) = match first {
            0..=TEXT_BYTES_MAX => (u64::from(first), rest),
            SMALL_INTEGER.. => {
                return (FieldValue::Integer(i64::from(first - SMALL_INTEGER)), rest);
            }
            SIZED_TEXT..=INTEGER => read_sized(rest, first - TEXT_BYTES_MAX),
            _ => {
                let (number, rest) = read_sized(rest, first - INTEGER);
                return (FieldValue::Integer(to_signed(number)), rest);
            }
        };
        let (text, rest) = rest.split_at(length as usize);
        (FieldValue::Text(text), rest)
    }
}

/// Appends `base` plus the number of bytes of a number, and these bytes; one at least.
fn push_sized(bytes: &mut Bytes, base: u8, number: u64) {
    let count = (8 - number.leading_zeros() as usize / 8).max(1);
    bytes.push(base + count as u8);
    bytes.extend_from_slice(&number.to_le_bytes()[..count]);
}

fn read_sized(bytes: &[u8], count: u8) -> (u64, &[u8]) {
    let (stored, rest) = bytes.split_at(usize::from(count));
    (stored.iter().rev().fold(0, |all, &byte| all << 8 | u64::from(byte)), rest)
}

/// The integer whose only spelling a text is.
fn parse_integer(text: &[u8]) -> Option<i64> {
    let (is_negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    match digits {
        [b'0'] if !is_negative => return Some(0),
        [b'1'..=b'9', ..] if text.len() <= INTEGER_TEXT_BYTES_MAX => {}
        _ => return None,
    }
    digits.iter().try_fold(0_i64, |all, &byte| {
        let digit = byte.is_ascii_digit().then(|| i64::from(byte - b'0'))?;
        let all = all.checked_mul(10)?;
        if is_negative { all.checked_sub(digit) } else { all.checked_add(digit) }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_read_back() {
        let texts = [0, 1, 191, 192, 255, 256, 70_000].map(|length| "x".repeat(length));
        let integers = [0, 1, 47, 48, -1, 127, 255, 256, i64::MAX, i64::MIN];
        let integers = integers.map(|value| value.to_string());
        for text in texts.iter().chain(&integers) {
            let value = FieldValue::of(text.as_bytes());
            let mut bytes = Bytes::new();
            value.push_head(&mut bytes);
            bytes.extend_from_slice(value.text());
            bytes.push(7);
            assert_eq!(FieldValue::read(&bytes), (value, &[7][..]));
            assert_eq!(matches!(value, FieldValue::Integer(_)), integers.contains(text));
        }
    }

    #[test]
    fn only_the_one_spelling_of_an_integer_is_one() {
        for text in
            ["", "-", "-0", "00", "01", "+1", " 1", "1 ", "9223372036854775808", "1x", "--1"]
        {
            assert_eq!(parse_integer(text.as_bytes()), None, "{text}");
        }
        assert_eq!(parse_integer(b"-9223372036854775808"), Some(i64::MIN));
    }
}
