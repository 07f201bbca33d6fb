//! The report of `LATENCY DOCTOR`.

use std::collections::BTreeMap;
use std::fmt::Write;

use crate::telemetry::latency::Series;

/// Statistics of an event's samples.
struct Summary {
    average_ms: u64,
    /// Mean distance from the average.
    deviation_ms: u64,
    /// Seconds between two of them.
    period_s: f64,
}

fn summarize(series: &Series, now_s: u64) -> Summary {
    let count = series.samples.len().max(1) as u64;
    let all_ms = || series.samples.iter().map(|sample| sample.ms);
    let average_ms = all_ms().sum::<u64>() / count;
    let deviation_ms = all_ms().map(|ms| ms.abs_diff(average_ms)).sum::<u64>() / count;
    let first_s = series.samples.front().map_or(now_s, |sample| sample.unix_s);
    let period_s = now_s.saturating_sub(first_s) as f64 / count as f64;
    Summary { average_ms, deviation_ms, period_s }
}

/// Remedies for an event.
fn advice(event: &str) -> &'static [&'static str] {
    match event {
        "command" => &[
            "SLOWLOG GET names the commands that took long. Ask for less at once: ranges and SCAN \
             instead of whole collections.",
            "Commands in proportion to a large key take long by nature. Split the key.",
        ],
        "fast-command" => &[
            "Fast commands do little, so what took long is most likely outside: workers that share \
             a CPU, swapping, a host that is overcommitted. `tidemill tune` looks for these.",
        ],
        _ => &[],
    }
}

/// The report. `is_on` says whether events are recorded at all.
pub(super) fn report(events: &BTreeMap<&'static str, Series>, is_on: bool, now_s: u64) -> String {
    if !is_on {
        return "Latency is not monitored. CONFIG SET latency-monitor-threshold <milliseconds> \
                begins it.\n"
            .into();
    }
    if events.is_empty() {
        return "Nothing took longer than latency-monitor-threshold so far.\n".into();
    }
    let mut text = String::from("Something took longer than latency-monitor-threshold.\n\n");
    for (index, (name, series)) in events.iter().enumerate() {
        let Summary { average_ms, deviation_ms, period_s } = summarize(series, now_s);
        // Writing into a string cannot fail, here and below.
        let _ = writeln!(
            text,
            "{}. {name}: {} latency spikes (average {average_ms}ms, mean deviation \
             {deviation_ms}ms, period {period_s:.2} sec). Worst all time event {}ms.",
            index + 1,
            series.samples.len(),
            series.max_ms,
        );
    }
    text.push_str("\nAdvice:\n\n");
    for line in events.keys().flat_map(|name| advice(name)) {
        let _ = writeln!(text, "- {line}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::latency::{LatencyEvents, Sample};

    #[test]
    fn a_report_counts_averages_and_advises() {
        assert!(report(&BTreeMap::new(), false, 0).contains("not monitored"));
        assert!(report(&BTreeMap::new(), true, 0).starts_with("Nothing"));
        let events = LatencyEvents::default();
        events.add("command", Sample { unix_s: 100, ms: 50 });
        events.add("command", Sample { unix_s: 101, ms: 1100 });
        let text = report(&events.all(), true, 101);
        let line = "1. command: 2 latency spikes (average 575ms, mean deviation 525ms, period 0.50 \
                    sec). Worst all time event 1100ms.";
        assert!(text.contains(line), "{text}");
        assert!(text.contains("SLOWLOG GET"), "{text}");
    }
}
