//! Messages of other workers, and waits that end without one.
//!
//! Coordinates the owners; has no state of its own.

use std::sync::atomic::Ordering;

use tidemill_engine::execute;
use tidemill_engine::slots::mailbox::Message;
use tidemill_engine::slots::waiter::{WaitEnd, Waiter};
use tidemill_rcu::Flavour;
use tidemill_resp::encode::ReplyBuffer;

use super::EventLoop;

impl<F: Flavour> EventLoop<F> {
    /// Takes messages and new connections from other workers.
    pub(super) fn deliver(&mut self, now_us: u64) {
        self.arrivals.set_unseen(false);
        // Messages are taken first and delivered last: one for a connection that was moved here was
        // posted after it came.
        let messages = self.spec.shared.mailboxes.take(self.spec.index);
        for arrival in self.spec.handover.take(self.spec.index) {
            self.accept_arrival(arrival);
        }
        if self.arrivals.is_overdue(now_us) {
            self.take_overdue();
        }
        for message in messages {
            self.receive(message);
        }
        let EventLoop { spec, execution, scheduler, .. } = self;
        for session in scheduler.take_due(&spec.shared, execution.worker(), now_us) {
            self.receive(Message::Wake { session });
        }
    }

    pub(super) fn receive(&mut self, message: Message) {
        let Some(index) = self.connections.of_session(message.session()) else {
            return self.forward(message);
        };
        match message {
            Message::Wake { .. } => {
                if !self.connections[index].session.is_blocked() {
                    self.resume(index);
                }
            }
            Message::Unblocked { session, waiter, end, reply, changed } => {
                self.unblock(index, waiter, end, reply);
                let worker = self.execution.worker_mut();
                worker.invalidate_own(&self.spec.shared, session, &changed);
            }
            Message::Kill { .. } => {
                // Relaxed: set before the message was posted, if at all.
                if !self.connections[index].session.client.is_protected.load(Ordering::Relaxed) {
                    self.close(index);
                }
            }
            Message::Evict { .. } => self.evict(index),
        }
    }

    /// Ends the wait `waiter` of a blocked client with its reply, unless it has ended before.
    fn unblock(&mut self, index: usize, waiter: u64, end: Option<WaitEnd>, mut reply: ReplyBuffer) {
        let EventLoop { spec, execution, connections, .. } = self;
        let (shared, worker) = (&spec.shared, execution.worker_mut());
        let connection = &mut connections[index];
        let ended = execute::end_wait(shared, worker, &mut connection.session, waiter);
        let Some(waiter) = ended else { return };
        let client = &connection.session.client;
        execute::note_unblocked(shared, worker, client, &waiter, end, reply.len());
        // Relaxed: for others' information only. Having waited is not having idled.
        client.last_command_ms.store(worker.now_ms(), Ordering::Relaxed);
        if connection.session.wants_late_reply() {
            let bytes = reply.len();
            if bytes >= self.config.fresh_bytes_min && self.exceeds_at_once(index, bytes) {
                return self.close_for_output(index);
            }
            self.append_reply(index, &mut reply);
        }
        self.resume(index);
    }

    /// Forwards a message for a connection that has moved; drops it if the connection has ended.
    fn forward(&self, message: Message) {
        if let Some(owner) = self.owner_of_absent(message.session()) {
            self.spec.shared.mailboxes.post(owner, message);
        }
    }

    /// Ends the waits of clients whose time is over.
    pub(super) fn end_waits(&mut self, now_us: u64) {
        while let Some(waiter) = self.execution.worker_mut().deadlines.end_next(now_us) {
            self.end_wait(&waiter);
        }
    }

    /// Ends the waits of clients for a record that is durable by now.
    pub(super) fn end_durable_waits(&mut self) {
        let durable = self.spec.shared.durable_record();
        let worker = |event_loop: &mut Self| {
            event_loop.execution.worker_mut().deadlines.end_next_durable(durable)
        };
        while let Some(waiter) = worker(self) {
            self.end_wait(&waiter);
        }
    }

    /// Answers a client whose wait has ended without a key.
    fn end_wait(&mut self, waiter: &Waiter) {
        let mut reply = ReplyBuffer::new(waiter.protocol);
        waiter.block.on_timeout.write(&mut reply, self.spec.shared.durable_record());
        let (session, waiter) = (waiter.session, waiter.id);
        let end = Some(WaitEnd::TimedOut);
        let changed = Vec::new();
        self.receive(Message::Unblocked { session, waiter, end, reply, changed });
    }
}
