//! Invariants of a tree, checked node by node. For tests; in time linear in the size.

use super::leaf::used_bytes;
use super::limits::CHILD_COUNT_MAX;
use super::node::{Link, Node, Totals, flags};
use super::order::{Order, sums};
use super::update::is_underfull;

/// Check of the caller for each leaf, given the range of keys that lead to it.
pub(crate) type CheckLeaf<'c> = dyn FnMut(Node<'_>, u64, Option<u64>) + 'c;

/// Asserts the invariants of a finished tree.
///
/// # Panics
///
/// When one does not hold.
pub(crate) fn check_tree<O: Order>(root: Link, check_leaf: &mut CheckLeaf<'_>) -> Totals {
    check_node::<O>(root.node(), 0, None, check_leaf)
}

/// Asserts that a node belongs to no edit.
pub(crate) fn assert_is_finished(node: Node<'_>) {
    assert!(node.header().fresh & super::node::FRESH == 0, "a finished node is not fresh");
}

fn check_node<O: Order>(
    node: Node<'_>,
    from: u64,
    to: Option<u64>,
    check_leaf: &mut CheckLeaf<'_>,
) -> Totals {
    assert_is_finished(node);
    assert!(node.len() > 0, "a node holds something");
    assert!(!node.has(flags::COMPOSITE), "only a root has parts");
    if node.is_leaf() {
        assert!(used_bytes(node) <= node.header().capacity as usize);
        let starts: Vec<usize> = (0..=node.len()).map(|index| node.start(index)).collect();
        assert!(starts.is_sorted() && starts[node.len()] == node.data().len());
        check_leaf(node, from, to);
        return sums::<O>(node);
    }
    check_children::<O>(node, from, to, check_leaf);
    sums::<O>(node)
}

fn check_children<O: Order>(
    node: Node<'_>,
    from: u64,
    to: Option<u64>,
    check_leaf: &mut CheckLeaf<'_>,
) {
    let children = node.children();
    assert!((2..=CHILD_COUNT_MAX).contains(&children.len()) || node.len() == 1);
    let mut totals = Totals::OF_NOTHING;
    for (index, child) in children.iter().enumerate() {
        let low = if index == 0 { from } else { child.key };
        let high = children.get(index + 1).map(|next| next.key).or(to);
        let sums = check_node::<O>(child.link().node(), low, high, check_leaf);
        assert_eq!(child.link().header().level + 1, node.header().level, "all leaves at one depth");
        assert_eq!(child.measure, sums.measure, "a parent knows what its child measures");
        totals = totals.and(sums);
    }
    assert_eq!(node.totals(), totals, "a node's totals are the sums over its children");
    for pair in children.windows(2) {
        let crumbs = pair.iter().all(|child| is_underfull::<O>(child.link().node()));
        assert!(!crumbs, "two neighbours that hold little are joined");
    }
}
