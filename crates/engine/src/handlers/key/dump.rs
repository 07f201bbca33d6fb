//! `DUMP`: values as RDB payloads.
//!
//! To add a type: an arm in [`payload_of`] here, and one in `restore`.

use std::collections::TryReserveError;

use tidemill_rdb::encode::{Encoder, Place};
use tidemill_rdb::{Text, payload};
use tidemill_store::value::hash::Hash;
use tidemill_store::value::list::List;
use tidemill_store::value::set::{Member, Set};
use tidemill_store::value::sorted_set::SortedSet;
use tidemill_store::value::stream::Stream;
use tidemill_store::{Encoding, EntryRef, Kind};

use super::stream_payload;
use crate::access::context::Cx;
use crate::access::outcome::Outcome;
use crate::error::CommandError;
use crate::handlers::list::node_limit;
use crate::memory;
use crate::reply;

type Payload = Result<Vec<u8>, CommandError>;

pub(super) fn dump(cx: &mut Cx<'_, '_>) -> Outcome {
    let Some(entry) = cx.read(cx.arg(1)) else {
        cx.reply.null();
        return Ok(());
    };
    let payload = payload_of(cx, entry)?;
    reply::owned(cx.reply, payload);
    Ok(())
}

/// The payload of an entry's value.
fn payload_of(cx: &Cx<'_, '_>, entry: EntryRef<'_>) -> Payload {
    let seed = cx.seed();
    let payload = match entry.kind() {
        Kind::String => entry.string().map(|value| {
            let value = memory::contiguous(value)?;
            encode(cx, entry, |encoder, place| encoder.string(place, &value))
        }),
        Kind::List => entry.view::<List<'_>>(seed).map(|list| list_payload(cx, entry, list)),
        Kind::Hash => entry.view::<Hash<'_>>(seed).map(|hash| hash_payload(cx, entry, hash)),
        Kind::Set => entry.view::<Set<'_>>(seed).map(|set| set_payload(cx, entry, set)),
        Kind::SortedSet => {
            let set = entry.view::<SortedSet<'_>>(seed);
            set.map(|set| sorted_set_payload(cx, entry, set))
        }
        Kind::Stream => {
            let stream = entry.view::<Stream<'_>>(seed);
            stream.map(|stream| {
                encode(cx, entry, |encoder, place| stream_payload::write(encoder, place, stream))
            })
        }
    };
    payload.expect("a value of a type has its view")
}

/// The payload that `write` writes.
fn encode(
    cx: &Cx<'_, '_>,
    entry: EntryRef<'_>,
    write: impl FnOnce(&mut Encoder<Vec<u8>>, Place<'_>) -> Result<(), TryReserveError>,
) -> Payload {
    let payload = payload::encode(cx.settings().compression, write);
    payload.map_err(|_| CommandError::NoMemory(entry.total_bytes() as u64))
}

fn list_payload(cx: &Cx<'_, '_>, entry: EntryRef<'_>, list: List<'_>) -> Payload {
    let limit = node_limit(entry.encoding(), cx.settings().list_listpack_size_max);
    encode(cx, entry, |encoder, place| encoder.list(place, list.iter(), limit))
}

/// Fields whose time is over are part of it, as in Valkey.
fn hash_payload(cx: &Cx<'_, '_>, entry: EntryRef<'_>, hash: Hash<'_>) -> Payload {
    let pairs = hash.iter().map(|entry| (entry.field, entry.value));
    if hash.first_expiry().is_some() {
        let clock = cx.clock();
        let fields = hash.iter().map(|entry| {
            let at_ms = entry.expires_at_ms.map(|at_ms| clock.wall_ms(at_ms));
            (entry.field, entry.value, at_ms)
        });
        return encode(cx, entry, |encoder, place| {
            encoder.hash_expiring(place, hash.len(), fields)
        });
    }
    encode(cx, entry, |encoder, place| match entry.encoding() {
        Encoding::Listpack => encoder.hash_listpack(place, pairs),
        _ => encoder.hash(place, hash.len(), pairs),
    })
}

fn set_payload(cx: &Cx<'_, '_>, entry: EntryRef<'_>, set: Set<'_>) -> Payload {
    if entry.encoding() == Encoding::Intset {
        let integers = set.iter().filter_map(|member| match member {
            Member::Integer(value) => Some(value),
            Member::String(_) => None,
        });
        let mut integers = memory::collect(integers)?;
        integers.sort_unstable();
        return encode(cx, entry, |encoder, place| encoder.set_intset(place, &integers));
    }
    let members = set.iter().map(|member| match member {
        Member::Integer(value) => Text::Integer(value),
        Member::String(text) => Text::Bytes(text),
    });
    encode(cx, entry, |encoder, place| match entry.encoding() {
        Encoding::Listpack => encoder.set_listpack(place, members),
        _ => encoder.set(place, set.len(), members),
    })
}

/// Valkey writes a skip list from its highest score on.
fn sorted_set_payload(cx: &Cx<'_, '_>, entry: EntryRef<'_>, set: SortedSet<'_>) -> Payload {
    encode(cx, entry, |encoder, place| match entry.encoding() {
        Encoding::Listpack => {
            let members = set.iter().map(|item| (item.member, item.score));
            encoder.sorted_set_listpack(place, members)
        }
        _ => {
            let members = set.iter_back_from(set.len() - 1).map(|item| (item.member, item.score));
            encoder.sorted_set(place, set.len(), members)
        }
    })
}
