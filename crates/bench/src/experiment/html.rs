//! One self-contained HTML file: every run as a point, intervals of ratios, time series within runs,
//! percentile curves, tables. The drawings are SVG without a script, so the file needs neither
//! network nor JavaScript; colours follow the reader's light or dark setting.

use std::fmt::Write;

use crate::experiment::analysis::{Analysis, ArmSummary, title};
use crate::experiment::report::{machine, short};
use crate::experiment::runner::{Outcome, Record};

const STYLE: &str = "\
:root{color-scheme:light dark;--ink:#1d2733;--soft:#66727f;--line:#d5dbe1;--paper:#fff;--good:#16794a;--bad:#b3261e;\
--c0:#3566c0;--c1:#c2571a;--c2:#2a8a5b;--c3:#8a4bb0;--c4:#a1812a;--c5:#3b8ea5}\
@media(prefers-color-scheme:dark){:root{--ink:#e4e9ee;--soft:#9aa6b2;--line:#36414c;--paper:#151b21;--good:#5fce98;\
--bad:#ff8a80;--c0:#7ea6f4;--c1:#f0985c;--c2:#62c795;--c3:#c495e6;--c4:#d9bb62;--c5:#74c3d8}}\
*{box-sizing:border-box}body{margin:0 auto;padding:1.2rem;max-width:68rem;background:var(--paper);color:var(--ink);\
font:15px/1.5 system-ui,sans-serif}h1{margin:.2rem 0}h2{margin:2.2rem 0 .4rem;font-size:1.15rem}\
p,li{max-width:48rem}.soft{color:var(--soft)}.wide{overflow-x:auto}table{border-collapse:collapse;font-size:.86rem;\
font-variant-numeric:tabular-nums}th,td{padding:.25rem .6rem;text-align:right;border-bottom:1px solid var(--line);\
white-space:nowrap}th:first-child,td:first-child{text-align:left}svg{width:100%;height:auto;max-width:46rem;display:block}\
text{fill:var(--ink);font:12px system-ui,sans-serif}.axis{stroke:var(--line)}.better{color:var(--good);font-weight:600}\
.worse{color:var(--bad);font-weight:600}";

const WIDTH: f64 = 720.0;
const LEFT: f64 = 250.0;
const RIGHT: f64 = 700.0;

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// A linear scale of the drawing.
struct Scale {
    low: f64,
    high: f64,
}

impl Scale {
    /// Covers the values with a margin.
    fn covering(values: impl Iterator<Item = f64>) -> Self {
        let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
        for value in values.filter(|value| value.is_finite()) {
            low = low.min(value);
            high = high.max(value);
        }
        if low > high {
            (low, high) = (0.0, 1.0);
        }
        let margin = ((high - low) * 0.08).max(high.abs() * 0.002).max(1e-9);
        // What cannot be negative gets no negative axis.
        let floor = if low >= 0.0 { 0.0 } else { f64::NEG_INFINITY };
        Self { low: (low - margin).max(floor), high: high + margin }
    }

    fn x(&self, value: f64) -> f64 {
        LEFT + (value - self.low) / (self.high - self.low) * (RIGHT - LEFT)
    }

    fn axis(&self, svg: &mut String, y: f64) {
        for step in 0..=4 {
            let value = self.low + (self.high - self.low) * f64::from(step) / 4.0;
            let x = self.x(value);
            let _ = write!(
                svg,
                "<line class=axis x1={x:.1} x2={x:.1} y1=8 y2={y:.0} /><text x={x:.1} y={:.0} text-anchor=middle>{}</text>",
                y + 16.0,
                short(value)
            );
        }
    }
}

fn colour(arms: &[String], arm: &str) -> String {
    let index = arms.iter().position(|name| name == arm).unwrap_or(0);
    format!("var(--c{})", index % 6)
}

/// The file.
pub fn html_document(outcome: &Outcome, analysis: &Analysis) -> String {
    let mut page = String::new();
    let spec = &outcome.spec;
    let name = escape(&spec.name);
    let _ = write!(
        page,
        "<!doctype html><html lang=en><head><meta charset=utf-8><meta name=viewport \
         content=\"width=device-width,initial-scale=1\"><link rel=icon href=\"data:,\"><title>{name}</title><style>{STYLE}</style></head><body>\
         <h1>{name}</h1><p>{}</p>",
        escape(&spec.description)
    );
    let machine = machine();
    let _ = write!(
        page,
        "<p class=soft>{} blocks in random order (seed {}), baseline <b>{}</b>. {}, {} CPUs, Linux {}.{}</p>",
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
    ratios(&mut page, analysis, &arms);
    for load in &spec.loads {
        for metric in &spec.primary {
            points(&mut page, analysis, &load.name, metric, &arms);
        }
        curves(&mut page, outcome, &load.name, &arms);
        series(&mut page, outcome, &load.name, &arms);
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
    page.push_str("<h2>Verdicts</h2><div class=wide><table><tr><th>arm<th>metric<th>load<th>verdict<th>ratio<th>95 % CI<th>p<th>Holm<th>Cliff's delta<th>threshold</tr>");
    for entry in &analysis.comparisons {
        let comparison = &entry.comparison;
        let verdict = comparison.verdict.to_string();
        let _ = write!(
            page,
            "<tr><td>{}<td>{}<td>{}<td class={}>{verdict}<td>{:.3}<td>{:.3} to {:.3}<td>{:.4}<td>{:.4}<td>{:+.2}<td>{:.1} %</tr>",
            escape(&entry.arm),
            title(&entry.metric),
            escape(&entry.load),
            verdict.split(' ').next().unwrap_or_default(),
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

fn ratios(page: &mut String, analysis: &Analysis, arms: &[String]) {
    if analysis.comparisons.is_empty() {
        return;
    }
    let all = analysis
        .comparisons
        .iter()
        .flat_map(|entry| [entry.comparison.interval.lower, entry.comparison.interval.upper, 1.0]);
    let scale = Scale::covering(all);
    let bottom = 14.0 + 26.0 * analysis.comparisons.len() as f64;
    let mut svg = String::new();
    scale.axis(&mut svg, bottom);
    let one = scale.x(1.0);
    let _ = write!(
        svg,
        "<line x1={one:.1} x2={one:.1} y1=8 y2={bottom:.0} stroke=var(--soft) stroke-dasharray=4 />"
    );
    for (row, entry) in analysis.comparisons.iter().enumerate() {
        let y = 22.0 + 26.0 * row as f64;
        let interval = entry.comparison.interval;
        let (low, middle, high) =
            (scale.x(interval.lower), scale.x(entry.comparison.ratio), scale.x(interval.upper));
        let colour = colour(arms, &entry.arm);
        let _ = write!(
            svg,
            "<text x=4 y={:.0}>{}, {} [{}]</text><line x1={low:.1} x2={high:.1} y1={y:.0} y2={y:.0} style=\"stroke:{colour};stroke-width:3\" />\
             <circle cx={middle:.1} cy={y:.0} r=5 style=\"fill:{colour}\" />",
            y + 4.0,
            escape(&entry.arm),
            title(&entry.metric),
            escape(&entry.load)
        );
    }
    let _ = write!(
        page,
        "<h2>Ratio to {}, 95 % intervals</h2><svg viewBox=\"0 0 {WIDTH} {:.0}\">{svg}</svg>",
        escape(&analysis.baseline),
        bottom + 24.0
    );
}

fn of<'a>(analysis: &'a Analysis, load: &str, metric: &str) -> Vec<&'a ArmSummary> {
    let wanted = |entry: &&ArmSummary| entry.load == load && entry.metric == metric;
    analysis.summaries.iter().filter(wanted).collect()
}

fn points(page: &mut String, analysis: &Analysis, load: &str, metric: &str, arms: &[String]) {
    let entries = of(analysis, load, metric);
    if entries.is_empty() {
        return;
    }
    let ends = |entry: &&ArmSummary| {
        let interval = entry.summary.mean_interval;
        let ends = interval.map(|interval| [interval.lower, interval.upper]);
        let values: Vec<f64> = entry.values.iter().map(|point| point.1).collect();
        values.into_iter().chain(ends.into_iter().flatten())
    };
    let scale = Scale::covering(entries.iter().flat_map(ends));
    let bottom = 14.0 + 40.0 * entries.len() as f64;
    let mut svg = String::new();
    scale.axis(&mut svg, bottom);
    for (row, entry) in entries.iter().enumerate() {
        let y = 28.0 + 40.0 * row as f64;
        let colour = colour(arms, &entry.arm);
        let _ = write!(svg, "<text x=4 y={:.0}>{}</text>", y + 4.0, escape(&entry.arm));
        for &(block, value) in &entry.values {
            // Spread by block, so that equal values stay visible.
            let offset = (block % 5) as f64 * 4.0 - 8.0;
            let _ = write!(
                svg,
                "<circle cx={:.1} cy={:.1} r=3.5 style=\"fill:{colour};fill-opacity:.55\"><title>block {}: {}</title></circle>",
                scale.x(value),
                y + offset,
                block + 1,
                short(value)
            );
        }
        if let Some(interval) = entry.summary.mean_interval {
            let (low, high) = (scale.x(interval.lower), scale.x(interval.upper));
            let _ = write!(
                svg,
                "<line x1={low:.1} x2={high:.1} y1={:.0} y2={:.0} style=\"stroke:var(--ink);stroke-width:2\" />",
                y + 15.0,
                y + 15.0
            );
        }
    }
    let _ = write!(
        page,
        "<h2>{} [{}]: every run, and the mean's 95 % interval</h2><svg viewBox=\"0 0 {WIDTH} {:.0}\">{svg}</svg>",
        title(metric),
        escape(load),
        bottom + 24.0
    );
}

fn legend(page: &mut String, arms: &[String]) {
    page.push_str("<p class=soft>");
    for arm in arms {
        let _ = write!(
            page,
            "<span style=\"color:{}\">&#9679; {}</span> &nbsp; ",
            colour(arms, arm),
            escape(arm)
        );
    }
    page.push_str("</p>");
}

/// A panel with one thin line per run.
fn lines(
    page: &mut String,
    heading: &str,
    runs: &[(&Record, Vec<(f64, f64)>)],
    arms: &[String],
    labels: &[(f64, String)],
) {
    let (top, bottom) = (10.0, 230.0);
    let vertical = Scale::covering(runs.iter().flat_map(|run| run.1.iter().map(|point| point.1)));
    let horizontal = Scale::covering(runs.iter().flat_map(|run| run.1.iter().map(|point| point.0)));
    let x = |value: f64| 70.0 + (horizontal.x(value) - LEFT) / (RIGHT - LEFT) * (RIGHT - 70.0);
    let y = |value: f64| {
        bottom - (value - vertical.low) / (vertical.high - vertical.low) * (bottom - top)
    };
    let mut svg = String::new();
    for step in 0..=4 {
        let value = vertical.low + (vertical.high - vertical.low) * f64::from(step) / 4.0;
        let _ = write!(
            svg,
            "<line class=axis x1=70 x2={RIGHT} y1={0:.1} y2={0:.1} /><text x=64 y={1:.1} text-anchor=end>{2}</text>",
            y(value),
            y(value) + 4.0,
            short(value)
        );
    }
    for (place, label) in labels {
        let _ = write!(svg, "<text x={:.1} y=248 text-anchor=middle>{label}</text>", x(*place));
    }
    for (record, points) in runs {
        let path: Vec<String> =
            points.iter().map(|&(a, b)| format!("{:.1},{:.1}", x(a), y(b))).collect();
        let _ = write!(
            svg,
            "<polyline points=\"{}\" style=\"fill:none;stroke:{};stroke-width:1.2;stroke-opacity:.7\"><title>{} block {}</title></polyline>",
            path.join(" "),
            colour(arms, &record.arm),
            escape(&record.arm),
            record.block + 1
        );
    }
    let _ = write!(page, "<h2>{heading}</h2>");
    legend(page, arms);
    let _ = write!(page, "<svg viewBox=\"0 0 {WIDTH} 256\">{svg}</svg>");
}

fn curves(page: &mut String, outcome: &Outcome, load: &str, arms: &[String]) {
    // Evenly spaced in "nines", as tails are read.
    let place = |percentile: f64| -(1.0 - percentile / 100.0).log10();
    let runs: Vec<_> = outcome
        .records
        .iter()
        .filter(|record| record.load == load && record.curve.len() > 1)
        .map(|record| {
            let points = record.curve.iter().map(|&(p, ms)| (place(p), ms.max(1e-6).log10()));
            (record, points.collect::<Vec<_>>())
        })
        .collect();
    if runs.is_empty() {
        return;
    }
    let labels = [50.0, 90.0, 99.0, 99.9, 99.99].map(|p| (place(p), format!("p{p}")));
    let last = runs.iter().flat_map(|run| run.1.iter().map(|point| point.0)).fold(0.0, f64::max);
    let labels: Vec<_> = labels.into_iter().filter(|label| label.0 <= last + 1e-9).collect();
    let heading =
        format!("Latency by percentile [{}]: log10 of milliseconds, a line per run", escape(load));
    lines(page, &heading, &runs, arms, &labels);
}

fn series(page: &mut String, outcome: &Outcome, load: &str, arms: &[String]) {
    let runs: Vec<_> = outcome
        .records
        .iter()
        .filter(|record| record.load == load && record.slots.len() > 1)
        .map(|record| {
            let points = record.slots.iter().enumerate();
            let points = points.map(|(slot, &count)| (slot as f64 / 10.0, count as f64 * 10.0));
            (record, points.collect::<Vec<_>>())
        })
        .collect();
    if runs.is_empty() {
        return;
    }
    let longest = runs.iter().map(|run| run.1.len()).max().unwrap_or(1) as f64 / 10.0;
    let labels: Vec<_> = (0..=4)
        .map(|step| longest * f64::from(step) / 4.0)
        .map(|second| (second, format!("{second:.1} s")))
        .collect();
    let heading = format!("Operations per second within the runs [{}]", escape(load));
    lines(page, &heading, &runs, arms, &labels);
}

fn tables(page: &mut String, analysis: &Analysis) {
    let mut last = (String::new(), String::new());
    for entry in &analysis.summaries {
        let this = (entry.load.clone(), entry.metric.clone());
        if this != last {
            if !last.0.is_empty() {
                page.push_str("</table></div>");
            }
            let _ = write!(
                page,
                "<h2>{} [{}]</h2><div class=wide><table><tr><th>arm<th>n<th>Mean<th>Std Dev<th>Min<th>Max<th>Median<th>95 % CI Lower<th>95 % CI Upper<th>CI of the median</tr>",
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
        page.push_str("</table></div><p class=soft>Rows of percentiles describe per-run percentiles; they are not percentiles of all runs pooled.</p>");
    }
}

fn doubts(page: &mut String, outcome: &Outcome) {
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
