//! Declarations of the commands about the server: a row each, then what differs from the family.

use crate::command::prelude::*;

const SERVER: Command = Command::session(Group::Server, Categories::empty());

/// `COMMAND` and its subcommands.
const DESCRIPTION: Command =
    Command::session(Group::Server, Categories::CONNECTION).flags(&[LOADING, STALE]);

/// Commands for administrators.
const ADMINISTRATIVE: Command = SERVER
    .flags(&[ADMIN, NOSCRIPT, LOADING, STALE])
    .categories(&[Categories::ADMIN, Categories::DANGEROUS]);

pub(super) const COMMAND_ALL: Command = DESCRIPTION
    .command("command", -1, "2.8.13", "Describes all commands.")
    .complexity("O(N) where N is the total number of commands")
    .tips(&["nondeterministic_output_order"])
    .subcommands(&[
        &COMMAND_COUNT,
        &COMMAND_INFO,
        &COMMAND_DOCS,
        &COMMAND_GETKEYS,
        &COMMAND_GETKEYSANDFLAGS,
        &COMMAND_LIST,
        &COMMAND_HELP,
    ]);

pub(super) const COMMAND_COUNT: Command =
    DESCRIPTION.command("command|count", 2, "2.8.13", "Counts the commands.");

pub(super) const COMMAND_INFO: Command = DESCRIPTION
    .command("command|info", -2, "2.8.13", "Describes commands.")
    .complexity("O(N) where N is the number of commands to look up")
    .arguments(&[string("command-name").optional().multiple()])
    .tips(&["nondeterministic_output_order"])
    .history(&[("7.0.0", "Without names it describes all commands.")]);

pub(super) const COMMAND_DOCS: Command =
    COMMAND_INFO.command("command|docs", -2, "7.0.0", "Documents commands.").history(&[]);

pub(super) const COMMAND_GETKEYS: Command = DESCRIPTION
    .command("command|getkeys", -3, "2.8.13", "Finds the keys of a full command.")
    .complexity("O(N) where N is the number of arguments to the command")
    .arguments(&[string("command"), string("arg").optional().multiple()]);

pub(super) const COMMAND_GETKEYSANDFLAGS: Command = COMMAND_GETKEYS.command(
    "command|getkeysandflags",
    -3,
    "7.0.0",
    "Finds the keys of a full command and what is done with them.",
);

pub(super) const COMMAND_LIST: Command = DESCRIPTION
    .command("command|list", -2, "7.0.0", "Lists the names of commands.")
    .complexity("O(N) where N is the total number of commands")
    .arguments(&[one_of(
        "filterby",
        &[
            string("module-name").token("MODULE"),
            string("category").token("ACLCAT"),
            pattern("pattern").token("PATTERN"),
        ],
    )
    .token("FILTERBY")
    .optional()])
    .tips(&["nondeterministic_output_order"]);

pub(super) const COMMAND_HELP: Command = DESCRIPTION.help("command|help", "5.0.0");

pub(super) const CONFIG: Command = SERVER.container(
    "config",
    "2.0.0",
    "Reads and changes the configuration.",
    &[&CONFIG_GET, &CONFIG_HELP, &CONFIG_RESETSTAT, &CONFIG_REWRITE, &CONFIG_SET],
);

pub(super) const CONFIG_GET: Command = ADMINISTRATIVE
    .command("config|get", -3, "2.0.0", "Answers directives and their values.")
    .complexity("O(N) when N is the number of configuration parameters provided")
    .arguments(&[string("parameter").multiple()])
    .history(&[("7.0.0", "Takes several patterns.")]);

pub(super) const CONFIG_SET: Command = ADMINISTRATIVE
    .command("config|set", -4, "2.0.0", "Changes directives, all or none.")
    .complexity("O(N) when N is the number of configuration parameters provided")
    .arguments(&[block("data", &[string("parameter"), string("value")]).multiple()])
    .tips(&["request_policy:all_nodes", "response_policy:all_succeeded"])
    .history(&[("7.0.0", "Sets several directives in one call.")]);

pub(super) const CONFIG_RESETSTAT: Command = ADMINISTRATIVE
    .command("config|resetstat", 2, "2.0.0", "Resets the statistics.")
    .tips(&["request_policy:all_nodes", "response_policy:all_succeeded"]);

pub(super) const CONFIG_REWRITE: Command = ADMINISTRATIVE
    .command("config|rewrite", 2, "2.8.0", "Writes the configuration back into its file.")
    .tips(&["request_policy:all_nodes", "response_policy:all_succeeded"]);

pub(super) const CONFIG_HELP: Command = SERVER.help("config|help", "5.0.0");

pub(super) const INFO: Command = SERVER
    .command("info", -1, "1.0.0", "Tells about the server and its statistics.")
    .flags(&[LOADING, STALE])
    .categories(&[Categories::DANGEROUS])
    .arguments(&[string("section").optional().multiple()])
    .tips(&["nondeterministic_output", "request_policy:all_shards", "response_policy:special"])
    .history(&[("7.0.0", "Takes several sections.")]);

pub(super) const TIME: Command = SERVER
    .command("time", 1, "2.6.0", "Answers the time of the server.")
    .flags(&[LOADING, STALE, FAST])
    .tips(&["nondeterministic_output"]);

pub(super) const DEBUG: Command = ADMINISTRATIVE
    .command("debug", -2, "1.0.0", "Commands for tests of clients and servers.")
    // Some subcommands stop all other workers, which a transaction does before it begins.
    .scope(Scope::Keyspace)
    .complexity("Depends on subcommand.")
    .more_flags(&[SYSTEM]);

pub(super) const LOLWUT: Command = SERVER
    .command("lolwut", -1, "5.0.0", "Shows a picture and the version.")
    .complexity("")
    .flags(&[READONLY, FAST])
    .arguments(&[integer("version").token("VERSION").optional()]);

pub(super) const SHUTDOWN: Command = ADMINISTRATIVE
    .command("shutdown", -1, "1.0.0", "Stops the server.")
    .complexity(
        "O(N) when saving, where N is the total number of keys in all databases when saving \
         data, otherwise O(1)",
    )
    .more_flags(&[NO_MULTI, ALLOW_BUSY])
    .arguments(&[one_of(
        "abort-selector",
        &[
            block(
                "save-selector-block",
                &[
                    one_of("save-selector", &[word("NOSAVE"), word("SAVE")]).optional(),
                    word("NOW").optional().since("7.0.0"),
                    word("FORCE").optional().since("7.0.0"),
                    word("SAFE").optional().since("9.0.0"),
                    word("FAILOVER").optional().since("9.0.0"),
                ],
            ),
            word("ABORT").since("7.0.0"),
        ],
    )
    .optional()])
    .history(&[
        ("7.0.0", "Added the `NOW`, `FORCE` and `ABORT` modifiers."),
        ("9.0.0", "Added the `SAFE` and `FAILOVER` modifiers."),
    ]);

pub(super) const MEMORY: Command = SERVER.container(
    "memory",
    "4.0.0",
    "Tells about memory.",
    &[
        &MEMORY_DOCTOR,
        &MEMORY_HELP,
        &MEMORY_MALLOC_STATS,
        &MEMORY_PURGE,
        &MEMORY_STATS,
        &MEMORY_USAGE,
    ],
);

pub(super) const MEMORY_DOCTOR: Command = SERVER
    .command("memory|doctor", 2, "4.0.0", "Judges the use of memory in words.")
    .tips(&["nondeterministic_output", "request_policy:all_shards", "response_policy:special"]);

pub(super) const MEMORY_HELP: Command = SERVER.help("memory|help", "4.0.0");

pub(super) const MEMORY_MALLOC_STATS: Command = SERVER
    .command("memory|malloc-stats", 2, "4.0.0", "Answers what the allocator reports.")
    .complexity("Depends on how much memory is allocated, could be slow")
    .flags(&[LOADING])
    .tips(&["nondeterministic_output", "request_policy:all_shards", "response_policy:special"]);

pub(super) const MEMORY_PURGE: Command = SERVER
    .command("memory|purge", 2, "4.0.0", "Gives memory that is not used back to the system.")
    .complexity("Depends on how much memory is allocated, could be slow")
    .flags(&[LOADING])
    .tips(&["request_policy:all_shards", "response_policy:all_succeeded"]);

pub(super) const MEMORY_STATS: Command = SERVER
    .command("memory|stats", 2, "4.0.0", "Answers how memory is used.")
    .tips(&["nondeterministic_output", "request_policy:all_shards", "response_policy:special"]);

pub(super) const MEMORY_USAGE: Command = SERVER
    .command("memory|usage", -3, "4.0.0", "Answers the bytes that a key takes.")
    .complexity("O(N) where N is the number of samples.")
    .flags(&[READONLY])
    .keys(&[KeySpec::one(2, &[RO])])
    .arguments(&[key("key"), integer("count").token("SAMPLES").optional()])
    .scope(Scope::Keys);

// Commands about parts that there are not: standing.rs.

pub(super) const ROLE: Command = ADMINISTRATIVE
    .command("role", 1, "2.8.12", "Answers the part that the server plays in replication.")
    .flags(&[NOSCRIPT, LOADING, STALE, FAST]);

pub(super) const REPLICAOF: Command = ADMINISTRATIVE
    .command("replicaof", 3, "5.0.0", "Makes the server no replica, which it is not anyhow.")
    .flags(&[ADMIN, NOSCRIPT, STALE, NO_ASYNC_LOADING])
    .arguments(&[one_of(
        "args",
        &[
            block("host-port", &[string("host"), integer("port")]),
            block("no-one", &[word("NO"), word("ONE")]),
        ],
    )]);

pub(super) const SLAVEOF: Command = REPLICAOF
    .command("slaveof", 3, "1.0.0", "Makes the server no replica, which it is not anyhow.")
    .deprecated("5.0.0", "`REPLICAOF`");

pub(super) const LASTSAVE: Command = ADMINISTRATIVE
    .command(
        "lastsave",
        1,
        "1.0.0",
        "Answers the Unix time of the last save that succeeded; of the start before the first one.",
    )
    .flags(&[LOADING, STALE, FAST])
    .tips(&["nondeterministic_output"]);

pub(super) const SAVE: Command = ADMINISTRATIVE
    .command("save", 1, "1.0.0", "Saves all data to a file, with all other clients stopped.")
    .complexity("O(N) where N is the total number of keys in all databases")
    .flags(&[ADMIN, NOSCRIPT, NO_ASYNC_LOADING, NO_MULTI]);

pub(super) const BGSAVE: Command = ADMINISTRATIVE
    .command("bgsave", -1, "1.0.0", "Saves all data of this moment to a file in the background.")
    .flags(&[ADMIN, NOSCRIPT, NO_ASYNC_LOADING])
    .arguments(&[one_of(
        "operation",
        &[word("SCHEDULE").since("3.2.2"), word("CANCEL").since("8.1.0")],
    )
    .optional()])
    .history(&[("3.2.2", "Added the `SCHEDULE` option."), ("8.1.0", "Added the `CANCEL` option.")]);

pub(super) const BGREWRITEAOF: Command = ADMINISTRATIVE
    .command("bgrewriteaof", 1, "1.0.0", "Rewrites the append-only file in the background.")
    .flags(&[ADMIN, NOSCRIPT, NO_ASYNC_LOADING]);

pub(super) const MODULE: Command = SERVER.container(
    "module",
    "4.0.0",
    "Tells about modules, of which there are none.",
    &[&MODULE_HELP, &MODULE_LIST],
);

pub(super) const MODULE_HELP: Command = SERVER.help("module|help", "5.0.0");

pub(super) const MODULE_LIST: Command = ADMINISTRATIVE
    .command("module|list", 2, "4.0.0", "Lists the modules.")
    .complexity("O(N) where N is the number of loaded modules.")
    .flags(&[ADMIN, NOSCRIPT])
    .tips(&["nondeterministic_output_order"]);
