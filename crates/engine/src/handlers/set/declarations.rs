//! Declarations of the commands on sets: a row each, then what differs from the family.

use crate::command::prelude::*;

const SET: Command = Command::keyed(Group::Set, Categories::SET);

pub(super) const SADD: Command = SET
    .command("sadd", -3, "1.0.0", "Adds members to a set.")
    .complexity(
        "O(1) for each element added, so O(N) to add N elements when the command is called with \
         multiple arguments.",
    )
    .flags(&[WRITE, DENYOOM, FAST])
    .keys(&[KeySpec::first(&[RW, INSERT])])
    .arguments(&[key("key"), string("member").multiple()])
    .history(&[("2.4.0", "Takes several members.")]);

pub(super) const SREM: Command = SET
    .command("srem", -3, "1.0.0", "Removes members.")
    .complexity("O(N) where N is the number of members to be removed.")
    .flags(&[WRITE, FAST])
    .keys(&[KeySpec::first(&[RW, DELETE])])
    .arguments(&[key("key"), string("member").multiple()])
    .history(&[("2.4.0", "Takes several members.")]);

pub(super) const SMOVE: Command = SET
    .command("smove", 4, "1.0.0", "Takes a member from one set and adds it to another.")
    .flags(&[WRITE, FAST])
    .keys(&[KeySpec::first(&[RW, ACCESS, DELETE]), KeySpec::one(2, &[RW, INSERT])])
    .arguments(&[key("source"), key_of(1, "destination"), string("member")]);

pub(super) const SISMEMBER: Command = SET
    .command("sismember", 3, "1.0.0", "Tells whether a member is in a set.")
    .flags(&[READONLY, FAST])
    .keys(&[KeySpec::first(&[RO])])
    .arguments(&[key("key"), string("member")]);

pub(super) const SMISMEMBER: Command = SET
    .command("smismember", -3, "6.2.0", "Tells for each of several members whether it is in a set.")
    .complexity("O(N) where N is the number of elements being checked for membership")
    .flags(&[READONLY, FAST])
    .keys(&[KeySpec::first(&[RO, ACCESS])])
    .arguments(&[key("key"), string("member").multiple()]);

pub(super) const SCARD: Command = SET
    .command("scard", 2, "1.0.0", "Counts the members.")
    .flags(&[READONLY, FAST])
    .keys(&[KeySpec::first(&[RO])])
    .arguments(&[key("key")]);

pub(super) const SMEMBERS: Command = SET
    .command("smembers", 2, "1.0.0", "Answers all members.")
    .complexity("O(N) where N is the set cardinality.")
    .flags(&[READONLY])
    .keys(&[KeySpec::first(&[RO, ACCESS])])
    .arguments(&[key("key")])
    .tips(&["nondeterministic_output_order"]);

pub(super) const SSCAN: Command = SET
    .command("sscan", -3, "2.8.0", "Walks the members step by step.")
    .complexity(
        "O(1) for every call. O(N) for a complete iteration, including enough command calls for \
         the cursor to return back to 0. N is the number of elements inside the collection.",
    )
    .flags(&[READONLY])
    .keys(&[KeySpec::first(&[RO, ACCESS])])
    .arguments(&[
        key("key"),
        integer("cursor"),
        pattern("pattern").token("MATCH").optional(),
        integer("count").token("COUNT").optional(),
    ])
    .tips(&["nondeterministic_output"]);

pub(super) const SPOP: Command = SET
    .command("spop", -2, "1.0.0", "Takes random members from a set.")
    .complexity(
        "Without the count argument O(1), otherwise O(N) where N is the value of the passed count.",
    )
    .flags(&[WRITE, FAST])
    .keys(&[KeySpec::first(&[RW, ACCESS, DELETE])])
    .arguments(&[key("key"), integer("count").optional().since("3.2.0")])
    .tips(&["nondeterministic_output"])
    .history(&[("3.2.0", "Added the `count` argument.")]);

pub(super) const SRANDMEMBER: Command = SET
    .command("srandmember", -2, "1.0.0", "Answers random members.")
    .complexity(
        "Without the count argument O(1), otherwise O(N) where N is the absolute value of the \
         passed count.",
    )
    .flags(&[READONLY])
    .keys(&[KeySpec::first(&[RO, ACCESS])])
    .arguments(&[key("key"), integer("count").optional().since("2.6.0")])
    .tips(&["nondeterministic_output"])
    .history(&[("2.6.0", "Added the `count` argument.")]);

const OF_INTERSECTIONS: &str = "O(N*M) worst case where N is the cardinality of the smallest set \
                                and M is the number of sets.";

const OF_UNIONS: &str = "O(N) where N is the total number of elements in all given sets.";

pub(super) const SINTER: Command = SET
    .command("sinter", -2, "1.0.0", "Answers the members that all of several sets have.")
    .complexity(OF_INTERSECTIONS)
    .flags(&[READONLY])
    .keys(&[KeySpec::all(&[RO, ACCESS])])
    .arguments(&[key("key").multiple()])
    .tips(&["nondeterministic_output_order"]);

pub(super) const SINTERCARD: Command = SET
    .command("sintercard", -3, "7.0.0", "Counts the members that all of several sets have.")
    .complexity(OF_INTERSECTIONS)
    .flags(&[READONLY, MOVABLEKEYS])
    .keys(&[KeySpec::counted(1, &[RO, ACCESS])])
    .arguments(&[
        integer("numkeys"),
        key("key").multiple(),
        integer("limit").token("LIMIT").optional(),
    ]);

pub(super) const SINTERSTORE: Command = SET
    .command("sinterstore", -3, "1.0.0", "Stores the members that all of several sets have.")
    .complexity(OF_INTERSECTIONS)
    .flags(&[WRITE, DENYOOM])
    .keys(&[KeySpec::first(&[OW, UPDATE]), KeySpec::range(2, -1, &[RO, ACCESS])])
    .arguments(&[key("destination"), key_of(1, "key").multiple()]);

pub(super) const SUNION: Command = SINTER
    .command("sunion", -2, "1.0.0", "Answers the members that any of several sets has.")
    .complexity(OF_UNIONS);

pub(super) const SUNIONSTORE: Command = SINTERSTORE
    .command("sunionstore", -3, "1.0.0", "Stores the members that any of several sets has.")
    .complexity(OF_UNIONS);

pub(super) const SDIFF: Command =
    SUNION.command("sdiff", -2, "1.0.0", "Answers the members of a set that no other set has.");

pub(super) const SDIFFSTORE: Command = SUNIONSTORE.command(
    "sdiffstore",
    -3,
    "1.0.0",
    "Stores the members of a set that no other set has.",
);
