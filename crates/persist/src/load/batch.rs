//! Keys and elements of a file on their way from the parser to an inserter.

use std::collections::TryReserveError;

use tidemill_rdb::value::{Item, ValueEncoding};
use tidemill_store::KeyHash;

use crate::limits::{BATCH_BYTES, BATCH_PARTS};

/// Attributes of a key.
#[derive(Clone, Copy, Debug)]
pub(super) struct KeyAttributes {
    pub(super) database: usize,
    pub(super) key_hash: KeyHash,
    pub(super) encoding: ValueEncoding,
    /// Server's time in milliseconds at which it expires.
    pub(super) expires_at_ms: Option<u64>,
    pub(super) idle_s: Option<u64>,
    pub(super) frequency: Option<u8>,
}

/// Part of a file. Its strings are in the batch, one behind the other; here are their lengths.
#[derive(Clone, Copy, Debug)]
enum Part {
    Key { attributes: KeyAttributes, name_bytes: usize },
    String(usize),
    ListElement(usize),
    SetMember(usize),
    SortedSetMember { member_bytes: usize, score: f64 },
    HashField { field_bytes: usize, value_bytes: usize, expires_at_ms: Option<u64> },
    End,
}

/// Part of a file, with its strings.
#[derive(Debug)]
pub(super) enum Step<'b> {
    /// A key; its elements follow.
    Key(KeyAttributes, &'b [u8]),
    /// An element of the key's value.
    Item(Item<'b>),
    /// The end of the key's value.
    End,
}

/// Parts of a file, in their order: the first may go on with a key of the batch before.
#[derive(Debug, Default)]
pub(super) struct Batch {
    parts: Vec<Part>,
    strings: Vec<u8>,
    /// Offset up to which the file had been read.
    pub(super) before_offset: u64,
}

impl Batch {
    fn push(&mut self, part: Part, strings: [&[u8]; 2]) -> Result<(), TryReserveError> {
        self.parts.try_reserve(1)?;
        self.strings.try_reserve(strings[0].len() + strings[1].len())?;
        self.parts.push(part);
        strings.into_iter().for_each(|string| self.strings.extend_from_slice(string));
        Ok(())
    }

    pub(super) fn push_key(
        &mut self,
        attributes: KeyAttributes,
        name: &[u8],
    ) -> Result<(), TryReserveError> {
        self.push(Part::Key { attributes, name_bytes: name.len() }, [name, &[]])
    }

    /// Adds an element. Those of streams are not for batches, see [`Batch::takes`].
    pub(super) fn push_item(&mut self, item: &Item<'_>) -> Result<(), TryReserveError> {
        match *item {
            Item::String(text) => self.push(Part::String(text.len()), [text, &[]]),
            Item::ListElement(text) => self.push(Part::ListElement(text.len()), [text, &[]]),
            Item::SetMember(text) => self.push(Part::SetMember(text.len()), [text, &[]]),
            Item::SortedSetMember { member, score } => {
                let part = Part::SortedSetMember { member_bytes: member.len(), score };
                self.push(part, [member, &[]])
            }
            Item::HashField { field, value, expires_at_ms } => {
                let (field_bytes, value_bytes) = (field.len(), value.len());
                let part = Part::HashField { field_bytes, value_bytes, expires_at_ms };
                self.push(part, [field, value])
            }
            _ => unreachable!("streams are inserted by the parser"),
        }
    }

    pub(super) fn push_end(&mut self) -> Result<(), TryReserveError> {
        self.push(Part::End, [&[], &[]])
    }

    /// True if it is to be handed over.
    pub(super) fn is_full(&self) -> bool {
        self.strings.len() >= BATCH_BYTES || self.parts.len() >= BATCH_PARTS
    }

    pub(super) fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// Makes it empty. Memory of a large string is given back.
    pub(super) fn clear(&mut self) {
        self.parts.clear();
        self.strings.clear();
        self.strings.shrink_to(2 * BATCH_BYTES);
    }

    /// The parts in their order.
    pub(super) fn steps(&self) -> impl Iterator<Item = Step<'_>> {
        let mut rest = &self.strings[..];
        let mut take = move |count: usize| {
            let (string, behind) = rest.split_at(count);
            rest = behind;
            string
        };
        self.parts.iter().map(move |&part| match part {
            Part::Key { attributes, name_bytes } => Step::Key(attributes, take(name_bytes)),
            Part::String(count) => Step::Item(Item::String(take(count))),
            Part::ListElement(count) => Step::Item(Item::ListElement(take(count))),
            Part::SetMember(count) => Step::Item(Item::SetMember(take(count))),
            Part::SortedSetMember { member_bytes, score } => {
                Step::Item(Item::SortedSetMember { member: take(member_bytes), score })
            }
            Part::HashField { field_bytes, value_bytes, expires_at_ms } => {
                let field = take(field_bytes);
                Step::Item(Item::HashField { field, value: take(value_bytes), expires_at_ms })
            }
            Part::End => Step::End,
        })
    }
}
