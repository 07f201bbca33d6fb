//! Roots of several trees: one value made of parts with orders of their own.
//!
//! ```text
//! root | header | totals | child of role a | child of role b | ... | meta bytes |
//! ```
//!
//! The root is an inner node as any other to freeing, copying and the count of bytes. Its children
//! are roots of any height; the key of each is its *role*, by which the value type finds it, so
//! that a part may be absent. The measure of the whole is the type's to choose, and the meta bytes
//! have the meaning that the type gives them.
//!
//! Nothing here balances: an edit takes the parts out, changes each with the functions of its
//! order, and builds a new root. Walks by position work on a composite whose parts follow each
//! other in one order, as those of a list do.

use super::arena::Arena;
use super::check::assert_is_finished;
use super::inner;
use super::node::{Child, Link, Node, StoredChild, Totals, flags};

/// Most parts of a value.
pub(crate) const PART_COUNT_MAX: usize = 5;

/// Most meta bytes of a root.
pub(crate) const META_BYTES_MAX: usize = 256;

/// Level of a root: it only has to differ from a leaf's.
const LEVEL: u8 = 1;

/// New root over `parts`, with the role of each as its key.
pub(crate) fn build(arena: &mut Arena, parts: &[Child], totals: Totals, meta: &[u8]) -> Link {
    debug_assert!(parts.len() <= PART_COUNT_MAX && meta.len() <= META_BYTES_MAX);
    let root = inner::build_with(arena, LEVEL, flags::COMPOSITE, parts, meta);
    inner::set_totals(root, totals);
    root
}

/// True if a root is one of several trees.
#[inline]
pub(crate) fn is_composite(root: Node<'_>) -> bool {
    root.has(flags::COMPOSITE)
}

/// Part of a role.
#[inline]
pub(crate) fn part(root: Node<'_>, role: u64) -> Option<Child> {
    debug_assert!(is_composite(root));
    root.children().iter().find(|child| child.key == role).map(StoredChild::child)
}

/// Meta bytes of a root.
pub(crate) fn meta(root: Node<'_>) -> &[u8] {
    debug_assert!(is_composite(root));
    root.behind_children()
}

/// Asserts the invariants of a finished root, each part checked by `check_part`, which is given the
/// role and returns the totals of the part with its own node.
///
/// # Panics
///
/// When one does not hold.
pub(crate) fn check(root: Node<'_>, mut check_part: impl FnMut(u64, Link) -> Totals) {
    assert_is_finished(root);
    assert!(is_composite(root) && root.len() <= PART_COUNT_MAX);
    assert!(meta(root).len() <= META_BYTES_MAX);
    let mut bytes = 0;
    for part in root.children() {
        let totals = check_part(part.key, part.link());
        assert_eq!(totals.measure, part.measure, "a root knows what its part measures");
        bytes += totals.bytes;
    }
    assert_eq!(root.totals().bytes, bytes, "a root's bytes are the sums over its parts");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::heap::Heap;
    use crate::tree::node::Expiries;
    use crate::tree::{Root, leaf};

    fn part_of(arena: &mut Arena, role: u64, bytes: &[u8]) -> Child {
        Child { link: leaf::single(arena, 0, &[bytes]), measure: 1, key: role }
    }

    fn totals_of(parts: &[Child], measure: u64) -> Totals {
        let bytes = parts.iter().map(|part| part.link.node().bytes()).sum();
        Totals { measure, bytes, expiries: Expiries::NONE }
    }

    fn check_leaf_part(_role: u64, part: Link) -> Totals {
        Totals { measure: part.node().len() as u64, ..totals_of(&[], 1) }.and(Totals {
            measure: 0,
            bytes: part.node().bytes(),
            ..totals_of(&[], 0)
        })
    }

    #[test]
    fn parts_and_meta_bytes_are_copied_and_freed_with_their_root() {
        let heap = Heap::new();
        for (roles, meta) in [(0..0, &b"meta"[..]), (0..1, b""), (3..8, &[7; META_BYTES_MAX])] {
            let mut arena = Arena::default();
            let parts: Vec<Child> =
                roles.clone().map(|role| part_of(&mut arena, role, b"element")).collect();
            let totals = totals_of(&parts, 42);
            let root = build(&mut arena, &parts, totals, meta);
            let built = arena.finish(Some(root), &heap);
            // SAFETY: the tree was just built, and nothing edits it.
            let copied = unsafe { Root(root).copy(&heap) };
            let copy = copied.root().expect("a copy has a root");
            for root in [Root(root), copy] {
                let node = root.link().node();
                check(node, check_leaf_part);
                assert_eq!(super::meta(node), meta);
                assert_eq!(node.totals().measure, 42);
                assert!(roles.clone().all(|role| part(node, role).is_some()));
                assert!(part(node, 99).is_none());
            }
            // SAFETY: both trees are known here only, and published nowhere.
            unsafe { built.retire_replaced() };
            // SAFETY: as above.
            unsafe { copied.retire_replaced() };
            for root in [Root(root), copy] {
                // SAFETY: as above; each is retired once.
                unsafe { root.retire(&heap) };
            }
            assert_eq!(heap.live_bytes(), 0);
            // SAFETY: nothing reads.
            unsafe { heap.retired().free_all() };
        }
    }
}
