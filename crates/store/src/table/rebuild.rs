//! Resize steps: a segment built anew, larger, smaller, split, or merged with its neighbour.
//!
//! The bits of its entries' hashes that a segment keeps (see [`known`](super::known)) are nearly
//! always enough to choose their buckets in another one, so that every step reads the table and
//! hardly any key.
#![allow(unsafe_code)]

use crate::member::Section;
use smallvec::SmallVec;

use super::bucket::BUCKET_ENTRIES;
use super::known::{KnownHash, Tail};
use super::segment::{SegmentWord, entry_of, known_bucket_index, tagged};
use crate::hash::{Seed, hash};
use crate::heap::Heap;
use crate::limits::{OVERFLOW_SHARE, SEGMENT_BUCKETS_MAX, SEGMENT_DEPTH_MAX, SEGMENT_LOAD_TENTHS};
use crate::prefetch::prefetch;

/// Rounds a segment's size, in lines of 64 bytes, up to the next one in use; two in each doubling.
///
/// They are size classes of common allocators, so that nothing is lost to rounding there. Narrower
/// steps keep more classes in use while all segments of a keyspace grow together, and a class that
/// is nearly empty stays resident.
fn rounded_lines(lines: usize) -> usize {
    lines.next_multiple_of((lines.next_power_of_two() / 4).max(1))
}

/// Number of home buckets for a segment of `entry_count` entries.
fn home_count_for(entry_count: usize) -> usize {
    let buckets = (entry_count * 10).div_ceil(SEGMENT_LOAD_TENTHS);
    let lines = rounded_lines(1 + buckets);
    home_share(lines - 1).min(SEGMENT_BUCKETS_MAX)
}

/// Number of home buckets among `buckets`; the others are for overflow.
fn home_share(buckets: usize) -> usize {
    buckets - buckets / OVERFLOW_SHARE
}

/// Word of an entry in the segment that is rebuilt, and the known bits of its hash.
#[derive(Clone, Copy)]
struct Leaving {
    word: u64,
    known: KnownHash,
}

impl Leaving {
    /// The same with the whole hash, from the key.
    fn hashed(self, seed: &Seed, section: Section<'_>) -> Leaving {
        let entry = entry_of(self.word, section).expect("empty places do not move");
        Leaving { known: KnownHash::whole(hash(seed, entry.key())), ..self }
    }

    /// Half of a split that it goes into: the first bit of its tag.
    fn half(self) -> usize {
        (self.word >> (u64::BITS - 1)) as usize
    }
}

/// Word of an entry in the segment under construction, its tail, and its home bucket there.
#[derive(Clone, Copy)]
struct Moving {
    word: u64,
    tail: Tail,
    home: u8,
}

const _: () = assert!(SEGMENT_BUCKETS_MAX <= 1 << u8::BITS);

/// Entries that move into one segment. On the stack, where pages and cache lines are warm: there
/// are hardly ever more, and 8 KiB of the allocator's are often fresh pages.
type MovingList = SmallVec<[Moving; 512]>;

/// Range of a segment under construction, its number of home buckets, and its least number of
/// lines.
#[derive(Clone, Copy)]
struct SegmentPlan {
    depth: u32,
    prefix: u64,
    home_count: usize,
    lines_min: usize,
}

impl SegmentPlan {
    /// Place of an entry, if the known bits of its hash suffice.
    #[inline]
    fn place(self, Leaving { word, known }: Leaving) -> Option<Moving> {
        if !known.has_tag(self.depth) {
            return None;
        }
        let home = known_bucket_index(known, self.depth, self.home_count)? as u8;
        let word = tagged(word, known.lowest(), self.depth);
        Some(Moving { word, tail: known.tail(self.depth), home })
    }

    /// Place of an entry, whose key is hashed if the known bits do not suffice.
    fn place_surely(self, entry: Leaving, seed: &Seed, section: Section<'_>) -> Moving {
        self.place(entry)
            .or_else(|| self.place(entry.hashed(seed, section)))
            .expect("a whole hash tells the bucket")
    }

    /// Builds a segment of the moving entries, with some spare overflow buckets.
    fn build(self, moving: &[Moving], heap: &Heap) -> SegmentWord {
        let mut occupancy = [0_usize; SEGMENT_BUCKETS_MAX];
        for entry in moving {
            occupancy[usize::from(entry.home)] += 1;
        }
        let excess =
            occupancy.iter().map(|&count| count.saturating_sub(BUCKET_ENTRIES)).sum::<usize>();
        let spare = usize::from(self.home_count > 1);
        let lines = 1 + self.home_count + excess.div_ceil(BUCKET_ENTRIES) + spare;
        let mut lines = lines.max(self.lines_min);
        // Terminates: with enough lines each home bucket has its overflow buckets for itself.
        loop {
            lines = rounded_lines(lines);
            if let Some(segment) = self.filled(lines, moving, heap) {
                return segment;
            }
            lines += 1;
        }
    }

    /// Segment of `lines` lines with the moving entries; none if its overflow buckets do not
    /// suffice.
    fn filled(self, lines: usize, moving: &[Moving], heap: &Heap) -> Option<SegmentWord> {
        let SegmentPlan { depth, prefix, home_count, .. } = self;
        let segment =
            SegmentWord::allocate(depth, prefix, home_count, lines - 1 - home_count, heap);
        if moving.iter().all(|entry| segment.put(usize::from(entry.home), entry.word, entry.tail)) {
            return Some(segment);
        }
        // SAFETY: the segment was not published.
        heap.discarded(unsafe { segment.free() });
        None
    }
}

impl SegmentWord {
    fn leaving(self) -> impl Iterator<Item = Leaving> {
        self.known_entries().map(|(word, known)| Leaving { word, known })
    }

    fn rebuilt(
        self,
        home_count: usize,
        lines_min: usize,
        seed: &Seed,
        section: Section<'_>,
        heap: &Heap,
    ) -> SegmentWord {
        let plan =
            SegmentPlan { depth: self.depth(), prefix: self.prefix(), home_count, lines_min };
        let mut moving = MovingList::new();
        self.leaving().for_each(|entry| moving.push(plan.place_surely(entry, seed, section)));
        plan.build(&moving, heap)
    }

    fn larger_home_count(self) -> usize {
        let lines = rounded_lines(1 + self.home_count() + self.overflow_count() + 1);
        home_share(lines - 1).max(self.home_count() + 1)
    }

    /// Next larger build of this segment, or none when it must split.
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
        // More lines in any case, so that the deepest segments, whose number of home buckets is at
        // its limit, find room too.
        let lines_min = 2 + self.home_count() + self.overflow_count();
        Some(self.rebuilt(home_count.min(SEGMENT_BUCKETS_MAX), lines_min, seed, section, heap))
    }

    /// True if a smaller segment would hold the entries.
    pub(super) fn is_sparse(self) -> bool {
        self.home_count() > 4 && self.entry_count() < self.home_count() * BUCKET_ENTRIES / 4
    }

    /// Build of this segment with the size for its number of entries.
    pub(super) fn shrink(self, seed: &Seed, section: Section<'_>, heap: &Heap) -> SegmentWord {
        self.rebuilt(home_count_for(self.entry_count()), 0, seed, section, heap)
    }

    /// Two segments, one bit deeper, with this segment's entries divided by that bit.
    pub(super) fn split(self, seed: &Seed, section: Section<'_>, heap: &Heap) -> [SegmentWord; 2] {
        let depth = self.depth() + 1;
        let bit = 1_u64 << (64 - depth);
        let counts = self.half_counts(section);
        let plans = [0, 1].map(|half| SegmentPlan {
            depth,
            prefix: self.prefix() | if half == 1 { bit } else { 0 },
            home_count: home_count_for(counts[half] + 1),
            lines_min: 0,
        });
        let mut moving = [MovingList::new(), MovingList::new()];
        self.leaving().for_each(|entry| {
            let half = entry.half();
            moving[half].push(plans[half].place_surely(entry, seed, section));
        });
        [0, 1].map(|half| plans[half].build(&moving[half], heap))
    }

    /// Number of entries for each half of a split. Prefetches the keys that will be hashed, which
    /// are in no cache, so that their misses overlap.
    fn half_counts(self, section: Section<'_>) -> [usize; 2] {
        let mut counts = [0; 2];
        self.leaving().for_each(|leaving| {
            counts[leaving.half()] += 1;
            if !leaving.known.has_tag(self.depth() + 1)
                && let Some(entry) = entry_of(leaving.word, section)
            {
                prefetch(entry.pointer().as_ptr());
            }
        });
        counts
    }

    /// One segment, one bit shallower, with the entries of two neighbours.
    pub(super) fn merge(
        [zeros, ones]: [SegmentWord; 2],
        seed: &Seed,
        section: Section<'_>,
        heap: &Heap,
    ) -> SegmentWord {
        let home_count = home_count_for(zeros.entry_count() + ones.entry_count());
        let plan = SegmentPlan {
            depth: zeros.depth() - 1,
            prefix: zeros.prefix(),
            home_count,
            lines_min: 0,
        };
        let entries = zeros.leaving().chain(ones.leaving());
        let mut moving = MovingList::new();
        entries.for_each(|entry| moving.push(plan.place_surely(entry, seed, section)));
        plan.build(&moving, heap)
    }
}
