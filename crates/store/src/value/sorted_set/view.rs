//! Views of sorted sets.

use std::collections::TryReserveError;

use crate::hash::Seed;
use crate::heap::Heap;
use crate::member::Section;
use crate::tree::Root;
use crate::tree::check::check_tree;
use crate::tree::composite;
use crate::tree::cursor::{Cursor, leaf_at};
use crate::tree::node::{Link, Node};
use crate::tree::order::{Order, sums};
use crate::tree::separator::{Place, TiedKey};
use crate::tree::sorted::{self, Sorted, check_sorted, locate};
use crate::value::collection::Collection;
use crate::value::kind::Kind;
use crate::value::leaf_prefetch::LeafPrefetch;
use crate::value::named::same;

use super::edit::SortedSetEdit;
use super::index::{self, Hashes, Hint, Search};
use super::score;

/// Roles of the parts of a composite root.
pub(super) const SCORES: u64 = 0;
pub(super) const INDEX: u64 = 1;

/// Parts of the hash space that a page of [`SortedSet::scan`] has at least one of, when members are
/// found by reading a long run of equal scores.
const SCAN_PARTS: u64 = 64;

/// Members of one score beyond which a page of [`SortedSet::scan`] is made larger.
const LONG_RUN: u64 = 4096;

/// Order of elements by score and member.
pub(in crate::value) struct Scores;

impl Order for Scores {
    type Key = TiedKey;
}

impl Sorted for Scores {
    const ORDERED_HEADS_END: u32 = score::ORDERED_HEADS_END;

    #[inline]
    fn heads_of(place: Place<'_>) -> Option<(u32, u32)> {
        score::heads_of(place.key)
    }

    #[inline]
    fn place_of(element: &[u8]) -> Place<'_> {
        let (score, member) = score::decode(element);
        place(score, member)
    }
}

/// Place of a member in the score tree.
#[inline]
pub(in crate::value) fn place(score: f64, member: &[u8]) -> Place<'_> {
    Place { key: score::sortable(score), tie: member }
}

/// Score of a place.
#[inline]
pub(in crate::value) fn score_of(place: Place<'_>) -> f64 {
    score::of_sortable(place.key)
}

/// Member with its score.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Item<'g> {
    /// The member.
    pub member: &'g [u8],
    /// Its score, never NaN.
    pub score: f64,
}

#[inline]
pub(super) fn item(leaf: Node<'_>, index: usize) -> Item<'_> {
    let (score, member) = score::decode(leaf.element(index));
    Item { member, score }
}

/// One version of a sorted set, for as long as `'g`.
///
/// Ranks count from 0 at the lowest score. Ranges of ranks answer all other ranges: the bounds of a
/// range of scores are [`count_below`](SortedSet::count_below) and
/// [`count_up_to`](SortedSet::count_up_to), those of a range of members
/// [`members_below`](SortedSet::members_below) and [`members_up_to`](SortedSet::members_up_to).
#[derive(Clone, Copy, Debug)]
pub struct SortedSet<'g> {
    root: Node<'g>,
    scores: Node<'g>,
    index: Option<Node<'g>>,
    seed: &'g Seed,
}

impl<'g> SortedSet<'g> {
    /// Sorted set under a root, built with the same seed.
    ///
    /// # Safety
    ///
    /// `root` came from a [`SortedSetEdit`] with this seed, and was reachable for readers at some
    /// moment of the section's lifetime `'g`, or is not yet published and not dropped for as long.
    #[must_use]
    pub unsafe fn from_root(root: Root, seed: &'g Seed, _section: Section<'g>) -> SortedSet<'g> {
        let root = root.link().node();
        let (scores, index) = parts_of(root);
        SortedSet { root, scores: scores.node(), index: index.map(Link::node), seed }
    }

    /// Sorted set of the parts that an edit has so far.
    pub(super) fn of_parts(scores: Link, index: Option<Link>, seed: &'g Seed) -> SortedSet<'g> {
        let (scores, index) = (scores.node(), index.map(Link::node));
        SortedSet { root: scores, scores, index, seed }
    }

    /// Number of members; never zero.
    #[must_use]
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> u64 {
        sums::<Scores>(self.scores).measure
    }

    /// Allocated bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.root.bytes()
    }

    /// Asserts the invariants of both trees and that the index has one element for each member, in
    /// time `n log n`. For tests.
    #[doc(hidden)]
    pub fn check(&self) {
        let check_scores = |link| {
            check_sorted::<Scores>(link);
            check_tree::<Scores>(link, &mut |_, _, _| {})
        };
        if !composite::is_composite(self.root) {
            assert!(!super::edit::is_long(self.root.link()));
            check_scores(self.root.link());
            return;
        }
        let mut hints = Vec::new();
        composite::check(self.root, |role, link| {
            if role == SCORES {
                return check_scores(link);
            }
            check_sorted::<Hashes>(link);
            check_tree::<Hashes>(link, &mut |leaf, _, _| {
                hints.extend((0..leaf.len()).map(|index| index::read(leaf, index).bits()));
            })
        });
        let hash = |item: Item<'_>| index::hash_of(self.seed, item.member);
        let mut expected: Vec<_> =
            self.iter().map(|item| Hint { hash: hash(item), score: item.score }.bits()).collect();
        expected.sort_unstable();
        hints.sort_unstable();
        assert_eq!(hints, expected, "the index has one element for each member");
        assert_eq!(self.root.totals().measure, self.len());
    }

    /// Score of a member.
    #[must_use]
    pub fn score(&self, member: &[u8]) -> Option<f64> {
        let Some(index) = self.index else {
            return self.search(member).map(|(_, score)| score);
        };
        self.find_hinted(index, member, |place| self.score_at(place))
    }

    /// As [`score`](SortedSet::score); in less time if it is `hint`.
    #[must_use]
    #[inline]
    pub fn score_near(&self, member: &[u8], hint: Option<f64>) -> Option<f64> {
        let hinted = hint.and_then(|score| self.score_at(place(score, member)));
        hinted.or_else(|| self.score(member))
    }

    /// Score of the member at a place.
    fn score_at(&self, place: Place<'_>) -> Option<f64> {
        let leaf = sorted::leaf_of::<Scores>(self.scores.link(), place);
        let found = sorted::search::<Scores>(leaf, place).ok()?;
        // That of the place may be another member's, or an old one, whose zero has the other sign.
        Some(item(leaf, found).score)
    }

    /// Prefetch for a lookup of a member; none in a set of few leaves, which are all searched.
    #[must_use]
    #[inline]
    pub fn prefetch(&self, member: &'g [u8]) -> Option<LeafPrefetch<'g>> {
        let search = Search::new(self.index?, index::hash_of(self.seed, member));
        Some(LeafPrefetch::of_member(search, self.scores, member))
    }

    /// The first thing that `look` finds at a place where the index says a member may be.
    fn find_hinted<T>(
        &self,
        index: Node<'g>,
        member: &[u8],
        look: impl Fn(Place<'_>) -> Option<T>,
    ) -> Option<T> {
        let hash = index::hash_of(self.seed, member);
        index::scores_of(index.link(), hash).find_map(|score| look(place(score, member)))
    }

    /// Rank and score of a member, by a search of all leaves.
    fn search(&self, member: &[u8]) -> Option<(u64, f64)> {
        if self.scores.is_leaf() {
            let (index, score) = place_in_leaf(self.scores, member)?;
            return Some((index as u64, score));
        }
        let mut cursor = Cursor::descend(self.scores.link(), |_| 0);
        let mut rank = 0;
        loop {
            let leaf = cursor.leaf();
            if let Some((index, score)) = place_in_leaf(leaf, member) {
                return Some((rank + index as u64, score));
            }
            rank += leaf.len() as u64;
            if !cursor.advance() {
                return None;
            }
        }
    }

    /// Rank and score of a member.
    #[must_use]
    pub fn rank(&self, member: &[u8]) -> Option<(u64, f64)> {
        let Some(index) = self.index else { return self.search(member) };
        self.find_hinted(index, member, |place| self.rank_at(place))
    }

    /// As [`rank`](SortedSet::rank); in less time if the score is `hint`.
    #[must_use]
    #[inline]
    pub fn rank_near(&self, member: &[u8], hint: Option<f64>) -> Option<(u64, f64)> {
        let hinted = hint.and_then(|score| self.rank_at(place(score, member)));
        hinted.or_else(|| self.rank(member))
    }

    /// Rank and score of the member at a place.
    fn rank_at(&self, place: Place<'_>) -> Option<(u64, f64)> {
        let spot = sorted::spot_of::<Scores>(self.scores.link(), place);
        let found = spot.found.ok()?;
        Some((spot.before + found as u64, item(spot.leaf, found).score))
    }

    /// Number of members whose score is less than `score`.
    #[must_use]
    pub fn count_below(&self, score: f64) -> u64 {
        locate::<Scores>(self.scores.link(), place(score, &[])).rank
    }

    /// Number of members whose score is at most `score`.
    #[must_use]
    pub fn count_up_to(&self, score: f64) -> u64 {
        let behind = Place::first_of(score::sortable(score) + 1);
        locate::<Scores>(self.scores.link(), behind).rank
    }

    /// Number of members before `member` in the order of bytes; for sets whose scores are equal.
    ///
    /// Members of different scores are in no order; some number of them is returned then.
    #[must_use]
    pub fn members_below(&self, member: &[u8]) -> u64 {
        self.count_members(member, |found, bound| found < bound)
    }

    /// Number of members before `member` and it itself, as [`SortedSet::members_below`].
    #[must_use]
    pub fn members_up_to(&self, member: &[u8]) -> u64 {
        self.count_members(member, |found, bound| found <= bound)
    }

    fn count_members(&self, bound: &[u8], is_before: fn(&[u8], &[u8]) -> bool) -> u64 {
        let score = |rank| self.nth(rank).map(|item| item.score);
        if let (Some(first), last) = (score(0), score(self.len() - 1))
            && Some(first) == last
        {
            let found = locate::<Scores>(self.scores.link(), place(first, bound));
            let includes_bound = found.is_present && is_before(bound, bound);
            return found.rank + u64::from(includes_bound);
        }
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = low + (high - low) / 2;
            if self.nth(middle).is_some_and(|item| is_before(item.member, bound)) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }

    /// Member of a rank, in logarithmic time.
    #[must_use]
    pub fn nth(&self, rank: u64) -> Option<Item<'g>> {
        let (leaf, within) = leaf_at(self.scores.link(), rank);
        let within = usize::try_from(within).ok()?;
        (within < leaf.len()).then(|| item(leaf, within))
    }

    /// All members, by ascending rank.
    #[must_use]
    pub fn iter(&self) -> Items<'g> {
        self.iter_from(0)
    }

    /// Members from a rank on, ascending. In logarithmic time, then constant per member.
    #[must_use]
    pub fn iter_from(&self, rank: u64) -> Items<'g> {
        let (cursor, within) = Cursor::at_position(self.scores.link(), rank.min(self.len()));
        Items { cursor, next: within as usize }
    }

    /// Members from a place on, ascending.
    fn iter_at(&self, place: Place<'_>) -> Items<'g> {
        let root = self.scores.link();
        let cursor = Cursor::descend(root, |node| sorted::find_child::<Scores>(node, place));
        let next = sorted::search::<Scores>(cursor.leaf(), place).unwrap_or_else(|index| index);
        Items { cursor, next }
    }

    /// Members from a rank on, descending; a rank behind the end means the last.
    #[must_use]
    pub fn iter_back_from(&self, rank: u64) -> ItemsBack<'g> {
        let last = self.len() - 1;
        let (cursor, within) = Cursor::at_position(self.scores.link(), rank.min(last));
        ItemsBack { cursor, left: within as usize + 1 }
    }

    /// Visits at least `count` members from a cursor on, if there are as many, and returns the
    /// cursor to go on from; zero begins and ends.
    ///
    /// A member that is there from the first call to the last is visited, whatever happens to the
    /// others and to its score meanwhile. The order is that of hashes; members are found by their
    /// scores, so that a page reads every member of a score that one of its own has.
    ///
    /// # Errors
    ///
    /// When there is no memory for the scores of a page; no member is visited.
    pub fn scan(
        &self,
        cursor: u64,
        count: usize,
        mut visit: impl FnMut(Item<'g>),
    ) -> Result<u64, TryReserveError> {
        let Some(index) = self.index else {
            self.iter().for_each(visit);
            return Ok(0);
        };
        let (mut scores, next) = self.scan_index(index, cursor, count)?;
        scores.sort_unstable_by(f64::total_cmp);
        // Minus zero and zero are one run.
        scores.dedup_by(|right, left| right == left);
        let is_in_page = |member: &[u8]| {
            let hash = u64::from(index::hash_of(self.seed, member));
            hash >= cursor && (next == 0 || hash < next)
        };
        for score in scores {
            let run = self.iter_at(place(score, &[]));
            let run = run.take_while(|item| item.score == score);
            run.filter(|item| is_in_page(item.member)).for_each(&mut visit);
        }
        Ok(next)
    }

    /// Scores of the members of a page, and the cursor behind it.
    fn scan_index(
        &self,
        index: Node<'g>,
        from: u64,
        count: usize,
    ) -> Result<(Vec<f64>, u64), TryReserveError> {
        let first = Place::first_of(from);
        let start = locate::<Hashes>(index.link(), first).rank;
        let (mut cursor, mut within) = Cursor::at_position(index.link(), start);
        let (mut scores, mut end, mut last) = (Vec::new(), from, None);
        loop {
            if within as usize >= cursor.leaf().len() {
                if !cursor.advance() {
                    return Ok((scores, 0));
                }
                within = 0;
            }
            let hint = index::read(cursor.leaf(), within as usize);
            let hash = u64::from(hint.hash);
            // Members of one hash are visited together.
            if scores.len() >= count.max(1) && hash >= end && last != Some(hash) {
                return Ok((scores, hash));
            }
            let is_new = scores.last().is_none_or(|&last| last != hint.score);
            if is_new && end == from {
                let run = self.count_up_to(hint.score) - self.count_below(hint.score);
                if run > LONG_RUN {
                    end = from + (1 << 32) / SCAN_PARTS;
                }
            }
            scores.try_reserve(1)?;
            scores.push(hint.score);
            last = Some(hash);
            within += 1;
        }
    }
}

/// Index and score of a member in a leaf that is searched from its start. Ends of members, where
/// they differ most, are compared first.
#[inline]
fn place_in_leaf(leaf: Node<'_>, member: &[u8]) -> Option<(usize, f64)> {
    let is_it = |element: &[u8]| {
        element.len().checked_sub(member.len()).is_some_and(|score_bytes| {
            same(&element[score_bytes..], member) && score_bytes == score::stored_bytes(element[0])
        })
    };
    let index = if let Some(last) = member.last_chunk::<8>() {
        leaf.position_ending_with(last, is_it)
    } else if let Some(last) = member.last_chunk::<4>() {
        leaf.position_ending_with(last, is_it)
    } else {
        leaf.elements().position(is_it)
    }?;
    Some((index, score::decode(leaf.element(index)).0))
}

/// Score tree and index under a root.
pub(super) fn parts_of(root: Node<'_>) -> (Link, Option<Link>) {
    if !composite::is_composite(root) {
        return (root.link(), None);
    }
    let scores = composite::part(root, SCORES).expect("a sorted set has scores");
    (scores.link, composite::part(root, INDEX).map(|part| part.link))
}

/// Members of a sorted set, ascending.
#[derive(Clone, Debug)]
pub struct Items<'g> {
    cursor: Cursor<'g>,
    next: usize,
}

impl<'g> Iterator for Items<'g> {
    type Item = Item<'g>;

    #[inline]
    fn next(&mut self) -> Option<Item<'g>> {
        if self.next >= self.cursor.leaf().len() {
            if !self.cursor.advance() {
                return None;
            }
            self.next = 0;
        }
        self.next += 1;
        Some(item(self.cursor.leaf(), self.next - 1))
    }
}

/// Members of a sorted set, descending.
#[derive(Clone, Debug)]
pub struct ItemsBack<'g> {
    cursor: Cursor<'g>,
    left: usize,
}

impl<'g> Iterator for ItemsBack<'g> {
    type Item = Item<'g>;

    #[inline]
    fn next(&mut self) -> Option<Item<'g>> {
        if self.left == 0 {
            if !self.cursor.retreat() {
                return None;
            }
            self.left = self.cursor.leaf().len();
        }
        self.left -= 1;
        Some(item(self.cursor.leaf(), self.left))
    }
}

// SAFETY: no other type is of this kind; views and edits read what edits built.
unsafe impl Collection for SortedSet<'_> {
    const KIND: Kind = Kind::SortedSet;

    type View<'g> = SortedSet<'g>;

    type Edit<'h> = SortedSetEdit<'h>;

    unsafe fn view<'g>(root: Root, seed: &'g Seed, section: Section<'g>) -> SortedSet<'g> {
        // SAFETY: the caller's promise.
        unsafe { SortedSet::from_root(root, seed, section) }
    }

    unsafe fn edit<'h>(root: Option<Root>, seed: &'h Seed, heap: &'h Heap) -> SortedSetEdit<'h> {
        // SAFETY: the caller's promise.
        unsafe { SortedSetEdit::new(root, seed, heap) }
    }
}
