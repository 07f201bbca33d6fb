//! Listeners that pause for lack of descriptors.

use std::net::TcpListener;

use tidemill_engine::config::ServerConfig;

use super::*;

/// Listeners at `count` loopback addresses with one port; moving them closes all but the first.
fn listeners(count: u8) -> (Arc<Listeners>, ServerConfig) {
    loop {
        let free = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let port = free.local_addr().expect("it is bound").port();
        drop(free);
        let at = |count| {
            let bind = (1..=count).map(|host| format!("127.0.0.{host}")).collect();
            ServerConfig { bind, port, ..Configuration::default().server() }
        };
        // Another process may take the port meanwhile; then another one is tried.
        if let Ok(listeners) = Listeners::open(&at(count)) {
            listeners.begin_accepting();
            return (Arc::new(listeners), at(1));
        }
    }
}

/// A configuration with fewer listeners may come into force while the worker looks at those that
/// pause.
#[test]
fn listener_that_pauses_may_be_gone_when_its_pause_ends() {
    let mut server = Server::new();
    let mut client = server.connect();
    let (listeners, fewer) = listeners(3);
    server.event_loop.spec.listeners = Arc::clone(&listeners);
    client.send("CONFIG SET tcp-keepalive 100\r\n");
    server.iterate();
    server.iterate();
    assert_eq!(client.receive(), "+OK\r\n");
    pause(&mut server, 2);
    listeners.move_to(&fewer).expect("the first one stays");
    server.clock.advance_us(TICK_MS * 1000);
    // The tick is in the iteration that executes this.
    client.send("CONFIG SET tcp-keepalive 200\r\n");
    server.iterate();
    assert_eq!(client.receive(), "+OK\r\n");
    server.iterate();
}

fn pause(server: &mut Server, listener: usize) {
    server.event_loop.arrivals.pause(&server.event_loop.poll, listener);
}
