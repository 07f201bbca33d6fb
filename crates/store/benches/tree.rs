//! Nanoseconds and instructions of single edits and reads, at three sizes.
//!
//! `cargo bench -p tidemill-store --bench tree [-- name-part]`. Each figure is the median of
//! rounds, each of which runs all operations in turn; one operation is one whole write: edit,
//! publish, retire, free.
#![allow(unsafe_code)]

use std::hint::black_box;
use std::time::Instant;

use tidemill_store::Section;
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
        // SAFETY: the new root takes the place of the old one.
        unsafe { built.retire_replaced() };
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

fn lists(size: usize, label: &str, benches: &mut Benches) {
    let fresh = || {
        let mut subject = Subject::new();
        subject.list(|edit| (0..size).for_each(|number| edit.push_back(&element(number))));
        subject
    };
    benches.add(format!("list {label} LPUSH+RPOP"), || {
        let mut subject = fresh();
        Box::new(move |number| {
            subject.list(|edit| edit.push_front(&element(number)));
            subject.list(|edit| {
                edit.pop_back();
            });
        })
    });
    benches.add(format!("list {label} RPUSH+LPOP"), || {
        let mut subject = fresh();
        Box::new(move |number| {
            subject.list(|edit| edit.push_back(&element(number)));
            subject.list(|edit| {
                edit.pop_front();
            });
        })
    });
    benches.add(format!("list {label} LSET random"), || {
        let (mut subject, mut numbers) = (fresh(), Numbers(88));
        Box::new(move |number| {
            let index = numbers.below(size) as u64;
            subject.list(|edit| {
                edit.set(index, &element(number));
            });
        })
    });
    benches.add(format!("list {label} LINDEX random"), || {
        let (subject, mut numbers) = (fresh(), Numbers(99));
        Box::new(move |_| {
            // SAFETY: nothing is freed while the benchmark reads.
            let section = unsafe { Section::assume() };
            // SAFETY: as above.
            let list = unsafe { List::from_root(subject.root(), section) };
            black_box(list.get(numbers.below(size) as u64));
        })
    });
}

fn hashes(size: usize, label: &str, seed: &'static Seed, benches: &mut Benches) {
    let fresh = || {
        let mut subject = Subject::new();
        subject.hash(seed, |edit| {
            (0..size).for_each(|number| {
                edit.set(&field(number), &element(number), None);
            });
        });
        subject
    };
    benches.add(format!("hash {label} HSET old field"), || {
        let (mut subject, mut numbers) = (fresh(), Numbers(77));
        Box::new(move |number| {
            let chosen = field(numbers.below(size));
            subject.hash(seed, |edit| {
                edit.set(&chosen, &element(number), None);
            });
        })
    });
    benches.add(format!("hash {label} HSET new field + HDEL"), || {
        let mut subject = fresh();
        let mut next = size;
        Box::new(move |number| {
            subject.hash(seed, |edit| {
                edit.set(&field(next), &element(number), None);
            });
            subject.hash(seed, |edit| {
                edit.remove(&field(next - size));
            });
            next += 1;
        })
    });
    benches.add(format!("hash {label} HGET"), || {
        let (subject, mut numbers) = (fresh(), Numbers(66));
        Box::new(move |_| {
            // SAFETY: nothing is freed while the benchmark reads.
            let section = unsafe { Section::assume() };
            // SAFETY: as above.
            let hash = unsafe { Hash::from_root(subject.root(), seed, section) };
            black_box(hash.get(&field(numbers.below(size))).expect("the field is there"));
        })
    });
}

fn texts(size: usize, label: &str, benches: &mut Benches) {
    let fresh = || {
        let mut subject = Subject::new();
        subject.text(|edit| edit.append(&vec![1; size * 16]));
        subject
    };
    benches.add(format!("text {label} APPEND 16"), || {
        let mut subject = fresh();
        Box::new(move |number| subject.text(|edit| edit.append(&element(number))))
    });
    benches.add(format!("text {label} SETBIT random"), || {
        let (mut subject, mut numbers) = (fresh(), Numbers(55));
        Box::new(move |number| {
            let at = numbers.below(size * 16) as u64;
            subject.text(|edit| edit.write(at, &[number as u8]));
        })
    });
    benches.add(format!("text {label} GETBIT random"), || {
        let (subject, mut numbers) = (fresh(), Numbers(44));
        Box::new(move |_| {
            // SAFETY: nothing is freed while the benchmark reads.
            let section = unsafe { Section::assume() };
            // SAFETY: as above.
            let text = unsafe { Text::from_root(subject.root(), section) };
            black_box(text.get(numbers.below(size * 16) as u64));
        })
    });
}

fn main() {
    let wanted = std::env::args().skip(1).find(|argument| !argument.starts_with('-'));
    let seed: &'static Seed = Box::leak(Box::new(Seed::new(1, 2)));
    let mut benches = Benches { wanted, all: Vec::new() };
    benches.add("hash function, 16-byte key".into(), || {
        let key = element(1);
        Box::new(move |_| {
            black_box(hash(black_box(seed), black_box(&key)));
        })
    });
    for (label, size) in SIZES {
        lists(size, label, &mut benches);
        hashes(size, label, seed, &mut benches);
        texts(size, label, &mut benches);
    }
    let mut all = benches.all;
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
