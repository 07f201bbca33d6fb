//! Member index: from the hash of a member to the scores that it may have.
//!
//! Elements have twelve bytes: 32 bits of the hash, then the score. Elements of one hash are in one
//! leaf and in no order. Two members may have equal elements; it does not matter which of them is
//! removed for which member.

use crate::hash::{Seed, hash};
use crate::tree::arena::Arena;
use crate::tree::build::Builder;
use crate::tree::leaf::{LeafPlan, Parts};
use crate::tree::node::{Link, Node, Stride};
use crate::tree::order::Order;
use crate::tree::separator::Place;
use crate::tree::sorted::{self, Sorted};

/// Order of elements by hash.
pub(super) struct Hashes;

impl Order for Hashes {
    type Key = u64;
}

impl Sorted for Hashes {
    #[inline]
    fn place(leaf: Node<'_>, index: usize) -> Place<'_> {
        Place::first_of(u64::from(read(leaf, index).hash))
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
    let element = leaf.element(index);
    let (hash, score) = element.split_first_chunk().expect("an element begins with its hash");
    let score = score.first_chunk().expect("an element ends with its score");
    Hint { hash: u32::from_le_bytes(*hash), score: f64::from_le_bytes(*score) }
}

/// Scores of the elements of a hash.
#[inline]
pub(super) fn scores_of<'g>(root: Link, hash: u32) -> impl Iterator<Item = f64> + use<'g> {
    let place = Place::first_of(u64::from(hash));
    let leaf: Node<'g> = sorted::leaf_of::<Hashes>(root, place);
    let first = sorted::search::<Hashes>(leaf, place).unwrap_or_else(|index| index);
    let elements = (first..leaf.len()).map(move |index| read(leaf, index));
    elements.take_while(move |hint| hint.hash == hash).map(|hint| hint.score)
}

/// Adds an element.
pub(super) fn insert(arena: &mut Arena, root: Link, hint: Hint) -> Link {
    let element = hint.stored();
    let parts: [&[u8]; 1] = [&element];
    let (path, leaf) = sorted::descend::<Hashes>(root, hint.place());
    let at = sorted::search::<Hashes>(leaf.node(), hint.place()).unwrap_or_else(|index| index);
    let plan = LeafPlan { leaf: leaf.node(), at, removed: 0, inserted: Some(&parts) };
    let root = sorted::carry_out::<Hashes>(arena, path, &plan, hint.place());
    root.expect("a tree with a new element is not empty")
}

/// Replaces an element by one of the same hash.
pub(super) fn replace(arena: &mut Arena, root: Link, old: Hint, score: f64) -> Option<Link> {
    let element = Hint { score, ..old }.stored();
    change(arena, root, old, Some(&[&element]))
}

/// Removes an element.
pub(super) fn remove(arena: &mut Arena, root: Link, old: Hint) -> Option<Link> {
    change(arena, root, old, None)
}

/// Replaces an element that is there by at most one of the same hash.
fn change(arena: &mut Arena, root: Link, old: Hint, inserted: Option<Parts<'_>>) -> Option<Link> {
    let (path, leaf) = sorted::descend::<Hashes>(root, old.place());
    let node = leaf.node();
    let first = sorted::search::<Hashes>(node, old.place()).unwrap_or_else(|index| index);
    let at = (first..node.len()).find(|&index| read(node, index).bits() == old.bits());
    let at = at.expect("the index has an element for each member");
    let plan = LeafPlan { leaf: node, at, removed: 1, inserted };
    sorted::carry_out::<Hashes>(arena, path, &plan, old.place())
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
