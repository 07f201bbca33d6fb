//! From samples to a verdict.
//!
//! "Better" and "worse" need a Holm-adjusted p below 0.05 and a whole interval beyond the
//! threshold; "equivalent" needs a whole interval within it; everything else is inconclusive. The
//! threshold is what the user calls worth having (2 % by default), or the difference seen between
//! two identical arms of the same experiment, if that is larger. Below six blocks nothing can be
//! significant and no verdict is given.

use serde::{Deserialize, Serialize};

use crate::stats::{Interval, cliffs_delta, hodges_lehmann, holm, paired_log_ratio, sign_flip_p};

/// Level of a verdict.
const LEVEL: f64 = 0.05;
/// The sign-flip test cannot fall below 0.05 with fewer blocks.
const BLOCKS_MIN: usize = 6;

/// Good direction of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// Throughput.
    HigherIsBetter,
    /// Latency, CPU.
    LowerIsBetter,
}

/// Verdict of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Better by more than the threshold.
    Better,
    /// Worse by more than the threshold.
    Worse,
    /// The difference is within the threshold.
    Equivalent,
    /// The data do not say.
    Inconclusive,
    /// Fewer than six blocks.
    TooFewBlocks,
}

impl std::fmt::Display for Verdict {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(match self {
            Self::Better => "better",
            Self::Worse => "worse",
            Self::Equivalent => "equivalent",
            Self::Inconclusive => "inconclusive",
            Self::TooFewBlocks => "no verdict (fewer than 6 blocks)",
        })
    }
}

/// An arm against the baseline in one metric.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Comparison {
    /// Blocks in which both have a value.
    pub blocks: usize,
    /// Geometric mean of arm / baseline.
    pub ratio: f64,
    /// Its 95 % interval.
    pub interval: Interval,
    /// Exact sign-flip p.
    pub p: f64,
    /// After Holm's adjustment; equal to `p` until `conclude`.
    pub p_adjusted: f64,
    /// Cliff's delta.
    pub cliffs_delta: f64,
    /// Hodges-Lehmann shift, in the metric's unit.
    pub shift: f64,
    /// Way that is good.
    pub direction: Direction,
    /// Threshold used, as a fraction (0.02 for 2 %).
    pub threshold: f64,
    /// The verdict.
    pub verdict: Verdict,
}

/// Compares paired values; `None` when there are fewer than two pairs or values without a
/// logarithm. The verdict is given by `conclude`.
pub fn compare_metric(
    baseline: &[f64],
    arm: &[f64],
    direction: Direction,
    seed: u64,
) -> Option<Comparison> {
    let (ratios, mean, interval) = paired_log_ratio(baseline, arm)?;
    let p = sign_flip_p(&ratios, seed);
    Some(Comparison {
        blocks: ratios.len(),
        ratio: mean.exp(),
        interval: Interval { lower: interval.lower.exp(), upper: interval.upper.exp() },
        p,
        p_adjusted: p,
        cliffs_delta: cliffs_delta(baseline, arm),
        shift: hodges_lehmann(baseline, arm)?,
        direction,
        threshold: 0.0,
        verdict: Verdict::Inconclusive,
    })
}

/// Adjusts the p-values of all primary comparisons together and gives the verdicts. `noise` is the
/// ratio between identical arms in the metric of each comparison, where there was an A/A arm.
pub fn conclude(comparisons: &mut [Comparison], noise: &[Option<f64>], threshold: f64) {
    let p_values: Vec<f64> = comparisons.iter().map(|comparison| comparison.p).collect();
    let adjusted = holm(&p_values);
    for ((comparison, p_adjusted), noise) in comparisons.iter_mut().zip(adjusted).zip(noise) {
        comparison.p_adjusted = p_adjusted;
        let noise = noise.map_or(0.0, |ratio| ratio.max(1.0 / ratio) - 1.0);
        comparison.threshold = threshold.max(noise);
        comparison.verdict = verdict(comparison);
    }
}

fn verdict(comparison: &Comparison) -> Verdict {
    if comparison.blocks < BLOCKS_MIN {
        return Verdict::TooFewBlocks;
    }
    let (low, high) = (1.0 / (1.0 + comparison.threshold), 1.0 + comparison.threshold);
    let significant = comparison.p_adjusted < LEVEL;
    let higher = significant && comparison.interval.lower > high;
    let lower = significant && comparison.interval.upper < low;
    match (higher, lower, comparison.direction) {
        (true, _, Direction::HigherIsBetter) | (_, true, Direction::LowerIsBetter) => {
            Verdict::Better
        }
        (true, ..) | (_, true, _) => Verdict::Worse,
        _ if comparison.interval.lower >= low && comparison.interval.upper <= high => {
            Verdict::Equivalent
        }
        _ => Verdict::Inconclusive,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judge(factor: f64, spread: f64, blocks: usize, noise: Option<f64>) -> Verdict {
        let baseline: Vec<f64> = (0..blocks).map(|block| 100.0 + block as f64).collect();
        let arm: Vec<f64> = baseline
            .iter()
            .enumerate()
            .map(|(block, value)| value * factor * (1.0 + spread * ((block % 3) as f64 - 1.0)))
            .collect();
        let mut comparisons =
            vec![compare_metric(&baseline, &arm, Direction::HigherIsBetter, 1).unwrap()];
        conclude(&mut comparisons, &[noise], 0.02);
        comparisons[0].verdict
    }

    #[test]
    fn verdicts_need_significance_and_relevance() {
        assert_eq!(judge(1.10, 0.01, 10, None), Verdict::Better);
        assert_eq!(judge(0.90, 0.01, 10, None), Verdict::Worse);
        assert_eq!(judge(1.01, 0.001, 10, None), Verdict::Equivalent);
        assert_eq!(judge(1.03, 0.05, 10, None), Verdict::Inconclusive);
        assert_eq!(judge(1.10, 0.01, 5, None), Verdict::TooFewBlocks);
        // Identical arms differed by 12 %: a gain of 10 % says nothing.
        assert_ne!(judge(1.10, 0.01, 10, Some(0.88)), Verdict::Better);
    }
}
