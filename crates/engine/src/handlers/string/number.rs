//! Numbers kept as strings.

use tidemill_resp::number::{format_long_double, parse_integer, parse_long_double};
use tidemill_store::{EntryRef, Kind, NewValue, StringValue};

use super::range::new_raw_string;
use super::set::{put_string, text_encoding_of};
use crate::access::context::{Cx, NewEntry};
use crate::access::options::integer;
use crate::access::outcome::Outcome;
use crate::commit::{Event, EventClass};
use crate::error::CommandError;
use crate::memory;

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

/// Longest text that may be a number of 64 bits.
const INTEGER_BYTES_MAX: u64 = 20;

/// Longest text that Valkey takes for a number with a fraction.
const LONG_DOUBLE_BYTES_MAX: u64 = 5 * 1024 - 1;

/// The number in a string that is no longer than a number can be: a long one is not even copied.
fn number<T>(
    value: StringValue<'_>,
    bytes_max: u64,
    parse: impl FnOnce(&[u8]) -> Option<T>,
) -> Option<T> {
    if value.len() > bytes_max {
        return None;
    }
    let copied;
    parse(match value {
        StringValue::Plain(bytes) => bytes,
        StringValue::Chunks(_) => {
            copied = memory::copy(value).ok()?;
            &copied
        }
    })
}

fn add(cx: &mut Cx<'_, '_>, amount: i64) -> Outcome {
    let key = cx.arg(1);
    let edit = cx.edit(key);
    let old = match edit.entry_of(Kind::String)?.and_then(EntryRef::string) {
        Some(value) => {
            number(value, INTEGER_BYTES_MAX, parse_integer).ok_or(CommandError::NotAnInteger)?
        }
        None => 0,
    };
    let sum = old.checked_add(amount).ok_or("ERR increment or decrement would overflow")?;
    let expires_at_ms = edit.expires_at_ms();
    let mut text = Vec::with_capacity(20);
    tidemill_resp::number::format_integer(sum, &mut text);
    put_string(
        edit,
        key,
        (NewValue::String(&text), expires_at_ms),
        Event::new(EventClass::STRING, "incrby"),
    );
    cx.reply.integer(sum);
    Ok(())
}

pub(super) fn incrbyfloat(cx: &mut Cx<'_, '_>) -> Outcome {
    let key = cx.arg(1);
    let increment = cx.arg(2);
    let edit = cx.edit(key);
    let old = match edit.entry_of(Kind::String)?.and_then(EntryRef::string) {
        Some(value) => number(value, LONG_DOUBLE_BYTES_MAX, parse_long_double)
            .ok_or(CommandError::NotAFloat)?,
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
