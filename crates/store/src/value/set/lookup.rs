//! Lookups of many members in one set.
//!
//! The members of another set are looked for in the order of that set's leaves, which is the order
//! of the leaves here as well; within a leaf they are in no order. Lookups that follow each other
//! are therefore in the same few leaves, which are kept: they are found again without a descent.
//! Once a leaf was searched a few times, its strings are put into a hash table, which takes less
//! time than further searches.
//!
//! ```text
//! leaves of the other set     ├───── a c b ... ─────┼────── ...
//! leaves of this one       ──┼───────┼───────────┼──────┼─ ...
//!                            └─ kept together ───┘
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

/// Leaves that are kept: those of a set that is some times as long as the other one, beside one
/// leaf of that.
const LEAVES_MAX: usize = 8;

/// Searches of one leaf behind which its table is made. They take about as long as that does.
const SEARCHES_MAX: usize = 6;

/// Strings of a leaf below which no table is made.
const TABLE_STRINGS_MIN: usize = 16;

/// A set in which many members are looked for.
#[derive(Clone, Debug)]
pub struct MemberLookup<'g> {
    set: Set<'g>,
    /// Leaves of earlier lookups.
    leaves: Vec<KeptLeaf<'g>>,
    /// Index of the one that makes room for the next.
    oldest: usize,
}

impl<'g> MemberLookup<'g> {
    /// Lookups in a set.
    #[must_use]
    pub fn new(set: Set<'g>) -> MemberLookup<'g> {
        MemberLookup { set, leaves: Vec::new(), oldest: 0 }
    }

    /// True if a member is there. In any order; in less time for members in the order of
    /// [`Set::iter`].
    #[must_use]
    pub fn contains(&mut self, member: Member<'_>) -> bool {
        // A leaf alone is searched whatever the key, which takes time to compute.
        let is_leaf = self.set.root().is_leaf();
        let key = if is_leaf { 0 } else { member.key(self.set.seed()) };
        let index = self.leaves.iter().position(|leaf| leaf.has(key));
        let index = index.unwrap_or_else(|| self.descend(key));
        self.leaves[index].contains(member)
    }

    /// Keeps the leaf whose range holds a key, and returns its index.
    fn descend(&mut self, key: u64) -> usize {
        let (mut node, mut from, mut last) = (self.set.root(), 0, u64::MAX);
        while !node.is_leaf() {
            let (index, children) = (inner::find_key(node, key), node.children());
            let child = children[index].link();
            child.prefetch();
            if index > 0 {
                from = children[index].key;
            }
            last = children.get(index + 1).map_or(last, |next| next.key - 1);
            node = child.node();
        }
        if self.leaves.len() < LEAVES_MAX {
            self.leaves.push(KeptLeaf::new(node, (from, last)));
            return self.leaves.len() - 1;
        }
        let index = self.oldest;
        self.oldest = (index + 1) % LEAVES_MAX;
        let table = std::mem::take(&mut self.leaves[index].table);
        self.leaves[index] = KeptLeaf { table, ..KeptLeaf::new(node, (from, last)) };
        index
    }
}

/// A leaf in which members were looked for.
#[derive(Clone, Debug)]
struct KeptLeaf<'g> {
    leaf: Node<'g>,
    /// First and last key of its range.
    from: u64,
    last: u64,
    searches: usize,
    /// Strings of the leaf, if they were put there; else those of an earlier one.
    table: Table,
    is_table_filled: bool,
}

impl<'g> KeptLeaf<'g> {
    fn new(leaf: Node<'g>, (from, last): (u64, u64)) -> KeptLeaf<'g> {
        let table = Table::default();
        KeptLeaf { leaf, from, last, searches: 0, table, is_table_filled: false }
    }

    /// True if the leaf's range holds a key.
    #[inline]
    fn has(&self, key: u64) -> bool {
        (self.from..=self.last).contains(&key)
    }

    #[inline]
    fn contains(&mut self, member: Member<'_>) -> bool {
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
    let state = words
        .iter()
        .fold(string.len() as u64, |state, word| step(state, u64::from_le_bytes(*word)));
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
