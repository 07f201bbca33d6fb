//! Lists: elements by position, cheap at both ends.
//!
//! A list of one leaf is that leaf. A longer one has a small root with two or three children: the
//! first leaf, the tree of all leaves between, the last leaf.
//!
//! ```text
//!          composite root
//!           /     |      \
//!       first   middle    last        pushes and pops copy one end leaf and the root
//!       leaf    tree      leaf        a full end leaf moves into the tree as it is
//! ```
//!
//! A push therefore costs one leaf and a hundred bytes whatever the length, instead of a path; and
//! leaves enter the tree full.

use std::marker::PhantomData;

use crate::member::Section;
use smallvec::SmallVec;

use super::collection::{Collection, TreeEdit};
use super::gathered::Gathered;
use super::kind::Kind;
use crate::hash::Seed;
use crate::heap::Heap;
use crate::tree::arena::{Arena, LeafPlace};
use crate::tree::check::check_tree;
use crate::tree::composite;
use crate::tree::cursor::{Cursor, leaf_at};
use crate::tree::cut::cut;
use crate::tree::inner;
use crate::tree::leaf::{self, LeafPlan, Parts};
use crate::tree::limits::{LEAF_BYTES_MIN, NODE_BYTES_MAX};
use crate::tree::node::{Child, Expiries, Link, Node, StoredChild, Totals, flags};
use crate::tree::order::{Order, sums};
use crate::tree::split::{Bias, split};
use crate::tree::update::{PathIndices, Pieces, TreePath, may_be_deferred, only_piece};
use crate::tree::{Built, BuiltLeaf, Root};

/// Order of elements by position.
struct Positions;

impl Order for Positions {
    type Key = u64;
}

fn length(link: Link) -> u64 {
    sums::<Positions>(link.node()).measure
}

/// Allocated bytes of a part.
fn bytes(link: Link) -> u64 {
    link.node().bytes()
}

/// A part as a child of the root.
fn child(link: Link) -> Child {
    Child { link, measure: length(link), key: 0 }
}

/// A part that is not a single leaf, and its children.
fn inner_part<'n>(part: Option<Child>) -> Option<(Link, &'n [StoredChild])> {
    let link = part?.link;
    (!link.node().is_leaf()).then(|| (link, link.node().children()))
}

/// One version of a list, for as long as `'g`.
#[derive(Clone, Copy, Debug)]
pub struct List<'g> {
    root: Node<'g>,
}

impl<'g> List<'g> {
    /// List under a root.
    ///
    /// # Safety
    ///
    /// `root` came from a [`ListEdit`], and was reachable for readers at some moment of the
    /// section's lifetime `'g`, or is not yet published and not dropped for as long.
    #[must_use]
    pub unsafe fn from_root(root: Root, _section: Section<'g>) -> List<'g> {
        List { root: root.link().node() }
    }

    /// Number of elements; never zero.
    #[must_use]
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> u64 {
        length(self.root.link())
    }

    /// Allocated bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.root.bytes()
    }

    /// Asserts the invariants of the tree, in time linear in the length. For tests.
    #[doc(hidden)]
    pub fn check(&self) {
        let check_part = |part: Link| check_tree::<Positions>(part, &mut |_, _, _| {});
        if self.root.is_leaf() {
            check_part(self.root.link());
            return;
        }
        composite::check(self.root, |_, part| check_part(part));
        let children = self.root.children();
        assert!(matches!(children.len(), 2 | 3));
        assert!(children[0].link().node().is_leaf());
        assert!(children[children.len() - 1].link().node().is_leaf());
        assert_eq!(self.len(), children.iter().map(|child| child.measure).sum::<u64>());
    }

    /// Element at `index`, counted from the front.
    #[must_use]
    pub fn get(&self, index: u64) -> Option<&'g [u8]> {
        let (leaf, within) = leaf_at(self.root.link(), index);
        let within = usize::try_from(within).ok()?;
        (within < leaf.len()).then(|| leaf.element(within))
    }

    /// Elements from `index` on, towards the back. In logarithmic time, then constant per element.
    #[must_use]
    pub fn iter_from(&self, index: u64) -> Elements<'g> {
        let (cursor, within) = Cursor::at_position(self.root.link(), index.min(self.len()));
        let next = within as usize;
        Elements { start: cursor.leaf().start(next), cursor, next }
    }

    /// All elements from front to back.
    #[must_use]
    pub fn iter(&self) -> Elements<'g> {
        self.iter_from(0)
    }

    /// Elements from `index` on, towards the front; an index behind the end means the last.
    #[must_use]
    pub fn iter_back_from(&self, index: u64) -> ElementsBack<'g> {
        let last = self.len() - 1;
        let (cursor, within) = Cursor::at_position(self.root.link(), index.min(last));
        ElementsBack { cursor, left: within as usize + 1 }
    }

    /// Elements of positions `start..end`; positions behind the end are left out.
    pub fn range(&self, start: u64, end: u64) -> impl Iterator<Item = &'g [u8]> + use<'g> {
        self.iter_from(start).take(usize::try_from(end.saturating_sub(start)).unwrap_or(usize::MAX))
    }
}

/// Elements of a list towards the back.
#[derive(Clone, Debug)]
pub struct Elements<'g> {
    cursor: Cursor<'g>,
    /// Index of the next element in the leaf, and where it begins.
    next: usize,
    start: usize,
}

impl<'g> Iterator for Elements<'g> {
    type Item = &'g [u8];

    #[inline]
    fn next(&mut self) -> Option<&'g [u8]> {
        if self.next >= self.cursor.leaf().len() {
            if !self.cursor.advance() {
                return None;
            }
            (self.next, self.start) = (0, 0);
        }
        let element = self.cursor.leaf().element_from(self.start, self.next);
        self.next += 1;
        self.start += element.len();
        Some(element)
    }
}

/// Elements of a list towards the front.
#[derive(Clone, Debug)]
pub struct ElementsBack<'g> {
    cursor: Cursor<'g>,
    left: usize,
}

impl<'g> Iterator for ElementsBack<'g> {
    type Item = &'g [u8];

    #[inline]
    fn next(&mut self) -> Option<&'g [u8]> {
        if self.left == 0 {
            if !self.cursor.retreat() {
                return None;
            }
            self.left = self.cursor.leaf().len();
        }
        self.left -= 1;
        Some(self.cursor.leaf().element(self.left))
    }
}

/// One of the three parts of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    First,
    Middle,
    Last,
}

/// Elements that wait to be added to a list together.
#[derive(Clone, Debug, Default)]
pub struct GatheredElements {
    elements: Gathered,
}

impl GatheredElements {
    /// Adds an element.
    pub fn push(&mut self, element: &[u8]) {
        self.elements.push(&[element]);
    }

    /// The elements.
    #[must_use]
    pub fn elements(&self) -> &Gathered {
        &self.elements
    }
}

/// Next version of a list, under construction.
///
/// Between calls: `last` is there unless the list is empty, and `first` is there if `middle` is.
#[derive(Debug)]
pub struct ListEdit<'h> {
    arena: Arena,
    heap: &'h Heap,
    /// Published root with the two ends, until the first change makes it part of the old version.
    ends: Option<Link>,
    first: Option<Child>,
    middle: Option<Child>,
    last: Option<Child>,
    /// Allocated bytes of the three parts; none once leaves moved from one to another. Kept so that
    /// a change of one end does not look at the other parts, which are in no cache.
    bytes: Option<u64>,
    changed: bool,
    /// Part with a leaf whose change is deferred.
    deferred: Option<Part>,
    // Not `Send`: an edit belongs to the thread whose heap it counts in.
    marker: PhantomData<*const ()>,
}

impl<'h> ListEdit<'h> {
    /// A new, empty list.
    #[must_use]
    pub fn create(heap: &'h Heap) -> ListEdit<'h> {
        ListEdit {
            arena: Arena::default(),
            heap,
            ends: None,
            first: None,
            middle: None,
            last: None,
            bytes: Some(0),
            changed: false,
            deferred: None,
            marker: PhantomData,
        }
    }

    /// Next version of the list under `root`; of an empty one, if there is none.
    ///
    /// # Safety
    ///
    /// `root` came from a `ListEdit`, is the current version of its key, and no other code edits or
    /// retires it until this edit and the tree it built are gone.
    #[must_use]
    pub unsafe fn new(root: Option<Root>, heap: &'h Heap) -> ListEdit<'h> {
        let mut edit = ListEdit::create(heap);
        edit.arena = Arena::from(root);
        let Some(root) = root.map(Root::link) else { return edit };
        if root.node().is_leaf() {
            edit.last = Some(child(root));
            edit.bytes = Some(root.node().bytes());
            return edit;
        }
        debug_assert!(composite::is_composite(root.node()));
        let children = root.node().children();
        edit.ends = Some(root);
        edit.first = Some(children[0].child());
        edit.middle = (children.len() == 3).then(|| children[1].child());
        edit.last = children.last().map(StoredChild::child);
        edit.bytes = Some(root.node().totals().bytes);
        edit
    }

    /// Number of elements.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.part_len(Part::First) + self.part_len(Part::Middle) + self.part_len(Part::Last)
    }

    /// Allocated bytes of the list as edited so far, without the root of a list with two ends.
    #[must_use]
    pub fn allocated_bytes(&self) -> u64 {
        let parts = [self.first, self.middle, self.last].into_iter().flatten();
        self.bytes.unwrap_or_else(|| parts.map(|part| bytes(part.link)).sum())
    }

    /// True if no element is left.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.last.is_none()
    }

    /// Element at `index` as edited so far.
    #[must_use]
    pub fn get(&mut self, index: u64) -> Option<&[u8]> {
        self.settle();
        let (part, within) = self.locate(index)?;
        let (leaf, within) = leaf_at(self.part(part)?.link, within);
        Some(leaf.element(within as usize))
    }

    /// All elements from front to back as edited so far.
    pub fn iter(&mut self) -> impl Iterator<Item = &[u8]> {
        self.settle();
        [self.first, self.middle, self.last].into_iter().flatten().flat_map(|part| {
            let (cursor, _) = Cursor::at_position(part.link, 0);
            Elements { cursor, next: 0, start: 0 }
        })
    }

    /// Adds an element at the front.
    pub fn push_front(&mut self, element: &[u8]) {
        let part = if self.first.is_some() { Part::First } else { Part::Last };
        self.splice(part, 0, 0, Some(element));
    }

    /// Adds an element at the back.
    pub fn push_back(&mut self, element: &[u8]) {
        self.splice(Part::Last, self.part_len(Part::Last), 0, Some(element));
    }

    /// Adds elements at the back in full leaves, each of which is written once, and takes them out
    /// of those that wait: all, or all but those of a leaf that more may join.
    pub fn append(&mut self, waiting: &mut GatheredElements, all: bool) {
        self.settle();
        let mut done = 0;
        while done < waiting.elements.len() {
            let rest = waiting.elements.iter_from(done);
            let count = leaf::fitting_count(flags::LENGTHS, rest.clone());
            if !all && done + count == waiting.elements.len() {
                break;
            }
            let elements = rest.take(count);
            let leaf = leaf::of_elements(&mut self.arena, flags::LENGTHS, elements);
            self.add_last(leaf.expect("as many as fit"));
            done += count;
        }
        waiting.elements.drop_first(done);
    }

    /// Adds a leaf behind the last one.
    fn add_last(&mut self, leaf: Link) {
        (self.changed, self.bytes) = (true, None);
        match self.last.replace(child(leaf)) {
            None => {}
            Some(last) if self.first.is_none() => self.first = Some(last),
            Some(last) => self.attach(End::Back, last.link),
        }
    }

    /// Removes the first element; its bytes can be read before, or from the old version. False if
    /// there is none.
    pub fn pop_front(&mut self) -> bool {
        self.remove(0)
    }

    /// Removes the last element, as [`ListEdit::pop_front`] does the first.
    pub fn pop_back(&mut self) -> bool {
        !self.is_empty() && self.remove(self.len() - 1)
    }

    /// Replaces the element at `index`. False if there is none.
    pub fn set(&mut self, index: u64, element: &[u8]) -> bool {
        let Some((part, within)) = self.locate(index) else { return false };
        self.splice(part, within, 1, Some(element));
        true
    }

    /// Inserts an element before the one at `index`; at the back if `index` is the length. False
    /// beyond.
    pub fn insert(&mut self, index: u64, element: &[u8]) -> bool {
        if index == self.len() {
            self.push_back(element);
            return true;
        }
        let Some((part, within)) = self.locate(index) else { return false };
        self.splice(part, within, 0, Some(element));
        true
    }

    /// Removes the element at `index`. False if there is none.
    pub fn remove(&mut self, index: u64) -> bool {
        let Some((part, within)) = self.locate(index) else { return false };
        self.splice(part, within, 1, None);
        true
    }

    /// Removes the elements of positions `start..end`. The time does not depend on their number.
    pub fn remove_range(&mut self, start: u64, end: u64) {
        let mut left = end.min(self.len()).saturating_sub(start);
        while left > 0 {
            let Some((part, within)) = self.locate(start) else { return };
            if part == Part::Middle {
                let count = left.min(self.part_len(Part::Middle) - within);
                self.cut_middle(within, within + count);
                left -= count;
                continue;
            }
            let Some(root) = self.part(part) else { return };
            let (leaf, in_leaf) = leaf_at(root.link, within);
            let count = left.min(leaf.len() as u64 - in_leaf);
            self.splice(part, within, count as usize, None);
            left -= count;
        }
    }

    /// Ends the edit.
    pub fn finish(mut self) -> Built<'h> {
        self.settle();
        if !self.changed {
            let root = self.ends.or(self.last.map(|last| last.link));
            return self.arena.finish(root, self.heap);
        }
        if let Some(ends) = self.ends {
            self.arena.discard(ends);
        }
        let children: SmallVec<[Child; 3]> =
            [self.first, self.middle, self.last].into_iter().flatten().collect();
        let root = match children.as_slice() {
            [] => None,
            [only] => Some(only.link),
            children => {
                let totals = match self.bytes {
                    Some(bytes) => {
                        let measure = children.iter().map(|child| child.measure).sum();
                        Totals { measure, bytes, expiries: Expiries::NONE }
                    }
                    None => children
                        .iter()
                        .map(|child| sums::<Positions>(child.link.node()))
                        .fold(Totals::OF_NOTHING, Totals::and),
                };
                Some(composite::build(&mut self.arena, children, totals, &[]))
            }
        };
        self.arena.finish(root, self.heap)
    }

    fn part(&self, part: Part) -> Option<Child> {
        match part {
            Part::First => self.first,
            Part::Middle => self.middle,
            Part::Last => self.last,
        }
    }

    fn part_mut(&mut self, part: Part) -> &mut Option<Child> {
        match part {
            Part::First => &mut self.first,
            Part::Middle => &mut self.middle,
            Part::Last => &mut self.last,
        }
    }

    fn part_len(&self, part: Part) -> u64 {
        self.part(part).map_or(0, |child| child.measure)
    }

    /// Part that holds the element at `index`, and the position within.
    fn locate(&self, mut index: u64) -> Option<(Part, u64)> {
        for part in [Part::First, Part::Middle, Part::Last] {
            let len = self.part_len(part);
            if index < len {
                return Some((part, index));
            }
            index -= len;
        }
        None
    }

    fn cut_middle(&mut self, start: u64, end: u64) {
        self.settle();
        self.changed = true;
        self.bytes = None;
        if let Some(middle) = self.middle.take() {
            let rest = cut::<Positions>(&mut self.arena, middle.link, start, end);
            self.middle = rest.map(child);
        }
        self.restore();
        self.join_ends();
    }

    /// Replaces `removed` elements of one leaf, from a position of a part on, by at most one.
    fn splice(&mut self, part: Part, position: u64, removed: usize, inserted: Option<&[u8]>) {
        self.settle();
        let pieces = inserted.map(|element| [element]);
        let inserted = pieces.as_ref().map(|pieces| pieces.as_slice());
        let old = self.part(part).map(|old| old.link);
        let bytes_before = old.map_or(0, bytes);
        let new = match old {
            Some(root) => splice_at(&mut self.arena, root, position, removed, inserted),
            None => inserted.map(|parts| leaf::single(&mut self.arena, flags::LENGTHS, parts)),
        };
        if self.defers(part, old, new) {
            self.deferred = Some(part);
            return;
        }
        self.changed = true;
        self.bytes = self.bytes.map(|all| all - bytes_before + new.map_or(0, bytes));
        let new = new.map(child);
        match part {
            Part::First => {
                self.first = new;
                self.move_split_first();
            }
            Part::Middle => self.middle = new,
            Part::Last => {
                self.last = new;
                self.move_split_last();
            }
        }
        self.restore();
        // An end that only grew has not become small.
        if removed > 0 {
            self.join_ends();
        }
    }

    /// True if the copies above a changed leaf are deferred, those of the root with the ends
    /// included.
    fn defers(&mut self, part: Part, old: Option<Link>, new: Option<Link>) -> bool {
        if let (Some(parent), Some(old), Some(new)) = (self.ends, old, new)
            && !self.changed
            && old.node().is_leaf()
            && may_be_deferred::<Positions>(&self.arena, (old, new), sums::<Positions>(old.node()))
        {
            let last = parent.node().len() - 1;
            let index = match part {
                Part::First => 0,
                Part::Middle => 1,
                Part::Last => last,
            };
            let place = LeafPlace { parent, index };
            self.arena.defer(place, (old, new), (old, PathIndices::default()));
        }
        self.arena.defers()
    }

    /// Makes the copies that were deferred.
    #[inline]
    fn settle(&mut self) {
        if let Some(part) = self.deferred.take() {
            self.settle_part(part);
        }
    }

    fn settle_part(&mut self, part: Part) {
        self.changed = true;
        let bytes_before = self.part(part).map_or(0, |old| bytes(old.link));
        let new = self.arena.settle::<Positions>();
        self.bytes = self.bytes.map(|all| all - bytes_before + new.map_or(0, bytes));
        *self.part_mut(part) = new.map(child);
    }

    /// Gives the list its ends again after a change: takes a missing end out of the middle.
    fn restore(&mut self) {
        if self.last.is_none() {
            self.last = match self.middle.take() {
                Some(middle) => Some(self.detach(middle, End::Back)),
                None => self.first.take(),
            };
        }
        if self.first.is_none()
            && let Some(middle) = self.middle.take()
        {
            self.first = Some(self.detach(middle, End::Front));
        }
    }

    /// Moves all but the last leaf of a split last part into the middle.
    fn move_split_last(&mut self) {
        let Some((root, leaves)) = inner_part(self.last) else { return };
        let (last, others) = leaves.split_last().expect("an inner node has children");
        self.last = Some(last.child());
        others.iter().for_each(|leaf| self.attach(End::Back, leaf.link()));
        self.arena.discard(root);
    }

    /// Moves all but the first leaf of a split first part into the middle.
    fn move_split_first(&mut self) {
        let Some((root, leaves)) = inner_part(self.first) else { return };
        let (first, others) = leaves.split_first().expect("an inner node has children");
        self.first = Some(first.child());
        others.iter().rev().for_each(|leaf| self.attach(End::Front, leaf.link()));
        self.arena.discard(root);
    }

    /// Adds a leaf at an end of the middle.
    fn attach(&mut self, end: End, leaf: Link) {
        self.bytes = None;
        let middle = self.middle.map(|middle| middle.link);
        self.middle = Some(child(attach(&mut self.arena, middle, end, leaf)));
    }

    /// Takes the leaf at an end of `middle` out of it; the rest becomes the middle.
    fn detach(&mut self, middle: Child, end: End) -> Child {
        self.bytes = None;
        let (path, leaf) = descend_to(middle.link, end);
        self.middle = path.replace::<Positions>(&mut self.arena, Pieces::new()).map(child);
        child(leaf)
    }

    /// Merges two small leaves into one.
    ///
    /// Only below half a node, so that pushes and pops around one full leaf do not merge and split
    /// it each time.
    fn join_ends(&mut self) {
        let (Some(first), None, Some(last)) = (self.first, self.middle, self.last) else { return };
        let (first, last) = (first.link, last.link);
        let (first_bytes, last_bytes) =
            (leaf::used_bytes(first.node()), leaf::used_bytes(last.node()));
        if first_bytes + last_bytes <= NODE_BYTES_MAX / 2
            && first_bytes.min(last_bytes) < LEAF_BYTES_MIN
            && let Some(joined) = leaf::merge(&mut self.arena, first, last)
        {
            self.first = None;
            self.last = Some(child(joined));
            self.bytes = None;
        }
    }
}

// SAFETY: no other type is of this kind; views and edits read what edits built.
unsafe impl Collection for List<'_> {
    const KIND: Kind = Kind::List;

    type View<'g> = List<'g>;

    type Edit<'h> = ListEdit<'h>;

    unsafe fn view<'g>(root: Root, _seed: &'g Seed, section: Section<'g>) -> List<'g> {
        // SAFETY: the caller's promise.
        unsafe { List::from_root(root, section) }
    }

    unsafe fn edit<'h>(root: Option<Root>, _seed: &'h Seed, heap: &'h Heap) -> ListEdit<'h> {
        // SAFETY: the caller's promise.
        unsafe { ListEdit::new(root, heap) }
    }
}

impl<'h> TreeEdit<'h> for ListEdit<'h> {
    fn base(&self) -> Option<Root> {
        self.arena.base()
    }

    fn finish(self) -> Built<'h> {
        self.finish()
    }

    fn finish_leaf(&mut self) -> Option<BuiltLeaf<'h>> {
        self.deferred = None;
        self.arena.finish_leaf(self.heap)
    }
}

/// Replaces elements of the leaf at `position` of a plain tree, and returns the new root.
fn splice_at(
    arena: &mut Arena,
    root: Link,
    position: u64,
    removed: usize,
    inserted: Option<Parts<'_>>,
) -> Option<Link> {
    let mut within = position;
    let (path, link) = TreePath::descend::<Positions>(root, |node| {
        let (index, rest) = inner::find_position(node, within);
        within = rest;
        index
    });
    let plan = LeafPlan { leaf: link.node(), at: within as usize, removed, inserted };
    let pieces = if plan.len() == 0 {
        arena.discard(link);
        Pieces::new()
    } else if plan.fits() {
        only_piece(plan.splice(arena))
    } else {
        let bias = match plan.at {
            at if at + 1 == plan.len() => Bias::Append,
            0 => Bias::Prepend,
            _ => Bias::Middle,
        };
        let pieces = split(arena, &plan, bias, 0, |index, _| index as u64);
        arena.discard(link);
        pieces
    };
    path.replace_or_defer::<Positions>(arena, (root, link), pieces)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Front,
    Back,
}

fn descend_to(root: Link, end: End) -> (TreePath, Link) {
    TreePath::descend::<Positions>(root, |node| match end {
        End::Front => 0,
        End::Back => node.len() - 1,
    })
}

/// Adds a leaf at an end of a tree, and returns the new root.
fn attach(arena: &mut Arena, root: Option<Link>, end: End, leaf: Link) -> Link {
    let Some(root) = root else { return leaf };
    let (path, edge) = descend_to(root, end);
    let pieces = match end {
        End::Front => [(leaf, 0), (edge, 0)],
        End::Back => [(edge, 0), (leaf, 0)],
    };
    path.replace::<Positions>(arena, Pieces::from_iter(pieces)).expect("two leaves make a tree")
}
