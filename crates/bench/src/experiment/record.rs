//! Records of runs, and of the experiment that they make up: plain data.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::experiment::spec::Spec;

/// One run, as the journal and the JSON report hold it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Record {
    /// Block, from 0.
    pub block: usize,
    /// Arm.
    pub arm: String,
    /// Load.
    pub load: String,
    /// Start of the measurement, milliseconds since 1970.
    pub started_ms: u64,
    /// Metrics by name.
    pub metrics: BTreeMap<String, f64>,
    /// Replies per 100 ms.
    pub slots: Vec<u64>,
    /// (percentile, milliseconds) of all commands, up to the last percentile that the samples
    /// support.
    pub curve: Vec<(f64, f64)>,
    /// Correlation of the replies per 100 ms with those of the slot before: how far the run drifts.
    #[serde(default)]
    pub autocorrelation: Option<f64>,
    /// (second, p99 in milliseconds) of all commands, for seconds with enough samples.
    #[serde(default)]
    pub tails: Vec<(f64, f64)>,
    /// (second, name) of what happened at the server meanwhile.
    #[serde(default)]
    pub marks: Vec<(f64, String)>,
    /// Doubts about the run.
    pub warnings: Vec<String>,
}

/// A finished (or stopped) experiment.
#[derive(Clone, Debug)]
pub struct ExperimentOutcome {
    /// Specification, without the passwords in its command lines.
    pub spec: Spec,
    /// Seed of the order.
    pub seed: u64,
    /// Every run.
    pub records: Vec<Record>,
    /// Arms that cannot run here, with the reason.
    pub skipped: Vec<(String, String)>,
    /// True if it was stopped before its end.
    pub interrupted: bool,
}
