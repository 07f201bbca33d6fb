//! Runs that take long, for who would end them or has to wait for them.
//!
//! A run enters the table when it ends its first turn, so that brief ones touch nothing shared.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering};
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

impl Kind {
    /// Text of the error of a run that was killed.
    pub(crate) fn killed(self) -> &'static str {
        match self {
            Kind::Script => "Script killed by user with SCRIPT KILL.",
            Kind::Function => "Script killed by user with FUNCTION KILL.",
        }
    }
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

/// Slots and token that a run keeps from others.
#[derive(Clone, Debug, Default)]
pub(crate) enum Holds {
    /// Nothing.
    #[default]
    Nothing,
    /// Slots, and the token if so.
    Slots(Vec<SlotNumber>, bool),
    /// All slots and the token.
    All,
}

impl Holds {
    /// True if it has this slot, or the token if none is named.
    fn has(&self, slot: Option<SlotNumber>) -> bool {
        match self {
            Holds::Nothing => false,
            Holds::Slots(slots, has_token) => slot.map_or(*has_token, |slot| slots.contains(&slot)),
            Holds::All => true,
        }
    }
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
    /// Everybody is told that it is busy.
    is_told: AtomicBool,
    /// The log tells of it.
    is_logged: AtomicBool,
    holds: Mutex<Holds>,
}

impl RunningScript {
    pub(crate) fn new(
        kind: Kind,
        name: Vec<u8>,
        command: Vec<Vec<u8>>,
        started_us: u64,
    ) -> RunningScript {
        RunningScript {
            kind,
            name,
            command,
            started_us,
            has_written: AtomicBool::new(false),
            is_killed: AtomicBool::new(false),
            is_told: AtomicBool::new(false),
            is_logged: AtomicBool::new(false),
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

    /// True for the first who asks: the log is to tell of a slow run once.
    pub(crate) fn begin_log(&self) -> bool {
        // Relaxed: only the worker of the run asks.
        !self.is_logged.swap(true, Ordering::Relaxed)
    }

    /// Digest of a script, or name of a function: what a log may show.
    pub(crate) fn shown_name(&self) -> String {
        let is_digest = self.command.first().is_some_and(|command| {
            matches!(&*command.to_ascii_lowercase(), b"evalsha" | b"evalsha_ro")
        });
        match self.kind {
            Kind::Script if !is_digest => super::hexadecimal(&tidemill_script::digest(&self.name)),
            _ => String::from_utf8_lossy(&self.name).into_owned(),
        }
    }

    fn kill(&self) -> Result<(), KillError> {
        if self.has_written.load(Ordering::SeqCst) {
            return Err(KillError::HasWritten);
        }
        // Sequentially consistent: pairs with `note_write`.
        self.is_killed.store(true, Ordering::SeqCst);
        Ok(())
    }

    fn holds(&self) -> MutexGuard<'_, Holds> {
        self.holds.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes what it keeps from others.
    pub(crate) fn note_holds(&self, holds: Holds) {
        *self.holds() = holds;
    }

    /// Slots and token that it keeps from others.
    pub(crate) fn held(&self) -> Holds {
        self.holds().clone()
    }
}

/// Runs that take long.
#[derive(Debug, Default)]
pub(crate) struct Running {
    runs: Mutex<Vec<Arc<RunningScript>>>,
    count: AtomicUsize,
    /// Kind of a run of which everybody is told: see [`Running::tell`]. 0 if there is none.
    told: AtomicU8,
}

const TOLD_SCRIPT: u8 = 1;
const TOLD_FUNCTION: u8 = 2;

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
        if run.is_told.load(Ordering::Relaxed) {
            self.note_told(&runs);
        }
    }

    /// Lets everybody be told of a run that takes too long: `busy-reply-all`. Workers see it at
    /// their next boundary.
    pub(crate) fn tell(&self, run: &RunningScript) {
        let runs = self.runs();
        // Relaxed: it is read under the lock only.
        run.is_told.store(true, Ordering::Relaxed);
        self.note_told(&runs);
    }

    fn note_told(&self, runs: &[Arc<RunningScript>]) {
        let told = runs.iter().find(|run| run.is_told.load(Ordering::Relaxed));
        let told = told.map_or(0, |run| match run.kind {
            Kind::Script => TOLD_SCRIPT,
            Kind::Function => TOLD_FUNCTION,
        });
        // Relaxed: stored under the lock; who sees it late runs a command as if it had come before.
        self.told.store(told, Ordering::Relaxed);
    }

    /// Kind of a run of which everybody is told.
    pub(crate) fn told(&self) -> Option<Kind> {
        // Relaxed: as in `note_told`.
        match self.told.load(Ordering::Relaxed) {
            TOLD_SCRIPT => Some(Kind::Script),
            TOLD_FUNCTION => Some(Kind::Function),
            _ => None,
        }
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
        runs.iter().find(|run| run.started_us <= started_us_max && run.holds().has(slot)).cloned()
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
