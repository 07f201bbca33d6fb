//! Walks over leaves.

use smallvec::SmallVec;

use super::inner;
use super::node::{Link, Node};

/// Position in a tree: a leaf and the path to it.
#[derive(Clone, Debug)]
pub(crate) struct Cursor<'g> {
    steps: SmallVec<[(Node<'g>, usize); 6]>,
    leaf: Node<'g>,
}

impl<'g> Cursor<'g> {
    /// Descends from `root`; `choose` returns the index of the child to take.
    #[inline]
    pub(crate) fn descend(root: Link, mut choose: impl FnMut(Node<'g>) -> usize) -> Cursor<'g> {
        let mut cursor = Cursor { steps: SmallVec::new(), leaf: root.node() };
        cursor.go_down(&mut choose);
        cursor
    }

    /// Cursor at the leaf that holds a position, and the position within it.
    pub(crate) fn at_position(root: Link, position: u64) -> (Cursor<'g>, u64) {
        let mut rest = position;
        let cursor = Cursor::descend(root, |node| {
            let (index, within) = inner::find_position(node, rest);
            rest = within;
            index
        });
        (cursor, rest)
    }

    #[inline]
    pub(crate) fn leaf(&self) -> Node<'g> {
        self.leaf
    }

    /// Moves to the next leaf; false if there is none.
    pub(crate) fn advance(&mut self) -> bool {
        while let Some((node, index)) = self.steps.pop() {
            if index + 1 < node.len() {
                self.enter(node, index + 1);
                self.go_down(&mut |_| 0);
                return true;
            }
        }
        false
    }

    /// Moves to the previous leaf; false if there is none.
    pub(crate) fn retreat(&mut self) -> bool {
        while let Some((node, index)) = self.steps.pop() {
            if index > 0 {
                self.enter(node, index - 1);
                self.go_down(&mut |node| node.len() - 1);
                return true;
            }
        }
        false
    }

    /// Lower bound of the next leaf's range; none behind the last leaf.
    pub(crate) fn next_key(&self) -> Option<u64> {
        let step = self.steps.iter().rev().find(|(node, index)| index + 1 < node.len());
        step.map(|&(node, index)| node.children()[index + 1].key)
    }

    fn enter(&mut self, node: Node<'g>, index: usize) {
        self.steps.push((node, index));
        self.leaf = node.children()[index].link().node();
        self.leaf.link().prefetch();
    }

    #[inline]
    fn go_down(&mut self, choose: &mut impl FnMut(Node<'g>) -> usize) {
        while !self.leaf.is_leaf() {
            let node = self.leaf;
            let index = choose(node);
            self.enter(node, index);
        }
    }
}

/// Leaf that holds a position, and the position within it, without the path to it.
#[inline]
pub(crate) fn leaf_at<'g>(root: Link, position: u64) -> (Node<'g>, u64) {
    let (mut node, mut rest) = (root.node(), position);
    while !node.is_leaf() {
        let (index, within) = inner::find_position(node, rest);
        node = node.children()[index].link().node();
        node.link().prefetch();
        rest = within;
    }
    (node, rest)
}

/// Leaf whose range holds `key`.
#[inline]
pub(crate) fn leaf_of<'g>(root: Link, key: u64) -> Node<'g> {
    let mut node = root.node();
    while !node.is_leaf() {
        node = child_of(node, key);
    }
    node
}

/// Child of an inner node whose range holds `key`, prefetched.
#[inline]
fn child_of<'g>(node: Node<'g>, key: u64) -> Node<'g> {
    let child = node.children()[inner::find_key(node, key)].link();
    child.prefetch();
    child.node()
}
