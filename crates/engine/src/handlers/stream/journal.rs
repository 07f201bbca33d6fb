//! Effects of deliveries in the journal: commands with the state that came of them.

use tidemill_store::value::stream::{Group, Pending, StreamId};

use super::id;
use crate::access::context::Cx;

/// Names that a delivery is journaled under.
#[derive(Clone, Copy, Debug)]
pub(super) struct GroupNames<'a> {
    pub(super) key: &'a [u8],
    pub(super) group: &'a [u8],
}

impl GroupNames<'_> {
    /// A pending entry as it is now: an `XCLAIM` that makes it so, whatever was before. Of an entry
    /// that is no longer in the stream, the command removes it.
    pub(super) fn pending(
        self,
        cx: &mut Cx<'_, '_>,
        consumer: &[u8],
        (entry, pending): (StreamId, Pending),
        last_id: StreamId,
    ) {
        if !cx.is_journaled() {
            return;
        }
        let (entry, last_id) = (id::text(entry), id::text(last_id));
        let delivered_at = pending.delivered_at_ms.to_string();
        let count = pending.delivery_count.to_string();
        cx.propagate([
            &b"XCLAIM"[..],
            self.key,
            self.group,
            consumer,
            b"0",
            &entry,
            b"TIME",
            delivered_at.as_bytes(),
            b"RETRYCOUNT",
            count.as_bytes(),
            b"FORCE",
            b"JUSTID",
            b"LASTID",
            &last_id,
        ]);
    }

    /// The last id of a group and what it has read.
    pub(super) fn last_id(self, cx: &mut Cx<'_, '_>, group: &Group) {
        if !cx.is_journaled() {
            return;
        }
        let last_id = id::text(group.last_id);
        let read = group.entries_read.map_or(-1, |count| count as i64).to_string();
        cx.propagate([
            &b"XGROUP"[..],
            b"SETID",
            self.key,
            self.group,
            &last_id,
            b"ENTRIESREAD",
            read.as_bytes(),
        ]);
    }

    /// A new consumer.
    pub(super) fn consumer(self, cx: &mut Cx<'_, '_>, consumer: &[u8]) {
        if cx.is_journaled() {
            cx.propagate([&b"XGROUP"[..], b"CREATECONSUMER", self.key, self.group, consumer]);
        }
    }
}
