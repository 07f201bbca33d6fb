//! Refusal of writes while what was written cannot be made to last.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

/// Refusal of writes, with its reason.
#[derive(Debug, Default)]
pub struct WriteRefusal {
    is_set: AtomicBool,
    reason: Mutex<String>,
}

impl WriteRefusal {
    /// Refuses writes with an error text from now on, or takes them again. Workers see it at their
    /// next boundary.
    pub fn set(&self, reason: Option<String>) {
        let mut present = self.reason.lock().unwrap_or_else(PoisonError::into_inner);
        // Relaxed: stored under the lock, and a worker that sees it later is no worse off.
        self.is_set.store(reason.is_some(), Ordering::Relaxed);
        *present = reason.unwrap_or_default();
    }

    /// True if writes are refused.
    #[inline]
    pub(crate) fn is_set(&self) -> bool {
        // Relaxed: as in `set`.
        self.is_set.load(Ordering::Relaxed)
    }

    /// The error for a client.
    pub(crate) fn reason(&self) -> String {
        self.reason.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
