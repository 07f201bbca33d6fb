//! `XINFO`.

use tidemill_resp::encode::Aggregate;
use tidemill_store::value::stream::{Group, Stream, StreamId};

use super::group::no_group;
use super::id;
use super::journal::GroupNames;
use super::lag::Counters;
use super::pieces::write_entry;
use crate::access::context::Cx;
use crate::access::options::{integer, is};
use crate::access::outcome::Outcome;
use crate::access::session_context::SessionCx;
use crate::error::CommandError;

/// Elements of each kind that `XINFO STREAM FULL` answers when no count is given.
const FULL_COUNT: i64 = 10;

fn stream_of<'g>(cx: &mut Cx<'_, 'g>) -> Result<Stream<'g>, CommandError> {
    cx.read_as::<Stream<'_>>(cx.args.get(2))?.ok_or(CommandError::NoSuchKey)
}

fn integer_field(cx: &mut Cx<'_, '_>, name: &str, value: i64) {
    cx.reply.bulk(name);
    cx.reply.integer(value);
}

fn optional_field(cx: &mut Cx<'_, '_>, name: &str, value: Option<i64>) {
    cx.reply.bulk(name);
    match value {
        Some(value) => cx.reply.integer(value),
        None => cx.reply.null(),
    }
}

fn id_field(cx: &mut Cx<'_, '_>, name: &str, value: StreamId) {
    cx.reply.bulk(name);
    id::reply(cx.reply, value);
}

pub(super) fn consumers(cx: &mut Cx<'_, '_>) -> Outcome {
    let stream = stream_of(cx)?;
    let names = GroupNames { key: cx.arg(2), group: cx.arg(3) };
    let group = stream.group(names.group).ok_or_else(|| no_group(names))?;
    let now_ms = cx.unix_ms();
    cx.reply.array(stream.consumer_count(group.number) as usize);
    for (name, consumer) in stream.consumers(group.number) {
        let inactive_ms = match consumer.active_at_ms {
            -1 => -1,
            active_at_ms => now_ms.wrapping_sub(active_at_ms),
        };
        cx.reply.map(4);
        cx.reply.bulk("name");
        cx.reply.bulk(name);
        integer_field(cx, "pending", stream.consumer_pending_count(consumer.number) as i64);
        integer_field(cx, "idle", now_ms.wrapping_sub(consumer.seen_at_ms).max(0));
        integer_field(cx, "inactive", inactive_ms);
    }
    Ok(())
}

/// Fields of a group that both forms have.
fn progress(cx: &mut Cx<'_, '_>, counters: Counters, group: &Group) {
    id_field(cx, "last-delivered-id", group.last_id);
    optional_field(cx, "entries-read", group.entries_read.map(|count| count as i64));
    optional_field(cx, "lag", counters.lag(group));
}

pub(super) fn groups(cx: &mut Cx<'_, '_>) -> Outcome {
    let stream = stream_of(cx)?;
    let counters = Counters::of(stream);
    cx.reply.array(stream.group_count() as usize);
    for (name, group) in stream.groups() {
        cx.reply.map(6);
        cx.reply.bulk("name");
        cx.reply.bulk(name);
        integer_field(cx, "consumers", stream.consumer_count(group.number) as i64);
        integer_field(cx, "pending", stream.pending_count(group.number) as i64);
        progress(cx, counters, &group);
    }
    Ok(())
}

/// Count of `XINFO STREAM FULL`, 0 for all; none for the short form.
fn full_count(cx: &Cx<'_, '_>) -> Result<Option<usize>, CommandError> {
    let args = cx.args;
    let unknown = || CommandError::subcommand_syntax("XINFO", args.get(1));
    let count = match args.len() {
        3 => return Ok(None),
        4 if is(args.get(3), "FULL") => FULL_COUNT,
        6 if is(args.get(3), "FULL") && is(args.get(4), "COUNT") => integer(args.get(5))?,
        _ => return Err(unknown()),
    };
    let count = if count < 0 { FULL_COUNT } else { count };
    Ok(Some(usize::try_from(count).unwrap_or(usize::MAX)))
}

pub(super) fn stream(cx: &mut Cx<'_, '_>) -> Outcome {
    let stream = stream_of(cx)?;
    let full_count = full_count(cx)?;
    let (leaf_count, node_count) = stream.node_counts();
    let state = stream.state();
    cx.reply.map(if full_count.is_some() { 9 } else { 10 });
    integer_field(cx, "length", stream.len() as i64);
    integer_field(cx, "radix-tree-keys", leaf_count as i64);
    integer_field(cx, "radix-tree-nodes", node_count as i64);
    id_field(cx, "last-generated-id", state.last_id);
    id_field(cx, "max-deleted-entry-id", state.max_deleted_id);
    integer_field(cx, "entries-added", state.entries_added as i64);
    id_field(cx, "recorded-first-entry-id", stream.first_id());
    match full_count {
        Some(count) => full(cx, stream, if count == 0 { usize::MAX } else { count }),
        None => {
            integer_field(cx, "groups", stream.group_count() as i64);
            let first = stream.iter_from(0).next();
            let last = stream.iter_back_from(u64::MAX).next();
            for (name, entry) in [("first-entry", first), ("last-entry", last)] {
                cx.reply.bulk(name);
                match entry {
                    Some(entry) => write_entry(cx.reply, &entry),
                    None => cx.reply.null(),
                }
            }
        }
    }
    Ok(())
}

fn full(cx: &mut Cx<'_, '_>, stream: Stream<'_>, count: usize) {
    cx.reply.bulk("entries");
    cx.reply.array(stream.len().min(count as u64) as usize);
    for entry in stream.iter_from(0).take(count) {
        write_entry(cx.reply, &entry);
    }
    let counters = Counters::of(stream);
    cx.reply.bulk("groups");
    cx.reply.array(stream.group_count() as usize);
    for (name, group) in stream.groups() {
        cx.reply.map(7);
        cx.reply.bulk("name");
        cx.reply.bulk(name);
        progress(cx, counters, &group);
        integer_field(cx, "pel-count", stream.pending_count(group.number) as i64);
        full_group(cx, stream, &group, count);
    }
}

fn full_group(cx: &mut Cx<'_, '_>, stream: Stream<'_>, group: &Group, count: usize) {
    cx.reply.bulk("pending");
    let deferred = cx.reply.begin(Aggregate::Array);
    let mut pending_count = 0;
    for (id, pending) in stream.pending_from(group.number, StreamId::MIN).take(count) {
        cx.reply.array(4);
        id::reply(cx.reply, id);
        cx.reply.bulk(stream.consumer_name(pending.consumer));
        cx.reply.integer(pending.delivered_at_ms);
        cx.reply.integer(pending.delivery_count as i64);
        pending_count += 1;
    }
    cx.reply.end_with(deferred, pending_count);
    cx.reply.bulk("consumers");
    cx.reply.array(stream.consumer_count(group.number) as usize);
    for (name, consumer) in stream.consumers(group.number) {
        cx.reply.map(5);
        cx.reply.bulk("name");
        cx.reply.bulk(name);
        integer_field(cx, "seen-time", consumer.seen_at_ms);
        integer_field(cx, "active-time", consumer.active_at_ms);
        let pending_count = stream.consumer_pending_count(consumer.number);
        integer_field(cx, "pel-count", pending_count as i64);
        cx.reply.bulk("pending");
        cx.reply.array(pending_count.min(count as u64) as usize);
        for id in stream.consumer_pending_from(consumer.number, StreamId::MIN).take(count) {
            let pending = stream.pending(group.number, id).expect("both orders have the entry");
            cx.reply.array(3);
            id::reply(cx.reply, id);
            cx.reply.integer(pending.delivered_at_ms);
            cx.reply.integer(pending.delivery_count as i64);
        }
    }
}

pub(super) fn help(cx: &mut SessionCx<'_, '_>) -> Outcome {
    crate::access::help::reply(
        cx.reply,
        "XINFO",
        &[
            ("CONSUMERS <key> <group>", "Lists the consumers of a group."),
            ("GROUPS <key>", "Lists the groups of a stream."),
            ("STREAM <key> [FULL [COUNT <count>]]", "Tells of a stream, with FULL of all it has."),
        ],
    );
    Ok(())
}
