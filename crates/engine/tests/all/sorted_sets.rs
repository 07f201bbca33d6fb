//! Commands on sorted sets: replies as Valkey 9.1 was seen to give them, where options meet, where
//! encodings change, and where replies come in pieces.

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
