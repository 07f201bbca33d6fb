//! Changes of inner nodes.

use smallvec::SmallVec;

use super::arena::Arena;
use super::copy::copy_node;
use super::limits::{CACHED_LEVEL, CHILD_COUNT_MAX};
use super::node::{
    Child, HEADER_BYTES, Link, Node, NodeHeader, StoredChild, TOTALS_BYTES, Totals, TotalsChange,
    flags,
};
use super::separator::Separator;

/// Children of one node, or of one that is about to be split.
type Children<K> = SmallVec<[Child<K>; 64]>;

/// Replaces `removed` children from `at` on by `inserted`. The caller sets the totals.
///
/// Changes a fresh node in place where it has room, else makes a new one and discards the old.
pub(crate) fn splice<K: Separator>(
    arena: &mut Arena,
    link: Link,
    at: usize,
    removed: usize,
    inserted: &[Child<K>],
) -> Link {
    if K::TIED && (link.node().has(flags::TIES) || has_ties(inserted)) {
        return splice_tied(arena, link, at, removed, inserted);
    }
    let header = link.header();
    let len = usize::from(header.len) - removed + inserted.len();
    let payload_bytes = TOTALS_BYTES + len * size_of::<StoredChild>();
    let room = header.capacity as usize - HEADER_BYTES;
    let target = if link.is_fresh() && payload_bytes <= room {
        link
    } else {
        arena.allocate(header.level, header.flags, payload_bytes)
    };
    let source_children = children_address(link);
    let target_children = children_address(target);
    let after = usize::from(header.len) - at - removed;
    // SAFETY: the children behind the removed ones end at the old `len`.
    let source_after = unsafe { source_children.add(at + removed) };
    // SAFETY: the target has room for `len` children.
    let target_after = unsafe { target_children.add(at + inserted.len()) };
    // SAFETY: `after` children lie behind both addresses; the ranges may overlap.
    unsafe { std::ptr::copy(source_after, target_after, after) };
    if target != link {
        // SAFETY: both nodes hold at least `at` children, and they are different allocations.
        unsafe { std::ptr::copy_nonoverlapping(source_children, target_children, at) };
    }
    write_children(target, at, inserted);
    set_len(target, len, 0);
    if target != link {
        arena.discard(link);
    }
    target
}

/// Replaces a child by one with the same bound whose sums differ by `change`, as those of the node
/// do then.
///
/// Changes a fresh node in place, else makes a new one and discards the old.
#[inline]
pub(crate) fn change_child(
    arena: &mut Arena,
    link: Link,
    (index, child): (usize, Link),
    change: TotalsChange,
) -> Link {
    let target = if link.is_fresh() { link } else { copy_instead(arena, link) };
    let node = target.node();
    let Child { measure, key, .. } = node.children()[index].child();
    let measure = change.measure_of(measure);
    // SAFETY: the index lies below the node's length.
    let place = unsafe { children_address(target).add(index) };
    // SAFETY: as above, and a fresh node has no readers.
    unsafe { place.write(StoredChild::new(Child { link: child, measure, key })) };
    set_totals(target, node.totals().after(change));
    target
}

/// Copy of a node, which is discarded.
fn copy_instead(arena: &mut Arena, link: Link) -> Link {
    let copy = copy_node(arena, link);
    arena.discard(link);
    copy
}

/// As `splice`, of one child by one with the same bound. The caller sets the totals.
fn splice_one(arena: &mut Arena, link: Link, index: usize, (child, measure): (Link, u64)) -> Link {
    let key = link.node().children()[index].key;
    let target = if link.is_fresh() { link } else { copy_instead(arena, link) };
    write_children(target, index, &[Child { link: child, measure, key }]);
    target
}

/// As `splice`, for a node that has ties or gets some.
fn splice_tied<K: Separator>(
    arena: &mut Arena,
    link: Link,
    at: usize,
    removed: usize,
    inserted: &[Child<K>],
) -> Link {
    let node = link.node();
    if let (1, [only]) = (removed, inserted)
        && (at == 0 || K::read(node, at) == only.key)
    {
        return splice_one(arena, link, at, (only.link, only.measure));
    }
    let mut children = read_children::<K>(node, 0..at);
    children.extend_from_slice(inserted);
    children.extend(read_children::<K>(node, at + removed..node.len()));
    let header = link.header();
    let payload_bytes = tied_payload_bytes(&children);
    let target = if link.is_fresh() && HEADER_BYTES + payload_bytes <= header.capacity as usize {
        link
    } else {
        arena.allocate(header.level, header.flags, payload_bytes)
    };
    write_tied(target, &children);
    if target != link {
        arena.discard(link);
    }
    target
}

/// New inner node with `children`. The caller sets the totals.
pub(crate) fn build<K: Separator>(arena: &mut Arena, level: u8, children: &[Child<K>]) -> Link {
    if K::TIED && has_ties(children) {
        let link = arena.allocate(level, flags::TIES, tied_payload_bytes(children));
        write_tied(link, children);
        return link;
    }
    build_with(arena, level, 0, children, &[])
}

/// New inner node without ties, with `children` and further bytes behind them. The caller sets the
/// totals.
pub(super) fn build_with<K: Separator>(
    arena: &mut Arena,
    level: u8,
    flags: u8,
    children: &[Child<K>],
    behind: &[u8],
) -> Link {
    let payload_bytes = TOTALS_BYTES + children.len() * size_of::<StoredChild>() + behind.len();
    let link = arena.allocate(level, flags, payload_bytes);
    write_children(link, 0, children);
    write_behind(link, children.len(), 0, behind);
    set_len(link, children.len(), behind.len());
    link
}

/// Splits a node with too many children in two, and returns the bound between them; `at` is the
/// index of the last change.
///
/// A change at an end is taken for the first of many there: the other side is left full.
pub(crate) fn split<K: Separator>(arena: &mut Arena, link: Link, at: usize) -> (Link, Link, K) {
    let node = link.node();
    let level = node.header().level;
    let len = node.len();
    let middle = match at {
        0 => len - CHILD_COUNT_MAX,
        _ if at + 2 >= len => CHILD_COUNT_MAX,
        _ => len / 2,
    };
    let left = build(arena, level, &read_children::<K>(node, 0..middle));
    let right = build(arena, level, &read_children::<K>(node, middle..len));
    let bound = K::read(node, middle);
    arena.discard(link);
    (left, right, bound)
}

/// Merges two neighbours into one node. The caller sets the totals.
pub(crate) fn merge<K: Separator>(arena: &mut Arena, left: Link, right: &Child<K>) -> Link {
    let node = right.link.node();
    let mut children = read_children::<K>(node, 0..node.len());
    // The first key of a node is without meaning in it: its lower bound is in its parent.
    children[0].key = right.key;
    let len = left.node().len();
    let merged = splice(arena, left, len, 0, &children);
    arena.discard(right.link);
    merged
}

/// Children of a node with their bounds.
fn read_children<K: Separator>(node: Node<'_>, range: std::ops::Range<usize>) -> Children<K> {
    range.map(|index| child(node, index)).collect()
}

/// Child of a node with its bound.
pub(crate) fn child<K: Separator>(node: Node<'_>, index: usize) -> Child<K> {
    let Child { link, measure, .. } = node.children()[index].child();
    Child { link, measure, key: K::read(node, index) }
}

/// True if a bound between `children` has a tie.
fn has_ties<K: Separator>(children: &[Child<K>]) -> bool {
    children.iter().any(|child| !child.key.tie().is_none())
}

fn tied_payload_bytes<K: Separator>(children: &[Child<K>]) -> usize {
    let ties = children.iter().map(|child| child.key.tie().stored().len()).sum::<usize>();
    TOTALS_BYTES + children.len() * (size_of::<StoredChild>() + 2) + ties
}

/// Writes all children of a fresh node with their ties; its flags tell afterwards if there are any.
fn write_tied<K: Separator>(link: Link, children: &[Child<K>]) {
    write_children(link, 0, children);
    let header = link.header();
    // The first bound is without meaning.
    if !children.iter().skip(1).any(|child| !child.key.tie().is_none()) {
        link.set_header(NodeHeader { flags: header.flags & !flags::TIES, ..header });
        return set_len(link, children.len(), 0);
    }
    let (len, mut end) = (children.len(), 0);
    for (index, child) in children.iter().enumerate() {
        let tie = child.key.tie();
        let stored = if index == 0 { &[] } else { tie.stored() };
        write_behind(link, len, 2 * len + end, stored);
        end += stored.len();
        let word = if index == 0 { 0 } else { tie.end_word(end) };
        write_behind(link, len, 2 * index, &word.to_le_bytes());
    }
    link.set_header(NodeHeader { flags: header.flags | flags::TIES, ..header });
    set_len(link, len, 2 * len + end);
}

/// Writes children of a fresh node from `at` on, without their ties.
fn write_children<K: Separator>(link: Link, at: usize, children: &[Child<K>]) {
    debug_assert!(link.is_fresh());
    let bytes = (at + children.len()) * size_of::<StoredChild>();
    assert!(HEADER_BYTES + TOTALS_BYTES + bytes <= link.header().capacity as usize);
    // SAFETY: `at` children fit into the node.
    let first = unsafe { children_address(link).add(at) };
    for (index, child) in children.iter().enumerate() {
        // SAFETY: the node has room for the children, as was asserted.
        let place = unsafe { first.add(index) };
        let Child { link, measure, .. } = *child;
        let stored = StoredChild::new(Child { link, measure, key: child.key.key() });
        // SAFETY: as above, and a fresh node has no readers.
        unsafe { place.write(stored) };
    }
}

/// Writes bytes of a fresh node behind its `len` children, from `offset` on.
fn write_behind(link: Link, len: usize, offset: usize, bytes: &[u8]) {
    debug_assert!(link.is_fresh());
    let start = TOTALS_BYTES + len * size_of::<StoredChild>() + offset;
    assert!(HEADER_BYTES + start + bytes.len() <= link.header().capacity as usize);
    let at = link.payload(start);
    // SAFETY: the range lies within the allocation, and the bytes do not lie in this node.
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), at, bytes.len()) };
}

pub(crate) fn set_totals(link: Link, totals: Totals) {
    debug_assert!(link.is_fresh());
    // SAFETY: an inner node's payload begins with its totals, and a fresh node has no readers.
    unsafe { link.payload(0).cast::<Totals>().write(totals) };
}

pub(crate) fn set_link(link: Link, index: usize, child: Link) {
    debug_assert!(link.is_fresh() && index < link.node().len());
    // SAFETY: the index lies below the node's length.
    let at = unsafe { children_address(link).add(index) };
    let old = link.node().children()[index].child();
    // SAFETY: a fresh node has no readers.
    unsafe { at.write(StoredChild::new(Child { link: child, ..old })) };
}

/// Sets the number of children of a fresh node, and that of the bytes behind them.
fn set_len(link: Link, len: usize, behind_bytes: usize) {
    let len_small = u16::try_from(len).expect("an inner node has few children");
    let used = (len * size_of::<StoredChild>() + behind_bytes) as u32;
    link.set_header(NodeHeader { used, len: len_small, ..link.header() });
}

fn children_address(link: Link) -> *mut StoredChild {
    link.payload(TOTALS_BYTES).cast()
}

/// Index of the child that holds position `position`, and the position within it.
///
/// A position behind the last element leads to the end of the last child.
#[inline]
pub(crate) fn find_position(node: Node<'_>, mut position: u64) -> (usize, u64) {
    let children = node.children();
    let last = children.len() - 1;
    for (index, child) in children[..last].iter().enumerate() {
        if position < child.measure {
            return (index, position);
        }
        position -= child.measure;
    }
    (last, position)
}

/// Node on the way down from one, `choose` returning the index of the child to take, whose children
/// may not be cached: itself, or the first at [`CACHED_LEVEL`].
#[inline]
pub(crate) fn below_cached<'g>(
    mut node: Node<'g>,
    mut choose: impl FnMut(Node<'g>) -> usize,
) -> Node<'g> {
    for _ in CACHED_LEVEL..node.header().level {
        node = node.children()[choose(node)].link().node();
    }
    node
}

/// Index of the child whose range holds `key`.
#[inline]
pub(crate) fn find_key(node: Node<'_>, key: u64) -> usize {
    node.children()[1..].partition_point(|child| child.key <= key)
}
