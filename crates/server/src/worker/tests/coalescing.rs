//! Pauses before waits for events, `wakeup-coalescing-us`.

use super::*;

/// Requests in a tick, of which a pause of [`PAUSE_US`] gathers two.
const REQUESTS: u64 = 200;
const PAUSE_US: u64 = 1000;

/// A server whose worker may pause, with clients.
fn with_clients(count: usize) -> (Server, Vec<Peer>) {
    let mut server = Server::new();
    let mut clients: Vec<Peer> = (0..count).map(|_| server.connect()).collect();
    clients[0].send(&format!("CONFIG SET wakeup-coalescing-us {PAUSE_US}\r\n"));
    server.iterate();
    assert_eq!(clients[0].receive(), "+OK\r\n");
    // In force, and a tick begins.
    server.iterate();
    (server, clients)
}

/// Lets `clients` send in turn for a tick, each once it was answered; returns the number of pauses.
fn tick_of(server: &mut Server, clients: &mut [Peer]) -> u64 {
    let before = server.shared.stats[0].coalesced_waits.value();
    let count = clients.len();
    for number in 0..REQUESTS as usize {
        let client = &mut clients[number % count];
        client.send("PING\r\n");
        server.idle();
        assert_eq!(client.receive(), "+PONG\r\n");
        server.clock.advance_us(TICK_MS * 1000 / REQUESTS);
    }
    server.shared.stats[0].coalesced_waits.value() - before
}

#[test]
fn loaded_worker_pauses_until_its_load_ends() {
    let (mut server, mut clients) = with_clients(8);
    assert_eq!(tick_of(&mut server, &mut clients), 0, "the load is not known yet");
    let pauses = tick_of(&mut server, &mut clients);
    // None where a tick or a reclamation is nearer than a pause would last.
    assert!((REQUESTS / 2..=REQUESTS).contains(&pauses), "{pauses}");
    tick_of(&mut server, &mut clients[..1]);
    assert_eq!(tick_of(&mut server, &mut clients[..1]), 0, "one client waits for its replies");
}

#[test]
fn few_clients_in_a_closed_loop_are_never_delayed() {
    for count in 1..8 {
        let (mut server, mut clients) = with_clients(count);
        // Idle connections do not make it a load.
        let _idle: Vec<Peer> = (0..20).map(|_| server.connect()).collect();
        for _ in 0..3 {
            assert_eq!(tick_of(&mut server, &mut clients), 0, "{count} clients");
        }
    }
}

/// A worker whose next iterations follow a pause each, if nothing else is to be done.
fn pausing() -> (Server, Vec<Peer>) {
    let (mut server, mut clients) = with_clients(8);
    tick_of(&mut server, &mut clients);
    clients[0].send("PING\r\n");
    server.idle();
    assert_eq!(clients[0].receive(), "+PONG\r\n");
    let now_us = server.clock.monotonic_us();
    let wait_us = server.event_loop.look_again_us(now_us) - now_us;
    assert_eq!(server.event_loop.coalescing.pause_us(wait_us), PAUSE_US);
    (server, clients)
}

#[test]
fn message_posted_during_a_pause_is_delivered_behind_it() {
    let (mut server, mut clients) = pausing();
    let session = server.connection(&clients[3]).session.id();
    let paused = server.shared.stats[0].coalesced_waits.value();
    server.shared.mailboxes.post(0, Message::Kill { session });
    server.idle();
    assert_eq!(server.shared.stats[0].coalesced_waits.value(), paused + 1);
    // The wait that follows a wake-up alone is not preceded by a pause.
    server.iterate();
    assert!(server.event_loop.connections.of_session(session).is_none());
    assert_eq!(server.shared.stats[0].coalesced_waits.value(), paused + 1);
    clients.remove(3);
    assert_eq!(clients[3].receive(), "");
}

#[test]
fn deadline_of_a_blocked_client_is_not_overslept() {
    let (mut server, mut clients) = pausing();
    clients[0].send("BLPOP missing 0.001\r\n");
    server.idle();
    clients[1].send("PING\r\n");
    let paused = server.shared.stats[0].coalesced_waits.value();
    server.idle();
    assert_eq!(server.shared.stats[0].coalesced_waits.value(), paused, "its end is nearer");
    assert_eq!(clients[1].receive(), "+PONG\r\n");
    server.clock.advance_us(1000);
    server.iterate();
    server.iterate();
    assert_eq!(clients[0].receive(), "*-1\r\n");
}

#[test]
fn work_that_is_left_is_not_paused_before() {
    let (mut server, mut clients) = pausing();
    // Two turns in an iteration, and more left.
    clients[0].send(&"MEMORY PURGE\r\n".repeat(8));
    server.idle();
    assert!(server.event_loop.scheduler.queued_count() > 0);
    let paused = server.shared.stats[0].coalesced_waits.value();
    server.idle();
    assert_eq!(server.shared.stats[0].coalesced_waits.value(), paused);
}
