//! Keys are evicted while more memory is in use than `maxmemory`, in the order of the policy, and
//! as writes of their own.

use std::collections::BTreeSet;

use crate::harness::{Left, Server};
use tidemill_engine::commit::Effect;

const START_MS: u64 = 1_700_000_000_000;
const OOM: &str = "-OOM command not allowed when used memory > 'maxmemory'.\r\n";

/// A server under a limit, and one client per worker.
struct Limited {
    server: Server,
    clients: Vec<u64>,
}

impl Limited {
    fn new(workers: usize, limit: u64, policy: &str) -> Limited {
        let mut server = Server::new(workers, START_MS);
        let clients: Vec<u64> = (0..workers).map(|worker| server.connect(worker)).collect();
        let mut limited = Limited { server, clients };
        let limit = limit.to_string();
        limited.ok(&["CONFIG", "SET", "maxmemory", &limit, "maxmemory-policy", policy]);
        limited
    }

    fn call(&mut self, words: &[&str]) -> String {
        self.call_by(0, words)
    }

    fn call_by(&mut self, client: usize, words: &[&str]) -> String {
        self.server.call(self.clients[client % self.clients.len()], words)
    }

    fn ok(&mut self, words: &[&str]) {
        assert_eq!(self.call(words), "+OK\r\n", "{words:?}");
    }

    fn is_there(&mut self, key: &str) -> bool {
        self.call(&["EXISTS", key]) == ":1\r\n"
    }

    fn live_bytes(&mut self) -> u64 {
        self.server.settle();
        self.server.worker(0).1.live_bytes()
    }

    /// Limits memory to what is live now and `more`.
    fn limit_above_live(&mut self, more: i64) {
        let limit = self.live_bytes().saturating_add_signed(more).to_string();
        self.ok(&["CONFIG", "SET", "maxmemory", &limit]);
    }

    fn stat(&mut self, section: &str, name: &str) -> String {
        let text = self.call(&["INFO", section]);
        let line = text.lines().find_map(|line| line.strip_prefix(&format!("{name}:")));
        line.unwrap_or_else(|| panic!("{name} in {text}")).to_owned()
    }

    fn records(&self) -> Vec<String> {
        let text = |effect: &Effect| {
            let words: Vec<_> =
                effect.arguments.view().iter().map(String::from_utf8_lossy).collect();
            format!("{} {}", effect.database, words.join(" "))
        };
        let record = |record: Vec<Effect>| record.iter().map(text).collect::<Vec<_>>().join("; ");
        self.server.journal.take().into_iter().map(record).collect()
    }
}

const POLICIES: [&str; 7] = [
    "allkeys-lru",
    "allkeys-lfu",
    "allkeys-random",
    "volatile-lru",
    "volatile-lfu",
    "volatile-random",
    "volatile-ttl",
];

#[test]
fn twice_the_limit_fits_under_every_policy_with_one_worker_and_two() {
    const LIMIT: u64 = 3 << 20;
    for policy in POLICIES {
        for workers in [1, 2] {
            let mut limited = Limited::new(workers, LIMIT, policy);
            let value = "x".repeat(1000);
            for index in 0..6000 {
                let (key, database) = (format!("key:{index}"), index % 3);
                if index % 500 == 0 {
                    let database = (index / 500 % 3).to_string();
                    (0..workers).for_each(|client| {
                        assert_eq!(limited.call_by(client, &["SELECT", &database]), "+OK\r\n");
                    });
                }
                let reply = match database {
                    0 => limited.call_by(index, &["SET", &key, &value, "EX", "1000"]),
                    1 => limited.call_by(index, &["SETEX", &key, "2000", &value]),
                    _ => limited.call_by(index, &["PSETEX", &key, "3000000", &value]),
                };
                assert_eq!(reply, "+OK\r\n", "{policy}, {workers} workers, {index}");
                if index % 100 == 99 {
                    let live = limited.live_bytes();
                    assert!(live <= LIMIT + (workers as u64) * 4096, "{policy}: {live}");
                }
            }
            let live = limited.live_bytes();
            assert!(live > LIMIT / 8 * 7 - (100 << 10), "{policy}, {workers}: only {live}");
            assert!(limited.stat("stats", "evicted_keys").parse::<u64>().unwrap_or(0) > 2000);
            limited.ok(&["FLUSHALL"]);
            limited.server.settle();
            assert_eq!(limited.live_bytes(), 0);
        }
    }
}

#[test]
fn without_a_policy_writes_are_refused_and_reads_are_not() {
    let mut limited = Limited::new(2, 0, "noeviction");
    limited.ok(&["SET", "k", &"x".repeat(5000)]);
    limited.limit_above_live(-1000);
    assert_eq!(limited.call(&["SET", "a", "b"]), OOM);
    assert_eq!(limited.call_by(1, &["SET", "a", "b"]), OOM);
    assert!(limited.is_there("k"));
    assert_eq!(limited.call(&["LPUSH", "l", "x"]), OOM);
    assert_eq!(limited.call(&["DEL", "k"]), ":1\r\n");
    limited.ok(&["SET", "a", "b"]);
    assert_eq!(limited.stat("stats", "evicted_keys"), "0");
}

#[test]
fn volatile_policies_leave_keys_without_expiry_alone() {
    for policy in ["volatile-lru", "volatile-lfu", "volatile-random", "volatile-ttl"] {
        let mut limited = Limited::new(1, 0, policy);
        for index in 0..20 {
            limited.ok(&["SET", &format!("kept{index}"), &"x".repeat(500)]);
            limited.ok(&["SET", &format!("gone{index}"), &"x".repeat(500), "EX", "1000"]);
        }
        limited.limit_above_live(-100);
        let mut written = 0;
        while limited.call(&["SET", &format!("new{written}"), &"x".repeat(500)]) == "+OK\r\n" {
            written += 1;
        }
        assert!((15..25).contains(&written), "{policy}: {written}");
        for index in 0..20 {
            assert!(limited.is_there(&format!("kept{index}")), "{policy}");
            assert!(!limited.is_there(&format!("gone{index}")), "{policy}");
        }
    }
}

/// Fills `count` keys, lets `prepare` use some of them, and evicts half. Returns those that are
/// left.
fn survivors(policy: &str, prepare: impl Fn(&mut Limited)) -> BTreeSet<usize> {
    let mut limited = Limited::new(1, 0, policy);
    // All keys are compared.
    limited.ok(&["CONFIG", "SET", "maxmemory-samples", "64", "lfu-log-factor", "0"]);
    for index in 0..16 {
        limited.ok(&["SET", &format!("{{t}}{index}"), &"x".repeat(1000), "EX", "10000"]);
    }
    prepare(&mut limited);
    limited.limit_above_live(-8 * 1000);
    limited.server.settle();
    (0..16).filter(|index| limited.is_there(&format!("{{t}}{index}"))).collect()
}

fn upper() -> BTreeSet<usize> {
    (8..16).collect()
}

#[test]
fn the_longest_idle_go_first() {
    let left = survivors("allkeys-lru", |limited| {
        limited.server.clock.advance_ms(10_000);
        for index in 8..16 {
            limited.call(&["GET", &format!("{{t}}{index}")]);
        }
    });
    assert!(left.len() >= 7 && left.is_subset(&upper()), "{left:?}");
}

#[test]
fn the_least_frequently_used_go_first_whenever_they_were_used() {
    let left = survivors("allkeys-lfu", |limited| {
        for index in 8..16 {
            limited.call(&["GET", &format!("{{t}}{index}")]);
            // A write keeps the frequency and is a use.
            limited.call(&["APPEND", &format!("{{t}}{index}"), "y"]);
        }
        limited.server.clock.advance_ms(10_000);
        for index in 0..8 {
            limited.call(&["GET", &format!("{{t}}{index}")]);
        }
    });
    assert!(left.len() >= 7 && left.is_subset(&upper()), "{left:?}");
}

#[test]
fn the_first_to_expire_go_first() {
    let left = survivors("volatile-ttl", |limited| {
        for index in 8..16 {
            limited.call(&["EXPIRE", &format!("{{t}}{index}"), "20000"]);
        }
    });
    assert!(left.len() >= 7 && left.is_subset(&upper()), "{left:?}");
}

#[test]
fn a_candidate_is_judged_again_under_its_lock() {
    let mut limited = Limited::new(1, 0, "volatile-ttl");
    limited.ok(&["CONFIG", "SET", "maxmemory-samples", "64"]);
    for index in 0..16 {
        let (key, seconds) = (format!("{{t}}{index}"), (1000 + index).to_string());
        limited.ok(&["SET", &key, &"x".repeat(1000), "EX", &seconds]);
    }
    // All others are candidates from now on.
    limited.limit_above_live(-500);
    assert!(!limited.is_there("{t}0"));
    limited.ok(&["CONFIG", "SET", "maxmemory", "0"]);
    assert_eq!(limited.call(&["PERSIST", "{t}1"]), ":1\r\n");
    limited.ok(&["SET", "{t}2", &"y".repeat(1000)]);
    assert_eq!(limited.call(&["EXPIRE", "{t}3", "9000"]), ":1\r\n");
    limited.limit_above_live(-500);
    for kept in ["{t}1", "{t}2", "{t}3"] {
        assert!(limited.is_there(kept), "{kept} is no candidate any more");
    }
    assert!(!limited.is_there("{t}4"));
}

#[test]
fn an_eviction_is_journaled_by_itself_and_touches_who_watches() {
    for (lazy, word) in [("yes", "UNLINK"), ("no", "DEL")] {
        let mut limited = Limited::new(1, 0, "allkeys-lru");
        limited.ok(&["CONFIG", "SET", "lazyfree-lazy-eviction", lazy]);
        limited.ok(&["SELECT", "3"]);
        limited.ok(&["SET", "old", &"x".repeat(1000)]);
        limited.server.clock.advance_ms(5000);
        let watching = limited.server.connect(0);
        for words in [&["SELECT", "3"][..], &["WATCH", "old"], &["MULTI"], &["PING"]] {
            limited.server.call(watching, words);
        }
        limited.ok(&["SET", "new", &"x".repeat(1000)]);
        limited.records();
        limited.limit_above_live(-100);
        assert_eq!(limited.records(), [format!("3 {word} old")]);
        assert!(limited.is_there("new"));
        assert_eq!(limited.server.call(watching, &["EXEC"]), "*-1\r\n");
    }
}

#[test]
fn a_transaction_is_preceded_by_evictions_and_never_interrupted() {
    let mut limited = Limited::new(1, 0, "allkeys-lru");
    for index in 0..10 {
        limited.ok(&["SET", &format!("old:{index}"), &"x".repeat(1000)]);
    }
    limited.server.clock.advance_ms(5000);
    limited.ok(&["MULTI"]);
    for key in ["a", "b", "c"] {
        assert_eq!(limited.call(&["SET", key, &"x".repeat(1000)]), "+QUEUED\r\n");
    }
    limited.records();
    let (administrator, limit) = (limited.server.connect(0), limited.live_bytes() - 500);
    // Without a boundary, in which the worker would see to it.
    let change = format!("CONFIG SET maxmemory {limit}\r\n");
    limited.server.pipeline(administrator, change.as_bytes());
    assert_eq!(limited.call(&["EXEC"]), "*3\r\n+OK\r\n+OK\r\n+OK\r\n");
    let words: Vec<String> = limited.records().iter().map(|text| text.replace('x', "")).collect();
    let (first, rest) = words.split_at(2);
    assert!(first[0].starts_with("0 UNLINK old:"), "{words:?}");
    assert_eq!(first[1], "0 SET a ; 0 SET b ; 0 SET c ");
    assert!((2..=4).contains(&rest.len()), "what it took beyond the limit: {words:?}");
    assert!(rest.iter().all(|text| text.starts_with("0 UNLINK ") && !text.contains(';')));
}

#[test]
fn eviction_is_told_as_an_event() {
    let mut limited = Limited::new(1, 0, "allkeys-lru");
    let subscriber = limited.server.connect(0);
    limited.ok(&["CONFIG", "SET", "notify-keyspace-events", "Ee"]);
    limited.server.call(subscriber, &["PSUBSCRIBE", "*"]);
    limited.ok(&["SET", "k", &"x".repeat(1000)]);
    limited.limit_above_live(-100);
    limited.server.settle();
    let told = limited.server.take_output(subscriber);
    assert!(told.contains("__keyevent@0__:evicted") && told.contains("\r\nk\r\n"), "{told}");
}

#[test]
fn frequency_is_answered_under_lfu_and_idle_time_under_the_others() {
    let mut limited = Limited::new(1, 0, "allkeys-lfu");
    limited.ok(&["CONFIG", "SET", "lfu-log-factor", "0"]);
    limited.ok(&["SET", "a", "1"]);
    let mut want = 5;
    assert_eq!(limited.call(&["OBJECT", "FREQ", "a"]), ":5\r\n");
    // As Valkey 9.1 counts with this factor.
    for (words, uses) in [
        (&["GET", "a"][..], 1),
        (&["SET", "a", "2"], 1),
        (&["INCR", "a"], 1),
        (&["APPEND", "a", "x"], 1),
        (&["SETRANGE", "a", "0", "z"], 1),
        // Valkey counts two here: it looks the key up twice.
        (&["GETSET", "a", "5"], 1),
        (&["EXPIRE", "a", "1000"], 1),
        (&["PERSIST", "a"], 1),
        (&["SET", "a", "1", "EX", "100"], 1),
        (&["SETBIT", "a", "1", "1"], 1),
        (&["MSET", "a", "1"], 1),
        (&["EXISTS", "a"], 0),
        (&["TTL", "a"], 0),
        (&["STRLEN", "a"], 1),
        (&["TOUCH", "a"], 1),
        (&["OBJECT", "ENCODING", "a"], 0),
        (&["SETEX", "a", "10", "v"], 1),
        (&["GETEX", "a"], 1),
    ] {
        let reply = limited.call(words);
        assert!(!reply.starts_with('-'), "{words:?}: {reply}");
        want += uses;
        assert_eq!(limited.call(&["OBJECT", "FREQ", "a"]), format!(":{want}\r\n"), "{words:?}");
    }
    for words in [&["COPY", "a", "b"][..], &["RENAME", "b", "c"]] {
        limited.call(words);
        assert_eq!(limited.call(&["OBJECT", "FREQ", words[2]]), ":5\r\n", "{words:?}");
    }
    for (words, want) in [
        (&["LPUSH", "l", "1"][..], 5),
        (&["LPUSH", "l", "1"], 6),
        (&["LRANGE", "l", "0", "-1"], 7),
        (&["RPOP", "l"], 8),
        (&["HSET", "h", "a", "b"], 5),
        (&["HSET", "h", "a", "c"], 6),
        (&["HGET", "h", "a"], 7),
        (&["SADD", "s", "1"], 5),
        (&["SADD", "s", "2"], 6),
    ] {
        limited.call(words);
        let frequency = limited.call(&["OBJECT", "FREQ", words[1]]);
        assert_eq!(frequency, format!(":{want}\r\n"), "{words:?}");
    }
    limited.server.clock.advance_ms(61_000);
    limited.server.settle();
    assert_eq!(limited.call(&["OBJECT", "FREQ", "l"]), ":7\r\n");
    assert!(
        limited.call(&["OBJECT", "IDLETIME", "l"]).starts_with("-ERR An LFU maxmemory policy is")
    );
    limited.ok(&["CONFIG", "SET", "maxmemory-policy", "volatile-ttl"]);
    assert_eq!(limited.call(&["OBJECT", "IDLETIME", "l"]), ":61\r\n");
    assert!(
        limited.call(&["OBJECT", "FREQ", "l"]).starts_with("-ERR An LFU maxmemory policy is not")
    );
}

/// Uses by commands that change the expiry of a key alone, or nothing.
#[test]
fn commands_that_leave_values_as_they_are_count_as_their_use() {
    let mut limited = Limited::new(1, 0, "allkeys-lru");
    for (is_counted, touch) in [(true, "OFF"), (false, "ON")] {
        for words in [
            &["GETEX", "k"][..],
            &["GETEX", "k", "EX", "1000"],
            &["EXPIRE", "k", "1000"],
            &["PERSIST", "k"],
            &["SETNX", "k", "v"],
            &["COPY", "k", "copy"],
            &["BITOP", "AND", "made", "k"],
            &["BITFIELD", "k", "GET", "u8", "0"],
            &["SADD", "s", "1"],
            &["ZINCRBY", "z", "0", "1"],
        ] {
            limited.ok(&["CLIENT", "NO-TOUCH", "OFF"]);
            limited.call(&["DEL", "k", "s", "z", "copy", "made"]);
            limited.ok(&["SET", "k", "v"]);
            limited.call(&["SADD", "s", "1"]);
            limited.call(&["ZADD", "z", "1", "1"]);
            limited.server.clock.advance_ms(60_000);
            limited.server.settle();
            limited.ok(&["CLIENT", "NO-TOUCH", touch]);
            let reply = limited.call(words);
            assert!(!reply.starts_with('-'), "{words:?}: {reply}");
            let key = if words[0] == "BITOP" { words[3] } else { words[1] };
            let idle = if is_counted { ":0\r\n" } else { ":60\r\n" };
            assert_eq!(limited.call(&["OBJECT", "IDLETIME", key]), idle, "{words:?} {touch}");
        }
    }
}

#[test]
fn restored_keys_have_the_use_that_the_policy_counts() {
    let mut limited = Limited::new(1, 0, "allkeys-lfu");
    let client = limited.clients[0];
    limited.ok(&["SET", "a", "v"]);
    let reply = limited.server.call_for_bytes(client, &[b"DUMP", b"a"]);
    let start = reply.iter().position(|&byte| byte == b'\n').expect("a bulk") + 1;
    let payload = &reply[start..reply.len() - 2];
    let restore = |limited: &mut Limited, key: &[u8], option: &[u8]| {
        let words = [b"RESTORE", key, b"0", payload, option, b"77"];
        assert_eq!(limited.server.call_bytes(client, &words), "+OK\r\n");
    };
    restore(&mut limited, b"f", b"FREQ");
    restore(&mut limited, b"i", b"IDLETIME");
    assert_eq!(limited.call(&["OBJECT", "FREQ", "f"]), ":77\r\n");
    assert_eq!(limited.call(&["OBJECT", "FREQ", "i"]), ":5\r\n");
    limited.ok(&["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"]);
    restore(&mut limited, b"f2", b"FREQ");
    restore(&mut limited, b"i2", b"IDLETIME");
    assert_eq!(limited.call(&["OBJECT", "IDLETIME", "f2"]), ":0\r\n");
    assert_eq!(limited.call(&["OBJECT", "IDLETIME", "i2"]), ":77\r\n");
    limited.ok(&["SET", "i2", "new"]);
    assert_eq!(limited.call(&["OBJECT", "IDLETIME", "i2"]), ":0\r\n");
}

#[test]
fn what_is_claimed_is_what_is_live_however_it_came_and_went() {
    let mut limited = Limited::new(2, 64 << 20, "allkeys-lru");
    let claimed = |limited: &mut Limited| {
        limited.server.settle();
        // Nothing is evicted, and nothing is credited while there is no limit but a lease each.
        limited.ok(&["CONFIG", "SET", "maxmemory-policy", "noeviction"]);
        limited.ok(&["CONFIG", "SET", "maxmemory", "1"]);
        limited.server.settle();
        let shared = limited.server.worker(0).1;
        (shared.memory_limit.claimed_bytes(), shared.live_bytes().cast_signed())
    };
    for index in 0..2000 {
        let key = format!("key:{}", index % 700);
        limited.call_by(index, &["SET", &key, &"x".repeat(index)]);
        limited.call_by(index + 1, &["RPUSH", &format!("list:{}", index % 50), &key]);
        if index % 7 == 0 {
            limited.call_by(index / 7, &["DEL", &key]);
        }
    }
    let (claims, live) = claimed(&mut limited);
    assert!(live > 200_000, "{live}");
    assert_eq!(claims, live);
    limited.ok(&["FLUSHALL"]);
    assert_eq!(claimed(&mut limited), (0, 0));
}

#[test]
fn a_worker_that_ends_leaves_what_is_live_and_keeps_no_credit() {
    let mut limited = Limited::new(2, 64 << 20, "allkeys-lru");
    for index in 0..500 {
        limited.call_by(index, &["SET", &format!("key:{index}"), &"x".repeat(1000)]);
    }
    let live = limited.live_bytes().cast_signed();
    let shared = std::sync::Arc::clone(limited.server.worker(0).1);
    assert!(shared.memory_limit.claimed_bytes() > live, "each has some credit");
    limited.server.end_worker();
    limited.server.end_worker();
    assert_eq!(shared.memory_limit.claimed_bytes(), live);
}

#[test]
fn an_idle_worker_is_woken_and_keeps_nothing_that_a_busy_one_needs() {
    const LIMIT: u64 = 8 << 20;
    let mut limited = Limited::new(2, LIMIT, "noeviction");
    limited.ok(&["SET", "zero", "the first key makes the database"]);
    assert_eq!(limited.call_by(1, &["SET", "one", "x"]), "+OK\r\n");
    limited.server.take_departures();
    let mut written = 0;
    while limited.call(&["SET", &format!("key:{written}"), &"x".repeat(1000)]) == "+OK\r\n" {
        written += 1;
    }
    let live = limited.live_bytes();
    assert!((LIMIT - 10_000..LIMIT + 2000).contains(&live), "{live}");
    assert!(limited.server.take_departures().contains(&Left::Message(1)));
}

#[test]
fn an_excess_is_worked_off_without_a_write() {
    let mut limited = Limited::new(2, 0, "allkeys-random");
    for index in 0..500 {
        limited.call_by(index, &["SET", &format!("key:{index}"), &"x".repeat(1000)]);
    }
    limited.limit_above_live(-200_000);
    let limit = limited.stat("memory", "maxmemory").parse::<u64>().expect("a number");
    limited.server.settle();
    let live = limited.live_bytes();
    assert!((limit - 10_000..=limit).contains(&live), "{live} of {limit}");
}

#[test]
fn expired_keys_and_held_slots_do_not_end_eviction() {
    let mut limited = Limited::new(1, 0, "volatile-lru");
    for index in 0..300 {
        limited.ok(&["SET", &format!("short:{index}"), &"x".repeat(1000), "PX", "10"]);
    }
    limited.ok(&["SET", "long", &"x".repeat(1000), "EX", "1000"]);
    limited.server.clock.advance_ms(20);
    limited.limit_above_live(-290_000);
    let expired = limited.stat("stats", "expired_keys").parse::<u64>().expect("a number");
    assert!(expired > 200, "they count as expired: {expired}");
    assert!(limited.stat("stats", "evicted_keys").parse::<u64>().expect("a number") <= 1);
}

#[test]
fn random_keys_are_drawn_by_their_share_as_it_is_now() {
    let mut server = Server::new(1, START_MS);
    let client = server.connect(0);
    assert_eq!(server.call(client, &["RANDOMKEY"]), "$-1\r\n");
    for index in 0..100 {
        server.call(client, &["SET", &format!("key:{index}"), "v"]);
        assert!(server.call(client, &["RANDOMKEY"]).contains("key:"));
    }
    let mut drawn = BTreeSet::new();
    drawn.extend((0..2000).map(|_| server.call(client, &["RANDOMKEY"])));
    assert_eq!(drawn.len(), 100, "within 20 draws each");
    server.call(client, &["FLUSHALL"]);
    assert_eq!(server.call(client, &["RANDOMKEY"]), "$-1\r\n");
    server.call(client, &["SET", "only", "v"]);
    assert_eq!(server.call(client, &["RANDOMKEY"]), "$4\r\nonly\r\n");
    server.call(client, &["SELECT", "5"]);
    assert_eq!(server.call(client, &["RANDOMKEY"]), "$-1\r\n");
}

#[test]
fn own_changes_behind_an_eviction_are_not_told_to_a_client_that_wants_none() {
    for mode in [&["ON", "NOLOOP"][..], &["ON", "BCAST", "PREFIX", "own", "NOLOOP"]] {
        let mut limited = Limited::new(1, 0, "volatile-random");
        let large = "x".repeat(2000);
        for number in 0..20 {
            limited.ok(&["SET", &format!("old:{number}"), &large, "EX", "100"]);
        }
        limited.call(&["HELLO", "3"]);
        limited.ok(&[&["CLIENT", "TRACKING"], mode].concat());
        limited.call(&["GET", "own"]);
        limited.limit_above_live(0);
        assert_eq!(limited.call(&["SET", "own", &large]), "+OK\r\n");
        assert_ne!(limited.stat("stats", "evicted_keys"), "0");
        limited.server.settle();
        assert_eq!(limited.server.take_output(limited.clients[0]), "", "{mode:?}");
    }
}

/// Memory that clients take beside data counts as well: scripts, libraries, tracked keys.
#[test]
fn scripts_and_tracked_keys_count_until_they_are_gone() {
    let mut limited = Limited::new(2, 4 << 20, "noeviction");
    let text = "x".repeat(1 << 20);
    let library = format!("#!lua name=l\nserver.register_function('f',function()end) --{text}");
    let used = |limited: &mut Limited| -> u64 {
        limited.stat("memory", "used_memory").parse().expect("a number")
    };
    let track = |limited: &mut Limited| {
        let tracker = limited.server.connect(0);
        limited.server.call(tracker, &["HELLO", "3"]);
        limited.server.call(tracker, &["CLIENT", "TRACKING", "ON"]);
        for number in 0..1000 {
            limited.server.call(tracker, &["GET", &format!("{number}:{}", &text[..1024])]);
        }
    };
    let listener = limited.server.connect(1);
    limited.server.call(listener, &["HELLO", "3"]);
    let listen = |limited: &mut Limited| {
        let prefix = &text[..1 << 19];
        let words = ["CLIENT", "TRACKING", "ON", "BCAST", "PREFIX", prefix];
        limited.server.call(listener, &words);
    };
    let shrinking: [&[&str]; 4] = [
        &["SCRIPT", "FLUSH"],
        &["FUNCTION", "FLUSH"],
        &["FLUSHALL"],
        &["CLIENT", "TRACKING", "OFF"],
    ];
    for (grow, shrink) in shrinking.into_iter().enumerate() {
        limited.ok(&["CONFIG", "SET", "maxmemory", "0"]);
        let before = used(&mut limited);
        match grow {
            0 => drop(limited.call(&["SCRIPT", "LOAD", &format!("return 1 --{text}")])),
            1 => drop(limited.call(&["FUNCTION", "LOAD", &library])),
            2 => track(&mut limited),
            _ => listen(&mut limited),
        }
        let grown = used(&mut limited) - before;
        assert!(grown > 1_000_000, "{shrink:?}: {grown} bytes");
        limited.ok(&["CONFIG", "SET", "maxmemory", &(before + (1 << 19)).to_string()]);
        for client in 0..2 {
            let refused = limited.call_by(client, &["SET", "key", &text[..1 << 17]]);
            assert_eq!(refused, OOM, "{shrink:?}, client {client}");
        }
        let caller = if grow == 3 { listener } else { limited.clients[0] };
        assert_eq!(limited.server.call(caller, shrink), "+OK\r\n");
        limited.server.settle();
        for client in 0..2 {
            let taken = limited.call_by(client, &["SET", "key", &text[..1 << 15]]);
            assert_eq!(taken, "+OK\r\n", "{shrink:?}, client {client}");
        }
        limited.call(&["DEL", "key"]);
    }
}
