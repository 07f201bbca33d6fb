//! `XACK` and `XPENDING`.

use tidemill_resp::encode::Aggregate;
use tidemill_store::value::stream::{Group, Stream, StreamId};

use super::deliver::{change, find_group};
use super::id;
use super::journal::GroupNames;
use crate::access::context::Cx;
use crate::access::options::{integer, is};
use crate::access::outcome::Outcome;
use crate::error::CommandError;

pub(super) fn xack(cx: &mut Cx<'_, '_>) -> Outcome {
    let names = GroupNames { key: cx.arg(1), group: cx.arg(2) };
    let Some((stream, group)) = find_group(cx, names)? else {
        cx.reply.integer(0);
        return Ok(());
    };
    let ids = id::all(cx.args.iter().skip(3))?;
    let mut count = 0;
    if ids.iter().any(|&id| stream.pending(group.number, id).is_some()) {
        count =
            change(cx, names.key, None, |stream| stream.remove_all_pending(group.number, &ids))?;
        cx.count_changes(count as u64);
    }
    cx.reply.integer(count as i64);
    Ok(())
}

/// Error of a command about pending entries of a group that is not there.
pub(super) fn no_group(names: GroupNames<'_>) -> CommandError {
    let parts = [
        b"NOGROUP No such key '",
        crate::error::until_nul(names.key),
        b"' or consumer group '",
        crate::error::until_nul(names.group),
        b"'",
    ];
    CommandError::Bytes(parts.concat())
}

/// Range of pending entries that is asked for.
struct Filter<'a> {
    idle_ms_min: i64,
    start: StreamId,
    end: StreamId,
    count: u64,
    consumer: Option<&'a [u8]>,
}

impl<'a> Filter<'a> {
    fn parse(cx: &Cx<'_, 'a>) -> Result<Filter<'a>, CommandError> {
        let args = cx.args;
        let (mut first, mut idle_ms_min) = (3, 0);
        if is(args.get(3), "IDLE") {
            idle_ms_min = integer(args.get(4))?;
            if args.len() < 8 {
                return Err(CommandError::Syntax);
            }
            first = 5;
        }
        let count = integer(args.get(first + 2))?.max(0) as u64;
        Ok(Filter {
            idle_ms_min,
            start: id::start(args.get(first))?,
            end: id::end(args.get(first + 1))?,
            count,
            consumer: (first + 3 < args.len()).then(|| args.get(first + 3)),
        })
    }
}

pub(super) fn xpending(cx: &mut Cx<'_, '_>) -> Outcome {
    let names = GroupNames { key: cx.arg(1), group: cx.arg(2) };
    let filter = match cx.args.len() {
        3 => None,
        6..=9 => Some(Filter::parse(cx)?),
        _ => return Err(CommandError::Syntax.into()),
    };
    let stream = cx.read_as::<Stream<'_>>(names.key)?;
    let found = stream.and_then(|stream| Some((stream, stream.group(names.group)?)));
    let (stream, group) = found.ok_or_else(|| no_group(names))?;
    match filter {
        None => summarize(cx, stream, &group),
        Some(filter) => list(cx, stream, &group, &filter),
    }
    Ok(())
}

fn summarize(cx: &mut Cx<'_, '_>, stream: Stream<'_>, group: &Group) {
    let first = stream.pending_from(group.number, StreamId::MIN).next();
    cx.reply.array(4);
    cx.reply.integer(stream.pending_count(group.number) as i64);
    let (Some((first, _)), Some(last)) = (first, stream.last_pending(group.number)) else {
        cx.reply.null();
        cx.reply.null();
        return cx.reply.null_array();
    };
    id::reply(cx.reply, first);
    id::reply(cx.reply, last);
    let deferred = cx.reply.begin(Aggregate::Array);
    let mut count = 0;
    for (name, consumer) in stream.consumers(group.number) {
        let pending_count = stream.consumer_pending_count(consumer.number);
        if pending_count > 0 {
            cx.reply.array(2);
            cx.reply.bulk(name);
            cx.reply.bulk_integer(pending_count as i64);
            count += 1;
        }
    }
    cx.reply.end_with(deferred, count);
}

fn list(cx: &mut Cx<'_, '_>, stream: Stream<'_>, group: &Group, filter: &Filter<'_>) {
    let now_ms = cx.unix_ms();
    let consumer = filter.consumer.map(|name| stream.consumer(group.number, name));
    let Some(consumer) = consumer.map_or(Some(None), |found| found.map(Some)) else {
        return cx.reply.array(0);
    };
    let of_consumer = consumer.into_iter().flat_map(|consumer| {
        stream
            .consumer_pending_from(consumer.number, filter.start)
            .filter_map(|id| Some((id, stream.pending(group.number, id)?)))
    });
    let of_group = consumer.is_none().then(|| stream.pending_from(group.number, filter.start));
    let pending = of_consumer.chain(of_group.into_iter().flatten());
    let pending = pending.take_while(|&(id, _)| id <= filter.end).filter(|(_, pending)| {
        filter.idle_ms_min == 0
            || now_ms.wrapping_sub(pending.delivered_at_ms) >= filter.idle_ms_min
    });
    let deferred = cx.reply.begin(Aggregate::Array);
    let mut count = 0;
    for (id, pending) in pending.take(usize::try_from(filter.count).unwrap_or(usize::MAX)) {
        cx.reply.array(4);
        id::reply(cx.reply, id);
        cx.reply.bulk(stream.consumer_name(pending.consumer));
        cx.reply.integer(now_ms.wrapping_sub(pending.delivered_at_ms).max(0));
        cx.reply.integer(pending.delivery_count as i64);
        count += 1;
    }
    cx.reply.end_with(deferred, count);
}
