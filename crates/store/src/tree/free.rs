//! Freeing of nodes and of whole trees.
//!
//! Recursion goes as deep as the tree is high, which is at most seven levels for all the memory of
//! a machine.

use std::ptr::NonNull;

use super::node::Link;

/// Frees one node.
///
/// # Safety
///
/// The pointer came from `Link::as_pointer`; no reader of the node is left.
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
            unsafe { free_tree(child.link().as_pointer()) };
        }
    }
    // SAFETY: the caller's promise.
    unsafe { link.free() };
}
