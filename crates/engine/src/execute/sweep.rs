//! The sweep: deletes expired keys and fields that nobody reads.
//!
//! Every worker has the slots whose number leaves its index when divided by the number of workers.
//! It goes round through its slots and all databases for a bounded time, and skips slots in which
//! nothing expires. A bucket is looked at without a lock; what has expired in it is then deleted as
//! a write of its own. A slot that is taken is left to the next round. A hash with very many
//! expired fields among others loses some per write, and its bucket is looked at again at once,
//! some times; one of which all have expired goes by one write.

use tidemill_store::{EntryRef, Section, SlotNumber};

use super::serve::edit_beside;
use crate::access::expired_fields::{Reaped, delete_expired_fields, first_field_expiry};
use crate::access::locks::LockSet;
use crate::access::section::ReadSide;
use crate::expiry_clock::ExpiryClock;
use crate::limits::{
    FIELDS_PER_SWEEP_STEP, SWEEP_BUSY_PERCENT, SWEEP_STEPS_BETWEEN_CLOCKS,
    SWEEP_STEPS_PER_BUCKET_MAX, SWEEP_US_MAX, SWEEP_US_PER_EFFORT,
};
use crate::memory::Room;
use crate::shared::Shared;
use crate::worker::Worker;
use crate::worker::sweep::{Expiring, Position};

/// Findings of one call of the sweep.
#[derive(Clone, Copy, Debug, Default)]
struct Met {
    entries: usize,
    expired: usize,
    /// Steps, those of fields among them.
    steps: usize,
    /// A hash was left with expired fields.
    leaves_fields: bool,
}

/// Sweeps on from where the worker's last sweep ended, for a bounded time or once around.
///
/// Tells whether so much of what it met had expired that it should go on soon.
#[must_use]
pub fn sweep(shared: &Shared, worker: &mut Worker, reader: &mut dyn ReadSide) -> bool {
    let is_off = !shared.expires_actively() || worker.settings.import_mode;
    if shared.is_paused() || is_off || shared.loading.is_running() {
        return false;
    }
    let start_us = shared.clock.monotonic_us();
    let further_effort = worker.settings.expire_effort.saturating_sub(1);
    let us_max = SWEEP_US_MAX + further_effort * SWEEP_US_PER_EFFORT;
    let mut met = Met::default();
    let mut is_over = false;
    let mut databases_left = shared.keyspace.written_count().max(1) + 1;
    while !is_over && shared.clock.monotonic_us() - start_us < us_max {
        reader.section(&mut |section| {
            let end = met.steps + SWEEP_STEPS_BETWEEN_CLOCKS;
            while met.steps < end {
                met.steps += 1;
                databases_left -= usize::from(step(shared, worker, section, &mut met));
                is_over = databases_left == 0;
                if is_over {
                    break;
                }
            }
        });
        reader.quiescent();
    }
    let stats = worker.stats(shared);
    stats.sweep_us.add(shared.clock.monotonic_us() - start_us);
    stats.sweeps_cut_short.add(u64::from(!is_over));
    stats.swept_entries.set(met.entries as u64);
    stats.swept_expired.set(met.expired as u64);
    let busy_percent = SWEEP_BUSY_PERCENT.saturating_sub(further_effort as usize);
    met.leaves_fields || !is_over && met.expired * 100 > met.entries * busy_percent
}

/// Looks at one bucket, or skips a slot in which nothing expires; behind the last slot, goes on to
/// the next database instead, and tells so.
fn step(shared: &Shared, worker: &mut Worker, section: Section<'_>, met: &mut Met) -> bool {
    let Position { database, slot, hash, repeated } = worker.sweep;
    let Some(slot) = SlotNumber::from_index(slot) else {
        let Expiring { keys, ms } = std::mem::take(&mut worker.sweep_expiring);
        let times_to_live = worker.stats(shared).times_to_live_or_new(database);
        times_to_live.keys.set(keys);
        times_to_live.ms.set(ms);
        let next = shared.keyspace.written_behind(database);
        worker.sweep = Position { database: next, ..Position::new(worker.index) };
        return true;
    };
    let keyspace = &shared.keyspace;
    let has_fields =
        shared.has_expiring_fields() && keyspace.slot_key_count(database, slot, section) > 0;
    let (mut next, mut leaves_fields) = (None, false);
    if has_fields || keyspace.has_expiring(database, slot, section) {
        let clock = worker.expiry_clock(shared);
        let expiring = &mut worker.sweep_expiring;
        let mut due: Vec<Box<[u8]>> = Vec::new();
        next = keyspace.visit_bucket(database, slot, hash, 1, section, &mut |entry| {
            met.entries += 1;
            if let Some(at_ms) = entry.expires_at_ms() {
                expiring.keys += 1;
                expiring.ms = expiring.ms.saturating_add(at_ms.saturating_sub(clock.now_ms()));
            }
            if is_due(shared, entry, clock) {
                due.extend(Room::of(shared).name_copy(entry.key()));
            }
        });
        met.expired += due.len();
        for key in due {
            let reaped = delete(shared, worker, section, (database, slot), &key);
            leaves_fields |= reaped.leaves_some;
            met.steps += reaped.count / FIELDS_PER_SWEEP_STEP;
        }
    }
    met.leaves_fields |= leaves_fields;
    worker.sweep = match next {
        _ if leaves_fields && repeated < SWEEP_STEPS_PER_BUCKET_MAX => {
            Position { repeated: repeated + 1, ..worker.sweep }
        }
        Some(hash) => Position { database, slot: slot.index(), hash, repeated: 0 },
        None => {
            let slot = slot.index() + shared.worker_count();
            Position { database, slot, hash: 0, repeated: 0 }
        }
    };
    false
}

/// True if an entry has expired, or a field of it.
fn is_due(shared: &Shared, entry: EntryRef<'_>, clock: ExpiryClock) -> bool {
    let first_field_ms = || first_field_expiry(shared, entry);
    let is_over = |at_ms| clock.has_passed(at_ms);
    entry.expires_at_ms().is_some_and(is_over) || first_field_ms().is_some_and(is_over)
}

/// Deletes a key, or fields of it, if their time is over. Tells what became of the fields.
fn delete(
    shared: &Shared,
    worker: &mut Worker,
    section: Section<'_>,
    (database, slot): (usize, SlotNumber),
    key: &[u8],
) -> Reaped {
    let mut reaped = Reaped::default();
    let Ok(locks) = LockSet::one(shared, slot) else { return reaped };
    edit_beside(shared, worker, locks, section, database, |cx| {
        // Beginning an edit deletes what has expired.
        if !cx.edit(key).is_gone() {
            reaped = delete_expired_fields(cx, key);
        }
    });
    reaped
}
