//! Findings of a reading command under the locks of its slots.
//!
//! A read that was disturbed takes the locks of its slots. A command that takes long would keep
//! writers waiting for all of that time, so it keeps the locks only while its keys are looked up.
//! The read section keeps what was found, and entries never change. Of collections that may change
//! under their entries, the versions are pinned under the locks. So all of it is of one moment,
//! whatever is published afterwards.

use std::ptr;

use tidemill_store::{EntryRef, Pin};

use crate::expiry_clock::ExpiryClock;

/// The keys of a command with what was under them at one moment.
#[derive(Debug)]
pub(crate) struct FoundKeys<'g> {
    database: usize,
    /// A key is recognized by its address, as by
    /// [`KeyHashes`](crate::access::key_hashes::KeyHashes).
    keys: Vec<(*const [u8], Option<EntryRef<'g>>)>,
    /// The key that is asked for next, if the handler goes on as it did.
    next: usize,
    lacked_any: bool,
    clock: ExpiryClock,
    /// Keeps the found versions, where they could change.
    pin: Option<Pin>,
}

impl<'g> FoundKeys<'g> {
    /// Nothing found yet in a database; `clock` was taken under the locks.
    pub(crate) fn new(database: usize, count: usize, clock: ExpiryClock) -> FoundKeys<'g> {
        let keys = Vec::with_capacity(count);
        FoundKeys { database, keys, next: 0, lacked_any: false, clock, pin: None }
    }

    /// Adds a key of the arguments, and its entry when there is one that has not expired.
    pub(crate) fn add(&mut self, key: &[u8], entry: Option<EntryRef<'g>>) {
        self.keys.push((ptr::from_ref(key), entry));
    }

    /// True if a found collection may change under its entry, unless it is pinned.
    pub(crate) fn need_pin(&self) -> bool {
        self.keys.iter().any(|(_, entry)| entry.is_some_and(EntryRef::may_change))
    }

    /// Takes a pin, which began under the locks of all slots.
    pub(crate) fn keep(&mut self, pin: Pin) {
        self.pin = Some(pin);
    }

    /// Entries of the keys, in the order in which they were added.
    pub(crate) fn entries(&self) -> Vec<Option<EntryRef<'g>>> {
        self.keys.iter().map(|&(_, entry)| entry).collect()
    }

    /// True if all that is read of the entries is settled: a field that expires may be judged only
    /// with the slot in hand.
    pub(crate) fn is_settled(&self) -> bool {
        !self
            .keys
            .iter()
            .any(|(_, entry)| entry.is_some_and(|entry| entry.marks().has_volatile_items))
    }

    /// Clock of the command.
    pub(crate) fn clock(&self) -> ExpiryClock {
        self.clock
    }

    /// True if it was asked for a key that it does not have.
    pub(crate) fn lacked_any(&self) -> bool {
        self.lacked_any
    }

    /// The entry under a key.
    #[inline(never)]
    pub(crate) fn find(&mut self, database: usize, key: &[u8]) -> Option<EntryRef<'g>> {
        let is_at = |&index: &usize| self.keys.get(index).is_some_and(|(at, _)| ptr::eq(*at, key));
        // Handlers ask for their keys in order, mostly, or for the same one again.
        let nearby = [self.next, self.next.wrapping_sub(1)].into_iter().find(is_at);
        let index = nearby.or_else(|| (0..self.keys.len()).find(is_at));
        let Some(index) = index.filter(|_| database == self.database) else {
            self.lacked_any = true;
            return None;
        };
        self.next = index + 1;
        self.keys[index].1
    }
}
