//! Members of a sorted set that others have, too, or that they lack.

use tidemill_store::hash::Seed;

use super::source::{Aggregate, Scored, Source};
use crate::error::CommandError;
use crate::handlers::set::{Table, WALKED_PER_LOOKUP};
use crate::memory;

/// Bound of what a table has. It is larger than that of sets, whose members are in the same order:
/// another sorted set is walked over whole for each table.
const PART_MEMBERS_MAX: u64 = 1 << 18;

/// Members of the first source that stay.
#[derive(Clone, Copy, Debug)]
pub(super) enum Kept {
    /// Those that all other sources have, with the scores put together.
    Common(Aggregate),
    /// Those that no other source has.
    Own,
}

/// Passes members of `first` that stay to `visit`, some at a time, until that returns false. The
/// first time it is those among the first `count`.
pub(super) fn sift<'g>(
    first: Source<'g>,
    others: &[Source<'g>],
    kept: Kept,
    (seed, count): (&Seed, u64),
    mut visit: impl FnMut(&[Scored<'g>]) -> Result<bool, CommandError>,
) -> Result<(), CommandError> {
    let mut members = first.iter().map(|(member, score)| (member, first.weigh_first(score)));
    let mut table = Table::default();
    let mut count = count.min(PART_MEMBERS_MAX);
    loop {
        let room = first.len().min(count) as usize;
        let mut part = memory::with_capacity(room)?;
        part.extend(members.by_ref().take(room));
        if part.is_empty() {
            return Ok(());
        }
        for source in others {
            keep(kept, &mut part, *source, (&mut table, seed))?;
        }
        if !visit(&part)? {
            return Ok(());
        }
        count = PART_MEMBERS_MAX.min(count * 4);
    }
}

/// Leaves the members that stay beside a source. One that is not much longer is walked over, and
/// its members are looked up in the table.
fn keep<'g>(
    kept: Kept,
    members: &mut Vec<Scored<'g>>,
    source: Source<'g>,
    (table, seed): (&mut Table<'g>, &Seed),
) -> Result<(), CommandError> {
    let stays = |is_found| is_found == matches!(kept, Kept::Common(_));
    let note = |all: &mut f64, score: f64| {
        if let Kept::Common(aggregate) = kept {
            *all = aggregate.combine(*all, score * source.weight);
        }
    };
    if source.len() > WALKED_PER_LOOKUP * members.len() as u64 {
        members.retain_mut(|(member, all)| {
            let score = source.score(*member);
            stays(score.map(|score| note(all, score)).is_some())
        });
        return Ok(());
    }
    table.refill(members.iter().map(|&(member, _)| member), seed)?;
    let mut is_found = memory::collect(members.iter().map(|_| false))?;
    for (member, score) in source.iter() {
        if let Some(position) = table.position(member, seed) {
            note(&mut members[position].1, score);
            is_found[position] = true;
        }
    }
    let mut is_found = is_found.into_iter();
    members.retain(|_| stays(is_found.next().unwrap_or(false)));
    Ok(())
}
