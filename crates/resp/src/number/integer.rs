//! 64-bit integers.

/// Reads a decimal integer in its only spelling: no sign but `-`, no leading zero, no blank, no
/// `-0`.
#[inline]
#[must_use]
pub fn parse_integer(text: &[u8]) -> Option<i64> {
    let (is_negative, digits) = match text {
        [b'0'] => return Some(0),
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    let (&first, rest) = digits.split_first()?;
    // 19 digits fit u64 whatever they are, and more do not fit i64.
    if !matches!(first, b'1'..=b'9') || rest.len() > 18 {
        return None;
    }
    let mut magnitude = u64::from(first - b'0');
    for &digit in rest {
        if !digit.is_ascii_digit() {
            return None;
        }
        magnitude = magnitude * 10 + u64::from(digit - b'0');
    }
    if is_negative {
        (magnitude <= i64::MIN.unsigned_abs()).then(|| magnitude.wrapping_neg() as i64)
    } else {
        i64::try_from(magnitude).ok()
    }
}

/// Appends the decimal form of `value`; see also
/// [`ReplyBuffer::bulk_integer`](crate::encode::ReplyBuffer::bulk_integer).
pub fn format_integer(value: i64, out: &mut Vec<u8>) {
    out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
}
