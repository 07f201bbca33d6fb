//! Declarations of the commands on the whole keyspace: a row each, then what differs from the
//! family.

use crate::command::prelude::*;

const KEYSPACE: Command = Command::whole_keyspace(Group::Generic, Categories::KEYSPACE);

const SERVER: Command = Command::whole_keyspace(Group::Server, Categories::KEYSPACE);

/// Commands that change whole databases.
const FLUSH: Command = SERVER.categories(&[Categories::KEYSPACE, Categories::DANGEROUS]);

pub(super) const KEYS: Command = KEYSPACE
    .command("keys", 2, "1.0.0", "Answers all keys that match a pattern.")
    .complexity(
        "O(N) with N being the number of keys in the database, under the assumption that the key \
         names in the database and the given pattern have limited length.",
    )
    .flags(&[READONLY])
    .categories(&[Categories::DANGEROUS, Categories::KEYSPACE])
    .arguments(&[pattern("pattern")])
    .tips(&["request_policy:all_shards", "nondeterministic_output_order"]);

pub(super) const SCAN: Command = KEYSPACE
    .command("scan", -2, "2.8.0", "Walks the keys step by step.")
    .complexity(
        "O(1) for every call. O(N) for a complete iteration, including enough command calls for \
         the cursor to return back to 0. N is the number of elements inside the collection.",
    )
    .flags(&[READONLY])
    .arguments(&[
        integer("cursor"),
        pattern("pattern").token("MATCH").optional(),
        integer("count").token("COUNT").optional(),
        string("type").token("TYPE").optional().since("6.0.0"),
    ])
    .tips(&["nondeterministic_output", "request_policy:special", "response_policy:special"])
    .history(&[("6.0.0", "Added the `TYPE` option.")]);

pub(super) const RANDOMKEY: Command = KEYSPACE
    .command("randomkey", 1, "1.0.0", "Answers some key.")
    .flags(&[READONLY])
    .tips(&["request_policy:all_shards", "response_policy:special", "nondeterministic_output"]);

pub(super) const DBSIZE: Command = SERVER
    .command("dbsize", 1, "1.0.0", "Counts the keys of the database.")
    .flags(&[READONLY, FAST])
    .tips(&["request_policy:all_shards", "response_policy:agg_sum"]);

pub(super) const FLUSHDB: Command = FLUSH
    .command("flushdb", -1, "1.0.0", "Deletes all keys of the database.")
    .complexity("O(N) where N is the number of keys in the selected database")
    .flags(&[WRITE])
    .arguments(&[one_of(
        "flush-type",
        &[word("ASYNC").since("4.0.0"), word("SYNC").since("6.2.0")],
    )
    .optional()])
    .tips(&["request_policy:all_shards", "response_policy:all_succeeded"])
    .history(&[
        ("4.0.0", "Added the `ASYNC` flushing mode modifier."),
        ("6.2.0", "Added the `SYNC` flushing mode modifier."),
    ]);

pub(super) const FLUSHALL: Command = FLUSHDB
    .command("flushall", -1, "1.0.0", "Deletes all keys of all databases.")
    .complexity("O(N) where N is the total number of keys in all databases")
    .databases(Databases::All);

pub(super) const SWAPDB: Command = FLUSH
    .command("swapdb", 3, "4.0.0", "Exchanges two databases.")
    .complexity(
        "O(N) where N is the count of clients watching or blocking on keys from both databases.",
    )
    .flags(&[WRITE, FAST])
    .databases(Databases::Numbered(|_, positions| positions.extend([1, 2])))
    .arguments(&[integer("index1"), integer("index2")]);
