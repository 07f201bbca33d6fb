//! What a connection has read and not executed yet.
//!
//! Executed bytes are dropped from the front. Moving the rest each time would cost the square of what a client piled up,
//! so the front is only marked, and given back once it outweighs the rest.

use rustix::buffer::SpareCapacity;

use crate::limits::READ_BYTES;

/// Bytes of requests, in order. Holds no memory while empty.
#[derive(Debug, Default)]
pub(crate) struct Input {
    bytes: Vec<u8>,
    /// How many of them were executed.
    start: usize,
}

impl Input {
    /// What is not executed yet.
    pub(crate) fn pending(&self) -> &[u8] {
        &self.bytes[self.start..]
    }

    /// How much is not executed yet.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len() - self.start
    }

    /// Memory that it takes; not what is reserved and was never written, for which the kernel gives no page.
    pub(crate) fn held_bytes(&self) -> usize {
        self.bytes.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(crate) fn extend(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Where the next bytes are read into: at least a good part of what one read takes.
    pub(crate) fn spare(&mut self) -> SpareCapacity<'_, u8> {
        if self.bytes.spare_capacity_mut().len() < READ_BYTES / 4 {
            self.bytes.reserve(READ_BYTES);
        }
        rustix::buffer::spare_capacity(&mut self.bytes)
    }

    /// Makes room for so many bytes more.
    pub(crate) fn reserve(&mut self, count: usize) {
        self.bytes.reserve(count);
    }

    /// The first `count` pending bytes were executed.
    pub(crate) fn consume(&mut self, count: usize) {
        self.start += count;
        if self.is_empty() {
            *self = Input::default();
        } else if self.start > READ_BYTES && self.start > self.len() {
            self.bytes.drain(..self.start);
            self.start = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_consumed_is_gone_and_the_rest_stays_in_order() {
        let all: Vec<u8> = (0..4 * READ_BYTES).map(|index| index as u8).collect();
        let mut input = Input::default();
        input.extend(&all);
        let mut consumed = 0;
        for step in [1, 5, READ_BYTES, READ_BYTES + 7, 2, READ_BYTES] {
            input.consume(step);
            consumed += step;
            assert_eq!(input.pending(), &all[consumed..]);
            assert_eq!(input.len(), all.len() - consumed);
        }
        assert!(input.bytes.len() < 2 * READ_BYTES, "what was executed is still held");
        input.consume(input.len());
        assert!(input.is_empty());
        assert_eq!(input.bytes.capacity(), 0);
    }
}
