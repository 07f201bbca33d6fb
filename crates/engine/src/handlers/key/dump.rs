//! `DUMP`: values as RDB payloads.

use tidemill_store::{EntryRef, Kind};

use crate::access::context::Cx;
use crate::access::outcome::Outcome;
use crate::error::CommandError;
use crate::reply;
use crate::stored::encode::{self, EncodeError};

pub(super) fn dump(cx: &mut Cx<'_, '_>) -> Outcome {
    let Some(entry) = cx.read(cx.arg(1)) else {
        cx.reply.null();
        return Ok(());
    };
    let payload = payload(cx, entry)?;
    reply::owned(cx.reply, payload);
    Ok(())
}

/// Payload of an entry.
///
/// # Errors
///
/// [`CommandError::NoMemory`], and the error of a type that has no payload.
pub(super) fn payload(cx: &mut Cx<'_, '_>, entry: EntryRef<'_>) -> Result<Vec<u8>, CommandError> {
    let mut compressor = std::mem::take(cx.compressor());
    let clock = cx.clock_of(entry.key());
    let payload = encode::payload(entry, cx.seed(), cx.settings(), clock, &mut compressor);
    *cx.compressor() = compressor;
    payload.map_err(|error| match error {
        EncodeError::Unsupported(kind) => unsupported(kind),
        EncodeError::Output(_) => CommandError::NoMemory(entry.total_bytes() as u64),
    })
}

/// The error of a type that has no payload yet.
pub(super) fn unsupported(kind: Kind) -> CommandError {
    CommandError::err(format_args!("values of type {} are not dumped or restored yet", kind.name()))
}
