//! `DUMP`: values as RDB payloads.
//!
//! To add a type: an arm in [`payload_of`] here, and one in `restore`.

use tidemill_rdb::payload;
use tidemill_store::value::hash::Hash;
use tidemill_store::value::list::List;
use tidemill_store::{Encoding, EntryRef, Kind};

use crate::access::context::Cx;
use crate::access::outcome::Outcome;
use crate::error::CommandError;
use crate::handlers::list::node_limit;
use crate::memory;
use crate::reply;

pub(super) fn dump(cx: &mut Cx<'_, '_>) -> Outcome {
    let Some(entry) = cx.read(cx.arg(1)) else {
        cx.reply.null();
        return Ok(());
    };
    let payload = payload_of(cx, entry)?;
    reply::owned(cx.reply, payload);
    Ok(())
}

/// The payload of an entry's value. Fields of a hash whose time is over are part of it, as in
/// Valkey.
fn payload_of(cx: &mut Cx<'_, '_>, entry: EntryRef<'_>) -> Result<Vec<u8>, CommandError> {
    let (seed, compression) = (cx.seed(), cx.settings().compression);
    let payload = match entry.kind() {
        Kind::String => {
            let value = entry.string().map(memory::contiguous).transpose()?;
            let value = value.unwrap_or_default();
            payload::encode(compression, |encoder, place| encoder.string(place, &value))
        }
        Kind::List => {
            let list = entry.view::<List<'_>>(seed);
            let elements = list.iter().flat_map(|list| list.iter());
            let limit = node_limit(entry.encoding(), cx.settings().list_listpack_size_max);
            payload::encode(compression, |encoder, place| encoder.list(place, elements, limit))
        }
        Kind::Hash => {
            let Some(hash) = entry.view::<Hash<'_>>(seed) else {
                return Err(CommandError::NoSuchKey);
            };
            let pairs = hash.iter().map(|entry| (entry.field, entry.value));
            if hash.first_expiry().is_some() {
                let clock = cx.clock();
                let fields = hash.iter().map(|entry| {
                    let at_ms = entry.expires_at_ms.map(|at_ms| clock.wall_ms(at_ms));
                    (entry.field, entry.value, at_ms)
                });
                payload::encode(compression, |encoder, place| {
                    encoder.hash_expiring(place, hash.len(), fields)
                })
            } else if entry.encoding() == Encoding::Listpack {
                payload::encode(compression, |encoder, place| encoder.hash_listpack(place, pairs))
            } else {
                payload::encode(compression, |encoder, place| {
                    encoder.hash(place, hash.len(), pairs)
                })
            }
        }
        Kind::Set | Kind::SortedSet | Kind::Stream => return Err(unsupported(entry.kind())),
    };
    payload.map_err(|_| CommandError::NoMemory(entry.total_bytes() as u64))
}

/// The error of a type that has no payload yet.
pub(super) fn unsupported(kind: Kind) -> CommandError {
    CommandError::err(format_args!("values of type {} are not dumped or restored yet", kind.name()))
}
