//! Snapshots, and the append-only file.

use super::super::directive::{Directive, Kind};
use super::super::text_form::TextForm;
use super::builders::{I32, choice, flag, form, integer, memory, text};

const NO_REPLICAS: &str = "there are no replicas";

const fn base_name(of: &'static str, kind: &'static str) -> TextForm {
    TextForm::BaseName { of, kind }
}

pub(super) const DIRECTIVES: &[Directive] = &[
    Directive::new(
        "save",
        Kind::SavePoints,
        "3600 1 300 100 60 10000",
        "When a snapshot is taken: after that number of seconds with at least that number of \
         changes. `\"\"` for never.",
    ),
    flag(
        "appendonly",
        false,
        "Logs every write. Switched on while the server runs, it counts once its first base is \
         written.",
    ),
    text(
        "dir",
        "",
        "Working directory, in which relative paths begin; by default the one the server \
 was started in.",
    )
    .protected()
    .reread(),
    form(
        "dbfilename",
        base_name("dbfilename", "filename"),
        "dump.rdb",
        "Name of the snapshot in `dir`.",
    )
    .protected(),
    flag(
        "rdbcompression",
        true,
        "Compresses long strings in snapshots and in the payloads of `DUMP`.",
    ),
    flag("rdbchecksum", true, "Ends snapshots with a checksum, and compares that of a file.")
        .at_start(),
    choice(
        "rdb-version-check",
        "strict",
        &["strict", "relaxed"],
        "Whether files of unknown versions are refused, and payloads of those and of versions that \
         only Redis has.",
    ),
    flag("rdb-save-incremental-fsync", true, "Syncs snapshots while they are written."),
    flag("rdb-del-sync-files", false, "Removes snapshots made for replicas.")
        .without_effect(NO_REPLICAS),
    integer(
        "rdb-key-save-delay",
        "0",
        -I32 - 1,
        I32,
        "For tests: pause behind each key of a \
         snapshot, in microseconds; -N, one microsecond in N keys.",
    )
    .hidden(),
    integer(
        "key-load-delay",
        "0",
        -I32 - 1,
        I32,
        "For tests: pause behind each key that is loaded, in microseconds; -N, one microsecond in \
         N keys.",
    )
    .hidden(),
    integer(
        "loading-process-events-interval-bytes",
        "2097152",
        1024,
        I32,
        "Bytes of files up to which data is loaded at a start before clients are accepted; with \
         more, they are answered while it is loaded.",
    )
    .hidden(),
    flag(
        "stop-writes-on-bgsave-error",
        true,
        "Refuses writes after a background save that failed, if there are save points.",
    ),
    choice("appendfsync", "everysec", &["everysec", "always", "no"], "When the log is synced."),
    form(
        "appendfilename",
        base_name("appendfilename", "filename"),
        "appendonly.aof",
        "Name of the log.",
    )
    .at_start(),
    form(
        "appenddirname",
        base_name("appenddirname", "dirname"),
        "appendonlydir",
        "Directory of the log.",
    )
    .at_start(),
    flag(
        "no-appendfsync-on-rewrite",
        false,
        "Does not sync every second while a snapshot or a base is written. `appendfsync always` \
         is not concerned.",
    ),
    integer(
        "auto-aof-rewrite-percentage",
        "100",
        0,
        I32,
        "Growth that starts a rewrite of the log, in percent of its size behind the last one; 0 \
         for never.",
    ),
    memory(
        "auto-aof-rewrite-min-size",
        "67108864",
        0,
        "Size of the log from which it is rewritten by itself.",
    ),
    flag("aof-load-truncated", true, "Loads a log that ends early."),
    flag("aof-use-rdb-preamble", true, "Makes the base of a log a snapshot, not commands."),
    flag("aof-timestamp-enabled", false, "Writes times into the log."),
    flag("aof-disable-auto-gc", false, "For tests: keeps the files that a base replaces.").hidden(),
    flag("aof-rewrite-incremental-fsync", true, "Syncs a base while it is written."),
];
