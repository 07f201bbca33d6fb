//! In import mode what has expired stays: the source of the import sees it and deletes it, nobody
//! else sees it.

use crate::harness::Server;

const START_MS: u64 = 1_700_000_000_000;
const NULL: &str = "$-1\r\n";

fn call(server: &mut Server, connection: u64, line: &str) -> String {
    server.call(connection, &line.split(' ').collect::<Vec<_>>())
}

/// A server in import mode with a key `k` and a field `f` of `h`, which have expired, and two
/// clients, the first of which is the source.
fn importing() -> (Server, u64, u64) {
    let mut server = Server::new(2, START_MS);
    let (source, other) = (server.connect(0), server.connect(1));
    assert_eq!(call(&mut server, source, "CONFIG SET import-mode yes"), "+OK\r\n");
    assert_eq!(call(&mut server, source, "CLIENT IMPORT-SOURCE ON"), "+OK\r\n");
    call(&mut server, other, "SET k 1 PX 5");
    call(&mut server, other, "HSETEX h PX 5 FIELDS 1 f v");
    call(&mut server, other, "HSET h stays v");
    server.clock.advance_ms(10);
    (server, source, other)
}

#[test]
fn the_source_sees_what_has_expired_and_others_do_not() {
    let (mut server, source, other) = importing();
    for line in ["GET k", "RANDOMKEY", "HGET h f", "TTL k"] {
        let (own, theirs) = (call(&mut server, source, line), call(&mut server, other, line));
        match line {
            "GET k" => assert_eq!((own.as_str(), theirs.as_str()), ("$1\r\n1\r\n", NULL)),
            "HGET h f" => assert_eq!((own.as_str(), theirs.as_str()), ("$1\r\nv\r\n", NULL)),
            "TTL k" => assert_eq!((own.as_str(), theirs.as_str()), (":0\r\n", ":-2\r\n")),
            _ => assert!(own.starts_with('$') && own != NULL, "{own}"),
        }
    }
    assert_eq!(call(&mut server, source, "INCR k"), ":2\r\n");
    assert_eq!(call(&mut server, source, "KEYS *").lines().next(), Some("*2"));
    assert_eq!(call(&mut server, other, "KEYS *").lines().next(), Some("*1"));
    // Nobody's reads have deleted it.
    assert_eq!(call(&mut server, other, "DBSIZE"), ":2\r\n");
}

#[test]
fn nothing_is_swept_before_the_mode_ends() {
    let (mut server, source, other) = importing();
    let keys_after_sweeps = |server: &mut Server| {
        (0..2).for_each(|index| server.sweep(index));
        call(server, other, "DBSIZE")
    };
    assert_eq!(keys_after_sweeps(&mut server), ":2\r\n");
    call(&mut server, source, "CONFIG SET import-mode no");
    assert_eq!(keys_after_sweeps(&mut server), ":1\r\n");
    assert_eq!(call(&mut server, source, "GET k"), NULL, "the mode is over for the source too");
}

#[test]
fn expiries_that_have_passed_are_stored() {
    let (mut server, source, other) = importing();
    for client in [source, other] {
        call(&mut server, client, "SET past v");
        assert_eq!(call(&mut server, client, "EXPIREAT past 1"), ":1\r\n");
        assert_eq!(call(&mut server, source, "GET past"), "$1\r\nv\r\n");
        assert_eq!(call(&mut server, other, "GET past"), NULL);
    }
}

#[test]
fn a_write_of_another_client_deletes_the_expired_key_first() {
    let (mut server, source, other) = importing();
    assert_eq!(call(&mut server, other, "INCR k"), ":1\r\n");
    assert_eq!(call(&mut server, source, "PTTL k"), ":-1\r\n");
}

/// A server in import mode whose hash `h` has the fields `a`, `b` and `c`, and two clients, the
/// first of which is the source. The time of some fields is over.
fn importing_fields(over: &str) -> (Server, u64, u64) {
    let (mut server, source, other) = importing();
    call(&mut server, other, "DEL h");
    call(&mut server, other, "HSET h a 1 b 2 c 3");
    call(&mut server, other, &format!("HPEXPIRE h 5 FIELDS {over}"));
    server.clock.advance_ms(10);
    let _ = server.journal.take();
    (server, source, other)
}

/// Records of the journal since the last call.
fn journaled(server: &Server) -> Vec<String> {
    let effects = server.journal.take().into_iter().flatten();
    let text = |effect: tidemill_engine::commit::Effect| {
        let words = effect.arguments.view().iter().map(String::from_utf8_lossy);
        words.collect::<Vec<_>>().join(" ")
    };
    effects.map(text).collect()
}

#[test]
fn a_write_of_another_client_leaves_expired_fields() {
    let writes = [
        ("HSET h b 9", ":0\r\n", ":3\r\n"),
        ("HSET h z 9", ":1\r\n", ":4\r\n"),
        ("HDEL h b", ":1\r\n", ":2\r\n"),
        ("HDEL h a", ":0\r\n", ":3\r\n"),
        ("HDEL h a b c", ":2\r\n", ":1\r\n"),
        ("HGETDEL h FIELDS 1 a", "*1\r\n$-1\r\n", ":3\r\n"),
        ("HPERSIST h FIELDS 1 a", "*1\r\n:-2\r\n", ":3\r\n"),
        ("HEXPIRE h 100 FIELDS 1 a", "*1\r\n:-2\r\n", ":3\r\n"),
        ("HSETEX h FXX FIELDS 1 a 9", ":0\r\n", ":3\r\n"),
    ];
    for (line, reply, length) in writes {
        let (mut server, source, other) = importing_fields("1 a");
        assert_eq!(call(&mut server, other, line), reply, "{line}");
        assert_eq!(call(&mut server, source, "HGET h a"), "$1\r\n1\r\n", "{line}");
        assert_eq!(call(&mut server, other, "HLEN h"), length, "{line}");
    }
    let (mut server, source, other) = importing_fields("3 a b c");
    assert_eq!(call(&mut server, other, "HSET h z 1"), ":1\r\n");
    assert_eq!(call(&mut server, source, "HMGET h a z"), "*2\r\n$1\r\n1\r\n$1\r\n1\r\n");
}

#[test]
fn an_expired_field_that_another_client_sets_takes_nothing_from_the_old_one() {
    let writes = [
        ("HSET h a 5", ":0\r\n"),
        ("HSETNX h a 5", ":1\r\n"),
        ("HINCRBY h a 5", ":5\r\n"),
        ("HINCRBYFLOAT h a 5", "$1\r\n5\r\n"),
        ("HSETEX h FNX FIELDS 1 a 5", ":1\r\n"),
    ];
    for (line, reply) in writes {
        let (mut server, source, other) = importing_fields("1 a");
        assert_eq!(call(&mut server, other, line), reply, "{line}");
        for client in [source, other] {
            assert_eq!(call(&mut server, client, "HGET h a"), "$1\r\n5\r\n", "{line}");
            assert_eq!(call(&mut server, client, "HTTL h FIELDS 1 a"), "*1\r\n:-1\r\n", "{line}");
        }
        // Replayed, the command finds no old field.
        assert_eq!(journaled(&server)[0], "HDEL h a", "{line}");
    }
}

/// True if a client is shown as a source of an import.
fn is_source(server: &mut Server, connection: u64) -> bool {
    let info = call(server, connection, "CLIENT INFO");
    let flags = info.split(' ').find_map(|word| word.strip_prefix("flags="));
    flags.expect("a client has flags").contains('I')
}

#[test]
fn a_client_is_a_source_until_reset_and_in_import_mode_only() {
    let (mut server, source, other) = importing();
    assert!(is_source(&mut server, source) && !is_source(&mut server, other));
    assert_eq!(call(&mut server, other, "CLIENT IMPORT-SOURCE maybe"), "-ERR syntax error\r\n");
    server.call(source, &["RESET"]);
    assert_eq!(call(&mut server, source, "GET k"), NULL);
    assert!(!is_source(&mut server, source));
    call(&mut server, other, "CONFIG SET import-mode no");
    let refused = call(&mut server, source, "CLIENT IMPORT-SOURCE ON");
    assert_eq!(refused, "-ERR Server is not in import mode\r\n");
    assert_eq!(call(&mut server, source, "CLIENT IMPORT-SOURCE OFF"), "+OK\r\n");
}

#[test]
fn nothing_is_evicted() {
    let (mut server, source, _) = importing();
    call(&mut server, source, "CONFIG SET maxmemory-policy allkeys-lru");
    call(&mut server, source, "CONFIG SET maxmemory 1");
    server.settle();
    assert!(call(&mut server, source, "SET new v").starts_with("-OOM "));
    assert_eq!(call(&mut server, source, "DBSIZE"), ":2\r\n");
}
