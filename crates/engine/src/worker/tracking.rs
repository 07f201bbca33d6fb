//! Telling clients of keys that have changed (`CLIENT TRACKING`).
//!
//! A change is posted under its key's slot lock into the lanes of the workers whose sessions have
//! read the key, so before the change is answered. A session takes its lane between its commands:
//! what it is told follows the reply to what it read, and to its own write. Changes of keys with a
//! prefix are gathered until the turn ends, and posted before its replies leave.

use std::sync::Arc;

use tidemill_resp::encode::Protocol;

use super::Worker;
use super::session::Session;
use crate::limits::BROADCAST_BYTES_MAX;
use crate::pubsub::invalidations::ChangedKey;
use crate::pubsub::lanes::Delivery;
use crate::pubsub::receivers::Redirected;
use crate::shared::Shared;
use crate::shared::clients::Client;
use crate::slots::tracked::Untracked;
use crate::slots::waiter::Waiter;

/// Changes that are told by prefix, and those of the session at hand.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    gathered: Vec<ChangedKey>,
    gathered_bytes: usize,
    /// More than is gathered: all keys are told to have changed.
    are_too_many: bool,
    /// Session whose command runs.
    pub(crate) session: u64,
    /// Its own changes of keys that it has read are not told to it.
    is_noloop: bool,
    /// Blocked session whose command runs in its place: what is for itself follows its reply.
    served: Option<u64>,
    of_served: Vec<Arc<[u8]>>,
}

impl Worker {
    /// Tells those who have read a key that it has changed, but for the session at hand if it does
    /// not want that. The key's slot is locked.
    #[cold]
    pub(crate) fn post_invalidation(&mut self, shared: &Shared, untracked: Untracked) {
        let Untracked { key, mut trackers } = untracked;
        let Changes { session, is_noloop, served, of_served, .. } = &mut self.changes;
        trackers.retain(|tracker| !(*is_noloop && tracker.session == *session));
        trackers.sort_unstable_by_key(|tracker| tracker.worker);
        for of_worker in trackers.chunk_by(|one, next| one.worker == next.worker) {
            let sessions = of_worker.iter().map(|tracker| tracker.session);
            let sessions = sessions.filter(|session| Some(*session) != *served).collect();
            let delivery = Delivery::Invalidation { sessions, key: Arc::clone(&key) };
            shared.lanes.post(of_worker[0].worker, delivery);
        }
        if trackers.iter().any(|tracker| Some(tracker.session) == *served) {
            of_served.push(key);
        }
    }

    /// Notes a change of a key, by the session at hand or by the server, for those who listen to a
    /// prefix of it. The key's slot is locked.
    #[cold]
    pub(crate) fn gather_change(&mut self, key: &[u8], is_of_session: bool) {
        let changes = &mut self.changes;
        let bytes = key.len() + size_of::<ChangedKey>();
        // The first is gathered however long it is: it is one key's name, as the command has it.
        let is_first = changes.gathered.is_empty();
        if !is_first && changes.gathered_bytes + bytes > BROADCAST_BYTES_MAX {
            changes.are_too_many = true;
            return;
        }
        changes.gathered_bytes += bytes;
        let session = if is_of_session { changes.session } else { 0 };
        changes.gathered.push(ChangedKey { key: key.into(), session });
    }

    /// Posts the changes that were gathered: before anything is answered that was done with them.
    #[inline]
    pub fn post_changes(&mut self, shared: &Shared) {
        if !self.changes.gathered.is_empty() {
            self.post_changes_now(shared);
        }
    }

    #[cold]
    fn post_changes_now(&mut self, shared: &Shared) {
        let changes = std::mem::take(&mut self.changes.gathered);
        self.changes.gathered_bytes = 0;
        if std::mem::take(&mut self.changes.are_too_many) {
            return self.invalidate_all(shared);
        }
        shared.tracking.prefixes.post(&shared.lanes, &changes);
    }

    /// Tells all who track that all keys have changed.
    pub(crate) fn invalidate_all(&self, shared: &Shared) {
        if shared.tracking.clients() > 0 {
            for worker in 0..shared.worker_count() {
                shared.lanes.post(worker, Delivery::InvalidationOfAll);
            }
        }
    }

    /// Changes are those of a session from now on, or of the server, which is session 0. Returns
    /// whose they were.
    #[inline]
    pub(crate) fn begin_changes(&mut self, session: u64, is_noloop: bool) -> (u64, bool) {
        let changes = &mut self.changes;
        let former = (changes.session, changes.is_noloop);
        (changes.session, changes.is_noloop) = (session, is_noloop);
        former
    }

    /// A session tracks no more, if it did.
    pub(crate) fn end_tracking(&mut self, shared: &Shared, session: &mut Session) {
        let Some(tracking) = session.tracking.take() else { return };
        tracking.tracker.end();
        shared.tracking.remove_client();
        session.client.note_tracking(None, 0, 0);
        let told = self.receivers.tracking(session.id()).cloned().unwrap_or_default();
        for prefix in told.prefixes {
            shared.tracking.prefixes.remove(&prefix, self.index);
        }
        self.receivers.set_tracking((session.id(), Protocol::Resp2), None);
        self.begin_changes(session.id(), false);
    }

    /// Runs the command of a blocked session in its place. Returns the keys that it has read
    /// before and changed now.
    pub(crate) fn serve<T>(
        &mut self,
        waiter: &Waiter,
        command: impl FnOnce(&mut Worker) -> T,
    ) -> (T, Vec<Arc<[u8]>>) {
        let former = self.begin_changes(waiter.session, waiter.is_noloop);
        self.changes.served = Some(waiter.session);
        let result = command(self);
        self.changes.served = None;
        self.begin_changes(former.0, former.1);
        (result, std::mem::take(&mut self.changes.of_served))
    }

    /// Tells a session of keys that the command changed which it was blocked in.
    pub fn invalidate_own(&mut self, shared: &Shared, session: u64, keys: &[Arc<[u8]>]) {
        keys.iter().for_each(|key| self.receivers.invalidate(&[session], key));
        self.tell_redirected(shared);
    }

    /// Puts everything that was posted so far into inboxes.
    pub(crate) fn drain_lane(&mut self, shared: &Shared) {
        self.receivers.drain(&shared.lanes, self.index);
        self.tell_redirected(shared);
    }

    /// Puts deliveries into inboxes, as many as are to be sent together. Returns false if there is
    /// nothing to be sent.
    #[must_use]
    #[inline]
    pub fn collect_pushes(&mut self, shared: &Shared) -> bool {
        let has_some = self.receivers.collect();
        if !self.receivers.has_redirected() {
            return has_some;
        }
        self.tell_redirected(shared);
        true
    }

    /// Lets sessions tell what others' clients are to know.
    fn tell_redirected(&mut self, shared: &Shared) {
        for redirected in self.receivers.take_redirected() {
            self.redirect(shared, redirected);
        }
    }

    #[cold]
    fn redirect(&mut self, shared: &Shared, redirected: Redirected) {
        let Redirected { tracker, target, invalidated } = redirected;
        let found = shared.clients.find(target).filter(|client| !client.is_leaving());
        let Some(client) = found else {
            return self.note_broken_redirect(shared, tracker, target);
        };
        if client.owner() == self.index {
            let is_subscriber = client.is_subscriber();
            let to = (target, protocol_of(&client));
            self.receivers.tell_redirected(to, is_subscriber, &invalidated);
        } else {
            let delivery = Delivery::Redirected { session: target, invalidated };
            shared.lanes.post(client.owner(), delivery);
        }
    }

    /// The session is gone that was to tell: the client itself is told so, where that is possible.
    fn note_broken_redirect(&mut self, shared: &Shared, tracker: u64, target: u64) {
        let Some(client) = shared.clients.find(tracker) else { return };
        client.note_broken_redirect();
        if protocol_of(&client) == Protocol::Resp3 {
            self.receivers.push_own((tracker, Protocol::Resp3), |buffer| {
                buffer.push(2);
                buffer.bulk("tracking-redir-broken");
                buffer.integer(target.cast_signed());
            });
        }
    }
}

/// Protocol that a client speaks, as its own worker sees it.
fn protocol_of(client: &Client) -> Protocol {
    // Relaxed: written by this thread.
    match client.protocol.load(std::sync::atomic::Ordering::Relaxed) {
        3 => Protocol::Resp3,
        _ => Protocol::Resp2,
    }
}
