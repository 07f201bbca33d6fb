//! Values before a run's first write to them, so that what it has written can be taken back.
//!
//! They are references: the read section of the run's first turn keeps what the run replaces. A run
//! that goes on after that has the token and is not taken back.

use std::collections::HashMap;

use tidemill_store::{Disposal, EntryRef, EntryTarget, Heap, KeyHash, OwnedEntry, Section};

use crate::access::unit::Unit;
use crate::limits::{UNDONE_KEYS_MAX, UNDONE_KEYS_SCANNED_MAX};

/// A key and its entry before.
struct Before<'g> {
    database: usize,
    key: Box<[u8]>,
    key_hash: KeyHash,
    entry: Option<EntryRef<'g>>,
}

/// Keys that a run has written to.
#[derive(Default)]
pub(super) struct Undo<'g> {
    log: Vec<Before<'g>>,
    /// Places in the log by database and hash, once there are many.
    places: Option<HashMap<(usize, u64), usize>>,
}

impl<'g> Undo<'g> {
    /// Notes a key whose slot the unit has locked, before it is written to.
    pub(super) fn note<'k: 'g>(
        &mut self,
        unit: &mut Unit<'k>,
        (database, key, key_hash): (usize, &[u8], KeyHash),
        section: Section<'g>,
    ) {
        if self.has(database, key, key_hash) {
            return;
        }
        let lock = unit.lock(key_hash.slot).expect("a key is written to with its slot locked");
        // The value has to stay as well, of which the entry may change a part.
        lock.keep_versions();
        let entry = lock.find(database, key_hash, key, section).map(|found| found.entry);
        if self.log.len() >= UNDONE_KEYS_SCANNED_MAX {
            let place = self.log.len();
            self.index().insert((database, key_hash.hash), place);
        }
        self.log.push(Before { database, key: key.into(), key_hash, entry });
    }

    /// True if the log is full: the run is not taken back any more.
    pub(super) fn is_full(&self) -> bool {
        self.log.len() >= UNDONE_KEYS_MAX
    }

    /// True if a key was noted. One that is not found although it was is noted twice, which does no
    /// harm: the first entry is put back last.
    fn has(&self, database: usize, key: &[u8], key_hash: KeyHash) -> bool {
        let is_it = |before: &Before<'_>| before.database == database && *before.key == *key;
        match &self.places {
            None => self.log.iter().any(is_it),
            Some(places) => {
                places.get(&(database, key_hash.hash)).is_some_and(|&place| is_it(&self.log[place]))
            }
        }
    }

    fn index(&mut self) -> &mut HashMap<(usize, u64), usize> {
        self.places.get_or_insert_with(|| {
            let keys = self.log.iter().map(|before| (before.database, before.key_hash.hash));
            keys.zip(0..).collect()
        })
    }

    /// Puts all entries back. The slots are held, so nobody has seen what was there between.
    pub(super) fn take_back(self, unit: &mut Unit<'_>, section: Section<'_>, heap: &Heap) {
        for Before { database, key, key_hash, entry } in self.log.into_iter().rev() {
            let lock = unit.lock(key_hash.slot).expect("a unit keeps its slots");
            let present = lock.find(database, key_hash, &key, section);
            let restored = entry.map(|entry| {
                let place = EntryTarget { key: &key, encoding: entry.encoding() };
                OwnedEntry::copy_of(entry, place, heap)
            });
            let hash = key_hash.hash;
            match (present, restored) {
                (Some(found), Some(entry)) => {
                    lock.replace(database, hash, found, entry, Disposal::RetireValue, heap);
                }
                (Some(found), None) => {
                    lock.remove(database, hash, found, Disposal::RetireValue, section, heap);
                }
                (None, Some(entry)) => lock.insert(database, hash, entry, section, heap),
                (None, None) => {}
            }
        }
    }
}
