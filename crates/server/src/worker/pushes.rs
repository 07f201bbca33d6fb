//! Pushes: messages for subscribers and lines of `MONITOR`, sent once per iteration and connection.
//!
//! Coordinates the owners; has no state of its own. What is to be sent to whom is in the engine's
//! [`Receivers`](tidemill_engine::pubsub::receivers::Receivers).

use tidemill_engine::pubsub::lanes::Delivery;
use tidemill_engine::pubsub::receivers::Dirty;
use tidemill_rcu::Flavour;

use super::EventLoop;
use crate::limits::{PUSHES_BETWEEN_LOOKS, PUSHES_US_MAX};

impl<F: Flavour> EventLoop<F> {
    /// Sends what was posted for receivers of this worker so far, for a moment. What is left, or is
    /// posted meanwhile, belongs to the next iteration, which begins at once.
    #[inline]
    pub(super) fn send_pushes(&mut self) {
        self.execution.begin_pushes(&self.spec.shared);
        if self.execution.collect_pushes(&self.spec.shared) {
            self.send_collected();
        }
    }

    fn send_collected(&mut self) {
        let until_us = self.spec.shared.clock.monotonic_us() + PUSHES_US_MAX;
        let mut count = 0_u32;
        loop {
            while let Some(dirty) = self.execution.worker_mut().receivers.next_dirty() {
                self.send_pushes_to(dirty);
                count += 1;
                // The clock is read seldom: a write takes much longer than that.
                if count.is_multiple_of(PUSHES_BETWEEN_LOOKS)
                    && self.spec.shared.clock.monotonic_us() >= until_us
                {
                    return;
                }
            }
            if !self.execution.collect_pushes(&self.spec.shared) {
                return;
            }
        }
    }

    fn send_pushes_to(&mut self, dirty: Dirty) {
        let Dirty { session, is_cut_off } = dirty;
        self.execution.take_pushes(session);
        match self.connections.of_session(session) {
            Some(index) if is_cut_off => {
                self.execution.reply_mut().clear();
                self.close_for_output(index);
            }
            // The elements of a reply must not be torn apart.
            Some(index) if self.connections[index].session.has_pending_reply() => {
                self.connections[index].postpone_pushes(self.execution.reply_mut());
                self.check_output(index);
            }
            // One that is to be closed once its replies are sent, or was killed, is sent nothing
            // else.
            Some(index) if self.connections[index].may_be_pushed() => {
                if !self.execution.reply_mut().is_empty() {
                    self.send_replies(index);
                }
            }
            Some(_) => self.execution.reply_mut().clear(),
            None => self.pass_on(session),
        }
    }

    /// Passes on what is for a connection that is not here: it was moved, or has ended.
    #[cold]
    pub(super) fn pass_on(&mut self, session: u64) {
        let bytes = self.execution.reply_mut().to_vec().into();
        self.execution.reply_mut().clear();
        if let Some(owner) = self.owner_of_absent(session) {
            self.spec.shared.lanes.post(owner, Delivery::Line { session, bytes });
        }
    }
}
