//! Setting whole strings.

use tidemill_resp::number::parse_integer;
use tidemill_resp::request::ArgumentView;
use tidemill_store::value::text::Chunk;
use tidemill_store::{Encoding, EntryRef, Kind, NewValue, StringValue};

use super::get::EXPIRED;
use super::range::pieces;
use crate::access::context::{Cx, Edit, NewEntry};
use crate::access::options::{TimeUnit, is};
use crate::access::outcome::Outcome;
use crate::command::KeyFlags;
use crate::commit::{Event, EventClass};
use crate::error::CommandError;
use crate::memory;
use crate::reply::FormerString;

pub(crate) const SET_EVENT: Event = Event::new(EventClass::STRING, "set");

/// Bytes that Valkey embeds in one object with a key of less than 32 bytes and without expiry, key
/// included.
const EMBEDDED_BYTES_MAX: usize = 113;

/// Encoding of a string that was set as a whole. `had_expiry` is about the value that it replaces:
/// Valkey keeps room for an expiry where one was.
pub(crate) fn encoding_of(key: &[u8], value: &[u8], had_expiry: bool) -> Encoding {
    if value.len() <= 20 && parse_integer(value).is_some() {
        return Encoding::Int;
    }
    text_encoding_of(key, value.len() as u64, had_expiry)
}

/// As [`encoding_of`], of a string that is never taken for an integer.
pub(crate) fn text_encoding_of(key: &[u8], value_bytes: u64, had_expiry: bool) -> Encoding {
    let taken = key.len() + if key.len() < 32 { 0 } else { 2 } + if had_expiry { 8 } else { 0 };
    if value_bytes + taken as u64 <= EMBEDDED_BYTES_MAX as u64 {
        Encoding::Embstr
    } else {
        Encoding::Raw
    }
}

/// Sets a string as a whole: its value, see [`memory::string_value`], and expiry.
pub(crate) fn put_string(
    edit: Edit<'_, '_, '_>,
    key: &[u8],
    (value, expires_at_ms): (NewValue<'_>, Option<u64>),
    event: Event,
) {
    let had_expiry = edit.expires_at_ms().is_some();
    let encoding = match &value {
        NewValue::String(text) => encoding_of(key, text, had_expiry),
        NewValue::Shared(_) | NewValue::Tree(_) => Encoding::Raw,
    };
    edit.put(NewEntry { kind: Kind::String, encoding, expires_at_ms, value }, event);
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Condition<'g> {
    None,
    IfAbsent,
    IfPresent,
    IfEqual(&'g [u8]),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Expiry<'g> {
    None,
    Keep,
    At(TimeUnit, &'g [u8]),
}

impl Expiry<'_> {
    /// True if an option may set an expiry in this unit after the options before.
    fn may_become(self, unit: TimeUnit) -> bool {
        match self {
            Expiry::None => true,
            Expiry::Keep => false,
            Expiry::At(earlier, _) => unit.may_follow(Some(earlier)),
        }
    }
}

struct SetOptions<'g> {
    condition: Condition<'g>,
    expiry: Expiry<'g>,
    answers_old: bool,
}

fn set_options<'g>(cx: &Cx<'_, 'g>) -> Result<SetOptions<'g>, CommandError> {
    let mut options =
        SetOptions { condition: Condition::None, expiry: Expiry::None, answers_old: false };
    let mut index = 3;
    while index < cx.args.len() {
        let option = cx.arg(index);
        let next = (index + 1 < cx.args.len()).then(|| cx.arg(index + 1));
        let is_unconditional = options.condition == Condition::None;
        if is(option, "NX") && (is_unconditional || options.condition == Condition::IfAbsent) {
            options.condition = Condition::IfAbsent;
        } else if is(option, "XX")
            && (is_unconditional || options.condition == Condition::IfPresent)
        {
            options.condition = Condition::IfPresent;
        } else if is(option, "GET") {
            options.answers_old = true;
        } else if is(option, "KEEPTTL") && matches!(options.expiry, Expiry::None | Expiry::Keep) {
            options.expiry = Expiry::Keep;
        } else if let (true, true, Some(value)) = (is(option, "IFEQ"), is_unconditional, next) {
            options.condition = Condition::IfEqual(value);
            index += 1;
        } else if let (Some(unit), Some(value)) = (TimeUnit::of_option(option), next)
            && options.expiry.may_become(unit)
        {
            options.expiry = Expiry::At(unit, value);
            index += 1;
        } else {
            return Err(CommandError::Syntax);
        }
        index += 1;
    }
    Ok(options)
}

pub(super) fn set(cx: &mut Cx<'_, '_>) -> Outcome {
    let (key, value) = (cx.arg(1), cx.arg(2));
    if cx.args.len() == 3 {
        let value = memory::string_value(cx.args, value)?;
        put_string(cx.edit(key), key, (value, None), SET_EVENT);
        cx.reply.ok();
        return Ok(());
    }
    let options = set_options(cx)?;
    let expires_at_ms = match options.expiry {
        Expiry::At(unit, argument) => Some(unit.expiry(argument, cx.clock(), "set")?),
        Expiry::None | Expiry::Keep => None,
    };
    set_if(cx, key, value, &options, expires_at_ms)
}

fn set_if(
    cx: &mut Cx<'_, '_>,
    key: &[u8],
    value: &[u8],
    options: &SetOptions<'_>,
    expires_at_ms: Option<u64>,
) -> Outcome {
    let args = cx.args;
    let mut edit = cx.edit(key);
    if options.answers_old {
        edit = edit.counted();
    }
    let old = edit.entry();
    let is_string = old.is_none_or(|entry| entry.kind() == Kind::String);
    let needs_string = options.answers_old || matches!(options.condition, Condition::IfEqual(_));
    if needs_string && !is_string {
        return Err(CommandError::WrongType.into());
    }
    let is_met = match options.condition {
        Condition::None => true,
        Condition::IfAbsent => old.is_none(),
        Condition::IfPresent => old.is_some(),
        Condition::IfEqual(wanted) => {
            old.and_then(EntryRef::string).is_some_and(|value| equals(value, wanted))
        }
    };
    let former = old.filter(|_| options.answers_old).map(FormerString::of).transpose()?;
    if is_met {
        let expires_at_ms = match options.expiry {
            Expiry::Keep => edit.expires_at_ms(),
            Expiry::None | Expiry::At(..) => expires_at_ms,
        };
        if expires_at_ms.is_some_and(|at_ms| edit.clock().has_come(at_ms)) {
            if edit.remove(EXPIRED) {
                cx.count_expired_key();
                cx.propagate([&b"DEL"[..], key]);
            }
        } else {
            let stored = memory::string_value(args, value)?;
            put_string(edit, key, (stored, expires_at_ms), SET_EVENT);
            if options.expiry != Expiry::Keep {
                expire_event(cx, key, expires_at_ms);
            }
            propagate_set(cx, key, value, expires_at_ms);
        }
    }
    match (options.answers_old, former) {
        (true, Some(former)) => former.answer(cx.reply)?,
        (true, None) => cx.reply.null(),
        (false, _) if is_met => cx.reply.ok(),
        (false, _) => cx.reply.null(),
    }
    Ok(())
}

/// True if a string has these bytes.
pub(super) fn equals(value: StringValue<'_>, wanted: &[u8]) -> bool {
    if value.len() != wanted.len() as u64 {
        return false;
    }
    let mut rest = wanted;
    pieces(value, 0..value.len()).all(|piece| {
        let (here, behind) = rest.split_at(piece.len() as usize);
        rest = behind;
        match piece {
            Chunk::Bytes(bytes) => bytes == here,
            Chunk::Zeros(_) => here.iter().all(|&byte| byte == 0),
        }
    })
}

/// Tells of the expiry that a key was given with its value, if it was given one.
pub(super) fn expire_event(cx: &mut Cx<'_, '_>, key: &[u8], expires_at_ms: Option<u64>) {
    if expires_at_ms.is_some() {
        cx.event(cx.database, key, Event::new(EventClass::GENERIC, "expire"));
    }
}

pub(super) fn propagate_set(
    cx: &mut Cx<'_, '_>,
    key: &[u8],
    value: &[u8],
    expires_at_ms: Option<u64>,
) {
    match expires_at_ms {
        Some(at_ms) => {
            if cx.is_journaled() {
                let at = cx.clock().wall_ms(at_ms).to_string();
                cx.propagate([&b"SET"[..], key, value, b"PXAT", at.as_bytes()]);
            }
        }
        None => cx.propagate([&b"SET"[..], key, value]),
    }
}

pub(super) fn setnx(cx: &mut Cx<'_, '_>) -> Outcome {
    let (args, key, value) = (cx.args, cx.arg(1), cx.arg(2));
    let edit = cx.edit(key);
    let is_absent = edit.entry().is_none();
    if is_absent {
        let value = memory::string_value(args, value)?;
        put_string(edit, key, (value, None), SET_EVENT);
    }
    cx.reply.integer(i64::from(is_absent));
    Ok(())
}

/// `SETEX` and `PSETEX`.
pub(super) fn setex(cx: &mut Cx<'_, '_>) -> Outcome {
    let (key, value) = (cx.arg(1), cx.arg(3));
    let unit = TimeUnit { is_seconds: cx.command.name == "setex", is_absolute: false };
    let at_ms = unit.expiry(cx.arg(2), cx.clock(), cx.command.name)?;
    let stored = memory::string_value(cx.args, value)?;
    put_string(cx.edit(key), key, (stored, Some(at_ms)), SET_EVENT);
    expire_event(cx, key, Some(at_ms));
    propagate_set(cx, key, value, Some(at_ms));
    cx.reply.ok();
    Ok(())
}

pub(super) fn getset(cx: &mut Cx<'_, '_>) -> Outcome {
    let (args, key, value) = (cx.args, cx.arg(1), cx.arg(2));
    let edit = cx.edit(key).counted();
    let former = edit.entry_of(Kind::String)?.map(FormerString::of).transpose()?;
    let stored = memory::string_value(args, value)?;
    put_string(edit, key, (stored, None), SET_EVENT);
    cx.propagate([&b"SET"[..], key, value]);
    match former {
        Some(former) => former.answer(cx.reply)?,
        None => cx.reply.null(),
    }
    Ok(())
}

/// Access of `SET` to its key: it reads it for `GET` only.
pub(super) fn key_flags(args: &ArgumentView<'_>) -> KeyFlags {
    if args.iter().skip(3).any(|option| is(option, "GET")) {
        KeyFlags::RW | KeyFlags::ACCESS | KeyFlags::UPDATE
    } else {
        KeyFlags::OW | KeyFlags::UPDATE
    }
}
