//! `PFADD` and `PFMERGE`.

use smallvec::SmallVec;
use tidemill_store::Encoding as Stored;
use tidemill_store::value::text::{Text, TextEdit};

use super::registers::{Trace, dense_value, with_dense_value};
use super::sketch::{Draft, Encoding, HEADER_BYTES, OUTDATED, OUTDATED_AT, Sketch};
use crate::access::context::{Cx, NewEntry};
use crate::access::outcome::Outcome;
use crate::commit::{Event, EventClass};
use crate::error::CommandError;
use crate::handlers::string::{make_raw, new_raw_string};
use crate::memory;

/// Event of both, as in Valkey: a merge adds elements.
const ADDED: Event = Event::new(EventClass::STRING, "pfadd");

/// Puts a HyperLogLog in the place of the string under a key: a dense one in chunks. The key keeps
/// its expiry.
pub(super) fn put(
    cx: &mut Cx<'_, '_>,
    key: &[u8],
    draft: Draft<'_>,
    event: Event,
) -> Result<(), CommandError> {
    let edit = cx.edit(key);
    let expires_at_ms = edit.expires_at_ms();
    match draft {
        Draft::Sparse(bytes) => {
            edit.put(NewEntry { expires_at_ms, ..new_raw_string(&bytes) }, event);
        }
        Draft::Dense(bytes) => {
            edit.replace_as::<Text<'_>, _>((event, false), |text| {
                text.append(&bytes);
                Ok::<_, CommandError>(Some((Stored::Raw, expires_at_ms)))
            })?;
        }
    }
    Ok(())
}

pub(super) fn pfadd(cx: &mut Cx<'_, '_>) -> Outcome {
    let (args, key) = (cx.args, cx.arg(1));
    let traces = args.iter().skip(2).map(Trace::of);
    let sparse_bytes_max = cx.settings().sparse_hyperloglog_bytes_max;
    let sketch = cx.edit(key).entry().map(Sketch::of).transpose()?;
    let mut draft = match &sketch {
        Some(sketch) if sketch.encoding == Encoding::Dense => {
            let raising: SmallVec<[Trace; 8]> =
                traces.filter(|&trace| sketch.is_raised_by(trace)).collect();
            return add_to_dense(cx, key, sketch, &raising);
        }
        Some(sketch) => Draft::of(sketch)?,
        None => Draft::empty(),
    };
    // A new key is a change by itself.
    let mut change_count = u64::from(sketch.is_none());
    for trace in traces {
        change_count += u64::from(draft.raise(trace, sparse_bytes_max)?);
    }
    if change_count > 0 {
        draft.mark_outdated()?;
        put(cx, key, draft, ADDED)?;
        cx.count_changes(change_count);
    } else {
        make_raw(cx, key)?;
    }
    cx.reply.integer(i64::from(change_count > 0));
    Ok(())
}

/// Raises dense registers where they are: only the chunks that they lie in are copied.
fn add_to_dense(
    cx: &mut Cx<'_, '_>,
    key: &[u8],
    sketch: &Sketch<'_>,
    raising: &[Trace],
) -> Outcome {
    cx.reply.integer(i64::from(!raising.is_empty()));
    if raising.is_empty() {
        return Ok(make_raw(cx, key)?);
    }
    let mut change_count = 0;
    cx.edit(key).change::<Text<'_>, _>(ADDED, |text| {
        for &trace in raising {
            change_count += u64::from(raise_in_text(text, trace));
        }
        if !sketch.is_outdated() {
            let byte = text.view().and_then(|text| text.get(OUTDATED_AT as u64)).unwrap_or(0);
            text.write(OUTDATED_AT as u64, &[byte | OUTDATED]);
        }
        Ok(Some((Stored::Raw, ())))
    })?;
    cx.count_changes(change_count);
    Ok(())
}

fn raise_in_text(text: &mut TextEdit<'_>, trace: Trace) -> bool {
    let view = text.view();
    let byte = |at: usize| view.and_then(|text| text.get((HEADER_BYTES + at) as u64)).unwrap_or(0);
    if trace.value <= dense_value(trace.register, byte) {
        return false;
    }
    let (first, bytes, count) = with_dense_value(trace.register, trace.value, byte);
    text.write((HEADER_BYTES + first) as u64, &bytes[..count]);
    true
}

pub(super) fn pfmerge(cx: &mut Cx<'_, '_>) -> Outcome {
    let (args, target) = (cx.args, cx.arg(1));
    let sparse_bytes_max = cx.settings().sparse_hyperloglog_bytes_max;
    let mut sketches = memory::with_capacity(args.len() - 1)?;
    for key in args.iter().skip(1) {
        let Some(entry) = cx.edit(key).counted().entry() else { continue };
        cx.touch(entry);
        match Sketch::of(entry) {
            Ok(sketch) => sketches.push(sketch),
            Err(error) => {
                // Runs of the keys before that are not valid are an error that comes first.
                sketches.iter().try_for_each(Sketch::check)?;
                return Err(error.into());
            }
        }
    }
    let mut draft = match cx.edit(target).entry() {
        Some(entry) => Draft::of(&Sketch::of(entry)?)?,
        None => Draft::empty(),
    };
    draft.merge(&sketches, sparse_bytes_max)?;
    draft.mark_outdated()?;
    put(cx, target, draft, ADDED)?;
    cx.reply.ok();
    Ok(())
}
