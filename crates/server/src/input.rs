//! Input of a connection that is read and not executed yet.
//!
//! Executed bytes are dropped from the front. Moving the remaining bytes each time would cost the
//! square of a client's backlog, so the front is only marked, and given back once it outweighs the
//! remaining bytes.
//!
//! An announced size costs next to nothing: memory follows the bytes that have arrived, at most
//! doubles with them, and ends with the announced size. Only a few clients of a worker have room
//! for more, so that a large argument that arrives at once is not moved while it grows, and only
//! for a moment: see [`Input::give_back`]. Allocated bytes are counted, not requested ones.

use rustix::buffer::SpareCapacity;

use crate::limits::READ_BYTES;

/// Bytes of requests, in order. Holds no memory while empty.
#[derive(Debug, Default)]
pub(crate) struct Input {
    bytes: Vec<u8>,
    /// Number of bytes at the front that were executed.
    start: usize,
}

impl Input {
    /// Bytes that are not executed yet.
    pub(crate) fn pending(&self) -> &[u8] {
        &self.bytes[self.start..]
    }

    /// Number of bytes that are not executed yet.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len() - self.start
    }

    /// Size of its allocation.
    pub(crate) fn allocated_bytes(&self) -> usize {
        self.bytes.capacity()
    }

    /// True if enough has arrived that the next bytes are worth being read in place.
    pub(crate) fn is_large(&self) -> bool {
        self.len() >= READ_BYTES
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Adds bytes; `false` when there is no memory for them.
    #[must_use]
    pub(crate) fn extend(&mut self, bytes: &[u8]) -> bool {
        let has_room = self.bytes.try_reserve(bytes.len()).is_ok() || self.grow_little(bytes.len());
        if has_room {
            self.bytes.extend_from_slice(bytes);
        }
        has_room
    }

    /// Makes room for `count` bytes when there is no memory for twice as much; returns true if
    /// there is room.
    #[cold]
    fn grow_little(&mut self, count: usize) -> bool {
        // In proportion, so that the copying stays linear in what arrives.
        self.bytes.try_reserve_exact(count.max(self.bytes.len() / 8)).is_ok()
    }

    /// Number of allocated bytes that nothing has arrived for yet.
    pub(crate) fn room_bytes(&self) -> usize {
        self.bytes.capacity() - self.bytes.len()
    }

    /// Memory that the next bytes of large input are read into: never empty, and none when there is
    /// no memory for more.
    pub(crate) fn spare(&mut self) -> Option<SpareCapacity<'_, u8>> {
        let has_room = self.room_bytes() > 0 || self.grow_little(READ_BYTES);
        has_room.then(|| rustix::buffer::spare_capacity(&mut self.bytes))
    }

    /// True if room must be made: there is little, and less than the known need.
    pub(crate) fn is_full(&self, wanted: usize) -> bool {
        self.room_bytes() < wanted.min(READ_BYTES / 4)
    }

    /// Makes room for the known need, but at most for as much as has arrived, one read, or
    /// `granted`.
    pub(crate) fn reserve(&mut self, wanted: usize, granted: usize) {
        if self.is_full(wanted) {
            let most = self.len().max(READ_BYTES).max(granted);
            // Without memory the read that needs it finds out.
            let _ = self.bytes.try_reserve_exact(wanted.clamp(READ_BYTES, most));
        }
    }

    /// Returns the room that nothing has arrived for.
    pub(crate) fn give_back(&mut self) {
        self.bytes.shrink_to_fit();
    }

    /// Drops the first `count` pending bytes, which were executed.
    pub(crate) fn consume(&mut self, count: usize) {
        self.start += count;
        if self.is_empty() {
            *self = Input::default();
        } else if self.start > READ_BYTES && self.start > self.len() {
            self.bytes.drain(..self.start);
            self.start = 0;
            // Keeps twice the remaining bytes, or two reads, of a large request's memory. Fewer
            // bytes are moved than were executed, as above.
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
    fn consumed_bytes_are_gone_and_later_ones_stay_in_order() {
        let all: Vec<u8> = (0..4 * READ_BYTES).map(|index| index as u8).collect();
        let mut input = Input::default();
        assert!(input.extend(&all));
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
    fn memory_follows_arrived_bytes_up_to_the_announced_size() {
        const ANNOUNCED: usize = 10_000_000;
        let mut input = Input::default();
        assert!(input.extend(&[0; READ_BYTES]));
        let (mut allocated, mut moves) = (0, 0);
        while input.len() < ANNOUNCED {
            let wanted = ANNOUNCED - input.len();
            input.reserve(wanted, 0);
            moves += usize::from(input.allocated_bytes() != allocated);
            allocated = input.allocated_bytes();
            assert!(allocated <= 2 * input.len(), "{allocated} for {}", input.len());
            assert!(input.extend(&vec![0; input.room_bytes().min(wanted).min(READ_BYTES)]));
        }
        assert!(allocated <= ANNOUNCED + READ_BYTES, "{allocated}");
        assert!(moves <= 9, "{moves}");
        input.reserve(usize::MAX, 1 << 20);
        assert!(input.room_bytes() >= READ_BYTES / 4);
        input.give_back();
        assert_eq!(input.allocated_bytes(), input.len());
    }
}
