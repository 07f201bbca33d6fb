//! Subscriptions of a worker's sessions: the registry and the worker's receivers change together.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tidemill_resp::encode::Protocol;

use super::Worker;
use super::session::Session;
use crate::pubsub::TopicKind;
use crate::shared::Shared;

/// Subscribes a session to a topic, unless it does already. What was posted for the topic before is
/// not for it.
pub(crate) fn subscribe(
    shared: &Shared,
    worker: &mut Worker,
    session: &mut Session,
    protocol: Protocol,
    (kind, name): (TopicKind, &[u8]),
) {
    let id = session.id();
    if worker.receivers.is_subscribed(id, kind, name) {
        return;
    }
    let index = worker.index;
    let (receivers, client) = (&mut worker.receivers, &session.client);
    // Most of it without the lock.
    receivers.drain(&shared.lanes, index);
    shared.pubsub.subscribe((kind, name), index, |name| {
        receivers.drain(&shared.lanes, index);
        receivers.add((id, protocol), kind, name);
        client.note_subscribed(kind, name);
    });
    session.show_subscriptions(worker.receivers.subscriptions(id));
}

/// Ends the subscription of a session to a topic, if it has one. Everything that was posted for it
/// is in its inbox then.
pub(crate) fn unsubscribe(
    shared: &Shared,
    worker: &mut Worker,
    session: &mut Session,
    (kind, name): (TopicKind, &[u8]),
) {
    let id = session.id();
    if !worker.receivers.is_subscribed(id, kind, name) {
        return;
    }
    let index = worker.index;
    let receivers = &mut worker.receivers;
    receivers.drain(&shared.lanes, index);
    shared.pubsub.unsubscribe((kind, name), index, || {
        receivers.drain(&shared.lanes, index);
        receivers.remove(id, kind, name);
    });
    session.client.note_unsubscribed(kind, name);
    session.show_subscriptions(worker.receivers.subscriptions(id));
}

/// Ends all subscriptions of a session. What was posted for them and is not in its inbox is
/// dropped.
pub(crate) fn unsubscribe_all(shared: &Shared, worker: &mut Worker, session: &mut Session) {
    if !session.is_subscriber {
        return;
    }
    let id = session.id();
    let index = worker.index;
    for kind in TopicKind::ALL {
        for name in worker.receivers.topics(id, kind) {
            let name: Arc<[u8]> = name;
            let receivers = &mut worker.receivers;
            shared.pubsub.unsubscribe((kind, &name), index, || receivers.remove(id, kind, &name));
            session.client.note_unsubscribed(kind, &name);
        }
    }
    session.show_subscriptions([0; 3]);
}

impl Session {
    /// Takes up how many topics it subscribes to, by kind, and lets others see it.
    fn show_subscriptions(&mut self, counts: [usize; 3]) {
        self.may_have_pushes |= self.is_subscriber;
        self.is_subscriber = counts.iter().any(|&count| count > 0);
        for (shown, count) in self.client.subscriptions.iter().zip(counts) {
            // Relaxed: for others' information only.
            shown.store(count as u64, Ordering::Relaxed);
        }
    }
}
