//! Run: the bytes of a reply buffer, a vector whose growth may fail.
//!
//! The length of a reply depends on the client's request, so a reply that does not fit into memory
//! must not end the process. An append that finds no memory is left out and the run is marked: its
//! length counts as [`FAILED_BYTES`] more from then on. Every check of a length that decides
//! whether a turn ends or a client is cut off thereby leads to the check of the mark, and appending
//! costs only the comparison with the capacity that a vector makes anyway.

use super::header::write_header;

/// Length that a run claims beyond its bytes once an append found no memory. No sum of real lengths
/// reaches it.
pub(super) const FAILED_BYTES: usize = 1 << 62;

/// Bytes of the longest header: its kind, 20 characters and the line's end.
const HEADER_BYTES_MAX: usize = 1 + 20 + 2;

/// Bytes in order, and the number of those that are inserted between them by reference.
#[derive(Debug, Default)]
pub(super) struct Run {
    pub(super) bytes: Vec<u8>,
    /// Bytes of payloads by reference, plus [`FAILED_BYTES`] when an append found no memory.
    pub(super) shared_bytes: usize,
    /// Number of bytes at the time of the first failed append.
    failed_length: usize,
}

impl Run {
    #[inline]
    pub(super) fn has_failed(&self) -> bool {
        self.shared_bytes >= FAILED_BYTES
    }

    /// Marks the run: appended bytes are missing from here on.
    #[cold]
    pub(super) fn fail(&mut self) {
        if !self.has_failed() {
            self.shared_bytes += FAILED_BYTES;
            self.failed_length = self.bytes.len();
        }
    }

    /// Takes the mark back; to be called when the incomplete part was taken back too.
    pub(super) fn recover(&mut self) {
        if self.has_failed() {
            self.shared_bytes -= FAILED_BYTES;
        }
    }

    /// Makes room for `count` bytes more; false if there is no memory.
    #[inline]
    pub(super) fn reserve(&mut self, count: usize) -> bool {
        self.bytes.capacity() - self.bytes.len() >= count || self.grow(count)
    }

    #[cold]
    #[inline(never)]
    fn grow(&mut self, count: usize) -> bool {
        let grown = self.try_reserve(count);
        if !grown {
            self.fail();
        }
        grown
    }

    /// As [`reserve`](Run::reserve), but leaves no mark when there is no room: nothing is missing
    /// yet.
    pub(super) fn try_reserve(&mut self, count: usize) -> bool {
        // Twice the size if there is so much, or else little more than is needed.
        !self.has_failed()
            && (self.bytes.try_reserve(count).is_ok()
                || self.bytes.try_reserve_exact(count + self.bytes.len() / 16).is_ok())
    }

    #[inline]
    pub(super) fn push(&mut self, byte: u8) {
        if self.reserve(1) {
            self.bytes.push(byte);
        }
    }

    #[inline]
    pub(super) fn append(&mut self, bytes: &[u8]) {
        if self.reserve(bytes.len()) {
            self.bytes.extend_from_slice(bytes);
        }
    }

    /// Appends `<kind><value>\r\n`.
    #[inline]
    pub(super) fn header(&mut self, kind: u8, value: i64) {
        if self.reserve(HEADER_BYTES_MAX) {
            write_header(&mut self.bytes, kind, value);
        }
    }

    /// Drops the bytes behind the first `length`, and with them the mark if all failed appends were
    /// behind them.
    #[inline]
    pub(super) fn truncate(&mut self, length: usize) {
        // Bytes appended behind a failure may reach the length that the run had before it.
        if self.has_failed() && length < self.failed_length {
            self.recover();
        }
        self.bytes.truncate(length);
    }
}
