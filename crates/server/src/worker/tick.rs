//! Periodic work of an event loop, ten times a second: limits that only time or all clients
//! together can exceed.
//!
//! Coordinates the owners; has no state of its own.

use std::sync::atomic::Ordering;

use tidemill_rcu::Flavour;

use super::EventLoop;
use crate::connection::Connection;

impl<F: Flavour> EventLoop<F> {
    /// Does what is done once per tick.
    pub(super) fn tick(&mut self) {
        // Not part of what `DEBUG PAUSE-CRON` stops: clients would wait for a stuck worker, or at a
        // listener, without end, and Valkey evicts clients in each iteration.
        self.take_overdue();
        self.look_at_listeners();
        if self.config.client_memory_bytes_max > 0 {
            self.evict_clients();
        }
        if self.spec.shared.is_cron_paused() {
            return;
        }
        self.execution.shrink_buffers();
        self.holding.spare_mut().shrink();
        if self.spec.index == 0 {
            self.spec.shared.sample();
            self.spec.shared.free_unreachable_in_background();
        }
        if self.spec.shared.should_hurry() {
            self.resume_long_replies();
        }
        self.log_lines.warn_closed_unauthenticated(self.spec.shared.clock.monotonic_us());
        self.connections.give_back_rooms();
        self.execution.limit_tracked(&self.spec.shared);
        if self.config.has_soft_limit() {
            for index in self.connections.indices_of(|connection| connection.unsent_bytes() > 0) {
                self.check_output(index);
            }
        }
        self.count_client_memory();
        if self.config.timeout_seconds > 0 {
            self.close_idle(u64::from(self.config.timeout_seconds) * 1000);
        }
    }

    /// Lets limits hold that were lowered, before anything is executed that was sent since.
    pub(super) fn enforce_limits(&mut self) {
        if self.config.client_memory_bytes_max > 0 {
            self.evict_clients();
        }
        self.execution.limit_tracked(&self.spec.shared);
    }

    /// Lets clients go on whose long replies wait until the last pieces are taken: the replies keep
    /// much memory from being freed.
    fn resume_long_replies(&mut self) {
        let is_blocked = |connection: &Connection| {
            connection.state.is_output_blocked() && connection.session.has_pending_reply()
        };
        for index in self.connections.indices_of(is_blocked) {
            self.resume(index);
        }
    }

    /// Closes the clients that have idled for longer than `timeout_ms`.
    fn close_idle(&mut self, timeout_ms: u64) {
        let now_ms = self.spec.shared.clock.monotonic_us() / 1000;
        let connections = self.connections.iter_mut();
        let idle: Vec<usize> = connections
            .filter_map(|(index, connection)| {
                connection.has_idled(timeout_ms, now_ms).then_some(index)
            })
            .collect();
        for index in idle {
            log::debug!("Closing idle client");
            self.close(index);
        }
    }

    /// Counts the buffers of clients for `maxmemory`, while it is set.
    fn count_client_memory(&mut self) {
        let is_limited = self.execution.worker().is_limited();
        let counted = self.connections.iter_mut().map(|(_, client)| {
            client.counted_bytes = if is_limited { client.memory_bytes() } else { 0 };
            client.counted_bytes
        });
        self.execution.worker_mut().set_client_bytes(counted.sum());
    }

    /// Evicts a client at once if by itself it takes more than all may; returns true if it did.
    /// Others are left to the tick: the caller may have them in hand.
    pub(super) fn evict_for_memory_of(&mut self, index: usize) -> bool {
        let limit_bytes = self.config.client_memory_bytes_max;
        if limit_bytes == 0 {
            return false;
        }
        let connection = &self.connections[index];
        let may_be_evicted = !connection.session.client.no_evict.load(Ordering::Relaxed);
        let bytes = connection.memory_bytes();
        let is_evicted = may_be_evicted && bytes > limit_bytes;
        if is_evicted {
            self.evict(index);
        }
        is_evicted
    }

    /// Disconnects the largest clients while all together take too much.
    pub(super) fn evict_clients(&mut self) {
        let (mut own_bytes, mut can_any_go) = (0, false);
        for (_, connection) in self.connections.iter() {
            let client = &connection.session.client;
            if client.is_ending() {
                continue;
            }
            connection.publish_sizes();
            own_bytes += client.memory_bytes();
            // Relaxed: a client that says so at this moment is early or late.
            can_any_go |= !client.no_evict.load(Ordering::Relaxed);
        }
        let shared = &self.spec.shared;
        self.execution.stats(shared).client_bytes.set(own_bytes);
        let total_bytes: u64 = shared.stats.iter().map(|stats| stats.client_bytes.value()).sum();
        let limit_bytes = self.config.client_memory_bytes_max;
        if total_bytes > limit_bytes && can_any_go {
            shared.evict_clients(limit_bytes, None);
        }
    }

    pub(super) fn evict(&mut self, index: usize) {
        let client = self.connections[index].describe(self.execution.worker().now_ms());
        log::info!("Evicting client: {client}");
        self.execution.stats(&self.spec.shared).evicted_clients.add(1);
        self.close(index);
    }
}
