//! Counts of a script's attempt that may be taken back.
//!
//! They are in the statistics once the attempt is not taken back any more. To count at once and to
//! subtract later was rejected: save points and others would see counters that go down.

use super::Worker;
use crate::shared::Shared;

/// Counts of the present attempt.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct AttemptCounts {
    changes: u64,
    expired_keys: u64,
    expired_fields: u64,
}

impl Worker {
    /// The commands from now on are an attempt, which may be taken back or not.
    pub(crate) fn begin_attempt(&mut self, is_revocable: bool) {
        self.attempt = is_revocable.then(AttemptCounts::default);
    }

    /// True while the commands are an attempt that may be taken back.
    #[inline]
    pub(crate) fn is_revocable(&self) -> bool {
        self.attempt.is_some()
    }

    /// The attempt is taken back: nothing of it counts.
    pub(crate) fn revoke_attempt(&mut self) {
        self.attempt = None;
    }

    /// The attempt, if there is one, is not taken back any more: it counts.
    pub(crate) fn confirm_attempt(&mut self, shared: &Shared) {
        let Some(counts) = self.attempt.take() else { return };
        let stats = self.stats(shared);
        stats.changes.add(counts.changes);
        stats.expired_keys.add(counts.expired_keys);
        stats.expired_fields.add(counts.expired_fields);
    }

    /// Counts changes of the dataset.
    #[inline]
    pub(crate) fn count_changes(&mut self, shared: &Shared, count: u64) {
        match &mut self.attempt {
            Some(attempt) => attempt.changes += count,
            None => self.stats(shared).changes.add(count),
        }
    }

    /// Counts a key that was deleted because its time was over.
    pub(crate) fn count_expired_key(&mut self, shared: &Shared) {
        match &mut self.attempt {
            Some(attempt) => attempt.expired_keys += 1,
            None => self.stats(shared).expired_keys.add(1),
        }
    }

    /// As [`Worker::count_expired_key`], for fields of a hash.
    pub(crate) fn count_expired_fields(&mut self, shared: &Shared, count: usize) {
        match &mut self.attempt {
            Some(attempt) => attempt.expired_fields += count as u64,
            None => self.stats(shared).expired_fields.add(count as u64),
        }
    }
}
