//! Commands about the server.

mod command;
mod config;
mod debug;
mod info;
mod lolwut;
mod memory;
mod other;
mod standing;

use crate::command::{
    Argument, ArgumentKind, Categories, Command, Find, Flags, Group, Handler, KeyFlags, KeySpec,
    Start,
};

/// The family.
pub const COMMANDS: &[&Command] = &[
    &COMMAND_ALL,
    &CONFIG,
    &INFO,
    &TIME,
    &DEBUG,
    &LOLWUT,
    &SHUTDOWN,
    &MEMORY,
    &standing::ROLE,
    &standing::REPLICAOF,
    &standing::SLAVEOF,
    &standing::LASTSAVE,
    &standing::SAVE,
    &standing::BGSAVE,
    &standing::BGREWRITEAOF,
    &standing::ACL,
    &standing::MODULE,
];

const COMMAND_ALL: Command = Command {
    name: "command",
    subcommands: &[
        &COMMAND_COUNT,
        &COMMAND_INFO,
        &COMMAND_DOCS,
        &COMMAND_GETKEYS,
        &COMMAND_GETKEYSANDFLAGS,
        &COMMAND_LIST,
        &COMMAND_HELP,
    ],
    summary: "Describes all commands.",
    since: "2.8.13",
    complexity: "O(N) where N is the total number of commands",
    group: Group::Server,
    arity: -1,
    flags: Flags::LOADING.union(Flags::STALE),
    categories: Categories::CONNECTION,
    tips: &["nondeterministic_output_order"],
    handler: Handler::Session(command::all),
    ..Command::BASE
};

const COMMAND_COUNT: Command = Command {
    name: "command|count",
    summary: "Counts the commands.",
    since: "2.8.13",
    group: Group::Server,
    arity: 2,
    flags: Flags::LOADING.union(Flags::STALE),
    categories: Categories::CONNECTION,
    handler: Handler::Session(command::count),
    ..Command::BASE
};

const COMMAND_INFO: Command = Command {
    name: "command|info",
    summary: "Describes commands.",
    since: "2.8.13",
    complexity: "O(N) where N is the number of commands to look up",
    group: Group::Server,
    arity: -2,
    flags: Flags::LOADING.union(Flags::STALE),
    categories: Categories::CONNECTION,
    arguments: &[Argument::new("command-name", ArgumentKind::String).optional().multiple()],
    tips: &["nondeterministic_output_order"],
    handler: Handler::Session(command::info),
    ..Command::BASE
};

const COMMAND_DOCS: Command = Command {
    name: "command|docs",
    summary: "Documents commands.",
    since: "7.0.0",
    complexity: "O(N) where N is the number of commands to look up",
    group: Group::Server,
    arity: -2,
    flags: Flags::LOADING.union(Flags::STALE),
    categories: Categories::CONNECTION,
    arguments: &[Argument::new("command-name", ArgumentKind::String).optional().multiple()],
    tips: &["nondeterministic_output_order"],
    handler: Handler::Session(command::docs),
    ..Command::BASE
};

const COMMAND_GETKEYS: Command = Command {
    name: "command|getkeys",
    summary: "Finds the keys of a full command.",
    since: "2.8.13",
    complexity: "O(N) where N is the number of arguments to the command",
    group: Group::Server,
    arity: -3,
    flags: Flags::LOADING.union(Flags::STALE),
    categories: Categories::CONNECTION,
    arguments: &[
        Argument::new("command", ArgumentKind::String),
        Argument::new("arg", ArgumentKind::String).optional().multiple(),
    ],
    handler: Handler::Session(command::getkeys),
    ..Command::BASE
};

const COMMAND_GETKEYSANDFLAGS: Command = Command {
    name: "command|getkeysandflags",
    summary: "Finds the keys of a full command and what is done with them.",
    since: "7.0.0",
    complexity: "O(N) where N is the number of arguments to the command",
    group: Group::Server,
    arity: -3,
    flags: Flags::LOADING.union(Flags::STALE),
    categories: Categories::CONNECTION,
    arguments: &[
        Argument::new("command", ArgumentKind::String),
        Argument::new("arg", ArgumentKind::String).optional().multiple(),
    ],
    handler: Handler::Session(command::getkeysandflags),
    ..Command::BASE
};

const COMMAND_LIST: Command = Command {
    name: "command|list",
    summary: "Lists the names of commands.",
    since: "7.0.0",
    complexity: "O(N) where N is the total number of commands",
    group: Group::Server,
    arity: -2,
    flags: Flags::LOADING.union(Flags::STALE),
    categories: Categories::CONNECTION,
    arguments: &[Argument::new(
        "filterby",
        ArgumentKind::OneOf(&[
            Argument::new("module-name", ArgumentKind::String).token("MODULE"),
            Argument::new("category", ArgumentKind::String).token("ACLCAT"),
            Argument::new("pattern", ArgumentKind::Pattern).token("PATTERN"),
        ]),
    )
    .token("FILTERBY")
    .optional()],
    tips: &["nondeterministic_output_order"],
    handler: Handler::Session(command::list),
    ..Command::BASE
};

const COMMAND_HELP: Command = Command {
    name: "command|help",
    summary: "Lists the subcommands.",
    since: "5.0.0",
    group: Group::Server,
    arity: 2,
    flags: Flags::LOADING.union(Flags::STALE),
    categories: Categories::CONNECTION,
    handler: Handler::Session(command::help),
    ..Command::BASE
};

const CONFIG: Command = Command {
    name: "config",
    summary: "Reads and changes the configuration.",
    since: "2.0.0",
    complexity: "Depends on subcommand.",
    group: Group::Server,
    arity: -2,
    flags: Flags::empty(),
    categories: Categories::empty(),
    subcommands: &[&CONFIG_GET, &CONFIG_HELP, &CONFIG_RESETSTAT, &CONFIG_REWRITE, &CONFIG_SET],
    ..Command::BASE
};

const CONFIG_GET: Command = Command {
    name: "config|get",
    summary: "Answers directives and their values.",
    since: "2.0.0",
    complexity: "O(N) when N is the number of configuration parameters provided",
    group: Group::Server,
    arity: -3,
    flags: Flags::ADMIN.union(Flags::LOADING).union(Flags::NOSCRIPT).union(Flags::STALE),
    categories: Categories::ADMIN.union(Categories::DANGEROUS),
    arguments: &[Argument::new("parameter", ArgumentKind::String).multiple()],
    handler: Handler::Session(config::get),
    ..Command::BASE
};

const CONFIG_SET: Command = Command {
    name: "config|set",
    summary: "Changes directives, all or none.",
    since: "2.0.0",
    complexity: "O(N) when N is the number of configuration parameters provided",
    group: Group::Server,
    arity: -4,
    flags: Flags::ADMIN.union(Flags::LOADING).union(Flags::NOSCRIPT).union(Flags::STALE),
    categories: Categories::ADMIN.union(Categories::DANGEROUS),
    arguments: &[Argument::new(
        "data",
        ArgumentKind::Block(&[
            Argument::new("parameter", ArgumentKind::String),
            Argument::new("value", ArgumentKind::String),
        ]),
    )
    .multiple()],
    tips: &["request_policy:all_nodes", "response_policy:all_succeeded"],
    handler: Handler::Session(config::set),
    ..Command::BASE
};

const CONFIG_RESETSTAT: Command = Command {
    name: "config|resetstat",
    summary: "Resets the statistics.",
    since: "2.0.0",
    group: Group::Server,
    arity: 2,
    flags: Flags::ADMIN.union(Flags::LOADING).union(Flags::NOSCRIPT).union(Flags::STALE),
    categories: Categories::ADMIN.union(Categories::DANGEROUS),
    tips: &["request_policy:all_nodes", "response_policy:all_succeeded"],
    handler: Handler::Session(config::resetstat),
    ..Command::BASE
};

const CONFIG_REWRITE: Command = Command {
    name: "config|rewrite",
    summary: "Writes the configuration back into its file.",
    since: "2.8.0",
    group: Group::Server,
    arity: 2,
    flags: Flags::ADMIN.union(Flags::LOADING).union(Flags::NOSCRIPT).union(Flags::STALE),
    categories: Categories::ADMIN.union(Categories::DANGEROUS),
    tips: &["request_policy:all_nodes", "response_policy:all_succeeded"],
    handler: Handler::Session(config::rewrite),
    ..Command::BASE
};

const CONFIG_HELP: Command = Command {
    name: "config|help",
    summary: "Lists the subcommands.",
    since: "5.0.0",
    group: Group::Server,
    arity: 2,
    flags: Flags::LOADING.union(Flags::STALE),
    categories: Categories::empty(),
    handler: Handler::Session(config::help),
    ..Command::BASE
};

const INFO: Command = Command {
    name: "info",
    summary: "Tells about the server and its statistics.",
    since: "1.0.0",
    group: Group::Server,
    arity: -1,
    flags: Flags::LOADING.union(Flags::STALE),
    categories: Categories::DANGEROUS,
    arguments: &[Argument::new("section", ArgumentKind::String).optional().multiple()],
    tips: &["nondeterministic_output", "request_policy:all_shards", "response_policy:special"],
    handler: Handler::Session(info::info),
    ..Command::BASE
};

const TIME: Command = Command {
    name: "time",
    summary: "Answers the time of the server.",
    since: "2.6.0",
    group: Group::Server,
    arity: 1,
    flags: Flags::FAST.union(Flags::LOADING).union(Flags::STALE),
    categories: Categories::empty(),
    tips: &["nondeterministic_output"],
    handler: Handler::Session(other::time),
    ..Command::BASE
};

const DEBUG: Command = Command {
    name: "debug",
    summary: "Commands for tests of clients and servers.",
    since: "1.0.0",
    complexity: "Depends on subcommand.",
    group: Group::Server,
    arity: -2,
    flags: Flags::ADMIN.union(Flags::LOADING).union(Flags::NOSCRIPT).union(Flags::STALE),
    categories: Categories::ADMIN.union(Categories::DANGEROUS),
    handler: Handler::Session(debug::debug),
    ..Command::BASE
};

const LOLWUT: Command = Command {
    name: "lolwut",
    summary: "Shows a picture and the version.",
    since: "5.0.0",
    group: Group::Server,
    arity: -1,
    flags: Flags::FAST.union(Flags::READONLY),
    categories: Categories::empty(),
    arguments: &[Argument::new("version", ArgumentKind::Integer).token("VERSION").optional()],
    handler: Handler::Session(lolwut::lolwut),
    ..Command::BASE
};

const SHUTDOWN: Command = Command {
    name: "shutdown",
    summary: "Stops the server.",
    since: "1.0.0",
    complexity: "O(N) when saving, where N is the total number of keys in all databases when saving data, otherwise O(1)",
    group: Group::Server,
    arity: -1,
    flags: Flags::ADMIN
        .union(Flags::ALLOW_BUSY)
        .union(Flags::LOADING)
        .union(Flags::NO_MULTI)
        .union(Flags::NOSCRIPT)
        .union(Flags::STALE),
    categories: Categories::ADMIN.union(Categories::DANGEROUS),
    arguments: &[Argument::new(
        "abort-selector",
        ArgumentKind::OneOf(&[
            Argument::new(
                "save-selector-block",
                ArgumentKind::Block(&[
                    Argument::new(
                        "save-selector",
                        ArgumentKind::OneOf(&[
                            Argument::flag("nosave", "NOSAVE"),
                            Argument::flag("save", "SAVE"),
                        ]),
                    )
                    .optional(),
                    Argument::flag("now", "NOW").optional().since("7.0.0"),
                    Argument::flag("force", "FORCE").optional().since("7.0.0"),
                    Argument::flag("safe", "SAFE").optional().since("9.0.0"),
                    Argument::flag("failover", "FAILOVER").optional().since("9.0.0"),
                ]),
            ),
            Argument::flag("abort", "ABORT").since("7.0.0"),
        ]),
    )
    .optional()],
    handler: Handler::Session(other::shutdown),
    ..Command::BASE
};

const MEMORY: Command = Command {
    name: "memory",
    summary: "Tells about memory.",
    since: "4.0.0",
    complexity: "Depends on subcommand.",
    group: Group::Server,
    arity: -2,
    flags: Flags::empty(),
    categories: Categories::empty(),
    subcommands: &[
        &MEMORY_DOCTOR,
        &MEMORY_HELP,
        &MEMORY_MALLOC_STATS,
        &MEMORY_PURGE,
        &MEMORY_STATS,
        &MEMORY_USAGE,
    ],
    ..Command::BASE
};

const MEMORY_DOCTOR: Command = Command {
    name: "memory|doctor",
    summary: "Judges the use of memory in words.",
    since: "4.0.0",
    group: Group::Server,
    arity: 2,
    flags: Flags::empty(),
    categories: Categories::empty(),
    tips: &["nondeterministic_output", "request_policy:all_shards", "response_policy:special"],
    handler: Handler::Session(memory::doctor),
    ..Command::BASE
};

const MEMORY_HELP: Command = Command {
    name: "memory|help",
    summary: "Lists the subcommands.",
    since: "4.0.0",
    group: Group::Server,
    arity: 2,
    flags: Flags::LOADING.union(Flags::STALE),
    categories: Categories::empty(),
    handler: Handler::Session(memory::help),
    ..Command::BASE
};

const MEMORY_MALLOC_STATS: Command = Command {
    name: "memory|malloc-stats",
    summary: "Answers what the allocator reports.",
    since: "4.0.0",
    complexity: "Depends on how much memory is allocated, could be slow",
    group: Group::Server,
    arity: 2,
    flags: Flags::LOADING,
    categories: Categories::empty(),
    tips: &["nondeterministic_output", "request_policy:all_shards", "response_policy:special"],
    handler: Handler::Session(memory::malloc_stats),
    ..Command::BASE
};

const MEMORY_PURGE: Command = Command {
    name: "memory|purge",
    summary: "Gives memory that is not used back to the system.",
    since: "4.0.0",
    complexity: "Depends on how much memory is allocated, could be slow",
    group: Group::Server,
    arity: 2,
    flags: Flags::LOADING,
    categories: Categories::empty(),
    tips: &["request_policy:all_shards", "response_policy:all_succeeded"],
    handler: Handler::Session(memory::purge),
    ..Command::BASE
};

const MEMORY_STATS: Command = Command {
    name: "memory|stats",
    summary: "Answers how memory is used.",
    since: "4.0.0",
    group: Group::Server,
    arity: 2,
    flags: Flags::empty(),
    categories: Categories::empty(),
    tips: &["nondeterministic_output", "request_policy:all_shards", "response_policy:special"],
    handler: Handler::Session(memory::stats),
    ..Command::BASE
};

const MEMORY_USAGE: Command = Command {
    name: "memory|usage",
    summary: "Answers the bytes that a key takes.",
    since: "4.0.0",
    complexity: "O(N) where N is the number of samples.",
    group: Group::Server,
    arity: -3,
    flags: Flags::READONLY,
    categories: Categories::empty(),
    keys: &[KeySpec {
        flags: KeyFlags::RO,
        start: Start::Index(2),
        find: Find::Range { last: 0, step: 1, limit: 0 },
        notes: None,
    }],
    arguments: &[
        Argument::new("key", ArgumentKind::Key(0)),
        Argument::new("count", ArgumentKind::Integer).token("SAMPLES").optional(),
    ],
    handler: Handler::Keyed(memory::usage),
    ..Command::BASE
};
