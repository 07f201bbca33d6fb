//! Terminal tables and the JSON document of an experiment.

use std::io::{self, Write};

use serde_json::{Value, json};

use crate::experiment::analysis::Analysis;
use crate::experiment::metrics::title;
use crate::experiment::record::ExperimentOutcome;

/// Version of the JSON document.
pub const JSON_VERSION: u32 = 1;

/// A number with four significant digits.
pub(crate) fn short(value: f64) -> String {
    let digits = 3 - (value.abs().max(1e-12).log10().floor() as i32).clamp(-6, 3);
    format!("{value:.*}", digits.max(0) as usize)
}

/// Facts of the machine that a reader needs.
pub(super) fn machine() -> Value {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default().trim().to_string();
    let cpu = read("/proc/cpuinfo");
    let model = cpu.lines().find(|line| line.starts_with("model name"));
    let cpus = std::thread::available_parallelism().map_or(0, std::num::NonZero::get);
    json!({
        "kernel": read("/proc/sys/kernel/osrelease"),
        "cpu": model.and_then(|line| Some(line.split_once(':')?.1.trim())).unwrap_or("unknown"),
        "cpus": cpus,
        "load_average": read("/proc/loadavg"),
        "transparent_huge_pages": read("/sys/kernel/mm/transparent_hugepage/enabled"),
    })
}

/// Everything: what was asked, the machine, every run, what follows from them.
pub fn json_document(outcome: &ExperimentOutcome, analysis: &Analysis) -> Value {
    json!({
        "version": JSON_VERSION,
        "tidemill": env!("CARGO_PKG_VERSION"),
        "machine": machine(),
        "spec": outcome.spec,
        "seed": outcome.seed,
        "interrupted": outcome.interrupted,
        "skipped": outcome.skipped,
        "runs": outcome.records,
        "analysis": analysis,
    })
}

/// Writes the tables.
///
/// # Errors
/// When the output cannot be written.
pub fn write_report(
    out: &mut dyn Write,
    outcome: &ExperimentOutcome,
    analysis: &Analysis,
) -> io::Result<()> {
    writeln!(out, "\n{}: {}", outcome.spec.name, outcome.spec.description)?;
    writeln!(
        out,
        "{} blocks, seed {}, baseline {}{}",
        outcome.spec.blocks,
        outcome.seed,
        analysis.baseline,
        if outcome.interrupted { ", INTERRUPTED" } else { "" }
    )?;
    for (arm, reason) in &outcome.skipped {
        writeln!(out, "skipped {arm}: {reason}")?;
    }
    let mut heading = (String::new(), String::new());
    for entry in &analysis.summaries {
        let next = (entry.load.clone(), entry.metric.clone());
        if next != heading {
            writeln!(out, "\n{} [{}]", title(&entry.metric), entry.load)?;
            write!(out, "  {:<20}", "arm")?;
            for column in ["n", "Mean", "Std Dev", "Min", "Max", "Median", "CI Lower", "CI Upper"] {
                write!(out, "{column:>11}")?;
            }
            writeln!(out, "{:>24}", "CI of the median")?;
            heading = next;
        }
        let summary = &entry.summary;
        let known = |value: Option<f64>| value.map_or("---".to_string(), short);
        let interval = summary.mean_interval;
        write!(out, "  {:<20}{:>11}", entry.arm, summary.count)?;
        for value in [
            Some(summary.mean),
            summary.standard_deviation,
            Some(summary.minimum),
            Some(summary.maximum),
            Some(summary.median),
            interval.map(|interval| interval.lower),
            interval.map(|interval| interval.upper),
        ] {
            write!(out, "{:>11}", known(value))?;
        }
        let median = summary.median_interval.map_or("---".into(), |interval| {
            format!("{} to {}", short(interval.lower), short(interval.upper))
        });
        writeln!(out, "{median:>24}")?;
    }
    writeln!(out, "\nPercentiles are means of per-run percentiles, never pooled. CI: 95 %.")?;
    write_comparisons(out, analysis)
}

/// Advice when `analysis` has too few blocks to decide its comparisons: the smallest p of a
/// sign-flip test over n blocks is 2 / 2^n, and Holm multiplies it by their number.
pub(super) fn blocks_note(analysis: &Analysis) -> Option<String> {
    let count = analysis.comparisons.len();
    let blocks = analysis.comparisons.iter().map(|entry| entry.comparison.blocks).min()?;
    let smallest = |blocks: usize| 2.0 * 0.5f64.powi(blocks as i32) * count as f64;
    if smallest(blocks) < 0.05 {
        return None;
    }
    let needed = (6..64).find(|&blocks| smallest(blocks) < 0.05)?;
    Some(format!(
        "With {count} primary comparisons no difference can be significant in {blocks} blocks: run \
         {needed} or more."
    ))
}

fn write_comparisons(out: &mut dyn Write, analysis: &Analysis) -> io::Result<()> {
    if analysis.comparisons.is_empty() {
        return Ok(());
    }
    writeln!(
        out,
        "\nAgainst {}, by block (ratio [95 % CI], exact sign-flip p, Holm):",
        analysis.baseline
    )?;
    for entry in &analysis.comparisons {
        let comparison = &entry.comparison;
        writeln!(
            out,
            "  {:<16} {:<24} {:<12} {:.3} [{:.3}, {:.3}]  p {:.4}  adjusted {:.4}  delta {:+.2}  \
             threshold {:.1} %  {}",
            entry.arm,
            title(&entry.metric),
            entry.load,
            comparison.ratio,
            comparison.interval.lower,
            comparison.interval.upper,
            comparison.p,
            comparison.p_adjusted,
            comparison.cliffs_delta,
            comparison.threshold * 100.0,
            comparison.verdict,
        )?;
    }
    if let Some(note) = blocks_note(analysis) {
        writeln!(out, "{note}")?;
    }
    Ok(())
}
