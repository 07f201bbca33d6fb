//! Clients that wait for keys: who is served, and when.

use std::sync::Arc;

use crate::harness::Server;
use tidemill_store::SlotNumber;

const NOW_MS: u64 = 1_700_000_000_000;

/// A reply on one line.
fn call(server: &mut Server, connection: u64, line: &str) -> String {
    plain(&server.call(connection, &line.split(' ').collect::<Vec<_>>()))
}

fn plain(reply: &str) -> String {
    reply.trim_end().replace("\r\n", " ")
}

/// Output of a connection on one line.
fn output(server: &mut Server, connection: u64) -> String {
    plain(&server.take_output(connection))
}

/// A client that takes the element of a key until it is killed, and then nothing more.
#[test]
fn a_killed_client_takes_nothing_from_the_moment_of_the_answer() {
    for (before, behind) in [("", ""), ("MULTI\r\n", "EXEC\r\n")] {
        let mut server = Server::new(2, NOW_MS);
        let (killed, next, caller) = (server.connect(0), server.connect(0), server.connect(1));
        call(&mut server, killed, "BLPOP q 0");
        // In the order of arrival behind it, and served in its place.
        call(&mut server, next, "BLPOP q 0");
        let kill = format!("CLIENT KILL ID {killed}\r\nRPUSH q x y\r\nLLEN q\r\n");
        server.turn_once(caller, format!("{before}{kill}{behind}").as_bytes());
        let replies = output(&mut server, caller);
        assert!(replies.ends_with(if before.is_empty() { ":1 :2 :1" } else { ":1 :2 :2" }));
        server.settle();
        assert_eq!(output(&mut server, killed), "");
        assert_eq!(output(&mut server, next), "*2 $1 q $1 x");
        assert_eq!(call(&mut server, caller, "LRANGE q 0 -1"), "*1 $1 y");
        server.disconnect(killed);
        assert_eq!(server.worker(0).0.ended_registrations(), 0);
    }
}

/// The client's own worker does nothing meanwhile.
#[test]
fn a_command_whose_wait_was_ended_counts_at_the_answer() {
    for (how, counted) in [("TIMEOUT", "0,failed_calls=0"), ("ERROR", "1,failed_calls=0")] {
        let mut server = Server::new(2, NOW_MS);
        let (waiting, caller) = (server.connect(0), server.connect(1));
        call(&mut server, waiting, "BLPOP q 0");
        let unblock = format!("CLIENT UNBLOCK {waiting} {how}\r\nINFO commandstats\r\n");
        server.turn_once(caller, unblock.as_bytes());
        let info = server.take_output(caller);
        assert!(info.starts_with(":1\r\n"), "{info}");
        let line = info.lines().find(|line| line.starts_with("cmdstat_blpop:calls=1,"));
        assert!(line.is_some_and(|line| line.ends_with(counted)), "{how} {info}");
    }
}

#[test]
fn an_evicted_client_takes_nothing() {
    let mut server = Server::new(1, NOW_MS);
    let (evicted, caller) = (server.connect(0), server.connect(0));
    let long = "k".repeat(1 << 20);
    server.call(evicted, &["BLPOP", "q", &long, "0"]);
    server.turn_once(caller, b"CONFIG SET maxmemory-clients 1mb\r\nRPUSH q x\r\nLLEN q\r\n");
    assert_eq!(output(&mut server, caller), "+OK :1 :1");
}

/// Killed between the look at it before its commands and the beginning of its wait.
#[test]
fn a_client_that_is_killed_while_it_begins_to_wait_takes_nothing() {
    let mut server = Server::with_events(2, NOW_MS, true);
    let killed = server.connect(0);
    *server.publications.kills_at.lock().expect("no panic") = Some("first".to_owned());
    server.turn_once(killed, b"SET first v\r\nBLPOP q 0\r\n");
    assert!(server.is_blocked(killed));
    let caller = server.connect(1);
    call(&mut server, caller, "RPUSH q x");
    assert_eq!(call(&mut server, caller, "LLEN q"), ":1");
}

/// Those who wait for a list and those who wait for a sorted set do not wait for each other.
#[test]
fn waiters_for_another_kind_hold_nobody_up() {
    let mut server = Server::new(2, NOW_MS);
    let (list, set, writer) = (server.connect(0), server.connect(1), server.connect(1));
    for is_list_first in [true, false] {
        for (client, wait) in match is_list_first {
            true => [(list, "BLPOP k 0"), (set, "BZPOPMIN k 0")],
            false => [(set, "BZPOPMIN k 0"), (list, "BLPOP k 0")],
        } {
            assert_eq!(call(&mut server, client, wait), "");
        }
        for is_list in [!is_list_first, is_list_first] {
            let (client, other) = if is_list { (list, set) } else { (set, list) };
            let write = if is_list { "RPUSH k x y" } else { "ZADD k 1 x 2 y" };
            call(&mut server, writer, write);
            assert!(output(&mut server, client).starts_with("*"), "{is_list_first} {is_list}");
            assert_eq!(output(&mut server, other), "");
            call(&mut server, writer, "DEL k");
        }
    }
}

/// A key that nobody in front takes from is owed to none of those behind.
#[test]
fn a_worker_does_not_try_again_for_a_waiter_of_another_kind() {
    let mut server = Server::new(1, NOW_MS);
    let (set, list, writer) = (server.connect(0), server.connect(0), server.connect(0));
    call(&mut server, set, "BZPOPMIN k 0");
    call(&mut server, list, "BLPOP k j 0");
    call(&mut server, writer, "RPUSH k x");
    call(&mut server, writer, "RPUSH j y");
    server.settle();
    assert_eq!(output(&mut server, list), "*2 $1 k $1 x");
    assert!(!server.worker(0).0.has_postponed());
    assert_eq!(call(&mut server, writer, "LLEN j"), ":1");
}

/// A waiter that is served can put an element where others were looked for before.
#[test]
fn a_key_that_is_ready_again_behind_its_turn_is_looked_at_again() {
    let mut server = Server::new(1, NOW_MS);
    let [first, mover, last, writer] = [0; 4].map(|seat| server.connect(seat));
    // In a ring.
    call(&mut server, first, "BLMOVE a b LEFT RIGHT 0");
    call(&mut server, mover, "BLMOVE b a LEFT RIGHT 0");
    call(&mut server, last, "BLPOP a 0");
    assert_eq!(call(&mut server, writer, "RPUSH a x"), ":1");
    assert_eq!(output(&mut server, last), "*2 $1 a $1 x");
    assert_eq!(call(&mut server, writer, "EXISTS a b"), ":0");
    // Behind one that was ready before, beside few keys and many.
    for others in [0, 100] {
        call(&mut server, first, "BLPOP b 0");
        call(&mut server, last, "BLPOP b 0");
        call(&mut server, mover, "BLMOVE c b LEFT RIGHT 0");
        let waiting: Vec<u64> = (0..others).map(|_| server.connect(0)).collect();
        call(&mut server, writer, "MULTI");
        call(&mut server, writer, "RPUSH b 1");
        for (index, &client) in waiting.iter().enumerate() {
            call(&mut server, client, &format!("BLPOP other{index} 0"));
            call(&mut server, writer, &format!("RPUSH other{index} x"));
        }
        call(&mut server, writer, "RPUSH c 2");
        call(&mut server, writer, "EXEC");
        assert_eq!(output(&mut server, first), "*2 $1 b $1 1", "{others}");
        assert_eq!(output(&mut server, last), "*2 $1 b $1 2", "{others}");
        assert_eq!(call(&mut server, writer, "EXISTS b c"), ":0");
    }
}

/// A slot that it takes to serve them is locked until then.
#[test]
fn nobody_is_served_from_a_key_that_expired_meanwhile() {
    let pair = |name: &str| format!("*1 *2 $4 from *1 *2 {name} *2 $1 f $1 v");
    for (wait, first, second, reply) in [
        ("BLMOVE from to LEFT RIGHT 0", "RPUSH from x", "RPUSH from y", "$1 y".to_owned()),
        ("BLPOP to from 0", "RPUSH from x", "RPUSH from y", "*2 $4 from $1 y".to_owned()),
        (
            "XREAD BLOCK 0 STREAMS to from $ $",
            "XADD from 1-0 f v",
            "XADD from 2-0 f v",
            pair("$3 2-0"),
        ),
    ] {
        let mut server = Server::new(1, NOW_MS);
        let (waiter, writer) = (server.connect(0), server.connect(0));
        assert_eq!(call(&mut server, waiter, wait), "");
        let shared = Arc::clone(server.worker(0).1);
        let lock = shared.keyspace.try_lock(SlotNumber::of_key(b"to")).expect("nobody has it");
        for line in ["MULTI", first, "PEXPIRE from 10", "EXEC"] {
            call(&mut server, writer, line);
        }
        assert!(server.is_blocked(waiter), "{wait}");
        server.clock.advance_ms(20);
        drop(lock);
        server.settle();
        assert_eq!(output(&mut server, waiter), "", "{wait}");
        assert_eq!(call(&mut server, writer, "EXISTS from to"), ":0", "{wait}");
        call(&mut server, writer, second);
        assert_eq!(output(&mut server, waiter), reply, "{wait} is served by what comes then");
    }
}

#[test]
fn a_wait_for_a_group_ends_when_its_stream_expires() {
    for is_found_by_a_read in [true, false] {
        let mut server = Server::new(1, NOW_MS);
        let (waiter, other) = (server.connect(0), server.connect(0));
        call(&mut server, other, "XGROUP CREATE s g $ MKSTREAM");
        assert_eq!(call(&mut server, waiter, "XREADGROUP GROUP g c BLOCK 0 STREAMS s >"), "");
        call(&mut server, other, "PEXPIRE s 100");
        server.clock.advance_ms(200);
        if is_found_by_a_read {
            assert_eq!(call(&mut server, other, "EXISTS s"), ":0");
        } else {
            (0..100).for_each(|_| server.sweep(0));
        }
        server.settle();
        let reply = output(&mut server, waiter);
        assert!(reply.starts_with("-NOGROUP No such key 's'"), "{is_found_by_a_read}: {reply}");
    }
}

/// No key may be evicted for it, and nobody else is held up.
#[test]
fn a_waiter_whose_command_takes_memory_is_refused_beyond_the_limit() {
    for policy in ["noeviction", "allkeys-random"] {
        let mut server = Server::new(1, NOW_MS);
        let [mover, taker, writer] = [0; 3].map(|seat| server.connect(seat));
        call(&mut server, writer, "RPUSH other x");
        call(&mut server, mover, "BLMOVE list to LEFT RIGHT 0");
        call(&mut server, taker, "BLPOP list 0");
        call(&mut server, writer, &format!("CONFIG SET maxmemory-policy {policy}"));
        // In two turns, between which nothing is evicted.
        server.turn_once(writer, b"CONFIG SET maxmemory 1\r\n");
        server.turn_once(writer, b"RENAME other list\r\n");
        assert_eq!(output(&mut server, writer), "+OK +OK");
        server.settle();
        if policy == "noeviction" {
            let error = "-OOM command not allowed when used memory > 'maxmemory'.";
            assert_eq!(output(&mut server, mover), error);
            assert_eq!(output(&mut server, taker), "*2 $4 list $1 x");
        } else {
            assert_eq!(output(&mut server, mover), "$1 x", "keys are evicted for it");
        }
    }
}

#[test]
fn commands_and_waiters_that_take_memory_are_refused_while_the_system_has_none() {
    let error = "-OOM command not allowed: the system has no memory left";
    let mut server = Server::new(1, NOW_MS);
    let [mover, taker, writer] = [0; 3].map(|seat| server.connect(seat));
    call(&mut server, writer, "RPUSH other x");
    call(&mut server, mover, "BLMOVE list to LEFT RIGHT 0");
    call(&mut server, taker, "BLPOP list 0");
    server.host.set_lacks_memory(true);
    assert_eq!(call(&mut server, writer, "SET key value"), error);
    assert_eq!(call(&mut server, writer, "EXISTS key other"), ":1");
    assert_eq!(call(&mut server, writer, "RENAME other list"), "+OK");
    server.settle();
    assert_eq!(output(&mut server, mover), error);
    assert_eq!(output(&mut server, taker), "*2 $4 list $1 x");
    server.host.set_lacks_memory(false);
    assert_eq!(call(&mut server, writer, "SET key value"), "+OK");
}

#[test]
fn small_registrations_are_refused_while_the_system_has_no_memory() {
    let error = "-OOM command not allowed: the system has no memory left";
    let mut server = Server::new(1, NOW_MS);
    let [client, tracker] = [0; 2].map(|seat| server.connect(seat));
    call(&mut server, client, "RPUSH list x");
    call(&mut server, client, "EVAL return(1) 0");
    call(&mut server, tracker, "HELLO 3");
    call(&mut server, tracker, "CLIENT TRACKING ON");
    server.host.set_lacks_memory(true);
    for refused in [
        "SUBSCRIBE a",
        "PSUBSCRIBE a*",
        "SSUBSCRIBE a",
        "WATCH a",
        "SCRIPT LOAD return(2)",
        "CLIENT TRACKING ON",
        "CLIENT SETNAME a",
        "CLIENT SETINFO LIB-NAME a",
        "ACL SETUSER u on",
        "BLPOP none 0",
        "XREAD BLOCK 0 STREAMS none $",
    ] {
        assert_eq!(call(&mut server, client, refused), error, "{refused}");
    }
    assert_eq!(call(&mut server, tracker, "GET a"), error);
    let compiled = call(&mut server, client, "EVAL return(2) 0");
    assert!(compiled.contains("not enough memory"), "{compiled}");
    for (taken, expected) in [
        ("EVAL return(1) 0", ":1"),
        ("BLPOP none list 0", "*2 $4 list $1 x"),
        ("UNWATCH", "+OK"),
        ("GET a", "$-1"),
        ("PING", "+PONG"),
        ("CONFIG SET maxmemory 1gb", "+OK"),
        ("DEL a", ":0"),
    ] {
        assert_eq!(call(&mut server, client, taken), expected, "{taken}");
    }
    server.host.set_lacks_memory(false);
    assert_eq!(call(&mut server, client, "WATCH a"), "+OK");
    assert_eq!(call(&mut server, tracker, "GET a"), "_");
}

/// Timeouts in seconds are numbers of C's wide type, rounded up to milliseconds.
#[test]
fn timeouts_are_read_as_by_valkey() {
    const MAX: u64 = u64::MAX;
    for (timeout, waits_ms) in [
        ("0", MAX),
        ("-0", MAX),
        ("-0.0000001", MAX),
        ("-1e-400", MAX),
        // A thousandth is a little less in that type.
        ("-0.001", MAX),
        ("0x1", 1000),
        ("0x.8p1", 1000),
        ("1e-400", 1),
        ("0.0001", 1),
        ("+1e-3", 1),
        ("1.0005", 1001),
        ("2", 2000),
    ] {
        let mut server = Server::new(1, NOW_MS);
        let client = server.connect(0);
        assert_eq!(call(&mut server, client, &format!("BLPOP k {timeout}")), "", "{timeout}");
        let before_ms = if waits_ms == MAX { 1_000_000 } else { waits_ms - 1 };
        server.clock.advance_ms(before_ms);
        server.settle();
        assert!(server.is_blocked(client), "{timeout}");
        if waits_ms != MAX {
            server.clock.advance_ms(1);
            server.settle();
            assert_eq!(output(&mut server, client), "*-1", "{timeout}");
        }
    }
    for (timeout, error) in [
        ("-1", "is negative"),
        ("-0.002", "is negative"),
        ("-1e400", "is negative"),
        ("-inf", "is negative"),
        ("1e400", "is out of range"),
        ("inf", "is out of range"),
        ("9223372036854775807", "is out of range"),
        ("9223372036854775", "is out of range"),
        ("nan", "is not a float or out of range"),
        ("1x", "is not a float or out of range"),
        ("99999999999999999999", "is out of range"),
    ] {
        let mut server = Server::new(1, NOW_MS);
        let client = server.connect(0);
        let reply = call(&mut server, client, &format!("BLPOP k {timeout}"));
        assert_eq!(reply, format!("-ERR timeout {error}"), "{timeout}");
    }
}

#[test]
fn a_client_that_leaves_keys_untouched_does_so_when_it_is_served() {
    for (touch, idle_s) in [("ON", 60), ("OFF", 0)] {
        let mut server = Server::new(1, NOW_MS);
        let (waiting, caller) = (server.connect(0), server.connect(0));
        call(&mut server, caller, "XADD other * f v");
        server.clock.advance_ms(60_000);
        call(&mut server, waiting, &format!("CLIENT NO-TOUCH {touch}"));
        call(&mut server, waiting, "XREAD BLOCK 0 STREAMS stream other $ $");
        server.clock.advance_ms(if touch == "ON" { 0 } else { 60_000 });
        call(&mut server, caller, "XADD stream * f v");
        server.settle();
        assert!(output(&mut server, waiting).contains("stream"));
        let idle = call(&mut server, caller, "OBJECT IDLETIME other");
        assert_eq!(idle, format!(":{idle_s}"), "NO-TOUCH {touch}");
    }
}
