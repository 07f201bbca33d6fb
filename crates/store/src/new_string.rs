//! Construction of a long string in its final memory.
//!
//! A command that makes a string of millions of bytes (`BITOP`) would otherwise fill a buffer and
//! have it copied: twice the memory, and all of it twice through the cache.
#![allow(unsafe_code)]

use std::mem::MaybeUninit;

use triomphe::{Arc, HeaderSlice, HeaderWithLength, ThinArc, UniqueArc};

use crate::entry::SharedString;

type Unwritten = UniqueArc<HeaderSlice<HeaderWithLength<()>, [MaybeUninit<u8>]>>;

/// String of known length, written from its first byte to its last. It becomes a value by
/// [`NewValue::Shared`](crate::NewValue::Shared).
pub struct NewString {
    memory: Unwritten,
    written_bytes: usize,
}

impl NewString {
    /// String of `length` bytes yet to be written; `None` if there is no memory for it.
    #[must_use]
    pub fn with_length(length: usize) -> Option<NewString> {
        let header = HeaderWithLength::new((), length);
        let memory = Unwritten::try_from_header_and_uninit_slice(header, length).ok()?;
        Some(NewString { memory, written_bytes: 0 })
    }

    /// Appends bytes behind those written so far.
    ///
    /// # Panics
    ///
    /// When the string would become longer than announced.
    pub fn append(&mut self, bytes: &[u8]) {
        let end = self.written_bytes + bytes.len();
        self.memory.slice[self.written_bytes..end].write_copy_of_slice(bytes);
        self.written_bytes = end;
    }

    /// Appends what `write` writes to the beginning of the memory it is given, which is all that is
    /// left and at most `bytes_max`, and returns. Returns the number of these bytes.
    ///
    /// # Errors
    ///
    /// Those of `write`.
    ///
    /// # Panics
    ///
    /// When it returns something else.
    pub fn append_by<E>(
        &mut self,
        bytes_max: usize,
        write: impl for<'m> FnOnce(&'m mut [MaybeUninit<u8>]) -> Result<&'m mut [u8], E>,
    ) -> Result<usize, E> {
        let unwritten = &mut self.memory.slice[self.written_bytes..];
        let unwritten_bytes = unwritten.len().min(bytes_max);
        let start = unwritten.as_ptr().cast::<u8>();
        let written = write(&mut unwritten[..unwritten_bytes])?;
        // A reference to bytes at this address is a proof that they were written.
        assert!(written.is_empty() || std::ptr::eq(written.as_ptr(), start), "another's memory");
        assert!(written.len() <= unwritten_bytes, "more than there is");
        let count = written.len();
        self.written_bytes += count;
        Ok(count)
    }

    /// Number of bytes written so far.
    #[must_use]
    pub fn written_bytes(&self) -> usize {
        self.written_bytes
    }

    /// Number of bytes that are missing.
    #[must_use]
    pub fn missing_bytes(&self) -> usize {
        self.memory.slice.len() - self.written_bytes
    }

    /// Returns the complete string.
    ///
    /// # Panics
    ///
    /// When bytes are missing.
    #[must_use]
    pub fn finish(self) -> SharedString {
        assert_eq!(self.written_bytes, self.memory.slice.len(), "the string is whole");
        // SAFETY: `append` and `append_by` count each byte behind the last one once it is written,
        // and all are counted.
        let whole = unsafe { self.memory.assume_init_slice_with_header() };
        let thin: ThinArc<(), u8> = Arc::into_thin(whole.shareable());
        thin
    }
}

impl std::fmt::Debug for NewString {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NewString").field("written_bytes", &self.written_bytes).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_become_the_string() {
        let mut string = NewString::with_length(5).expect("there is memory");
        string.append(b"ab");
        string.append(b"");
        string.append(b"cde");
        assert_eq!(&string.finish().slice, b"abcde");
        let empty = NewString::with_length(0).expect("there is memory");
        assert!(empty.finish().slice.is_empty());
    }

    #[test]
    fn parts_are_written_in_place() {
        let mut string = NewString::with_length(6).expect("there is memory");
        string.append(b"a");
        let append = |string: &mut NewString, bytes: &[u8]| {
            string.append_by(3, |unwritten| {
                assert!(unwritten.len() <= 3);
                let count = bytes.len().min(unwritten.len());
                Ok::<_, ()>(unwritten[..count].write_copy_of_slice(&bytes[..count]))
            })
        };
        assert_eq!(append(&mut string, b"bcd"), Ok(3));
        assert_eq!(append(&mut string, b""), Ok(0));
        assert_eq!(string.append_by(3, |_| Err("refused")), Err("refused"));
        assert_eq!((string.written_bytes(), string.missing_bytes()), (4, 2));
        assert_eq!(append(&mut string, b"efg"), Ok(2));
        assert_eq!(append(&mut string, b"h"), Ok(0));
        assert_eq!(&string.finish().slice, b"abcdef");
    }

    #[test]
    #[should_panic(expected = "another's memory")]
    fn bytes_elsewhere_are_not_taken_for_written_ones() {
        let mut string = NewString::with_length(5).expect("there is memory");
        let elsewhere = Box::leak(Box::new([0; 3]));
        let _ = string.append_by(3, |_| Ok::<_, ()>(elsewhere));
    }

    #[test]
    #[should_panic(expected = "the string is whole")]
    fn a_part_is_no_string() {
        let mut string = NewString::with_length(5).expect("there is memory");
        string.append(b"abcd");
        let _ = string.finish();
    }

    #[test]
    #[should_panic(expected = "out of range")]
    fn a_string_takes_no_more_than_its_length() {
        let mut string = NewString::with_length(5).expect("there is memory");
        string.append(b"abcd");
        string.append(b"ef");
    }

    #[test]
    fn a_string_that_is_not_written_to_its_end_is_freed() {
        drop(NewString::with_length(1 << 20).expect("there is memory"));
    }

    #[test]
    fn too_long_a_string_is_refused() {
        assert!(NewString::with_length(isize::MAX as usize / 2).is_none());
    }
}
