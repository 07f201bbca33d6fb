//! Rate of a line of the log that clients cause: they must not fill it.

/// Rate of a line: the first one at once, each other one an interval after the last.
#[derive(Debug)]
pub struct LineRate {
    interval_us: u64,
    next_us: u64,
    withheld_count: u64,
}

impl LineRate {
    /// Rate of one line for each interval.
    #[must_use]
    pub fn new(interval_us: u64) -> LineRate {
        LineRate { interval_us, next_us: 0, withheld_count: 0 }
    }

    /// True if a line may be written now, which it then is. `now_us` is of the monotonic clock.
    pub fn admits(&mut self, now_us: u64) -> bool {
        let is_due = now_us >= self.next_us;
        if is_due {
            self.next_us = now_us + self.interval_us;
        } else {
            self.withheld_count += 1;
        }
        is_due
    }

    /// Number of lines that were not admitted since the last call.
    pub fn take_withheld(&mut self) -> u64 {
        std::mem::take(&mut self.withheld_count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_is_admitted_at_once_and_then_after_its_interval() {
        let mut rate = LineRate::new(100);
        assert!(rate.admits(7));
        assert!(!rate.admits(7) && !rate.admits(106));
        assert!(rate.admits(107) && !rate.admits(206));
        assert_eq!((rate.take_withheld(), rate.take_withheld()), (3, 0));
    }
}
