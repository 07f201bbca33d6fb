//! Rates of the last moments, for `INFO stats`: sums looked at ten times a second.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use crate::limits::RATE_SAMPLES_MAX;

/// Sums at a moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Commands executed.
    pub commands: u64,
    /// Bytes read from clients.
    pub input_bytes: u64,
    /// Bytes sent to clients.
    pub output_bytes: u64,
    /// Iterations of event loops.
    pub iterations: u64,
    /// Microseconds in which event loops did something.
    pub busy_us: u64,
}

/// Per second, over the last moments.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Rates {
    /// Commands.
    pub commands: f64,
    /// Bytes read from clients.
    pub input_bytes: f64,
    /// Bytes sent to clients.
    pub output_bytes: f64,
    /// Iterations of event loops.
    pub iterations: f64,
    /// Microseconds in which event loops did something.
    pub busy_us: f64,
}

/// The latest sums, each with its moment in monotonic microseconds.
#[derive(Debug, Default)]
pub struct RateSamples {
    samples: Mutex<VecDeque<(u64, Totals)>>,
}

impl RateSamples {
    /// Adds sums as of a moment.
    pub fn add(&self, now_us: u64, totals: Totals) {
        let mut samples = self.samples.lock().unwrap_or_else(PoisonError::into_inner);
        if samples.back().is_some_and(|(_, last)| totals.iterations < last.iterations) {
            // `CONFIG RESETSTAT`: earlier ones tell nothing of what has grown since.
            samples.clear();
        }
        samples.push_back((now_us, totals));
        if samples.len() > RATE_SAMPLES_MAX {
            samples.pop_front();
        }
    }

    /// The rates between the oldest and the latest sample since sums began anew.
    #[must_use]
    pub fn rates(&self) -> Rates {
        let samples = self.samples.lock().unwrap_or_else(PoisonError::into_inner);
        let (Some((first_us, first)), Some((last_us, last))) = (samples.front(), samples.back())
        else {
            return Rates::default();
        };
        let seconds = last_us.saturating_sub(*first_us) as f64 / 1e6;
        let rate = |first: u64, last: u64| match last.checked_sub(first) {
            Some(grown) if seconds > 0.0 => grown as f64 / seconds,
            _ => 0.0,
        };
        Rates {
            commands: rate(first.commands, last.commands),
            input_bytes: rate(first.input_bytes, last.input_bytes),
            output_bytes: rate(first.output_bytes, last.output_bytes),
            iterations: rate(first.iterations, last.iterations),
            busy_us: rate(first.busy_us, last.busy_us),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_those_of_the_latest_samples() {
        let samples = RateSamples::default();
        assert_eq!(samples.rates(), Rates::default());
        for tick in 0..100_u64 {
            let totals =
                Totals { commands: tick * tick, input_bytes: 7 * tick, ..Totals::default() };
            samples.add(tick * 100_000, totals);
        }
        let rates = samples.rates();
        let first = 100 - RATE_SAMPLES_MAX as u64;
        let grown = (99 * 99 - first * first) as f64;
        let seconds = (RATE_SAMPLES_MAX - 1) as f64 / 10.0;
        assert!((rates.commands - grown / seconds).abs() < 1e-6, "{rates:?}");
        assert!((rates.input_bytes - 70.0).abs() < 1e-6, "{rates:?}");
    }

    #[test]
    fn rates_go_on_when_sums_begin_anew() {
        let samples = RateSamples::default();
        let totals = |iterations| Totals { iterations, ..Totals::default() };
        (0..10_u64).for_each(|tick| samples.add(tick * 100_000, totals(1_000 + 5 * tick)));
        samples.add(1_000_000, totals(1));
        assert_eq!(samples.rates(), Rates::default());
        samples.add(1_100_000, totals(4));
        assert!((samples.rates().iterations - 30.0).abs() < 1e-6, "{:?}", samples.rates());
    }
}
