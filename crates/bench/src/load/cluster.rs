//! Redis Cluster: owners of slots, to the extent that the load needs.
//!
//! Each client of the load has a connection to every master, and each connection draws only keys
//! whose slot its node owns. MOVED changes the owner for all connections at once and, when it names
//! an unknown node, has the map read again. Like memtier, a redirected request is counted and not
//! sent again; ASK changes nothing, since the slot has not moved yet.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crc::{CRC_16_XMODEM, Crc};

use crate::limits::{KEY_DRAWS_MAX, KEYS_SAMPLED_MAX};
use crate::load::control::{Control, Reply};
use crate::load::keys::{KeySource, Random};
use crate::load::settings::{Endpoint, Keys, Target};

const SLOTS: usize = 16_384;
const HASH: Crc<u16> = Crc::<u16>::new(&CRC_16_XMODEM);
/// Owner of a slot that no master serves.
const NOBODY: u16 = u16::MAX;

/// Slot of a key: hash of the bytes between its first `{` and the next `}`, if there are any,
/// otherwise of all of it.
fn slot_of(key: &[u8]) -> usize {
    usize::from(HASH.checksum(tag(key).unwrap_or(key))) % SLOTS
}

fn tag(key: &[u8]) -> Option<&[u8]> {
    let open = memchr::memchr(b'{', key)? + 1;
    let length = memchr::memchr(b'}', &key[open..])?;
    (length > 0).then(|| &key[open..open + length])
}

/// Slots of the keys that differ from each other by a number after their prefix.
#[derive(Debug)]
enum Hashing {
    /// The prefix holds a tag: all keys share a slot.
    Constant(usize),
    /// Hash of the prefix, to go on from.
    Prefix(u16),
}

/// The slot map that all threads share.
#[derive(Debug)]
pub(super) struct Cluster {
    /// Index into `nodes`. Relaxed: a stale owner costs a redirection, which is counted.
    owners: Vec<AtomicU16>,
    /// Masters, in the order they became known; none is ever removed, so that indices stay.
    nodes: Mutex<Vec<Endpoint>>,
    hashing: Hashing,
    is_stale: AtomicBool,
}

impl Cluster {
    /// Asks the target for its slots.
    ///
    /// # Errors
    /// When it cannot be reached or is no node of a cluster.
    pub fn discover(target: &Target, prefix: &str) -> io::Result<Self> {
        let hashing = match tag(prefix.as_bytes()) {
            Some(_) => Hashing::Constant(slot_of(prefix.as_bytes())),
            None => Hashing::Prefix(HASH.checksum(prefix.as_bytes())),
        };
        let cluster = Self {
            owners: (0..SLOTS).map(|_| AtomicU16::new(NOBODY)).collect(),
            nodes: Mutex::new(Vec::new()),
            hashing,
            is_stale: AtomicBool::new(false),
        };
        cluster.learn(target, &target.endpoint)?;
        match cluster.nodes().is_empty() {
            true => Err(io::Error::other("the cluster serves no slots")),
            false => Ok(cluster),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Endpoint>> {
        // A list of endpoints is whole even when a thread died while it held the lock.
        self.nodes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The masters known so far.
    pub fn nodes(&self) -> Vec<Endpoint> {
        self.lock().clone()
    }

    fn index_of(&self, endpoint: Endpoint) -> u16 {
        let mut nodes = self.lock();
        let index = nodes.iter().position(|known| *known == endpoint).unwrap_or_else(|| {
            nodes.push(endpoint);
            nodes.len() - 1
        });
        index.min(usize::from(NOBODY) - 1) as u16
    }

    fn learn(&self, target: &Target, endpoint: &Endpoint) -> io::Result<()> {
        let reply = Control::connect_to(target, endpoint)?.call(&["CLUSTER", "SLOTS"])?;
        let Reply::Array(ranges) = reply else {
            let text = if let Reply::Error(text) = reply { text } else { "not a list".into() };
            return Err(io::Error::other(format!("CLUSTER SLOTS: {text}")));
        };
        for range in &ranges {
            let (first, last, node) = parse_range(range, endpoint)
                .ok_or_else(|| io::Error::other("CLUSTER SLOTS: not a range of slots"))?;
            let index = self.index_of(node);
            for owner in &self.owners[first..=last] {
                owner.store(index, Ordering::Relaxed);
            }
        }
        Ok(())
    }

    /// Reads the map again if something suggested that it is stale. Blocks; asks the masters in
    /// turn until one answers.
    pub fn refresh(&self, target: &Target) {
        // Relaxed: the thread that takes the flag refreshes, nothing else hangs on it.
        if self.is_stale.swap(false, Ordering::Relaxed) {
            let _ = self.nodes().iter().any(|node| self.learn(target, node).is_ok());
        }
    }

    /// Has the map read again before long.
    pub fn suspect(&self) {
        self.is_stale.store(true, Ordering::Relaxed);
    }

    /// Follows the text of a MOVED error: `MOVED slot host:port`.
    pub fn follow(&self, text: &str, asked: &Endpoint) {
        let mut words = text.split(' ').skip(1);
        let slot = words.next().and_then(|slot| slot.parse::<usize>().ok());
        let address = words.next().and_then(|address| address.rsplit_once(':'));
        let (Some(slot), Some((host, port))) = (slot.filter(|&slot| slot < SLOTS), address) else {
            return self.suspect();
        };
        let Ok(port) = port.parse() else { return self.suspect() };
        let moved_to = endpoint(host, port, asked);
        match self.lock().iter().position(|known| *known == moved_to) {
            Some(index) => self.owners[slot].store(index as u16, Ordering::Relaxed),
            None => self.suspect(),
        }
    }

    /// The node that owns the slot of a key number.
    fn owner(&self, number: u64) -> u16 {
        let slot = match self.hashing {
            Hashing::Constant(slot) => slot,
            Hashing::Prefix(hash) => {
                let mut digest = HASH.digest_with_initial(hash);
                digest.update(itoa::Buffer::new().format(number).as_bytes());
                usize::from(digest.finalize()) % SLOTS
            }
        };
        self.owners[slot].load(Ordering::Relaxed)
    }

    /// The owner of a key, as an index into `nodes`; `None` when no master serves it.
    pub fn node_of(&self, number: u64) -> Option<usize> {
        Some(self.owner(number)).filter(|&owner| owner != NOBODY).map(usize::from)
    }

    /// True if a node owns any key of the range, judged by a sample.
    pub fn has_keys(&self, node: u16, keys: &Keys) -> bool {
        let step = ((keys.maximum - keys.minimum) / KEYS_SAMPLED_MAX).max(1);
        (keys.minimum..=keys.maximum).step_by(step as usize).any(|key| self.owner(key) == node)
    }
}

fn endpoint(host: &str, port: u16, asked: &Endpoint) -> Endpoint {
    match asked {
        // A node that does not know its own address leaves it out: the one we asked it by.
        Endpoint::Tcp(known, _) if host.is_empty() || host == "?" => {
            Endpoint::Tcp(known.clone(), port)
        }
        _ => Endpoint::Tcp(host.to_string(), port),
    }
}

/// First slot, last slot, master.
fn parse_range(range: &Reply, asked: &Endpoint) -> Option<(usize, usize, Endpoint)> {
    let Reply::Array(parts) = range else { return None };
    let [Reply::Integer(first), Reply::Integer(last), Reply::Array(master), ..] = &parts[..] else {
        return None;
    };
    let [host, Reply::Integer(port), ..] = &master[..] else { return None };
    let (first, last) = (usize::try_from(*first).ok()?, usize::try_from(*last).ok()?);
    let port = u16::try_from(*port).ok()?;
    let host = host.text().unwrap_or_default();
    (first <= last && last < SLOTS).then(|| (first, last, endpoint(&host, port, asked)))
}

/// Keys of one node: others are drawn and put aside.
#[derive(Clone, Debug)]
pub struct NodeKeys {
    source: KeySource,
    cluster: std::sync::Arc<Cluster>,
    node: u16,
}

impl NodeKeys {
    pub(super) fn new(source: KeySource, cluster: std::sync::Arc<Cluster>, node: u16) -> Self {
        Self { source, cluster, node }
    }

    /// The next key of the node. When the node seems to own none any more, another's: the
    /// redirection then tells.
    pub(super) fn next(&mut self, random: &mut Random) -> u64 {
        let mut key = self.source.next(random);
        for _ in 0..KEY_DRAWS_MAX {
            if self.cluster.owner(key) == self.node {
                break;
            }
            key = self.source.next(random);
        }
        key
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Slots as `CLUSTER KEYSLOT` of Valkey 9.1 gives them.
    const SLOTS_OF: &[(&str, usize)] = &[
        ("foo", 12_182),
        ("123456789", 12_739),
        ("{user1000}.following", 3_443),
        ("foo{}{bar}", 8_363),
        ("foo{{bar}}zap", 4_015),
        ("foo{bar}{zap}", 5_061),
    ];

    #[test]
    fn slots_are_those_of_the_cluster_specification() {
        for &(key, slot) in SLOTS_OF {
            assert_eq!(slot_of(key.as_bytes()), slot, "{key}");
        }
    }

    fn map(prefix: &str) -> Cluster {
        let hashing = match tag(prefix.as_bytes()) {
            Some(_) => Hashing::Constant(slot_of(prefix.as_bytes())),
            None => Hashing::Prefix(HASH.checksum(prefix.as_bytes())),
        };
        let owners = (0..SLOTS).map(|slot| AtomicU16::new((slot / 8192) as u16)).collect();
        let nodes = [1, 2].map(|port| Endpoint::Tcp("h".into(), port)).to_vec();
        Cluster { owners, nodes: Mutex::new(nodes), hashing, is_stale: AtomicBool::new(false) }
    }

    #[test]
    fn keys_are_hashed_with_their_prefix_and_moved_changes_the_owner() {
        for prefix in ["memtier-", "a{b", "{tag}-", "{}x"] {
            let cluster = map(prefix);
            for number in 0..500 {
                let slot = slot_of(format!("{prefix}{number}").as_bytes());
                assert_eq!(cluster.node_of(number), Some(slot / 8192), "{prefix}{number}");
            }
        }
        let cluster = map("k");
        let (slot, asked) = (slot_of(b"k7"), Endpoint::Tcp("h".into(), 1));
        let other = 1 - slot / 8192;
        cluster.follow(&format!("MOVED {slot} h:{}", other + 1), &asked);
        assert_eq!(cluster.node_of(7), Some(other));
        assert!(!cluster.is_stale.load(Ordering::Relaxed));
        for wrong in ["MOVED 7 h:3", "MOVED", "MOVED 99999 h:1", "MOVED 7 h", "MOVED 7 h:port"] {
            cluster.is_stale.store(false, Ordering::Relaxed);
            cluster.follow(wrong, &asked);
            assert!(cluster.is_stale.load(Ordering::Relaxed), "{wrong}");
        }
    }
}
