//! Values that change their key or database.

use tidemill_resp::request::ArgumentView;
use tidemill_store::{Encoding, EntryRef, EntryTarget, OwnedEntry};

use crate::access::context::Cx;
use crate::access::options::{database, is};
use crate::access::outcome::Outcome;
use crate::command::KeyPositions;
use crate::commit::{Event, EventClass};
use crate::error::CommandError;
use crate::handlers::string;

/// The place of a value under a key: with a long one, a string no longer counts as embedded.
fn place<'k>(source: EntryRef<'_>, key: &'k [u8]) -> EntryTarget<'k> {
    let encoding = match (source.encoding(), source.string()) {
        (Encoding::Embstr, Some(value)) => string::text_encoding_of(key, value.len(), false),
        (encoding, _) => encoding,
    };
    EntryTarget { key, encoding }
}

/// `RENAME` and `RENAMENX`.
pub(super) fn rename(cx: &mut Cx<'_, '_>) -> Outcome {
    let (from, to) = (cx.arg(1), cx.arg(2));
    let if_free = cx.command.name == "renamenx";
    if cx.edit(from).entry().is_none() {
        return Err(CommandError::NoSuchKey.into());
    }
    if from == to {
        match if_free {
            true => cx.reply.integer(0),
            false => cx.reply.ok(),
        }
        return Ok(());
    }
    if if_free && cx.edit(to).entry().is_some() {
        cx.reply.integer(0);
        return Ok(());
    }
    let Some(source) = cx.edit(from).entry() else { return Err(CommandError::NoSuchKey.into()) };
    let database = cx.database;
    cx.new_key_event(database, to);
    let entry =
        cx.edit(from).take_as(place(source, to), Event::new(EventClass::GENERIC, "rename_from"));
    cx.edit(to).put_entry(entry, Event::new(EventClass::GENERIC, "rename_to"));
    cx.count_changes(1);
    match if_free {
        true => cx.reply.integer(1),
        false => cx.reply.ok(),
    }
    Ok(())
}

/// Positions of the databases that `COPY` copies to, for permission; none with options that do not
/// parse.
pub(super) fn databases_of_copy(args: &ArgumentView<'_>, positions: &mut KeyPositions) {
    let mut index = 3;
    while index < args.len() {
        let option = args.get(index);
        if is(option, "DB") && index + 1 < args.len() {
            index += 1;
            positions.push(index);
        } else if !is(option, "REPLACE") {
            positions.clear();
            return;
        }
        index += 1;
    }
}

pub(super) fn copy(cx: &mut Cx<'_, '_>) -> Outcome {
    let (from, to) = (cx.arg(1), cx.arg(2));
    let (mut target, mut replaces) = (cx.database, false);
    let mut index = 3;
    while index < cx.args.len() {
        let option = cx.arg(index);
        if is(option, "REPLACE") {
            replaces = true;
        } else if is(option, "DB") && index + 1 < cx.args.len() {
            index += 1;
            target = database(cx.arg(index), cx.database_count())?;
        } else {
            return Err(CommandError::Syntax.into());
        }
        index += 1;
    }
    if target == cx.database && from == to {
        return Err("ERR source and destination objects are the same".into());
    }
    let source = cx.edit(from).counted().entry();
    // Without a source, an expired target stays what it is.
    let is_free = source.is_some() && cx.edit_in(target, to).entry().is_none();
    let Some(source) = source.filter(|_| is_free || replaces) else {
        cx.reply.integer(0);
        return Ok(());
    };
    cx.room().check(source.total_bytes() as u64)?;
    let entry = OwnedEntry::copy_of(source, place(source, to), cx.heap());
    cx.new_key_event(target, to);
    cx.edit_in(target, to).put_entry(entry, Event::new(EventClass::GENERIC, "copy_to"));
    cx.reply.integer(1);
    Ok(())
}

pub(super) fn move_key(cx: &mut Cx<'_, '_>) -> Outcome {
    let key = cx.arg(1);
    let target = database(cx.arg(2), cx.database_count())?;
    if target == cx.database {
        return Err("ERR source and destination objects are the same".into());
    }
    let source = cx.edit(key).entry();
    let Some(source) = source.filter(|_| cx.edit_in(target, key).entry().is_none()) else {
        cx.reply.integer(0);
        return Ok(());
    };
    cx.new_key_event(target, key);
    let event = Event::new(EventClass::GENERIC, "move_from");
    let entry = cx.edit(key).take_as(place(source, key), event);
    cx.edit_in(target, key).put_entry(entry, Event::new(EventClass::GENERIC, "move_to"));
    cx.count_changes(1);
    cx.reply.integer(1);
    Ok(())
}
