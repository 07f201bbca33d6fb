//! Changes of leaves.

use super::arena::Arena;
use super::limits::NODE_BYTES_MAX;
use super::node::{HEADER_BYTES, Link, Node, NodeHeader, Stride, flags, has_lengths};

/// Element to insert, in pieces that are stored end to end.
///
/// The pieces must not lie in a fresh node, which may be changed or freed while they are read.
pub(crate) type Parts<'a> = &'a [&'a [u8]];

pub(crate) fn parts_bytes(parts: Parts<'_>) -> usize {
    parts.iter().map(|part| part.len()).sum()
}

/// Longest element of a leaf with a table of lengths.
const LENGTH_MAX: usize = u8::MAX as usize;

/// Flags of a leaf by the bytes of its longest element.
pub(crate) fn flags_for(special: u8, longest: usize) -> u8 {
    match special & (flags::FIXED | flags::LENGTHS) {
        flags::LENGTHS if longest > LENGTH_MAX => special | flags::LONG,
        flags::LENGTHS => special & !flags::LONG,
        _ => special,
    }
}

/// Bytes of a leaf of `count` elements, its header and table included.
pub(crate) fn leaf_bytes(special: u8, data_bytes: usize, count: usize) -> usize {
    HEADER_BYTES + payload_bytes(special, data_bytes, count)
}

/// Bytes that a leaf needs for its elements, its header and table included.
pub(crate) fn used_bytes(leaf: Node<'_>) -> usize {
    let header = leaf.header();
    leaf_bytes(header.flags, header.used as usize, leaf.len())
}

/// True if a leaf can be changed in one node so that it has `len` of `data_bytes` together,
/// one of `element_bytes` among them, and keeps its kind of table.
#[inline]
pub(super) fn has_room(
    leaf: Node<'_>,
    element_bytes: usize,
    data_bytes: usize,
    len: usize,
) -> bool {
    let flags = leaf.header().flags;
    leaf_bytes(flags, data_bytes, len) <= NODE_BYTES_MAX
        && flags & flags::WIDE == 0
        && !(has_lengths(flags) && element_bytes > LENGTH_MAX)
}

/// As [`used_bytes`], as if the leaf had starts: what it may need in one leaf with a long element.
pub(crate) fn bytes_with_starts(leaf: Node<'_>) -> usize {
    let header = leaf.header();
    leaf_bytes(flags_for(header.flags, usize::MAX), header.used as usize, leaf.len())
}

fn payload_bytes(special: u8, data_bytes: usize, count: usize) -> usize {
    if special & flags::FIXED != 0 {
        return data_bytes;
    }
    if has_lengths(special) && !is_wide(data_bytes, count) {
        return data_bytes + count.saturating_sub(1);
    }
    // The table stays aligned because capacities are even.
    data_bytes.next_multiple_of(2) + entry_bytes(data_bytes, count) * count.saturating_sub(1)
}

fn entry_bytes(data_bytes: usize, count: usize) -> usize {
    if is_wide(data_bytes, count) { 4 } else { 2 }
}

/// True if two-byte starts do not suffice.
fn is_wide(data_bytes: usize, count: usize) -> bool {
    count > 1 && data_bytes > usize::from(u16::MAX)
}

/// Writer of a new leaf, element by element.
pub(crate) struct LeafWriter {
    link: Link,
    written: usize,
    index: usize,
}

impl LeafWriter {
    /// Leaf that will hold exactly `count` elements of `data_bytes` together; `special` are flags
    /// for the longest of them, see [`flags_for`].
    pub(crate) fn new(
        arena: &mut Arena,
        special: u8,
        data_bytes: usize,
        count: usize,
    ) -> LeafWriter {
        let is_fixed = special & flags::FIXED != 0;
        let wide = if !is_fixed && is_wide(data_bytes, count) { flags::WIDE } else { 0 };
        let special = special & !flags::WIDE | wide;
        let link = arena.allocate(0, special, payload_bytes(special, data_bytes, count));
        let len = u16::try_from(count).expect("leaves are split before they hold so many elements");
        link.set_header(NodeHeader { used: data_bytes as u32, len, ..link.header() });
        LeafWriter { link, written: 0, index: 0 }
    }

    pub(crate) fn push(&mut self, parts: Parts<'_>) {
        let start = self.written;
        self.written = write_parts(self.link, start, parts);
        let header = self.link.header();
        if !has_lengths(header.flags) {
            if self.index > 0 {
                set_start(self.link, self.index, start);
            }
        } else if self.index + 1 < usize::from(header.len) {
            set_length(self.link, self.index, self.written - start);
        }
        self.index += 1;
    }

    pub(crate) fn finish(self) -> Link {
        debug_assert_eq!(self.written, self.link.header().used as usize);
        debug_assert_eq!(self.index, self.link.node().len());
        self.link
    }
}

fn write_parts(link: Link, mut offset: usize, parts: Parts<'_>) -> usize {
    for part in parts {
        write_bytes(link, offset, part);
        offset += part.len();
    }
    offset
}

/// Writes into the payload of a fresh leaf.
fn write_bytes(link: Link, offset: usize, bytes: &[u8]) {
    debug_assert!(link.is_fresh());
    assert!(HEADER_BYTES + offset + bytes.len() <= link.header().capacity as usize);
    let at = link.payload(offset);
    // SAFETY: the range lies within the allocation, and the bytes do not lie in a fresh node.
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), at, bytes.len()) };
}

fn set_start(link: Link, index: usize, start: usize) {
    let header = link.header();
    if header.flags & flags::FIXED != 0 {
        return;
    }
    if header.flags & flags::WIDE != 0 {
        let at = link.payload(header.capacity as usize - HEADER_BYTES - 4 * index).cast::<u32>();
        // SAFETY: a wide leaf was allocated with four bytes for each element but the first.
        unsafe { at.write_unaligned(start as u32) };
        return;
    }
    debug_assert!(start <= usize::from(u16::MAX));
    // SAFETY: the leaf has room for a table of `len - 1` entries, and the callers keep `index`
    // below `len`.
    unsafe { link.table(index).write(start as u16) };
}

fn set_length(link: Link, index: usize, length: usize) {
    debug_assert!(link.is_fresh() && length <= LENGTH_MAX && index + 1 < link.node().len());
    // SAFETY: the leaf has room for a table of `len - 1` entries, and the callers keep `index`
    // below that.
    unsafe { link.length_table(index + 1).write(length as u8) };
}

/// Replaces `removed` elements from `at` on by at most one.
///
/// Changes a fresh leaf in place where it has room, else makes a new one and discards the old.
pub(crate) fn splice(
    arena: &mut Arena,
    link: Link,
    at: usize,
    removed: usize,
    inserted: Option<Parts<'_>>,
) -> Link {
    debug_assert!(inserted.is_none() || removed <= 1);
    if let Some(stride) = Stride::of(link.header().flags) {
        return splice_fixed(arena, (link, stride), at, removed, inserted);
    }
    match splice_all(arena, link, at, removed, inserted.as_slice()) {
        Some(spliced) => spliced,
        None => splice_slowly(arena, link.node(), at, removed, inserted),
    }
}

/// As [`splice`], of a leaf whose elements have one length.
fn splice_fixed(
    arena: &mut Arena,
    (link, stride): (Link, Stride),
    at: usize,
    removed: usize,
    inserted: Option<Parts<'_>>,
) -> Link {
    let (header, element_bytes) = (link.header(), stride.bytes());
    let (cut_start, cut_end) = (at * element_bytes, (at + removed) * element_bytes);
    let inserted_bytes = inserted.map_or(0, parts_bytes);
    debug_assert!(inserted_bytes == if inserted.is_some() { element_bytes } else { 0 });
    let moved = header.used as usize - cut_end;
    let used = cut_start + inserted_bytes + moved;
    let in_place = link.is_fresh() && HEADER_BYTES + used <= header.capacity as usize;
    let target = if in_place { link } else { arena.allocate(0, header.flags, used) };
    let (source, end) = (link.payload(cut_end), target.payload(cut_start + inserted_bytes));
    // SAFETY: `moved` bytes follow both addresses within their allocations; they may overlap.
    unsafe { std::ptr::copy(source, end, moved) };
    if target != link {
        write_bytes(target, 0, &link.node().data()[..cut_start]);
    }
    let len = header.len - removed as u16 + u16::from(inserted.is_some());
    target.set_header(NodeHeader { used: used as u32, len, ..target.header() });
    if let Some(parts) = inserted {
        write_parts(target, cut_start, parts);
    }
    if target != link {
        arena.discard(link);
    }
    target
}

/// As [`splice`], with any number of elements to insert; none, and nothing is changed, if the leaf
/// has a wide table, or would get another kind of table.
#[inline]
pub(super) fn splice_all<'e, E: AsRef<[&'e [u8]]>>(
    arena: &mut Arena,
    link: Link,
    at: usize,
    removed: usize,
    inserted: &[E],
) -> Option<Link> {
    let leaf = link.node();
    let header = leaf.header();
    let (cut_start, cut_end) = (leaf.start(at), leaf.start(at + removed));
    let sizes = inserted.iter().map(|element| parts_bytes(element.as_ref()));
    let (inserted_bytes, longest) =
        sizes.fold((0, 0), |(sum, longest), bytes| (sum + bytes, longest.max(bytes)));
    let used = header.used as usize - (cut_end - cut_start) + inserted_bytes;
    let len = leaf.len() - removed + inserted.len();
    let is_fixed = header.flags & flags::FIXED != 0;
    let has_lengths = has_lengths(header.flags);
    let is_slow = header.flags & flags::WIDE != 0
        || !is_fixed && is_wide(used, len)
        || has_lengths && longest > LENGTH_MAX;
    if is_slow {
        return None;
    }
    // Length of the last element, which has no entry yet, if one is put behind it.
    let last = (has_lengths && at > 0 && at == leaf.len()).then(|| cut_start - leaf.start(at - 1));
    let payload = payload_bytes(header.flags, used, len);
    let in_place = link.is_fresh() && HEADER_BYTES + payload <= header.capacity as usize;
    let target = if in_place { link } else { arena.allocate(0, header.flags, payload) };
    let moved = header.used as usize - cut_end;
    let (source, end) = (link.payload(cut_end), target.payload(cut_start + inserted_bytes));
    // SAFETY: `moved` bytes follow both addresses within their allocations; they may overlap.
    unsafe { std::ptr::copy(source, end, moved) };
    let gap = Gap { at, removed, inserted: inserted.len() };
    if has_lengths {
        move_lengths(link, target, &gap);
    } else if !is_fixed {
        move_starts(link, target, &gap, cut_start + inserted_bytes, cut_end);
    }
    if target != link {
        write_bytes(target, 0, &leaf.data()[..cut_start]);
    }
    target.set_header(NodeHeader { used: used as u32, len: len as u16, ..target.header() });
    if let Some(length) = last.filter(|_| !inserted.is_empty()) {
        set_length(target, at - 1, length);
    }
    write_elements(target, at, cut_start, inserted);
    if target != link {
        arena.discard(link);
    }
    Some(target)
}

/// Writes elements of a fresh leaf from index `at` and byte `start` on, with their entries.
#[inline]
fn write_elements<'e, E: AsRef<[&'e [u8]]>>(link: Link, at: usize, start: usize, elements: &[E]) {
    let (len, mut written) = (link.node().len(), start);
    let has_lengths = has_lengths(link.header().flags);
    for (index, element) in (at..).zip(elements) {
        let begin = written;
        written = write_parts(link, begin, element.as_ref());
        if has_lengths {
            if index + 1 < len {
                set_length(link, index, written - begin);
            }
        } else if index > 0 {
            // The element before may have been the last, which has no entry for its end.
            set_start(link, index, begin);
        }
    }
    let end = at + elements.len();
    if !has_lengths && !elements.is_empty() && end < len {
        set_start(link, end, written);
    }
}

/// True if [`move_element`] can take the element at `from` to index `to` and make it `parts`: of as
/// many bytes, and in a leaf whose table this changes little of.
#[inline]
pub(super) fn can_move(leaf: Node<'_>, from: usize, to: usize, parts: Parts<'_>) -> bool {
    let flags = leaf.header().flags;
    flags & flags::WIDE == 0
        && (from == to || !has_lengths(flags))
        && leaf.start(from + 1) - leaf.start(from) == parts_bytes(parts)
}

/// Takes the element at `from` to index `to` and makes it `parts`, where [`can_move`] allows it.
///
/// Changes a fresh leaf in place, else makes a new one and discards the old.
pub(crate) fn move_element(
    arena: &mut Arena,
    link: Link,
    from: usize,
    to: usize,
    parts: Parts<'_>,
) -> Link {
    debug_assert!(can_move(link.node(), from, to, parts));
    // A splice of nothing copies a published leaf.
    let len = link.node().len();
    let target = if link.is_fresh() { link } else { splice(arena, link, len, 0, None) };
    let leaf = target.node();
    let (start, end) = (leaf.start(from), leaf.start(from + 1));
    let bytes = end - start;
    let written = if from <= to {
        let last = leaf.start(to + 1);
        move_bytes(target, end..last, start);
        // Upwards, so that each start is read before it is written.
        for index in from + 1..=to {
            set_start(target, index, leaf.start(index + 1) - bytes);
        }
        last - bytes
    } else {
        let first = leaf.start(to);
        move_bytes(target, first..start, first + bytes);
        for index in (to + 1..=from).rev() {
            set_start(target, index, leaf.start(index - 1) + bytes);
        }
        first
    };
    write_parts(target, written, parts);
    target
}

/// Moves bytes of a fresh leaf to another offset; both may overlap.
fn move_bytes(link: Link, bytes: std::ops::Range<usize>, offset: usize) {
    debug_assert!(link.is_fresh());
    let used = link.header().used as usize;
    assert!(bytes.start <= bytes.end && bytes.end <= used && offset + bytes.len() <= used);
    let (from, to) = (link.payload(bytes.start), link.payload(offset));
    // SAFETY: both ranges lie within the leaf's data.
    unsafe { std::ptr::copy(from, to, bytes.len()) };
}

/// Elements that a splice takes out and puts in.
struct Gap {
    at: usize,
    removed: usize,
    inserted: usize,
}

impl Gap {
    /// Entries of a table before and behind the change; the last or the first element has none.
    fn entries(&self, source: Link) -> (usize, usize) {
        let len = source.node().len();
        (len.saturating_sub(1), (len - self.removed + self.inserted).saturating_sub(1))
    }
}

/// Copies the lengths of the elements that stay from one table to the other (or within one).
fn move_lengths(source: Link, target: Link, gap: &Gap) {
    let (source_entries, target_entries) = gap.entries(source);
    let behind = source_entries.saturating_sub(gap.at + gap.removed);
    let (from, to) = (source.length_table(source_entries), target.length_table(target_entries));
    // SAFETY: the entries of the last elements come first in both tables; they may overlap.
    unsafe { std::ptr::copy(from, to, behind) };
    let before = gap.at.min(source_entries).min(target_entries);
    if source != target {
        let (from, to) = (source.length_table(before), target.length_table(before));
        // SAFETY: both tables have the entries of elements 0 to `before - 1`.
        unsafe { std::ptr::copy_nonoverlapping(from, to, before) };
    }
}

/// Copies the starts of the elements that stay from one table to the other (or within one).
fn move_starts(source: Link, target: Link, gap: &Gap, new_end: usize, old_end: usize) {
    let (source_entries, target_entries) = gap.entries(source);
    // Starts of the elements behind the first one that stays after the gap.
    let after = source_entries.saturating_sub(gap.at + gap.removed);
    let (from, to) = (source.table(source_entries), target.table(target_entries));
    // SAFETY: the entries of the last elements come first in both tables; they may overlap.
    unsafe { std::ptr::copy(from, to, after) };
    // SAFETY: these are the entries that were just written.
    let moved = unsafe { std::slice::from_raw_parts_mut(to, after) };
    let delta = (new_end as u16).wrapping_sub(old_end as u16);
    moved.iter_mut().for_each(|start| *start = start.wrapping_add(delta));
    let before = gap.at.min(source_entries).min(target_entries);
    if source != target {
        let (from, to) = (source.table(before), target.table(before));
        // SAFETY: both tables hold the entries of elements 1 to `before`.
        unsafe { std::ptr::copy_nonoverlapping(from, to, before) };
    }
}

/// As `splice`, for leaves with wide tables.
fn splice_slowly(
    arena: &mut Arena,
    leaf: Node<'_>,
    at: usize,
    removed: usize,
    inserted: Option<Parts<'_>>,
) -> Link {
    let plan = LeafPlan { leaf, at, removed, inserted };
    let target = plan.build(arena, |_| true);
    arena.discard(leaf.link());
    target
}

/// Leaf as it would be after a splice, to build other leaves from.
#[derive(Clone, Copy)]
pub(crate) struct LeafPlan<'a> {
    pub(crate) leaf: Node<'a>,
    pub(crate) at: usize,
    pub(crate) removed: usize,
    pub(crate) inserted: Option<Parts<'a>>,
}

impl<'a> LeafPlan<'a> {
    pub(crate) fn len(&self) -> usize {
        self.leaf.len() - self.removed + usize::from(self.inserted.is_some())
    }

    /// Bytes of the planned leaf, its header and table included.
    pub(crate) fn bytes(&self) -> usize {
        let cut = match self.removed {
            0 => 0,
            removed => self.leaf.start(self.at + removed) - self.leaf.start(self.at),
        };
        let kept = self.leaf.header().used as usize - cut;
        let inserted_bytes = self.inserted.map_or(0, parts_bytes);
        leaf_bytes(self.flags_with(inserted_bytes), kept + inserted_bytes, self.len())
    }

    /// Flags of the planned leaf.
    pub(crate) fn flags(&self) -> u8 {
        self.flags_with(self.inserted.map_or(0, parts_bytes))
    }

    fn flags_with(&self, inserted_bytes: usize) -> u8 {
        let flags = self.leaf.header().flags;
        if inserted_bytes > LENGTH_MAX { flags_for(flags, inserted_bytes) } else { flags }
    }

    /// Passes the elements of the planned leaf to `visit`, in order and with their indices: in a
    /// leaf of lengths, one that is looked for by its index takes as long as all before it.
    #[inline]
    pub(crate) fn for_each(&self, mut visit: impl FnMut(usize, Parts<'_>)) {
        let mut present = self.leaf.elements();
        let mut index = 0;
        for element in present.by_ref().take(self.at) {
            visit(index, &[element]);
            index += 1;
        }
        if let Some(parts) = self.inserted {
            visit(index, parts);
            index += 1;
        }
        for element in present.skip(self.removed) {
            visit(index, &[element]);
            index += 1;
        }
    }

    /// Index in the present leaf of element `index` of the planned one; none for the inserted one.
    pub(crate) fn source(&self, index: usize) -> Option<usize> {
        match self.inserted {
            Some(_) if index == self.at => None,
            Some(_) if index > self.at => Some(index - 1 + self.removed),
            None if index >= self.at => Some(index + self.removed),
            _ => Some(index),
        }
    }

    /// True if the planned leaf can be one node.
    pub(crate) fn fits(&self) -> bool {
        self.len() == 1 || self.bytes() <= super::limits::NODE_BYTES_MAX
    }

    /// Carries out the plan, in place or in a new leaf. Only where it fits into one node.
    pub(crate) fn splice(&self, arena: &mut Arena) -> Link {
        splice(arena, self.leaf.link(), self.at, self.removed, self.inserted)
    }

    /// New leaf of those planned elements that `belongs` accepts.
    pub(crate) fn build(&self, arena: &mut Arena, belongs: impl Fn(usize) -> bool) -> Link {
        let (mut count, mut data_bytes, mut longest) = (0, 0, 0);
        self.for_each(|index, parts| {
            if belongs(index) {
                let bytes = parts_bytes(parts);
                (count, data_bytes, longest) = (count + 1, data_bytes + bytes, longest.max(bytes));
            }
        });
        let special = flags_for(self.leaf.header().flags, longest);
        let mut writer = LeafWriter::new(arena, special, data_bytes, count);
        self.for_each(|index, parts| {
            if belongs(index) {
                writer.push(parts);
            }
        });
        writer.finish()
    }
}

/// New leaf of one element.
pub(crate) fn single(arena: &mut Arena, special: u8, parts: Parts<'_>) -> Link {
    let bytes = parts_bytes(parts);
    let mut writer = LeafWriter::new(arena, flags_for(special, bytes), bytes, 1);
    writer.push(parts);
    writer.finish()
}

/// Number of the first elements that one leaf can hold: one at least, unless there are none.
pub(crate) fn fitting_count<'e>(special: u8, elements: impl Iterator<Item = &'e [u8]>) -> usize {
    let (mut count, mut data_bytes, mut longest) = (0, 0, 0);
    for element in elements {
        data_bytes += element.len();
        longest = longest.max(element.len());
        let bytes = leaf_bytes(flags_for(special, longest), data_bytes, count + 1);
        if count > 0 && bytes > NODE_BYTES_MAX {
            break;
        }
        count += 1;
    }
    count
}

/// New leaf of some elements in their order; none without elements. The caller has counted that
/// they fit.
pub(crate) fn of_elements<'e>(
    arena: &mut Arena,
    special: u8,
    elements: impl Iterator<Item = &'e [u8]> + Clone,
) -> Option<Link> {
    let sizes = elements.clone().map(<[u8]>::len);
    let (count, data_bytes, longest) = sizes.fold((0, 0, 0), |(count, sum, longest), bytes| {
        (count + 1, sum + bytes, bytes.max(longest))
    });
    if count == 0 {
        return None;
    }
    let mut writer = LeafWriter::new(arena, flags_for(special, longest), data_bytes, count);
    elements.for_each(|element| writer.push(&[element]));
    Some(writer.finish())
}

/// Merges two neighbours into one leaf, if one node can hold both.
///
/// Both have lengths of their own, or the same stride.
pub(crate) fn merge(arena: &mut Arena, left: Link, right: Link) -> Option<Link> {
    let (first, second) = (left.node(), right.node());
    let data_bytes = first.data().len() + second.data().len();
    let count = first.len() + second.len();
    let special = first.header().flags | second.header().flags;
    debug_assert!(Stride::of(first.header().flags) == Stride::of(second.header().flags));
    if leaf_bytes(special, data_bytes, count) > NODE_BYTES_MAX {
        return None;
    }
    let mut writer = LeafWriter::new(arena, special, data_bytes, count);
    for leaf in [first, second] {
        leaf.elements().for_each(|element| writer.push(&[element]));
    }
    let merged = writer.finish();
    arena.discard(left);
    arena.discard(right);
    Some(merged)
}

/// Writes `bytes` over a leaf of one element from `at` on, extending it where they go beyond its
/// end.
pub(crate) fn overwrite(arena: &mut Arena, link: Link, at: usize, bytes: &[u8]) -> Link {
    let leaf = link.node();
    let header = leaf.header();
    debug_assert!(leaf.len() == 1 && at <= leaf.data().len());
    let used = leaf.data().len().max(at + bytes.len());
    let in_place = link.is_fresh() && HEADER_BYTES + used <= header.capacity as usize;
    let target = if in_place { link } else { arena.allocate(0, header.flags, used) };
    if target != link {
        write_bytes(target, 0, &leaf.data()[..at]);
        let kept = (at + bytes.len()).min(leaf.data().len());
        write_bytes(target, kept, &leaf.data()[kept..]);
        arena.discard(link);
    }
    write_bytes(target, at, bytes);
    target.set_header(NodeHeader { used: used as u32, len: 1, ..target.header() });
    target
}

/// Sets flags of a fresh leaf beside those that it has.
pub(crate) fn add_flags(link: Link, added: u8) {
    debug_assert!(link.is_fresh());
    let header = link.header();
    link.set_header(NodeHeader { flags: header.flags | added, ..header });
}

/// Takes flags of a fresh leaf away.
pub(crate) fn clear_flags(link: Link, cleared: u8) {
    debug_assert!(link.is_fresh());
    let header = link.header();
    link.set_header(NodeHeader { flags: header.flags & !cleared, ..header });
}
