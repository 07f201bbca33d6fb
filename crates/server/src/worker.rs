//! A worker: one thread, one event loop.
//!
//! An iteration waits for events, reads each ready socket once, executes what arrived, writes once per connection, and
//! announces one quiescent state. While it waits it is offline for RCU and outside the gate.

use std::collections::HashMap;
use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::io::Errno;
use slab::Slab;
use tidemill_engine::clients::ClientOrigin;
use tidemill_engine::config::ServerConfig;
use tidemill_engine::execute::{self, Batch, Next};
use tidemill_engine::mailbox::Message;
use tidemill_engine::section::ReadSide;
use tidemill_engine::session::Session;
use tidemill_engine::shared::Shared;
use tidemill_engine::worker::Worker;
use tidemill_rcu::{Budget, Domain, Flavour, Reader};
use tidemill_resp::encode::{Protocol, ReplyBuffer};
use tidemill_resp::request::RequestParser;

use crate::connection::{Connection, Mode, Sent, send};
use crate::handover::{Accepted, Handover, Placed, Waker};
use crate::limits::{
    EVENTS_MAX, FREED_BYTES_MAX, FREED_ITEMS_MAX, KEPT_REPLY_BYTES, PILED_INPUT_BYTES_MAX,
    READ_BYTES, RECLAIM_MS, TICK_MS,
};
use crate::listen::{Listener, Origin};

const WAKER: u64 = u64::MAX;
const FIRST_LISTENER: u64 = u64::MAX - 1 - 1024;

/// What a worker is started with.
pub(crate) struct WorkerSpec {
    pub(crate) index: usize,
    pub(crate) shared: Arc<Shared>,
    pub(crate) listeners: Vec<Listener>,
    pub(crate) waker: Waker,
    pub(crate) handover: Arc<Handover>,
    pub(crate) stop: Arc<AtomicBool>,
}

/// The event loop of one worker.
pub(crate) struct EventLoop<F: Flavour> {
    spec: WorkerSpec,
    epoll: OwnedFd,
    domain: Arc<Domain<F>>,
    reader: Reader<F>,
    worker: Worker,
    batch: Batch,
    connections: Slab<Connection>,
    by_session: HashMap<u64, usize>,
    /// The configuration as of the last tick.
    config: ServerConfig,
    /// Connections that have more to do than one turn.
    queue: VecDeque<usize>,
    /// Sessions that try again at a time, in monotonic microseconds.
    retries: Vec<(u64, u64)>,
    /// Where sockets are read into, and where replies are gathered: one of each for all connections.
    input: Vec<u8>,
    reply: ReplyBuffer,
    next_tick_us: u64,
}

impl<F: Flavour> EventLoop<F> {
    /// The event loop of a worker, on the calling thread.
    pub(crate) fn new(
        spec: WorkerSpec,
        domain: Arc<Domain<F>>,
        worker: Worker,
    ) -> std::io::Result<EventLoop<F>> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        epoll::add(&epoll, spec.waker.descriptor(), EventData::new_u64(WAKER), EventFlags::IN)?;
        for (index, listener) in spec.listeners.iter().enumerate() {
            let data = EventData::new_u64(FIRST_LISTENER + index as u64);
            epoll::add(&epoll, &listener.socket, data, EventFlags::IN)?;
        }
        Ok(EventLoop {
            epoll,
            reader: domain.register(),
            domain,
            worker,
            batch: Batch::default(),
            connections: Slab::new(),
            by_session: HashMap::new(),
            config: spec.shared.configuration().server(),
            queue: VecDeque::new(),
            retries: Vec::new(),
            input: vec![0; READ_BYTES],
            reply: ReplyBuffer::new(Protocol::Resp2),
            next_tick_us: 0,
            spec,
        })
    }

    /// Runs until the server stops.
    pub(crate) fn run(&mut self) -> std::io::Result<()> {
        let mut events: Vec<Event> = Vec::with_capacity(EVENTS_MAX);
        let shared = Arc::clone(&self.spec.shared);
        // Acquire: pairs with the Release of whoever stops the server.
        while !self.spec.stop.load(Ordering::Acquire) {
            let timeout = self.timeout();
            events.clear();
            let epoll = &self.epoll;
            let waited = self.reader.offline(|| {
                epoll::wait(epoll, rustix::buffer::spare_capacity(&mut events), Some(&timeout))
            });
            match waited {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            shared.gate.enter(self.spec.index);
            self.worker.boundary(&shared);
            self.deliver();
            for event in &events {
                self.handle(event.data.u64(), event.flags);
            }
            self.run_queue();
            self.end_waits();
            self.between_commands();
            shared.gate.leave(self.spec.index);
            self.reclaim();
            self.reader.quiescent();
        }
        Ok(())
    }

    fn timeout(&mut self) -> Timespec {
        if !self.queue.is_empty() {
            return Timespec { tv_sec: 0, tv_nsec: 0 };
        }
        let now_us = self.spec.shared.clock.monotonic_us();
        let mut until_us = now_us + TICK_MS * 1000;
        if !self.worker.heap.retired().is_empty() {
            until_us = now_us + RECLAIM_MS * 1000;
        }
        if let Some(at_us) = self.worker.deadlines.next_us() {
            until_us = until_us.min(at_us);
        }
        if let Some(&(at_us, _)) = self.retries.iter().min() {
            until_us = until_us.min(at_us);
        }
        let wait = Duration::from_micros(until_us.saturating_sub(now_us));
        Timespec { tv_sec: wait.as_secs() as i64, tv_nsec: i64::from(wait.subsec_nanos()) }
    }

    fn reclaim(&mut self) {
        let budget = Budget { items: FREED_ITEMS_MAX, bytes: FREED_BYTES_MAX };
        self.worker.heap.retired().reclaim(&self.domain, budget);
    }

    /// What is done between the commands of clients: expired keys are deleted, postponed waiters served, time limits kept.
    fn between_commands(&mut self) {
        let shared = Arc::clone(&self.spec.shared);
        let worker = &mut self.worker;
        self.reader.section(&mut |section| {
            execute::delete_expired(&shared, worker, section);
            execute::serve_postponed(&shared, worker, section);
        });
        let now_us = shared.clock.monotonic_us();
        if now_us >= self.next_tick_us {
            self.next_tick_us = now_us + TICK_MS * 1000;
            self.tick();
        }
    }

    fn tick(&mut self) {
        self.batch.shrink();
        if self.spec.index == 0 {
            self.spec.shared.sample();
        }
        self.reply.shrink(KEPT_REPLY_BYTES);
        self.config = self.spec.shared.configuration().server();
        self.spec.handover.set_clients_max(self.config.clients_max);
        let timeout_ms = u64::from(self.config.timeout_seconds) * 1000;
        if timeout_ms == 0 {
            return;
        }
        let oldest_ms = self.worker.now_ms().saturating_sub(timeout_ms);
        let idle: Vec<usize> = self
            .connections
            .iter()
            .filter(|(_, connection)| {
                // Relaxed: written by this thread.
                let last_ms = connection.session.client.last_command_ms.load(Ordering::Relaxed);
                connection.mode == Mode::Open && last_ms < oldest_ms
            })
            .map(|(index, _)| index)
            .collect();
        idle.into_iter().for_each(|index| self.close(index));
    }

    /// Takes what others sent: messages and new connections.
    fn deliver(&mut self) {
        for message in self.spec.shared.mailboxes.take(self.spec.index) {
            self.receive(message);
        }
        for accepted in self.spec.handover.take(self.spec.index) {
            self.adopt(accepted);
        }
        let now_us = self.spec.shared.clock.monotonic_us();
        let mut due = Vec::new();
        self.retries.retain(|&(at_us, session)| {
            let is_due = at_us <= now_us;
            if is_due {
                due.push(session);
            }
            !is_due
        });
        due.into_iter().for_each(|session| self.receive(Message::Wake { session }));
    }

    fn receive(&mut self, message: Message) {
        match message {
            Message::Wake { session } => {
                if let Some(&index) = self.by_session.get(&session)
                    && !self.connections[index].session.is_blocked()
                {
                    self.resume(index);
                }
            }
            Message::Unblocked { session, waiter, mut reply } => {
                let Some(&index) = self.by_session.get(&session) else { return };
                let connection = &mut self.connections[index];
                if connection.session.unblock(waiter) {
                    if connection.session.wants_late_reply() {
                        connection.output.append(&mut reply);
                    }
                    self.resume(index);
                }
            }
            Message::Push { session, bytes } => {
                if let Some(&index) = self.by_session.get(&session) {
                    self.connections[index].output.raw(&bytes);
                    self.flush(index);
                }
            }
            Message::Kill { session } => {
                if let Some(&index) = self.by_session.get(&session) {
                    self.close(index);
                }
            }
        }
    }

    /// A connection goes on with what it has read.
    fn resume(&mut self, index: usize) {
        let connection = &mut self.connections[index];
        if connection.mode == Mode::Waiting {
            connection.mode = Mode::Open;
        }
        self.enqueue(index);
    }

    fn enqueue(&mut self, index: usize) {
        let connection = &mut self.connections[index];
        if !connection.is_queued {
            connection.is_queued = true;
            self.queue.push_back(index);
        }
    }

    fn run_queue(&mut self) {
        for _ in 0..self.queue.len() {
            let Some(index) = self.queue.pop_front() else { return };
            let Some(connection) = self.connections.get_mut(index) else { continue };
            if !std::mem::take(&mut connection.is_queued) {
                continue;
            }
            self.execute_kept(index);
        }
    }

    /// Clients whose wait is over.
    fn end_waits(&mut self) {
        let shared = Arc::clone(&self.spec.shared);
        let now_us = shared.clock.monotonic_us();
        while let Some(waiter) = self.worker.deadlines.end_next(now_us) {
            execute::end_wait(&shared, &waiter);
            let mut reply = ReplyBuffer::new(waiter.protocol);
            waiter.block.on_timeout.write(&mut reply);
            let (session, waiter) = (waiter.session, waiter.id);
            self.receive(Message::Unblocked { session, waiter, reply });
        }
    }

    fn handle(&mut self, token: u64, flags: EventFlags) {
        if token == WAKER {
            self.spec.waker.drain();
        } else if token >= FIRST_LISTENER {
            self.accept((token - FIRST_LISTENER) as usize);
        } else {
            self.handle_connection(token as usize, flags);
        }
    }

    fn handle_connection(&mut self, index: usize, flags: EventFlags) {
        if !self.connections.contains(index) {
            return;
        }
        if flags.contains(EventFlags::OUT) {
            self.flush(index);
        }
        if flags.intersects(EventFlags::IN | EventFlags::HUP | EventFlags::ERR)
            && self.connections.contains(index)
        {
            self.read(index);
        }
    }

    fn accept(&mut self, listener: usize) {
        loop {
            let result = self.spec.listeners[listener].accept(self.config.tcp_keepalive_seconds);
            let (socket, origin) = match result {
                Ok(accepted) => accepted,
                // Nobody waits, or no descriptor is left: the next event tries again.
                Err(_) => return,
            };
            match self.spec.handover.place(self.spec.index, Accepted { socket, origin }) {
                Placed::Here(accepted) => self.adopt(accepted),
                Placed::Elsewhere => {}
                Placed::TooMany(accepted) => {
                    let text = b"-ERR max number of clients reached\r\n";
                    // A client that cannot even take this is closed all the same.
                    let _ = rustix::io::write(&accepted.socket, text);
                }
            }
        }
    }

    /// Makes a new connection this worker's own.
    fn adopt(&mut self, accepted: Accepted) {
        use std::os::fd::AsRawFd;
        let Accepted { socket, origin } = accepted;
        let descriptor = socket.as_raw_fd();
        let (origin, is_refused) = match origin {
            Origin::Tcp { peer, local, is_loopback } => {
                let is_open = !self.config.protected_mode
                    || is_loopback
                    || !self.worker.settings.requirepass.is_empty();
                let origin = ClientOrigin { address: peer, local_address: local, descriptor };
                (origin, !is_open)
            }
            Origin::Unix { path } => {
                let origin = ClientOrigin {
                    address: format!("{path}:0"),
                    local_address: format!("{path}:0"),
                    descriptor,
                };
                (origin, false)
            }
        };
        if is_refused {
            // As above: closed all the same.
            let _ = rustix::io::write(&socket, PROTECTED_MODE.as_bytes());
            self.spec.handover.ended(self.spec.index);
            return;
        }
        let shared = &self.spec.shared;
        let client = shared.clients.register(self.spec.index, origin, self.worker.now_ms());
        let is_authenticated = self.worker.settings.requirepass.is_empty();
        let session = Session::new(client, is_authenticated);
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
            input: Vec::new(),
            output: ReplyBuffer::new(Protocol::Resp2),
            mode: Mode::Open,
            interest,
            is_queued: false,
        });
        self.by_session.insert(id, index);
        let stats = self.worker.stats(shared);
        stats.connections_accepted.add(1);
        stats.connections.set(self.connections.len() as u64);
    }

    /// Reads once from a socket and executes what is complete.
    fn read(&mut self, index: usize) {
        let connection = &mut self.connections[index];
        let is_fresh = connection.input.is_empty();
        let result = if is_fresh {
            rustix::io::read(&connection.socket, &mut self.input[..])
        } else {
            if connection.input.spare_capacity_mut().len() < READ_BYTES / 4 {
                connection.input.reserve(READ_BYTES);
            }
            let spare = rustix::buffer::spare_capacity(&mut connection.input);
            rustix::io::read(&connection.socket, spare)
        };
        let count = match result {
            Ok(0) => return self.close(index),
            Ok(count) => count,
            Err(Errno::AGAIN | Errno::INTR) => return,
            Err(_) => return self.close(index),
        };
        self.worker.stats(&self.spec.shared).input_bytes.add(count as u64);
        let connection = &mut self.connections[index];
        if connection.mode != Mode::Open {
            if is_fresh && connection.mode == Mode::Waiting {
                connection.input.extend_from_slice(&self.input[..count]);
            }
            self.update_interest(index);
        } else if is_fresh {
            let input = std::mem::take(&mut self.input);
            self.execute(index, &input[..count]);
            self.input = input;
        } else {
            self.execute_kept(index);
        }
    }

    /// Executes what a connection has kept.
    fn execute_kept(&mut self, index: usize) {
        let connection = &mut self.connections[index];
        if connection.mode == Mode::Open && !connection.input.is_empty() {
            let input = std::mem::take(&mut connection.input);
            self.execute(index, &input);
            // The memory is kept while a request is being gathered, so that its parts are not copied again and again.
            if let Some(connection) = self.connections.get_mut(index)
                && !connection.input.is_empty()
            {
                let rest = input.len() - connection.input.len();
                let mut input = input;
                input.drain(..rest);
                connection.input = input;
            }
        } else {
            self.flush(index);
        }
    }

    /// Gives a connection its turn on `input`; what is left of it is kept.
    fn execute(&mut self, index: usize, input: &[u8]) {
        let connection = &mut self.connections[index];
        let mut reply = std::mem::take(&mut self.reply);
        reply.set_protocol(connection.protocol());
        let turn = execute::run_turn(
            &self.spec.shared,
            &mut self.worker,
            &mut connection.session,
            &mut self.reader,
            &mut self.batch,
            &mut connection.parser,
            input,
            &mut reply,
        );
        connection.output.set_protocol(reply.protocol());
        connection.input.clear();
        connection.input.extend_from_slice(&input[turn.consumed..]);
        match turn.next {
            Next::Input { wanted } => {
                if !connection.input.is_empty() {
                    connection.expect_input(wanted);
                }
            }
            Next::Turn => self.enqueue(index),
            Next::WakeUp { retry_us } => {
                connection.mode = Mode::Waiting;
                if let Some(at_us) = retry_us {
                    self.retries.push((at_us, connection.session.id()));
                }
            }
            Next::Unblock => connection.mode = Mode::Waiting,
            Next::Close => {
                connection.mode = Mode::Closing;
                connection.input = Vec::new();
            }
        }
        self.send_replies(index, reply);
    }

    /// Sends fresh replies, behind what was not sent yet; keeps the buffer for the next connection when all is sent.
    fn send_replies(&mut self, index: usize, mut reply: ReplyBuffer) {
        let connection = &mut self.connections[index];
        let before = reply.len();
        if connection.output.is_empty() && send(&connection.socket, &mut reply) == Sent::All {
            self.worker.stats(&self.spec.shared).output_bytes.add(before as u64);
            reply.clear();
            self.reply = reply;
            self.after_send(index, Sent::All);
        } else {
            connection.output.append(&mut reply);
            self.reply = reply;
            self.flush(index);
        }
    }

    /// Sends what a connection has left.
    fn flush(&mut self, index: usize) {
        let connection = &mut self.connections[index];
        let before = connection.output.len();
        let sent = send(&connection.socket, &mut connection.output);
        let count = before - connection.output.len();
        if sent == Sent::All {
            connection.output.shrink(0);
        }
        self.worker.stats(&self.spec.shared).output_bytes.add(count as u64);
        self.after_send(index, sent);
    }

    fn after_send(&mut self, index: usize, sent: Sent) {
        let is_done = self.connections[index].mode == Mode::Closing && sent == Sent::All;
        if is_done || sent == Sent::Broken {
            self.close(index);
        } else {
            self.update_interest(index);
        }
    }

    /// Asks the kernel for the events that a connection needs now.
    fn update_interest(&mut self, index: usize) {
        let connection = &mut self.connections[index];
        let mut interest = EventFlags::empty();
        let has_piled_up = connection.input.len() > PILED_INPUT_BYTES_MAX;
        if connection.mode == Mode::Open || (connection.mode == Mode::Waiting && !has_piled_up) {
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

    fn close(&mut self, index: usize) {
        let connection = self.connections.remove(index);
        let shared = &self.spec.shared;
        let id = connection.session.id();
        self.by_session.remove(&id);
        self.retries.retain(|&(_, session)| session != id);
        shared.clients.unregister(id);
        execute::end_session(shared, connection.session);
        self.spec.handover.ended(self.spec.index);
        self.worker.stats(shared).connections.set(self.connections.len() as u64);
    }
}

/// What a client from another host is told that meets a server without a password.
const PROTECTED_MODE: &str = "-DENIED Tidemill is running in protected mode because protected mode is enabled and no \
password is set for the default user. In this mode connections are only accepted from the loopback interface. Set a \
password with requirepass, or disable protected mode with 'protected-mode no' if the network is trusted.\r\n";
