//! Sessions of a worker that wait for an event without a message.
//!
//! Each is tried again when its event has come, and not before: thousands of waiting sessions cost
//! nothing.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};

use tidemill_engine::shared::Shared;
use tidemill_engine::slots::parking::WakeUp;
use tidemill_engine::worker::Worker;

use crate::limits::STARVED_LOOK_US;

/// Sessions that wait, by event.
#[derive(Debug, Default)]
pub(super) struct Waits {
    /// Sessions with the time at which each tries again, in monotonic microseconds. Ended ones stay
    /// until then, for a moment.
    timed: BinaryHeap<Reverse<(u64, u64)>>,
    paused: BTreeSet<u64>,
    /// Version of the pause when the paused sessions were looked at last.
    pause_version: u64,
    starved: BTreeSet<u64>,
}

impl Waits {
    /// Adds a session that waits. One that waits for a message is not kept here.
    pub(super) fn add(&mut self, session: u64, wake_up: WakeUp) {
        match wake_up {
            WakeUp::Message => {}
            WakeUp::At(at_us) => self.timed.push(Reverse((at_us, session))),
            WakeUp::PauseEnd => {
                self.paused.insert(session);
            }
            WakeUp::Memory => {
                self.starved.insert(session);
            }
        }
    }

    /// Forgets a session that has ended.
    pub(super) fn forget(&mut self, session: u64) {
        self.paused.remove(&session);
        self.starved.remove(&session);
    }

    /// Latest time of the next look, at `now_us`; at once for a time that has passed.
    ///
    /// A pause that begins or is ended by command rings the worker behind the new version. One that
    /// is made longer does not: this is asked again at its old end.
    pub(super) fn look_again_us(
        &self,
        shared: &Shared,
        worker: &Worker,
        now_us: u64,
    ) -> Option<u64> {
        let timed = self.timed.peek().map(|Reverse((at_us, _))| *at_us);
        let paused = (!self.paused.is_empty()).then(|| {
            let is_other = self.pause_version != shared.pause_version();
            if is_other { now_us } else { shared.pause_until_us() }
        });
        let starved = (!self.starved.is_empty())
            .then(|| if worker.must_reclaim() { now_us + STARVED_LOOK_US } else { now_us });
        [timed, paused, starved].into_iter().flatten().min()
    }

    /// Takes out the sessions that are to go on.
    pub(super) fn take_due(&mut self, shared: &Shared, worker: &Worker, now_us: u64) -> Vec<u64> {
        let mut due = Vec::new();
        while let Some(&Reverse((at_us, session))) = self.timed.peek()
            && at_us <= now_us
        {
            self.timed.pop();
            due.push(session);
        }
        // Read once, and before a command is judged by the pause in this iteration: a session that
        // is added from now on knows this pause or a later one.
        let version = shared.pause_version();
        let is_other = std::mem::replace(&mut self.pause_version, version) != version;
        if !self.paused.is_empty() && (is_other || shared.pause_until_us() <= now_us) {
            due.extend(std::mem::take(&mut self.paused));
        }
        if !self.starved.is_empty() && !worker.must_reclaim() {
            due.extend(std::mem::take(&mut self.starved));
        }
        due
    }
}
