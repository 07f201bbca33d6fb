//! Declarations of the commands about scripts and functions: a row each, then what differs from the
//! family.

use crate::command::prelude::*;

const SCRIPTING: Command = Command::session(Group::Scripting, Categories::SCRIPTING);

/// Commands that run a script which may write.
const WRITER: Command = RUNNER.more_flags(&[MAY_REPLICATE]);

/// Commands that run a script.
const RUNNER: Command = Command::scripts(Group::Scripting, Categories::SCRIPTING)
    .flags(&[NOSCRIPT, STALE, Flags::SKIP_MONITOR, NO_MANDATORY_KEYS, MOVABLEKEYS])
    .keys(&[KeySpec::counted(2, &[RW, ACCESS, UPDATE])]);

/// Commands that run a script which only reads.
const READER: Command = RUNNER.more_flags(&[READONLY]).keys(&[KeySpec::counted(2, &[RO, ACCESS])]);

/// Note of Valkey's on keys of which nobody knows what becomes.
const WORST_RW: &str =
    "We cannot tell how the keys will be used so we assume the worst, RW and UPDATE";
const WORST_RO: &str =
    "We cannot tell how the keys will be used so we assume the worst, RO and ACCESS";

const OF_SCRIPT: &str = "Depends on the script that is executed.";
const OF_FUNCTION: &str = "Depends on the function that is executed.";

pub(super) const EVAL: Command = WRITER
    .command("eval", -3, "2.6.0", "Runs a script.")
    .complexity(OF_SCRIPT)
    .keys(&[KeySpec::counted(2, &[RW, ACCESS, UPDATE]).notes(WORST_RW)])
    .arguments(&[
        string("script"),
        integer("numkeys"),
        key("key").optional().multiple(),
        string("arg").optional().multiple(),
    ]);

pub(super) const EVAL_RO: Command = READER
    .command("eval_ro", -3, "7.0.0", "Runs a script that only reads.")
    .complexity(OF_SCRIPT)
    .keys(&[KeySpec::counted(2, &[RO, ACCESS]).notes(WORST_RO)])
    .arguments(EVAL.arguments);

pub(super) const EVALSHA: Command = WRITER
    .command("evalsha", -3, "2.6.0", "Runs a script of the cache, given by its SHA-1.")
    .complexity(OF_SCRIPT)
    .arguments(&[
        string("sha1"),
        integer("numkeys"),
        key("key").optional().multiple(),
        string("arg").optional().multiple(),
    ]);

pub(super) const EVALSHA_RO: Command = READER
    .command("evalsha_ro", -3, "7.0.0", "Runs a script of the cache that only reads.")
    .complexity(OF_SCRIPT)
    .arguments(EVALSHA.arguments);

pub(super) const FCALL: Command = WRITER
    .command("fcall", -3, "7.0.0", "Calls a function of a library.")
    .complexity(OF_FUNCTION)
    .keys(&[KeySpec::counted(2, &[RW, ACCESS, UPDATE]).notes(WORST_RW)])
    .arguments(&[
        string("function"),
        integer("numkeys"),
        key("key").optional().multiple(),
        string("arg").optional().multiple(),
    ]);

pub(super) const FCALL_RO: Command = READER
    .command("fcall_ro", -3, "7.0.0", "Calls a function of a library that only reads.")
    .complexity(OF_FUNCTION)
    .keys(&[KeySpec::counted(2, &[RO, ACCESS]).notes(WORST_RO)])
    .arguments(FCALL.arguments);

pub(super) const SCRIPT: Command = SCRIPTING.container(
    "script",
    "2.6.0",
    "Commands about the cache of scripts.",
    &[
        &SCRIPT_DEBUG,
        &SCRIPT_EXISTS,
        &SCRIPT_FLUSH,
        &SCRIPT_HELP,
        &SCRIPT_KILL,
        &SCRIPT_LOAD,
        &SCRIPT_SHOW,
    ],
);

pub(super) const SCRIPT_DEBUG: Command = SCRIPTING
    .command("script|debug", -3, "3.2.0", "Sets the mode of the debugger, which is not there.")
    .flags(&[NOSCRIPT])
    .arguments(&[
        one_of("mode", &[word("YES"), word("SYNC"), word("NO")]),
        string("engine").optional().since("9.1.0"),
    ]);

pub(super) const SCRIPT_EXISTS: Command = SCRIPTING
    .command("script|exists", -3, "2.6.0", "Tells which scripts are in the cache.")
    .complexity(
        "O(N) with N being the number of scripts to check (so checking a single script is an O(1) \
         operation).",
    )
    .flags(&[NOSCRIPT, STALE])
    .arguments(&[string("sha1").multiple()])
    .tips(&["request_policy:all_shards", "response_policy:agg_logical_and"]);

pub(super) const SCRIPT_FLUSH: Command = SCRIPTING
    .command("script|flush", -2, "2.6.0", "Empties the cache of scripts.")
    .complexity("O(N) with N being the number of scripts in cache")
    .flags(&[NOSCRIPT, STALE])
    .history(&[("6.2.0", "Added the `ASYNC` and `SYNC` flushing mode modifiers.")])
    .arguments(&[one_of("flush-type", &[word("ASYNC"), word("SYNC")]).optional().since("6.2.0")])
    .tips(&["request_policy:all_nodes", "response_policy:all_succeeded"]);

pub(super) const SCRIPT_HELP: Command = SCRIPTING.help("script|help", "5.0.0");

pub(super) const SCRIPT_KILL: Command = SCRIPTING
    .command("script|kill", 2, "2.6.0", "Ends a script that runs for long and has not written.")
    .flags(&[NOSCRIPT, ALLOW_BUSY])
    .tips(&["request_policy:all_shards", "response_policy:one_succeeded"]);

pub(super) const SCRIPT_LOAD: Command = SCRIPTING
    .command("script|load", 3, "2.6.0", "Puts a script into the cache.")
    .complexity("O(N) with N being the length in bytes of the script body.")
    .flags(&[NOSCRIPT, STALE, REGISTERS])
    .arguments(&[string("script")])
    .tips(&["request_policy:all_nodes", "response_policy:all_succeeded"]);

pub(super) const SCRIPT_SHOW: Command = SCRIPTING
    .command("script|show", 3, "8.0.0", "Answers the source of a script of the cache.")
    .complexity("O(1).")
    .flags(&[NOSCRIPT, STALE])
    .arguments(&[string("sha1")]);

pub(super) const FUNCTION: Command = SCRIPTING.container(
    "function",
    "7.0.0",
    "Commands about libraries of functions.",
    &[
        &FUNCTION_DELETE,
        &FUNCTION_DUMP,
        &FUNCTION_FLUSH,
        &FUNCTION_HELP,
        &FUNCTION_KILL,
        &FUNCTION_LIST,
        &FUNCTION_LOAD,
        &FUNCTION_RESTORE,
        &FUNCTION_STATS,
    ],
);

/// Changes of libraries.
const CHANGE: Command = SCRIPTING
    .scope(Scope::Keyspace)
    .flags(&[WRITE, NOSCRIPT])
    .tips(&["request_policy:all_shards", "response_policy:all_succeeded"]);

pub(super) const FUNCTION_DELETE: Command = CHANGE
    .command("function|delete", 3, "7.0.0", "Deletes a library.")
    .arguments(&[string("library-name")]);

pub(super) const FUNCTION_DUMP: Command = SCRIPTING
    .command("function|dump", 2, "7.0.0", "Answers all libraries as a payload.")
    .complexity("O(N) where N is the number of functions")
    .flags(&[NOSCRIPT]);

pub(super) const FUNCTION_FLUSH: Command = CHANGE
    .command("function|flush", -2, "7.0.0", "Deletes all libraries.")
    .complexity("O(N) where N is the number of functions deleted")
    .arguments(&[one_of("flush-type", &[word("ASYNC"), word("SYNC")]).optional()]);

pub(super) const FUNCTION_HELP: Command = SCRIPTING.help("function|help", "7.0.0");

pub(super) const FUNCTION_KILL: Command = SCRIPTING
    .command("function|kill", 2, "7.0.0", "Ends a function that runs for long.")
    .flags(&[NOSCRIPT, ALLOW_BUSY])
    .tips(&["request_policy:all_shards", "response_policy:one_succeeded"]);

pub(super) const FUNCTION_LIST: Command = SCRIPTING
    .command("function|list", -2, "7.0.0", "Answers the libraries and their functions.")
    .complexity("O(N) where N is the number of functions")
    .flags(&[NOSCRIPT])
    .arguments(&[
        string("library-name-pattern").token("LIBRARYNAME").optional(),
        word("WITHCODE").optional(),
    ])
    .tips(&["nondeterministic_output_order"]);

pub(super) const FUNCTION_LOAD: Command = CHANGE
    .command("function|load", -3, "7.0.0", "Makes a library.")
    .complexity("O(1) (considering compilation time is redundant)")
    .more_flags(&[DENYOOM])
    .arguments(&[word("REPLACE").optional(), string("function-code")]);

pub(super) const FUNCTION_RESTORE: Command = CHANGE
    .command("function|restore", -3, "7.0.0", "Makes the libraries of a payload.")
    .complexity("O(N) where N is the number of functions on the payload")
    .more_flags(&[DENYOOM])
    .arguments(&[
        string("serialized-value"),
        one_of("policy", &[word("FLUSH"), word("APPEND"), word("REPLACE")]).optional(),
    ]);

pub(super) const FUNCTION_STATS: Command = SCRIPTING
    .command("function|stats", 2, "7.0.0", "Answers what runs, and how much there is.")
    .flags(&[NOSCRIPT, ALLOW_BUSY])
    .tips(&["nondeterministic_output", "request_policy:all_shards", "response_policy:special"]);
