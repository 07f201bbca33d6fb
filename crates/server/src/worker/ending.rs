//! Connections whose clients send nothing more, or take nothing more.
//!
//! The two directions end apart. A client that half-closes has sent all it wants and waits for its
//! replies: a connection whose input is over ends once its requests are executed and answered. A
//! client that closes without reading still has its requests executed: a connection whose output is
//! over drops its replies, and its arrived input is read to its end and executed, as if the replies
//! were on their way. Both are bounded like any other connection: by the socket's buffers, the
//! limits of requests and replies, turns and throttles.
//!
//! As in Valkey, the end of its input also ends the wait of a client in a blocking command or in
//! `CLIENT PAUSE`, and what follows that command is not executed. A session that waits for a lock
//! is no such case: Valkey knows no such wait.
//!
//! Coordinates the owners; has no state of its own. Which directions have ended is in
//! [`crate::connection_state`].

use rustix::event::epoll::EventFlags;
use rustix::net::{Shutdown, shutdown};
use tidemill_engine::execute::Next;
use tidemill_rcu::Flavour;

use super::EventLoop;

impl<F: Flavour> EventLoop<F> {
    /// Ends the input of a connection: the client sends nothing more. Closes the connection if
    /// nothing is left to do for it.
    pub(super) fn end_input(&mut self, index: usize) {
        let connection = &mut self.connections[index];
        connection.state.end_input();
        if connection.state.is_closing() || connection.waits_for_others() {
            return self.close(index);
        }
        self.go_on_at_end(index);
    }

    /// Ends the output of a connection: the client takes nothing more. Unsent replies are dropped,
    /// as is every reply from now on. Closes the connection if it only waited to send them. A
    /// second call changes nothing.
    pub(super) fn end_output(&mut self, index: usize) {
        let connection = &mut self.connections[index];
        if connection.state.is_closing() || connection.waits_for_others() {
            return self.close(index);
        }
        let was_blocked = connection.state.end_output();
        connection.output.clear();
        connection.output.shrink(0);
        connection.transport.drop_unsent();
        connection.held.clear();
        connection.publish_unsent();
        // The kernel mostly knows already. After any other error, reading must not wait for a
        // client that has missed replies: bytes that have arrived stay readable, followed by the
        // end.
        let _ = shutdown(&connection.transport, Shutdown::Both);
        if was_blocked {
            self.resume(index);
        }
        if self.connections.contains(index) {
            self.go_on_at_end(index);
        }
    }

    /// Closes a connection one of whose directions has just ended, once nothing is left to execute
    /// or send; until then updates its interest.
    fn go_on_at_end(&mut self, index: usize) {
        let connection = &mut self.connections[index];
        connection.begin_closing_if_done(self.scheduler.is_queued(index));
        if connection.state.is_closing() {
            self.flush(index);
        } else if connection.state.is_gone() {
            // The kernel would report its socket without end: a hang-up cannot be masked. Waits and
            // throttles end by themselves. An error would mean that it is not registered any more.
            let _ = self.poll.remove(&connection.transport);
            connection.interest = EventFlags::empty();
        } else {
            self.update_interest(index);
        }
    }

    /// Finishes a turn of a connection that gets no further input.
    pub(super) fn finish_turn_at_end(&mut self, index: usize, next: Next) {
        let next = if matches!(next, Next::Input { .. }) { Next::Close } else { next };
        self.finish_turn(index, next);
        // Only now, when the commands executed before the wait are answered.
        if self.connections.get(index).is_some_and(|connection| connection.waits_for_others()) {
            self.close(index);
        }
    }
}
