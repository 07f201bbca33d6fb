//! Commands about the connection itself.

use tidemill_resp::number::parse_integer;

use crate::command::{Argument, ArgumentKind, Categories, Command, Flags, Group, Handler, Outcome};
use crate::context::SessionCx;
use crate::error::CommandError;

/// The family.
pub const COMMANDS: &[&Command] = &[&PING, &ECHO, &SELECT];

const FLAGS: Flags = Flags::LOADING.union(Flags::STALE).union(Flags::FAST);

const PING: Command = Command {
    name: "ping",
    summary: "Answers PONG, or what it is given.",
    group: Group::Connection,
    arity: -1,
    flags: Flags::FAST,
    categories: Categories::CONNECTION,
    arguments: &[Argument::new("message", ArgumentKind::String).optional()],
    tips: &["request_policy:all_shards", "response_policy:all_succeeded"],
    handler: Handler::Session(ping),
    ..Command::BASE
};

const ECHO: Command = Command {
    name: "echo",
    summary: "Answers what it is given.",
    group: Group::Connection,
    arity: 2,
    flags: FLAGS,
    categories: Categories::CONNECTION,
    arguments: &[Argument::new("message", ArgumentKind::String)],
    handler: Handler::Session(echo),
    ..Command::BASE
};

const SELECT: Command = Command {
    name: "select",
    summary: "Selects the database that the connection works on.",
    group: Group::Connection,
    arity: 2,
    flags: FLAGS,
    categories: Categories::CONNECTION,
    arguments: &[Argument::new("index", ArgumentKind::Integer)],
    handler: Handler::Session(select),
    ..Command::BASE
};

fn ping(cx: &mut SessionCx<'_, '_>) -> Outcome {
    match cx.args.len() {
        1 => cx.reply.pong(),
        2 => cx.reply.bulk(cx.arg(1)),
        _ => return Err(CommandError::Arity("ping".into()).into()),
    }
    Ok(())
}

fn echo(cx: &mut SessionCx<'_, '_>) -> Outcome {
    cx.reply.bulk(cx.arg(1));
    Ok(())
}

fn select(cx: &mut SessionCx<'_, '_>) -> Outcome {
    let index = parse_integer(cx.arg(1)).ok_or("ERR invalid DB index")?;
    match usize::try_from(index) {
        Ok(index) if index < cx.shared.keyspace.database_count() => cx.session.select(index),
        _ => return Err("ERR DB index is out of range".into()),
    }
    cx.reply.ok();
    Ok(())
}
