//! Connections that have more to execute than one turn, in the order in which they came.
//!
//! The queue knows which connections are in it, so that none is queued twice and an event looks
//! that up at once. A connection that leaves early keeps its place in the line, which is skipped:
//! looking for it would take as long as the line. Indices only; nothing else is touched.

use std::collections::VecDeque;

/// Queue of connections, by index.
#[derive(Debug, Default)]
pub(super) struct RunQueue {
    /// Places, of which those of connections that left are skipped.
    line: VecDeque<usize>,
    /// True by index of a connection if it is queued.
    is_queued: Vec<bool>,
}

impl RunQueue {
    /// Adds a connection behind the others, unless it is queued.
    pub(super) fn push(&mut self, index: usize) {
        if self.is_queued.len() <= index {
            self.is_queued.resize(index + 1, false);
        }
        if !std::mem::replace(&mut self.is_queued[index], true) {
            self.line.push_back(index);
        }
    }

    /// True if a connection is queued.
    #[inline]
    pub(super) fn contains(&self, index: usize) -> bool {
        // Mostly nothing is queued when events are looked at.
        !self.line.is_empty() && self.is_queued.get(index) == Some(&true)
    }

    /// Takes a connection out.
    pub(super) fn remove(&mut self, index: usize) {
        if let Some(is_queued) = self.is_queued.get_mut(index) {
            *is_queued = false;
        }
    }

    /// Number of places, with those that are skipped.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.line.len()
    }

    /// Takes the first place; returns its connection unless that has left.
    pub(super) fn pop(&mut self) -> Option<usize> {
        let index = self.line.pop_front()?;
        std::mem::take(&mut self.is_queued[index]).then_some(index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_leave_in_order_and_once() {
        let mut queue = RunQueue::default();
        [5, 0, 5, 2, 0].into_iter().for_each(|index| queue.push(index));
        assert_eq!(queue.len(), 3);
        assert!(queue.contains(5) && !queue.contains(1) && !queue.contains(100));
        assert_eq!([queue.pop(), queue.pop(), queue.pop()], [Some(5), Some(0), Some(2)]);
        assert!(queue.pop().is_none() && !queue.contains(5));
        queue.push(5);
        assert_eq!(queue.pop(), Some(5));
    }

    #[test]
    fn connection_that_left_is_skipped() {
        let mut queue = RunQueue::default();
        [1, 2].into_iter().for_each(|index| queue.push(index));
        queue.remove(1);
        queue.remove(100);
        assert!(!queue.contains(1));
        assert_eq!([queue.pop(), queue.pop()], [None, Some(2)]);
    }

    #[test]
    fn next_connection_of_an_index_is_not_queued_with_the_last_one() {
        let mut queue = RunQueue::default();
        queue.push(1);
        queue.remove(1);
        assert!(!queue.contains(1));
        // Queued itself, it has its turn once, at whichever of its places comes first.
        queue.push(1);
        assert_eq!([queue.pop(), queue.pop()], [Some(1), None]);
    }
}
