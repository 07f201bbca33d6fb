//! Removal of a range of positions.

use smallvec::SmallVec;

use super::arena::Arena;
use super::inner;
use super::leaf::LeafPlan;
use super::node::{Child, Link};
use super::order::{Order, measure};
use super::separator::Separator;
use super::update::{join_underfull, root_of, sum_up};

/// Removes the elements of positions `start..end`, where a position counts elements, and returns
/// the new root.
///
/// Subtrees within the range are taken out whole, without being read: the time is that of two
/// paths, whatever the length of the range.
pub(crate) fn cut<O: Order>(arena: &mut Arena, root: Link, start: u64, end: u64) -> Option<Link> {
    let end = end.min(measure::<O>(root.node()));
    if start >= end {
        return Some(root);
    }
    let rest = cut_node::<O>(arena, root, start, end)?;
    root_of::<O>(arena, &[(rest, O::Key::of_key(0))])
}

/// Cuts below one node, of whose positions `start..end` are some, and returns the node that
/// replaces it.
fn cut_node<O: Order>(arena: &mut Arena, link: Link, start: u64, end: u64) -> Option<Link> {
    let node = link.node();
    if end - start == measure::<O>(node) {
        arena.discard_tree(link);
        return None;
    }
    if node.is_leaf() {
        let removed = (end - start) as usize;
        let plan = LeafPlan { leaf: node, at: start as usize, removed, inserted: None };
        return Some(plan.splice(arena));
    }
    let (first, first_start) = inner::find_position(node, start);
    let (last, last_position) = inner::find_position(node, end - 1);
    let mut kept: SmallVec<[Child<O::Key>; 2]> = SmallVec::new();
    for index in first..=last {
        let child = inner::child::<O::Key>(node, index);
        let from = if index == first { first_start } else { 0 };
        let to = if index == last { last_position + 1 } else { child.measure };
        if let Some(rest) = cut_node::<O>(arena, child.link, from, to) {
            kept.push(Child { link: rest, measure: measure::<O>(rest.node()), ..child });
        }
    }
    let mut node = inner::splice(arena, link, first, last - first + 1, &kept);
    sum_up::<O>(node);
    for index in (first..first + kept.len()).rev() {
        node = join_underfull::<O>(arena, node, index);
    }
    if kept.is_empty() {
        // Neighbours that the removed children separated may fit together.
        node = join_underfull::<O>(arena, node, first.saturating_sub(1));
    }
    Some(node)
}
