//! Differences between the trees of the value types.

use super::arena::Arena;
use super::leaf;
use super::limits::LEAF_BYTES_MIN;
use super::node::{Expiries, Link, Node, Totals};
use super::separator::Separator;

/// Interpretation of leaves by a value type.
pub(crate) trait Order {
    /// Lower bound of a child: `u64`, or `TiedKey` where numbers alone do not order the elements.
    type Key: Separator;

    /// Number of positions in a leaf.
    fn measure(leaf: Node<'_>) -> u64 {
        leaf.len() as u64
    }

    /// Earliest and latest expiry of a leaf's elements.
    fn expiries(_leaf: Node<'_>) -> Expiries {
        Expiries::NONE
    }

    /// True if a leaf should be merged with a neighbour. Two such can always be merged.
    fn is_underfull(leaf: Node<'_>) -> bool {
        leaf::bytes_with_starts(leaf) < LEAF_BYTES_MIN
    }

    /// Merges two neighbours, if one leaf can hold both.
    fn merge(arena: &mut Arena, left: Link, right: Link) -> Option<Link> {
        leaf::merge(arena, left, right)
    }
}

/// Number of positions below a node.
pub(crate) fn measure<O: Order>(node: Node<'_>) -> u64 {
    if node.is_leaf() { O::measure(node) } else { node.totals().measure }
}

/// Sums of a node with its own allocation counted in. Looks at each element of a leaf of which some
/// expire.
pub(crate) fn sums<O: Order>(node: Node<'_>) -> Totals {
    let own = u64::from(node.header().capacity);
    if node.is_leaf() {
        Totals { measure: O::measure(node), bytes: own, expiries: O::expiries(node) }
    } else {
        let totals = node.totals();
        Totals { bytes: totals.bytes + own, ..totals }
    }
}
