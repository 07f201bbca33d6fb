//! The records of the journal have to make the same dataset again, and be one record per command or
//! transaction.

use std::fmt::Write as _;

use crate::harness::{Left, Server};
use fastrand::Rng;
use tidemill_engine::commit::Effect;

const START_MS: u64 = 1_700_000_000_000;
const KEYS: [&str; 6] = ["a", "b", "{t}c", "{t}d", "e", "f"];
const FIELDS: [&str; 4] = ["f1", "f2", "f3", "f4"];

/// An effect as text: database and words.
fn text_of(effect: &Effect) -> String {
    let words: Vec<_> = effect.arguments.view().iter().map(String::from_utf8_lossy).collect();
    format!("{} {}", effect.database, words.join(" "))
}

/// The records since the last call as texts: their commands, separated by `;`.
fn records(server: &Server) -> Vec<String> {
    let text = |record: Vec<Effect>| record.iter().map(text_of).collect::<Vec<_>>().join("; ");
    server.journal.take().into_iter().map(text).collect()
}

fn call(server: &mut Server, connection: u64, line: &str) -> String {
    server.call(connection, &line.split(' ').collect::<Vec<_>>())
}

#[test]
fn relative_times_are_recorded_as_absolute_ones() {
    let mut server = Server::new(1, START_MS);
    let client = server.connect(0);
    call(&mut server, client, "SET k v EX 10");
    call(&mut server, client, "EXPIRE k 20");
    call(&mut server, client, "GETEX k PX 30");
    let at = |offset: u64| START_MS + offset;
    assert_eq!(
        records(&server),
        [
            format!("0 SET k v PXAT {}", at(10_000)),
            format!("0 PEXPIREAT k {}", at(20_000)),
            format!("0 PEXPIREAT k {}", at(30)),
        ]
    );
}

#[test]
fn what_changes_nothing_is_not_recorded() {
    let mut server = Server::new(1, START_MS);
    let client = server.connect(0);
    for line in ["GET k", "DEL k", "SET k v XX", "LPOP k", "HDEL k f", "PERSIST k", "EXPIRE k 5"] {
        call(&mut server, client, line);
    }
    assert_eq!(records(&server), Vec::<String>::new());
}

#[test]
fn a_transaction_is_one_record() {
    let mut server = Server::new(1, START_MS);
    let client = server.connect(0);
    for line in ["MULTI", "SET a 1", "GET a", "INCR a", "SELECT 1", "SET b 2", "EXEC"] {
        call(&mut server, client, line);
    }
    assert_eq!(records(&server), ["0 SET a 1; 0 INCR a; 1 SET b 2"]);
}

#[test]
fn a_client_served_is_a_record_of_its_own_behind_the_one_that_served_it() {
    let mut server = Server::new(2, START_MS);
    let (waiting, pushing) = (server.connect(0), server.connect(1));
    for lines in [&["RPUSH from x y"][..], &["MULTI", "RPUSH from x", "RPUSH from y", "EXEC"]] {
        assert_eq!(call(&mut server, waiting, "BLMOVE from to LEFT RIGHT 0"), "");
        for line in lines {
            call(&mut server, pushing, line);
        }
        assert_eq!(server.take_output(waiting), "$1\r\nx\r\n");
        let records = records(&server);
        assert_eq!(records.len(), 2, "{records:?}");
        assert_eq!(records[1], "0 LMOVE from to LEFT RIGHT");
        call(&mut server, pushing, "DEL from to");
        let _ = server.journal.take();
    }
}

/// A worker that sends nothing before the journal's tail is durable can hold back a reply only when
/// its record is in.
#[test]
fn a_client_served_is_answered_after_the_record_of_it() {
    let mut server = Server::new(3, START_MS);
    let (first, second, pushing) = (server.connect(0), server.connect(2), server.connect(1));
    for waiting in [first, second] {
        assert_eq!(call(&mut server, waiting, "BLPOP queue 0"), "");
    }
    for lines in [&["RPUSH queue x y"][..], &["MULTI", "RPUSH queue x", "RPUSH queue y", "EXEC"]] {
        let _ = server.take_departures();
        for line in lines {
            call(&mut server, pushing, line);
        }
        let unit = [Left::Number, Left::Record];
        let messages = [Left::Message(0), Left::Message(2)];
        assert_eq!(server.take_departures(), [unit, unit, unit, messages].concat());
        for waiting in [first, second] {
            assert_ne!(server.take_output(waiting), "");
            assert_eq!(call(&mut server, waiting, "BLPOP queue 0"), "");
        }
    }
}

#[test]
fn an_expired_key_is_deleted_by_a_record_of_its_own() {
    let mut server = Server::new(1, START_MS);
    let client = server.connect(0);
    call(&mut server, client, "SET read v PX 5");
    call(&mut server, client, "SET swept v PX 5");
    server.clock.advance_ms(10);
    records(&server);
    assert_eq!(call(&mut server, client, "GET read"), "$-1\r\n");
    assert_eq!(records(&server), ["0 DEL read"]);
    for _ in 0..200 {
        server.sweep(0);
    }
    assert_eq!(records(&server), ["0 DEL swept"]);
}

#[test]
fn swept_fields_are_recorded() {
    let mut server = Server::new(1, START_MS);
    let client = server.connect(0);
    call(&mut server, client, "HSET h f1 v f2 v");
    call(&mut server, client, "HPEXPIRE h 5 FIELDS 1 f1");
    server.clock.advance_ms(10);
    records(&server);
    for _ in 0..200 {
        server.sweep(0);
    }
    assert_eq!(records(&server), ["0 HDEL h f1"]);
}

/// A hash counts as there while none has looked for its fields, all of whose time is over.
#[test]
fn a_condition_that_expired_fields_met_is_not_recorded() {
    for (expiry, recorded) in [
        ("", "HSET h f w".to_owned()),
        ("KEEPTTL ", "HSETEX h KEEPTTL FIELDS 1 f w".to_owned()),
        ("PX 9 ", format!("HSET h f w; 0 HPEXPIREAT h {} FIELDS 1 f", START_MS + 19)),
    ] {
        for field in ["f", "g"] {
            let mut server = Server::new(1, START_MS);
            let client = server.connect(0);
            call(&mut server, client, &format!("HSETEX h PX 5 FIELDS 1 {field} v"));
            server.clock.advance_ms(10);
            records(&server);
            let line = format!("HSETEX h XX {expiry}FIELDS 1 f w");
            assert_eq!(call(&mut server, client, &line), ":1\r\n", "{line}");
            let all = records(&server).join("; ");
            assert!(all.ends_with(&format!("; 0 {recorded}")), "{line}, {field}: {all}");
        }
    }
}

/// Their values would make the hash a table at a replay, and nothing else.
#[test]
fn fields_whose_time_has_passed_as_they_are_set_are_recorded_as_deleted() {
    let mut server = Server::new(1, START_MS);
    let client = server.connect(0);
    call(&mut server, client, "HSET h a 1 f 2");
    records(&server);
    assert_eq!(call(&mut server, client, "HSETEX h PXAT 1 FIELDS 1 f w"), ":1\r\n");
    assert_eq!(records(&server), ["0 HDEL h f"]);
}

#[test]
fn a_list_that_sort_stores_is_recorded_by_its_elements() {
    let mut server = Server::new(1, START_MS);
    let client = server.connect(0);
    for line in [
        "RPUSH src b a",
        "SET w_a 2 PX 5",
        "SET w_b 1",
        "HSET h_a f 9",
        "HPEXPIRE h_a 5 FIELDS 1 f",
        "RPUSH gone x",
        "PEXPIRE gone 5",
        "SET target v",
    ] {
        call(&mut server, client, line);
    }
    server.clock.advance_ms(10);
    records(&server);
    let sort = |server: &mut Server, line: &str| {
        call(server, client, line);
        records(server).remove(0)
    };
    let by_key = sort(&mut server, "SORT src BY w_* GET # GET w_* STORE target");
    assert_eq!(by_key, "0 DEL target; 0 RPUSH target a  b 1");
    let by_field = sort(&mut server, "SORT src BY h_*->f GET # GET h_*->f STORE new");
    assert_eq!(by_field, "0 RPUSH new a  b ");
    assert_eq!(sort(&mut server, "SORT gone STORE new"), "0 DEL new");
}

#[test]
fn a_long_list_that_sort_stores_is_recorded_in_parts() {
    let mut server = Server::new(1, START_MS);
    let client = server.connect(0);
    let elements: Vec<String> = (0..3000).map(|number| number.to_string()).collect();
    let push: Vec<&str> =
        ["RPUSH", "src"].into_iter().chain(elements.iter().map(String::as_str)).collect();
    server.call(client, &push);
    records(&server);
    assert_eq!(call(&mut server, client, "SORT src STORE target"), ":3000\r\n");
    let record = server.journal.take().remove(0);
    let lengths: Vec<_> = record.iter().map(|effect| effect.arguments.view().len()).collect();
    assert_eq!(lengths, [1026, 1026, 954]);
    let mut copy = replay(&[record]).expect("no errors");
    let client = copy.connect(0);
    assert_eq!(call(&mut copy, client, "LINDEX target 2999"), "$4\r\n2999\r\n");
}

/// A random command, mostly one that changes something.
fn random_command(random: &mut Rng) -> String {
    let key = *random.choice(KEYS.iter()).expect("some");
    let other = *random.choice(KEYS.iter()).expect("some");
    let field = *random.choice(FIELDS.iter()).expect("some");
    let value = random.u32(0..1000);
    let ttl = random.u64(1..60);
    let at = START_MS + random.u64(0..3000);
    let side = |random: &mut Rng| if random.bool() { "LEFT" } else { "RIGHT" };
    if random.u32(0..3) == 0 {
        return random_command_of_sets(random, (key, other, field));
    }
    match random.u32(0..58) {
        0..3 => format!("SET {key} {value}"),
        3 => format!("SET {key} {value} PX {ttl}"),
        4 => format!("SET {key} {value} PXAT {at}"),
        5 => format!("SET {key} {value} KEEPTTL"),
        6 => format!("SET {key} {value} NX GET"),
        7 => format!("APPEND {key} {value}"),
        8 => format!("INCRBY {key} {value}"),
        9 => format!("INCRBYFLOAT {key} 0.{value}"),
        10 => format!("SETRANGE {key} {} {value}", random.u32(0..20)),
        11 => format!("SETBIT {key} {} {}", random.u32(0..100), random.u32(0..2)),
        12 => format!("BITOP XOR {key} {other} {key}"),
        13 => format!("BITFIELD {key} INCRBY u8 {} {value}", random.u32(0..40)),
        14 => format!("MSET {key} {value} {other} {field}"),
        15 => format!("MSETNX {key} {value} {other} {field}"),
        16 => format!("GETDEL {key}"),
        17 => format!("GETEX {key} PX {ttl}"),
        18 => format!("GETEX {key} PERSIST"),
        19 => format!("PSETEX {key} {ttl} {value}"),
        20 => format!("GETSET {key} {value}"),
        21..24 => format!("RPUSH {key} {value} {field}"),
        24 => format!("LPUSH {key} {value}"),
        25 => format!("LPOP {key} 2"),
        26 => format!("RPOP {key}"),
        27 => format!("LINSERT {key} BEFORE {field} {value}"),
        28 => format!("LSET {key} 0 {value}"),
        29 => format!("LREM {key} 1 {field}"),
        30 => format!("LTRIM {key} 0 3"),
        31 => format!("LMOVE {key} {other} {} {}", side(random), side(random)),
        32 => format!("LMPOP 2 {key} {other} LEFT COUNT 2"),
        33..36 => format!("HSET {key} {field} {value} x{value} y"),
        36 => format!("HDEL {key} {field}"),
        37 => format!("HINCRBY {key} {field} {value}"),
        38 => format!("HINCRBYFLOAT {key} {field} 0.5"),
        39 => format!("HPEXPIRE {key} {ttl} FIELDS 1 {field}"),
        40 => format!("HSETEX {key} PX {ttl} FIELDS 1 {field} {value}"),
        50..53 => random_command_with_condition(random, key, field),
        53 => format!("HSETNX {key} {field} {value}"),
        54 => format!("RENAMENX {key} {other}"),
        41 => format!("HGETEX {key} PX {ttl} FIELDS 1 {field}"),
        42 => format!("HPERSIST {key} FIELDS 1 {field}"),
        43 => format!("PEXPIRE {key} {ttl}"),
        44 => format!("PERSIST {key}"),
        45 => format!("RENAME {key} {other}"),
        46 => format!("COPY {key} {other} DB {} REPLACE", random.u32(0..2)),
        47 => format!("MOVE {key} 1"),
        48 => format!("DEL {key} {other}"),
        49 if random.u32(0..8) == 0 => "FLUSHDB".into(),
        55 if random.u32(0..8) == 0 => "SWAPDB 0 1".into(),
        _ => format!("GET {key}"),
    }
}

/// A random command on a field of a hash that changes something if a condition is met.
fn random_command_with_condition(random: &mut Rng, key: &str, field: &str) -> String {
    let mut choose = |words: &[&'static str]| words[random.usize(..words.len())];
    let of_times = choose(&["NX", "XX", "GT", "LT"]);
    let (condition, expiry) =
        (choose(&["NX", "XX", "FNX", "FXX"]), choose(&["", " KEEPTTL", " PX 20"]));
    match choose(&["time", "value", "value"]) {
        "time" => format!("HPEXPIRE {key} 30 {of_times} FIELDS 1 {field}"),
        _ => format!("HSETEX {key} {condition}{expiry} FIELDS 1 {field} v"),
    }
}

/// A random command on sets, sorted sets and streams, or on several keys.
fn random_command_of_sets(random: &mut Rng, (key, other, field): (&str, &str, &str)) -> String {
    let third = *random.choice(KEYS.iter()).expect("some");
    let value = random.u32(0..20);
    match random.u32(0..32) {
        0..3 => format!("SADD {key} {value} {field} {third}"),
        3 => format!("SREM {key} {value} {field}"),
        4 => format!("SPOP {key}"),
        5 => format!("SPOP {key} 2"),
        6 => format!("SMOVE {key} {other} {field}"),
        7 => format!("SUNIONSTORE {key} {other} {third}"),
        8 => format!("SINTERSTORE {key} {other} {third}"),
        9 => format!("SDIFFSTORE {key} {other} {third}"),
        10..13 => format!("ZADD {key} {value} {field} 3 {third}"),
        13 => format!("ZINCRBY {key} {value} {field}"),
        14 => format!("ZPOPMIN {key}"),
        15 => format!("ZMPOP 2 {key} {other} MAX COUNT 2"),
        16 => format!("ZUNIONSTORE {key} 2 {other} {third} WEIGHTS 2 3"),
        17 => format!("ZINTERSTORE {key} 2 {other} {third}"),
        18 => format!("ZDIFFSTORE {key} 2 {other} {third}"),
        19 => format!("ZRANGESTORE {key} {other} 0 1"),
        20 => format!("ZREMRANGEBYRANK {key} 0 0"),
        21 => format!("SORT {key} BY {{t}}* ALPHA GET # GET {{t}}* STORE {other}"),
        22 => format!("SORT {key} ALPHA STORE {other}"),
        23 => format!("SORT {key} BY *->f1 ALPHA GET # GET *->f2 STORE {other}"),
        24 => format!("PFADD {key} {value}"),
        25 => format!("PFMERGE {key} {other} {third}"),
        26 => format!("GEOADD {key} {value} 2 {field}"),
        27 => format!("GEOSEARCHSTORE {key} {other} FROMLONLAT 5 2 BYRADIUS 1000 km ASC"),
        28 => format!("XADD {key} MAXLEN ~ 3 * {field} {value}"),
        29 => format!("XGROUP CREATE {key} g $ MKSTREAM"),
        30 => format!("XREADGROUP GROUP g c COUNT 1 STREAMS {key} >"),
        _ => format!("XAUTOCLAIM {key} g d 0 0"),
    }
}

/// All that commands can see of two databases.
fn dump(server: &mut Server) -> String {
    let client = server.connect(0);
    let mut text = String::new();
    for database in ["0", "1"] {
        server.call(client, &["SELECT", database]);
        for key in KEYS {
            let kind = server.call(client, &["TYPE", key]);
            let expiry = server.call(client, &["PEXPIRETIME", key]);
            let value = match kind.as_str() {
                "+string\r\n" => server.call(client, &["GET", key]),
                "+list\r\n" => server.call(client, &["LRANGE", key, "0", "-1"]),
                "+hash\r\n" => dump_hash(server, client, key),
                "+none\r\n" => String::new(),
                _ => server.call(client, &["DEBUG", "DIGEST-VALUE", key]),
            };
            writeln!(text, "{database} {key} {kind} {expiry} {value}").expect("a string");
        }
    }
    text
}

fn dump_hash(server: &mut Server, client: u64, key: &str) -> String {
    let reply = server.call(client, &["HKEYS", key]);
    let mut fields: Vec<&str> =
        reply.split("\r\n").filter(|line| !line.starts_with(['*', '$'])).collect();
    fields.sort_unstable();
    let mut text = String::new();
    for field in fields.into_iter().filter(|field| !field.is_empty()) {
        let value = server.call(client, &["HGET", key, field]);
        let expiry = server.call(client, &["HPEXPIRETIME", key, "FIELDS", "1", field]);
        writeln!(text, "{field} {value} {expiry}").expect("a string");
    }
    text
}

/// Runs the records as a start from a journal would: by its clock nothing has expired.
fn replay(records: &[Vec<Effect>]) -> Result<Server, String> {
    let mut server = Server::new(1, START_MS - 1_000_000);
    let client = server.connect(0);
    for effect in records.iter().flatten() {
        server.call(client, &["SELECT", &effect.database.to_string()]);
        let words: Vec<&[u8]> = effect.arguments.view().iter().collect();
        let reply = server.call_bytes(client, &words);
        if reply.starts_with('-') {
            return Err(format!("{}: {reply}", text_of(effect)));
        }
    }
    Ok(server)
}

#[test]
fn replaying_the_records_makes_the_same_dataset() {
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut random = Rng::with_seed(seed);
    for round in 0..150 {
        let mut server = Server::new(2, START_MS);
        let clients = [server.connect(0), server.connect(1), server.connect(0)];
        let mut log = String::new();
        let mut in_multi = false;
        for _ in 0..200 {
            let line = match random.u32(0..40) {
                0 if !in_multi => "MULTI".to_owned(),
                1..6 if in_multi => "EXEC".to_owned(),
                6 => format!("BLPOP {} {} 0.01", KEYS[0], KEYS[1]),
                7 => format!("BLMOVE {} {} LEFT LEFT 0.01", KEYS[2], KEYS[4]),
                _ => random_command(&mut random),
            };
            // One client has the transactions, another waits.
            let client = match line.as_str() {
                "MULTI" | "EXEC" => clients[0],
                line if line.starts_with("BL") => clients[2],
                _ if in_multi && random.bool() => clients[0],
                _ => clients[1],
            };
            if server.is_blocked(client) {
                continue;
            }
            in_multi = in_multi && line != "EXEC" || line == "MULTI";
            let reply = call(&mut server, client, &line);
            writeln!(log, "{} {client} {line} -> {reply:?}", server.clock.now_ms())
                .expect("a string");
            server.clock.advance_ms(random.u64(0..8));
            server.settle();
        }
        let records = server.journal.take();
        let written: Vec<String> = records.iter().flatten().map(text_of).collect();
        log.push_str(&written.join("\n"));
        let mut replayed = replay(&records)
            .unwrap_or_else(|error| panic!("seed {seed}, round {round}: {error}\n{log}"));
        let behind_ms = server.clock.now_ms() - replayed.clock.now_ms();
        replayed.clock.advance_ms(behind_ms);
        let (original, copy) = (dump(&mut server), dump(&mut replayed));
        assert_eq!(original, copy, "seed {seed}, round {round}:\n{log}");
    }
}
