//! The longest single insert and removal while a keyspace grows to ten million keys and shrinks again, spread out and
//! under one tag, and the time of a lookup. `KEYS` in the environment sets another number.
//!
//! Times are the thread's CPU time, so that being preempted is not taken for a slow step; interrupts and page faults
//! are in it. Exits with 1 when a step took longer than the budget.

mod common;

use std::hint::black_box;

use common::{
    cpu_ns, describe, free_garbage, insert, keyspace, remove, section, shuffled, spread_key,
    tagged_key,
};
use tidemill_store::{Heap, Keyspace};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const STEP_NS_MAX: u64 = 100_000;

struct Times {
    all: Vec<u32>,
    resizes: Vec<u32>,
}

impl Times {
    fn new(count: u64) -> Times {
        Times { all: Vec::with_capacity(count as usize), resizes: Vec::new() }
    }

    fn note(&mut self, elapsed_ns: u64, is_resize: bool) {
        let elapsed_ns = u32::try_from(elapsed_ns).unwrap_or(u32::MAX);
        self.all.push(elapsed_ns);
        if is_resize {
            self.resizes.push(elapsed_ns);
        }
    }

    fn print(mut self, name: &str) -> u64 {
        self.all.sort_unstable();
        self.resizes.sort_unstable();
        let part = |times: &[u32], share: f64| {
            times.get((times.len() as f64 * share) as usize).or(times.last()).copied().unwrap_or(0)
        };
        println!(
            "{name:22} p50 {:.2} p99.99 {:.1} max {:.1} us; {} resize steps: p50 {:.1} p99.9 {:.1} max {:.1} us",
            f64::from(part(&self.all, 0.5)) / 1e3,
            f64::from(part(&self.all, 0.9999)) / 1e3,
            f64::from(part(&self.all, 1.0)) / 1e3,
            self.resizes.len(),
            f64::from(part(&self.resizes, 0.5)) / 1e3,
            f64::from(part(&self.resizes, 0.999)) / 1e3,
            f64::from(part(&self.resizes, 1.0)) / 1e3,
        );
        u64::from(part(&self.all, 1.0))
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
        let hashes: [_; 16] =
            std::array::from_fn(|index| keyspace.key_hash(&batch[index % batch.len()]));
        hashes.iter().for_each(|&hash| keyspace.prefetch_table(0, hash, section()));
        hashes.iter().for_each(|&hash| keyspace.prefetch_bucket(0, hash, section()));
        hashes.iter().for_each(|&hash| keyspace.prefetch_entry(0, hash, section()));
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

fn measure(name: &str, count: u64, key_of: fn(u64) -> [u8; 16]) -> u64 {
    let keyspace = keyspace();
    let heap = Heap::new();
    let mut times = Times::new(count);
    for number in 0..count {
        let key = key_of(number);
        let start = cpu_ns();
        insert(&keyspace, &heap, &key);
        times.note(cpu_ns() - start, !heap.retired().is_empty());
        free_garbage(&heap);
    }
    let inserted = times.print(&format!("{name}: insert"));
    lookups(&keyspace, count, key_of, name);
    let mut times = Times::new(count);
    for number in shuffled(count) {
        let key = key_of(number);
        let start = cpu_ns();
        remove(&keyspace, &heap, &key);
        times.note(cpu_ns() - start, heap.retired().len() > 1);
        free_garbage(&heap);
    }
    inserted.max(times.print(&format!("{name}: remove")))
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
