//! Segment: buckets in hash order over one range of hashes.
//!
//! One allocation: a header of one cache line, the home buckets, the overflow buckets. A segment at
//! depth `d` holds the hashes that share their first `d` bits; the rest of the hash, `hash << d`,
//! chooses the bucket by multiplication, so bucket counts need not be powers of two, and its top 16
//! bits are the entry's tag.
//!
//! A full bucket continues in an overflow bucket, which it may share with others. With overflow
//! buckets of its own, a segment would be full with 71 % of its places in use; shared, it is full
//! with 92 %, for 1.2 buckets per hit at that moment instead of 1.1.
#![allow(unsafe_code)]

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::cmp::Reverse;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

use tidemill_rcu::Garbage;

use crate::member::Section;

use super::bucket::{BUCKET_COUNT_MAX, BUCKET_ENTRIES, Bucket, POINTER_BITS, POINTER_MASK};
use super::key_class::KeyClass;
use super::known::{KnownHash, TAG_BITS, Tail};
use crate::entry::EntryRef;
use crate::hash::{Seed, hash};
use crate::heap::Heap;
use crate::key::NO_PLACE;
use crate::limits::{SCAN_GRANULARITY_MAX, SEGMENT_BUCKETS_MAX, SEGMENT_DEPTH_MAX};
use crate::prefetch::prefetch;
use crate::size_class::size_class;

/// Set in the word of an entry that expires. Entries are aligned to eight bytes.
const EXPIRES: u64 = 1;
/// Set in the word of an entry that continues in another cache line.
const GOES_ON: u64 = 2;
const LINE_BYTES: u64 = 64;
const ENTRY_MASK: u64 = POINTER_MASK & !7;
/// Segments are aligned to cache lines; the low bits hold the depth.
const DEPTH_MASK: u64 = 63;

const _: () = assert!((SEGMENT_DEPTH_MAX as u64) < DEPTH_MASK);
const _: () = assert!(TAG_BITS + POINTER_BITS == u64::BITS);
// A step of a walk rounds up to its granularity, and must not reach beyond the next bucket.
const _: () =
    assert!(SCAN_GRANULARITY_MAX <= (1 << (64 - SEGMENT_DEPTH_MAX)) / SEGMENT_BUCKETS_MAX as u64);

#[repr(C, align(64))]
struct SegmentHeader {
    /// Entries in the segment. Written by the lock's owner only.
    entry_count: AtomicU32,
    home_count: u32,
    overflow_count: u32,
    /// Bits that all hashes of the segment share, at the top.
    prefix: u64,
}

const _: () = assert!(size_of::<SegmentHeader>() == 64);

/// Indices of the bits that are set, lowest first.
#[inline(always)]
fn bits(mut set: u32) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let lowest = (set != 0).then(|| set.trailing_zeros() as usize);
        set &= set.wrapping_sub(1);
        lowest
    })
}

/// True if two keys are equal, without a call for the lengths that most keys have.
#[inline(always)]
fn is_same(one: &[u8], other: &[u8]) -> bool {
    fn have_same_ends<const LENGTH: usize>(one: &[u8], other: &[u8]) -> bool {
        one.first_chunk::<LENGTH>() == other.first_chunk()
            && one.last_chunk::<LENGTH>() == other.last_chunk()
    }
    one.len() == other.len()
        && match one.len() {
            8..=16 => have_same_ends::<8>(one, other),
            17..=32 => have_same_ends::<16>(one, other),
            _ => one == other,
        }
}

/// Reference to a segment as a table or directory stores it: pointer, depth and home bucket count
/// in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SegmentWord(u64);

/// Place of an entry: the bucket's index in its segment and the place in the bucket.
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

    fn word(&self) -> &AtomicU64 {
        &self.segment.bucket(self.bucket).entries[self.place]
    }

    fn set_tail(&self, tail: Tail) {
        self.segment.bucket(self.bucket).set_tail(self.place, tail);
    }

    pub(crate) fn refers_to(self, entry: EntryRef<'_>) -> bool {
        // Relaxed: for the lock's owner, which is the only writer.
        let pointer = self.word().load(Ordering::Relaxed) & ENTRY_MASK;
        pointer == entry.pointer().as_ptr() as u64
    }

    /// Publishes the entry of `hash` here. The caller owns the lock and has made the version odd.
    pub(crate) fn fill(self, hash: u64, entry: EntryRef<'_>) {
        self.replace(hash, entry);
        self.segment.add_entries(1);
    }

    /// Publishes another entry of the same key here. The caller owns the lock and has made the
    /// version odd.
    #[inline(always)]
    pub(crate) fn replace(self, hash: u64, entry: EntryRef<'_>) {
        let depth = self.segment.depth();
        self.set_tail(KnownHash::whole(hash).tail(depth));
        // Release: pairs with the fence in `entry_with` and the Acquire loads of walks.
        self.word().store(entry_word(entry, hash, depth), Ordering::Release);
    }

    /// Empties the place. The caller owns the lock and has made the version odd.
    pub(crate) fn clear(self) {
        // Relaxed: publishes nothing; the release fence of `begin_change` orders it after the odd
        // version.
        self.word().store(0, Ordering::Relaxed);
        self.segment.add_entries(-1);
    }
}

pub(super) fn tag(hash: u64, depth: u32) -> u64 {
    (hash << depth) >> POINTER_BITS
}

pub(super) fn bucket_index(hash: u64, depth: u32, home_count: usize) -> usize {
    let wide = u128::from(hash << depth) * home_count as u128;
    (wide >> 64) as usize
}

/// Home bucket of a hash, if the known bits suffice.
pub(super) fn known_bucket_index(known: KnownHash, depth: u32, home_count: usize) -> Option<usize> {
    let (lowest, highest) = known.range().into_inner();
    let home = bucket_index(lowest, depth, home_count);
    (home == bucket_index(highest, depth, home_count)).then_some(home)
}

fn entry_word(entry: EntryRef<'_>, hash: u64, depth: u32) -> u64 {
    let pointer = entry.pointer().as_ptr() as u64;
    debug_assert_eq!(pointer & !ENTRY_MASK, 0, "user addresses have 47 bits, entries are aligned");
    let expires = if entry.expires_at_ms().is_some() { EXPIRES } else { 0 };
    let goes_on = pointer % LINE_BYTES + entry.entry_bytes() as u64 > LINE_BYTES;
    tagged(pointer | expires | if goes_on { GOES_ON } else { 0 }, hash, depth)
}

/// Word of an entry with the tag that it has at `depth`.
pub(super) fn tagged(word: u64, hash: u64, depth: u32) -> u64 {
    word & POINTER_MASK | tag(hash, depth) << POINTER_BITS
}

impl SegmentWord {
    fn new(pointer: NonNull<u8>, depth: u32, home_count: usize) -> SegmentWord {
        let address = pointer.as_ptr() as u64;
        debug_assert_eq!(address & !(POINTER_MASK & !DEPTH_MASK), 0);
        SegmentWord(address | u64::from(depth) | (home_count as u64) << POINTER_BITS)
    }

    /// # Safety
    ///
    /// `word` was made by [`SegmentWord::new`] and its segment is not freed while the result is
    /// used.
    pub(crate) unsafe fn from_raw(word: u64) -> SegmentWord {
        SegmentWord(word)
    }

    pub(crate) fn raw(self) -> u64 {
        self.0
    }

    pub(crate) fn depth(self) -> u32 {
        (self.0 & DEPTH_MASK) as u32
    }

    pub(super) fn home_count(self) -> usize {
        (self.0 >> POINTER_BITS) as usize
    }

    fn base(self) -> *mut u8 {
        (self.0 & POINTER_MASK & !DEPTH_MASK) as *mut u8
    }

    fn header(&self) -> &SegmentHeader {
        // SAFETY: the word's contract: the segment lives; its header was initialised by `allocate`.
        unsafe { &*self.base().cast::<SegmentHeader>() }
    }

    fn bucket(&self, index: usize) -> &Bucket {
        debug_assert!(index < self.bucket_count());
        // SAFETY: the index is below the number of buckets behind the header.
        let pointer = unsafe { self.base().cast::<Bucket>().add(1 + index) };
        // SAFETY: as above; buckets are zeroed by `allocate`, which is a valid value.
        unsafe { &*pointer }
    }

    fn layout(home_count: usize, overflow_count: usize) -> Layout {
        Layout::from_size_align(64 * (1 + home_count + overflow_count), 64)
            .expect("a segment is a few KiB")
    }

    pub(super) fn overflow_count(self) -> usize {
        self.header().overflow_count as usize
    }

    fn bucket_count(self) -> usize {
        self.home_count() + self.overflow_count()
    }

    pub(super) fn bytes(self) -> usize {
        size_class(Self::layout(self.home_count(), self.overflow_count()).size())
    }

    pub(crate) fn entry_count(self) -> usize {
        // Relaxed: written by the lock's owner only; for others an estimate.
        self.header().entry_count.load(Ordering::Relaxed) as usize
    }

    pub(crate) fn prefix(self) -> u64 {
        self.header().prefix
    }

    /// Prefetches the bucket of `hash`.
    #[inline]
    pub(crate) fn prefetch_bucket(self, hash: u64) {
        let index = bucket_index(hash, self.depth(), self.home_count());
        prefetch(self.base().wrapping_add(64 * (1 + index)));
    }

    /// Prefetches the entries in the bucket of `hash` that have its tag; returns the place of the
    /// first of them, or [`NO_PLACE`].
    #[inline]
    pub(crate) fn prefetch_entries(self, hash: u64) -> u8 {
        let wanted = tag(hash, self.depth());
        let bucket = self.bucket(bucket_index(hash, self.depth(), self.home_count()));
        let places = bucket.places_tagged(wanted);
        for place in bits(places) {
            // Relaxed: the pointer is not followed, only prefetched.
            let word = bucket.entries[place].load(Ordering::Relaxed);
            let entry = (word & ENTRY_MASK) as *const u8;
            prefetch(entry);
            if word & GOES_ON != 0 {
                prefetch(entry.wrapping_add(LINE_BYTES as usize));
            }
        }
        if places == 0 { NO_PLACE } else { places.trailing_zeros() as u8 }
    }

    /// The entry that [`SegmentWord::prefetch_entries`] saw, if it is still there. Its key is of
    /// the same tag, and likely the one that was meant.
    #[inline]
    pub(crate) fn likely_entry<'g>(
        self,
        hash: u64,
        likely_place: u8,
        section: Section<'g>,
    ) -> Option<EntryRef<'g>> {
        let bucket = self.bucket(bucket_index(hash, self.depth(), self.home_count()));
        // Acquire: pairs with the Release store that published the entry.
        let word = bucket.entries.get(usize::from(likely_place))?.load(Ordering::Acquire);
        if word >> POINTER_BITS == tag(hash, self.depth()) { entry_of(word, section) } else { None }
    }

    /// Entry of `key`: [`SegmentWord::find`] for readers, with an answer of one word.
    #[inline(always)]
    pub(crate) fn entry<'g>(
        self,
        hash: u64,
        likely_place: u8,
        key: &[u8],
        section: Section<'g>,
    ) -> Option<EntryRef<'g>> {
        match self.find_at(likely_place, hash, key, section) {
            Some((entry, _)) => Some(entry),
            None => self.entry_anywhere(hash, key, section),
        }
    }

    #[inline(never)]
    fn entry_anywhere<'g>(
        self,
        hash: u64,
        key: &[u8],
        section: Section<'g>,
    ) -> Option<EntryRef<'g>> {
        self.find_anywhere(hash, key, section).map(|(entry, _)| entry)
    }

    /// Finds the entry of `key`; looks at its likely place first.
    #[inline(always)]
    pub(crate) fn find<'g>(
        self,
        hash: u64,
        likely_place: u8,
        key: &[u8],
        section: Section<'g>,
    ) -> Option<(EntryRef<'g>, Position)> {
        self.find_at(likely_place, hash, key, section)
            .or_else(|| self.find_anywhere(hash, key, section))
    }

    /// Finds the entry of `key` if it is at `place` of its home bucket. The entry that was there
    /// when the place was noted does not matter.
    #[inline(always)]
    fn find_at<'g>(
        self,
        place: u8,
        hash: u64,
        key: &[u8],
        section: Section<'g>,
    ) -> Option<(EntryRef<'g>, Position)> {
        let place = usize::from(place);
        let index = bucket_index(hash, self.depth(), self.home_count());
        // `entry_with` has the fence.
        let word = self.bucket(index).entries.get(place)?.load(BEFORE_FENCE);
        // An entry with another tag need not be loaded.
        if word >> POINTER_BITS != tag(hash, self.depth()) {
            return None;
        }
        let entry = entry_with(key, word, section)?;
        Some((entry, Position { segment: self, bucket: index, place }))
    }

    /// Finds the entry of `key` in the chain of its home bucket.
    #[inline(always)]
    fn find_anywhere<'g>(
        self,
        hash: u64,
        key: &[u8],
        section: Section<'g>,
    ) -> Option<(EntryRef<'g>, Position)> {
        let wanted = tag(hash, self.depth());
        let mut index = bucket_index(hash, self.depth(), self.home_count());
        loop {
            let bucket = self.bucket(index);
            for place in bits(bucket.places_tagged(wanted)) {
                // `entry_with` has the fence. The place may hold another entry by now: its key is
                // compared.
                let word = bucket.entries[place].load(BEFORE_FENCE);
                if let Some(entry) = entry_with(key, word, section) {
                    return Some((entry, Position { segment: self, bucket: index, place }));
                }
            }
            index = bucket.next()?;
        }
    }

    /// Free place in the chain of `hash`, which is extended when it is full; none when no overflow
    /// bucket behind it has room.
    ///
    /// The caller owns the slot's lock.
    pub(crate) fn vacancy(self, hash: u64) -> Option<Position> {
        self.vacancy_from(bucket_index(hash, self.depth(), self.home_count()))
    }

    pub(super) fn vacancy_from(self, home: usize) -> Option<Position> {
        let mut index = home;
        loop {
            let bucket = self.bucket(index);
            if let Some(place) = bucket.vacant_place() {
                return Some(Position { segment: self, bucket: index, place });
            }
            index = match bucket.next() {
                Some(next) => next,
                None => {
                    let next = self.overflow_bucket_behind(index)?;
                    bucket.set_next(next);
                    next
                }
            };
        }
    }

    /// Puts a word into a segment that is not published yet; false if it has too few overflow
    /// buckets.
    pub(super) fn put(self, home: usize, word: u64, tail: Tail) -> bool {
        let Some(position) = self.vacancy_from(home) else { return false };
        position.set_tail(tail);
        // Relaxed: the segment is published later, with Release.
        position.word().store(word, Ordering::Relaxed);
        self.add_entries(1);
        true
    }

    /// Overflow bucket that continues a chain which ends at `index`: the one with most room, so
    /// that chains share a bucket only when none is unused. Links lead to higher buckets only, so
    /// that no chain becomes a cycle.
    fn overflow_bucket_behind(self, index: usize) -> Option<usize> {
        let first = self.home_count().max(index + 1);
        (first..self.bucket_count())
            .map(|behind| (self.bucket(behind).vacant_count(), behind))
            .filter(|&(vacant, _)| vacant > 0)
            .max_by_key(|&(vacant, behind)| (vacant, Reverse(behind)))
            .map(|(_, behind)| behind)
    }

    fn add_entries(self, change: i32) {
        let count = &self.header().entry_count;
        // Relaxed: written by the lock's owner only.
        let sum = count.load(Ordering::Relaxed).wrapping_add_signed(change);
        count.store(sum, Ordering::Relaxed);
    }

    /// Segment of a table that has none yet.
    pub(crate) fn empty(heap: &Heap) -> SegmentWord {
        Self::allocate(0, 0, 1, 0, heap)
    }

    pub(super) fn allocate(
        depth: u32,
        prefix: u64,
        home_count: usize,
        overflow_count: usize,
        heap: &Heap,
    ) -> SegmentWord {
        assert!(home_count + overflow_count <= BUCKET_COUNT_MAX, "as many as links can tell");
        let layout = Self::layout(home_count, overflow_count);
        // SAFETY: the size is never zero.
        let memory = unsafe { alloc_zeroed(layout) };
        let Some(pointer) = NonNull::new(memory) else { handle_alloc_error(layout) };
        heap.allocated(size_class(layout.size()));
        let header = SegmentHeader {
            entry_count: AtomicU32::new(0),
            home_count: home_count as u32,
            overflow_count: overflow_count as u32,
            prefix,
        };
        // SAFETY: fresh memory, aligned to 64, larger than a header.
        unsafe { pointer.cast::<SegmentHeader>().write(header) };
        SegmentWord::new(pointer, depth, home_count)
    }

    /// Visits the entries of `keys` in the home bucket of `from`, none of which is loaded for it,
    /// and returns the first hash of the next bucket, if there is one in the segment.
    pub(crate) fn sample_bucket<'g>(
        self,
        from: u64,
        keys: KeyClass,
        seed: &Seed,
        section: Section<'g>,
        visit: &mut dyn FnMut(EntryRef<'g>),
    ) -> Option<u64> {
        let index = bucket_index(from, self.depth(), self.home_count());
        self.chain(index, seed, section)
            .filter(|word| keys == KeyClass::All || word & EXPIRES != 0)
            .filter_map(|word| entry_of(word, section))
            .for_each(visit);
        (index + 1 < self.home_count()).then(|| self.first_hash(index + 1))
    }

    /// All entries, in no particular order.
    pub(crate) fn entries<'g>(self, section: Section<'g>) -> impl Iterator<Item = EntryRef<'g>> {
        self.all_words().filter_map(move |word| entry_of(word, section))
    }

    /// The entries that expire; the others are not loaded.
    pub(crate) fn expiring_entries<'g>(
        self,
        section: Section<'g>,
    ) -> impl Iterator<Item = EntryRef<'g>> {
        let expiring = self.all_words().filter(|word| word & EXPIRES != 0);
        expiring.filter_map(move |word| entry_of(word, section))
    }

    pub(super) fn all_words(self) -> impl Iterator<Item = u64> {
        (0..self.bucket_count()).flat_map(move |index| self.words_of_bucket(index))
    }

    /// Words of all entries, and the known bits of their hashes. For the lock's owner.
    pub(super) fn known_entries(self) -> impl Iterator<Item = (u64, KnownHash)> {
        let (depth, prefix) = (self.depth(), self.prefix());
        (0..self.bucket_count()).flat_map(move |index| {
            let words = self.words_of_bucket(index).into_iter().zip(self.bucket(index).tails());
            words.filter(|&(word, _)| word != 0).map(move |(word, tail)| {
                (word, KnownHash::of_tag(word >> POINTER_BITS, depth, prefix).and(tail))
            })
        })
    }

    fn words_of_bucket(self, index: usize) -> [u64; BUCKET_ENTRIES] {
        // Acquire: pairs with the Release store of `Position::replace`.
        std::array::from_fn(|place| self.bucket(index).entries[place].load(Ordering::Acquire))
    }

    /// Visits the chain of the home bucket that holds `from`, and returns the first hash behind it,
    /// rounded up to a multiple of `granularity` (a power of two up to [`SCAN_GRANULARITY_MAX`]),
    /// or `None` at the segment's end.
    ///
    /// Entries of the next bucket whose hash lies below the rounded boundary are visited too, so
    /// that nothing falls between two visits, whatever becomes of the table in between.
    pub(crate) fn visit_bucket<'g>(
        self,
        from: u64,
        granularity: u64,
        seed: &Seed,
        section: Section<'g>,
        visit: &mut dyn FnMut(EntryRef<'g>),
    ) -> Option<u64> {
        debug_assert!(granularity.is_power_of_two() && granularity <= SCAN_GRANULARITY_MAX);
        let depth = self.depth();
        let index = bucket_index(from, depth, self.home_count());
        self.chain(index, seed, section)
            .filter_map(|word| entry_of(word, section))
            .for_each(&mut *visit);
        if index + 1 == self.home_count() {
            return None;
        }
        let start = self.first_hash(index + 1);
        let boundary = start.next_multiple_of(granularity);
        let tags = tag(start, depth)..=tag(boundary - 1, depth);
        self.chain(index + 1, seed, section)
            .filter(|word| boundary != start && tags.contains(&(word >> POINTER_BITS)))
            .filter_map(|word| entry_of(word, section))
            .filter(|entry| hash(seed, entry.key()) < boundary)
            .for_each(visit);
        Some(boundary)
    }

    /// First hash that belongs to a home bucket.
    fn first_hash(self, index: usize) -> u64 {
        let depth = self.depth();
        let shifted = ((index as u128) << 64).div_ceil(self.home_count() as u128) as u64;
        // Rounded up as well: a hash below belongs to the bucket before, and a walk that went on
        // from there would return to it without end.
        self.prefix() | (u128::from(shifted).div_ceil(1 << depth)) as u64
    }

    /// First hash behind the segment's range; none behind the last segment.
    pub(crate) fn end(self) -> Option<u64> {
        let depth = self.depth();
        if depth == 0 { None } else { self.prefix().checked_add(1 << (64 - depth)) }
    }

    /// Words of the entries of a home bucket, wherever its chain holds them.
    fn chain<'g>(
        self,
        home: usize,
        seed: &'g Seed,
        section: Section<'g>,
    ) -> impl Iterator<Item = u64> {
        let mut next = Some(home);
        std::iter::from_fn(move || {
            let index = next?;
            next = self.bucket(index).next();
            Some(self.words_of_bucket(index).into_iter().filter(move |&word| {
                index == home || self.home_of(word, seed, section) == Some(home)
            }))
        })
        .flatten()
    }

    /// Home bucket of a word's entry; none if the word is empty.
    fn home_of(self, word: u64, seed: &Seed, section: Section<'_>) -> Option<usize> {
        let entry = entry_of(word, section)?;
        let depth = self.depth();
        // Without its tail: the place may hold another entry by now.
        let known = KnownHash::of_tag(word >> POINTER_BITS, depth, self.prefix());
        let home = known_bucket_index(known, depth, self.home_count());
        Some(
            home.unwrap_or_else(|| bucket_index(hash(seed, entry.key()), depth, self.home_count())),
        )
    }

    /// Retires the segment without its entries.
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

    /// Frees the segment without its entries at once, and returns its bytes.
    ///
    /// # Safety
    ///
    /// No reference to the segment may be left.
    pub(crate) unsafe fn free(self) -> usize {
        let bytes = self.bytes();
        let pointer = NonNull::new(self.base()).expect("a segment word holds a pointer");
        // SAFETY: the caller's promise.
        unsafe { free_segment(pointer) };
        bytes
    }
}

/// Ordering of a load behind which an acquire fence comes: relaxed, but for ThreadSanitizer, which
/// does not know fences.
const BEFORE_FENCE: Ordering = if cfg!(tsan) { Ordering::Acquire } else { Ordering::Relaxed };

/// Entry of a bucket's word that was just loaded, if it is that of `key`.
#[inline(always)]
fn entry_with<'g>(key: &[u8], word: u64, _section: Section<'g>) -> Option<EntryRef<'g>> {
    let pointer = NonNull::new((word & ENTRY_MASK) as *mut u8)?;
    // Acquire, behind the Relaxed load of the word: pairs with the Release store that published the
    // entry.
    fence(Ordering::Acquire);
    // SAFETY: a table holds published entries only, which are not freed during the section.
    let entry = unsafe { EntryRef::<'g>::from_pointer(pointer) };
    is_same(entry.key(), key).then_some(entry)
}

/// Entry of a bucket's word, if any.
pub(super) fn entry_of<'g>(word: u64, _section: Section<'g>) -> Option<EntryRef<'g>> {
    let pointer = NonNull::new((word & ENTRY_MASK) as *mut u8)?;
    // SAFETY: a table holds published entries only, which are not freed during the section; the
    // word was loaded with Acquire.
    Some(unsafe { EntryRef::from_pointer(pointer) })
}

/// # Safety
///
/// `pointer` is a segment to which no reference is left.
unsafe fn free_segment(pointer: NonNull<u8>) {
    // SAFETY: the segment is still whole.
    let header = unsafe { pointer.cast::<SegmentHeader>().as_ref() };
    let layout = SegmentWord::layout(header.home_count as usize, header.overflow_count as usize);
    // SAFETY: `allocate` used the layout that the same fields give.
    unsafe { dealloc(pointer.as_ptr(), layout) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_the_same_when_every_byte_is() {
        for length in 0..70 {
            let key: Vec<u8> = (0..length).collect();
            assert!(is_same(&key, &key.clone()));
            assert!(!is_same(&key, &[&key[..], b"x"].concat()));
            for at in 0..key.len() {
                let mut other = key.clone();
                other[at] ^= 1;
                assert!(!is_same(&key, &other), "{length} bytes, differing at {at}");
            }
        }
    }
}
