//! Lists, hashes, sets and sorted sets.

use std::collections::TryReserveError;

use itoa::Buffer;
use tidemill_resp::number::format_double;

use super::{Encoder, Output, Place};
use crate::limits::COUNTED_NODE_BYTES_MAX;
use crate::packed::encode_intset;
use crate::packed::listpack::{Builder, element_bytes};
use crate::text::Text;
use crate::value::ValueEncoding;

/// Bytes that Valkey adds for an element's head when it asks whether a node has room.
const ESTIMATED_OVERHEAD_BYTES: usize = 8;

const PLAIN_NODE: u64 = 1;
const PACKED_NODE: u64 = 2;

/// Size beyond which a node of a list takes no further element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeLimit {
    /// Bytes of the node. A longer element has a node of its own.
    pub bytes_max: usize,
    /// Elements of the node.
    pub element_count_max: u64,
}

impl NodeLimit {
    /// No limit: all elements in one node.
    pub const ONE_NODE: NodeLimit =
        NodeLimit { bytes_max: usize::MAX, element_count_max: u64::MAX };

    /// A limit of the elements of a node.
    #[must_use]
    pub fn of_count(element_count_max: u64) -> NodeLimit {
        NodeLimit { bytes_max: COUNTED_NODE_BYTES_MAX, element_count_max }
    }

    /// A limit of the bytes of a node.
    #[must_use]
    pub fn of_bytes(bytes_max: usize) -> NodeLimit {
        NodeLimit { bytes_max, element_count_max: u64::MAX }
    }

    fn is_plain(self, element: &[u8]) -> bool {
        element.len() > self.bytes_max
    }

    /// True if a node of this size takes an element.
    fn has_room(self, (bytes, count): (usize, u64), element: &[u8]) -> bool {
        let wanted = bytes.saturating_add(element.len() + ESTIMATED_OVERHEAD_BYTES);
        wanted <= self.bytes_max && count < self.element_count_max
    }

    fn count_nodes<'e>(self, elements: impl Iterator<Item = &'e [u8]>) -> u64 {
        let empty_bytes = Builder::default().total_bytes();
        let (mut count, mut open) = (0, None);
        for element in elements {
            if self.is_plain(element) {
                (count, open) = (count + 1, None);
                continue;
            }
            let size = open.filter(|&size| self.has_room(size, element));
            let (bytes, elements) = size.unwrap_or_else(|| {
                count += 1;
                (empty_bytes, 0)
            });
            open = Some((bytes + element_bytes(element), elements + 1));
        }
        count
    }
}

impl<O: Output<Error: From<TryReserveError>>> Encoder<O> {
    /// Writes a list, in nodes as large as if all elements had been appended one by one.
    ///
    /// # Errors
    ///
    /// As [`Encoder::string`].
    pub fn list<'e>(
        &mut self,
        place: Place<'_>,
        elements: impl Iterator<Item = &'e [u8]> + Clone,
        limit: NodeLimit,
    ) -> Result<(), O::Error> {
        self.begin(ValueEncoding::ListOfListpacks, place)?;
        self.length(limit.count_nodes(elements.clone()))?;
        let mut node = Builder::default();
        for element in elements {
            let is_plain = limit.is_plain(element);
            let size = (node.total_bytes(), node.element_count());
            if !node.is_empty() && (is_plain || !limit.has_room(size, element)) {
                self.node(&mut node)?;
            }
            if is_plain {
                self.length(PLAIN_NODE)?;
                self.text(element)?;
            } else {
                node.push(element)?;
            }
        }
        if !node.is_empty() {
            self.node(&mut node)?;
        }
        Ok(())
    }

    fn node(&mut self, node: &mut Builder) -> Result<(), O::Error> {
        self.length(PACKED_NODE)?;
        self.text(node.finish()?)?;
        node.clear();
        Ok(())
    }

    /// Writes a hash that is a listpack.
    ///
    /// # Errors
    ///
    /// As [`Encoder::string`].
    pub fn hash_listpack<'e>(
        &mut self,
        place: Place<'_>,
        fields: impl Iterator<Item = (&'e [u8], &'e [u8])>,
    ) -> Result<(), O::Error> {
        self.begin(ValueEncoding::HashListpack, place)?;
        let mut listpack = Builder::default();
        for (field, value) in fields {
            listpack.push(field)?;
            listpack.push(value)?;
        }
        self.text(listpack.finish()?)
    }

    /// Writes a hash of `count` fields that is a table.
    ///
    /// # Errors
    ///
    /// As [`Encoder::string`].
    pub fn hash<'e>(
        &mut self,
        place: Place<'_>,
        count: u64,
        fields: impl Iterator<Item = (&'e [u8], &'e [u8])>,
    ) -> Result<(), O::Error> {
        self.begin(ValueEncoding::Hash, place)?;
        self.length(count)?;
        for (field, value) in fields {
            self.text(field)?;
            self.text(value)?;
        }
        Ok(())
    }

    /// Writes a hash of `count` fields of which some expire, as Unix times in milliseconds. Only
    /// Valkey 9 reads it.
    ///
    /// # Errors
    ///
    /// As [`Encoder::string`].
    pub fn hash_expiring<'e>(
        &mut self,
        place: Place<'_>,
        count: u64,
        fields: impl Iterator<Item = (&'e [u8], &'e [u8], Option<u64>)>,
    ) -> Result<(), O::Error> {
        self.begin(ValueEncoding::HashExpiring, place)?;
        self.length(count)?;
        for (field, value, expires_at_ms) in fields {
            self.text(field)?;
            self.text(value)?;
            let at_ms = expires_at_ms.map_or(-1, |at_ms| i64::try_from(at_ms).unwrap_or(i64::MAX));
            self.raw(&at_ms.to_le_bytes())?;
        }
        Ok(())
    }

    /// Writes a set of integers, which ascend.
    ///
    /// # Errors
    ///
    /// As [`Encoder::string`].
    pub fn set_intset(&mut self, place: Place<'_>, members: &[i64]) -> Result<(), O::Error> {
        self.begin(ValueEncoding::SetIntset, place)?;
        self.text(&encode_intset(members)?)
    }

    /// Writes a set that is a listpack.
    ///
    /// # Errors
    ///
    /// As [`Encoder::string`].
    pub fn set_listpack<'e>(
        &mut self,
        place: Place<'_>,
        members: impl Iterator<Item = Text<'e>>,
    ) -> Result<(), O::Error> {
        self.begin(ValueEncoding::SetListpack, place)?;
        let mut listpack = Builder::default();
        for member in members {
            match member {
                Text::Bytes(bytes) => listpack.push(bytes)?,
                Text::Integer(value) => listpack.push_integer(value)?,
            }
        }
        self.text(listpack.finish()?)
    }

    /// Writes a set of `count` members that is a table.
    ///
    /// # Errors
    ///
    /// As [`Encoder::string`].
    pub fn set<'e>(
        &mut self,
        place: Place<'_>,
        count: u64,
        members: impl Iterator<Item = Text<'e>>,
    ) -> Result<(), O::Error> {
        let mut digits = Buffer::new();
        self.begin(ValueEncoding::Set, place)?;
        self.length(count)?;
        for member in members {
            self.text(member.bytes(&mut digits))?;
        }
        Ok(())
    }

    /// Writes a sorted set that is a listpack, from the lowest score on.
    ///
    /// # Errors
    ///
    /// As [`Encoder::string`].
    pub fn sorted_set_listpack<'e>(
        &mut self,
        place: Place<'_>,
        members: impl Iterator<Item = (&'e [u8], f64)>,
    ) -> Result<(), O::Error> {
        // Scores that Valkey prints as integers; -0 becomes 0.
        const INTEGER_MAX: f64 = (i64::MAX / 2) as f64;
        self.begin(ValueEncoding::SortedSetListpack, place)?;
        let mut listpack = Builder::default();
        for (member, score) in members {
            listpack.push(member)?;
            if score.abs() <= INTEGER_MAX && score.fract() == 0.0 {
                listpack.push_integer(score as i64)?;
            } else {
                listpack.push(format_double(score).as_str().as_bytes())?;
            }
        }
        self.text(listpack.finish()?)
    }

    /// Writes a sorted set of `count` members that is a skip list; Valkey begins at the highest
    /// score.
    ///
    /// # Errors
    ///
    /// As [`Encoder::string`].
    pub fn sorted_set<'e>(
        &mut self,
        place: Place<'_>,
        count: u64,
        members: impl Iterator<Item = (&'e [u8], f64)>,
    ) -> Result<(), O::Error> {
        self.begin(ValueEncoding::SortedSet, place)?;
        self.length(count)?;
        for (member, score) in members {
            self.text(member)?;
            self.raw(&score.to_le_bytes())?;
        }
        Ok(())
    }
}
