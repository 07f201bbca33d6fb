//! Numbers in one to nine bytes whose order is that of their bytes.
//!
//! ```text
//! 0-247   | that number
//! 247 + n | number of n bytes, big endian, 1 to 8
//! ```

use smallvec::{Array, SmallVec};

/// Numbers, end to end.
pub(super) type Bytes = SmallVec<[u8; 64]>;

const SINGLE_MAX: u8 = 247;

/// Appends a number.
#[inline]
pub(super) fn push<A: Array<Item = u8>>(bytes: &mut SmallVec<A>, number: u64) {
    if number <= u64::from(SINGLE_MAX) {
        return bytes.push(number as u8);
    }
    let count = 8 - number.leading_zeros() as usize / 8;
    let mut stored = [0; 9];
    stored[0] = SINGLE_MAX + count as u8;
    stored[1..].copy_from_slice(&(number << (64 - 8 * count)).to_be_bytes());
    bytes.extend_from_slice(&stored[..1 + count]);
}

/// Length of the number at the start of some bytes.
#[inline]
pub(super) fn stored_bytes(bytes: &[u8]) -> usize {
    1 + usize::from(bytes[0].saturating_sub(SINGLE_MAX))
}

/// The number at the start of some bytes, and what follows it.
#[inline]
pub(super) fn read(bytes: &[u8]) -> (u64, &[u8]) {
    let (stored, rest) = bytes.split_at(stored_bytes(bytes));
    let number = match stored {
        [single] => u64::from(*single),
        [_, behind @ ..] => behind.iter().fold(0, |all, &byte| all << 8 | u64::from(byte)),
        [] => unreachable!("a number has a first byte"),
    };
    (number, rest)
}

/// A signed number as an unsigned one, small where its magnitude is.
#[inline]
pub(super) fn of_signed(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

/// Reverses [`of_signed`].
#[inline]
pub(super) fn to_signed(number: u64) -> i64 {
    (number >> 1) as i64 ^ -((number & 1) as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_back_and_ordered_as_their_bytes() {
        let mut numbers: Vec<u64> = (0..64).flat_map(|bit| [1 << bit, (1 << bit) - 1]).collect();
        numbers.extend([247, 248, 249, u64::MAX]);
        numbers.sort_unstable();
        numbers.dedup();
        let stored = |number| {
            let mut bytes = Bytes::new();
            push(&mut bytes, number);
            assert_eq!(bytes.len(), stored_bytes(&bytes));
            bytes.push(9);
            assert_eq!(read(&bytes), (number, &[9][..]));
            bytes
        };
        for pair in numbers.windows(2) {
            assert!(stored(pair[0]) < stored(pair[1]), "{pair:?}");
        }
    }

    #[test]
    fn signed_numbers_are_read_back() {
        for value in [0, 1, -1, 63, -64, i64::MAX, i64::MIN] {
            assert_eq!(to_signed(of_signed(value)), value);
        }
        assert_eq!(of_signed(-1), 1);
    }
}
