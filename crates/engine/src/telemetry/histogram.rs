//! Durations of the calls of one command: counts by time, with one writer and any readers.
//!
//! Buckets are logarithmic with a linear subdivision, as in HdrHistogram: 32 to each doubling, so
//! that a value is known to 3 %. HdrHistogram's own structures are for one thread or for many
//! writers; this has one writer and plain stores.

use std::sync::OnceLock;

use crate::telemetry::stats::Counter;

/// Bits of a value that its bucket keeps below the leading one.
const PRECISION_BITS: u32 = 5;
const STEPS: u64 = 1 << PRECISION_BITS;

/// Longest time that is told apart from longer ones, in nanoseconds: some 17 seconds.
const VALUE_NS_MAX: u64 = (1 << 34) - 1;

const BUCKETS: usize = bucket(VALUE_NS_MAX) + 1;

const fn bucket(ns: u64) -> usize {
    if ns < STEPS {
        return ns as usize;
    }
    let shift = ns.ilog2() - PRECISION_BITS;
    (shift as usize + 1) * STEPS as usize + (ns >> shift) as usize - STEPS as usize
}

/// The least and the greatest value of a bucket.
const fn bounds(bucket: usize) -> (u64, u64) {
    let (row, step) = (bucket as u64 / STEPS, bucket as u64 % STEPS);
    if row == 0 {
        return (step, step);
    }
    let shift = row - 1;
    let least = (STEPS + step) << shift;
    (least, least + (1 << shift) - 1)
}

/// Counts of times. Takes memory with the first.
#[derive(Debug, Default)]
pub struct TimeHistogram {
    counts: OnceLock<Box<[Counter]>>,
}

impl TimeHistogram {
    /// Counts `calls` calls of `ns` nanoseconds. Only the owning worker may call this.
    #[inline]
    pub fn record(&self, ns: u64, calls: u64) {
        let counts = self.counts.get_or_init(|| (0..BUCKETS).map(|_| Counter::default()).collect());
        counts[bucket(ns.min(VALUE_NS_MAX))].add(calls);
    }

    /// Sets all counts to zero.
    pub fn reset(&self) {
        self.counts.get().into_iter().flatten().for_each(|count| count.set(0));
    }
}

/// The counts of several histograms together.
#[derive(Clone, Debug)]
pub struct Times {
    counts: Vec<u64>,
    /// Calls counted.
    pub calls: u64,
}

impl Times {
    /// The sum of the histograms of all workers.
    #[must_use]
    pub fn of<'h>(histograms: impl Iterator<Item = &'h TimeHistogram>) -> Times {
        let mut counts = vec![0_u64; BUCKETS];
        for other in histograms.filter_map(|histogram| histogram.counts.get()) {
            for (sum, count) in counts.iter_mut().zip(other) {
                *sum = sum.wrapping_add(count.value());
            }
        }
        let calls = counts.iter().sum();
        Times { counts, calls }
    }

    fn filled(&self) -> impl Iterator<Item = ((u64, u64), u64)> {
        let counts = self.counts.iter().enumerate().filter(|(_, count)| **count > 0);
        counts.map(|(index, &count)| (bounds(index), count))
    }

    /// The time, in nanoseconds, that `percent` of the calls did not exceed; at least one call.
    #[must_use]
    pub fn percentile_ns(&self, percent: f64) -> u64 {
        if percent == 0.0 {
            return self.filled().next().map_or(0, |((least, _), _)| least);
        }
        let wanted = ((percent / 100.0 * self.calls as f64).ceil() as u64).max(1);
        let mut seen = 0;
        for ((_, greatest), count) in self.filled() {
            seen += count;
            if seen >= wanted {
                return greatest;
            }
        }
        0
    }

    /// Values up to each of some ascending limits, as precisely as buckets are.
    #[must_use]
    pub fn up_to(&self, limits: &[u64]) -> Vec<u64> {
        let mut counts = vec![0; limits.len()];
        for ((_, greatest), count) in self.filled() {
            let first = limits.partition_point(|&limit| limit < greatest);
            counts[first..].iter_mut().for_each(|up_to| *up_to += count);
        }
        counts
    }

    /// Microseconds and how many calls took no longer: by doublings of 1,024 ns, those only where
    /// the count grows.
    #[must_use]
    pub fn by_doublings(&self) -> Vec<(u64, u64)> {
        let mut points: Vec<(u64, u64)> = Vec::new();
        let mut seen = 0;
        for ((least, _), count) in self.filled() {
            seen += count;
            let limit_ns = (least + 1).next_power_of_two().max(1024);
            match points.last_mut() {
                Some((us, calls)) if *us == limit_ns / 1000 => *calls = seen,
                _ => points.push((limit_ns / 1000, seen)),
            }
        }
        points
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(values: &[u64]) -> Times {
        let histogram = TimeHistogram::default();
        values.iter().for_each(|&ns| histogram.record(ns, 1));
        Times::of([&histogram].into_iter())
    }

    #[test]
    fn counts_up_to_limits_are_cumulative() {
        let times = times(&[1, 5, 5, 30, 4_000]);
        assert_eq!(times.up_to(&[4, 5, 31, 1_000, 10_000]), [1, 3, 4, 4, 5]);
        assert_eq!(times.up_to(&[]), []);
    }

    #[test]
    fn every_value_lies_within_its_bucket_and_buckets_are_narrow() {
        let mut last = 0;
        for ns in
            (0..4000).chain((12..34).flat_map(|bit| [(1 << bit) - 1, 1 << bit, (1 << bit) + 7]))
        {
            let (least, greatest) = bounds(bucket(ns));
            assert!((least..=greatest).contains(&ns), "{ns} in {least}..={greatest}");
            assert!(greatest - least <= ns / 32, "{ns} in {least}..={greatest}");
            assert!(bucket(ns) >= last || ns < 4000);
            last = bucket(ns);
        }
        assert_eq!(bounds(BUCKETS - 1).1, VALUE_NS_MAX);
    }

    #[test]
    fn percentiles_count_calls_from_the_fastest() {
        let times = times(&[10, 20, 1000, 31, 5_000_000_000]);
        assert_eq!(times.calls, 5);
        assert_eq!(times.percentile_ns(0.0), 10);
        assert_eq!(times.percentile_ns(20.0), 10);
        assert_eq!(times.percentile_ns(20.1), 20);
        assert_eq!(times.percentile_ns(60.0), 31);
        assert!((1000..1032).contains(&times.percentile_ns(80.0)));
        assert!(times.percentile_ns(100.0) >= 5_000_000_000);
        assert_eq!(self::times(&[]).percentile_ns(50.0), 0);
    }

    #[test]
    fn doublings_are_valkeys() {
        let times = times(&[1, 900, 1023, 1024, 30_000, 1_000_000_000]);
        assert_eq!(times.by_doublings(), [(1, 3), (2, 4), (32, 5), (1_073_741, 6)]);
    }

    #[test]
    fn what_is_longer_than_the_longest_counts_as_that() {
        assert_eq!(times(&[u64::MAX]).percentile_ns(100.0), VALUE_NS_MAX);
    }
}
