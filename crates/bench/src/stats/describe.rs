//! One sample: what the report's tables show.

use serde::{Deserialize, Serialize};
use statrs::distribution::{Binomial, ContinuousCDF, DiscreteCDF, StudentsT};

use crate::stats::Interval;

/// The published columns and the median's interval.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// Runs.
    pub count: usize,
    /// Mean.
    pub mean: f64,
    /// Sample standard deviation (n - 1); `None` for a single run.
    pub standard_deviation: Option<f64>,
    /// Smallest.
    pub minimum: f64,
    /// Largest.
    pub maximum: f64,
    /// Median.
    pub median: f64,
    /// Student's 95 % interval of the mean, from two runs on.
    pub mean_interval: Option<Interval>,
    /// Order-statistic interval of the median of at least 95 %, from six runs on.
    pub median_interval: Option<Interval>,
}

impl Summary {
    /// Describes a sample; `None` when it is empty.
    pub fn of(sample: &[f64]) -> Option<Self> {
        let mut sorted = sample.to_vec();
        sorted.sort_by(f64::total_cmp);
        let (&minimum, &maximum) = (sorted.first()?, sorted.last()?);
        Some(Self {
            count: sample.len(),
            mean: mean(sample),
            standard_deviation: (sample.len() > 1).then(|| standard_deviation(sample)),
            minimum,
            maximum,
            median: median_of_sorted(&sorted),
            mean_interval: t_interval(sample, 0.95),
            median_interval: median_interval(sample, 0.95),
        })
    }
}

pub(crate) fn mean(sample: &[f64]) -> f64 {
    sample.iter().sum::<f64>() / sample.len() as f64
}

pub(crate) fn variance(sample: &[f64]) -> f64 {
    let mean = mean(sample);
    sample.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (sample.len() - 1) as f64
}

pub(crate) fn standard_deviation(sample: &[f64]) -> f64 {
    variance(sample).sqrt()
}

pub(crate) fn median_of_sorted(sorted: &[f64]) -> f64 {
    let middle = sorted.len() / 2;
    if sorted.len() % 2 == 1 { sorted[middle] } else { (sorted[middle - 1] + sorted[middle]) / 2.0 }
}

/// Student's interval of the mean; `None` below two samples.
pub fn t_interval(sample: &[f64], confidence: f64) -> Option<Interval> {
    if sample.len() < 2 {
        return None;
    }
    let freedom = (sample.len() - 1) as f64;
    let quantile = t_quantile(freedom, 0.5 + confidence / 2.0);
    let half = quantile * standard_deviation(sample) / (sample.len() as f64).sqrt();
    let mean = mean(sample);
    Some(Interval { lower: mean - half, upper: mean + half })
}

/// Quantile of Student's t distribution.
pub(crate) fn t_quantile(freedom: f64, probability: f64) -> f64 {
    let distribution =
        StudentsT::new(0.0, 1.0, freedom).expect("degrees of freedom are positive here");
    distribution.inverse_cdf(probability)
}

/// The narrowest symmetric pair of order statistics that covers the median with at least the
/// confidence; `None` when there are too few samples (six for 95 %).
pub fn median_interval(sample: &[f64], confidence: f64) -> Option<Interval> {
    let count = sample.len();
    let binomial = Binomial::new(0.5, count as u64).ok()?;
    let mut sorted = sample.to_vec();
    sorted.sort_by(f64::total_cmp);
    let covered = |rank: usize| 1.0 - 2.0 * binomial.cdf(rank as u64 - 1);
    let rank = (1..=count / 2).rev().find(|&rank| covered(rank) >= confidence)?;
    Some(Interval { lower: sorted[rank - 1], upper: sorted[count - rank] })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn t_quantiles_match_the_published_table() {
        let table = [(1.0, 12.7062), (4.0, 2.7764), (9.0, 2.2622), (19.0, 2.0930), (99.0, 1.9842)];
        for (freedom, expected) in table {
            assert!((t_quantile(freedom, 0.975) - expected).abs() < 1e-4, "{freedom}");
        }
    }

    #[test]
    fn median_intervals_use_the_published_ranks() {
        // Ranks for 95 %: n = 6: 1 and 6; n = 10: 2 and 9; n = 20: 6 and 15 (Conover, table A3).
        for (count, low, high) in [(6, 1, 6), (10, 2, 9), (20, 6, 15)] {
            let sample: Vec<f64> = (1..=count).map(f64::from).collect();
            let interval = median_interval(&sample, 0.95).unwrap();
            assert_eq!((interval.lower, interval.upper), (f64::from(low), f64::from(high)));
        }
        assert_eq!(median_interval(&[1.0, 2.0, 3.0, 4.0, 5.0], 0.95), None);
    }

    #[test]
    fn summary_of_one_run_has_no_spread() {
        let summary = Summary::of(&[3.0]).unwrap();
        assert_eq!((summary.mean, summary.median, summary.standard_deviation), (3.0, 3.0, None));
        assert_eq!(summary.mean_interval, None);
        assert_eq!(Summary::of(&[]), None);
    }
}
