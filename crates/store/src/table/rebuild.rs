//! Resize steps: a segment built anew, larger, smaller, split, or joined with its neighbour.
//!
//! An entry's tag tells the 16 bits of its hash that follow the segment's prefix. That is nearly always enough to
//! choose a bucket in a segment of the same depth or above, so that growing and joining read the table and hardly any
//! key. Only a split needs one bit more, and computes all hashes again.
#![allow(unsafe_code)]

use tidemill_rcu::Section;

use super::segment::{
    BUCKET_ENTRIES, SegmentWord, bucket_index, entry_of, known_hash, prefetch, tagged,
};
use crate::hash::{Seed, hash};
use crate::heap::Heap;
use crate::limits::{OVERFLOW_SHARE, SEGMENT_BUCKETS_MAX, SEGMENT_DEPTH_MAX, SEGMENT_LOAD_TENTHS};

/// The sizes that segments have, in lines of 64 bytes: a header and so many buckets; two in each doubling.
///
/// They are size classes of common allocators, so that nothing is lost to rounding there. Narrower steps keep more
/// classes in use while all segments of a keyspace grow together, and each one that is nearly left stays resident.
fn rounded_lines(lines: usize) -> usize {
    lines.next_multiple_of((lines.next_power_of_two() / 4).max(1))
}

/// How many home buckets a segment of `entry_count` entries is built with.
fn home_count_for(entry_count: usize) -> usize {
    let buckets = (entry_count * 10).div_ceil(SEGMENT_LOAD_TENTHS);
    let lines = rounded_lines(1 + buckets);
    home_share(lines - 1).min(SEGMENT_BUCKETS_MAX)
}

/// How many of so many buckets are home buckets; the others are for overflow.
fn home_share(buckets: usize) -> usize {
    buckets - buckets / OVERFLOW_SHARE
}

/// An entry's word in the segment under construction, and its home bucket there.
#[derive(Clone, Copy)]
struct Moving {
    word: u64,
    home: usize,
}

/// The range of a segment under construction, how many home buckets it has, and how many lines at least.
#[derive(Clone, Copy)]
struct Plan {
    depth: u32,
    prefix: u64,
    home_count: usize,
    lines_min: usize,
}

impl Plan {
    /// Where an entry of `source`, which is as deep or one level deeper, goes.
    fn place(self, word: u64, source: SegmentWord, seed: &Seed, section: Section<'_>) -> Moving {
        let known = known_hash(word, source.depth(), source.prefix());
        let (lowest, highest) = known.into_inner();
        let home = bucket_index(lowest, self.depth, self.home_count);
        if home == bucket_index(highest, self.depth, self.home_count) {
            return Moving { word: tagged(word, lowest, self.depth), home };
        }
        self.place_hashed(word, full_hash(word, seed, section))
    }

    fn place_hashed(self, word: u64, hash: u64) -> Moving {
        let home = bucket_index(hash, self.depth, self.home_count);
        Moving { word: tagged(word, hash, self.depth), home }
    }

    /// Builds a segment that holds what moves into it, with some overflow buckets to spare.
    fn build(self, moving: &[Moving], heap: &Heap) -> SegmentWord {
        let mut occupancy = [0_usize; SEGMENT_BUCKETS_MAX];
        for entry in moving {
            occupancy[entry.home] += 1;
        }
        let excess =
            occupancy.iter().map(|&count| count.saturating_sub(BUCKET_ENTRIES)).sum::<usize>();
        let spare = usize::from(self.home_count > 1);
        let lines = 1 + self.home_count + excess.div_ceil(BUCKET_ENTRIES) + spare;
        let mut lines = lines.max(self.lines_min);
        // It ends: with enough lines each home bucket has its overflow buckets for itself.
        loop {
            lines = rounded_lines(lines);
            if let Some(segment) = self.filled(lines, moving, heap) {
                return segment;
            }
            lines += 1;
        }
    }

    /// A segment of so many lines that holds what moves into it, unless its overflow buckets do not suffice.
    fn filled(self, lines: usize, moving: &[Moving], heap: &Heap) -> Option<SegmentWord> {
        let Plan { depth, prefix, home_count, .. } = self;
        let segment =
            SegmentWord::allocate(depth, prefix, home_count, lines - 1 - home_count, heap);
        if moving.iter().all(|entry| segment.put(entry.home, entry.word)) {
            return Some(segment);
        }
        // SAFETY: nobody has seen the segment.
        heap.discarded(unsafe { segment.free() });
        None
    }
}

fn full_hash(word: u64, seed: &Seed, section: Section<'_>) -> u64 {
    let entry = entry_of(word, section).expect("empty places do not move");
    hash(seed, entry.key())
}

impl SegmentWord {
    fn entry_words(self) -> impl Iterator<Item = u64> {
        self.all_words().filter(|&word| word != 0)
    }

    fn rebuilt(
        self,
        home_count: usize,
        lines_min: usize,
        seed: &Seed,
        section: Section<'_>,
        heap: &Heap,
    ) -> SegmentWord {
        let plan = Plan { depth: self.depth(), prefix: self.prefix(), home_count, lines_min };
        let moving: Vec<Moving> =
            self.entry_words().map(|word| plan.place(word, self, seed, section)).collect();
        plan.build(&moving, heap)
    }

    fn larger_home_count(self) -> usize {
        let lines = rounded_lines(1 + self.home_count() + self.overflow_count() + 1);
        home_share(lines - 1).max(self.home_count() + 1)
    }

    /// The next larger build of this segment, or none when it must split.
    pub(super) fn grow(
        self,
        seed: &Seed,
        section: Section<'_>,
        heap: &Heap,
    ) -> Option<SegmentWord> {
        let home_count = self.larger_home_count();
        if home_count > SEGMENT_BUCKETS_MAX && self.depth() < SEGMENT_DEPTH_MAX {
            return None;
        }
        // More lines in any case, so that the deepest segments, whose home buckets do not become more, find room too.
        let lines_min = 2 + self.home_count() + self.overflow_count();
        Some(self.rebuilt(home_count.min(SEGMENT_BUCKETS_MAX), lines_min, seed, section, heap))
    }

    /// So few entries that a smaller segment would do.
    pub(super) fn is_sparse(self) -> bool {
        self.home_count() > 4 && self.entry_count() < self.home_count() * BUCKET_ENTRIES / 4
    }

    /// A build of this segment that fits its entries tightly.
    pub(super) fn shrink(self, seed: &Seed, section: Section<'_>, heap: &Heap) -> SegmentWord {
        self.rebuilt(home_count_for(self.entry_count()), 0, seed, section, heap)
    }

    /// Two segments, one bit deeper, that share this segment's entries by that bit.
    pub(super) fn split(self, seed: &Seed, section: Section<'_>, heap: &Heap) -> [SegmentWord; 2] {
        let depth = self.depth() + 1;
        let bit = 1_u64 << (64 - depth);
        let words: Vec<u64> = self.entry_words().collect();
        // The keys are cold: asking for all of them first overlaps the cache misses.
        for &word in &words {
            if let Some(entry) = entry_of(word, section) {
                prefetch(entry.pointer().as_ptr());
            }
        }
        let (ones, zeros): (Vec<_>, Vec<_>) = words
            .into_iter()
            .map(|word| (word, full_hash(word, seed, section)))
            .partition(|(_, hash)| hash & bit != 0);
        [(self.prefix(), zeros), (self.prefix() | bit, ones)].map(|(prefix, entries)| {
            let plan =
                Plan { depth, prefix, home_count: home_count_for(entries.len() + 1), lines_min: 0 };
            let moving: Vec<Moving> =
                entries.into_iter().map(|(word, hash)| plan.place_hashed(word, hash)).collect();
            plan.build(&moving, heap)
        })
    }

    /// One segment, one bit shallower, with the entries of two neighbours.
    pub(super) fn merge(
        [zeros, ones]: [SegmentWord; 2],
        seed: &Seed,
        section: Section<'_>,
        heap: &Heap,
    ) -> SegmentWord {
        let home_count = home_count_for(zeros.entry_count() + ones.entry_count());
        let plan =
            Plan { depth: zeros.depth() - 1, prefix: zeros.prefix(), home_count, lines_min: 0 };
        let moving: Vec<Moving> = [zeros, ones]
            .into_iter()
            .flat_map(|half| half.entry_words().map(move |word| (word, half)))
            .map(|(word, half)| plan.place(word, half, seed, section))
            .collect();
        plan.build(&moving, heap)
    }
}
