//! Streams beside a real Valkey: replies to calls with options in all their forms, trimming of
//! nodes, and payloads that each restores of the other.
//!
//! Needs `valkey-server` (`make setup` puts it into build/tools/bin); without it the tests say so
//! and pass. No call depends on the time: the clocks differ.

use fastrand::Rng;
use tidemill_resp::reply::Value;

use crate::harness::Server;
use crate::harness::beside::Beside;

const START_MS: u64 = 1_700_000_000_000;

/// Calls, one per line, with blanks between their words.
const CALLS: &str = include_str!("streams_beside_valkey.txt");

/// Fields of XINFO that tell of the nodes of a server's own trees, or of times.
const OWN_FIELDS: [&str; 6] =
    ["radix-tree-keys", "radix-tree-nodes", "seen-time", "active-time", "idle", "inactive"];

fn start() -> Option<Beside> {
    Beside::with(Server::new(1, START_MS), 0)
}

/// Asks both, and returns the reply that both gave.
fn ask(both: &mut Beside, line: &str) -> Value {
    let (ours, theirs) = both.ask(&line.split(' ').collect::<Vec<_>>());
    assert_eq!(without_own(&ours), without_own(&theirs), "{line}");
    ours
}

fn dump(both: &mut Beside, key: &str) -> [Vec<u8>; 2] {
    let (ours, theirs) = both.ask(&["DUMP", key]);
    [ours, theirs].map(|value| value.as_bytes().expect("the key is there").to_vec())
}

/// A reply without what is a server's own: numbers of nodes, and times.
fn without_own(value: &Value) -> Value {
    let Value::Array(items) = value else { return value.clone() };
    let mut items: Vec<Value> = items.iter().map(without_own).collect();
    for index in 1..items.len() {
        let is_own = |field: &&str| items[index - 1].as_bytes() == Some(field.as_bytes());
        if OWN_FIELDS.iter().any(is_own) {
            items[index] = Value::Null;
        }
    }
    // Pending entries: of a group, and of a consumer.
    match items.as_mut_slice() {
        [Value::Bulk(_), Value::Bulk(_), time @ Value::Integer(_), Value::Integer(_)]
        | [Value::Bulk(_), time @ Value::Integer(_), Value::Integer(_)] => *time = Value::Null,
        _ => {}
    }
    Value::Array(items)
}

#[test]
fn calls_are_answered_as_by_valkey() {
    let Some(mut both) = start() else { return };
    for line in CALLS.lines().filter(|line| !line.is_empty()) {
        ask(&mut both, line);
    }
}

/// A random entry's fields.
fn fields(random: &mut Rng) -> String {
    match random.u8(..3) {
        0 => format!("a 1 b {}", "x".repeat(random.usize(1..80))),
        1 => format!("temperature {}", random.i32(..)),
        _ => format!("q {} r s", "v".repeat(random.usize(1..200))),
    }
}

#[test]
fn whole_nodes_are_trimmed_where_valkey_has_them() {
    let Some(mut both) = start() else { return };
    for seed in 0..40 {
        let mut random = Rng::with_seed(seed);
        ask(&mut both, "FLUSHALL");
        let entries = [0, 1, 3, 7, 100][random.usize(..5)];
        let bytes = [0, 100, 300, 4096][random.usize(..4)];
        ask(&mut both, &format!("CONFIG SET stream-node-max-entries {entries}"));
        ask(&mut both, &format!("CONFIG SET stream-node-max-bytes {bytes}"));
        let mut ms: u64 = 0;
        for _ in 0..150 {
            ms += [1, 1, 1, 100, 70_000, 5_000_000_000][random.usize(..6)];
            let length = random.u8(..60);
            let trim = match random.u8(..6) {
                0 => format!("MAXLEN ~ {length} "),
                1 => format!("MAXLEN {length} "),
                2 => format!("MINID ~ {} ", ms.saturating_sub(random.u64(..1000))),
                3 => format!("MAXLEN ~ {length} LIMIT {} ", random.u8(..20)),
                _ => String::new(),
            };
            let seq = [0, 0, 5, 300][random.usize(..4)];
            ask(&mut both, &format!("XADD s {trim}{ms}-{seq} {}", fields(&mut random)));
            if random.u8(..10) == 0 {
                ask(&mut both, &format!("XTRIM s MAXLEN ~ {}", random.u8(..40)));
            }
            ask(&mut both, "XLEN s");
        }
        ask(&mut both, "XRANGE s - +");
    }
}

#[test]
fn payloads_are_restored_by_the_other() {
    let Some(mut both) = start() else { return };
    ask(&mut both, "CONFIG SET stream-node-max-entries 5");
    for number in 1..40 {
        ask(&mut both, &format!("XADD s {number}-{number} name value{number} count {number}"));
    }
    for number in 40..50 {
        ask(&mut both, &format!("XADD s {number}-0 other {}", "z".repeat(number)));
    }
    for line in ["XDEL s 3-3 4-4 49-0", "XGROUP CREATE s g 0 ENTRIESREAD 2", "XGROUP CREATE s h $"]
    {
        ask(&mut both, line);
    }
    for consumer in ["x", "y", "z"] {
        ask(&mut both, &format!("XREADGROUP GROUP g {consumer} COUNT 9 STREAMS s >"));
    }
    ask(&mut both, "XCLAIM s g x 0 20-20 TIME 5 RETRYCOUNT 7 JUSTID");
    ask(&mut both, "XGROUP CREATECONSUMER s g idle");
    ask(&mut both, "XGROUP CREATE empty g $ MKSTREAM");
    for key in ["s", "empty"] {
        let [ours, theirs] = dump(&mut both, key);
        for (target, payload) in [("of-ours", &ours), ("of-theirs", &theirs)] {
            let words: [&[u8]; 4] = [b"RESTORE", target.as_bytes(), b"0", payload];
            assert_eq!(both.ours(&words), both.theirs(&words));
            for line in ["XRANGE K - +", "XINFO GROUPS K", "XINFO STREAM K", "XPENDING K g"] {
                ask(&mut both, &line.replace('K', target));
            }
            // The nodes go with the payload.
            ask(&mut both, &format!("XTRIM {target} MAXLEN ~ 17"));
            ask(&mut both, &format!("XRANGE {target} - +"));
            ask(&mut both, &format!("DEL {target}"));
        }
    }
}
