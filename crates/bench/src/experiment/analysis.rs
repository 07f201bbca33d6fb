//! From runs to tables and verdicts.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::experiment::metrics::METRICS;
use crate::experiment::record::{ExperimentOutcome, Record};
use crate::experiment::spec::AA_ARM;
use crate::stats::{
    Comparison, Interval, Summary, benjamini_hochberg, compare_metric, conclude, mann_whitney_p,
    welch,
};

/// One arm's runs in one metric.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ArmSummary {
    /// Load.
    pub load: String,
    /// Metric.
    pub metric: String,
    /// Arm.
    pub arm: String,
    /// Values by block.
    pub values: Vec<(usize, f64)>,
    /// Described.
    pub summary: Summary,
}

/// One arm against the baseline in one metric.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ArmComparison {
    /// Load.
    pub load: String,
    /// Metric.
    pub metric: String,
    /// Arm.
    pub arm: String,
    /// Compared.
    pub comparison: Comparison,
    /// Results of tests that ignore the blocks: a cross-check, which decides nothing.
    pub unpaired: Unpaired,
}

/// P-values of two unpaired tests.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Unpaired {
    /// Welch's; `None` without any spread.
    pub welch_p: Option<f64>,
    /// Mann-Whitney's.
    pub mann_whitney_p: f64,
}

/// One arm against the baseline in a metric that gets no verdict.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Exploration {
    /// Load.
    pub load: String,
    /// Metric.
    pub metric: String,
    /// Arm.
    pub arm: String,
    /// Geometric mean of arm / baseline.
    pub ratio: f64,
    /// Its 95 % interval, of this metric alone.
    pub interval: Interval,
    /// Sign-flip p after Benjamini and Hochberg over all explorations: the share of false
    /// discoveries among those up to this one.
    pub q: f64,
}

/// Everything the reports show.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Analysis {
    /// The baseline.
    pub baseline: String,
    /// Every arm in every metric.
    pub summaries: Vec<ArmSummary>,
    /// Primary metrics, adjusted together.
    pub comparisons: Vec<ArmComparison>,
    /// All other metrics: where to look next, no verdicts.
    pub explorations: Vec<Exploration>,
}

fn values(records: &[Record], arm: &str, load: &str, metric: &str) -> Vec<(usize, f64)> {
    let mut values: Vec<(usize, f64)> = records
        .iter()
        .filter(|record| record.arm == arm && record.load == load)
        .filter_map(|record| Some((record.block, *record.metrics.get(metric)?)))
        .collect();
    values.sort_by_key(|&(block, _)| block);
    values
}

/// Values of both arms in the blocks that have both.
fn paired(a: &[(usize, f64)], b: &[(usize, f64)]) -> (Vec<f64>, Vec<f64>) {
    let b: BTreeMap<usize, f64> = b.iter().copied().collect();
    a.iter().filter_map(|(block, value)| Some((*value, *b.get(block)?))).unzip()
}

/// Analyses the runs. Primary metrics of all arms and loads are adjusted as one family.
pub fn analyse(outcome: &ExperimentOutcome) -> Analysis {
    let spec = &outcome.spec;
    let ran = |name: &str| outcome.records.iter().any(|record| record.arm == name);
    let arms: Vec<String> = spec.arms_to_run().into_iter().map(|arm| arm.name).collect();
    let arms: Vec<String> = arms.into_iter().filter(|name| ran(name)).collect();
    let baseline = arms.first().cloned().unwrap_or_default();
    let mut summaries = Vec::new();
    let mut comparisons = Vec::new();
    let mut explorations = Vec::new();
    let mut noise = Vec::new();
    for load in &spec.loads {
        let of = |arm: &str, metric: &str| values(&outcome.records, arm, &load.name, metric);
        for metric in METRICS {
            for arm in &arms {
                let values = of(arm, metric.name);
                let plain: Vec<f64> = values.iter().map(|&(_, value)| value).collect();
                if let Some(summary) = Summary::of(&plain) {
                    let (load, arm) = (load.name.clone(), arm.clone());
                    let metric = metric.name.to_string();
                    summaries.push(ArmSummary { load, metric, arm, values, summary });
                }
            }
            let is_primary = spec.primary.iter().any(|name| name == metric.name);
            let compare = |arm: &str| {
                let (a, b) = paired(&of(&baseline, metric.name), &of(arm, metric.name));
                compare_metric(&a, &b, metric.direction, outcome.seed)
            };
            let same = spec.aa.then(|| compare(AA_ARM)).flatten().map(|aa| aa.ratio);
            for arm in arms.iter().skip(1).filter(|arm| *arm != AA_ARM) {
                let Some(comparison) = compare(arm) else { continue };
                let (load, metric, arm) = (load.name.clone(), metric.name.to_string(), arm.clone());
                if is_primary {
                    noise.push(same);
                    let unpaired = unpaired(&of(&baseline, &metric), &of(&arm, &metric));
                    comparisons.push(ArmComparison { load, metric, arm, comparison, unpaired });
                } else {
                    let Comparison { ratio, interval, p: q, .. } = comparison;
                    explorations.push(Exploration { load, metric, arm, ratio, interval, q });
                }
            }
        }
    }
    let mut plain: Vec<Comparison> =
        comparisons.iter().map(|entry| entry.comparison.clone()).collect();
    conclude(&mut plain, &noise, spec.threshold);
    for (entry, comparison) in comparisons.iter_mut().zip(plain) {
        entry.comparison = comparison;
    }
    let p_values: Vec<f64> = explorations.iter().map(|entry| entry.q).collect();
    for (entry, q) in explorations.iter_mut().zip(benjamini_hochberg(&p_values)) {
        entry.q = q;
    }
    Analysis { baseline, summaries, comparisons, explorations }
}

fn unpaired(baseline: &[(usize, f64)], arm: &[(usize, f64)]) -> Unpaired {
    let plain = |values: &[(usize, f64)]| values.iter().map(|&(_, value)| value).collect();
    let (a, b): (Vec<f64>, Vec<f64>) = (plain(baseline), plain(arm));
    let welch_p = welch(&a, &b).map(|(_, _, p, _)| p);
    Unpaired { welch_p, mann_whitney_p: mann_whitney_p(&a, &b) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::spec::{Spec, TEMPLATE};

    /// Ten blocks in which the second arm takes a tenth less CPU and has the same rate.
    fn outcome() -> ExperimentOutcome {
        let mut records = Vec::new();
        for block in 0..10 {
            for (arm, cpu_us) in [("redis", 10.0), ("valkey", 9.0), (AA_ARM, 10.0)] {
                let drift = 1.0 + (block * 7 % 10) as f64 / 100.0;
                let wobble = 1.0 + (block * arm.len() % 7) as f64 / 1e4;
                let metrics = [
                    ("ops_per_second".to_string(), 1e5 * drift * wobble),
                    ("server_cpu_us".to_string(), cpu_us * wobble),
                    ("client_cpu_us".to_string(), 3.0 * wobble),
                ];
                records.push(Record {
                    block,
                    arm: arm.into(),
                    load: "mixed".into(),
                    started_ms: 0,
                    metrics: metrics.into(),
                    slots: Vec::new(),
                    curve: Vec::new(),
                    autocorrelation: None,
                    tails: Vec::new(),
                    marks: Vec::new(),
                    warnings: Vec::new(),
                });
            }
        }
        let spec = Spec::parse(TEMPLATE).unwrap();
        ExperimentOutcome { spec, seed: 1, records, skipped: Vec::new(), interrupted: false }
    }

    #[test]
    fn primary_metrics_get_verdicts_and_the_others_a_place_to_look() {
        let analysis = analyse(&outcome());
        let [rate] = &analysis.comparisons[..] else { panic!("{:?}", analysis.comparisons) };
        assert_eq!((rate.metric.as_str(), rate.arm.as_str()), ("ops_per_second", "valkey"));
        assert_eq!(rate.comparison.verdict, crate::stats::Verdict::Equivalent);
        // The blocks differ far more than the arms: tests that ignore them see nothing.
        assert!(rate.unpaired.welch_p.unwrap() > 0.5 && rate.unpaired.mann_whitney_p > 0.5);
        let [cpu, client] = &analysis.explorations[..] else {
            panic!("{:?}", analysis.explorations)
        };
        assert_eq!(
            (cpu.metric.as_str(), client.metric.as_str()),
            ("server_cpu_us", "client_cpu_us")
        );
        assert!((cpu.ratio - 0.9).abs() < 0.001 && cpu.q < 0.01, "{cpu:?}");
        assert!((client.ratio - 1.0).abs() < 0.001, "{client:?}");
    }
}
