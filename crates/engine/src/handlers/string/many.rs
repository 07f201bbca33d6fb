//! Several strings as one.

use tidemill_resp::request::ArgumentView;
use tidemill_store::{Kind, NewValue};

use super::set::{SET_EVENT, put_string};
use crate::access::context::Cx;
use crate::access::options::{TimeUnit, integer, is};
use crate::access::outcome::Outcome;
use crate::error::CommandError;
use crate::memory;
use crate::reply;

pub(super) fn mget(cx: &mut Cx<'_, '_>) -> Outcome {
    let keys = cx.args;
    cx.reply.array(keys.len() - 1);
    for key in keys.iter().skip(1) {
        match cx.read(key).filter(|entry| entry.kind() == Kind::String) {
            Some(entry) => reply::string(cx.reply, entry)?,
            None => cx.reply.null(),
        }
    }
    Ok(())
}

fn pairs_are_whole(cx: &Cx<'_, '_>) -> Result<(), CommandError> {
    if cx.args.len().is_multiple_of(2) {
        return Err(CommandError::Arity(cx.command.name.into()));
    }
    Ok(())
}

/// Values of several keys, the large ones copied before the first key is set: all are set, or none.
struct Values<'g> {
    args: &'g ArgumentView<'g>,
    /// The large ones, in order.
    large: std::vec::IntoIter<NewValue<'g>>,
}

impl<'g> Values<'g> {
    /// Those of the pairs in this range of the arguments.
    ///
    /// # Errors
    ///
    /// [`CommandError::NoMemory`].
    fn of_pairs(
        args: &'g ArgumentView<'g>,
        pairs: std::ops::Range<usize>,
    ) -> Result<Values<'g>, CommandError> {
        let values = pairs.skip(1).step_by(2).map(|index| args.get(index));
        let large = values.filter(|value| memory::is_large(value));
        let large: Result<Vec<_>, _> =
            large.map(|value| memory::string_value(args, value)).collect();
        Ok(Values { args, large: large?.into_iter() })
    }

    /// The argument at this index as a value. Pairs are asked for in order, each once.
    fn take(&mut self, index: usize) -> NewValue<'g> {
        let value = self.args.get(index);
        if memory::is_large(value) {
            self.large.next().expect("each large one was copied")
        } else {
            NewValue::String(value)
        }
    }
}

fn set_pairs(cx: &mut Cx<'_, '_>, pairs: std::ops::Range<usize>) -> Result<(), CommandError> {
    let args = cx.args;
    let mut values = Values::of_pairs(args, pairs.clone())?;
    for index in pairs.step_by(2) {
        let key = args.get(index);
        put_string(cx.edit(key), key, (values.take(index + 1), None), SET_EVENT);
    }
    Ok(())
}

pub(super) fn mset(cx: &mut Cx<'_, '_>) -> Outcome {
    pairs_are_whole(cx)?;
    set_pairs(cx, 1..cx.args.len())?;
    cx.reply.ok();
    Ok(())
}

pub(super) fn msetnx(cx: &mut Cx<'_, '_>) -> Outcome {
    pairs_are_whole(cx)?;
    let args = cx.args;
    let any = (1..args.len()).step_by(2).any(|index| cx.edit(args.get(index)).entry().is_some());
    if !any {
        set_pairs(cx, 1..args.len())?;
    }
    cx.reply.integer(i64::from(!any));
    Ok(())
}

/// Keys of `MSETEX` that must exist.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Condition {
    None,
    AllAbsent,
    AllPresent,
}

pub(super) fn msetex(cx: &mut Cx<'_, '_>) -> Outcome {
    let count = integer(cx.arg(1)).ok().and_then(|count| usize::try_from(count).ok());
    let count = count
        .filter(|&count| count > 0 && count <= i32::MAX as usize)
        .ok_or("ERR invalid numkeys value or out of range")?;
    let end = count
        .checked_mul(2)
        .and_then(|pairs| pairs.checked_add(2))
        .filter(|&end| end <= cx.args.len())
        .ok_or(CommandError::Syntax)?;
    let mut condition = Condition::None;
    let mut expiry: Option<(TimeUnit, &[u8])> = None;
    let mut keeps_expiry = false;
    let mut index = end;
    while index < cx.args.len() {
        let option = cx.arg(index);
        if is(option, "NX") && condition != Condition::AllPresent {
            condition = Condition::AllAbsent;
        } else if is(option, "XX") && condition != Condition::AllAbsent {
            condition = Condition::AllPresent;
        } else if is(option, "KEEPTTL") && expiry.is_none() {
            keeps_expiry = true;
        } else if let Some(unit) = TimeUnit::of_option(option)
            && !keeps_expiry
            && unit.may_follow(expiry.map(|(earlier, _)| earlier))
            && index + 1 < cx.args.len()
        {
            index += 1;
            expiry = Some((unit, cx.arg(index)));
        } else {
            return Err(CommandError::Syntax.into());
        }
        index += 1;
    }
    let at_ms = match expiry {
        Some((unit, argument)) => Some(unit.expiry(argument, cx.clock(), cx.command.name)?),
        None => None,
    };
    let args = cx.args;
    // Keys that have expired are deleted before any is set, as in Valkey.
    let mut present = (2..end).step_by(2).map(|index| cx.edit(args.get(index)).entry().is_some());
    let is_met = match condition {
        Condition::None => true,
        Condition::AllAbsent => !present.any(|is_present| is_present),
        Condition::AllPresent => present.all(|is_present| is_present),
    };
    if is_met {
        let mut values = Values::of_pairs(args, 2..end)?;
        for index in (2..end).step_by(2) {
            let value = (args.get(index + 1), values.take(index + 1));
            set_one(cx, args.get(index), value, at_ms, keeps_expiry);
        }
    }
    cx.reply.integer(i64::from(is_met));
    Ok(())
}

fn set_one(
    cx: &mut Cx<'_, '_>,
    key: &[u8],
    (text, value): (&[u8], NewValue<'_>),
    at_ms: Option<u64>,
    keeps_expiry: bool,
) {
    let edit = cx.edit(key);
    let at_ms = if keeps_expiry { edit.expires_at_ms() } else { at_ms };
    if let Some(at_ms) = at_ms
        && edit.clock().has_passed(at_ms)
    {
        // It is stored nevertheless, as in Valkey. No worker with an earlier clock must see it.
        edit.shared().saw_expired(at_ms);
    }
    put_string(edit, key, (value, at_ms), SET_EVENT);
    if !keeps_expiry {
        super::set::expire_event(cx, key, at_ms);
    }
    super::set::propagate_set(cx, key, text, at_ms);
}
