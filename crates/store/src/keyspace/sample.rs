//! Samples of keys: counts by slot, from which a slot is drawn, and entries of one bucket.
//!
//! Without locks and without a look at the slots' words: a sample may miss what changes at this
//! moment; a thread that acts on one judges again under the slot's lock.

use std::ops::Range;
use std::sync::atomic::Ordering;

use super::Keyspace;
use crate::entry::EntryRef;
use crate::member::Section;
use crate::slot::SlotNumber;
use crate::table::KeyClass;

impl<S: Default> Keyspace<S> {
    /// Numbers of keys in slots, by ascending slot; none of a database that has never been written.
    pub fn slot_counts<'g>(
        &'g self,
        database: usize,
        keys: KeyClass,
        slots: Range<usize>,
        section: Section<'g>,
    ) -> impl Iterator<Item = u32> {
        let counts = self.database(database, section).map_or(&[][..], |found| match keys {
            KeyClass::All => &(*found.key_counts)[slots],
            KeyClass::Expiring => &(*found.expiring_counts)[slots],
        });
        // Relaxed: statistics for a thread that does not own the slots' locks.
        counts.iter().map(|count| count.load(Ordering::Relaxed))
    }

    /// Visits entries of a slot's bucket that holds the hash `from`, those of `keys` only, and
    /// returns a hash of the next bucket. Behind the last one follows the first.
    pub fn sample_bucket<'g>(
        &'g self,
        (database, slot): (usize, SlotNumber),
        from: u64,
        keys: KeyClass,
        section: Section<'g>,
        visit: &mut dyn FnMut(EntryRef<'g>),
    ) -> u64 {
        self.database(database, section).map_or(0, |database| {
            let table = &database.tables[slot];
            table.sample_bucket(from, keys, &self.seed, section, visit)
        })
    }
}
