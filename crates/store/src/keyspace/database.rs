//! One database of the keyspace: its tables and counts.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use super::slot_bits::SlotBits;
use crate::entry::Marks;
use crate::limits::{SLOT_COUNT, UNCOUNTED_DATABASES};
use crate::slot::{PerSlot, SlotNumber};
use crate::table::Table;

/// One database: a table per slot.
pub(crate) struct Database {
    pub(crate) tables: PerSlot<Table>,
    /// Bits of all slots that may have keys. A slot's bit is changed under its lock: set before the
    /// first key is published, and cleared some time after the last one went, by a walk.
    pub(crate) nonempty: SlotBits,
    pub(crate) key_counts: PerSlot<AtomicU32>,
    pub(crate) expiring_counts: PerSlot<AtomicU32>,
    /// Live bytes of entries, values and tables, by slot.
    live_bytes: PerSlot<AtomicU64>,
    /// Bytes of its own arrays that count as live: none of the first databases, as those of the
    /// keyspace's slots do not. What a limit leaves is room for data.
    own_bytes: usize,
    /// Hashes with fields that expire. One count for all slots, because it changes seldom.
    pub(crate) volatile_count: AtomicU64,
    /// Number that it had at the last cut.
    cut_number: AtomicU32,
    /// A cut reads it.
    is_held: AtomicBool,
}

/// Bytes of the arrays of a database.
const ARRAYS_BYTES: usize = {
    let counts = 2 * size_of::<AtomicU32>() + size_of::<AtomicU64>();
    SLOT_COUNT * (size_of::<Table>() + counts) + SLOT_COUNT / 8
};

impl Database {
    /// Empty database that is made at an index.
    pub(crate) fn new(index: usize) -> Database {
        Database {
            tables: PerSlot::default(),
            nonempty: SlotBits::default(),
            key_counts: PerSlot::default(),
            expiring_counts: PerSlot::default(),
            live_bytes: PerSlot::default(),
            own_bytes: if index < UNCOUNTED_DATABASES { 0 } else { ARRAYS_BYTES },
            volatile_count: AtomicU64::new(0),
            cut_number: AtomicU32::new(0),
            is_held: AtomicBool::new(false),
        }
    }

    /// A cut begins that has this database under a number. The gate is closed.
    pub(crate) fn hold(&self, number: usize) {
        // Relaxed, both: the gate orders them.
        self.cut_number.store(number as u32, Ordering::Relaxed);
        self.is_held.store(true, Ordering::Relaxed);
    }

    /// The cut has ended.
    pub(crate) fn release(&self) {
        // Release: pairs with the Acquire of `is_held`; what the cut read comes before.
        self.is_held.store(false, Ordering::Release);
    }

    /// True if a cut reads the database.
    pub(crate) fn is_held(&self) -> bool {
        // Acquire: pairs with the Release of `release`. The database was detached with the gate
        // closed, so a cut that began before is seen.
        self.is_held.load(Ordering::Acquire)
    }

    /// Number that it had at the last cut.
    pub(crate) fn cut_number(&self) -> u32 {
        // Relaxed: written with the gate closed.
        self.cut_number.load(Ordering::Relaxed)
    }

    /// Bytes of its own arrays that count as live.
    pub(crate) fn own_bytes(&self) -> usize {
        self.own_bytes
    }

    /// Counts bytes published in `slot`, less those retired. Called by the owner of the slot's
    /// lock.
    #[inline]
    pub(crate) fn count_bytes(&self, slot: SlotNumber, bytes: i64) {
        let live = &self.live_bytes[slot];
        // Relaxed, both: written by the lock's owner only; for others a statistic.
        let sum = live.load(Ordering::Relaxed).wrapping_add_signed(bytes);
        live.store(sum, Ordering::Relaxed);
    }

    /// Live bytes, with [`Database::own_bytes`].
    pub(crate) fn total_bytes(&self) -> u64 {
        // Relaxed: each is exact for its slot; the sum is exact while no slot is written.
        let live = self.live_bytes.iter().map(|bytes| bytes.load(Ordering::Relaxed));
        live.fold(self.own_bytes as u64, u64::wrapping_add)
    }

    /// Lets walks look at `slot`. Called by the owner of the slot's lock before it publishes a key,
    /// behind it with Release: a thread that has seen the key, or was told of it, sees the bit.
    #[inline]
    pub(crate) fn note_nonempty(&self, slot: SlotNumber) {
        self.nonempty.note(slot);
    }

    /// Lets walks pass `slot` by if it has no keys. Called by a thread that has just taken the
    /// slot's lock: no change is half done.
    pub(crate) fn note_empty(&self, slot: SlotNumber) {
        if self.slot_key_count(slot) == 0 {
            self.nonempty.forget(slot);
        }
    }

    /// Number of keys in `slot`: exact for the owner of its lock, and for a reader if the slot's
    /// word is unchanged since before.
    pub(crate) fn slot_key_count(&self, slot: SlotNumber) -> u32 {
        // Relaxed: the lock orders it for its owner, the fences of the slot's word for a reader.
        self.key_counts[slot].load(Ordering::Relaxed)
    }

    /// Counts keys added to or removed from `slot`, and the change of their marks. Called by the
    /// owner of the slot's lock; with an odd version when the number of keys changes.
    pub(crate) fn count(&self, slot: SlotNumber, keys: i32, old: Marks, new: Marks) {
        let step = |was: bool, is: bool| i32::from(is) - i32::from(was);
        // Relaxed, all: written by the lock's owner only; for others a statistic, or judged by the
        // slot's word.
        let before = self.key_counts[slot].load(Ordering::Relaxed);
        self.key_counts[slot].store(before.wrapping_add_signed(keys), Ordering::Relaxed);
        let expiring = step(old.expires, new.expires);
        if expiring != 0 {
            let sum = self.expiring_counts[slot].load(Ordering::Relaxed);
            self.expiring_counts[slot].store(sum.wrapping_add_signed(expiring), Ordering::Relaxed);
        }
        let volatile = i64::from(step(old.has_volatile_items, new.has_volatile_items));
        if volatile != 0 {
            // Relaxed: a statistic; all slots share it, hence the read-modify-write.
            self.volatile_count.fetch_add(volatile.cast_unsigned(), Ordering::Relaxed);
        }
    }

    pub(crate) fn key_count(&self) -> u64 {
        // Relaxed: each is exact for its slot; the sum is atomic per slot only.
        self.key_counts.iter().map(|count| u64::from(count.load(Ordering::Relaxed))).sum()
    }

    pub(crate) fn expiring_count(&self) -> u64 {
        // Relaxed: as in `key_count`.
        self.expiring_counts.iter().map(|count| u64::from(count.load(Ordering::Relaxed))).sum()
    }
}
