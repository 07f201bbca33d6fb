//! Waits and watches leave nothing behind, however they end and whatever slot is taken meanwhile.

use std::sync::Arc;

use crate::harness::Server;
use tidemill_engine::shared::Shared;
use tidemill_store::SlotNumber;

const NOW_MS: u64 = 1_700_000_000_000;

/// Keys that are registered in all slots: watched, waited for.
fn registered(shared: &Shared) -> (usize, usize) {
    let mut sum = (0, 0);
    for slot in SlotNumber::all() {
        let mut lock = shared.keyspace.try_lock(slot).expect("nobody else is here");
        if let Some(side) = lock.side_if_any() {
            let (watched, waited_for) = side.key_counts();
            sum = (sum.0 + watched, sum.1 + waited_for);
        }
    }
    sum
}

/// Remains of waits and watches: registrations, those still to be taken back, deadlines.
fn left(server: &mut Server, seat: usize) -> ((usize, usize), usize, usize) {
    let (worker, shared) = server.worker(seat);
    (registered(shared), worker.ended_registrations(), worker.deadlines.len())
}

const NOTHING: ((usize, usize), usize, usize) = ((0, 0), 0, 0);

#[test]
fn served_waits_leave_nothing_under_their_other_keys() {
    let mut server = Server::new(2, NOW_MS);
    let (waiter, writer) = (server.connect(0), server.connect(1));
    for round in 0..2_000 {
        let unique = format!("unique:{round}");
        let timeout = if round % 2 == 0 { "0" } else { "1000" };
        assert_eq!(server.call(waiter, &["BLPOP", "x", &unique, "x", &unique, timeout]), "");
        server.call(writer, &["RPUSH", "x", "value"]);
        assert_eq!(server.take_output(waiter), "*2\r\n$1\r\nx\r\n$5\r\nvalue\r\n");
    }
    assert_eq!(left(&mut server, 0), NOTHING);
}

#[test]
fn waits_leave_nothing_however_they_end() {
    for end in
        ["served", "timed out", "unblocked", "unblocked with an error", "gone", "gone when served"]
    {
        let mut server = Server::new(2, NOW_MS);
        let (waiter, other) = (server.connect(0), server.connect(1));
        let id = waiter.to_string();
        server.call(waiter, &["BLMPOP", "1", "3", "a", "b", "c", "LEFT"]);
        assert_eq!(left(&mut server, 0), ((0, 3), 0, 1), "{end}");
        match end {
            "served" => drop(server.call(other, &["RPUSH", "b", "1"])),
            "timed out" => server.clock.advance_ms(2_000),
            "unblocked" => drop(server.call(other, &["CLIENT", "UNBLOCK", &id])),
            "unblocked with an error" => {
                drop(server.call(other, &["CLIENT", "UNBLOCK", &id, "ERROR"]));
            }
            "gone" => server.disconnect(waiter),
            _ => {
                server.pipeline(other, b"RPUSH b 1\r\n");
                server.disconnect(waiter);
            }
        }
        server.settle();
        assert_eq!(left(&mut server, 0), NOTHING, "{end}");
    }
}

#[test]
fn a_slot_that_is_taken_gives_back_later_what_ended_meanwhile() {
    let mut server = Server::new(1, NOW_MS);
    let shared = Arc::clone(server.worker(0).1);
    let (waiter, watcher, writer) = (server.connect(0), server.connect(0), server.connect(0));
    // One slot each: a client that registers in a slot gives back what both kinds left there.
    let (waited_for, watched) =
        (SlotNumber::of_key(b"{waited-for}"), SlotNumber::of_key(b"{watched}"));
    assert_ne!(waited_for, watched);
    for round in 0..1_000 {
        // Without a boundary before, as where the slot is never free at one: who registers has the
        // slot, and settles.
        server.pipeline(waiter, format!("BLPOP x {{waited-for}}{round} 0\r\n").as_bytes());
        server.pipeline(watcher, format!("WATCH {{watched}}{round} y\r\n").as_bytes());
        let taken =
            [waited_for, watched].map(|slot| shared.keyspace.try_lock(slot).expect("it is free"));
        server.call(writer, &["RPUSH", "x", "value"]);
        assert!(!server.take_output(waiter).is_empty(), "the key that was served is free");
        server.call(watcher, &["UNWATCH"]);
        let kept = server.worker(0).0.ended_registrations();
        assert_eq!(kept, 2, "those of this round only: who registered had the slot");
        drop(taken);
    }
    server.settle();
    assert_eq!(left(&mut server, 0), NOTHING);
}

#[test]
fn deadlines_behind_one_that_waits_go_when_they_are_over() {
    let mut server = Server::new(1, NOW_MS);
    let (patient, waiter, writer) = (server.connect(0), server.connect(0), server.connect(0));
    server.call(patient, &["BLPOP", "never", "1"]);
    for _ in 0..1_000 {
        server.call(waiter, &["BLPOP", "x", "1000"]);
        server.call(writer, &["RPUSH", "x", "value"]);
        assert!(!server.take_output(waiter).is_empty());
    }
    assert_eq!(server.worker(0).0.deadlines.len(), 1);
    server.clock.advance_ms(1_001);
    server.settle();
    assert_eq!(server.take_output(patient), "*-1\r\n");
    assert_eq!(left(&mut server, 0), NOTHING);
}

#[test]
fn watches_of_a_million_keys_leave_nothing() {
    const KEYS: usize = 1_000_000;
    const TOGETHER: usize = 10_000;
    let mut server = Server::new(1, NOW_MS);
    let client = server.connect(0);
    for (round, from) in (0..KEYS).step_by(TOGETHER).enumerate() {
        let keys: Vec<String> = (from..from + TOGETHER).map(|key| format!("k{key}")).collect();
        let words: Vec<&str> =
            ["WATCH"].into_iter().chain(keys.iter().map(String::as_str)).collect();
        assert_eq!(server.call(client, &words), "+OK\r\n");
        // Each way to end a watch in turn.
        for words in
            [&["UNWATCH"][..], &["MULTI", "DISCARD"], &["MULTI", "EXEC"], &["RESET"]][round % 4]
        {
            server.call(client, &[words]);
        }
        if from + TOGETHER < KEYS {
            continue;
        }
        assert_eq!(left(&mut server, 0), NOTHING);
        server.call(client, &words);
        server.disconnect(client);
    }
    assert_eq!(left(&mut server, 0), NOTHING);
}

#[test]
fn what_a_client_registers_counts_as_its_memory() {
    let mut server = Server::new(1, NOW_MS);
    let (client, other) = (server.connect(0), server.connect(0));
    let shared = Arc::clone(server.worker(0).1);
    let bytes = || shared.clients.find(client).expect("connected").memory_bytes();
    let idle = bytes();
    let long = "k".repeat(8_192);
    server.call(client, &["WATCH", &long]);
    assert!(bytes() >= idle + 8_192);
    server.call(client, &["UNWATCH"]);
    assert_eq!(bytes(), idle);
    server.call(client, &["BLPOP", &long, "x", "0"]);
    assert!(bytes() >= idle + 16_384, "the argument, and the slot's copy of the key");
    server.call(other, &["RPUSH", "x", "value"]);
    assert_eq!(bytes(), idle);
    // The name, of a pattern its literal part as well.
    for (begin, end, times) in [("SUBSCRIBE", "UNSUBSCRIBE", 1), ("PSUBSCRIBE", "RESET", 2)] {
        server.call(client, &[begin, &long, &long]);
        let named = times * 8_192;
        assert!((idle + named..idle + 2 * named).contains(&bytes()), "{begin}");
        server.call(client, &[end]);
        assert_eq!(bytes(), idle, "{end}");
    }
}
