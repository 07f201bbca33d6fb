//! Searches in an unordered leaf: nearly all elements are passed over by their lengths or by a few
//! of their bytes.

use super::node::{ByIndex, Node, Started, has_lengths};

/// Entries of a table of lengths that are looked at together.
const LENGTHS_AT_ONCE: usize = size_of::<u64>();
const LOWEST_BITS: u64 = u64::from_ne_bytes([1; 8]);
const HIGHEST_BITS: u64 = LOWEST_BITS << 7;

/// True if one of the bytes of a word is `wanted`.
#[inline]
fn has_byte(bytes: u64, wanted: usize) -> bool {
    let differing = bytes ^ (LOWEST_BITS * (wanted as u64 & 0xff));
    wanted <= usize::from(u8::MAX)
        && differing.wrapping_sub(LOWEST_BITS) & !differing & HIGHEST_BITS != 0
}

/// Sum of the bytes of a word.
#[inline]
fn sum_of_bytes(bytes: u64) -> usize {
    const EVEN: u64 = u64::MAX / 0xffff * 0xff;
    let pairs = (bytes & EVEN) + ((bytes >> 8) & EVEN);
    (pairs.wrapping_mul(EVEN & LOWEST_BITS) >> 48) as usize
}

impl<'a> Node<'a> {
    /// Index of the first element of a leaf of which `is_it` holds.
    #[inline]
    pub(crate) fn position(self, is_it: impl Fn(&[u8]) -> bool) -> Option<usize> {
        let len = self.len();
        if !has_lengths(self.header().flags) {
            return self.elements().position(is_it);
        }
        let (data, mut start, last) = (self.data(), 0, len.checked_sub(1)?);
        if let Some(length) = self.common_length() {
            return data.chunks_exact(length).position(is_it);
        }
        for (index, &length) in self.lengths(last).iter().rev().enumerate() {
            let end = start + usize::from(length);
            if is_it(&data[start..end]) {
                return Some(index);
            }
            start = end;
        }
        is_it(&data[start..]).then_some(last)
    }

    /// Length of all elements of a leaf with a table of lengths, if they have the same one: then
    /// nobody has to add lengths up to walk over them.
    #[inline]
    fn common_length(self) -> Option<usize> {
        let len = self.len();
        let lengths = self.lengths(len.checked_sub(1)?);
        let &first = lengths.first()?;
        // Without a branch, so that it takes few steps of many bytes each.
        let differing = lengths.iter().fold(0, |differing, length| differing | (length ^ first));
        let is_common = differing == 0 && usize::from(first) * len == self.data().len();
        (is_common && first > 0).then_some(first.into())
    }

    /// As [`position`](Self::position), where an element of which `is_it` holds has `bytes` at an
    /// offset: nearly all others are passed over without asking.
    #[inline]
    pub(crate) fn position_with<const LENGTH: usize>(
        self,
        (offset, bytes): (usize, &[u8; LENGTH]),
        is_it: impl Fn(&[u8]) -> bool,
    ) -> Option<usize> {
        if !has_lengths(self.header().flags) {
            return self.elements().position(is_it);
        }
        let (data, last) = (self.data(), self.len().checked_sub(1)?);
        if let Some(length) = self.common_length() {
            if length < offset + LENGTH {
                return None;
            }
            let has_bytes = |element: &[u8]| element[offset..offset + LENGTH] == *bytes;
            return data.chunks_exact(length).position(|it| has_bytes(it) && is_it(it));
        }
        let behind = data.get(offset..)?;
        let start_max = behind.len().checked_sub(LENGTH)?;
        let mut start = 0;
        for (index, &length) in self.lengths(last).iter().rev().enumerate() {
            if start > start_max {
                // Elements that begin too late for the bytes are followed by such alone.
                return None;
            }
            let length = usize::from(length);
            // SAFETY: `behind` has `LENGTH` bytes from `start_max` on, and `start` is not above it.
            let found = unsafe { behind.get_unchecked(start..start + LENGTH) };
            if found == bytes && is_it(&data[start..start + length]) {
                return Some(index);
            }
            start += length;
        }
        is_it(&data[start..]).then_some(last)
    }

    /// As [`position`](Self::position), where an element of which `is_it` holds ends with `bytes`:
    /// nearly all others are passed over without asking.
    #[inline]
    pub(crate) fn position_ending_with<const LENGTH: usize>(
        self,
        bytes: &[u8; LENGTH],
        is_it: impl Fn(&[u8]) -> bool,
    ) -> Option<usize> {
        let ByIndex::Started(Started { data, starts }) = self.by_index() else {
            return self.elements().position(is_it);
        };
        let mut start = 0;
        for (index, &end) in starts.iter().rev().enumerate() {
            let end = usize::from(end);
            if data[..end].last_chunk() == Some(bytes) && is_it(&data[start..end]) {
                return Some(index);
            }
            start = end;
        }
        is_it(&data[start..]).then_some(starts.len())
    }

    /// As [`position`](Self::position), where an element of which `is_it` holds has `wanted` bytes:
    /// the bytes of all others are not read.
    #[inline]
    pub(crate) fn position_of_length(
        self,
        wanted: usize,
        is_it: impl Fn(&[u8]) -> bool,
    ) -> Option<usize> {
        if !has_lengths(self.header().flags) {
            return self.elements().position(|element| element.len() == wanted && is_it(element));
        }
        let (data, last) = (self.data(), self.len().checked_sub(1)?);
        if let Some(length) = self.common_length() {
            return if length == wanted { data.chunks_exact(length).position(is_it) } else { None };
        }
        let (mut start, mut index) = (0, 0);
        let mut eights = self.lengths(last).rchunks_exact(LENGTHS_AT_ONCE);
        for eight in eights.by_ref() {
            let lengths =
                u64::from_be_bytes(eight.try_into().expect("as many as a word has bytes"));
            if has_byte(lengths, wanted) {
                let mut from = start;
                for (at, &length) in eight.iter().rev().enumerate() {
                    let end = from + usize::from(length);
                    if usize::from(length) == wanted && is_it(&data[from..end]) {
                        return Some(index + at);
                    }
                    from = end;
                }
            }
            start += sum_of_bytes(lengths);
            index += LENGTHS_AT_ONCE;
        }
        for &length in eights.remainder().iter().rev() {
            let end = start + usize::from(length);
            if usize::from(length) == wanted && is_it(&data[start..end]) {
                return Some(index);
            }
            start = end;
            index += 1;
        }
        (data.len() - start == wanted && is_it(&data[start..])).then_some(last)
    }
}
