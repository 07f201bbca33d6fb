//! The latency histogram of the hot loop.
//!
//! Logarithmic ranges of 1,024 linear buckets each, so that a bucket is never wider than 1/1,024 of
//! its values (three significant digits), from 1 ns to 73 minutes. Recording is a shift, an index
//! and four additions, and takes a count, because the replies of one receive share a latency.
//!
//! The range of touched buckets is kept, so that moving one second's samples into the total costs
//! what the second's spread is, not what the table's size is: that is how percentiles per second
//! stay off the hot path. HdrHistogram's formats are written from it at the end (`report`).
//!
//! It is not shared between threads and not resizable.

/// Linear buckets per power of two.
const LINEAR_BITS: u32 = 10;
/// Highest recordable value, 2^42 ns; larger ones are recorded as this.
const VALUE_BITS: u32 = 42;
const BUCKETS: usize = ((VALUE_BITS - LINEAR_BITS) as usize + 1) << LINEAR_BITS;

/// Counts of latencies in nanoseconds.
#[derive(Clone)]
pub struct Histogram {
    counts: Box<[u64]>,
    low: usize,
    high: usize,
    count: u64,
    sum_ns: u64,
    min_ns: u64,
    max_ns: u64,
}

/// The non-empty buckets of a histogram: how one second of a run is stored.
#[derive(Clone, Debug, Default)]
pub struct Sparse {
    buckets: Vec<(u32, u64)>,
    /// Samples in all.
    pub count: u64,
    /// Sum of the samples in nanoseconds.
    pub sum_ns: u64,
    /// Smallest sample, exact; 0 when empty.
    pub min_ns: u64,
    /// Largest sample, exact; 0 when empty.
    pub max_ns: u64,
}

fn bucket_of(value_ns: u64) -> usize {
    let value_ns = value_ns.min((1 << VALUE_BITS) - 1);
    let magnitude = 63 - (value_ns | ((1 << (LINEAR_BITS + 1)) - 1)).leading_zeros();
    let shift = magnitude - LINEAR_BITS;
    ((shift as usize) << LINEAR_BITS) + (value_ns >> shift) as usize
}

/// The largest value that falls into the bucket, as HdrHistogram reports percentiles.
fn highest_in(bucket: usize) -> u64 {
    let shift = (bucket >> LINEAR_BITS).saturating_sub(1);
    let mantissa = bucket - (shift << LINEAR_BITS);
    (((mantissa + 1) as u64) << shift) - 1
}

impl Default for Histogram {
    fn default() -> Self {
        Self::new()
    }
}

impl Histogram {
    /// An empty histogram; its 264 KiB become resident as buckets are touched.
    pub fn new() -> Self {
        Self {
            counts: vec![0; BUCKETS].into_boxed_slice(),
            low: BUCKETS,
            high: 0,
            count: 0,
            sum_ns: 0,
            min_ns: u64::MAX,
            max_ns: 0,
        }
    }

    /// Records `count` samples of `value_ns` nanoseconds.
    #[inline]
    pub fn record_n(&mut self, value_ns: u64, count: u64) {
        let bucket = bucket_of(value_ns);
        self.counts[bucket] += count;
        self.low = self.low.min(bucket);
        self.high = self.high.max(bucket);
        self.count += count;
        self.sum_ns += value_ns * count;
        self.min_ns = self.min_ns.min(value_ns);
        self.max_ns = self.max_ns.max(value_ns);
    }

    /// Adds the samples of a stored second.
    pub fn add_sparse(&mut self, other: &Sparse) {
        if other.count == 0 {
            return;
        }
        for &(bucket, count) in &other.buckets {
            let bucket = bucket as usize;
            self.counts[bucket] += count;
            self.low = self.low.min(bucket);
            self.high = self.high.max(bucket);
        }
        self.count += other.count;
        self.sum_ns += other.sum_ns;
        self.min_ns = self.min_ns.min(other.min_ns);
        self.max_ns = self.max_ns.max(other.max_ns);
    }

    /// Adds the samples of another histogram.
    pub fn add(&mut self, other: &Histogram) {
        self.add_sparse(&other.to_sparse());
    }

    /// The non-empty buckets.
    pub fn to_sparse(&self) -> Sparse {
        if self.count == 0 {
            return Sparse::default();
        }
        let buckets = self.counts[self.low..=self.high]
            .iter()
            .enumerate()
            .filter(|&(_, &count)| count > 0)
            .map(|(offset, &count)| ((self.low + offset) as u32, count))
            .collect();
        Sparse {
            buckets,
            count: self.count,
            sum_ns: self.sum_ns,
            min_ns: self.min_ns,
            max_ns: self.max_ns,
        }
    }

    /// Takes the samples out and leaves the histogram empty; costs the touched range.
    pub fn take(&mut self) -> Sparse {
        let sparse = self.to_sparse();
        if self.count > 0 {
            self.counts[self.low..=self.high].fill(0);
        }
        self.low = BUCKETS;
        self.high = 0;
        self.count = 0;
        self.sum_ns = 0;
        self.min_ns = u64::MAX;
        self.max_ns = 0;
        sparse
    }

    /// Samples in all.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Sum of all samples in nanoseconds.
    pub fn sum_ns(&self) -> u64 {
        self.sum_ns
    }

    /// Exact mean in nanoseconds; 0 when empty.
    pub fn mean_ns(&self) -> f64 {
        if self.count == 0 { 0.0 } else { self.sum_ns as f64 / self.count as f64 }
    }

    /// Smallest sample, exact, in nanoseconds; 0 when empty.
    pub fn min_ns(&self) -> u64 {
        if self.count == 0 { 0 } else { self.min_ns }
    }

    /// Largest sample, exact, in nanoseconds; 0 when empty.
    pub fn max_ns(&self) -> u64 {
        self.max_ns
    }

    /// The value below or at which `percentile` (0 to 100) of the samples lie, in nanoseconds,
    /// not more than 1/1,024 above the exact one; 0 when empty.
    pub fn percentile_ns(&self, percentile: f64) -> u64 {
        let wanted = ((percentile / 100.0 * self.count as f64).ceil() as u64).max(1);
        let mut seen = 0;
        for (bucket, count) in self.buckets() {
            seen += count;
            if seen >= wanted {
                return highest_in(bucket).min(self.max_ns);
            }
        }
        self.max_ns
    }

    /// True if `percentile` has at least 100 samples beyond it, so that it is meaningful.
    pub fn supports_percentile(&self, percentile: f64) -> bool {
        let beyond = (1.0 - percentile / 100.0) * self.count as f64;
        // 100,000 x (1 - 0.999) is 99.99999999999997 in floating point.
        beyond + 1e-6 >= crate::limits::SAMPLES_BEYOND_PERCENTILE_MIN
    }

    /// Non-empty buckets as (highest value in nanoseconds, samples), ascending.
    pub fn values(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.buckets().map(|(bucket, count)| (highest_in(bucket), count))
    }

    fn buckets(&self) -> impl Iterator<Item = (usize, u64)> + '_ {
        let range = if self.count == 0 { 0..0 } else { self.low..self.high + 1 };
        range.map(|bucket| (bucket, self.counts[bucket])).filter(|&(_, count)| count > 0)
    }
}

impl Sparse {
    /// The full histogram again.
    pub fn to_histogram(&self) -> Histogram {
        let mut histogram = Histogram::new();
        histogram.add_sparse(self);
        histogram
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_contiguous_and_no_wider_than_a_thousandth() {
        let mut previous = 0;
        for bucket in 1..BUCKETS {
            let highest = highest_in(bucket);
            assert_eq!(bucket_of(highest), bucket, "highest value of bucket {bucket}");
            assert_eq!(bucket_of(previous + 1), bucket, "first value of bucket {bucket}");
            assert!((highest - previous) as f64 <= (previous as f64 / 1024.0).max(1.0) + 1.0);
            previous = highest;
        }
        assert_eq!(bucket_of(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn percentiles_equal_the_sorted_samples_within_a_thousandth() {
        let mut random = 88_172_645_463_325_252u64;
        let mut samples = Vec::new();
        let mut histogram = Histogram::new();
        for _ in 0..20_000 {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            let sample = random % 50_000_000;
            samples.push(sample);
            histogram.record_n(sample, 1);
        }
        samples.sort_unstable();
        for percentile in [1.0, 50.0, 90.0, 99.0, 99.9, 100.0] {
            let rank = (percentile / 100.0 * samples.len() as f64).ceil() as usize - 1;
            let exact = samples[rank] as f64;
            let estimate = histogram.percentile_ns(percentile) as f64;
            assert!(
                estimate >= exact && estimate <= exact * 1.001 + 1.0,
                "{percentile}: {estimate} for {exact}"
            );
        }
        assert_eq!(histogram.sum_ns(), samples.iter().sum::<u64>());
    }

    #[test]
    fn taking_a_second_out_and_adding_it_back_loses_nothing() {
        let mut histogram = Histogram::new();
        histogram.record_n(1_500, 3);
        histogram.record_n(2_000_000, 1);
        let second = histogram.take();
        assert_eq!(histogram.count(), 0);
        assert_eq!(histogram.percentile_ns(50.0), 0);
        histogram.record_n(7, 1);
        let mut total = second.to_histogram();
        total.add(&histogram);
        assert_eq!((total.count(), total.min_ns(), total.max_ns()), (5, 7, 2_000_000));
        assert_eq!(total.sum_ns(), 3 * 1_500 + 2_000_000 + 7);
    }

    #[test]
    fn percentile_without_samples_beyond_it_is_not_supported() {
        let mut histogram = Histogram::new();
        histogram.record_n(10, 99_999);
        assert!(!histogram.supports_percentile(99.9));
        histogram.record_n(10, 1);
        assert!(histogram.supports_percentile(99.9));
        assert!(!histogram.supports_percentile(99.99));
    }
}
