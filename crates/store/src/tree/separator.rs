//! Bounds between the children of an inner node.
//!
//! The order of a tree is by a `u64` and, where many elements have the same one, by further bytes,
//! the *tie*. A bound is the shortest key that separates two neighbours: a number alone wherever
//! the numbers differ, which is what every node of a tree with few equal numbers holds. Trees
//! without ties (lists, texts, hashes) have `u64` as their bound, and compile to code that knows of
//! nothing else.
//!
//! A tie longer than [`TIE_BYTES_MAX`] is not stored, so that members of any length leave an inner
//! node small: the bound is then the first element below the child. That element is by definition
//! not above any other of the child and above all of the children before, whatever is inserted or
//! removed later; a search pays for it with a descent.

use std::cmp::Ordering;
use std::fmt::Debug;

use super::node::{Node, flags};

/// Longest tie that an inner node stores, in bytes.
pub(crate) const TIE_BYTES_MAX: usize = 31;

/// Length of a tie that is not stored.
const FIRST_BELOW: u8 = u8::MAX;

/// Bit of a stored end that marks a tie which is not stored.
const END_IS_FIRST_BELOW: u16 = 1 << 15;

/// Place in the order of a tree: a number, and the bytes that order elements of one number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place<'a> {
    pub(crate) key: u64,
    pub(crate) tie: &'a [u8],
}

impl Ord for Place<'_> {
    #[inline]
    fn cmp(&self, other: &Self) -> Ordering {
        self.key.cmp(&other.key).then_with(|| compare(self.tie, other.tie))
    }
}

impl PartialOrd for Place<'_> {
    #[inline]
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Order of bytes, as [`slice::cmp`] has it: eight at a time and without a call, because a search
/// compares many short ones.
#[inline]
pub(crate) fn compare(mut left: &[u8], mut right: &[u8]) -> Ordering {
    while let (Some((of_left, behind_left)), Some((of_right, behind_right))) =
        (left.split_first_chunk(), right.split_first_chunk())
    {
        if of_left != of_right {
            return u64::from_be_bytes(*of_left).cmp(&u64::from_be_bytes(*of_right));
        }
        (left, right) = (behind_left, behind_right);
    }
    // Zeros are behind the end of the shorter one, or it ends at its length.
    padded(left).cmp(&padded(right)).then(left.len().cmp(&right.len()))
}

/// First eight bytes, big endian, with zeros behind the last.
#[inline]
fn padded(bytes: &[u8]) -> u64 {
    // First and last bytes, which overlap.
    let ends = |first: u64, last: u64| first | last << (8 * (8 - bytes.len()));
    if let Some(eight) = bytes.first_chunk() {
        u64::from_be_bytes(*eight)
    } else if let (Some(first), Some(last)) = (bytes.first_chunk(), bytes.last_chunk()) {
        ends(u64::from(u32::from_be_bytes(*first)) << 32, u32::from_be_bytes(*last).into())
    } else if let (Some(first), Some(last)) = (bytes.first_chunk(), bytes.last_chunk()) {
        ends(u64::from(u16::from_be_bytes(*first)) << 48, u16::from_be_bytes(*last).into())
    } else {
        bytes.first().map_or(0, |&byte| u64::from(byte) << 56)
    }
}

impl Place<'_> {
    /// First place of a number.
    pub(crate) fn first_of(key: u64) -> Place<'static> {
        Place { key, tie: &[] }
    }
}

/// Bytes behind the number of a bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tie {
    len: u8,
    bytes: [u8; TIE_BYTES_MAX],
}

impl Tie {
    const NONE: Tie = Tie { len: 0, bytes: [0; TIE_BYTES_MAX] };

    /// Shortest tie above `left` that is not above `right`.
    fn between(left: &[u8], right: &[u8]) -> Tie {
        let common = left.iter().zip(right).take_while(|(left, right)| left == right).count();
        debug_assert!(common < right.len(), "the right one is above the left one");
        match right.get(..=common) {
            Some(tie) if tie.len() <= TIE_BYTES_MAX => Tie::of(tie),
            _ => Tie { len: FIRST_BELOW, ..Tie::NONE },
        }
    }

    fn of(stored: &[u8]) -> Tie {
        let mut tie = Tie { len: stored.len() as u8, ..Tie::NONE };
        tie.bytes[..stored.len()].copy_from_slice(stored);
        tie
    }

    pub(crate) fn is_none(&self) -> bool {
        self.len == 0
    }

    /// Bytes to store.
    pub(crate) fn stored(&self) -> &[u8] {
        if self.len == FIRST_BELOW { &[] } else { &self.bytes[..usize::from(self.len)] }
    }

    /// End of the stored bytes, as a node keeps it.
    pub(crate) fn end_word(&self, end: usize) -> u16 {
        end as u16 | if self.len == FIRST_BELOW { END_IS_FIRST_BELOW } else { 0 }
    }
}

/// Tie of a child as its parent stores it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StoredTie<'a> {
    /// These bytes.
    Bytes(&'a [u8]),
    /// Place of the first element below the child.
    FirstBelow,
}

/// Tie of child `index` of an inner node with ties.
#[inline]
pub(crate) fn stored_tie(node: Node<'_>, index: usize) -> StoredTie<'_> {
    debug_assert!(node.has(flags::TIES));
    let (ends, ties) = node.behind_children().split_at(2 * node.len());
    let word = |index: usize| u16::from_le_bytes([ends[2 * index], ends[2 * index + 1]]);
    let end = word(index);
    if end & END_IS_FIRST_BELOW != 0 {
        return StoredTie::FirstBelow;
    }
    let start = if index == 0 { 0 } else { word(index - 1) & !END_IS_FIRST_BELOW };
    StoredTie::Bytes(&ties[usize::from(start)..usize::from(end)])
}

/// Lower bound of a child.
pub(crate) trait Separator: Copy + Debug + PartialEq {
    /// True if bounds may have ties.
    const TIED: bool;

    /// Bound without a tie.
    fn of_key(key: u64) -> Self;

    /// Bound between two neighbouring elements.
    fn between(left: Place<'_>, right: Place<'_>) -> Self;

    /// Bound of child `index` of a node.
    fn read(node: Node<'_>, index: usize) -> Self;

    /// Number of the bound.
    fn key(&self) -> u64;

    /// Tie of the bound.
    fn tie(&self) -> Tie;
}

impl Separator for u64 {
    const TIED: bool = false;

    #[inline]
    fn of_key(key: u64) -> u64 {
        key
    }

    fn between(_left: Place<'_>, right: Place<'_>) -> u64 {
        right.key
    }

    #[inline]
    fn read(node: Node<'_>, index: usize) -> u64 {
        node.children()[index].key
    }

    #[inline]
    fn key(&self) -> u64 {
        *self
    }

    #[inline]
    fn tie(&self) -> Tie {
        Tie::NONE
    }
}

/// Bound of an order with ties.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TiedKey {
    key: u64,
    tie: Tie,
}

impl Separator for TiedKey {
    const TIED: bool = true;

    fn of_key(key: u64) -> TiedKey {
        TiedKey { key, tie: Tie::NONE }
    }

    fn between(left: Place<'_>, right: Place<'_>) -> TiedKey {
        debug_assert!(left < right);
        if left.key == right.key {
            TiedKey { key: right.key, tie: Tie::between(left.tie, right.tie) }
        } else {
            TiedKey::of_key(right.key)
        }
    }

    fn read(node: Node<'_>, index: usize) -> TiedKey {
        let key = node.children()[index].key;
        if !node.has(flags::TIES) {
            return TiedKey::of_key(key);
        }
        let tie = match stored_tie(node, index) {
            StoredTie::Bytes(bytes) => Tie::of(bytes),
            StoredTie::FirstBelow => Tie { len: FIRST_BELOW, ..Tie::NONE },
        };
        TiedKey { key, tie }
    }

    fn key(&self) -> u64 {
        self.key
    }

    fn tie(&self) -> Tie {
        self.tie
    }
}
