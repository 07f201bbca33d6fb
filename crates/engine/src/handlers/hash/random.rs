//! `HRANDFIELD`: some fields by chance.

use tidemill_resp::encode::Protocol;
use tidemill_store::value::hash::Entry;

use super::read::{Living, Reading};
use crate::access::context::Cx;
use crate::access::draw;
use crate::access::options::{is, symmetric_integer};
use crate::access::outcome::Outcome;
use crate::error::CommandError;
use crate::memory;

pub(super) fn hrandfield(cx: &mut Cx<'_, '_>) -> Outcome {
    if cx.args.len() == 2 {
        return one(cx);
    }
    let count = symmetric_integer(cx.arg(2))?;
    let with_values = match cx.args.len() {
        3 => false,
        4 if is(cx.arg(3), "WITHVALUES") => true,
        _ => return Err(CommandError::Syntax.into()),
    };
    if with_values && !(-i64::MAX / 2..=i64::MAX / 2).contains(&count) {
        return Err("ERR value is out of range".into());
    }
    let Some(hash) = Reading::of(cx, cx.arg(1))? else {
        cx.reply.array(0);
        return Ok(());
    };
    let living = hash.living(cx)?;
    if count < 0 && living.len() > 0 {
        return draw::answer_with_repetition(
            cx,
            (living.len(), count.unsigned_abs()),
            if with_values { 2 } else { 1 },
            |cx, count| begin(cx, count, with_values),
            |cx, position| {
                living.nth(position).into_iter().for_each(|entry| write(cx, entry, with_values));
            },
        );
    }
    let picked = different(cx, &living, count.unsigned_abs())?;
    begin(cx, picked.len(), with_values);
    for entry in picked {
        write(cx, entry, with_values);
    }
    Ok(())
}

fn one(cx: &mut Cx<'_, '_>) -> Outcome {
    let hash = Reading::of(cx, cx.arg(1))?;
    let picked = match hash {
        Some(hash) => {
            let living = hash.living(cx)?;
            different(cx, &living, 1)?.first().copied()
        }
        None => None,
    };
    match picked {
        Some(entry) => cx.reply.bulk(entry.field),
        None => cx.reply.null(),
    }
    Ok(())
}

/// Picks `count` different entries, at most all of them.
fn different<'g>(
    cx: &mut Cx<'_, '_>,
    living: &Living<'_, 'g>,
    count: u64,
) -> Result<Vec<Entry<'g>>, CommandError> {
    let positions = draw::different(cx.random(), living.len(), count)?;
    memory::collect(positions.into_iter().filter_map(|position| living.nth(position)))
}

/// With values, RESP3 has pairs of their own.
fn are_pairs(cx: &Cx<'_, '_>, with_values: bool) -> bool {
    with_values && cx.protocol() == Protocol::Resp3
}

fn begin(cx: &mut Cx<'_, '_>, count: usize, with_values: bool) {
    let is_flat = with_values && !are_pairs(cx, with_values);
    cx.reply.array(count * if is_flat { 2 } else { 1 });
}

fn write(cx: &mut Cx<'_, '_>, entry: Entry<'_>, with_values: bool) {
    if are_pairs(cx, with_values) {
        cx.reply.array(2);
    }
    cx.reply.bulk(entry.field);
    if with_values {
        cx.reply.bulk(entry.value);
    }
}
