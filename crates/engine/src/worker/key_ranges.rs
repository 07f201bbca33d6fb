//! Random slots by their share of the keys.
//!
//! A cumulative table has the number of keys up to the end of each range of 64 slots; a draw is a
//! binary search in it, and a look at the counts of one range as they are now. The table is made
//! from the slots' counts, 64 KiB per database, and used for a while: writers need not maintain it.
//! Until it is made anew a range is drawn by the share that it had then. Rejected: sums that
//! writers maintain, a write to a line shared by all of them per new key.

use std::ops::Range;

use tidemill_store::limits::SLOT_COUNT;
use tidemill_store::{KeyClass, Section, SlotNumber};

use crate::shared::Shared;

/// Slots of one range.
const RANGE_SLOTS: usize = 64;
/// Draws for which a table is used at least, and microseconds for which it is used at most. Making
/// one costs as much as some twenty draws.
const DRAWS_MAX: usize = 1024;
const AGE_US_MAX: u64 = 100_000;

/// Range of slots of a database that has keys.
#[derive(Clone, Copy, Debug)]
struct KeyRange {
    database: usize,
    first_slot: usize,
    /// Keys of this range and of all before.
    keys_to_end: u64,
}

/// Cumulative table of the keys of some databases.
#[derive(Debug, Default)]
pub(crate) struct KeyRanges {
    databases: Range<usize>,
    keys: KeyClass,
    ranges: Vec<KeyRange>,
    made_us: u64,
    draws: usize,
    is_made: bool,
}

impl KeyRanges {
    /// Makes the table for keys of databases, unless it is one for these and recent. Tells whether
    /// there are any keys.
    pub(crate) fn refresh(
        &mut self,
        shared: &Shared,
        databases: Range<usize>,
        keys: KeyClass,
        section: Section<'_>,
    ) -> bool {
        let now_us = shared.clock.monotonic_us();
        let is_recent = self.is_made
            && !self.ranges.is_empty()
            && (&self.databases, self.keys) == (&databases, keys)
            && self.draws < DRAWS_MAX.max(self.ranges.len())
            && now_us.saturating_sub(self.made_us) < AGE_US_MAX;
        if !is_recent {
            self.make(shared, databases, keys, section);
            (self.made_us, self.draws, self.is_made) = (now_us, 0, true);
        }
        !self.ranges.is_empty()
    }

    fn make(
        &mut self,
        shared: &Shared,
        databases: Range<usize>,
        keys: KeyClass,
        section: Section<'_>,
    ) {
        self.ranges.clear();
        let mut sum = 0;
        for database in shared.keyspace.written(databases.clone()) {
            let mut counts = shared.keyspace.slot_counts(database, keys, 0..SLOT_COUNT, section);
            for first_slot in (0..SLOT_COUNT).step_by(RANGE_SLOTS) {
                let count: u64 = counts.by_ref().take(RANGE_SLOTS).map(u64::from).sum();
                if count > 0 {
                    sum += count;
                    self.ranges.push(KeyRange { database, first_slot, keys_to_end: sum });
                }
            }
        }
        (self.databases, self.keys) = (databases, keys);
    }

    /// Makes the table anew at the next refresh: it is known to be wrong.
    pub(crate) fn expire(&mut self) {
        self.is_made = false;
    }

    /// Database and slot of a random key; none if the range that was drawn has no keys any more, or
    /// if there are none at all.
    pub(crate) fn draw(
        &mut self,
        shared: &Shared,
        random: u64,
        section: Section<'_>,
    ) -> Option<(usize, SlotNumber)> {
        self.draws += 1;
        let sum = self.ranges.last()?.keys_to_end;
        let rank = below(random, sum);
        let index = self.ranges.partition_point(|range| range.keys_to_end <= rank);
        let KeyRange { database, first_slot, keys_to_end } = self.ranges[index];
        let slots = first_slot..first_slot + RANGE_SLOTS;
        let mut counts = [0_u32; RANGE_SLOTS];
        let now = shared.keyspace.slot_counts(database, self.keys, slots, section);
        now.zip(&mut counts).for_each(|(now, count)| *count = now);
        let sum = counts.iter().map(|&count| u64::from(count)).sum::<u64>();
        if sum == 0 {
            self.expire();
            return None;
        }
        let mut rank = (keys_to_end - 1 - rank) % sum;
        let offset = counts.iter().position(|&count| {
            let is_here = rank < u64::from(count);
            rank = rank.saturating_sub(u64::from(count));
            is_here
        })?;
        Some((database, SlotNumber::from_index(first_slot + offset)?))
    }
}

/// A number below `bound` from a random one.
pub(crate) fn below(random: u64, bound: u64) -> u64 {
    ((u128::from(random) * u128::from(bound)) >> 64) as u64
}
