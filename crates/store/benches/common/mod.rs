//! Shared parts of the keyspace's benchmarks.
#![allow(unsafe_code, dead_code)]

use tidemill_store::Section;
use tidemill_store::hash::Seed;
use tidemill_store::{
    Disposal, Encoding, EntrySpec, Heap, Keyspace, Kind, NewValue, OwnedEntry, ReleaseObserver,
    SlotNumber,
};

pub struct NoObserver;
impl ReleaseObserver for NoObserver {
    fn released(&self, _slot: SlotNumber, _clear: &dyn Fn()) {}
}

pub fn section<'g>() -> Section<'g> {
    // SAFETY: the benches are single-threaded and free garbage only between operations.
    unsafe { Section::assume() }
}

pub fn keyspace() -> Keyspace<()> {
    Keyspace::new(1, Seed::new(0x0123_4567_89ab_cdef, 0xfedc_ba98_7654_3210), NoObserver)
}

/// Sixteen bytes.
pub fn spread_key(number: u64) -> [u8; 16] {
    let text = format!("key:{number:012}");
    text.as_bytes().try_into().unwrap()
}

/// Sixteen bytes, all of one slot.
pub fn tagged_key(number: u64) -> [u8; 16] {
    let text = format!("{{t}}:{number:012}");
    text.as_bytes().try_into().unwrap()
}

pub fn insert(keyspace: &Keyspace<()>, heap: &Heap, key: &[u8]) {
    let entry = OwnedEntry::new(
        EntrySpec {
            key,
            kind: Kind::String,
            encoding: Encoding::Raw,
            expires_at_ms: None,
            recency: 0,
            value: NewValue::String(&[b'v'; 64]),
        },
        heap,
    );
    let key_hash = keyspace.key_hash(key);
    let mut lock = keyspace.try_lock(key_hash.slot).unwrap();
    assert!(lock.find(0, key_hash, key, section()).is_none());
    lock.insert(0, key_hash.hash, entry, section(), heap);
}

pub fn remove(keyspace: &Keyspace<()>, heap: &Heap, key: &[u8]) {
    let key_hash = keyspace.key_hash(key);
    let mut lock = keyspace.try_lock(key_hash.slot).unwrap();
    let found = lock.find(0, key_hash, key, section()).unwrap();
    lock.remove(0, key_hash.hash, found, Disposal::RetireValue, section(), heap);
}

pub fn free_garbage(heap: &Heap) {
    // SAFETY: single-threaded, and no reference into the keyspace is held across this call.
    unsafe { heap.retired().free_all() };
}

/// CPU time of this thread in nanoseconds: what other threads take meanwhile does not count.
pub fn cpu_ns() -> u64 {
    // SAFETY: all-zero is a valid value.
    let mut time: libc::timespec = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer is valid for the call.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

pub fn resident_bytes() -> u64 {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
    pages.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 4096
}

/// Machine, build and command line, as every figure needs them.
pub fn describe() {
    let cpus = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpus.lines().find(|line| line.starts_with("model name")).unwrap_or("unknown");
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    println!("{}; load {}", model.replace('\t', ""), load.trim());
    println!("{}", std::env::args().collect::<Vec<_>>().join(" "));
}

/// Order in which `count` keys are visited: by a stride that shares no factor with it.
pub fn shuffled(count: u64) -> impl Iterator<Item = u64> {
    let stride = (count as f64 * 0.618) as u64 | 1;
    let stride = (stride..).find(|&stride| gcd(stride, count) == 1).unwrap();
    (0..count).map(move |step| step * stride % count)
}

fn gcd(left: u64, right: u64) -> u64 {
    if right == 0 { left } else { gcd(right, left % right) }
}

/// Bytes per key while a keyspace grows, up to the number of keys on the command line.
pub fn memory(allocator: &str) {
    const COUNTS: [u64; 8] =
        [250_000, 500_000, 700_000, 1_000_000, 1_400_000, 2_000_000, 2_800_000, 4_000_000];
    let count_max = std::env::args().skip(1).find_map(|argument| argument.parse().ok());
    describe();
    println!("{allocator}: keys of 16 bytes with values of 64, bytes per key");
    let before = resident_bytes();
    let keyspace = keyspace();
    let heap = Heap::new();
    let mut number = 0;
    for count in COUNTS.into_iter().filter(|&count| count <= count_max.unwrap_or(u64::MAX)) {
        while number < count {
            insert(&keyspace, &heap, &spread_key(number));
            number += 1;
            if number.is_multiple_of(1000) {
                free_garbage(&heap);
            }
        }
        let resident = (resident_bytes() - before) as f64;
        let mut table_bytes = 0;
        let mut entry_bytes = 0;
        for slot in SlotNumber::all() {
            table_bytes += keyspace.table_shape(0, slot, section()).bytes;
            let entries = keyspace.entries(0, slot, section());
            entry_bytes += entries.map(|entry| entry.entry_bytes()).sum::<usize>();
        }
        println!(
            "{count:8} keys: entries {:.1}, tables {:.1}, live {:.1}, resident {:.1}",
            entry_bytes as f64 / count as f64,
            table_bytes as f64 / count as f64,
            heap.live_bytes() as f64 / count as f64,
            resident / count as f64,
        );
    }
}
