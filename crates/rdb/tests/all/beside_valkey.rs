//! Asks a real Valkey for payloads of random values and gives it ours.
//!
//! Needs `valkey-server` (`make setup` puts it into build/tools/bin); without it the tests say so
//! and pass.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Stdio};

use tidemill_rdb::encode::NodeLimit;
use tidemill_resp::reply::{ReplyParser, ReplyProgress, Value};
use tidemill_resp::request::encode_into;
use tidemill_testkit::server::Server;

use super::collected::Collected;
use super::payloads::corpus;

const ROUND_COUNT: usize = 300;

/// A Valkey of our own, and a connection to it.
struct Valkey {
    stream: TcpStream,
    _server: Server,
}

impl Valkey {
    fn start() -> Option<Valkey> {
        let binary =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("../../build/tools/bin/valkey-server");
        if !binary.exists() {
            eprintln!("skipped: no {}; run `make setup`", binary.display());
            return None;
        }
        let server = Server::start(|port| {
            let mut command = Command::new(&binary);
            command.args(["--port", &port.to_string(), "--save", "", "--bind", "127.0.0.1"]);
            command.args(["--rdb-version-check", "relaxed", "--enable-debug-command", "yes"]);
            command.stdout(Stdio::null()).current_dir(std::env::temp_dir());
            command
        });
        let server = server.expect("valkey-server starts");
        let stream = TcpStream::connect(("127.0.0.1", server.port)).expect("it answered before");
        Some(Valkey { stream, _server: server })
    }

    /// Sends a request and returns its reply.
    fn ask(&mut self, words: &[&[u8]]) -> Value {
        let mut out = Vec::new();
        encode_into(words, &mut out);
        self.stream.write_all(&out).expect("the server reads");
        let (mut parser, mut buffer) = (ReplyParser::new(), Vec::new());
        loop {
            match parser.parse(&buffer).expect("the server speaks RESP") {
                ReplyProgress::Complete { value, .. } => return value,
                ReplyProgress::Incomplete { consumed, .. } => {
                    buffer.drain(..consumed);
                    let mut chunk = [0; 64 * 1024];
                    let count = self.stream.read(&mut chunk).expect("the server answers");
                    assert!(count > 0, "the server closed the connection");
                    buffer.extend_from_slice(&chunk[..count]);
                }
            }
        }
    }

    fn dump(&mut self, key: &str) -> Vec<u8> {
        match self.ask(&[b"DUMP", key.as_bytes()]) {
            Value::Bulk(payload) => payload,
            other => panic!("DUMP of {key}: {other:?}"),
        }
    }

    /// Valkey's reply to a payload, and then a digest of the value.
    fn restore(&mut self, key: &str, payload: &[u8]) -> (Value, Value) {
        let said = self.ask(&[b"RESTORE", key.as_bytes(), b"0", payload, b"REPLACE"]);
        (said, self.ask(&[b"DEBUG", b"DIGEST-VALUE", key.as_bytes()]))
    }
}

/// A source of randomness whose seed is printed, and taken from SEED if that is set.
fn seeded() -> fastrand::Rng {
    let seed = std::env::var("SEED").ok().and_then(|text| text.parse().ok());
    let seed = seed.unwrap_or_else(|| fastrand::u64(..));
    eprintln!("SEED={seed}");
    fastrand::Rng::with_seed(seed)
}

fn text(random: &mut fastrand::Rng) -> Vec<u8> {
    match random.u32(0..8) {
        0 | 1 => (random.i64(..) >> random.u32(0..64)).to_string().into_bytes(),
        2 => format!("{:0>5}", random.i32(-200..200)).into_bytes(),
        3 => vec![b'r'; random.usize(0..400)],
        4 => (0..random.usize(0..2000)).map(|_| random.u8(b'a'..=b'e')).collect(),
        5 => (0..random.usize(0..70)).map(|_| random.u8(..)).collect(),
        6 => b"the quick brown fox ".repeat(random.usize(0..30)),
        _ => format!("field:{}", random.u32(0..100)).into_bytes(),
    }
}

/// A command that makes a value of `length` elements under `key`.
fn command(key: &str, length: usize, random: &mut fastrand::Rng) -> Vec<Vec<u8>> {
    let mut words = vec![Vec::new(), key.as_bytes().to_vec()];
    let name = match random.u32(0..7) {
        0 => {
            words.push(text(random));
            "SET"
        }
        1 | 2 => {
            words.extend((0..length).map(|_| text(random)));
            "RPUSH"
        }
        3 => {
            (0..length * 2).for_each(|_| words.push(text(random)));
            "HSET"
        }
        4 => {
            words.extend((0..length).map(|_| random.i16(..).to_string().into_bytes()));
            "SADD"
        }
        5 => {
            words.extend((0..length).map(|_| text(random)));
            "SADD"
        }
        _ => {
            for _ in 0..length {
                let score = match random.u32(0..3) {
                    0 => random.i32(..).to_string(),
                    1 => format!("{:e}", f64::from(random.i32(..)) * 1e-3),
                    _ => format!("{}e{}", random.i32(-9..9), random.i32(-30..30)),
                };
                words.extend([score.into_bytes(), text(random)]);
            }
            "ZADD"
        }
    };
    words[0] = name.into();
    words
}

#[test]
fn dumps_of_random_values_are_written_byte_for_byte() {
    let Some(mut valkey) = Valkey::start() else { return };
    let mut random = seeded();
    let mut differing = 0;
    for round in 0..ROUND_COUNT {
        let key = format!("key:{round}");
        let length = random.usize(1..if round % 10 == 0 { 600 } else { 20 });
        let words = command(&key, length, &mut random);
        let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
        let made = valkey.ask(&words);
        assert!(!matches!(made, Value::Error(_)), "{made:?}");
        let theirs = valkey.dump(&key);
        let value = Collected::of_payload(&theirs).unwrap_or_else(|error| {
            panic!("{}: {error}", theirs.escape_ascii());
        });
        let ours = value.payload(NodeLimit::of_bytes(8192));
        let (said, digest) = valkey.restore("restored", &ours);
        assert_eq!(said, Value::SimpleString(b"OK".to_vec()), "{}", ours.escape_ascii());
        let (_, wanted) = valkey.restore("theirs", &theirs);
        assert_eq!(digest, wanted, "{}", theirs.escape_ascii());
        differing += usize::from(ours != theirs);
    }
    // Valkey's compressor begins with a table that it does not clear: what an earlier string left
    // there it sometimes finds.
    eprintln!("{differing} of {ROUND_COUNT} payloads differ");
    assert!(differing * 50 <= ROUND_COUNT, "{differing} of {ROUND_COUNT} payloads differ");
}

#[test]
fn values_of_the_corpus_are_to_valkey_what_they_are_here() {
    let Some(mut valkey) = Valkey::start() else { return };
    let mut accepted = 0;
    for (name, theirs) in corpus("payloads") {
        let (said, wanted) = valkey.restore("theirs", &theirs);
        let value = Collected::of_payload(&theirs);
        if said != Value::SimpleString(b"OK".to_vec()) {
            // Those of Redis 7.4 and of modules.
            let is_foreign = name.starts_with("redis-hash-2");
            assert!(is_foreign || value.is_err(), "{name}: {said:?}");
            continue;
        }
        let value = value.unwrap_or_else(|error| panic!("{name}: {error}"));
        let (said, digest) = valkey.restore("ours", &value.payload(NodeLimit::of_bytes(8192)));
        assert_eq!(said, Value::SimpleString(b"OK".to_vec()), "{name}");
        assert_eq!(digest, wanted, "{name}");
        accepted += 1;
    }
    assert!(accepted >= 44, "{accepted} payloads");
}
