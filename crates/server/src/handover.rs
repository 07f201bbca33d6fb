//! Connections on their way to another worker: new ones to the worker with the fewest, busy ones to
//! the least busy.
//!
//! Only workers that *respond* get connections: they wait for events, or began an iteration lately.
//! A worker inside a long command gets none, and a connection it was given just before the command
//! began is taken back by a worker that responds. A connection that a worker has taken stays with
//! it.
//!
//! The owner of a moved connection's client ([`Client::owner`]) changes under the lock of the
//! queues: it names the worker that has the connection, or in whose queue that waits, or that has
//! taken it out of another's and has not gone on since. What was sent to an earlier owner is
//! therefore passed on until it arrives.
//!
//! [`Client::owner`]: tidemill_engine::shared::clients::Client::owner

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tidemill_engine::slots::mailbox::Notify;

use crate::connection::Connection;
use crate::limits::{OVERDUE_US, RESPONDS_US, WAITS_US};
use crate::listen::Origin;
use crate::tls::stream::Established;

/// A connection that was accepted and has no worker yet.
#[derive(Debug)]
pub(crate) struct Accepted {
    pub(crate) socket: OwnedFd,
    pub(crate) origin: Origin,
    /// Result of the handshake, with TLS.
    pub(crate) tls: Option<Box<Established>>,
}

impl Accepted {
    /// A connection without TLS, or before its handshake.
    pub(crate) fn new(socket: OwnedFd, origin: Origin) -> Accepted {
        Accepted { socket, origin, tls: None }
    }
}

/// A connection that is handed to a worker.
#[derive(Debug)]
pub(crate) enum Arrival {
    New(Accepted),
    /// From another worker, in the middle of its life.
    Moved(Box<Connection>),
}

impl Arrival {
    /// A new one has no client yet.
    fn set_owner(&self, worker: usize) {
        if let Arrival::Moved(connection) = self {
            connection.session.client.set_owner(worker);
        }
    }
}

/// Wakes a worker's event loop.
#[derive(Clone, Debug)]
pub(crate) struct Waker(Arc<OwnedFd>);

impl Waker {
    pub(crate) fn new() -> std::io::Result<Waker> {
        use rustix::event::{EventfdFlags, eventfd};
        Ok(Waker(Arc::new(eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?)))
    }

    pub(crate) fn descriptor(&self) -> &OwnedFd {
        &self.0
    }

    /// Takes back all wake-ups so far.
    pub(crate) fn drain(&self) {
        let mut count = [0_u8; 8];
        // Nothing to read means that another wake-up was drained before: fine.
        let _ = rustix::io::read(&*self.0, &mut count);
    }
}

impl Notify for Waker {
    fn notify(&self) {
        // A full counter wakes as well.
        let _ = rustix::io::write(&*self.0, &1_u64.to_ne_bytes());
    }
}

/// Time at which a worker's event loop began its last iteration, on a cache line of its own: stored
/// at each iteration by its worker, read only where connections are placed.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Pulse(AtomicU64);

/// Bit of a pulse that is set while the worker waits for events; the others are monotonic
/// microseconds, doubled.
const WAITS: u64 = 1;

impl Pulse {
    /// Relaxed, here and below: a hint about time; nothing else is published by it.
    #[inline]
    fn store(&self, now_us: u64, waits: u64) {
        self.0.store(now_us << 1 | waits, Ordering::Relaxed);
    }

    /// True if the worker takes a connection soon. A waiting worker does, unless its thread is not
    /// run: it wakes up at each tick.
    fn responds(&self, now_us: u64) -> bool {
        let pulse = self.0.load(Ordering::Relaxed);
        let bound_us = if pulse & WAITS == 0 { RESPONDS_US } else { WAITS_US };
        now_us.saturating_sub(pulse >> 1) <= bound_us
    }
}

/// Connections per worker, and those on their way.
#[derive(Debug)]
pub(crate) struct Handover {
    state: Mutex<State>,
    pulses: Vec<Pulse>,
    /// True by worker if connections wait for it. A worker with none does not lock at each
    /// iteration.
    has_waiting: Vec<AtomicBool>,
    wakers: Vec<Waker>,
    /// Busy time of each worker in its last tick, in permille.
    loads: Vec<AtomicU32>,
}

#[derive(Debug)]
struct State {
    counts: Vec<usize>,
    waiting: Vec<Vec<Waiting>>,
    /// Handshakes under way, which count as clients.
    handshake_count: usize,
    clients_max: usize,
}

impl State {
    fn is_full(&self) -> bool {
        self.counts.iter().sum::<usize>() + self.handshake_count >= self.clients_max
    }
}

#[derive(Debug)]
struct Waiting {
    since_us: u64,
    arrival: Arrival,
}

impl Handover {
    /// Handover among the workers of `wakers`, none of which has run yet.
    pub(crate) fn new(wakers: Vec<Waker>, clients_max: usize) -> Handover {
        let state = State {
            counts: vec![0; wakers.len()],
            waiting: wakers.iter().map(|_| Vec::new()).collect(),
            handshake_count: 0,
            clients_max,
        };
        let loads = wakers.iter().map(|_| AtomicU32::new(0)).collect();
        let has_waiting = wakers.iter().map(|_| AtomicBool::new(false)).collect();
        let pulses = wakers.iter().map(|_| Pulse::default()).collect();
        Handover { state: Mutex::new(state), pulses, has_waiting, wakers, loads }
    }

    /// Sets the maximum number of clients; clients beyond it stay.
    pub(crate) fn set_clients_max(&self, clients_max: usize) {
        self.state().clients_max = clients_max;
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that a worker begins to wait for events.
    #[inline]
    pub(crate) fn begin_wait(&self, worker: usize, now_us: u64) {
        self.pulses[worker].store(now_us, WAITS);
    }

    /// Notes that a worker's wait for events is over and an iteration of its event loop begins.
    #[inline]
    pub(crate) fn end_wait(&self, worker: usize, now_us: u64) {
        self.pulses[worker].store(now_us, 0);
    }

    /// Counts a new connection for the worker with the fewest of those that respond, and hands it
    /// over; gives it back when there are too many, or when `acceptor` itself is to keep it. The
    /// acceptor responds: it is accepting.
    pub(crate) fn place(&self, acceptor: usize, accepted: Accepted, now_us: u64) -> Placed {
        let mut state = self.state();
        if state.is_full() {
            return Placed::TooMany(accepted);
        }
        let counts = state.counts.iter().enumerate();
        let least = counts
            .filter(|&(worker, _)| worker == acceptor || self.pulses[worker].responds(now_us))
            .min_by_key(|&(worker, &count)| (count, worker != acceptor));
        let worker = least.map_or(acceptor, |(worker, _)| worker);
        state.counts[worker] += 1;
        if worker == acceptor {
            return Placed::Here(accepted);
        }
        self.announce(
            &mut state,
            worker,
            Waiting { since_us: now_us, arrival: Arrival::New(accepted) },
        );
        drop(state);
        self.wakers[worker].notify();
        Placed::Elsewhere
    }

    /// Counts a handshake that begins; false when there are too many clients.
    pub(crate) fn begin_handshake(&self) -> bool {
        let mut state = self.state();
        let has_room = !state.is_full();
        state.handshake_count += usize::from(has_room);
        has_room
    }

    /// Notes that a handshake has ended without a connection.
    pub(crate) fn end_handshake(&self) {
        self.state().handshake_count -= 1;
    }

    /// Hands over a connection whose handshake is complete, as [`place`](Self::place) does. If no
    /// worker responds, the one with the fewest connections gets it, and another takes it back.
    pub(crate) fn place_established(&self, accepted: Accepted, now_us: u64) {
        let mut state = self.state();
        state.handshake_count -= 1;
        let counts = state.counts.iter().enumerate();
        let least =
            counts.min_by_key(|&(worker, &count)| (!self.pulses[worker].responds(now_us), count));
        let (worker, _) = least.expect("a server has workers");
        state.counts[worker] += 1;
        let arrival = Arrival::New(accepted);
        self.announce(&mut state, worker, Waiting { since_us: now_us, arrival });
        drop(state);
        self.wakers[worker].notify();
    }

    fn announce(&self, state: &mut State, worker: usize, waiting: Waiting) {
        // Relaxed: stored under the lock. A thread that learns of the arrival by a later action of
        // its sender, such as the change of its owner, sees it.
        self.has_waiting[worker].store(true, Ordering::Relaxed);
        waiting.arrival.set_owner(worker);
        state.waiting[worker].push(waiting);
    }

    /// True if connections wait for a worker, by the worker's own view: it may miss one that is
    /// announced right now.
    pub(crate) fn has_arrivals(&self, worker: usize) -> bool {
        // Relaxed: as in `take`.
        self.has_waiting[worker].load(Ordering::Relaxed)
    }

    /// Takes the connections that were handed to a worker.
    pub(crate) fn take(&self, worker: usize) -> Vec<Arrival> {
        // Relaxed: an arrival that is announced right now is followed by a wake-up.
        if !self.has_waiting[worker].load(Ordering::Relaxed) {
            return Vec::new();
        }
        let mut state = self.state();
        self.has_waiting[worker].store(false, Ordering::Relaxed);
        let waiting = std::mem::take(&mut state.waiting[worker]);
        waiting.into_iter().map(|waiting| waiting.arrival).collect()
    }

    /// Takes the connections that other workers were given and have not taken in [`OVERDUE_US`],
    /// and counts them for `worker`.
    pub(crate) fn take_overdue(&self, worker: usize, now_us: u64) -> Vec<Arrival> {
        let mut overdue = Vec::new();
        // Relaxed: what is announced right now is not overdue.
        if !self.has_waiting() {
            return overdue;
        }
        let State { counts, waiting, .. } = &mut *self.state();
        for other in (0..counts.len()).filter(|&other| other != worker) {
            let is_overdue =
                |waiting: &mut Waiting| now_us.saturating_sub(waiting.since_us) >= OVERDUE_US;
            let taken = waiting[other].extract_if(.., is_overdue).map(|waiting| waiting.arrival);
            let before = overdue.len();
            overdue.extend(taken.inspect(|arrival| arrival.set_owner(worker)));
            counts[other] -= overdue.len() - before;
        }
        counts[worker] += overdue.len();
        overdue
    }

    /// True if any worker has not taken all of its connections.
    pub(crate) fn has_waiting(&self) -> bool {
        // Relaxed: the worker that announced it sees it, and looks again later.
        self.has_waiting.iter().any(|has_waiting| has_waiting.load(Ordering::Relaxed))
    }

    /// Publishes how busy a worker was.
    pub(crate) fn publish_load(&self, worker: usize, busy_permille: u32) {
        // Relaxed, here and below: a hint, renewed at every tick.
        self.loads[worker].store(busy_permille, Ordering::Relaxed);
    }

    /// The least busy worker that responds, with its busy permille in the last tick. `worker`,
    /// which asks, responds.
    pub(crate) fn least_busy(&self, worker: usize, now_us: u64) -> (usize, u32) {
        let loads = self.loads.iter().map(|load| load.load(Ordering::Relaxed)).enumerate();
        let least = loads
            .filter(|&(other, _)| other == worker || self.pulses[other].responds(now_us))
            .min_by_key(|&(_, load)| load);
        least.expect("the worker that asks is one of them")
    }

    /// Gives a connection of the worker `from` to the worker `to`.
    pub(crate) fn transfer(&self, from: usize, to: usize, connection: Connection, now_us: u64) {
        let mut state = self.state();
        state.counts[from] -= 1;
        state.counts[to] += 1;
        let arrival = Arrival::Moved(Box::new(connection));
        self.announce(&mut state, to, Waiting { since_us: now_us, arrival });
        drop(state);
        self.wakers[to].notify();
    }

    /// Notes that a connection of a worker has ended.
    pub(crate) fn ended(&self, worker: usize) {
        self.state().counts[worker] -= 1;
    }
}

/// Destination of a new connection.
#[derive(Debug)]
pub(crate) enum Placed {
    Here(Accepted),
    Elsewhere,
    TooMany(Accepted),
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::*;

    const NOW_US: u64 = 1_000_000_000;

    /// Handover among `worker_count` workers, all of which wait for events.
    fn waiting(worker_count: usize) -> Handover {
        let wakers = (0..worker_count).map(|_| Waker::new().expect("an event descriptor"));
        let handover = Handover::new(wakers.collect(), 1000);
        (0..worker_count).for_each(|worker| handover.begin_wait(worker, NOW_US));
        handover
    }

    fn accepted() -> Accepted {
        let (socket, _) = UnixStream::pair().expect("two sockets");
        Accepted::new(socket.into(), Origin::Unix { path: "/socket".into() })
    }

    /// Connections by worker after `count` more were accepted by the first one.
    fn counts_after(handover: &Handover, count: usize, now_us: u64) -> Vec<usize> {
        for _ in 0..count {
            let placed = handover.place(0, accepted(), now_us);
            assert!(!matches!(placed, Placed::TooMany(_)));
        }
        handover.state().counts.clone()
    }

    #[test]
    fn a_worker_inside_a_long_command_gets_no_connections() {
        let handover = waiting(3);
        assert_eq!(counts_after(&handover, 6, NOW_US), [2, 2, 2]);
        handover.end_wait(1, NOW_US);
        assert_eq!(counts_after(&handover, 3, NOW_US + RESPONDS_US), [3, 3, 3], "not long yet");
        let late_us = NOW_US + RESPONDS_US + 1;
        assert_eq!(counts_after(&handover, 4, late_us), [5, 3, 5]);
        handover.publish_load(0, 500);
        assert_eq!(handover.least_busy(0, late_us), (2, 0), "nor moved ones");
        handover.end_wait(1, late_us);
        assert_eq!(counts_after(&handover, 4, late_us), [6, 6, 5], "evened out when it is back");
    }

    #[test]
    fn workers_whose_threads_are_not_run_or_have_not_started_get_none() {
        let handover = waiting(2);
        assert_eq!(counts_after(&handover, 2, NOW_US + WAITS_US), [1, 1]);
        assert_eq!(counts_after(&handover, 2, NOW_US + WAITS_US + 1), [3, 1]);
        let unborn = Handover::new(vec![Waker::new().expect("an event descriptor"); 2], 10);
        assert_eq!(counts_after(&unborn, 2, NOW_US), [2, 0]);
    }

    #[test]
    fn arrival_not_taken_in_time_goes_to_another_worker() {
        let handover = waiting(3);
        assert_eq!(counts_after(&handover, 3, NOW_US), [1, 1, 1]);
        assert_eq!(handover.take(2).len(), 1);
        assert!(handover.take_overdue(2, NOW_US + OVERDUE_US - 1).is_empty());
        assert_eq!(handover.take_overdue(2, NOW_US + OVERDUE_US).len(), 1);
        assert_eq!(handover.state().counts, [1, 0, 2]);
        assert!(handover.take(1).is_empty());
        handover.ended(2);
        handover.ended(2);
        assert_eq!(handover.state().counts, [1, 0, 0]);
    }
}
