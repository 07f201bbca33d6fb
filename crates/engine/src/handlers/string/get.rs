//! Reading whole strings.

use tidemill_store::Kind;

use super::set::equals;
use crate::access::context::Cx;
use crate::access::options::{TimeUnit, is};
use crate::access::outcome::Outcome;
use crate::commit::{Event, EventClass};
use crate::error::CommandError;
use crate::reply::{self, FormerString};

pub(super) const DELETED: Event = Event::new(EventClass::GENERIC, "del");

/// A key was to get an expiry that has passed.
pub(super) const EXPIRED: Event = Event::new(EventClass::EXPIRED, "expired");

pub(super) fn get(cx: &mut Cx<'_, '_>) -> Outcome {
    match cx.read_kind(cx.arg(1), Kind::String)? {
        Some(entry) => reply::string(cx.reply, entry)?,
        None => cx.reply.null(),
    }
    Ok(())
}

pub(super) fn strlen(cx: &mut Cx<'_, '_>) -> Outcome {
    let length = cx.read_string(cx.arg(1))?.map_or(0, |value| value.len());
    cx.reply.integer(length as i64);
    Ok(())
}

pub(super) fn getdel(cx: &mut Cx<'_, '_>) -> Outcome {
    let key = cx.arg(1);
    let edit = cx.edit(key).counted();
    let Some(entry) = edit.entry_of(Kind::String)? else {
        cx.reply.null();
        return Ok(());
    };
    let former = FormerString::of(entry)?;
    edit.remove(DELETED);
    former.answer(cx.reply)?;
    cx.propagate([&b"DEL"[..], key]);
    Ok(())
}

pub(super) fn delifeq(cx: &mut Cx<'_, '_>) -> Outcome {
    let (key, wanted) = (cx.arg(1), cx.arg(2));
    let edit = cx.edit(key);
    let is_equal = match edit.entry_of(Kind::String)?.and_then(|entry| entry.string()) {
        Some(value) => equals(value, wanted),
        None => false,
    };
    if is_equal {
        edit.remove(DELETED);
        cx.propagate([&b"DEL"[..], key]);
    }
    cx.reply.integer(i64::from(is_equal));
    Ok(())
}

/// Change of the expiry by `GETEX`.
enum Change {
    Keep,
    Remove,
    Set(u64),
}

fn getex_change(cx: &Cx<'_, '_>) -> Result<Change, CommandError> {
    let mut persists = false;
    let mut expiry: Option<(TimeUnit, &[u8])> = None;
    let mut index = 2;
    while index < cx.args.len() {
        let option = cx.arg(index);
        if is(option, "PERSIST") && expiry.is_none() {
            persists = true;
        } else if let Some(unit) = TimeUnit::of_option(option)
            && !persists
            && unit.may_follow(expiry.map(|(earlier, _)| earlier))
            && index + 1 < cx.args.len()
        {
            index += 1;
            expiry = Some((unit, cx.arg(index)));
        } else {
            return Err(CommandError::Syntax);
        }
        index += 1;
    }
    match expiry {
        Some((unit, argument)) => Ok(Change::Set(unit.expiry(argument, cx.clock(), "getex")?)),
        None if persists => Ok(Change::Remove),
        None => Ok(Change::Keep),
    }
}

pub(super) fn getex(cx: &mut Cx<'_, '_>) -> Outcome {
    let key = cx.arg(1);
    let change = getex_change(cx)?;
    let edit = cx.edit(key).counted();
    let Some(entry) = edit.entry_of(Kind::String)? else {
        cx.reply.null();
        return Ok(());
    };
    let former = FormerString::of(entry)?;
    match change {
        Change::Keep => {}
        Change::Remove if entry.expires_at_ms().is_none() => {}
        Change::Remove => {
            edit.set_expiry(None, Event::new(EventClass::GENERIC, "persist"));
            cx.propagate([&b"PERSIST"[..], key]);
        }
        Change::Set(at_ms) if edit.clock().has_come(at_ms) => {
            edit.remove(EXPIRED);
            cx.count_expired_key();
            cx.propagate([&b"DEL"[..], key]);
        }
        Change::Set(at_ms) => {
            edit.set_expiry(Some(at_ms), Event::new(EventClass::GENERIC, "expire"));
            let at = cx.clock().wall_ms(at_ms).to_string();
            cx.propagate([&b"PEXPIREAT"[..], key, at.as_bytes()]);
        }
    }
    former.answer(cx.reply)?;
    Ok(())
}
