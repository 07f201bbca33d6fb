//! Removing members.

use tidemill_store::Kind;
use tidemill_store::value::sorted_set::SortedSet;

use super::bounds::{Bounds, By};
use crate::access::context::Cx;
use crate::access::outcome::Outcome;
use crate::commit::{Event, EventClass};

pub(super) fn zrem(cx: &mut Cx<'_, '_>) -> Outcome {
    let (args, room) = (cx.args, cx.room());
    let edit = cx.edit(args.get(1));
    let Some(entry) = edit.entry_of(Kind::SortedSet)? else {
        cx.reply.integer(0);
        return Ok(());
    };
    room.check_edit(entry, args.len() as u64)?;
    let event = Event::new(EventClass::SORTED_SET, "zrem");
    let removed = edit.change::<SortedSet<'_>, _>(event, |set| {
        let removed = args.iter().skip(2).filter(|member| set.remove(member).is_some()).count();
        Ok((removed > 0).then_some((entry.encoding(), removed as u64)))
    })?;
    if let Some(removed) = removed {
        cx.count_changes(removed);
    }
    cx.reply.integer(removed.unwrap_or(0) as i64);
    Ok(())
}

/// `ZREMRANGEBYRANK`, `ZREMRANGEBYSCORE` and `ZREMRANGEBYLEX`.
pub(super) fn zremrange(cx: &mut Cx<'_, '_>) -> Outcome {
    let (by, name) = match cx.command.name {
        "zremrangebyrank" => (By::Rank, "zremrangebyrank"),
        "zremrangebyscore" => (By::Score, "zremrangebyscore"),
        _ => (By::Member, "zremrangebylex"),
    };
    let (key, room) = (cx.arg(1), cx.room());
    let bounds = Bounds::parse(by, cx.arg(2), cx.arg(3))?;
    let edit = cx.edit(key);
    let entry = edit.entry_of(Kind::SortedSet)?;
    let (Some(entry), Some(set)) = (entry, edit.read_as::<SortedSet<'_>>()?) else {
        cx.reply.integer(0);
        return Ok(());
    };
    let ranks = bounds.ranks(set, false);
    let removed = ranks.end - ranks.start;
    if removed > 0 {
        room.check_edit(entry, removed)?;
        edit.change::<SortedSet<'_>, _>(Event::new(EventClass::SORTED_SET, name), |set| {
            set.remove_range(ranks.start, ranks.end);
            Ok(Some((entry.encoding(), ())))
        })?;
        cx.count_changes(removed);
    }
    cx.reply.integer(removed as i64);
    Ok(())
}
