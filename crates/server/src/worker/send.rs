//! Output of a worker's connections: sending, and the limits of what a client does not take.
//!
//! Coordinates the owners; has no state of its own. Writes to sockets of connections, and asks the
//! kernel for their events.

use tidemill_engine::commit::RecordNumber;
use tidemill_engine::telemetry::stats::WorkerStats;
use tidemill_rcu::Flavour;

use super::EventLoop;
use crate::backlog;
use crate::connection::Connection;
use crate::limits::{LONG_REPLY_UNSENT_BYTES, REPLY_BLOCK_BYTES, UNAUTHENTICATED_OUTPUT_BYTES_MAX};
use crate::output::Sent;

impl<F: Flavour> EventLoop<F> {
    /// As [`Self::send_replies_that_need`], of replies that depend on everything so far.
    pub(super) fn send_replies(&mut self, index: usize) {
        self.send_replies_that_need(index, None);
    }

    /// Sends fresh replies, behind the unsent ones, or keeps them until the record that they need
    /// is released; none is for everything that was numbered so far. The buffer is empty
    /// afterwards, for the next connection.
    pub(super) fn send_replies_that_need(&mut self, index: usize, need: Option<RecordNumber>) {
        let fresh_bytes = self.execution.reply_mut().len();
        if fresh_bytes >= self.config.fresh_bytes_min && self.exceeds_at_once(index, fresh_bytes) {
            self.execution.reply_mut().clear();
            return self.close_for_output(index);
        }
        if self.hold_replies(index, need) {
            return;
        }
        let EventLoop { spec, execution, connections, tls_buffers, .. } = self;
        let connection = &mut connections[index];
        let reply = execution.reply_mut();
        let before = reply.len();
        if reply.has_failed() {
            // There was no memory even for an error in the place of a reply.
            reply.clear();
            self.close_for_memory(index);
        } else if connection.output.is_empty()
            && connection.transport.send(reply, tls_buffers) == Sent::All
        {
            count_write(execution.stats(&spec.shared), connection, before);
            if !connection.is_idle_and_drained() {
                self.after_send(index, Sent::All);
            }
        } else if connection.state.is_output_over() {
            reply.clear();
            self.after_send(index, Sent::All);
        } else {
            connection.output.append(reply);
            self.flush(index);
        }
    }

    /// Sends a connection's unsent replies.
    pub(super) fn flush(&mut self, index: usize) {
        let connection = &mut self.connections[index];
        if connection.output.has_failed() {
            return self.close_for_memory(index);
        }
        let before = connection.output.len();
        let Connection { transport, output, .. } = connection;
        let sent = transport.send(output, &mut self.tls_buffers);
        let count = before - connection.output.len();
        if sent == Sent::All {
            connection.output.shrink(0);
        }
        count_write(self.execution.stats(&self.spec.shared), connection, count);
        self.after_send(index, sent);
    }

    /// Ends a connection for whose requests or replies there is no memory: missing bytes cannot be
    /// told from the following ones.
    #[cold]
    pub(super) fn close_for_memory(&mut self, index: usize) {
        let client = self.connections[index].describe(self.execution.worker().now_ms());
        log::warn!("No memory for what client {client} sent or is sent: it is closed");
        self.connections[index].output.clear();
        self.close(index);
    }

    /// Goes by what the socket took: ends the connection or its output, or publishes the size of
    /// what is unsent and waits for the socket. A connection that never gets here has nothing
    /// unsent.
    pub(super) fn after_send(&mut self, index: usize, sent: Sent) {
        let connection = &self.connections[index];
        if sent == Sent::All && connection.is_idle_and_drained() {
            return connection.publish_unsent();
        }
        if sent == Sent::Broken {
            self.end_output(index);
        } else if connection.state.is_closing() && sent == Sent::All && connection.held.is_empty() {
            self.close(index);
        } else if !self.check_output(index) {
            self.block_or_unblock_output(index);
            self.update_interest(index);
        }
    }

    /// Ends a client whose unsent replies exceed a limit; returns true if it did. Publishes their
    /// size of any other: nobody sees a client that by itself is above a limit.
    pub(super) fn check_output(&mut self, index: usize) -> bool {
        let connection = &mut self.connections[index];
        let unsent_bytes = connection.backlog_bytes() as u64;
        if !connection.session.was_authenticated && unsent_bytes > UNAUTHENTICATED_OUTPUT_BYTES_MAX
        {
            self.execution.stats(&self.spec.shared).output_limit_disconnections.add(1);
            self.close_unauthenticated(index);
            return true;
        }
        let limit = self.config.output_limit(&connection.session);
        let clock = &self.spec.shared.clock;
        let is_exceeded =
            connection.soft_limit.is_exceeded(limit, unsent_bytes, || clock.monotonic_us());
        if is_exceeded {
            self.close_for_output(index);
        }
        let is_ended = is_exceeded || self.evict_for_memory_of(index);
        if !is_ended {
            self.connections[index].publish_unsent();
        }
        is_ended
    }

    /// True if replies that were not offered to the socket yet exceed the client's hard limit. As
    /// in Valkey, they count before the socket takes them: a limit also says how much a client may
    /// ask for at once.
    #[cold]
    pub(super) fn exceeds_at_once(&self, index: usize, fresh_bytes: usize) -> bool {
        let connection = &self.connections[index];
        let limit = self.config.output_limit(&connection.session);
        let mut bytes = (connection.backlog_bytes() + fresh_bytes) as u64;
        let mut bytes_max = backlog::fresh_bytes_max(limit);
        if self.config.counts_reply_blocks {
            bytes = bytes.next_multiple_of(REPLY_BLOCK_BYTES);
            if !connection.session.was_authenticated {
                bytes_max = bytes_max.min(UNAUTHENTICATED_OUTPUT_BYTES_MAX);
            }
        }
        // Requests of a client that has gone are executed; their replies are for nobody.
        !connection.state.is_output_over() && bytes >= bytes_max
    }

    /// Ends a client that does not take what it is sent.
    #[cold]
    pub(super) fn close_for_output(&mut self, index: usize) {
        let client = self.connections[index].describe(self.execution.worker().now_ms());
        log::warn!("Client {client} closed for overcoming of output buffer limits.");
        self.execution.stats(&self.spec.shared).output_limit_disconnections.add(1);
        self.close(index);
    }

    /// Stops executing for a client that does not take its replies, and resumes once it has taken
    /// half of them.
    fn block_or_unblock_output(&mut self, index: usize) {
        let connection = &mut self.connections[index];
        // Pushes that wait for the end of a reply must not keep it from its end.
        let unsent_bytes = connection.unsent_reply_bytes() as u64;
        let blocked_from_bytes = if connection.session.has_pending_script() {
            // It has locked what others wait for.
            u64::MAX
        } else if !connection.session.has_pending_reply() {
            backlog::output_blocked_from_bytes(self.config.output_limit(&connection.session))
        } else if self.spec.shared.should_hurry() {
            u64::MAX
        } else {
            LONG_REPLY_UNSENT_BYTES
        };
        if !connection.state.is_output_blocked() && unsent_bytes > blocked_from_bytes {
            connection.state.block_output();
        } else if connection.state.is_output_blocked() && unsent_bytes <= blocked_from_bytes / 2 {
            self.resume(index);
        }
    }

    /// Updates the kernel's interest to the events that a connection needs now.
    pub(super) fn update_interest(&mut self, index: usize) {
        let Some(connection) = self.connections.get_mut(index) else { return };
        if connection.state.is_gone() {
            return;
        }
        let interest = connection.wanted_events();
        if interest != connection.interest {
            connection.interest = interest;
            if self.poll.modify_connection(&connection.transport, index, interest).is_err() {
                self.close(index);
            }
        }
    }
}

/// Counts a write of `bytes` to a connection.
pub(super) fn count_write(stats: &WorkerStats, connection: &Connection, bytes: usize) {
    stats.writes.add(u64::from(bytes > 0));
    stats.output_bytes.add(bytes as u64);
    connection.session.client.output_bytes.add(bytes as u64);
}
