//! Input of a worker's connections: reading, and the limit of what is read ahead of execution.
//!
//! Coordinates the owners; has no state of its own. Reads sockets of connections.

use rustix::io::Errno;
use tidemill_engine::telemetry::stats::WorkerStats;
use tidemill_rcu::Flavour;

use super::EventLoop;
use crate::connection::Connection;
use crate::limits::{
    BLOCKED_READ_US, LARGE_ARGUMENT_READ_BYTES, LARGE_ARGUMENT_READS_MAX, LARGE_ARGUMENT_READS_US,
    LOGGED_INPUT_BYTES_MAX, READ_BYTES, RESERVED_INPUT_BYTES_MAX,
};
use crate::transport;

impl<F: Flavour> EventLoop<F> {
    /// Reads once from a socket on which a request is expected; its input is executed together with
    /// that of other connections.
    pub(super) fn gather(&mut self, index: usize) {
        let EventLoop { spec, execution, connections, gathering, tls_buffers, .. } = self;
        let connection = &mut connections[index];
        let spare = gathering.spare(READ_BYTES);
        match connection.transport.receive(spare, READ_BYTES, tls_buffers) {
            Ok(count @ 1..) => {
                count_read(execution.stats(&spec.shared), connection, count);
                if gathering.add(index, count) {
                    self.execute_gathered();
                }
            }
            result => _ = self.received(index, result),
        }
    }

    /// Reads once from a socket behind the kept input, and executes it if that is allowed.
    pub(super) fn read(&mut self, index: usize) {
        let connection = &mut self.connections[index];
        if connection.state.is_input_over() {
            // An error is reported that only sending could have found.
            return self.end_output(index);
        }
        if self.scheduler.is_queued(index) {
            // It has whole requests left, which come first: its backlog is at most the bytes it
            // sends within one turn.
            return;
        }
        if !connection.session.is_authenticated {
            return self.read_unauthenticated(index);
        }
        if !connection.state.is_open() {
            return self.keep_unexecuted(index);
        }
        // With little input, a buffer of its own for a read would be most of the client's memory.
        let read = if connection.transport.is_encrypted() {
            self.keep(index, READ_BYTES)
        } else if connection.input.awaits_large() {
            self.read_large(index)
        } else if connection.input.is_large() {
            let Some(spare) = connection.input.spare() else { return self.close_for_memory(index) };
            let result = transport::read(&connection.transport, spare);
            self.received(index, result).filter(|_| !self.evict_for_memory_of(index))
        } else {
            self.keep(index, READ_BYTES)
        };
        if read.is_some() {
            self.execute_kept(index);
            self.check_input(index);
        }
    }

    /// Reads a part of what is missing of a large argument, and nothing behind its end.
    fn read_large(&mut self, index: usize) -> Option<usize> {
        let EventLoop { spec, connections, .. } = self;
        let Connection { transport, input, .. } = &mut connections[index];
        let now_us = || spec.shared.clock.monotonic_us();
        let until_us = now_us() + LARGE_ARGUMENT_READS_US;
        let mut arrived_bytes = 0;
        let mut result = Ok(0);
        for _ in 0..LARGE_ARGUMENT_READS_MAX {
            result = input.read_large(|unwritten| {
                transport::read(&*transport, unwritten).map(|(read, _)| read)
            });
            arrived_bytes += result.unwrap_or(0);
            if result != Ok(LARGE_ARGUMENT_READ_BYTES) || now_us() >= until_us {
                break;
            }
        }
        if arrived_bytes > 0 {
            // The kernel reports an end of the input, or an error, again.
            result = Ok(arrived_bytes);
        }
        self.received(index, result).filter(|_| !self.evict_for_memory_of(index))
    }

    /// Reads at most `bytes_max`, which [`READ_BYTES`] bounds, once, and keeps them.
    pub(super) fn keep(&mut self, index: usize, bytes_max: usize) -> Option<usize> {
        let EventLoop { connections, gathering, tls_buffers, .. } = self;
        let transport = &mut connections[index].transport;
        let result = transport.receive(gathering.spare(READ_BYTES), bytes_max, tls_buffers);
        let count = self.received(index, result)?;
        let connection = &mut self.connections[index];
        if !connection.state.is_closing() {
            if !connection.input.extend(self.gathering.arrived(count)) {
                self.close_for_memory(index);
                return None;
            }
            if self.evict_for_memory_of(index) {
                return None;
            }
            self.connections[index].publish_pending();
        }
        Some(count)
    }

    /// Reads once from a socket for whose client nothing is executed now, and keeps the input.
    fn keep_unexecuted(&mut self, index: usize) {
        if self.keep(index, READ_BYTES).is_none() {
            return;
        }
        let EventLoop { spec, connections, scheduler, .. } = self;
        let connection = &mut connections[index];
        if connection.state.is_output_blocked() {
            // Its backlog costs its neighbours as little as possible without refusing it without
            // end: a client that sends all of a long pipeline before it reads gets through.
            let now_us = spec.shared.clock.monotonic_us();
            scheduler.throttle_until(connection, now_us + BLOCKED_READ_US);
            self.update_interest(index);
        }
        self.check_input(index);
    }

    /// Number of bytes that a read brought; none when there is nothing to be executed, or the
    /// connection has ended.
    pub(super) fn received(&mut self, index: usize, result: Result<usize, Errno>) -> Option<usize> {
        match result {
            Ok(0) => {
                let client = self.connections[index].describe(self.execution.worker().now_ms());
                log::debug!("Client closed connection {client}");
                self.end_input(index);
                None
            }
            Ok(count) => {
                let EventLoop { spec, execution, connections, .. } = self;
                count_read(execution.stats(&spec.shared), &connections[index], count);
                Some(count)
            }
            Err(Errno::AGAIN | Errno::INTR) => None,
            Err(_) => {
                self.end_input(index);
                if self.connections.contains(index) {
                    self.end_output(index);
                }
                None
            }
        }
    }

    /// Ends a client whose unexecuted requests exceed the limit.
    pub(super) fn check_input(&mut self, index: usize) {
        let Some(connection) = self.connections.get(index) else { return };
        let bytes = connection.input.len() + connection.session.queued_bytes();
        // Others are not read beyond their limit.
        if bytes > self.config.query_buffer_bytes_max {
            let client = connection.describe(self.execution.worker().now_ms());
            let bytes = connection.input.pending();
            let initial = bytes[..bytes.len().min(LOGGED_INPUT_BYTES_MAX)].escape_ascii();
            log::warn!(
                "Closing client that reached max query buffer length: {client} (qbuf initial \
                 bytes: \"{initial}\")"
            );
            self.execution.stats(&self.spec.shared).query_limit_disconnections.add(1);
            self.close(index);
        }
    }

    /// Makes room for the known missing bytes of a half-read request.
    #[cold]
    pub(super) fn expect_input(&mut self, index: usize, wanted: usize) {
        let Connection { input, parser, .. } = &mut self.connections[index];
        if input.is_large()
            && wanted >= READ_BYTES
            && let Some(place) = parser.last_argument(input.pending())
        {
            input.begin_large(place);
        }
        if input.is_large() && input.is_full(wanted) {
            // A larger one is given more by doubling.
            let is_small = input.len() < wanted.min(RESERVED_INPUT_BYTES_MAX);
            let granted = if is_small { self.connections.grant_room(index) } else { 0 };
            self.connections[index].input.reserve(wanted, granted);
        }
        self.connections[index].publish_memory();
    }
}

/// Counts a read of `bytes` from a connection.
#[inline]
pub(super) fn count_read(stats: &WorkerStats, connection: &Connection, bytes: usize) {
    stats.reads.add(1);
    stats.input_bytes.add(bytes as u64);
    connection.session.client.input_bytes.add(bytes as u64);
}
