//! Elements that are packed into one string: listpacks, ziplists, zipmaps, intsets.
//!
//! Nothing of a packed string is believed: every length, every back length, the counts and the ends
//! are checked while the elements are read.

mod intset;
pub(crate) mod listpack;
mod ziplist;
mod zipmap;

use crate::error::DecodeError;
use crate::text::Text;

use intset::Intset;
use listpack::Listpack;
use ziplist::Ziplist;
use zipmap::Zipmap;

pub(crate) use intset::encode as encode_intset;

/// Form in which elements are packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Packing {
    Listpack,
    Ziplist,
    Zipmap,
    Intset,
}

/// Elements of a packed string that were not read yet. Of a zipmap, names and values in turn.
#[derive(Clone, Debug)]
pub(crate) enum Packed<'b> {
    Listpack(Listpack<'b>),
    Ziplist(Ziplist<'b>),
    Zipmap(Zipmap<'b>),
    Intset(Intset<'b>),
}

impl<'b> Packed<'b> {
    /// The elements in `bytes`, which are at `base` in the input.
    pub(crate) fn new(
        packing: Packing,
        bytes: &'b [u8],
        base: u64,
    ) -> Result<Packed<'b>, DecodeError> {
        let bytes = Bytes { bytes, base };
        Ok(match packing {
            Packing::Listpack => Packed::Listpack(Listpack::new(bytes)?),
            Packing::Ziplist => Packed::Ziplist(Ziplist::new(bytes)?),
            Packing::Zipmap => Packed::Zipmap(Zipmap::new(bytes)?),
            Packing::Intset => Packed::Intset(Intset::new(bytes)?),
        })
    }

    /// The next element.
    pub(crate) fn next(&mut self) -> Result<Option<Text<'b>>, DecodeError> {
        match self {
            Packed::Listpack(listpack) => listpack.next(),
            Packed::Ziplist(ziplist) => ziplist.next(),
            Packed::Zipmap(zipmap) => zipmap.next(),
            Packed::Intset(intset) => intset.next(),
        }
    }

    /// The next element, which must be there.
    pub(crate) fn partner(&mut self, base: u64) -> Result<Text<'b>, DecodeError> {
        let partner = self.next()?;
        partner.ok_or(DecodeError::malformed(base, "elements that belong together", 1))
    }
}

/// Packed string with its offset in the input.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bytes<'b> {
    pub(crate) bytes: &'b [u8],
    pub(crate) base: u64,
}

impl<'b> Bytes<'b> {
    pub(crate) fn error(&self, at: usize, expected: &'static str, found: u64) -> DecodeError {
        DecodeError::malformed(self.base + at as u64, expected, found)
    }

    /// The bytes from `at` on, which must be there.
    pub(crate) fn get(
        &self,
        at: usize,
        count: usize,
        expected: &'static str,
    ) -> Result<&'b [u8], DecodeError> {
        let end = at.checked_add(count);
        let found = end.and_then(|end| self.bytes.get(at..end));
        found.ok_or_else(|| self.error(at, expected, self.bytes.len().saturating_sub(at) as u64))
    }

    pub(crate) fn array<const N: usize>(
        &self,
        at: usize,
        expected: &'static str,
    ) -> Result<[u8; N], DecodeError> {
        let mut array = [0; N];
        array.copy_from_slice(self.get(at, N, expected)?);
        Ok(array)
    }

    pub(crate) fn byte(&self, at: usize, expected: &'static str) -> Result<u8, DecodeError> {
        Ok(self.array::<1>(at, expected)?[0])
    }
}

/// A signed number of 24 bits, least byte first.
fn integer_of_24_bits(bytes: [u8; 3]) -> i64 {
    i64::from(i32::from_le_bytes([0, bytes[0], bytes[1], bytes[2]]) >> 8)
}

#[cfg(test)]
mod tests;
