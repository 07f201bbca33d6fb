//! The gate: stops all members of a keyspace at a boundary between two commands, for what changes it as a whole.
//!
//! Each member has a seat with a word of its own that says whether it is running commands. It is independent of the RCU
//! flavour. A worker enters before a batch and leaves before it waits for events; in between it looks at the gate once
//! per batch. Whoever closes the gate reopens it when the others do not stop in time: nobody waits for long, least of all
//! for a worker in a long command. A closer that failed gives them more time at each attempt, so that it gets its turn
//! however they are occupied. One closes at a time.
//!
//! A [`Gate`] belongs to one [`Keyspace`](crate::Keyspace), and a seat at it is taken by joining the keyspace, so a
//! [`ClosedGate`] is the proof that every thread which may read or write the keyspace stands between two commands. The
//! keyspace demands it for what nobody may see half done, and looks whether it is of its own gate.

use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering, fence};

use crate::limits::MEMBERS_MAX;

/// Looks at the others after which a closer lets go of its processor between two of them.
const SPINS_MAX: u32 = 1000;

#[derive(Debug, Default)]
#[repr(align(64))]
struct Place {
    is_taken: AtomicBool,
    is_running: AtomicBool,
}

/// The gate of one keyspace.
#[derive(Debug)]
pub struct Gate {
    is_closed: AtomicBool,
    /// Seats from here on were never taken.
    end: AtomicUsize,
    places: Box<[Place]>,
}

/// A member's seat at the gate; given back when it is dropped. It belongs to its thread.
#[derive(Debug)]
pub struct Seat {
    gate: Arc<Gate>,
    index: usize,
    // Neither `Send` nor `Sync`: one thread says whether it runs.
    not_send: PhantomData<*const ()>,
}

/// All other members have stopped. Dropping it lets them go on.
#[derive(Debug)]
pub struct ClosedGate<'k>(&'k Gate);

impl Gate {
    pub(crate) fn new() -> Gate {
        Gate {
            is_closed: AtomicBool::new(false),
            end: AtomicUsize::new(0),
            places: (0..MEMBERS_MAX).map(|_| Place::default()).collect(),
        }
    }

    /// Takes the first free seat, outside of the gate.
    pub(crate) fn sit(self: &Arc<Gate>) -> Option<Seat> {
        let index = self.places.iter().position(|place| {
            // Acquire: pairs with the Release in `Seat::drop`; nothing of the former member is left to be stored.
            let taken =
                place.is_taken.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed);
            taken.is_ok()
        })?;
        // Relaxed: `Seat::enter` stores behind it and fences; see `close`.
        self.end.fetch_max(index + 1, Ordering::Relaxed);
        Some(Seat { gate: Arc::clone(self), index, not_send: PhantomData })
    }

    /// Stops all members but `closer`, or gives up when `is_late` says so, or when another one is closing it.
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
        // Acquire: pairs with the Release in `ClosedGate::drop`; one closes after the other. The fence orders the store
        // before the loads.
        self.is_closed.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed).ok()?;
        let closed = ClosedGate(self);
        // SeqCst: pairs with the fence in `enter`: either a member sees the gate closed or we see it running, and then
        // its seat below `end`.
        fence(Ordering::SeqCst);
        let mut spins = 0;
        let seats = &self.places[..self.end.load(Ordering::Relaxed)];
        for (index, place) in seats.iter().enumerate() {
            // Acquire: pairs with the Release in `leave`.
            while index != closer.index && place.is_running.load(Ordering::Acquire) {
                if is_late() {
                    return None;
                }
                if spins < SPINS_MAX {
                    spins += 1;
                    std::hint::spin_loop();
                } else {
                    // It may be waiting for this very processor.
                    std::thread::yield_now();
                }
            }
        }
        Some(closed)
    }
}

impl Seat {
    fn place(&self) -> &Place {
        &self.gate.places[self.index]
    }

    /// The thread is about to run commands; waits while the gate is closed.
    pub fn enter(&self) {
        let is_closed = &self.gate.is_closed;
        loop {
            // Relaxed: the fence orders it before the load.
            self.place().is_running.store(true, Ordering::Relaxed);
            // SeqCst: pairs with the fence in `close`: either we see the gate closed or the closer sees us running.
            fence(Ordering::SeqCst);
            // Acquire: pairs with the Release in `ClosedGate::drop`; what the closer did is visible.
            if !is_closed.load(Ordering::Acquire) {
                return;
            }
            self.leave();
            while is_closed.load(Ordering::Relaxed) {
                std::thread::yield_now();
            }
        }
    }

    /// The thread has stopped running commands.
    pub fn leave(&self) {
        // Release: pairs with the Acquire in `close`; the closer sees all that this thread did.
        self.place().is_running.store(false, Ordering::Release);
    }

    /// The thread stands between two commands: stops there while the gate is closed.
    #[inline]
    pub fn pass(&self) {
        // Relaxed: a hint; `enter` looks properly.
        if self.gate.is_closed.load(Ordering::Relaxed) {
            self.leave();
            self.enter();
        }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.leave();
        // Release: pairs with the Acquire in `sit`.
        self.place().is_taken.store(false, Ordering::Release);
    }
}

impl ClosedGate<'_> {
    /// Whether it is this gate that is closed.
    pub(crate) fn is_of(&self, gate: &Gate) -> bool {
        std::ptr::eq(self.0, gate)
    }
}

impl Drop for ClosedGate<'_> {
    fn drop(&mut self) {
        // Release: pairs with the Acquire in `enter` and `close`.
        self.0.is_closed.store(false, Ordering::Release);
    }
}
