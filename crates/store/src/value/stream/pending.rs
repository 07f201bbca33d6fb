//! Pending entries: delivered to a consumer and not acknowledged, by group and by consumer.

use crate::tree::arena::Arena;
use crate::tree::cut::cut;
use crate::tree::node::Link;
use crate::tree::order::Order;
use crate::tree::run::{RunElement, put_run, remove_run};
use crate::tree::separator::{Place, TiedKey};
use crate::tree::sorted::{self, Sorted, locate};

use smallvec::SmallVec;

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
    fn place_of(element: &[u8]) -> Place<'_> {
        let (key, rest) = number::read(element);
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

/// Most entries that are changed as one run: what is stored of them is on the stack.
const RUN_LENGTH_MAX: usize = 32;

/// Bytes of a run on the stack.
const RUN_BYTES: usize = 32 * RUN_LENGTH_MAX;

/// Stored bytes of several entries behind their owner, end to end.
#[derive(Default)]
struct StoredRun {
    bytes: SmallVec<[u8; RUN_BYTES]>,
    /// Ends of the id and of the whole of each.
    ends: SmallVec<[(usize, usize); RUN_LENGTH_MAX]>,
}

impl StoredRun {
    fn is_full(&self) -> bool {
        self.ends.len() == RUN_LENGTH_MAX
    }

    fn push(&mut self, id: StreamId, behind: &[u64]) {
        number::push(&mut self.bytes, id.ms);
        number::push(&mut self.bytes, id.seq);
        let id_end = self.bytes.len();
        behind.iter().for_each(|&number| number::push(&mut self.bytes, number));
        self.ends.push((id_end, self.bytes.len()));
    }

    /// Id of each entry, and all that is stored of it.
    fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let mut start = 0;
        self.ends.iter().map(move |&(id_end, end)| {
            let start = std::mem::replace(&mut start, end);
            (&self.bytes[start..id_end], &self.bytes[start..end])
        })
    }
}

/// Elements of a run, and places of one.
type Elements<'a> = SmallVec<[RunElement<'a>; RUN_LENGTH_MAX]>;
type Places<'a> = SmallVec<[Place<'a>; RUN_LENGTH_MAX]>;

/// Sets pending entries of a group as [`set`] does, cheaper where ids and consumer follow each
/// other.
pub(super) fn set_all(
    arena: &mut Arena,
    parts: &mut Parts,
    group: u64,
    new: impl Iterator<Item = (StreamId, Pending)>,
) {
    let mut new = new.peekable();
    while let Some(&(_, Pending { consumer, .. })) = new.peek() {
        let mut stored = StoredRun::default();
        while !stored.is_full()
            && let Some((id, pending)) = new.next_if(|(_, pending)| pending.consumer == consumer)
        {
            let distance = pending.delivered_at_ms.wrapping_sub(id.ms as i64);
            let behind = [consumer, number::of_signed(distance), pending.delivery_count];
            stored.push(id, &behind);
        }
        set_run(arena, parts, (group, consumer), &stored);
    }
}

fn set_run(
    arena: &mut Arena,
    parts: &mut Parts,
    (group, consumer): (u64, u64),
    stored: &StoredRun,
) {
    let (mut group_bytes, mut consumer_bytes) = (Bytes::new(), Bytes::new());
    number::push(&mut group_bytes, group);
    number::push(&mut consumer_bytes, consumer);
    let of_group = stored.iter().map(|(tie, all)| RunElement {
        place: Place { key: group, tie },
        parts: [&group_bytes, all],
    });
    let of_group: Elements<'_> = of_group.collect();
    // Entries that another consumer had, or the same one.
    let mut former: SmallVec<[(usize, u64); 4]> = SmallVec::new();
    put_run::<Owners>(arena, &mut parts.by_group, 0, &of_group, |index, element| {
        let (_, id, rest) = read(element);
        former.push((index, read_pending(id, rest).consumer));
    });
    let removed = former.iter().filter(|&&(_, of)| of != consumer);
    let removed: Places<'_> =
        removed.map(|&(index, key)| Place { key, tie: of_group[index].place.tie }).collect();
    remove_run::<Owners>(arena, &mut parts.by_consumer, &removed, |_, _| ());
    let of_consumer = stored.iter().map(|(tie, _)| RunElement {
        place: Place { key: consumer, tie },
        parts: [&consumer_bytes, tie],
    });
    let of_consumer: Elements<'_> = of_consumer.collect();
    put_run::<Owners>(arena, &mut parts.by_consumer, 0, &of_consumer, |_, _| ());
}

/// Removes pending entries of a group as [`remove`] does, cheaper where ids follow each other;
/// returns the number of those that were there.
pub(super) fn remove_all_of(
    arena: &mut Arena,
    parts: &mut Parts,
    group: u64,
    ids: &[StreamId],
) -> usize {
    let mut count = 0;
    for ids in ids.chunks(RUN_LENGTH_MAX) {
        let mut stored = StoredRun::default();
        ids.iter().for_each(|&id| stored.push(id, &[]));
        let of_group = stored.iter().map(|(tie, _)| Place { key: group, tie });
        let of_group: Places<'_> = of_group.collect();
        let mut of_consumers = Places::new();
        remove_run::<Owners>(arena, &mut parts.by_group, &of_group, |index, element| {
            let (_, id, rest) = read(element);
            let key = read_pending(id, rest).consumer;
            of_consumers.push(Place { key, tie: of_group[index].tie });
        });
        remove_run::<Owners>(arena, &mut parts.by_consumer, &of_consumers, |_, _| ());
        count += of_consumers.len();
    }
    count
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
