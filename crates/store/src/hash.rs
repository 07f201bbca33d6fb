//! The keyed hash of keys, fields and members: SipHash-1-3.
//!
//! A client that chooses keys must not be able to steer them into one bucket or one leaf. SipHash
//! is a pseudo-random function designed for that: without the seed, no published attack on its
//! 64-bit output beats guessing, and the seed is drawn per process and never shown. Hashes of a few
//! AES rounds take less time, but rest on no published analysis of that use and differ from CPU to
//! CPU.

use siphasher::sip::SipHasher13;

/// Secret of one process; a client that does not know it cannot choose keys that collide.
#[derive(Clone, Copy)]
pub struct Seed {
    low: u64,
    high: u64,
}

impl std::fmt::Debug for Seed {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // A seed that reaches a log is no secret any more.
        formatter.write_str("Seed(..)")
    }
}

impl Seed {
    /// A seed from 128 bits, which must come from the system's random source.
    #[must_use]
    pub const fn new(low: u64, high: u64) -> Seed {
        Seed { low, high }
    }

    /// The two halves of the seed.
    #[cfg(target_arch = "x86_64")]
    pub(crate) fn words(self) -> (u64, u64) {
        (self.low, self.high)
    }
}

/// Hash of `bytes` under `seed`, 64 bits.
#[inline]
#[must_use]
pub fn hash(seed: &Seed, bytes: &[u8]) -> u64 {
    SipHasher13::new_with_keys(seed.low, seed.high).hash(bytes)
}
