//! Nanoseconds of writes to one large collection, as commands make them: lock, look the key up,
//! edit, publish, unlock, free.
//!
//! `cargo bench -p tidemill-store --bench writes [-- name-part [operations]]`. Each figure is the
//! median of rounds, each of which runs all operations in turn. With a number of operations, only
//! those run, once: for `valgrind --tool=callgrind --toggle-collect='*measured*'`.
#![allow(unsafe_code)]

use std::hint::black_box;
use std::time::Instant;

use tidemill_store::hash::Seed;
use tidemill_store::value::hash::{Hash, HashEdit};
use tidemill_store::value::list::List;
use tidemill_store::value::sorted_set::SortedSet;
use tidemill_store::{
    Collection, Encoding, Heap, Keyspace, ReleaseObserver, Section, SlotNumber, TreeSpec,
};

const ROUND_COUNT: usize = 15;
const PER_ROUND: usize = 4000;
const SIZES: [(&str, usize); 3] = [("100", 100), ("10^4", 10_000), ("10^6", 1_000_000)];
const KEY: &[u8] = b"collection";

struct NoObserver;
impl ReleaseObserver for NoObserver {
    fn released(&self, _slot: SlotNumber, _clear: &dyn Fn()) {}
}

/// A keyspace with one key, and its writer's memory.
struct Subject {
    keyspace: Keyspace<()>,
    heap: Heap,
}

impl Subject {
    fn new() -> Subject {
        Subject { keyspace: Keyspace::new(1, Seed::new(1, 2), NoObserver), heap: Heap::new() }
    }

    fn write<C: Collection>(&self, change: impl FnOnce(&mut C::Edit<'_>)) {
        // SAFETY: a benchmark has one thread, which frees nothing while it looks.
        let section = unsafe { Section::assume() };
        let key_hash = self.keyspace.key_hash(KEY);
        let mut lock = self.keyspace.try_lock(key_hash.slot).expect("nobody else locks");
        let found = lock.find(0, key_hash, KEY, section);
        let mut editing = lock.edit::<C>(found, &self.heap);
        change(&mut editing);
        let spec = TreeSpec {
            key: KEY,
            hash: key_hash.hash,
            encoding: Encoding::Hashtable,
            expires_at_ms: None,
            recency: 0,
        };
        black_box(lock.publish_tree(0, editing, spec, section, &self.heap));
        drop(lock);
        if self.heap.retired().len() >= 64 {
            // SAFETY: a benchmark has no other readers.
            unsafe { self.heap.retired().free_all() };
        }
    }
}

/// One operation, the number of which it is given.
type Run = Box<dyn FnMut(usize)>;

struct Measured {
    name: String,
    run: Run,
    rounds: Vec<f64>,
}

/// Selection of the command line.
struct Benches {
    wanted: Option<String>,
    all: Vec<Measured>,
}

impl Benches {
    /// Adds a benchmark; `prepare` runs only if it is wanted.
    fn add(&mut self, name: String, prepare: impl FnOnce() -> Run) {
        if self.wanted.as_ref().is_none_or(|part| name.contains(part.as_str())) {
            self.all.push(Measured { name, run: prepare(), rounds: Vec::new() });
        }
    }
}

struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % bound as u64) as usize
    }
}

fn name(number: usize) -> Vec<u8> {
    format!("field-{number:08}").into_bytes()
}

fn value(number: usize) -> Vec<u8> {
    format!("value-{number:010}").into_bytes()
}

fn increment(hash: &mut HashEdit<'_>, field: &[u8]) {
    let place = hash.place(field);
    let found = place.get().expect("the field is there");
    let text = std::str::from_utf8(found.value).expect("a number");
    let number: u64 = text.parse().expect("a number");
    place.set((number + 1).to_string().as_bytes(), None);
}

fn hashes(size: usize, label: &str, benches: &mut Benches) {
    let filled = |value: fn(usize) -> Vec<u8>| {
        let subject = Subject::new();
        subject.write::<Hash<'_>>(|edit| {
            (0..size).for_each(|number| {
                edit.set(&name(number), &value(number), None);
            });
        });
        subject
    };
    benches.add(format!("HSET old field, {label}"), || {
        let (subject, mut numbers) = (filled(value), Numbers(77));
        Box::new(move |number| {
            let (field, value) = (name(numbers.below(size)), value(number));
            subject.write::<Hash<'_>>(|edit| {
                edit.set(&field, &value, None);
            });
        })
    });
    benches.add(format!("HINCRBY, {label}"), || {
        let number = |number: usize| (100_000 + number % 1000).to_string().into_bytes();
        let (subject, mut numbers) = (filled(number), Numbers(78));
        Box::new(move |_| {
            let field = name(numbers.below(size));
            subject.write::<Hash<'_>>(|edit| increment(edit, &field));
        })
    });
}

fn lists(size: usize, label: &str, benches: &mut Benches) {
    let filled = || {
        let subject = Subject::new();
        subject.write::<List<'_>>(|edit| {
            (0..size).for_each(|number| edit.push_back(&value(number)));
        });
        subject
    };
    benches.add(format!("LSET, {label}"), || {
        let (subject, mut numbers) = (filled(), Numbers(88));
        Box::new(move |number| {
            let (index, value) = (numbers.below(size) as u64, value(number));
            subject.write::<List<'_>>(|edit| {
                edit.set(index, &value);
            });
        })
    });
    benches.add(format!("LPUSH + RPOP, {label}"), || {
        let subject = filled();
        Box::new(move |number| {
            let value = value(number);
            subject.write::<List<'_>>(|edit| edit.push_front(&value));
            subject.write::<List<'_>>(|edit| {
                edit.pop_back();
            });
        })
    });
}

fn sorted_sets(size: usize, label: &str, benches: &mut Benches) {
    benches.add(format!("ZINCRBY, {label}"), || {
        let (subject, mut numbers) = (Subject::new(), Numbers(99));
        subject.write::<SortedSet<'_>>(|edit| {
            (0..size).for_each(|number| {
                edit.set(&name(number), (number % 100_000) as f64);
            });
        });
        Box::new(move |_| {
            let member = name(numbers.below(size));
            subject.write::<SortedSet<'_>>(|edit| {
                edit.update(&member, |old| old.map(|score| score + 1.0));
            });
        })
    });
}

/// Runs operations from number `first` on; the function whose instructions are counted.
#[inline(never)]
fn measured(run: &mut Run, first: usize, count: usize) {
    (first..first + count).for_each(run);
}

fn main() {
    let mut arguments = std::env::args().skip(1).filter(|argument| !argument.starts_with('-'));
    let wanted = arguments.next();
    let counted = arguments.next().map(|count| count.parse().expect("a number of operations"));
    let mut benches = Benches { wanted, all: Vec::new() };
    for (label, size) in SIZES {
        hashes(size, label, &mut benches);
        lists(size, label, &mut benches);
        sorted_sets(size, label, &mut benches);
    }
    let mut all = benches.all;
    if let Some(count) = counted {
        return all.iter_mut().for_each(|one| measured(&mut one.run, 0, count));
    }
    for round in 0..ROUND_COUNT {
        for one in &mut all {
            let start = Instant::now();
            measured(&mut one.run, round * PER_ROUND, PER_ROUND);
            one.rounds.push(start.elapsed().as_nanos() as f64 / PER_ROUND as f64);
        }
    }
    println!("{:<30}{:>10}{:>10}{:>10}", "ns per operation", "median", "p10", "p90");
    for one in &mut all {
        one.rounds.sort_by(f64::total_cmp);
        let at = |percent: usize| one.rounds[(one.rounds.len() - 1) * percent / 100];
        println!("{:<30}{:>10.1}{:>10.1}{:>10.1}", one.name, at(50), at(10), at(90));
    }
}
