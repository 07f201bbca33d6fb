//! Replies and the append-only file: no reply leaves before the records that it depends on.
//!
//! Coordinates the owners; has no state of its own. A reply depends on every record that was
//! numbered before it was made: the data that it shows may be of any of them. Replies of nothing
//! but brief reads depend on the last records of their slots alone: they do not wait for writes of
//! others that they have not seen.

use std::sync::Arc;

use tidemill_engine::commit::RecordNumber;
use tidemill_rcu::Flavour;
use tidemill_resp::encode::ReplyBuffer;

use super::EventLoop;
use super::holding::Waiting;
use super::send::count_write;
use crate::connection::Connection;
use crate::output::Sent;

impl<F: Flavour> EventLoop<F> {
    /// Keeps fresh replies back if they have to wait; true if they do. The lines of `MONITOR`
    /// do not: they are about requests, not about data.
    #[inline]
    pub(super) fn hold_replies(&mut self, index: usize, need: Option<RecordNumber>) -> bool {
        self.holding.is_active() && self.hold_replies_now(index, need)
    }

    #[inline(never)]
    fn hold_replies_now(&mut self, index: usize, need: Option<RecordNumber>) -> bool {
        let EventLoop { execution, connections, holding, .. } = self;
        let log = holding.log();
        let (connection, reply) = (&mut connections[index], execution.reply_mut());
        let is_exempt = connection.session.is_monitor && connection.held.is_empty();
        if reply.is_empty() || reply.has_failed() || connection.state.is_output_over() || is_exempt
        {
            return false;
        }
        // Behind the last command, whose number was taken before.
        let need = need.unwrap_or_else(|| log.need());
        if connection.held.is_empty() && need <= log.released() {
            return false;
        }
        holding.hold(need, (index, connection), reply);
        self.after_send(index, Sent::Part);
        true
    }

    /// Puts a reply that did not come from a turn behind the others of a connection.
    pub(super) fn append_reply(&mut self, index: usize, reply: &mut ReplyBuffer) {
        let EventLoop { connections, holding, .. } = self;
        let connection = &mut connections[index];
        if !holding.is_active() {
            return connection.output.append(reply);
        }
        let (need, released) = (holding.log().need(), holding.log().released());
        if need > released || !connection.held.is_empty() {
            holding.hold(need, (index, connection), reply);
        } else {
            connection.output.append(reply);
        }
    }

    /// Ends an iteration: writes what was changed, and sends the replies that waited for it.
    /// Outside of the gate, as writing may block.
    pub(super) fn write_log(&mut self) {
        let index = self.spec.index;
        let first_record = self.execution.worker().deadlines.first_record();
        if !self.holding.is_active() && first_record == 0 {
            return;
        }
        let log = Arc::clone(self.holding.log());
        let shared = &self.spec.shared;
        let begun_us = shared.clock.monotonic_us();
        log.write_behind(index);
        self.execution.stats(shared).log_us.add(shared.clock.monotonic_us() - begun_us);
        // Each round takes a session at least.
        while log.waits(index, self.holding.first_need()) {
            let released = log.released();
            self.execution.enter_gate();
            while let Some(waiting) = self.holding.take(released) {
                self.release_replies(waiting, released);
            }
            self.execution.leave_gate();
        }
        if log.waits_for_sync(index, first_record) {
            self.execution.enter_gate();
            self.end_durable_waits();
            self.execution.leave_gate();
        }
    }

    fn release_replies(&mut self, Waiting { session, index, .. }: Waiting, released: u64) {
        let EventLoop { spec, execution, connections, holding, tls_buffers, .. } = self;
        let connection = connections.get_mut(index).filter(|other| other.session.id() == session);
        let Some(connection) = connection else { return };
        if connection.output.is_empty() {
            let Connection { transport, output, held, .. } = &mut *connection;
            let sent = held.send_all(released, output, holding.spare_mut(), |replies| {
                let before = replies.len();
                (transport.send(replies, tls_buffers), before - replies.len())
            });
            if let Some((sent, count)) = sent {
                count_write(execution.stats(&spec.shared), connection, count);
                return self.after_send(index, sent);
            }
        }
        let before = connection.output.len();
        connection.held.release(released, &mut connection.output);
        if connection.output.len() > before {
            self.flush(index);
        }
    }
}
