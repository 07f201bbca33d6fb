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

use smallvec::SmallVec;

use super::collection::{Collection, TreeEdit};
use super::gathered::Gathered;
use super::kind::Kind;
use super::leaf_prefetch::LeafPrefetch;
use super::named::{self, Elements, Named, NamedEdit, Place, Repeated, key_of_bytes, same};
use crate::hash::Seed;
use crate::heap::Heap;
use crate::member::Section;
use crate::tree::build::Builder;
use crate::tree::check::check_tree;
use crate::tree::leaf::{self, Parts};
use crate::tree::node::{Expiries, Link, NEVER, Node, flags};
use crate::tree::order::{Order, sums};
use crate::tree::separator;
use crate::tree::{Built, BuiltLeaf, Root};

/// Order of fields by hash.
#[derive(Debug)]
struct Fields;

impl Order for Fields {
    type Key = u64;

    fn expiries(leaf: Node<'_>) -> Expiries {
        if !leaf.has(flags::EXPIRES) {
            return Expiries::NONE;
        }
        leaf.elements().map(expiry_of).fold(Expiries::OF_NOTHING, Expiries::with)
    }
}

impl Named for Fields {
    type Name<'a> = &'a [u8];

    #[inline]
    fn key_of(seed: &Seed, field: &[u8]) -> u64 {
        key_of_bytes(seed, field)
    }

    fn name_of<'a>(_leaf: Node<'_>, parts: Parts<'a>) -> &'a [u8] {
        match parts {
            [element] => decode(element).field,
            [_, field, ..] => field,
            [] => &[],
        }
    }

    /// A new field goes behind the last one of its leaf.
    #[inline]
    fn find(leaf: Node<'_>, field: &[u8]) -> Result<usize, usize> {
        let is_it = |element: &[u8]| is_of(element, field);
        // Behind a prefix of one byte, unless the name is long or some have an expiry.
        let found = if leaf.has(flags::EXPIRES) || field.len() >= PACKED_LENGTH {
            leaf.position(is_it)
        } else {
            position_by_end(leaf, field, is_it)
        };
        found.ok_or(leaf.len())
    }

    #[inline]
    fn set_flags(leaf: Link, special: u8, _is_part: bool) {
        if special & flags::EXPIRES != 0 {
            leaf::add_flags(leaf, special);
        }
    }
}

/// Length of the shortest name that has a longer prefix than one byte.
const PACKED_LENGTH: usize = 0x40;

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

/// Fields of a hash, in their order, to fill it with.
#[derive(Clone, Debug, Default)]
pub struct GatheredFields {
    /// Elements as leaves have them.
    elements: Gathered,
    expires: bool,
}

impl GatheredFields {
    /// Adds a field.
    pub fn push(&mut self, entry: Entry<'_>) {
        let Entry { field, value, expires_at_ms } = entry;
        self.elements.push(&[&prefix(field, expires_at_ms), field, value]);
        self.expires |= expires_at_ms.is_some();
    }

    /// The fields as elements.
    #[must_use]
    pub fn elements(&self) -> &Gathered {
        &self.elements
    }
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

/// Expiry of an element, which is decoded only if its field's name is long.
#[inline]
fn expiry_of(element: &[u8]) -> Option<u64> {
    match element {
        [head @ ..0x80, rest @ ..] => {
            rest.first_chunk().filter(|_| head & 1 != 0).map(|bytes| u64::from_le_bytes(*bytes))
        }
        _ => decode(element).expires_at_ms,
    }
}

fn entries<'g>(leaf: Node<'g>) -> impl Iterator<Item = Entry<'g>> {
    leaf.elements().map(decode)
}

/// Index of the element of a leaf of which `is_it` holds: that its field, which begins behind one
/// byte, is `field`. Ends of fields, where they differ most, are compared first.
#[inline]
fn position_by_end(leaf: Node<'_>, field: &[u8], is_it: impl Fn(&[u8]) -> bool) -> Option<usize> {
    let end = 1 + field.len();
    if let Some(last) = field.last_chunk::<8>() {
        leaf.position_with((end - 8, last), is_it)
    } else if let Some(last) = field.last_chunk::<4>() {
        leaf.position_with((end - 4, last), is_it)
    } else if let Some(last) = field.last_chunk::<2>() {
        leaf.position_with((end - 2, last), is_it)
    } else {
        leaf.position(is_it)
    }
}

/// True if an element is of `field`.
#[inline]
fn is_of(element: &[u8], field: &[u8]) -> bool {
    let head = usize::from(element[0]);
    if head >= 0x80 || field.len() >= PACKED_LENGTH {
        return decode(element).field == field;
    }
    let at = 1 + 8 * (head & 1);
    head >> 1 == field.len() && same(&element[at..at + field.len()], field)
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
                let key = key_of_bytes(self.seed, entry.field);
                assert!(key >= from && to.is_none_or(|to| key < to), "a field is in its range");
                assert!(fields.insert(entry.field.to_vec()), "a field is there once");
                assert!(entry.expires_at_ms.is_none() || leaf.has(flags::EXPIRES));
            }
        });
    }

    /// Prefetch for a lookup of a field.
    #[must_use]
    #[inline]
    pub fn prefetch(&self, field: &[u8]) -> LeafPrefetch<'g> {
        LeafPrefetch::of_key(self.root, key_of_bytes(self.seed, field))
    }

    /// Value and expiry of a field.
    #[inline]
    #[must_use]
    pub fn get(&self, field: &[u8]) -> Option<Field<'g>> {
        let entry = decode(named::element_of::<Fields>(self.root, self.seed, field)?);
        Some(Field { value: entry.value, expires_at_ms: entry.expires_at_ms })
    }

    /// All fields: in the order they were added if the hash is one leaf, else in an order without
    /// meaning.
    #[must_use]
    pub fn iter(&self) -> Entries<'g> {
        self.iter_from(0)
    }

    /// Fields from a position of [`Hash::iter`] on. In logarithmic time, then constant per field.
    #[must_use]
    pub fn iter_from(&self, index: u64) -> Entries<'g> {
        Entries(Elements::from(self.root, index.min(self.len())))
    }

    /// Field at a position of [`Hash::iter`], in logarithmic time: a random position picks a random
    /// field.
    #[must_use]
    pub fn nth(&self, index: u64) -> Option<Entry<'g>> {
        named::nth(self.root, index).map(|(leaf, index)| decode(leaf.element(index)))
    }

    /// Visits at least `count` fields from a cursor on, and returns the cursor to go on from; zero
    /// begins and ends.
    ///
    /// Whole leaves are visited. A field that is there from the first call to the last is visited
    /// whatever happens to the others meanwhile; a field may be visited twice.
    pub fn scan(&self, cursor: u64, count: usize, mut visit: impl FnMut(Entry<'g>)) -> u64 {
        named::scan(self.root, cursor, count, |_, element| visit(decode(element)))
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
    node.children().iter().all(|child| due_below(child.link().node(), now_ms, visit))
}

/// Fields of a hash, each once.
#[derive(Clone, Debug)]
pub struct Entries<'g>(Elements<'g>);

impl<'g> Iterator for Entries<'g> {
    type Item = Entry<'g>;

    #[inline]
    fn next(&mut self) -> Option<Entry<'g>> {
        self.0.next().map(|(_, element)| decode(element))
    }
}

/// Next version of a hash, under construction.
#[derive(Debug)]
pub struct HashEdit<'h> {
    tree: NamedEdit<'h, Fields>,
}

impl<'h> HashEdit<'h> {
    /// A new, empty hash.
    #[must_use]
    pub fn create(seed: &'h Seed, heap: &'h Heap) -> HashEdit<'h> {
        // SAFETY: there is no root.
        unsafe { HashEdit::new(None, seed, heap) }
    }

    /// Next version of the hash under `root`; of an empty one, if there is none.
    ///
    /// # Safety
    ///
    /// `root` came from a `HashEdit` with this seed, is the current version of its key, and no
    /// other code edits or retires it until this edit and the tree it built are gone.
    #[must_use]
    pub unsafe fn new(root: Option<Root>, seed: &'h Seed, heap: &'h Heap) -> HashEdit<'h> {
        // SAFETY: the caller's promise.
        HashEdit { tree: unsafe { NamedEdit::new(root, seed, heap) } }
    }

    /// Number of fields.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.tree.len()
    }

    /// True if no field is left.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.tree.root().is_none()
    }

    /// The hash as edited so far; none if it is empty.
    #[must_use]
    pub fn view(&mut self) -> Option<Hash<'_>> {
        self.tree.settle();
        self.tree.root().map(|root| Hash { root, seed: self.tree.seed() })
    }

    /// Value and expiry of a field as edited so far.
    #[must_use]
    pub fn get(&mut self, field: &[u8]) -> Option<Field<'_>> {
        self.view()?.get(field)
    }

    /// Looks a field up, to be changed by what is there.
    pub fn place<'e>(&'e mut self, field: &'e [u8]) -> FieldPlace<'e, 'h> {
        let place = self.tree.place_of(field);
        FieldPlace { tree: &mut self.tree, field, place }
    }

    /// Sets a field's value and expiry (none: it never expires). True if the field is new.
    ///
    /// An existing field keeps its place in the order, a new one goes to the end.
    pub fn set(&mut self, field: &[u8], value: &[u8], expires_at_ms: Option<u64>) -> bool {
        self.place(field).set(value, expires_at_ms)
    }

    /// Fills an empty hash, each node of which is written once.
    ///
    /// # Errors
    ///
    /// When a field is there twice; the hash stays empty.
    pub fn fill(&mut self, fields: &GatheredFields) -> Result<(), Repeated> {
        let GatheredFields { elements, expires } = fields;
        let special = named::with_table(if *expires { flags::EXPIRES } else { 0 });
        let name = |index| decode(elements.get(index)).field;
        let seed = self.tree.seed();
        let key_of = |field: &[u8]| key_of_bytes(seed, field);
        if leaf::fitting_count(special, elements.iter()) == elements.len() {
            named::check_distinct(elements.len(), name, key_of)?;
            // One leaf keeps the order.
            self.tree.build(|arena| leaf::of_elements(arena, special, elements.iter()));
            return Ok(());
        }
        let keyed = named::keyed(elements.len(), name, key_of)?;
        self.tree.build(|arena| {
            let mut builder = Builder::<Fields>::by_numbers(special);
            for (key, index) in keyed {
                let place = separator::Place { key, tie: &[] };
                builder.push(arena, place, &[elements.get(index)]);
            }
            builder.finish(arena)
        });
        Ok(())
    }

    /// Sets or clears the expiry of a field, leaving its value. False if the field is not there.
    pub fn set_expiry(&mut self, field: &[u8], expires_at_ms: Option<u64>) -> bool {
        self.place(field).set_expiry(expires_at_ms)
    }

    /// Removes a field. False if it is not there.
    pub fn remove(&mut self, field: &[u8]) -> bool {
        self.place(field).remove()
    }

    /// Ends the edit.
    pub fn finish(self) -> Built<'h> {
        self.tree.finish()
    }
}

/// Field of a hash that is being edited, looked up once. Dropping it changes nothing.
#[derive(Debug)]
pub struct FieldPlace<'e, 'h> {
    tree: &'e mut NamedEdit<'h, Fields>,
    field: &'e [u8],
    place: Option<Place>,
}

impl FieldPlace<'_, '_> {
    /// Value and expiry of the field, if it is there.
    #[must_use]
    pub fn get(&self) -> Option<Field<'_>> {
        let Entry { value, expires_at_ms, .. } = decode(self.place.as_ref()?.element()?);
        Some(Field { value, expires_at_ms })
    }

    /// As [`HashEdit::set`].
    pub fn set(self, value: &[u8], expires_at_ms: Option<u64>) -> bool {
        let is_new = self.place.as_ref().and_then(Place::element).is_none();
        self.write(value, expires_at_ms);
        is_new
    }

    /// As [`HashEdit::set_expiry`].
    pub fn set_expiry(self, expires_at_ms: Option<u64>) -> bool {
        // Copied, because the old place of the value may be overwritten while the new one is
        // written.
        let Some(value) = self.get().map(|found| found.value.to_vec()) else { return false };
        self.write(&value, expires_at_ms);
        true
    }

    /// As [`HashEdit::remove`].
    pub fn remove(self) -> bool {
        self.place.is_some_and(|place| self.tree.remove(place))
    }

    fn write(self, value: &[u8], expires_at_ms: Option<u64>) {
        let special = if expires_at_ms.is_some() { flags::EXPIRES } else { 0 };
        let prefix = prefix(self.field, expires_at_ms);
        self.tree.write(self.place, special, &[&prefix, self.field, value]);
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
        self.tree.base()
    }

    fn finish(self) -> Built<'h> {
        self.finish()
    }

    fn finish_leaf(&mut self) -> Option<BuiltLeaf<'h>> {
        self.tree.finish_leaf()
    }

    fn has_volatile_items(&self) -> bool {
        self.tree.root().is_some_and(|root| sums::<Fields>(root).expiries.first != NEVER)
    }
}

#[cfg(test)]
mod tests;
