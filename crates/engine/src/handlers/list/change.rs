//! Changes in the middle of lists.

use tidemill_store::value::list::List;
use tidemill_store::{Encoding, Kind};

use super::encoding::{Limit, after_addition, after_removal, when_smaller};
use super::look::position;
use crate::access::context::Cx;
use crate::access::options::{clamp_list_range, integer, is, symmetric_integer};
use crate::access::outcome::Outcome;
use crate::commit::{Event, EventClass};
use crate::error::CommandError;
use crate::memory;

fn limit(cx: &Cx<'_, '_>) -> Limit {
    Limit::of_setting(cx.settings().list_listpack_size_max)
}

pub(super) fn lset(cx: &mut Cx<'_, '_>) -> Outcome {
    let (key, element) = (cx.arg(1), cx.arg(3));
    let limit = limit(cx);
    let index = cx.arg(2);
    let edit = cx.edit(key);
    let entry = edit.entry_of(Kind::List)?.ok_or(CommandError::NoSuchKey)?;
    let index = integer(index)?;
    let old = edit.read_as::<List<'_>>()?;
    let length = old.map_or(0, |list| list.len());
    // Valkey looks whether one more element would fit beside what is there, before it looks for the
    // index, and if not, whether what is left is small.
    let encoding = after_addition(Some(entry.encoding()), old, (1, element.len() as u64), limit);
    let Some(position) = position(index, length) else {
        if encoding != entry.encoding() {
            edit.set_encoding(encoding);
        }
        return Err(CommandError::IndexOutOfRange.into());
    };
    edit.change::<List<'_>, _>(Event::new(EventClass::LIST, "lset"), |list| {
        list.set(position, element);
        let encoding = match encoding {
            Encoding::Quicklist => when_smaller(list, limit),
            fitting => fitting,
        };
        Ok(Some((encoding, ())))
    })?;
    cx.reply.ok();
    Ok(())
}

pub(super) fn linsert(cx: &mut Cx<'_, '_>) -> Outcome {
    let (key, pivot, element) = (cx.arg(1), cx.arg(3), cx.arg(4));
    let is_before = match cx.arg(2) {
        place if is(place, "BEFORE") => true,
        place if is(place, "AFTER") => false,
        _ => return Err(CommandError::Syntax.into()),
    };
    let limit = limit(cx);
    let edit = cx.edit(key);
    let Some(entry) = edit.entry_of(Kind::List)? else {
        cx.reply.integer(0);
        return Ok(());
    };
    let list = edit.read_as::<List<'_>>()?;
    let found = list.and_then(|list| list.iter().position(|other| other == pivot));
    let encoding = after_addition(Some(entry.encoding()), list, (1, element.len() as u64), limit);
    let Some(found) = found else {
        // As in Valkey, which makes room before it looks for the pivot.
        if encoding != entry.encoding() {
            edit.set_encoding(encoding);
        }
        cx.reply.integer(-1);
        return Ok(());
    };
    let position = found as u64 + u64::from(!is_before);
    let length = edit.change::<List<'_>, _>(Event::new(EventClass::LIST, "linsert"), |list| {
        list.insert(position, element);
        Ok(Some((encoding, list.len())))
    })?;
    cx.reply.integer(length.unwrap_or(0) as i64);
    Ok(())
}

pub(super) fn lrem(cx: &mut Cx<'_, '_>) -> Outcome {
    let (key, element) = (cx.arg(1), cx.arg(3));
    let count = symmetric_integer(cx.arg(2))?;
    let (limit, room) = (limit(cx), cx.room());
    let edit = cx.edit(key);
    let Some(entry) = edit.entry_of(Kind::List)? else {
        cx.reply.integer(0);
        return Ok(());
    };
    let removed_max = if count == 0 { usize::MAX } else { count.unsigned_abs() as usize };
    let mut positions: Vec<u64> = Vec::new();
    if let Some(list) = edit.read_as::<List<'_>>()? {
        let is_match = |&(_, other): &(u64, &[u8])| other == element;
        if count >= 0 {
            let matches = (0..list.len()).zip(list.iter()).filter(is_match);
            positions = memory::collect(matches.take(removed_max).map(|(index, _)| index))?;
            positions.reverse();
        } else {
            let length = list.len();
            let backwards = (0..length).rev().zip(list.iter_back_from(length - 1));
            let matches = backwards.filter(is_match).take(removed_max);
            positions = memory::collect(matches.map(|(index, _)| index))?;
        }
    }
    room.check_edit(entry, positions.len() as u64)?;
    if !positions.is_empty() {
        edit.change::<List<'_>, _>(Event::new(EventClass::LIST, "lrem"), |list| {
            // From the back, so that the positions before stay what they are.
            for &position in &positions {
                list.remove(position);
            }
            Ok(Some((after_removal(entry, list, limit), ())))
        })?;
        cx.count_changes(positions.len() as u64);
    }
    cx.reply.integer(positions.len() as i64);
    Ok(())
}

pub(super) fn ltrim(cx: &mut Cx<'_, '_>) -> Outcome {
    let key = cx.arg(1);
    let (start, stop) = (integer(cx.arg(2))?, integer(cx.arg(3))?);
    let limit = limit(cx);
    let edit = cx.edit(key);
    if let Some(entry) = edit.entry_of(Kind::List)? {
        let length = edit.read_as::<List<'_>>()?.map_or(0, |list| list.len());
        let kept =
            clamp_list_range(start, stop, length).map_or((0, 0), |(start, stop)| (start, stop + 1));
        let event = Event::new(EventClass::LIST, "ltrim");
        if kept == (0, length) {
            // As in Valkey, which tells of it and counts no change.
            cx.event(cx.database, key, event);
            cx.reply.ok();
            return Ok(());
        }
        edit.change::<List<'_>, _>(event, |list| {
            list.remove_range(kept.1, length);
            list.remove_range(0, kept.0);
            Ok(Some((after_removal(entry, list, limit), ())))
        })?;
        cx.count_changes(length - (kept.1 - kept.0));
    }
    cx.reply.ok();
    Ok(())
}
