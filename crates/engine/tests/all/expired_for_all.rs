//! A key that one worker has found expired is expired for all others, however far their clocks are
//! behind.
//!
//! Worker 0 has the present time. Worker 1 has the time at which everything was made: it answers
//! between two of its boundaries.

use crate::harness::Server;

const START_MS: u64 = 1_700_000_000_000;

struct Pair {
    server: Server,
    late: u64,
    early: u64,
}

fn words(line: &str) -> Vec<&str> {
    line.split(' ').collect()
}

impl Pair {
    /// A string `s`, a list `l` and a hash `k` that expire, and a hash `h` with two fields that do
    /// and one that does not, all of it over for the first worker and not for the second.
    fn new() -> Pair {
        let mut server = Server::new(2, START_MS);
        let (late, early) = (server.connect(0), server.connect(1));
        for line in [
            "SET s v PX 10",
            "RPUSH l x",
            "PEXPIRE l 10",
            "HSET k f v",
            "PEXPIRE k 10",
            "HSETEX h PX 10 FIELDS 2 f 7 g 8",
            "HSET h stays v",
            "RPUSH of h",
        ] {
            server.call(late, &words(line));
        }
        server.call(early, &["PING"]);
        server.clock.advance_ms(20);
        Pair { server, late, early }
    }

    fn late(&mut self, line: &str) -> String {
        self.server.ask(self.late, &words(line))
    }

    fn early(&mut self, line: &str) -> String {
        self.server.ask_late(self.early, &words(line))
    }
}

/// The first worker answers `found` to a command, and from then on the second answers `reply` to
/// another.
fn stays_expired((finding, found): (&str, &str), (asking, reply): (&str, &str)) {
    let mut pair = Pair::new();
    for line in finding.split("; ") {
        let answer = pair.late(line);
        if finding.ends_with(line) {
            assert_eq!(answer, found, "{finding}");
        }
    }
    assert_eq!(pair.early(asking), reply, "{asking} behind {finding}");
}

const NULL: &str = "$-1\r\n";
const NO_FIELD: (&str, &str) = ("HGET h f", NULL);
const NO_KEY: (&str, &str) = ("GET s", NULL);

#[test]
fn a_field_that_any_read_found_expired_is_gone_for_other_workers() {
    for finding in [
        ("HGET h f", NULL),
        ("HMGET h f stays", "*2\r\n$-1\r\n$1\r\nv\r\n"),
        ("HGETALL h", "*2\r\n$5\r\nstays\r\n$1\r\nv\r\n"),
        ("HKEYS h", "*1\r\n$5\r\nstays\r\n"),
        ("HVALS h", "*1\r\n$1\r\nv\r\n"),
        ("HEXISTS h f", ":0\r\n"),
        ("HSTRLEN h f", ":0\r\n"),
        ("HPTTL h FIELDS 1 f", "*1\r\n:-2\r\n"),
        ("HSCAN h 0", "*2\r\n$1\r\n0\r\n*2\r\n$5\r\nstays\r\n$1\r\nv\r\n"),
        ("HRANDFIELD h", "$5\r\nstays\r\n"),
        ("HRANDFIELD h 9", "*1\r\n$5\r\nstays\r\n"),
        ("SORT_RO of BY nosort GET *->f", "*1\r\n$-1\r\n"),
        ("MULTI; HGET h f; EXEC", "*1\r\n$-1\r\n"),
    ] {
        stays_expired(finding, NO_FIELD);
    }
}

#[test]
fn a_field_that_a_write_found_expired_is_gone_for_other_workers() {
    for finding in [
        ("HDEL h f", ":0\r\n"),
        ("HPERSIST h FIELDS 1 f", "*1\r\n:-2\r\n"),
        ("HPEXPIRE h 99 FIELDS 1 f", "*1\r\n:-2\r\n"),
        ("HGETEX h PERSIST FIELDS 1 f", "*1\r\n$-1\r\n"),
        ("HSETEX h FXX FIELDS 1 f v", ":0\r\n"),
    ] {
        stays_expired(finding, NO_FIELD);
        stays_expired(finding, ("HEXISTS h g", ":0\r\n"));
    }
}

#[test]
fn a_key_that_any_read_found_expired_is_gone_for_other_workers() {
    for finding in [
        ("GET s", NULL),
        ("EXISTS s", ":0\r\n"),
        ("MGET s of", "*2\r\n$-1\r\n$-1\r\n"),
        ("KEYS s", "*0\r\n"),
        ("SCAN 0 MATCH s COUNT 99", "*2\r\n$1\r\n0\r\n*0\r\n"),
        ("MULTI; GET s; EXEC", "*1\r\n$-1\r\n"),
    ] {
        stays_expired(finding, NO_KEY);
    }
}

#[test]
fn an_exec_that_failed_for_an_expiry_ends_the_key_for_other_workers() {
    let mut server = Server::new(2, START_MS);
    let (late, early) = (server.connect(0), server.connect(1));
    server.call(late, &words("SET s v PX 10"));
    server.call(late, &words("WATCH s"));
    server.call(early, &["PING"]);
    server.clock.advance_ms(20);
    server.ask(late, &["MULTI"]);
    assert_eq!(server.ask(late, &["EXEC"]), "*-1\r\n");
    assert_eq!(server.ask_late(early, &words("GET s")), NULL);
}

#[test]
fn a_write_by_an_earlier_clock_finds_gone_what_was_seen_gone() {
    for asking in [
        ("PERSIST s", ":0\r\n"),
        ("PEXPIRE s 99", ":0\r\n"),
        ("SET s new XX", NULL),
        ("GETSET s new", NULL),
        ("GETDEL s", NULL),
        ("APPEND s +", ":1\r\n"),
        ("SETNX s new", ":1\r\n"),
        ("RENAME s t", "-ERR no such key\r\n"),
        ("COPY s t", ":0\r\n"),
        ("LPUSHX l y", ":0\r\n"),
        ("RPUSH l y", ":1\r\n"),
        ("HSETNX k f new", ":1\r\n"),
        ("HPERSIST h FIELDS 1 f", "*1\r\n:-2\r\n"),
        ("HSETNX h f new", ":1\r\n"),
        ("HINCRBY h f 1", ":1\r\n"),
        ("HDEL h f g", ":0\r\n"),
        ("HGETDEL h FIELDS 1 f", "*1\r\n$-1\r\n"),
        ("HSETEX h FNX FIELDS 1 f new", ":1\r\n"),
    ] {
        stays_expired(("GET s", NULL), asking);
    }
}

#[test]
fn a_transaction_by_an_earlier_clock_finds_gone_what_was_seen_gone() {
    let mut pair = Pair::new();
    pair.late("GET s");
    pair.early("MULTI");
    for line in ["PERSIST s", "HGET h f", "EXISTS s l"] {
        pair.early(line);
    }
    assert_eq!(pair.early("EXEC"), "*3\r\n:0\r\n$-1\r\n:0\r\n");
}

#[test]
fn a_time_to_live_is_counted_from_no_earlier_than_what_was_seen_expired() {
    let mut pair = Pair::new();
    pair.server.call(pair.late, &words("SET gone v PX 1000"));
    pair.server.clock.advance_ms(1010);
    assert_eq!(pair.late("GET gone"), NULL);
    for (making, asking) in [
        ("SET new v PX 5", "GET new"),
        ("PSETEX new 5 v", "GET new"),
        ("HSETEX new PX 5 FIELDS 1 f v", "HGET new f"),
    ] {
        pair.early(making);
        assert_eq!(pair.early(asking), "$1\r\nv\r\n", "{making}");
        pair.early("DEL new");
    }
}

#[test]
fn what_an_earlier_clock_finds_alive_it_may_answer_until_somebody_found_it_expired() {
    let mut pair = Pair::new();
    assert_eq!(pair.early("GET s"), "$1\r\nv\r\n");
    assert_eq!(pair.early("PERSIST s"), ":1\r\n");
    assert_eq!(pair.early("HPERSIST h FIELDS 1 f"), "*1\r\n:1\r\n");
    assert_eq!(pair.late("GET s"), "$1\r\nv\r\n");
    assert_eq!(pair.late("HGET h f"), "$1\r\n7\r\n");
    assert_eq!(pair.late("HGET h g"), NULL);
    assert_eq!(pair.early("HGET h g"), NULL);
}

const HOUR_MS: u64 = 3_600_000;

#[test]
fn an_absolute_time_is_by_the_wall_clock_and_a_relative_one_by_what_passes() {
    let mut server = Server::new(1, START_MS);
    let client = server.connect(0);
    let call = |server: &mut Server, line: &str| server.call(client, &words(line));
    call(&mut server, "SET gone v PX 1");
    call(&mut server, "SET before v PXAT 1700000060000");
    server.clock.advance_ms(10);
    assert_eq!(call(&mut server, "GET gone"), NULL);
    server.clock.set_back_ms(HOUR_MS);
    let wall_ms = START_MS + 10 - HOUR_MS;
    let at = (wall_ms + 60_000).to_string();
    let _ = server.journal.take();
    for (making, asking) in [
        ("SET k v EX 60".to_owned(), "PEXPIRETIME k"),
        (format!("SET k v PXAT {at}"), "PEXPIRETIME k"),
        (format!("PEXPIREAT k {at}"), "PEXPIRETIME k"),
        (format!("GETEX k PXAT {at}"), "PEXPIRETIME k"),
        (format!("HSETEX h PXAT {at} FIELDS 1 f v"), "HPEXPIRETIME h FIELDS 1 f"),
        (format!("HPEXPIREAT h {at} FIELDS 1 f"), "HPEXPIRETIME h FIELDS 1 f"),
    ] {
        call(&mut server, &making);
        let reply = call(&mut server, asking);
        assert_eq!(reply.trim_start_matches("*1\r\n"), format!(":{at}\r\n"), "{making}");
        let ttl = call(&mut server, &asking.replace("EXPIRETIME", "TTL"));
        assert_eq!(ttl.trim_start_matches("*1\r\n"), ":60000\r\n", "{making}");
        let record = server.journal.take().into_iter().flatten().next_back().expect("a record");
        let times: Vec<_> = record.arguments.view().iter().map(<[u8]>::to_vec).collect();
        assert!(times.contains(&at.clone().into_bytes()), "{making}: {times:?}");
    }
    assert_eq!(call(&mut server, "PTTL before"), ":59990\r\n");
    let time = call(&mut server, "TIME");
    assert!(time.contains(&format!("\r\n{}\r\n", wall_ms / 1000)), "{time}");
    server.clock.advance_ms(59_990);
    assert_eq!(call(&mut server, "GET k"), "$1\r\nv\r\n");
    server.clock.advance_ms(20);
    assert_eq!(call(&mut server, "EXISTS k before"), ":0\r\n");
    assert_eq!(call(&mut server, "HGET h f"), NULL);
}
