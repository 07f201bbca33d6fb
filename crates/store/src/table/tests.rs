//! Known bits of hashes, while a table grows, shrinks and grows again.
#![allow(unsafe_code)]

use crate::member::Section;

use super::Table;
use super::segment::entry_of;
use crate::entry::{EntryRef, EntrySpec, NewValue, OwnedEntry};
use crate::hash::{Seed, hash};
use crate::heap::Heap;
use crate::key::KeyHash;
use crate::slot::SlotNumber;
use crate::value::{Encoding, Kind};

/// Keys that a split may hash. On average it hashes five of some 600.
const HASHED_KEYS_MAX: usize = 40;

fn section<'g>() -> Section<'g> {
    // SAFETY: the tests are single-threaded and free garbage only between operations.
    unsafe { Section::assume() }
}

struct Tested {
    table: Table,
    seed: Seed,
    heap: Heap,
}

impl Tested {
    fn new() -> Tested {
        Tested { table: Table::default(), seed: Seed::new(1, 2), heap: Heap::new() }
    }

    fn hash(&self, number: usize) -> u64 {
        hash(&self.seed, key(number).as_bytes())
    }

    fn entry(&self, number: usize) -> EntryRef<'static> {
        let key = key(number);
        let spec = EntrySpec {
            key: key.as_bytes(),
            kind: Kind::String,
            encoding: Encoding::Raw,
            expires_at_ms: None,
            recency: 0,
            value: NewValue::String(b""),
        };
        let pointer = OwnedEntry::new(spec, &self.heap).into_pointer();
        // SAFETY: the table holds it until the end of the test, or until `remove` frees it.
        unsafe { EntryRef::from_pointer(pointer) }
    }

    fn insert(&self, number: usize) {
        let hash = self.hash(number);
        let position = self.table.vacancy(hash, &self.seed, section(), &self.heap);
        position.fill(hash, self.entry(number));
        self.free_garbage();
    }

    /// Takes an entry out; nothing is freed.
    fn take(&self, number: usize) -> EntryRef<'static> {
        let hash = self.hash(number);
        let key_hash = KeyHash::new(SlotNumber::default(), hash);
        let found = self.table.find(key_hash, key(number).as_bytes(), section());
        let (entry, position) = found.expect("it was inserted");
        position.clear();
        self.table.tidy(hash, &self.seed, section(), &self.heap);
        entry
    }

    fn remove(&self, number: usize) {
        let entry = self.take(number);
        // SAFETY: no reference to it is left.
        unsafe { crate::entry::free_whole(entry) };
        self.free_garbage();
    }

    fn free_garbage(&self) {
        // SAFETY: no reference into the table is held across this call.
        unsafe { self.heap.retired().free_all() };
    }

    /// Asserts that the known bits are right, and that splits need few others.
    fn check(&self) {
        for (_, segment) in self.table.segments(section()) {
            let mut hashed_count = 0;
            for (word, known) in segment.known_entries() {
                let entry = entry_of(word, section()).expect("empty places are left out");
                assert!(known.has_tag(segment.depth()));
                assert!(known.range().contains(&hash(&self.seed, entry.key())));
                hashed_count += usize::from(!known.has_tag(segment.depth() + 1));
            }
            assert!(
                hashed_count <= HASHED_KEYS_MAX,
                "a split hashes {hashed_count} of {} keys at depth {}",
                segment.entry_count(),
                segment.depth(),
            );
        }
    }

    fn finish(mut self) {
        self.check();
        // SAFETY: no reference to the table's content is left.
        unsafe { self.table.free() };
    }
}

fn key(number: usize) -> String {
    format!("key:{number}")
}

#[test]
fn a_split_hashes_few_keys() {
    let tested = Tested::new();
    let mut next_check = 300;
    for number in 0..200_000 {
        tested.insert(number);
        if number == next_check {
            tested.check();
            next_check += next_check / 5;
        }
    }
    tested.finish();
}

#[test]
fn a_table_that_shrank_and_grows_again_hashes_few_keys() {
    let tested = Tested::new();
    (0..60_000).for_each(|number| tested.insert(number));
    for round in 0..3 {
        (0..60_000).filter(|number| number % 50 != round).for_each(|number| tested.remove(number));
        tested.check();
        (0..60_000).filter(|number| number % 50 != round).for_each(|number| tested.insert(number));
        tested.check();
    }
    tested.finish();
}

/// The walk has read the first segment when that is merged with the next one.
#[test]
fn a_walk_meets_entries_once_beside_a_merge() {
    const COUNT: usize = 1200;
    let tested = Tested::new();
    (0..COUNT).for_each(|number| tested.insert(number));
    let segment_count = || tested.table.segments(section()).count();
    let mut merged_count = 0;
    for number in 0..COUNT {
        let before = segment_count();
        let (_, first) = tested.table.segments(section()).next().expect("there are entries");
        let first_count = first.entry_count();
        let mut walk = tested.table.entries(&tested.seed, section());
        let mut met: Vec<_> = walk.by_ref().take(first_count).map(EntryRef::pointer).collect();
        let gone = tested.take(number);
        let mut is_met_twice = false;
        for entry in walk {
            is_met_twice |= met.contains(&entry.pointer());
            met.push(entry.pointer());
        }
        assert!(!is_met_twice, "beside the removal of key {number}");
        let left = COUNT - number - 1;
        assert!((left..=left + 1).contains(&met.len()), "{} of {left}", met.len());
        let is_merged = before > segment_count();
        merged_count += usize::from(is_merged);
        // SAFETY: no reference to it is left.
        unsafe { crate::entry::free_whole(gone) };
        tested.free_garbage();
    }
    assert!(merged_count > 0, "nothing was merged");
    tested.finish();
}
