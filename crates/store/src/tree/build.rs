//! New trees from elements in their order.

use std::marker::PhantomData;

use super::arena::Arena;
use super::inner;
use super::leaf::{LeafWriter, Parts, flags_for, leaf_bytes};
use super::limits::{CHILD_COUNT_MAX, NODE_BYTES_MAX};
use super::node::{Link, Node};
use super::order::Order;
use super::separator::{Place, Separator};
use super::sorted::{Sorted, bound_between};
use super::update::{child_of, sum_up};

/// Builder of a tree whose elements come in their order: each node is written once and full.
///
/// It keeps one leaf and at most 40 nodes of each level, and takes some 20 ns per element, where
/// single insertions descend for each.
#[derive(Debug)]
pub(crate) struct Builder<O: Order> {
    /// Flags of the leaves.
    special: u8,
    /// Bound between two leaves, of which the right one begins with a number.
    bound: fn(Node<'_>, Node<'_>, u64) -> O::Key,
    /// Number of the first element that waits.
    first_key: u64,
    /// Elements of the next leaf, end to end, and the end of each.
    data: Vec<u8>,
    ends: Vec<usize>,
    /// Bytes of the longest of them, or more.
    longest: usize,
    last_key: u64,
    /// Number of elements of `ends` behind which the leaf may end: those before the last number
    /// of several elements that must not be parted.
    separable: usize,
    last_leaf: Option<Link>,
    /// Nodes without a parent, from leaves upwards.
    levels: Vec<Vec<(Link, O::Key)>>,
    marker: PhantomData<O>,
}

impl<S: Sorted> Builder<S> {
    /// Builder of a tree whose leaves have the flags `special`.
    pub(crate) fn new(special: u8) -> Builder<S> {
        Builder::with_bound(special, |left, right, _| bound_between::<S>(left, right))
    }
}

impl<O: Order<Key = u64>> Builder<O> {
    /// Builder of a tree whose leaves need not be sorted, only the numbers from one to the next.
    pub(crate) fn by_numbers(special: u8) -> Builder<O> {
        Builder::with_bound(special, |_, _, first_key| first_key)
    }
}

impl<O: Order> Builder<O> {
    fn with_bound(special: u8, bound: fn(Node<'_>, Node<'_>, u64) -> O::Key) -> Builder<O> {
        Builder {
            special,
            bound,
            first_key: 0,
            data: Vec::new(),
            ends: Vec::new(),
            longest: 0,
            last_key: 0,
            separable: 0,
            last_leaf: None,
            levels: Vec::new(),
            marker: PhantomData,
        }
    }

    /// Gives the leaves other flags, from the one on that takes the next element.
    pub(crate) fn set_special(&mut self, special: u8) {
        self.special = special;
    }

    /// Adds an element, which is behind all before it.
    pub(crate) fn push(&mut self, arena: &mut Arena, place: Place<'_>, element: Parts<'_>) {
        let count = self.ends.len();
        if O::Key::TIED || count == 0 || place.key != self.last_key {
            self.separable = count;
        }
        if count == 0 {
            self.first_key = place.key;
        }
        debug_assert!(count == 0 || place.key >= self.last_key);
        self.last_key = place.key;
        let element_bytes: usize = element.iter().map(|part| part.len()).sum();
        let special = flags_for(self.special, self.longest.max(element_bytes));
        let bytes = leaf_bytes(special, self.data.len() + element_bytes, count + 1);
        if self.separable > 0 && bytes > NODE_BYTES_MAX {
            self.write_leaf(arena, self.separable);
            self.separable = 0;
            // Those that wait still have the number of this one.
            self.first_key = place.key;
        }
        element.iter().for_each(|part| self.data.extend_from_slice(part));
        self.ends.push(self.data.len());
        self.longest = self.longest.max(element_bytes);
    }

    /// Ends a leaf here: the number of the next element must be another than that of the last.
    pub(crate) fn end_leaf(&mut self, arena: &mut Arena) {
        if !self.ends.is_empty() {
            self.write_leaf(arena, self.ends.len());
            self.separable = 0;
        }
    }

    /// Root of the tree; none without elements.
    pub(crate) fn finish(mut self, arena: &mut Arena) -> Option<Link> {
        if !self.ends.is_empty() {
            self.write_leaf(arena, self.ends.len());
        }
        let mut level = 0;
        loop {
            let nodes = std::mem::take(self.levels.get_mut(level)?);
            if level + 1 == self.levels.len() && nodes.len() == 1 {
                return Some(nodes[0].0);
            }
            self.add_parent(arena, level, &nodes);
            level += 1;
        }
    }

    /// Writes a leaf of the first `count` elements that wait.
    fn write_leaf(&mut self, arena: &mut Arena, count: usize) {
        let data_bytes = self.ends[count - 1];
        let longest = longest_of(&self.ends[..count]);
        let special = flags_for(self.special, longest);
        let mut writer = LeafWriter::new(arena, special, data_bytes, count);
        let mut start = 0;
        for &end in &self.ends[..count] {
            writer.push(&[&self.data[start..end]]);
            start = end;
        }
        let leaf = writer.finish();
        self.data.drain(..data_bytes);
        self.ends.drain(..count);
        self.ends.iter_mut().for_each(|end| *end -= data_bytes);
        self.longest = longest_of(&self.ends);
        let bound = match self.last_leaf {
            Some(last) => (self.bound)(last.node(), leaf.node(), self.first_key),
            None => O::Key::of_key(0),
        };
        self.last_leaf = Some(leaf);
        self.add(arena, 0, (leaf, bound));
    }

    /// Adds a node to its level, and a parent of those before it when there are enough.
    fn add(&mut self, arena: &mut Arena, level: usize, node: (Link, O::Key)) {
        if self.levels.len() == level {
            self.levels.push(Vec::new());
        }
        if self.levels[level].len() == CHILD_COUNT_MAX {
            let nodes = std::mem::take(&mut self.levels[level]);
            self.add_parent(arena, level, &nodes);
        }
        self.levels[level].push(node);
    }

    fn add_parent(&mut self, arena: &mut Arena, level: usize, nodes: &[(Link, O::Key)]) {
        let children: Vec<_> = nodes.iter().map(child_of::<O>).collect();
        let parent = inner::build(arena, level as u8 + 1, &children);
        sum_up::<O>(parent);
        self.add(arena, level + 1, (parent, nodes[0].1));
    }
}

/// Bytes of the longest of some elements that lie end to end.
fn longest_of(ends: &[usize]) -> usize {
    let mut start = 0;
    ends.iter().map(|&end| end - std::mem::replace(&mut start, end)).max().unwrap_or(0)
}
