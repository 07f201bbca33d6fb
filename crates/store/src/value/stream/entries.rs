//! Entries: the middle tree, and the leaf of the last ones.

use crate::tree::arena::Arena;
use crate::tree::cut::cut;
use crate::tree::leaf::{self, LeafPlan};
use crate::tree::node::{Link, Node};
use crate::tree::order::{Order, sums};
use crate::tree::separator::{Place, Separator, TiedKey};
use crate::tree::sorted::{self, Located, Sorted, bound_between, locate};
use crate::tree::update::{Pieces, TreePath};

use super::directory;
use super::id::StreamId;
use super::number::{self, Bytes};
use super::parts::Parts;
use super::value::FieldValue;
use super::walk::{Backward, Forward};

/// Order of entries by id.
pub(super) struct Ids;

impl Order for Ids {
    type Key = TiedKey;
}

impl Sorted for Ids {
    #[inline]
    fn place_of(element: &[u8]) -> Place<'_> {
        let (key, rest) = number::read(element);
        Place { key, tie: &rest[..number::stored_bytes(rest)] }
    }
}

/// Id of an entry as a leaf holds it.
#[derive(Debug)]
pub(super) struct StoredId {
    bytes: Bytes,
    key: u64,
    key_bytes: usize,
}

impl StoredId {
    /// None for an id before all that count from a base.
    pub(super) fn of(id: StreamId, base_ms: u64) -> Option<StoredId> {
        let key = id.ms.checked_sub(base_ms)?;
        let mut bytes = Bytes::new();
        number::push(&mut bytes, key);
        let key_bytes = bytes.len();
        number::push(&mut bytes, id.seq);
        Some(StoredId { bytes, key, key_bytes })
    }

    pub(super) fn place(&self) -> Place<'_> {
        Place { key: self.key, tie: &self.bytes[self.key_bytes..] }
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

/// Head of an entry: its schema and whether it starts a node.
#[derive(Clone, Copy, Debug)]
pub(super) struct Head {
    /// Zero for an entry that contains its names.
    pub(super) schema: u64,
    pub(super) starts_node: bool,
}

impl Head {
    pub(super) fn number(self) -> u64 {
        self.schema << 1 | u64::from(self.starts_node)
    }

    fn of(number: u64) -> Head {
        Head { schema: number >> 1, starts_node: number & 1 == 1 }
    }
}

/// Parts of an element.
struct Decoded<'g> {
    key: u64,
    seq: u64,
    head: Head,
    /// Bytes of id and head.
    prefix_bytes: usize,
    rest: &'g [u8],
}

#[inline]
fn decode(element: &[u8]) -> Decoded<'_> {
    let (key, rest) = number::read(element);
    let (seq, rest) = number::read(rest);
    let (head, rest) = number::read(rest);
    Decoded { key, seq, head: Head::of(head), prefix_bytes: element.len() - rest.len(), rest }
}

/// True for each entry that starts a node, from a rank on.
pub(super) fn node_starts(parts: &Parts, rank: u64) -> impl Iterator<Item = bool> {
    elements(parts, rank).map(|(leaf, index)| decode(leaf.element(index)).head.starts_node)
}

/// Id of the entry of a rank.
pub(super) fn id_at(parts: &Parts, rank: u64) -> Option<StreamId> {
    elements(parts, rank).next().map(|(leaf, index)| id_of(parts, &decode(leaf.element(index))))
}

/// Ids of the entries from a rank on.
pub(super) fn ids<'g>(parts: Parts, rank: u64) -> impl Iterator<Item = StreamId> + use<'g> {
    elements(&parts, rank).map(move |(leaf, index)| {
        let (key, rest) = number::read(leaf.element(index));
        StreamId { ms: key + parts.meta.base_ms, seq: number::read(rest).0 }
    })
}

/// Elements from a rank on.
fn elements<'g>(parts: &Parts, rank: u64) -> impl Iterator<Item = (Node<'g>, usize)> + use<'g> {
    let behind = rank.saturating_sub(middle_len(parts));
    Forward::new::<Ids>(parts.middle, rank).chain(Forward::new::<Ids>(parts.last, behind))
}

fn id_of(parts: &Parts, decoded: &Decoded<'_>) -> StreamId {
    StreamId { ms: decoded.key + parts.meta.base_ms, seq: decoded.seq }
}

/// Entry of a stream.
#[derive(Clone, Copy, Debug)]
pub struct StreamEntry<'g> {
    /// Its id.
    pub id: StreamId,
    /// True if it would start a node in Valkey.
    pub starts_node: bool,
    /// Schema of the names; 0 if the entry has its own.
    schema: u64,
    field_count: u64,
    names: &'g [u8],
    values: &'g [u8],
}

/// Names of the schema that the last entry of a walk had: most entries have the same.
#[derive(Clone, Copy, Debug, Default)]
struct KnownSchema<'g> {
    /// Zero before the first entry with one.
    number: u64,
    names: &'g [u8],
}

impl<'g> KnownSchema<'g> {
    fn names(&mut self, parts: &Parts, schema: u64) -> &'g [u8] {
        if self.number != schema {
            let names = directory::schema_names(parts.directory, schema);
            *self = KnownSchema { number: schema, names };
        }
        self.names
    }
}

impl<'g> StreamEntry<'g> {
    fn read(
        parts: &Parts,
        known: &mut KnownSchema<'g>,
        (leaf, index): (Node<'g>, usize),
    ) -> StreamEntry<'g> {
        let decoded = decode(leaf.element(index));
        let id = id_of(parts, &decoded);
        let (names, values) = match decoded.head.schema {
            0 => (decoded.rest, None),
            schema => (known.names(parts, schema), Some(decoded.rest)),
        };
        let (field_count, names) = number::read(names);
        let values = values.unwrap_or_else(|| {
            (0..field_count).fold(names, |names, _| directory::read_text(names).1)
        });
        let Head { schema, starts_node } = decoded.head;
        StreamEntry { id, starts_node, schema, field_count, names, values }
    }

    /// True if both are entries of one version of a stream that share their names. Entries with the
    /// same names need not share them.
    #[must_use]
    pub fn shares_names_with(&self, other: &StreamEntry<'_>) -> bool {
        self.schema != 0 && self.schema == other.schema
    }

    /// Number of fields.
    #[must_use]
    pub fn field_count(&self) -> u64 {
        self.field_count
    }

    /// Names and values, in their order.
    #[must_use]
    pub fn fields(&self) -> Fields<'g> {
        Fields { left: self.field_count, names: self.names, values: self.values }
    }
}

/// Names and values of an entry.
#[derive(Clone, Debug)]
pub struct Fields<'g> {
    left: u64,
    names: &'g [u8],
    values: &'g [u8],
}

impl<'g> Iterator for Fields<'g> {
    type Item = (&'g [u8], FieldValue<'g>);

    #[inline]
    fn next(&mut self) -> Option<(&'g [u8], FieldValue<'g>)> {
        self.left = self.left.checked_sub(1)?;
        let (name, names) = directory::read_text(self.names);
        let (value, values) = FieldValue::read(self.values);
        (self.names, self.values) = (names, values);
        Some((name, value))
    }
}

/// Entries of a stream from one on, ascending.
#[derive(Clone, Debug)]
pub struct Entries<'g> {
    parts: Parts,
    schema: KnownSchema<'g>,
    middle: Forward<'g>,
    last: Forward<'g>,
}

impl<'g> Entries<'g> {
    pub(super) fn new(parts: Parts, rank: u64) -> Entries<'g> {
        let behind = rank.saturating_sub(middle_len(&parts));
        Entries {
            parts,
            schema: KnownSchema::default(),
            middle: Forward::new::<Ids>(parts.middle, rank),
            last: Forward::new::<Ids>(parts.last, behind),
        }
    }
}

impl<'g> Iterator for Entries<'g> {
    type Item = StreamEntry<'g>;

    #[inline]
    fn next(&mut self) -> Option<StreamEntry<'g>> {
        let found = self.middle.next().or_else(|| self.last.next())?;
        Some(StreamEntry::read(&self.parts, &mut self.schema, found))
    }
}

/// Entries of a stream before one, descending.
#[derive(Clone, Debug)]
pub struct EntriesBack<'g> {
    parts: Parts,
    schema: KnownSchema<'g>,
    last: Backward<'g>,
    middle: Backward<'g>,
}

impl<'g> EntriesBack<'g> {
    pub(super) fn new(parts: Parts, end: u64) -> EntriesBack<'g> {
        let behind = end.saturating_sub(middle_len(&parts));
        EntriesBack {
            parts,
            schema: KnownSchema::default(),
            last: Backward::new::<Ids>(parts.last, behind),
            middle: Backward::new::<Ids>(parts.middle, end),
        }
    }
}

impl<'g> Iterator for EntriesBack<'g> {
    type Item = StreamEntry<'g>;

    #[inline]
    fn next(&mut self) -> Option<StreamEntry<'g>> {
        let found = self.last.next().or_else(|| self.middle.next())?;
        Some(StreamEntry::read(&self.parts, &mut self.schema, found))
    }
}

fn middle_len(parts: &Parts) -> u64 {
    parts.middle.map_or(0, |middle| sums::<Ids>(middle.node()).measure)
}

/// Finds an id, and counts the entries before it.
pub(super) fn find(parts: &Parts, id: StreamId) -> Located {
    let Some(stored) = StoredId::of(id, parts.meta.base_ms) else {
        return Located { rank: 0, is_present: false };
    };
    let place = stored.place();
    match (parts.middle, parts.last) {
        (None, None) => Located { rank: 0, is_present: false },
        (Some(middle), last) if last.is_none_or(|last| place < Ids::place(last.node(), 0)) => {
            locate::<Ids>(middle, place)
        }
        (middle, last) => {
            let before = middle.map_or(0, |middle| sums::<Ids>(middle.node()).measure);
            let found = last.map(|last| locate::<Ids>(last, place));
            let found = found.unwrap_or(Located { rank: 0, is_present: false });
            Located { rank: before + found.rank, ..found }
        }
    }
}

/// Entries that are looked at behind those that may be removed: whatever comes next need not look
/// again.
const LOOK_AHEAD_COUNT: u64 = 32;

/// Number of entries of the first whole nodes, as Valkey would have them: of as many nodes as have
/// no more than `count_max` entries together. What was looked at before is not looked at again,
/// so that a stream which is trimmed with each addition looks at each entry once.
pub(super) fn nodes_within(parts: &mut Parts, count_max: u64) -> u64 {
    let (length, front_count) = (parts.len(), parts.meta.front_count);
    if length <= count_max || count_max < front_count {
        return if length <= count_max { length } else { 0 };
    }
    let (mut in_nodes, mut first_start) = (0, None);
    // The first entry starts a node that is not to be counted.
    let mut rank = front_count.max(1);
    for starts_node in node_starts(parts, rank) {
        if starts_node && rank <= count_max {
            in_nodes = rank;
        }
        if starts_node && first_start.is_none() {
            first_start = Some(rank);
        }
        let has_all = first_start.is_some() && rank >= count_max;
        if has_all || rank >= count_max.saturating_add(LOOK_AHEAD_COUNT) {
            break;
        }
        rank += 1;
    }
    parts.meta.front_count = first_start.unwrap_or(rank);
    in_nodes
}

/// Adds an entry behind all others: bytes of its id and head, then its fields.
pub(super) fn push(arena: &mut Arena, parts: &mut Parts, element: &[&[u8]]) {
    let Some(last) = parts.last else {
        parts.last = Some(leaf::single(arena, 0, element));
        return;
    };
    let at = last.node().len();
    let plan = LeafPlan { leaf: last.node(), at, removed: 0, inserted: Some(element) };
    if plan.fits() {
        parts.last = Some(plan.splice(arena));
        return;
    }
    parts.middle = Some(attach(arena, parts.middle, last));
    parts.last = Some(leaf::single(arena, 0, element));
}

/// Adds a leaf at the end of the middle tree, and returns its new root.
fn attach(arena: &mut Arena, middle: Option<Link>, leaf: Link) -> Link {
    let Some(middle) = middle else { return leaf };
    let (path, edge) = TreePath::descend::<Ids>(middle, |node| node.len() - 1);
    let bound = bound_between::<Ids>(edge.node(), leaf.node());
    let pieces = Pieces::from_iter([(edge, TiedKey::of_key(0)), (leaf, bound)]);
    path.replace::<Ids>(arena, pieces).expect("two leaves make a tree")
}

/// Replaces the entry of a rank by at most one of the same id.
fn change(arena: &mut Arena, parts: &mut Parts, rank: u64, element: Option<&[u8]>) {
    let inserted = element.map(|element| [element]);
    let inserted = inserted.as_ref().map(|parts| parts.as_slice());
    let before = middle_len(parts);
    if let Some(within) = rank.checked_sub(before) {
        let Some(last) = parts.last else { return };
        let plan = LeafPlan { leaf: last.node(), at: within as usize, removed: 1, inserted };
        if plan.len() == 0 {
            arena.discard(last);
            parts.last = None;
        } else {
            parts.last = Some(plan.splice(arena));
        }
        return;
    }
    let Some(middle) = parts.middle else { return };
    let mut rest = rank;
    let (path, leaf) = TreePath::descend::<Ids>(middle, |node| {
        let (index, within) = crate::tree::inner::find_position(node, rest);
        rest = within;
        index
    });
    let plan = LeafPlan { leaf: leaf.node(), at: rest as usize, removed: 1, inserted };
    // The id stays and so do the bytes, so that there is nothing to split.
    parts.middle = sorted::carry_out::<Ids>(arena, &path, &plan, Place::first_of(0));
}

/// Removes the entry of a rank, which is there. The one behind starts its node if it did.
pub(super) fn remove(arena: &mut Arena, parts: &mut Parts, rank: u64) {
    let started_node = node_starts(parts, rank).next().unwrap_or(false);
    if rank < parts.meta.front_count {
        parts.meta.front_count = 0;
    }
    change(arena, parts, rank, None);
    if started_node {
        start_node(arena, parts, rank);
    }
}

/// Removes the first `count` entries.
pub(super) fn remove_first(arena: &mut Arena, parts: &mut Parts, count: u64) {
    parts.meta.front_count = 0;
    let in_middle = count.min(middle_len(parts));
    if in_middle > 0 {
        parts.middle = parts.middle.and_then(|middle| cut::<Ids>(arena, middle, 0, in_middle));
    }
    if count > in_middle
        && let Some(last) = parts.last
    {
        let removed = ((count - in_middle) as usize).min(last.node().len());
        let plan = LeafPlan { leaf: last.node(), at: 0, removed, inserted: None };
        if plan.len() == 0 {
            arena.discard(last);
            parts.last = None;
        } else {
            parts.last = Some(plan.splice(arena));
        }
    }
    start_node(arena, parts, 0);
}

/// Lets the entry of a rank start a node, if there is one.
fn start_node(arena: &mut Arena, parts: &mut Parts, rank: u64) {
    let Some((leaf, index)) = elements(parts, rank).next() else { return };
    let element = leaf.element(index);
    let decoded = decode(element);
    if decoded.head.starts_node {
        return;
    }
    let mut changed = Bytes::from_slice(element);
    // The lowest bit of a head, which is even, is in its last byte.
    changed[decoded.prefix_bytes - 1] |= 1;
    change(arena, parts, rank, Some(&changed));
}
