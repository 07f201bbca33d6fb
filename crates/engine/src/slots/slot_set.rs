//! Many slots at once, as bits: sorted without comparing, and numbered without searching.

use tidemill_store::SlotNumber;
use tidemill_store::limits::SLOT_COUNT;

/// Bits in a word.
const WORD_BITS: usize = u64::BITS as usize;
const WORDS: usize = SLOT_COUNT / WORD_BITS;
const _: () = assert!(SLOT_COUNT.is_multiple_of(WORD_BITS) && SLOT_COUNT <= 1 << u16::BITS);

/// A set of slots, which knows how many of its slots are below a slot. Takes 2.5 KiB.
#[derive(Debug)]
pub(crate) struct SlotSet {
    bits: [u64; WORDS],
    /// Number of slots in the words before each.
    below: [u16; WORDS],
}

impl SlotSet {
    /// The set of these slots; one may be named repeatedly.
    pub(crate) fn new(slots: impl IntoIterator<Item = SlotNumber>) -> SlotSet {
        let mut set = SlotSet { bits: [0; WORDS], below: [0; WORDS] };
        for slot in slots {
            set.bits[slot.index() / WORD_BITS] |= 1 << (slot.index() % WORD_BITS);
        }
        let mut count = 0;
        for (bits, below) in set.bits.iter().zip(&mut set.below) {
            *below = count;
            // No more than all slots but those of the last word are ever stored.
            count = count.wrapping_add(bits.count_ones() as u16);
        }
        set
    }

    /// The slots, ascending.
    pub(crate) fn iter(&self) -> impl Iterator<Item = SlotNumber> {
        self.bits.iter().enumerate().flat_map(|(word, &bits)| {
            let rests = std::iter::successors(Some(bits), |bits| Some(bits & bits.wrapping_sub(1)));
            rests.take_while(|&bits| bits != 0).map(move |bits| {
                let index = word * WORD_BITS + bits.trailing_zeros() as usize;
                SlotNumber::from_index(index).expect("a bit for each slot")
            })
        })
    }

    /// Number of slots of the set below `slot`, if it is in the set: its index among them.
    #[inline]
    pub(crate) fn rank(&self, slot: SlotNumber) -> Option<usize> {
        let (word, bit) = (slot.index() / WORD_BITS, 1u64 << (slot.index() % WORD_BITS));
        let bits = self.bits[word];
        let before = (bits & (bit - 1)).count_ones() as usize;
        (bits & bit != 0).then(|| usize::from(self.below[word]) + before)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slot(index: usize) -> SlotNumber {
        SlotNumber::from_index(index).expect("below the number of slots")
    }

    #[test]
    fn slots_are_sorted_and_numbered() {
        let every = |step: usize| (0..SLOT_COUNT).step_by(step);
        for step in [1, 2, 63, 64, 65, 1000, SLOT_COUNT] {
            let set = SlotSet::new(every(step).rev().chain(every(step)).map(slot));
            assert!(set.iter().eq(every(step).map(slot)), "every {step}th, once");
            for index in 0..SLOT_COUNT {
                let rank = index.is_multiple_of(step).then_some(index / step);
                assert_eq!(set.rank(slot(index)), rank, "of every {step}th");
            }
        }
        assert_eq!(SlotSet::new([]).iter().count(), 0);
        assert_eq!(SlotSet::new([]).rank(slot(5)), None);
    }
}
