//! Bytes to be sent, with payloads by reference between them.

use std::collections::VecDeque;

use bytes::{Buf, Bytes};

use super::reply::Protocol;
use crate::limits::SENT_BYTES_MAX;

/// A payload by reference: it stands before the byte `at` of the run of own bytes.
#[derive(Debug)]
pub(super) struct Shared {
    /// Counted from the first byte the buffer ever held, so that dropping sent bytes moves nothing.
    pub at: u64,
    pub payload: Bytes,
}

/// The replies of one connection that were not sent yet.
///
/// Nothing is allocated before the first append. Large payloads are inserted by reference with
/// [`bulk_shared`](ReplyBuffer::bulk_shared) and counted in full by [`len`](ReplyBuffer::len).
#[derive(Debug, Default)]
pub struct ReplyBuffer {
    pub(super) protocol: Protocol,
    pub(super) bytes: Vec<u8>,
    pub(super) shared: VecDeque<Shared>,
    /// The count of the first byte of `bytes`.
    pub(super) base: u64,
    sent_bytes: usize,
    pub(super) shared_bytes: usize,
}

/// A position in a [`ReplyBuffer`] to go back to. It lasts until bytes are sent.
#[derive(Clone, Copy, Debug)]
pub struct Mark {
    at: u64,
    shared_count: usize,
}

impl ReplyBuffer {
    /// An empty buffer for a client that speaks `protocol`.
    #[must_use]
    pub fn new(protocol: Protocol) -> ReplyBuffer {
        ReplyBuffer { protocol, ..ReplyBuffer::default() }
    }

    /// What the client speaks.
    #[inline]
    #[must_use]
    pub fn protocol(&self) -> Protocol {
        self.protocol
    }

    /// From here on the client speaks `protocol`.
    pub fn set_protocol(&mut self, protocol: Protocol) {
        self.protocol = protocol;
    }

    /// Bytes not sent yet, payloads by reference included.
    #[inline]
    #[must_use]
    pub fn len(&self) -> usize {
        self.bytes.len() - self.sent_bytes + self.shared_bytes
    }

    /// Whether everything was sent.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of memory the buffer itself holds, payloads by reference not included.
    #[must_use]
    pub fn allocated_bytes(&self) -> usize {
        self.bytes.capacity() + self.shared.capacity() * size_of::<Shared>()
    }

    /// The bytes not sent yet, in order, as the slices a `writev` wants. None is empty.
    pub fn segments(&self) -> Segments<'_> {
        Segments { buffer: self, at: self.sent_bytes, shared_index: 0, shared_is_next: false }
    }

    /// The bytes not sent yet when there is no payload by reference among them: the common case, one `write`.
    #[inline]
    #[must_use]
    pub fn as_single_segment(&self) -> Option<&[u8]> {
        self.shared.is_empty().then(|| &self.bytes[self.sent_bytes..])
    }

    /// All bytes not sent yet, copied into one. For tests and tools.
    #[must_use]
    pub fn to_vec(&self) -> Vec<u8> {
        self.segments().flatten().copied().collect()
    }

    /// Notes that the first `count` bytes were sent. Marks and open [`Deferred`](super::Deferred) lengths end here.
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
            self.shared_bytes -= taken;
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
        self.base += self.bytes.len() as u64;
        self.bytes.clear();
        if !self.shared.is_empty() {
            self.shared.clear();
        }
        self.sent_bytes = 0;
        self.shared_bytes = 0;
    }

    /// Gives back memory beyond `bytes_max` that past replies left allocated, if everything was sent.
    pub fn shrink(&mut self, bytes_max: usize) {
        if self.is_empty() {
            self.clear();
            self.bytes.shrink_to(bytes_max);
            self.shared.shrink_to(0);
        }
    }

    /// The end of what was appended so far.
    #[inline]
    #[must_use]
    pub fn mark(&self) -> Mark {
        Mark { at: self.end(), shared_count: self.shared.len() }
    }

    /// Takes back what was appended since `mark`.
    #[inline]
    pub fn truncate(&mut self, mark: Mark) {
        debug_assert!(
            mark.at >= self.base + self.sent_bytes as u64,
            "sent bytes cannot be taken back"
        );
        while self.shared.len() > mark.shared_count {
            if let Some(shared) = self.shared.pop_back() {
                self.shared_bytes -= shared.payload.len();
            }
        }
        self.bytes.truncate((mark.at - self.base) as usize);
    }

    /// Bytes appended since `mark`, payloads by reference included.
    #[must_use]
    pub fn appended_bytes(&self, mark: Mark) -> usize {
        let shared = self.shared.range(mark.shared_count..).map(|shared| shared.payload.len());
        (self.end() - mark.at) as usize + shared.sum::<usize>()
    }

    /// Moves everything not sent yet out of `other` to the end of this buffer: payloads by reference stay such.
    pub fn append(&mut self, other: &mut ReplyBuffer) {
        let shift = self.end();
        let from = other.base + other.sent_bytes as u64;
        self.bytes.extend_from_slice(&other.bytes[other.sent_bytes..]);
        self.shared_bytes += other.shared_bytes;
        let moved = other.shared.drain(..);
        self.shared.extend(moved.map(|shared| Shared { at: shared.at - from + shift, ..shared }));
        other.shared_bytes = 0;
        other.clear();
    }

    /// The count of the next own byte.
    #[inline]
    pub(super) fn end(&self) -> u64 {
        self.base + self.bytes.len() as u64
    }

    pub(super) fn insert_shared(&mut self, payload: Bytes) {
        if payload.is_empty() {
            return;
        }
        self.shared_bytes += payload.len();
        self.shared.push_back(Shared { at: self.end(), payload });
    }

    /// Cuts off sent bytes once they are many and the majority, so that the copying stays linear in what is sent.
    fn drop_sent(&mut self) {
        if self.sent_bytes >= SENT_BYTES_MAX && self.sent_bytes * 2 >= self.bytes.len() {
            self.bytes.drain(..self.sent_bytes);
            self.base += self.sent_bytes as u64;
            self.sent_bytes = 0;
        }
    }
}

/// The slices of a [`ReplyBuffer`] in the order they are sent.
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
            let end = shared.map_or(buffer.bytes.len(), |s| (s.at - buffer.base) as usize);
            self.shared_is_next = shared.is_some();
            let own = &buffer.bytes[self.at..end];
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
