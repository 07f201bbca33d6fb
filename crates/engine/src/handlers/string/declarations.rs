//! Declarations of the commands on strings: a row each, then what differs from the family.

use crate::command::prelude::*;

const STRING: Command = Command::keyed(Group::String, Categories::STRING);

const KEYS_AND_VALUES: Argument = block("data", &[key("key"), string("value")]).multiple();

pub(super) const GET: Command = STRING
    .command("get", 2, "1.0.0", "Answers the string under a key.")
    .flags(&[READONLY, FAST])
    .keys(&[KeySpec::first(&[RO, ACCESS])])
    .arguments(&[key("key")]);

pub(super) const SET: Command = STRING
    .command(
        "set",
        -3,
        "1.0.0",
        "Puts a string under a key, whatever was there, unless an option says otherwise.",
    )
    .flags(&[WRITE, DENYOOM])
    .keys(&[KeySpec::first(&[RW, ACCESS, UPDATE, VARIABLE_FLAGS])
        .notes("RW and ACCESS due to the optional `GET` argument")])
    .key_flags(super::set::key_flags)
    .arguments(&[
        key("key"),
        string("value"),
        one_of(
            "condition",
            &[
                word("NX").since("2.6.12"),
                word("XX").since("2.6.12"),
                string("comparison-value")
                    .token("IFEQ")
                    .since("8.1.0")
                    .summary("The value that the key must have for it to be set."),
            ],
        )
        .optional(),
        word("GET").optional().since("6.2.0"),
        one_of(
            "expiration",
            &[
                EX.since("2.6.12"),
                PX.since("2.6.12"),
                EXAT.since("6.2.0"),
                PXAT.since("6.2.0"),
                word("KEEPTTL").since("6.0.0"),
            ],
        )
        .optional(),
    ])
    .history(&[
        ("2.6.12", "Added the `EX`, `PX`, `NX` and `XX` options."),
        ("6.0.0", "Added the `KEEPTTL` option."),
        ("6.2.0", "Added the `GET`, `EXAT` and `PXAT` options."),
        ("7.0.0", "`NX` and `GET` may be given together."),
        ("8.1.0", "Added the `IFEQ` option."),
    ]);

pub(super) const SETNX: Command = STRING
    .command("setnx", 3, "1.0.0", "Sets a string if the key does not exist.")
    .flags(&[WRITE, DENYOOM, FAST])
    .keys(&[KeySpec::first(&[OW, INSERT])])
    .arguments(&[key("key"), string("value")]);

pub(super) const SETEX: Command = STRING
    .command("setex", 4, "2.0.0", "Sets a string that expires after some seconds.")
    .flags(&[WRITE, DENYOOM])
    .keys(&[KeySpec::first(&[OW, UPDATE])])
    .arguments(&[key("key"), integer("seconds"), string("value")]);

pub(super) const PSETEX: Command = SETEX
    .command("psetex", 4, "2.6.0", "Sets a string that expires after some milliseconds.")
    .arguments(&[key("key"), integer("milliseconds"), string("value")]);

pub(super) const GETSET: Command = STRING
    .command("getset", 3, "1.0.0", "Sets a string and answers the one before.")
    .flags(&[WRITE, DENYOOM, FAST])
    .keys(&[KeySpec::first(&[RW, ACCESS, UPDATE])])
    .arguments(&[key("key"), string("value")]);

pub(super) const GETDEL: Command = STRING
    .command("getdel", 2, "6.2.0", "Answers a string and deletes its key.")
    .flags(&[WRITE, FAST])
    .keys(&[KeySpec::first(&[RW, ACCESS, DELETE])])
    .arguments(&[key("key")]);

pub(super) const GETEX: Command = STRING
    .command("getex", -2, "6.2.0", "Answers a string and changes its expiry.")
    .flags(&[WRITE, FAST])
    .keys(
        &[KeySpec::first(&[RW, ACCESS, UPDATE]).notes("RW and UPDATE because it changes the TTL")],
    )
    .arguments(&[
        key("key"),
        one_of("expiration", &[EX, PX, EXAT, PXAT, word("PERSIST")]).optional(),
    ]);

pub(super) const MGET: Command = STRING
    .command("mget", -2, "1.0.0", "Answers the strings under several keys.")
    .complexity("O(N) where N is the number of keys to retrieve.")
    .flags(&[READONLY, FAST])
    .keys(&[KeySpec::all(&[RO, ACCESS])])
    .arguments(&[key("key").multiple()])
    .tips(&["request_policy:multi_shard"]);

pub(super) const MSET: Command = STRING
    .command("mset", -3, "1.0.1", "Sets several strings as one.")
    .complexity("O(N) where N is the number of keys to set.")
    .flags(&[WRITE, DENYOOM])
    .keys(&[KeySpec::all(&[OW, UPDATE]).every(2)])
    .arguments(&[KEYS_AND_VALUES])
    .tips(&["request_policy:multi_shard", "response_policy:all_succeeded"]);

pub(super) const MSETNX: Command = MSET
    .command("msetnx", -3, "1.0.1", "Sets several strings as one if none of the keys exists.")
    .keys(&[KeySpec::all(&[OW, INSERT]).every(2)])
    .tips(&[]);

pub(super) const MSETEX: Command = STRING
    .command("msetex", -4, "9.1.0", "Sets several strings as one, with a condition and an expiry.")
    .complexity("O(N) where N is the number of keys to set.")
    .flags(&[WRITE, DENYOOM, MOVABLEKEYS])
    .keys(&[KeySpec::counted(1, &[OW, UPDATE]).every(2)])
    .arguments(&[
        integer("numkeys"),
        KEYS_AND_VALUES,
        one_of("condition", &[word("NX"), word("XX")]).optional(),
        one_of("expiration", &[EX, PX, EXAT, PXAT, word("KEEPTTL")]).optional(),
    ])
    .tips(&["request_policy:multi_shard", "response_policy:all_succeeded"]);

pub(super) const DELIFEQ: Command = STRING
    .command("delifeq", 3, "9.0.0", "Deletes a key if its string is the one given.")
    .flags(&[WRITE, FAST])
    .keys(&[KeySpec::first(&[RM, DELETE])])
    .arguments(&[key("key"), string("value")]);

pub(super) const APPEND: Command = STRING
    .command("append", 3, "2.0.0", "Appends to a string, or begins one.")
    .complexity(
        "O(1). The amortized time complexity is O(1) assuming the appended value is small and \
         the already present value is of any size, since the dynamic string library used by the \
         server will double the free space available on every reallocation.",
    )
    .flags(&[WRITE, DENYOOM, FAST])
    .keys(&[KeySpec::first(&[RW, INSERT])])
    .arguments(&[key("key"), string("value")]);

pub(super) const STRLEN: Command = STRING
    .command("strlen", 2, "2.2.0", "Answers the length of a string.")
    .flags(&[READONLY, FAST])
    .keys(&[KeySpec::first(&[RO])])
    .arguments(&[key("key")]);

pub(super) const SETRANGE: Command = STRING
    .command("setrange", 4, "2.2.0", "Overwrites part of a string.")
    .complexity(
        "O(1), not counting the time taken to copy the new string in place. Usually, this string \
         is very small so the amortized complexity is O(1). Otherwise, complexity is O(M) with M \
         being the length of the value argument.",
    )
    .flags(&[WRITE, DENYOOM])
    .keys(&[KeySpec::first(&[RW, UPDATE])])
    .arguments(&[key("key"), integer("offset"), string("value")]);

pub(super) const GETRANGE: Command = STRING
    .command("getrange", 4, "2.4.0", "Answers part of a string.")
    .complexity(
        "O(N) where N is the length of the returned string. The complexity is ultimately \
         determined by the returned length, but because creating a substring from an existing \
         string is very cheap, it can be considered O(1) for small strings.",
    )
    .flags(&[READONLY])
    .keys(&[KeySpec::first(&[RO, ACCESS])])
    .arguments(&[key("key"), integer("start"), integer("end")]);

pub(super) const SUBSTR: Command =
    GETRANGE.command("substr", 4, "1.0.0", "Answers part of a string.");

pub(super) const INCR: Command = STRING
    .command("incr", 2, "1.0.0", "Adds one to an integer.")
    .flags(&[WRITE, DENYOOM, FAST])
    .keys(&[KeySpec::first(&[RW, ACCESS, UPDATE])])
    .arguments(&[key("key")]);

pub(super) const DECR: Command = INCR.command("decr", 2, "1.0.0", "Takes one from an integer.");

pub(super) const INCRBY: Command = STRING
    .command("incrby", 3, "1.0.0", "Adds to an integer.")
    .flags(&[WRITE, DENYOOM, FAST])
    .keys(&[KeySpec::first(&[RW, ACCESS, UPDATE])])
    .arguments(&[key("key"), integer("increment")]);

pub(super) const DECRBY: Command = INCRBY
    .command("decrby", 3, "1.0.0", "Takes from an integer.")
    .arguments(&[key("key"), integer("decrement")]);

pub(super) const INCRBYFLOAT: Command = INCRBY
    .command("incrbyfloat", 3, "2.6.0", "Adds to a floating point number.")
    .arguments(&[key("key"), double("increment")]);

pub(super) const LCS: Command = STRING
    .command("lcs", -3, "7.0.0", "Finds the longest common subsequence of two strings.")
    .complexity("O(N*M) where N and M are the lengths of s1 and s2, respectively")
    .flags(&[READONLY])
    .keys(&[KeySpec::range(1, 1, &[RO, ACCESS])])
    .arguments(&[
        key("key1"),
        key("key2"),
        word("LEN").optional(),
        word("IDX").optional(),
        integer("min-match-len").token("MINMATCHLEN").optional(),
        word("WITHMATCHLEN").optional(),
    ]);
