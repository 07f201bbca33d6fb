//! The longest single insert and removal while a keyspace grows to ten million keys and shrinks
//! again, spread out and under one tag, and the time of a lookup. `KEYS` in the environment sets
//! another number.
//!
//! Times are the thread's CPU time, so that being preempted is not taken for a slow step. They
//! still contain interrupts and stolen time; but these do not hit the same operation twice, while a
//! resize step does: every run takes the same steps. So each operation counts with its shortest
//! time of three runs. Exits with 1 when one took longer than the
//! budget.

// A bench that cannot go on stops.
#![allow(clippy::unwrap_used)]

mod common;

use std::hint::black_box;

use common::{
    cpu_ns, describe, free_garbage, insert, keyspace, remove, section, shuffled, spread_key,
    tagged_key,
};
use tidemill_store::{Heap, Keyspace};

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

const STEP_NS_MAX: u32 = 100_000;

/// The shortest time of every operation, in nanoseconds; the top bit marks a resize step.
struct Times {
    shortest: Vec<u32>,
    longest: u32,
    next: usize,
}

const RESIZE: u32 = 1 << 31;

impl Times {
    fn new(count: u64) -> Times {
        Times { shortest: vec![!RESIZE; count as usize], longest: 0, next: 0 }
    }

    fn note(&mut self, elapsed_ns: u64, is_resize: bool) {
        let elapsed_ns = u32::try_from(elapsed_ns).unwrap_or(u32::MAX).min(!RESIZE);
        let shortest = &mut self.shortest[self.next];
        *shortest = (*shortest & !RESIZE).min(elapsed_ns) | if is_resize { RESIZE } else { 0 };
        self.longest = self.longest.max(elapsed_ns);
        self.next = (self.next + 1) % self.shortest.len();
    }

    /// Prints the distribution and returns the longest operation.
    fn print(&self, name: &str) -> u32 {
        let sorted = |resizes_only: bool| {
            let mut times: Vec<u32> = self
                .shortest
                .iter()
                .filter(|&&time| !resizes_only || time & RESIZE != 0)
                .map(|&time| time & !RESIZE)
                .collect();
            times.sort_unstable();
            times
        };
        let us = |times: &[u32], share: f64| {
            let index = ((times.len() as f64 * share) as usize).min(times.len().saturating_sub(1));
            times.get(index).map_or(0.0, |&time| f64::from(time) / 1e3)
        };
        let (all, resizes) = (sorted(false), sorted(true));
        println!(
            "{name:16} p50 {:.2} p99.99 {:.1} max {:.1} us (in a single run {:.0}); \
             {} resize steps: p50 {:.1} p99.9 {:.1} max {:.1} us",
            us(&all, 0.5),
            us(&all, 0.9999),
            us(&all, 1.0),
            f64::from(self.longest) / 1e3,
            resizes.len(),
            us(&resizes, 0.5),
            us(&resizes, 0.999),
            us(&resizes, 1.0),
        );
        all.last().copied().unwrap_or(0)
    }
}

fn lookups(keyspace: &Keyspace<()>, count: u64, key_of: fn(u64) -> [u8; 16], name: &str) {
    let keys: Vec<[u8; 16]> = shuffled(count).take(1_000_000).map(key_of).collect();
    let find = |key: &[u8]| {
        let key_hash = keyspace.key_hash(key);
        black_box(keyspace.find(0, key_hash, key, section()).unwrap().recency());
    };
    let start = cpu_ns();
    keys.iter().for_each(|key| find(key));
    let alone = cpu_ns() - start;
    let start = cpu_ns();
    for batch in keys.chunks(16) {
        let mut hashes: [_; 16] =
            std::array::from_fn(|index| keyspace.key_hash(&batch[index % batch.len()]));
        for hash in &hashes {
            keyspace.prefetch_table(0, hash.slot, section());
        }
        keyspace.prefetch_buckets(0, hashes.iter().copied(), section());
        keyspace.prefetch_entries(0, hashes.iter_mut(), section());
        for (key, &hash) in batch.iter().zip(&hashes) {
            black_box(keyspace.find(0, hash, key, section()).unwrap().recency());
        }
    }
    let batched = cpu_ns() - start;
    println!(
        "{name:22} lookup {:.0} ns one by one, {:.0} ns in batches of 16",
        alone as f64 / keys.len() as f64,
        batched as f64 / keys.len() as f64
    );
}

fn run(
    count: u64,
    key_of: fn(u64) -> [u8; 16],
    inserts: &mut Times,
    removes: &mut Times,
    full: impl FnOnce(&Keyspace<()>),
) {
    let keyspace = keyspace();
    let heap = Heap::new();
    for number in 0..count {
        let key = key_of(number);
        let start = cpu_ns();
        insert(&keyspace, &heap, &key);
        inserts.note(cpu_ns() - start, !heap.retired().is_empty());
        free_garbage(&heap);
    }
    full(&keyspace);
    for number in shuffled(count) {
        let key = key_of(number);
        let start = cpu_ns();
        remove(&keyspace, &heap, &key);
        removes.note(cpu_ns() - start, heap.retired().len() > 1);
        free_garbage(&heap);
    }
}

fn measure(name: &str, count: u64, key_of: fn(u64) -> [u8; 16]) -> u32 {
    let (mut inserts, mut removes) = (Times::new(count), Times::new(count));
    for repeat in 0..3 {
        run(count, key_of, &mut inserts, &mut removes, |keyspace| {
            if repeat == 0 {
                lookups(keyspace, count, key_of, name);
            }
        });
    }
    let inserted = inserts.print(&format!("{name}: insert"));
    inserted.max(removes.print(&format!("{name}: remove")))
}

fn main() {
    describe();
    let count = std::env::var("KEYS").map_or(10_000_000, |count| count.parse().expect("a number"));
    println!("{count} keys of 16 bytes with values of 64");
    let longest = measure("spread", count, spread_key).max(measure("one tag", count, tagged_key));
    let verdict = if longest <= STEP_NS_MAX { "ok" } else { "missed" };
    println!("budget: {} us for a step: {verdict}", STEP_NS_MAX / 1000);
    std::process::exit(i32::from(longest > STEP_NS_MAX));
}
