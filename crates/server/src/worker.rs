//! A worker: one thread, one event loop.
//!
//! An iteration waits for events, reads each ready socket once, a few at a time, executes what
//! arrived, writes once per connection, and announces one quiescent state. While it waits it is
//! offline for RCU and outside the gate.
//!
//! State belongs to owners, each in a file of its own with private fields: `event_poll` (kernel's
//! events), `coalescing` (pauses before waits), `table` (connections), `scheduler` (order of
//! execution, with `run_queue` and `waits`),
//! `execution` (engine, RCU reader, buffers), `arrivals` (listeners), `applied_config`,
//! `log_lines`, `holding` (replies that wait for the append-only file), `replaying` (a log that is
//! loaded), and beside this folder `gather` and `balance`. Owners do not import the event loop. Its
//! methods coordinate them: an iteration is in this file, its parts are in `messages`, `accept`,
//! `moving`, `turns`, `receive`, `send`, `pushes`, `ending`, `log_writes`, `unauthenticated` and
//! `tick`. To add state, give it to the owner that it concerns, or write an owner and add a field.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::event::epoll::{Event, EventFlags};
use tidemill_engine::shared::Shared;
use tidemill_engine::worker::Worker;
use tidemill_rcu::Flavour;
use tidemill_store::Member;

use crate::balance::Load;
use crate::durability::Durability;
use crate::gather::Gathering;
use crate::handover::{Handover, Waker};
use crate::limits::EVENTS_MAX;
use crate::listeners::Listeners;
use crate::tls::reception::Reception;
use crate::tls::stream::TlsBuffers;

mod accept;
mod applied_config;
mod arrivals;
mod coalescing;
mod ending;
mod event_poll;
mod execution;
mod holding;
mod log_lines;
mod log_writes;
mod messages;
mod moving;
mod pushes;
mod receive;
pub(crate) mod replaying;
mod run_queue;
mod scheduler;
mod send;
mod table;
#[cfg(test)]
mod tests;
mod tick;
mod turns;
mod unauthenticated;
mod waits;

use applied_config::AppliedConfig;
use arrivals::Arrivals;
use coalescing::Coalescing;
use event_poll::{EventPoll, EventSource, wait_between};
use execution::Execution;
use holding::Holding;
use log_lines::LogLines;
use replaying::Replaying;
use scheduler::Scheduler;
use table::ConnectionTable;

/// Parameters of a worker's start.
pub(crate) struct WorkerSpec {
    pub(crate) index: usize,
    pub(crate) shared: Arc<Shared>,
    pub(crate) listeners: Arc<Listeners>,
    pub(crate) waker: Waker,
    pub(crate) handover: Arc<Handover>,
    pub(crate) reception: Arc<Reception>,
    pub(crate) stop: Arc<AtomicBool>,
    pub(crate) durability: Arc<Durability>,
}

/// The event loop of one worker.
pub(crate) struct EventLoop<F: Flavour> {
    spec: WorkerSpec,
    poll: EventPoll,
    config: AppliedConfig,
    execution: Execution<F>,
    connections: ConnectionTable,
    scheduler: Scheduler,
    gathering: Gathering,
    coalescing: Coalescing,
    arrivals: Arrivals,
    load: Load,
    log_lines: LogLines,
    tls_buffers: TlsBuffers,
    holding: Holding,
    replaying: Replaying,
}

impl<F: Flavour> EventLoop<F> {
    /// The event loop of a worker, on the calling thread.
    pub(crate) fn new(
        spec: WorkerSpec,
        reader: Member<F>,
        mut worker: Worker,
    ) -> std::io::Result<EventLoop<F>> {
        let poll = EventPoll::new(spec.waker.descriptor())?;
        // The configuration first: a change in between is taken again.
        let config = AppliedConfig::new(&spec.shared);
        let arrivals = Arrivals::new(spec.listeners.accepting(), &poll)?;
        config.limit_output(&mut worker);
        let mut coalescing = Coalescing::default();
        let now_us = spec.shared.clock.monotonic_us();
        coalescing.configure(config.wakeup_coalescing_us, now_us);
        Ok(EventLoop {
            execution: Execution::new(reader, worker, config.rcu_section_spans_iteration),
            poll,
            config,
            connections: ConnectionTable::default(),
            scheduler: Scheduler::default(),
            gathering: Gathering::new(),
            coalescing,
            arrivals,
            load: Load::default(),
            log_lines: LogLines::new(),
            tls_buffers: TlsBuffers::default(),
            holding: Holding::new(Arc::clone(spec.durability.log())),
            replaying: Replaying::new(Arc::clone(spec.durability.replay_queue())),
            spec,
        })
    }

    /// Runs until the server stops.
    pub(crate) fn run(&mut self) -> std::io::Result<()> {
        let mut events: Vec<Event> = Vec::with_capacity(EVENTS_MAX);
        let shared = Arc::clone(&self.spec.shared);
        self.load.begin(shared.clock.monotonic_us());
        // Acquire: pairs with the Release of the thread that stops the server.
        while !self.spec.stop.load(Ordering::Acquire) {
            self.iterate(&shared, &mut events)?;
        }
        Ok(())
    }

    /// Waits for events, and handles them.
    #[inline]
    fn iterate(&mut self, shared: &Shared, events: &mut Vec<Event>) -> std::io::Result<()> {
        let now_us = self.wait(shared, events)?;
        let span = self.execution.begin_iteration(shared, now_us);
        // Relaxed: the gate orders it. Nothing is executed behind a save that was the last.
        if self.spec.stop.load(Ordering::Relaxed) {
            self.execution.end_iteration(span);
            return Ok(());
        }
        self.holding.refresh();
        self.execution.worker_mut().note_reply_needs(self.holding.is_active());
        if self.config.is_outdated(shared) {
            self.reconfigure();
            self.enforce_limits();
        }
        self.coalescing.note(events);
        self.deliver(now_us);
        self.end_throttles(now_us, !events.is_empty());
        for event in &*events {
            self.handle(EventSource::of(event), event.flags);
            self.execution.reclaim_early();
        }
        self.execute_gathered();
        self.run_queue();
        self.end_waits(now_us);
        self.between_commands(now_us);
        self.send_pushes();
        self.execution.end_iteration(span);
        self.write_log();
        if shared.loading.is_running() {
            self.replay();
        }
        Ok(())
    }

    /// Ends an iteration with a wait for events; returns the time at its end, in monotonic
    /// microseconds.
    #[inline]
    fn wait(&mut self, shared: &Shared, events: &mut Vec<Event>) -> std::io::Result<u64> {
        let idle_from_us = shared.clock.monotonic_us();
        let stats = self.execution.stats(shared);
        stats.iterations.add(1);
        let busy_us = self.load.busy_us(idle_from_us);
        stats.busy_us.add(busy_us);
        let commands = self.load.commands(stats.commands_processed.value());
        if self.execution.worker().settings.latency_tracking {
            stats.spreads.iteration_ns.record(busy_us * 1000);
            stats.spreads.iteration_commands.record(commands);
        }
        let mut until_us = self.look_again_us(idle_from_us);
        if !shared.lanes.begin_sleep(self.spec.index) {
            until_us = idle_from_us;
        }
        let pause_us = self.coalescing.pause_us(until_us.saturating_sub(idle_from_us));
        self.spec.handover.begin_wait(self.spec.index, idle_from_us);
        let EventLoop { execution, poll, connections, .. } = self;
        if pause_us > 0 {
            execution.stats(shared).coalesced_waits.add(1);
            execution.offline(|| event_poll::sleep_us(pause_us));
        }
        let timeout = wait_between(idle_from_us + pause_us, until_us);
        connections.reuse_indices();
        execution.offline(|| poll.wait(events, &timeout))?;
        shared.lanes.end_sleep(self.spec.index);
        let now_us = shared.clock.monotonic_us();
        self.spec.handover.end_wait(self.spec.index, now_us);
        self.load.end_wait(idle_from_us, now_us, !self.scheduler.has_debtors());
        Ok(now_us)
    }

    /// Latest end of the next wait for events that begins at `now_us`, in monotonic microseconds;
    /// not later than that when something is left to do.
    fn look_again_us(&self, now_us: u64) -> u64 {
        let worker = self.execution.worker();
        let has_queued = self.scheduler.queued_count() > 0;
        let has_more = worker.has_postponed() || worker.receivers.has_more();
        let has_input = self.arrivals.has_unseen() || self.replaying.has_more();
        if has_queued || has_more || has_input {
            return now_us;
        }
        let mut until_us = self.execution.look_again_us(now_us);
        if let Some(at_us) = self.scheduler.look_again_us(&self.spec.shared, worker, now_us) {
            until_us = until_us.min(at_us);
        }
        if let Some(at_us) = self.arrivals.look_again_us() {
            until_us = until_us.min(at_us);
        }
        until_us
    }

    /// Does periodic work between the commands of clients, in an iteration that began at
    /// `begun_us`. The clock is not read for that: what comes next is due to some milliseconds.
    fn between_commands(&mut self, begun_us: u64) {
        let EventLoop { spec: WorkerSpec { shared, .. }, execution, .. } = self;
        execution.between_commands(shared);
        let now_us = execution.worker().timed_us().max(begun_us);
        execution.sweep_if_due(shared, now_us);
        execution.defragment_if_due(shared, now_us);
        if self.load.begins_tick(now_us) {
            let begun_us = self.spec.shared.clock.monotonic_us();
            self.coalescing.judge(now_us);
            self.tick();
            self.balance(now_us);
            let WorkerSpec { shared, .. } = &self.spec;
            let took_us = shared.clock.monotonic_us() - begun_us;
            self.execution.stats(shared).tick_us.add(took_us);
        }
    }

    /// Applies the configuration that is in force now.
    fn reconfigure(&mut self) {
        self.execution.defragment_soon();
        self.config = AppliedConfig::new(&self.spec.shared);
        self.config.limit_output(self.execution.worker_mut());
        self.spec.handover.set_clients_max(self.config.clients_max);
        crate::log::configure(&self.config);
        if self.spec.index == 0 {
            self.spec.durability.configure(&self.config);
        }
        self.arrivals.replace_listeners(&self.poll, self.spec.listeners.accepting());
        let now_us = self.spec.shared.clock.monotonic_us();
        self.coalescing.configure(self.config.wakeup_coalescing_us, now_us);
    }

    /// Applies the configuration that is in force now, within an iteration: a change that was
    /// answered before a client connected applies to its connection.
    fn catch_up(&mut self) {
        if self.config.is_outdated(&self.spec.shared) {
            self.reconfigure();
            self.execution.worker_mut().refresh_settings(&self.spec.shared);
        }
    }

    fn handle(&mut self, source: EventSource, flags: EventFlags) {
        match source {
            EventSource::Waker => self.take_back_wake_ups(),
            EventSource::Listener(listener) => self.accept(listener),
            EventSource::Connection(index) => self.handle_connection(index, flags),
        }
    }

    /// Takes back all wake-ups so far. One of them may announce a message that was posted after
    /// this iteration looked: it would stay unread until the next event.
    fn take_back_wake_ups(&mut self) {
        let WorkerSpec { index, shared, waker, handover, .. } = &self.spec;
        waker.drain();
        self.arrivals
            .set_unseen(shared.mailboxes.has_messages(*index) || handover.has_arrivals(*index));
    }

    fn handle_connection(&mut self, index: usize, flags: EventFlags) {
        let Some(connection) = self.connections.get(index) else { return };
        let is_input = flags == EventFlags::IN;
        if is_input && connection.expects_request() && !self.scheduler.is_queued(index) {
            return self.gather(index);
        }
        self.measured(index, |event_loop| event_loop.handle_now(index, flags));
    }

    /// Handles events that are not gathered.
    fn handle_now(&mut self, index: usize, flags: EventFlags) {
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
