//! State that all workers of one server share.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tidemill_store::gate::{ClosedGate, Seat};
use tidemill_store::hash::Seed;
use tidemill_store::word::{ExpiryFloor, SlotWord, Word};
use tidemill_store::{Cut, Detached, Keyspace, Section, Unreachable, pin};

use crate::acl::{Log as AclLog, Users};
use crate::clock::Clock;
use crate::command::{CommandId, CommandTable, Flags};
use crate::commit::{RecordNumber, Sinks};
use crate::config::{Configuration, SetError};
use crate::error::CommandError;
use crate::expiry_clock::ExpiryClock;
use crate::limits::{
    FLUSHED_AT_ONCE_BYTES_MAX, GATE_ATTEMPTS_MAX, GATE_WAIT_US, PINNED_GARBAGE_BYTES_MAX,
    RETIRED_BYTES_MIN, RETIRED_MEMORY_SHARE,
};
use crate::pubsub::lanes::Lanes;
use crate::pubsub::registry::PubSub;
use crate::script::Scripts;
use crate::settings::Settings;
use crate::shared::clients::Clients;
use crate::shared::defrag::DefragEffort;
use crate::shared::error_counts::{ErrorCounts, error_code};
use crate::shared::host::Host;
use crate::shared::lazy_free::{LazyFree, PendingFrees};
use crate::shared::live_config::LiveConfig;
use crate::shared::loading::Loading;
use crate::shared::memory_limit::MemoryLimit;
use crate::shared::monitor::Monitors;
use crate::shared::pause::{Pause, PauseMode};
use crate::shared::rewrites::Rewrites;
use crate::shared::signalled_end::SignalledEnd;
use crate::shared::snapshots::{AlreadySaving, Snapshots};
use crate::shared::tracking::ClientTracking;
use crate::shared::write_refusal::WriteRefusal;
use crate::slots::mailbox::{Mailboxes, Notify};
use crate::slots::parking::{Parking, SlotReleases, WaitTarget};
use crate::slots::records::SlotRecords;
use crate::slots::registry::SlotRegistry;
use crate::slots::token::Token;
use crate::telemetry::command_log::CommandLogs;
use crate::telemetry::histogram::Times;
use crate::telemetry::hot_keys::HotKeys;
use crate::telemetry::latency::LatencyEvents;
use crate::telemetry::rates::{RateSamples, Totals};
use crate::telemetry::stats::WorkerStats;

/// The state of one server. Everything in it may be used by all workers at once.
pub struct Shared {
    /// The data.
    pub keyspace: Keyspace<SlotRegistry>,
    /// The commands.
    pub commands: &'static CommandTable,
    /// Connected clients.
    pub clients: Clients,
    /// Mailboxes of the workers.
    pub mailboxes: Arc<Mailboxes>,
    /// Lanes of the workers: what is to be delivered to their connections.
    pub lanes: Lanes,
    /// Registry of subscriptions.
    pub pubsub: PubSub,
    /// Client-side caching.
    pub tracking: ClientTracking,
    /// Waiting sessions.
    pub parking: Arc<Parking>,
    /// The single token.
    pub token: Token,
    /// Receivers of changes: the journal and keyspace events.
    pub sinks: Sinks,
    /// Last record of the journal by slot.
    pub(crate) slot_records: SlotRecords,
    /// Reason why no write is taken, when what was written could not be made to last.
    pub write_refusal: WriteRefusal,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Users and what they may do.
    pub users: Users,
    /// Requests that were denied to them.
    pub acl_log: AclLog,
    /// Scripts and libraries of functions.
    pub scripts: Scripts,
    /// Logs of slow commands, large requests and large replies.
    pub command_logs: CommandLogs,
    /// Events that took longer than `latency-monitor-threshold`.
    pub latency: LatencyEvents,
    /// Keys that took the most time or bytes.
    pub hot_keys: HotKeys,
    /// Rates of the latest seconds.
    pub rates: RateSamples,
    /// Clients that see all commands.
    pub monitors: Monitors,
    /// Counters by worker.
    pub stats: Box<[WorkerStats]>,
    /// Time before which nobody judges an expiry any more: what was seen expired stays so, whatever
    /// the clocks of two workers say.
    pub(crate) expiry_floor: ExpiryFloor,
    /// True once a field of any hash was given an expiry.
    has_expiring_fields: AtomicBool,
    lazy_free: LazyFree,
    /// Account of `maxmemory`.
    pub memory_limit: Arc<MemoryLimit>,
    /// Effort of the defragmentation.
    pub defrag: DefragEffort,
    peak_bytes: AtomicU64,
    /// Memory that the server may have, as of its start.
    memory_bytes: u64,
    expires_actively: AtomicBool,
    is_cron_paused: AtomicBool,
    counts_reply_blocks: AtomicBool,
    verifies_checksums: AtomicBool,
    config: LiveConfig,
    /// When the server started, Unix time in microseconds.
    pub started_us: u64,
    /// Services of the process around the engine.
    pub host: Box<dyn Host>,
    /// Saves of all data.
    pub snapshots: Snapshots,
    /// Loading of all data.
    pub loading: Loading,
    /// Rewrites of the append-only file.
    pub rewrites: Rewrites,
    /// The end that a signal asked for.
    pub signalled_end: SignalledEnd,
    /// Live bytes that threads besides the workers published, less what they retired.
    other_live_bytes: AtomicU64,
    pause: Pause,
    errors: ErrorCounts,
    /// Numbers of blocked waits.
    waiter_ids: AtomicU64,
}

impl fmt::Debug for Shared {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Shared").field("keyspace", &self.keyspace).finish_non_exhaustive()
    }
}

/// Parts of which a server's state is made.
pub struct SharedSpec {
    /// The commands: those of [`execute::commands`](crate::execute::commands).
    pub commands: &'static CommandTable,
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
    /// Services of the process around the engine.
    pub host: Box<dyn Host>,
    /// Receivers of changes: the journal and keyspace events.
    pub sinks: Sinks,
}

impl Shared {
    /// The state of a new server with an empty keyspace.
    #[must_use]
    pub fn new(spec: SharedSpec) -> Shared {
        let worker_count = spec.notifiers.len();
        let clock: Arc<dyn Clock> = spec.clock.into();
        let started_us = clock.unix_us();
        let users = Users::new(spec.commands);
        let password = spec.configuration.settings().requirepass;
        if !password.is_empty() {
            users.set_default_password(&password);
        }
        let mailboxes = Arc::new(Mailboxes::new(spec.notifiers));
        let parking = Arc::new(Parking::new(Arc::clone(&mailboxes)));
        Shared {
            keyspace: Keyspace::new(
                spec.database_count,
                spec.seed,
                SlotReleases(Arc::clone(&parking)),
            ),
            stats: (0..worker_count)
                .map(|_| WorkerStats::new(spec.commands.len(), spec.database_count))
                .collect(),
            commands: spec.commands,
            users,
            acl_log: AclLog::default(),
            clients: Clients::default(),
            scripts: Scripts::new(),
            command_logs: CommandLogs::default(),
            latency: LatencyEvents::default(),
            hot_keys: HotKeys::new(worker_count),
            rates: RateSamples::default(),
            monitors: Monitors::default(),
            token: Token::new(Arc::clone(&mailboxes)),
            lanes: Lanes::new(worker_count, Arc::clone(&mailboxes), Arc::clone(&clock)),
            pubsub: PubSub::new(spec.seed),
            tracking: ClientTracking::default(),
            mailboxes,
            parking,
            sinks: spec.sinks,
            slot_records: SlotRecords::default(),
            write_refusal: WriteRefusal::default(),
            clock,
            started_us,
            expiry_floor: ExpiryFloor::default(),
            has_expiring_fields: AtomicBool::new(false),
            lazy_free: LazyFree::default(),
            memory_limit: Arc::default(),
            defrag: DefragEffort::default(),
            peak_bytes: AtomicU64::new(0),
            memory_bytes: spec.host.memory_bytes(),
            expires_actively: AtomicBool::new(true),
            is_cron_paused: AtomicBool::new(false),
            counts_reply_blocks: AtomicBool::new(false),
            verifies_checksums: AtomicBool::new(true),
            config: LiveConfig::new(spec.configuration),
            host: spec.host,
            snapshots: Snapshots::new(started_us / 1_000_000),
            loading: Loading::default(),
            rewrites: Rewrites::default(),
            signalled_end: SignalledEnd::default(),
            other_live_bytes: AtomicU64::new(0),
            pause: Pause::default(),
            errors: ErrorCounts::default(),
            waiter_ids: AtomicU64::new(1),
        }
    }

    /// The settings now.
    #[must_use]
    pub fn settings(&self) -> Arc<Settings> {
        self.config.settings()
    }

    /// The configuration now.
    #[must_use]
    pub fn configuration(&self) -> Arc<Configuration> {
        self.config.configuration()
    }

    /// Changes when the settings do.
    #[must_use]
    pub fn settings_version(&self) -> u64 {
        self.config.version()
    }

    /// Changes directives: all or none. Workers see it at their next boundary. Blocks while names
    /// of a `bind` are looked up.
    ///
    /// # Errors
    ///
    /// [`SetError`] for the first that cannot be changed so.
    pub fn configure(
        &self,
        changes: &[(&[u8], &[u8])],
        may_change_protected: bool,
    ) -> Result<(), SetError> {
        self.config.change((&*self.host, &self.users), changes, may_change_protected)
    }

    /// Error of a write while what is written cannot be made to last.
    #[cold]
    pub(crate) fn write_refused(&self) -> CommandError {
        match self.write_refusal.is_set() {
            true => CommandError::Bytes(self.write_refusal.reason().into_bytes()),
            false => CommandError::NotSaved,
        }
    }

    /// True if something was found expired that `clock` may have found alive.
    pub(crate) fn has_expired_since(&self, clock: ExpiryClock) -> bool {
        self.expiry_floor.load() > clock.now_ms()
    }

    /// Something that expires at `at_ms` at the latest was found expired under its slot's lock, or
    /// by somebody who makes nothing of it: from now on it is so for everybody.
    pub fn saw_expired(&self, at_ms: u64) {
        self.expiry_floor.raise(at_ms.saturating_add(1));
    }

    /// As [`Shared::saw_expired`], without a lock; `before` is the slot's word as loaded before the
    /// lookup. Tells whether the finding counts.
    #[must_use]
    pub fn confirms_expired(&self, at_ms: u64, word: &SlotWord, before: Word) -> bool {
        self.expiry_floor.confirms_expired(at_ms.saturating_add(1), word, before)
    }

    /// Number of workers.
    #[must_use]
    pub fn worker_count(&self) -> usize {
        self.stats.len()
    }

    /// True if any hash may have fields that expire: the sweep has to look for them then.
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

    /// Stops all workers but `closer` at a boundary, or gives up after a moment. The caller has the
    /// token.
    ///
    /// That moment doubles with the `attempts` that were in vain, so that the closer does not
    /// depend on the others' having nothing long to do at the same moment; at last it waits for the
    /// longest command that is under way.
    ///
    /// # Errors
    ///
    /// They did not stop in time: target to wait for before the next attempt.
    pub fn close_gate(&self, closer: &Seat, attempts: u32) -> Result<ClosedGate<'_>, WaitTarget> {
        let gate = if attempts >= GATE_ATTEMPTS_MAX {
            self.keyspace.close_gate(closer, || false)
        } else {
            let deadline_us = self.clock.monotonic_us() + (GATE_WAIT_US << attempts);
            self.keyspace.close_gate(closer, || self.clock.monotonic_us() > deadline_us)
        };
        gate.ok_or(WaitTarget::Gate)
    }

    /// Databases were taken out of the keyspace: from now on their bytes are not live, although
    /// they are not freed yet.
    pub fn note_detached(&self, detached: &[Detached]) {
        self.lazy_free.note_detached(detached);
        // The workers that allocated them have claimed them, and count them as live for ever.
        let bytes = detached.iter().map(|detached| detached.bytes).sum::<u64>();
        self.memory_limit.adjust(-bytes.cast_signed());
    }

    /// Frees flushed databases that nobody can reach any more; takes time in proportion to their
    /// keys.
    pub fn free_unreachable(&self) {
        self.free(self.keyspace.take_unreachable());
    }

    fn free(&self, unreachable: Vec<Unreachable>) {
        for unreachable in unreachable {
            let detached = unreachable.detached();
            drop(unreachable);
            self.lazy_free.note_freed(detached);
        }
    }

    /// Frees flushed databases that nobody can reach any more, on a thread of its own; here if they
    /// are small together, however many flushes they are of, or no thread can be had. Returns true
    /// if a thread frees them. To be called behind a flush, and by one worker some times a second.
    pub fn free_unreachable_in_background(self: &Arc<Self>) -> bool {
        let unreachable = self.keyspace.take_unreachable();
        let bytes = unreachable.iter().map(|unreachable| unreachable.detached().bytes).sum::<u64>();
        if bytes <= FLUSHED_AT_ONCE_BYTES_MAX {
            self.free(unreachable);
            return false;
        }
        // The content stays here until the thread has it, so that a refused thread leaves it to
        // this one.
        let content = Arc::new(Mutex::new(unreachable));
        let (shared, handed) = (Arc::clone(self), Arc::clone(&content));
        let free = move |shared: &Shared, content: &Mutex<Vec<Unreachable>>| {
            shared
                .free(std::mem::take(&mut *content.lock().unwrap_or_else(PoisonError::into_inner)));
        };
        let body = move || free(&shared, &handed);
        if self.host.start_thread("flush", Box::new(body)).is_err() {
            free(self, &content);
            return false;
        }
        true
    }

    /// True if long replies keep much memory from being freed: they are to be completed soon then,
    /// however slowly their clients take them.
    #[must_use]
    pub fn should_hurry(&self) -> bool {
        pin::pinned_garbage_bytes() > PINNED_GARBAGE_BYTES_MAX
            || self.keyspace.has_pinned_unreachable()
    }

    /// Flushed databases and large values that wait to be freed, and how many have been.
    #[must_use]
    pub fn lazily_freed(&self) -> PendingFrees {
        // Before what was freed is counted: otherwise more than were left might have been.
        let freed = self.host.freed_values();
        let left = self.stats.iter().map(|stats| stats.values_left.value()).sum();
        self.lazy_free.pending(left, freed)
    }

    /// Bytes that the dataset takes: what all workers counted, less what was in databases that were
    /// flushed.
    #[must_use]
    pub fn live_bytes(&self) -> u64 {
        let counted =
            self.stats.iter().map(|stats| stats.live_bytes.value()).fold(0_u64, u64::wrapping_add);
        // Relaxed: a statistic.
        let counted = counted.wrapping_add(self.other_live_bytes.load(Ordering::Relaxed));
        let live = counted.wrapping_sub(self.lazy_free.detached_bytes()) as i64;
        live.max(0) as u64
    }

    /// Counts live bytes of a heap besides the workers': of a thread that loads a file.
    pub fn add_live_bytes(&self, bytes: i64) {
        // Relaxed: as in `live_bytes`.
        self.other_live_bytes.fetch_add(bytes.cast_unsigned(), Ordering::Relaxed);
        // Taken already: the next write finds that much less left, and evicts.
        self.memory_limit.adjust(bytes);
    }

    /// Clock by which a thread besides the workers judges expiries.
    #[must_use]
    pub fn expiry_clock(&self) -> ExpiryClock {
        let now_ms = (self.clock.unix_us() / 1000).max(self.expiry_floor.load());
        ExpiryClock::new(now_ms, self.clock.ahead_ms())
    }

    /// Begins a save of all data as it is now, with all others stopped.
    ///
    /// # Errors
    ///
    /// [`AlreadySaving`], also while data is being loaded: a part of it must not take the place of
    /// all.
    pub fn begin_save(
        &self,
        alone: &ClosedGate<'_>,
        section: Section<'_>,
        is_background: bool,
    ) -> Result<Cut, AlreadySaving> {
        if self.loading.is_running() {
            return Err(AlreadySaving);
        }
        let (from_us, changes) = (self.clock.monotonic_us(), self.changes());
        let libraries = self.scripts.functions.snapshot();
        self.snapshots.begin(self.clock.unix_us(), (changes, libraries), is_background)?;
        let Some(cut) = self.keyspace.cut(alone, section) else {
            self.snapshots.give_up();
            return Err(AlreadySaving);
        };
        let cut_us = self.clock.monotonic_us().saturating_sub(from_us);
        self.snapshots.note_cut(cut.key_count(), cut_us);
        Ok(cut)
    }

    /// Notes that an empty file is to be written, since all keys were flushed by a command whose
    /// changes are not counted yet; returns its number.
    pub(crate) fn begin_empty_file(&self, own_changes: u64) -> u32 {
        let changes = self.changes().wrapping_add(own_changes);
        self.snapshots.begin_empty(changes, self.scripts.functions.snapshot())
    }

    /// Cuts all data as it is now, for a base of the append-only file, with all others stopped;
    /// none while something else of it is written, or data is being loaded.
    #[must_use]
    pub fn cut_for_log(&self, alone: &ClosedGate<'_>, section: Section<'_>) -> Option<Cut> {
        if self.loading.is_running() {
            return None;
        }
        let from_us = self.clock.monotonic_us();
        let cut = self.keyspace.cut(alone, section)?;
        self.snapshots.begin_log_cut(self.scripts.functions.snapshot());
        self.snapshots.note_cut(cut.key_count(), self.clock.monotonic_us().saturating_sub(from_us));
        Some(cut)
    }

    /// The last record that is durable in the append-only file; none while that is off.
    #[must_use]
    pub fn durable_record(&self) -> Option<RecordNumber> {
        self.host.log_position().map(|position| position.durable)
    }

    /// Ends the save at hand.
    pub fn end_save(&self, has_succeeded: bool) {
        self.snapshots.end(self.clock.unix_us(), has_succeeded);
    }

    /// Changes that all workers have made.
    #[must_use]
    pub fn changes(&self) -> u64 {
        self.stats.iter().map(|stats| stats.changes.value()).fold(0, u64::wrapping_add)
    }

    /// Bytes that data takes: live, retired, and of flushed databases that are not freed yet.
    #[must_use]
    pub fn data_bytes(&self) -> u64 {
        self.live_bytes() + self.retired_bytes() + self.lazily_freed().bytes
    }

    /// Bytes of data, of clients' buffers and of scripts and tables, `used_memory`. Time in
    /// proportion to the clients.
    #[must_use]
    pub fn used_bytes(&self) -> u64 {
        self.data_bytes() + self.clients.memory_bytes() + self.other_bytes()
    }

    /// Bytes of cached scripts, libraries, and keys and prefixes that are tracked.
    pub(crate) fn common_bytes(&self) -> u64 {
        let scripts = self.scripts.cache.bytes() + self.scripts.functions.bytes();
        scripts + self.tracking.totals.bytes() + self.tracking.prefixes.bytes()
    }

    /// Bytes that count beside data and clients: what [`Shared::common_bytes`] has, and the
    /// interpreters of all workers.
    pub(crate) fn other_bytes(&self) -> u64 {
        let of_worker =
            |stats: &WorkerStats| stats.script_bytes.value() + stats.function_bytes.value();
        self.common_bytes() + self.stats.iter().map(of_worker).sum::<u64>()
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
        (limit / RETIRED_MEMORY_SHARE).max(RETIRED_BYTES_MIN) / workers
    }

    /// The most bytes that were used, `used` bytes of now included: data, seen ten times a second
    /// or so, with the clients' buffers whenever somebody asked for them.
    pub fn raise_peak(&self, used: u64) -> u64 {
        // Relaxed: a statistic.
        self.peak_bytes.fetch_max(used, Ordering::Relaxed).max(used)
    }

    /// Takes the samples that peaks and rates are made of; to be called by one worker, ten times a
    /// second.
    pub fn sample(&self) {
        self.raise_peak(self.data_bytes());
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

    /// True if keys are deleted when their time is over although no command looks at them (`DEBUG
    /// SET-ACTIVE-EXPIRE`).
    #[must_use]
    pub fn expires_actively(&self) -> bool {
        // Relaxed: a switch for tests; each sweep sees it soon.
        self.expires_actively.load(Ordering::Relaxed)
    }

    /// True while periodic work of the workers and the end by a signal are put off (`DEBUG
    /// PAUSE-CRON`).
    #[must_use]
    pub fn is_cron_paused(&self) -> bool {
        // Relaxed, also below: a switch for tests, looked at again and again.
        self.is_cron_paused.load(Ordering::Relaxed)
    }

    /// Puts periodic work off, or no longer.
    pub fn pause_cron(&self, is_paused: bool) {
        self.is_cron_paused.store(is_paused, Ordering::Relaxed);
    }

    /// True if limits count replies by the blocks of Valkey's list of replies, from the first byte
    /// on (`DEBUG CLIENT-ENFORCE-REPLY-LIST`). Workers look with the settings.
    #[must_use]
    pub fn counts_reply_blocks(&self) -> bool {
        // Relaxed: the version of the settings orders it.
        self.counts_reply_blocks.load(Ordering::Relaxed)
    }

    /// Counts replies by blocks, or no longer.
    pub(crate) fn count_reply_blocks(&self, counts_blocks: bool) {
        // Relaxed: as in `counts_reply_blocks`.
        self.counts_reply_blocks.store(counts_blocks, Ordering::Relaxed);
        self.look_again_at_settings();
    }

    /// Lets workers take the settings again at their next boundary: something beside the directives
    /// has changed. What was stored before is seen by then. Wakes nobody.
    pub fn look_again_at_settings(&self) {
        self.config.look_again();
    }

    /// Switches active expiry on or off.
    pub fn set_active_expiry(&self, is_on: bool) {
        // Relaxed: as in `expires_actively`.
        self.expires_actively.store(is_on, Ordering::Relaxed);
    }

    /// True if files and payloads with wrong checksums are refused (`DEBUG
    /// SET-SKIP-CHECKSUM-VALIDATION`).
    #[must_use]
    pub fn verifies_checksums(&self) -> bool {
        // Relaxed: a switch for tests.
        self.verifies_checksums.load(Ordering::Relaxed)
    }

    /// Has checksums verified or ignored.
    pub fn set_checksums_verified(&self, are_verified: bool) {
        // Relaxed: as in `verifies_checksums`.
        self.verifies_checksums.store(are_verified, Ordering::Relaxed);
    }

    /// Counts an error reply by the code that it begins with.
    #[cold]
    pub fn count_error(&self, wire: &[u8]) {
        self.count_errors(error_code(wire), 1);
    }

    /// Counts a number of error replies of a code.
    #[cold]
    pub(crate) fn count_errors(&self, code: &[u8], number: u64) {
        self.errors.count(code, false, number);
    }

    /// Counts an error reply that a script made.
    #[cold]
    pub fn count_error_of_script(&self, wire: &[u8]) {
        self.errors.count(error_code(wire), true, 1);
    }

    /// Error replies by code.
    #[must_use]
    pub fn error_counts(&self) -> BTreeMap<String, u64> {
        self.errors.all()
    }

    /// Spread of a command's times, on all workers together.
    #[must_use]
    pub fn command_times(&self, id: CommandId) -> Times {
        Times::of(self.stats.iter().map(|stats| &stats.command(id).times))
    }

    /// Begins the statistics anew. What a worker counts at this very moment may survive.
    pub fn reset_stats(&self) {
        self.errors.reset();
        self.stats.iter().for_each(WorkerStats::reset);
        self.lazy_free.reset(self.host.freed_values());
        self.scripts.cache.reset_evictions();
        self.memory_limit.reset_stats();
        self.rewrites.reset();
        (0..self.worker_count()).for_each(|worker| self.lanes.delay_ns(worker).reset());
    }

    /// Pauses clients; a longer pause that is under way stays, and the stricter mode.
    pub fn pause(&self, mode: PauseMode, timeout_ms: u64) {
        if self.pause.begin(mode, self.clock.monotonic_us(), timeout_ms) {
            // A client that still waits since an earlier pause may not be meant by this one.
            self.tell_of_pause();
        }
    }

    /// Ends a pause.
    pub fn unpause(&self) {
        if self.pause.end() {
            self.tell_of_pause();
        }
    }

    /// Makes all workers look at the pause again.
    fn tell_of_pause(&self) {
        self.pause.renew();
        // A worker that does not see the number yet wakes up, or does not fall asleep: it looks
        // before each wait.
        (0..self.worker_count()).for_each(|worker| self.mailboxes.notify(worker));
    }

    /// Changes when a pause begins or is ended by command.
    #[must_use]
    pub fn pause_version(&self) -> u64 {
        self.pause.version()
    }

    /// When the pause ends by itself, in monotonic microseconds; some time in the past when there
    /// is none.
    #[must_use]
    pub fn pause_until_us(&self) -> u64 {
        self.pause.until_us()
    }

    pub(crate) fn is_paused(&self) -> bool {
        self.clock.monotonic_us() < self.pause_until_us()
    }

    /// The pause that clients are in: for which commands, and for how many milliseconds still.
    #[must_use]
    pub fn pause_now(&self) -> Option<(PauseMode, u64)> {
        self.pause.at(self.clock.monotonic_us())
    }

    /// True if any command might have to wait until a pause is over.
    #[must_use]
    #[inline]
    pub fn may_hold_back(&self) -> bool {
        self.pause.until_us() != 0
    }

    /// True if a command with these flags has to wait until a pause is over.
    #[must_use]
    pub fn holds_back(&self, flags: Flags) -> bool {
        self.pause.concerns(flags) && self.is_paused()
    }

    /// A number for a new blocked wait.
    #[must_use]
    pub fn next_waiter_id(&self) -> u64 {
        // Relaxed: only has to be unique.
        self.waiter_ids.fetch_add(1, Ordering::Relaxed)
    }
}
