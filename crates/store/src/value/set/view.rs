//! Reading sets.

use super::edit::SetEdit;
use super::form::{self, member_at, member_of};
use super::member::Member;
use super::order::{self, is_sorted};
use crate::hash::Seed;
use crate::heap::Heap;
use crate::member::Section;
use crate::tree::Root;
use crate::tree::check::check_tree;
use crate::tree::node::{Node, Stride, flags};
use crate::tree::order::sums;
use crate::value::collection::Collection;
use crate::value::kind::Kind;
use crate::value::leaf_prefetch::LeafPrefetch;
use crate::value::named::{self, Elements};

/// One version of a set, for as long as `'g`.
#[derive(Clone, Copy, Debug)]
pub struct Set<'g> {
    root: Node<'g>,
    seed: &'g Seed,
}

impl<'g> Set<'g> {
    /// Set under a root, built with the same seed.
    ///
    /// # Safety
    ///
    /// `root` came from a [`SetEdit`] with this seed, and was reachable for readers at some moment
    /// of the section's lifetime `'g`, or is not yet published and not dropped for as long.
    #[must_use]
    pub unsafe fn from_root(root: Root, seed: &'g Seed, _section: Section<'g>) -> Set<'g> {
        Set::of_node(root.link().node(), seed)
    }

    pub(super) fn of_node(root: Node<'g>, seed: &'g Seed) -> Set<'g> {
        Set { root, seed }
    }

    pub(super) fn root(&self) -> Node<'g> {
        self.root
    }

    pub(super) fn seed(&self) -> &'g Seed {
        self.seed
    }

    /// Number of members; never zero.
    #[must_use]
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> u64 {
        sums::<order::Members>(self.root).measure
    }

    /// Allocated bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.root.bytes()
    }

    /// Asserts the invariants of the tree, in time linear in the length. For tests.
    #[doc(hidden)]
    pub fn check(&self) {
        let mut members = std::collections::HashSet::new();
        check_tree::<order::Members>(self.root.link(), &mut |leaf, from, to| {
            for member in form::members(leaf) {
                let key = member.key(self.seed);
                assert!(key >= from && to.is_none_or(|to| key < to), "a member is in its range");
                assert!(members.insert(format!("{member:?}")), "a member is there once");
            }
            let is_fixed = Stride::of(leaf.header().flags).is_some();
            assert!(!is_fixed || !leaf.has(flags::UNSORTED), "integers of one length are sorted");
            assert!(leaf.has(flags::UNSORTED) || is_sorted(leaf), "a leaf is searched by halves");
        });
    }

    /// Prefetch for a lookup of a member.
    #[must_use]
    #[inline]
    pub fn prefetch(&self, member: Member<'_>) -> LeafPrefetch<'g> {
        LeafPrefetch::of_key(self.root, member.key(self.seed))
    }

    /// True if a member is there.
    #[inline]
    #[must_use]
    pub fn contains(&self, member: Member<'_>) -> bool {
        named::element_of::<order::Members>(self.root, self.seed, member).is_some()
    }

    /// All members: in ascending order if they are integers and always were, in the order in which
    /// they were added if the set is one leaf, else in an order without meaning.
    #[must_use]
    pub fn iter(&self) -> Members<'g> {
        self.iter_from(0)
    }

    /// Members from a position of [`Set::iter`] on. In logarithmic time, then constant per member.
    #[must_use]
    pub fn iter_from(&self, index: u64) -> Members<'g> {
        Members(Elements::from(self.root, index.min(self.len())))
    }

    /// Member at a position of [`Set::iter`], in logarithmic time: a random position picks a random
    /// member.
    #[must_use]
    pub fn nth(&self, index: u64) -> Option<Member<'g>> {
        named::nth(self.root, index).map(|(leaf, index)| member_at(leaf, index))
    }

    /// Visits at least `count` members from a cursor on, and returns the cursor to go on from; zero
    /// begins and ends.
    ///
    /// Whole leaves are visited. A member that is there from the first call to the last is visited
    /// whatever happens to the others meanwhile; a member may be visited twice.
    pub fn scan(&self, cursor: u64, count: usize, mut visit: impl FnMut(Member<'g>)) -> u64 {
        named::scan(self.root, cursor, count, |leaf, element| visit(member_of(leaf, element)))
    }
}

/// Members of a set, each once.
#[derive(Clone, Debug)]
pub struct Members<'g>(Elements<'g>);

impl<'g> Iterator for Members<'g> {
    type Item = Member<'g>;

    #[inline]
    fn next(&mut self) -> Option<Member<'g>> {
        self.0.next().map(|(leaf, element)| member_of(leaf, element))
    }
}

// SAFETY: no other type is of this kind; views and edits read what edits built.
unsafe impl Collection for Set<'_> {
    const KIND: Kind = Kind::Set;

    type View<'g> = Set<'g>;

    type Edit<'h> = SetEdit<'h>;

    unsafe fn view<'g>(root: Root, seed: &'g Seed, section: Section<'g>) -> Set<'g> {
        // SAFETY: the caller's promise.
        unsafe { Set::from_root(root, seed, section) }
    }

    unsafe fn edit<'h>(root: Option<Root>, seed: &'h Seed, heap: &'h Heap) -> SetEdit<'h> {
        // SAFETY: the caller's promise.
        unsafe { SetEdit::new(root, seed, heap) }
    }
}
