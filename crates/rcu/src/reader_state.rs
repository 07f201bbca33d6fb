//! Reader state: the word that shows all writers whether one reader is in a section, and since
//! when.

use crate::flavour::Flavour;
use crate::limits::{SECTION_DEPTH_BITS, SECTION_DEPTH_MAX};
use crate::primitive::{AtomicU64, Ordering, ThreadId, current, fence};

/// Step of the counter at the start of a grace period: one above the bits that count nested
/// sections.
pub(crate) const COUNTER_STEP: u64 = 1 << SECTION_DEPTH_BITS;

const DEPTH_MASK: u64 = SECTION_DEPTH_MAX;

/// State of one registered reader. Stored by its own thread only, except `barrier_requested`.
///
/// Every store of `word` is a release: a scan that loads any of them, also one that opens the next
/// section, may take the sections before it for finished, and the loads of these must happen before
/// the free that follows. (A relaxed store after a release one does not continue it.) They all pair
/// with the acquire load in `is_past`.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct ReaderState {
    word: AtomicU64,
    owner: ThreadId,
    /// Thread that the signal flavour sends its signals to.
    pub(crate) kernel_thread: libc::pid_t,
    /// Number of the last barrier asked of this thread, and of the last one it executed (signal
    /// flavour only).
    pub(crate) barrier_requested: AtomicU64,
    pub(crate) barrier_done: AtomicU64,
}

impl ReaderState {
    /// A state of the calling thread, outside any section.
    pub(crate) fn of_this_thread() -> ReaderState {
        ReaderState {
            word: AtomicU64::new(0),
            owner: current().id(),
            kernel_thread: crate::signal::this_kernel_thread(),
            barrier_requested: AtomicU64::new(0),
            barrier_done: AtomicU64::new(0),
        }
    }

    /// Opens a section, or one more inside an open one.
    #[inline(always)]
    pub(crate) fn enter<F: Flavour>(&self, counter: &AtomicU64, barrier_by_writer: bool) {
        // Relaxed: this thread's own store.
        let word = self.word.load(Ordering::Relaxed);
        if word & DEPTH_MASK == 0 {
            // Acquire pairs with the release in `Grace::start`: a reader that carries that value
            // sees everything unlinked before it.
            let now = counter.load(Ordering::Acquire);
            self.word.store(now | 1, Ordering::Release);
            F::order_entry(barrier_by_writer);
        } else {
            assert!(word & DEPTH_MASK < SECTION_DEPTH_MAX, "too many nested read sections");
            self.word.store(word + 1, Ordering::Release);
        }
    }

    /// Closes the innermost section.
    #[inline(always)]
    pub(crate) fn leave(&self) {
        // Relaxed: this thread's own store.
        let word = self.word.load(Ordering::Relaxed);
        self.word.store(word - 1, Ordering::Release);
    }

    /// Announces that no reference read before is in use any more; true unless that was announced
    /// already.
    ///
    /// No fence: the release store puts all earlier loads before the scan that sees it; the acquire
    /// load makes all later ones see everything unlinked before that counter value. A scan that
    /// misses the store waits longer. liburcu's fences here order the wake-up of a sleeping writer;
    /// here it may be missed, see `Doorbell`.
    #[inline(always)]
    pub(crate) fn announce(&self, counter: &AtomicU64) -> bool {
        // Acquire pairs with the release in `Grace::start`.
        let announced = counter.load(Ordering::Acquire) | 1;
        // Relaxed: this thread's own store.
        let is_new = self.word.load(Ordering::Relaxed) != announced;
        if is_new {
            self.word.store(announced, Ordering::Release);
        }
        is_new
    }

    /// Begins to be waited for, from outside any section.
    pub(crate) fn go_online(&self, counter: &AtomicU64) {
        // Acquire pairs with the release in `Grace::start`.
        let now = counter.load(Ordering::Acquire);
        self.word.store(now | 1, Ordering::Release);
        // Pairs with the fence of `Barrier::issue`: either the scan sees this reader's word or the
        // reader sees the unlinking.
        fence(Ordering::SeqCst);
    }

    /// Stops being waited for.
    pub(crate) fn go_offline(&self) {
        self.word.store(0, Ordering::Release);
    }

    /// True if the reader is in a section (or online, where readers announce).
    pub(crate) fn is_active(&self) -> bool {
        // Relaxed: asked by the state's own thread only.
        self.word.load(Ordering::Relaxed) & DEPTH_MASK != 0
    }

    /// True if the state belongs to `thread`.
    pub(crate) fn is_of(&self, thread: ThreadId) -> bool {
        self.owner == thread
    }

    /// True if this reader can no longer hold references to memory that was unlinked before the
    /// counter reached `target`.
    pub(crate) fn is_past(&self, target: u64) -> bool {
        // Acquire pairs with every store of `word`.
        let word = self.word.load(Ordering::Acquire);
        word & DEPTH_MASK == 0 || word >= target
    }
}
