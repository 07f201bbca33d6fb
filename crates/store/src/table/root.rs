//! Table: one word that refers to nothing, a segment, or a directory.
#![allow(unsafe_code)]

use std::sync::atomic::{AtomicU64, Ordering};

use crate::member::Section;

use super::directory::{Directory, Target, target};
use super::key_class::KeyClass;
use super::segment::{Position, SegmentWord};
use crate::entry::{self, EntryRef};
use crate::hash::{Seed, hash};
use crate::heap::Heap;
use crate::key::{KeyHash, NO_PLACE};
use crate::limits::MERGED_ENTRIES_MAX;

/// Table of one slot of one database.
#[derive(Debug, Default)]
pub(crate) struct Table {
    word: AtomicU64,
}

/// Counts of the parts of a table at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TableShape {
    /// Segments.
    pub segments: usize,
    /// Home buckets of all segments, each with room for seven entries.
    pub home_buckets: usize,
    /// Overflow buckets of all segments, used or not.
    pub overflow_buckets: usize,
    /// Directories.
    pub directories: usize,
    /// Bytes of all parts, entries excepted.
    pub bytes: usize,
}

impl TableShape {
    fn add(&mut self, word: u64, section: Section<'_>) {
        match target(word, section) {
            Target::Nothing => {}
            Target::Segment(segment) => {
                self.segments += 1;
                self.home_buckets += segment.home_count();
                self.overflow_buckets += segment.overflow_count();
                self.bytes += segment.bytes();
            }
            Target::Directory(directory) => {
                self.directories += 1;
                self.bytes += directory.bytes();
                directory.distinct_words().for_each(|word| self.add(word, section));
            }
        }
    }
}

/// Last directory on the path to a segment.
#[derive(Clone, Copy)]
struct Parent<'t> {
    /// Word that refers to the directory.
    link: &'t AtomicU64,
    /// Number of bits of the hash that led to the directory.
    base: u32,
    directory: Directory<'t>,
}

/// SegmentPath of a hash to its segment.
struct SegmentPath<'t> {
    parent: Option<Parent<'t>>,
    segment: SegmentWord,
}

fn publish(link: &AtomicU64, word: u64) {
    // Release: pairs with the Acquire loads of `segment_of` and `path`; a reader that sees the word
    // sees its target.
    link.store(word, Ordering::Release);
}

impl Table {
    #[inline(always)]
    fn segment_of(&self, hash: u64, section: Section<'_>) -> Option<SegmentWord> {
        let mut link = &self.word;
        let mut rest = hash;
        loop {
            // Acquire: pairs with the Release stores of `publish` and `Directory::set`.
            match target(link.load(Ordering::Acquire), section) {
                Target::Nothing => return None,
                Target::Segment(segment) => return Some(segment),
                Target::Directory(directory) => {
                    link = directory.link(rest);
                    rest <<= directory.depth();
                }
            }
        }
    }

    fn path<'t>(&'t self, hash: u64, section: Section<'t>) -> Option<SegmentPath<'t>> {
        let mut link = &self.word;
        let mut base = 0;
        let mut parent = None;
        loop {
            // Acquire: as in `segment_of`.
            match target(link.load(Ordering::Acquire), section) {
                Target::Nothing => return None,
                Target::Segment(segment) => return Some(SegmentPath { parent, segment }),
                Target::Directory(directory) => {
                    parent = Some(Parent { link, base, directory });
                    link = directory.link(hash << base);
                    base += directory.depth();
                }
            }
        }
    }

    /// Prefetches the bucket of `hash`.
    #[inline]
    pub(crate) fn prefetch_bucket(&self, hash: u64, section: Section<'_>) {
        if let Some(segment) = self.segment_of(hash, section) {
            segment.prefetch_bucket(hash);
        }
    }

    /// Prefetches the entries that may be the one of `hash`; returns the place of the first of them
    /// in its bucket.
    #[inline]
    pub(crate) fn prefetch_entries(&self, hash: u64, section: Section<'_>) -> u8 {
        self.segment_of(hash, section).map_or(NO_PLACE, |segment| segment.prefetch_entries(hash))
    }

    /// The entry that [`Table::prefetch_entries`] saw, if it is still there.
    #[inline]
    pub(crate) fn likely_entry<'g>(
        &self,
        key_hash: KeyHash,
        section: Section<'g>,
    ) -> Option<EntryRef<'g>> {
        let KeyHash { hash, likely_place, .. } = key_hash;
        self.segment_of(hash, section)?.likely_entry(hash, likely_place, section)
    }

    /// The entry of `key`.
    #[inline(always)]
    pub(crate) fn entry<'g>(
        &self,
        key_hash: KeyHash,
        key: &[u8],
        section: Section<'g>,
    ) -> Option<EntryRef<'g>> {
        let KeyHash { hash, likely_place, .. } = key_hash;
        self.segment_of(hash, section)?.entry(hash, likely_place, key, section)
    }

    /// Finds the entry of `key` and its place.
    pub(crate) fn find<'g>(
        &self,
        key_hash: KeyHash,
        key: &[u8],
        section: Section<'g>,
    ) -> Option<(EntryRef<'g>, Position)> {
        let KeyHash { hash, likely_place, .. } = key_hash;
        self.segment_of(hash, section)?.find(hash, likely_place, key, section)
    }

    /// True if `entry` is at `position` of this table, which was found for `hash`.
    #[inline]
    pub(crate) fn holds(
        &self,
        position: Position,
        hash: u64,
        entry: EntryRef<'_>,
        section: Section<'_>,
    ) -> bool {
        self.segment_of(hash, section) == Some(position.segment()) && position.refers_to(entry)
    }

    /// Free place for `hash`; makes one where there is none, by resize steps of one segment each.
    ///
    /// The caller owns the slot's lock. Readers find the same entries before and after, so the
    /// version need not change and no miss has to wait for a resize.
    pub(crate) fn vacancy<'t>(
        &'t self,
        hash: u64,
        seed: &Seed,
        section: Section<'t>,
        heap: &Heap,
    ) -> Position {
        loop {
            let Some(path) = self.path(hash, section) else {
                publish(&self.word, SegmentWord::empty(heap).raw());
                continue;
            };
            if let Some(position) = path.segment.vacancy(hash) {
                return position;
            }
            match path.segment.grow(seed, section, heap) {
                Some(larger) => self.exchange(&path, larger),
                None => self.divide(&path, path.segment.split(seed, section, heap), heap),
            }
            // SAFETY: no word refers to the segment any more.
            unsafe { path.segment.retire(heap) };
        }
    }

    /// Gives memory back after a removal: merges neighbours or shrinks, in at most one resize step.
    ///
    /// The caller owns the slot's lock, as for [`Table::vacancy`].
    pub(crate) fn tidy<'t>(&'t self, hash: u64, seed: &Seed, section: Section<'t>, heap: &Heap) {
        let Some(path) = self.path(hash, section) else { return };
        let segment = path.segment;
        if let Some(parent) = path.parent {
            if merge_with_buddy(segment, hash, parent, seed, section, heap) {
                return;
            }
        } else if segment.entry_count() == 0 {
            publish(&self.word, 0);
            // SAFETY: no word refers to the segment any more.
            unsafe { segment.retire(heap) };
            return;
        }
        if segment.is_sparse() {
            self.exchange(&path, segment.shrink(seed, section, heap));
            // SAFETY: no word refers to the segment any more.
            unsafe { segment.retire(heap) };
        }
    }

    /// Replaces the path's segment by another one of the same range.
    fn exchange(&self, path: &SegmentPath<'_>, segment: SegmentWord) {
        match path.parent {
            Some(parent) => parent.directory.set(segment, parent.base),
            None => publish(&self.word, segment.raw()),
        }
    }

    /// Replaces the path's segment by the two halves of its range.
    fn divide(&self, path: &SegmentPath<'_>, halves: [SegmentWord; 2], heap: &Heap) {
        let Some(Parent { link, base, directory }) = path.parent else {
            return publish(&self.word, Directory::of_halves(halves, heap).raw());
        };
        if halves[0].depth() <= base + directory.depth() {
            halves.into_iter().for_each(|half| directory.set(half, base));
        } else if directory.is_full() {
            let rest = halves[0].prefix() << base;
            publish(directory.link(rest), Directory::of_halves(halves, heap).raw());
        } else {
            let doubled = directory.doubled(heap);
            halves.into_iter().for_each(|half| doubled.set(half, base));
            publish(link, doubled.raw());
            // SAFETY: no word refers to the directory any more.
            unsafe { directory.retire(heap) };
        }
    }

    pub(crate) fn shape(&self, section: Section<'_>) -> TableShape {
        let mut shape = TableShape::default();
        // Acquire: as in `segment_of`.
        shape.add(self.word.load(Ordering::Acquire), section);
        shape
    }

    /// Visits the bucket that holds `from` and returns the hash to go on from, or `None` when the
    /// table ends.
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

    /// Visits the entries of `keys` in the bucket that holds `from`, and returns a hash
    /// in the next one, which is the first behind the last.
    pub(crate) fn sample_bucket<'g>(
        &self,
        from: u64,
        keys: KeyClass,
        seed: &Seed,
        section: Section<'g>,
        visit: &mut dyn FnMut(EntryRef<'g>),
    ) -> u64 {
        let Some(segment) = self.segment_of(from, section) else { return 0 };
        let next = segment.sample_bucket(from, keys, seed, section, visit);
        next.or_else(|| segment.end()).unwrap_or(0)
    }

    /// All entries, each once.
    pub(crate) fn entries<'g>(
        &'g self,
        seed: &'g Seed,
        section: Section<'g>,
    ) -> impl Iterator<Item = EntryRef<'g>> {
        self.segments(section).flat_map(move |(from, segment)| {
            segment.entries(section).filter(only_from(from, segment, seed))
        })
    }

    /// The entries that expire, each once.
    pub(crate) fn expiring_entries<'g>(
        &'g self,
        seed: &'g Seed,
        section: Section<'g>,
    ) -> impl Iterator<Item = EntryRef<'g>> {
        self.segments(section).flat_map(move |(from, segment)| {
            segment.expiring_entries(section).filter(only_from(from, segment, seed))
        })
    }

    /// All segments, each with the hash from which on its entries are in none before: a segment
    /// that was merged meanwhile, or is being divided, begins before the end of the last one. No
    /// version tells of that, as resizes change none.
    pub(super) fn segments<'g>(
        &'g self,
        section: Section<'g>,
    ) -> impl Iterator<Item = (u64, SegmentWord)> {
        let mut next = Some(0_u64);
        std::iter::from_fn(move || {
            let from = next.take()?;
            let segment = self.segment_of(from, section)?;
            next = segment.end();
            Some((from, segment))
        })
    }

    /// Frees everything in the table at once, values included, and returns the number of bytes
    /// freed.
    ///
    /// # Safety
    ///
    /// No reference to the table's content may be left.
    pub(crate) unsafe fn free(&mut self) -> usize {
        // SAFETY: the caller has the table to itself.
        let section = unsafe { Section::assume() };
        let word = std::mem::take(self.word.get_mut());
        // SAFETY: the caller's promise.
        unsafe { free_target(word, section) }
    }
}

/// Tells which entries of a segment have hashes from `from` on. Hashes only where there may be
/// others.
fn only_from<'g>(
    from: u64,
    segment: SegmentWord,
    seed: &'g Seed,
) -> impl FnMut(&EntryRef<'g>) -> bool {
    let has_others = segment.prefix() < from;
    move |entry| !has_others || hash(seed, entry.key()) >= from
}

/// Merges a segment with the other half of its parent's range when both together are small; true if
/// it did.
fn merge_with_buddy(
    segment: SegmentWord,
    hash: u64,
    parent: Parent<'_>,
    seed: &Seed,
    section: Section<'_>,
    heap: &Heap,
) -> bool {
    // Left to the smaller one of a pair, so that most removals need not load the other one.
    if segment.entry_count() > MERGED_ENTRIES_MAX / 2 {
        return false;
    }
    let Parent { link, base, directory } = parent;
    let bit = 1_u64 << (64 - segment.depth());
    // Relaxed: this thread owns the slot's lock and is the only writer.
    let buddy = directory.link((hash ^ bit) << base).load(Ordering::Relaxed);
    let Target::Segment(buddy) = target(buddy, section) else { return false };
    if buddy.depth() != segment.depth()
        || buddy.entry_count() + segment.entry_count() > MERGED_ENTRIES_MAX
    {
        return false;
    }
    let pair = if hash & bit == 0 { [segment, buddy] } else { [buddy, segment] };
    let merged = SegmentWord::merge(pair, seed, section, heap);
    if merged.depth() == base {
        publish(link, merged.raw());
        // SAFETY: no word refers to the directory any more.
        unsafe { directory.retire(heap) };
    } else {
        directory.set(merged, base);
    }
    for old in pair {
        // SAFETY: no word refers to the segment any more.
        unsafe { old.retire(heap) };
    }
    true
}

/// Frees the target of a word, and returns the number of bytes freed.
///
/// # Safety
///
/// No reference to any of it may be left.
unsafe fn free_target(word: u64, section: Section<'_>) -> usize {
    match target(word, section) {
        Target::Nothing => 0,
        Target::Segment(segment) => {
            let mut bytes = 0;
            for entry in segment.entries(section) {
                bytes += entry.total_bytes();
                // SAFETY: the caller's promise.
                unsafe { entry::free_whole(entry) };
            }
            // SAFETY: the caller's promise.
            bytes + unsafe { segment.free() }
        }
        Target::Directory(directory) => {
            let mut bytes = 0;
            for word in directory.distinct_words() {
                // SAFETY: the caller's promise.
                bytes += unsafe { free_target(word, section) };
            }
            // SAFETY: the caller's promise.
            bytes + unsafe { directory.free() }
        }
    }
}
