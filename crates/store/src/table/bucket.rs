//! Bucket: the words of seven entries and a link, one cache line.
//!
//! ```text
//! link: | tail of place 6 | ... | tail of place 0 | index of next bucket + 1; 0: end of chain |
//! ```
//!
//! Readers look at the words and at the next bucket. The tails belong to the owner of the slot's
//! lock alone: a reader could take a word of one entry together with the tail of another.

use std::sync::atomic::{AtomicU64, Ordering};

use super::known::{TAIL_BITS, Tail};

pub(super) const BUCKET_ENTRIES: usize = 7;
pub(super) const POINTER_BITS: u32 = 48;
pub(super) const POINTER_MASK: u64 = (1 << POINTER_BITS) - 1;

const NEXT_BITS: u32 = u64::BITS - BUCKET_ENTRIES as u32 * TAIL_BITS;
const NEXT_MASK: u64 = (1 << NEXT_BITS) - 1;
const TAIL_MASK: u64 = (1 << TAIL_BITS) - 1;

/// Most buckets of a segment: a link has to be able to express each index. Only a segment that must
/// not split any more could outgrow this, with some 200,000 keys whose hashes have 34 bits in
/// common.
pub(super) const BUCKET_COUNT_MAX: usize = (1 << NEXT_BITS) - 1;

#[repr(C, align(64))]
pub(super) struct Bucket {
    pub(super) entries: [AtomicU64; BUCKET_ENTRIES],
    link: AtomicU64,
}

const _: () = assert!(size_of::<Bucket>() == 64);

impl Bucket {
    /// The places with a tag, a bit for each; also empty ones, if the tag is 0. Without branches:
    /// no processor can predict the place of a key.
    #[inline(always)]
    pub(super) fn places_tagged(&self, tag: u64) -> u32 {
        let is_tagged = |entry: &AtomicU64| {
            // Relaxed: a caller that follows the pointer loads it again.
            entry.load(Ordering::Relaxed) ^ tag << POINTER_BITS <= POINTER_MASK
        };
        // From the last place on, so that each step shifts the result by one.
        self.entries.iter().rev().fold(0, |found, entry| found << 1 | u32::from(is_tagged(entry)))
    }

    /// First place without an entry. For the lock's owner.
    pub(super) fn vacant_place(&self) -> Option<usize> {
        // Relaxed: the lock's owner is the only writer.
        self.entries.iter().position(|word| word.load(Ordering::Relaxed) == 0)
    }

    /// Number of places without an entry. For the lock's owner.
    pub(super) fn vacant_count(&self) -> usize {
        // Relaxed: the lock's owner is the only writer.
        self.entries.iter().filter(|word| word.load(Ordering::Relaxed) == 0).count()
    }

    /// Index of the next bucket of the chain.
    #[inline(always)]
    pub(super) fn next(&self) -> Option<usize> {
        // Relaxed: an overflow bucket is part of the segment, and was published with it.
        ((self.link.load(Ordering::Relaxed) & NEXT_MASK) as usize).checked_sub(1)
    }

    /// Extends a chain that ends here. The caller owns the slot's lock.
    pub(super) fn set_next(&self, index: usize) {
        debug_assert!(self.next().is_none() && index < BUCKET_COUNT_MAX);
        // Relaxed, both: the bucket is part of the segment; its entries belong to other chains, and
        // new ones are published by themselves. The lock's owner is the only writer.
        self.link.store(self.link.load(Ordering::Relaxed) | (index as u64 + 1), Ordering::Relaxed);
    }

    /// Tails of all places, with and without entries. For the lock's owner.
    pub(super) fn tails(&self) -> [Tail; BUCKET_ENTRIES] {
        // Relaxed: the lock's owner is the only writer.
        let link = self.link.load(Ordering::Relaxed);
        std::array::from_fn(|place| Tail::from_raw((link >> tail_shift(place) & TAIL_MASK) as u8))
    }

    /// Stores the tail of the entry at `place`. The caller owns the slot's lock.
    pub(super) fn set_tail(&self, place: usize, tail: Tail) {
        // Relaxed, both: no reader looks at tails, and the next bucket stays the same.
        let link = self.link.load(Ordering::Relaxed) & !(TAIL_MASK << tail_shift(place));
        self.link.store(link | u64::from(tail.raw()) << tail_shift(place), Ordering::Relaxed);
    }
}

fn tail_shift(place: usize) -> u32 {
    NEXT_BITS + place as u32 * TAIL_BITS
}
