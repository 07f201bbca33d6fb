//! Scores as they are stored and ordered.
//!
//! ```text
//! first byte | score
//! 0-127      | that integer
//! 128-191    | integer of 14 bits, the upper 6 in the first byte
//! 192-223    | integer of 21 bits, likewise
//! 224-239    | integer of 28 bits, likewise
//! 240 + n    | integer of n bytes, 1 to 7, with the sign in its lowest bit
//! 248        | number of single precision that is the same score
//! 249        | number of double precision
//! ```
//!
//! Integers are big endian behind the first byte where they go on from it, else little endian. A
//! score has one form, and minus zero is no integer: what was stored is read back bit for bit.

use smallvec::SmallVec;

const SIGNED: u8 = 240;
const SINGLE: u8 = 248;
const DOUBLE: u8 = 249;

/// Integers of which a double holds each: up to 2^53.
const EXACT_MAX: f64 = 9_007_199_254_740_992.0;

/// Stored score.
pub(super) type ScoreBytes = SmallVec<[u8; 16]>;

/// Number by which scores are ordered; that of minus zero is that of zero.
#[inline]
pub(super) fn sortable(score: f64) -> u64 {
    let bits = (score + 0.0).to_bits();
    let is_negative = bits >> 63 == 1;
    if is_negative { !bits } else { bits | 1 << 63 }
}

/// Score of a [`sortable`] number.
#[inline]
pub(super) fn of_sortable(number: u64) -> f64 {
    let is_negative = number >> 63 == 0;
    f64::from_bits(if is_negative { !number } else { number & !(1 << 63) })
}

/// End of the first four bytes, as a big-endian number, of scores that are small integers: those
/// are in the order of the scores, whatever is behind a score of fewer bytes.
pub(super) const ORDERED_HEADS_END: u32 = (SIGNED as u32) << 24;

/// Integers below this are stored in the order of their bytes.
const SMALL_END: u32 = 1 << 28;

/// Lowest and highest first four bytes of the score of a [`sortable`] number; none if it is no
/// small integer.
#[inline]
pub(super) fn heads_of(sortable: u64) -> Option<(u32, u32)> {
    let score = of_sortable(sortable);
    let integer = score as u32;
    if integer >= SMALL_END || f64::from(integer) != score {
        return None;
    }
    let bytes = (u32::BITS - integer.leading_zeros()).div_ceil(7).max(1);
    let lowest = integer << (u32::BITS - 8 * bytes) | !(u32::MAX >> (bytes - 1));
    Some((lowest, lowest | u32::MAX.unbounded_shr(8 * bytes)))
}

/// Stored form of a score.
pub(super) fn encode(score: f64) -> ScoreBytes {
    debug_assert!(!score.is_nan());
    let is_integer = score.abs() <= EXACT_MAX
        && score.to_bits() != (-0.0_f64).to_bits()
        && (score as i64) as f64 == score;
    if is_integer {
        return encode_integer(score as i64);
    }
    let mut bytes = ScoreBytes::new();
    let single = score as f32;
    if f64::from(single) == score {
        bytes.push(SINGLE);
        bytes.extend_from_slice(&single.to_le_bytes());
    } else {
        bytes.push(DOUBLE);
        bytes.extend_from_slice(&score.to_le_bytes());
    }
    bytes
}

fn encode_integer(score: i64) -> ScoreBytes {
    let big_endian = score.to_be_bytes();
    let prefixed = |first: u8, behind: usize| {
        let mut bytes = ScoreBytes::from_slice(&big_endian[7 - behind..]);
        bytes[0] |= first;
        bytes
    };
    match score {
        0..0x80 => prefixed(0, 0),
        0x80..0x4000 => prefixed(128, 1),
        0x4000..0x20_0000 => prefixed(192, 2),
        0x20_0000..0x1000_0000 => prefixed(224, 3),
        _ => {
            let signed = (score.unsigned_abs() << 1) | u64::from(score < 0);
            let count = 8 - signed.leading_zeros() as usize / 8;
            let mut bytes = ScoreBytes::from_slice(&[SIGNED + count as u8]);
            bytes.extend_from_slice(&signed.to_le_bytes()[..count]);
            bytes
        }
    }
}

/// Length of a stored score, by its first byte.
#[inline]
pub(super) fn stored_bytes(first: u8) -> usize {
    match first {
        0..128 => 1,
        128..192 => 2,
        192..224 => 3,
        224..SIGNED => 4,
        SINGLE => 5,
        DOUBLE.. => 9,
        _ => usize::from(first - SIGNED) + 1,
    }
}

/// Score of an element and the member behind it.
#[inline]
pub(super) fn decode(element: &[u8]) -> (f64, &[u8]) {
    if let Some(&head) = element.first_chunk()
        && head[0] < SIGNED
    {
        // As many bits as the integer has bytes mark the form, of which the last is zero.
        let bytes = 1 + head[0].leading_ones();
        let integer = (u32::from_be_bytes(head) << bytes) >> (u32::BITS - 7 * bytes);
        return (f64::from(integer), &element[bytes as usize..]);
    }
    decode_any(element)
}

/// As [`decode`], of a score of any form.
#[inline(never)]
fn decode_any(element: &[u8]) -> (f64, &[u8]) {
    let (stored, member) = element.split_at(stored_bytes(element[0]));
    let score = match *stored {
        [first @ 0..128] => f64::from(first),
        [first @ 128..192, second] => f64::from(u16::from_be_bytes([first & 0x3f, second])),
        [first @ 192..224, second, third] => {
            f64::from(u32::from_be_bytes([0, first & 0x1f, second, third]))
        }
        [first @ 224..SIGNED, second, third, fourth] => {
            f64::from(u32::from_be_bytes([first & 0x0f, second, third, fourth]))
        }
        _ => decode_long(stored),
    };
    (score, member)
}

/// Score that is no small integer.
fn decode_long(stored: &[u8]) -> f64 {
    match stored[0] {
        SINGLE => {
            let bytes = stored[1..].first_chunk().expect("a single has four bytes");
            f64::from(f32::from_le_bytes(*bytes))
        }
        DOUBLE.. => {
            let bytes = stored[1..].first_chunk().expect("a double has eight bytes");
            f64::from_le_bytes(*bytes)
        }
        _ => {
            let signed = stored[1..].iter().rev().fold(0, |all, &byte| all << 8 | u64::from(byte));
            let magnitude = (signed >> 1) as f64;
            if signed & 1 == 0 { magnitude } else { -magnitude }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scores around all bounds between the forms, in ascending order.
    fn scores() -> Vec<f64> {
        let mut scores = vec![f64::INFINITY, f64::MAX, f64::MIN_POSITIVE, 5e-324, 0.5, 0.1, 1e-7];
        for bit in 0..63 {
            let power = (1_u64 << bit) as f64;
            scores.extend([power - 1.0, power, power + 1.0, power + 0.5]);
        }
        scores.extend(scores.clone().into_iter().map(|score| -score));
        scores.push(0.0);
        scores.sort_by(f64::total_cmp);
        scores.dedup_by(|left, right| left.to_bits() == right.to_bits());
        scores
    }

    #[test]
    fn a_score_is_read_back_bit_for_bit() {
        for score in scores() {
            let mut element = encode(score).to_vec();
            assert_eq!(element.len(), stored_bytes(element[0]), "{score}");
            element.extend_from_slice(b"member");
            let (read, member) = decode(&element);
            assert_eq!(read.to_bits(), score.to_bits(), "{score}");
            assert_eq!(member, b"member");
        }
    }

    #[test]
    fn forms_with_marked_heads_are_read_as_all_others() {
        for score in (0..1 << 29).step_by(9973).chain([127, 128, 16_383, 16_384, (1 << 28) - 1]) {
            for member in ["", "a", "member"] {
                let element = [&encode(f64::from(score))[..], member.as_bytes()].concat();
                assert_eq!(decode(&element), (f64::from(score), member.as_bytes()));
                assert_eq!(decode(&element), decode_any(&element));
            }
        }
    }

    #[test]
    fn heads_of_small_integers_are_in_the_order_of_scores() {
        let bounds = [0, 1, 127, 128, 16_383, 16_384, (1 << 21) - 1, 1 << 21, (1 << 28) - 1];
        let integers = (0..1_u32 << 28).step_by(99_991).chain(bounds);
        let mut integers: Vec<_> = integers.collect();
        integers.sort_unstable();
        integers.dedup();
        let mut last = None;
        for integer in integers {
            let score = f64::from(integer);
            let (lowest, highest) = heads_of(sortable(score)).expect("it is a small integer");
            assert!(last < Some(lowest) && lowest <= highest && highest < ORDERED_HEADS_END);
            for behind in [[0_u8; 4], [255; 4]] {
                let element = [&encode(score)[..], &behind].concat();
                let head = u32::from_be_bytes(*element.first_chunk().expect("it is longer"));
                assert_eq!(head, if behind[0] == 0 { lowest } else { highest }, "{integer}");
            }
            last = Some(highest);
        }
        for score in scores() {
            let is_small = (0.0..f64::from(SMALL_END)).contains(&score) && score.fract() == 0.0;
            assert_eq!(heads_of(sortable(score)).is_some(), is_small, "{score}");
            let element = [&encode(score)[..], &[0; 4]].concat();
            let head = u32::from_be_bytes(*element.first_chunk().expect("it is longer"));
            let is_stored_small = is_small && score.is_sign_positive();
            assert_eq!(head < ORDERED_HEADS_END, is_stored_small, "{score}");
        }
    }

    #[test]
    fn small_integers_take_few_bytes() {
        let sizes = [(0.0, 1), (127.0, 1), (16_383.0, 2), (1e6, 3), (1.7e9, 5), (0.5, 5), (0.1, 9)];
        for (score, bytes) in sizes {
            assert_eq!(encode(score).len(), bytes, "{score}");
        }
    }

    #[test]
    fn numbers_are_ordered_as_their_scores() {
        for pair in scores().windows(2) {
            let (left, right) = (sortable(pair[0]), sortable(pair[1]));
            assert!(of_sortable(left) == pair[0], "{}", pair[0]);
            assert_eq!(left.cmp(&right), pair[0].partial_cmp(&pair[1]).expect("no score is NaN"));
        }
        assert!(sortable(f64::INFINITY) < u64::MAX, "there is a number behind the last score");
    }
}
