//! Changes of large collections that replace one leaf where it is, with readers on other threads.
//!
//! A process of its own: while a version is pinned anywhere in a process, nothing changes in place,
//! and these tests both pin and expect such changes. Freed memory is overwritten at once. What must
//! hold:
//!
//! - a change in place leaves the entry where it is, and all counts as they were;
//! - it does not happen beside a pin, nor when the edit fails;
//! - a read whose slot's word is unchanged is of one moment, as is a pinned version; one view of a
//!   set or sorted set is, whatever the word says;
//! - of one field, a reader sees no older value after a newer one, whatever happened to the tree.
#![allow(unsafe_code, clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tidemill_rcu::{Budget, Domain, Flavour, Limits, Memb, Qsbr};
use tidemill_store::entry::StringValue;
use tidemill_store::hash::Seed;
use tidemill_store::value::hash::{Hash, HashEdit};
use tidemill_store::value::list::List;
use tidemill_store::value::set::{Member as SetMember, Set};
use tidemill_store::value::sorted_set::SortedSet;
use tidemill_store::value::text::Text;
use tidemill_store::{
    Block, Collection, Encoding, EntryRef, Heap, Judge, Keyspace, Member, Published,
    ReleaseObserver, Relocated, Section, SlotLock, SlotNumber, TreePlace, TreeSpec, Version,
};

#[path = "allocator/mod.rs"]
mod allocator;
#[path = "all/tree_common.rs"]
mod tree_common;

use tree_common::Random;

const KEY: &[u8] = b"collection";
const RUN_TIME: Duration = Duration::from_millis(1500);
/// Reads that must count: a run goes on for them, on a busy machine, up to [`LATEST`].
const COUNTED_MIN: u64 = 100;
const LATEST: Duration = Duration::from_secs(60);
const READER_COUNT: usize = 2;

/// Tests that pin and those that expect changes in place follow each other.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

struct NoObserver;
impl ReleaseObserver for NoObserver {
    fn released(&self, _slot: SlotNumber, _clear: &dyn Fn()) {}
}

struct World {
    keyspace: Keyspace<()>,
}

impl World {
    fn new() -> World {
        World { keyspace: Keyspace::new(1, Seed::new(1, 2), NoObserver) }
    }

    fn join<F: Flavour>(&self, domain: &Arc<Domain<F>>) -> Member<F> {
        // SAFETY: nothing of one test's keyspace is used with another's.
        unsafe { self.keyspace.join_beside(domain) }.expect("few threads")
    }

    fn lock(&self) -> SlotLock<'_, ()> {
        let slot = self.keyspace.key_hash(KEY).slot;
        loop {
            match self.keyspace.try_lock(slot) {
                Some(lock) => return lock,
                None => std::thread::yield_now(),
            }
        }
    }

    /// The entry as it is found without a lock.
    fn entry<'g>(&'g self, section: Section<'g>) -> Option<EntryRef<'g>> {
        self.keyspace.find(0, self.keyspace.key_hash(KEY), KEY, section)
    }

    /// Edits the collection and publishes it; tells whether the entry stayed.
    fn write<C: Collection>(&self, heap: &Heap, change: impl FnOnce(&mut C::Edit<'_>)) -> bool {
        // SAFETY: what is found is used under the lock, and freed behind a grace period.
        let section = unsafe { Section::assume() };
        let key_hash = self.keyspace.key_hash(KEY);
        let mut lock = self.lock();
        let found = lock.find(0, key_hash, KEY, section);
        let mut editing = lock.edit::<C>(found, heap);
        change(&mut editing);
        let spec = TreeSpec {
            key: KEY,
            hash: key_hash.hash,
            encoding: Encoding::Hashtable,
            expires_at_ms: None,
            recency: 0,
        };
        let published = lock.publish_tree(0, editing, spec, section, heap);
        let now = lock.find(0, key_hash, KEY, section);
        assert_eq!(published == Published::Present, now.is_some());
        // The key is stored in the entry.
        let address = |entry: EntryRef<'_>| entry.key().as_ptr();
        found.map(|found| address(found.entry)) == now.map(|now| address(now.entry))
    }

    /// Moves blocks of the key and its value as the judge decides, after looking at some elements
    /// in one go; returns the numbers of blocks that moved and that stayed.
    fn relocate(
        &self,
        heap: &Heap,
        elements_left: usize,
        mut judge: impl FnMut() -> bool,
    ) -> (u64, u64) {
        // SAFETY: as in `write`.
        let section = unsafe { Section::assume() };
        let key_hash = self.keyspace.key_hash(KEY);
        let mut judge = |_: Block<'_>| judge();
        let (mut place, mut counts) = (TreePlace::default(), (0, 0));
        loop {
            let mut lock = self.lock();
            let Some(found) = lock.find(0, key_hash, KEY, section) else { return counts };
            let mut relocated = Relocated { elements_left, ..Relocated::default() };
            let work = (&mut judge as &mut Judge<'_>, &mut relocated);
            let rest = lock.relocate(0, found.entry, place, work, section, heap);
            counts = (counts.0 + relocated.moved_count, counts.1 + relocated.kept_count);
            match rest {
                Some(next) => place = next,
                None => return counts,
            }
        }
    }

    fn pin(&self) -> Option<Version> {
        // SAFETY: as in `write`.
        let section = unsafe { Section::assume() };
        let key_hash = self.keyspace.key_hash(KEY);
        let mut lock = self.lock();
        let found = lock.find(0, key_hash, KEY, section)?;
        lock.pin(0, key_hash.hash, found)
    }
}

fn field(number: usize) -> Vec<u8> {
    format!("field-{number:06}").into_bytes()
}

fn text_of(number: u64) -> Vec<u8> {
    format!("{number:016}").into_bytes()
}

fn number_of(text: &[u8]) -> u64 {
    std::str::from_utf8(text).unwrap().parse().unwrap()
}

/// A hash with `count` fields, all of them zero.
fn fill_hash(world: &World, heap: &Heap, count: usize) {
    world.write::<Hash<'_>>(heap, |edit| {
        (0..count).for_each(|number| {
            edit.set(&field(number), &text_of(0), None);
        });
    });
}

/// The hash under the key.
fn hash_of<'g>(world: &'g World, section: Section<'g>) -> Hash<'g> {
    world.entry(section).unwrap().view::<Hash<'_>>(world.keyspace.seed()).unwrap()
}

#[test]
fn a_change_in_place_keeps_entry_and_counts() {
    let _alone = alone();
    let (world, heap) = (World::new(), Heap::new());
    // SAFETY: nothing is freed before the end.
    let section = unsafe { Section::assume() };
    fill_hash(&world, &heap, 2000);
    let live = heap.live_bytes();
    let is_kept = world.write::<Hash<'_>>(&heap, |edit| {
        assert!(!edit.set(&field(7), &text_of(1), None));
    });
    assert!(is_kept && heap.live_bytes() == live);
    hash_of(&world, section).check();
    assert_eq!(hash_of(&world, section).get(&field(7)).unwrap().value, text_of(1));
    // Two fields of two leaves; another size; a new field; one field less: another root. A field
    // that expires is a mark of the entry.
    type Change = fn(&mut HashEdit<'_>) -> bool;
    let others: [(Change, bool); 5] = [
        (|edit| (7..20).any(|number| edit.set(&field(number), &text_of(2), None)), true),
        (|edit| edit.set(&field(7), &[b'v'; 300], None), true),
        (|edit| edit.set(&field(8), &text_of(2), Some(9)), false),
        (|edit| edit.set(b"new", b"", None), true),
        (|edit| edit.remove(&field(9)), true),
    ];
    for (other, expected) in others {
        let is_kept = world.write::<Hash<'_>>(&heap, |edit| {
            other(edit);
        });
        assert_eq!(is_kept, expected);
        hash_of(&world, section).check();
    }
    assert_eq!(hash_of(&world, section).len(), 2000);
    // SAFETY: nothing reads.
    unsafe { tree_common::free_retired(&heap) };
    // The database counts what its blocks take, whatever was stored where.
    let member = world.join(&Domain::<Qsbr>::new().unwrap());
    let alone = world.keyspace.close_gate(member.seat(), || false).unwrap();
    let detached = world.keyspace.detach(0, &alone, &heap).unwrap();
    assert_eq!(detached.bytes as i64, heap.live_bytes());
    drop(alone);
    // SAFETY: nothing reads.
    unsafe { tree_common::free_retired(&heap) };
}

#[test]
fn a_failing_edit_leaves_the_collection_as_it_was() {
    let _alone = alone();
    let (world, heap) = (World::new(), Heap::new());
    // SAFETY: nothing is freed before the end.
    let section = unsafe { Section::assume() };
    fill_hash(&world, &heap, 2000);
    let lock = world.lock();
    let found = lock.find(0, world.keyspace.key_hash(KEY), KEY, section);
    let mut editing = lock.edit::<Hash<'_>>(found, &heap);
    editing.set(&field(7), &text_of(1), None);
    // The command finds an error now.
    drop(editing);
    hash_of(&world, section).check();
    let value = hash_of(&world, section).get(&field(7)).unwrap().value;
    assert_eq!(value, text_of(0), "a leaf of an edit that failed is linked, and freed");
}

#[test]
fn nothing_changes_in_place_beside_a_pin() {
    let _alone = alone();
    let (world, heap) = (World::new(), Heap::new());
    fill_hash(&world, &heap, 2000);
    let set = |value| {
        world.write::<Hash<'_>>(&heap, |edit| {
            edit.set(&field(7), &text_of(value), None);
        })
    };
    assert!(set(1));
    let version = world.pin().unwrap();
    assert!(!set(2), "another collection would do as well: pins are the process's");
    let is_kept = world.write::<Hash<'_>>(&heap, |edit| {
        edit.set(b"new", b"", None);
    });
    assert!(!is_kept, "a root neither");
    let pinned = version.view::<Hash<'_>>(world.keyspace.seed()).unwrap();
    assert_eq!(pinned.get(&field(7)).unwrap().value, text_of(1));
    drop(version);
    assert!(set(3));
    heap.retire_unpinned(usize::MAX);
    // SAFETY: nothing reads.
    unsafe { tree_common::free_retired(&heap) };
}

#[test]
fn every_block_moves_once_and_the_value_stays() {
    let _alone = alone();
    let (world, heap) = (World::new(), Heap::new());
    // SAFETY: nothing is freed before the end.
    let section = unsafe { Section::assume() };
    for (count, elements) in [(0, 1), (1, 1), (2, 1000), (2000, 1), (2000, 77), (2000, usize::MAX)]
    {
        fill_hash(&world, &heap, count);
        let (live, address) = (heap.live_bytes(), world.entry(section).map(EntryRef::key));
        let retired = heap.retired().len() as u64;
        let (none, all) = world.relocate(&heap, elements, || false);
        assert_eq!((none, heap.retired().len() as u64), (0, retired), "nothing was to move");
        let (moved, kept) = world.relocate(&heap, elements, || true);
        assert_eq!((moved, kept), (all, 0));
        assert_eq!(heap.retired().len() as u64, retired + moved, "each was replaced once");
        assert_eq!(heap.live_bytes(), live);
        assert!(moved >= 2 || count == 0);
        let Some(entry) = world.entry(section) else { continue };
        assert!(!std::ptr::eq(entry.key(), address.unwrap()), "the entry has moved");
        assert_eq!(entry.encoding(), Encoding::Hashtable);
        hash_of(&world, section).check();
        assert_eq!(hash_of(&world, section).len(), count as u64);
        // SAFETY: nothing reads; a node that is still linked would be overwritten now.
        unsafe { tree_common::free_retired(&heap) };
        let hash = hash_of(&world, section);
        assert!((0..count).all(|number| hash.get(&field(number)).unwrap().value == text_of(0)));
    }
}

#[test]
fn nothing_below_a_root_moves_beside_a_pin() {
    let _alone = alone();
    let (world, heap) = (World::new(), Heap::new());
    fill_hash(&world, &heap, 2000);
    let version = world.pin().unwrap();
    assert_eq!(world.relocate(&heap, 10, || true), (2, 0), "the entry and the root");
    heap.retire_unpinned(usize::MAX);
    // SAFETY: what the pin keeps is not among it.
    unsafe { tree_common::free_retired(&heap) };
    version.view::<Hash<'_>>(world.keyspace.seed()).unwrap().check();
    drop(version);
    assert!(world.relocate(&heap, 10, || true).0 > 10);
    heap.retire_unpinned(usize::MAX);
    // SAFETY: nothing reads.
    unsafe { tree_common::free_retired(&heap) };
}

#[test]
fn what_an_edit_shows_is_what_it_has_done() {
    let _alone = alone();
    let (world, heap) = (World::new(), Heap::new());
    fill_hash(&world, &heap, 2000);
    world.write::<Hash<'_>>(&heap, |edit| {
        edit.set(&field(7), &text_of(1), None);
        assert_eq!(edit.get(&field(7)).unwrap().value, text_of(1));
        edit.view().unwrap().check_values();
        edit.set(&field(7), &text_of(2), None);
        assert_eq!(edit.place(&field(7)).get().unwrap().value, text_of(2));
    });
    // SAFETY: nothing reads.
    unsafe { tree_common::free_retired(&heap) };
}

trait CheckValues {
    fn check_values(&self);
}

impl CheckValues for Hash<'_> {
    fn check_values(&self) {
        assert_eq!(self.iter().map(|entry| number_of(entry.value)).sum::<u64>(), 1);
    }
}

/// Random writes, each compared with a model.
struct Model<'w> {
    world: &'w World,
    heap: Heap,
    random: Random,
    in_place_count: usize,
}

impl Model<'_> {
    fn note(&mut self, is_kept: bool) {
        self.in_place_count += usize::from(is_kept);
        if self.random.below(20) == 0 {
            let (elements, random) = (1 + self.random.below(100), &mut self.random);
            self.world.relocate(&self.heap, elements, || random.below(3) == 0);
        }
        if self.heap.retired().len() > 100 {
            // SAFETY: a model has no readers.
            unsafe { tree_common::free_retired(&self.heap) };
        }
    }

    fn hash(&mut self) {
        let mut model = BTreeMap::new();
        for step in 0..20_000 {
            let name = field(self.random.below(1500));
            let is_removed = self.random.below(5) == 0;
            let value = self.random.bytes(if step % 2 == 0 { 20 } else { 200 });
            let expiry = (self.random.below(10) == 0).then_some(5 + step as u64);
            let is_kept = self.world.write::<Hash<'_>>(&self.heap, |edit| {
                if is_removed {
                    assert_eq!(edit.remove(&name), model.remove(&name).is_some());
                } else {
                    let old = model.insert(name.clone(), (value.clone(), expiry));
                    assert_eq!(edit.set(&name, &value, expiry), old.is_none());
                }
                assert_eq!(edit.len(), model.len() as u64);
            });
            self.note(is_kept);
            if step % 100 == 0 && !model.is_empty() {
                // SAFETY: nothing is freed meanwhile.
                let hash = hash_of(self.world, unsafe { Section::assume() });
                hash.check();
                let is_same = |(name, (value, expiry)): (&Vec<u8>, &(Vec<u8>, Option<u64>))| {
                    let found = hash.get(name).unwrap();
                    found.value == value && found.expires_at_ms == *expiry
                };
                assert!(model.iter().all(is_same) && hash.len() == model.len() as u64);
            }
        }
    }

    fn list(&mut self) {
        let mut model: Vec<Vec<u8>> = Vec::new();
        for step in 0..20_000 {
            let element = self.random.bytes(40);
            let (choice, at) = (self.random.below(100), self.random.below(model.len()));
            let is_kept = self.world.write::<List<'_>>(&self.heap, |edit| match choice {
                0..6 if model.len() > 3 => {
                    model.remove(at);
                    edit.remove(at as u64);
                }
                0..20 => {
                    model.push(element.clone());
                    edit.push_back(&element);
                }
                20..26 => {
                    model.insert(0, element.clone());
                    edit.push_front(&element);
                }
                _ if model.is_empty() => edit.push_back(&{
                    model.push(element.clone());
                    element
                }),
                _ => {
                    model[at] = element.clone();
                    assert!(edit.set(at as u64, &element));
                    assert!(choice % 10 != 0 || edit.get(at as u64) == Some(&element[..]));
                }
            });
            self.note(is_kept);
            if step % 100 == 0 {
                // SAFETY: nothing is freed meanwhile.
                let entry = self.world.entry(unsafe { Section::assume() }).unwrap();
                let list = entry.view::<List<'_>>(self.world.keyspace.seed()).unwrap();
                list.check();
                assert!(list.iter().eq(model.iter().map(Vec::as_slice)));
            }
        }
    }

    fn text(&mut self) {
        let mut model: Vec<u8> = Vec::new();
        for step in 0..10_000 {
            let bytes = self.random.bytes(50);
            let at = self.random.below(model.len() + usize::from(step % 5 == 0) * 3000);
            let is_kept = self.world.write::<Text<'_>>(&self.heap, |edit| {
                if model.is_empty() {
                    model.push(1);
                    edit.append(&[1]);
                }
                if !bytes.is_empty() {
                    let end = at + bytes.len();
                    model.resize(model.len().max(end), 0);
                    model[at..end].copy_from_slice(&bytes);
                    edit.write(at as u64, &bytes);
                }
            });
            self.note(is_kept);
            if step % 100 == 0 {
                // SAFETY: nothing is freed meanwhile.
                let entry = self.world.entry(unsafe { Section::assume() }).unwrap();
                let Some(StringValue::Chunks(text)) = entry.string() else { panic!("chunks") };
                text.check();
                let mut whole = Vec::new();
                text.copy_to(0..text.len(), &mut whole);
                assert!(whole == model);
            }
        }
    }
}

#[test]
fn collections_equal_their_models_after_any_writes() {
    let _alone = alone();
    let runs: [fn(&mut Model<'_>); 3] =
        [|model| model.hash(), |model| model.list(), |model| model.text()];
    for run in runs {
        let world = World::new();
        let random = Random::new(14);
        let mut model = Model { world: &world, heap: Heap::new(), random, in_place_count: 0 };
        run(&mut model);
        assert!(model.in_place_count > 1000, "{} in place", model.in_place_count);
        // SAFETY: the model has no readers.
        unsafe { tree_common::free_retired(&model.heap) };
    }
}

/// Runs a writer and readers until the time is over; readers tell whether a read counted.
fn run<F: Flavour>(
    world: &World,
    fill: impl FnOnce(&Heap),
    mut write: impl FnMut(&Heap),
    read: &(impl Fn(&Member<F>, &mut Random) -> bool + Sync),
) {
    let domain = Domain::<F>::new().expect("the flavour is available");
    let (stop, counted) = (AtomicBool::new(false), AtomicU64::new(0));
    let writer = world.join(&domain);
    let heap = writer.heap(Limits::default());
    drop(writer);
    fill(&heap);
    std::thread::scope(|scope| {
        let readers: [_; READER_COUNT] = std::array::from_fn(|number| {
            let (domain, stop, counted) = (&domain, &stop, &counted);
            scope.spawn(move || {
                let mut reader = world.join(domain);
                let mut random = Random::new(number as u64);
                while !stop.load(Ordering::Relaxed) {
                    let counts = read(&reader, &mut random);
                    counted.fetch_add(u64::from(counts), Ordering::Relaxed);
                    reader.quiescent();
                }
            })
        });
        let began = Instant::now();
        let goes_on = || match began.elapsed() {
            elapsed if elapsed < RUN_TIME => true,
            elapsed => counted.load(Ordering::Relaxed) <= COUNTED_MIN && elapsed < LATEST,
        };
        while goes_on() {
            (0..50).for_each(|_| write(&heap));
            heap.retire_unpinned(usize::MAX);
            heap.retired().reclaim(&domain, Budget::UNLIMITED);
        }
        stop.store(true, Ordering::Relaxed);
        // One by one: ThreadSanitizer does not see the end of a scope.
        readers.into_iter().for_each(|thread| thread.join().expect("no panic"));
    });
    domain.synchronize();
    heap.retire_unpinned(usize::MAX);
    heap.retired().reclaim(&domain, Budget::UNLIMITED);
    assert!(counted.load(Ordering::Relaxed) > COUNTED_MIN, "{counted:?}");
}

/// Fields of the hash that is read beside writes.
const FIELD_COUNT: usize = 300;

/// Writes one field after the other, each with the number of its write, and now and then adds or
/// removes fields with numbers of their own.
fn write_rounds<'w>(world: &'w World) -> impl FnMut(&Heap) + 'w {
    let (mut next, mut random) = (1_u64, Random::new(5));
    move |heap| {
        if random.below(200) == 0 {
            let (passing, adds) = (field(1000 + random.below(400)), random.below(2) == 0);
            world.write::<Hash<'_>>(heap, |edit| {
                let _ = match adds {
                    true => edit.set(&passing, &text_of(u64::MAX), None),
                    false => edit.remove(&passing),
                };
            });
        }
        if random.below(20) == 0 {
            world.relocate(heap, 1 + random.below(FIELD_COUNT), || random.below(2) == 0);
        }
        let name = field(next as usize % FIELD_COUNT);
        world.write::<Hash<'_>>(heap, |edit| {
            edit.set(&name, &text_of(next), None);
        });
        next += 1;
    }
}

/// Numbers of a hash, read with pauses in which others write.
fn numbers_of(hash: Hash<'_>) -> Vec<u64> {
    let read = |(index, value): (usize, &[u8])| {
        if index % 100 == 50 {
            std::thread::yield_now();
        }
        number_of(value)
    };
    hash.iter().map(|entry| entry.value).enumerate().map(read).collect()
}

/// Asserts that the numbers of a hash are those of writes that follow each other.
fn assert_one_moment(mut numbers: Vec<u64>) {
    numbers.retain(|&number| number != u64::MAX);
    assert_eq!(numbers.len(), FIELD_COUNT);
    numbers.sort_unstable();
    numbers.retain(|&number| number > 0);
    let is_run = numbers.windows(2).all(|pair| pair[0] + 1 == pair[1]);
    assert!(is_run, "fields of several moments: {numbers:?}");
}

fn whole_hashes_are_of_one_moment<F: Flavour>() {
    let world = World::new();
    let slot = world.keyspace.key_hash(KEY).slot;
    run::<F>(
        &world,
        |heap| fill_hash(&world, heap, FIELD_COUNT),
        write_rounds(&world),
        &|reader, random| {
            if random.below(4) == 0 {
                let version = world.pin().unwrap();
                for _ in 0..2 {
                    let hash = version.view::<Hash<'_>>(world.keyspace.seed()).unwrap();
                    assert_one_moment(numbers_of(hash));
                }
                return true;
            }
            let guard = reader.enter();
            let before = world.keyspace.word(slot).load();
            let hash = hash_of(&world, guard.section());
            // Whatever it sees, it ends and does not fail.
            let numbers = numbers_of(hash);
            assert_eq!(numbers.len() as u64, hash.len());
            let again = numbers_of(hash);
            if !before.is_unchanged(world.keyspace.word(slot).load_after()) {
                return false;
            }
            assert!(numbers == again);
            assert_one_moment(numbers);
            true
        },
    );
}

#[test]
fn whole_hashes_are_of_one_moment_qsbr() {
    let _alone = alone();
    whole_hashes_are_of_one_moment::<Qsbr>();
}

#[test]
fn whole_hashes_are_of_one_moment_memb() {
    let _alone = alone();
    whole_hashes_are_of_one_moment::<Memb>();
}

#[test]
fn a_field_never_goes_back() {
    let _alone = alone();
    let world = World::new();
    let slot = world.keyspace.key_hash(KEY).slot;
    let newest: Vec<AtomicU64> = (0..FIELD_COUNT).map(|_| AtomicU64::new(0)).collect();
    run::<Qsbr>(
        &world,
        |heap| fill_hash(&world, heap, FIELD_COUNT),
        write_rounds(&world),
        &|reader, random| {
            let chosen = random.below(FIELD_COUNT);
            // Relaxed: it only has to be something that was seen before this read began.
            let seen = newest[chosen].load(Ordering::SeqCst);
            let guard = reader.enter();
            let before = world.keyspace.word(slot).load();
            let found = hash_of(&world, guard.section()).get(&field(chosen));
            if !before.confirms_hit(world.keyspace.word(slot).load_after()) {
                return false;
            }
            let number = number_of(found.expect("fields stay").value);
            assert!(number >= seen, "{number} after {seen}");
            newest[chosen].fetch_max(number, Ordering::SeqCst);
            true
        },
    );
}

/// Writes one of few fields after the other, and makes the hash longer than a leaf for a while.
fn write_small_rounds<'w>(world: &'w World) -> impl FnMut(&Heap) + 'w {
    let mut next = 1_u64;
    move |heap| {
        let passing = (1000..1060).map(field);
        match next % 64 {
            16 => world.write::<Hash<'_>>(heap, |edit| {
                passing.for_each(|name| {
                    edit.set(&name, &text_of(u64::MAX), None);
                });
            }),
            48 => world.write::<Hash<'_>>(heap, |edit| {
                passing.for_each(|name| {
                    edit.remove(&name);
                });
            }),
            _ => true,
        };
        let name = field(next as usize % SMALL_FIELD_COUNT);
        world.write::<Hash<'_>>(heap, |edit| {
            edit.set(&name, &text_of(next), None);
        });
        next += 1;
    }
}

/// Fields of a hash of one leaf.
const SMALL_FIELD_COUNT: usize = 8;

/// Whatever the slot's word says: the root is looked at once.
#[test]
fn what_is_one_leaf_is_of_one_moment() {
    let _alone = alone();
    let world = World::new();
    run::<Qsbr>(
        &world,
        |heap| fill_hash(&world, heap, SMALL_FIELD_COUNT),
        write_small_rounds(&world),
        &|reader, _| {
            let guard = reader.enter();
            let entry = world.entry(guard.section()).unwrap();
            let seed = world.keyspace.seed();
            let (hash, is_leaf) = entry.view_and_is_leaf::<Hash<'_>>(seed).unwrap();
            let mut numbers: Vec<u64> = hash
                .iter()
                .map(|entry| {
                    std::hint::spin_loop();
                    number_of(entry.value)
                })
                .filter(|&number| number != u64::MAX)
                .collect();
            assert_eq!(numbers.len(), SMALL_FIELD_COUNT);
            numbers.sort_unstable();
            numbers.retain(|&number| number > 0);
            let is_run = numbers.windows(2).all(|pair| pair[0] + 1 == pair[1]);
            assert!(is_run || !is_leaf, "fields of several moments: {numbers:?}");
            is_leaf
        },
    );
}

/// Members that follow each other, of which each write takes the first out and puts the next one
/// in: who sees no such run has seen several versions.
trait Window: Collection {
    fn put(edit: &mut Self::Edit<'_>, number: u64);
    fn take(edit: &mut Self::Edit<'_>, number: u64);
    fn numbers(view: Self::View<'_>) -> Vec<u64>;
}

impl Window for Set<'_> {
    fn put(edit: &mut Self::Edit<'_>, number: u64) {
        assert!(edit.insert(SetMember::String(&text_of(number))));
    }

    fn take(edit: &mut Self::Edit<'_>, number: u64) {
        assert!(edit.remove(SetMember::String(&text_of(number))));
    }

    fn numbers(view: Self::View<'_>) -> Vec<u64> {
        let number = |member| match member {
            SetMember::Integer(number) => number as u64,
            SetMember::String(text) => number_of(text),
        };
        view.iter().map(number).inspect(|_| std::hint::spin_loop()).collect()
    }
}

impl Window for SortedSet<'_> {
    fn put(edit: &mut Self::Edit<'_>, number: u64) {
        assert!(edit.set(&text_of(number), number as f64).is_none());
    }

    fn take(edit: &mut Self::Edit<'_>, number: u64) {
        assert!(edit.remove(&text_of(number)).is_some());
    }

    fn numbers(view: Self::View<'_>) -> Vec<u64> {
        view.iter().map(|item| number_of(item.member)).inspect(|_| std::hint::spin_loop()).collect()
    }
}

fn one_view_is_of_one_moment<C: Window>(length: u64) {
    let (world, mut first) = (World::new(), 0);
    let kept_count = AtomicU64::new(0);
    run::<Qsbr>(
        &world,
        |heap| {
            world.write::<C>(heap, |edit| (0..length).for_each(|number| C::put(edit, number)));
        },
        |heap| {
            let is_kept = world.write::<C>(heap, |edit| {
                C::take(edit, first);
                C::put(edit, first + length);
            });
            kept_count.fetch_add(u64::from(is_kept), Ordering::Relaxed);
            first += 1;
        },
        &|reader, _| {
            let guard = reader.enter();
            let entry = world.entry(guard.section()).unwrap();
            let mut numbers = C::numbers(entry.view::<C>(world.keyspace.seed()).unwrap());
            numbers.sort_unstable();
            let is_run = numbers.windows(2).all(|pair| pair[0] + 1 == pair[1]);
            assert!(is_run && numbers.len() as u64 == length, "several moments: {numbers:?}");
            true
        },
    );
    let kept_count = kept_count.into_inner();
    assert!(kept_count > first / 2, "{kept_count} of {first} writes kept the entry");
}

#[test]
fn one_view_of_a_set_is_of_one_moment() {
    let _alone = alone();
    one_view_is_of_one_moment::<Set<'_>>(10);
    one_view_is_of_one_moment::<Set<'_>>(500);
}

#[test]
fn one_view_of_a_sorted_set_is_of_one_moment() {
    let _alone = alone();
    one_view_is_of_one_moment::<SortedSet<'_>>(10);
    one_view_is_of_one_moment::<SortedSet<'_>>(500);
}
