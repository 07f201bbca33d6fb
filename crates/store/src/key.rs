//! Data of a key besides its bytes: slot, hash, likely place.

use crate::hash::{Seed, hash};
use crate::slot::SlotNumber;

/// Number of keys that [`Keyspace::key_hashes`](crate::Keyspace::key_hashes) hashes side by side.
pub const LANES: usize = 4;

/// Slot and hash of a key, computed once per request.
#[derive(Clone, Copy, Debug)]
pub struct KeyHash {
    /// The slot that the key belongs to.
    pub slot: SlotNumber,
    /// The key's hash.
    pub hash: u64,
    /// Place of its bucket in which the key is looked for first: where
    /// [`Keyspace::prefetch_entries`](crate::Keyspace::prefetch_entries) saw its tag. Only a hint:
    /// the lookup compares the key.
    pub(crate) likely_place: u8,
}

/// No hint; a bucket has far fewer places.
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
    /// The likely place is a hint and does not take part.
    fn eq(&self, other: &KeyHash) -> bool {
        (self.slot, self.hash) == (other.slot, other.hash)
    }
}

impl Eq for KeyHash {}

/// Key in a buffer, with the bytes behind it, so that it can be loaded in vectors longer than
/// itself.
#[derive(Clone, Copy, Debug, Default)]
pub struct KeyBytes<'b> {
    behind: &'b [u8],
    length: usize,
}

impl<'b> KeyBytes<'b> {
    /// Key of the first `length` bytes of `behind`, which goes on to the end of the buffer.
    ///
    /// # Panics
    ///
    /// When the buffer is shorter than the key.
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

    /// Key and the bytes behind it, to the end of the buffer.
    #[inline]
    pub(crate) fn behind(self) -> &'b [u8] {
        self.behind
    }

    /// Length of the key in bytes.
    #[inline]
    pub(crate) fn length(self) -> usize {
        self.length
    }
}
