//! Commands on strings.

use crate::command::{
    Argument, ArgumentKind, Categories, Command, Flags, Group, Handler, KeyFlags, KeySpec, Outcome,
};
use crate::commit::{Event, EventClass};
use crate::context::{Cx, NewEntry};
use crate::limits::COPIED_REPLY_BYTES_MAX;
use tidemill_store::{Encoding, Kind, NewValue, StringValue};

/// The family.
pub const COMMANDS: &[&Command] = &[&GET, &SET];

const GET: Command = Command {
    name: "get",
    summary: "Answers the string under a key.",
    group: Group::String,
    arity: 2,
    flags: Flags::READONLY.union(Flags::FAST),
    categories: Categories::STRING,
    keys: &[KeySpec::one(1, KeyFlags::RO.union(KeyFlags::ACCESS))],
    arguments: &[Argument::new("key", ArgumentKind::Key(0))],
    handler: Handler::Keyed(get),
    ..Command::BASE
};

const SET: Command = Command {
    name: "set",
    summary: "Puts a string under a key, whatever was there.",
    group: Group::String,
    arity: -3,
    flags: Flags::WRITE.union(Flags::DENYOOM),
    categories: Categories::STRING,
    keys: &[KeySpec::one(1, KeyFlags::RW)],
    arguments: &[
        Argument::new("key", ArgumentKind::Key(0)),
        Argument::new("value", ArgumentKind::String),
    ],
    handler: Handler::Keyed(set),
    ..Command::BASE
};

fn get(cx: &mut Cx<'_, '_>) -> Outcome {
    let key = cx.arg(1);
    let Some(entry) = cx.read_kind(key, Kind::String)? else {
        cx.reply.null();
        return Ok(());
    };
    match entry.string() {
        Some(StringValue::Plain(bytes)) if bytes.len() <= COPIED_REPLY_BYTES_MAX => {
            cx.reply.bulk(bytes);
        }
        _ => {}
    }
    Ok(())
}

fn set(cx: &mut Cx<'_, '_>) -> Outcome {
    let (key, value) = (cx.arg(1), cx.arg(2));
    let new = NewEntry {
        kind: Kind::String,
        encoding: Encoding::Embstr,
        expires_at_ms: None,
        value: NewValue::String(value),
    };
    cx.edit(key).put(new, Event::new(EventClass::STRING, "set"));
    cx.reply.ok();
    Ok(())
}
