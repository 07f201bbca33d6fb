//! Asks a real Valkey what our number and request parsing should answer, for thousands of random
//! cases.
//!
//! Needs `valkey-server` (`make setup` puts it into build/tools/bin); without it the tests say so
//! and pass.

use std::io::{Read, Write};

use tidemill_resp::number::{format_double, format_long_double, parse_double, parse_long_double};
use tidemill_resp::reply::Value;
use tidemill_resp::request::{Arguments, Limits, Progress, RequestParser, encode};
use tidemill_testkit::valkey::Valkey;

const CASE_COUNT: usize = 20_000;

fn request(words: &[&str]) -> Vec<Vec<u8>> {
    words.iter().map(|word| word.as_bytes().to_vec()).collect()
}

/// Numbers of many shapes: short decimals, every magnitude, integers around powers of two, and
/// nonsense.
fn number_text(random: &mut fastrand::Rng) -> String {
    match random.u32(0..9) {
        0 => format!("{}", f64::from_bits(random.u64(..))),
        1 => format!("{:e}", f64::from_bits(random.u64(..))),
        2 => format!("{}.{}", random.i32(-1000..1000), random.u32(0..100_000)),
        3 => format!("{}e{}", random.i64(..), random.i32(-40..40)),
        4 => format!("{}", (1i128 << random.u32(0..100)) + i128::from(random.i8(..))),
        5 => format!("{}", random.f64() * 10f64.powi(random.i32(-12..25))),
        6 => format!("{:.*}", random.usize(0..25), random.f64() * 1000.0),
        7 => format!("{}e{}", random.u32(0..10), random.i32(-5000..5000)),
        _ => {
            const PARTS: [&str; 16] = [
                "1", "0", "-", "+", ".", "e", "E", "inf", "nan", "x", "0x", " ", "p", "5", "9",
                "infinity",
            ];
            (0..random.usize(1..5)).map(|_| PARTS[random.usize(0..PARTS.len())]).collect()
        }
    }
}

#[test]
fn scores_are_read_and_printed_alike() {
    let Some(valkey) = Valkey::start(&["--save", ""]) else { return };
    let mut connection = valkey.connect();
    let mut random = seeded();
    // XX is an option in the place of the score.
    let texts: Vec<String> = std::iter::repeat_with(|| number_text(&mut random))
        .filter(|text| text != "xx")
        .take(CASE_COUNT)
        .collect();
    let requests: Vec<_> = texts
        .iter()
        .flat_map(|text| [request(&["DEL", "z"]), request(&["ZINCRBY", "z", text, "m"])])
        .collect();
    let replies = connection.ask_all(&requests);
    let mut differences = Vec::new();
    for (text, reply) in texts.iter().zip(replies.chunks(2)) {
        let ours = parse_double(text.as_bytes())
            .map(|value| Value::Bulk(format_double(value).as_str().as_bytes().to_vec()))
            .unwrap_or_else(|| Value::Error(b"ERR value is not a valid float".to_vec()));
        if ours != reply[1] {
            differences.push(format!("{text:?}: ours {}, theirs {}", show(&ours), show(&reply[1])));
        }
    }
    assert!(differences.is_empty(), "{} differ:\n{}", differences.len(), differences.join("\n"));
}

#[test]
fn sums_of_long_doubles_are_alike() {
    let Some(valkey) = Valkey::start(&["--save", ""]) else { return };
    let mut connection = valkey.connect();
    let mut random = seeded();
    let pairs: Vec<(String, String)> =
        (0..CASE_COUNT).map(|_| (number_text(&mut random), number_text(&mut random))).collect();
    let requests: Vec<_> = pairs
        .iter()
        .flat_map(|(left, right)| {
            [request(&["SET", "k", left]), request(&["INCRBYFLOAT", "k", right])]
        })
        .collect();
    let replies = connection.ask_all(&requests);
    let mut differences = Vec::new();
    for ((left, right), reply) in pairs.iter().zip(replies.chunks(2)) {
        let ours = increment(left, right);
        if ours != reply[1] {
            differences.push(format!(
                "{left:?} + {right:?}: ours {}, theirs {}",
                show(&ours),
                show(&reply[1])
            ));
        }
    }
    assert!(differences.is_empty(), "{} differ:\n{}", differences.len(), differences.join("\n"));
}

fn increment(left: &str, right: &str) -> Value {
    let numbers = parse_long_double(left.as_bytes()).zip(parse_long_double(right.as_bytes()));
    let Some((left, right)) = numbers else {
        return Value::Error(b"ERR value is not a valid float".to_vec());
    };
    let sum = left + right;
    if sum.is_finite() {
        Value::Bulk(format_long_double(sum).into_bytes())
    } else {
        Value::Error(b"ERR increment would produce NaN or Infinity".to_vec())
    }
}

fn show(value: &Value) -> String {
    match value {
        Value::Bulk(text) | Value::Error(text) => text.escape_ascii().to_string(),
        other => format!("{other:?}"),
    }
}

/// A source of randomness whose seed is printed, and taken from SEED if that is set.
fn seeded() -> fastrand::Rng {
    let seed = std::env::var("SEED")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or_else(|| fastrand::u64(..));
    eprintln!("SEED={seed}");
    fastrand::Rng::with_seed(seed)
}

/// Requests that are nearly right.
fn hostile_input(random: &mut fastrand::Rng) -> Vec<u8> {
    const PARTS: [&[u8]; 24] = [
        b"*1\r\n",
        b"*2\r\n",
        b"*0\r\n",
        b"*-1\r\n",
        b"*",
        b"$",
        b"$1\r\n",
        b"$2\r\nab\r\n",
        b"$0\r\n\r\n",
        b"\r\n",
        b"\n",
        b"\r",
        b"x",
        b"xy z\r\n",
        b"\"a b\"",
        b"'",
        b"\"",
        b"\\",
        b" ",
        b"\\x4",
        b"1",
        b"-",
        b"0",
        b":",
    ];
    let mut input = Vec::new();
    for _ in 0..random.usize(1..12) {
        input.extend_from_slice(PARTS[random.usize(0..PARTS.len())]);
    }
    input
}

#[test]
fn nearly_right_requests_are_answered_alike() {
    let Some(valkey) = Valkey::start(&["--save", ""]) else { return };
    let mut random = seeded();
    for _ in 0..CASE_COUNT {
        let input = hostile_input(&mut random);
        let mut stream = valkey.connect_raw();
        let mut theirs = Vec::new();
        // The server may close before it has read everything: what it said before counts.
        let _ = stream.write_all(&input);
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let _ = stream.read_to_end(&mut theirs);
        assert_eq!(ours(&input), summary(&theirs), "{}", input.escape_ascii());
    }
}

/// Number of requests that were answered, and the protocol error at the end if there was one.
type Summary = (usize, Option<Vec<u8>>);

fn ours(input: &[u8]) -> Summary {
    let (mut parser, mut args) = (RequestParser::new(), Arguments::new());
    let (mut rest, mut count) = (input, 0);
    loop {
        match parser.parse(rest, &Limits::default(), &mut args) {
            Ok(Progress::Complete { consumed }) => {
                count += 1;
                rest = &rest[consumed..];
            }
            Ok(Progress::Incomplete { .. }) => return (count, None),
            Err(error) => {
                let mut wire = Vec::new();
                error.write_wire(&mut wire);
                return (count, Some(wire));
            }
        }
    }
}

fn summary(replies: &[u8]) -> Summary {
    let lines: Vec<&[u8]> = replies.split_inclusive(|&byte| byte == b'\n').collect();
    match lines.split_last() {
        Some((last, before)) if last.starts_with(b"-ERR Protocol error") => {
            (before.len(), Some(last.to_vec()))
        }
        _ => (lines.len(), None),
    }
}

#[test]
fn a_request_we_encode_is_understood() {
    let Some(valkey) = Valkey::start(&["--save", ""]) else { return };
    let payload = vec![b'x'; 100_000];
    let echoed = valkey.connect().ask(&[b"ECHO", payload.as_slice()]);
    assert_eq!(echoed, Value::Bulk(payload));
    assert_eq!(encode(&[b"PING"]), b"*1\r\n$4\r\nPING\r\n");
}
