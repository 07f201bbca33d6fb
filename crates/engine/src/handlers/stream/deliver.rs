//! Groups and consumers of a command, and what is delivered to them.

use tidemill_store::Encoding;
use tidemill_store::value::stream::{Consumer, Group, Pending, Stream, StreamEdit, StreamId};

use super::journal::GroupNames;
use super::lag::Counters;
use super::pieces::{StreamElements, write_entry};
use crate::access::context::Cx;
use crate::commit::{Event, EventClass};
use crate::error::CommandError;
use crate::limits::ELEMENT_OVERHEAD_BYTES;
use crate::memory;

pub(super) const CONSUMER_EVENT: Event = Event::new(EventClass::STREAM, "xgroup-createconsumer");

/// Stream under a key with a group.
pub(super) type StreamGroup<'g> = (Stream<'g>, Group);

/// The stream and the group of a command; none if one of them is not there. Counts as a lookup.
pub(super) fn find_group<'g>(
    cx: &mut Cx<'_, 'g>,
    names: GroupNames<'_>,
) -> Result<Option<StreamGroup<'g>>, CommandError> {
    let stream = cx.edit(names.key).counted().read_as::<Stream<'_>>()?;
    Ok(stream.and_then(|stream| Some((stream, stream.group(names.group)?))))
}

/// Changes groups of the stream under a key, which exists: no entries, so that it disturbs neither
/// watchers nor waiters.
pub(super) fn change<T>(
    cx: &mut Cx<'_, '_>,
    key: &[u8],
    event: Option<Event>,
    change: impl FnOnce(&mut StreamEdit<'_>) -> T,
) -> Result<T, CommandError> {
    let changed = cx.edit(key).change_beside::<Stream<'_>, _>(event, |stream| {
        Ok(Some((Encoding::Stream, change(stream))))
    })?;
    Ok(changed.expect("it is always changed"))
}

/// Consumer of a name, which is made if there is none, as seen at a time; true if it was made.
pub(super) fn see(
    stream: &mut StreamEdit<'_>,
    group: u64,
    name: &[u8],
    now_ms: i64,
) -> (Consumer, bool) {
    match stream.view().consumer(group, name) {
        Some(known) => {
            let consumer = Consumer { seen_at_ms: now_ms, ..known };
            stream.set_consumer(name, consumer);
            (consumer, false)
        }
        None => (stream.create_consumer(group, name, now_ms, -1), true),
    }
}

/// Event of a command that made a consumer or not.
pub(super) fn consumer_event(stream: Stream<'_>, group: u64, name: &[u8]) -> Option<Event> {
    stream.consumer(group, name).is_none().then_some(CONSUMER_EVENT)
}

/// A delivery to a consumer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Delivery<'a> {
    pub(super) names: GroupNames<'a>,
    pub(super) consumer: &'a [u8],
    /// Most entries; 0 is no limit.
    pub(super) count: u64,
    /// Entries are not pending.
    pub(super) is_acknowledged: bool,
}

impl Delivery<'_> {
    fn count_of(&self, available: u64) -> u64 {
        if self.count == 0 { available } else { available.min(self.count) }
    }

    /// Delivers entries behind the last one of the group, and answers them; nothing if there are
    /// none. The consumer is seen in any case. Returns the number of changes.
    pub(super) fn deliver_new(
        &self,
        cx: &mut Cx<'_, '_>,
        (stream, group): StreamGroup<'_>,
        begin: impl FnOnce(&mut Cx<'_, '_>),
    ) -> Result<u64, CommandError> {
        let first = stream.count_up_to(group.last_id);
        let count = self.count_of(stream.len() - first);
        cx.room().check(count.saturating_mul(ELEMENT_OVERHEAD_BYTES))?;
        let ranks = first..first + count;
        let elements = StreamElements { ranks, is_descending: false };
        let delivered = || elements.entries(stream, 0..count);
        let ids = || stream.ids_from(first).take(count as usize);
        let last = count.checked_sub(1).and_then(|index| stream.ids_from(first + index).next());
        let now_ms = cx.unix_ms();
        let event = consumer_event(stream, group.number, self.consumer);
        let counters = Counters::of(stream);
        let after = change(cx, self.names.key, event, |edit| {
            let (consumer, _) = see(edit, group.number, self.consumer, now_ms);
            let mut after = group;
            if let Some(last) = last {
                counters.read_all(&mut after, ids(), (count, last));
                if !self.is_acknowledged {
                    let pending = pending_now(consumer, now_ms);
                    edit.set_all_pending(group.number, ids().map(|id| (id, pending)));
                }
                edit.set_group(self.names.group, after);
                if !self.is_acknowledged {
                    edit.set_consumer(self.consumer, Consumer { active_at_ms: now_ms, ..consumer });
                }
            }
            (after, consumer)
        })?;
        cx.propagate_nothing();
        if event.is_some() && (self.is_acknowledged || count == 0) {
            self.names.consumer(cx, self.consumer);
        }
        let changes = u64::from(event.is_some());
        if count == 0 {
            return Ok(changes);
        }
        let (after, consumer) = after;
        if !self.is_acknowledged && cx.is_journaled() {
            for id in ids() {
                let pending = (id, pending_now(consumer, now_ms));
                self.names.pending(cx, self.consumer, pending, id);
            }
        }
        self.names.last_id(cx, &after);
        begin(cx);
        cx.reply.array(count as usize);
        delivered().for_each(|entry| write_entry(cx.reply, &entry));
        Ok(changes + 1)
    }

    /// Answers entries behind an id that are pending for the consumer, once more. Returns the
    /// number of changes.
    pub(super) fn deliver_again(
        &self,
        cx: &mut Cx<'_, '_>,
        (stream, group): StreamGroup<'_>,
        behind: StreamId,
    ) -> Result<u64, CommandError> {
        let now_ms = cx.unix_ms();
        let known = stream.consumer(group.number, self.consumer);
        let limit = if self.count == 0 { usize::MAX } else { self.count as usize };
        let ids = known
            .zip(behind.next())
            .into_iter()
            .flat_map(|(consumer, start)| stream.consumer_pending_from(consumer.number, start));
        let ids = memory::collect(ids.take(limit))?;
        let event = consumer_event(stream, group.number, self.consumer);
        let mut changed = memory::with_capacity(ids.len())?;
        change(cx, self.names.key, event, |edit| {
            see(edit, group.number, self.consumer, now_ms);
            for &id in ids.iter().filter(|&&id| stream.contains(id)) {
                let Some(old) = stream.pending(group.number, id) else { continue };
                let delivery_count = old.delivery_count.wrapping_add(1);
                let pending = Pending { delivered_at_ms: now_ms, delivery_count, ..old };
                changed.push((id, pending));
            }
            edit.set_all_pending(group.number, changed.iter().copied());
        })?;
        cx.propagate_nothing();
        if event.is_some() {
            self.names.consumer(cx, self.consumer);
        }
        for pending in changed {
            self.names.pending(cx, self.consumer, pending, group.last_id);
        }
        cx.reply.array(ids.len());
        for id in ids {
            match stream.get(id) {
                Some(entry) => write_entry(cx.reply, &entry),
                None => {
                    cx.reply.array(2);
                    super::id::reply(cx.reply, id);
                    cx.reply.null_array();
                }
            }
        }
        Ok(1 + u64::from(event.is_some()))
    }
}

/// An entry that is delivered for the first time.
fn pending_now(consumer: Consumer, now_ms: i64) -> Pending {
    Pending { consumer: consumer.number, delivered_at_ms: now_ms, delivery_count: 1 }
}
