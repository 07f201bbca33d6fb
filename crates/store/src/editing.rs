//! Values that are trees: editing them, and publishing what an edit built.
#![allow(unsafe_code)]

use std::ops::{Deref, DerefMut};

use crate::entry::{
    Disposal, Encoding, EntryRef, EntrySpec, Kind, NewValue, OwnedEntry, Place, StringValue,
    TreeValue,
};
use crate::hash::Seed;
use crate::heap::Heap;
use crate::keyspace::{Found, SlotLock};
use crate::member::Section;
use crate::tree::{Built, Root};
use crate::value::hash::HashEdit;
use crate::value::list::ListEdit;
use crate::value::text::TextEdit;

/// A tree being edited, together with the entry it belongs to.
#[derive(Debug)]
pub struct Editing<'g, E> {
    edit: E,
    found: Option<Found<'g>>,
}

impl<E> Deref for Editing<'_, E> {
    type Target = E;

    fn deref(&self) -> &E {
        &self.edit
    }
}

impl<E> DerefMut for Editing<'_, E> {
    fn deref_mut(&mut self) -> &mut E {
        &mut self.edit
    }
}

/// What an entry around a new tree says.
#[derive(Clone, Copy, Debug)]
pub struct TreeSpec<'v> {
    /// The key.
    pub key: &'v [u8],
    /// The key's hash.
    pub hash: u64,
    /// What `OBJECT ENCODING` will answer.
    pub encoding: Encoding,
    /// Unix time in milliseconds at which the key expires.
    pub expires_at_ms: Option<u64>,
    /// The recency field.
    pub recency: u32,
}

/// What publishing a tree came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Published {
    /// The key has the new tree.
    Present,
    /// The tree became empty and the key is gone.
    Removed,
}

/// An edit of a tree that an entry can hold.
pub trait Editable {
    /// The type of the entry's value.
    const KIND: Kind;
}

impl Editable for ListEdit<'_> {
    const KIND: Kind = Kind::List;
}

impl Editable for HashEdit<'_> {
    const KIND: Kind = Kind::Hash;
}

impl Editable for TextEdit<'_> {
    const KIND: Kind = Kind::String;
}

impl<S: Default> SlotLock<'_, S> {
    /// Starts the next version of a list, or a new one. An entry of another kind counts as none.
    #[must_use]
    pub fn edit_list<'g>(
        &self,
        found: Option<Found<'g>>,
        heap: &'g Heap,
    ) -> Editing<'g, ListEdit<'g>> {
        let root = found.and_then(|found| found.entry.root_of(Kind::List));
        // SAFETY: the nodes live for `'g`, which the edit does not outlive, not even exchanged with another one. It is
        // published, and retires anything, only by `publish_tree`: under the lock, in the place of the entry that it began
        // from, and only if that is still the key's current one.
        Editing { edit: unsafe { ListEdit::new(root, heap) }, found }
    }

    /// Starts the next version of a hash, or a new one. An entry of another kind counts as none.
    #[must_use]
    pub fn edit_hash<'g>(
        &self,
        found: Option<Found<'g>>,
        seed: &'g Seed,
        heap: &'g Heap,
    ) -> Editing<'g, HashEdit<'g>> {
        let root = found.and_then(|found| found.entry.root_of(Kind::Hash));
        // SAFETY: as in `edit_list`.
        Editing { edit: unsafe { HashEdit::new(root, seed, heap) }, found }
    }

    /// Starts the next version of a string in chunks, or a new one with the content of a plain one.
    #[must_use]
    pub fn edit_text<'g>(
        &self,
        found: Option<Found<'g>>,
        heap: &'g Heap,
    ) -> Editing<'g, TextEdit<'g>> {
        let root = found.and_then(|found| found.entry.root_of(Kind::String));
        // SAFETY: as in `edit_list`.
        let mut edit = unsafe { TextEdit::new(root, heap) };
        if let Some(StringValue::Plain(bytes)) = found.and_then(|found| found.entry.string()) {
            edit.append(bytes);
        }
        Editing { edit, found }
    }

    /// Publishes what an edit built in the place of the entry it began from, and retires what that leaves behind.
    ///
    /// # Panics
    ///
    /// When the entry is no longer the key's current one.
    pub fn publish_tree<'h, E: Editable + Finish<'h>>(
        &mut self,
        database: usize,
        editing: Editing<'_, E>,
        spec: TreeSpec<'_>,
        section: Section<'_>,
        heap: &'h Heap,
    ) -> Published {
        let Editing { edit, found } = editing;
        let root = found.and_then(|found| found.entry.root_of(E::KIND));
        assert!(edit.base() == root, "an edit is published where it began");
        if let Some(found) = found {
            assert!(found.is_current(), "an edit ends before the next one of the same key begins");
        }
        // The old tree's nodes are shared with the new one or retired with it; an old plain string is not.
        let disposal = if root.is_some() { Disposal::KeepValue } else { Disposal::RetireValue };
        self.publish(database, found, edit, disposal, spec, section, heap)
    }

    /// Publishes a value that was built from nothing in the place of whatever the key holds.
    ///
    /// # Panics
    ///
    /// When the slot changed since `found` was found, or the edit began from a published value.
    pub fn put_tree<'h, E: Editable + Finish<'h>>(
        &mut self,
        database: usize,
        found: Option<Found<'_>>,
        edit: E,
        spec: TreeSpec<'_>,
        section: Section<'_>,
        heap: &'h Heap,
    ) -> Published {
        assert!(edit.base().is_none(), "an edit is published where it began");
        self.publish(database, found, edit, Disposal::RetireValue, spec, section, heap)
    }

    #[allow(clippy::too_many_arguments, reason = "those of its two callers")]
    fn publish<'h, E: Editable + Finish<'h>>(
        &mut self,
        database: usize,
        found: Option<Found<'_>>,
        edit: E,
        disposal: Disposal,
        spec: TreeSpec<'_>,
        section: Section<'_>,
        heap: &'h Heap,
    ) -> Published {
        let built = edit.finish_edit();
        let Some(root) = built.root() else {
            if let Some(found) = found {
                self.remove(database, spec.hash, found, disposal, section, heap);
            }
            // SAFETY: the entry with the old root was taken out.
            unsafe { built.retire_replaced() };
            return Published::Removed;
        };
        let entry = OwnedEntry::new(
            EntrySpec {
                key: spec.key,
                kind: E::KIND,
                encoding: spec.encoding,
                expires_at_ms: spec.expires_at_ms,
                recency: spec.recency,
                value: NewValue::Tree(TreeValue(root)),
            },
            heap,
        );
        match found {
            Some(found) => self.replace(database, spec.hash, found, entry, disposal, heap),
            None => self.insert(database, spec.hash, entry, section, heap),
        }
        // SAFETY: the new root was published in the place of the old one.
        unsafe { built.retire_replaced() };
        Published::Present
    }

    /// Gives a key another expiry, or none, and keeps its value.
    pub fn set_expiry(
        &mut self,
        database: usize,
        hash: u64,
        found: Found<'_>,
        expires_at_ms: Option<u64>,
        heap: &Heap,
    ) {
        let place = Place { key: found.entry.key(), encoding: found.entry.encoding() };
        let (entry, disposal) = rebuilt(found.entry, place, expires_at_ms, heap);
        self.replace(database, hash, found, entry, disposal, heap);
    }

    /// Gives a string another encoding's name, or a collection; keeps its value and expiry.
    pub fn set_encoding(
        &mut self,
        database: usize,
        hash: u64,
        found: Found<'_>,
        encoding: Encoding,
        heap: &Heap,
    ) {
        let old = found.entry;
        let (value, disposal) = old.kept_value();
        let spec = EntrySpec {
            key: old.key(),
            kind: old.kind(),
            encoding,
            expires_at_ms: old.expires_at_ms(),
            recency: old.recency(),
            value,
        };
        self.replace(database, hash, found, OwnedEntry::new(spec, heap), disposal, heap);
    }

    /// Takes an entry out and returns its value as an entry of another key, which must be published.
    #[must_use]
    pub fn take_as(
        &mut self,
        database: usize,
        hash: u64,
        found: Found<'_>,
        place: Place<'_>,
        section: Section<'_>,
        heap: &Heap,
    ) -> OwnedEntry {
        let expires_at_ms = found.entry.expires_at_ms();
        let (entry, disposal) = rebuilt(found.entry, place, expires_at_ms, heap);
        self.remove(database, hash, found, disposal, section, heap);
        entry
    }
}

/// An entry with another one's value, key and expiry apart, and what becomes of the value when the other one goes.
fn rebuilt(
    source: EntryRef<'_>,
    place: Place<'_>,
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

/// Ends an edit, whatever its type.
pub trait Finish<'h> {
    /// The built tree.
    fn finish_edit(self) -> Built<'h>;

    /// The published root that it began from.
    fn base(&self) -> Option<Root>;
}

impl<'h> Finish<'h> for ListEdit<'h> {
    fn finish_edit(self) -> Built<'h> {
        self.finish()
    }

    fn base(&self) -> Option<Root> {
        self.base()
    }
}

impl<'h> Finish<'h> for HashEdit<'h> {
    fn finish_edit(self) -> Built<'h> {
        self.finish()
    }

    fn base(&self) -> Option<Root> {
        self.base()
    }
}

impl<'h> Finish<'h> for TextEdit<'h> {
    fn finish_edit(self) -> Built<'h> {
        self.finish()
    }

    fn base(&self) -> Option<Root> {
        self.base()
    }
}
