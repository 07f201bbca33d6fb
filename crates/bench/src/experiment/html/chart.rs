//! The drawings: SVG for a column as narrow as a phone, labels above what they name.

use std::fmt::Write;

use crate::experiment::analysis::{Analysis, ArmSummary};
use crate::experiment::html::scale::Scale;
use crate::experiment::html::{colour, escape};
use crate::experiment::metrics::title;
use crate::experiment::record::{ExperimentOutcome, Record};
use crate::experiment::report::short;
use crate::stats::Interval;

const WIDTH: f64 = 400.0;
/// Ends of what is drawn in rows.
const ROWS: (f64, f64) = (14.0, 386.0);
/// Ends of a panel of lines, whose axis is named at its left.
const PANEL: (f64, f64) = (56.0, 392.0);
const PANEL_TOP: f64 = 10.0;
const PANEL_BOTTOM: f64 = 210.0;

/// A label as long as the drawing is wide; a letter is about 7 wide.
fn fitted(label: &str) -> String {
    const LETTERS_MAX: usize = 54;
    if label.chars().count() <= LETTERS_MAX {
        return label.into();
    }
    label.chars().take(LETTERS_MAX - 1).chain(['…']).collect()
}

fn between((from, to): (f64, f64), share: f64) -> f64 {
    from + share * (to - from)
}

/// A figure; `attributes` say what it shows to programs that read the page.
fn figure(
    page: &mut String,
    heading: &str,
    attributes: &str,
    legend: &str,
    height: f64,
    svg: &str,
) {
    let _ = write!(
        page,
        "<figure {attributes}><figcaption>{heading}</figcaption>{legend}\
         <svg viewBox=\"0 0 {WIDTH} {height:.0}\" role=img \
         aria-label=\"{heading}\">{svg}</svg></figure>"
    );
}

/// Vertical lines at round values, named below `bottom`.
fn axis_below(svg: &mut String, scale: &Scale, bottom: f64) {
    for (value, name) in scale.ticks() {
        let x = between(ROWS, scale.place(value));
        // A name at the edge is moved inwards instead of cut off; a digit is about 7 wide.
        let half = 4.0 * name.len() as f64;
        let _ = write!(
            svg,
            "<line class=grid x1={x:.1} x2={x:.1} y1=0 y2={bottom:.0} />\
             <text class=tick x={:.1} y={:.0} text-anchor=middle>{name}</text>",
            x.min(WIDTH - half).max(half),
            bottom + 16.0
        );
    }
}

/// The ratios with their intervals, 1 marked; on a logarithmic scale, where half and double stand
/// equally far from 1.
pub(super) fn ratios(page: &mut String, analysis: &Analysis, arms: &[String]) {
    const ROW: f64 = 38.0;
    let all = analysis.comparisons.iter().flat_map(|entry| {
        let comparison = &entry.comparison;
        [comparison.interval.lower, comparison.interval.upper, comparison.ratio, 1.0]
    });
    let scale = Scale::logarithmic(all);
    let x = |value: f64| between(ROWS, scale.place(value));
    let bottom = ROW * analysis.comparisons.len() as f64 + 4.0;
    let mut svg = String::new();
    axis_below(&mut svg, &scale, bottom);
    let _ = write!(svg, "<line class=one x1={0:.1} x2={0:.1} y1=0 y2={bottom:.0} />", x(1.0));
    for (row, entry) in analysis.comparisons.iter().enumerate() {
        let top = ROW * row as f64;
        let interval = entry.comparison.interval;
        let colour = colour(arms, &entry.arm);
        let _ = write!(
            svg,
            "<g data-arm=\"{}\"><text x=2 y={:.0}>{}</text>\
             <line x1={:.1} x2={:.1} y1={y:.0} y2={y:.0} style=\"stroke:{colour};stroke-width:3\" \
             />\
             <circle cx={:.1} cy={y:.0} r=5 style=\"fill:{colour}\" /></g>",
            escape(&entry.arm),
            top + 15.0,
            escape(&fitted(&format!("{}, {} [{}]", entry.arm, title(&entry.metric), entry.load))),
            x(interval.lower),
            x(interval.upper),
            x(entry.comparison.ratio),
            y = top + 27.0,
        );
    }
    figure(
        page,
        "Ratio to the baseline, 95 % intervals",
        "data-chart=ratios",
        "",
        bottom + 22.0,
        &svg,
    );
}

/// Every run of every arm in one metric as a point, and the interval of the mean below.
pub(super) fn points(
    page: &mut String,
    analysis: &Analysis,
    load: &str,
    metric: &str,
    arms: &[String],
) {
    const ROW: f64 = 52.0;
    let wanted = |entry: &&ArmSummary| entry.load == load && entry.metric == metric;
    let entries: Vec<_> = analysis.summaries.iter().filter(wanted).collect();
    if entries.is_empty() {
        return;
    }
    let scale = points_scale(&entries);
    let bottom = ROW * entries.len() as f64 + 2.0;
    let mut svg = String::new();
    axis_below(&mut svg, &scale, bottom);
    for (row, entry) in entries.iter().enumerate() {
        let top = ROW * row as f64;
        let arm = escape(&entry.arm);
        let _ = write!(
            svg,
            "<g data-arm=\"{arm}\"><text x=2 y={:.0}>{}</text>",
            top + 14.0,
            escape(&fitted(&entry.arm))
        );
        draw_runs(&mut svg, &scale, entry, top + 30.0, &colour(arms, &entry.arm));
        if let Some(interval) = entry.summary.mean_interval {
            draw_interval(&mut svg, &scale, interval, top + 46.0);
        }
        svg.push_str("</g>");
    }
    let heading = format!("{}: every run, and the mean's 95 % interval", title(metric));
    let attributes =
        format!("data-chart=points data-load=\"{}\" data-metric={metric}", escape(load));
    figure(page, &heading, &attributes, "", bottom + 22.0, &svg);
}

/// Scale that holds every run, and the intervals of the means up to a run's spread beyond.
fn points_scale(entries: &[&ArmSummary]) -> Scale {
    let values = || entries.iter().flat_map(|entry| entry.values.iter().map(|point| point.1));
    let (low, high) = values().fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| {
        (low.min(value), high.max(value))
    });
    // Intervals of few runs may be far wider than the runs: they must not squeeze the points.
    let room = (high - low).max(high.abs() * 0.01);
    let ends = entries
        .iter()
        .filter_map(|entry| entry.summary.mean_interval)
        .flat_map(|interval| [interval.lower.max(low - room), interval.upper.min(high + room)]);
    let ends = ends.map(|end| if low >= 0.0 { end.max(0.0) } else { end });
    Scale::linear(values().chain(ends))
}

/// A point per run of an arm, around the height `middle`.
fn draw_runs(svg: &mut String, scale: &Scale, entry: &ArmSummary, middle: f64, colour: &str) {
    for &(block, value) in &entry.values {
        // Spread by block, so that equal values stay visible.
        let offset = (block % 5) as f64 * 3.5 - 7.0;
        let _ = write!(
            svg,
            "<circle cx={:.1} cy={:.1} r=4 style=\"fill:{colour};fill-opacity:.6\"><title>block \
             {}: {}</title></circle>",
            between(ROWS, scale.place(value)),
            middle + offset,
            block + 1,
            short(value)
        );
    }
}

/// The interval of a mean as a line at the height `y`.
fn draw_interval(svg: &mut String, scale: &Scale, interval: Interval, y: f64) {
    let x = |value: f64| between(ROWS, scale.place(value));
    let _ = write!(
        svg,
        "<line class=mean x1={:.1} x2={:.1} y1={y} y2={y} />",
        x(interval.lower),
        x(interval.upper)
    );
    // An end without a cap goes on beyond the drawing.
    for end in [interval.lower, interval.upper].into_iter().filter(|&end| scale.covers(end)) {
        let _ = write!(
            svg,
            "<line class=mean x1={0:.1} x2={0:.1} y1={1} y2={2} />",
            x(end),
            y - 3.0,
            y + 3.0
        );
    }
}

fn legend(arms: &[String]) -> String {
    let mut text = String::from("<div class=legend>");
    for arm in arms {
        let _ = write!(
            text,
            "<span><i style=\"background:{}\"></i>{}</span>",
            colour(arms, arm),
            escape(arm)
        );
    }
    text + "</div>"
}

/// Curves of a panel: a line per run.
struct Panel<'a> {
    heading: &'static str,
    kind: &'static str,
    load: &'a str,
    runs: Vec<(&'a Record, Vec<(f64, f64)>)>,
    /// Places on the horizontal axis, from its low to its high end, with their names.
    labels: Vec<(f64, String)>,
    /// True if the horizontal axis is the time of a run, on which its events are marked.
    is_time: bool,
}

impl Panel<'_> {
    fn draw(&self, page: &mut String, vertical: &Scale, arms: &[String]) {
        let horizontal = self.runs.iter().flat_map(|run| run.1.iter().map(|point| point.0));
        let (left, right) = horizontal
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| {
                (low.min(value), high.max(value))
            });
        let x = |value: f64| {
            between(PANEL, ((value - left) / (right - left).max(1e-12)).clamp(0.0, 1.0))
        };
        let y = |value: f64| between((PANEL_BOTTOM, PANEL_TOP), vertical.place(value));
        let mut svg = String::new();
        for (value, name) in vertical.ticks() {
            let _ = write!(
                svg,
                "<line class=grid x1={} x2={} y1={2:.1} y2={2:.1} /><text class=tick x={3} \
                 y={4:.1} text-anchor=end>{name}</text>",
                PANEL.0,
                PANEL.1,
                y(value),
                PANEL.0 - 6.0,
                y(value) + 4.0
            );
        }
        for (place, name) in &self.labels {
            let place = x(*place);
            let half = 4.0 * name.len() as f64;
            let _ = write!(
                svg,
                "<text class=tick x={:.1} y={:.0} text-anchor=middle>{name}</text>",
                place.min(WIDTH - half),
                PANEL_BOTTOM + 18.0
            );
        }
        for (record, points) in &self.runs {
            let path: Vec<String> =
                points.iter().map(|&(a, b)| format!("{:.1},{:.1}", x(a), y(b))).collect();
            let arm = escape(&record.arm);
            let _ = write!(
                svg,
                "<polyline data-arm=\"{arm}\" points=\"{}\" \
                 style=\"fill:none;stroke:{};stroke-width:1.4;stroke-opacity:.75\"><title>{arm} \
                 block {}</title></polyline>",
                path.join(" "),
                colour(arms, &record.arm),
                record.block + 1
            );
        }
        if self.is_time {
            self.draw_marks(&mut svg, x, arms);
        }
        let attributes = format!("data-chart={} data-load=\"{}\"", self.kind, escape(self.load));
        figure(page, self.heading, &attributes, &legend(arms), PANEL_BOTTOM + 26.0, &svg);
    }
}

impl Panel<'_> {
    /// Events of the runs as vertical lines in the colour of their arm.
    fn draw_marks(&self, svg: &mut String, x: impl Fn(f64) -> f64, arms: &[String]) {
        for (record, _) in &self.runs {
            for (second, name) in &record.marks {
                let _ = write!(
                    svg,
                    "<line data-mark=\"{name}\" x1={0:.1} x2={0:.1} y1={PANEL_TOP} \
                     y2={PANEL_BOTTOM} style=\"stroke:{1};stroke-dasharray:2 \
                     3;stroke-opacity:.6\"><title>{2} block {3}: {name}</title></line>",
                    x(*second),
                    colour(arms, &record.arm),
                    escape(&record.arm),
                    record.block + 1,
                    name = escape(name),
                );
            }
        }
    }
}

fn runs_of<'a>(
    outcome: &'a ExperimentOutcome,
    load: &str,
    points: impl Fn(&Record) -> Vec<(f64, f64)>,
) -> Vec<(&'a Record, Vec<(f64, f64)>)> {
    let of_load = outcome.records.iter().filter(|record| record.load == load);
    of_load.map(|record| (record, points(record))).filter(|run| run.1.len() > 1).collect()
}

/// Latency by percentile, both logarithmic: percentiles by their distance from 100, as tails are
/// read.
pub(super) fn curves(page: &mut String, outcome: &ExperimentOutcome, load: &str, arms: &[String]) {
    let place = |percentile: f64| -(1.0 - percentile / 100.0).log10();
    let runs = runs_of(outcome, load, |record| {
        record.curve.iter().map(|&(percentile, ms)| (place(percentile), ms)).collect()
    });
    if runs.is_empty() {
        return;
    }
    let vertical =
        Scale::logarithmic(runs.iter().flat_map(|run| run.1.iter().map(|point| point.1)));
    let last = runs.iter().flat_map(|run| run.1.iter().map(|point| point.0)).fold(0.0, f64::max);
    let labels = [50.0, 90.0, 99.0, 99.9, 99.99]
        .map(|percentile| (place(percentile), format!("p{percentile}")));
    let labels = labels.into_iter().filter(|label| label.0 <= last + 1e-9).collect();
    let heading = "Latency by percentile, ms, a line per run";
    Panel { heading, kind: "curves", load, runs, labels, is_time: false }
        .draw(page, &vertical, arms);
}

/// Operations per second within the runs.
pub(super) fn series(page: &mut String, outcome: &ExperimentOutcome, load: &str, arms: &[String]) {
    let runs = runs_of(outcome, load, |record| {
        let slots = record.slots.iter().enumerate();
        slots.map(|(slot, &count)| (slot as f64 / 10.0, count as f64 * 10.0)).collect()
    });
    if runs.is_empty() {
        return;
    }
    let vertical = Scale::linear(runs.iter().flat_map(|run| run.1.iter().map(|point| point.1)));
    let longest = runs.iter().map(|run| run.1.len() - 1).max().unwrap_or(1) as f64 / 10.0;
    let labels =
        [0.0, 0.5, 1.0].map(|share| (share * longest, format!("{:.1} s", share * longest))).into();
    let heading = "Operations per second within the runs";
    Panel { heading, kind: "series", load, runs, labels, is_time: true }
        .draw(page, &vertical, arms);
}

/// Latency at p99 by second of the runs.
pub(super) fn tails(page: &mut String, outcome: &ExperimentOutcome, load: &str, arms: &[String]) {
    let runs = runs_of(outcome, load, |record| record.tails.clone());
    if runs.is_empty() {
        return;
    }
    let vertical =
        Scale::logarithmic(runs.iter().flat_map(|run| run.1.iter().map(|point| point.1)));
    let (first, last) = runs
        .iter()
        .flat_map(|run| run.1.iter().map(|point| point.0))
        .fold((f64::INFINITY, 0.0_f64), |(first, last), second| {
            (first.min(second), last.max(second))
        });
    let labels = [first, last].map(|second| (second, format!("{second:.0} s"))).into();
    let heading = "Latency at p99 by second of the runs, ms";
    Panel { heading, kind: "tails", load, runs, labels, is_time: true }.draw(page, &vertical, arms);
}
