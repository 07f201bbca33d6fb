//! Two samples: tests and effect sizes.

use serde::{Deserialize, Serialize};
use statrs::distribution::{ContinuousCDF, Normal, StudentsT};

use crate::load::keys::Random;
use crate::stats::describe::{mean, median_of_sorted, t_interval, t_quantile, variance};

/// Up to this many pairs all sign patterns are enumerated (2^20).
const EXACT_PAIRS_MAX: usize = 20;
/// Random sign patterns beyond that.
const RANDOM_PATTERNS: usize = 100_000;

/// A confidence interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// Lower end.
    pub lower: f64,
    /// Upper end.
    pub upper: f64,
}

impl Interval {
    /// True if the value lies within, ends included.
    pub fn contains(&self, value: f64) -> bool {
        self.lower <= value && value <= self.upper
    }
}

/// Logarithms of b/a by pair, their mean and its 95 % interval; `None` below two pairs or when a
/// value is not positive.
pub fn paired_log_ratio(a: &[f64], b: &[f64]) -> Option<(Vec<f64>, f64, Interval)> {
    if a.len() != b.len() || a.iter().chain(b).any(|&value| value.is_nan() || value <= 0.0) {
        return None;
    }
    let ratios: Vec<f64> = a.iter().zip(b).map(|(a, b)| (b / a).ln()).collect();
    let interval = t_interval(&ratios, 0.95)?;
    let mean = mean(&ratios);
    Some((ratios, mean, interval))
}

/// Two-sided p of the sign-flip (Fisher randomization) test that the differences are symmetric
/// around zero: exact up to 20 pairs, from 100,000 random patterns of the given seed beyond.
pub fn sign_flip_p(differences: &[f64], seed: u64) -> f64 {
    if differences.is_empty() {
        return 1.0;
    }
    let observed = differences.iter().sum::<f64>().abs();
    let scale: f64 = differences.iter().map(|difference| difference.abs()).sum();
    // Sums of the same numbers in another order differ in the last bits.
    let limit = observed - scale * 1e-12;
    if differences.len() <= EXACT_PAIRS_MAX {
        return exact_sign_flip(differences, limit);
    }
    let mut random = Random::new(seed);
    let mut extreme = 0;
    for _ in 0..RANDOM_PATTERNS {
        let sum: f64 = differences
            .chunks(64)
            .flat_map(|chunk| {
                let bits = random.next();
                chunk.iter().enumerate().map(move |(bit, difference)| {
                    if bits >> bit & 1 == 1 { -difference } else { *difference }
                })
            })
            .sum();
        extreme += usize::from(sum.abs() >= limit);
    }
    (extreme + 1) as f64 / (RANDOM_PATTERNS + 1) as f64
}

/// Walks the patterns in Gray-code order: one difference changes its sign per step. The first
/// difference keeps its sign, which halves the work, since both signs of a sum count.
fn exact_sign_flip(differences: &[f64], limit: f64) -> f64 {
    let mut signed = differences.to_vec();
    let patterns = 1u64 << (differences.len() - 1);
    let mut sum: f64 = signed.iter().sum();
    let mut extreme = u64::from(sum.abs() >= limit);
    for step in 1..patterns {
        let flipped = step.trailing_zeros() as usize + 1;
        signed[flipped] = -signed[flipped];
        // Summing anew now and then keeps rounding errors from growing.
        sum = if step % 1024 == 0 { signed.iter().sum() } else { sum + 2.0 * signed[flipped] };
        extreme += u64::from(sum.abs() >= limit);
    }
    extreme as f64 / patterns as f64
}

/// Welch's test for unpaired samples: t, degrees of freedom, two-sided p, and the 95 % interval of
/// mean(b) - mean(a). `None` below two samples each or without any spread.
pub fn welch(a: &[f64], b: &[f64]) -> Option<(f64, f64, f64, Interval)> {
    if a.len() < 2 || b.len() < 2 {
        return None;
    }
    let (from_a, from_b) = (variance(a) / a.len() as f64, variance(b) / b.len() as f64);
    let error = (from_a + from_b).sqrt();
    if error == 0.0 {
        return None;
    }
    let freedom = (from_a + from_b).powi(2)
        / (from_a.powi(2) / (a.len() - 1) as f64 + from_b.powi(2) / (b.len() - 1) as f64);
    let difference = mean(b) - mean(a);
    let statistic = difference / error;
    let distribution = StudentsT::new(0.0, 1.0, freedom).ok()?;
    let p = 2.0 * (1.0 - distribution.cdf(statistic.abs()));
    let half = t_quantile(freedom, 0.975) * error;
    Some((statistic, freedom, p, Interval { lower: difference - half, upper: difference + half }))
}

/// Two-sided p of the Mann-Whitney test: exact without ties up to 50 in all, with the normal
/// approximation, continuity and tie corrections otherwise.
pub fn mann_whitney_p(a: &[f64], b: &[f64]) -> f64 {
    if a.is_empty() || b.is_empty() {
        return 1.0;
    }
    let mut twice_u = 0u64;
    let mut ties = false;
    for x in a {
        for y in b {
            twice_u += match x.total_cmp(y) {
                std::cmp::Ordering::Greater => 2,
                std::cmp::Ordering::Equal => {
                    ties = true;
                    1
                }
                std::cmp::Ordering::Less => 0,
            };
        }
    }
    let pairs = (a.len() * b.len()) as u64;
    let lower_twice_u = twice_u.min(2 * pairs - twice_u);
    if !ties && a.len() + b.len() <= 50 {
        let counts = mann_whitney_counts(a.len(), b.len());
        let total: f64 = counts.iter().sum();
        let below: f64 = counts[..=(lower_twice_u / 2) as usize].iter().sum();
        return (2.0 * below / total).min(1.0);
    }
    let mut all: Vec<f64> = a.iter().chain(b).copied().collect();
    all.sort_by(f64::total_cmp);
    let count = all.len() as f64;
    let tied: f64 = all
        .chunk_by(|x, y| x == y)
        .map(|group| (group.len() as f64).powi(3) - group.len() as f64)
        .sum();
    let variance = pairs as f64 / 12.0 * (count + 1.0 - tied / (count * (count - 1.0)));
    if variance <= 0.0 {
        return 1.0;
    }
    let distance = (pairs as f64 / 2.0 - lower_twice_u as f64 / 2.0 - 0.5).max(0.0);
    let normal = Normal::new(0.0, 1.0).expect("the standard normal");
    (2.0 * (1.0 - normal.cdf(distance / variance.sqrt()))).min(1.0)
}

/// Number of arrangements with each value of U.
fn mann_whitney_counts(m: usize, n: usize) -> Vec<f64> {
    // ways[j][u]: arrangements of i from the first sample and j from the second with that U.
    let mut ways = vec![vec![0.0; m * n + 1]; n + 1];
    for row in &mut ways {
        row[0] = 1.0;
    }
    for i in 1..=m {
        let mut next = vec![vec![0.0; m * n + 1]; n + 1];
        next[0][0] = 1.0;
        for j in 1..=n {
            for u in 0..=i * j {
                let first_is_largest = if u >= j { ways[j][u - j] } else { 0.0 };
                next[j][u] = first_is_largest + next[j - 1][u];
            }
        }
        ways = next;
    }
    ways.swap_remove(n)
}

/// Cliff's delta: share of pairs with b above a minus share with b below a; -1 to 1.
pub fn cliffs_delta(a: &[f64], b: &[f64]) -> f64 {
    let mut balance = 0i64;
    for x in a {
        for y in b {
            balance += match y.total_cmp(x) {
                std::cmp::Ordering::Greater => 1,
                std::cmp::Ordering::Equal => 0,
                std::cmp::Ordering::Less => -1,
            };
        }
    }
    balance as f64 / (a.len() * b.len()).max(1) as f64
}

/// Hodges-Lehmann shift: the median of all differences b - a.
pub fn hodges_lehmann(a: &[f64], b: &[f64]) -> Option<f64> {
    let mut differences: Vec<f64> = a.iter().flat_map(|x| b.iter().map(move |y| y - x)).collect();
    differences.sort_by(f64::total_cmp);
    (!differences.is_empty()).then(|| median_of_sorted(&differences))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Student's sleep data (Cushny and Peebles 1905), as in R's `sleep`.
    const SLEEP: [[f64; 10]; 2] = [
        [0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0],
        [1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4],
    ];

    #[test]
    fn welch_matches_the_published_result_for_the_sleep_data() {
        let (t, freedom, p, interval) = welch(&SLEEP[0], &SLEEP[1]).unwrap();
        assert!((t - 1.8608).abs() < 1e-4, "{t}");
        assert!((freedom - 17.776).abs() < 1e-3, "{freedom}");
        assert!((p - 0.07939).abs() < 1e-5, "{p}");
        assert!((interval.lower + 0.2054832).abs() < 1e-6, "{interval:?}");
        assert!((interval.upper - 3.3654832).abs() < 1e-6, "{interval:?}");
    }

    #[test]
    fn paired_interval_matches_the_published_result_for_the_sleep_data() {
        let differences: Vec<f64> = SLEEP[0].iter().zip(SLEEP[1]).map(|(a, b)| b - a).collect();
        let interval = t_interval(&differences, 0.95).unwrap();
        assert!((interval.lower - 0.7001142).abs() < 1e-6);
        assert!((interval.upper - 2.4598858).abs() < 1e-6);
    }

    #[test]
    fn sign_flip_matches_fishers_count_for_darwins_maize() {
        let maize = [49., -67., 8., 16., 6., 23., 28., 41., 14., 29., 56., 24., 75., 60., -48.];
        // The Design of Experiments, 21: 863 of 32,768 on one side.
        assert_eq!(sign_flip_p(&maize, 0), 2.0 * 863.0 / 32_768.0);
    }

    #[test]
    fn sign_flip_has_the_smallest_p_that_its_patterns_allow() {
        for (count, expected) in [(5usize, 0.0625), (6, 0.03125), (10, 1.0 / 512.0)] {
            assert_eq!(sign_flip_p(&vec![0.01; count], 0), expected);
        }
        let many: Vec<f64> = (0..30).map(|index| f64::from(index % 7) - 2.8).collect();
        let exact = {
            // Normal approximation, good to a few percent at 30 pairs.
            let sum: f64 = many.iter().sum();
            let deviation = many.iter().map(|value| value * value).sum::<f64>().sqrt();
            2.0 * (1.0 - Normal::new(0.0, 1.0).unwrap().cdf(sum.abs() / deviation))
        };
        assert!((sign_flip_p(&many, 1) - exact).abs() < 0.03);
    }

    #[test]
    fn mann_whitney_matches_the_exact_counts() {
        let low: Vec<f64> = (1..=5).map(f64::from).collect();
        let high: Vec<f64> = (6..=10).map(f64::from).collect();
        assert!((mann_whitney_p(&low, &high) - 2.0 / 252.0).abs() < 1e-12);
        assert!((mann_whitney_p(&low[..3], &high[..3]) - 0.1).abs() < 1e-12);
        // Mann and Whitney 1947, table for n = m = 4: P(U <= 4) = 0.171.
        let a = [1.0, 2.0, 5.0, 6.0];
        let b = [3.0, 4.0, 7.0, 8.0];
        assert!((mann_whitney_p(&a, &b) - 2.0 * 12.0 / 70.0).abs() < 1e-12);
    }

    #[test]
    fn mann_whitney_with_ties_matches_the_published_result_for_the_sleep_data() {
        // R: wilcox.test(extra ~ group, sleep, exact = FALSE): W = 25.5, p = 0.06933.
        assert!((mann_whitney_p(&SLEEP[0], &SLEEP[1]) - 0.06933).abs() < 1e-5);
    }

    #[test]
    fn effect_sizes_are_those_of_their_definition() {
        assert_eq!(cliffs_delta(&[1.0, 2.0], &[3.0, 4.0]), 1.0);
        assert_eq!(cliffs_delta(&[1.0, 2.0], &[2.0, 1.0]), 0.0);
        assert_eq!(hodges_lehmann(&[1.0, 2.0, 9.0], &[3.0, 4.0, 5.0]), Some(2.0));
    }

    #[test]
    fn ratios_refuse_values_that_have_no_logarithm() {
        assert!(paired_log_ratio(&[1.0, 0.0], &[1.0, 1.0]).is_none());
        assert!(paired_log_ratio(&[1.0], &[1.0]).is_none());
        let (_, mean, _) = paired_log_ratio(&[1.0, 2.0], &[2.0, 4.0]).unwrap();
        assert!((mean.exp() - 2.0).abs() < 1e-12);
    }
}
