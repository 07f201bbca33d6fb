//! Pushes: messages for subscribers and lines of `MONITOR`, sent once per iteration and connection.
//!
//! Coordinates the owners; has no state of its own. What is to be sent to whom is in the engine's
//! [`Receivers`](tidemill_engine::pubsub::receivers::Receivers).

use tidemill_engine::pubsub::receivers::Dirty;
use tidemill_rcu::Flavour;

use super::EventLoop;

impl<F: Flavour> EventLoop<F> {
    /// Sends what was posted for receivers of this worker so far. What is posted meanwhile belongs
    /// to the next iteration, which begins at once.
    #[inline]
    pub(super) fn send_pushes(&mut self) {
        self.execution.begin_pushes(&self.spec.shared);
        while self.execution.worker_mut().receivers.collect() {
            while let Some(dirty) = self.execution.worker_mut().receivers.next_dirty() {
                self.send_pushes_to(dirty);
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
            // One that is to be closed once its replies are sent, or was killed, is sent nothing
            // else.
            Some(index) if self.connections[index].may_be_pushed() => {
                if !self.execution.reply_mut().is_empty() {
                    self.send_replies(index);
                }
            }
            _ => self.execution.reply_mut().clear(),
        }
    }
}
