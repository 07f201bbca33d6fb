//! Handshake of threads that post into a lane with the worker that sleeps beside it.
//!
//! The worker stores that it sleeps and then looks for posts; a thread stores that it posted and
//! then looks whether the worker sleeps. A full fence on either side lets one of them see the
//! other, so no post stays with a sleeping worker. `model.rs` has the loom models.

#[cfg(loom)]
use loom::sync::atomic::{AtomicBool, Ordering, fence};
#[cfg(not(loom))]
use std::sync::atomic::{AtomicBool, Ordering, fence};

/// Posts and sleep of one worker, as both sides see them.
#[derive(Debug, Default)]
pub(super) struct Handshake {
    /// True if something was posted since the worker took its lane. Written under the lane's lock.
    has_posts: AtomicBool,
    /// True while the worker sleeps, or is about to and has not looked for posts yet.
    is_asleep: AtomicBool,
}

impl Handshake {
    /// Notes that something was posted. The caller holds the lane's lock, and calls
    /// [`claims_wake_up`](Self::claims_wake_up) without it afterwards.
    pub(super) fn note_posts(&self) {
        // Relaxed: ordered by the fence in `claims_wake_up`.
        self.has_posts.store(true, Ordering::Relaxed);
    }

    /// Notes that the worker takes all that was posted. The caller holds the lane's lock.
    pub(super) fn note_taken(&self) {
        // Relaxed: what was posted is passed on by the lock; only the worker stores false.
        self.has_posts.store(false, Ordering::Relaxed);
    }

    /// True if something was posted, as the worker sees it.
    #[inline]
    pub(super) fn has_posts(&self) -> bool {
        // Relaxed: what this thread posted itself it sees. Of others' posts it sees those that
        // happened before something that it has seen; another one keeps it from sleeping.
        self.has_posts.load(Ordering::Relaxed)
    }

    /// True if the worker sleeps and the caller, which has posted, is the one to wake it.
    pub(super) fn claims_wake_up(&self) -> bool {
        // SeqCst: pairs with the fence in `begin_sleep`. Either the load below sees the store
        // before that fence, or the load behind that fence sees the store of `note_posts`.
        fence(Ordering::SeqCst);
        // Relaxed: nothing is read by way of it. The swap lets one of several wake the worker.
        self.is_asleep.load(Ordering::Relaxed) && self.is_asleep.swap(false, Ordering::Relaxed)
    }

    /// The worker is about to sleep. Returns false if something was posted: it must not then.
    #[must_use]
    #[inline]
    pub(super) fn begin_sleep(&self) -> bool {
        // Relaxed, both: ordered by the fence.
        self.is_asleep.store(true, Ordering::Relaxed);
        // SeqCst: pairs with the fence in `claims_wake_up`.
        fence(Ordering::SeqCst);
        let has_posts = self.has_posts.load(Ordering::Relaxed);
        if has_posts {
            self.end_sleep();
        }
        !has_posts
    }

    /// The worker does not sleep any more.
    #[inline]
    pub(super) fn end_sleep(&self) {
        // Relaxed: a wake-up that comes too late is one too many.
        self.is_asleep.store(false, Ordering::Relaxed);
    }
}

#[cfg(all(test, loom))]
mod model;
