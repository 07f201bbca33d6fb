//! The memory of one writing thread: what it published and what it took out of reach.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::sync::Arc;

use tidemill_rcu::{Garbage, RetireList};

use crate::limits::HELD_RETAINED_ITEMS_MAX;
use crate::member::Claim;
use crate::pin;

/// Counts the live bytes that one thread added to the keyspace, and retires what it took out.
///
/// One per worker; the sums over all workers are what `INFO memory` shows. A thread may take out more than it
/// put in, so its own count can be negative.
#[derive(Debug)]
pub struct Heap {
    retired: RetireList,
    live_bytes: Cell<i64>,
    /// Retired nodes that a pinned version may contain, with their stamps, in the order of retirement.
    held: RefCell<VecDeque<(u64, Garbage)>>,
    held_bytes: Cell<usize>,
    /// The domain of the keyspaces that it may be used with; none when what it retires is never freed.
    _claim: Option<Arc<Claim>>,
}

impl Default for Heap {
    fn default() -> Heap {
        Heap::new()
    }
}

impl Heap {
    /// A heap of no domain: what it retires is freed by [`RetireList::free_all`] or never. For what nobody else reads.
    /// Threads that share a keyspace have theirs from [`Member::heap`](crate::Member::heap).
    #[must_use]
    pub fn new() -> Heap {
        Heap::with(RetireList::sealed(), None)
    }

    /// A heap that retires into a list of the claimed domain.
    pub(crate) fn of(retired: RetireList, claim: Arc<Claim>) -> Heap {
        Heap::with(retired, Some(claim))
    }

    fn with(retired: RetireList, claim: Option<Arc<Claim>>) -> Heap {
        Heap {
            retired,
            live_bytes: Cell::new(0),
            held: RefCell::default(),
            held_bytes: Cell::new(0),
            _claim: claim,
        }
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

    /// Retires what was counted as no longer live already, or never was.
    pub(crate) fn retire_uncounted(&self, garbage: Garbage) {
        self.retired.retire(garbage);
    }

    /// Retires a node of a tree, or a whole tree, which a [`Version`](crate::Version) may contain besides.
    pub(crate) fn retire_node(&self, garbage: Garbage) {
        let Some(stamp) = pin::stamp() else { return self.retire(garbage) };
        let bytes = garbage.bytes();
        self.live_bytes.set(self.live_bytes.get() - bytes as i64);
        self.held_bytes.set(self.held_bytes.get() + bytes);
        pin::hold(bytes);
        self.held.borrow_mut().push_back((stamp, garbage));
    }

    /// Hands on to the retired memory what no version contains any more, at most `items_max` pieces. To be called often by
    /// the thread that retires; never blocks.
    pub fn release_held(&self, items_max: usize) {
        if self.held_bytes.get() == 0 {
            return;
        }
        let mut held = self.held.borrow_mut();
        for _ in 0..items_max {
            let Some((_, garbage)) = held.pop_front_if(|(stamp, _)| pin::is_over(*stamp)) else {
                break;
            };
            let bytes = garbage.bytes();
            self.held_bytes.set(self.held_bytes.get() - bytes);
            pin::let_go(bytes);
            self.retired.retire(garbage);
        }
        if held.is_empty() {
            held.shrink_to(HELD_RETAINED_ITEMS_MAX);
        }
    }

    /// Bytes of retired nodes that wait for versions to be dropped.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        self.held_bytes.get()
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

impl Drop for Heap {
    fn drop(&mut self) {
        // What a version still contains is never freed: a thread that retires ends with the server.
        self.release_held(usize::MAX);
    }
}
