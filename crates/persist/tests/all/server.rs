//! A keyspace with its thread: the part of a server that saves and loads need.

use std::path::Path;
use std::sync::Arc;

use tidemill_engine::commit::Sinks;
use tidemill_engine::config::Configuration;
use tidemill_engine::execute;
use tidemill_engine::saving::Present;
use tidemill_engine::shared::{Shared, SharedSpec};
use tidemill_engine::stored::encode::UseRules;
use tidemill_persist::disk::simulated::SimulatedDisk;
use tidemill_persist::load::{LoadError, LoadRules, Loaded, load, open};
use tidemill_persist::snapshot::{Alone, Purpose, SaveRules, SnapshotError, WriteRules, save};
use tidemill_rcu::{Domain, Limits, Qsbr};
use tidemill_rdb::encode::Compression;
use tidemill_store::entry::StringValue;
use tidemill_store::hash::Seed;
use tidemill_store::value::list::{List, ListEdit};
use tidemill_store::{
    Encoding, EntrySpec, Heap, Keyspace, Kind, Member, NewValue, OwnedEntry, SlotNumber, TreeSpec,
};
use tidemill_testkit::surroundings::{SilentHost, SilentNotifier, StoppedClock};

pub const PATH: &str = "dump.rdb";

pub struct Server {
    pub shared: Arc<Shared>,
    pub member: Member<Qsbr>,
    pub heap: Heap,
}

impl Server {
    pub fn new() -> Server {
        let shared = Arc::new(Shared::new(SharedSpec {
            commands: execute::commands(),
            database_count: 2,
            seed: Seed::new(1, 2),
            notifiers: vec![Box::new(SilentNotifier)],
            clock: Box::new(StoppedClock::new(1_700_000_000_000_000)),
            configuration: Configuration::default(),
            host: Box::new(SilentHost::default()),
            sinks: Sinks::default(),
        }));
        let domain = Domain::<Qsbr>::new().expect("qsbr needs nothing of the system");
        // SAFETY: nothing of one test's keyspace is used with another's.
        let member = unsafe { shared.keyspace.join_beside(&domain) }.expect("the first member");
        let heap = member.heap(Limits::default());
        Server { shared, member, heap }
    }

    /// A server with `count` keys, whose values are all `text`.
    pub fn with_keys(count: usize, text: &str) -> Server {
        let server = Server::new();
        for number in 0..count {
            server.set(&format!("key:{number}"), text);
        }
        server
    }

    /// Adds a key that is absent.
    pub fn set(&self, key: &str, value: &str) {
        let keyspace = &self.shared.keyspace;
        let key_hash = keyspace.key_hash(key.as_bytes());
        let guard = self.member.enter();
        let mut lock = keyspace.try_lock(key_hash.slot).expect("no other thread");
        let spec = EntrySpec {
            key: key.as_bytes(),
            kind: Kind::String,
            encoding: Encoding::Raw,
            expires_at_ms: None,
            recency: 0,
            value: NewValue::String(value.as_bytes()),
        };
        let entry = OwnedEntry::new(spec, &self.heap);
        lock.insert(0, key_hash.hash, entry, guard.section(), &self.heap);
    }

    /// Adds a list under a key that is absent.
    pub fn set_list(&self, key: &str, elements: impl Iterator<Item = String>) {
        let keyspace = &self.shared.keyspace;
        let key_hash = keyspace.key_hash(key.as_bytes());
        let guard = self.member.enter();
        let mut lock = keyspace.try_lock(key_hash.slot).expect("no other thread");
        let mut edit = ListEdit::create(&self.heap);
        elements.for_each(|element| edit.push_back(element.as_bytes()));
        let tree = TreeSpec {
            key: key.as_bytes(),
            hash: key_hash.hash,
            encoding: Encoding::Quicklist,
            expires_at_ms: None,
            recency: 0,
        };
        let _present = lock.put_tree::<List<'_>>(0, None, edit, tree, guard.section(), &self.heap);
    }

    /// Elements of the list under a key.
    pub fn list(&self, key: &str) -> Vec<String> {
        let keyspace = &self.shared.keyspace;
        let key_hash = keyspace.key_hash(key.as_bytes());
        let guard = self.member.enter();
        let entry = keyspace.find(0, key_hash, key.as_bytes(), guard.section());
        let list = entry.and_then(|entry| entry.view::<List<'_>>(keyspace.seed()));
        let elements = list.into_iter().flat_map(|list| list.iter());
        elements.map(|bytes| String::from_utf8(bytes.to_vec()).expect("texts")).collect()
    }

    /// Saves everything, alone.
    pub fn save(&mut self, disk: &SimulatedDisk) -> Result<u64, SnapshotError> {
        self.save_after(disk, |_| {})
    }

    /// Saves everything; `begun` is called behind the cut.
    pub fn save_after(
        &mut self,
        disk: &SimulatedDisk,
        begun: impl FnOnce(&Shared),
    ) -> Result<u64, SnapshotError> {
        let seat = std::rc::Rc::clone(self.member.seat());
        let Server { shared, member, heap } = self;
        let gate = shared.keyspace.close_gate(&seat, || false).expect("no other member");
        let cut = {
            let guard = member.enter();
            shared.begin_save(&gate, guard.section(), false).expect("no other save")
        };
        begun(shared);
        let rules = SaveRules {
            content: WriteRules {
                purpose: Purpose::Save,
                compression: Compression::Lzf,
                has_checksum: true,
                list_listpack_size_max: -2,
                clock: shared.expiry_clock(),
                key_delay_us: 0,
                uses: UseRules::of(&shared.settings()),
                fields: Vec::new(),
            },
            syncs_in_steps: true,
        };
        let saved = save(disk, Path::new(PATH), cut, shared, &mut Alone(member), heap, &rules);
        shared.end_save(saved.is_ok());
        saved
    }

    /// Loads what a disk has.
    pub fn load(&mut self, disk: &SimulatedDisk) -> Result<Option<Loaded>, LoadError> {
        let settings = self.shared.settings();
        let rules = LoadRules {
            keeps_expired: false,
            present: Present::Removed,
            clock: self.shared.expiry_clock(),
            settings: &settings,
            verifies_checksum: true,
        };
        let Server { shared, member, .. } = self;
        let domain = Arc::clone(member.domain());
        let path = Path::new(PATH);
        let Some(file) = open(disk, path)? else { return Ok(None) };
        load(&*file, path, (&**shared, &domain), rules, 2, &mut |_| {}).map(Some)
    }

    /// Takes all keys of the first database out, and returns its live bytes and those that were
    /// counted.
    pub fn flush(&mut self) -> (i64, i64) {
        let seat = std::rc::Rc::clone(self.member.seat());
        let keyspace = &self.shared.keyspace;
        let gate = keyspace.close_gate(&seat, || false).expect("no other member");
        let bytes = keyspace.detach(0, &gate, &self.heap).map_or(0, |detached| detached.bytes);
        (bytes as i64, self.shared.live_bytes() as i64 + self.heap.live_bytes())
    }

    /// All keys and their strings.
    pub fn content(&self) -> Vec<(String, String)> {
        let keyspace: &Keyspace<_> = &self.shared.keyspace;
        let guard = self.member.enter();
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("texts");
        let entries = SlotNumber::all().flat_map(|slot| keyspace.entries(0, slot, guard.section()));
        let mut all: Vec<_> = entries
            .map(|entry| match entry.string() {
                Some(StringValue::Plain(value)) => (text(entry.key()), text(value)),
                _ => panic!("plain strings only"),
            })
            .collect();
        all.sort();
        all
    }
}

/// Keys and values on a disk, as a server reads them.
pub fn content_of(disk: &SimulatedDisk) -> Vec<(String, String)> {
    let mut server = Server::new();
    server.load(disk).expect("a whole file").expect("a file");
    server.content()
}
