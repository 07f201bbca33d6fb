//! Taking members from the ends.

use std::ops::Range;

use tidemill_store::Kind;
use tidemill_store::value::sorted_set::{Item, SortedSet};

use super::pieces::SortedSetElements;
use super::range::Shape;
use crate::access::context::{Cx, Edit};
use crate::access::key_wait::{timeout_us, wait};
use crate::access::options::{integer, is};
use crate::access::outcome::Outcome;
use crate::blocking::TimeoutReply;
use crate::commit::{Event, EventClass};
use crate::error::CommandError;
use crate::long_reply::LongReply;
use crate::memory;

/// An end of a sorted set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Min,
    Max,
}

impl End {
    fn parse(argument: &[u8]) -> Result<End, CommandError> {
        match () {
            () if is(argument, "MIN") => Ok(End::Min),
            () if is(argument, "MAX") => Ok(End::Max),
            () => Err(CommandError::Syntax),
        }
    }

    /// Ranks of `count` members at the end, of `len`.
    fn ranks(self, count: u64, len: u64) -> Range<u64> {
        let count = count.min(len);
        match self {
            End::Min => 0..count,
            End::Max => len - count..len,
        }
    }

    fn elements(self, ranks: &Range<u64>, shape: Shape) -> SortedSetElements {
        SortedSetElements::of(ranks.clone(), self == End::Max, shape)
    }

    fn event(self) -> Event {
        let name = if self == End::Min { "zpopmin" } else { "zpopmax" };
        Event::new(EventClass::SORTED_SET, name)
    }
}

/// Removes members from an end of the sorted set that an edit began from.
fn remove<'k: 'g, 'g>(
    edit: Edit<'_, 'k, 'g>,
    end: End,
    ranks: Range<u64>,
) -> Result<(), CommandError> {
    let Some(entry) = edit.entry_of(Kind::SortedSet)? else { return Ok(()) };
    edit.change::<SortedSet<'_>, _>(end.event(), |set| {
        set.remove_range(ranks.start, ranks.end);
        Ok(Some((entry.encoding(), ())))
    })?;
    Ok(())
}

/// Takes up to `count` members, one at least, from an end of the sorted set under `key`, which
/// exists.
fn take<'g>(
    cx: &mut Cx<'_, 'g>,
    key: &[u8],
    end: End,
    count: u64,
) -> Result<Vec<Item<'g>>, CommandError> {
    let room = cx.room();
    let edit = cx.edit(key);
    let Some(set) = edit.read_as::<SortedSet<'_>>()? else { return Ok(Vec::new()) };
    let ranks = end.ranks(count, set.len());
    let taken_count = ranks.end - ranks.start;
    let items = end.elements(&ranks, Shape::Flat).items(set, 0..taken_count);
    let taken: Vec<Item<'_>> = memory::collect(items)?;
    // Members that cannot be answered are not taken.
    room.check(taken.iter().map(|item| 2 * item.member.len() as u64).sum())?;
    remove(edit, end, ranks)?;
    cx.count_changes(taken_count);
    Ok(taken)
}

/// `ZPOPMIN` and `ZPOPMAX`.
pub(super) fn zpop(cx: &mut Cx<'_, '_>) -> Outcome {
    let end = if cx.command.name == "zpopmin" { End::Min } else { End::Max };
    if cx.args.len() > 3 {
        return Err(CommandError::Syntax.into());
    }
    let (key, has_count) = (cx.arg(1), cx.args.len() == 3);
    let count = match has_count {
        true => integer(cx.arg(2))
            .ok()
            .and_then(|count| u64::try_from(count).ok())
            .ok_or("ERR value is out of range, must be positive")?,
        false => 1,
    };
    let shape = if has_count { Shape::with_scores(cx) } else { Shape::Flat };
    let set = cx.edit(key).read_as::<SortedSet<'_>>()?;
    let Some(set) = set.filter(|_| count > 0) else {
        cx.reply.array(0);
        return Ok(());
    };
    let ranks = end.ranks(count, set.len());
    let taken_count = ranks.end - ranks.start;
    if let Some(version) = cx.pin(key, taken_count, (set.len(), set.bytes()))? {
        let elements = end.elements(&ranks, shape);
        remove(cx.edit(key), end, ranks)?;
        cx.count_changes(taken_count);
        cx.reply.array(shape.len(taken_count));
        return cx.answer_in_pieces(LongReply::new(version, elements, 0..taken_count));
    }
    let taken = take(cx, key, end, count)?;
    cx.reply.array(shape.len(taken_count));
    taken.into_iter().for_each(|item| shape.write(cx.reply, item));
    Ok(())
}

/// An argument that must be a number above zero.
fn positive(argument: &[u8], error: &'static str) -> Result<u64, CommandError> {
    let number = integer(argument).ok().and_then(|number| u64::try_from(number).ok());
    Ok(number.filter(|&number| number > 0).ok_or(error)?)
}

/// The arguments of `ZMPOP` and `BZMPOP` from the number of keys on.
struct ManyArguments {
    keys: Range<usize>,
    end: End,
    count: u64,
}

fn many_arguments(cx: &Cx<'_, '_>, first: usize) -> Result<ManyArguments, CommandError> {
    let key_count = positive(cx.arg(first), "ERR numkeys should be greater than 0")?;
    let where_index = usize::try_from(key_count)
        .ok()
        .and_then(|count| count.checked_add(first + 1))
        .filter(|&index| index < cx.args.len())
        .ok_or(CommandError::Syntax)?;
    let end = End::parse(cx.arg(where_index))?;
    let count = match cx.args.len() - where_index - 1 {
        0 => 1,
        2 if is(cx.arg(where_index + 1), "COUNT") => {
            positive(cx.arg(where_index + 2), "ERR count should be greater than 0")?
        }
        _ => return Err(count_error(cx, where_index + 1)),
    };
    Ok(ManyArguments { keys: first + 1..where_index, end, count })
}

/// Takes members from the first sorted set that exists; `false` when there is none.
fn take_from_first(
    cx: &mut Cx<'_, '_>,
    keys: Range<usize>,
    end: End,
    count: u64,
    reply: fn(&mut Cx<'_, '_>, &[u8], &[Item<'_>]),
) -> Result<bool, CommandError> {
    for key in cx.candidate_keys(keys.start, keys.end) {
        if cx.edit(key).entry_of(Kind::SortedSet)?.is_none() {
            continue;
        }
        let taken = take(cx, key, end, count)?;
        reply(cx, key, &taken);
        if cx.is_journaled() {
            let name: &[u8] = if end == End::Min { b"ZPOPMIN" } else { b"ZPOPMAX" };
            cx.propagate([name, key, taken.len().to_string().as_bytes()]);
        }
        return Ok(true);
    }
    Ok(false)
}

fn reply_many(cx: &mut Cx<'_, '_>, key: &[u8], taken: &[Item<'_>]) {
    cx.reply.array(2);
    cx.reply.bulk(key);
    cx.reply.array(taken.len());
    taken.iter().for_each(|&item| Shape::Pairs.write(cx.reply, item));
}

fn reply_flat(cx: &mut Cx<'_, '_>, key: &[u8], taken: &[Item<'_>]) {
    cx.reply.array(1 + 2 * taken.len());
    cx.reply.bulk(key);
    taken.iter().for_each(|&item| Shape::Flat.write(cx.reply, item));
}

pub(super) fn zmpop(cx: &mut Cx<'_, '_>) -> Outcome {
    let ManyArguments { keys, end, count } = many_arguments(cx, 1)?;
    if !take_from_first(cx, keys, end, count, reply_many)? {
        cx.reply.null_array();
    }
    Ok(())
}

pub(super) fn bzmpop(cx: &mut Cx<'_, '_>) -> Outcome {
    let ManyArguments { keys, end, count } = many_arguments(cx, 2)?;
    let timeout_us = timeout_us(cx, cx.arg(1))?;
    if take_from_first(cx, keys.clone(), end, count, reply_many)? {
        return Ok(());
    }
    wait(cx, (Kind::SortedSet, keys), &[], timeout_us, TimeoutReply::NullArray)
}

/// `BZPOPMIN` and `BZPOPMAX`.
pub(super) fn bzpop(cx: &mut Cx<'_, '_>) -> Outcome {
    let last = cx.args.len() - 1;
    let timeout_us = timeout_us(cx, cx.arg(last))?;
    let end = if cx.command.name == "bzpopmin" { End::Min } else { End::Max };
    if take_from_first(cx, 1..last, end, 1, reply_flat)? {
        return Ok(());
    }
    wait(cx, (Kind::SortedSet, 1..last), &[], timeout_us, TimeoutReply::NullArray)
}

/// Error of options that are not `COUNT count`: that of the count, if it comes first.
fn count_error(cx: &Cx<'_, '_>, index: usize) -> CommandError {
    let has_count = index + 1 < cx.args.len() && is(cx.arg(index), "COUNT");
    let count = has_count.then(|| cx.arg(index + 1));
    let checked = count.map(|count| positive(count, "ERR count should be greater than 0"));
    checked.and_then(Result::err).unwrap_or(CommandError::Syntax)
}
