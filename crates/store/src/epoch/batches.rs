//! Numbers by which retired nodes wait until the walker has written what it took over.
//!
//! The walker increments the number of the batch, takes over all pre-images, claims entries, writes
//! all of it, and then says that the batch is done. A node that is retired with the number `b` may
//! be part of what was taken over in batch `b` or before, or in `b + 1`: it may go when `b + 1` is
//! done.
//!
//! 1. A pre-image is pushed, under the mutex of its queue, before the number is read for its nodes.
//!    If the walker drained that queue before the push, its unlock happens before the push and the
//!    number that is read is at least that of the draining batch: the next batch has the pre-image.
//!    Otherwise the draining batch has it.
//! 2. A root is claimed under the lock of its slot, and its nodes are retired under the same lock
//!    later: the number that is read is at least that of the claiming batch.
//! 3. Nodes of a pre-image that another thread retires, after a later change of the same key: that
//!    thread has had the lock of the slot behind the push, so 1 holds for it too.
//!
//! Hence the numbers themselves need no ordering; `done` orders the walker's reads before the
//! freeing.

#[cfg(all(test, loom))]
#[path = "model.rs"]
mod model;

use crate::primitive::{AtomicU64, Ordering};

/// Numbers of the batch at hand and of the last one that is written.
#[derive(Debug)]
pub(crate) struct Batches {
    number: AtomicU64,
    done: AtomicU64,
}

impl Default for Batches {
    fn default() -> Batches {
        Batches { number: AtomicU64::new(1), done: AtomicU64::new(0) }
    }
}

impl Batches {
    /// Begins the next batch. Only the walker calls this.
    pub(crate) fn begin(&self) {
        // Relaxed, both: one writer; what has to see it is ordered by mutexes and locks, see the
        // module.
        let number = self.number.load(Ordering::Relaxed);
        self.number.store(number + 1, Ordering::Relaxed);
    }

    /// All that was taken over in this batch and before is written. Only the walker calls this.
    pub(crate) fn end(&self) {
        let number = self.number.load(Ordering::Relaxed);
        // Release: pairs with the Acquire of `is_over`; what was read of nodes comes before.
        self.done.store(number, Ordering::Release);
    }

    /// Tag of a node that is retired now.
    #[inline]
    pub(crate) fn tag(&self) -> u64 {
        // Relaxed: see the module.
        self.number.load(Ordering::Relaxed)
    }

    /// True if nothing that was taken over can contain a node with this tag.
    pub(crate) fn is_over(&self, tag: u64) -> bool {
        // Acquire: pairs with the Release of `end`.
        self.done.load(Ordering::Acquire) > tag
    }
}
