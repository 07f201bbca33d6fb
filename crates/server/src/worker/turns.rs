//! Turns of connections: which one executes when, and what follows a turn.
//!
//! Coordinates the owners; has no state of its own.

use tidemill_engine::execute::{Next, Turn};
use tidemill_rcu::Flavour;

use super::{EventLoop, WorkerSpec};
use crate::gather::Gathered;

impl<F: Flavour> EventLoop<F> {
    /// Executes the gathered input: looks ahead at all of it, then gives each connection its turn.
    pub(super) fn execute_gathered(&mut self) {
        let EventLoop {
            spec: WorkerSpec { shared, .. }, execution, connections, gathering, ..
        } = self;
        if gathering.len() > 1 {
            let database = connections[gathering.index(0)].session.database();
            for Gathered { index, input, ahead } in gathering.all() {
                let connection = &connections[index];
                if connection.session.database() == database {
                    execution.look_ahead(&connection.parser, ahead, input);
                }
            }
            execution.prefetch(shared, database, gathering.ahead());
        }
        for position in 0..self.gathering.len() {
            let index = self.gathering.index(position);
            self.measured(index, |event_loop| event_loop.execute_fresh(position));
        }
        self.gathering.clear();
    }

    /// Executes the input of a gathered connection; keeps the bytes that are left of it.
    fn execute_fresh(&mut self, position: usize) {
        let EventLoop { spec, execution, connections, gathering, scheduler, .. } = self;
        let Gathered { index, input, ahead } = gathering.at(position);
        let connection = &mut connections[index];
        scheduler.begin_turn(execution.worker().now_us(), &*spec.shared.clock);
        let turn = execution.run_turn(&spec.shared, connection, (input, None), ahead.take());
        if turn.consumed < input.len() && !connection.input.extend(&input[turn.consumed..]) {
            execution.reply_mut().clear();
            return self.close_for_memory(index);
        }
        // Mostly nothing is left of the input, and it is in no transaction.
        let may_exceed = !connection.input.is_empty() || connection.session.queued_bytes() > 0;
        self.finish_turn(index, turn.next);
        if may_exceed {
            self.check_input(index);
        }
    }

    /// Executes the input that a connection has kept.
    pub(super) fn execute_kept(&mut self, index: usize) {
        let EventLoop { spec, execution, connections, scheduler, .. } = self;
        let connection = &mut connections[index];
        if connection.state.is_open() && connection.has_work() {
            scheduler.begin_turn(execution.worker().now_us(), &*spec.shared.clock);
            let mut input = std::mem::take(&mut connection.input);
            let pending = (input.pending(), input.large());
            let Turn { consumed, next } =
                execution.run_turn(&spec.shared, connection, pending, None);
            input.consume(consumed);
            connection.input = input;
            if connection.state.is_input_over() {
                self.finish_turn_at_end(index, next);
            } else {
                self.finish_turn(index, next);
            }
        } else {
            connection.begin_closing_if_done(self.scheduler.is_queued(index));
            self.flush(index);
        }
    }

    /// Finishes a turn by its result: waits for input, takes another turn, waits for an event, or
    /// closes.
    pub(super) fn finish_turn(&mut self, index: usize, next: Next) {
        let EventLoop { spec, execution, connections, scheduler, .. } = self;
        let mut need = execution.worker_mut().take_reply_need();
        let connection = &mut connections[index];
        // Sending the replies updates the kernel's interest in a connection that is throttled.
        scheduler.charge(connection, execution.worker().turn_ns(), &*spec.shared.clock);
        connection.publish_pending();
        if connection.postponed_pushes.is_some() && !connection.session.has_pending_reply() {
            let pushes = connection.postponed_pushes.take();
            connection.publish_unsent();
            need = None;
            pushes.into_iter().for_each(|mut pushes| execution.reply_mut().append(&mut pushes));
        }
        match next {
            Next::Input { wanted } => {
                if !connection.input.is_empty() {
                    self.expect_input(index, wanted);
                }
            }
            Next::Turn if connection.state.is_throttled() => {}
            Next::Turn => scheduler.enqueue(index),
            Next::WakeUp(wake_up) => {
                connection.state.begin_waiting();
                scheduler.wait(connection.session.id(), wake_up);
            }
            Next::Unblock => connection.state.begin_waiting(),
            Next::Close if connection.session.exceeds_output_limit => {
                execution.reply_mut().clear();
                return self.close_for_output(index);
            }
            Next::Close => self.begin_closing(index),
        }
        self.send_replies_that_need(index, need);
    }

    /// Begins to close a connection after its last turn.
    fn begin_closing(&mut self, index: usize) {
        let EventLoop { execution, connections, log_lines, .. } = self;
        let (worker, connection) = (execution.worker(), &mut connections[index]);
        if connection.session.lacked_memory {
            let client = connection.describe(worker.now_ms());
            log::warn!("No memory for the rest of a reply: client {client} is closed");
        }
        if connection.session.sent_http {
            log_lines.warn_http(worker.now_us(), &connection.session.client.address);
        }
        connection.begin_closing();
    }

    /// Lets a connection execute its kept input again.
    pub(super) fn resume(&mut self, index: usize) {
        if self.connections[index].state.resume() {
            self.update_interest(index);
        }
        if self.connections.contains(index) {
            self.scheduler.enqueue(index);
        }
    }

    /// Ends the throttles that are over; `has_events` says that the worker has something else to
    /// do.
    pub(super) fn end_throttles(&mut self, now_us: u64, has_events: bool) {
        for session in self.scheduler.take_released(now_us, has_events) {
            let Some(index) = self.connections.of_session(session) else { continue };
            if self.connections[index].state.end_throttle() {
                self.update_interest(index);
            }
            let Some(connection) = self.connections.get(index) else { continue };
            if connection.state.is_open() && connection.has_work() {
                self.scheduler.enqueue(index);
            }
        }
    }

    /// Gives each connection in the run queue a turn.
    pub(super) fn run_queue(&mut self) {
        for _ in 0..self.scheduler.queued_count() {
            if let Some(index) = self.scheduler.next_queued() {
                self.measured(index, |event_loop| event_loop.execute_kept(index));
                self.execution.reclaim_early();
            }
        }
    }

    /// Runs `work` for a connection, and adds the time it took to the connection's work while that
    /// is measured.
    pub(super) fn measured(&mut self, index: usize, work: impl FnOnce(&mut Self)) {
        if !self.load.is_measuring() {
            return work(self);
        }
        let from_us = self.spec.shared.clock.monotonic_us();
        work(self);
        if let Some(connection) = self.connections.get_mut(index) {
            connection.work += self.spec.shared.clock.monotonic_us() - from_us;
        }
    }
}
