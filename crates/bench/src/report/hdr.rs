//! HdrHistogram's formats, for tools that read them.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::serialization::{Serializer, V2DeflateSerializer};

use crate::histogram::Histogram;

/// The latencies in microseconds, three digits, as memtier encodes them: V2, deflated, base64.
/// Empty text if the library refuses, which it does for nothing that is recorded here.
pub(crate) fn compressed(latency: &Histogram) -> String {
    let mut bytes = Vec::new();
    match V2DeflateSerializer::new().serialize(&to_microseconds(latency), &mut bytes) {
        Ok(_) => STANDARD.encode(&bytes),
        Err(_) => String::new(),
    }
}

/// HdrHistogram of the latencies in microseconds.
pub(crate) fn to_microseconds(latency: &Histogram) -> hdrhistogram::Histogram<u64> {
    let mut converted = hdrhistogram::Histogram::new(3).expect("three digits are allowed");
    converted.auto(true);
    for (value_ns, count) in latency.values() {
        // Resizing makes every value recordable.
        let _ = converted.record_n((value_ns / 1000).max(1), count);
    }
    converted
}

/// The percentile distribution as HdrHistogram's tools write and plot it, in milliseconds.
pub(crate) fn distribution(latency: &Histogram) -> String {
    let latency = to_microseconds(latency);
    let milliseconds = |value_us: u64| value_us as f64 / 1e3;
    let heading = ["Value", "Percentile", "TotalCount", "1/(1-Percentile)"];
    let [value, percentile, count, inverse] = heading;
    let mut text = format!("{value:>12} {percentile:>12} {count:>12} {inverse:>12}\n\n");
    let mut counted = 0;
    for step in latency.iter_quantiles(5) {
        counted += step.count_since_last_iteration();
        let quantile = step.quantile_iterated_to();
        text += &format!(
            "{:>12.3} {quantile:>12.6} {counted:>12} {:>12.2}\n",
            milliseconds(step.value_iterated_to()),
            1.0 / (1.0 - quantile),
        );
    }
    text += &format!(
        "#[Mean    = {:>12.3}, StdDeviation   = {:>12.3}]\n",
        latency.mean() / 1e3,
        latency.stdev() / 1e3
    );
    text += &format!(
        "#[Max     = {:>12.3}, Total count    = {:>12}]\n",
        milliseconds(latency.max()),
        latency.len()
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_distribution_ends_with_the_largest_value_and_all_counts() {
        let mut latency = Histogram::new();
        for milliseconds in 1..=1000 {
            latency.record_n(milliseconds * 1_000_000, 2);
        }
        let text = distribution(&latency);
        let rows: Vec<Vec<f64>> = text
            .lines()
            .skip(2)
            .filter(|line| !line.starts_with('#'))
            .map(|line| line.split_whitespace().map(|word| word.parse().unwrap()).collect())
            .collect();
        assert!(rows.windows(2).all(|pair| pair[0][0] <= pair[1][0] && pair[0][2] <= pair[1][2]));
        let half = rows.iter().find(|row| row[1] >= 0.5).unwrap();
        assert!((half[0] - 500.0).abs() < 5.0 && half[2] >= 1000.0, "{half:?}");
        let last = rows.last().unwrap();
        assert!(last[2] == 2000.0 && (last[0] - 1000.0).abs() < 5.0, "{last:?}");
        assert!(text.contains("Total count    =         2000"));
    }
}
