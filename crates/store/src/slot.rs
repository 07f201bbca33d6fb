//! Slot numbers: the slot, of the 16,384 of Redis Cluster, that a key belongs to.
//!
//! A slot is the unit of locking. Keys that share a `{tag}` share a slot, so that commands over
//! several keys of one tag need one lock.

use std::ops::{Deref, DerefMut, Index};

use crc::{CRC_16_XMODEM, Crc, Table};

use crate::limits::SLOT_COUNT;

/// Sixteen tables: a 16-byte key costs one step. Byte by byte it costs 27 ns.
static CRC16: Crc<u16, Table<16>> = Crc::<u16, Table<16>>::new(&CRC_16_XMODEM);

/// Number of a slot, below [`SLOT_COUNT`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SlotNumber(u16);

impl SlotNumber {
    /// Slot of `key`: CRC16 of its tag, or of all of it.
    #[must_use]
    #[inline]
    pub fn of_key(key: &[u8]) -> SlotNumber {
        SlotNumber::of_crc(CRC16.checksum(tag(key)))
    }

    /// Slot of a key with this CRC16.
    #[inline]
    pub(crate) fn of_crc(crc: u16) -> SlotNumber {
        SlotNumber(crc & (SLOT_COUNT as u16 - 1))
    }

    /// Slot with the number `index`, if there is one.
    #[must_use]
    pub fn from_index(index: usize) -> Option<SlotNumber> {
        (index < SLOT_COUNT).then_some(SlotNumber(index as u16))
    }

    /// The number as an index.
    #[must_use]
    pub fn index(self) -> usize {
        usize::from(self.0)
    }

    /// All slots in ascending order.
    pub fn all() -> impl DoubleEndedIterator<Item = SlotNumber> + ExactSizeIterator {
        (0..SLOT_COUNT as u16).map(SlotNumber)
    }
}

/// One value for each slot, looked up by number without a check of bounds.
#[derive(Debug)]
pub(crate) struct PerSlot<T>(Box<[T; SLOT_COUNT]>);

impl<T: Default> Default for PerSlot<T> {
    fn default() -> PerSlot<T> {
        let values: Box<[T]> = (0..SLOT_COUNT).map(|_| T::default()).collect();
        let Ok(values) = values.try_into() else {
            unreachable!("their number is that of the slots")
        };
        PerSlot(values)
    }
}

impl<T> Deref for PerSlot<T> {
    type Target = [T; SLOT_COUNT];

    fn deref(&self) -> &[T; SLOT_COUNT] {
        &self.0
    }
}

impl<T> DerefMut for PerSlot<T> {
    fn deref_mut(&mut self) -> &mut [T; SLOT_COUNT] {
        &mut self.0
    }
}

impl<T> Index<SlotNumber> for PerSlot<T> {
    type Output = T;

    #[inline(always)]
    fn index(&self, slot: SlotNumber) -> &T {
        // The mask changes no number; with it the compiler knows that there is a value.
        &self.0[slot.index() & (SLOT_COUNT - 1)]
    }
}

/// Part of a key that is hashed: the bytes between the first `{` and the next `}` when there are
/// any, else all.
#[inline(always)]
fn tag(key: &[u8]) -> &[u8] {
    // Without branches, for most keys have none: the compiler compares sixteen bytes at a time.
    let has_open = |bytes: &[u8]| bytes.iter().fold(false, |found, &byte| found | (byte == b'{'));
    let chunks = key.chunks_exact(16);
    let rest = chunks.remainder();
    if !chunks.fold(false, |found, chunk| found | has_open(chunk)) && !has_open(rest) {
        return key;
    }
    tag_from_brace(key)
}

fn tag_from_brace(key: &[u8]) -> &[u8] {
    let Some(open) = key.iter().position(|&byte| byte == b'{') else {
        return key;
    };
    let rest = &key[open + 1..];
    match rest.iter().position(|&byte| byte == b'}') {
        Some(length) if length > 0 => &rest[..length],
        _ => key,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_those_of_redis_cluster() {
        // `CLUSTER KEYSLOT` of Valkey 9.1
        for (key, slot) in [
            ("foo", 12182),
            ("bar", 5061),
            ("{user1000}.following", 3443),
            ("{user1000}.followers", 3443),
            ("foo{}{bar}", 8363),
            ("foo{{bar}}zap", 4015),
            ("foo{bar}{zap}", 5061),
            ("", 0),
            ("123456789", 12739),
        ] {
            assert_eq!(SlotNumber::of_key(key.as_bytes()).index(), slot, "{key}");
        }
    }
}
