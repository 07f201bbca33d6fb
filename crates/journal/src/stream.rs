//! Cursors over the stream.

use std::sync::Arc;

use crate::segment::{Segment, SegmentBytes};

/// Position of a reader in the stream. It keeps everything behind it in memory, so a reader that
/// may be late has to be watched: [`Cursor::offset`] against the end of the stream.
///
/// A copy of a cursor reads the same once more, as a backlog does.
#[derive(Clone, Debug)]
pub struct Cursor {
    segment: Arc<Segment>,
    position: usize,
}

impl Cursor {
    pub(crate) fn at_end_of(segment: &Arc<Segment>) -> Cursor {
        Cursor { segment: Arc::clone(segment), position: segment.length() }
    }

    /// Offset of the next byte that it reads.
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.segment.start() + self.position as u64
    }

    /// Takes the bytes that follow in one segment; none at the end of the stream. Does not block.
    pub fn read(&mut self) -> Option<SegmentBytes> {
        loop {
            // The next segment first: with one, the length that is loaded then is final.
            let next = self.segment.next().cloned();
            let length = self.segment.length();
            if self.position < length {
                let bytes = SegmentBytes::new(&self.segment, self.position..length);
                self.position = length;
                return Some(bytes);
            }
            self.segment = next?;
            self.position = 0;
        }
    }

    /// As [`read`](Self::read), but not beyond an offset of the stream.
    pub fn read_until(&mut self, end: u64) -> Option<SegmentBytes> {
        let mut ahead = self.clone();
        let bytes = ahead.read()?;
        let from = ahead.offset() - bytes.len() as u64;
        let count =
            usize::try_from(end.saturating_sub(from)).unwrap_or(usize::MAX).min(bytes.len());
        if count == 0 {
            return None;
        }
        let position = ahead.position - bytes.len();
        self.segment = ahead.segment;
        self.position = position + count;
        Some(SegmentBytes::new(&self.segment, position..position + count))
    }
}
