//! Keyspace events as messages: `notify-keyspace-events`.
//!
//! An event of a change is published under the lock of the key's slot, behind the change: a
//! subscriber that reads the key finds what the event tells. That a key was missed is published
//! once the read counts.

use std::fmt::Write;

use smallvec::SmallVec;

use super::{MissedKey, Worker};
use crate::commit::{Event, EventClass};
use crate::pubsub::TopicKind;
use crate::pubsub::registry::Pressure;
use crate::shared::Shared;

/// Bytes of a channel's name that are put together without an allocation.
const NAME_BYTES: usize = 128;

/// Name of a channel.
struct ChannelName(SmallVec<[u8; NAME_BYTES]>);

impl Write for ChannelName {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        self.0.extend_from_slice(text.as_bytes());
        Ok(())
    }
}

impl Worker {
    /// Tells the sink of events and the subscribers of an event of a key.
    pub(crate) fn tell_event(&self, shared: &Shared, database: usize, key: &[u8], event: Event) {
        if let Some(events) = shared.sinks.events() {
            events.event(database, key, event);
        }
        if self.settings.publishes(event.class) {
            self.publish_event(shared, database, key, event.name);
        }
        for &name in event.followed_by {
            self.tell_event(shared, database, key, Event::new(event.class, name));
        }
    }

    /// Publishes an event of a key, to the channels that the settings ask for.
    pub(crate) fn publish_event(&self, shared: &Shared, database: usize, key: &[u8], name: &str) {
        if !shared.pubsub.has_listeners() {
            return;
        }
        let publish = |class: EventClass, kind: &str, subject: &[u8], payload: &[u8]| {
            if !self.settings.published_events.contains(class) {
                return;
            }
            let mut channel = ChannelName(SmallVec::new());
            // It does not fail.
            let _ = write!(channel, "__{kind}@{database}__:");
            channel.0.extend_from_slice(subject);
            let topic = (TopicKind::Channel, &channel.0[..]);
            // It fails for nothing that is not its receivers' business.
            let _ = shared.pubsub.publish(&shared.lanes, topic, payload, Pressure::CutOff);
        };
        publish(EventClass::KEYSPACE, "keyspace", key, name.as_bytes());
        publish(EventClass::KEYEVENT, "keyevent", name.as_bytes(), key);
    }

    /// Notes a key that the present command did not find.
    #[cold]
    pub(crate) fn note_missed(&mut self, database: usize, key: &[u8]) {
        self.missed.push(MissedKey { database, key: key.into() });
    }

    /// Takes the keys that were noted as missed, with their databases.
    pub(crate) fn take_missed(&mut self) -> impl Iterator<Item = (usize, Box<[u8]>)> + use<> {
        std::mem::take(&mut self.missed).into_iter().map(|missed| (missed.database, missed.key))
    }

    /// Publishes the misses of a command, which counts now.
    #[inline]
    pub(crate) fn publish_misses(&mut self, shared: &Shared) {
        if !self.missed.is_empty() {
            self.publish_misses_now(shared);
        }
    }

    #[cold]
    fn publish_misses_now(&mut self, shared: &Shared) {
        for MissedKey { database, key } in std::mem::take(&mut self.missed) {
            self.publish_event(shared, database, &key, "keymiss");
        }
    }
}
