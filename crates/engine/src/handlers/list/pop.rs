//! Taking elements from the ends.

use tidemill_store::Kind;
use tidemill_store::value::list::List;

use super::encoding::{Limit, after_removal};
use super::look::End;
use super::pieces::ListElements;
use crate::access::context::{Cx, Edit};
use crate::access::key_wait::{timeout_us, wait};
use crate::access::options::{integer, is};
use crate::access::outcome::Outcome;
use crate::blocking::TimeoutReply;
use crate::commit::{Event, EventClass};
use crate::error::CommandError;
use crate::long_reply::LongReply;
use crate::memory;

/// Takes up to `count` elements from an end of the list under `key`, in the order of their taking.
/// The list exists.
fn take<'g>(
    cx: &mut Cx<'_, 'g>,
    key: &[u8],
    end: End,
    count: u64,
) -> Result<Vec<&'g [u8]>, CommandError> {
    let limit = Limit::of_setting(cx.settings().list_listpack_size_max);
    let room = cx.room();
    let edit = cx.edit(key);
    let Some(list) = edit.read_as::<List<'_>>()? else { return Ok(Vec::new()) };
    let length = list.len();
    let taken: Vec<&[u8]> = match end {
        End::Front => memory::collect(list.range(0, count))?,
        End::Back => memory::collect(list.iter_back_from(length - 1).take(count as usize))?,
    };
    // Elements that cannot be answered, or put elsewhere, are not taken.
    room.check(taken.iter().map(|element| 2 * element.len() as u64).sum())?;
    remove(edit, limit, end, count)?;
    cx.count_changes(taken.len() as u64);
    Ok(taken)
}

/// Removes up to `count` elements from an end of the list that an edit began from.
pub(super) fn remove<'k: 'g, 'g>(
    edit: Edit<'_, 'k, 'g>,
    limit: Limit,
    end: End,
    count: u64,
) -> Result<(), CommandError> {
    let Some(entry) = edit.entry_of(Kind::List)? else { return Ok(()) };
    let length = edit.read_as::<List<'_>>()?.map_or(0, |list| list.len());
    let count = count.min(length);
    let name = match end {
        End::Front => "lpop",
        End::Back => "rpop",
    };
    edit.change::<List<'_>, _>(Event::new(EventClass::LIST, name), |list| {
        match (end, count) {
            (End::Front, 1) => {
                list.pop_front();
            }
            (End::Back, 1) => {
                list.pop_back();
            }
            (End::Front, _) => list.remove_range(0, count),
            (End::Back, _) => list.remove_range(length - count, length),
        }
        Ok(Some((after_removal(entry, list, limit), ())))
    })?;
    Ok(())
}

/// Takes one element, as [`take`] does.
pub(super) fn take_one<'g>(
    cx: &mut Cx<'_, 'g>,
    key: &[u8],
    end: End,
) -> Result<Option<&'g [u8]>, CommandError> {
    Ok(take(cx, key, end, 1)?.first().copied())
}

fn end_of(name: &str) -> End {
    if name.trim_start_matches('b').starts_with('l') { End::Front } else { End::Back }
}

/// `LPOP` and `RPOP`.
pub(super) fn pop(cx: &mut Cx<'_, '_>) -> Outcome {
    let (key, end) = (cx.arg(1), end_of(cx.command.name));
    if cx.args.len() > 3 {
        return Err(CommandError::Arity(cx.command.name.into()).into());
    }
    if cx.args.len() == 2 {
        match take_one(cx, key, end)? {
            Some(element) => cx.reply.bulk(element),
            None => cx.reply.null(),
        }
        return Ok(());
    }
    let count = integer(cx.arg(2))
        .ok()
        .and_then(|count| u64::try_from(count).ok())
        .ok_or("ERR value is out of range, must be positive")?;
    let Some(list) = cx.edit(key).read_as::<List<'_>>()? else {
        cx.reply.null_array();
        return Ok(());
    };
    let taken_count = count.min(list.len());
    if let Some(version) = cx.pin(key, taken_count, (list.len(), list.bytes()))? {
        let limit = Limit::of_setting(cx.settings().list_listpack_size_max);
        remove(cx.edit(key), limit, end, count)?;
        cx.count_changes(taken_count);
        cx.reply.array(taken_count as usize);
        let elements = ListElements { from: end };
        return cx.answer_in_pieces(LongReply::new(version, elements, 0..taken_count));
    }
    let taken = if count == 0 { Vec::new() } else { take(cx, key, end, count)? };
    cx.reply.array(taken.len());
    taken.iter().for_each(|element| cx.reply.bulk(element));
    Ok(())
}

/// The arguments of `LMPOP` and `BLMPOP` behind the timeout.
struct ManyArguments {
    keys: std::ops::Range<usize>,
    end: End,
    count: u64,
}

fn many_arguments(cx: &Cx<'_, '_>, first: usize) -> Result<ManyArguments, CommandError> {
    let count = integer(cx.arg(first))
        .ok()
        .and_then(|count| usize::try_from(count).ok())
        .filter(|&count| count > 0)
        .ok_or("ERR numkeys should be greater than 0")?;
    let where_index = count
        .checked_add(first + 1)
        .filter(|&index| index < cx.args.len())
        .ok_or(CommandError::Syntax)?;
    let end = End::parse(cx.arg(where_index))?;
    let mut arguments = ManyArguments { keys: first + 1..where_index, end, count: 1 };
    let mut has_count = false;
    let mut index = where_index + 1;
    while index < cx.args.len() {
        if has_count || !is(cx.arg(index), "COUNT") || index + 1 == cx.args.len() {
            return Err(CommandError::Syntax);
        }
        has_count = true;
        arguments.count = integer(cx.arg(index + 1))
            .ok()
            .and_then(|count| u64::try_from(count).ok())
            .filter(|&count| count > 0)
            .ok_or("ERR count should be greater than 0")?;
        index += 2;
    }
    Ok(arguments)
}

/// Takes elements from the first list that exists; `false` when there is none.
fn take_from_first(
    cx: &mut Cx<'_, '_>,
    keys: std::ops::Range<usize>,
    end: End,
    count: u64,
    reply: fn(&mut Cx<'_, '_>, &[u8], &[&[u8]]),
) -> Result<bool, CommandError> {
    for key in cx.candidate_keys(keys.start, keys.end) {
        if cx.edit(key).entry_of(Kind::List)?.is_none() {
            continue;
        }
        let taken = take(cx, key, end, count)?;
        reply(cx, key, &taken);
        propagate_pop(cx, key, end, taken.len());
        return Ok(true);
    }
    Ok(false)
}

fn propagate_pop(cx: &mut Cx<'_, '_>, key: &[u8], end: End, count: usize) {
    let name: &[u8] = match end {
        End::Front => b"LPOP",
        End::Back => b"RPOP",
    };
    if cx.is_journaled() {
        cx.propagate([name, key, count.to_string().as_bytes()]);
    }
}

fn reply_many(cx: &mut Cx<'_, '_>, key: &[u8], taken: &[&[u8]]) {
    cx.reply.array(2);
    cx.reply.bulk(key);
    cx.reply.array(taken.len());
    taken.iter().for_each(|element| cx.reply.bulk(element));
}

fn reply_pair(cx: &mut Cx<'_, '_>, key: &[u8], taken: &[&[u8]]) {
    cx.reply.array(2);
    cx.reply.bulk(key);
    taken.iter().for_each(|element| cx.reply.bulk(element));
}

pub(super) fn lmpop(cx: &mut Cx<'_, '_>) -> Outcome {
    let ManyArguments { keys, end, count } = many_arguments(cx, 1)?;
    if !take_from_first(cx, keys, end, count, reply_many)? {
        cx.reply.null_array();
    }
    Ok(())
}

pub(super) fn blmpop(cx: &mut Cx<'_, '_>) -> Outcome {
    let ManyArguments { keys, end, count } = many_arguments(cx, 2)?;
    let timeout_us = timeout_us(cx, cx.arg(1))?;
    if take_from_first(cx, keys.clone(), end, count, reply_many)? {
        return Ok(());
    }
    wait(cx, (Kind::List, keys), &[], timeout_us, TimeoutReply::NullArray)
}

/// `BLPOP` and `BRPOP`.
pub(super) fn bpop(cx: &mut Cx<'_, '_>) -> Outcome {
    let last = cx.args.len() - 1;
    let timeout_us = timeout_us(cx, cx.arg(last))?;
    let end = end_of(cx.command.name);
    if take_from_first(cx, 1..last, end, 1, reply_pair)? {
        return Ok(());
    }
    wait(cx, (Kind::List, 1..last), &[], timeout_us, TimeoutReply::NullArray)
}
