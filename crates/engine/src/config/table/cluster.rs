//! Cluster mode, which does not exist yet.

use super::super::directive::Directive;
use super::super::text_form::TextForm;
use super::builders::{ANY, I32, PORT, choice, flag, form, integer, memory, text, unsigned_memory};

const NONE: &str = "there is no cluster mode: `cluster-enabled` is refused";

pub(super) const DIRECTIVES: &[Directive] = &[
    flag("cluster-enabled", false, "Joins a cluster.")
        .at_start()
        .only(&["no"], "there is no cluster mode"),
    flag(
        "cluster-allow-pubsubshard-when-down",
        true,
        "Serves sharded channels while slots are missing.",
    )
    .without_effect(NONE),
    flag("cluster-allow-reads-when-down", false, "Serves reads while slots are missing.")
        .without_effect(NONE),
    flag("cluster-allow-replica-migration", true, "Lets replicas move.").without_effect(NONE),
    integer("cluster-announce-bus-port", "0", 0, PORT, "Bus port given to nodes.")
        .without_effect(NONE),
    form("cluster-announce-client-ipv4", TextForm::Ipv4, "", "Address given to clients.")
        .without_effect(NONE),
    form("cluster-announce-client-ipv6", TextForm::Ipv6, "", "Address given to clients.")
        .without_effect(NONE),
    integer("cluster-announce-client-port", "0", 0, PORT, "Port given to clients.")
        .without_effect(NONE),
    integer("cluster-announce-client-tls-port", "0", 0, PORT, "TLS port given to clients.")
        .without_effect(NONE),
    form("cluster-announce-hostname", TextForm::HostName, "", "Name given to clients.")
        .without_effect(NONE),
    form("cluster-announce-human-nodename", TextForm::NodeName, "", "Name in logs.")
        .without_effect(NONE),
    form("cluster-announce-ip", TextForm::NodeAddress, "", "Address given to nodes.")
        .without_effect(NONE),
    integer("cluster-announce-port", "0", 0, PORT, "Port given to nodes.").without_effect(NONE),
    integer("cluster-announce-tls-port", "0", 0, PORT, "TLS port given to nodes.")
        .without_effect(NONE),
    integer("cluster-blacklist-ttl", "60", i64::MIN, ANY, "Seconds a forgotten node stays out.")
        .without_effect(NONE),
    text("cluster-config-file", "nodes.conf", "File of the cluster's state.")
        .at_start()
        .without_effect(NONE),
    choice(
        "cluster-config-save-behavior",
        "sync",
        &["sync", "best-effort"],
        "What a failed write of it does.",
    )
    .without_effect(NONE),
    integer("cluster-databases", "1", 1, I32, "Databases in cluster mode.")
        .at_start()
        .without_effect(NONE),
    unsigned_memory("cluster-link-sendbuf-limit", "0", "Bytes unsent to a node.")
        .without_effect(NONE),
    integer(
        "cluster-manual-failover-timeout",
        "5000",
        1,
        I32,
        "Milliseconds of a manual failover.",
    )
    .without_effect(NONE),
    integer("cluster-migration-barrier", "1", 0, I32, "Replicas a primary keeps.")
        .without_effect(NONE),
    integer("cluster-node-timeout", "15000", 0, ANY, "Milliseconds after which a node is failing.")
        .without_effect(NONE),
    integer("cluster-port", "0", 0, PORT, "Port of the bus.").at_start().without_effect(NONE),
    choice(
        "cluster-preferred-endpoint-type",
        "ip",
        &["ip", "hostname", "unknown-endpoint"],
        "What clients are redirected to.",
    )
    .without_effect(NONE),
    flag("cluster-replica-no-failover", false, "Never fails over.")
        .aliases(&["cluster-slave-no-failover"])
        .without_effect(NONE),
    integer(
        "cluster-replica-validity-factor",
        "10",
        0,
        I32,
        "How stale a replica may be to fail over.",
    )
    .aliases(&["cluster-slave-validity-factor"])
    .without_effect(NONE),
    flag("cluster-require-full-coverage", true, "Serves nothing while slots are missing.")
        .without_effect(NONE),
    integer("cluster-slot-migration-log-max-len", "1000", 0, ANY, "Migrations remembered.")
        .without_effect(NONE),
    flag("cluster-slot-stats-enabled", false, "Counts per slot.").without_effect(NONE),
    memory(
        "slot-migration-max-failover-repl-bytes",
        "0",
        -1,
        "Bytes that may be missing at the switch.",
    )
    .without_effect(NONE),
];
