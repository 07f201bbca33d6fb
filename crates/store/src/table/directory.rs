//! Directory: words of segments or of further directories, indexed by the next bits of the hash.
//!
//! A directory doubles when a segment's depth outgrows it, but only up to [`DIRECTORY_DEPTH_MAX`];
//! from there on a word refers to another directory instead of a segment. No resize step therefore
//! copies more than half a full directory, however many keys share one tag.
#![allow(unsafe_code)]

use std::marker::PhantomData;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use tidemill_rcu::Garbage;

use crate::member::Section;

use super::segment::SegmentWord;
use crate::heap::Heap;
use crate::limits::DIRECTORY_DEPTH_MAX;
use crate::size_class::size_class;

/// Set in a word that refers to a directory; its depth is then in the bits of a segment's bucket
/// count.
const DIRECTORY: u64 = 1 << 63;
const DEPTH_SHIFT: u32 = 48;
const POINTER_MASK: u64 = (1 << DEPTH_SHIFT) - 1;

/// Target of a word of a table or directory.
pub(super) enum Target<'g> {
    Nothing,
    Segment(SegmentWord),
    Directory(Directory<'g>),
}

/// Target of a word that was loaded with Acquire from a table or directory during `'g`.
#[inline(always)]
pub(super) fn target<'g>(word: u64, _section: Section<'g>) -> Target<'g> {
    if word & DIRECTORY != 0 {
        let first = NonNull::new((word & POINTER_MASK) as *mut AtomicU64)
            .expect("a directory's word holds its pointer");
        let depth = ((word & !DIRECTORY) >> DEPTH_SHIFT) as u32;
        return Target::Directory(Directory { first, depth, marker: PhantomData });
    }
    if word == 0 {
        return Target::Nothing;
    }
    // SAFETY: tables and directories refer to live segments only, and the section keeps them.
    Target::Segment(unsafe { SegmentWord::from_raw(word) })
}

/// Directory of `2^depth` words that lives for `'g`. In memory its length precedes the first word.
#[derive(Clone, Copy)]
pub(super) struct Directory<'g> {
    first: NonNull<AtomicU64>,
    depth: u32,
    marker: PhantomData<&'g AtomicU64>,
}

impl<'g> Directory<'g> {
    /// Directory of one bit.
    pub(super) fn of_halves(halves: [SegmentWord; 2], heap: &Heap) -> Directory<'g> {
        Self::allocate(1, halves.into_iter().map(SegmentWord::raw), heap)
    }

    /// Copy with one bit more. The caller owns the slot's lock.
    pub(super) fn doubled(self, heap: &Heap) -> Directory<'g> {
        debug_assert!(!self.is_full());
        // Relaxed: this thread owns the slot's lock and is the only writer.
        let twice = self.words().iter().flat_map(|word| [word.load(Ordering::Relaxed); 2]);
        Self::allocate(self.depth + 1, twice, heap)
    }

    fn allocate(depth: u32, words: impl Iterator<Item = u64>, heap: &Heap) -> Directory<'g> {
        let mut memory = Vec::with_capacity((1 << depth) + 1);
        memory.extend(std::iter::once(1 << depth).chain(words).map(AtomicU64::new));
        debug_assert_eq!(memory.len(), (1 << depth) + 1);
        let memory = memory.into_boxed_slice();
        heap.allocated(size_class(size_of_val(&*memory)));
        let start = NonNull::from(Box::leak(memory)).cast::<AtomicU64>();
        // SAFETY: the memory holds the length and at least two words.
        let first = unsafe { start.add(1) };
        Directory { first, depth, marker: PhantomData }
    }

    pub(super) fn depth(self) -> u32 {
        self.depth
    }

    /// True if it must not double any more.
    pub(super) fn is_full(self) -> bool {
        self.depth >= DIRECTORY_DEPTH_MAX
    }

    /// Word that refers to this directory.
    pub(super) fn raw(self) -> u64 {
        let pointer = self.first.as_ptr() as u64;
        debug_assert_eq!(pointer & !POINTER_MASK, 0, "user addresses have 47 bits");
        pointer | u64::from(self.depth) << DEPTH_SHIFT | DIRECTORY
    }

    #[inline(always)]
    pub(super) fn words(self) -> &'g [AtomicU64] {
        // SAFETY: a directory of depth `d` has 2^d words and lives for `'g`.
        unsafe { std::slice::from_raw_parts(self.first.as_ptr(), 1 << self.depth) }
    }

    /// Words of the directory, those of one segment, which are neighbours, only once.
    pub(super) fn distinct_words(self) -> impl Iterator<Item = u64> {
        let mut last = 0;
        self.words().iter().filter_map(move |link| {
            // Acquire: pairs with the Release stores of `set` and `publish`.
            let word = link.load(Ordering::Acquire);
            let is_new = word != last;
            last = word;
            is_new.then_some(word)
        })
    }

    pub(super) fn bytes(self) -> usize {
        size_class(((1 << self.depth) + 1) * size_of::<AtomicU64>())
    }

    /// Word for a hash from which the bits that led to this directory were shifted out.
    #[inline(always)]
    pub(super) fn link(self, rest: u64) -> &'g AtomicU64 {
        &self.words()[(rest >> (64 - self.depth)) as usize]
    }

    /// Stores `segment` in all words of its range. The first `base` bits of its prefix led to this
    /// directory.
    pub(super) fn set(self, segment: SegmentWord, base: u32) {
        let first = ((segment.prefix() << base) >> (64 - self.depth)) as usize;
        let count = 1 << (base + self.depth - segment.depth());
        for word in &self.words()[first..first + count] {
            // Release: pairs with the Acquire loads in `Table`; a reader that sees the word sees
            // the segment.
            word.store(segment.raw(), Ordering::Release);
        }
    }

    /// Retires the directory without its targets.
    ///
    /// # Safety
    ///
    /// The directory must be out of reach for readers that begin now, and retired only once.
    pub(super) unsafe fn retire(self, heap: &Heap) {
        unsafe fn free(first: NonNull<u8>) {
            // SAFETY: the contract of `Garbage`.
            unsafe { free_directory(first.cast()) };
        }
        // SAFETY: the caller's promise.
        heap.retire(unsafe { Garbage::new(self.first.cast(), self.bytes(), free) });
    }

    /// Frees the directory without its targets at once, and returns its bytes.
    ///
    /// # Safety
    ///
    /// No reference to the directory may be left.
    pub(super) unsafe fn free(self) -> usize {
        let bytes = self.bytes();
        // SAFETY: the caller's promise.
        unsafe { free_directory(self.first) };
        bytes
    }
}

/// Frees a directory.
///
/// # Safety
///
/// `first` comes from [`Directory::allocate`], and no reference to the directory may be left.
unsafe fn free_directory(first: NonNull<AtomicU64>) {
    // SAFETY: the length precedes the first word.
    let start = unsafe { first.sub(1) };
    // SAFETY: as above. Relaxed: the length never changes.
    let length = unsafe { start.as_ref() }.load(Ordering::Relaxed) as usize;
    let memory = std::ptr::slice_from_raw_parts_mut(start.as_ptr(), length + 1);
    // SAFETY: this is the box that `allocate` leaked.
    drop(unsafe { Box::from_raw(memory) });
}
