//! Edits of sorted sets.

use std::marker::PhantomData;

use crate::hash::Seed;
use crate::heap::Heap;
use crate::tree::arena::Arena;
use crate::tree::build::Builder;
use crate::tree::composite;
use crate::tree::cut::cut;
use crate::tree::limits::NODE_BYTES_MAX;
use crate::tree::node::{Child, Expiries, Link, Node, Totals};
use crate::tree::order::sums;
use crate::tree::separator::Place;
use crate::tree::sorted::{self, FoundElement};
use crate::tree::{Built, Root};
use crate::value::collection::TreeEdit;
use crate::value::gathered::Gathered;
use crate::value::named::{self, Repeated};

use super::index::{self, Hashes, Hint};
use super::score;
use super::view::{self, INDEX, Item, SCORES, Scores, SortedSet};

/// Leaves of the score tree beyond which there is an index.
const LEAVES_WITHOUT_INDEX_MAX: usize = 4;

/// Leaves of the score tree from which on downwards the index is dropped.
const LEAVES_WITH_INDEX_MIN: usize = 2;

/// Elements of the index that are removed at a time with a range of members.
const REMOVED_AT_A_TIME: usize = 1024;

/// Next version of a sorted set, under construction. Scores are never NaN.
#[derive(Debug)]
pub struct SortedSetEdit<'h> {
    arena: Arena,
    heap: &'h Heap,
    seed: &'h Seed,
    /// Published composite root, until the first change makes it part of the old version.
    composite: Option<Link>,
    scores: Option<Link>,
    index: Option<Link>,
    changed: bool,
    // Not `Send`: an edit belongs to the thread whose heap it counts in.
    marker: PhantomData<*const ()>,
}

impl<'h> SortedSetEdit<'h> {
    /// A new, empty sorted set.
    #[must_use]
    pub fn create(seed: &'h Seed, heap: &'h Heap) -> SortedSetEdit<'h> {
        SortedSetEdit {
            arena: Arena::default(),
            heap,
            seed,
            composite: None,
            scores: None,
            index: None,
            changed: false,
            marker: PhantomData,
        }
    }

    /// Next version of the sorted set under `root`; of an empty one, if there is none.
    ///
    /// # Safety
    ///
    /// `root` came from a `SortedSetEdit` with this seed, is the current version of its key, and no
    /// other code edits or retires it until this edit and the tree it built are gone.
    #[must_use]
    pub unsafe fn new(root: Option<Root>, seed: &'h Seed, heap: &'h Heap) -> SortedSetEdit<'h> {
        let node = root.map(|root| root.link().node());
        let parts = node.map(view::parts_of);
        SortedSetEdit {
            arena: Arena::from(root),
            heap,
            seed,
            composite: node.filter(|node| composite::is_composite(*node)).map(Node::link),
            scores: parts.map(|(scores, _)| scores),
            index: parts.and_then(|(_, index)| index),
            changed: false,
            marker: PhantomData,
        }
    }

    /// Number of members.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.scores.map_or(0, |scores| sums::<Scores>(scores.node()).measure)
    }

    /// True if no member is left.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.scores.is_none()
    }

    /// The sorted set as edited so far, but for its own count of bytes; none if it is empty.
    #[must_use]
    pub fn view(&self) -> Option<SortedSet<'_>> {
        self.scores.map(|scores| SortedSet::of_parts(scores, self.index, self.seed))
    }

    /// Score of a member as edited so far.
    #[must_use]
    pub fn score(&self, member: &[u8]) -> Option<f64> {
        self.view()?.score(member)
    }

    /// Sets the score of a member, which is added if it is new. Returns its old score.
    pub fn set(&mut self, member: &[u8], score: f64) -> Option<f64> {
        self.update(member, |_| Some(score))
    }

    /// Sets the score of a member to what `change` makes of the old one, with one lookup; none
    /// leaves everything as it is. Returns the old score.
    ///
    /// A score that is equal to the old one leaves that, also where one is zero and the other minus
    /// zero.
    pub fn update(
        &mut self,
        member: &[u8],
        change: impl FnOnce(Option<f64>) -> Option<f64>,
    ) -> Option<f64> {
        let hints = self.hints_of(member);
        let found = self.find(member, hints.as_ref());
        let old = found.as_ref().map(|&(score, _)| score);
        if let Some(new) = change(old).filter(|&new| Some(new) != old) {
            self.write(member, hints.as_ref(), found.as_ref(), new);
        }
        old
    }

    /// Removes a member, and returns its score.
    pub fn remove(&mut self, member: &[u8]) -> Option<f64> {
        let hints = self.hints_of(member);
        let (score, element) = self.find(member, hints.as_ref())?;
        self.changed = true;
        self.scores = element.remove::<Scores>(&mut self.arena);
        if let Some(hints) = hints {
            self.index = hints.remove(&mut self.arena, score);
        }
        self.drop_small_index();
        Some(score)
    }

    /// Removes the members of ranks `start..end`; ranks behind the end are left out.
    ///
    /// In logarithmic time without an index, else also in time linear in their number, or in that
    /// of the others if those are fewer.
    pub fn remove_range(&mut self, start: u64, end: u64) {
        let Some(scores) = self.scores else { return };
        let (len, end) = (self.len(), end.min(self.len()));
        if start >= end {
            return;
        }
        self.changed = true;
        let removed = end - start;
        let is_rebuilt = removed > len / 2;
        if !is_rebuilt {
            self.remove_hints(start, end);
        }
        self.scores = cut::<Scores>(&mut self.arena, scores, start, end);
        if is_rebuilt && let Some(index) = self.index.take() {
            self.arena.discard_tree(index);
            self.add_index_if_long();
        }
        self.drop_small_index();
    }

    /// Fills an empty set with distinct members, which it sorts. Each node is written once.
    pub fn fill(&mut self, items: &mut [Item<'_>]) {
        debug_assert!(self.is_empty());
        sort(items);
        let mut builder = Builder::<Scores>::new(0);
        for item in items.iter() {
            let parts: [&[u8]; 2] = [&score::encode(item.score), item.member];
            builder.push(&mut self.arena, place_of(item), &parts);
        }
        self.scores = builder.finish(&mut self.arena);
        self.changed = true;
        self.add_index_if_long();
    }

    /// As [`SortedSetEdit::fill`], with members of which one may be there twice.
    ///
    /// # Errors
    ///
    /// When a member is there twice; the sorted set stays empty.
    pub fn fill_with(&mut self, members: &GatheredScores) -> Result<(), Repeated> {
        debug_assert!(self.is_empty());
        let elements = &members.elements;
        let item = |index| score::decode(elements.get(index));
        let (count, name) = (elements.len(), |index| item(index).1);
        let hash_of = |member: &[u8]| u64::from(index::hash_of(self.seed, member));
        // Hashes are of use where there will be an index.
        let hashed = match elements.bytes() <= NODE_BYTES_MAX {
            true => named::check_distinct(count, name, hash_of).map(|()| Vec::new())?,
            false => named::keyed(count, name, hash_of)?,
        };
        let mut order: Vec<(u64, usize)> =
            (0..count).map(|index| (score::sortable(item(index).0), index)).collect();
        order.sort_unstable_by(|left, right| {
            let by_score = left.0.cmp(&right.0);
            by_score.then_with(|| item(left.1).1.cmp(item(right.1).1))
        });
        let mut builder = Builder::<Scores>::new(0);
        for &(key, index) in &order {
            let place = Place { key, tie: item(index).1 };
            builder.push(&mut self.arena, place, &[elements.get(index)]);
        }
        self.scores = builder.finish(&mut self.arena);
        self.changed = true;
        if hashed.is_empty() {
            self.add_index_if_long();
        } else if self.scores.is_some_and(is_long) {
            let hint = |(hash, index)| Hint { hash: hash as u32, score: item(index).0 };
            let mut hints: Vec<Hint> = hashed.into_iter().map(hint).collect();
            self.index = index::build(&mut self.arena, &mut hints);
        }
        Ok(())
    }

    /// Ends the edit.
    pub fn finish(mut self) -> Built<'h> {
        if !self.changed {
            let root = self.composite.or(self.scores);
            return self.arena.finish(root, self.heap);
        }
        if let Some(composite) = self.composite {
            self.arena.discard(composite);
        }
        let root = match (self.scores, self.index) {
            (Some(scores), Some(index)) => {
                let of_scores = sums::<Scores>(scores.node());
                let of_index = sums::<Hashes>(index.node());
                let parts = [
                    Child { link: scores, measure: of_scores.measure, key: SCORES },
                    Child { link: index, measure: of_index.measure, key: INDEX },
                ];
                let bytes = of_scores.bytes + of_index.bytes;
                let totals = Totals { measure: of_scores.measure, bytes, expiries: Expiries::NONE };
                Some(composite::build(&mut self.arena, &parts, totals, &[]))
            }
            (scores, _) => scores,
        };
        self.arena.finish(root, self.heap)
    }

    /// Elements of the index that may be a member's; none without an index.
    fn hints_of(&self, member: &[u8]) -> Option<index::Found> {
        self.index.map(|index| index::Found::of(index, index::hash_of(self.seed, member)))
    }

    /// A member's score and its element in the score tree.
    fn find(&self, member: &[u8], hints: Option<&index::Found>) -> Option<(f64, FoundElement)> {
        let scores = self.scores?;
        let find = |score| {
            let element = sorted::find::<Scores>(scores, view::place(score, member))?;
            let (leaf, index) = element.leaf_and_index();
            // A score that the index tells may be another member's, whose zero has the other sign.
            Some((view::item(leaf, index).score, element))
        };
        match hints {
            Some(hints) => hints.scores().find_map(find),
            None => find(self.score(member)?),
        }
    }

    /// Writes a score in the place of the one that was found.
    fn write(
        &mut self,
        member: &[u8],
        hints: Option<&index::Found>,
        found: Option<&(f64, FoundElement)>,
        new: f64,
    ) {
        self.changed = true;
        let parts: [&[u8]; 2] = [&score::encode(new), member];
        let place = view::place(new, member);
        let old = found.map(|&(score, _)| score);
        match found {
            Some((_, element)) => {
                self.scores = element.replace::<Scores>(&mut self.arena, place, &parts);
            }
            None => {
                sorted::put::<Scores>(&mut self.arena, &mut self.scores, 0, place, &parts);
            }
        }
        let Some(hints) = hints else { return self.add_index_if_long() };
        self.index = match old {
            Some(old) => hints.replace(&mut self.arena, old, new),
            None => hints.insert(&mut self.arena, new),
        };
    }

    /// Removes the elements of the index for the members of a range of ranks.
    fn remove_hints(&mut self, mut start: u64, end: u64) {
        while let (true, Some(view), Some(mut index)) = (start < end, self.view(), self.index) {
            let count = (end - start).min(REMOVED_AT_A_TIME as u64);
            let items = view.iter_from(start).take(count as usize);
            let hints: Vec<Hint> = items.map(|item| self.hint(&item)).collect();
            for Hint { hash, score } in hints {
                let found = index::Found::of(index, hash);
                let Some(rest) = found.remove(&mut self.arena, score) else { break };
                index = rest;
            }
            self.index = Some(index);
            start += count;
        }
    }

    fn hint(&self, item: &Item<'_>) -> Hint {
        Hint { hash: index::hash_of(self.seed, item.member), score: item.score }
    }

    /// Builds the index of a set that has none and needs one.
    fn add_index_if_long(&mut self) {
        if !self.scores.is_some_and(is_long) {
            return;
        }
        let Some(view) = self.view() else { return };
        let mut hints: Vec<Hint> = view.iter().map(|item| self.hint(&item)).collect();
        self.index = index::build(&mut self.arena, &mut hints);
    }

    /// Drops the index of a set that became small; with some distance to where it is built.
    fn drop_small_index(&mut self) {
        if self.scores.is_some_and(|scores| leaf_count_reaches(scores, LEAVES_WITH_INDEX_MIN + 1)) {
            return;
        }
        if let Some(index) = self.index.take() {
            self.arena.discard_tree(index);
        }
    }
}

/// Members of a sorted set with their scores, to fill it with.
#[derive(Clone, Debug, Default)]
pub struct GatheredScores {
    /// Elements of the score tree.
    elements: Gathered,
}

impl GatheredScores {
    /// Adds a member.
    pub fn push(&mut self, item: Item<'_>) {
        self.elements.push(&[&score::encode(item.score), item.member]);
    }

    /// The members as elements.
    #[must_use]
    pub fn elements(&self) -> &Gathered {
        &self.elements
    }
}

/// Sorts members as a sorted set has them: [`SortedSetEdit::fill`] takes less time then.
pub fn sort(items: &mut [Item<'_>]) {
    items.sort_unstable_by(|left, right| place_of(left).cmp(&place_of(right)));
}

fn place_of<'a>(item: &Item<'a>) -> Place<'a> {
    view::place(item.score, item.member)
}

/// True if a score tree needs an index.
pub(super) fn is_long(scores: Link) -> bool {
    leaf_count_reaches(scores, LEAVES_WITHOUT_INDEX_MAX + 1)
}

/// True if a tree has at least `count` leaves, of a few.
fn leaf_count_reaches(root: Link, count: usize) -> bool {
    match root.header().level {
        0 => count <= 1,
        1 => root.node().len() >= count,
        _ => true,
    }
}

impl<'h> TreeEdit<'h> for SortedSetEdit<'h> {
    fn base(&self) -> Option<Root> {
        self.arena.base()
    }

    fn finish(self) -> Built<'h> {
        self.finish()
    }
}
