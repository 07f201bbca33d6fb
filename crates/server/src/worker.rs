//! A worker: one thread, one event loop.
//!
//! An iteration waits for events, reads each ready socket once, a few at a time, executes what arrived, writes once per
//! connection, and announces one quiescent state. While it waits it is offline for RCU and outside the gate.

use std::collections::{HashMap, VecDeque};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::io::Errno;
use slab::Slab;
use tidemill_engine::blocking::WaitEnd;
use tidemill_engine::config::ServerConfig;
use tidemill_engine::execute::{self, Batch};
use tidemill_engine::mailbox::Message;
use tidemill_engine::section::ReadSide;
use tidemill_engine::shared::Shared;
use tidemill_engine::worker::Worker;
use tidemill_rcu::{Budget, Flavour};
use tidemill_resp::encode::{Protocol, ReplyBuffer};
use tidemill_store::Member;

use crate::backlog::{self, Footprint};
use crate::balance::Load;
use crate::connection::{Connection, Mode};
use crate::fairness::Fairness;
use crate::gather::Gathering;
use crate::handover::{Handover, Waker};
use crate::limits::{
    EVENTS_MAX, FREED_BYTES_MAX, FREED_FRACTION, FREED_ITEMS_MAX, GATHERED_BYTES_MAX,
    KEPT_REPLY_BYTES, READ_BYTES, RECLAIM_EARLY_BYTES, RECLAIM_MS, SWEEP_SOON_US, TICK_MS,
};
use crate::listen::Listener;
use crate::listeners::Listeners;

mod arrivals;
mod ending;
#[cfg(test)]
mod tests;
mod traffic;
mod unauthenticated;
mod waits;

use unauthenticated::Closed;
use waits::Waits;

const WAKER: u64 = u64::MAX;
const FIRST_LISTENER: u64 = u64::MAX - 1 - 1024;

/// What is awaited of a listener. All workers await it, and the kernel wakes one that waits for events, if there is one, so
/// never one inside a long command. If none waits, all see the connection at their next looks.
const LISTENING: EventFlags = EventFlags::IN.union(EventFlags::EXCLUSIVE);

fn listener_token(index: usize) -> EventData {
    EventData::new_u64(FIRST_LISTENER + index as u64)
}

/// What a worker is started with.
pub(crate) struct WorkerSpec {
    pub(crate) index: usize,
    pub(crate) shared: Arc<Shared>,
    pub(crate) listeners: Arc<Listeners>,
    pub(crate) waker: Waker,
    pub(crate) handover: Arc<Handover>,
    pub(crate) stop: Arc<AtomicBool>,
}

/// The event loop of one worker.
pub(crate) struct EventLoop<F: Flavour> {
    spec: WorkerSpec,
    epoll: OwnedFd,
    /// The listeners as of the last change of the configuration.
    listeners: Vec<Arc<Listener>>,
    reader: Member<F>,
    worker: Worker,
    batch: Batch,
    connections: Slab<Connection>,
    by_session: HashMap<u64, usize>,
    /// The configuration as of the last iteration.
    config: ServerConfig,
    config_version: u64,
    /// Connections that have more to do than one turn.
    queue: VecDeque<usize>,
    fairness: Fairness,
    /// Sessions that try again without being told.
    waits: Waits,
    /// Something came with the wake-ups that were taken back last: it was not looked at yet.
    is_rung: bool,
    /// Where sockets are read into, and where replies are gathered: one of each for all connections.
    input: Vec<u8>,
    gathering: Gathering,
    /// Connections that have reserved room for what they have announced, since the last tick.
    reserving: Vec<usize>,
    reply: ReplyBuffer,
    /// When the last wait for events ended.
    busy_from_us: u64,
    next_tick_us: u64,
    next_sweep_us: u64,
    /// Bytes of retired memory from which it is looked at before the iteration ends.
    reclaim_from_bytes: usize,
    /// Listeners that accept nothing until the next tick.
    paused_listeners: Vec<usize>,
    /// When to look whether others have taken what this worker gave them.
    overdue_from_us: Option<u64>,
    next_exhausted_line_us: u64,
    next_http_line_us: u64,
    /// Clients without authentication that were closed at their limits.
    closed_unauthenticated: Closed,
    spans_iteration: bool,
    load: Load,
}

impl<F: Flavour> EventLoop<F> {
    /// The event loop of a worker, on the calling thread.
    pub(crate) fn new(
        spec: WorkerSpec,
        reader: Member<F>,
        mut worker: Worker,
    ) -> std::io::Result<EventLoop<F>> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        epoll::add(&epoll, spec.waker.descriptor(), EventData::new_u64(WAKER), EventFlags::IN)?;
        // The version first: a change in between is taken again.
        let config_version = spec.shared.settings_version();
        let listeners = spec.listeners.all();
        for (index, listener) in listeners.iter().enumerate() {
            epoll::add(&epoll, &listener.socket, listener_token(index), LISTENING)?;
        }
        let config = spec.shared.configuration().server();
        worker.limits_output = limits_output(&config);
        Ok(EventLoop {
            epoll,
            listeners,
            reader,
            worker,
            batch: Batch::default(),
            connections: Slab::new(),
            by_session: HashMap::new(),
            config_version,
            config,
            queue: VecDeque::new(),
            fairness: Fairness::default(),
            waits: Waits::default(),
            is_rung: false,
            input: vec![0; GATHERED_BYTES_MAX + READ_BYTES],
            gathering: Gathering::new(),
            reserving: Vec::new(),
            reply: ReplyBuffer::new(Protocol::Resp2),
            busy_from_us: 0,
            next_tick_us: 0,
            next_sweep_us: 0,
            reclaim_from_bytes: RECLAIM_EARLY_BYTES,
            paused_listeners: Vec::new(),
            overdue_from_us: None,
            next_exhausted_line_us: 0,
            next_http_line_us: 0,
            closed_unauthenticated: Closed::default(),
            spans_iteration: spec.shared.configuration().server().rcu_section_spans_iteration,
            load: Load::default(),
            spec,
        })
    }

    /// Runs until the server stops.
    pub(crate) fn run(&mut self) -> std::io::Result<()> {
        let mut events: Vec<Event> = Vec::with_capacity(EVENTS_MAX);
        let shared = Arc::clone(&self.spec.shared);
        self.busy_from_us = shared.clock.monotonic_us();
        // Acquire: pairs with the Release of whoever stops the server.
        while !self.spec.stop.load(Ordering::Acquire) {
            self.iterate(&shared, &mut events)?;
        }
        Ok(())
    }

    /// Waits for events, and does what there is to do.
    #[inline]
    fn iterate(&mut self, shared: &Shared, events: &mut Vec<Event>) -> std::io::Result<()> {
        let idle_from_us = shared.clock.monotonic_us();
        let stats = self.worker.stats(shared);
        stats.iterations.add(1);
        stats.busy_us.add(idle_from_us - self.busy_from_us);
        let timeout = self.timeout(idle_from_us);
        self.spec.handover.begin_wait(self.spec.index, idle_from_us);
        events.clear();
        let epoll = &self.epoll;
        let waited = self
            .reader
            .offline(|| epoll::wait(epoll, rustix::buffer::spare_capacity(events), Some(&timeout)));
        match waited {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let now_us = shared.clock.monotonic_us();
        self.spec.handover.end_wait(self.spec.index, now_us);
        self.busy_from_us = now_us;
        if !self.fairness.has_debtors() {
            self.load.idle(now_us - idle_from_us);
        }
        let span = self.spans_iteration.then(|| self.reader.span());
        self.reader.seat().enter();
        self.worker.boundary(shared);
        if self.config_version != shared.settings_version() {
            self.reconfigure();
        }
        self.deliver(now_us);
        self.end_rests(now_us, events.is_empty());
        for event in &*events {
            self.handle(event.data.u64(), event.flags);
            self.reclaim_early();
        }
        self.execute_gathered();
        self.run_queue();
        self.end_waits(now_us);
        self.between_commands();
        self.reader.seat().leave();
        drop(span);
        self.reclaim();
        self.reader.quiescent();
        Ok(())
    }

    fn timeout(&mut self, now_us: u64) -> Timespec {
        if !self.queue.is_empty() || self.worker.has_postponed() || self.is_rung {
            return Timespec { tv_sec: 0, tv_nsec: 0 };
        }
        let mut until_us = self.next_sweep_us.clamp(now_us, now_us + TICK_MS * 1000);
        if let Some(at_us) = self.fairness.look_again_us(now_us) {
            until_us = until_us.min(at_us);
        }
        if !self.worker.heap.retired().is_empty() {
            until_us = until_us.min(now_us + RECLAIM_MS * 1000);
        }
        if let Some(at_us) = self.worker.deadlines.next_us() {
            until_us = until_us.min(at_us);
        }
        if let Some(at_us) = self.waits.look_again_us(&self.spec.shared, &self.worker, now_us) {
            until_us = until_us.min(at_us);
        }
        if let Some(at_us) = self.overdue_from_us {
            until_us = until_us.min(at_us);
        }
        let wait = Duration::from_micros(until_us.saturating_sub(now_us));
        Timespec { tv_sec: wait.as_secs() as i64, tv_nsec: i64::from(wait.subsec_nanos()) }
    }

    /// Frees retired memory between two connections when an iteration retires much. Whoever writes gets memory back that is
    /// still in the caches, instead of going through as much memory as one iteration can retire. Only where readers announce:
    /// elsewhere a grace period costs a barrier, and may wait for the section that spans the iteration.
    #[inline]
    fn reclaim_early(&mut self) {
        let is_much = self.worker.heap.retired().retired_bytes() >= self.reclaim_from_bytes;
        if F::ANNOUNCES && is_much {
            // Between two connections nothing that was read is held.
            self.reader.quiescent();
            self.reclaim();
        }
    }

    fn reclaim(&mut self) {
        self.worker.heap.release_held(FREED_ITEMS_MAX);
        let retired = self.worker.heap.retired();
        // More when much has gathered, so that many small pieces come and go at the same rate without holding back
        // their writers.
        let items = FREED_ITEMS_MAX.max(retired.len() / FREED_FRACTION);
        retired.reclaim(self.reader.domain(), Budget { items, bytes: FREED_BYTES_MAX });
        // What cannot be freed yet, because another worker takes its time, is not asked for again until more has gathered.
        self.reclaim_from_bytes = retired.retired_bytes() + RECLAIM_EARLY_BYTES;
    }

    /// What is done between the commands of clients: expired keys are deleted, postponed waiters served, time limits kept.
    fn between_commands(&mut self) {
        let EventLoop { spec: WorkerSpec { shared, .. }, worker, reader, .. } = self;
        reader.section(&mut |section| {
            execute::delete_expired(shared, worker, section);
            execute::serve_postponed(shared, worker, section);
        });
        let now_us = shared.clock.monotonic_us();
        if now_us >= self.next_sweep_us {
            let is_behind = execute::sweep(shared, worker, reader);
            self.next_sweep_us = now_us + if is_behind { SWEEP_SOON_US } else { TICK_MS * 1000 };
        }
        if now_us >= self.next_tick_us {
            self.next_tick_us = now_us + TICK_MS * 1000;
            self.tick();
            self.balance(now_us);
        }
    }

    /// Takes the configuration that is in force now.
    fn reconfigure(&mut self) {
        // The version first: a change in between is taken again.
        self.config_version = self.spec.shared.settings_version();
        self.config = self.spec.shared.configuration().server();
        self.worker.limits_output = limits_output(&self.config);
        self.spec.handover.set_clients_max(self.config.clients_max);
        log::set_max_level(crate::log::level(&self.config.log_level));
        self.take_listeners();
    }

    /// Takes the configuration that is in force now, within an iteration: one that was answered before somebody connected
    /// applies to the connection.
    fn catch_up(&mut self) {
        if self.config_version != self.spec.shared.settings_version() {
            self.reconfigure();
            self.worker.refresh_settings(&self.spec.shared);
        }
    }

    fn tick(&mut self) {
        self.batch.shrink();
        self.take_overdue();
        self.look_at_listeners();
        if self.spec.index == 0 {
            self.spec.shared.sample();
            self.spec.shared.free_unreachable_in_background();
        }
        if self.spec.shared.should_hurry() {
            let held = |(_, connection): &(usize, &Connection)| {
                connection.mode == Mode::Held && connection.session.has_rest()
            };
            let held: Vec<usize> =
                self.connections.iter().filter(held).map(|(index, _)| index).collect();
            held.into_iter().for_each(|index| self.resume(index));
        }
        self.reply.shrink(KEPT_REPLY_BYTES);
        self.log_closed_unauthenticated();
        self.give_back_rooms();
        if self.config.output_buffer_limits.normal.soft_bytes > 0 {
            let slow =
                self.connections.iter().filter(|(_, connection)| !connection.output.is_empty());
            let slow: Vec<usize> = slow.map(|(index, _)| index).collect();
            slow.into_iter().for_each(|index| {
                self.check_output(index);
            });
        }
        if self.config.client_memory_bytes_max > 0 {
            self.evict_clients();
        }
        let timeout_ms = u64::from(self.config.timeout_seconds) * 1000;
        if timeout_ms == 0 {
            return;
        }
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

    /// Disconnects the largest clients while all together take too much.
    fn evict_clients(&mut self) {
        let shared = Arc::clone(&self.spec.shared);
        let footprint = |(index, connection): (usize, &Connection)| Footprint {
            bytes: connection.memory_bytes(),
            index,
            may_be_evicted: !connection.session.client.no_evict.load(Ordering::Relaxed),
        };
        let own: Vec<Footprint> = self.connections.iter().map(footprint).collect();
        let own_bytes: u64 = own.iter().map(|footprint| footprint.bytes).sum();
        let stats = self.worker.stats(&shared);
        stats.client_bytes.set(own_bytes);
        let evictable = own.iter().filter(|footprint| footprint.may_be_evicted);
        let largest = evictable.map(|footprint| footprint.bytes).max();
        stats.largest_client_bytes.set(largest.unwrap_or(0));
        let total_bytes = shared.stats.iter().map(|stats| stats.client_bytes.value()).sum();
        let others = shared.stats.iter().enumerate().filter(|&(index, _)| index != self.spec.index);
        let elsewhere = others.map(|(_, stats)| stats.largest_client_bytes.value()).max();
        let limit_bytes = self.config.client_memory_bytes_max;
        for footprint in backlog::evicted(limit_bytes, total_bytes, elsewhere.unwrap_or(0), own) {
            let index = footprint.index;
            let client = self.connections[index].describe(self.worker.now_ms());
            log::info!("Evicting client: {client}");
            let stats = self.worker.stats(&shared);
            stats.evicted_clients.add(1);
            // At once, so that another worker does not see to the same excess.
            stats.client_bytes.set(stats.client_bytes.value().saturating_sub(footprint.bytes));
            stats.largest_client_bytes.set(0);
            self.close(index);
        }
    }

    /// Takes what others sent: messages and new connections.
    fn deliver(&mut self, now_us: u64) {
        self.is_rung = false;
        // Messages are taken first and delivered last: one for a connection that was moved here was posted after it
        // came.
        let messages = self.spec.shared.mailboxes.take(self.spec.index);
        for arrival in self.spec.handover.take(self.spec.index) {
            self.welcome(arrival);
        }
        if self.overdue_from_us.is_some_and(|at_us| at_us <= now_us) {
            self.take_overdue();
        }
        for message in messages {
            self.receive(message);
        }
        for session in self.waits.take_due(&self.spec.shared, &self.worker, now_us) {
            self.receive(Message::Wake { session });
        }
    }

    fn receive(&mut self, message: Message) {
        if !self.by_session.contains_key(&message.session()) {
            return self.forward(message);
        }
        match message {
            Message::Wake { session } => {
                if let Some(&index) = self.by_session.get(&session)
                    && !self.connections[index].session.is_blocked()
                {
                    self.resume(index);
                }
            }
            Message::Unblocked { session, waiter, end, mut reply } => {
                let Some(&index) = self.by_session.get(&session) else { return };
                let connection = &mut self.connections[index];
                let (shared, worker) = (&self.spec.shared, &mut self.worker);
                let session = &mut connection.session;
                if let Some(waiter) = execute::end_wait(shared, worker, session, waiter) {
                    let client = &connection.session.client;
                    let of_reply = reply.len();
                    execute::note_unblocked(
                        &self.spec.shared,
                        &self.worker,
                        client,
                        &waiter,
                        end,
                        of_reply,
                    );
                    // Relaxed: for others' information only. Having waited is not having idled.
                    client.last_command_ms.store(self.worker.now_ms(), Ordering::Relaxed);
                    if connection.session.wants_late_reply() {
                        connection.output.append(&mut reply);
                    }
                    self.resume(index);
                }
            }
            Message::Push { session, bytes } => {
                // One that is to be closed once its replies are sent is sent no more.
                if let Some(&index) = self.by_session.get(&session)
                    && self.connections[index].mode != Mode::Closing
                {
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

    /// Sends a message after a connection that has moved; there is nobody to tell when it has ended.
    fn forward(&self, message: Message) {
        let shared = &self.spec.shared;
        if let Some(client) = shared.clients.find(message.session()) {
            // Acquire: pairs with the Release in `hand_on`.
            let owner = client.worker.load(Ordering::Acquire);
            if owner != self.spec.index {
                shared.mailboxes.post(owner, message);
            }
        }
    }

    /// A connection goes on with what it has read.
    fn resume(&mut self, index: usize) {
        let connection = &mut self.connections[index];
        if matches!(connection.mode, Mode::Waiting | Mode::Held) {
            connection.mode = Mode::Open;
        }
        if self.end_rest(index) {
            self.enqueue(index);
        }
    }

    /// Adds a turn that has just ended to what the connection had of the worker; one that took too long is followed by a
    /// rest, which whoever sends the replies tells the kernel.
    #[inline]
    fn charge(&mut self, index: usize) {
        let EventLoop { spec, worker, connections, fairness, .. } = self;
        let connection = &mut connections[index];
        let clock = &spec.shared.clock;
        let round = &mut connection.round;
        if let Some(rest) = fairness.charge(round, worker.turn_ns(), || clock.monotonic_us()) {
            connection.is_resting = true;
            fairness.add(connection.session.id(), rest);
        }
    }

    /// Ends a rest; tells whether the connection is still there.
    fn end_rest(&mut self, index: usize) -> bool {
        if std::mem::take(&mut self.connections[index].is_resting) {
            self.update_interest(index);
        }
        self.connections.contains(index)
    }

    /// Lets those go on whose rest is over.
    fn end_rests(&mut self, now_us: u64, is_idle: bool) {
        self.fairness.begin_iteration(now_us);
        for session in self.fairness.rested(now_us, is_idle && self.queue.is_empty()) {
            let Some(&index) = self.by_session.get(&session) else { continue };
            if self.end_rest(index) {
                let connection = &self.connections[index];
                if connection.mode == Mode::Open && connection.has_work() {
                    self.enqueue(index);
                }
            }
        }
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
            self.measured(index, |worker| worker.execute_kept(index));
            self.reclaim_early();
        }
    }

    /// Does something for a connection, and adds the time it took to the connection's work while that is measured.
    fn measured(&mut self, index: usize, work: impl FnOnce(&mut Self)) {
        if !self.load.is_measuring() {
            return work(self);
        }
        let from_us = self.spec.shared.clock.monotonic_us();
        work(self);
        if let Some(connection) = self.connections.get_mut(index) {
            connection.work += self.spec.shared.clock.monotonic_us() - from_us;
        }
    }

    /// Clients whose wait is over.
    fn end_waits(&mut self, now_us: u64) {
        while let Some(waiter) = self.worker.deadlines.end_next(now_us) {
            let mut reply = ReplyBuffer::new(waiter.protocol);
            waiter.block.on_timeout.write(&mut reply);
            let (session, waiter) = (waiter.session, waiter.id);
            let end = WaitEnd::TimedOut;
            self.receive(Message::Unblocked { session, waiter, end, reply });
        }
    }

    fn handle(&mut self, token: u64, flags: EventFlags) {
        if token == WAKER {
            self.drain();
        } else if token >= FIRST_LISTENER {
            self.accept((token - FIRST_LISTENER) as usize);
        } else {
            self.handle_connection(token as usize, flags);
        }
    }

    /// Takes back all wake-ups so far. One of them may be of something that was posted after this iteration looked: it
    /// would lie there until the next event.
    fn drain(&mut self) {
        let WorkerSpec { index, shared, waker, handover, .. } = &self.spec;
        waker.drain();
        self.is_rung = shared.mailboxes.has_messages(*index) || handover.has_arrivals(*index);
    }

    fn handle_connection(&mut self, index: usize, flags: EventFlags) {
        let Some(connection) = self.connections.get(index) else { return };
        if flags == EventFlags::IN && connection.expects_request() {
            return self.gather(index);
        }
        self.measured(index, |worker| worker.attend(index, flags));
    }

    /// Does what events ask for at once.
    fn attend(&mut self, index: usize, flags: EventFlags) {
        if flags.contains(EventFlags::HUP) {
            self.end_output(index);
        } else if flags.contains(EventFlags::OUT) {
            self.flush(index);
        }
        if flags.intersects(EventFlags::IN | EventFlags::HUP | EventFlags::ERR)
            && self.connections.contains(index)
        {
            self.read(index);
        }
    }
}

/// Whether a limit for the unsent replies of clients is set.
fn limits_output(config: &ServerConfig) -> bool {
    let limit = config.output_buffer_limits.normal;
    limit.hard_bytes > 0 || limit.soft_bytes > 0
}
