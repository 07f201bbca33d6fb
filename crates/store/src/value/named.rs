//! Elements with names, each name once: what hashes and sets have in common.
//!
//! A collection of one leaf keeps its elements where its type puts them. A longer one is ordered
//! from leaf to leaf by a key that is computed from the name, so that a name leads to one leaf;
//! where it is in that leaf is the type's again. No key is stored with an element.

use std::marker::PhantomData;

use crate::hash::{Seed, hash};
use crate::heap::Heap;
use crate::tree::arena::Arena;
use crate::tree::cursor::{Cursor, leaf_at, leaf_of};
use crate::tree::inner;
use crate::tree::leaf::{LeafPlan, Parts, single};
use crate::tree::node::{Link, Node, flags};
use crate::tree::order::{Order, sums};
use crate::tree::split::{Bias, split};
use crate::tree::update::{Pieces, TreePath, only_piece};
use crate::tree::{Built, BuiltLeaf, Root};

/// Order of elements by the keys of their names.
pub(super) trait Named: Order<Key = u64> {
    /// Name of an element.
    type Name<'a>: Copy;

    /// Key of a name, in a collection of more than one leaf.
    fn key_of(seed: &Seed, name: Self::Name<'_>) -> u64;

    /// Name of an element of a leaf, or of one that is written into it: the element is given whole
    /// or in the parts in which it is written.
    fn name_of<'a>(leaf: Node<'_>, parts: Parts<'a>) -> Self::Name<'a>;

    /// Index of an element in a leaf, or the index at which a new one is to be inserted.
    fn find(leaf: Node<'_>, name: Self::Name<'_>) -> Result<usize, usize>;

    /// Part of a leaf that should stay full when an element inserted at `at` makes it too large.
    fn bias(_leaf: Node<'_>, _at: usize) -> Bias {
        Bias::Middle
    }

    /// Gives the fresh leaf that took an element its flags; `special` are those of the element.
    /// `is_part`: it is one of several in the place of a leaf that was too large.
    fn set_flags(leaf: Link, special: u8, is_part: bool);
}

/// Flags of a leaf of some elements, with those of its table.
pub(super) fn with_table(special: u8) -> u8 {
    if special & flags::FIXED == 0 { special | flags::LENGTHS } else { special }
}

/// Key of a name that is bytes: 63 bits of its hash. Keys are cursors of `HSCAN` and `SSCAN`, which
/// some clients keep as signed numbers.
#[inline]
pub(super) fn key_of_bytes(seed: &Seed, name: &[u8]) -> u64 {
    let key = hash(seed, name) >> 1;
    #[cfg(test)]
    let key = key & tests::KEY_MASK.get();
    key
}

/// Compares slices of equal length, `LENGTH` to twice that, from the end, where names differ most.
#[inline]
fn have_same_ends<const LENGTH: usize>(left: &[u8], right: &[u8]) -> bool {
    left.last_chunk::<LENGTH>() == right.last_chunk()
        && left.first_chunk::<LENGTH>() == right.first_chunk()
}

/// Compares slices of equal length, without a call or a loop for the lengths that most names have.
#[inline]
pub(super) fn same(left: &[u8], right: &[u8]) -> bool {
    debug_assert_eq!(left.len(), right.len());
    match left.len() {
        0 => true,
        1 => left.first() == right.first(),
        2..4 => have_same_ends::<2>(left, right),
        4..8 => have_same_ends::<4>(left, right),
        8..=16 => have_same_ends::<8>(left, right),
        _ => left.last_chunk::<8>() == right.last_chunk() && left == right,
    }
}

/// Name that is there twice: index of its second occurrence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repeated(pub usize);

/// Names up to whose number comparing each with each takes less time than sorting their keys.
const COMPARED_MAX: usize = 16;

/// Keys of some names, each with the index of its name, in ascending order.
///
/// # Errors
///
/// The first name that is there again.
pub(super) fn keyed<N: PartialEq>(
    count: usize,
    name: impl Fn(usize) -> N,
    key_of: impl Fn(N) -> u64,
) -> Result<Vec<(u64, usize)>, Repeated> {
    let mut keyed: Vec<(u64, usize)> =
        (0..count).map(|index| (key_of(name(index)), index)).collect();
    keyed.sort_unstable();
    let again = |(at, &(key, index)): (usize, &(u64, usize))| {
        let mut equal = keyed[at + 1..].iter().take_while(|&&(next, _)| next == key);
        equal.find(|&&(_, other)| name(index) == name(other)).map(|&(_, other)| other)
    };
    match keyed.iter().enumerate().filter_map(again).min() {
        Some(index) => Err(Repeated(index)),
        None => Ok(keyed),
    }
}

/// Looks whether each of some names is there once.
///
/// # Errors
///
/// As [`keyed`].
pub(super) fn check_distinct<N: PartialEq>(
    count: usize,
    name: impl Fn(usize) -> N,
    key_of: impl Fn(N) -> u64,
) -> Result<(), Repeated> {
    if count > COMPARED_MAX {
        return keyed(count, name, key_of).map(drop);
    }
    let is_again = |&index: &usize| (0..index).any(|before| name(before) == name(index));
    (0..count).find(is_again).map_or(Ok(()), |index| Err(Repeated(index)))
}

/// Element of a name.
#[inline]
pub(super) fn element_of<'g, N: Named>(
    root: Node<'g>,
    seed: &Seed,
    name: N::Name<'_>,
) -> Option<&'g [u8]> {
    let leaf = if root.is_leaf() { root } else { leaf_of(root.link(), N::key_of(seed, name)) };
    N::find(leaf, name).ok().map(|index| leaf.element(index))
}

/// Leaf with the element at a position, and its index there; in logarithmic time.
pub(super) fn nth(root: Node<'_>, index: u64) -> Option<(Node<'_>, usize)> {
    let (leaf, within) = leaf_at(root.link(), index);
    let within = usize::try_from(within).ok()?;
    (within < leaf.len()).then_some((leaf, within))
}

/// Visits at least `count` elements from a cursor on, and returns the cursor to go on from; zero
/// begins and ends.
///
/// Whole leaves are visited. An element that is there from the first call to the last is visited
/// whatever happens to the others meanwhile; an element may be visited twice.
pub(super) fn scan<'g>(
    root: Node<'g>,
    cursor: u64,
    count: usize,
    mut visit: impl FnMut(Node<'g>, &'g [u8]),
) -> u64 {
    let mut place = Cursor::descend(root.link(), |node| inner::find_key(node, cursor));
    let mut visited = 0;
    loop {
        let leaf = place.leaf();
        leaf.elements().for_each(|element| visit(leaf, element));
        visited += leaf.len();
        let Some(next) = place.next_key() else { return 0 };
        if visited >= count || !place.advance() {
            return next;
        }
    }
}

/// Elements of a collection, each once, with their leaves.
#[derive(Clone, Debug)]
pub(super) struct Elements<'g> {
    cursor: Cursor<'g>,
    /// Index of the next element in the leaf, and where it begins.
    next: usize,
    start: usize,
}

impl<'g> Elements<'g> {
    /// Elements from a position up to `len` on. In logarithmic time, then constant per element.
    pub(super) fn from(root: Node<'g>, index: u64) -> Elements<'g> {
        let (cursor, within) = Cursor::at_position(root.link(), index);
        let next = within as usize;
        Elements { start: cursor.leaf().start(next), cursor, next }
    }
}

impl<'g> Iterator for Elements<'g> {
    type Item = (Node<'g>, &'g [u8]);

    #[inline]
    fn next(&mut self) -> Option<(Node<'g>, &'g [u8])> {
        if self.next >= self.cursor.leaf().len() {
            if !self.cursor.advance() {
                return None;
            }
            (self.next, self.start) = (0, 0);
        }
        let leaf = self.cursor.leaf();
        let element = leaf.element_from(self.start, self.next);
        self.next += 1;
        self.start += element.len();
        Some((leaf, element))
    }
}

/// Leaf of a name in an edit, with the path to it.
#[derive(Debug)]
pub(super) struct Place {
    path: TreePath,
    link: Link,
    /// Index of the element, or where a new one is to be inserted.
    index: Result<usize, usize>,
}

impl Place {
    /// The element, if it is there.
    pub(super) fn element(&self) -> Option<&[u8]> {
        self.index.ok().map(|index| self.link.node().element(index))
    }

    /// True if the element is there.
    pub(super) fn is_taken(&self) -> bool {
        self.index.is_ok()
    }

    /// The leaf.
    pub(super) fn leaf(&self) -> Node<'_> {
        self.link.node()
    }
}

/// Next version of a collection, under construction.
#[derive(Debug)]
pub(super) struct NamedEdit<'h, N> {
    arena: Arena,
    heap: &'h Heap,
    seed: &'h Seed,
    root: Option<Link>,
    // Not `Send`: an edit belongs to the thread whose heap it counts in.
    marker: PhantomData<(*const (), N)>,
}

impl<'h, N: Named> NamedEdit<'h, N> {
    /// Next version of the collection under `root`; of an empty one, if there is none.
    ///
    /// # Safety
    ///
    /// `root` came from an edit of the same type with this seed, is the current version of its key,
    /// and no other code edits or retires it until this edit and the tree it built are gone.
    pub(super) unsafe fn new(
        root: Option<Root>,
        seed: &'h Seed,
        heap: &'h Heap,
    ) -> NamedEdit<'h, N> {
        let arena = Arena::from(root);
        NamedEdit { arena, heap, seed, root: root.map(Root::link), marker: PhantomData }
    }

    pub(super) fn base(&self) -> Option<Root> {
        self.arena.base()
    }

    pub(super) fn seed(&self) -> &'h Seed {
        self.seed
    }

    /// Root as edited so far; none if no element is left. Only its sums may be read unless the
    /// edit was settled.
    pub(super) fn root(&self) -> Option<Node<'_>> {
        self.root.map(Link::node)
    }

    /// Makes the copies that were deferred: from here on, the whole tree is as edited so far.
    #[inline]
    pub(super) fn settle(&mut self) {
        if self.arena.defers() {
            self.root = self.arena.settle::<N>();
        }
    }

    /// Number of elements.
    pub(super) fn len(&self) -> u64 {
        self.root().map_or(0, |root| sums::<N>(root).measure)
    }

    /// Place of a name; none in an empty collection.
    pub(super) fn place_of(&mut self, name: N::Name<'_>) -> Option<Place> {
        self.settle();
        let root = self.root?;
        let (path, link) = if root.node().is_leaf() {
            (TreePath::default(), root)
        } else {
            let key = N::key_of(self.seed, name);
            TreePath::descend::<N>(root, |node| inner::find_key(node, key))
        };
        Some(Place { path, link, index: N::find(link.node(), name) })
    }

    /// Writes an element at the place of its name, over the one that is there. `special` are flags
    /// that it gives its leaf.
    pub(super) fn write(&mut self, place: Option<Place>, special: u8, parts: Parts<'_>) {
        let Some(Place { path, link, index }) = place else {
            self.root = Some(single(&mut self.arena, with_table(special), parts));
            return;
        };
        let leaf = link.node();
        let (at, removed) = index.map_or_else(|at| (at, 0), |at| (at, 1));
        let plan = LeafPlan { leaf, at, removed, inserted: Some(parts) };
        let pieces = if plan.fits() {
            only_piece(plan.splice(&mut self.arena))
        } else {
            let seed = self.seed;
            let key_of = |_, parts: Parts<'_>| N::key_of(seed, N::name_of(leaf, parts));
            let bias = N::bias(leaf, at);
            let pieces = split(&mut self.arena, &plan, bias, path.key(), key_of);
            self.arena.discard(link);
            pieces
        };
        let is_part = pieces.len() > 1;
        pieces.iter().for_each(|&(piece, _)| N::set_flags(piece, special, is_part));
        let root = self.root.unwrap_or(link);
        self.root = path.replace_or_defer::<N>(&mut self.arena, (root, link), pieces);
    }

    /// Replaces the leaf of a place that lacks a name by leaves that have it: `reform` is given the
    /// leaf and the index for the new element, and discards the leaf unless it is one of them.
    pub(super) fn reform(
        &mut self,
        place: Place,
        reform: impl FnOnce(&mut Arena, Node<'_>, usize) -> Pieces,
    ) {
        let Place { path, link, index: Err(at) } = place else { return };
        let pieces = reform(&mut self.arena, link.node(), at);
        self.root = path.replace::<N>(&mut self.arena, pieces);
    }

    /// Root of an empty edit that is built as a whole, and the arena to build it with.
    pub(super) fn build(&mut self, build: impl FnOnce(&mut Arena) -> Option<Link>) {
        debug_assert!(self.root.is_none());
        self.root = build(&mut self.arena);
    }

    /// Removes the element at a place; false if there is none.
    pub(super) fn remove(&mut self, place: Place) -> bool {
        let Place { path, link, index: Ok(at) } = place else { return false };
        let plan = LeafPlan { leaf: link.node(), at, removed: 1, inserted: None };
        let pieces = if plan.len() == 0 {
            self.arena.discard(link);
            Pieces::new()
        } else {
            only_piece(plan.splice(&mut self.arena))
        };
        self.root = path.replace::<N>(&mut self.arena, pieces);
        true
    }

    /// Ends the edit.
    pub(super) fn finish(mut self) -> Built<'h> {
        self.settle();
        self.arena.finish(self.root, self.heap)
    }

    /// As [`TreeEdit::finish_leaf`](super::TreeEdit::finish_leaf).
    pub(super) fn finish_leaf(&mut self) -> Option<BuiltLeaf<'h>> {
        self.arena.finish_leaf(self.heap)
    }
}

#[cfg(test)]
pub(super) mod tests {
    //! Names whose hashes collide, which a test could not find by searching.

    use std::cell::Cell;

    thread_local! {
        /// Bits of a hash that take part.
        pub(in super::super) static KEY_MASK: Cell<u64> = const { Cell::new(u64::MAX) };
    }
}
