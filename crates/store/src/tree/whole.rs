//! Whole trees: freeing and copying every node.
//!
//! Recursion goes as deep as the tree is high, which is at most seven levels for all the memory of a machine.

use std::ptr::NonNull;

use super::arena::Arena;
use super::node::{HEADER_BYTES, Link};

/// Frees one node.
///
/// # Safety
///
/// The pointer came from `Link::as_pointer`; nothing reads the node any more.
pub(crate) unsafe fn free_node(pointer: NonNull<u8>) {
    // SAFETY: the caller's promise.
    let link = unsafe { Link::from_pointer(pointer) };
    // SAFETY: the caller's promise.
    unsafe { link.free() };
}

/// Frees a node and everything below.
///
/// # Safety
///
/// As for `free_node`, for every node of the tree.
pub(crate) unsafe fn free_tree(pointer: NonNull<u8>) {
    // SAFETY: the caller's promise.
    let link = unsafe { Link::from_pointer(pointer) };
    let node = link.node();
    if !node.is_leaf() {
        for child in node.children() {
            // SAFETY: a child belongs to one tree only, and the caller gave the whole tree.
            unsafe { free_tree(child.link.as_pointer()) };
        }
    }
    // SAFETY: the caller's promise.
    unsafe { link.free() };
}

/// Copies a tree node by node; the copies have the originals' shape and sizes.
pub(crate) fn copy_tree(arena: &mut Arena, link: Link) -> Link {
    let copy = copy_node(arena, link);
    let node = link.node();
    if !node.is_leaf() {
        for (index, child) in node.children().iter().enumerate() {
            let below = copy_tree(arena, child.link);
            super::inner::set_link(copy, index, below);
        }
    }
    copy
}

/// Copies one node as it is.
fn copy_node(arena: &mut Arena, link: Link) -> Link {
    let header = link.header();
    let payload_bytes = header.capacity as usize - HEADER_BYTES;
    let copy = arena.allocate(header.level, header.flags, payload_bytes);
    let (source, target) = (link.payload(0), copy.payload(0));
    // SAFETY: both payloads have this length; bytes that were never written are copied as such.
    unsafe { std::ptr::copy_nonoverlapping(source, target, payload_bytes) };
    let copied = copy.header();
    copy.set_header(super::node::Header {
        fresh: copied.fresh,
        capacity: copied.capacity,
        ..header
    });
    copy
}
