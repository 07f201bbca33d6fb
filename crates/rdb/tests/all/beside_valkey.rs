//! Asks a real Valkey for payloads of random values and gives it ours.
//!
//! Needs `valkey-server` (`make setup` puts it into build/tools/bin); without it the tests say so
//! and pass.

use tidemill_rdb::encode::NodeLimit;
use tidemill_resp::reply::Value;
use tidemill_testkit::valkey::{Connection, Valkey};

use super::collected::Collected;
use super::payloads::corpus;

const ROUND_COUNT: usize = 300;

/// A connection, and the Valkey that it is to.
struct Peer {
    connection: Connection,
    _valkey: Valkey,
}

impl Peer {
    fn start() -> Option<Peer> {
        let options = ["--save", "", "--rdb-version-check", "relaxed"];
        let valkey = Valkey::start(&[&options[..], &["--enable-debug-command", "yes"]].concat())?;
        Some(Peer { connection: valkey.connect(), _valkey: valkey })
    }

    fn dump(&mut self, key: &str) -> Vec<u8> {
        match self.connection.ask(&["DUMP", key]) {
            Value::Bulk(payload) => payload,
            other => panic!("DUMP of {key}: {other:?}"),
        }
    }

    /// Valkey's reply to a payload, and then a digest of the value.
    fn restore(&mut self, key: &str, payload: &[u8]) -> (Value, Value) {
        let words = [b"RESTORE", key.as_bytes(), b"0", payload, b"REPLACE"];
        let said = self.connection.ask(&words);
        (said, self.connection.ask(&["DEBUG", "DIGEST-VALUE", key]))
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
    let Some(mut valkey) = Peer::start() else { return };
    let mut random = seeded();
    let mut differing = 0;
    for round in 0..ROUND_COUNT {
        let key = format!("key:{round}");
        let length = random.usize(1..if round % 10 == 0 { 600 } else { 20 });
        let words = command(&key, length, &mut random);
        let made = valkey.connection.ask(&words);
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
    let Some(mut valkey) = Peer::start() else { return };
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
