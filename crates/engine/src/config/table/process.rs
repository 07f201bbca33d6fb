//! The process, its log and what administrators may do.

use super::super::directive::{Directive, Kind};
use super::super::text_form::TextForm;
use super::builders::{ANY, I32, choice, flag, form, integer, text};

const NO_MODULES: &str = "there are no modules";
const DEBUG: &[&str] = &["no", "yes", "local"];
const SIGNALS: &[&str] = &["default", "save", "nosave", "now", "force", "safe", "failover"];

pub(super) const DIRECTIVES: &[Directive] = &[
    flag("daemonize", false, "Detaches from the terminal and runs in the background.").at_start(),
    text("pidfile", "", "File that holds the process's number while it runs; empty for none.")
        .at_start(),
    choice(
        "supervised",
        "no",
        &["upstart", "systemd", "auto", "no"],
        "Supervisor to notify when the server is ready; `auto` is systemd where it asks for it.",
    )
    .at_start()
    .only(&["no", "systemd", "auto"], "upstart is not notified"),
    choice(
        "loglevel",
        "notice",
        &["debug", "verbose", "notice", "warning", "nothing"],
        "Least important messages that are logged.",
    ),
    text("logfile", "", "File to log to; empty for standard output.").at_start(),
    choice(
        "log-format",
        "legacy",
        &["legacy", "logfmt", "json"],
        "Form of a log line. The line of a crash is always `legacy`.",
    ),
    choice(
        "log-timestamp-format",
        "legacy",
        &["legacy", "iso8601", "milliseconds"],
        "Form of its time; `milliseconds` are those since 1970.",
    ),
    flag("hide-user-data-from-log", true, "Keeps keys and values out of the log.")
        .without_effect("they are never logged"),
    flag(
        "syslog-enabled",
        false,
        "Logs to syslog as well, at `/dev/log`; what it does not take at once is lost.",
    )
    .at_start(),
    text("syslog-ident", "valkey", "Name in syslog.").at_start(),
    choice(
        "syslog-facility",
        "local0",
        &["user", "local0", "local1", "local2", "local3", "local4", "local5", "local6", "local7"],
        "Facility in syslog.",
    )
    .at_start(),
    flag("always-show-logo", false, "Prints a logo.").at_start().without_effect("there is no logo"),
    flag("set-proc-title", true, "Shows addresses in the process's title.")
        .at_start()
        .without_effect("the title is left alone"),
    form(
        "proc-title-template",
        TextForm::TitleTemplate,
        "{title} {listen-addr} {server-mode}",
        "Form of the title.",
    )
    .without_effect("the title is left alone"),
    flag("crash-log-enabled", true, "Logs a report on a crash.")
        .without_effect("a panic is always reported"),
    flag("enable-debug-assert", false, "Checks more while it runs.")
        .hidden()
        .at_start()
        .without_effect("checks of this kind are part of the tests"),
    flag("use-exit-on-panic", false, "Exits instead of aborting on a failed assertion.")
        .hidden()
        .without_effect("a panic aborts"),
    flag("crash-memcheck-enabled", true, "Tests memory on a crash.")
        .without_effect("memory is not tested"),
    text("ignore-warnings", "", "Warnings not to stop for.")
        .without_effect("no warning stops the start"),
    choice(
        "oom-score-adj",
        "no",
        &["no", "yes", "relative", "absolute"],
        "Tells the kernel whom to kill first: the first of `oom-score-adj-values`, added to the \
         score that the server was started with (`yes`, `relative`) or by itself (`absolute`). A \
         score below that one needs a privilege; at start, a refusal is a line of the log.",
    ),
    Directive::new(
        "oom-score-adj-values",
        Kind::OomScores,
        "0 200 800",
        "Scores for `oom-score-adj`. The first counts; the others are for replicas and for child \
         processes, which there are none of.",
    ),
    flag("disable-thp", true, "Switches huge pages off for the process.")
        .at_start()
        .without_effect(
            "the server never forks, which is what huge pages hurt; `tidemill tune` decides by \
             evidence",
        ),
    Directive::new(
        "shutdown-on-sigint",
        Kind::Choices(SIGNALS),
        "default",
        "What SIGINT does. The server shuts down, `default`: with a save if there are save \
         points, `save`: with one in any case, `nosave`: without one, `force`: also when that \
         fails. `now`, `safe` and `failover` change nothing: there are no replicas.",
    ),
    Directive::new(
        "shutdown-on-sigterm",
        Kind::Choices(SIGNALS),
        "default",
        "What SIGTERM does, as `shutdown-on-sigint`.",
    ),
    integer("shutdown-timeout", "10", 0, I32, "Seconds a shutdown waits for replicas.")
        .without_effect("there are no replicas"),
    choice("enable-debug-command", "no", DEBUG, "Whether DEBUG is allowed.").at_start(),
    choice("enable-module-command", "no", DEBUG, "Whether MODULE is allowed.")
        .at_start()
        .without_effect(NO_MODULES),
    choice(
        "enable-protected-configs",
        "no",
        DEBUG,
        "Whether CONFIG SET may change protected directives.",
    )
    .at_start(),
    flag("extended-redis-compatibility", false, "Calls itself Redis in more places.")
        .without_effect("HELLO and `redis_version` speak of Redis in any case"),
    text("locale-collate", "", "Locale of SORT ALPHA.")
        .only(&["", "C"], "strings are compared as bytes"),
    choice(
        "acl-pubsub-default",
        "resetchannels",
        &["allchannels", "resetchannels"],
        "Channels of new users.",
    ),
    text("aclfile", "", "File of users; empty for `user` lines of the configuration.").at_start(),
    integer("acllog-max-len", "128", 0, ANY, "Entries of ACL LOG."),
    flag("lua-enable-insecure-api", false, "Gives scripts getfenv, setfenv, newproxy.")
        .aliases(&["lua-enable-deprecated-api"])
        .hidden()
        .protected(),
    integer(
        "busy-reply-threshold",
        "5000",
        0,
        ANY,
        "Milliseconds after which a script is reported busy.",
    )
    .aliases(&["lua-time-limit"]),
];
