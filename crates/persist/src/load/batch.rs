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
///
/// Small, for there is one for each element: attributes of keys and expiries are apart.
#[derive(Clone, Copy, Debug)]
enum Part {
    /// A whole string: name and text.
    String {
        name_bytes: usize,
        text_bytes: usize,
    },
    /// Beginning of a collection.
    Key {
        name_bytes: usize,
    },
    ListElement(usize),
    SetMember(usize),
    SortedSetMember {
        member_bytes: usize,
        score: f64,
    },
    HashField {
        field_bytes: usize,
        value_bytes: usize,
    },
    /// As `HashField`; the expiry's eight bytes are before the field.
    ExpiringHashField {
        field_bytes: usize,
        value_bytes: usize,
    },
    /// End of a collection.
    End,
}

const _: () = assert!(size_of::<Part>() == 24);

/// Part of a file, with its strings.
#[derive(Debug)]
pub(super) enum Step<'b> {
    /// A whole string: attributes, name and text.
    String(KeyAttributes, &'b [u8], &'b [u8]),
    /// Key of a collection; its elements follow.
    Key(KeyAttributes, &'b [u8]),
    /// An element of the collection.
    Item(Item<'b>),
    /// The end of the collection.
    End,
}

/// Parts of a file, in their order: the first may go on with a collection of the batch before.
#[derive(Debug, Default)]
pub(super) struct Batch {
    parts: Vec<Part>,
    /// Attributes of the keys among the parts.
    keys: Vec<KeyAttributes>,
    strings: Vec<u8>,
    /// Bytes of the name of a string whose text follows.
    name_bytes: usize,
    /// Offset up to which the file had been read.
    pub(super) before_offset: u64,
}

impl Batch {
    fn push(&mut self, part: Part, strings: [&[u8]; 3]) -> Result<(), TryReserveError> {
        self.parts.try_reserve(1)?;
        self.strings.try_reserve(strings.iter().map(|string| string.len()).sum())?;
        self.parts.push(part);
        strings.into_iter().for_each(|string| self.strings.extend_from_slice(string));
        Ok(())
    }

    fn push_attributes(&mut self, attributes: KeyAttributes) -> Result<(), TryReserveError> {
        self.keys.try_reserve(1)?;
        self.keys.push(attributes);
        Ok(())
    }

    /// Adds the key of a string; [`Batch::push_text`] must follow.
    pub(super) fn push_name(
        &mut self,
        attributes: KeyAttributes,
        name: &[u8],
    ) -> Result<(), TryReserveError> {
        self.push_attributes(attributes)?;
        self.strings.try_reserve(name.len())?;
        self.strings.extend_from_slice(name);
        self.name_bytes = name.len();
        Ok(())
    }

    /// Adds the text of the string whose name was added.
    pub(super) fn push_text(&mut self, text: &[u8]) -> Result<(), TryReserveError> {
        let part = Part::String { name_bytes: self.name_bytes, text_bytes: text.len() };
        self.push(part, [text, &[], &[]])
    }

    /// Adds the beginning of a collection.
    pub(super) fn push_key(
        &mut self,
        attributes: KeyAttributes,
        name: &[u8],
    ) -> Result<(), TryReserveError> {
        self.push_attributes(attributes)?;
        self.push(Part::Key { name_bytes: name.len() }, [name, &[], &[]])
    }

    /// Adds an element of a list, set, sorted set or hash.
    pub(super) fn push_item(&mut self, item: &Item<'_>) -> Result<(), TryReserveError> {
        match *item {
            Item::ListElement(text) => self.push(Part::ListElement(text.len()), [text, &[], &[]]),
            Item::SetMember(text) => self.push(Part::SetMember(text.len()), [text, &[], &[]]),
            Item::SortedSetMember { member, score } => {
                let part = Part::SortedSetMember { member_bytes: member.len(), score };
                self.push(part, [member, &[], &[]])
            }
            Item::HashField { field, value, expires_at_ms: None } => {
                let (field_bytes, value_bytes) = (field.len(), value.len());
                self.push(Part::HashField { field_bytes, value_bytes }, [field, value, &[]])
            }
            Item::HashField { field, value, expires_at_ms: Some(at_ms) } => {
                let (field_bytes, value_bytes) = (field.len(), value.len());
                let part = Part::ExpiringHashField { field_bytes, value_bytes };
                self.push(part, [&at_ms.to_le_bytes(), field, value])
            }
            _ => unreachable!("strings have their keys, streams are inserted by the parser"),
        }
    }

    /// Adds the end of a collection.
    pub(super) fn push_end(&mut self) -> Result<(), TryReserveError> {
        self.push(Part::End, [&[]; 3])
    }

    /// True if it is to be handed over.
    pub(super) fn is_full(&self) -> bool {
        self.strings.len() >= BATCH_BYTES || self.parts.len() >= BATCH_PARTS
    }

    /// True if it has all elements of its keys.
    pub(super) fn is_whole(&self) -> bool {
        let begins = matches!(self.parts.first(), Some(Part::Key { .. } | Part::String { .. }));
        begins && matches!(self.parts.last(), Some(Part::End | Part::String { .. }))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// Makes it empty. Memory of a large string is given back.
    pub(super) fn clear(&mut self) {
        self.parts.clear();
        self.keys.clear();
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
        let mut keys = self.keys.iter();
        let mut attributes = move || *keys.next().expect("each key has attributes");
        self.parts.iter().map(move |&part| match part {
            Part::String { name_bytes, text_bytes } => {
                let name = take(name_bytes);
                Step::String(attributes(), name, take(text_bytes))
            }
            Part::Key { name_bytes } => Step::Key(attributes(), take(name_bytes)),
            Part::ListElement(count) => Step::Item(Item::ListElement(take(count))),
            Part::SetMember(count) => Step::Item(Item::SetMember(take(count))),
            Part::SortedSetMember { member_bytes, score } => {
                Step::Item(Item::SortedSetMember { member: take(member_bytes), score })
            }
            Part::HashField { field_bytes, value_bytes } => {
                let field = take(field_bytes);
                let value = take(value_bytes);
                Step::Item(Item::HashField { field, value, expires_at_ms: None })
            }
            Part::ExpiringHashField { field_bytes, value_bytes } => {
                let expiry = take(size_of::<u64>()).try_into();
                let expiry = u64::from_le_bytes(expiry.expect("an expiry has eight bytes"));
                let field = take(field_bytes);
                let value = take(value_bytes);
                Step::Item(Item::HashField { field, value, expires_at_ms: Some(expiry) })
            }
            Part::End => Step::End,
        })
    }
}
