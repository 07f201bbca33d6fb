//! Members of a set that other sets have, or that they lack.
//!
//! A lookup in a leaf of strings reads half of it. So where the other set is not much longer, its
//! members are looked up in a table of ours instead: each costs one hash and one probe. Members
//! come in the order of their keys, from leaf to leaf, which is the same in all sets: a table of
//! some thousand members, which stays in the processor's cache, needs only that range of the
//! others.

use tidemill_store::hash::Seed;
use tidemill_store::value::set::{Member, Set};

use super::table::{Table, WALKED_PER_LOOKUP};
use crate::error::CommandError;

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
/// leave the fewest members: each is asked for those only that the ones before it left.
pub(super) fn sift<'g>(
    first: Set<'g>,
    others: &[Set<'g>],
    kept: Kept,
    seed: &Seed,
    may_end: bool,
    mut visit: impl FnMut(Member<'g>) -> Result<bool, CommandError>,
) -> Result<(), CommandError> {
    let stays = |is_found: bool| is_found == (kept == Kept::Common);
    let (mut table, mut members) = (Table::default(), Vec::new());
    let (mut from, mut count) = (0, if may_end { LOOKED_UP_FIRST } else { TABLE_MEMBERS_MAX });
    loop {
        members.clear();
        let to = first.scan(from, count, |member| members.push(member));
        let part = members.len() as u64;
        // The first members are looked up one by one, where the walk may end at any of them.
        let looked_up = if count > LOOKED_UP_FIRST { &[] } else { others };
        for other in others.iter().skip(looked_up.len()) {
            // Members of the other set in this range, if they are as far apart in all ranges.
            let in_range = u128::from(other.len()) * u128::from(part) / u128::from(first.len());
            if in_range <= u128::from(WALKED_PER_LOOKUP) * members.len() as u128 {
                let mut is_found =
                    find_in(*other, (from, to), &members, (&mut table, seed))?.into_iter();
                members.retain(|_| stays(is_found.next().unwrap_or(false)));
            } else {
                members.retain(|&member| stays(other.contains(member)));
            }
        }
        for &member in &members {
            if looked_up.iter().all(|other| stays(other.contains(member))) && !visit(member)? {
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

/// Tells of each member whether `set` has it, by a walk over the leaves with keys between two
/// cursors; what the table had goes.
fn find_in<'g>(
    set: Set<'g>,
    (from, to): (u64, u64),
    members: &[Member<'g>],
    (table, seed): (&mut Table<'g>, &Seed),
) -> Result<Vec<bool>, CommandError> {
    table.refill(members.iter().copied(), seed)?;
    let mut is_found = vec![false; members.len()];
    walk(set, from, to, |member| {
        if let Some(position) = table.position(member, seed) {
            is_found[position] = true;
        }
    });
    Ok(is_found)
}
