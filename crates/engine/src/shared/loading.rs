//! Loading of data from files: whether it goes on, how much of it is done, and who waits for it.
//!
//! Workers run meanwhile. They answer what is declared to be allowed then, and refuse the rest with
//! `LOADING`; a worker knows by its own flag, which it takes from here at boundaries
//! ([`Worker::boundary`](crate::worker::Worker::boundary), and whenever the gate was closed).

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Figures of a loading that goes on, for `INFO`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LoadingFigures {
    /// Unix time in seconds at which it began.
    pub started_s: u64,
    /// Bytes of the files.
    pub total_bytes: u64,
    /// Bytes of them that were read.
    pub loaded_bytes: u64,
}

impl LoadingFigures {
    /// Part that is done, in percent.
    #[must_use]
    pub fn percent(&self) -> f64 {
        match self.total_bytes {
            0 => 0.0,
            total => 100.0 * self.loaded_bytes as f64 / total as f64,
        }
    }

    /// Estimate of the seconds that are left; 1 within the first second, as in Valkey.
    #[must_use]
    pub fn left_s(&self, now_s: u64) -> u64 {
        let left_bytes = self.total_bytes.saturating_sub(self.loaded_bytes);
        match now_s.saturating_sub(self.started_s) {
            0 => 1,
            elapsed_s => elapsed_s.saturating_mul(left_bytes) / (self.loaded_bytes + 1),
        }
    }
}

/// State of the `DEBUG RELOAD` of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reload {
    /// It has none.
    Absent,
    /// Its data is being loaded.
    Running,
    /// It has ended; true if all was loaded.
    Ended(bool),
}

/// Loading of data from files.
#[derive(Debug, Default)]
pub struct Loading {
    is_running: AtomicBool,
    is_stopped: AtomicBool,
    started_s: AtomicU64,
    total_bytes: AtomicU64,
    loaded_bytes: AtomicU64,
    /// Session that loads by command, and how that ended. A session that is gone leaves it to be
    /// replaced by the next.
    reload: Mutex<Option<(u64, Option<bool>)>>,
}

impl Loading {
    fn reload(&self) -> MutexGuard<'_, Option<(u64, Option<bool>)>> {
        self.reload.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a loading: before there are workers, or with the gate closed.
    pub fn begin(&self, now_s: u64, total_bytes: u64) {
        // Relaxed, also below: figures; and a flag that workers see behind the gate, or because
        // they start later.
        self.started_s.store(now_s, Ordering::Relaxed);
        self.total_bytes.store(total_bytes, Ordering::Relaxed);
        self.loaded_bytes.store(0, Ordering::Relaxed);
        self.is_running.store(true, Ordering::Relaxed);
    }

    /// Begins a loading that a session asked for by command and waits for.
    pub(crate) fn begin_reload(&self, session: u64, now_s: u64) {
        *self.reload() = Some((session, None));
        self.begin(now_s, 0);
    }

    /// Sets the bytes of all files, once they are known.
    pub fn set_total_bytes(&self, total_bytes: u64) {
        self.total_bytes.store(total_bytes, Ordering::Relaxed);
    }

    /// Notes how many bytes of all files were read.
    pub fn note_loaded_bytes(&self, loaded_bytes: u64) {
        self.loaded_bytes.store(loaded_bytes, Ordering::Relaxed);
    }

    /// Ends the loading; commands are taken from now on. Not to be called when it failed and the
    /// server is to stop.
    pub fn end(&self) {
        // Release: pairs with the Acquire in `is_running`; who sees it ended sees the data.
        self.is_running.store(false, Ordering::Release);
    }

    /// Ends a loading that a session waits for, which is to be woken then.
    pub fn end_reload(&self, has_succeeded: bool) {
        if let Some((_, outcome)) = &mut *self.reload() {
            *outcome = Some(has_succeeded);
        }
        self.end();
    }

    /// State of a session's reload. An end is told once.
    pub(crate) fn take_reload(&self, session: u64) -> Reload {
        let mut reload = self.reload();
        match *reload {
            Some((owner, outcome)) if owner == session => match outcome {
                None => Reload::Running,
                Some(has_succeeded) => {
                    *reload = None;
                    Reload::Ended(has_succeeded)
                }
            },
            _ => Reload::Absent,
        }
    }

    /// Forgets the reload of a session, whose end nobody is told then.
    pub(crate) fn forget_reload(&self, session: u64) {
        let mut reload = self.reload();
        if reload.is_some_and(|(owner, _)| owner == session) {
            *reload = None;
        }
    }

    /// True if the reload that a session waits for has not ended.
    pub(crate) fn is_reloading(&self, session: u64) -> bool {
        *self.reload() == Some((session, None))
    }

    /// Asks a loading to end unfinished: the server stops.
    pub fn stop(&self) {
        // Relaxed: looked at again and again.
        self.is_stopped.store(true, Ordering::Relaxed);
    }

    /// True if a loading is to end unfinished.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.is_stopped.load(Ordering::Relaxed)
    }

    /// True while data is being loaded.
    #[must_use]
    #[inline]
    pub fn is_running(&self) -> bool {
        // Acquire: pairs with the Release in `end`.
        self.is_running.load(Ordering::Acquire)
    }

    /// Figures of the loading that goes on.
    #[must_use]
    pub fn figures(&self) -> Option<LoadingFigures> {
        self.is_running().then(|| LoadingFigures {
            started_s: self.started_s.load(Ordering::Relaxed),
            total_bytes: self.total_bytes.load(Ordering::Relaxed),
            loaded_bytes: self.loaded_bytes.load(Ordering::Relaxed),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_estimate_needs_a_second_and_bytes() {
        let figures = LoadingFigures { started_s: 100, total_bytes: 4000, loaded_bytes: 999 };
        assert_eq!((figures.left_s(100), figures.left_s(110)), (1, 30));
        assert_eq!(figures.left_s(0), 1, "a clock that stepped back");
        assert_eq!(LoadingFigures::default().percent(), 0.0);
    }

    #[test]
    fn the_end_of_a_reload_is_told_once_and_to_its_session() {
        let loading = Loading::default();
        loading.begin_reload(7, 100);
        assert!(loading.is_running() && loading.is_reloading(7));
        assert_eq!(loading.take_reload(8), Reload::Absent);
        assert_eq!(loading.take_reload(7), Reload::Running);
        loading.end_reload(false);
        assert!(!loading.is_running());
        assert_eq!(loading.take_reload(7), Reload::Ended(false));
        assert_eq!(loading.take_reload(7), Reload::Absent);
    }
}
