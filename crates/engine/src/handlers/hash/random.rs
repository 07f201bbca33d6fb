//! `HRANDFIELD`: some fields by chance.
//!
//! A negative count draws that many with repetition, so the reply may be larger than any hash. It
//! is written as it is drawn, and given up for an error beyond `proto-max-bulk-len`, the limit of
//! what one string may hold: a short request must not take all memory.

use std::collections::HashSet;

use rand_xoshiro::rand_core::Rng;
use tidemill_resp::encode::Protocol;
use tidemill_store::value::hash::Entry;

use super::read::{Living, Reading};
use crate::access::context::Cx;
use crate::access::options::{is, symmetric_integer};
use crate::access::outcome::Outcome;
use crate::error::{CommandError, NO_MEMORY_FOR_REPLY};
use crate::memory;

/// Bytes that an element of the reply takes at least: an empty string.
const ELEMENT_BYTES_MIN: u64 = b"$0\r\n\r\n".len() as u64;

const TOO_LARGE: &str = "ERR reply exceeds maximum allowed size (proto-max-bulk-len)";

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
        return repeatedly(cx, &living, count.unsigned_abs(), with_values);
    }
    let picked = different(cx.random(), &living, count.unsigned_abs())?;
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
            different(cx.random(), &living, 1)?.first().copied()
        }
        None => None,
    };
    match picked {
        Some(entry) => cx.reply.bulk(entry.field),
        None => cx.reply.null(),
    }
    Ok(())
}

/// Answers with `count` entries, each drawn from all.
fn repeatedly(
    cx: &mut Cx<'_, '_>,
    living: &Living<'_, '_>,
    count: u64,
    with_values: bool,
) -> Outcome {
    let bytes_max = cx.settings().bulk_bytes_max;
    let element_count = count.saturating_mul(if with_values { 2 } else { 1 });
    if element_count > bytes_max as u64 / ELEMENT_BYTES_MIN {
        return Err(TOO_LARGE.into());
    }
    let (mark, before) = (cx.reply.mark(), cx.reply.len());
    begin(cx, count as usize, with_values);
    for _ in 0..count {
        let drawn = cx.random().next_u64() % living.len();
        let entry = living.nth(drawn).expect("an index below the length");
        write(cx, entry, with_values);
        if cx.reply.len() - before > bytes_max {
            if cx.reply.has_failed() {
                return Err(NO_MEMORY_FOR_REPLY.into());
            }
            cx.reply.truncate(mark);
            return Err(TOO_LARGE.into());
        }
    }
    Ok(())
}

/// Picks `count` different entries, at most all of them.
fn different<'g>(
    random: &mut impl Rng,
    living: &Living<'_, 'g>,
    count: u64,
) -> Result<Vec<Entry<'g>>, CommandError> {
    let length = living.len();
    let nth = |index| living.nth(index);
    if count >= length {
        return memory::collect((0..length).filter_map(nth));
    }
    // Few of many: drawing again what was drawn is rare. Many: what is left out is drawn.
    let is_few = count <= length / 2;
    let drawn_count = if is_few { count } else { length - count };
    let mut drawn = HashSet::new();
    let bytes = drawn_count * size_of::<u64>() as u64;
    drawn.try_reserve(drawn_count as usize).map_err(|_| CommandError::NoMemory(bytes))?;
    while (drawn.len() as u64) < drawn_count {
        drawn.insert(random.next_u64() % length);
    }
    if is_few {
        memory::collect(drawn.into_iter().filter_map(nth))
    } else {
        memory::collect((0..length).filter(|index| !drawn.contains(index)).filter_map(nth))
    }
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
