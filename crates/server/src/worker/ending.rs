//! Connections whose clients send nothing more, or take nothing more.
//!
//! The two directions end apart. A client that half-closes has sent all it wants and waits for its replies: a connection whose
//! input is over ends once what it sent is executed and answered. A client that closes without reading has sent what it has
//! sent: a connection whose output is over drops its replies, and what has arrived is read to its end and executed, as
//! if the replies were on their way. Both bounds are those of any other connection: what the socket's buffers hold, what a
//! client may pile up of requests and of replies, turns and rests.
//!
//! As in Valkey, the end of its input also ends the wait of a client in a blocking command or in `CLIENT PAUSE`, and what
//! stands behind that command is not executed. A session that waits for a lock is no such case: Valkey knows no such wait.

use rustix::event::epoll;
use rustix::event::epoll::EventFlags;
use rustix::net::{Shutdown, shutdown};
use tidemill_engine::execute::Next;
use tidemill_rcu::Flavour;

use super::EventLoop;
use crate::connection::Mode;

impl<F: Flavour> EventLoop<F> {
    /// The client sends nothing more. It is closed if there is nothing left to do for it.
    pub(super) fn end_input(&mut self, index: usize) {
        let connection = &mut self.connections[index];
        connection.is_input_over = true;
        if connection.mode == Mode::Closing || connection.waits_for_others() {
            return self.close(index);
        }
        self.go_on_at_end(index);
    }

    /// The client takes nothing more: what was not sent is dropped, as is every reply from now on. It is closed if it was to be
    /// sent nothing but that. To be told twice changes nothing.
    pub(super) fn end_output(&mut self, index: usize) {
        let connection = &mut self.connections[index];
        if connection.mode == Mode::Closing || connection.waits_for_others() {
            return self.close(index);
        }
        connection.is_output_over = true;
        connection.output.clear();
        connection.output.shrink(0);
        connection.publish_unsent();
        // The kernel mostly knows. After any other error reading must not wait for a client that has missed replies: what has
        // arrived stays readable, and then comes the end.
        let _ = shutdown(&connection.socket, Shutdown::Both);
        if connection.mode == Mode::Held {
            self.resume(index);
        }
        if self.connections.contains(index) {
            self.go_on_at_end(index);
        }
    }

    /// One direction of a connection has just ended.
    fn go_on_at_end(&mut self, index: usize) {
        let connection = &mut self.connections[index];
        connection.close_if_run_out();
        if connection.mode == Mode::Closing {
            self.flush(index);
        } else if connection.is_input_over && connection.is_output_over {
            // The kernel would report its socket without end: nobody can ask it not to. Waits and rests end by themselves.
            // Not registered any more is what an error would mean, too.
            let _ = epoll::delete(&self.epoll, &connection.socket);
            connection.interest = EventFlags::empty();
        } else {
            self.update_interest(index);
        }
    }

    /// Does what a turn came to whose connection gets no further input.
    pub(super) fn finish_turn_at_end(&mut self, index: usize, next: Next) {
        let next = if matches!(next, Next::Input { .. }) { Next::Close } else { next };
        self.finish_turn(index, next);
        // Only now, when what was executed before the wait is answered.
        if self.connections.get(index).is_some_and(|connection| connection.waits_for_others()) {
            self.close(index);
        }
    }
}
