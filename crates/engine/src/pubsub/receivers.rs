//! Receivers of one worker: its sessions that subscribe or watch, and what they are to be sent.
//!
//! Deliveries are encoded once per topic and protocol, into a buffer that all receivers share until
//! it is sent; a receiver's inbox is a list of ranges of it. Payloads above 16 KiB are not copied:
//! they are in the inboxes by reference, and count in full.
//!
//! Never waits, and touches no connection. The worker's event loop takes the inboxes.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::Arc;

use bytes::Bytes;
use tidemill_resp::encode::{Protocol, ReplyBuffer};

use super::TopicKind;
use super::invalidations::{Broadcast, INVALIDATION_CHANNEL, Invalidated};
use super::lanes::{CutOff, Delivery, Lanes, Publication};
use crate::limits::{COPIED_REPLY_BYTES_MAX, DELIVERED_TOGETHER_BYTES, DELIVERED_TOGETHER_MAX};
use crate::tables::give_back;

/// A part of what a receiver is to be sent.
#[derive(Debug)]
enum Piece {
    /// Range of the bytes encoded for a protocol.
    Encoded { protocol: Protocol, start: usize, end: usize },
    /// Payload by reference.
    Payload(Bytes),
}

/// A delivery as it is sent in one protocol: what precedes the payload, the payload if it is sent
/// by reference, what follows it.
#[derive(Clone, Debug)]
struct Encoded {
    protocol: Protocol,
    start: usize,
    payload_at: usize,
    payload: Option<Bytes>,
    end: usize,
}

/// Way in which a session is told of changed keys (`CLIENT TRACKING`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tracking {
    /// The session that is told in its place; 0 for none.
    pub redirect: u64,
    /// Its own changes of keys with a prefix are not told to it.
    pub is_noloop: bool,
    /// Prefixes of the keys of which it is told all changes.
    pub prefixes: BTreeSet<Arc<[u8]>>,
}

/// Invalidation that a session is told by way of another.
#[derive(Debug)]
pub struct Redirected {
    /// The session that keeps copies; 0 if its worker has passed this on already.
    pub tracker: u64,
    /// The session that tells.
    pub target: u64,
    /// Keys that it tells of.
    pub invalidated: Invalidated,
}

/// A session that receives.
#[derive(Debug)]
struct Receiver {
    session: u64,
    protocol: Protocol,
    /// By kind, its topics with the place that it has among the topic's subscribers.
    topics: [HashMap<Arc<[u8]>, usize>; 3],
    tracking: Option<Box<Tracking>>,
    inbox: Vec<Piece>,
    inbox_bytes: usize,
    /// True if it is among those with something in their inbox.
    is_dirty: bool,
    /// True if something for it was dropped.
    is_cut_off: bool,
}

impl Receiver {
    fn new(session: u64, protocol: Protocol) -> Receiver {
        Receiver {
            session,
            protocol,
            topics: Default::default(),
            tracking: None,
            inbox: Vec::new(),
            inbox_bytes: 0,
            is_dirty: false,
            is_cut_off: false,
        }
    }

    /// True if it subscribes to anything.
    fn is_subscriber(&self) -> bool {
        self.topics.iter().any(|topics| !topics.is_empty())
    }

    /// True if it is one for as long as its session lives, or until it wants nothing any more.
    fn is_lasting(&self) -> bool {
        self.tracking.is_some() || self.is_subscriber()
    }

    fn push(&mut self, encoded: &Encoded) {
        let Encoded { protocol, start, payload_at, ref payload, end } = *encoded;
        match payload {
            None => self.push_range(protocol, start, end),
            Some(payload) => {
                self.push_range(protocol, start, payload_at);
                self.inbox.push(Piece::Payload(payload.clone()));
                self.inbox_bytes += payload.len();
                self.push_range(protocol, payload_at, end);
            }
        }
    }

    fn push_range(&mut self, protocol: Protocol, start: usize, end: usize) {
        self.inbox_bytes += end - start;
        match self.inbox.last_mut() {
            Some(Piece::Encoded { protocol: of, end: last, .. })
                if *of == protocol && *last == start =>
            {
                *last = end;
            }
            _ => self.inbox.push(Piece::Encoded { protocol, start, end }),
        }
    }
}

/// A receiver with something in its inbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dirty {
    /// The session.
    pub session: u64,
    /// True if something for it was dropped: it is to be disconnected.
    pub is_cut_off: bool,
}

/// Receivers of one worker.
#[derive(Debug, Default)]
pub struct Receivers {
    /// By index; none where a receiver has ended.
    receivers: Vec<Option<Receiver>>,
    free: Vec<usize>,
    by_session: HashMap<u64, usize>,
    /// Subscribers of each topic, by kind.
    topics: [HashMap<Arc<[u8]>, Vec<usize>>; 3],
    /// Sessions that track, by index.
    trackers: BTreeSet<usize>,
    /// Those of them that are told by prefix.
    prefixes: HashMap<Arc<[u8]>, BTreeSet<usize>>,
    /// Invalidations that are told by way of other sessions.
    redirected: Vec<Redirected>,
    /// Bytes that they will be encoded in, about.
    redirected_bytes: usize,
    /// Deliveries that were taken from the lane and are in no inbox yet.
    incoming: VecDeque<Delivery>,
    /// Bytes that inboxes refer to, by protocol.
    encoded: [ReplyBuffer; 2],
    dirty: VecDeque<usize>,
    /// Most bytes of a subscriber's inbox, and of another receiver's; 0 is no limit.
    subscriber_bytes_max: u64,
    other_bytes_max: u64,
}

impl Receivers {
    /// Receivers of a worker that has none.
    #[must_use]
    pub fn new() -> Receivers {
        Receivers {
            encoded: [ReplyBuffer::new(Protocol::Resp2), ReplyBuffer::new(Protocol::Resp3)],
            ..Receivers::default()
        }
    }

    /// Sets the bytes of an inbox at which a subscriber is disconnected, and another receiver, of
    /// the class of normal clients; 0 for no limit.
    pub fn limit_inboxes(&mut self, subscriber_bytes_max: u64, other_bytes_max: u64) {
        self.subscriber_bytes_max = subscriber_bytes_max;
        self.other_bytes_max = other_bytes_max;
    }

    /// Index of the receiver that a session is; it becomes one if it is none.
    fn receiver_of(&mut self, session: u64, protocol: Protocol) -> usize {
        if let Some(&index) = self.by_session.get(&session) {
            return index;
        }
        let receiver = Some(Receiver::new(session, protocol));
        let index = match self.free.pop() {
            Some(index) => {
                self.receivers[index] = receiver;
                index
            }
            None => {
                self.receivers.push(receiver);
                self.receivers.len() - 1
            }
        };
        self.by_session.insert(session, index);
        index
    }

    fn find(&self, session: u64) -> Option<&Receiver> {
        self.receivers[*self.by_session.get(&session)?].as_ref()
    }

    /// True if a session subscribes to a topic.
    pub(crate) fn is_subscribed(&self, session: u64, kind: TopicKind, name: &[u8]) -> bool {
        self.find(session).is_some_and(|receiver| receiver.topics[kind.index()].contains_key(name))
    }

    /// Numbers of topics that a session subscribes to, by kind.
    pub(crate) fn subscriptions(&self, session: u64) -> [usize; 3] {
        self.find(session).map_or([0; 3], |receiver| {
            TopicKind::ALL.map(|kind| receiver.topics[kind.index()].len())
        })
    }

    /// Topics of a kind that a session subscribes to.
    pub(crate) fn topics(&self, session: u64, kind: TopicKind) -> Vec<Arc<[u8]>> {
        let topics = self.find(session).map(|receiver| receiver.topics[kind.index()].keys());
        topics.map_or_else(Vec::new, |topics| topics.cloned().collect())
    }

    /// A session subscribes to a topic, to which it does not yet.
    pub(crate) fn add(
        &mut self,
        (session, protocol): (u64, Protocol),
        kind: TopicKind,
        name: &Arc<[u8]>,
    ) {
        let index = self.receiver_of(session, protocol);
        let subscribers = self.topics[kind.index()].entry(Arc::clone(name)).or_default();
        let receiver = self.receivers[index].as_mut().expect("it is in the index");
        // One that was made for a line or for a push was not told the protocol.
        receiver.protocol = protocol;
        receiver.topics[kind.index()].insert(Arc::clone(name), subscribers.len());
        subscribers.push(index);
    }

    /// A session subscribes to a topic no more.
    pub(crate) fn remove(&mut self, session: u64, kind: TopicKind, name: &[u8]) {
        let Some(&index) = self.by_session.get(&session) else { return };
        let receiver = self.receivers[index].as_mut().expect("it is in the index");
        let Some(place) = receiver.topics[kind.index()].remove(name) else { return };
        give_back(&mut receiver.topics[kind.index()]);
        let topics = &mut self.topics[kind.index()];
        let subscribers = topics.get_mut(name).expect("a subscriber is among the topic's");
        subscribers.swap_remove(place);
        if let Some(&moved) = subscribers.get(place) {
            let moved = self.receivers[moved].as_mut().expect("only receivers subscribe");
            let its_place = moved.topics[kind.index()].get_mut(name);
            *its_place.expect("it is a subscriber of the topic") = place;
        } else if subscribers.is_empty() {
            topics.remove(name);
            give_back(topics);
        }
    }

    /// A session speaks another protocol from now on.
    pub(crate) fn set_protocol(&mut self, session: u64, protocol: Protocol) {
        if let Some(&index) = self.by_session.get(&session)
            && let Some(receiver) = &mut self.receivers[index]
        {
            receiver.protocol = protocol;
        }
    }

    /// A session has ended: what is in its inbox is dropped. It subscribes to nothing any more.
    pub(crate) fn end(&mut self, session: u64) {
        self.set_tracking((session, Protocol::Resp2), None);
        if let Some(index) = self.by_session.remove(&session) {
            // Its index may stay among those with something in their inbox, see `next_dirty`.
            self.receivers[index] = None;
            self.free.push(index);
            give_back(&mut self.by_session);
        }
    }

    /// Takes everything out of the worker's lane; it is in no inbox yet.
    fn take(&mut self, lanes: &Lanes, worker: usize) {
        if let Some(cut_off) = lanes.take(worker, &mut self.incoming) {
            self.cut_off(&cut_off);
        }
    }

    /// Puts everything that was posted for the worker so far into inboxes.
    #[inline]
    pub(crate) fn drain(&mut self, lanes: &Lanes, worker: usize) {
        self.take(lanes, worker);
        while let Some(delivery) = self.incoming.pop_front() {
            self.deliver(&delivery);
        }
    }

    /// Begins to send: takes what was posted so far, unless something is left of what was taken
    /// before: the lane's bound would be none. To be followed by [`Receivers::collect`].
    pub fn begin_sending(&mut self, lanes: &Lanes, worker: usize) {
        if self.incoming.is_empty() {
            self.take(lanes, worker);
        }
    }

    /// True if something is left to be sent.
    #[must_use]
    #[inline]
    pub fn has_more(&self) -> bool {
        !(self.incoming.is_empty() && self.dirty.is_empty())
    }

    /// Puts deliveries into inboxes, as many as are to be sent together. Returns false if there is
    /// nothing to be sent. Bytes that no inbox refers to are dropped.
    #[must_use]
    #[inline]
    pub fn collect(&mut self) -> bool {
        self.has_more() && self.collect_some()
    }

    #[cold]
    fn collect_some(&mut self) -> bool {
        if self.dirty.is_empty() {
            self.encoded.iter_mut().for_each(ReplyBuffer::clear);
        }
        for _ in 0..DELIVERED_TOGETHER_MAX {
            let encoded_bytes: usize = self.encoded.iter().map(ReplyBuffer::len).sum();
            if encoded_bytes + self.redirected_bytes > DELIVERED_TOGETHER_BYTES {
                break;
            }
            let Some(delivery) = self.incoming.pop_front() else { break };
            self.deliver(&delivery);
        }
        self.has_more()
    }

    /// The next receiver with something in its inbox, which is to be taken then.
    pub fn next_dirty(&mut self) -> Option<Dirty> {
        while let Some(index) = self.dirty.pop_front() {
            // An index may be of a receiver that has ended, or be there twice, for that one and
            // for the one that has it now.
            if let Some(receiver) = &mut self.receivers[index]
                && std::mem::take(&mut receiver.is_dirty)
            {
                let Receiver { session, is_cut_off, .. } = *receiver;
                return Some(Dirty { session, is_cut_off });
            }
        }
        None
    }

    /// Moves a session's inbox behind what is in `output`.
    pub fn take_inbox(&mut self, session: u64, output: &mut ReplyBuffer) {
        let Some(&index) = self.by_session.get(&session) else { return };
        let receiver = self.receivers[index].as_mut().expect("it is in the index");
        for piece in receiver.inbox.drain(..) {
            match piece {
                Piece::Encoded { protocol, start, end } => {
                    let encoded = self.encoded[protocol as usize].as_single_segment();
                    output.raw(&encoded.expect("payloads by reference are apart")[start..end]);
                }
                Piece::Payload(payload) => output.raw_shared(payload),
            }
        }
        receiver.inbox_bytes = 0;
        if !receiver.is_lasting() && !receiver.is_dirty {
            // A monitor, or a session that was told that it has nothing to unsubscribe from.
            self.end(session);
        }
    }

    /// Gives memory back that no inbox refers to.
    pub fn shrink(&mut self) {
        if self.dirty.is_empty() {
            self.encoded.iter_mut().for_each(|encoded| {
                encoded.clear();
                encoded.shrink(0);
            });
        }
        self.incoming.shrink_to(DELIVERED_TOGETHER_MAX);
        self.dirty.shrink_to(DELIVERED_TOGETHER_MAX);
    }

    /// Puts a push of the session's own into its inbox: one that `CLIENT REPLY` does not silence.
    pub(crate) fn push_own(
        &mut self,
        (session, protocol): (u64, Protocol),
        write: impl FnOnce(&mut ReplyBuffer),
    ) {
        let index = self.receiver_of(session, protocol);
        let encoded = self.encode(protocol, |buffer| {
            write(buffer);
            None
        });
        self.hand(index, encoded.as_ref());
    }

    fn deliver(&mut self, delivery: &Delivery) {
        match delivery {
            Delivery::Line { session, bytes } => {
                let index = self.receiver_of(*session, Protocol::Resp2);
                let encoded = self.encode(Protocol::Resp2, |buffer| {
                    buffer.raw(bytes);
                    None
                });
                self.hand(index, encoded.as_ref());
            }
            Delivery::Message(message) => {
                self.deliver_to(message.kind, &message.channel, message);
                for pattern in &message.patterns {
                    self.deliver_to(TopicKind::Pattern, pattern, message);
                }
            }
            Delivery::Invalidation { sessions, key } => self.invalidate(sessions, key),
            Delivery::Broadcast(broadcast) => self.broadcast(broadcast),
            Delivery::InvalidationOfAll => {
                let trackers: Vec<usize> = self.trackers.iter().copied().collect();
                self.tell(&trackers, &Invalidated::All);
            }
            Delivery::Redirected { session, invalidated } => {
                let (target, invalidated) = (*session, invalidated.clone());
                self.add_redirected(Redirected { tracker: 0, target, invalidated });
            }
        }
    }

    /// Puts a message into the inboxes of the subscribers of a topic.
    fn deliver_to(&mut self, kind: TopicKind, name: &[u8], message: &Publication) {
        let topics = &mut self.topics[kind.index()];
        let Some(subscribers) = topics.get_mut(name).map(std::mem::take) else { return };
        let mut encoded: [Option<Option<Encoded>>; 2] = [None, None];
        for &index in &subscribers {
            let receiver = self.receivers[index].as_ref().expect("only receivers subscribe");
            let protocol = receiver.protocol;
            if encoded[protocol as usize].is_none() {
                let in_protocol =
                    self.encode(protocol, |buffer| write_message(buffer, kind, name, message));
                encoded[protocol as usize] = Some(in_protocol);
            }
            self.hand(index, encoded[protocol as usize].as_ref().and_then(Option::as_ref));
        }
        if let Some(place) = self.topics[kind.index()].get_mut(name) {
            *place = subscribers;
        }
    }

    /// Encodes something for a protocol; none if there is no memory. `write` returns the payload
    /// that it leaves out at the end, to be sent by reference.
    fn encode(
        &mut self,
        protocol: Protocol,
        write: impl FnOnce(&mut ReplyBuffer) -> Option<Bytes>,
    ) -> Option<Encoded> {
        let buffer = &mut self.encoded[protocol as usize];
        let start = buffer.len();
        let payload = write(buffer);
        let payload_at = buffer.len();
        if payload.is_some() {
            buffer.raw(b"\r\n");
        }
        if buffer.has_failed() {
            buffer.recover(start);
            return None;
        }
        Some(Encoded { protocol, start, payload_at, payload, end: buffer.len() })
    }

    /// Puts something into the inbox of a receiver; cuts it off if there is nothing, for lack of
    /// memory, or too much.
    fn hand(&mut self, index: usize, encoded: Option<&Encoded>) {
        let receiver = self.receivers[index].as_mut().expect("the caller has found it");
        if !receiver.is_dirty {
            receiver.is_dirty = true;
            self.dirty.push_back(index);
        }
        let bytes_max = match receiver.is_subscriber() {
            true => self.subscriber_bytes_max,
            false => self.other_bytes_max,
        };
        match encoded {
            _ if receiver.is_cut_off => {}
            Some(encoded) if bytes_max == 0 || (receiver.inbox_bytes as u64) < bytes_max => {
                receiver.push(encoded);
            }
            _ => {
                receiver.is_cut_off = true;
                receiver.inbox = Vec::new();
            }
        }
    }

    /// Cuts receivers off for which something was not posted.
    #[cold]
    fn cut_off(&mut self, cut_off: &CutOff) {
        for &session in &cut_off.sessions {
            let index = self.receiver_of(session, Protocol::Resp2);
            self.hand(index, None);
        }
        let of_prefixes = cut_off.prefixes.iter().filter_map(|prefix| self.prefixes.get(prefix));
        let mut trackers: BTreeSet<usize> = of_prefixes.flatten().copied().collect();
        if cut_off.trackers {
            trackers.extend(&self.trackers);
        }
        trackers.into_iter().for_each(|index| self.hand(index, None));
        for (kind, name) in &cut_off.topics {
            let subscribers = self.topics[kind.index()].get(name).cloned().unwrap_or_default();
            subscribers.into_iter().for_each(|index| self.hand(index, None));
        }
    }
}

/// Writes a message for the subscribers of a topic, without its payload if that is to be sent by
/// reference, which is returned then.
fn write_message(
    buffer: &mut ReplyBuffer,
    kind: TopicKind,
    name: &[u8],
    message: &Publication,
) -> Option<Bytes> {
    buffer.push(if kind == TopicKind::Pattern { 4 } else { 3 });
    buffer.bulk(kind.message_name());
    if kind == TopicKind::Pattern {
        buffer.bulk(name);
    }
    buffer.bulk(&message.channel);
    if message.payload.len() <= COPIED_REPLY_BYTES_MAX {
        buffer.bulk(&message.payload);
        return None;
    }
    buffer.raw(format!("${}\r\n", message.payload.len()).as_bytes());
    Some(message.payload.clone())
}

mod tracking;

#[cfg(test)]
mod tests;
