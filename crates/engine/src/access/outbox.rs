//! Messages and keyspace events of a unit that may still be taken back: they wait for its end.

use crate::commit::Event;
use crate::limits::TOLD_OVERHEAD_BYTES;
use crate::pubsub::TopicKind;
use crate::pubsub::registry::Pressure;
use crate::shared::Shared;
use crate::worker::Worker;

/// A message or an event.
#[derive(Debug)]
enum Told {
    Message {
        kind: TopicKind,
        channel: Box<[u8]>,
        payload: Vec<u8>,
    },
    Event {
        database: usize,
        key: Box<[u8]>,
        event: Event,
    },
    /// A read did not find its key.
    Miss {
        database: usize,
        key: Box<[u8]>,
    },
}

/// Messages and events in their order.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    told: Vec<Told>,
    bytes: usize,
}

impl Outbox {
    /// Bytes that it takes.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    fn push(&mut self, told: Told, bytes: usize) {
        self.bytes += bytes + TOLD_OVERHEAD_BYTES;
        self.told.push(told);
    }

    /// Adds a message. Returns false if there is no memory for its payload.
    #[must_use]
    pub(crate) fn message(&mut self, (kind, channel): (TopicKind, &[u8]), payload: &[u8]) -> bool {
        let mut copy = Vec::new();
        if copy.try_reserve_exact(payload.len()).is_err() {
            return false;
        }
        copy.extend_from_slice(payload);
        let bytes = channel.len() + payload.len();
        self.push(Told::Message { kind, channel: channel.into(), payload: copy }, bytes);
        true
    }

    /// Adds an event of a key.
    pub(crate) fn event(&mut self, database: usize, key: &[u8], event: Event) {
        self.push(Told::Event { database, key: key.into(), event }, key.len());
    }

    /// Adds the keys that the worker has noted as missed.
    pub(crate) fn misses(&mut self, worker: &mut Worker) {
        for (database, key) in worker.take_missed() {
            let bytes = key.len();
            self.push(Told::Miss { database, key }, bytes);
        }
    }

    /// Tells all, and is empty then. Does not block.
    pub(crate) fn deliver(&mut self, shared: &Shared, worker: &Worker) {
        self.bytes = 0;
        for told in self.told.drain(..) {
            match told {
                Told::Message { kind, channel, payload } => {
                    let topic = (kind, &channel[..]);
                    // It fails for nothing that is not its receivers' business.
                    let cut_off = Pressure::CutOff;
                    let _ = shared.pubsub.publish(&shared.lanes, topic, &payload, cut_off);
                }
                Told::Event { database, key, event } => {
                    worker.tell_event(shared, database, &key, event);
                }
                Told::Miss { database, key } => {
                    worker.publish_event(shared, database, &key, "keymiss");
                }
            }
        }
    }
}
