//! Copies of entries that a walker claimed, to be read without lock and section.
#![allow(unsafe_code)]

use std::ptr::NonNull;

use crate::entry::{self, EntryRef};

/// Words of eight bytes, the alignment of entries.
type Word = u64;

/// Copies of entries, one behind the other. Each owns a count of its string when that is stored
/// outside; a tree is shared with the keyspace.
#[derive(Debug, Default)]
pub(super) struct Claimed {
    words: Vec<Word>,
    /// Beginnings of the copies, in words.
    starts: Vec<usize>,
}

impl Claimed {
    /// Copies an entry, whose slot is locked.
    pub(super) fn push(&mut self, entry: EntryRef<'_>) {
        let start = self.words.len();
        let bytes = entry.entry_bytes();
        self.words.resize(start + bytes.div_ceil(size_of::<Word>()), 0);
        let target = NonNull::from(&mut self.words[start..]).cast();
        // SAFETY: the target has room for the entry, is aligned as one and is no part of it.
        unsafe { entry.copy_to(target) };
        self.starts.push(start);
    }

    pub(super) fn len(&self) -> usize {
        self.starts.len()
    }

    /// The copies. Trees are read by the promise of [`Cut`](super::Cut), which clears this before
    /// its batch is done.
    pub(super) fn entries(&self) -> impl Iterator<Item = EntryRef<'_>> {
        self.starts.iter().map(|&start| {
            let pointer = NonNull::from(&self.words[start]).cast();
            // SAFETY: a copy of an entry is there, which neither moves nor changes while `self` is
            // borrowed.
            unsafe { EntryRef::from_pointer(pointer) }
        })
    }

    /// Drops the copies.
    pub(super) fn clear(&mut self) {
        for entry in self.entries() {
            // SAFETY: each copy owns one count, and is forgotten below.
            unsafe { entry::release_copy(entry) };
        }
        self.starts.clear();
        self.words.clear();
    }
}

impl Drop for Claimed {
    fn drop(&mut self) {
        self.clear();
    }
}
