//! Cache of scripts by digest.
//!
//! A script is immutable. Workers keep what they compiled beside a reference to it, and look at
//! [`CachedScript::is_gone`] before each use, so that a script that was flushed or evicted runs
//! nowhere once that is answered.
//!
//! Scripts that came by `EVAL` are evicted, least recently used first, when there are more than
//! [`EVALUATED_SCRIPTS_MAX`]; those of `SCRIPT LOAD`, of which there may be any number, stay. The
//! time of use is written once per millisecond and worker at most, so that a hot script is no line
//! that all workers write.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tidemill_script::{Flags, digest};

use crate::limits::{CACHED_SCRIPT_BYTES, EVALUATED_SCRIPTS_MAX};

/// SHA-1 of a script.
pub(crate) type Digest = [u8; 20];

/// Digits of a digest.
pub(crate) const DIGEST_DIGITS: usize = 40;

/// Digits of a digest, in lower case.
pub(crate) type DigestText = [u8; DIGEST_DIGITS];

/// Text of a digest.
pub(crate) fn hexadecimal(digest: &Digest) -> String {
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Digits of a digest, in lower case.
pub(crate) fn digits_of(digest: &Digest) -> DigestText {
    let mut digits = [0; DIGEST_DIGITS];
    for (pair, byte) in digits.as_chunks_mut::<2>().0.iter_mut().zip(digest) {
        *pair = [byte >> 4, byte & 0xf].map(|digit| b"0123456789abcdef"[usize::from(digit)]);
    }
    digits
}

/// Mark of a byte that is no hexadecimal digit.
const NO_DIGIT: u8 = 0x80;

/// Values of hexadecimal digits by their bytes.
const DIGITS: [u8; 256] = {
    let mut digits = [NO_DIGIT; 256];
    let mut value = 0;
    while value < 16 {
        let lower = b"0123456789abcdef"[value];
        digits[lower as usize] = value as u8;
        digits[lower.to_ascii_uppercase() as usize] = value as u8;
        value += 1;
    }
    digits
};

/// The digest of its text, in upper or lower case.
pub(crate) fn parse_digest(text: &[u8]) -> Option<Digest> {
    let mut digest = Digest::default();
    if text.len() != 2 * digest.len() {
        return None;
    }
    let mut wrong = 0;
    for (byte, pair) in digest.iter_mut().zip(text.as_chunks::<2>().0) {
        let [high, low] = pair.map(|digit| DIGITS[usize::from(digit)]);
        wrong |= high | low;
        *byte = high << 4 | low & 0xf;
    }
    (wrong & NO_DIGIT == 0).then_some(digest)
}

/// Way by which a script came into the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// `EVAL`: it may be evicted.
    Evaluated,
    /// `SCRIPT LOAD`: it stays until a flush.
    Loaded,
}

/// Memory of a script or function that a run of it was taken back, because it met the taken slot
/// of a key that was not declared: later ones begin with the token.
#[derive(Debug, Default)]
pub(crate) struct UndeclaredKeys(AtomicBool);

impl UndeclaredKeys {
    /// True if a run met such a slot.
    pub(crate) fn were_met(&self) -> bool {
        // Relaxed: a hint.
        self.0.load(Ordering::Relaxed)
    }

    /// Notes that a run met such a slot.
    pub(crate) fn note(&self) {
        // Relaxed: a hint.
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A script that compiles.
#[derive(Debug)]
pub(crate) struct CachedScript {
    pub(crate) digest: Digest,
    pub(crate) source: Box<[u8]>,
    /// Flags of its first line; none when that names none.
    pub(crate) flags: Option<Flags>,
    pub(crate) undeclared: UndeclaredKeys,
    is_gone: AtomicBool,
    used_ms: AtomicU64,
}

impl CachedScript {
    /// True once it was flushed or evicted.
    pub(crate) fn is_gone(&self) -> bool {
        // Acquire: pairs with the Release in `remove`, which precedes the answer to the flush.
        self.is_gone.load(Ordering::Acquire)
    }

    fn remove(&self) {
        // Release: pairs with the Acquire in `is_gone`.
        self.is_gone.store(true, Ordering::Release);
    }

    /// Notes a use at a time, ms.
    pub(crate) fn note_use(&self, now_ms: u64) {
        // Relaxed, both: it decides about eviction only.
        if self.used_ms.load(Ordering::Relaxed) < now_ms {
            self.used_ms.store(now_ms, Ordering::Relaxed);
        }
    }
}

/// A script that may be evicted.
#[derive(Debug)]
struct Evaluated {
    script: Arc<CachedScript>,
    /// Breaks ties of the times of use.
    number: u64,
}

/// Scripts by their origin; none has both.
#[derive(Debug, Default)]
struct State {
    loaded: HashMap<Digest, Arc<CachedScript>>,
    /// At most [`EVALUATED_SCRIPTS_MAX`].
    evaluated: HashMap<Digest, Evaluated>,
    next_number: u64,
    source_bytes: usize,
}

impl State {
    fn find(&self, digest: &Digest) -> Option<&Arc<CachedScript>> {
        let evaluated = || self.evaluated.get(digest).map(|entry| &entry.script);
        self.loaded.get(digest).or_else(evaluated)
    }

    fn count(&self) -> usize {
        self.loaded.len() + self.evaluated.len()
    }

    fn insert(&mut self, script: Arc<CachedScript>, origin: Origin) {
        match origin {
            Origin::Loaded => {
                self.loaded.insert(script.digest, script);
            }
            Origin::Evaluated => {
                self.next_number += 1;
                let number = self.next_number;
                self.evaluated.insert(script.digest, Evaluated { script, number });
            }
        }
    }

    /// Scripts of which one is evicted, all of them looked at.
    fn candidates(&self) -> impl Iterator<Item = &Evaluated> {
        self.evaluated.values()
    }

    /// Takes out the evaluated script that was least recently used.
    fn take_oldest(&mut self) -> Option<Arc<CachedScript>> {
        // Relaxed: a worker that uses it at this moment finds it gone at the next use.
        let oldest = self
            .candidates()
            .min_by_key(|entry| (entry.script.used_ms.load(Ordering::Relaxed), entry.number));
        let digest = oldest?.script.digest;
        self.evaluated.remove(&digest).map(|entry| entry.script)
    }
}

/// All cached scripts. Its mutex is held for moments, and taken when a worker meets a script that
/// it has not compiled.
#[derive(Debug, Default)]
pub(crate) struct Cache {
    state: Mutex<State>,
    /// Number of scripts that were removed, for workers that keep what they compiled of them.
    removals: AtomicU64,
    /// Number of times that all scripts were removed, for workers to give the memory back.
    flushes: AtomicU64,
    evictions: AtomicU64,
    /// Bytes that they take, as of the last change.
    bytes: AtomicU64,
}

impl Cache {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The script of a digest.
    pub(crate) fn find(&self, digest: &Digest) -> Option<Arc<CachedScript>> {
        self.state().find(digest).cloned()
    }

    /// Adds a script that compiles, or finds it; evicts another one when there are too many.
    pub(crate) fn add(
        &self,
        source: &[u8],
        flags: Option<Flags>,
        (origin, now_ms): (Origin, u64),
    ) -> Arc<CachedScript> {
        let digest = digest(source);
        let mut state = self.state();
        if let Some(script) = state.find(&digest).cloned() {
            if origin == Origin::Loaded && state.evaluated.remove(&digest).is_some() {
                state.insert(Arc::clone(&script), Origin::Loaded);
            }
            script.note_use(now_ms);
            return script;
        }
        if origin == Origin::Evaluated && state.evaluated.len() >= EVALUATED_SCRIPTS_MAX {
            self.evict(&mut state);
        }
        let script = Arc::new(CachedScript {
            digest,
            source: source.into(),
            flags,
            undeclared: UndeclaredKeys::default(),
            is_gone: AtomicBool::new(false),
            used_ms: AtomicU64::new(now_ms),
        });
        state.source_bytes += source.len();
        state.insert(Arc::clone(&script), origin);
        self.show_bytes(&state);
        script
    }

    fn evict(&self, state: &mut State) {
        let Some(script) = state.take_oldest() else { return };
        state.source_bytes -= script.source.len();
        self.show_bytes(state);
        script.remove();
        // Relaxed, both: a statistic, and a hint to free memory.
        self.evictions.fetch_add(1, Ordering::Relaxed);
        self.removals.fetch_add(1, Ordering::Relaxed);
    }

    /// Removes all scripts.
    pub(crate) fn flush(&self) {
        let mut state = self.state();
        let removed = std::mem::take(&mut *state);
        self.show_bytes(&state);
        drop(state);
        let evaluated = removed.evaluated.values().map(|entry| &entry.script);
        removed.loaded.values().chain(evaluated).for_each(|script| script.remove());
        // Relaxed, both: hints to free memory.
        self.removals.fetch_add(removed.count() as u64, Ordering::Relaxed);
        self.flushes.fetch_add(1, Ordering::Relaxed);
    }

    /// Number of times that all scripts were removed.
    pub(crate) fn flushes(&self) -> u64 {
        // Relaxed: a hint to free memory.
        self.flushes.load(Ordering::Relaxed)
    }

    /// Number of scripts that were removed so far.
    pub(crate) fn removals(&self) -> u64 {
        // Relaxed: a hint to free memory.
        self.removals.load(Ordering::Relaxed)
    }

    /// Number of scripts that were evicted.
    pub(crate) fn evictions(&self) -> u64 {
        // Relaxed: a statistic.
        self.evictions.load(Ordering::Relaxed)
    }

    /// Begins to count evictions anew: `CONFIG RESETSTAT`.
    pub(crate) fn reset_evictions(&self) {
        // Relaxed: a statistic.
        self.evictions.store(0, Ordering::Relaxed);
    }

    /// Number of scripts.
    pub(crate) fn count(&self) -> usize {
        self.state().count()
    }

    /// Bytes that they take.
    pub(crate) fn bytes(&self) -> u64 {
        // Relaxed, also below: a statistic.
        self.bytes.load(Ordering::Relaxed)
    }

    fn show_bytes(&self, state: &State) {
        let bytes = state.source_bytes + state.count() * CACHED_SCRIPT_BYTES;
        self.bytes.store(bytes as u64, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digest_of_a_text_is_that_of_its_letters_in_either_case() {
        let text = b"e0E1f9fabfc9d4800c877a703b823ac0578ff8DB";
        let digest = parse_digest(text).expect("it is one");
        assert_eq!(digest, tidemill_script::digest(b"return 1"));
        assert_eq!(hexadecimal(&digest).as_bytes(), text.to_ascii_lowercase());
        assert_eq!(digits_of(&digest)[..], text.to_ascii_lowercase());
        for wrong in [&b""[..], b"e0", &[b'g'; 40], &[b'0'; 41], "é".repeat(20).as_bytes()] {
            assert_eq!(parse_digest(wrong), None);
        }
    }

    #[test]
    fn least_recently_used_evaluated_script_is_evicted_and_loaded_ones_stay() {
        let cache = Cache::default();
        let loaded = cache.add(b"return 'loaded'", None, (Origin::Loaded, 0));
        let source = |number: usize| format!("return {number}").into_bytes();
        let scripts: Vec<_> = (0..EVALUATED_SCRIPTS_MAX)
            .map(|number| cache.add(&source(number), None, (Origin::Evaluated, 1)))
            .collect();
        scripts[0].note_use(2);
        assert_eq!(cache.evictions(), 0);
        cache.add(b"return 'one more'", None, (Origin::Evaluated, 3));
        assert_eq!((cache.evictions(), cache.count()), (1, EVALUATED_SCRIPTS_MAX + 1));
        assert!(scripts[1].is_gone() && cache.find(&scripts[1].digest).is_none());
        assert!(!scripts[0].is_gone() && !loaded.is_gone());
        // A load of an evaluated script makes it stay.
        cache.add(&source(2), None, (Origin::Loaded, 4));
        cache.add(b"return 'two more'", None, (Origin::Evaluated, 5));
        cache.add(b"return 'three more'", None, (Origin::Evaluated, 5));
        assert!(!scripts[2].is_gone() && scripts[3].is_gone());
        // An evaluation of a loaded script does not let it be evicted.
        cache.add(b"return 'loaded'", None, (Origin::Evaluated, 0));
        assert_eq!((cache.evictions(), cache.count()), (2, EVALUATED_SCRIPTS_MAX + 2));
        cache.flush();
        assert!(loaded.is_gone() && scripts[0].is_gone());
        assert_eq!((cache.count(), cache.bytes()), (0, 0));
        cache.add(&source(2), None, (Origin::Evaluated, 6));
        assert_eq!((cache.count(), cache.state().evaluated.len()), (1, 1));
    }

    #[test]
    fn eviction_looks_at_evaluated_scripts_alone() {
        let cache = Cache::default();
        for number in 0..20_000 {
            let source = format!("return {number}");
            let origin = if number % 2 == 0 { Origin::Loaded } else { Origin::Evaluated };
            cache.add(source.as_bytes(), None, (origin, number));
        }
        assert_eq!(cache.count(), 10_000 + EVALUATED_SCRIPTS_MAX);
        assert_eq!(cache.evictions(), 10_000 - EVALUATED_SCRIPTS_MAX as u64);
        // The bound tells of scripts that a filter would pass over, too.
        assert_eq!(cache.state().candidates().size_hint().1, Some(EVALUATED_SCRIPTS_MAX));
    }
}
