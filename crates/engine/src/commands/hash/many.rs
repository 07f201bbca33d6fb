//! Commands on several fields at once, with their expiry.

use super::change::{DELETED_EVENT, SET_EVENT, change};
use super::expire::fields;
use crate::command::Outcome;
use crate::commands::options::{TimeUnit, is};
use crate::commit::{Event, EventClass};
use crate::context::Cx;
use crate::error::CommandError;

/// What becomes of the expiry of fields.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Expiry {
    /// As the command does without options.
    Default,
    /// It stays.
    Keep,
    /// It goes.
    Remove,
    At(u64),
}

/// An expiry option at `index`, and how many arguments it takes. A time in the past is one that is over.
fn expiry_option(
    cx: &Cx<'_, '_>,
    index: usize,
    plain: (&str, Expiry),
) -> Result<Option<(Expiry, usize)>, CommandError> {
    let option = cx.arg(index);
    if is(option, plain.0) {
        return Ok(Some((plain.1, 1)));
    }
    let Some(unit) = TimeUnit::of_option(option) else { return Ok(None) };
    if index + 1 >= cx.args.len() {
        return Err(CommandError::Syntax);
    }
    let value = crate::commands::options::integer(cx.arg(index + 1))?;
    let at_ms = Some(value)
        .filter(|&value| value >= 0)
        .and_then(|value| unit.milliseconds(value, cx.now_ms()))
        .ok_or_else(|| {
            CommandError::err(format_args!("invalid expire time in '{}' command", cx.command.name))
        })?;
    Ok(Some((Expiry::At(at_ms), 2)))
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
    let mut expiry = Expiry::Default;
    let mut index = 2;
    while index < cx.args.len() && !is(cx.arg(index), "FIELDS") {
        match expiry_option(cx, index, ("PERSIST", Expiry::Remove))? {
            Some((found, width)) if expiry == Expiry::Default => {
                expiry = found;
                index += width;
            }
            _ => return Err(CommandError::Syntax.into()),
        }
    }
    let range = fields(cx, index, 1)?;
    let args = cx.args;
    let name = if expiry == Expiry::Remove { "hpersist" } else { "hexpire" };
    let values = change(cx, key, Event::new(EventClass::HASH, name), |hash| {
        let values = range.clone().map(|index| {
            let field = args.get(index);
            let found = hash.get(field)?;
            let (value, old_ms) = (found.value.to_vec(), found.expires_at_ms);
            match expiry {
                Expiry::Default | Expiry::Keep => {}
                Expiry::Remove if old_ms.is_none() => {}
                Expiry::Remove => hash.set_expiry(field, None),
                Expiry::At(at_ms) if at_ms <= hash.now_ms() => {
                    hash.remove(field);
                }
                Expiry::At(at_ms) => hash.set_expiry(field, Some(at_ms)),
            }
            Some(value)
        });
        Ok(values.collect::<Vec<Option<Vec<u8>>>>())
    })?;
    reply_values(cx, &values);
    propagate_expiry(cx, key, range.map(|index| args.get(index)).collect(), expiry);
    Ok(())
}

/// The effect of a change of expiries, in absolute times. One that has passed already has deleted the fields.
fn propagate_expiry(cx: &mut Cx<'_, '_>, key: &[u8], fields: Vec<&[u8]>, expiry: Expiry) {
    let Expiry::At(at_ms) = expiry else { return };
    if at_ms <= cx.shared.expiry_clock_ms(cx.now_ms()) {
        cx.propagate([&b"HDEL"[..], key].into_iter().chain(fields));
        return;
    }
    let (at, count) = (at_ms.to_string(), fields.len().to_string());
    let head = [&b"HPEXPIREAT"[..], key, at.as_bytes(), b"FIELDS", count.as_bytes()];
    cx.propagate(head.into_iter().chain(fields));
}

/// Which of the fields, or whether the key, must exist for `HSETEX`.
#[derive(Clone, Copy, Default)]
struct Conditions {
    key: Option<bool>,
    fields: Option<bool>,
}

pub(super) fn hsetex(cx: &mut Cx<'_, '_>) -> Outcome {
    let key = cx.arg(1);
    let mut conditions = Conditions::default();
    let mut expiry = Expiry::Default;
    let mut index = 2;
    while index < cx.args.len() && !is(cx.arg(index), "FIELDS") {
        let option = cx.arg(index);
        let (of_key, of_fields) = (conditions.key.is_none(), conditions.fields.is_none());
        let mut width = 1;
        match () {
            () if is(option, "NX") && of_key => conditions.key = Some(false),
            () if is(option, "XX") && of_key => conditions.key = Some(true),
            () if is(option, "FNX") && of_fields => conditions.fields = Some(false),
            () if is(option, "FXX") && of_fields => conditions.fields = Some(true),
            () => match expiry_option(cx, index, ("KEEPTTL", Expiry::Keep))? {
                Some((found, taken)) if expiry == Expiry::Default => {
                    (expiry, width) = (found, taken)
                }
                _ => return Err(CommandError::Syntax.into()),
            },
        }
        index += width;
    }
    let range = fields(cx, index, 2)?;
    let args = cx.args;
    let is_present = cx.peek_hash(key)?.is_some();
    if conditions.key.is_some_and(|wanted| wanted != is_present) {
        cx.reply.integer(0);
        return Ok(());
    }
    let is_set = change(cx, key, SET_EVENT, |hash| {
        let mut names = range.clone().step_by(2).map(|index| args.get(index));
        let is_met = match conditions.fields {
            None => true,
            Some(wanted) => names.all(|field| hash.get(field).is_some() == wanted),
        };
        if !is_met {
            return Ok(false);
        }
        for index in range.clone().step_by(2) {
            let (field, value) = (args.get(index), args.get(index + 1));
            match expiry {
                Expiry::At(at_ms) if at_ms <= hash.now_ms() => {
                    hash.remove(field);
                }
                Expiry::At(at_ms) => {
                    hash.set(field, value, Some(at_ms));
                }
                Expiry::Keep => {
                    let kept = hash.get(field).and_then(|found| found.expires_at_ms);
                    hash.set(field, value, kept);
                }
                Expiry::Default | Expiry::Remove => {
                    hash.set(field, value, None);
                }
            }
        }
        Ok(true)
    })?;
    cx.reply.integer(i64::from(is_set));
    if is_set && let Expiry::At(_) = expiry {
        let pairs: Vec<&[u8]> = range.clone().map(|index| args.get(index)).collect();
        cx.propagate([&b"HSET"[..], key].into_iter().chain(pairs.iter().copied()));
        let names = range.step_by(2).map(|index| args.get(index)).collect();
        propagate_expiry(cx, key, names, expiry);
    }
    Ok(())
}

pub(super) fn hgetdel(cx: &mut Cx<'_, '_>) -> Outcome {
    let key = cx.arg(1);
    let range = fields(cx, 2, 1)?;
    let args = cx.args;
    let values = change(cx, key, DELETED_EVENT, |hash| {
        let values = range.clone().map(|index| {
            let value = hash.get(args.get(index))?.value.to_vec();
            hash.remove(args.get(index));
            Some(value)
        });
        Ok(values.collect::<Vec<Option<Vec<u8>>>>())
    })?;
    reply_values(cx, &values);
    cx.propagate([&b"HDEL"[..], key].into_iter().chain(range.map(|index| args.get(index))));
    Ok(())
}
