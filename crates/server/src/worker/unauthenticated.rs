//! Clients that have not given the required password: they may cost next to nothing.
//!
//! As in Valkey the protocol allows them small requests only, and unsent replies end them early;
//! their limit of unexecuted requests is smaller here. They are read no further than that, so whole
//! requests wait in the kernel and none is judged by the bytes behind it: an `AUTH` may be followed
//! by any pipeline. Only half a request that fills the limit ends them.
//!
//! Coordinates the owners; has no state of its own.

use tidemill_rcu::Flavour;

use super::EventLoop;
use crate::limits::UNAUTHENTICATED_INPUT_BYTES_MAX;

impl<F: Flavour> EventLoop<F> {
    /// As [`read`](Self::read), for a client without authentication.
    pub(super) fn read_unauthenticated(&mut self, index: usize) {
        let connection = &mut self.connections[index];
        let room = UNAUTHENTICATED_INPUT_BYTES_MAX.saturating_sub(connection.input.len());
        if room == 0 && connection.state.is_open() {
            self.execution.stats(&self.spec.shared).query_limit_disconnections.add(1);
            return self.close_unauthenticated(index);
        }
        if room == 0 {
            // Its first request waits, in CLIENT PAUSE: reading resumes once that is executed.
            connection.state.throttle();
            return self.update_interest(index);
        }
        if self.keep(index, room).is_none() {
            return;
        }
        if self.connections[index].state.is_open() {
            self.execute_kept(index);
        }
    }

    /// Closes a client that exceeds a limit of clients without authentication.
    pub(super) fn close_unauthenticated(&mut self, index: usize) {
        let now_ms = self.execution.worker().now_ms();
        let description = self.connections[index].describe(now_ms);
        self.log_lines.count_closed_unauthenticated(description);
        self.close(index);
        self.log_lines.warn_closed_unauthenticated(self.spec.shared.clock.monotonic_us());
    }
}
