//! Invalidations: what clients that keep copies of keys are told (`CLIENT TRACKING`), and the
//! prefixes of keys of which some are told all changes (`BCAST`).

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use smallvec::SmallVec;
use tidemill_resp::encode::ReplyBuffer;

use super::counts::SubscriberCounts;
use super::lanes::{Delivery, Lanes};
use super::patterns::each_prefix;
use crate::limits::SHARED_PREFIX_BYTES;

/// Channel by which a subscriber in RESP2 gets what another client is to be told.
pub const INVALIDATION_CHANNEL: &[u8] = b"__redis__:invalidate";

/// A change that is told by prefix.
#[derive(Clone, Debug)]
pub struct ChangedKey {
    /// The key.
    pub key: Arc<[u8]>,
    /// Session whose change was the last; 0 for the server's own.
    pub session: u64,
}

/// Changes of keys with one prefix, each key once.
#[derive(Debug)]
pub struct Broadcast {
    pub(super) prefix: Arc<[u8]>,
    pub(super) keys: Vec<ChangedKey>,
}

impl Broadcast {
    /// Bytes of all its keys.
    pub(super) fn key_bytes(&self) -> usize {
        self.keys.iter().map(|changed| changed.key.len() + size_of::<ChangedKey>()).sum()
    }
}

/// Keys that are not as they were.
#[derive(Clone, Debug)]
pub enum Invalidated {
    /// One key.
    Key(Arc<[u8]>),
    /// Keys of a prefix, but for those that a session changed itself; 0 for all of them.
    Keys {
        /// The changes.
        broadcast: Arc<Broadcast>,
        /// The session.
        except: u64,
    },
    /// All keys.
    All,
}

impl Invalidated {
    /// True if no key is left to be told.
    pub(super) fn is_empty(&self) -> bool {
        match self {
            Invalidated::Keys { broadcast, except } => {
                broadcast.keys.iter().all(|changed| is_left_out(changed, *except))
            }
            Invalidated::Key(_) | Invalidated::All => false,
        }
    }

    /// Bytes of the keys.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Invalidated::Key(key) => key.len(),
            Invalidated::Keys { broadcast, .. } => broadcast.key_bytes(),
            Invalidated::All => 0,
        }
    }

    /// Writes the keys as an array, or null for all.
    pub(super) fn write(&self, buffer: &mut ReplyBuffer) {
        match self {
            Invalidated::Key(key) => {
                buffer.array(1);
                buffer.bulk(key);
            }
            Invalidated::Keys { broadcast, except } => {
                let told = || broadcast.keys.iter().filter(|key| !is_left_out(key, *except));
                buffer.array(told().count());
                told().for_each(|changed| buffer.bulk(&changed.key));
            }
            Invalidated::All => buffer.null(),
        }
    }
}

fn is_left_out(changed: &ChangedKey, except: u64) -> bool {
    except != 0 && changed.session == except
}

#[derive(Debug)]
struct Listeners {
    prefix: Arc<[u8]>,
    counts: SubscriberCounts,
}

/// Prefixes of which somebody is told all changes, by worker.
#[derive(Debug, Default)]
pub struct Prefixes {
    listeners: RwLock<BTreeMap<Box<[u8]>, Listeners>>,
    count: AtomicUsize,
    bytes: AtomicU64,
}

/// Memory of a prefix. Its name is there twice: for its clients, and where changes look it up.
fn bytes_of(prefix: &[u8]) -> u64 {
    (2 * prefix.len() + SHARED_PREFIX_BYTES) as u64
}

impl Prefixes {
    /// Number of prefixes.
    #[must_use]
    #[inline]
    pub fn count(&self) -> usize {
        // Relaxed: who begins to listen reads each key under its slot's lock, and a change looks
        // here under it. So either the reader finds the change, or the change finds the count.
        self.count.load(Ordering::Relaxed)
    }

    /// Bytes that they take, beside what counts with clients.
    pub(crate) fn bytes(&self) -> u64 {
        // Relaxed, also below: a statistic.
        self.bytes.load(Ordering::Relaxed)
    }

    /// One more listener at a worker; returns the prefix as it is kept.
    pub fn add(&self, prefix: &[u8], worker: usize) -> Arc<[u8]> {
        let mut listeners = self.listeners.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(listeners) = listeners.get_mut(prefix) {
            listeners.counts.add(worker);
            return Arc::clone(&listeners.prefix);
        }
        let shared: Arc<[u8]> = prefix.into();
        let mut counts = SubscriberCounts::default();
        counts.add(worker);
        listeners.insert(prefix.into(), Listeners { prefix: Arc::clone(&shared), counts });
        // Relaxed: as in `count`.
        self.count.store(listeners.len(), Ordering::Relaxed);
        self.bytes.fetch_add(bytes_of(prefix), Ordering::Relaxed);
        shared
    }

    /// One listener less at a worker.
    pub fn remove(&self, prefix: &[u8], worker: usize) {
        let mut listeners = self.listeners.write().unwrap_or_else(PoisonError::into_inner);
        if listeners.get_mut(prefix).is_some_and(|listeners| listeners.counts.remove(worker)) {
            listeners.remove(prefix);
            self.count.store(listeners.len(), Ordering::Relaxed);
            self.bytes.fetch_sub(bytes_of(prefix), Ordering::Relaxed);
        }
    }

    /// Posts changes to the listeners of their prefixes, once per prefix and worker.
    pub fn post(&self, lanes: &Lanes, changes: &[ChangedKey]) {
        let listeners = self.listeners.read().unwrap_or_else(PoisonError::into_inner);
        let mut by_prefix: HashMap<*const u8, (&Listeners, Vec<usize>)> = HashMap::new();
        // The last change of a key tells for all of them.
        let last: HashMap<&[u8], usize> =
            changes.iter().enumerate().map(|(index, changed)| (&*changed.key, index)).collect();
        for (index, changed) in changes.iter().enumerate() {
            if last.get(&*changed.key) != Some(&index) {
                continue;
            }
            each_prefix(&listeners, &changed.key, &mut |listeners| {
                let address = Arc::as_ptr(&listeners.prefix).cast::<u8>();
                by_prefix.entry(address).or_insert((listeners, Vec::new())).1.push(index);
            });
        }
        for (listeners, indices) in by_prefix.into_values() {
            let keys = indices.into_iter().map(|index| changes[index].clone()).collect();
            let prefix = Arc::clone(&listeners.prefix);
            let broadcast = Arc::new(Broadcast { prefix, keys });
            let workers: SmallVec<[usize; 8]> = listeners.counts.workers().collect();
            for worker in workers {
                lanes.post(worker, Delivery::Broadcast(Arc::clone(&broadcast)));
            }
        }
    }
}
