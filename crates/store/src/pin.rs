//! Versions of collections that are read beyond a read section.
//!
//! A reply of a million elements takes longer than a worker may keep its other clients waiting, and a client may take
//! it slowly. So it is made piece by piece, with sections and announcements of quiescence between the pieces; what it
//! is made of must outlive them. A [`Version`] pins it: nodes of trees that are retired while it lives are *held* by the
//! heap that retired them, and come to the retire list only when every version that may contain them is gone.
//!
//! Pins are numbered. A retired node is stamped with the number that the next pin will get; it may go once no pin below
//! that number is left. Numbers and not a count of pins, so that long replies which overlap without end do not keep
//! everything.
//!
//! ```text
//! reader   lock slot · begin pin 7 · take the root · unlock        ... read ...        end pin 7
//! writer                                      lock slot · publish · retire: stamp 8, held ──────┴─▶ retire list
//! ```
//!
//! Why no node of a pinned version is missed: a version is pinned under its slot's lock while it is the current one. A
//! node of it is taken out of reach by a writer that has locked the slot later, or the slot that the value was moved to
//! by one who held both, or that has closed the gate later: the pin happens before its look at the numbers. A node that
//! was retired before can not be reached from a root that is current now.
//!
//! The numbers are the process's and not a keyspace's: a heap does not know whose nodes it retires, and to hold another
//! keyspace's nodes for a while harms nobody. Reference counts in nodes were rejected: each write would count up all
//! children of the nodes that it copies.
#![allow(unsafe_code)]

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::member::Section;

use crate::entry::Kind;
use crate::hash::Seed;
use crate::tree::Root;
use crate::value::hash::Hash;
use crate::value::list::List;

static PINS: Pins = Pins::new();

/// Who reads what beyond a section.
#[derive(Debug)]
struct Pins {
    /// The number of the next pin.
    next: AtomicU64,
    /// No pin below this number is left. Never above `next`, and below it exactly while there are pins.
    oldest: AtomicU64,
    alive: Mutex<BTreeSet<u64>>,
    held_bytes: AtomicUsize,
}

impl Pins {
    const fn new() -> Pins {
        Pins {
            next: AtomicU64::new(0),
            oldest: AtomicU64::new(0),
            alive: Mutex::new(BTreeSet::new()),
            held_bytes: AtomicUsize::new(0),
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
        // Release: pairs with the Acquire of `is_over`; what was read from the version was read before.
        self.oldest.store(oldest, Ordering::Release);
    }

    /// The stamp of what is retired now; none when nobody can reach it through a version.
    #[inline]
    fn stamp(&self) -> Option<u64> {
        // Relaxed: a pin that matters happens before, by the slot's lock; its number is below `next` then, and `oldest`
        // does not pass it while it lives. One that is not seen is of a version without what is retired.
        let next = self.next.load(Ordering::Relaxed);
        // Acquire: as in `is_over`, for what is retired at once.
        (self.oldest.load(Ordering::Acquire) < next).then_some(next)
    }

    fn is_over(&self, stamp: u64) -> bool {
        // Acquire: pairs with the Release of `end`.
        self.oldest.load(Ordering::Acquire) >= stamp
    }
}

/// The stamp of what is retired now, if a version may contain it.
#[inline]
pub(crate) fn stamp() -> Option<u64> {
    PINS.stamp()
}

/// Whether no version is left that may contain what got this stamp.
pub(crate) fn is_over(stamp: u64) -> bool {
    PINS.is_over(stamp)
}

/// A heap holds so many bytes more.
pub(crate) fn hold(bytes: usize) {
    // Relaxed: a statistic.
    PINS.held_bytes.fetch_add(bytes, Ordering::Relaxed);
}

/// A heap holds so many bytes less.
pub(crate) fn let_go(bytes: usize) {
    PINS.held_bytes.fetch_sub(bytes, Ordering::Relaxed);
}

/// Bytes of retired nodes that all heaps of the process hold because a [`Version`] may contain them.
#[must_use]
pub fn held_bytes() -> usize {
    // Relaxed: a statistic.
    PINS.held_bytes.load(Ordering::Relaxed)
}

/// A number among the living pins; dropping it ends it.
#[derive(Debug)]
struct Pin(u64);

impl Pin {
    fn begin() -> Pin {
        Pin(PINS.begin())
    }
}

impl Drop for Pin {
    fn drop(&mut self) {
        PINS.end(self.0);
    }
}

/// One version of a collection, which stays as it is for as long as this lives: outside of read sections, whatever
/// becomes of the key. Meanwhile the memory of collections that are changed is not freed, so it should not live long.
///
/// May be moved to another thread. Dropping it takes a mutex that is held for moments only.
#[derive(Debug)]
pub struct Version {
    root: Root,
    kind: Kind,
    _pin: Pin,
}

impl Version {
    /// Pins the version under a root.
    ///
    /// # Safety
    ///
    /// The root is of a collection of this kind, which is current in a slot whose lock the caller holds.
    pub(crate) unsafe fn of(root: Root, kind: Kind) -> Version {
        Version { root, kind, _pin: Pin::begin() }
    }

    /// The list, if it is one.
    #[must_use]
    pub fn list(&self) -> Option<List<'_>> {
        // SAFETY: nothing of the version is freed before `self` is dropped, which the lifetime of what is returned
        // forbids; see the module.
        let section = unsafe { Section::assume() };
        // SAFETY: a root of this kind is a list's, and was current when it was pinned.
        (self.kind == Kind::List).then(|| unsafe { List::from_root(self.root, section) })
    }

    /// The hash, if it is one. `seed` is the keyspace's.
    #[must_use]
    pub fn hash<'v>(&'v self, seed: &'v Seed) -> Option<Hash<'v>> {
        // SAFETY: as in `list`.
        let section = unsafe { Section::assume() };
        // SAFETY: as in `list`, for a hash.
        (self.kind == Kind::Hash).then(|| unsafe { Hash::from_root(self.root, seed, section) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_retired_waits_for_the_pins_that_began_before_and_for_no_other() {
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
