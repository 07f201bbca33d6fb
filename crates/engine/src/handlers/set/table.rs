//! Table of members in hand, for a walk over others.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::{BuildHasherDefault, Hasher};

use tidemill_store::hash::Seed;
use tidemill_store::value::set::Member;

use crate::error::CommandError;

/// Members that are walked over in the time of one lookup in a set or sorted set.
pub(crate) const WALKED_PER_LOOKUP: u64 = 4;

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
pub(crate) struct Table<'g> {
    positions: HashMap<Hashed<'g>, u32, BuildHasherDefault<Ready>>,
}

impl<'g> Table<'g> {
    /// The table of some members, in the memory of one that is used no more.
    pub(crate) fn refill(
        &mut self,
        members: impl Iterator<Item = Member<'g>>,
        seed: &Seed,
    ) -> Result<(), CommandError> {
        self.positions.clear();
        self.reserve(members.size_hint().0)?;
        for member in members {
            self.insert(member, seed)?;
        }
        Ok(())
    }

    fn reserve(&mut self, count: usize) -> Result<(), CommandError> {
        let bytes = (self.positions.len() + count) * size_of::<(Hashed<'_>, u32)>();
        self.positions.try_reserve(count).map_err(|_| CommandError::NoMemory(bytes as u64))
    }

    /// Adds a member at the next position; false if it is there.
    pub(crate) fn insert(&mut self, member: Member<'g>, seed: &Seed) -> Result<bool, CommandError> {
        self.reserve(1)?;
        let count = self.positions.len();
        match self.positions.entry(Hashed::new(member, seed)) {
            Entry::Vacant(place) => {
                place.insert(count as u32);
                Ok(true)
            }
            Entry::Occupied(_) => Ok(false),
        }
    }

    pub(crate) fn contains(&self, member: Member<'g>, seed: &Seed) -> bool {
        self.positions.contains_key(&Hashed::new(member, seed))
    }

    /// Position of a member.
    #[inline]
    pub(crate) fn position(&self, member: Member<'g>, seed: &Seed) -> Option<usize> {
        self.positions.get(&Hashed::new(member, seed)).map(|&position| position as usize)
    }
}
