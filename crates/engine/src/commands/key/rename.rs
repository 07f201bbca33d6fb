//! Values that change their key or database.

use crate::command::Outcome;
use crate::commands::options::is;
use crate::commit::{Event, EventClass};
use crate::context::Cx;
use crate::error::CommandError;
use tidemill_resp::number::parse_integer;

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
    let entry = cx.edit(from).take_as(to, Event::new(EventClass::GENERIC, "rename_from"));
    cx.edit(to).put_entry(entry, Event::new(EventClass::GENERIC, "rename_to"));
    match if_free {
        true => cx.reply.integer(1),
        false => cx.reply.ok(),
    }
    Ok(())
}

fn database(cx: &Cx<'_, '_>, argument: &[u8]) -> Result<usize, CommandError> {
    let index = parse_integer(argument).ok_or(CommandError::NotAnInteger)?;
    usize::try_from(index)
        .ok()
        .filter(|&index| index < cx.shared.keyspace.database_count())
        .ok_or(CommandError::from("ERR DB index is out of range"))
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
            target = database(cx, cx.arg(index))?;
        } else {
            return Err(CommandError::Syntax.into());
        }
        index += 1;
    }
    if target == cx.database && from == to {
        return Err("ERR source and destination objects are the same".into());
    }
    let source = cx.edit(from).entry();
    let is_free = cx.edit_in(target, to).entry().is_none();
    let Some(source) = source.filter(|_| is_free || replaces) else {
        cx.reply.integer(0);
        return Ok(());
    };
    let entry = tidemill_store::OwnedEntry::copy_of(source, to, &cx.worker.heap);
    cx.edit_in(target, to).put_entry(entry, Event::new(EventClass::GENERIC, "copy_to"));
    cx.reply.integer(1);
    Ok(())
}

pub(super) fn move_key(cx: &mut Cx<'_, '_>) -> Outcome {
    let key = cx.arg(1);
    let target = database(cx, cx.arg(2))?;
    if target == cx.database {
        return Err("ERR source and destination objects are the same".into());
    }
    let is_movable = cx.edit(key).entry().is_some() && cx.edit_in(target, key).entry().is_none();
    if is_movable {
        let entry = cx.edit(key).take_as(key, Event::new(EventClass::GENERIC, "move_from"));
        cx.edit_in(target, key).put_entry(entry, Event::new(EventClass::GENERIC, "move_to"));
    }
    cx.reply.integer(i64::from(is_movable));
    Ok(())
}
