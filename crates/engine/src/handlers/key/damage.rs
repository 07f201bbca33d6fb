//! Damage of payloads that `RESTORE` is given: what is wrong and where, for the log.
//!
//! A line names the part that is damaged, an offset or the number of an element, and what is
//! expected there. It holds nothing of the payload, which is data of users. The names of the parts
//! and of faults among consumers are those of Valkey's lines, which operators search for.

use std::fmt;

use tidemill_rdb::DecodeError;
use tidemill_rdb::value::ValueEncoding;

use crate::error::CommandError;

/// Place of a damage within a payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Location {
    /// Offset in bytes; inside of a compressed string from that string's beginning on.
    Offset(u64),
    /// Number of an element, the first is 1; 0 for the end.
    Element(u64),
}

/// Damage of a payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Damage {
    /// Name of the damaged part.
    part: &'static str,
    location: Location,
    /// Name of what has to be at an offset; otherwise the fault.
    what: &'static str,
}

impl fmt::Display for Damage {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Damage { part, location, what } = self;
        write!(formatter, "{part} integrity check failed at ")?;
        match location {
            Location::Offset(offset) => write!(formatter, "offset {offset}: expected {what}"),
            Location::Element(0) => write!(formatter, "its end: {what}"),
            Location::Element(number) => write!(formatter, "element {number}: {what}"),
        }
    }
}

/// Reason why the value of a payload is not put.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// The payload is damaged.
    Damaged(Damage),
    /// Another error, which the client is told.
    Command(CommandError),
}

impl From<CommandError> for Refusal {
    fn from(error: CommandError) -> Refusal {
        Refusal::Command(error)
    }
}

impl Refusal {
    /// Refusal of an element that contradicts others; [`Refusal::at`] completes it.
    pub(crate) fn damaged(what: &'static str) -> Refusal {
        Refusal::Damaged(Damage { part: "Value", location: Location::Element(0), what })
    }

    /// Refusal of bytes that cannot be decoded; `part` is the name of what they belong to.
    pub(super) fn of(error: &DecodeError, part: &'static str) -> Refusal {
        let what = match error {
            DecodeError::NoMemory { bytes, .. } => return CommandError::NoMemory(*bytes).into(),
            DecodeError::Truncated { expected: what, .. }
            | DecodeError::Malformed { expected: what, .. } => what,
            DecodeError::UnknownType { .. } => "a type of this version",
            DecodeError::ModuleValue { .. } => "no value of a module",
            DecodeError::NotRdb { .. }
            | DecodeError::UnknownVersion { .. }
            | DecodeError::Checksum { .. } => "a payload",
        };
        Refusal::Damaged(Damage { part, location: Location::Offset(error.offset()), what })
    }

    /// The refusal with the number of its element, and the part that this is of.
    pub(super) fn at(self, number: u64, part: &'static str) -> Refusal {
        match self {
            Refusal::Damaged(damage) => {
                Refusal::Damaged(Damage { part, location: Location::Element(number), ..damage })
            }
            Refusal::Command(_) => self,
        }
    }
}

/// Name of the part of a payload that holds the elements.
pub(super) fn part_name(encoding: ValueEncoding) -> &'static str {
    match encoding {
        ValueEncoding::String => "String",
        ValueEncoding::List => "List",
        ValueEncoding::Set => "Set",
        ValueEncoding::SortedSetText | ValueEncoding::SortedSet => "Zset",
        ValueEncoding::Hash
        | ValueEncoding::HashExpiring
        | ValueEncoding::HashAbsoluteExpiries
        | ValueEncoding::HashRelativeExpiries => "Hash",
        ValueEncoding::HashZipmap => "Zipmap",
        ValueEncoding::ListZiplist => "List ziplist",
        ValueEncoding::SetIntset => "Intset",
        ValueEncoding::SortedSetZiplist => "Zset ziplist",
        ValueEncoding::HashZiplist => "Hash ziplist",
        ValueEncoding::ListOfZiplists => "Quicklist ziplist",
        ValueEncoding::Stream | ValueEncoding::Stream2 | ValueEncoding::Stream3 => {
            "Stream listpack"
        }
        ValueEncoding::HashListpack
        | ValueEncoding::HashListpackExpiringEarly
        | ValueEncoding::HashListpackExpiring => "Hash listpack",
        ValueEncoding::SortedSetListpack => "Zset listpack",
        ValueEncoding::ListOfListpacks => "Quicklist listpack",
        ValueEncoding::SetListpack => "Set listpack",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_damage_tells_offset_or_element_and_nothing_that_was_found() {
        let error =
            DecodeError::Malformed { offset: 12, expected: "a back length", found: 0xdead_beef };
        let text = |refusal| match refusal {
            Refusal::Damaged(damage) => damage.to_string(),
            Refusal::Command(error) => panic!("{error:?}"),
        };
        let line = "Zset ziplist integrity check failed at offset 12: expected a back length";
        assert_eq!(text(Refusal::of(&error, part_name(ValueEncoding::SortedSetZiplist))), line);
        let line = "Hash integrity check failed at element 3: an element occurs twice";
        assert_eq!(text(Refusal::damaged("an element occurs twice").at(3, "Hash")), line);
        let line = "Set integrity check failed at its end: it has no elements";
        assert_eq!(text(Refusal::damaged("it has no elements").at(0, "Set")), line);
    }

    #[test]
    fn missing_memory_is_no_damage() {
        let error = DecodeError::NoMemory { offset: 1, bytes: 9 };
        let refusal = Refusal::of(&error, "String");
        assert!(matches!(refusal, Refusal::Command(CommandError::NoMemory(9))), "{refusal:?}");
    }
}
