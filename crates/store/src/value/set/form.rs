//! Forms of a set's leaves: integers of one length, strings, or members with tags.
//!
//! All are sorted between each other by the tree alone; which form a leaf has is told by its
//! flags. A leaf changes its form when a member needs another one and all members fit into a node
//! in that; merges find the form that both leaves can have.

use super::member::{
    Encoded, KeyedMember, Member, STRINGS_FROM, byte_count, decode, integer_key, value_of,
};
use super::order::special;
use crate::tree::arena::Arena;
use crate::tree::leaf::{self, LeafWriter, flags_for, leaf_bytes, parts_bytes, single};
use crate::tree::limits::{LEAF_BYTES_MIN, NODE_BYTES_MAX};
use crate::tree::node::{Link, Node, Stride, flags};
use crate::tree::update::{Pieces, only_piece};
use crate::value::named::with_table;

/// Length of an integer in a leaf of such.
pub(super) fn stride_of(value: i64) -> Stride {
    match byte_count(value) {
        ..=2 => Stride::Two,
        3 | 4 => Stride::Four,
        _ => Stride::Eight,
    }
}

/// Member at an index of a leaf.
#[inline]
pub(super) fn member_at(leaf: Node<'_>, index: usize) -> Member<'_> {
    member_of(leaf, leaf.element(index))
}

/// Member of an element of a leaf, or of one in its form.
#[inline]
pub(super) fn member_of<'g>(leaf: Node<'_>, element: &'g [u8]) -> Member<'g> {
    match Stride::of(leaf.header().flags) {
        Some(_) => Member::Integer(value_of(element)),
        None if leaf.has(flags::STRINGS) => Member::String(element),
        None => decode(element),
    }
}

/// Members of a leaf.
pub(super) fn members<'g>(leaf: Node<'g>) -> impl Iterator<Item = Member<'g>> + Clone {
    leaf.elements().map(move |element| member_of(leaf, element))
}

/// True if a leaf has a form of its own for members of one kind.
pub(super) fn is_plain(leaf: Node<'_>) -> bool {
    leaf.header().flags & (flags::FIXED | flags::STRINGS) != 0
}

/// True if a leaf should be merged with a neighbour. Two such can always be merged, so members
/// count by the longest form that they may need then.
pub(super) fn is_underfull(leaf: Node<'_>) -> bool {
    let bytes = match Stride::of(leaf.header().flags) {
        Some(_) => fixed_bytes(Stride::Eight, leaf.len()),
        None if leaf.has(flags::STRINGS) => leaf::bytes_with_starts(leaf) + leaf.len(),
        None => leaf::bytes_with_starts(leaf),
    };
    bytes < LEAF_BYTES_MIN
}

fn fixed_bytes(stride: Stride, count: usize) -> usize {
    leaf_bytes(stride.flags(), stride.bytes() * count, count)
}

/// Bytes of a leaf of members with tags.
fn tagged_bytes<'m>(members: impl Iterator<Item = Member<'m>>) -> usize {
    let Tagged { special, bytes, count } = Tagged::of(0, members);
    leaf_bytes(special, bytes, count)
}

/// Size of a leaf of members with tags.
struct Tagged {
    special: u8,
    bytes: usize,
    count: usize,
}

impl Tagged {
    fn of<'m>(special: u8, members: impl Iterator<Item = Member<'m>>) -> Tagged {
        let (mut bytes, mut count, mut longest) = (0, 0, 0);
        for member in members {
            let size = parts_bytes(&Encoded::of(member).parts());
            bytes += size;
            count += 1;
            longest = longest.max(size);
        }
        Tagged { special: flags_for(with_table(special), longest), bytes, count }
    }
}

fn write_fixed<'m>(
    arena: &mut Arena,
    stride: Stride,
    members: impl Iterator<Item = Member<'m>> + Clone,
) -> Link {
    let count = members.clone().count();
    let mut writer = LeafWriter::new(arena, stride.flags(), stride.bytes() * count, count);
    for member in members {
        let Member::Integer(value) = member else { unreachable!("a leaf of integers") };
        debug_assert!(stride_of(value) <= stride);
        writer.push(&[&value.to_le_bytes()[..stride.bytes()]]);
    }
    writer.finish()
}

fn write_tagged<'m>(
    arena: &mut Arena,
    special: u8,
    members: impl Iterator<Item = Member<'m>> + Clone,
) -> Link {
    let Tagged { special, bytes, count } = Tagged::of(special, members.clone());
    let mut writer = LeafWriter::new(arena, special, bytes, count);
    members.for_each(|member| writer.push(&Encoded::of(member).parts()));
    writer.finish()
}

/// Adds a member to a leaf of shorter integers, or of members of the other kind, at an index of it:
/// a leaf of another form, or several where that would be too large.
pub(super) fn reform(arena: &mut Arena, leaf: Node<'_>, at: usize, member: Member<'_>) -> Pieces {
    if let Member::Integer(value) = member
        && !leaf.has(flags::STRINGS)
    {
        return widen(arena, leaf, at, value);
    }
    let all = members(leaf).chain([member]);
    if tagged_bytes(all.clone()) > NODE_BYTES_MAX {
        return match member {
            Member::String(string) => {
                let string = single(arena, with_table(special(member)), &[string]);
                Pieces::from_iter([(leaf.link(), 0), (string, STRINGS_FROM)])
            }
            Member::Integer(value) => {
                let integer = write_fixed(arena, stride_of(value), [member].into_iter());
                Pieces::from_iter([(integer, 0), (leaf.link(), STRINGS_FROM)])
            }
        };
    }
    let tagged = write_tagged(arena, flags::UNSORTED, all);
    arena.discard(leaf.link());
    only_piece(tagged)
}

/// Adds an integer that is longer than those of its leaf may be: so it is before or behind all of
/// them, and shares its key with none.
fn widen(arena: &mut Arena, leaf: Node<'_>, at: usize, value: i64) -> Pieces {
    let (wide, new) = (stride_of(value), [Member::Integer(value)]);
    let (before, behind) = (members(leaf).take(at), members(leaf).skip(at));
    if fixed_bytes(wide, leaf.len() + 1) <= NODE_BYTES_MAX {
        let widened = write_fixed(arena, wide, before.chain(new).chain(behind));
        arena.discard(leaf.link());
        return only_piece(widened);
    }
    let first = match member_at(leaf, 0) {
        Member::Integer(first) => integer_key(first),
        Member::String(_) => STRINGS_FROM,
    };
    let alone = write_fixed(arena, wide, new.into_iter());
    match at {
        0 => Pieces::from_iter([(alone, 0), (leaf.link(), first)]),
        _ => Pieces::from_iter([(leaf.link(), 0), (alone, integer_key(value))]),
    }
}

/// Merges two neighbours into one leaf, if one node can hold both.
pub(super) fn merge(arena: &mut Arena, left: Link, right: Link) -> Option<Link> {
    let (first, second) = (left.node(), right.node());
    let all = members(first).chain(members(second));
    let merged = match [first, second].map(|leaf| Stride::of(leaf.header().flags)) {
        [one, other] if one == other && first.has(flags::STRINGS) == second.has(flags::STRINGS) => {
            return leaf::merge(arena, left, right);
        }
        [Some(one), Some(other)] => {
            let stride = one.max(other);
            if fixed_bytes(stride, first.len() + second.len()) > NODE_BYTES_MAX {
                return None;
            }
            write_fixed(arena, stride, all)
        }
        _ => {
            if tagged_bytes(all.clone()) > NODE_BYTES_MAX {
                return None;
            }
            let unsorted = (first.header().flags | second.header().flags) & flags::UNSORTED;
            write_tagged(arena, unsorted, all)
        }
    };
    arena.discard(left);
    arena.discard(right);
    Some(merged)
}

/// Integers that a leaf is built of.
pub(super) struct Run {
    pub(super) count: usize,
    pub(super) stride: Stride,
}

/// The first members of a sorted run that make a full leaf of integers; none if the next leaf has
/// strings.
pub(super) fn run(members: &[KeyedMember<'_>]) -> Option<Run> {
    let mut run = Run { count: 0, stride: Stride::Two };
    for keyed in members {
        let Member::Integer(value) = keyed.member else { break };
        let stride = run.stride.max(stride_of(value));
        if fixed_bytes(stride, run.count + 1) > NODE_BYTES_MAX {
            break;
        }
        run = Run { count: run.count + 1, stride };
    }
    let last = run.count.checked_sub(1)?;
    match members.get(run.count) {
        Some(KeyedMember { member: Member::String(_), .. }) => {
            // Few integers share a leaf with strings.
            let bytes = tagged_bytes(members[..run.count].iter().map(|keyed| keyed.member));
            let are_few = fixed_bytes(Stride::Eight, run.count) < LEAF_BYTES_MIN;
            (!are_few && bytes > NODE_BYTES_MAX / 2).then_some(run)
        }
        // Integers that share a key share a leaf.
        Some(next) if next.key == members[last].key => {
            let count = members[..last].partition_point(|before| before.key < next.key);
            Some(Run { count, ..run })
        }
        _ => Some(run),
    }
}
