//! `DEBUG LOADAOF`: the append-only file is loaded in the place of all data.
//!
//! A command cannot do that by itself: it would execute commands. It leaves a request, which its
//! worker takes up between two iterations, and looks again until that is done.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Request {
    session: u64,
    worker: usize,
    /// True if it succeeded; none until it is done.
    result: Option<bool>,
}

/// State of the request at hand; one at a time.
#[derive(Debug, Default)]
pub struct LogReload {
    request: Mutex<Option<Request>>,
    /// True while a request is not taken up.
    is_wanted: AtomicBool,
}

impl LogReload {
    fn request(&self) -> MutexGuard<'_, Option<Request>> {
        self.request.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks for it, or whether it is done: the result then.
    pub(crate) fn poll(&self, session: u64, worker: usize) -> Option<bool> {
        let mut request = self.request();
        match *request {
            Some(Request { session: owner, result: Some(result), .. }) if owner == session => {
                *request = None;
                return Some(result);
            }
            // Of a session that has not come for it yet, or is gone.
            Some(Request { result: Some(_), .. }) | None => {
                *request = Some(Request { session, worker, result: None });
                // Relaxed: its own worker looks.
                self.is_wanted.store(true, Ordering::Relaxed);
            }
            Some(_) => {}
        }
        None
    }

    /// Takes up a request of a session of this worker.
    #[must_use]
    pub fn take(&self, worker: usize) -> bool {
        // Relaxed: as in `poll`.
        if !self.is_wanted.load(Ordering::Relaxed) {
            return false;
        }
        let is_own = self.request().is_some_and(|request| request.worker == worker);
        if is_own {
            self.is_wanted.store(false, Ordering::Relaxed);
        }
        is_own
    }

    /// Ends the request that was taken up.
    pub fn end(&self, has_succeeded: bool) {
        if let Some(request) = &mut *self.request() {
            request.result = Some(has_succeeded);
        }
    }
}
