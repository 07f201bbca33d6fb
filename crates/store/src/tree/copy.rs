//! Copies of whole trees.

use super::arena::{Arena, Built};
use super::inner;
use super::node::{HEADER_BYTES, Link, NodeHeader};
use super::root::Root;
use crate::heap::Heap;

impl Root {
    /// Deep copy that shares nothing with the original.
    ///
    /// # Safety
    ///
    /// The collection is live for the duration of the call.
    pub unsafe fn copy(self, heap: &Heap) -> Built<'_> {
        let mut arena = Arena::default();
        let root = copy_tree(&mut arena, self.0);
        arena.finish(Some(root), heap)
    }
}

/// Copies a tree node by node; the copies have the originals' shape and sizes.
fn copy_tree(arena: &mut Arena, link: Link) -> Link {
    let copy = copy_node(arena, link);
    let node = link.node();
    if !node.is_leaf() {
        for (index, child) in node.children().iter().enumerate() {
            let below = copy_tree(arena, child.link());
            inner::set_link(copy, index, below);
        }
    }
    copy
}

/// Copies one node as it is.
pub(super) fn copy_node(arena: &mut Arena, link: Link) -> Link {
    let header = link.header();
    let payload_bytes = header.capacity as usize - HEADER_BYTES;
    let copy = arena.allocate(header.level, header.flags, payload_bytes);
    let (source, target) = (link.payload(0), copy.payload(0));
    // SAFETY: both payloads have this length; bytes that were never written are copied as such.
    unsafe { std::ptr::copy_nonoverlapping(source, target, payload_bytes) };
    let copied = copy.header();
    copy.set_header(NodeHeader { fresh: copied.fresh, capacity: copied.capacity, ..header });
    copy
}
