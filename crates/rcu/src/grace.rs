//! Grace periods: one counter, and a scan of the readers' words that polling threads advance.
//!
//! The crate's documentation explains the algorithm; here are its orderings. Let *unlinking* be the
//! store after which no new reader finds a piece of memory.
//!
//! - Unlinking happens before `start` advances the counter (release), which happens before a scan
//!   whose target includes it loads the counter (acquire), and then the scan executes its barrier.
//! - A word seen outside a section: either the reader left, and its release store orders its loads
//!   before the scan; or its entry was not visible yet, and then the barrier makes its loads see
//!   the unlinking.
//! - A word seen at the target or beyond: the reader loaded the counter (acquire) with that value,
//!   so it sees the unlinking, and its release store orders the loads of earlier sections before
//!   the scan.
//! - A reader that registers after the scan began did so under the scan's lock and sees the
//!   unlinking.
//! - Threads that only load `completed` (acquire) follow the thread that stored it (release); parts
//!   of a scan done by different threads follow each other by the lock.

use std::sync::Arc;

use std::time::{Duration, Instant};

use crate::barrier::Barrier;
use crate::doorbell::Doorbell;
use crate::pace::{Caller, Pace};
use crate::primitive::{AtomicU64, Mutex, Ordering, OwnLine, current, lock, try_lock};
use crate::reader_state::{COUNTER_STEP, ReaderState};

/// A grace period that was started; see [`Domain::is_elapsed`](crate::Domain::is_elapsed).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct GracePeriod {
    target: u64,
}

/// Result of a poll.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    Elapsed,
    /// A reader may still be in its section, or another thread is scanning.
    Open,
    /// The next barrier is not due yet.
    PausedUntil(Instant),
}

#[derive(Debug)]
pub(crate) struct Grace {
    counter: OwnLine<Counter>,
    /// Highest target that all readers are past.
    completed: OwnLine<AtomicU64>,
    /// On a line other than that of `barrier`, which `Bp` reads at each section.
    registry: OwnLine<Mutex<Registry>>,
    barrier: Barrier,
}

/// Data that every reader loads, and that is stored only to start a period or to sleep.
#[derive(Debug)]
struct Counter {
    value: AtomicU64,
    doorbell: Doorbell,
}

#[derive(Debug)]
struct Registry {
    states: Vec<Arc<ReaderState>>,
    scan: Option<Scan>,
    pace: Pace,
}

/// A pass over the states registered when it began: those before `next` are past `target`.
#[derive(Debug)]
struct Scan {
    target: u64,
    next: usize,
    end: usize,
}

impl Grace {
    pub(crate) fn new(barrier: Barrier, pause: Duration) -> Grace {
        let pace = Pace::new(barrier, pause);
        Grace {
            counter: OwnLine::new(Counter {
                value: AtomicU64::new(COUNTER_STEP),
                doorbell: Doorbell::default(),
            }),
            completed: OwnLine::new(AtomicU64::new(0)),
            registry: OwnLine::new(Mutex::new(Registry { states: Vec::new(), scan: None, pace })),
            barrier,
        }
    }

    #[inline(always)]
    pub(crate) fn counter(&self) -> &AtomicU64 {
        &self.counter.value
    }

    /// Doorbell to ring after an announcement.
    #[inline(always)]
    pub(crate) fn doorbell(&self) -> &Doorbell {
        &self.counter.doorbell
    }

    pub(crate) fn barrier(&self) -> Barrier {
        self.barrier
    }

    /// Adds a reader, which is online at once when `online`.
    pub(crate) fn register(&self, state: Arc<ReaderState>, online: bool) {
        let mut registry = lock(&self.registry);
        if online {
            state.go_online(self.counter());
        }
        registry.states.push(state);
    }

    /// Removes a reader; its reads happened before any scan that follows, by the lock.
    pub(crate) fn unregister(&self, state: &Arc<ReaderState>) {
        let mut registry = lock(&self.registry);
        let position = registry.states.iter().position(|other| Arc::ptr_eq(other, state));
        let position = position.expect("a reader is registered until it is dropped");
        registry.states.remove(position);
        if let Some(scan) = &mut registry.scan {
            scan.next -= usize::from(position < scan.next);
            scan.end -= usize::from(position < scan.end);
        }
    }

    /// True if the calling thread is inside a section (or online, where readers announce).
    pub(crate) fn is_this_thread_reading(&self) -> bool {
        let us = current().id();
        lock(&self.registry).states.iter().any(|state| state.is_of(us) && state.is_active())
    }

    pub(crate) fn start(&self) -> GracePeriod {
        // Release pairs with the acquire loads of the counter by readers and scans.
        let before = self.counter().fetch_add(COUNTER_STEP, Ordering::Release);
        GracePeriod { target: before + COUNTER_STEP }
    }

    /// Advances the scan without waiting; at most one barrier is issued, and none within a pause.
    pub(crate) fn poll(&self, period: GracePeriod, caller: Caller) -> Progress {
        // Acquire pairs with the release store below.
        if self.completed.load(Ordering::Acquire) >= period.target {
            return Progress::Elapsed;
        }
        let Some(mut registry) = try_lock(&self.registry) else {
            return Progress::Open;
        };
        // A scan under way may have begun before this period; the one after it cannot.
        loop {
            // Relaxed: stored under the lock that this thread holds.
            if self.completed.load(Ordering::Relaxed) >= period.target {
                return Progress::Elapsed;
            }
            let Registry { states, scan, pace } = &mut *registry;
            if scan.is_none() {
                let next_at = pace.next_at(caller);
                if let Some(at) = next_at.filter(|&at| Instant::now() < at) {
                    return Progress::PausedUntil(at);
                }
            }
            let scan = scan.get_or_insert_with(|| self.begin(states, pace));
            if !self.advance(scan, states) {
                return Progress::Open;
            }
            // Release pairs with the acquire load above.
            self.completed.store(scan.target, Ordering::Release);
            registry.scan = None;
        }
    }

    fn begin(&self, states: &[Arc<ReaderState>], pace: &mut Pace) -> Scan {
        // Acquire pairs with the release in `start`.
        let target = self.counter().load(Ordering::Acquire);
        pace.issue(states);
        Scan { target, next: 0, end: states.len() }
    }

    /// Advances to the first reader that is not past the target; true when there is none.
    fn advance(&self, scan: &mut Scan, states: &[Arc<ReaderState>]) -> bool {
        while scan.next < scan.end {
            let state = &states[scan.next];
            if !self.barrier.is_done_by(state) || !state.is_past(scan.target) {
                return false;
            }
            scan.next += 1;
        }
        true
    }
}
