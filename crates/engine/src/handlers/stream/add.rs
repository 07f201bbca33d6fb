//! `XADD`.

use tidemill_store::Encoding;
use tidemill_store::value::stream::{Stream, StreamEdit, StreamId};

use super::id::{self, GivenId};
use super::trim::{Options, TRIM_EVENT};
use crate::access::context::Cx;
use crate::access::outcome::Outcome;
use crate::commit::{Event, EventClass};
use crate::error::CommandError;
use crate::limits::STREAM_ENTRY_BYTES_MAX;

const ADD_EVENT: Event = Event::new(EventClass::STREAM, "xadd");

/// Id of the entry that is added.
pub(super) fn new_id(
    given: Option<GivenId>,
    last: StreamId,
    now_ms: u64,
) -> Result<StreamId, CommandError> {
    let id = match given {
        None => {
            let now = StreamId { ms: now_ms, seq: 0 };
            if now.ms > last.ms { Some(now) } else { last.next() }
        }
        Some(GivenId::Whole(id)) => Some(id),
        Some(GivenId::Milliseconds(ms)) if ms == last.ms => {
            last.seq.checked_add(1).map(|seq| StreamId { ms, seq })
        }
        Some(GivenId::Milliseconds(ms)) => Some(StreamId { ms, seq: 0 }),
    };
    id.filter(|&id| id > last).ok_or_else(|| {
        "ERR The ID specified in XADD is equal or smaller than the target stream top item".into()
    })
}

pub(super) fn xadd(cx: &mut Cx<'_, '_>) -> Outcome {
    let options = Options::parse(cx, true)?;
    let (args, key) = (cx.args, cx.arg(1));
    let first_field = options.id_index + 1;
    let field_count = args.len().saturating_sub(first_field);
    if field_count < 2 || !field_count.is_multiple_of(2) {
        return Err(CommandError::Arity("xadd".into()).into());
    }
    if options.id == Some(GivenId::Whole(StreamId::MIN)) {
        return Err("ERR The ID specified in XADD must be greater than 0-0".into());
    }
    let limits = cx.settings().stream_node_limits;
    // The clock of a unit is not free.
    let now_ms = if options.id.is_none() { cx.unix_ms() as u64 } else { 0 };
    let is_journaled = cx.is_journaled();
    let edit = cx.edit(key);
    if edit.read_as::<Stream<'_>>()?.is_none() && options.must_exist {
        cx.reply.null();
        return Ok(());
    }
    let pairs = (first_field..args.len()).step_by(2);
    let fields = pairs.map(|index| (args.get(index), args.get(index + 1)));
    let added = edit.change::<Stream<'_>, _>(ADD_EVENT, |stream: &mut StreamEdit<'_>| {
        let last = stream.state().last_id;
        if last == StreamId::MAX {
            return Err("ERR The stream has exhausted the last possible ID, unable to add more \
                        items"
                .into());
        }
        let id = new_id(options.id, last, now_ms)?;
        let bytes = fields.clone().map(|(name, value)| (name.len() + value.len()) as u64);
        if bytes.sum::<u64>() > STREAM_ENTRY_BYTES_MAX {
            return Err("ERR Elements are too large to be stored".into());
        }
        stream.push(id, fields.clone(), limits);
        let trimmed = options.trim.map(|trim| {
            let count = trim.carry_out(stream);
            (count, is_journaled.then(|| trim.exact(stream.view())))
        });
        Ok(Some((Encoding::Stream, (id, trimmed))))
    })?;
    let Some((id, trimmed)) = added else { return Ok(()) };
    if trimmed.as_ref().is_some_and(|&(count, _)| count > 0) {
        cx.event(cx.database, key, TRIM_EVENT);
    }
    let id = id::text(id);
    if is_journaled {
        let mut words = vec![&b"XADD"[..], key];
        if options.must_exist {
            words.push(b"NOMKSTREAM");
        }
        if let Some((_, Some((strategy, threshold)))) = &trimmed {
            words.extend([strategy.as_bytes(), b"=", threshold]);
        }
        words.push(&id);
        words.extend((first_field..args.len()).map(|index| args.get(index)));
        cx.propagate(words);
    }
    cx.reply.bulk(id);
    Ok(())
}
