//! A segment: buckets in hash order over one range of hashes.
//!
//! One allocation: a header of one cache line, the home buckets, the overflow buckets. A segment at depth `d` holds
//! the hashes that share their first `d` bits; the rest of the hash, `hash << d`, chooses the bucket by
//! multiplication, so bucket counts need not be powers of two, and its top 16 bits are the entry's tag.
#![allow(unsafe_code)]

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

use tidemill_rcu::{Garbage, Section};

use crate::entry::EntryRef;
use crate::hash::{Seed, hash};
use crate::heap::Heap;
use crate::limits::{SEGMENT_BUCKETS_MAX, SEGMENT_LOAD_TENTHS};

const BUCKET_ENTRIES: usize = 7;
const POINTER_BITS: u32 = 48;
const POINTER_MASK: u64 = (1 << POINTER_BITS) - 1;
/// Entries are aligned to eight bytes; the lowest bit says that the entry expires.
const EXPIRES: u64 = 1;
const ENTRY_MASK: u64 = POINTER_MASK & !7;
/// Segments are aligned to cache lines; the low bits hold the depth.
const DEPTH_MASK: u64 = 63;

#[repr(C, align(64))]
struct Header {
    /// Entries in the segment. Written by the lock's owner only.
    entry_count: AtomicU32,
    /// Overflow buckets in use. Written by the lock's owner only.
    overflow_used: AtomicU32,
    home_count: u32,
    overflow_count: u32,
    /// The bits that all hashes of the segment share, at the top.
    prefix: u64,
}

#[repr(C, align(64))]
struct Bucket {
    entries: [AtomicU64; BUCKET_ENTRIES],
    /// One more than the index of the next bucket of the chain; 0 ends it.
    next: AtomicU64,
}

const _: () = assert!(size_of::<Header>() == 64 && size_of::<Bucket>() == 64);

/// A reference to a segment as a table or directory stores it: pointer, depth and home bucket count in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SegmentWord(u64);

/// Where an entry stands: the bucket's index in its segment and the place in the bucket.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Position {
    segment: SegmentWord,
    bucket: usize,
    place: usize,
}

impl Position {
    pub(crate) fn segment(self) -> SegmentWord {
        self.segment
    }
}

/// How many home buckets a segment of `entry_count` entries is built with.
fn home_count_for(entry_count: usize) -> usize {
    (entry_count * 10).div_ceil(SEGMENT_LOAD_TENTHS).clamp(1, SEGMENT_BUCKETS_MAX)
}

/// The next larger count: an eighth more, so that a table is never far from full.
fn grown(home_count: usize) -> usize {
    home_count + (home_count / 8).max(1)
}

fn tag(hash: u64, depth: u32) -> u64 {
    (hash << depth) >> POINTER_BITS
}

fn bucket_index(hash: u64, depth: u32, home_count: usize) -> usize {
    let wide = u128::from(hash << depth) * home_count as u128;
    (wide >> 64) as usize
}

fn entry_word(entry: EntryRef<'_>, hash: u64, depth: u32) -> u64 {
    let pointer = entry.pointer().as_ptr() as u64;
    debug_assert_eq!(
        pointer & !ENTRY_MASK,
        0,
        "user addresses have 47 bits and entries are aligned"
    );
    let expires = if entry.expires_at_ms().is_some() { EXPIRES } else { 0 };
    pointer | expires | tag(hash, depth) << POINTER_BITS
}

impl SegmentWord {
    fn new(pointer: NonNull<u8>, depth: u32, home_count: usize) -> SegmentWord {
        let address = pointer.as_ptr() as u64;
        debug_assert_eq!(address & !(POINTER_MASK & !DEPTH_MASK), 0);
        SegmentWord(address | u64::from(depth) | (home_count as u64) << POINTER_BITS)
    }

    /// # Safety
    ///
    /// `word` was made by [`SegmentWord::new`] and its segment is not freed while the result is used.
    pub(crate) unsafe fn from_raw(word: u64) -> SegmentWord {
        SegmentWord(word)
    }

    pub(crate) fn raw(self) -> u64 {
        self.0
    }

    pub(crate) fn depth(self) -> u32 {
        (self.0 & DEPTH_MASK) as u32
    }

    fn home_count(self) -> usize {
        (self.0 >> POINTER_BITS) as usize
    }

    fn base(self) -> *mut u8 {
        (self.0 & POINTER_MASK & !DEPTH_MASK) as *mut u8
    }

    fn header(&self) -> &Header {
        // SAFETY: the word's contract: the segment lives; its header was initialised by `build`.
        unsafe { &*self.base().cast::<Header>() }
    }

    fn bucket(&self, index: usize) -> &Bucket {
        debug_assert!(index < self.home_count() + self.header().overflow_count as usize);
        // SAFETY: the index is below the number of buckets behind the header.
        let pointer = unsafe { self.base().cast::<Bucket>().add(1 + index) };
        // SAFETY: as above; buckets are zeroed at birth, which is a valid value.
        unsafe { &*pointer }
    }

    fn layout(home_count: usize, overflow_count: usize) -> Layout {
        Layout::from_size_align(64 * (1 + home_count + overflow_count), 64)
            .expect("a segment is a few KiB")
    }

    fn bytes(self) -> usize {
        Self::layout(self.home_count(), self.header().overflow_count as usize).size()
    }

    pub(crate) fn entry_count(self) -> usize {
        // Relaxed: written by the lock's owner only; for others an estimate.
        self.header().entry_count.load(Ordering::Relaxed) as usize
    }

    pub(crate) fn prefix(self) -> u64 {
        self.header().prefix
    }

    /// Asks the processor to load the bucket of `hash`.
    #[inline]
    pub(crate) fn prefetch_bucket(self, hash: u64) {
        let index = bucket_index(hash, self.depth(), self.home_count());
        prefetch(self.base().wrapping_add(64 * (1 + index)));
    }

    /// Asks the processor to load the entries in the bucket of `hash` that may be the one looked for.
    #[inline]
    pub(crate) fn prefetch_entries(self, hash: u64) {
        let wanted = tag(hash, self.depth());
        let bucket = self.bucket(bucket_index(hash, self.depth(), self.home_count()));
        for entry in &bucket.entries {
            // Relaxed: the pointer is not followed, only prefetched.
            let word = entry.load(Ordering::Relaxed);
            if word >> POINTER_BITS == wanted {
                prefetch((word & ENTRY_MASK) as *const u8);
                prefetch(((word & ENTRY_MASK) as *const u8).wrapping_add(64));
            }
        }
    }

    /// Finds the entry of `key`.
    #[inline]
    pub(crate) fn find<'g>(
        self,
        hash: u64,
        key: &[u8],
        _section: Section<'g>,
    ) -> Option<(EntryRef<'g>, Position)> {
        let wanted = tag(hash, self.depth());
        let mut index = bucket_index(hash, self.depth(), self.home_count());
        loop {
            let bucket = self.bucket(index);
            for (place, slot) in bucket.entries.iter().enumerate() {
                // Relaxed, then a fence where it matters: most words are not the one looked for.
                let word = slot.load(Ordering::Relaxed);
                if word >> POINTER_BITS != wanted {
                    continue;
                }
                let Some(pointer) = NonNull::new((word & ENTRY_MASK) as *mut u8) else { continue };
                // Acquire: pairs with the Release store that published the entry.
                fence(Ordering::Acquire);
                // SAFETY: a table holds published entries only, which are not freed during the section.
                let entry = unsafe { EntryRef::<'g>::from_pointer(pointer) };
                if entry.key() == key {
                    return Some((entry, Position { segment: self, bucket: index, place }));
                }
            }
            // Acquire: pairs with the Release store in `insert`.
            match bucket.next.load(Ordering::Acquire) {
                0 => return None,
                next => index = next as usize - 1,
            }
        }
    }

    /// Puts `entry` into a free place of its bucket, extending the chain; `false` when there is no room.
    ///
    /// The caller owns the slot's lock and has made the version odd.
    #[must_use]
    pub(crate) fn insert(self, hash: u64, entry: EntryRef<'_>) -> bool {
        let word = entry_word(entry, hash, self.depth());
        let mut index = bucket_index(hash, self.depth(), self.home_count());
        loop {
            let bucket = self.bucket(index);
            // Relaxed: the lock's owner is the only writer.
            if let Some(free) = bucket.entries.iter().find(|slot| slot.load(Ordering::Relaxed) == 0)
            {
                // Release: pairs with the fence in `find`.
                free.store(word, Ordering::Release);
                self.add_entries(1);
                return true;
            }
            // Relaxed: the lock's owner is the only writer.
            match bucket.next.load(Ordering::Relaxed) {
                0 => match self.take_overflow_bucket() {
                    Some(next) => {
                        // Release: pairs with the load in `find`; the new bucket is still empty.
                        bucket.next.store(next as u64 + 1, Ordering::Release);
                        index = next;
                    }
                    None => return false,
                },
                next => index = next as usize - 1,
            }
        }
    }

    fn take_overflow_bucket(self) -> Option<usize> {
        let header = self.header();
        // Relaxed: written by the lock's owner only.
        let used = header.overflow_used.load(Ordering::Relaxed);
        if used == header.overflow_count {
            return None;
        }
        header.overflow_used.store(used + 1, Ordering::Relaxed);
        Some(self.home_count() + used as usize)
    }

    fn add_entries(self, change: i32) {
        let count = &self.header().entry_count;
        // Relaxed: written by the lock's owner only.
        let sum = count.load(Ordering::Relaxed).wrapping_add_signed(change);
        count.store(sum, Ordering::Relaxed);
    }

    /// Puts another entry of the same key where one stands. The caller owns the lock and has made the version odd.
    pub(crate) fn replace(self, position: Position, hash: u64, entry: EntryRef<'_>) {
        let word = entry_word(entry, hash, self.depth());
        // Release: pairs with the fence in `find`.
        self.bucket(position.bucket).entries[position.place].store(word, Ordering::Release);
    }

    /// Whether `entry` stands at `position`. The caller owns the lock.
    pub(crate) fn holds(self, position: Position, entry: EntryRef<'_>) -> bool {
        // Relaxed: the lock's owner is the only writer.
        let word = self.bucket(position.bucket).entries[position.place].load(Ordering::Relaxed);
        word & ENTRY_MASK == entry.pointer().as_ptr() as u64
    }

    /// Empties a place. The caller owns the lock and has made the version odd.
    pub(crate) fn remove(self, position: Position) {
        // Release: nothing is published; it keeps the store after those that the remover made before.
        self.bucket(position.bucket).entries[position.place].store(0, Ordering::Release);
        self.add_entries(-1);
    }

    /// So few entries that a smaller segment would do.
    pub(crate) fn is_sparse(self) -> bool {
        self.home_count() > 4 && self.entry_count() < self.home_count() * BUCKET_ENTRIES / 4
    }

    /// An empty segment for `entry_count` entries.
    pub(crate) fn empty(depth: u32, prefix: u64, heap: &Heap) -> SegmentWord {
        Self::allocate(depth, prefix, 1, 0, heap)
    }

    fn allocate(
        depth: u32,
        prefix: u64,
        home_count: usize,
        overflow_count: usize,
        heap: &Heap,
    ) -> SegmentWord {
        let layout = Self::layout(home_count, overflow_count);
        // SAFETY: the size is never zero.
        let memory = unsafe { alloc_zeroed(layout) };
        let Some(pointer) = NonNull::new(memory) else { handle_alloc_error(layout) };
        heap.allocated(layout.size());
        let header = Header {
            entry_count: AtomicU32::new(0),
            overflow_used: AtomicU32::new(0),
            home_count: home_count as u32,
            overflow_count: overflow_count as u32,
            prefix,
        };
        // SAFETY: fresh memory, aligned to 64, larger than a header.
        unsafe { pointer.cast::<Header>().write(header) };
        SegmentWord::new(pointer, depth, home_count)
    }

    /// Builds a segment that holds `entries`, with room for at least one more in every bucket's chain.
    fn build(
        depth: u32,
        prefix: u64,
        home_count: usize,
        entries: &[(EntryRef<'_>, u64)],
        heap: &Heap,
    ) -> SegmentWord {
        let mut occupancy = [0_u32; SEGMENT_BUCKETS_MAX + 1];
        for &(_, hash) in entries {
            occupancy[bucket_index(hash, depth, home_count)] += 1;
        }
        let needed: usize = occupancy[..home_count]
            .iter()
            .map(|&count| (count as usize).saturating_sub(1) / BUCKET_ENTRIES)
            .sum();
        let spare = home_count / 12 + usize::from(home_count > 1);
        let segment = Self::allocate(
            depth,
            prefix,
            home_count,
            needed + spare.max(usize::from(needed > 0)),
            heap,
        );
        for &(entry, hash) in entries {
            let inserted = segment.insert(hash, entry);
            debug_assert!(inserted, "the overflow buckets were counted");
        }
        segment
    }

    /// The next larger build of this segment, or none when it must split.
    pub(crate) fn grow(
        self,
        seed: &Seed,
        section: Section<'_>,
        heap: &Heap,
    ) -> Option<SegmentWord> {
        let home_count = grown(self.home_count()).max(home_count_for(self.entry_count() + 1));
        if home_count > SEGMENT_BUCKETS_MAX && self.depth() < DEPTH_MAX {
            return None;
        }
        let entries = self.hashed_entries(seed, section);
        let home_count = home_count.min(SEGMENT_BUCKETS_MAX);
        Some(Self::build(self.depth(), self.prefix(), home_count, &entries, heap))
    }

    /// A build of this segment that fits its entries tightly.
    pub(crate) fn shrink(self, seed: &Seed, section: Section<'_>, heap: &Heap) -> SegmentWord {
        let entries = self.hashed_entries(seed, section);
        let home_count = home_count_for(entries.len());
        Self::build(self.depth(), self.prefix(), home_count, &entries, heap)
    }

    /// Two segments, one bit deeper, that share this segment's entries by that bit.
    pub(crate) fn split(self, seed: &Seed, section: Section<'_>, heap: &Heap) -> [SegmentWord; 2] {
        let depth = self.depth() + 1;
        let bit = 1_u64 << (64 - depth);
        let (ones, zeros): (Vec<_>, Vec<_>) =
            self.hashed_entries(seed, section).into_iter().partition(|(_, hash)| hash & bit != 0);
        let build = |prefix, entries: &[_]| {
            Self::build(depth, prefix, home_count_for(entries.len() + 1), entries, heap)
        };
        [build(self.prefix(), &zeros), build(self.prefix() | bit, &ones)]
    }

    /// One segment, one bit shallower, with the entries of two neighbours.
    pub(crate) fn merge(
        [zeros, ones]: [SegmentWord; 2],
        seed: &Seed,
        section: Section<'_>,
        heap: &Heap,
    ) -> SegmentWord {
        let mut entries = zeros.hashed_entries(seed, section);
        entries.extend(ones.hashed_entries(seed, section));
        let home_count = home_count_for(entries.len());
        Self::build(zeros.depth() - 1, zeros.prefix(), home_count, &entries, heap)
    }

    fn hashed_entries<'g>(self, seed: &Seed, section: Section<'g>) -> Vec<(EntryRef<'g>, u64)> {
        let entries: Vec<EntryRef<'g>> = self.entries(section).collect();
        // The keys are cold: asking for all of them first overlaps the cache misses.
        for entry in &entries {
            prefetch(entry.pointer().as_ptr());
        }
        entries.into_iter().map(|entry| (entry, hash(seed, entry.key()))).collect()
    }

    /// All entries, in no particular order.
    pub(crate) fn entries<'g>(self, section: Section<'g>) -> impl Iterator<Item = EntryRef<'g>> {
        self.all_words().filter_map(move |word| entry_of(word, section))
    }

    /// The entries that expire; the others are not even loaded.
    pub(crate) fn expiring_entries<'g>(
        self,
        section: Section<'g>,
    ) -> impl Iterator<Item = EntryRef<'g>> {
        let expiring = self.all_words().filter(|word| word & EXPIRES != 0);
        expiring.filter_map(move |word| entry_of(word, section))
    }

    fn all_words(self) -> impl Iterator<Item = u64> {
        let bucket_count = self.home_count() + self.header().overflow_count as usize;
        (0..bucket_count).flat_map(move |index| self.words_of_bucket(index))
    }

    fn words_of_bucket(self, index: usize) -> [u64; BUCKET_ENTRIES] {
        // Acquire: pairs with the Release stores of `insert` and `replace`.
        std::array::from_fn(|place| self.bucket(index).entries[place].load(Ordering::Acquire))
    }

    /// Visits the chain of the home bucket that holds `from`, and returns the first hash behind it, rounded up to
    /// a multiple of `granularity` (a power of two), or `None` at the segment's end.
    ///
    /// Entries of the next bucket whose hash lies below the rounded boundary are visited too, so that nothing falls
    /// between two visits, whatever the table becomes in between.
    pub(crate) fn visit_bucket<'g>(
        self,
        from: u64,
        granularity: u64,
        seed: &Seed,
        section: Section<'g>,
        visit: &mut dyn FnMut(EntryRef<'g>),
    ) -> Option<u64> {
        let depth = self.depth();
        let home_count = self.home_count();
        let index = bucket_index(from, depth, home_count);
        self.chain(index).filter_map(|word| entry_of(word, section)).for_each(&mut *visit);
        if index + 1 == home_count {
            return None;
        }
        let wide = (((index as u128 + 1) << 64).div_ceil(home_count as u128)) as u64;
        let start = self.prefix() | wide >> depth;
        let boundary = start.checked_next_multiple_of(granularity)?;
        let rounded_over = tag(start, depth);
        self.chain(index + 1)
            .filter(|word| word >> POINTER_BITS == rounded_over && boundary != start)
            .filter_map(|word| entry_of(word, section))
            .filter(|entry| hash(seed, entry.key()) < boundary)
            .for_each(visit);
        (boundary < self.end_exclusive()?).then_some(boundary)
    }

    /// The first hash behind the segment's range; none behind the last segment.
    pub(crate) fn end(self) -> Option<u64> {
        self.end_exclusive().filter(|&end| end != u64::MAX)
    }

    fn end_exclusive(self) -> Option<u64> {
        let depth = self.depth();
        if depth == 0 {
            return Some(u64::MAX);
        }
        Some(self.prefix().saturating_add(1 << (64 - depth)))
    }

    /// The words of a home bucket and its overflow buckets.
    fn chain(self, home: usize) -> impl Iterator<Item = u64> {
        let mut next = Some(home);
        std::iter::from_fn(move || {
            let index = next?;
            // Acquire: pairs with the Release store in `insert`.
            next = match self.bucket(index).next.load(Ordering::Acquire) {
                0 => None,
                link => Some(link as usize - 1),
            };
            Some(self.words_of_bucket(index))
        })
        .flatten()
    }

    /// Retires the segment, not its entries.
    ///
    /// # Safety
    ///
    /// The segment must be out of reach for readers that begin now, and retired only once.
    pub(crate) unsafe fn retire(self, heap: &Heap) {
        let pointer = NonNull::new(self.base()).expect("a segment word holds a pointer");
        // SAFETY: the caller's promise.
        let garbage = unsafe { Garbage::new(pointer, self.bytes(), free_segment) };
        heap.retire(garbage);
    }

    /// Frees the segment at once, not its entries, and returns its bytes.
    ///
    /// # Safety
    ///
    /// Nobody may refer to the segment any more.
    pub(crate) unsafe fn free(self) -> usize {
        let bytes = self.bytes();
        let pointer = NonNull::new(self.base()).expect("a segment word holds a pointer");
        // SAFETY: the caller's promise.
        unsafe { free_segment(pointer) };
        bytes
    }
}

/// The entry that a bucket's word refers to, if any.
fn entry_of<'g>(word: u64, _section: Section<'g>) -> Option<EntryRef<'g>> {
    let pointer = NonNull::new((word & ENTRY_MASK) as *mut u8)?;
    // SAFETY: a table holds published entries only, which are not freed during the section; the word was loaded with
    // Acquire.
    Some(unsafe { EntryRef::from_pointer(pointer) })
}

/// Beyond this depth a split no longer separates hashes that differ; chains grow instead.
const DEPTH_MAX: u32 = 40;
const _: () = assert!((DEPTH_MAX as u64) < DEPTH_MASK && DEPTH_MAX + 16 <= 64);

/// # Safety
///
/// `pointer` is a segment that nobody refers to.
unsafe fn free_segment(pointer: NonNull<u8>) {
    // SAFETY: the segment is still whole.
    let header = unsafe { pointer.cast::<Header>().as_ref() };
    let layout = SegmentWord::layout(header.home_count as usize, header.overflow_count as usize);
    // SAFETY: `allocate` used the layout that the same fields give.
    unsafe { dealloc(pointer.as_ptr(), layout) };
}

/// Asks the processor to load a cache line; any address will do.
#[inline]
pub(crate) fn prefetch(address: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch never faults and changes nothing.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(address.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}
