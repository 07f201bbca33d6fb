//! Eviction: makes room in `maxmemory` by deleting keys.
//!
//! A command that takes memory is admitted while its worker has credit of `maxmemory`
//! ([`MemoryLimit`](crate::shared::MemoryLimit)). Without credit, and with nothing left to claim,
//! the worker deletes keys until it has some: before the command's first lock, and before the first
//! of a whole transaction, never within one. An excess that no command makes (a lower `maxmemory`,
//! clients' buffers) is worked off between commands ([`relieve`]).
//!
//! Each eviction is a unit of its own. Keys are sampled without locks: a random slot by its share
//! of the keys, entries of a random bucket of it. The best of the samples so far are kept, as in
//! Valkey. A candidate may be of any age, so it is judged again under its slot's lock: one that was
//! used since, or has lost the expiry by which it could be evicted, is left alone.
//!
//! Nothing is waited for. A session whose worker has used up its time, or finds the slots of all
//! candidates taken, parks and tries again.

use rand_xoshiro::rand_core::Rng;
use smallvec::SmallVec;
use tidemill_store::{EntryRef, KeyClass, KeyHash, Section};

use super::credit::{claims, is_exempt, tell_of_scarcity};
use super::executor::Executor;
use super::serve::edit_beside;
use crate::access::locks::LockSet;
use crate::access::section::{Enter, ReadSide};
use crate::error::{CommandError, NO_MEMORY_LEFT};
use crate::limits::{
    EVICTION_ATTEMPTS_MAX, EVICTION_PAUSE_US, EVICTION_RETRY_US, EVICTIONS_BETWEEN_CLOCKS,
    SAMPLE_DRAWS_PER_KEY, SAMPLED_BUCKETS_MAX,
};
use crate::memory::Room;
use crate::settings::{EvictionOrder, EvictionPolicy};
use crate::shared::Shared;
use crate::slots::parking::WaitTarget;
use crate::telemetry::latency::Sample;
use crate::use_stamp::{FrequencyScale, UseStamp};
use crate::worker::Worker;
use crate::worker::eviction::Candidate;

/// End of a run of evictions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RunEnd {
    /// There is as much room as was wanted.
    Enough,
    /// Its time is over, or memory has to be freed first.
    TimeOver,
    /// Keys that may be evicted exist, and none of them could be.
    Blocked,
    /// No key may be evicted.
    NoKeys,
}

/// Result of one attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Attempt {
    Freed,
    Failed,
    NoKeys,
}

impl<E: Enter> Executor<'_, '_, E> {
    /// Makes room for a command, or a transaction, that takes memory. Returns the target to wait
    /// for if that takes longer.
    ///
    /// # Errors
    ///
    /// [`CommandError::OutOfMemory`] when no key may be evicted; another one when the system has no
    /// memory left.
    #[inline(never)]
    pub(crate) fn make_room(&mut self) -> Result<Option<WaitTarget>, CommandError> {
        let Executor { shared, worker, reader, .. } = self;
        if is_exempt(shared, worker) {
            return Ok(None);
        }
        if worker.lacks_memory {
            return Err(NO_MEMORY_LEFT.into());
        }
        if claims(shared, worker) {
            return Ok(None);
        }
        let end = run(shared, worker, *reader, claims);
        let now_us = shared.clock.monotonic_us();
        match end {
            RunEnd::Enough => return Ok(None),
            _ => shared.memory_limit.note_exceeded(now_us),
        }
        match end {
            RunEnd::NoKeys => Err(CommandError::OutOfMemory),
            RunEnd::TimeOver if worker.must_reclaim() => Ok(Some(WaitTarget::Memory)),
            RunEnd::Blocked => {
                Ok(Some(WaitTarget::Eviction { until_us: now_us + EVICTION_RETRY_US }))
            }
            _ => Ok(Some(WaitTarget::Eviction { until_us: now_us })),
        }
    }
}

/// Boundary between the commands of clients: gives back credit when little is left, and works off
/// what is in use beyond `maxmemory`, for a bounded time. To be called with no lock in hand.
pub fn relieve(shared: &Shared, worker: &mut Worker, reader: &mut dyn ReadSide) {
    worker.set_evicts_soon(false);
    if !worker.is_limited() {
        return;
    }
    let used = worker.used_bytes();
    // Memory that commands took beyond the credit counts now, so that keys are evicted for it, and
    // their readers told, before anything is executed that is sent behind their replies.
    worker.lease.settle(used);
    tell_of_scarcity(shared, worker);
    if worker.lease.is_scarce() {
        worker.lease.give_back(used);
    }
    let now_us = shared.clock.monotonic_us();
    if worker.lease.excess() == 0 {
        return shared.memory_limit.note_within(now_us);
    }
    shared.memory_limit.note_exceeded(now_us);
    let is_late = now_us >= worker.eviction.paused_until_us;
    if shared.is_paused() || shared.loading.is_running() || !is_late {
        return;
    }
    let end = run(shared, worker, reader, |_, worker| {
        let used = worker.used_bytes();
        worker.lease.give_back(used);
        worker.lease.excess() == 0
    });
    let now_us = shared.clock.monotonic_us();
    match end {
        RunEnd::Enough => shared.memory_limit.note_within(now_us),
        // Memory that readers still need is freed at the end of some iteration, which wakes nobody:
        // the worker looks at it every few milliseconds.
        RunEnd::TimeOver => worker.set_evicts_soon(!worker.must_reclaim()),
        RunEnd::Blocked | RunEnd::NoKeys => {
            worker.eviction.paused_until_us = now_us + EVICTION_PAUSE_US;
        }
    }
}

/// Evicts keys until `is_enough`, for as long as `maxmemory-eviction-tenacity` says.
fn run(
    shared: &Shared,
    worker: &mut Worker,
    reader: &mut dyn ReadSide,
    is_enough: fn(&Shared, &mut Worker) -> bool,
) -> RunEnd {
    let policy = worker.settings.eviction_policy.filter(|_| !worker.settings.import_mode);
    let Some(policy) = policy else { return RunEnd::NoKeys };
    worker.eviction.set_policy(policy);
    let start_ns = shared.clock.monotonic_ns();
    let until_us = (start_ns / 1000).saturating_add(worker.settings.eviction_us_max());
    let (mut end, mut failed) = (None, 0);
    while end.is_none() {
        reader.section(&mut |section| {
            for _ in 0..EVICTIONS_BETWEEN_CLOCKS {
                end = match attempt(shared, worker, section, policy) {
                    Attempt::NoKeys => Some(RunEnd::NoKeys),
                    Attempt::Failed => {
                        failed += 1;
                        (failed >= EVICTION_ATTEMPTS_MAX).then_some(RunEnd::Blocked)
                    }
                    Attempt::Freed => {
                        failed = 0;
                        is_enough(shared, worker).then_some(RunEnd::Enough)
                    }
                };
                if end.is_some() {
                    break;
                }
            }
        });
        reader.quiescent();
        let is_over = worker.must_reclaim() || shared.clock.monotonic_us() >= until_us;
        end = end.or(is_over.then_some(RunEnd::TimeOver));
    }
    note_latency(shared, worker, "eviction-cycle", start_ns);
    end.unwrap_or(RunEnd::TimeOver)
}

/// Samples keys and tries to evict the best one.
fn attempt(
    shared: &Shared,
    worker: &mut Worker,
    section: Section<'_>,
    policy: EvictionPolicy,
) -> Attempt {
    let databases = 0..shared.keyspace.databases_end();
    if !worker.eviction.ranges.refresh(shared, databases, policy.keys, section) {
        worker.eviction.clear();
        return Attempt::NoKeys;
    }
    sample(shared, worker, section, policy);
    let Some(candidate) = worker.eviction.take_best() else { return Attempt::Failed };
    let live_bytes = worker.heap.live_bytes();
    evict(shared, worker, section, policy, candidate);
    if policy.order == EvictionOrder::Random {
        worker.eviction.clear();
    }
    if worker.heap.live_bytes() < live_bytes { Attempt::Freed } else { Attempt::Failed }
}

/// Adds random keys to the candidates.
fn sample(shared: &Shared, worker: &mut Worker, section: Section<'_>, policy: EvictionPolicy) {
    let wanted = match policy.order {
        EvictionOrder::Random => 1,
        _ => worker.settings.eviction_samples,
    };
    let ranking = Ranking::now(worker, policy);
    let mut seen = 0;
    for _ in 0..wanted * SAMPLE_DRAWS_PER_KEY {
        if seen >= wanted {
            return;
        }
        let random = worker.random.next_u64();
        let Some(place) = worker.eviction.ranges.draw(shared, random, section) else {
            let databases = 0..shared.keyspace.databases_end();
            worker.eviction.ranges.refresh(shared, databases, policy.keys, section);
            continue;
        };
        let mut entries: SmallVec<[EntryRef<'_>; 8]> = SmallVec::new();
        let mut hash = worker.random.next_u64();
        for _ in 0..SAMPLED_BUCKETS_MAX {
            let keyspace = &shared.keyspace;
            hash = keyspace.sample_bucket(place, hash, policy.keys, section, &mut |entry| {
                entries.push(entry);
            });
            if !entries.is_empty() {
                break;
            }
        }
        // From a random one on: a bucket keeps its entries in the order in which they came.
        let first = random as usize % entries.len().max(1);
        entries.rotate_left(first);
        for &entry in entries.iter().take(wanted - seen) {
            seen += 1;
            let score = ranking.score(entry);
            if worker.eviction.takes(score) {
                let key_hash = shared.keyspace.key_hash(entry.key());
                worker.eviction.offer(Candidate { score, database: place.0, key_hash });
            }
        }
    }
}

/// Order of a policy, at one moment.
#[derive(Clone, Copy)]
struct Ranking {
    policy: EvictionPolicy,
    now_s: u64,
    scale: FrequencyScale,
}

impl Ranking {
    fn now(worker: &Worker, policy: EvictionPolicy) -> Ranking {
        Ranking { policy, now_s: worker.now_s(), scale: worker.settings.frequency_scale }
    }

    /// Rank of an entry; the highest is evicted first.
    fn score(self, entry: EntryRef<'_>) -> u64 {
        let stamp = UseStamp::of_field(entry.recency());
        match self.policy.order {
            EvictionOrder::LeastRecentlyUsed => u64::from(stamp.idle_s(self.now_s)),
            EvictionOrder::LeastFrequentlyUsed => {
                u64::from(u8::MAX - stamp.frequency(self.now_s, self.scale))
            }
            EvictionOrder::TimeToLive => u64::MAX - entry.expires_at_ms().unwrap_or(u64::MAX),
            EvictionOrder::Random => 0,
        }
    }

    /// True if an entry may still be evicted as the candidate that it was sampled as.
    fn confirms(self, entry: EntryRef<'_>, candidate: Candidate) -> bool {
        let is_of_class = self.policy.keys == KeyClass::All || entry.expires_at_ms().is_some();
        is_of_class && self.score(entry) >= candidate.score
    }
}

/// Evicts a candidate if it is what it was sampled as, by a unit of its own. One that has expired
/// meanwhile is deleted as such.
fn evict(
    shared: &Shared,
    worker: &mut Worker,
    section: Section<'_>,
    policy: EvictionPolicy,
    candidate: Candidate,
) {
    let Candidate { database, key_hash, .. } = candidate;
    let Some(key) = key_of(shared, candidate, section) else { return };
    if !Room::of(shared).has_name_copies(key) {
        return;
    }
    let Ok(locks) = LockSet::one(shared, key_hash.slot) else { return };
    let (start_ns, ranking) = (shared.clock.monotonic_ns(), Ranking::now(worker, policy));
    edit_beside(shared, worker, locks, section, database, |cx| {
        let edit = cx.edit(key);
        if edit.entry().is_some_and(|entry| ranking.confirms(entry, candidate)) {
            edit.evict();
        }
    });
    note_latency(shared, worker, "eviction-del", start_ns);
}

/// Key of a candidate, if it is still there.
fn key_of<'g>(shared: &'g Shared, candidate: Candidate, section: Section<'g>) -> Option<&'g [u8]> {
    let Candidate { database, key_hash: KeyHash { slot, hash, .. }, .. } = candidate;
    let (keyspace, mut key) = (&shared.keyspace, None);
    keyspace.sample_bucket((database, slot), hash, KeyClass::All, section, &mut |entry| {
        if key.is_none() && keyspace.key_hash(entry.key()).hash == hash {
            key = Some(entry.key());
        }
    });
    key
}

/// Notes a latency event that began at `start_ns`.
fn note_latency(shared: &Shared, worker: &Worker, event: &'static str, start_ns: u64) {
    let elapsed_ns = shared.clock.monotonic_ns().saturating_sub(start_ns);
    if elapsed_ns >= worker.settings.latency_ns_min {
        let unix_s = shared.clock.wall_us() / 1_000_000;
        shared.latency.add(event, Sample { unix_s, ms: elapsed_ns / 1_000_000 });
    }
}
