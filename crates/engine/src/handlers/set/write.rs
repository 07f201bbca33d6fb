//! Adding, removing and moving members.

use tidemill_store::value::set::{Member, Set, SetEdit};
use tidemill_store::{Encoding, Kind};

use super::encoding::Thresholds;
use super::member::member_of;
use crate::access::context::Cx;
use crate::access::outcome::Outcome;
use crate::commit::{Event, EventClass};
use crate::error::CommandError;

const ADDED: Event = Event::new(EventClass::SET, "sadd");
const REMOVED: Event = Event::new(EventClass::SET, "srem");

pub(super) fn sadd(cx: &mut Cx<'_, '_>) -> Outcome {
    let args = cx.args;
    let members = args.iter().skip(2).map(member_of);
    let added = add(cx, args.get(1), members, args.len() as u64 - 2)?;
    if added > 0 {
        cx.count_changes(added);
    }
    cx.reply.integer(added as i64);
    Ok(())
}

/// Adds members to the set under a key, or to a new one; returns the number of new ones. There are
/// `count` members, one at least.
fn add<'m>(
    cx: &mut Cx<'_, '_>,
    key: &[u8],
    members: impl Iterator<Item = Member<'m>>,
    count: u64,
) -> Result<u64, CommandError> {
    let thresholds = Thresholds::of(cx.settings());
    let mut members = members.peekable();
    let Some(&first) = members.peek() else { return Ok(0) };
    let room = cx.room();
    let edit = cx.edit(key);
    let old = edit.entry_of(Kind::Set)?;
    if let Some(entry) = old {
        room.check_edit(entry, count)?;
    }
    let mut encoding = match old {
        Some(entry) => thresholds.for_more(entry.encoding(), count),
        None => thresholds.for_new(first, count),
    };
    let added = edit.change::<Set<'_>, _>(ADDED, |set| {
        let added = members.filter(|&member| thresholds.add(set, &mut encoding, member)).count();
        Ok((added > 0).then_some((encoding, added as u64)))
    })?;
    // Valkey makes room before it knows that no member is new.
    if added.is_none() && old.is_some_and(|entry| entry.encoding() != encoding) {
        cx.edit(key).set_encoding(encoding);
    }
    Ok(added.unwrap_or(0))
}

pub(super) fn srem(cx: &mut Cx<'_, '_>) -> Outcome {
    let args = cx.args;
    let members = args.iter().skip(2).map(member_of);
    let count = args.len() as u64 - 2;
    let removed = remove(cx, args.get(1), members, count, REMOVED, unchanged)?;
    cx.reply.integer(removed as i64);
    Ok(())
}

/// Removes `count` members from the set under a key; returns the number of those that were there.
/// `encoding` tells the encoding of what is left from that of the whole.
pub(super) fn remove<'m>(
    cx: &mut Cx<'_, '_>,
    key: &[u8],
    members: impl Iterator<Item = Member<'m>>,
    count: u64,
    event: Event,
    encoding: impl FnOnce(Encoding, &SetEdit<'_>) -> Encoding,
) -> Result<u64, CommandError> {
    let room = cx.room();
    let edit = cx.edit(key);
    let Some(entry) = edit.entry_of(Kind::Set)? else { return Ok(0) };
    room.check_edit(entry, count)?;
    let removed = edit.change::<Set<'_>, _>(event, |set| {
        let removed = members.filter(|&member| set.remove(member)).count();
        Ok((removed > 0).then(|| (encoding(entry.encoding(), set), removed as u64)))
    })?;
    if let Some(removed) = removed {
        cx.count_changes(removed);
    }
    Ok(removed.unwrap_or(0))
}

/// A set that shrinks keeps its encoding, for [`remove`].
pub(super) fn unchanged(encoding: Encoding, _left: &SetEdit<'_>) -> Encoding {
    encoding
}

pub(super) fn smove(cx: &mut Cx<'_, '_>) -> Outcome {
    let (source, target, member) = (cx.arg(1), cx.arg(2), member_of(cx.arg(3)));
    let Some(set) = cx.edit(source).read_as::<Set<'_>>()? else {
        cx.reply.integer(0);
        return Ok(());
    };
    cx.edit(target).entry_of(Kind::Set)?;
    let is_moved = if source == target {
        set.contains(member)
    } else {
        let removed = remove(cx, source, [member].into_iter(), 1, REMOVED, unchanged)?;
        if removed > 0 {
            let added = add(cx, target, [member].into_iter(), 1)?;
            cx.count_changes(1 + added);
        }
        removed > 0
    };
    cx.reply.integer(i64::from(is_moved));
    Ok(())
}
