//! Effort of the defragmentation: percent of each worker's time, by the allocator's waste.

use std::sync::atomic::{AtomicU64, Ordering};

use super::host::AllocatorMemory;
use crate::limits::DEFRAG_JUDGED_US;
use crate::settings::DefragSettings;

/// Effort of all workers, judged once in a while by one of them. All figures are monotonic
/// microseconds.
#[derive(Debug, Default)]
pub struct DefragEffort {
    percent: AtomicU64,
    /// When it is judged next.
    next_us: AtomicU64,
    /// When the running defragmentation began; 0 while there is none.
    since_us: AtomicU64,
    /// Duration of those that ended.
    ended_us: AtomicU64,
}

impl DefragEffort {
    /// Percent of its time that each worker gives now; 0 while there is little waste.
    #[must_use]
    pub fn effort_percent(&self) -> u64 {
        // Relaxed, here and below: a statistic, and a share of time.
        self.percent.load(Ordering::Relaxed)
    }

    /// Durations of all defragmentations, and of the one that runs.
    #[must_use]
    pub fn times_us(&self, now_us: u64) -> (u64, u64) {
        let since_us = self.since_us.load(Ordering::Relaxed);
        let running_us = if since_us == 0 { 0 } else { now_us.saturating_sub(since_us) };
        (self.ended_us.load(Ordering::Relaxed) + running_us, running_us)
    }

    /// The effort, judged anew when it is time to; `memory` takes the locks of the allocator.
    pub(crate) fn judge(
        &self,
        settings: &DefragSettings,
        now_us: u64,
        memory: impl FnOnce() -> AllocatorMemory,
    ) -> u64 {
        if !settings.is_on {
            if self.effort_percent() > 0 {
                self.set(0, now_us);
            }
            return 0;
        }
        let next_us = self.next_us.load(Ordering::Relaxed);
        let claims = || {
            let later_us = now_us + DEFRAG_JUDGED_US;
            let claimed = self.next_us.compare_exchange(
                next_us,
                later_us,
                Ordering::Relaxed,
                Ordering::Relaxed,
            );
            claimed.is_ok()
        };
        if now_us >= next_us && claims() {
            self.set(effort_percent(settings, memory()), now_us);
        }
        self.effort_percent()
    }

    fn set(&self, percent: u64, now_us: u64) {
        self.percent.store(percent, Ordering::Relaxed);
        if percent > 0 {
            // Fails while one runs.
            let (from, to) = (0, now_us.max(1));
            let _ = self.since_us.compare_exchange(from, to, Ordering::Relaxed, Ordering::Relaxed);
            return;
        }
        let since_us = self.since_us.swap(0, Ordering::Relaxed);
        if since_us > 0 {
            self.ended_us.fetch_add(now_us.saturating_sub(since_us), Ordering::Relaxed);
        }
    }
}

/// Effort for the unused memory in used pages: none below the limits, then in proportion.
fn effort_percent(settings: &DefragSettings, memory: AllocatorMemory) -> u64 {
    let (lower_percent, upper_percent) = (settings.lower_percent, settings.upper_percent);
    let (effort_min, effort_max) = (settings.effort_min, settings.effort_max);
    let wasted_bytes = memory.active_bytes.saturating_sub(memory.allocated_bytes);
    let wasted = u128::from(wasted_bytes) * 100 / u128::from(memory.allocated_bytes.max(1));
    let wasted_percent = u64::try_from(wasted).unwrap_or(u64::MAX);
    if wasted_bytes < settings.ignored_bytes || wasted_percent < lower_percent {
        return 0;
    }
    let range = upper_percent.saturating_sub(lower_percent).max(1);
    let above = (wasted_percent - lower_percent).min(range);
    // The most may be given below the least.
    effort_min + effort_max.saturating_sub(effort_min) * above / range
}

#[cfg(test)]
mod tests {
    use super::*;

    fn memory(allocated_bytes: u64, active_bytes: u64) -> AllocatorMemory {
        AllocatorMemory { allocated_bytes, active_bytes, ..AllocatorMemory::default() }
    }

    #[test]
    fn effort_follows_the_waste_between_the_thresholds() {
        let settings = DefragSettings { ignored_bytes: 1000, ..DefragSettings::default() };
        for (allocated, active, effort) in [
            (0, 0, 0),
            (0, 2000, 25),
            (100_000, 109_999, 0),
            (100_000, 110_000, 1),
            (100_000, 155_000, 13),
            (100_000, 200_000, 25),
            (100_000, 900_000, 25),
            (100_000, 90_000, 0),
            (1000, 1999, 0),
            (1, u64::MAX, 25),
        ] {
            assert_eq!(effort_percent(&settings, memory(allocated, active)), effort, "{active}");
        }
        let reversed = DefragSettings { lower_percent: 100, upper_percent: 10, ..settings };
        assert_eq!(effort_percent(&reversed, memory(1000, 5000)), 25);
        let reversed = DefragSettings { effort_min: 9, effort_max: 3, ..settings };
        assert_eq!(effort_percent(&reversed, memory(1000, 5000)), 9);
    }

    #[test]
    fn it_is_judged_once_in_a_while_and_ends_with_the_directive() {
        let mut settings =
            DefragSettings { is_on: true, ignored_bytes: 1, ..DefragSettings::default() };
        let effort = DefragEffort::default();
        assert_eq!(effort.judge(&settings, 1000, || memory(1000, 3000)), 25);
        assert_eq!(effort.judge(&settings, 1001, || unreachable!("it was just judged")), 25);
        assert_eq!(effort.times_us(1500), (500, 500));
        let later_us = 1000 + DEFRAG_JUDGED_US;
        assert_eq!(effort.judge(&settings, later_us, || memory(1000, 1001)), 0);
        assert_eq!(effort.times_us(later_us + 9), (DEFRAG_JUDGED_US, 0));
        let again_us = later_us + DEFRAG_JUDGED_US;
        assert_eq!(effort.judge(&settings, again_us, || memory(1000, 3000)), 25);
        settings.is_on = false;
        assert_eq!(effort.judge(&settings, again_us + 5, || unreachable!("it is off")), 0);
        assert_eq!(effort.times_us(again_us + 99), (DEFRAG_JUDGED_US + 5, 0));
    }
}
