//! Hashes: fields with values, each with an optional expiry.
//!
//! A hash of one leaf keeps the order in which its fields were added, as Redis's listpack does. A
//! longer one is ordered by the seeded hash of the field from leaf to leaf, while each leaf still
//! keeps the order of insertion: no order is needed inside a leaf, because finding a field compares
//! lengths and bytes in a row, and no hash is stored.
//!
//! ```text
//! element | field length * 2 + has expiry, as a varint | expiry: 8 bytes or none | field | value |
//! ```

use std::marker::PhantomData;

use crate::member::Section;
use smallvec::SmallVec;

use super::collection::{Collection, TreeEdit};
use super::kind::Kind;
use crate::hash::{Seed, hash};
use crate::heap::Heap;
use crate::tree::arena::Arena;
use crate::tree::check::check_tree;
use crate::tree::cursor::{Cursor, leaf_at, leaf_of};
use crate::tree::inner;
use crate::tree::leaf::{self, LeafPlan, Parts};
use crate::tree::node::{Expiries, Link, NEVER, Node, flags};
use crate::tree::order::{Order, sums};
use crate::tree::split::{Bias, split};
use crate::tree::update::{Pieces, TreePath};
use crate::tree::{Built, Root};

/// Order of fields by hash.
struct Fields;

impl Order for Fields {
    type Key = u64;

    fn expiries(leaf: Node<'_>) -> Expiries {
        if !leaf.has(flags::EXPIRES) {
            return Expiries::NONE;
        }
        let expiries = entries(leaf).map(|entry| entry.expires_at_ms);
        expiries.fold(Expiries::OF_NOTHING, Expiries::with)
    }
}

/// Key of a field in a hash of more than one leaf.
#[inline]
fn key_of(seed: &Seed, field: &[u8]) -> u64 {
    let key = hash(seed, field);
    #[cfg(test)]
    let key = key & tests::KEY_MASK.get();
    key
}

/// Bytes of the longest varint and an expiry.
type Prefix = SmallVec<[u8; 18]>;

fn prefix(field: &[u8], expires_at_ms: Option<u64>) -> Prefix {
    let mut prefix = Prefix::new();
    let mut rest = field.len() << 1 | usize::from(expires_at_ms.is_some());
    while rest >= 0x80 {
        prefix.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    prefix.push(rest as u8);
    if let Some(at_ms) = expires_at_ms {
        prefix.extend_from_slice(&at_ms.to_le_bytes());
    }
    prefix
}

/// Field with its value and expiry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'g> {
    /// The field's name.
    pub field: &'g [u8],
    /// Its value.
    pub value: &'g [u8],
    /// Time when it expires, in ms since the Unix epoch; an expired field stays here until it is
    /// removed.
    pub expires_at_ms: Option<u64>,
}

/// Result of [`Hash::get`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field<'g> {
    /// The value.
    pub value: &'g [u8],
    /// Time when the field expires, in ms since the Unix epoch.
    pub expires_at_ms: Option<u64>,
}

#[inline]
fn decode(element: &[u8]) -> Entry<'_> {
    let (mut head, mut at) = (usize::from(element[0]), 1);
    if head >= 0x80 {
        head &= 0x7f;
        loop {
            let byte = usize::from(element[at]);
            head |= (byte & 0x7f) << (7 * at);
            at += 1;
            if byte < 0x80 {
                break;
            }
        }
    }
    let mut rest = &element[at..];
    let mut expires_at_ms = None;
    if head & 1 != 0
        && let Some((expiry, behind)) = rest.split_first_chunk()
    {
        expires_at_ms = Some(u64::from_le_bytes(*expiry));
        rest = behind;
    }
    let (field, value) = rest.split_at(head >> 1);
    Entry { field, value, expires_at_ms }
}

fn entries<'g>(leaf: Node<'g>) -> impl Iterator<Item = Entry<'g>> {
    (0..leaf.len()).map(move |index| decode(leaf.element(index)))
}

/// Index of `field` in a leaf.
#[inline]
fn find(leaf: Node<'_>, field: &[u8]) -> Option<usize> {
    let data = leaf.data();
    let mut start = 0;
    for (index, end) in leaf.ends().enumerate() {
        if is_of(&data[start..end], field) {
            return Some(index);
        }
        start = end;
    }
    None
}

/// True if an element is of `field`.
#[inline]
fn is_of(element: &[u8], field: &[u8]) -> bool {
    let head = usize::from(element[0]);
    if head >= 0x80 || field.len() >= 0x40 {
        return decode(element).field == field;
    }
    let at = 1 + 8 * (head & 1);
    head >> 1 == field.len() && same(&element[at..at + field.len()], field)
}

/// Compares short slices of equal length without a call, from the end, where the names of fields
/// differ most.
#[inline]
fn same(left: &[u8], right: &[u8]) -> bool {
    match (left.last_chunk::<8>(), right.last_chunk::<8>()) {
        (Some(left_end), Some(right_end)) => {
            u64::from_ne_bytes(*left_end) == u64::from_ne_bytes(*right_end) && left == right
        }
        _ => left.iter().eq(right),
    }
}

/// One version of a hash, for as long as `'g`.
#[derive(Clone, Copy, Debug)]
pub struct Hash<'g> {
    root: Node<'g>,
    seed: &'g Seed,
}

impl<'g> Hash<'g> {
    /// Hash under a root, built with the same seed.
    ///
    /// # Safety
    ///
    /// `root` came from a [`HashEdit`] with this seed, and was reachable for readers at some moment
    /// of the section's lifetime `'g`, or is not yet published and not dropped for as long.
    #[must_use]
    pub unsafe fn from_root(root: Root, seed: &'g Seed, _section: Section<'g>) -> Hash<'g> {
        Hash { root: root.link().node(), seed }
    }

    /// Number of fields, expired ones included; never zero.
    #[must_use]
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> u64 {
        sums::<Fields>(self.root).measure
    }

    /// Allocated bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.root.bytes()
    }

    /// Asserts the invariants of the tree, in time linear in the length. For tests.
    #[doc(hidden)]
    pub fn check(&self) {
        let mut fields = std::collections::HashSet::new();
        check_tree::<Fields>(self.root.link(), &mut |leaf, from, to| {
            for entry in entries(leaf) {
                let key = key_of(self.seed, entry.field);
                assert!(key >= from && to.is_none_or(|to| key < to), "a field is in its range");
                assert!(fields.insert(entry.field.to_vec()), "a field is there once");
                assert!(entry.expires_at_ms.is_none() || leaf.has(flags::EXPIRES));
            }
        });
    }

    /// Value and expiry of a field.
    #[inline]
    #[must_use]
    pub fn get(&self, field: &[u8]) -> Option<Field<'g>> {
        let leaf = if self.root.is_leaf() {
            self.root
        } else {
            leaf_of(self.root.link(), key_of(self.seed, field))
        };
        let entry = decode(leaf.element(find(leaf, field)?));
        Some(Field { value: entry.value, expires_at_ms: entry.expires_at_ms })
    }

    /// All fields: in the order they were added if the hash is one leaf, else in an order without
    /// meaning.
    #[must_use]
    pub fn iter(&self) -> Entries<'g> {
        Entries { cursor: Cursor::descend(self.root.link(), |_| 0), next: 0 }
    }

    /// Fields from a position of [`Hash::iter`] on. In logarithmic time, then constant per field.
    #[must_use]
    pub fn iter_from(&self, index: u64) -> Entries<'g> {
        let (cursor, within) = Cursor::at_position(self.root.link(), index.min(self.len()));
        Entries { cursor, next: within as usize }
    }

    /// Field at a position of [`Hash::iter`], in logarithmic time: a random position picks a random
    /// field.
    #[must_use]
    pub fn nth(&self, index: u64) -> Option<Entry<'g>> {
        let (leaf, within) = leaf_at(self.root.link(), index);
        let within = usize::try_from(within).ok()?;
        (within < leaf.len()).then(|| decode(leaf.element(within)))
    }

    /// Visits at least `count` fields from a cursor on, and returns the cursor to go on from; zero
    /// begins and ends.
    ///
    /// Whole leaves are visited. A field that is there from the first call to the last is visited
    /// whatever happens to the others meanwhile; a field may be visited twice.
    pub fn scan(&self, cursor: u64, count: usize, mut visit: impl FnMut(Entry<'g>)) -> u64 {
        let mut place = Cursor::descend(self.root.link(), |node| inner::find_key(node, cursor));
        let mut visited = 0;
        loop {
            let leaf = place.leaf();
            entries(leaf).for_each(&mut visit);
            visited += leaf.len();
            let Some(next) = place.next_key() else { return 0 };
            if visited >= count || !place.advance() {
                return next;
            }
        }
    }

    /// Earliest expiry of any field, in ms since the Unix epoch. In constant time past one leaf.
    #[must_use]
    pub fn first_expiry(&self) -> Option<u64> {
        Some(sums::<Fields>(self.root).expiries.first).filter(|&at_ms| at_ms != NEVER)
    }

    /// Time when the last field will have expired, in ms since the Unix epoch; none if a field
    /// never does. In constant time past one leaf.
    #[must_use]
    pub fn last_expiry(&self) -> Option<u64> {
        Some(sums::<Fields>(self.root).expiries.last).filter(|&at_ms| at_ms != NEVER)
    }

    /// Visits fields that expire at `now_ms` or before, until `visit` returns false; reads only
    /// nodes that have some.
    pub fn due(&self, now_ms: u64, mut visit: impl FnMut(Entry<'g>) -> bool) {
        due_below(self.root, now_ms, &mut visit);
    }
}

fn due_below<'g>(node: Node<'g>, now_ms: u64, visit: &mut impl FnMut(Entry<'g>) -> bool) -> bool {
    if node.is_leaf() {
        let due = |entry: &Entry<'g>| entry.expires_at_ms.is_some_and(|at_ms| at_ms <= now_ms);
        return !node.has(flags::EXPIRES) || entries(node).filter(due).all(visit);
    }
    if node.totals().expiries.first > now_ms {
        return true;
    }
    node.children().iter().all(|child| due_below(child.link.node(), now_ms, visit))
}

/// Fields of a hash, each once.
#[derive(Clone, Debug)]
pub struct Entries<'g> {
    cursor: Cursor<'g>,
    next: usize,
}

impl<'g> Iterator for Entries<'g> {
    type Item = Entry<'g>;

    #[inline]
    fn next(&mut self) -> Option<Entry<'g>> {
        if self.next >= self.cursor.leaf().len() {
            if !self.cursor.advance() {
                return None;
            }
            self.next = 0;
        }
        self.next += 1;
        Some(decode(self.cursor.leaf().element(self.next - 1)))
    }
}

/// Next version of a hash, under construction.
#[derive(Debug)]
pub struct HashEdit<'h> {
    arena: Arena,
    heap: &'h Heap,
    seed: &'h Seed,
    root: Option<Link>,
    // Not `Send`: an edit belongs to the thread whose heap it counts in.
    marker: PhantomData<*const ()>,
}

impl<'h> HashEdit<'h> {
    /// A new, empty hash.
    #[must_use]
    pub fn create(seed: &'h Seed, heap: &'h Heap) -> HashEdit<'h> {
        HashEdit { arena: Arena::default(), heap, seed, root: None, marker: PhantomData }
    }

    /// Next version of the hash under `root`; of an empty one, if there is none.
    ///
    /// # Safety
    ///
    /// `root` came from a `HashEdit` with this seed, is the current version of its key, and no
    /// other code edits or retires it until this edit and the tree it built are gone.
    #[must_use]
    pub unsafe fn new(root: Option<Root>, seed: &'h Seed, heap: &'h Heap) -> HashEdit<'h> {
        HashEdit {
            root: root.map(Root::link),
            arena: Arena::from(root),
            ..HashEdit::create(seed, heap)
        }
    }

    /// Number of fields.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.root.map_or(0, |root| sums::<Fields>(root.node()).measure)
    }

    /// True if no field is left.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.root.is_none()
    }

    /// The hash as edited so far; none if it is empty.
    #[must_use]
    pub fn view(&self) -> Option<Hash<'_>> {
        self.root.map(|root| Hash { root: root.node(), seed: self.seed })
    }

    /// Value and expiry of a field as edited so far.
    #[must_use]
    pub fn get(&self, field: &[u8]) -> Option<Field<'_>> {
        self.view()?.get(field)
    }

    /// Sets a field's value and expiry (none: it never expires). True if the field is new.
    ///
    /// An existing field keeps its place in the order, a new one goes to the end.
    pub fn set(&mut self, field: &[u8], value: &[u8], expires_at_ms: Option<u64>) -> bool {
        let prefix = prefix(field, expires_at_ms);
        let parts: [&[u8]; 3] = [&prefix, field, value];
        let special = if expires_at_ms.is_some() { flags::EXPIRES } else { 0 };
        let Some(root) = self.root else {
            self.root = Some(leaf::single(&mut self.arena, special, &parts));
            return true;
        };
        let (path, link) = self.descend(root, field);
        let found = find(link.node(), field);
        self.put(path, link, found, special, &parts);
        found.is_none()
    }

    /// Sets or clears the expiry of a field, leaving its value. False if the field is not there.
    pub fn set_expiry(&mut self, field: &[u8], expires_at_ms: Option<u64>) -> bool {
        let Some(root) = self.root else { return false };
        let (path, link) = self.descend(root, field);
        let Some(found) = find(link.node(), field) else { return false };
        // Copied, because the old place of the value may be overwritten while the new one is
        // written.
        let value = decode(link.node().element(found)).value.to_vec();
        let prefix = prefix(field, expires_at_ms);
        let special = if expires_at_ms.is_some() { flags::EXPIRES } else { 0 };
        self.put(path, link, Some(found), special, &[&prefix, field, &value]);
        true
    }

    /// Removes a field. False if it is not there.
    pub fn remove(&mut self, field: &[u8]) -> bool {
        let Some(root) = self.root else { return false };
        let (path, link) = self.descend(root, field);
        let Some(at) = find(link.node(), field) else { return false };
        let plan = LeafPlan { leaf: link.node(), at, removed: 1, inserted: None };
        let pieces = if plan.len() == 0 {
            self.arena.discard(link);
            Pieces::new()
        } else {
            Pieces::from_iter([(plan.splice(&mut self.arena), 0)])
        };
        self.root = path.replace::<Fields>(&mut self.arena, pieces);
        true
    }

    /// Ends the edit.
    pub fn finish(self) -> Built<'h> {
        self.arena.finish(self.root, self.heap)
    }

    fn descend(&self, root: Link, field: &[u8]) -> (TreePath, Link) {
        if root.node().is_leaf() {
            return (TreePath::default(), root);
        }
        let key = key_of(self.seed, field);
        TreePath::descend::<Fields>(root, |node| inner::find_key(node, key))
    }

    /// Writes an element over the one found, or behind the last of its leaf.
    fn put(
        &mut self,
        path: TreePath,
        link: Link,
        found: Option<usize>,
        special: u8,
        parts: Parts<'_>,
    ) {
        let leaf = link.node();
        let at = found.unwrap_or(leaf.len());
        let removed = usize::from(found.is_some());
        let plan = LeafPlan { leaf, at, removed, inserted: Some(parts) };
        let pieces = if plan.fits() {
            Pieces::from_iter([(plan.splice(&mut self.arena), 0)])
        } else {
            let seed = self.seed;
            let key_of = |index: usize| plan.with(index, |parts| key_of(seed, field_of(parts)));
            let pieces = split(&mut self.arena, &plan, Bias::Middle, path.key(), key_of);
            self.arena.discard(link);
            pieces
        };
        if special & flags::EXPIRES != 0 {
            pieces.iter().for_each(|&(piece, _)| leaf::mark_expiring(piece));
        }
        self.root = path.replace::<Fields>(&mut self.arena, pieces);
    }
}

// SAFETY: no other type is of this kind; views and edits read what edits built.
unsafe impl Collection for Hash<'_> {
    const KIND: Kind = Kind::Hash;

    type View<'g> = Hash<'g>;

    type Edit<'h> = HashEdit<'h>;

    unsafe fn view<'g>(root: Root, seed: &'g Seed, section: Section<'g>) -> Hash<'g> {
        // SAFETY: the caller's promise.
        unsafe { Hash::from_root(root, seed, section) }
    }

    unsafe fn edit<'h>(root: Option<Root>, seed: &'h Seed, heap: &'h Heap) -> HashEdit<'h> {
        // SAFETY: the caller's promise.
        unsafe { HashEdit::new(root, seed, heap) }
    }
}

impl<'h> TreeEdit<'h> for HashEdit<'h> {
    fn base(&self) -> Option<Root> {
        self.arena.base()
    }

    fn finish(self) -> Built<'h> {
        self.finish()
    }

    fn has_volatile_items(&self) -> bool {
        self.root.is_some_and(|root| sums::<Fields>(root.node()).expiries.first != NEVER)
    }
}

/// Field of an element, which is given whole or as prefix, field and value.
fn field_of<'a>(parts: Parts<'a>) -> &'a [u8] {
    match parts {
        [element] => decode(element).field,
        [_, field, ..] => field,
        [] => &[],
    }
}

#[cfg(test)]
mod tests;
