//! Elements that move from one list to another.

use tidemill_store::value::list::List;
use tidemill_store::{Encoding, Kind};

use super::encoding::{Limit, after_addition_to, when_smaller};
use super::look::End;
use super::pop::remove;
use super::push::push_elements;
use crate::access::context::Cx;
use crate::access::key_wait::{timeout_us, wait};
use crate::access::outcome::Outcome;
use crate::blocking::TimeoutReply;
use crate::commit::{Event, EventClass};
use crate::error::CommandError;

/// Moves one element from the list at argument 1 to that at argument 2, and answers it; `false`
/// when there is none.
fn move_one(cx: &mut Cx<'_, '_>, from: End, to: End) -> Result<bool, CommandError> {
    let (source, target) = (cx.arg(1), cx.arg(2));
    let Some(list) = cx.edit(source).read_as::<List<'_>>()? else { return Ok(false) };
    let index = if from == End::Front { 0 } else { list.len() - 1 };
    let Some(element) = list.get(index) else { return Ok(false) };
    if source == target {
        rotate(cx, source, (from, to), element)?;
    } else {
        transfer(cx, (source, from), (target, to), element)?;
    }
    // The two halves of one change.
    cx.count_changes(1);
    cx.reply.bulk(element);
    match cx.command.name {
        "blmove" => cx.propagate([&b"LMOVE"[..], source, target, from.word(), to.word()]),
        "brpoplpush" => cx.propagate([&b"RPOPLPUSH"[..], source, target]),
        _ => {}
    }
    Ok(true)
}

/// Moves the element at an end to another list: adds it there first, as Valkey's events tell. Both
/// lists are locked, so nobody sees it twice.
fn transfer(
    cx: &mut Cx<'_, '_>,
    (source, from): (&[u8], End),
    (target, to): (&[u8], End),
    element: &[u8],
) -> Result<(), CommandError> {
    let limit = Limit::of_setting(cx.settings().list_listpack_size_max);
    cx.edit(target).entry_of(Kind::List)?;
    cx.room().check(2 * element.len() as u64)?;
    push_elements(cx, target, to, || std::iter::once(element))?;
    remove(cx.edit(source), limit, from, 1)?;
    Ok(())
}

/// Moves the element at an end of a list within it as one change: a list of one element is never
/// gone, and keeps its expiry.
fn rotate(
    cx: &mut Cx<'_, '_>,
    key: &[u8],
    (from, to): (End, End),
    element: &[u8],
) -> Result<(), CommandError> {
    let limit = Limit::of_setting(cx.settings().list_listpack_size_max);
    let room = cx.room();
    let edit = cx.edit(key);
    let Some(entry) = edit.entry_of(Kind::List)? else { return Ok(()) };
    let (pushed, popped) = match (from, to) {
        (End::Front, End::Front) => ("lpush", "lpop"),
        (End::Front, End::Back) => ("rpush", "lpop"),
        (End::Back, End::Front) => ("lpush", "rpop"),
        (End::Back, End::Back) => ("rpush", "rpop"),
    };
    room.check(2 * element.len() as u64)?;
    edit.change::<List<'_>, _>(Event::new(EventClass::LIST, pushed), |list| {
        match from {
            End::Front => list.pop_front(),
            End::Back => list.pop_back(),
        };
        let added = (1, element.len() as u64);
        let encoding = after_addition_to(Some(entry.encoding()), list, added, limit);
        match to {
            End::Front => list.push_front(element),
            End::Back => list.push_back(element),
        }
        let encoding = match encoding {
            Encoding::Quicklist => when_smaller(list, limit),
            fitting => fitting,
        };
        Ok(Some((encoding, ())))
    })?;
    cx.event(cx.database, key, Event::new(EventClass::LIST, popped));
    Ok(())
}

pub(super) fn lmove(cx: &mut Cx<'_, '_>) -> Outcome {
    let (from, to) = (End::parse(cx.arg(3))?, End::parse(cx.arg(4))?);
    if !move_one(cx, from, to)? {
        cx.reply.null();
    }
    Ok(())
}

pub(super) fn rpoplpush(cx: &mut Cx<'_, '_>) -> Outcome {
    if !move_one(cx, End::Back, End::Front)? {
        cx.reply.null();
    }
    Ok(())
}

pub(super) fn blmove(cx: &mut Cx<'_, '_>) -> Outcome {
    let (from, to) = (End::parse(cx.arg(3))?, End::parse(cx.arg(4))?);
    let timeout_us = timeout_us(cx, cx.arg(5))?;
    if move_one(cx, from, to)? {
        return Ok(());
    }
    wait_to_move(cx, timeout_us)
}

pub(super) fn brpoplpush(cx: &mut Cx<'_, '_>) -> Outcome {
    let timeout_us = timeout_us(cx, cx.arg(3))?;
    if move_one(cx, End::Back, End::Front)? {
        return Ok(());
    }
    wait_to_move(cx, timeout_us)
}

/// Waits for the source. That there is nothing is told by another null than that time is over.
fn wait_to_move(cx: &mut Cx<'_, '_>, timeout_us: u64) -> Outcome {
    if !cx.may_block() {
        cx.reply.null();
        return Ok(());
    }
    wait(cx, (Kind::List, 1..2), &[2], timeout_us, TimeoutReply::NullArray)
}
