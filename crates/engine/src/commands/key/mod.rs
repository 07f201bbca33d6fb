//! Commands on keys of any type, and on the keyspace as a whole.

mod expire;
mod flush;
mod look;
mod object;
mod remove;
mod rename;
mod sort;
mod wait;
mod walk;

pub(super) use expire::conditions;
pub(crate) use walk::KeysWalk;
pub(super) use walk::parse_cursor;

use crate::command::{
    Argument, ArgumentKind, Categories, Command, Find, Flags, Group, Handler, KeyFlags, KeySpec,
    Start,
};

/// The family.
pub const COMMANDS: &[&Command] = &[
    &DEL,
    &UNLINK,
    &EXISTS,
    &TYPE,
    &TOUCH,
    &EXPIRE,
    &PEXPIRE,
    &EXPIREAT,
    &PEXPIREAT,
    &TTL,
    &PTTL,
    &EXPIRETIME,
    &PEXPIRETIME,
    &PERSIST,
    &RENAME,
    &RENAMENX,
    &COPY,
    &MOVE,
    &OBJECT,
    &KEYS,
    &SCAN,
    &RANDOMKEY,
    &DBSIZE,
    &FLUSHDB,
    &FLUSHALL,
    &SWAPDB,
    &SORT,
    &SORT_RO,
    &WAIT,
    &WAITAOF,
];

const DEL: Command = Command {
    name: "del",
    summary: "Deletes keys.",
    since: "1.0.0",
    complexity: "O(N) where N is the number of keys that will be removed. When a key to remove holds a value other than a string, the individual complexity for this key is O(M) where M is the number of elements in the list, set, sorted set or hash. Removing a single key that holds a string value is O(1).",
    group: Group::Generic,
    arity: -2,
    flags: Flags::WRITE,
    categories: Categories::KEYSPACE,
    keys: &[KeySpec {
        flags: KeyFlags::RM.union(KeyFlags::DELETE),
        start: Start::Index(1),
        find: Find::Range { last: -1, step: 1, limit: 0 },
        notes: None,
    }],
    arguments: &[Argument::new("key", ArgumentKind::Key(0)).multiple()],
    tips: &["request_policy:multi_shard", "response_policy:agg_sum"],
    handler: Handler::Keyed(remove::del),
    ..Command::BASE
};

const UNLINK: Command = Command {
    name: "unlink",
    summary: "Deletes keys; their memory is freed in the background.",
    since: "4.0.0",
    complexity: "O(1) for each key removed regardless of its size. Then the command does O(N) work in a different thread in order to reclaim memory, where N is the number of allocations the deleted objects where composed of.",
    group: Group::Generic,
    arity: -2,
    flags: Flags::FAST.union(Flags::WRITE),
    categories: Categories::KEYSPACE,
    keys: &[KeySpec {
        flags: KeyFlags::RM.union(KeyFlags::DELETE),
        start: Start::Index(1),
        find: Find::Range { last: -1, step: 1, limit: 0 },
        notes: None,
    }],
    arguments: &[Argument::new("key", ArgumentKind::Key(0)).multiple()],
    tips: &["request_policy:multi_shard", "response_policy:agg_sum"],
    handler: Handler::Keyed(remove::del),
    ..Command::BASE
};

const EXISTS: Command = Command {
    name: "exists",
    summary: "Counts how many of the keys exist.",
    since: "1.0.0",
    complexity: "O(N) where N is the number of keys to check.",
    group: Group::Generic,
    arity: -2,
    flags: Flags::FAST.union(Flags::READONLY),
    categories: Categories::KEYSPACE,
    keys: &[KeySpec {
        flags: KeyFlags::RO,
        start: Start::Index(1),
        find: Find::Range { last: -1, step: 1, limit: 0 },
        notes: None,
    }],
    arguments: &[Argument::new("key", ArgumentKind::Key(0)).multiple()],
    tips: &["request_policy:multi_shard", "response_policy:agg_sum"],
    handler: Handler::Keyed(look::exists),
    ..Command::BASE
};

const TYPE: Command = Command {
    name: "type",
    summary: "Answers the type of a key.",
    since: "1.0.0",
    group: Group::Generic,
    arity: 2,
    flags: Flags::FAST.union(Flags::READONLY),
    categories: Categories::KEYSPACE,
    keys: &[KeySpec {
        flags: KeyFlags::RO,
        start: Start::Index(1),
        find: Find::Range { last: 0, step: 1, limit: 0 },
        notes: None,
    }],
    arguments: &[Argument::new("key", ArgumentKind::Key(0))],
    handler: Handler::Keyed(look::type_of),
    ..Command::BASE
};

const TOUCH: Command = Command {
    name: "touch",
    summary: "Counts keys and marks them as used.",
    since: "3.2.1",
    complexity: "O(N) where N is the number of keys that will be touched.",
    group: Group::Generic,
    arity: -2,
    flags: Flags::FAST.union(Flags::READONLY),
    categories: Categories::KEYSPACE,
    keys: &[KeySpec {
        flags: KeyFlags::RO,
        start: Start::Index(1),
        find: Find::Range { last: -1, step: 1, limit: 0 },
        notes: None,
    }],
    arguments: &[Argument::new("key", ArgumentKind::Key(0)).multiple()],
    tips: &["request_policy:multi_shard", "response_policy:agg_sum"],
    handler: Handler::Keyed(look::touch),
    ..Command::BASE
};

const EXPIRE: Command = Command {
    name: "expire",
    summary: "Lets a key expire after some seconds.",
    since: "1.0.0",
    group: Group::Generic,
    arity: -3,
    flags: Flags::FAST.union(Flags::WRITE),
    categories: Categories::KEYSPACE,
    keys: &[KeySpec {
        flags: KeyFlags::RW.union(KeyFlags::UPDATE),
        start: Start::Index(1),
        find: Find::Range { last: 0, step: 1, limit: 0 },
        notes: None,
    }],
    arguments: &[
        Argument::new("key", ArgumentKind::Key(0)),
        Argument::new("seconds", ArgumentKind::Integer),
        Argument::new(
            "condition",
            ArgumentKind::OneOf(&[
                Argument::flag("nx", "NX"),
                Argument::flag("xx", "XX"),
                Argument::flag("gt", "GT"),
                Argument::flag("lt", "LT"),
            ]),
        )
        .optional()
        .since("7.0.0"),
    ],
    handler: Handler::Keyed(expire::expire),
    ..Command::BASE
};

const PEXPIRE: Command = Command {
    name: "pexpire",
    summary: "Lets a key expire after some milliseconds.",
    since: "2.6.0",
    group: Group::Generic,
    arity: -3,
    flags: Flags::FAST.union(Flags::WRITE),
    categories: Categories::KEYSPACE,
    keys: &[KeySpec {
        flags: KeyFlags::RW.union(KeyFlags::UPDATE),
        start: Start::Index(1),
        find: Find::Range { last: 0, step: 1, limit: 0 },
        notes: None,
    }],
    arguments: &[
        Argument::new("key", ArgumentKind::Key(0)),
        Argument::new("milliseconds", ArgumentKind::Integer),
        Argument::new(
            "condition",
            ArgumentKind::OneOf(&[
                Argument::flag("nx", "NX"),
                Argument::flag("xx", "XX"),
                Argument::flag("gt", "GT"),
                Argument::flag("lt", "LT"),
            ]),
        )
        .optional()
        .since("7.0.0"),
    ],
    handler: Handler::Keyed(expire::expire),
    ..Command::BASE
};

const EXPIREAT: Command = Command {
    name: "expireat",
    summary: "Lets a key expire at a Unix time in seconds.",
    since: "1.2.0",
    group: Group::Generic,
    arity: -3,
    flags: Flags::FAST.union(Flags::WRITE),
    categories: Categories::KEYSPACE,
    keys: &[KeySpec {
        flags: KeyFlags::RW.union(KeyFlags::UPDATE),
        start: Start::Index(1),
        find: Find::Range { last: 0, step: 1, limit: 0 },
        notes: None,
    }],
    arguments: &[
        Argument::new("key", ArgumentKind::Key(0)),
        Argument::new("unix-time-seconds", ArgumentKind::UnixTime),
        Argument::new(
            "condition",
            ArgumentKind::OneOf(&[
                Argument::flag("nx", "NX"),
                Argument::flag("xx", "XX"),
                Argument::flag("gt", "GT"),
                Argument::flag("lt", "LT"),
            ]),
        )
        .optional()
        .since("7.0.0"),
    ],
    handler: Handler::Keyed(expire::expire),
    ..Command::BASE
};

const PEXPIREAT: Command = Command {
    name: "pexpireat",
    summary: "Lets a key expire at a Unix time in milliseconds.",
    since: "2.6.0",
    group: Group::Generic,
    arity: -3,
    flags: Flags::FAST.union(Flags::WRITE),
    categories: Categories::KEYSPACE,
    keys: &[KeySpec {
        flags: KeyFlags::RW.union(KeyFlags::UPDATE),
        start: Start::Index(1),
        find: Find::Range { last: 0, step: 1, limit: 0 },
        notes: None,
    }],
    arguments: &[
        Argument::new("key", ArgumentKind::Key(0)),
        Argument::new("unix-time-milliseconds", ArgumentKind::UnixTime),
        Argument::new(
            "condition",
            ArgumentKind::OneOf(&[
                Argument::flag("nx", "NX"),
                Argument::flag("xx", "XX"),
                Argument::flag("gt", "GT"),
                Argument::flag("lt", "LT"),
            ]),
        )
        .optional()
        .since("7.0.0"),
    ],
    handler: Handler::Keyed(expire::expire),
    ..Command::BASE
};

const TTL: Command = Command {
    name: "ttl",
    summary: "Answers how many seconds a key has left.",
    since: "1.0.0",
    group: Group::Generic,
    arity: 2,
    flags: Flags::FAST.union(Flags::READONLY),
    categories: Categories::KEYSPACE,
    keys: &[KeySpec {
        flags: KeyFlags::RO.union(KeyFlags::ACCESS),
        start: Start::Index(1),
        find: Find::Range { last: 0, step: 1, limit: 0 },
        notes: None,
    }],
    arguments: &[Argument::new("key", ArgumentKind::Key(0))],
    tips: &["nondeterministic_output"],
    handler: Handler::Keyed(expire::ttl),
    ..Command::BASE
};

const PTTL: Command = Command {
    name: "pttl",
    summary: "Answers how many milliseconds a key has left.",
    since: "2.6.0",
    group: Group::Generic,
    arity: 2,
    flags: Flags::FAST.union(Flags::READONLY),
    categories: Categories::KEYSPACE,
    keys: &[KeySpec {
        flags: KeyFlags::RO.union(KeyFlags::ACCESS),
        start: Start::Index(1),
        find: Find::Range { last: 0, step: 1, limit: 0 },
        notes: None,
    }],
    arguments: &[Argument::new("key", ArgumentKind::Key(0))],
    tips: &["nondeterministic_output"],
    handler: Handler::Keyed(expire::ttl),
    ..Command::BASE
};

const EXPIRETIME: Command = Command {
    name: "expiretime",
    summary: "Answers the Unix time in seconds at which a key expires.",
    since: "7.0.0",
    group: Group::Generic,
    arity: 2,
    flags: Flags::FAST.union(Flags::READONLY),
    categories: Categories::KEYSPACE,
    keys: &[KeySpec {
        flags: KeyFlags::RO.union(KeyFlags::ACCESS),
        start: Start::Index(1),
        find: Find::Range { last: 0, step: 1, limit: 0 },
        notes: None,
    }],
    arguments: &[Argument::new("key", ArgumentKind::Key(0))],
    handler: Handler::Keyed(expire::ttl),
    ..Command::BASE
};

const PEXPIRETIME: Command = Command {
    name: "pexpiretime",
    summary: "Answers the Unix time in milliseconds at which a key expires.",
    since: "7.0.0",
    group: Group::Generic,
    arity: 2,
    flags: Flags::FAST.union(Flags::READONLY),
    categories: Categories::KEYSPACE,
    keys: &[KeySpec {
        flags: KeyFlags::RO.union(KeyFlags::ACCESS),
        start: Start::Index(1),
        find: Find::Range { last: 0, step: 1, limit: 0 },
        notes: None,
    }],
    arguments: &[Argument::new("key", ArgumentKind::Key(0))],
    handler: Handler::Keyed(expire::ttl),
    ..Command::BASE
};

const PERSIST: Command = Command {
    name: "persist",
    summary: "Takes the expiry of a key away.",
    since: "2.2.0",
    group: Group::Generic,
    arity: 2,
    flags: Flags::FAST.union(Flags::WRITE),
    categories: Categories::KEYSPACE,
    keys: &[KeySpec {
        flags: KeyFlags::RW.union(KeyFlags::UPDATE),
        start: Start::Index(1),
        find: Find::Range { last: 0, step: 1, limit: 0 },
        notes: None,
    }],
    arguments: &[Argument::new("key", ArgumentKind::Key(0))],
    handler: Handler::Keyed(expire::persist),
    ..Command::BASE
};

const RENAME: Command = Command {
    name: "rename",
    summary: "Gives a key another name, whatever was there.",
    since: "1.0.0",
    group: Group::Generic,
    arity: 3,
    flags: Flags::WRITE,
    categories: Categories::KEYSPACE,
    keys: &[
        KeySpec {
            flags: KeyFlags::RW.union(KeyFlags::ACCESS).union(KeyFlags::DELETE),
            start: Start::Index(1),
            find: Find::Range { last: 0, step: 1, limit: 0 },
            notes: None,
        },
        KeySpec {
            flags: KeyFlags::OW.union(KeyFlags::UPDATE),
            start: Start::Index(2),
            find: Find::Range { last: 0, step: 1, limit: 0 },
            notes: None,
        },
    ],
    arguments: &[
        Argument::new("key", ArgumentKind::Key(0)),
        Argument::new("newkey", ArgumentKind::Key(1)),
    ],
    handler: Handler::Keyed(rename::rename),
    ..Command::BASE
};

const RENAMENX: Command = Command {
    name: "renamenx",
    summary: "Gives a key another name if that is free.",
    since: "1.0.0",
    group: Group::Generic,
    arity: 3,
    flags: Flags::FAST.union(Flags::WRITE),
    categories: Categories::KEYSPACE,
    keys: &[
        KeySpec {
            flags: KeyFlags::RW.union(KeyFlags::ACCESS).union(KeyFlags::DELETE),
            start: Start::Index(1),
            find: Find::Range { last: 0, step: 1, limit: 0 },
            notes: None,
        },
        KeySpec {
            flags: KeyFlags::OW.union(KeyFlags::INSERT),
            start: Start::Index(2),
            find: Find::Range { last: 0, step: 1, limit: 0 },
            notes: None,
        },
    ],
    arguments: &[
        Argument::new("key", ArgumentKind::Key(0)),
        Argument::new("newkey", ArgumentKind::Key(1)),
    ],
    handler: Handler::Keyed(rename::rename),
    ..Command::BASE
};

const COPY: Command = Command {
    name: "copy",
    summary: "Copies a value to another key.",
    since: "6.2.0",
    complexity: "O(N) worst case for collections, where N is the number of nested items. O(1) for string values.",
    group: Group::Generic,
    arity: -3,
    flags: Flags::DENYOOM.union(Flags::WRITE),
    categories: Categories::KEYSPACE,
    keys: &[
        KeySpec {
            flags: KeyFlags::RO.union(KeyFlags::ACCESS),
            start: Start::Index(1),
            find: Find::Range { last: 0, step: 1, limit: 0 },
            notes: None,
        },
        KeySpec {
            flags: KeyFlags::OW.union(KeyFlags::UPDATE),
            start: Start::Index(2),
            find: Find::Range { last: 0, step: 1, limit: 0 },
            notes: None,
        },
    ],
    arguments: &[
        Argument::new("source", ArgumentKind::Key(0)),
        Argument::new("destination", ArgumentKind::Key(1)),
        Argument::new("destination-db", ArgumentKind::Integer).token("DB").optional(),
        Argument::flag("replace", "REPLACE").optional(),
    ],
    handler: Handler::Keyed(rename::copy),
    ..Command::BASE
};

const MOVE: Command = Command {
    name: "move",
    summary: "Moves a key to another database.",
    since: "1.0.0",
    group: Group::Generic,
    arity: 3,
    flags: Flags::FAST.union(Flags::WRITE).union(Flags::SEVERAL_CHANGES),
    categories: Categories::KEYSPACE,
    keys: &[KeySpec {
        flags: KeyFlags::RW.union(KeyFlags::ACCESS).union(KeyFlags::UPDATE),
        start: Start::Index(1),
        find: Find::Range { last: 0, step: 1, limit: 0 },
        notes: None,
    }],
    arguments: &[
        Argument::new("key", ArgumentKind::Key(0)),
        Argument::new("db", ArgumentKind::Integer),
    ],
    handler: Handler::Keyed(rename::move_key),
    ..Command::BASE
};

const OBJECT: Command = Command {
    name: "object",
    summary: "Tells what is inside of keys.",
    since: "2.2.3",
    complexity: "Depends on subcommand.",
    group: Group::Generic,
    arity: -2,
    flags: Flags::empty(),
    categories: Categories::empty(),
    subcommands: &[
        &OBJECT_ENCODING,
        &OBJECT_FREQ,
        &OBJECT_HELP,
        &OBJECT_IDLETIME,
        &OBJECT_REFCOUNT,
    ],
    ..Command::BASE
};

const OBJECT_ENCODING: Command = Command {
    name: "object|encoding",
    summary: "Answers how a value is encoded.",
    since: "2.2.3",
    group: Group::Generic,
    arity: 3,
    flags: Flags::READONLY,
    categories: Categories::KEYSPACE,
    keys: &[KeySpec {
        flags: KeyFlags::RO,
        start: Start::Index(2),
        find: Find::Range { last: 0, step: 1, limit: 0 },
        notes: None,
    }],
    arguments: &[Argument::new("key", ArgumentKind::Key(0))],
    tips: &["nondeterministic_output"],
    handler: Handler::Keyed(object::encoding),
    ..Command::BASE
};

const OBJECT_FREQ: Command = Command {
    name: "object|freq",
    summary: "Answers how often a key is used, under an LFU policy.",
    since: "4.0.0",
    group: Group::Generic,
    arity: 3,
    flags: Flags::READONLY,
    categories: Categories::KEYSPACE,
    keys: &[KeySpec {
        flags: KeyFlags::RO,
        start: Start::Index(2),
        find: Find::Range { last: 0, step: 1, limit: 0 },
        notes: None,
    }],
    arguments: &[Argument::new("key", ArgumentKind::Key(0))],
    tips: &["nondeterministic_output"],
    handler: Handler::Keyed(object::freq),
    ..Command::BASE
};

const OBJECT_IDLETIME: Command = Command {
    name: "object|idletime",
    summary: "Answers for how many seconds a key was not used.",
    since: "2.2.3",
    group: Group::Generic,
    arity: 3,
    flags: Flags::READONLY,
    categories: Categories::KEYSPACE,
    keys: &[KeySpec {
        flags: KeyFlags::RO,
        start: Start::Index(2),
        find: Find::Range { last: 0, step: 1, limit: 0 },
        notes: None,
    }],
    arguments: &[Argument::new("key", ArgumentKind::Key(0))],
    tips: &["nondeterministic_output"],
    handler: Handler::Keyed(object::idletime),
    ..Command::BASE
};

const OBJECT_REFCOUNT: Command = Command {
    name: "object|refcount",
    summary: "Answers how many references a value has.",
    since: "2.2.3",
    group: Group::Generic,
    arity: 3,
    flags: Flags::READONLY,
    categories: Categories::KEYSPACE,
    keys: &[KeySpec {
        flags: KeyFlags::RO,
        start: Start::Index(2),
        find: Find::Range { last: 0, step: 1, limit: 0 },
        notes: None,
    }],
    arguments: &[Argument::new("key", ArgumentKind::Key(0))],
    tips: &["nondeterministic_output"],
    handler: Handler::Keyed(object::refcount),
    ..Command::BASE
};

const OBJECT_HELP: Command = Command {
    name: "object|help",
    summary: "Lists the subcommands.",
    since: "6.2.0",
    group: Group::Generic,
    arity: 2,
    flags: Flags::LOADING.union(Flags::STALE),
    categories: Categories::KEYSPACE,
    handler: Handler::Session(object::help),
    ..Command::BASE
};

const KEYS: Command = Command {
    name: "keys",
    summary: "Answers all keys that match a pattern.",
    since: "1.0.0",
    complexity: "O(N) with N being the number of keys in the database, under the assumption that the key names in the database and the given pattern have limited length.",
    group: Group::Generic,
    arity: 2,
    flags: Flags::READONLY,
    categories: Categories::DANGEROUS.union(Categories::KEYSPACE),
    arguments: &[Argument::new("pattern", ArgumentKind::Pattern)],
    tips: &["request_policy:all_shards", "nondeterministic_output_order"],
    handler: Handler::Whole(walk::keys),
    ..Command::BASE
};

const SCAN: Command = Command {
    name: "scan",
    summary: "Walks the keys step by step.",
    since: "2.8.0",
    complexity: "O(1) for every call. O(N) for a complete iteration, including enough command calls for the cursor to return back to 0. N is the number of elements inside the collection.",
    group: Group::Generic,
    arity: -2,
    flags: Flags::READONLY,
    categories: Categories::KEYSPACE,
    arguments: &[
        Argument::new("cursor", ArgumentKind::Integer),
        Argument::new("pattern", ArgumentKind::Pattern).token("MATCH").optional(),
        Argument::new("count", ArgumentKind::Integer).token("COUNT").optional(),
        Argument::new("type", ArgumentKind::String).token("TYPE").optional().since("6.0.0"),
    ],
    tips: &["nondeterministic_output", "request_policy:special", "response_policy:special"],
    handler: Handler::Whole(walk::scan),
    ..Command::BASE
};

const RANDOMKEY: Command = Command {
    name: "randomkey",
    summary: "Answers some key.",
    since: "1.0.0",
    group: Group::Generic,
    arity: 1,
    flags: Flags::READONLY,
    categories: Categories::KEYSPACE,
    tips: &["request_policy:all_shards", "response_policy:special", "nondeterministic_output"],
    handler: Handler::Whole(walk::randomkey),
    ..Command::BASE
};

const DBSIZE: Command = Command {
    name: "dbsize",
    summary: "Counts the keys of the database.",
    since: "1.0.0",
    group: Group::Server,
    arity: 1,
    flags: Flags::FAST.union(Flags::READONLY),
    categories: Categories::KEYSPACE,
    tips: &["request_policy:all_shards", "response_policy:agg_sum"],
    handler: Handler::Whole(walk::dbsize),
    ..Command::BASE
};

const FLUSHDB: Command = Command {
    name: "flushdb",
    summary: "Deletes all keys of the database.",
    since: "1.0.0",
    complexity: "O(N) where N is the number of keys in the selected database",
    group: Group::Server,
    arity: -1,
    flags: Flags::WRITE,
    categories: Categories::DANGEROUS.union(Categories::KEYSPACE),
    arguments: &[Argument::new(
        "flush-type",
        ArgumentKind::OneOf(&[
            Argument::flag("async", "ASYNC").since("4.0.0"),
            Argument::flag("sync", "SYNC").since("6.2.0"),
        ]),
    )
    .optional()],
    tips: &["request_policy:all_shards", "response_policy:all_succeeded"],
    handler: Handler::Whole(flush::flushdb),
    ..Command::BASE
};

const FLUSHALL: Command = Command {
    name: "flushall",
    summary: "Deletes all keys of all databases.",
    since: "1.0.0",
    complexity: "O(N) where N is the total number of keys in all databases",
    group: Group::Server,
    arity: -1,
    flags: Flags::WRITE,
    categories: Categories::DANGEROUS.union(Categories::KEYSPACE),
    arguments: &[Argument::new(
        "flush-type",
        ArgumentKind::OneOf(&[
            Argument::flag("async", "ASYNC").since("4.0.0"),
            Argument::flag("sync", "SYNC").since("6.2.0"),
        ]),
    )
    .optional()],
    tips: &["request_policy:all_shards", "response_policy:all_succeeded"],
    handler: Handler::Whole(flush::flushall),
    ..Command::BASE
};

const SWAPDB: Command = Command {
    name: "swapdb",
    summary: "Exchanges two databases.",
    since: "4.0.0",
    complexity: "O(N) where N is the count of clients watching or blocking on keys from both databases.",
    group: Group::Server,
    arity: 3,
    flags: Flags::FAST.union(Flags::WRITE),
    categories: Categories::DANGEROUS.union(Categories::KEYSPACE),
    arguments: &[
        Argument::new("index1", ArgumentKind::Integer),
        Argument::new("index2", ArgumentKind::Integer),
    ],
    handler: Handler::Whole(flush::swapdb),
    ..Command::BASE
};

const SORT: Command = Command {
    name: "sort",
    summary: "Sorts the elements of a list and answers or stores them.",
    since: "1.0.0",
    complexity: "O(N+M*log(M)) where N is the number of elements in the list or set to sort, and M the number of returned elements. When the elements are not sorted, complexity is O(N).",
    group: Group::Generic,
    arity: -2,
    flags: Flags::DENYOOM.union(Flags::MOVABLEKEYS).union(Flags::WRITE).union(Flags::MEETS_KEYS),
    categories: Categories::DANGEROUS
        .union(Categories::LIST)
        .union(Categories::SET)
        .union(Categories::SORTED_SET),
    keys: &[
        KeySpec {
            flags: KeyFlags::RO.union(KeyFlags::ACCESS),
            start: Start::Index(1),
            find: Find::Range { last: 0, step: 1, limit: 0 },
            notes: None,
        },
        KeySpec {
            flags: KeyFlags::RO.union(KeyFlags::ACCESS),
            start: Start::Unknown,
            find: Find::Unknown,
            notes: Some("The keys of BY and GET are made of the elements that are sorted."),
        },
        KeySpec {
            flags: KeyFlags::OW.union(KeyFlags::UPDATE),
            start: Start::Unknown,
            find: Find::Unknown,
            notes: Some("STORE may stand anywhere among the options."),
        },
    ],
    arguments: &[
        Argument::new("key", ArgumentKind::Key(0)),
        Argument::new("by-pattern", ArgumentKind::Pattern)
            .token("BY")
            .optional()
            .display("pattern"),
        Argument::new(
            "limit",
            ArgumentKind::Block(&[
                Argument::new("offset", ArgumentKind::Integer),
                Argument::new("count", ArgumentKind::Integer),
            ]),
        )
        .token("LIMIT")
        .optional(),
        Argument::new("get-pattern", ArgumentKind::Pattern)
            .token("GET")
            .optional()
            .multiple_token()
            .display("pattern"),
        Argument::new(
            "order",
            ArgumentKind::OneOf(&[Argument::flag("asc", "ASC"), Argument::flag("desc", "DESC")]),
        )
        .optional(),
        Argument::flag("sorting", "ALPHA").optional(),
        Argument::new("destination", ArgumentKind::Key(2)).token("STORE").optional(),
    ],
    more_keys: Some(sort::stored_key),
    handler: Handler::Keyed(sort::sort),
    ..Command::BASE
};

const SORT_RO: Command = Command {
    name: "sort_ro",
    summary: "Sorts the elements of a list and answers them.",
    since: "7.0.0",
    complexity: "O(N+M*log(M)) where N is the number of elements in the list or set to sort, and M the number of returned elements. When the elements are not sorted, complexity is O(N).",
    group: Group::Generic,
    arity: -2,
    flags: Flags::MOVABLEKEYS.union(Flags::READONLY).union(Flags::MEETS_KEYS),
    categories: Categories::DANGEROUS
        .union(Categories::LIST)
        .union(Categories::SET)
        .union(Categories::SORTED_SET),
    keys: &[
        KeySpec {
            flags: KeyFlags::RO.union(KeyFlags::ACCESS),
            start: Start::Index(1),
            find: Find::Range { last: 0, step: 1, limit: 0 },
            notes: None,
        },
        KeySpec {
            flags: KeyFlags::RO.union(KeyFlags::ACCESS),
            start: Start::Unknown,
            find: Find::Unknown,
            notes: Some("The keys of BY and GET are made of the elements that are sorted."),
        },
    ],
    arguments: &[
        Argument::new("key", ArgumentKind::Key(0)),
        Argument::new("by-pattern", ArgumentKind::Pattern)
            .token("BY")
            .optional()
            .display("pattern"),
        Argument::new(
            "limit",
            ArgumentKind::Block(&[
                Argument::new("offset", ArgumentKind::Integer),
                Argument::new("count", ArgumentKind::Integer),
            ]),
        )
        .token("LIMIT")
        .optional(),
        Argument::new("get-pattern", ArgumentKind::Pattern)
            .token("GET")
            .optional()
            .multiple_token()
            .display("pattern"),
        Argument::new(
            "order",
            ArgumentKind::OneOf(&[Argument::flag("asc", "ASC"), Argument::flag("desc", "DESC")]),
        )
        .optional(),
        Argument::flag("sorting", "ALPHA").optional(),
    ],
    handler: Handler::Keyed(sort::sort),
    ..Command::BASE
};

const WAIT: Command = Command {
    name: "wait",
    summary: "Waits until replicas have what the client wrote.",
    since: "3.0.0",
    group: Group::Generic,
    arity: 3,
    flags: Flags::BLOCKING,
    categories: Categories::CONNECTION,
    arguments: &[
        Argument::new("numreplicas", ArgumentKind::Integer),
        Argument::new("timeout", ArgumentKind::Integer),
    ],
    tips: &["request_policy:all_shards", "response_policy:agg_min"],
    handler: Handler::Keyed(wait::wait),
    ..Command::BASE
};

const WAITAOF: Command = Command {
    name: "waitaof",
    summary: "Waits until what the client wrote is on disk, here and on replicas.",
    since: "7.2.0",
    group: Group::Generic,
    arity: 4,
    flags: Flags::BLOCKING,
    categories: Categories::CONNECTION,
    arguments: &[
        Argument::new("numlocal", ArgumentKind::Integer),
        Argument::new("numreplicas", ArgumentKind::Integer),
        Argument::new("timeout", ArgumentKind::Integer),
    ],
    tips: &["request_policy:all_shards", "response_policy:agg_min"],
    handler: Handler::Keyed(wait::waitaof),
    ..Command::BASE
};
