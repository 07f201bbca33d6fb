//! Coalescing of wake-ups: under load, a worker sleeps for some microseconds before it waits for
//! events (`wakeup-coalescing-us`), so that one wake-up finds the requests of several connections.
//!
//! A worker that is faster than its clients sleeps and is woken for nearly every request, and at
//! pipeline 1 that costs as much as the request. During the pause nothing wakes the thread; the
//! wait behind it returns at once if something has arrived, and is a wait as any other if not. A
//! pause behind the wake-up instead would cost a second sleep.
//!
//! A pause is worth its delay only where requests keep coming while nobody is answered. So each
//! tick judges the one before: as many connections with a request as gather in a pause, and several
//! times as many connections that were active at all. Of few connections in a closed loop each
//! waits for its reply: a pause would find the same ones, later. Behind an iteration that found
//! many there is no pause, as the worker is behind; nor where its next deadline is nearer.
//!
//! Touches the timer slack of its thread and no descriptor. Messages of other workers, the end of
//! handshakes and the order to stop arrive as events of the waker, behind the pause at the latest.

use std::num::NonZeroU64;

use rustix::event::epoll::Event;
use rustix::thread::set_current_timer_slack;
use tidemill_engine::system_error::reason;

use super::event_poll::EventSource;
use crate::limits::{COALESCED_ACTIVE_FACTOR, COALESCED_FEW, COALESCED_MIN};

/// Connections that are told apart, by the low bits of their indices.
const ACTIVE_MAX: usize = 1024;

/// Pauses of a worker.
#[derive(Debug, Default)]
pub(super) struct Coalescing {
    /// Duration of a pause in microseconds; 0 for none, ever.
    pause_us: u64,
    /// Most connections of an iteration behind which there is a pause; 0 while the load is not
    /// worth one.
    few_max: usize,
    /// Connections with an event in the last iteration.
    last_count: usize,
    period: Period,
}

/// Events since the last judgement.
#[derive(Debug, Default)]
struct Period {
    since_us: u64,
    /// Events of connections.
    count: u64,
    /// Connections with an event, a bit each.
    active: [u64; ACTIVE_MAX / 64],
}

impl Period {
    fn active_count(&self) -> u64 {
        self.active.iter().map(|bits| u64::from(bits.count_ones())).sum()
    }
}

impl Coalescing {
    /// Pauses of `pause_us` from now on, on the calling thread; 0 for none.
    pub(super) fn configure(&mut self, pause_us: u64, now_us: u64) {
        if pause_us == self.pause_us {
            return;
        }
        let period = Period { since_us: now_us, ..Period::default() };
        *self = Coalescing { pause_us, period, ..Coalescing::default() };
        // A sleep ends up to the slack later than asked, which is 50 us by default.
        let slack_ns = NonZeroU64::new(u64::from(pause_us > 0));
        if let Err(error) = set_current_timer_slack(slack_ns) {
            log::warn!(
                "wakeup-coalescing-us has no effect: timer slack: {}",
                reason(&error.into())
            );
            self.pause_us = 0;
        }
    }

    /// Notes the events of an iteration.
    #[inline]
    pub(super) fn note(&mut self, events: &[Event]) {
        if self.pause_us > 0 {
            self.note_connections(events);
        }
    }

    fn note_connections(&mut self, events: &[Event]) {
        self.last_count = 0;
        for event in events {
            if let EventSource::Connection(index) = EventSource::of(event) {
                let bit = index % ACTIVE_MAX;
                self.period.active[bit / 64] |= 1 << (bit % 64);
                self.last_count += 1;
            }
        }
        self.period.count += self.last_count as u64;
    }

    /// Judges by the events since the last time whether pauses are worth their delay from now on.
    pub(super) fn judge(&mut self, now_us: u64) {
        if self.pause_us == 0 {
            return;
        }
        let next = Period { since_us: now_us, ..Period::default() };
        let period = std::mem::replace(&mut self.period, next);
        let elapsed_us = now_us.saturating_sub(period.since_us).max(1);
        // Events that arrive in a pause, at least.
        let expected = period.count * self.pause_us / elapsed_us;
        let active = period.active_count();
        let is_open = active >= expected * COALESCED_ACTIVE_FACTOR || active == ACTIVE_MAX as u64;
        let is_worthwhile = expected >= COALESCED_MIN && is_open;
        self.few_max = if is_worthwhile { COALESCED_FEW.max(2 * expected as usize) } else { 0 };
    }

    /// Duration of the pause before a wait for events of at most `wait_us`, in microseconds; 0 for
    /// none.
    #[inline]
    pub(super) fn pause_us(&self, wait_us: u64) -> u64 {
        let is_few = (1..=self.few_max).contains(&self.last_count);
        if is_few && wait_us > self.pause_us { self.pause_us } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    use rustix::event::epoll::{EventData, EventFlags};
    use rustix::thread::current_timer_slack;

    use super::*;

    const TICK_US: u64 = 100_000;

    fn events(connections: impl IntoIterator<Item = u64>) -> Vec<Event> {
        let event = |index| Event { flags: EventFlags::IN, data: EventData::new_u64(index) };
        connections.into_iter().map(event).collect()
    }

    /// Coalescing of 50 us behind a tick with `count` events of `connections` in turn.
    fn after_a_tick(count: u64, connections: u64) -> Coalescing {
        let mut coalescing = Coalescing::default();
        coalescing.configure(50, 7);
        for number in 0..count {
            coalescing.note(&events([number % connections]));
        }
        coalescing.judge(7 + TICK_US);
        coalescing
    }

    #[test]
    fn many_requests_of_many_connections_are_worth_a_pause() {
        assert_eq!(after_a_tick(4000, 50).pause_us(TICK_US), 50, "two in a pause");
        assert_eq!(after_a_tick(3999, 50).pause_us(TICK_US), 0, "too few requests");
        assert_eq!(after_a_tick(20_000, 40).pause_us(TICK_US), 50, "ten in a pause");
        assert_eq!(after_a_tick(20_000, 39).pause_us(TICK_US), 0, "too few connections");
        assert_eq!(after_a_tick(100_000_000, 5000).pause_us(TICK_US), 50, "more than told apart");
    }

    #[test]
    fn connections_in_a_closed_loop_are_never_delayed() {
        for connections in 1..8 {
            for count in [1, 100, 4000, 30_000] {
                let coalescing = after_a_tick(count, connections);
                assert_eq!(coalescing.pause_us(TICK_US), 0, "{count} of {connections}");
            }
        }
    }

    #[test]
    fn pause_follows_few_connections_with_an_event() {
        let mut coalescing = after_a_tick(4000, 50);
        for (count, pause_us) in [(0, 0), (1, 50), (8, 50), (9, 0), (50, 0)] {
            coalescing.note(&events(0..count));
            assert_eq!(coalescing.pause_us(TICK_US), pause_us, "behind {count}");
        }
        let mut coalescing = after_a_tick(20_000, 50);
        for (count, pause_us) in [(20, 50), (21, 0)] {
            coalescing.note(&events(0..count));
            assert_eq!(coalescing.pause_us(TICK_US), pause_us, "behind {count}, of ten expected");
        }
        // Wake-ups are no load.
        coalescing.note(&events([u64::MAX, u64::MAX - 1025]));
        assert_eq!(coalescing.pause_us(TICK_US), 0);
    }

    #[test]
    fn deadline_within_a_pause_prevents_it() {
        let coalescing = after_a_tick(4000, 50);
        assert_eq!([0, 49, 50, 51].map(|wait_us| coalescing.pause_us(wait_us)), [0, 0, 0, 50]);
    }

    #[test]
    fn pauses_end_with_the_load_and_with_the_setting() {
        let mut coalescing = after_a_tick(4000, 50);
        coalescing.note(&events([1]));
        coalescing.judge(7 + 2 * TICK_US);
        assert_eq!(coalescing.pause_us(TICK_US), 0, "a tick with one request");
        let mut coalescing = after_a_tick(4000, 50);
        assert_eq!(current_timer_slack(), Ok(1));
        coalescing.configure(0, 7 + TICK_US);
        assert_eq!(coalescing.pause_us(TICK_US), 0);
        assert_ne!(current_timer_slack(), Ok(1));
        let mut coalescing = after_a_tick(4000, 50);
        coalescing.configure(100, 7 + TICK_US);
        assert_eq!(coalescing.pause_us(TICK_US), 0, "not judged yet");
    }

    #[test]
    fn clock_that_does_not_move_is_no_division_by_zero() {
        let mut coalescing = Coalescing::default();
        coalescing.configure(50, 7);
        coalescing.note(&events(0..50));
        coalescing.judge(7);
        coalescing.judge(3);
        assert_eq!(coalescing.pause_us(TICK_US), 0);
    }
}
