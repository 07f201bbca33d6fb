//! Reply buffer: bytes to be sent, with payloads by reference between them.

use std::collections::{TryReserveError, VecDeque};

use bytes::{Buf, Bytes};

use super::reply::Protocol;
use super::run::Run;
use crate::limits::{MOVED_BYTES_MIN, SENT_BYTES_MAX};

/// Payload by reference; its place is before the byte `at` of the run of own bytes.
#[derive(Debug)]
pub(super) struct Shared {
    /// Counted from the first byte the buffer ever held, so that dropping sent bytes moves nothing.
    pub at: u64,
    pub payload: Bytes,
}

/// Replies of one connection that were not sent yet.
///
/// Nothing is allocated before the first append. An append that finds no memory leaves a mark
/// instead of ending the process: [`has_failed`](ReplyBuffer::has_failed). Large payloads are
/// inserted by reference with [`bulk_shared`](ReplyBuffer::bulk_shared) and counted in full by
/// [`len`](ReplyBuffer::len).
#[derive(Debug, Default)]
pub struct ReplyBuffer {
    pub(super) protocol: Protocol,
    pub(super) run: Run,
    pub(super) shared: VecDeque<Shared>,
    /// Number, in the buffer's life, of the first byte of `run.bytes`.
    pub(super) base: u64,
    sent_bytes: usize,
}

/// Position in a [`ReplyBuffer`] to go back to. Valid until bytes are sent.
#[derive(Clone, Copy, Debug)]
pub struct Mark {
    at: u64,
    shared_count: usize,
}

impl ReplyBuffer {
    /// Empty buffer for a client that speaks `protocol`.
    #[must_use]
    pub fn new(protocol: Protocol) -> ReplyBuffer {
        ReplyBuffer { protocol, ..ReplyBuffer::default() }
    }

    /// Protocol of the client.
    #[inline]
    #[must_use]
    pub fn protocol(&self) -> Protocol {
        self.protocol
    }

    /// Sets the client's protocol for the replies that follow.
    pub fn set_protocol(&mut self, protocol: Protocol) {
        self.protocol = protocol;
    }

    /// Number of bytes not sent yet, payloads by reference included; more than any memory holds
    /// after a failure, see [`has_failed`](ReplyBuffer::has_failed).
    #[inline]
    #[must_use]
    pub fn len(&self) -> usize {
        self.run.bytes.len() - self.sent_bytes + self.run.shared_bytes
    }

    /// True if everything was sent.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of memory of the buffer itself, payloads by reference not included.
    #[must_use]
    pub fn allocated_bytes(&self) -> usize {
        self.run.bytes.capacity() + self.shared.capacity() * size_of::<Shared>()
    }

    /// Number of parts of what is not sent yet: payloads by reference, and one for own bytes.
    #[must_use]
    pub fn part_count(&self) -> usize {
        self.shared.len() + usize::from(self.run.bytes.len() > self.sent_bytes)
    }

    /// Bytes not sent yet, in order, as slices for `writev`. None is empty.
    pub fn segments(&self) -> Segments<'_> {
        Segments { buffer: self, at: self.sent_bytes, shared_index: 0, shared_is_next: false }
    }

    /// Bytes not sent yet when there is no payload by reference among them: the common case, one
    /// `write`.
    #[inline]
    #[must_use]
    pub fn as_single_segment(&self) -> Option<&[u8]> {
        self.shared.is_empty().then(|| &self.run.bytes[self.sent_bytes..])
    }

    /// All bytes not sent yet, copied into one vector.
    ///
    /// # Errors
    ///
    /// There is no memory for them.
    pub fn try_to_vec(&self) -> Result<Vec<u8>, TryReserveError> {
        let mut all = Vec::new();
        all.try_reserve_exact(self.len())?;
        self.segments().for_each(|segment| all.extend_from_slice(segment));
        Ok(all)
    }

    /// As [`ReplyBuffer::try_to_vec`], for tests and tools: without memory the process ends.
    #[must_use]
    pub fn to_vec(&self) -> Vec<u8> {
        self.segments().flatten().copied().collect()
    }

    /// Drops the first `count` bytes, which were sent. Marks and open [`Deferred`](super::Deferred)
    /// lengths end here.
    ///
    /// # Panics
    /// When there are fewer bytes than that.
    #[inline]
    pub fn advance(&mut self, count: usize) {
        if count == self.len() {
            self.clear();
        } else {
            self.advance_partly(count);
        }
    }

    fn advance_partly(&mut self, count: usize) {
        assert!(count < self.len(), "more bytes sent than there were");
        let mut rest = count;
        while let Some(shared) = self.shared.front_mut() {
            let own = (shared.at - self.base) as usize - self.sent_bytes;
            if rest < own {
                break;
            }
            self.sent_bytes += own;
            rest -= own;
            let taken = rest.min(shared.payload.len());
            shared.payload.advance(taken);
            self.run.shared_bytes -= taken;
            rest -= taken;
            if !shared.payload.is_empty() {
                return self.drop_sent();
            }
            self.shared.pop_front();
        }
        self.sent_bytes += rest;
        self.drop_sent();
    }

    /// Drops everything; the memory stays for the next replies.
    #[inline]
    pub fn clear(&mut self) {
        self.base += self.run.bytes.len() as u64;
        self.run.bytes.clear();
        if !self.shared.is_empty() {
            self.shared.clear();
        }
        self.sent_bytes = 0;
        self.run.shared_bytes = 0;
    }

    /// Gives back memory beyond `bytes_max` that past replies left allocated, if everything was
    /// sent.
    pub fn shrink(&mut self, bytes_max: usize) {
        if self.is_empty() {
            self.clear();
            self.run.bytes.shrink_to(bytes_max);
            self.shared.shrink_to(0);
        }
    }

    /// The present end, to go back to.
    #[inline]
    #[must_use]
    pub fn mark(&self) -> Mark {
        Mark { at: self.end(), shared_count: self.shared.len() }
    }

    /// Takes back the bytes appended since `mark`.
    #[inline]
    pub fn truncate(&mut self, mark: Mark) {
        debug_assert!(
            mark.at >= self.base + self.sent_bytes as u64,
            "sent bytes cannot be taken back"
        );
        while self.shared.len() > mark.shared_count {
            if let Some(shared) = self.shared.pop_back() {
                self.run.shared_bytes -= shared.payload.len();
            }
        }
        self.run.truncate((mark.at - self.base) as usize);
    }

    /// True if an append found no memory. [`len`](ReplyBuffer::len) is beyond any real one then,
    /// and the incomplete reply must not be sent: it is to be taken back, or the connection closed.
    #[inline]
    #[must_use]
    pub fn has_failed(&self) -> bool {
        self.run.has_failed()
    }

    /// Makes room for `count` bytes more. Returns true if there is room now: what is appended up to
    /// that finds memory. Leaves no mark.
    pub fn try_reserve(&mut self, count: usize) -> bool {
        self.run.try_reserve(count)
    }

    /// Takes back the bytes appended since there were `len` bytes and no failure, and a failure
    /// since. The room for them stays.
    #[cold]
    pub fn recover(&mut self, len: usize) {
        let mut shared_bytes = 0;
        let mut shared_count = 0;
        let own_start = self.base + self.sent_bytes as u64;
        for shared in &self.shared {
            if (shared.at - own_start) as usize + shared_bytes >= len {
                break;
            }
            shared_bytes += shared.payload.len();
            shared_count += 1;
        }
        self.run.recover();
        self.truncate(Mark { at: own_start + (len - shared_bytes) as u64, shared_count });
    }

    /// Bytes appended since `mark`, payloads by reference included.
    #[must_use]
    pub fn appended_bytes(&self, mark: Mark) -> usize {
        let shared = self.shared.range(mark.shared_count..).map(|shared| shared.payload.len());
        (self.end() - mark.at) as usize + shared.sum::<usize>()
    }

    /// Moves everything not sent yet out of `other` to the end of this buffer: payloads by
    /// reference stay such.
    ///
    /// A long `other` is moved with its memory when this buffer is empty: a copy would take as much
    /// memory again.
    pub fn append(&mut self, other: &mut ReplyBuffer) {
        if self.is_empty() && other.bytes_left() >= MOVED_BYTES_MIN {
            let protocol = self.protocol;
            self.clear();
            std::mem::swap(self, other);
            other.protocol = std::mem::replace(&mut self.protocol, protocol);
            return;
        }
        let shift = self.end();
        let from = other.base + other.sent_bytes as u64;
        self.run.append(&other.run.bytes[other.sent_bytes..]);
        let is_whole = !self.run.has_failed()
            && !other.run.has_failed()
            && self.shared.try_reserve(other.shared.len()).is_ok();
        if !is_whole {
            self.run.fail();
            return other.clear();
        }
        self.run.shared_bytes += other.run.shared_bytes;
        let moved = other.shared.drain(..);
        self.shared.extend(moved.map(|shared| Shared { at: shared.at - from + shift, ..shared }));
        other.run.shared_bytes = 0;
        other.clear();
    }

    /// Own bytes not sent yet.
    fn bytes_left(&self) -> usize {
        self.run.bytes.len() - self.sent_bytes
    }

    /// Number, in the buffer's life, of the next own byte.
    #[inline]
    pub(super) fn end(&self) -> u64 {
        self.base + self.run.bytes.len() as u64
    }

    pub(super) fn insert_shared(&mut self, payload: Bytes) {
        if payload.is_empty() {
            return;
        }
        if self.shared.try_reserve(1).is_err() {
            return self.run.fail();
        }
        self.run.shared_bytes += payload.len();
        self.shared.push_back(Shared { at: self.end(), payload });
    }

    /// Cuts off sent bytes once they are many and the majority, so that the copying stays linear in
    /// the bytes sent.
    fn drop_sent(&mut self) {
        if self.sent_bytes >= SENT_BYTES_MAX && self.sent_bytes * 2 >= self.run.bytes.len() {
            self.run.bytes.drain(..self.sent_bytes);
            self.base += self.sent_bytes as u64;
            self.sent_bytes = 0;
        }
    }
}

/// Slices of a [`ReplyBuffer`] in the order they are sent.
#[derive(Clone, Debug)]
pub struct Segments<'a> {
    buffer: &'a ReplyBuffer,
    at: usize,
    shared_index: usize,
    shared_is_next: bool,
}

impl<'a> Iterator for Segments<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let buffer = self.buffer;
        loop {
            let shared = buffer.shared.get(self.shared_index);
            if self.shared_is_next {
                self.shared_is_next = false;
                self.shared_index += 1;
                return shared.map(|shared| &shared.payload[..]);
            }
            let end = shared.map_or(buffer.run.bytes.len(), |s| (s.at - buffer.base) as usize);
            self.shared_is_next = shared.is_some();
            let own = &buffer.run.bytes[self.at..end];
            self.at = end;
            if !own.is_empty() {
                return Some(own);
            }
            if !self.shared_is_next {
                return None;
            }
        }
    }
}
