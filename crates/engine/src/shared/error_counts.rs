//! Count of error replies by code.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::limits::ERROR_CODES_MAX;

/// Error replies by the code that they begin with, at most [`ERROR_CODES_MAX`] different ones.
#[derive(Debug, Default)]
pub(super) struct ErrorCounts(Mutex<BTreeMap<String, u64>>);

impl ErrorCounts {
    fn counts(&self) -> MutexGuard<'_, BTreeMap<String, u64>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[cold]
    pub(super) fn count(&self, wire: &[u8]) {
        let code = wire.split(|byte| *byte == b' ').next().unwrap_or_default();
        let code = String::from_utf8_lossy(code).into_owned();
        let mut counts = self.counts();
        if counts.len() < ERROR_CODES_MAX || counts.contains_key(&code) {
            *counts.entry(code).or_default() += 1;
        }
    }

    pub(super) fn all(&self) -> BTreeMap<String, u64> {
        self.counts().clone()
    }

    pub(super) fn reset(&self) {
        self.counts().clear();
    }
}
