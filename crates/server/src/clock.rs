//! The system's clocks.

use nix::time::{ClockId, clock_gettime};
use tidemill_engine::clock::Clock;

/// The system's real-time and monotonic clocks.
///
/// Read straight from the C library: the checked differences of two times that `std` deals in cost more than the reading
/// itself, and each request is timed. (`rustix` would read the kernel's page without the library, but crashes under
/// valgrind.)
#[derive(Debug)]
pub(crate) struct SystemClock;

const NS_PER_S: u64 = 1_000_000_000;

fn clock_ns(clock: ClockId) -> u64 {
    // Neither clock is before its zero (of the monotonic one this is boot, of the other 1970), and every kernel has both.
    clock_gettime(clock)
        .map_or(0, |time| time.tv_sec().max(0) as u64 * NS_PER_S + time.tv_nsec() as u64)
}

impl Clock for SystemClock {
    fn unix_us(&self) -> u64 {
        clock_ns(ClockId::CLOCK_REALTIME) / 1000
    }

    fn monotonic_us(&self) -> u64 {
        self.monotonic_ns() / 1000
    }

    fn monotonic_ns(&self) -> u64 {
        clock_ns(ClockId::CLOCK_MONOTONIC)
    }
}
