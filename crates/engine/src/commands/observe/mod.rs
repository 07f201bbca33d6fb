//! Commands about commands: their logs, their latency, and who watches them.

mod doctor;
mod graph;
mod latency;
mod log;
mod monitor;

use crate::command::{Argument, ArgumentKind, Categories, Command, Flags, Group, Handler};

/// The family.
pub const COMMANDS: &[&Command] = &[&SLOWLOG, &COMMANDLOG, &LATENCY, &MONITOR];

const SLOWLOG: Command = Command {
    name: "slowlog",
    summary: "Shows commands that took long.",
    since: "2.2.12",
    complexity: "Depends on subcommand.",
    group: Group::Server,
    arity: -2,
    flags: Flags::empty(),
    categories: Categories::empty(),
    subcommands: &[&SLOWLOG_GET, &SLOWLOG_HELP, &SLOWLOG_LEN, &SLOWLOG_RESET],
    ..Command::BASE
};

const SLOWLOG_GET: Command = Command {
    name: "slowlog|get",
    summary: "Answers the newest slow commands.",
    since: "2.2.12",
    complexity: "O(N) where N is the number of entries returned",
    group: Group::Server,
    arity: -2,
    flags: Flags::ADMIN.union(Flags::LOADING).union(Flags::STALE),
    categories: Categories::ADMIN.union(Categories::DANGEROUS),
    arguments: &[Argument::new("count", ArgumentKind::Integer).optional()],
    tips: &["request_policy:all_nodes", "nondeterministic_output"],
    history: &[("4.0.0", "Added client IP address, port and name to the reply.")],
    handler: Handler::Session(log::slow_get),
    ..Command::BASE
};

const SLOWLOG_HELP: Command = Command {
    name: "slowlog|help",
    summary: "Lists the subcommands.",
    since: "6.2.0",
    group: Group::Server,
    arity: 2,
    flags: Flags::LOADING.union(Flags::STALE),
    categories: Categories::empty(),
    handler: Handler::Session(log::slow_help),
    ..Command::BASE
};

const SLOWLOG_LEN: Command = Command {
    name: "slowlog|len",
    summary: "Counts the slow commands that are remembered.",
    since: "2.2.12",
    group: Group::Server,
    arity: 2,
    flags: Flags::ADMIN.union(Flags::LOADING).union(Flags::STALE),
    categories: Categories::ADMIN.union(Categories::DANGEROUS),
    tips: &["request_policy:all_nodes", "response_policy:agg_sum", "nondeterministic_output"],
    handler: Handler::Session(log::slow_len),
    ..Command::BASE
};

const SLOWLOG_RESET: Command = Command {
    name: "slowlog|reset",
    summary: "Forgets the slow commands.",
    since: "2.2.12",
    complexity: "O(N) where N is the number of entries in the slowlog",
    group: Group::Server,
    arity: 2,
    flags: Flags::ADMIN.union(Flags::LOADING).union(Flags::STALE),
    categories: Categories::ADMIN.union(Categories::DANGEROUS),
    tips: &["request_policy:all_nodes", "response_policy:all_succeeded"],
    handler: Handler::Session(log::slow_reset),
    ..Command::BASE
};

const COMMANDLOG: Command = Command {
    name: "commandlog",
    summary: "Shows commands that took long, and large requests and replies.",
    since: "8.1.0",
    complexity: "Depends on subcommand.",
    group: Group::Server,
    arity: -2,
    flags: Flags::empty(),
    categories: Categories::empty(),
    subcommands: &[&COMMANDLOG_GET, &COMMANDLOG_HELP, &COMMANDLOG_LEN, &COMMANDLOG_RESET],
    ..Command::BASE
};

const COMMANDLOG_GET: Command = Command {
    name: "commandlog|get",
    summary: "Answers the newest entries of a log.",
    since: "8.1.0",
    complexity: "O(N) where N is the number of entries returned",
    group: Group::Server,
    arity: 4,
    flags: Flags::ADMIN.union(Flags::LOADING).union(Flags::STALE),
    categories: Categories::ADMIN.union(Categories::DANGEROUS),
    arguments: &[
        Argument::new("count", ArgumentKind::Integer),
        Argument::new(
            "type",
            ArgumentKind::OneOf(&[
                Argument::flag("slow", "SLOW"),
                Argument::flag("large-request", "LARGE-REQUEST"),
                Argument::flag("large-reply", "LARGE-REPLY"),
            ]),
        ),
    ],
    tips: &["request_policy:all_nodes", "nondeterministic_output"],
    handler: Handler::Session(log::get),
    ..Command::BASE
};

const COMMANDLOG_HELP: Command = Command {
    name: "commandlog|help",
    summary: "Lists the subcommands.",
    since: "8.1.0",
    group: Group::Server,
    arity: 2,
    flags: Flags::LOADING.union(Flags::STALE),
    categories: Categories::empty(),
    handler: Handler::Session(log::help),
    ..Command::BASE
};

const COMMANDLOG_LEN: Command = Command {
    name: "commandlog|len",
    summary: "Counts the entries of a log.",
    since: "8.1.0",
    group: Group::Server,
    arity: 3,
    flags: Flags::ADMIN.union(Flags::LOADING).union(Flags::STALE),
    categories: Categories::ADMIN.union(Categories::DANGEROUS),
    arguments: &[Argument::new(
        "type",
        ArgumentKind::OneOf(&[
            Argument::flag("slow", "SLOW"),
            Argument::flag("large-request", "LARGE-REQUEST"),
            Argument::flag("large-reply", "LARGE-REPLY"),
        ]),
    )],
    tips: &["request_policy:all_nodes", "response_policy:agg_sum", "nondeterministic_output"],
    handler: Handler::Session(log::len),
    ..Command::BASE
};

const COMMANDLOG_RESET: Command = Command {
    name: "commandlog|reset",
    summary: "Forgets the entries of a log.",
    since: "8.1.0",
    complexity: "O(N) where N is the number of entries in the commandlog",
    group: Group::Server,
    arity: 3,
    flags: Flags::ADMIN.union(Flags::LOADING).union(Flags::STALE),
    categories: Categories::ADMIN.union(Categories::DANGEROUS),
    arguments: &[Argument::new(
        "type",
        ArgumentKind::OneOf(&[
            Argument::flag("slow", "SLOW"),
            Argument::flag("large-request", "LARGE-REQUEST"),
            Argument::flag("large-reply", "LARGE-REPLY"),
        ]),
    )],
    tips: &["request_policy:all_nodes", "response_policy:all_succeeded"],
    handler: Handler::Session(log::reset),
    ..Command::BASE
};

const LATENCY: Command = Command {
    name: "latency",
    summary: "Shows what took long, and how the times of commands spread.",
    since: "2.8.13",
    complexity: "Depends on subcommand.",
    group: Group::Server,
    arity: -2,
    flags: Flags::empty(),
    categories: Categories::empty(),
    subcommands: &[
        &LATENCY_DOCTOR,
        &LATENCY_GRAPH,
        &LATENCY_HELP,
        &LATENCY_HISTOGRAM,
        &LATENCY_HISTORY,
        &LATENCY_LATEST,
        &LATENCY_RESET,
    ],
    ..Command::BASE
};

const LATENCY_DOCTOR: Command = Command {
    name: "latency|doctor",
    summary: "Judges the latency of the server in words.",
    since: "2.8.13",
    group: Group::Server,
    arity: 2,
    flags: Flags::ADMIN.union(Flags::LOADING).union(Flags::NOSCRIPT).union(Flags::STALE),
    categories: Categories::ADMIN.union(Categories::DANGEROUS),
    tips: &["nondeterministic_output", "request_policy:all_nodes", "response_policy:special"],
    handler: Handler::Session(latency::doctor),
    ..Command::BASE
};

const LATENCY_GRAPH: Command = Command {
    name: "latency|graph",
    summary: "Draws the history of an event.",
    since: "2.8.13",
    group: Group::Server,
    arity: 3,
    flags: Flags::ADMIN.union(Flags::LOADING).union(Flags::NOSCRIPT).union(Flags::STALE),
    categories: Categories::ADMIN.union(Categories::DANGEROUS),
    arguments: &[Argument::new("event", ArgumentKind::String)],
    tips: &["nondeterministic_output", "request_policy:all_nodes", "response_policy:special"],
    handler: Handler::Session(latency::graph),
    ..Command::BASE
};

const LATENCY_HELP: Command = Command {
    name: "latency|help",
    summary: "Lists the subcommands.",
    since: "2.8.13",
    group: Group::Server,
    arity: 2,
    flags: Flags::LOADING.union(Flags::STALE),
    categories: Categories::empty(),
    handler: Handler::Session(latency::help),
    ..Command::BASE
};

const LATENCY_HISTOGRAM: Command = Command {
    name: "latency|histogram",
    summary: "Answers how the times of commands spread.",
    since: "7.0.0",
    complexity: "O(N) where N is the number of commands with latency information being retrieved.",
    group: Group::Server,
    arity: -2,
    flags: Flags::ADMIN.union(Flags::LOADING).union(Flags::NOSCRIPT).union(Flags::STALE),
    categories: Categories::ADMIN.union(Categories::DANGEROUS),
    arguments: &[Argument::new("command", ArgumentKind::String).optional().multiple()],
    tips: &["nondeterministic_output", "request_policy:all_nodes", "response_policy:special"],
    handler: Handler::Session(latency::histogram),
    ..Command::BASE
};

const LATENCY_HISTORY: Command = Command {
    name: "latency|history",
    summary: "Answers the history of an event.",
    since: "2.8.13",
    group: Group::Server,
    arity: 3,
    flags: Flags::ADMIN.union(Flags::LOADING).union(Flags::NOSCRIPT).union(Flags::STALE),
    categories: Categories::ADMIN.union(Categories::DANGEROUS),
    arguments: &[Argument::new("event", ArgumentKind::String)],
    tips: &["nondeterministic_output", "request_policy:all_nodes", "response_policy:special"],
    handler: Handler::Session(latency::history),
    ..Command::BASE
};

const LATENCY_LATEST: Command = Command {
    name: "latency|latest",
    summary: "Answers the latest of all events.",
    since: "2.8.13",
    group: Group::Server,
    arity: 2,
    flags: Flags::ADMIN.union(Flags::LOADING).union(Flags::NOSCRIPT).union(Flags::STALE),
    categories: Categories::ADMIN.union(Categories::DANGEROUS),
    tips: &["nondeterministic_output", "request_policy:all_nodes", "response_policy:special"],
    handler: Handler::Session(latency::latest),
    ..Command::BASE
};

const LATENCY_RESET: Command = Command {
    name: "latency|reset",
    summary: "Forgets events.",
    since: "2.8.13",
    group: Group::Server,
    arity: -2,
    flags: Flags::ADMIN.union(Flags::LOADING).union(Flags::NOSCRIPT).union(Flags::STALE),
    categories: Categories::ADMIN.union(Categories::DANGEROUS),
    arguments: &[Argument::new("event", ArgumentKind::String).optional().multiple()],
    tips: &["request_policy:all_nodes", "response_policy:agg_sum"],
    handler: Handler::Session(latency::reset),
    ..Command::BASE
};

const MONITOR: Command = Command {
    name: "monitor",
    summary: "Shows all commands as they run.",
    since: "1.0.0",
    group: Group::Server,
    arity: 1,
    flags: Flags::ADMIN.union(Flags::LOADING).union(Flags::NOSCRIPT).union(Flags::STALE),
    categories: Categories::ADMIN.union(Categories::DANGEROUS),
    handler: Handler::Session(monitor::monitor),
    ..Command::BASE
};
