//! Members of a set that other sets have, or that they lack.
//!
//! A lookup in a leaf of strings reads half of it. So where the other set is not much longer, its
//! members are looked up in a table of ours instead: each costs one hash and one probe. Members
//! come in the order of their keys, from leaf to leaf, which is the same in all sets: a table of
//! some thousand members, which stays in the processor's cache, needs only that range of the
//! others.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::{BuildHasherDefault, Hasher};

use tidemill_store::hash::Seed;
use tidemill_store::value::set::{Member, Set};

use crate::error::CommandError;

/// Members that are walked over in the time of one lookup.
const WALKED_PER_LOOKUP: u64 = 4;

/// Bound of what is allocated here: a table has these and a leaf's more.
const TABLE_MEMBERS_MAX: usize = 4096;

/// Members that are looked up before the first table is filled, where the walk may end early.
const LOOKED_UP_FIRST: usize = 64;

/// Members of the first set that stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kept {
    /// Those that all other sets have.
    Common,
    /// Those that no other set has.
    Own,
}

/// Passes members of `first` that stay to `visit`, in the order of [`Set::iter`], until that
/// returns false, which `may_end` tells beforehand. The others are best in the order in which they
/// leave the fewest members.
pub(super) fn sift<'g>(
    first: Set<'g>,
    others: &[Set<'g>],
    kept: Kept,
    seed: &Seed,
    may_end: bool,
    mut visit: impl FnMut(Member<'g>) -> Result<bool, CommandError>,
) -> Result<(), CommandError> {
    let is_walked = |other: &Set<'g>| other.len() / WALKED_PER_LOOKUP <= first.len();
    let needs_table = others.iter().any(is_walked);
    let fits = |is_found: bool| is_found == (kept == Kept::Common);
    let (mut table, mut members, mut stays) = (Table::default(), Vec::new(), Vec::new());
    let (mut from, mut count) = (0, if may_end { LOOKED_UP_FIRST } else { TABLE_MEMBERS_MAX });
    loop {
        members.clear();
        let to = first.scan(from, count, |member| members.push(member));
        let has_table = needs_table && count > LOOKED_UP_FIRST;
        stays.clear();
        stays.resize(members.len(), true);
        if has_table {
            table.fill(&members, seed)?;
            for other in others.iter().copied().filter(is_walked) {
                let mut is_found = vec![false; members.len()];
                walk(other, from, to, |member| {
                    if let Some(index) = table.position(member, seed) {
                        is_found[index] = true;
                    }
                });
                stays.iter_mut().zip(is_found).for_each(|(stays, found)| *stays &= fits(found));
            }
        }
        let looked_up = |other: &&Set<'g>| !has_table || !is_walked(other);
        for (&member, _) in members.iter().zip(&stays).filter(|&(_, &stays)| stays) {
            let mut looked_up = others.iter().filter(looked_up);
            if looked_up.all(|other| fits(other.contains(member))) && !visit(member)? {
                return Ok(());
            }
        }
        if to == 0 {
            return Ok(());
        }
        (from, count) = (to, TABLE_MEMBERS_MAX.min(count * 4));
    }
}

/// Visits the leaves of a set with keys between two cursors of a scan; zero as `to` is the end.
fn walk<'g>(set: Set<'g>, from: u64, to: u64, mut visit: impl FnMut(Member<'g>)) {
    let mut cursor = from;
    loop {
        cursor = set.scan(cursor, 1, &mut visit);
        if cursor == 0 || to != 0 && cursor >= to {
            return;
        }
    }
}

/// Members by their hash under the seed of all sets, which no client can choose collisions of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Hashed<'g> {
    hash: u64,
    member: Member<'g>,
}

impl<'g> Hashed<'g> {
    fn new(member: Member<'g>, seed: &Seed) -> Hashed<'g> {
        Hashed { hash: member.seeded_hash(seed), member }
    }
}

impl std::hash::Hash for Hashed<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.hash);
    }
}

/// A hash that is one already.
#[derive(Clone, Copy, Debug, Default)]
struct Ready(u64);

impl Hasher for Ready {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _: &[u8]) {
        unreachable!("only hashes are written");
    }

    /// The upper bits are nearly the same in all members of a table, which is a range of them; a
    /// map tells members apart by these first.
    fn write_u64(&mut self, hash: u64) {
        self.0 = hash.rotate_left(32);
    }
}

/// Positions of members.
#[derive(Debug, Default)]
pub(super) struct Table<'g> {
    positions: HashMap<Hashed<'g>, u32, BuildHasherDefault<Ready>>,
}

impl<'g> Table<'g> {
    fn fill(&mut self, members: &[Member<'g>], seed: &Seed) -> Result<(), CommandError> {
        self.positions.clear();
        for &member in members {
            self.insert(member, seed)?;
        }
        Ok(())
    }

    /// Adds a member at the next position; false if it is there.
    pub(super) fn insert(&mut self, member: Member<'g>, seed: &Seed) -> Result<bool, CommandError> {
        let count = self.positions.len();
        let bytes = count as u64 * size_of::<(Hashed<'_>, u32)>() as u64;
        self.positions.try_reserve(1).map_err(|_| CommandError::NoMemory(bytes))?;
        match self.positions.entry(Hashed::new(member, seed)) {
            Entry::Vacant(place) => {
                place.insert(count as u32);
                Ok(true)
            }
            Entry::Occupied(_) => Ok(false),
        }
    }

    fn position(&self, member: Member<'g>, seed: &Seed) -> Option<usize> {
        self.positions.get(&Hashed::new(member, seed)).map(|&position| position as usize)
    }

    pub(super) fn contains(&self, member: Member<'g>, seed: &Seed) -> bool {
        self.position(member, seed).is_some()
    }
}
