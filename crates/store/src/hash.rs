//! The keyed hash of keys and fields.

use siphasher::sip::SipHasher13;

/// The secret of one process; without it nobody can choose keys that collide.
#[derive(Clone, Copy, Debug)]
pub struct Seed {
    low: u64,
    high: u64,
}

impl Seed {
    /// A seed from 128 bits, which must come from the system's random source.
    #[must_use]
    pub const fn new(low: u64, high: u64) -> Seed {
        Seed { low, high }
    }
}

/// The 64-bit hash of `bytes` under `seed`.
#[must_use]
pub fn hash(seed: &Seed, bytes: &[u8]) -> u64 {
    SipHasher13::new_with_keys(seed.low, seed.high).hash(bytes)
}
