//! The publications of a unit are one change to readers: while a second publication is to come,
//! they wait.

use std::sync::Arc;

use crate::harness::Server;
use tidemill_engine::execute::Next;
use tidemill_store::SlotNumber;

const NOW_MS: u64 = 1_700_000_000_000;

/// Runs commands one after the other and returns what the last one published, and how.
fn published(server: &mut Server, client: u64, commands: &[&[&str]]) -> Vec<(String, bool)> {
    for words in commands {
        server.publications.take();
        let reply = server.call(client, words);
        assert!(!reply.starts_with('-'), "{words:?}: {reply}");
    }
    let all = server.publications.take().into_iter();
    all.map(|each| (format!("{} {}", each.event, each.key), each.is_held)).collect()
}

type Words = &'static [&'static str];

#[test]
fn a_lone_command_of_a_transaction_is_held_as_it_is_outside() {
    let lone: [(&str, &[Words], Words); 11] = [
        ("MSET", &[], &["MSET", "a", "1", "b", "2"]),
        ("MSET of one slot", &[], &["MSET", "{t}a", "1", "{t}b", "2"]),
        ("RENAME", &[&["SET", "a", "1"]], &["RENAME", "a", "b"]),
        ("MOVE", &[&["SET", "a", "1"]], &["MOVE", "a", "1"]),
        ("LMOVE", &[&["RPUSH", "a", "1"]], &["LMOVE", "a", "b", "LEFT", "LEFT"]),
        ("SMOVE", &[&["SADD", "a", "1"]], &["SMOVE", "a", "b", "1"]),
        ("SUNIONSTORE", &[&["SADD", "a", "1"]], &["SUNIONSTORE", "b", "a", "c"]),
        ("COPY", &[&["SET", "a", "1"]], &["COPY", "a", "b"]),
        ("DEL", &[&["MSET", "a", "1", "b", "1"]], &["DEL", "a", "b"]),
        ("SORT", &[&["RPUSH", "a", "1"]], &["SORT", "a", "STORE", "b"]),
        ("BITOP", &[&["SET", "a", "1"]], &["BITOP", "NOT", "b", "a"]),
    ];
    for (name, prepare, command) in lone {
        for in_transaction in [false, true] {
            let mut server = Server::with_events(1, NOW_MS, true);
            let client = server.connect(0);
            let mut commands = prepare.to_vec();
            match in_transaction {
                true => commands.extend([&["MULTI"][..], command, &["EXEC"]]),
                false => commands.push(command),
            }
            let all = published(&mut server, client, &commands);
            assert!(!all.is_empty(), "{name} publishes something");
            assert!(all.iter().all(|(_, is_held)| *is_held), "{name}, {in_transaction}: {all:?}");
        }
    }
}

#[test]
fn one_publication_holds_nobody_up() {
    for command in [&["SET", "a", "1"][..], &["RPUSH", "a", "1", "2"], &["GETDEL", "a"]] {
        for in_transaction in [false, true] {
            let mut server = Server::with_events(1, NOW_MS, true);
            let client = server.connect(0);
            let commands: &[&[&str]] =
                if in_transaction { &[&["MULTI"], command, &["EXEC"]] } else { &[command] };
            let all = published(&mut server, client, commands);
            assert!(all.iter().all(|(_, is_held)| !is_held), "{command:?}: {all:?}");
        }
    }
}

/// `PFCOUNT` stores its estimate, although it reads.
#[test]
fn estimates_that_a_transaction_stores_are_held() {
    let count = |key| ["PFCOUNT", key];
    for (commands, is_held) in [
        (&[count("h")][..], false),
        (&[count("h"), count("g")], true),
        (&[count("h"), ["GET", "h"]], true),
        (&[["GET", "h"], ["GET", "g"]], false),
    ] {
        let mut server = Server::new(1, NOW_MS);
        let client = server.connect(0);
        server.call(client, &["PFADD", "h", "a"]);
        server.call(client, &["PFADD", "g", "a"]);
        server.call(client, &["MULTI"]);
        commands.iter().for_each(|command| drop(server.call(client, command)));
        let held = |server: &mut Server| server.worker(0).1.stats[0].held_units.value();
        let before = held(&mut server);
        server.call(client, &["EXEC"]);
        assert_eq!(held(&mut server) - before, u64::from(is_held), "{commands:?}");
    }
}

/// The script locks a slot that nobody named.
#[test]
fn a_script_goes_on_behind_an_estimate_that_was_stored_and_journaled() {
    let mut server = Server::new(1, NOW_MS);
    let client = server.connect(0);
    let script = ["EVAL", "return redis.call('GET','elsewhere')", "0"];
    for command in [&["PFADD", "h", "a"][..], &["MULTI"], &["PFCOUNT", "h"], &script] {
        server.call(client, command);
    }
    assert_eq!(server.call(client, &["EXEC"]), "*2\r\n:1\r\n$-1\r\n");
}

#[test]
fn a_hash_whose_fields_all_expired_is_never_seen_gone_while_it_comes_again() {
    for command in
        [&["HSET", "h", "f", "new"][..], &["HSETNX", "h", "g", "new"], &["HINCRBY", "h", "f", "1"]]
    {
        let mut server = Server::with_events(1, NOW_MS, true);
        let client = server.connect(0);
        server.call(client, &["HSET", "h", "f", "old"]);
        server.call(client, &["HPEXPIRE", "h", "5", "FIELDS", "1", "f"]);
        server.clock.advance_ms(10);
        server.publications.take();
        let all = published(&mut server, client, &[command]);
        assert!(all.iter().any(|(what, _)| what == "del h"), "it went: {all:?}");
        assert!(all.iter().any(|(what, _)| what == "new h"), "and came again: {all:?}");
        assert!(all.iter().all(|(_, is_held)| *is_held), "{command:?}: {all:?}");
    }
}

#[test]
fn attempts_that_do_not_count_are_no_hits_and_no_misses() {
    let mut server = Server::new(1, NOW_MS);
    let client = server.connect(0);
    server.call(client, &["SET", "there", "1"]);
    server.call(client, &["RPUSH", "list", ""]);
    let shared = Arc::clone(server.worker(0).1);
    let lookups = || {
        let stats = &shared.stats[0];
        [stats.keyspace_hits.value(), stats.keyspace_misses.value()]
    };
    let requests: [(&[u8], [u64; 2]); 3] = [
        (b"GET there\r\n", [1, 0]),
        (b"MGET there {there}2 there\r\n", [2, 1]),
        // It has found the list when it looks at the key that its arguments do not name.
        (b"SORT list BY nosort GET there*\r\n", [2, 0]),
    ];
    for (request, counted) in requests {
        let before = lookups();
        let mut lock = shared.keyspace.try_lock(SlotNumber::of_key(b"there")).expect("it is free");
        lock.mark_held();
        let next = server.turn_once(client, request);
        assert!(matches!(next, Next::WakeUp { .. }), "{}: {next:?}", request.escape_ascii());
        assert_eq!(lookups(), before, "no attempt counts");
        drop(lock);
        server.turn_once(client, b"");
        assert!(!server.take_output(client).is_empty());
        assert_eq!(lookups(), [before[0] + counted[0], before[1] + counted[1]]);
    }
}
