//! Memory of one writing thread: bytes it published, and garbage it retired.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::sync::Arc;

use tidemill_rcu::{Garbage, RetireList};

use crate::claim::Claim;
use crate::limits::PINNED_RETAINED_ITEMS_MAX;
use crate::pin;

/// Count of the live bytes that one thread added to the keyspace, and list of the garbage that it
/// retired.
///
/// One per worker; the sums over all workers are shown by `INFO memory`. A thread may retire more
/// than it published, so its own count can be negative.
#[derive(Debug)]
pub struct Heap {
    retired: RetireList,
    live_bytes: Cell<i64>,
    /// Retired nodes that a pinned version may contain, with their stamps, in the order of
    /// retirement.
    pinned_garbage: RefCell<VecDeque<(u64, Garbage)>>,
    pinned_garbage_bytes: Cell<usize>,
    /// Domain of the keyspaces that it may be used with; none when its garbage is never freed.
    _claim: Option<Arc<Claim>>,
}

impl Default for Heap {
    fn default() -> Heap {
        Heap::new()
    }
}

impl Heap {
    /// Heap of no domain: its garbage is freed by [`RetireList::free_all`] or never. For structures
    /// that no other thread reads. Threads that share a keyspace get theirs from
    /// [`Member::heap`](crate::Member::heap).
    #[must_use]
    pub fn new() -> Heap {
        Heap::with(RetireList::sealed(), None)
    }

    /// Heap that retires into a list of the claimed domain.
    pub(crate) fn of(retired: RetireList, claim: Arc<Claim>) -> Heap {
        Heap::with(retired, Some(claim))
    }

    fn with(retired: RetireList, claim: Option<Arc<Claim>>) -> Heap {
        Heap {
            retired,
            live_bytes: Cell::new(0),
            pinned_garbage: RefCell::default(),
            pinned_garbage_bytes: Cell::new(0),
            _claim: claim,
        }
    }

    /// Counts `bytes` of memory that readers will be able to reach.
    pub fn allocated(&self, bytes: usize) {
        self.live_bytes.set(self.live_bytes.get() + bytes as i64);
    }

    /// Takes back the count of `bytes` that were allocated but never published, and that the caller
    /// frees itself.
    pub fn discarded(&self, bytes: usize) {
        self.live_bytes.set(self.live_bytes.get() - bytes as i64);
    }

    /// Retires memory that readers cannot newly reach: its bytes are no longer live, and it is
    /// freed after a grace period.
    pub fn retire(&self, garbage: Garbage) {
        self.live_bytes.set(self.live_bytes.get() - garbage.bytes() as i64);
        self.retired.retire(garbage);
    }

    /// Retires memory whose bytes are not counted as live, or are accounted for elsewhere.
    pub(crate) fn retire_uncounted(&self, garbage: Garbage) {
        self.retired.retire(garbage);
    }

    /// Retires a node of a tree, or a whole tree, which a pinned [`Version`](crate::Version) may
    /// contain as well.
    pub(crate) fn retire_node(&self, garbage: Garbage) {
        let Some(stamp) = pin::stamp() else { return self.retire(garbage) };
        let bytes = garbage.bytes();
        self.live_bytes.set(self.live_bytes.get() - bytes as i64);
        self.pinned_garbage_bytes.set(self.pinned_garbage_bytes.get() + bytes);
        pin::count_pinned(bytes);
        self.pinned_garbage.borrow_mut().push_back((stamp, garbage));
    }

    /// Moves garbage that no version contains any more to the retire list, at most `items_max`
    /// items. To be called often by the thread that retires; never blocks.
    pub fn retire_unpinned(&self, items_max: usize) {
        if self.pinned_garbage_bytes.get() == 0 {
            return;
        }
        let mut pinned = self.pinned_garbage.borrow_mut();
        for _ in 0..items_max {
            let Some((_, garbage)) = pinned.pop_front_if(|(stamp, _)| pin::is_over(*stamp)) else {
                break;
            };
            let bytes = garbage.bytes();
            self.pinned_garbage_bytes.set(self.pinned_garbage_bytes.get() - bytes);
            pin::count_unpinned(bytes);
            self.retired.retire(garbage);
        }
        if pinned.is_empty() {
            pinned.shrink_to(PINNED_RETAINED_ITEMS_MAX);
        }
    }

    /// Bytes of retired nodes that wait until versions are dropped.
    #[must_use]
    pub fn pinned_garbage_bytes(&self) -> usize {
        self.pinned_garbage_bytes.get()
    }

    /// Live bytes: allocated, minus discarded and retired.
    #[must_use]
    pub fn live_bytes(&self) -> i64 {
        self.live_bytes.get()
    }

    /// Retired memory that waits for its grace period.
    #[must_use]
    pub fn retired(&self) -> &RetireList {
        &self.retired
    }
}

impl Drop for Heap {
    fn drop(&mut self) {
        // Garbage that a version still contains is never freed: a thread that retires ends with the
        // server.
        self.retire_unpinned(usize::MAX);
    }
}
