//! Parts that both arms share: one worker of the engine and the step of a connection: read once,
//! execute, send.

use std::net::TcpStream;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use rustix::io::Errno;
use tidemill_engine::access::section::ReadSide;
use tidemill_engine::clock::Clock;
use tidemill_engine::commit::Sinks;
use tidemill_engine::config::Configuration;
use tidemill_engine::execute::{self, Batch, Next, Requests, run_turn};
use tidemill_engine::shared::clients::ClientOrigin;
use tidemill_engine::shared::{Shared, SharedSpec};
use tidemill_engine::worker::Worker;
use tidemill_engine::worker::session::Session;
use tidemill_rcu::{Budget, Domain, Limits, Qsbr};
use tidemill_resp::encode::{Protocol, ReplyBuffer};
use tidemill_resp::request::RequestParser;
use tidemill_server::output::{Sent, send};
use tidemill_store::Member;
use tidemill_store::hash::Seed;
use tidemill_testkit::surroundings::{SilentHost, SilentNotifier};

const READ_BYTES: usize = 64 << 10;

struct SystemClock(Instant);

impl Clock for SystemClock {
    fn unix_us(&self) -> u64 {
        SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_micros() as u64)
    }

    fn monotonic_us(&self) -> u64 {
        self.0.elapsed().as_micros() as u64
    }

    fn monotonic_ns(&self) -> u64 {
        self.0.elapsed().as_nanos() as u64
    }
}

pub struct Connection {
    pub socket: TcpStream,
    session: Session,
    parser: RequestParser,
    /// Read and not executed yet.
    kept: Vec<u8>,
    output: ReplyBuffer,
}

/// Event that a connection needs before its next step.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// Bytes to read.
    Input,
    /// Another turn: it has whole requests left.
    Turn,
    /// Room in its socket for replies.
    Room,
    /// Nothing: it has ended.
    End,
}

/// The engine on one thread.
pub struct Core {
    shared: Arc<Shared>,
    reader: Member<Qsbr>,
    worker: Worker,
    batch: Batch,
    input: Vec<u8>,
    reply: ReplyBuffer,
}

impl Core {
    pub fn new() -> Core {
        let shared = Arc::new(Shared::new(SharedSpec {
            commands: tidemill_engine::execute::commands(),
            database_count: 16,
            seed: Seed::new(1, 2),
            notifiers: vec![Box::new(SilentNotifier)],
            clock: Box::new(SystemClock(Instant::now())),
            configuration: Configuration::default(),
            host: Box::new(SilentHost::default()),
            sinks: Sinks::default(),
        }));
        let domain = Domain::<Qsbr>::new().expect("QSBR needs nothing of the system");
        let reader = shared.keyspace.join(&domain).expect("the process has one keyspace");
        let worker = Worker::new(&shared, 0, reader.heap(Limits::default()), 1);
        let core = Core {
            reader,
            shared,
            worker,
            batch: Batch::default(),
            input: vec![0; READ_BYTES],
            reply: ReplyBuffer::new(Protocol::Resp2),
        };
        core.reader.seat().enter();
        core
    }

    /// Ends a round of events as a worker does: deletes expired keys, serves postponed waiters,
    /// frees retired memory.
    pub fn end_iteration(&mut self) {
        let (shared, worker) = (&self.shared, &mut self.worker);
        self.reader.section(&mut |section| {
            execute::delete_expired(shared, worker, section);
            execute::serve_postponed(shared, worker, section);
        });
        self.reader.seat().leave();
        worker.heap.retired().reclaim(self.reader.domain(), Budget { items: 4096, bytes: 1 << 20 });
        self.reader.quiescent();
        self.reader.seat().enter();
        worker.boundary(shared);
    }

    pub fn adopt(&mut self, socket: TcpStream) -> Connection {
        socket.set_nonblocking(true).expect("a socket can be non-blocking");
        socket.set_nodelay(true).expect("TCP has no delay");
        let address = socket.peer_addr().map(|peer| peer.to_string()).unwrap_or_default();
        let origin = ClientOrigin {
            address: address.clone(),
            local_address: address,
            descriptor: socket.as_raw_fd(),
        };
        let client = self.shared.clients.register(0, origin, self.worker.now_ms());
        Connection {
            socket,
            session: Session::new(client, &self.shared.users),
            parser: RequestParser::new(),
            kept: Vec::new(),
            output: ReplyBuffer::new(Protocol::Resp2),
        }
    }

    /// Reads once, executes what came, sends the replies.
    pub fn read(&mut self, connection: &mut Connection) -> Need {
        let count = match rustix::io::read(&connection.socket, &mut self.input[..]) {
            Ok(0) => return Need::End,
            Ok(count) => count,
            Err(Errno::AGAIN | Errno::INTR) => return Need::Input,
            Err(_) => return Need::End,
        };
        if !connection.kept.is_empty() {
            connection.kept.extend_from_slice(&self.input[..count]);
            return self.turn(connection);
        }
        let input = std::mem::take(&mut self.input);
        let (consumed, need) = self.execute(connection, &input[..count]);
        connection.kept.extend_from_slice(&input[consumed..count]);
        self.input = input;
        need
    }

    /// Executes what is left.
    pub fn turn(&mut self, connection: &mut Connection) -> Need {
        let mut kept = std::mem::take(&mut connection.kept);
        let (consumed, need) = self.execute(connection, &kept);
        kept.drain(..consumed);
        connection.kept = kept;
        need
    }

    /// Sends what the socket did not take before.
    pub fn send(&mut self, connection: &mut Connection) -> Need {
        match send(&connection.socket, &mut connection.output) {
            Sent::All if connection.kept.is_empty() => Need::Input,
            Sent::All => self.turn(connection),
            Sent::Part => Need::Room,
            Sent::Broken => Need::End,
        }
    }

    pub fn end(&mut self, connection: Connection) {
        self.shared.clients.unregister(connection.session.id());
        execute::end_session(&self.shared, &mut self.worker, connection.session);
    }

    fn execute(&mut self, connection: &mut Connection, input: &[u8]) -> (usize, Need) {
        let turn = run_turn(
            &self.shared,
            &mut self.worker,
            &mut connection.session,
            &mut self.reader,
            Requests::Unparsed(&mut self.batch),
            &mut connection.parser,
            input,
            &mut self.reply,
        );
        let need = match turn.next {
            Next::Input { .. } => Need::Input,
            Next::Turn => Need::Turn,
            // The load has no commands that wait, and none that ends its connection.
            Next::WakeUp { .. } | Next::Unblock | Next::Close => Need::End,
        };
        let need = match send(&connection.socket, &mut self.reply) {
            Sent::All => need,
            Sent::Part => {
                connection.output.append(&mut self.reply);
                Need::Room
            }
            Sent::Broken => Need::End,
        };
        self.reply.clear();
        (turn.consumed, need)
    }
}
