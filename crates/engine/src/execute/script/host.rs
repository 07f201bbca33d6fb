//! The caller of a run, as its interpreter sees it.

use std::collections::TryReserveError;

use tidemill_resp::encode::Protocol as WireProtocol;
use tidemill_script::{Abort, Answer, Host, Interrupt, Protocol, Reply};
use tidemill_store::gate::ClosedGate;
use tidemill_store::limits::SLOT_COUNT;
use tidemill_store::{KeyHash, Section};

use super::replies;
use super::state::{Reach, Restart, RunState, Spanning};
use super::undo::Undo;
use crate::access::section::Enter;
use crate::command::CommandId;
use crate::error::CommandError;
use crate::execute::executor::Executor;
use crate::execute::permission;
use crate::limits::SCRIPT_STEP_US_MAX;
use crate::memory::Room;
use crate::script::{Holds, Kind, RunningScript};
use tidemill_resp::request::ArgumentBuffer;

/// Text of the error that ends a run which begins anew: nobody sees it.
const BEGINS_ANEW: &str = "the run begins anew";

/// Text of the error that ends a run whose step cannot be suspended and takes too long.
const STEP_TOO_LONG: &str = "A metamethod, a comparator, a replacement or a library function ran \
    for longer than busy-reply-threshold.";

/// End of a command without a reply of its own.
pub(super) enum Refusal {
    /// The error is the reply; the command, if there is such a one, was rejected.
    Error(Option<CommandId>, Vec<u8>),
    /// The run begins anew.
    Restart(Restart),
    /// The run was killed.
    Killed,
}

/// The caller of a run for one turn.
pub(super) struct ScriptHost<'h, 'k, 'g, E> {
    /// Its replies go into a buffer of the run's.
    pub(super) executor: Executor<'k, 'h, Spanning<'g, E>>,
    pub(super) state: &'h mut RunState<'k>,
    /// The gate, if a transaction has closed it.
    pub(super) outer_gate: Option<&'h ClosedGate<'k>>,
    pub(super) section: Section<'g>,
    /// Changes that the run can take back; none with the token, which it keeps to its end.
    pub(super) undo: Option<Undo<'g>>,
    pub(super) arguments: &'h mut ArgumentBuffer,
    /// The first declared key with its hash, if that is known.
    pub(super) first_key: Option<(&'h [u8], KeyHash)>,
    /// End of the turn, monotonic microseconds.
    pub(super) turn_end_us: u64,
    /// A command has ended after the end of the turn.
    pub(super) is_late: bool,
    /// Description of the run, for the table of those that take long.
    pub(super) describe: &'h dyn Fn() -> RunningScript,
    pub(super) kind: Kind,
}

impl<'k: 'g, 'g, E: Enter> Host for ScriptHost<'_, 'k, 'g, E> {
    fn call(&mut self, arguments: &[&[u8]], protocol: Protocol) -> Result<Answer<'_>, Abort> {
        if self.state.restart.is_some() {
            return Err(Abort(BEGINS_ANEW));
        }
        self.executor.reply.clear();
        self.executor.reply.set_protocol(match protocol {
            Protocol::Resp2 => WireProtocol::Resp2,
            Protocol::Resp3 => WireProtocol::Resp3,
        });
        match self.execute_copied(arguments) {
            Ok(()) => Ok(self.last_reply()),
            Err(Refusal::Error(id, text)) => {
                self.executor.reply.clear();
                self.state.notes.ran.push_rejected(id, &text);
                Ok(Answer::Reply(Reply::Error(text)))
            }
            Err(Refusal::Restart(restart)) => {
                self.state.restart = Some(restart);
                Err(Abort(BEGINS_ANEW))
            }
            Err(Refusal::Killed) => Err(Abort(self.kind.killed())),
        }
    }

    fn interrupt(&mut self, may_suspend: bool) -> Interrupt {
        if self.is_killed() {
            return Interrupt::Kill(self.kind.killed());
        }
        let shared = self.executor.shared;
        if let Reach::Lookups(lookups) = &self.state.reach
            && lookups.stale_slot(shared).is_some()
        {
            // Its reads are of two moments: it may be running because of that alone.
            return self.begin_anew(Restart::Stale(lookups.slots()));
        }
        let now_us = shared.clock.monotonic_us();
        if now_us < self.turn_end_us {
            Interrupt::Continue
        } else if may_suspend {
            self.end_turn()
        } else {
            self.overrun_turn(now_us)
        }
    }

    fn is_late(&self) -> bool {
        self.is_late
    }

    fn log(&mut self, level: u8, message: &[u8]) {
        let shared = self.executor.shared;
        match self.state.may_begin_anew() {
            true => self.state.notes.logged().push_line(shared, level, message),
            false => shared.host.log(level, message),
        }
    }

    fn may_run(&mut self, arguments: &[&[u8]]) -> Result<Option<bool>, TryReserveError> {
        let mut buffer = ArgumentBuffer::default();
        buffer.fill(arguments.iter().copied())?;
        let args = buffer.view();
        let found = self.find_named(&args).ok();
        Ok(found.map(|(id, _)| permission::may_call(&self.executor, (id, &args))))
    }

    fn cpu_seconds(&mut self) -> f64 {
        self.executor.shared.clock.monotonic_ns() as f64 / 1e9
    }
}

/// The reply of a command in whose place there was no memory for its reply.
fn no_memory<'a>() -> Answer<'a> {
    Answer::Reply(Reply::Error(crate::error::NO_MEMORY_FOR_REPLY.as_bytes().to_vec()))
}

impl<'k: 'g, 'g, E: Enter> ScriptHost<'_, 'k, 'g, E> {
    /// Executes a command with a copy of its arguments.
    fn execute_copied(&mut self, arguments: &[&[u8]]) -> Result<(), Refusal> {
        let mut buffer = std::mem::take(self.arguments);
        let has_room = match buffer.fill(arguments.iter().copied()) {
            Ok(bytes) => self.executor.check_call_room(bytes, arguments.len()),
            Err(_) => {
                let bytes = arguments.iter().map(|argument| argument.len() as u64).sum();
                Err(CommandError::NoMemory(bytes))
            }
        };
        let result = match has_room {
            Ok(()) => self.execute(&buffer.view()),
            Err(error) => Err(Refusal::Error(None, error.wire().into_owned())),
        };
        *self.arguments = buffer;
        result
    }

    /// The reply of the last command, which the buffer keeps until the next one.
    fn last_reply(&mut self) -> Answer<'_> {
        let room = Room::of(self.executor.shared);
        let has_room = |bytes| room.check(bytes).is_ok();
        let buffer = &mut *self.executor.reply;
        if buffer.has_failed() {
            buffer.recover(0);
            return no_memory();
        }
        match buffer.as_single_segment() {
            Some(bytes) => match replies::as_bulk(bytes) {
                Some(text) => Answer::Bulk(text),
                None => replies::parse(bytes, has_room).map_or_else(no_memory, Answer::Reply),
            },
            None => match buffer.try_to_vec() {
                Ok(bytes) => {
                    replies::parse_owned(bytes, has_room).map_or_else(no_memory, Answer::Reply)
                }
                Err(_) => no_memory(),
            },
        }
    }

    fn is_killed(&self) -> bool {
        !self.state.has_written
            && self.state.running.as_ref().is_some_and(|running| running.is_killed())
    }

    fn begin_anew(&mut self, restart: Restart) -> Interrupt {
        self.state.restart = Some(restart);
        Interrupt::Kill(BEGINS_ANEW)
    }

    /// Ends the turn, if the run may wait for the next one: with the token, or without any lock.
    fn end_turn(&mut self) -> Interrupt {
        if let Err(Refusal::Restart(restart)) = self.make_irrevocable() {
            return self.begin_anew(restart);
        }
        self.enter_table();
        Interrupt::Suspend
    }

    /// Lets a step go on that cannot be suspended. Meanwhile it can be killed from other workers,
    /// but its own serves nobody, so it has a limit.
    #[cold]
    fn overrun_turn(&mut self, now_us: u64) -> Interrupt {
        let threshold_us = self.executor.worker.settings.busy_reply.after_us;
        let limit_us = if threshold_us == 0 { SCRIPT_STEP_US_MAX } else { threshold_us };
        if now_us.saturating_sub(self.state.turn_start_us) >= limit_us {
            return Interrupt::Kill(STEP_TOO_LONG);
        }
        self.enter_table();
        Interrupt::Suspend
    }

    /// Enters the table of runs that take long, or brings the entry up to date.
    fn enter_table(&mut self) {
        if self.state.running.is_none() {
            let running = std::sync::Arc::new((self.describe)());
            if self.state.has_written {
                let _ = running.note_write();
            }
            self.executor.shared.scripts.running.enter(&running);
            self.state.running = Some(running);
        }
        let stops_all = self.outer_gate.is_some() || self.state.gate.is_some();
        let Some(running) = self.state.running.clone() else { return };
        if let Some(unit) = self.state.unit() {
            let is_all = stops_all || unit.slots().len() == SLOT_COUNT;
            running.note_holds(match is_all {
                true => Holds::All,
                false => Holds::Slots(unit.slots().collect(), unit.may_wait()),
            });
        }
    }
}
