//! Entry of a tree: its root, and what is read by way of that.
#![allow(unsafe_code)]

use std::ptr::NonNull;
use std::sync::atomic::{AtomicPtr, Ordering};

use super::{EntryRef, ROOT_MASK, TREE, Value, section};
use crate::hash::Seed;
use crate::limits::PREFETCHED_TREE_BYTES_MIN;
use crate::tree::Root;
use crate::value::{Collection, Kind};

impl<'g> EntryRef<'g> {
    /// Address of the root of the value's tree, with the key's length in its highest bits.
    #[inline]
    pub(super) fn root_field(self) -> &'g AtomicPtr<u8> {
        let offset = self.fixed_bytes() - size_of::<NonNull<u8>>();
        // SAFETY: called only when the value is a tree; the root is then the last fixed field.
        let field = unsafe { self.pointer.add(offset) };
        // SAFETY: as above. Entry and fixed fields of a tree's entry are aligned to eight bytes;
        // the field lives for `'g`, and once published is only accessed as an atomic.
        unsafe { field.cast::<AtomicPtr<u8>>().as_ref() }
    }

    #[inline]
    pub(super) fn root_pointer(self) -> NonNull<u8> {
        // Acquire: pairs with the Release of `set_root`. A root that came with the entry was
        // published with that.
        let pointer = self.root_field().load(Ordering::Acquire);
        // SAFETY: only pointers that are not null were stored, and the mask takes away what was
        // added to them.
        unsafe { NonNull::new_unchecked(pointer.map_addr(|address| address & ROOT_MASK)) }
    }

    /// Lets the entry have another root. Marks, encoding and expiry stay.
    ///
    /// # Safety
    ///
    /// The entry is a tree's and current, its slot's lock is held and the slot's version is odd. No
    /// version of the tree is pinned, and no cut is active.
    pub(crate) unsafe fn set_root(self, root: Root) {
        let field = self.root_field();
        // Relaxed: the lock's owner is the only writer.
        let length = field.load(Ordering::Relaxed).addr() & !ROOT_MASK;
        let root = root.into_raw().as_ptr().map_addr(|address| address | length);
        // Release: pairs with the Acquire of `root_pointer`.
        field.store(root, Ordering::Release);
    }

    /// View of the collection, if it is a `C`. `seed` is the keyspace's.
    ///
    /// A string without chunks is no tree, and none is returned: see [`EntryRef::string`].
    #[must_use]
    #[inline]
    pub fn view<C: Collection>(self, seed: &'g Seed) -> Option<C::View<'g>> {
        self.view_and_is_leaf::<C>(seed).map(|(view, _)| view)
    }

    /// As [`EntryRef::view`]; and true if all that the view shows is one leaf, which never changes,
    /// whatever becomes of the entry.
    #[must_use]
    #[inline]
    pub fn view_and_is_leaf<C: Collection>(self, seed: &'g Seed) -> Option<(C::View<'g>, bool)> {
        let root = self.root_of(C::KIND)?;
        // SAFETY: a tree of this kind is a `C`'s, built with the keyspace's seed; the version that
        // is seen here lives for `'g`, also where the entry is given another root.
        let view = unsafe { C::view(root, seed, section()) };
        Some((view, root.link().node().is_leaf()))
    }

    /// Root of the value's tree, if it is one.
    pub(crate) fn root(self) -> Option<Root> {
        match self.value() {
            Value::Tree(root) => Some(root),
            Value::String(_) => None,
        }
    }

    /// Root of the value's tree, if the entry is of this kind and holds one.
    pub(crate) fn root_of(self, kind: Kind) -> Option<Root> {
        self.root().filter(|_| self.kind() == kind)
    }

    /// True if a leaf of the value's tree may be replaced by another while the root stays. What is
    /// read of two leaves is of one moment then only if the slot's word is unchanged.
    ///
    /// Sets and sorted sets do not change so: each of their changes is one of several leaves, or of
    /// the number of members. All that one view shows is of one version.
    #[must_use]
    #[inline]
    pub fn changes_in_place(self) -> bool {
        const KINDS: u64 = 1 << Kind::String as u8 | 1 << Kind::List as u8 | 1 << Kind::Hash as u8;
        KINDS << (TREE << 4) >> (self.header().kind & 63) & 1 != 0
    }

    /// True if the root of the value's tree may change while the entry stays: two views may show
    /// different versions then. Streams keep theirs: some reads look at them twice.
    #[inline]
    pub(crate) fn may_change_root(self) -> bool {
        const KINDS: u64 = 1 << Kind::List as u8
            | 1 << Kind::Hash as u8
            | 1 << Kind::Set as u8
            | 1 << Kind::SortedSet as u8;
        KINDS << (TREE << 4) >> (self.header().kind & 63) & 1 != 0
    }

    /// True if the value may change while the entry stays, unless it is pinned.
    #[must_use]
    #[inline]
    pub fn may_change(self) -> bool {
        self.changes_in_place() || self.may_change_root()
    }

    /// Prefetches the root of the value's tree, if it is one.
    #[inline]
    pub fn prefetch_root(self) {
        if let Value::Tree(root) = self.value() {
            root.link().prefetch_root();
        }
    }

    /// True if the value is a tree so large that its leaves are seldom cached: lookups that follow
    /// each other gain by a [`LeafPrefetch`](crate::value::LeafPrefetch).
    #[must_use]
    #[inline]
    pub fn is_seldom_cached(self) -> bool {
        self.root().is_some_and(|root| {
            let node = root.link().node();
            !node.is_leaf() && node.totals().bytes >= PREFETCHED_TREE_BYTES_MIN
        })
    }
}
