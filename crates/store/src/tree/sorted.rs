//! Trees whose leaves are sorted as well: search, rank, single changes.
//!
//! Elements are ordered by their [`Place`] and each is there once, so that a leaf is searched in
//! halves and may be split between any two elements. A tree whose bounds are plain numbers
//! (`Key = u64`) may hold several elements of one number, but never parts them.

use std::cmp::Ordering;
use std::hint::select_unpredictable;
use std::ops::Range;

use super::arena::Arena;
use super::inner;
use super::leaf::{self, LeafPlan, Parts};
use super::node::{ByIndex, Link, Node, Started, flags};
use super::order::Order;
use super::separator::{Place, Separator, StoredTie, compare, stored_tie};
use super::split::{Bias, split};
use super::update::{Pieces, TreePath, only_piece};

/// Order whose leaves are sorted.
pub(crate) trait Sorted: Order {
    /// End of the heads that are in the order of their elements. The head of an element is the
    /// first four bytes from its start on, as a big-endian number.
    const ORDERED_HEADS_END: u32 = 0;

    /// Lowest and highest ordered head of elements with the number of a place; none if they have no
    /// such heads.
    #[inline]
    fn heads_of(_place: Place<'_>) -> Option<(u32, u32)> {
        None
    }

    /// Place of an element; without a tie if bounds are plain numbers.
    fn place_of(element: &[u8]) -> Place<'_>;

    /// Place of element `index` of a leaf.
    #[inline]
    fn place(leaf: Node<'_>, index: usize) -> Place<'_> {
        Self::place_of(leaf.element(index))
    }
}

/// Result of [`locate`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Located {
    /// Number of elements before the place.
    pub(crate) rank: u64,
    /// True if there is an element at the place.
    pub(crate) is_present: bool,
}

/// Result of [`spot_of`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spot<'g> {
    /// Leaf that holds the place, or would hold it.
    pub(crate) leaf: Node<'g>,
    /// Number of elements before the leaf.
    pub(crate) before: u64,
    /// As [`search`].
    pub(crate) found: Result<usize, usize>,
}

/// Finds a place from the root, and counts the elements before it.
pub(crate) fn locate<S: Sorted>(root: Link, place: Place<'_>) -> Located {
    let Spot { before, found, .. } = spot_of::<S>(root, place);
    let index = found.unwrap_or_else(|index| index);
    Located { rank: before + index as u64, is_present: found.is_ok() }
}

/// As [`locate`], with the leaf.
pub(crate) fn spot_of<'g, S: Sorted>(root: Link, place: Place<'_>) -> Spot<'g> {
    let (mut node, mut before): (Node<'g>, u64) = (root.node(), 0);
    while !node.is_leaf() {
        let index = find_child::<S>(node, place);
        let children = node.children();
        children[index].link().prefetch();
        before += children[..index].iter().map(|child| child.measure).sum::<u64>();
        node = children[index].link().node();
    }
    Spot { leaf: node, before, found: search::<S>(node, place) }
}

/// Leaf that holds a place, or would hold it.
pub(crate) fn leaf_of<'g, S: Sorted>(root: Link, place: Place<'_>) -> Node<'g> {
    let mut node = root.node();
    while !node.is_leaf() {
        node = child_of::<S>(node, place);
    }
    node
}

/// Child of an inner node that holds a place, or would hold it, prefetched.
#[inline]
fn child_of<'g, S: Sorted>(node: Node<'g>, place: Place<'_>) -> Node<'g> {
    let child = node.children()[find_child::<S>(node, place)].link();
    child.prefetch();
    child.node()
}

/// Index of the element at a place of a leaf, or of the first one behind it.
pub(crate) fn search<S: Sorted>(leaf: Node<'_>, place: Place<'_>) -> Result<usize, usize> {
    let len = leaf.len();
    // Each has a loop of its own, without a look at the kind of table.
    match leaf.by_index() {
        ByIndex::Strided(elements) => search_among::<S>(0..len, |index| elements.get(index), place),
        ByIndex::Started(elements) => S::heads_of(place)
            .and_then(|heads| search_heads::<S>(elements, heads, place))
            .unwrap_or_else(|| search_among::<S>(0..len, |index| elements.get(index), place)),
        ByIndex::Other(leaf) => search_among::<S>(0..len, |index| leaf.element(index), place),
    }
}

/// As [`search`], by the heads of the elements; none where those do not tell.
#[inline]
fn search_heads<S: Sorted>(
    elements: Started<'_>,
    (lowest, highest): (u32, u32),
    place: Place<'_>,
) -> Option<Result<usize, usize>> {
    let (mut low, mut rest, mut seen) = (0, elements.len(), 0);
    while rest > 1 {
        let half = rest / 2;
        let head = elements.head(low + half - 1)?;
        seen = head.max(seen);
        // A conditional move: which half it is cannot be predicted.
        low = select_unpredictable(head < lowest, low + half, low);
        rest -= half;
    }
    let head = elements.head(low)?;
    if head.max(seen) >= S::ORDERED_HEADS_END {
        return None;
    }
    if head < lowest {
        return Some(Err(low + 1));
    } else if head > highest {
        return Some(Err(low));
    }
    // Elements of the number begin here.
    match S::place_of(elements.get(low)).cmp(&place) {
        Ordering::Less => {
            let others = low + 1..elements.len();
            Some(search_among::<S>(others, |index| elements.get(index), place))
        }
        Ordering::Equal => Some(Ok(low)),
        Ordering::Greater => Some(Err(low)),
    }
}

#[inline]
fn search_among<'e, S: Sorted>(
    indices: Range<usize>,
    element: impl Fn(usize) -> &'e [u8],
    place: Place<'_>,
) -> Result<usize, usize> {
    let end = indices.end;
    let index = partition(indices, |index| S::place_of(element(index)) < place);
    let is_present = index < end && S::place_of(element(index)) == place;
    if is_present { Ok(index) } else { Err(index) }
}

/// As [`partition`] of the indices below `len`, in few steps if the answer is near `guess`, which
/// is one of them.
#[inline]
pub(crate) fn partition_near(len: usize, guess: usize, is_before: impl Fn(usize) -> bool) -> usize {
    let (mut low, mut high, mut step) = (0, len, 1);
    if is_before(guess) {
        low = guess + 1;
        while low + step <= len {
            if !is_before(low + step - 1) {
                high = low + step - 1;
                break;
            }
            low += step;
            step *= 2;
        }
    } else {
        high = guess;
        while step <= high {
            if is_before(high - step) {
                low = high - step + 1;
                break;
            }
            high -= step;
            step *= 2;
        }
    }
    partition(low..high, is_before)
}

/// First index of a range for which `is_before` does not hold, as it holds for a part at the front.
pub(crate) fn partition(range: Range<usize>, is_before: impl Fn(usize) -> bool) -> usize {
    let (mut low, mut high) = (range.start, range.end);
    while low < high {
        let middle = low + (high - low) / 2;
        if is_before(middle) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    low
}

/// Index of the child whose range holds a place.
#[inline]
pub(crate) fn find_child<S: Sorted>(node: Node<'_>, place: Place<'_>) -> usize {
    if !S::Key::TIED || !node.has(flags::TIES) {
        return inner::find_key(node, place.key);
    }
    partition(1..node.children().len(), |index| is_bound_within::<S>(node, index, place)) - 1
}

/// True if a place is not below the bound of child `index`, which is not the first.
#[inline]
pub(super) fn is_bound_within<S: Sorted>(node: Node<'_>, index: usize, place: Place<'_>) -> bool {
    let key = node.children()[index].key;
    if !S::Key::TIED || key != place.key || !node.has(flags::TIES) {
        return key <= place.key;
    }
    has_tie_within::<S>(node, index, place)
}

/// As [`is_bound_within`], of a bound with the number of the place, in a node with ties.
#[inline]
fn has_tie_within<S: Sorted>(node: Node<'_>, index: usize, place: Place<'_>) -> bool {
    match stored_tie(node, index) {
        StoredTie::Bytes(tie) => compare(tie, place.tie).is_le(),
        StoredTie::FirstBelow => first_below::<S>(node.children()[index].link()) <= place,
    }
}

/// Place of the first element below a node.
fn first_below<'a, S: Sorted>(link: Link) -> Place<'a> {
    let mut node = link.node();
    while !node.is_leaf() {
        node = node.children()[0].link().node();
    }
    S::place(node, 0)
}

/// Descends to the leaf that holds a place, or would hold it.
pub(crate) fn descend<S: Sorted>(root: Link, place: Place<'_>) -> (TreePath, Link) {
    TreePath::descend::<S>(root, |node| find_child::<S>(node, place))
}

/// Inserts an element of a place, or replaces the one that is there. True if it is new.
///
/// A tree without elements gets a leaf with the flags `special`.
pub(crate) fn put<S: Sorted>(
    arena: &mut Arena,
    root: &mut Option<Link>,
    special: u8,
    place: Place<'_>,
    element: Parts<'_>,
) -> bool {
    put_over::<S, ()>(arena, root, special, (place, element), |_| ()).is_none()
}

/// As [`put`]; what `read` makes of the element that is replaced, if there is one.
pub(crate) fn put_over<S: Sorted, T>(
    arena: &mut Arena,
    root: &mut Option<Link>,
    special: u8,
    (place, element): (Place<'_>, Parts<'_>),
    read: impl FnOnce(&[u8]) -> T,
) -> Option<T> {
    let Some(link) = *root else {
        *root = Some(leaf::single(arena, special, element));
        return None;
    };
    let (path, leaf) = descend::<S>(link, place);
    let found = search::<S>(leaf.node(), place);
    let (at, removed) = found.map_or_else(|at| (at, 0), |at| (at, 1));
    let old = found.ok().map(|at| read(leaf.node().element(at)));
    let plan = LeafPlan { leaf: leaf.node(), at, removed, inserted: Some(element) };
    *root = carry_out::<S>(arena, &path, &plan, place);
    old
}

/// Element of a tree, with the path to it.
#[derive(Debug)]
pub(crate) struct FoundElement {
    path: TreePath,
    leaf: Link,
    at: usize,
}

impl FoundElement {
    /// Leaf of the element and its index there.
    pub(crate) fn leaf_and_index<'n>(&self) -> (Node<'n>, usize) {
        (self.leaf.node(), self.at)
    }

    /// Index that an element of another place would have in the leaf in the stead of this one; none
    /// if it may belong to a neighbour of the leaf.
    fn index_for<S: Sorted>(&self, place: Place<'_>) -> Option<usize> {
        let (leaf, at) = (self.leaf.node(), self.at);
        let behind = partition_near(leaf.len(), at, |index| S::place(leaf, index) < place);
        let is_within = match behind {
            // All of the leaf is before the place, or nothing is: only the path tells then.
            0 => self.path.is_first(),
            _ => behind < leaf.len() || self.path.bound_behind().is_none(),
        };
        is_within.then(|| if behind > at { behind - 1 } else { behind })
    }

    /// Replaces the element, whose tree was not changed since, by one of another place, which no
    /// other has, and returns the new root.
    pub(crate) fn replace<S: Sorted>(
        &self,
        arena: &mut Arena,
        place: Place<'_>,
        element: Parts<'_>,
    ) -> Option<Link> {
        let (leaf, at) = (self.leaf.node(), self.at);
        match self.index_for::<S>(place) {
            Some(index) if leaf::can_move(leaf, at, index, element) => {
                let moved = leaf::move_element(arena, self.leaf, at, index, element);
                Some(self.path.replace_by_leaf::<S>(arena, moved))
            }
            Some(index) if index == at => {
                let plan = LeafPlan { leaf, at, removed: 1, inserted: Some(element) };
                carry_out::<S>(arena, &self.path, &plan, place)
            }
            _ => {
                // Something is left: of one leaf, the path tells that all places are in it.
                let mut root = self.remove::<S>(arena);
                put::<S>(arena, &mut root, 0, place, element);
                root
            }
        }
    }

    /// Removes the element, whose tree was not changed since, and returns the new root.
    pub(crate) fn remove<S: Sorted>(&self, arena: &mut Arena) -> Option<Link> {
        let plan = LeafPlan { leaf: self.leaf.node(), at: self.at, removed: 1, inserted: None };
        // Without an insertion, the place of one is not asked for.
        carry_out::<S>(arena, &self.path, &plan, Place::first_of(0))
    }
}

/// Finds the element of a place, to be removed.
pub(crate) fn find<S: Sorted>(root: Link, place: Place<'_>) -> Option<FoundElement> {
    let (path, leaf) = descend::<S>(root, place);
    let at = search::<S>(leaf.node(), place).ok()?;
    Some(FoundElement { path, leaf, at })
}

/// Removes the element of a place. False if there is none.
pub(crate) fn remove<S: Sorted>(
    arena: &mut Arena,
    root: &mut Option<Link>,
    place: Place<'_>,
) -> bool {
    let Some(found) = root.and_then(|root| find::<S>(root, place)) else { return false };
    *root = found.remove::<S>(arena);
    true
}

/// Carries out the change of a leaf that a path leads to, and returns the new root. `place` is that
/// of the inserted element.
pub(crate) fn carry_out<S: Sorted>(
    arena: &mut Arena,
    path: &TreePath,
    plan: &LeafPlan<'_>,
    place: Place<'_>,
) -> Option<Link> {
    let len = plan.len();
    // A leaf that is too large without an insertion holds elements that cannot be parted.
    if len > 0 && (plan.inserted.is_none() || plan.fits()) {
        let leaf = plan.splice(arena);
        return Some(path.replace_by_leaf::<S>(arena, leaf));
    }
    let pieces = if len == 0 { Pieces::new() } else { split_leaf::<S>(arena, plan, place) };
    arena.discard(plan.leaf.link());
    path.replace::<S>(arena, pieces)
}

/// Splits a leaf that would be too large.
fn split_leaf<S: Sorted>(
    arena: &mut Arena,
    plan: &LeafPlan<'_>,
    place: Place<'_>,
) -> Pieces<S::Key> {
    let bias = match plan.at {
        at if at + 1 == plan.len() => Bias::Append,
        0 => Bias::Prepend,
        _ => Bias::Middle,
    };
    let pieces = if S::Key::TIED {
        split(arena, plan, bias, 0, |index, _| index as u64)
    } else {
        split(arena, plan, bias, 0, |index, _| match plan.source(index) {
            Some(index) => S::place(plan.leaf, index).key,
            None => place.key,
        })
    };
    let mut bounded = only_piece(pieces[0].0);
    for pair in pieces.windows(2) {
        let (left, right) = (pair[0].0.node(), pair[1].0.node());
        bounded.push((pair[1].0, bound_between::<S>(left, right)));
    }
    bounded
}

/// Bound between two leaves that follow each other.
pub(crate) fn bound_between<S: Sorted>(left: Node<'_>, right: Node<'_>) -> S::Key {
    S::Key::between(S::place(left, left.len() - 1), S::place(right, 0))
}

/// Asserts that the elements of a finished tree are sorted and that a search finds each of them.
/// In addition to [`check_tree`](super::check::check_tree). For tests.
///
/// # Panics
///
/// When it is not so.
pub(crate) fn check_sorted<S: Sorted>(root: Link) {
    let mut last: Option<Place<'_>> = None;
    check_below::<S>(root.node(), &mut last);
}

fn check_below<'n, S: Sorted>(node: Node<'n>, last: &mut Option<Place<'n>>) {
    if node.is_leaf() {
        assert!(
            node.len() == 1
                || leaf::used_bytes(node) <= super::limits::NODE_BYTES_MAX
                || !S::Key::TIED,
            "a leaf of several elements is small"
        );
        for index in 0..node.len() {
            let place = S::place(node, index);
            let is_sorted = last.is_none_or(|last| last < place || !S::Key::TIED && last == place);
            assert!(is_sorted, "elements are sorted");
            *last = Some(place);
        }
        return;
    }
    for (index, child) in node.children().iter().enumerate() {
        if index > 0 {
            let left = last.expect("the children before hold elements");
            let right = first_below::<S>(child.link());
            assert!(find_child::<S>(node, left) < index, "a bound is above all before it");
            assert!(find_child::<S>(node, right) >= index, "a bound is not above its child");
        }
        check_below::<S>(child.link().node(), last);
    }
}
