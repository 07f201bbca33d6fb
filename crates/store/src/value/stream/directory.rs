//! Directory: schemas, groups, and consumers by name and by number.
//!
//! An element is an owner's number, a name and what belongs to it, ordered by owner and name.

use std::ops::Range;

use crate::tree::arena::Arena;
use crate::tree::cut::cut;
use crate::tree::node::Link;
use crate::tree::order::Order;
use crate::tree::separator::{Place, TiedKey};
use crate::tree::sorted::{self, Sorted, locate, partition};

use super::id::StreamId;
use super::number::{self, Bytes};
use super::walk::Forward;
use super::{SCHEMA_NUMBER_MAX, SEARCHED_SCHEMA_COUNT_MAX};

/// Owner of the schemas.
pub(super) const SCHEMAS: u64 = 0;

/// Least number of a schema of a node. These are in the order of the nodes: entries have one only
/// from its first entry on up to that of the next one.
const NODE_SCHEMA_MIN: u64 = SEARCHED_SCHEMA_COUNT_MAX + 1;

/// Owner of the groups.
pub(super) const GROUPS: u64 = 1;

/// Order of elements by owner and name.
pub(super) struct Directory;

impl Order for Directory {
    type Key = TiedKey;
}

impl Sorted for Directory {
    #[inline]
    fn place_of(element: &[u8]) -> Place<'_> {
        let (key, rest) = number::read(element);
        Place { key, tie: read_text(rest).0 }
    }
}

/// Group of consumers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Group {
    /// Its number, by which pending entries and consumers are found.
    pub number: u64,
    /// Id of the last entry that was delivered.
    pub last_id: StreamId,
    /// Entries that were read; none when that is not known.
    pub entries_read: Option<u64>,
}

impl Group {
    fn push(&self, bytes: &mut Bytes) {
        number::push(bytes, self.number);
        push_id(bytes, self.last_id);
        bytes.push(u8::from(self.entries_read.is_some()));
        number::push(bytes, self.entries_read.unwrap_or(0));
    }

    fn read(bytes: &[u8]) -> Group {
        let (number, rest) = number::read(bytes);
        let (last_id, rest) = read_id(rest);
        let entries_read = (rest[0] == 1).then(|| number::read(&rest[1..]).0);
        Group { number, last_id, entries_read }
    }
}

/// Consumer of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Consumer {
    /// Its number, by which pending entries are found.
    pub number: u64,
    /// Time at which it was seen last, as Unix time in milliseconds.
    pub seen_at_ms: i64,
    /// Time at which it was given something last, likewise; -1 for never.
    pub active_at_ms: i64,
}

impl Consumer {
    fn push(&self, bytes: &mut Bytes) {
        number::push(bytes, number::of_signed(self.seen_at_ms));
        // A consumer is active when it is seen, as a rule.
        let ago_ms = self.seen_at_ms.wrapping_sub(self.active_at_ms);
        bytes.push(u8::from(self.active_at_ms == -1));
        if self.active_at_ms != -1 {
            number::push(bytes, number::of_signed(ago_ms));
        }
    }

    fn read(number: u64, bytes: &[u8]) -> (Consumer, &[u8]) {
        let (seen_at, rest) = number::read(bytes);
        let seen_at_ms = number::to_signed(seen_at);
        let (never, rest) = (rest[0] == 1, &rest[1..]);
        if never {
            return (Consumer { number, seen_at_ms, active_at_ms: -1 }, rest);
        }
        let (ago, rest) = number::read(rest);
        let active_at_ms = seen_at_ms.wrapping_sub(number::to_signed(ago));
        (Consumer { number, seen_at_ms, active_at_ms }, rest)
    }
}

/// Splits a text with its length off.
#[inline]
pub(super) fn read_text(bytes: &[u8]) -> (&[u8], &[u8]) {
    let (length, rest) = number::read(bytes);
    rest.split_at(length as usize)
}

fn push_id(bytes: &mut Bytes, id: StreamId) {
    number::push(bytes, id.ms);
    number::push(bytes, id.seq);
}

fn read_id(bytes: &[u8]) -> (StreamId, &[u8]) {
    let (ms, rest) = number::read(bytes);
    let (seq, rest) = number::read(rest);
    (StreamId { ms, seq }, rest)
}

/// Value that belongs to a name of an owner.
fn find<'g>(directory: Option<Link>, owner: u64, name: &[u8]) -> Option<&'g [u8]> {
    let place = Place { key: owner, tie: name };
    let leaf = sorted::leaf_of::<Directory>(directory?, place);
    let index = sorted::search::<Directory>(leaf, place).ok()?;
    let (_, rest) = number::read(leaf.element(index));
    Some(read_text(rest).1)
}

/// Number of names that an owner has.
pub(super) fn count(directory: Option<Link>, owner: u64) -> u64 {
    let Some(root) = directory else { return 0 };
    let before = |owner| locate::<Directory>(root, Place::first_of(owner)).rank;
    before(owner + 1) - before(owner)
}

/// Names of an owner with what belongs to each, in the order of bytes.
pub(super) fn names<'g>(
    directory: Option<Link>,
    owner: u64,
) -> impl Iterator<Item = (&'g [u8], &'g [u8])> + use<'g> {
    let first = directory.map(|root| locate::<Directory>(root, Place::first_of(owner)).rank);
    let elements = Forward::new::<Directory>(directory, first.unwrap_or(0));
    let elements = elements.map(|(leaf, index)| number::read(leaf.element(index)));
    elements.take_while(move |&(of, _)| of == owner).map(|(_, rest)| read_text(rest))
}

/// Name of a schema in the directory: its number.
fn schema_name(schema: u64) -> Bytes {
    let mut name = Bytes::new();
    number::push(&mut name, schema);
    name
}

/// Names of a schema, with their count.
pub(super) fn schema_names<'g>(directory: Option<Link>, schema: u64) -> &'g [u8] {
    let stored =
        find(directory, SCHEMAS, &schema_name(schema)).expect("an entry's schema is there");
    if schema < NODE_SCHEMA_MIN { stored } else { read_id(stored).1 }
}

/// True if there is a schema of a number.
pub(super) fn has_schema(directory: Option<Link>, schema: u64) -> bool {
    find(directory, SCHEMAS, &schema_name(schema)).is_some()
}

/// Schemas that are not those of nodes, with their numbers: 1 and on.
pub(super) fn searched_schemas<'g>(
    directory: Option<Link>,
) -> impl Iterator<Item = (u64, &'g [u8])> + use<'g> {
    names(directory, SCHEMAS)
        .map(|(number, names)| (number::read(number).0, names))
        .take_while(|&(number, _)| number < NODE_SCHEMA_MIN)
}

/// Schemas of nodes, in the order of their numbers and first entries.
#[derive(Clone, Copy, Debug)]
pub(super) struct NodeSchemas {
    directory: Option<Link>,
    /// Number of elements before the first of them.
    before: u64,
    /// Number of them.
    pub(super) count: u64,
}

impl NodeSchemas {
    pub(super) fn of(directory: Option<Link>) -> NodeSchemas {
        let Some(root) = directory else { return NodeSchemas { directory, before: 0, count: 0 } };
        let first = schema_name(NODE_SCHEMA_MIN);
        let before = locate::<Directory>(root, Place { key: SCHEMAS, tie: &first }).rank;
        let end = locate::<Directory>(root, Place::first_of(SCHEMAS + 1)).rank;
        NodeSchemas { directory, before, count: end - before }
    }

    /// Number of the schema of an index, and its first entry.
    fn get(&self, index: u64) -> Option<(u64, StreamId)> {
        if index >= self.count {
            return None;
        }
        let (leaf, index) =
            Forward::new::<Directory>(self.directory, self.before + index).next()?;
        let (_, rest) = number::read(leaf.element(index));
        let (name, stored) = read_text(rest);
        Some((number::read(name).0, read_id(stored).0))
    }

    /// Id of the first entry that had the schema of an index; the entry may have been removed.
    pub(super) fn first_entry(&self, index: u64) -> Option<StreamId> {
        self.get(index).map(|(_, first)| first)
    }

    /// Number of schemas whose first entries have ids up to this one.
    pub(super) fn count_until(&self, id: StreamId) -> u64 {
        let begins = |index: usize| self.first_entry(index as u64).is_some_and(|first| first <= id);
        partition(0..self.count as usize, begins) as u64
    }

    /// Number of a schema behind all of them; none when there is no further number.
    pub(super) fn next_number(&self) -> Option<u64> {
        let last = self.count.checked_sub(1).and_then(|last| self.get(last));
        let number = last.map_or(NODE_SCHEMA_MIN, |(number, _)| number + 1);
        (number <= SCHEMA_NUMBER_MAX).then_some(number)
    }
}

/// Groups by name.
pub(super) fn groups<'g>(
    directory: Option<Link>,
) -> impl Iterator<Item = (&'g [u8], Group)> + use<'g> {
    names(directory, GROUPS).map(|(name, group)| (name, Group::read(group)))
}

pub(super) fn group(directory: Option<Link>, name: &[u8]) -> Option<Group> {
    find(directory, GROUPS, name).map(Group::read)
}

/// Number of a consumer.
pub(super) fn consumer_number(directory: Option<Link>, group: u64, name: &[u8]) -> Option<u64> {
    find(directory, group, name).map(|stored| number::read(stored).0)
}

/// Consumer with its name.
pub(super) fn consumer<'g>(directory: Option<Link>, number: u64) -> (&'g [u8], Consumer) {
    let stored = find(directory, number, &[]).expect("a consumer that has a number is there");
    let (consumer, name) = Consumer::read(number, stored);
    (name, consumer)
}

/// Changes of the directory.
#[derive(Debug)]
pub(super) struct DirectoryEdit<'e> {
    pub(super) arena: &'e mut Arena,
    pub(super) root: &'e mut Option<Link>,
}

impl DirectoryEdit<'_> {
    /// Sets what belongs to a name of an owner.
    fn put(&mut self, owner: u64, name: &[u8], value: &[&[u8]]) {
        let mut head = Bytes::new();
        number::push(&mut head, owner);
        number::push(&mut head, name.len() as u64);
        let place = Place { key: owner, tie: name };
        let mut element: smallvec::SmallVec<[&[u8]; 4]> = smallvec::smallvec![&head[..], name];
        element.extend_from_slice(value);
        sorted::put::<Directory>(self.arena, self.root, 0, place, &element);
    }

    pub(super) fn add_searched_schema(&mut self, schema: u64, names: &[u8]) {
        self.put(SCHEMAS, &schema_name(schema), &[names]);
    }

    pub(super) fn add_node_schema(&mut self, schema: u64, first_entry: StreamId, names: &[u8]) {
        let mut first = Bytes::new();
        push_id(&mut first, first_entry);
        self.put(SCHEMAS, &schema_name(schema), &[&first, names]);
    }

    /// Removes schemas of nodes by their indices.
    pub(super) fn remove_node_schemas(&mut self, indices: Range<u64>) {
        let Some(root) = *self.root else { return };
        let before = NodeSchemas::of(*self.root).before;
        let (start, end) = (before + indices.start, before + indices.end);
        *self.root = cut::<Directory>(self.arena, root, start, end);
    }

    pub(super) fn set_group(&mut self, name: &[u8], group: Group) {
        let mut value = Bytes::new();
        group.push(&mut value);
        self.put(GROUPS, name, &[&value]);
    }

    pub(super) fn add_consumer(&mut self, group: u64, name: &[u8], consumer: Consumer) {
        let mut value = Bytes::new();
        number::push(&mut value, consumer.number);
        self.put(group, name, &[&value]);
        self.set_consumer(name, consumer);
    }

    pub(super) fn set_consumer(&mut self, name: &[u8], consumer: Consumer) {
        let mut value = Bytes::new();
        consumer.push(&mut value);
        self.put(consumer.number, &[], &[&value, name]);
    }

    pub(super) fn remove(&mut self, owner: u64, name: &[u8]) {
        let place = Place { key: owner, tie: name };
        sorted::remove::<Directory>(self.arena, self.root, place);
    }

    /// Removes all names of an owner.
    pub(super) fn remove_all(&mut self, owner: u64) {
        let Some(root) = *self.root else { return };
        let before = |owner| locate::<Directory>(root, Place::first_of(owner)).rank;
        let (start, end) = (before(owner), before(owner + 1));
        *self.root = cut::<Directory>(self.arena, root, start, end);
    }
}
