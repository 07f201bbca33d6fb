//! Lookups of many members in one set.
//!
//! The members of another set are looked for in the order of that set's leaves, which is the order
//! of the leaves here as well. So most lookups find the leaf of the one before, without a descent.
//! After a few of them the strings of the leaf are put into a hash table, which is faster than
//! further searches of the leaf.
//!
//! ```text
//! members, by key    a  b  c  d  e  f  g ...
//!                    └─ searches ─┘ └─ table of the leaf
//! ```
//!
//! The hash of the table is not keyed. A client that makes members collide gets a search of one
//! leaf for each lookup, which is what [`Set::contains`] costs.

use super::member::Member;
use super::order;
use super::view::Set;
use crate::tree::inner;
use crate::tree::node::{Node, flags};
use crate::value::named::{Named, same};

/// Searches of one leaf behind which its table is made. They take about as long as that does.
const SEARCHES_MAX: usize = 6;

/// Strings of a leaf below which no table is made.
const TABLE_STRINGS_MIN: usize = 16;

/// A set in which many members are looked for.
#[derive(Clone, Debug)]
pub struct MemberLookup<'g> {
    set: Set<'g>,
    /// Leaf of the last lookup; at first the root, which need not be a leaf.
    leaf: Node<'g>,
    /// Keys of that leaf; none at first.
    from: u64,
    to: Option<u64>,
    /// Searches of that leaf.
    searches: usize,
    /// Strings of that leaf, if they were put there; else those of an earlier one.
    table: Table,
    is_table_filled: bool,
}

impl<'g> MemberLookup<'g> {
    /// Lookups in a set.
    #[must_use]
    pub fn new(set: Set<'g>) -> MemberLookup<'g> {
        let leaf = set.root();
        let to = if leaf.is_leaf() { None } else { Some(0) };
        let table = Table::default();
        MemberLookup { set, leaf, from: 0, to, searches: 0, table, is_table_filled: false }
    }

    /// True if a member is there. In any order; in less time for members in the order of
    /// [`Set::iter`].
    #[must_use]
    pub fn contains(&mut self, member: Member<'_>) -> bool {
        if !self.set.root().is_leaf() {
            let key = member.key(self.set.seed());
            if key < self.from || self.to.is_some_and(|to| key >= to) {
                self.descend(key);
            }
        }
        let Member::String(string) = member else {
            return order::Members::find(self.leaf, member).is_ok();
        };
        if !self.is_table_filled {
            if self.searches < SEARCHES_MAX || !has_table(self.leaf) {
                self.searches += 1;
                return order::Members::find(self.leaf, member).is_ok();
            }
            self.table.fill(self.leaf);
            self.is_table_filled = true;
        }
        self.table.contains(self.leaf.data(), string)
    }

    /// Goes to the leaf whose range holds a key.
    fn descend(&mut self, key: u64) {
        let mut node = self.set.root();
        (self.from, self.to) = (0, None);
        while !node.is_leaf() {
            let (index, children) = (inner::find_key(node, key), node.children());
            let child = children[index].link();
            child.prefetch();
            if index > 0 {
                self.from = children[index].key;
            }
            self.to = children.get(index + 1).map(|next| next.key).or(self.to);
            node = child.node();
        }
        (self.leaf, self.searches, self.is_table_filled) = (node, 0, false);
    }
}

/// True if a table of a leaf is worth it: it has many strings and nothing else.
fn has_table(leaf: Node<'_>) -> bool {
    leaf.has(flags::STRINGS)
        && leaf.len() >= TABLE_STRINGS_MIN
        && leaf.data().len() <= usize::from(u16::MAX)
}

/// Strings of a leaf by their hash, with open addressing. At most half of it is taken.
#[derive(Clone, Debug, Default)]
struct Table {
    places: Vec<Place>,
}

/// Place of a table: a string of the leaf, or none.
#[derive(Clone, Copy, Debug, Default)]
struct Place {
    /// Part of the hash, not zero; zero without a string.
    tag: u32,
    start: u16,
    length: u16,
}

impl Table {
    fn fill(&mut self, leaf: Node<'_>) {
        self.places.clear();
        self.places.resize((2 * leaf.len()).next_power_of_two(), Place::default());
        let mut start = 0;
        for element in leaf.elements() {
            let (tag, mut index) = self.begin(element);
            while self.places[index].tag != 0 {
                index = (index + 1) & (self.places.len() - 1);
            }
            self.places[index] = Place { tag, start: start as u16, length: element.len() as u16 };
            start += element.len();
        }
    }

    /// Tag of a string, and the index from which on it is.
    #[inline]
    fn begin(&self, string: &[u8]) -> (u32, usize) {
        let hash = hash(string);
        ((hash >> 32) as u32 | 1, (hash >> 16) as usize & (self.places.len() - 1))
    }

    #[inline]
    fn contains(&self, data: &[u8], string: &[u8]) -> bool {
        let (tag, mut index) = self.begin(string);
        loop {
            let place = self.places[index];
            if place.tag == 0 {
                return false;
            }
            let (start, length) = (usize::from(place.start), usize::from(place.length));
            if place.tag == tag
                && length == string.len()
                && same(&data[start..start + length], string)
            {
                return true;
            }
            index = (index + 1) & (self.places.len() - 1);
        }
    }
}

/// Hash of a string, of a few cycles.
#[inline]
fn hash(string: &[u8]) -> u64 {
    // 2^64 over the golden ratio, odd.
    const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
    let step = |state: u64, word: u64| {
        let product = (state ^ word).wrapping_mul(FACTOR);
        product ^ (product >> 32)
    };
    let (words, rest) = string.as_chunks::<8>();
    let state = words.iter().fold(string.len() as u64, |state, word| {
        step(state, u64::from_le_bytes(*word))
    });
    let last = rest.iter().fold(0, |word, &byte| word << 8 | u64::from(byte));
    step(state, last)
}

#[cfg(test)]
mod tests {
    use super::super::SetEdit;
    use super::*;
    use crate::hash::Seed;
    use crate::heap::Heap;

    /// Texts of a few lengths, and integers, of which each number makes one.
    fn text(number: usize) -> Vec<u8> {
        match number % 4 {
            0 => format!("{number}").into_bytes(),
            1 => format!("member-{number}").into_bytes(),
            2 => format!("a member with the same end {number} as all others have").into_bytes(),
            _ => number.to_le_bytes()[..2].to_vec(),
        }
    }

    fn member(text: &[u8], has_integers: bool) -> Member<'_> {
        let number = std::str::from_utf8(text).ok().and_then(|text| text.parse().ok());
        number.filter(|_| has_integers).map_or(Member::String(text), Member::Integer)
    }

    #[test]
    fn lookups_find_what_the_set_has() {
        let (heap, seed) = (Heap::new(), Seed::new(1, 2));
        for (count, has_integers) in
            [5, 20, 60, 3000].into_iter().flat_map(|count| [(count, false), (count, true)])
        {
            let mut edit = SetEdit::create(&seed, &heap);
            let mut other = SetEdit::create(&seed, &heap);
            for number in 0..count {
                edit.insert(member(&text(number), has_integers));
                other.insert(member(&text(number + count / 2), has_integers));
            }
            edit.insert(Member::String(&[]));
            let (set, other) = (edit.view().unwrap(), other.view().unwrap());
            // In the order of leaves, then in none.
            let mut lookup = MemberLookup::new(set);
            for member in other.iter().chain(set.iter()) {
                assert_eq!(lookup.contains(member), set.contains(member), "{member:?}");
            }
            assert!(lookup.contains(Member::String(&[])));
            for number in (0..2 * count).map(|number| number * 7919 % (2 * count)) {
                let text = text(number);
                let member = member(&text, has_integers);
                assert_eq!(lookup.contains(member), set.contains(member), "{member:?}");
            }
        }
    }
}
