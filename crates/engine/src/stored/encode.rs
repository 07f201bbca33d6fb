//! Values in their stored form.

use std::borrow::Cow;
use std::collections::TryReserveError;

use tidemill_rdb::Text;
use tidemill_rdb::encode::{Compressor, Encoder, Output, Place};
use tidemill_rdb::file::KeyAttributes;
use tidemill_rdb::payload;
use tidemill_store::hash::Seed;
use tidemill_store::value::hash::Hash;
use tidemill_store::value::list::List;
use tidemill_store::value::set::{Member, Set};
use tidemill_store::value::sorted_set::SortedSet;
use tidemill_store::value::stream::Stream;
use tidemill_store::{Encoding, EntryRef, Kind, StringValue};

use crate::expiry_clock::ExpiryClock;
use crate::handlers::key::stream_payload;
use crate::handlers::list::node_limit;
use crate::limits::LISTPACK_BYTES_MAX;
use crate::settings::{EvictionOrder, Settings};
use crate::use_stamp::{FrequencyScale, UseStamp};

/// Circumstances under which values are encoded.
#[derive(Clone, Copy, Debug)]
pub struct EncodeRules<'r> {
    /// The keyspace's.
    pub seed: &'r Seed,
    /// `list-max-listpack-size`.
    pub list_listpack_size_max: i64,
    /// Turns expiries of fields into times of the wall clock.
    pub clock: ExpiryClock,
}

/// Rules by which a file says how a key was used: under LRU and LFU policies only, as in Valkey.
#[derive(Clone, Copy, Debug)]
pub struct UseRules {
    order: Option<EvictionOrder>,
    scale: FrequencyScale,
}

impl UseRules {
    /// Rules under settings.
    #[must_use]
    pub fn of(settings: &Settings) -> UseRules {
        let order = settings.eviction_policy.map(|policy| policy.order);
        UseRules { order, scale: settings.frequency_scale }
    }

    /// Attributes of a key at `now_s` by the server's clock; without an expiry.
    #[must_use]
    pub fn attributes(self, entry: EntryRef<'_>, now_s: u64) -> KeyAttributes {
        let stamp = UseStamp::of_field(entry.recency());
        let mut attributes = KeyAttributes::default();
        match self.order {
            Some(EvictionOrder::LeastRecentlyUsed) => {
                attributes.idle_s = Some(u64::from(stamp.idle_s(now_s)));
            }
            Some(EvictionOrder::LeastFrequentlyUsed) => {
                attributes.frequency = Some(stamp.frequency(now_s, self.scale));
            }
            _ => {}
        }
        attributes
    }
}

/// Reason why a value has no stored form.
#[derive(Debug)]
pub enum EncodeError<E> {
    /// Values of this type are not stored yet.
    Unsupported(Kind),
    /// The output takes no more, or there is no memory for a part of the value.
    Output(E),
}

impl<E: From<TryReserveError>> From<TryReserveError> for EncodeError<E> {
    fn from(error: TryReserveError) -> EncodeError<E> {
        EncodeError::Output(error.into())
    }
}

/// Payload of an entry of a keyspace with this seed, as `DUMP` answers it.
///
/// # Errors
///
/// When there is no memory for it, and for types that have no payload.
pub fn payload(
    entry: EntryRef<'_>,
    seed: &Seed,
    settings: &Settings,
    clock: ExpiryClock,
    compressor: &mut Compressor,
) -> Result<Vec<u8>, EncodeError<TryReserveError>> {
    let list_listpack_size_max = settings.list_listpack_size_max;
    let rules = EncodeRules { seed, list_listpack_size_max, clock };
    payload::encode(settings.compression, compressor, |encoder, place| {
        value(entry, rules, encoder, place)
    })
}

/// Writes the value of an entry.
///
/// # Errors
///
/// [`EncodeError`]; nothing is written of a type that is not supported.
pub fn value<O: Output<Error: From<TryReserveError>>>(
    entry: EntryRef<'_>,
    rules: EncodeRules<'_>,
    encoder: &mut Encoder<O>,
    place: Place<'_>,
) -> Result<(), EncodeError<O::Error>> {
    // A listpack cannot name more than 4 GiB, and Valkey makes none of more than one.
    let is_too_large = entry.kind() != Kind::List && entry.total_bytes() > LISTPACK_BYTES_MAX;
    let encoding = match entry.encoding() {
        Encoding::Listpack if is_too_large => Encoding::Hashtable,
        encoding => encoding,
    };
    let seed = rules.seed;
    let unsupported = EncodeError::Unsupported(entry.kind());
    match entry.kind() {
        Kind::String => {
            let Some(string) = entry.string() else { return Err(unsupported) };
            encoder.string(place, &contiguous(string)?)
        }
        Kind::List => {
            let Some(list) = entry.view::<List<'_>>(seed) else { return Err(unsupported) };
            let limit = node_limit(encoding, rules.list_listpack_size_max);
            encoder.list(place, list.iter(), limit)
        }
        Kind::Hash => {
            let Some(fields) = entry.view::<Hash<'_>>(seed) else { return Err(unsupported) };
            hash(fields, encoding, rules.clock, encoder, place)
        }
        Kind::Set => {
            let Some(members) = entry.view::<Set<'_>>(seed) else { return Err(unsupported) };
            return set(members, encoding, encoder, place);
        }
        Kind::SortedSet => {
            let Some(members) = entry.view::<SortedSet<'_>>(seed) else { return Err(unsupported) };
            sorted_set(members, encoding, encoder, place)
        }
        Kind::Stream => {
            let Some(stream) = entry.view::<Stream<'_>>(seed) else { return Err(unsupported) };
            stream_payload::write(encoder, place, stream)
        }
    }
    .map_err(EncodeError::Output)
}

fn contiguous(string: StringValue<'_>) -> Result<Cow<'_, [u8]>, TryReserveError> {
    match string {
        StringValue::Plain(bytes) => Ok(Cow::Borrowed(bytes)),
        StringValue::Chunks(text) => {
            let mut bytes = Vec::new();
            bytes.try_reserve_exact(text.len() as usize)?;
            text.copy_to(0..text.len(), &mut bytes);
            Ok(Cow::Owned(bytes))
        }
    }
}

/// Fields whose time is over are part of it, as in Valkey.
fn hash<O: Output<Error: From<TryReserveError>>>(
    hash: Hash<'_>,
    encoding: Encoding,
    clock: ExpiryClock,
    encoder: &mut Encoder<O>,
    place: Place<'_>,
) -> Result<(), O::Error> {
    let pairs = hash.iter().map(|entry| (entry.field, entry.value));
    if hash.first_expiry().is_some() {
        let fields = hash.iter().map(|entry| {
            let at_ms = entry.expires_at_ms.map(|at_ms| clock.wall_ms(at_ms));
            (entry.field, entry.value, at_ms)
        });
        return encoder.hash_expiring(place, hash.len(), fields);
    }
    match encoding {
        Encoding::Listpack => encoder.hash_listpack(place, pairs),
        _ => encoder.hash(place, hash.len(), pairs),
    }
}

fn set<O: Output<Error: From<TryReserveError>>>(
    set: Set<'_>,
    encoding: Encoding,
    encoder: &mut Encoder<O>,
    place: Place<'_>,
) -> Result<(), EncodeError<O::Error>> {
    if encoding == Encoding::Intset {
        let mut integers = Vec::new();
        integers.try_reserve_exact(set.len() as usize)?;
        integers.extend(set.iter().filter_map(|member| match member {
            Member::Integer(value) => Some(value),
            Member::String(_) => None,
        }));
        integers.sort_unstable();
        return encoder.set_intset(place, &integers).map_err(EncodeError::Output);
    }
    let members = set.iter().map(|member| match member {
        Member::Integer(value) => Text::Integer(value),
        Member::String(text) => Text::Bytes(text),
    });
    let written = match encoding {
        Encoding::Listpack => encoder.set_listpack(place, members),
        _ => encoder.set(place, set.len(), members),
    };
    written.map_err(EncodeError::Output)
}

/// Valkey writes a skip list from its highest score on.
fn sorted_set<O: Output<Error: From<TryReserveError>>>(
    set: SortedSet<'_>,
    encoding: Encoding,
    encoder: &mut Encoder<O>,
    place: Place<'_>,
) -> Result<(), O::Error> {
    match encoding {
        Encoding::Listpack => {
            let members = set.iter().map(|item| (item.member, item.score));
            encoder.sorted_set_listpack(place, members)
        }
        _ => {
            let members = set.iter_back_from(set.len() - 1).map(|item| (item.member, item.score));
            encoder.sorted_set(place, set.len(), members)
        }
    }
}
