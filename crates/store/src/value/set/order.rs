//! Order of members, from leaf to leaf and within one.

use super::form::{self, member_at, member_of, members};
use super::member::{Member, decode, is_of, is_string};
use crate::hash::Seed;
use crate::tree::arena::Arena;
use crate::tree::leaf::{self, Parts};
use crate::tree::node::{Link, Node, flags};
use crate::tree::order::Order;
use crate::tree::split::Bias;
use crate::value::named::{Named, same};

/// Order of members: integers by value, then strings by hash.
#[derive(Debug)]
pub(super) struct Members;

impl Order for Members {
    type Key = u64;

    fn is_underfull(leaf: Node<'_>) -> bool {
        form::is_underfull(leaf)
    }

    fn merge(arena: &mut Arena, left: Link, right: Link) -> Option<Link> {
        form::merge(arena, left, right)
    }
}

impl Named for Members {
    type Name<'a> = Member<'a>;

    #[inline]
    fn key_of(seed: &Seed, member: Member<'_>) -> u64 {
        member.key(seed)
    }

    fn name_of<'a>(leaf: Node<'_>, parts: Parts<'a>) -> Member<'a> {
        match parts {
            [element] => member_of(leaf, element),
            [head, string] if is_string(head) => Member::String(string),
            [head, ..] => decode(head),
            [] => Member::String(&[]),
        }
    }

    #[inline]
    fn find(leaf: Node<'_>, member: Member<'_>) -> Result<usize, usize> {
        match member {
            Member::Integer(value) if !leaf.has(flags::UNSORTED) => find_sorted(leaf, value),
            Member::Integer(_) => members(leaf).position(|found| found == member).ok_or(leaf.len()),
            Member::String(string) => find_string(leaf, string),
        }
    }

    /// Integers are mostly counted up, or down.
    fn bias(leaf: Node<'_>, at: usize) -> Bias {
        match at {
            _ if leaf.has(flags::UNSORTED) => Bias::Middle,
            0 => Bias::Prepend,
            _ if at == leaf.len() => Bias::Append,
            _ => Bias::Middle,
        }
    }

    fn set_flags(leaf: Link, special: u8, is_part: bool) {
        if !is_part {
            if special != 0 {
                leaf::add_flags(leaf, special);
            }
        } else if is_sorted(leaf.node()) {
            leaf::clear_flags(leaf, flags::UNSORTED);
        } else {
            leaf::add_flags(leaf, flags::UNSORTED);
        }
    }
}

/// Flags of a leaf of a member alone.
pub(super) fn special(member: Member<'_>) -> u8 {
    match member {
        Member::Integer(_) => 0,
        Member::String(_) => flags::UNSORTED | flags::STRINGS,
    }
}

/// True if a leaf holds integers alone, in ascending order.
pub(super) fn is_sorted(leaf: Node<'_>) -> bool {
    let mut last = None;
    members(leaf).all(|member| match member {
        Member::Integer(value) => last.replace(value).is_none_or(|before| before < value),
        Member::String(_) => false,
    })
}

fn find_sorted(leaf: Node<'_>, value: i64) -> Result<usize, usize> {
    let (mut from, mut to) = (0, leaf.len());
    while from < to {
        let middle = (from + to) / 2;
        match member_at(leaf, middle) {
            Member::Integer(found) if found == value => return Ok(middle),
            Member::Integer(found) if found < value => from = middle + 1,
            _ => to = middle,
        }
    }
    Err(from)
}

#[inline]
fn find_string(leaf: Node<'_>, string: &[u8]) -> Result<usize, usize> {
    let found = match (leaf.has(flags::UNSORTED), leaf.has(flags::STRINGS)) {
        (false, _) => None,
        (true, true) => leaf.position_of_length(string.len(), |own| same(own, string)),
        (true, false) => leaf.position(|element| is_of(element, string)),
    };
    found.ok_or(leaf.len())
}
