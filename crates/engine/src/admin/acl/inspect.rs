//! Answers about users and categories.

use std::collections::BTreeSet;

use tidemill_resp::encode::ReplyBuffer;
use tidemill_resp::request::OwnedArguments;

use crate::access::outcome::Outcome;
use crate::access::session_context::SessionCx;
use crate::acl::{Call, Selector, User};
use crate::command::{Categories, Command, CommandId};
use crate::error::CommandError;
use crate::memory::Room;
use crate::shared::Shared;

pub(super) fn whoami(cx: &mut SessionCx<'_, '_>) -> Outcome {
    cx.reply.bulk(cx.session.user().name());
    Ok(())
}

pub(super) fn users(cx: &mut SessionCx<'_, '_>) -> Outcome {
    let users = cx.shared.users.all();
    cx.reply.array(users.len());
    users.iter().for_each(|user| cx.reply.bulk(user.name()));
    Ok(())
}

/// Ok if there is memory for the text of a user's rules, which is put together from texts of its
/// parts.
pub(super) fn check_room(shared: &Shared, user: &User) -> Result<(), CommandError> {
    Room::of(shared).check(6 * user.text_bytes() as u64)
}

pub(super) fn list(cx: &mut SessionCx<'_, '_>) -> Outcome {
    let users = cx.shared.users.all();
    cx.reply.array(users.len());
    for user in users {
        check_room(cx.shared, &user)?;
        cx.reply.bulk([b"user ", &*user.describe()].concat());
    }
    Ok(())
}

pub(super) fn getuser(cx: &mut SessionCx<'_, '_>) -> Outcome {
    let Some(account) = cx.shared.users.find(cx.arg(2)) else {
        cx.reply.null();
        return Ok(());
    };
    let user = account.user();
    check_room(cx.shared, &user)?;
    let reply = &mut *cx.reply;
    reply.map(7);
    reply.bulk("flags");
    reply.set(1 + usize::from(user.needs_no_password()));
    reply.bulk(if user.is_on() { "on" } else { "off" });
    if user.needs_no_password() {
        reply.bulk("nopass");
    }
    reply.bulk("passwords");
    reply.array(user.password_digits().len());
    user.password_digits().for_each(|digits| reply.bulk(digits));
    let (own, others) = user.selectors().split_first().expect("a user has rules of its own");
    reply_selector(reply, own);
    reply.bulk("selectors");
    reply.array(others.len());
    for selector in others {
        reply.map(4);
        reply_selector(reply, selector);
    }
    Ok(())
}

/// Four fields of a map.
fn reply_selector(reply: &mut ReplyBuffer, selector: &Selector) {
    reply.bulk("commands");
    reply.bulk(selector.commands_text());
    reply.bulk("keys");
    reply.bulk(selector.keys_text());
    reply.bulk("channels");
    reply.bulk(selector.channels_text());
    reply.bulk("databases");
    reply.bulk(selector.databases_text());
}

pub(super) fn cat(cx: &mut SessionCx<'_, '_>) -> Outcome {
    match cx.args.len() {
        2 => {
            let names = Categories::all_names();
            cx.reply.array(names.len());
            names.for_each(|name| cx.reply.bulk(name));
        }
        3 => {
            let name = cx.arg(2);
            let category = Categories::named(name)
                .ok_or_else(|| CommandError::quoting("ERR Unknown category '", name, "'"))?;
            let commands: BTreeSet<&str> = cx
                .shared
                .commands
                .iter()
                .filter(|(_, command)| command.all_categories().contains(category))
                .map(|(_, command)| command.name)
                .collect();
            cx.reply.array(commands.len());
            commands.iter().for_each(|name| cx.reply.bulk(name));
        }
        _ => return Err(CommandError::subcommand_syntax("ACL", cx.arg(1)).into()),
    }
    Ok(())
}

pub(super) fn dryrun(cx: &mut SessionCx<'_, '_>) -> Outcome {
    let name = cx.arg(2);
    let account = cx
        .shared
        .users
        .find(name)
        .ok_or_else(|| CommandError::quoting("ERR User '", name, "' not found"))?;
    let words: Vec<&[u8]> = cx.args.iter().skip(3).collect();
    let (id, command) = called(cx, &words)?;
    if !command.takes(words.len()) {
        return Err(CommandError::Arity(command.name.into()).into());
    }
    let owned = OwnedArguments::new(words.iter().copied());
    let view = owned.view();
    let database_count = cx.shared.keyspace.database_count();
    let call = Call::new((id, command), &view, cx.session.database, database_count);
    let user = account.user();
    match user.check(&call) {
        Ok(()) => cx.reply.ok(),
        Err(denial) => {
            let argument = view.get(denial.argument);
            cx.reply.bulk(denial.explain(user.name(), command, argument));
        }
    }
    Ok(())
}

/// The command or subcommand that words call.
fn called(
    cx: &SessionCx<'_, '_>,
    words: &[&[u8]],
) -> Result<(CommandId, &'static Command), CommandError> {
    let table = cx.shared.commands;
    let unknown = || CommandError::quoting("ERR Command '", words[0], "' not found");
    let id = table.called(words[0]).ok_or_else(unknown)?;
    let command = table.command(id);
    let id = match words.get(1) {
        Some(sub) if !command.subcommands.is_empty() => {
            table.find_subcommand(command, sub).ok_or_else(unknown)?
        }
        _ => id,
    };
    Ok((id, table.command(id)))
}

pub(super) fn help(cx: &mut SessionCx<'_, '_>) -> Outcome {
    crate::access::help::reply(
        cx.reply,
        "ACL",
        &[
            ("CAT [<category>]", "Categories of commands, or the commands of one."),
            ("DELUSER <username> [<username> ...]", "Deletes users."),
            ("DRYRUN <username> <command> [<arg> ...]", "Whether a user may call a command."),
            ("GETUSER <username>", "A user by fields."),
            ("GENPASS [<bits>]", "A random password, of 256 bits by default."),
            ("LIST", "All users by the rules that make them."),
            ("LOAD", "Replaces all users by those of the file of users."),
            ("LOG [<count> | RESET]", "What was denied lately."),
            ("SAVE", "Writes all users into the file of users."),
            ("SETUSER <username> <rule> [<rule> ...]", "Makes or changes a user."),
            ("USERS", "Names of all users."),
            ("WHOAMI", "The user of this connection."),
        ],
    );
    Ok(())
}
