//! `RESTORE`: keys made of RDB payloads.
//!
//! The value is built completely before anything is changed: a payload may be wrong at its last
//! byte.

use tidemill_rdb::payload::Payload;
use tidemill_rdb::value::{Item, ValueEncoding, ValueType};
use tidemill_rdb::{DecodeError, ReadError};
use tidemill_resp::request::ArgumentView;
use tidemill_store::Encoding;
use tidemill_store::value::hash::Hash;
use tidemill_store::value::list::List;
use tidemill_store::value::set::Set;
use tidemill_store::value::sorted_set::SortedSet;
use tidemill_store::value::stream::Stream;

use super::stream_payload::Reading;
use crate::access::context::Cx;
use crate::access::options::{TimeUnit, integer, is};
use crate::access::outcome::Outcome;
use crate::commit::{Event, EventClass};
use crate::error::CommandError;
use crate::handlers::list::restored_encoding;
use crate::handlers::set::{Thresholds, member_of};
use crate::handlers::string::put_string;
use crate::limits::{ELEMENT_OVERHEAD_BYTES, LARGE_BYTES_MIN};
use crate::memory::Room;
use crate::use_stamp::UseStamp;

const EVENT: Event = Event::new(EventClass::GENERIC, "restore");

/// Types that Valkey and Redis number differently, under a version that only Redis writes.
const FOREIGN_TYPES: std::ops::RangeInclusive<u8> = 22..=243;

/// The error of a payload that cannot be read.
pub(super) const BAD_DATA: CommandError =
    CommandError::Text(std::borrow::Cow::Borrowed("ERR Bad data format"));

#[derive(Default)]
struct Options {
    replaces: bool,
    is_absolute: bool,
    idle_s: Option<u64>,
    frequency: Option<u8>,
}

impl Options {
    fn parse(args: ArgumentView<'_>) -> Result<Options, CommandError> {
        let mut options = Options::default();
        let mut index = 4;
        while index < args.len() {
            let option = args.get(index);
            let next = (index + 1 < args.len()).then(|| args.get(index + 1));
            match next {
                _ if is(option, "REPLACE") => options.replaces = true,
                _ if is(option, "ABSTTL") => options.is_absolute = true,
                Some(next) if is(option, "IDLETIME") && options.frequency.is_none() => {
                    let idle_s = u64::try_from(integer(next)?);
                    let invalid = "ERR Invalid IDLETIME value, must be >= 0";
                    options.idle_s = Some(idle_s.map_err(|_| CommandError::from(invalid))?);
                    index += 1;
                }
                Some(next) if is(option, "FREQ") && options.idle_s.is_none() => {
                    let frequency = u8::try_from(integer(next)?);
                    let invalid = "ERR Invalid FREQ value, must be >= 0 and <= 255";
                    let frequency = frequency.map_err(|_| CommandError::from(invalid))?;
                    options.frequency = Some(frequency);
                    index += 1;
                }
                _ => return Err(CommandError::Syntax),
            }
            index += 1;
        }
        Ok(options)
    }

    /// Use of the key, if it is not that of a new one: its frequency under an LFU policy, otherwise
    /// its idle time.
    fn stamp(&self, cx: &Cx<'_, '_>) -> Option<UseStamp> {
        let now_s = cx.use_s();
        if cx.settings().counts_uses() {
            return self.frequency.map(|frequency| UseStamp::with_frequency(now_s, frequency));
        }
        self.idle_s.map(|idle_s| UseStamp::new(now_s.saturating_sub(idle_s)))
    }
}

/// Expiry of the key that is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Expiry {
    None,
    At(u64),
    /// It has passed: the payload is checked, and no key is made.
    Passed,
}

impl Expiry {
    /// Encoding and expiry for the key, if it is made.
    fn with(self, encoding: Encoding) -> Option<(Encoding, Option<u64>)> {
        match self {
            Expiry::None => Some((encoding, None)),
            Expiry::At(at_ms) => Some((encoding, Some(at_ms))),
            Expiry::Passed => None,
        }
    }
}

/// `RESTORE` and `RESTORE-ASKING`.
pub(super) fn restore(cx: &mut Cx<'_, '_>) -> Outcome {
    let options = Options::parse(*cx.args)?;
    let key = cx.arg(1);
    let is_there = cx.edit(key).entry().is_some();
    if is_there && !options.replaces {
        return Err("BUSYKEY Target key name already exists.".into());
    }
    let ttl_ms = integer(cx.arg(2))?;
    if ttl_ms < 0 {
        return Err("ERR Invalid TTL value, must be >= 0".into());
    }
    let payload = Payload::new(cx.arg(3), cx.settings().version_check)
        .map_err(|_| CommandError::from("ERR DUMP payload version or checksum are wrong"))?;
    let expiry = expiry(cx, ttl_ms, options.is_absolute);
    put(cx, key, payload, expiry)?;
    match expiry {
        Expiry::Passed => {
            if cx.edit(key).remove(Event::new(EventClass::GENERIC, "del")) {
                cx.propagate([&b"DEL"[..], key]);
            }
        }
        Expiry::At(at_ms) if !options.is_absolute => propagate_absolute(cx, at_ms),
        Expiry::At(_) | Expiry::None => {}
    }
    if let Some(stamp) = options.stamp(cx)
        && let Some(entry) = cx.edit(key).entry()
    {
        entry.set_recency(stamp.field());
    }
    cx.reply.ok();
    Ok(())
}

fn expiry(cx: &Cx<'_, '_>, ttl_ms: i64, is_absolute: bool) -> Expiry {
    if ttl_ms == 0 {
        return Expiry::None;
    }
    let clock = cx.clock();
    // Beyond all times Valkey's sum becomes negative.
    match (TimeUnit { is_seconds: false, is_absolute }).milliseconds(ttl_ms, clock) {
        Some(at_ms) if !clock.has_come(at_ms) => Expiry::At(at_ms),
        _ => Expiry::Passed,
    }
}

/// Journals the command with the time at which the key expires in the place of the time it has
/// left.
fn propagate_absolute(cx: &mut Cx<'_, '_>, at_ms: u64) {
    let at_ms = cx.clock().wall_ms(at_ms).to_string();
    let args = cx.args;
    let words = args.iter().enumerate().map(|(index, word)| match index {
        2 => at_ms.as_bytes(),
        _ => word,
    });
    cx.propagate(words.chain([&b"ABSTTL"[..]]));
}

/// Puts the payload's value under the key in the place of whatever is there.
fn put(
    cx: &mut Cx<'_, '_>,
    key: &[u8],
    payload: Payload<'_>,
    expiry: Expiry,
) -> Result<(), CommandError> {
    if let Some(number) = payload.type_number()
        && payload.version().is_foreign()
        && FOREIGN_TYPES.contains(&number)
    {
        return Err(CommandError::err(format_args!("Unsupported foreign data type: {number}")));
    }
    let encoding = payload.encoding().map_err(bad_data)?;
    match encoding.value_type() {
        ValueType::String => put_text(cx, key, payload, expiry),
        ValueType::List => put_list(cx, key, (payload, encoding), expiry),
        ValueType::Hash => put_hash(cx, key, (payload, encoding), expiry),
        ValueType::Set => put_set(cx, key, (payload, encoding), expiry),
        ValueType::SortedSet => put_sorted_set(cx, key, (payload, encoding), expiry),
        ValueType::Stream => put_stream(cx, key, (payload, encoding), expiry),
    }
}

fn bad_data(error: DecodeError) -> CommandError {
    match error {
        DecodeError::NoMemory { bytes, .. } => CommandError::NoMemory(bytes),
        _ => BAD_DATA,
    }
}

/// Gives all elements of a payload to `take`, while there is room for them.
fn decode(
    room: Room<'_>,
    payload: Payload<'_>,
    mut take: impl FnMut(Item<'_>) -> Result<u64, CommandError>,
) -> Result<(), CommandError> {
    let mut unasked_bytes = 0;
    let decoded = payload.decode(|item| {
        unasked_bytes += take(item)? + ELEMENT_OVERHEAD_BYTES;
        if unasked_bytes >= LARGE_BYTES_MIN {
            room.check(unasked_bytes)?;
            unasked_bytes = 0;
        }
        Ok(())
    });
    decoded.map_err(|error| match error {
        ReadError::Decode(error) => bad_data(error),
        ReadError::Sink(error) => error,
    })
}

fn put_text(
    cx: &mut Cx<'_, '_>,
    key: &[u8],
    payload: Payload<'_>,
    expiry: Expiry,
) -> Result<(), CommandError> {
    let room = cx.room();
    decode(room, payload, |item| {
        let Item::String(text) = item else { return Err(BAD_DATA) };
        room.check(text.len() as u64)?;
        let expires_at_ms = match expiry {
            Expiry::None => None,
            Expiry::At(at_ms) => Some(at_ms),
            Expiry::Passed => return Ok(0),
        };
        put_string(cx.edit(key), key, (text, expires_at_ms), EVENT);
        Ok(0)
    })
}

fn put_list(
    cx: &mut Cx<'_, '_>,
    key: &[u8],
    (payload, encoding): (Payload<'_>, ValueEncoding),
    expiry: Expiry,
) -> Result<(), CommandError> {
    let (room, size_max) = (cx.room(), cx.settings().list_listpack_size_max);
    // A list that was one ziplist Valkey leaves a quicklist.
    let is_one_node = encoding != ValueEncoding::ListZiplist
        && payload.claimed_count().is_none_or(|count| count == 1);
    cx.edit(key).replace_as::<List<'_>>(EVENT, |list| {
        decode(room, payload, |item| {
            let Item::ListElement(element) = item else { return Err(BAD_DATA) };
            list.push_back(element);
            Ok(element.len() as u64)
        })?;
        if list.is_empty() {
            return Err(BAD_DATA);
        }
        Ok(expiry.with(restored_encoding(list, is_one_node, size_max)))
    })?;
    Ok(())
}

fn put_hash(
    cx: &mut Cx<'_, '_>,
    key: &[u8],
    (payload, encoding): (Payload<'_>, ValueEncoding),
    expiry: Expiry,
) -> Result<(), CommandError> {
    let (room, clock) = (cx.room(), cx.clock());
    let entries_max = cx.settings().hash_listpack_entries_max;
    let value_bytes_max = cx.settings().hash_listpack_value_bytes_max;
    // Valkey looks at the lengths of what was not packed, and never makes a listpack of a hash that
    // might have had expiries.
    let is_packed = matches!(encoding, ValueEncoding::HashListpack | ValueEncoding::HashZiplist);
    let mut is_table = encoding == ValueEncoding::HashExpiring;
    let mut has_expiries = false;
    let is_put = cx.edit(key).replace_as::<Hash<'_>>(EVENT, |hash| {
        decode(room, payload, |item| {
            let Item::HashField { field, value, expires_at_ms } = item else {
                return Err(BAD_DATA);
            };
            is_table |= !is_packed && field.len().max(value.len()) > value_bytes_max;
            let at_ms = expires_at_ms.and_then(|at_ms| clock.expiry_at(at_ms as i64));
            has_expiries |= at_ms.is_some();
            if !hash.set(field, value, at_ms) {
                return Err(BAD_DATA);
            }
            Ok((field.len() + value.len()) as u64)
        })?;
        if hash.is_empty() {
            return Err(BAD_DATA);
        }
        let is_table = is_table || hash.len() > entries_max;
        Ok(expiry.with(if is_table { Encoding::Hashtable } else { Encoding::Listpack }))
    })?;
    if is_put && has_expiries {
        cx.note_expiring_field();
    }
    Ok(())
}

fn put_set(
    cx: &mut Cx<'_, '_>,
    key: &[u8],
    (payload, stored): (Payload<'_>, ValueEncoding),
    expiry: Expiry,
) -> Result<(), CommandError> {
    let (room, thresholds) = (cx.room(), Thresholds::of(cx.settings()));
    let mut encoding = thresholds.for_restored(stored, payload.claimed_count().unwrap_or(0));
    cx.edit(key).replace_as::<Set<'_>>(EVENT, |set| {
        decode(room, payload, |item| {
            let Item::SetMember(text) = item else { return Err(BAD_DATA) };
            let member = member_of(text);
            let is_new = match stored {
                ValueEncoding::Set => thresholds.add(set, &mut encoding, member),
                _ => set.insert(member),
            };
            if is_new { Ok(text.len() as u64) } else { Err(BAD_DATA) }
        })?;
        if set.is_empty() {
            return Err(BAD_DATA);
        }
        if stored != ValueEncoding::Set {
            encoding = thresholds.for_restored(stored, set.len());
        }
        Ok(expiry.with(encoding))
    })?;
    Ok(())
}

fn put_sorted_set(
    cx: &mut Cx<'_, '_>,
    key: &[u8],
    (payload, stored): (Payload<'_>, ValueEncoding),
    expiry: Expiry,
) -> Result<(), CommandError> {
    let room = cx.room();
    let entries_max = cx.settings().sorted_set_listpack_entries_max;
    let value_bytes_max = cx.settings().sorted_set_listpack_value_bytes_max;
    // Valkey looks at the lengths of what was not packed.
    let is_packed =
        matches!(stored, ValueEncoding::SortedSetListpack | ValueEncoding::SortedSetZiplist);
    let mut is_skip_list = false;
    cx.edit(key).replace_as::<SortedSet<'_>>(EVENT, |set| {
        decode(room, payload, |item| {
            let Item::SortedSetMember { member, score } = item else { return Err(BAD_DATA) };
            is_skip_list |= !is_packed && member.len() > value_bytes_max;
            if set.set(member, score).is_some() {
                return Err(BAD_DATA);
            }
            Ok(member.len() as u64)
        })?;
        if set.is_empty() {
            return Err(BAD_DATA);
        }
        let is_skip_list = is_skip_list || set.len() > entries_max;
        Ok(expiry.with(if is_skip_list { Encoding::Skiplist } else { Encoding::Listpack }))
    })?;
    Ok(())
}

fn put_stream(
    cx: &mut Cx<'_, '_>,
    key: &[u8],
    (payload, encoding): (Payload<'_>, ValueEncoding),
    expiry: Expiry,
) -> Result<(), CommandError> {
    let room = cx.room();
    let mut reading = Reading::new(encoding);
    cx.edit(key).replace_as::<Stream<'_>>(EVENT, |stream| {
        decode(room, payload, |item| reading.take(stream, item))?;
        Ok(expiry.with(reading.end()?))
    })?;
    Ok(())
}
