//! Commands about commands: their logs, their latency, the keys that they cost most for, and who
//! watches them.

mod declarations;
mod doctor;
mod graph;
mod hot_keys;
mod latency;
mod log;
mod monitor;

use crate::access::handler::Handler;
use crate::command::Command;

use declarations::*;

/// Commands that have subcommands only.
pub(crate) const CONTAINERS: &[&Command] = &[&SLOWLOG, &COMMANDLOG, &LATENCY, &HOTKEYS];

/// Commands of the family, subcommands included, with their handlers.
pub(crate) const HANDLERS: &[(&Command, Handler)] = &[
    (&SLOWLOG_GET, Handler::Session(log::slow_get)),
    (&SLOWLOG_HELP, Handler::Session(log::slow_help)),
    (&SLOWLOG_LEN, Handler::Session(log::slow_len)),
    (&SLOWLOG_RESET, Handler::Session(log::slow_reset)),
    (&COMMANDLOG_GET, Handler::Session(log::get)),
    (&COMMANDLOG_HELP, Handler::Session(log::help)),
    (&COMMANDLOG_LEN, Handler::Session(log::len)),
    (&COMMANDLOG_RESET, Handler::Session(log::reset)),
    (&LATENCY_DOCTOR, Handler::Session(latency::doctor)),
    (&LATENCY_GRAPH, Handler::Session(latency::graph)),
    (&LATENCY_HELP, Handler::Session(latency::help)),
    (&LATENCY_HISTOGRAM, Handler::Session(latency::histogram)),
    (&LATENCY_HISTORY, Handler::Session(latency::history)),
    (&LATENCY_LATEST, Handler::Session(latency::latest)),
    (&LATENCY_RESET, Handler::Session(latency::reset)),
    (&HOTKEYS_GET, Handler::Session(hot_keys::get)),
    (&HOTKEYS_HELP, Handler::Session(hot_keys::help)),
    (&HOTKEYS_RESET, Handler::Session(hot_keys::reset)),
    (&HOTKEYS_START, Handler::Session(hot_keys::start)),
    (&HOTKEYS_STOP, Handler::Session(hot_keys::stop)),
    (&MONITOR, Handler::Session(monitor::monitor)),
];
