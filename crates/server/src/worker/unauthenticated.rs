//! Clients that a password is asked of and that have not given it: they may cost next to nothing.
//!
//! As in Valkey the protocol allows them small requests only, and unsent replies end them early; what they may pile up of
//! requests is smaller here. They are read no further than that, so whole requests wait in the kernel and none is judged by
//! how much comes behind it: an `AUTH` may have any pipeline behind it. Only half a request that fills its place ends them.

use tidemill_rcu::Flavour;

use super::EventLoop;
use crate::connection::Mode;
use crate::limits::{
    UNAUTHENTICATED_INPUT_BYTES_MAX, UNAUTHENTICATED_LINE_US, UNAUTHENTICATED_OUTPUT_BYTES_MAX,
};

/// Clients that were closed at their limits and are not logged yet.
#[derive(Debug, Default)]
pub(super) struct Closed {
    count: u64,
    /// The last of them, as the log names it.
    last: String,
    /// Monotonic.
    next_line_us: u64,
}

impl<F: Flavour> EventLoop<F> {
    /// As [`read`](Self::read), for a client without authentication.
    pub(super) fn read_unauthenticated(&mut self, index: usize) {
        let connection = &mut self.connections[index];
        let room = UNAUTHENTICATED_INPUT_BYTES_MAX.saturating_sub(connection.input.len());
        if room == 0 && connection.mode == Mode::Open && !connection.is_resting {
            self.worker.stats(&self.spec.shared).query_limit_disconnections.add(1);
            return self.close_unauthenticated(index);
        }
        if room == 0 {
            // Its first request waits, in CLIENT PAUSE: it is read on once that is executed.
            connection.is_resting = true;
            return self.update_interest(index);
        }
        if self.keep(index, room).is_none() {
            return;
        }
        let connection = &self.connections[index];
        if connection.mode == Mode::Open && !connection.is_resting {
            self.execute_kept(index);
        }
    }

    /// Closes a client that has piled up more than it may without authentication.
    pub(super) fn close_unauthenticated(&mut self, index: usize) {
        self.closed_unauthenticated.count += 1;
        self.closed_unauthenticated.last = self.connections[index].describe(self.worker.now_ms());
        self.close(index);
        self.log_closed_unauthenticated();
    }

    /// Tells of closed clients, at once and then rarely: who may not log in must not fill the log either.
    pub(super) fn log_closed_unauthenticated(&mut self) {
        let Closed { count, last, next_line_us } = &mut self.closed_unauthenticated;
        let now_us = self.spec.shared.clock.monotonic_us();
        if *count == 0 || now_us < *next_line_us {
            return;
        }
        *next_line_us = now_us + UNAUTHENTICATED_LINE_US;
        log::warn!(
            "Closed {} that had not authenticated and had more than {UNAUTHENTICATED_INPUT_BYTES_MAX} bytes of a \
             request, or {UNAUTHENTICATED_OUTPUT_BYTES_MAX} bytes of replies that it did not take; the last: {last}",
            if *count == 1 { "a client".into() } else { format!("{count} clients") },
        );
        *count = 0;
    }
}
