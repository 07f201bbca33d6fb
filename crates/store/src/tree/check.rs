//! Everything that must hold for a tree, checked node by node. For tests; in time linear in the size.

use super::leaf::used_bytes;
use super::limits::{CHILD_COUNT_MAX, CHILD_COUNT_MIN, NODE_BYTES_MAX};
use super::node::{Link, Node, Totals};
use super::order::{Order, sums};

/// What the caller checks in each leaf, given the range of keys that lead to it.
pub(crate) type CheckLeaf<'c> = dyn FnMut(Node<'_>, u64, Option<u64>) + 'c;

/// Asserts the invariants of a finished tree.
///
/// # Panics
///
/// When one does not hold.
pub(crate) fn check_tree<O: Order>(root: Link, check_leaf: &mut CheckLeaf<'_>) -> Totals {
    check_node::<O>(root.node(), 0, None, check_leaf)
}

fn check_node<O: Order>(
    node: Node<'_>,
    from: u64,
    to: Option<u64>,
    check_leaf: &mut CheckLeaf<'_>,
) -> Totals {
    assert_eq!(node.header().fresh, 0, "a finished node is not fresh");
    assert!(node.len() > 0, "a node holds something");
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
    let mut totals = Totals { measure: 0, bytes: 0, expiry: super::node::NEVER };
    for (index, child) in children.iter().enumerate() {
        let low = if index == 0 { from } else { child.key };
        let high = children.get(index + 1).map(|next| next.key).or(to);
        let sums = check_node::<O>(child.link.node(), low, high, check_leaf);
        assert_eq!(child.link.header().level + 1, node.header().level, "all leaves at one depth");
        assert_eq!(child.measure, sums.measure, "a parent knows what its child measures");
        totals.measure += sums.measure;
        totals.bytes += sums.bytes;
        totals.expiry = totals.expiry.min(sums.expiry);
    }
    assert_eq!(node.totals(), totals, "a node's totals are the sums over its children");
    for pair in children.windows(2) {
        let (left, right) = (pair[0].link.node(), pair[1].link.node());
        assert!(!could_be_one(left, right), "no crumbs beside a node with room for them");
    }
}

/// Whether one of the neighbours is a crumb that the other could hold.
fn could_be_one(left: Node<'_>, right: Node<'_>) -> bool {
    if left.is_leaf() {
        let (left, right) = (used_bytes(left), used_bytes(right));
        left.min(right) < NODE_BYTES_MAX / 8 && left + right <= NODE_BYTES_MAX
    } else {
        let (left, right) = (left.len(), right.len());
        left.min(right) < CHILD_COUNT_MIN / 2 && left + right <= CHILD_COUNT_MAX
    }
}
