//! The active cut of one keyspace as heaps see it: they do not know entries.

use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use super::batches::Batches;
use crate::tree::node::FRESH;

/// The active cut of a keyspace, if there is one, and the memory that it keeps from being freed.
#[derive(Debug, Default)]
pub(crate) struct ActiveCut {
    /// Epoch of the active cut; 0 without one.
    epoch: AtomicU32,
    /// Number of cuts that have begun, up to [`ERA_MAX`].
    era: AtomicU32,
    batches: Batches,
    /// Bytes of pre-images and of nodes that the active cut keeps from being freed.
    held_bytes: AtomicUsize,
    /// The most of them since the last cut began.
    held_peak_bytes: AtomicUsize,
}

/// Last era, in which cuts are not told apart: what is published in it may be part of the active
/// one.
const ERA_MAX: u32 = FRESH - 1;

impl ActiveCut {
    /// Epoch of the active cut; 0 without one.
    #[inline(always)]
    pub(crate) fn epoch(&self) -> u16 {
        // Relaxed: a cut begins with the gate closed, which orders it before everything that a
        // member does behind it. One that ends is noticed late at worst: what is handed over then
        // is drained and retired later.
        self.epoch.load(Ordering::Relaxed) as u16
    }

    /// True if nothing reads an older version of a tree because of a cut.
    #[inline]
    pub(crate) fn is_inactive(&self) -> bool {
        // Acquire: pairs with the Release of `end`; what the walker read comes before.
        self.epoch.load(Ordering::Acquire) == 0
    }

    /// Begins a cut with this epoch. The gate is closed.
    pub(super) fn begin(&self, epoch: u16) {
        // Relaxed, all: the gate orders it, see `epoch`.
        let era = self.era.load(Ordering::Relaxed);
        self.era.store((era + 1).min(ERA_MAX), Ordering::Relaxed);
        self.held_peak_bytes.store(self.held_bytes(), Ordering::Relaxed);
        self.epoch.store(u32::from(epoch), Ordering::Relaxed);
    }

    /// Ends the cut. Nothing is read of it from now on.
    pub(super) fn end(&self) {
        // Release: pairs with the Acquire of `is_over` and `is_inactive`.
        self.epoch.store(0, Ordering::Release);
    }

    /// Tag of a node that is retired now, if a cut is active.
    #[inline]
    pub(crate) fn tag(&self) -> Option<u64> {
        (self.epoch() != 0).then(|| self.batches.tag())
    }

    /// Era in which nodes are published now.
    pub(crate) fn era(&self) -> u32 {
        // Relaxed: as `epoch`.
        self.era.load(Ordering::Relaxed)
    }

    /// As [`ActiveCut::tag`], for a node that was published in an era: behind the beginning of the
    /// active cut, it is no part of it.
    #[inline]
    pub(crate) fn tag_of_born(&self, birth: u32) -> Option<u64> {
        let tag = self.tag()?;
        (birth != self.era() || birth == ERA_MAX).then_some(tag)
    }

    /// True if no cut can contain a node with this tag.
    pub(crate) fn is_over(&self, tag: u64) -> bool {
        // Acquire: pairs with the Release of `end`; what the walker read comes before.
        self.batches.is_over(tag) || self.epoch.load(Ordering::Acquire) == 0
    }

    /// Adds to the bytes that the cut holds.
    pub(crate) fn count_held(&self, bytes: usize) {
        // Relaxed, all: statistics.
        let held_bytes = self.held_bytes.fetch_add(bytes, Ordering::Relaxed) + bytes;
        self.held_peak_bytes.fetch_max(held_bytes, Ordering::Relaxed);
    }

    /// Subtracts from them.
    pub(crate) fn count_freed(&self, bytes: usize) {
        self.held_bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Bytes that the cut keeps from being freed.
    pub(crate) fn held_bytes(&self) -> usize {
        // Relaxed: a statistic.
        self.held_bytes.load(Ordering::Relaxed)
    }

    /// The most bytes that the last cut has kept from being freed.
    pub(crate) fn held_peak_bytes(&self) -> usize {
        // Relaxed: a statistic.
        self.held_peak_bytes.load(Ordering::Relaxed)
    }

    pub(super) fn batches(&self) -> &Batches {
        &self.batches
    }
}
