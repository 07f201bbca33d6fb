//! Connections come to a worker and leave it: accepted, refused, handed on, taken over, closed.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::io::Errno;
use tidemill_engine::clients::ClientOrigin;
use tidemill_engine::execute;
use tidemill_engine::session::Session;
use tidemill_engine::system_error::reason;
use tidemill_rcu::Flavour;
use tidemill_resp::encode::{Protocol, ReplyBuffer};
use tidemill_resp::request::RequestParser;

use super::{EventLoop, LISTENING, listener_token};
use crate::backlog::SoftLimit;
use crate::balance::{self, Demand};
use crate::connection::{Connection, Idleness, Mode};
use crate::handover::{Accepted, Arrival, Placed};
use crate::input::Input;
use crate::limits::{ACCEPTED_MAX, EXHAUSTED_LINE_US, OVERDUE_US};
use crate::listen::{Listener, Origin};
use crate::protected_mode;

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
    fn hand_on(&mut self, index: usize, other: usize, now_us: u64) {
        let mut connection = self.connections.remove(index);
        self.by_session.remove(&connection.session.id());
        connection.is_queued = false;
        connection.is_resting = false;
        connection.input.give_back();
        // It is registered, so this cannot fail; and the next owner would notice.
        let _ = epoll::delete(&self.epoll, &connection.socket);
        let client = Arc::clone(&connection.session.client);
        self.spec.handover.transfer(self.spec.index, other, connection, now_us);
        self.overdue_from_us.get_or_insert(now_us + OVERDUE_US);
        // Behind the transfer, so that a message which reaches the new owner finds the connection there.
        client.handed_on(self.spec.index, other);
        let stats = self.worker.stats(&self.spec.shared);
        stats.moved_connections.add(1);
        stats.connections.set(self.connections.len() as u64);
    }

    /// Makes a connection that this worker is given its own.
    pub(super) fn welcome(&mut self, arrival: Arrival) {
        match arrival {
            Arrival::New(accepted) => {
                self.catch_up();
                self.adopt(accepted);
            }
            Arrival::Moved(connection) => self.take_over(*connection),
        }
    }

    /// Takes what others were given and did not take, because a long command keeps them.
    pub(super) fn take_overdue(&mut self) {
        let handover = Arc::clone(&self.spec.handover);
        let now_us = self.spec.shared.clock.monotonic_us();
        for arrival in handover.take_overdue(self.spec.index, now_us) {
            self.welcome(arrival);
        }
        self.overdue_from_us = handover.has_waiting().then_some(now_us + OVERDUE_US);
    }

    /// Takes a connection over from another worker.
    pub(super) fn take_over(&mut self, mut connection: Connection) {
        let shared = &self.spec.shared;
        connection.session.client.worker.store(self.spec.index, Ordering::Release);
        connection.work = 0;
        connection.round = 0;
        let id = connection.session.id();
        let entry = self.connections.vacant_entry();
        let index = entry.key();
        let data = EventData::new_u64(index as u64);
        let is_added = epoll::add(&self.epoll, &connection.socket, data, connection.interest);
        let has_work = connection.has_work();
        entry.insert(connection);
        self.by_session.insert(id, index);
        self.worker.stats(shared).connections.set(self.connections.len() as u64);
        if is_added.is_err() {
            self.close(index);
            return;
        }
        // It may have rested where it was.
        self.update_interest(index);
        if has_work && self.connections.contains(index) {
            self.enqueue(index);
        }
    }

    /// Goes over to the listeners that it has now. Sockets of connections are not concerned.
    pub(super) fn take_listeners(&mut self) {
        let next = self.spec.listeners.all();
        let is_same = |(old, new): (&Arc<Listener>, &Arc<Listener>)| Arc::ptr_eq(old, new);
        if next.len() == self.listeners.len() && self.listeners.iter().zip(&next).all(is_same) {
            return;
        }
        for listener in &self.listeners {
            // Fails for one that pauses; and a socket that was stopped accepts nothing.
            let _ = epoll::delete(&self.epoll, &listener.socket);
        }
        // Tokens are positions, which have changed; those that pause begin again, and pause again if they have to.
        self.paused_listeners.clear();
        self.listeners = next;
        for index in 0..self.listeners.len() {
            if let Err(error) = self.listen(index) {
                log::error!("A worker cannot accept connections: epoll: {}", reason(&error.into()));
            }
        }
    }

    /// Waits for connections at a listener from now on.
    fn listen(&self, listener: usize) -> Result<(), Errno> {
        let socket = &self.listeners[listener].socket;
        epoll::add(&self.epoll, socket, listener_token(listener), LISTENING)
    }

    /// Waits again at listeners that pause. Accepts at the others without having been told to: the kernel tells one worker
    /// of a connection, and a long command may have kept that one from accepting it.
    pub(super) fn look_at_listeners(&mut self) {
        let paused = std::mem::take(&mut self.paused_listeners);
        (0..self.listeners.len())
            .filter(|listener| !paused.contains(listener))
            .for_each(|listener| self.accept(listener));
        let still = paused.into_iter().filter(|&listener| self.listen(listener).is_err());
        let still: Vec<usize> = still.collect();
        self.paused_listeners.extend(still);
    }

    /// Accepts connections; those beyond [`ACCEPTED_MAX`] are announced again.
    pub(super) fn accept(&mut self, listener: usize) {
        for _ in 0..ACCEPTED_MAX {
            self.catch_up();
            // An event from before the listeners changed may mean one that is gone.
            let Some(listening) = self.listeners.get(listener) else { return };
            let result = listening.accept(self.config.tcp_keepalive_seconds);
            let (socket, origin) = match result {
                Ok(accepted) => accepted,
                Err(error) => return self.pause_if_exhausted(listener, &error),
            };
            let now_us = self.spec.shared.clock.monotonic_us();
            match self.spec.handover.place(self.spec.index, Accepted { socket, origin }, now_us) {
                Placed::Here(accepted) => self.adopt(accepted),
                Placed::Elsewhere => {
                    self.overdue_from_us.get_or_insert(now_us + OVERDUE_US);
                }
                Placed::TooMany(accepted) => {
                    self.worker.stats(&self.spec.shared).rejected_connections.add(1);
                    let text = b"-ERR max number of clients reached\r\n";
                    // A client that cannot even take this is closed all the same.
                    let _ = rustix::io::write(&accepted.socket, text);
                }
            }
        }
    }

    /// Stops accepting until the next tick when the system has no means for another connection: the one that waits would
    /// be announced again at once and without end. After other errors, and when nobody waits, the next event tries again.
    fn pause_if_exhausted(&mut self, listener: usize, error: &std::io::Error) {
        let exhausted = [Errno::MFILE, Errno::NFILE, Errno::NOBUFS, Errno::NOMEM];
        if !Errno::from_io_error(error).is_some_and(|errno| exhausted.contains(&errno)) {
            return;
        }
        let now_us = self.spec.shared.clock.monotonic_us();
        if now_us >= self.next_exhausted_line_us {
            self.next_exhausted_line_us = now_us + EXHAUSTED_LINE_US;
            log::warn!("Accepting client connection: accept: {}", reason(error));
        }
        // What is awaited of a listener that workers share cannot be changed, only ended.
        if epoll::delete(&self.epoll, &self.listeners[listener].socket).is_ok() {
            self.paused_listeners.push(listener);
        }
    }

    /// Makes a new connection this worker's own.
    pub(super) fn adopt(&mut self, accepted: Accepted) {
        use std::os::fd::AsRawFd;
        let Accepted { socket, origin } = accepted;
        let descriptor = socket.as_raw_fd();
        match &origin {
            Origin::Tcp { peer, .. } => log::debug!("Accepted {peer}"),
            Origin::Unix { path } => log::debug!("Accepted connection to {path}"),
        }
        let has_password = !self.worker.settings.requirepass.is_empty();
        if protected_mode::refuses(self.config.protected_mode, has_password, &origin) {
            self.worker.stats(&self.spec.shared).rejected_connections.add(1);
            // As above: closed all the same.
            let _ = rustix::io::write(&socket, protected_mode::REFUSAL.as_bytes());
            self.spec.handover.ended(self.spec.index);
            return;
        }
        let (address, local_address) = match origin {
            Origin::Tcp { peer, local, .. } => (peer, local),
            Origin::Unix { path } => (format!("{path}:0"), format!("{path}:0")),
        };
        let origin = ClientOrigin { address, local_address, descriptor };
        let shared = &self.spec.shared;
        let client = shared.clients.register(self.spec.index, origin, self.worker.now_ms());
        let session = Session::new(client, !has_password);
        let id = session.id();
        let entry = self.connections.vacant_entry();
        let index = entry.key();
        let interest = EventFlags::IN;
        let data = EventData::new_u64(index as u64);
        if epoll::add(&self.epoll, &socket, data, interest).is_err() {
            shared.clients.unregister(id);
            self.spec.handover.ended(self.spec.index);
            return;
        }
        entry.insert(Connection {
            socket,
            session,
            parser: RequestParser::new(),
            input: Input::default(),
            soft_limit: SoftLimit::default(),
            work: 0,
            output: ReplyBuffer::new(Protocol::Resp2),
            mode: Mode::Open,
            idleness: Idleness::new(shared.clock.monotonic_us() / 1000),
            interest,
            is_queued: false,
            is_resting: false,
            round: 0,
            is_input_over: false,
            is_output_over: false,
        });
        self.by_session.insert(id, index);
        let stats = self.worker.stats(shared);
        stats.connections_accepted.add(1);
        stats.connections.set(self.connections.len() as u64);
    }

    pub(super) fn close(&mut self, index: usize) {
        let connection = self.connections.remove(index);
        let shared = &self.spec.shared;
        let id = connection.session.id();
        self.by_session.remove(&id);
        self.waits.forget(id);
        shared.clients.unregister(id);
        execute::end_session(shared, &mut self.worker, connection.session);
        self.spec.handover.ended(self.spec.index);
        self.worker.stats(shared).connections.set(self.connections.len() as u64);
    }
}
