//! Write runs: pipelined writes to one key that are carried out and published as one. To clients
//! nothing tells a run from its commands one by one.

use std::fmt::Write as _;

use fastrand::Rng;
use tidemill_engine::commit::Effect;
use tidemill_engine::execute::Next;

use crate::harness::Server;

const START_MS: u64 = 1_700_000_000_000;
const KEYS: [&str; 10] = ["l1", "l2", "h1", "h{l1}", "s1", "s{h1}", "z1", "z{s1}", "x1", "x{z1}"];

/// Commands of a pipeline, one per line, as they are sent.
fn encoded<'l>(lines: impl IntoIterator<Item = &'l str>) -> Vec<u8> {
    let mut bytes = Vec::new();
    for line in lines {
        let words: Vec<&str> = line.split(' ').collect();
        bytes.extend_from_slice(format!("*{}\r\n", words.len()).as_bytes());
        for word in words {
            bytes.extend_from_slice(format!("${}\r\n{word}\r\n", word.len()).as_bytes());
        }
    }
    bytes
}

/// Sends commands at once, and returns all replies.
fn pipeline<'l>(
    server: &mut Server,
    client: u64,
    lines: impl IntoIterator<Item = &'l str>,
) -> String {
    let mut next = server.turn_once(client, &encoded(lines));
    // A turn of a slow machine may end before the last of them.
    while matches!(next, Next::Turn) {
        next = server.turn_once(client, b"");
    }
    server.settle();
    server.take_output(client)
}

fn text_of(effect: &Effect) -> String {
    let words: Vec<_> = effect.arguments.view().iter().map(String::from_utf8_lossy).collect();
    format!("{} {}", effect.database, words.join(" "))
}

/// The records since the last call, each with its effects.
fn records(server: &Server) -> Vec<Vec<String>> {
    server.journal.take().iter().map(|record| record.iter().map(text_of).collect()).collect()
}

fn pushes(count: usize) -> Vec<String> {
    (0..count).map(|number| format!("RPUSH list {number}")).collect()
}

/// Numbers of effects of the records that a pipeline of 17 pushes makes.
fn record_sizes(server: &mut Server, client: u64) -> Vec<usize> {
    let _ = server.journal.take();
    let lines = pushes(17);
    pipeline(server, client, lines.iter().map(String::as_str));
    records(server).iter().map(Vec::len).collect()
}

#[test]
fn up_to_sixteen_commands_are_one_record() {
    for (count, sizes) in [(1, vec![1]), (2, vec![2]), (16, vec![16]), (17, vec![16, 1])] {
        let mut server = Server::new(1, START_MS);
        let client = server.connect(0);
        let lines = pushes(count);
        let replies = pipeline(&mut server, client, lines.iter().map(String::as_str));
        let expected: String = (1..=count).map(|length| format!(":{length}\r\n")).collect();
        assert_eq!(replies, expected);
        let records = records(&server);
        assert_eq!(records.iter().map(Vec::len).collect::<Vec<_>>(), sizes);
        let effects: Vec<String> = lines.iter().map(|line| format!("0 {line}")).collect();
        assert_eq!(records.concat(), effects);
    }
}

#[test]
fn commands_on_another_key_end_a_run() {
    let mut server = Server::new(1, START_MS);
    let client = server.connect(0);
    let lines = ["LPUSH a 1", "LPUSH a 2", "LPUSH b 3", "LPUSH a 4", "LLEN a", "LPUSH a 5"];
    let replies = pipeline(&mut server, client, lines);
    assert_eq!(replies, ":1\r\n:2\r\n:1\r\n:3\r\n:3\r\n:4\r\n");
    let sizes: Vec<usize> = records(&server).iter().map(Vec::len).collect();
    assert_eq!(sizes, [2, 1, 1, 1]);
}

#[test]
fn a_command_that_fails_changes_nothing_and_ends_its_run() {
    let mut server = Server::new(1, START_MS);
    let client = server.connect(0);
    let lines =
        ["LPUSH a 1", "LPUSH a 2", "LPOP a 1 2", "LPUSH a", "RPOP a", "RPOP a x", "LPUSH a 3"];
    let replies = pipeline(&mut server, client, lines);
    let wrong = |name| format!("-ERR wrong number of arguments for '{name}' command\r\n");
    let range = "-ERR value is out of range, must be positive\r\n";
    assert_eq!(
        replies,
        format!(":1\r\n:2\r\n{}{}$1\r\n1\r\n{range}:2\r\n", wrong("lpop"), wrong("lpush"))
    );
    pipeline(&mut server, client, ["SET s v"]);
    let wrong_type =
        "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n".repeat(3);
    assert_eq!(pipeline(&mut server, client, ["LPUSH s 1", "RPOP s", "LPUSH s 2"]), wrong_type);
}

#[test]
fn a_list_that_is_emptied_and_pushed_to_again_is_another_one() {
    let mut server = Server::new(1, START_MS);
    let client = server.connect(0);
    pipeline(&mut server, client, ["RPUSH a 1 2", "EXPIRE a 100"]);
    let lines = ["RPOP a", "LPOP a", "LPUSH a 3", "LPUSH a 4", "TTL a"];
    let replies = pipeline(&mut server, client, lines);
    assert_eq!(replies, "$1\r\n2\r\n$1\r\n1\r\n:1\r\n:2\r\n:-1\r\n");
}

#[test]
fn a_sorted_set_that_is_emptied_and_added_to_again_is_another_one() {
    let mut server = Server::new(1, START_MS);
    let client = server.connect(0);
    let long = "x".repeat(100);
    let add = format!("ZADD a 1 {long} 2 b");
    pipeline(&mut server, client, [add.as_str(), "EXPIRE a 100"]);
    let remove = format!("ZREM a {long} b {long} c");
    let lines = [remove.as_str(), "ZADD a 1 c", "ZADD a 2 d", "TTL a", "OBJECT ENCODING a"];
    let replies = pipeline(&mut server, client, lines);
    assert_eq!(replies, ":2\r\n:1\r\n:1\r\n:-1\r\n$8\r\nlistpack\r\n");
    let lines =
        ["ZREM a c", "ZREM a d", "ZREM a d", "EXISTS a", "ZREM a", "ZREM a x", "ZADD a 1 e"];
    let replies = pipeline(&mut server, client, lines);
    let wrong = "-ERR wrong number of arguments for 'zrem' command\r\n";
    assert_eq!(replies, format!(":1\r\n:1\r\n:0\r\n:0\r\n{wrong}:0\r\n:1\r\n"));
}

/// Collections of more than 16 MiB: what requests look into is asked of the memory ahead of them.
#[test]
fn requests_on_large_collections_are_answered_in_a_pipeline_as_one_by_one() {
    let long = "x".repeat(16 << 10);
    let mut lines: Vec<String> = [
        "HGET h a",
        "HGET h none",
        "SISMEMBER s 7",
        "SISMEMBER s none",
        "ZSCORE z a",
        "ZRANK z a",
        "ZSCORE z none",
        "HGET s a",
        "ZSCORE h a",
        "SISMEMBER z a",
        "HGET h",
        "ZADD z 1",
        "HLEN h",
    ]
    .map(str::to_owned)
    .into();
    for number in 0..40 {
        lines.push(format!("ZINCRBY z {number} a"));
        lines.push(format!("HINCRBY h a {number}"));
    }
    for family in ["HINCRBY h a 1", "HSET h a", "SADD s", "SREM s", "ZADD z 1", "ZINCRBY z 2"] {
        lines.extend((0..21).map(|number| match family {
            "HINCRBY h a 1" => family.to_owned(),
            "HSET h a" => format!("HSET h a{number} 1"),
            _ => format!("{family} {}", number * 3 % 17),
        }));
    }
    let replies = [true, false].map(|at_once| {
        let mut server = Server::new(1, START_MS);
        let client = server.connect(0);
        for number in 0..1_100 {
            server.call(client, &["HSET", "h", &format!("long{number}"), &long]);
            server.call(client, &["SADD", "s", &format!("{number}{long}")]);
            server.call(client, &["ZADD", "z", &number.to_string(), &format!("{number}{long}")]);
        }
        pipeline(&mut server, client, ["HSET h a 1", "SADD s a 7", "ZADD z 1 a 2 b"]);
        if at_once {
            return pipeline(&mut server, client, lines.iter().map(String::as_str));
        }
        lines.iter().map(|line| pipeline(&mut server, client, [line.as_str()])).collect()
    });
    assert_eq!(replies[0], replies[1]);
}

#[test]
fn an_expired_list_is_deleted_before_a_run() {
    let mut server = Server::new(1, START_MS);
    let client = server.connect(0);
    pipeline(&mut server, client, ["RPUSH a 1 2", "PEXPIRE a 5"]);
    let _ = records(&server);
    server.clock.advance_ms(10);
    assert_eq!(
        pipeline(&mut server, client, ["LPUSH a 3", "LPUSH a 4", "TTL a"]),
        ":1\r\n:2\r\n:-1\r\n"
    );
    assert_eq!(records(&server), [["0 DEL a", "0 LPUSH a 3", "0 LPUSH a 4"]]);
}

#[test]
fn each_command_of_a_run_is_counted() {
    let mut server = Server::new(1, START_MS);
    let client = server.connect(0);
    let lines = pushes(17);
    pipeline(&mut server, client, lines.iter().map(String::as_str));
    let statistics = server.call(client, &["INFO", "commandstats"]);
    assert!(statistics.contains("cmdstat_rpush:calls=17,"), "{statistics}");
    let persistence = server.call(client, &["INFO", "persistence"]);
    assert!(persistence.contains("rdb_changes_since_last_save:17\r\n"), "{persistence}");
    let stats = server.call(client, &["INFO", "stats"]);
    assert!(stats.contains("total_commands_processed:19\r\n"), "{stats}");
}

/// Events, the slow log, waiters, watchers, monitors and tracking are about single commands.
#[test]
fn nothing_runs_together_where_somebody_looks_at_each_command() {
    let whole = [16, 1];
    let single = [1; 17];
    for line in ["CONFIG SET notify-keyspace-events KEA", "CONFIG SET slowlog-log-slower-than 0"] {
        let mut server = Server::new(1, START_MS);
        let client = server.connect(0);
        assert_eq!(record_sizes(&mut server, client), whole);
        assert_eq!(pipeline(&mut server, client, [line]), "+OK\r\n");
        server.settle();
        assert_eq!(record_sizes(&mut server, client), single, "{line}");
    }
    for line in ["BLPOP list 0", "WATCH list", "MONITOR", "CLIENT TRACKING ON BCAST"] {
        let mut server = Server::new(2, START_MS);
        let (client, other) = (server.connect(0), server.connect(1));
        server.call(other, &["HELLO", "3"]);
        let words: Vec<&str> = line.split(' ').collect();
        server.call(other, &words);
        assert_eq!(record_sizes(&mut server, client)[0], 1, "{line}");
    }
}

#[test]
fn a_waiter_is_served_by_the_first_push() {
    let mut server = Server::new(2, START_MS);
    let (client, waiting) = (server.connect(0), server.connect(1));
    server.call(waiting, &["BLPOP", "list", "0"]);
    pipeline(&mut server, client, ["LPUSH list 1", "LPUSH list 2", "LPUSH list 3"]);
    assert_eq!(server.take_output(waiting), "*2\r\n$4\r\nlist\r\n$1\r\n1\r\n");
    assert_eq!(server.call(client, &["LRANGE", "list", "0", "-1"]), "*2\r\n$1\r\n3\r\n$1\r\n2\r\n");
}

#[test]
fn a_watched_list_aborts_its_transaction() {
    let mut server = Server::new(2, START_MS);
    let (client, watching) = (server.connect(0), server.connect(1));
    server.call(watching, &["WATCH", "list"]);
    pipeline(&mut server, client, ["LPUSH list 1", "LPUSH list 2"]);
    for line in ["MULTI", "LPUSH list 3"] {
        server.call(watching, &line.split(' ').collect::<Vec<_>>());
    }
    assert_eq!(server.call(watching, &["EXEC"]), "*-1\r\n");
}

#[test]
fn a_session_that_wants_no_replies_gets_none_of_a_run() {
    let mut server = Server::new(1, START_MS);
    let client = server.connect(0);
    let lines = ["CLIENT REPLY OFF", "LPUSH a 1", "LPUSH a 2", "CLIENT REPLY ON", "LLEN a"];
    assert_eq!(pipeline(&mut server, client, lines), "+OK\r\n:2\r\n");
    let lines = ["CLIENT REPLY SKIP", "LPUSH a 3", "LPUSH a 4", "LPUSH a 5"];
    assert_eq!(pipeline(&mut server, client, lines), ":4\r\n:5\r\n");
}

#[test]
fn long_requests_and_replies_are_no_part_of_a_run() {
    let mut server = Server::new(1, START_MS);
    let client = server.connect(0);
    let long = "x".repeat(20_000);
    let push = format!("RPUSH list {long}");
    let lines = ["RPUSH list 1", &push, "RPUSH list 2", "LPOP list", "LPOP list", "LPOP list"];
    let replies = pipeline(&mut server, client, lines);
    let expected = format!(":1\r\n:2\r\n:3\r\n$1\r\n1\r\n$20000\r\n{long}\r\n$1\r\n2\r\n");
    assert!(replies == expected, "{:.200}", replies);
}

/// A command that mostly writes to a key, of a type by the key's name.
fn random_line(random: &mut Rng, key: &str) -> String {
    match &key[..1] {
        "l" => list_line(random, key),
        "h" => hash_line(random, key),
        "s" => set_line(random, key),
        "x" => stream_line(random, key),
        _ => sorted_set_line(random, key),
    }
}

/// A command on the key itself, or one that changes how the next ones are executed.
fn other_line(random: &mut Rng, key: &str) -> String {
    match random.u32(0..14) {
        0..3 => format!("OBJECT ENCODING {key}"),
        3 | 4 => format!("PEXPIRE {key} {}", random.u32(1..30)),
        5 => format!("PTTL {key}"),
        6 if random.bool() => format!("SET {key} value"),
        7 => format!("DEL {key}"),
        8 => format!("SELECT {}", random.u32(0..2)),
        9 => "MULTI".into(),
        10 | 11 => "EXEC".into(),
        12 if random.u32(0..6) == 0 => "CLIENT REPLY SKIP".into(),
        _ => format!("TYPE {key}"),
    }
}

fn hash_line(random: &mut Rng, key: &str) -> String {
    let field = format!("f{}", random.u32(0..60));
    let value = match random.u32(0..8) {
        0 => "long".repeat(random.usize(1..40)),
        _ => random.u32(0..100).to_string(),
    };
    match random.u32(0..40) {
        0..14 => format!("HSET {key} {field} {value}"),
        14..18 => format!("HSET {key} {field} {value} other {value}"),
        18 => format!("HSET {key} {field} {value} other"),
        19..28 => format!("HINCRBY {key} {field} {value}"),
        28 => format!("HINCRBY {key} {field} 9223372036854775807"),
        29..33 => format!("HDEL {key} {field} other"),
        33 => format!("HPEXPIRE {key} {} FIELDS 1 {field}", random.u32(1..30)),
        34 => format!("HGET {key} {field}"),
        _ => other_line(random, key),
    }
}

fn set_line(random: &mut Rng, key: &str) -> String {
    let member = match random.u32(0..12) {
        0 => "long".repeat(random.usize(1..40)),
        1 | 2 => format!("m{}", random.u32(0..200)),
        _ => random.u32(0..700).to_string(),
    };
    match random.u32(0..40) {
        0..18 => format!("SADD {key} {member}"),
        18..24 => format!("SADD {key} {member} {member} {}", random.u32(0..700)),
        24..32 => format!("SREM {key} {member} {}", random.u32(0..700)),
        32 => format!("SADD {key}"),
        33 => format!("SISMEMBER {key} {member}"),
        34 => format!("SCARD {key}"),
        _ => other_line(random, key),
    }
}

fn stream_line(random: &mut Rng, key: &str) -> String {
    let id = *random.choice(&["*", "*", "*", "5-*", "7", "0-0", "99999999999999-1"]).expect("some");
    match random.u32(0..40) {
        0..26 => format!("XADD {key} {id} name{} value", random.u32(0..3)),
        26 => format!("XADD {key} MAXLEN 5 {id} name value"),
        27 => format!("XADD {key} {id} name value other"),
        28 => format!("XADD {key} NOMKSTREAM {id} name value"),
        29 => format!("XRANGE {key} - +"),
        30 => format!("XLEN {key}"),
        31 => format!("XDEL {key} 5-1"),
        _ => other_line(random, key),
    }
}

fn sorted_set_line(random: &mut Rng, key: &str) -> String {
    let member = format!("m{}", random.u32(0..200));
    let score = *random.choice(&["1", "2.5", "-0", "0", "1e3", "inf", "-inf", "x"]).expect("some");
    match random.u32(0..40) {
        0..14 => format!("ZADD {key} {score} {member}"),
        14..18 => format!("ZADD {key} {} {member}", random.u32(0..1000)),
        18 => format!("ZADD {key} NX {score} {member}"),
        19 => format!("ZADD {key} INCR {score} {member}"),
        20 => format!("ZADD {key} {score} {member} 7 {}", "long".repeat(random.usize(1..40))),
        21..27 => format!("ZINCRBY {key} {score} {member}"),
        27..31 => format!("ZREM {key} {member}"),
        31 => format!("ZREM {key} {member} m{} {member}", random.u32(0..200)),
        32 => format!("ZSCORE {key} {member}"),
        33 => format!("ZRANK {key} {member} WITHSCORE"),
        _ => other_line(random, key),
    }
}

fn list_line(random: &mut Rng, key: &str) -> String {
    let value = match random.u32(0..12) {
        0 => "long".repeat(random.usize(1..1000)),
        1 => "medium".repeat(random.usize(1..60)),
        _ => random.u32(0..100_000).to_string(),
    };
    match random.u32(0..60) {
        0..12 => format!("LPUSH {key} {value}"),
        12..24 => format!("RPUSH {key} {value} {value}x"),
        24..34 => format!("RPOP {key}"),
        34..42 => format!("LPOP {key}"),
        42 => format!("LPUSHX {key} {value}"),
        43 => format!("RPUSHX {key} {value} y"),
        44 => format!("LPOP {key} {}", random.u32(0..60)),
        45 => format!("RPOP {key} x"),
        46 => format!("LPUSH {key}"),
        47 => format!("LLEN {key}"),
        48 => format!("LRANGE {key} 0 -1"),
        49 => format!("LINDEX {key} {}", random.u32(0..20)),
        _ => other_line(random, key),
    }
}

/// Some commands, of which many follow each other on one key.
fn random_lines(random: &mut Rng) -> Vec<String> {
    let mut lines = Vec::new();
    for _ in 0..random.usize(1..12) {
        let key = *random.choice(&KEYS).expect("some");
        for _ in 0..random.usize(1..24) {
            lines.push(random_line(random, key));
        }
    }
    lines
}

fn delete_expired(server: &mut Server) {
    let client = server.connect(0);
    for database in ["0", "1"] {
        server.call(client, &["SELECT", database]);
        for key in KEYS {
            server.call(client, &["EXISTS", key]);
        }
    }
    server.disconnect(client);
}

/// Effects by their keys: what a read finds expired is deleted later, behind other keys' effects.
fn by_key(records: Vec<Vec<String>>) -> Vec<String> {
    let mut effects = records.concat();
    let key_of = |effect: &String| {
        let words: Vec<&str> = effect.split(' ').collect();
        (words[0].to_owned(), words[2].to_owned())
    };
    effects.sort_by_key(key_of);
    effects
}

#[test]
fn a_pipeline_answers_and_leaves_the_same_as_its_commands_one_by_one() {
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut random = Rng::with_seed(seed);
    let mut runs = 0;
    for round in 0..200 {
        let (mut together, mut apart) = (Server::new(1, START_MS), Server::new(1, START_MS));
        let clients = (together.connect(0), apart.connect(0));
        if round % 2 == 0 {
            for (server, client) in [(&mut together, clients.0), (&mut apart, clients.1)] {
                let limits = "list-max-listpack-size 30 hash-max-listpack-entries 20 \
                     set-max-intset-entries 40 set-max-listpack-entries 50 \
                     zset-max-listpack-entries 30";
                let words = ["CONFIG", "SET"].into_iter().chain(limits.split(' '));
                assert_eq!(server.call(client, &words.collect::<Vec<_>>()), "+OK\r\n");
            }
        }
        // A command that fails may delete a key that has expired, or leave that to others.
        let compares_journals = round % 4 > 0;
        let mut log = String::new();
        for _ in 0..20 {
            let lines = random_lines(&mut random);
            writeln!(log, "{} {}", together.clock.now_ms(), lines.join("; ")).expect("a string");
            let whole = pipeline(&mut together, clients.0, lines.iter().map(String::as_str));
            let one = |line: &String| pipeline(&mut apart, clients.1, [line.as_str()]);
            let single: String = lines.iter().map(one).collect();
            assert!(whole == single, "seed {seed}, round {round}\n{log}\n{whole}\n{single}");
            let advance_ms = random.u64(0..12);
            for server in [&mut together, &mut apart] {
                server.clock.advance_ms(advance_ms);
                if compares_journals {
                    delete_expired(server);
                }
            }
        }
        if !compares_journals {
            continue;
        }
        let (records_together, records_apart) = (records(&together), records(&apart));
        runs += records_apart.len() - records_together.len();
        let (together, apart) = (by_key(records_together), by_key(records_apart));
        let differs = together.iter().zip(&apart).position(|(together, apart)| together != apart);
        if let Some(index) = differs {
            let near = index.saturating_sub(2)..index + 1;
            panic!(
                "seed {seed}, round {round}: {:?} together, {:?} apart",
                &together[near.clone()],
                &apart[near]
            );
        }
        assert_eq!(together.len(), apart.len(), "seed {seed}, round {round}");
    }
    assert!(runs > 1000, "so few commands ran together: {runs}");
}
