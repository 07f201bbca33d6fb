//! Commands on lists.

mod change;
mod encoding;
mod look;
mod movement;
mod pop;
mod push;

pub(super) use encoding::new_encoding;

use crate::command::{
    Argument, ArgumentKind, Categories, Command, Find, Flags, Group, Handler, KeyFlags, KeySpec,
    Start,
};

/// The family.
pub const COMMANDS: &[&Command] = &[
    &LPUSH,
    &RPUSH,
    &LPUSHX,
    &RPUSHX,
    &LPOP,
    &RPOP,
    &LMPOP,
    &BLPOP,
    &BRPOP,
    &BLMPOP,
    &LMOVE,
    &BLMOVE,
    &RPOPLPUSH,
    &BRPOPLPUSH,
    &LLEN,
    &LINDEX,
    &LRANGE,
    &LPOS,
    &LSET,
    &LINSERT,
    &LREM,
    &LTRIM,
];

const LPUSH: Command = Command {
    name: "lpush",
    summary: "Adds elements at the front of a list.",
    since: "1.0.0",
    complexity: "O(1) for each element added, so O(N) to add N elements when the command is called with multiple arguments.",
    group: Group::List,
    arity: -3,
    flags: Flags::DENYOOM.union(Flags::FAST).union(Flags::WRITE),
    categories: Categories::LIST,
    keys: &[KeySpec {
        flags: KeyFlags::RW.union(KeyFlags::INSERT),
        start: Start::Index(1),
        find: Find::Range { last: 0, step: 1, limit: 0 },
        notes: None,
    }],
    arguments: &[
        Argument::new("key", ArgumentKind::Key(0)),
        Argument::new("element", ArgumentKind::String).multiple(),
    ],
    handler: Handler::Keyed(push::push),
    ..Command::BASE
};

const RPUSH: Command = Command {
    name: "rpush",
    summary: "Adds elements at the back of a list.",
    since: "1.0.0",
    complexity: "O(1) for each element added, so O(N) to add N elements when the command is called with multiple arguments.",
    group: Group::List,
    arity: -3,
    flags: Flags::DENYOOM.union(Flags::FAST).union(Flags::WRITE),
    categories: Categories::LIST,
    keys: &[KeySpec {
        flags: KeyFlags::RW.union(KeyFlags::INSERT),
        start: Start::Index(1),
        find: Find::Range { last: 0, step: 1, limit: 0 },
        notes: None,
    }],
    arguments: &[
        Argument::new("key", ArgumentKind::Key(0)),
        Argument::new("element", ArgumentKind::String).multiple(),
    ],
    handler: Handler::Keyed(push::push),
    ..Command::BASE
};

const LPUSHX: Command = Command {
    name: "lpushx",
    summary: "Adds elements at the front of a list that exists.",
    since: "2.2.0",
    complexity: "O(1) for each element added, so O(N) to add N elements when the command is called with multiple arguments.",
    group: Group::List,
    arity: -3,
    flags: Flags::DENYOOM.union(Flags::FAST).union(Flags::WRITE),
    categories: Categories::LIST,
    keys: &[KeySpec {
        flags: KeyFlags::RW.union(KeyFlags::INSERT),
        start: Start::Index(1),
        find: Find::Range { last: 0, step: 1, limit: 0 },
        notes: None,
    }],
    arguments: &[
        Argument::new("key", ArgumentKind::Key(0)),
        Argument::new("element", ArgumentKind::String).multiple(),
    ],
    handler: Handler::Keyed(push::push),
    ..Command::BASE
};

const RPUSHX: Command = Command {
    name: "rpushx",
    summary: "Adds elements at the back of a list that exists.",
    since: "2.2.0",
    complexity: "O(1) for each element added, so O(N) to add N elements when the command is called with multiple arguments.",
    group: Group::List,
    arity: -3,
    flags: Flags::DENYOOM.union(Flags::FAST).union(Flags::WRITE),
    categories: Categories::LIST,
    keys: &[KeySpec {
        flags: KeyFlags::RW.union(KeyFlags::INSERT),
        start: Start::Index(1),
        find: Find::Range { last: 0, step: 1, limit: 0 },
        notes: None,
    }],
    arguments: &[
        Argument::new("key", ArgumentKind::Key(0)),
        Argument::new("element", ArgumentKind::String).multiple(),
    ],
    handler: Handler::Keyed(push::push),
    ..Command::BASE
};

const LPOP: Command = Command {
    name: "lpop",
    summary: "Takes elements from the front of a list.",
    since: "1.0.0",
    complexity: "O(N) where N is the number of elements returned",
    group: Group::List,
    arity: -2,
    flags: Flags::FAST.union(Flags::WRITE),
    categories: Categories::LIST,
    keys: &[KeySpec {
        flags: KeyFlags::RW.union(KeyFlags::ACCESS).union(KeyFlags::DELETE),
        start: Start::Index(1),
        find: Find::Range { last: 0, step: 1, limit: 0 },
        notes: None,
    }],
    arguments: &[
        Argument::new("key", ArgumentKind::Key(0)),
        Argument::new("count", ArgumentKind::Integer).optional().since("6.2.0"),
    ],
    handler: Handler::Keyed(pop::pop),
    ..Command::BASE
};

const RPOP: Command = Command {
    name: "rpop",
    summary: "Takes elements from the back of a list.",
    since: "1.0.0",
    complexity: "O(N) where N is the number of elements returned",
    group: Group::List,
    arity: -2,
    flags: Flags::FAST.union(Flags::WRITE),
    categories: Categories::LIST,
    keys: &[KeySpec {
        flags: KeyFlags::RW.union(KeyFlags::ACCESS).union(KeyFlags::DELETE),
        start: Start::Index(1),
        find: Find::Range { last: 0, step: 1, limit: 0 },
        notes: None,
    }],
    arguments: &[
        Argument::new("key", ArgumentKind::Key(0)),
        Argument::new("count", ArgumentKind::Integer).optional().since("6.2.0"),
    ],
    handler: Handler::Keyed(pop::pop),
    ..Command::BASE
};

const LMPOP: Command = Command {
    name: "lmpop",
    summary: "Takes elements from the first list that has some.",
    since: "7.0.0",
    complexity: "O(N+M) where N is the number of provided keys and M is the number of elements returned.",
    group: Group::List,
    arity: -4,
    flags: Flags::MOVABLEKEYS.union(Flags::WRITE),
    categories: Categories::LIST,
    keys: &[KeySpec {
        flags: KeyFlags::RW.union(KeyFlags::ACCESS).union(KeyFlags::DELETE),
        start: Start::Index(1),
        find: Find::Count { count: 0, first: 1, step: 1 },
        notes: None,
    }],
    arguments: &[
        Argument::new("numkeys", ArgumentKind::Integer),
        Argument::new("key", ArgumentKind::Key(0)).multiple(),
        Argument::new(
            "where",
            ArgumentKind::OneOf(&[
                Argument::flag("left", "LEFT"),
                Argument::flag("right", "RIGHT"),
            ]),
        ),
        Argument::new("count", ArgumentKind::Integer).token("COUNT").optional(),
    ],
    handler: Handler::Keyed(pop::lmpop),
    ..Command::BASE
};

const BLPOP: Command = Command {
    name: "blpop",
    summary: "Takes an element from the front of the first list that has one; waits for it.",
    since: "2.0.0",
    complexity: "O(N) where N is the number of provided keys.",
    group: Group::List,
    arity: -3,
    flags: Flags::BLOCKING.union(Flags::WRITE),
    categories: Categories::LIST,
    keys: &[KeySpec {
        flags: KeyFlags::RW.union(KeyFlags::ACCESS).union(KeyFlags::DELETE),
        start: Start::Index(1),
        find: Find::Range { last: -2, step: 1, limit: 0 },
        notes: None,
    }],
    arguments: &[
        Argument::new("key", ArgumentKind::Key(0)).multiple(),
        Argument::new("timeout", ArgumentKind::Double),
    ],
    handler: Handler::Keyed(pop::bpop),
    ..Command::BASE
};

const BRPOP: Command = Command {
    name: "brpop",
    summary: "Takes an element from the back of the first list that has one; waits for it.",
    since: "2.0.0",
    complexity: "O(N) where N is the number of provided keys.",
    group: Group::List,
    arity: -3,
    flags: Flags::BLOCKING.union(Flags::WRITE),
    categories: Categories::LIST,
    keys: &[KeySpec {
        flags: KeyFlags::RW.union(KeyFlags::ACCESS).union(KeyFlags::DELETE),
        start: Start::Index(1),
        find: Find::Range { last: -2, step: 1, limit: 0 },
        notes: None,
    }],
    arguments: &[
        Argument::new("key", ArgumentKind::Key(0)).multiple(),
        Argument::new("timeout", ArgumentKind::Double),
    ],
    handler: Handler::Keyed(pop::bpop),
    ..Command::BASE
};

const BLMPOP: Command = Command {
    name: "blmpop",
    summary: "Takes elements from the first list that has some; waits for them.",
    since: "7.0.0",
    complexity: "O(N+M) where N is the number of provided keys and M is the number of elements returned.",
    group: Group::List,
    arity: -5,
    flags: Flags::BLOCKING.union(Flags::MOVABLEKEYS).union(Flags::WRITE),
    categories: Categories::LIST,
    keys: &[KeySpec {
        flags: KeyFlags::RW.union(KeyFlags::ACCESS).union(KeyFlags::DELETE),
        start: Start::Index(2),
        find: Find::Count { count: 0, first: 1, step: 1 },
        notes: None,
    }],
    arguments: &[
        Argument::new("timeout", ArgumentKind::Double),
        Argument::new("numkeys", ArgumentKind::Integer),
        Argument::new("key", ArgumentKind::Key(0)).multiple(),
        Argument::new(
            "where",
            ArgumentKind::OneOf(&[
                Argument::flag("left", "LEFT"),
                Argument::flag("right", "RIGHT"),
            ]),
        ),
        Argument::new("count", ArgumentKind::Integer).token("COUNT").optional(),
    ],
    handler: Handler::Keyed(pop::blmpop),
    ..Command::BASE
};

const LMOVE: Command = Command {
    name: "lmove",
    summary: "Takes an element from one list and adds it to another.",
    since: "6.2.0",
    group: Group::List,
    arity: 5,
    flags: Flags::DENYOOM.union(Flags::WRITE),
    categories: Categories::LIST,
    keys: &[
        KeySpec {
            flags: KeyFlags::RW.union(KeyFlags::ACCESS).union(KeyFlags::DELETE),
            start: Start::Index(1),
            find: Find::Range { last: 0, step: 1, limit: 0 },
            notes: None,
        },
        KeySpec {
            flags: KeyFlags::RW.union(KeyFlags::INSERT),
            start: Start::Index(2),
            find: Find::Range { last: 0, step: 1, limit: 0 },
            notes: None,
        },
    ],
    arguments: &[
        Argument::new("source", ArgumentKind::Key(0)),
        Argument::new("destination", ArgumentKind::Key(1)),
        Argument::new(
            "wherefrom",
            ArgumentKind::OneOf(&[
                Argument::flag("left", "LEFT"),
                Argument::flag("right", "RIGHT"),
            ]),
        ),
        Argument::new(
            "whereto",
            ArgumentKind::OneOf(&[
                Argument::flag("left", "LEFT"),
                Argument::flag("right", "RIGHT"),
            ]),
        ),
    ],
    handler: Handler::Keyed(movement::lmove),
    ..Command::BASE
};

const BLMOVE: Command = Command {
    name: "blmove",
    summary: "Takes an element from one list and adds it to another; waits for it.",
    since: "6.2.0",
    group: Group::List,
    arity: 6,
    flags: Flags::BLOCKING.union(Flags::DENYOOM).union(Flags::WRITE),
    categories: Categories::LIST,
    keys: &[
        KeySpec {
            flags: KeyFlags::RW.union(KeyFlags::ACCESS).union(KeyFlags::DELETE),
            start: Start::Index(1),
            find: Find::Range { last: 0, step: 1, limit: 0 },
            notes: None,
        },
        KeySpec {
            flags: KeyFlags::RW.union(KeyFlags::INSERT),
            start: Start::Index(2),
            find: Find::Range { last: 0, step: 1, limit: 0 },
            notes: None,
        },
    ],
    arguments: &[
        Argument::new("source", ArgumentKind::Key(0)),
        Argument::new("destination", ArgumentKind::Key(1)),
        Argument::new(
            "wherefrom",
            ArgumentKind::OneOf(&[
                Argument::flag("left", "LEFT"),
                Argument::flag("right", "RIGHT"),
            ]),
        ),
        Argument::new(
            "whereto",
            ArgumentKind::OneOf(&[
                Argument::flag("left", "LEFT"),
                Argument::flag("right", "RIGHT"),
            ]),
        ),
        Argument::new("timeout", ArgumentKind::Double),
    ],
    handler: Handler::Keyed(movement::blmove),
    ..Command::BASE
};

const RPOPLPUSH: Command = Command {
    name: "rpoplpush",
    summary: "Takes the last element of a list and adds it at the front of another.",
    since: "1.2.0",
    group: Group::List,
    arity: 3,
    flags: Flags::DENYOOM.union(Flags::WRITE),
    categories: Categories::LIST,
    keys: &[
        KeySpec {
            flags: KeyFlags::RW.union(KeyFlags::ACCESS).union(KeyFlags::DELETE),
            start: Start::Index(1),
            find: Find::Range { last: 0, step: 1, limit: 0 },
            notes: None,
        },
        KeySpec {
            flags: KeyFlags::RW.union(KeyFlags::INSERT),
            start: Start::Index(2),
            find: Find::Range { last: 0, step: 1, limit: 0 },
            notes: None,
        },
    ],
    arguments: &[
        Argument::new("source", ArgumentKind::Key(0)),
        Argument::new("destination", ArgumentKind::Key(1)),
    ],
    handler: Handler::Keyed(movement::rpoplpush),
    ..Command::BASE
};

const BRPOPLPUSH: Command = Command {
    name: "brpoplpush",
    summary: "Takes the last element of a list and adds it at the front of another; waits for it.",
    since: "2.2.0",
    group: Group::List,
    arity: 4,
    flags: Flags::BLOCKING.union(Flags::DENYOOM).union(Flags::WRITE),
    categories: Categories::LIST,
    keys: &[
        KeySpec {
            flags: KeyFlags::RW.union(KeyFlags::ACCESS).union(KeyFlags::DELETE),
            start: Start::Index(1),
            find: Find::Range { last: 0, step: 1, limit: 0 },
            notes: None,
        },
        KeySpec {
            flags: KeyFlags::RW.union(KeyFlags::INSERT),
            start: Start::Index(2),
            find: Find::Range { last: 0, step: 1, limit: 0 },
            notes: None,
        },
    ],
    arguments: &[
        Argument::new("source", ArgumentKind::Key(0)),
        Argument::new("destination", ArgumentKind::Key(1)),
        Argument::new("timeout", ArgumentKind::Double),
    ],
    handler: Handler::Keyed(movement::brpoplpush),
    ..Command::BASE
};

const LLEN: Command = Command {
    name: "llen",
    summary: "Answers the length of a list.",
    since: "1.0.0",
    group: Group::List,
    arity: 2,
    flags: Flags::FAST.union(Flags::READONLY),
    categories: Categories::LIST,
    keys: &[KeySpec {
        flags: KeyFlags::RO,
        start: Start::Index(1),
        find: Find::Range { last: 0, step: 1, limit: 0 },
        notes: None,
    }],
    arguments: &[Argument::new("key", ArgumentKind::Key(0))],
    handler: Handler::Keyed(look::llen),
    ..Command::BASE
};

const LINDEX: Command = Command {
    name: "lindex",
    summary: "Answers the element at a position.",
    since: "1.0.0",
    complexity: "O(N) where N is the number of elements to traverse to get to the element at index. This makes asking for the first or the last element of the list O(1).",
    group: Group::List,
    arity: 3,
    flags: Flags::READONLY,
    categories: Categories::LIST,
    keys: &[KeySpec {
        flags: KeyFlags::RO.union(KeyFlags::ACCESS),
        start: Start::Index(1),
        find: Find::Range { last: 0, step: 1, limit: 0 },
        notes: None,
    }],
    arguments: &[
        Argument::new("key", ArgumentKind::Key(0)),
        Argument::new("index", ArgumentKind::Integer),
    ],
    handler: Handler::Keyed(look::lindex),
    ..Command::BASE
};

const LRANGE: Command = Command {
    name: "lrange",
    summary: "Answers the elements of a range of positions.",
    since: "1.0.0",
    complexity: "O(S+N) where S is the distance of start offset from HEAD for small lists, from nearest end (HEAD or TAIL) for large lists; and N is the number of elements in the specified range.",
    group: Group::List,
    arity: 4,
    flags: Flags::READONLY,
    categories: Categories::LIST,
    keys: &[KeySpec {
        flags: KeyFlags::RO.union(KeyFlags::ACCESS),
        start: Start::Index(1),
        find: Find::Range { last: 0, step: 1, limit: 0 },
        notes: None,
    }],
    arguments: &[
        Argument::new("key", ArgumentKind::Key(0)),
        Argument::new("start", ArgumentKind::Integer),
        Argument::new("stop", ArgumentKind::Integer),
    ],
    handler: Handler::Keyed(look::lrange),
    ..Command::BASE
};

const LPOS: Command = Command {
    name: "lpos",
    summary: "Finds the positions of an element.",
    since: "6.0.6",
    complexity: "O(N) where N is the number of elements in the list, for the average case. When searching for elements near the head or the tail of the list, or when the MAXLEN option is provided, the command may run in constant time.",
    group: Group::List,
    arity: -3,
    flags: Flags::READONLY,
    categories: Categories::LIST,
    keys: &[KeySpec {
        flags: KeyFlags::RO.union(KeyFlags::ACCESS),
        start: Start::Index(1),
        find: Find::Range { last: 0, step: 1, limit: 0 },
        notes: None,
    }],
    arguments: &[
        Argument::new("key", ArgumentKind::Key(0)),
        Argument::new("element", ArgumentKind::String),
        Argument::new("rank", ArgumentKind::Integer).token("RANK").optional(),
        Argument::new("num-matches", ArgumentKind::Integer).token("COUNT").optional(),
        Argument::new("len", ArgumentKind::Integer).token("MAXLEN").optional(),
    ],
    handler: Handler::Keyed(look::lpos),
    ..Command::BASE
};

const LSET: Command = Command {
    name: "lset",
    summary: "Replaces the element at a position.",
    since: "1.0.0",
    complexity: "O(N) where N is the length of the list. Setting either the first or the last element of the list is O(1).",
    group: Group::List,
    arity: 4,
    flags: Flags::DENYOOM.union(Flags::WRITE),
    categories: Categories::LIST,
    keys: &[KeySpec {
        flags: KeyFlags::RW.union(KeyFlags::UPDATE),
        start: Start::Index(1),
        find: Find::Range { last: 0, step: 1, limit: 0 },
        notes: None,
    }],
    arguments: &[
        Argument::new("key", ArgumentKind::Key(0)),
        Argument::new("index", ArgumentKind::Integer),
        Argument::new("element", ArgumentKind::String),
    ],
    handler: Handler::Keyed(change::lset),
    ..Command::BASE
};

const LINSERT: Command = Command {
    name: "linsert",
    summary: "Adds an element before or after another.",
    since: "2.2.0",
    complexity: "O(N) where N is the number of elements to traverse before seeing the value pivot. This means that inserting somewhere on the left end on the list (head) can be considered O(1) and inserting somewhere on the right end (tail) is O(N).",
    group: Group::List,
    arity: 5,
    flags: Flags::DENYOOM.union(Flags::WRITE),
    categories: Categories::LIST,
    keys: &[KeySpec {
        flags: KeyFlags::RW.union(KeyFlags::INSERT),
        start: Start::Index(1),
        find: Find::Range { last: 0, step: 1, limit: 0 },
        notes: None,
    }],
    arguments: &[
        Argument::new("key", ArgumentKind::Key(0)),
        Argument::new(
            "where",
            ArgumentKind::OneOf(&[
                Argument::flag("before", "BEFORE"),
                Argument::flag("after", "AFTER"),
            ]),
        ),
        Argument::new("pivot", ArgumentKind::String),
        Argument::new("element", ArgumentKind::String),
    ],
    handler: Handler::Keyed(change::linsert),
    ..Command::BASE
};

const LREM: Command = Command {
    name: "lrem",
    summary: "Removes elements by value.",
    since: "1.0.0",
    complexity: "O(N+M) where N is the length of the list and M is the number of elements removed.",
    group: Group::List,
    arity: 4,
    flags: Flags::WRITE,
    categories: Categories::LIST,
    keys: &[KeySpec {
        flags: KeyFlags::RW.union(KeyFlags::DELETE),
        start: Start::Index(1),
        find: Find::Range { last: 0, step: 1, limit: 0 },
        notes: None,
    }],
    arguments: &[
        Argument::new("key", ArgumentKind::Key(0)),
        Argument::new("count", ArgumentKind::Integer),
        Argument::new("element", ArgumentKind::String),
    ],
    handler: Handler::Keyed(change::lrem),
    ..Command::BASE
};

const LTRIM: Command = Command {
    name: "ltrim",
    summary: "Keeps the elements of a range of positions only.",
    since: "1.0.0",
    complexity: "O(N) where N is the number of elements to be removed by the operation.",
    group: Group::List,
    arity: 4,
    flags: Flags::WRITE,
    categories: Categories::LIST,
    keys: &[KeySpec {
        flags: KeyFlags::RW.union(KeyFlags::DELETE),
        start: Start::Index(1),
        find: Find::Range { last: 0, step: 1, limit: 0 },
        notes: None,
    }],
    arguments: &[
        Argument::new("key", ArgumentKind::Key(0)),
        Argument::new("start", ArgumentKind::Integer),
        Argument::new("stop", ArgumentKind::Integer),
    ],
    handler: Handler::Keyed(change::ltrim),
    ..Command::BASE
};
