//! Declarations of the commands on keys of any type: a row each, then what differs from the family.

use crate::command::prelude::*;

const GENERIC: Command = Command::keyed(Group::Generic, Categories::KEYSPACE);

pub(super) const DEL: Command = GENERIC
    .command("del", -2, "1.0.0", "Deletes keys.")
    .complexity(
        "O(N) where N is the number of keys that will be removed. When a key to remove holds a \
         value other than a string, the individual complexity for this key is O(M) where M is \
         the number of elements in the list, set, sorted set or hash. Removing a single key that \
         holds a string value is O(1).",
    )
    .flags(&[WRITE])
    .keys(&[KeySpec::all(&[RM, DELETE])])
    .arguments(&[key("key").multiple()])
    .tips(&["request_policy:multi_shard", "response_policy:agg_sum"]);

pub(super) const UNLINK: Command = DEL
    .command("unlink", -2, "4.0.0", "Deletes keys; their memory is freed in the background.")
    .complexity(
        "O(1) for each key removed regardless of its size. Then the command does O(N) work in a \
         different thread in order to reclaim memory, where N is the number of allocations the \
         deleted objects where composed of.",
    )
    .more_flags(&[FAST]);

pub(super) const EXISTS: Command = GENERIC
    .command("exists", -2, "1.0.0", "Counts how many of the keys exist.")
    .complexity("O(N) where N is the number of keys to check.")
    .flags(&[READONLY, FAST])
    .keys(&[KeySpec::all(&[RO])])
    .arguments(&[key("key").multiple()])
    .tips(&["request_policy:multi_shard", "response_policy:agg_sum"])
    .history(&[("3.0.3", "Takes several keys.")]);

pub(super) const TYPE: Command = GENERIC
    .command("type", 2, "1.0.0", "Answers the type of a key.")
    .flags(&[READONLY, FAST])
    .keys(&[KeySpec::first(&[RO])])
    .arguments(&[key("key")]);

pub(super) const TOUCH: Command = EXISTS
    .command("touch", -2, "3.2.1", "Counts keys and marks them as used.")
    .complexity("O(N) where N is the number of keys that will be touched.")
    .history(&[]);

pub(super) const EXPIRE: Command = GENERIC
    .command("expire", -3, "1.0.0", "Lets a key expire after some seconds.")
    .flags(&[WRITE, FAST])
    .keys(&[KeySpec::first(&[RW, UPDATE])])
    .arguments(&[key("key"), integer("seconds"), EXPIRY_CONDITION.since("7.0.0")])
    .history(&[("7.0.0", "Added options: `NX`, `XX`, `GT` and `LT`.")]);

pub(super) const PEXPIRE: Command = EXPIRE
    .command("pexpire", -3, "2.6.0", "Lets a key expire after some milliseconds.")
    .arguments(&[key("key"), integer("milliseconds"), EXPIRY_CONDITION.since("7.0.0")]);

pub(super) const EXPIREAT: Command = EXPIRE
    .command("expireat", -3, "1.2.0", "Lets a key expire at a Unix time in seconds.")
    .arguments(&[key("key"), unix_time("unix-time-seconds"), EXPIRY_CONDITION.since("7.0.0")]);

pub(super) const PEXPIREAT: Command = EXPIRE
    .command("pexpireat", -3, "2.6.0", "Lets a key expire at a Unix time in milliseconds.")
    .arguments(&[key("key"), unix_time("unix-time-milliseconds"), EXPIRY_CONDITION.since("7.0.0")]);

pub(super) const TTL: Command = GENERIC
    .command("ttl", 2, "1.0.0", "Answers how many seconds a key has left.")
    .flags(&[READONLY, FAST])
    .keys(&[KeySpec::first(&[RO, ACCESS])])
    .arguments(&[key("key")])
    .tips(&["nondeterministic_output"])
    .history(&[("2.8.0", "Added the reply -2.")]);

pub(super) const PTTL: Command =
    TTL.command("pttl", 2, "2.6.0", "Answers how many milliseconds a key has left.");

pub(super) const EXPIRETIME: Command = TTL
    .command("expiretime", 2, "7.0.0", "Answers the Unix time in seconds at which a key expires.")
    .tips(&[])
    .history(&[]);

pub(super) const PEXPIRETIME: Command = TTL
    .command(
        "pexpiretime",
        2,
        "7.0.0",
        "Answers the Unix time in milliseconds at which a key expires.",
    )
    .tips(&[])
    .history(&[]);

pub(super) const PERSIST: Command = GENERIC
    .command("persist", 2, "2.2.0", "Takes the expiry of a key away.")
    .flags(&[WRITE, FAST])
    .keys(&[KeySpec::first(&[RW, UPDATE])])
    .arguments(&[key("key")]);

pub(super) const RENAME: Command = GENERIC
    .command("rename", 3, "1.0.0", "Gives a key another name, whatever was there.")
    .flags(&[WRITE])
    .keys(&[KeySpec::first(&[RW, ACCESS, DELETE]), KeySpec::one(2, &[OW, UPDATE])])
    .arguments(&[key("key"), key_of(1, "newkey")]);

pub(super) const RENAMENX: Command = RENAME
    .command("renamenx", 3, "1.0.0", "Gives a key another name if that is free.")
    .more_flags(&[FAST])
    .keys(&[KeySpec::first(&[RW, ACCESS, DELETE]), KeySpec::one(2, &[OW, INSERT])])
    .history(&[("3.2.0", "Two names that are the same are no error.")]);

pub(super) const COPY: Command = GENERIC
    .command("copy", -3, "6.2.0", "Copies a value to another key.")
    .complexity(
        "O(N) worst case for collections, where N is the number of nested items. O(1) for string \
         values.",
    )
    .flags(&[WRITE, DENYOOM])
    .keys(&[KeySpec::first(&[RO, ACCESS]), KeySpec::one(2, &[OW, UPDATE])])
    .databases(Databases::AlsoNumbered(super::rename::databases_of_copy))
    .arguments(&[
        key("source"),
        key_of(1, "destination"),
        integer("destination-db").token("DB").optional(),
        word("REPLACE").optional(),
    ]);

pub(super) const MOVE: Command = GENERIC
    .command("move", 3, "1.0.0", "Moves a key to another database.")
    .flags(&[WRITE, FAST, SEVERAL_CHANGES])
    .keys(&[KeySpec::first(&[RW, ACCESS, UPDATE])])
    .databases(Databases::AlsoNumbered(|_, positions| positions.push(2)))
    .arguments(&[key("key"), integer("db")]);

pub(super) const DUMP: Command = GENERIC
    .command("dump", 2, "2.6.0", "Answers a value as a payload for `RESTORE`.")
    .complexity(
        "O(1) to access the key and additional O(N*M) to serialize it, where N is the number of \
         objects composing the value and M their average size. For small string values the time \
         complexity is thus O(1)+O(1*M) where M is small, so simply O(1).",
    )
    .flags(&[READONLY])
    .keys(&[KeySpec::first(&[RO, ACCESS])])
    .arguments(&[key("key")])
    .tips(&["nondeterministic_output"]);

pub(super) const MIGRATE: Command = GENERIC
    .command("migrate", -6, "2.6.0", "Moves keys to another server.")
    .complexity(
        "This command actually executes a DUMP+DEL in the source instance, and a RESTORE in the \
         target instance. See the pages of these commands for time complexity. Also an O(N) data \
         transfer between the two instances is performed.",
    )
    .flags(&[WRITE, MOVABLEKEYS])
    .categories(&[Categories::DANGEROUS, Categories::KEYSPACE])
    .keys(&[
        KeySpec::one(3, &[RW, ACCESS, DELETE]),
        KeySpec::all_behind("KEYS", -2, &[RW, ACCESS, DELETE, INCOMPLETE]),
    ])
    .more_keys(super::migrate::more_keys)
    .key_flags(super::migrate::key_flags)
    .arguments(&[
        string("host"),
        integer("port"),
        one_of("key-selector", &[key("key"), word("").named("empty-string")]),
        integer("destination-db"),
        integer("timeout"),
        word("COPY").optional().since("3.0.0"),
        word("REPLACE").optional().since("3.0.0"),
        one_of(
            "authentication",
            &[
                string("auth").display("password").token("AUTH").since("4.0.7"),
                block("auth2", &[string("username"), string("password")])
                    .token("AUTH2")
                    .since("6.0.0"),
            ],
        )
        .optional(),
        key_of(1, "keys").display("key").token("KEYS").optional().multiple().since("3.0.6"),
    ])
    .history(&[
        ("3.0.0", "Added the `COPY` and `REPLACE` options."),
        ("3.0.6", "Added the `KEYS` option."),
        ("4.0.7", "Added the `AUTH` option."),
        ("6.0.0", "Added the `AUTH2` option."),
    ])
    .tips(&["nondeterministic_output"]);

pub(super) const RESTORE: Command = GENERIC
    .command("restore", -4, "2.6.0", "Makes a key of a payload from `DUMP`.")
    .complexity(
        "O(1) to create the new key and additional O(N*M) to reconstruct the serialized value, \
         where N is the number of objects composing the value and M their average size. For small \
         string values the time complexity is thus O(1)+O(1*M) where M is small, so simply O(1). \
         However for sorted set values the complexity is O(N*M*log(N)) because inserting values \
         into sorted sets is O(log(N)).",
    )
    .flags(&[WRITE, DENYOOM])
    .categories(&[Categories::DANGEROUS, Categories::KEYSPACE])
    .keys(&[KeySpec::first(&[OW, UPDATE])])
    .arguments(&[
        key("key"),
        integer("ttl"),
        string("serialized-value"),
        word("REPLACE").optional().since("3.0.0"),
        word("ABSTTL").optional().since("5.0.0"),
        integer("seconds").token("IDLETIME").optional().since("5.0.0"),
        integer("frequency").token("FREQ").optional().since("5.0.0"),
    ])
    .history(&[
        ("3.0.0", "Added the `REPLACE` modifier."),
        ("5.0.0", "Added the `ABSTTL` modifier."),
        ("5.0.0", "Added the `IDLETIME` and `FREQ` options."),
    ]);

/// As `RESTORE`, of a server that moves the key's slot here.
pub(super) const RESTORE_ASKING: Command = Command { group: Group::Server, ..RESTORE }
    .command("restore-asking", -4, "3.0.0", "Makes a key of a payload while its slot is moved.")
    .more_flags(&[ASKING, SYSTEM]);

pub(super) const OBJECT: Command = GENERIC.container(
    "object",
    "2.2.3",
    "Tells what is inside of keys.",
    &[&OBJECT_ENCODING, &OBJECT_FREQ, &OBJECT_HELP, &OBJECT_IDLETIME, &OBJECT_REFCOUNT],
);

pub(super) const OBJECT_ENCODING: Command = GENERIC
    .command("object|encoding", 3, "2.2.3", "Answers how a value is encoded.")
    .flags(&[READONLY])
    .keys(&[KeySpec::one(2, &[RO])])
    .arguments(&[key("key")])
    .tips(&["nondeterministic_output"]);

pub(super) const OBJECT_FREQ: Command = OBJECT_ENCODING.command(
    "object|freq",
    3,
    "4.0.0",
    "Answers how often a key is used, under an LFU policy.",
);

pub(super) const OBJECT_IDLETIME: Command = OBJECT_ENCODING.command(
    "object|idletime",
    3,
    "2.2.3",
    "Answers for how many seconds a key was not used.",
);

pub(super) const OBJECT_REFCOUNT: Command = OBJECT_ENCODING.command(
    "object|refcount",
    3,
    "2.2.3",
    "Answers how many references a value has.",
);

pub(super) const OBJECT_HELP: Command = GENERIC.help("object|help", "6.2.0");

const KEYS_OF_ELEMENTS: KeySpec = KeySpec::unknown(&[RO, ACCESS])
    .notes("The keys of BY and GET are made of the elements that are sorted.");

const BY: Argument = pattern("by-pattern").token("BY").optional().display("pattern").of_keys(1);
const LIMIT: Argument =
    block("limit", &[integer("offset"), integer("count")]).token("LIMIT").optional();
const GET: Argument =
    pattern("get-pattern").token("GET").optional().multiple_token().display("pattern").of_keys(1);
const ORDER: Argument = one_of("order", &[word("ASC"), word("DESC")]).optional();
const ALPHA: Argument = word("ALPHA").named("sorting").optional();

pub(super) const SORT_RO: Command = GENERIC
    .command("sort_ro", -2, "7.0.0", "Sorts the elements of a list and answers them.")
    .complexity(
        "O(N+M*log(M)) where N is the number of elements in the list or set to sort, and M the \
         number of returned elements. When the elements are not sorted, complexity is O(N).",
    )
    .flags(&[READONLY, MOVABLEKEYS, DISCOVERS_KEYS])
    .categories(&[Categories::DANGEROUS, Categories::LIST, Categories::SET, Categories::SORTED_SET])
    .keys(&[KeySpec::first(&[RO, ACCESS]), KEYS_OF_ELEMENTS])
    .arguments(&[key("key"), BY, LIMIT, GET, ORDER, ALPHA]);

pub(super) const SORT: Command = SORT_RO
    .command("sort", -2, "1.0.0", "Sorts the elements of a list and answers or stores them.")
    .flags(&[WRITE, DENYOOM, MOVABLEKEYS, DISCOVERS_KEYS])
    .keys(&[
        KeySpec::first(&[RO, ACCESS]),
        KEYS_OF_ELEMENTS,
        KeySpec::unknown(&[OW, UPDATE]).notes("STORE may stand anywhere among the options."),
    ])
    .more_keys(super::sort::stored_key)
    .arguments(&[
        key("key"),
        BY,
        LIMIT,
        GET,
        ORDER,
        ALPHA,
        key_of(2, "destination").token("STORE").optional(),
    ]);

pub(super) const WAIT: Command = GENERIC
    .command("wait", 3, "3.0.0", "Waits until replicas have what the client wrote.")
    .flags(&[BLOCKING])
    .categories(&[Categories::CONNECTION])
    .arguments(&[integer("numreplicas"), integer("timeout")])
    .tips(&["request_policy:all_shards", "response_policy:agg_min"]);

pub(super) const WAITAOF: Command = GENERIC
    .command(
        "waitaof",
        4,
        "7.2.0",
        "Waits until what the client wrote is on disk, here and on replicas.",
    )
    .flags(&[BLOCKING])
    .categories(&[Categories::CONNECTION])
    .arguments(&[integer("numlocal"), integer("numreplicas"), integer("timeout")])
    .tips(&["request_policy:all_shards", "response_policy:agg_min"]);
