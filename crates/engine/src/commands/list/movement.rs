//! Elements that move from one list to another.

use tidemill_store::Kind;

use super::look::End;
use super::pop::{take_one, timeout_us, wait};
use super::push::push_elements;
use crate::blocking::TimeoutReply;
use crate::command::Outcome;
use crate::context::Cx;
use crate::error::CommandError;

/// Moves one element from the list at argument 1 to that at argument 2, and answers it; `false` when there is none.
fn move_one(cx: &mut Cx<'_, '_>, from: End, to: End) -> Result<bool, CommandError> {
    let (source, target) = (cx.arg(1), cx.arg(2));
    if cx.edit(source).entry_of(Kind::List)?.is_none() {
        return Ok(false);
    }
    cx.edit(target).entry_of(Kind::List)?;
    let Some(element) = take_one(cx, source, from)? else { return Ok(false) };
    push_elements(cx, target, to, || std::iter::once(element))?;
    cx.reply.bulk(element);
    match cx.command.name {
        "blmove" => cx.propagate([&b"LMOVE"[..], source, target, from.word(), to.word()]),
        "brpoplpush" => cx.propagate([&b"RPOPLPUSH"[..], source, target]),
        _ => {}
    }
    Ok(true)
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
    wait(cx, 1..2, &[2], timeout_us, TimeoutReply::Null)
}

pub(super) fn brpoplpush(cx: &mut Cx<'_, '_>) -> Outcome {
    let timeout_us = timeout_us(cx, cx.arg(3))?;
    if move_one(cx, End::Back, End::Front)? {
        return Ok(());
    }
    wait(cx, 1..2, &[2], timeout_us, TimeoutReply::Null)
}
