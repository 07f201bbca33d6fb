//! Memory of one writing thread: bytes it published, and garbage it retired.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tidemill_rcu::{Garbage, RetireList};

use crate::claim::Claim;
use crate::epoch::active::ActiveCut;
use crate::limits::PINNED_RETAINED_ITEMS_MAX;
use crate::pin;

static HEAP_COUNT: AtomicUsize = AtomicUsize::new(0);

/// A retired node that somebody may still read beyond a section.
#[derive(Debug)]
struct Held {
    /// See [`pin::stamp`].
    pin: Option<u64>,
    /// See [`ActiveCut::tag`].
    batch: Option<u64>,
    garbage: Garbage,
}

/// Count of the live bytes that one thread added to the keyspace, and list of the garbage that it
/// retired.
///
/// One per worker; the sums over all workers are shown by `INFO memory`. A thread may retire more
/// than it published, so its own count can be negative.
#[derive(Debug)]
pub struct Heap {
    retired: RetireList,
    live_bytes: Cell<i64>,
    /// Number of pieces of deep garbage that were retired.
    deep_count: Cell<u64>,
    /// Retired nodes that a pinned version or a cut may contain, in the order of retirement.
    held_garbage: RefCell<VecDeque<Held>>,
    held_garbage_bytes: Cell<usize>,
    /// Chooses the queue of pre-images.
    number: usize,
    /// Active cut of the keyspace that it is used with; none for a heap of no domain.
    cut: Option<Arc<ActiveCut>>,
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
        Heap::with(RetireList::sealed(), None, None)
    }

    /// Heap that retires into a list of the claimed domain.
    pub(crate) fn of(retired: RetireList, claim: Arc<Claim>, cut: Arc<ActiveCut>) -> Heap {
        Heap::with(retired, Some(claim), Some(cut))
    }

    fn with(retired: RetireList, claim: Option<Arc<Claim>>, cut: Option<Arc<ActiveCut>>) -> Heap {
        Heap {
            retired,
            live_bytes: Cell::new(0),
            deep_count: Cell::new(0),
            held_garbage: RefCell::default(),
            held_garbage_bytes: Cell::new(0),
            // Relaxed: any number will do.
            number: HEAP_COUNT.fetch_add(1, Ordering::Relaxed),
            cut,
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

    /// Retires a node of a tree that was published in an era, which a pinned
    /// [`Version`](crate::Version) or the active cut may contain as well.
    pub(crate) fn retire_node(&self, garbage: Garbage, birth: u32) {
        self.retire_held(garbage, self.cut.as_ref().and_then(|cut| cut.tag_of_born(birth)));
    }

    /// As [`Heap::retire_node`] of each node, with the era of its birth.
    pub(crate) fn retire_nodes(&self, nodes: impl Iterator<Item = (Garbage, u32)>) {
        // Once for all: they went out of reach together.
        if pin::stamp().is_some() || self.cut.as_ref().is_some_and(|cut| cut.tag().is_some()) {
            return nodes.for_each(|(garbage, birth)| self.retire_node(garbage, birth));
        }
        let bytes = self.retired.retire_all(nodes.map(|(garbage, _)| garbage));
        self.live_bytes.set(self.live_bytes.get() - bytes as i64);
    }

    /// As [`Heap::retire_node`], of a whole tree, whose nodes may be of several eras.
    pub(crate) fn retire_tree(&self, garbage: Garbage) {
        self.retire_held(garbage, self.cut.as_ref().and_then(|cut| cut.tag()));
    }

    /// Era in which nodes are published now.
    pub(crate) fn era(&self) -> u32 {
        self.cut.as_ref().map_or(0, |cut| cut.era())
    }

    fn retire_held(&self, garbage: Garbage, batch: Option<u64>) {
        if garbage.is_deep() {
            self.deep_count.set(self.deep_count.get() + 1);
        }
        let pin = pin::stamp();
        if pin.is_none() && batch.is_none() {
            return self.retire(garbage);
        }
        let bytes = garbage.bytes();
        self.live_bytes.set(self.live_bytes.get() - bytes as i64);
        self.held_garbage_bytes.set(self.held_garbage_bytes.get() + bytes);
        if pin.is_some() {
            pin::count_pinned(bytes);
        }
        if let (Some(cut), Some(_)) = (&self.cut, batch) {
            cut.count_held(bytes);
        }
        self.held_garbage.borrow_mut().push_back(Held { pin, batch, garbage });
    }

    /// Moves garbage that neither a version nor a cut contains any more to the retire list, at most
    /// `items_max` items. To be called often by the thread that retires; never blocks.
    pub fn retire_unpinned(&self, items_max: usize) {
        if self.held_garbage_bytes.get() == 0 {
            return;
        }
        let mut held = self.held_garbage.borrow_mut();
        for _ in 0..items_max {
            let Some(Held { pin, batch, garbage }) = held.pop_front_if(|held| self.is_over(held))
            else {
                break;
            };
            let bytes = garbage.bytes();
            self.held_garbage_bytes.set(self.held_garbage_bytes.get() - bytes);
            if pin.is_some() {
                pin::count_unpinned(bytes);
            }
            if let (Some(cut), Some(_)) = (&self.cut, batch) {
                cut.count_freed(bytes);
            }
            self.retired.retire(garbage);
        }
        if held.is_empty() {
            held.shrink_to(PINNED_RETAINED_ITEMS_MAX);
        }
    }

    fn is_over(&self, held: &Held) -> bool {
        let is_written = match (&self.cut, held.batch) {
            (Some(cut), Some(tag)) => cut.is_over(tag),
            _ => true,
        };
        is_written && held.pin.is_none_or(pin::is_over)
    }

    /// Bytes of retired nodes that wait until versions are dropped, or until a cut is written.
    #[must_use]
    pub fn pinned_garbage_bytes(&self) -> usize {
        self.held_garbage_bytes.get()
    }

    /// Number that chooses the queue of its pre-images.
    pub(crate) fn number(&self) -> usize {
        self.number
    }

    /// True if it is of a member of the keyspace with this active cut.
    pub(crate) fn is_of(&self, cut: &Arc<ActiveCut>) -> bool {
        self.cut.as_ref().is_some_and(|own| Arc::ptr_eq(own, cut))
    }

    /// Number of pieces of deep garbage that were retired: whole values that a thread frees in the
    /// background.
    #[must_use]
    pub fn deep_count(&self) -> u64 {
        self.deep_count.get()
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
