//! Writing fields.

use tidemill_resp::number::{format_integer, format_long_double, parse_integer, parse_long_double};
use tidemill_store::value::hash::Field;

use super::change::{Change, DELETED_EVENT, SET_EVENT, change};
use crate::access::context::Cx;
use crate::access::options::integer;
use crate::access::outcome::Outcome;
use crate::commit::{Event, EventClass};
use crate::error::CommandError;

/// `HSET` and `HMSET`.
pub(super) fn hset(cx: &mut Cx<'_, '_>) -> Outcome {
    if !cx.args.len().is_multiple_of(2) {
        return Err(CommandError::Arity(cx.command.name.into()).into());
    }
    let args = cx.args;
    let added = change(cx, args.get(1), SET_EVENT, |hash| Ok(hash.set_pairs(args)))?;
    if cx.command.name == "hmset" {
        cx.reply.ok();
    } else {
        cx.reply.integer(added as i64);
    }
    Ok(())
}

pub(super) fn hsetnx(cx: &mut Cx<'_, '_>) -> Outcome {
    let (key, field, value) = (cx.arg(1), cx.arg(2), cx.arg(3));
    let is_set = change(cx, key, SET_EVENT, |hash| {
        let place = hash.place(field);
        let is_absent = place.get().is_none();
        if is_absent {
            place.set(value, None);
        }
        Ok(is_absent)
    })?;
    cx.reply.integer(i64::from(is_set));
    Ok(())
}

pub(super) fn hdel(cx: &mut Cx<'_, '_>) -> Outcome {
    let args = cx.args;
    let removed = change(cx, args.get(1), DELETED_EVENT, |hash| {
        Ok(args.iter().skip(2).filter(|field| hash.remove(field)).count())
    })?;
    cx.reply.integer(removed as i64);
    Ok(())
}

pub(super) fn hincrby(cx: &mut Cx<'_, '_>) -> Outcome {
    let (key, field) = (cx.arg(1), cx.arg(2));
    let amount = integer(cx.arg(3))?;
    let event = Event::new(EventClass::HASH, "hincrby");
    let sum = change(cx, key, event, |hash| incremented(hash, field, amount))?;
    cx.reply.integer(sum);
    Ok(())
}

/// Adds an amount to the integer of a field, and returns the sum.
pub(super) fn incremented(
    hash: &mut Change<'_, '_>,
    field: &[u8],
    amount: i64,
) -> Result<i64, CommandError> {
    let place = hash.place(field);
    let old = place.get();
    let value = match &old {
        Some(old) => parse_integer(old.value).ok_or("ERR hash value is not an integer")?,
        None => 0,
    };
    let sum = value.checked_add(amount).ok_or("ERR increment or decrement would overflow")?;
    let expires_at_ms = expiry_of(old);
    let mut text = Vec::with_capacity(20);
    format_integer(sum, &mut text);
    place.set(&text, expires_at_ms);
    Ok(sum)
}

fn expiry_of(field: Option<Field<'_>>) -> Option<u64> {
    field.and_then(|field| field.expires_at_ms)
}

pub(super) fn hincrbyfloat(cx: &mut Cx<'_, '_>) -> Outcome {
    let (key, field) = (cx.arg(1), cx.arg(2));
    let amount = parse_long_double(cx.arg(3)).ok_or(CommandError::NotAFloat)?;
    if !amount.is_finite() {
        return Err("ERR value is NaN or Infinity".into());
    }
    let event = Event::new(EventClass::HASH, "hincrbyfloat");
    let (text, expires_at_ms) = change(cx, key, event, |hash| {
        let place = hash.place(field);
        let old = place.get();
        let value = match &old {
            Some(old) => parse_long_double(old.value).ok_or("ERR hash value is not a float")?,
            None => 0.into(),
        };
        let sum = value + amount;
        if !sum.is_finite() {
            return Err("ERR increment would produce NaN or Infinity".into());
        }
        let expires_at_ms = expiry_of(old);
        let text = format_long_double(sum);
        place.set(text.as_bytes(), expires_at_ms);
        Ok((text, expires_at_ms))
    })?;
    cx.reply.bulk(text.as_bytes());
    cx.propagate([&b"HSET"[..], key, field, text.as_bytes()]);
    if let Some(at_ms) = expires_at_ms {
        let at = cx.clock().wall_ms(at_ms).to_string();
        cx.propagate([&b"HPEXPIREAT"[..], key, at.as_bytes(), b"FIELDS", b"1", field]);
    }
    Ok(())
}
