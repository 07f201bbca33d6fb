//! Commands on several fields at once, with their expiry.

use std::ops::Range;

use super::change::{DELETED_EVENT, SET_EVENT, change};
use super::expire::{fields, fields_behind};
use crate::access::context::Cx;
use crate::access::options::{TimeUnit, integer, is};
use crate::access::outcome::Outcome;
use crate::commit::{Event, EventClass};
use crate::error::CommandError;
use crate::memory::{self, Room};
use tidemill_store::value::hash::Hash;

/// Change of the expiry of fields. `T` is a Unix time in milliseconds, or a [`Time`] that was not
/// looked at yet.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Expiry<T> {
    /// As the command does without options.
    Default,
    /// It stays.
    Keep,
    /// It goes.
    Remove,
    At(T),
}

/// A time as it was given.
type Time<'g> = (TimeUnit, &'g [u8]);

impl<'g> Expiry<Time<'g>> {
    /// Adds the option at `index`, of which the last argument is before `end`; tells how many
    /// arguments it takes. `plain` is the one option of the command that takes no time. An option
    /// may be repeated; two different ones contradict.
    fn add(
        &mut self,
        cx: &Cx<'_, 'g>,
        index: usize,
        end: usize,
        plain: (&str, Self),
    ) -> Result<usize, CommandError> {
        let option = cx.arg(index);
        let (new, width) = match TimeUnit::of_option(option) {
            Some(unit) if index + 1 < end => (Expiry::At((unit, cx.arg(index + 1))), 2),
            None if is(option, plain.0) => (plain.1, 1),
            _ => return Err(CommandError::Syntax),
        };
        let is_fine = match (*self, new) {
            (Expiry::Default, _) => true,
            (Expiry::At((old, _)), Expiry::At((new, _))) => old == new,
            (old, new) => old == new,
        };
        *self = new;
        if is_fine { Ok(width) } else { Err(CommandError::Syntax) }
    }

    /// With its time as a Unix time. One that has passed is one that is over.
    fn resolve(self, cx: &Cx<'_, '_>) -> Result<Expiry<u64>, CommandError> {
        let (unit, argument) = match self {
            Expiry::Default => return Ok(Expiry::Default),
            Expiry::Keep => return Ok(Expiry::Keep),
            Expiry::Remove => return Ok(Expiry::Remove),
            Expiry::At(time) => time,
        };
        let value = Some(integer(argument)?).filter(|&value| value >= 0);
        let at_ms = value.and_then(|value| unit.milliseconds(value, cx.clock()));
        let name = cx.command.name;
        at_ms.map(Expiry::At).ok_or_else(|| {
            CommandError::err(format_args!("invalid expire time in '{name}' command"))
        })
    }
}

impl Expiry<u64> {
    /// True if fields that are to get this expiry are deleted at once.
    fn has_passed(self, cx: &Cx<'_, '_>) -> bool {
        matches!(self, Expiry::At(at_ms) if cx.clock().has_come(at_ms))
    }
}

/// Values of fields that are about to be changed, if there is memory to answer them.
fn answerable(
    room: Room<'_>,
    values: Vec<Option<Vec<u8>>>,
) -> Result<Vec<Option<Vec<u8>>>, CommandError> {
    room.check(values.iter().flatten().map(|value| value.len() as u64).sum())?;
    Ok(values)
}

fn reply_values(cx: &mut Cx<'_, '_>, values: &[Option<Vec<u8>>]) {
    cx.reply.array(values.len());
    for value in values {
        match value {
            Some(value) => cx.reply.bulk(value),
            None => cx.reply.null(),
        }
    }
}

pub(super) fn hgetex(cx: &mut Cx<'_, '_>) -> Outcome {
    let key = cx.arg(1);
    let (expiry, range) = fields_behind(cx, 2, 1, |options| {
        let mut expiry = Expiry::Default;
        let mut index = options.start;
        while index < options.end {
            index += expiry.add(cx, index, options.end, ("PERSIST", Expiry::Remove))?;
        }
        Ok(expiry)
    })?;
    cx.read_as::<Hash<'_>>(key)?;
    let expiry = expiry.resolve(cx)?;
    let args = cx.args;
    let is_over = expiry.has_passed(cx);
    let name = match expiry {
        Expiry::Remove => "hpersist",
        _ if is_over => "hexpired",
        _ => "hexpire",
    };
    let room = cx.room();
    let values = change(cx, key, Event::new(EventClass::HASH, name), |hash| {
        let values = range.clone().map(|index| {
            let place = hash.place(args.get(index));
            let Some(found) = place.get() else { return Ok(None) };
            let (value, old_ms) = (memory::concat(&[found.value])?, found.expires_at_ms);
            match expiry {
                Expiry::Default | Expiry::Keep => {}
                Expiry::Remove if old_ms.is_none() => {}
                Expiry::Remove => place.set_expiry(None)?,
                Expiry::At(_) if is_over => {
                    place.remove();
                }
                Expiry::At(at_ms) => place.set_expiry(Some(at_ms))?,
            }
            Ok(Some(value))
        });
        answerable(room, values.collect::<Result<_, CommandError>>()?)
    })?;
    reply_values(cx, &values);
    if is_over {
        cx.count_expired_fields(values.iter().flatten().count());
    }
    propagate_expiry(cx, key, range.map(|index| args.get(index)).collect(), expiry);
    Ok(())
}

/// The effect of a change of expiries, in absolute times. One that has passed already has deleted
/// the fields.
fn propagate_expiry(cx: &mut Cx<'_, '_>, key: &[u8], fields: Vec<&[u8]>, expiry: Expiry<u64>) {
    let Expiry::At(at_ms) = expiry else { return };
    if expiry.has_passed(cx) {
        cx.propagate([&b"HDEL"[..], key].into_iter().chain(fields));
        return;
    }
    let at = cx.clock().wall_ms(at_ms).to_string();
    let count = fields.len().to_string();
    let head = [&b"HPEXPIREAT"[..], key, at.as_bytes(), b"FIELDS", count.as_bytes()];
    cx.propagate(head.into_iter().chain(fields));
}

/// Fields, or the key, that must exist for `HSETEX`.
#[derive(Clone, Copy, Default)]
struct Conditions {
    key: Option<bool>,
    fields: Option<bool>,
}

impl Conditions {
    /// Adds the condition that an option states; `false` when it states none.
    fn add(&mut self, option: &[u8]) -> Result<bool, CommandError> {
        let (condition, wanted) = match () {
            () if is(option, "NX") => (&mut self.key, false),
            () if is(option, "XX") => (&mut self.key, true),
            () if is(option, "FNX") => (&mut self.fields, false),
            () if is(option, "FXX") => (&mut self.fields, true),
            () => return Ok(false),
        };
        if condition.replace(wanted).is_some_and(|old| old != wanted) {
            return Err(CommandError::Syntax);
        }
        Ok(true)
    }
}

pub(super) fn hsetex(cx: &mut Cx<'_, '_>) -> Outcome {
    let key = cx.arg(1);
    let ((conditions, expiry), range) = fields_behind(cx, 2, 2, |options| {
        let mut conditions = Conditions::default();
        let mut expiry = Expiry::Default;
        let mut index = options.start;
        while index < options.end {
            index += match conditions.add(cx.arg(index))? {
                true => 1,
                false => expiry.add(cx, index, options.end, ("KEEPTTL", Expiry::Keep))?,
            };
        }
        Ok((conditions, expiry))
    })?;
    let args = cx.args;
    let is_present = cx.peek_as::<Hash<'_>>(key)?.is_some();
    if conditions.key.is_some_and(|wanted| wanted != is_present) {
        cx.reply.integer(0);
        return Ok(());
    }
    let expiry = expiry.resolve(cx)?;
    let is_over = expiry.has_passed(cx);
    let event = SET_EVENT.followed_by(match expiry {
        Expiry::At(_) if is_over => &["hexpire", "hexpired"],
        Expiry::At(_) => &["hexpire"],
        Expiry::Keep | Expiry::Default | Expiry::Remove => &[],
    });
    let (is_set, changes) = change(cx, key, event, |hash| {
        let mut names = range.clone().step_by(2).map(|index| args.get(index));
        let is_met = match conditions.fields {
            None => true,
            Some(wanted) => names.all(|field| hash.place(field).get().is_some() == wanted),
        };
        if !is_met {
            return Ok((false, 0));
        }
        for index in range.clone().step_by(2) {
            let (field, value) = (args.get(index), args.get(index + 1));
            match expiry {
                Expiry::At(_) if is_over => _ = hash.remove_any(field),
                Expiry::At(at_ms) => _ = hash.set(field, value, Some(at_ms)),
                Expiry::Keep => {
                    let place = hash.place(field);
                    let kept = place.get().and_then(|found| found.expires_at_ms);
                    place.set(value, kept);
                }
                Expiry::Default | Expiry::Remove => _ = hash.set(field, value, None),
            }
        }
        Ok((true, hash.change_count()))
    })?;
    cx.reply.integer(i64::from(is_set));
    if is_set && is_over {
        cx.count_expired_fields(range.len() / 2);
        if changes == 0 {
            tell_of_nothing(cx, key, event);
        }
    }
    if is_set {
        propagate_set_fields(cx, key, range, expiry);
    }
    Ok(())
}

/// Propagates fields that `HSETEX` has set, without its conditions: fields whose time is over, by
/// which a hash counts as there, are deleted before that in the journal. With a time that has
/// passed they are deleted only, as in Valkey: their values would change the encoding of the hash.
fn propagate_set_fields(cx: &mut Cx<'_, '_>, key: &[u8], range: Range<usize>, expiry: Expiry<u64>) {
    let args = cx.args;
    let pairs = range.clone().map(|index| args.get(index));
    if let Expiry::Keep = expiry {
        let count = (range.len() / 2).to_string();
        let head = [&b"HSETEX"[..], key, b"KEEPTTL", b"FIELDS", count.as_bytes()];
        return cx.propagate(head.into_iter().chain(pairs));
    }
    if !expiry.has_passed(cx) {
        cx.propagate([&b"HSET"[..], key].into_iter().chain(pairs));
    }
    if let Expiry::At(_) = expiry {
        let names = range.step_by(2).map(|index| args.get(index)).collect();
        propagate_expiry(cx, key, names, expiry);
    }
}

/// Tells of fields that were to be set and to expire at once where none was there: as in Valkey, a
/// key that is not there is new, and goes again.
fn tell_of_nothing(cx: &mut Cx<'_, '_>, key: &[u8], event: Event) {
    let (database, is_new) = (cx.database, cx.edit(key).is_gone());
    if is_new {
        cx.new_key_event(database, key);
    }
    cx.event(database, key, event);
    if is_new {
        cx.event(database, key, Event::new(EventClass::GENERIC, "del"));
    }
}

pub(super) fn hgetdel(cx: &mut Cx<'_, '_>) -> Outcome {
    let key = cx.arg(1);
    let range = fields(cx, 2, 1)?;
    let args = cx.args;
    let room = cx.room();
    let values = change(cx, key, DELETED_EVENT, |hash| {
        let values = range.clone().map(|index| {
            let place = hash.place(args.get(index));
            let Some(found) = place.get() else { return Ok(None) };
            let value = memory::concat(&[found.value])?;
            place.remove();
            Ok(Some(value))
        });
        answerable(room, values.collect::<Result<_, CommandError>>()?)
    })?;
    reply_values(cx, &values);
    cx.propagate([&b"HDEL"[..], key].into_iter().chain(range.map(|index| args.get(index))));
    Ok(())
}
