//! Retire lists: memory that waits for its grace period, thread by thread.
//!
//! A list is one ring in the order of retirement, in three parts: *ready* (its period is over),
//! *waiting* (stamped with a period) and *fresh* (retired since). One period is under way at a
//! time, so that a busy writer starts one per round of polling and not one per write.
#![allow(unsafe_code)]

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::mem;
use std::sync::Arc;

use crate::domain::Domain;
use crate::flavour::Flavour;
use crate::garbage::{Elapsed, Garbage};
use crate::grace::GracePeriod;
use crate::limits::{
    FREED_AHEAD_COUNT, RETAINED_ITEMS_MAX, RETIRED_BYTES_MAX, RETIRED_ITEMS_MAX, ROOM_ITEMS,
    TAKEN_ITEMS_MAX,
};
use crate::orphans::Orphans;
use crate::reclaimer::ReclaimerHandle;

/// Size of a list above which it asks its writer to hold back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of retired memory.
    pub bytes: usize,
    /// Pieces of retired memory.
    pub items: usize,
}

/// Most memory that one call may free, so that it takes bounded time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// Pieces of memory; zero only polls.
    pub items: usize,
    /// Bytes. The first piece is freed whatever its size, so that every call makes progress.
    pub bytes: usize,
}

/// Memory that one call freed, or handed to the background thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reclaimed {
    /// Pieces of memory.
    pub items: usize,
    /// Bytes.
    pub bytes: usize,
}

/// Garbage of one thread, in the order of its retirement.
///
/// A list belongs to one domain, from `for_domain` or from its first `reclaim`. Garbage that is
/// left when the list is dropped goes to the domain, where another list adopts it; a list without a
/// domain leaks the rest, since it is not known when that could be freed.
#[derive(Debug, Default)]
pub struct RetireList {
    ring: RefCell<Ring>,
    /// Empty between two calls, but for its memory: see `take_ready`.
    taken: RefCell<Vec<Elapsed>>,
    bytes: Cell<usize>,
    limits: Cell<Limits>,
    orphans: RefCell<Option<Arc<Orphans>>>,
    /// True if no domain may reclaim it.
    is_sealed: Cell<bool>,
    reclaimer: RefCell<Option<ReclaimerHandle>>,
}

#[derive(Debug, Default)]
struct Ring {
    /// `ready_count` items that may be freed, `waiting_count` items that wait for `period`, then
    /// the fresh ones.
    garbage: VecDeque<Garbage>,
    ready_count: usize,
    waiting_count: usize,
    period: Option<GracePeriod>,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { bytes: RETIRED_BYTES_MAX, items: RETIRED_ITEMS_MAX }
    }
}

impl Budget {
    /// Everything that is ready.
    pub const UNLIMITED: Budget = Budget { items: usize::MAX, bytes: usize::MAX };
}

impl RetireList {
    /// An empty list with the default limits, which belongs to the domain it is first reclaimed
    /// with.
    #[must_use]
    pub fn new() -> RetireList {
        RetireList::default()
    }

    /// An empty list that no domain may reclaim: garbage that is retired to it is freed by
    /// [`RetireList::free_all`] or never.
    #[must_use]
    pub fn sealed() -> RetireList {
        let list = RetireList::new();
        list.is_sealed.set(true);
        list
    }

    /// An empty list of `domain`.
    #[must_use]
    pub fn for_domain<F: Flavour>(domain: &Domain<F>, limits: Limits) -> RetireList {
        let list = RetireList::new();
        list.limits.set(limits);
        list.bind(domain);
        list
    }

    /// Leaves deep garbage to a background thread from now on.
    pub fn set_reclaimer(&self, reclaimer: ReclaimerHandle) {
        *self.reclaimer.borrow_mut() = Some(reclaimer);
    }

    /// Changes the limits; nothing is freed by it.
    pub fn set_limits(&self, limits: Limits) {
        self.limits.set(limits);
    }

    /// Adds memory that was unlinked by this thread; it is freed after a grace period. Never
    /// blocks.
    #[inline]
    pub fn retire(&self, garbage: Garbage) {
        self.bytes.set(self.bytes.get() + garbage.bytes());
        self.ring.borrow_mut().garbage.push_back(garbage);
    }

    /// As [`RetireList::retire`] of each; returns their bytes together.
    #[inline]
    pub fn retire_all(&self, garbage: impl Iterator<Item = Garbage>) -> usize {
        let mut ring = self.ring.borrow_mut();
        let mut bytes = 0;
        for garbage in garbage {
            bytes += garbage.bytes();
            ring.garbage.push_back(garbage);
        }
        self.bytes.set(self.bytes.get() + bytes);
        bytes
    }

    /// Bytes in the list, ready ones included.
    #[inline]
    #[must_use]
    pub fn retired_bytes(&self) -> usize {
        self.bytes.get()
    }

    /// Pieces of memory in the list, ready ones included.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ring.borrow().garbage.len()
    }

    /// True if the list has no garbage.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// True if the writer must hold back until `reclaim` brought the list below its limits: those
    /// that were set, or what there is memory for to note more garbage. `retire` works
    /// nevertheless, and ends the process if it finds no memory.
    #[inline]
    #[must_use]
    pub fn is_over_limit(&self) -> bool {
        let limits = self.limits.get();
        let mut ring = self.ring.borrow_mut();
        self.bytes.get() > limits.bytes || ring.garbage.len() > limits.items || ring.lacks_room()
    }

    /// Polls the grace period under way and frees at most `budget`. Never waits; issues at most one
    /// barrier.
    ///
    /// May be called with a section open: garbage that the section can reach is not ready. Garbage
    /// that other lists of the domain left behind is adopted, at most `budget.items` pieces a call.
    ///
    /// # Panics
    ///
    /// When the list belongs to another domain, or is sealed.
    pub fn reclaim<F: Flavour>(&self, domain: &Domain<F>, budget: Budget) -> Reclaimed {
        self.bind(domain);
        domain.orphans().adopt(budget.items, |garbage| self.retire(garbage));
        self.ring.borrow_mut().poll(domain);
        self.free_ready(budget)
    }

    /// Blocks as [`Domain::synchronize`] does until all garbage in the list may be freed, and frees
    /// it, newest first: one grace period, however much was retired. Garbage that other lists of
    /// the domain left behind is adopted first.
    ///
    /// # Panics
    ///
    /// As [`Domain::synchronize`], and when the list belongs to another domain.
    pub fn synchronize<F: Flavour>(&self, domain: &Domain<F>) -> Reclaimed {
        self.bind(domain);
        domain.orphans().adopt(usize::MAX, |garbage| self.retire(garbage));
        domain.synchronize();
        // The list is this thread's alone: nothing was retired to it during the wait.
        let mut batch = Batch::take(self);
        let mut reclaimed = Reclaimed::default();
        // The memory written last is most likely still in this processor's caches.
        while let Some(garbage) = batch.garbage.pop_back() {
            if let Some(ahead) = batch.garbage.len().checked_sub(FREED_AHEAD_COUNT) {
                batch.garbage[ahead].prefetch();
            }
            reclaimed.items += 1;
            reclaimed.bytes += garbage.bytes();
            // SAFETY: a grace period began after it was retired, and is over; the domain is the
            // list's.
            self.dispose(unsafe { Elapsed::new(garbage) });
        }
        reclaimed
    }

    fn free_ready(&self, budget: Budget) -> Reclaimed {
        let mut reclaimed = Reclaimed::default();
        // Freeing may retire, and reclaim: neither the ring nor this is borrowed then.
        let mut taken = self.taken.take();
        while self.take_ready(&mut taken, budget, &mut reclaimed) {
            while let Some(elapsed) = taken.pop() {
                if let Some(ahead) = taken.len().checked_sub(FREED_AHEAD_COUNT) {
                    taken[ahead].prefetch();
                }
                self.dispose(elapsed);
            }
        }
        self.taken.replace(taken);
        self.ring.borrow_mut().shrink();
        reclaimed
    }

    /// Frees everything now.
    ///
    /// # Safety
    ///
    /// No reader may hold a reference into any of the retired memory.
    pub unsafe fn free_all(&self) -> Reclaimed {
        let mut reclaimed = Reclaimed::default();
        loop {
            let Some(garbage) = self.ring.borrow_mut().garbage.pop_front() else {
                break;
            };
            self.bytes.set(self.bytes.get() - garbage.bytes());
            reclaimed.items += 1;
            reclaimed.bytes += garbage.bytes();
            // SAFETY: the caller's promise.
            unsafe { garbage.free() };
        }
        *self.ring.borrow_mut() = Ring::default();
        reclaimed
    }

    fn bind<F: Flavour>(&self, domain: &Domain<F>) {
        assert!(!self.is_sealed.get(), "the list belongs to no domain");
        let mut orphans = self.orphans.borrow_mut();
        let bound = orphans.get_or_insert_with(|| Arc::clone(domain.orphans()));
        assert!(Arc::ptr_eq(bound, domain.orphans()), "the list belongs to another domain");
    }

    /// Takes the oldest ready garbage out of the ring, at most [`TAKEN_ITEMS_MAX`] pieces of a
    /// budget, of which some is `reclaimed`. False if there is none.
    fn take_ready(
        &self,
        taken: &mut Vec<Elapsed>,
        budget: Budget,
        reclaimed: &mut Reclaimed,
    ) -> bool {
        let mut ring = self.ring.borrow_mut();
        let items_max = ring.ready_count.min(budget.items - reclaimed.items).min(TAKEN_ITEMS_MAX);
        let (mut count, before) = (0, *reclaimed);
        for garbage in ring.garbage.iter().take(items_max) {
            let bytes = reclaimed.bytes.saturating_add(garbage.bytes());
            if reclaimed.items > 0 && bytes > budget.bytes {
                break;
            }
            *reclaimed = Reclaimed { items: reclaimed.items + 1, bytes };
            count += 1;
        }
        ring.ready_count -= count;
        // SAFETY: ready means that its grace period is over, in the domain that `Garbage::new` was
        // promised.
        taken.extend(ring.garbage.drain(..count).map(|garbage| unsafe { Elapsed::new(garbage) }));
        self.bytes.set(self.bytes.get() - (reclaimed.bytes - before.bytes));
        count > 0
    }

    #[inline]
    fn dispose(&self, elapsed: Elapsed) {
        if elapsed.is_deep()
            && let Some(reclaimer) = &*self.reclaimer.borrow()
        {
            reclaimer.send(elapsed);
        } else {
            drop(elapsed);
        }
    }
}

impl Drop for RetireList {
    fn drop(&mut self) {
        if let Some(orphans) = self.orphans.get_mut() {
            let garbage = &mut self.ring.get_mut().garbage;
            if !garbage.is_empty() {
                orphans.leave(garbage);
            }
        }
    }
}

/// All garbage of a list, taken out of it to be freed in one go: freeing may retire.
struct Batch<'l> {
    list: &'l RetireList,
    garbage: VecDeque<Garbage>,
}

impl<'l> Batch<'l> {
    fn take(list: &'l RetireList) -> Batch<'l> {
        list.bytes.set(0);
        let Ring { garbage, .. } = list.ring.take();
        Batch { list, garbage }
    }
}

impl Drop for Batch<'_> {
    /// Gives the ring's memory back to the list; and, when freeing panicked, the garbage that is
    /// left, as if it was retired now.
    fn drop(&mut self) {
        let left_bytes: usize = self.garbage.iter().map(Garbage::bytes).sum();
        self.list.bytes.set(self.list.bytes.get() + left_bytes);
        let mut ring = self.list.ring.borrow_mut();
        // Nothing in the ring is ready or waiting yet, unless a destructor reclaimed: the garbage
        // behind is fresh.
        if ring.garbage.is_empty() {
            ring.garbage = mem::take(&mut self.garbage);
        } else {
            ring.garbage.append(&mut self.garbage);
        }
        ring.shrink();
    }
}

impl Ring {
    /// Makes the garbage ready whose period is over, then stamps the fresh garbage if none waits.
    fn poll<F: Flavour>(&mut self, domain: &Domain<F>) {
        if self.period.as_ref().is_some_and(|period| domain.is_elapsed(period)) {
            self.period = None;
            self.ready_count += self.waiting_count;
            self.waiting_count = 0;
        }
        if self.period.is_none() && self.garbage.len() > self.ready_count {
            self.period = Some(domain.start_grace_period());
            self.waiting_count = self.garbage.len() - self.ready_count;
        }
    }

    /// True if there is garbage, and no memory to note [`ROOM_ITEMS`] more. An empty list has
    /// nothing to wait for.
    #[inline]
    fn lacks_room(&mut self) -> bool {
        let room = self.garbage.capacity() - self.garbage.len();
        room < ROOM_ITEMS && !self.garbage.is_empty() && !self.try_grow()
    }

    #[cold]
    fn try_grow(&mut self) -> bool {
        self.garbage.try_reserve(ROOM_ITEMS).is_ok()
    }

    fn shrink(&mut self) {
        if self.garbage.is_empty() && self.garbage.capacity() > RETAINED_ITEMS_MAX {
            self.garbage.shrink_to(RETAINED_ITEMS_MAX);
        }
    }
}

#[cfg(test)]
mod tests;
