//! Databases are flushed and exchanged beside threads that read them, inside of the gate and
//! outside, by what safe code can do.
//!
//! Freed memory is overwritten at once (and AddressSanitizer sees it, `make test-asan`): a reader
//! who meets it fails.
//!
//! A process of its own: these tests take the process's domain, which no keyspace beside them could
//! join, and pin versions, for which the retired memory of every keyspace of the process waits.
#![deny(unsafe_code)]

mod allocator;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use tidemill_rcu::{Bp, Budget, Domain, Flavour, Limits, Mb, Memb, Qsbr, Signal};
use tidemill_store::entry::StringValue;
use tidemill_store::hash::Seed;
use tidemill_store::limits::MEMBERS_MAX;
use tidemill_store::value::list::{List, ListEdit};
use tidemill_store::{
    Disposal, Encoding, EntryRef, EntrySpec, Heap, JoinError, Keyspace, Kind, Member, NewValue,
    OwnedEntry, ReleaseObserver, Section, SlotNumber, TreeSpec, Version,
};

const RUN_TIME: Duration = Duration::from_millis(800);
const KEY_COUNT: u64 = 500;
const DATABASES: usize = 2;

struct NoObserver;
impl ReleaseObserver for NoObserver {
    fn released(&self, _slot: SlotNumber, _clear: &dyn Fn()) {}
}

/// Keyspaces of one process share a domain, so the tests take turns.
static TURN: std::sync::Mutex<()> = std::sync::Mutex::new(());

fn turn() -> std::sync::MutexGuard<'static, ()> {
    TURN.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

fn keyspace() -> Keyspace<u64> {
    Keyspace::new(DATABASES, Seed::new(1, 2), NoObserver)
}

fn key(number: u64) -> Vec<u8> {
    format!("key:{number}").into_bytes()
}

/// Long values stand outside of their entries.
fn value(number: u64) -> Vec<u8> {
    number.to_le_bytes().repeat(if number.is_multiple_of(4) { 200 } else { 4 })
}

fn check(entry: EntryRef<'_>) {
    let text = std::str::from_utf8(entry.key()).expect("a freed key");
    let number: u64 = text.strip_prefix("key:").expect("a freed key").parse().expect("a freed key");
    match entry.string() {
        Some(StringValue::Plain(bytes)) => assert!(bytes == value(number), "a freed value"),
        Some(StringValue::Chunks(_)) => panic!("a freed value"),
        None => {
            let seed = Seed::new(1, 2);
            let list = entry.view::<List<'_>>(&seed).expect("a string or a list");
            list.check();
            assert!(list.iter().all(|element| element == value(number)), "a freed element");
        }
    }
}

fn write(keyspace: &Keyspace<u64>, number: u64, section: Section<'_>, heap: &Heap) {
    let key = key(number);
    let hash = keyspace.key_hash(&key);
    let Some(mut lock) = keyspace.try_lock(hash.slot) else { return };
    *lock.side() += 1;
    let found = lock.find(0, hash, &key, section);
    if number.is_multiple_of(3) {
        let mut edit =
            lock.edit::<List<'_>>(found.filter(|found| found.entry.kind() == Kind::List), heap);
        if edit.len() < 100 {
            edit.push_back(&value(number));
        }
        let spec = TreeSpec {
            key: &key,
            hash: hash.hash,
            encoding: Encoding::Quicklist,
            expires_at_ms: None,
            recency: 0,
        };
        let _ = lock.publish_tree(0, edit, spec, section, heap);
        return;
    }
    let spec = EntrySpec {
        key: &key,
        kind: Kind::String,
        encoding: Encoding::Raw,
        expires_at_ms: None,
        recency: 0,
        value: NewValue::String(&value(number)),
    };
    let entry = OwnedEntry::new(spec, heap);
    match found {
        Some(found) => lock.replace(0, hash.hash, found, entry, Disposal::RetireValue, heap),
        None => lock.insert(0, hash.hash, entry, section, heap),
    }
}

/// Reads everything, slot by slot, and counts what it saw.
fn walk(keyspace: &Keyspace<u64>, section: Section<'_>) -> u64 {
    let mut count = 0;
    for database in 0..keyspace.databases_end() {
        let keys = keyspace.key_count(database, section);
        assert!(keys <= KEY_COUNT, "impossible count of keys: {keys}");
        let mut next = 0;
        while let Some(slot) = keyspace.next_nonempty_slot(database, next, section) {
            next = slot.index() + 1;
            for entry in keyspace.entries(database, slot, section) {
                check(entry);
                count += 1;
            }
        }
    }
    count
}

/// Pins a list, and reads it when the database that it was in may be flushed.
fn pin(keyspace: &Keyspace<u64>, section: Section<'_>) -> Option<Version> {
    let key = key(3);
    let hash = keyspace.key_hash(&key);
    let mut lock = keyspace.try_lock(hash.slot)?;
    let found = lock.find(0, hash, &key, section)?;
    lock.pin(0, hash.hash, found)
}

struct World<F: Flavour> {
    keyspace: Keyspace<u64>,
    domain: Arc<Domain<F>>,
    has_ended: AtomicBool,
    walked: AtomicU64,
    flushed: AtomicU64,
    unreachable: AtomicU64,
}

impl<F: Flavour> World<F> {
    fn join(&self) -> Member<F> {
        self.keyspace.join(&self.domain).expect("one domain, few threads")
    }

    fn is_over(&self) -> bool {
        self.has_ended.load(Ordering::Relaxed)
    }

    fn run_writer(&self) {
        let mut member = self.join();
        let heap = member.heap(Limits::default());
        let mut number = 0;
        while !self.is_over() {
            member.inside(|member| {
                let guard = member.enter();
                for _ in 0..100 {
                    number = (number + 7) % KEY_COUNT;
                    write(&self.keyspace, number, guard.section(), &heap);
                }
            });
            heap.retire_unpinned(usize::MAX);
            heap.retired().reclaim(&self.domain, Budget::UNLIMITED);
        }
    }

    fn run_walker(&self, is_inside: bool) {
        let mut member = self.join();
        let read = |member: &mut Member<F>| {
            let guard = member.enter();
            self.walked.fetch_add(walk(&self.keyspace, guard.section()), Ordering::Relaxed);
        };
        while !self.is_over() {
            if is_inside {
                member.inside(read)
            } else {
                read(&mut member)
            }
            member.quiescent();
        }
    }

    fn run_pinner(&self) {
        let mut member = self.join();
        while !self.is_over() {
            let version = member.inside(|member| pin(&self.keyspace, member.enter().section()));
            let Some(version) = version else {
                thread::yield_now();
                continue;
            };
            // Read when what it was in has been flushed, and could have been freed.
            let flushed = || self.flushed.load(Ordering::Relaxed);
            let end = flushed() + 3;
            member.offline(|| {
                while flushed() < end && !self.is_over() {
                    thread::sleep(Duration::from_micros(100));
                }
            });
            let list = version.view::<List<'_>>(self.keyspace.seed()).expect("a list was pinned");
            assert!(list.iter().all(|element| element == value(3)), "a freed element");
        }
    }

    fn run_flusher(&self) {
        let mut member = self.join();
        let heap = member.heap(Limits::default());
        while !self.is_over() {
            let late = Instant::now() + Duration::from_millis(5);
            let alone = self.keyspace.close_gate(member.seat(), || Instant::now() > late);
            if let Some(alone) = &alone {
                let locked = self.keyspace.for_each_side(alone, |_, side| *side += 1);
                assert!(locked.is_empty(), "a locked slot with all others stopped");
                self.keyspace.swap_databases(0, 1, alone);
                for database in 0..DATABASES {
                    let detached = self.keyspace.detach(database, alone, &heap);
                    self.flushed.fetch_add(u64::from(detached.is_some()), Ordering::Relaxed);
                }
            }
            drop(alone);
            member.quiescent();
            heap.retired().reclaim(&self.domain, Budget::UNLIMITED);
            self.free_unreachable();
            thread::sleep(Duration::from_micros(500));
        }
        drop(member);
        while !heap.retired().is_empty() {
            heap.retired().reclaim(&self.domain, Budget::UNLIMITED);
            thread::yield_now();
        }
        self.free_unreachable();
    }

    fn free_unreachable(&self) {
        let unreachable = self.keyspace.take_unreachable();
        self.unreachable.fetch_add(unreachable.len() as u64, Ordering::Relaxed);
    }
}

fn run<F: Flavour>() {
    let world = World {
        keyspace: keyspace(),
        domain: Domain::<F>::with_barrier_pause(Duration::ZERO).expect("the flavour is supported"),
        has_ended: AtomicBool::new(false),
        walked: AtomicU64::new(0),
        flushed: AtomicU64::new(0),
        unreachable: AtomicU64::new(0),
    };
    thread::scope(|scope| {
        let world = &world;
        let threads = [
            scope.spawn(|| world.run_writer()),
            scope.spawn(|| world.run_walker(false)),
            scope.spawn(|| world.run_walker(true)),
            scope.spawn(|| world.run_pinner()),
            scope.spawn(|| world.run_flusher()),
        ];
        let start = Instant::now();
        let is_enough = || {
            let [walked, flushed] =
                [&world.walked, &world.flushed].map(|count| count.load(Ordering::Relaxed));
            start.elapsed() > RUN_TIME && walked > 100 && flushed > 10
        };
        while !is_enough() && threads.iter().all(|thread| !thread.is_finished()) {
            thread::sleep(Duration::from_millis(10));
        }
        world.has_ended.store(true, Ordering::Relaxed);
        // One by one: ThreadSanitizer does not see the end of a scope.
        threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
    });
    world.free_unreachable();
    let [walked, flushed, freed] = [&world.walked, &world.flushed, &world.unreachable]
        .map(|count| count.load(Ordering::Relaxed));
    println!("{}: {walked} walked, {flushed} flushed, {freed} freed", world.domain.description());
    assert_eq!(flushed, freed, "what was flushed is freed once");
}

#[test]
fn a_flushed_database_stays_for_its_readers() {
    let _turn = turn();
    run::<Qsbr>();
    run::<Memb>();
    run::<Mb>();
    run::<Bp>();
    run::<Signal>();
}

#[test]
fn a_member_that_ends_by_a_panic_gives_its_seat_back() {
    let _turn = turn();
    let (keyspace, domain) = (keyspace(), Domain::<Qsbr>::new().expect("qsbr needs nothing"));
    let member = keyspace.join(&domain).expect("the first one");
    for _ in 0..MEMBERS_MAX + 1 {
        let ended = thread::scope(|scope| {
            let body = || {
                let mut member = keyspace.join(&domain).expect("the one before left its seat");
                member.inside(|_| std::panic::panic_any(()));
            };
            scope.spawn(body).join()
        });
        assert!(ended.is_err(), "it panicked");
    }
    let alone = keyspace.close_gate(member.seat(), || true);
    assert!(alone.is_some(), "nobody else is inside");
    assert!(keyspace.close_gate(member.seat(), || true).is_none(), "one closes at a time");
}

#[test]
fn seats_are_bounded() {
    let _turn = turn();
    let (keyspace, domain) = (keyspace(), Domain::<Qsbr>::new().expect("qsbr needs nothing"));
    let members: Vec<_> = (0..MEMBERS_MAX).map(|_| keyspace.join(&domain).expect("free")).collect();
    assert_eq!(keyspace.join(&domain).err(), Some(JoinError::Full));
    drop(members);
    assert!(keyspace.join(&domain).is_ok());
}

#[test]
fn keyspaces_of_a_process_are_of_one_domain_until_nothing_of_it_is_left() {
    let _turn = turn();
    let one = Domain::<Qsbr>::new().expect("qsbr needs nothing");
    let other = Domain::<Mb>::new().expect("mb needs nothing");
    let (first, second) = (keyspace(), keyspace());
    let member = first.join(&one).expect("the first domain");
    assert!(second.join(&one).is_ok(), "keyspaces share a domain");
    assert_eq!(second.join(&other).err(), Some(JoinError::OtherDomain));
    let third = keyspace();
    assert_eq!(third.join(&other).err(), Some(JoinError::OtherDomain));
    let heap = member.heap(Limits::default());
    drop((first, second, member));
    assert_eq!(third.join(&other).err(), Some(JoinError::OtherDomain), "a heap is left");
    drop(heap);
    assert!(third.join(&other).is_ok());
}

#[test]
#[should_panic(expected = "another keyspace's gate was closed")]
fn a_closed_gate_is_of_its_own_keyspace() {
    let _turn = turn();
    let domain = Domain::<Qsbr>::new().expect("qsbr needs nothing");
    let (one, other) = (keyspace(), keyspace());
    let member = one.join(&domain).expect("the first member");
    let alone = one.close_gate(member.seat(), || false).expect("nobody else is there");
    let _ = other.detach(0, &alone, &member.heap(Limits::default()));
}

#[test]
#[should_panic(expected = "a seat at another keyspace's gate")]
fn a_seat_is_at_its_own_keyspace() {
    let _turn = turn();
    let domain = Domain::<Qsbr>::new().expect("qsbr needs nothing");
    let (one, other) = (keyspace(), keyspace());
    let member = one.join(&domain).expect("the first member");
    let _ = other.close_gate(member.seat(), || false);
}

#[test]
#[should_panic(expected = "an edit is published where it began")]
fn an_edit_is_not_exchanged_with_that_of_another_key() {
    let _turn = turn();
    let (keyspace, domain) = (keyspace(), Domain::<Mb>::new().expect("mb needs nothing"));
    let member = keyspace.join(&domain).expect("the first member");
    let heap = member.heap(Limits::default());
    let guard = member.enter();
    write(&keyspace, 3, guard.section(), &heap);
    let key = key(3);
    let hash = keyspace.key_hash(&key);
    let mut lock = keyspace.try_lock(hash.slot).expect("nobody else is there");
    let found = lock.find(0, hash, &key, guard.section());
    let mut edit = lock.edit::<List<'_>>(found, &heap);
    *edit = ListEdit::create(&heap);
    edit.push_back(b"x");
    let spec = TreeSpec {
        key: &key,
        hash: hash.hash,
        encoding: Encoding::Quicklist,
        expires_at_ms: None,
        recency: 0,
    };
    let _ = lock.publish_tree(0, edit, spec, guard.section(), &heap);
}
