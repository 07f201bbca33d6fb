//! Progress of a worker's evictions: which slots have keys, and the best candidates so far.

use tidemill_store::KeyHash;

use super::key_ranges::KeyRanges;
use crate::settings::EvictionPolicy;

/// Candidates that are kept between evictions, as in Valkey.
const CANDIDATES_MAX: usize = 16;

/// A key that was sampled. It is found again by its hash: keys may be long.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Candidate {
    /// The higher, the sooner it is evicted.
    pub(crate) score: u64,
    pub(crate) database: usize,
    pub(crate) key_hash: KeyHash,
}

/// State of a worker's evictions.
#[derive(Debug, Default)]
pub(crate) struct Eviction {
    pub(crate) ranges: KeyRanges,
    /// The best keys of the samples so far, the best one last. Anything may have become of them.
    candidates: Vec<Candidate>,
    /// Policy that they were scored by.
    policy: Option<EvictionPolicy>,
    /// Time before which nothing is evicted between commands, in monotonic microseconds.
    pub(crate) paused_until_us: u64,
}

impl Eviction {
    /// Forgets what was scored by another policy.
    pub(crate) fn set_policy(&mut self, policy: EvictionPolicy) {
        if self.policy != Some(policy) {
            self.policy = Some(policy);
            self.candidates.clear();
        }
    }

    /// True if a key of this score is better than one of the candidates, or if there is room.
    pub(crate) fn takes(&self, score: u64) -> bool {
        let worst = self.candidates.first();
        self.candidates.len() < CANDIDATES_MAX || worst.is_none_or(|worst| score > worst.score)
    }

    /// Adds a candidate of a score that is taken, unless it is one already.
    pub(crate) fn offer(&mut self, candidate: Candidate) {
        let candidates = &mut self.candidates;
        let is_same = |known: &Candidate| {
            (known.database, known.key_hash.hash) == (candidate.database, candidate.key_hash.hash)
        };
        if candidates.iter().any(is_same) {
            return;
        }
        if candidates.len() == CANDIDATES_MAX {
            candidates.remove(0);
        }
        let index = candidates.partition_point(|other| other.score <= candidate.score);
        candidates.insert(index, candidate);
    }

    /// Takes the best candidate out.
    pub(crate) fn take_best(&mut self) -> Option<Candidate> {
        self.candidates.pop()
    }

    /// Forgets all candidates.
    pub(crate) fn clear(&mut self) {
        self.candidates.clear();
    }
}
