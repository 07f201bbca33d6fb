//! The root of a stream: its parts, and what it has besides them.

use smallvec::SmallVec;

use crate::tree::arena::Arena;
use crate::tree::composite;
use crate::tree::node::{Child, Expiries, Link, Node, Totals};
use crate::tree::order::sums;

use super::directory::Directory;
use super::entries::Ids;
use super::id::StreamId;
use super::listpack::LastNode;
use super::pending::Owners;

/// Roles of the parts.
pub(super) const MIDDLE: u64 = 0;
pub(super) const LAST: u64 = 1;
pub(super) const BY_GROUP: u64 = 2;
pub(super) const BY_CONSUMER: u64 = 3;
pub(super) const DIRECTORY: u64 = 4;

/// First number of a group or consumer: those below are owners of other elements.
const FIRST_OWNER: u64 = 2;

/// State of a stream besides its entries and groups.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamState {
    /// Id of the last entry that was ever added.
    pub last_id: StreamId,
    /// Greatest id of the entries that were deleted.
    pub max_deleted_id: StreamId,
    /// Entries that were ever added.
    pub entries_added: u64,
}

/// Meta bytes of the root, as numbers.
const META_NUMBERS: usize = 12;

/// Bits of the number that has a schema, below those of a count.
const SCHEMA_BITS: u32 = 32;
const SCHEMA_MASK: u64 = (1 << SCHEMA_BITS) - 1;

const _: () = assert!(super::SCHEMA_NUMBER_MAX <= SCHEMA_MASK);

/// Content of the root besides its parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Meta {
    pub(super) state: StreamState,
    /// Milliseconds from which those of the entries are counted.
    pub(super) base_ms: u64,
    /// Number of the next group or consumer.
    pub(super) next_owner: u64,
    pub(super) last_node: LastNode,
    /// Number of entries at the front that were looked at, of which only the first starts a node;
    /// 0 before.
    pub(super) front_count: u64,
}

impl Meta {
    pub(super) const EMPTY: Meta = Meta {
        state: StreamState {
            last_id: StreamId::MIN,
            max_deleted_id: StreamId::MIN,
            entries_added: 0,
        },
        base_ms: 0,
        next_owner: FIRST_OWNER,
        last_node: LastNode { body_bytes: 0, entry_count: 0, first: StreamId::MIN, schema: 0 },
        front_count: 0,
    };

    fn read(bytes: &[u8]) -> Meta {
        let mut numbers = [0; META_NUMBERS];
        let (chunks, _) = bytes.as_chunks();
        numbers
            .iter_mut()
            .zip(chunks)
            .for_each(|(number, chunk)| *number = u64::from_le_bytes(*chunk));
        let [base_ms, next_owner, entries_added, ids @ ..] = numbers;
        let [last_ms, last_seq, deleted_ms, deleted_seq, node @ ..] = ids;
        let [body_bytes, entry_count, first_ms, first_seq, front_and_schema] = node;
        Meta {
            state: StreamState {
                last_id: StreamId { ms: last_ms, seq: last_seq },
                max_deleted_id: StreamId { ms: deleted_ms, seq: deleted_seq },
                entries_added,
            },
            base_ms,
            next_owner,
            last_node: LastNode {
                body_bytes,
                entry_count,
                first: StreamId { ms: first_ms, seq: first_seq },
                schema: front_and_schema & SCHEMA_MASK,
            },
            front_count: front_and_schema >> SCHEMA_BITS,
        }
    }

    fn stored(&self) -> [u8; 8 * META_NUMBERS] {
        let Meta { state, last_node, .. } = self;
        let numbers: [u64; META_NUMBERS] = [
            self.base_ms,
            self.next_owner,
            state.entries_added,
            state.last_id.ms,
            state.last_id.seq,
            state.max_deleted_id.ms,
            state.max_deleted_id.seq,
            last_node.body_bytes,
            last_node.entry_count,
            last_node.first.ms,
            last_node.first.seq,
            self.front_count << SCHEMA_BITS | last_node.schema,
        ];
        let mut bytes = [0; 8 * META_NUMBERS];
        let (chunks, _) = bytes.as_chunks_mut();
        chunks
            .iter_mut()
            .zip(numbers)
            .for_each(|(chunk, number)| *chunk = u64::to_le_bytes(number));
        bytes
    }
}

/// Parts of a stream, and what it has besides.
#[derive(Clone, Copy, Debug)]
pub(super) struct Parts {
    /// Entries before those of the last leaf.
    pub(super) middle: Option<Link>,
    /// Leaf of the last entries.
    pub(super) last: Option<Link>,
    pub(super) by_group: Option<Link>,
    pub(super) by_consumer: Option<Link>,
    pub(super) directory: Option<Link>,
    pub(super) meta: Meta,
}

impl Parts {
    pub(super) const EMPTY: Parts = Parts {
        middle: None,
        last: None,
        by_group: None,
        by_consumer: None,
        directory: None,
        meta: Meta::EMPTY,
    };

    pub(super) fn of(root: Node<'_>) -> Parts {
        let mut parts = Parts { meta: Meta::read(composite::meta(root)), ..Parts::EMPTY };
        for child in root.children() {
            let part = match child.key {
                MIDDLE => &mut parts.middle,
                LAST => &mut parts.last,
                BY_GROUP => &mut parts.by_group,
                BY_CONSUMER => &mut parts.by_consumer,
                _ => &mut parts.directory,
            };
            *part = Some(child.link());
        }
        parts
    }

    /// Number of entries.
    pub(super) fn len(&self) -> u64 {
        let measure = |part: Option<Link>| part.map_or(0, |part| sums::<Ids>(part.node()).measure);
        measure(self.middle) + measure(self.last)
    }

    /// New root.
    pub(super) fn build(&self, arena: &mut Arena) -> Link {
        let parts = [
            (MIDDLE, self.middle.map(|part| (part, sums::<Ids>(part.node())))),
            (LAST, self.last.map(|part| (part, sums::<Ids>(part.node())))),
            (BY_GROUP, self.by_group.map(|part| (part, sums::<Owners>(part.node())))),
            (BY_CONSUMER, self.by_consumer.map(|part| (part, sums::<Owners>(part.node())))),
            (DIRECTORY, self.directory.map(|part| (part, sums::<Directory>(part.node())))),
        ];
        let mut totals = Totals { measure: self.len(), bytes: 0, expiries: Expiries::NONE };
        let mut children: SmallVec<[Child; 5]> = SmallVec::new();
        for (key, part) in parts {
            if let Some((link, sums)) = part {
                totals.bytes += sums.bytes;
                children.push(Child { link, measure: sums.measure, key });
            }
        }
        composite::build(arena, &children, totals, &self.meta.stored())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_root_has_is_read_back() {
        let id = |ms, seq| StreamId { ms, seq };
        let meta = Meta {
            state: StreamState {
                last_id: id(1, 2),
                max_deleted_id: id(3, u64::MAX),
                entries_added: 5,
            },
            base_ms: 6,
            next_owner: 7,
            last_node: LastNode { body_bytes: 8, entry_count: 9, first: id(10, 11), schema: 12 },
            front_count: 13,
        };
        assert_eq!(Meta::read(&meta.stored()), meta);
    }
}
