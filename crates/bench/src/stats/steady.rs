//! Steadiness of a run: diagnostics only, no run is dropped for them.

use crate::stats::describe::mean;

/// MSER-5 (White 1997): the number of leading samples whose removal minimizes the standard error of
/// the rest, in batches of five, looking at the first half only as the method asks.
pub fn mser5(series: &[f64]) -> usize {
    let batches: Vec<f64> = series.chunks_exact(5).map(mean).collect();
    let count = batches.len();
    let mut best = (f64::INFINITY, 0);
    for cut in 0..=count / 2 {
        let rest = &batches[cut..];
        if rest.len() < 2 {
            break;
        }
        let centre = mean(rest);
        let squares: f64 = rest.iter().map(|value| (value - centre).powi(2)).sum();
        let statistic = squares / (rest.len() as f64).powi(2);
        if statistic < best.0 {
            best = (statistic, cut);
        }
    }
    best.1 * 5
}

/// Correlation of a series with itself one step later; `None` for less than three values or no
/// spread.
pub fn lag_one_autocorrelation(series: &[f64]) -> Option<f64> {
    if series.len() < 3 {
        return None;
    }
    let centre = mean(series);
    let square: f64 = series.iter().map(|value| (value - centre).powi(2)).sum();
    let product: f64 = series.windows(2).map(|pair| (pair[0] - centre) * (pair[1] - centre)).sum();
    (square > 0.0).then(|| product / square)
}

/// Reason that a throughput series (slots of 100 ms after the warm-up) does not look steady.
pub fn steadiness(slots: &[u64]) -> Option<String> {
    let series: Vec<f64> = slots.iter().map(|&count| count as f64).collect();
    if series.len() < 20 {
        return None;
    }
    let cut = mser5(&series);
    // A cut at the limit of the search means that the best one lies beyond it.
    if cut * 2 + 10 >= series.len() {
        return Some("throughput was still changing in the second half (MSER-5)".into());
    }
    let settled = mean(&series[cut..]);
    let early = mean(&series[..cut.max(1)]);
    if cut > 0 && (early / settled - 1.0).abs() > 0.05 {
        return Some(format!(
            "the first {:.1} s ran at {:.0} % of the rest: warm up longer",
            cut as f64 / 10.0,
            early / settled * 100.0
        ));
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::keys::Random;

    fn noise(count: usize, seed: u64) -> Vec<f64> {
        let mut random = Random::new(seed);
        (0..count).map(|_| 1000.0 + 40.0 * (random.unit() - 0.5)).collect()
    }

    #[test]
    fn a_slow_start_is_found_and_a_steady_run_is_not_flagged() {
        let mut flagged = 0;
        for seed in 0..200 {
            let slots: Vec<u64> = noise(100, seed).iter().map(|&value| value as u64).collect();
            flagged += usize::from(steadiness(&slots).is_some());
        }
        assert!(flagged <= 20, "{flagged} of 200 steady runs flagged");
        let mut slow = noise(100, 5);
        for value in &mut slow[..20] {
            *value *= 0.6;
        }
        assert_eq!(mser5(&slow), 20);
        let slots: Vec<u64> = slow.iter().map(|&value| value as u64).collect();
        assert!(steadiness(&slots).unwrap().contains("first 2.0 s"));
    }

    #[test]
    fn a_drift_is_not_steady() {
        let slots: Vec<u64> = (0..100).map(|slot| 1000 + 10 * slot).collect();
        assert!(steadiness(&slots).is_some());
    }

    #[test]
    fn autocorrelation_of_a_process_of_known_coefficient_is_found() {
        let mut random = Random::new(3);
        let mut last = 0.0;
        let series: Vec<f64> = (0..20_000)
            .map(|_| {
                last = 0.3 * last + random.unit() - 0.5;
                last
            })
            .collect();
        assert!((lag_one_autocorrelation(&series).unwrap() - 0.3).abs() < 0.02);
    }
}
