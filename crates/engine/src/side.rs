//! What the engine keeps under a slot's lock: who watches a key, and who waits for one.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use smallvec::SmallVec;

use crate::blocking::Waiter;

/// Set when a watched key changed: `EXEC` then refuses to run. `dropped` when nobody looks at it any more.
#[derive(Debug, Default)]
pub struct WatchFlag {
    dirty: AtomicBool,
}

impl WatchFlag {
    /// A watched key changed.
    pub fn set(&self) {
        // Release: pairs with the Acquire in `is_set`; set under the slot's lock, read under it as well.
        self.dirty.store(true, Ordering::Release);
    }

    /// Whether a watched key changed.
    #[must_use]
    pub fn is_set(&self) -> bool {
        self.dirty.load(Ordering::Acquire)
    }
}

/// The values of one key, with their databases.
type OfKey<V> = SmallVec<[(usize, V); 1]>;

/// Values by key and database.
#[derive(Debug)]
struct KeyMap<V> {
    values: HashMap<Box<[u8]>, OfKey<V>>,
}

impl<V> Default for KeyMap<V> {
    fn default() -> Self {
        KeyMap { values: HashMap::new() }
    }
}

impl<V: Default> KeyMap<V> {
    fn find(&mut self, database: usize, key: &[u8]) -> Option<&mut V> {
        let values = self.values.get_mut(key)?;
        values.iter_mut().find(|(of, _)| *of == database).map(|(_, value)| value)
    }

    fn entry(&mut self, database: usize, key: &[u8]) -> &mut V {
        let values = self.values.entry(key.into()).or_default();
        let index = values.iter().position(|(of, _)| *of == database).unwrap_or_else(|| {
            values.push((database, V::default()));
            values.len() - 1
        });
        &mut values[index].1
    }

    fn remove(&mut self, database: usize, key: &[u8]) -> Option<V> {
        let values = self.values.get_mut(key)?;
        let index = values.iter().position(|(of, _)| *of == database)?;
        let (_, value) = values.swap_remove(index);
        if values.is_empty() {
            self.values.remove(key);
        }
        Some(value)
    }

    fn iter(&self) -> impl Iterator<Item = (usize, &[u8], &V)> {
        self.values.iter().flat_map(|(key, values)| {
            values.iter().map(move |(database, value)| (*database, &**key, value))
        })
    }
}

/// The engine's part of a slot.
#[derive(Debug, Default)]
pub struct Side {
    watchers: KeyMap<Vec<Arc<WatchFlag>>>,
    waiters: KeyMap<VecDeque<Arc<Waiter>>>,
}

impl Side {
    /// Registers a watched key.
    pub fn watch(&mut self, database: usize, key: &[u8], flag: &Arc<WatchFlag>) {
        let flags = self.watchers.entry(database, key);
        // Sessions that stopped watching leave their flags behind: a flag that only we hold is one of them.
        if flags.len() == flags.capacity() {
            flags.retain(|flag| Arc::strong_count(flag) > 1);
        }
        flags.push(Arc::clone(flag));
    }

    /// Removes what a session registered for a key.
    pub fn unwatch(&mut self, database: usize, key: &[u8], flag: &Arc<WatchFlag>) {
        if let Some(flags) = self.watchers.find(database, key) {
            flags.retain(|other| !Arc::ptr_eq(other, flag));
            if flags.is_empty() {
                self.watchers.remove(database, key);
            }
        }
    }

    /// A key changed: marks everybody who watches it.
    pub fn touch(&mut self, database: usize, key: &[u8]) {
        if let Some(flags) = self.watchers.remove(database, key) {
            flags.iter().for_each(|flag| flag.set());
        }
    }

    /// All watched keys with who watches them.
    pub fn watched(&self) -> impl Iterator<Item = (usize, &[u8], &[Arc<WatchFlag>])> {
        self.watchers.iter().map(|(database, key, flags)| (database, key, flags.as_slice()))
    }

    /// Whether anybody watches or waits.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.watchers.values.is_empty() && self.waiters.values.is_empty()
    }

    /// Puts a waiter behind those that wait for a key already.
    pub fn wait(&mut self, database: usize, key: &[u8], waiter: &Arc<Waiter>) {
        let queue = self.waiters.entry(database, key);
        if queue.len() == queue.capacity() {
            queue.retain(|waiter| waiter.is_waiting());
        }
        queue.push_back(Arc::clone(waiter));
    }

    /// The first who still waits for a key. Those who do not are forgotten.
    pub fn first_waiter(&mut self, database: usize, key: &[u8]) -> Option<Arc<Waiter>> {
        let queue = self.waiters.find(database, key)?;
        while let Some(first) = queue.front() {
            if first.is_waiting() {
                return Some(Arc::clone(first));
            }
            queue.pop_front();
        }
        self.waiters.remove(database, key);
        None
    }

    /// Removes a waiter from the queue of a key.
    pub fn stop_waiting(&mut self, database: usize, key: &[u8], waiter: &Arc<Waiter>) {
        if let Some(queue) = self.waiters.find(database, key) {
            queue.retain(|other| !Arc::ptr_eq(other, waiter));
            if queue.is_empty() {
                self.waiters.remove(database, key);
            }
        }
    }

    /// Whether anybody waits for a key.
    pub fn has_waiters(&mut self, database: usize, key: &[u8]) -> bool {
        self.waiters.find(database, key).is_some()
    }

    /// All keys that somebody waits for.
    pub fn waited_for(&self) -> impl Iterator<Item = (usize, &[u8])> {
        self.waiters.iter().map(|(database, key, _)| (database, key))
    }
}
