//! Watchers and blocked clients of a slot, which the engine keeps under the slot's lock.

use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use smallvec::SmallVec;
use tidemill_store::Kind;

use crate::slots::tracked::TrackedKeys;
use crate::slots::waiter::Waiter;
use crate::tables::give_back;

/// Set when a watched key changed: `EXEC` then refuses to run.
#[derive(Debug, Default)]
pub struct WatchFlag {
    dirty: AtomicBool,
    /// A command changed a key itself, so the session shows no watched keys any more. Those of a
    /// database that was emptied or exchanged are shown on, as in Valkey.
    shows_none: AtomicBool,
}

impl WatchFlag {
    /// A watched key changed.
    pub fn set(&self) {
        // Release: pairs with the Acquire in `is_set`; set under the slot's lock, read under it as
        // well.
        self.dirty.store(true, Ordering::Release);
    }

    /// A command changed a watched key itself.
    fn set_by_key(&self) {
        // Relaxed: for others' information only.
        self.shows_none.store(true, Ordering::Relaxed);
        self.set();
    }

    /// True if the watched keys are shown no more.
    pub(crate) fn shows_none(&self) -> bool {
        // Relaxed: for others' information only.
        self.shows_none.load(Ordering::Relaxed)
    }

    /// True once a watched key changed.
    #[must_use]
    pub fn is_set(&self) -> bool {
        self.dirty.load(Ordering::Acquire)
    }
}

/// Session that watches a key.
#[derive(Debug)]
pub struct Watcher {
    flag: Arc<WatchFlag>,
    /// The key's time was over when it was watched, and it has been there since.
    was_expired: bool,
}

/// Fate of a watched key when its database was emptied or exchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replaced {
    /// The key is in neither database.
    Unaffected,
    /// It is gone.
    Gone,
    /// One whose time is over came in the place of one.
    Expired,
    /// One whose time is over came where there was none.
    NewExpired,
    /// It has another value now.
    Changed,
}

impl Watcher {
    /// Judges an exchange: what was expired and is gone or expired again did not change.
    fn replaced(&mut self, outcome: Replaced) {
        match (outcome, self.was_expired) {
            (Replaced::Unaffected, _) | (Replaced::Expired, true) => {}
            (Replaced::Gone, true) => self.was_expired = false,
            (Replaced::NewExpired, false) => self.was_expired = true,
            _ => self.flag.set(),
        }
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

    fn contains(&self, database: usize, key: &[u8]) -> bool {
        let values = self.values.get(key);
        values.is_some_and(|values| values.iter().any(|(of, _)| *of == database))
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
            give_back(&mut self.values);
        }
        Some(value)
    }

    fn len(&self) -> usize {
        self.values.values().map(SmallVec::len).sum()
    }

    fn iter(&self) -> impl Iterator<Item = (usize, &[u8], &V)> {
        self.values.iter().flat_map(|(key, values)| {
            values.iter().map(move |(database, value)| (*database, &**key, value))
        })
    }
}

/// The place of a session's flag among the watchers of a key, or where it belongs.
fn find_watcher(watchers: &[Watcher], flag: &Arc<WatchFlag>) -> Result<usize, usize> {
    watchers.binary_search_by_key(&Arc::as_ptr(flag), |watcher| Arc::as_ptr(&watcher.flag))
}

/// The engine's part of a slot.
#[derive(Debug, Default)]
pub struct SlotRegistry {
    /// By the address of the flag: a session has one, and watches a key once.
    watchers: KeyMap<Vec<Watcher>>,
    /// Waiters for lists and for sorted sets. Only those for the kind that a key has are of use,
    /// and the first of them tells for all.
    list_waiters: KeyMap<Queue>,
    sorted_set_waiters: KeyMap<Queue>,
    /// Waiters that need not have something where others of their key have: those for streams. Each
    /// is looked at, while of the others the first tells for all.
    choosy_waiters: KeyMap<Queue>,
    /// Keys that clients keep copies of.
    pub tracked: TrackedKeys,
}

/// Waiters for a key by the number of the wait. Numbers are drawn under the locks of all keys that
/// are waited for, so those of one key ascend in the order of arrival.
type Queue = BTreeMap<u64, Arc<Waiter>>;

impl SlotRegistry {
    /// Registers a watched key; its time may be over already.
    pub fn watch(&mut self, database: usize, key: &[u8], flag: &Arc<WatchFlag>, was_expired: bool) {
        let watchers = self.watchers.entry(database, key);
        if let Err(index) = find_watcher(watchers, flag) {
            watchers.insert(index, Watcher { flag: Arc::clone(flag), was_expired });
        }
    }

    /// True if a key's time was over when a session began to watch it, and it has been there since.
    pub fn was_expired(&mut self, database: usize, key: &[u8], flag: &Arc<WatchFlag>) -> bool {
        let watchers = self.watchers.find(database, key).map_or(&[][..], |watchers| watchers);
        find_watcher(watchers, flag).is_ok_and(|index| watchers[index].was_expired)
    }

    /// Removes what a session registered for a key.
    pub fn unwatch(&mut self, database: usize, key: &[u8], flag: &Arc<WatchFlag>) {
        if let Some(watchers) = self.watchers.find(database, key) {
            if let Ok(index) = find_watcher(watchers, flag) {
                watchers.remove(index);
            }
            if watchers.is_empty() {
                self.watchers.remove(database, key);
            }
        }
    }

    /// A key changed: marks everybody who watches it.
    pub fn touch(&mut self, database: usize, key: &[u8]) {
        if let Some(watchers) = self.watchers.remove(database, key) {
            watchers.iter().for_each(|watcher| watcher.flag.set_by_key());
        }
    }

    /// A key was deleted because its time was over: nothing changes for who watched it when it was
    /// over already.
    pub fn touch_expired(&mut self, database: usize, key: &[u8]) {
        let Some(watchers) = self.watchers.find(database, key) else { return };
        watchers.retain_mut(|watcher| {
            if !watcher.was_expired {
                watcher.flag.set_by_key();
            }
            std::mem::take(&mut watcher.was_expired)
        });
        if watchers.is_empty() {
            self.watchers.remove(database, key);
        }
    }

    /// Databases are emptied or exchanged: tells every watcher what becomes of its key.
    pub fn replace_watched(&mut self, mut outcome: impl FnMut(usize, &[u8]) -> Replaced) {
        for (key, values) in &mut self.watchers.values {
            for (database, watchers) in values {
                let outcome = outcome(*database, key);
                watchers.iter_mut().for_each(|watcher| watcher.replaced(outcome));
            }
        }
    }

    /// True if no key is watched, waited for or tracked.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.watchers.values.is_empty()
            && self.list_waiters.values.is_empty()
            && self.sorted_set_waiters.values.is_empty()
            && self.choosy_waiters.values.is_empty()
            && self.tracked.is_empty()
    }

    /// Puts a waiter behind those that wait for a key already.
    pub fn wait(&mut self, database: usize, key: &[u8], waiter: &Arc<Waiter>) {
        let waiters = match (waiter.block.answers, waiter.block.kind) {
            (Some(_), _) => &mut self.choosy_waiters,
            (None, kind) => self.waiters_for(kind).expect("lists and sorted sets are waited for"),
        };
        // A key that a command names twice is waited for once.
        waiters.entry(database, key).insert(waiter.id, Arc::clone(waiter));
    }

    /// The next who still waits for a key and need not have something where others have, behind the
    /// wait of a number.
    pub fn choosy_waiter_behind(
        &mut self,
        database: usize,
        key: &[u8],
        id: Option<u64>,
    ) -> Option<Arc<Waiter>> {
        let queue = self.choosy_waiters.find(database, key)?;
        let behind = (id.map_or(Bound::Unbounded, Bound::Excluded), Bound::Unbounded);
        queue.range(behind).map(|(_, waiter)| waiter).find(|waiter| waiter.is_waiting()).cloned()
    }

    /// Waiters for keys of a kind of which the first tells for all.
    fn waiters_for(&mut self, kind: Kind) -> Option<&mut KeyMap<Queue>> {
        match kind {
            Kind::List => Some(&mut self.list_waiters),
            Kind::SortedSet => Some(&mut self.sorted_set_waiters),
            _ => None,
        }
    }

    /// The first who still waits for a key of a kind. Those who do not are forgotten; their worker
    /// is about to take them back.
    pub fn first_waiter(&mut self, database: usize, key: &[u8], kind: Kind) -> Option<Arc<Waiter>> {
        let waiters = self.waiters_for(kind)?;
        let queue = waiters.find(database, key)?;
        while let Some(first) = queue.first_entry() {
            if first.get().is_waiting() {
                return Some(Arc::clone(first.get()));
            }
            first.remove();
        }
        waiters.remove(database, key);
        None
    }

    /// Removes a wait from the queue of a key.
    pub fn stop_waiting(&mut self, database: usize, key: &[u8], id: u64) {
        let all = [&mut self.list_waiters, &mut self.sorted_set_waiters, &mut self.choosy_waiters];
        for waiters in all {
            if let Some(queue) = waiters.find(database, key) {
                queue.remove(&id);
                if queue.is_empty() {
                    waiters.remove(database, key);
                }
            }
        }
    }

    /// Queues of waiters of all kinds.
    fn queues(&self) -> [&KeyMap<Queue>; 3] {
        [&self.list_waiters, &self.sorted_set_waiters, &self.choosy_waiters]
    }

    /// Keys that are watched, and keys that are waited for, once for each kind.
    #[must_use]
    pub fn key_counts(&self) -> (usize, usize) {
        (self.watchers.len(), self.queues().map(KeyMap::len).iter().sum())
    }

    /// True if a client waits for a key.
    pub fn has_waiters(&self, database: usize, key: &[u8]) -> bool {
        self.queues().iter().any(|waiters| waiters.contains(database, key))
    }

    /// All keys that somebody waits for.
    pub fn waited_for(&self) -> impl Iterator<Item = (usize, &[u8])> {
        let waiters = self.queues().into_iter().flat_map(KeyMap::iter);
        waiters.map(|(database, key, _)| (database, key))
    }
}
