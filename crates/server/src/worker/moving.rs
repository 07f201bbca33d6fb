//! Connections that leave a worker: handed on to another one, taken over by it, closed.
//!
//! Coordinates the owners; has no state of its own. The choice of those that are handed on is in
//! [`crate::balance`], their way in [`crate::handover`].

use std::sync::Arc;

use tidemill_engine::execute;
use tidemill_rcu::Flavour;

use super::{EventLoop, WorkerSpec};
use crate::balance::{self, Demand};
use crate::connection::Connection;

impl<F: Flavour> EventLoop<F> {
    /// Measures how busy the worker is, and hands connections on when it is too busy.
    pub(super) fn balance(&mut self, now_us: u64) {
        let handover = Arc::clone(&self.spec.handover);
        let busy_permille = self.load.tick(now_us);
        handover.publish_load(self.spec.index, busy_permille);
        if self.load.is_measuring() {
            self.connections.iter_mut().for_each(|(_, connection)| connection.work = 0);
        }
        if !self.load.is_overloaded() {
            return;
        }
        let (other, other_permille) = handover.least_busy(self.spec.index, now_us);
        let demand = |(index, connection): (usize, &Connection)| Demand {
            index,
            work: connection.work,
            is_movable: connection.is_movable(),
        };
        let demands = self.connections.iter().map(demand).collect();
        let leaving = balance::leaving(busy_permille, other_permille, demands);
        if !leaving.is_empty() {
            // Until the other worker's next tick, so that not all of the busy ones choose it.
            handover.publish_load(other, u32::midpoint(busy_permille, other_permille));
        }
        leaving.into_iter().for_each(|index| self.hand_on(index, other, now_us));
    }

    /// Gives a connection to another worker.
    pub(super) fn hand_on(&mut self, index: usize, other: usize, now_us: u64) {
        let EventLoop { spec, poll, execution, connections, scheduler, arrivals, .. } = self;
        let mut connection = connections.remove(index);
        scheduler.dequeue(index);
        connection.state.end_throttle();
        connection.input.give_back();
        execution.worker_mut().forget_client_bytes(std::mem::take(&mut connection.counted_bytes));
        // It is registered, so this cannot fail; and the next owner would notice.
        let _ = poll.remove(&connection.transport);
        spec.handover.transfer(spec.index, other, connection, now_us);
        arrivals.hand_over(now_us);
        let stats = execution.stats(&spec.shared);
        stats.moved_connections.add(1);
        stats.connections.set(connections.len() as u64);
    }

    /// Takes a connection over from another worker, or out of the queue of a third one.
    pub(super) fn take_over(&mut self, mut connection: Connection) {
        let EventLoop { spec, poll, execution, connections, .. } = self;
        connection.work = 0;
        connection.round = 0;
        let index = connections.next_index();
        let is_added = poll.add_connection(&connection.transport, index, connection.interest);
        let has_work = connection.has_work();
        connections.insert(connection);
        execution.stats(&spec.shared).connections.set(connections.len() as u64);
        if is_added.is_err() {
            self.close(index);
            return;
        }
        // It may have been throttled at its last worker.
        self.update_interest(index);
        if has_work && self.connections.contains(index) {
            self.scheduler.enqueue(index);
        }
    }

    /// Worker to which something goes for a session that is not here: none if it has ended. It may
    /// be this one, which finds the connection among its arrivals in the next iteration.
    pub(super) fn owner_of_absent(&self, session: u64) -> Option<usize> {
        let WorkerSpec { shared, handover, index, .. } = &self.spec;
        let owner = shared.clients.find(session)?.owner();
        // Looked at behind the owner: an arrival is announced before it becomes this worker's.
        (owner != *index || handover.has_arrivals(*index)).then_some(owner)
    }

    /// Closes a connection at once.
    pub(super) fn close(&mut self, index: usize) {
        let EventLoop { spec, execution, connections, scheduler, .. } = self;
        let mut connection = connections.remove(index);
        // First: a client that sees that this one is gone, by CLIENT LIST or by the end of its own
        // connection, finds its place free.
        spec.handover.ended(spec.index);
        connection.transport.send_last();
        // Its buffers may be empty by now.
        execution.worker_mut().forget_client_bytes(connection.counted_bytes);
        let shared = &spec.shared;
        let id = connection.session.id();
        scheduler.forget(index, id);
        shared.clients.unregister(id);
        execute::end_session(shared, execution.worker_mut(), connection.session);
        execution.stats(shared).connections.set(connections.len() as u64);
    }
}
