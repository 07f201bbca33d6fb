//! Count of error replies by code.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::limits::ERROR_CODES_MAX;

/// Code of an error reply that begins with none.
const NO_CODE: &[u8] = b"ERR";

/// Longest code, in bytes.
const CODE_BYTES_MAX: usize = 30;

/// Code in the place of all that are not counted by themselves.
const OVERFLOW: &[u8] = b"ERRORSTATS_OVERFLOW";

/// Error replies by the code that they begin with. Those of scripts are counted together once there
/// are [`ERROR_CODES_MAX`] different ones, all others once there are twice as many.
#[derive(Debug, Default)]
pub(super) struct ErrorCounts(Mutex<BTreeMap<String, u64>>);

impl ErrorCounts {
    fn counts(&self) -> MutexGuard<'_, BTreeMap<String, u64>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[cold]
    pub(super) fn count(&self, wire: &[u8], is_of_script: bool) {
        let code_end = wire.iter().take(CODE_BYTES_MAX + 1).position(|byte| *byte == b' ');
        let code = code_end.map_or(NO_CODE, |end| &wire[..end]);
        let codes_max = if is_of_script { ERROR_CODES_MAX } else { 2 * ERROR_CODES_MAX };
        let mut counts = self.counts();
        let text = |code| String::from_utf8_lossy(code).into_owned();
        let is_counted_apart = counts.len() < codes_max || counts.contains_key(&text(code));
        *counts.entry(text(if is_counted_apart { code } else { OVERFLOW })).or_default() += 1;
    }

    pub(super) fn all(&self) -> BTreeMap<String, u64> {
        self.counts().clone()
    }

    pub(super) fn reset(&self) {
        self.counts().clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_of_scripts_beyond_the_most_are_counted_together() {
        let counts = ErrorCounts::default();
        for number in 0..1_000 {
            counts.count(format!("{number} text").as_bytes(), true);
        }
        counts.count(b"ERR text", false);
        counts.count(b"7 text", true);
        let all = counts.all();
        assert_eq!(all["ERRORSTATS_OVERFLOW"], 1_000 - ERROR_CODES_MAX as u64);
        assert_eq!((all["ERR"], all["7"], all.len()), (1, 2, ERROR_CODES_MAX + 2));
        for number in 0..1_000 {
            counts.count(format!("code{number} text").as_bytes(), false);
        }
        assert_eq!(counts.all().len(), 2 * ERROR_CODES_MAX);
    }

    #[test]
    fn a_long_word_is_no_code() {
        let counts = ErrorCounts::default();
        counts.count(&[b'x'; 1_000], true);
        counts.count(b"nothing-behind-it", false);
        counts.count(b"a-code-of-exactly-thirty-bytes x", false);
        counts.count(b"a-code-of-thirty-and-one-bytes- x", false);
        let all: Vec<_> = counts.all().into_iter().collect();
        let code = String::from("a-code-of-exactly-thirty-bytes");
        assert_eq!(all, [(String::from("ERR"), 3), (code, 1)]);
    }
}
