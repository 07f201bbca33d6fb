//! The keyspace against a map, with all memory counted.
#![allow(unsafe_code)]

use std::collections::HashMap;

use crate::allocator::outstanding;
use crate::tree_common::Random;
use tidemill_rcu::{Domain, Mb};
use tidemill_store::Section;
use tidemill_store::entry::{SharedString, StringValue};
use tidemill_store::hash::Seed;
use tidemill_store::{
    Disposal, Encoding, EntryRef, EntrySpec, Heap, KeyHash, Keyspace, Kind, NewValue, OwnedEntry,
    ReleaseObserver, SlotNumber, TableShape,
};

/// Asserts that `test`, which stays on this thread, freed all it allocated.
fn without_leak(test: impl FnOnce()) {
    let before = outstanding();
    test();
    assert_eq!(outstanding(), before, "(bytes, pieces) leaked");
}

struct NoObserver;
impl ReleaseObserver for NoObserver {
    fn released(&self, slot: SlotNumber, _clear: &dyn Fn()) {
        panic!("nobody waits for {slot:?}");
    }
}

fn section<'g>() -> Section<'g> {
    // SAFETY: tests free garbage only when they hold no reference, see `Tested::free_garbage`.
    unsafe { Section::assume() }
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Stored {
    value: Vec<u8>,
    expires_at_ms: Option<u64>,
}

struct Tested {
    keyspace: Keyspace<()>,
    heap: Heap,
    model: HashMap<Vec<u8>, Stored>,
    /// Hashes with the places where the keys were once likely to stand.
    noted: HashMap<Vec<u8>, KeyHash>,
    noted_count: usize,
    steps: Steps,
}

/// Resize steps that a test has seen.
#[derive(Clone, Copy, Debug, Default)]
struct Steps {
    grown: usize,
    shrunk: usize,
    split: usize,
    merged: usize,
    emptied: usize,
}

impl Tested {
    fn new(seed: u64) -> Tested {
        Tested {
            keyspace: Keyspace::new(2, Seed::new(seed, !seed), NoObserver),
            heap: Heap::new(),
            model: HashMap::new(),
            noted: HashMap::new(),
            noted_count: 0,
            steps: Steps::default(),
        }
    }

    /// A key's hash, with a guess of its place that was right some changes ago or now, or none.
    fn key_hash(&mut self, key: &[u8]) -> KeyHash {
        self.noted_count += 1;
        if self.noted_count.is_multiple_of(3) {
            let mut key_hash = self.keyspace.key_hash(key);
            self.keyspace.prefetch_entries(0, [&mut key_hash].into_iter(), section());
            self.noted.insert(key.to_vec(), key_hash);
        }
        self.noted.get(key).copied().unwrap_or_else(|| self.keyspace.key_hash(key))
    }

    fn shape(&self, slot: SlotNumber) -> TableShape {
        self.keyspace.table_shape(0, slot, section())
    }

    fn set(&mut self, key: &[u8], stored: Stored, shared: bool) {
        let string = || SharedString::from_header_and_slice((), &stored.value);
        let entry = OwnedEntry::new(
            EntrySpec {
                key,
                kind: Kind::String,
                encoding: Encoding::Raw,
                expires_at_ms: stored.expires_at_ms,
                recency: stored.value.len() as u32,
                value: if shared {
                    NewValue::Shared(string())
                } else {
                    NewValue::String(&stored.value)
                },
            },
            &self.heap,
        );
        let key_hash = self.key_hash(key);
        let mut lock = self.keyspace.try_lock(key_hash.slot).expect("nobody else locks");
        match lock.find(0, key_hash, key, section()) {
            Some(found) => lock.replace(
                0,
                key_hash.hash,
                found,
                entry,
                [Disposal::RetireValue, Disposal::KeepValue][usize::from(shared)],
                &self.heap,
            ),
            None => lock.insert(0, key_hash.hash, entry, section(), &self.heap),
        }
        drop(lock);
        self.model.insert(key.to_vec(), stored);
    }

    /// `set` that also notes which resize step it took.
    fn set_observed(&mut self, key: &[u8], stored: Stored, shared: bool) {
        let slot = SlotNumber::of_key(key);
        let before = self.shape(slot);
        self.set(key, stored, shared);
        let after = self.shape(slot);
        self.steps.split += usize::from(before.segments > 0 && after.segments > before.segments);
        self.steps.grown += usize::from(
            after.segments == before.segments && after.home_buckets > before.home_buckets,
        );
    }

    fn remove(&mut self, key: &[u8]) {
        let key_hash = self.key_hash(key);
        let mut lock = self.keyspace.try_lock(key_hash.slot).expect("nobody else locks");
        let found = lock.find(0, key_hash, key, section());
        assert_eq!(found.is_some(), self.model.remove(key).is_some());
        if let Some(found) = found {
            lock.remove(0, key_hash.hash, found, Disposal::RetireValue, section(), &self.heap);
        }
    }

    fn remove_observed(&mut self, key: &[u8]) {
        let slot = SlotNumber::of_key(key);
        let before = self.shape(slot);
        self.remove(key);
        let after = self.shape(slot);
        self.steps.merged += usize::from(after.segments > 0 && after.segments < before.segments);
        self.steps.emptied += usize::from(after.segments == 0 && before.segments > 0);
        self.steps.shrunk += usize::from(
            after.segments == before.segments && after.home_buckets < before.home_buckets,
        );
    }

    fn check_key(&self, key: &[u8]) {
        self.check_key_by(self.keyspace.key_hash(key), key);
        if let Some(&noted) = self.noted.get(key) {
            self.check_key_by(noted, key);
        }
    }

    fn check_key_by(&self, key_hash: KeyHash, key: &[u8]) {
        let before = self.keyspace.word(key_hash.slot).load();
        let found = self.keyspace.find(0, key_hash, key, section());
        let after = self.keyspace.word(key_hash.slot).load_after();
        assert!(before.confirms_hit(after) && before.confirms_miss(after));
        assert_eq!(found.map(stored_of), self.model.get(key).cloned(), "{:?}", key.get(..20));
        if let Some(entry) = found {
            assert_eq!(entry.key(), key);
            assert_eq!(entry.recency(), self.model[key].value.len() as u32);
        }
    }

    /// Everything the keyspace says about itself, against the model.
    fn check(&self) {
        let mut per_slot: HashMap<SlotNumber, (u32, u32)> = HashMap::new();
        for (key, stored) in &self.model {
            self.check_key(key);
            let counts = per_slot.entry(SlotNumber::of_key(key)).or_default();
            counts.0 += 1;
            counts.1 += u32::from(stored.expires_at_ms.is_some());
        }
        let expiring: u32 = per_slot.values().map(|counts| counts.1).sum();
        assert_eq!(self.keyspace.key_count(0, section()), self.model.len() as u64);
        assert_eq!(self.keyspace.expiring_count(0, section()), u64::from(expiring));
        let mut from = 0;
        let mut nonempty = 0;
        while let Some(slot) = self.keyspace.next_nonempty_slot(0, from, section()) {
            from = slot.index() + 1;
            // One that has become empty is there once more.
            let (keys, expiring) = per_slot.get(&slot).copied().unwrap_or_default();
            nonempty += usize::from(keys > 0);
            assert_eq!(self.keyspace.slot_key_count(0, slot, section()), keys);
            assert_eq!(self.keyspace.has_expiring(0, slot, section()), expiring > 0);
            let entries = self.keyspace.entries(0, slot, section());
            assert_eq!(entries.count(), keys as usize);
            let entries = self.keyspace.expiring_entries(0, slot, section());
            assert_eq!(
                entries.filter(|entry| entry.expires_at_ms().is_some()).count(),
                expiring as usize
            );
            let entries = self.keyspace.expiring_entries(0, slot, section());
            assert_eq!(entries.count(), expiring as usize);
        }
        assert_eq!(nonempty, per_slot.len());
        assert_eq!(self.slots_to_walk().len(), per_slot.len());
    }

    fn slots_to_walk(&self) -> Vec<SlotNumber> {
        let next = |from| self.keyspace.next_nonempty_slot(0, from, section());
        std::iter::successors(next(0), |slot| next(slot.index() + 1)).collect()
    }

    fn free_garbage(&self) {
        // SAFETY: single-threaded, and no reference into the keyspace is held across this call.
        unsafe { self.heap.retired().free_all() };
    }

    /// Live bytes are exactly what entries, tables and the database's fixed part take.
    fn finish(mut self) {
        self.check();
        self.free_garbage();
        let domain = Domain::<Mb>::new().expect("mb needs nothing of the system");
        // SAFETY: nothing of this keyspace is used with another.
        let member = unsafe { self.keyspace.join_beside(&domain) }.expect("the first member");
        let alone =
            self.keyspace.close_gate(member.seat(), || false).expect("nobody else is there");
        let detached = self.keyspace.detach(0, &alone, &self.heap);
        let Some(detached) = detached else { return assert_eq!(self.heap.live_bytes(), 0) };
        assert_eq!(detached.key_count, self.model.len() as u64);
        assert_eq!(self.heap.live_bytes(), detached.bytes as i64);
        assert!(self.keyspace.take_unreachable().is_empty(), "its grace period is not over");
        self.free_garbage();
        let unreachable = self.keyspace.take_unreachable();
        assert!(matches!(&unreachable[..], [only] if only.detached() == detached));
        drop(unreachable);
        drop(alone);
        drop(member);
        self.model.clear();
        self.check();
    }
}

fn stored_of(entry: EntryRef<'_>) -> Stored {
    let Some(StringValue::Plain(value)) = entry.string() else { panic!("only strings are stored") };
    Stored { value: value.to_vec(), expires_at_ms: entry.expires_at_ms() }
}

fn random_stored(random: &mut Random) -> Stored {
    let length = match random.below(10) {
        0 => 0,
        1..=6 => random.below(100),
        7 | 8 => 1000 + random.below(50),
        _ => random.below(5000),
    };
    let value = vec![random.below(256) as u8; length];
    let expires_at_ms = (random.below(3) == 0).then(|| random.next());
    Stored { value, expires_at_ms }
}

fn random_steps(seed: u64, steps: usize, key_of: impl Fn(usize) -> Vec<u8>, key_count: usize) {
    println!("seed {seed}");
    without_leak(|| {
        let mut random = Random::new(seed);
        let mut tested = Tested::new(seed);
        for step in 0..steps {
            let key = key_of(random.below(key_count));
            match random.below(8) {
                0..=3 => {
                    let stored = random_stored(&mut random);
                    tested.set_observed(&key, stored, random.below(4) == 0);
                }
                4 | 5 => tested.remove_observed(&key),
                _ => tested.check_key(&key),
            }
            if step % 1000 == 0 {
                tested.check();
                tested.free_garbage();
            }
        }
        tested.finish();
    });
}

#[test]
fn spread_keys_match_the_model() {
    random_steps(1, 40_000, |number| format!("key:{number}").into_bytes(), 5000);
}

#[test]
fn keys_of_few_tags_match_the_model() {
    random_steps(2, 30_000, |number| format!("{{tag{}}}:{number}", number % 3).into_bytes(), 3000);
}

/// Two keys of one slot with the same tag and home bucket in its table, while that has one segment.
fn keys_alike(tested: &Tested) -> [Vec<u8>; 2] {
    let mut by_tag: HashMap<u64, Vec<u8>> = HashMap::new();
    for number in 0.. {
        let key = format!("{{tag}}:{number}").into_bytes();
        let tag = tested.keyspace.key_hash(&key).hash >> 48;
        if let Some(other) = by_tag.insert(tag, key.clone()) {
            return [other, key];
        }
    }
    unreachable!("there are 65,536 tags");
}

#[test]
fn a_likely_place_stands_for_no_other_key() {
    let mut tested = Tested::new(6);
    let [present, absent] = keys_alike(&tested);
    tested.set(&present, Stored { value: vec![1], expires_at_ms: None }, false);
    for key in [&present, &absent] {
        let mut key_hash = tested.keyspace.key_hash(key);
        tested.keyspace.prefetch_entries(0, [&mut key_hash].into_iter(), section());
        tested.check_key_by(key_hash, key);
        let lock = tested.keyspace.try_lock(key_hash.slot).expect("nobody else locks");
        let found = lock.find(0, key_hash, key, section());
        assert_eq!(found.map(|found| found.entry.key()), (key == &present).then_some(&present[..]));
    }
    tested.finish();
}

#[test]
fn empty_and_very_long_keys_match_the_model() {
    const PACKED_BYTES_MAX: usize = (1 << 21) - 1;
    let key_of = |number: usize| match number {
        0 => Vec::new(),
        1 => vec![b'x'; PACKED_BYTES_MAX],
        2 => vec![b'x'; PACKED_BYTES_MAX + 1],
        3 => vec![b'x'; PACKED_BYTES_MAX + 2],
        4 => vec![b'y'; 3 * PACKED_BYTES_MAX],
        _ => vec![0; number],
    };
    random_steps(3, 300, key_of, 8);
}

#[test]
fn one_tag_with_200_000_keys_takes_every_resize_step() {
    without_leak(|| {
        let mut tested = Tested::new(4);
        let key_of = |number: u32| format!("{{tag}}:{number}").into_bytes();
        let stored = |number: u32| Stored {
            value: number.to_le_bytes().to_vec(),
            expires_at_ms: number.is_multiple_of(10).then_some(u64::from(number)),
        };
        const COUNT: u32 = if cfg!(miri) { 700 } else { 200_000 };
        for number in 0..COUNT {
            // Looking at the shape takes time in proportion to it.
            if number < 5000 || number.is_multiple_of(1000) {
                tested.set_observed(&key_of(number), stored(number), false);
            } else {
                tested.set(&key_of(number), stored(number), false);
            }
            if number.is_multiple_of(10_000) {
                tested.free_garbage();
            }
        }
        tested.check();
        let full = tested.shape(SlotNumber::of_key(b"{tag}"));
        assert!(cfg!(miri) || full.segments > 200 && full.directories == 1, "{full:?}");
        for number in 0..COUNT {
            if number + 5000 > COUNT {
                tested.remove_observed(&key_of(number));
            } else {
                tested.remove(&key_of(number));
            }
            if number.is_multiple_of(10_000) {
                tested.free_garbage();
            }
            if number.is_multiple_of(50_000) {
                tested.check();
            }
        }
        let Steps { grown, shrunk, split, merged, emptied, .. } = tested.steps;
        let taken = [grown, split, shrunk, merged, emptied];
        assert!(taken.iter().all(|&count| count > 0), "{:?}", tested.steps);
        assert_eq!(tested.shape(SlotNumber::of_key(b"{tag}")), TableShape::default());
        tested.finish();
    });
}

#[test]
fn directories_nest_beyond_their_limit_and_collapse_again() {
    const COUNT: u32 = 2_000_000;
    without_leak(|| {
        let mut tested = Tested::new(6);
        let key_of = |number: u32| format!("{{tag}}:{number}").into_bytes();
        let slot = SlotNumber::of_key(b"{tag}");
        for number in 0..COUNT {
            let stored = Stored { value: Vec::new(), expires_at_ms: None };
            tested.set(&key_of(number), stored, false);
            // The model would take more memory than the keyspace.
            tested.model.clear();
            tested.free_garbage();
        }
        let shape = tested.shape(slot);
        assert!(shape.segments > 4096 && shape.directories > 100, "{shape:?}");
        let mut visited = 0;
        let mut next = Some(0);
        while let Some(from) = next {
            next = tested.keyspace.visit_bucket(0, slot, from, 1, section(), &mut |_| visited += 1);
            assert!(next.is_none_or(|next| next > from), "{from} to {next:?}: no end");
        }
        assert_eq!(visited, COUNT);
        for number in 0..COUNT {
            let key = key_of(number);
            let stored = Stored { value: Vec::new(), expires_at_ms: None };
            tested.model.insert(key.clone(), stored);
            tested.check_key(&key);
            tested.remove(&key);
            tested.free_garbage();
        }
        assert_eq!(tested.shape(slot), TableShape::default());
        tested.finish();
    });
}

#[test]
fn a_found_entry_is_refused_after_a_change() {
    let mut tested = Tested::new(5);
    let stored = Stored { value: b"value".to_vec(), expires_at_ms: None };
    tested.set(b"key", stored, false);
    let key_hash = tested.keyspace.key_hash(b"key");
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let mut lock = tested.keyspace.try_lock(key_hash.slot).unwrap();
        let found = lock.find(0, key_hash, b"key", section()).unwrap();
        for _ in 0..2 {
            let heap = &tested.heap;
            lock.remove(0, key_hash.hash, found, Disposal::RetireValue, section(), heap);
        }
    }));
    let message = *result.unwrap_err().downcast::<String>().unwrap();
    assert!(message.contains("before the next change"), "{message}");
    tested.model.clear();
    tested.finish();
}

#[test]
fn a_walk_passes_no_slot_by_that_a_change_has_emptied_for_a_moment() {
    let mut tested = Tested::new(7);
    let stored = Stored { value: b"value".to_vec(), expires_at_ms: None };
    tested.set(b"key", stored.clone(), false);
    let slot = SlotNumber::of_key(b"key");
    let key_hash = tested.keyspace.key_hash(b"key");
    let remove = |lock: &mut tidemill_store::SlotLock<'_, ()>| {
        let found = lock.find(0, key_hash, b"key", section()).expect("it is there");
        lock.remove(0, key_hash.hash, found, Disposal::RetireValue, section(), &tested.heap);
    };
    let mut lock = tested.keyspace.try_lock(slot).expect("nobody has it");
    lock.mark_held();
    remove(&mut lock);
    assert_eq!(tested.slots_to_walk(), [slot], "it is emptied and held");
    let entry = OwnedEntry::new(
        EntrySpec {
            key: b"key",
            kind: Kind::String,
            encoding: Encoding::Raw,
            expires_at_ms: None,
            recency: stored.value.len() as u32,
            value: NewValue::String(&stored.value),
        },
        &tested.heap,
    );
    lock.insert(0, key_hash.hash, entry, section(), &tested.heap);
    drop(lock);
    assert_eq!(tested.slots_to_walk(), [slot]);
    remove(&mut tested.keyspace.try_lock(slot).expect("nobody has it"));
    assert_eq!(tested.slots_to_walk(), [slot], "a walk has yet to find it empty");
    assert_eq!(tested.slots_to_walk(), []);
    tested.model.clear();
    tested.finish();
}

#[test]
fn a_discarded_entry_leaves_no_live_bytes() {
    without_leak(|| {
        let heap = Heap::new();
        for length in [0, 10, 5000] {
            let value = vec![0; length];
            let entry = OwnedEntry::new(
                EntrySpec {
                    key: b"key",
                    kind: Kind::String,
                    encoding: Encoding::Raw,
                    expires_at_ms: Some(1),
                    recency: 0,
                    value: NewValue::String(&value),
                },
                &heap,
            );
            assert!(heap.live_bytes() > 0);
            entry.discard(&heap);
            assert_eq!(heap.live_bytes(), 0);
        }
    });
}

#[test]
fn a_walk_visits_all_that_stays() {
    for granularity in [1, 1 << 14] {
        for round in 0..12 {
            without_leak(|| walk(100 * granularity + round, granularity, 1 << (round + 3)));
        }
    }
}

/// Walks over one slot while keys come and go between the steps, in numbers that make the table
/// resize.
fn walk(seed: u64, granularity: u64, stay_count: usize) {
    let mut random = Random::new(seed);
    let mut tested = Tested::new(seed);
    let stored = || Stored { value: Vec::new(), expires_at_ms: None };
    let staying = |number: usize| format!("{{tag}}:stays:{number}").into_bytes();
    let passing = |number: usize| format!("{{tag}}:passes:{number}").into_bytes();
    for number in 0..stay_count {
        tested.set(&staying(number), stored(), false);
    }
    let slot = SlotNumber::of_key(b"{tag}");
    let mut seen: HashMap<Vec<u8>, usize> = HashMap::new();
    let mut next = Some(0);
    let mut present = 0;
    let mut shapes = 0;
    while let Some(from) = next {
        next = tested.keyspace.visit_bucket(0, slot, from, granularity, section(), &mut |entry| {
            *seen.entry(entry.key().to_vec()).or_default() += 1;
        });
        if let Some(next) = next {
            assert!(next > from && next.is_multiple_of(granularity), "{from} to {next}");
        }
        let target = random.below(stay_count * 8);
        let before = tested.shape(slot);
        for _ in 0..50 {
            if present < target {
                tested.set(&passing(present), stored(), false);
                present += 1;
            } else if present > 0 {
                present -= 1;
                tested.remove(&passing(present));
            }
        }
        shapes += usize::from(tested.shape(slot) != before);
        tested.free_garbage();
    }
    assert!(shapes > 0, "no resize between the steps");
    for number in 0..stay_count {
        assert!(seen.contains_key(&staying(number)), "seed {seed}: {number} was not visited");
    }
    drop(seen);
    tested.finish();
}
