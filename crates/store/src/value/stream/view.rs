//! Views of streams.

use std::collections::HashMap;

use crate::hash::Seed;
use crate::heap::Heap;
use crate::member::Section;
use crate::tree::Root;
use crate::tree::check::check_tree;
use crate::tree::composite;
use crate::tree::node::Node;
use crate::tree::sorted::check_sorted;
use crate::value::collection::Collection;
use crate::value::kind::Kind;

use super::directory::{self, Consumer, Directory, GROUPS, Group, NodeSchemas};
use super::edit::StreamEdit;
use super::entries::{self, Entries, EntriesBack, Ids, StreamEntry};
use super::id::StreamId;
use super::parts::{BY_CONSUMER, BY_GROUP, DIRECTORY, Parts, StreamState};
use super::pending::{self, Owners, Pending};

/// One version of a stream, for as long as `'g`.
///
/// Ranks count entries from 0 at the least id.
#[derive(Clone, Copy, Debug)]
pub struct Stream<'g> {
    /// None for what an edit has so far.
    root: Option<Node<'g>>,
    parts: Parts,
}

impl<'g> Stream<'g> {
    /// Stream under a root.
    ///
    /// # Safety
    ///
    /// `root` came from a [`StreamEdit`], and was reachable for readers at some moment of the
    /// section's lifetime `'g`, or is not yet published and not dropped for as long.
    #[must_use]
    pub unsafe fn from_root(root: Root, _section: Section<'g>) -> Stream<'g> {
        let root = root.link().node();
        Stream { root: Some(root), parts: Parts::of(root) }
    }

    /// Stream of the parts that an edit has so far.
    pub(super) fn of_parts(parts: Parts) -> Stream<'g> {
        Stream { root: None, parts }
    }

    /// Number of entries.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.parts.len()
    }

    /// True if there are no entries. The stream exists without any.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Allocated bytes; 0 while the stream is edited.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.root.map_or(0, Node::bytes)
    }

    /// Number of leaves and of all nodes that the entries are in.
    #[must_use]
    pub fn node_counts(&self) -> (u64, u64) {
        fn count(node: Node<'_>) -> (u64, u64) {
            if node.is_leaf() {
                return (1, 1);
            }
            let below = node.children().iter().map(|child| match node.header().level {
                // Leaves are not read.
                1 => (1, 1),
                _ => count(child.link().node()),
            });
            below.fold((0, 1), |all, of| (all.0 + of.0, all.1 + of.1))
        }
        let of_parts = [self.parts.middle, self.parts.last].into_iter().flatten();
        of_parts.map(|part| count(part.node())).fold((0, 1), |all, of| (all.0 + of.0, all.1 + of.1))
    }

    /// State besides entries and groups.
    #[must_use]
    pub fn state(&self) -> StreamState {
        self.parts.meta.state
    }

    /// Id of the first entry; the least id without entries.
    #[must_use]
    pub fn first_id(&self) -> StreamId {
        entries::id_at(&self.parts, 0).unwrap_or(StreamId::MIN)
    }

    /// Id of the last entry that is there.
    #[must_use]
    pub fn last_entry_id(&self) -> Option<StreamId> {
        entries::id_at(&self.parts, self.len().checked_sub(1)?)
    }

    /// Entry of an id.
    #[must_use]
    pub fn get(&self, id: StreamId) -> Option<StreamEntry<'g>> {
        let found = entries::find(&self.parts, id);
        found.is_present.then(|| self.iter_from(found.rank).next()).flatten()
    }

    /// True if there is an entry of an id.
    #[must_use]
    pub fn contains(&self, id: StreamId) -> bool {
        entries::find(&self.parts, id).is_present
    }

    /// Number of entries with lesser ids.
    #[must_use]
    pub fn count_below(&self, id: StreamId) -> u64 {
        entries::find(&self.parts, id).rank
    }

    /// Number of entries with ids up to one.
    #[must_use]
    pub fn count_up_to(&self, id: StreamId) -> u64 {
        let found = entries::find(&self.parts, id);
        found.rank + u64::from(found.is_present)
    }

    /// Entries from a rank on, ascending. In logarithmic time, then constant per entry.
    #[must_use]
    pub fn iter_from(&self, rank: u64) -> Entries<'g> {
        Entries::new(self.parts, rank)
    }

    /// Ids of the entries from a rank on, ascending: as [`Stream::iter_from`], without a look at
    /// what the entries hold.
    pub fn ids_from(&self, rank: u64) -> impl Iterator<Item = StreamId> + use<'g> {
        entries::ids::<'g>(self.parts, rank)
    }

    /// Entries before a rank, descending; those of all ranks if it is behind the end.
    #[must_use]
    pub fn iter_back_from(&self, end: u64) -> EntriesBack<'g> {
        EntriesBack::new(self.parts, end.min(self.len()))
    }

    /// Number of groups.
    #[must_use]
    pub fn group_count(&self) -> u64 {
        directory::count(self.parts.directory, GROUPS)
    }

    /// Groups in the order of their names.
    pub fn groups(&self) -> impl Iterator<Item = (&'g [u8], Group)> + use<'g> {
        directory::groups(self.parts.directory)
    }

    /// Group of a name.
    #[must_use]
    pub fn group(&self, name: &[u8]) -> Option<Group> {
        directory::group(self.parts.directory, name)
    }

    /// Number of consumers of a group.
    #[must_use]
    pub fn consumer_count(&self, group: u64) -> u64 {
        directory::count(self.parts.directory, group)
    }

    /// Consumers of a group in the order of their names.
    pub fn consumers(&self, group: u64) -> impl Iterator<Item = (&'g [u8], Consumer)> + use<'g> {
        let parts = self.parts;
        directory::names(parts.directory, group).map(move |(_, stored)| {
            let (number, _) = super::number::read(stored);
            directory::consumer(parts.directory, number)
        })
    }

    /// Consumer of a group by name.
    #[must_use]
    pub fn consumer(&self, group: u64, name: &[u8]) -> Option<Consumer> {
        let number = directory::consumer_number(self.parts.directory, group, name)?;
        Some(directory::consumer(self.parts.directory, number).1)
    }

    /// Name of a consumer, which exists.
    #[must_use]
    pub fn consumer_name(&self, number: u64) -> &'g [u8] {
        directory::consumer(self.parts.directory, number).0
    }

    /// Number of pending entries of a group.
    #[must_use]
    pub fn pending_count(&self, group: u64) -> u64 {
        pending::count(self.parts.by_group, group)
    }

    /// Pending entry of a group.
    #[must_use]
    pub fn pending(&self, group: u64, id: StreamId) -> Option<Pending> {
        pending::find(self.parts.by_group, group, id)
    }

    /// Pending entries of a group from an id on.
    pub fn pending_from(
        &self,
        group: u64,
        start: StreamId,
    ) -> impl Iterator<Item = (StreamId, Pending)> + use<'g> {
        pending::of_group(self.parts.by_group, group, start)
    }

    /// Id of the last pending entry of a group.
    #[must_use]
    pub fn last_pending(&self, group: u64) -> Option<StreamId> {
        pending::last(self.parts.by_group, group)
    }

    /// Number of pending entries of a consumer.
    #[must_use]
    pub fn consumer_pending_count(&self, consumer: u64) -> u64 {
        pending::count(self.parts.by_consumer, consumer)
    }

    /// Ids of the pending entries of a consumer from one on.
    pub fn consumer_pending_from(
        &self,
        consumer: u64,
        start: StreamId,
    ) -> impl Iterator<Item = StreamId> + use<'g> {
        pending::of_consumer(self.parts.by_consumer, consumer, start)
    }

    /// Asserts the invariants of all trees, that both orders of pending entries agree, and that
    /// what is referred to is there, in time `n log n`. For tests.
    #[doc(hidden)]
    pub fn check(&self) {
        let root = self.root.expect("what is checked has a root");
        composite::check(root, |role, link| match role {
            BY_GROUP | BY_CONSUMER => {
                check_sorted::<Owners>(link);
                check_tree::<Owners>(link, &mut |_, _, _| {})
            }
            DIRECTORY => {
                check_sorted::<Directory>(link);
                check_tree::<Directory>(link, &mut |_, _, _| {})
            }
            _ => {
                check_sorted::<Ids>(link);
                check_tree::<Ids>(link, &mut |_, _, _| {})
            }
        });
        assert_eq!(root.totals().measure, self.len());
        assert!(self.parts.last.is_none_or(|last| last.node().is_leaf()));
        let ids: Vec<StreamId> = self.iter_from(0).map(|entry| entry.id).collect();
        assert!(ids.is_sorted_by(|left, right| left < right), "entries are sorted");
        assert_eq!(ids.len() as u64, self.len());
        assert!(ids.last().is_none_or(|&last| last <= self.state().last_id));
        let starts: Vec<bool> = self.iter_from(0).map(|entry| entry.starts_node).collect();
        assert!(starts.first().is_none_or(|&first| first));
        let front_count = self.parts.meta.front_count as usize;
        assert!(front_count <= starts.len());
        assert!(!starts.iter().take(front_count).skip(1).any(|&starts_node| starts_node));
        self.check_pending();
    }

    fn check_pending(&self) {
        let mut of_consumers: HashMap<u64, Vec<StreamId>> = HashMap::new();
        let (mut pending_count, mut consumer_count) = (0, 0);
        for (_, group) in self.groups() {
            let consumers: Vec<u64> =
                self.consumers(group.number).map(|(_, consumer)| consumer.number).collect();
            consumer_count += consumers.len() as u64;
            assert_eq!(consumers.len() as u64, self.consumer_count(group.number));
            for (id, pending) in self.pending_from(group.number, StreamId::MIN) {
                assert!(consumers.contains(&pending.consumer), "a pending entry has a consumer");
                of_consumers.entry(pending.consumer).or_default().push(id);
                pending_count += 1;
            }
            for consumer in consumers {
                let ids: Vec<_> = self.consumer_pending_from(consumer, StreamId::MIN).collect();
                let expected = of_consumers.remove(&consumer).unwrap_or_default();
                assert_eq!(ids, expected, "both orders of pending entries agree");
                assert_eq!(ids.len() as u64, self.consumer_pending_count(consumer));
            }
        }
        let lens = [self.parts.by_group, self.parts.by_consumer].map(|root| {
            root.map_or(0, |root| crate::tree::order::sums::<Owners>(root.node()).measure)
        });
        assert_eq!(lens, [pending_count; 2], "pending entries have groups and consumers");
        let names = self.group_count() + 2 * consumer_count;
        let of_nodes = NodeSchemas::of(self.parts.directory);
        let searched = directory::searched_schemas(self.parts.directory).count() as u64;
        let schemas = searched + of_nodes.count;
        let directory = self.parts.directory;
        let elements =
            directory.map_or(0, |root| crate::tree::order::sums::<Directory>(root.node()).measure);
        assert_eq!(elements, names + schemas, "the directory holds what is referred to");
        for index in 0..of_nodes.count {
            let [first, end] = [index, index + 1].map(|index| of_nodes.first_entry(index));
            let entry = first.and_then(|first| self.iter_from(self.count_below(first)).next());
            let entry = entry.expect("an entry may have the schema").id;
            assert!(end.is_none_or(|end| entry < end), "the schema of {first:?} has no entry");
        }
    }
}

// SAFETY: no other type is of this kind; views and edits read what edits built.
unsafe impl Collection for Stream<'_> {
    const KIND: Kind = Kind::Stream;

    type View<'g> = Stream<'g>;

    type Edit<'h> = StreamEdit<'h>;

    unsafe fn view<'g>(root: Root, _seed: &'g Seed, section: Section<'g>) -> Stream<'g> {
        // SAFETY: the caller's promise.
        unsafe { Stream::from_root(root, section) }
    }

    unsafe fn edit<'h>(root: Option<Root>, _seed: &'h Seed, heap: &'h Heap) -> StreamEdit<'h> {
        // SAFETY: the caller's promise.
        unsafe { StreamEdit::new(root, heap) }
    }
}
