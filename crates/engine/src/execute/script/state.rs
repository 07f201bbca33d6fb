//! State of a run beyond the values of its interpreter.

use std::sync::Arc;

use tidemill_store::gate::ClosedGate;
use tidemill_store::{KeyHash, SlotNumber, gate};

use super::logged::{Logged, ShownLines};
use super::prepare::Call;
use super::ran::RanCommands;
use crate::access::context::Lookups;
use crate::access::section::{Enter, ReadSide};
use crate::access::unit::Unit;
use crate::script::RunningScript;
use crate::shared::Shared;
use crate::slots::parking::WaitTarget;
use crate::worker::Worker;

/// Reason for which a run ends without a result and begins anew. Nothing of it counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Restart {
    /// Its reads without locks do not count. Those of the next attempt may; the last one locks
    /// these slots.
    Stale(Vec<SlotNumber>),
    /// To read without locks is not enough for it: under the locks of these slots, and with the
    /// token if it looked at more than can be locked so.
    Locked(Vec<SlotNumber>),
    /// It needs what only the holder of the token gets.
    Token,
    /// It needs what somebody has.
    Wait(WaitTarget),
}

/// Access of a run to keys.
pub(super) enum Reach<'k> {
    /// By one optimistic read.
    Lookups(Lookups),
    /// As a unit.
    Unit(Unit<'k>),
    /// By what a command has at the moment.
    Lent,
}

/// Settings of a run that do not change.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// It may not write.
    pub(super) is_read_only: bool,
    /// It may take memory when there is none left.
    pub(super) allows_oom: bool,
    /// Memory was full when it began.
    pub(super) is_out_of_memory: bool,
}

impl Limits {
    pub(super) fn of(call: &Call<'_>, is_out_of_memory: bool) -> Limits {
        use tidemill_script::Flags;
        Limits {
            is_read_only: call.is_read_only,
            allows_oom: call.has(Flags::ALLOW_OOM | Flags::NO_WRITES),
            is_out_of_memory,
        }
    }
}

/// State of a run.
pub(super) struct RunState<'k> {
    pub(super) limits: Limits,
    pub(super) reach: Reach<'k>,
    /// The gate, which it has closed until its end.
    pub(super) gate: Option<ClosedGate<'k>>,
    pub(super) has_written: bool,
    /// It touched a key that was not declared, and somebody had its slot.
    pub(super) met_undeclared: bool,
    pub(super) restart: Option<Restart>,
    /// Its entry in the table of those that take long.
    pub(super) running: Option<Arc<RunningScript>>,
    /// Hash of the first declared key, if it is known.
    pub(super) first_key: Option<KeyHash>,
    /// Database of the session, to which it returns.
    pub(super) database: usize,
    /// Time of all its commands: [`Worker::swap_time`].
    pub(super) time: (u64, u64),
    /// Beginning of its turn, monotonic microseconds.
    pub(super) turn_start_us: u64,
    pub(super) notes: RunNotes,
}

/// Notes on commands that ran, which wait until the run counts.
#[derive(Debug, Default)]
pub(super) struct RunNotes {
    /// Commands, for the statistics.
    pub(super) ran: RanCommands,
    /// Lines for monitors.
    pub(super) shown: ShownLines,
    /// Entries of logs; none for most runs.
    logged: Option<Box<Logged>>,
}

impl RunNotes {
    /// Entries of logs, to be added to.
    pub(super) fn logged(&mut self) -> &mut Logged {
        self.logged.get_or_insert_default()
    }

    /// Puts entries into the logs, if there are any: the run does not begin anew.
    pub(super) fn publish_logged(&mut self, to: (&Shared, &Worker)) {
        if let Some(logged) = self.logged.take() {
            (*logged).publish(to);
        }
    }
}

impl<'k> RunState<'k> {
    pub(super) fn new(
        limits: Limits,
        reach: Reach<'k>,
        (database, time): (usize, (u64, u64)),
        turn_start_us: u64,
    ) -> RunState<'k> {
        RunState {
            limits,
            reach,
            gate: None,
            has_written: false,
            met_undeclared: false,
            restart: None,
            running: None,
            first_key: None,
            database,
            time,
            turn_start_us,
            notes: RunNotes::default(),
        }
    }

    /// The unit that it is; none while it reads without locks.
    pub(super) fn unit(&mut self) -> Option<&mut Unit<'k>> {
        match &mut self.reach {
            Reach::Unit(unit) => Some(unit),
            Reach::Lookups(_) | Reach::Lent => None,
        }
    }

    /// True if the run may still begin anew, so that nothing of it may be in the statistics yet:
    ///
    /// - A run without locks, up to its end. A slot that it has read may change, for which its
    ///   interrupts and its end look ([`Restart::Stale`]); it may look up too many keys or call a
    ///   command that needs locks ([`Restart::Locked`]). It takes no token.
    /// - A unit without the token. Somebody else may have the token when it asks for it: for a slot
    ///   that is taken, for what cannot be taken back, or for another turn ([`Restart::Token`]).
    ///
    /// A unit with the token, or while nobody else runs, does not: it waits for slots itself, so
    /// there is no [`Restart::Wait`], needs no token, and keeps the one that it has up to its end.
    pub(super) fn may_begin_anew(&self) -> bool {
        match &self.reach {
            Reach::Unit(unit) => !unit.may_wait(),
            Reach::Lookups(_) | Reach::Lent => true,
        }
    }

    /// Takes out how it reaches keys.
    pub(super) fn lend(&mut self) -> Reach<'k> {
        std::mem::replace(&mut self.reach, Reach::Lent)
    }
}

/// Reader of a turn of a run, within one section: what the turn replaces can be read until its end.
pub(super) struct Spanning<'r, E> {
    pub(super) inner: &'r E,
}

impl<E: Enter> ReadSide for Spanning<'_, E> {
    fn section(&mut self, work: &mut dyn FnMut(tidemill_store::Section<'_>)) {
        use crate::access::section::OpenSection;
        let guard = self.inner.enter();
        work(guard.section());
    }

    /// Nothing is announced before the turn ends.
    fn quiescent(&mut self) {}

    fn offline(&mut self, work: &mut dyn FnMut()) {
        work();
    }

    fn reclaim(&mut self, _: &tidemill_store::Heap) {}

    fn seat(&self) -> &std::rc::Rc<gate::Seat> {
        self.inner.seat()
    }
}

impl<E: Enter> Enter for Spanning<'_, E> {
    type Guard<'r>
        = E::Guard<'r>
    where
        Self: 'r;

    fn enter(&self) -> E::Guard<'_> {
        self.inner.enter()
    }
}
