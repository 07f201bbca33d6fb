//! Declarations of the commands on bits: a row each, then what differs from the family.

use crate::command::prelude::*;

const BITMAP: Command = Command::keyed(Group::Bitmap, Categories::BITMAP);

const BIT_RANGE_END: Argument = block(
    "end-unit-block",
    &[integer("end"), one_of("unit", &[word("BYTE"), word("BIT")]).optional().since("7.0.0")],
)
.optional();

const BIT_RANGE: Argument = block("range", &[integer("start"), BIT_RANGE_END]).optional();

const GET_PARTS: &[Argument] = &[string("encoding"), integer("offset")];
const SET_PARTS: &[Argument] = &[string("encoding"), integer("offset"), integer("value")];
const INCRBY_PARTS: &[Argument] = &[string("encoding"), integer("offset"), integer("increment")];

const WRITE_OPERATION: Argument = one_of(
    "write-operation",
    &[
        block("set-block", SET_PARTS).token("SET"),
        block("incrby-block", INCRBY_PARTS).token("INCRBY"),
    ],
);

const OVERFLOW: Argument = one_of("overflow-block", &[word("WRAP"), word("SAT"), word("FAIL")])
    .token("OVERFLOW")
    .optional();

pub(super) const SETBIT: Command = BITMAP
    .command("setbit", 4, "2.2.0", "Sets a bit of a string and answers the one before.")
    .flags(&[WRITE, DENYOOM])
    .keys(&[KeySpec::first(&[RW, ACCESS, UPDATE])])
    .arguments(&[key("key"), integer("offset"), integer("value")]);

pub(super) const GETBIT: Command = BITMAP
    .command("getbit", 3, "2.2.0", "Answers a bit of a string.")
    .flags(&[READONLY, FAST])
    .keys(&[KeySpec::first(&[RO, ACCESS])])
    .arguments(&[key("key"), integer("offset")]);

pub(super) const BITCOUNT: Command = BITMAP
    .command("bitcount", -2, "2.6.0", "Counts the set bits of a string or of a part of it.")
    .complexity("O(N)")
    .flags(&[READONLY])
    .keys(&[KeySpec::first(&[RO, ACCESS])])
    .arguments(&[key("key"), BIT_RANGE])
    .history(&[
        ("7.0.0", "Added the `BYTE` and `BIT` options."),
        ("8.0.0", "`end` may be left out."),
    ]);

pub(super) const BITPOS: Command = BITMAP
    .command("bitpos", -3, "2.8.7", "Finds the first bit of a value.")
    .complexity("O(N)")
    .flags(&[READONLY])
    .keys(&[KeySpec::first(&[RO, ACCESS])])
    .arguments(&[key("key"), integer("bit"), BIT_RANGE])
    .history(&[("7.0.0", "Added the `BYTE` and `BIT` options.")]);

pub(super) const BITOP: Command = BITMAP
    .command("bitop", -4, "2.6.0", "Combines strings bit by bit and stores the result.")
    .complexity("O(N)")
    .flags(&[WRITE, DENYOOM])
    .keys(&[KeySpec::one(2, &[OW, UPDATE]), KeySpec::range(3, -1, &[RO, ACCESS])])
    .arguments(&[
        one_of("operation", &[word("AND"), word("OR"), word("XOR"), word("NOT")]),
        key("destkey"),
        key_of(1, "key").multiple(),
    ]);

pub(super) const BITFIELD: Command = BITMAP
    .command("bitfield", -2, "3.2.0", "Reads and changes integers of any width within a string.")
    .complexity("O(1) for each subcommand specified")
    .flags(&[WRITE, DENYOOM])
    .keys(&[KeySpec::first(&[RW, ACCESS, UPDATE, VARIABLE_FLAGS])
        .notes("This command allows both access and modification of the key")])
    .key_flags(super::field::key_flags)
    .arguments(&[
        key("key"),
        one_of(
            "operation",
            &[
                block("get-block", GET_PARTS).token("GET"),
                block("write", &[OVERFLOW, WRITE_OPERATION]),
            ],
        )
        .optional()
        .multiple(),
    ]);

pub(super) const BITFIELD_RO: Command = BITMAP
    .command("bitfield_ro", -2, "6.0.0", "Reads integers of any width within a string.")
    .complexity("O(1) for each subcommand specified")
    .flags(&[READONLY, FAST])
    .keys(&[KeySpec::first(&[RO, ACCESS])])
    .arguments(&[
        key("key"),
        block("get-block", GET_PARTS).token("GET").optional().multiple_token(),
    ]);
