//! What is known of a key besides its bytes.

use crate::hash::{Seed, hash};
use crate::slot::SlotNumber;

/// How many keys [`Keyspace::key_hashes`](crate::Keyspace::key_hashes) takes at once.
pub const LANES: usize = 4;

/// A key's slot and hash, computed once per request.
#[derive(Clone, Copy, Debug)]
pub struct KeyHash {
    /// The slot that the key belongs to.
    pub slot: SlotNumber,
    /// The key's hash.
    pub hash: u64,
    /// In which place of its bucket the key is looked for first: where
    /// [`Keyspace::prefetch_entries`](crate::Keyspace::prefetch_entries) saw its tag. Only a guess: whoever looks there
    /// compares the key.
    pub(crate) likely_place: u8,
}

/// No guess; a bucket has far fewer places.
pub(crate) const NO_PLACE: u8 = u8::MAX;

impl KeyHash {
    /// Slot and hash as they were computed.
    #[inline]
    pub(crate) fn new(slot: SlotNumber, hash: u64) -> KeyHash {
        KeyHash { slot, hash, likely_place: NO_PLACE }
    }

    /// Slot and hash of `key`.
    #[inline]
    pub(crate) fn of(seed: &Seed, key: &[u8]) -> KeyHash {
        KeyHash::new(SlotNumber::of_key(key), hash(seed, key))
    }
}

impl Default for KeyHash {
    fn default() -> KeyHash {
        KeyHash::new(SlotNumber::default(), 0)
    }
}

impl PartialEq for KeyHash {
    /// Where a key was seen makes no difference.
    fn eq(&self, other: &KeyHash) -> bool {
        (self.slot, self.hash) == (other.slot, other.hash)
    }
}

impl Eq for KeyHash {}

/// A key where it stands in a buffer, so that it can be read in pieces longer than itself.
#[derive(Clone, Copy, Debug, Default)]
pub struct KeyBytes<'b> {
    behind: &'b [u8],
    length: usize,
}

impl<'b> KeyBytes<'b> {
    /// The first `length` bytes of `behind`, which goes on to the end of the buffer.
    ///
    /// # Panics
    ///
    /// When there are not so many.
    #[must_use]
    #[inline]
    pub fn new(behind: &'b [u8], length: usize) -> KeyBytes<'b> {
        assert!(length <= behind.len());
        KeyBytes { behind, length }
    }

    /// The key.
    #[must_use]
    #[inline]
    pub fn key(self) -> &'b [u8] {
        &self.behind[..self.length]
    }

    /// The key and what stands behind it in the buffer.
    #[inline]
    pub(crate) fn behind(self) -> &'b [u8] {
        self.behind
    }

    /// Bytes of the key.
    #[inline]
    pub(crate) fn length(self) -> usize {
        self.length
    }
}
