//! `XGROUP`.

use tidemill_store::Encoding;
use tidemill_store::value::stream::{Stream, StreamId};

use super::deliver::{CONSUMER_EVENT, change};
use super::id;
use super::journal::GroupNames;
use crate::access::context::Cx;
use crate::access::options::{integer, is};
use crate::access::outcome::Outcome;
use crate::access::session_context::SessionCx;
use crate::commit::{Event, EventClass};
use crate::error::CommandError;
use crate::memory;

const fn event(name: &'static str) -> Event {
    Event::new(EventClass::STREAM, name)
}

/// Options of `XGROUP CREATE` and `SETID`.
#[derive(Debug, Default)]
struct Options {
    makes_stream: bool,
    entries_read: Option<u64>,
}

impl Options {
    fn parse(cx: &Cx<'_, '_>, may_make: bool) -> Result<Options, CommandError> {
        let args = cx.args;
        let mut options = Options::default();
        let mut index = 5;
        while index < args.len() {
            let option = args.get(index);
            if may_make && is(option, "MKSTREAM") {
                options.makes_stream = true;
                index += 1;
                continue;
            }
            if !is(option, "ENTRIESREAD") || index + 1 == args.len() {
                return Err(CommandError::subcommand_syntax("XGROUP", args.get(1)));
            }
            options.entries_read = match integer(args.get(index + 1))? {
                -1 => None,
                ..-1 => {
                    return Err("ERR value for ENTRIESREAD must be positive or -1".into());
                }
                count => Some(count as u64),
            };
            index += 2;
        }
        Ok(options)
    }
}

/// Refuses options that are repeated.
fn check_length(cx: &Cx<'_, '_>, is_right: fn(usize) -> bool) -> Result<(), CommandError> {
    match is_right(cx.args.len()) {
        true => Ok(()),
        false => Err(CommandError::subcommand_syntax("XGROUP", cx.arg(1))),
    }
}

/// The stream that a subcommand is about.
fn stream_of<'g>(cx: &mut Cx<'_, 'g>) -> Result<Option<Stream<'g>>, CommandError> {
    cx.edit(cx.args.get(2)).read_as::<Stream<'_>>()
}

fn existing_stream<'g>(cx: &mut Cx<'_, 'g>) -> Result<Stream<'g>, CommandError> {
    stream_of(cx)?.ok_or_else(|| {
        "ERR The XGROUP subcommand requires the key to exist. Note that for CREATE you may want \
         to use the MKSTREAM option to create an empty stream automatically."
            .into()
    })
}

fn names<'g>(cx: &Cx<'_, 'g>) -> GroupNames<'g> {
    GroupNames { key: cx.arg(2), group: cx.arg(3) }
}

/// Error of a command about a group that is not there.
pub(super) fn no_group(names: GroupNames<'_>) -> CommandError {
    let parts = [
        b"NOGROUP No such consumer group '",
        crate::error::until_nul(names.group),
        b"' for key name '",
        crate::error::until_nul(names.key),
        b"'",
    ];
    CommandError::Bytes(parts.concat())
}

pub(super) fn create(cx: &mut Cx<'_, '_>) -> Outcome {
    let options = Options::parse(cx, true)?;
    let names = names(cx);
    let stream = if options.makes_stream { stream_of(cx)? } else { Some(existing_stream(cx)?) };
    check_length(cx, |length| length <= 8)?;
    let last_id = match cx.arg(4) {
        b"$" => stream.map_or(StreamId::MIN, |stream| stream.state().last_id),
        text => id::strict(text)?,
    };
    if stream.is_some_and(|stream| stream.group(names.group).is_some()) {
        return Err("BUSYGROUP Consumer Group name already exists".into());
    }
    let event = event("xgroup-create");
    if stream.is_some() {
        change(cx, names.key, Some(event), |stream| {
            stream.create_group(names.group, last_id, options.entries_read);
        })?;
    } else {
        cx.edit(names.key).change::<Stream<'_>, _>(event, |stream| {
            stream.create_group(names.group, last_id, options.entries_read);
            Ok(Some((Encoding::Stream, ())))
        })?;
    }
    let words: Vec<&[u8]> = cx.args.iter().collect();
    let last_id = id::text(last_id);
    // The end of the stream is that of now.
    cx.propagate(words.into_iter().enumerate().map(|(index, word)| match index {
        4 => &last_id,
        _ => word,
    }));
    cx.reply.ok();
    Ok(())
}

pub(super) fn set_id(cx: &mut Cx<'_, '_>) -> Outcome {
    let options = Options::parse(cx, false)?;
    let names = names(cx);
    let stream = existing_stream(cx)?;
    let group = stream.group(names.group).ok_or_else(|| no_group(names))?;
    check_length(cx, |length| matches!(length, 5 | 7))?;
    let last_id = match cx.arg(4) {
        b"$" => stream.state().last_id,
        text => id::lenient(text, 0)?,
    };
    let group = tidemill_store::value::stream::Group {
        last_id,
        entries_read: options.entries_read,
        ..group
    };
    change(cx, names.key, Some(event("xgroup-setid")), |stream| {
        stream.set_group(names.group, group);
    })?;
    names.last_id(cx, &group);
    cx.reply.ok();
    Ok(())
}

pub(super) fn destroy(cx: &mut Cx<'_, '_>) -> Outcome {
    let names = names(cx);
    let stream = existing_stream(cx)?;
    let group = stream.group(names.group);
    if let Some(group) = &group {
        let consumers = stream.consumers(group.number).map(|(_, consumer)| consumer.number);
        let consumers = memory::collect(consumers)?;
        change(cx, names.key, Some(event("xgroup-destroy")), |stream| {
            stream.remove_group(names.group, &consumers);
        })?;
        // Consumers of the group wait in vain.
        cx.note_ready(names.key);
    }
    cx.reply.integer(i64::from(group.is_some()));
    Ok(())
}

pub(super) fn create_consumer(cx: &mut Cx<'_, '_>) -> Outcome {
    let (names, consumer) = (names(cx), cx.arg(4));
    let stream = existing_stream(cx)?;
    let group = stream.group(names.group).ok_or_else(|| no_group(names))?;
    let is_new = stream.consumer(group.number, consumer).is_none();
    if is_new {
        let now_ms = cx.unix_ms();
        change(cx, names.key, Some(CONSUMER_EVENT), |stream| {
            stream.create_consumer(group.number, consumer, now_ms, -1);
        })?;
    }
    cx.reply.integer(i64::from(is_new));
    Ok(())
}

pub(super) fn delete_consumer(cx: &mut Cx<'_, '_>) -> Outcome {
    let (names, consumer) = (names(cx), cx.arg(4));
    let stream = existing_stream(cx)?;
    let group = stream.group(names.group).ok_or_else(|| no_group(names))?;
    let mut pending_count = 0;
    if stream.consumer(group.number, consumer).is_some() {
        pending_count = change(cx, names.key, Some(event("xgroup-delconsumer")), |stream| {
            stream.remove_consumer(group.number, consumer).unwrap_or(0)
        })?;
    }
    cx.reply.integer(pending_count as i64);
    Ok(())
}

pub(super) fn help(cx: &mut SessionCx<'_, '_>) -> Outcome {
    crate::access::help::reply(
        cx.reply,
        "XGROUP",
        &[
            (
                "CREATE <key> <group> <id|$> [MKSTREAM] [ENTRIESREAD <count>]",
                "Creates a group; with MKSTREAM the stream too.",
            ),
            ("CREATECONSUMER <key> <group> <consumer>", "Creates a consumer."),
            ("DELCONSUMER <key> <group> <consumer>", "Removes a consumer."),
            ("DESTROY <key> <group>", "Removes a group."),
            (
                "SETID <key> <group> <id|$> [ENTRIESREAD <count>]",
                "Sets the last delivered id and the count of entries read.",
            ),
        ],
    );
    Ok(())
}
