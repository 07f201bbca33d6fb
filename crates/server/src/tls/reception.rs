//! Threads that do handshakes, and what these work with.
//!
//! Each thread has an event loop of its own over the sockets whose handshakes are under way. They
//! are few, young and small: beyond [`HANDSHAKES_MAX`] the oldest makes room, none lasts longer
//! than [`HANDSHAKE_TIME`], and none keeps more than [`HANDSHAKE_INPUT_BYTES_MAX`]. All of them
//! count as clients for `maxclients`. The first thread also looks at the files every
//! `tls-auto-reload-interval`.
//!
//! [`HANDSHAKE_INPUT_BYTES_MAX`]: crate::limits::HANDSHAKE_INPUT_BYTES_MAX

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::io::Errno;
use slab::Slab;
use tidemill_engine::config::ServerConfig;
use tidemill_engine::shared::Shared;
use tidemill_engine::slots::mailbox::Notify;
use tidemill_engine::telemetry::line_rate::LineRate;

use super::context::TlsContext;
use super::files::TlsFiles;
use super::handshake::{Handshake, HandshakeError};
use crate::allocator;
use crate::handover::{Accepted, Handover, Waker};
use crate::limits::{
    HANDSHAKE_LINE_US, HANDSHAKE_READ_BYTES, HANDSHAKE_THREADS_MAX, HANDSHAKE_TIME, HANDSHAKES_MAX,
    WORKERS_PER_HANDSHAKE_THREAD,
};
use crate::listen::Origin;

const WAKER: u64 = u64::MAX;

/// Events that a thread takes from the kernel at a time.
const EVENTS_MAX: usize = 64;

/// Handshakes of the server.
#[derive(Debug)]
pub(crate) struct Reception {
    in_force: Mutex<InForce>,
    queues: Vec<Queue>,
    next: AtomicUsize,
    counts: Counts,
}

/// Context that new handshakes get, and the configuration that it is made of.
#[derive(Debug, Default)]
struct InForce {
    context: Option<Arc<TlsContext>>,
    config: Option<ServerConfig>,
}

/// Accepted sockets on their way to a thread.
#[derive(Debug)]
struct Queue {
    waker: Waker,
    arrived: Mutex<Vec<Accepted>>,
}

/// Counts of handshakes; relaxed, for information only.
#[derive(Debug, Default)]
struct Counts {
    pending: AtomicU64,
    completed: AtomicU64,
    failed: AtomicU64,
    dropped: AtomicU64,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Reception {
    /// Handshakes of a server with `worker_count` workers; no thread runs yet.
    ///
    /// # Errors
    ///
    /// When there is no event descriptor.
    pub(crate) fn new(worker_count: usize) -> std::io::Result<Reception> {
        let thread_count =
            worker_count.div_ceil(WORKERS_PER_HANDSHAKE_THREAD).clamp(1, HANDSHAKE_THREADS_MAX);
        let queue = |_| Ok(Queue { waker: Waker::new()?, arrived: Mutex::default() });
        Ok(Reception {
            in_force: Mutex::default(),
            queues: (0..thread_count).map(queue).collect::<std::io::Result<_>>()?,
            next: AtomicUsize::new(0),
            counts: Counts::default(),
        })
    }

    /// Number of threads that it needs.
    pub(crate) fn thread_count(&self) -> usize {
        self.queues.len()
    }

    /// Puts a configuration in force, and its context, none without a port.
    pub(crate) fn install(&self, config: ServerConfig, context: Option<TlsContext>) {
        let context = context.map(Arc::new);
        *lock(&self.in_force) = InForce { context, config: Some(config) };
        self.queues.iter().for_each(|queue| queue.waker.notify());
    }

    /// Context that new handshakes get.
    pub(crate) fn context(&self) -> Option<Arc<TlsContext>> {
        lock(&self.in_force).context.clone()
    }

    /// Begins the handshake of an accepted socket on one of the threads. False when
    /// too many wait for the thread: the socket is dropped.
    pub(crate) fn receive(&self, accepted: Accepted) -> bool {
        // Relaxed: any thread will do.
        let next = self.next.fetch_add(1, Ordering::Relaxed);
        let queue = &self.queues[next % self.queues.len()];
        let mut arrived = lock(&queue.arrived);
        if arrived.len() >= HANDSHAKES_MAX {
            self.counts.dropped.fetch_add(1, Ordering::Relaxed);
            return false;
        }
        arrived.push(accepted);
        drop(arrived);
        queue.waker.notify();
        true
    }

    /// Counts and certificates, for `INFO`.
    pub(crate) fn facts(&self, now_s: i64) -> Vec<(&'static str, String)> {
        let Counts { pending, completed, failed, dropped } = &self.counts;
        let count = |count: &AtomicU64| count.load(Ordering::Relaxed).to_string();
        let mut facts = vec![
            ("tls_handshakes_pending", count(pending)),
            ("tls_handshakes_completed", count(completed)),
            ("tls_handshakes_failed", count(failed)),
            ("tls_handshakes_dropped", count(dropped)),
        ];
        if let Some(context) = self.context() {
            let left = |not_after_s: i64| (not_after_s - now_s).max(0).to_string();
            let server = &context.certificate;
            facts.push(("tls_server_cert_serial", server.serial.clone()));
            facts.push(("tls_server_cert_expires_in_seconds", left(server.not_after_s)));
            if let Some(outgoing) = &context.outgoing {
                facts.push(("tls_client_cert_serial", outgoing.serial.clone()));
                facts.push(("tls_client_cert_expires_in_seconds", left(outgoing.not_after_s)));
            }
            if let Some(authority) = &context.authority {
                facts.push(("tls_ca_cert_serial", authority.serial.clone()));
                facts.push(("tls_ca_cert_expires_in_seconds", left(authority.not_after_s)));
            }
        }
        facts
    }

    /// Seconds between looks at the files; none without a port, or when they are not looked at.
    fn reload_interval(&self) -> Option<Duration> {
        let in_force = lock(&self.in_force);
        let config = in_force.config.as_ref().filter(|_| in_force.context.is_some())?;
        let seconds = u64::from(config.tls.reload_seconds);
        (seconds > 0).then(|| Duration::from_secs(seconds))
    }

    /// Takes up files that have changed. What is in force stays when they are wrong, and when
    /// CONFIG SET was faster. Blocks.
    fn reload(&self) {
        let (context, config) = {
            let in_force = lock(&self.in_force);
            let (Some(context), Some(config)) = (&in_force.context, &in_force.config) else {
                return;
            };
            (Arc::clone(context), config.clone())
        };
        let loaded = TlsFiles::read(&config.tls).and_then(|files| {
            let has_changed = files.fingerprint() != context.fingerprint;
            has_changed.then(|| TlsContext::new(&config.tls, &files)).transpose()
        });
        match loaded {
            Ok(None) => log::debug!("TLS reload skipped: materials unchanged"),
            Ok(Some(loaded)) => {
                let mut in_force = lock(&self.in_force);
                if in_force.context.as_ref().is_some_and(|now| Arc::ptr_eq(now, &context)) {
                    in_force.context = Some(Arc::new(loaded));
                    log::info!("TLS materials reloaded successfully");
                }
            }
            Err(error) => log::warn!("TLS materials are not reloaded: {error}"),
        }
    }
}

/// A handshake under way, with a number that no other one of its thread has.
struct Pending {
    number: u64,
    handshake: Handshake,
    interest: EventFlags,
}

/// One thread's handshakes.
struct Receptionist {
    index: usize,
    reception: Arc<Reception>,
    handover: Arc<Handover>,
    shared: Arc<Shared>,
    epoll: std::os::fd::OwnedFd,
    pending: Slab<Pending>,
    /// Begin, number and key of handshakes, the oldest first; also of some that have ended.
    by_age: VecDeque<(Instant, u64, usize)>,
    next_number: u64,
    scratch: Vec<u8>,
    failures: LineRate,
    unlogged_count: u64,
    reload_from: Instant,
}

/// Runs thread `index` of a reception. Returns only when the event loop fails.
///
/// # Errors
///
/// The system's refusal.
pub(crate) fn run(
    index: usize,
    reception: Arc<Reception>,
    handover: Arc<Handover>,
    shared: Arc<Shared>,
) -> std::io::Result<()> {
    let epoll = epoll::create(CreateFlags::CLOEXEC)?;
    let waker = reception.queues[index].waker.clone();
    epoll::add(&epoll, waker.descriptor(), EventData::new_u64(WAKER), EventFlags::IN)?;
    let mut receptionist = Receptionist {
        index,
        reception,
        handover,
        shared,
        epoll,
        pending: Slab::new(),
        by_age: VecDeque::new(),
        next_number: 0,
        scratch: vec![0; HANDSHAKE_READ_BYTES],
        failures: LineRate::new(HANDSHAKE_LINE_US),
        unlogged_count: 0,
        reload_from: Instant::now(),
    };
    let mut events: Vec<Event> = Vec::with_capacity(EVENTS_MAX);
    loop {
        receptionist.iterate(&waker, &mut events)?;
    }
}

impl Receptionist {
    fn iterate(&mut self, waker: &Waker, events: &mut Vec<Event>) -> std::io::Result<()> {
        let timeout = self.timeout();
        events.clear();
        match epoll::wait(&self.epoll, rustix::buffer::spare_capacity(events), timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        for event in &*events {
            match event.data.u64() {
                WAKER => waker.drain(),
                key => self.advance(key as usize),
            }
        }
        self.admit();
        self.expire();
        if self.reload_at().is_some_and(|at| at <= Instant::now()) {
            self.reception.reload();
            self.reload_from = Instant::now();
        }
        Ok(())
    }

    /// Time of the next look at the files.
    fn reload_at(&self) -> Option<Instant> {
        let interval = (self.index == 0).then(|| self.reception.reload_interval()).flatten()?;
        self.reload_from.checked_add(interval)
    }

    /// Duration of the next wait for events; none for a wait without end.
    fn timeout(&self) -> Option<Timespec> {
        let oldest = self.by_age.front().map(|&(since, ..)| since + HANDSHAKE_TIME);
        let until = [oldest, self.reload_at()].into_iter().flatten().min()?;
        // A millisecond more than needed, so that it is over at the wake-up.
        let wait = until.saturating_duration_since(Instant::now()) + Duration::from_millis(1);
        Some(Timespec { tv_sec: wait.as_secs() as i64, tv_nsec: wait.subsec_nanos().into() })
    }

    /// Begins the handshakes that have arrived.
    fn admit(&mut self) {
        let arrived = std::mem::take(&mut *lock(&self.reception.queues[self.index].arrived));
        // Without memory the handshakes that are under way may go on, and no other begins.
        let has_memory = allocator::keep_reserve();
        for accepted in arrived {
            if !has_memory {
                self.reception.counts.dropped.fetch_add(1, Ordering::Relaxed);
                self.handover.end_handshake();
                continue;
            }
            while self.pending.len() >= HANDSHAKES_MAX && self.drop_oldest() {}
            let context = self.reception.context();
            let handshake = context.map(|context| Handshake::new(accepted, &context));
            let Some(Ok(handshake)) = handshake else {
                // The port was closed meanwhile.
                self.handover.end_handshake();
                continue;
            };
            let entry = self.pending.vacant_entry();
            let (key, interest) = (entry.key(), EventFlags::IN);
            let data = EventData::new_u64(key as u64);
            if epoll::add(&self.epoll, &handshake.accepted.socket, data, interest).is_err() {
                self.handover.end_handshake();
                continue;
            }
            let number = self.next_number;
            self.next_number += 1;
            self.by_age.push_back((Instant::now(), number, key));
            entry.insert(Pending { number, handshake, interest });
            self.reception.counts.pending.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Drops the handshakes whose time is over, and forgets those that have ended.
    fn expire(&mut self) {
        while let Some(&(since, number, key)) = self.by_age.front() {
            let is_pending = self.pending.get(key).is_some_and(|other| other.number == number);
            if is_pending && since.elapsed() < HANDSHAKE_TIME {
                return;
            }
            self.drop_oldest();
        }
    }

    /// Drops the oldest handshake, if it has not ended; false when there is none.
    fn drop_oldest(&mut self) -> bool {
        let Some((_, number, key)) = self.by_age.pop_front() else { return false };
        if self.pending.get(key).is_some_and(|other| other.number == number) {
            let ended = self.remove(key);
            self.reception.counts.dropped.fetch_add(1, Ordering::Relaxed);
            self.log(&ended, &"it was not complete in time");
            self.handover.end_handshake();
        }
        true
    }

    fn remove(&mut self, key: usize) -> Handshake {
        self.reception.counts.pending.fetch_sub(1, Ordering::Relaxed);
        let ended = self.pending.remove(key).handshake;
        // It is registered, so this cannot fail.
        let _ = epoll::delete(&self.epoll, &ended.accepted.socket);
        ended
    }

    /// Advances a handshake by one step.
    fn advance(&mut self, key: usize) {
        let Some(pending) = self.pending.get_mut(key) else { return };
        match pending.handshake.advance(&mut self.scratch) {
            Ok(true) => {
                let accepted = self.remove(key).into_accepted();
                self.reception.counts.completed.fetch_add(1, Ordering::Relaxed);
                self.handover.place_established(accepted, self.shared.clock.monotonic_us());
            }
            Ok(false) => {
                let mut wanted = EventFlags::IN;
                wanted.set(EventFlags::OUT, pending.handshake.has_unsent());
                if wanted != pending.interest {
                    pending.interest = wanted;
                    let data = EventData::new_u64(key as u64);
                    // It is registered; should it fail, the handshake's time runs out.
                    let _ = epoll::modify(
                        &self.epoll,
                        &pending.handshake.accepted.socket,
                        data,
                        wanted,
                    );
                }
            }
            Err(error) => {
                let ended = self.remove(key);
                self.reception.counts.failed.fetch_add(1, Ordering::Relaxed);
                self.fail(&ended, &error);
                self.handover.end_handshake();
            }
        }
    }

    fn fail(&mut self, ended: &Handshake, error: &HandshakeError) {
        match error {
            // As when a client of the other port goes.
            HandshakeError::Gone => log::debug!("Client closed connection during its handshake"),
            error => self.log(ended, error),
        }
    }

    /// Logs why a handshake has ended: the first one at once, then one in a second.
    fn log(&mut self, ended: &Handshake, why: &dyn std::fmt::Display) {
        self.unlogged_count += 1;
        if !self.failures.admits(self.shared.clock.monotonic_us()) {
            return;
        }
        let addresses = match &ended.accepted.origin {
            Origin::Tcp { peer, local, .. } => format!("addr={peer} laddr={local}"),
            Origin::Unix { path } => format!("addr={path}"),
        };
        let others = match std::mem::take(&mut self.unlogged_count) - 1 {
            0 => String::new(),
            count => format!(" ({count} more since the last line)"),
        };
        log::warn!("Error accepting a client connection: {why} ({addresses}){others}");
    }
}
