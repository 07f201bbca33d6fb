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

    /// Adds a number of errors of a code.
    #[cold]
    pub(super) fn count(&self, code: &[u8], is_of_script: bool, number: u64) {
        let codes_max = if is_of_script { ERROR_CODES_MAX } else { 2 * ERROR_CODES_MAX };
        let mut counts = self.counts();
        let text = |code| String::from_utf8_lossy(code).into_owned();
        let is_counted_apart = counts.len() < codes_max || counts.contains_key(&text(code));
        *counts.entry(text(if is_counted_apart { code } else { OVERFLOW })).or_default() += number;
    }

    pub(super) fn all(&self) -> BTreeMap<String, u64> {
        self.counts().clone()
    }

    pub(super) fn reset(&self) {
        self.counts().clear();
    }
}

/// Code by which an error reply is counted.
pub(crate) fn error_code(wire: &[u8]) -> &[u8] {
    let code_end = wire.iter().take(CODE_BYTES_MAX + 1).position(|byte| *byte == b' ');
    code_end.map_or(NO_CODE, |end| &wire[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(counts: &ErrorCounts, wire: &[u8], is_of_script: bool) {
        counts.count(error_code(wire), is_of_script, 1);
    }

    #[test]
    fn codes_of_scripts_beyond_the_most_are_counted_together() {
        let counts = ErrorCounts::default();
        for number in 0..1_000 {
            count(&counts, format!("{number} text").as_bytes(), true);
        }
        count(&counts, b"ERR text", false);
        count(&counts, b"7 text", true);
        let all = counts.all();
        assert_eq!(all["ERRORSTATS_OVERFLOW"], 1_000 - ERROR_CODES_MAX as u64);
        assert_eq!((all["ERR"], all["7"], all.len()), (1, 2, ERROR_CODES_MAX + 2));
        for number in 0..1_000 {
            count(&counts, format!("code{number} text").as_bytes(), false);
        }
        assert_eq!(counts.all().len(), 2 * ERROR_CODES_MAX);
    }

    #[test]
    fn a_long_word_is_no_code() {
        let counts = ErrorCounts::default();
        count(&counts, &[b'x'; 1_000], true);
        count(&counts, b"nothing-behind-it", false);
        count(&counts, b"a-code-of-exactly-thirty-bytes x", false);
        count(&counts, b"a-code-of-thirty-and-one-bytes- x", false);
        let all: Vec<_> = counts.all().into_iter().collect();
        let code = String::from("a-code-of-exactly-thirty-bytes");
        assert_eq!(all, [(String::from("ERR"), 3), (code, 1)]);
    }
}
