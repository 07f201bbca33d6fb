//! Updates: from a changed leaf up to a new root.
//!
//! Every change of a tree is the same step, repeated upwards: one child of an inner node is
//! replaced by none, one or a few. On the way nodes with too few children are merged with a
//! neighbour and nodes with too many are split.

use smallvec::SmallVec;

use super::arena::{Arena, LeafPlace};
use super::inner;
use super::limits::{CHILD_COUNT_MAX, CHILD_COUNT_MIN};
use super::node::{Child, Expiries, Link, Node, Totals};
use super::order::{Order, measure, sums};
use super::separator::Separator;

/// Inner node on the path, and the child that was taken.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    node: Link,
    index: usize,
}

/// TreePath from a root to a leaf.
#[derive(Debug)]
pub(crate) struct TreePath {
    steps: SmallVec<[Step; 4]>,
    /// Sums of the leaf before anything was changed: a fresh leaf changes in place.
    before: Totals,
}

impl Default for TreePath {
    /// Path to a root that is a leaf.
    fn default() -> TreePath {
        TreePath { steps: SmallVec::new(), before: Totals::OF_NOTHING }
    }
}

/// Indices of the children on a path, of up to as many levels as memory has room for.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PathIndices {
    indices: [u8; PATH_LENGTH_MAX],
    len: u8,
}

/// Longest path with [`PathIndices`].
const PATH_LENGTH_MAX: usize = 7;

const _: () = assert!(CHILD_COUNT_MAX <= u8::MAX as usize);

/// Nodes that replace a child, each with its bound; that of the first is ignored.
pub(crate) type Pieces<K = u64> = SmallVec<[(Link, K); 3]>;

/// One node that replaces a child.
#[inline]
pub(crate) fn only_piece<K: Separator>(node: Link) -> Pieces<K> {
    // Cheaper than a collected iterator.
    let mut pieces = Pieces::new();
    pieces.push((node, K::of_key(0)));
    pieces
}

impl TreePath {
    /// Descends from `root`, `choose` returning the index of the child to take; returns the leaf
    /// with the path to it.
    pub(crate) fn descend<O: Order>(
        root: Link,
        mut choose: impl FnMut(Node<'_>) -> usize,
    ) -> (TreePath, Link) {
        let mut path = TreePath::default();
        let mut link = root;
        while !link.node().is_leaf() {
            let index = choose(link.node());
            let child = link.node().children()[index].link();
            child.prefetch();
            path.steps.push(Step { node: link, index });
            link = child;
        }
        path.before = sums::<O>(link.node());
        (path, link)
    }

    /// Path of some indices.
    pub(super) fn along<O: Order>(root: Link, path: PathIndices) -> TreePath {
        let mut indices = path.indices[..usize::from(path.len)].iter();
        let next = |_: Node<'_>| indices.next().copied().map_or(0, usize::from);
        TreePath::descend::<O>(root, next).0
    }

    /// Indices of the path, unless it is longer than any tree in memory.
    fn indices(&self) -> Option<PathIndices> {
        let mut path = PathIndices { len: self.steps.len() as u8, ..PathIndices::default() };
        let places = path.indices.get_mut(..self.steps.len())?;
        places.iter_mut().zip(&self.steps).for_each(|(place, step)| *place = step.index as u8);
        Some(path)
    }

    /// Number of leaves that one replacement may add behind the path's: those for which the node
    /// above has room, or as many as make a full neighbour of a full one.
    pub(crate) fn room_behind(&self) -> usize {
        let children = self.steps.last().map_or(1, |step| step.node.node().len());
        match CHILD_COUNT_MAX.saturating_sub(children) {
            0 => CHILD_COUNT_MAX,
            room => room,
        }
    }

    /// Place of the first bound behind the leaf: an inner node and the index of the child that the
    /// bound belongs to; none for the last leaf.
    pub(super) fn bound_behind(&self) -> Option<(Link, usize)> {
        let is_inside = |step: &&Step| step.index + 1 < step.node.node().len();
        let step = self.steps.iter().rev().find(is_inside)?;
        Some((step.node, step.index + 1))
    }

    /// True if no leaf is before the one that the path leads to.
    pub(super) fn is_first(&self) -> bool {
        self.steps.iter().all(|step| step.index == 0)
    }

    /// Lower bound of the leaf's range; zero for the first leaf.
    pub(crate) fn key(&self) -> u64 {
        let step = self.steps.iter().rev().find(|step| step.index > 0);
        step.map_or(0, |step| step.node.node().children()[step.index].key)
    }

    /// As [`TreePath::replace`] in the tree of `root`; but if one leaf takes the place of another
    /// with the same sums, and the edit has done nothing else, the copies above are deferred.
    #[inline]
    pub(crate) fn replace_or_defer<O: Order>(
        &self,
        arena: &mut Arena,
        (root, old): (Link, Link),
        pieces: Pieces<O::Key>,
    ) -> Option<Link> {
        if let (Some(step), [(new, _)]) = (self.steps.last(), pieces.as_slice())
            && may_be_deferred::<O>(arena, (old, *new), self.before)
            && let Some(indices) = self.indices()
        {
            let place = LeafPlace { parent: step.node, index: step.index };
            arena.defer(place, (old, *new), (root, indices));
            return Some(root);
        }
        self.replace::<O>(arena, pieces)
    }

    /// Replaces the leaf that the path leads to by `pieces`, and returns the new root.
    ///
    /// The caller discards the leaf itself, or uses it as one of the pieces.
    pub(crate) fn replace<O: Order>(
        &self,
        arena: &mut Arena,
        pieces: Pieces<O::Key>,
    ) -> Option<Link> {
        match pieces.as_slice() {
            [(leaf, _)] => Some(self.replace_by_leaf::<O>(arena, *leaf)),
            _ => replace_above::<O>(arena, &self.steps, self.before, pieces),
        }
    }

    /// As [`TreePath::replace`], of one leaf.
    pub(crate) fn replace_by_leaf<O: Order>(&self, arena: &mut Arena, leaf: Link) -> Link {
        let (mut steps, mut before, mut only) = (self.steps.as_slice(), self.before, leaf);
        if let Some(change) = before.change_to(sums::<O>(leaf.node())) {
            while let [above @ .., step] = steps
                && !is_underfull::<O>(only.node())
            {
                only = inner::change_child(arena, step.node, (step.index, only), change);
                steps = above;
            }
            if steps.is_empty() {
                return only;
            }
            before = sums::<O>(only.node()).before(change);
        }
        replace_above::<O>(arena, steps, before, only_piece(only)).expect("a leaf makes a tree")
    }
}

/// Replaces the child that some steps lead to, whose sums were `before`, by `pieces`, and returns
/// the new root.
fn replace_above<O: Order>(
    arena: &mut Arena,
    steps: &[Step],
    mut before: Totals,
    mut pieces: Pieces<O::Key>,
) -> Option<Link> {
    for &step in steps.iter().rev() {
        let node_before = sums::<O>(step.node.node());
        pieces = replace_child::<O>(arena, (step, before), &pieces);
        before = node_before;
    }
    root_of::<O>(arena, &pieces)
}

/// True if an edit has only replaced the leaf `old`, whose sums were `before`, by one that nothing
/// above it can tell from that.
pub(crate) fn may_be_deferred<O: Order>(
    arena: &Arena,
    (old, new): (Link, Link),
    before: Totals,
) -> bool {
    arena.has_only_replaced(old, new)
        && sums::<O>(new.node()) == before
        // Otherwise it may have to be merged with a neighbour.
        && (!O::is_underfull(new.node()) || O::is_underfull(old.node()))
}

/// Root of the nodes that replace the old one; at most as many as a node holds.
pub(crate) fn root_of<O: Order>(arena: &mut Arena, pieces: &[(Link, O::Key)]) -> Option<Link> {
    let mut root = match pieces {
        [] => return None,
        [(only, _)] => *only,
        _ => new_root::<O>(arena, pieces),
    };
    while !root.node().is_leaf() && root.node().len() == 1 {
        let only = root.node().children()[0].link();
        arena.discard(root);
        root = only;
    }
    Some(root)
}

fn new_root<O: Order>(arena: &mut Arena, pieces: &[(Link, O::Key)]) -> Link {
    let level = pieces[0].0.header().level + 1;
    let children: SmallVec<[Child<O::Key>; 3]> = pieces.iter().map(child_of::<O>).collect();
    let mut root = inner::build(arena, level, &children);
    sum_up::<O>(root);
    for index in (0..children.len()).rev() {
        root = join_underfull::<O>(arena, root, index);
    }
    root
}

pub(super) fn child_of<O: Order>(&(link, key): &(Link, O::Key)) -> Child<O::Key> {
    Child { link, measure: measure::<O>(link.node()), key }
}

/// Replaces one child, whose sums were `before`, and returns the nodes that replace its parent.
fn replace_child<O: Order>(
    arena: &mut Arena,
    (step, before): (Step, Totals),
    pieces: &Pieces<O::Key>,
) -> Pieces<O::Key> {
    let mut children: SmallVec<[Child<O::Key>; 3]> = pieces.iter().map(child_of::<O>).collect();
    if let Some(first) = children.first_mut() {
        first.key = O::Key::read(step.node.node(), step.index);
    }
    let sums = children.iter().map(|child| sums::<O>(child.link.node())).reduce(Totals::and);
    let totals = totals_after((step, before), sums);
    let mut node = inner::splice(arena, step.node, step.index, 1, &children);
    match totals {
        Some(totals) => inner::set_totals(node, totals),
        None => sum_up::<O>(node),
    }
    for index in (step.index..step.index + children.len()).rev() {
        node = join_underfull::<O>(arena, node, index);
    }
    if children.is_empty() && node.node().len() > 1 {
        // Neighbours that the removed child separated may now fit together.
        node = join_underfull::<O>(arena, node, step.index.saturating_sub(1));
    }
    match node.node().len() {
        0 => {
            arena.discard(node);
            Pieces::new()
        }
        len if len > CHILD_COUNT_MAX => split::<O>(arena, node, step.index),
        _ => only_piece(node),
    }
}

fn split<O: Order>(arena: &mut Arena, node: Link, at: usize) -> Pieces<O::Key> {
    let (left, right, bound) = inner::split::<O::Key>(arena, node, at);
    sum_up::<O>(left);
    sum_up::<O>(right);
    Pieces::from_iter([(left, O::Key::of_key(0)), (right, bound)])
}

/// Sums of the parent after its child, whose sums were `before`, was replaced by some with the sums
/// `new`, or taken out; without a look at the other children.
///
/// None if the child that expires first or last may be gone: then only all children together tell.
fn totals_after((step, before): (Step, Totals), new: Option<Totals>) -> Option<Totals> {
    let mut totals = step.node.node().totals();
    totals.measure -= before.measure;
    totals.bytes -= before.bytes;
    let is_out = new.is_none();
    let new = new.unwrap_or(Totals::OF_NOTHING);
    totals.measure += new.measure;
    totals.bytes += new.bytes;
    let (before, after) = (before.expiries, new.expiries);
    let first_is_gone = before.first == totals.expiries.first && after.first > before.first;
    // If nothing expires, the rest does not expire either when a child goes.
    let nothing_expires = is_out && totals.expiries == Expiries::NONE;
    let last_is_gone =
        before.last == totals.expiries.last && after.last < before.last && !nothing_expires;
    if first_is_gone || last_is_gone {
        return None;
    }
    totals.expiries = totals.expiries.and(after);
    Some(totals)
}

/// Sets the sums of a fresh inner node from its children.
pub(crate) fn sum_up<O: Order>(link: Link) {
    let children = link.node().children().iter();
    let sums = children.map(|child| sums::<O>(child.link().node()));
    inner::set_totals(link, sums.fold(Totals::OF_NOTHING, Totals::and));
}

/// Merges the child at `index` with its neighbours for as long as it is underfull and they fit into
/// one node.
pub(super) fn join_underfull<O: Order>(
    arena: &mut Arena,
    mut node: Link,
    mut index: usize,
) -> Link {
    loop {
        let children = node.node().children();
        if index >= children.len() || !is_underfull::<O>(children[index].link().node()) {
            return node;
        }
        if index + 1 < children.len()
            && let Some(joined) = join::<O>(arena, node, index)
        {
            node = joined;
            continue;
        }
        if index == 0 {
            return node;
        }
        let Some(joined) = join::<O>(arena, node, index - 1) else { return node };
        node = joined;
        index -= 1;
    }
}

pub(crate) fn is_underfull<O: Order>(node: Node<'_>) -> bool {
    if node.is_leaf() { O::is_underfull(node) } else { node.len() < CHILD_COUNT_MIN }
}

/// Merges the children at `index` and `index + 1` of a fresh node, if one node can hold both.
fn join<O: Order>(arena: &mut Arena, node: Link, index: usize) -> Option<Link> {
    let children = node.node().children();
    let (left, right) = (children[index].child(), children[index + 1].child());
    let bytes_before = left.link.node().bytes() + right.link.node().bytes();
    let merged = if left.link.node().is_leaf() {
        O::merge(arena, left.link, right.link)?
    } else {
        if left.link.node().len() + right.link.node().len() > CHILD_COUNT_MAX {
            return None;
        }
        let seam = left.link.node().len() - 1;
        let right = inner::child::<O::Key>(node.node(), index + 1);
        let merged = inner::merge(arena, left.link, &right);
        sum_up::<O>(merged);
        // Two underfull nodes of different parents may be neighbours now.
        join_underfull::<O>(arena, merged, seam)
    };
    let sums = sums::<O>(merged.node());
    let key = O::Key::read(node.node(), index);
    let child = Child { link: merged, measure: sums.measure, key };
    let totals = node.node().totals();
    let node = inner::splice(arena, node, index, 2, &[child]);
    inner::set_totals(node, Totals { bytes: totals.bytes - bytes_before + sums.bytes, ..totals });
    Some(node)
}
