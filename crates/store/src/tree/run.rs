//! Runs: changes of many elements with one descent for each leaf.
//!
//! A single change descends from the root to a leaf, changes the leaf, and brings the sums of all
//! nodes above up to date. The elements of one command often follow each other: entries that are
//! delivered to a consumer, ids that are acknowledged. Therefore a leaf that a run has come to
//! stays open for as long as the next element belongs to it: elements between the same neighbours
//! are put in, and neighbours taken out, as one, and what lies above is changed once, when the leaf
//! is closed.
//!
//! An open leaf is part of an unfinished edit. While it is open, the nodes above it link what was
//! there before and perhaps is no more, so that nothing may look at the tree: a function of this
//! module closes every leaf that it opened before it returns. Publication is that of any edit, one
//! link for all.
//!
//! Elements in any order are changed rightly: a place that is not behind the last one, or is not
//! below the next leaf's bound, ends the run and is searched from the root.

use super::arena::Arena;
use super::leaf::{self, LeafPlan, Parts};
use super::node::{Link, Node};
use super::separator::Place;
use super::sorted::{self, Sorted, carry_out, is_bound_within};
use super::update::{Pieces, TreePath};

/// Element of a run: what its owner has, and what it has itself, end to end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RunElement<'a> {
    pub(crate) place: Place<'a>,
    pub(crate) parts: [&'a [u8]; 2],
}

impl<'a> AsRef<[&'a [u8]]> for RunElement<'a> {
    fn as_ref(&self) -> &[&'a [u8]] {
        &self.parts
    }
}

/// Leaf with the path to it, where the nodes above are as they were before the leaf was changed.
struct OpenLeaf {
    path: TreePath,
    leaf: Link,
    /// Inner node and index of the child with the first bound behind the leaf, if there is one.
    bound_behind: Option<(Link, usize)>,
    is_changed: bool,
}

impl OpenLeaf {
    fn at<S: Sorted>(root: Link, place: Place<'_>) -> OpenLeaf {
        let (path, leaf) = sorted::descend::<S>(root, place);
        let bound_behind = path.bound_behind();
        OpenLeaf { path, leaf, bound_behind, is_changed: false }
    }

    /// True if the leaf holds `next`, or would hold it, as it does `last`.
    fn goes_on<S: Sorted>(&self, last: Place<'_>, next: Place<'_>) -> bool {
        let is_below =
            |(node, index): (Link, usize)| !is_bound_within::<S>(node.node(), index, next);
        last < next && self.bound_behind.is_none_or(is_below)
    }

    fn change(&mut self, leaf: Link) {
        self.leaf = leaf;
        self.is_changed = true;
    }

    /// Changes what lies above, and returns the root: `root`, if the leaf is unchanged.
    fn close<S: Sorted>(self, arena: &mut Arena, root: Link) -> Link {
        if !self.is_changed {
            return root;
        }
        self.path.replace_by_leaf::<S>(arena, self.leaf)
    }
}

/// Elements of a run that a leaf takes as one, in the place of some that it has.
struct Stretch {
    at: usize,
    removed: usize,
    inserted: usize,
}

impl Stretch {
    /// Longest stretch from the first element of a run on that fits into the leaf; of none, if not
    /// even the first does.
    fn of<S: Sorted>(open: &OpenLeaf, run: &[RunElement<'_>]) -> Stretch {
        let leaf = open.leaf.node();
        let at = sorted::search::<S>(leaf, run[0].place).unwrap_or_else(|at| at);
        let mut stretch = Stretch { at, removed: 0, inserted: 0 };
        let mut used = leaf.header().used as usize;
        for (index, element) in run.iter().enumerate() {
            if index > 0 && !open.goes_on::<S>(run[index - 1].place, element.place) {
                break;
            }
            let end = at + stretch.removed;
            let order = match end < leaf.len() {
                true => S::place(leaf, end).cmp(&element.place),
                false => std::cmp::Ordering::Greater,
            };
            if order.is_lt() {
                break;
            }
            let replaced = usize::from(order.is_eq());
            let bytes = leaf::parts_bytes(&element.parts);
            used = used + bytes - if order.is_eq() { leaf.element(end).len() } else { 0 };
            let len = leaf.len() - stretch.removed - replaced + stretch.inserted + 1;
            if !leaf::has_room(leaf, bytes, used, len) {
                break;
            }
            stretch.removed += replaced;
            stretch.inserted += 1;
        }
        stretch
    }
}

/// Puts the elements of a run, each as [`sorted::put`] does; `read` is told the elements that they
/// replace, with the indices in the run of those that do.
///
/// The elements must not lie in a node of the tree.
pub(crate) fn put_run<S: Sorted>(
    arena: &mut Arena,
    root: &mut Option<Link>,
    special: u8,
    run: &[RunElement<'_>],
    mut read: impl FnMut(usize, &[u8]),
) {
    let mut done = 0;
    while let Some(first) = run.get(done) {
        let Some(link) = *root else {
            *root = Some(leaf::single(arena, special, &first.parts));
            done += 1;
            continue;
        };
        let mut open = OpenLeaf::at::<S>(link, first.place);
        let opened_at = done;
        *root = loop {
            let is_due = run.get(done).is_some_and(|next| {
                done == opened_at || open.goes_on::<S>(run[done - 1].place, next.place)
            });
            if !is_due {
                break Some(open.close::<S>(arena, link));
            }
            let rest = &run[done..];
            match put_stretch::<S>(arena, &mut open, rest, |index, old| read(done + index, old)) {
                0 => {
                    done += 1;
                    break put_alone::<S>(arena, open, &rest[0], |old| read(done - 1, old));
                }
                count => done += count,
            }
        };
    }
}

/// Puts as many elements of a run as an open leaf takes as one, and returns their number.
fn put_stretch<S: Sorted>(
    arena: &mut Arena,
    open: &mut OpenLeaf,
    run: &[RunElement<'_>],
    mut read: impl FnMut(usize, &[u8]),
) -> usize {
    let Stretch { at, removed, inserted } = Stretch::of::<S>(open, run);
    if inserted == 0 {
        return 0;
    }
    let leaf = open.leaf.node();
    let mut end = at;
    for (index, element) in run[..inserted].iter().enumerate() {
        if end < at + removed && S::place(leaf, end) == element.place {
            read(index, leaf.element(end));
            end += 1;
        }
    }
    let spliced = leaf::splice_all(arena, open.leaf, at, removed, &run[..inserted]);
    open.change(spliced.expect("a leaf with room keeps its kind of table"));
    inserted
}

/// Puts one element into an open leaf, which is split if it has no room, and closes it.
fn put_alone<S: Sorted>(
    arena: &mut Arena,
    open: OpenLeaf,
    element: &RunElement<'_>,
    read: impl FnOnce(&[u8]),
) -> Option<Link> {
    let leaf = open.leaf.node();
    let found = sorted::search::<S>(leaf, element.place);
    let (at, removed) = found.map_or_else(|at| (at, 0), |at| (at, 1));
    if removed == 1 {
        read(leaf.element(at));
    }
    let parts: Parts<'_> = &element.parts;
    let plan = LeafPlan { leaf, at, removed, inserted: Some(parts) };
    carry_out::<S>(arena, &open.path, &plan, element.place)
}

/// Removes the elements of the places that are there; `read` is told each with the index of its
/// place.
///
/// The places must not lie in a node of the tree.
pub(crate) fn remove_run<S: Sorted>(
    arena: &mut Arena,
    root: &mut Option<Link>,
    places: &[Place<'_>],
    mut read: impl FnMut(usize, &[u8]),
) {
    let mut done = 0;
    while let (Some(link), Some(&first)) = (*root, places.get(done)) {
        let mut open = OpenLeaf::at::<S>(link, first);
        let opened_at = done;
        *root = loop {
            let is_due = places.get(done).is_some_and(|&next| {
                done == opened_at || open.goes_on::<S>(places[done - 1], next)
            });
            if !is_due {
                break Some(open.close::<S>(arena, link));
            }
            let leaf = open.leaf.node();
            let (at, count) = find_stretch::<S>(leaf, &places[done..]);
            (0..count).for_each(|index| read(done + index, leaf.element(at + index)));
            // A place without an element is done as well.
            done += count.max(1);
            if count == leaf.len() {
                arena.discard(open.leaf);
                break open.path.replace::<S>(arena, Pieces::new());
            }
            if count > 0 {
                let leaf = leaf::splice(arena, open.leaf, at, count, None);
                open.change(leaf);
            }
        };
    }
}

/// Index and number of the elements of a leaf that follow each other as the first places do; of
/// none, if there is none of the first place.
fn find_stretch<S: Sorted>(leaf: Node<'_>, places: &[Place<'_>]) -> (usize, usize) {
    let Ok(at) = sorted::search::<S>(leaf, places[0]) else { return (0, 0) };
    let is_next = |&(index, place): &(usize, &Place<'_>)| S::place(leaf, index) == *place;
    let elements = (at..leaf.len()).zip(places);
    (at, 1 + elements.skip(1).take_while(is_next).count())
}
