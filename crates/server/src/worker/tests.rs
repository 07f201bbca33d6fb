//! A worker's event loop, driven iteration by iteration. Time is stopped but for two commands:
//! `MEMORY MALLOC-STATS` takes [`LONG_US`], `MEMORY PURGE` [`SHORT_US`]. Shares of the worker are
//! therefore a matter of counting.

#![allow(unsafe_code)]

use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;

use tidemill_engine::clock::Clock;
use tidemill_engine::commit::Sinks;
use tidemill_engine::config::Configuration;
use tidemill_engine::shared::{PauseMode, SharedSpec};
use tidemill_engine::slots::mailbox::{Message, Notify};
use tidemill_rcu::{Domain, Limits, Qsbr};
use tidemill_store::hash::Seed;
use tidemill_testkit::surroundings::{SilentHost, StoppedClock};

use super::*;
use crate::connection::Connection;
use crate::durability::Durability;
use crate::handover::{Accepted, Placed};
use crate::limits::{
    BLOCKED_READ_US, READ_BYTES, ROUND_US, TICK_MS, UNAUTHENTICATED_INPUT_BYTES_MAX,
    UNAUTHENTICATED_OUTPUT_BYTES_MAX,
};
use crate::listen::Origin;
use crate::tls::reception::Reception;

mod coalescing;
mod departures;
mod pauses;
mod postponed;
mod postponed_pushes;
mod unfinished_requests;

/// Four turns' time.
const LONG_US: u64 = 1000;
/// Duration of which two fit a turn, by the time after which no command begins that would take as
/// long again.
const SHORT_US: u64 = 100;
const START_US: u64 = 1_700_000_000_000_000;

/// The first of two workers; the other one's event loop does not run.
struct Server {
    event_loop: EventLoop<Qsbr>,
    shared: Arc<Shared>,
    clock: StoppedClock,
    events: Vec<Event>,
}

/// A client's end of a connection, which never blocks, and the connection's place in the event
/// loop.
struct Peer {
    socket: UnixStream,
    index: usize,
}

impl Server {
    fn new() -> Server {
        let clock = StoppedClock::new(START_US);
        let wakers: Vec<Waker> =
            (0..2).map(|_| Waker::new().expect("an event descriptor")).collect();
        let shared = Arc::new(Shared::new(SharedSpec {
            commands: tidemill_engine::execute::commands(),
            database_count: 1,
            seed: Seed::new(1, 2),
            notifiers: wakers.iter().map(|waker| Box::new(waker.clone()) as _).collect(),
            clock: Box::new(clock.clone()),
            configuration: Configuration::default(),
            host: Box::new(SilentHost::with_call_times(clock.clone(), LONG_US, SHORT_US)),
            sinks: Sinks::default(),
        }));
        let domain = Domain::<Qsbr>::new().expect("qsbr needs nothing of the system");
        // SAFETY: nothing of one server's keyspace is used with another's.
        let member = unsafe { shared.keyspace.join_beside(&domain) }.expect("the first member");
        let worker = Worker::new(&shared, 0, member.heap(Limits::default()), 7);
        let spec = WorkerSpec {
            index: 0,
            shared: Arc::clone(&shared),
            listeners: Arc::default(),
            waker: wakers[0].clone(),
            durability: Arc::new(Durability::new(&shared.configuration().server(), &wakers)),
            handover: Arc::new(Handover::new(wakers, 100)),
            reception: Arc::new(Reception::new(1).expect("an event descriptor")),
            stop: Arc::default(),
        };
        let event_loop = EventLoop::new(spec, member, worker).expect("an epoll descriptor");
        let mut server = Server { event_loop, shared, clock, events: Vec::with_capacity(16) };
        server.event_loop.load.begin(START_US);
        server
    }

    /// A connection that came from somewhere, accepted but not given to a worker yet.
    fn accepted(origin: Origin) -> (Accepted, UnixStream) {
        let (ours, socket) = UnixStream::pair().expect("two sockets");
        for end in [&ours, &socket] {
            end.set_nonblocking(true).expect("an option of every socket");
        }
        (Accepted::new(ours.into(), origin), socket)
    }

    fn connect(&mut self) -> Peer {
        let (accepted, socket) = Server::accepted(Origin::Unix { path: "/socket".into() });
        let handover = Arc::clone(&self.event_loop.spec.handover);
        let now_us = self.clock.monotonic_us();
        let Placed::Here(accepted) = handover.place(0, accepted, now_us) else {
            panic!("the other worker has no fewer");
        };
        let index = self.event_loop.connections.next_index();
        self.event_loop.adopt(accepted);
        // As many for the other worker, so that the next one stays here too.
        let (other, _) = Server::accepted(Origin::Unix { path: "/socket".into() });
        assert!(matches!(handover.place(1, other, now_us), Placed::Here(_)));
        Peer { socket, index }
    }

    /// Runs an iteration in which the worker does not idle, whatever clients do.
    fn iterate(&mut self) {
        self.event_loop.spec.waker.notify();
        self.idle();
    }

    /// Runs an iteration that waits for clients, for a short time at most while a connection is
    /// throttled.
    fn idle(&mut self) {
        self.event_loop.iterate(&self.shared, &mut self.events).expect("epoll works");
    }

    fn connection(&self, peer: &Peer) -> &Connection {
        &self.event_loop.connections[peer.index]
    }

    fn asks_for_input(&self, peer: &Peer) -> bool {
        self.connection(peer).interest.contains(EventFlags::IN)
    }

    /// Number of the worker's reads from sockets.
    fn read_count(&self) -> u64 {
        self.shared.stats[0].reads.value()
    }
}

impl Peer {
    fn send(&mut self, text: &str) {
        self.socket.write_all(text.as_bytes()).expect("the socket has room");
    }

    /// Bytes that have arrived, up to some 64 KiB.
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

/// Lets a first long turn pass, behind which turns are measured, and be forgotten as an activity.
fn take_a_long_turn(server: &mut Server, client: &mut Peer) {
    client.send("MEMORY MALLOC-STATS\r\n");
    server.iterate();
    client.receive();
    for _ in 0..2 {
        server.clock.advance_us(ROUND_US);
        server.iterate();
    }
}

/// A client that asked for a long command and for `behind`, and the neighbour beside which it is
/// throttled. The neighbour has sent enough to be busy for long, and counts in `count`.
fn debtor_beside(server: &mut Server, behind: &str) -> (Peer, Peer) {
    let (mut debtor, mut neighbour) = (server.connect(), server.connect());
    take_a_long_turn(server, &mut debtor);
    neighbour.send("PING\r\n");
    server.iterate();
    assert_eq!(neighbour.receive(), "+PONG\r\n");
    debtor.send(&format!("MEMORY MALLOC-STATS\r\n{behind}"));
    neighbour.send(&"MEMORY PURGE\r\nINCR count\r\n".repeat(30));
    server.iterate();
    (debtor, neighbour)
}

#[test]
fn connection_with_a_long_turn_is_throttled_until_its_neighbour_had_as_much() {
    let mut server = Server::new();
    let (mut debtor, _neighbour) = debtor_beside(&mut server, "GET count\r\n");
    assert!(debtor.receive().starts_with("$6\r\nreport\r\n"));
    assert!(server.connection(&debtor).state.is_throttled() && !server.asks_for_input(&debtor));
    let mut iterations = 0;
    let reply = loop {
        server.iterate();
        iterations += 1;
        let reply = debtor.receive();
        if !reply.is_empty() || iterations == 100 {
            break reply;
        }
    };
    // It owes 750 us. A turn of the neighbour takes 200 us, with two counts; the last of those it
    // is owed, and the one before the debtor's own turn, come whole.
    let count = reply.split("\r\n").nth(1).and_then(|count| count.parse::<u64>().ok());
    assert!((7..=11).contains(&count.unwrap_or(0)), "{reply:?} after {iterations} iterations");
    assert!(!server.connection(&debtor).state.is_throttled() && server.asks_for_input(&debtor));
}

#[test]
fn connection_whose_worker_was_preempted_is_not_throttled() {
    let mut server = Server::new();
    server.clock.set_preempted(true);
    let (mut client, _neighbour) = debtor_beside(&mut server, "PING\r\n");
    assert!(!server.connection(&client).state.is_throttled());
    server.iterate();
    assert!(client.receive().ends_with("+PONG\r\n"));
}

#[test]
fn throttled_connection_is_not_read_until_its_throttle_is_over() {
    let mut server = Server::new();
    let (mut debtor, neighbour) = debtor_beside(&mut server, "");
    debtor.receive();
    debtor.send("GET count\r\n");
    let read_count = server.read_count();
    server.iterate();
    server.iterate();
    assert!(server.connection(&debtor).state.is_throttled());
    assert_eq!((server.read_count(), debtor.receive().as_str()), (read_count, ""));
    while server.connection(&neighbour).has_work() {
        server.iterate();
    }
    assert!(!debtor.receive().is_empty());
}

#[test]
fn throttle_ends_when_no_other_connection_has_work() {
    let mut server = Server::new();
    let (mut debtor, mut neighbour) = (server.connect(), server.connect());
    take_a_long_turn(&mut server, &mut debtor);
    neighbour.send("PING\r\n");
    server.iterate();
    debtor.send("MEMORY MALLOC-STATS\r\nPING\r\n");
    server.iterate();
    debtor.receive();
    assert!(server.connection(&debtor).state.is_throttled());
    server.idle();
    assert_eq!(debtor.receive(), "+PONG\r\n");
    assert!(!server.connection(&debtor).state.is_throttled());
}

#[test]
fn connection_without_neighbours_or_with_short_commands_is_not_throttled() {
    let mut server = Server::new();
    let mut alone = server.connect();
    take_a_long_turn(&mut server, &mut alone);
    alone.send("MEMORY MALLOC-STATS\r\nPING\r\n");
    server.iterate();
    assert!(alone.receive().ends_with("+PONG\r\n"), "its next turn comes at once");
    let mut other = server.connect();
    other.send("PING\r\n");
    alone.send(&"MEMORY PURGE\r\n".repeat(20));
    for _ in 0..20 {
        server.iterate();
        assert!(!server.connection(&alone).state.is_throttled());
    }
    assert_eq!(alone.receive(), "+OK\r\n".repeat(20));
}

#[test]
fn a_turn_ends_before_a_command_like_its_last_that_would_outlast_it() {
    let mut server = Server::new();
    let mut client = server.connect();
    client.send(&"MEMORY PURGE\r\n".repeat(8));
    // Two turns in the first iteration, what was read and what was left of it, and one in each that
    // follows.
    for expected_count in [4, 2, 2] {
        server.iterate();
        assert_eq!(client.receive(), "+OK\r\n".repeat(expected_count));
    }
}

/// A client that has asked for `count` values of a mebibyte, and for more behind that, and takes
/// nothing.
fn output_blocked(server: &mut Server, count: usize, behind: &str) -> Peer {
    let mut client = server.connect();
    client.send("SETRANGE value 1048575 x\r\n");
    server.iterate();
    assert_eq!(client.receive(), ":1048576\r\n");
    client.send(&"GET value\r\n".repeat(count));
    // One value at a time, and then nothing in the queue any more.
    for _ in 0..=count {
        server.iterate();
    }
    assert!(server.connection(&client).state.is_output_blocked());
    client.send(behind);
    client
}

#[test]
fn output_blocked_connection_is_read_slowly() {
    let mut server = Server::new();
    let pings = "PING\r\n".repeat(2 * READ_BYTES / 6 + 1);
    let client = output_blocked(&mut server, 80, &pings);
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
        server.clock.advance_us(BLOCKED_READ_US - 1);
        server.iterate();
        assert!(!server.asks_for_input(&client), "nor a moment too early");
        server.clock.advance_us(1);
        server.iterate();
        assert!(server.asks_for_input(&client));
    }
}

#[test]
fn output_blocked_connection_that_reads_again_gets_all_replies() {
    const VALUES: usize = 70;
    let mut server = Server::new();
    let pings = "PING\r\n".repeat(20_000);
    let mut client = output_blocked(&mut server, VALUES, &pings);
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
fn connection_handed_over_is_judged_by_the_configuration_answered_before() {
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
        // The other worker has more, so its accepted connections go to this one.
        let now_us = server.clock.monotonic_us();
        let accepted = || Server::accepted(far("192.0.2.1:1")).0;
        while let Placed::Here(_) = handover.place(1, accepted(), now_us) {}
        server.event_loop.deliver(now_us);
        assert_eq!(server.event_loop.connections.len() > before, is_served, "{value}");
    }
}

/// Answer that a client which connects now gets.
fn answer(server: &mut Server, text: &str) -> String {
    let mut client = server.connect();
    client.send(text);
    server.iterate();
    client.receive()
}

/// True if the kernel reports the connections of clients although nothing happens.
fn reports_without_end(server: &mut Server) -> bool {
    // The first ones may have something to report.
    for _ in 0..5 {
        server.iterate();
    }
    // The waker alone.
    server.events.len() > 1
}

#[test]
fn command_that_waits_for_a_lock_is_executed_although_its_client_has_gone() {
    for closes_whole in [false, true] {
        let mut server = Server::new();
        let shared = Arc::clone(&server.shared);
        let slot = shared.keyspace.key_hash(b"taken").slot;
        let lock = shared.keyspace.try_lock(slot).expect("nobody has it");
        let mut client = server.connect();
        client.send("INCR taken\r\nINCR behind\r\n");
        server.iterate();
        assert!(server.connection(&client).state.is_waiting());
        client.send("INCR later\r\nINCR half");
        let index = client.index;
        let mut socket = Some(client.socket);
        if closes_whole {
            socket = None;
        } else if let Some(socket) = &socket {
            socket.shutdown(std::net::Shutdown::Write).expect("it is connected");
        }
        assert!(!reports_without_end(&mut server));
        assert!(server.event_loop.connections.contains(index), "it is there until it has run");
        drop(lock);
        server.iterate();
        server.iterate();
        assert!(!server.event_loop.connections.contains(index), "nothing is left to do for it");
        if let Some(socket) = socket {
            let mut client = Peer { socket, index };
            assert_eq!(client.receive(), ":1\r\n:1\r\n:1\r\n");
        }
        let left = answer(&mut server, "MGET taken behind later half\r\n");
        assert_eq!(left, "*4\r\n$1\r\n1\r\n$1\r\n1\r\n$1\r\n1\r\n$-1\r\n");
    }
}

#[test]
fn requests_of_an_output_blocked_client_that_closes_are_executed_to_the_end() {
    let mut server = Server::new();
    let client = output_blocked(&mut server, 80, &"INCR count\r\n".repeat(8000));
    assert!(server.connection(&client).output.len() > 60 << 20);
    let index = client.index;
    drop(client);
    let mut iterations = 0;
    while server.event_loop.connections.contains(index) {
        server.iterate();
        iterations += 1;
        assert!(iterations < 1000, "it is still there");
    }
    assert_eq!(answer(&mut server, "GET count\r\n"), "$4\r\n8000\r\n");
}

#[test]
fn requests_of_a_throttled_client_that_closes_are_executed_after_its_throttle() {
    let mut server = Server::new();
    let (debtor, neighbour) = debtor_beside(&mut server, "INCR own\r\n");
    assert!(server.connection(&debtor).state.is_throttled());
    let index = debtor.index;
    drop(debtor);
    server.iterate();
    assert!(server.event_loop.connections.contains(index), "it is throttled");
    while server.connection(&neighbour).has_work() {
        server.iterate();
    }
    server.iterate();
    assert!(!server.event_loop.connections.contains(index));
    assert_eq!(answer(&mut server, "GET own\r\n"), "$1\r\n1\r\n");
}

#[test]
fn client_that_half_closes_and_reads_late_gets_all_replies() {
    const VALUES: usize = 70;
    let mut server = Server::new();
    let mut client = output_blocked(&mut server, VALUES, "PING\r\n");
    client.socket.shutdown(std::net::Shutdown::Write).expect("it is connected");
    assert!(!reports_without_end(&mut server));
    let mut taken = 0;
    while server.event_loop.connections.contains(client.index) {
        server.iterate();
        taken += client.receive().len();
    }
    taken += client.receive().len() + client.receive().len();
    assert_eq!(taken, VALUES * ("$1048576\r\n\r\n".len() + (1 << 20)) + "+PONG\r\n".len());
}

/// A server that asks for a password, and a client that has given it.
fn with_password() -> (Server, Peer) {
    let mut server = Server::new();
    let mut control = server.connect();
    control.send("CONFIG SET requirepass secret\r\n");
    server.iterate();
    assert_eq!(control.receive(), "+OK\r\n");
    server.iterate();
    (server, control)
}

impl Server {
    fn has(&self, peer: &Peer) -> bool {
        self.event_loop.connections.contains(peer.index)
    }

    /// Iterates until a client that sends `text` and reads all replies has got `wanted` bytes, or
    /// is closed.
    fn serve(&mut self, peer: &mut Peer, text: &str, wanted: usize) -> String {
        let (mut sent, mut received) = (0, String::new());
        for _ in 0..10_000 {
            if let Ok(count) = peer.socket.write(&text.as_bytes()[sent..]) {
                sent += count;
            }
            self.iterate();
            received += &peer.receive();
            if received.len() >= wanted || !self.has(peer) {
                break;
            }
        }
        received
    }
}

#[test]
fn unauthenticated_client_has_little_of_half_a_request_kept() {
    let (mut server, _control) = with_password();
    // The longest password that the protocol allows, in pieces, is one that is wrong.
    let mut wrong = server.connect();
    let text = format!("*2\r\n$4\r\nAUTH\r\n$16384\r\n{}\r\n", "x".repeat(16_384));
    for piece in text.as_bytes().chunks(1000) {
        wrong.send(std::str::from_utf8(piece).expect("text"));
        server.iterate();
        assert!(server.connection(&wrong).input.len() <= UNAUTHENTICATED_INPUT_BYTES_MAX);
    }
    assert!(wrong.receive().starts_with("-WRONGPASS"));
    let mut greedy = server.connect();
    greedy.send(&format!("*3\r\n$5\r\nHELLO\r\n$16384\r\n{}\r\n$16384\r\n", "x".repeat(16_384)));
    server.iterate();
    assert!(server.connection(&greedy).input.len() <= UNAUTHENTICATED_INPUT_BYTES_MAX);
    greedy.send(&"x".repeat(1000));
    server.iterate();
    server.iterate();
    assert!(!server.has(&greedy), "half a request fills its place");
    assert!(server.has(&wrong));
    assert_eq!(server.shared.stats[0].query_limit_disconnections.value(), 1);
}

#[test]
fn unauthenticated_client_that_takes_no_replies_is_closed() {
    let (mut server, _control) = with_password();
    let mut deaf = server.connect();
    let mut piled_bytes = 0;
    for _ in 0..1000 {
        if !server.has(&deaf) {
            break;
        }
        let _ = deaf.socket.write("PING\r\n".repeat(1000).as_bytes());
        server.iterate();
        if server.has(&deaf) {
            piled_bytes = piled_bytes.max(server.connection(&deaf).output.len() as u64);
        }
    }
    assert!(!server.has(&deaf));
    assert!(piled_bytes <= UNAUTHENTICATED_OUTPUT_BYTES_MAX, "{piled_bytes}");
    assert_eq!(server.shared.stats[0].output_limit_disconnections.value(), 1);
}

#[test]
fn pipeline_behind_auth_is_not_limited_by_its_length() {
    const BEFORE: usize = 4000;
    const BEHIND: usize = 20_000;
    let refusal = "-NOAUTH Authentication required.\r\n";
    let value = "v".repeat(100_000);
    let behind = format!("SET k {value}\r\n{}", "PING\r\n".repeat(BEHIND));
    for auth in ["AUTH secret\r\n", "HELLO 2 AUTH default secret\r\n"] {
        let (mut server, _control) = with_password();
        let mut client = server.connect();
        let text = format!(
            "{}{auth}*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$100000\r\n{value}\r\n",
            "GET k\r\n".repeat(BEFORE)
        );
        let text = text + &behind[behind.find("PING").expect("it is there")..];
        let wanted = BEFORE * refusal.len() + BEHIND * "+PONG\r\n".len() + "+OK\r\n".len();
        let received = server.serve(&mut client, &text, wanted);
        assert!(received.starts_with(refusal) && received.ends_with("+PONG\r\n"));
        assert_eq!(received.matches(refusal).count(), BEFORE);
        assert_eq!(received.matches("+PONG\r\n").count(), BEHIND);
    }
}

#[test]
fn client_paused_before_authentication_is_read_again_afterwards() {
    let (mut server, mut control) = with_password();
    control.send("CLIENT PAUSE 60000 ALL\r\n");
    server.iterate();
    let mut client = server.connect();
    let text = format!("AUTH secret\r\n{}", "PING\r\n".repeat(20_000));
    let sent = client.socket.write(text.as_bytes()).expect("the socket has room");
    assert!(sent > 2 * UNAUTHENTICATED_INPUT_BYTES_MAX);
    assert!(!reports_without_end(&mut server), "it is not read on");
    assert!(server.connection(&client).input.len() <= UNAUTHENTICATED_INPUT_BYTES_MAX);
    server.clock.advance_us(61_000_000);
    let pings = (sent - "AUTH secret\r\n".len()) / "PING\r\n".len();
    let wanted = format!("+OK\r\n{}", "+PONG\r\n".repeat(pings));
    assert_eq!(server.serve(&mut client, "", wanted.len()), wanted);
}

/// Clients that sent a write which a pause holds back.
fn paused(server: &mut Server, count: usize) -> Vec<Peer> {
    let mut clients: Vec<Peer> = (0..count).map(|_| server.connect()).collect();
    clients.iter_mut().for_each(|client| client.send("INCR count\r\n"));
    for _ in 0..=count {
        server.iterate();
    }
    assert!(clients.iter().all(|client| server.connection(client).state.is_waiting()));
    clients
}

/// Number of the clients that have a reply.
fn answered(clients: &mut [Peer]) -> usize {
    clients
        .iter_mut()
        .filter_map(|client| Some(client.receive()).filter(|text| !text.is_empty()))
        .count()
}

#[test]
fn paused_session_is_retried_when_the_pause_ends_and_not_before() {
    let mut server = Server::new();
    server.shared.pause(PauseMode::Write, 1000);
    let mut clients = paused(&mut server, 3);
    // A pause that gets longer wakes no session at its old end.
    server.shared.pause(PauseMode::Write, 2000);
    for _ in 0..19 {
        server.clock.advance_us(100_000);
        server.iterate();
        assert!(clients.iter().all(|client| server.connection(client).state.is_waiting()));
    }
    server.clock.advance_us(99_999);
    let now_us = server.shared.clock.monotonic_us();
    server.event_loop.execution.postpone_sweep(now_us + 1_000_000);
    assert_eq!(server.event_loop.look_again_us(now_us), now_us + 1);
    server.clock.advance_us(1);
    server.iterate();
    server.iterate();
    assert_eq!(answered(&mut clients), 3);
}

#[test]
fn unpause_and_a_weaker_pause_behind_it_wake_paused_sessions() {
    let mut server = Server::new();
    server.shared.pause(PauseMode::Write, 1_000_000);
    let mut clients = paused(&mut server, 2);
    server.shared.unpause();
    // `unpause` rings; nothing else does.
    server.idle();
    server.idle();
    assert_eq!(answered(&mut clients), 2);
    server.shared.pause(PauseMode::All, 1_000_000);
    let mut reader = server.connect();
    reader.send("GET count\r\n");
    server.iterate();
    assert!(server.connection(&reader).state.is_waiting());
    server.shared.unpause();
    server.shared.pause(PauseMode::Write, 1_000_000);
    server.iterate();
    server.iterate();
    assert_eq!(reader.receive(), "$1\r\n2\r\n");
}

#[test]
fn session_that_ends_while_paused_leaves_nothing_behind() {
    let mut server = Server::new();
    server.shared.pause(PauseMode::Write, 1_000_000);
    let clients = paused(&mut server, 3);
    drop(clients);
    server.iterate();
    server.shared.unpause();
    server.iterate();
    let now_us = server.shared.clock.monotonic_us();
    let EventLoop { execution, scheduler, .. } = &server.event_loop;
    assert_eq!(scheduler.look_again_us(&server.shared, execution.worker(), now_us), None);
}

/// A message that is posted while the worker takes its wake-ups back is not left until the next
/// event.
#[test]
fn message_posted_behind_the_look_at_the_mailbox_is_delivered_next() {
    let mut server = Server::new();
    let client = server.connect();
    server.iterate();
    let now_us = server.shared.clock.monotonic_us();
    let session = server.connection(&client).session.id();
    server.event_loop.deliver(now_us);
    server.shared.mailboxes.post(0, Message::Kill { session });
    server.event_loop.handle(EventSource::Waker, EventFlags::IN);
    assert_eq!(server.event_loop.look_again_us(now_us), now_us);
    server.idle();
    assert_eq!(server.event_loop.connections.len(), 0);
    assert!(server.event_loop.look_again_us(now_us) > now_us);
}
