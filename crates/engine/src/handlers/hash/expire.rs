//! The time that fields have left.

use std::ops::Range;

use super::change::change;
use super::read::Reading;
use crate::access::context::Cx;
use crate::access::options::{Conditions, TimeUnit, integer, is};
use crate::access::outcome::Outcome;
use crate::commit::{Event, EventClass};
use crate::error::CommandError;
use tidemill_store::value::hash::Hash;

const FIELD_COUNT_ERROR: &str =
    "ERR numfields should be greater than 0 and match the provided number of fields";

/// The positions of the fields behind `FIELDS count` at `index`, each taking `width` arguments, up
/// to the last argument.
pub(super) fn fields(
    cx: &Cx<'_, '_>,
    index: usize,
    width: usize,
) -> Result<Range<usize>, CommandError> {
    if index + 1 >= cx.args.len() || !is(cx.arg(index), "FIELDS") {
        return Err(CommandError::Syntax);
    }
    counted_fields(cx, index, width)
}

/// As [`fields`], with options before `FIELDS`, the first of them at `index`. They are parsed only
/// when `FIELDS` is there, and before the fields are counted.
pub(super) fn fields_behind<T>(
    cx: &Cx<'_, '_>,
    index: usize,
    width: usize,
    parse: impl FnOnce(Range<usize>) -> Result<T, CommandError>,
) -> Result<(T, Range<usize>), CommandError> {
    let at = (index..cx.args.len() - 1)
        .find(|&at| is(cx.arg(at), "FIELDS"))
        .ok_or(CommandError::from(FIELD_COUNT_ERROR))?;
    let options = parse(index..at)?;
    Ok((options, counted_fields(cx, at, width)?))
}

fn counted_fields(
    cx: &Cx<'_, '_>,
    index: usize,
    width: usize,
) -> Result<Range<usize>, CommandError> {
    let count = integer(cx.arg(index + 1))?;
    let first = index + 2;
    let given = cx.args.len() - first;
    let fits = usize::try_from(count)
        .ok()
        .filter(|&count| count > 0)
        .and_then(|count| count.checked_mul(width))
        .is_some_and(|wanted| wanted == given);
    if fits { Ok(first..cx.args.len()) } else { Err(FIELD_COUNT_ERROR.into()) }
}

/// The codes that `HEXPIRE` and its kin answer per field.
const NO_FIELD: i64 = -2;
const NOT_SET: i64 = 0;
const SET: i64 = 1;
const DELETED: i64 = 2;

/// `HEXPIRE`, `HPEXPIRE`, `HEXPIREAT` and `HPEXPIREAT`.
pub(super) fn hexpire(cx: &mut Cx<'_, '_>) -> Outcome {
    let name = cx.command.name;
    let key = cx.arg(1);
    let unit = TimeUnit { is_seconds: !name.contains("pexp"), is_absolute: name.ends_with("at") };
    let (conditions, range) =
        fields_behind(cx, 3, 1, |options| Conditions::of(options.map(|index| cx.arg(index))))?;
    let value = integer(cx.arg(2))?;
    let invalid = || CommandError::err(format_args!("invalid expire time in '{name}' command"));
    if value < 0 {
        return Err(invalid().into());
    }
    let clock = cx.clock();
    let at_ms = unit.milliseconds(value, clock).ok_or_else(invalid)?;
    if cx.peek_as::<Hash<'_>>(key)?.is_none() {
        cx.reply.array(range.len());
        range.for_each(|_| cx.reply.integer(NO_FIELD));
        return Ok(());
    }
    let args = cx.args;
    let event_name = if clock.has_come(at_ms) { "hexpired" } else { "hexpire" };
    let event = Event::new(EventClass::HASH, event_name);
    let codes = change(cx, key, event, |hash| {
        let codes = range.clone().map(|index| {
            let place = hash.place(args.get(index));
            let Some(found) = place.get() else { return Ok(NO_FIELD) };
            if !conditions.are_met(found.expires_at_ms, at_ms) {
                return Ok(NOT_SET);
            }
            if clock.has_come(at_ms) {
                place.remove();
                return Ok(DELETED);
            }
            place.set_expiry(Some(at_ms))?;
            Ok(SET)
        });
        codes.collect::<Result<Vec<i64>, CommandError>>()
    })?;
    cx.reply.array(codes.len());
    codes.iter().for_each(|&code| cx.reply.integer(code));
    let changed = |wanted: i64| -> Vec<&[u8]> {
        let pairs = range.clone().zip(&codes);
        pairs.filter(|(_, code)| **code == wanted).map(|(index, _)| args.get(index)).collect()
    };
    let (set, deleted) = (changed(SET), changed(DELETED));
    cx.count_expired_fields(deleted.len());
    if !deleted.is_empty() {
        cx.propagate([&b"HDEL"[..], key].into_iter().chain(deleted));
    }
    if !set.is_empty() {
        let (at, count) = (clock.wall_ms(at_ms).to_string(), set.len().to_string());
        let head = [&b"HPEXPIREAT"[..], key, at.as_bytes(), b"FIELDS", count.as_bytes()];
        cx.propagate(head.into_iter().chain(set));
    }
    Ok(())
}

/// `HTTL`, `HPTTL`, `HEXPIRETIME` and `HPEXPIRETIME`.
pub(super) fn httl(cx: &mut Cx<'_, '_>) -> Outcome {
    // The others complain about the number of fields; these find a syntax error.
    let range = fields(cx, 2, 1).map_err(|error| match error {
        CommandError::Text(_) => CommandError::Syntax,
        other => other,
    })?;
    let hash = Reading::of(cx, cx.arg(1))?;
    let clock = cx.clock();
    let args = cx.args;
    cx.reply.array(range.len());
    for index in range {
        let answer = match hash.as_ref().and_then(|hash| hash.get(cx, args.get(index))) {
            None => -2,
            Some((_, None)) => -1,
            Some((_, Some(at_ms))) => match cx.command.name {
                "httl" => (at_ms.saturating_sub(clock.now_ms()) as i64 + 500) / 1000,
                "hpttl" => at_ms.saturating_sub(clock.now_ms()) as i64,
                "hexpiretime" => (clock.wall_ms(at_ms).saturating_add(500) / 1000) as i64,
                _ => clock.wall_ms(at_ms) as i64,
            },
        };
        cx.reply.integer(answer);
    }
    Ok(())
}

pub(super) fn hpersist(cx: &mut Cx<'_, '_>) -> Outcome {
    let range = fields(cx, 2, 1)?;
    let args = cx.args;
    let event = Event::new(EventClass::HASH, "hpersist");
    let codes = change(cx, args.get(1), event, |hash| {
        let codes = range.map(|index| {
            let place = hash.place(args.get(index));
            let expiry = place.get().map(|found| found.expires_at_ms);
            Ok(match expiry {
                None => -2,
                Some(None) => -1,
                Some(Some(_)) => {
                    place.set_expiry(None)?;
                    1
                }
            })
        });
        codes.collect::<Result<Vec<i64>, CommandError>>()
    })?;
    cx.reply.array(codes.len());
    codes.iter().for_each(|&code| cx.reply.integer(code));
    Ok(())
}
