//! The events of `LATENCY`: moments at which something took longer than
//! `latency-monitor-threshold`.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, PoisonError};

use crate::limits::LATENCY_SAMPLES_MAX;

/// The worst moment of one second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// Unix time in seconds.
    pub unix_s: u64,
    /// Duration, in milliseconds.
    pub ms: u64,
}

/// Samples and totals of one event.
#[derive(Clone, Debug, Default)]
pub struct Series {
    /// The latest seconds in which it happened, the oldest first.
    pub samples: VecDeque<Sample>,
    /// The worst of all time, in milliseconds.
    pub max_ms: u64,
    /// All of it together, in milliseconds.
    pub sum_ms: u64,
    /// Number of times that it happened.
    pub count: u64,
}

impl Series {
    fn add(&mut self, sample: Sample) {
        self.max_ms = self.max_ms.max(sample.ms);
        self.sum_ms += sample.ms;
        self.count += 1;
        match self.samples.back_mut() {
            Some(last) if last.unix_s == sample.unix_s => last.ms = last.ms.max(sample.ms),
            _ => self.samples.push_back(sample),
        }
        if self.samples.len() > LATENCY_SAMPLES_MAX {
            self.samples.pop_front();
        }
    }
}

/// All events that happened, by name.
#[derive(Debug, Default)]
pub struct LatencyEvents {
    events: Mutex<BTreeMap<&'static str, Series>>,
}

impl LatencyEvents {
    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<&'static str, Series>> {
        self.events.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Something happened that took too long.
    pub fn add(&self, event: &'static str, sample: Sample) {
        self.lock().entry(event).or_default().add(sample);
    }

    /// All events.
    #[must_use]
    pub fn all(&self) -> BTreeMap<&'static str, Series> {
        self.lock().clone()
    }

    /// One event, if it ever happened.
    #[must_use]
    pub fn find(&self, event: &[u8]) -> Option<Series> {
        std::str::from_utf8(event).ok().and_then(|event| self.lock().get(event).cloned())
    }

    /// Forgets the events of these names, or all; tells how many there were.
    pub fn reset(&self, events: &[&[u8]]) -> usize {
        let mut known = self.lock();
        let before = known.len();
        known.retain(|name, _| !events.is_empty() && !events.contains(&name.as_bytes()));
        before - known.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_of_each_second_is_kept_and_all_are_summed() {
        let events = LatencyEvents::default();
        for (unix_s, ms) in [(5, 30), (5, 50), (5, 25), (6, 10)] {
            events.add("command", Sample { unix_s, ms });
        }
        let series = events.find(b"command").expect("it happened");
        let samples: Vec<_> =
            series.samples.iter().map(|sample| (sample.unix_s, sample.ms)).collect();
        assert_eq!(samples, [(5, 50), (6, 10)]);
        assert_eq!((series.max_ms, series.sum_ms, series.count), (50, 115, 4));
        (0..1000).for_each(|unix_s| events.add("command", Sample { unix_s: 10 + unix_s, ms: 1 }));
        let series = events.find(b"command").expect("it happened");
        assert_eq!(series.samples.len(), LATENCY_SAMPLES_MAX);
        assert_eq!(series.samples.back().map(|sample| sample.unix_s), Some(1009));
    }

    #[test]
    fn reset_forgets_what_is_named_or_all() {
        let events = LatencyEvents::default();
        let fill = || ["a", "b", "c"].map(|name| events.add(name, Sample { unix_s: 1, ms: 1 }));
        fill();
        assert_eq!(events.reset(&[b"b", b"x"]), 1);
        assert_eq!(events.all().keys().copied().collect::<Vec<_>>(), ["a", "c"]);
        assert_eq!(events.reset(&[]), 2);
    }
}
