//! Members and their form in a leaf.

use crate::hash::Seed;
use crate::value::gathered::Gathered;
use crate::value::named::{key_of_bytes, same};

/// Member of a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Member<'a> {
    /// A member whose text is the only spelling of a 64-bit integer. Such a text is never given as
    /// a string.
    Integer(i64),
    /// Any other text.
    String(&'a [u8]),
}

/// Member with its key in the order of a set.
#[derive(Clone, Copy, Debug)]
pub struct KeyedMember<'a> {
    pub(super) key: u64,
    /// The member.
    pub member: Member<'a>,
}

impl<'a> KeyedMember<'a> {
    /// Member of a set that is built with this seed.
    #[must_use]
    pub fn new(member: Member<'a>, seed: &Seed) -> KeyedMember<'a> {
        KeyedMember { key: member.key(seed), member }
    }

    /// Sorts members as a set of many leaves has them.
    pub fn sort(members: &mut [KeyedMember<'_>]) {
        members.sort_unstable_by_key(KeyedMember::order);
    }

    /// Key, and the order of integers that share one.
    pub(super) fn order(&self) -> (u64, i64) {
        match self.member {
            Member::Integer(value) => (self.key, value),
            Member::String(_) => (self.key, 0),
        }
    }
}

/// Members of a set, in their order, to fill it with.
#[derive(Clone, Debug, Default)]
pub struct GatheredMembers {
    /// Members with tags.
    pub(super) elements: Gathered,
    pub(super) has_integers: bool,
}

impl GatheredMembers {
    /// Adds a member.
    pub fn push(&mut self, member: Member<'_>) {
        self.elements.push(&Encoded::of(member).parts());
        self.has_integers |= matches!(member, Member::Integer(_));
    }

    /// The members as elements.
    #[must_use]
    pub fn elements(&self) -> &Gathered {
        &self.elements
    }

    /// The members.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Member<'_>> + Clone {
        self.elements.iter().map(decode)
    }
}

/// Tag of strings. The tag of an integer is the number of its bytes.
const STRING: u8 = 0;

/// First key of strings.
pub(super) const STRINGS_FROM: u64 = 1 << 62;

/// Member in the form in which a leaf holds it, in parts.
pub(super) struct Encoded<'a> {
    integer: [u8; 9],
    integer_bytes: usize,
    string: &'a [u8],
}

impl<'a> Encoded<'a> {
    pub(super) fn of(member: Member<'a>) -> Encoded<'a> {
        let mut integer = [STRING; 9];
        match member {
            Member::String(string) => Encoded { integer, integer_bytes: 1, string },
            Member::Integer(value) => {
                let count = byte_count(value);
                integer[0] = count as u8;
                integer[1..].copy_from_slice(&value.to_le_bytes());
                Encoded { integer, integer_bytes: 1 + count, string: &[] }
            }
        }
    }

    pub(super) fn parts(&self) -> [&[u8]; 2] {
        [&self.integer[..self.integer_bytes], self.string]
    }
}

/// Bytes that an integer needs with its sign.
pub(super) fn byte_count(value: i64) -> usize {
    let magnitude = if value < 0 { !value } else { value };
    (64 - magnitude.leading_zeros() as usize) / 8 + 1
}

impl Member<'_> {
    /// Hash for tables of members: equal members have the same, and none can be chosen without
    /// the seed.
    #[inline]
    #[must_use]
    pub fn seeded_hash(self, seed: &Seed) -> u64 {
        match self {
            Member::Integer(value) => key_of_bytes(seed, &value.to_le_bytes()),
            Member::String(string) => key_of_bytes(seed, string),
        }
    }

    /// Key in the order of a set.
    #[inline]
    pub(super) fn key(self, seed: &Seed) -> u64 {
        match self {
            Member::Integer(value) => integer_key(value),
            Member::String(string) => key_of_bytes(seed, string) | STRINGS_FROM,
        }
    }
}

/// Key of an integer. Four share one, so that strings have keys left below 2^63.
#[inline]
pub(super) fn integer_key(value: i64) -> u64 {
    (value as u64 ^ 1 << 63) >> 2
}

/// Member of an element with a tag.
#[inline]
pub(super) fn decode(element: &[u8]) -> Member<'_> {
    match element.split_first() {
        Some((&STRING, string)) => Member::String(string),
        Some((_, integer)) => Member::Integer(value_of(integer)),
        None => Member::String(&[]),
    }
}

/// Integer of its lowest bytes, the last of which has the sign.
#[inline]
pub(super) fn value_of(bytes: &[u8]) -> i64 {
    let mut whole = [0; 8];
    let count = bytes.len().min(8);
    whole[..count].copy_from_slice(&bytes[..count]);
    let unused_bits = 64 - 8 * count as u32;
    i64::from_le_bytes(whole).wrapping_shl(unused_bits).wrapping_shr(unused_bits)
}

/// True if an element is a string.
#[inline]
pub(super) fn is_string(element: &[u8]) -> bool {
    element.first() == Some(&STRING)
}

/// True if an element is this string.
#[inline]
pub(super) fn is_of(element: &[u8], string: &[u8]) -> bool {
    element.len() == string.len() + 1 && element[0] == STRING && same(&element[1..], string)
}
