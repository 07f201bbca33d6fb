//! Rate of a line of the log that clients cause: they must not fill it.

/// Rate of a line: the first one at once, each other one an interval after the last.
#[derive(Debug)]
pub(crate) struct LineRate {
    interval_us: u64,
    next_us: u64,
}

impl LineRate {
    pub(crate) fn new(interval_us: u64) -> LineRate {
        LineRate { interval_us, next_us: 0 }
    }

    /// True if a line may be written now, which it then is.
    pub(crate) fn admits(&mut self, now_us: u64) -> bool {
        let is_due = now_us >= self.next_us;
        if is_due {
            self.next_us = now_us + self.interval_us;
        }
        is_due
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
    }
}
