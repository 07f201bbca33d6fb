//! Numbers kept as strings.

use tidemill_resp::number::{format_long_double, parse_integer, parse_long_double};
use tidemill_store::{EntryRef, Kind};

use super::range::new_raw_string;
use super::set::{put_string, text_encoding_of};
use crate::command::Outcome;
use crate::commands::options::integer;
use crate::commit::{Event, EventClass};
use crate::context::{Cx, NewEntry};
use crate::error::CommandError;
use crate::reply;

pub(super) fn incr(cx: &mut Cx<'_, '_>) -> Outcome {
    add(cx, 1)
}

pub(super) fn decr(cx: &mut Cx<'_, '_>) -> Outcome {
    add(cx, -1)
}

pub(super) fn incrby(cx: &mut Cx<'_, '_>) -> Outcome {
    let amount = integer(cx.arg(2))?;
    add(cx, amount)
}

pub(super) fn decrby(cx: &mut Cx<'_, '_>) -> Outcome {
    let amount = integer(cx.arg(2))?.checked_neg().ok_or("ERR decrement would overflow")?;
    add(cx, amount)
}

fn text_of(entry: Option<EntryRef<'_>>) -> Option<Vec<u8>> {
    entry.and_then(EntryRef::string).map(reply::to_bytes)
}

fn add(cx: &mut Cx<'_, '_>, amount: i64) -> Outcome {
    let key = cx.arg(1);
    let edit = cx.edit(key);
    let old = match text_of(edit.entry_of(Kind::String)?) {
        Some(text) => parse_integer(&text).ok_or(CommandError::NotAnInteger)?,
        None => 0,
    };
    let sum = old.checked_add(amount).ok_or("ERR increment or decrement would overflow")?;
    let expires_at_ms = edit.expires_at_ms();
    let mut text = Vec::with_capacity(20);
    tidemill_resp::number::format_integer(sum, &mut text);
    put_string(edit, key, (&text, expires_at_ms), Event::new(EventClass::STRING, "incrby"));
    cx.reply.integer(sum);
    Ok(())
}

pub(super) fn incrbyfloat(cx: &mut Cx<'_, '_>) -> Outcome {
    let key = cx.arg(1);
    let increment = cx.arg(2);
    let edit = cx.edit(key);
    let old = match text_of(edit.entry_of(Kind::String)?) {
        Some(text) => parse_long_double(&text).ok_or(CommandError::NotAFloat)?,
        None => 0.into(),
    };
    let sum = old + parse_long_double(increment).ok_or(CommandError::NotAFloat)?;
    if !sum.is_finite() {
        return Err("ERR increment would produce NaN or Infinity".into());
    }
    let expires_at_ms = edit.expires_at_ms();
    let text = format_long_double(sum);
    let event = Event::new(EventClass::STRING, "incrbyfloat");
    // Unlike INCRBY, it leaves a text even when the sum is whole.
    let encoding = text_encoding_of(key, text.len() as u64, expires_at_ms.is_some());
    edit.put(NewEntry { encoding, expires_at_ms, ..new_raw_string(text.as_bytes()) }, event);
    cx.reply.bulk(text.as_bytes());
    cx.propagate([&b"SET"[..], key, text.as_bytes(), b"KEEPTTL"]);
    Ok(())
}
