//! Walks over the keyspace. They are atomic per slot only.

use rand_xoshiro::rand_core::Rng;
use tidemill_rcu::Section;
use tidemill_store::{EntryRef, Kind, SlotNumber};

use super::look::kind_name;
use crate::command::Outcome;
use crate::commands::options::{integer, is};
use crate::context::SessionCx;
use crate::error::CommandError;
use crate::expiry::SlotJudge;
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

/// Who walks, and over which database.
struct Walk<'s> {
    shared: &'s Shared,
    worker: &'s Worker,
    database: usize,
    /// All other workers are stopped.
    is_alone: bool,
}

/// Runs `read` on a slot until no change of several slots came between; what it read is as of one moment of the slot.
fn read_slot<T>(walk: &Walk<'_>, slot: SlotNumber, mut read: impl FnMut(&SlotJudge<'_>) -> T) -> T {
    let Walk { shared, worker, is_alone, .. } = *walk;
    // With all other workers stopped the slot is only held by this very transaction.
    if is_alone {
        return read(&SlotJudge::locked(shared, worker));
    }
    loop {
        let word = shared.keyspace.word(slot);
        let before = word.load();
        let judge = SlotJudge::unlocked(shared, worker, (word, before));
        let result = read(&judge);
        if judge.is_certain() && before.is_unchanged(word.load_after()) {
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

/// The time of an entry is over: it is deleted after the reply.
fn note_expired(worker: &mut Worker, shared: &Shared, database: usize, entry: EntryRef<'_>) {
    let key_hash = shared.keyspace.key_hash(entry.key());
    worker.expired.push(ExpiredKey { database, key: entry.key().into(), key_hash });
}

pub(super) fn keys(cx: &mut SessionCx<'_, '_>) -> Outcome {
    let filter = Filter { pattern: Some(cx.arg(1)).filter(|pattern| *pattern != b"*"), kind: None };
    let (shared, database, is_alone) = (cx.shared, cx.session.database, cx.alone.is_some());
    let mut found: Vec<Box<[u8]>> = Vec::new();
    let mut next = 0;
    loop {
        let mut slot = None;
        cx.reader.section(&mut |section| {
            slot = shared.keyspace.next_nonempty_slot(database, next, section);
            let Some(slot) = slot else { return };
            let walk = Walk { shared, worker: &*cx.worker, database, is_alone };
            found.extend(read_slot(&walk, slot, |judge| {
                shared
                    .keyspace
                    .entries(database, slot, section)
                    .filter(|entry| filter.accepts(*entry) && !judge.is_over(*entry))
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
    let (shared, database, is_alone) = (cx.shared, cx.session.database, cx.alone.is_some());
    let mut found: Vec<Box<[u8]>> = Vec::new();
    let mut visited = 0;
    while visited < options.count && !place.is_over {
        cx.reader.section(&mut |section| {
            let walk = Walk { shared, worker: &*cx.worker, database, is_alone };
            let stepped = step(&walk, &mut place, section, &options.filter);
            visited += stepped.count;
            for (entry, is_over) in stepped.accepted {
                if is_over {
                    note_expired(cx.worker, shared, database, entry);
                } else {
                    found.push(entry.key().into());
                }
            }
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

/// What a step of a walk met.
#[derive(Default)]
struct Stepped<'g> {
    count: usize,
    /// Entries that the filter accepts, and whether their time is over.
    accepted: Vec<(EntryRef<'g>, bool)>,
}

/// Reads one bucket and moves on.
fn step<'g>(
    walk: &Walk<'_>,
    place: &mut Place,
    section: Section<'g>,
    filter: &Filter<'_>,
) -> Stepped<'g> {
    let Walk { shared, database, .. } = *walk;
    let Some(slot) = shared.keyspace.next_nonempty_slot(database, place.slot, section) else {
        place.is_over = true;
        return Stepped::default();
    };
    if slot.index() != place.slot {
        (place.slot, place.hash) = (slot.index(), 0);
    }
    let (stepped, next) = read_slot(walk, slot, |judge| {
        let mut stepped = Stepped::default();
        let next = shared.keyspace.visit_bucket(
            database,
            slot,
            place.hash,
            CURSOR_GRANULARITY,
            section,
            &mut |entry| {
                stepped.count += 1;
                if filter.accepts(entry) {
                    stepped.accepted.push((entry, judge.is_over(entry)));
                }
            },
        );
        (stepped, next)
    });
    match next {
        Some(hash) => place.hash = hash,
        None => (place.slot, place.hash) = (place.slot + 1, 0),
    }
    place.is_over = place.slot >= tidemill_store::limits::SLOT_COUNT;
    stepped
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

pub(super) fn randomkey(cx: &mut SessionCx<'_, '_>) -> Outcome {
    let (shared, database) = (cx.shared, cx.session.database);
    let mut found: Option<Box<[u8]>> = None;
    for _ in 0..RANDOM_ATTEMPTS_MAX {
        let random = [cx.worker.random.next_u64(), cx.worker.random.next_u64()];
        let mut is_empty = false;
        cx.reader.section(&mut |section| {
            let count = shared.keyspace.key_count(database, section);
            is_empty = count == 0;
            if !is_empty {
                let Some(entry) = random_entry(shared, database, random, count, section) else {
                    return;
                };
                // Passing an expired key over is no answer: it need not count.
                if SlotJudge::locked(shared, cx.worker).is_over(entry) {
                    note_expired(cx.worker, shared, database, entry);
                } else {
                    found = Some(entry.key().into());
                }
            }
        });
        if is_empty || found.is_some() {
            break;
        }
    }
    match found {
        Some(key) => cx.reply.bulk(&key),
        None => cx.reply.null(),
    }
    Ok(())
}

/// A slot by its share of the keys, then one of the slot's buckets, then one of its entries.
fn random_entry<'g>(
    shared: &Shared,
    database: usize,
    random: [u64; 2],
    count: u64,
    section: Section<'g>,
) -> Option<EntryRef<'g>> {
    let mut rank = random[0] % count;
    let slot = SlotNumber::all().find(|&slot| {
        let keys = u64::from(shared.keyspace.slot_key_count(database, slot, section));
        let is_here = rank < keys;
        rank = rank.saturating_sub(keys);
        is_here
    })?;
    let mut entries = Vec::new();
    let visit = &mut |entry| entries.push(entry);
    shared.keyspace.visit_bucket(database, slot, random[1], CURSOR_GRANULARITY, section, visit);
    (!entries.is_empty()).then(|| entries[(random[0] >> 32) as usize % entries.len()])
}
