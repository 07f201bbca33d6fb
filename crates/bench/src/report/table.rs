//! memtier's text report: a table, notes, and the latency distribution.

use std::io::{self, Write};

use crate::histogram::Histogram;
use crate::load::command::Role;
use crate::load::{KindResult, RunResult, Settings};

/// One line of the report.
pub struct Row {
    /// As memtier names it: Sets, Gets, Totals, or the command with an s.
    pub label: String,
    /// As memtier's distribution names it: SET, GET, or the command.
    pub name: String,
    /// True if hits and misses are meaningful.
    pub has_hits: bool,
    /// Counts and latencies.
    pub result: KindResult,
}

/// The lines of one run.
pub struct Table<'a> {
    /// The run.
    pub run: &'a RunResult,
    /// Its lines, the total last.
    pub rows: Vec<Row>,
    /// Percentiles asked for.
    pub percentiles: Vec<f64>,
}

impl<'a> Table<'a> {
    /// Groups the commands of a run by name, or keeps each line of the mix by itself.
    pub fn new(
        settings: &Settings,
        run: &'a RunResult,
        percentiles: &[f64],
        by_line: bool,
    ) -> Self {
        let mut rows: Vec<Row> = Vec::new();
        for (command, kind) in settings.commands.iter().zip(&run.kinds) {
            let (label, name) = match command.role {
                Role::Set => ("Sets".to_string(), "SET".to_string()),
                Role::Get => ("Gets".to_string(), "GET".to_string()),
                Role::Other if by_line => (command.line.clone(), command.line.clone()),
                Role::Other => (plural(&command.name), command.name.clone()),
            };
            match rows.iter_mut().find(|row| row.label == label) {
                Some(row) => row.result.add(kind),
                None => rows.push(Row {
                    label,
                    name,
                    has_hits: command.counts_misses(),
                    result: kind.clone(),
                }),
            }
        }
        let has_hits = rows.iter().any(|row| row.has_hits);
        rows.push(Row {
            label: "Totals".into(),
            name: "TOTAL".into(),
            has_hits,
            result: run.total(),
        });
        Self { run, rows, percentiles: percentiles.to_vec() }
    }
}

/// `SET` becomes `Sets`.
fn plural(name: &str) -> String {
    let mut letters = name.chars();
    let first = letters.next().unwrap_or_default();
    format!("{first}{}s", letters.as_str().to_lowercase())
}

fn milliseconds(value_ns: f64) -> f64 {
    value_ns / 1e6
}

/// Writes the report of one run.
///
/// # Errors
/// When the output cannot be written.
pub fn write_table(
    out: &mut dyn Write,
    title: &str,
    table: &Table<'_>,
    with_distribution: bool,
) -> io::Result<()> {
    let width = table.rows.iter().map(|row| row.label.len()).max().unwrap_or(0).max(8) + 1;
    let mut header = format!("{:<width$}", "Type");
    for column in ["Ops/sec", "Hits/sec", "Misses/sec"] {
        header += &format!("{column:>13}");
    }
    header += &format!("{:>16}", "Avg. Latency");
    for percentile in &table.percentiles {
        header += &format!("{:>16}", format!("p{percentile} Latency"));
    }
    header += &format!("{:>13}", "KB/sec");
    writeln!(out, "\n\n{title}\n{}\n{header} ", "=".repeat(header.len() + 1))?;
    writeln!(out, "{}", "-".repeat(header.len() + 1))?;
    for row in &table.rows {
        writeln!(out, "{} ", row_text(row, table, width))?;
    }
    if with_distribution {
        write_distribution(out, table)?;
    }
    Ok(())
}

fn row_text(row: &Row, table: &Table<'_>, width: usize) -> String {
    let seconds = table.run.duration.as_secs_f64().max(1e-9);
    let total = &row.result.total;
    let rate = |count: u64| count as f64 / seconds;
    let mut text = format!("{:<width$}{:>13.2}", row.label, rate(total.ops));
    for count in [total.hits, total.misses] {
        text += &match row.has_hits {
            true => format!("{:>13.2}", rate(count)),
            false => format!("{:>13}", "---"),
        };
    }
    let latency = &row.result.latency;
    let value = |known: bool, value_ns: f64| match known {
        true => format!("{:>16.5}", milliseconds(value_ns)),
        false => format!("{:>16}", "---"),
    };
    text += &value(latency.count() > 0, latency.mean_ns());
    for &percentile in &table.percentiles {
        let known = latency.supports_percentile(percentile);
        text += &value(known, latency.percentile_ns(percentile) as f64);
    }
    text += &format!("{:>13.2}", rate(total.bytes_received + total.bytes_sent) / 1024.0);
    text
}

fn write_distribution(out: &mut dyn Write, table: &Table<'_>) -> io::Result<()> {
    writeln!(
        out,
        "\n\nRequest Latency Distribution\n{:<12} {:>14} {:>12}",
        "Type", "<= msec", "Percent"
    )?;
    writeln!(out, "{}", "-".repeat(72))?;
    for row in &table.rows[..table.rows.len() - 1] {
        for (value_ms, percent) in distribution(&row.result.latency) {
            writeln!(out, "{:<12} {value_ms:>14.3} {percent:>12.3}", row.name)?;
        }
        writeln!(out, "---")?;
    }
    Ok(())
}

/// The cumulative distribution as memtier lists it: a line wherever the rounded value changes.
pub(crate) fn distribution(latency: &Histogram) -> Vec<(f64, f64)> {
    let mut lines: Vec<(f64, f64)> = Vec::new();
    let mut seen = 0;
    for (value_ns, count) in latency.values() {
        seen += count;
        let value_ms = (milliseconds(value_ns as f64) * 1e3).round() / 1e3;
        let percent = seen as f64 / latency.count() as f64 * 100.0;
        match lines.last_mut() {
            Some(last) if last.0 == value_ms => last.1 = percent,
            _ => lines.push((value_ms, percent)),
        }
    }
    lines
}
