//! Entries and nodes of trees that move to other addresses.
//!
//! The allocator hands memory out where a page is in use already. So a copy of what lies in a
//! sparse page, published in the place of the original, goes to a fuller one, and the sparse page
//! is empty in the end. An entry and what it holds are replaced as any write does it, and the old
//! blocks retired. The key keeps its value, its expiry and its recency: nobody is told.
#![allow(unsafe_code)]

use crate::entry::{Disposal, EntryRef, EntrySpec, NewValue, OwnedEntry, TreeValue};
use crate::heap::Heap;
use crate::keyspace::lock::{Found, SlotLock};
use crate::member::Section;
use crate::tree::Root;
use crate::tree::relocate::{Block, Judge, Relocated, TreePlace};

impl<S: Default> SlotLock<'_, S> {
    /// Moves blocks of a current entry and of its value as the judge decides; from a place on when
    /// a walk through its tree was not done. Returns the place to go on from if there is more.
    ///
    /// Nothing moves while a cut is active, which would keep everything twice; nor below the root
    /// of a tree while a version is pinned. An entry that the database does not hold any more is
    /// left alone: its tree is a part of its successor's, or retired.
    pub fn relocate(
        &mut self,
        database: usize,
        entry: EntryRef<'_>,
        place: TreePlace,
        (judge, relocated): (&mut Judge<'_>, &mut Relocated),
        section: Section<'_>,
        heap: &Heap,
    ) -> Option<TreePlace> {
        if !self.keyspace.active_cut.is_inactive() {
            return None;
        }
        let key_hash = self.keyspace.key_hash(entry.key());
        let found = self.find(database, key_hash, entry.key(), section)?;
        if !found.entry.is(entry) {
            return None;
        }
        // Each call makes progress.
        relocated.elements_left = relocated.elements_left.max(1);
        let mut rest = None;
        if let Some(root) = entry.root()
            && self.may_publish_in_place()
        {
            let word = self.word();
            let publishing = |publish: &mut dyn FnMut()| {
                word.begin_change();
                publish();
                word.end_change();
            };
            // SAFETY: the tree is of a current entry: it was found under this lock just now. Each
            // publication is between an odd and an even version. A tree is of one entry only:
            // copies are deep. No version is pinned or cut, as `may_publish_in_place` found under
            // this lock.
            rest = unsafe { root.relocate_below(place, (judge, relocated), heap, &publishing) };
        }
        if rest.is_none() {
            self.relocate_entry(database, key_hash.hash, found, (judge, relocated), heap);
        }
        rest
    }

    /// Moves the block of an entry that was found under this lock, and that of its string or of the
    /// root of its tree.
    fn relocate_entry(
        &mut self,
        database: usize,
        hash: u64,
        found: Found<'_>,
        (judge, relocated): (&mut Judge<'_>, &mut Relocated),
        heap: &Heap,
    ) {
        let entry = found.entry;
        let mut moves = |block: Option<(_, usize)>| {
            block.is_some_and(|(address, bytes)| {
                // SAFETY: the entry is current and its slot locked: nobody else retires it, nor
                // what it holds.
                let block = unsafe { Block::new(address) };
                relocated.asks(judge, block, bytes)
            })
        };
        let moves_entry = moves(Some((entry.pointer(), entry.entry_bytes())));
        let moves_string = moves(entry.shared_block());
        let of_root = |root: Root| (root.into_raw(), root.link().header().capacity as usize);
        let moves_root = moves(entry.root().map(of_root));
        if !(moves_entry || moves_string || moves_root) {
            return;
        }
        let (kept, disposal) = entry.kept_value();
        let new_root = entry.root().filter(|_| moves_root).map(|root| root.relocated(heap));
        let value = match (&new_root, entry.plain_of(entry.kind())) {
            (Some(built), _) => NewValue::Tree(TreeValue {
                root: built.root().expect("a tree in an entry is not empty"),
                has_volatile_items: entry.marks().has_volatile_items,
            }),
            (None, Some(bytes)) if moves_string => NewValue::String(bytes),
            (None, _) => kept,
        };
        debug_assert!(entry.root().is_none() || disposal == Disposal::KeepValue);
        let spec = EntrySpec {
            key: entry.key(),
            kind: entry.kind(),
            encoding: entry.encoding(),
            expires_at_ms: entry.expires_at_ms(),
            recency: entry.recency(),
            value,
        };
        let copy = OwnedEntry::new(spec, heap);
        self.replace(database, hash, found, copy, disposal, heap);
        if let Some(built) = new_root {
            // SAFETY: the entry with the new root was just published in the place of the old one.
            unsafe { built.retire_replaced() };
        }
    }
}
