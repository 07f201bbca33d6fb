//! Databases, encodings, memory and expiry.

use tidemill_store::limits::DATABASES_MAX;

use super::super::directive::{Directive, Kind};
use super::builders::{ANY, I32, choice, flag, integer, memory, text, unsigned_memory};

const ALWAYS_LAZY: &str =
    "memory is always freed after a grace period, large values on a background thread";
const POLICIES: &[&str] = &[
    "volatile-lru",
    "volatile-lfu",
    "volatile-random",
    "volatile-ttl",
    "allkeys-lru",
    "allkeys-lfu",
    "allkeys-random",
    "noeviction",
];

pub(super) const DIRECTIVES: &[Directive] = &[
    integer(
        "databases",
        "16",
        1,
        DATABASES_MAX as i64,
        "How many databases SELECT knows. One that was never written takes 8 bytes.",
    )
    .at_start(),
    unsigned_memory(
        "maxmemory",
        "0",
        "Bytes of live data and of clients' buffers beyond which keys are evicted, or writes \
         refused; 0 for no limit. What waits for readers or for a background thread to be freed \
         does not count: `rcu-retired-max` bounds it.",
    ),
    choice("maxmemory-policy", "noeviction", POLICIES, "Which keys make room for new ones."),
    integer("maxmemory-samples", "5", 1, 64, "Keys compared per eviction."),
    integer(
        "maxmemory-eviction-tenacity",
        "10",
        0,
        100,
        "Time that eviction takes before other clients have their turn: 50 us each up to 10, 15 % \
         more with each above, no bound with 100.",
    ),
    integer("lfu-log-factor", "10", 0, I32, "How slowly a key's frequency grows."),
    integer("lfu-decay-time", "1", 0, I32, "Minutes after which a key's frequency drops by one."),
    integer(
        "hz",
        "10",
        0,
        I32,
        "Rounds of background work per second; below 1 is 1, above 500 is 500.",
    )
    .clamped(1, 500)
    .without_effect("workers do their periodic work ten times a second"),
    integer(
        "active-expire-effort",
        "1",
        1,
        10,
        "Effort of the sweep for expired keys: each step gives it 2 % of the time more, from 25 % \
         on, while more than 10 % of what it meets has expired, each step 1 % less.",
    ),
    Directive::new(
        "notify-keyspace-events",
        Kind::KeyspaceEvents,
        "",
        "Classes of events published for keys.",
    ),
    integer(
        "hash-max-listpack-entries",
        "512",
        0,
        ANY,
        "Fields up to which a hash calls itself `listpack`.",
    )
    .aliases(&["hash-max-ziplist-entries"]),
    memory("hash-max-listpack-value", "64", 0, "Bytes of a field or value up to which it does.")
        .aliases(&["hash-max-ziplist-value"]),
    integer(
        "list-max-listpack-size",
        "-2",
        -I32 - 1,
        I32,
        "Elements, or if negative 4 KiB and doubling, up to which a list calls itself `listpack`.",
    )
    .aliases(&["list-max-ziplist-size"]),
    integer(
        "list-compress-depth",
        "0",
        0,
        I32,
        "Nodes at the ends of a list that are not compressed.",
    )
    .without_effect("lists are not compressed"),
    integer(
        "set-max-intset-entries",
        "512",
        0,
        ANY,
        "Members up to which a set of integers calls itself `intset`.",
    ),
    integer(
        "set-max-listpack-entries",
        "128",
        0,
        ANY,
        "Members up to which a set calls itself `listpack`.",
    ),
    integer("set-max-listpack-value", "64", 0, ANY, "Bytes of a member up to which it does."),
    integer(
        "zset-max-listpack-entries",
        "128",
        0,
        ANY,
        "Members up to which a sorted set calls itself `listpack`.",
    )
    .aliases(&["zset-max-ziplist-entries"]),
    memory("zset-max-listpack-value", "64", 0, "Bytes of a member up to which it does.")
        .aliases(&["zset-max-ziplist-value"]),
    memory("hll-sparse-max-bytes", "3000", 0, "Bytes up to which a HyperLogLog stays sparse."),
    memory(
        "stream-node-max-bytes",
        "4096",
        0,
        "Bytes of the nodes that trimming with `~` removes as a whole; 0 is the most there can be.",
    ),
    integer(
        "stream-node-max-entries",
        "100",
        0,
        ANY,
        "Entries of the nodes that trimming with `~` removes as a whole; 0 is no limit.",
    ),
    flag(
        "lazyfree-lazy-user-flush",
        true,
        "FLUSHALL and FLUSHDB free in the background by default.",
    ),
    flag(
        "lazyfree-lazy-eviction",
        true,
        "Evicted keys are journaled as UNLINK and not as DEL. Memory is freed after a grace period \
         in any case.",
    ),
    flag("lazyfree-lazy-expire", true, "Expiry frees in the background.")
        .without_effect(ALWAYS_LAZY),
    flag("lazyfree-lazy-server-del", true, "Overwriting frees in the background.")
        .without_effect(ALWAYS_LAZY),
    flag("lazyfree-lazy-user-del", true, "DEL frees in the background.")
        .without_effect(ALWAYS_LAZY),
    flag("activerehashing", true, "Resizes tables in the background.")
        .without_effect("tables are always resized in steps"),
    text(
        "hash-seed",
        "",
        "Text that the seeds of all hashes are made of, so that servers of one build give SCAN the \
         same order; empty for random ones, which nobody can guess keys for.",
    )
    .at_start(),
    flag(
        "jemalloc-bg-thread",
        true,
        "Returns freed memory to the system from a background thread, within some ten seconds. \
         Without it the workers do so beside their commands, and an idle server keeps the memory.",
    ),
    flag(
        "activedefrag",
        false,
        "Moves keys and values out of sparsely used pages of memory, beside the commands.",
    ),
    integer(
        "active-defrag-cycle-max",
        "25",
        1,
        99,
        "Percent of each worker's time for it, from active-defrag-threshold-upper on.",
    ),
    integer(
        "active-defrag-cycle-min",
        "1",
        1,
        99,
        "Percent of each worker's time for it, at active-defrag-threshold-lower.",
    ),
    integer(
        "active-defrag-cycle-us",
        "500",
        0,
        100_000,
        "Microseconds of one step of it, by and large.",
    ),
    memory(
        "active-defrag-ignore-bytes",
        "104857600",
        1,
        "Unused memory in used pages below which nothing is moved.",
    ),
    integer(
        "active-defrag-max-scan-fields",
        "1000",
        1,
        ANY,
        "Elements of a collection that it looks at in one go, under the lock of the key's slot.",
    ),
    integer(
        "active-defrag-threshold-lower",
        "10",
        0,
        1000,
        "Percent of unused memory in used pages that starts it.",
    ),
    integer(
        "active-defrag-threshold-upper",
        "100",
        0,
        1000,
        "Percent of unused memory in used pages from which on it has its most time.",
    ),
    flag(
        "import-mode",
        false,
        "Keeps what has expired until it is written to, and evicts nothing: clients that are \
         CLIENT IMPORT-SOURCE see expired keys and delete them.",
    ),
];
