//! The system's clocks.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use tidemill_engine::clock::Clock;

/// The system's real-time and monotonic clocks.
#[derive(Debug)]
pub(crate) struct SystemClock {
    start: Instant,
}

impl SystemClock {
    pub(crate) fn new() -> SystemClock {
        SystemClock { start: Instant::now() }
    }
}

impl Clock for SystemClock {
    fn unix_us(&self) -> u64 {
        SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_micros() as u64)
    }

    fn monotonic_us(&self) -> u64 {
        self.start.elapsed().as_micros() as u64
    }

    fn monotonic_ns(&self) -> u64 {
        self.start.elapsed().as_nanos() as u64
    }
}
