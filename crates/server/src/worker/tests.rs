//! A worker's event loop, driven iteration by iteration. Time stands still but for two commands: `MEMORY MALLOC-STATS` takes
//! [`LONG_US`], `MEMORY PURGE` [`SHORT_US`]. So who has how much of the worker is a matter of counting.

#![allow(unsafe_code)]

use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::atomic::AtomicU64;

use tidemill_engine::clock::Clock;
use tidemill_engine::commit::Sinks;
use tidemill_engine::config::Configuration;
use tidemill_engine::mailbox::Notify;
use tidemill_engine::shared::{AllocatorMemory, Host, SharedSpec};
use tidemill_rcu::{Domain, Limits, Qsbr};
use tidemill_store::hash::Seed;

use super::*;
use crate::handover::{Accepted, Placed};
use crate::limits::HELD_READ_US;
use crate::listen::Origin;

/// Four turns' time.
const LONG_US: u64 = 1000;
/// Two fit a turn, by the time after which no command begins that would take as long as the last one.
const SHORT_US: u64 = 100;
const START_US: u64 = 1_700_000_000_000_000;

/// Time that goes on when it is moved.
#[derive(Clone)]
struct Hands(Arc<AtomicU64>);

impl Hands {
    fn advance_us(&self, by_us: u64) {
        self.0.fetch_add(by_us, Ordering::SeqCst);
    }
}

impl Clock for Hands {
    fn unix_us(&self) -> u64 {
        self.monotonic_us()
    }

    fn monotonic_us(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }
}

/// Takes its time for two commands.
struct Slow(Hands);

impl Host for Slow {
    fn shut_down(&self) {}

    fn rewrite_configuration(&self, _: &Configuration) -> Result<(), String> {
        Ok(())
    }

    fn allocator(&self) -> AllocatorMemory {
        AllocatorMemory::default()
    }

    fn allocator_report(&self) -> String {
        self.0.advance_us(LONG_US);
        "long".into()
    }

    fn purge_memory(&self) {
        self.0.advance_us(SHORT_US);
    }

    fn facts(&self) -> Vec<(&'static str, String)> {
        Vec::new()
    }
}

/// The first of two workers; nobody drives the other one.
struct Server {
    event_loop: EventLoop<Qsbr>,
    shared: Arc<Shared>,
    hands: Hands,
    events: Vec<Event>,
}

/// A client's end of a connection, which never blocks, and the connection's place in the event loop.
struct Peer {
    socket: UnixStream,
    index: usize,
}

impl Server {
    fn new() -> Server {
        let hands = Hands(Arc::new(AtomicU64::new(START_US)));
        let wakers: Vec<Waker> =
            (0..2).map(|_| Waker::new().expect("an event descriptor")).collect();
        let shared = Arc::new(Shared::new(SharedSpec {
            database_count: 1,
            seed: Seed::new(1, 2),
            notifiers: wakers.iter().map(|waker| Box::new(waker.clone()) as _).collect(),
            clock: Box::new(hands.clone()),
            configuration: Configuration::default(),
            host: Box::new(Slow(hands.clone())),
            sinks: Sinks::default(),
        }));
        let domain = Domain::<Qsbr>::new().expect("qsbr needs nothing of the system");
        // SAFETY: nothing of one server's keyspace is used with another's.
        let member = unsafe { shared.keyspace.join_beside(&domain) }.expect("the first member");
        let worker = Worker::new(&shared, 0, member.heap(Limits::default()), 7);
        let spec = WorkerSpec {
            index: 0,
            shared: Arc::clone(&shared),
            listeners: Arc::new(Listeners::none(wakers.len())),
            waker: wakers[0].clone(),
            handover: Arc::new(Handover::new(wakers, 100)),
            stop: Arc::default(),
        };
        let event_loop = EventLoop::new(spec, member, worker).expect("an epoll descriptor");
        let mut server = Server { event_loop, shared, hands, events: Vec::with_capacity(16) };
        server.event_loop.busy_from_us = START_US;
        server
    }

    /// A connection that came from somewhere, accepted but not given to a worker yet.
    fn accepted(origin: Origin) -> (Accepted, UnixStream) {
        let (ours, socket) = UnixStream::pair().expect("two sockets");
        for end in [&ours, &socket] {
            end.set_nonblocking(true).expect("an option of every socket");
        }
        (Accepted { socket: ours.into(), origin }, socket)
    }

    fn connect(&mut self) -> Peer {
        let (accepted, socket) = Server::accepted(Origin::Unix { path: "/socket".into() });
        let handover = Arc::clone(&self.event_loop.spec.handover);
        let Placed::Here(accepted) = handover.place(0, accepted) else {
            panic!("the other worker has no fewer");
        };
        let index = self.event_loop.connections.vacant_key();
        self.event_loop.adopt(accepted);
        // As many for the other worker, so that the next one stays here too.
        let (other, _) = Server::accepted(Origin::Unix { path: "/socket".into() });
        assert!(matches!(handover.place(1, other), Placed::Here(_)));
        Peer { socket, index }
    }

    /// An iteration in which the worker does not idle, whatever clients do.
    fn iterate(&mut self) {
        self.event_loop.spec.waker.notify();
        self.idle();
    }

    /// An iteration that waits for clients, for a short time at most while somebody rests.
    fn idle(&mut self) {
        self.event_loop.iterate(&self.shared, &mut self.events).expect("epoll works");
    }

    fn connection(&self, peer: &Peer) -> &Connection {
        &self.event_loop.connections[peer.index]
    }

    fn asks_for_input(&self, peer: &Peer) -> bool {
        self.connection(peer).interest.contains(EventFlags::IN)
    }

    /// How often the worker read from a socket.
    fn read_count(&self) -> u64 {
        self.shared.stats[0].reads.value()
    }
}

impl Peer {
    fn send(&mut self, text: &str) {
        self.socket.write_all(text.as_bytes()).expect("the socket has room");
    }

    /// What has arrived, up to some 64 KiB.
    fn receive(&mut self) -> String {
        let mut bytes = vec![0; READ_BYTES];
        let count = match self.socket.read(&mut bytes) {
            Ok(count) => count,
            Err(error) if error.kind() == ErrorKind::WouldBlock => 0,
            Err(error) => panic!("{error}"),
        };
        bytes.truncate(count);
        String::from_utf8(bytes).expect("plain replies")
    }
}

/// One that asked for something long and for `behind`, and the neighbour beside which it rests. The neighbour has sent enough to
/// be busy for long, and counts in `count`.
fn debtor_beside(server: &mut Server, behind: &str) -> (Peer, Peer) {
    let (mut debtor, mut neighbour) = (server.connect(), server.connect());
    neighbour.send("PING\r\n");
    server.iterate();
    assert_eq!(neighbour.receive(), "+PONG\r\n");
    debtor.send(&format!("MEMORY MALLOC-STATS\r\n{behind}"));
    neighbour.send(&"MEMORY PURGE\r\nINCR count\r\n".repeat(30));
    server.iterate();
    (debtor, neighbour)
}

#[test]
fn who_had_a_long_turn_rests_until_its_neighbour_had_as_much() {
    let mut server = Server::new();
    let (mut debtor, _neighbour) = debtor_beside(&mut server, "GET count\r\n");
    assert!(debtor.receive().starts_with("$4\r\nlong\r\n"));
    assert!(server.connection(&debtor).is_resting && !server.asks_for_input(&debtor));
    let mut iterations = 0;
    let reply = loop {
        server.iterate();
        iterations += 1;
        let reply = debtor.receive();
        if !reply.is_empty() || iterations == 100 {
            break reply;
        }
    };
    // It owes 750 us. A turn of the neighbour takes 200 us, with two counts; the last of those it is owed, and the one before the
    // debtor's own turn, come whole.
    let count = reply.split("\r\n").nth(1).and_then(|count| count.parse::<u64>().ok());
    assert!((7..=11).contains(&count.unwrap_or(0)), "{reply:?} after {iterations} iterations");
    assert!(!server.connection(&debtor).is_resting && server.asks_for_input(&debtor));
}

#[test]
fn who_rests_is_not_read_until_the_rest_is_over() {
    let mut server = Server::new();
    let (mut debtor, neighbour) = debtor_beside(&mut server, "");
    debtor.receive();
    debtor.send("GET count\r\n");
    let read_count = server.read_count();
    server.iterate();
    server.iterate();
    assert!(server.connection(&debtor).is_resting);
    assert_eq!((server.read_count(), debtor.receive().as_str()), (read_count, ""));
    while server.connection(&neighbour).has_work() {
        server.iterate();
    }
    assert!(!debtor.receive().is_empty());
}

#[test]
fn a_rest_ends_when_nobody_else_has_anything_to_do() {
    let mut server = Server::new();
    let (mut debtor, mut neighbour) = (server.connect(), server.connect());
    neighbour.send("PING\r\n");
    server.iterate();
    debtor.send("MEMORY MALLOC-STATS\r\nPING\r\n");
    server.iterate();
    debtor.receive();
    assert!(server.connection(&debtor).is_resting);
    server.idle();
    assert_eq!(debtor.receive(), "+PONG\r\n");
    assert!(!server.connection(&debtor).is_resting);
}

#[test]
fn nobody_rests_without_neighbours_or_for_short_commands() {
    let mut server = Server::new();
    let mut alone = server.connect();
    alone.send("MEMORY MALLOC-STATS\r\nPING\r\n");
    server.iterate();
    assert!(alone.receive().ends_with("+PONG\r\n"), "its next turn comes at once");
    let mut other = server.connect();
    other.send("PING\r\n");
    alone.send(&"MEMORY PURGE\r\n".repeat(20));
    for _ in 0..20 {
        server.iterate();
        assert!(!server.connection(&alone).is_resting);
    }
    assert_eq!(alone.receive(), "+OK\r\n".repeat(20));
}

#[test]
fn a_turn_ends_before_a_command_like_its_last_that_would_outlast_it() {
    let mut server = Server::new();
    let mut client = server.connect();
    client.send(&"MEMORY PURGE\r\n".repeat(8));
    // Two turns in the first iteration, what was read and what was left of it, and one in each that follows.
    for expected_count in [4, 2, 2] {
        server.iterate();
        assert_eq!(client.receive(), "+OK\r\n".repeat(expected_count));
    }
}

/// A client that has asked for `count` values of a mebibyte, and for more behind that, and takes nothing.
fn held(server: &mut Server, count: usize, behind: &str) -> Peer {
    let mut client = server.connect();
    client.send("SETRANGE value 1048575 x\r\n");
    server.iterate();
    assert_eq!(client.receive(), ":1048576\r\n");
    client.send(&"GET value\r\n".repeat(count));
    // One value at a time, and then nothing in the queue any more.
    for _ in 0..=count {
        server.iterate();
    }
    assert_eq!(server.connection(&client).mode, Mode::Held);
    client.send(behind);
    client
}

#[test]
fn who_takes_no_replies_is_read_once_in_a_while() {
    let mut server = Server::new();
    let pings = "PING\r\n".repeat(2 * READ_BYTES / 6 + 1);
    let client = held(&mut server, 80, &pings);
    let kept_bytes = server.connection(&client).input.len();
    let read_count = server.read_count();
    for round in 1..=2 {
        for _ in 0..5 {
            server.iterate();
            assert_eq!(server.read_count(), read_count + round);
            assert!(!server.asks_for_input(&client), "the kernel would tell of it without end");
        }
        let read_bytes = server.connection(&client).input.len() - kept_bytes;
        assert_eq!(read_bytes, round as usize * READ_BYTES);
        server.hands.advance_us(HELD_READ_US - 1);
        server.iterate();
        assert!(!server.asks_for_input(&client), "nor a moment too early");
        server.hands.advance_us(1);
        server.iterate();
        assert!(server.asks_for_input(&client));
    }
}

#[test]
fn who_takes_its_replies_at_last_gets_them_all() {
    const VALUES: usize = 70;
    let mut server = Server::new();
    let pings = "PING\r\n".repeat(20_000);
    let mut client = held(&mut server, VALUES, &pings);
    let wanted = VALUES * ("$1048576\r\n\r\n".len() + (1 << 20)) + "+PONG\r\n".len() * 20_000;
    let (mut taken, mut last) = (0, String::new());
    for _ in 0..10_000 {
        server.iterate();
        loop {
            let text = client.receive();
            if text.is_empty() {
                break;
            }
            taken += text.len();
            last = text;
        }
        if taken >= wanted {
            break;
        }
    }
    assert_eq!(taken, wanted);
    assert!(last.ends_with("+PONG\r\n"));
}

#[test]
fn who_is_handed_over_is_judged_by_the_configuration_that_was_answered_before() {
    let mut server = Server::new();
    let mut control = server.connect();
    for (value, is_served) in [("no", true), ("yes", false)] {
        control.send(&format!("CONFIG SET protected-mode {value}\r\n"));
        server.iterate();
        assert_eq!(control.receive(), "+OK\r\n");
        let before = server.event_loop.connections.len();
        let far = |address: &str| {
            let address = String::from(address);
            Origin::Tcp { peer: address.clone(), local: address, is_loopback: false }
        };
        let handover = Arc::clone(&server.event_loop.spec.handover);
        // The other worker has more, so what it accepts goes to this one.
        while let Placed::Here(_) = handover.place(1, Server::accepted(far("192.0.2.1:1")).0) {}
        server.event_loop.deliver(server.hands.monotonic_us());
        assert_eq!(server.event_loop.connections.len() > before, is_served, "{value}");
    }
}
