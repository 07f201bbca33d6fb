//! The engine's state of one worker thread.

use std::any::Any;
use std::collections::HashMap;
use std::sync::Arc;

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::SeedableRng;
use tidemill_rcu::Limits;
use tidemill_rdb::encode::Compressor;
use tidemill_resp::request::Heads;
use tidemill_store::limits::ELEMENT_BYTES_MAX;
use tidemill_store::{EntryRef, Heap, KeyHash};

use super::attempt::AttemptCounts;
use super::called::Called;
use super::eviction::Eviction;
use super::key_ranges::KeyRanges;
use super::lease::Lease;
use super::migrations::Migrations;
use super::reply_need::ReplyNeed;
use super::run::{InnerTimes, Run};
use super::score_hints::ScoreHints;
use super::spare::Spare;
use super::tracking::Changes;
use super::{defrag, sweep};
use crate::commit::{EventClass, RecordNumber};
use crate::expiry_clock::ExpiryClock;
use crate::limits::{DAMAGE_LINE_US, RETIRED_ITEM_BYTES};
use crate::memory::Room;
use crate::pubsub::receivers::Receivers;
use crate::script::Kind;
use crate::settings::Settings;
use crate::shared::Shared;
use crate::slots::ready::{ReadyKey, ReadyKeys};
use crate::slots::waiter::{Deadlines, WaitEnd, Waiter};
use crate::telemetry::line_rate::LineRate;
use crate::telemetry::stats::WorkerStats;
use crate::use_stamp::UseStamp;
use crate::worker::registrations::Ended;
use crate::worker::scripts::{RunBuffers, WorkerScripts};
use crate::worker::session::Session;

/// A key that a read found expired; it is deleted after the reply, as a write of its own.
#[derive(Debug)]
pub(crate) struct ExpiredKey {
    pub(crate) database: usize,
    pub(crate) key: Box<[u8]>,
    pub(crate) key_hash: KeyHash,
}

/// A key that a read did not find.
#[derive(Debug)]
pub(crate) struct MissedKey {
    pub(crate) database: usize,
    pub(crate) key: Box<[u8]>,
}

/// Lookups of keys that are not in the statistics yet: hits in the lower half, misses in the upper
/// one.
///
/// One number, because two that are written one by one and then copied together hold the processor
/// up.
#[derive(Clone, Copy, Debug, Default)]
struct LookupCounts(u64);

impl LookupCounts {
    const HIT: u64 = 1;
    const MISS: u64 = 1 << 32;

    #[inline(always)]
    fn add(&mut self, is_hit: bool) {
        self.0 = self.0.wrapping_add(if is_hit { Self::HIT } else { Self::MISS });
    }

    fn hits(self) -> u64 {
        self.0 % Self::MISS
    }

    fn misses(self) -> u64 {
        self.0 / Self::MISS
    }
}

/// Lookups of an attempt that goes on in a later turn, with the keys that it missed.
#[derive(Debug, Default)]
pub(crate) struct AttemptLookups {
    counts: LookupCounts,
    missed: Vec<MissedKey>,
}

/// State that one worker thread owns. It never leaves its thread.
#[derive(Debug)]
pub struct Worker {
    /// The worker's index.
    pub index: usize,
    /// Its memory: live bytes and retired memory.
    pub heap: Heap,
    /// Its random numbers; not for secrets.
    pub random: Xoshiro256PlusPlus,
    /// Blocked sessions that time out.
    pub deadlines: Deadlines,
    /// The settings as of the last boundary.
    pub settings: Arc<Settings>,
    settings_version: u64,
    now_us: u64,
    /// Time by which expiries are judged, in milliseconds: the present, or 0 while a log is
    /// replayed, so that nothing has expired.
    judged_ms: u64,
    replays: bool,
    /// True if it replays a log, or in import mode.
    judges_unusually: bool,
    /// True while it executes for a source of an import (`CLIENT IMPORT-SOURCE`).
    pub(crate) serves_import: bool,
    ahead_ms: u64,
    /// Memory that it has claimed of `maxmemory`.
    pub(crate) lease: Lease,
    /// Bytes of its clients' buffers, as of its last tick.
    client_bytes: i64,
    /// Bytes that count beside data and clients, as of its last boundary.
    other_bytes: i64,
    pub(crate) eviction: Eviction,
    /// True if more memory is in use than `maxmemory` and keys can be evicted: the worker goes on
    /// with that in its next iteration.
    evicts_soon: bool,
    /// Slots with keys, for `RANDOMKEY`.
    pub(crate) random_keys: KeyRanges,
    /// Value of the recency field of a key that is used now and whose uses are not counted;
    /// [`UseStamp::NEVER`] if uses are counted.
    use_stamp: UseStamp,
    /// True if uses are counted: under an LFU policy.
    counts_uses: bool,
    /// Address of the key whose use by a write was counted last; never read from.
    counted_write: usize,
    /// True if what is written cannot be made to last, as of the last boundary: no further write is
    /// taken.
    pub(crate) refuses_writes: bool,
    /// The system had no memory for what cannot fail: a reserve was taken, and is not there again.
    pub(crate) lacks_memory: bool,
    /// A script runs for so long that only few commands are taken, as of the last boundary.
    pub(crate) busy: Option<Kind>,
    /// True if writes are refused, data is being loaded, or a script is busy, as of the last
    /// boundary.
    pub(crate) is_restricted: bool,
    /// The present command is a script's.
    pub(crate) runs_script: bool,
    pub(crate) expired: Vec<ExpiredKey>,
    /// Memory for the notes of its next unit. Their type is the unit's.
    pub(crate) spare_notes: Spare,
    /// Queues whose first waiter needs a slot that was taken: tried again whenever this worker
    /// holds no lock, which it is woken for when the slot is released.
    pub(crate) postponed: ReadyKeys,
    /// True if one of them waits for nothing that would wake this worker.
    pub(crate) postponed_is_due: bool,
    /// Registrations of its clients that are to be taken back.
    pub(crate) ended: Ended,
    pub(crate) sweep: sweep::Position,
    pub(crate) sweep_expiring: sweep::Expiring,
    pub(crate) defrag: defrag::Walk,
    /// Scores that members of the next requests may have.
    pub(crate) score_hints: ScoreHints,
    /// Beginnings of requests, and the commands that they call.
    pub(crate) heads: Heads<Called>,
    /// For the strings of payloads that it encodes.
    pub(crate) compressor: Compressor,
    /// Commands that ran since the clock was read last.
    pub(crate) run: Run,
    /// Times of brief commands within scripts.
    pub(crate) inner_times: InnerTimes,
    /// Its sessions that subscribe or watch, and what they are to be sent.
    pub receivers: Receivers,
    /// Changes of keys that clients are to be told of.
    pub(crate) changes: Changes,
    /// Records that the replies of the present turn depend on.
    pub(crate) reply_need: ReplyNeed,
    /// Migrations that its sessions wait for.
    pub(crate) migrations: Migrations,
    /// True if somebody may want to know of keys that reads do not find.
    pub(crate) notes_misses: bool,
    /// True if a brief read needs no more than its lookup: misses are not noted, and nothing is
    /// being loaded.
    pub(crate) reads_briefly: bool,
    /// Keys that the present command did not find, while that is so.
    pub(crate) missed: Vec<MissedKey>,
    /// True if a limit for unsent replies is set, which counts whole replies: none is made in
    /// pieces then.
    pub limits_output: bool,
    /// Bytes of replies, sent to one client, that end it at once, subscribers left out; 0 for no
    /// such limit.
    pub output_bytes_max: u64,
    /// Scripts and functions that it compiled.
    pub(crate) scripts: WorkerScripts,
    /// Buffers of its runs.
    pub(crate) script_buffers: RunBuffers,
    /// Sessions whose client is gone while a script of theirs has to go on.
    pub(crate) orphans: Vec<Session>,
    /// Runs between two turns, by session. Their type is the executor's.
    pub(crate) pending_scripts: HashMap<u64, Box<dyn Any>>,
    /// Rate of the log about damaged payloads.
    pub(crate) damage_lines: LineRate,
    lookups: LookupCounts,
    /// `lookups` before the present attempt. Kept here, because a local would occupy registers
    /// during the handler.
    lookups_before: LookupCounts,
    /// Counts of a script's attempt that may be taken back; none while no such one runs.
    pub(super) attempt: Option<AttemptCounts>,
}

impl Worker {
    /// The worker of an index; `seed` is random.
    #[must_use]
    pub fn new(shared: &Shared, index: usize, heap: Heap, seed: u64) -> Worker {
        let mut worker = Worker {
            index,
            heap,
            random: Xoshiro256PlusPlus::seed_from_u64(seed),
            deadlines: Deadlines::default(),
            settings: shared.settings(),
            settings_version: shared.settings_version(),
            now_us: shared.clock.unix_us(),
            judged_ms: shared.clock.unix_us() / 1000,
            replays: false,
            judges_unusually: false,
            serves_import: false,
            refuses_writes: false,
            lacks_memory: false,
            busy: None,
            is_restricted: false,
            runs_script: false,
            ahead_ms: shared.clock.ahead_ms(),
            lease: Lease::new(Arc::clone(&shared.memory_limit)),
            client_bytes: 0,
            other_bytes: 0,
            eviction: Eviction::default(),
            evicts_soon: false,
            random_keys: KeyRanges::default(),
            use_stamp: UseStamp::NEVER,
            counts_uses: false,
            counted_write: 0,
            expired: Vec::new(),
            spare_notes: Spare::default(),
            postponed: ReadyKeys::default(),
            postponed_is_due: false,
            ended: Ended::default(),
            sweep: sweep::Position::new(index),
            sweep_expiring: sweep::Expiring::default(),
            defrag: defrag::Walk::new(index),
            score_hints: ScoreHints::default(),
            heads: Heads::default(),
            compressor: Compressor::default(),
            run: Run::default(),
            inner_times: InnerTimes::default(),
            receivers: Receivers::new(),
            changes: Changes::default(),
            reply_need: ReplyNeed::default(),
            migrations: Migrations::default(),
            notes_misses: false,
            reads_briefly: true,
            missed: Vec::new(),
            limits_output: false,
            output_bytes_max: 0,
            scripts: WorkerScripts::default(),
            script_buffers: RunBuffers::default(),
            orphans: Vec::new(),
            pending_scripts: HashMap::new(),
            damage_lines: LineRate::new(DAMAGE_LINE_US),
            lookups: LookupCounts::default(),
            lookups_before: LookupCounts::default(),
            attempt: None,
        };
        worker.apply_settings(shared);
        worker
    }

    /// Notes which records of the journal replies need, from now on or no more.
    #[inline]
    pub fn note_reply_needs(&mut self, is_wanted: bool) {
        self.reply_need.set_noted(is_wanted);
    }

    /// The last record that the replies of the latest turn depend on; none if they depend on
    /// everything that was numbered so far. To be asked once, behind the turn.
    #[inline]
    pub fn take_reply_need(&mut self) -> Option<RecordNumber> {
        self.reply_need.take()
    }

    /// A boundary between iterations: takes the time, picks up new settings, publishes the counts.
    pub fn boundary(&mut self, shared: &Shared) {
        self.boundary_at(shared, shared.clock.monotonic_ns());
    }

    /// As [`Worker::boundary`], at a moment shortly before now that the monotonic clock gave: it is
    /// not read again.
    pub fn boundary_at(&mut self, shared: &Shared, monotonic_ns: u64) {
        self.set_clock(shared, shared.clock.unix_us_at(monotonic_ns));
        self.refresh_settings(shared);
        self.publish_lookups(shared);
        let stats = self.stats(shared);
        stats.live_bytes.set(self.heap.live_bytes() as u64);
        let retired_bytes = self.heap.retired().retired_bytes() + self.heap.pinned_garbage_bytes();
        stats.retired_bytes.set(retired_bytes as u64);
        stats.values_left.set(self.heap.deep_count());
        self.scripts.shrink(shared);
        let (script_bytes, function_bytes) = self.scripts.used_bytes();
        stats.script_bytes.set(script_bytes as u64);
        stats.function_bytes.set(function_bytes as u64);
        let common_bytes = if self.index == 0 { shared.common_bytes() } else { 0 };
        self.other_bytes = (script_bytes + function_bytes) as i64 + common_bytes as i64;
        self.lease.settle(self.used_bytes());
        self.lacks_memory = !shared.host.keep_reserve();
        let is_unsaved = shared.snapshots.has_failed()
            && self.settings.stops_writes_on_save_error
            && !self.settings.save_points.is_empty();
        // Writes that a log holds were taken before.
        self.refuses_writes = !self.replays && (is_unsaved || shared.write_refusal.is_set());
        self.busy = shared.scripts.running.told();
        self.refresh_loading(shared);
        if !self.ended.is_empty() {
            self.ended.retry(shared);
        }
    }

    /// Takes up whether data is being loaded. To be called behind a gate that was closed: a loading
    /// may have begun.
    pub(crate) fn refresh_loading(&mut self, shared: &Shared) {
        let is_loading = shared.loading.is_running();
        self.is_restricted = self.refuses_writes || is_loading || self.busy.is_some();
        self.reads_briefly = !self.notes_misses && !is_loading && self.busy.is_none();
    }

    /// Registrations of waits and watches that are over, and whose slot was taken: the next
    /// boundary tries again.
    #[must_use]
    pub fn ended_registrations(&self) -> usize {
        self.ended.len()
    }

    /// Bytes that count for `maxmemory`: live data that this worker allocated, less what it retired
    /// of any worker's, its clients' buffers, its interpreters, and with the first worker what all
    /// of them share.
    pub(crate) fn used_bytes(&self) -> i64 {
        self.heap.live_bytes() + self.client_bytes + self.other_bytes
    }

    /// Counts the buffers of the worker's clients.
    pub fn set_client_bytes(&mut self, bytes: u64) {
        self.client_bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
    }

    /// A client is gone for which these bytes of buffers were counted: they need not be evicted for
    /// any more.
    pub fn forget_client_bytes(&mut self, bytes: u64) {
        let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
        self.client_bytes = self.client_bytes.saturating_sub(bytes).max(0);
    }

    /// True unless the system has no memory left, of which [`boundary`](Self::boundary) is told for
    /// its whole iteration. To be asked by those that take any amount within one.
    #[inline]
    pub(crate) fn has_memory_left(&mut self, shared: &Shared) -> bool {
        // One look for memory is enough: each purges what the allocator has freed.
        self.lacks_memory = self.lacks_memory || !shared.host.keep_reserve();
        !self.lacks_memory
    }

    /// True if `maxmemory` is set.
    #[must_use]
    pub fn is_limited(&self) -> bool {
        self.lease.is_limited()
    }

    /// True if commands that take memory have to ask for it: `maxmemory` is set, or the system has
    /// none left.
    #[inline]
    pub(crate) fn may_refuse_memory(&self) -> bool {
        self.lease.is_limited() || self.lacks_memory
    }

    /// True if the worker has keys to evict in its next iteration, with no sleep before.
    #[must_use]
    pub fn evicts_soon(&self) -> bool {
        self.evicts_soon
    }

    pub(crate) fn set_evicts_soon(&mut self, evicts_soon: bool) {
        self.evicts_soon = evicts_soon;
    }

    /// Begins to replay a log: whatever it holds is executed, and nothing has expired.
    pub fn begin_replay(&mut self) {
        self.replays = true;
        self.refresh_judgement();
    }

    /// True while it replays a log, which nothing is evicted for.
    pub(crate) fn replays(&self) -> bool {
        self.replays
    }

    /// Longest argument and string, in bytes: `proto-max-bulk-len`. A log may have been written
    /// with any that is allowed.
    #[inline]
    pub(crate) fn string_bytes_max(&self) -> usize {
        if self.replays { ELEMENT_BYTES_MAX } else { self.settings.bulk_bytes_max }
    }

    /// Ends the replaying of a log.
    pub fn end_replay(&mut self, shared: &Shared) {
        self.replays = false;
        self.refresh_judgement();
        self.refresh_clock(shared);
    }

    /// Forgets which commands requests with a known beginning call: sessions that know other names
    /// come next.
    pub fn forget_heads(&mut self) {
        self.heads = Heads::default();
    }

    fn refresh_judgement(&mut self) {
        self.judges_unusually = self.replays || self.settings.import_mode;
    }

    /// Picks up settings that were changed.
    #[inline]
    pub fn refresh_settings(&mut self, shared: &Shared) {
        if shared.settings_version() != self.settings_version {
            self.settings_version = shared.settings_version();
            self.settings = shared.settings();
            self.apply_settings(shared);
        }
    }

    fn apply_settings(&mut self, shared: &Shared) {
        self.notes_misses = self.settings.publishes(EventClass::MISS);
        self.refresh_judgement();
        self.refresh_loading(shared);
        self.counts_uses = self.settings.counts_uses();
        self.scripts.offers_withdrawn = self.settings.offers_withdrawn_functions;
        self.refresh_use_stamp();
        let (limit_bytes, used) = (self.settings.maxmemory_bytes, self.used_bytes());
        self.lease.set_limit(limit_bytes, shared.worker_count(), used);
        // Keys that could not be evicted may be by other settings.
        self.eviction.paused_until_us = 0;
        let bytes = usize::try_from(shared.retired_bytes_max(&self.settings)).unwrap_or(usize::MAX);
        self.heap.retired().set_limits(Limits { bytes, items: bytes / RETIRED_ITEM_BYTES });
    }

    /// Puts the time back to what it was for a command that goes on, or forward again; returns
    /// the time before.
    pub(crate) fn swap_time(&mut self, (now_us, ahead_ms): (u64, u64)) -> (u64, u64) {
        let before = (self.now_us, self.ahead_ms);
        (self.now_us, self.ahead_ms) = (now_us, ahead_ms);
        before
    }

    /// Takes the time anew.
    pub fn refresh_clock(&mut self, shared: &Shared) {
        self.set_clock(shared, shared.clock.unix_us());
    }

    /// Takes the time anew: that at which the clock was read last for the request that runs.
    pub(crate) fn refresh_clock_as_timed(&mut self, shared: &Shared) {
        self.set_clock(shared, shared.clock.unix_us_at(self.run.start_ns));
    }

    fn set_clock(&mut self, shared: &Shared, now_us: u64) {
        self.now_us = self.now_us.max(now_us);
        self.judged_ms = self.now_us / 1000;
        self.ahead_ms = shared.clock.ahead_ms();
        self.refresh_use_stamp();
    }

    #[inline]
    fn refresh_use_stamp(&mut self) {
        let counted = UseStamp::NEVER;
        self.use_stamp = if self.counts_uses { counted } else { UseStamp::new(self.now_s()) };
    }

    /// A key that somebody waits for may be there: it is looked at as soon as this worker holds no
    /// lock.
    pub fn postpone(&mut self, database: usize, key: &[u8], key_hash: KeyHash) {
        self.postponed.push(ReadyKey { database, key: key.into(), key_hash });
        self.postponed_is_due = true;
    }

    /// True if so much memory waits to be freed that commands which retire more have to wait.
    #[must_use]
    pub fn must_reclaim(&self) -> bool {
        self.heap.retired().is_over_limit()
    }

    /// True if waiters are to be looked at between the next commands, with no sleep before. Others
    /// that could not be served wait for slots that are taken: this worker is woken when they are
    /// released.
    #[must_use]
    pub fn has_postponed(&self) -> bool {
        self.postponed_is_due || !self.orphans.is_empty()
    }

    /// Nanoseconds that the last turn took, by the last reading of the clock in it.
    #[must_use]
    #[inline]
    pub fn turn_ns(&self) -> u64 {
        self.run.turn_ns()
    }

    /// Moment at which the clock was read last for a command, in monotonic microseconds.
    #[must_use]
    #[inline]
    pub fn timed_us(&self) -> u64 {
        self.run.start_us()
    }

    /// Distance by which the server's time is ahead of the wall clock, as of the last boundary: see
    /// [`Clock::ahead_ms`](crate::clock::Clock::ahead_ms).
    #[must_use]
    pub fn ahead_ms(&self) -> u64 {
        self.ahead_ms
    }

    /// Clock of this worker while it holds no locks.
    #[must_use]
    #[inline]
    pub fn expiry_clock(&self, shared: &Shared) -> ExpiryClock {
        self.expiry_clock_at(shared.expiry_floor.load())
    }

    /// Clock of this worker when it has just taken the last of its locks.
    #[must_use]
    pub fn locked_expiry_clock(&self, shared: &Shared) -> ExpiryClock {
        self.expiry_clock_at(shared.expiry_floor.load_locked())
    }

    fn expiry_clock_at(&self, floor_ms: u64) -> ExpiryClock {
        let clock = ExpiryClock::new(self.judged_ms.max(floor_ms), self.ahead_ms);
        if self.judges_unusually { self.unusual_clock(clock) } else { clock }
    }

    /// A log that is replayed is as the source of an import: nothing has expired, whatever others
    /// have seen expired before, and relative expiries count from now. Records have absolute ones
    /// only, but not every log is made of records: scripts and `RESTORE` of older servers, or what
    /// a tool has written.
    #[cold]
    fn unusual_clock(&self, clock: ExpiryClock) -> ExpiryClock {
        clock.in_import(self.serves_import || self.replays)
    }

    /// Unix time in milliseconds, as of the last boundary.
    #[must_use]
    pub fn now_ms(&self) -> u64 {
        self.now_us / 1000
    }

    /// Unix time in microseconds, as of the last boundary.
    #[must_use]
    pub fn now_us(&self) -> u64 {
        self.now_us
    }

    /// Unix time in seconds, as of the last boundary.
    #[must_use]
    pub fn now_s(&self) -> u64 {
        self.now_us / 1_000_000
    }

    /// Recency field of a key that is written in the place of `former`, whose use was noted.
    #[inline]
    pub(crate) fn written_recency(&self, former: Option<EntryRef<'_>>) -> u32 {
        if self.counts_uses { self.counted_recency(former) } else { self.use_stamp.field() }
    }

    #[cold]
    fn counted_recency(&self, former: Option<EntryRef<'_>>) -> u32 {
        former.map_or(UseStamp::new(self.now_s()).field(), EntryRef::recency)
    }

    /// True if uses of keys are counted.
    #[inline(always)]
    pub(crate) fn counts_uses(&self) -> bool {
        self.counts_uses
    }

    /// True if a change of a key has only to be counted: no event of it is heard or published, and
    /// uses are not counted.
    #[inline]
    pub(crate) fn changes_quietly(&self, shared: &Shared) -> bool {
        !self.counts_uses
            && self.settings.published_events.is_empty()
            && shared.sinks.events().is_none()
    }

    /// Notes that an entry is used.
    #[inline(always)]
    pub(crate) fn note_use(&mut self, entry: EntryRef<'_>) {
        // Stored only when the second changed, so that readers of a hot key share its line.
        if entry.recency() != self.use_stamp.field() {
            if self.counts_uses {
                self.count_use(entry);
            } else {
                entry.set_recency(self.use_stamp.field());
            }
        }
    }

    /// Counts a use of an entry that is about to be changed: once, however often the command looks
    /// at it before it does.
    #[cold]
    pub(crate) fn count_write(&mut self, entry: EntryRef<'_>) {
        let address = entry.key().as_ptr().addr();
        if std::mem::replace(&mut self.counted_write, address) != address {
            self.count_use(entry);
        }
    }

    /// The next command may change the same entry, and counts again.
    #[inline(always)]
    pub(crate) fn end_write_count(&mut self) {
        self.counted_write = 0;
    }

    /// Counts a use of an entry. Of two at the same moment one may be lost.
    #[cold]
    fn count_use(&mut self, entry: EntryRef<'_>) {
        let (now_s, before) = (self.now_s(), UseStamp::of_field(entry.recency()));
        let after = before.used(now_s, self.settings.frequency_scale, &mut self.random);
        if after != before {
            entry.set_recency(after.field());
        }
    }

    /// Counts a lookup of a key.
    #[inline(always)]
    pub(crate) fn count_lookup(&mut self, is_hit: bool) {
        self.lookups.add(is_hit);
    }

    /// A command, or another attempt at it, is about to look keys up.
    #[inline(always)]
    pub(crate) fn begin_lookups(&mut self) {
        self.lookups_before = self.lookups;
    }

    /// Takes back the lookups since [`Worker::begin_lookups`]: a repeated attempt does not count.
    #[cold]
    pub(crate) fn uncount_lookups(&mut self) {
        self.lookups = self.lookups_before;
        self.missed.clear();
    }

    /// Notes a key that was found expired, to be deleted after the reply; without memory for its
    /// name it is left to the sweep.
    pub(crate) fn note_expired(
        &mut self,
        shared: &Shared,
        database: usize,
        key: &[u8],
        key_hash: KeyHash,
    ) {
        let key = Room::of(shared).name_copy(key);
        self.expired.extend(key.map(|key| ExpiredKey { database, key, key_hash }));
    }

    /// Takes out the lookups since [`Worker::begin_lookups`], of an attempt that goes on in a later
    /// turn. The commands between would count them, and it may be repeated.
    pub(crate) fn take_lookups(&mut self) -> AttemptLookups {
        debug_assert!(self.lookups.0 >= self.lookups_before.0, "nothing is published meanwhile");
        let counts = LookupCounts(self.lookups.0.wrapping_sub(self.lookups_before.0));
        self.lookups = self.lookups_before;
        AttemptLookups { counts, missed: std::mem::take(&mut self.missed) }
    }

    /// As [`Worker::begin_lookups`], for an attempt that goes on with these.
    pub(crate) fn go_on_with_lookups(&mut self, earlier: AttemptLookups) {
        self.begin_lookups();
        self.lookups = LookupCounts(self.lookups.0.wrapping_add(earlier.counts.0));
        self.missed.extend(earlier.missed);
    }

    /// Adds the lookups to the statistics: before a reply can leave, and before a command can read
    /// them.
    #[inline]
    pub(crate) fn publish_lookups(&mut self, shared: &Shared) {
        let lookups = std::mem::take(&mut self.lookups);
        let stats = self.stats(shared);
        stats.keyspace_hits.add(lookups.hits());
        stats.keyspace_misses.add(lookups.misses());
    }

    /// Counts the command of a client, of any worker, whose wait is over, with the time that it ran
    /// without the waiting.
    pub(crate) fn count_wait(&self, shared: &Shared, waiter: &Waiter, end: WaitEnd) {
        let stats = self.stats(shared);
        stats.commands_processed.add(1);
        let Some(id) = shared.commands.find(waiter.command.name.as_bytes()) else { return };
        let of_command = stats.command(id);
        // One that was denied has not run at all.
        let calls = u64::from(end != WaitEnd::Denied);
        of_command.ran(calls, end.elapsed_ns(), self.settings.latency_tracking);
        let is_rejected = matches!(end, WaitEnd::Refused | WaitEnd::Denied);
        of_command.rejected.add(u64::from(is_rejected));
    }

    /// This worker's counters.
    #[must_use]
    pub fn stats<'k>(&self, shared: &'k Shared) -> &'k WorkerStats {
        &shared.stats[self.index]
    }
}

impl Drop for Worker {
    /// Its clients are gone, and what it allocated stays.
    fn drop(&mut self) {
        self.lease.give_back(self.heap.live_bytes());
    }
}
