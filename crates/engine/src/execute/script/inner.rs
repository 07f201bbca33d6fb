//! Commands within a run.

use tidemill_resp::request::ArgumentView;

use super::host::{Refusal, ScriptHost};
use super::state::{Reach, Restart};
use super::undo::Undo;
use crate::access::context::{Access, Caller, Lookups};
use crate::access::handler::Handler;
use crate::access::key_hashes::KeyHashes;
use crate::access::outcome::{Outcome, Stop};
use crate::access::section::{Enter, OpenSection, ReadSide};
use crate::access::session_context::SessionCx;
use crate::access::unit::Unit;
use crate::acl::{Context, Denial, Reason};
use crate::admin::acl::denial_entry;
use crate::command::{Command, CommandId, Databases, Flags, KeyPositions, Scope};
use crate::error::{CommandError, NO_MEMORY_LEFT};
use crate::execute::credit::is_exempt;
use crate::execute::executor::Executor;
use crate::execute::permission;
use crate::execute::unit::{close_gate, run_inner};
use crate::limits::{OUTBOX_BYTES_MAX, SEEN_SLOTS_MAX};
use crate::shared::Shared;
use crate::telemetry::command_log::LogKind;
use tidemill_store::{KeyHash, SlotNumber};

type Called = (CommandId, &'static Command);

fn refuse<T>(id: Option<CommandId>, text: &str) -> Result<T, Refusal> {
    Err(Refusal::Error(id, text.as_bytes().to_vec()))
}

/// True if a command changes anything that others see.
fn has_effects(command: &Command) -> bool {
    command.flags.intersects(Flags::WRITE | Flags::MAY_REPLICATE)
}

/// True if a command sends a message.
fn publishes(command: &Command) -> bool {
    matches!(command.name, "publish" | "spublish")
}

/// True if a command changes what another server has.
fn moves_elsewhere(command: &Command) -> bool {
    command.name == "migrate"
}

impl<'k: 'g, 'g, E: Enter> ScriptHost<'_, 'k, 'g, E> {
    /// Runs a command; its reply is in the executor's buffer.
    pub(super) fn execute(&mut self, args: &ArgumentView<'_>) -> Result<(), Refusal> {
        let called = self.find(args)?;
        self.permit(called, args)?;
        let exceeds_output_limit = self.executor.session.exceeds_output_limit;
        let is_timed = self.is_timed(called.0, args);
        let clock = &self.executor.shared.clock;
        let start_ns = is_timed.then(|| clock.monotonic_ns());
        let known = match self.state.reach {
            Reach::Unit(_) => self.prepare(called, args)?,
            _ => KeyHashes::None,
        };
        match self.state.lend() {
            Reach::Lookups(lookups) => self.read(called, args, lookups)?,
            Reach::Unit(unit) => {
                let alone = self.outer_gate.or(self.state.gate.as_ref());
                let (unit, error) =
                    run_inner(&mut self.executor, unit, (called.0, args), known, alone);
                self.state.reach = Reach::Unit(unit);
                if let Some(error) = error {
                    self.state.notes.ran.push_failed(called.0, &error.wire());
                }
            }
            Reach::Lent => unreachable!("one command at a time"),
        }
        // Replies to the script are sent to nobody.
        self.executor.session.exceeds_output_limit = exceeds_output_limit;
        self.note(called, args, start_ns);
        Ok(())
    }

    /// The command or subcommand that the arguments call.
    fn find(&self, args: &ArgumentView<'_>) -> Result<Called, Refusal> {
        let (id, command) = self.find_named(args)?;
        if !command.takes(args.len()) || command.scope == Scope::Container {
            return refuse(Some(id), "ERR Wrong number of args calling command from script");
        }
        Ok((id, command))
    }

    /// The command or subcommand that the arguments name, whether or not it takes the others.
    pub(super) fn find_named(&self, args: &ArgumentView<'_>) -> Result<Called, Refusal> {
        let table = &self.executor.shared.commands;
        let Some(id) = table.called_by(args.get(0), self.executor.session.replays) else {
            return refuse(None, "ERR Unknown command called from script");
        };
        let command = table.command(id);
        if command.subcommands.is_empty() || args.len() < 2 {
            return Ok((id, command));
        }
        match table.find_subcommand(command, args.get(1)) {
            Some(id) => Ok((id, table.command(id))),
            None => {
                let error = crate::execute::admit::container_error(command, args);
                Err(Refusal::Error(None, error.wire().into_owned()))
            }
        }
    }

    fn permit(&mut self, (id, command): Called, args: &ArgumentView<'_>) -> Result<(), Refusal> {
        if self.executor.shared.scripts.denies(command) {
            return refuse(Some(id), "ERR This Valkey command is not allowed from script");
        }
        if !self.executor.session.is_unrestricted
            && let Err(denial) = permission::judge(&mut self.executor, (id, args))
        {
            self.note_denial(denial, (id, args));
            let error = denial.error(self.executor.session.user().name(), command);
            let wire = error.wire();
            let text = wire.strip_prefix(b"NOPERM ").unwrap_or(&wire);
            let before: &[u8] = b"ERR ACL failure in script: ";
            debug_assert!(denial.reason <= Reason::Channel);
            return Err(Refusal::Error(Some(id), [before, text].concat()));
        }
        if self.state.limits.is_read_only && has_effects(command) {
            return refuse(Some(id), "ERR Write commands are not allowed from read-only scripts.");
        }
        // Whatever its flags and what it has written: a script may write any amount within one
        // iteration of its worker, and without memory the process would end.
        if command.flags.contains(Flags::DENYOOM) && !self.has_memory_left() {
            return refuse(Some(id), NO_MEMORY_LEFT);
        }
        let limits = self.state.limits;
        let is_short = limits.is_out_of_memory && !limits.allows_oom && !self.state.has_written;
        if is_short && command.flags.contains(Flags::DENYOOM) {
            let error = CommandError::OutOfMemory;
            return Err(Refusal::Error(Some(id), error.wire().into_owned()));
        }
        // One that has changed something goes on: it is whole or not there at all.
        let refuses_writes = self.executor.worker.refuses_writes && !self.state.has_written;
        if refuses_writes && command.flags.contains(Flags::WRITE) {
            let error = self.executor.shared.write_refused();
            return Err(Refusal::Error(Some(id), error.wire().into_owned()));
        }
        Ok(())
    }

    fn has_memory_left(&mut self) -> bool {
        let Executor { shared, worker, .. } = &mut self.executor;
        is_exempt(shared, worker) || worker.has_memory_left(shared)
    }

    /// Runs a command that reads, without locks.
    fn read(
        &mut self,
        (id, command): Called,
        args: &ArgumentView<'_>,
        lookups: Lookups,
    ) -> Result<(), Refusal> {
        let shared: &'k Shared = self.executor.shared;
        let is_whole = command.scope == Scope::Keyspace;
        let handler = self.executor.handlers.of(id);
        if is_whole || lookups.len() > SEEN_SLOTS_MAX {
            let slots = lookups.slots();
            self.state.reach = Reach::Lookups(lookups);
            return Err(Refusal::Restart(Restart::Locked(slots)));
        }
        let before = self.executor.reply.len();
        let (outcome, lookups) = match handler {
            Some(Handler::Keyed(handler)) => {
                let guard = self.executor.reader.enter();
                let (worker, reply) = (&mut *self.executor.worker, &mut *self.executor.reply);
                let mut cx = Caller::client(shared, worker, reply, self.executor.session).calls(
                    (command, args),
                    guard.section(),
                    Access::Optimistic(lookups),
                    KeyHashes::None,
                );
                let outcome = handler(&mut cx);
                (outcome, cx.into_lookups())
            }
            Some(Handler::Session(handler)) => (self.run_session(handler, command, args), lookups),
            Some(Handler::Script(_)) | None => unreachable!("it was permitted"),
        };
        let slots =
            outcome.as_ref().err().filter(|stop| stop.is_repeated()).map(|_| lookups.slots());
        self.state.reach = Reach::Lookups(lookups);
        if let Some(slots) = slots {
            return Err(Refusal::Restart(Restart::Locked(slots)));
        }
        if let Err(stop) = outcome {
            let Stop::Error(error) = *stop else {
                unreachable!("a read within a run neither blocks nor waits")
            };
            self.executor.take_back(&error, before);
            self.executor.write_error(&error);
            self.state.notes.ran.push_failed(id, &error.wire());
        }
        Ok(())
    }

    fn run_session(
        &mut self,
        handler: crate::access::handler::SessionHandler,
        command: &'static Command,
        args: &ArgumentView<'_>,
    ) -> Outcome {
        let executor = &mut self.executor;
        handler(&mut SessionCx {
            args: *args,
            reply: &mut *executor.reply,
            worker: &mut *executor.worker,
            session: &mut *executor.session,
            shared: executor.shared,
            reader: &mut *executor.reader,
            command,
            in_transaction: true,
            alone: None,
            unit: None,
        })
    }

    /// Locks what a command touches, and notes what it may change. Returns the hash of its key, if
    /// it has one.
    fn prepare(
        &mut self,
        (id, command): Called,
        args: &ArgumentView<'_>,
    ) -> Result<KeyHashes<'static>, Refusal> {
        if command.stops_others(args) {
            self.stop_all()?;
        }
        let has_effects = has_effects(command);
        if publishes(command) || self.tells_others(has_effects) {
            self.defer_messages()?;
        }
        let is_undone = matches!(command.databases, Databases::Selected)
            && command.scope == Scope::Keys
            && !moves_elsewhere(command);
        if has_effects && !is_undone && !publishes(command) {
            self.make_irrevocable()?;
        }
        let traits = self.executor.shared.commands.traits(id);
        if traits.only_key.is_some() {
            return self.prepare_key(args.get(traits.fixed_key.into()), has_effects);
        }
        let positions = match command.scope {
            Scope::Keys => command.key_positions(args).unwrap_or_default(),
            _ => KeyPositions::default(),
        };
        if let [position] = positions[..] {
            return self.prepare_key(args.get(position), has_effects);
        }
        let keyspace = &self.executor.shared.keyspace;
        let hash_of = |position: usize| keyspace.key_hash(args.get(position));
        for &position in &positions {
            self.lock(SlotNumber::of_key(args.get(position)))?;
        }
        if has_effects {
            let keys = positions.iter().map(|&position| (args.get(position), hash_of(position)));
            self.note_write(keys)?;
        }
        Ok(KeyHashes::None)
    }

    /// As `prepare`, for a command with one key.
    fn prepare_key(
        &mut self,
        key: &[u8],
        has_effects: bool,
    ) -> Result<KeyHashes<'static>, Refusal> {
        let key_hash = match self.first_key {
            Some((first, hash)) if first == key => hash,
            _ => self.executor.shared.keyspace.key_hash(key),
        };
        self.lock(key_hash.slot)?;
        if has_effects {
            self.note_write([(key, key_hash)])?;
        }
        Ok(KeyHashes::One(key, key_hash))
    }

    /// True if others are told of what a command changes, or of keys that it misses.
    fn tells_others(&self, has_effects: bool) -> bool {
        let Executor { shared, worker, .. } = &self.executor;
        let tells_changes =
            shared.sinks.events().is_some() || !worker.settings.published_events.is_empty();
        worker.notes_misses || has_effects && tells_changes
    }

    /// Lets messages and events wait for the end of the run, which may be taken back. When they
    /// take much memory, those so far are told, and the run is not taken back any more.
    fn defer_messages(&mut self) -> Result<(), Refusal> {
        let is_full = self.state.unit().is_some_and(|unit| {
            unit.defer_messages();
            unit.outbox().is_some_and(|outbox| outbox.bytes() > OUTBOX_BYTES_MAX)
        });
        if is_full {
            self.make_irrevocable()?;
            let (shared, worker) = (self.executor.shared, &*self.executor.worker);
            if let Some(unit) = self.state.unit() {
                unit.deliver_messages(shared, worker);
            }
        }
        Ok(())
    }

    /// Adds the slot of a key.
    fn lock(&mut self, slot: SlotNumber) -> Result<(), Refusal> {
        let shared: &'k Shared = self.executor.shared;
        let Some(unit) = self.state.unit() else { unreachable!("it is a unit") };
        if unit.lock(slot).is_some() || unit.try_add(shared, slot) {
            return Ok(());
        }
        self.state.met_undeclared = true;
        self.make_irrevocable()?;
        let Some(unit) = self.state.unit() else { unreachable!("it is a unit") };
        unit.add(shared, slot).map_err(|place| Refusal::Restart(Restart::Wait(place)))
    }

    /// Takes the token, with which the run goes on to its end whatever it meets. Reading without
    /// locks, it needs none.
    ///
    /// # Errors
    ///
    /// Another worker has it: the run begins anew when its turn comes.
    pub(super) fn make_irrevocable(&mut self) -> Result<(), Refusal> {
        let shared: &'k Shared = self.executor.shared;
        let ticket = self.executor.ticket();
        let Some(unit) = self.state.unit() else { return Ok(()) };
        if !unit.may_wait() {
            let token = shared.token.try_take(ticket, self.executor.reader.seat());
            let Some(token) = token else { return Err(Refusal::Restart(Restart::Token)) };
            if let Some(unit) = self.state.unit() {
                unit.give_token(token);
            }
        }
        self.undo = None;
        if self.executor.worker.is_revocable() {
            self.confirm();
        }
        Ok(())
    }

    /// The run is not taken back any more: what has waited for that is counted and logged.
    #[cold]
    fn confirm(&mut self) {
        let executor = &mut self.executor;
        executor.worker.confirm_attempt(executor.shared);
        self.state.notes.publish_logged((executor.shared, &*executor.worker));
    }

    /// Stops all other workers until the run ends.
    fn stop_all(&mut self) -> Result<(), Refusal> {
        if self.outer_gate.is_some() || self.state.gate.is_some() {
            return Ok(());
        }
        self.make_irrevocable()?;
        let shared: &'k Shared = self.executor.shared;
        self.state.gate = Some(close_gate(shared, self.executor.reader.seat()));
        Ok(())
    }

    fn note_write<'a>(
        &mut self,
        keys: impl IntoIterator<Item = (&'a [u8], KeyHash)>,
    ) -> Result<(), Refusal> {
        if !self.state.has_written {
            if self.state.running.as_ref().is_some_and(|running| !running.note_write()) {
                return Err(Refusal::Killed);
            }
            self.state.has_written = true;
            if let Some(unit) = self.state.unit() {
                unit.mark_held_timed(self.executor.shared, self.executor.worker);
            }
        }
        if self.undo.as_ref().is_some_and(Undo::is_full) {
            self.make_irrevocable()?;
        }
        let database = self.executor.session.database;
        let section = self.section;
        if let (Reach::Unit(unit), Some(undo)) = (&mut self.state.reach, &mut self.undo) {
            for (key, key_hash) in keys {
                Undo::note(undo, unit, (database, key, key_hash), section);
            }
        }
        Ok(())
    }

    /// True if a command is timed. Brief ones would take half as long again, so one of several is,
    /// and counts for the others.
    fn is_timed(&mut self, id: CommandId, args: &ArgumentView<'_>) -> bool {
        let executor = &mut self.executor;
        let bytes = args.iter().map(<[u8]>::len).sum();
        executor.is_timed_alone(Some(id), bytes) || executor.worker.inner_times.samples()
    }

    /// Tells of a command that took long; its entry is logged once the run counts.
    #[cold]
    fn note_slow(&mut self, command: &'static Command, args: &ArgumentView<'_>, elapsed_ns: u64) {
        let slow = self.executor.slow_entry(command, args, elapsed_ns);
        if elapsed_ns >= self.executor.worker.settings.latency_ns_min {
            self.executor.note_latency(command.flags.contains(Flags::FAST), elapsed_ns);
        }
        if let Some(entry) = slow {
            let settings = &self.executor.worker.settings;
            let entries_max = settings.command_logs[LogKind::Slow as usize].entries_max;
            self.state.notes.logged().push_slow(entries_max, entry);
            self.publish_if_confirmed();
        }
    }

    /// Logs a call that was denied, once the run counts.
    #[cold]
    fn note_denial(&mut self, denial: Denial, call: (CommandId, &ArgumentView<'_>)) {
        let Executor { shared, worker, session, .. } = &self.executor;
        let (by, what) = ((&*session.client, session.user().name()), (denial, Context::Lua));
        let entry = denial_entry((shared, worker), by, call, what);
        let entries_max = worker.settings.acl_log_entries_max;
        self.state.notes.logged().push_denial(entries_max, entry);
        self.publish_if_confirmed();
    }

    fn publish_if_confirmed(&mut self) {
        if !self.state.may_begin_anew() {
            let Executor { shared, worker, .. } = &self.executor;
            self.state.notes.publish_logged((shared, worker));
        }
    }

    /// Notes that a command ran; `start_ns` is when it began, if it was timed.
    fn note(&mut self, (id, command): Called, args: &ArgumentView<'_>, start_ns: Option<u64>) {
        let elapsed_ns = match start_ns {
            None => self.executor.worker.inner_times.last_ns,
            Some(start_ns) => {
                let now_ns = self.executor.shared.clock.monotonic_ns();
                let elapsed_ns = now_ns.saturating_sub(start_ns);
                self.is_late |= now_ns / 1000 >= self.turn_end_us;
                if self.executor.shared.commands.traits(id).is_brief {
                    self.executor.worker.inner_times.last_ns = elapsed_ns;
                }
                if self.executor.is_inner_noted(elapsed_ns) {
                    self.note_slow(command, args, elapsed_ns);
                }
                elapsed_ns
            }
        };
        if self.state.notes.ran.is_full() {
            match self.state.may_begin_anew() {
                true => self.state.notes.ran.sum_up(),
                false => self.state.notes.ran.count(&mut self.executor),
            }
        }
        self.state.notes.ran.push(id, elapsed_ns);
        if let Some(line) = self.executor.inner_line(command, args) {
            self.state.notes.shown.push(self.executor.shared, line);
        }
    }
}

/// Takes back what a unit has changed, if that may be needed, and gives its locks back.
pub(super) fn abandon<'g>(
    mut unit: Unit<'_>,
    undo: Option<Undo<'g>>,
    section: tidemill_store::Section<'g>,
    heap: &tidemill_store::Heap,
) {
    if let Some(undo) = undo {
        undo.take_back(&mut unit, section, heap);
    }
    unit.abandon();
}
