//! Domain: the readers and writers that agree on grace periods.

use std::error::Error;
use std::fmt;
use std::io;
use std::marker::PhantomData;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use crate::barrier::Barrier;
use crate::flavour::Flavour;
use crate::grace::{Grace, GracePeriod, Progress};
use crate::limits::BARRIER_PAUSE;
use crate::orphans::Orphans;
use crate::pace::Caller;
use crate::reader::Reader;
use crate::wait::Wait;

/// Readers and writers that agree on grace periods. Domains are independent of each other.
#[derive(Debug)]
pub struct Domain<F: Flavour> {
    grace: Grace,
    orphans: Arc<Orphans>,
    flavour: PhantomData<F>,
}

/// Identity of a domain: equal for handles of one domain, and unequal to that of any other, dropped
/// ones included.
#[derive(Clone, Debug)]
pub struct DomainId(Arc<Orphans>);

impl PartialEq for DomainId {
    fn eq(&self, other: &DomainId) -> bool {
        // The address of the contents of an `Arc` is unique for as long as the `Arc` lives, whether
        // or not the domain still does.
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for DomainId {}

impl DomainId {
    pub(crate) fn of(orphans: &Arc<Orphans>) -> DomainId {
        DomainId(Arc::clone(orphans))
    }
}

/// Reason why a domain cannot be made.
#[derive(Debug)]
#[non_exhaustive]
pub enum DomainError {
    /// The program has a handler of its own for the signal of the signal flavour.
    SignalTaken,
    /// The operating system refused to install the signal's handler.
    SignalRefused(io::Error),
}

impl<F: Flavour> Domain<F> {
    /// A domain without readers, whose barriers keep the default pause.
    ///
    /// # Errors
    ///
    /// Only the signal flavour fails, when its handler cannot be installed.
    pub fn new() -> Result<Arc<Domain<F>>, DomainError> {
        Domain::with_barrier_pause(BARRIER_PAUSE)
    }

    /// A domain without readers, whose barriers interrupt readers at most once per `pause`; zero
    /// sets no limit, and more than [`BARRIER_PAUSE_MAX`](crate::limits::BARRIER_PAUSE_MAX) is cut
    /// to it.
    ///
    /// [`Domain::synchronize`] keeps it under `Signal` only; under `Memb` and `Bp` it pauses for
    /// half the time that the last barrier took, `pause` at most. `Qsbr` and `Mb` interrupt no
    /// reader and never pause.
    ///
    /// # Errors
    ///
    /// As [`Domain::new`].
    pub fn with_barrier_pause(pause: Duration) -> Result<Arc<Domain<F>>, DomainError> {
        let grace = Grace::new(F::barrier()?, pause);
        Ok(Arc::new(Domain { grace, orphans: Arc::default(), flavour: PhantomData }))
    }

    /// Name of the flavour, and the mechanism that orders readers against writers on this machine,
    /// such as `memb (sys_membarrier, private expedited)`.
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

    /// Identity of the domain.
    #[must_use]
    pub fn id(&self) -> DomainId {
        DomainId::of(&self.orphans)
    }

    /// Registers the calling thread; under `Qsbr` it is online from here on. Waits for a scan step
    /// of another thread.
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

    /// Polls; true if all readers are past a period of this domain. Never blocks; issues at most
    /// one barrier, and none within the pause after the last.
    #[must_use]
    pub fn is_elapsed(&self, period: &GracePeriod) -> bool {
        self.grace.poll(*period, Caller::Polls) == Progress::Elapsed
    }

    /// Blocks until no reader can reach anything that the caller has unlinked so far. Spins for
    /// readers that run, and sleeps for at most a millisecond at a time when they do not answer.
    ///
    /// # Panics
    ///
    /// When the calling thread is inside a section or, under `Qsbr`, online: it would wait for
    /// itself.
    pub fn synchronize(&self) {
        assert!(!self.grace.is_this_thread_reading(), "synchronize would wait for its own thread");
        let period = self.start_grace_period();
        let mut wait = Wait::new();
        loop {
            match self.grace.poll(period, Caller::Blocks) {
                Progress::Elapsed => return,
                Progress::Open => wait.for_readers(|timeout| self.sleep(period, timeout)),
                Progress::PausedUntil(at) => Wait::until(at),
            }
        }
    }

    /// Sleeps for `timeout`; where readers announce, at most until the next announcement.
    fn sleep(&self, period: GracePeriod, timeout: Duration) {
        if !F::ANNOUNCES {
            thread::sleep(timeout);
            return;
        }
        let doorbell = self.grace.doorbell();
        doorbell.ask();
        if self.grace.poll(period, Caller::Blocks) != Progress::Elapsed {
            doorbell.sleep(timeout);
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
