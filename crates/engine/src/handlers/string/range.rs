//! Parts of strings.

use tidemill_store::value::text::Chunk;
use tidemill_store::value::text::Text;
use tidemill_store::{Encoding, Kind, NewValue, StringValue};

use super::set::put_string;
use crate::access::context::{Cx, NewEntry};
use crate::access::options::{clamp_range, integer};
use crate::access::outcome::Outcome;
use crate::commit::{Event, EventClass};
use crate::error::CommandError;
use crate::limits::COPIED_STRING_BYTES_MAX;
use crate::memory;
use crate::reply;

/// Fails when a string of `length` bytes may not exist.
pub(crate) fn check_length(cx: &Cx<'_, '_>, length: u64) -> Result<(), CommandError> {
    if length > cx.string_bytes_max() {
        return Err("ERR string exceeds maximum allowed size (proto-max-bulk-len)".into());
    }
    Ok(())
}

pub(super) fn append(cx: &mut Cx<'_, '_>) -> Outcome {
    let (key, tail) = (cx.arg(1), cx.arg(2));
    let old = cx.edit(key).entry_of(Kind::String)?.and_then(|entry| entry.string());
    let length = old.map_or(0, |value| value.len()) + tail.len() as u64;
    check_length(cx, length)?;
    let event = Event::new(EventClass::STRING, "append");
    match old {
        None => {
            let value = memory::string_value(cx.args, tail)?;
            put_string(cx.edit(key), key, (value, None), event);
        }
        Some(_) => write(cx, key, length - tail.len() as u64, tail, event)?,
    }
    cx.reply.integer(length as i64);
    Ok(())
}

pub(super) fn setrange(cx: &mut Cx<'_, '_>) -> Outcome {
    let (key, bytes) = (cx.arg(1), cx.arg(3));
    let offset = integer(cx.arg(2))?;
    let offset =
        u64::try_from(offset).map_err(|_| CommandError::from("ERR offset is out of range"))?;
    let old = cx.edit(key).entry_of(Kind::String)?.and_then(|entry| entry.string());
    let old_length = old.map_or(0, |value| value.len());
    if bytes.is_empty() {
        cx.reply.integer(old_length as i64);
        return Ok(());
    }
    let end = offset.saturating_add(bytes.len() as u64);
    check_length(cx, end)?;
    write(cx, key, offset, bytes, Event::new(EventClass::STRING, "setrange"))?;
    cx.reply.integer(old_length.max(end) as i64);
    Ok(())
}

/// Writes `bytes` into the string under `key` from `offset` on; what is missing before becomes
/// zeros.
pub(crate) fn write(
    cx: &mut Cx<'_, '_>,
    key: &[u8],
    offset: u64,
    bytes: &[u8],
    event: Event,
) -> Result<(), CommandError> {
    write_runs(cx, key, &[(offset, bytes)], event)
}

/// Writes several runs of bytes into the string under `key` as one change.
pub(crate) fn write_runs<B: AsRef<[u8]>>(
    cx: &mut Cx<'_, '_>,
    key: &[u8],
    runs: &[(u64, B)],
    event: Event,
) -> Result<(), CommandError> {
    let (args, room) = (cx.args, cx.room());
    let edit = cx.edit(key);
    let old = edit.entry().and_then(|entry| entry.string());
    let end = runs.iter().map(|(offset, bytes)| offset + bytes.as_ref().len() as u64).max();
    let old_length = old.map_or(0, |value| value.len());
    let length = old_length.max(end.unwrap_or(0));
    if let [(0, bytes)] = runs
        && bytes.as_ref().len() as u64 >= old_length
    {
        // Nothing of the old string is left: its chunks need not be copied first.
        let expires_at_ms = edit.expires_at_ms();
        let value = memory::string_value(args, bytes.as_ref())?;
        edit.put(NewEntry { expires_at_ms, value, ..new_raw_string(&[]) }, event);
        return Ok(());
    }
    if let ([(offset, tail)], Some(StringValue::Plain(head))) = (runs, old)
        && length > COPIED_STRING_BYTES_MAX as u64
        && *offset == old_length
        && tail.as_ref().len() >= head.len()
    {
        // Half of it is new: chunks would take longer than the copy of the rest.
        let mut whole = memory::new_string(length as usize)?;
        whole.append(head);
        whole.append(tail.as_ref());
        let value = NewValue::Shared(whole.finish());
        let expires_at_ms = edit.expires_at_ms();
        edit.put(NewEntry { expires_at_ms, value, ..new_raw_string(&[]) }, event);
        return Ok(());
    }
    if length > COPIED_STRING_BYTES_MAX as u64 || matches!(old, Some(StringValue::Chunks(_))) {
        if let Some(StringValue::Plain(bytes)) = old {
            // Its chunks, and the nodes above them.
            room.check(bytes.len() as u64 / 16 * 17)?;
        }
        edit.change::<Text<'_>, _>(event, |text| {
            runs.iter().for_each(|(offset, bytes)| text.write(*offset, bytes.as_ref()));
            Ok(Some((Encoding::Raw, ())))
        })?;
        return Ok(());
    }
    let mut whole = old.map_or_else(|| Ok(Vec::new()), memory::copy)?;
    whole.resize(length as usize, 0);
    for (offset, bytes) in runs {
        let start = *offset as usize;
        whole[start..start + bytes.as_ref().len()].copy_from_slice(bytes.as_ref());
    }
    let expires_at_ms = edit.expires_at_ms();
    edit.put(NewEntry { expires_at_ms, ..new_raw_string(&whole) }, event);
    Ok(())
}

/// Makes the string under `key`, if there is one, raw. It stays the same string: no change for any
/// sink.
///
/// # Errors
///
/// [`CommandError::NoMemory`].
pub(crate) fn make_raw(cx: &mut Cx<'_, '_>, key: &[u8]) -> Result<(), CommandError> {
    let edit = cx.edit(key);
    if let Some(entry) = edit.entry()
        && entry.encoding() != Encoding::Raw
        && let Some(value) = entry.string()
    {
        let bytes = memory::copy(value)?;
        edit.put_same(NewEntry { expires_at_ms: entry.expires_at_ms(), ..new_raw_string(&bytes) });
    }
    Ok(())
}

/// The entry of a string that was put together here.
pub(crate) fn new_raw_string(bytes: &[u8]) -> NewEntry<'_> {
    NewEntry {
        kind: Kind::String,
        encoding: Encoding::Raw,
        expires_at_ms: None,
        value: NewValue::String(bytes),
    }
}

/// The pieces of a byte range of a string, in order.
pub(crate) fn pieces<'g>(
    value: StringValue<'g>,
    range: std::ops::Range<u64>,
) -> impl Iterator<Item = Chunk<'g>> {
    let (plain, chunks) = match value {
        StringValue::Plain(bytes) => {
            (Some(Chunk::Bytes(&bytes[range.start as usize..range.end as usize])), None)
        }
        StringValue::Chunks(text) => (None, Some(text.chunks(range))),
    };
    plain.into_iter().chain(chunks.into_iter().flatten())
}

/// `GETRANGE` and `SUBSTR`.
pub(super) fn getrange(cx: &mut Cx<'_, '_>) -> Outcome {
    let (start, end) = (integer(cx.arg(2))?, integer(cx.arg(3))?);
    let Some(value) = cx.read_string(cx.arg(1))? else {
        cx.reply.bulk(b"");
        return Ok(());
    };
    let Some((start, end)) = clamp_range(start, end, value.len()) else {
        cx.reply.bulk(b"");
        return Ok(());
    };
    match value {
        StringValue::Plain(bytes) => cx.reply.bulk(&bytes[start as usize..=end as usize]),
        StringValue::Chunks(_) => {
            reply::owned(cx.reply, memory::copy_range(value, start..end + 1, 0)?);
        }
    }
    Ok(())
}
