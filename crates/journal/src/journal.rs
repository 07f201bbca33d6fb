//! Numbers, lanes and the one merge.

use crate::lane::Lane;
use crate::merge::{Merge, Merged};
use crate::primitive::{AtomicU64, Mutex, MutexGuard, Ordering, lock};
use crate::record::Record;

/// Place of a record in the journal. Ascending from 1, without gaps.
pub type RecordNumber = u64;

/// The journal.
#[derive(Debug)]
pub struct Journal {
    allocated: Allocated,
    lanes: Box<[Lane]>,
    merge: Mutex<Merge>,
}

/// Last number that was taken. On cache lines of its own: every writing unit changes it.
#[derive(Debug)]
#[repr(align(128))]
struct Allocated(AtomicU64);

impl Journal {
    /// A journal with one lane for each worker.
    #[must_use]
    pub fn new(lane_count: usize) -> Journal {
        Journal {
            allocated: Allocated(AtomicU64::new(0)),
            lanes: (0..lane_count).map(|_| Lane::new()).collect(),
            merge: Mutex::new(Merge::new(lane_count)),
        }
    }

    /// Takes the next number. Its record has to be pushed, an empty one too: the merge waits for
    /// it. Does not block.
    pub fn allocate(&self) -> RecordNumber {
        // Relaxed: one number each is all that is asked. A thread that sees what the number was
        // taken for sees the number too, because it was taken before that was published.
        self.allocated.0.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// The last number that was taken, by whomever: everything that the calling thread has seen has
    /// this number or a lower one.
    #[must_use]
    pub fn allocated(&self) -> RecordNumber {
        // Relaxed: see `allocate`.
        self.allocated.0.load(Ordering::Relaxed)
    }

    /// Pushes the record of a number, which is empty afterwards. Its lane's numbers ascend. Does
    /// not block for longer than two buffers are exchanged.
    pub fn push(&self, lane: usize, number: RecordNumber, record: &mut Record) {
        self.lanes[lane].push(number, record);
    }

    /// True if the merge is so late that the lane's worker is to begin no further write.
    #[must_use]
    pub fn is_crowded(&self, lane: usize) -> bool {
        self.lanes[lane].is_crowded()
    }

    /// The merge. Waits while another thread has it.
    pub fn merge(&self) -> MutexGuard<'_, Merge> {
        lock(&self.merge)
    }

    /// Appends to the stream what is there of all numbers taken so far. It may stop short of one
    /// whose unit is under way.
    pub fn drain(&self, merge: &mut Merge) -> Merged {
        merge.drain(&self.lanes, self.allocated())
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
