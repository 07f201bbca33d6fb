//! What all workers of one server share.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tidemill_store::gate::{ClosedGate, Gate};
use tidemill_store::hash::Seed;
use tidemill_store::word::ExpiryFloor;
use tidemill_store::{Detached, Keyspace, pin};

use crate::clients::Clients;
use crate::clock::Clock;
use crate::command::{CommandId, CommandTable, Flags};
use crate::commands;
use crate::commit::Sinks;
use crate::config::{Configuration, SetError};
use crate::limits::{ERROR_CODES_MAX, GATE_WAIT_US_MAX, HELD_BYTES_MAX};
use crate::mailbox::{Mailboxes, Notify};
use crate::observe::command_log::CommandLogs;
use crate::observe::histogram::Times;
use crate::observe::latency::LatencyEvents;
use crate::observe::monitor::Monitors;
use crate::observe::rates::{RateSamples, Totals};
use crate::parking::{Parking, SlotReleases, Token};
use crate::settings::Settings;
use crate::side::Side;
use crate::stats::WorkerStats;

/// The state of one server. Everything in it may be used by all workers at once.
pub struct Shared {
    /// The data.
    pub keyspace: Keyspace<Side>,
    /// The commands.
    pub commands: CommandTable,
    /// Connected clients.
    pub clients: Clients,
    /// Mailboxes of the workers.
    pub mailboxes: Arc<Mailboxes>,
    /// Waiting sessions.
    pub parking: Arc<Parking>,
    /// The single token.
    pub token: Token,
    /// Stops all workers.
    pub gate: Gate,
    /// Who hears of changes.
    pub sinks: Sinks,
    /// The time.
    pub clock: Box<dyn Clock>,
    /// Logs of slow commands, large requests and large replies.
    pub command_logs: CommandLogs,
    /// What took longer than `latency-monitor-threshold`.
    pub latency: LatencyEvents,
    /// How much there was to do lately.
    pub rates: RateSamples,
    /// Who sees all commands.
    pub monitors: Monitors,
    /// Counters by worker.
    pub stats: Box<[WorkerStats]>,
    /// Time before which nobody judges an expiry any more: what was seen expired stays so, whatever the clocks of two
    /// workers say.
    pub(crate) expiry_floor: ExpiryFloor,
    /// Whether any field of a hash was ever given an expiry.
    has_expiring_fields: AtomicBool,
    /// Bytes freed in the background after their workers stopped counting them.
    freed_bytes: AtomicU64,
    /// Flushed databases that long replies still read.
    put_off: Mutex<Vec<Detached>>,
    /// Keys of databases that are being freed.
    lazily_freed: LazilyFreed,
    peak_bytes: AtomicU64,
    expires_actively: AtomicBool,
    current: Mutex<Current>,
    settings_version: AtomicU64,
    /// When the server started, Unix time in microseconds.
    pub started_us: u64,
    /// What the server does for commands.
    pub host: Box<dyn Host>,
    pause: Pause,
    /// Error replies by code.
    errors: Mutex<BTreeMap<String, u64>>,
    /// Numbers of blocked waits.
    waiter_ids: AtomicU64,
}

impl fmt::Debug for Shared {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Shared").field("keyspace", &self.keyspace).finish_non_exhaustive()
    }
}

/// What the allocator holds, in bytes. All zero when it does not tell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AllocatorMemory {
    /// Handed out.
    pub allocated_bytes: u64,
    /// Pages that something handed out stands on.
    pub active_bytes: u64,
    /// Pages that are in physical memory, as far as the allocator knows.
    pub resident_bytes: u64,
    /// Pages that the system may take back when it needs them.
    pub muzzy_bytes: u64,
}

/// What commands ask of the server around the engine.
pub trait Host: Send + Sync + 'static {
    /// Stops the server soon.
    fn shut_down(&self);

    /// Writes the configuration back into the file that the server was started with.
    ///
    /// # Errors
    ///
    /// The text for the client.
    fn rewrite_configuration(&self, configuration: &Configuration) -> Result<(), String>;

    /// What the allocator holds.
    fn allocator(&self) -> AllocatorMemory;

    /// What the allocator reports of itself, in its own words.
    fn allocator_report(&self) -> String;

    /// Lets the allocator give unused memory back to the system.
    fn purge_memory(&self);

    /// Gets ready for a configuration that is about to be in force, or declines it. `changed` names the directives
    /// that get another value, in the client's order.
    ///
    /// # Errors
    ///
    /// The directive that cannot be had, and why.
    fn prepare(
        &self,
        _next: &Configuration,
        _changed: &[&str],
    ) -> Result<(), (&'static str, String)> {
        Ok(())
    }

    /// Facts about the process and its listeners for `INFO`: field and value.
    fn facts(&self) -> Vec<(&'static str, String)>;
}

/// The configuration in force, and the settings made of it.
#[derive(Debug)]
struct Current {
    configuration: Arc<Configuration>,
    settings: Arc<Settings>,
}

/// Keys that are freed off the workers.
#[derive(Debug, Default)]
struct LazilyFreed {
    pending: AtomicU64,
    done: AtomicU64,
}

/// Which commands wait while clients are paused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PauseMode {
    /// All but those about connections.
    All,
    /// Those that may write.
    Write,
}

/// A pause of clients: until when, in monotonic microseconds (0 is never), and for which commands.
#[derive(Debug, Default)]
struct Pause {
    until_us: AtomicU64,
    only_writes: AtomicBool,
}

/// What a server is made with.
pub struct SharedSpec {
    /// Number of databases.
    pub database_count: usize,
    /// The secret of the hashes, from the system's random source.
    pub seed: Seed,
    /// One notifier per worker.
    pub notifiers: Vec<Box<dyn Notify>>,
    /// The time.
    pub clock: Box<dyn Clock>,
    /// The configuration at start.
    pub configuration: Configuration,
    /// What the server does for commands.
    pub host: Box<dyn Host>,
    /// Who hears of changes.
    pub sinks: Sinks,
}

impl Shared {
    /// The state of a new server with an empty keyspace.
    #[must_use]
    pub fn new(spec: SharedSpec) -> Shared {
        let worker_count = spec.notifiers.len();
        let started_us = spec.clock.unix_us();
        let commands = CommandTable::new(&commands::all());
        let mailboxes = Arc::new(Mailboxes::new(spec.notifiers));
        let parking = Arc::new(Parking::new(Arc::clone(&mailboxes)));
        Shared {
            keyspace: Keyspace::new(
                spec.database_count,
                spec.seed,
                SlotReleases(Arc::clone(&parking)),
            ),
            stats: (0..worker_count)
                .map(|_| WorkerStats::new(commands.len(), spec.database_count))
                .collect(),
            commands,
            clients: Clients::default(),
            command_logs: CommandLogs::default(),
            latency: LatencyEvents::default(),
            rates: RateSamples::default(),
            monitors: Monitors::default(),
            mailboxes,
            parking,
            token: Token::default(),
            gate: Gate::new(worker_count),
            sinks: spec.sinks,
            clock: spec.clock,
            started_us,
            expiry_floor: ExpiryFloor::default(),
            has_expiring_fields: AtomicBool::new(false),
            freed_bytes: AtomicU64::new(0),
            put_off: Mutex::default(),
            lazily_freed: LazilyFreed::default(),
            peak_bytes: AtomicU64::new(0),
            expires_actively: AtomicBool::new(true),
            current: Mutex::new(Current {
                settings: Arc::new(spec.configuration.settings()),
                configuration: Arc::new(spec.configuration),
            }),
            host: spec.host,
            settings_version: AtomicU64::new(0),
            pause: Pause::default(),
            errors: Mutex::default(),
            waiter_ids: AtomicU64::new(1),
        }
    }

    fn current(&self) -> std::sync::MutexGuard<'_, Current> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The settings now.
    #[must_use]
    pub fn settings(&self) -> Arc<Settings> {
        Arc::clone(&self.current().settings)
    }

    /// The configuration now.
    #[must_use]
    pub fn configuration(&self) -> Arc<Configuration> {
        Arc::clone(&self.current().configuration)
    }

    /// Changes when the settings do.
    #[must_use]
    pub fn settings_version(&self) -> u64 {
        // Acquire: pairs with the Release in `configure`.
        self.settings_version.load(Ordering::Acquire)
    }

    /// Changes directives: all or none. Workers see it at their next boundary. Blocks while names of a `bind` are looked up.
    ///
    /// # Errors
    ///
    /// [`SetError`] for the first that cannot be changed so.
    pub fn configure(&self, changes: &[(&[u8], &[u8])]) -> Result<(), SetError> {
        let mut current = self.current();
        let next = current.configuration.with_changes(changes)?;
        let changed: Vec<&str> = next.changed_among(changes, &current.configuration).collect();
        self.host
            .prepare(&next, &changed)
            .map_err(|(name, reason)| SetError::Failed { name: name.into(), reason })?;
        current.settings = Arc::new(next.settings());
        current.configuration = Arc::new(next);
        // Release: pairs with the Acquire in `settings_version`.
        self.settings_version.fetch_add(1, Ordering::Release);
        Ok(())
    }

    /// How many workers there are.
    #[must_use]
    pub fn worker_count(&self) -> usize {
        self.stats.len()
    }

    /// Whether any hash may have fields that expire: the sweep has to look for them then.
    pub(crate) fn has_expiring_fields(&self) -> bool {
        // Relaxed: a round of the sweep that misses the first such field is followed by another.
        self.has_expiring_fields.load(Ordering::Relaxed)
    }

    /// A field got an expiry.
    pub(crate) fn note_expiring_field(&self) {
        if !self.has_expiring_fields() {
            self.has_expiring_fields.store(true, Ordering::Relaxed);
        }
    }

    /// Stops all workers but `closer` at a boundary, or gives up after a moment. The caller has the token.
    #[must_use]
    pub fn close_gate(&self, closer: usize) -> Option<ClosedGate<'_>> {
        let deadline_us = self.clock.monotonic_us() + GATE_WAIT_US_MAX;
        self.gate.close(closer, || self.clock.monotonic_us() > deadline_us)
    }

    /// Frees databases that were taken out; takes time in proportion to their keys. Those that a long reply still reads are put
    /// off, see [`Shared::free_put_off`].
    pub fn free_detached(&self, detached: Vec<Detached>) {
        let detached = self.put_off_pinned(detached);
        let bytes: usize = detached.into_iter().map(Detached::free).sum();
        // Relaxed: a statistic.
        self.freed_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Keeps the databases that a long reply still reads, and gives the others back.
    fn put_off_pinned(&self, detached: Vec<Detached>) -> Vec<Detached> {
        let (pinned, free): (Vec<_>, Vec<_>) = detached.into_iter().partition(Detached::is_pinned);
        if !pinned.is_empty() {
            self.put_off.lock().unwrap_or_else(PoisonError::into_inner).extend(pinned);
        }
        free
    }

    /// Frees, on a thread of its own, flushed databases that long replies read until lately. To be called by one worker,
    /// some times a second.
    pub fn free_put_off(self: &Arc<Self>) {
        let put_off =
            std::mem::take(&mut *self.put_off.lock().unwrap_or_else(PoisonError::into_inner));
        if !put_off.is_empty() {
            self.free_in_background(put_off);
        }
    }

    /// Whether long replies keep much memory from being freed: they are to be completed soon then, however slowly their
    /// clients take them.
    #[must_use]
    pub fn should_hurry(&self) -> bool {
        pin::held_bytes() > HELD_BYTES_MAX
            || !self.put_off.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    /// Frees databases that were taken out, on a thread of its own; here when no thread can be had.
    pub fn free_in_background(self: &Arc<Self>, detached: Vec<Detached>) {
        let detached = self.put_off_pinned(detached);
        if detached.is_empty() {
            return;
        }
        let keys: u64 = detached.iter().map(Detached::key_count).sum();
        // Relaxed, also below: a statistic.
        self.lazily_freed.pending.fetch_add(keys, Ordering::Relaxed);
        // The content stays here until the thread has it, so that a refused thread leaves it to this one.
        let content = Arc::new(Mutex::new(detached));
        let (shared, handed) = (Arc::clone(self), Arc::clone(&content));
        let take = |content: &Mutex<Vec<Detached>>| {
            std::mem::take(&mut *content.lock().unwrap_or_else(PoisonError::into_inner))
        };
        let free = move |shared: &Shared, content: &Mutex<Vec<Detached>>| {
            shared.free_detached(take(content));
            shared.lazily_freed.pending.fetch_sub(keys, Ordering::Relaxed);
            shared.lazily_freed.done.fetch_add(keys, Ordering::Relaxed);
        };
        let body = move || free(&shared, &handed);
        if std::thread::Builder::new().name("flush".into()).spawn(body).is_err() {
            free(self, &content);
        }
    }

    /// Keys whose database was flushed and that wait to be freed, and how many have been since the statistics began.
    #[must_use]
    pub fn lazily_freed(&self) -> (u64, u64) {
        // Relaxed: a statistic.
        let freed = &self.lazily_freed;
        (freed.pending.load(Ordering::Relaxed), freed.done.load(Ordering::Relaxed))
    }

    /// Bytes that the dataset takes: what all workers counted, less what was freed in the background.
    #[must_use]
    pub fn live_bytes(&self) -> u64 {
        let counted =
            self.stats.iter().map(|stats| stats.live_bytes.value()).fold(0_u64, u64::wrapping_add);
        // Relaxed: a statistic.
        let live = counted.wrapping_sub(self.freed_bytes.load(Ordering::Relaxed)) as i64;
        live.max(0) as u64
    }

    /// Bytes that live and retired data take.
    #[must_use]
    pub fn used_bytes(&self) -> u64 {
        let retired = |stats: &WorkerStats| stats.retired_bytes.value();
        self.live_bytes() + self.stats.iter().map(retired).sum::<u64>()
    }

    /// The most of [`Shared::used_bytes`] that was seen, now included. Looked at ten times a second or so.
    pub fn peak_bytes(&self) -> u64 {
        let used = self.used_bytes();
        // Relaxed: a statistic.
        self.peak_bytes.fetch_max(used, Ordering::Relaxed).max(used)
    }

    /// Takes the samples that peaks and rates are made of; to be called by one worker, ten times a second.
    pub fn sample(&self) {
        self.peak_bytes();
        let sum =
            |of: fn(&WorkerStats) -> u64| self.stats.iter().map(of).fold(0, u64::wrapping_add);
        let totals = Totals {
            commands: sum(|stats| stats.commands_processed.value()),
            input_bytes: sum(|stats| stats.input_bytes.value()),
            output_bytes: sum(|stats| stats.output_bytes.value()),
            iterations: sum(|stats| stats.iterations.value()),
            busy_us: sum(|stats| stats.busy_us.value()),
        };
        self.rates.add(self.clock.monotonic_us(), totals);
    }

    /// Whether keys are deleted when their time is over although nobody looks at them (`DEBUG SET-ACTIVE-EXPIRE`).
    #[must_use]
    pub fn expires_actively(&self) -> bool {
        // Relaxed: a switch for tests; whoever sweeps sees it soon.
        self.expires_actively.load(Ordering::Relaxed)
    }

    /// Switches active expiry on or off.
    pub fn set_active_expiry(&self, is_on: bool) {
        // Relaxed: as in `expires_actively`.
        self.expires_actively.store(is_on, Ordering::Relaxed);
    }

    /// Counts an error reply by the code that it begins with.
    #[cold]
    pub fn count_error(&self, wire: &[u8]) {
        let code = wire.split(|byte| *byte == b' ').next().unwrap_or_default();
        let code = String::from_utf8_lossy(code).into_owned();
        let mut errors = self.errors.lock().unwrap_or_else(PoisonError::into_inner);
        if errors.len() < ERROR_CODES_MAX || errors.contains_key(&code) {
            *errors.entry(code).or_default() += 1;
        }
    }

    /// Error replies by code.
    #[must_use]
    pub fn error_counts(&self) -> BTreeMap<String, u64> {
        self.errors.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// How the times of a command spread, on all workers together.
    #[must_use]
    pub fn command_times(&self, id: CommandId) -> Times {
        Times::of(self.stats.iter().map(|stats| &stats.command(id).times))
    }

    /// Begins the statistics anew. What a worker counts at this very moment may survive.
    pub fn reset_stats(&self) {
        self.errors.lock().unwrap_or_else(PoisonError::into_inner).clear();
        self.stats.iter().for_each(WorkerStats::reset);
        // Relaxed: a statistic.
        self.lazily_freed.done.store(0, Ordering::Relaxed);
    }

    /// Pauses clients; a longer pause that is under way stays, and the stricter mode.
    pub fn pause(&self, mode: PauseMode, timeout_ms: u64) {
        let until_us = self.clock.monotonic_us().saturating_add(timeout_ms.saturating_mul(1000));
        let was_paused = self.is_paused();
        let only_writes = mode == PauseMode::Write;
        // Relaxed, all: commands that run at this moment count as before the pause or as in it.
        let stays_strict = was_paused && !self.pause.only_writes.load(Ordering::Relaxed);
        self.pause.only_writes.store(only_writes && !stays_strict, Ordering::Relaxed);
        self.pause.until_us.fetch_max(until_us, Ordering::Relaxed);
    }

    /// Ends a pause.
    pub fn unpause(&self) {
        // Relaxed: as in `pause`.
        self.pause.until_us.store(0, Ordering::Relaxed);
    }

    pub(crate) fn is_paused(&self) -> bool {
        let until_us = self.pause.until_us.load(Ordering::Relaxed);
        until_us != 0 && self.clock.monotonic_us() < until_us
    }

    /// The pause that clients are in: for which commands, and for how many milliseconds still.
    #[must_use]
    pub fn pause_now(&self) -> Option<(PauseMode, u64)> {
        // Relaxed: as in `pause`.
        let until_us = self.pause.until_us.load(Ordering::Relaxed);
        let left_us = until_us.saturating_sub(self.clock.monotonic_us());
        let only_writes = self.pause.only_writes.load(Ordering::Relaxed);
        let mode = if only_writes { PauseMode::Write } else { PauseMode::All };
        (left_us > 0).then_some((mode, left_us / 1000))
    }

    /// Whether any command might have to wait until a pause is over.
    #[must_use]
    #[inline]
    pub fn may_hold_back(&self) -> bool {
        // Relaxed: as in `pause`.
        self.pause.until_us.load(Ordering::Relaxed) != 0
    }

    /// Whether a command with such flags has to wait until a pause is over.
    #[must_use]
    pub fn holds_back(&self, flags: Flags) -> bool {
        let is_meant = flags.intersects(Flags::WRITE | Flags::MAY_REPLICATE)
            || !self.pause.only_writes.load(Ordering::Relaxed);
        is_meant && self.is_paused()
    }

    /// A number for a new blocked wait.
    #[must_use]
    pub fn next_waiter_id(&self) -> u64 {
        // Relaxed: only has to be unique.
        self.waiter_ids.fetch_add(1, Ordering::Relaxed)
    }
}
