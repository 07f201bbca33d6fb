//! Last record of the journal that changed each slot: what a reply that shows its keys depends on.
//!
//! Everything that was numbered before a reply was made would do as well, and does for most
//! replies. But where records wait for the device, a read would wait for the writes of others.

use std::sync::atomic::{AtomicU64, Ordering};

use tidemill_store::SlotNumber;
use tidemill_store::limits::SLOT_COUNT;

use crate::commit::RecordNumber;

/// Last record of each slot.
#[derive(Debug)]
pub struct SlotRecords {
    slots: Box<[AtomicU64]>,
    /// Last record of a unit that may have changed any slot.
    any: AtomicU64,
}

impl Default for SlotRecords {
    fn default() -> SlotRecords {
        SlotRecords {
            slots: (0..SLOT_COUNT).map(|_| AtomicU64::new(0)).collect(),
            any: AtomicU64::new(0),
        }
    }
}

impl SlotRecords {
    /// A unit that has locked these slots takes a number, before anything of it can be seen.
    #[cold]
    pub(crate) fn note(&self, slots: impl Iterator<Item = SlotNumber>, number: RecordNumber) {
        for slot in slots {
            // Relaxed: a thread that sees what the unit publishes, with Release, sees this too. The
            // slot is locked, so that the numbers of its units ascend.
            self.slots[slot.index()].store(number, Ordering::Relaxed);
        }
    }

    /// As [`SlotRecords::note`], of a unit that runs alone and may change any slot.
    #[cold]
    pub(crate) fn note_any(&self, number: RecordNumber) {
        // Relaxed: the gate orders it before everything that others do once it is open.
        self.any.store(number, Ordering::Relaxed);
    }

    /// The last record that anything depends on which the calling thread has seen in a slot.
    #[inline]
    pub(crate) fn last(&self, slot: SlotNumber) -> RecordNumber {
        // Relaxed: see `note`. A later number than the one that was seen is right as well.
        let own = self.slots[slot.index()].load(Ordering::Relaxed);
        own.max(self.any.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_has_its_own_last_record_or_that_of_a_unit_of_all() {
        let records = SlotRecords::default();
        let slot = |number: usize| SlotNumber::from_index(number).expect("it is in range");
        records.note([slot(0), slot(16383)].into_iter(), 3);
        records.note(std::iter::once(slot(0)), 5);
        let last = |number| records.last(slot(number));
        assert_eq!([last(0), last(1), last(16383)], [5, 0, 3]);
        records.note_any(4);
        assert_eq!([last(0), last(1), last(16383)], [5, 4, 4]);
    }
}
