//! HyperLogLogs: bytes and replies beside a real Valkey, strings that are none, and what watchers
//! and events learn.

use fastrand::Rng;
use tidemill_resp::reply::Value;

use super::harness::Server;
use super::harness::beside::{Beside, parsed};

const CORRUPT: &str = "INVALIDOBJ Corrupted HLL object detected";

#[test]
fn runs_of_more_registers_than_there_are_are_not_shown() {
    let mut server = Server::new(1, 1_700_000_000_000);
    let client = server.connect(0);
    let crafted = [&b"HYLL\x01"[..], &[0; 11], &[0; 20_000]].concat();
    server.call_bytes(client, &[b"SET", b"h", &crafted]);
    assert_eq!(server.call(client, &["PFDEBUG", "DECODE", "h"]), format!("-{CORRUPT}\r\n"));
}

/// The string under a key, which must be the same in both.
fn bytes_of(both: &mut Beside, key: &str) -> Option<Vec<u8>> {
    match both.check(&format!("GET {key}")) {
        Value::Bulk(bytes) => Some(bytes),
        _ => None,
    }
}

struct Calls {
    random: Rng,
    /// Different elements.
    span: u64,
}

impl Calls {
    fn key(&mut self) -> &'static str {
        ["h0", "h1", "h2", "h3", "none"][self.random.usize(..5)]
    }

    fn elements(&mut self) -> String {
        let count = match self.random.u32(..8) {
            0 => 0,
            1 => self.random.u32(..60),
            _ => self.random.u32(1..4),
        };
        (0..count).map(|_| format!(" element:{}", self.random.u64(..self.span))).collect()
    }

    fn command(&mut self) -> String {
        let (key, other) = (self.key(), self.key());
        match self.random.u32(..40) {
            0..24 => format!("PFADD {key}{}", self.elements()),
            24..29 => format!("PFCOUNT {key}"),
            29..31 => format!("PFCOUNT {key} {other} {}", self.key()),
            31..33 => format!("PFMERGE {key} {other} {}", self.key()),
            33 => format!("PFMERGE {key}"),
            34 => format!("PFDEBUG ENCODING {key}"),
            35 => format!("PFDEBUG DECODE {key}"),
            36 => format!("PFDEBUG GETREG {key}"),
            37 => match self.random.u32(..6) {
                0 => format!("PFDEBUG TODENSE {key}"),
                _ => format!("STRLEN {key}"),
            },
            38 => format!("DEL {key}"),
            _ => {
                let max = ["0", "20", "100", "1000", "3000", "100000"][self.random.usize(..6)];
                format!("CONFIG SET hll-sparse-max-bytes {max}")
            }
        }
    }
}

#[test]
fn random_calls_leave_the_bytes_that_valkey_has() {
    let Some(mut both) = Beside::start() else { return };
    let seed = Rng::new().u64(..);
    println!("seed {seed}");
    for (nth, span) in [30, 1000, 100_000, u64::MAX].into_iter().enumerate() {
        let mut calls = Calls { random: Rng::with_seed(seed + nth as u64), span };
        both.check("FLUSHALL");
        for _ in 0..3000 {
            let command = calls.command();
            both.check(&command);
            let key = command.split(' ').find(|word| word.starts_with('h') && word.len() == 2);
            if let Some(key) = key {
                bytes_of(&mut both, key);
                both.check(&format!("OBJECT ENCODING {key}"));
            }
        }
    }
}

#[test]
fn many_elements_are_estimated_as_by_valkey() {
    let Some(mut both) = Beside::start() else { return };
    for batch in 0..200 {
        let elements: Vec<String> = (0..500).map(|nth| format!("{}", batch * 500 + nth)).collect();
        both.check(&format!("PFADD h {}", elements.join(" ")));
        if batch % 10 == 0 {
            both.check("PFCOUNT h");
            bytes_of(&mut both, "h");
        }
    }
}

/// Calls that are refused, and the smallest strings.
const ARGUMENTS: &str = "\
SET s abc
SET i 12345678901234567890
SET short HYLL
LPUSH l a
PFADD s
PFADD i x
PFADD short x
PFADD l x
PFCOUNT s
PFCOUNT l
PFCOUNT none
PFCOUNT none none
PFCOUNT none s
PFCOUNT none l
PFMERGE s
PFMERGE l none
PFMERGE none l
EXISTS none
PFMERGE new
GET new
PFADD new
PFMERGE other none new
GET other
PFDEBUG ENCODING none
PFDEBUG ENCODING s
PFDEBUG ENCODING l
PFDEBUG FOO none
PFDEBUG FOO new
PFDEBUG DECODE new
PFDEBUG TODENSE new
PFDEBUG TODENSE new
PFDEBUG DECODE new
PFDEBUG ENCODING new
PFCOUNT new
PFSELFTEST
COMMAND INFO pfadd
COMMAND INFO pfmerge
COMMAND INFO pfdebug
COMMAND INFO pfselftest
COMMAND INFO pfcount
COMMAND GETKEYS PFMERGE a b c
COMMAND GETKEYS PFDEBUG ENCODING a";

#[test]
fn arguments_are_refused_as_by_valkey() {
    let Some(mut both) = Beside::start() else { return };
    for command in ARGUMENTS.lines() {
        if command.starts_with("COMMAND INFO") {
            let (ours, theirs) =
                both.ask(&command.split(' ').map(str::as_bytes).collect::<Vec<_>>());
            // The note behind PFCOUNT's key is in our words.
            assert_eq!(without_notes(ours), without_notes(theirs), "{command}");
        } else {
            both.check(command);
        }
    }
}

fn without_notes(value: Value) -> Value {
    match value {
        Value::Array(items) => {
            let is_notes = items.first() == Some(&Value::Bulk(b"notes".to_vec()));
            let skipped = if is_notes { 2 } else { 0 };
            Value::Array(items.into_iter().skip(skipped).map(without_notes).collect())
        }
        other => other,
    }
}

/// Header with an estimate that is outdated, and registers.
fn sparse(registers: &[u8]) -> Vec<u8> {
    [&b"HYLL\x01\0\0\0\0\0\0\0\0\0\0\x80"[..], registers].concat()
}

#[test]
fn corrupt_strings_are_refused_as_by_valkey() {
    let Some(mut both) = Beside::start() else { return };
    let dense = [&b"HYLL\0\0\0\0\0\0\0\0\0\0\0\x80"[..], &[0x55; 12288]].concat();
    let strings = [
        sparse(b""),
        sparse(b"\x7f\xfe"),
        sparse(b"\x7f\xff\0"),
        sparse(b"\x7f\xff\x7f\xff"),
        sparse(b"\x7f\xff\x80"),
        sparse(b"xyzw"),
        sparse(&[0x83; 4096]),
        sparse(&[0x83; 4097]),
        sparse(&[0x3f; 256]),
        b"HYLL\x02\0\0\0\0\0\0\0\0\0\0\x80\x7f\xff".to_vec(),
        b"HYLM\x01\0\0\0\0\0\0\0\0\0\0\x80\x7f\xff".to_vec(),
        b"HYLL\x01\0\0\0\x05\0\0\0\0\0\0\0xx".to_vec(),
        dense[..dense.len() - 1].to_vec(),
        [&dense[..], b"x"].concat(),
        dense,
    ];
    both.check("LPUSH list a");
    for string in &strings {
        for command in [
            "PFCOUNT h",
            "PFADD h",
            "PFADD h a",
            "PFADD h a b c",
            "PFMERGE m h",
            "PFMERGE m h list",
            "PFMERGE m list h",
            "PFMERGE dense h",
            "PFMERGE dense h list",
            "PFCOUNT h none",
        ] {
            both.check("DEL m");
            let (ours, theirs) = both.ask(&[b"SET".as_slice(), b"h", string]);
            assert_eq!(ours, theirs);
            let (ours, theirs) =
                both.ask(&[b"SET".as_slice(), b"dense", strings.last().expect("the dense one")]);
            assert_eq!(ours, theirs);
            let reply = both.check(command);
            // Valkey keeps what an addition has changed before it fails, and calls it raw.
            if !matches!(reply, Value::Error(_)) {
                both.check("OBJECT ENCODING h");
                bytes_of(&mut both, "h");
                bytes_of(&mut both, "m");
            }
            bytes_of(&mut both, "dense");
        }
    }
}

#[test]
fn strings_of_any_bytes_neither_panic_nor_change_by_an_error() {
    let mut server = Server::new(1, 1_000_000);
    let client = server.connect(0);
    let mut random = Rng::with_seed(21);
    for nth in 0..150_u32 {
        server.call(client, &["PFADD", "valid", &nth.to_string()]);
    }
    let valid = match parsed(&server.call_for_bytes(client, &[b"GET", b"valid"])) {
        Value::Bulk(bytes) => bytes,
        other => panic!("{other:?}"),
    };
    let mut corrupt_count = 0;
    for _ in 0..6000 {
        let mut bytes = valid.clone();
        for _ in 0..random.usize(1..5) {
            let at = random.usize(..bytes.len());
            match random.u32(..4) {
                0 => bytes.truncate(at.max(1)),
                1 => bytes.insert(at, random.u8(..)),
                _ => bytes[at] = random.u8(..),
            }
        }
        server.call_for_bytes(client, &[b"SET", b"h", &bytes]);
        for command in [
            &["PFCOUNT", "h"][..],
            &["PFADD", "h", "a", "b", "c", "d"],
            &["PFMERGE", "m", "h", "valid"],
            &["PFMERGE", "h", "valid"],
            &["PFDEBUG", "DECODE", "h"],
            &["PFDEBUG", "GETREG", "h"],
        ] {
            let before = server.call_for_bytes(client, &[b"GET", b"h"]);
            let reply = server.call(client, command);
            if reply.starts_with('-') {
                assert_eq!(server.call_for_bytes(client, &[b"GET", b"h"]), before);
            }
            corrupt_count += u32::from(reply.contains(CORRUPT));
        }
    }
    assert!(corrupt_count > 1000, "{corrupt_count} were corrupt");
}

#[test]
fn a_kept_estimate_disturbs_watchers_and_is_no_event() {
    let mut server = Server::with_events(1, 1_000_000, true);
    let (client, other) = (server.connect(0), server.connect(0));
    let events = |server: &mut Server, words: &[&str]| {
        let reply = server.call(other, words);
        let all = server.publications.take();
        let names: Vec<&str> = all.iter().map(|publication| publication.event).collect();
        (reply.trim_end().to_owned(), names.join(" "))
    };
    let expect = |reply: &str, events: &str| (reply.to_owned(), events.to_owned());
    assert_eq!(events(&mut server, &["PFADD", "h", "a"]), expect(":1", "new pfadd"));
    assert_eq!(events(&mut server, &["PFADD", "h", "a"]), expect(":0", ""));
    server.call(client, &["WATCH", "h"]);
    assert_eq!(events(&mut server, &["PFCOUNT", "h"]), expect(":1", ""));
    server.call(client, &["MULTI"]);
    assert_eq!(server.call(client, &["EXEC"]), "*-1\r\n");
    server.call(client, &["WATCH", "h"]);
    assert_eq!(events(&mut server, &["PFCOUNT", "h"]), expect(":1", ""));
    server.call(client, &["MULTI"]);
    assert_eq!(server.call(client, &["EXEC"]), "*0\r\n");
    assert_eq!(events(&mut server, &["PFMERGE", "m", "h"]), expect("+OK", "new pfadd"));
}

#[test]
fn a_merge_keeps_the_expiry_of_its_target() {
    let mut server = Server::new(1, 1_000_000);
    let client = server.connect(0);
    for command in ["PFADD h a", "PFADD m b", "PEXPIRE m 5000", "PFDEBUG TODENSE h", "PFMERGE m h"]
    {
        server.call(client, &command.split(' ').collect::<Vec<_>>());
    }
    assert_eq!(server.call(client, &["PTTL", "m"]), ":5000\r\n");
    assert_eq!(server.call(client, &["PFCOUNT", "m"]), ":2\r\n");
    assert_eq!(server.call(client, &["PTTL", "m"]), ":5000\r\n");
}

#[test]
fn what_is_made_dense_is_no_change_for_those_who_watch() {
    let mut server = Server::new(1, 1_000_000);
    let client = server.connect(0);
    for (command, expected) in [
        ("PFADD h a", ":1"),
        ("WATCH h", "+OK"),
        ("PFDEBUG TODENSE h", ":1"),
        ("MULTI", "+OK"),
        ("EXEC", "*0"),
        ("PFDEBUG ENCODING h", "+dense"),
        ("PFCOUNT h", ":1"),
    ] {
        let reply = server.call(client, &command.split(' ').collect::<Vec<_>>());
        assert_eq!(reply.trim_end(), expected, "{command}");
    }
}
