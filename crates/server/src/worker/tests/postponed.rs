//! Waiters that cannot be served because a slot is taken, and what their worker does meanwhile.

use super::*;

/// Microseconds that the worker would sleep now if nothing came before.
fn sleep_us(server: &mut Server) -> u64 {
    let now_us = server.shared.clock.monotonic_us();
    server.event_loop.execution.postpone_sweep(now_us + 1_000_000);
    server.event_loop.look_again_us(now_us).saturating_sub(now_us)
}

/// A waiter whose earlier key's slot is taken when its later one gets something is served when that
/// slot is released, and the worker sleeps until then: its event loop does not spin.
#[test]
fn a_worker_sleeps_until_the_slot_that_a_waiter_needs_is_released() {
    let mut server = Server::new();
    let shared = Arc::clone(&server.shared);
    let (mut waiter, mut writer) = (server.connect(), server.connect());
    for (wait, reply) in [
        ("BLPOP earlier later 0\r\n", "*2\r\n$5\r\nlater\r\n$1\r\nv\r\n"),
        ("BLMOVE later earlier LEFT LEFT 0\r\n", "$1\r\nv\r\n"),
    ] {
        waiter.send(wait);
        server.iterate();
        let slot = shared.keyspace.key_hash(b"earlier").slot;
        for _ in 0..3 {
            // Released and taken by another one before the worker looks.
            drop(shared.keyspace.try_lock(slot).expect("nobody has it"));
            let lock = shared.keyspace.try_lock(slot).expect("nobody has it");
            writer.send("RPUSH later v\r\nLTRIM later 0 0\r\n");
            for _ in 0..5 {
                server.iterate();
                assert!(sleep_us(&mut server) > 0, "{wait:?}");
            }
            assert_eq!(waiter.receive(), "");
            // The release rings; nothing else does.
            drop(lock);
            let lock = shared.keyspace.try_lock(slot).expect("nobody has it");
            server.idle();
            assert_eq!(server.events.len(), 1, "{wait:?}: it was rung");
            assert!(sleep_us(&mut server) > 0, "{wait:?}");
            drop(lock);
        }
        server.idle();
        assert_eq!(server.events.len(), 1, "{wait:?}: it was rung");
        server.idle();
        assert_eq!(waiter.receive(), reply);
        writer.receive();
        assert!(sleep_us(&mut server) > 0);
    }
}
