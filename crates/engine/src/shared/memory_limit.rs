//! Account of `maxmemory`: what the workers have claimed of it.
//!
//! A sum over the workers' live bytes is as old as their last boundary, and all of them would go on
//! by it at once. So each worker claims memory before it takes it, in leases, from one number; what
//! it has claimed and not taken is its credit, which no other worker can take. Nothing is counted
//! twice: a claim follows the worker's own live bytes, which fall when memory is retired, whichever
//! worker had allocated it. What is live never exceeds what is claimed, but for the one command
//! that each worker is within.
//!
//! ```text
//! maxmemory ├───────────── claimed ─────────────┤── left ──┤
//!           ├ live of worker 0 ┤credit┤ live of 1 ┤credit┤
//! ```
//!
//! All accesses are relaxed: the number orders nothing.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};

/// Bytes of a lease, at most.
pub(crate) const LEASE_BYTES_MAX: i64 = 256 << 10;

/// Leases per worker that are left when workers begin to give unused credit back at each
/// iteration.
const SCARCE_LEASES: i64 = 4;

/// Claims of all workers, and the time for which they were more than `maxmemory`.
#[derive(Debug, Default)]
pub struct MemoryLimit {
    claimed: AtomicI64,
    /// True if workers give back credit that they do not use.
    is_scarce: AtomicBool,
    /// Since when writes lack memory, in monotonic microseconds; 0 if they do not.
    exceeded_since_us: AtomicU64,
    exceeded_us: AtomicU64,
}

/// Bytes of a lease under a limit, for a number of workers: none holds much of a small limit.
pub(crate) fn lease_bytes(limit_bytes: u64, worker_count: usize) -> i64 {
    let share = limit_bytes / (8 * worker_count.max(1) as u64);
    i64::try_from(share).unwrap_or(i64::MAX).clamp(1, LEASE_BYTES_MAX)
}

/// `maxmemory` as a signed number.
fn signed(limit_bytes: u64) -> i64 {
    i64::try_from(limit_bytes).unwrap_or(i64::MAX)
}

impl MemoryLimit {
    /// Claims up to `bytes` of what is left, and returns how much that was.
    pub(crate) fn claim(&self, bytes: i64, limit_bytes: u64) -> i64 {
        let before = self.claimed.fetch_add(bytes, Ordering::Relaxed);
        let granted = signed(limit_bytes).saturating_sub(before).clamp(0, bytes);
        if granted < bytes {
            self.claimed.fetch_sub(bytes - granted, Ordering::Relaxed);
        }
        granted
    }

    /// Adds to the claims memory that was taken already, or takes back what is no longer needed.
    pub(crate) fn adjust(&self, bytes: i64) {
        self.claimed.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Bytes that can still be claimed; negative if more is claimed than there is.
    pub(crate) fn left(&self, limit_bytes: u64) -> i64 {
        signed(limit_bytes).saturating_sub(self.claimed.load(Ordering::Relaxed))
    }

    /// True if workers are to give back credit that they do not use.
    pub(crate) fn is_scarce(&self) -> bool {
        self.is_scarce.load(Ordering::Relaxed)
    }

    /// Looks whether little is left for that number of workers. True when that is new: the others
    /// are to be woken then, so that they give back what they do not use.
    #[must_use]
    pub(crate) fn judge_scarcity(&self, limit_bytes: u64, worker_count: usize) -> bool {
        let lease = lease_bytes(limit_bytes, worker_count);
        let low = lease.saturating_mul(SCARCE_LEASES * worker_count as i64);
        let left = self.left(limit_bytes);
        if left < low {
            !self.is_scarce() && !self.is_scarce.swap(true, Ordering::Relaxed)
        } else {
            // Only well above, so that workers are not woken again and again.
            if left > low.saturating_mul(2) && self.is_scarce() {
                self.is_scarce.store(false, Ordering::Relaxed);
            }
            false
        }
    }

    /// Writes lack memory at `now_us`.
    pub(crate) fn note_exceeded(&self, now_us: u64) {
        let since = &self.exceeded_since_us;
        let now_us = now_us.max(1);
        let _ = since.compare_exchange(0, now_us, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Writes have memory again at `now_us`, if they lacked some.
    pub(crate) fn note_within(&self, now_us: u64) {
        if self.exceeded_since_us.load(Ordering::Relaxed) == 0 {
            return;
        }
        let since_us = self.exceeded_since_us.swap(0, Ordering::Relaxed);
        if since_us > 0 {
            self.exceeded_us.fetch_add(now_us.saturating_sub(since_us), Ordering::Relaxed);
        }
    }

    /// Microseconds for which writes lacked memory, all together and of these the present ones.
    #[must_use]
    pub fn exceeded_us(&self, now_us: u64) -> (u64, u64) {
        let since_us = self.exceeded_since_us.load(Ordering::Relaxed);
        let present = if since_us > 0 { now_us.saturating_sub(since_us) } else { 0 };
        (self.exceeded_us.load(Ordering::Relaxed) + present, present)
    }

    /// Begins the statistics anew.
    pub(super) fn reset_stats(&self) {
        self.exceeded_us.store(0, Ordering::Relaxed);
        self.exceeded_since_us.store(0, Ordering::Relaxed);
    }

    /// Bytes that are claimed.
    #[must_use]
    pub fn claimed_bytes(&self) -> i64 {
        self.claimed.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_is_granted_than_is_left() {
        let limit = MemoryLimit::default();
        assert_eq!(limit.claim(60, 100), 60);
        assert_eq!(limit.claim(60, 100), 40);
        assert_eq!(limit.claim(60, 100), 0);
        assert_eq!(limit.left(100), 0);
        limit.adjust(25);
        assert_eq!(limit.left(100), -25);
        assert_eq!(limit.claim(10, 100), 0);
        assert_eq!(limit.claim(10, 130), 5);
    }

    #[test]
    fn threads_that_claim_at_once_get_no_more_than_there_is() {
        const LIMIT: u64 = 1 << 20;
        let limit = MemoryLimit::default();
        let taken: i64 = std::thread::scope(|scope| {
            let claim_all = |step: i64| {
                let limit = &limit;
                scope.spawn(move || {
                    let mut taken = 0;
                    for round in 0..20_000 {
                        taken += limit.claim(step, LIMIT);
                        if round % 3 == 0 && taken >= 2 * step {
                            limit.adjust(-2 * step);
                            taken -= 2 * step;
                        }
                        assert!(taken <= LIMIT.cast_signed());
                    }
                    taken
                })
            };
            let threads: Vec<_> = [700, 900, 1100].map(claim_all).into_iter().collect();
            threads.into_iter().map(|thread| thread.join().expect("no assertion failed")).sum()
        });
        assert!(taken <= LIMIT.cast_signed());
        assert_eq!(limit.claimed_bytes(), taken);
    }

    #[test]
    fn scarcity_is_told_once_until_much_is_left_again() {
        let (limit, bytes) = (MemoryLimit::default(), 64 << 20);
        assert!(!limit.judge_scarcity(bytes, 2));
        limit.adjust((64 << 20) - (1 << 20));
        assert!(limit.judge_scarcity(bytes, 2));
        assert!(!limit.judge_scarcity(bytes, 2));
        limit.adjust(-(2 << 20));
        assert!(!limit.judge_scarcity(bytes, 2));
        assert!(limit.is_scarce(), "not yet much");
        limit.adjust(-(8 << 20));
        assert!(!limit.judge_scarcity(bytes, 2));
        assert!(!limit.is_scarce());
    }

    #[test]
    fn the_time_without_memory_is_summed() {
        let limit = MemoryLimit::default();
        limit.note_within(5);
        limit.note_exceeded(10);
        limit.note_exceeded(20);
        assert_eq!(limit.exceeded_us(25), (15, 15));
        limit.note_within(30);
        limit.note_within(40);
        assert_eq!(limit.exceeded_us(50), (20, 0));
    }
}
