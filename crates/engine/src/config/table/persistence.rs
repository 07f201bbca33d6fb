//! Snapshots, which do not exist yet, and the append-only file.

use super::super::directive::{Directive, Kind};
use super::builders::{I32, choice, flag, integer, memory, text};

const NO_SNAPSHOT: &str = "there are no snapshots: `save` is refused";
const NO_REWRITE: &str = "the log is not rewritten";

pub(super) const DIRECTIVES: &[Directive] = &[
    Directive::new("save", Kind::SavePoints, "", "When a snapshot is taken.")
        .only(&[""], "there are no snapshots"),
    flag("appendonly", false, "Logs every write.").at_start(),
    text(
        "dir",
        "",
        "Working directory, in which relative paths begin; by default the one the server \
 was started in.",
    )
    .protected(),
    text("dbfilename", "dump.rdb", "File of the snapshot.").protected().without_effect(NO_SNAPSHOT),
    flag("rdbcompression", true, "Compresses long strings in the payloads of `DUMP`."),
    flag("rdbchecksum", true, "Ends snapshots with a checksum.")
        .at_start()
        .without_effect(NO_SNAPSHOT),
    choice(
        "rdb-version-check",
        "strict",
        &["strict", "relaxed"],
        "Whether `RESTORE` refuses payloads of unknown versions, and those that only Redis has.",
    ),
    flag("rdb-save-incremental-fsync", true, "Syncs snapshots in steps.")
        .without_effect(NO_SNAPSHOT),
    flag("rdb-del-sync-files", false, "Removes snapshots made for replicas.")
        .without_effect(NO_SNAPSHOT),
    flag("stop-writes-on-bgsave-error", true, "Refuses writes after a failed snapshot.")
        .without_effect(NO_SNAPSHOT),
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
