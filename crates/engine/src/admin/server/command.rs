//! `COMMAND`: what the declarations say.

use tidemill_resp::encode::ReplyBuffer;
use tidemill_resp::request::ArgumentView;

use crate::access::options::is;
use crate::access::outcome::Outcome;
use crate::access::session_context::SessionCx;
use crate::command::{
    Argument, Command, CommandTable, Find, Flags, KeyFlags, KeyPositions, KeySpec, Start,
};
use crate::error::CommandError;
use crate::glob;

fn reply_key_spec(reply: &mut ReplyBuffer, spec: &KeySpec) {
    reply.map(if spec.notes.is_some() { 4 } else { 3 });
    if let Some(notes) = spec.notes {
        reply.bulk("notes");
        reply.bulk(notes);
    }
    reply.bulk("flags");
    let names = spec.flags.names();
    reply.set(names.len());
    names.iter().for_each(|name| reply.simple_string(name));
    reply.bulk("begin_search");
    match spec.start {
        Start::Index(index) => {
            reply_typed(reply, "index", &[("index", index as i64)]);
        }
        Start::Keyword(word, from) => {
            reply.map(2);
            reply.bulk("type");
            reply.bulk("keyword");
            reply.bulk("spec");
            reply.map(2);
            reply.bulk("keyword");
            reply.bulk(word);
            reply.bulk("startfrom");
            reply.integer(i64::from(from));
        }
        Start::Unknown => reply_typed(reply, "unknown", &[]),
    }
    reply.bulk("find_keys");
    match spec.find {
        Find::Range { last, step, limit } => reply_typed(
            reply,
            "range",
            &[("lastkey", i64::from(last)), ("keystep", step as i64), ("limit", limit as i64)],
        ),
        Find::Count { count, first, step } => reply_typed(
            reply,
            "keynum",
            &[("keynumidx", count as i64), ("firstkey", first as i64), ("keystep", step as i64)],
        ),
        Find::Unknown => reply_typed(reply, "unknown", &[]),
    }
}

fn reply_typed(reply: &mut ReplyBuffer, kind: &str, fields: &[(&str, i64)]) {
    reply.map(2);
    reply.bulk("type");
    reply.bulk(kind);
    reply.bulk("spec");
    reply.map(fields.len());
    for (name, value) in fields {
        reply.bulk(name);
        reply.integer(*value);
    }
}

fn reply_info(reply: &mut ReplyBuffer, command: &Command) {
    reply.array(10);
    reply.bulk(command.name);
    reply.integer(i64::from(command.arity));
    let flags = command.flags.names();
    reply.set(flags.len());
    flags.iter().for_each(|name| reply.simple_string(name));
    let (first, last, step) = command.legacy_range();
    reply.integer(first);
    reply.integer(last);
    reply.integer(step);
    let categories = command.category_names();
    reply.set(categories.len());
    categories.iter().for_each(|name| reply.simple_string(name));
    reply.set(command.tips.len());
    command.tips.iter().for_each(|tip| reply.bulk(tip));
    reply.set(command.keys.len());
    command.keys.iter().for_each(|spec| reply_key_spec(reply, spec));
    reply.array(command.subcommands.len());
    command.subcommands.iter().for_each(|sub| reply_info(reply, sub));
}

/// The commands that clients can call and that are no subcommands.
fn top_level(table: &CommandTable) -> impl Iterator<Item = &'static Command> {
    table.callable().map(|(_, command)| command).filter(|command| !command.name.contains('|'))
}

/// A command, or `container|subcommand`, by the name that clients call it by.
fn find(table: &CommandTable, name: &[u8]) -> Option<&'static Command> {
    table.called_in_full(name).map(|id| table.command(id))
}

pub(super) fn all(cx: &mut SessionCx<'_, '_>) -> Outcome {
    let commands: Vec<_> = top_level(cx.shared.commands).collect();
    cx.reply.array(commands.len());
    commands.iter().for_each(|command| reply_info(cx.reply, command));
    Ok(())
}

pub(super) fn count(cx: &mut SessionCx<'_, '_>) -> Outcome {
    let count = top_level(cx.shared.commands).count();
    cx.reply.integer(count as i64);
    Ok(())
}

pub(super) fn info(cx: &mut SessionCx<'_, '_>) -> Outcome {
    if cx.args.len() == 2 {
        return all(cx);
    }
    cx.reply.array(cx.args.len() - 2);
    for name in cx.args.iter().skip(2) {
        match find(cx.shared.commands, name) {
            Some(command) => reply_info(cx.reply, command),
            None => cx.reply.null(),
        }
    }
    Ok(())
}

fn reply_argument(reply: &mut ReplyBuffer, argument: &Argument) {
    let (kind, children) = argument.kind_name();
    let flags: Vec<&str> = argument.flag_names().collect();
    let texts = [
        ("token", argument.token),
        ("summary", argument.summary),
        ("since", argument.since),
        ("deprecated_since", argument.deprecated_since),
    ];
    let fields = 2
        + usize::from(children.is_empty())
        + usize::from(argument.key_spec.is_some())
        + texts.iter().filter(|(_, text)| text.is_some()).count()
        + usize::from(!flags.is_empty())
        + usize::from(!children.is_empty());
    reply.map(fields);
    reply.bulk("name");
    reply.bulk(&*argument.shown_name());
    reply.bulk("type");
    reply.bulk(kind);
    if children.is_empty() {
        reply.bulk("display_text");
        reply.bulk(argument.display.unwrap_or(&argument.shown_name()));
    }
    if let Some(index) = argument.key_spec {
        reply.bulk("key_spec_index");
        reply.integer(index as i64);
    }
    for (name, text) in texts {
        if let Some(text) = text {
            reply.bulk(name);
            reply.bulk(text);
        }
    }
    if !flags.is_empty() {
        reply.bulk("flags");
        reply.array(flags.len());
        flags.iter().for_each(|flag| reply.simple_string(flag));
    }
    if !children.is_empty() {
        reply.bulk("arguments");
        reply.array(children.len());
        children.iter().for_each(|child| reply_argument(reply, child));
    }
}

fn reply_docs(reply: &mut ReplyBuffer, command: &Command) {
    let fields = 3
        + usize::from(!command.complexity.is_empty())
        + if command.deprecated.is_some() { 3 } else { 0 }
        + usize::from(command.flags.contains(Flags::SYSTEM))
        + usize::from(!command.history.is_empty())
        + usize::from(!command.arguments.is_empty())
        + usize::from(!command.subcommands.is_empty());
    reply.bulk(command.name);
    reply.map(fields);
    for (name, value) in
        [("summary", command.summary), ("since", command.since), ("group", command.group.name())]
    {
        reply.bulk(name);
        reply.bulk(value);
    }
    if !command.complexity.is_empty() {
        reply.bulk("complexity");
        reply.bulk(command.complexity);
    }
    if command.flags.contains(Flags::SYSTEM) {
        reply.bulk("doc_flags");
        reply.set(1);
        reply.simple_string("syscmd");
    }
    if let Some((since, replacement)) = command.deprecated {
        reply.bulk("doc_flags");
        reply.set(1);
        reply.simple_string("deprecated");
        reply.bulk("deprecated_since");
        reply.bulk(since);
        reply.bulk("replaced_by");
        reply.bulk(replacement);
    }
    if !command.history.is_empty() {
        reply.bulk("history");
        reply.set(command.history.len());
        for (version, change) in command.history {
            reply.array(2);
            reply.bulk(version);
            reply.bulk(change);
        }
    }
    if !command.arguments.is_empty() {
        reply.bulk("arguments");
        reply.array(command.arguments.len());
        command.arguments.iter().for_each(|argument| reply_argument(reply, argument));
    }
    if !command.subcommands.is_empty() {
        reply.bulk("subcommands");
        reply.map(command.subcommands.len());
        command.subcommands.iter().for_each(|sub| reply_docs(reply, sub));
    }
}

pub(super) fn docs(cx: &mut SessionCx<'_, '_>) -> Outcome {
    let commands: Vec<&Command> = if cx.args.len() == 2 {
        top_level(cx.shared.commands).collect()
    } else {
        cx.args.iter().skip(2).filter_map(|name| find(cx.shared.commands, name)).collect()
    };
    cx.reply.map(commands.len());
    commands.iter().for_each(|command| reply_docs(cx.reply, command));
    Ok(())
}

/// The command that the arguments from the third on call, those arguments, and the positions of its
/// keys.
fn called<'s>(
    cx: &SessionCx<'_, 's>,
) -> Result<(&'static Command, Vec<&'s [u8]>, KeyPositions), CommandError> {
    let words: Vec<&[u8]> = cx.args.iter().skip(2).collect();
    let table = cx.shared.commands;
    let invalid = || CommandError::from("ERR Invalid command specified");
    let name = words.first().ok_or_else(invalid)?;
    let mut command = table.called(name).map(|id| table.command(id)).ok_or_else(invalid)?;
    if let (false, Some(sub)) = (command.subcommands.is_empty(), words.get(1)) {
        let id = table.find_subcommand(command, sub).ok_or_else(invalid)?;
        command = table.command(id);
    }
    if command.keys.iter().all(|spec| spec.flags.contains(KeyFlags::NOT_KEY)) {
        return Err("ERR The command has no key arguments".into());
    }
    if !command.takes(words.len()) {
        return Err("ERR Invalid number of arguments specified for command".into());
    }
    let owned = tidemill_resp::request::OwnedArguments::new(words.iter().copied());
    let view: ArgumentView<'_> = owned.view();
    let positions = command.key_positions(&view).unwrap_or_default();
    let is_short = command.keys.iter().any(|spec| spec.may_be_none && !spec.begins_in(&view));
    if (positions.is_empty() || is_short) && !command.flags.contains(Flags::NO_MANDATORY_KEYS) {
        return Err("ERR Invalid arguments specified for command".into());
    }
    Ok((command, words, positions))
}

pub(super) fn getkeys(cx: &mut SessionCx<'_, '_>) -> Outcome {
    let (_, words, positions) = called(cx)?;
    cx.reply.array(positions.len());
    positions.iter().for_each(|&position| cx.reply.bulk(words[position]));
    Ok(())
}

pub(super) fn getkeysandflags(cx: &mut SessionCx<'_, '_>) -> Outcome {
    let (command, words, _) = called(cx)?;
    let owned = tidemill_resp::request::OwnedArguments::new(words.iter().copied());
    // The positions were found, so the arguments fit.
    let accesses = command.key_accesses(&owned.view()).unwrap_or_default();
    cx.reply.array(accesses.len());
    for access in accesses {
        let names = access.flags.names();
        cx.reply.array(2);
        cx.reply.bulk(words[access.position]);
        cx.reply.set(names.len());
        names.iter().for_each(|name| cx.reply.simple_string(name));
    }
    Ok(())
}

pub(super) fn list(cx: &mut SessionCx<'_, '_>) -> Outcome {
    let accepts: Box<dyn Fn(&Command) -> bool> = match cx.args.len() {
        2 => Box::new(|_| true),
        5 if is(cx.arg(2), "FILTERBY") => {
            let value = cx.arg(4);
            match cx.arg(3) {
                by if is(by, "MODULE") => Box::new(|_| false),
                by if is(by, "ACLCAT") => {
                    let name = format!("@{}", String::from_utf8_lossy(value).to_lowercase());
                    Box::new(move |command| command.category_names().contains(&name.as_str()))
                }
                by if is(by, "PATTERN") => {
                    Box::new(move |command| glob::matches(value, command.name.as_bytes(), true))
                }
                _ => return Err(CommandError::Syntax.into()),
            }
        }
        _ => return Err(CommandError::Syntax.into()),
    };
    let names: Vec<&str> = cx
        .shared
        .commands
        .callable()
        .map(|(_, command)| command)
        .filter(|command| accepts(command))
        .map(|command| command.name)
        .collect();
    cx.reply.array(names.len());
    names.iter().for_each(|name| cx.reply.bulk(name));
    Ok(())
}

pub(super) fn help(cx: &mut SessionCx<'_, '_>) -> Outcome {
    crate::access::help::reply(
        cx.reply,
        "COMMAND",
        &[
            ("(no subcommand)", "Describes all commands."),
            ("COUNT", "How many commands there are."),
            ("DOCS [<command> ...]", "Documentation of commands."),
            ("GETKEYS <command> ...", "The keys of a full command."),
            (
                "GETKEYSANDFLAGS <command> ...",
                "The keys of a full command and what is done with them.",
            ),
            ("INFO [<command> ...]", "Descriptions of commands."),
            ("LIST [FILTERBY (MODULE|ACLCAT|PATTERN) <value>]", "Names of commands."),
        ],
    );
    Ok(())
}
