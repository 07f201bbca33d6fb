//! Entries that are added in a run.

use tidemill_store::value::stream::{NodeLimits, Stream, StreamEdit, StreamId};
use tidemill_store::{Encoding, Kind};

use super::add::new_id;
use super::id::{self, GivenId};
use crate::access::context::Cx;
use crate::access::write_run::{RunCall, WriteRun};
use crate::commit::Event;
use crate::limits::STREAM_ENTRY_BYTES_MAX;

/// Argument with the id of `XADD` without options.
const ID: usize = 2;

/// `XADD` without options.
pub(super) fn append(cx: &mut Cx<'_, '_>, run: &mut WriteRun<'_>) {
    let limits = cx.settings().stream_node_limits;
    let is_journaled = cx.is_journaled();
    // The clock of a unit is not free.
    let asks_clock = run.calls().iter().any(|call| call.args.get(ID) == b"*");
    let now_ms = if asks_clock { cx.unix_ms() as u64 } else { 0 };
    let edit = cx.edit(run.key());
    if edit.entry_of(Kind::Stream).is_err() {
        return;
    }
    let published = edit.change::<Stream<'_>, ()>(Event::SILENT, |stream| {
        while let Some(call) = run.next_call()
            && let Some(id) = carry_out(call, (stream, limits), now_ms)
        {
            let text = id::text(id);
            let journaled = is_journaled.then(|| (ID, text.as_ref().to_vec()));
            run.reply.bulk(text);
            run.end_call_as(1, journaled);
        }
        Ok(run.has_begun().then_some((Encoding::Stream, ())))
    });
    debug_assert!(published.is_ok(), "a run makes no error");
}

/// Adds the entry of a command, and returns its id; none of a command that is not for a run.
fn carry_out(
    call: RunCall<'_>,
    (stream, limits): (&mut StreamEdit<'_>, NodeLimits),
    now_ms: u64,
) -> Option<StreamId> {
    let args = call.args;
    if !(args.len() - ID - 1).is_multiple_of(2) {
        return None;
    }
    let given = match args.get(ID) {
        b"*" => None,
        // Options are no ids.
        id => Some(id::given(id).ok()?),
    };
    let last = stream.state().last_id;
    if given == Some(GivenId::Whole(StreamId::MIN)) || last == StreamId::MAX {
        return None;
    }
    let id = new_id(given, last, now_ms).ok()?;
    let pairs = (ID + 1..args.len()).step_by(2);
    let fields = pairs.map(|index| (args.get(index), args.get(index + 1)));
    let bytes = fields.clone().map(|(name, value)| (name.len() + value.len()) as u64);
    if bytes.sum::<u64>() > STREAM_ENTRY_BYTES_MAX {
        return None;
    }
    stream.push(id, fields, limits);
    Some(id)
}
