//! Walks over the keyspace. They are atomic per slot only.
//!
//! A walk reads a slot without a lock, like any read. When somebody wrote meanwhile, or when there
//! is so much to read that somebody probably will, it takes the slot's lock for the time that it
//! needs to note the entries. When the lock is taken too, the session waits for it and goes on from
//! there: `KEYS` and `DBSIZE` keep what they have found, `SCAN` answers it. After many waits for
//! one slot it takes the token, and stops all others while it locks that.

use std::rc::Rc;

use rand_xoshiro::rand_core::Rng;
use tidemill_store::gate::Seat;
use tidemill_store::{EntryRef, KeyClass, Kind, Section, SlotNumber};

use crate::access::expiry::SlotJudge;
use crate::access::locks::{Contender, LockSet, Slots};
use crate::access::options::{integer, is, parse_cursor};
use crate::access::outcome::{Outcome, Stop};
use crate::access::session_context::SessionCx;
use crate::access::unit::Unit;
use crate::error::CommandError;
use crate::glob;
use crate::keys_walk::{KeyList, KeysWalk};
use crate::limits::{ONE_SLOT_ATTEMPTS_MAX, READ_ATTEMPTS_MAX, WALKED_KEYS_MAX};
use crate::memory;
use crate::shared::Shared;
use crate::slots::parking::WaitTarget;
use crate::worker::Worker;
use crate::worker::session::Session;

/// Low bits of a cursor that hold the slot.
const CURSOR_SLOT_BITS: u32 = 14;

/// Boundaries of hashes are multiples of this. A cursor holds half of one, with a slot in its low
/// bits, so that it is below 2^63: some clients keep cursors as signed numbers.
const CURSOR_GRANULARITY: u64 = 1 << (CURSOR_SLOT_BITS + 1);

/// Way in which a slot is read.
#[derive(Clone, Copy)]
enum Reading<'k, 'u> {
    /// With all other workers stopped: the slot is only held by this very unit.
    Alone(&'u Unit<'k>),
    /// It takes some microseconds: without a lock first.
    Brief,
    /// Under the lock at once: it takes longer than it takes others to write.
    Long,
}

/// Worker that walks, and the database that it walks over.
struct Walk<'k, 'w> {
    shared: &'k Shared,
    worker: &'w Worker,
    database: usize,
    /// The session, if it has waited so often for one slot that it takes the token.
    contender: Option<Contender<'w>>,
}

impl<'k, 'w> Walk<'k, 'w> {
    fn of(
        session: &Session,
        shared: &'k Shared,
        worker: &'w Worker,
        seat: &'w Rc<Seat>,
    ) -> Walk<'k, 'w> {
        let takes_token = session.slot_waits() >= ONE_SLOT_ATTEMPTS_MAX;
        let contender = takes_token.then(|| Contender::of(session, worker.index, seat));
        Walk { shared, worker, database: session.database, contender }
    }

    /// Locks a slot.
    ///
    /// # Errors
    ///
    /// Event to wait for, with nothing locked.
    fn lock(&self, slot: SlotNumber) -> Result<LockSet<'k>, WaitTarget> {
        LockSet::one(self.shared, slot).or_else(|place| match &self.contender {
            None => Err(place),
            Some(contender) => {
                LockSet::with_token(self.shared, &Slots::from_slice(&[slot]), contender)
            }
        })
    }
}

/// Runs `read` on a slot; what it read is as of one moment of the slot.
///
/// # Errors
///
/// Event to wait for, with nothing locked.
fn read_slot<T>(
    walk: &Walk<'_, '_>,
    slot: SlotNumber,
    reading: Reading<'_, '_>,
    mut read: impl FnMut(&SlotJudge<'_>) -> T,
) -> Result<T, WaitTarget> {
    let Walk { shared, worker, .. } = *walk;
    let word = shared.keyspace.word(slot);
    let attempts = match reading {
        Reading::Alone(unit) => {
            let clock = unit.clock_of_slot(shared, worker, slot);
            return Ok(read(&SlotJudge::by(shared, clock)));
        }
        Reading::Brief => READ_ATTEMPTS_MAX,
        Reading::Long => 0,
    };
    for _ in 0..attempts {
        let before = word.load();
        let judge = SlotJudge::unlocked(shared, worker, (word, before));
        let result = read(&judge);
        if judge.is_certain() && before.is_unchanged(word.load_after()) {
            return Ok(result);
        }
    }
    // The owner of the lock is in no held period but its own, so a read under it is whole.
    let _lock = walk.lock(slot)?;
    Ok(read(&SlotJudge::locked(shared, worker)))
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
                .is_none_or(|kind| kind.eq_ignore_ascii_case(entry.kind().name().as_bytes()))
    }
}

/// The time of an entry is over: it is deleted after the reply.
fn note_expired(worker: &mut Worker, shared: &Shared, database: usize, entry: EntryRef<'_>) {
    let key_hash = shared.keyspace.key_hash(entry.key());
    worker.note_expired(shared, database, entry.key(), key_hash);
}

/// Walks on from where `keys` is to the last slot.
fn go_on(keys: &mut KeysWalk, cx: &mut SessionCx<'_, '_>) -> Outcome {
    let pattern = Some(cx.arg(1)).filter(|pattern| *pattern != b"*");
    let filter = Filter { pattern, kind: None };
    let (shared, database) = (cx.shared, cx.session.database);
    let unit = cx.alone.and(cx.unit.as_deref());
    let seat = Rc::clone(cx.reader.seat());
    let mut is_over = false;
    while !is_over {
        let mut outcome = Ok(());
        cx.reader.section(&mut |section| {
            let keyspace = &shared.keyspace;
            let Some(slot) = keyspace.next_nonempty_slot(database, keys.next, section) else {
                is_over = true;
                return;
            };
            let is_brief = keyspace.slot_key_count(database, slot, section) <= WALKED_KEYS_MAX;
            let beside_others = if is_brief { Reading::Brief } else { Reading::Long };
            let reading = unit.map_or(beside_others, Reading::Alone);
            let walk = Walk::of(&*cx.session, shared, &*cx.worker, &seat);
            // Only noted here: keys are compared and copied with nothing in hand, which takes far
            // longer. The section keeps them.
            let entries = read_slot(&walk, slot, reading, |judge| {
                let entries = keyspace.entries(database, slot, section);
                memory::collect(entries.filter(|entry| !judge.is_over(*entry)))
            });
            outcome = entries.map_err(Stop::wait).and_then(|entries| {
                for entry in entries?.into_iter().filter(|entry| filter.accepts(*entry)) {
                    keys.found.push(entry.key())?;
                }
                keys.next = slot.index() + 1;
                Ok(())
            });
        });
        outcome?;
        cx.session.pass_slot(shared, cx.worker.index);
        cx.reader.quiescent();
    }
    Ok(())
}

pub(super) fn keys(cx: &mut SessionCx<'_, '_>) -> Outcome {
    // There is one only while this very command waits.
    let mut walk = cx.session.walk.take().unwrap_or_default();
    if let Err(stop) = go_on(&mut walk, cx) {
        if matches!(*stop, Stop::Wait(_)) {
            cx.session.walk = Some(walk);
        }
        return Err(stop);
    }
    walk.found.answer(cx.reply);
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
        if is(option, "NOVALUES") {
            return Err("ERR NOVALUES option can only be used in HSCAN".into());
        }
        if is(option, "NOSCORES") {
            return Err("ERR NOSCORES option can only be used in ZSCAN".into());
        }
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
    Kind::ALL.iter().copied().find(|kind| name.eq_ignore_ascii_case(kind.name().as_bytes()))
}

pub(super) fn scan(cx: &mut SessionCx<'_, '_>) -> Outcome {
    let cursor = parse_cursor(cx.arg(1))?;
    let options = scan_options(cx)?;
    let mut place = WalkPosition::of(cursor);
    let reading = cx.alone.and(cx.unit.as_deref()).map_or(Reading::Brief, Reading::Alone);
    let (shared, database, start) = (cx.shared, cx.session.database, place.cursor());
    let seat = Rc::clone(cx.reader.seat());
    let mut found = KeyList::default();
    let mut noted = Ok(());
    let mut visited = 0;
    while visited < options.count && !place.is_over {
        let mut outcome = Ok(());
        cx.reader.section(&mut |section| {
            let walk = Walk::of(&*cx.session, shared, &*cx.worker, &seat);
            outcome = step(&walk, reading, &mut place, section, &options.filter).map(|stepped| {
                visited += stepped.count;
                for (entry, is_over) in stepped.accepted {
                    if is_over {
                        note_expired(cx.worker, shared, database, entry);
                    } else if noted.is_ok() {
                        noted = found.push(entry.key());
                    }
                }
            });
        });
        match outcome {
            Ok(()) => cx.session.pass_slot(shared, cx.worker.index),
            Err(waiting) if place.cursor() == start => return Err(Stop::wait(waiting)),
            // The entries so far are an answer too: the client asks for the rest.
            Err(_) => break,
        }
        noted.clone()?;
        cx.reader.quiescent();
    }
    cx.reply.array(2);
    let next = if place.is_over { 0 } else { place.cursor() };
    cx.reply.bulk(next.to_string());
    found.answer(cx.reply);
    Ok(())
}

/// Place at which a walk goes on.
struct WalkPosition {
    slot: usize,
    hash: u64,
    is_over: bool,
}

impl WalkPosition {
    /// Place of a cursor that a client sent, which may be any number.
    fn of(cursor: u64) -> WalkPosition {
        let slot = cursor % (1 << CURSOR_SLOT_BITS);
        WalkPosition { slot: slot as usize, hash: (cursor - slot) << 1, is_over: false }
    }

    /// As clients send it; 0 only at the beginning.
    fn cursor(&self) -> u64 {
        self.hash >> 1 | self.slot as u64
    }
}

/// Entries that a step of a walk met.
#[derive(Default)]
struct Stepped<'g> {
    count: usize,
    /// Entries that the filter accepts, and whether their time is over.
    accepted: Vec<(EntryRef<'g>, bool)>,
}

/// Reads one bucket and moves on.
///
/// # Errors
///
/// Event to wait for; then nothing of the bucket was visited.
fn step<'k: 'g, 'g>(
    walk: &Walk<'k, '_>,
    reading: Reading<'_, '_>,
    place: &mut WalkPosition,
    section: Section<'g>,
    filter: &Filter<'_>,
) -> Result<Stepped<'g>, WaitTarget> {
    let Walk { shared, database, .. } = *walk;
    let Some(slot) = shared.keyspace.next_nonempty_slot(database, place.slot, section) else {
        place.is_over = true;
        return Ok(Stepped::default());
    };
    if slot.index() != place.slot {
        (place.slot, place.hash) = (slot.index(), 0);
    }
    let (stepped, next) = read_slot(walk, slot, reading, |judge| {
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
    })?;
    match next {
        Some(hash) => place.hash = hash,
        None => (place.slot, place.hash) = (place.slot + 1, 0),
    }
    place.is_over = place.slot >= tidemill_store::limits::SLOT_COUNT;
    Ok(stepped)
}

pub(super) fn dbsize(cx: &mut SessionCx<'_, '_>) -> Outcome {
    let (shared, database) = (cx.shared, cx.session.database);
    let seat = Rc::clone(cx.reader.seat());
    let mut walk = cx.session.walk.take().unwrap_or_default();
    let start = walk.next;
    let mut outcome = Ok(());
    cx.reader.section(&mut |section| {
        if cx.alone.is_some() {
            walk.count = shared.keyspace.key_count(database, section);
        } else {
            let mut walker = Walk::of(&*cx.session, shared, &*cx.worker, &seat);
            outcome = count_on(&mut walk, &mut walker, section);
        }
    });
    if let Err(waiting) = outcome {
        if walk.next > start {
            cx.session.pass_slot(shared, cx.worker.index);
        }
        cx.session.walk = Some(walk);
        return Err(Stop::wait(waiting));
    }
    cx.reply.integer(walk.count as i64);
    Ok(())
}

/// Counts keys from where `walk` is to the last slot. Slot by slot, by their words: the sum of all
/// counts as they are would show what a change has removed and is about to add again.
///
/// # Errors
///
/// Event to wait for.
fn count_on(
    walk: &mut KeysWalk,
    walker: &mut Walk<'_, '_>,
    section: Section<'_>,
) -> Result<(), WaitTarget> {
    let (keyspace, database) = (&walker.shared.keyspace, walker.database);
    for slot in keyspace.nonempty_slots(database, walk.next, section) {
        let count = || keyspace.slot_key_count(database, slot, section);
        walk.count += u64::from(read_slot(walker, slot, Reading::Brief, |_| count())?);
        walk.next = slot.index() + 1;
        // It has not waited for the next one yet.
        walker.contender = None;
    }
    Ok(())
}

/// Attempts to find a random key that has not expired, before any key will do.
const RANDOM_ATTEMPTS_MAX: usize = 100;

/// Slots that are looked through in one read section when nothing was found at random.
const LOOKED_THROUGH_SLOTS: usize = 256;

pub(super) fn randomkey(cx: &mut SessionCx<'_, '_>) -> Outcome {
    let (shared, database) = (cx.shared, cx.session.database);
    let reading = cx.alone.and(cx.unit.as_deref()).map_or(Reading::Brief, Reading::Alone);
    let seat = Rc::clone(cx.reader.seat());
    let mut found: Option<Vec<u8>> = None;
    // While nothing expires, a key that has is better than none, as in Valkey.
    let keeps_expired = shared.is_paused() || cx.worker.settings.import_mode;
    let mut expired: Option<Vec<u8>> = None;
    for _ in 0..RANDOM_ATTEMPTS_MAX {
        let random = [cx.worker.random.next_u64(), cx.worker.random.next_u64()];
        let mut is_empty = false;
        let mut outcome: Outcome = Ok(());
        cx.reader.section(&mut |section| {
            let slots = &mut cx.worker.random_keys;
            is_empty = !slots.refresh(shared, database..database + 1, KeyClass::All, section);
            let Some((_, slot)) = slots.draw(shared, random[0], section) else { return };
            let walk = Walk::of(&*cx.session, shared, &*cx.worker, &seat);
            let drawn = random_entry(&walk, reading, (random, slot), section);
            outcome = drawn.map_err(Stop::wait).and_then(|drawn| {
                match drawn {
                    Some((entry, true)) if keeps_expired => {
                        expired = Some(memory::concat(&[entry.key()])?);
                    }
                    Some((entry, true)) => note_expired(cx.worker, shared, database, entry),
                    Some((entry, false)) => found = Some(memory::concat(&[entry.key()])?),
                    None => {}
                }
                Ok(())
            });
        });
        outcome?;
        if is_empty || found.is_some() {
            break;
        }
    }
    if found.is_none() {
        found = any_key(cx)?;
    }
    match found.or(expired) {
        Some(key) => cx.reply.bulk(&key),
        None => cx.reply.null(),
    }
    Ok(())
}

/// One of the buckets of a slot that was drawn by its share of the keys, then one of its entries,
/// and whether its time is over.
///
/// # Errors
///
/// Event to wait for.
fn random_entry<'k: 'g, 'g>(
    walk: &Walk<'k, '_>,
    reading: Reading<'_, '_>,
    (random, slot): ([u64; 2], SlotNumber),
    section: Section<'g>,
) -> Result<Option<(EntryRef<'g>, bool)>, WaitTarget> {
    let Walk { shared, database, .. } = *walk;
    let (keyspace, granularity) = (&shared.keyspace, CURSOR_GRANULARITY);
    read_slot(walk, slot, reading, |judge| {
        let mut entries = Vec::new();
        let visit = &mut |entry| entries.push(entry);
        keyspace.visit_bucket(database, slot, random[1], granularity, section, visit);
        let entry = *entries.get(random[0] as u32 as usize % entries.len().max(1))?;
        Some((entry, judge.is_over(entry)))
    })
}

/// The first key from a random slot on that has not expired. Every slot is asked, an empty one too:
/// it may be empty only within a change that is not over, and then it is no answer that there is no
/// key.
///
/// # Errors
///
/// Event to wait for, or no memory for the key.
fn any_key(cx: &mut SessionCx<'_, '_>) -> Result<Option<Vec<u8>>, Box<Stop>> {
    let (shared, database) = (cx.shared, cx.session.database);
    let reading = cx.alone.and(cx.unit.as_deref()).map_or(Reading::Brief, Reading::Alone);
    let seat = Rc::clone(cx.reader.seat());
    let slot_count = tidemill_store::limits::SLOT_COUNT;
    let first = cx.worker.random.next_u64() as usize % slot_count;
    for from in (0..slot_count).step_by(LOOKED_THROUGH_SLOTS) {
        let mut outcome = Ok(None);
        cx.reader.section(&mut |section| {
            let walk = Walk::of(&*cx.session, shared, &*cx.worker, &seat);
            let slots = (from..slot_count.min(from + LOOKED_THROUGH_SLOTS))
                .filter_map(|index| SlotNumber::from_index((first + index) % slot_count));
            for slot in slots {
                let key = read_slot(&walk, slot, reading, |judge| {
                    let mut entries = shared.keyspace.entries(database, slot, section);
                    let alive = entries.find(|entry| !judge.is_over(*entry));
                    alive.map(|entry| memory::concat(&[entry.key()])).transpose()
                });
                outcome = key.map_err(Stop::wait).and_then(|key| Ok(key?));
                if !matches!(outcome, Ok(None)) {
                    break;
                }
            }
        });
        if !matches!(outcome, Ok(None)) {
            return outcome;
        }
        cx.reader.quiescent();
    }
    Ok(None)
}
