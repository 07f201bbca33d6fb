//! Commands on the bits of strings. Bit 0 is the highest bit of byte 0.

mod bit;
mod combine;
mod count;
mod field;

use crate::command::{
    Argument, ArgumentKind, Categories, Command, Find, Flags, Group, Handler, KeyFlags, KeySpec,
    Start,
};

/// The family.
pub const COMMANDS: &[&Command] =
    &[&SETBIT, &GETBIT, &BITCOUNT, &BITPOS, &BITOP, &BITFIELD, &BITFIELD_RO];

const SETBIT: Command = Command {
    name: "setbit",
    summary: "Sets a bit of a string and answers the one before.",
    since: "2.2.0",
    group: Group::Bitmap,
    arity: 4,
    flags: Flags::DENYOOM.union(Flags::WRITE),
    categories: Categories::BITMAP,
    keys: &[KeySpec {
        flags: KeyFlags::RW.union(KeyFlags::ACCESS).union(KeyFlags::UPDATE),
        start: Start::Index(1),
        find: Find::Range { last: 0, step: 1, limit: 0 },
        notes: None,
    }],
    arguments: &[
        Argument::new("key", ArgumentKind::Key(0)),
        Argument::new("offset", ArgumentKind::Integer),
        Argument::new("value", ArgumentKind::Integer),
    ],
    handler: Handler::Keyed(bit::setbit),
    ..Command::BASE
};

const GETBIT: Command = Command {
    name: "getbit",
    summary: "Answers a bit of a string.",
    since: "2.2.0",
    group: Group::Bitmap,
    arity: 3,
    flags: Flags::FAST.union(Flags::READONLY),
    categories: Categories::BITMAP,
    keys: &[KeySpec {
        flags: KeyFlags::RO.union(KeyFlags::ACCESS),
        start: Start::Index(1),
        find: Find::Range { last: 0, step: 1, limit: 0 },
        notes: None,
    }],
    arguments: &[
        Argument::new("key", ArgumentKind::Key(0)),
        Argument::new("offset", ArgumentKind::Integer),
    ],
    handler: Handler::Keyed(bit::getbit),
    ..Command::BASE
};

const BITCOUNT: Command = Command {
    name: "bitcount",
    summary: "Counts the set bits of a string or of a part of it.",
    since: "2.6.0",
    complexity: "O(N)",
    group: Group::Bitmap,
    arity: -2,
    flags: Flags::READONLY,
    categories: Categories::BITMAP,
    keys: &[KeySpec {
        flags: KeyFlags::RO.union(KeyFlags::ACCESS),
        start: Start::Index(1),
        find: Find::Range { last: 0, step: 1, limit: 0 },
        notes: None,
    }],
    arguments: &[
        Argument::new("key", ArgumentKind::Key(0)),
        Argument::new(
            "range",
            ArgumentKind::Block(&[
                Argument::new("start", ArgumentKind::Integer),
                Argument::new(
                    "end-unit-block",
                    ArgumentKind::Block(&[
                        Argument::new("end", ArgumentKind::Integer),
                        Argument::new(
                            "unit",
                            ArgumentKind::OneOf(&[
                                Argument::flag("byte", "BYTE"),
                                Argument::flag("bit", "BIT"),
                            ]),
                        )
                        .optional()
                        .since("7.0.0"),
                    ]),
                )
                .optional(),
            ]),
        )
        .optional(),
    ],
    handler: Handler::Keyed(count::bitcount),
    ..Command::BASE
};

const BITPOS: Command = Command {
    name: "bitpos",
    summary: "Finds the first bit of a value.",
    since: "2.8.7",
    complexity: "O(N)",
    group: Group::Bitmap,
    arity: -3,
    flags: Flags::READONLY,
    categories: Categories::BITMAP,
    keys: &[KeySpec {
        flags: KeyFlags::RO.union(KeyFlags::ACCESS),
        start: Start::Index(1),
        find: Find::Range { last: 0, step: 1, limit: 0 },
        notes: None,
    }],
    arguments: &[
        Argument::new("key", ArgumentKind::Key(0)),
        Argument::new("bit", ArgumentKind::Integer),
        Argument::new(
            "range",
            ArgumentKind::Block(&[
                Argument::new("start", ArgumentKind::Integer),
                Argument::new(
                    "end-unit-block",
                    ArgumentKind::Block(&[
                        Argument::new("end", ArgumentKind::Integer),
                        Argument::new(
                            "unit",
                            ArgumentKind::OneOf(&[
                                Argument::flag("byte", "BYTE"),
                                Argument::flag("bit", "BIT"),
                            ]),
                        )
                        .optional()
                        .since("7.0.0"),
                    ]),
                )
                .optional(),
            ]),
        )
        .optional(),
    ],
    handler: Handler::Keyed(count::bitpos),
    ..Command::BASE
};

const BITOP: Command = Command {
    name: "bitop",
    summary: "Combines strings bit by bit and stores the result.",
    since: "2.6.0",
    complexity: "O(N)",
    group: Group::Bitmap,
    arity: -4,
    flags: Flags::DENYOOM.union(Flags::WRITE),
    categories: Categories::BITMAP,
    keys: &[
        KeySpec {
            flags: KeyFlags::OW.union(KeyFlags::UPDATE),
            start: Start::Index(2),
            find: Find::Range { last: 0, step: 1, limit: 0 },
            notes: None,
        },
        KeySpec {
            flags: KeyFlags::RO.union(KeyFlags::ACCESS),
            start: Start::Index(3),
            find: Find::Range { last: -1, step: 1, limit: 0 },
            notes: None,
        },
    ],
    arguments: &[
        Argument::new(
            "operation",
            ArgumentKind::OneOf(&[
                Argument::flag("and", "AND"),
                Argument::flag("or", "OR"),
                Argument::flag("xor", "XOR"),
                Argument::flag("not", "NOT"),
            ]),
        ),
        Argument::new("destkey", ArgumentKind::Key(0)),
        Argument::new("key", ArgumentKind::Key(1)).multiple(),
    ],
    handler: Handler::Keyed(combine::bitop),
    ..Command::BASE
};

const BITFIELD: Command = Command {
    name: "bitfield",
    summary: "Reads and changes integers of any width within a string.",
    since: "3.2.0",
    complexity: "O(1) for each subcommand specified",
    group: Group::Bitmap,
    arity: -2,
    flags: Flags::DENYOOM.union(Flags::WRITE),
    categories: Categories::BITMAP,
    keys: &[KeySpec {
        flags: KeyFlags::RW
            .union(KeyFlags::ACCESS)
            .union(KeyFlags::UPDATE)
            .union(KeyFlags::VARIABLE_FLAGS),
        start: Start::Index(1),
        find: Find::Range { last: 0, step: 1, limit: 0 },
        notes: Some("This command allows both access and modification of the key"),
    }],
    key_flags: Some(field::key_flags),
    arguments: &[
        Argument::new("key", ArgumentKind::Key(0)),
        Argument::new(
            "operation",
            ArgumentKind::OneOf(&[
                Argument::new(
                    "get-block",
                    ArgumentKind::Block(&[
                        Argument::new("encoding", ArgumentKind::String),
                        Argument::new("offset", ArgumentKind::Integer),
                    ]),
                )
                .token("GET"),
                Argument::new(
                    "write",
                    ArgumentKind::Block(&[
                        Argument::new(
                            "overflow-block",
                            ArgumentKind::OneOf(&[
                                Argument::flag("wrap", "WRAP"),
                                Argument::flag("sat", "SAT"),
                                Argument::flag("fail", "FAIL"),
                            ]),
                        )
                        .token("OVERFLOW")
                        .optional(),
                        Argument::new(
                            "write-operation",
                            ArgumentKind::OneOf(&[
                                Argument::new(
                                    "set-block",
                                    ArgumentKind::Block(&[
                                        Argument::new("encoding", ArgumentKind::String),
                                        Argument::new("offset", ArgumentKind::Integer),
                                        Argument::new("value", ArgumentKind::Integer),
                                    ]),
                                )
                                .token("SET"),
                                Argument::new(
                                    "incrby-block",
                                    ArgumentKind::Block(&[
                                        Argument::new("encoding", ArgumentKind::String),
                                        Argument::new("offset", ArgumentKind::Integer),
                                        Argument::new("increment", ArgumentKind::Integer),
                                    ]),
                                )
                                .token("INCRBY"),
                            ]),
                        ),
                    ]),
                ),
            ]),
        )
        .optional()
        .multiple(),
    ],
    handler: Handler::Keyed(field::bitfield),
    ..Command::BASE
};

const BITFIELD_RO: Command = Command {
    name: "bitfield_ro",
    summary: "Reads integers of any width within a string.",
    since: "6.0.0",
    complexity: "O(1) for each subcommand specified",
    group: Group::Bitmap,
    arity: -2,
    flags: Flags::FAST.union(Flags::READONLY),
    categories: Categories::BITMAP,
    keys: &[KeySpec {
        flags: KeyFlags::RO.union(KeyFlags::ACCESS),
        start: Start::Index(1),
        find: Find::Range { last: 0, step: 1, limit: 0 },
        notes: None,
    }],
    arguments: &[
        Argument::new("key", ArgumentKind::Key(0)),
        Argument::new(
            "get-block",
            ArgumentKind::Block(&[
                Argument::new("encoding", ArgumentKind::String),
                Argument::new("offset", ArgumentKind::Integer),
            ]),
        )
        .token("GET")
        .optional()
        .multiple_token(),
    ],
    handler: Handler::Keyed(field::bitfield),
    ..Command::BASE
};
