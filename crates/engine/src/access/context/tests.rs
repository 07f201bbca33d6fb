//! Reads without locks that are judged at a chosen moment: between what they looked up and their
//! verdict.
#![allow(unsafe_code)]

use std::sync::{Arc, OnceLock, Weak};

use tidemill_rcu::{Domain, Limits, Qsbr};
use tidemill_resp::encode::{Protocol, ReplyBuffer};
use tidemill_resp::request::{LargeArgument, OwnedArguments, RequestParser, SharedBytes};
use tidemill_store::hash::Seed;
use tidemill_store::{Encoding, Heap, Member, Section, SlotNumber};

use super::{Access, Caller, Verdict};
use crate::access::found_keys::FoundKeys;
use crate::access::key_hashes::KeyHashes;
use crate::access::locks::LockSet;
use crate::access::unit::Unit;
use crate::clock::Clock;
use crate::commit::Sinks;
use crate::config::Configuration;
use crate::execute::{self, Batch, Requests, run_turn};
use crate::limits::BATCH_REQUESTS_MAX;
use crate::shared::clients::ClientOrigin;
use crate::shared::{AllocatorMemory, Host, Shared, SharedSpec};
use crate::slots::mailbox::Notify;
use crate::worker::Worker;
use crate::worker::session::Session;

const NOW_MS: u64 = 1_700_000_000_000;

/// Clock that is stopped.
struct Stopped;

impl Clock for Stopped {
    fn unix_us(&self) -> u64 {
        NOW_MS * 1000
    }

    fn monotonic_us(&self) -> u64 {
        NOW_MS * 1000
    }
}

struct Silent;

impl Notify for Silent {
    fn notify(&self) {}
}

/// Host of no process. `MEMORY PURGE` lets somebody find what expires by then expired.
#[derive(Clone, Default)]
struct NoProcess(Arc<OnceLock<(Weak<Shared>, u64)>>);

impl Host for NoProcess {
    fn shut_down(&self, _requested_by: &str) {}

    fn rewrite_configuration(&self, _: &dyn Fn(&[u8]) -> Vec<u8>) -> Result<(), String> {
        Ok(())
    }

    fn allocator(&self) -> AllocatorMemory {
        AllocatorMemory::default()
    }

    fn allocator_report(&self) -> String {
        String::new()
    }

    fn purge_memory(&self) {
        if let Some((shared, at_ms)) = self.0.get() {
            shared.upgrade().into_iter().for_each(|shared| shared.saw_expired(*at_ms));
        }
    }

    fn facts(&self) -> Vec<(&'static str, String)> {
        Vec::new()
    }
}

struct Engine {
    shared: Arc<Shared>,
    host: NoProcess,
    worker: Worker,
    reader: Member<Qsbr>,
}

impl Engine {
    /// A server with keys made by `commands`.
    fn with(commands: &str) -> Engine {
        let host = NoProcess::default();
        let shared = Arc::new(Shared::new(SharedSpec {
            commands: execute::commands(),
            database_count: 1,
            seed: Seed::new(1, 2),
            notifiers: vec![Box::new(Silent)],
            clock: Box::new(Stopped),
            configuration: Configuration::default(),
            host: Box::new(host.clone()),
            sinks: Sinks::default(),
        }));
        let domain = Domain::<Qsbr>::new().expect("qsbr needs nothing of the system");
        // SAFETY: nothing of one engine's keyspace is used with another's.
        let reader = unsafe { shared.keyspace.join_beside(&domain) }.expect("the first member");
        let worker = Worker::new(&shared, 0, reader.heap(Limits::default()), 7);
        let mut engine = Engine { shared, host, worker, reader };
        engine.reader.seat().enter();
        engine.worker.boundary(&engine.shared);
        engine.run(Requests::Unparsed(&mut Batch::default()), commands);
        engine
    }

    /// Executes commands, all that there is in a turn; returns their replies.
    fn run(&mut self, requests: Requests<'_>, commands: &str) -> Vec<u8> {
        let mut replies = ReplyBuffer::new(Protocol::Resp2);
        let client = self.shared.clients.register(0, ClientOrigin::default(), 0);
        let turn = run_turn(
            &self.shared,
            &mut self.worker,
            &mut Session::new(client, &self.shared.users),
            &mut self.reader,
            requests,
            &mut RequestParser::new(),
            commands.as_bytes(),
            &mut replies,
        );
        assert_eq!(turn.consumed, commands.len(), "{:?}", turn.next);
        replies.to_vec()
    }

    /// Verdict of a read without locks when something happens between its last lookup and its
    /// verdict.
    fn verdict(&mut self, words: &str, meanwhile: impl FnOnce(&Shared)) -> Verdict {
        let words = OwnedArguments::new(words.split(' ').map(str::as_bytes));
        let args = words.view();
        let id = self.shared.commands.find(args.get(0)).expect("a command");
        let command = self.shared.commands.command(id);
        let (_, handler) = execute::handlers().of_keyed(id);
        let guard = self.reader.enter();
        let mut reply = ReplyBuffer::new(Protocol::Resp2);
        let caller = Caller::server(&self.shared, &mut self.worker, &mut reply, 0);
        let access = Access::optimistic();
        let mut cx = caller.calls((command, &args), guard.section(), access, KeyHashes::None);
        handler(&mut cx).expect("no error");
        meanwhile(&self.shared);
        cx.verdict()
    }
}

/// Keys that expire in a second and in ten, and one that does not.
const KEYS: &str = "SET soon v PX 1000\r\nSET late v PX 10000\r\nSET ever v\r\n";

/// Another worker, whose clock is ahead, has found something expired.
fn found_expired_in(by_ms: u64) -> impl Fn(&Shared) {
    move |shared| shared.saw_expired(NOW_MS + by_ms)
}

#[test]
fn a_read_of_several_keys_is_stale_once_one_may_have_expired_for_everybody() {
    for read in ["MGET soon ever", "MGET ever soon", "EXISTS soon late", "LCS late soon"] {
        let mut engine = Engine::with(KEYS);
        assert_eq!(engine.verdict(read, |_| {}), Verdict::Valid, "{read}");
        let verdict = engine.verdict(read, found_expired_in(1000));
        assert!(matches!(verdict, Verdict::Stale(_)), "{read}: {verdict:?}");
        // Judged by the floor that was passed, the next attempt counts.
        assert_eq!(engine.verdict(read, found_expired_in(1000)), Verdict::Valid, "{read}");
    }
}

#[test]
fn a_read_of_one_key_or_of_none_that_expires_counts_whatever_expires_meanwhile() {
    for read in ["GET soon", "MGET ever nothing", "EXISTS ever ever"] {
        let verdict = Engine::with(KEYS).verdict(read, found_expired_in(20_000));
        assert_eq!(verdict, Verdict::Valid, "{read}");
    }
}

#[test]
fn a_result_does_not_count_while_a_key_that_has_expired_is_there() {
    let mut engine = Engine::with("SADD soon a\r\nPEXPIRE soon 1000\r\nSADD ever b\r\n");
    engine.shared.saw_expired(NOW_MS + 1000);
    let words = OwnedArguments::new(["SUNIONSTORE", "target", "soon", "ever"].map(str::as_bytes));
    let args = words.view();
    let id = engine.shared.commands.find(args.get(0)).expect("a command");
    let Engine { shared, worker, reader, .. } = &mut engine;
    for is_deleted in [false, true] {
        let command = shared.commands.command(id);
        let guard = reader.enter();
        let mut reply = ReplyBuffer::new(Protocol::Resp2);
        let caller = Caller::server(shared, worker, &mut reply, 0);
        let access = Access::optimistic();
        let mut cx = caller.calls((command, &args), guard.section(), access, KeyHashes::None);
        let mut found = FoundKeys::new(0, 3, cx.clock());
        for index in 1..args.len() {
            let entry = cx.peek(args.get(index));
            found.add(args.get(index), entry);
        }
        cx.go_on_with(found);
        assert_eq!(cx.lock_for_result().is_ok(), is_deleted);
        drop(cx);
        execute::delete_expired(shared, worker, guard.section());
    }
}

/// Keys of one slot: collections of several leaves, collections of one, and a string without
/// chunks.
fn collections() -> String {
    let members = |prefix: &str| {
        let member = |number: u32| format!(" {prefix}{number}-{}", "x".repeat(20));
        (0..200).map(member).collect::<String>()
    };
    let pairs = |prefix: &str| {
        let pair = |number: u32| format!(" {prefix}{number} {}", "x".repeat(20));
        (0..200).map(pair).collect::<String>()
    };
    [
        format!("HSET {{t}}hash{}", pairs("f")),
        format!("RPUSH {{t}}list{}", members("e")),
        format!("SADD {{t}}set{}", members("m")),
        format!("ZADD {{t}}sorted{}", (0..200).map(|n| format!(" {n} m{n}")).collect::<String>()),
        "SETRANGE {t}text 5000 end".into(),
        "HSET {t}fields a 1 b 2".into(),
        "RPUSH {t}few a b c".into(),
        "SET {t}plain v".into(),
    ]
    .map(|command| command + "\r\n")
    .concat()
}

/// A change of the slot, of one publication.
fn published(shared: &Shared) {
    let key = b"{t}plain";
    // SAFETY: the engine is alive, and frees nothing during the test.
    let section = unsafe { Section::assume() };
    // Its garbage is never freed.
    let heap = Heap::new();
    let hash = shared.keyspace.key_hash(key);
    let mut lock = shared.keyspace.try_lock(hash.slot).expect("nobody else locks");
    let found = lock.find(0, hash, key, section).expect("the key is there");
    lock.set_encoding(0, hash.hash, found, Encoding::Raw, 0, &heap);
}

#[test]
fn a_read_of_several_leaves_is_stale_once_its_slot_has_changed() {
    let mut engine = Engine::with(&collections());
    for read in [
        "LINDEX {t}list 150",
        "LRANGE {t}list 10 150",
        "LPOS {t}list none",
        "SORT_RO {t}list ALPHA",
        "HMGET {t}hash f1 f100",
        "HGETALL {t}hash",
        "HKEYS {t}hash",
        "HVALS {t}hash",
        "HSCAN {t}hash 0",
        "HRANDFIELD {t}hash 5",
        "HTTL {t}hash FIELDS 2 f1 f100",
        "GET {t}text",
        "GETRANGE {t}text 0 -1",
        "GETBIT {t}text 7",
        "BITCOUNT {t}text",
        "STRLEN {t}text",
        "DUMP {t}hash",
        "MGET {t}plain {t}text",
    ] {
        assert_eq!(engine.verdict(read, |_| {}), Verdict::Valid, "{read}");
        let verdict = engine.verdict(read, published);
        assert!(matches!(verdict, Verdict::Stale(_)), "{read}: {verdict:?}");
    }
}

#[test]
fn a_read_of_one_leaf_counts_whatever_was_published_in_its_slot() {
    let mut engine = Engine::with(&collections());
    for read in [
        "HGET {t}hash f1",
        "HGET {t}hash none",
        "HEXISTS {t}hash f1",
        "HSTRLEN {t}hash f1",
        "HGETALL {t}fields",
        "LRANGE {t}few 0 -1",
        "GET {t}plain",
        "SMEMBERS {t}set",
        "SISMEMBER {t}set m1",
        "ZRANGE {t}sorted 0 -1",
        "ZSCORE {t}sorted m1",
    ] {
        assert_eq!(engine.verdict(read, published), Verdict::Valid, "{read}");
    }
    let missing = engine.verdict("HGET {t}none f1", published);
    assert!(matches!(missing, Verdict::Stale(_)), "{missing:?}");
}

#[test]
fn a_key_that_was_judged_alive_stays_so_while_its_unit_locks_more_slots() {
    let engine = Engine::with("SET one v PX 100\r\nSET two v PX 100\r\n");
    let (shared, worker) = (&*engine.shared, &engine.worker);
    let expires_at_ms = NOW_MS + 100;
    let slots = ["one", "two", "three"].map(|key| SlotNumber::of_key(key.as_bytes()));
    let locks = LockSet::one(shared, slots[0]).expect("nobody has it");
    let mut unit = Unit::new(shared, worker, locks);
    let is_over = |unit: &Unit<'_>, key: &str| {
        unit.clock_of_key(shared, worker, key.as_bytes()).has_passed(expires_at_ms)
    };
    // Before anything is judged, all slots have one clock.
    unit.add(shared, slots[2]).expect("nobody has it");
    assert!(!is_over(&unit, "one") && !is_over(&unit, "three"));
    // Another worker finds what expires as late expired.
    shared.saw_expired(expires_at_ms);
    unit.add(shared, slots[1]).expect("nobody has it");
    assert!(!is_over(&unit, "one") && !is_over(&unit, "three"), "as it was told before");
    assert!(is_over(&unit, "two"), "it may have been told to somebody that it has expired");
    unit.release_clock();
    assert!(is_over(&unit, "one"));
}

#[test]
fn a_walk_within_a_script_has_what_its_commands_have() {
    let mut engine = Engine::with("SET one v PX 100\r\nSET two v PX 100\r\nSET three v\r\n");
    let shared = Arc::downgrade(&engine.shared);
    assert!(engine.host.0.set((shared, NOW_MS + 100)).is_ok());
    let source = "redis.call('SET', 'three', 'w') \
                  local before = redis.call('EXISTS', 'one') \
                  redis.call('MEMORY', 'PURGE') \
                  return {before, redis.call('KEYS', '[ot][nw][eo]'), \
                          redis.call('SCAN', '0', 'COUNT', '9', 'MATCH', '[ot][nw][eo]')[2], \
                          redis.call('EXISTS', 'one')}";
    let commands = format!("EVAL \"{source}\" 0\r\n");
    let replies = engine.run(Requests::Unparsed(&mut Batch::default()), &commands);
    // Others cannot have been told that the one key has expired: its slot is locked.
    let found = "*1\r\n$3\r\none\r\n";
    let expected = format!("*4\r\n:1\r\n{found}{found}:1\r\n");
    assert_eq!(String::from_utf8_lossy(&replies), expected);
}

#[test]
fn a_string_takes_over_the_memory_of_a_large_argument_and_nobody_else_keeps_it() {
    let mut batch = Batch::default();
    let bytes = SharedBytes::from_header_and_slice((), &[b'v'; 1 << 20]);
    let head = format!("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n${}\r\n", bytes.slice.len());
    // More than a batch: the place of the argument is that of another request's by then.
    let others = "STRLEN k\r\n".repeat(2 * BATCH_REQUESTS_MAX);
    let mut engine = Engine::with("SET other v\r\n");
    let before = engine.worker.heap.live_bytes();
    let large = LargeArgument { position: head.len(), bytes: &bytes };
    let requests = Requests::WithLarge(&mut batch, large);
    engine.run(requests, &format!("{head}\r\n{others}"));
    assert_eq!(SharedBytes::strong_count(&bytes), 2, "of the entry and of this test");
    assert!(engine.worker.heap.live_bytes() - before >= bytes.slice.len() as i64);
}
