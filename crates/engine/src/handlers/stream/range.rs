//! `XLEN`, `XRANGE` and `XREVRANGE`.

use tidemill_store::value::stream::Stream;

use super::id;
use super::pieces::{StreamElements, write_entry};
use crate::access::context::Cx;
use crate::access::options::{integer, is};
use crate::access::outcome::Outcome;
use crate::error::CommandError;
use crate::long_reply::LongReply;

pub(super) fn xlen(cx: &mut Cx<'_, '_>) -> Outcome {
    let stream = cx.read_as::<Stream<'_>>(cx.arg(1))?;
    cx.reply.integer(stream.map_or(0, |stream| stream.len() as i64));
    Ok(())
}

/// The option `COUNT` behind a range; none if it is not given.
fn count(cx: &Cx<'_, '_>) -> Result<Option<u64>, CommandError> {
    let mut count = None;
    for index in (4..cx.args.len()).step_by(2) {
        if !is(cx.arg(index), "COUNT") || index + 1 == cx.args.len() {
            return Err(CommandError::Syntax);
        }
        count = Some(integer(cx.arg(index + 1))?.max(0) as u64);
    }
    Ok(count)
}

/// `XRANGE` and `XREVRANGE`.
pub(super) fn xrange(cx: &mut Cx<'_, '_>) -> Outcome {
    let is_descending = cx.command.name == "xrevrange";
    let (start, end) = if is_descending { (3, 2) } else { (2, 3) };
    let (start, end) = (id::start(cx.arg(start))?, id::end(cx.arg(end))?);
    let count = count(cx)?;
    let key = cx.arg(1);
    let Some(stream) = cx.read_as::<Stream<'_>>(key)? else {
        cx.reply.array(0);
        return Ok(());
    };
    if count == Some(0) {
        cx.reply.null_array();
        return Ok(());
    }
    let first = stream.count_below(start);
    let ranks = first..stream.count_up_to(end).max(first);
    let length = (ranks.end - ranks.start).min(count.unwrap_or(u64::MAX));
    let elements = StreamElements { ranks, is_descending };
    let version = cx.pin(key, length, (stream.len(), stream.bytes()))?;
    cx.reply.array(length as usize);
    if let Some(version) = version {
        return cx.answer_in_pieces(LongReply::new(version, elements, 0..length));
    }
    for entry in elements.entries(stream, 0..length) {
        write_entry(cx.reply, &entry);
    }
    Ok(())
}
