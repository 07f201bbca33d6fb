//! Runs that take long, for who would end them or has to wait for them.
//!
//! A run enters the table when it ends its first turn, so that brief ones touch nothing shared.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tidemill_store::SlotNumber;

/// Kind of program that runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A script of `EVAL` and its like.
    Script,
    /// A function of a library.
    Function,
}

/// Reason for which no run is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KillError {
    /// None runs for long.
    NotBusy,
    /// It has changed data.
    HasWritten,
    /// Those that run are of the other kind.
    OtherKind(Kind),
}

/// A run that takes long.
#[derive(Debug)]
pub(crate) struct RunningScript {
    pub(crate) kind: Kind,
    /// Name of the function.
    pub(crate) name: Vec<u8>,
    /// The command that called it, as logs keep it.
    pub(crate) command: Vec<Vec<u8>>,
    pub(crate) started_us: u64,
    has_written: AtomicBool,
    is_killed: AtomicBool,
    /// Slots that it has locked, and whether it has the token.
    holds: Mutex<(Vec<SlotNumber>, bool)>,
}

impl RunningScript {
    pub(crate) fn new(
        kind: Kind,
        name: Vec<u8>,
        command: Vec<Vec<u8>>,
        started_us: u64,
    ) -> RunningScript {
        let (has_written, is_killed) = (AtomicBool::new(false), AtomicBool::new(false));
        RunningScript {
            kind,
            name,
            command,
            started_us,
            has_written,
            is_killed,
            holds: Mutex::default(),
        }
    }

    /// Notes that it has changed data, unless it was killed before: then it must not.
    #[must_use]
    pub(crate) fn note_write(&self) -> bool {
        // Sequentially consistent, as in `kill`: one of both sees the other.
        self.has_written.store(true, Ordering::SeqCst);
        !self.is_killed.load(Ordering::SeqCst)
    }

    /// True if it is to end.
    pub(crate) fn is_killed(&self) -> bool {
        // Relaxed: it is asked again soon.
        self.is_killed.load(Ordering::Relaxed)
    }

    fn kill(&self) -> Result<(), KillError> {
        if self.has_written.load(Ordering::SeqCst) {
            return Err(KillError::HasWritten);
        }
        // Sequentially consistent: pairs with `note_write`.
        self.is_killed.store(true, Ordering::SeqCst);
        Ok(())
    }

    fn holds(&self) -> MutexGuard<'_, (Vec<SlotNumber>, bool)> {
        self.holds.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes what it has locked.
    pub(crate) fn note_holds(&self, slots: Vec<SlotNumber>, has_token: bool) {
        *self.holds() = (slots, has_token);
    }

    /// Slots that it has locked, and whether it has the token.
    pub(crate) fn held(&self) -> (Vec<SlotNumber>, bool) {
        self.holds().clone()
    }

    /// True if it has this slot, or the token if none is named.
    fn has(&self, slot: Option<SlotNumber>) -> bool {
        let holds = self.holds();
        slot.map_or(holds.1, |slot| holds.0.contains(&slot))
    }
}

/// Runs that take long.
#[derive(Debug, Default)]
pub(crate) struct Running {
    runs: Mutex<Vec<Arc<RunningScript>>>,
    count: AtomicUsize,
}

impl Running {
    fn runs(&self) -> MutexGuard<'_, Vec<Arc<RunningScript>>> {
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a run.
    pub(crate) fn enter(&self, run: &Arc<RunningScript>) {
        let mut runs = self.runs();
        runs.push(Arc::clone(run));
        // Relaxed: who does not see it yet waits as for any other command.
        self.count.store(runs.len(), Ordering::Relaxed);
    }

    /// Removes a run that has ended.
    pub(crate) fn leave(&self, run: &Arc<RunningScript>) {
        let mut runs = self.runs();
        runs.retain(|other| !Arc::ptr_eq(other, run));
        // Relaxed: as in `enter`.
        self.count.store(runs.len(), Ordering::Relaxed);
    }

    /// The run that has a slot, or the token if none is named, and began before `started_us_max`.
    pub(crate) fn holder(
        &self,
        slot: Option<SlotNumber>,
        started_us_max: u64,
    ) -> Option<Arc<RunningScript>> {
        if self.count.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let runs = self.runs();
        runs.iter().find(|run| run.started_us <= started_us_max && run.has(slot)).cloned()
    }

    /// The longest run.
    pub(crate) fn first(&self) -> Option<Arc<RunningScript>> {
        self.runs().first().cloned()
    }

    /// Kills all runs of a kind that have changed nothing.
    ///
    /// # Errors
    ///
    /// When there is none.
    pub(crate) fn kill(&self, kind: Kind) -> Result<(), KillError> {
        let runs = self.runs();
        let mut result = Err(KillError::NotBusy);
        for run in runs.iter() {
            let killed = match run.kind == kind {
                true => run.kill(),
                false => Err(KillError::OtherKind(run.kind)),
            };
            if result.is_err() && (killed.is_ok() || result == Err(KillError::NotBusy)) {
                result = killed;
            }
        }
        result
    }
}
