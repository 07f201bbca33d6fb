//! A bit for each slot: a walk over the few slots that have theirs does not look at the others.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::limits::SLOT_COUNT;
use crate::slot::SlotNumber;

/// Slots that were noted once. None is taken out.
#[derive(Debug)]
pub(super) struct SlotBits([AtomicU64; SLOT_COUNT / 64]);

impl Default for SlotBits {
    fn default() -> SlotBits {
        SlotBits(std::array::from_fn(|_| AtomicU64::new(0)))
    }
}

impl SlotBits {
    /// Notes a slot.
    pub(super) fn note(&self, slot: SlotNumber) {
        // Relaxed: walks are ordered behind it by what they have to see of the slot.
        self.0[slot.index() / 64].fetch_or(1 << (slot.index() % 64), Ordering::Relaxed);
    }

    /// The noted slots in ascending order.
    pub(super) fn iter(&self) -> impl Iterator<Item = SlotNumber> {
        // Relaxed: as in `note`.
        let words = self.0.iter().map(|word| word.load(Ordering::Relaxed)).enumerate();
        words.flat_map(|(index, bits)| slots_of(index, bits))
    }
}

/// Slots of the bits of a word, ascending; `index` is that of the word.
pub(super) fn slots_of(index: usize, mut bits: u64) -> impl Iterator<Item = SlotNumber> {
    std::iter::from_fn(move || {
        let bit = (bits != 0).then(|| bits.trailing_zeros() as usize)?;
        bits &= bits - 1;
        SlotNumber::from_index(index * 64 + bit)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn noted_slots_are_walked_over_in_order() {
        let (bits, indices) = (SlotBits::default(), [16_383, 0, 63, 64, 8191, 0]);
        assert_eq!(bits.iter().count(), 0);
        indices
            .iter()
            .filter_map(|&index| SlotNumber::from_index(index))
            .for_each(|s| bits.note(s));
        let walked: Vec<usize> = bits.iter().map(SlotNumber::index).collect();
        assert_eq!(walked, [0, 63, 64, 8191, 16_383]);
    }
}
