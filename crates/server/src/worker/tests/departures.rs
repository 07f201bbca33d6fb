//! Connections that leave a worker while an event or a message for them is on its way.

use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};

use super::*;
use crate::handover::Arrival;
use crate::limits::OVERDUE_US;
use crate::listen::Listener;

/// Lets the worker accept at a Unix socket; returns its address.
fn listen(server: &mut Server) -> SocketAddr {
    let name = format!("tidemill-departures-{}", std::process::id());
    let address = SocketAddr::from_abstract_name(&name).expect("a short name");
    let socket = UnixListener::bind_addr(&address).expect("nobody else has that name");
    socket.set_nonblocking(true).expect("an option of every socket");
    let listener = Listener { socket: socket.into(), unix_path: Some(name), is_tls: false };
    let EventLoop { arrivals, poll, .. } = &mut server.event_loop;
    arrivals.replace_listeners(poll, vec![Arc::new(listener)]);
    address
}

/// The hang-up of a killed client is reported by the kernel before the worker closes that client's
/// connection, and handled when another one has been accepted.
#[test]
fn event_of_a_closed_connection_does_not_reach_the_next_one() {
    let mut server = Server::new();
    let killed = server.connect();
    // Nothing is left to be reported: the kernel reports the following events in their order.
    server.iterate();
    let session = server.connection(&killed).session.id();
    let address = listen(&mut server);
    let socket = UnixStream::connect_addr(&address).expect("the queue has room");
    socket.set_nonblocking(true).expect("an option of every socket");
    let Peer { socket: hung_up, index } = killed;
    drop(hung_up);
    server.shared.mailboxes.post(0, Message::Kill { session });
    server.idle();
    let mut reported: Vec<EventSource> = server.events.iter().map(EventSource::of).collect();
    reported.retain(|&source| source != EventSource::Waker);
    assert_eq!(reported, [EventSource::Listener(0), EventSource::Connection(index)]);
    let connections = &server.event_loop.connections;
    assert_eq!(connections.len(), 1, "one was closed, and one accepted");
    assert!(connections.of_session(session).is_none());
    let (next_index, _) = connections.iter().next().expect("the accepted one");
    let mut next = Peer { socket, index: next_index };
    next.send("PING\r\n");
    server.iterate();
    assert_eq!(next.receive(), "+PONG\r\n");
    assert!(server.has(&next));
    assert_eq!(server.event_loop.connections.next_index(), index, "it is used again now");
}

/// A connection that was handed to worker 1, which has not taken it, and its session.
fn handed_on(server: &mut Server) -> (Peer, u64) {
    let peer = server.connect();
    server.iterate();
    let client = Arc::clone(&server.connection(&peer).session.client);
    server.event_loop.hand_on(peer.index, 1, server.clock.monotonic_us());
    assert_eq!(client.owner(), 1);
    (peer, client.id)
}

/// Takes what worker 1 has not taken in time, without making it a connection yet.
fn taken_from_other(server: &Server) -> Vec<Arrival> {
    let late_us = server.clock.monotonic_us() + OVERDUE_US;
    server.event_loop.spec.handover.take_overdue(0, late_us)
}

/// Lets the event loop act as worker 1, for something that needs none of its connections.
fn as_other(server: &mut Server, act: impl FnOnce(&mut EventLoop<Qsbr>)) {
    server.event_loop.spec.index = 1;
    act(&mut server.event_loop);
    server.event_loop.spec.index = 0;
}

/// Lets worker 1 deliver its messages: as it has no connections, those of a worker that lacks the
/// one that a message is for.
fn deliver_as_other(server: &mut Server) {
    let now_us = server.clock.monotonic_us();
    as_other(server, |event_loop| event_loop.deliver(now_us));
}

fn evicted_count(server: &Server) -> u64 {
    server.shared.stats[0].evicted_clients.value()
}

#[test]
fn client_that_is_ended_between_two_workers_is_closed_by_the_one_that_takes_it() {
    let kill = |server: &mut Server, control: &mut Peer, session: u64| {
        control.send(&format!("CLIENT KILL ID {session}\r\n"));
        server.iterate();
        assert_eq!(control.receive(), ":1\r\n");
    };
    // By a command of its own, so that it is not marked as killed.
    let evict = |server: &mut Server, _: &mut Peer, session: u64| {
        server.shared.evict_clients(0, Some(session));
    };
    for (end, expected_evictions) in [(kill as fn(&mut Server, &mut Peer, u64), 0), (evict, 1)] {
        let mut server = Server::new();
        let mut control = server.connect();
        control.send("CLIENT NO-EVICT ON\r\n");
        let (mut peer, session) = handed_on(&mut server);
        assert_eq!(control.receive(), "+OK\r\n");
        end(&mut server, &mut control, session);
        let taken = taken_from_other(&server);
        assert_eq!(taken.len(), 1);
        deliver_as_other(&mut server);
        assert!(!server.shared.mailboxes.has_messages(1));
        assert!(server.shared.mailboxes.has_messages(0), "the one that has it is told");
        taken.into_iter().for_each(|arrival| server.event_loop.accept_arrival(arrival));
        server.idle();
        assert!(server.event_loop.connections.of_session(session).is_none());
        assert!(server.shared.clients.find(session).is_none());
        assert_eq!(peer.socket.read(&mut [0; 1]).expect("the end of the stream"), 0);
        assert_eq!(evicted_count(&server), expected_evictions);
    }
}

#[test]
fn client_evicted_on_its_way_to_a_worker_is_counted_once() {
    let mut server = Server::new();
    let (_peer, session) = queued(&mut server);
    server.shared.evict_clients(0, None);
    server.idle();
    assert!(server.event_loop.connections.of_session(session).is_none());
    // Its end was posted once.
    server.idle();
    assert!(!server.shared.mailboxes.has_messages(0));
    assert_eq!((server.event_loop.connections.len(), evicted_count(&server)), (0, 1));
}

#[test]
fn push_for_a_client_between_two_workers_is_sent_by_the_one_that_takes_it() {
    let mut server = Server::new();
    let (mut peer, session) = handed_on(&mut server);
    let taken = taken_from_other(&server);
    as_other(&mut server, |event_loop| {
        event_loop.execution.reply_mut().raw(b"+pushed\r\n");
        event_loop.pass_on(session);
    });
    taken.into_iter().for_each(|arrival| server.event_loop.accept_arrival(arrival));
    server.idle();
    assert_eq!(peer.receive(), "+pushed\r\n");
}

/// A connection that waits in the worker's own queue, which was looked at before, and its session.
fn queued(server: &mut Server) -> (Peer, u64) {
    let peer = server.connect();
    server.iterate();
    let session = server.connection(&peer).session.id();
    server.event_loop.hand_on(peer.index, 0, server.clock.monotonic_us());
    (peer, session)
}

#[test]
fn message_for_a_client_that_is_about_to_arrive_waits_for_it() {
    let mut server = Server::new();
    let (mut peer, session) = queued(&mut server);
    server.event_loop.receive(Message::Kill { session });
    server.idle();
    assert!(server.shared.clients.find(session).is_none());
    assert_eq!(peer.socket.read(&mut [0; 1]).expect("the end of the stream"), 0);
    server.event_loop.receive(Message::Kill { session });
    assert!(!server.shared.mailboxes.has_messages(0), "nobody waits for one that has ended");
}

#[test]
fn push_for_a_client_that_is_about_to_arrive_waits_for_it() {
    let mut server = Server::new();
    let (mut peer, session) = queued(&mut server);
    server.event_loop.execution.reply_mut().raw(b"+pushed\r\n");
    server.event_loop.pass_on(session);
    server.idle();
    assert_eq!(peer.receive(), "+pushed\r\n");
}

/// As of one whose command finds the element there.
#[test]
fn a_client_that_waited_is_closed_for_a_reply_above_its_limit() {
    for waits in [true, false] {
        let mut server = Server::new();
        let (mut reader, mut writer) = (server.connect(), server.connect());
        writer.send("CONFIG SET client-output-buffer-limit \"normal 100000 0 0\"\r\n");
        server.iterate();
        assert_eq!(writer.receive(), "+OK\r\n");
        let element = "v".repeat(150_000);
        let push = format!("*3\r\n$5\r\nRPUSH\r\n$1\r\nq\r\n$150000\r\n{element}\r\n");
        if waits {
            reader.send("BLPOP q 0\r\n");
            server.iterate();
        }
        writer.send(&push);
        (0..5).for_each(|_| server.iterate());
        if !waits {
            reader.send("BLPOP q 0\r\n");
            (0..5).for_each(|_| server.iterate());
        }
        assert_eq!(server.shared.stats[0].output_limit_disconnections.value(), 1, "{waits}");
    }
}
