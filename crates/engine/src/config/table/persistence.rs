//! Snapshots and the append-only log, which do not exist yet.

use super::super::directive::{Directive, Kind};
use super::builders::{I32, choice, flag, integer, memory, text};

const NO_SNAPSHOT: &str = "there are no snapshots: `save` is refused";
const NO_LOG: &str = "there is no append-only log: `appendonly` is refused";

pub(super) const DIRECTIVES: &[Directive] = &[
    Directive::new("save", Kind::SavePoints, "", "When a snapshot is taken.")
        .only(&[""], "there are no snapshots"),
    flag("appendonly", false, "Logs every write.").only(&["no"], "there is no append-only log"),
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
    choice("appendfsync", "everysec", &["everysec", "always", "no"], "When the log is synced.")
        .without_effect(NO_LOG),
    text("appendfilename", "appendonly.aof", "Name of the log.").at_start().without_effect(NO_LOG),
    text("appenddirname", "appendonlydir", "Directory of the log.")
        .at_start()
        .without_effect(NO_LOG),
    flag("no-appendfsync-on-rewrite", false, "Does not sync while the log is rewritten.")
        .without_effect(NO_LOG),
    integer("auto-aof-rewrite-percentage", "100", 0, I32, "Growth that starts a rewrite.")
        .without_effect(NO_LOG),
    memory("auto-aof-rewrite-min-size", "67108864", 0, "Size from which growth counts.")
        .without_effect(NO_LOG),
    flag("aof-load-truncated", true, "Loads a log that ends early.").without_effect(NO_LOG),
    flag("aof-use-rdb-preamble", true, "Begins a log with a snapshot.").without_effect(NO_LOG),
    flag("aof-timestamp-enabled", false, "Writes times into the log.").without_effect(NO_LOG),
    flag("aof-rewrite-incremental-fsync", true, "Syncs a rewrite in steps.").without_effect(NO_LOG),
];
