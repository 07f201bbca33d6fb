//! `tidemill tune ab`: the tuner switches, the load generator measures.
//!
//! Neither crate knows the other, so both meet here. Each run is a `tidemill bench` of its own, with all its flags.

use std::io;
use std::process::{Command, Stdio};
use std::time::SystemTime;

use tidemill_bench::experiment::ab::{Change, Plan, ab};
use tidemill_bench::stats::Direction;
use tidemill_host::tune::{Judge, Trial, TrialPlan};

/// Judges by the throughput of `tidemill bench`.
pub struct Bench;

struct Switch<'a>(&'a mut Trial);

impl Change for Switch<'_> {
    fn apply(&mut self) -> io::Result<()> {
        self.0.apply()
    }

    fn revert(&mut self) -> io::Result<()> {
        self.0.revert()
    }
}

impl Judge for Bench {
    fn judge(&self, trial: &mut Trial, plan: &TrialPlan) -> Result<bool, String> {
        let words = load_words(&plan.load)?;
        let seed = SystemTime::UNIX_EPOCH.elapsed().map_or(0, |elapsed| elapsed.as_nanos() as u64);
        let experiment = Plan {
            blocks: plan.blocks,
            threshold: plan.threshold,
            direction: Direction::HigherIsBetter,
            seed,
        };
        let judged = ab(&mut Switch(trial), experiment, || {
            let operations_per_second = measure(&words)?;
            eprintln!("{operations_per_second:.0} operations per second");
            Ok(operations_per_second)
        });
        let judgement = judged.map_err(|error| error.to_string())?;
        for (name, values) in ["without", "without again", "with"].iter().zip(&judgement.values) {
            let mean = values.iter().sum::<f64>() / values.len().max(1) as f64;
            println!("{name:<14} mean {mean:.0} operations per second in {} runs", values.len());
        }
        if let Some(found) = &judgement.comparison {
            println!(
                "with/without   {:.3} [{:.3}, {:.3}], p {:.4}: {}",
                found.ratio, found.interval.lower, found.interval.upper, found.p, found.verdict
            );
        }
        Ok(judgement.kept)
    }
}

fn load_words(load: &str) -> Result<Vec<String>, String> {
    let words = tidemill_bench::load::command::split_words(load)?;
    let words: Option<Vec<String>> =
        words.into_iter().map(|word| String::from_utf8(word).ok()).collect();
    words.ok_or_else(|| "--load: not UTF-8".to_owned())
}

/// Operations per second of one run, from its report.
fn measure(words: &[String]) -> io::Result<f64> {
    let report = tempfile::NamedTempFile::new()?;
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("bench").args(words).arg("--json-out-file").arg(report.path());
    let output = command.stdin(Stdio::null()).stdout(Stdio::null()).output()?;
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stderr);
        let line = text.lines().find(|line| !line.is_empty()).unwrap_or("no word of error");
        return Err(io::Error::other(format!("the load ended with {}: {line}", output.status)));
    }
    let document: serde_json::Value = serde_json::from_reader(report.as_file())?;
    let measured = &document["ALL STATS"]["Totals"]["Ops/sec"];
    measured.as_f64().ok_or_else(|| io::Error::other("the report tells no operations per second"))
}
