//! The engine's state of one worker thread.

use std::sync::Arc;

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::SeedableRng;
use tidemill_rcu::Limits;
use tidemill_resp::request::Heads;
use tidemill_store::{Heap, KeyHash};

use crate::blocking::Deadlines;
use crate::commit::Effects;
use crate::execute::{Called, Run, SweepExpiring, SweepPosition};
use crate::limits::RETIRED_ITEM_BYTES;
use crate::mailbox::Message;
use crate::ready::{ReadyKey, ReadyKeys};
use crate::registrations::Ended;
use crate::settings::Settings;
use crate::shared::Shared;
use crate::stats::WorkerStats;

/// A key that a read found expired; it is deleted after the reply, as a write of its own.
#[derive(Debug)]
pub(crate) struct ExpiredKey {
    pub(crate) database: usize,
    pub(crate) key: Box<[u8]>,
    pub(crate) key_hash: KeyHash,
}

/// What one worker thread owns. It never leaves its thread.
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
    ahead_ms: u64,
    /// Whether the dataset has outgrown `maxmemory`, as of the last boundary.
    pub(crate) out_of_memory: bool,
    pub(crate) expired: Vec<ExpiredKey>,
    /// Keys that the unit at hand wrote and that somebody waits for.
    pub(crate) ready: ReadyKeys,
    /// Queues whose first waiter needs a slot that was taken: served as soon as this worker holds no lock.
    pub(crate) postponed: ReadyKeys,
    /// Replies to clients that were served under the locks at hand, with their workers: sent when the journal has the record.
    pub(crate) served: Vec<(usize, Message)>,
    /// Registrations of its clients that are to be taken back.
    pub(crate) ended: Ended,
    pub(crate) effects: Effects,
    pub(crate) sweep: SweepPosition,
    pub(crate) sweep_expiring: SweepExpiring,
    /// How requests begin, and what they call.
    pub(crate) heads: Heads<Called>,
    /// What ran since the clock was read last.
    pub(crate) run: Run,
    /// Whether a limit for unsent replies is set, which counts whole replies: none is made in pieces then.
    pub limits_output: bool,
    /// Changes that the present command made.
    pub(crate) changes: u64,
}

impl Worker {
    /// The worker of an index; `seed` is random.
    #[must_use]
    pub fn new(shared: &Shared, index: usize, heap: Heap, seed: u64) -> Worker {
        let worker = Worker {
            index,
            heap,
            random: Xoshiro256PlusPlus::seed_from_u64(seed),
            deadlines: Deadlines::default(),
            settings: shared.settings(),
            settings_version: shared.settings_version(),
            now_us: shared.clock.unix_us(),
            ahead_ms: shared.clock.ahead_ms(),
            out_of_memory: false,
            expired: Vec::new(),
            ready: ReadyKeys::default(),
            postponed: ReadyKeys::default(),
            served: Vec::new(),
            ended: Ended::default(),
            effects: Effects::default(),
            sweep: SweepPosition::new(index),
            sweep_expiring: SweepExpiring::default(),
            heads: Heads::default(),
            run: Run::default(),
            limits_output: false,
            changes: 0,
        };
        worker.limit_retired(shared);
        worker
    }

    /// A boundary between iterations: takes the time, picks up new settings, publishes the counts.
    pub fn boundary(&mut self, shared: &Shared) {
        self.refresh_clock(shared);
        self.refresh_settings(shared);
        let stats = self.stats(shared);
        stats.live_bytes.set(self.heap.live_bytes() as u64);
        let retired_bytes = self.heap.retired().retired_bytes() + self.heap.held_bytes();
        stats.retired_bytes.set(retired_bytes as u64);
        self.refresh_memory(shared);
        if !self.ended.is_empty() {
            self.ended.retry(shared);
        }
    }

    /// Registrations of waits and watches that are over, and whose slot was taken: the next boundary tries again.
    #[must_use]
    pub fn ended_registrations(&self) -> usize {
        self.ended.len()
    }

    /// Looks whether the dataset has outgrown `maxmemory`.
    pub(crate) fn refresh_memory(&mut self, shared: &Shared) {
        let limit = self.settings.maxmemory_bytes;
        self.out_of_memory = limit > 0 && shared.live_bytes() > limit;
    }

    /// Picks up settings that were changed.
    #[inline]
    pub fn refresh_settings(&mut self, shared: &Shared) {
        if shared.settings_version() != self.settings_version {
            self.settings_version = shared.settings_version();
            self.settings = shared.settings();
            self.limit_retired(shared);
            self.refresh_memory(shared);
        }
    }

    fn limit_retired(&self, shared: &Shared) {
        let bytes = usize::try_from(shared.retired_bytes_max(&self.settings)).unwrap_or(usize::MAX);
        self.heap.retired().set_limits(Limits { bytes, items: bytes / RETIRED_ITEM_BYTES });
    }

    /// Takes the time anew.
    pub fn refresh_clock(&mut self, shared: &Shared) {
        self.now_us = self.now_us.max(shared.clock.unix_us());
        self.ahead_ms = shared.clock.ahead_ms();
    }

    /// A key that somebody waits for may be there: it is looked at as soon as this worker holds no lock.
    pub fn postpone(&mut self, database: usize, key: &[u8], key_hash: KeyHash) {
        self.postponed.push(ReadyKey { database, key: key.into(), key_hash });
    }

    /// Whether so much memory waits to be freed that commands which retire more have to wait.
    #[must_use]
    pub fn must_reclaim(&self) -> bool {
        self.heap.retired().is_over_limit()
    }

    /// Whether waiters could not be served because a slot was taken: their turn is the next boundary.
    #[must_use]
    pub fn has_postponed(&self) -> bool {
        !self.postponed.is_empty()
    }

    /// Nanoseconds that the last turn took, by the last reading of the clock in it.
    #[must_use]
    #[inline]
    pub fn turn_ns(&self) -> u64 {
        self.run.turn_ns()
    }

    /// How far the server's time is ahead of the wall clock, as of the last boundary: see
    /// [`Clock::ahead_ms`](crate::clock::Clock::ahead_ms).
    #[must_use]
    pub fn ahead_ms(&self) -> u64 {
        self.ahead_ms
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

    /// The recency that a key used now gets: seconds.
    #[must_use]
    pub fn recency(&self) -> u32 {
        (self.now_us / 1_000_000) as u32
    }

    /// Lookups counted so far: hits, misses.
    #[inline]
    pub(crate) fn lookups(&self, shared: &Shared) -> [u64; 2] {
        let stats = self.stats(shared);
        [stats.keyspace_hits.value(), stats.keyspace_misses.value()]
    }

    /// Takes back what was counted since there were `lookups`: an attempt that is repeated does not count.
    #[cold]
    pub(crate) fn uncount_lookups(&self, shared: &Shared, [hits, misses]: [u64; 2]) {
        let stats = self.stats(shared);
        stats.keyspace_hits.set(hits);
        stats.keyspace_misses.set(misses);
    }

    /// This worker's counters.
    #[must_use]
    pub fn stats<'k>(&self, shared: &'k Shared) -> &'k WorkerStats {
        &shared.stats[self.index]
    }
}
