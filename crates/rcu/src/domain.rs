//! A domain: the readers and writers that agree on grace periods.

use std::error::Error;
use std::fmt;
use std::io;
use std::marker::PhantomData;
use std::sync::Arc;
use std::thread::sleep;

use crate::barrier::Barrier;
use crate::flavour::Flavour;
use crate::grace::{Grace, GracePeriod};
use crate::limits::{SYNCHRONIZE_SLEEP, SYNCHRONIZE_SPIN_COUNT, SYNCHRONIZE_YIELD_COUNT};
use crate::orphans::Orphans;
use crate::primitive::yield_now;
use crate::reader::Reader;

/// Readers and writers that agree on grace periods. Domains do not know of each other.
#[derive(Debug)]
pub struct Domain<F: Flavour> {
    grace: Grace,
    orphans: Arc<Orphans>,
    flavour: PhantomData<F>,
}

/// Why a domain cannot be made.
#[derive(Debug)]
#[non_exhaustive]
pub enum DomainError {
    /// The program has a handler of its own for the signal of the signal flavour.
    SignalTaken,
    /// The operating system refused to install the signal's handler.
    SignalRefused(io::Error),
}

impl<F: Flavour> Domain<F> {
    /// A domain without readers.
    ///
    /// # Errors
    ///
    /// Only the signal flavour fails, when its handler cannot be installed.
    pub fn new() -> Result<Arc<Domain<F>>, DomainError> {
        let grace = Grace::new(F::barrier()?);
        Ok(Arc::new(Domain { grace, orphans: Arc::default(), flavour: PhantomData }))
    }

    /// The flavour and what orders readers against writers on this machine, such as `memb (sys_membarrier)`.
    #[must_use]
    pub fn description(&self) -> String {
        let how = match self.grace.barrier() {
            Barrier::Fence if F::ANNOUNCES => "announced quiescent states",
            Barrier::Fence => "fences in readers",
            Barrier::Membarrier => "sys_membarrier, private expedited",
            Barrier::Signal => "a signal to each reader",
        };
        format!("{} ({how})", F::NAME)
    }

    /// Registers the calling thread; under `Qsbr` it is online from here on. Waits for a scan step of another thread.
    ///
    /// # Panics
    ///
    /// Under `Signal`, when the thread is registered in too many domains already.
    #[must_use]
    pub fn register(self: &Arc<Self>) -> Reader<F> {
        Reader::register(Arc::clone(self))
    }

    /// Begins a grace period for everything the caller has unlinked so far. Never blocks.
    ///
    /// It makes progress only when polled, by any thread, for this period or a later one.
    #[must_use]
    pub fn start_grace_period(&self) -> GracePeriod {
        self.grace.start()
    }

    /// Polls: whether all readers are past a period of this domain. Never blocks; issues at most one barrier.
    #[must_use]
    pub fn is_elapsed(&self, period: &GracePeriod) -> bool {
        self.grace.poll(*period)
    }

    /// Blocks until everything the caller has unlinked so far is out of readers' reach.
    ///
    /// # Panics
    ///
    /// When the calling thread is inside a section or, under `Qsbr`, online: it would wait for itself.
    pub fn synchronize(&self) {
        assert!(!self.grace.is_this_thread_reading(), "synchronize would wait for its own thread");
        let period = self.start_grace_period();
        let mut polls = 0;
        while !self.is_elapsed(&period) {
            polls += 1;
            back_off(polls);
        }
    }

    #[inline(always)]
    pub(crate) fn grace(&self) -> &Grace {
        &self.grace
    }

    pub(crate) fn orphans(&self) -> &Arc<Orphans> {
        &self.orphans
    }
}

fn back_off(polls: u32) {
    if cfg!(loom) {
        yield_now();
    } else if polls < SYNCHRONIZE_SPIN_COUNT {
        std::hint::spin_loop();
    } else if polls < SYNCHRONIZE_SPIN_COUNT + SYNCHRONIZE_YIELD_COUNT {
        yield_now();
    } else {
        sleep(SYNCHRONIZE_SLEEP);
    }
}

impl fmt::Display for DomainError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DomainError::SignalTaken => {
                formatter.write_str("the program already handles the signal of the signal flavour")
            }
            DomainError::SignalRefused(error) => {
                write!(formatter, "cannot install the signal handler: {error}")
            }
        }
    }
}

impl Error for DomainError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            DomainError::SignalTaken => None,
            DomainError::SignalRefused(error) => Some(error),
        }
    }
}

#[cfg(test)]
mod tests;
