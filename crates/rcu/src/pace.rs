//! Pace of the barriers that interrupt readers.
//!
//! The barriers of `Memb`, `Bp` and `Signal` are executed on the readers' processors: each costs
//! every running reader an interrupt or a signal, some microseconds, and a writer that asks again
//! at once takes most of their time. Barriers therefore keep a distance, and all garbage that is
//! retired in between shares the next one:
//!
//! - A caller that polls is in no hurry: a barrier comes `pause` after the last one, a millisecond
//!   by default.
//! - A caller that blocks pauses for half the duration of the last `sys_membarrier`, so that the
//!   rule scales with the machine, and never for more than `pause`, in case its caller was
//!   preempted.
//! - A signal costs more, and ends system calls with `EINTR`: `pause` holds for every caller.
//!
//! After a longer calm a barrier is issued at once. A fence in the writer interrupts no reader and
//! is not paced.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::barrier::Barrier;
use crate::limits::{BARRIER_PAUSE_MAX, BLOCKED_PAUSE_PERCENT};
use crate::reader_state::ReaderState;

/// Kind of caller: one that can do something else until the grace period is over, or one that
/// waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Caller {
    Polls,
    Blocks,
}

#[derive(Debug)]
pub(crate) struct Pace {
    barrier: Barrier,
    pause: Duration,
    /// Time when the last barrier that interrupted readers had been issued, and how long that took.
    last: Option<(Instant, Duration)>,
}

impl Pace {
    pub(crate) fn new(barrier: Barrier, pause: Duration) -> Pace {
        Pace { barrier, pause: pause.min(BARRIER_PAUSE_MAX), last: None }
    }

    /// Time from which the next barrier may be issued; `None` at any time.
    pub(crate) fn next_at(&self, caller: Caller) -> Option<Instant> {
        let (issued_at, took) = self.last?;
        let pause = match (self.barrier, caller) {
            (Barrier::Membarrier, Caller::Blocks) => {
                self.pause.min(took.saturating_mul(BLOCKED_PAUSE_PERCENT) / 100)
            }
            _ => self.pause,
        };
        Some(issued_at + pause)
    }

    /// Issues a barrier, whatever the pace.
    pub(crate) fn issue(&mut self, states: &[Arc<ReaderState>]) {
        if !self.barrier.is_by_writer() {
            // No clock is read: loom and Miri have none, and the fastest flavours should not pay
            // for it.
            self.barrier.issue(states);
            return;
        }
        let began_at = Instant::now();
        self.barrier.issue(states);
        let issued_at = Instant::now();
        self.last = Some((issued_at, issued_at.duration_since(began_at)));
    }
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;

    const PAUSE: Duration = Duration::from_millis(1);
    const TOOK: Duration = Duration::from_micros(8);

    fn issued(barrier: Barrier, took: Duration) -> (Pace, Instant) {
        let at = Instant::now();
        (Pace { last: Some((at, took)), ..Pace::new(barrier, PAUSE) }, at)
    }

    #[test]
    fn the_first_barrier_waits_for_nothing() {
        for barrier in [Barrier::Fence, Barrier::Membarrier, Barrier::Signal] {
            assert_eq!(Pace::new(barrier, PAUSE).next_at(Caller::Polls), None);
        }
    }

    #[test]
    fn a_blocking_caller_waits_for_a_share_of_the_membarrier() {
        let (pace, at) = issued(Barrier::Membarrier, TOOK);
        assert_eq!(pace.next_at(Caller::Polls), Some(at + PAUSE));
        assert_eq!(pace.next_at(Caller::Blocks), Some(at + TOOK * BLOCKED_PAUSE_PERCENT / 100));
        let (slow, at) = issued(Barrier::Membarrier, PAUSE * 100);
        assert_eq!(slow.next_at(Caller::Blocks), Some(at + PAUSE));
    }

    #[test]
    fn signals_keep_the_whole_pause() {
        let (pace, at) = issued(Barrier::Signal, TOOK);
        assert_eq!(pace.next_at(Caller::Blocks), Some(at + PAUSE));
    }

    #[test]
    fn issuing_starts_a_pause_if_readers_are_interrupted() {
        let mut fence = Pace::new(Barrier::Fence, PAUSE);
        fence.issue(&[]);
        assert_eq!(fence.next_at(Caller::Polls), None);
        let before = Instant::now();
        let mut signal = Pace::new(Barrier::Signal, PAUSE);
        signal.issue(&[]);
        assert!(signal.next_at(Caller::Polls).is_some_and(|at| at >= before + PAUSE));
    }

    #[test]
    fn a_pause_without_end_does_not_overflow() {
        let mut pace = Pace::new(Barrier::Signal, Duration::MAX);
        pace.issue(&[]);
        assert!(pace.next_at(Caller::Blocks).is_some());
    }
}
