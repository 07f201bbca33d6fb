//! Statistics for repeated runs.
//!
//! The unit is one run with a fresh server: requests and seconds within a run are correlated and
//! never counted as samples. Means get Student's t interval (bootstrap intervals cover far less
//! than they promise at ten runs), medians the order-statistic interval. Arms are compared by the
//! logarithm of the ratio within a block, which cancels what a block has in common, with an exact
//! sign-flip test; many comparisons at once are adjusted by Holm. A verdict needs both a small p
//! and an interval beyond what matters. No run is ever removed as an outlier.

mod adjust;
mod compare;
mod describe;
mod steady;
mod verdict;

#[cfg(test)]
mod simulation;

pub use adjust::{benjamini_hochberg, holm};
pub use compare::{
    Interval, cliffs_delta, hodges_lehmann, mann_whitney_p, paired_log_ratio, sign_flip_p, welch,
};
pub use describe::{Summary, median_interval, t_interval};
pub use steady::{lag_one_autocorrelation, mser5, steadiness};
pub use verdict::{Comparison, Direction, Verdict, compare_metric, conclude};
