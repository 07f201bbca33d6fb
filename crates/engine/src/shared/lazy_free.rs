//! Count of what is freed in the background.

use std::sync::atomic::{AtomicU64, Ordering};

use tidemill_store::Detached;

/// Memory that flushed databases still take, see
/// [`Shared::lazily_freed`](super::Shared::lazily_freed).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PendingFrees {
    /// Keys of flushed databases that are not freed yet.
    pub keys: u64,
    /// Large values that were deleted or replaced and are not freed yet.
    pub values: u64,
    /// Bytes of the keys, with those of tables: no longer live.
    pub bytes: u64,
    /// Keys and values that have been freed since the statistics began.
    pub done: u64,
}

/// Keys of flushed databases, which wait to be freed or were. Statistics: all accesses are relaxed.
#[derive(Debug, Default)]
pub(super) struct LazyFree {
    /// Bytes of all databases that were ever flushed: workers still count them as live.
    detached_bytes: AtomicU64,
    pending_keys: AtomicU64,
    pending_bytes: AtomicU64,
    done_keys: AtomicU64,
    /// Values that had been freed in the background when the statistics began.
    values_before: AtomicU64,
}

impl LazyFree {
    pub(super) fn note_detached(&self, detached: &[Detached]) {
        let keys = detached.iter().map(|detached| detached.key_count).sum();
        let bytes = detached.iter().map(|detached| detached.bytes).sum();
        self.detached_bytes.fetch_add(bytes, Ordering::Relaxed);
        self.pending_keys.fetch_add(keys, Ordering::Relaxed);
        self.pending_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(super) fn note_freed(&self, Detached { key_count, bytes }: Detached) {
        self.pending_keys.fetch_sub(key_count, Ordering::Relaxed);
        self.pending_bytes.fetch_sub(bytes, Ordering::Relaxed);
        self.done_keys.fetch_add(key_count, Ordering::Relaxed);
    }

    pub(super) fn detached_bytes(&self) -> u64 {
        self.detached_bytes.load(Ordering::Relaxed)
    }

    /// Of `values_left` values that were left to be freed in the background, `values_freed` are.
    pub(super) fn pending(&self, values_left: u64, values_freed: u64) -> PendingFrees {
        let freed_now = values_freed.wrapping_sub(self.values_before.load(Ordering::Relaxed));
        PendingFrees {
            keys: self.pending_keys.load(Ordering::Relaxed),
            values: values_left.saturating_sub(values_freed),
            bytes: self.pending_bytes.load(Ordering::Relaxed),
            done: self.done_keys.load(Ordering::Relaxed) + freed_now,
        }
    }

    /// Begins the count of what was freed anew.
    pub(super) fn reset(&self, values_freed: u64) {
        self.done_keys.store(0, Ordering::Relaxed);
        self.values_before.store(values_freed, Ordering::Relaxed);
    }
}
