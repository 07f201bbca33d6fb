//! Looking at keys.

use tidemill_store::Kind;

use crate::command::Outcome;
use crate::context::Cx;

pub(super) fn exists(cx: &mut Cx<'_, '_>) -> Outcome {
    answer_count(cx, |cx, key| cx.look(key).is_some())
}

pub(super) fn touch(cx: &mut Cx<'_, '_>) -> Outcome {
    answer_count(cx, |cx, key| cx.read(key).is_some())
}

/// Answers how many of the keys are there.
fn answer_count(cx: &mut Cx<'_, '_>, is_there: fn(&mut Cx<'_, '_>, &[u8]) -> bool) -> Outcome {
    let args = cx.args;
    let count = args.iter().skip(1).filter(|key| is_there(cx, key)).count();
    cx.reply.integer(count as i64);
    Ok(())
}

/// Redis's name of a type.
pub(in crate::commands) fn kind_name(kind: Kind) -> &'static str {
    match kind {
        Kind::String => "string",
        Kind::List => "list",
        Kind::Set => "set",
        Kind::SortedSet => "zset",
        Kind::Hash => "hash",
        Kind::Stream => "stream",
    }
}

pub(super) fn type_of(cx: &mut Cx<'_, '_>) -> Outcome {
    let name = cx.look(cx.arg(1)).map_or("none", |entry| kind_name(entry.kind()));
    cx.reply.simple_string(name);
    Ok(())
}
