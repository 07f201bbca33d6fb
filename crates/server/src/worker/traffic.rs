//! What goes in and out of a worker's connections: reading, executing, sending, and the limits of both.

use std::sync::Arc;

use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::io::Errno;
use tidemill_engine::execute::{self, Batch, Next, Turn};
use tidemill_engine::shared::Shared;
use tidemill_engine::stats::WorkerStats;
use tidemill_engine::worker::Worker;
use tidemill_rcu::Flavour;
use tidemill_resp::encode::ReplyBuffer;
use tidemill_store::Member;

use super::EventLoop;
use crate::backlog;
use crate::connection::{Connection, Mode};
use crate::fairness::Rest;
use crate::input::Input;
use crate::limits::{
    HELD_READ_US, HELD_REST_BYTES, HTTP_LINE_US, LOGGED_INPUT_BYTES_MAX, READ_BYTES,
    RESERVED_INPUT_BYTES_MAX, RESERVED_TOGETHER_BYTES_MAX, UNAUTHENTICATED_OUTPUT_BYTES_MAX,
};
use crate::output::{Sent, send};

impl<F: Flavour> EventLoop<F> {
    /// Reads once from a socket on which a request is expected, and executes what came together with what others sent.
    pub(super) fn gather(&mut self, index: usize) {
        let start = self.gathering.end();
        let socket = &self.connections[index].socket;
        let result = rustix::io::read(socket, &mut self.input[start..start + READ_BYTES]);
        let Some(count) = self.received(index, result) else { return };
        if self.gathering.add(index, start + count) {
            self.execute_gathered();
        }
    }

    /// Executes what was gathered: looks ahead at all of it, then gives each connection its turn.
    pub(super) fn execute_gathered(&mut self) {
        let EventLoop { spec, worker, reader, connections, input, gathering, .. } = self;
        let shared = &spec.shared;
        if let [first, _, ..] = gathering.all() {
            let database = connections[first.index].session.database();
            for gathered in gathering.all_mut() {
                let Connection { parser, session, .. } = &connections[gathered.index];
                if session.database() == database {
                    let input = &input[gathered.input.clone()];
                    execute::look_ahead(shared, worker, parser, &mut gathered.batch, input);
                }
            }
            let parsed = gathering.all_mut().iter_mut().map(|gathered| &mut gathered.batch);
            let parsed = parsed.filter(|batch| batch.is_parsed());
            execute::prefetch(shared, reader, database, parsed);
        }
        for position in 0..self.gathering.all().len() {
            let index = self.gathering.all()[position].index;
            self.measured(index, |worker| worker.execute_fresh(position));
            self.check_input(index);
        }
        self.gathering.clear();
    }

    /// Reads once from a socket behind what is kept of its input, and executes it if that is allowed.
    pub(super) fn read(&mut self, index: usize) {
        let connection = &mut self.connections[index];
        if connection.is_input_over {
            // An error is told that only sending could have found.
            return self.end_output(index);
        }
        if connection.is_queued {
            // It has whole requests left, which come first: what it can pile up is what it sends in one turn.
            return;
        }
        if !connection.session.is_authenticated {
            return self.read_unauthenticated(index);
        }
        if connection.mode != Mode::Open || connection.is_resting {
            return self.put_by(index);
        }
        // Where little has arrived, a buffer of its own for a read would be most of what the client takes.
        let read = if connection.input.is_large() {
            let result = rustix::io::read(&connection.socket, connection.input.spare());
            self.received(index, result)
        } else {
            self.keep(index, READ_BYTES)
        };
        if read.is_some() {
            self.execute_kept(index);
            self.check_input(index);
        }
    }

    /// Reads once, and keeps what came: at most `bytes_max`, which [`READ_BYTES`] bounds.
    pub(super) fn keep(&mut self, index: usize, bytes_max: usize) -> Option<usize> {
        let start = self.gathering.end();
        let place = &mut self.input[start..start + bytes_max];
        let result = rustix::io::read(&self.connections[index].socket, place);
        let count = self.received(index, result)?;
        let connection = &mut self.connections[index];
        if connection.mode != Mode::Closing {
            connection.input.extend(&self.input[start..start + count]);
            connection.publish_pending();
        }
        Some(count)
    }

    /// Reads once from a socket for whose client nothing is executed now, and keeps just what came.
    fn put_by(&mut self, index: usize) {
        if self.keep(index, READ_BYTES).is_none() {
            return;
        }
        let connection = &mut self.connections[index];
        if connection.mode == Mode::Held {
            // What it piles up costs its neighbours as little as can be without refusing it for ever: a client that sends
            // all of a long pipeline before it reads gets through.
            let now_us = self.spec.shared.clock.monotonic_us();
            connection.is_resting = true;
            self.fairness.add(connection.session.id(), Rest::until_time(now_us + HELD_READ_US));
            self.update_interest(index);
        }
        self.check_input(index);
    }

    /// How many bytes a read brought; none when there is nothing to be executed, or the connection has ended.
    pub(super) fn received(&mut self, index: usize, result: Result<usize, Errno>) -> Option<usize> {
        match result {
            Ok(0) => {
                let client = self.connections[index].describe(self.worker.now_ms());
                log::debug!("Client closed connection {client}");
                self.end_input(index);
                None
            }
            Ok(count) => {
                let stats = self.worker.stats(&self.spec.shared);
                stats.reads.add(1);
                stats.input_bytes.add(count as u64);
                self.connections[index].session.client.input_bytes.add(count as u64);
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

    /// Ends a client that has piled up more requests than it may.
    fn check_input(&mut self, index: usize) {
        let Some(connection) = self.connections.get(index) else { return };
        let bytes = connection.input.len() + connection.session.queued_bytes();
        // Others are not read beyond their limit.
        if bytes > self.config.query_buffer_bytes_max {
            let client = connection.describe(self.worker.now_ms());
            let bytes = connection.input.pending();
            let initial = bytes[..bytes.len().min(LOGGED_INPUT_BYTES_MAX)].escape_ascii();
            log::warn!(
                "Closing client that reached max query buffer length: {client} (qbuf initial bytes: \"{initial}\")"
            );
            self.worker.stats(&self.spec.shared).query_limit_disconnections.add(1);
            self.close(index);
        }
    }

    /// Executes what was just read into the worker's buffer from a connection that was gathered; what is left of it is
    /// kept.
    fn execute_fresh(&mut self, position: usize) {
        let EventLoop { spec, worker, reader, batch, connections, input, gathering, reply, .. } =
            self;
        let gathered = &mut gathering.all_mut()[position];
        let index = gathered.index;
        let connection = &mut connections[index];
        let input = &input[gathered.input.clone()];
        let batch = if gathered.batch.is_parsed() { &mut gathered.batch } else { batch };
        let turn = run_turn(&spec.shared, worker, reader, batch, connection, input, reply);
        if turn.consumed < input.len() {
            connection.input.extend(&input[turn.consumed..]);
        }
        self.finish_turn(index, turn.next);
    }

    /// Executes what a connection has kept.
    pub(super) fn execute_kept(&mut self, index: usize) {
        let EventLoop { spec, worker, reader, batch, connections, reply, .. } = self;
        let connection = &mut connections[index];
        if connection.mode == Mode::Open && connection.has_work() {
            let mut input = std::mem::take(&mut connection.input);
            let pending = input.pending();
            let turn = run_turn(&spec.shared, worker, reader, batch, connection, pending, reply);
            input.consume(turn.consumed);
            connection.input = input;
            if connection.is_input_over {
                self.finish_turn_at_end(index, turn.next);
            } else {
                self.finish_turn(index, turn.next);
            }
        } else {
            connection.close_if_run_out();
            self.flush(index);
        }
    }

    /// Makes room for what a half-read request is known to lack.
    #[cold]
    fn expect_input(&mut self, index: usize, wanted: usize) {
        let input = &self.connections[index].input;
        if input.is_large() && input.is_full(wanted) {
            // One that is larger already is given more by doubling.
            let is_small = input.len() < wanted.min(RESERVED_INPUT_BYTES_MAX);
            let granted = if is_small { self.grant_room(index) } else { 0 };
            self.connections[index].input.reserve(wanted, granted);
        }
        self.connections[index].publish_memory();
    }

    /// Bytes that a connection may reserve for what has not arrived, which it is noted for.
    fn grant_room(&mut self, index: usize) -> usize {
        let EventLoop { connections, reserving, .. } = self;
        let room_bytes =
            |index: usize| connections.get(index).map_or(0, |other| other.input.room_bytes());
        // What became full, or was executed, or is another connection by now that has reserved nothing.
        reserving.retain(|&other| other != index && room_bytes(other) > READ_BYTES);
        let taken_bytes: usize = reserving.iter().map(|&other| room_bytes(other)).sum();
        let left_bytes = RESERVED_TOGETHER_BYTES_MAX.saturating_sub(taken_bytes);
        if left_bytes == 0 {
            return 0;
        }
        reserving.push(index);
        left_bytes.min(RESERVED_INPUT_BYTES_MAX)
    }

    /// Gives back what was reserved for what has not arrived. Whoever still sends is given it again, for what a copy costs in
    /// the time of a tick.
    pub(super) fn give_back_rooms(&mut self) {
        for index in std::mem::take(&mut self.reserving) {
            if let Some(connection) = self.connections.get_mut(index)
                && connection.input.is_large()
            {
                connection.input.give_back();
                connection.publish_memory();
            }
        }
    }

    /// Does what a turn came to.
    pub(super) fn finish_turn(&mut self, index: usize, next: Next) {
        self.charge(index);
        let connection = &mut self.connections[index];
        connection.publish_pending();
        match next {
            Next::Input { wanted } => {
                if !connection.input.is_empty() {
                    self.expect_input(index, wanted);
                }
            }
            Next::Turn if connection.is_resting => {}
            Next::Turn => self.enqueue(index),
            Next::WakeUp(wake_up) => {
                connection.mode = Mode::Waiting;
                self.waits.add(connection.session.id(), wake_up);
            }
            Next::Unblock => connection.mode = Mode::Waiting,
            Next::Close => {
                let now_us = self.worker.now_us();
                if connection.session.sent_http && now_us >= self.next_http_line_us {
                    self.next_http_line_us = now_us + HTTP_LINE_US;
                    log::warn!(
                        "Possible SECURITY ATTACK detected. {} sent POST or Host:, as a web page does that makes its \
                         visitors' browsers talk to this server (cross-protocol scripting). It was disconnected.",
                        connection.session.client.address
                    );
                }
                connection.mode = Mode::Closing;
                connection.input = Input::default();
            }
        }
        self.send_replies(index);
    }

    /// Sends fresh replies, behind what was not sent yet. The buffer is empty afterwards, for the next connection.
    fn send_replies(&mut self, index: usize) {
        let EventLoop { spec, worker, connections, reply, .. } = self;
        let connection = &mut connections[index];
        let before = reply.len();
        if connection.output.is_empty() && send(&connection.socket, reply) == Sent::All {
            count_write(worker.stats(&spec.shared), connection, before);
            self.after_send(index, Sent::All);
        } else if connection.is_output_over {
            reply.clear();
            self.after_send(index, Sent::All);
        } else {
            connection.output.append(reply);
            self.flush(index);
        }
    }

    /// Sends what a connection has left.
    pub(super) fn flush(&mut self, index: usize) {
        let connection = &mut self.connections[index];
        let before = connection.output.len();
        let sent = send(&connection.socket, &mut connection.output);
        let count = before - connection.output.len();
        if sent == Sent::All {
            connection.output.shrink(0);
        }
        // Whoever never gets here has nothing unsent.
        connection.publish_unsent();
        count_write(self.worker.stats(&self.spec.shared), connection, count);
        self.after_send(index, sent);
    }

    fn after_send(&mut self, index: usize, sent: Sent) {
        let connection = &self.connections[index];
        if sent == Sent::All && connection.is_at_ease() {
            return;
        }
        if sent == Sent::Broken {
            self.end_output(index);
        } else if connection.mode == Mode::Closing && sent == Sent::All {
            self.close(index);
        } else if !self.check_output(index) {
            self.hold_or_release(index);
            self.update_interest(index);
        }
    }

    /// Ends a client that has piled up more replies than it may; tells whether it did.
    pub(super) fn check_output(&mut self, index: usize) -> bool {
        let connection = &mut self.connections[index];
        let unsent_bytes = connection.output.len() as u64;
        if !connection.session.is_authenticated && unsent_bytes > UNAUTHENTICATED_OUTPUT_BYTES_MAX {
            self.worker.stats(&self.spec.shared).output_limit_disconnections.add(1);
            self.close_unauthenticated(index);
            return true;
        }
        // All clients are normal ones: there are no subscribers and no replicas.
        let limit = self.config.output_buffer_limits.normal;
        let clock = &self.spec.shared.clock;
        let is_exceeded =
            connection.soft_limit.is_exceeded(limit, unsent_bytes, || clock.monotonic_us());
        if is_exceeded {
            let client = connection.describe(self.worker.now_ms());
            log::warn!("Client {client} closed for overcoming of output buffer limits.");
            self.worker.stats(&self.spec.shared).output_limit_disconnections.add(1);
            self.close(index);
        }
        is_exceeded
    }

    /// Stops executing for a client that does not take its replies, and goes on once it has taken half of them.
    fn hold_or_release(&mut self, index: usize) {
        let connection = &mut self.connections[index];
        let unsent_bytes = connection.output.len() as u64;
        let held_from = if !connection.session.has_rest() {
            backlog::held_from_bytes(self.config.output_buffer_limits.normal)
        } else if self.spec.shared.should_hurry() {
            u64::MAX
        } else {
            HELD_REST_BYTES
        };
        if connection.mode == Mode::Open && unsent_bytes > held_from {
            connection.mode = Mode::Held;
        } else if connection.mode == Mode::Held && unsent_bytes <= held_from / 2 {
            self.resume(index);
        }
    }

    /// Asks the kernel for the events that a connection needs now.
    pub(super) fn update_interest(&mut self, index: usize) {
        let Some(connection) = self.connections.get_mut(index) else { return };
        if connection.is_input_over && connection.is_output_over {
            return;
        }
        let mut interest = EventFlags::empty();
        let is_read = connection.mode != Mode::Closing && !connection.is_input_over;
        if is_read && !connection.is_resting {
            interest |= EventFlags::IN;
        }
        if !connection.output.is_empty() {
            interest |= EventFlags::OUT;
        }
        if interest != connection.interest {
            connection.interest = interest;
            let data = EventData::new_u64(index as u64);
            if epoll::modify(&self.epoll, &connection.socket, data, interest).is_err() {
                self.close(index);
            }
        }
    }
}

/// A connection took so many bytes at once.
fn count_write(stats: &WorkerStats, connection: &Connection, bytes: usize) {
    stats.writes.add(u64::from(bytes > 0));
    stats.output_bytes.add(bytes as u64);
    connection.session.client.output_bytes.add(bytes as u64);
}

/// Gives a connection its turn on `input`; replies go to the worker's buffer.
fn run_turn<F: Flavour>(
    shared: &Arc<Shared>,
    worker: &mut Worker,
    reader: &mut Member<F>,
    batch: &mut Batch,
    connection: &mut Connection,
    input: &[u8],
    reply: &mut ReplyBuffer,
) -> Turn {
    reply.set_protocol(connection.protocol());
    let Connection { session, parser, output, .. } = connection;
    let turn = execute::run_turn(shared, worker, session, reader, batch, parser, input, reply);
    output.set_protocol(reply.protocol());
    turn
}
