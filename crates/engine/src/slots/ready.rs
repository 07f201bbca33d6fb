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

/// Keys in the order in which they became ready, each once.
#[derive(Debug, Default)]
pub(crate) struct ReadyKeys {
    keys: Vec<ReadyKey>,
    /// The places of all keys, once they are many.
    places: HashMap<ReadyKey, usize>,
}

impl ReadyKeys {
    pub(crate) fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    pub(crate) fn get(&self, index: usize) -> Option<&ReadyKey> {
        self.keys.get(index)
    }

    /// The place of a key.
    pub(crate) fn position(&self, key: &ReadyKey) -> Option<usize> {
        if self.places.is_empty() {
            return self.keys.iter().position(|other| other == key);
        }
        self.places.get(key).copied()
    }

    /// Adds a key unless it is there.
    pub(crate) fn push(&mut self, key: ReadyKey) {
        if self.position(&key).is_some() {
            return;
        }
        if self.keys.len() >= COMPARED_KEYS_MAX {
            let known = self.places.len();
            let others = self.keys.iter().enumerate().skip(known);
            self.places.extend(others.map(|(index, key)| (key.clone(), index)));
            self.places.insert(key.clone(), self.keys.len());
        }
        self.keys.push(key);
    }

    pub(crate) fn clear(&mut self) {
        self.keys.clear();
        self.places = HashMap::new();
    }

    /// Takes all keys out.
    pub(crate) fn take(&mut self) -> Vec<ReadyKey> {
        self.places = HashMap::new();
        std::mem::take(&mut self.keys)
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
}
