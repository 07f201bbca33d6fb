//! `XDEL` and `XSETID`.

use tidemill_store::Encoding;
use tidemill_store::value::stream::{Stream, StreamId, StreamState};

use super::id;
use crate::access::context::Cx;
use crate::access::options::{integer, is};
use crate::access::outcome::Outcome;
use crate::commit::{Event, EventClass};
use crate::error::CommandError;

pub(super) fn xdel(cx: &mut Cx<'_, '_>) -> Outcome {
    let key = cx.arg(1);
    let edit = cx.edit(key);
    if edit.read_as::<Stream<'_>>()?.is_none() {
        cx.reply.integer(0);
        return Ok(());
    }
    let ids = id::all(cx.args.iter().skip(2))?;
    let event = Event::new(EventClass::STREAM, "xdel");
    let deleted = cx.edit(key).change::<Stream<'_>, _>(event, |stream| {
        let mut state = stream.state();
        let mut count = 0;
        for &id in &ids {
            if stream.remove(id) {
                state.max_deleted_id = state.max_deleted_id.max(id);
                count += 1;
            }
        }
        if count == 0 {
            return Ok(None);
        }
        stream.set_state(state);
        Ok(Some((Encoding::Stream, count)))
    })?;
    if let Some(count) = deleted {
        cx.count_changes(count);
    }
    cx.reply.integer(deleted.unwrap_or(0) as i64);
    Ok(())
}

pub(super) fn xsetid(cx: &mut Cx<'_, '_>) -> Outcome {
    let (args, key) = (cx.args, cx.arg(1));
    let last_id = id::strict(args.get(2))?;
    let (mut entries_added, mut max_deleted_id) = (None, StreamId::MIN);
    let mut index = 3;
    while index < args.len() {
        let option = args.get(index);
        match (index + 1 < args.len()).then(|| args.get(index + 1)) {
            Some(value) if is(option, "ENTRIESADDED") => {
                let count = u64::try_from(integer(value)?);
                let negative = CommandError::from("ERR entries_added must be positive");
                entries_added = Some(count.map_err(|_| negative)?);
            }
            Some(value) if is(option, "MAXDELETEDID") => {
                max_deleted_id = id::strict(value)?;
                if last_id < max_deleted_id {
                    return Err("ERR The ID specified in XSETID is smaller than the provided \
                                max_deleted_entry_id"
                        .into());
                }
            }
            _ => return Err(CommandError::Syntax.into()),
        }
        index += 2;
    }
    let edit = cx.edit(key);
    let Some(stream) = edit.read_as::<Stream<'_>>()? else {
        return Err(CommandError::NoSuchKey.into());
    };
    let state = stream.state();
    if last_id < state.max_deleted_id {
        return Err("ERR The ID specified in XSETID is smaller than current \
                    max_deleted_entry_id"
            .into());
    }
    if stream.last_entry_id().is_some_and(|last| last_id < last) {
        return Err(
            "ERR The ID specified in XSETID is smaller than the target stream top item".into()
        );
    }
    if entries_added.is_some_and(|count| count < stream.len()) {
        return Err("ERR The entries_added specified in XSETID is smaller than the target stream \
                    length"
            .into());
    }
    let state = StreamState {
        last_id,
        entries_added: entries_added.unwrap_or(state.entries_added),
        max_deleted_id: match max_deleted_id {
            StreamId::MIN => state.max_deleted_id,
            given => given,
        },
    };
    let event = Event::new(EventClass::STREAM, "xsetid");
    edit.change_beside::<Stream<'_>, _>(Some(event), |stream| {
        stream.set_state(state);
        Ok(Some((Encoding::Stream, ())))
    })?;
    cx.reply.ok();
    Ok(())
}
