//! The expiry floor: what one thread has found expired is expired for every thread, whatever their
//! clocks say.
//!
//! Threads judge expiries by clocks that differ by a moment. A thread that finds something expired
//! raises the floor to the time that it judged by, and no thread judges by an earlier time than the
//! floor. Two orders make this a rule without exception:
//! ```text
//! reader, no lock: load word · look up · find it expired · raise floor · full fence · load word
//! writer:          lock the last of its slots · full fence · load floor · judge · publish · unlock
//! ```
//!
//! Of two threads that each store, fence, and load the other's store, one sees the other's.
//! Therefore either the writer judges by the raised floor, or the reader finds the slot locked or
//! changed and its finding does not count: it looks again, behind the writer. A reader that finds
//! something alive needs neither fence nor second look: it was alive when the floor was loaded, and
//! if the entry had been replaced by then, earlier still.
//!
//! A finding under a slot's lock raises the floor before the slot is released, and needs no more
//! than that.

use super::{SlotWord, Word};
use crate::primitive::{AtomicU64, Ordering, fence};

/// Lower bound of the time, Unix ms, by which expiries are judged. It only rises.
#[derive(Debug)]
pub struct ExpiryFloor {
    ms: AtomicU64,
}

impl Default for ExpiryFloor {
    fn default() -> Self {
        ExpiryFloor { ms: AtomicU64::new(0) }
    }
}

impl ExpiryFloor {
    /// Loads the floor, for a thread that holds no lock of what it judges.
    #[must_use]
    #[inline]
    pub fn load(&self) -> u64 {
        // Acquire: pairs with the Release in `raise`.
        self.ms.load(Ordering::Acquire)
    }

    /// Loads the floor, for a thread that holds the locks of everything that it judges: to be
    /// called after the last of them was taken.
    #[must_use]
    #[inline]
    pub fn load_locked(&self) -> u64 {
        // Full: pairs with the fence in `confirms_expired`. Either this load sees the floor that
        // the reader raised before its fence, or the reader's load of the word behind its fence
        // sees the lock bit stored before this one.
        fence(Ordering::SeqCst);
        self.load()
    }

    /// Raises the floor to `ms` if it is lower. For a thread that holds the lock of the slot in
    /// question, or none at all when the finding is no answer to anybody.
    pub fn raise(&self, ms: u64) {
        // Relaxed: only spares the read-modify-write. If another thread's raise is read here,
        // `confirms_expired` still holds: behind its fence the floor is at least `ms` for every
        // thread that sees that fence.
        if self.ms.load(Ordering::Relaxed) < ms {
            // Release: pairs with the Acquire in `load`.
            self.ms.fetch_max(ms, Ordering::Release);
        }
    }

    /// Raises the floor to `ms`, by which something in the slot of `word` was found expired without
    /// a lock; `before` is the word as loaded before the lookup. True if the finding counts; if
    /// not, the lookup has to be repeated.
    #[must_use]
    #[cold]
    pub fn confirms_expired(&self, ms: u64, word: &SlotWord, before: Word) -> bool {
        self.raise(ms);
        // Full: pairs with the fence in `load_locked`.
        fence(Ordering::SeqCst);
        let now = word.load();
        !now.is_locked() && before.is_unchanged(now)
    }
}
