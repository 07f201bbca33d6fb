//! Hashes of a command's keys from before its handler asks for them.
//!
//! The keys of a pipeline's requests are hashed side by side, and what is read of them is asked of
//! the memory ahead of time. A command with many keys is such a pipeline by itself: all of them are
//! hashed before its locks are taken, and while its handler is at some of them, the memory brings
//! what it will read of the next ones.

use std::ops::Range;
use std::ptr;

use smallvec::SmallVec;
use tidemill_resp::request::ArgumentView;
use tidemill_store::{KeyBytes, KeyHash, LANES, Section};

use crate::access::locks::{Slots, ascending};
use crate::limits::{HASHED_TOGETHER_MIN, PREFETCHED_ENTRIES_MAX};
use crate::shared::Shared;

/// The keys of a command that are hashed already. A key is recognized by its address, not by
/// its bytes.
#[derive(Debug)]
pub(crate) enum KeyHashes<'c> {
    None,
    One(*const [u8], KeyHash),
    Several(&'c mut HashedKeys),
}

impl KeyHashes<'_> {
    /// The same for somebody who asks for a shorter time.
    #[inline(always)]
    pub(crate) fn reborrow(&mut self) -> KeyHashes<'_> {
        match self {
            KeyHashes::None => KeyHashes::None,
            KeyHashes::One(key, hash) => KeyHashes::One(*key, *hash),
            KeyHashes::Several(keys) => KeyHashes::Several(keys),
        }
    }

    /// The slots of all keys.
    pub(crate) fn slots(&self) -> Slots {
        match self {
            KeyHashes::None => Slots::new(),
            KeyHashes::One(_, hash) => ascending([hash.slot]),
            KeyHashes::Several(keys) => ascending(keys.keys.iter().map(|(_, hash)| hash.slot)),
        }
    }
}

/// Keys that stand among a command's arguments, hashed together. Handlers ask for them in the order
/// of the arguments.
#[derive(Debug)]
pub(crate) struct HashedKeys {
    keys: SmallVec<[(*const [u8], KeyHash); 4]>,
    /// The key that is asked for next, if the handler goes on as it did.
    next: usize,
}

/// Keys that are asked of the memory together, of which the first is a multiple of it.
const WINDOW: usize = PREFETCHED_ENTRIES_MAX;

impl HashedKeys {
    /// Hashes the arguments at `positions`, and asks the memory for the words of their slots.
    #[inline(never)]
    pub(crate) fn of(shared: &Shared, args: &ArgumentView<'_>, positions: &[usize]) -> HashedKeys {
        let keyspace = &shared.keyspace;
        let mut keys = SmallVec::with_capacity(positions.len());
        for positions in positions.chunks(LANES) {
            let mut hashes = [KeyHash::default(); LANES];
            if positions.len() >= HASHED_TOGETHER_MIN {
                let mut bytes = [KeyBytes::default(); LANES];
                for (bytes, &position) in bytes.iter_mut().zip(positions) {
                    let (behind, length) = args.get_in_buffer(position);
                    *bytes = KeyBytes::new(behind, length);
                }
                hashes = keyspace.key_hashes(&bytes);
            } else {
                for (hash, &position) in hashes.iter_mut().zip(positions) {
                    *hash = keyspace.key_hash(args.get(position));
                }
            }
            for (hash, &position) in hashes.into_iter().zip(positions) {
                keyspace.prefetch_word(hash.slot);
                keys.push((ptr::from_ref(args.get(position)), hash));
            }
        }
        HashedKeys { keys, next: 0 }
    }

    /// The hash of `key`, if it is one of these and asked for in turn, again, with one left out, or
    /// from the first one on. What is read of the keys that follow is asked of the memory
    /// meanwhile.
    #[inline]
    pub(crate) fn find(
        &mut self,
        key: &[u8],
        shared: &Shared,
        database: usize,
        section: Section<'_>,
    ) -> Option<KeyHash> {
        let index = self.next;
        if let Some(&(at, hash)) = self.keys.get(index)
            && ptr::eq(at, key)
        {
            self.next += 1;
            if index.is_multiple_of(WINDOW) {
                self.look_ahead(index / WINDOW, shared, database, section);
            }
            return Some(hash);
        }
        self.find_out_of_turn(key)
    }

    fn find_out_of_turn(&mut self, key: &[u8]) -> Option<KeyHash> {
        let is_at = |&index: &usize| self.keys.get(index).is_some_and(|&(at, _)| ptr::eq(at, key));
        let index = [self.next.wrapping_sub(1), self.next + 1, 0].into_iter().find(is_at)?;
        self.next = index + 1;
        Some(self.keys[index].1)
    }

    /// Asks the memory for what is read of keys soon: for the entries of the window behind this
    /// one, the buckets of the next one and the tables of one more, so that each has come when the
    /// following is worked out from it.
    #[inline(never)]
    fn look_ahead(
        &mut self,
        window: usize,
        shared: &Shared,
        database: usize,
        section: Section<'_>,
    ) {
        // The first window has nothing before it in whose time it could have come.
        let windows =
            |last: usize| if window == 0 { 0..last + 1 } else { window + last..window + last + 1 };
        let keyspace = &shared.keyspace;
        for (_, hash) in self.window(windows(3)) {
            keyspace.prefetch_table(database, hash.slot, section);
        }
        let buckets = self.window(windows(2)).iter().map(|&(_, hash)| hash);
        keyspace.prefetch_buckets(database, buckets, section);
        let entries = self.window(windows(1)).iter_mut().map(|(_, hash)| hash);
        keyspace.prefetch_entries(database, entries, section);
    }

    /// The keys of those windows that exist.
    fn window(&mut self, windows: Range<usize>) -> &mut [(*const [u8], KeyHash)] {
        let count = self.keys.len();
        &mut self.keys[count.min(windows.start * WINDOW)..count.min(windows.end * WINDOW)]
    }
}
