//! The keyspace: slots with their locks, databases with their tables.
//!
//! Locks and words are per slot number and shared by all databases, because every command works on one database or, as
//! `SWAPDB` and `MOVE` do, on two at the same slots. A database comes into being at its first write.
//!
//! Reading needs a read-side section and no lock ([`Keyspace::find`], then the slot's [`Word`](crate::word::Word)
//! decides whether it counts). Changing needs a [`SlotLock`].
#![allow(unsafe_code)]

use std::cell::UnsafeCell;
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};

use tidemill_rcu::Section;

use crate::entry::{
    self, Disposal, Encoding, EntryRef, EntrySpec, Kind, Marks, NewValue, OwnedEntry, Place,
    StringValue,
};
use crate::gate::ClosedGate;
use crate::hash::Seed;
use crate::heap::Heap;
use crate::key::{KeyBytes, KeyHash, LANES};
#[cfg(target_arch = "x86_64")]
use crate::lanes;
use crate::limits::SLOT_COUNT;
use crate::pin::{self, Version};
use crate::prefetch::prefetch;
use crate::slot::SlotNumber;
use crate::table::{Position, Table, TableShape};
use crate::tree::Built;
use crate::value::hash::HashEdit;
use crate::value::list::ListEdit;
use crate::value::text::TextEdit;
use crate::word::SlotWord;

/// Hears that a slot was released for which somebody waits.
pub trait ReleaseObserver: Send + Sync + 'static {
    /// Called by the releasing thread right after the release. Must not block. `clear` takes the announcements back; it
    /// is called under the lock under which sessions announce themselves, before they are woken.
    fn released(&self, slot: SlotNumber, clear: &dyn Fn());
}

/// One slot: its word, and what the engine keeps under its lock.
///
/// Two share a cache line: with a line each, the words of all slots take as much as a core's own cache.
#[repr(align(32))]
struct Slot<S> {
    word: SlotWord,
    side: UnsafeCell<Option<Box<S>>>,
}

// SAFETY: `side` is touched only through a `SlotLock` (of which there is one at a time) or `&mut Keyspace`.
unsafe impl<S: Send> Sync for Slot<S> {}

/// One database: a table per slot.
struct Database {
    tables: Box<[Table]>,
    nonempty: Box<[AtomicU64]>,
    key_counts: Box<[AtomicU32]>,
    expiring_counts: Box<[AtomicU32]>,
    /// Hashes with fields that expire. One count for all slots: a hash seldom becomes one, or ceases to be.
    volatile_count: AtomicU64,
}

impl Database {
    fn new() -> Database {
        fn filled<T: Default>(count: usize) -> Box<[T]> {
            (0..count).map(|_| T::default()).collect()
        }
        Database {
            tables: filled(SLOT_COUNT),
            nonempty: filled(SLOT_COUNT / 64),
            key_counts: filled(SLOT_COUNT),
            expiring_counts: filled(SLOT_COUNT),
            volatile_count: AtomicU64::new(0),
        }
    }

    fn bytes() -> usize {
        SLOT_COUNT * (size_of::<Table>() + 2 * size_of::<AtomicU32>()) + SLOT_COUNT / 8
    }

    /// Counts keys that the owner of `slot`'s lock added or removed, and what they are marked as before and after.
    fn count(&self, slot: SlotNumber, keys: i32, old: Marks, new: Marks) {
        let index = slot.index();
        let step = |was: bool, is: bool| i32::from(is) - i32::from(was);
        // Relaxed, all three: written by the lock's owner only; for others a statistic.
        let before = self.key_counts[index].load(Ordering::Relaxed);
        let after = before.wrapping_add_signed(keys);
        self.key_counts[index].store(after, Ordering::Relaxed);
        let expiring = step(old.expires, new.expires);
        if expiring != 0 {
            let sum = self.expiring_counts[index].load(Ordering::Relaxed);
            self.expiring_counts[index].store(sum.wrapping_add_signed(expiring), Ordering::Relaxed);
        }
        let volatile = i64::from(step(old.has_volatile_items, new.has_volatile_items));
        if volatile != 0 {
            // Relaxed: a statistic; all slots share it, hence the read-modify-write.
            self.volatile_count.fetch_add(volatile.cast_unsigned(), Ordering::Relaxed);
        }
        if (before == 0) != (after == 0) {
            let bit = 1 << (index % 64);
            // Relaxed: a hint for walks; 64 slots share the word, hence the read-modify-write.
            if after == 0 {
                self.nonempty[index / 64].fetch_and(!bit, Ordering::Relaxed);
            } else {
                self.nonempty[index / 64].fetch_or(bit, Ordering::Relaxed);
            }
        }
    }

    fn key_count(&self) -> u64 {
        // Relaxed: each is exact for its slot; the sum is atomic per slot only.
        self.key_counts.iter().map(|count| u64::from(count.load(Ordering::Relaxed))).sum()
    }

    fn expiring_count(&self) -> u64 {
        // Relaxed: as in `key_count`.
        self.expiring_counts.iter().map(|count| u64::from(count.load(Ordering::Relaxed))).sum()
    }
}

/// All databases.
pub struct Keyspace<S> {
    slots: Box<[Slot<S>]>,
    databases: Box<[AtomicPtr<Database>]>,
    seed: Seed,
    observer: Box<dyn ReleaseObserver>,
}

impl<S> fmt::Debug for Keyspace<S> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Keyspace").field("databases", &self.databases.len()).finish()
    }
}

impl<S: Default> Keyspace<S> {
    /// An empty keyspace of `database_count` databases. `observer` hears of releases that somebody waits for.
    #[must_use]
    pub fn new(database_count: usize, seed: Seed, observer: impl ReleaseObserver) -> Keyspace<S> {
        let slot = |_| Slot { word: SlotWord::default(), side: UnsafeCell::new(None) };
        Keyspace {
            slots: (0..SLOT_COUNT).map(slot).collect(),
            databases: (0..database_count).map(|_| AtomicPtr::new(ptr::null_mut())).collect(),
            seed,
            observer: Box::new(observer),
        }
    }

    /// How many databases there are.
    #[must_use]
    pub fn database_count(&self) -> usize {
        self.databases.len()
    }

    /// The secret of the hashes.
    #[must_use]
    pub fn seed(&self) -> &Seed {
        &self.seed
    }

    /// Slot and hash of a key.
    #[must_use]
    #[inline]
    pub fn key_hash(&self, key: &[u8]) -> KeyHash {
        KeyHash::of(&self.seed, key)
    }

    /// Slots and hashes of several keys: of each what [`Keyspace::key_hash`] tells, in less time for short ones.
    #[must_use]
    #[inline]
    pub fn key_hashes(&self, keys: &[KeyBytes<'_>; LANES]) -> [KeyHash; LANES] {
        #[cfg(target_arch = "x86_64")]
        if let Some(hashes) = lanes::key_hashes(&self.seed, keys) {
            return hashes;
        }
        keys.map(|key| self.key_hash(key.key()))
    }

    /// The word of a slot.
    #[must_use]
    #[inline]
    pub fn word(&self, slot: SlotNumber) -> &SlotWord {
        &self.slots[slot.index()].word
    }

    #[inline]
    fn database(&self, database: usize, _section: Section<'_>) -> Option<&Database> {
        // Acquire: pairs with the Release stores of `database_or_new` and `detach`.
        let pointer = self.databases[database].load(Ordering::Acquire);
        // SAFETY: a database is freed only by `Detached::free`, whose contract is that nobody refers to it.
        unsafe { pointer.as_ref() }
    }

    fn database_or_new(&self, database: usize, heap: &Heap) -> &Database {
        let place = &self.databases[database];
        // Acquire: pairs with the Release half of the exchange below.
        let mut pointer = place.load(Ordering::Acquire);
        if pointer.is_null() {
            let fresh = Box::into_raw(Box::new(Database::new()));
            // AcqRel: publishes the fresh tables, or sees those of whoever was first.
            match place.compare_exchange(pointer, fresh, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => {
                    heap.allocated(Database::bytes());
                    pointer = fresh;
                }
                Err(first) => {
                    // SAFETY: `fresh` was never shared.
                    drop(unsafe { Box::from_raw(fresh) });
                    pointer = first;
                }
            }
        }
        // SAFETY: not null, and freed only when nobody refers to it (see `database`).
        unsafe { &*pointer }
    }

    /// Asks the processor for the word of a slot.
    #[inline]
    pub fn prefetch_word(&self, slot: SlotNumber) {
        prefetch(ptr::from_ref(&self.slots[slot.index()]).cast());
    }

    /// Asks the processor for the root of a slot's table. To be called for each of many keys before
    /// [`Keyspace::prefetch_buckets`], so that their misses overlap.
    #[inline]
    pub fn prefetch_table(&self, database: usize, slot: SlotNumber, section: Section<'_>) {
        if let Some(database) = self.database(database, section) {
            prefetch(ptr::from_ref(&database.tables[slot.index()]).cast());
        }
    }

    /// Asks the processor for the buckets of keys whose tables it was asked for.
    #[inline]
    pub fn prefetch_buckets(
        &self,
        database: usize,
        keys: impl Iterator<Item = KeyHash>,
        section: Section<'_>,
    ) {
        let Some(database) = self.database(database, section) else { return };
        for key in keys {
            database.tables[key.slot.index()].prefetch_bucket(key.hash, section);
        }
    }

    /// Asks the processor for the entries of keys whose buckets it was asked for, and notes where they stand. Of few keys at
    /// a time: a core has room for some 16 misses, and waits with the next one until one of them is over.
    #[inline]
    pub fn prefetch_entries<'h>(
        &self,
        database: usize,
        keys: impl Iterator<Item = &'h mut KeyHash>,
        section: Section<'_>,
    ) {
        let Some(database) = self.database(database, section) else { return };
        for key in keys {
            let table = &database.tables[key.slot.index()];
            key.likely_place = table.prefetch_entries(key.hash, section);
        }
    }

    /// Asks the processor for the values, as far as they are trees, of keys whose entries it was asked for.
    #[inline]
    pub fn prefetch_values(
        &self,
        database: usize,
        keys: impl Iterator<Item = KeyHash>,
        section: Section<'_>,
    ) {
        let Some(database) = self.database(database, section) else { return };
        for key in keys {
            database.tables[key.slot.index()].prefetch_value(key, section);
        }
    }

    /// Finds a key without a lock. Whether the answer counts, the slot's word decides (see [`crate::word`]).
    #[must_use]
    #[inline(always)]
    pub fn find<'g>(
        &self,
        database: usize,
        key_hash: KeyHash,
        key: &[u8],
        section: Section<'g>,
    ) -> Option<EntryRef<'g>> {
        let database = self.database(database, section)?;
        database.tables[key_hash.slot.index()].entry(key_hash, key, section)
    }

    /// Takes the lock of a slot if it is free. Never waits.
    #[must_use]
    #[inline]
    pub fn try_lock(&self, slot: SlotNumber) -> Option<SlotLock<'_, S>> {
        self.word(slot).try_lock().then(|| SlotLock { keyspace: self, slot })
    }

    /// Keys in a database. Atomic per slot.
    #[must_use]
    pub fn key_count(&self, database: usize, section: Section<'_>) -> u64 {
        self.database(database, section).map_or(0, Database::key_count)
    }

    /// Keys with an expiry in a database. Atomic per slot.
    #[must_use]
    pub fn expiring_count(&self, database: usize, section: Section<'_>) -> u64 {
        self.database(database, section).map_or(0, Database::expiring_count)
    }

    /// Hashes with fields that expire in a database. Atomic per slot.
    #[must_use]
    pub fn volatile_count(&self, database: usize, section: Section<'_>) -> u64 {
        // Relaxed: a statistic.
        self.database(database, section)
            .map_or(0, |database| database.volatile_count.load(Ordering::Relaxed))
    }

    /// Keys of one slot of a database.
    #[must_use]
    pub fn slot_key_count(&self, database: usize, slot: SlotNumber, section: Section<'_>) -> u32 {
        // Relaxed: a statistic for whoever does not own the slot's lock.
        self.database(database, section)
            .map_or(0, |database| database.key_counts[slot.index()].load(Ordering::Relaxed))
    }

    /// What the table of a slot is made of. Takes time in proportion to its size.
    #[must_use]
    pub fn table_shape(
        &self,
        database: usize,
        slot: SlotNumber,
        section: Section<'_>,
    ) -> TableShape {
        self.database(database, section)
            .map_or_else(TableShape::default, |found| found.tables[slot.index()].shape(section))
    }

    /// The first slot from `from` on that has keys in a database; by the bitmap, 64 slots at a step.
    #[must_use]
    pub fn next_nonempty_slot(
        &self,
        database: usize,
        from: usize,
        section: Section<'_>,
    ) -> Option<SlotNumber> {
        let database = self.database(database, section)?;
        let mut index = from / 64;
        let mut mask = u64::MAX.checked_shl((from % 64) as u32)?;
        while index < database.nonempty.len() {
            // Relaxed: a key added meanwhile may be missed, as a walk is atomic per slot only.
            let bits = database.nonempty[index].load(Ordering::Relaxed) & mask;
            if bits != 0 {
                return SlotNumber::from_index(index * 64 + bits.trailing_zeros() as usize);
            }
            mask = u64::MAX;
            index += 1;
        }
        None
    }

    /// Visits the bucket of a slot that holds the hash `from`, and returns the hash to go on from, a multiple of
    /// `granularity` (a power of two up to [`SCAN_GRANULARITY_MAX`](crate::limits::SCAN_GRANULARITY_MAX)), or `None`
    /// when the slot has no more.
    ///
    /// Every entry that stays in the slot throughout a walk from 0 is visited at least once.
    pub fn visit_bucket<'g>(
        &self,
        database: usize,
        slot: SlotNumber,
        from: u64,
        granularity: u64,
        section: Section<'g>,
        visit: &mut dyn FnMut(EntryRef<'g>),
    ) -> Option<u64> {
        let table = &self.database(database, section)?.tables[slot.index()];
        table.visit_bucket(from, granularity, &self.seed, section, visit)
    }

    /// All entries of a slot. Under the slot's lock, exactly those; otherwise some of a concurrent change.
    pub fn entries<'g>(
        &self,
        database: usize,
        slot: SlotNumber,
        section: Section<'g>,
    ) -> impl Iterator<Item = EntryRef<'g>> {
        let table = self.database(database, section).map(|found| &found.tables[slot.index()]);
        table.into_iter().flat_map(move |table| table.entries(section))
    }

    /// The entries of a slot that expire, without touching the others.
    pub fn expiring_entries<'g>(
        &self,
        database: usize,
        slot: SlotNumber,
        section: Section<'g>,
    ) -> impl Iterator<Item = EntryRef<'g>> {
        let table = self.database(database, section).map(|found| &found.tables[slot.index()]);
        table.into_iter().flat_map(move |table| table.expiring_entries(section))
    }

    /// Whether a slot has entries that expire.
    #[must_use]
    pub fn has_expiring(&self, database: usize, slot: SlotNumber, section: Section<'_>) -> bool {
        // Relaxed: a statistic.
        self.database(database, section)
            .is_some_and(|found| found.expiring_counts[slot.index()].load(Ordering::Relaxed) != 0)
    }

    /// Exchanges two databases (`SWAPDB`).
    pub fn swap_databases(&self, first: usize, second: usize, _alone: &ClosedGate<'_>) {
        // Relaxed loads, Release stores: the gate orders this against everybody; Release pairs with `database`.
        let one = self.databases[first].load(Ordering::Relaxed);
        let other = self.databases[second].load(Ordering::Relaxed);
        self.databases[first].store(other, Ordering::Release);
        self.databases[second].store(one, Ordering::Release);
    }

    /// Takes a database's content out of the keyspace (`FLUSHDB`, `FLUSHALL`). All workers stand between two commands,
    /// so nobody refers into it any more and nobody will.
    #[must_use]
    pub fn detach(&self, database: usize, _alone: &ClosedGate<'_>) -> Option<Detached> {
        // AcqRel: takes over what the last writers published.
        let pointer = self.databases[database].swap(ptr::null_mut(), Ordering::AcqRel);
        NonNull::new(pointer).map(Detached::now)
    }

    /// Reaches what the engine keeps under every slot's lock. All workers stand between two commands, and nobody holds a
    /// slot there but the closer itself, whose sides are not borrowed while it calls this.
    pub fn for_each_side(
        &self,
        _alone: &ClosedGate<'_>,
        mut visit: impl FnMut(SlotNumber, &mut S),
    ) {
        for slot in SlotNumber::all() {
            let side = self.slots[slot.index()].side.get();
            // SAFETY: with the gate closed this thread is the only one to reach a side, and it holds no other.
            if let Some(side) = unsafe { &mut *side } {
                visit(slot, side);
            }
        }
    }
}

impl<S> Drop for Keyspace<S> {
    fn drop(&mut self) {
        for place in &mut self.databases {
            if let Some(pointer) = NonNull::new(*place.get_mut()) {
                let detached = Detached::now(pointer);
                // A version that outlives its keyspace keeps all of it: nothing would free it later.
                if !detached.is_pinned() {
                    let _freed_bytes = detached.free();
                }
            }
        }
    }
}

/// The content of a database that is no longer in the keyspace. It must be freed explicitly.
#[must_use]
pub struct Detached {
    database: NonNull<Database>,
    /// See [`pin::stamp`].
    stamp: Option<u64>,
}

// SAFETY: nothing else owns the database; its parts may be freed on any thread.
unsafe impl Send for Detached {}

impl fmt::Debug for Detached {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Detached")
            .field("key_count", &self.key_count())
            .finish_non_exhaustive()
    }
}

impl Detached {
    fn now(database: NonNull<Database>) -> Detached {
        Detached { database, stamp: pin::stamp() }
    }

    /// How many keys it had.
    #[must_use]
    pub fn key_count(&self) -> u64 {
        // SAFETY: it is not freed before `free`.
        unsafe { self.database.as_ref() }.key_count()
    }

    /// Whether a [`Version`] of a collection in it may still be read: it cannot be freed then. What is free once stays so.
    #[must_use]
    pub fn is_pinned(&self) -> bool {
        self.stamp.is_some_and(|stamp| !pin::is_over(stamp))
    }

    /// Frees everything and returns how many bytes that gave back. Takes time in proportion to the number of keys.
    ///
    /// # Panics
    ///
    /// When it is pinned.
    #[must_use]
    pub fn free(self) -> usize {
        assert!(!self.is_pinned(), "somebody reads a version of what is in it");
        // SAFETY: made by `Box::into_raw` in `database_or_new`, and owned by `self`; no version is left that reads it.
        let mut database = unsafe { Box::from_raw(self.database.as_ptr()) };
        let mut bytes = Database::bytes();
        for table in &mut database.tables {
            // SAFETY: it was detached with the gate closed: no reader was in a section then, none has found it since.
            bytes += unsafe { table.free() };
        }
        bytes
    }
}

/// The lock of one slot. Dropping it releases the slot and wakes who waits for it.
pub struct SlotLock<'k, S> {
    keyspace: &'k Keyspace<S>,
    slot: SlotNumber,
}

impl<S> fmt::Debug for SlotLock<'_, S> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("SlotLock").field(&self.slot).finish()
    }
}

/// An entry found under its slot's lock, ready to be replaced or removed.
#[derive(Clone, Copy, Debug)]
pub struct Found<'g> {
    /// The entry.
    pub entry: EntryRef<'g>,
    position: Position,
}

impl Found<'_> {
    /// The entry still stands where it was found.
    fn is_current(&self) -> bool {
        self.position.refers_to(self.entry)
    }
}

impl<S: Default> SlotLock<'_, S> {
    /// The locked slot.
    #[must_use]
    pub fn slot(&self) -> SlotNumber {
        self.slot
    }

    /// Marks the slot held: readers wait until it is released. For changes of several slots as one.
    pub fn mark_held(&mut self) {
        self.keyspace.word(self.slot).mark_held();
    }

    /// What the engine keeps under this lock.
    pub fn side(&mut self) -> &mut S {
        let side = self.keyspace.slots[self.slot.index()].side.get();
        // SAFETY: the lock is held and `&mut self` makes this the only reference.
        unsafe { &mut *side }.get_or_insert_with(Box::default)
    }

    /// What the engine keeps under this lock, if it ever did.
    pub fn side_if_any(&mut self) -> Option<&mut S> {
        let side = self.keyspace.slots[self.slot.index()].side.get();
        // SAFETY: the lock is held and `&mut self` makes this the only reference.
        unsafe { &mut *side }.as_deref_mut()
    }

    fn word(&self) -> &SlotWord {
        self.keyspace.word(self.slot)
    }

    /// Finds a key; the answer is final while the lock is held.
    #[must_use]
    pub fn find<'g>(
        &self,
        database: usize,
        key_hash: KeyHash,
        key: &[u8],
        section: Section<'g>,
    ) -> Option<Found<'g>> {
        debug_assert_eq!(key_hash.slot, self.slot);
        let table = &self.keyspace.database(database, section)?.tables[self.slot.index()];
        let (entry, position) = table.find(key_hash, key, section)?;
        Some(Found { entry, position })
    }

    /// The database that `found` is in.
    ///
    /// # Panics
    ///
    /// When it is not there any more: an entry must not be retired twice.
    fn database_of(
        &self,
        database: usize,
        hash: u64,
        found: Found<'_>,
        section: Section<'_>,
    ) -> &Database {
        let database = self.keyspace.database(database, section);
        let holds = |database: &&Database| {
            database.tables[self.slot.index()].holds(found.position, hash, found.entry, section)
        };
        database.filter(holds).expect("what was found is used before the next change of the slot")
    }

    /// Publishes an entry whose key is absent; a key that is present would be there twice.
    pub fn insert(
        &mut self,
        database: usize,
        hash: u64,
        entry: OwnedEntry,
        section: Section<'_>,
        heap: &Heap,
    ) {
        let database = self.keyspace.database_or_new(database, heap);
        let marks = entry.as_ref().marks();
        // SAFETY: published below; from then on only retirement frees it.
        let entry = unsafe { EntryRef::from_pointer(entry.into_pointer()) };
        let table = &database.tables[self.slot.index()];
        let position = table.vacancy(hash, &self.keyspace.seed, section, heap);
        self.word().begin_change();
        position.fill(hash, entry);
        self.word().end_change();
        database.count(self.slot, 1, Marks::default(), marks);
    }

    /// Pins the present version of a collection; none when the key holds a plain string.
    ///
    /// # Panics
    ///
    /// When the slot changed since `found` was found.
    #[must_use]
    pub fn pin(&mut self, database: usize, hash: u64, found: Found<'_>) -> Option<Version> {
        // SAFETY: `found` does not outlive the section that it was found in.
        let section = unsafe { Section::assume() };
        self.database_of(database, hash, found, section);
        let kind = found.entry.kind();
        let root = found.entry.root_of(kind)?;
        // SAFETY: the entry stands in this slot, of which `self` is the lock.
        Some(unsafe { Version::of(root, kind) })
    }

    /// Publishes an entry in the place of another one of the same key, and retires the old one.
    ///
    /// # Panics
    ///
    /// When the slot changed since `found` was found.
    pub fn replace(
        &mut self,
        database: usize,
        hash: u64,
        found: Found<'_>,
        entry: OwnedEntry,
        disposal: Disposal,
        heap: &Heap,
    ) {
        let (old, new) = (found.entry.marks(), entry.as_ref().marks());
        // SAFETY: `found` does not outlive the section that it was found in.
        let section = unsafe { Section::assume() };
        let database = self.database_of(database, hash, found, section);
        // SAFETY: published below; from then on only retirement frees it.
        let entry = unsafe { EntryRef::from_pointer(entry.into_pointer()) };
        self.word().begin_change();
        found.position.replace(hash, entry);
        self.word().end_change();
        if old != new {
            database.count(self.slot, 0, old, new);
        }
        // SAFETY: no table refers to the old entry any more.
        unsafe { entry::retire(found.entry, disposal, heap) };
    }

    /// Takes an entry out and retires it.
    ///
    /// # Panics
    ///
    /// When the slot changed since `found` was found.
    pub fn remove(
        &mut self,
        database: usize,
        hash: u64,
        found: Found<'_>,
        disposal: Disposal,
        section: Section<'_>,
        heap: &Heap,
    ) {
        let marks = found.entry.marks();
        let database = self.database_of(database, hash, found, section);
        self.word().begin_change();
        found.position.clear();
        self.word().end_change();
        database.count(self.slot, -1, marks, Marks::default());
        database.tables[self.slot.index()].tidy(hash, &self.keyspace.seed, section, heap);
        // SAFETY: no table refers to the entry any more.
        unsafe { entry::retire(found.entry, disposal, heap) };
    }
}

/// A tree being edited, together with the entry it belongs to.
#[derive(Debug)]
pub struct Editing<'g, E> {
    edit: E,
    found: Option<Found<'g>>,
}

impl<E> Deref for Editing<'_, E> {
    type Target = E;

    fn deref(&self) -> &E {
        &self.edit
    }
}

impl<E> DerefMut for Editing<'_, E> {
    fn deref_mut(&mut self) -> &mut E {
        &mut self.edit
    }
}

/// What an entry around a new tree says.
#[derive(Clone, Copy, Debug)]
pub struct TreeSpec<'v> {
    /// The key.
    pub key: &'v [u8],
    /// The key's hash.
    pub hash: u64,
    /// What `OBJECT ENCODING` will answer.
    pub encoding: Encoding,
    /// Unix time in milliseconds at which the key expires.
    pub expires_at_ms: Option<u64>,
    /// The recency field.
    pub recency: u32,
}

/// What publishing a tree came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Published {
    /// The key has the new tree.
    Present,
    /// The tree became empty and the key is gone.
    Removed,
}

/// An edit of a tree that an entry can hold.
pub trait Editable {
    /// The type of the entry's value.
    const KIND: Kind;
}

impl Editable for ListEdit<'_> {
    const KIND: Kind = Kind::List;
}

impl Editable for HashEdit<'_> {
    const KIND: Kind = Kind::Hash;
}

impl Editable for TextEdit<'_> {
    const KIND: Kind = Kind::String;
}

impl<S: Default> SlotLock<'_, S> {
    /// Starts the next version of a list, or a new one. An entry of another kind counts as none.
    #[must_use]
    pub fn edit_list<'g, 'h>(
        &self,
        found: Option<Found<'g>>,
        heap: &'h Heap,
    ) -> Editing<'g, ListEdit<'h>> {
        let root = found.and_then(|found| found.entry.root_of(Kind::List));
        // SAFETY: the lock is held, and `publish_tree` publishes only if the entry is still the key's current one, so of
        // several edits of one version at most one retires anything.
        Editing { edit: unsafe { ListEdit::new(root, heap) }, found }
    }

    /// Starts the next version of a hash, or a new one. An entry of another kind counts as none.
    #[must_use]
    pub fn edit_hash<'g, 'h>(
        &self,
        found: Option<Found<'g>>,
        seed: &'h Seed,
        heap: &'h Heap,
    ) -> Editing<'g, HashEdit<'h>> {
        let root = found.and_then(|found| found.entry.root_of(Kind::Hash));
        // SAFETY: as in `edit_list`.
        Editing { edit: unsafe { HashEdit::new(root, seed, heap) }, found }
    }

    /// Starts the next version of a string in chunks, or a new one with the content of a plain one.
    #[must_use]
    pub fn edit_text<'g, 'h>(
        &self,
        found: Option<Found<'g>>,
        heap: &'h Heap,
    ) -> Editing<'g, TextEdit<'h>> {
        let root = found.and_then(|found| found.entry.root_of(Kind::String));
        // SAFETY: as in `edit_list`.
        let mut edit = unsafe { TextEdit::new(root, heap) };
        if let Some(StringValue::Plain(bytes)) = found.and_then(|found| found.entry.string()) {
            edit.append(bytes);
        }
        Editing { edit, found }
    }

    /// Publishes what an edit built in the place of the entry it began from, and retires what that leaves behind.
    ///
    /// # Panics
    ///
    /// When the entry is no longer the key's current one.
    pub fn publish_tree<'h, E: Editable + Finish<'h>>(
        &mut self,
        database: usize,
        editing: Editing<'_, E>,
        spec: TreeSpec<'_>,
        section: Section<'_>,
        heap: &'h Heap,
    ) -> Published {
        let Editing { edit, found } = editing;
        if let Some(found) = found {
            assert!(found.is_current(), "an edit ends before the next one of the same key begins");
        }
        let built = edit.finish_edit();
        // The old tree's nodes are shared with the new one or retired by `built`; an old plain string is not.
        let disposal = match found {
            Some(found) if found.entry.root_of(E::KIND).is_some() => Disposal::KeepValue,
            _ => Disposal::RetireValue,
        };
        let Some(root) = built.root() else {
            if let Some(found) = found {
                self.remove(database, spec.hash, found, disposal, section, heap);
            }
            built.retire_replaced();
            return Published::Removed;
        };
        let entry = OwnedEntry::new(
            EntrySpec {
                key: spec.key,
                kind: E::KIND,
                encoding: spec.encoding,
                expires_at_ms: spec.expires_at_ms,
                recency: spec.recency,
                value: NewValue::Tree(root),
            },
            heap,
        );
        match found {
            Some(found) => self.replace(database, spec.hash, found, entry, disposal, heap),
            None => self.insert(database, spec.hash, entry, section, heap),
        }
        built.retire_replaced();
        Published::Present
    }

    /// Gives a key another expiry, or none, and keeps its value.
    pub fn set_expiry(
        &mut self,
        database: usize,
        hash: u64,
        found: Found<'_>,
        expires_at_ms: Option<u64>,
        heap: &Heap,
    ) {
        let place = Place { key: found.entry.key(), encoding: found.entry.encoding() };
        let (entry, disposal) = rebuilt(found.entry, place, expires_at_ms, heap);
        self.replace(database, hash, found, entry, disposal, heap);
    }

    /// Gives a string another encoding's name, or a collection; keeps its value and expiry.
    pub fn set_encoding(
        &mut self,
        database: usize,
        hash: u64,
        found: Found<'_>,
        encoding: Encoding,
        heap: &Heap,
    ) {
        let old = found.entry;
        let (value, disposal) = old.kept_value();
        let spec = EntrySpec {
            key: old.key(),
            kind: old.kind(),
            encoding,
            expires_at_ms: old.expires_at_ms(),
            recency: old.recency(),
            value,
        };
        self.replace(database, hash, found, OwnedEntry::new(spec, heap), disposal, heap);
    }

    /// Takes an entry out and returns its value as an entry of another key, which must be published.
    #[must_use]
    pub fn take_as(
        &mut self,
        database: usize,
        hash: u64,
        found: Found<'_>,
        place: Place<'_>,
        section: Section<'_>,
        heap: &Heap,
    ) -> OwnedEntry {
        let expires_at_ms = found.entry.expires_at_ms();
        let (entry, disposal) = rebuilt(found.entry, place, expires_at_ms, heap);
        self.remove(database, hash, found, disposal, section, heap);
        entry
    }
}

/// An entry with another one's value, key and expiry apart, and what becomes of the value when the other one goes.
fn rebuilt(
    source: EntryRef<'_>,
    place: Place<'_>,
    expires_at_ms: Option<u64>,
    heap: &Heap,
) -> (OwnedEntry, Disposal) {
    let (value, disposal) = source.kept_value();
    let spec = EntrySpec {
        key: place.key,
        kind: source.kind(),
        encoding: place.encoding,
        expires_at_ms,
        recency: source.recency(),
        value,
    };
    (OwnedEntry::new(spec, heap), disposal)
}

/// Ends an edit, whatever its type.
pub trait Finish<'h> {
    /// The built tree.
    fn finish_edit(self) -> Built<'h>;
}

impl<'h> Finish<'h> for ListEdit<'h> {
    fn finish_edit(self) -> Built<'h> {
        self.finish()
    }
}

impl<'h> Finish<'h> for HashEdit<'h> {
    fn finish_edit(self) -> Built<'h> {
        self.finish()
    }
}

impl<'h> Finish<'h> for TextEdit<'h> {
    fn finish_edit(self) -> Built<'h> {
        self.finish()
    }
}

impl<S> Drop for SlotLock<'_, S> {
    fn drop(&mut self) {
        let word = &self.keyspace.slots[self.slot.index()].word;
        if word.unlock() {
            self.keyspace.observer.released(self.slot, &|| word.clear_waiting());
        }
    }
}
