//! `ZRANDMEMBER`: some members by chance.

use rand_xoshiro::rand_core::Rng;
use tidemill_store::value::sorted_set::SortedSet;

use super::range::Shape;
use crate::access::context::Cx;
use crate::access::draw;
use crate::access::options::{is, symmetric_integer};
use crate::access::outcome::Outcome;
use crate::error::CommandError;

pub(super) fn zrandmember(cx: &mut Cx<'_, '_>) -> Outcome {
    if cx.args.len() == 2 {
        return one(cx);
    }
    let count = symmetric_integer(cx.arg(2))?;
    let with_scores = match cx.args.len() {
        3 => false,
        4 if is(cx.arg(3), "WITHSCORES") => true,
        _ => return Err(CommandError::Syntax.into()),
    };
    if with_scores && !(-i64::MAX / 2..=i64::MAX / 2).contains(&count) {
        return Err("ERR value is out of range".into());
    }
    let Some(set) = cx.read_as::<SortedSet<'_>>(cx.arg(1))? else {
        cx.reply.array(0);
        return Ok(());
    };
    let shape = if with_scores { Shape::with_scores(cx) } else { Shape::Members };
    if count < 0 {
        return draw::answer_with_repetition(
            cx,
            (set.len(), count.unsigned_abs()),
            if with_scores { 2 } else { 1 },
            |cx, count| cx.reply.array(shape.len(count as u64)),
            |cx, rank| set.nth(rank).into_iter().for_each(|item| shape.write(cx.reply, item)),
        );
    }
    let ranks = draw::different(cx.random(), set.len(), count.unsigned_abs())?;
    cx.reply.array(shape.len(ranks.len() as u64));
    let items = ranks.into_iter().filter_map(|rank| set.nth(rank));
    items.for_each(|item| shape.write(cx.reply, item));
    Ok(())
}

fn one(cx: &mut Cx<'_, '_>) -> Outcome {
    let set = cx.read_as::<SortedSet<'_>>(cx.arg(1))?;
    match set.and_then(|set| set.nth(cx.random().next_u64() % set.len())) {
        Some(item) => cx.reply.bulk(item.member),
        None => cx.reply.null(),
    }
    Ok(())
}
