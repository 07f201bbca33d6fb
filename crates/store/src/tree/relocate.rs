//! Nodes that move to other addresses, so that their old pages become empty.
//!
//! A node below a root moves by the invariant of changes in place: the link in its parent, of a
//! leaf or of an inner node, is replaced by one to an equal copy. A reader that found the old node
//! reads the same elements. What it must not do is go on below an old inner node behind a later
//! change in place below the new one: that change is of another version of the slot's word.

use std::marker::PhantomData;
use std::ptr::NonNull;

use smallvec::SmallVec;

use super::arena::{Arena, Built, BuiltLeaf, LeafPlace};
use super::copy::copy_node;
use super::node::Link;
use super::root::Root;
use crate::heap::Heap;

/// Place in a tree: the indices of the children on the way to a leaf. Empty at the beginning.
///
/// Whatever becomes of the tree, a walk that goes on from a place ends; leaves may be skipped.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TreePlace(SmallVec<[u8; 8]>);

/// A block of memory of a published entry or node, allocated for as long as this lives.
#[derive(Clone, Copy, Debug)]
pub struct Block<'b> {
    address: NonNull<u8>,
    marker: PhantomData<&'b ()>,
}

impl<'b> Block<'b> {
    /// # Safety
    ///
    /// The address is the first of an allocation, which is not freed during `'b`.
    pub(crate) unsafe fn new(address: NonNull<u8>) -> Block<'b> {
        Block { address, marker: PhantomData }
    }

    /// Its address.
    #[must_use]
    pub fn address(self) -> NonNull<u8> {
        self.address
    }
}

/// Judge of blocks: true for one that should move.
pub type Judge<'j> = dyn FnMut(Block<'_>) -> bool + 'j;

/// Work of a defragmentation: what is left to do at once, and what was done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Relocated {
    /// Elements that may still be looked at; 64 bytes that were copied count as one.
    pub elements_left: usize,
    /// Blocks that were moved.
    pub moved_count: u64,
    /// Blocks that were looked at and stayed.
    pub kept_count: u64,
}

impl Relocated {
    /// Asks about a block of some bytes and notes the answer.
    pub(crate) fn asks(&mut self, judge: &mut Judge<'_>, block: Block<'_>, bytes: usize) -> bool {
        let moves = judge(block);
        self.moved_count += u64::from(moves);
        self.kept_count += u64::from(!moves);
        let cost = 1 + if moves { bytes / 64 } else { 0 };
        self.elements_left = self.elements_left.saturating_sub(cost);
        moves
    }
}

impl Root {
    /// Moves nodes below the root as the judge decides, from a place on; returns the place to go on
    /// from when there was too much to look at. `publishing` is called around each publication.
    ///
    /// # Safety
    ///
    /// As for [`BuiltLeaf::publish`], but that `publishing` makes the version odd, calls its
    /// argument and makes it even.
    pub(crate) unsafe fn relocate_below(
        self,
        place: TreePlace,
        (judge, relocated): (&mut Judge<'_>, &mut Relocated),
        heap: &Heap,
        publishing: &dyn Fn(&mut dyn FnMut()),
    ) -> Option<TreePlace> {
        if self.0.node().is_leaf() {
            return None;
        }
        let mut walk = Walk { place, judge, relocated, heap, publishing };
        // SAFETY: the caller's promise.
        let is_done = unsafe { walk.below(self.0, 0) };
        (!is_done).then_some(walk.place)
    }

    /// Copy of the root alone, above the same children, to be published in its place.
    pub(crate) fn relocated(self, heap: &Heap) -> Built<'_> {
        let mut arena = Arena::from(Some(self));
        let copy = copy_node(&mut arena, self.0);
        arena.discard(self.0);
        arena.finish(Some(copy), heap)
    }
}

struct Walk<'a> {
    place: TreePlace,
    judge: &'a mut Judge<'a>,
    relocated: &'a mut Relocated,
    heap: &'a Heap,
    publishing: &'a dyn Fn(&mut dyn FnMut()),
}

impl Walk<'_> {
    /// Moves what is below an inner node; false when there is more. Recursion goes as deep as the
    /// tree is high.
    ///
    /// # Safety
    ///
    /// As for [`Root::relocate_below`].
    unsafe fn below(&mut self, parent: Link, depth: usize) -> bool {
        let first = self.place.0.get(depth).copied().map_or(0, usize::from);
        for index in first..parent.node().len() {
            let child = parent.node().children()[index].link();
            let is_leaf = child.node().is_leaf();
            if is_leaf && self.relocated.elements_left == 0 {
                self.place.0.resize(depth + 1, 0);
                self.place.0[depth] = index as u8;
                return false;
            }
            if is_leaf {
                let others = child.node().len().saturating_sub(1);
                self.relocated.elements_left = self.relocated.elements_left.saturating_sub(others);
            // SAFETY: the caller's promise.
            } else if !unsafe { self.below(child, depth + 1) } {
                self.place.0[depth] = index as u8;
                return false;
            }
            self.place.0.truncate(depth);
            // SAFETY: as above.
            unsafe { self.node(LeafPlace { parent, index }, child) };
        }
        true
    }

    /// Moves one node if it should.
    ///
    /// # Safety
    ///
    /// As for [`Root::relocate_below`].
    unsafe fn node(&mut self, place: LeafPlace, old: Link) {
        let bytes = old.header().capacity as usize;
        // SAFETY: the node is of a current tree, whose slot is locked: nobody else retires it.
        let block = unsafe { Block::new(old.as_pointer()) };
        if !self.relocated.asks(self.judge, block, bytes) {
            return;
        }
        let mut arena = Arena::default();
        let new = copy_node(&mut arena, old);
        let mut built: Option<BuiltLeaf<'_>> =
            Some(arena.finish_copy(place, (old, new), self.heap));
        (self.publishing)(&mut || {
            let Some(built) = built.take() else { return };
            // SAFETY: the caller's promise; the copy has the old one's content.
            unsafe { built.publish() };
        });
    }
}
