//! Commands on sorted sets: replies as Valkey 9.1 was seen to give them, where options meet, where
//! encodings change, and where replies come in pieces.

use std::collections::BTreeMap;

use crate::harness::Server;

const START_MS: u64 = 1_700_000_000_000;

fn server() -> (Server, u64) {
    let mut server = Server::new(1, START_MS);
    let client = server.connect(0);
    (server, client)
}

/// Runs a command, given as words between blanks; `''` is an empty word.
fn call(server: &mut Server, client: u64, command: &str) -> String {
    let words: Vec<&str> =
        command.split(' ').map(|word| if word == "''" { "" } else { word }).collect();
    let reply = server.call(client, &words);
    reply.trim_end().replace("\r\n", " ")
}

fn check(server: &mut Server, client: u64, expected: &[(&str, &str)]) {
    for (command, reply) in expected {
        assert_eq!(call(server, client, command), *reply, "{command}");
    }
}

#[test]
fn options_of_zadd_contradict_each_other_before_the_type_is_looked_at() {
    let (mut server, client) = server();
    let not_compatible = "-ERR GT, LT, and/or NX options at the same time are not compatible";
    check(
        &mut server,
        client,
        &[
            ("SET s x", "+OK"),
            ("ZADD s x y", "-ERR value is not a valid float"),
            ("ZADD s nan y", "-ERR value is not a valid float"),
            ("ZADD s NX XX", "-ERR syntax error"),
            ("ZADD s 1 a b", "-ERR syntax error"),
            ("ZADD s NX XX GT 1 a", "-ERR XX and NX options at the same time are not compatible"),
            ("ZADD s NX GT 1 a", not_compatible),
            ("ZADD s GT LT 1 a", not_compatible),
            ("ZADD s INCR 1 a 2 b", "-ERR INCR option supports a single increment-element pair"),
            ("ZADD s XX 1 y", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ],
    );
}

#[test]
fn zadd_adds_updates_and_refuses_as_its_options_say() {
    let (mut server, client) = server();
    check(
        &mut server,
        client,
        &[
            ("ZADD k XX 1 a", ":0"),
            ("ZADD k XX INCR 1 a", "$-1"),
            ("EXISTS k", ":0"),
            ("ZADD k 1 a 2 b 3 c 1 a", ":3"),
            ("ZADD k CH 1 a 5 b 6 d", ":2"),
            ("ZADD k NX 9 a 9 e", ":1"),
            ("ZADD k GT CH 0 a 7 b", ":1"),
            ("ZADD k LT CH 0 a 9 b", ":1"),
            ("ZADD k GT INCR -1 a", "$-1"),
            ("ZADD k INCR 1.5 a", "$3 1.5"),
            ("ZINCRBY k inf a", "$3 inf"),
            ("ZINCRBY k NX a", "-ERR syntax error"),
            ("ZINCRBY k INCR XX", "-ERR syntax error"),
            ("ZINCRBY k -inf a", "-ERR resulting score is not a number (NaN)"),
            ("ZRANGE k 0 -1 WITHSCORES", "*10 $1 c $1 3 $1 d $1 6 $1 b $1 7 $1 e $1 9 $1 a $3 inf"),
            ("ZMSCORE k a none c", "*3 $3 inf $-1 $1 3"),
        ],
    );
}

#[test]
fn the_encoding_follows_the_members_and_the_arguments() {
    let (mut server, client) = server();
    let long = "m".repeat(65);
    let same: String = (0..129).map(|_| " 1 a").collect();
    let many: String = (0..128).map(|number| format!(" {number} m{number}")).collect();
    check(
        &mut server,
        client,
        &[
            (&format!("ZADD first 1 {long}"), ":1"),
            ("OBJECT ENCODING first", "$8 skiplist"),
            (&format!("ZADD last 1 a 1 {long}"), ":2"),
            ("OBJECT ENCODING last", "$8 skiplist"),
            (&format!("ZADD same{same}"), ":1"),
            ("OBJECT ENCODING same", "$8 skiplist"),
            (&format!("ZADD many{many}"), ":128"),
            ("OBJECT ENCODING many", "$8 listpack"),
            ("ZADD many 1 one-more", ":1"),
            ("OBJECT ENCODING many", "$8 skiplist"),
            ("ZREM many one-more m1", ":2"),
            ("OBJECT ENCODING many", "$8 skiplist"),
            ("CONFIG SET zset-max-listpack-entries 2", "+OK"),
            ("ZADD few 1 a 2 b", ":2"),
            ("OBJECT ENCODING few", "$8 listpack"),
            ("ZADD few 3 c", ":1"),
            ("OBJECT ENCODING few", "$8 skiplist"),
            ("TYPE few", "+zset"),
            ("ZADD kept 1 a", ":1"),
            ("ZADD kept XX 1 b 1 c", ":0"),
            ("OBJECT ENCODING kept", "$8 listpack"),
            ("ZADD kept XX 1 b 1 c 1 d", ":0"),
            ("OBJECT ENCODING kept", "$8 skiplist"),
        ],
    );
}

#[test]
fn a_listpack_has_one_zero() {
    let (mut server, client) = server();
    let long = "m".repeat(65);
    check(
        &mut server,
        client,
        &[
            ("ZADD small -0 a", ":1"),
            ("ZSCORE small a", "$1 0"),
            ("ZADD small INCR -0 b", "$2 -0"),
            ("ZSCORE small b", "$1 0"),
            (&format!("ZADD large -0 {long}"), ":1"),
            (&format!("ZSCORE large {long}"), "$2 -0"),
            (&format!("ZADD large CH 0 {long}"), ":0"),
            (&format!("ZSCORE large {long}"), "$2 -0"),
        ],
    );
}

#[test]
fn ranges_are_bounded_limited_and_reversed() {
    let (mut server, client) = server();
    let not_a_float = "-ERR min or max is not a float";
    let not_an_item = "-ERR min or max not valid string range item";
    let limit_alone = "-ERR syntax error, LIMIT is only supported in combination with either \
                       BYSCORE or BYLEX";
    check(
        &mut server,
        client,
        &[
            ("ZADD k 1 a 2 b 3 c", ":3"),
            ("ZRANGEBYSCORE k '' +inf", "*3 $1 a $1 b $1 c"),
            ("ZRANGEBYSCORE k (1 1e400", "*2 $1 b $1 c"),
            ("ZCOUNT k ((1 2", not_a_float),
            ("ZCOUNT k 0x1 2", not_a_float),
            ("ZCOUNT none nan 2", not_a_float),
            ("ZCOUNT k 2\0x (\0", ":0"),
            ("ZCOUNT k \0 2\0x", ":2"),
            ("ZCOUNT k nan\0 2", not_a_float),
            ("ZCOUNT k (3 1", ":0"),
            ("ZLEXCOUNT k [b +", ":2"),
            ("ZLEXCOUNT k - (b", ":1"),
            ("ZLEXCOUNT k + -", ":0"),
            ("ZLEXCOUNT k b +", not_an_item),
            ("ZLEXCOUNT k - +x", not_an_item),
            ("ZRANGE k 0 -1 LIMIT 0 -1", "*3 $1 a $1 b $1 c"),
            ("ZRANGE k 0 -1 LIMIT 0 5", limit_alone),
            ("ZREVRANGE k 0 1 LIMIT 0 -1", "*2 $1 c $1 b"),
            ("ZREVRANGE k 0 -1 REV", "-ERR syntax error"),
            ("ZRANGE k -inf +inf BYSCORE LIMIT -1 5", "*0"),
            ("ZRANGE k -inf +inf BYSCORE LIMIT 1 -5", "*2 $1 b $1 c"),
            ("ZRANGE k + - BYLEX REV LIMIT 1 1", "*1 $1 b"),
            ("CONFIG SET zset-max-listpack-entries 0", "+OK"),
            ("ZADD s 1 a 2 b 3 c", ":3"),
            ("ZRANGE s -inf +inf BYSCORE LIMIT -2 5", "*2 $1 b $1 c"),
            ("ZRANGE s +inf -inf BYSCORE REV LIMIT -2 1", "*1 $1 b"),
            ("ZRANGE s -inf +inf BYSCORE LIMIT -4 5", "*0"),
            ("ZREVRANGEBYSCORE k +inf -inf WITHSCORES LIMIT 2 9", "*2 $1 a $1 1"),
            ("ZRANGE k [a [b BYSCORE BYLEX", "-ERR syntax error"),
            (
                "ZRANGE k - + BYLEX WITHSCORES",
                "-ERR syntax error, WITHSCORES not supported in combination with BYLEX",
            ),
            ("ZRANGE none a b", "-ERR value is not an integer or out of range"),
            ("ZRANK k b WITHSCORE", "*2 :1 $1 2"),
            ("ZREVRANK k c", ":0"),
            ("ZRANK k none WITHSCORE", "*-1"),
            ("ZRANK k none", "$-1"),
            ("ZRANK k b x", "-ERR syntax error"),
            ("ZRANK k b WITHSCORE x", "-ERR wrong number of arguments for 'zrank' command"),
        ],
    );
}

#[test]
fn members_are_removed_by_name_and_by_range() {
    let (mut server, client) = server();
    check(
        &mut server,
        client,
        &[
            ("ZADD k 1 a 2 b 3 c 4 d 5 e", ":5"),
            ("ZREM k a none", ":1"),
            ("ZREMRANGEBYRANK k -1 -1", ":1"),
            ("ZREMRANGEBYSCORE k (2 3", ":1"),
            ("ZREMRANGEBYLEX k [b [b", ":1"),
            ("ZREMRANGEBYLEX k b +", "-ERR min or max not valid string range item"),
            ("ZREMRANGEBYRANK none a b", "-ERR value is not an integer or out of range"),
            ("ZRANGE k 0 -1", "*1 $1 d"),
            ("ZREMRANGEBYSCORE k -inf +inf", ":1"),
            ("EXISTS k", ":0"),
        ],
    );
}

#[test]
fn members_are_taken_from_either_end_in_each_shape() {
    let (mut server, client) = server();
    let add = ("ZADD k 1 a 2 b 3 c", ":3");
    let out_of_range = "-ERR value is out of range, must be positive";
    check(
        &mut server,
        client,
        &[
            add,
            ("ZPOPMIN k 1 2", "-ERR syntax error"),
            ("ZPOPMIN k -1", out_of_range),
            ("ZPOPMIN k 0", "*0"),
            ("ZPOPMAX none", "*0"),
            ("ZPOPMIN k", "*2 $1 a $1 1"),
            ("ZPOPMAX k 9", "*4 $1 c $1 3 $1 b $1 2"),
            ("EXISTS k", ":0"),
            add,
            ("ZMPOP 0 k MIN", "-ERR numkeys should be greater than 0"),
            ("ZMPOP 2 k MIN", "-ERR syntax error"),
            ("ZMPOP 1 k MIN COUNT 0", "-ERR count should be greater than 0"),
            ("ZMPOP 1 k MIN COUNT 1 COUNT 2", "-ERR syntax error"),
            ("ZMPOP 1 none MIN", "*-1"),
            ("ZMPOP 2 none k MAX COUNT 2", "*2 $1 k *2 *2 $1 c $1 3 *2 $1 b $1 2"),
        ],
    );
    server.call(client, &["HELLO", "3"]);
    check(
        &mut server,
        client,
        &[
            ("ZADD k 2 b", ":1"),
            ("ZPOPMIN k 1", "*1 *2 $1 a ,1"),
            ("ZPOPMIN k", "*2 $1 b ,2"),
            ("ZADD k 2 b", ":1"),
            ("ZRANGE k 0 -1 WITHSCORES", "*1 *2 $1 b ,2"),
            ("ZRANK k none", "_"),
        ],
    );
}

#[test]
fn a_large_sorted_set_answers_as_a_small_one() {
    let (mut server, client) = server();
    let count = 20_000;
    for first in (0..count).step_by(500) {
        let pairs: Vec<String> = (first..first + 500)
            .flat_map(|number| [(number % 100).to_string(), format!("m{number:05}")])
            .collect();
        let pairs = pairs.iter().map(String::as_str);
        let words: Vec<&str> = ["ZADD", "k"].into_iter().chain(pairs).collect();
        assert_eq!(server.call(client, &words), ":500\r\n");
    }
    check(
        &mut server,
        client,
        &[
            ("ZCARD k", ":20000"),
            ("ZSCORE k m12345", "$2 45"),
            ("ZRANK k m00100", ":1"),
            ("ZREVRANK k m19999", ":0"),
            ("ZCOUNT k (10 20", ":2000"),
            ("ZRANGE k 199 201", "*3 $6 m19900 $6 m00001 $6 m00101"),
            ("ZREMRANGEBYSCORE k 10 98", ":17800"),
            ("ZRANGEBYSCORE k 9 99 LIMIT 199 2", "*2 $6 m19909 $6 m00099"),
            ("ZINCRBY k 1000 m00000", "$4 1000"),
            ("ZPOPMAX k", "*2 $6 m00000 $4 1000"),
            ("ZREMRANGEBYRANK k 1 -1", ":2198"),
            ("ZRANGE k 0 -1 WITHSCORES", "*2 $6 m00100 $1 0"),
        ],
    );
}

const WRONG_TYPE: &str = "-WRONGTYPE Operation against a key holding the wrong kind of value";

#[test]
fn a_walk_has_scores_as_the_encoding_keeps_them() {
    let (mut server, client) = server();
    let small = "*2 $1 0 *8 $1 f $4 3e-7 $1 c $3 0.1 $1 a $1 1 $1 d $3 inf";
    let large = "*2 $1 0 *8 $1 f $22 2.9999999999999999e-07 $1 c $19 0.10000000000000001 \
                 $1 a $1 1 $1 d $3 inf";
    check(
        &mut server,
        client,
        &[
            ("ZADD k 1 a 0.1 c inf d 3e-7 f", ":4"),
            ("ZSCAN k 0 COUNT 1", small),
            ("ZSCAN k 0 NOSCORES MATCH [ac]", "*2 $1 0 *2 $1 c $1 a"),
            ("ZSCAN k 0 NOVALUES", "-ERR NOVALUES option can only be used in HSCAN"),
            ("ZSCAN k 0 COUNT 0", "-ERR syntax error"),
            ("ZSCAN none 0 COUNT 0", "*2 $1 0 *0"),
            ("ZSCAN none x", "-ERR invalid cursor"),
            ("ZSCAN none -1", "-ERR invalid cursor"),
            ("ZSCAN none -9223372036854775808", "-ERR invalid cursor"),
            ("ZSCAN none -9223372036854775809", "*2 $1 0 *0"),
            ("ZSCAN none -18446744073709551616", "-ERR invalid cursor"),
            ("ZSCAN none -0", "*2 $1 0 *0"),
            ("ZSCAN none +07", "*2 $1 0 *0"),
            ("ZSCAN none +", "-ERR invalid cursor"),
            ("SORT k ALPHA LIMIT 0 1", "*1 $1 a"),
            ("ZSCAN k 0", large),
        ],
    );
}

/// Adds members `m00000` and so on, each with the score of `score`.
fn add_many(server: &mut Server, client: u64, key: &str, count: u64, score: fn(u64) -> u64) {
    let numbers: Vec<u64> = (0..count).collect();
    for numbers in numbers.chunks(500) {
        let pairs: String =
            numbers.iter().map(|&each| format!(" {} m{each:05}", score(each))).collect();
        call(server, client, &format!("ZADD {key}{pairs}"));
    }
}

#[test]
fn a_walk_meets_every_member_of_a_large_sorted_set() {
    let (mut server, client) = server();
    add_many(&mut server, client, "k", 5000, |number| number % 700);
    let (mut found, mut cursor, mut steps) = (BTreeMap::new(), "0".to_owned(), 0);
    while steps == 0 || cursor != "0" {
        let reply = call(&mut server, client, &format!("ZSCAN k {cursor} COUNT 50"));
        let words: Vec<&str> = reply.split(' ').collect();
        cursor = words[2].to_owned();
        for pair in words[4..].chunks(4) {
            found.insert(pair[1].to_owned(), pair[3].to_owned());
        }
        steps += 1;
        assert!(steps < 5000, "it does not end");
    }
    let expected = (0..5000).map(|each: u64| (format!("m{each:05}"), (each % 700).to_string()));
    assert_eq!(found, expected.collect());
    assert!(steps > 10, "{steps} steps");
}

#[test]
fn random_members_are_members_with_their_scores() {
    let (mut server, client) = server();
    let out_of_range = "-ERR value is out of range, value must between -9223372036854775807 and \
                        9223372036854775807";
    check(
        &mut server,
        client,
        &[
            ("SET s x", "+OK"),
            ("ZADD one 1.5 a", ":1"),
            ("ZRANDMEMBER one", "$1 a"),
            ("ZRANDMEMBER one 9 WITHSCORES", "*2 $1 a $3 1.5"),
            ("ZRANDMEMBER one -2 WITHSCORES", "*4 $1 a $3 1.5 $1 a $3 1.5"),
            ("ZRANDMEMBER one 0", "*0"),
            ("ZRANDMEMBER none", "$-1"),
            ("ZRANDMEMBER none -3", "*0"),
            ("ZRANDMEMBER s", WRONG_TYPE),
            ("ZRANDMEMBER one 1 SCORES", "-ERR syntax error"),
            ("ZRANDMEMBER one -9223372036854775808", out_of_range),
            ("ZRANDMEMBER one -9223372036854775807 WITHSCORES", "-ERR value is out of range"),
            (
                "ZRANDMEMBER one -9223372036854775807",
                "-ERR reply exceeds maximum allowed size (proto-max-bulk-len)",
            ),
        ],
    );
    add_many(&mut server, client, "many", 300, |number| number * 2);
    let reply = call(&mut server, client, "ZRANDMEMBER many 200 WITHSCORES");
    let words: Vec<&str> = reply.split(' ').skip(1).collect();
    let drawn: BTreeMap<&str, &str> = words.chunks(4).map(|pair| (pair[1], pair[3])).collect();
    assert_eq!(drawn.len(), 200, "all are different");
    for (member, score) in drawn {
        assert_eq!(member[1..].parse::<u64>().ok().map(|each| each * 2), score.parse().ok());
    }
    call(&mut server, client, "HELLO 3");
    check(
        &mut server,
        client,
        &[
            ("ZRANDMEMBER one 2 WITHSCORES", "*1 *2 $1 a ,1.5"),
            ("ZUNION 1 one WITHSCORES", "*1 *2 $1 a ,1.5"),
        ],
    );
}

#[test]
fn a_range_is_stored_in_the_place_of_any_value() {
    let (mut server, client) = server();
    check(
        &mut server,
        client,
        &[
            ("ZADD k 1 a 2 b 3 c 4 d", ":4"),
            ("SET d x EX 100", "+OK"),
            ("ZRANGESTORE d k 3 (1 BYSCORE REV LIMIT 1 5", ":1"),
            ("ZRANGE d 0 -1 WITHSCORES", "*2 $1 b $1 2"),
            ("TTL d", ":-1"),
            ("ZRANGESTORE k k 1 -2", ":2"),
            ("ZRANGE k 0 -1", "*2 $1 b $1 c"),
            ("ZRANGESTORE d k - (c BYLEX", ":1"),
            ("ZRANGESTORE d none 0 -1", ":0"),
            ("EXISTS d", ":0"),
            ("SET s x", "+OK"),
            ("ZRANGESTORE d s 0 -1", WRONG_TYPE),
            ("ZRANGESTORE s s x -1", "-ERR value is not an integer or out of range"),
            ("ZRANGESTORE d k 0 -1 WITHSCORES", "-ERR syntax error"),
            ("CONFIG SET zset-max-listpack-entries 2", "+OK"),
            ("ZADD y -0 a -0 b -0 c", ":3"),
            ("OBJECT ENCODING y", "$8 skiplist"),
            ("ZRANGESTORE d y 0 1", ":2"),
            ("OBJECT ENCODING d", "$8 listpack"),
            ("ZMSCORE d a b", "*2 $1 0 $1 0"),
            // The third member makes a skip list of it, which has two zeros.
            ("ZRANGESTORE d y 0 0 BYSCORE", ":3"),
            ("ZMSCORE d a b c", "*3 $1 0 $1 0 $2 -0"),
            // Of a range of ranks, the length is known before.
            ("ZRANGESTORE d y 0 2", ":3"),
            ("ZMSCORE d a b c", "*3 $2 -0 $2 -0 $2 -0"),
        ],
    );
}

#[test]
fn arguments_of_combinations_are_judged_in_the_order_of_valkey() {
    let (mut server, client) = server();
    let no_keys = "-ERR at least 1 input key is needed for 'zunion' command";
    check(
        &mut server,
        client,
        &[
            ("SET s x", "+OK"),
            ("ZADD k 1 a", ":1"),
            ("ZUNION 0 k", no_keys),
            ("ZUNION -1 k", no_keys),
            ("ZUNION x k", "-ERR value is not an integer or out of range"),
            ("ZUNION 9223372036854775807 k", "-ERR syntax error"),
            ("ZUNION 2 k", "-ERR syntax error"),
            // Keys come before options.
            ("ZUNION 1 s NONE", WRONG_TYPE),
            ("ZUNION 1 k NONE", "-ERR syntax error"),
            ("ZUNION 2 k k WEIGHTS 1", "-ERR syntax error"),
            ("ZUNION 1 k WEIGHTS x", "-ERR weight value is not a float"),
            ("ZUNION 1 k AGGREGATE AVG", "-ERR syntax error"),
            ("ZUNION 1 k LIMIT 1", "-ERR syntax error"),
            ("ZDIFF 1 k WEIGHTS 1", "-ERR syntax error"),
            ("ZDIFF 1 k AGGREGATE SUM", "-ERR syntax error"),
            ("ZUNIONSTORE d 1 k WITHSCORES", "-ERR syntax error"),
            ("ZINTERCARD 1 k WITHSCORES", "-ERR syntax error"),
            ("ZINTERCARD 1 k WEIGHTS 1", "-ERR syntax error"),
            ("ZINTERCARD 1 k LIMIT -1", "-ERR LIMIT can't be negative"),
            ("ZINTERCARD 1 k LIMIT 0", ":1"),
            ("ZUNION 1 k WEIGHTS 2 WEIGHTS 3 WITHSCORES", "*2 $1 a $1 3"),
        ],
    );
}

#[test]
fn scores_are_weighted_and_put_together() {
    let (mut server, client) = server();
    check(
        &mut server,
        client,
        &[
            ("ZADD x 1 a 2 b inf c", ":3"),
            ("ZADD y 10 b -inf c 3 7", ":3"),
            ("SADD s 7 b", ":2"),
            ("ZUNION 2 x y WITHSCORES", "*8 $1 c $1 0 $1 a $1 1 $1 7 $1 3 $1 b $2 12"),
            ("ZUNION 3 x y s AGGREGATE MIN", "*4 $1 c $1 7 $1 a $1 b"),
            ("ZINTER 2 y s WEIGHTS 1 100 WITHSCORES", "*4 $1 7 $3 103 $1 b $3 110"),
            ("ZINTER 2 y s AGGREGATE MAX WITHSCORES", "*4 $1 7 $1 3 $1 b $2 10"),
            ("ZINTER 2 x y WEIGHTS 0 0 WITHSCORES", "*4 $1 b $1 0 $1 c $1 0"),
            ("ZINTER 2 x none", "*0"),
            ("ZDIFF 2 y s WITHSCORES", "*2 $1 c $4 -inf"),
            ("ZDIFF 2 s x WITHSCORES", "*2 $1 7 $1 1"),
            ("ZDIFF 2 none x", "*0"),
            ("ZINTERCARD 2 y s", ":2"),
            ("ZINTERCARD 2 y s LIMIT 1", ":1"),
            ("ZUNIONSTORE x 2 x s AGGREGATE MAX", ":4"),
            ("ZRANGE x 0 -1 WITHSCORES", "*8 $1 7 $1 1 $1 a $1 1 $1 b $1 2 $1 c $3 inf"),
            ("ZUNION 1 s WEIGHTS -0 WITHSCORES", "*4 $1 7 $2 -0 $1 b $2 -0"),
            ("ZUNIONSTORE d 1 s WEIGHTS -0", ":2"),
            ("ZMSCORE d 7 b", "*2 $1 0 $1 0"),
        ],
    );
}

#[test]
fn a_stored_combination_has_the_encoding_of_its_members_alone() {
    let (mut server, client) = server();
    let long = "m".repeat(65);
    add_many(&mut server, client, "many", 129, |number| number);
    check(
        &mut server,
        client,
        &[
            ("ZUNIONSTORE d 1 many", ":129"),
            ("OBJECT ENCODING d", "$8 skiplist"),
            ("ZADD one 5 m00000", ":1"),
            ("ZDIFFSTORE d 2 many one", ":128"),
            ("OBJECT ENCODING d", "$8 listpack"),
            ("ZINTERSTORE d 2 many one", ":1"),
            ("OBJECT ENCODING d", "$8 listpack"),
            (&format!("ZADD long 1 {long} 2 short"), ":2"),
            ("ZUNIONSTORE d 2 one long", ":3"),
            ("OBJECT ENCODING d", "$8 skiplist"),
            ("ZADD short 1 short", ":1"),
            ("ZINTERSTORE d 2 short long", ":1"),
            ("OBJECT ENCODING d", "$8 listpack"),
            ("ZINTERSTORE d 2 short none", ":0"),
            ("EXISTS d", ":0"),
        ],
    );
}

#[test]
fn combinations_equal_those_of_maps() {
    let (mut server, client) = server();
    let mut random = fastrand::Rng::with_seed(6);
    for round in 0..60 {
        let size = [3, 40, 900][round % 3];
        let mut maps: Vec<BTreeMap<String, u64>> = Vec::new();
        for index in 0..4 {
            let is_set = index == 3;
            let pairs = (0..random.u64(0..size)).map(|_| {
                let number = random.u64(0..size);
                let member = if random.bool() { number.to_string() } else { format!("m{number}") };
                (member, if is_set { 1 } else { random.u64(0..9) })
            });
            maps.push(pairs.collect());
            call(&mut server, client, &format!("DEL k{index}"));
            for (member, score) in &maps[index] {
                match is_set {
                    true => call(&mut server, client, &format!("SADD k{index} {member}")),
                    false => call(&mut server, client, &format!("ZADD k{index} {score} {member}")),
                };
            }
        }
        let keys: Vec<usize> = (0..random.usize(1..6)).map(|_| random.usize(0..4)).collect();
        let weighted: Vec<(&BTreeMap<String, u64>, u64)> =
            keys.iter().map(|&key| (&maps[key], random.u64(0..4))).collect();
        let mut union: BTreeMap<String, u64> = BTreeMap::new();
        for (map, weight) in &weighted {
            map.iter().for_each(|(member, score)| {
                *union.entry(member.clone()).or_default() += score * weight;
            });
        }
        let mut intersection = union.clone();
        intersection.retain(|member, _| weighted.iter().all(|(map, _)| map.contains_key(member)));
        let mut difference = weighted[0].0.clone();
        difference
            .retain(|member, _| !weighted[1..].iter().any(|(map, _)| map.contains_key(member)));
        let names: String = keys.iter().map(|key| format!(" k{key}")).collect();
        let weights: String = weighted.iter().map(|(_, weight)| format!(" {weight}")).collect();
        let weights = format!(" WEIGHTS{weights}");
        for (name, expected, weights) in [
            ("ZUNION", union, &weights[..]),
            ("ZINTER", intersection, &weights),
            ("ZDIFF", difference, ""),
        ] {
            let mut expected: Vec<(u64, String)> =
                expected.into_iter().map(|(member, score)| (score, member)).collect();
            expected.sort();
            let expected: String = expected
                .iter()
                .flat_map(|(score, member)| [member.clone(), score.to_string()])
                .map(|word| format!(" ${} {word}", word.len()))
                .collect();
            let count = expected.split_whitespace().count() / 4;
            let expected = format!("*{}{expected}", count * 2);
            let arguments = format!("{}{names}{weights}", keys.len());
            let line = format!("{name} {arguments} WITHSCORES");
            assert_eq!(call(&mut server, client, &line), expected, "{line}");
            let line = format!("{name}STORE d {arguments}");
            assert_eq!(call(&mut server, client, &line), format!(":{count}"), "{line}");
            let found = call(&mut server, client, "ZRANGE d 0 -1 WITHSCORES");
            assert_eq!(found, expected, "{line}");
            let limits = if name == "ZINTER" { &[0, 1, 2, 30, 900][..] } else { &[] };
            for limit in limits {
                let expected = if *limit == 0 { count } else { count.min(*limit) };
                let line = format!("ZINTERCARD {}{names} LIMIT {limit}", keys.len());
                assert_eq!(call(&mut server, client, &line), format!(":{expected}"), "{line}");
            }
        }
    }
}

#[test]
fn events_of_what_is_stored_and_popped_are_those_of_valkey() {
    for (command, expected) in [
        ("ZUNIONSTORE d 1 k", "new d, zunionstore d"),
        ("ZINTERSTORE d 2 k k", "new d, zinterstore d"),
        ("ZDIFFSTORE d 1 k", "new d, zdiffstore d"),
        ("ZDIFFSTORE k 2 k k", "del k"),
        ("ZDIFFSTORE d 2 k k", ""),
        ("ZRANGESTORE d k 0 0", "new d, zrangestore d"),
        ("ZRANGESTORE k k 5 9", "del k"),
        ("BZPOPMIN k 0", "zpopmin k"),
        ("BZPOPMAX none k 0", "zpopmax k"),
        ("BZMPOP 0 1 k MAX COUNT 5", "zpopmax k, del k"),
    ] {
        let mut server = Server::with_events(1, START_MS, true);
        let client = server.connect(0);
        call(&mut server, client, "ZADD k 1 a 2 b");
        server.publications.take();
        call(&mut server, client, command);
        let all = server.publications.take().into_iter();
        let all: Vec<_> = all.map(|each| format!("{} {}", each.event, each.key)).collect();
        assert_eq!(all.join(", "), expected, "{command}");
    }
}

#[test]
fn who_waits_is_served_however_a_sorted_set_comes_to_be() {
    for (prepare, command) in [
        ("PING", "ZADD k 1 a"),
        ("PING", "ZINCRBY k 1 a"),
        ("PING", "ZADD k INCR 1 a"),
        ("ZADD o 1 a", "ZUNIONSTORE k 1 o"),
        ("ZADD o 1 a", "ZINTERSTORE k 1 o"),
        ("ZADD o 1 a", "ZDIFFSTORE k 1 o"),
        ("SADD o a", "ZUNIONSTORE k 1 o"),
        ("ZADD o 1 a", "ZRANGESTORE k o 0 -1"),
        ("ZADD o 1 a", "RENAME o k"),
        ("ZADD o 1 a", "RENAMENX o k"),
        ("ZADD o 1 a", "COPY o k"),
    ] {
        for wait in ["BZPOPMIN none k 0", "BZPOPMAX k 0", "BZMPOP 0 2 none k MIN COUNT 3"] {
            let mut server = Server::new(2, START_MS);
            let (waiting, writing) = (server.connect(0), server.connect(1));
            call(&mut server, writing, prepare);
            assert_eq!(call(&mut server, waiting, wait), "");
            assert!(server.is_blocked(waiting));
            // A value of another type is of no use.
            call(&mut server, writing, "RPUSH k x");
            call(&mut server, writing, "DEL k");
            assert!(server.is_blocked(waiting));
            call(&mut server, writing, command);
            let reply = server.take_output(waiting).trim_end().replace("\r\n", " ");
            let expected = match wait.starts_with("BZMPOP") {
                true => "*2 $1 k *1 *2 $1 a $1 1",
                false => "*3 $1 k $1 a $1 1",
            };
            assert_eq!(reply, expected, "{wait} beside {command}");
            assert_eq!(call(&mut server, writing, "EXISTS k"), ":0");
        }
    }
}

#[test]
fn who_waits_is_served_by_move_and_restore() {
    let mut server = Server::new(1, START_MS);
    let (waiting, writing) = (server.connect(0), server.connect(0));
    call(&mut server, writing, "SELECT 1");
    call(&mut server, writing, "ZADD k 2.5 a");
    let dump = server.call_for_bytes(writing, &[b"DUMP", b"k"]);
    let start = dump.iter().position(|&byte| byte == b'\n').expect("a header") + 1;
    let payload = dump[start..dump.len() - 2].to_vec();
    for is_move in [true, false] {
        assert_eq!(call(&mut server, waiting, "BZPOPMIN k 0"), "");
        if is_move {
            call(&mut server, writing, "MOVE k 0");
        } else {
            call(&mut server, writing, "SELECT 0");
            server.call_bytes(writing, &[b"RESTORE", b"k", b"0", &payload]);
        }
        let reply = server.take_output(waiting);
        assert_eq!(reply, "*3\r\n$1\r\nk\r\n$1\r\na\r\n$3\r\n2.5\r\n", "move: {is_move}");
    }
}

#[test]
fn pops_that_may_wait_answer_in_their_own_shapes() {
    let (mut server, client) = server();
    check(
        &mut server,
        client,
        &[
            ("SET s x", "+OK"),
            ("BZPOPMIN k x", "-ERR timeout is not a float or out of range"),
            ("BZPOPMIN k -1", "-ERR timeout is negative"),
            ("BZPOPMIN s 0", WRONG_TYPE),
            ("BZMPOP x 1 k NONE", "-ERR syntax error"),
            ("BZMPOP x 1 k MIN", "-ERR timeout is not a float or out of range"),
            ("BZMPOP x 0 k MIN", "-ERR numkeys should be greater than 0"),
            ("BZMPOP x 1 k MIN COUNT 0", "-ERR count should be greater than 0"),
            ("MULTI", "+OK"),
            ("BZPOPMIN k 0", "+QUEUED"),
            ("BZMPOP 0 1 k MAX", "+QUEUED"),
            ("EXEC", "*2 *-1 *-1"),
            ("ZADD k 1 a 2 b 3 c 4 d", ":4"),
            ("BZPOPMIN none k 0", "*3 $1 k $1 a $1 1"),
        ],
    );
    call(&mut server, client, "HELLO 3");
    check(
        &mut server,
        client,
        &[
            ("BZPOPMAX none k 0", "*3 $1 k $1 d ,4"),
            ("BZMPOP 0 2 none k MAX COUNT 9", "*2 $1 k *2 *2 $1 c ,3 *2 $1 b ,2"),
            ("EXISTS k", ":0"),
        ],
    );
}

#[test]
fn a_sorted_set_is_sorted_or_left_in_its_order() {
    let (mut server, client) = server();
    check(
        &mut server,
        client,
        &[
            ("ZADD k 3 1 2 20 1 3", ":3"),
            ("SORT k", "*3 $1 1 $1 3 $2 20"),
            ("OBJECT ENCODING k", "$8 skiplist"),
            ("SORT k ALPHA DESC", "*3 $1 3 $2 20 $1 1"),
            ("SORT k BY nosort", "*3 $1 3 $2 20 $1 1"),
            ("SORT k BY nosort DESC LIMIT 1 9", "*2 $2 20 $1 3"),
            ("SORT k BY nosort STORE l", ":3"),
            ("LRANGE l 0 -1", "*3 $1 3 $2 20 $1 1"),
            ("ZADD y 1 b 2 a", ":2"),
            ("SORT_RO y BY nosort GET #", "*2 $1 b $1 a"),
            ("OBJECT ENCODING y", "$8 skiplist"),
            ("SORT y", "-ERR One or more scores can't be converted into double"),
            ("SET s x", "+OK"),
            ("SORT s", WRONG_TYPE),
        ],
    );
}
