//! One self-contained HTML file: every run as a point, intervals of ratios, time series within
//! runs, percentile curves, tables. The drawings are SVG without a script, so the file needs
//! neither network nor JavaScript; colours follow the reader's light or dark setting.

mod chart;
mod scale;

use std::fmt::Write;

use crate::experiment::analysis::Analysis;
use crate::experiment::metrics::title;
use crate::experiment::record::ExperimentOutcome;
use crate::experiment::report::{machine, short};
use crate::experiment::spec::AA_ARM;

const STYLE: &str = include_str!("html/style.css");

/// Colours that `style.css` has.
const COLOURS: usize = 8;

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// The colour of an arm; the repeated baseline has none of its own.
fn colour(arms: &[String], arm: &str) -> String {
    if arm == AA_ARM {
        return "var(--soft)".into();
    }
    let index = arms.iter().position(|name| name == arm).unwrap_or(0);
    format!("var(--c{})", index % COLOURS)
}

/// The file.
pub fn html_document(outcome: &ExperimentOutcome, analysis: &Analysis) -> String {
    let mut page = String::new();
    let spec = &outcome.spec;
    let name = escape(&spec.name);
    let _ = write!(
        page,
        "<!doctype html><html lang=en><head><meta charset=utf-8><meta name=viewport \
         content=\"width=device-width,initial-scale=1\"><link rel=icon \
         href=\"data:,\"><title>{name}</title><style>{STYLE}</style></head><body>\
         <h1>{name}</h1><p>{}</p>",
        escape(&spec.description)
    );
    let machine = machine();
    let _ = write!(
        page,
        "<p class=soft>{} blocks in random order (seed {}), baseline <b>{}</b>. {}, {} CPUs, Linux \
         {}.{}</p>",
        spec.blocks,
        outcome.seed,
        escape(&analysis.baseline),
        escape(machine["cpu"].as_str().unwrap_or_default()),
        machine["cpus"],
        escape(machine["kernel"].as_str().unwrap_or_default()),
        if outcome.interrupted { " <b>Interrupted: not all blocks ran.</b>" } else { "" },
    );
    for (arm, reason) in &outcome.skipped {
        let _ = write!(page, "<p>Skipped <b>{}</b>: {}</p>", escape(arm), escape(reason));
    }
    let mut arms: Vec<String> = Vec::new();
    for entry in &analysis.summaries {
        if !arms.contains(&entry.arm) {
            arms.push(entry.arm.clone());
        }
    }
    verdicts(&mut page, analysis);
    if !analysis.comparisons.is_empty() {
        page.push_str("<div class=charts>");
        chart::ratios(&mut page, analysis, &arms);
        page.push_str("</div>");
    }
    for load in &spec.loads {
        let _ = write!(page, "<h2>{}</h2><div class=charts>", escape(&load.name));
        for metric in &spec.primary {
            chart::points(&mut page, analysis, &load.name, metric, &arms);
        }
        chart::curves(&mut page, outcome, &load.name, &arms);
        chart::series(&mut page, outcome, &load.name, &arms);
        chart::tails(&mut page, outcome, &load.name, &arms);
        page.push_str("</div>");
    }
    tables(&mut page, analysis);
    doubts(&mut page, outcome);
    page.push_str("</body></html>\n");
    page
}

fn verdicts(page: &mut String, analysis: &Analysis) {
    if analysis.comparisons.is_empty() {
        return;
    }
    page.push_str(
        "<h2>Verdicts</h2><div class=wide><table><tr><th>arm<th class=words>verdict<th \
                   class=words>metric<th class=words>load<th>ratio<th>95 % \
                   CI<th>p<th>Holm<th>Cliff's delta<th>threshold</tr>",
    );
    for entry in &analysis.comparisons {
        let comparison = &entry.comparison;
        let verdict = comparison.verdict.to_string();
        let _ = write!(
            page,
            "<tr><td>{}<td class=\"words {}\">{verdict}<td class=words>{}<td \
             class=words>{}<td>{:.3}<td>{:.3} to {:.3}<td>{:.4}<td>{:.4}<td>{:+.2}<td>{:.1} %</tr>",
            escape(&entry.arm),
            verdict.split(' ').next().unwrap_or_default(),
            title(&entry.metric),
            escape(&entry.load),
            comparison.ratio,
            comparison.interval.lower,
            comparison.interval.upper,
            comparison.p,
            comparison.p_adjusted,
            comparison.cliffs_delta,
            comparison.threshold * 100.0,
        );
    }
    page.push_str("</table></div>");
    if let Some(note) = crate::experiment::report::blocks_note(analysis) {
        let _ = write!(page, "<p>{note}</p>");
    }
}

fn tables(page: &mut String, analysis: &Analysis) {
    if !analysis.summaries.is_empty() {
        page.push_str("<h2>All figures</h2>");
    }
    let mut last = (String::new(), String::new());
    for entry in &analysis.summaries {
        let this = (entry.load.clone(), entry.metric.clone());
        if this != last {
            if !last.0.is_empty() {
                page.push_str("</table></div>");
            }
            let _ = write!(
                page,
                "<h3>{} [{}]</h3><div class=wide><table><tr><th>arm<th>n<th>Mean<th>Std \
                 Dev<th>Min<th>Max<th>Median<th>95 % CI Lower<th>95 % CI Upper<th>CI of the \
                 median</tr>",
                title(&entry.metric),
                escape(&entry.load)
            );
            last = this;
        }
        let summary = &entry.summary;
        let known = |value: Option<f64>| value.map_or("---".to_string(), short);
        let _ = write!(
            page,
            "<tr><td>{}<td>{}<td>{}<td>{}<td>{}<td>{}<td>{}<td>{}<td>{}<td>{}</tr>",
            escape(&entry.arm),
            summary.count,
            short(summary.mean),
            known(summary.standard_deviation),
            short(summary.minimum),
            short(summary.maximum),
            short(summary.median),
            known(summary.mean_interval.map(|interval| interval.lower)),
            known(summary.mean_interval.map(|interval| interval.upper)),
            summary.median_interval.map_or("---".into(), |interval| format!(
                "{} to {}",
                short(interval.lower),
                short(interval.upper)
            )),
        );
    }
    if !last.0.is_empty() {
        page.push_str(
            "</table></div><p class=soft>Rows of percentiles describe per-run \
                       percentiles; they are not percentiles of all runs pooled.</p>",
        );
    }
}

fn doubts(page: &mut String, outcome: &ExperimentOutcome) {
    let mut any = false;
    for record in &outcome.records {
        for warning in &record.warnings {
            if !any {
                page.push_str(
                    "<h2>What to doubt</h2><p class=soft>No run is left out for these.</p><ul>",
                );
                any = true;
            }
            let _ = write!(
                page,
                "<li>{} block {} [{}]: {}</li>",
                escape(&record.arm),
                record.block + 1,
                escape(&record.load),
                escape(warning)
            );
        }
    }
    if any {
        page.push_str("</ul>");
    }
}
