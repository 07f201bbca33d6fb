//! Reads of many keys beside one who writes two of them, on threads of their own. What a read was disturbed in, it looks up
//! under the locks: it sees one moment all the same, and it ends.

#![allow(unsafe_code)]

mod harness;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Instant;

use harness::{NoProcess, Silent};
use tidemill_engine::clients::ClientOrigin;
use tidemill_engine::clock::Clock;
use tidemill_engine::commit::Sinks;
use tidemill_engine::config::Configuration;
use tidemill_engine::execute::{Batch, Next, run_turn};
use tidemill_engine::session::Session;
use tidemill_engine::shared::{Shared, SharedSpec};
use tidemill_engine::worker::Worker;
use tidemill_rcu::{Budget, Domain, Limits, Qsbr};
use tidemill_resp::encode::{Protocol, ReplyBuffer};
use tidemill_resp::request::{RequestParser, encode};
use tidemill_store::Member;
use tidemill_store::hash::Seed;

const KEYS: usize = 1000;
const READS: usize = 2000;

struct Running(Instant);

impl Clock for Running {
    fn unix_us(&self) -> u64 {
        1_700_000_000_000_000 + self.monotonic_us()
    }

    fn monotonic_us(&self) -> u64 {
        self.0.elapsed().as_micros() as u64
    }
}

/// A worker with one client.
struct Seat {
    shared: Arc<Shared>,
    domain: Arc<Domain<Qsbr>>,
    worker: Worker,
    session: Session,
    reader: Member<Qsbr>,
    batch: Batch,
}

impl Seat {
    fn new(shared: &Arc<Shared>, domain: &Arc<Domain<Qsbr>>, index: usize) -> Seat {
        // SAFETY: nothing of one test's keyspace is used with another's.
        let reader = unsafe { shared.keyspace.join_beside(domain) }.expect("few members");
        let client = shared.clients.register(index, ClientOrigin::default(), 0);
        Seat {
            worker: Worker::new(shared, index, reader.heap(Limits::default()), index as u64),
            session: Session::new(client, true),
            reader,
            batch: Batch::default(),
            domain: Arc::clone(domain),
            shared: Arc::clone(shared),
        }
    }

    /// Sends one command, as often as it is told to wait.
    fn call(&mut self, words: &[Vec<u8>]) -> String {
        let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
        let input = encode(&words);
        let mut reply = ReplyBuffer::new(Protocol::Resp2);
        let mut consumed = 0;
        while consumed < input.len() {
            self.reader.seat().enter();
            self.worker.boundary(&self.shared);
            let turn = run_turn(
                &self.shared,
                &mut self.worker,
                &mut self.session,
                &mut self.reader,
                &mut self.batch,
                &mut RequestParser::new(),
                &input[consumed..],
                &mut reply,
            );
            consumed += turn.consumed;
            self.reader.seat().leave();
            self.reader.quiescent();
            self.worker.heap.retired().reclaim(&self.domain, Budget::UNLIMITED);
            if matches!(turn.next, Next::WakeUp(_)) {
                let _ = self.shared.mailboxes.take(self.worker.index);
                thread::yield_now();
            }
        }
        String::from_utf8(reply.to_vec()).expect("plain replies")
    }
}

fn words(name: &str, arguments: impl IntoIterator<Item = String>) -> Vec<Vec<u8>> {
    let name = [name.as_bytes().to_vec()];
    name.into_iter().chain(arguments.into_iter().map(String::into_bytes)).collect()
}

/// Sets the first key and the last one to a number that only they have in common.
fn write_ends(round: u64) -> Vec<Vec<u8>> {
    let ends = [0, KEYS - 1].into_iter();
    words("MSET", ends.flat_map(|key| [format!("k{key}"), round.to_string()]))
}

#[test]
fn reads_of_many_keys_are_of_one_moment_and_end() {
    let shared = Arc::new(Shared::new(SharedSpec {
        database_count: 1,
        seed: Seed::new(1, 2),
        notifiers: (0..2).map(|_| Box::new(Silent) as _).collect(),
        clock: Box::new(Running(Instant::now())),
        configuration: Configuration::default(),
        host: Box::new(NoProcess),
        sinks: Sinks::default(),
    }));
    let domain = Domain::<Qsbr>::new().expect("qsbr asks nothing of the system");
    let mut seat = Seat::new(&shared, &domain, 0);
    seat.call(&words("MSET", (0..KEYS).flat_map(|key| [format!("k{key}"), "0".into()])));
    drop(seat);
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let (shared, domain, stop) = (&shared, &domain, &stop);
        scope.spawn(move || {
            let mut seat = Seat::new(shared, domain, 1);
            for round in 1.. {
                seat.call(&write_ends(round));
                if stop.load(Ordering::Relaxed) {
                    break;
                }
            }
        });
        let mut seat = Seat::new(shared, domain, 0);
        let read = words("MGET", (0..KEYS).map(|key| format!("k{key}")));
        let mut last = Some(0);
        for _ in 0..READS {
            let reply = seat.call(&read);
            let values: Vec<&str> = reply.split("\r\n").skip(2).step_by(2).collect();
            let number = |key: usize| values.get(key).and_then(|text| text.parse::<u64>().ok());
            let (first, second) = (number(0), number(KEYS - 1));
            // The other one ends before the test fails.
            if first != second || first < last {
                stop.store(true, Ordering::Relaxed);
                panic!("{first:?} and {second:?} after {last:?}");
            }
            last = first;
        }
        stop.store(true, Ordering::Relaxed);
    });
}
