//! Commands on hashes.

mod change;
mod expire;
mod many;
mod random;
mod read;
mod write;

pub(crate) use change::{Reaped, delete_expired_fields};
pub(super) use read::field_value;

use crate::command::{
    Argument, ArgumentKind, Categories, Command, Find, Flags, Group, Handler, KeyFlags, KeySpec,
    Start,
};

/// The family.
pub const COMMANDS: &[&Command] = &[
    &HSET,
    &HMSET,
    &HSETNX,
    &HDEL,
    &HINCRBY,
    &HINCRBYFLOAT,
    &HGET,
    &HMGET,
    &HGETALL,
    &HKEYS,
    &HVALS,
    &HLEN,
    &HSTRLEN,
    &HEXISTS,
    &HRANDFIELD,
    &HSCAN,
    &HEXPIRE,
    &HPEXPIRE,
    &HEXPIREAT,
    &HPEXPIREAT,
    &HTTL,
    &HPTTL,
    &HEXPIRETIME,
    &HPEXPIRETIME,
    &HPERSIST,
    &HGETEX,
    &HSETEX,
    &HGETDEL,
];

const HSET: Command = Command {
    name: "hset",
    summary: "Sets fields of a hash.",
    since: "2.0.0",
    complexity: "O(1) for each field/value pair added, so O(N) to add N field/value pairs when the command is called with multiple field/value pairs.",
    group: Group::Hash,
    arity: -4,
    flags: Flags::DENYOOM.union(Flags::FAST).union(Flags::WRITE),
    categories: Categories::HASH,
    keys: &[KeySpec {
        flags: KeyFlags::RW.union(KeyFlags::UPDATE),
        start: Start::Index(1),
        find: Find::Range { last: 0, step: 1, limit: 0 },
        notes: None,
    }],
    arguments: &[
        Argument::new("key", ArgumentKind::Key(0)),
        Argument::new(
            "data",
            ArgumentKind::Block(&[
                Argument::new("field", ArgumentKind::String),
                Argument::new("value", ArgumentKind::String),
            ]),
        )
        .multiple(),
    ],
    handler: Handler::Keyed(write::hset),
    ..Command::BASE
};

const HMSET: Command = Command {
    name: "hmset",
    summary: "Sets fields of a hash.",
    since: "2.0.0",
    complexity: "O(N) where N is the number of fields being set.",
    group: Group::Hash,
    arity: -4,
    flags: Flags::DENYOOM.union(Flags::FAST).union(Flags::WRITE),
    categories: Categories::HASH,
    keys: &[KeySpec {
        flags: KeyFlags::RW.union(KeyFlags::UPDATE),
        start: Start::Index(1),
        find: Find::Range { last: 0, step: 1, limit: 0 },
        notes: None,
    }],
    arguments: &[
        Argument::new("key", ArgumentKind::Key(0)),
        Argument::new(
            "data",
            ArgumentKind::Block(&[
                Argument::new("field", ArgumentKind::String),
                Argument::new("value", ArgumentKind::String),
            ]),
        )
        .multiple(),
    ],
    handler: Handler::Keyed(write::hset),
    ..Command::BASE
};

const HSETNX: Command = Command {
    name: "hsetnx",
    summary: "Sets a field if it does not exist.",
    since: "2.0.0",
    group: Group::Hash,
    arity: 4,
    flags: Flags::DENYOOM.union(Flags::FAST).union(Flags::WRITE),
    categories: Categories::HASH,
    keys: &[KeySpec {
        flags: KeyFlags::RW.union(KeyFlags::INSERT),
        start: Start::Index(1),
        find: Find::Range { last: 0, step: 1, limit: 0 },
        notes: None,
    }],
    arguments: &[
        Argument::new("key", ArgumentKind::Key(0)),
        Argument::new("field", ArgumentKind::String),
        Argument::new("value", ArgumentKind::String),
    ],
    handler: Handler::Keyed(write::hsetnx),
    ..Command::BASE
};

const HDEL: Command = Command {
    name: "hdel",
    summary: "Removes fields.",
    since: "2.0.0",
    complexity: "O(N) where N is the number of fields to be removed.",
    group: Group::Hash,
    arity: -3,
    flags: Flags::FAST.union(Flags::WRITE),
    categories: Categories::HASH,
    keys: &[KeySpec {
        flags: KeyFlags::RW.union(KeyFlags::DELETE),
        start: Start::Index(1),
        find: Find::Range { last: 0, step: 1, limit: 0 },
        notes: None,
    }],
    arguments: &[
        Argument::new("key", ArgumentKind::Key(0)),
        Argument::new("field", ArgumentKind::String).multiple(),
    ],
    handler: Handler::Keyed(write::hdel),
    ..Command::BASE
};

const HINCRBY: Command = Command {
    name: "hincrby",
    summary: "Adds to an integer in a field.",
    since: "2.0.0",
    group: Group::Hash,
    arity: 4,
    flags: Flags::DENYOOM.union(Flags::FAST).union(Flags::WRITE),
    categories: Categories::HASH,
    keys: &[KeySpec {
        flags: KeyFlags::RW.union(KeyFlags::ACCESS).union(KeyFlags::UPDATE),
        start: Start::Index(1),
        find: Find::Range { last: 0, step: 1, limit: 0 },
        notes: None,
    }],
    arguments: &[
        Argument::new("key", ArgumentKind::Key(0)),
        Argument::new("field", ArgumentKind::String),
        Argument::new("increment", ArgumentKind::Integer),
    ],
    handler: Handler::Keyed(write::hincrby),
    ..Command::BASE
};

const HINCRBYFLOAT: Command = Command {
    name: "hincrbyfloat",
    summary: "Adds to a floating point number in a field.",
    since: "2.6.0",
    group: Group::Hash,
    arity: 4,
    flags: Flags::DENYOOM.union(Flags::FAST).union(Flags::WRITE),
    categories: Categories::HASH,
    keys: &[KeySpec {
        flags: KeyFlags::RW.union(KeyFlags::ACCESS).union(KeyFlags::UPDATE),
        start: Start::Index(1),
        find: Find::Range { last: 0, step: 1, limit: 0 },
        notes: None,
    }],
    arguments: &[
        Argument::new("key", ArgumentKind::Key(0)),
        Argument::new("field", ArgumentKind::String),
        Argument::new("increment", ArgumentKind::Double),
    ],
    handler: Handler::Keyed(write::hincrbyfloat),
    ..Command::BASE
};

const HGET: Command = Command {
    name: "hget",
    summary: "Answers the value of a field.",
    since: "2.0.0",
    group: Group::Hash,
    arity: 3,
    flags: Flags::FAST.union(Flags::READONLY),
    categories: Categories::HASH,
    keys: &[KeySpec {
        flags: KeyFlags::RO.union(KeyFlags::ACCESS),
        start: Start::Index(1),
        find: Find::Range { last: 0, step: 1, limit: 0 },
        notes: None,
    }],
    arguments: &[
        Argument::new("key", ArgumentKind::Key(0)),
        Argument::new("field", ArgumentKind::String),
    ],
    handler: Handler::Keyed(read::hget),
    ..Command::BASE
};

const HMGET: Command = Command {
    name: "hmget",
    summary: "Answers the values of fields.",
    since: "2.0.0",
    complexity: "O(N) where N is the number of fields being requested.",
    group: Group::Hash,
    arity: -3,
    flags: Flags::FAST.union(Flags::READONLY),
    categories: Categories::HASH,
    keys: &[KeySpec {
        flags: KeyFlags::RO.union(KeyFlags::ACCESS),
        start: Start::Index(1),
        find: Find::Range { last: 0, step: 1, limit: 0 },
        notes: None,
    }],
    arguments: &[
        Argument::new("key", ArgumentKind::Key(0)),
        Argument::new("field", ArgumentKind::String).multiple(),
    ],
    handler: Handler::Keyed(read::hmget),
    ..Command::BASE
};

const HGETALL: Command = Command {
    name: "hgetall",
    summary: "Answers all fields and values.",
    since: "2.0.0",
    complexity: "O(N) where N is the size of the hash.",
    group: Group::Hash,
    arity: 2,
    flags: Flags::READONLY,
    categories: Categories::HASH,
    keys: &[KeySpec {
        flags: KeyFlags::RO.union(KeyFlags::ACCESS),
        start: Start::Index(1),
        find: Find::Range { last: 0, step: 1, limit: 0 },
        notes: None,
    }],
    arguments: &[Argument::new("key", ArgumentKind::Key(0))],
    tips: &["nondeterministic_output_order"],
    handler: Handler::Keyed(read::hgetall),
    ..Command::BASE
};

const HKEYS: Command = Command {
    name: "hkeys",
    summary: "Answers all fields.",
    since: "2.0.0",
    complexity: "O(N) where N is the size of the hash.",
    group: Group::Hash,
    arity: 2,
    flags: Flags::READONLY,
    categories: Categories::HASH,
    keys: &[KeySpec {
        flags: KeyFlags::RO.union(KeyFlags::ACCESS),
        start: Start::Index(1),
        find: Find::Range { last: 0, step: 1, limit: 0 },
        notes: None,
    }],
    arguments: &[Argument::new("key", ArgumentKind::Key(0))],
    tips: &["nondeterministic_output_order"],
    handler: Handler::Keyed(read::hgetall),
    ..Command::BASE
};

const HVALS: Command = Command {
    name: "hvals",
    summary: "Answers all values.",
    since: "2.0.0",
    complexity: "O(N) where N is the size of the hash.",
    group: Group::Hash,
    arity: 2,
    flags: Flags::READONLY,
    categories: Categories::HASH,
    keys: &[KeySpec {
        flags: KeyFlags::RO.union(KeyFlags::ACCESS),
        start: Start::Index(1),
        find: Find::Range { last: 0, step: 1, limit: 0 },
        notes: None,
    }],
    arguments: &[Argument::new("key", ArgumentKind::Key(0))],
    tips: &["nondeterministic_output_order"],
    handler: Handler::Keyed(read::hgetall),
    ..Command::BASE
};

const HLEN: Command = Command {
    name: "hlen",
    summary: "Counts the fields.",
    since: "2.0.0",
    group: Group::Hash,
    arity: 2,
    flags: Flags::FAST.union(Flags::READONLY),
    categories: Categories::HASH,
    keys: &[KeySpec {
        flags: KeyFlags::RO,
        start: Start::Index(1),
        find: Find::Range { last: 0, step: 1, limit: 0 },
        notes: None,
    }],
    arguments: &[Argument::new("key", ArgumentKind::Key(0))],
    handler: Handler::Keyed(read::hlen),
    ..Command::BASE
};

const HSTRLEN: Command = Command {
    name: "hstrlen",
    summary: "Answers the length of a value.",
    since: "3.2.0",
    group: Group::Hash,
    arity: 3,
    flags: Flags::FAST.union(Flags::READONLY),
    categories: Categories::HASH,
    keys: &[KeySpec {
        flags: KeyFlags::RO,
        start: Start::Index(1),
        find: Find::Range { last: 0, step: 1, limit: 0 },
        notes: None,
    }],
    arguments: &[
        Argument::new("key", ArgumentKind::Key(0)),
        Argument::new("field", ArgumentKind::String),
    ],
    handler: Handler::Keyed(read::hstrlen),
    ..Command::BASE
};

const HEXISTS: Command = Command {
    name: "hexists",
    summary: "Tells whether a field exists.",
    since: "2.0.0",
    group: Group::Hash,
    arity: 3,
    flags: Flags::FAST.union(Flags::READONLY),
    categories: Categories::HASH,
    keys: &[KeySpec {
        flags: KeyFlags::RO,
        start: Start::Index(1),
        find: Find::Range { last: 0, step: 1, limit: 0 },
        notes: None,
    }],
    arguments: &[
        Argument::new("key", ArgumentKind::Key(0)),
        Argument::new("field", ArgumentKind::String),
    ],
    handler: Handler::Keyed(read::hexists),
    ..Command::BASE
};

const HRANDFIELD: Command = Command {
    name: "hrandfield",
    summary: "Answers random fields.",
    since: "6.2.0",
    complexity: "O(N) where N is the number of fields returned",
    group: Group::Hash,
    arity: -2,
    flags: Flags::READONLY,
    categories: Categories::HASH,
    keys: &[KeySpec {
        flags: KeyFlags::RO.union(KeyFlags::ACCESS),
        start: Start::Index(1),
        find: Find::Range { last: 0, step: 1, limit: 0 },
        notes: None,
    }],
    arguments: &[
        Argument::new("key", ArgumentKind::Key(0)),
        Argument::new(
            "options",
            ArgumentKind::Block(&[
                Argument::new("count", ArgumentKind::Integer),
                Argument::flag("withvalues", "WITHVALUES").optional(),
            ]),
        )
        .optional(),
    ],
    tips: &["nondeterministic_output"],
    handler: Handler::Keyed(random::hrandfield),
    ..Command::BASE
};

const HSCAN: Command = Command {
    name: "hscan",
    summary: "Walks the fields step by step.",
    since: "2.8.0",
    complexity: "O(1) for every call. O(N) for a complete iteration, including enough command calls for the cursor to return back to 0. N is the number of elements inside the collection.",
    group: Group::Hash,
    arity: -3,
    flags: Flags::READONLY,
    categories: Categories::HASH,
    keys: &[KeySpec {
        flags: KeyFlags::RO.union(KeyFlags::ACCESS),
        start: Start::Index(1),
        find: Find::Range { last: 0, step: 1, limit: 0 },
        notes: None,
    }],
    arguments: &[
        Argument::new("key", ArgumentKind::Key(0)),
        Argument::new("cursor", ArgumentKind::Integer),
        Argument::new("pattern", ArgumentKind::Pattern).token("MATCH").optional(),
        Argument::new("count", ArgumentKind::Integer).token("COUNT").optional(),
        Argument::flag("novalues", "NOVALUES").optional(),
    ],
    tips: &["nondeterministic_output"],
    handler: Handler::Keyed(read::hscan),
    ..Command::BASE
};

const HEXPIRE: Command = Command {
    name: "hexpire",
    summary: "Lets fields expire after some seconds.",
    since: "9.0.0",
    complexity: "O(N) where N is the number of specified fields.",
    group: Group::Hash,
    arity: -6,
    flags: Flags::FAST.union(Flags::WRITE),
    categories: Categories::HASH,
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
        .optional(),
        Argument::new(
            "fields",
            ArgumentKind::Block(&[
                Argument::new("numfields", ArgumentKind::Integer),
                Argument::new("field", ArgumentKind::String).multiple(),
            ]),
        )
        .token("FIELDS"),
    ],
    handler: Handler::Keyed(expire::hexpire),
    ..Command::BASE
};

const HPEXPIRE: Command = Command {
    name: "hpexpire",
    summary: "Lets fields expire after some milliseconds.",
    since: "9.0.0",
    complexity: "O(N) where N is the number of specified fields.",
    group: Group::Hash,
    arity: -6,
    flags: Flags::FAST.union(Flags::WRITE),
    categories: Categories::HASH,
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
        .since("9.0.0"),
        Argument::new(
            "fields",
            ArgumentKind::Block(&[
                Argument::new("numfields", ArgumentKind::Integer),
                Argument::new("field", ArgumentKind::String).multiple(),
            ]),
        )
        .token("FIELDS"),
    ],
    handler: Handler::Keyed(expire::hexpire),
    ..Command::BASE
};

const HEXPIREAT: Command = Command {
    name: "hexpireat",
    summary: "Lets fields expire at a Unix time in seconds.",
    since: "9.0.0",
    complexity: "O(N) where N is the number of specified fields.",
    group: Group::Hash,
    arity: -6,
    flags: Flags::FAST.union(Flags::WRITE),
    categories: Categories::HASH,
    keys: &[KeySpec {
        flags: KeyFlags::RW.union(KeyFlags::UPDATE),
        start: Start::Index(1),
        find: Find::Range { last: 0, step: 1, limit: 0 },
        notes: None,
    }],
    arguments: &[
        Argument::new("key", ArgumentKind::Key(0)),
        Argument::new("unix-time-seconds", ArgumentKind::Integer),
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
        .since("9.0.0"),
        Argument::new(
            "fields",
            ArgumentKind::Block(&[
                Argument::new("numfields", ArgumentKind::Integer),
                Argument::new("field", ArgumentKind::String).multiple(),
            ]),
        )
        .token("FIELDS"),
    ],
    handler: Handler::Keyed(expire::hexpire),
    ..Command::BASE
};

const HPEXPIREAT: Command = Command {
    name: "hpexpireat",
    summary: "Lets fields expire at a Unix time in milliseconds.",
    since: "9.0.0",
    complexity: "O(N) where N is the number of specified fields.",
    group: Group::Hash,
    arity: -6,
    flags: Flags::FAST.union(Flags::WRITE),
    categories: Categories::HASH,
    keys: &[KeySpec {
        flags: KeyFlags::RW.union(KeyFlags::UPDATE),
        start: Start::Index(1),
        find: Find::Range { last: 0, step: 1, limit: 0 },
        notes: None,
    }],
    arguments: &[
        Argument::new("key", ArgumentKind::Key(0)),
        Argument::new("unix-time-milliseconds", ArgumentKind::Integer),
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
        .since("9.0.0"),
        Argument::new(
            "fields",
            ArgumentKind::Block(&[
                Argument::new("numfields", ArgumentKind::Integer),
                Argument::new("field", ArgumentKind::String).multiple(),
            ]),
        )
        .token("FIELDS"),
    ],
    handler: Handler::Keyed(expire::hexpire),
    ..Command::BASE
};

const HTTL: Command = Command {
    name: "httl",
    summary: "Answers how many seconds fields have left.",
    since: "9.0.0",
    complexity: "O(N) where N is the number of specified fields.",
    group: Group::Hash,
    arity: -5,
    flags: Flags::FAST.union(Flags::READONLY),
    categories: Categories::HASH,
    keys: &[KeySpec {
        flags: KeyFlags::RO.union(KeyFlags::ACCESS),
        start: Start::Index(1),
        find: Find::Range { last: 0, step: 1, limit: 0 },
        notes: None,
    }],
    arguments: &[
        Argument::new("key", ArgumentKind::Key(0)),
        Argument::new(
            "fields",
            ArgumentKind::Block(&[
                Argument::new("numfields", ArgumentKind::Integer),
                Argument::new("field", ArgumentKind::String).multiple(),
            ]),
        )
        .token("FIELDS"),
    ],
    handler: Handler::Keyed(expire::httl),
    ..Command::BASE
};

const HPTTL: Command = Command {
    name: "hpttl",
    summary: "Answers how many milliseconds fields have left.",
    since: "9.0.0",
    complexity: "O(N) where N is the number of specified fields.",
    group: Group::Hash,
    arity: -5,
    flags: Flags::FAST.union(Flags::READONLY),
    categories: Categories::HASH,
    keys: &[KeySpec {
        flags: KeyFlags::RO.union(KeyFlags::ACCESS),
        start: Start::Index(1),
        find: Find::Range { last: 0, step: 1, limit: 0 },
        notes: None,
    }],
    arguments: &[
        Argument::new("key", ArgumentKind::Key(0)),
        Argument::new(
            "fields",
            ArgumentKind::Block(&[
                Argument::new("numfields", ArgumentKind::Integer),
                Argument::new("field", ArgumentKind::String).multiple(),
            ]),
        )
        .token("FIELDS"),
    ],
    handler: Handler::Keyed(expire::httl),
    ..Command::BASE
};

const HEXPIRETIME: Command = Command {
    name: "hexpiretime",
    summary: "Answers when fields expire, in seconds.",
    since: "9.0.0",
    complexity: "O(N) where N is the number of specified fields.",
    group: Group::Hash,
    arity: -5,
    flags: Flags::FAST.union(Flags::READONLY),
    categories: Categories::HASH,
    keys: &[KeySpec {
        flags: KeyFlags::RO.union(KeyFlags::ACCESS),
        start: Start::Index(1),
        find: Find::Range { last: 0, step: 1, limit: 0 },
        notes: None,
    }],
    arguments: &[
        Argument::new("key", ArgumentKind::Key(0)),
        Argument::new(
            "fields",
            ArgumentKind::Block(&[
                Argument::new("numfields", ArgumentKind::Integer),
                Argument::new("field", ArgumentKind::String).multiple(),
            ]),
        )
        .token("FIELDS"),
    ],
    handler: Handler::Keyed(expire::httl),
    ..Command::BASE
};

const HPEXPIRETIME: Command = Command {
    name: "hpexpiretime",
    summary: "Answers when fields expire, in milliseconds.",
    since: "9.0.0",
    complexity: "O(N) where N is the number of specified fields.",
    group: Group::Hash,
    arity: -5,
    flags: Flags::FAST.union(Flags::READONLY),
    categories: Categories::HASH,
    keys: &[KeySpec {
        flags: KeyFlags::RO.union(KeyFlags::ACCESS),
        start: Start::Index(1),
        find: Find::Range { last: 0, step: 1, limit: 0 },
        notes: None,
    }],
    arguments: &[
        Argument::new("key", ArgumentKind::Key(0)),
        Argument::new(
            "fields",
            ArgumentKind::Block(&[
                Argument::new("numfields", ArgumentKind::Integer),
                Argument::new("field", ArgumentKind::String).multiple(),
            ]),
        )
        .token("FIELDS"),
    ],
    handler: Handler::Keyed(expire::httl),
    ..Command::BASE
};

const HPERSIST: Command = Command {
    name: "hpersist",
    summary: "Takes the expiry of fields away.",
    since: "9.0.0",
    complexity: "O(N) where N is the number of specified fields.",
    group: Group::Hash,
    arity: -5,
    flags: Flags::FAST.union(Flags::WRITE),
    categories: Categories::HASH,
    keys: &[KeySpec {
        flags: KeyFlags::RW.union(KeyFlags::UPDATE),
        start: Start::Index(1),
        find: Find::Range { last: 0, step: 1, limit: 0 },
        notes: None,
    }],
    arguments: &[
        Argument::new("key", ArgumentKind::Key(0)),
        Argument::new(
            "fields",
            ArgumentKind::Block(&[
                Argument::new("numfields", ArgumentKind::Integer),
                Argument::new("field", ArgumentKind::String).multiple(),
            ]),
        )
        .token("FIELDS"),
    ],
    handler: Handler::Keyed(expire::hpersist),
    ..Command::BASE
};

const HGETEX: Command = Command {
    name: "hgetex",
    summary: "Answers fields and changes their expiry.",
    since: "9.0.0",
    complexity: "O(N) where N is the number of specified fields.",
    group: Group::Hash,
    arity: -5,
    flags: Flags::FAST.union(Flags::WRITE),
    categories: Categories::HASH,
    keys: &[KeySpec {
        flags: KeyFlags::RW.union(KeyFlags::ACCESS).union(KeyFlags::UPDATE),
        start: Start::Index(1),
        find: Find::Range { last: 0, step: 1, limit: 0 },
        notes: None,
    }],
    arguments: &[
        Argument::new("key", ArgumentKind::Key(0)),
        Argument::new(
            "expiration",
            ArgumentKind::OneOf(&[
                Argument::new("seconds", ArgumentKind::Integer).token("EX"),
                Argument::new("milliseconds", ArgumentKind::Integer).token("PX"),
                Argument::new("unix-time-seconds", ArgumentKind::UnixTime).token("EXAT"),
                Argument::new("unix-time-milliseconds", ArgumentKind::UnixTime).token("PXAT"),
                Argument::flag("persist", "PERSIST"),
            ]),
        )
        .optional(),
        Argument::new(
            "fields",
            ArgumentKind::Block(&[
                Argument::new("numfields", ArgumentKind::Integer),
                Argument::new("field", ArgumentKind::String).multiple(),
            ]),
        )
        .token("FIELDS"),
    ],
    handler: Handler::Keyed(many::hgetex),
    ..Command::BASE
};

const HSETEX: Command = Command {
    name: "hsetex",
    summary: "Sets fields with conditions and an expiry.",
    since: "9.0.0",
    complexity: "O(N) where N is the number of specified fields.",
    group: Group::Hash,
    arity: -6,
    flags: Flags::DENYOOM.union(Flags::FAST).union(Flags::WRITE),
    categories: Categories::HASH,
    keys: &[KeySpec {
        flags: KeyFlags::RW.union(KeyFlags::INSERT),
        start: Start::Index(1),
        find: Find::Range { last: 0, step: 1, limit: 0 },
        notes: None,
    }],
    arguments: &[
        Argument::new("key", ArgumentKind::Key(0)),
        Argument::new(
            "key-condition",
            ArgumentKind::OneOf(&[Argument::flag("nx", "NX"), Argument::flag("xx", "XX")]),
        )
        .optional(),
        Argument::new(
            "fields-condition",
            ArgumentKind::OneOf(&[Argument::flag("fnx", "FNX"), Argument::flag("fxx", "FXX")]),
        )
        .optional(),
        Argument::new(
            "expiration",
            ArgumentKind::OneOf(&[
                Argument::new("seconds", ArgumentKind::Integer).token("EX"),
                Argument::new("milliseconds", ArgumentKind::Integer).token("PX"),
                Argument::new("unix-time-seconds", ArgumentKind::UnixTime).token("EXAT"),
                Argument::new("unix-time-milliseconds", ArgumentKind::UnixTime).token("PXAT"),
                Argument::flag("keepttl", "KEEPTTL"),
            ]),
        )
        .optional(),
        Argument::new(
            "fields",
            ArgumentKind::Block(&[
                Argument::new("numfields", ArgumentKind::Integer),
                Argument::new(
                    "data",
                    ArgumentKind::Block(&[
                        Argument::new("field", ArgumentKind::String),
                        Argument::new("value", ArgumentKind::String),
                    ]),
                )
                .multiple(),
            ]),
        )
        .token("FIELDS"),
    ],
    handler: Handler::Keyed(many::hsetex),
    ..Command::BASE
};

const HGETDEL: Command = Command {
    name: "hgetdel",
    summary: "Answers fields and removes them.",
    since: "9.1.0",
    complexity: "O(N) where N is the number of fields to be retrieved and deleted.",
    group: Group::Hash,
    arity: -5,
    flags: Flags::FAST.union(Flags::WRITE),
    categories: Categories::HASH,
    keys: &[KeySpec {
        flags: KeyFlags::RW.union(KeyFlags::ACCESS).union(KeyFlags::DELETE),
        start: Start::Index(1),
        find: Find::Range { last: 0, step: 1, limit: 0 },
        notes: None,
    }],
    arguments: &[
        Argument::new("key", ArgumentKind::Key(0)),
        Argument::new(
            "fields",
            ArgumentKind::Block(&[
                Argument::new("numfields", ArgumentKind::Integer),
                Argument::new("field", ArgumentKind::String).multiple(),
            ]),
        )
        .token("FIELDS"),
    ],
    handler: Handler::Keyed(many::hgetdel),
    ..Command::BASE
};
