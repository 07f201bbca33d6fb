//! Replaying of a log: a thread reads its files ([`LogReader`]), and the first worker executes what
//! they hold between its iterations ([`Replaying`](crate::worker::replaying::Replaying)), so that
//! clients are answered meanwhile. Between them is a queue of few bytes.
//!
//! Rejected: executing on the reader's thread, as another worker: a worker's index is that of its
//! counters, lanes and mailbox, of which there would be one too many for as long as the server
//! runs.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use tidemill_engine::saving::Present;
use tidemill_engine::shared::Shared;
use tidemill_engine::slots::mailbox::Notify;
use tidemill_persist::append_only::{Replay, ReplayFault, Stopped};
use tidemill_persist::disk::DiskFile;
use tidemill_persist::limits::{INSERTERS_MAX, REPLAY_AHEAD_BYTES, REPLAY_BYTES};
use tidemill_persist::load::{LoadFault, LoadRules, Loaded, load};
use tidemill_persist::test_delay::delay;
use tidemill_rcu::{Domain, Flavour};
use tidemill_resp::request::ArgumentView;

use crate::handover::Waker;
use crate::limits::{LOAD_LOG_S, REPLAY_STOP_POLL};
use crate::replay_errors::LOG_LIMITS;

/// Work for the worker that executes a log.
#[derive(Debug)]
pub(crate) enum ReplayWork {
    /// Whole commands.
    Commands(LogCommands),
    /// A transaction that was begun has no end.
    Discard,
    /// The log ends here.
    End,
}

/// Commands of a file of the log.
#[derive(Debug, Default)]
pub(crate) struct LogCommands {
    pub(crate) bytes: Vec<u8>,
    /// Positions in the bytes, ascending, with the offsets in the file from which they were read
    /// up to the next position.
    places: Vec<(usize, u64)>,
    /// Name of the file.
    pub(crate) file: Arc<str>,
}

impl LogCommands {
    fn push(&mut self, offset: u64, command: &[u8]) {
        if self.places.is_empty() || self.offset_of(self.bytes.len()) != offset {
            self.places.push((self.bytes.len(), offset));
        }
        self.bytes.extend_from_slice(command);
    }

    /// Offset in the file of a position.
    pub(crate) fn offset_of(&self, position: usize) -> u64 {
        let index = self.places.partition_point(|&(from, _)| from <= position);
        let place = index.checked_sub(1).map(|index| self.places[index]);
        place.map_or(0, |(from, offset)| offset + (position - from) as u64)
    }
}

impl ReplayWork {
    fn bytes(&self) -> usize {
        match self {
            ReplayWork::Commands(commands) => commands.bytes.len(),
            ReplayWork::Discard | ReplayWork::End => 0,
        }
    }
}

#[derive(Debug, Default)]
struct QueueState {
    waiting: VecDeque<ReplayWork>,
    /// Bytes of what waits.
    waiting_bytes: usize,
    /// True while the worker has something in hand.
    is_executing: bool,
    /// Commands that were answered by errors.
    error_count: u64,
    /// Reason why the rest of the log is not executed.
    fault: Option<String>,
}

/// Queue between the thread that reads a log and the worker that executes it.
#[derive(Debug)]
pub(crate) struct ReplayQueue {
    state: Mutex<QueueState>,
    /// Told when the worker has taken or done something.
    progressed: Condvar,
    /// Wakes the worker.
    waker: Waker,
}

impl ReplayQueue {
    pub(crate) fn new(waker: Waker) -> ReplayQueue {
        ReplayQueue { state: Mutex::default(), progressed: Condvar::new(), waker }
    }

    fn state(&self) -> MutexGuard<'_, QueueState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes what is to be executed next. [`ReplayQueue::note_done`] follows.
    pub(crate) fn take(&self) -> Option<ReplayWork> {
        let mut state = self.state();
        let work = state.waiting.pop_front()?;
        state.waiting_bytes -= work.bytes();
        state.is_executing = true;
        drop(state);
        self.progressed.notify_all();
        Some(work)
    }

    /// Work that was taken is done; `error_count` commands of it were answered by errors.
    pub(crate) fn note_done(&self, error_count: u64) {
        let mut state = self.state();
        state.is_executing = false;
        state.error_count += error_count;
        drop(state);
        self.progressed.notify_all();
    }

    /// The commands that were taken cannot be executed: the load ends.
    pub(crate) fn fail(&self, reason: String) {
        self.state().fault.get_or_insert(reason);
    }

    /// Reason why a load has ended although the server goes on, told once.
    pub(crate) fn take_fault(&self) -> Option<String> {
        self.state().fault.take()
    }

    /// Waits until a condition holds. It ends in time: nobody but this thread adds work.
    fn wait_until(
        &self,
        shared: &Shared,
        holds: impl Fn(&QueueState) -> bool,
    ) -> Result<MutexGuard<'_, QueueState>, Stopped> {
        let mut state = self.state();
        while !holds(&state) {
            // The worker may have ended, which tells nobody.
            if shared.loading.is_stopped() {
                return Err(Stopped);
            }
            let waited = self.progressed.wait_timeout(state, REPLAY_STOP_POLL);
            (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        }
        match shared.loading.is_stopped() {
            true => Err(Stopped),
            false => Ok(state),
        }
    }

    fn push(&self, shared: &Shared, work: ReplayWork) -> Result<(), Stopped> {
        let bytes = work.bytes();
        let has_room = |state: &QueueState| {
            state.waiting.is_empty() || state.waiting_bytes + bytes <= REPLAY_AHEAD_BYTES
        };
        let mut state = self.wait_until(shared, has_room)?;
        if state.fault.is_some() && !matches!(work, ReplayWork::End) {
            return Err(Stopped);
        }
        state.waiting.push_back(work);
        state.waiting_bytes += bytes;
        drop(state);
        self.waker.notify();
        Ok(())
    }

    /// Waits until all is executed.
    fn await_idle(&self, shared: &Shared) -> Result<(), Stopped> {
        let is_idle = |state: &QueueState| state.waiting.is_empty() && !state.is_executing;
        self.wait_until(shared, is_idle).map(drop)
    }

    /// Number of commands that were answered by errors since it was asked for last.
    fn take_error_count(&self) -> u64 {
        std::mem::take(&mut self.state().error_count)
    }
}

/// Reader of a log: what [`load`](tidemill_persist::append_only::load()) reports its content to.
/// Dropping it ends the replaying.
pub(crate) struct LogReader<'r, F: Flavour> {
    queue: Arc<ReplayQueue>,
    shared: &'r Arc<Shared>,
    domain: &'r Arc<Domain<F>>,
    /// Commands on their way into the queue.
    commands: LogCommands,
    has_sent: bool,
    /// Bytes of all files that were read.
    read_bytes: u64,
    total_bytes: u64,
    /// Time of the last line of the log about the progress.
    logged: Instant,
    key_delay_us: i64,
}

impl<'r, F: Flavour> LogReader<'r, F> {
    /// A reader for an empty keyspace that clients do not touch. Its thread is no member.
    pub(crate) fn new(
        queue: Arc<ReplayQueue>,
        shared: &'r Arc<Shared>,
        domain: &'r Arc<Domain<F>>,
    ) -> LogReader<'r, F> {
        LogReader {
            queue,
            shared,
            domain,
            commands: LogCommands::default(),
            has_sent: false,
            read_bytes: 0,
            total_bytes: 0,
            logged: Instant::now(),
            key_delay_us: shared.settings().key_load_delay_us,
        }
    }

    /// Waits until everything is executed. Returns the number of commands that were answered by an
    /// error.
    pub(crate) fn finish(mut self) -> Result<u64, Stopped> {
        self.send_commands()?;
        let error_count = self.end()?;
        match self.queue.state().fault {
            Some(_) => Err(Stopped),
            None => Ok(error_count),
        }
    }

    fn send(&mut self, work: ReplayWork) -> Result<(), Stopped> {
        self.has_sent = true;
        self.queue.push(self.shared, work)
    }

    fn send_commands(&mut self) -> Result<(), Stopped> {
        self.key_delay_us = self.shared.settings().key_load_delay_us;
        self.note_progress();
        if self.commands.bytes.is_empty() {
            return Ok(());
        }
        let bytes = Vec::with_capacity(self.commands.bytes.len().min(REPLAY_BYTES));
        let rest = LogCommands { bytes, places: Vec::new(), file: Arc::clone(&self.commands.file) };
        let commands = std::mem::replace(&mut self.commands, rest);
        self.send(ReplayWork::Commands(commands))
    }

    fn end(&mut self) -> Result<u64, Stopped> {
        if !std::mem::take(&mut self.has_sent) {
            return Ok(0);
        }
        self.queue.push(self.shared, ReplayWork::End)?;
        self.queue.await_idle(self.shared)?;
        Ok(self.queue.take_error_count())
    }

    /// Tells the log now and then how far it is.
    fn note_progress(&mut self) {
        self.shared.raise_peak(self.shared.data_bytes());
        if self.logged.elapsed().as_secs() >= LOAD_LOG_S && self.total_bytes > 0 {
            self.logged = Instant::now();
            let percent = 100.0 * self.read_bytes as f64 / self.total_bytes as f64;
            log::info!("Loading AOF: {percent:.1}%");
        }
    }
}

impl<F: Flavour> Drop for LogReader<'_, F> {
    fn drop(&mut self) {
        // The worker forgets a transaction that was not ended. A server that stops needs nothing.
        let _ = self.end();
    }
}

impl<F: Flavour> Replay for LogReader<'_, F> {
    fn check(&self, arguments: &ArgumentView<'_>) -> Result<(), String> {
        let table = self.shared.commands;
        let text = |index| String::from_utf8_lossy(arguments.get(index)).into_owned();
        let Some(id) = table.find(arguments.get(0)) else {
            return Err(format!("unknown command '{}'", text(0)));
        };
        let mut command = table.command(id);
        if !command.subcommands.is_empty() && arguments.len() > 1 {
            let Some(id) = table.find_subcommand(command, arguments.get(1)) else {
                return Err(format!("unknown subcommand '{}'", text(1)));
            };
            command = table.command(id);
        }
        if !command.takes(arguments.len()) {
            return Err(format!("wrong number of arguments for '{}' command", command.name));
        }
        let bytes_max = LOG_LIMITS.bulk_bytes_max;
        match arguments.iter().map(<[u8]>::len).find(|&bytes| bytes > bytes_max) {
            Some(bytes) => Err(format!("an argument has {bytes} bytes, {bytes_max} is the most")),
            None => Ok(()),
        }
    }

    fn execute(&mut self, offset: u64, command: &[u8]) -> Result<(), Stopped> {
        if command.len() > REPLAY_BYTES {
            // A large one is there once besides the reader's buffer.
            self.send_commands()?;
            self.queue.await_idle(self.shared)?;
        }
        self.commands.push(offset, command);
        match self.commands.bytes.len() >= REPLAY_BYTES {
            true => self.send_commands(),
            false => Ok(()),
        }
    }

    fn discard(&mut self) {
        // A server that stops has nothing to discard.
        let _ = self.send_commands().and_then(|()| self.send(ReplayWork::Discard));
    }

    fn load_snapshot(&mut self, path: &Path, file: &dyn DiskFile) -> Result<u64, ReplayFault> {
        let (shared, settings) = (self.shared, self.shared.settings());
        let rules = LoadRules {
            keeps_expired: true,
            present: Present::Removed,
            clock: shared.expiry_clock(),
            settings: &settings,
            verifies_checksum: settings.snapshot_checksum,
        };
        let inserter_count = shared.worker_count().min(INSERTERS_MAX);
        let (domain, before_bytes) = (self.domain, self.read_bytes);
        let mut note = |loaded: Loaded| {
            self.read_bytes = before_bytes + loaded.bytes;
            shared.loading.note_loaded_bytes(self.read_bytes);
            self.note_progress();
        };
        let loaded = load(file, path, (shared, domain), rules, inserter_count, &mut note);
        match loaded {
            Ok(loaded) => {
                shared.snapshots.note_loaded(loaded.keys, loaded.expired_keys);
                Ok(loaded.bytes)
            }
            Err(error) if matches!(error.fault, LoadFault::Stopped) => Err(ReplayFault::Stopped),
            Err(error) => Err(ReplayFault::Snapshot(error.to_string())),
        }
    }

    fn begin_file(&mut self, path: &Path) -> Result<(), Stopped> {
        self.send_commands()?;
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        self.commands.file = name.into();
        Ok(())
    }

    fn begin(&mut self, total_bytes: u64) {
        self.total_bytes = total_bytes;
        self.shared.loading.set_total_bytes(total_bytes);
    }

    fn note_read(&mut self, bytes: u64) {
        let is_command = bytes > self.read_bytes;
        self.read_bytes = bytes;
        self.shared.loading.note_loaded_bytes(bytes);
        if self.key_delay_us != 0 && is_command {
            delay(self.key_delay_us, || self.shared.loading.is_stopped());
            self.key_delay_us = self.shared.settings().key_load_delay_us;
        }
    }
}
