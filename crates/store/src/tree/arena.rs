//! The nodes of one edit: those it made and may still change, and those it replaced.
//!
//! A published node is never written. An edit copies it once and from then on changes the copy in
//! place, so that a thousand pushes of one command copy a path once. A node is fresh if it has an
//! index in the edit's list, kept in the node: the test is one load, and a fresh node that is
//! dropped again leaves the list without a search.

use smallvec::SmallVec;
use tidemill_rcu::Garbage;

use super::free::free_node;
use super::node::{HEADER_BYTES, Link};
use super::root::Root;
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
}

impl Arena {
    /// Arena of an edit that begins from a published root.
    pub(crate) fn from(base: Option<Root>) -> Arena {
        Arena {
            fresh: SmallVec::new(),
            replaced: SmallVec::new(),
            replaced_trees: Vec::new(),
            base,
        }
    }

    /// Published root that the edit began from.
    pub(crate) fn base(&self) -> Option<Root> {
        self.base
    }

    /// New empty node with room for `payload_bytes`.
    pub(crate) fn allocate(&mut self, level: u8, flags: u8, payload_bytes: usize) -> Link {
        let link = Link::allocate(level, flags, HEADER_BYTES + payload_bytes);
        self.fresh.push(link);
        link.set_fresh(self.fresh.len() as u32);
        link
    }

    /// Takes a node out of the edit's tree: a fresh one is freed, a published one is kept for its
    /// readers.
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
        node.children().iter().for_each(|child| self.discard_tree(child.link));
        self.discard(link);
    }

    /// Number of published nodes and subtrees that the edit took out.
    #[cfg(test)]
    pub(crate) fn replaced_count(&self) -> usize {
        self.replaced.len() + self.replaced_trees.len()
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
            replaced_trees: std::mem::take(&mut self.replaced_trees),
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
        for link in self.replaced.drain(..) {
            let bytes = link.header().capacity as usize;
            // SAFETY: by the caller's promise this node is unlinked; it is in the list once, and
            // any thread may free it.
            self.heap.retire_node(unsafe { Garbage::new(link.as_pointer(), bytes, free_node) });
        }
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
