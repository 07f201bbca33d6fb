//! Fields by chance: which are drawn and how often, and that a short request for very many of them
//! ends in an error instead of taking all memory.

use std::collections::BTreeSet;

use tidemill_engine::execute::Next;

use crate::harness::Server;

const START_MS: u64 = 1_700_000_000_000;
const VALUE_BYTES: usize = 64 << 10;
const TOO_LARGE: &str = "-ERR reply exceeds maximum allowed size (proto-max-bulk-len)\r\n";

/// A server that allows 1 MiB, whose hash `h` has one field `f` of [`VALUE_BYTES`].
fn with_large_field() -> (Server, u64) {
    let mut server = Server::new(1, START_MS);
    let client = server.connect(0);
    assert_eq!(server.call(client, &["CONFIG", "SET", "proto-max-bulk-len", "1mb"]), "+OK\r\n");
    assert_eq!(server.call(client, &["HSET", "h", "f", &"v".repeat(VALUE_BYTES)]), ":1\r\n");
    (server, client)
}

#[test]
fn a_count_that_no_reply_holds_is_refused_before_anything_is_drawn() {
    let (mut server, client) = with_large_field();
    for count in ["-9223372036854775807", "-4611686018427387903", "-1000000000"] {
        assert_eq!(server.call(client, &["HRANDFIELD", "h", count]), TOO_LARGE, "{count}");
    }
    let most = ["HRANDFIELD", "h", "-4611686018427387903", "WITHVALUES"];
    assert_eq!(server.call(client, &most), TOO_LARGE);
    let more = ["HRANDFIELD", "h", "-4611686018427387904", "WITHVALUES"];
    assert_eq!(server.call(client, &more), "-ERR value is out of range\r\n");
    assert_eq!(server.call(client, &["HRANDFIELD", "absent", "-9223372036854775807"]), "*0\r\n");
}

#[test]
fn a_reply_that_grows_too_large_is_taken_back() {
    let (mut server, client) = with_large_field();
    let pair = format!("$1\r\nf\r\n${VALUE_BYTES}\r\n{}\r\n", "v".repeat(VALUE_BYTES));
    let fits = server.call(client, &["HRANDFIELD", "h", "-15", "WITHVALUES"]);
    assert!(fits == format!("*30\r\n{}", pair.repeat(15)), "15 pairs are less than 1 MiB");
    assert_eq!(server.call(client, &["HRANDFIELD", "h", "-16", "WITHVALUES"]), TOO_LARGE);
    server.call(client, &["MULTI"]);
    server.call(client, &["HRANDFIELD", "h", "-16", "WITHVALUES"]);
    server.call(client, &["HLEN", "h"]);
    assert_eq!(server.call(client, &["EXEC"]), format!("*2\r\n{TOO_LARGE}:1\r\n"));
}

/// Valkey makes so much of the reply as the client may be sent, and ends the client.
#[test]
fn a_client_whose_limit_is_below_the_largest_reply_ends_with_a_larger_one() {
    let (mut server, client) = with_large_field();
    let request = b"HRANDFIELD h -1000000000\r\n";
    let script = ["EVAL", "return redis.pcall('HRANDFIELD', 'h', -1000000000)", "0"];
    for (limit_bytes, is_ended) in [(0, false), ((1 << 20) + 1, false), (1 << 20, true)] {
        server.worker(0).0.output_bytes_max = limit_bytes;
        assert_eq!(server.call(client, &script), TOO_LARGE, "a script's reply is no client's");
        let next = server.turn_once(client, request);
        assert_eq!(next == Next::Close, is_ended, "{limit_bytes} bytes: {next:?}");
        server.take_output(client);
    }
    let other = server.connect(0);
    server.call(other, &["MULTI"]);
    server.call(other, &["HRANDFIELD", "h", "-1000000000"]);
    assert_eq!(server.turn_once(other, b"EXEC\r\n"), Next::Close);
    let subscriber = server.connect(0);
    server.call(subscriber, &["HELLO", "3"]);
    server.call(subscriber, &["SUBSCRIBE", "c"]);
    assert_ne!(server.turn_once(subscriber, request), Next::Close, "it has a limit of its own");
}

#[test]
fn fields_whose_time_is_over_are_not_drawn() {
    let (mut server, client) = with_large_field();
    server.call(client, &["HPEXPIRE", "h", "5", "FIELDS", "1", "f"]);
    server.clock.advance_ms(10);
    assert_eq!(server.call(client, &["HRANDFIELD", "h", "-3"]), "*0\r\n");
    server.call(client, &["HSET", "h", "g", "v"]);
    assert_eq!(server.call(client, &["HRANDFIELD", "h", "-2"]), "*2\r\n$1\r\ng\r\n$1\r\ng\r\n");
    assert_eq!(server.call(client, &["HRANDFIELD", "h", "2"]), "*1\r\n$1\r\ng\r\n");
    assert_eq!(server.call(client, &["HRANDFIELD", "h"]), "$1\r\ng\r\n");
}

/// A server whose hash `h` has `count` fields: `f0` with the value `v0` and so on.
fn with_fields(count: usize) -> (Server, u64) {
    let mut server = Server::new(1, START_MS);
    let client = server.connect(0);
    for index in 0..count {
        server.call(client, &["HSET", "h", &format!("f{index}"), &format!("v{index}")]);
    }
    (server, client)
}

/// The strings of a reply, which all have a character that no length begins with.
fn strings(reply: &str) -> Vec<&str> {
    reply.split("\r\n").filter(|line| line.starts_with(['f', 'v'])).collect()
}

/// The number of a field or of a value.
fn number(text: &str) -> usize {
    text[1..].parse().expect("a letter and a number")
}

fn draw(server: &mut Server, client: u64, count: i64, options: &[&str]) -> String {
    server.call(client, &[&["HRANDFIELD", "h", &count.to_string()], options].concat())
}

#[test]
fn a_positive_count_draws_different_fields_and_at_most_all() {
    for length in [1, 2, 3, 10, 500] {
        let (mut server, client) = with_fields(length);
        let half = length / 2;
        for count in [0, 1, half, half + 1, length - 1, length, length + 1, 10 * length] {
            let reply = draw(&mut server, client, count as i64, &[]);
            let wanted = count.min(length);
            assert!(reply.starts_with(&format!("*{wanted}\r\n")), "{count} of {length}: {reply}");
            let fields: BTreeSet<usize> = strings(&reply).into_iter().map(number).collect();
            assert_eq!(fields.len(), wanted, "{count} of {length}: {reply}");
            assert!(fields.last().is_none_or(|&last| last < length));
        }
    }
}

#[test]
fn a_negative_count_draws_as_many_as_asked_for_each_from_all() {
    for length in [1, 2, 10] {
        let (mut server, client) = with_fields(length);
        for count in [1, 2, 5, 200] {
            let reply = draw(&mut server, client, -count, &[]);
            assert!(reply.starts_with(&format!("*{count}\r\n")), "{count} of {length}: {reply}");
            let fields: Vec<usize> = strings(&reply).into_iter().map(number).collect();
            assert_eq!(fields.len(), count as usize, "{count} of {length}: {reply}");
            let different: BTreeSet<usize> = fields.into_iter().collect();
            assert!(different.last().is_some_and(|&last| last < length));
            assert!(count < 200 || different.len() == length, "{count} of {length}: {reply}");
        }
    }
}

#[test]
fn each_field_comes_with_its_own_value_and_in_pairs_under_resp3() {
    let (mut server, client) = with_fields(30);
    for hello in ["2", "3"] {
        server.call(client, &["HELLO", hello]);
        for count in [1, 10, 25, 30, -50] {
            let reply = draw(&mut server, client, count, &["WITHVALUES"]);
            let texts = strings(&reply);
            let pairs = count.unsigned_abs();
            assert_eq!(texts.len() as u64, 2 * pairs);
            let pair = |pair: &[&str]| {
                let is_one = number(pair[0]) == number(pair[1]);
                assert!(is_one && pair[0].starts_with('f') && pair[1].starts_with('v'), "{pair:?}");
                let (field, value) = (pair[0], pair[1]);
                let head = if hello == "3" { "*2\r\n" } else { "" };
                format!("{head}${}\r\n{field}\r\n${}\r\n{value}\r\n", field.len(), value.len())
            };
            let pairs_text: String = texts.chunks(2).map(pair).collect();
            let elements = if hello == "3" { pairs } else { 2 * pairs };
            assert_eq!(reply, format!("*{elements}\r\n{pairs_text}"));
        }
    }
}

/// Number of times that each of [`FIELDS`] came in [`REPLIES`].
fn tally(server: &mut Server, client: u64, count: Option<i64>) -> [f64; FIELDS] {
    let mut tally = [0.0; FIELDS];
    for _ in 0..REPLIES {
        let reply = match count {
            Some(count) => draw(server, client, count, &[]),
            None => server.call(client, &["HRANDFIELD", "h"]),
        };
        strings(&reply).into_iter().for_each(|field| tally[number(field)] += 1.0);
    }
    tally
}

const FIELDS: usize = 20;
const REPLIES: usize = 4000;

/// The worker's generator has a fixed seed, so this does not fail by chance; with any other it
/// would once in some thousand runs.
#[test]
fn all_living_fields_are_equally_likely() {
    let (mut server, client) = with_fields(FIELDS);
    // One in two is expired and not deleted yet.
    for index in (1..FIELDS).step_by(2) {
        server.call(client, &["HPEXPIRE", "h", "5", "FIELDS", "1", &format!("f{index}")]);
    }
    server.clock.advance_ms(10);
    // One; few of ten; all but few; each of five drawn from all. With how often a reply draws, and
    // a field's chance each time.
    for (count, draws, chance) in [
        (None, 1.0, 0.1),
        (Some(1), 1.0, 0.1),
        (Some(3), 1.0, 0.3),
        (Some(8), 1.0, 0.8),
        (Some(-5), 5.0, 0.1),
    ] {
        let expected = REPLIES as f64 * draws * chance;
        let deviation = (expected * (1.0 - chance)).sqrt();
        for (index, times) in tally(&mut server, client, count).into_iter().enumerate() {
            let is_expired = index % 2 == 1;
            let is_likely = (times - expected).abs() <= 4.5 * deviation;
            assert!(
                if is_expired { times == 0.0 } else { is_likely },
                "count {count:?}: f{index} came {times} times, expected {expected}"
            );
        }
    }
}
