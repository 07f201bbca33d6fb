//! The memory of one writing thread: what it published and what it took out of reach.

use std::cell::Cell;

use tidemill_rcu::{Garbage, RetireList};

/// Counts the live bytes that one thread added to the keyspace, and retires what it took out.
///
/// One per worker; the sums over all workers are what `INFO memory` shows. A thread may take out more than it
/// put in, so its own count can be negative.
#[derive(Debug, Default)]
pub struct Heap {
    retired: RetireList,
    live_bytes: Cell<i64>,
}

impl Heap {
    /// A heap with nothing in it.
    #[must_use]
    pub fn new() -> Heap {
        Heap::default()
    }

    /// A heap that retires into `retired`.
    #[must_use]
    pub fn with_retired(retired: RetireList) -> Heap {
        Heap { retired, live_bytes: Cell::new(0) }
    }

    /// Counts `bytes` that readers will be able to reach.
    pub fn allocated(&self, bytes: usize) {
        self.live_bytes.set(self.live_bytes.get() + bytes as i64);
    }

    /// Takes back the count of `bytes` that were allocated but never published, and that the caller freed itself.
    pub fn discarded(&self, bytes: usize) {
        self.live_bytes.set(self.live_bytes.get() - bytes as i64);
    }

    /// Retires memory that nothing can newly reach: its bytes are no longer live, and it is freed after a grace period.
    pub fn retire(&self, garbage: Garbage) {
        self.live_bytes.set(self.live_bytes.get() - garbage.bytes() as i64);
        self.retired.retire(garbage);
    }

    /// Live bytes: allocated minus discarded and retired.
    #[must_use]
    pub fn live_bytes(&self) -> i64 {
        self.live_bytes.get()
    }

    /// The retired memory that waits for its grace period.
    #[must_use]
    pub fn retired(&self) -> &RetireList {
        &self.retired
    }
}
