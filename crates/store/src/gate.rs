//! The gate: stops all members of a keyspace at a boundary between two commands, for a change of
//! the whole keyspace.
//!
//! Each member has a seat with a flag of its own that is set while it runs commands. It is
//! independent of the RCU flavour. A worker enters before a batch and leaves before it waits for
//! events; in between it looks at the gate once per batch. A closer reopens the gate when the
//! others do not stop in time: no member waits for long, least of all for a worker in a long
//! command. A caller whose attempt failed allows more time at the next one, so that it succeeds in
//! the end however busy the others are. One member at a time closes the gate.
//!
//! A [`Gate`] belongs to one [`Keyspace`](crate::Keyspace), and a seat at it is taken by joining
//! the keyspace, so a [`ClosedGate`] proves that every thread which may read or write the keyspace
//! is between two commands. The keyspace demands it for changes that must not be seen half done,
//! and checks that it is of its own gate.

use std::marker::PhantomData;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering, fence};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use crate::limits::MEMBERS_MAX;

/// Number of spins after which a closer yields its processor between two looks at the others.
const SPINS_MAX: u32 = 1000;

/// Number of times that a member yields its processor before it sleeps until the gate opens.
const YIELDS_MAX: u32 = 1000;

#[derive(Debug, Default)]
#[repr(align(64))]
struct SeatState {
    is_taken: AtomicBool,
    is_running: AtomicBool,
}

/// The gate of one keyspace.
#[derive(Debug)]
pub struct Gate {
    is_closed: AtomicBool,
    /// Seats from this index on were never taken.
    end: AtomicUsize,
    seats: Box<[SeatState]>,
    /// Locked while the gate is opened.
    opening: Mutex<()>,
    opened: Condvar,
}

/// Seat of a member at the gate; given back when it is dropped. It belongs to its thread.
#[derive(Debug)]
pub struct Seat {
    gate: Arc<Gate>,
    index: usize,
    // Neither `Send` nor `Sync`: one thread sets the flag of its seat.
    not_send: PhantomData<*const ()>,
}

/// Proof that all other members have stopped. Dropping it lets them go on.
#[derive(Debug)]
pub struct ClosedGate<'k>(&'k Gate);

impl Gate {
    pub(crate) fn new() -> Gate {
        Gate {
            is_closed: AtomicBool::new(false),
            end: AtomicUsize::new(0),
            seats: (0..MEMBERS_MAX).map(|_| SeatState::default()).collect(),
            opening: Mutex::new(()),
            opened: Condvar::new(),
        }
    }

    /// Waits until the gate is open: yields at first, then sleeps, as a closer may save all data.
    fn wait_until_open(&self) {
        for _ in 0..YIELDS_MAX {
            // Relaxed: a hint, as below; `enter` loads with the fence.
            if !self.is_closed.load(Ordering::Relaxed) {
                return;
            }
            std::thread::yield_now();
        }
        let mut asleep = self.opening.lock().unwrap_or_else(PoisonError::into_inner);
        // The gate is opened under the mutex, so no opening is missed.
        while self.is_closed.load(Ordering::Relaxed) {
            asleep = self.opened.wait(asleep).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Takes the first free seat, outside of the gate; none if all are taken.
    pub(crate) fn sit(self: &Arc<Gate>) -> Option<Seat> {
        let index = self.seats.iter().position(|seat| {
            // Acquire: pairs with the Release in `Seat::drop`; no store of the former member is
            // left.
            let taken =
                seat.is_taken.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed);
            taken.is_ok()
        })?;
        // Relaxed: `Seat::enter` stores and fences afterwards; see `close`.
        self.end.fetch_max(index + 1, Ordering::Relaxed);
        Some(Seat { gate: Arc::clone(self), index, not_send: PhantomData })
    }

    /// Stops all members but `closer`. None if `is_late` became true first, or if another member is
    /// closing the gate.
    ///
    /// # Panics
    ///
    /// When the seat is at another gate.
    #[must_use]
    pub(crate) fn close(
        &self,
        closer: &Seat,
        is_late: impl Fn() -> bool,
    ) -> Option<ClosedGate<'_>> {
        assert!(std::ptr::eq(&raw const *closer.gate, self), "a seat at another keyspace's gate");
        // Acquire: pairs with the Release in `ClosedGate::drop`; one closes after the other. The
        // fence orders the store before the loads.
        self.is_closed.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed).ok()?;
        let closed = ClosedGate(self);
        // SeqCst: pairs with the fence in `enter`: either a member sees the gate closed or this
        // thread sees it running, and then its seat below `end`.
        fence(Ordering::SeqCst);
        let mut spins = 0;
        let seats = &self.seats[..self.end.load(Ordering::Relaxed)];
        for (index, seat) in seats.iter().enumerate() {
            // Acquire: pairs with the Release in `leave`.
            while index != closer.index && seat.is_running.load(Ordering::Acquire) {
                if is_late() {
                    return None;
                }
                if spins < SPINS_MAX {
                    spins += 1;
                    std::hint::spin_loop();
                } else {
                    // The running thread may be waiting for this very processor.
                    std::thread::yield_now();
                }
            }
        }
        Some(closed)
    }
}

impl Seat {
    fn state(&self) -> &SeatState {
        &self.gate.seats[self.index]
    }

    /// Marks the thread as about to run commands; waits while the gate is closed. Tells whether it
    /// was.
    pub fn enter(&self) -> bool {
        let is_closed = &self.gate.is_closed;
        let mut has_waited = false;
        loop {
            // Relaxed: the fence orders it before the load.
            self.state().is_running.store(true, Ordering::Relaxed);
            // SeqCst: pairs with the fence in `close`: either this thread sees the gate closed or
            // the closer sees it running.
            fence(Ordering::SeqCst);
            // Acquire: pairs with the Release in `ClosedGate::drop`; the closer's changes are
            // visible.
            if !is_closed.load(Ordering::Acquire) {
                return has_waited;
            }
            self.leave();
            self.gate.wait_until_open();
            has_waited = true;
        }
    }

    /// Marks the thread as not running commands.
    pub fn leave(&self) {
        // Release: pairs with the Acquire in `close`; the closer sees everything that this thread
        // did.
        self.state().is_running.store(false, Ordering::Release);
    }

    /// Lets a closer in: to be called between two commands; waits while the gate is closed. Tells
    /// whether it was.
    #[inline]
    pub fn pass(&self) -> bool {
        // Relaxed: a hint; `enter` loads with the fence.
        let is_closed = self.gate.is_closed.load(Ordering::Relaxed);
        if is_closed {
            self.leave();
            self.enter();
        }
        is_closed
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.leave();
        // Release: pairs with the Acquire in `sit`.
        self.state().is_taken.store(false, Ordering::Release);
    }
}

impl ClosedGate<'_> {
    /// True if `gate` is the closed one.
    pub(crate) fn is_of(&self, gate: &Gate) -> bool {
        std::ptr::eq(self.0, gate)
    }
}

impl Drop for ClosedGate<'_> {
    fn drop(&mut self) {
        let asleep = self.0.opening.lock().unwrap_or_else(PoisonError::into_inner);
        // Release: pairs with the Acquire in `enter` and `close`.
        self.0.is_closed.store(false, Ordering::Release);
        drop(asleep);
        self.0.opened.notify_all();
    }
}
