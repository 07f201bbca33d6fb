//! Time that a turn took of its worker's thread.
//!
//! A thread that is preempted in the midst of a short turn makes it look long, by as much as the
//! scheduler gives to others, and its connection would be throttled for what it did not do. CPU
//! time tells the two apart, but reading it is a system call. So it is read at turns only while
//! long ones were seen of late; the first long turn counts as one that ended in time.

use tidemill_engine::limits::TURN_US_MAX;

use crate::fairness::THROTTLE_FROM_NS;
use crate::limits::LONG_TURNS_US;

/// CPU time of the present turn, while that is looked at.
#[derive(Debug, Default)]
pub(crate) struct TurnTime {
    /// Monotonic microseconds until which CPU time is read.
    reads_until_us: u64,
    /// CPU time of the thread at the beginning of the turn.
    begun_cpu_ns: Option<u64>,
}

impl TurnTime {
    /// Begins a turn.
    #[inline]
    pub(crate) fn begin(&mut self, now_us: u64, cpu_ns: impl FnOnce() -> u64) {
        self.begun_cpu_ns = (now_us < self.reads_until_us).then(cpu_ns);
    }

    /// Nanoseconds that the thread ran in a turn of `turn_ns`. A short turn is taken as it is.
    #[inline]
    pub(crate) fn used_ns(
        &mut self,
        turn_ns: u64,
        now_us: impl FnOnce() -> u64,
        cpu_ns: impl FnOnce() -> u64,
    ) -> u64 {
        if turn_ns < THROTTLE_FROM_NS {
            return turn_ns;
        }
        self.used_long_ns(turn_ns, now_us, cpu_ns)
    }

    #[cold]
    fn used_long_ns(
        &mut self,
        turn_ns: u64,
        now_us: impl FnOnce() -> u64,
        cpu_ns: impl FnOnce() -> u64,
    ) -> u64 {
        self.reads_until_us = now_us() + LONG_TURNS_US;
        let in_time_ns = TURN_US_MAX * 1000;
        self.begun_cpu_ns.map_or(in_time_ns, |begun_ns| turn_ns.min(cpu_ns() - begun_ns))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG_NS: u64 = 10 * THROTTLE_FROM_NS;

    #[test]
    fn long_turns_are_measured_for_a_while_behind_the_first_one() {
        let mut time = TurnTime::default();
        time.begin(5, || unreachable!("no turn was long"));
        assert_eq!(time.used_ns(THROTTLE_FROM_NS - 1, || 5, || 0), THROTTLE_FROM_NS - 1);
        assert_eq!(
            time.used_ns(LONG_NS, || 5, || 0),
            TURN_US_MAX * 1000,
            "it may have been preempted"
        );
        time.begin(5 + LONG_TURNS_US - 1, || 1000);
        assert_eq!(time.used_ns(LONG_NS, || 6, || 1000 + LONG_NS - 7), LONG_NS - 7);
        time.begin(6 + LONG_TURNS_US, || unreachable!("the last long turn is long ago"));
    }

    #[test]
    fn preempted_turn_counts_as_what_it_ran() {
        let mut time = TurnTime::default();
        time.used_ns(LONG_NS, || 0, || 0);
        time.begin(1, || 50_000);
        assert_eq!(time.used_ns(LONG_NS, || 1, || 53_000), 3000);
        time.begin(2, || 60_000);
        let beyond_ns = 60_000 + 2 * LONG_NS;
        assert_eq!(time.used_ns(LONG_NS, || 2, || beyond_ns), LONG_NS, "the clocks differ");
    }
}
