//! Commands on strings.
//!
//! A string lives in its entry while it is short, in an allocation of its own when long, and in chunks once a long one is
//! modified in place.

mod get;
mod lcs;
mod many;
mod number;
mod range;
mod set;

pub(super) use range::{make_raw, new_raw_string, pieces, write, write_runs};
pub(super) use set::text_encoding_of;

use crate::command::{
    Argument, ArgumentKind, Categories, Command, Find, Flags, Group, Handler, KeyFlags, KeySpec,
    Start,
};

/// The family.
pub const COMMANDS: &[&Command] = &[
    &GET,
    &SET,
    &SETNX,
    &SETEX,
    &PSETEX,
    &GETSET,
    &GETDEL,
    &GETEX,
    &MGET,
    &MSET,
    &MSETNX,
    &MSETEX,
    &DELIFEQ,
    &APPEND,
    &STRLEN,
    &SETRANGE,
    &GETRANGE,
    &SUBSTR,
    &INCR,
    &DECR,
    &INCRBY,
    &DECRBY,
    &INCRBYFLOAT,
    &LCS,
];

const GET: Command = Command {
    name: "get",
    summary: "Answers the string under a key.",
    since: "1.0.0",
    group: Group::String,
    arity: 2,
    flags: Flags::FAST.union(Flags::READONLY),
    categories: Categories::STRING,
    keys: &[KeySpec {
        flags: KeyFlags::RO.union(KeyFlags::ACCESS),
        start: Start::Index(1),
        find: Find::Range { last: 0, step: 1, limit: 0 },
        notes: None,
    }],
    arguments: &[Argument::new("key", ArgumentKind::Key(0))],
    handler: Handler::Keyed(get::get),
    ..Command::BASE
};

const SET: Command = Command {
    name: "set",
    summary: "Puts a string under a key, whatever was there, unless an option says otherwise.",
    since: "1.0.0",
    group: Group::String,
    arity: -3,
    flags: Flags::DENYOOM.union(Flags::WRITE),
    categories: Categories::STRING,
    keys: &[KeySpec {
        flags: KeyFlags::RW
            .union(KeyFlags::ACCESS)
            .union(KeyFlags::UPDATE)
            .union(KeyFlags::VARIABLE_FLAGS),
        start: Start::Index(1),
        find: Find::Range { last: 0, step: 1, limit: 0 },
        notes: Some("RW and ACCESS due to the optional `GET` argument"),
    }],
    key_flags: Some(set::key_flags),
    arguments: &[
        Argument::new("key", ArgumentKind::Key(0)),
        Argument::new("value", ArgumentKind::String),
        Argument::new(
            "condition",
            ArgumentKind::OneOf(&[
                Argument::flag("nx", "NX").since("2.6.12"),
                Argument::flag("xx", "XX").since("2.6.12"),
                Argument::new("comparison-value", ArgumentKind::String)
                    .token("IFEQ")
                    .since("8.1.0"),
            ]),
        )
        .optional(),
        Argument::flag("get", "GET").optional().since("6.2.0"),
        Argument::new(
            "expiration",
            ArgumentKind::OneOf(&[
                Argument::new("seconds", ArgumentKind::Integer).token("EX").since("2.6.12"),
                Argument::new("milliseconds", ArgumentKind::Integer).token("PX").since("2.6.12"),
                Argument::new("unix-time-seconds", ArgumentKind::UnixTime)
                    .token("EXAT")
                    .since("6.2.0"),
                Argument::new("unix-time-milliseconds", ArgumentKind::UnixTime)
                    .token("PXAT")
                    .since("6.2.0"),
                Argument::flag("keepttl", "KEEPTTL").since("6.0.0"),
            ]),
        )
        .optional(),
    ],
    handler: Handler::Keyed(set::set),
    ..Command::BASE
};

const SETNX: Command = Command {
    name: "setnx",
    summary: "Sets a string if the key does not exist.",
    since: "1.0.0",
    group: Group::String,
    arity: 3,
    flags: Flags::DENYOOM.union(Flags::FAST).union(Flags::WRITE),
    categories: Categories::STRING,
    keys: &[KeySpec {
        flags: KeyFlags::OW.union(KeyFlags::INSERT),
        start: Start::Index(1),
        find: Find::Range { last: 0, step: 1, limit: 0 },
        notes: None,
    }],
    arguments: &[
        Argument::new("key", ArgumentKind::Key(0)),
        Argument::new("value", ArgumentKind::String),
    ],
    handler: Handler::Keyed(set::setnx),
    ..Command::BASE
};

const SETEX: Command = Command {
    name: "setex",
    summary: "Sets a string that expires after some seconds.",
    since: "2.0.0",
    group: Group::String,
    arity: 4,
    flags: Flags::DENYOOM.union(Flags::WRITE),
    categories: Categories::STRING,
    keys: &[KeySpec {
        flags: KeyFlags::OW.union(KeyFlags::UPDATE),
        start: Start::Index(1),
        find: Find::Range { last: 0, step: 1, limit: 0 },
        notes: None,
    }],
    arguments: &[
        Argument::new("key", ArgumentKind::Key(0)),
        Argument::new("seconds", ArgumentKind::Integer),
        Argument::new("value", ArgumentKind::String),
    ],
    handler: Handler::Keyed(set::setex),
    ..Command::BASE
};

const PSETEX: Command = Command {
    name: "psetex",
    summary: "Sets a string that expires after some milliseconds.",
    since: "2.6.0",
    group: Group::String,
    arity: 4,
    flags: Flags::DENYOOM.union(Flags::WRITE),
    categories: Categories::STRING,
    keys: &[KeySpec {
        flags: KeyFlags::OW.union(KeyFlags::UPDATE),
        start: Start::Index(1),
        find: Find::Range { last: 0, step: 1, limit: 0 },
        notes: None,
    }],
    arguments: &[
        Argument::new("key", ArgumentKind::Key(0)),
        Argument::new("milliseconds", ArgumentKind::Integer),
        Argument::new("value", ArgumentKind::String),
    ],
    handler: Handler::Keyed(set::setex),
    ..Command::BASE
};

const GETSET: Command = Command {
    name: "getset",
    summary: "Sets a string and answers the one before.",
    since: "1.0.0",
    group: Group::String,
    arity: 3,
    flags: Flags::DENYOOM.union(Flags::FAST).union(Flags::WRITE),
    categories: Categories::STRING,
    keys: &[KeySpec {
        flags: KeyFlags::RW.union(KeyFlags::ACCESS).union(KeyFlags::UPDATE),
        start: Start::Index(1),
        find: Find::Range { last: 0, step: 1, limit: 0 },
        notes: None,
    }],
    arguments: &[
        Argument::new("key", ArgumentKind::Key(0)),
        Argument::new("value", ArgumentKind::String),
    ],
    handler: Handler::Keyed(set::getset),
    ..Command::BASE
};

const GETDEL: Command = Command {
    name: "getdel",
    summary: "Answers a string and deletes its key.",
    since: "6.2.0",
    group: Group::String,
    arity: 2,
    flags: Flags::FAST.union(Flags::WRITE),
    categories: Categories::STRING,
    keys: &[KeySpec {
        flags: KeyFlags::RW.union(KeyFlags::ACCESS).union(KeyFlags::DELETE),
        start: Start::Index(1),
        find: Find::Range { last: 0, step: 1, limit: 0 },
        notes: None,
    }],
    arguments: &[Argument::new("key", ArgumentKind::Key(0))],
    handler: Handler::Keyed(get::getdel),
    ..Command::BASE
};

const GETEX: Command = Command {
    name: "getex",
    summary: "Answers a string and changes its expiry.",
    since: "6.2.0",
    group: Group::String,
    arity: -2,
    flags: Flags::FAST.union(Flags::WRITE),
    categories: Categories::STRING,
    keys: &[KeySpec {
        flags: KeyFlags::RW.union(KeyFlags::ACCESS).union(KeyFlags::UPDATE),
        start: Start::Index(1),
        find: Find::Range { last: 0, step: 1, limit: 0 },
        notes: Some("RW and UPDATE because it changes the TTL"),
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
    ],
    handler: Handler::Keyed(get::getex),
    ..Command::BASE
};

const MGET: Command = Command {
    name: "mget",
    summary: "Answers the strings under several keys.",
    since: "1.0.0",
    complexity: "O(N) where N is the number of keys to retrieve.",
    group: Group::String,
    arity: -2,
    flags: Flags::FAST.union(Flags::READONLY),
    categories: Categories::STRING,
    keys: &[KeySpec {
        flags: KeyFlags::RO.union(KeyFlags::ACCESS),
        start: Start::Index(1),
        find: Find::Range { last: -1, step: 1, limit: 0 },
        notes: None,
    }],
    arguments: &[Argument::new("key", ArgumentKind::Key(0)).multiple()],
    tips: &["request_policy:multi_shard"],
    handler: Handler::Keyed(many::mget),
    ..Command::BASE
};

const MSET: Command = Command {
    name: "mset",
    summary: "Sets several strings as one.",
    since: "1.0.1",
    complexity: "O(N) where N is the number of keys to set.",
    group: Group::String,
    arity: -3,
    flags: Flags::DENYOOM.union(Flags::WRITE),
    categories: Categories::STRING,
    keys: &[KeySpec {
        flags: KeyFlags::OW.union(KeyFlags::UPDATE),
        start: Start::Index(1),
        find: Find::Range { last: -1, step: 2, limit: 0 },
        notes: None,
    }],
    arguments: &[Argument::new(
        "data",
        ArgumentKind::Block(&[
            Argument::new("key", ArgumentKind::Key(0)),
            Argument::new("value", ArgumentKind::String),
        ]),
    )
    .multiple()],
    tips: &["request_policy:multi_shard", "response_policy:all_succeeded"],
    handler: Handler::Keyed(many::mset),
    ..Command::BASE
};

const MSETNX: Command = Command {
    name: "msetnx",
    summary: "Sets several strings as one if none of the keys exists.",
    since: "1.0.1",
    complexity: "O(N) where N is the number of keys to set.",
    group: Group::String,
    arity: -3,
    flags: Flags::DENYOOM.union(Flags::WRITE),
    categories: Categories::STRING,
    keys: &[KeySpec {
        flags: KeyFlags::OW.union(KeyFlags::INSERT),
        start: Start::Index(1),
        find: Find::Range { last: -1, step: 2, limit: 0 },
        notes: None,
    }],
    arguments: &[Argument::new(
        "data",
        ArgumentKind::Block(&[
            Argument::new("key", ArgumentKind::Key(0)),
            Argument::new("value", ArgumentKind::String),
        ]),
    )
    .multiple()],
    handler: Handler::Keyed(many::msetnx),
    ..Command::BASE
};

const MSETEX: Command = Command {
    name: "msetex",
    summary: "Sets several strings as one, with a condition and an expiry.",
    since: "9.1.0",
    complexity: "O(N) where N is the number of keys to set.",
    group: Group::String,
    arity: -4,
    flags: Flags::DENYOOM.union(Flags::MOVABLEKEYS).union(Flags::WRITE),
    categories: Categories::STRING,
    keys: &[KeySpec {
        flags: KeyFlags::OW.union(KeyFlags::UPDATE),
        start: Start::Index(1),
        find: Find::Count { count: 0, first: 1, step: 2 },
        notes: None,
    }],
    arguments: &[
        Argument::new("numkeys", ArgumentKind::Integer),
        Argument::new(
            "data",
            ArgumentKind::Block(&[
                Argument::new("key", ArgumentKind::Key(0)),
                Argument::new("value", ArgumentKind::String),
            ]),
        )
        .multiple(),
        Argument::new(
            "condition",
            ArgumentKind::OneOf(&[Argument::flag("nx", "NX"), Argument::flag("xx", "XX")]),
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
    ],
    tips: &["request_policy:multi_shard", "response_policy:all_succeeded"],
    handler: Handler::Keyed(many::msetex),
    ..Command::BASE
};

const DELIFEQ: Command = Command {
    name: "delifeq",
    summary: "Deletes a key if its string is the one given.",
    since: "9.0.0",
    group: Group::String,
    arity: 3,
    flags: Flags::FAST.union(Flags::WRITE),
    categories: Categories::STRING,
    keys: &[KeySpec {
        flags: KeyFlags::RM.union(KeyFlags::DELETE),
        start: Start::Index(1),
        find: Find::Range { last: 0, step: 1, limit: 0 },
        notes: None,
    }],
    arguments: &[
        Argument::new("key", ArgumentKind::Key(0)),
        Argument::new("value", ArgumentKind::String),
    ],
    handler: Handler::Keyed(get::delifeq),
    ..Command::BASE
};

const APPEND: Command = Command {
    name: "append",
    summary: "Appends to a string, or begins one.",
    since: "2.0.0",
    complexity: "O(1). The amortized time complexity is O(1) assuming the appended value is small and the already present value is of any size, since the dynamic string library used by the server will double the free space available on every reallocation.",
    group: Group::String,
    arity: 3,
    flags: Flags::DENYOOM.union(Flags::FAST).union(Flags::WRITE),
    categories: Categories::STRING,
    keys: &[KeySpec {
        flags: KeyFlags::RW.union(KeyFlags::INSERT),
        start: Start::Index(1),
        find: Find::Range { last: 0, step: 1, limit: 0 },
        notes: None,
    }],
    arguments: &[
        Argument::new("key", ArgumentKind::Key(0)),
        Argument::new("value", ArgumentKind::String),
    ],
    handler: Handler::Keyed(range::append),
    ..Command::BASE
};

const STRLEN: Command = Command {
    name: "strlen",
    summary: "Answers the length of a string.",
    since: "2.2.0",
    group: Group::String,
    arity: 2,
    flags: Flags::FAST.union(Flags::READONLY),
    categories: Categories::STRING,
    keys: &[KeySpec {
        flags: KeyFlags::RO,
        start: Start::Index(1),
        find: Find::Range { last: 0, step: 1, limit: 0 },
        notes: None,
    }],
    arguments: &[Argument::new("key", ArgumentKind::Key(0))],
    handler: Handler::Keyed(get::strlen),
    ..Command::BASE
};

const SETRANGE: Command = Command {
    name: "setrange",
    summary: "Overwrites part of a string.",
    since: "2.2.0",
    complexity: "O(1), not counting the time taken to copy the new string in place. Usually, this string is very small so the amortized complexity is O(1). Otherwise, complexity is O(M) with M being the length of the value argument.",
    group: Group::String,
    arity: 4,
    flags: Flags::DENYOOM.union(Flags::WRITE),
    categories: Categories::STRING,
    keys: &[KeySpec {
        flags: KeyFlags::RW.union(KeyFlags::UPDATE),
        start: Start::Index(1),
        find: Find::Range { last: 0, step: 1, limit: 0 },
        notes: None,
    }],
    arguments: &[
        Argument::new("key", ArgumentKind::Key(0)),
        Argument::new("offset", ArgumentKind::Integer),
        Argument::new("value", ArgumentKind::String),
    ],
    handler: Handler::Keyed(range::setrange),
    ..Command::BASE
};

const GETRANGE: Command = Command {
    name: "getrange",
    summary: "Answers part of a string.",
    since: "2.4.0",
    complexity: "O(N) where N is the length of the returned string. The complexity is ultimately determined by the returned length, but because creating a substring from an existing string is very cheap, it can be considered O(1) for small strings.",
    group: Group::String,
    arity: 4,
    flags: Flags::READONLY,
    categories: Categories::STRING,
    keys: &[KeySpec {
        flags: KeyFlags::RO.union(KeyFlags::ACCESS),
        start: Start::Index(1),
        find: Find::Range { last: 0, step: 1, limit: 0 },
        notes: None,
    }],
    arguments: &[
        Argument::new("key", ArgumentKind::Key(0)),
        Argument::new("start", ArgumentKind::Integer),
        Argument::new("end", ArgumentKind::Integer),
    ],
    handler: Handler::Keyed(range::getrange),
    ..Command::BASE
};

const SUBSTR: Command = Command {
    name: "substr",
    summary: "Answers part of a string.",
    since: "1.0.0",
    complexity: "O(N) where N is the length of the returned string. The complexity is ultimately determined by the returned length, but because creating a substring from an existing string is very cheap, it can be considered O(1) for small strings.",
    group: Group::String,
    arity: 4,
    flags: Flags::READONLY,
    categories: Categories::STRING,
    keys: &[KeySpec {
        flags: KeyFlags::RO.union(KeyFlags::ACCESS),
        start: Start::Index(1),
        find: Find::Range { last: 0, step: 1, limit: 0 },
        notes: None,
    }],
    arguments: &[
        Argument::new("key", ArgumentKind::Key(0)),
        Argument::new("start", ArgumentKind::Integer),
        Argument::new("end", ArgumentKind::Integer),
    ],
    handler: Handler::Keyed(range::getrange),
    ..Command::BASE
};

const INCR: Command = Command {
    name: "incr",
    summary: "Adds one to an integer.",
    since: "1.0.0",
    group: Group::String,
    arity: 2,
    flags: Flags::DENYOOM.union(Flags::FAST).union(Flags::WRITE),
    categories: Categories::STRING,
    keys: &[KeySpec {
        flags: KeyFlags::RW.union(KeyFlags::ACCESS).union(KeyFlags::UPDATE),
        start: Start::Index(1),
        find: Find::Range { last: 0, step: 1, limit: 0 },
        notes: None,
    }],
    arguments: &[Argument::new("key", ArgumentKind::Key(0))],
    handler: Handler::Keyed(number::incr),
    ..Command::BASE
};

const DECR: Command = Command {
    name: "decr",
    summary: "Takes one from an integer.",
    since: "1.0.0",
    group: Group::String,
    arity: 2,
    flags: Flags::DENYOOM.union(Flags::FAST).union(Flags::WRITE),
    categories: Categories::STRING,
    keys: &[KeySpec {
        flags: KeyFlags::RW.union(KeyFlags::ACCESS).union(KeyFlags::UPDATE),
        start: Start::Index(1),
        find: Find::Range { last: 0, step: 1, limit: 0 },
        notes: None,
    }],
    arguments: &[Argument::new("key", ArgumentKind::Key(0))],
    handler: Handler::Keyed(number::decr),
    ..Command::BASE
};

const INCRBY: Command = Command {
    name: "incrby",
    summary: "Adds to an integer.",
    since: "1.0.0",
    group: Group::String,
    arity: 3,
    flags: Flags::DENYOOM.union(Flags::FAST).union(Flags::WRITE),
    categories: Categories::STRING,
    keys: &[KeySpec {
        flags: KeyFlags::RW.union(KeyFlags::ACCESS).union(KeyFlags::UPDATE),
        start: Start::Index(1),
        find: Find::Range { last: 0, step: 1, limit: 0 },
        notes: None,
    }],
    arguments: &[
        Argument::new("key", ArgumentKind::Key(0)),
        Argument::new("increment", ArgumentKind::Integer),
    ],
    handler: Handler::Keyed(number::incrby),
    ..Command::BASE
};

const DECRBY: Command = Command {
    name: "decrby",
    summary: "Takes from an integer.",
    since: "1.0.0",
    group: Group::String,
    arity: 3,
    flags: Flags::DENYOOM.union(Flags::FAST).union(Flags::WRITE),
    categories: Categories::STRING,
    keys: &[KeySpec {
        flags: KeyFlags::RW.union(KeyFlags::ACCESS).union(KeyFlags::UPDATE),
        start: Start::Index(1),
        find: Find::Range { last: 0, step: 1, limit: 0 },
        notes: None,
    }],
    arguments: &[
        Argument::new("key", ArgumentKind::Key(0)),
        Argument::new("decrement", ArgumentKind::Integer),
    ],
    handler: Handler::Keyed(number::decrby),
    ..Command::BASE
};

const INCRBYFLOAT: Command = Command {
    name: "incrbyfloat",
    summary: "Adds to a floating point number.",
    since: "2.6.0",
    group: Group::String,
    arity: 3,
    flags: Flags::DENYOOM.union(Flags::FAST).union(Flags::WRITE),
    categories: Categories::STRING,
    keys: &[KeySpec {
        flags: KeyFlags::RW.union(KeyFlags::ACCESS).union(KeyFlags::UPDATE),
        start: Start::Index(1),
        find: Find::Range { last: 0, step: 1, limit: 0 },
        notes: None,
    }],
    arguments: &[
        Argument::new("key", ArgumentKind::Key(0)),
        Argument::new("increment", ArgumentKind::Double),
    ],
    handler: Handler::Keyed(number::incrbyfloat),
    ..Command::BASE
};

const LCS: Command = Command {
    name: "lcs",
    summary: "Finds the longest common subsequence of two strings.",
    since: "7.0.0",
    complexity: "O(N*M) where N and M are the lengths of s1 and s2, respectively",
    group: Group::String,
    arity: -3,
    flags: Flags::READONLY,
    categories: Categories::STRING,
    keys: &[KeySpec {
        flags: KeyFlags::RO.union(KeyFlags::ACCESS),
        start: Start::Index(1),
        find: Find::Range { last: 1, step: 1, limit: 0 },
        notes: None,
    }],
    arguments: &[
        Argument::new("key1", ArgumentKind::Key(0)),
        Argument::new("key2", ArgumentKind::Key(0)),
        Argument::flag("len", "LEN").optional(),
        Argument::flag("idx", "IDX").optional(),
        Argument::new("min-match-len", ArgumentKind::Integer).token("MINMATCHLEN").optional(),
        Argument::flag("withmatchlen", "WITHMATCHLEN").optional(),
    ],
    handler: Handler::Keyed(lcs::lcs),
    ..Command::BASE
};
