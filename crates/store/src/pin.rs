//! Versions of collections that are read beyond a read section.
//!
//! A reply of a million elements takes longer than a worker may keep its other clients waiting, and
//! a client may read it slowly. It is therefore made piece by piece, with sections and
//! announcements of quiescence between the pieces, and its elements must outlive them. A
//! [`Version`](crate::Version) pins them: nodes of trees that are retired while it lives are kept
//! as *pinned garbage* by the heap that retired them, and reach the retire list only when every
//! version that may contain them is gone.
//!
//! Pins are numbered. A retired node is stamped with the number that the next pin will get; it may
//! go once no pin below that number is left. Numbers and not a count of pins, so that long replies
//! which overlap without end do not keep everything.
//!
//! ```text
//! reader  lock slot · begin pin 7 · take the root · unlock      ... read ...    end pin 7
//! writer                           lock slot · publish · retire: stamp 8 ────────┴─▶ retire list
//! ```
//!
//! No node of a pinned version is missed: a version is pinned under its slot's lock while it is the
//! current one. A node of it is taken out of reach by a writer that has locked the slot later, or
//! that has locked, together with it, the slot that the value was moved to, or that has closed the
//! gate later: the pin happens before its look at the numbers. A node that was retired before
//! cannot be reached from a root that is current now.
//!
//! For the same reason a writer that finds no living pin, under the slot's lock, may replace a leaf
//! of the tree where it is: no version of that tree is pinned, and those that were are not read any
//! more (the model is in `model.rs`).
//!
//! The numbers are the process's and not a keyspace's: a heap does not know whose nodes it retires,
//! and keeping another keyspace's nodes for a while does no harm. Reference counts in nodes were
//! rejected: each write would count up all children of the nodes that it copies.

#[cfg(all(test, loom))]
mod model;

use std::collections::BTreeSet;
use std::sync::PoisonError;
use std::sync::atomic::AtomicUsize;

use crate::primitive::{AtomicU64, Mutex, Ordering};

#[cfg(not(loom))]
static PINS: Pins = Pins::new();

// The models have their own: those of the process are never used under loom.
#[cfg(loom)]
loom::lazy_static! {
    static ref PINS: Pins = Pins::new();
}

/// Pins of one process, and the bytes of garbage that waits for them.
#[derive(Debug)]
struct Pins {
    /// Number of the next pin.
    next: AtomicU64,
    /// Lower bound of the numbers of living pins. Never above `next`, and below it exactly while
    /// there are pins.
    oldest: AtomicU64,
    alive: Mutex<BTreeSet<u64>>,
    garbage_bytes: AtomicUsize,
}

impl Pins {
    #[cfg(not(loom))]
    const fn new() -> Pins {
        Pins {
            next: AtomicU64::new(0),
            oldest: AtomicU64::new(0),
            alive: Mutex::new(BTreeSet::new()),
            garbage_bytes: AtomicUsize::new(0),
        }
    }

    #[cfg(loom)]
    fn new() -> Pins {
        Pins {
            next: AtomicU64::new(0),
            oldest: AtomicU64::new(0),
            alive: Mutex::new(BTreeSet::new()),
            garbage_bytes: AtomicUsize::new(0),
        }
    }

    fn begin(&self) -> u64 {
        let mut alive = self.alive.lock().unwrap_or_else(PoisonError::into_inner);
        // Relaxed: written under the mutex only. Writers see it by the slot's lock, see the module.
        let number = self.next.load(Ordering::Relaxed);
        alive.insert(number);
        self.next.store(number + 1, Ordering::Relaxed);
        number
    }

    fn end(&self, number: u64) {
        let mut alive = self.alive.lock().unwrap_or_else(PoisonError::into_inner);
        alive.remove(&number);
        let oldest = alive.first().copied().unwrap_or(self.next.load(Ordering::Relaxed));
        // Release: pairs with the Acquire of `is_over`; reads from the version come before.
        self.oldest.store(oldest, Ordering::Release);
    }

    /// Stamp of memory that is retired now; none when no version can contain it.
    #[inline]
    fn stamp(&self) -> Option<u64> {
        // Relaxed: a pin that matters happens before, by the slot's lock; its number is below
        // `next` then, and `oldest` does not pass it while it lives. A pin that is not seen is of a
        // version without the retired node.
        let next = self.next.load(Ordering::Relaxed);
        // Acquire: as in `is_over`, for memory that is retired or a leaf that is replaced at once.
        (self.oldest.load(Ordering::Acquire) < next).then_some(next)
    }

    fn none_is_alive(&self) -> bool {
        self.stamp().is_none()
    }

    fn is_over(&self, stamp: u64) -> bool {
        // Acquire: pairs with the Release of `end`.
        self.oldest.load(Ordering::Acquire) >= stamp
    }
}

/// Stamp of memory that is retired now, if a version may contain it.
#[inline]
pub(crate) fn stamp() -> Option<u64> {
    PINS.stamp()
}

/// True if no version is pinned that a tree may belong to whose slot's lock the caller holds.
#[inline]
pub(crate) fn none_is_alive() -> bool {
    PINS.none_is_alive()
}

/// True if no version is left that may contain the memory with this stamp.
pub(crate) fn is_over(stamp: u64) -> bool {
    PINS.is_over(stamp)
}

/// Adds to the bytes of pinned garbage.
pub(crate) fn count_pinned(bytes: usize) {
    // Relaxed: a statistic.
    PINS.garbage_bytes.fetch_add(bytes, Ordering::Relaxed);
}

/// Subtracts from the bytes of pinned garbage.
pub(crate) fn count_unpinned(bytes: usize) {
    PINS.garbage_bytes.fetch_sub(bytes, Ordering::Relaxed);
}

/// Bytes of retired nodes that the heaps of the process keep because a
/// [`Version`](crate::Version) may contain them.
#[must_use]
pub fn pinned_garbage_bytes() -> usize {
    // Relaxed: a statistic.
    PINS.garbage_bytes.load(Ordering::Relaxed)
}

/// Number of a living pin; dropping it ends the pin. Takes a mutex that is held for moments only.
#[derive(Debug)]
pub struct Pin(u64);

impl Pin {
    pub(crate) fn begin() -> Pin {
        Pin(PINS.begin())
    }
}

impl Drop for Pin {
    fn drop(&mut self) {
        PINS.end(self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retired_nodes_wait_for_earlier_pins_only() {
        let pins = Pins::new();
        assert_eq!(pins.stamp(), None, "nobody reads");
        let first = pins.begin();
        let early = pins.stamp().expect("the first may read it");
        let second = pins.begin();
        let late = pins.stamp().expect("both may read it");
        pins.end(first);
        assert!(pins.is_over(early), "the second began when it was out of reach");
        assert!(!pins.is_over(late));
        let third = pins.begin();
        pins.end(second);
        assert!(pins.is_over(late), "pins that overlap without end keep nothing for ever");
        assert!(pins.stamp().is_some());
        pins.end(third);
        assert_eq!(pins.stamp(), None);
    }

    #[test]
    fn the_oldest_pin_counts_in_whatever_order_they_end() {
        let pins = Pins::new();
        let (first, second) = (pins.begin(), pins.begin());
        let stamp = pins.stamp().expect("they may read it");
        pins.end(second);
        assert!(!pins.is_over(stamp), "the first still reads");
        pins.end(first);
        assert!(pins.is_over(stamp));
    }
}
