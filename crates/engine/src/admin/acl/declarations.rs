//! Declarations of `ACL` and its subcommands: a row each, then what differs from the family.

use crate::command::prelude::*;

const SERVER: Command =
    Command::session(Group::Server, Categories::empty()).flags(&[NOSCRIPT, LOADING, STALE]);

/// Commands for administrators.
const ADMINISTRATIVE: Command =
    SERVER.more_flags(&[ADMIN]).categories(&[Categories::ADMIN, Categories::DANGEROUS]);

/// Commands that change users, or where they are kept, on all nodes.
const CHANGE: Command =
    ADMINISTRATIVE.tips(&["request_policy:all_nodes", "response_policy:all_succeeded"]);

pub(super) const ACL: Command = SERVER.container(
    "acl",
    "6.0.0",
    "Commands about users and what they may do.",
    &[
        &ACL_CAT,
        &ACL_DELUSER,
        &ACL_DRYRUN,
        &ACL_GENPASS,
        &ACL_GETUSER,
        &ACL_HELP,
        &ACL_LIST,
        &ACL_LOAD,
        &ACL_LOG,
        &ACL_SAVE,
        &ACL_SETUSER,
        &ACL_USERS,
        &ACL_WHOAMI,
    ],
);

pub(super) const ACL_CAT: Command = SERVER
    .command("acl|cat", -2, "6.0.0", "Lists the categories of commands, or those of one.")
    .complexity("O(1) since the categories and commands are a fixed set.")
    .arguments(&[string("category").optional()]);

pub(super) const ACL_DELUSER: Command = CHANGE
    .command("acl|deluser", -3, "6.0.0", "Deletes users and closes their connections.")
    .complexity("O(1) amortized time considering the typical user.")
    .arguments(&[string("username").multiple()]);

pub(super) const ACL_DRYRUN: Command = ADMINISTRATIVE
    .command("acl|dryrun", -4, "7.0.0", "Tells whether a user may call a command, and why not.")
    .complexity("O(1).")
    .arguments(&[string("username"), string("command"), string("arg").optional().multiple()]);

pub(super) const ACL_GENPASS: Command = SERVER
    .command("acl|genpass", -2, "6.0.0", "Answers a random password.")
    .arguments(&[integer("bits").optional()]);

pub(super) const ACL_GETUSER: Command = ADMINISTRATIVE
    .command("acl|getuser", 3, "6.0.0", "Describes a user by fields.")
    .complexity(
        "O(N). Where N is the number of password, command and pattern rules that the user has.",
    )
    .history(&[
        ("6.2.0", "Added Pub/Sub channel patterns."),
        (
            "7.0.0",
            "Added selectors and changed the format of key and channel patterns from a list to \
             their rule representation.",
        ),
        ("9.1.0", "Added database permission rules."),
    ])
    .arguments(&[string("username")]);

pub(super) const ACL_HELP: Command = SERVER.help("acl|help", "6.0.0");

pub(super) const ACL_LIST: Command = ADMINISTRATIVE
    .command("acl|list", 2, "6.0.0", "Describes all users by the rules that make them.")
    .complexity("O(N). Where N is the number of configured users.");

pub(super) const ACL_LOAD: Command = ADMINISTRATIVE
    .command("acl|load", 2, "6.0.0", "Replaces all users by those of the file of users.")
    .complexity("O(N). Where N is the number of configured users.");

pub(super) const ACL_LOG: Command = ADMINISTRATIVE
    .command("acl|log", -2, "6.0.0", "Lists what was denied to users lately.")
    .complexity("O(N) with N being the number of entries shown.")
    .history(&[("7.2.0", "Added entry ID, timestamp created, and timestamp last updated.")])
    .arguments(&[one_of("operation", &[integer("count"), word("RESET")]).optional()]);

pub(super) const ACL_SAVE: Command = CHANGE
    .command("acl|save", 2, "6.0.0", "Writes all users into the file of users.")
    .complexity("O(N). Where N is the number of configured users.");

pub(super) const ACL_SETUSER: Command = CHANGE
    .command("acl|setuser", -3, "6.0.0", "Makes or changes a user by rules.")
    .more_flags(&[REGISTERS])
    .complexity("O(N). Where N is the number of rules provided.")
    .history(&[
        ("6.2.0", "Added Pub/Sub channel patterns."),
        ("7.0.0", "Added selectors and key based permissions."),
        ("9.1.0", "Added database permission rules."),
    ])
    .arguments(&[string("username"), string("rule").optional().multiple()]);

pub(super) const ACL_USERS: Command = ADMINISTRATIVE
    .command("acl|users", 2, "6.0.0", "Lists the names of all users.")
    .complexity("O(N). Where N is the number of configured users.");

pub(super) const ACL_WHOAMI: Command =
    SERVER.command("acl|whoami", 2, "6.0.0", "Answers the user of this connection.");
