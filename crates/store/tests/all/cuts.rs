//! Cuts of a keyspace that goes on changing: each has every key of its moment once, with the value
//! of its moment, and reads no freed memory.
//!
//! Accounts of a constant sum are strings and hashes of several nodes, in two databases. Beside the
//! walks their amounts move between them, they are renamed and moved to the other database, the
//! databases are swapped, tables are resized, and a third database is flushed.
#![allow(unsafe_code, clippy::unwrap_used)]

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};

use crate::tree_common::Random;
use tidemill_rcu::{Budget, Domain, Flavour, Limits, Memb, Qsbr};
use tidemill_store::entry::StringValue;
use tidemill_store::gate::ClosedGate;
use tidemill_store::hash::Seed;
use tidemill_store::value::hash::Hash;
use tidemill_store::value::list::List;
use tidemill_store::{
    Block, Cut, Disposal, Encoding, EntryRef, EntrySpec, EntryTarget, Found, Heap, Judge, Keyspace,
    Kind, Member, NewValue, OwnedEntry, ReleaseObserver, Relocated, Section, SlotLock, SlotNumber,
    TreePlace, TreeSpec, Walked,
};

struct NoObserver;
impl ReleaseObserver for NoObserver {
    fn released(&self, _slot: SlotNumber, _clear: &dyn Fn()) {}
}

const ACCOUNT_COUNT: usize = 64;
const FIELD_COUNT: usize = 100;
const AMOUNT: u64 = 1000;
const FLUSHED_COUNT: usize = 60;
const CUT_COUNT: usize = 25;
const WRITER_COUNT: usize = 2;
const TRANSFERS_PER_CHANGE: u64 = 100;

type Locks<'k> = Vec<SlotLock<'k, ()>>;

struct World {
    keyspace: Keyspace<()>,
    has_ended: AtomicBool,
    /// Keys of the third database: all of them, or none.
    is_filled: AtomicBool,
    transfers: AtomicU64,
    /// Live bytes of the heaps of threads that have ended, less those of what was flushed.
    live_bytes: AtomicI64,
}

impl World {
    fn new(database_count: usize, seed: Seed) -> World {
        World {
            keyspace: Keyspace::new(database_count, seed, NoObserver),
            has_ended: AtomicBool::new(false),
            is_filled: AtomicBool::new(false),
            transfers: AtomicU64::new(0),
            live_bytes: AtomicI64::new(0),
        }
    }
}

/// Names of an account: it has one of them, in one of two databases.
fn names(account: usize) -> [Vec<u8>; 2] {
    // All in few slots, so that tables grow and shrink beside the walk.
    let tag = account % 4;
    ["first", "second"].map(|name| format!("{{{tag}}}:{name}:{account}").into_bytes())
}

fn is_hash(account: usize) -> bool {
    account % 2 == 1
}

fn filler(index: usize) -> Vec<u8> {
    format!("value of the field {index:04}").into_bytes()
}

struct Actor<'w, F: Flavour> {
    world: &'w World,
    member: Member<F>,
    heap: Heap,
    random: Random,
}

impl<'w, F: Flavour> Actor<'w, F> {
    fn new(world: &'w World, domain: &Arc<Domain<F>>, seed: u64) -> Actor<'w, F> {
        // SAFETY: nothing of one test's keyspace is used with another's.
        let member = unsafe { world.keyspace.join_beside(domain) }.unwrap();
        let heap = member.heap(Limits::default());
        Actor { world, member, heap, random: Random::new(seed) }
    }

    /// Locks the slots of keys.
    fn lock(&self, keys: &[&[u8]]) -> Locks<'w> {
        let mut slots: Vec<_> = keys.iter().map(|key| SlotNumber::of_key(key)).collect();
        slots.sort();
        slots.dedup();
        slots
            .into_iter()
            .map(|slot| {
                loop {
                    match self.world.keyspace.try_lock(slot) {
                        Some(lock) => return lock,
                        None => std::thread::yield_now(),
                    }
                }
            })
            .collect()
    }

    /// An account's database, name and entry.
    fn find<'g>(
        &self,
        account: usize,
        locks: &Locks<'g>,
        section: Section<'g>,
    ) -> (usize, Vec<u8>, Found<'g>) {
        for database in 0..2 {
            for name in names(account) {
                let key_hash = self.world.keyspace.key_hash(&name);
                let lock = locks.iter().find(|lock| lock.slot() == key_hash.slot).unwrap();
                if let Some(found) = lock.find(database, key_hash, &name, section) {
                    return (database, name, found);
                }
            }
        }
        panic!("account {account} is gone");
    }

    fn set(
        &self,
        (database, name): (usize, &[u8]),
        account: usize,
        amount: u64,
        locks: &mut Locks<'_>,
        section: Section<'_>,
    ) {
        let keyspace = &self.world.keyspace;
        let key_hash = keyspace.key_hash(name);
        let lock = locks.iter_mut().find(|lock| lock.slot() == key_hash.slot).unwrap();
        let found = lock.find(database, key_hash, name, section);
        if !is_hash(account) {
            let long = amount.to_le_bytes().repeat(if account.is_multiple_of(4) { 1 } else { 200 });
            let spec = EntrySpec {
                key: name,
                kind: Kind::String,
                encoding: Encoding::Raw,
                expires_at_ms: None,
                recency: 0,
                value: NewValue::String(&long),
            };
            let entry = OwnedEntry::new(spec, &self.heap);
            let hash = key_hash.hash;
            return match found {
                Some(found) => {
                    lock.replace(database, hash, found, entry, Disposal::RetireValue, &self.heap);
                }
                None => lock.insert(database, hash, entry, section, &self.heap),
            };
        }
        let mut edit = lock.edit::<Hash<'_>>(found, &self.heap);
        if found.is_none() {
            for index in 0..FIELD_COUNT {
                edit.set(format!("field{index}").as_bytes(), &filler(index), None);
            }
        }
        edit.set(b"amount", &amount.to_le_bytes(), None);
        let spec = TreeSpec {
            key: name,
            hash: key_hash.hash,
            encoding: Encoding::Hashtable,
            expires_at_ms: None,
            recency: 0,
        };
        let _ = lock.publish_tree(database, edit, spec, section, &self.heap);
    }

    /// Moves an amount from one account to another, or an account to another name or database.
    fn change(&mut self) {
        let (one, other) = (self.random.below(ACCOUNT_COUNT), self.random.below(ACCOUNT_COUNT));
        let kind = self.random.below(8);
        let names = [names(one), names(other)].concat();
        let keys: Vec<&[u8]> = names.iter().map(Vec::as_slice).collect();
        let guard = self.member.enter();
        let section = guard.section();
        let mut locks = self.lock(&keys);
        let (database, name, found) = self.find(one, &locks, section);
        if kind == 0 {
            return self.rename(one, (database, &name, found), &mut locks, section);
        }
        if kind == 1 {
            return self.relocate(database, found.entry, &name, &mut locks, section);
        }
        if one == other {
            return;
        }
        let (other_database, other_name, other_found) = self.find(other, &locks, section);
        let amount = amount_of(&self.world.keyspace, found.entry);
        let other_amount = amount_of(&self.world.keyspace, other_found.entry);
        let moved = amount.min(self.random.below(100) as u64);
        self.set((database, &name), one, amount - moved, &mut locks, section);
        let target = (other_database, &other_name[..]);
        self.set(target, other, other_amount + moved, &mut locks, section);
        self.world.transfers.fetch_add(1, Ordering::Relaxed);
    }

    /// Moves all blocks of an account to other addresses.
    fn relocate(
        &self,
        database: usize,
        entry: EntryRef<'_>,
        name: &[u8],
        locks: &mut Locks<'_>,
        section: Section<'_>,
    ) {
        let slot = SlotNumber::of_key(name);
        let lock = locks.iter_mut().find(|lock| lock.slot() == slot).unwrap();
        let elements_left = usize::MAX;
        let mut relocated = Relocated { elements_left, ..Relocated::default() };
        let mut judge = |_: Block<'_>| true;
        let work = (&mut judge as &mut Judge<'_>, &mut relocated);
        let place = TreePlace::default();
        let rest = lock.relocate(database, entry, place, work, section, &self.heap);
        assert!(rest.is_none());
    }

    /// `RENAME` or `MOVE`.
    fn rename(
        &self,
        account: usize,
        (database, name, found): (usize, &[u8], Found<'_>),
        locks: &mut Locks<'_>,
        section: Section<'_>,
    ) {
        let both = names(account);
        let is_moved = account.is_multiple_of(3);
        let (to, new) = match is_moved {
            true => (1 - database, name),
            false => (database, both.iter().find(|other| *other != name).unwrap().as_slice()),
        };
        let keyspace = &self.world.keyspace;
        let (old_hash, new_hash) = (keyspace.key_hash(name), keyspace.key_hash(new));
        let lock = locks.iter_mut().find(|lock| lock.slot() == old_hash.slot).unwrap();
        let target = EntryTarget { key: new, encoding: found.entry.encoding() };
        let entry = lock.take_as(database, old_hash.hash, found, target, section, &self.heap);
        let lock = locks.iter_mut().find(|lock| lock.slot() == new_hash.slot).unwrap();
        lock.insert(to, new_hash.hash, entry, section, &self.heap);
    }

    /// Adds and removes other keys of the same slots, so that their tables are resized.
    fn churn(&mut self) {
        let round = self.random.below(2);
        for index in 0..200 {
            let key = format!("{{{}}}:other:{index}", index % 4).into_bytes();
            let guard = self.member.enter();
            let section = guard.section();
            let mut locks = self.lock(&[&key]);
            let key_hash = self.world.keyspace.key_hash(&key);
            let found = locks[0].find(0, key_hash, &key, section);
            match (found, round) {
                (Some(found), 0) => {
                    let disposal = Disposal::RetireValue;
                    let hash = key_hash.hash;
                    locks[0].remove(0, hash, found, disposal, section, &self.heap);
                }
                (None, 1) => {
                    let spec = EntrySpec {
                        key: &key,
                        kind: Kind::String,
                        encoding: Encoding::Raw,
                        expires_at_ms: None,
                        recency: 0,
                        value: NewValue::String(b"other"),
                    };
                    let entry = OwnedEntry::new(spec, &self.heap);
                    locks[0].insert(0, key_hash.hash, entry, section, &self.heap);
                }
                _ => {}
            }
        }
    }

    fn write(mut self) {
        while !self.world.has_ended.load(Ordering::Relaxed) {
            self.member.seat().enter();
            for _ in 0..20 {
                self.change();
            }
            self.churn();
            self.member.seat().leave();
            self.reclaim();
        }
    }

    fn reclaim(&mut self) {
        self.heap.retire_unpinned(usize::MAX);
        self.member.quiescent();
        self.heap.retired().reclaim(self.member.domain(), Budget::UNLIMITED);
        drop(self.world.keyspace.take_unreachable());
    }

    fn alone<T>(&mut self, work: impl FnOnce(&mut Self, &ClosedGate<'_>) -> T) -> T {
        let world = self.world;
        let seat = std::rc::Rc::clone(self.member.seat());
        let gate = loop {
            if let Some(gate) = world.keyspace.close_gate(&seat, || false) {
                break gate;
            }
        };
        work(self, &gate)
    }

    /// Fills the third database, flushes it, or swaps the first two.
    fn change_databases(&mut self) {
        let kind = self.random.below(3);
        self.alone(|actor, gate| {
            let keyspace = &actor.world.keyspace;
            match (kind, actor.world.is_filled.load(Ordering::Relaxed)) {
                (0, _) => keyspace.swap_databases(0, 1, gate),
                (_, true) => {
                    actor.flush(2, gate);
                    actor.world.is_filled.store(false, Ordering::Relaxed);
                }
                (_, false) => {
                    actor.fill();
                    actor.world.is_filled.store(true, Ordering::Relaxed);
                }
            }
        });
        self.reclaim();
    }

    /// Flushes a database and returns its live bytes.
    fn flush(&self, database: usize, gate: &ClosedGate<'_>) -> i64 {
        let detached = self.world.keyspace.detach(database, gate, &self.heap);
        let bytes = detached.map_or(0, |detached| detached.bytes as i64);
        self.world.live_bytes.fetch_sub(bytes, Ordering::Relaxed);
        bytes
    }

    fn fill(&self) {
        let guard = self.member.enter();
        for number in 0..FLUSHED_COUNT {
            let key = format!("flushed:{number}").into_bytes();
            let mut locks = self.lock(&[&key]);
            self.set((2, &key), number, AMOUNT, &mut locks, guard.section());
        }
    }
}

impl<F: Flavour> Drop for Actor<'_, F> {
    fn drop(&mut self) {
        self.world.live_bytes.fetch_add(self.heap.live_bytes(), Ordering::Relaxed);
    }
}

fn amount_of(keyspace: &Keyspace<()>, entry: EntryRef<'_>) -> u64 {
    let number = |bytes: &[u8]| u64::from_le_bytes(bytes[..8].try_into().unwrap());
    if let Some(StringValue::Plain(bytes)) = entry.string() {
        assert!(bytes.chunks(8).all(|chunk| chunk == &bytes[..8]), "a torn or freed value");
        return number(bytes);
    }
    let hash = entry.view::<Hash<'_>>(keyspace.seed()).unwrap();
    assert_eq!(hash.len() as usize, FIELD_COUNT + 1);
    for field in hash.iter().filter(|field| field.field != b"amount") {
        let index: usize = std::str::from_utf8(&field.field[5..]).unwrap().parse().unwrap();
        assert_eq!(field.value, filler(index), "a torn or freed value");
    }
    number(hash.get(b"amount").unwrap().value)
}

/// Findings of a walk.
#[derive(Default)]
struct Tally {
    /// Accounts with their amounts.
    accounts: HashMap<usize, u64>,
    flushed: usize,
    others: HashMap<(usize, Vec<u8>), ()>,
}

impl Tally {
    fn add(&mut self, keyspace: &Keyspace<()>, database: usize, entry: EntryRef<'_>) {
        let name = String::from_utf8(entry.key().to_vec()).unwrap();
        let parts: Vec<&str> = name.split(':').collect();
        match parts[..] {
            ["flushed", _] => {
                assert_eq!(database, 2);
                assert_eq!(amount_of(keyspace, entry), AMOUNT);
                self.flushed += 1;
            }
            [_, "other", _] => {
                let former = self.others.insert((database, entry.key().to_vec()), ());
                assert!(former.is_none(), "{name} came twice");
            }
            _ => {
                let account = parts[2].parse().unwrap();
                let former = self.accounts.insert(account, amount_of(keyspace, entry));
                assert!(former.is_none(), "account {account} came twice");
            }
        }
    }
}

/// Walks one cut, as long as `wants_more` says so; none when it was given up.
fn walk<F: Flavour>(
    actor: &mut Actor<'_, F>,
    mut cut: Cut,
    mut wants_more: impl FnMut() -> bool,
) -> Option<Tally> {
    let keyspace = &actor.world.keyspace;
    let mut tally = Tally::default();
    loop {
        cut.begin_batch(&actor.heap);
        let walked = actor.member.inside(|member| {
            let guard = member.enter();
            cut.claim(keyspace, guard.section())
        });
        // Time for writers to retire what the batch has.
        std::thread::yield_now();
        for (database, entry) in cut.pre_images().chain(cut.claimed()) {
            tally.add(keyspace, database, entry);
        }
        let is_last = cut.end_batch(&actor.heap);
        actor.heap.retire_unpinned(usize::MAX);
        actor.member.quiescent();
        actor.heap.retired().reclaim(actor.member.domain(), Budget::UNLIMITED);
        if is_last {
            assert_eq!(walked, Walked::All);
            cut.end(&actor.heap);
            return Some(tally);
        }
        if !wants_more() {
            cut.end(&actor.heap);
            return None;
        }
    }
}

fn begin<F: Flavour>(actor: &mut Actor<'_, F>) -> (Cut, bool, u64) {
    actor.alone(|actor, gate| {
        let guard = actor.member.enter();
        let cut = actor.world.keyspace.cut(gate, guard.section()).expect("no other cut");
        assert!(actor.world.keyspace.cut(gate, guard.section()).is_none(), "one at a time");
        let keys = cut.key_count();
        (cut, actor.world.is_filled.load(Ordering::Relaxed), keys)
    })
}

fn cuts_of_a_changing_keyspace<F: Flavour>(seed: u64) {
    let world = World::new(3, Seed::new(seed, 7));
    let domain = Domain::<F>::new().unwrap();
    let mut actor = Actor::new(&world, &domain, seed);
    {
        let guard = actor.member.enter();
        for account in 0..ACCOUNT_COUNT {
            let [name, _] = names(account);
            let mut locks = actor.lock(&[&name]);
            actor.set((account % 2, &name), account, AMOUNT, &mut locks, guard.section());
        }
    }
    std::thread::scope(|scope| {
        for number in 0..WRITER_COUNT {
            let (world, domain) = (&world, &domain);
            scope.spawn(move || Actor::new(world, domain, seed + 1 + number as u64).write());
        }
        {
            let (world, domain) = (&world, &domain);
            scope.spawn(move || {
                let mut actor = Actor::new(world, domain, seed + 100);
                let mut next = 0;
                while !world.has_ended.load(Ordering::Relaxed) {
                    // The others have their turns, however many processors there are.
                    if world.transfers.load(Ordering::Relaxed) >= next {
                        actor.change_databases();
                        next = world.transfers.load(Ordering::Relaxed) + TRANSFERS_PER_CHANGE;
                    }
                    std::thread::yield_now();
                }
                actor.reclaim();
            });
        }
        let stop = StopOnExit(&world.has_ended);
        for number in 0..CUT_COUNT {
            let (cut, is_filled, keys) = begin(&mut actor);
            let mut batches = 0;
            let is_given_up = number % 5 == 4;
            let tally = walk(&mut actor, cut, || {
                batches += 1;
                !is_given_up || batches < 3
            });
            let Some(tally) = tally else { continue };
            assert_eq!(tally.accounts.len(), ACCOUNT_COUNT, "cut {number}, seed {seed}");
            let sum: u64 = tally.accounts.values().sum();
            assert_eq!(sum, AMOUNT * ACCOUNT_COUNT as u64, "cut {number}, seed {seed}");
            assert_eq!(tally.flushed, if is_filled { FLUSHED_COUNT } else { 0 });
            let found = tally.accounts.len() + tally.flushed + tally.others.len();
            assert_eq!(found as u64, keys, "cut {number}, seed {seed}");
        }
        drop(stop);
    });
    assert!(world.transfers.load(Ordering::Relaxed) > 0);
    actor.world.keyspace.discard_handed_over(&actor.heap);
    actor.reclaim();
    assert_eq!(world.keyspace.cut_held_bytes(), actor.heap.pinned_garbage_bytes());
    // All of them were written, replaced, handed over and retired by several threads.
    let all_bytes: i64 =
        actor.alone(|actor, gate| (0..3).map(|number| actor.flush(number, gate)).sum());
    assert!(all_bytes > 0);
    drop(actor);
    assert_eq!(world.live_bytes.load(Ordering::Relaxed), 0, "live bytes, seed {seed}");
}

/// Ends the other threads, also when an assertion fails.
struct StopOnExit<'e>(&'e AtomicBool);

impl Drop for StopOnExit<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn each_cut_has_every_key_of_its_moment_once_under_qsbr() {
    cuts_of_a_changing_keyspace::<Qsbr>(11);
}

#[test]
fn each_cut_has_every_key_of_its_moment_once_under_memb() {
    cuts_of_a_changing_keyspace::<Memb>(12);
}

/// Sets one field of a hash, in a publication of its own.
fn set_field<F: Flavour>(actor: &Actor<'_, F>, name: &[u8], field: u64, value: &[u8]) {
    let guard = actor.member.enter();
    let key_hash = actor.world.keyspace.key_hash(name);
    let lock = &mut actor.lock(&[name])[0];
    let found = lock.find(0, key_hash, name, guard.section());
    let mut edit = lock.edit::<Hash<'_>>(found, &actor.heap);
    edit.set(format!("field{field}").as_bytes(), value, None);
    let spec = TreeSpec {
        key: name,
        hash: key_hash.hash,
        encoding: Encoding::Hashtable,
        expires_at_ms: None,
        recency: 0,
    };
    let _ = lock.publish_tree(0, edit, spec, guard.section(), &actor.heap);
}

/// However often the hash is written beside a walk that does not come to it: nodes that are born
/// behind the cut are not kept for it.
#[test]
fn a_cut_holds_no_more_of_a_hash_than_there_was_of_it() {
    const FIELDS: u64 = 1_000;
    let world = World::new(2, Seed::new(3, 4));
    let domain = Domain::<Qsbr>::new().unwrap();
    let mut actor = Actor::new(&world, &domain, 5);
    let write_all = |actor: &mut Actor<'_, Qsbr>, round: u64| {
        for field in 0..FIELDS {
            set_field(actor, b"hash", field, &round.to_le_bytes());
        }
        actor.reclaim();
    };
    // The database's own memory comes with its first key.
    set_field(&actor, b"other", 0, b"value");
    let before_bytes = actor.heap.live_bytes();
    write_all(&mut actor, 0);
    let bytes_at_cut = (actor.heap.live_bytes() - before_bytes) as usize;
    for cut_number in 1..3 {
        let (cut, ..) = begin(&mut actor);
        for round in 0..3 {
            write_all(&mut actor, cut_number * 10 + round);
            let held_bytes = world.keyspace.cut_held_bytes();
            assert!(
                held_bytes <= bytes_at_cut,
                "{held_bytes} of {bytes_at_cut} bytes are held in cut {cut_number}, round {round}"
            );
        }
        let peak_bytes = world.keyspace.cut_held_peak_bytes();
        assert!(peak_bytes >= bytes_at_cut / 2, "{peak_bytes} of {bytes_at_cut} bytes were held");
        cut.end(&actor.heap);
        actor.reclaim();
        assert_eq!(world.keyspace.cut_held_bytes(), 0);
    }
}

/// Sets an account in the first database.
fn put<F: Flavour>(actor: &Actor<'_, F>, account: usize) {
    let [name, _] = names(account);
    let guard = actor.member.enter();
    let locks = &mut actor.lock(&[&name]);
    actor.set((0, &name), account, AMOUNT, locks, guard.section());
}

/// Removes an account from the first database.
fn remove<F: Flavour>(actor: &Actor<'_, F>, account: usize) {
    let [name, _] = names(account);
    let guard = actor.member.enter();
    let section = guard.section();
    let locks = &mut actor.lock(&[&name]);
    let (_, name, found) = actor.find(account, locks, section);
    let hash = actor.world.keyspace.key_hash(&name).hash;
    locks[0].remove(0, hash, found, Disposal::RetireValue, section, &actor.heap);
}

/// Cuts that are given up leave stamps behind. Epochs have sixteen bits: when one comes again, no
/// entry of another cut has it, whether walks were completed in between or not.
#[test]
fn an_epoch_that_comes_again_loses_no_key() {
    const EPOCHS: u32 = u16::MAX as u32;
    let world = World::new(1, Seed::new(5, 6));
    let domain = Domain::<Qsbr>::new().unwrap();
    let mut actor = Actor::new(&world, &domain, 7);
    let give_up = |actor: &mut Actor<'_, Qsbr>| begin(actor).0.end(&actor.heap);
    // Stamped by its writer, in the first epoch.
    let (cut, ..) = begin(&mut actor);
    put(&actor, 0);
    cut.end(&actor.heap);
    (1..EPOCHS).for_each(|_| give_up(&mut actor));
    let (cut, ..) = begin(&mut actor);
    put(&actor, 1);
    let tally = walk(&mut actor, cut, || true).unwrap();
    assert_eq!(tally.accounts.into_keys().collect::<Vec<_>>(), [0], "the second round of epochs");
    // A completed walk in between leaves no other stamp than its own.
    let mut accounts = vec![0, 1];
    for part in [1, EPOCHS / 2, EPOCHS - 1, EPOCHS] {
        let (cut, ..) = begin(&mut actor);
        put(&actor, accounts.len());
        cut.end(&actor.heap);
        (1..part).for_each(|_| give_up(&mut actor));
        accounts.push(accounts.len());
        let (cut, ..) = begin(&mut actor);
        let mut found: Vec<_> =
            walk(&mut actor, cut, || true).unwrap().accounts.into_keys().collect();
        found.sort_unstable();
        assert_eq!(found, accounts, "{part} cuts behind a completed walk");
    }
}

/// A cut is asked for while another one is active, and no epoch is left.
#[test]
fn an_attempt_beside_a_cut_lets_it_keep_its_stamps() {
    let world = World::new(1, Seed::new(7, 8));
    let domain = Domain::<Qsbr>::new().unwrap();
    let mut actor = Actor::new(&world, &domain, 9);
    put(&actor, 0);
    (1..u16::MAX).for_each(|_| begin(&mut actor).0.end(&actor.heap));
    // Not by `begin`, which attempts it twice.
    let cut = actor.alone(|actor, gate| {
        let guard = actor.member.enter();
        world.keyspace.cut(gate, guard.section()).expect("no other cut")
    });
    // The old entry is handed over, the new one has the stamp.
    put(&actor, 0);
    actor.alone(|actor, gate| {
        let guard = actor.member.enter();
        assert!(world.keyspace.cut(gate, guard.section()).is_none());
    });
    // The tally fails on an account that comes twice.
    assert_eq!(walk(&mut actor, cut, || true).unwrap().accounts.len(), 1);
}

/// Bytes of an element, and of the leaf that has it alone: more than the most that the allocator of
/// the system takes from its heap, so that a freed leaf is no memory of the process any more, and
/// reading it ends the process.
const MAPPED_BYTES: usize = 33 << 20;

/// Writes the first element of a list.
fn write_list<F: Flavour>(actor: &Actor<'_, F>, element: &[u8]) {
    let name = b"list";
    let guard = actor.member.enter();
    let key_hash = actor.world.keyspace.key_hash(name);
    let lock = &mut actor.lock(&[name])[0];
    let found = lock.find(0, key_hash, name, guard.section());
    let mut edit = lock.edit::<List<'_>>(found, &actor.heap);
    if !edit.set(0, element) {
        edit.push_back(element);
    }
    let spec = TreeSpec {
        key: name,
        hash: key_hash.hash,
        encoding: Encoding::Quicklist,
        expires_at_ms: None,
        recency: 0,
    };
    let _ = lock.publish_tree(0, edit, spec, guard.section(), &actor.heap);
}

/// The list of one large element that a cut contains is replaced, the cut is given up without
/// taking over what was handed over, and `retire_images` retires that. By then the replaced leaf,
/// which nothing keeps any more, is freed: nothing but the entry is left of the old list.
fn a_cut_is_given_up<F: Flavour>(retire_images: impl FnOnce(&mut Actor<'_, F>)) {
    let world = World::new(1, Seed::new(9, 10));
    let domain = Domain::<F>::new().unwrap();
    let mut actor = Actor::new(&world, &domain, 11);
    // A string outside of its entry and a hash, which are handed over with their values.
    [1, 2].iter().for_each(|&account| put(&actor, account));
    write_list(&actor, &vec![1; MAPPED_BYTES]);
    let (cut, ..) = begin(&mut actor);
    write_list(&actor, b"small");
    [1, 2].iter().for_each(|&account| remove(&actor, account));
    let live_bytes = actor.heap.live_bytes();
    drop(cut);
    while actor.heap.pinned_garbage_bytes() + actor.heap.retired().retired_bytes() > 0 {
        actor.reclaim();
    }
    let held_bytes = world.keyspace.cut_held_bytes();
    assert!((1..MAPPED_BYTES).contains(&held_bytes), "{held_bytes} bytes are held, and no leaf");
    retire_images(&mut actor);
    let heap = &actor.heap;
    let waiting_bytes = heap.retired().retired_bytes() + heap.pinned_garbage_bytes();
    assert_eq!(waiting_bytes, held_bytes, "what was handed over is retired");
    assert_eq!(heap.live_bytes(), live_bytes, "it was not live before");
    assert_eq!(world.keyspace.cut_held_bytes(), heap.pinned_garbage_bytes());
    while actor.heap.pinned_garbage_bytes() + actor.heap.retired().retired_bytes() > 0 {
        actor.reclaim();
    }
    assert_eq!(world.keyspace.cut_held_bytes(), 0);
    let left_bytes = actor.alone(|actor, gate| actor.flush(0, gate));
    assert_eq!(left_bytes, live_bytes);
}

#[test]
fn an_entry_that_was_handed_over_outlives_its_nodes_until_it_is_discarded() {
    a_cut_is_given_up::<Memb>(|actor| actor.world.keyspace.discard_handed_over(&actor.heap));
    a_cut_is_given_up::<Qsbr>(|actor| actor.world.keyspace.discard_handed_over(&actor.heap));
}

#[test]
fn an_entry_that_was_handed_over_outlives_its_nodes_until_the_next_cut() {
    a_cut_is_given_up::<Memb>(|actor| {
        let (mut cut, ..) = begin(actor);
        cut.begin_batch(&actor.heap);
        cut.end_batch(&actor.heap);
        cut.end(&actor.heap);
    });
}
