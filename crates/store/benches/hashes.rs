//! Nanoseconds per 16-byte key: the slot's CRC, the keyed hash, and what else they could be.

// A bench that cannot go on stops.
#![allow(clippy::unwrap_used)]

mod common;

use std::hash::{BuildHasher, Hasher};
use std::hint::black_box;

use common::{cpu_ns, describe, spread_key};
use crc::{CRC_16_XMODEM, Crc, Table};
use tidemill_store::SlotNumber;
use tidemill_store::hash::{Seed, hash};

const KEYS: u64 = 1024;
const ROUNDS: usize = 1000;
const REPEATS: usize = 9;

/// Median of the CPU time per key. The result of one key goes into the next, as nothing overlaps in
/// a single request.
fn measure(name: &str, keys: &[[u8; 16]], mut work: impl FnMut(&[u8]) -> u64) {
    let mut figures: Vec<f64> = (0..REPEATS)
        .map(|_| {
            let start = cpu_ns();
            let mut chained = 0;
            for _ in 0..ROUNDS {
                for key in keys {
                    let mut key = *key;
                    key[15] ^= (chained & 1) as u8;
                    chained = work(black_box(&key));
                }
            }
            black_box(chained);
            (cpu_ns() - start) as f64 / (ROUNDS * keys.len()) as f64
        })
        .collect();
    figures.sort_by(f64::total_cmp);
    println!(
        "{name:32} {:6.2} ns (from {:.2} to {:.2})",
        figures[REPEATS / 2],
        figures[0],
        figures[REPEATS - 1]
    );
}

fn main() {
    static BYTEWISE: Crc<u16, Table<1>> = Crc::<u16, Table<1>>::new(&CRC_16_XMODEM);
    static SLICED: Crc<u16, Table<16>> = Crc::<u16, Table<16>>::new(&CRC_16_XMODEM);
    describe();
    let keys: Vec<[u8; 16]> = (0..KEYS).map(spread_key).collect();
    let seed = Seed::new(1, 2);
    measure("nothing", &keys, |key| u64::from(key[0]));
    measure("SlotNumber::of_key", &keys, |key| SlotNumber::of_key(key).index() as u64);
    measure("crc, byte by byte", &keys, |key| u64::from(BYTEWISE.checksum(key)));
    measure("crc, sliced by 16", &keys, |key| u64::from(SLICED.checksum(key)));
    measure("hash", &keys, |key| hash(&seed, key));
    measure("siphash-1-3", &keys, |key| siphasher::sip::SipHasher13::new_with_keys(1, 2).hash(key));
    measure("siphash-2-4", &keys, |key| siphasher::sip::SipHasher24::new_with_keys(1, 2).hash(key));
    let ahash = ahash::RandomState::with_seeds(1, 2, 3, 4);
    measure("ahash (no proof of strength)", &keys, |key| {
        let mut hasher = ahash.build_hasher();
        hasher.write(key);
        hasher.finish()
    });
}
