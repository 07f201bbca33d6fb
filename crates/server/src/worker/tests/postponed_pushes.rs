//! Pushes that wait until a long reply is complete.

use super::*;

/// Connection with a reply that it does not read, and another one that it is told of keys for.
fn with_a_long_reply(server: &mut Server) -> (Peer, Peer) {
    let (mut reader, mut writer) = (server.connect(), server.connect());
    let elements = " v123456789".repeat(1000);
    for _ in 0..200 {
        writer.send(&format!("RPUSH list{elements}\r\n"));
        server.iterate();
        writer.receive();
    }
    reader.send("HELLO 3\r\nLRANGE list 0 -1\r\n");
    server.iterate();
    assert!(server.connection(&reader).session.has_pending_reply());
    let id = server.connection(&reader).session.id();
    writer.send(&format!("HELLO 3\r\nCLIENT TRACKING ON BCAST REDIRECT {id}\r\n"));
    server.iterate();
    (reader, writer)
}

fn write_long_keys(server: &mut Server, writer: &mut Peer, count: usize) {
    for number in 0..count {
        writer.send(&format!("SET {}{number} v\r\n", "k".repeat(10_000)));
        (0..3).for_each(|_| server.iterate());
        writer.receive();
    }
}

#[test]
fn pushes_behind_a_long_reply_count_as_unsent_and_do_not_hold_it_up() {
    let mut server = Server::new();
    let (mut reader, mut writer) = with_a_long_reply(&mut server);
    let unsent = |server: &Server| {
        let connection = server.connection(&reader);
        let shown = connection.session.client.unsent_bytes.load(Ordering::Relaxed);
        (connection.backlog_bytes(), connection.memory_bytes() as usize, shown as usize)
    };
    let before = unsent(&server);
    write_long_keys(&mut server, &mut writer, 100);
    let behind = unsent(&server);
    for (before, behind) in
        [before.0, before.1, before.2].into_iter().zip([behind.0, behind.1, behind.2])
    {
        assert!(behind >= before + 1_000_000, "{before} {behind}");
    }
    // All of it is sent in the end.
    let mut text = String::new();
    let mut empty = 0;
    while empty < 100 {
        server.iterate();
        let part = reader.receive();
        empty = if part.is_empty() { empty + 1 } else { 0 };
        text.push_str(&part);
    }
    assert_eq!(text.matches("v123456789\r\n").count(), 200_000);
    assert_eq!(text.matches("invalidate\r\n").count(), 100);
    assert_eq!(server.connection(&reader).backlog_bytes(), 0);
    let client = &server.connection(&reader).session.client;
    assert_eq!(client.unsent_bytes.load(Ordering::Relaxed), 0);
}

#[test]
fn a_client_is_evicted_for_pushes_behind_a_long_reply() {
    let mut server = Server::new();
    let (_reader, mut writer) = with_a_long_reply(&mut server);
    writer.send("CONFIG SET maxmemory-clients 4mb\r\n");
    server.iterate();
    writer.receive();
    write_long_keys(&mut server, &mut writer, 500);
    assert_eq!(server.shared.stats[0].evicted_clients.value(), 1);
}

#[test]
fn nobody_sees_a_client_that_is_larger_than_all_may_be() {
    const CLIENT_BYTES_MAX: u64 = 4 << 20;
    let mut server = Server::new();
    let (mut reader, mut writer) = (server.connect(), server.connect());
    writer.send(&format!("HELLO 3\r\nCONFIG SET maxmemory-clients {CLIENT_BYTES_MAX}\r\n"));
    reader.send("HELLO 3\r\n");
    server.iterate();
    let shown = Arc::clone(&server.connection(&reader).session.client);
    writer.send(&format!("CLIENT TRACKING ON BCAST REDIRECT {}\r\n", shown.id));
    server.iterate();
    assert!(writer.receive().ends_with("+OK\r\n"));
    let mut largest_bytes = 0;
    for _ in 0..10 {
        write_long_keys(&mut server, &mut writer, 100);
        largest_bytes = shown.memory_bytes().max(largest_bytes);
    }
    assert_eq!(server.shared.stats[0].evicted_clients.value(), 1);
    // The last push that is too much is not shown, all before it are.
    assert!((CLIENT_BYTES_MAX / 2..=CLIENT_BYTES_MAX).contains(&largest_bytes), "{largest_bytes}");
}
