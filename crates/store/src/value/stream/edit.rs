//! Edits of streams.

use std::marker::PhantomData;
use std::ops::Range;

use smallvec::SmallVec;

use crate::heap::Heap;
use crate::tree::arena::Arena;
use crate::tree::node::Link;
use crate::tree::{Built, Root};
use crate::value::collection::TreeEdit;

use super::directory::{self, Consumer, DirectoryEdit, Group, NodeSchemas, SCHEMAS};
use super::entries::{self, Head, StoredId};
use super::id::StreamId;
use super::listpack::{self, LastNode, NodeLimits};
use super::number::{self, Bytes};
use super::parts::{Parts, StreamState};
use super::pending::{self, Pending};
use super::value::FieldValue;
use super::view::Stream;
use super::{SCHEMA_BYTES_MAX, SEARCHED_SCHEMA_COUNT_MAX};

/// Values of an entry that is added.
type FieldValues<'a> = SmallVec<[FieldValue<'a>; 8]>;

/// Names of an entry with their count, as a schema and an entry without one have them.
type StoredNames = SmallVec<[u8; 256]>;

/// Names that entries of a node share, once the first of them was added to the stream. They are
/// those of one edit, in which no entry is removed between the first and the last of them.
#[derive(Clone, Copy, Debug, Default)]
pub struct SharedNames {
    /// Their schema; 0 before the first entry.
    schema: u64,
    /// Bytes that they have in a node of Valkey.
    listpack_bytes: u64,
}

impl SharedNames {
    /// True before the first entry: the names are to be given.
    #[must_use]
    pub fn is_new(&self) -> bool {
        self.schema == 0
    }
}

/// Entry that is added.
struct NewEntry<'e> {
    id: StreamId,
    schema: u64,
    /// Names of an entry without a schema.
    own_names: &'e [u8],
    values: &'e [FieldValue<'e>],
}

/// Next version of a stream, under construction. A stream without entries exists.
///
/// Texts that are given to an edit must not be those of its own view.
#[derive(Debug)]
pub struct StreamEdit<'h> {
    arena: Arena,
    heap: &'h Heap,
    /// Published root, until the first change makes it part of the old version.
    root: Option<Link>,
    parts: Parts,
    // Not `Send`: an edit belongs to the thread whose heap it counts in.
    marker: PhantomData<*const ()>,
}

impl<'h> StreamEdit<'h> {
    /// A new stream without entries.
    #[must_use]
    pub fn create(heap: &'h Heap) -> StreamEdit<'h> {
        StreamEdit {
            arena: Arena::default(),
            heap,
            root: None,
            parts: Parts::EMPTY,
            marker: PhantomData,
        }
    }

    /// Next version of the stream under `root`; a new one, if there is none.
    ///
    /// # Safety
    ///
    /// `root` came from a `StreamEdit`, is the current version of its key, and no other code edits
    /// or retires it until this edit and the tree it built are gone.
    #[must_use]
    pub unsafe fn new(root: Option<Root>, heap: &'h Heap) -> StreamEdit<'h> {
        let mut edit = StreamEdit::create(heap);
        edit.arena = Arena::from(root);
        if let Some(root) = root {
            edit.root = Some(root.link());
            edit.parts = Parts::of(root.link().node());
        }
        edit
    }

    /// The stream as edited so far, but for its own count of bytes.
    #[must_use]
    pub fn view(&self) -> Stream<'_> {
        Stream::of_parts(self.parts)
    }

    /// State besides entries and groups.
    #[must_use]
    pub fn state(&self) -> StreamState {
        self.parts.meta.state
    }

    /// Sets the state besides entries and groups. The last id must not be less than that of an
    /// entry that is there.
    pub fn set_state(&mut self, state: StreamState) {
        debug_assert!(self.view().last_entry_id().is_none_or(|last| last <= state.last_id));
        self.change().meta.state = state;
    }

    /// Adds an entry with a greater id than the last one, which is this one then.
    pub fn push<'a>(
        &mut self,
        id: StreamId,
        fields: impl Iterator<Item = (&'a [u8], &'a [u8])> + Clone,
        limits: NodeLimits,
    ) {
        self.begin_if_empty(id);
        let names = fields.clone().map(|(name, _)| name);
        let stored = stored_names(names.clone());
        let schema = self.schema_of(&stored);
        let text_bytes = fields.clone().map(|(name, value)| (name.len() + value.len()) as u64);
        if self.parts.meta.last_node.is_full(text_bytes.sum(), limits) {
            self.end_node();
        }
        let values: FieldValues<'_> = fields.map(|(_, text)| FieldValue::of(text)).collect();
        let own_names: &[u8] = if schema == 0 { &stored } else { &[] };
        let entry = NewEntry { id, schema, own_names, values: &values };
        self.push_entry(&entry, || listpack::names_bytes(names));
    }

    /// Adds an entry as [`StreamEdit::push`] does, to the last node or the one that was to begin,
    /// with names that others of the node have, too: they are stored once, however many schemas
    /// there are. `names` is read only if `shared` is new, which it is once in a node.
    pub fn push_shared<'a>(
        &mut self,
        id: StreamId,
        names: impl Iterator<Item = &'a [u8]> + Clone,
        values: impl Iterator<Item = &'a [u8]>,
        shared: &mut SharedNames,
    ) {
        self.begin_if_empty(id);
        let mut stored = StoredNames::new();
        if shared.is_new() {
            stored = stored_names(names.clone());
            let schema = match self.schema_of(&stored) {
                0 => self.add_node_schema(id, &stored),
                schema => schema,
            };
            *shared = SharedNames { schema, listpack_bytes: listpack::names_bytes(names) };
        }
        let SharedNames { schema, listpack_bytes } = *shared;
        let values: FieldValues<'_> = values.map(FieldValue::of).collect();
        let own_names: &[u8] = if schema == 0 { &stored } else { &[] };
        self.push_entry(&NewEntry { id, schema, own_names, values: &values }, || listpack_bytes);
    }

    /// Adds an entry to the last node, or to another one if that has ended.
    fn push_entry(&mut self, entry: &NewEntry<'_>, names_bytes: impl FnOnce() -> u64) {
        let &NewEntry { id, schema, own_names, values } = entry;
        debug_assert!(id > self.parts.meta.state.last_id);
        let meta = &mut self.change().meta;
        let starts_node = meta.last_node.entry_count == 0;
        meta.last_node.add(id, schema, names_bytes, values);
        meta.state.last_id = id;
        // As in Valkey: a payload may have the largest number.
        meta.state.entries_added = meta.state.entries_added.wrapping_add(1);
        let base_ms = meta.base_ms;
        let stored_id = StoredId::of(id, base_ms).expect("no entry is before the first");
        let mut prefix = Bytes::from_slice(stored_id.bytes());
        number::push(&mut prefix, Head { schema, starts_node }.number());
        self.push_element(&prefix, own_names, values);
    }

    /// Lets the next entry begin a node.
    pub fn end_node(&mut self) {
        self.change().meta.last_node = LastNode::default();
    }

    fn push_element(&mut self, prefix: &[u8], names: &[u8], values: &[FieldValue<'_>]) {
        // Heads of all values end to end, and where each ends.
        let mut heads = Bytes::new();
        let mut ends = SmallVec::<[usize; 8]>::new();
        for value in values {
            value.push_head(&mut heads);
            ends.push(heads.len());
        }
        let mut element: SmallVec<[&[u8]; 18]> = smallvec::smallvec![prefix, names];
        let mut start = 0;
        for (value, end) in values.iter().zip(ends) {
            element.push(&heads[start..end]);
            element.push(value.text());
            start = end;
        }
        entries::push(&mut self.arena, &mut self.parts, &element);
    }

    /// Begins anew with the first of all entries that are there: ids count from its milliseconds,
    /// and schemas that no entry has any more are dropped.
    fn begin_if_empty(&mut self, id: StreamId) {
        if !self.view().is_empty() {
            return;
        }
        let meta = &mut self.change().meta;
        meta.base_ms = id.ms;
        meta.last_node = LastNode::default();
        self.directory().remove_all(SCHEMAS);
    }

    /// Number of the schema with some names, which is made where it may be; 0 if there is none.
    fn schema_of(&mut self, names: &[u8]) -> u64 {
        let directory = self.parts.directory;
        let latest = self.parts.meta.last_node.schema;
        if latest != 0 && directory::schema_names(directory, latest) == names {
            return latest;
        }
        if names.len() > SCHEMA_BYTES_MAX {
            return 0;
        }
        let mut count = 0;
        for (schema, known) in directory::searched_schemas(directory) {
            if known == names {
                return schema;
            }
            count = schema;
        }
        if count == SEARCHED_SCHEMA_COUNT_MAX {
            return 0;
        }
        self.directory().add_searched_schema(count + 1, names);
        count + 1
    }

    /// Makes a schema of the last node, which has none; returns its number, or 0 without one.
    fn add_node_schema(&mut self, first_entry: StreamId, names: &[u8]) -> u64 {
        let schemas = NodeSchemas::of(self.parts.directory);
        let Some(schema) = schemas.next_number() else { return 0 };
        self.directory().add_node_schema(schema, first_entry, names);
        schema
    }

    /// Removes the schema of the node of an entry that was removed, if it was the last of them.
    fn drop_schema_of(&mut self, removed: StreamId) {
        let schemas = NodeSchemas::of(self.parts.directory);
        let Some(index) = schemas.count_until(removed).checked_sub(1) else { return };
        let (first, end) = (schemas.first_entry(index), schemas.first_entry(index + 1));
        let rank = entries::find(&self.parts, first.expect("it is one of them")).rank;
        let next = entries::id_at(&self.parts, rank);
        if next.is_none_or(|next| end.is_some_and(|end| next >= end)) {
            self.drop_schemas(index..index + 1);
        }
    }

    /// Removes the schemas of nodes before the first entry that is left.
    fn drop_schemas_before_first(&mut self) {
        let schemas = NodeSchemas::of(self.parts.directory);
        let count = match entries::id_at(&self.parts, 0) {
            Some(first) => schemas.count_until(first).saturating_sub(1),
            None => schemas.count,
        };
        self.drop_schemas(0..count);
    }

    fn drop_schemas(&mut self, indices: Range<u64>) {
        if indices.is_empty() {
            return;
        }
        self.directory().remove_node_schemas(indices);
        let Parts { directory, meta, .. } = &mut self.parts;
        if !directory::has_schema(*directory, meta.last_node.schema) {
            // The last node goes on with other names.
            meta.last_node.schema = 0;
        }
    }

    /// Removes an entry. False if there is none of the id.
    pub fn remove(&mut self, id: StreamId) -> bool {
        let found = entries::find(&self.parts, id);
        if !found.is_present {
            return false;
        }
        self.change();
        entries::remove(&mut self.arena, &mut self.parts, found.rank);
        self.drop_schema_of(id);
        true
    }

    /// Number of entries of the first whole nodes, as Valkey would have them: of as many nodes as
    /// have no more than `count_max` entries together.
    pub fn nodes_within(&mut self, count_max: u64) -> u64 {
        entries::nodes_within(self.change(), count_max)
    }

    /// Removes the first `count` entries, or all. The time does not depend on their number.
    pub fn remove_first(&mut self, count: u64) {
        if count > 0 {
            self.change();
            entries::remove_first(&mut self.arena, &mut self.parts, count);
            self.drop_schemas_before_first();
        }
    }

    /// Creates a group without consumers; none if there is one of the name.
    pub fn create_group(
        &mut self,
        name: &[u8],
        last_id: StreamId,
        entries_read: Option<u64>,
    ) -> Option<Group> {
        if self.view().group(name).is_some() {
            return None;
        }
        let group = Group { number: self.draw_number(), last_id, entries_read };
        self.directory().set_group(name, group);
        Some(group)
    }

    /// Sets what a group of a name has.
    pub fn set_group(&mut self, name: &[u8], group: Group) {
        self.directory().set_group(name, group);
    }

    /// Removes a group with its consumers, whose numbers are all in `consumers`, and pending
    /// entries. False if there is none.
    pub fn remove_group(&mut self, name: &[u8], consumers: &[u64]) -> bool {
        let Some(group) = self.view().group(name) else { return false };
        for &consumer in consumers {
            self.directory().remove(consumer, &[]);
            pending::remove_all(&mut self.arena, &mut self.parts.by_consumer, consumer);
        }
        pending::remove_all(&mut self.arena, &mut self.parts.by_group, group.number);
        let mut directory = self.directory();
        directory.remove_all(group.number);
        directory.remove(directory::GROUPS, name);
        true
    }

    /// Creates a consumer of a group; the group has none of the name.
    pub fn create_consumer(
        &mut self,
        group: u64,
        name: &[u8],
        seen_at_ms: i64,
        active_at_ms: i64,
    ) -> Consumer {
        let consumer = Consumer { number: self.draw_number(), seen_at_ms, active_at_ms };
        self.directory().add_consumer(group, name, consumer);
        consumer
    }

    /// Sets what a consumer of a name has.
    pub fn set_consumer(&mut self, name: &[u8], consumer: Consumer) {
        self.directory().set_consumer(name, consumer);
    }

    /// Removes a consumer of a group with its pending entries, and returns their number; none if
    /// there is no such consumer.
    pub fn remove_consumer(&mut self, group: u64, name: &[u8]) -> Option<u64> {
        let consumer = self.view().consumer(group, name)?.number;
        let count = self.view().consumer_pending_count(consumer);
        let mut start = Some(StreamId::MIN);
        // One by one: what an edit walks over does not change meanwhile.
        while let Some(id) =
            start.and_then(|start| self.view().consumer_pending_from(consumer, start).next())
        {
            pending::remove_of_group(&mut self.arena, &mut self.parts, group, id);
            start = id.next();
        }
        pending::remove_all(&mut self.arena, &mut self.parts.by_consumer, consumer);
        let mut directory = self.directory();
        directory.remove(group, name);
        directory.remove(consumer, &[]);
        Some(count)
    }

    /// Sets a pending entry of a group, in the place of the one of the id that there may be.
    pub fn set_pending(&mut self, group: u64, id: StreamId, pending: Pending) {
        self.change();
        pending::set(&mut self.arena, &mut self.parts, group, id, pending);
    }

    /// Sets pending entries of a group: as [`StreamEdit::set_pending`] for each, cheaper where they
    /// follow each other.
    pub fn set_all_pending(
        &mut self,
        group: u64,
        pending: impl Iterator<Item = (StreamId, Pending)>,
    ) {
        self.change();
        pending::set_all(&mut self.arena, &mut self.parts, group, pending);
    }

    /// Removes pending entries of a group, and returns the number of those that were there.
    pub fn remove_all_pending(&mut self, group: u64, ids: &[StreamId]) -> usize {
        self.change();
        pending::remove_all_of(&mut self.arena, &mut self.parts, group, ids)
    }

    /// Removes a pending entry of a group, and returns it.
    pub fn remove_pending(&mut self, group: u64, id: StreamId) -> Option<Pending> {
        self.change();
        pending::remove(&mut self.arena, &mut self.parts, group, id)
    }

    /// Ends the edit.
    pub fn finish(mut self) -> Built<'h> {
        let root = match self.root {
            Some(root) => root,
            None => self.parts.build(&mut self.arena),
        };
        self.arena.finish(Some(root), self.heap)
    }

    /// The parts, for a change.
    fn change(&mut self) -> &mut Parts {
        if let Some(root) = self.root.take() {
            self.arena.discard(root);
        }
        &mut self.parts
    }

    fn directory(&mut self) -> DirectoryEdit<'_> {
        self.change();
        DirectoryEdit { arena: &mut self.arena, root: &mut self.parts.directory }
    }

    fn draw_number(&mut self) -> u64 {
        let next = &mut self.change().meta.next_owner;
        *next += 1;
        *next - 1
    }
}

fn stored_names<'a>(names: impl Iterator<Item = &'a [u8]> + Clone) -> StoredNames {
    let mut stored = StoredNames::new();
    number::push(&mut stored, names.clone().count() as u64);
    for name in names {
        number::push(&mut stored, name.len() as u64);
        stored.extend_from_slice(name);
    }
    stored
}

impl<'h> TreeEdit<'h> for StreamEdit<'h> {
    fn base(&self) -> Option<Root> {
        self.arena.base()
    }

    fn finish(self) -> Built<'h> {
        self.finish()
    }
}
