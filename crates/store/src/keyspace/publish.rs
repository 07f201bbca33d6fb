//! Edits of values that are trees, and publication of their results.
#![allow(unsafe_code)]

use std::ops::{Deref, DerefMut};

use super::lock::{Found, SlotLock};
use crate::entry::{Disposal, EntryRef, EntrySpec, EntryTarget, NewValue, OwnedEntry, TreeValue};
use crate::heap::Heap;
use crate::member::Section;
use crate::pin;
use crate::tree::{BuiltLeaf, Root};
use crate::value::{Collection, Encoding, TreeEdit};

/// Edit of a collection, together with the entry that the collection belongs to.
#[derive(Debug)]
pub struct Editing<'h, C: Collection> {
    edit: C::Edit<'h>,
    found: Option<Found<'h>>,
}

impl<'h, C: Collection> Deref for Editing<'h, C> {
    type Target = C::Edit<'h>;

    fn deref(&self) -> &C::Edit<'h> {
        &self.edit
    }
}

impl<'h, C: Collection> DerefMut for Editing<'h, C> {
    fn deref_mut(&mut self) -> &mut C::Edit<'h> {
        &mut self.edit
    }
}

/// Fields of an entry around a new tree.
#[derive(Clone, Copy, Debug)]
pub struct TreeSpec<'v> {
    /// The key.
    pub key: &'v [u8],
    /// The key's hash.
    pub hash: u64,
    /// Answer of `OBJECT ENCODING`.
    pub encoding: Encoding,
    /// Unix time in milliseconds at which the key expires.
    pub expires_at_ms: Option<u64>,
    /// The recency field.
    pub recency: u32,
}

/// Result of publishing a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Published {
    /// The key has the new tree.
    Present,
    /// The tree became empty and the key is gone.
    Removed,
}

impl<S: Default> SlotLock<'_, S> {
    /// Starts the next version of a collection, or a new one. An entry of another kind counts as
    /// none; of a string without chunks the edit takes over the bytes.
    #[must_use]
    pub fn edit<'h, C: Collection>(
        &self,
        found: Option<Found<'h>>,
        heap: &'h Heap,
    ) -> Editing<'h, C>
    where
        Self: 'h,
    {
        let root = found.and_then(|found| found.entry.root_of(C::KIND));
        // SAFETY: the nodes live for `'h`, which the edit does not outlive, not even exchanged with
        // another one. It is published, and retires nodes, only by `publish_tree`: under the lock,
        // in place of the entry that it began from, and only if that is still the key's current
        // one. A tree of this kind is a `C`'s, built with the keyspace's seed.
        let mut edit = unsafe { C::edit(root, self.keyspace.seed(), heap) };
        if root.is_none()
            && let Some(bytes) = found.and_then(|found| found.entry.plain_of(C::KIND))
        {
            C::append_plain(&mut edit, bytes);
        }
        Editing { edit, found }
    }

    /// Publishes the tree that an edit built in place of the entry it began from, and retires the
    /// nodes that it replaced.
    ///
    /// # Panics
    ///
    /// When the entry is no longer the key's current one.
    pub fn publish_tree<'h, C: Collection>(
        &mut self,
        database: usize,
        mut editing: Editing<'h, C>,
        spec: TreeSpec<'_>,
        section: Section<'_>,
        heap: &'h Heap,
    ) -> Published {
        // Not taken apart: an edit is large.
        let (edit, found) = (&mut editing.edit, editing.found);
        let root = found.and_then(|found| found.entry.root_of(C::KIND));
        assert!(edit.base() == root, "an edit is published where it began");
        if let Some(found) = found {
            assert!(found.is_current(), "an edit ends before the next one of the same key begins");
            if root.is_some()
                && self.may_publish_in_place()
                && keeps_entry(found.entry, &spec, edit.has_volatile_items())
                && let Some(leaf) = edit.finish_leaf()
            {
                self.publish_leaf(found, leaf, spec.recency);
                return Published::Present;
            }
        }
        // The old tree's nodes are shared with the new one or retired with it; an old plain string
        // is not.
        let disposal = if root.is_some() { Disposal::KeepValue } else { Disposal::RetireValue };
        self.publish::<C>(database, found, editing.edit, disposal, spec, section, heap)
    }

    /// True if a leaf of the tree under a current entry, or its root, may be replaced where it is:
    /// nothing reads an older version of the tree but optimistic reads, which are judged by the
    /// slot's word, and nobody has asked to [keep versions](SlotLock::keep_versions).
    ///
    /// The one place of this decision. It is made under the slot's lock, as pins begin: a pin of
    /// this tree is seen here, or it begins behind the change. What else keeps versions of trees
    /// has to be asked here.
    pub(super) fn may_publish_in_place(&self) -> bool {
        !self.keeps_versions && pin::none_is_alive() && self.keyspace.active_cut.is_inactive()
    }

    /// Publishes a leaf in the tree under a current entry. The entry stays.
    fn publish_leaf(&mut self, found: Found<'_>, leaf: BuiltLeaf<'_>, recency: u32) {
        assert!(found.entry.changes_in_place(), "readers expect it of these types only");
        self.word().begin_change();
        // SAFETY: the edit began from the entry's tree, which is current as the entry is. The lock
        // is held, and the version is odd. A tree is of one entry only: copies are deep. No version
        // is pinned or cut, as `may_publish_in_place` found under this lock.
        unsafe { leaf.publish() };
        self.word().end_change();
        found.entry.set_recency(recency);
    }

    /// Publishes a root in the place of the one that its tree was edited from. The entry stays.
    ///
    /// # Panics
    ///
    /// When the slot changed since `found` was found.
    fn publish_root(
        &mut self,
        database: usize,
        (hash, recency): (u64, u32),
        found: Found<'_>,
        root: Root,
        section: Section<'_>,
    ) {
        let database = self.database_of(database, hash, found, section);
        let old_bytes = found.entry.root().map_or(0, Root::total_bytes);
        self.word().begin_change();
        // SAFETY: the entry has just been found to be current. The lock is held, the version is
        // odd, and nothing keeps a version, as `may_publish_in_place` found under this lock.
        unsafe { found.entry.set_root(root) };
        self.word().end_change();
        found.entry.set_recency(recency);
        database.count_bytes(self.slot, root.total_bytes() as i64 - old_bytes as i64);
    }

    /// Publishes a value that was built from nothing in place of the key's present value, if any.
    ///
    /// # Panics
    ///
    /// When the slot changed since `found` was found, or the edit began from a published value.
    pub fn put_tree<'h, C: Collection>(
        &mut self,
        database: usize,
        found: Option<Found<'_>>,
        edit: C::Edit<'h>,
        spec: TreeSpec<'_>,
        section: Section<'_>,
        heap: &'h Heap,
    ) -> Published {
        assert!(edit.base().is_none(), "an edit is published where it began");
        self.publish::<C>(database, found, edit, Disposal::RetireValue, spec, section, heap)
    }

    #[allow(clippy::too_many_arguments, reason = "those of its two callers")]
    fn publish<'h, C: Collection>(
        &mut self,
        database: usize,
        found: Option<Found<'_>>,
        edit: C::Edit<'h>,
        disposal: Disposal,
        spec: TreeSpec<'_>,
        section: Section<'_>,
        heap: &'h Heap,
    ) -> Published {
        let has_volatile_items = edit.has_volatile_items();
        let built = edit.finish();
        let Some(root) = built.root() else {
            if let Some(found) = found {
                self.remove(database, spec.hash, found, disposal, section, heap);
            }
            // SAFETY: the entry with the old root was taken out.
            unsafe { built.retire_replaced() };
            return Published::Removed;
        };
        if let Some(found) = found
            && disposal == Disposal::KeepValue
            && found.entry.may_change_root()
            && self.may_publish_in_place()
            && keeps_entry(found.entry, &spec, has_volatile_items)
        {
            self.publish_root(database, (spec.hash, spec.recency), found, root, section);
            // SAFETY: the new root was published in place of the old one.
            unsafe { built.retire_replaced() };
            return Published::Present;
        }
        let entry = OwnedEntry::new(
            EntrySpec {
                key: spec.key,
                kind: C::KIND,
                encoding: spec.encoding,
                expires_at_ms: spec.expires_at_ms,
                recency: spec.recency,
                value: NewValue::Tree(TreeValue { root, has_volatile_items }),
            },
            heap,
        );
        match found {
            Some(found) => self.replace(database, spec.hash, found, entry, disposal, heap),
            None => self.insert(database, spec.hash, entry, section, heap),
        }
        // SAFETY: the new root was published in place of the old one.
        unsafe { built.retire_replaced() };
        Published::Present
    }

    /// Changes or removes the expiry of a key, and keeps its value.
    pub fn set_expiry(
        &mut self,
        database: usize,
        hash: u64,
        found: Found<'_>,
        expires_at_ms: Option<u64>,
        heap: &Heap,
    ) {
        let place = EntryTarget { key: found.entry.key(), encoding: found.entry.encoding() };
        let (entry, disposal) = rebuilt(found.entry, place, expires_at_ms, heap);
        self.replace(database, hash, found, entry, disposal, heap);
    }

    /// Changes the encoding that `OBJECT ENCODING` reports; keeps value and expiry.
    pub fn set_encoding(
        &mut self,
        database: usize,
        hash: u64,
        found: Found<'_>,
        encoding: Encoding,
        recency: u32,
        heap: &Heap,
    ) {
        let old = found.entry;
        let (value, disposal) = old.kept_value();
        let spec = EntrySpec {
            key: old.key(),
            kind: old.kind(),
            encoding,
            expires_at_ms: old.expires_at_ms(),
            recency,
            value,
        };
        self.replace(database, hash, found, OwnedEntry::new(spec, heap), disposal, heap);
    }

    /// Takes an entry out and returns an unpublished entry of another key with its value, which
    /// must be published.
    #[must_use]
    pub fn take_as(
        &mut self,
        database: usize,
        hash: u64,
        found: Found<'_>,
        place: EntryTarget<'_>,
        section: Section<'_>,
        heap: &Heap,
    ) -> OwnedEntry {
        let expires_at_ms = found.entry.expires_at_ms();
        let (entry, disposal) = rebuilt(found.entry, place, expires_at_ms, heap);
        self.remove(database, hash, found, disposal, section, heap);
        entry
    }
}

/// True if an entry can stay when its tree changes.
fn keeps_entry(entry: EntryRef<'_>, spec: &TreeSpec<'_>, has_volatile_items: bool) -> bool {
    let is_same = entry.encoding() == spec.encoding && entry.expires_at_ms() == spec.expires_at_ms;
    is_same && entry.marks().has_volatile_items == has_volatile_items
}

/// Entry with another one's value, but its own key and expiry, and the disposal of the value when
/// the other one goes.
fn rebuilt(
    source: EntryRef<'_>,
    place: EntryTarget<'_>,
    expires_at_ms: Option<u64>,
    heap: &Heap,
) -> (OwnedEntry, Disposal) {
    let (value, disposal) = source.kept_value();
    let spec = EntrySpec {
        key: place.key,
        kind: source.kind(),
        encoding: place.encoding,
        expires_at_ms,
        recency: source.recency(),
        value,
    };
    (OwnedEntry::new(spec, heap), disposal)
}
