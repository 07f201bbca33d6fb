//! The time that keys have left.

use crate::access::context::Cx;
use crate::access::options::{Conditions, TimeUnit, integer};
use crate::access::outcome::Outcome;
use crate::commit::{Event, EventClass};
use crate::error::CommandError;

/// `EXPIRE`, `PEXPIRE`, `EXPIREAT` and `PEXPIREAT`.
pub(super) fn expire(cx: &mut Cx<'_, '_>) -> Outcome {
    let key = cx.arg(1);
    let conditions = Conditions::of(cx.args.iter().skip(3))?;
    let name = cx.command.name;
    let unit = TimeUnit { is_seconds: !name.starts_with('p'), is_absolute: name.ends_with("at") };
    let value = integer(cx.arg(2))?;
    let clock = cx.clock();
    let at_ms = unit.milliseconds(value, clock).ok_or_else(|| {
        CommandError::err(format_args!("invalid expire time in '{name}' command"))
    })?;
    let edit = cx.edit(key);
    let is_set = edit.entry().is_some() && conditions.are_met(edit.expires_at_ms(), at_ms);
    if is_set && clock.has_come(at_ms) {
        edit.remove(Event::new(EventClass::EXPIRED, "expired"));
        cx.count_expired_key();
        cx.propagate([&b"DEL"[..], key]);
    } else if is_set {
        edit.set_expiry(Some(at_ms), Event::new(EventClass::GENERIC, "expire"));
        cx.propagate([&b"PEXPIREAT"[..], key, clock.wall_ms(at_ms).to_string().as_bytes()]);
    }
    cx.reply.integer(i64::from(is_set));
    Ok(())
}

/// `TTL`, `PTTL`, `EXPIRETIME` and `PEXPIRETIME`.
pub(super) fn ttl(cx: &mut Cx<'_, '_>) -> Outcome {
    let answer = match cx.look(cx.arg(1)) {
        None => -2,
        Some(entry) => match entry.expires_at_ms() {
            None => -1,
            Some(at_ms) => {
                let clock = cx.clock();
                let (left_ms, wall_ms) =
                    (at_ms.saturating_sub(clock.now_ms()), clock.wall_ms(at_ms));
                match cx.command.name {
                    "ttl" => (left_ms as i64 + 500) / 1000,
                    "pttl" => left_ms as i64,
                    "expiretime" => (wall_ms.saturating_add(500) / 1000) as i64,
                    _ => wall_ms as i64,
                }
            }
        },
    };
    cx.reply.integer(answer);
    Ok(())
}

pub(super) fn persist(cx: &mut Cx<'_, '_>) -> Outcome {
    let edit = cx.edit(cx.args.get(1));
    let had_expiry = edit.expires_at_ms().is_some();
    if had_expiry {
        edit.set_expiry(None, Event::new(EventClass::GENERIC, "persist"));
    }
    cx.reply.integer(i64::from(had_expiry));
    Ok(())
}
