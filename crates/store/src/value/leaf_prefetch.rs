//! Prefetch of the leaves that lookups by name will read.
//!
//! A lookup in a large collection waits for the memory at each level of its tree. Several lookups
//! that follow each other wait together when all of them have gone down before, a level at a time.

use crate::tree::inner;
use crate::tree::node::Node;
use crate::tree::separator::Place;
use crate::tree::sorted;

use super::sorted_set::{Scores, Search, place, score_of};

/// Descent of one lookup to the leaves that it will read.
#[derive(Clone, Copy, Debug)]
pub struct LeafPrefetch<'g> {
    at: At<'g>,
}

#[derive(Clone, Copy, Debug)]
enum At<'g> {
    /// A node of a tree that is ordered by the keys of names.
    Keys(Node<'g>, u64),
    /// A node of a sorted set's index; the set's score tree and the member follow.
    Index(Search<'g>, Node<'g>, &'g [u8]),
    /// A node of a score tree.
    Scores(Node<'g>, Place<'g>),
}

impl<'g> LeafPrefetch<'g> {
    /// Descent to a name with a key, from the root of a collection.
    #[inline]
    pub(super) fn of_key(root: Node<'g>, key: u64) -> LeafPrefetch<'g> {
        LeafPrefetch { at: At::Keys(root, key) }
    }

    /// Descent to a member of a sorted set: to its hint in the index, and by that to its score.
    #[inline]
    pub(super) fn of_member(
        search: Search<'g>,
        scores: Node<'g>,
        member: &'g [u8],
    ) -> LeafPrefetch<'g> {
        LeafPrefetch { at: At::Index(search, scores, member) }
    }

    /// Member of a sorted set and the score that the index has for it, once that was found.
    #[inline]
    #[must_use]
    pub fn score(&self) -> Option<(&'g [u8], f64)> {
        let At::Scores(_, place) = self.at else { return None };
        Some((place.tie, score_of(place)))
    }

    /// Goes on to the next node, and prefetches it; false once it is the last leaf.
    #[inline]
    pub fn go_down(&mut self) -> bool {
        match &mut self.at {
            At::Keys(node, key) => go_below(node, |node| inner::find_key(node, *key)),
            At::Scores(node, place) => {
                go_below(node, |node| sorted::find_child::<Scores>(node, *place))
            }
            At::Index(search, scores, member) => {
                if !search.go_down() {
                    let Some(score) = search.scores().next() else { return false };
                    self.at = At::Scores(*scores, place(score, member));
                    return self.go_down();
                }
                true
            }
        }
    }
}

/// Goes from a node to the next one below it that may not be cached, and prefetches that; false if
/// it is a leaf, or the node.
#[inline]
fn go_below<'g>(node: &mut Node<'g>, choose: impl Fn(Node<'g>) -> usize) -> bool {
    if node.is_leaf() {
        return false;
    }
    let parent = inner::below_cached(*node, &choose);
    let child = parent.children()[choose(parent)].link();
    child.prefetch();
    *node = child.node();
    parent.header().level > 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::Seed;
    use crate::heap::Heap;
    use crate::value::hash::HashEdit;
    use crate::value::set::{Member, SetEdit};
    use crate::value::sorted_set::SortedSetEdit;

    fn ends_at_leaf_of(mut descent: LeafPrefetch<'_>, name: &[u8]) -> bool {
        while descent.go_down() {}
        let leaf = match descent.at {
            At::Keys(node, _) | At::Scores(node, _) => node,
            At::Index(..) => return false,
        };
        leaf.elements().any(|element| element.ends_with(name))
    }

    #[test]
    fn a_descent_ends_at_the_leaf_of_its_name() {
        let (heap, seed) = (Heap::new(), Seed::new(1, 2));
        for count in [500, 50_000] {
            let names: Vec<_> = (0..count).map(|number| format!("name-{number}")).collect();
            let names = || names.iter().map(String::as_bytes);
            let mut hash = HashEdit::create(&seed, &heap);
            let mut set = SetEdit::create(&seed, &heap);
            let mut sorted_set = SortedSetEdit::create(&seed, &heap);
            for (number, name) in names().enumerate() {
                hash.set(name, b"", None);
                set.insert(Member::String(name));
                sorted_set.set(name, (number % 5000) as f64);
            }
            let hash = hash.view().expect("it has fields");
            let set = set.view().expect("it has members");
            let sorted_set = sorted_set.view().expect("it has members");
            for name in names().step_by(97) {
                assert!(ends_at_leaf_of(hash.prefetch(name), name));
                assert!(ends_at_leaf_of(set.prefetch(Member::String(name)), name));
                let descent = sorted_set.prefetch(name).expect("it has an index");
                assert!(ends_at_leaf_of(descent, name));
            }
        }
    }
}
