//! The state that a worker has answered holds for requests that other workers get afterwards,
//! although they stand within an iteration.

use crate::harness::Server;

const SET: &[u8] = b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1\r\nv\r\n";

/// A server whose second worker is within an iteration, with an administrator at the first and a
/// client at the second.
fn within_an_iteration() -> (Server, u64, u64) {
    let mut server = Server::new(2, 1_700_000_000_000);
    let (administrator, client) = (server.connect(0), server.connect(1));
    assert_eq!(server.call(administrator, &["SET", "large", &"x".repeat(1000)]), "+OK\r\n");
    server.set_running(1, true);
    (server, administrator, client)
}

#[test]
fn settings_apply_at_once() {
    let (mut server, administrator, client) = within_an_iteration();
    assert_eq!(server.pipeline(client, SET), "+OK\r\n".len());
    // The harness lets all workers pass a boundary after a call, so the change is made without one.
    server.pipeline(administrator, b"CONFIG SET maxmemory 1\r\n");
    assert!(server.pipeline(client, SET) > "+OK\r\n".len(), "out of memory");
    server.pipeline(administrator, b"CONFIG SET maxmemory 0\r\n");
    assert_eq!(server.pipeline(client, SET), "+OK\r\n".len());
}

#[test]
fn a_killed_client_executes_nothing() {
    let (mut server, administrator, client) = within_an_iteration();
    let kill = format!("CLIENT KILL ID {client}\r\n");
    assert_eq!(server.pipeline(administrator, kill.as_bytes()), ":1\r\n".len());
    assert_eq!(server.pipeline(client, SET), 0);
    assert_eq!(server.pipeline(administrator, b"EXISTS k\r\n"), ":0\r\n".len());
    server.set_running(1, false);
    assert_eq!(server.call(administrator, &["EXISTS", "k"]), ":0\r\n");
}
