//! The one interface of all types that are trees.

use crate::hash::Seed;
use crate::heap::Heap;
use crate::member::Section;
use crate::tree::{Built, BuiltLeaf, Root};

use super::kind::Kind;

/// Type of values that are trees: its view for readers, its edit for writers. Implemented by the
/// view.
///
/// Everything around the tree is the same for all types: entries, locks, publication, copies,
/// pins, freeing and the count of bytes need no more than a root. What a type adds is here, and
/// resolved at compile time.
///
/// # Safety
///
/// No two implementations have the same [`Collection::KIND`]; `view` and `edit` accept every root
/// that an edit of this type built with the same seed; and of the edit, `base` is the root that it
/// began from, `finish` builds a tree of this type that is of no other value, and `finish_leaf` a
/// leaf of the tree under `base`.
pub unsafe trait Collection {
    /// Type of the entry's value.
    const KIND: Kind;

    /// One version, for as long as `'g`.
    type View<'g>: Copy;

    /// Next version, under construction.
    type Edit<'h>: TreeEdit<'h>;

    /// View of the version under a root.
    ///
    /// # Safety
    ///
    /// `root` came from an edit of this type with this seed, and was reachable for readers at some
    /// moment of the section's lifetime `'g`, or is not yet published and not dropped for as long.
    unsafe fn view<'g>(root: Root, seed: &'g Seed, section: Section<'g>) -> Self::View<'g>;

    /// Next version of the collection under `root`; of an empty one, if there is none.
    ///
    /// # Safety
    ///
    /// `root` came from an edit of this type with this seed, is the current version of its key, and
    /// no other code edits or retires it until this edit and the tree it built are gone.
    unsafe fn edit<'h>(root: Option<Root>, seed: &'h Seed, heap: &'h Heap) -> Self::Edit<'h>;

    /// New, empty collection.
    #[must_use]
    fn create<'h>(seed: &'h Seed, heap: &'h Heap) -> Self::Edit<'h> {
        // SAFETY: there is no root.
        unsafe { Self::edit(None, seed, heap) }
    }

    /// Takes over a value that is stored without a tree. Of all types only strings are.
    fn append_plain(edit: &mut Self::Edit<'_>, bytes: &[u8]) {
        let _ = edit;
        debug_assert!(bytes.is_empty(), "only strings are stored without a tree");
    }
}

/// Edit of a tree that an entry can hold. What it must keep is part of [`Collection`]'s contract.
pub trait TreeEdit<'h> {
    /// Published root that the edit began from.
    fn base(&self) -> Option<Root>;

    /// Ends the edit.
    fn finish(self) -> Built<'h>;

    /// Ends an edit that has only replaced one leaf by another of the same measure, bytes and
    /// expiry, which may be published alone; none of any other, which goes on.
    ///
    /// A type whose edits return some is one of those that
    /// [`EntryRef::changes_in_place`](crate::EntryRef::changes_in_place) names.
    fn finish_leaf(&mut self) -> Option<BuiltLeaf<'h>> {
        None
    }

    /// True if an element expires, or has expired and was not removed yet: the sweep looks for
    /// entries with such.
    fn has_volatile_items(&self) -> bool {
        false
    }
}
