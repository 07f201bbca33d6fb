//! Of a hash with very many fields whose time is over, one command deletes some. To commands all of
//! them are gone.

use crate::harness::Server;
use tidemill_engine::limits::REAPED_FIELDS_MAX;

const START_MS: u64 = 1_700_000_000_000;
const DEAD_COUNT: usize = 3 * REAPED_FIELDS_MAX;

fn call(server: &mut Server, connection: u64, line: &str) -> String {
    server.call(connection, &line.split(' ').collect::<Vec<_>>())
}

/// A server whose hash `h` has [`DEAD_COUNT`] fields `d0`, `d1`, ... whose time is over, and one
/// field `stays`.
fn with_dead_fields() -> (Server, u64) {
    let mut server = Server::new(1, START_MS);
    let client = server.connect(0);
    let fields: String = (0..DEAD_COUNT).map(|index| format!(" d{index} old")).collect();
    call(&mut server, client, &format!("HSETEX h PX 5 FIELDS {DEAD_COUNT}{fields}"));
    call(&mut server, client, "HSET h stays v");
    server.clock.advance_ms(10);
    let _ = server.journal.take();
    (server, client)
}

/// The fields that the journal's records since the last call delete.
fn deleted_fields(server: &Server) -> Vec<String> {
    let mut fields = Vec::new();
    for effect in server.journal.take().into_iter().flatten() {
        let words: Vec<_> = effect.arguments.view().iter().map(String::from_utf8_lossy).collect();
        if words[0] == "HDEL" {
            fields.extend(words[2..].iter().map(|word| word.clone().into_owned()));
        }
    }
    fields
}

#[test]
fn one_command_deletes_a_bounded_number_of_expired_fields() {
    let (mut server, client) = with_dead_fields();
    let mut left = DEAD_COUNT;
    for round in 0..4 {
        assert_eq!(call(&mut server, client, &format!("HSET h new{round} v")), ":1\r\n");
        let deleted = deleted_fields(&server).len();
        assert_eq!(deleted, left.min(REAPED_FIELDS_MAX));
        left -= deleted;
        // Those whose time is over count until they are deleted.
        assert_eq!(call(&mut server, client, "HLEN h"), format!(":{}\r\n", round + 2 + left));
    }
    assert_eq!(left, 0);
}

#[test]
fn a_change_deletes_only_the_expired_fields_that_it_names_while_active_expiry_is_off() {
    let (mut server, client) = with_dead_fields();
    server.shared.set_active_expiry(false);
    let length = |count: usize| format!(":{count}\r\n");
    assert_eq!(call(&mut server, client, "HSET h new v"), ":1\r\n");
    assert_eq!(call(&mut server, client, "HLEN h"), length(DEAD_COUNT + 2));
    assert_eq!(call(&mut server, client, "HDEL h stays new d0"), ":2\r\n");
    assert_eq!(call(&mut server, client, "HLEN h"), length(DEAD_COUNT - 1));
    // The time of all fields is over.
    assert_eq!(call(&mut server, client, "HDEL h d1"), ":0\r\n");
    assert_eq!(call(&mut server, client, "HSET h d2 v new v"), ":2\r\n");
    assert_eq!(call(&mut server, client, "HLEN h"), length(DEAD_COUNT));
    assert_eq!(call(&mut server, client, "HMGET h d1 d2 d3"), "*3\r\n$-1\r\n$1\r\nv\r\n$-1\r\n");
    server.shared.set_active_expiry(true);
    assert_eq!(call(&mut server, client, "HSET h new v"), ":0\r\n");
    assert_eq!(call(&mut server, client, "HLEN h"), length(DEAD_COUNT - REAPED_FIELDS_MAX));
}

/// Runs a command with an expired field in the place of `@`: one that is deleted as every change
/// begins, and others. `reply` is what it answers when the field is not there.
fn expired_fields_are_gone_for(command: &str, reply: &str) {
    for index in [0, DEAD_COUNT / 2, DEAD_COUNT - 1] {
        let (mut server, client) = with_dead_fields();
        let field = format!("d{index}");
        let line = command.replace("@", &field);
        assert_eq!(call(&mut server, client, &line), reply, "{line}");
    }
}

#[test]
fn an_expired_field_is_gone_although_it_was_not_deleted_yet() {
    expired_fields_are_gone_for("HSET h @ v", ":1\r\n");
    expired_fields_are_gone_for("HSETNX h @ v", ":1\r\n");
    expired_fields_are_gone_for("HINCRBY h @ 5", ":5\r\n");
    expired_fields_are_gone_for("HINCRBYFLOAT h @ 5", "$1\r\n5\r\n");
    expired_fields_are_gone_for("HDEL h @", ":0\r\n");
    expired_fields_are_gone_for("HDEL h stays @", ":1\r\n");
    expired_fields_are_gone_for("HEXPIRE h 100 FIELDS 2 stays @", "*2\r\n:1\r\n:-2\r\n");
    expired_fields_are_gone_for("HPERSIST h FIELDS 1 @", "*1\r\n:-2\r\n");
    expired_fields_are_gone_for("HGETEX h PERSIST FIELDS 1 @", "*1\r\n$-1\r\n");
    expired_fields_are_gone_for("HGETDEL h FIELDS 2 @ stays", "*2\r\n$-1\r\n$1\r\nv\r\n");
    expired_fields_are_gone_for("HSETEX h FXX FIELDS 1 @ v", ":0\r\n");
    expired_fields_are_gone_for("HSETEX h FNX KEEPTTL FIELDS 1 @ v", ":1\r\n");
    expired_fields_are_gone_for("HGET h @", "$-1\r\n");
}

#[test]
fn a_field_set_with_its_old_expiry_kept_takes_none_from_an_expired_one() {
    let (mut server, client) = with_dead_fields();
    let last = DEAD_COUNT - 1;
    for field in ["d0".to_owned(), format!("d{last}")] {
        call(&mut server, client, &format!("HSETEX h KEEPTTL FIELDS 1 {field} v"));
        let reply = call(&mut server, client, &format!("HTTL h FIELDS 1 {field}"));
        assert_eq!(reply, "*1\r\n:-1\r\n", "{field}");
    }
}

/// Events that a line makes at a hash of which `d` has expired, and `stays` has not.
fn events(line: &str, expires_actively: bool) -> Vec<&'static str> {
    let mut server = Server::with_events(1, START_MS, true);
    server.shared.set_active_expiry(expires_actively);
    let client = server.connect(0);
    call(&mut server, client, "HSETEX h PX 5 FIELDS 1 d old");
    call(&mut server, client, "HSET h stays v");
    server.clock.advance_ms(10);
    let _ = server.publications.take();
    call(&mut server, client, line);
    server.publications.take().iter().map(|publication| publication.event).collect()
}

#[test]
fn a_write_tells_of_the_expired_fields_that_it_deletes_before_its_own_event() {
    for expires_actively in [false, true] {
        let events = |line| events(line, expires_actively);
        assert_eq!(events("HSET h d v"), ["hexpired", "hset"]);
        assert_eq!(events("HSETNX h d v"), ["hexpired", "hset"]);
        assert_eq!(events("HINCRBY h d 5"), ["hexpired", "hincrby"]);
        assert_eq!(events("HINCRBYFLOAT h d 5"), ["hexpired", "hincrbyfloat"]);
        assert_eq!(events("HSETEX h EX 9 FIELDS 1 d v"), ["hexpired", "hset", "hexpire"]);
        assert_eq!(events("HDEL h d stays"), ["hexpired", "hdel", "del"]);
        assert_eq!(events("HDEL h d"), [""; 0]);
        assert_eq!(events("HGET h d"), [""; 0]);
    }
    assert_eq!(events("HSET h other v", true), ["hexpired", "hset"]);
    assert_eq!(events("HSET h other v", false), ["hset"]);
}

/// Effects that the journal has got since the last call, without their fields.
fn effects(server: &Server) -> Vec<String> {
    let effects = server.journal.take().into_iter().flatten();
    let texts = effects.map(|effect| {
        let words: Vec<_> = effect.arguments.view().iter().map(String::from_utf8_lossy).collect();
        words.join(" ")
    });
    texts.collect()
}

/// Calls of the sweep until `is_over` holds, at most `calls_max`.
fn sweeps_until(
    server: &mut Server,
    calls_max: usize,
    mut is_over: impl FnMut(&mut Server) -> bool,
) -> usize {
    for count in 0..calls_max {
        if is_over(server) {
            return count;
        }
        server.sweep(0);
    }
    panic!("not within {calls_max} calls of the sweep");
}

#[test]
fn a_hash_of_which_all_fields_have_expired_goes_by_one_write() {
    let (mut server, client) = with_dead_fields();
    call(&mut server, client, "HDEL h stays");
    assert_eq!(call(&mut server, client, "HGETALL h"), "*0\r\n");
    let _ = server.journal.take();
    // The clock is stopped, so one call goes once around.
    let sweeps =
        sweeps_until(&mut server, 2, |server| call(server, client, "EXISTS h") == ":0\r\n");
    assert_eq!((sweeps, effects(&server)), (1, vec!["DEL h".to_owned()]));
    assert_eq!(call(&mut server, client, "DBSIZE"), ":0\r\n");
}

#[test]
fn a_change_of_a_hash_of_which_all_fields_have_expired_begins_a_new_one() {
    let (mut server, client) = with_dead_fields();
    call(&mut server, client, "HDEL h stays");
    call(&mut server, client, "PEXPIRE h 99999");
    let _ = server.journal.take();
    assert_eq!(call(&mut server, client, "HSET h f v"), ":1\r\n");
    assert_eq!(effects(&server), ["DEL h", "HSET h f v"]);
    assert_eq!(call(&mut server, client, "PTTL h"), ":-1\r\n");
    assert_eq!(call(&mut server, client, "HLEN h"), ":1\r\n");
}

#[test]
fn the_sweep_stays_with_a_hash_that_has_many_expired_fields() {
    const COUNT: usize = 12 * REAPED_FIELDS_MAX;
    let mut server = Server::new(1, START_MS);
    let client = server.connect(0);
    let fields: String = (0..COUNT).map(|index| format!(" d{index} old")).collect();
    call(&mut server, client, &format!("HSETEX h PX 5 FIELDS {COUNT}{fields}"));
    call(&mut server, client, "HSET h stays v");
    server.clock.advance_ms(10);
    let _ = server.journal.take();
    server.sweep(0);
    let deleted = deleted_fields(&server).len();
    assert_eq!(deleted, COUNT, "by a sweep that had all the time it wanted");
    assert_eq!(call(&mut server, client, "HLEN h"), ":1\r\n");
}
