//! Connections on their way to another worker: new ones to the worker with the fewest, hot ones to the least busy.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tidemill_engine::mailbox::Notify;

use crate::connection::Connection;
use crate::listen::Origin;

/// A connection that was accepted and has no worker yet.
#[derive(Debug)]
pub(crate) struct Accepted {
    pub(crate) socket: OwnedFd,
    pub(crate) origin: Origin,
}

/// A connection that a worker is given.
#[derive(Debug)]
pub(crate) enum Arrival {
    New(Accepted),
    /// From another worker, in the middle of its life.
    Moved(Box<Connection>),
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

/// Connections per worker, and those on their way.
#[derive(Debug)]
pub(crate) struct Handover {
    state: Mutex<State>,
    /// By worker: whether connections wait for it. So that a worker with none does not lock at each iteration.
    has_waiting: Vec<AtomicBool>,
    wakers: Vec<Waker>,
    /// How busy each worker was in its last tick, in permille.
    loads: Vec<AtomicU32>,
}

#[derive(Debug)]
struct State {
    counts: Vec<usize>,
    waiting: Vec<Vec<Arrival>>,
    clients_max: usize,
}

impl Handover {
    pub(crate) fn new(wakers: Vec<Waker>, clients_max: usize) -> Handover {
        let state = State {
            counts: vec![0; wakers.len()],
            waiting: wakers.iter().map(|_| Vec::new()).collect(),
            clients_max,
        };
        let loads = wakers.iter().map(|_| AtomicU32::new(0)).collect();
        let has_waiting = wakers.iter().map(|_| AtomicBool::new(false)).collect();
        Handover { state: Mutex::new(state), has_waiting, wakers, loads }
    }

    /// Sets the most clients there may be; those beyond stay.
    pub(crate) fn set_clients_max(&self, clients_max: usize) {
        self.state().clients_max = clients_max;
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a new connection for the worker with the fewest and hands it over; gives it back when there are too many,
    /// or when `acceptor` itself is to keep it.
    pub(crate) fn place(&self, acceptor: usize, accepted: Accepted) -> Placed {
        let mut state = self.state();
        if state.counts.iter().sum::<usize>() >= state.clients_max {
            return Placed::TooMany(accepted);
        }
        let least = state.counts.iter().min().copied().unwrap_or(0);
        let worker = if state.counts[acceptor] == least {
            acceptor
        } else {
            state.counts.iter().position(|&count| count == least).unwrap_or(acceptor)
        };
        state.counts[worker] += 1;
        if worker == acceptor {
            return Placed::Here(accepted);
        }
        self.announce(&mut state, worker, Arrival::New(accepted));
        drop(state);
        self.wakers[worker].notify();
        Placed::Elsewhere
    }

    fn announce(&self, state: &mut State, worker: usize, arrival: Arrival) {
        state.waiting[worker].push(arrival);
        // Relaxed: stored under the lock. Who learns of the arrival by anything that its sender does afterwards sees it.
        self.has_waiting[worker].store(true, Ordering::Relaxed);
    }

    /// Whether connections wait for a worker, as far as it can know.
    pub(crate) fn has_arrivals(&self, worker: usize) -> bool {
        // Relaxed: as in `take`.
        self.has_waiting[worker].load(Ordering::Relaxed)
    }

    /// The connections that were handed to a worker.
    pub(crate) fn take(&self, worker: usize) -> Vec<Arrival> {
        // Relaxed: an arrival that is announced right now is followed by a wake-up.
        if !self.has_waiting[worker].load(Ordering::Relaxed) {
            return Vec::new();
        }
        let mut state = self.state();
        self.has_waiting[worker].store(false, Ordering::Relaxed);
        std::mem::take(&mut state.waiting[worker])
    }

    /// A worker tells how busy it was.
    pub(crate) fn publish_load(&self, worker: usize, busy_permille: u32) {
        // Relaxed, here and below: a hint, renewed at every tick.
        self.loads[worker].store(busy_permille, Ordering::Relaxed);
    }

    /// The least busy worker, and how busy it is.
    pub(crate) fn least_busy(&self) -> (usize, u32) {
        let loads = self.loads.iter().map(|load| load.load(Ordering::Relaxed));
        let least = loads.enumerate().min_by_key(|&(_, load)| load);
        least.expect("there is a worker")
    }

    /// Gives a connection of the worker `from` to the worker `to`.
    pub(crate) fn transfer(&self, from: usize, to: usize, connection: Connection) {
        let mut state = self.state();
        state.counts[from] -= 1;
        state.counts[to] += 1;
        self.announce(&mut state, to, Arrival::Moved(Box::new(connection)));
        drop(state);
        self.wakers[to].notify();
    }

    /// A worker's connection has ended.
    pub(crate) fn ended(&self, worker: usize) {
        self.state().counts[worker] -= 1;
    }
}

/// Where a new connection went.
#[derive(Debug)]
pub(crate) enum Placed {
    Here(Accepted),
    Elsewhere,
    TooMany(Accepted),
}
