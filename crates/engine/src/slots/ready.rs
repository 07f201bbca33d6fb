//! Keys that were written and that somebody waits for.

use std::collections::HashMap;
use std::hash::{Hash, Hasher};

use tidemill_store::KeyHash;

/// A key that was written and that somebody waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ReadyKey {
    pub(crate) database: usize,
    pub(crate) key: Box<[u8]>,
    pub(crate) key_hash: KeyHash,
}

impl Hash for ReadyKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.database, &self.key).hash(state);
    }
}

/// Most keys that are compared one by one; more are looked up in a map.
const COMPARED_KEYS_MAX: usize = 16;

/// Keys in the order in which they became ready, each once among those whose waiters are still to
/// be looked at. One that becomes ready behind its turn gets another.
#[derive(Debug, Default)]
pub(crate) struct ReadyKeys {
    keys: Vec<ReadyKey>,
    /// The last places of all keys, once they are many.
    places: HashMap<ReadyKey, usize>,
    /// Number of keys whose turn is over.
    passed: usize,
}

impl ReadyKeys {
    pub(crate) fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// The key at `index`, whose turn begins; that of those before it is over.
    pub(crate) fn begin(&mut self, index: usize) -> Option<ReadyKey> {
        self.passed = index;
        self.keys.get(index).cloned()
    }

    /// The place of a key whose turn is not over.
    pub(crate) fn position(&self, key: &ReadyKey) -> Option<usize> {
        if self.places.is_empty() {
            let mut keys = self.keys.iter().enumerate().skip(self.passed);
            return keys.find(|&(_, other)| other == key).map(|(index, _)| index);
        }
        self.places.get(key).copied().filter(|&index| index >= self.passed)
    }

    /// Adds a key unless it is there and its turn is not over.
    pub(crate) fn push(&mut self, key: ReadyKey) {
        if self.position(&key).is_some() {
            return;
        }
        if self.keys.len() >= COMPARED_KEYS_MAX {
            if self.places.is_empty() {
                let keys = self.keys.iter().enumerate();
                self.places.extend(keys.map(|(index, key)| (key.clone(), index)));
            }
            self.places.insert(key.clone(), self.keys.len());
        }
        self.keys.push(key);
    }

    pub(crate) fn clear(&mut self) {
        self.keys.clear();
        self.places = HashMap::new();
        self.passed = 0;
    }

    /// Takes all keys out.
    pub(crate) fn take(&mut self) -> Vec<ReadyKey> {
        let keys = std::mem::take(&mut self.keys);
        self.clear();
        keys
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_key_is_there_once_and_in_order_however_many() {
        let key = |number: usize| ReadyKey {
            database: number % 2,
            key: number.to_string().into_bytes().into(),
            key_hash: KeyHash::default(),
        };
        let mut ready = ReadyKeys::default();
        for number in 0..100 {
            for known in 0..=number {
                ready.push(key(known));
            }
            for known in 0..=number {
                assert_eq!(ready.position(&key(known)), Some(known));
            }
            assert_eq!(ready.position(&key(number + 1)), None);
        }
        assert_eq!(ready.take(), (0..100).map(key).collect::<Vec<_>>());
        assert!(ready.is_empty() && ready.position(&key(1)).is_none());
    }

    #[test]
    fn a_key_that_becomes_ready_behind_its_turn_is_there_again() {
        for others in [1, 100] {
            let key = |number: usize| ReadyKey {
                database: 0,
                key: number.to_string().into_bytes().into(),
                key_hash: KeyHash::default(),
            };
            let mut ready = ReadyKeys::default();
            (0..=others).for_each(|number| ready.push(key(number)));
            assert_eq!(ready.begin(0), Some(key(0)));
            ready.push(key(0));
            assert_eq!(ready.position(&key(0)), Some(0), "it is looked at now");
            assert_eq!(ready.begin(1), Some(key(1)));
            for _ in 0..2 {
                ready.push(key(0));
                ready.push(key(others));
            }
            assert_eq!(ready.position(&key(0)), Some(others + 1));
            assert_eq!(ready.begin(others + 1), Some(key(0)));
            assert_eq!(ready.begin(others + 2), None);
        }
    }
}
