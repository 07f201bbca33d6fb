//! Declarations of the commands on sorted sets: a row each, then what differs from the family.

use crate::command::prelude::*;

const SORTED_SET: Command = Command::keyed(Group::SortedSet, Categories::SORTED_SET);

const LIMIT: Argument =
    block("limit", &[integer("offset"), integer("count")]).token("LIMIT").optional();

const WITHSCORES: Argument = word("WITHSCORES").named("withscores").optional();

pub(super) const ZADD: Command = SORTED_SET
    .command("zadd", -4, "1.2.0", "Adds members to a sorted set, or changes their scores.")
    .complexity(
        "O(log(N)) for each item added, where N is the number of elements in the sorted \
         set.",
    )
    .flags(&[WRITE, DENYOOM, FAST])
    .keys(&[KeySpec::first(&[RW, UPDATE])])
    .arguments(&[
        key("key"),
        one_of("condition", &[word("NX"), word("XX")]).optional().since("3.0.2"),
        one_of("comparison", &[word("GT"), word("LT")]).optional().since("6.2.0"),
        word("CH").named("change").optional().since("3.0.2"),
        word("INCR").named("increment").optional().since("3.0.2"),
        block("data", &[double("score"), string("member")]).multiple(),
    ])
    .history(&[
        ("2.4.0", "Takes several members."),
        ("3.0.2", "Added the `XX`, `NX`, `CH` and `INCR` options."),
        ("6.2.0", "Added the `GT` and `LT` options."),
    ]);

pub(super) const ZINCRBY: Command = SORTED_SET
    .command("zincrby", 4, "1.2.0", "Adds to the score of a member.")
    .complexity("O(log(N)) where N is the number of elements in the sorted set.")
    .flags(&[WRITE, DENYOOM, FAST])
    .keys(&[KeySpec::first(&[RW, ACCESS, UPDATE])])
    .arguments(&[key("key"), integer("increment"), string("member")]);

pub(super) const ZCARD: Command = SORTED_SET
    .command("zcard", 2, "1.2.0", "Counts the members.")
    .flags(&[READONLY, FAST])
    .keys(&[KeySpec::first(&[RO])])
    .arguments(&[key("key")]);

pub(super) const ZSCORE: Command = SORTED_SET
    .command("zscore", 3, "1.2.0", "Answers the score of a member.")
    .flags(&[READONLY, FAST])
    .keys(&[KeySpec::first(&[RO, ACCESS])])
    .arguments(&[key("key"), string("member")]);

pub(super) const ZMSCORE: Command = SORTED_SET
    .command("zmscore", -3, "6.2.0", "Answers the scores of members.")
    .complexity("O(N) where N is the number of members being requested.")
    .flags(&[READONLY, FAST])
    .keys(&[KeySpec::first(&[RO, ACCESS])])
    .arguments(&[key("key"), string("member").multiple()]);

pub(super) const ZRANK: Command = SORTED_SET
    .command("zrank", -3, "2.0.0", "Answers the rank of a member, by ascending scores.")
    .complexity("O(log(N))")
    .flags(&[READONLY, FAST])
    .keys(&[KeySpec::first(&[RO, ACCESS])])
    .arguments(&[key("key"), string("member"), word("WITHSCORE").named("withscore").optional()])
    .history(&[("7.2.0", "Added the `WITHSCORE` option.")]);

pub(super) const ZREVRANK: Command =
    ZRANK.command("zrevrank", -3, "2.0.0", "Answers the rank of a member, by descending scores.");

pub(super) const ZCOUNT: Command = SORTED_SET
    .command("zcount", 4, "2.0.0", "Counts the members with scores in a range.")
    .complexity("O(log(N)) with N being the number of elements in the sorted set.")
    .flags(&[READONLY, FAST])
    .keys(&[KeySpec::first(&[RO, ACCESS])])
    .arguments(&[key("key"), double("min"), double("max")]);

pub(super) const ZLEXCOUNT: Command = ZCOUNT
    .command("zlexcount", 4, "2.8.9", "Counts the members in a range of their names.")
    .arguments(&[key("key"), string("min"), string("max")]);

pub(super) const ZRANGE: Command = SORTED_SET
    .command("zrange", -4, "1.2.0", "Answers a range of members.")
    .complexity(
        "O(log(N)+M) with N being the number of elements in the sorted set and M the number \
         of elements returned.",
    )
    .flags(&[READONLY])
    .keys(&[KeySpec::first(&[RO, ACCESS])])
    .arguments(&[
        key("key"),
        string("start"),
        string("stop"),
        one_of("sortby", &[word("BYSCORE"), word("BYLEX")]).optional().since("6.2.0"),
        word("REV").named("rev").optional().since("6.2.0"),
        LIMIT.since("6.2.0"),
        WITHSCORES,
    ])
    .history(&[("6.2.0", "Added the `REV`, `BYSCORE`, `BYLEX` and `LIMIT` options.")]);

pub(super) const ZREVRANGE: Command = ZRANGE
    .command(
        "zrevrange",
        -4,
        "1.2.0",
        "Answers a range of members by their ranks, in descending order.",
    )
    .arguments(&[key("key"), integer("start"), integer("stop"), WITHSCORES])
    .history(&[]);

pub(super) const ZRANGEBYSCORE: Command = ZRANGE
    .command("zrangebyscore", -4, "1.0.5", "Answers a range of members by their scores.")
    .complexity(
        "O(log(N)+M) with N being the number of elements in the sorted set and M the number \
         of elements being returned. If M is constant (e.g. always asking for the \
         first 10 elements with LIMIT), you can consider it O(log(N)).",
    )
    .arguments(&[key("key"), double("min"), double("max"), WITHSCORES.since("2.0.0"), LIMIT])
    .history(&[("2.0.0", "Added the `WITHSCORES` option.")]);

pub(super) const ZREVRANGEBYSCORE: Command = ZRANGEBYSCORE
    .command(
        "zrevrangebyscore",
        -4,
        "2.2.0",
        "Answers a range of members by their scores, in descending order.",
    )
    .arguments(&[key("key"), double("max"), double("min"), WITHSCORES, LIMIT])
    .history(&[("2.1.6", "`min` and `max` may be exclusive.")]);

pub(super) const ZRANGEBYLEX: Command = ZRANGEBYSCORE
    .command("zrangebylex", -4, "2.8.9", "Answers a range of members by their names.")
    .arguments(&[key("key"), string("min"), string("max"), LIMIT])
    .history(&[]);

pub(super) const ZREVRANGEBYLEX: Command = ZRANGEBYLEX
    .command(
        "zrevrangebylex",
        -4,
        "2.8.9",
        "Answers a range of members by their names, in descending order.",
    )
    .arguments(&[key("key"), string("max"), string("min"), LIMIT]);

pub(super) const ZREM: Command = SORTED_SET
    .command("zrem", -3, "1.2.0", "Removes members.")
    .complexity(
        "O(M*log(N)) with N being the number of elements in the sorted set and M the number \
         of elements to be removed.",
    )
    .flags(&[WRITE, FAST])
    .keys(&[KeySpec::first(&[RW, DELETE])])
    .arguments(&[key("key"), string("member").multiple()])
    .history(&[("2.4.0", "Takes several members.")]);

pub(super) const ZREMRANGEBYRANK: Command = SORTED_SET
    .command("zremrangebyrank", 4, "2.0.0", "Removes a range of members by their ranks.")
    .complexity(
        "O(log(N)+M) with N being the number of elements in the sorted set and M the number \
         of elements removed by the operation.",
    )
    .flags(&[WRITE])
    .keys(&[KeySpec::first(&[RW, DELETE])])
    .arguments(&[key("key"), integer("start"), integer("stop")]);

pub(super) const ZREMRANGEBYSCORE: Command = ZREMRANGEBYRANK
    .command("zremrangebyscore", 4, "1.2.0", "Removes a range of members by their scores.")
    .arguments(&[key("key"), double("min"), double("max")]);

pub(super) const ZREMRANGEBYLEX: Command = ZREMRANGEBYRANK
    .command("zremrangebylex", 4, "2.8.9", "Removes a range of members by their names.")
    .arguments(&[key("key"), string("min"), string("max")]);

pub(super) const ZPOPMIN: Command = SORTED_SET
    .command("zpopmin", -2, "5.0.0", "Takes the members with the lowest scores.")
    .complexity(
        "O(log(N)*M) with N being the number of elements in the sorted set, and M being the \
         number of elements popped.",
    )
    .flags(&[WRITE, FAST])
    .keys(&[KeySpec::first(&[RW, ACCESS, DELETE])])
    .arguments(&[key("key"), integer("count").optional()]);

pub(super) const ZPOPMAX: Command =
    ZPOPMIN.command("zpopmax", -2, "5.0.0", "Takes the members with the highest scores.");

pub(super) const ZMPOP: Command = SORTED_SET
    .command("zmpop", -4, "7.0.0", "Takes members from the first sorted set that has some.")
    .complexity(
        "O(K) + O(M*log(N)) where K is the number of provided keys, N being the number of \
         elements in the sorted set, and M being the number of elements popped.",
    )
    .flags(&[WRITE, MOVABLEKEYS])
    .keys(&[KeySpec::counted(1, &[RW, ACCESS, DELETE])])
    .arguments(&[
        integer("numkeys"),
        key("key").multiple(),
        one_of("where", &[word("MIN"), word("MAX")]),
        integer("count").token("COUNT").optional(),
    ]);

const OF_BLOCKING_POPS: &str = "O(log(N)) with N being the number of elements in the sorted set.";

pub(super) const BZPOPMIN: Command = SORTED_SET
    .command(
        "bzpopmin",
        -3,
        "5.0.0",
        "Takes the member with the lowest score of the first sorted set that has one; waits \
         for it.",
    )
    .complexity(OF_BLOCKING_POPS)
    .flags(&[WRITE, BLOCKING, FAST])
    .keys(&[KeySpec::range(1, -2, &[RW, ACCESS, DELETE])])
    .arguments(&[key("key").multiple(), double("timeout")])
    .history(&[("6.0.0", "`timeout` may have a fraction.")]);

pub(super) const BZPOPMAX: Command = BZPOPMIN.command(
    "bzpopmax",
    -3,
    "5.0.0",
    "Takes the member with the highest score of the first sorted set that has one; waits for it.",
);

pub(super) const BZMPOP: Command = ZMPOP
    .command(
        "bzmpop",
        -5,
        "7.0.0",
        "Takes members from the first sorted set that has some; waits for them.",
    )
    .more_flags(&[BLOCKING])
    .keys(&[KeySpec::counted(2, &[RW, ACCESS, DELETE])])
    .arguments(&[
        double("timeout"),
        integer("numkeys"),
        key("key").multiple(),
        one_of("where", &[word("MIN"), word("MAX")]),
        integer("count").token("COUNT").optional(),
    ]);

pub(super) const ZSCAN: Command = SORTED_SET
    .command("zscan", -3, "2.8.0", "Walks the members step by step.")
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
        word("NOSCORES").named("noscores").optional(),
    ])
    .tips(&["nondeterministic_output"])
    .history(&[("8.0.0", "Added the `NOSCORES` option.")]);

pub(super) const ZRANDMEMBER: Command = SORTED_SET
    .command("zrandmember", -2, "6.2.0", "Answers random members.")
    .complexity("O(N) where N is the number of members returned")
    .flags(&[READONLY])
    .keys(&[KeySpec::first(&[RO, ACCESS])])
    .arguments(&[key("key"), block("options", &[integer("count"), WITHSCORES]).optional()])
    .tips(&["nondeterministic_output"]);

pub(super) const ZRANGESTORE: Command = SORTED_SET
    .command("zrangestore", -5, "6.2.0", "Stores a range of members.")
    .complexity(
        "O(log(N)+M) with N being the number of elements in the sorted set and M the number of \
         elements stored into the destination key.",
    )
    .flags(&[WRITE, DENYOOM])
    .keys(&[KeySpec::first(&[OW, UPDATE]), KeySpec::one(2, &[RO, ACCESS])])
    .arguments(&[
        key("dst"),
        key_of(1, "src"),
        string("min"),
        string("max"),
        one_of("sortby", &[word("BYSCORE"), word("BYLEX")]).optional(),
        word("REV").named("rev").optional(),
        LIMIT,
    ]);

const WEIGHTS: Argument = integer("weight").token("WEIGHTS").optional().multiple();

const AGGREGATE: Argument =
    one_of("aggregate", &[word("SUM"), word("MIN"), word("MAX")]).token("AGGREGATE").optional();

const OF_INTERSECTIONS: &str = "O(N*K)+O(M*log(M)) worst case with N being the smallest input \
                                sorted set, K being the number of input sorted sets and M being \
                                the number of elements in the resulting sorted set.";

const OF_DIFFERENCES: &str = "O(L + (N-K)log(N)) worst case where L is the total number of \
                              elements in all the sets, N is the size of the first set, and K is \
                              the size of the result set.";

pub(super) const ZUNION: Command = SORTED_SET
    .command("zunion", -3, "6.2.0", "Answers the members that any of several sorted sets has.")
    .complexity(
        "O(N)+O(M*log(M)) with N being the sum of the sizes of the input sorted sets, and M being \
         the number of elements in the resulting sorted set.",
    )
    .flags(&[READONLY, MOVABLEKEYS])
    .keys(&[KeySpec::counted(1, &[RO, ACCESS])])
    .arguments(&[integer("numkeys"), key("key").multiple(), WEIGHTS, AGGREGATE, WITHSCORES]);

pub(super) const ZINTER: Command = ZUNION
    .command("zinter", -3, "6.2.0", "Answers the members that all of several sorted sets have.")
    .complexity(OF_INTERSECTIONS);

pub(super) const ZDIFF: Command = ZUNION
    .command("zdiff", -3, "6.2.0", "Answers the members of a sorted set that no other has.")
    .complexity(OF_DIFFERENCES)
    .arguments(&[integer("numkeys"), key("key").multiple(), WITHSCORES]);

pub(super) const ZINTERCARD: Command = ZUNION
    .command("zintercard", -3, "7.0.0", "Counts the members that all of several sorted sets have.")
    .complexity(
        "O(N*K) worst case with N being the smallest input sorted set, K being the number of \
         input sorted sets.",
    )
    .arguments(&[
        integer("numkeys"),
        key("key").multiple(),
        integer("limit").token("LIMIT").optional(),
    ]);

pub(super) const ZUNIONSTORE: Command = SORTED_SET
    .command("zunionstore", -4, "2.0.0", "Stores the members that any of several sorted sets has.")
    .complexity(
        "O(N)+O(M log(M)) with N being the sum of the sizes of the input sorted sets, and M being \
         the number of elements in the resulting sorted set.",
    )
    .flags(&[WRITE, DENYOOM, MOVABLEKEYS])
    .keys(&[KeySpec::first(&[OW, UPDATE]), KeySpec::counted(2, &[RO, ACCESS])])
    .arguments(&[
        key("destination"),
        integer("numkeys"),
        key_of(1, "key").multiple(),
        WEIGHTS,
        AGGREGATE,
    ]);

pub(super) const ZINTERSTORE: Command = ZUNIONSTORE
    .command("zinterstore", -4, "2.0.0", "Stores the members that all of several sorted sets have.")
    .complexity(OF_INTERSECTIONS);

pub(super) const ZDIFFSTORE: Command = ZUNIONSTORE
    .command("zdiffstore", -4, "6.2.0", "Stores the members of a sorted set that no other has.")
    .complexity(OF_DIFFERENCES)
    .arguments(&[key("destination"), integer("numkeys"), key_of(1, "key").multiple()]);
