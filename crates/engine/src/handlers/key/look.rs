//! Looking at keys.

use crate::access::context::Cx;
use crate::access::outcome::Outcome;

pub(super) fn exists(cx: &mut Cx<'_, '_>) -> Outcome {
    answer_count(cx, |cx, key| cx.look(key).is_some())
}

pub(super) fn touch(cx: &mut Cx<'_, '_>) -> Outcome {
    cx.touch_always();
    answer_count(cx, |cx, key| cx.read(key).is_some())
}

/// Answers how many of the keys are there.
fn answer_count(cx: &mut Cx<'_, '_>, is_there: fn(&mut Cx<'_, '_>, &[u8]) -> bool) -> Outcome {
    let args = cx.args;
    let count = args.iter().skip(1).filter(|key| is_there(cx, key)).count();
    cx.reply.integer(count as i64);
    Ok(())
}

pub(super) fn type_of(cx: &mut Cx<'_, '_>) -> Outcome {
    let name = cx.look(cx.arg(1)).map_or("none", |entry| entry.kind().name());
    cx.reply.simple_string(name);
    Ok(())
}
