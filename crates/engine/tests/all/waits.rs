//! No wait lasts until nobody writes: a client that finds a slot taken waits for it with nothing in
//! hand, keeps what it has, and has it in the end.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use crate::harness::{Left, Server};
use tidemill_engine::execute::Next;
use tidemill_engine::limits::{
    GATE_ATTEMPTS_MAX, LOCK_ATTEMPTS_MAX, ONE_SLOT_ATTEMPTS_MAX, SLOT_WAITS_MAX,
};
use tidemill_engine::shared::{PauseMode, Shared};
use tidemill_engine::slots::mailbox::Message;
use tidemill_engine::slots::parking::{Ticket, WakeUp};
use tidemill_store::{DetachedLock, SlotNumber};

const START_MS: u64 = 1_700_000_000_000;

fn slot(key: &str) -> SlotNumber {
    SlotNumber::of_key(key.as_bytes())
}

/// Keys of three slots, in the order of those.
const KEYS: [&str; 3] = ["hello", "bar", "foo"];

fn with_keys() -> (Server, u64, Arc<Shared>) {
    assert!(KEYS.is_sorted_by_key(|key| slot(key)));
    let mut server = Server::new(2, START_MS);
    let client = server.connect(0);
    for key in KEYS {
        assert_eq!(server.call(client, &["SET", key, "value"]), "+OK\r\n");
    }
    let shared = Arc::clone(server.worker(0).1);
    (server, client, shared)
}

/// Sessions that were told to go on.
fn woken(shared: &Shared) -> Vec<u64> {
    shared.mailboxes.take(0).iter().map(Message::session).collect()
}

#[test]
fn keys_goes_on_at_the_slot_that_it_waited_for() {
    let (mut server, client, shared) = with_keys();
    let other = server.connect(0);
    let mut lock = shared.keyspace.try_lock(slot("bar")).expect("nobody has it");
    lock.mark_held();
    assert_eq!(server.turn_once(client, b"KEYS *\r\n"), Next::WakeUp(WakeUp::Message));
    // Others are served meanwhile. The slot of this key was walked already.
    assert_eq!(server.call(other, &["SET", "{hello}late", ""]), "+OK\r\n");
    assert_eq!(server.turn_once(client, b""), Next::WakeUp(WakeUp::Message), "it is held still");
    drop(lock);
    assert!(woken(&shared).contains(&client));
    assert_eq!(server.turn_once(client, b""), Next::Input { wanted: 1 });
    assert_eq!(server.take_output(client), "*3\r\n$5\r\nhello\r\n$3\r\nbar\r\n$3\r\nfoo\r\n");
    assert!(server.call(client, &["KEYS", "*"]).starts_with("*4\r\n"), "the next one begins anew");
}

#[test]
fn a_slot_with_many_keys_is_walked_under_its_lock_and_a_small_one_beside_it() {
    let (mut server, client, shared) = with_keys();
    let lock = shared.keyspace.try_lock(slot("bar")).expect("nobody has it");
    assert!(
        server.call(client, &["KEYS", "*"]).starts_with("*3\r\n"),
        "who has it changes nothing"
    );
    drop(lock);
    for index in 0..2000 {
        server.call(client, &["SET", &format!("{{bar}}{index}"), ""]);
    }
    let lock = shared.keyspace.try_lock(slot("bar")).expect("nobody has it");
    assert_eq!(server.turn_once(client, b"KEYS *\r\n"), Next::WakeUp(WakeUp::Message));
    drop(lock);
    assert_eq!(server.turn_once(client, b""), Next::Input { wanted: 1 });
    assert!(server.take_output(client).starts_with("*2003\r\n"));
    assert!(shared.keyspace.try_lock(slot("bar")).is_some(), "it gave the lock back");
}

#[test]
fn scan_answers_what_it_has_and_waits_only_with_nothing() {
    let (mut server, client, shared) = with_keys();
    let mut lock = shared.keyspace.try_lock(slot("bar")).expect("nobody has it");
    lock.mark_held();
    let reply = server.call(client, &["SCAN", "0", "COUNT", "100"]);
    assert!(reply.ends_with("*1\r\n$5\r\nhello\r\n"), "{reply:?}");
    let cursor = reply.split("\r\n").nth(2).expect("a cursor").to_owned();
    assert_ne!(cursor, "0");
    let request = format!("SCAN {cursor} COUNT 100\r\n");
    assert_eq!(server.turn_once(client, request.as_bytes()), Next::WakeUp(WakeUp::Message));
    drop(lock);
    assert_eq!(server.turn_once(client, b""), Next::Input { wanted: 1 });
    let rest = "*2\r\n$1\r\n0\r\n*2\r\n$3\r\nbar\r\n$3\r\nfoo\r\n";
    assert_eq!(server.take_output(client), rest);
}

#[test]
fn reads_of_a_held_slot_wait_for_it() {
    let (mut server, client, shared) = with_keys();
    // However often one is woken for nothing; but several slots are waited for with the token after
    // some attempts.
    for (read, reply, wake_ups) in [
        ("GET bar\r\n", "$5\r\nvalue\r\n", 20),
        ("MGET foo bar\r\n", "*2\r\n$5\r\nvalue\r\n$5\r\nvalue\r\n", LOCK_ATTEMPTS_MAX - 1),
    ] {
        let mut lock = shared.keyspace.try_lock(slot("bar")).expect("nobody has it");
        lock.mark_held();
        assert_eq!(server.turn_once(client, read.as_bytes()), Next::WakeUp(WakeUp::Message));
        for _ in 0..wake_ups {
            assert_eq!(server.turn_once(client, b""), Next::WakeUp(WakeUp::Message));
        }
        drop(lock);
        assert_eq!(server.turn_once(client, b""), Next::Input { wanted: 1 });
        assert_eq!(server.take_output(client), reply);
    }
}

/// Moves the clock on, on a thread of its own, until it is dropped.
struct Moving {
    stop: Arc<AtomicBool>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Moving {
    fn of(server: &Server) -> Moving {
        let (clock, stop) = (server.clock.clone(), Arc::new(AtomicBool::new(false)));
        let stopped = Arc::clone(&stop);
        let body = move || {
            while !stopped.load(Ordering::Relaxed) {
                clock.advance_ms(1);
                thread::yield_now();
            }
        };
        Moving { stop, thread: Some(thread::spawn(body)) }
    }
}

impl Drop for Moving {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().expect("it is joined once").join().expect("no panic");
    }
}

/// Another member of the keyspace, on a thread of its own, that is inside the gate until it is told
/// to leave.
struct Running {
    leaves_at_ms: Arc<AtomicU64>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Running {
    fn beside(server: &Server) -> Running {
        Running::with(server, || {})
    }

    /// As [`Running::beside`], with what `take` takes.
    fn with<T>(server: &Server, take: impl FnOnce() -> T + Send + 'static) -> Running {
        let leaves_at_ms = Arc::new(AtomicU64::new(u64::MAX));
        let (joining, clock) = (server.joining(), server.clock.clone());
        let entered = Arc::new(AtomicBool::new(false));
        let (at_ms, has_entered) = (Arc::clone(&leaves_at_ms), Arc::clone(&entered));
        let thread = thread::spawn(move || {
            let member = joining();
            member.seat().enter();
            let taken = take();
            has_entered.store(true, Ordering::Release);
            while clock.now_ms() < at_ms.load(Ordering::Relaxed) {
                thread::yield_now();
            }
            drop(taken);
            member.seat().leave();
        });
        while !entered.load(Ordering::Acquire) {
            thread::yield_now();
        }
        Running { leaves_at_ms, thread: Some(thread) }
    }

    /// Leaves the gate at a time of the server's clock.
    fn leave_at(&self, at_ms: u64) {
        self.leaves_at_ms.store(at_ms, Ordering::Relaxed);
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.leave_at(0);
        self.thread.take().expect("it is joined once").join().expect("no panic");
    }
}

#[test]
fn the_gate_closes_in_the_end_however_busy_the_others_are() {
    let (mut server, client, _) = with_keys();
    let running = Running::beside(&server);
    let moving = Moving::of(&server);
    let mut attempts = 0;
    let mut input: &[u8] = b"FLUSHALL\r\n";
    // The next attempt would wait as long as it takes.
    while attempts < GATE_ATTEMPTS_MAX {
        assert!(matches!(server.turn_once(client, input), Next::WakeUp(WakeUp::At(_))));
        (attempts, input) = (attempts + 1, b"");
    }
    // Longer than it ever waited before.
    running.leave_at(server.clock.now_ms() + 10_000);
    let next = server.turn_once(client, b"");
    assert!(!matches!(next, Next::WakeUp(_)), "{next:?}");
    drop(moving);
    assert_eq!(server.take_output(client), "+OK\r\n");
    assert_eq!(server.call(client, &["DBSIZE"]), ":0\r\n");
    // The next one has short waits again.
    let _running = Running::beside(&server);
    let moving = Moving::of(&server);
    assert!(matches!(server.turn_once(client, b"FLUSHALL\r\n"), Next::WakeUp(WakeUp::At(_))));
    drop(moving);
}

/// Locked slot, until it is dropped.
struct Locked(Arc<Shared>, Option<DetachedLock>);

impl Drop for Locked {
    fn drop(&mut self) {
        drop(self.1.take().map(|lock| self.0.keyspace.attach(lock)));
    }
}

/// Another member, on a thread of its own, that has a slot locked and held until it is told to
/// leave.
fn locking(server: &Server, shared: &Arc<Shared>, slot: SlotNumber) -> Running {
    let shared = Arc::clone(shared);
    Running::with(server, move || {
        let mut lock = shared.keyspace.try_lock(slot).expect("nobody has it");
        lock.mark_held();
        let lock = lock.detach();
        Locked(shared, Some(lock))
    })
}

/// The client's next turn stops the others, and waits for those that have a slot locked; once they
/// have left it runs.
fn stops_the_others_until(server: &mut Server, client: u64, locking: Running) {
    let next = server.turn_once(client, b"");
    assert!(matches!(next, Next::WakeUp(WakeUp::At(_))), "{next:?}");
    drop(locking);
    // By the clock of a busy machine the turn may be over.
    let next = server.turn_once(client, b"");
    assert!(!matches!(next, Next::WakeUp(_)), "{next:?}");
}

/// A command that finds a slot taken parks at it each time, also with the token, which others may
/// have meanwhile. In the end it stops all others, and waits for that outside of its worker, too.
#[test]
fn the_holder_of_the_token_parks_like_all_others() {
    let (mut server, client, shared) = with_keys();
    let (other, queueing) = (server.connect(0), server.connect(0));
    server.call(client, &["RPUSH", "{hello}list", "bar"]);
    server.call(queueing, &["MULTI"]);
    server.call(queueing, &["MSET", "hello", "b", "bar", "b"]);
    for (client, request, reply) in [
        (client, "MSET hello a bar a foo a\r\n", "+OK\r\n"),
        (queueing, "EXEC\r\n", "*1\r\n+OK\r\n"),
        (client, "SORT {hello}list BY nothing* GET *\r\n", "*1\r\n$1\r\nb\r\n"),
    ] {
        let locking = locking(&server, &shared, slot("bar"));
        let moving = Moving::of(&server);
        let mut input = request.as_bytes();
        for wait in 0..SLOT_WAITS_MAX {
            let next = server.turn_once(client, input);
            assert_eq!(next, Next::WakeUp(WakeUp::Message), "{request:?} {wait}");
            assert!(server.call(other, &["GET", "foo"]).starts_with('$'), "others go on");
            let elsewhere = Ticket { worker: 0, session: u64::MAX };
            let member = server.joining()();
            assert!(shared.token.try_take(elsewhere, member.seat()).is_some(), "{request:?}");
            input = b"";
        }
        stops_the_others_until(&mut server, client, locking);
        drop(moving);
        assert_eq!(server.take_output(client), reply, "{request:?}");
    }
}

/// A thread takes a slot again as soon as it has given it back.
#[test]
fn a_command_gets_its_slots_however_greedy_the_others_are() {
    let (mut server, client, shared) = with_keys();
    let moving = Moving::of(&server);
    let stop = AtomicBool::new(false);
    let join = server.joining();
    thread::scope(|scope| {
        scope.spawn(|| {
            let member = join();
            member.seat().enter();
            let mut lock = shared.keyspace.try_lock(slot(KEYS[1]));
            while !stop.load(Ordering::Relaxed) {
                thread::yield_now();
                drop(lock.take());
                member.seat().pass();
                lock = shared.keyspace.try_lock(slot(KEYS[1]));
            }
            drop(lock);
            member.seat().leave();
        });
        for (request, waits_max) in [
            (&b"MSET hello a bar a foo a\r\n"[..], SLOT_WAITS_MAX),
            (b"SET bar a\r\n", ONE_SLOT_ATTEMPTS_MAX),
        ] {
            for _ in 0..50 {
                let (mut input, mut waits) = (request, 0);
                // By the clock of a busy machine the turn may be over when it has its slots.
                while let Next::WakeUp(_) = server.turn_once(client, input) {
                    input = b"";
                    waits += 1;
                    assert!(waits <= waits_max + GATE_ATTEMPTS_MAX, "it waits for ever");
                }
                assert_eq!(server.take_output(client), "+OK\r\n");
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
    drop(moving);
}

/// A command that needs one slot at a time waits for it among others for long, then for the token
/// as well, and then stops the others.
#[test]
fn a_command_of_one_slot_asks_for_the_token_in_the_end() {
    let (mut server, client, shared) = with_keys();
    server.call(client, &["DEL", "hello", "foo"]);
    let scan = format!("SCAN {}\r\n", slot("bar").index());
    for (request, reply) in [
        ("SET bar value\r\n", "+OK\r\n"),
        ("GET bar\r\n", "$5\r\nvalue\r\n"),
        ("KEYS *\r\n", "*1\r\n$3\r\nbar\r\n"),
        (&scan, "*2\r\n$1\r\n0\r\n*1\r\n$3\r\nbar\r\n"),
        ("DBSIZE\r\n", ":1\r\n"),
        ("RANDOMKEY\r\n", "$3\r\nbar\r\n"),
    ] {
        let locking = locking(&server, &shared, slot("bar"));
        let member = server.joining()();
        let elsewhere = Ticket { worker: 0, session: u64::MAX };
        let token = shared.token.try_take(elsewhere, member.seat());
        assert!(token.is_some(), "{request:?} has left the line");
        let mut input = request.as_bytes();
        for _ in 0..=ONE_SLOT_ATTEMPTS_MAX {
            let next = server.turn_once(client, input);
            assert_eq!(next, Next::WakeUp(WakeUp::Message), "{request:?}");
            input = b"";
        }
        drop(token);
        assert_eq!(woken(&shared), [client], "{request:?} is the next to have the token");
        let moving = Moving::of(&server);
        stops_the_others_until(&mut server, client, locking);
        drop(moving);
        assert_eq!(server.take_output(client), reply);
        let _ = woken(&shared);
    }
}

/// It has waited for one slot for long, and has passed that: it does not wait for the token too.
#[test]
fn a_walk_counts_its_waits_for_each_slot() {
    for request in ["KEYS *\r\n", "DBSIZE\r\n"] {
        let (mut server, client, shared) = with_keys();
        let [first, second] = ["bar", "foo"].map(|key| locking(&server, &shared, slot(key)));
        let member = server.joining()();
        let elsewhere = Ticket { worker: 0, session: u64::MAX };
        let token = shared.token.try_take(elsewhere, member.seat());
        let mut input = request.as_bytes();
        for _ in 0..=ONE_SLOT_ATTEMPTS_MAX {
            server.turn_once(client, input);
            input = b"";
        }
        drop(first);
        assert_eq!(server.turn_once(client, b""), Next::WakeUp(WakeUp::Message));
        let _ = woken(&shared);
        drop(token);
        assert_eq!(woken(&shared), [], "{request:?} waits for the next slot");
        drop(second);
        assert_eq!(woken(&shared), [client], "{request:?}");
        assert_eq!(server.turn_once(client, b""), Next::Input { wanted: 1 });
    }
}

/// Nothing of it is left where it waited, for as long as others have the slot.
#[test]
fn a_session_that_ends_leaves_the_slot_that_it_waited_for() {
    let (mut server, client, shared) = with_keys();
    let other = server.connect(0);
    let lock = shared.keyspace.try_lock(slot("bar")).expect("nobody has it");
    for client in [client, other] {
        let next = server.turn_once(client, b"SET bar value\r\n");
        assert_eq!(next, Next::WakeUp(WakeUp::Message));
    }
    server.disconnect(client);
    drop(lock);
    assert_eq!(woken(&shared), [other]);
}

/// The first in the line ends its connection, the second is woken in its place, and a third that
/// comes meanwhile does not overtake.
#[test]
fn the_token_passes_in_the_order_of_arrival() {
    let (mut server, first, shared) = with_keys();
    let (second, third) = (server.connect(0), server.connect(0));
    let join = server.joining();
    let elsewhere = Ticket { worker: 0, session: u64::MAX };
    let member = join();
    let token = shared.token.try_take(elsewhere, member.seat());
    for client in [first, second] {
        let next = server.turn_once(client, b"FLUSHALL\r\n");
        assert_eq!(next, Next::WakeUp(WakeUp::Message));
    }
    server.disconnect(first);
    drop(token);
    let woken = shared.mailboxes.take(0);
    assert!(matches!(woken[..], [Message::Wake { session }] if session == second), "{woken:?}");
    assert_eq!(server.turn_once(third, b"FLUSHALL\r\n"), Next::WakeUp(WakeUp::Message));
    assert_eq!(server.turn_once(second, b""), Next::Input { wanted: 1 });
    let woken = shared.mailboxes.take(0);
    assert!(matches!(woken[..], [Message::Wake { session }] if session == third), "{woken:?}");
    assert_eq!(server.turn_once(third, b""), Next::Input { wanted: 1 });
    assert!(shared.token.try_take(elsewhere, member.seat()).is_some(), "nobody is in the line");
}

#[test]
fn who_is_paused_waits_for_the_end_of_the_pause() {
    let (mut server, client, shared) = with_keys();
    let version = shared.pause_version();
    shared.pause(PauseMode::Write, 1000);
    assert_ne!(shared.pause_version(), version);
    assert_eq!(server.turn_once(client, b"SET foo x\r\n"), Next::WakeUp(WakeUp::PauseEnd));
    let version = shared.pause_version();
    shared.pause(PauseMode::All, 2000);
    assert_eq!(shared.pause_version(), version, "nobody may go on because of it");
    assert_eq!(shared.pause_until_us(), (START_MS + 2000) * 1000);
    server.clock.advance_ms(1999);
    assert_eq!(server.turn_once(client, b""), Next::WakeUp(WakeUp::PauseEnd));
    server.clock.advance_ms(1);
    assert_eq!(server.turn_once(client, b""), Next::Input { wanted: 1 });
    shared.pause(PauseMode::All, 1000);
    assert_ne!(shared.pause_version(), version);
    let version = shared.pause_version();
    shared.unpause();
    assert_ne!(shared.pause_version(), version);
    shared.unpause();
    assert_eq!(shared.pause_version(), version + 1, "there was none");
}

/// A worker that sleeps until the end of a pause is rung when the pause ends earlier, and only
/// then.
#[test]
fn the_end_of_a_pause_by_command_rings_all_workers() {
    let (mut server, client, _shared) = with_keys();
    let rings = |server: &mut Server, words: &[&str]| {
        server.take_departures();
        assert_eq!(server.call(client, words), "+OK\r\n");
        server.take_departures()
    };
    let both = [Left::Message(0), Left::Message(1)];
    assert_eq!(rings(&mut server, &["CLIENT", "PAUSE", "60000", "WRITE"]), both);
    assert_eq!(rings(&mut server, &["CLIENT", "PAUSE", "90000", "WRITE"]), [], "it goes on");
    assert_eq!(rings(&mut server, &["CLIENT", "UNPAUSE"]), both);
    assert_eq!(rings(&mut server, &["CLIENT", "UNPAUSE"]), [], "there is none");
}

#[test]
fn a_command_that_waited_and_is_refused_leaves_nothing_to_the_next() {
    let (mut server, client, shared) = with_keys();
    let other = server.connect(0);
    let mut lock = shared.keyspace.try_lock(slot("bar")).expect("nobody has it");
    lock.mark_held();
    assert_eq!(server.turn_once(client, b"KEYS *\r\n"), Next::WakeUp(WakeUp::Message));
    drop(lock);
    assert_eq!(server.call(other, &["ACL", "SETUSER", "default", "-keys"]), "+OK\r\n");
    assert_eq!(server.turn_once(client, b""), Next::Input { wanted: 1 });
    assert!(server.take_output(client).starts_with("-NOPERM"));
    assert_eq!(server.call(other, &["ACL", "SETUSER", "default", "+keys"]), "+OK\r\n");
    assert_eq!(server.call(client, &["KEYS", "nothing*"]), "*0\r\n", "nothing of the walk before");

    assert_eq!(server.call(other, &["CLIENT", "PAUSE", "100000", "WRITE"]), "+OK\r\n");
    assert_eq!(server.turn_once(client, b"SET foo 1\r\n"), Next::WakeUp(WakeUp::PauseEnd));
    let blocked = |server: &mut Server| server.call(other, &["INFO", "clients"]);
    assert!(blocked(&mut server).contains("blocked_clients:1\r\n"));
    assert_eq!(server.call(other, &["ACL", "SETUSER", "default", "-set"]), "+OK\r\n");
    assert_eq!(server.turn_once(client, b""), Next::Input { wanted: 1 });
    assert!(server.take_output(client).starts_with("-NOPERM"));
    assert!(blocked(&mut server).contains("blocked_clients:0\r\n"), "it waits for nothing");
}
