//! Memory of requests that have arrived in part.

use super::*;
use crate::input::Input;
use crate::limits::{RESERVED_INPUT_BYTES_MAX, RESERVED_TOGETHER_BYTES_MAX};

/// Clients that have announced ten megabytes each and sent 100,000 bytes of them.
fn half_senders(server: &mut Server, count: usize) -> Vec<Peer> {
    let announcement = "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$10000000\r\n";
    let mut peers: Vec<Peer> = (0..count).map(|_| server.connect()).collect();
    // The first one ends with a tick.
    server.iterate();
    for peer in &mut peers {
        peer.send(&format!("{announcement}{}", "v".repeat(100_000 - announcement.len())));
    }
    let arrived = |server: &Server, peer| server.connection(peer).input.len() == 100_000;
    for _ in 0..count {
        server.iterate();
    }
    assert!(peers.iter().all(|peer| arrived(server, peer)));
    peers
}

#[test]
fn announced_and_unsent_bytes_take_next_to_no_memory() {
    const SENDERS: usize = 40;
    let mut server = Server::new();
    let peers = half_senders(&mut server, SENDERS);
    let allocated = |server: &Server| -> Vec<usize> {
        peers.iter().map(|peer| server.connection(peer).input.allocated_bytes()).collect()
    };
    let sum = |server: &Server| allocated(server).iter().sum::<usize>();
    // A few have more room than they have sent, for the moment.
    assert!(allocated(&server)[0] > RESERVED_INPUT_BYTES_MAX);
    assert!(sum(&server) <= 2 * SENDERS * 100_000 + RESERVED_TOGETHER_BYTES_MAX + READ_BYTES);
    // The rest is late.
    for _ in 0..2 {
        server.clock.advance_us(TICK_MS * 1000);
        server.iterate();
    }
    assert!(allocated(&server).iter().all(|&bytes| bytes <= 200_000), "{:?}", allocated(&server));
    // All of that is counted, here and for others.
    for (peer, bytes) in peers.iter().zip(allocated(&server)) {
        let connection = server.connection(peer);
        assert!(connection.memory_bytes() > bytes as u64);
        assert!(connection.session.client.memory_bytes() > bytes as u64);
    }
}

#[test]
fn a_client_that_goes_on_sending_keeps_its_room() {
    const BYTES: usize = 1_000_000;
    let mut server = Server::new();
    let mut client = server.connect();
    server.iterate();
    // Not the last argument, which has memory of its own.
    client.send(&format!("*5\r\n$4\r\nMSET\r\n$1\r\nk\r\n${BYTES}\r\n"));
    let size = |server: &Server, client: &Peer| server.connection(client).input.allocated_bytes();
    let (mut sizes, mut sent) = (Vec::new(), 0);
    while sent + READ_BYTES <= BYTES {
        client.send(&"v".repeat(READ_BYTES));
        sent += READ_BYTES;
        server.iterate();
        server.clock.advance_us(TICK_MS * 1000);
        server.iterate();
        sizes.push(size(&server, &client));
    }
    assert!(sizes.is_sorted(), "{sizes:?}");
    // Until it is late.
    server.clock.advance_us(TICK_MS * 1000);
    server.iterate();
    let late = size(&server, &client);
    assert!(late < sent + READ_BYTES, "{late} of {sent}");
}

/// Sends a request piece by piece, and returns what `look` sees of the input behind each.
fn looks_at_arrival<T>(request: &str, mut look: impl FnMut(&Input) -> T) -> Vec<T> {
    let mut server = Server::new();
    let mut client = server.connect();
    server.iterate();
    let (mut sent, mut looks) = (0, Vec::new());
    for _ in 0..200 {
        sent += client.socket.write(&request.as_bytes()[sent..]).unwrap_or(0);
        server.iterate();
        looks.push(look(&server.connection(&client).input));
    }
    assert_eq!(client.receive(), "+OK\r\n");
    looks
}

#[test]
fn a_large_argument_that_arrives_at_once_is_moved_once_up_to_a_mebibyte() {
    let large = format!("$1000000\r\n{}\r\n", "v".repeat(1_000_000));
    let request = format!("*5\r\n$4\r\nMSET\r\n$1\r\nk\r\n{large}$1\r\nl\r\n$1\r\nv\r\n");
    let mut sizes = looks_at_arrival(&request, Input::allocated_bytes);
    sizes.dedup();
    // First the bytes that were read, then room for the rest, and nothing in the end.
    assert!(sizes.len() <= 3 && sizes.last() == Some(&0), "{sizes:?}");
}

#[test]
fn a_large_last_argument_is_read_where_it_stays() {
    let request = format!("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$900000\r\n{}\r\n", "v".repeat(900_000));
    let looks = looks_at_arrival(&request, |input| {
        assert!(input.allocated_bytes() <= input.len() + READ_BYTES, "room for what is to come");
        (input.awaits_large(), input.pending().len())
    });
    assert!(looks.contains(&(true, request.len() - 900_002)), "{looks:?}");
    assert!(looks.iter().all(|look| look.1 < READ_BYTES + 100), "{looks:?}");
}

#[test]
fn memory_of_parsed_arguments_is_counted() {
    const ARGUMENTS: usize = 10_000;
    let mut server = Server::new();
    let mut client = server.connect();
    client.send(&format!("*1000000\r\n{}", "$0\r\n\r\n".repeat(ARGUMENTS)));
    for _ in 0..5 {
        server.iterate();
    }
    let connection = server.connection(&client);
    let (input, parsed) = (connection.input.allocated_bytes(), connection.parser.allocated_bytes());
    assert!((16 * ARGUMENTS..=40 * ARGUMENTS).contains(&parsed), "{parsed}");
    let seen = connection.session.client.memory_bytes();
    assert!(seen > (input + parsed) as u64, "{seen}: {input} and {parsed}");
    assert!(connection.memory_bytes() > (input + parsed) as u64);
}
