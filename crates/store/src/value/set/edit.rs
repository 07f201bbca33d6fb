//! Changing sets.

use super::form::{self, stride_of};
use super::member::{Encoded, GatheredMembers, KeyedMember, Member, decode};
use super::order::{Members, special};
use super::view::Set;
use crate::hash::Seed;
use crate::heap::Heap;
use crate::tree::build::Builder;
use crate::tree::leaf;
use crate::tree::node::{Stride, flags};
use crate::tree::separator::Place;
use crate::tree::{Built, Root};
use crate::value::collection::TreeEdit;
use crate::value::named::{self, NamedEdit, Repeated, with_table};

/// Next version of a set, under construction.
#[derive(Debug)]
pub struct SetEdit<'h> {
    tree: NamedEdit<'h, Members>,
}

impl<'h> SetEdit<'h> {
    /// A new, empty set.
    #[must_use]
    pub fn create(seed: &'h Seed, heap: &'h Heap) -> SetEdit<'h> {
        // SAFETY: there is no root.
        unsafe { SetEdit::new(None, seed, heap) }
    }

    /// Next version of the set under `root`; of an empty one, if there is none.
    ///
    /// # Safety
    ///
    /// `root` came from a `SetEdit` with this seed, is the current version of its key, and no other
    /// code edits or retires it until this edit and the tree it built are gone.
    #[must_use]
    pub unsafe fn new(root: Option<Root>, seed: &'h Seed, heap: &'h Heap) -> SetEdit<'h> {
        // SAFETY: the caller's promise.
        SetEdit { tree: unsafe { NamedEdit::new(root, seed, heap) } }
    }

    /// Number of members.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.tree.len()
    }

    /// True if no member is left.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.tree.root().is_none()
    }

    /// The set as edited so far; none if it is empty. No change of a set is deferred: each of them
    /// changes the number of members.
    #[must_use]
    pub fn view(&self) -> Option<Set<'_>> {
        self.tree.root().map(|root| Set::of_node(root, self.tree.seed()))
    }

    /// Adds a member; true if it is new. The member must not lie in this edit's own nodes.
    pub fn insert(&mut self, member: Member<'_>) -> bool {
        let place = self.tree.place_of(member);
        if place.as_ref().is_some_and(named::Place::is_taken) {
            return false;
        }
        let stride = match (&place, member) {
            (None, Member::Integer(value)) => Some(stride_of(value)),
            (None, Member::String(_)) => None,
            (Some(place), _) => Stride::of(place.leaf().header().flags),
        };
        match (place, stride, member) {
            (place, Some(stride), Member::Integer(value)) if stride_of(value) <= stride => {
                let special = if place.is_none() { stride.flags() } else { 0 };
                self.tree.write(place, special, &[&value.to_le_bytes()[..stride.bytes()]]);
            }
            (place, None, Member::String(string)) if has_strings(place.as_ref()) => {
                self.tree.write(place, special(member), &[string]);
            }
            (Some(place), _, _) if form::is_plain(place.leaf()) => {
                self.tree.reform(place, |arena, leaf, at| form::reform(arena, leaf, at, member));
            }
            (place, _, _) => {
                let special = special(member) & !flags::STRINGS;
                self.tree.write(place, special, &Encoded::of(member).parts());
            }
        }
        true
    }

    /// Fills an empty set with distinct members in the order of [`KeyedMember::sort`]. Each node is
    /// written once.
    pub fn fill(&mut self, members: &[KeyedMember<'_>]) {
        debug_assert!(members.is_sorted_by_key(KeyedMember::order));
        self.tree.build(|arena| {
            let mut builder = Builder::<Members>::by_numbers(0);
            let mut rest = members;
            while let Some(run) = form::run(rest) {
                builder.set_special(run.stride.flags());
                for &KeyedMember { key, member } in &rest[..run.count] {
                    if let Member::Integer(value) = member {
                        let bytes = &value.to_le_bytes()[..run.stride.bytes()];
                        builder.push(arena, Place { key, tie: &[] }, &[bytes]);
                    }
                }
                builder.end_leaf(arena);
                rest = &rest[run.count..];
            }
            // Strings are behind all integers: a leaf of both is as unsorted as they are.
            let has_integers =
                rest.first().is_some_and(|keyed| matches!(keyed.member, Member::Integer(_)));
            let strings = if has_integers { 0 } else { flags::STRINGS };
            builder.set_special(with_table(flags::UNSORTED | strings));
            for &KeyedMember { key, member } in rest {
                let place = Place { key, tie: &[] };
                match member {
                    Member::String(string) if !has_integers => {
                        builder.push(arena, place, &[string]);
                    }
                    _ => builder.push(arena, place, &Encoded::of(member).parts()),
                }
            }
            builder.finish(arena)
        });
    }

    /// As [`SetEdit::fill`], with members in any order, which one leaf of strings keeps.
    ///
    /// # Errors
    ///
    /// When a member is there twice; the set stays empty.
    pub fn fill_with(&mut self, members: &GatheredMembers) -> Result<(), Repeated> {
        let seed = self.tree.seed();
        let key_of = |member: Member<'_>| member.key(seed);
        let (count, member) = (members.elements.len(), |index| decode(members.elements.get(index)));
        let special = with_table(flags::UNSORTED | flags::STRINGS);
        let strings = members.elements.iter().map(|element| &element[1..]);
        if leaf::fitting_count(special, strings.clone()) == count {
            named::check_distinct(count, member, key_of)?;
            if members.has_integers {
                members.iter().for_each(|member| assert!(self.insert(member)));
            } else {
                self.tree.build(|arena| leaf::of_elements(arena, special, strings));
            }
            return Ok(());
        }
        let keyed = named::keyed(count, member, key_of)?.into_iter();
        let mut keyed: Vec<_> =
            keyed.map(|(key, index)| KeyedMember { key, member: member(index) }).collect();
        if members.has_integers {
            KeyedMember::sort(&mut keyed);
        }
        self.fill(&keyed);
        Ok(())
    }

    /// Removes a member. False if it is not there.
    pub fn remove(&mut self, member: Member<'_>) -> bool {
        let Some(place) = self.tree.place_of(member) else { return false };
        self.tree.remove(place)
    }

    /// Ends the edit.
    pub fn finish(self) -> Built<'h> {
        self.tree.finish()
    }
}

/// True if a string is written without a tag at a place, or in an empty set.
fn has_strings(place: Option<&named::Place>) -> bool {
    place.is_none_or(|place| place.leaf().has(flags::STRINGS))
}

impl<'h> TreeEdit<'h> for SetEdit<'h> {
    fn base(&self) -> Option<Root> {
        self.tree.base()
    }

    fn finish(self) -> Built<'h> {
        self.finish()
    }
}
