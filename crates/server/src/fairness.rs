//! Fair shares of a worker's time: a connection that uses more than its share is throttled until
//! the others had theirs.
//!
//! A turn ends after a quarter of a millisecond, but a command that is one whole (`MSET` of a
//! thousand keys, an `EXEC`) may take longer. Time beyond [`TURN_US_MAX`] is a debt if the turn
//! took twice that: the connection is *throttled*, neither read nor executed for, until the turns
//! of each other active connection have taken about as much: deficit round robin by time. Its long
//! commands therefore delay few of its neighbours' requests, instead of each.
//!
//! No connection is throttled while the worker is idle, nor longer than [`THROTTLE_US_MAX`], nor
//! when all other active connections are throttled already. Turns that end soon after their time
//! never lead to a throttle: pipelines and replies in pieces take turns with their neighbours in
//! order of arrival. What counts is the time that the worker ran, see [`crate::turn_time`].

use tidemill_engine::limits::TURN_US_MAX;

use crate::limits::{IDLE_US, ROUND_US, THROTTLE_US_MAX, TURN_CALLS_NS};

/// Nanoseconds of a turn from which it leads to a throttle.
pub(crate) const THROTTLE_FROM_NS: u64 = 2 * TURN_US_MAX * 1000;

/// Extent of a connection's throttle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Throttle {
    /// Monotonic microseconds at which it ends at the latest.
    until_us: u64,
    /// Total of all turns, in nanoseconds, at which it ends; none when only time ends it.
    until_served_ns: Option<u64>,
}

impl Throttle {
    /// Throttle until a time in monotonic microseconds.
    pub(crate) fn until_time(until_us: u64) -> Throttle {
        Throttle { until_us, until_served_ns: None }
    }
}

/// Time that a worker's connections have used, and those that are throttled.
#[derive(Debug, Default)]
pub(crate) struct Fairness {
    /// Nanoseconds of all turns so far, with their system calls.
    served_ns: u64,
    /// Number of the current round. Connections with a turn in this round or the one before count
    /// as active; the first round is 1.
    round: u64,
    round_ends_us: u64,
    active_count: u64,
    active_before_count: u64,
    /// Throttled sessions.
    throttled: Vec<(u64, Throttle)>,
}

impl Fairness {
    /// Begins an iteration of the event loop, and a round if the last one is over.
    pub(crate) fn begin_iteration(&mut self, now_us: u64) {
        if now_us >= self.round_ends_us {
            self.round_ends_us = now_us + ROUND_US;
            self.round += 1;
            self.active_before_count = std::mem::take(&mut self.active_count);
        }
    }

    /// Charges a connection, whose last turn was in `round`, for a turn of `turn_ns`. Returns the
    /// throttle that it earned, if any.
    #[inline]
    pub(crate) fn charge(
        &mut self,
        round: &mut u64,
        turn_ns: u64,
        now_us: impl FnOnce() -> u64,
    ) -> Option<Throttle> {
        if *round != self.round {
            *round = self.round;
            self.active_count += 1;
        }
        self.served_ns += turn_ns + TURN_CALLS_NS;
        if turn_ns < THROTTLE_FROM_NS { None } else { self.throttle_for(turn_ns, now_us) }
    }

    /// Throttle for a turn of `turn_ns`, which was too long.
    #[cold]
    fn throttle_for(&self, turn_ns: u64, now_us: impl FnOnce() -> u64) -> Option<Throttle> {
        let debt_ns = turn_ns - TURN_US_MAX * 1000;
        let active_count = self.active_count.max(self.active_before_count);
        let others_count = active_count.saturating_sub(1 + self.debtors().count() as u64);
        (others_count > 0).then(|| Throttle {
            until_us: now_us() + THROTTLE_US_MAX,
            until_served_ns: Some(self.served_ns + debt_ns.saturating_mul(others_count)),
        })
    }

    /// Throttles that last until others had their share.
    fn debtors(&self) -> impl Iterator<Item = &Throttle> {
        let throttles = self.throttled.iter().map(|(_, throttle)| throttle);
        throttles.filter(|throttle| throttle.until_served_ns.is_some())
    }

    /// True if a connection is throttled until others had their share: the worker has more to do
    /// than it does.
    pub(crate) fn has_debtors(&self) -> bool {
        self.debtors().next().is_some()
    }

    /// Throttles a session from now on. Replaces its last throttle, which may have ended early.
    pub(crate) fn add(&mut self, session: u64, throttle: Throttle) {
        self.throttled.retain(|&(other, _)| other != session);
        self.throttled.push((session, throttle));
    }

    /// Removes and returns the sessions whose throttle is over; `is_idle` says that the worker has
    /// nothing else to do.
    pub(crate) fn take_released(&mut self, now_us: u64, is_idle: bool) -> Vec<u64> {
        if self.throttled.is_empty() {
            return Vec::new();
        }
        let served_ns = self.served_ns;
        let is_over = |throttle: &Throttle| {
            now_us >= throttle.until_us
                || throttle.until_served_ns.is_some_and(|until_ns| is_idle || served_ns >= until_ns)
        };
        let mut take_released = Vec::new();
        self.throttled.retain(|(session, throttle)| {
            let is_over = is_over(throttle);
            if is_over {
                take_released.push(*session);
            }
            !is_over
        });
        take_released
    }

    /// Latest end of the worker's next wait for events, in monotonic microseconds; none when no
    /// session is throttled.
    pub(crate) fn look_again_us(&self, now_us: u64) -> Option<u64> {
        let at_us = |&(_, throttle): &(u64, Throttle)| match throttle.until_served_ns {
            Some(_) => throttle.until_us.min(now_us + IDLE_US),
            None => throttle.until_us,
        };
        self.throttled.iter().map(at_us).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG_NS: u64 = (TURN_US_MAX + 500) * 1000;

    /// Fairness after a round in which each of `neighbours` had a turn.
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
    fn connection_over_its_share_is_throttled_until_each_other_had_as_much() {
        let (mut fairness, mut rounds) = beside(10);
        let throttle = fairness.charge(&mut 0, LONG_NS, || 0).expect("it took more than its turn");
        fairness.add(7, throttle);
        // Each of ten others is owed the 500 us by which it overspent.
        let mut served_ns = 0;
        while fairness.take_released(1, false).is_empty() {
            for round in &mut rounds {
                fairness.charge(round, 10_000, || 0);
                served_ns += 10_000 + TURN_CALLS_NS;
            }
        }
        let owed_ns = 10 * 500_000;
        assert!((owed_ns..owed_ns + 200_000).contains(&served_ns), "{served_ns}");
        assert_eq!(fairness.look_again_us(1), None, "nobody throttles any more");
    }

    #[test]
    fn connection_alone_or_within_its_time_is_not_throttled() {
        let (mut fairness, mut rounds) = beside(1);
        assert_eq!(fairness.charge(&mut rounds[0], LONG_NS, || 0), None, "it is alone");
        assert_eq!(fairness.charge(&mut 0, THROTTLE_FROM_NS - 1, || 0), None, "nearly in time");
        assert!(fairness.charge(&mut rounds[0], LONG_NS, || 0).is_some(), "now there are two");
        // A connection without a turn in two rounds is no longer active.
        fairness.begin_iteration(ROUND_US);
        fairness.begin_iteration(2 * ROUND_US);
        assert_eq!(fairness.charge(&mut rounds[0], LONG_NS, || 0), None);
    }

    #[test]
    fn last_active_connection_is_not_throttled() {
        let (mut fairness, mut rounds) = beside(5);
        let mut throttle = |fairness: &mut Fairness, index: usize| {
            let throttle = fairness.charge(&mut rounds[index], LONG_NS, || 0);
            throttle.inspect(|&throttle| fairness.add(index as u64, throttle)).is_some()
        };
        assert!((0..4).all(|index| throttle(&mut fairness, index)));
        assert!(
            !throttle(&mut fairness, 4),
            "it is the last that the worker could do something for"
        );
        assert!(fairness.has_debtors());
        assert_eq!(fairness.take_released(0, true), [0, 1, 2, 3]);
        assert!(!fairness.has_debtors());
    }

    #[test]
    fn new_throttle_replaces_the_last_one() {
        let (mut fairness, _) = beside(3);
        fairness.add(7, Throttle::until_time(50));
        fairness.add(7, Throttle::until_time(90));
        assert!(
            fairness.take_released(50, false).is_empty(),
            "the one before is over, not this one"
        );
        assert_eq!(fairness.take_released(90, false), [7]);
    }

    #[test]
    fn idle_worker_and_time_end_throttles() {
        let (mut fairness, _) = beside(3);
        let throttle = fairness.charge(&mut 0, LONG_NS, || 0).expect("it took more than its turn");
        fairness.add(7, throttle);
        fairness.add(8, Throttle::until_time(50));
        assert_eq!(fairness.look_again_us(0), Some(50));
        assert!(fairness.take_released(49, false).is_empty());
        assert_eq!(
            fairness.take_released(49, true),
            [7],
            "what only time ends is not ended by idleness"
        );
        fairness.add(7, throttle);
        assert_eq!(fairness.take_released(50, false), [8]);
        assert_eq!(fairness.look_again_us(60), Some(60 + IDLE_US));
        assert_eq!(fairness.take_released(THROTTLE_US_MAX, false), [7]);
    }
}
