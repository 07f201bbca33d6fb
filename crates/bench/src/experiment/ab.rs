//! One reversible change, judged by interleaved runs and kept only when it helped.
//!
//! Each block holds three runs in random order: without the change twice (their difference is the
//! noise of the machine) and with it once. The gain must exceed the far end of the 95 % interval of
//! that noise, not its mean: two identical arms may agree by luck. Whatever happens, the change is
//! reverted before anything else: it is applied again at the very end, and only when the verdict is
//! "better".

use std::io;

use tidemill_host::output::note;

use crate::load::keys::{Random, below, mix};
use crate::stats::{Comparison, Direction, Verdict, compare_metric, conclude};

/// A change that can be made and undone.
pub trait Change {
    /// Makes the change.
    ///
    /// # Errors
    /// When it cannot be made; it then counts as not made, and `revert` is still called.
    fn apply(&mut self) -> io::Result<()>;

    /// Undoes it. Must be harmless when nothing was changed.
    ///
    /// # Errors
    /// When it cannot be undone.
    fn revert(&mut self) -> io::Result<()>;
}

/// Parameters of the judgement.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Blocks; fewer than six never give a verdict.
    pub blocks: usize,
    /// Smallest gain worth having, as a fraction.
    pub threshold: f64,
    /// Good direction of the measured value.
    pub direction: Direction,
    /// Seed of the order.
    pub seed: u64,
}

/// Verdict on a change.
#[derive(Clone, Debug)]
pub struct Judgement {
    /// The change against its absence; `None` when values had no logarithm.
    pub comparison: Option<Comparison>,
    /// True if the change is in force now.
    pub kept: bool,
    /// Values without the change, again without it, with it.
    pub values: [Vec<f64>; 3],
}

/// Judges a change. `measure` runs the load once and gives its value. Blocks for all runs.
///
/// # Errors
/// When applying, measuring or reverting fails; the change is reverted then, if possible.
pub fn ab(
    change: &mut dyn Change,
    plan: Plan,
    mut measure: impl FnMut() -> io::Result<f64>,
) -> io::Result<Judgement> {
    let mut guard = Revert { change, applied: false };
    let mut values = [Vec::new(), Vec::new(), Vec::new()];
    for block in 0..plan.blocks {
        let mut random = Random::new(mix(plan.seed, block as u64));
        let mut order = [0, 1, 2];
        for last in [2, 1] {
            order.swap(last, below(&mut random, last as u64 + 1) as usize);
        }
        for arm in order {
            if arm == 2 {
                guard.apply()?;
            } else {
                guard.revert()?;
            }
            values[arm].push(measure()?);
        }
    }
    guard.revert()?;
    let [without, again, with] = &values;
    let noise = compare_metric(without, again, plan.direction, plan.seed);
    let mut comparisons: Vec<Comparison> =
        compare_metric(without, with, plan.direction, plan.seed).into_iter().collect();
    let noise = noise.map(|same| same.interval.upper.max(1.0 / same.interval.lower));
    let noise = vec![noise; comparisons.len()];
    conclude(&mut comparisons, &noise, plan.threshold);
    let comparison = comparisons.pop();
    let kept = comparison.as_ref().is_some_and(|found| found.verdict == Verdict::Better);
    if kept {
        guard.apply()?;
        guard.applied = false;
    }
    Ok(Judgement { comparison, kept, values })
}

/// Reverts when dropped with the change in force: on errors and panics too.
pub(super) struct Revert<'a> {
    pub change: &'a mut dyn Change,
    pub applied: bool,
}

impl Revert<'_> {
    pub fn apply(&mut self) -> io::Result<()> {
        if !self.applied {
            // Set first: a change that failed half way is reverted.
            self.applied = true;
            self.change.apply()?;
        }
        Ok(())
    }

    pub fn revert(&mut self) -> io::Result<()> {
        if self.applied {
            self.change.revert()?;
            self.applied = false;
        }
        Ok(())
    }
}

impl Drop for Revert<'_> {
    fn drop(&mut self) {
        if self.applied
            && let Err(error) = self.change.revert()
        {
            note(format_args!("the change could not be reverted: {error}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    struct Factor<'a> {
        applied: &'a Cell<bool>,
        fails: bool,
    }

    impl Change for Factor<'_> {
        fn apply(&mut self) -> io::Result<()> {
            self.applied.set(true);
            if self.fails { Err(io::Error::other("half way")) } else { Ok(()) }
        }

        fn revert(&mut self) -> io::Result<()> {
            self.applied.set(false);
            Ok(())
        }
    }

    const PLAN: Plan =
        Plan { blocks: 8, threshold: 0.02, direction: Direction::HigherIsBetter, seed: 5 };

    /// Judges a change that multiplies throughput by `factor`, on a machine with 1 % noise.
    fn judge(factor: f64) -> (Judgement, bool) {
        let applied = Cell::new(false);
        let mut random = Random::new(77);
        let mut change = Factor { applied: &applied, fails: false };
        let judgement = ab(&mut change, PLAN, || {
            let noise = 1.0 + 0.02 * (random.unit() - 0.5);
            Ok(100.0 * noise * if applied.get() { factor } else { 1.0 })
        });
        (judgement.unwrap(), applied.get())
    }

    #[test]
    fn a_helpful_change_is_kept_and_a_harmful_one_rolled_back() {
        let (judgement, applied) = judge(1.2);
        assert!(judgement.kept && applied, "{judgement:?}");
        let (judgement, applied) = judge(0.8);
        assert_eq!(judgement.comparison.unwrap().verdict, Verdict::Worse);
        assert!(!judgement.kept && !applied);
        let (judgement, applied) = judge(1.0);
        assert!(!judgement.kept && !applied);
    }

    #[test]
    fn a_gain_within_the_interval_of_the_noise_is_not_kept() {
        let applied = Cell::new(false);
        let mut change = Factor { applied: &applied, fails: false };
        let mut runs = 0;
        // Without the change, runs differ by +-15 % in turn, so that the means agree; with it, all
        // are 10 % better.
        let judgement = ab(&mut change, PLAN, || {
            runs += 1;
            let swing = if runs % 2 == 0 { 0.85 } else { 1.15 };
            Ok(if applied.get() { 135.0 } else { 100.0 * swing })
        })
        .unwrap();
        let comparison = judgement.comparison.unwrap();
        assert!(comparison.interval.lower > 1.02 && comparison.p < 0.05, "{comparison:?}");
        assert!(!judgement.kept && !applied.get(), "{comparison:?}");
    }

    #[test]
    fn an_error_at_any_point_leaves_the_change_reverted() {
        let applied = Cell::new(false);
        let mut change = Factor { applied: &applied, fails: true };
        assert!(ab(&mut change, PLAN, || Ok(1.0)).is_err());
        assert!(!applied.get());
        for failing_run in 0..24 {
            let mut run = 0;
            let mut change = Factor { applied: &applied, fails: false };
            let result = ab(&mut change, PLAN, || {
                run += 1;
                if run > failing_run { Err(io::Error::other("load")) } else { Ok(1.0) }
            });
            assert!(result.is_err() && !applied.get(), "run {failing_run}");
        }
    }
}
