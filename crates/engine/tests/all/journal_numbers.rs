//! Numbers of journal records: taken before anything of the record's unit can be seen, and after
//! the unit has its last slot.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Instant;

use tidemill_engine::commit::{
    ActiveSinks, Effect, Event, Journal, KeyspaceEvents, MemoryJournal, Record, RecordNumber, Sinks,
};
use tidemill_engine::config::Configuration;
use tidemill_engine::shared::{Shared, SharedSpec};
use tidemill_rcu::{Domain, Qsbr};
use tidemill_store::SlotNumber;
use tidemill_store::hash::Seed;
use tidemill_testkit::surroundings::{SilentHost, SilentNotifier};

use crate::harness::Server;
use crate::harness::seat::{Running, Seat};

const START_MS: u64 = 1_700_000_000_000;
/// Key whose publication lets the other worker act.
const SEEN: &str = "seen";

/// At the first publication of [`SEEN`], under the lock of its slot, lets another worker read it
/// and write what it read, and goes on when that is done.
struct Meanwhile {
    publish: SyncSender<()>,
    acted: Mutex<Receiver<()>>,
}

impl KeyspaceEvents for Meanwhile {
    fn event(&self, _database: usize, key: &[u8], event: Event) {
        if key == SEEN.as_bytes() && event.name == "set" {
            self.publish.send(()).expect("the other worker waits");
            self.acted.lock().expect("no panic").recv().expect("it acts");
        }
    }
}

fn shared(events: Option<Box<dyn KeyspaceEvents>>, journal: impl Journal) -> Arc<Shared> {
    Arc::new(Shared::new(SharedSpec {
        commands: tidemill_engine::execute::commands(),
        database_count: 1,
        seed: Seed::new(1, 2),
        notifiers: (0..2).map(|_| Box::new(SilentNotifier) as _).collect(),
        clock: Box::new(Running(Instant::now())),
        configuration: Configuration::default(),
        host: Box::new(SilentHost::default()),
        sinks: Sinks::new(events, Some(Box::new(journal))),
    }))
}

fn words(line: &str) -> Vec<Vec<u8>> {
    line.split(' ').map(|word| word.as_bytes().to_vec()).collect()
}

/// First keys of the records, in the order of their numbers.
fn journaled_keys(journal: &MemoryJournal) -> Vec<String> {
    let key =
        |effect: &Effect| String::from_utf8_lossy(effect.arguments.view().get(1)).into_owned();
    journal.take().iter().filter_map(|record| record.first().map(key)).collect()
}

#[test]
fn a_write_that_depends_on_a_value_is_journaled_behind_it() {
    let journal = Arc::new(MemoryJournal::default());
    let (publish, published) = sync_channel(0);
    let (act, acted) = sync_channel(0);
    let events = Meanwhile { publish, acted: Mutex::new(acted) };
    let shared = shared(Some(Box::new(events)), Arc::clone(&journal));
    let domain = Domain::<Qsbr>::new().expect("qsbr asks nothing of the system");
    thread::scope(|scope| {
        let (shared, domain) = (&shared, &domain);
        scope.spawn(move || {
            let mut seat = Seat::new(shared, domain, 1);
            published.recv().expect("the key is published");
            assert_eq!(seat.call(&words("GET seen")), "$1\r\nv\r\n");
            assert_eq!(seat.call(&words("SET depends v")), "+OK\r\n");
            act.send(()).expect("the first worker waits");
        });
        let mut seat = Seat::new(shared, domain, 0);
        assert_eq!(seat.call(&words("SET seen v")), "+OK\r\n");
    });
    assert_eq!(journaled_keys(&journal), [SEEN, "depends"]);
}

/// A journal that looks, when it is asked for a number, which keys' slots are held.
#[derive(Debug, Default)]
struct Looking {
    journal: MemoryJournal,
    shared: std::sync::OnceLock<std::sync::Weak<Shared>>,
    held: Mutex<Vec<bool>>,
    published: Mutex<Vec<bool>>,
}

impl Looking {
    fn word_is_held(&self, key: &str) -> bool {
        let shared = self.shared.get().and_then(std::sync::Weak::upgrade).expect("it is there");
        shared.keyspace.word(SlotNumber::of_key(key.as_bytes())).load().is_held()
    }
}

impl Journal for Looking {
    fn number(&self) -> RecordNumber {
        self.held.lock().expect("no panic").push(self.word_is_held("first"));
        self.published.lock().expect("no panic").push(self.word_is_held("last"));
        self.journal.number()
    }

    fn append(&self, worker: usize, number: RecordNumber, record: &mut Record) {
        self.journal.append(worker, number, record);
    }
}

/// The number of a unit whose slots are held is taken with all of them marked: it has its last
/// slot, and readers still wait.
#[test]
fn a_held_unit_is_numbered_once_behind_its_last_slot() {
    let looking = Arc::new(Looking::default());
    let shared = shared(None, Arc::clone(&looking));
    looking.shared.set(Arc::downgrade(&shared)).expect("set once");
    let domain = Domain::<Qsbr>::new().expect("qsbr asks nothing of the system");
    let mut seat = Seat::new(&shared, &domain, 0);
    seat.call(&words("MSET first 1 last 1"));
    for line in ["MULTI", "SET first 2", "SET last 2", "EXEC"] {
        seat.call(&words(line));
    }
    assert_eq!(*looking.held.lock().expect("no panic"), [true, true]);
    assert_eq!(*looking.published.lock().expect("no panic"), [true, true]);
    assert_eq!(journaled_keys(&looking.journal), ["first", "first"]);
}

/// `SORT ... STORE` meets keys that its arguments do not name, and locks their slots on the way.
#[test]
fn a_unit_that_grows_is_numbered_behind_the_last_slot_that_it_met() {
    let mut server = Server::new(1, START_MS);
    let client = server.connect(0);
    let mut call = |line: &str| server.call(client, &line.split(' ').collect::<Vec<_>>());
    call("RPUSH list 3 1 2");
    call("MSET w1 30 w2 20 w3 10");
    assert_eq!(call("SORT list BY w* STORE out"), ":3\r\n");
    for line in ["MULTI", "SET first 1", "SORT list BY w* STORE out", "SET last 1", "EXEC"] {
        assert!(!call(line).contains("-ERR"), "{line}");
    }
    assert_eq!(call("LRANGE out 0 -1"), "*3\r\n$1\r\n3\r\n$1\r\n2\r\n$1\r\n1\r\n");
    assert_eq!(server.journal.take().len(), 4);
}

/// A waiter that pushes elsewhere adds a slot to those of the write that serves it.
#[test]
fn a_served_client_may_take_a_further_slot_because_it_has_a_number_of_its_own() {
    let mut server = Server::new(2, START_MS);
    let (waiting, pushing) = (server.connect(0), server.connect(1));
    assert_eq!(server.call(waiting, &["BLMOVE", "from", "to", "LEFT", "RIGHT", "0"]), "");
    assert_eq!(server.call(pushing, &["RPUSH", "from", "x"]), ":1\r\n");
    assert_eq!(server.take_output(waiting), "$1\r\nx\r\n");
    assert_eq!(server.journal.take().len(), 2);
}

#[test]
fn a_deletion_of_what_expired_has_a_record_although_the_command_changes_nothing() {
    let mut server = Server::new(1, START_MS);
    let client = server.connect(0);
    server.call(client, &["SET", "k", "v", "PX", "5"]);
    server.clock.advance_ms(10);
    assert_eq!(server.call(client, &["SET", "k", "v", "XX"]), "$-1\r\n");
    assert_eq!(server.journal.take().len(), 2);
}

#[test]
fn sinks_are_switched_while_the_server_runs() {
    let mut server = Server::with_events(1, START_MS, true);
    let client = server.connect(0);
    for active in [ActiveSinks::empty(), ActiveSinks::EVENTS, ActiveSinks::JOURNAL] {
        server.switch_sinks(active);
        let _ = (server.publications.take(), server.journal.take());
        server.call(client, &["SET", "k", "v"]);
        assert_eq!(!server.publications.take().is_empty(), active.contains(ActiveSinks::EVENTS));
        assert_eq!(!server.journal.take().is_empty(), active.contains(ActiveSinks::JOURNAL));
    }
}
