//! Memory that a worker has claimed of `maxmemory`: see
//! [`MemoryLimit`](crate::shared::memory_limit::MemoryLimit).

use std::ops::RangeInclusive;
use std::sync::Arc;

use crate::shared::memory_limit::{LEASE_BYTES_MAX, MemoryLimit, lease_bytes};

/// Claims of one worker. Their credit is to be given back when the worker ends.
#[derive(Debug)]
pub(crate) struct Lease {
    limit: Arc<MemoryLimit>,
    /// `maxmemory`; 0 is no limit.
    limit_bytes: u64,
    lease_bytes: i64,
    claimed: i64,
    /// Credit that stays at a boundary. Without a limit most of it is debt: a limit that is set
    /// then finds no more claimed than is used, but for little.
    tolerated: RangeInclusive<i64>,
}

/// Credit and debt that each worker may have while there is no limit: claims follow what is used in
/// such steps.
const UNLIMITED: RangeInclusive<i64> = -LEASE_BYTES_MAX..=LEASE_BYTES_MAX / 8;

/// Limit below which no entry has room, so that nothing may be written at all.
const LIMIT_BYTES_MIN: u64 = 16;

impl Lease {
    pub(crate) fn new(limit: Arc<MemoryLimit>) -> Lease {
        Lease { limit, limit_bytes: 0, lease_bytes: 1, claimed: 0, tolerated: UNLIMITED }
    }

    /// True if there is a limit.
    #[inline(always)]
    pub(crate) fn is_limited(&self) -> bool {
        self.limit_bytes != 0
    }

    /// Takes up another limit.
    pub(crate) fn set_limit(&mut self, limit_bytes: u64, worker_count: usize, used: i64) {
        if self.limit_bytes == limit_bytes {
            return;
        }
        self.limit_bytes = limit_bytes;
        self.lease_bytes = lease_bytes(limit_bytes, worker_count);
        self.tolerated = if limit_bytes == 0 { UNLIMITED } else { 0..=2 * self.lease_bytes };
        self.give_back(used);
    }

    fn credit(&self, used: i64) -> i64 {
        self.claimed - used
    }

    /// True if the worker, which uses that many bytes, may take more.
    #[inline]
    pub(crate) fn is_in_credit(&self, used: i64) -> bool {
        self.credit(used) > 0
    }

    /// Claims a lease, or what there is of it. Tells whether the worker may take more.
    pub(crate) fn claim(&mut self, used: i64) -> bool {
        if self.is_limited() && self.limit_bytes < LIMIT_BYTES_MIN {
            return false;
        }
        let wanted = self.lease_bytes - self.credit(used);
        self.claimed += self.limit.claim(wanted, self.limit_bytes);
        self.is_in_credit(used)
    }

    /// Boundary between iterations: what was taken beyond the credit is claimed, and much credit
    /// given back. Mostly nothing is to be done.
    #[inline]
    pub(crate) fn settle(&mut self, used: i64) {
        if !self.tolerated.contains(&self.credit(used)) {
            self.give_back(used);
        }
    }

    /// Gives back all credit, or claims what was taken beyond it.
    pub(crate) fn give_back(&mut self, used: i64) {
        if used != self.claimed {
            self.limit.adjust(used - self.claimed);
            self.claimed = used;
        }
    }

    /// Bytes beyond the limit that all workers together have claimed; none without a limit.
    pub(crate) fn excess(&self) -> i64 {
        if self.is_limited() { (-self.limit.left(self.limit_bytes)).max(0) } else { 0 }
    }

    /// True if workers are to give unused credit back.
    pub(crate) fn is_scarce(&self) -> bool {
        self.limit.is_scarce()
    }

    /// True if memory has just become scarce: the other workers are to be woken.
    pub(crate) fn judge_scarcity(&self, worker_count: usize) -> bool {
        self.is_limited() && self.limit.judge_scarcity(self.limit_bytes, worker_count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lease(limit: &Arc<MemoryLimit>, limit_bytes: u64, used: i64) -> Lease {
        let mut lease = Lease::new(Arc::clone(limit));
        lease.set_limit(limit_bytes, 2, used);
        lease
    }

    #[test]
    fn two_workers_have_credit_for_no_more_than_the_limit() {
        let limit = Arc::<MemoryLimit>::default();
        let (mut one, mut other) = (lease(&limit, 1600, 0), lease(&limit, 1600, 0));
        let mut used = [0, 0];
        loop {
            let may = [
                one.is_in_credit(used[0]) || one.claim(used[0]),
                other.is_in_credit(used[1]) || other.claim(used[1]),
            ];
            if may == [false, false] {
                break;
            }
            used[0] += i64::from(may[0]);
            used[1] += i64::from(may[1]);
        }
        assert_eq!(used.iter().sum::<i64>(), 1600);
        // Memory that one frees is left for the other.
        used[0] -= 50;
        one.give_back(used[0]);
        assert!(other.claim(used[1]));
    }

    #[test]
    fn credit_is_given_back_and_what_is_used_is_not() {
        let limit = Arc::<MemoryLimit>::default();
        let mut lease = lease(&limit, 1 << 20, 0);
        assert!(lease.claim(100));
        assert!(limit.claimed_bytes() > 100);
        lease.settle(300);
        lease.give_back(200);
        assert_eq!(limit.claimed_bytes(), 200);
    }

    #[test]
    fn what_was_taken_beyond_the_credit_is_claimed_at_the_boundary() {
        let limit = Arc::<MemoryLimit>::default();
        let mut lease = lease(&limit, 1000, 0);
        assert!(lease.claim(0));
        lease.settle(5000);
        assert_eq!((limit.claimed_bytes(), lease.excess()), (5000, 4000));
        assert!(!lease.claim(5000));
        lease.settle(-300);
        assert_eq!(limit.claimed_bytes(), -300, "it freed what others had allocated");
    }
}
