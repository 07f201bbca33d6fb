//! What a connection has read and not executed yet.
//!
//! Executed bytes are dropped from the front. Moving the rest each time would cost the square of what a client piled up,
//! so the front is only marked, and given back once it outweighs the rest.
//!
//! What a client announces costs next to nothing: memory follows what has arrived, at most doubles with it, and ends with
//! the announced size. Only a few clients of a worker have room for more, so that a large argument that arrives at once is
//! not moved while it grows, and only for a moment: see [`Input::give_back`]. What is counted is what is allocated.

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

    /// Memory that it takes.
    pub(crate) fn allocated_bytes(&self) -> usize {
        self.bytes.capacity()
    }

    /// Whether so much has arrived that the next bytes are worth being read in place.
    pub(crate) fn is_large(&self) -> bool {
        self.len() >= READ_BYTES
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(crate) fn extend(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Room that nothing has arrived for yet.
    pub(crate) fn room_bytes(&self) -> usize {
        self.bytes.capacity() - self.bytes.len()
    }

    /// Where the next bytes of large input are read into: never nothing.
    pub(crate) fn spare(&mut self) -> SpareCapacity<'_, u8> {
        if self.room_bytes() == 0 {
            self.reserve(READ_BYTES, 0);
        }
        rustix::buffer::spare_capacity(&mut self.bytes)
    }

    /// Whether it is time to make room: there is little, and less than what is known to be wanted.
    pub(crate) fn is_full(&self, wanted: usize) -> bool {
        self.room_bytes() < wanted.min(READ_BYTES / 4)
    }

    /// Makes room for what is known to be wanted, but for no more than what has arrived, one read, or what is `granted`.
    pub(crate) fn reserve(&mut self, wanted: usize, granted: usize) {
        if self.is_full(wanted) {
            let most = self.len().max(READ_BYTES).max(granted);
            self.bytes.reserve_exact(wanted.clamp(READ_BYTES, most));
        }
    }

    /// Gives back the room that nothing has arrived for.
    pub(crate) fn give_back(&mut self) {
        self.bytes.shrink_to_fit();
    }

    /// The first `count` pending bytes were executed.
    pub(crate) fn consume(&mut self, count: usize) {
        self.start += count;
        if self.is_empty() {
            *self = Input::default();
        } else if self.start > READ_BYTES && self.start > self.len() {
            self.bytes.drain(..self.start);
            self.start = 0;
            // What a large request leaves behind it. Less than was executed is moved, as above.
            let kept_bytes = 2 * self.len().max(READ_BYTES);
            if self.bytes.capacity() > 2 * kept_bytes {
                self.bytes.shrink_to(kept_bytes);
            }
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
        assert!(input.allocated_bytes() <= 4 * READ_BYTES, "its memory is still held");
        input.consume(input.len());
        assert!(input.is_empty());
        assert_eq!(input.bytes.capacity(), 0);
    }

    #[test]
    fn memory_follows_what_has_arrived_up_to_what_was_announced() {
        const ANNOUNCED: usize = 10_000_000;
        let mut input = Input::default();
        input.extend(&[0; READ_BYTES]);
        let (mut allocated, mut moves) = (0, 0);
        while input.len() < ANNOUNCED {
            let wanted = ANNOUNCED - input.len();
            input.reserve(wanted, 0);
            moves += usize::from(input.allocated_bytes() != allocated);
            allocated = input.allocated_bytes();
            assert!(allocated <= 2 * input.len(), "{allocated} for {}", input.len());
            input.extend(&vec![0; input.room_bytes().min(wanted).min(READ_BYTES)]);
        }
        assert!(allocated <= ANNOUNCED + READ_BYTES, "{allocated}");
        assert!(moves <= 9, "{moves}");
        input.reserve(usize::MAX, 1 << 20);
        assert!(input.room_bytes() >= READ_BYTES / 4);
        input.give_back();
        assert_eq!(input.allocated_bytes(), input.len());
    }
}
