//! Declarations of the commands on hashes: a row each, then what differs from the family.

use crate::command::prelude::*;

const HASH: Command = Command::keyed(Group::Hash, Categories::HASH);

const NUMFIELDS: Argument = integer("numfields").of_keys(0);

const FIELDS: Argument = block("fields", &[NUMFIELDS, string("field").multiple()]).token("FIELDS");

const FIELDS_AND_VALUES: Argument = block("data", &[string("field"), string("value")]).multiple();

pub(super) const HSET: Command = HASH
    .command("hset", -4, "2.0.0", "Sets fields of a hash.")
    .complexity(
        "O(1) for each field/value pair added, so O(N) to add N field/value pairs when the \
         command is called with multiple field/value pairs.",
    )
    .flags(&[WRITE, DENYOOM, FAST])
    .keys(&[KeySpec::first(&[RW, UPDATE])])
    .arguments(&[key("key"), FIELDS_AND_VALUES])
    .history(&[("4.0.0", "Takes several fields and values.")]);

pub(super) const HMSET: Command = HSET
    .command("hmset", -4, "2.0.0", "Sets fields of a hash.")
    .complexity("O(N) where N is the number of fields being set.")
    .history(&[]);

pub(super) const HSETNX: Command = HASH
    .command("hsetnx", 4, "2.0.0", "Sets a field if it does not exist.")
    .flags(&[WRITE, DENYOOM, FAST])
    .keys(&[KeySpec::first(&[RW, INSERT])])
    .arguments(&[key("key"), string("field"), string("value")]);

pub(super) const HDEL: Command = HASH
    .command("hdel", -3, "2.0.0", "Removes fields.")
    .complexity("O(N) where N is the number of fields to be removed.")
    .flags(&[WRITE, FAST])
    .keys(&[KeySpec::first(&[RW, DELETE])])
    .arguments(&[key("key"), string("field").multiple()])
    .history(&[("2.4.0", "Takes several fields.")]);

pub(super) const HINCRBY: Command = HASH
    .command("hincrby", 4, "2.0.0", "Adds to an integer in a field.")
    .flags(&[WRITE, DENYOOM, FAST])
    .keys(&[KeySpec::first(&[RW, ACCESS, UPDATE])])
    .arguments(&[key("key"), string("field"), integer("increment")]);

pub(super) const HINCRBYFLOAT: Command = HINCRBY
    .command("hincrbyfloat", 4, "2.6.0", "Adds to a floating point number in a field.")
    .arguments(&[key("key"), string("field"), double("increment")]);

pub(super) const HGET: Command = HASH
    .command("hget", 3, "2.0.0", "Answers the value of a field.")
    .flags(&[READONLY, FAST])
    .keys(&[KeySpec::first(&[RO, ACCESS])])
    .arguments(&[key("key"), string("field")]);

pub(super) const HMGET: Command = HASH
    .command("hmget", -3, "2.0.0", "Answers the values of fields.")
    .complexity("O(N) where N is the number of fields being requested.")
    .flags(&[READONLY, FAST])
    .keys(&[KeySpec::first(&[RO, ACCESS])])
    .arguments(&[key("key"), string("field").multiple()]);

pub(super) const HGETALL: Command = HASH
    .command("hgetall", 2, "2.0.0", "Answers all fields and values.")
    .complexity("O(N) where N is the size of the hash.")
    .flags(&[READONLY])
    .keys(&[KeySpec::first(&[RO, ACCESS])])
    .arguments(&[key("key")])
    .tips(&["nondeterministic_output_order"]);

pub(super) const HKEYS: Command = HGETALL.command("hkeys", 2, "2.0.0", "Answers all fields.");

pub(super) const HVALS: Command = HKEYS.command("hvals", 2, "2.0.0", "Answers all values.");

pub(super) const HLEN: Command = HASH
    .command("hlen", 2, "2.0.0", "Counts the fields.")
    .flags(&[READONLY, FAST])
    .keys(&[KeySpec::first(&[RO])])
    .arguments(&[key("key")]);

pub(super) const HSTRLEN: Command = HASH
    .command("hstrlen", 3, "3.2.0", "Answers the length of a value.")
    .flags(&[READONLY, FAST])
    .keys(&[KeySpec::first(&[RO])])
    .arguments(&[key("key"), string("field")]);

pub(super) const HEXISTS: Command = HASH
    .command("hexists", 3, "2.0.0", "Tells whether a field exists.")
    .flags(&[READONLY, FAST])
    .keys(&[KeySpec::first(&[RO])])
    .arguments(&[key("key"), string("field")]);

pub(super) const HRANDFIELD: Command = HASH
    .command("hrandfield", -2, "6.2.0", "Answers random fields.")
    .complexity("O(N) where N is the number of fields returned")
    .flags(&[READONLY])
    .keys(&[KeySpec::first(&[RO, ACCESS])])
    .arguments(&[
        key("key"),
        block("options", &[integer("count"), word("WITHVALUES").optional()]).optional(),
    ])
    .tips(&["nondeterministic_output"]);

pub(super) const HSCAN: Command = HASH
    .command("hscan", -3, "2.8.0", "Walks the fields step by step.")
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
        word("NOVALUES").optional(),
    ])
    .tips(&["nondeterministic_output"]);

pub(super) const HEXPIRE: Command = HASH
    .command("hexpire", -6, "9.0.0", "Lets fields expire after some seconds.")
    .complexity("O(N) where N is the number of specified fields.")
    .flags(&[WRITE, FAST])
    .keys(&[KeySpec::first(&[RW, UPDATE])])
    .arguments(&[
        key("key"),
        integer("seconds"),
        EXPIRY_CONDITION,
        // Its number belongs to no specification, unlike that of all others.
        block("fields", &[integer("numfields"), string("field").multiple()]).token("FIELDS"),
    ]);

pub(super) const HPEXPIRE: Command = HEXPIRE
    .command("hpexpire", -6, "9.0.0", "Lets fields expire after some milliseconds.")
    .arguments(&[key("key"), integer("milliseconds"), EXPIRY_CONDITION.since("9.0.0"), FIELDS]);

pub(super) const HEXPIREAT: Command = HEXPIRE
    .command("hexpireat", -6, "9.0.0", "Lets fields expire at a Unix time in seconds.")
    .arguments(&[
        key("key"),
        integer("unix-time-seconds"),
        EXPIRY_CONDITION.since("9.0.0"),
        FIELDS,
    ]);

pub(super) const HPEXPIREAT: Command = HEXPIRE
    .command("hpexpireat", -6, "9.0.0", "Lets fields expire at a Unix time in milliseconds.")
    .arguments(&[
        key("key"),
        integer("unix-time-milliseconds"),
        EXPIRY_CONDITION.since("9.0.0"),
        FIELDS,
    ]);

pub(super) const HTTL: Command = HASH
    .command("httl", -5, "9.0.0", "Answers how many seconds fields have left.")
    .complexity("O(N) where N is the number of specified fields.")
    .flags(&[READONLY, FAST])
    .keys(&[KeySpec::first(&[RO, ACCESS])])
    .arguments(&[key("key"), FIELDS]);

pub(super) const HPTTL: Command =
    HTTL.command("hpttl", -5, "9.0.0", "Answers how many milliseconds fields have left.");

pub(super) const HEXPIRETIME: Command =
    HTTL.command("hexpiretime", -5, "9.0.0", "Answers when fields expire, in seconds.");

pub(super) const HPEXPIRETIME: Command =
    HTTL.command("hpexpiretime", -5, "9.0.0", "Answers when fields expire, in milliseconds.");

pub(super) const HPERSIST: Command = HASH
    .command("hpersist", -5, "9.0.0", "Takes the expiry of fields away.")
    .complexity("O(N) where N is the number of specified fields.")
    .flags(&[WRITE, FAST])
    .keys(&[KeySpec::first(&[RW, UPDATE])])
    .arguments(&[key("key"), FIELDS]);

pub(super) const HGETEX: Command = HASH
    .command("hgetex", -5, "9.0.0", "Answers fields and changes their expiry.")
    .complexity("O(N) where N is the number of specified fields.")
    .flags(&[WRITE, FAST])
    .keys(&[KeySpec::first(&[RW, ACCESS, UPDATE])])
    .arguments(&[
        key("key"),
        one_of("expiration", &[EX, PX, EXAT, PXAT, word("PERSIST")]).optional(),
        FIELDS,
    ]);

pub(super) const HSETEX: Command = HASH
    .command("hsetex", -6, "9.0.0", "Sets fields with conditions and an expiry.")
    .complexity("O(N) where N is the number of specified fields.")
    .flags(&[WRITE, DENYOOM, FAST])
    .keys(&[KeySpec::first(&[RW, INSERT])])
    .arguments(&[
        key("key"),
        one_of("key-condition", &[word("NX"), word("XX")]).optional(),
        one_of("fields-condition", &[word("FNX"), word("FXX")]).optional(),
        one_of("expiration", &[EX, PX, EXAT, PXAT, word("KEEPTTL")]).optional(),
        block("fields", &[NUMFIELDS, FIELDS_AND_VALUES]).token("FIELDS"),
    ]);

pub(super) const HGETDEL: Command = HASH
    .command("hgetdel", -5, "9.1.0", "Answers fields and removes them.")
    .complexity("O(N) where N is the number of fields to be retrieved and deleted.")
    .flags(&[WRITE, FAST])
    .keys(&[KeySpec::first(&[RW, ACCESS, DELETE])])
    .arguments(&[key("key"), FIELDS]);
