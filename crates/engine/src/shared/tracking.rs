//! State of client-side caching that all workers share. What is tracked is with the slots.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::pubsub::invalidations::Prefixes;
use crate::slots::tracked::TrackedTotals;

/// Place of the walk through all slots that forgets sessions which have ended, and keys that are
/// too many.
#[derive(Debug, Default)]
pub(crate) struct TrackedWalk {
    /// The next slot.
    pub(crate) next_slot: usize,
    /// Number of the key in it to go on with.
    pub(crate) next_number: u64,
    /// Slots left until nothing of the sessions is left that had ended when the round began.
    pub(crate) slots_left: usize,
    /// Number of sessions that had ended then.
    pub(crate) ended: u64,
}

/// State of client-side caching.
#[derive(Debug, Default)]
pub struct ClientTracking {
    /// Numbers of tracked keys.
    pub totals: TrackedTotals,
    /// Prefixes of which all changes are told.
    pub prefixes: Prefixes,
    clients: AtomicU64,
    ended: AtomicU64,
    pub(crate) walk: Mutex<TrackedWalk>,
}

impl ClientTracking {
    /// Number of clients that track.
    #[must_use]
    pub fn clients(&self) -> u64 {
        // Relaxed, here and below: counts that order nothing.
        self.clients.load(Ordering::Relaxed)
    }

    /// A client tracks from now on.
    pub(crate) fn add_client(&self) {
        self.clients.fetch_add(1, Ordering::Relaxed);
    }

    /// A client tracks no more.
    pub(crate) fn remove_client(&self) {
        self.clients.fetch_sub(1, Ordering::Relaxed);
        self.ended.fetch_add(1, Ordering::Relaxed);
    }

    /// Number of clients that have ended tracking.
    pub(crate) fn ended(&self) -> u64 {
        self.ended.load(Ordering::Relaxed)
    }
}
