//! The keyed hash of keys, fields and members.
//!
//! SipHash-1-3 under a secret seed that each process draws for itself. Whoever chooses keys must not be able to steer
//! them into one bucket or one leaf: SipHash is a pseudo-random function, designed for this use, and no attack on its
//! 64-bit output without the key is known that beats guessing. AES-round hashes (ahash, gxhash) take about a third of
//! the time, but claim resistance by construction rather than by published analysis, and differ with the CPU.

use std::hash::{BuildHasher, Hasher, RandomState};

use siphasher::sip::SipHasher13;

/// The secret of one process under which its keys are hashed.
#[derive(Clone)]
pub struct Seed(SipHasher13);

impl std::fmt::Debug for Seed {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // A seed that reaches a log is no secret any more.
        formatter.write_str("Seed(..)")
    }
}

impl Seed {
    /// A seed with the given secret, for tests and for replaying a run.
    #[must_use]
    pub fn new(secret: [u64; 2]) -> Seed {
        Seed(SipHasher13::new_with_keys(secret[0], secret[1]))
    }

    /// A seed drawn from the operating system's randomness.
    #[must_use]
    pub fn random() -> Seed {
        let draw = || RandomState::new().build_hasher().finish();
        Seed::new([draw(), draw()])
    }
}

/// The hash of `bytes` under `seed`, uniform over all 64 bits.
#[inline]
#[must_use]
pub fn hash(seed: &Seed, bytes: &[u8]) -> u64 {
    seed.0.hash(bytes)
}
