//! Schedule of an open loop's requests.
//!
//! Each thread has a schedule of its own and gives its arrivals to its connections in turn, so
//! nothing is shared and a connection's sends are spread evenly. The times are fixed before the
//! server's behaviour is known: a late reply never delays an intended start, only the send.

use crate::load::keys::Random;
use crate::load::settings::Arrivals;

/// The intended send times of one thread.
#[derive(Debug)]
pub(super) struct Schedule {
    arrivals: Arrivals,
    /// (nanoseconds, requests per nanosecond of this thread).
    steps: Vec<(f64, f64)>,
    random: Random,
    next_ns: f64,
}

impl Schedule {
    /// `share` is the thread's part of the rate; its first send falls into the first interval.
    pub fn new(
        arrivals: Arrivals,
        steps: &[(f64, f64)],
        share: f64,
        start_ns: u64,
        seed: u64,
    ) -> Self {
        let steps: Vec<_> = steps
            .iter()
            .map(|&(second, rate)| (start_ns as f64 + second * 1e9, rate * share / 1e9))
            .collect();
        let mut random = Random::new(seed);
        let phase = random.unit();
        let mut schedule = Self { arrivals, steps, random, next_ns: start_ns as f64 };
        schedule.step(phase);
        schedule
    }

    /// The next intended start.
    pub fn next_ns(&self) -> u64 {
        self.next_ns as u64
    }

    /// Goes on to the one after it.
    pub fn advance(&mut self) {
        let distance = match self.arrivals {
            Arrivals::Even => 1.0,
            Arrivals::Poisson => -self.random.unit().ln(),
        };
        self.step(distance);
    }

    /// Moves by a multiple of the mean distance. The rate is taken at the beginning of the
    /// distance: exact while it is constant, and off by less than one request per step while it
    /// changes.
    fn step(&mut self, distance: f64) {
        self.next_ns += distance / self.rate_at(self.next_ns).max(1e-12);
    }

    fn rate_at(&self, now_ns: f64) -> f64 {
        let after = self.steps.partition_point(|&(at, _)| at <= now_ns);
        if after == 0 {
            return self.steps[0].1;
        }
        let (from_ns, from) = self.steps[after - 1];
        match self.steps.get(after) {
            None => from,
            Some(&(to_ns, to)) => from + (to - from) * (now_ns - from_ns) / (to_ns - from_ns),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(arrivals: Arrivals, steps: &[(f64, f64)], until_s: f64) -> Vec<u64> {
        let mut schedule = Schedule::new(arrivals, steps, 1.0, 0, 11);
        let mut times = Vec::new();
        while schedule.next_ns() < (until_s * 1e9) as u64 {
            times.push(schedule.next_ns());
            schedule.advance();
        }
        times
    }

    #[test]
    fn poisson_arrivals_have_the_rate_and_the_spread_of_a_poisson_process() {
        let times = times(Arrivals::Poisson, &[(0.0, 10_000.0)], 10.0);
        // 100,000 expected, standard deviation 316.
        assert!((times.len() as f64 - 100_000.0).abs() < 1_300.0, "{}", times.len());
        let mut per_slot = [0f64; 1000];
        for time in &times {
            per_slot[(*time / 10_000_000) as usize] += 1.0;
        }
        let variance = per_slot.iter().map(|count| (count - 100.0).powi(2)).sum::<f64>() / 1000.0;
        assert!((80.0..120.0).contains(&variance), "{variance}");
    }

    #[test]
    fn a_ramp_sends_its_area() {
        let times = times(Arrivals::Even, &[(0.0, 1_000.0), (10.0, 3_000.0)], 10.0);
        assert!((times.len() as f64 - 20_000.0).abs() < 20.0, "{}", times.len());
        let first_half = times.iter().filter(|&&time| time < 5_000_000_000).count();
        assert!((first_half as f64 - 7_500.0).abs() < 10.0, "{first_half}");
    }
}
