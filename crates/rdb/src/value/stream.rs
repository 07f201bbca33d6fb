//! Entries of streams, as their listpacks hold them.
//!
//! ```text
//! live | deleted | name count | names ... | 0 | entry ...
//! entry: flags | ms - first | seq - first | values ... or count, names and values | elements
//! ```
//!
//! The first id is the key of the listpack; entries with the flag 2 have the names in front.

use itoa::Buffer;

use crate::cursor::{Cursor, Fault};
use crate::error::DecodeError;
use crate::packed::Bytes;
use crate::packed::listpack::Listpack;
use crate::text::Text;

/// Digits of an integer, with its sign, per byte that it takes in a listpack: 20 in ten bytes.
const DIGITS_PER_BYTE_MAX: usize = 2;

/// Flag of an entry that was deleted.
const DELETED: i64 = 1;

/// Flag of an entry with the names of the listpack.
const SAME_NAMES: i64 = 2;

/// Id of an entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct StreamId {
    /// Unix time in milliseconds.
    pub ms: u64,
    /// Number within the millisecond.
    pub seq: u64,
}

impl StreamId {
    /// The id in 16 bytes, the first ones first.
    pub(crate) fn from_bytes(bytes: [u8; 16]) -> StreamId {
        let number = u128::from_be_bytes(bytes);
        StreamId { ms: (number >> 64) as u64, seq: number as u64 }
    }

    pub(crate) fn to_bytes(self) -> [u8; 16] {
        (u128::from(self.ms) << 64 | u128::from(self.seq)).to_be_bytes()
    }

    /// The id in two numbers.
    pub(crate) fn read(cursor: &mut Cursor<'_>, expected: &'static str) -> Result<StreamId, Fault> {
        Ok(StreamId { ms: cursor.count(expected)?, seq: cursor.count(expected)? })
    }
}

/// State of a stream besides entries and groups. What Redis before 7.0 did not store is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamState {
    /// Entries that are there, as the writer counted.
    pub length: u64,
    /// Id of the last entry that was ever added.
    pub last_id: StreamId,
    /// Id of the first entry that is there.
    pub first_id: Option<StreamId>,
    /// Greatest id of the entries that were deleted.
    pub max_deleted_id: Option<StreamId>,
    /// Entries that were ever added.
    pub entries_added: Option<u64>,
}

/// Names and values of an entry, in their order.
#[derive(Clone, Debug)]
pub struct StreamFields<'a> {
    left: u64,
    /// The names, when they are those of the listpack; else they are among the values.
    names: Option<Listpack<'a>>,
    values: Listpack<'a>,
}

impl StreamFields<'_> {
    /// True if the names are those of the listpack, which are stored once for all its entries.
    #[must_use]
    pub fn has_shared_names(&self) -> bool {
        self.names.is_some()
    }

    /// Bytes of all names and values, of numbers those of their digits. Where there cannot be as
    /// many as `exact_from`, a bound of them is returned without reading them all.
    #[must_use]
    pub fn bytes_max(&self, exact_from: usize) -> usize {
        let unread = |listpack: &Listpack<'_>| listpack.unread_bytes() * DIGITS_PER_BYTE_MAX;
        let bound = self.names.as_ref().map_or(0, unread) + unread(&self.values);
        if bound < exact_from {
            return bound;
        }
        let mut digits = Buffer::new();
        let mut bytes = |text: Text<'_>| text.bytes(&mut digits).len();
        self.clone().map(|(name, value)| bytes(name) + bytes(value)).sum()
    }
}

impl<'a> Iterator for StreamFields<'a> {
    type Item = (Text<'a>, Text<'a>);

    fn next(&mut self) -> Option<(Text<'a>, Text<'a>)> {
        self.left = self.left.checked_sub(1)?;
        // They were read before, when the entry was checked.
        let names = self.names.as_mut().unwrap_or(&mut self.values);
        let name = names.next().ok()??;
        Some((name, self.values.next().ok()??))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = usize::try_from(self.left).unwrap_or(usize::MAX);
        (left, Some(left))
    }
}

/// Entries of a listpack that were not read yet.
#[derive(Clone, Debug)]
pub(crate) struct Entries<'b> {
    first_id: StreamId,
    elements: Listpack<'b>,
    names: Listpack<'b>,
    name_count: u64,
    /// Entries that should still come, live and deleted.
    left: [u64; 2],
}

fn element<'b>(elements: &mut Listpack<'b>) -> Result<Text<'b>, DecodeError> {
    let offset = elements.offset();
    let expected = "another element of an entry";
    elements.next()?.ok_or(DecodeError::malformed(offset, expected, 0))
}

fn integer(elements: &mut Listpack<'_>, expected: &'static str) -> Result<i64, DecodeError> {
    let offset = elements.offset();
    match element(elements)? {
        Text::Integer(value) => Ok(value),
        Text::Bytes(text) => Err(DecodeError::malformed(offset, expected, text.len() as u64)),
    }
}

fn count(elements: &mut Listpack<'_>, expected: &'static str) -> Result<u64, DecodeError> {
    let offset = elements.offset();
    let value = integer(elements, expected)?;
    u64::try_from(value).map_err(|_| DecodeError::malformed(offset, expected, value as u64))
}

impl<'b> Entries<'b> {
    pub(crate) fn new(
        first_id: StreamId,
        bytes: &'b [u8],
        base: u64,
    ) -> Result<Entries<'b>, DecodeError> {
        let mut elements = Listpack::new(Bytes { bytes, base })?;
        let live = count(&mut elements, "the count of entries")?;
        let deleted = count(&mut elements, "the count of deleted entries")?;
        let name_count = count(&mut elements, "the count of names")?;
        let names = elements.clone();
        for _ in 0..name_count {
            element(&mut elements)?;
        }
        let offset = elements.offset();
        let end = integer(&mut elements, "the end of the names")?;
        if end != 0 {
            return Err(DecodeError::malformed(offset, "the end of the names", end as u64));
        }
        Ok(Entries { first_id, elements, names, name_count, left: [live, deleted] })
    }

    /// The next entry that is not deleted.
    pub(crate) fn next(&mut self) -> Result<Option<(StreamId, StreamFields<'b>)>, DecodeError> {
        loop {
            let offset = self.elements.offset();
            let mut ahead = self.elements.clone();
            if ahead.next()?.is_none() {
                let missing = self.left[0].saturating_add(self.left[1]);
                return match missing {
                    0 => Ok(None),
                    _ => Err(DecodeError::malformed(offset, "another entry", missing)),
                };
            }
            let (is_deleted, entry) = self.entry()?;
            let left = &mut self.left[usize::from(is_deleted)];
            let expected = "as many entries as there are";
            *left = left.checked_sub(1).ok_or(DecodeError::malformed(offset, expected, 0))?;
            if !is_deleted {
                return Ok(Some(entry));
            }
        }
    }

    fn entry(&mut self) -> Result<(bool, (StreamId, StreamFields<'b>)), DecodeError> {
        let elements = &mut self.elements;
        let flags = integer(elements, "the flags of an entry")?;
        let ms = integer(elements, "the milliseconds of an id")?;
        let seq = integer(elements, "the number of an id")?;
        let id = StreamId {
            ms: self.first_id.ms.wrapping_add_signed(ms),
            seq: self.first_id.seq.wrapping_add_signed(seq),
        };
        let has_same_names = flags & SAME_NAMES != 0;
        let left = match has_same_names {
            true => self.name_count,
            false => count(elements, "the count of fields")?,
        };
        let (value_count, head_count) = match has_same_names {
            true => (left, 3),
            false => (left.saturating_mul(2), 4),
        };
        let names = has_same_names.then(|| self.names.clone());
        let fields = StreamFields { left, names, values: elements.clone() };
        for _ in 0..value_count {
            element(elements)?;
        }
        let offset = elements.offset();
        let expected = "the number of elements of the entry";
        let element_count = count(elements, expected)?;
        if element_count != value_count.saturating_add(head_count) {
            return Err(DecodeError::malformed(offset, expected, element_count));
        }
        Ok((flags & DELETED != 0, (id, fields)))
    }
}
