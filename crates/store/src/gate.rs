//! The gate: stops all workers at a boundary between two commands, for what changes the keyspace as a whole.
//!
//! Each worker has a word of its own that says whether it is running commands. It is independent of the RCU flavour. A
//! worker enters before a batch and leaves before it waits for events; in between it looks at the gate once per batch.
//! Whoever closes the gate has the token, so there is one closer at a time, and reopens when the others do not stop in
//! time: nobody waits for long, least of all for a worker in a long command. A closer that failed gives them more time at
//! each attempt, so that it gets its turn however they are occupied.
//!
//! It stands in this crate because a closed gate is the proof that [`Keyspace`](crate::Keyspace) demands for what nobody
//! may see half done. The proof holds as far as every thread that uses the keyspace enters the gate first.

use std::sync::atomic::{AtomicBool, Ordering, fence};

/// Looks at the others after which a closer lets go of its processor between two of them.
const SPINS_MAX: u32 = 1000;

#[derive(Debug, Default)]
#[repr(align(64))]
struct Running(AtomicBool);

/// The gate of one server.
#[derive(Debug)]
pub struct Gate {
    closed: AtomicBool,
    running: Box<[Running]>,
}

/// All other workers have stopped. Dropping it lets them go on.
#[derive(Debug)]
pub struct ClosedGate<'k>(&'k Gate);

impl Gate {
    /// An open gate for `worker_count` workers.
    #[must_use]
    pub fn new(worker_count: usize) -> Gate {
        Gate {
            closed: AtomicBool::new(false),
            running: (0..worker_count).map(|_| Running::default()).collect(),
        }
    }

    /// A worker is about to run commands; waits while the gate is closed.
    pub fn enter(&self, worker: usize) {
        loop {
            // Relaxed: the fence orders it before the load.
            self.running[worker].0.store(true, Ordering::Relaxed);
            // SeqCst: pairs with the fence in `close`: either we see the gate closed or the closer sees us running.
            fence(Ordering::SeqCst);
            // Acquire: pairs with the Release in `ClosedGate::drop`; what the closer did is visible.
            if !self.closed.load(Ordering::Acquire) {
                return;
            }
            self.leave(worker);
            while self.closed.load(Ordering::Relaxed) {
                std::thread::yield_now();
            }
        }
    }

    /// A worker has stopped running commands.
    pub fn leave(&self, worker: usize) {
        // Release: pairs with the Acquire in `close`; the closer sees all that this worker did.
        self.running[worker].0.store(false, Ordering::Release);
    }

    /// A worker stands between two commands: stops there while the gate is closed.
    #[inline]
    pub fn pass(&self, worker: usize) {
        // Relaxed: a hint; `enter` looks properly.
        if self.closed.load(Ordering::Relaxed) {
            self.leave(worker);
            self.enter(worker);
        }
    }

    /// Stops all workers but `closer`, or gives up when `is_late` says so. The caller is the only one who closes.
    #[must_use]
    pub fn close(&self, closer: usize, is_late: impl Fn() -> bool) -> Option<ClosedGate<'_>> {
        // Relaxed: the fence orders it before the loads.
        self.closed.store(true, Ordering::Relaxed);
        // SeqCst: pairs with the fence in `enter`.
        fence(Ordering::SeqCst);
        let closed = ClosedGate(self);
        let mut spins = 0;
        for (worker, running) in self.running.iter().enumerate() {
            // Acquire: pairs with the Release in `leave`.
            while worker != closer && running.0.load(Ordering::Acquire) {
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

impl Drop for ClosedGate<'_> {
    fn drop(&mut self) {
        // Release: pairs with the Acquire in `enter`.
        self.0.closed.store(false, Ordering::Release);
    }
}
