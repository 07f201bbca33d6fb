//! Splits of a leaf that grew too large.

use smallvec::SmallVec;

use super::arena::Arena;
use super::leaf::{LeafPlan, Parts, leaf_bytes, parts_bytes};
use super::limits::NODE_BYTES_MAX;
use super::update::Pieces;

/// Part of an overfull leaf that should stay full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bias {
    /// Neither: the next insertion may be anywhere.
    Middle,
    /// The first: insertions go on at the end.
    Append,
    /// The last: insertions go on at the start.
    Prepend,
}

/// Splits a planned leaf by `key_of` its elements, given their indices too, into leaves that fit
/// into a node.
///
/// Elements of equal keys stay together, and one that is too large for a node with others gets a
/// leaf of its own. The pieces' keys are lower bounds of their elements' keys; the first has
/// `first_key`.
pub(crate) fn split(
    arena: &mut Arena,
    plan: &LeafPlan<'_>,
    bias: Bias,
    first_key: u64,
    key_of: impl Fn(usize, Parts<'_>) -> u64,
) -> Pieces {
    let mut sorted: SmallVec<[(u64, usize); 128]> = SmallVec::with_capacity(plan.len());
    plan.for_each(|index, parts| sorted.push((key_of(index, parts), parts_bytes(parts))));
    let keys: SmallVec<[u64; 128]> = sorted.iter().map(|&(key, _)| key).collect();
    sorted.sort_unstable_by_key(|&(key, _)| key);
    let mut bounds: SmallVec<[u64; 4]> = SmallVec::from_slice(&[first_key]);
    match best_cut(plan.flags(), &sorted, bias) {
        Some(bound) => bounds.push(bound),
        None => bounds.extend(bounds_around(&sorted, keys[plan.at])),
    }
    let pieces = bounds.iter().enumerate().map(|(index, &from)| {
        let to = bounds.get(index + 1).copied();
        let in_piece = |key: u64| (index == 0 || key >= from) && to.is_none_or(|to| key < to);
        (plan.build(arena, |element| in_piece(keys[element])), from)
    });
    pieces.collect()
}

/// Key at which to split in two so that both halves fit into a node, if there is one.
fn best_cut(special: u8, sorted: &[(u64, usize)], bias: Bias) -> Option<u64> {
    let total: usize = sorted.iter().map(|&(_, bytes)| bytes).sum();
    let mut left = 0;
    let mut best: Option<(usize, u64)> = None;
    for count in 1..sorted.len() {
        left += sorted[count - 1].1;
        let key = sorted[count].0;
        let left_bytes = leaf_bytes(special, left, count);
        let right_bytes = leaf_bytes(special, total - left, sorted.len() - count);
        if key == sorted[count - 1].0 || left_bytes.max(right_bytes) > NODE_BYTES_MAX {
            continue;
        }
        let cost = match bias {
            Bias::Middle => left_bytes.max(right_bytes),
            Bias::Append => right_bytes,
            Bias::Prepend => left_bytes,
        };
        if best.is_none_or(|(least, _)| cost < least) {
            best = Some((cost, key));
        }
    }
    best.map(|(_, key)| key)
}

/// Bounds that separate the elements of one key from those before and behind.
fn bounds_around(sorted: &[(u64, usize)], key: u64) -> impl Iterator<Item = u64> {
    let before = (sorted[0].0 < key).then_some(key);
    let behind = sorted.iter().map(|&(other, _)| other).find(|&other| other > key);
    before.into_iter().chain(behind)
}
