//! Turns of a connection without a server around them: when quiescent states are announced, who
//! waits for memory, and how far the sweep goes between them.
#![allow(unsafe_code)]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::harness::NoFiles;
use tidemill_engine::access::section::{Enter, ReadSide};
use tidemill_engine::clock::Clock;
use tidemill_engine::commit::Sinks;
use tidemill_engine::config::{CommandLine, load};
use tidemill_engine::execute::{Batch, LookAhead, Next, Requests, Turn, prefetch, run_turn, sweep};
use tidemill_engine::shared::clients::ClientOrigin;
use tidemill_engine::shared::{Shared, SharedSpec};
use tidemill_engine::slots::parking::WakeUp;
use tidemill_engine::worker::Worker;
use tidemill_engine::worker::session::Session;
use tidemill_rcu::{Budget, Domain, Limits, Mb, Qsbr};
use tidemill_resp::encode::{Protocol, ReplyBuffer};
use tidemill_resp::request::{RequestParser, encode};
use tidemill_store::gate::Seat;
use tidemill_store::hash::Seed;
use tidemill_store::{Guard, Heap, Member, Section};
use tidemill_testkit::surroundings::{SilentHost, SilentNotifier};

/// A clock that goes on by a microsecond each time it is read.
#[derive(Default)]
struct Ticks(AtomicU64);

impl Clock for Ticks {
    fn unix_us(&self) -> u64 {
        1_700_000_000_000_000 + self.monotonic_us()
    }

    fn monotonic_us(&self) -> u64 {
        self.0.fetch_add(1, Ordering::Relaxed)
    }

    fn monotonic_ns(&self) -> u64 {
        self.monotonic_us() * 1000
    }
}

/// A reader that counts announcements.
struct Counting {
    reader: Member<Qsbr>,
    announced_count: usize,
}

impl ReadSide for Counting {
    fn section(&mut self, work: &mut dyn FnMut(Section<'_>)) {
        ReadSide::section(&mut self.reader, work);
    }

    fn quiescent(&mut self) {
        self.announced_count += 1;
        self.reader.quiescent();
    }

    fn offline(&mut self, work: &mut dyn FnMut()) {
        ReadSide::offline(&mut self.reader, work);
    }

    fn reclaim(&mut self, heap: &Heap) {
        ReadSide::reclaim(&mut self.reader, heap);
    }

    fn seat(&self) -> &std::rc::Rc<Seat> {
        self.reader.seat()
    }
}

impl Enter for Counting {
    type Guard<'r> = Guard<'r, Qsbr>;

    fn enter(&self) -> Guard<'_, Qsbr> {
        self.reader.enter()
    }
}

struct Engine {
    shared: Arc<Shared>,
    domain: Arc<Domain<Qsbr>>,
    worker: Worker,
    session: Session,
    reader: Counting,
    reply: ReplyBuffer,
}

impl Engine {
    fn new(directives: &[&str]) -> Engine {
        Engine::with_databases(16, directives)
    }

    fn with_databases(database_count: usize, directives: &[&str]) -> Engine {
        let line = CommandLine::parse(directives.iter().map(|word| (*word).to_owned()));
        let shared = Arc::new(Shared::new(SharedSpec {
            commands: tidemill_engine::execute::commands(),
            database_count,
            seed: Seed::new(1, 2),
            notifiers: vec![Box::new(SilentNotifier)],
            clock: Box::new(Ticks::default()),
            configuration: load(&line, &NoFiles).expect("directives of the table"),
            host: Box::new(SilentHost::default()),
            sinks: Sinks::default(),
        }));
        let domain = Domain::<Qsbr>::new().expect("qsbr needs nothing of the system");
        // SAFETY: nothing of one engine's keyspace is used with another's.
        let reader = unsafe { shared.keyspace.join_beside(&domain) }.expect("the first member");
        let client = shared.clients.register(0, ClientOrigin::default(), 0);
        let worker = Worker::new(&shared, 0, reader.heap(Limits::default()), 7);
        Engine {
            worker,
            session: Session::new(client, &shared.users),
            reader: Counting { reader, announced_count: 0 },
            reply: ReplyBuffer::new(Protocol::Resp2),
            domain,
            shared,
        }
    }

    fn turn(&mut self, input: &str) -> Turn {
        let mut batch = Batch::default();
        self.turn_with(Requests::Unparsed(&mut batch), input.as_bytes())
    }

    fn turn_with(&mut self, requests: Requests<'_>, input: &[u8]) -> Turn {
        run_turn(
            &self.shared,
            &mut self.worker,
            &mut self.session,
            &mut self.reader,
            requests,
            &mut RequestParser::new(),
            input,
            &mut self.reply,
        )
    }

    /// An input that was looked ahead at.
    fn ahead(&self, input: &[u8]) -> LookAhead {
        let mut ahead = LookAhead::default();
        ahead.look(&self.worker, &RequestParser::new(), input);
        prefetch(&self.shared, &self.reader, 0, [(&mut ahead, input)].into_iter());
        ahead
    }

    fn replies(&mut self) -> String {
        let text = String::from_utf8(self.reply.to_vec()).expect("plain replies");
        self.reply.clear();
        text
    }

    /// Work of the event loop between turns.
    fn reclaim(&mut self) {
        self.reader.reader.quiescent();
        self.worker.heap.retired().reclaim(&self.domain, Budget::UNLIMITED);
    }
}

fn announced(granularity: &str, requests: usize) -> usize {
    let mut engine = Engine::new(&["--rcu-quiescent", granularity]);
    let turn = engine.turn(&"SET key value\r\nGET key\r\n".repeat(requests / 2));
    assert!(matches!(turn.next, Next::Input { .. }));
    assert_eq!(engine.replies(), "+OK\r\n$5\r\nvalue\r\n".repeat(requests / 2));
    engine.reader.announced_count
}

#[test]
fn quiescent_states_are_announced_as_often_as_configured() {
    assert_eq!(announced("iteration", 100), 0);
    assert_eq!(announced("command", 100), 100);
    let by_batch = announced("batch", 100);
    assert!((2..100).contains(&by_batch), "{by_batch} batches of 100 requests");
}

#[test]
fn scores_that_were_found_ahead_are_looked_up_again() {
    let mut engine = Engine::new(&[]);
    // Names that make the set so large that the leaves of all requests are asked for ahead.
    let name = |number: u32| format!("{number:0>240}");
    for first in (0..80_000).step_by(200) {
        let member = |number| format!(" {number} {}", name(number));
        let members: String = (first..first + 200).map(member).collect();
        engine.turn(&format!("ZADD z{members}\r\n"));
    }
    assert_eq!(engine.replies(), ":200\r\n".repeat(400));
    for number in [0, 7, 79_999] {
        let (member, text) = (name(number), number.to_string());
        engine.turn(&format!(
            "ZSCORE z {member}\r\nZADD z -1.5 {member}\r\nZSCORE z {member}\r\n\
             ZRANK z {member}\r\nZREM z {member}\r\nZSCORE z {member}\r\n\
             ZRANK z {member}\r\nZADD z {number} {member}\r\n"
        ));
        let expected = format!(
            "${}\r\n{text}\r\n:0\r\n$4\r\n-1.5\r\n:0\r\n:1\r\n$-1\r\n$-1\r\n:1\r\n",
            text.len()
        );
        assert_eq!(engine.replies(), expected);
    }
}

#[test]
fn the_limit_of_retired_memory_goes_by_the_memory_or_the_setting() {
    let mut engine = Engine::new(&["--rcu-retired-max", "1gb"]);
    let limit = |engine: &Engine| engine.shared.retired_bytes_max(&engine.shared.settings());
    assert_eq!(limit(&engine), 1 << 30);
    let mut set = |value: &str, maxmemory: &str| {
        engine.turn(&format!("CONFIG SET rcu-retired-max {value} maxmemory {maxmemory}\r\n"));
        assert_eq!(engine.replies(), "+OK\r\n");
        limit(&engine)
    };
    assert_eq!(set("3mb", "0"), 3 << 20);
    assert_eq!(set("0", "0"), 64 << 20, "the least, where the machine's memory is not known");
    assert_eq!(set("0", "80gb"), 10 << 30);
    let of_all = (10 << 30) * engine.shared.worker_count();
    engine.turn("INFO memory\r\n");
    assert!(engine.replies().contains(&format!("\r\nused_memory_retired_max:{of_all}\r\n")));
}

#[test]
fn writers_wait_for_memory_and_readers_do_not() {
    let limit = 64 << 10;
    let mut engine = Engine::new(&["--rcu-retired-max", "64kb"]);
    // Another thread that does not announce: nothing retired can be freed.
    let stuck = engine.domain.register();
    let large = format!("SET key {}\r\n", "x".repeat(10_000));
    let mut written_count = 0;
    let turn = loop {
        let turn = engine.turn(&large);
        if turn.consumed == 0 {
            break turn;
        }
        written_count += 1;
        assert!(written_count < 100, "a writer must hold back");
        engine.reclaim();
    };
    assert!(matches!(turn.next, Next::WakeUp(WakeUp::Memory)));
    let retired_bytes = engine.worker.heap.retired().retired_bytes();
    assert!((limit..limit + 20_000).contains(&retired_bytes), "{retired_bytes}");
    engine.replies();
    assert_eq!(engine.turn("STRLEN key\r\nPING\r\n").consumed, 18);
    assert_eq!(engine.replies(), ":10000\r\n+PONG\r\n");
    // A transaction that was queued holds back as a whole.
    engine.turn("MULTI\r\nSET key short\r\n");
    assert_eq!(engine.turn("EXEC\r\n").consumed, 0);
    engine.replies();
    drop(stuck);
    engine.reclaim();
    engine.reclaim();
    engine.turn("EXEC\r\nGET key\r\n");
    assert_eq!(engine.replies(), "*1\r\n+OK\r\n$5\r\nshort\r\n");
}

#[test]
fn a_span_keeps_grace_periods_from_ending_until_it_is_dropped() {
    let domain = Domain::<Mb>::new().expect("mb needs nothing of the system");
    let mut reader = domain.register();
    let span = reader.span();
    let period = domain.start_grace_period();
    drop(reader.enter());
    reader.quiescent();
    reader.offline(|| assert!(!domain.is_elapsed(&period)));
    drop(span);
    assert!(domain.is_elapsed(&period));
}

#[test]
fn what_was_looked_ahead_at_is_executed_as_things_are_at_its_turn() {
    let mut engine = Engine::new(&[]);
    let get = encode(&[b"GET", b"key"]);
    assert!(engine.ahead(&get).take().is_none(), "nothing began so before");
    engine.turn("SET key value\r\n");
    engine.turn(std::str::from_utf8(&get).expect("text"));
    engine.replies();
    for (before, expected) in [
        ("SET key other\r\n", "$5\r\nother\r\n"),
        ("FLUSHALL\r\n", "$-1\r\n"),
        (
            "RPUSH key element\r\n",
            "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n",
        ),
        ("MULTI\r\n", "+QUEUED\r\n"),
        ("DISCARD\r\nSELECT 1\r\nSET key there\r\n", "$5\r\nthere\r\n"),
        ("CLIENT REPLY SKIP\r\n", ""),
        (
            "RESET\r\nCONFIG SET requirepass secret\r\nRESET\r\n",
            "-NOAUTH Authentication required.\r\n",
        ),
    ] {
        let mut ahead = engine.ahead(&get);
        engine.turn(before);
        engine.replies();
        let taken = ahead.take().expect("it was parsed");
        let turn = engine.turn_with(Requests::Ahead(taken), &get);
        assert_eq!(turn, Turn { consumed: get.len(), next: Next::Input { wanted: 1 } });
        assert_eq!(engine.replies(), expected, "after {before:?}");
        assert!(ahead.take().is_none(), "it was executed");
    }
}

#[test]
fn only_whole_inputs_are_looked_ahead_at() {
    let mut engine = Engine::new(&[]);
    let get = encode(&[b"GET", b"key"]);
    engine.turn(std::str::from_utf8(&get).expect("text"));
    for input in [
        &get[..get.len() - 1],
        &[&get[..], &get].concat(),
        &[&get[..], b"*"].concat(),
        b"GET key\r\n",
    ] {
        assert!(engine.ahead(input).take().is_none(), "{}", input.escape_ascii());
    }
    assert!(engine.ahead(&get).take().is_some());
}

/// Keys of which some are too long to be hashed with others, some have a tag, one is empty.
fn unlike_keys(count: usize) -> Vec<String> {
    let key = |number: usize| match number % 5 {
        _ if number == 0 => String::new(),
        0 => format!("{{tag{}}}{number}", number % 3),
        1 => format!("{number}{}", "k".repeat(number % 45)),
        _ => format!("key:{number}"),
    };
    (0..count).map(key).collect()
}

#[test]
fn keys_written_side_by_side_are_found_alone_and_keys_written_alone_side_by_side() {
    // Requests without a key stand between them.
    let keys = unlike_keys(150);
    let wire = |words: &[&str]| {
        let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
        String::from_utf8(encode(&words)).expect("plain requests")
    };
    let set = |key: &String| wire(&["SET", key, &format!("value of {key}")]);
    let get = |key: &String| wire(&["GET", key]);
    let bulk = |key: &String| format!("${}\r\nvalue of {key}\r\n", key.len() + 9);
    let mixed = |requests: Vec<String>| {
        let with_others = requests.chunks(6).map(|some| some.concat() + "PING\r\n");
        with_others.collect::<String>()
    };
    for writes_together in [true, false] {
        let mut engine = Engine::new(&[]);
        let mut run = |input: String| {
            let mut consumed = 0;
            while consumed < input.len() {
                consumed += engine.turn(&input[consumed..]).consumed;
            }
            engine.replies()
        };
        let sets = keys.iter().map(set).collect();
        if writes_together {
            run(mixed(sets));
            for key in &keys {
                assert_eq!(run(get(key)), bulk(key));
            }
        } else {
            sets.into_iter().for_each(|set| drop(run(set)));
            let expected: Vec<String> = keys.iter().map(bulk).collect();
            let expected = expected.chunks(6).map(|some| some.concat() + "+PONG\r\n");
            assert_eq!(run(mixed(keys.iter().map(get).collect())), expected.collect::<String>());
        }
    }
}

#[test]
fn requests_of_several_connections_find_the_keys_that_were_written_alone() {
    let keys = unlike_keys(40);
    let mut engine = Engine::new(&[]);
    for key in &keys {
        let value = format!("value of {key}");
        let set = encode(&[b"SET", key.as_bytes(), value.as_bytes()]);
        engine.turn(std::str::from_utf8(&set).expect("text"));
    }
    engine.turn(std::str::from_utf8(&encode(&[b"GET", b"none"])).expect("text"));
    engine.replies();
    for connections in 1..=9 {
        for keys in keys.chunks(connections) {
            // In one buffer, one behind the other.
            let requests: Vec<Vec<u8>> =
                keys.iter().map(|key| encode(&[b"GET", key.as_bytes()])).collect();
            let buffer = requests.concat();
            let mut aheads: Vec<(LookAhead, &[u8])> = Vec::new();
            let mut start = 0;
            for request in &requests {
                let mut ahead = LookAhead::default();
                ahead.look(&engine.worker, &RequestParser::new(), request);
                aheads.push((ahead, &buffer[start..]));
                start += request.len();
            }
            let each = aheads.iter_mut().map(|(ahead, buffer)| (ahead, *buffer));
            prefetch(&engine.shared, &engine.reader, 0, each);
            for ((request, (ahead, _)), key) in requests.iter().zip(&mut aheads).zip(keys) {
                let taken = ahead.take().expect("it was parsed");
                engine.turn_with(Requests::Ahead(taken), request);
                let expected = format!("${}\r\nvalue of {key}\r\n", key.len() + 9);
                assert_eq!(engine.replies(), expected);
            }
        }
    }
    let get = encode(&[b"GET", b"key:2"]);
    let mut ahead = LookAhead::default();
    ahead.look(&engine.worker, &RequestParser::new(), &get);
    assert!(ahead.take().is_none(), "its key has no hash");
}

#[test]
fn a_sweep_ends_once_it_has_been_everywhere() {
    for database_count in [1, 2] {
        let mut engine = Engine::with_databases(database_count, &[]);
        engine.turn("SET key value PX 100000\r\n");
        assert!(!sweep(&engine.shared, &mut engine.worker, &mut engine.reader));
        let cut_short = engine.shared.stats[0].sweeps_cut_short.value();
        assert_eq!(cut_short, 0, "of {database_count} databases, with far more time than it takes");
    }
}
