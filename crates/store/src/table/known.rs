//! Known bits of an entry's hash, without a look at its key.
//!
//! An entry's key is in no cache when its segment is resized, and waiting for some hundred keys
//! takes longer than everything else that a resize does. A bucket therefore stores three parts of a
//! hash:
//!
//! ```text
//! | prefix: as many bits as the segment is deep | tag: 16 bits | tail: up to 6 bits | unknown
//! ```
//!
//! The tag is in the entry's word and serves lookups. The **tail** is in the bucket's link and
//! serves resizes: a split makes the prefix a bit longer, so that the tag takes over a bit from the
//! tail. A tail without bits makes a split hash the key, after which the tail is whole again.
//! Entries are inserted with a whole tail, and a split finds about as many new ones as old ones: of
//! some 600 entries about five are seven splits old. Rejected: a longer tag, which would be used up
//! just as soon for all entries; whole hashes, eight bytes per key.

use std::ops::RangeInclusive;

/// Bits of a tag.
pub(super) const TAG_BITS: u32 = 16;

/// Most bits of the hash in a tail.
const TAIL_HASH_BITS_MAX: u32 = 6;

/// Bits of a tail with the marker bit above the bits of the hash.
pub(super) const TAIL_BITS: u32 = TAIL_HASH_BITS_MAX + 1;

/// Bits of a hash behind the tag, below a marker bit that is set. Zero, as in fresh memory, is a
/// tail of no bits too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tail(u8);

impl Tail {
    /// Tail that [`Tail::raw`] returned.
    pub(super) fn from_raw(raw: u8) -> Tail {
        debug_assert_eq!(raw >> TAIL_BITS, 0);
        Tail(raw)
    }

    /// The tail as at most [`TAIL_BITS`] bits.
    pub(super) fn raw(self) -> u8 {
        self.0
    }

    fn hash_bits(self) -> u32 {
        self.0.checked_ilog2().unwrap_or(0)
    }
}

/// First bits of a hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct KnownHash {
    /// Known bits at the top, zeros below.
    lowest: u64,
    /// Number of known bits.
    count: u32,
}

impl KnownHash {
    /// Hash of which every bit is known.
    pub(super) fn whole(hash: u64) -> KnownHash {
        KnownHash { lowest: hash, count: u64::BITS }
    }

    /// Bits known by the tag of an entry in a segment of this depth and prefix.
    pub(super) fn of_tag(tag: u64, depth: u32, prefix: u64) -> KnownHash {
        let count = depth + TAG_BITS;
        KnownHash { lowest: prefix | tag << (u64::BITS - count), count }
    }

    /// The same with the bits of the tail that follows.
    pub(super) fn and(self, tail: Tail) -> KnownHash {
        let bits = tail.hash_bits();
        let count = self.count + bits;
        let known = u64::from(tail.raw()) & !(1 << bits);
        KnownHash { lowest: self.lowest | known << (u64::BITS - count), count }
    }

    /// Lowest hash with these bits.
    pub(super) fn lowest(self) -> u64 {
        self.lowest
    }

    /// All hashes with these bits.
    pub(super) fn range(self) -> RangeInclusive<u64> {
        self.lowest..=self.lowest | u64::MAX.checked_shr(self.count).unwrap_or(0)
    }

    /// True if the known bits contain the tag in a segment of this depth.
    pub(super) fn has_tag(self, depth: u32) -> bool {
        self.count >= depth + TAG_BITS
    }

    /// Tail, behind the tag, in a segment of this depth.
    pub(super) fn tail(self, depth: u32) -> Tail {
        debug_assert!(self.has_tag(depth));
        let behind = depth + TAG_BITS;
        let bits = (self.count - behind).min(TAIL_HASH_BITS_MAX);
        // In two steps, for there may be no bit at all.
        let known = (self.lowest << behind) >> 1 >> (u64::BITS - 1 - bits);
        Tail(1 << bits | known as u8)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::SEGMENT_DEPTH_MAX;

    const HASHES: [u64; 4] = [0, u64::MAX, 0x0123_4567_89ab_cdef, 0xfedc_ba98_7654_3210];

    fn prefix(hash: u64, depth: u32) -> u64 {
        hash & !u64::MAX.checked_shr(depth).unwrap_or(0)
    }

    /// Bits of a known hash that a segment of this depth keeps.
    fn kept(known: KnownHash, depth: u32) -> KnownHash {
        let tag = (known.lowest() << depth) >> (u64::BITS - TAG_BITS);
        let tail = Tail::from_raw(known.tail(depth).raw());
        KnownHash::of_tag(tag, depth, prefix(known.lowest(), depth)).and(tail)
    }

    #[test]
    fn a_segment_keeps_prefix_tag_and_tail() {
        for hash in HASHES {
            for depth in 0..=SEGMENT_DEPTH_MAX {
                let known = kept(KnownHash::whole(hash), depth);
                assert_eq!(known.count, depth + TAG_BITS + TAIL_HASH_BITS_MAX);
                assert_eq!(known.lowest(), prefix(hash, known.count));
                assert!(known.range().contains(&hash));
            }
        }
    }

    #[test]
    fn a_tail_lasts_for_so_many_splits_as_it_has_bits() {
        for hash in HASHES {
            let mut known = kept(KnownHash::whole(hash), 3);
            for depth in 4..4 + TAIL_HASH_BITS_MAX {
                assert!(known.has_tag(depth));
                known = kept(known, depth);
                assert!(known.range().contains(&hash));
            }
            assert!(!known.has_tag(4 + TAIL_HASH_BITS_MAX));
            assert_eq!(known.tail(3 + TAIL_HASH_BITS_MAX), Tail(1));
        }
    }

    #[test]
    fn joining_gives_a_tail_bits_back() {
        for hash in HASHES {
            let spent = KnownHash { lowest: prefix(hash, 9 + TAG_BITS), count: 9 + TAG_BITS };
            let joined = kept(spent, 8);
            assert_eq!(joined, spent);
            assert!(joined.has_tag(9));
        }
    }

    #[test]
    fn fresh_memory_is_a_tail_that_tells_nothing() {
        let known = KnownHash::of_tag(0x1234, 5, prefix(HASHES[2], 5));
        assert_eq!(known.and(Tail::from_raw(0)), known);
        assert_eq!(known.and(Tail::from_raw(1)), known);
    }

    #[test]
    fn a_whole_hash_is_the_only_one_that_begins_so() {
        for hash in HASHES {
            assert_eq!(KnownHash::whole(hash).range(), hash..=hash);
        }
    }
}
