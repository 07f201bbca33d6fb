//! Replication, which does not exist yet.

use super::super::directive::{Directive, Kind};
use super::builders::{ANY, I32, PORT, choice, flag, integer, memory, secret, text};

const NONE: &str = "there is no replication: `replicaof` is refused";
const UNSAFE: &str = "there is no replication, so no write could be confirmed";

pub(super) const DIRECTIVES: &[Directive] = &[
    Directive::new("replicaof", Kind::Primary, "", "The primary to follow.")
        .aliases(&["slaveof"])
        .at_start()
        .only(&["", "no one"], "there is no replication"),
    integer("min-replicas-to-write", "0", 0, I32, "Replicas without which writes are refused.")
        .aliases(&["min-slaves-to-write"])
        .only(&["0"], UNSAFE),
    integer("min-replicas-max-lag", "10", 0, I32, "Seconds a replica may lag behind to count.")
        .aliases(&["min-slaves-max-lag"])
        .without_effect(NONE),
    secret("primaryauth", "Password for the primary.")
        .aliases(&["masterauth"])
        .without_effect(NONE),
    secret("primaryuser", "User for the primary.").aliases(&["masteruser"]).without_effect(NONE),
    memory(
        "repl-backlog-size",
        "10485760",
        1,
        "Bytes kept for replicas that come back, at least 16 KiB.",
    )
    .clamped(16 << 10, ANY)
    .without_effect(NONE),
    integer("repl-backlog-ttl", "3600", 0, ANY, "Seconds they are kept without replicas.")
        .without_effect(NONE),
    flag("repl-disable-tcp-nodelay", false, "Sends to replicas in larger packets.")
        .without_effect(NONE),
    choice(
        "repl-diskless-load",
        "disabled",
        &["disabled", "on-empty-db", "swapdb", "flush-before-load"],
        "How a replica loads.",
    )
    .without_effect(NONE),
    flag("repl-diskless-sync", true, "Sends snapshots without a file.").without_effect(NONE),
    integer("repl-diskless-sync-delay", "5", 0, I32, "Seconds to wait for more replicas.")
        .without_effect(NONE),
    integer("repl-diskless-sync-max-replicas", "0", 0, I32, "Replicas not to wait beyond.")
        .without_effect(NONE),
    flag("repl-mptcp", false, "Multipath TCP to the primary.").at_start().without_effect(NONE),
    integer("repl-ping-replica-period", "10", 1, I32, "Seconds between pings to replicas.")
        .aliases(&["repl-ping-slave-period"])
        .without_effect(NONE),
    integer("repl-timeout", "60", 1, I32, "Seconds of silence that end a link.")
        .without_effect(NONE),
    flag("dual-channel-replication-enabled", false, "Sends snapshot and stream at once.")
        .without_effect(NONE),
    text("replica-announce-ip", "", "Address a replica gives.")
        .aliases(&["slave-announce-ip"])
        .without_effect(NONE),
    integer("replica-announce-port", "0", 0, PORT, "Port a replica gives.")
        .aliases(&["slave-announce-port"])
        .without_effect(NONE),
    flag("replica-announced", true, "Shows a replica to sentinels.").without_effect(NONE),
    flag("replica-ignore-disk-write-errors", false, "Goes on when a replica cannot write.")
        .without_effect(NONE),
    flag("replica-ignore-maxmemory", true, "Leaves eviction to the primary.")
        .aliases(&["slave-ignore-maxmemory"])
        .without_effect(NONE),
    flag("replica-lazy-flush", true, "Flushes a replica in the background.")
        .aliases(&["slave-lazy-flush"])
        .without_effect(NONE),
    integer("replica-priority", "100", 0, I32, "Preference as the next primary.")
        .aliases(&["slave-priority"])
        .without_effect(NONE),
    flag("replica-read-only", true, "Refuses writes on a replica.")
        .aliases(&["slave-read-only"])
        .without_effect(NONE),
    flag("replica-serve-stale-data", true, "Serves reads without a link.")
        .aliases(&["slave-serve-stale-data"])
        .without_effect(NONE),
    choice(
        "propagation-error-behavior",
        "ignore",
        &["ignore", "panic", "panic-on-replicas"],
        "What a failed replicated write does.",
    )
    .without_effect(NONE),
];
