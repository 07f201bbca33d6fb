//! Segment: a piece of the stream that is written once, front to back, and read meanwhile.
//!
//! One writer appends; readers take the bytes that were there when they looked. A byte is never
//! changed once `length` covers it, so readers need no lock. Segments form a list, each with a
//! reference to the next one: what no cursor can reach any more is freed.
#![allow(unsafe_code)]

use std::fmt;
use std::mem::MaybeUninit;
use std::ops::{Deref, Range};
use std::ptr::NonNull;
use std::sync::{Arc, OnceLock};

use crate::primitive::{AtomicUsize, Ordering};

/// A piece of the stream.
pub(crate) struct Segment {
    /// Offset in the stream of its first byte.
    start: u64,
    /// `capacity` bytes, of which `length` are initialized; owned.
    bytes: NonNull<MaybeUninit<u8>>,
    capacity: usize,
    length: AtomicUsize,
    next: OnceLock<Arc<Segment>>,
}

// SAFETY: the bytes are owned by the segment. Those below `length` never change, those behind it
// are touched by the one thread that has the `SegmentWriter`.
unsafe impl Send for Segment {}
// SAFETY: as above.
unsafe impl Sync for Segment {}

impl Segment {
    fn of_boxed(start: u64, bytes: Box<[MaybeUninit<u8>]>, length: usize) -> Segment {
        let capacity = bytes.len();
        let bytes = NonNull::from(Box::leak(bytes)).cast();
        Segment { start, bytes, capacity, length: AtomicUsize::new(length), next: OnceLock::new() }
    }

    /// A segment with room for `capacity` bytes.
    fn with_capacity(start: u64, capacity: usize) -> Segment {
        Segment::of_boxed(start, Box::new_uninit_slice(capacity), 0)
    }

    /// A segment of these bytes alone.
    fn full(start: u64, bytes: Box<[u8]>) -> Segment {
        let length = bytes.len();
        let bytes = Box::into_raw(bytes) as *mut [MaybeUninit<u8>];
        // SAFETY: it comes from `Box::into_raw`, and an initialized byte may be taken for one that
        // need not be.
        let bytes = unsafe { Box::from_raw(bytes) };
        Segment::of_boxed(start, bytes, length)
    }

    pub(crate) fn start(&self) -> u64 {
        self.start
    }

    pub(crate) fn length(&self) -> usize {
        // Acquire: pairs with the Release in `SegmentWriter::append`; the bytes are visible.
        self.length.load(Ordering::Acquire)
    }

    pub(crate) fn next(&self) -> Option<&Arc<Segment>> {
        self.next.get()
    }

    /// Bytes of a range that `length` has covered.
    fn read(&self, range: Range<usize>) -> &[u8] {
        assert!(range.start <= range.end && range.end <= self.length());
        // SAFETY: within the allocation, by the assertion.
        let from = unsafe { self.bytes.add(range.start) };
        // SAFETY: initialized below `length`, which never shrinks, and never changed again; freed
        // with the segment, which is borrowed.
        unsafe { std::slice::from_raw_parts(from.as_ptr().cast(), range.end - range.start) }
    }
}

impl Drop for Segment {
    fn drop(&mut self) {
        let bytes = NonNull::slice_from_raw_parts(self.bytes, self.capacity);
        // SAFETY: leaked from a box of this length in `of_boxed`, and nobody refers to it.
        drop(unsafe { Box::from_raw(bytes.as_ptr()) });
        // A list is freed one by one: dropping each within the one before it would take a stack
        // frame for every segment.
        let mut next = self.next.take();
        while let Some(segment) = next {
            next = Arc::into_inner(segment).and_then(|mut segment| segment.next.take());
        }
    }
}

impl fmt::Debug for Segment {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Segment { start, capacity, .. } = self;
        formatter
            .debug_struct("Segment")
            .field("start", start)
            .field("capacity", capacity)
            .field("length", &self.length())
            .finish_non_exhaustive()
    }
}

/// The right to append to the last segment of a list. There is one for each list.
#[derive(Debug)]
pub(crate) struct SegmentWriter {
    last: Arc<Segment>,
    /// Capacity of the segments that follow.
    capacity: usize,
}

impl SegmentWriter {
    /// A list that begins at an offset.
    pub(crate) fn new(start: u64, capacity: usize) -> SegmentWriter {
        SegmentWriter { last: Arc::new(Segment::with_capacity(start, capacity)), capacity }
    }

    /// The last segment.
    pub(crate) fn last(&self) -> &Arc<Segment> {
        &self.last
    }

    /// Offset behind the last byte.
    pub(crate) fn end(&self) -> u64 {
        self.last.start + self.last.length() as u64
    }

    /// Appends bytes; they may be spread over several segments.
    pub(crate) fn append(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            if self.last.length() == self.last.capacity {
                self.link(Segment::with_capacity(self.end(), self.capacity));
            }
            let length = self.last.length();
            let count = bytes.len().min(self.last.capacity - length);
            // SAFETY: `length` is within the allocation.
            let to = unsafe { self.last.bytes.add(length) };
            // SAFETY: `count` bytes fit behind `length`. No reader takes them before the store
            // below, and this is the one writer.
            unsafe { to.as_ptr().cast::<u8>().copy_from_nonoverlapping(bytes.as_ptr(), count) };
            // Release: pairs with the Acquire in `Segment::length`.
            self.last.length.store(length + count, Ordering::Release);
            bytes = &bytes[count..];
        }
    }

    /// Appends bytes as a segment of their own.
    pub(crate) fn append_boxed(&mut self, bytes: Box<[u8]>) {
        self.link(Segment::full(self.end(), bytes));
    }

    fn link(&mut self, segment: Segment) {
        let segment = Arc::new(segment);
        // Nothing is appended to a segment that has a next one: a reader that sees `next` finds
        // `length` final.
        let linked = self.last.next.set(Arc::clone(&segment));
        assert!(linked.is_ok(), "a list has one writer");
        self.last = segment;
    }
}

/// Some bytes of the stream. They stay readable for as long as the value lives.
#[derive(Clone, Debug)]
pub struct SegmentBytes {
    segment: Arc<Segment>,
    range: Range<usize>,
}

impl SegmentBytes {
    pub(crate) fn new(segment: &Arc<Segment>, range: Range<usize>) -> SegmentBytes {
        SegmentBytes { segment: Arc::clone(segment), range }
    }
}

impl Deref for SegmentBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.segment.read(self.range.clone())
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn freeing_a_long_list_takes_no_stack() {
        let mut writer = SegmentWriter::new(0, 1);
        let first = Arc::clone(writer.last());
        for _ in 0..300_000 {
            writer.append(b"x");
        }
        assert_eq!(writer.end(), 300_000);
        drop(writer);
        drop(first);
    }
}

#[cfg(all(test, loom))]
mod model {
    use loom::thread;

    use super::*;
    use crate::stream::Cursor;

    /// A reader beside the writer sees the bytes in order, each once, across segments.
    #[test]
    fn a_reader_beside_the_writer_sees_a_prefix() {
        loom::model(|| {
            let mut writer = SegmentWriter::new(0, 2);
            let mut cursor = Cursor::at_end_of(writer.last());
            let writing = thread::spawn(move || {
                for bytes in [b"ab", b"cd"] {
                    writer.append(bytes);
                }
                writer
            });
            let mut seen = Vec::new();
            for _ in 0..2 {
                if let Some(bytes) = cursor.read() {
                    seen.extend_from_slice(&bytes);
                }
            }
            assert!(b"abcd".starts_with(&seen));
            let _writer = writing.join().expect("no panic");
            while let Some(bytes) = cursor.read() {
                seen.extend_from_slice(&bytes);
            }
            assert_eq!(seen, b"abcd");
        });
    }
}
