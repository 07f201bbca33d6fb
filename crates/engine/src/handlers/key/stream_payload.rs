//! Streams in payloads of `DUMP` and `RESTORE`.

use std::collections::{HashMap, TryReserveError};

use tidemill_rdb::Text;
use tidemill_rdb::encode::{Encoder, Output, Place, StreamListpack};
use tidemill_rdb::value::{self as rdb, Item, StreamFields, ValueEncoding};
use tidemill_store::Encoding;
use tidemill_store::value::stream::{
    FieldValue, Group, NodeLimits, Pending, SharedNames, Stream, StreamEdit, StreamEntry, StreamId,
    StreamState,
};

use super::damage::Refusal;
use crate::error::CommandError;
use crate::handlers::stream::Counters;
use crate::memory;

fn to_rdb(id: StreamId) -> rdb::StreamId {
    rdb::StreamId { ms: id.ms, seq: id.seq }
}

fn of_rdb(id: rdb::StreamId) -> StreamId {
    StreamId { ms: id.ms, seq: id.seq }
}

/// Texts of some fields, those of integers as digits.
#[derive(Debug, Default)]
struct FieldTexts {
    bytes: Vec<u8>,
    /// Ends of the name and of the value of each field.
    ends: Vec<(usize, usize)>,
}

impl FieldTexts {
    fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }

    fn push(&mut self, name: &[u8], value: &[u8]) -> Result<(), CommandError> {
        memory::extend(&mut self.bytes, name)?;
        let name_end = self.bytes.len();
        memory::extend(&mut self.bytes, value)?;
        memory::push(&mut self.ends, (name_end, self.bytes.len()))
    }

    fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> + Clone {
        let starts = std::iter::once(0).chain(self.ends.iter().map(|&(_, end)| end));
        starts.zip(&self.ends).map(|(start, &(name_end, end))| {
            (&self.bytes[start..name_end], &self.bytes[name_end..end])
        })
    }
}

/// Writes a stream, its entries in nodes as Valkey would have them.
pub(crate) fn write<O: Output<Error: From<TryReserveError>>>(
    encoder: &mut Encoder<O>,
    place: Place<'_>,
    stream: Stream<'_>,
) -> Result<(), O::Error> {
    let node_count = stream.iter_from(0).filter(|entry| entry.starts_node).count();
    encoder.stream(place, node_count as u64)?;
    // The present node with its first entry.
    let mut node: Option<(StreamListpack, StreamEntry<'_>)> = None;
    for entry in stream.iter_from(0) {
        let begin = || (StreamListpack::new(to_rdb(entry.id)), entry);
        if entry.starts_node
            && let Some((full, _)) = node.replace(begin())
        {
            encoder.stream_entries(&full)?;
        }
        let (node, first) = node.get_or_insert_with(begin);
        push_entry(node, first, &entry)?;
    }
    if let Some((last, _)) = node {
        encoder.stream_entries(&last)?;
    }
    let state = stream.state();
    let state = rdb::StreamState {
        length: stream.len(),
        last_id: to_rdb(state.last_id),
        first_id: Some(to_rdb(stream.first_id())),
        max_deleted_id: Some(to_rdb(state.max_deleted_id)),
        entries_added: Some(state.entries_added),
    };
    encoder.stream_state(&state, stream.group_count())?;
    for (name, group) in stream.groups() {
        write_group(encoder, stream, (name, group))?;
    }
    Ok(())
}

/// Adds an entry to a node, of which `first` is the first one.
fn push_entry(
    node: &mut StreamListpack,
    first: &StreamEntry<'_>,
    entry: &StreamEntry<'_>,
) -> Result<(), TryReserveError> {
    // Digits of integers, which the fields refer to.
    let mut digits: Vec<String> = Vec::new();
    for (_, value) in entry.fields() {
        if let FieldValue::Integer(value) = value {
            digits.try_reserve(1)?;
            digits.push(value.to_string());
        }
    }
    let mut digits = digits.iter();
    let mut fields: Vec<(&[u8], &[u8])> = Vec::new();
    fields.try_reserve_exact(entry.field_count() as usize)?;
    fields.extend(entry.fields().map(|(name, value)| match value {
        FieldValue::Text(text) => (name, text),
        FieldValue::Integer(_) => (name, digits.next().map_or(&[][..], |text| text.as_bytes())),
    }));
    match entry.id != first.id && entry.shares_names_with(first) {
        true => node.push_with_same_names(to_rdb(entry.id), &fields),
        false => node.push(to_rdb(entry.id), &fields),
    }
}

fn write_group<O: Output<Error: From<TryReserveError>>>(
    encoder: &mut Encoder<O>,
    stream: Stream<'_>,
    (name, group): (&[u8], Group),
) -> Result<(), O::Error> {
    let pending_count = stream.pending_count(group.number);
    encoder.stream_group(name, to_rdb(group.last_id), group.entries_read, pending_count)?;
    for (id, pending) in stream.pending_from(group.number, StreamId::MIN) {
        encoder.stream_pending(to_rdb(id), pending.delivered_at_ms, pending.delivery_count)?;
    }
    encoder.stream_consumers(stream.consumer_count(group.number))?;
    for (name, consumer) in stream.consumers(group.number) {
        let count = stream.consumer_pending_count(consumer.number);
        encoder.stream_consumer(name, consumer.seen_at_ms, consumer.active_at_ms, count)?;
        for id in stream.consumer_pending_from(consumer.number, StreamId::MIN) {
            encoder.stream_consumer_pending(to_rdb(id))?;
        }
    }
    Ok(())
}

/// Stream that is being read, element by element.
#[derive(Debug)]
pub(crate) struct Reading {
    encoding: ValueEncoding,
    fields: FieldTexts,
    /// Names that entries of the present node share.
    shared_names: SharedNames,
    /// The present group, and pending entries that no consumer has yet.
    group: Option<Group>,
    pending: HashMap<StreamId, (i64, u64)>,
    consumer: Option<u64>,
}

impl Reading {
    pub(crate) fn new(encoding: ValueEncoding) -> Reading {
        Reading {
            encoding,
            fields: FieldTexts::default(),
            shared_names: SharedNames::default(),
            group: None,
            pending: HashMap::new(),
            consumer: None,
        }
    }

    /// Takes an element, and returns about how many bytes it needs.
    pub(crate) fn take(
        &mut self,
        stream: &mut StreamEdit<'_>,
        item: Item<'_>,
    ) -> Result<u64, Refusal> {
        match item {
            Item::StreamEntry { id, fields, starts_node } => {
                if starts_node {
                    stream.end_node();
                    self.shared_names = SharedNames::default();
                }
                self.take_entry(stream, of_rdb(id), fields)
            }
            Item::StreamState(state) => take_state(stream, &state),
            Item::StreamGroup { name, last_id, entries_read } => {
                self.end_group()?;
                let last_id = of_rdb(last_id);
                let entries_read = match self.encoding {
                    // It was not counted then, and is estimated.
                    ValueEncoding::Stream => Counters::of(stream.view()).added_up_to(last_id),
                    _ => entries_read,
                };
                self.group = stream.create_group(name, last_id, entries_read);
                let duplicate = || Refusal::damaged("Duplicate consumer group");
                self.group.map(|_| name.len() as u64).ok_or_else(duplicate)
            }
            Item::StreamPending { id, delivered_at_ms, delivery_count } => {
                if self.pending.try_reserve(1).is_err() {
                    let bytes = size_of::<(StreamId, i64, u64)>() as u64;
                    return Err(CommandError::NoMemory(bytes).into());
                }
                match self.pending.insert(of_rdb(id), (delivered_at_ms, delivery_count)) {
                    None => Ok(0),
                    Some(_) => Err(Refusal::damaged("Duplicated group PEL entry")),
                }
            }
            Item::StreamConsumer { name, seen_at_ms, active_at_ms } => {
                let group = self.present_group()?.number;
                if stream.view().consumer(group, name).is_some() {
                    return Err(Refusal::damaged("Duplicate stream consumer detected"));
                }
                let active_at_ms = active_at_ms.unwrap_or(seen_at_ms);
                let consumer = stream.create_consumer(group, name, seen_at_ms, active_at_ms);
                self.consumer = Some(consumer.number);
                Ok(2 * name.len() as u64)
            }
            Item::StreamConsumerPending(id) => {
                let (id, group) = (of_rdb(id), self.present_group()?.number);
                let consumer =
                    self.consumer.ok_or(Refusal::damaged("Consumer PEL entry without consumer"))?;
                // Each entry has one consumer.
                let Some((delivered_at_ms, delivery_count)) = self.pending.remove(&id) else {
                    return Err(Refusal::damaged(match stream.view().pending(group, id) {
                        Some(_) => "Duplicated consumer PEL entry",
                        None => "Consumer PEL entry not found in group PEL",
                    }));
                };
                let pending = Pending { consumer, delivered_at_ms, delivery_count };
                stream.set_pending(group, id, pending);
                Ok(0)
            }
            _ => Err(Refusal::damaged("it is no part of a stream")),
        }
    }

    fn present_group(&self) -> Result<Group, Refusal> {
        self.group.ok_or(Refusal::damaged("Consumer without consumer group"))
    }

    fn take_entry(
        &mut self,
        stream: &mut StreamEdit<'_>,
        id: StreamId,
        fields: StreamFields<'_>,
    ) -> Result<u64, Refusal> {
        if id <= stream.state().last_id {
            return Err(Refusal::damaged("an id is not above the ones before"));
        }
        self.fields.clear();
        // Of names that are known, not even the bytes are looked at: each entry has them.
        let (shares_names, knows_names) = (fields.has_shared_names(), !self.shared_names.is_new());
        let (mut name_digits, mut digits) = (String::new(), String::new());
        for (name, value) in fields {
            let name = match shares_names && knows_names {
                true => &[],
                false => text(name, &mut name_digits),
            };
            self.fields.push(name, text(value, &mut digits))?;
        }
        if shares_names {
            let names = self.fields.iter().map(|(name, _)| name);
            let values = self.fields.iter().map(|(_, value)| value);
            stream.push_shared(id, names, values, &mut self.shared_names);
        } else {
            stream.push(id, self.fields.iter(), NodeLimits::NONE);
        }
        Ok(self.fields.bytes.len() as u64)
    }

    /// Ends the present group: its pending entries have consumers.
    fn end_group(&mut self) -> Result<(), Refusal> {
        (self.group, self.consumer) = (None, None);
        match self.pending.is_empty() {
            true => Ok(()),
            false => Err(Refusal::damaged("Group PEL entry without consumer")),
        }
    }

    /// Ends the stream, and returns its encoding.
    pub(crate) fn end(&mut self) -> Result<Encoding, Refusal> {
        self.end_group()?;
        Ok(Encoding::Stream)
    }
}

fn text<'t>(text: Text<'t>, digits: &'t mut String) -> &'t [u8] {
    match text {
        Text::Bytes(bytes) => bytes,
        Text::Integer(value) => {
            *digits = value.to_string();
            digits.as_bytes()
        }
    }
}

fn take_state(stream: &mut StreamEdit<'_>, state: &rdb::StreamState) -> Result<u64, Refusal> {
    let last_id = of_rdb(state.last_id);
    if state.length != stream.view().len() || last_id < stream.state().last_id {
        return Err(Refusal::damaged("length or last id contradict the entries"));
    }
    stream.set_state(StreamState {
        last_id,
        max_deleted_id: state.max_deleted_id.map_or(StreamId::MIN, of_rdb),
        entries_added: state.entries_added.unwrap_or(state.length),
    });
    Ok(0)
}
