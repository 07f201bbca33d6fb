//! Pending entries: delivered to a consumer and not acknowledged, by group and by consumer.

use crate::tree::arena::Arena;
use crate::tree::cut::cut;
use crate::tree::node::{Link, Node};
use crate::tree::order::Order;
use crate::tree::separator::{Place, TiedKey};
use crate::tree::sorted::{self, Sorted, locate};

use super::id::StreamId;
use super::number::{self, Bytes};
use super::parts::Parts;
use super::walk::{Backward, Forward};

/// Order of elements by owner, which is a group or a consumer, and id.
pub(super) struct Owners;

impl Order for Owners {
    type Key = TiedKey;
}

impl Sorted for Owners {
    #[inline]
    fn place(leaf: Node<'_>, index: usize) -> Place<'_> {
        let (key, rest) = number::read(leaf.element(index));
        let ms_bytes = number::stored_bytes(rest);
        let id_bytes = ms_bytes + number::stored_bytes(&rest[ms_bytes..]);
        Place { key, tie: &rest[..id_bytes] }
    }
}

/// Delivery that was not acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pending {
    /// Number of the consumer that it was delivered to.
    pub consumer: u64,
    /// Time of the last delivery, as Unix time in milliseconds.
    pub delivered_at_ms: i64,
    /// Number of deliveries, as a rule.
    pub delivery_count: u64,
}

/// Owner and id as a leaf holds them.
struct StoredOwner {
    bytes: Bytes,
    owner: u64,
    owner_bytes: usize,
}

impl StoredOwner {
    fn of(owner: u64, id: StreamId) -> StoredOwner {
        let mut bytes = Bytes::new();
        number::push(&mut bytes, owner);
        let owner_bytes = bytes.len();
        number::push(&mut bytes, id.ms);
        number::push(&mut bytes, id.seq);
        StoredOwner { bytes, owner, owner_bytes }
    }

    fn place(&self) -> Place<'_> {
        Place { key: self.owner, tie: &self.bytes[self.owner_bytes..] }
    }
}

/// Element behind its owner.
fn read(element: &[u8]) -> (u64, StreamId, &[u8]) {
    let (owner, rest) = number::read(element);
    let (ms, rest) = number::read(rest);
    let (seq, rest) = number::read(rest);
    (owner, StreamId { ms, seq }, rest)
}

fn read_pending(id: StreamId, rest: &[u8]) -> Pending {
    let (consumer, rest) = number::read(rest);
    let (distance, rest) = number::read(rest);
    let (delivery_count, _) = number::read(rest);
    // Entries are delivered soon after the time that their ids have, as a rule.
    let delivered_at_ms = (id.ms as i64).wrapping_add(number::to_signed(distance));
    Pending { consumer, delivered_at_ms, delivery_count }
}

/// Number of pending entries of an owner.
pub(super) fn count(root: Option<Link>, owner: u64) -> u64 {
    let Some(root) = root else { return 0 };
    let before = |owner| locate::<Owners>(root, Place::first_of(owner)).rank;
    before(owner + 1) - before(owner)
}

/// Pending entry of a group.
pub(super) fn find(root: Option<Link>, group: u64, id: StreamId) -> Option<Pending> {
    let stored = StoredOwner::of(group, id);
    let leaf = sorted::leaf_of::<Owners>(root?, stored.place());
    let index = sorted::search::<Owners>(leaf, stored.place()).ok()?;
    let (_, id, rest) = read(leaf.element(index));
    Some(read_pending(id, rest))
}

/// Elements of an owner from an id on.
fn from<'g>(
    root: Option<Link>,
    owner: u64,
    start: StreamId,
) -> impl Iterator<Item = (StreamId, &'g [u8])> + use<'g> {
    let stored = StoredOwner::of(owner, start);
    let rank = root.map_or(0, |root| locate::<Owners>(root, stored.place()).rank);
    let elements = Forward::new::<Owners>(root, rank);
    let elements = elements.map(|(leaf, index)| read(leaf.element(index)));
    elements.take_while(move |&(of, ..)| of == owner).map(|(_, id, rest)| (id, rest))
}

/// Pending entries of a group from an id on.
pub(super) fn of_group<'g>(
    root: Option<Link>,
    group: u64,
    start: StreamId,
) -> impl Iterator<Item = (StreamId, Pending)> + use<'g> {
    from::<'g>(root, group, start).map(|(id, rest)| (id, read_pending(id, rest)))
}

/// Ids of the pending entries of a consumer from one on.
pub(super) fn of_consumer<'g>(
    root: Option<Link>,
    consumer: u64,
    start: StreamId,
) -> impl Iterator<Item = StreamId> + use<'g> {
    from::<'g>(root, consumer, start).map(|(id, _)| id)
}

/// The last pending entry of an owner.
pub(super) fn last(root: Option<Link>, owner: u64) -> Option<StreamId> {
    let end = locate::<Owners>(root?, Place::first_of(owner + 1)).rank;
    let (leaf, index) = Backward::new::<Owners>(root, end).next()?;
    let (of, id, _) = read(leaf.element(index));
    (of == owner).then_some(id)
}

/// Sets a pending entry of a group, in both orders.
pub(super) fn set(arena: &mut Arena, parts: &mut Parts, group: u64, id: StreamId, new: Pending) {
    let mut element = StoredOwner::of(group, id);
    let behind = element.bytes.len();
    number::push(&mut element.bytes, new.consumer);
    let distance = new.delivered_at_ms.wrapping_sub(id.ms as i64);
    number::push(&mut element.bytes, number::of_signed(distance));
    number::push(&mut element.bytes, new.delivery_count);
    let place = Place { key: group, tie: &element.bytes[element.owner_bytes..behind] };
    let consumer_of = |element: &[u8]| read_pending(id, read(element).2).consumer;
    let new_element: &[&[u8]] = &[&element.bytes];
    let root = &mut parts.by_group;
    match sorted::put_over::<Owners, _>(arena, root, 0, (place, new_element), consumer_of) {
        Some(consumer) if consumer == new.consumer => return,
        Some(consumer) => remove_of_consumer(arena, parts, consumer, id),
        None => {}
    }
    let stored = StoredOwner::of(new.consumer, id);
    sorted::put::<Owners>(arena, &mut parts.by_consumer, 0, stored.place(), &[&stored.bytes]);
}

fn remove_of_consumer(arena: &mut Arena, parts: &mut Parts, consumer: u64, id: StreamId) {
    let stored = StoredOwner::of(consumer, id);
    sorted::remove::<Owners>(arena, &mut parts.by_consumer, stored.place());
}

/// Removes a pending entry of a group from both orders, and returns it.
pub(super) fn remove(
    arena: &mut Arena,
    parts: &mut Parts,
    group: u64,
    id: StreamId,
) -> Option<Pending> {
    let stored = StoredOwner::of(group, id);
    let found = sorted::find::<Owners>(parts.by_group?, stored.place())?;
    let (leaf, index) = found.leaf_and_index();
    let pending = read_pending(id, read(leaf.element(index)).2);
    parts.by_group = found.remove::<Owners>(arena);
    remove_of_consumer(arena, parts, pending.consumer, id);
    Some(pending)
}

/// Removes a pending entry from the order by group alone.
pub(super) fn remove_of_group(arena: &mut Arena, parts: &mut Parts, group: u64, id: StreamId) {
    let stored = StoredOwner::of(group, id);
    sorted::remove::<Owners>(arena, &mut parts.by_group, stored.place());
}

/// Removes all elements of an owner from one order.
pub(super) fn remove_all(arena: &mut Arena, root: &mut Option<Link>, owner: u64) {
    let Some(link) = *root else { return };
    let before = |owner| locate::<Owners>(link, Place::first_of(owner)).rank;
    let (start, end) = (before(owner), before(owner + 1));
    *root = cut::<Owners>(arena, link, start, end);
}
