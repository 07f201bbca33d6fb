//! Declarations of the commands of a cluster.

use crate::command::prelude::*;

const UNORDERED: &[&str] = &["nondeterministic_output"];

const FAMILY: Command = Command::session(Group::Cluster, Categories::empty());

/// Subcommands that tell about the cluster.
const TELLING: Command = FAMILY.flags(&[LOADING, STALE]).tips(UNORDERED);

/// Subcommands that change the cluster.
const CHANGING: Command = FAMILY
    .flags(&[ADMIN, STALE, NO_ASYNC_LOADING])
    .categories(&[Categories::ADMIN, Categories::DANGEROUS]);

/// Switches of a connection.
const SWITCH: Command = Command::session(Group::Cluster, Categories::CONNECTION);

pub(super) const ASKING_ONCE: Command = SWITCH
    .command("asking", 1, "3.0.0", "Lets the next command follow an ASK redirect.")
    .flags(&[FAST]);

pub(super) const READONLY_CONNECTION: Command = SWITCH
    .command("readonly", 1, "3.0.0", "Lets the connection read from a replica.")
    .flags(&[LOADING, STALE, FAST]);

pub(super) const READWRITE_CONNECTION: Command = SWITCH
    .command("readwrite", 1, "3.0.0", "Has a replica redirect the connection's reads.")
    .flags(&[LOADING, STALE, FAST]);

pub(super) const CLUSTER: Command = FAMILY.container(
    "cluster",
    "3.0.0",
    "Tells about the cluster.",
    &[
        &CLUSTER_ADDSLOTS,
        &CLUSTER_ADDSLOTSRANGE,
        &CLUSTER_BUMPEPOCH,
        &CLUSTER_CANCELSLOTMIGRATIONS,
        &CLUSTER_COUNTKEYSINSLOT,
        &CLUSTER_COUNT_FAILURE_REPORTS,
        &CLUSTER_DELSLOTS,
        &CLUSTER_DELSLOTSRANGE,
        &CLUSTER_FAILOVER,
        &CLUSTER_FLUSHSLOT,
        &CLUSTER_FLUSHSLOTS,
        &CLUSTER_FORGET,
        &CLUSTER_GETKEYSINSLOT,
        &CLUSTER_GETSLOTMIGRATIONS,
        &CLUSTER_HELP,
        &CLUSTER_INFO,
        &CLUSTER_KEYSLOT,
        &CLUSTER_LINKS,
        &CLUSTER_MEET,
        &CLUSTER_MIGRATESLOTS,
        &CLUSTER_MYID,
        &CLUSTER_MYSHARDID,
        &CLUSTER_NODES,
        &CLUSTER_REPLICAS,
        &CLUSTER_REPLICATE,
        &CLUSTER_RESET,
        &CLUSTER_SAVECONFIG,
        &CLUSTER_SETSLOT,
        &CLUSTER_SET_CONFIG_EPOCH,
        &CLUSTER_SHARDS,
        &CLUSTER_SLAVES,
        &CLUSTER_SLOTS,
        &CLUSTER_SLOT_STATS,
        &CLUSTER_SYNCSLOTS,
    ],
);

pub(super) const CLUSTER_COUNTKEYSINSLOT: Command = FAMILY
    .command("cluster|countkeysinslot", 3, "3.0.0", "Counts the keys of a slot.")
    .flags(&[STALE])
    .arguments(&[integer("slot")]);

pub(super) const CLUSTER_GETKEYSINSLOT: Command = FAMILY
    .command("cluster|getkeysinslot", 4, "3.0.0", "Lists keys of a slot.")
    .complexity("O(N) where N is the number of requested keys")
    .flags(&[STALE])
    .arguments(&[integer("slot"), integer("count")])
    .tips(UNORDERED);

pub(super) const CLUSTER_HELP: Command = FAMILY.help("cluster|help", "5.0.0");

pub(super) const CLUSTER_INFO: Command =
    TELLING.command("cluster|info", 2, "3.0.0", "Describes the cluster as this node sees it.");

pub(super) const CLUSTER_KEYSLOT: Command = FAMILY
    .command("cluster|keyslot", 3, "3.0.0", "Finds the slot of a key.")
    .complexity("O(N) where N is the number of bytes in the key")
    .flags(&[STALE])
    .arguments(&[string("key")]);

pub(super) const CLUSTER_LINKS: Command = FAMILY
    .command("cluster|links", 2, "7.0.0", "Lists the connections between this node and others.")
    .complexity("O(N) where N is the total number of Cluster nodes")
    .flags(&[STALE])
    .tips(UNORDERED);

pub(super) const CLUSTER_MYID: Command =
    TELLING.command("cluster|myid", 2, "3.0.0", "Tells this node's id.").tips(&[]);

pub(super) const CLUSTER_MYSHARDID: Command =
    TELLING.command("cluster|myshardid", 2, "7.2.0", "Tells the id of this node's shard.");

pub(super) const CLUSTER_NODES: Command = TELLING
    .command("cluster|nodes", 2, "3.0.0", "Lists the nodes with what they serve.")
    .complexity("O(N) where N is the total number of Cluster nodes");

pub(super) const CLUSTER_SHARDS: Command = TELLING
    .command("cluster|shards", 2, "7.0.0", "Lists the shards with their slots and nodes.")
    .complexity("O(N) where N is the total number of cluster nodes")
    .history(&[("9.1.0", "Added the `id` of a shard and the `availability-zone` of a node.")]);

pub(super) const CLUSTER_SLOTS: Command = TELLING
    .command("cluster|slots", 2, "3.0.0", "Lists ranges of slots with the nodes that serve them.")
    .complexity("O(N) where N is the total number of Cluster nodes")
    .history(&[
        ("4.0.0", "Added the ids of nodes."),
        ("7.0.0", "Added further names and addresses of nodes."),
        ("9.1.0", "Added the `availability-zone` of a node."),
    ]);

pub(super) const CLUSTER_ADDSLOTS: Command = CHANGING
    .command("cluster|addslots", -3, "3.0.0", "Assigns slots to this node.")
    .complexity("O(N) where N is the total number of hash slot arguments")
    .arguments(&[integer("slot").multiple()]);

pub(super) const CLUSTER_ADDSLOTSRANGE: Command = CHANGING
    .command("cluster|addslotsrange", -4, "7.0.0", "Assigns ranges of slots to this node.")
    .complexity("O(N) where N is the number of slots in all ranges")
    .arguments(&[block("range", &[integer("start-slot"), integer("end-slot")]).multiple()]);

pub(super) const CLUSTER_BUMPEPOCH: Command = CHANGING
    .command("cluster|bumpepoch", 2, "3.0.0", "Raises the configuration epoch.")
    .tips(UNORDERED);

pub(super) const CLUSTER_CANCELSLOTMIGRATIONS: Command = CHANGING
    .command("cluster|cancelslotmigrations", 2, "9.0.0", "Cancels all migrations of slots.")
    .complexity("O(N), where N is the number of slot migration operations being cancelled.")
    .databases(Databases::All);

pub(super) const CLUSTER_COUNT_FAILURE_REPORTS: Command = FAMILY
    .command(
        "cluster|count-failure-reports",
        3,
        "3.0.0",
        "Counts the reports that a node has failed.",
    )
    .complexity("O(N) where N is the number of failure reports")
    .flags(&[ADMIN, STALE])
    .categories(&[Categories::ADMIN, Categories::DANGEROUS])
    .arguments(&[string("node-id")])
    .tips(UNORDERED)
    .history(&[("9.0.0", "Reports about a node that was found failed are not counted.")]);

pub(super) const CLUSTER_DELSLOTS: Command = CHANGING
    .command("cluster|delslots", -3, "3.0.0", "Unbinds slots from this node.")
    .complexity("O(N) where N is the total number of hash slot arguments")
    .arguments(&[integer("slot").multiple()]);

pub(super) const CLUSTER_DELSLOTSRANGE: Command = CHANGING
    .command("cluster|delslotsrange", -4, "7.0.0", "Unbinds ranges of slots from this node.")
    .complexity("O(N) where N is the number of slots in all ranges")
    .arguments(&[block("range", &[integer("start-slot"), integer("end-slot")]).multiple()]);

pub(super) const CLUSTER_FAILOVER: Command = CHANGING
    .command("cluster|failover", -2, "3.0.0", "Makes a replica the primary.")
    .arguments(&[one_of("options", &[word("FORCE"), word("TAKEOVER")]).optional()]);

pub(super) const CLUSTER_FLUSHSLOT: Command = FAMILY
    .command("cluster|flushslot", -3, "9.0.0", "Deletes the keys of a slot.")
    .complexity("O(N) where N is the number of keys in the target slot")
    .flags(&[WRITE, ADMIN, NO_ASYNC_LOADING])
    .categories(&[Categories::KEYSPACE, Categories::ADMIN, Categories::DANGEROUS])
    .arguments(&[integer("slot"), one_of("flush-type", &[word("ASYNC"), word("SYNC")]).optional()])
    .databases(Databases::All);

pub(super) const CLUSTER_FLUSHSLOTS: Command =
    CHANGING.command("cluster|flushslots", 2, "3.0.0", "Forgets all slots of this node.");

pub(super) const CLUSTER_FORGET: Command = CHANGING
    .command("cluster|forget", 3, "3.0.0", "Removes a node from the table.")
    .arguments(&[string("node-id")]);

pub(super) const CLUSTER_GETSLOTMIGRATIONS: Command = CHANGING
    .command(
        "cluster|getslotmigrations",
        2,
        "9.0.0",
        "Lists migrations of slots, running and ended.",
    )
    .complexity("O(N), where N is the number of active slot import and export jobs.");

pub(super) const CLUSTER_MEET: Command = CHANGING
    .command("cluster|meet", -4, "3.0.0", "Joins this node with another.")
    .arguments(&[
        string("ip"),
        integer("port"),
        integer("cluster-bus-port").optional().since("4.0.0"),
    ])
    .history(&[("4.0.0", "Added the `cluster-bus-port` argument.")]);

pub(super) const CLUSTER_MIGRATESLOTS: Command = CHANGING
    .command("cluster|migrateslots", -4, "9.0.0", "Moves slots to other nodes.")
    .complexity("O(N) where N is the number of slots in all ranges")
    .arguments(&[block(
        "migration-group",
        &[
            word("SLOTSRANGE").named("slotsrange-token"),
            block("range", &[integer("start-slot"), integer("end-slot")]).multiple(),
            word("NODE").named("node-token"),
            string("node-id"),
        ],
    )
    .multiple()])
    .databases(Databases::All);

pub(super) const CLUSTER_REPLICAS: Command = FAMILY
    .command("cluster|replicas", 3, "5.0.0", "Lists the replicas of a primary.")
    .complexity("O(N) where N is the number of replicas.")
    .flags(&[ADMIN, STALE])
    .categories(&[Categories::ADMIN, Categories::DANGEROUS])
    .arguments(&[string("node-id")])
    .tips(UNORDERED);

pub(super) const CLUSTER_REPLICATE: Command = CHANGING
    .command("cluster|replicate", -3, "3.0.0", "Makes this node a replica, or a primary.")
    .arguments(&[one_of(
        "args",
        &[string("node-id"), block("no-one", &[word("NO"), word("ONE")]).since("9.0.0")],
    )])
    .history(&[("9.0.0", "Added `NO ONE`.")]);

pub(super) const CLUSTER_RESET: Command = FAMILY
    .command("cluster|reset", -2, "3.0.0", "Makes the node forget its cluster.")
    .complexity("O(N) where N is the number of known nodes, besides a FLUSHALL")
    .flags(&[ADMIN, NOSCRIPT, STALE])
    .categories(&[Categories::ADMIN, Categories::DANGEROUS])
    .arguments(&[one_of("reset-type", &[word("HARD"), word("SOFT")]).optional()]);

pub(super) const CLUSTER_SAVECONFIG: Command = CHANGING.command(
    "cluster|saveconfig",
    2,
    "3.0.0",
    "Writes the configuration of the cluster to disk.",
);

pub(super) const CLUSTER_SET_CONFIG_EPOCH: Command = CHANGING
    .command("cluster|set-config-epoch", 3, "3.0.0", "Sets the configuration epoch of a new node.")
    .arguments(&[integer("config-epoch")]);

pub(super) const CLUSTER_SETSLOT: Command = CHANGING
    .command("cluster|setslot", -4, "3.0.0", "Binds a slot to a node.")
    .arguments(&[
        integer("slot"),
        one_of(
            "subcommand",
            &[
                string("importing").token("IMPORTING").display("node-id"),
                string("migrating").token("MIGRATING").display("node-id"),
                string("node").token("NODE").display("node-id"),
                word("STABLE"),
            ],
        ),
        integer("timeout").token("TIMEOUT").optional().since("8.0.0"),
    ])
    .history(&[("8.0.0", "Added the `TIMEOUT` option.")]);

pub(super) const CLUSTER_SLAVES: Command = FAMILY
    .command("cluster|slaves", 3, "3.0.0", "Lists the replicas of a primary.")
    .complexity("O(N) where N is the number of replicas.")
    .flags(&[ADMIN, STALE])
    .categories(&[Categories::ADMIN, Categories::DANGEROUS])
    .arguments(&[string("node-id")])
    .tips(UNORDERED)
    .deprecated("5.0.0", "`CLUSTER REPLICAS`");

pub(super) const CLUSTER_SLOT_STATS: Command = FAMILY
    .command("cluster|slot-stats", -4, "8.0.0", "Tells what the slots of this node hold and take.")
    .complexity("O(N) where N is the number of slots, O(N*log(N)) with ORDERBY")
    .flags(&[LOADING, STALE])
    .arguments(&[one_of(
        "filter",
        &[
            block("slotsrange", &[integer("start-slot"), integer("end-slot")]).token("SLOTSRANGE"),
            block(
                "orderby",
                &[
                    string("metric"),
                    integer("limit").token("LIMIT").optional(),
                    one_of("order", &[word("ASC"), word("DESC")]).optional(),
                ],
            )
            .token("ORDERBY"),
        ],
    )])
    .tips(&["nondeterministic_output", "request_policy:all_shards"]);

pub(super) const CLUSTER_SYNCSLOTS: Command = CHANGING
    .command("cluster|syncslots", -3, "9.0.0", "Speaks the internal protocol of migrations.")
    .more_flags(&[SYSTEM])
    .complexity("Depends on subcommand.");
