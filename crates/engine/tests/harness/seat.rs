//! A worker with one client, for tests with several threads.

use std::sync::Arc;
use std::thread;
use std::time::Instant;

use tidemill_engine::clock::Clock;
use tidemill_engine::execute::{Batch, Next, Requests, run_turn};
use tidemill_engine::shared::Shared;
use tidemill_engine::shared::clients::ClientOrigin;
use tidemill_engine::worker::Worker;
use tidemill_engine::worker::session::Session;
use tidemill_rcu::{Budget, Domain, Limits, Qsbr};
use tidemill_resp::encode::{Protocol, ReplyBuffer};
use tidemill_resp::request::{RequestParser, encode};
use tidemill_store::Member;

/// Time that runs.
pub struct Running(pub Instant);

impl Clock for Running {
    fn unix_us(&self) -> u64 {
        1_700_000_000_000_000 + self.monotonic_us()
    }

    fn monotonic_us(&self) -> u64 {
        self.0.elapsed().as_micros() as u64
    }
}

/// A worker with one client, on the thread that made it.
pub struct Seat {
    shared: Arc<Shared>,
    domain: Arc<Domain<Qsbr>>,
    worker: Worker,
    session: Session,
    reader: Member<Qsbr>,
    batch: Batch,
}

impl Seat {
    /// The worker of an index.
    pub fn new(shared: &Arc<Shared>, domain: &Arc<Domain<Qsbr>>, index: usize) -> Seat {
        // SAFETY: nothing of one test's keyspace is used with another's.
        let reader = unsafe { shared.keyspace.join_beside(domain) }.expect("few members");
        let client = shared.clients.register(index, ClientOrigin::default(), 0);
        Seat {
            worker: Worker::new(shared, index, reader.heap(Limits::default()), index as u64),
            session: Session::new(client, &shared.users),
            reader,
            batch: Batch::default(),
            domain: Arc::clone(domain),
            shared: Arc::clone(shared),
        }
    }

    /// Sends one command, as often as it is told to wait.
    pub fn call(&mut self, words: &[Vec<u8>]) -> String {
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
                Requests::Unparsed(&mut self.batch),
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
