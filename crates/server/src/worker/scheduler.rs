//! Order in which a worker's connections execute: those in the run queue, those that are throttled,
//! and those whose sessions wait for an event without a message.
//!
//! Owns no connection: it changes the state and the round of the one it is given. The deficit round
//! robin by time is in [`crate::fairness`].

use tidemill_engine::clock::Clock;
use tidemill_engine::shared::Shared;
use tidemill_engine::slots::parking::WakeUp;
use tidemill_engine::worker::Worker;

use super::run_queue::RunQueue;
use super::waits::Waits;
use crate::connection::Connection;
use crate::fairness::{Fairness, Throttle};
use crate::turn_time::TurnTime;

/// Schedule of a worker's connections.
#[derive(Debug, Default)]
pub(super) struct Scheduler {
    queue: RunQueue,
    fairness: Fairness,
    waits: Waits,
    turn_time: TurnTime,
}

impl Scheduler {
    /// Adds a connection to the run queue, unless it is there.
    pub(super) fn enqueue(&mut self, index: usize) {
        self.queue.push(index);
    }

    /// True if a connection is in the run queue.
    #[inline]
    pub(super) fn is_queued(&self, index: usize) -> bool {
        self.queue.contains(index)
    }

    /// Takes a connection out of the run queue.
    pub(super) fn dequeue(&mut self, index: usize) {
        self.queue.remove(index);
    }

    /// Number of places in the run queue; see [`RunQueue::len`].
    #[inline]
    pub(super) fn queued_count(&self) -> usize {
        self.queue.len()
    }

    /// Takes the next connection out of the run queue; none if it has left.
    pub(super) fn next_queued(&mut self) -> Option<usize> {
        self.queue.pop()
    }

    /// Forgets a connection that has ended.
    pub(super) fn forget(&mut self, index: usize, session: u64) {
        self.queue.remove(index);
        self.waits.forget(session);
    }

    /// Begins a connection's turn.
    #[inline]
    pub(super) fn begin_turn(&mut self, now_us: u64, clock: &dyn Clock) {
        self.turn_time.begin(now_us, || clock.thread_cpu_ns());
    }

    /// Charges a connection for a turn of `turn_ns` that ends, and throttles it if that took too
    /// long; the caller then updates its interest.
    #[inline(always)]
    pub(super) fn charge(&mut self, connection: &mut Connection, turn_ns: u64, clock: &dyn Clock) {
        let now_us = || clock.monotonic_us();
        let turn_ns = self.turn_time.used_ns(turn_ns, now_us, || clock.thread_cpu_ns());
        if let Some(throttle) = self.fairness.charge(&mut connection.round, turn_ns, now_us) {
            self.throttle(connection, throttle);
        }
    }

    /// Throttles a connection until a time in monotonic microseconds.
    pub(super) fn throttle_until(&mut self, connection: &mut Connection, until_us: u64) {
        self.throttle(connection, Throttle::until_time(until_us));
    }

    #[cold]
    fn throttle(&mut self, connection: &mut Connection, throttle: Throttle) {
        connection.state.throttle();
        self.fairness.add(connection.session.id(), throttle);
    }

    /// Begins an iteration, and takes out the sessions whose throttle is over; `has_events` says
    /// that the worker has something else to do.
    #[inline]
    pub(super) fn take_released(&mut self, now_us: u64, has_events: bool) -> Vec<u64> {
        self.fairness.begin_iteration(now_us);
        self.fairness.take_released(now_us, !has_events && self.queue.len() == 0)
    }

    /// True if a connection is throttled until others had their share: the worker has more to do
    /// than it does.
    #[inline]
    pub(super) fn has_debtors(&self) -> bool {
        self.fairness.has_debtors()
    }

    /// Adds a session that waits.
    pub(super) fn wait(&mut self, session: u64, wake_up: WakeUp) {
        self.waits.add(session, wake_up);
    }

    /// Takes out the waiting sessions that are to go on.
    pub(super) fn take_due(&mut self, shared: &Shared, worker: &Worker, now_us: u64) -> Vec<u64> {
        self.waits.take_due(shared, worker, now_us)
    }

    /// Latest end of the worker's next wait for events, in monotonic microseconds; none when no
    /// session is throttled or waits.
    #[inline]
    pub(super) fn look_again_us(
        &self,
        shared: &Shared,
        worker: &Worker,
        now_us: u64,
    ) -> Option<u64> {
        let throttled_us = self.fairness.look_again_us(now_us);
        let waiting_us = self.waits.look_again_us(shared, worker, now_us);
        match (throttled_us, waiting_us) {
            (Some(throttled_us), Some(waiting_us)) => Some(throttled_us.min(waiting_us)),
            (throttled_us, waiting_us) => throttled_us.or(waiting_us),
        }
    }
}
