//! The nodes of one edit: those it made and may still change, and those it replaced.
//!
//! A published node is never written. An edit copies it once and from then on changes the copy in place, so that a
//! thousand pushes of one command copy a path once. What makes a node fresh is its index in the edit's list, kept in
//! the node: the test is one load, and a fresh node that is dropped again leaves the list without a search.

use std::ptr::NonNull;

use smallvec::SmallVec;
use tidemill_rcu::Garbage;

use super::node::{HEADER_BYTES, Link};
use super::whole;
use crate::Heap;

/// What an unfinished edit made and replaced. Dropping it frees what it made and leaves the rest alone.
#[derive(Debug, Default)]
pub(crate) struct Arena {
    fresh: SmallVec<[Link; 8]>,
    replaced: SmallVec<[Link; 8]>,
    base: Option<Root>,
}

impl Arena {
    /// Of an edit that begins from a published root.
    pub(crate) fn from(base: Option<Root>) -> Arena {
        Arena { fresh: SmallVec::new(), replaced: SmallVec::new(), base }
    }

    /// The published root that the edit began from.
    pub(crate) fn base(&self) -> Option<Root> {
        self.base
    }

    /// A new empty node with room for `payload_bytes`.
    pub(crate) fn allocate(&mut self, level: u8, flags: u8, payload_bytes: usize) -> Link {
        let link = Link::allocate(level, flags, HEADER_BYTES + payload_bytes);
        self.fresh.push(link);
        link.set_fresh(self.fresh.len() as u32);
        link
    }

    /// Takes a node out of the edit's tree: a fresh one is freed, a published one is kept for its readers.
    ///
    /// Nodes below it are left alone.
    pub(crate) fn discard(&mut self, link: Link) {
        let Some(index) = (link.header().fresh as usize).checked_sub(1) else {
            self.replaced.push(link);
            return;
        };
        self.fresh.swap_remove(index);
        if let Some(moved) = self.fresh.get(index) {
            moved.set_fresh(index as u32 + 1);
        }
        // SAFETY: a fresh node was never published, and the edit has just unlinked it.
        unsafe { link.free() };
    }

    /// Takes out a node with everything below.
    pub(crate) fn discard_tree(&mut self, link: Link) {
        let node = link.node();
        if !node.is_leaf() {
            node.children().iter().for_each(|child| self.discard_tree(child.link));
        }
        self.discard(link);
    }

    /// Ends the edit: from here on its nodes may be published.
    pub(crate) fn finish(mut self, root: Option<Link>, heap: &Heap) -> Built<'_> {
        let bytes = self.fresh.iter().map(|link| link.header().capacity as usize).sum();
        self.fresh.iter().for_each(|link| link.set_fresh(0));
        heap.allocated(bytes);
        Built {
            root: root.map(Root),
            fresh: std::mem::take(&mut self.fresh),
            replaced: std::mem::take(&mut self.replaced),
            fresh_bytes: bytes,
            heap,
        }
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        free_all(&self.fresh);
    }
}

fn free_all(links: &[Link]) {
    for link in links {
        // SAFETY: the nodes belong to an edit that was not published, so nothing else refers to them.
        unsafe { link.free() };
    }
}

/// The root of a finished collection: one pointer.
///
/// Copying it copies the pointer only. An empty collection has no root.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct Root(pub(super) Link);

// SAFETY: a root is an address; what may be done with it is the contract of the unsafe functions that take one.
unsafe impl Send for Root {}

impl Root {
    pub(crate) fn link(self) -> Link {
        self.0
    }

    /// The pointer to store where readers find it.
    ///
    /// Store it with release ordering, so that who loads it with acquire ordering sees finished nodes.
    #[must_use]
    pub fn into_raw(self) -> NonNull<u8> {
        self.0.as_pointer()
    }

    /// The root that a pointer stands for.
    ///
    /// # Safety
    ///
    /// The pointer came from [`Root::into_raw`].
    #[must_use]
    pub unsafe fn from_raw(pointer: NonNull<u8>) -> Root {
        // SAFETY: the caller's promise is that of `from_pointer`; liveness is demanded by those who take a root.
        Root(unsafe { Link::from_pointer(pointer) })
    }

    /// Allocated bytes of the whole collection, in constant time.
    ///
    /// The collection must be live.
    pub(crate) fn total_bytes(self) -> usize {
        self.0.node().bytes() as usize
    }

    /// Retires a collection that readers can no longer reach anew, as one deep piece of garbage.
    ///
    /// # Safety
    ///
    /// The root was unlinked by the caller, and is retired once.
    pub unsafe fn retire(self, heap: &Heap) {
        let (pointer, bytes) = (self.into_raw(), self.total_bytes());
        let garbage = if self.0.node().is_leaf() {
            // SAFETY: any thread may free the node, which nothing can reach after the grace period.
            unsafe { Garbage::new(pointer, bytes, whole::free_node) }
        } else {
            // SAFETY: as above, for all nodes of the tree, which belong to no other.
            unsafe { Garbage::deep(pointer, bytes, whole::free_tree) }
        };
        heap.retire_node(garbage);
    }

    /// Frees a collection at once, without counting.
    ///
    /// # Safety
    ///
    /// No reader can reach the root, now or later, and it is freed once.
    pub unsafe fn free(self) {
        // SAFETY: the caller's promise.
        unsafe { whole::free_tree(self.into_raw()) };
    }

    /// A deep copy that shares nothing with the original.
    ///
    /// # Safety
    ///
    /// The collection is live for the duration of the call.
    pub unsafe fn copy(self, heap: &Heap) -> Built<'_> {
        let mut arena = Arena::default();
        let root = whole::copy_tree(&mut arena, self.0);
        arena.finish(Some(root), heap)
    }
}

/// A finished edit: a root to publish, then [`Built::retire_replaced`].
///
/// Dropped instead, it takes back everything the edit made, and the old collection stays as it was: between publishing
/// and retiring nothing may fail.
#[derive(Debug)]
#[must_use = "a finished edit that is not published is undone"]
pub struct Built<'h> {
    root: Option<Root>,
    fresh: SmallVec<[Link; 8]>,
    replaced: SmallVec<[Link; 8]>,
    fresh_bytes: usize,
    heap: &'h Heap,
}

impl Built<'_> {
    /// The new root; none if the collection became empty.
    #[must_use]
    pub fn root(&self) -> Option<Root> {
        self.root
    }

    /// Retires the nodes that the new version does not share with the old one.
    ///
    /// # Safety
    ///
    /// The new root was published in place of the old one, which no reader that comes later can find, and its nodes are
    /// retired once.
    pub unsafe fn retire_replaced(mut self) {
        self.fresh.clear();
        self.fresh_bytes = 0;
        for link in self.replaced.drain(..) {
            let bytes = link.header().capacity as usize;
            // SAFETY: by the caller's promise this node is unlinked; it is in the list once, and any thread may free it.
            self.heap
                .retire_node(unsafe { Garbage::new(link.as_pointer(), bytes, whole::free_node) });
        }
    }
}

impl Drop for Built<'_> {
    fn drop(&mut self) {
        self.heap.discarded(self.fresh_bytes);
        free_all(&self.fresh);
    }
}
