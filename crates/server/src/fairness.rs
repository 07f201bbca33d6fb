//! Who uses more of a worker than its share sits out until the others had theirs.
//!
//! A turn ends after a quarter of a millisecond, but a command that is one whole (`MSET` of a thousand keys, an `EXEC`) may
//! take longer. What a turn took beyond [`TURN_US_MAX`] is a debt if it took twice that: the connection *rests*, neither
//! read nor executed for, until the turns of each other active connection have taken as much, by and large: deficit round
//! robin by time. So its long commands meet few of its neighbours' requests, instead of each.
//!
//! Nobody rests in front of an idle worker, nor longer than [`REST_US_MAX`], nor when all others that are active rest
//! already. Turns that end soon after their time never lead to a rest: pipelines and replies in pieces take turns with
//! their neighbours as they come.

use tidemill_engine::limits::TURN_US_MAX;

use crate::limits::{IDLE_US, REST_US_MAX, ROUND_US, TURN_CALLS_NS};

/// Nanoseconds from which on a turn leads to a rest.
const REST_FROM_NS: u64 = 2 * TURN_US_MAX * 1000;

/// How long a connection rests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rest {
    /// Monotonic microseconds at which it ends at the latest.
    until_us: u64,
    /// What all turns together will have taken, in nanoseconds, when it ends; none when only time ends it.
    until_served_ns: Option<u64>,
}

impl Rest {
    /// A rest until a time in monotonic microseconds.
    pub(crate) fn until_time(until_us: u64) -> Rest {
        Rest { until_us, until_served_ns: None }
    }
}

/// What one worker knows about who had how much of it.
#[derive(Debug, Default)]
pub(crate) struct Fairness {
    /// Nanoseconds that all turns took.
    served_ns: u64,
    /// Connections count as active that had a turn in this round or the one before; the first one is 1.
    round: u64,
    round_ends_us: u64,
    active_count: u64,
    active_before_count: u64,
    /// Sessions that rest.
    resting: Vec<(u64, Rest)>,
}

impl Fairness {
    /// A new iteration of the event loop begins.
    pub(crate) fn begin_iteration(&mut self, now_us: u64) {
        if now_us >= self.round_ends_us {
            self.round_ends_us = now_us + ROUND_US;
            self.round += 1;
            self.active_before_count = std::mem::take(&mut self.active_count);
        }
    }

    /// A connection, whose last turn was in `round`, had a turn of so many nanoseconds. Tells how long it rests now.
    #[inline]
    pub(crate) fn charge(
        &mut self,
        round: &mut u64,
        turn_ns: u64,
        now_us: impl FnOnce() -> u64,
    ) -> Option<Rest> {
        if *round != self.round {
            *round = self.round;
            self.active_count += 1;
        }
        self.served_ns += turn_ns + TURN_CALLS_NS;
        if turn_ns < REST_FROM_NS {
            return None;
        }
        let debt_ns = turn_ns - TURN_US_MAX * 1000;
        let active_count = self.active_count.max(self.active_before_count);
        let others_count = active_count.saturating_sub(1 + self.debtors().count() as u64);
        (others_count > 0).then(|| Rest {
            until_us: now_us() + REST_US_MAX,
            until_served_ns: Some(self.served_ns + debt_ns.saturating_mul(others_count)),
        })
    }

    /// Those that rest until others had their share.
    fn debtors(&self) -> impl Iterator<Item = &Rest> {
        let rests = self.resting.iter().map(|(_, rest)| rest);
        rests.filter(|rest| rest.until_served_ns.is_some())
    }

    /// Whether the worker has more to do than it does, because somebody rests until others had their share.
    pub(crate) fn has_debtors(&self) -> bool {
        self.debtors().next().is_some()
    }

    /// A session rests from now on. Its last rest, which something else may have ended, counts no more.
    pub(crate) fn add(&mut self, session: u64, rest: Rest) {
        self.resting.retain(|&(other, _)| other != session);
        self.resting.push((session, rest));
    }

    /// The sessions whose rest is over; `is_idle` says that the worker has nothing else to do.
    pub(crate) fn rested(&mut self, now_us: u64, is_idle: bool) -> Vec<u64> {
        if self.resting.is_empty() {
            return Vec::new();
        }
        let served_ns = self.served_ns;
        let is_over = |rest: &Rest| {
            now_us >= rest.until_us
                || rest.until_served_ns.is_some_and(|until_ns| is_idle || served_ns >= until_ns)
        };
        let mut rested = Vec::new();
        self.resting.retain(|(session, rest)| {
            let is_over = is_over(rest);
            if is_over {
                rested.push(*session);
            }
            !is_over
        });
        rested
    }

    /// Until when the worker may wait for events at most, in monotonic microseconds; none when nobody rests.
    pub(crate) fn look_again_us(&self, now_us: u64) -> Option<u64> {
        let at_us = |&(_, rest): &(u64, Rest)| match rest.until_served_ns {
            Some(_) => rest.until_us.min(now_us + IDLE_US),
            None => rest.until_us,
        };
        self.resting.iter().map(at_us).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG_NS: u64 = (TURN_US_MAX + 500) * 1000;

    /// Fairness after a round in which so many neighbours had a turn.
    fn beside(neighbours: usize) -> (Fairness, Vec<u64>) {
        let mut fairness = Fairness::default();
        fairness.begin_iteration(0);
        let mut rounds = vec![0; neighbours];
        for round in &mut rounds {
            assert_eq!(fairness.charge(round, 1000, || 0), None);
        }
        (fairness, rounds)
    }

    #[test]
    fn who_overspends_rests_until_each_other_had_as_much() {
        let (mut fairness, mut rounds) = beside(10);
        let rest = fairness.charge(&mut 0, LONG_NS, || 0).expect("it took more than its turn");
        fairness.add(7, rest);
        // Each of ten others is to have the 500 us by which it overspent.
        let mut served_ns = 0;
        while fairness.rested(1, false).is_empty() {
            for round in &mut rounds {
                fairness.charge(round, 10_000, || 0);
                served_ns += 10_000 + TURN_CALLS_NS;
            }
        }
        let owed_ns = 10 * 500_000;
        assert!((owed_ns..owed_ns + 200_000).contains(&served_ns), "{served_ns}");
        assert_eq!(fairness.look_again_us(1), None, "nobody rests any more");
    }

    #[test]
    fn nobody_rests_alone_nor_for_a_turn_within_its_time() {
        let (mut fairness, mut rounds) = beside(1);
        assert_eq!(fairness.charge(&mut rounds[0], LONG_NS, || 0), None, "it is alone");
        assert_eq!(fairness.charge(&mut 0, REST_FROM_NS - 1, || 0), None, "nearly in time");
        assert!(fairness.charge(&mut rounds[0], LONG_NS, || 0).is_some(), "now there are two");
        // Whoever had no turn in two rounds is no longer there.
        fairness.begin_iteration(ROUND_US);
        fairness.begin_iteration(2 * ROUND_US);
        assert_eq!(fairness.charge(&mut rounds[0], LONG_NS, || 0), None);
    }

    #[test]
    fn not_all_rest_at_once() {
        let (mut fairness, mut rounds) = beside(5);
        let mut rest = |fairness: &mut Fairness, index: usize| {
            let rest = fairness.charge(&mut rounds[index], LONG_NS, || 0);
            rest.inspect(|&rest| fairness.add(index as u64, rest)).is_some()
        };
        assert!((0..4).all(|index| rest(&mut fairness, index)));
        assert!(!rest(&mut fairness, 4), "it is the last that the worker could do something for");
        assert!(fairness.has_debtors());
        assert_eq!(fairness.rested(0, true), [0, 1, 2, 3]);
        assert!(!fairness.has_debtors());
    }

    #[test]
    fn a_rest_takes_the_place_of_the_last_one() {
        let (mut fairness, _) = beside(3);
        fairness.add(7, Rest::until_time(50));
        fairness.add(7, Rest::until_time(90));
        assert!(fairness.rested(50, false).is_empty(), "the one before is over, not this one");
        assert_eq!(fairness.rested(90, false), [7]);
    }

    #[test]
    fn an_idle_worker_and_time_end_rests() {
        let (mut fairness, _) = beside(3);
        let rest = fairness.charge(&mut 0, LONG_NS, || 0).expect("it took more than its turn");
        fairness.add(7, rest);
        fairness.add(8, Rest::until_time(50));
        assert_eq!(fairness.look_again_us(0), Some(50));
        assert!(fairness.rested(49, false).is_empty());
        assert_eq!(fairness.rested(49, true), [7], "what only time ends is not ended by idleness");
        fairness.add(7, rest);
        assert_eq!(fairness.rested(50, false), [8]);
        assert_eq!(fairness.look_again_us(60), Some(60 + IDLE_US));
        assert_eq!(fairness.rested(REST_US_MAX, false), [7]);
    }
}
