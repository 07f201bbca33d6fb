//! Walks over the keyspace. They are atomic per slot only.

use rand_xoshiro::rand_core::Rng;
use tidemill_rcu::Section;
use tidemill_store::{EntryRef, Kind, SlotNumber};

use super::look::kind_name;
use crate::command::Outcome;
use crate::commands::options::{integer, is};
use crate::context::SessionCx;
use crate::error::CommandError;
use crate::glob;
use crate::shared::Shared;
use crate::worker::{ExpiredKey, Worker};

/// A cursor is a hash boundary with a slot in its low bits: boundaries are multiples of this.
const CURSOR_GRANULARITY: u64 = 1 << 14;

/// Waits until a change of several slots that includes `slot` is over.
fn wait_while_held(shared: &Shared, slot: SlotNumber) {
    while shared.keyspace.word(slot).load().is_held() {
        std::thread::yield_now();
    }
}

/// Runs `read` on a slot until no change of several slots came between; what it read is as of one moment of the slot.
fn read_slot<T>(
    shared: &Shared,
    slot: SlotNumber,
    is_alone: bool,
    mut read: impl FnMut() -> T,
) -> T {
    loop {
        let before = shared.keyspace.word(slot).load();
        let result = read();
        // With all other workers stopped the slot is only held by this very transaction.
        if is_alone || before.is_unchanged(shared.keyspace.word(slot).load_after()) {
            return result;
        }
        wait_while_held(shared, slot);
        std::hint::spin_loop();
    }
}

struct Filter<'s> {
    pattern: Option<&'s [u8]>,
    kind: Option<&'s [u8]>,
}

impl Filter<'_> {
    fn accepts(&self, entry: EntryRef<'_>) -> bool {
        self.pattern.is_none_or(|pattern| glob::matches(pattern, entry.key(), false))
            && self
                .kind
                .is_none_or(|kind| kind.eq_ignore_ascii_case(kind_name(entry.kind()).as_bytes()))
    }
}

/// Whether an entry is there for commands: its time is not over.
fn is_alive(entry: EntryRef<'_>, clock_ms: u64) -> bool {
    entry.expires_at_ms().is_none_or(|at_ms| clock_ms <= at_ms)
}

/// Whether the time of an entry is over. Then it is deleted after the reply.
fn is_gone(worker: &mut Worker, shared: &Shared, database: usize, entry: EntryRef<'_>) -> bool {
    let is_gone = !is_alive(entry, shared.expiry_clock_ms(worker.now_ms()));
    if is_gone {
        let key_hash = shared.keyspace.key_hash(entry.key());
        worker.expired.push(ExpiredKey { database, key: entry.key().into(), key_hash });
    }
    is_gone
}

pub(super) fn keys(cx: &mut SessionCx<'_, '_>) -> Outcome {
    let filter = Filter { pattern: Some(cx.arg(1)).filter(|pattern| *pattern != b"*"), kind: None };
    let (shared, database, is_alone) = (cx.shared, cx.session.database, cx.alone.is_some());
    let clock_ms = shared.expiry_clock_ms(cx.worker.now_ms());
    let mut found: Vec<Box<[u8]>> = Vec::new();
    let mut next = 0;
    loop {
        let mut slot = None;
        cx.reader.section(&mut |section| {
            slot = shared.keyspace.next_nonempty_slot(database, next, section);
            let Some(slot) = slot else { return };
            found.extend(read_slot(shared, slot, is_alone, || {
                shared
                    .keyspace
                    .entries(database, slot, section)
                    .filter(|entry| is_alive(*entry, clock_ms) && filter.accepts(*entry))
                    .map(|entry| entry.key().into())
                    .collect::<Vec<Box<[u8]>>>()
            }));
        });
        let Some(slot) = slot else { break };
        next = slot.index() + 1;
        cx.reader.quiescent();
    }
    cx.reply.array(found.len());
    found.iter().for_each(|key| cx.reply.bulk(key));
    Ok(())
}

struct ScanOptions<'s> {
    filter: Filter<'s>,
    count: usize,
}

fn scan_options<'s>(cx: &SessionCx<'_, 's>) -> Result<ScanOptions<'s>, CommandError> {
    let mut options = ScanOptions { filter: Filter { pattern: None, kind: None }, count: 10 };
    let mut index = 2;
    while index < cx.args.len() {
        let option = cx.arg(index);
        if index + 1 == cx.args.len() {
            return Err(CommandError::Syntax);
        }
        let value = cx.arg(index + 1);
        if is(option, "COUNT") {
            let count = integer(value)?;
            options.count = usize::try_from(count)
                .ok()
                .filter(|&count| count > 0)
                .ok_or(CommandError::Syntax)?;
        } else if is(option, "MATCH") {
            options.filter.pattern = Some(value).filter(|pattern| *pattern != b"*");
        } else if is(option, "TYPE") {
            if kind_of_name(value).is_none() {
                return Err(CommandError::quoting("ERR unknown type name '", value, "'"));
            }
            options.filter.kind = Some(value);
        } else {
            return Err(CommandError::Syntax);
        }
        index += 2;
    }
    Ok(options)
}

fn kind_of_name(name: &[u8]) -> Option<Kind> {
    [Kind::String, Kind::List, Kind::Set, Kind::SortedSet, Kind::Hash, Kind::Stream]
        .into_iter()
        .find(|kind| name.eq_ignore_ascii_case(kind_name(*kind).as_bytes()))
}

/// A cursor as clients send it: digits, perhaps behind spaces, 64 bits.
pub(in crate::commands) fn parse_cursor(text: &[u8]) -> Result<u64, CommandError> {
    std::str::from_utf8(text.trim_ascii_start())
        .ok()
        .filter(|text| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()))
        .and_then(|text| text.parse().ok())
        .ok_or(CommandError::from("ERR invalid cursor"))
}

pub(super) fn scan(cx: &mut SessionCx<'_, '_>) -> Outcome {
    let cursor = parse_cursor(cx.arg(1))?;
    let options = scan_options(cx)?;
    let mut place = Place {
        slot: (cursor % CURSOR_GRANULARITY) as usize,
        hash: cursor & !(CURSOR_GRANULARITY - 1),
        is_over: false,
    };
    let mut found: Vec<Box<[u8]>> = Vec::new();
    let mut visited = 0;
    while visited < options.count && !place.is_over {
        cx.reader.section(&mut |section| {
            visited += step(
                cx.shared,
                cx.session.database,
                cx.alone.is_some(),
                &mut place,
                section,
                &mut |entry| {
                    if options.filter.accepts(entry)
                        && !is_gone(cx.worker, cx.shared, cx.session.database, entry)
                    {
                        found.push(entry.key().into());
                    }
                },
            );
        });
        cx.reader.quiescent();
    }
    cx.reply.array(2);
    let next = if place.is_over { 0 } else { place.hash | place.slot as u64 };
    cx.reply.bulk(next.to_string());
    cx.reply.array(found.len());
    found.iter().for_each(|key| cx.reply.bulk(key));
    Ok(())
}

/// Where a walk goes on.
struct Place {
    slot: usize,
    hash: u64,
    is_over: bool,
}

/// Visits one bucket and moves on; returns how many entries there were.
fn step(
    shared: &Shared,
    database: usize,
    is_alone: bool,
    place: &mut Place,
    section: Section<'_>,
    visit: &mut dyn FnMut(EntryRef<'_>),
) -> usize {
    let Some(slot) = shared.keyspace.next_nonempty_slot(database, place.slot, section) else {
        place.is_over = true;
        return 0;
    };
    if slot.index() != place.slot {
        (place.slot, place.hash) = (slot.index(), 0);
    }
    let (entries, next) = read_slot(shared, slot, is_alone, || {
        let mut entries = Vec::new();
        let next = shared.keyspace.visit_bucket(
            database,
            slot,
            place.hash,
            CURSOR_GRANULARITY,
            section,
            &mut |entry| entries.push(entry),
        );
        (entries, next)
    });
    entries.iter().for_each(|entry| visit(*entry));
    match next {
        Some(hash) => place.hash = hash,
        None => (place.slot, place.hash) = (place.slot + 1, 0),
    }
    place.is_over = place.slot >= tidemill_store::limits::SLOT_COUNT;
    entries.len()
}

pub(super) fn dbsize(cx: &mut SessionCx<'_, '_>) -> Outcome {
    let mut count = 0;
    let (shared, database) = (cx.shared, cx.session.database);
    cx.reader.section(&mut |section| count = shared.keyspace.key_count(database, section));
    cx.reply.integer(count as i64);
    Ok(())
}

/// Attempts to find a random key that has not expired, before any key will do.
const RANDOM_ATTEMPTS_MAX: usize = 100;

/// Slots that are looked through in one read section when nothing was found at random.
const LOOKED_THROUGH_SLOTS: usize = 256;

pub(super) fn randomkey(cx: &mut SessionCx<'_, '_>) -> Outcome {
    let (shared, database, is_alone) = (cx.shared, cx.session.database, cx.alone.is_some());
    let mut found: Option<Box<[u8]>> = None;
    for _ in 0..RANDOM_ATTEMPTS_MAX {
        let random = [cx.worker.random.next_u64(), cx.worker.random.next_u64()];
        let mut is_empty = false;
        cx.reader.section(&mut |section| {
            let count = shared.keyspace.key_count(database, section);
            is_empty = count == 0;
            if !is_empty {
                found = random_entry(shared, database, is_alone, (random, count), section)
                    .filter(|entry| !is_gone(cx.worker, shared, database, *entry))
                    .map(|entry| entry.key().into());
            }
        });
        if is_empty || found.is_some() {
            break;
        }
    }
    match found.or_else(|| any_key(cx)) {
        Some(key) => cx.reply.bulk(&key),
        None => cx.reply.null(),
    }
    Ok(())
}

/// A slot by its share of the keys, then one of the slot's buckets, then one of its entries.
///
/// Counts are as they are at this moment, which may be within a change of several slots: they only choose the slot.
fn random_entry<'g>(
    shared: &Shared,
    database: usize,
    is_alone: bool,
    (random, count): ([u64; 2], u64),
    section: Section<'g>,
) -> Option<EntryRef<'g>> {
    let mut rank = random[0] % count;
    let slot = SlotNumber::all().find(|&slot| {
        let keys = u64::from(shared.keyspace.slot_key_count(database, slot, section));
        let is_here = rank < keys;
        rank = rank.saturating_sub(keys);
        is_here
    })?;
    let (keyspace, granularity) = (&shared.keyspace, CURSOR_GRANULARITY);
    let entries = read_slot(shared, slot, is_alone, || {
        let mut entries = Vec::new();
        let visit = &mut |entry| entries.push(entry);
        keyspace.visit_bucket(database, slot, random[1], granularity, section, visit);
        entries
    });
    (!entries.is_empty()).then(|| entries[(random[0] >> 32) as usize % entries.len()])
}

/// The first key from a random slot on that has not expired. Every slot is asked, an empty one too: it may be empty only
/// within a change that is not over, and then it is no answer that there is no key.
fn any_key(cx: &mut SessionCx<'_, '_>) -> Option<Box<[u8]>> {
    let (shared, database, is_alone) = (cx.shared, cx.session.database, cx.alone.is_some());
    let clock_ms = shared.expiry_clock_ms(cx.worker.now_ms());
    let slot_count = tidemill_store::limits::SLOT_COUNT;
    let first = cx.worker.random.next_u64() as usize % slot_count;
    let mut found: Option<Box<[u8]>> = None;
    for from in (0..slot_count).step_by(LOOKED_THROUGH_SLOTS) {
        cx.reader.section(&mut |section| {
            let mut slots = (from..slot_count.min(from + LOOKED_THROUGH_SLOTS))
                .filter_map(|index| SlotNumber::from_index((first + index) % slot_count));
            found = slots.find_map(|slot| {
                read_slot(shared, slot, is_alone, || {
                    let mut entries = shared.keyspace.entries(database, slot, section);
                    entries.find(|entry| is_alive(*entry, clock_ms)).map(|entry| entry.key().into())
                })
            });
        });
        if found.is_some() {
            break;
        }
        cx.reader.quiescent();
    }
    found
}
