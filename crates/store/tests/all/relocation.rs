//! Entries that are not their slot's any more when they are to move.

use tidemill_store::hash::Seed;
use tidemill_store::value::hash::{Hash, HashEdit};
use tidemill_store::{
    Block, Encoding, EntryRef, Heap, Judge, Keyspace, ReleaseObserver, Relocated, SlotLock,
    SlotNumber, TreePlace, TreeSpec,
};

use crate::tree_common::section;

const KEY: &[u8] = b"collection";
const FIELD_COUNT: usize = 2000;

struct NoObserver;
impl ReleaseObserver for NoObserver {
    fn released(&self, _slot: SlotNumber, _clear: &dyn Fn()) {}
}

/// A keyspace with one hash.
struct World {
    keyspace: Keyspace<()>,
    heap: Heap,
}

impl World {
    fn new() -> World {
        let keyspace = Keyspace::new(1, Seed::new(1, 2), NoObserver);
        World { keyspace, heap: Heap::new() }
    }

    fn entry(&self) -> EntryRef<'_> {
        let found = self.keyspace.find(0, self.keyspace.key_hash(KEY), KEY, section(self));
        found.expect("the hash has fields")
    }

    fn lock(&self) -> SlotLock<'_, ()> {
        let slot = self.keyspace.key_hash(KEY).slot;
        self.keyspace.try_lock(slot).expect("nobody else locks")
    }

    fn edit(&self, change: impl FnOnce(&mut HashEdit<'_>)) {
        let (key_hash, section) = (self.keyspace.key_hash(KEY), section(self));
        let mut lock = self.lock();
        let found = lock.find(0, key_hash, KEY, section);
        let mut editing = lock.edit::<Hash<'_>>(found, &self.heap);
        change(&mut editing);
        let (hash, encoding) = (key_hash.hash, Encoding::Hashtable);
        let spec = TreeSpec { key: KEY, hash, encoding, expires_at_ms: None, recency: 0 };
        let _ = lock.publish_tree(0, editing, spec, section, &self.heap);
    }

    fn fill(&self) {
        self.edit(|edit| {
            (0..FIELD_COUNT).for_each(|number| {
                edit.set(&field(number), b"value", None);
            })
        });
    }

    /// Moves all blocks of an entry; returns how many were asked about.
    fn relocate(&self, entry: EntryRef<'_>) -> u64 {
        let (mut asked_count, mut relocated) = (0, Relocated::default());
        relocated.elements_left = usize::MAX;
        let mut judge = |_: Block<'_>| {
            asked_count += 1;
            true
        };
        let work = (&mut judge as &mut Judge<'_>, &mut relocated);
        let place = TreePlace::default();
        let rest = self.lock().relocate(0, entry, place, work, section(self), &self.heap);
        assert!(rest.is_none());
        assert_eq!(asked_count, relocated.moved_count);
        asked_count
    }
}

fn field(number: usize) -> Vec<u8> {
    format!("field-{number:06}").into_bytes()
}

/// An entry that a section keeps readable need not be the one that its slot holds.
#[test]
fn nothing_of_an_outdated_entry_moves() {
    let (world, other) = (World::new(), World::new());
    world.fill();
    other.fill();
    assert_eq!(world.relocate(other.entry()), 0, "it is another keyspace's");
    let first = world.entry();
    // A field that expires is a mark of the entry; nearly all nodes are those of before.
    world.edit(|edit| assert!(!edit.set(&field(8), b"value", Some(9))));
    let second = world.entry();
    assert!(!second.is(first));
    assert_eq!(world.relocate(first), 0, "the tree is its successor's");
    world.edit(|edit| (0..FIELD_COUNT).for_each(|number| assert!(edit.remove(&field(number)))));
    assert_eq!(world.relocate(second), 0, "there is no such key any more");
    world.fill();
    assert!(world.relocate(world.entry()) > 10, "this one is current");
    let hash = world.entry().view::<Hash<'_>>(world.keyspace.seed()).expect("a hash");
    hash.check();
    assert_eq!(hash.len(), FIELD_COUNT as u64);
}
