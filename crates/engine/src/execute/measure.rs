//! Notes on a command that ran: its time, its sizes, its line for monitors.
//!
//! Reading the clock around each command would cost a tenth of what a `GET` in a pipeline costs. So
//! brief commands (fast or O(1) by declaration, with a small request) that follow each other within
//! a batch are timed together, and the time is divided evenly among them: at most one reading more
//! per batch. All others are timed by themselves, and so is everything while the slow log asks for
//! less than a millisecond. A client that waits for each reply has one command in a batch and exact
//! times.
//!
//! Consequence: the log of slow commands compares the share of a command in such a run, so that
//! a stall of the worker in the middle of a pipeline does not blame a command; the latency event
//! compares the run's whole time.
//!
//! Commands of a log that is replayed are no calls: as in Valkey they count as keyspace hits and
//! misses, errors and changes, and as nothing else.

use std::sync::atomic::Ordering;

use rand_xoshiro::rand_core::Rng;
use tidemill_resp::request::ArgumentView;

use super::batch::Request;
use super::executor::Executor;
use crate::command::{Command, CommandId, Flags};
use crate::limits::{BRIEF_REQUEST_BYTES_MAX, EXACT_SLOWLOG_US_MAX};
use crate::shared::Shared;
use crate::shared::clients;
use crate::shared::monitor;
use crate::slots::waiter::{WaitEnd, Waiter};
use crate::telemetry::command_log::{LogEntry, LogKind, shortened, shortened_name};
use crate::telemetry::hot_keys::HotSample;
use crate::telemetry::latency::Sample;
use crate::telemetry::shown_arguments;
use crate::worker::Worker;

impl<E> Executor<'_, '_, E> {
    /// True if a request of this length is timed by itself.
    #[inline]
    pub(crate) fn is_timed_alone(&self, id: Option<CommandId>, request_bytes: usize) -> bool {
        let Some(id) = id else { return false };
        request_bytes > BRIEF_REQUEST_BYTES_MAX
            || !self.shared.commands.traits(id).is_brief
            || self.times_each_alone()
    }

    /// True if all commands are timed by themselves.
    #[inline]
    pub(crate) fn times_each_alone(&self) -> bool {
        self.worker.settings.command_logs[LogKind::Slow as usize].value_min < EXACT_SLOWLOG_US_MAX
    }

    /// A command of the present request ran: it will get its share of the time, and monitors see
    /// it.
    #[inline]
    pub(crate) fn note_ran(
        &mut self,
        id: CommandId,
        command: &'static Command,
        args: &ArgumentView<'_>,
    ) {
        self.worker.run.note(id);
        self.show(command, args);
    }

    /// Reads the clock if anything ran, and divides the time among what did.
    ///
    /// `request` gives a request's arguments by its index in the batch.
    #[inline]
    pub(crate) fn end_run<'a>(&mut self, request: impl Fn(usize) -> ArgumentView<'a>) {
        self.worker.publish_lookups(self.shared);
        let count = self.worker.run.ran.len() as u64;
        if count == 0 {
            return;
        }
        let now_ns = self.shared.clock.monotonic_ns();
        let elapsed_ns = now_ns.saturating_sub(self.worker.run.start_ns);
        if self.worker.replays() {
            self.worker.run.last_ns = elapsed_ns;
            return self.worker.run.begin(now_ns);
        }
        // Without the division, where it would be by one.
        let share_ns = if count == 1 { elapsed_ns } else { elapsed_ns / count };
        let tracking = self.worker.settings.latency_tracking;
        let stats = self.worker.stats(self.shared);
        stats.commands_processed.add(count);
        self.session.client.commands.add(count);
        // A pipeline mostly repeats the same command.
        for same in self.worker.run.ran.chunk_by(|one, next| one.0 == next.0) {
            stats.command(same[0].0).ran(same.len() as u64, share_ns, tracking);
        }
        let settings = &self.worker.settings;
        if share_ns / 1000 >= settings.command_logs[LogKind::Slow as usize].value_min {
            for &(id, index) in &self.worker.run.ran {
                let command = self.shared.commands.command(id);
                self.log(LogKind::Slow, share_ns / 1000, command, &request(index));
            }
        }
        if elapsed_ns >= settings.latency_ns_min {
            let is_fast = |&(id, _): &(CommandId, usize)| {
                self.shared.commands.command(id).flags.contains(Flags::FAST)
            };
            self.note_latency(self.worker.run.ran.iter().all(is_fast), elapsed_ns);
        }
        if self.shared.hot_keys.is_on() {
            self.note_hot_run(elapsed_ns, request);
        }
        self.worker.run.last_ns = elapsed_ns;
        self.worker.run.begin(now_ns);
    }

    /// Notes one of the commands that ran, chosen at random, in the place of all of them: in the
    /// long run each key gets what is its own.
    #[cold]
    fn note_hot_run<'a>(&mut self, elapsed_ns: u64, request: impl Fn(usize) -> ArgumentView<'a>) {
        let ran = &self.worker.run.ran;
        let count = ran.len();
        let (id, index) = ran[self.worker.random.next_u64() as usize % count];
        let args = request(index);
        let reply_bytes = self.reply.len();
        let before = std::mem::replace(&mut self.worker.run.reply_bytes, reply_bytes);
        let bytes = request_bytes(&args) * count + reply_bytes.saturating_sub(before);
        let command = self.shared.commands.command(id);
        note_hot((self.shared, self.worker), command, &args, (elapsed_ns, bytes));
    }

    /// Counts a call that is timed by itself.
    #[inline]
    pub(crate) fn count_call(&self) {
        if !self.worker.replays() {
            self.worker.stats(self.shared).commands_processed.add(1);
        }
    }

    /// Counts failures of a call: its own, and those within it.
    #[cold]
    pub(crate) fn count_failed(&self, id: CommandId, count: u64) {
        if !self.worker.replays() {
            self.worker.stats(self.shared).command(id).failed.add(count);
        }
    }

    /// Lets others see what the client asked for last: no command when there is none of that name.
    #[inline]
    pub(super) fn note_activity(&self, request: &Request, view: ArgumentView<'_>) {
        let commands = &self.shared.commands;
        let called = request.id.and_then(|id| {
            let command = commands.command(id);
            let is_whole = command.subcommands.is_empty() || view.len() < 2;
            if is_whole { Some(id) } else { commands.find_subcommand(command, view.get(1)) }
        });
        let client = &self.session.client;
        // Relaxed: for others' information only.
        client.last_command.store(called.map_or(0, |id| id.index() as u32 + 1), Ordering::Relaxed);
        client.last_command_ms.store(self.worker.now_ms(), Ordering::Relaxed);
    }

    /// Logs a command if its request or reply is large.
    #[inline]
    pub(crate) fn note_sizes(
        &self,
        id: CommandId,
        args: &ArgumentView<'_>,
        request_bytes: usize,
        reply_bytes: usize,
    ) {
        let logs = &self.worker.settings.command_logs;
        let command = || self.shared.commands.command(id);
        if request_bytes as u64 >= logs[LogKind::LargeRequest as usize].value_min {
            self.log(LogKind::LargeRequest, request_bytes as u64, command(), args);
        }
        if reply_bytes as u64 >= logs[LogKind::LargeReply as usize].value_min {
            self.log_large_reply(reply_bytes as u64, command(), args);
        }
    }

    #[cold]
    fn log_large_reply(&self, bytes: u64, command: &'static Command, args: &ArgumentView<'_>) {
        // A reply that found no memory counts as longer than any.
        if !self.reply.has_failed() {
            self.log(LogKind::LargeReply, bytes, command, args);
        }
    }

    /// Notes all about one command of a transaction.
    pub(crate) fn note_queued(
        &mut self,
        (id, command): (CommandId, &'static Command),
        args: &ArgumentView<'_>,
        elapsed_ns: u64,
        reply_bytes: usize,
    ) {
        self.note_measured((id, command), args, elapsed_ns, reply_bytes);
        self.show(command, args);
    }

    /// Notes time and sizes of a command that was timed by itself.
    fn note_measured(
        &mut self,
        (id, command): (CommandId, &'static Command),
        args: &ArgumentView<'_>,
        elapsed_ns: u64,
        reply_bytes: usize,
    ) {
        // The next one may be `INFO`.
        self.worker.publish_lookups(self.shared);
        if self.worker.replays() {
            return;
        }
        let settings = &self.worker.settings;
        let stats = self.worker.stats(self.shared);
        stats.command(id).ran(1, elapsed_ns, settings.latency_tracking);
        self.session.client.commands.add(1);
        if elapsed_ns / 1000 >= settings.command_logs[LogKind::Slow as usize].value_min {
            self.log(LogKind::Slow, elapsed_ns / 1000, command, args);
        }
        if elapsed_ns >= settings.latency_ns_min {
            self.note_latency(command.flags.contains(Flags::FAST), elapsed_ns);
        }
        self.note_sizes(id, args, request_bytes(args), reply_bytes);
        if self.shared.hot_keys.is_on() {
            let bytes = request_bytes(args) + reply_bytes;
            note_hot((self.shared, self.worker), command, args, (elapsed_ns, bytes));
        }
    }

    /// True if a command of a script took so long that there is an entry or an event of it.
    #[inline]
    pub(crate) fn is_inner_noted(&self, elapsed_ns: u64) -> bool {
        let settings = &self.worker.settings;
        let slow_us_min = settings.command_logs[LogKind::Slow as usize].value_min;
        elapsed_ns / 1000 >= slow_us_min || elapsed_ns >= settings.latency_ns_min
    }

    /// Entry of a script's command in the log of slow ones, if it took so long.
    pub(crate) fn slow_entry(
        &self,
        command: &'static Command,
        args: &ArgumentView<'_>,
        elapsed_ns: u64,
    ) -> Option<LogEntry> {
        let slow_us_min = self.worker.settings.command_logs[LogKind::Slow as usize].value_min;
        let is_slow = elapsed_ns / 1000 >= slow_us_min && !self.worker.replays();
        let arguments = is_slow.then(|| shortened(shown_arguments(command, *args)))?;
        entry_of(self.shared, &self.session.client, elapsed_ns / 1000, command, arguments)
    }

    /// Counts commands of a script, each with the nanoseconds that it took.
    pub(crate) fn count_inner(&mut self, ran: &[(CommandId, u64)]) {
        // The next one may be `INFO`.
        self.worker.publish_lookups(self.shared);
        if self.worker.replays() {
            return;
        }
        let stats = self.worker.stats(self.shared);
        stats.commands_processed.add(ran.len() as u64);
        self.session.client.commands.add(ran.len() as u64);
        for &(id, elapsed_ns) in ran {
            stats.command(id).ran(1, elapsed_ns, self.worker.settings.latency_tracking);
        }
    }

    /// The line of a script's command for those who watch, if anybody does.
    pub(crate) fn inner_line(
        &self,
        command: &'static Command,
        args: &ArgumentView<'_>,
    ) -> Option<Vec<u8>> {
        let is_shown =
            self.shows_scripts() && !command.flags.intersects(Flags::SKIP_MONITOR | Flags::ADMIN);
        is_shown.then(|| {
            let (now_us, database) = (self.shared.clock.wall_us(), self.session.database);
            monitor::line(now_us, database, "lua", shown_arguments(command, *args))
        })
    }

    /// The line of a script for those who watch, if anybody does.
    pub(crate) fn script_line(
        &self,
        command: &'static Command,
        args: &ArgumentView<'_>,
    ) -> Option<Vec<u8>> {
        self.shows_scripts().then(|| {
            let (now_us, client) = (self.shared.clock.wall_us(), &self.session.client);
            let shown = shown_arguments(command, *args);
            monitor::line(now_us, self.session.database, &client.address, shown)
        })
    }

    fn shows_scripts(&self) -> bool {
        self.shared.monitors.is_watched() && !self.worker.replays()
    }

    /// Notes all about a command that took several turns; monitors have seen it.
    pub(crate) fn note_long(
        &mut self,
        (id, command): (CommandId, &'static Command),
        args: &ArgumentView<'_>,
        elapsed_ns: u64,
        reply_bytes: usize,
    ) {
        self.count_call();
        self.note_measured((id, command), args, elapsed_ns, reply_bytes);
    }

    #[cold]
    fn log(&self, kind: LogKind, value: u64, command: &'static Command, args: &ArgumentView<'_>) {
        let arguments = shortened(shown_arguments(command, *args));
        self.log_shortened(kind, value, command, arguments);
    }

    /// As `log`, with arguments as the log keeps them.
    pub(crate) fn log_shortened(
        &self,
        kind: LogKind,
        value: u64,
        command: &'static Command,
        arguments: Vec<Vec<u8>>,
    ) {
        if self.worker.replays() {
            return;
        }
        log_for(
            (self.shared, self.worker),
            &self.session.client,
            (kind, value),
            command,
            arguments,
        );
    }

    #[cold]
    pub(crate) fn note_latency(&self, is_fast: bool, elapsed_ns: u64) {
        if self.worker.replays() {
            return;
        }
        let unix_s = self.shared.clock.wall_us() / 1_000_000;
        let event = if is_fast { "fast-command" } else { "command" };
        self.shared.latency.add(event, Sample { unix_s, ms: elapsed_ns / 1_000_000 });
    }

    /// Shows a command to those who watch.
    #[inline]
    pub(crate) fn show(&self, command: &'static Command, args: &ArgumentView<'_>) {
        if self.shared.monitors.is_watched() {
            self.show_now(command, args);
        }
    }

    #[cold]
    fn show_now(&self, command: &'static Command, args: &ArgumentView<'_>) {
        let is_hidden = command.flags.intersects(Flags::SKIP_MONITOR | Flags::ADMIN);
        if is_hidden || self.worker.replays() {
            return;
        }
        let client = &self.session.client;
        let line = monitor::line(
            self.shared.clock.wall_us(),
            self.session.database,
            &client.address,
            shown_arguments(command, *args),
        );
        self.shared.monitors.send(&self.shared.lanes, &line.into());
    }
}

/// Notes what a command with keys cost, for `HOTKEYS`.
#[cold]
fn note_hot(
    (shared, worker): (&Shared, &Worker),
    command: &Command,
    args: &ArgumentView<'_>,
    (ns, bytes): (u64, usize),
) {
    let positions = command.key_positions(args).unwrap_or_default();
    if positions.is_empty() {
        return;
    }
    let sample = HotSample { now_ms: worker.now_ms(), ns, bytes: bytes as u64 };
    let keys = positions.iter().map(|&position| args.get(position));
    shared.hot_keys.note(worker.index, sample, keys);
}

/// Puts an entry into a command's log, unless the command is one that is not logged.
fn log_for(
    (shared, worker): (&Shared, &Worker),
    executor: &clients::Client,
    (kind, value): (LogKind, u64),
    command: &'static Command,
    arguments: Vec<Vec<u8>>,
) {
    let Some(entry) = entry_of(shared, executor, value, command, arguments) else { return };
    let entries_max = worker.settings.command_logs[kind as usize].entries_max;
    shared.command_logs.push(kind, entries_max, entry);
}

/// Entry of a command's log; none for a command that is not logged.
fn entry_of(
    shared: &Shared,
    client: &clients::Client,
    value: u64,
    command: &Command,
    arguments: Vec<Vec<u8>>,
) -> Option<LogEntry> {
    let is_logged = !command.flags.contains(Flags::SKIP_SLOWLOG);
    is_logged.then(|| LogEntry {
        id: 0,
        unix_s: shared.clock.wall_us() / 1_000_000,
        value,
        arguments,
        client_address: client.address.to_string(),
        client_name: shortened_name(client.texts().name),
    })
}

/// A client's wait is over: its command counts now, unless it has already (no `end`), and the logs
/// may get it.
pub fn note_unblocked(
    shared: &Shared,
    worker: &Worker,
    executor: &clients::Client,
    waiter: &Waiter,
    end: Option<WaitEnd>,
    reply_bytes: usize,
) {
    executor.commands.add(1);
    if let Some(end) = end {
        worker.count_wait(shared, waiter, end);
    }
    let elapsed_ns = end.map_or(0, WaitEnd::elapsed_ns);
    let arguments = waiter.sent_arguments.as_ref().unwrap_or(&waiter.arguments).view();
    if shared.hot_keys.is_on() && matches!(end, Some(WaitEnd::Served(_))) {
        let bytes = request_bytes(&arguments) + reply_bytes;
        note_hot((shared, worker), waiter.command, &arguments, (elapsed_ns, bytes));
    }
    let values = [
        (LogKind::Slow, elapsed_ns / 1000),
        (LogKind::LargeRequest, request_bytes(&arguments) as u64),
        (LogKind::LargeReply, reply_bytes as u64),
    ];
    for (kind, value) in values {
        if value >= worker.settings.command_logs[kind as usize].value_min {
            let shown = shortened(shown_arguments(waiter.command, arguments));
            log_for((shared, worker), executor, (kind, value), waiter.command, shown);
        }
    }
}

/// Bytes that a request takes on the wire.
pub(super) fn request_bytes(args: &ArgumentView<'_>) -> usize {
    let digits = |number: usize| number.checked_ilog10().unwrap_or(0) as usize + 1;
    let arguments = args.iter().map(|argument| argument.len() + digits(argument.len()) + 5);
    arguments.sum::<usize>() + digits(args.len()) + 3
}
