//! Defragmentation: moves keys and values out of pages of memory that hold little else.
//!
//! Every worker goes round through its share of the slots, as the sweep does, in steps of bounded
//! time with pauses between them by the effort. A block that the allocator judges to lie in a
//! sparse page is published anew elsewhere under its slot's lock. Keys stay as they are, so neither
//! watchers nor the journal nor events are told. A slot that is taken is left to the next round;
//! nothing moves while a cut is walked through, or while data is loaded.

use smallvec::SmallVec;
use tidemill_store::{EntryRef, Relocated, Section, SlotLock, SlotNumber, TreePlace};

use crate::access::section::ReadSide;
use crate::limits::{DEFRAG_BUCKETS_PER_SECTION, DEFRAG_PAUSE_US_MAX, DEFRAG_PAUSE_US_MIN};
use crate::memory::Room;
use crate::shared::Shared;
use crate::slots::registry::SlotRegistry;
use crate::worker::Worker;
use crate::worker::defrag::{Unfinished, Walk};

/// Defragments on from where the worker's last step ended, for a bounded time. Returns the
/// microseconds until the next step; `None` while there is nothing to do.
#[must_use]
pub fn defragment(shared: &Shared, worker: &mut Worker, reader: &mut dyn ReadSide) -> Option<u64> {
    let settings = worker.settings.defrag;
    if !settings.is_on && shared.defrag.effort_percent() == 0 {
        worker.defrag.unfinished.clear();
        return None;
    }
    let start_us = shared.clock.monotonic_us();
    let effort = shared.defrag.judge(&settings, start_us, || shared.host.allocator());
    if effort == 0 {
        worker.defrag.unfinished.clear();
        return None;
    }
    if shared.loading.is_running() || shared.keyspace.has_active_cut() {
        return None;
    }
    // Otherwise blocks that were freed since the last step, in sparse pages, are handed out again.
    shared.host.flush_thread_cache();
    let (mut has_ended, mut elapsed_us) = (false, 0);
    let mut databases_left = shared.keyspace.written_count().max(1) + 1;
    while !has_ended && databases_left > 0 {
        reader.section(&mut |section| {
            for _ in 0..DEFRAG_BUCKETS_PER_SECTION {
                databases_left -= usize::from(step(shared, worker, section));
                if databases_left == 0 {
                    return;
                }
            }
        });
        reader.quiescent();
        elapsed_us = shared.clock.monotonic_us() - start_us;
        has_ended = elapsed_us >= settings.step_us || worker.heap.retired().is_over_limit();
    }
    if std::mem::take(&mut worker.defrag.has_moved_nothing) {
        return Some(DEFRAG_PAUSE_US_MAX);
    }
    let pause_us = elapsed_us.saturating_mul(100 - effort.min(99)) / effort;
    Some(pause_us.clamp(DEFRAG_PAUSE_US_MIN, DEFRAG_PAUSE_US_MAX))
}

/// Goes on with a large collection, or looks at one bucket; behind the last slot, goes on to the
/// next database instead, and tells so.
fn step(shared: &Shared, worker: &mut Worker, section: Section<'_>) -> bool {
    if let Some(unfinished) = worker.defrag.unfinished.pop_front() {
        resume(shared, worker, unfinished, section);
        return false;
    }
    let Walk { database, slot, hash, .. } = worker.defrag;
    let Some(slot) = SlotNumber::from_index(slot) else {
        worker.defrag.database = shared.keyspace.written_behind(database);
        worker.defrag.slot = worker.index;
        worker.defrag.hash = 0;
        if worker.defrag.database <= database {
            worker.defrag.has_moved_nothing = worker.defrag.moved_count == 0;
            worker.defrag.moved_count = 0;
        }
        return true;
    };
    let mut next = None;
    if shared.keyspace.slot_key_count(database, slot, section) > 0
        && let Some(mut lock) = shared.keyspace.try_lock(slot)
    {
        let mut entries: SmallVec<[EntryRef<'_>; 16]> = SmallVec::new();
        let visit = &mut |entry| entries.push(entry);
        next = shared.keyspace.visit_bucket(database, slot, hash, 1, section, visit);
        for entry in entries {
            let place = TreePlace::default();
            relocate(shared, worker, (&mut lock, database, entry), place, section);
        }
    }
    worker.defrag.slot =
        if next.is_some() { slot.index() } else { slot.index() + shared.worker_count() };
    worker.defrag.hash = next.unwrap_or(0);
    false
}

/// Goes on with a large collection, if it is still there and its slot free.
fn resume(shared: &Shared, worker: &mut Worker, unfinished: Unfinished, section: Section<'_>) {
    let Unfinished { database, key, place } = unfinished;
    let key_hash = shared.keyspace.key_hash(&key);
    let Some(mut lock) = shared.keyspace.try_lock(key_hash.slot) else { return };
    if let Some(found) = lock.find(database, key_hash, &key, section) {
        relocate(shared, worker, (&mut lock, database, found.entry), place, section);
    }
}

/// Moves what is sparse of a key; a large collection is kept for the next steps.
fn relocate(
    shared: &Shared,
    worker: &mut Worker,
    (lock, database, entry): (&mut SlotLock<'_, SlotRegistry>, usize, EntryRef<'_>),
    place: TreePlace,
    section: Section<'_>,
) {
    let elements_left = worker.settings.defrag.elements_max;
    let mut relocated = Relocated { elements_left, ..Relocated::default() };
    let mut judge = |block: tidemill_store::Block<'_>| shared.host.is_sparse(block);
    let work = (&mut judge as &mut tidemill_store::Judge<'_>, &mut relocated);
    let rest = lock.relocate(database, entry, place, work, section, &worker.heap);
    let stats = worker.stats(shared);
    stats.defrag_hits.add(relocated.moved_count);
    stats.defrag_misses.add(relocated.kept_count);
    stats.defrag_key_hits.add(u64::from(relocated.moved_count > 0));
    stats.defrag_key_misses.add(u64::from(relocated.moved_count == 0));
    worker.defrag.moved_count += relocated.moved_count;
    if let Some(place) = rest
        && let Some(key) = Room::of(shared).name_copy(entry.key())
    {
        worker.defrag.unfinished.push_back(Unfinished { database, key, place });
    }
}
