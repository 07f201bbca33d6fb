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
//!
//! A large last argument is received into memory of its own once a part of it has arrived. A value
//! made of it takes this memory over, so that a string of 64 MB is neither moved while it grows nor
//! copied in one go beside other clients. Memory that nothing has arrived for is address space
//! alone, and is not counted.

use std::mem::MaybeUninit;
use std::ops::Range;

use rustix::buffer::SpareCapacity;
use rustix::io::Errno;
use tidemill_resp::request::{LargeArgument, SharedBytes};
use tidemill_store::NewString;

use crate::limits::{
    LARGE_ARGUMENT_ARRIVED_PART, LARGE_ARGUMENT_BYTES_MIN, LARGE_ARGUMENT_READ_BYTES, READ_BYTES,
};

/// Bytes of requests, in order. Holds no memory while empty.
#[derive(Debug, Default)]
pub(crate) struct Input {
    bytes: Vec<u8>,
    /// Number of bytes at the front that were executed.
    start: usize,
    /// Length of `bytes` at which the known need of a request is met; 0 when none is known.
    expected_len: usize,
    /// Last argument of the first request, if it is not in `bytes`.
    large: Option<Box<Large>>,
}

/// Argument in memory of its own.
#[derive(Debug)]
struct Large {
    /// Position at which it would begin, counted from the first byte that is not executed.
    position: usize,
    bytes: LargeBytes,
}

#[derive(Debug)]
enum LargeBytes {
    Arriving(NewString),
    Whole(SharedBytes),
}

impl Large {
    fn len(&self) -> usize {
        match &self.bytes {
            LargeBytes::Arriving(string) => string.written_bytes(),
            LargeBytes::Whole(bytes) => bytes.slice.len(),
        }
    }
}

impl Input {
    /// Bytes that are not executed yet.
    pub(crate) fn pending(&self) -> &[u8] {
        &self.bytes[self.start..]
    }

    /// The first request's argument that is not among the pending bytes, once it is whole.
    pub(crate) fn large(&self) -> Option<LargeArgument<'_>> {
        let large = self.large.as_deref()?;
        match &large.bytes {
            LargeBytes::Arriving(_) => None,
            LargeBytes::Whole(bytes) => Some(LargeArgument { position: large.position, bytes }),
        }
    }

    /// Number of bytes that are not executed yet.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len() - self.start + self.large.as_ref().map_or(0, |large| large.len())
    }

    /// Number of those bytes that precede an argument in memory of its own, in the same request.
    pub(crate) fn head_bytes(&self) -> usize {
        self.large.as_ref().map_or(0, |large| large.position)
    }

    /// Size of its memory.
    pub(crate) fn allocated_bytes(&self) -> usize {
        self.bytes.capacity() + self.large.as_ref().map_or(0, |large| large.len())
    }

    /// True if enough has arrived that the next bytes are worth being read in place.
    pub(crate) fn is_large(&self) -> bool {
        self.bytes.len() - self.start >= READ_BYTES
    }

    /// True if a part of a large argument is missing, which the next bytes belong to.
    pub(crate) fn awaits_large(&self) -> bool {
        matches!(self.large.as_deref(), Some(Large { bytes: LargeBytes::Arriving(_), .. }))
    }

    /// Receives the argument in this place among the pending bytes, which ends behind them, into
    /// memory of its own, if enough of it has arrived. Without memory for it nothing changes.
    pub(crate) fn begin_large(&mut self, place: Range<usize>) {
        let arrived_bytes = self.pending().len().saturating_sub(place.start);
        if self.large.is_some()
            || place.len() < LARGE_ARGUMENT_BYTES_MIN
            || arrived_bytes.saturating_mul(LARGE_ARGUMENT_ARRIVED_PART) < place.len()
            || place.end.saturating_sub(self.pending().len()) < READ_BYTES
        {
            return;
        }
        let Some(mut string) = NewString::with_length(place.len()) else { return };
        string.append(&self.pending()[place.start..]);
        self.expected_len = 0;
        self.bytes.truncate(self.start + place.start);
        self.bytes.drain(..self.start);
        self.bytes.shrink_to_fit();
        self.start = 0;
        let bytes = LargeBytes::Arriving(string);
        self.large = Some(Box::new(Large { position: place.start, bytes }));
    }

    /// Reads a part of the large argument by `read`, if one is missing; returns the number of
    /// bytes.
    ///
    /// # Errors
    ///
    /// Those of `read`.
    pub(crate) fn read_large(
        &mut self,
        read: impl for<'m> FnOnce(&'m mut [MaybeUninit<u8>]) -> Result<&'m mut [u8], Errno>,
    ) -> Result<usize, Errno> {
        let Some(Large { bytes: LargeBytes::Arriving(string), .. }) = self.large.as_deref_mut()
        else {
            return Ok(0);
        };
        let count = string.append_by(LARGE_ARGUMENT_READ_BYTES, read)?;
        self.finish_large();
        Ok(count)
    }

    /// Adds to the large argument what is missing of it; returns the bytes behind it.
    fn extend_large<'b>(&mut self, bytes: &'b [u8]) -> &'b [u8] {
        let Some(Large { bytes: LargeBytes::Arriving(string), .. }) = self.large.as_deref_mut()
        else {
            return bytes;
        };
        let (of_large, behind) = bytes.split_at(bytes.len().min(string.missing_bytes()));
        string.append(of_large);
        self.finish_large();
        behind
    }

    /// Makes the large argument one that can be owned by others, if nothing of it is missing.
    fn finish_large(&mut self) {
        self.large = self.large.take().map(|mut large| {
            large.bytes = match large.bytes {
                LargeBytes::Arriving(string) if string.missing_bytes() == 0 => {
                    LargeBytes::Whole(string.finish())
                }
                bytes => bytes,
            };
            large
        });
    }

    /// True if there are none. A large argument is begun with some.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.bytes.len() == self.start && self.large.is_none()
    }

    /// Adds bytes; `false` when there is no memory for them.
    #[must_use]
    pub(crate) fn extend(&mut self, bytes: &[u8]) -> bool {
        let bytes = self.extend_large(bytes);
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
    /// no memory for more. Room that was given back is made again for what is still expected.
    pub(crate) fn spare(&mut self) -> Option<SpareCapacity<'_, u8>> {
        let expected = self.expected_len.saturating_sub(self.bytes.len());
        let expected = expected.min(self.len().max(READ_BYTES));
        let has_room = self.room_bytes() > 0
            || (expected > 0 && self.bytes.try_reserve_exact(expected).is_ok())
            || self.grow_little(READ_BYTES);
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
            self.expected_len = self.bytes.len().saturating_add(wanted);
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
        if count > 0 {
            // They were of the first request.
            (self.large, self.expected_len) = (None, 0);
        }
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

    #[test]
    fn room_that_was_given_back_is_made_again_as_large_as_the_known_need() {
        const ANNOUNCED: usize = 1 << 20;
        for missing in [1, 7_000, READ_BYTES, ANNOUNCED - READ_BYTES] {
            let mut input = Input::default();
            assert!(input.extend(&vec![0; ANNOUNCED - missing]));
            input.reserve(missing, ANNOUNCED);
            input.give_back();
            assert!(input.spare().is_some());
            let room = missing.min(input.len());
            assert_eq!(input.allocated_bytes(), input.len() + room, "{missing} bytes are missing");
        }
        // Of another request nothing is known.
        let mut input = Input::default();
        assert!(input.extend(&[0; READ_BYTES]));
        input.reserve(ANNOUNCED, 0);
        input.consume(1);
        input.give_back();
        assert!(input.spare().is_some());
        assert!(input.room_bytes() <= READ_BYTES, "{}", input.room_bytes());
    }

    const LARGE: usize = 5_000_000;
    const HEAD: &[u8] = b"*1\r\n$5000000\r\n";

    /// Input of a request of one large argument, of which `arrived` bytes have arrived.
    fn with_large(arrived: usize) -> (Input, Vec<u8>) {
        let bytes: Vec<u8> = (0..LARGE).map(|index| (index % 251) as u8).collect();
        let mut input = Input::default();
        assert!(input.extend(b"PING\r\n") && input.extend(HEAD));
        input.consume(6);
        assert!(input.extend(&bytes[..arrived]));
        input.begin_large(HEAD.len()..HEAD.len() + LARGE);
        (input, bytes)
    }

    #[test]
    fn large_argument_goes_into_memory_of_its_own() {
        let first = LARGE.div_ceil(LARGE_ARGUMENT_ARRIVED_PART);
        let (mut input, bytes) = with_large(first);
        assert!(input.awaits_large() && input.large().is_none() && !input.is_large());
        assert_eq!((input.pending(), input.len()), (HEAD, HEAD.len() + first));
        assert_eq!(input.head_bytes(), HEAD.len());
        assert_eq!(input.allocated_bytes(), input.len(), "what is announced takes nothing");
        assert!(input.extend(&bytes[first..first + 100]));
        let mut arrived = first + 100;
        assert_eq!(input.read_large(|_| Err(Errno::AGAIN)), Err(Errno::AGAIN));
        while arrived < LARGE - 7 {
            let count = input.read_large(|unwritten| {
                let count = unwritten.len().min(LARGE - 7 - arrived);
                Ok(unwritten[..count].write_copy_of_slice(&bytes[arrived..arrived + count]))
            });
            arrived += count.expect("it was written");
            assert_eq!((input.len(), input.awaits_large()), (HEAD.len() + arrived, true));
        }
        // Bytes behind it belong to the requests.
        assert!(input.extend(&bytes[arrived..]) && input.extend(b"\r\nPING\r\n"));
        assert_eq!(input.pending(), [HEAD, b"\r\nPING\r\n"].concat());
        let large = input.large().expect("it is whole");
        assert_eq!((large.position, &large.bytes.slice), (HEAD.len(), &bytes[..]));
        input.consume(0);
        assert!(input.large().is_some(), "its request was not executed");
        input.consume(HEAD.len() + 2);
        assert!(input.large().is_none());
        assert_eq!((input.pending(), input.len()), (&b"PING\r\n"[..], 6));
        assert_eq!(input.head_bytes(), 0);
        input.consume(6);
        assert_eq!((input.is_empty(), input.allocated_bytes()), (true, 0));
    }

    #[test]
    fn end_of_a_large_argument_and_the_bytes_behind_it_may_come_at_once() {
        let (mut input, bytes) = with_large(LARGE - READ_BYTES);
        assert!(input.extend(&[&bytes[LARGE - READ_BYTES..], b"\r\n"].concat()));
        assert_eq!(input.pending(), [HEAD, b"\r\n"].concat());
        assert_eq!(input.large().expect("it is whole").bytes.slice, bytes);
    }

    #[test]
    fn little_of_an_argument_is_no_reason_for_its_memory() {
        for arrived in [0, LARGE / LARGE_ARGUMENT_ARRIVED_PART - 1, LARGE - READ_BYTES + 1] {
            let (input, bytes) = with_large(arrived);
            assert!(!input.awaits_large(), "{arrived} bytes");
            assert_eq!(input.pending(), [HEAD, &bytes[..arrived]].concat());
        }
        let mut input = Input::default();
        assert!(input.extend(&[0; READ_BYTES]));
        input.begin_large(10..LARGE_ARGUMENT_BYTES_MIN + 9);
        assert!(!input.awaits_large(), "an argument that is not large");
        let huge = isize::MAX as usize / 2;
        input.begin_large(READ_BYTES..huge);
        assert!(!input.awaits_large(), "nothing of it has arrived");
    }
}
