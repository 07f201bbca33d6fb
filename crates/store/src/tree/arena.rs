//! The nodes of one edit: those it made and may still change, and those it replaced.
//!
//! An edit writes no published node. An edit copies it once and from then on changes the copy in
//! place, so that a thousand pushes of one command copy a path once. A node is fresh if it has an
//! index in the edit's list, kept in the node: the test is one load, and a fresh node that is
//! dropped again leaves the list without a search.
//!
//! An edit that so far has only replaced one leaf by another with the same sums *defers* the copies
//! of the nodes above: [`Arena::finish_leaf`] lets the leaf be published alone. Whatever else
//! happens to the edit settles first: the path is copied then.

use smallvec::SmallVec;
use tidemill_rcu::Garbage;

use super::free::free_node;
use super::node::{HEADER_BYTES, Link};
use super::order::Order;
use super::root::Root;
use super::update::{PathIndices, TreePath};
use crate::heap::Heap;

/// Nodes that an unfinished edit made and replaced. Dropping it frees those it made and leaves the
/// others alone.
#[derive(Debug, Default)]
pub(crate) struct Arena {
    fresh: SmallVec<[Link; 8]>,
    replaced: SmallVec<[Link; 8]>,
    /// Roots of published subtrees that were taken out whole.
    replaced_trees: Vec<Link>,
    base: Option<Root>,
    deferred: Option<Deferred>,
}

/// Leaf that an edit has replaced by one with the same sums, where nothing above was copied yet.
///
/// Small, because an edit is moved as a whole: of the path, the indices.
#[derive(Clone, Copy, Debug)]
struct Deferred {
    place: LeafPlace,
    old: Link,
    new: Link,
    /// Root of the tree that the path begins at; the old leaf when that is a part of its own.
    root: Link,
    path: PathIndices,
}

/// Place of a leaf: a published inner node, and the index of the child.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LeafPlace {
    pub(crate) parent: Link,
    pub(crate) index: usize,
}

impl Arena {
    /// Arena of an edit that begins from a published root.
    pub(crate) fn from(base: Option<Root>) -> Arena {
        Arena {
            fresh: SmallVec::new(),
            replaced: SmallVec::new(),
            replaced_trees: Vec::new(),
            base,
            deferred: None,
        }
    }

    /// True if the edit has done nothing but to put `new` in the place of the published leaf `old`.
    pub(super) fn has_only_replaced(&self, old: Link, new: Link) -> bool {
        self.base.is_some()
            && self.fresh.as_slice() == [new]
            && self.replaced.as_slice() == [old]
            && self.replaced_trees.is_empty()
    }

    /// Defers the copies of the nodes above a leaf, of which [`Arena::has_only_replaced`] holds and
    /// whose sums are those of the old one. `path` leads to the leaf from `root`, which may be a
    /// part of the value, or the leaf itself.
    pub(crate) fn defer(
        &mut self,
        place: LeafPlace,
        (old, new): (Link, Link),
        (root, path): (Link, PathIndices),
    ) {
        debug_assert!(self.deferred.is_none() && self.has_only_replaced(old, new));
        self.deferred = Some(Deferred { place, old, new, root, path });
    }

    /// True if copies are deferred.
    #[inline]
    pub(crate) fn defers(&self) -> bool {
        self.deferred.is_some()
    }

    /// Makes the copies that were deferred, and returns the new root of that tree.
    pub(crate) fn settle<O: Order>(&mut self) -> Option<Link> {
        let Deferred { new, root, path, .. } = self.deferred.take()?;
        Some(TreePath::along::<O>(root, path).replace_by_leaf::<O>(self, new))
    }

    /// Published root that the edit began from.
    pub(crate) fn base(&self) -> Option<Root> {
        self.base
    }

    /// New empty node with room for `payload_bytes`.
    pub(crate) fn allocate(&mut self, level: u8, flags: u8, payload_bytes: usize) -> Link {
        let link = Link::allocate(level, flags, HEADER_BYTES + payload_bytes, self.fresh.len());
        self.fresh.push(link);
        link
    }

    /// Takes a node out of the edit's tree: a fresh one is freed, a published one is kept for its
    /// readers.
    ///
    /// Nodes below it are left alone.
    pub(crate) fn discard(&mut self, link: Link) {
        let Some(index) = link.fresh_index() else {
            self.replaced.push(link);
            return;
        };
        self.fresh.swap_remove(index);
        if let Some(moved) = self.fresh.get(index) {
            moved.set_fresh(index);
        }
        // SAFETY: a fresh node was never published, and the edit has just unlinked it.
        unsafe { link.free() };
    }

    /// Takes out a node with everything below it.
    ///
    /// Without a look below a published node: a fresh node is reached by way of fresh ones only, so
    /// that nothing below is fresh, and what was replaced below is linked no more.
    pub(crate) fn discard_tree(&mut self, link: Link) {
        let node = link.node();
        if node.is_leaf() {
            return self.discard(link);
        }
        if !link.is_fresh() {
            self.replaced_trees.push(link);
            return;
        }
        node.children().iter().for_each(|child| self.discard_tree(child.link()));
        self.discard(link);
    }

    /// Number of published nodes and subtrees that the edit took out.
    #[cfg(test)]
    pub(crate) fn replaced_count(&self) -> usize {
        self.replaced.len() + self.replaced_trees.len()
    }

    /// Ends the edit: from here on its nodes may be published.
    pub(crate) fn finish(mut self, root: Option<Link>, heap: &Heap) -> Built<'_> {
        assert!(!self.defers(), "an edit settles before it is finished");
        let era = heap.era();
        let mut bytes = 0;
        for link in &self.fresh {
            link.set_birth(era);
            bytes += link.header().capacity as usize;
        }
        heap.allocated(bytes);
        Built {
            root: root.map(Root),
            fresh: std::mem::take(&mut self.fresh),
            replaced: std::mem::take(&mut self.replaced),
            replaced_trees: std::mem::take(&mut self.replaced_trees),
            fresh_bytes: bytes,
            heap,
        }
    }
}

impl Arena {
    /// Ends an edit that has only replaced one leaf by another with the same sums; none of any
    /// other, which goes on.
    pub(crate) fn finish_leaf<'h>(&mut self, heap: &'h Heap) -> Option<BuiltLeaf<'h>> {
        let Deferred { place, old, new, .. } = self.deferred.take()?;
        self.fresh.clear();
        self.replaced.clear();
        new.set_birth(heap.era());
        Some(BuiltLeaf { place, old, new: Some(new), heap })
    }
}

impl Arena {
    /// Ends an edit that has only copied a node, which may have nodes below.
    pub(super) fn finish_copy<'h>(
        mut self,
        place: LeafPlace,
        (old, new): (Link, Link),
        heap: &'h Heap,
    ) -> BuiltLeaf<'h> {
        debug_assert!(self.fresh.as_slice() == [new] && self.replaced.is_empty());
        self.fresh.clear();
        new.set_birth(heap.era());
        BuiltLeaf { place, old, new: Some(new), heap }
    }
}

/// Leaf to publish in the place of one with the same sums: [`BuiltLeaf::publish`].
///
/// Dropped instead, it frees the leaf, and the collection stays as it was.
#[derive(Debug)]
#[must_use = "a leaf that is not published is freed"]
pub struct BuiltLeaf<'h> {
    place: LeafPlace,
    old: Link,
    new: Option<Link>,
    heap: &'h Heap,
}

impl BuiltLeaf<'_> {
    /// Publishes the leaf, and retires the one that it replaces.
    ///
    /// # Safety
    ///
    /// The collection that the edit began from is current, in a slot whose lock the caller holds
    /// and whose word has an odd version; no other current collection has a node of it; no version
    /// of it is pinned.
    ///
    /// # Panics
    ///
    /// When the leaf is not where the edit found it.
    pub(crate) unsafe fn publish(mut self) {
        let Some(new) = self.new.take() else { return };
        self.place.parent.replace_child(self.place.index, self.old, new);
        self.heap.allocated(new.header().capacity as usize);
        let bytes = self.old.header().capacity as usize;
        // SAFETY: the leaf was just unlinked, once, from the one current collection that has it,
        // and any thread may free it.
        let garbage = unsafe { Garbage::new(self.old.as_pointer(), bytes, free_node) };
        self.heap.retire_node(garbage, self.old.birth());
    }
}

impl Drop for BuiltLeaf<'_> {
    fn drop(&mut self) {
        free_all(self.new.as_slice());
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        free_all(&self.fresh);
    }
}

fn free_all(links: &[Link]) {
    for link in links {
        // SAFETY: the nodes belong to an edit that was not published, so nothing else refers to
        // them.
        unsafe { link.free() };
    }
}

/// Finished edit: a root to publish, then [`Built::retire_replaced`].
///
/// Dropped instead, it frees everything the edit made, and the old collection stays as it was:
/// between publishing and retiring nothing may fail.
#[derive(Debug)]
#[must_use = "a finished edit that is not published is undone"]
pub struct Built<'h> {
    root: Option<Root>,
    fresh: SmallVec<[Link; 8]>,
    replaced: SmallVec<[Link; 8]>,
    replaced_trees: Vec<Link>,
    fresh_bytes: usize,
    heap: &'h Heap,
}

impl Built<'_> {
    /// New root; none if the collection became empty.
    #[must_use]
    pub fn root(&self) -> Option<Root> {
        self.root
    }

    /// Retires the nodes that the new version does not share with the old one.
    ///
    /// # Safety
    ///
    /// The new root was published in place of the old one, which no reader that comes later can
    /// find, and its nodes are retired once.
    pub unsafe fn retire_replaced(mut self) {
        self.fresh.clear();
        self.fresh_bytes = 0;
        self.heap.retire_nodes(self.replaced.drain(..).map(|link| {
            let (bytes, birth) = (link.header().capacity as usize, link.birth());
            // SAFETY: by the caller's promise this node is unlinked; it is in the list once, and
            // any thread may free it.
            (unsafe { Garbage::new(link.as_pointer(), bytes, free_node) }, birth)
        }));
        for link in self.replaced_trees.drain(..) {
            // SAFETY: as above, for a subtree that no other list holds a node of.
            unsafe { Root(link).retire(self.heap) };
        }
    }
}

impl Drop for Built<'_> {
    fn drop(&mut self) {
        self.heap.discarded(self.fresh_bytes);
        free_all(&self.fresh);
    }
}
