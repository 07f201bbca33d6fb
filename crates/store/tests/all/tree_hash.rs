//! Hashes against a map, step by step.
#![allow(unsafe_code)]

use std::collections::{BTreeMap, HashSet};

use crate::tree_common::{Random, free_retired, section};
use tidemill_store::hash::Seed;
use tidemill_store::value::Repeated;
use tidemill_store::value::hash::{Entry, GatheredFields, Hash, HashEdit};
use tidemill_store::{Heap, Root};

type Values = BTreeMap<Vec<u8>, (Vec<u8>, Option<u64>)>;

struct Tested {
    heap: Heap,
    seed: Seed,
    root: Option<Root>,
    values: Values,
}

impl Tested {
    fn new(seed: u64) -> Tested {
        Tested { heap: Heap::new(), seed: Seed::new(seed, 7), root: None, values: Values::new() }
    }

    fn edit<T>(&mut self, change: impl FnOnce(&mut HashEdit<'_>, &mut Values) -> T) -> T {
        // SAFETY: the root is the current version, and this is the only editor.
        let mut edit = unsafe { HashEdit::new(self.root, &self.seed, &self.heap) };
        let outcome = change(&mut edit, &mut self.values);
        assert_eq!(edit.len(), self.values.len() as u64);
        let built = edit.finish();
        self.root = built.root();
        // SAFETY: the new root takes the place of the old one.
        unsafe { built.retire_replaced() };
        // SAFETY: no reader is left.
        unsafe { free_retired(&self.heap) };
        outcome
    }

    fn hash(&self) -> Option<Hash<'_>> {
        // SAFETY: the root is live as long as `self` is borrowed.
        self.root.map(|root| unsafe { Hash::from_root(root, &self.seed, section(self)) })
    }

    fn check(&self) {
        let Some(hash) = self.hash() else {
            assert!(self.values.is_empty());
            assert_eq!(self.heap.live_bytes(), 0);
            return;
        };
        hash.check();
        assert_eq!(self.heap.live_bytes() as u64, hash.bytes());
        assert_eq!(hash.len(), self.values.len() as u64);
        let entries: Values = hash
            .iter()
            .map(|entry| (entry.field.to_vec(), (entry.value.to_vec(), entry.expires_at_ms)))
            .collect();
        assert_eq!(entries, self.values);
        let first = self.values.values().filter_map(|&(_, expiry)| expiry).min();
        assert_eq!(hash.first_expiry(), first);
        let last = self.values.values().map(|&(_, expiry)| expiry.unwrap_or(u64::MAX)).max();
        assert_eq!(hash.last_expiry(), last.filter(|&at_ms| at_ms != u64::MAX));
    }

    fn check_reads(&self, random: &mut Random) {
        let Some(hash) = self.hash() else { return };
        for (field, (value, expiry)) in &self.values {
            let found = hash.get(field).expect("the field is there");
            assert_eq!((found.value, found.expires_at_ms), (value.as_slice(), *expiry));
        }
        assert!(hash.get(b"never there").is_none());
        for (index, entry) in hash.iter().enumerate() {
            assert_eq!(hash.nth(index as u64), Some(entry));
        }
        assert_eq!(hash.nth(hash.len()), None);
        let now_ms = random.below(1200) as u64;
        let mut due = HashSet::new();
        hash.due(now_ms, |entry| due.insert(entry.field.to_vec()));
        let is_due = |expiry: &Option<u64>| expiry.is_some_and(|at_ms| at_ms <= now_ms);
        let expected = self.values.iter().filter(|(_, (_, expiry))| is_due(expiry));
        assert_eq!(due, expected.map(|(field, _)| field.clone()).collect());
    }
}

impl Drop for Tested {
    fn drop(&mut self) {
        if let Some(root) = self.root.take() {
            // SAFETY: no other code knows the root.
            unsafe { root.retire(&self.heap) };
        }
        assert!(std::thread::panicking() || self.heap.live_bytes() == 0);
        // SAFETY: no reader is left.
        unsafe { free_retired(&self.heap) };
    }
}

fn field(random: &mut Random, bound: usize) -> Vec<u8> {
    let number = random.below(bound);
    let mut field = format!("field-{number}").into_bytes();
    if number.is_multiple_of(97) {
        field.resize(100 + number % 1500, b'x');
    }
    field
}

fn random_change(
    edit: &mut HashEdit<'_>,
    values: &mut Values,
    random: &mut Random,
    bound: usize,
    removals: usize,
) {
    let field = field(random, bound);
    let expiry = (random.below(4) == 0).then(|| random.below(1000) as u64);
    match random.below(10) {
        choice if choice < removals => {
            assert_eq!(edit.remove(&field), values.remove(&field).is_some());
        }
        9 => {
            let present = values.get_mut(&field);
            assert_eq!(edit.set_expiry(&field, expiry), present.is_some());
            if let Some(value) = present {
                value.1 = expiry;
            }
        }
        _ => {
            let value = random.element();
            let created = values.insert(field.clone(), (value.clone(), expiry)).is_none();
            assert_eq!(edit.set(&field, &value, expiry), created);
        }
    }
    let found = edit.get(&field).map(|found| (found.value.to_vec(), found.expires_at_ms));
    assert_eq!(found.as_ref(), values.get(&field));
}

#[test]
fn a_hash_equals_a_map_after_any_edits() {
    for seed in 0..80 {
        let mut random = Random::new(seed);
        let mut tested = Tested::new(seed);
        let bound = [6, 40, 300, 3000][random.below(4)];
        for step in 0..100 {
            let changes = 1 + random.below(25);
            let removals = if step < 60 { 2 } else { 7 };
            tested.edit(|edit, values| {
                for _ in 0..changes {
                    random_change(edit, values, &mut random, bound, removals);
                }
            });
            tested.check();
            if step % 10 == 0 {
                tested.check_reads(&mut random);
            }
        }
        let fields: Vec<_> = tested.values.keys().cloned().collect();
        for field in fields {
            tested.edit(|edit, values| {
                values.remove(&field);
                assert!(edit.remove(&field));
            });
            tested.check();
        }
    }
}

#[test]
fn a_filled_hash_equals_its_fields_and_can_be_changed() {
    for seed in 0..60 {
        let mut random = Random::new(seed);
        let mut tested = Tested::new(seed);
        let count = [1, 2, 17, 50, 400, 3000, 30_000][random.below(7)];
        let expiring_share = [0, 0, 50, 100][random.below(4)];
        let mut values = Values::new();
        for _ in 0..count {
            let expires = random.below(100) < expiring_share;
            let expiry = expires.then(|| random.below(1000) as u64);
            values.insert(field(&mut random, 50_000), (random.element(), expiry));
        }
        let mut fields: Vec<_> = values.iter().collect();
        (1..fields.len()).for_each(|index| fields.swap(index, random.below(index + 1)));
        let mut gathered = GatheredFields::default();
        fields.iter().for_each(|(field, value)| gathered.push(entry_of(field, value)));
        tested.edit(|edit, model| {
            let mut twice = gathered.clone();
            let (field, value) = fields[random.below(fields.len())];
            twice.push(entry_of(field, value));
            assert_eq!(edit.fill(&twice), Err(Repeated(fields.len())));
            edit.fill(&gathered).expect("each field is there once");
            model.extend(values.iter().map(|(field, value)| (field.clone(), value.clone())));
        });
        tested.check();
        tested.check_reads(&mut random);
        for _ in 0..30 {
            tested.edit(|edit, values| {
                for _ in 0..20 {
                    random_change(edit, values, &mut random, 50_000, 4);
                }
            });
            tested.check();
        }
    }
}

fn entry_of<'e>(field: &'e Vec<u8>, (value, expiry): &'e (Vec<u8>, Option<u64>)) -> Entry<'e> {
    Entry { field, value, expires_at_ms: *expiry }
}

#[test]
fn a_hash_knows_when_the_last_of_its_fields_expires() {
    for seed in 0..8 {
        let mut random = Random::new(seed);
        let mut tested = Tested::new(seed);
        for step in 0..250_u64 {
            tested.edit(|edit, values| {
                for _ in 0..8 {
                    // Few fields do not expire, in the middle none: the last one to go changes what
                    // is known.
                    let expires = random.below(100) > 0 || (100..200).contains(&step);
                    let expiry = expires.then(|| random.below(1000) as u64);
                    let field = field(&mut random, 400);
                    if random.below(4) == 0 || expiry.is_none() && step > 150 {
                        assert_eq!(edit.remove(&field), values.remove(&field).is_some());
                    } else {
                        edit.set(&field, b"value", expiry);
                        values.insert(field, (b"value".to_vec(), expiry));
                    }
                }
                let lasting = values.iter().find(|(_, (_, expiry))| expiry.is_none());
                if let Some(field) = lasting.map(|(field, _)| field.clone()).filter(|_| step > 99) {
                    edit.remove(&field);
                    values.remove(&field);
                }
            });
            tested.check();
        }
    }
}

#[test]
fn a_hash_of_one_leaf_keeps_the_order_of_arrival() {
    let mut tested = Tested::new(1);
    let fields = |tested: &Tested| -> Vec<Vec<u8>> {
        tested.hash().into_iter().flat_map(|hash| hash.iter()).map(|e| e.field.to_vec()).collect()
    };
    for name in ["d", "a", "c", "b"] {
        tested.edit(|edit, values| {
            edit.set(name.as_bytes(), b"1", None);
            values.insert(name.into(), (b"1".to_vec(), None));
        });
    }
    tested.edit(|edit, _| edit.set(b"a", b"a longer value", None));
    assert_eq!(fields(&tested), [b"d", b"a", b"c", b"b"]);
    tested.edit(|edit, _| {
        edit.remove(b"a");
        edit.set(b"a", b"", None)
    });
    assert_eq!(fields(&tested), [b"d", b"c", b"b", b"a"]);
}

#[test]
fn a_scan_visits_staying_fields_whatever_happens_to_the_rest() {
    for seed in 0..60 {
        let mut random = Random::new(seed);
        let mut tested = Tested::new(seed);
        let kept = [3, 30, 400, 2000][random.below(4)];
        let others = [0, 100, 2000][random.below(3)];
        tested.edit(|edit, values| {
            for number in 0..kept {
                let field = format!("kept-{number}").into_bytes();
                edit.set(&field, b"", None);
                values.insert(field, (Vec::new(), None));
            }
        });
        let mut missing: HashSet<Vec<u8>> = tested.values.keys().cloned().collect();
        let mut cursor = 0;
        let mut calls = 0;
        loop {
            let hash = tested.hash().expect("something is kept");
            cursor = hash.scan(cursor, 1 + random.below(30), |entry| {
                missing.remove(entry.field);
            });
            calls += 1;
            if cursor == 0 {
                break;
            }
            let removals = random.below(10);
            tested.edit(|edit, values| {
                for _ in 0..random.below(200) {
                    random_change(edit, values, &mut random, others, removals);
                }
            });
        }
        assert!(missing.is_empty(), "seed {seed}: {} missed", missing.len());
        assert!(kept < 100 || calls > 2);
        tested.check();
    }
}

#[test]
fn runs_of_neighbours_come_and_go_in_a_tree_of_three_levels() {
    let mut random = Random::new(17);
    let mut tested = Tested::new(17);
    let mut next = 0_u64;
    let mut add = |tested: &mut Tested, count: u64| {
        tested.edit(|edit, values| {
            for number in next..next + count {
                let field = number.to_be_bytes().to_vec();
                edit.set(&field, &[b'v'; 100], None);
                values.insert(field, (vec![b'v'; 100], None));
            }
        });
        next += count;
    };
    add(&mut tested, 20_000);
    while tested.values.len() > 500 {
        // Neighbours in the order of the tree: whole leaves and whole inner nodes go.
        let start = random.below(tested.values.len()) as u64;
        let count = random.below(1200);
        let hash = tested.hash().expect("some are left");
        let neighbours = (start..hash.len()).map_while(|index| hash.nth(index)).take(count);
        let run: Vec<_> = neighbours.map(|entry| entry.field.to_vec()).collect();
        tested.edit(|edit, values| {
            for field in &run {
                assert!(edit.remove(field));
                values.remove(field);
            }
        });
        add(&mut tested, random.below(300) as u64);
        tested.check();
    }
    tested.check_reads(&mut random);
}
