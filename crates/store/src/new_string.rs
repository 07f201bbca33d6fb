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

    /// Returns the complete string.
    ///
    /// # Panics
    ///
    /// When bytes are missing.
    #[must_use]
    pub fn finish(self) -> SharedString {
        assert_eq!(self.written_bytes, self.memory.slice.len(), "the string is whole");
        // SAFETY: `append` writes each byte behind the last one and counts it, and all are counted.
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
