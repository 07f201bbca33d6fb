//! Flushed data is freed behind its grace period, not at some later tick.

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
