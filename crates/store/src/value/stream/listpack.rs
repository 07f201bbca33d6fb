//! Sizes that entries have in the nodes of Valkey, which are listpacks.
//!
//! An entry begins a node there by the bytes that the last one has, to the byte.

use super::id::StreamId;
use super::value::FieldValue;

/// Limits of a node: `stream-node-max-bytes` and `stream-node-max-entries`; 0 is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeLimits {
    /// Most bytes.
    pub bytes: u64,
    /// Most entries.
    pub entries: u64,
}

impl NodeLimits {
    /// Limits that nothing reaches but the size of a listpack.
    pub const NONE: NodeLimits = NodeLimits { bytes: 0, entries: 0 };
}

/// Most bytes of any node.
const NODE_BYTES_MAX: u64 = 1 << 30;

/// Bytes of a listpack without elements.
const EMPTY_BYTES: u64 = 7;

/// The last node of a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct LastNode {
    /// Bytes of its entries and names, without its counts.
    pub(super) body_bytes: u64,
    /// Entries that were ever added to it; 0 without a node.
    pub(super) entry_count: u64,
    /// Id of its first entry.
    pub(super) first: StreamId,
    /// Schema of its first entry; 0 if that has none.
    pub(super) schema: u64,
}

impl LastNode {
    /// Bytes of the whole listpack.
    fn bytes(&self) -> u64 {
        EMPTY_BYTES + integer_bytes(self.entry_count as i64) + integer_bytes(0) + self.body_bytes
    }

    /// True if an entry whose names and values have `text_bytes` together begins another node.
    pub(super) fn is_full(&self, text_bytes: u64, limits: NodeLimits) -> bool {
        let bytes_max = match limits.bytes {
            0 => NODE_BYTES_MAX,
            bytes => bytes.min(NODE_BYTES_MAX),
        };
        self.entry_count == 0
            || self.bytes() + text_bytes >= bytes_max
            || limits.entries > 0 && self.entry_count >= limits.entries
    }

    /// Adds an entry, which has as many names as values; `names_bytes` is asked for the bytes of
    /// the names where they count.
    pub(super) fn add(
        &mut self,
        id: StreamId,
        schema: u64,
        names_bytes: impl FnOnce() -> u64,
        values: &[FieldValue<'_>],
    ) {
        let count = values.len() as i64;
        let is_first = self.entry_count == 0;
        let has_same_names = is_first || schema != 0 && schema == self.schema;
        if is_first {
            (self.first, self.schema) = (id, schema);
            self.body_bytes = integer_bytes(count) + names_bytes() + integer_bytes(0);
        } else if !has_same_names {
            self.body_bytes += integer_bytes(count) + names_bytes();
        }
        let element_count = if has_same_names { count + 3 } else { 2 * count + 4 };
        self.body_bytes += integer_bytes(0)
            + integer_bytes(id.ms.wrapping_sub(self.first.ms) as i64)
            + integer_bytes(id.seq.wrapping_sub(self.first.seq) as i64)
            + values.iter().map(|&value| value_bytes(value)).sum::<u64>()
            + integer_bytes(element_count);
        self.entry_count += 1;
    }
}

/// Bytes of names as elements.
pub(super) fn names_bytes<'a>(names: impl Iterator<Item = &'a [u8]>) -> u64 {
    names.map(|name| value_bytes(FieldValue::of(name))).sum()
}

/// Bytes of a value as an element.
fn value_bytes(value: FieldValue<'_>) -> u64 {
    let length = match value {
        FieldValue::Integer(value) => return integer_bytes(value),
        FieldValue::Text(text) => text.len() as u64,
    };
    let head = match length {
        0..64 => 1,
        64..4096 => 2,
        _ => 5,
    };
    with_length_behind(head + length)
}

/// Bytes of an integer as an element.
fn integer_bytes(value: i64) -> u64 {
    with_length_behind(match value {
        0..=127 => 1,
        -4096..=4095 => 2,
        -0x8000..=0x7fff => 3,
        -0x80_0000..=0x7f_ffff => 4,
        -0x8000_0000..=0x7fff_ffff => 5,
        _ => 9,
    })
}

/// Bytes of an element with those behind it that tell its length.
fn with_length_behind(bytes: u64) -> u64 {
    bytes
        + match bytes {
            0..128 => 1,
            128..16_383 => 2,
            16_383..2_097_151 => 3,
            2_097_151..268_435_455 => 4,
            _ => 5,
        }
}

impl FieldValue<'_> {
    /// Bytes of the value's text.
    #[must_use]
    pub fn text_bytes(self) -> usize {
        match self {
            FieldValue::Text(text) => text.len(),
            FieldValue::Integer(value) => {
                let digits = value.unsigned_abs().checked_ilog10().unwrap_or(0) as usize + 1;
                digits + usize::from(value < 0)
            }
        }
    }
}
