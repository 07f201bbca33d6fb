//! Intersections, unions and differences of several sets.

use std::iter::Peekable;

use tidemill_resp::encode::Aggregate;
use tidemill_store::hash::Seed;
use tidemill_store::value::set::{KeyedMember, Member, Members, Set};
use tidemill_store::{Encoding, EntryRef, Kind};

use super::encoding::Thresholds;
use super::member::{answer, text_bytes};
use super::sift::{Kept, sift};
use super::table::{Table, WALKED_PER_LOOKUP};
use crate::access::context::Cx;
use crate::access::options::{integer, is};
use crate::access::outcome::Outcome;
use crate::commit::{Event, EventClass};
use crate::error::CommandError;
use crate::limits::{ELEMENT_OVERHEAD_BYTES, INSERTED_MEMBERS_MAX};
use crate::memory;

/// A set that is combined with others.
#[derive(Clone, Copy)]
struct Source<'g> {
    set: Set<'g>,
    encoding: Encoding,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operation {
    Intersection,
    Union,
    Difference,
}

impl Operation {
    /// Operation of a command, by its name, with the event of what it stores.
    fn of_command(name: &str) -> (Operation, Event) {
        let (operation, event) = match name {
            "sinter" | "sinterstore" => (Operation::Intersection, "sinterstore"),
            "sunion" | "sunionstore" => (Operation::Union, "sunionstore"),
            _ => (Operation::Difference, "sdiffstore"),
        };
        (operation, Event::new(EventClass::SET, event))
    }

    /// Passes the members of the result to `visit`, each once.
    fn visit<'g>(
        self,
        sources: &[Option<Source<'g>>],
        seed: &Seed,
        mut visit: impl FnMut(Member<'g>) -> Result<(), CommandError>,
    ) -> Result<(), CommandError> {
        match self {
            Operation::Intersection => {
                intersect(sources, seed, false, |member| visit(member).map(|()| true))
            }
            Operation::Union => unite(sources, seed, visit),
            Operation::Difference => subtract(sources, seed, visit),
        }
    }

    /// Encoding of the result when it is stored. It follows from the order in which Valkey adds
    /// members to it, some of which it removes again.
    fn encoding(
        self,
        thresholds: &Thresholds,
        sources: &[Option<Source<'_>>],
        result: &[Member<'_>],
    ) -> Result<Encoding, CommandError> {
        let members = || result.iter().copied();
        match self {
            Operation::Intersection => {
                let is_integer = |member| matches!(member, Member::Integer(_));
                if members().all(is_integer) && thresholds.fits_intset(result.len() as u64) {
                    return Ok(Encoding::Intset);
                }
                let shortest = sources.iter().flatten().min_by_key(|source| source.set.len());
                let from = match shortest.map(|source| source.encoding) {
                    Some(Encoding::Intset) => Encoding::Intset,
                    _ => Encoding::Listpack,
                };
                Ok(thresholds.of_members(from, members()))
            }
            Operation::Difference if is_better_removed(sources) => {
                let first = sources.first().and_then(|source| *source);
                let all = first.into_iter().flat_map(|source| source.set.iter());
                Ok(thresholds.of_members(Encoding::Intset, all))
            }
            Operation::Union | Operation::Difference => {
                Ok(thresholds.of_members(Encoding::Intset, members()))
            }
        }
    }
}

/// The sets that exist, from the shortest to the longest.
fn by_length<'g>(sources: &[Option<Source<'g>>]) -> Result<Vec<Source<'g>>, CommandError> {
    let mut sorted = memory::collect(sources.iter().flatten().copied())?;
    sorted.sort_unstable_by_key(|source| source.set.len());
    Ok(sorted)
}

/// Passes members that all sets have to `visit`, until that returns false, which `may_end` tells
/// beforehand.
fn intersect<'g>(
    sources: &[Option<Source<'g>>],
    seed: &Seed,
    may_end: bool,
    mut visit: impl FnMut(Member<'g>) -> Result<bool, CommandError>,
) -> Result<(), CommandError> {
    if sources.iter().any(Option::is_none) {
        return Ok(());
    }
    let sorted = by_length(sources)?;
    let Some((shortest, longer)) = sorted.split_first() else { return Ok(()) };
    if shortest.encoding == Encoding::Intset {
        let walked_max = shortest.set.len().saturating_mul(WALKED_PER_LOOKUP);
        let mut others =
            memory::collect(longer.iter().map(|&source| Other::of(source, walked_max)))?;
        for member in shortest.set.iter() {
            if others.iter_mut().all(|other| other.contains(member)) && !visit(member)? {
                break;
            }
        }
        return Ok(());
    }
    let longer = memory::collect(longer.iter().map(|source| source.set))?;
    sift(shortest.set, &longer, Kept::Common, seed, may_end, visit)
}

fn is_before(one: Member<'_>, other: Member<'_>) -> bool {
    matches!((one, other), (Member::Integer(one), Member::Integer(other)) if one < other)
}

/// A set in which integers that ascend are looked for.
enum Other<'g> {
    Unordered(Set<'g>),
    /// Integers that ascend, too, from the last one that was looked for.
    Ascending(Peekable<Members<'g>>),
}

impl<'g> Other<'g> {
    /// `walked_max`: length up to which integers are walked over.
    fn of(source: Source<'g>, walked_max: u64) -> Other<'g> {
        if source.encoding == Encoding::Intset && source.set.len() <= walked_max {
            Other::Ascending(source.set.iter().peekable())
        } else {
            Other::Unordered(source.set)
        }
    }

    fn contains(&mut self, member: Member<'g>) -> bool {
        match self {
            Other::Unordered(set) => set.contains(member),
            Other::Ascending(members) => {
                while members.next_if(|&next| is_before(next, member)).is_some() {}
                members.peek() == Some(&member)
            }
        }
    }
}

fn unite<'g>(
    sources: &[Option<Source<'g>>],
    seed: &Seed,
    mut visit: impl FnMut(Member<'g>) -> Result<(), CommandError>,
) -> Result<(), CommandError> {
    let mut seen = Table::default();
    let mut rest = sources.iter().flatten().peekable();
    while let Some(source) = rest.next() {
        let is_last = rest.peek().is_none();
        for member in source.set.iter() {
            // Nothing comes behind the last set that its members could be equal to.
            let is_new =
                if is_last { !seen.contains(member, seed) } else { seen.insert(member, seed)? };
            if is_new {
                visit(member)?;
            }
        }
    }
    Ok(())
}

/// Passes the members of the first set that no other has to `visit`.
fn subtract<'g>(
    sources: &[Option<Source<'g>>],
    seed: &Seed,
    mut visit: impl FnMut(Member<'g>) -> Result<(), CommandError>,
) -> Result<(), CommandError> {
    let Some((Some(first), others)) = sources.split_first() else { return Ok(()) };
    let mut others = memory::collect(by_length(others)?.into_iter().map(|source| source.set))?;
    let lookups = others.iter().map(Set::len).fold(0, u64::saturating_add);
    // The sieve builds a table of the first set's members for each of the others.
    let sifted = first.set.len().saturating_mul(others.len() as u64);
    if lookups.saturating_mul(WALKED_PER_LOOKUP) < sifted {
        let mut removed = Table::default();
        for member in others.iter().flat_map(Set::iter) {
            if first.set.contains(member) {
                removed.insert(member, seed)?;
            }
        }
        return first
            .set
            .iter()
            .filter(|&member| !removed.contains(member, seed))
            .try_for_each(visit);
    }
    // A member is found in the longest first, most likely.
    others.reverse();
    sift(first.set, &others, Kept::Own, seed, false, |member| visit(member).map(|()| true))
}

/// True if a difference takes less when the members of the other sets are looked up in the first
/// one than the other way round, by Valkey's estimate.
fn is_better_removed(sources: &[Option<Source<'_>>]) -> bool {
    let length = |source: &Source<'_>| u128::from(source.set.len());
    let Some(Some(first)) = sources.first() else { return false };
    let present = || sources.iter().flatten();
    let by_first = present().count() as u128 * length(first) / 2;
    by_first > present().map(length).sum()
}

/// Sets under the keys from argument `from` to before `end`, read without a change.
fn read<'g>(
    cx: &mut Cx<'_, 'g>,
    (from, end): (usize, usize),
) -> Result<Vec<Option<Source<'g>>>, CommandError> {
    let mut sources = memory::with_capacity(end - from)?;
    for index in from..end {
        let entry = cx.read_kind(cx.arg(index), Kind::Set)?;
        sources.push(entry.and_then(|entry| source_of(cx, entry)));
    }
    Ok(sources)
}

fn source_of<'g>(cx: &Cx<'_, 'g>, entry: EntryRef<'g>) -> Option<Source<'g>> {
    let set = entry.view::<Set<'_>>(cx.seed())?;
    Some(Source { set, encoding: entry.encoding() })
}

/// `SINTER`, `SUNION` and `SDIFF`.
pub(super) fn combine(cx: &mut Cx<'_, '_>) -> Outcome {
    let (operation, _) = Operation::of_command(cx.command.name);
    let sources = read(cx, (1, cx.args.len()))?;
    let reply = cx.reply.begin(Aggregate::Set);
    let mut count = 0;
    operation.visit(&sources, cx.seed(), |member| {
        answer(cx.reply, member);
        count += 1;
        Ok(())
    })?;
    cx.reply.end_with(reply, count);
    Ok(())
}

pub(super) fn sintercard(cx: &mut Cx<'_, '_>) -> Outcome {
    let key_count = integer(cx.arg(1))
        .ok()
        .and_then(|count| usize::try_from(count).ok())
        .filter(|&count| count > 0)
        .ok_or("ERR numkeys should be greater than 0")?;
    if key_count > cx.args.len() - 2 {
        return Err("ERR Number of keys can't be greater than number of args".into());
    }
    let end = 2 + key_count;
    let mut limit = 0; // none
    let mut index = end;
    while index < cx.args.len() {
        if !is(cx.arg(index), "LIMIT") || index + 1 == cx.args.len() {
            return Err(CommandError::Syntax.into());
        }
        limit = integer(cx.arg(index + 1))
            .ok()
            .and_then(|limit| u64::try_from(limit).ok())
            .ok_or("ERR LIMIT can't be negative")?;
        index += 2;
    }
    let sources = read(cx, (2, end))?;
    let mut count = 0;
    intersect(&sources, cx.seed(), limit > 0, |_| {
        count += 1;
        Ok(count != limit)
    })?;
    cx.reply.integer(count as i64);
    Ok(())
}

/// `SINTERSTORE`, `SUNIONSTORE` and `SDIFFSTORE`: the result takes the place of whatever is under
/// the first key; an empty one leaves nothing there.
pub(super) fn combine_and_store(cx: &mut Cx<'_, '_>) -> Outcome {
    let (operation, event) = Operation::of_command(cx.command.name);
    let (args, target) = (cx.args, cx.arg(1));
    let mut sources = memory::with_capacity(args.len() - 2)?;
    for key in args.iter().skip(2) {
        let entry = cx.source(key);
        if entry.is_some_and(|entry| entry.kind() != Kind::Set) {
            return Err(CommandError::WrongType.into());
        }
        sources.push(entry.and_then(|entry| source_of(cx, entry)));
    }
    cx.check_work(sources.iter().flatten().map(|source: &Source<'_>| source.set.len()).sum())?;
    let (mut members, mut bytes) = (Vec::new(), 0);
    operation.visit(&sources, cx.seed(), |member| {
        bytes += text_bytes(member) as u64 + ELEMENT_OVERHEAD_BYTES;
        memory::push(&mut members, member)
    })?;
    let mut keyed = Vec::new();
    if members.len() > INSERTED_MEMBERS_MAX {
        let seed = cx.seed();
        keyed = memory::collect(members.iter().map(|&member| KeyedMember::new(member, seed)))?;
        KeyedMember::sort(&mut keyed);
    }
    let encoding = operation.encoding(&Thresholds::of(cx.settings()), &sources, &members)?;
    cx.lock_for_result()?;
    if members.is_empty() {
        cx.edit(target).remove(Event::new(EventClass::GENERIC, "del"));
    } else {
        cx.room().check(bytes)?;
        cx.edit(target).put_as::<Set<'_>>(encoding, event, |set| {
            if !keyed.is_empty() {
                return set.fill(&keyed);
            }
            // One leaf keeps this order, in which Valkey's listpack has them.
            for &member in &members {
                set.insert(member);
            }
        });
    }
    cx.reply.integer(members.len() as i64);
    Ok(())
}
