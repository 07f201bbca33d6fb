//! A table: nothing, one segment, or a directory of segments.
#![allow(unsafe_code)]

use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use tidemill_rcu::{Garbage, Section};

use super::segment::{Position, SegmentWord};
use crate::entry::EntryRef;
use crate::hash::Seed;
use crate::heap::Heap;
use crate::limits::MERGED_ENTRIES_MAX;

/// Set in a table's word that refers to a directory; its depth then stands where a segment has its bucket count.
const DIRECTORY: u64 = 1 << 63;
const DEPTH_SHIFT: u32 = 48;
const POINTER_MASK: u64 = (1 << 48) - 1;

/// Words of segments, indexed by the top bits of the hash. In memory its length stands before the first word.
type Directory = [AtomicU64];

/// Allocates a directory that holds `words` and counts its bytes; the pointer is that of its first word.
fn allocate_directory(
    words: impl ExactSizeIterator<Item = u64>,
    heap: &Heap,
) -> NonNull<AtomicU64> {
    let length = words.len() as u64;
    let memory: Box<[AtomicU64]> =
        std::iter::once(length).chain(words).map(AtomicU64::new).collect();
    heap.allocated(size_of_val(&*memory));
    let start = NonNull::from(Box::leak(memory)).cast::<AtomicU64>();
    // SAFETY: the memory holds the length and at least two words.
    unsafe { start.add(1) }
}

/// Frees a directory and returns its bytes.
///
/// # Safety
///
/// `first` comes from [`allocate_directory`], and nobody may refer to the directory any more.
unsafe fn free_directory(first: NonNull<AtomicU64>) -> usize {
    // SAFETY: the length stands before the first word.
    let start = unsafe { first.sub(1) };
    // SAFETY: as above, and the caller has it to itself. Relaxed: so nobody else stores.
    let length = unsafe { start.as_ref() }.load(Ordering::Relaxed) as usize;
    let memory = std::ptr::slice_from_raw_parts_mut(start.as_ptr(), length + 1);
    // SAFETY: this is the box that `allocate_directory` leaked.
    let memory = unsafe { Box::from_raw(memory) };
    size_of_val(&*memory)
}

fn retire_directory(segments: &Directory, heap: &Heap) {
    unsafe fn free(first: NonNull<u8>) {
        // SAFETY: the contract of `Garbage`.
        unsafe { free_directory(first.cast()) };
    }
    let first = NonNull::from(segments).cast::<u8>();
    let bytes = size_of_val(segments) + size_of::<AtomicU64>();
    // SAFETY: called once, after another word was published in the directory's place.
    heap.retire(unsafe { Garbage::new(first, bytes, free) });
}

/// What the table's word refers to at one moment.
#[derive(Clone, Copy)]
enum Shape<'g> {
    Empty,
    Single(SegmentWord),
    Many { depth: u32, segments: &'g Directory },
}

/// The table of one slot of one database.
#[derive(Debug, Default)]
pub(crate) struct Table {
    word: AtomicU64,
}

fn shape<'g>(word: u64) -> Shape<'g> {
    if word == 0 {
        return Shape::Empty;
    }
    if word & DIRECTORY == 0 {
        // SAFETY: the table's word holds a live segment; the caller's section keeps it.
        return Shape::Single(unsafe { SegmentWord::from_raw(word) });
    }
    let depth = ((word & !DIRECTORY) >> DEPTH_SHIFT) as u32;
    let first = NonNull::new((word & POINTER_MASK) as *mut AtomicU64)
        .expect("a directory's word holds its pointer");
    Shape::Many { depth, segments: directory_slice(first, depth) }
}

/// The words of a live directory.
fn directory_slice<'g>(first: NonNull<AtomicU64>, depth: u32) -> &'g Directory {
    // SAFETY: a directory of depth `d` has 2^d words; the section of whoever read the table's word keeps it alive.
    unsafe { std::slice::from_raw_parts(first.as_ptr(), 1 << depth) }
}

fn segment_at(segments: &Directory, depth: u32, hash: u64) -> SegmentWord {
    // Acquire: pairs with the Release stores of `set_range`.
    let word = segments[(hash >> (64 - depth)) as usize].load(Ordering::Acquire);
    // SAFETY: directories hold live segments only; the caller's section keeps them.
    unsafe { SegmentWord::from_raw(word) }
}

impl Table {
    fn shape<'g>(&self, _section: Section<'g>) -> Shape<'g> {
        // Acquire: pairs with the Release stores of `publish`.
        shape(self.word.load(Ordering::Acquire))
    }

    /// The table's word is about to be used: asks the processor for it.
    #[inline]
    pub(crate) fn prefetch(&self) {
        super::segment::prefetch(std::ptr::from_ref(&self.word).cast());
    }

    #[inline]
    fn segment_of(&self, hash: u64, section: Section<'_>) -> Option<SegmentWord> {
        match self.shape(section) {
            Shape::Empty => None,
            Shape::Single(segment) => Some(segment),
            Shape::Many { depth, segments } => Some(segment_at(segments, depth, hash)),
        }
    }

    /// Asks the processor for the bucket of `hash`.
    #[inline]
    pub(crate) fn prefetch_bucket(&self, hash: u64, section: Section<'_>) {
        if let Some(segment) = self.segment_of(hash, section) {
            segment.prefetch_bucket(hash);
        }
    }

    /// Asks the processor for the entries that `hash` may belong to.
    #[inline]
    pub(crate) fn prefetch_entries(&self, hash: u64, section: Section<'_>) {
        if let Some(segment) = self.segment_of(hash, section) {
            segment.prefetch_entries(hash);
        }
    }

    /// Finds the entry of `key`.
    #[inline]
    pub(crate) fn find<'g>(
        &self,
        hash: u64,
        key: &[u8],
        section: Section<'g>,
    ) -> Option<(EntryRef<'g>, Position)> {
        self.segment_of(hash, section)?.find(hash, key, section)
    }

    /// Adds an entry whose key is absent. The caller owns the lock and has made the version odd.
    pub(crate) fn insert(
        &self,
        hash: u64,
        entry: EntryRef<'_>,
        seed: &Seed,
        section: Section<'_>,
        heap: &Heap,
    ) {
        loop {
            let Some(segment) = self.segment_of(hash, section) else {
                self.publish(SegmentWord::empty(0, 0, heap).raw());
                continue;
            };
            if segment.insert(hash, entry) {
                return;
            }
            match segment.grow(seed, section, heap) {
                Some(larger) => self.exchange(segment, &[larger], section, heap),
                None => {
                    let halves = segment.split(seed, section, heap);
                    self.exchange(segment, &halves, section, heap);
                }
            }
        }
    }

    /// Removes the entry at `position`. The caller owns the lock and has made the version odd.
    pub(crate) fn remove(
        &self,
        position: Position,
        hash: u64,
        seed: &Seed,
        section: Section<'_>,
        heap: &Heap,
    ) {
        let segment = position.segment();
        segment.remove(position);
        match self.shape(section) {
            Shape::Single(single) if single.entry_count() == 0 => self.clear(single, heap),
            Shape::Many { depth, segments }
                if self.merge_with_buddy(segment, hash, (depth, segments), seed, section, heap) => {
            }
            _ if segment.is_sparse() => {
                let smaller = segment.shrink(seed, section, heap);
                self.exchange(segment, &[smaller], section, heap);
            }
            _ => {}
        }
    }

    fn clear(&self, segment: SegmentWord, heap: &Heap) {
        self.publish(0);
        // SAFETY: no word refers to the segment any more.
        unsafe { segment.retire(heap) };
    }

    /// Joins a segment with the other half of its parent's range when both together are small.
    fn merge_with_buddy(
        &self,
        segment: SegmentWord,
        hash: u64,
        (depth, segments): (u32, &Directory),
        seed: &Seed,
        section: Section<'_>,
        heap: &Heap,
    ) -> bool {
        let bit = 1_u64 << (64 - segment.depth());
        let buddy = segment_at(segments, depth, hash ^ bit);
        if buddy.depth() != segment.depth()
            || buddy.entry_count() + segment.entry_count() > MERGED_ENTRIES_MAX
        {
            return false;
        }
        let pair = if hash & bit == 0 { [segment, buddy] } else { [buddy, segment] };
        let merged = SegmentWord::merge(pair, seed, section, heap);
        if merged.depth() == 0 {
            // Release ordering and retirement as in `exchange`; the directory has nothing left to direct.
            self.publish(merged.raw());
            retire_directory(segments, heap);
        } else {
            set_range(segments, depth, merged);
        }
        for old in pair {
            // SAFETY: no word refers to the segment any more.
            unsafe { old.retire(heap) };
        }
        true
    }

    /// Puts the parts of `old`'s range in its place and retires it.
    fn exchange(&self, old: SegmentWord, parts: &[SegmentWord], section: Section<'_>, heap: &Heap) {
        match self.shape(section) {
            Shape::Many { depth, segments } if parts[0].depth() <= depth => {
                for &part in parts {
                    set_range(segments, depth, part);
                }
            }
            Shape::Many { depth, segments } => {
                // Relaxed: this thread owns the lock, nobody else stores.
                let doubled = (0..segments.len() * 2)
                    .map(|index| segments[index / 2].load(Ordering::Relaxed));
                let doubled = allocate_directory(doubled, heap);
                let depth = depth + 1;
                for &part in parts {
                    set_range(directory_slice(doubled, depth), depth, part);
                }
                self.publish_directory(doubled, depth);
                retire_directory(segments, heap);
            }
            _ if parts.len() == 1 => self.publish(parts[0].raw()),
            _ => {
                let directory = allocate_directory(parts.iter().map(|part| part.raw()), heap);
                self.publish_directory(directory, 1);
            }
        }
        // SAFETY: no word refers to the segment any more.
        unsafe { old.retire(heap) };
    }

    fn publish_directory(&self, directory: NonNull<AtomicU64>, depth: u32) {
        let pointer = directory.as_ptr() as u64;
        debug_assert_eq!(pointer & !POINTER_MASK, 0);
        self.publish(pointer | u64::from(depth) << DEPTH_SHIFT | DIRECTORY);
    }

    fn publish(&self, word: u64) {
        // Release: pairs with the load in `shape`; who sees the word sees what it refers to.
        self.word.store(word, Ordering::Release);
    }

    /// Visits the bucket that holds `from` and returns where to go on, or `None` when the table ends.
    ///
    /// See [`SegmentWord::visit_bucket`].
    pub(crate) fn visit_bucket<'g>(
        &self,
        from: u64,
        granularity: u64,
        seed: &Seed,
        section: Section<'g>,
        visit: &mut dyn FnMut(EntryRef<'g>),
    ) -> Option<u64> {
        let segment = self.segment_of(from, section)?;
        segment.visit_bucket(from, granularity, seed, section, visit).or_else(|| segment.end())
    }

    /// All entries.
    pub(crate) fn entries<'g>(&self, section: Section<'g>) -> impl Iterator<Item = EntryRef<'g>> {
        self.segments(section).flat_map(move |segment| segment.entries(section))
    }

    /// The entries that expire.
    pub(crate) fn expiring_entries<'g>(
        &self,
        section: Section<'g>,
    ) -> impl Iterator<Item = EntryRef<'g>> {
        self.segments(section).flat_map(move |segment| segment.expiring_entries(section))
    }

    fn segments<'g>(&self, section: Section<'g>) -> impl Iterator<Item = SegmentWord> + use<'g> {
        let shape = self.shape(section);
        let mut next = Some(0_u64);
        std::iter::from_fn(move || {
            let from = next.take()?;
            let segment = match shape {
                Shape::Empty => return None,
                Shape::Single(segment) => segment,
                Shape::Many { depth, segments } => segment_at(segments, depth, from),
            };
            next = segment.end();
            Some(segment)
        })
    }

    /// Frees everything in the table at once, values included, and returns how many bytes that gave back.
    ///
    /// # Safety
    ///
    /// Nobody may refer to the table's content any more.
    pub(crate) unsafe fn free(&mut self) -> usize {
        // SAFETY: the caller has the table to itself.
        let section = unsafe { Section::assume() };
        let word = self.word.load(Ordering::Relaxed);
        let segments: Vec<SegmentWord> = self.segments(section).collect();
        let mut bytes = 0;
        for segment in segments {
            for entry in segment.entries(section).collect::<Vec<_>>() {
                bytes += entry.total_bytes();
                // SAFETY: the caller's promise.
                unsafe { crate::entry::free_whole(entry) };
            }
            // SAFETY: the caller's promise.
            bytes += unsafe { segment.free() };
        }
        if let Shape::Many { segments, .. } = shape(word) {
            // SAFETY: the caller's promise.
            bytes += unsafe { free_directory(NonNull::from(segments).cast()) };
        }
        *self.word.get_mut() = 0;
        bytes
    }
}

/// Points every directory entry in `segment`'s range at it.
fn set_range(segments: &Directory, depth: u32, segment: SegmentWord) {
    let first = if depth == 0 { 0 } else { (segment.prefix() >> (64 - depth)) as usize };
    let count = 1 << (depth - segment.depth());
    for word in &segments[first..first + count] {
        // Release: pairs with the load in `segment_at`.
        word.store(segment.raw(), Ordering::Release);
    }
}
