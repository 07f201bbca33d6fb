//! Nanoseconds and instructions of single edits and reads, at three sizes.
//!
//! `cargo bench -p tidemill-store --bench tree [-- name-part]`. Each figure is the median of rounds, each of which runs
//! all operations in turn; one operation is one whole write: edit, publish, retire, free.
#![allow(unsafe_code)]

use std::hint::black_box;
use std::time::Instant;

use tidemill_rcu::Section;
use tidemill_store::hash::{Seed, hash};
use tidemill_store::value::hash::{Hash, HashEdit};
use tidemill_store::value::list::{List, ListEdit};
use tidemill_store::value::text::{Text, TextEdit};
use tidemill_store::{Built, Heap, Root};

const ROUND_COUNT: usize = 21;
const SIZES: [(&str, usize); 3] = [("one leaf", 20), ("10^4", 10_000), ("10^6", 1_000_000)];

/// One collection with its writer's memory.
struct Subject {
    heap: Heap,
    root: Option<Root>,
}

impl Subject {
    fn publish(root: &mut Option<Root>, heap: &Heap, built: Built<'_>) {
        *root = built.root();
        built.retire_replaced();
        if heap.retired().len() >= 64 {
            // SAFETY: a benchmark has no other readers.
            unsafe { heap.retired().free_all() };
        }
    }

    fn list(&mut self, change: impl FnOnce(&mut ListEdit<'_>)) {
        // SAFETY: this is the only editor.
        let mut edit = unsafe { ListEdit::new(self.root, &self.heap) };
        change(&mut edit);
        Subject::publish(&mut self.root, &self.heap, edit.finish());
    }

    fn hash(&mut self, seed: &Seed, change: impl FnOnce(&mut HashEdit<'_>)) {
        // SAFETY: this is the only editor.
        let mut edit = unsafe { HashEdit::new(self.root, seed, &self.heap) };
        change(&mut edit);
        Subject::publish(&mut self.root, &self.heap, edit.finish());
    }

    fn text(&mut self, change: impl FnOnce(&mut TextEdit<'_>)) {
        // SAFETY: this is the only editor.
        let mut edit = unsafe { TextEdit::new(self.root, &self.heap) };
        change(&mut edit);
        Subject::publish(&mut self.root, &self.heap, edit.finish());
    }

    fn new() -> Subject {
        Subject { heap: Heap::new(), root: None }
    }

    fn root(&self) -> Root {
        self.root.expect("benchmarks keep their collections filled")
    }
}

struct Measured<'m> {
    name: String,
    run: Box<dyn FnMut(usize) + 'm>,
    rounds: Vec<f64>,
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

fn field(number: usize) -> [u8; 14] {
    let mut field = *b"field-00000000";
    let mut rest = number;
    for digit in field[6..].iter_mut().rev() {
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    field
}

fn element(number: usize) -> [u8; 16] {
    let mut element = *b"value-0000000000";
    element[2..].copy_from_slice(&field(number));
    element
}

fn lists(size: usize, label: &str, all: &mut Vec<Measured<'_>>) {
    let fresh = || {
        let mut subject = Subject::new();
        subject.list(|edit| (0..size).for_each(|number| edit.push_back(&element(number))));
        subject
    };
    let mut add = |name: &str, run: Box<dyn FnMut(usize)>| {
        all.push(Measured { name: format!("list {label} {name}"), run, rounds: Vec::new() });
    };
    let mut subject = fresh();
    add(
        "LPUSH+RPOP",
        Box::new(move |number| {
            subject.list(|edit| edit.push_front(&element(number)));
            subject.list(|edit| {
                edit.pop_back();
            });
        }),
    );
    let mut subject = fresh();
    add(
        "RPUSH+LPOP",
        Box::new(move |number| {
            subject.list(|edit| edit.push_back(&element(number)));
            subject.list(|edit| {
                edit.pop_front();
            });
        }),
    );
    let (mut subject, mut numbers) = (fresh(), Numbers(88));
    add(
        "LSET random",
        Box::new(move |number| {
            let index = numbers.below(size) as u64;
            subject.list(|edit| {
                edit.set(index, &element(number));
            });
        }),
    );
    let (subject, mut numbers) = (fresh(), Numbers(99));
    add(
        "LINDEX random",
        Box::new(move |_| {
            // SAFETY: nothing is freed while the benchmark reads.
            let section = unsafe { Section::assume() };
            // SAFETY: as above.
            let list = unsafe { List::from_root(subject.root(), section) };
            black_box(list.get(numbers.below(size) as u64));
        }),
    );
}

fn hashes(size: usize, label: &str, seed: &'static Seed, all: &mut Vec<Measured<'_>>) {
    let fresh = || {
        let mut subject = Subject::new();
        subject.hash(seed, |edit| {
            (0..size).for_each(|number| {
                edit.set(&field(number), &element(number), None);
            });
        });
        subject
    };
    let mut add = |name: &str, run: Box<dyn FnMut(usize)>| {
        all.push(Measured { name: format!("hash {label} {name}"), run, rounds: Vec::new() });
    };
    let (mut subject, mut numbers) = (fresh(), Numbers(77));
    add(
        "HSET old field",
        Box::new(move |number| {
            let chosen = field(numbers.below(size));
            subject.hash(seed, |edit| {
                edit.set(&chosen, &element(number), None);
            });
        }),
    );
    let mut subject = fresh();
    let mut next = size;
    add(
        "HSET new field + HDEL",
        Box::new(move |number| {
            subject.hash(seed, |edit| {
                edit.set(&field(next), &element(number), None);
            });
            subject.hash(seed, |edit| {
                edit.remove(&field(next - size));
            });
            next += 1;
        }),
    );
    let (subject, mut numbers) = (fresh(), Numbers(66));
    add(
        "HGET",
        Box::new(move |_| {
            // SAFETY: nothing is freed while the benchmark reads.
            let section = unsafe { Section::assume() };
            // SAFETY: as above.
            let hash = unsafe { Hash::from_root(subject.root(), seed, section) };
            black_box(hash.get(&field(numbers.below(size))).expect("the field is there"));
        }),
    );
}

fn texts(size: usize, label: &str, all: &mut Vec<Measured<'_>>) {
    let fresh = || {
        let mut subject = Subject::new();
        subject.text(|edit| edit.append(&vec![1; size * 16]));
        subject
    };
    let mut add = |name: &str, run: Box<dyn FnMut(usize)>| {
        all.push(Measured { name: format!("text {label} {name}"), run, rounds: Vec::new() });
    };
    let mut subject = fresh();
    add("APPEND 16", Box::new(move |number| subject.text(|edit| edit.append(&element(number)))));
    let (mut subject, mut numbers) = (fresh(), Numbers(55));
    add(
        "SETBIT random",
        Box::new(move |number| {
            let at = numbers.below(size * 16) as u64;
            subject.text(|edit| edit.write(at, &[number as u8]));
        }),
    );
    let (subject, mut numbers) = (fresh(), Numbers(44));
    add(
        "GETBIT random",
        Box::new(move |_| {
            // SAFETY: nothing is freed while the benchmark reads.
            let section = unsafe { Section::assume() };
            // SAFETY: as above.
            let text = unsafe { Text::from_root(subject.root(), section) };
            black_box(text.get(numbers.below(size * 16) as u64));
        }),
    );
}

fn main() {
    let wanted = std::env::args().skip(1).find(|argument| !argument.starts_with('-'));
    let seed: &'static Seed = Box::leak(Box::new(Seed::new(1, 2)));
    let mut all = Vec::new();
    all.push(Measured {
        name: "hash function, 16-byte key".into(),
        run: Box::new(move |number| {
            black_box(hash(seed, black_box(&element(number))));
        }),
        rounds: Vec::new(),
    });
    for (label, size) in SIZES {
        lists(size, label, &mut all);
        hashes(size, label, seed, &mut all);
        texts(size, label, &mut all);
    }
    all.retain(|measured| wanted.as_ref().is_none_or(|part| measured.name.contains(part.as_str())));
    let per_round = 4000;
    for round in 0..ROUND_COUNT {
        for measured in &mut all {
            let start = Instant::now();
            (0..per_round).for_each(|number| (measured.run)(round * per_round + number));
            measured.rounds.push(start.elapsed().as_nanos() as f64 / per_round as f64);
        }
    }
    println!("{:<40}{:>10}{:>10}{:>10}", "ns per operation", "median", "p10", "p90");
    for measured in &mut all {
        measured.rounds.sort_by(f64::total_cmp);
        let at = |percent: usize| measured.rounds[(measured.rounds.len() - 1) * percent / 100];
        println!("{:<40}{:>10.1}{:>10.1}{:>10.1}", measured.name, at(50), at(10), at(90));
    }
}
