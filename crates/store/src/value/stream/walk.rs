//! Walks over the elements of one tree.

use crate::tree::cursor::Cursor;
use crate::tree::node::{Link, Node};
use crate::tree::order::{Order, measure};

/// Elements of a tree from a rank on, ascending, as leaf and index.
#[derive(Clone, Debug)]
pub(super) struct Forward<'g> {
    cursor: Option<Cursor<'g>>,
    next: usize,
}

impl<'g> Forward<'g> {
    /// Walk from a rank on; over nothing without a tree.
    pub(super) fn new<O: Order>(root: Option<Link>, rank: u64) -> Forward<'g> {
        let Some(root) = root.filter(|root| rank < measure::<O>(root.node())) else {
            return Forward { cursor: None, next: 0 };
        };
        let (cursor, within) = Cursor::at_position(root, rank);
        Forward { cursor: Some(cursor), next: within as usize }
    }
}

impl<'g> Iterator for Forward<'g> {
    type Item = (Node<'g>, usize);

    #[inline]
    fn next(&mut self) -> Option<(Node<'g>, usize)> {
        let cursor = self.cursor.as_mut()?;
        if self.next >= cursor.leaf().len() {
            if !cursor.advance() {
                self.cursor = None;
                return None;
            }
            self.next = 0;
        }
        self.next += 1;
        Some((cursor.leaf(), self.next - 1))
    }
}

/// Elements of a tree before a rank, descending, as leaf and index.
#[derive(Clone, Debug)]
pub(super) struct Backward<'g> {
    cursor: Option<Cursor<'g>>,
    left: usize,
}

impl<'g> Backward<'g> {
    /// Walk over the elements before a rank, from the last of them on.
    pub(super) fn new<O: Order>(root: Option<Link>, end: u64) -> Backward<'g> {
        let Some(root) = root else { return Backward { cursor: None, left: 0 } };
        let Some(last) = end.min(measure::<O>(root.node())).checked_sub(1) else {
            return Backward { cursor: None, left: 0 };
        };
        let (cursor, within) = Cursor::at_position(root, last);
        Backward { cursor: Some(cursor), left: within as usize + 1 }
    }
}

impl<'g> Iterator for Backward<'g> {
    type Item = (Node<'g>, usize);

    #[inline]
    fn next(&mut self) -> Option<(Node<'g>, usize)> {
        let cursor = self.cursor.as_mut()?;
        if self.left == 0 {
            if !cursor.retreat() {
                self.cursor = None;
                return None;
            }
            self.left = cursor.leaf().len();
        }
        self.left -= 1;
        Some((cursor.leaf(), self.left))
    }
}
