//! Receivers that are told of keys that have changed.

use std::collections::BTreeSet;
use std::sync::Arc;

use tidemill_resp::encode::Protocol;

use crate::tables::give_back;

use super::{
    Broadcast, Encoded, INVALIDATION_CHANNEL, Invalidated, Receiver, Receivers, Redirected,
    Tracking,
};

impl Receivers {
    /// A session tracks from now on, or otherwise than before, or no more. Prefixes come to those
    /// that it has.
    pub(crate) fn set_tracking(
        &mut self,
        (session, protocol): (u64, Protocol),
        tracking: Option<Tracking>,
    ) {
        if tracking.is_none() && !self.by_session.contains_key(&session) {
            return;
        }
        let index = self.receiver_of(session, protocol);
        let receiver = self.receivers[index].as_mut().expect("it is in the index");
        let former = receiver.tracking.take().map(|former| former.prefixes).unwrap_or_default();
        let Some(mut tracking) = tracking else {
            for prefix in &former {
                if let Some(listeners) = self.prefixes.get_mut(prefix) {
                    listeners.remove(&index);
                    if listeners.is_empty() {
                        self.prefixes.remove(prefix);
                        give_back(&mut self.prefixes);
                    }
                }
            }
            self.trackers.remove(&index);
            return;
        };
        for prefix in &tracking.prefixes {
            self.prefixes.entry(Arc::clone(prefix)).or_default().insert(index);
        }
        let added = std::mem::replace(&mut tracking.prefixes, former);
        tracking.prefixes.extend(added);
        self.trackers.insert(index);
        // As in `add`.
        receiver.protocol = protocol;
        receiver.tracking = Some(Box::new(tracking));
    }

    /// Mode in which a session tracks.
    #[must_use]
    pub(crate) fn tracking(&self, session: u64) -> Option<&Tracking> {
        self.find(session)?.tracking.as_deref()
    }

    /// Tells sessions that a key has changed.
    pub(crate) fn invalidate(&mut self, sessions: &[u64], key: &Arc<[u8]>) {
        let by_session = &self.by_session;
        let indices: Vec<usize> =
            sessions.iter().filter_map(|session| by_session.get(session).copied()).collect();
        self.tell(&indices, &Invalidated::Key(Arc::clone(key)));
    }

    /// Tells all that listen to a prefix what has changed of it.
    pub(super) fn broadcast(&mut self, broadcast: &Arc<Broadcast>) {
        let Some(listeners) = self.prefixes.get(&broadcast.prefix) else { return };
        let is_noloop = |&&index: &&usize| self.tracking_at(index).is_some_and(|of| of.is_noloop);
        let (noloop, others): (BTreeSet<usize>, BTreeSet<usize>) =
            listeners.iter().partition(|index| is_noloop(index));
        let others: Vec<usize> = others.into_iter().collect();
        let all = Invalidated::Keys { broadcast: Arc::clone(broadcast), except: 0 };
        self.tell(&others, &all);
        for index in noloop {
            let session = self.receivers[index].as_ref().map_or(0, |receiver| receiver.session);
            let but_own = Invalidated::Keys { broadcast: Arc::clone(broadcast), except: session };
            if !but_own.is_empty() {
                self.tell(&[index], &but_own);
            }
        }
    }

    fn tracking_at(&self, index: usize) -> Option<&Tracking> {
        self.receivers[index].as_ref()?.tracking.as_deref()
    }

    /// Tells trackers what has changed: those that speak RESP3 themselves, others by the session
    /// that tells in their place. There is no other way to tell a client of RESP2.
    pub(super) fn tell(&mut self, indices: &[usize], invalidated: &Invalidated) {
        let mut encoded: Option<Option<Encoded>> = None;
        for &index in indices {
            let Some(Receiver { session, protocol, tracking: Some(tracking), .. }) =
                &self.receivers[index]
            else {
                continue;
            };
            if tracking.redirect != 0 {
                let (tracker, target) = (*session, tracking.redirect);
                let invalidated = invalidated.clone();
                self.add_redirected(Redirected { tracker, target, invalidated });
            } else if *protocol == Protocol::Resp3 {
                let encoded = encoded.get_or_insert_with(|| {
                    self.encode(Protocol::Resp3, |buffer| {
                        buffer.push(2);
                        buffer.bulk("invalidate");
                        invalidated.write(buffer);
                        None
                    })
                });
                self.hand(index, encoded.as_ref());
            }
        }
    }

    /// Keeps what is to be told by way of another session until it can be looked up.
    pub(super) fn add_redirected(&mut self, redirected: Redirected) {
        self.redirected_bytes += redirected.invalidated.bytes();
        self.redirected.push(redirected);
    }

    /// Takes what is to be told by way of other sessions.
    pub(crate) fn take_redirected(&mut self) -> Vec<Redirected> {
        self.redirected_bytes = 0;
        std::mem::take(&mut self.redirected)
    }

    /// True if something is to be told by way of other sessions.
    #[inline]
    pub(crate) fn has_redirected(&self) -> bool {
        !self.redirected.is_empty()
    }

    /// Lets a session of this worker tell what another one's client is to know. One of RESP2 gets
    /// it as a message if it subscribes to anything.
    pub(crate) fn tell_redirected(
        &mut self,
        (session, protocol): (u64, Protocol),
        is_subscriber: bool,
        invalidated: &Invalidated,
    ) {
        if protocol == Protocol::Resp2 && !is_subscriber {
            return;
        }
        self.push_own((session, protocol), |buffer| {
            if protocol == Protocol::Resp3 {
                buffer.push(2);
                buffer.bulk("invalidate");
            } else {
                buffer.push(3);
                buffer.bulk("message");
                buffer.bulk(INVALIDATION_CHANNEL);
            }
            invalidated.write(buffer);
        });
    }
}
