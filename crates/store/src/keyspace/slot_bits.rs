//! A bit for each slot: a walk over the few slots that have theirs does not look at the others.

use std::iter;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::limits::SLOT_COUNT;
use crate::slot::SlotNumber;

/// Slots that are noted. The bit of a slot is changed under the slot's lock only.
#[derive(Debug)]
pub(crate) struct SlotBits([AtomicU64; SLOT_COUNT / 64]);

impl Default for SlotBits {
    fn default() -> SlotBits {
        SlotBits(std::array::from_fn(|_| AtomicU64::new(0)))
    }
}

impl SlotBits {
    /// Notes a slot.
    #[inline]
    pub(crate) fn note(&self, slot: SlotNumber) {
        let (word, bit) = self.bit(slot);
        // Relaxed, both: walks are ordered behind it by what they have to see of the slot. 64 slots
        // share the word, hence the read-modify-write.
        if word.load(Ordering::Relaxed) & bit == 0 {
            word.fetch_or(bit, Ordering::Relaxed);
        }
    }

    /// Takes a slot out.
    pub(crate) fn forget(&self, slot: SlotNumber) {
        let (word, bit) = self.bit(slot);
        // Relaxed: as in `note`.
        word.fetch_and(!bit, Ordering::Relaxed);
    }

    /// The first noted slot from an index on; 64 slots at a step.
    pub(crate) fn next(&self, from: usize) -> Option<SlotNumber> {
        let mut mask = u64::MAX << (from % 64);
        for index in from / 64..self.0.len() {
            // Relaxed: as in `note`.
            let bits = self.0[index].load(Ordering::Relaxed) & mask;
            if bits != 0 {
                return SlotNumber::from_index(index * 64 + bits.trailing_zeros() as usize);
            }
            mask = u64::MAX;
        }
        None
    }

    /// The noted slots in ascending order. One that is noted meanwhile is met if it is ahead.
    pub(crate) fn iter(&self) -> impl Iterator<Item = SlotNumber> {
        let mut next = 0;
        iter::from_fn(move || {
            let slot = self.next(next)?;
            next = slot.index() + 1;
            Some(slot)
        })
    }

    /// The bits of all slots, the lowest first.
    pub(crate) fn words(&self) -> impl Iterator<Item = u64> {
        // Relaxed: as in `note`.
        self.0.iter().map(|word| word.load(Ordering::Relaxed))
    }

    fn bit(&self, slot: SlotNumber) -> (&AtomicU64, u64) {
        (&self.0[slot.index() / 64], 1 << (slot.index() % 64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn noted_slots_are_walked_over_in_order() {
        let slot = |index| SlotNumber::from_index(index).expect("a slot");
        let (bits, indices) = (SlotBits::default(), [16_383, 0, 63, 64, 8191, 0]);
        assert_eq!(bits.iter().count(), 0);
        indices.iter().for_each(|&index| bits.note(slot(index)));
        let walked = || bits.iter().map(SlotNumber::index).collect::<Vec<usize>>();
        assert_eq!(walked(), [0, 63, 64, 8191, 16_383]);
        bits.forget(slot(63));
        bits.forget(slot(16_383));
        assert_eq!(walked(), [0, 64, 8191]);
        assert_eq!(bits.next(SLOT_COUNT), None);
    }

    #[test]
    fn a_slot_that_is_noted_ahead_of_a_walk_is_met() {
        let slot = |index| SlotNumber::from_index(index).expect("a slot");
        let bits = SlotBits::default();
        bits.note(slot(5));
        let mut walk = bits.iter();
        assert_eq!(walk.next(), Some(slot(5)));
        bits.note(slot(60));
        assert_eq!(walk.next(), Some(slot(60)));
    }
}
