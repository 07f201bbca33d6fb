//! SIGINT and SIGTERM stop the server in order; a second SIGINT at once. SIGHUP, which a closed
//! terminal sends, is ignored, and SIGXFSZ.
//!
//! A thread of its own takes the signals: the main thread saves meanwhile, for as long as the disk
//! likes, and a second SIGINT is for just that.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};
use signal_hook::flag;
use signal_hook::iterator::Signals;

use crate::persistence::SnapshotFile;
use crate::resources::start_thread;

/// Origin of a request to stop the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StopReason {
    /// A client, by SHUTDOWN.
    Client,
    /// A thread of the server, which could not go on.
    Failure,
    /// A signal to the process; the directive that says what it does.
    Signal(&'static str),
}

/// Signals, on their way from the thread that takes them to the main thread.
#[derive(Debug, Default)]
struct Reception {
    /// Those that the main thread has not seen.
    queue: Mutex<VecDeque<i32>>,
    arrived: Condvar,
    /// True from a signal on until it turned out that it could not be obeyed.
    is_stopping: AtomicBool,
    /// The client that asked for the end by SHUTDOWN, which is carried out by a signal to this
    /// process; the first counts.
    client: OnceLock<String>,
    /// The file of a save that may be under way.
    snapshot: OnceLock<Arc<SnapshotFile>>,
}

impl Reception {
    fn queue(&self) -> MutexGuard<'_, VecDeque<i32>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes signals until the process ends.
    fn run(&self, mut signals: Signals) {
        for signal in signals.forever() {
            // Relaxed, here and below: one flag, on which nothing else depends.
            let was_stopping = self.is_stopping.swap(true, Ordering::Relaxed);
            if was_stopping && signal == SIGINT {
                self.end_at_once();
            }
            self.queue().push_back(signal);
            self.arrived.notify_one();
        }
    }

    fn end_at_once(&self) -> ! {
        log::warn!("You insist... exiting now.");
        if let Some(snapshot) = self.snapshot.get() {
            snapshot.remove_incomplete();
        }
        // Without what others do at the end of the process: their threads run on.
        signal_hook::low_level::exit(1);
    }

    /// Sleeps until there is a signal.
    fn take(&self) -> i32 {
        let mut queue = self.queue();
        loop {
            if let Some(signal) = queue.pop_front() {
                return signal;
            }
            queue = self.arrived.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// The handlers, installed.
#[derive(Debug)]
pub(crate) struct StopSignals(Arc<Reception>);

/// Way of a client's request to the main thread.
#[derive(Clone, Debug)]
pub(crate) struct ShutdownRequest(Arc<Reception>);

impl ShutdownRequest {
    /// Notes a client that asks for the end, before the signal is sent.
    pub(crate) fn note(&self, client: &str) {
        // Taken already: another client was faster.
        let _ = self.0.client.set(client.to_owned());
    }

    /// Forgets the signals that the main thread has not seen yet, unless one is a client's.
    pub(crate) fn forget_signals(&self) {
        let mut queue = self.0.queue();
        if self.0.client.get().is_none() {
            queue.clear();
            self.0.is_stopping.store(false, Ordering::Relaxed);
        }
    }
}

impl StopSignals {
    /// Installs the handlers; a signal from now on is kept for [`StopSignals::wait`].
    pub(crate) fn install() -> Result<StopSignals, String> {
        let failed = |error| format!("signals cannot be handled: {error}");
        // Handled by a flag that is never read: the signal is ignored.
        flag::register(SIGHUP, Arc::default()).map_err(failed)?;
        // A write beyond the limit of a file's size fails then, as one on a full disk does.
        flag::register(SIGXFSZ, Arc::default()).map_err(failed)?;
        let signals = Signals::new([SIGINT, SIGTERM]).map_err(failed)?;
        let reception = Arc::new(Reception::default());
        let of_thread = Arc::clone(&reception);
        let body = move || of_thread.run(signals);
        start_thread("signals", body).map_err(failed)?;
        Ok(StopSignals(reception))
    }

    /// Lets a second SIGINT, which ends the process at once, leave no part of this file behind. To
    /// be called once.
    pub(crate) fn end_at_once_by(&self, snapshot: &Arc<SnapshotFile>) {
        let is_first = self.0.snapshot.set(Arc::clone(snapshot)).is_ok();
        assert!(is_first, "there is one snapshot");
    }

    /// Handle on which a client's request for the end is noted.
    pub(crate) fn shutdown_request(&self) -> ShutdownRequest {
        ShutdownRequest(Arc::clone(&self.0))
    }

    /// Goes on after a signal that could not be obeyed.
    pub(crate) fn go_on(&self) {
        self.0.is_stopping.store(false, Ordering::Relaxed);
    }

    /// Sleeps until the server is to stop. `stop` is set by those that stop it by themselves.
    pub(crate) fn wait(&self, stop: &AtomicBool) -> StopReason {
        // A client's own signal may have been forgotten for another's sake.
        let client = || self.0.client.get();
        let signal = if client().is_some() { SIGTERM } else { self.0.take() };
        if let Some(client) = client() {
            log::info!("User requested shutdown... (user request from '{client}')");
            return StopReason::Client;
        }
        // Acquire: pairs with the Release of a thread that ends the server.
        if stop.load(Ordering::Acquire) {
            return StopReason::Failure;
        }
        let (name, directive) = match signal {
            SIGINT => ("SIGINT", "shutdown-on-sigint"),
            _ => ("SIGTERM", "shutdown-on-sigterm"),
        };
        log::warn!("Received {name} scheduling shutdown...");
        log::info!("User requested shutdown...");
        StopReason::Signal(directive)
    }
}
