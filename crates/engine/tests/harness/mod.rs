//! A server without sockets: sessions on workers, driven one turn at a time by a single thread,
//! with a clock that is stopped until it is moved.
#![allow(unsafe_code)]
#![allow(dead_code, reason = "each test uses some of it")]

pub mod beside;
pub mod seat;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock, Weak};

use tidemill_engine::access::section::ReadSide;
use tidemill_engine::clock::Clock;
use tidemill_engine::commit::{
    ActiveSinks, Event, Journal, KeyspaceEvents, MemoryJournal, Record, RecordNumber, Sinks,
};
use tidemill_engine::config::{CommandLine, Configuration, Files, load};
use tidemill_engine::execute::{self, Batch, Next, Requests, Turn, run_turn};
use tidemill_engine::shared::clients::ClientOrigin;
use tidemill_engine::shared::{PauseMode, Shared, SharedSpec};
use tidemill_engine::slots::mailbox::{Message, Notify};
use tidemill_engine::worker::Worker;
use tidemill_engine::worker::session::Session;
use tidemill_rcu::{Budget, Domain, Limits, Qsbr};
use tidemill_resp::encode::{Protocol, ReplyBuffer};
use tidemill_resp::request::RequestParser;
use tidemill_store::hash::Seed;
use tidemill_store::{Member, SlotNumber};
use tidemill_testkit::surroundings::{SilentHost, StoppedClock};

/// Departure from the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Left {
    /// A number was taken for a record.
    Number,
    /// A record, for the journal.
    Record,
    /// The first message of several, for a worker.
    Message(usize),
}

type Departures = Arc<Mutex<Vec<Left>>>;

/// Notes that a worker would be woken.
struct Noting {
    index: usize,
    departures: Departures,
}

impl Notify for Noting {
    fn notify(&self) {
        self.departures.lock().expect("no panic").push(Left::Message(self.index));
    }
}

/// A journal that notes when it is told something.
#[derive(Debug)]
struct NotingJournal {
    journal: Arc<MemoryJournal>,
    departures: Departures,
}

impl Journal for NotingJournal {
    fn number(&self) -> RecordNumber {
        self.departures.lock().expect("no panic").push(Left::Number);
        self.journal.number()
    }

    fn append(&self, worker: usize, number: RecordNumber, record: &mut Record) {
        self.departures.lock().expect("no panic").push(Left::Record);
        self.journal.append(worker, number, record);
    }
}

/// Publication, and whether readers had to wait at that moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Publication {
    pub key: String,
    pub event: &'static str,
    pub is_held: bool,
}

/// Looks at the slot's word when a change is published, where another thread could read it.
#[derive(Debug, Default)]
pub struct Publications {
    shared: OnceLock<Weak<Shared>>,
    all: Mutex<Vec<Publication>>,
    /// The key whose change lets another worker pause clients that write.
    pub pauses_at: Mutex<Option<String>>,
    /// The key whose change lets another worker kill all clients.
    pub kills_at: Mutex<Option<String>>,
}

impl Publications {
    /// Those since the last call.
    pub fn take(&self) -> Vec<Publication> {
        std::mem::take(&mut *self.all.lock().expect("no panic"))
    }
}

struct Watching(Arc<Publications>);

impl KeyspaceEvents for Watching {
    fn event(&self, _database: usize, key: &[u8], event: Event) {
        let shared = self.0.shared.get().and_then(Weak::upgrade).expect("the server is there");
        let is_held = shared.keyspace.word(SlotNumber::of_key(key)).load().is_held();
        let key = String::from_utf8_lossy(key).into_owned();
        if self.0.pauses_at.lock().expect("no panic").as_deref() == Some(&*key) {
            shared.pause(PauseMode::Write, 60_000);
        }
        if self.0.kills_at.lock().expect("no panic").as_deref() == Some(&*key) {
            shared.clients.kill_all();
        }
        let publication = Publication { key, event: event.name, is_held };
        self.0.all.lock().expect("no panic").push(publication);
    }
}

/// Files of a server that is configured by its command line alone.
pub struct NoFiles;

impl Files for NoFiles {
    fn read(&self, _: &str) -> std::io::Result<Vec<u8>> {
        Err(std::io::ErrorKind::NotFound.into())
    }

    fn matching(&self, _: &str) -> Vec<String> {
        Vec::new()
    }

    fn enter(&self, _: &str) -> std::io::Result<()> {
        Ok(())
    }

    fn standard_input(&self) -> std::io::Result<Vec<u8>> {
        Err(std::io::ErrorKind::NotFound.into())
    }
}

struct Seat {
    worker: Worker,
    reader: Member<Qsbr>,
    batch: Batch,
}

struct Connection {
    seat: usize,
    session: Session,
    parser: RequestParser,
    input: Vec<u8>,
    output: ReplyBuffer,
}

impl Connection {
    fn execute(&mut self, shared: &Arc<Shared>, seat: &mut Seat, input: &[u8]) -> Turn {
        run_turn(
            shared,
            &mut seat.worker,
            &mut self.session,
            &mut seat.reader,
            Requests::Unparsed(&mut seat.batch),
            &mut self.parser,
            input,
            &mut self.output,
        )
    }
}

/// The server.
pub struct Server {
    pub clock: StoppedClock,
    pub journal: Arc<MemoryJournal>,
    pub publications: Arc<Publications>,
    /// Host of the server; it keeps what is logged.
    pub host: SilentHost,
    departures: Departures,
    pub shared: Arc<Shared>,
    domain: Arc<Domain<Qsbr>>,
    seats: Vec<Seat>,
    connections: BTreeMap<u64, Connection>,
}

impl Server {
    /// A server with `worker_count` workers whose clock shows `now_ms`.
    pub fn new(worker_count: usize, now_ms: u64) -> Server {
        Server::with_events(worker_count, now_ms, false)
    }

    /// A server that notes each publication, or none.
    pub fn with_events(worker_count: usize, now_ms: u64, notes_publications: bool) -> Server {
        Server::configured(worker_count, now_ms, notes_publications, Configuration::default())
    }

    /// A server that allows `DEBUG`.
    pub fn with_debug(worker_count: usize, now_ms: u64) -> Server {
        let words = ["--enable-debug-command", "yes"].map(str::to_owned);
        let loaded = load(&CommandLine::parse(words), &NoFiles);
        Server::configured(worker_count, now_ms, false, loaded.expect("it is a setting"))
    }

    fn configured(
        worker_count: usize,
        now_ms: u64,
        notes_publications: bool,
        configuration: Configuration,
    ) -> Server {
        let publications = Arc::<Publications>::default();
        let events = || Box::new(Watching(Arc::clone(&publications))) as Box<dyn KeyspaceEvents>;
        let clock = StoppedClock::new(now_ms * 1000);
        let journal = Arc::new(MemoryJournal::default());
        let departures = Departures::default();
        let host = SilentHost::default();
        let notifier = |index| {
            Box::new(Noting { index, departures: Arc::clone(&departures) }) as Box<dyn Notify>
        };
        let shared = Arc::new(Shared::new(SharedSpec {
            commands: tidemill_engine::execute::commands(),
            database_count: 16,
            seed: Seed::new(1, 2),
            notifiers: (0..worker_count).map(notifier).collect(),
            clock: Box::new(clock.clone()),
            configuration,
            host: Box::new(host.clone()),
            sinks: Sinks::new(
                notes_publications.then(events),
                Some(Box::new(NotingJournal {
                    journal: Arc::clone(&journal),
                    departures: Arc::clone(&departures),
                })),
            ),
        }));
        publications.shared.set(Arc::downgrade(&shared)).expect("set once");
        let domain = Domain::<Qsbr>::new().expect("qsbr asks nothing of the system");
        let seat = |index| {
            // SAFETY: nothing of one server's keyspace is used with another's.
            let reader = unsafe { shared.keyspace.join_beside(&domain) }.expect("few workers");
            Seat {
                worker: Worker::new(&shared, index, reader.heap(Limits::default()), index as u64),
                reader,
                batch: Batch::default(),
            }
        };
        let seats = (0..worker_count).map(seat).collect();
        Server {
            clock,
            journal,
            publications,
            host,
            departures,
            shared,
            domain,
            seats,
            connections: BTreeMap::new(),
        }
    }

    /// Makes the thread that calls it another member of the keyspace.
    pub fn joining(&self) -> impl Fn() -> Member<Qsbr> + Send + Sync + 'static {
        let (shared, domain) = (Arc::clone(&self.shared), Arc::clone(&self.domain));
        // SAFETY: nothing of one server's keyspace is used with another's.
        move || unsafe { shared.keyspace.join_beside(&domain) }.expect("few members")
    }

    /// A connection to a worker.
    pub fn connect(&mut self, seat: usize) -> u64 {
        let client =
            self.shared.clients.register(seat, ClientOrigin::default(), self.clock.now_ms());
        let id = client.id;
        let connection = Connection {
            seat,
            session: Session::new(client, &self.shared.users),
            parser: RequestParser::new(),
            input: Vec::new(),
            output: ReplyBuffer::new(Protocol::Resp2),
        };
        self.connections.insert(id, connection);
        id
    }

    /// True if a connection waits in a blocking command.
    pub fn is_blocked(&self, connection: u64) -> bool {
        self.connections[&connection].session.is_blocked()
    }

    /// True if another worker may take a connection's session over.
    pub fn is_movable(&self, connection: u64) -> bool {
        self.connections[&connection].session.is_movable()
    }

    /// Sends one command and returns what has come back until nothing more happens; empty for a
    /// client that waits.
    pub fn call(&mut self, connection: u64, words: &[&str]) -> String {
        let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
        self.call_bytes(connection, &words)
    }

    /// As [`Server::call`], with any bytes.
    pub fn call_bytes(&mut self, connection: u64, words: &[&[u8]]) -> String {
        String::from_utf8_lossy(&self.call_for_bytes(connection, words)).into_owned()
    }

    /// As [`Server::call`], with any bytes in both directions.
    pub fn call_for_bytes(&mut self, connection: u64, words: &[&[u8]]) -> Vec<u8> {
        let input = &mut self.connections.get_mut(&connection).expect("connected").input;
        input.extend_from_slice(format!("*{}\r\n", words.len()).as_bytes());
        for word in words {
            input.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
            input.extend_from_slice(word);
            input.extend_from_slice(b"\r\n");
        }
        self.turn(connection);
        self.settle();
        self.take_output_bytes(connection)
    }

    /// Sends one command and returns its reply. Nothing else happens: what it found expired is not
    /// deleted yet.
    pub fn ask(&mut self, connection: u64, words: &[&str]) -> String {
        let seat = self.connections[&connection].seat;
        self.set_running(seat, true);
        let reply = self.ask_late(connection, words);
        self.set_running(seat, false);
        reply
    }

    /// As [`Server::ask`], by the time that the connection's worker took last.
    pub fn ask_late(&mut self, connection: u64, words: &[&str]) -> String {
        let mut input = format!("*{}\r\n", words.len());
        for word in words {
            input.push_str(&format!("${}\r\n{word}\r\n", word.len()));
        }
        let state = self.connections.get_mut(&connection).expect("connected");
        let seat = &mut self.seats[state.seat];
        let turn = state.execute(&self.shared, seat, input.as_bytes());
        assert_eq!(turn.consumed, input.len(), "{words:?} is not executed: {:?}", turn.next);
        self.take_output(connection)
    }

    /// Switches sinks on and off.
    pub fn switch_sinks(&mut self, active: ActiveSinks) {
        let seat = self.seats[0].reader.seat();
        seat.enter();
        let gate = self.shared.keyspace.close_gate(seat, || false);
        self.shared.sinks.switch(active, &gate.expect("nobody else runs"));
        seat.leave();
    }

    /// Departures since the last call.
    pub fn take_departures(&self) -> Vec<Left> {
        std::mem::take(&mut *self.departures.lock().expect("no panic"))
    }

    /// Output of a connection.
    pub fn take_output(&mut self, connection: u64) -> String {
        String::from_utf8_lossy(&self.take_output_bytes(connection)).into_owned()
    }

    fn take_output_bytes(&mut self, connection: u64) -> Vec<u8> {
        let output = &mut self.connections.get_mut(&connection).expect("connected").output;
        let bytes = output.to_vec();
        output.clear();
        bytes
    }

    /// One pass of each worker's loop: messages, waits that are over, what is left between
    /// commands.
    pub fn settle(&mut self) {
        for index in 0..self.seats.len() {
            self.pass(index);
        }
    }

    /// One call of a worker's sweep.
    pub fn sweep(&mut self, index: usize) {
        let seat = &mut self.seats[index];
        seat.reader.seat().enter();
        seat.worker.boundary(&self.shared);
        let _ = execute::sweep(&self.shared, &mut seat.worker, &mut seat.reader);
        seat.reader.seat().leave();
    }

    /// Executes pipelined requests on a worker between two of its boundaries, and drops the
    /// replies. Returns their bytes.
    pub fn pipeline(&mut self, connection: u64, input: &[u8]) -> usize {
        let state = self.connections.get_mut(&connection).expect("connected");
        let seat = &mut self.seats[state.seat];
        let (mut done, mut replied) = (0, 0);
        while done < input.len() {
            done += state.execute(&self.shared, seat, &input[done..]).consumed;
            replied += state.output.len();
            state.output.clear();
        }
        replied
    }

    /// Gives a connection one turn on what it has left of its input and `input` behind it.
    pub fn turn_once(&mut self, connection: u64, input: &[u8]) -> Next {
        let state = self.connections.get_mut(&connection).expect("connected");
        let seat = &mut self.seats[state.seat];
        seat.reader.seat().enter();
        seat.worker.boundary(&self.shared);
        let mut pending = std::mem::take(&mut state.input);
        pending.extend_from_slice(input);
        let turn = state.execute(&self.shared, seat, &pending);
        pending.drain(..turn.consumed);
        state.input = pending;
        seat.reader.seat().leave();
        turn.next
    }

    /// Ends a connection, whatever it is about.
    pub fn disconnect(&mut self, connection: u64) {
        let state = self.connections.remove(&connection).expect("connected");
        self.shared.clients.unregister(connection);
        execute::end_session(&self.shared, &mut self.seats[state.seat].worker, state.session);
    }

    /// Ends the last worker, which has no connections.
    pub fn end_worker(&mut self) {
        drop(self.seats.pop());
    }

    /// A worker, and the server's state.
    pub fn worker(&mut self, index: usize) -> (&mut Worker, &Arc<Shared>) {
        (&mut self.seats[index].worker, &self.shared)
    }

    /// Lets a worker run, or stand, outside of its loop.
    pub fn set_running(&mut self, index: usize, runs: bool) {
        if runs {
            self.seats[index].reader.seat().enter();
            self.seats[index].worker.boundary(&self.shared);
        } else {
            self.seats[index].reader.seat().leave();
        }
    }

    fn turn(&mut self, connection: u64) {
        let state = self.connections.get_mut(&connection).expect("connected");
        let seat = &mut self.seats[state.seat];
        seat.reader.seat().enter();
        seat.worker.boundary(&self.shared);
        let mut input = std::mem::take(&mut state.input);
        let turn = state.execute(&self.shared, seat, &input);
        input.drain(..turn.consumed);
        state.input = input;
        assert!(
            matches!(turn.next, Next::Input { .. } | Next::Unblock),
            "a single thread has nobody to wait for: {:?}",
            turn.next
        );
        seat.reader.seat().leave();
    }

    fn pass(&mut self, index: usize) {
        let seat = &mut self.seats[index];
        seat.reader.seat().enter();
        seat.worker.boundary(&self.shared);
        for message in self.shared.mailboxes.take(index) {
            if let Message::Unblocked { session, waiter, mut reply, .. } = message
                && let Some(connection) = self.connections.get_mut(&session)
                && execute::end_wait(
                    &self.shared,
                    &mut seat.worker,
                    &mut connection.session,
                    waiter,
                )
                .is_some()
            {
                connection.output.append(&mut reply);
            }
        }
        while let Some(waiter) = seat.worker.deadlines.end_next(self.clock.monotonic_us()) {
            let connection = self.connections.get_mut(&waiter.session).expect("connected");
            let session = &mut connection.session;
            if execute::end_wait(&self.shared, &mut seat.worker, session, waiter.id).is_some() {
                waiter.block.on_timeout.write(&mut connection.output, None);
            }
        }
        let shared = &self.shared;
        let worker = &mut seat.worker;
        execute::run_orphans(shared, worker, &mut seat.reader);
        seat.reader.section(&mut |section| {
            execute::delete_expired(shared, worker, section);
            execute::serve_postponed(shared, worker, section);
        });
        execute::relieve(shared, worker, &mut seat.reader);
        seat.worker.receivers.begin_sending(&shared.lanes, index);
        while seat.worker.receivers.collect() {
            while let Some(dirty) = seat.worker.receivers.next_dirty() {
                assert!(!dirty.is_cut_off, "nothing here is that much");
                let connection = self.connections.get_mut(&dirty.session).expect("connected");
                seat.worker.receivers.take_inbox(dirty.session, &mut connection.output);
            }
        }
        seat.reader.seat().leave();
        seat.worker.heap.retire_unpinned(usize::MAX);
        seat.worker
            .heap
            .retired()
            .reclaim(&self.domain, Budget { items: usize::MAX, bytes: usize::MAX });
        seat.reader.quiescent();
    }
}
