//! `RESTORE`: keys made of RDB payloads.
//!
//! The value is built completely before anything is changed: a payload may be wrong at its last
//! byte.

use tidemill_rdb::ReadError;
use tidemill_rdb::payload::Payload;
use tidemill_rdb::value::{Item, ValueEncoding, ValueType};
use tidemill_resp::request::ArgumentView;
use tidemill_store::value::Repeated;
use tidemill_store::value::stream::Stream;
use tidemill_store::{Encoding, Kind};

use super::damage::{Damage, Refusal, part_name};
use super::stream_payload::Reading;
use crate::access::context::{Cx, NewEntry};
use crate::access::options::{TimeUnit, integer, is};
use crate::access::outcome::Outcome;
use crate::commit::{Event, EventClass};
use crate::error::CommandError;
use crate::handlers::string::encoding_of;
use crate::limits::{ELEMENT_OVERHEAD_BYTES, LARGE_BYTES_MIN, RESTORED_COPIES_MAX};
use crate::memory::{self, Room};
use crate::stored::draft::{
    BadItem, Draft, HashDraft, ListDraft, SetDraft, SortedSetDraft, has_possible_length,
    piece_bytes,
};
use crate::use_stamp::UseStamp;

const EVENT: Event = Event::new(EventClass::GENERIC, "restore");

/// Types that Valkey and Redis number differently, under a version that only Redis writes.
const FOREIGN_TYPES: std::ops::RangeInclusive<u8> = 22..=243;

/// Fault of a payload whose collection has an element again.
const TWICE: &str = "an element occurs twice";

/// Fault of a payload whose collection has an element of more than 1 GiB.
const TOO_LONG: &str = "an element is longer than any may be";

/// The error of a payload that cannot be read.
const BAD_DATA: CommandError =
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
    let check = cx.settings().version_check;
    let payload = Payload::new(cx.arg(3), check, cx.verifies_checksums())
        .map_err(|_| CommandError::from("ERR DUMP payload version or checksum are wrong"))?;
    let expiry = expiry(cx, ttl_ms, options.is_absolute);
    match put(cx, key, payload, expiry) {
        Ok(()) => {}
        Err(Refusal::Command(error)) => return Err(error.into()),
        Err(Refusal::Damaged(damage)) => return Err(damaged(cx, payload, damage).into()),
    }
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

/// Logs what is wrong with a payload, and returns the error for the client.
#[cold]
fn damaged(cx: &mut Cx<'_, '_>, payload: Payload<'_>, damage: Damage) -> CommandError {
    let (name, bytes) = (cx.command.name.to_ascii_uppercase(), cx.arg(3).len());
    let number = payload.type_number().unwrap_or_default();
    cx.log_damage(format_args!("{name}: {damage} (a payload of {bytes} bytes, type {number})"));
    BAD_DATA
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
) -> Result<(), Refusal> {
    if let Some(number) = payload.type_number()
        && payload.version().is_foreign()
        && FOREIGN_TYPES.contains(&number)
    {
        let error = CommandError::err(format_args!("Unsupported foreign data type: {number}"));
        return Err(error.into());
    }
    let encoding = payload.encoding().map_err(|error| Refusal::of(&error, "Value"))?;
    let count = payload.claimed_count();
    match encoding.value_type() {
        ValueType::String => put_text(cx, key, payload, expiry)?,
        ValueType::List => {
            let draft = ListDraft::new(encoding, count, cx.settings());
            put_collection(cx, key, (payload, encoding), expiry, draft)?;
        }
        ValueType::Hash => {
            let draft = HashDraft::new(encoding, cx.settings(), cx.clock());
            let put = put_collection(cx, key, (payload, encoding), expiry, draft)?;
            if put.is_some_and(|draft| draft.has_expiries()) {
                cx.note_expiring_field();
            }
        }
        ValueType::Set => {
            let draft = SetDraft::new(encoding, Some(count.unwrap_or(0)), cx.settings());
            put_collection(cx, key, (payload, encoding), expiry, draft)?;
        }
        ValueType::SortedSet => {
            let draft = SortedSetDraft::new(encoding, cx.settings());
            put_collection(cx, key, (payload, encoding), expiry, draft)?;
        }
        ValueType::Stream => put_stream(cx, key, (payload, encoding), expiry)?,
    }
    Ok(())
}

/// Gives all elements of a payload to `take`, while there is room for them.
fn decode(
    room: Room<'_>,
    (payload, encoding): (Payload<'_>, ValueEncoding),
    mut take: impl FnMut(Item<'_>) -> Result<u64, Refusal>,
) -> Result<(), Refusal> {
    let (mut unasked_bytes, mut count, mut part) = (0, 0, part_name(encoding));
    let decoded = payload.decode(|item| {
        count += 1;
        if matches!(item, Item::StreamState(_)) {
            // Listpacks end before it.
            part = "Stream";
        }
        let pieces = piece_bytes(&item);
        if !has_possible_length(pieces) {
            return Err(Refusal::damaged(TOO_LONG));
        }
        // The payload may have it compressed, so that it is longer than any request.
        room.check(RESTORED_COPIES_MAX * (pieces[0] + pieces[1]) as u64)?;
        unasked_bytes += take(item)? + ELEMENT_OVERHEAD_BYTES;
        if unasked_bytes >= LARGE_BYTES_MIN {
            room.check(unasked_bytes)?;
            unasked_bytes = 0;
        }
        Ok(())
    });
    decoded.map_err(|error: ReadError<Refusal>| match error {
        ReadError::Decode(error) => Refusal::of(&error, part),
        ReadError::Sink(refusal) => refusal.at(count, part),
    })
}

fn put_text(
    cx: &mut Cx<'_, '_>,
    key: &[u8],
    payload: Payload<'_>,
    expiry: Expiry,
) -> Result<(), Refusal> {
    let room = cx.room();
    decode(room, (payload, ValueEncoding::String), |item| {
        let Item::String(text) = item else { return Err(Refusal::damaged("it is no string")) };
        let expires_at_ms = match expiry {
            Expiry::None => None,
            Expiry::At(at_ms) => Some(at_ms),
            Expiry::Passed => return Ok(0),
        };
        // As in Valkey, a key that is replaced is deleted first, and with it the room of an expiry.
        let encoding = encoding_of(key, text, false);
        let value = memory::string_value(cx.args, text)?;
        cx.edit(key)
            .put_anew(NewEntry { kind: Kind::String, encoding, expires_at_ms, value }, EVENT);
        Ok(0)
    })
}

/// Puts a collection that a draft makes of the payload; the draft, when it was put.
fn put_collection<D: Draft>(
    cx: &mut Cx<'_, '_>,
    key: &[u8],
    (payload, stored): (Payload<'_>, ValueEncoding),
    expiry: Expiry,
    mut draft: D,
) -> Result<Option<D>, Refusal> {
    let room = cx.room();
    let is_put = cx.edit(key).replace_as::<D::Value, _>((EVENT, true), |edit| {
        decode(room, (payload, stored), |item| {
            let taken = draft.take(edit, item);
            taken.map_err(|BadItem| Refusal::damaged(TWICE))
        })?;
        let settled = draft.settle(edit);
        settled.map_err(|Repeated(index)| {
            Refusal::damaged(TWICE).at(index as u64 + 1, part_name(stored))
        })?;
        let encoding = draft
            .encoding(edit)
            .map_err(|BadItem| Refusal::damaged("it has no elements").at(0, part_name(stored)))?;
        Ok::<_, Refusal>(expiry.with(encoding))
    })?;
    Ok(is_put.then_some(draft))
}

fn put_stream(
    cx: &mut Cx<'_, '_>,
    key: &[u8],
    (payload, encoding): (Payload<'_>, ValueEncoding),
    expiry: Expiry,
) -> Result<(), Refusal> {
    let room = cx.room();
    let mut reading = Reading::new(encoding);
    cx.edit(key).replace_as::<Stream<'_>, _>((EVENT, true), |stream| {
        decode(room, (payload, encoding), |item| reading.take(stream, item))?;
        let encoding = reading.end().map_err(|refusal| refusal.at(0, "Stream"))?;
        Ok::<_, Refusal>(expiry.with(encoding))
    })?;
    Ok(())
}
