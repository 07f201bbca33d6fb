//! Flushed data is freed behind its grace period, not at some later tick.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::harness::Server;

const NOW_MS: u64 = 1_700_000_000_000;

/// A server of one worker with some keys, and a client.
fn filled(keys: u32) -> (Server, u64) {
    let mut server = Server::new(1, NOW_MS);
    let client = server.connect(0);
    for key in 0..keys {
        server.call(client, &["SET", &format!("key:{key}"), &"x".repeat(100)]);
    }
    (server, client)
}

fn pending_bytes(server: &mut Server) -> u64 {
    server.worker(0).1.lazily_freed().bytes
}

#[test]
fn little_data_is_freed_before_the_reply() {
    for mode in ["ASYNC", "SYNC"] {
        let (mut server, client) = filled(10);
        assert_eq!(server.call(client, &["FLUSHALL", mode]), "+OK\r\n");
        assert_eq!(pending_bytes(&mut server), 0, "{mode}");
    }
}

#[test]
fn much_data_is_freed_without_a_tick() {
    let (mut server, client) = filled(10_000);
    assert_eq!(server.call(client, &["FLUSHDB", "ASYNC"]), "+OK\r\n");
    // On a thread of its own, which nothing here starts later.
    let deadline = Instant::now() + Duration::from_secs(60);
    while pending_bytes(&mut server) > 0 {
        assert!(Instant::now() < deadline, "it is never freed");
        std::thread::yield_now();
    }
    assert_eq!(server.call(client, &["FLUSHDB", "ASYNC"]), "+OK\r\n");
    assert_eq!(pending_bytes(&mut server), 0, "nothing is left of nothing");
}

#[test]
fn walks_go_round_through_the_databases_that_were_written() {
    let mut server = Server::new(1, NOW_MS);
    let client = server.connect(0);
    let shared = Arc::clone(server.worker(0).1);
    let keyspace = &shared.keyspace;
    let mut after = |commands: &[&[&str]]| {
        for words in commands {
            assert_eq!(server.call(client, words), "+OK\r\n", "{words:?}");
        }
        let all: Vec<usize> = keyspace.written(0..usize::MAX).collect();
        assert_eq!(all.len(), keyspace.written_count());
        all
    };
    assert_eq!(after(&[&["SELECT", "3"]]), []);
    assert_eq!(keyspace.written_behind(3), 0);
    assert_eq!(after(&[&["SET", "k", "v"]]), [3]);
    assert_eq!(keyspace.written_behind(3), 3);
    assert_eq!(after(&[&["SELECT", "9"][..], &["SET", "k", "v"]]), [3, 9]);
    assert_eq!([0, 3, 8, 9, 15].map(|from| keyspace.written_behind(from)), [3, 9, 9, 3, 3]);
    assert_eq!(keyspace.written(4..9).next(), None);
    assert_eq!(after(&[&["SWAPDB", "3", "12"]]), [9, 12]);
    assert_eq!(after(&[&["FLUSHDB"]]), [12]);
    assert_eq!(after(&[&["FLUSHALL"]]), []);
}
