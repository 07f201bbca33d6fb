//! Waiting for readers, by a thread that blocks.
//!
//! A reader that runs answers within microseconds: looking again soon is cheapest. One that does
//! not answer by then is likely not running, and may need the very processor of the waiting thread,
//! which therefore sleeps. Yielding is no substitute. The scheduler then counts the thread as
//! having had its share, and with more threads than cores each yield can cost a time slice, while a
//! thread that wakes up is run at once.

use std::hint::spin_loop;
use std::thread;
use std::time::{Duration, Instant};

use crate::limits::{
    SYNCHRONIZE_SLEEP_MAX, SYNCHRONIZE_SLEEP_MIN, SYNCHRONIZE_SPIN_COUNT,
    SYNCHRONIZE_SPIN_HINTS_MAX,
};
use crate::primitive::yield_now;

#[derive(Debug)]
pub(crate) struct Wait {
    look_count: u32,
    sleep: Duration,
}

impl Wait {
    pub(crate) fn new() -> Wait {
        Wait { look_count: 0, sleep: SYNCHRONIZE_SLEEP_MIN }
    }

    /// Waits until it is worth looking at the readers again; calls `sleep` for the longer waits.
    pub(crate) fn for_readers(&mut self, sleep: impl FnOnce(Duration)) {
        if cfg!(loom) {
            yield_now();
            return;
        }
        self.look_count += 1;
        if self.look_count > SYNCHRONIZE_SPIN_COUNT {
            sleep(self.sleep);
            self.sleep = (self.sleep * 2).min(SYNCHRONIZE_SLEEP_MAX);
            return;
        }
        // Each look at a word takes its cache line away from the reader.
        (0..self.look_count.min(SYNCHRONIZE_SPIN_HINTS_MAX)).for_each(|_| spin_loop());
    }

    /// Returns at `at`, or a little later.
    pub(crate) fn until(at: Instant) {
        loop {
            let left = at.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            if left >= SYNCHRONIZE_SLEEP_MIN { thread::sleep(left) } else { spin_loop() }
        }
    }
}
