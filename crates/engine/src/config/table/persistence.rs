//! Snapshots, and the append-only file.

use super::super::directive::{Directive, Kind};
use super::builders::{I32, choice, flag, integer, memory, text};

const NO_REPLICAS: &str = "there are no replicas";
const NO_REWRITE: &str = "the log is not rewritten";

pub(super) const DIRECTIVES: &[Directive] = &[
    Directive::new(
        "save",
        Kind::SavePoints,
        "3600 1 300 100 60 10000",
        "When a snapshot is taken: after that number of seconds with at least that number of \
         changes. `\"\"` for never.",
    ),
    flag("appendonly", false, "Logs every write.").at_start(),
    text(
        "dir",
        "",
        "Working directory, in which relative paths begin; by default the one the server \
 was started in.",
    )
    .protected(),
    text("dbfilename", "dump.rdb", "Name of the snapshot in `dir`.").protected(),
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
        "Bytes of a log after which clients are looked at while it is loaded.",
    )
    .hidden(),
    flag(
        "stop-writes-on-bgsave-error",
        true,
        "Refuses writes after a background save that failed, if there are save points.",
    ),
    choice("appendfsync", "everysec", &["everysec", "always", "no"], "When the log is synced."),
    text("appendfilename", "appendonly.aof", "Name of the log.").at_start(),
    text("appenddirname", "appendonlydir", "Directory of the log.").at_start(),
    flag("no-appendfsync-on-rewrite", false, "Does not sync while the log is rewritten.")
        .without_effect(NO_REWRITE),
    integer("auto-aof-rewrite-percentage", "100", 0, I32, "Growth that starts a rewrite.")
        .without_effect(NO_REWRITE),
    memory("auto-aof-rewrite-min-size", "67108864", 0, "Size from which growth counts.")
        .without_effect(NO_REWRITE),
    flag("aof-load-truncated", true, "Loads a log that ends early."),
    flag("aof-use-rdb-preamble", true, "Begins a log with a snapshot.").without_effect(NO_REWRITE),
    flag("aof-timestamp-enabled", false, "Writes times into the log."),
    flag("aof-rewrite-incremental-fsync", true, "Syncs a rewrite in steps.")
        .without_effect(NO_REWRITE),
];
