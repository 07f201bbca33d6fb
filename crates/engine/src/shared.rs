//! What all workers of one server share.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tidemill_store::gate::{ClosedGate, Seat};
use tidemill_store::hash::Seed;
use tidemill_store::word::ExpiryFloor;
use tidemill_store::{Detached, Keyspace, Unreachable, pin};

use crate::clients::Clients;
use crate::clock::Clock;
use crate::command::{CommandId, CommandTable, Flags};
use crate::commands;
use crate::commit::Sinks;
use crate::config::{Configuration, SetError};
use crate::limits::{
    ERROR_CODES_MAX, GATE_ATTEMPTS_MAX, GATE_WAIT_US, HELD_BYTES_MAX, RETIRED_BYTES_MIN,
    RETIRED_MEMORY_SHARE,
};
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
    /// Bytes of all databases that were ever flushed: workers still count them as live.
    detached_bytes: AtomicU64,
    /// Flushed databases that are not freed yet.
    lazily_freed: LazilyFreed,
    peak_bytes: AtomicU64,
    /// Memory that the server may have, as of its start.
    memory_bytes: u64,
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
    /// Stops the server soon, because a client asked for it, which is described by its numbers and addresses.
    fn shut_down(&self, requested_by: &str);

    /// Touches memory that is not there, for `DEBUG SEGFAULT`. Hosts without unsafe code end otherwise.
    fn violate_memory(&self) {
        std::process::abort();
    }

    /// Writes the configuration back into the file that the server was started with.
    ///
    /// # Errors
    ///
    /// The text for the client.
    fn rewrite_configuration(&self, configuration: &Configuration) -> Result<(), String>;

    /// What the allocator holds.
    fn allocator(&self) -> AllocatorMemory;

    /// Memory that the machine, or the control group, has for the process; 0 when it is not known.
    fn memory_bytes(&self) -> u64 {
        0
    }

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

/// Keys of flushed databases, which wait to be freed or were.
#[derive(Debug, Default)]
struct LazilyFreed {
    pending_keys: AtomicU64,
    pending_bytes: AtomicU64,
    done_keys: AtomicU64,
}

/// What flushed databases still take, see [`Shared::lazily_freed`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PendingFrees {
    /// Keys that are not freed yet.
    pub keys: u64,
    /// Their bytes, with those of tables: no longer live.
    pub bytes: u64,
    /// Keys that have been freed since the statistics began.
    pub done_keys: u64,
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
    /// Counts the pauses that began or were ended by command: whoever waits since before asks again whether it has to.
    version: AtomicU64,
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
            sinks: spec.sinks,
            clock: spec.clock,
            started_us,
            expiry_floor: ExpiryFloor::default(),
            has_expiring_fields: AtomicBool::new(false),
            detached_bytes: AtomicU64::new(0),
            lazily_freed: LazilyFreed::default(),
            peak_bytes: AtomicU64::new(0),
            memory_bytes: spec.host.memory_bytes(),
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
    ///
    /// How long that is doubles with the `attempts` that were in vain, so that the closer does not depend on the others'
    /// having nothing long to do at the same moment; at last it waits for the longest command that is under way.
    #[must_use]
    pub fn close_gate(&self, closer: &Seat, attempts: u32) -> Option<ClosedGate<'_>> {
        if attempts >= GATE_ATTEMPTS_MAX {
            return self.keyspace.close_gate(closer, || false);
        }
        let deadline_us = self.clock.monotonic_us() + (GATE_WAIT_US << attempts);
        self.keyspace.close_gate(closer, || self.clock.monotonic_us() > deadline_us)
    }

    /// Databases were taken out of the keyspace: from now on their bytes are not live, although they are not freed yet.
    pub fn note_detached(&self, detached: &[Detached]) {
        let keys = detached.iter().map(|detached| detached.key_count).sum();
        let bytes = detached.iter().map(|detached| detached.bytes).sum();
        // Relaxed, also below: statistics.
        self.detached_bytes.fetch_add(bytes, Ordering::Relaxed);
        self.lazily_freed.pending_keys.fetch_add(keys, Ordering::Relaxed);
        self.lazily_freed.pending_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Frees flushed databases that nobody can reach any more; takes time in proportion to their keys.
    pub fn free_unreachable(&self) {
        self.free(self.keyspace.take_unreachable());
    }

    fn free(&self, unreachable: Vec<Unreachable>) {
        for unreachable in unreachable {
            let Detached { key_count, bytes } = unreachable.detached();
            drop(unreachable);
            // Relaxed, all: statistics.
            self.lazily_freed.pending_keys.fetch_sub(key_count, Ordering::Relaxed);
            self.lazily_freed.pending_bytes.fetch_sub(bytes, Ordering::Relaxed);
            self.lazily_freed.done_keys.fetch_add(key_count, Ordering::Relaxed);
        }
    }

    /// Frees flushed databases that nobody can reach any more, on a thread of its own; here when no thread can be had. To
    /// be called by one worker, some times a second.
    pub fn free_unreachable_in_background(self: &Arc<Self>) {
        let unreachable = self.keyspace.take_unreachable();
        if unreachable.is_empty() {
            return;
        }
        // The content stays here until the thread has it, so that a refused thread leaves it to this one.
        let content = Arc::new(Mutex::new(unreachable));
        let (shared, handed) = (Arc::clone(self), Arc::clone(&content));
        let free = move |shared: &Shared, content: &Mutex<Vec<Unreachable>>| {
            shared
                .free(std::mem::take(&mut *content.lock().unwrap_or_else(PoisonError::into_inner)));
        };
        let body = move || free(&shared, &handed);
        if std::thread::Builder::new().name("flush".into()).spawn(body).is_err() {
            free(self, &content);
        }
    }

    /// Whether long replies keep much memory from being freed: they are to be completed soon then, however slowly their
    /// clients take them.
    #[must_use]
    pub fn should_hurry(&self) -> bool {
        pin::held_bytes() > HELD_BYTES_MAX || self.keyspace.has_pinned_unreachable()
    }

    /// Flushed databases that wait to be freed, and how many keys of such have been.
    #[must_use]
    pub fn lazily_freed(&self) -> PendingFrees {
        // Relaxed: a statistic.
        let freed = &self.lazily_freed;
        PendingFrees {
            keys: freed.pending_keys.load(Ordering::Relaxed),
            bytes: freed.pending_bytes.load(Ordering::Relaxed),
            done_keys: freed.done_keys.load(Ordering::Relaxed),
        }
    }

    /// Bytes that the dataset takes: what all workers counted, less what was in databases that were flushed.
    #[must_use]
    pub fn live_bytes(&self) -> u64 {
        let counted =
            self.stats.iter().map(|stats| stats.live_bytes.value()).fold(0_u64, u64::wrapping_add);
        // Relaxed: a statistic.
        let live = counted.wrapping_sub(self.detached_bytes.load(Ordering::Relaxed)) as i64;
        live.max(0) as u64
    }

    /// Bytes that data takes: live, retired, and of flushed databases that are not freed yet.
    #[must_use]
    pub fn used_bytes(&self) -> u64 {
        self.live_bytes() + self.retired_bytes() + self.lazily_freed().bytes
    }

    /// Bytes that were replaced or deleted and wait for readers.
    #[must_use]
    pub fn retired_bytes(&self) -> u64 {
        self.stats.iter().map(|stats| stats.retired_bytes.value()).sum()
    }

    /// Bytes that one worker may have retired before its writers wait, see `rcu-retired-max`.
    #[must_use]
    pub fn retired_bytes_max(&self, settings: &Settings) -> u64 {
        let workers = self.worker_count().max(1) as u64;
        if settings.retired_bytes_max > 0 {
            return settings.retired_bytes_max / workers;
        }
        let known = [settings.maxmemory_bytes, self.memory_bytes];
        let limit = known.into_iter().filter(|&bytes| bytes > 0).min().unwrap_or(0);
        (limit / RETIRED_MEMORY_SHARE / workers).max(RETIRED_BYTES_MIN)
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
        self.lazily_freed.done_keys.store(0, Ordering::Relaxed);
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
        if !was_paused {
            // Who still waits since an earlier pause may not be meant by this one.
            self.tell_of_pause();
        }
    }

    /// Ends a pause.
    pub fn unpause(&self) {
        // Relaxed: as in `pause`.
        if self.pause.until_us.swap(0, Ordering::Relaxed) != 0 {
            self.tell_of_pause();
        }
    }

    /// Makes all workers look at the pause again.
    fn tell_of_pause(&self) {
        // Release: pairs with the Acquire in `pause_version`; who sees the number sees the pause as it is now.
        self.pause.version.fetch_add(1, Ordering::Release);
        // A worker that does not see the number yet wakes up, or does not fall asleep: it looks before each wait.
        (0..self.worker_count()).for_each(|worker| self.mailboxes.notify(worker));
    }

    /// Changes when a pause begins or is ended by command.
    #[must_use]
    pub fn pause_version(&self) -> u64 {
        // Acquire: pairs with the Release in `tell_of_pause`.
        self.pause.version.load(Ordering::Acquire)
    }

    /// When the pause ends by itself, in monotonic microseconds; some time in the past when there is none.
    #[must_use]
    pub fn pause_until_us(&self) -> u64 {
        // Relaxed: as in `pause`. A pause is only made longer without another version.
        self.pause.until_us.load(Ordering::Relaxed)
    }

    pub(crate) fn is_paused(&self) -> bool {
        self.clock.monotonic_us() < self.pause_until_us()
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
