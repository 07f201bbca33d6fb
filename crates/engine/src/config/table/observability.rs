//! Directives of logs, latency and statistics of commands.

use super::super::directive::{Directive, Kind};
use super::builders::{ANY, flag, integer};

pub(super) const DIRECTIVES: &[Directive] = &[
    integer(
        "commandlog-execution-slower-than",
        "10000",
        -1,
        ANY,
        "Microseconds from which a command is logged as slow; -1 never.",
    )
    .aliases(&["slowlog-log-slower-than"]),
    integer(
        "commandlog-slow-execution-max-len",
        "128",
        0,
        ANY,
        "Slow commands that are remembered.",
    )
    .aliases(&["slowlog-max-len"]),
    integer(
        "commandlog-request-larger-than",
        "1048576",
        -1,
        ANY,
        "Bytes from which a request is logged as large.",
    ),
    integer(
        "commandlog-large-request-max-len",
        "128",
        0,
        ANY,
        "Large requests that are remembered.",
    ),
    integer(
        "commandlog-reply-larger-than",
        "1048576",
        -1,
        ANY,
        "Bytes from which a reply is logged as large.",
    ),
    integer("commandlog-large-reply-max-len", "128", 0, ANY, "Large replies that are remembered."),
    integer(
        "latency-monitor-threshold",
        "0",
        0,
        ANY,
        "Milliseconds from which an event enters LATENCY; 0 never.",
    ),
    flag("latency-tracking", true, "Keeps a histogram of each command's time."),
    Directive::new(
        "latency-tracking-info-percentiles",
        Kind::Percentiles,
        "50 99 99.9",
        "Percentiles INFO shows.",
    ),
];
