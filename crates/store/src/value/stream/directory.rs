//! Directory: schemas, groups, and consumers by name and by number.
//!
//! An element is an owner's number, a name and what belongs to it, ordered by owner and name.

use crate::tree::arena::Arena;
use crate::tree::cut::cut;
use crate::tree::node::Link;
use crate::tree::order::Order;
use crate::tree::separator::{Place, TiedKey};
use crate::tree::sorted::{self, Sorted, locate};

use super::id::StreamId;
use super::number::{self, Bytes};
use super::walk::Forward;

/// Owner of the schemas.
pub(super) const SCHEMAS: u64 = 0;

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
        number::push(bytes, self.last_id.ms);
        number::push(bytes, self.last_id.seq);
        bytes.push(u8::from(self.entries_read.is_some()));
        number::push(bytes, self.entries_read.unwrap_or(0));
    }

    fn read(bytes: &[u8]) -> Group {
        let (number, rest) = number::read(bytes);
        let (ms, rest) = number::read(rest);
        let (seq, rest) = number::read(rest);
        let entries_read = (rest[0] == 1).then(|| number::read(&rest[1..]).0);
        Group { number, last_id: StreamId { ms, seq }, entries_read }
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
    find(directory, SCHEMAS, &schema_name(schema)).expect("an entry's schema is there")
}

/// Schemas with their numbers, ascending.
pub(super) fn schemas<'g>(
    directory: Option<Link>,
) -> impl Iterator<Item = (u64, &'g [u8])> + use<'g> {
    names(directory, SCHEMAS).map(|(number, names)| (number::read(number).0, names))
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

    pub(super) fn add_schema(&mut self, schema: u64, names: &[u8]) {
        self.put(SCHEMAS, &schema_name(schema), &[names]);
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
