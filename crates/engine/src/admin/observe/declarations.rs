//! Declarations of the commands about commands: a row each, then what differs from the family.

use crate::command::prelude::*;

const SERVER: Command = Command::session(Group::Server, Categories::empty());

/// Commands for administrators.
const ADMINISTRATIVE: Command = SERVER
    .flags(&[ADMIN, NOSCRIPT, LOADING, STALE])
    .categories(&[Categories::ADMIN, Categories::DANGEROUS]);

/// Commands on logs.
const LOG: Command = ADMINISTRATIVE.flags(&[ADMIN, LOADING, STALE]);

const LOG_TYPE: Argument =
    one_of("type", &[word("SLOW"), word("LARGE-REQUEST"), word("LARGE-REPLY")]);

pub(super) const SLOWLOG: Command = SERVER.container(
    "slowlog",
    "2.2.12",
    "Shows commands that took long.",
    &[&SLOWLOG_GET, &SLOWLOG_HELP, &SLOWLOG_LEN, &SLOWLOG_RESET],
);

pub(super) const SLOWLOG_GET: Command = LOG
    .command("slowlog|get", -2, "2.2.12", "Answers the newest slow commands.")
    .complexity("O(N) where N is the number of entries returned")
    .arguments(&[integer("count").optional()])
    .tips(&["request_policy:all_nodes", "nondeterministic_output"])
    .history(&[("4.0.0", "Added client IP address, port and name to the reply.")]);

pub(super) const SLOWLOG_HELP: Command = SERVER.help("slowlog|help", "6.2.0");

pub(super) const SLOWLOG_LEN: Command = LOG
    .command("slowlog|len", 2, "2.2.12", "Counts the slow commands that are remembered.")
    .tips(&["request_policy:all_nodes", "response_policy:agg_sum", "nondeterministic_output"]);

pub(super) const SLOWLOG_RESET: Command = LOG
    .command("slowlog|reset", 2, "2.2.12", "Forgets the slow commands.")
    .complexity("O(N) where N is the number of entries in the slowlog")
    .tips(&["request_policy:all_nodes", "response_policy:all_succeeded"]);

pub(super) const COMMANDLOG: Command = SERVER.container(
    "commandlog",
    "8.1.0",
    "Shows commands that took long, and large requests and replies.",
    &[&COMMANDLOG_GET, &COMMANDLOG_HELP, &COMMANDLOG_LEN, &COMMANDLOG_RESET],
);

pub(super) const COMMANDLOG_GET: Command = LOG
    .command("commandlog|get", 4, "8.1.0", "Answers the newest entries of a log.")
    .complexity("O(N) where N is the number of entries returned")
    .arguments(&[integer("count"), LOG_TYPE])
    .tips(&["request_policy:all_nodes", "nondeterministic_output"]);

pub(super) const COMMANDLOG_HELP: Command = SERVER.help("commandlog|help", "8.1.0");

pub(super) const COMMANDLOG_LEN: Command = SLOWLOG_LEN
    .command("commandlog|len", 3, "8.1.0", "Counts the entries of a log.")
    .arguments(&[LOG_TYPE]);

pub(super) const COMMANDLOG_RESET: Command = LOG
    .command("commandlog|reset", 3, "8.1.0", "Forgets the entries of a log.")
    .complexity("O(N) where N is the number of entries in the commandlog")
    .arguments(&[LOG_TYPE])
    .tips(&["request_policy:all_nodes", "response_policy:all_succeeded"]);

pub(super) const LATENCY: Command = SERVER.container(
    "latency",
    "2.8.13",
    "Shows what took long, and how the times of commands spread.",
    &[
        &LATENCY_DOCTOR,
        &LATENCY_GRAPH,
        &LATENCY_HELP,
        &LATENCY_HISTOGRAM,
        &LATENCY_HISTORY,
        &LATENCY_LATEST,
        &LATENCY_RESET,
    ],
);

pub(super) const LATENCY_DOCTOR: Command = ADMINISTRATIVE
    .command("latency|doctor", 2, "2.8.13", "Judges the latency of the server in words.")
    .tips(&["nondeterministic_output", "request_policy:all_nodes", "response_policy:special"]);

pub(super) const LATENCY_GRAPH: Command = ADMINISTRATIVE
    .command("latency|graph", 3, "2.8.13", "Draws the history of an event.")
    .arguments(&[string("event")])
    .tips(&["nondeterministic_output", "request_policy:all_nodes", "response_policy:special"]);

pub(super) const LATENCY_HELP: Command = SERVER.help("latency|help", "2.8.13");

pub(super) const LATENCY_HISTOGRAM: Command = ADMINISTRATIVE
    .command("latency|histogram", -2, "7.0.0", "Answers how the times of commands spread.")
    .complexity("O(N) where N is the number of commands with latency information being retrieved.")
    .arguments(&[string("command").optional().multiple()])
    .tips(&["nondeterministic_output", "request_policy:all_nodes", "response_policy:special"]);

pub(super) const LATENCY_HISTORY: Command =
    LATENCY_GRAPH.command("latency|history", 3, "2.8.13", "Answers the history of an event.");

pub(super) const LATENCY_LATEST: Command = ADMINISTRATIVE
    .command("latency|latest", 2, "2.8.13", "Answers the latest of all events.")
    .tips(&["nondeterministic_output", "request_policy:all_nodes", "response_policy:special"]);

pub(super) const LATENCY_RESET: Command = ADMINISTRATIVE
    .command("latency|reset", -2, "2.8.13", "Forgets events.")
    .arguments(&[string("event").optional().multiple()])
    .tips(&["request_policy:all_nodes", "response_policy:agg_sum"]);

pub(super) const HOTKEYS: Command = SERVER.container(
    "hotkeys",
    "8.6.0",
    "Measures which keys take the most time or bytes.",
    &[&HOTKEYS_GET, &HOTKEYS_HELP, &HOTKEYS_RESET, &HOTKEYS_START, &HOTKEYS_STOP],
);

/// Commands on hot keys.
const HOT_KEYS: Command = ADMINISTRATIVE.flags(&[ADMIN, NOSCRIPT]);

pub(super) const HOTKEYS_GET: Command = HOT_KEYS
    .command("hotkeys|get", 2, "8.6.0", "Answers the hottest keys so far.")
    .complexity("O(K) where K is the number of hotkeys returned.")
    .tips(&["nondeterministic_output"]);

pub(super) const HOTKEYS_HELP: Command = SERVER.help("hotkeys|help", "8.6.0");

pub(super) const HOTKEYS_RESET: Command =
    HOT_KEYS.command("hotkeys|reset", 2, "8.6.0", "Forgets a measurement that is over.");

pub(super) const HOTKEYS_START: Command = HOT_KEYS
    .command("hotkeys|start", -2, "8.6.0", "Begins to measure which keys are hot.")
    .arguments(&[
        block("metrics", &[integer("count"), word("CPU").optional(), word("NET").optional()])
            .token("METRICS"),
        integer("k").token("COUNT").optional(),
        integer("seconds").token("DURATION").optional(),
        integer("ratio").token("SAMPLE").optional(),
        block("slots", &[integer("count"), integer("slot").multiple()]).token("SLOTS").optional(),
    ]);

pub(super) const HOTKEYS_STOP: Command =
    HOT_KEYS.command("hotkeys|stop", 2, "8.6.0", "Ends a measurement; its result stays.");

pub(super) const MONITOR: Command =
    ADMINISTRATIVE.command("monitor", 1, "1.0.0", "Shows all commands as they run.").complexity("");
