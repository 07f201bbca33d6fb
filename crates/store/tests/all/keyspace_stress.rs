//! Readers without locks beside writers, on the real keyspace, under every flavour of RCU.
//!
//! Freed memory is overwritten at once, so that a reader who meets it fails. What must hold:
//!
//! - a key that stays is never missed, however much its table is resized around it, and a walk
//!   visits it;
//! - of one key, a reader never sees an older value after a newer one;
//! - of a change of two slots a reader sees neither a half nor a value that was overwritten within
//!   it;
//! - a read of two keys that nothing changed meanwhile saw both at one moment.
#![allow(unsafe_code, clippy::unwrap_used)]

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::tree_common::Random;
use tidemill_rcu::{Bp, Budget, Domain, Flavour, Limits, Mb, Memb, Qsbr, Signal};
use tidemill_store::entry::StringValue;
use tidemill_store::hash::Seed;
use tidemill_store::{
    Disposal, Encoding, EntryRef, EntrySpec, Heap, Keyspace, Kind, Member, NewValue, OwnedEntry,
    ReleaseObserver, Section, SlotLock, SlotNumber,
};

struct NoObserver;
impl ReleaseObserver for NoObserver {
    fn released(&self, _slot: SlotNumber, _clear: &dyn Fn()) {}
}

const RUN_TIME: Duration = Duration::from_millis(1500);
const STAYING_COUNT: usize = 300;
const PASSING_COUNT: usize = 6000;
const PAIR_KEYS: [&[u8]; 2] = [b"{left}", b"{right}"];
const SINGLE_KEYS: [&[u8]; 2] = [b"{first}", b"{second}"];
/// Marks a value that is overwritten before its change ends.
const INTERMEDIATE: u64 = 1 << 63;

fn staying_key(number: usize) -> Vec<u8> {
    format!("{{stress}}:stays:{number}").into_bytes()
}

fn passing_key(number: usize) -> Vec<u8> {
    format!("{{stress}}:passes:{number}").into_bytes()
}

struct World {
    keyspace: Keyspace<()>,
    ended: AtomicBool,
    resizes: AtomicU64,
    confirmed: AtomicU64,
    refused: AtomicU64,
}

impl World {
    fn join<F: Flavour>(&self, domain: &std::sync::Arc<Domain<F>>) -> Member<F> {
        // SAFETY: nothing of one test's keyspace is used with another's.
        unsafe { self.keyspace.join_beside(domain) }.expect("few threads")
    }

    fn has_seen_enough(&self) -> bool {
        let [resizes, confirmed] =
            [&self.resizes, &self.confirmed].map(|count| count.load(Ordering::Relaxed));
        resizes > 10 && confirmed > 1000
    }
}

/// One writer or reader, seldom more of its own than its random numbers.
struct Actor<'w> {
    world: &'w World,
    heap: Heap,
    random: Random,
}

/// A value is one number repeated, long enough now and then to be stored outside of its entry.
fn value_of(number: u64) -> Vec<u8> {
    let repeats = if number.is_multiple_of(16) { 200 } else { 4 };
    number.to_le_bytes().repeat(repeats)
}

fn number_of(entry: EntryRef<'_>) -> u64 {
    let Some(StringValue::Plain(bytes)) = entry.string() else { panic!("a string in one run") };
    let number = u64::from_le_bytes(bytes[..8].try_into().expect("eight bytes"));
    assert!(bytes == value_of(number), "a torn or freed value");
    number
}

impl<'w> Actor<'w> {
    fn lock(&self, slot: SlotNumber) -> SlotLock<'w, ()> {
        loop {
            match self.world.keyspace.try_lock(slot) {
                Some(lock) => return lock,
                None => std::thread::yield_now(),
            }
        }
    }

    fn set(&self, lock: &mut SlotLock<'_, ()>, key: &[u8], number: u64, section: Section<'_>) {
        let key_hash = self.world.keyspace.key_hash(key);
        let spec = EntrySpec {
            key,
            kind: Kind::String,
            encoding: Encoding::Raw,
            expires_at_ms: number.is_multiple_of(3).then_some(number),
            recency: 0,
            value: NewValue::String(&value_of(number)),
        };
        let entry = OwnedEntry::new(spec, &self.heap);
        match lock.find(0, key_hash, key, section) {
            Some(found) => {
                lock.replace(0, key_hash.hash, found, entry, Disposal::RetireValue, &self.heap);
            }
            None => lock.insert(0, key_hash.hash, entry, section, &self.heap),
        }
    }

    fn next_number(
        lock: &SlotLock<'_, ()>,
        world: &World,
        key: &[u8],
        section: Section<'_>,
    ) -> u64 {
        let found = lock.find(0, world.keyspace.key_hash(key), key, section);
        found.map_or(0, |found| number_of(found.entry)) + 1
    }

    /// Overwrites a staying key, and lets passing ones come and go in waves that resize the table
    /// both ways.
    fn churn(&mut self, waves: &mut (usize, bool), section: Section<'_>) {
        let staying = staying_key(self.random.below(STAYING_COUNT));
        let mut lock = self.lock(SlotNumber::of_key(&staying));
        let number = Self::next_number(&lock, self.world, &staying, section);
        self.set(&mut lock, &staying, number, section);
        for _ in 0..8 {
            let (count, rising) = waves;
            let retired = self.heap.retired().len();
            if *rising {
                self.set(&mut lock, &passing_key(*count), 1, section);
                *count += 1;
                *rising = *count < PASSING_COUNT;
            } else {
                *count -= 1;
                self.remove(&mut lock, &passing_key(*count), section);
                *rising = *count == 0;
            }
            let resized = self.heap.retired().len() - retired > usize::from(!*rising);
            self.world.resizes.fetch_add(u64::from(resized), Ordering::Relaxed);
        }
    }

    fn remove(&self, lock: &mut SlotLock<'_, ()>, key: &[u8], section: Section<'_>) {
        let key_hash = self.world.keyspace.key_hash(key);
        let Some(found) = lock.find(0, key_hash, key, section) else { return };
        lock.remove(0, key_hash.hash, found, Disposal::RetireValue, section, &self.heap);
    }

    /// Changes both keys of the pair as one, the first one twice.
    fn change_pair(&self, section: Section<'_>) {
        let mut slots = PAIR_KEYS.map(SlotNumber::of_key);
        slots.sort();
        let mut locks = slots.map(|slot| self.lock(slot));
        locks.iter_mut().for_each(SlotLock::mark_held);
        let lock_of = |locks: &mut [SlotLock<'w, ()>; 2], key: &[u8]| {
            locks
                .iter()
                .position(|lock| lock.slot() == SlotNumber::of_key(key))
                .expect("the key's slot is locked")
        };
        let left = lock_of(&mut locks, PAIR_KEYS[0]);
        let number = Self::next_number(&locks[left], self.world, PAIR_KEYS[0], section);
        for key in PAIR_KEYS {
            let index = lock_of(&mut locks, key);
            self.set(&mut locks[index], key, number | INTERMEDIATE, section);
            self.set(&mut locks[index], key, number, section);
        }
    }

    /// Changes two keys one after the other; the first is never behind the second.
    fn change_singles(&self, section: Section<'_>) {
        let mut lock = self.lock(SlotNumber::of_key(SINGLE_KEYS[0]));
        let number = Self::next_number(&lock, self.world, SINGLE_KEYS[0], section);
        self.set(&mut lock, SINGLE_KEYS[0], number, section);
        drop(lock);
        let mut lock = self.lock(SlotNumber::of_key(SINGLE_KEYS[1]));
        let present = Self::next_number(&lock, self.world, SINGLE_KEYS[1], section) - 1;
        if present < number {
            self.set(&mut lock, SINGLE_KEYS[1], number, section);
        }
    }

    /// A read of one key, by the rule; `None` when it does not count.
    fn read(&self, key: &[u8], section: Section<'_>) -> Option<Option<u64>> {
        let key_hash = self.world.keyspace.key_hash(key);
        let word = self.world.keyspace.word(key_hash.slot);
        let before = word.load();
        let found = self.world.keyspace.find(0, key_hash, key, section).map(number_of);
        let after = word.load_after();
        let counts =
            if found.is_some() { before.confirms_hit(after) } else { before.confirms_miss(after) };
        let count = if counts { &self.world.confirmed } else { &self.world.refused };
        count.fetch_add(1, Ordering::Relaxed);
        counts.then_some(found)
    }

    fn read_staying(&mut self, newest: &mut [u64], section: Section<'_>) {
        let index = self.random.below(STAYING_COUNT);
        if let Some(found) = self.read(&staying_key(index), section) {
            let number = found.expect("a key that stays was missed");
            assert!(number >= newest[index], "{number} after {}", newest[index]);
            newest[index] = number;
        }
    }

    fn read_pair(&mut self, section: Section<'_>) {
        let first = self.random.below(2);
        let Some(Some(one)) = self.read(PAIR_KEYS[first], section) else { return };
        assert!(one & INTERMEDIATE == 0, "a value that was overwritten within its change");
        let Some(Some(other)) = self.read(PAIR_KEYS[1 - first], section) else { return };
        assert!(other & INTERMEDIATE == 0, "a value that was overwritten within its change");
        assert!(other >= one, "half a change: {one}, then {other}");
    }

    fn read_singles(&self, section: Section<'_>) {
        let keyspace = &self.world.keyspace;
        let hashes = SINGLE_KEYS.map(|key| keyspace.key_hash(key));
        let words = hashes.map(|hash| keyspace.word(hash.slot));
        let before = words.map(|word| word.load());
        let found: [u64; 2] = std::array::from_fn(|index| {
            let found = keyspace.find(0, hashes[index], SINGLE_KEYS[index], section);
            number_of(found.expect("the pair stays"))
        });
        let after = words.map(|word| word.load_after());
        if before[0].is_unchanged(after[0]) && before[1].is_unchanged(after[1]) {
            assert!(found[0] >= found[1], "two moments: {found:?}");
        }
    }

    /// One step of a walk; at the end of a walk everything that stays was seen.
    fn walk(&self, at: &mut u64, seen: &mut HashSet<Vec<u8>>, section: Section<'_>) {
        let slot = SlotNumber::of_key(b"{stress}");
        let next = self.world.keyspace.visit_bucket(0, slot, *at, 1 << 14, section, &mut |entry| {
            if entry.key().starts_with(b"{stress}:stays") {
                seen.insert(entry.key().to_vec());
            }
        });
        *at = next.unwrap_or(0);
        if next.is_none() {
            assert_eq!(seen.len(), STAYING_COUNT, "a walk missed keys that stay");
            seen.clear();
        }
    }
}

fn write<F: Flavour>(world: &World, domain: &std::sync::Arc<Domain<F>>, seed: u64) {
    let mut reader = world.join(domain);
    let heap = reader.heap(Limits::default());
    let mut actor = Actor { world, heap, random: Random::new(seed) };
    let mut waves = (0, true);
    while !world.ended.load(Ordering::Relaxed) {
        {
            let guard = reader.enter();
            let section = guard.section();
            match actor.random.below(4) {
                0 => actor.change_pair(section),
                1 => actor.change_singles(section),
                _ => actor.churn(&mut waves, section),
            }
        }
        reader.quiescent();
        actor.heap.retired().reclaim(domain, Budget { items: 64, bytes: 1 << 20 });
    }
}

fn read<F: Flavour>(world: &World, domain: &std::sync::Arc<Domain<F>>, seed: u64) {
    let mut reader = world.join(domain);
    let heap = reader.heap(Limits::default());
    let mut actor = Actor { world, heap, random: Random::new(seed) };
    let mut newest = vec![0; STAYING_COUNT];
    let mut at = 0;
    let mut seen = HashSet::new();
    while !world.ended.load(Ordering::Relaxed) {
        {
            let guard = reader.enter();
            let section = guard.section();
            for _ in 0..8 {
                actor.read_staying(&mut newest, section);
                actor.read_pair(section);
                actor.read_singles(section);
                actor.walk(&mut at, &mut seen, section);
            }
        }
        reader.quiescent();
    }
}

fn stress<F: Flavour>() {
    let seed = std::env::var("SEED").map_or(1, |seed| seed.parse().expect("SEED is a number"));
    println!("SEED={seed}");
    // Without pauses between barriers: what is freed soon is missed soon.
    let domain = Domain::<F>::with_barrier_pause(Duration::ZERO).expect("the flavour is supported");
    let world = World {
        keyspace: Keyspace::new(1, Seed::new(seed, 2), NoObserver),
        ended: AtomicBool::new(false),
        resizes: AtomicU64::new(0),
        confirmed: AtomicU64::new(0),
        refused: AtomicU64::new(0),
    };
    {
        let reader = world.join(&domain);
        let heap = reader.heap(Limits::default());
        let actor = Actor { world: &world, heap, random: Random::new(seed) };
        let guard = reader.enter();
        for key in (0..STAYING_COUNT).map(staying_key) {
            actor.set(&mut actor.lock(SlotNumber::of_key(&key)), &key, 1, guard.section());
        }
        actor.change_pair(guard.section());
        actor.change_singles(guard.section());
        actor.heap.retired().reclaim(&domain, Budget::UNLIMITED);
    }
    std::thread::scope(|scope| {
        let (world, domain) = (&world, &domain);
        let mut threads = Vec::new();
        for index in 0..2 {
            threads.push(scope.spawn(move || write(world, domain, seed + index)));
            threads.push(scope.spawn(move || read(world, domain, seed + 10 + index)));
        }
        let start = Instant::now();
        // A thread that has failed does nothing more.
        while (start.elapsed() < RUN_TIME || !world.has_seen_enough())
            && threads.iter().all(|thread| !thread.is_finished())
        {
            std::thread::sleep(Duration::from_millis(10));
        }
        world.ended.store(true, Ordering::Relaxed);
        // One by one: ThreadSanitizer does not see the end of a scope.
        threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
    });
    let [resizes, confirmed, refused] = [&world.resizes, &world.confirmed, &world.refused]
        .map(|count| count.load(Ordering::Relaxed));
    println!("{}: {resizes} resizes, {confirmed} reads, {refused} refused", domain.description());
    assert!(world.has_seen_enough(), "too little happened");
}

#[test]
fn rules_hold_under_qsbr() {
    stress::<Qsbr>();
}

#[test]
fn rules_hold_under_memb() {
    stress::<Memb>();
}

#[test]
fn rules_hold_under_mb() {
    stress::<Mb>();
}

#[test]
fn rules_hold_under_bp() {
    stress::<Bp>();
}

#[test]
fn rules_hold_under_signal() {
    stress::<Signal>();
}
