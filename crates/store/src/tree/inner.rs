//! Changes of inner nodes.

use super::arena::Arena;
use super::limits::CHILD_COUNT_MAX;
use super::node::{Child, Link, Node, NodeHeader, TOTALS_BYTES, Totals};

/// Replaces `removed` children from `at` on by `inserted`. The caller sets the totals.
///
/// Changes a fresh node in place where it has room, else makes a new one and discards the old.
pub(crate) fn splice(
    arena: &mut Arena,
    link: Link,
    at: usize,
    removed: usize,
    inserted: &[Child],
) -> Link {
    let header = link.header();
    let len = usize::from(header.len) - removed + inserted.len();
    let payload_bytes = TOTALS_BYTES + len * size_of::<Child>();
    let room = header.capacity as usize - super::node::HEADER_BYTES;
    let target = if link.is_fresh() && payload_bytes <= room {
        link
    } else {
        arena.allocate(header.level, header.flags, payload_bytes)
    };
    let source_children = children_address(link);
    let target_children = children_address(target);
    let after = usize::from(header.len) - at - removed;
    // SAFETY: the children behind the removed ones end at the old `len`.
    let source_after = unsafe { source_children.add(at + removed) };
    // SAFETY: the target has room for `len` children.
    let target_after = unsafe { target_children.add(at + inserted.len()) };
    // SAFETY: `after` children lie behind both addresses; the ranges may overlap.
    unsafe { std::ptr::copy(source_after, target_after, after) };
    if target != link {
        // SAFETY: both nodes hold at least `at` children, and they are different allocations.
        unsafe { std::ptr::copy_nonoverlapping(source_children, target_children, at) };
    }
    // SAFETY: `at <= len`.
    let target_at = unsafe { target_children.add(at) };
    // SAFETY: the gap is as long as `inserted`, which lies outside of nodes.
    unsafe { std::ptr::copy_nonoverlapping(inserted.as_ptr(), target_at, inserted.len()) };
    set_len(target, len);
    if target != link {
        arena.discard(link);
    }
    target
}

/// New inner node with `children`. The caller sets the totals.
pub(crate) fn build(arena: &mut Arena, level: u8, flags: u8, children: &[Child]) -> Link {
    let payload_bytes = TOTALS_BYTES + size_of_val(children);
    let link = arena.allocate(level, flags, payload_bytes);
    // SAFETY: the payload was allocated for these children.
    unsafe {
        std::ptr::copy_nonoverlapping(children.as_ptr(), children_address(link), children.len());
    }
    set_len(link, children.len());
    link
}

/// Splits a node with too many children in two; `at` is the index of the last change.
///
/// A change at an end is taken for the first of many there: the other side is left full.
pub(crate) fn split(arena: &mut Arena, link: Link, at: usize) -> (Link, Link) {
    let node = link.node();
    let header = node.header();
    let children = node.children();
    let middle = match at {
        0 => children.len() - CHILD_COUNT_MAX,
        _ if at + 2 >= children.len() => CHILD_COUNT_MAX,
        _ => children.len() / 2,
    };
    let left = build(arena, header.level, header.flags, &children[..middle]);
    let right = build(arena, header.level, header.flags, &children[middle..]);
    arena.discard(link);
    (left, right)
}

/// Merges two neighbours into one node. The caller sets the totals.
pub(crate) fn merge(arena: &mut Arena, left: Link, right: &Child) -> Link {
    let mut children = right.link.node().children().to_vec();
    // The first key of a node is without meaning in it: its lower bound is in its parent.
    children[0].key = right.key;
    let len = left.node().len();
    let merged = splice(arena, left, len, 0, &children);
    arena.discard(right.link);
    merged
}

pub(crate) fn set_totals(link: Link, totals: Totals) {
    debug_assert!(link.is_fresh());
    // SAFETY: an inner node's payload begins with its totals, and a fresh node has no readers.
    unsafe { link.payload(0).cast::<Totals>().write(totals) };
}

pub(crate) fn set_link(link: Link, index: usize, child: Link) {
    debug_assert!(link.is_fresh() && index < link.node().len());
    // SAFETY: the index lies below the node's length.
    let at = unsafe { children_address(link).add(index) };
    // SAFETY: the child was written when the node was built.
    let old = unsafe { at.read() };
    // SAFETY: a fresh node has no readers.
    unsafe { at.write(Child { link: child, ..old }) };
}

fn set_len(link: Link, len: usize) {
    let len_small = u16::try_from(len).expect("an inner node has few children");
    let used = (len * size_of::<Child>()) as u32;
    link.set_header(NodeHeader { used, len: len_small, ..link.header() });
}

fn children_address(link: Link) -> *mut Child {
    link.payload(TOTALS_BYTES).cast()
}

/// Index of the child that holds position `position`, and the position within it.
///
/// A position behind the last element leads to the end of the last child.
#[inline]
pub(crate) fn find_position(node: Node<'_>, mut position: u64) -> (usize, u64) {
    let children = node.children();
    let last = children.len() - 1;
    for (index, child) in children[..last].iter().enumerate() {
        if position < child.measure {
            return (index, position);
        }
        position -= child.measure;
    }
    (last, position)
}

/// Index of the child whose range holds `key`.
#[inline]
pub(crate) fn find_key(node: Node<'_>, key: u64) -> usize {
    node.children()[1..].partition_point(|child| child.key <= key)
}
