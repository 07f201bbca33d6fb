//! The time that keys have left.

use std::ops::Range;

use crate::command::Outcome;
use crate::commands::options::{TimeUnit, integer, is};
use crate::commit::{Event, EventClass};
use crate::context::Cx;
use crate::error::CommandError;

/// When `EXPIRE` and its kin apply.
#[derive(Default)]
pub(in crate::commands) struct Conditions {
    if_none: bool,
    if_any: bool,
    if_greater: bool,
    if_less: bool,
}

/// The error for an option that there is not.
fn unsupported(option: &[u8]) -> CommandError {
    CommandError::quoting("ERR Unsupported option ", option, "")
}

/// The conditions that the arguments in `options` state.
pub(in crate::commands) fn conditions(
    cx: &Cx<'_, '_>,
    options: Range<usize>,
) -> Result<Conditions, CommandError> {
    let mut conditions = Conditions::default();
    for index in options {
        if !conditions.add(cx.arg(index)) {
            return Err(unsupported(cx.arg(index)));
        }
    }
    conditions.check()?;
    Ok(conditions)
}

impl Conditions {
    /// Adds the condition that an option means; `false` when it means none.
    fn add(&mut self, option: &[u8]) -> bool {
        match () {
            () if is(option, "NX") => self.if_none = true,
            () if is(option, "XX") => self.if_any = true,
            () if is(option, "GT") => self.if_greater = true,
            () if is(option, "LT") => self.if_less = true,
            () => return false,
        }
        true
    }

    /// Fails when conditions contradict each other.
    fn check(&self) -> Result<(), CommandError> {
        if self.if_none && (self.if_any || self.if_greater || self.if_less) {
            return Err(
                "ERR NX and XX, GT or LT options at the same time are not compatible".into()
            );
        }
        if self.if_greater && self.if_less {
            return Err("ERR GT and LT options at the same time are not compatible".into());
        }
        Ok(())
    }

    /// Whether an expiry may be set to `at_ms`; no expiry counts as one that never comes.
    pub(in crate::commands) fn are_met(&self, present_ms: Option<u64>, at_ms: u64) -> bool {
        match present_ms {
            Some(_) if self.if_none => false,
            Some(present_ms) if self.if_greater => at_ms > present_ms,
            Some(present_ms) if self.if_less => at_ms < present_ms,
            Some(_) => true,
            None => !self.if_any && !self.if_greater,
        }
    }
}

/// `EXPIRE`, `PEXPIRE`, `EXPIREAT` and `PEXPIREAT`.
pub(super) fn expire(cx: &mut Cx<'_, '_>) -> Outcome {
    let key = cx.arg(1);
    let conditions = conditions(cx, 3..cx.args.len())?;
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
