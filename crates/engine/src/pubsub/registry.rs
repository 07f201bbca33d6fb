//! Registry of subscriptions: how many subscribers each worker has of a topic.
//!
//! Channels are spread over stripes by their hash, each with a lock. 64 KiB of counting bytes tell
//! without a lock that nobody listens to a channel, which is so for most that are published to, and
//! for nearly all of keyspace events. A byte belongs to one stripe and is written under its lock.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use bytes::Bytes;
use smallvec::SmallVec;
use tidemill_store::hash::{Seed, hash};

use super::TopicKind;
use super::counts::SubscriberCounts;
use super::lanes::{Delivery, Lanes, Publication, Topic};
use super::patterns::PatternIndex;
use crate::glob;
use crate::limits::{HEARD_BYTES, PUBSUB_STRIPES};
use crate::tables::give_back;

/// Channels of one kind with subscribers.
type Channels = HashMap<Arc<[u8]>, SubscriberCounts>;

/// Channels with subscribers of one stripe, those of slots apart.
#[derive(Debug, Default)]
struct Stripe {
    channels: Channels,
    shard_channels: Channels,
}

impl Stripe {
    fn of(&mut self, kind: TopicKind) -> &mut Channels {
        match kind {
            TopicKind::ShardChannel => &mut self.shard_channels,
            _ => &mut self.channels,
        }
    }
}

/// Reason why nothing was published.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PublishError {
    /// A worker has much to deliver already: the publisher should wait.
    Crowded,
    /// There is no memory for the message.
    NoMemory,
}

/// Treatment of a message for which there is no room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pressure {
    /// It is an error, and nothing is published.
    Refuse,
    /// Its receivers are disconnected: the publisher holds locks, or cannot be refused.
    CutOff,
}

/// Registry of subscriptions.
#[derive(Debug)]
pub struct PubSub {
    seed: Seed,
    stripes: Box<[Mutex<Stripe>]>,
    /// Channels with subscribers, counted by hash. 255 is that many or more, until nobody
    /// listens to any channel of the stripe.
    heard: Box<[AtomicU8]>,
    patterns: RwLock<PatternIndex>,
    /// Numbers of topics with subscribers, by kind. Written under the lock of the topic.
    counts: [AtomicUsize; 3],
}

impl PubSub {
    /// Registry without a subscription. Channels are hashed under `seed`.
    #[must_use]
    pub fn new(seed: Seed) -> PubSub {
        PubSub {
            seed,
            stripes: (0..PUBSUB_STRIPES).map(|_| Mutex::default()).collect(),
            heard: (0..HEARD_BYTES).map(|_| AtomicU8::new(0)).collect(),
            patterns: RwLock::default(),
            counts: Default::default(),
        }
    }

    /// Number of topics of a kind that have subscribers.
    #[must_use]
    pub fn count(&self, kind: TopicKind) -> usize {
        // Relaxed: for information, or as in `publish`.
        self.counts[kind.index()].load(Ordering::Relaxed)
    }

    /// True if keyspace events might be heard by anybody.
    #[must_use]
    #[inline]
    pub fn has_listeners(&self) -> bool {
        self.count(TopicKind::Channel) + self.count(TopicKind::Pattern) > 0
    }

    fn hash(&self, kind: TopicKind, channel: &[u8]) -> usize {
        let hash = hash(&self.seed, channel) as usize;
        if kind == TopicKind::ShardChannel { !hash } else { hash }
    }

    fn stripe(&self, hash: usize) -> MutexGuard<'_, Stripe> {
        let stripe = &self.stripes[hash % PUBSUB_STRIPES];
        stripe.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers one more subscriber at a worker. `under_lock` gets the topic's name; nothing is
    /// posted for the topic meanwhile.
    pub fn subscribe(
        &self,
        (kind, name): (TopicKind, &[u8]),
        worker: usize,
        under_lock: impl FnOnce(&Arc<[u8]>),
    ) {
        if kind == TopicKind::Pattern {
            let mut patterns = self.patterns.write().unwrap_or_else(PoisonError::into_inner);
            let name = patterns.add(name, worker);
            // Relaxed, here and below: a publication that runs beside the subscription may miss it.
            // One that a client sends after the confirmation finds it: the confirmation went
            // through the kernel, which orders the store before the load.
            self.counts[kind.index()].store(patterns.len(), Ordering::Relaxed);
            return under_lock(&name);
        }
        let hash = self.hash(kind, name);
        let mut stripe = self.stripe(hash);
        let channels = stripe.of(kind);
        let name = match channels.get_key_value(name) {
            Some((name, _)) => Arc::clone(name),
            None => {
                self.counts[kind.index()].fetch_add(1, Ordering::Relaxed);
                let heard = &self.heard[hash % HEARD_BYTES];
                heard.store(heard.load(Ordering::Relaxed).saturating_add(1), Ordering::Relaxed);
                Arc::from(name)
            }
        };
        channels.entry(Arc::clone(&name)).or_default().add(worker);
        under_lock(&name);
    }

    /// Ends the registration of one subscriber at a worker. Nothing is posted for the topic while
    /// `under_lock` runs, and nothing for this subscriber afterwards.
    pub fn unsubscribe(
        &self,
        (kind, name): (TopicKind, &[u8]),
        worker: usize,
        under_lock: impl FnOnce(),
    ) {
        if kind == TopicKind::Pattern {
            let mut patterns = self.patterns.write().unwrap_or_else(PoisonError::into_inner);
            patterns.remove(name, worker);
            self.counts[kind.index()].store(patterns.len(), Ordering::Relaxed);
            return under_lock();
        }
        let hash = self.hash(kind, name);
        let mut stripe = self.stripe(hash);
        let channels = stripe.of(kind);
        if channels.get_mut(name).is_some_and(|counts| counts.remove(worker)) {
            channels.remove(name);
            give_back(channels);
            self.counts[kind.index()].fetch_sub(1, Ordering::Relaxed);
            self.unhear(hash, &stripe);
        }
        under_lock();
    }

    /// A channel of this hash has no subscribers any more.
    fn unhear(&self, hash: usize, stripe: &Stripe) {
        let heard = &self.heard[hash % HEARD_BYTES];
        match heard.load(Ordering::Relaxed) {
            u8::MAX if stripe.channels.is_empty() && stripe.shard_channels.is_empty() => {
                let of_stripe =
                    self.heard.iter().skip(hash % PUBSUB_STRIPES).step_by(PUBSUB_STRIPES);
                of_stripe.for_each(|heard| heard.store(0, Ordering::Relaxed));
            }
            u8::MAX => {}
            count => heard.store(count.saturating_sub(1), Ordering::Relaxed),
        }
    }

    /// Posts a message to all subscribers of a channel, and for a channel that is no slot's to
    /// those of patterns that it matches. Returns how many receive it; a subscriber by channel and
    /// by patterns receives it once for each.
    ///
    /// # Errors
    ///
    /// [`PublishError`], if `pressure` says so; nothing is posted then.
    #[inline]
    pub fn publish(
        &self,
        lanes: &Lanes,
        (kind, channel): (TopicKind, &[u8]),
        payload: &[u8],
        pressure: Pressure,
    ) -> Result<u64, PublishError> {
        let hash = self.hash(kind, channel);
        // Relaxed: as in `subscribe`.
        let is_heard = self.heard[hash % HEARD_BYTES].load(Ordering::Relaxed) > 0;
        let has_patterns = kind == TopicKind::Channel && self.count(TopicKind::Pattern) > 0;
        if !is_heard && !has_patterns {
            return Ok(0);
        }
        self.publish_heard(lanes, (kind, channel, hash), payload, pressure)
    }

    fn publish_heard(
        &self,
        lanes: &Lanes,
        (kind, channel, hash): (TopicKind, &[u8], usize),
        payload: &[u8],
        pressure: Pressure,
    ) -> Result<u64, PublishError> {
        let mut stripe = self.stripe(hash);
        let direct = stripe.of(kind).get_key_value(channel);
        let patterns = (kind == TopicKind::Channel)
            .then(|| self.patterns.read().unwrap_or_else(PoisonError::into_inner));
        let mut matching: SmallVec<[&Arc<[u8]>; 4]> = SmallVec::new();
        let mut workers: SmallVec<[usize; 8]> = SmallVec::new();
        let mut receivers = 0;
        let mut note = |counts: &SubscriberCounts| {
            receivers += counts.total();
            workers.extend(counts.workers());
        };
        if let Some((_, counts)) = direct {
            note(counts);
        }
        if let Some(patterns) = &patterns {
            patterns.matching(channel, |pattern, counts| {
                matching.push(pattern);
                note(counts);
            });
        }
        workers.sort_unstable();
        workers.dedup();
        if pressure == Pressure::Refuse && workers.iter().any(|&worker| lanes.is_crowded(worker)) {
            return Err(PublishError::Crowded);
        }
        if receivers == 0 {
            return Ok(0);
        }
        let is_subscribed = direct.is_some();
        let name = direct.map_or_else(|| Arc::from(channel), |(name, _)| Arc::clone(name));
        let patterns: Box<[Arc<[u8]>]> = matching.into_iter().cloned().collect();
        match try_copy(payload) {
            Some(payload) => {
                let publication =
                    Publication { kind, channel: name, is_subscribed, payload, patterns };
                let publication = Arc::new(publication);
                for &worker in &workers {
                    lanes.post(worker, Delivery::Message(Arc::clone(&publication)));
                }
            }
            None if pressure == Pressure::Refuse => return Err(PublishError::NoMemory),
            None => {
                let of_pattern = |pattern: &Arc<[u8]>| (TopicKind::Pattern, Arc::clone(pattern));
                let of_channel = is_subscribed.then_some((kind, name));
                let topics: Vec<Topic> =
                    patterns.iter().map(of_pattern).chain(of_channel).collect();
                for &worker in &workers {
                    lanes.cut_off(worker, topics.iter().cloned());
                }
            }
        }
        Ok(receivers)
    }

    /// Number of those who would receive a message of a channel now, as `PUBLISH` counts them.
    #[must_use]
    pub fn receivers(&self, kind: TopicKind, channel: &[u8]) -> u64 {
        let mut receivers = self.subscriber_count(kind, channel);
        if kind == TopicKind::Channel {
            let patterns = self.patterns.read().unwrap_or_else(PoisonError::into_inner);
            patterns.matching(channel, |_, counts| receivers += counts.total());
        }
        receivers
    }

    /// Subscribers of a channel, patterns not included.
    #[must_use]
    pub fn subscriber_count(&self, kind: TopicKind, channel: &[u8]) -> u64 {
        let mut stripe = self.stripe(self.hash(kind, channel));
        stripe.of(kind).get(channel).map_or(0, SubscriberCounts::total)
    }

    /// Channels with subscribers that match a pattern, or all.
    #[must_use]
    pub fn channels(&self, kind: TopicKind, pattern: Option<&[u8]>) -> Vec<Arc<[u8]>> {
        let mut all = Vec::with_capacity(self.count(kind));
        for index in 0..PUBSUB_STRIPES {
            let mut stripe = self.stripe(index);
            let channels = stripe.of(kind).keys();
            let matching = channels
                .filter(|name| pattern.is_none_or(|pattern| glob::matches(pattern, name, false)));
            all.extend(matching.cloned());
        }
        all
    }
}

/// A copy of a payload, unless there is no memory for it.
fn try_copy(payload: &[u8]) -> Option<Bytes> {
    let mut copy = Vec::new();
    copy.try_reserve_exact(payload.len()).ok()?;
    copy.extend_from_slice(payload);
    Some(Bytes::from(copy))
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use super::*;
    use crate::clock::Still;
    use crate::limits::{DELIVERY_OVERHEAD_BYTES, LANE_BYTES_MAX};
    use crate::slots::mailbox::{Mailboxes, Notify};

    struct Silent;

    impl Notify for Silent {
        fn notify(&self) {}
    }

    fn parts(worker_count: usize) -> (PubSub, Lanes) {
        let silent = |_| Box::new(Silent) as Box<dyn Notify>;
        let mailboxes = Mailboxes::new((0..worker_count).map(silent).collect());
        (
            PubSub::new(Seed::new(1, 2)),
            Lanes::new(worker_count, Arc::new(mailboxes), Arc::new(Still)),
        )
    }

    fn posted(lanes: &Lanes, worker: usize) -> usize {
        let mut taken = VecDeque::new();
        let _ = lanes.take(worker, &mut taken);
        taken.len()
    }

    #[test]
    fn message_is_posted_once_per_worker_and_counted_per_subscription() {
        let (pubsub, lanes) = parts(3);
        let news = (TopicKind::Channel, &b"news"[..]);
        for worker in [0, 0, 2] {
            pubsub.subscribe(news, worker, |_| ());
            pubsub.subscribe((TopicKind::Pattern, b"n*"), worker, |_| ());
        }
        pubsub.subscribe((TopicKind::Pattern, b"*s"), 2, |_| ());
        pubsub.subscribe((TopicKind::Pattern, b"x*"), 1, |_| ());
        assert_eq!(pubsub.publish(&lanes, news, b"m", Pressure::Refuse), Ok(7));
        assert_eq!([0, 1, 2].map(|worker| posted(&lanes, worker)), [1, 0, 1]);
        let shard = (TopicKind::ShardChannel, &b"news"[..]);
        assert_eq!(pubsub.publish(&lanes, shard, b"m", Pressure::Refuse), Ok(0));
        assert_eq!(TopicKind::ALL.map(|kind| pubsub.count(kind)), [1, 3, 0]);
    }

    #[test]
    fn nothing_is_left_of_channels_that_nobody_listens_to() {
        let (pubsub, lanes) = parts(1);
        let names: Vec<String> = (0..300_000).map(|number| format!("c{number}")).collect();
        // Several channels per byte of those heard.
        let kind = TopicKind::Channel;
        for repeat in 0..2 {
            for name in &names {
                pubsub.subscribe((kind, name.as_bytes()), 0, |_| ());
            }
            assert_eq!(pubsub.count(kind), names.len(), "round {repeat}");
        }
        for _ in 0..2 {
            let topic = (kind, names[7].as_bytes());
            assert_ne!(pubsub.publish(&lanes, topic, b"", Pressure::Refuse), Ok(0));
            for name in &names {
                pubsub.unsubscribe((kind, name.as_bytes()), 0, || ());
            }
        }
        assert_eq!(pubsub.count(kind), 0);
        assert!(pubsub.heard.iter().all(|heard| heard.load(Ordering::Relaxed) == 0));
        assert!(pubsub.channels(kind, None).is_empty());
    }

    #[test]
    fn saturated_byte_is_heard_until_its_stripe_is_empty() {
        let (pubsub, lanes) = parts(1);
        let kind = TopicKind::Channel;
        let same = |name: &String| pubsub.hash(kind, name.as_bytes()) % HEARD_BYTES == 77;
        let names = (0..).map(|number: u64| number.to_string()).filter(same).take(260);
        let names: Vec<String> = names.collect();
        for name in &names {
            pubsub.subscribe((kind, name.as_bytes()), 0, |_| ());
        }
        for name in &names[..259] {
            pubsub.unsubscribe((kind, name.as_bytes()), 0, || ());
        }
        let last = (kind, names[259].as_bytes());
        assert_eq!(pubsub.publish(&lanes, last, b"", Pressure::Refuse), Ok(1));
        pubsub.unsubscribe(last, 0, || ());
        assert_eq!(pubsub.heard[77].load(Ordering::Relaxed), 0);
    }

    /// Threads publish to one channel; the lanes of all workers have the messages in one order.
    #[test]
    fn lanes_of_all_workers_have_one_order() {
        const MESSAGES: u32 = 20_000;
        const WORKERS: usize = 8;
        let (pubsub, lanes) = parts(WORKERS);
        let topic = (TopicKind::Channel, &b"c"[..]);
        for worker in 0..WORKERS {
            let by_pattern = (TopicKind::Pattern, &b"c*"[..]);
            pubsub.subscribe(if worker % 2 == 0 { topic } else { by_pattern }, worker, |_| ());
        }
        std::thread::scope(|scope| {
            for thread in 0..3 {
                let (pubsub, lanes) = (&pubsub, &lanes);
                scope.spawn(move || {
                    for number in 0..MESSAGES {
                        let payload = (thread * MESSAGES + number).to_be_bytes();
                        let published = pubsub.publish(lanes, topic, &payload, Pressure::CutOff);
                        assert_eq!(published, Ok(WORKERS as u64));
                    }
                });
            }
        });
        let order = |worker| {
            let mut taken = VecDeque::new();
            let _ = lanes.take(worker, &mut taken);
            let payload = |delivery: &Delivery| match delivery {
                Delivery::Message(message) => message.payload.clone(),
                _ => panic!("only messages were posted"),
            };
            taken.iter().map(payload).collect::<Vec<_>>()
        };
        let first = order(0);
        assert_eq!(first.len(), 3 * MESSAGES as usize);
        (1..WORKERS).for_each(|worker| assert!(first == order(worker), "one order"));
    }

    #[test]
    fn full_lane_notes_topics_with_subscribers_only() {
        let (pubsub, lanes) = parts(1);
        for topic in [(TopicKind::Pattern, &b"c*"[..]), (TopicKind::Channel, b"c0")] {
            pubsub.subscribe(topic, 0, |_| ());
        }
        let bytes = vec![0; LANE_BYTES_MAX - DELIVERY_OVERHEAD_BYTES].into();
        lanes.post(0, Delivery::Line { session: 1, bytes });
        for number in 0..100 {
            let channel = format!("c{number}");
            let topic = (TopicKind::Channel, channel.as_bytes());
            pubsub.publish(&lanes, topic, b"", Pressure::CutOff).expect("none is refused");
        }
        let mut taken = VecDeque::new();
        let cut_off = lanes.take(0, &mut taken).expect("there are notes");
        assert_eq!((taken.len(), cut_off.topics.len()), (1, 2));
    }

    #[test]
    fn publisher_that_may_wait_does_so_for_the_lanes_concerned_only() {
        let (pubsub, lanes) = parts(2);
        pubsub.subscribe((TopicKind::Channel, b"slow"), 0, |_| ());
        pubsub.subscribe((TopicKind::Channel, b"other"), 1, |_| ());
        let payload = vec![0; crate::limits::CROWDED_LANE_BYTES + 1];
        let publish = |channel: &[u8], payload: &[u8], pressure| {
            pubsub.publish(&lanes, (TopicKind::Channel, channel), payload, pressure)
        };
        assert_eq!(publish(b"slow", &payload, Pressure::Refuse), Ok(1));
        assert_eq!(publish(b"slow", b"", Pressure::Refuse), Err(PublishError::Crowded));
        assert_eq!(publish(b"slow", b"", Pressure::CutOff), Ok(1));
        assert_eq!(publish(b"other", b"", Pressure::Refuse), Ok(1));
        assert_eq!([posted(&lanes, 0), posted(&lanes, 1)], [2, 1]);
    }
}
