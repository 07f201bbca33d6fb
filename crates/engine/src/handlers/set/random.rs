//! Members by chance: `SRANDMEMBER`, and `SPOP`, which takes them.

use rand_xoshiro::rand_core::Rng;
use tidemill_store::Encoding;
use tidemill_store::value::set::{Member, Set, SetEdit};

use super::encoding::Thresholds;
use super::member::{answer, text_bytes, texts_of};
use super::pieces::SetElements;
use super::write::{remove, unchanged};
use crate::access::context::Cx;
use crate::access::draw;
use crate::access::options::{integer, symmetric_integer};
use crate::access::outcome::Outcome;
use crate::commit::{Event, EventClass};
use crate::error::CommandError;
use crate::limits::ELEMENTS_PER_EFFECT_MAX;
use crate::long_reply::LongReply;
use crate::memory;

const POPPED: Event = Event::new(EventClass::SET, "spop");

/// Popped members for each one left from which on Valkey makes a new set of those left.
const POPPED_PER_LEFT_MIN: u64 = 5;

fn any<'g>(cx: &mut Cx<'_, '_>, set: Set<'g>) -> Option<Member<'g>> {
    set.nth(cx.random().next_u64() % set.len())
}

pub(super) fn srandmember(cx: &mut Cx<'_, '_>) -> Outcome {
    if cx.args.len() > 3 {
        return Err(CommandError::Syntax.into());
    }
    if cx.args.len() == 2 {
        let set = cx.read_as::<Set<'_>>(cx.arg(1))?;
        match set.and_then(|set| any(cx, set)) {
            Some(member) => answer(cx.reply, member),
            None => cx.reply.null(),
        }
        return Ok(());
    }
    let count = symmetric_integer(cx.arg(2))?;
    let Some(set) = cx.read_as::<Set<'_>>(cx.arg(1))? else {
        cx.reply.array(0);
        return Ok(());
    };
    if count < 0 {
        return draw::answer_with_repetition(
            cx,
            (set.len(), count.unsigned_abs()),
            1,
            |cx, count| cx.reply.array(count),
            |cx, position| {
                set.nth(position).into_iter().for_each(|member| answer(cx.reply, member))
            },
        );
    }
    let positions = draw::different(cx.random(), set.len(), count.unsigned_abs())?;
    cx.reply.array(positions.len());
    let members = positions.into_iter().filter_map(|position| set.nth(position));
    members.for_each(|member| answer(cx.reply, member));
    Ok(())
}

pub(super) fn spop(cx: &mut Cx<'_, '_>) -> Outcome {
    match cx.args.len() {
        2 => pop_one(cx),
        3 => pop_several(cx),
        _ => Err(CommandError::Syntax.into()),
    }
}

fn pop_one(cx: &mut Cx<'_, '_>) -> Outcome {
    let key = cx.arg(1);
    let set = cx.edit(key).read_as::<Set<'_>>()?;
    let Some(member) = set.and_then(|set| any(cx, set)) else {
        cx.reply.null();
        return Ok(());
    };
    take(cx, key, &[member], unchanged)?;
    answer(cx.reply, member);
    Ok(())
}

fn pop_several(cx: &mut Cx<'_, '_>) -> Outcome {
    let key = cx.arg(1);
    let count = integer(cx.arg(2))
        .ok()
        .and_then(|count| u64::try_from(count).ok())
        .ok_or("ERR value is out of range, must be positive")?;
    let Some(set) = cx.edit(key).read_as::<Set<'_>>()?.filter(|_| count > 0) else {
        cx.reply.set(0);
        return Ok(());
    };
    if count >= set.len() {
        return pop_all(cx, key, set);
    }
    let positions = draw::different(cx.random(), set.len(), count)?;
    let members = memory::collect(positions.iter().filter_map(|&position| set.nth(position)))?;
    let thresholds = Thresholds::of(cx.settings());
    let encoding = |old, left: &SetEdit<'_>| encoding_of_left(&thresholds, old, left, count);
    take(cx, key, &members, encoding)?;
    cx.reply.set(members.len());
    members.into_iter().for_each(|member| answer(cx.reply, member));
    Ok(())
}

/// Encoding of what `count` popped members leave behind.
fn encoding_of_left(
    thresholds: &Thresholds,
    old: Encoding,
    left: &SetEdit<'_>,
    count: u64,
) -> Encoding {
    if left.len().saturating_mul(POPPED_PER_LEFT_MIN) > count {
        return old;
    }
    let members = left.view().into_iter().flat_map(|left| left.iter());
    match old {
        Encoding::Listpack => old,
        Encoding::Intset => thresholds.of_members(old, members),
        _ => thresholds.of_members(Encoding::Listpack, members),
    }
}

/// Takes all members: the key goes as a whole.
fn pop_all(cx: &mut Cx<'_, '_>, key: &[u8], set: Set<'_>) -> Outcome {
    let length = set.len();
    let version = cx.pin(key, length, (length, set.bytes()))?;
    // Valkey looks the set up once more, as one that is read.
    cx.edit(key).counted().remove(POPPED);
    cx.event(cx.database, key, Event::new(EventClass::GENERIC, "del"));
    cx.count_changes(length);
    cx.propagate([&b"DEL"[..], key]);
    cx.reply.set(length as usize);
    if let Some(version) = version {
        return cx.answer_in_pieces(LongReply::new(version, SetElements, 0..length));
    }
    set.iter().for_each(|member| answer(cx.reply, member));
    Ok(())
}

/// Removes members by name, for the journal too.
fn take(
    cx: &mut Cx<'_, '_>,
    key: &[u8],
    members: &[Member<'_>],
    encoding: impl FnOnce(Encoding, &SetEdit<'_>) -> Encoding,
) -> Result<(), CommandError> {
    // Members that cannot be answered are not taken, and nothing may fail between the change and
    // what is said of it.
    cx.room().check(members.iter().map(|&member| 2 * text_bytes(member) as u64).sum())?;
    let mut integers = Vec::new();
    let texts = match cx.is_journaled() {
        true => texts_of(members.iter().copied(), &mut integers)?,
        false => Vec::new(),
    };
    remove(cx, key, members.iter().copied(), members.len() as u64, POPPED, encoding)?;
    for part in texts.chunks(ELEMENTS_PER_EFFECT_MAX) {
        cx.propagate([&b"SREM"[..], key].into_iter().chain(part.iter().copied()));
    }
    Ok(())
}
