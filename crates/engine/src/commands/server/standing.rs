//! What libraries and monitors ask about parts that there are not: replicas, files, users, modules. What is true of a
//! server without them is answered; what would need them is refused with the reason.

use crate::command::{Argument, ArgumentKind, Categories, Command, Flags, Group, Handler, Outcome};
use crate::commands::options::is;
use crate::context::SessionCx;
use crate::error::CommandError;

const ASKS: Flags = Flags::NOSCRIPT.union(Flags::LOADING).union(Flags::STALE);
const SAVES: Flags = Flags::ADMIN.union(Flags::NOSCRIPT).union(Flags::NO_ASYNC_LOADING);
const DANGEROUS_ADMIN: Categories = Categories::ADMIN.union(Categories::DANGEROUS);

pub(super) const ROLE: Command = Command {
    name: "role",
    summary: "Answers the part that the server plays in replication.",
    since: "2.8.12",
    group: Group::Server,
    arity: 1,
    flags: ASKS.union(Flags::FAST),
    categories: DANGEROUS_ADMIN,
    handler: Handler::Session(role),
    ..Command::BASE
};

pub(super) const REPLICAOF: Command = Command {
    name: "replicaof",
    summary: "Makes the server no replica, which it is not anyhow.",
    since: "5.0.0",
    group: Group::Server,
    arity: 3,
    flags: SAVES.union(Flags::STALE),
    categories: DANGEROUS_ADMIN,
    arguments: REPLICAOF_ARGUMENTS,
    handler: Handler::Session(replicaof),
    ..Command::BASE
};

pub(super) const SLAVEOF: Command = Command {
    name: "slaveof",
    since: "1.0.0",
    deprecated: Some(("5.0.0", "`REPLICAOF`")),
    ..REPLICAOF
};

const REPLICAOF_ARGUMENTS: &[Argument] = &[Argument::new(
    "args",
    ArgumentKind::OneOf(&[
        Argument::new(
            "host-port",
            ArgumentKind::Block(&[
                Argument::new("host", ArgumentKind::String),
                Argument::new("port", ArgumentKind::Integer),
            ]),
        ),
        Argument::new(
            "no-one",
            ArgumentKind::Block(&[Argument::flag("no", "NO"), Argument::flag("one", "ONE")]),
        ),
    ]),
)];

pub(super) const LASTSAVE: Command = Command {
    name: "lastsave",
    summary: "Answers the Unix time of the last save: that of the start, when nothing was to be lost.",
    since: "1.0.0",
    group: Group::Server,
    arity: 1,
    flags: Flags::LOADING.union(Flags::STALE).union(Flags::FAST),
    categories: DANGEROUS_ADMIN,
    tips: &["nondeterministic_output"],
    handler: Handler::Session(lastsave),
    ..Command::BASE
};

pub(super) const SAVE: Command = Command {
    name: "save",
    summary: "Is refused: there are no snapshots.",
    since: "1.0.0",
    complexity: "O(N) where N is the total number of keys in all databases",
    group: Group::Server,
    arity: 1,
    flags: SAVES.union(Flags::NO_MULTI),
    categories: DANGEROUS_ADMIN,
    handler: Handler::Session(save),
    ..Command::BASE
};

pub(super) const BGSAVE: Command = Command {
    name: "bgsave",
    summary: "Is refused: there are no snapshots.",
    since: "1.0.0",
    group: Group::Server,
    arity: -1,
    flags: SAVES,
    categories: DANGEROUS_ADMIN,
    arguments: &[Argument::new(
        "operation",
        ArgumentKind::OneOf(&[
            Argument::flag("schedule", "SCHEDULE").since("3.2.2"),
            Argument::flag("cancel", "CANCEL").since("8.1.0"),
        ]),
    )
    .optional()],
    history: &[("3.2.2", "Added the `SCHEDULE` option."), ("8.1.0", "Added the `CANCEL` option.")],
    handler: Handler::Session(bgsave),
    ..Command::BASE
};

pub(super) const BGREWRITEAOF: Command = Command {
    name: "bgrewriteaof",
    summary: "Is refused: there is no append-only log.",
    since: "1.0.0",
    group: Group::Server,
    arity: 1,
    flags: SAVES,
    categories: DANGEROUS_ADMIN,
    handler: Handler::Session(bgrewriteaof),
    ..Command::BASE
};

pub(super) const ACL: Command = Command {
    name: "acl",
    summary: "Tells about users, of which there is one.",
    since: "6.0.0",
    complexity: "Depends on subcommand.",
    group: Group::Server,
    arity: -2,
    subcommands: &[&ACL_HELP, &ACL_USERS, &ACL_WHOAMI],
    ..Command::BASE
};

const ACL_HELP: Command = Command {
    name: "acl|help",
    summary: "Lists the subcommands.",
    since: "6.0.0",
    group: Group::Server,
    arity: 2,
    flags: Flags::LOADING.union(Flags::STALE),
    handler: Handler::Session(acl_help),
    ..Command::BASE
};

const ACL_USERS: Command = Command {
    name: "acl|users",
    summary: "Lists the users.",
    since: "6.0.0",
    complexity: "O(N). Where N is the number of configured users.",
    group: Group::Server,
    arity: 2,
    flags: ASKS.union(Flags::ADMIN),
    categories: DANGEROUS_ADMIN,
    handler: Handler::Session(acl_users),
    ..Command::BASE
};

const ACL_WHOAMI: Command = Command {
    name: "acl|whoami",
    summary: "Answers the user of this connection.",
    since: "6.0.0",
    group: Group::Server,
    arity: 2,
    flags: ASKS,
    handler: Handler::Session(acl_whoami),
    ..Command::BASE
};

pub(super) const MODULE: Command = Command {
    name: "module",
    summary: "Tells about modules, of which there are none.",
    since: "4.0.0",
    complexity: "Depends on subcommand.",
    group: Group::Server,
    arity: -2,
    subcommands: &[&MODULE_HELP, &MODULE_LIST],
    ..Command::BASE
};

const MODULE_HELP: Command = Command {
    name: "module|help",
    summary: "Lists the subcommands.",
    since: "5.0.0",
    group: Group::Server,
    arity: 2,
    flags: Flags::LOADING.union(Flags::STALE),
    handler: Handler::Session(module_help),
    ..Command::BASE
};

const MODULE_LIST: Command = Command {
    name: "module|list",
    summary: "Lists the modules.",
    since: "4.0.0",
    complexity: "O(N) where N is the number of loaded modules.",
    group: Group::Server,
    arity: 2,
    flags: Flags::ADMIN.union(Flags::NOSCRIPT),
    categories: DANGEROUS_ADMIN,
    tips: &["nondeterministic_output_order"],
    handler: Handler::Session(module_list),
    ..Command::BASE
};

/// A primary with no replica, at offset 0 as one of Valkey's that never had any.
fn role(cx: &mut SessionCx<'_, '_>) -> Outcome {
    cx.reply.array(3);
    cx.reply.bulk("master");
    cx.reply.integer(0);
    cx.reply.array(0);
    Ok(())
}

fn replicaof(cx: &mut SessionCx<'_, '_>) -> Outcome {
    if is(cx.arg(1), "NO") && is(cx.arg(2), "ONE") {
        cx.reply.ok();
        return Ok(());
    }
    Err(refused(cx, "there is no replication"))
}

fn lastsave(cx: &mut SessionCx<'_, '_>) -> Outcome {
    cx.reply.integer((cx.shared.started_us / 1_000_000) as i64);
    Ok(())
}

fn save(cx: &mut SessionCx<'_, '_>) -> Outcome {
    Err(refused(cx, "there are no snapshots"))
}

fn bgsave(cx: &mut SessionCx<'_, '_>) -> Outcome {
    match cx.args.len() {
        1 => save(cx),
        2 if is(cx.arg(1), "SCHEDULE") => save(cx),
        2 if is(cx.arg(1), "CANCEL") => {
            Err("ERR Background saving is currently not in progress or scheduled".into())
        }
        _ => Err(CommandError::Syntax.into()),
    }
}

fn bgrewriteaof(cx: &mut SessionCx<'_, '_>) -> Outcome {
    Err(refused(cx, "there is no append-only log"))
}

/// The error of a command that would need what there is not, in the words of the configuration's errors.
fn refused(cx: &SessionCx<'_, '_>, missing: &str) -> Box<crate::command::Stop> {
    let name = cx.command.name.to_uppercase();
    CommandError::err(format_args!("{name} is not supported: {missing}")).into()
}

fn acl_users(cx: &mut SessionCx<'_, '_>) -> Outcome {
    cx.reply.array(1);
    cx.reply.bulk("default");
    Ok(())
}

fn acl_whoami(cx: &mut SessionCx<'_, '_>) -> Outcome {
    cx.reply.bulk("default");
    Ok(())
}

fn acl_help(cx: &mut SessionCx<'_, '_>) -> Outcome {
    let subcommands =
        [("USERS", "The one user there is."), ("WHOAMI", "The user of this connection.")];
    crate::commands::help::reply(cx.reply, "ACL", &subcommands);
    Ok(())
}

fn module_list(cx: &mut SessionCx<'_, '_>) -> Outcome {
    cx.reply.array(0);
    Ok(())
}

fn module_help(cx: &mut SessionCx<'_, '_>) -> Outcome {
    crate::commands::help::reply(cx.reply, "MODULE", &[("LIST", "No module: there are none.")]);
    Ok(())
}
