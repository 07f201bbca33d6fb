//! Lanes: what is to be delivered to the connections of one worker, in the order of its posting.
//!
//! Anybody posts into a lane, under any lock, without waiting. The worker takes all of it at once.
//! It is woken only if it sleeps: it says so before it waits for events, looks into its lane once
//! more, and a thread that posts looks whether it sleeps. One of the two sees the other, see
//! [`handshake`].
//!
//! A lane is bounded. Over [`CROWDED_LANE_BYTES`] commands that publish wait, see
//! [`WaitTarget::Lane`](crate::slots::parking::WaitTarget). What is posted under locks does not
//! wait; from [`LANE_BYTES_MAX`] on it is dropped, and its receivers are noted as cut off: their
//! worker disconnects them instead of letting them miss a message unnoticed. So a lane holds those
//! bytes at most, and a note for each topic that has subscribers.

use std::collections::{HashSet, VecDeque};
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use smallvec::SmallVec;

use self::handshake::Handshake;
use super::TopicKind;
use super::invalidations::{Broadcast, Invalidated};
use crate::clock::Clock;
use crate::limits::{CROWDED_LANE_BYTES, DELIVERY_OVERHEAD_BYTES, LANE_BYTES_MAX};
use crate::slots::mailbox::Mailboxes;
use crate::telemetry::spread::Spread;

/// A message that was published.
#[derive(Debug)]
pub struct Publication {
    /// Kind of its channel: no pattern.
    pub(super) kind: TopicKind,
    pub(super) channel: Arc<[u8]>,
    /// True if the channel has subscribers, not only patterns that it matches.
    pub(super) is_subscribed: bool,
    pub(super) payload: Bytes,
    /// Patterns with subscribers that the channel matches.
    pub(super) patterns: Box<[Arc<[u8]>]>,
}

/// One thing to be delivered.
#[derive(Clone, Debug)]
pub enum Delivery {
    /// A line of `MONITOR`.
    Line {
        /// The session that watches.
        session: u64,
        /// The line as it is sent.
        bytes: Bytes,
    },
    /// A message, for all subscribers that the worker has.
    Message(Arc<Publication>),
    /// A key has changed.
    Invalidation {
        /// The sessions that have read it.
        sessions: SmallVec<[u64; 2]>,
        /// The key.
        key: Arc<[u8]>,
    },
    /// Keys of a prefix have changed, for all that listen to it.
    Broadcast(Arc<Broadcast>),
    /// All keys have changed, for all that track any.
    InvalidationOfAll,
    /// Another session's client is to be told by this one's.
    Redirected {
        /// The session that tells.
        session: u64,
        /// Keys that it tells of.
        invalidated: Invalidated,
    },
}

impl Delivery {
    /// Bytes that it counts in a lane: those of payload and names in full, although all lanes
    /// share them.
    fn counted_bytes(&self) -> usize {
        DELIVERY_OVERHEAD_BYTES
            + match self {
                Delivery::Line { bytes, .. } => bytes.len(),
                Delivery::Message(message) => message.channel.len() + message.payload.len(),
                Delivery::Invalidation { sessions, key } => key.len() + size_of_val(&sessions[..]),
                Delivery::Broadcast(broadcast) => broadcast.key_bytes(),
                Delivery::InvalidationOfAll => 0,
                Delivery::Redirected { invalidated, .. } => invalidated.bytes(),
            }
    }
}

/// Receivers that something was not posted for: they are to be disconnected.
#[derive(Debug, Default)]
pub struct CutOff {
    pub(super) sessions: HashSet<u64>,
    pub(super) topics: HashSet<(TopicKind, Arc<[u8]>)>,
    pub(super) prefixes: HashSet<Arc<[u8]>>,
    /// All that track anything.
    pub(super) trackers: bool,
}

impl CutOff {
    fn note(&mut self, delivery: &Delivery) {
        match delivery {
            Delivery::Line { session, .. } | Delivery::Redirected { session, .. } => {
                self.sessions.insert(*session);
            }
            Delivery::Invalidation { sessions, .. } => self.sessions.extend(sessions),
            Delivery::Broadcast(broadcast) => {
                self.prefixes.insert(Arc::clone(&broadcast.prefix));
            }
            Delivery::InvalidationOfAll => self.trackers = true,
            Delivery::Message(message) => {
                // Without this a listener to a pattern of all channels had a note for each of them.
                if message.is_subscribed {
                    self.topics.insert((message.kind, Arc::clone(&message.channel)));
                }
                let patterns = message.patterns.iter();
                self.topics
                    .extend(patterns.map(|pattern| (TopicKind::Pattern, Arc::clone(pattern))));
            }
        }
    }
}

#[derive(Debug, Default)]
struct Queue {
    deliveries: VecDeque<Delivery>,
    cut_off: CutOff,
    /// When the first of the deliveries was posted, monotonic ns.
    since_ns: u64,
}

/// The lane of one worker.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Lane {
    queue: Mutex<Queue>,
    /// Bytes in the queue. Written under its lock.
    bytes: AtomicUsize,
    handshake: Handshake,
    /// Time from the first post until the worker took all, ns. Written by the worker alone.
    delay_ns: Spread,
}

impl Lane {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The lanes of all workers.
pub struct Lanes {
    lanes: Box<[Lane]>,
    mailboxes: Arc<Mailboxes>,
    clock: Arc<dyn Clock>,
}

impl fmt::Debug for Lanes {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Lanes").field("workers", &self.lanes.len()).finish()
    }
}

impl Lanes {
    /// One lane per worker of `mailboxes`, which wake the workers.
    #[must_use]
    pub fn new(worker_count: usize, mailboxes: Arc<Mailboxes>, clock: Arc<dyn Clock>) -> Lanes {
        Lanes { lanes: (0..worker_count).map(|_| Lane::default()).collect(), mailboxes, clock }
    }

    /// Posts for a worker, and wakes it if it sleeps. Waits for nothing but the lane's own lock.
    pub fn post(&self, worker: usize, delivery: Delivery) {
        let lane = &self.lanes[worker];
        let mut queue = lane.queue();
        // Relaxed, also below: all writers hold the lock; others take it for a hint.
        let bytes = lane.bytes.load(Ordering::Relaxed) + delivery.counted_bytes();
        if bytes > LANE_BYTES_MAX {
            queue.cut_off.note(&delivery);
        } else {
            lane.bytes.store(bytes, Ordering::Relaxed);
            if queue.deliveries.is_empty() {
                queue.since_ns = self.clock.monotonic_ns();
            }
            queue.deliveries.push_back(delivery);
        }
        lane.handshake.note_posts();
        drop(queue);
        self.wake(worker);
    }

    /// Notes that receivers of a worker do not get what is for them: there was no memory for it.
    pub(super) fn cut_off(&self, worker: usize, topics: impl Iterator<Item = Topic>) {
        let lane = &self.lanes[worker];
        let mut queue = lane.queue();
        queue.cut_off.topics.extend(topics);
        lane.handshake.note_posts();
        drop(queue);
        self.wake(worker);
    }

    fn wake(&self, worker: usize) {
        if self.lanes[worker].handshake.claims_wake_up() {
            self.mailboxes.notify(worker);
        }
    }

    /// The worker is about to wait for events. Returns false if its lane is not empty: it must not
    /// wait then.
    #[must_use]
    #[inline]
    pub fn begin_sleep(&self, worker: usize) -> bool {
        self.lanes[worker].handshake.begin_sleep()
    }

    /// The worker does not wait any more.
    #[inline]
    pub fn end_sleep(&self, worker: usize) {
        self.lanes[worker].handshake.end_sleep();
    }

    /// Moves everything that was posted for a worker behind `taken`, in order; returns the
    /// receivers that are cut off.
    #[inline]
    pub(super) fn take(&self, worker: usize, taken: &mut VecDeque<Delivery>) -> Option<CutOff> {
        self.lanes[worker].handshake.has_posts().then(|| self.take_posts(worker, taken))
    }

    #[cold]
    fn take_posts(&self, worker: usize, taken: &mut VecDeque<Delivery>) -> CutOff {
        let lane = &self.lanes[worker];
        let mut queue = lane.queue();
        lane.handshake.note_taken();
        lane.bytes.store(0, Ordering::Relaxed);
        if !queue.deliveries.is_empty() {
            let delay_ns = self.clock.monotonic_ns().saturating_sub(queue.since_ns);
            lane.delay_ns.record(delay_ns);
        }
        if taken.is_empty() {
            std::mem::swap(taken, &mut queue.deliveries);
        } else {
            taken.append(&mut queue.deliveries);
        }
        std::mem::take(&mut queue.cut_off)
    }

    /// Time from the first post into a worker's empty lane until the worker took what was there,
    /// ns.
    #[must_use]
    pub fn delay_ns(&self, worker: usize) -> &Spread {
        &self.lanes[worker].delay_ns
    }

    /// True if commands that publish should not post for a worker now.
    #[must_use]
    pub fn is_crowded(&self, worker: usize) -> bool {
        // Relaxed: a hint; the bound is kept by `post`.
        self.lanes[worker].bytes.load(Ordering::Relaxed) > CROWDED_LANE_BYTES
    }

    /// As [`Lanes::is_crowded`], for any worker.
    #[must_use]
    pub fn is_any_crowded(&self) -> bool {
        (0..self.lanes.len()).any(|worker| self.is_crowded(worker))
    }
}

/// A topic by its kind and name.
pub(super) type Topic = (TopicKind, Arc<[u8]>);

mod handshake;
#[cfg(test)]
mod tests;
