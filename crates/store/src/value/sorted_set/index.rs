//! Member index: from the hash of a member to the scores that it may have.
//!
//! Elements have twelve bytes: 32 bits of the hash, then the score. Elements of one hash are in one
//! leaf and in no order. Two members may have equal elements; it does not matter which of them is
//! removed for which member.

use crate::hash::{Seed, hash};
use crate::tree::arena::Arena;
use crate::tree::build::Builder;
use crate::tree::inner;
use crate::tree::leaf::{self, LeafPlan};
use crate::tree::node::{ByIndex, Link, Node, Stride};
use crate::tree::order::Order;
use crate::tree::separator::Place;
use crate::tree::sorted::{self, Sorted};
use crate::tree::update::TreePath;

/// Order of elements by hash.
pub(super) struct Hashes;

impl Order for Hashes {
    type Key = u64;
}

impl Sorted for Hashes {
    #[inline]
    fn place_of(element: &[u8]) -> Place<'_> {
        Place::first_of(u64::from(hint_of(element).hash))
    }
}

/// Element of the index.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hint {
    pub(super) hash: u32,
    pub(super) score: f64,
}

impl Hint {
    /// Bits by which elements are equal, in the order of the hash.
    pub(super) fn bits(self) -> (u32, u64) {
        (self.hash, self.score.to_bits())
    }

    fn stored(self) -> [u8; 12] {
        let mut bytes = [0; 12];
        bytes[..4].copy_from_slice(&self.hash.to_le_bytes());
        bytes[4..].copy_from_slice(&self.score.to_le_bytes());
        bytes
    }

    fn place(self) -> Place<'static> {
        Place::first_of(u64::from(self.hash))
    }
}

/// Bits of a member's hash that the index keeps.
#[inline]
pub(super) fn hash_of(seed: &Seed, member: &[u8]) -> u32 {
    let hash = (hash(seed, member) >> 32) as u32;
    #[cfg(test)]
    let hash = hash & super::tests::HASH_MASK.get();
    hash
}

/// Element `index` of a leaf.
#[inline]
pub(super) fn read(leaf: Node<'_>, index: usize) -> Hint {
    hint_of(leaf.element(index))
}

#[inline]
fn hint_of(element: &[u8]) -> Hint {
    let (hash, score) = element.split_first_chunk().expect("an element begins with its hash");
    let score = score.first_chunk().expect("an element ends with its score");
    Hint { hash: u32::from_le_bytes(*hash), score: f64::from_le_bytes(*score) }
}

/// Scores of the elements of a hash.
#[inline]
pub(super) fn scores_of<'g>(root: Link, hash: u32) -> impl Iterator<Item = f64> + use<'g> {
    let mut search = Search::new(root.node(), hash);
    while search.go_down() {}
    search.scores()
}

/// Search for the elements of a hash, from the root to their leaf.
#[derive(Clone, Copy, Debug)]
pub(in crate::value) struct Search<'g> {
    node: Node<'g>,
    range: HashRange,
    hash: u32,
}

impl<'g> Search<'g> {
    /// A search that is at the root.
    #[inline]
    pub(super) fn new(root: Node<'g>, hash: u32) -> Search<'g> {
        Search { node: root, range: HashRange::ALL, hash }
    }

    /// Goes to the next node that may not be cached, and prefetches what a search reads of it;
    /// false at the leaf.
    #[inline]
    pub(in crate::value) fn go_down(&mut self) -> bool {
        if self.node.is_leaf() {
            return false;
        }
        let parent = inner::below_cached(self.node, |node| self.range.choose(node, self.hash));
        let child = &parent.children()[self.range.choose(parent, self.hash)];
        let link = child.link();
        if parent.header().level == 1 {
            // Of a leaf, only what the search will read: its elements are its measure.
            let guess = self.range.guess(self.hash, child.measure as usize);
            link.prefetch_around(Stride::Twelve.bytes() * guess);
        } else {
            link.prefetch();
        }
        self.node = link.node();
        true
    }

    /// Scores of the elements. At the leaf.
    #[inline]
    pub(in crate::value) fn scores(self) -> impl Iterator<Item = f64> + use<'g> {
        scores_in(self.node, self.range.first_of(self.node, self.hash), self.hash)
    }
}

/// Hashes that a node has elements for.
///
/// Hashes are spread evenly, so that the range of a leaf tells about where a hash is in it.
#[derive(Clone, Copy, Debug)]
struct HashRange {
    low: u64,
    high: u64,
}

impl HashRange {
    /// That of a root.
    const ALL: HashRange = HashRange { low: 0, high: 1 << u32::BITS };

    /// Index of the child of a node with this range that has a hash. The range is then the child's.
    #[inline]
    fn choose(&mut self, node: Node<'_>, hash: u32) -> usize {
        let index = inner::find_key(node, u64::from(hash));
        let children = node.children();
        if index > 0 {
            self.low = children[index].key;
        }
        if let Some(next) = children.get(index + 1) {
            self.high = next.key;
        }
        index
    }

    /// Index at which a leaf of `len` elements with this range may have a hash.
    #[inline]
    fn guess(&self, hash: u32, len: usize) -> usize {
        let (above, width) = (u64::from(hash) - self.low, self.high - self.low);
        (above * len as u64 / width) as usize
    }

    /// Index of the first element of a hash in a leaf with this range, or of the first one behind.
    #[inline]
    fn first_of(&self, leaf: Node<'_>, hash: u32) -> usize {
        let ByIndex::Strided(elements) = leaf.by_index() else {
            unreachable!("leaves of the index are strided")
        };
        let is_before = |index| hint_of(elements.get(index)).hash < hash;
        sorted::partition_near(leaf.len(), self.guess(hash, leaf.len()), is_before)
    }
}

/// Scores of the elements of a hash in a leaf, from the first of them on.
fn scores_in<'g>(leaf: Node<'g>, first: usize, hash: u32) -> impl Iterator<Item = f64> + use<'g> {
    let elements = (first..leaf.len()).map(move |index| read(leaf, index));
    elements.take_while(move |hint| hint.hash == hash).map(|hint| hint.score)
}

/// Elements of one hash in an index that is edited, with the path to their leaf; or the place where
/// one would be. For one change, of an index that was not changed since the lookup.
#[derive(Debug)]
pub(super) struct Found {
    path: TreePath,
    leaf: Link,
    /// Index of the first of them.
    first: usize,
    hash: u32,
}

impl Found {
    /// Looks for the elements of a hash.
    pub(super) fn of(root: Link, hash: u32) -> Found {
        let mut range = HashRange::ALL;
        let (path, leaf) = TreePath::descend::<Hashes>(root, |node| range.choose(node, hash));
        Found { path, leaf, first: range.first_of(leaf.node(), hash), hash }
    }

    /// Their scores.
    pub(super) fn scores(&self) -> impl Iterator<Item = f64> {
        scores_in(self.leaf.node(), self.first, self.hash)
    }

    /// Adds an element of the hash, and returns the new root.
    pub(super) fn insert(&self, arena: &mut Arena, score: f64) -> Option<Link> {
        let hint = Hint { hash: self.hash, score };
        let element = hint.stored();
        let (leaf, inserted) = (self.leaf.node(), [&element[..]]);
        let plan = LeafPlan { leaf, at: self.first, removed: 0, inserted: Some(&inserted) };
        sorted::carry_out::<Hashes>(arena, &self.path, &plan, hint.place())
    }

    /// Replaces an element with the score `old`.
    pub(super) fn replace(&self, arena: &mut Arena, old: f64, score: f64) -> Option<Link> {
        let (at, element) = (self.index_of(old), Hint { hash: self.hash, score }.stored());
        let replaced = leaf::move_element(arena, self.leaf, at, at, &[&element]);
        Some(self.path.replace_by_leaf::<Hashes>(arena, replaced))
    }

    /// Removes an element with the score `old`.
    pub(super) fn remove(&self, arena: &mut Arena, old: f64) -> Option<Link> {
        let (leaf, at) = (self.leaf.node(), self.index_of(old));
        let plan = LeafPlan { leaf, at, removed: 1, inserted: None };
        let place = Place::first_of(u64::from(self.hash));
        sorted::carry_out::<Hashes>(arena, &self.path, &plan, place)
    }

    /// Index in the leaf of an element with a score.
    fn index_of(&self, score: f64) -> usize {
        let (leaf, bits) = (self.leaf.node(), Hint { hash: self.hash, score }.bits());
        let at = (self.first..leaf.len()).find(|&index| read(leaf, index).bits() == bits);
        at.expect("the index has an element for each member")
    }
}

/// New index of some elements, which it sorts.
pub(super) fn build(arena: &mut Arena, hints: &mut [Hint]) -> Option<Link> {
    hints.sort_unstable_by_key(|hint| hint.hash);
    let mut builder = Builder::<Hashes>::new(Stride::Twelve.flags());
    for hint in hints {
        builder.push(arena, hint.place(), &[&hint.stored()]);
    }
    builder.finish(arena)
}
