//! Keys that clients have read and keep copies of (`CLIENT TRACKING`), by slot, under its lock.
//!
//! A session that tracks registers each key under the key's slot lock before it reads, and a change
//! takes the registrations out under the same lock: so either the reader finds the change, or the
//! change finds the reader. Keys of all databases are one, as clients are told names only.
//!
//! Registrations of sessions that have ended are found dead and forgotten by the next who meets
//! them: a change, an eviction, or the sweep that follows the end.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use smallvec::SmallVec;

use crate::limits::TRACKED_KEY_BYTES;
use crate::tables::give_back;

/// A session that is told when keys change that it read. It stays at its worker.
#[derive(Debug)]
pub struct Tracker {
    /// The session.
    pub session: u64,
    /// Its worker.
    pub worker: usize,
    has_ended: AtomicBool,
}

impl Tracker {
    /// A tracker that is told from now on.
    #[must_use]
    pub fn new(session: u64, worker: usize) -> Arc<Tracker> {
        Arc::new(Tracker { session, worker, has_ended: AtomicBool::new(false) })
    }

    /// It is told nothing any more.
    pub fn end(&self) {
        // Relaxed, here and below: what is posted beside the end is dropped by its worker.
        self.has_ended.store(true, Ordering::Relaxed);
    }

    fn has_ended(&self) -> bool {
        self.has_ended.load(Ordering::Relaxed)
    }
}

/// Trackers of a key, by session.
pub type Trackers = SmallVec<[Arc<Tracker>; 2]>;

/// A key that was taken out, with those who are to be told.
#[derive(Debug)]
pub struct Untracked {
    /// The key.
    pub key: Arc<[u8]>,
    /// Its trackers.
    pub trackers: Trackers,
}

/// Numbers of what all slots keep.
#[derive(Debug, Default)]
pub struct TrackedTotals {
    keys: AtomicU64,
    items: AtomicU64,
    key_bytes: AtomicU64,
}

impl TrackedTotals {
    /// Keys of which somebody keeps a copy.
    #[must_use]
    pub fn keys(&self) -> u64 {
        // Relaxed, here and below: counts that order nothing.
        self.keys.load(Ordering::Relaxed)
    }

    /// Pairs of a key and a session.
    #[must_use]
    pub fn items(&self) -> u64 {
        self.items.load(Ordering::Relaxed)
    }

    /// Bytes that all slots keep, about.
    pub(crate) fn bytes(&self) -> u64 {
        let items = self.items() * size_of::<Arc<Tracker>>() as u64;
        self.key_bytes.load(Ordering::Relaxed) + self.keys() * TRACKED_KEY_BYTES + items
    }

    /// True if the caller is to take a key out, as more than `keys_max` are there; it counts as
    /// taken out then, so that several threads do not take out too many.
    fn claims_excess(&self, keys_max: u64) -> bool {
        let lowered = |keys: u64| (keys > keys_max).then(|| keys - 1);
        self.keys.fetch_update(Ordering::Relaxed, Ordering::Relaxed, lowered).is_ok()
    }

    fn unclaim(&self) {
        self.keys.fetch_add(1, Ordering::Relaxed);
    }

    fn add_key(&self, key: &[u8]) {
        self.keys.fetch_add(1, Ordering::Relaxed);
        self.key_bytes.fetch_add(key.len() as u64, Ordering::Relaxed);
    }

    fn remove_keys(&self, count: usize) {
        self.keys.fetch_sub(count as u64, Ordering::Relaxed);
    }

    fn remove_bytes(&self, key: &[u8]) {
        self.key_bytes.fetch_sub(key.len() as u64, Ordering::Relaxed);
    }

    fn add_item(&self) {
        self.items.fetch_add(1, Ordering::Relaxed);
    }

    fn remove_items(&self, count: usize) {
        self.items.fetch_sub(count as u64, Ordering::Relaxed);
    }
}

#[derive(Debug)]
struct Tracked {
    trackers: Trackers,
    /// Its number in the order of arrival.
    number: u64,
}

/// Keys of one slot that are tracked.
#[derive(Debug, Default)]
pub struct TrackedKeys {
    keys: HashMap<Arc<[u8]>, Tracked>,
    /// Keys by their numbers. A tree, so that nothing is ever tidied up in one go: whatever is done
    /// here is done under the slot's lock.
    order: BTreeMap<u64, Arc<[u8]>>,
    next_number: u64,
}

impl TrackedKeys {
    /// True if no key is tracked.
    #[must_use]
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Number of keys.
    #[must_use]
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Registers a reader of a key.
    pub fn track(&mut self, totals: &TrackedTotals, key: &[u8], tracker: &Arc<Tracker>) {
        if let Some(tracked) = self.keys.get_mut(key) {
            let trackers = &mut tracked.trackers;
            match trackers.binary_search_by_key(&tracker.session, |tracker| tracker.session) {
                // The session may have begun anew since.
                Ok(index) => trackers[index] = Arc::clone(tracker),
                Err(index) => {
                    trackers.insert(index, Arc::clone(tracker));
                    totals.add_item();
                }
            }
            return;
        }
        let key: Arc<[u8]> = key.into();
        let number = self.next_number;
        self.next_number += 1;
        self.order.insert(number, Arc::clone(&key));
        totals.add_key(&key);
        let trackers = std::iter::once(Arc::clone(tracker)).collect();
        self.keys.insert(key, Tracked { trackers, number });
        totals.add_item();
    }

    /// Takes a key out that has changed.
    pub fn untrack(&mut self, totals: &TrackedTotals, key: &[u8]) -> Option<Untracked> {
        let (key, tracked) = self.keys.remove_entry(key)?;
        self.order.remove(&tracked.number);
        totals.remove_keys(1);
        Some(self.taken_out(totals, key, tracked))
    }

    /// Takes the key out that has been there for longest, if more than `keys_max` are in all slots.
    pub fn evict(&mut self, totals: &TrackedTotals, keys_max: u64) -> Option<Untracked> {
        if self.is_empty() || !totals.claims_excess(keys_max) {
            return None;
        }
        if let Some((_, key)) = self.order.pop_first()
            && let Some((key, tracked)) = self.keys.remove_entry(&key)
        {
            return Some(self.taken_out(totals, key, tracked));
        }
        debug_assert!(false, "every key is in the order");
        totals.unclaim();
        None
    }

    fn taken_out(&mut self, totals: &TrackedTotals, key: Arc<[u8]>, tracked: Tracked) -> Untracked {
        totals.remove_items(tracked.trackers.len());
        totals.remove_bytes(&key);
        give_back(&mut self.keys);
        let mut trackers = tracked.trackers;
        trackers.retain(|tracker| !tracker.has_ended());
        Untracked { key, trackers }
    }

    /// Forgets sessions that have ended, in up to `keys_max` keys from a number in the order of
    /// arrival on. Returns how many keys it looked at, and the number to go on with; none at the
    /// end.
    pub fn forget_ended(
        &mut self,
        totals: &TrackedTotals,
        from: u64,
        keys_max: usize,
    ) -> (usize, Option<u64>) {
        let (mut looked, mut items, mut dead) = (0, 0, SmallVec::<[u64; 32]>::new());
        let mut next = None;
        for (&number, key) in self.order.range(from..) {
            if looked == keys_max {
                next = Some(number);
                break;
            }
            looked += 1;
            let Some(tracked) = self.keys.get_mut(key) else { continue };
            let before = tracked.trackers.len();
            tracked.trackers.retain(|tracker| !tracker.has_ended());
            items += before - tracked.trackers.len();
            if tracked.trackers.is_empty() {
                dead.push(number);
            }
        }
        totals.remove_items(items);
        totals.remove_keys(dead.len());
        for number in dead {
            if let Some(key) = self.order.remove(&number) {
                totals.remove_bytes(&key);
                self.keys.remove(&key);
            }
        }
        give_back(&mut self.keys);
        (looked, next)
    }

    /// Forgets all keys: everybody is told that nothing is as it was.
    pub fn clear(&mut self, totals: &TrackedTotals) {
        totals.remove_keys(self.keys.len());
        self.keys.keys().for_each(|key| totals.remove_bytes(key));
        totals.remove_items(self.keys.values().map(|tracked| tracked.trackers.len()).sum());
        *self = TrackedKeys { next_number: self.next_number, ..TrackedKeys::default() };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(untracked: &Untracked) -> (String, Vec<u64>) {
        let key = String::from_utf8_lossy(&untracked.key).into_owned();
        (key, untracked.trackers.iter().map(|tracker| tracker.session).collect())
    }

    #[test]
    fn change_takes_a_key_out_with_its_living_trackers() {
        let totals = TrackedTotals::default();
        let mut keys = TrackedKeys::default();
        let trackers: Vec<_> = (1..=3).map(|session| Tracker::new(session, 0)).collect();
        for tracker in trackers.iter().rev() {
            keys.track(&totals, b"k", tracker);
            keys.track(&totals, b"k", tracker);
        }
        assert_eq!((totals.keys(), totals.items()), (1, 3));
        trackers[1].end();
        let untracked = keys.untrack(&totals, b"k").expect("it is tracked");
        assert_eq!(names(&untracked), ("k".into(), vec![1, 3]));
        assert!(keys.untrack(&totals, b"k").is_none());
        assert_eq!((totals.keys(), totals.items(), keys.len()), (0, 0, 0));
        assert_eq!(totals.bytes(), 0);
    }

    #[test]
    fn oldest_goes_first_and_the_order_stays_small() {
        let totals = TrackedTotals::default();
        let mut keys = TrackedKeys::default();
        let tracker = Tracker::new(1, 0);
        for round in 0..1000 {
            keys.track(&totals, b"hot", &tracker);
            keys.track(&totals, format!("k{}", round % 8).as_bytes(), &tracker);
            keys.untrack(&totals, b"hot");
        }
        assert_eq!(keys.order.len(), 8);
        keys.track(&totals, b"hot", &tracker);
        assert!(keys.evict(&totals, 9).is_none(), "there are nine");
        let order: Vec<_> = std::iter::from_fn(|| keys.evict(&totals, 1))
            .map(|untracked| names(&untracked).0)
            .collect();
        assert_eq!(order, ["k0", "k1", "k2", "k3", "k4", "k5", "k6", "k7"]);
        assert_eq!((totals.keys(), totals.items()), (1, 1));
        assert_eq!(totals.bytes(), "hot".len() as u64 + TRACKED_KEY_BYTES + 8);
    }

    #[test]
    fn ended_sessions_are_forgotten() {
        let totals = TrackedTotals::default();
        let mut keys = TrackedKeys::default();
        let (ended, living) = (Tracker::new(1, 0), Tracker::new(2, 1));
        for number in 0..100 {
            keys.track(&totals, format!("k{number}").as_bytes(), &ended);
        }
        keys.track(&totals, b"k7", &living);
        ended.end();
        // In steps of 30 keys, beside which others arrive.
        let mut next = Some(0);
        let mut steps = Vec::new();
        while let Some(from) = next {
            let (looked, rest) = keys.forget_ended(&totals, from, 30);
            if steps.len() == 1 {
                keys.track(&totals, b"new", &living);
            }
            steps.push(looked);
            next = rest;
        }
        assert_eq!(steps, [30, 30, 30, 11]);
        assert_eq!((totals.keys(), totals.items(), keys.len()), (2, 2, 2));
        assert_eq!(keys.order.len(), 2);
        keys.clear(&totals);
        assert_eq!((totals.keys(), totals.items(), totals.bytes()), (0, 0, 0));
    }
}
