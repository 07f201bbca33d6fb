//! Attempts at a script that are taken back: nothing of them is counted, logged or told.

use tidemill_engine::execute::Next;
use tidemill_engine::slots::parking::WakeUp;

use crate::harness::Server;
use crate::scripts::{beside_holder, eval};

const NOW_MS: u64 = 1_700_000_000_000;

/// Runs a script that is taken back at the key `undeclared`, looks at what there is of it, and runs
/// it to its end, for this reply.
fn run_twice(
    server: &mut Server,
    client: u64,
    (script, keys): (&str, &[&str]),
    look: impl FnOnce(&mut Server),
    reply: &str,
) {
    beside_holder(server, "undeclared", |server| {
        let next = server.turn_once(client, &eval(script, keys));
        assert_eq!(next, Next::WakeUp(WakeUp::Message), "it is taken back");
        look(server);
    });
    server.turn_once(client, b"");
    assert_eq!(server.take_output(client), reply);
}

/// The figures of these names in `INFO`.
fn figures<const N: usize>(server: &mut Server, client: u64, names: [&str; N]) -> [u64; N] {
    let info = server.call(client, &["INFO", "everything"]);
    let line = |name| info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    names.map(|name| line(name).and_then(|value| value.parse().ok()).expect(name))
}

#[test]
fn changes_and_expiries_of_a_run_count_once_for_all_attempts() {
    const COUNTED: [&str; 3] = ["rdb_changes_since_last_save", "expired_keys", "expired_fields"];
    let mut server = Server::new(2, NOW_MS);
    let (client, other) = (server.connect(0), server.connect(1));
    server.call(other, &["SET", "gone", "old", "PX", "10"]);
    server.call(other, &["HSET", "h", "f", "v", "gone", "v"]);
    server.call(other, &["HPEXPIRE", "h", "10", "FIELDS", "1", "gone"]);
    server.clock.advance_ms(20);
    let [changes, ..] = figures(&mut server, other, COUNTED);
    let script = "redis.call('incr', KEYS[1]) redis.call('append', KEYS[2], 'x') \
        redis.call('hset', KEYS[3], 'g', '1') redis.call('pexpire', KEYS[1], -1) \
        return redis.call('incr', 'undeclared')";
    let look = |server: &mut Server| {
        assert_eq!(figures(server, other, COUNTED), [changes, 0, 0], "it is taken back");
    };
    run_twice(&mut server, client, (script, &["a", "gone", "h"]), look, ":1\r\n");
    assert_eq!(figures(&mut server, other, COUNTED), [changes + 5, 2, 1]);
}

/// With `COPY` it takes the token, and what it has changed before counts then.
#[test]
fn changes_of_a_run_count_before_and_behind_what_cannot_be_taken_back() {
    let mut server = Server::new(1, NOW_MS);
    let client = server.connect(0);
    let script = "redis.call('set', KEYS[1], '1') redis.call('copy', KEYS[1], KEYS[2]) \
        redis.call('incr', KEYS[2]) local info = redis.call('info', 'persistence') \
        return info:match('rdb_changes_since_last_save:(%d+)')";
    assert_eq!(
        server.call_bytes(client, &[b"EVAL", script.as_bytes(), b"2", b"a", b"b"]),
        "$1\r\n3\r\n"
    );
    assert_eq!(server.shared.changes(), 3);
}

#[test]
fn logs_tell_of_a_run_once_for_all_attempts() {
    let mut server = Server::new(2, NOW_MS);
    let (client, other) = (server.connect(0), server.connect(1));
    let rules = ["ACL", "SETUSER", "u", "on", "nopass", "+@all", "~a", "~undeclared"];
    server.call(other, &rules);
    server.call(client, &["AUTH", "u", "x"]);
    server.call(other, &["CONFIG", "SET", "slowlog-log-slower-than", "0"]);
    server.call(other, &["SLOWLOG", "RESET"]);
    let _ = server.host.take_lines();
    let script = "redis.call('incr', KEYS[1]) redis.pcall('get', 'secret') \
        redis.pcall('get', 'secret') redis.log(redis.LOG_WARNING, 'a line') \
        return redis.call('incr', 'undeclared')";
    const DENIED: [&str; 2] = ["acl_access_denied_cmd", "acl_access_denied_key"];
    let incrs = |server: &mut Server| {
        server.call(other, &["SLOWLOG", "GET", "-1"]).matches("$4\r\nincr\r\n").count()
    };
    let look = |server: &mut Server| {
        assert_eq!(incrs(server), 0);
        assert_eq!(server.call(other, &["ACL", "LOG"]), "*0\r\n");
        assert_eq!(figures(server, other, DENIED), [0, 0]);
        assert_eq!(server.host.take_lines(), []);
    };
    run_twice(&mut server, client, (script, &["a"]), look, ":1\r\n");
    assert_eq!(incrs(&mut server), 2);
    let log = server.call(other, &["ACL", "LOG"]);
    assert_eq!(log.matches("$6\r\nsecret\r\n").count(), 1, "{log}");
    assert!(log.contains("$5\r\ncount\r\n:2\r\n"), "{log}");
    assert_eq!(figures(&mut server, other, DENIED), [0, 2]);
    let lines = server.host.take_lines();
    assert!(matches!(&lines[..], [(_, line)] if line.contains("a line")), "{lines:?}");
}
