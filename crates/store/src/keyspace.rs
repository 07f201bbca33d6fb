//! The keyspace: slots with their locks, databases with their tables.
//!
//! Locks and words are per slot number and shared by all databases, because every command works on
//! one database or, as `SWAPDB` and `MOVE` do, on two at the same slots. A database is allocated at
//! its first write.
//!
//! Reading needs a read-side section and no lock ([`Keyspace::find`], then the slot's
//! [`Word`](crate::word::Word) decides whether it counts). Changing needs a [`SlotLock`].
#![allow(unsafe_code)]

mod database;
mod defragment;
mod detached;
mod lock;
mod publish;
mod sample;
mod slot_bits;

use std::cell::UnsafeCell;
use std::fmt;
use std::marker::PhantomData;
use std::ops::Range;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tidemill_rcu::{Domain, Flavour, Garbage};

pub(crate) use self::database::Database;
use self::detached::{Departed, Departing, arrive};
use self::slot_bits::SlotBits;
use crate::claim::{Claim, JoinError};
use crate::entry::EntryRef;
use crate::epoch::active::ActiveCut;
use crate::epoch::{Cut, Cuts};
use crate::gate::{ClosedGate, Gate, Seat};
use crate::hash::Seed;
use crate::heap::Heap;
use crate::key::{KeyBytes, KeyHash, LANES};
#[cfg(target_arch = "x86_64")]
use crate::lanes;
use crate::limits::DATABASES_MAX;
use crate::member::{Member, Section};
use crate::prefetch::prefetch;
use crate::slot::{PerSlot, SlotNumber};
use crate::table::TableShape;
use crate::word::SlotWord;

pub use self::detached::{Detached, Unreachable};
pub use self::lock::{DetachedLock, Found, SlotLock};
pub use self::publish::{Editing, Published, TreeSpec};

/// Observer of releases of slots that sessions wait for.
pub trait ReleaseObserver: Send + Sync + 'static {
    /// Called by the releasing thread right after the release. Must not block. `clear` takes the
    /// announcements back; it is to be called under the lock under which sessions announce
    /// themselves, before they are woken.
    fn released(&self, slot: SlotNumber, clear: &dyn Fn());
}

/// One slot: its word, and the engine's state under its lock.
///
/// Two share a cache line: with a line each, the words of all slots take as much as a core's own
/// cache.
#[repr(align(32))]
struct Slot<S> {
    word: SlotWord,
    /// A box, or null until the engine asks for it. Dereferenced under the slot's lock only.
    side: AtomicPtr<S>,
    owned: PhantomData<UnsafeCell<Box<S>>>,
}

// SAFETY: the pointee of `side` is touched only through a `SlotLock` (of which there is one at a
// time) or `&mut Keyspace`.
unsafe impl<S: Send> Sync for Slot<S> {}

impl<S> Default for Slot<S> {
    fn default() -> Slot<S> {
        let side = AtomicPtr::new(ptr::null_mut());
        Slot { word: SlotWord::default(), side, owned: PhantomData }
    }
}

impl<S> Drop for Slot<S> {
    fn drop(&mut self) {
        if let Some(side) = NonNull::new(*self.side.get_mut()) {
            // SAFETY: made by `Box::into_raw` in `SlotLock::side`, and owned by the slot.
            drop(unsafe { Box::from_raw(side.as_ptr()) });
        }
    }
}

/// All databases.
pub struct Keyspace<S> {
    slots: PerSlot<Slot<S>>,
    /// Slots of which the engine has asked for its state.
    with_side: SlotBits,
    databases: Box<[AtomicPtr<Database>]>,
    /// Databases from this index on were never written.
    databases_end: AtomicUsize,
    /// Databases that have a content.
    written_count: AtomicUsize,
    /// Number of times that databases were exchanged or taken out.
    replaced_count: AtomicU64,
    seed: Seed,
    cuts: Arc<Cuts>,
    /// That of `cuts`: writers read its epoch with one step less.
    active_cut: Arc<ActiveCut>,
    gate: Arc<Gate>,
    /// Domain of its members, once there was one.
    claim: Mutex<Option<Arc<Claim>>>,
    unreachable: Arc<Departed>,
    observer: Box<dyn ReleaseObserver>,
}

impl<S> fmt::Debug for Keyspace<S> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Keyspace").field("databases", &self.databases.len()).finish()
    }
}

impl<S: Default> Keyspace<S> {
    /// Empty keyspace of `database_count` databases. `observer` is told of releases that sessions
    /// wait for.
    ///
    /// A database that was never written takes eight bytes.
    ///
    /// # Panics
    ///
    /// With more than [`DATABASES_MAX`] databases.
    #[must_use]
    pub fn new(database_count: usize, seed: Seed, observer: impl ReleaseObserver) -> Keyspace<S> {
        assert!(database_count <= DATABASES_MAX, "too many databases");
        let cuts: Arc<Cuts> = Arc::default();
        Keyspace {
            slots: PerSlot::default(),
            with_side: SlotBits::default(),
            databases: (0..database_count).map(|_| AtomicPtr::new(ptr::null_mut())).collect(),
            databases_end: AtomicUsize::new(0),
            written_count: AtomicUsize::new(0),
            replaced_count: AtomicU64::new(0),
            seed,
            active_cut: Arc::clone(cuts.active()),
            cuts,
            gate: Arc::new(Gate::new()),
            claim: Mutex::new(None),
            unreachable: Arc::default(),
            observer: Box::new(observer),
        }
    }

    /// Makes the calling thread a member: a reader under `domain`, with a seat at the gate, outside
    /// of it.
    ///
    /// # Errors
    ///
    /// [`JoinError::OtherDomain`] while a keyspace of the process has another domain, or members or
    /// heaps of one are left; [`JoinError::Full`] with [`MEMBERS_MAX`](crate::limits::MEMBERS_MAX)
    /// members.
    pub fn join<F: Flavour>(&self, domain: &Arc<Domain<F>>) -> Result<Member<F>, JoinError> {
        self.join_with(domain, || Claim::of_process(domain.id()))
    }

    /// As [`Keyspace::join`], whatever the domains of other keyspaces.
    ///
    /// # Safety
    ///
    /// Sections and heaps of members of keyspaces under other domains are not used with this
    /// keyspace, nor those of its members with others.
    ///
    /// # Errors
    ///
    /// As [`Keyspace::join`], when this keyspace has another domain.
    pub unsafe fn join_beside<F: Flavour>(
        &self,
        domain: &Arc<Domain<F>>,
    ) -> Result<Member<F>, JoinError> {
        self.join_with(domain, || Ok(Claim::beside(domain.id())))
    }

    fn join_with<F: Flavour>(
        &self,
        domain: &Arc<Domain<F>>,
        first: impl FnOnce() -> Result<Arc<Claim>, JoinError>,
    ) -> Result<Member<F>, JoinError> {
        let mut claim = self.claim.lock().unwrap_or_else(PoisonError::into_inner);
        let claim = match &*claim {
            Some(claim) if claim.is_of(&domain.id()) => Arc::clone(claim),
            Some(_) => return Err(JoinError::OtherDomain),
            None => Arc::clone(claim.insert(first()?)),
        };
        let seat = self.gate.sit().ok_or(JoinError::Full)?;
        Ok(Member::new(domain, seat, claim, Arc::clone(&self.active_cut)))
    }

    /// Stops all members but the one in `closer`'s seat at a boundary between two commands. None if
    /// `is_late` became true first, or if another member is closing the gate.
    ///
    /// # Panics
    ///
    /// When the seat is another keyspace's.
    #[must_use]
    pub fn close_gate(&self, closer: &Seat, is_late: impl Fn() -> bool) -> Option<ClosedGate<'_>> {
        self.gate.close(closer, is_late)
    }

    fn check_alone(&self, alone: &ClosedGate<'_>) {
        assert!(alone.is_of(&self.gate), "another keyspace's gate was closed");
    }

    /// Number of databases.
    #[must_use]
    pub fn database_count(&self) -> usize {
        self.databases.len()
    }

    /// Index from which on no database was ever written: the end of a walk over all databases.
    #[must_use]
    pub fn databases_end(&self) -> usize {
        // Relaxed: a database first written at this moment may be missed, as by a walk a moment
        // earlier.
        self.databases_end.load(Ordering::Relaxed)
    }

    /// Number of databases that were written and not flushed since.
    #[must_use]
    pub fn written_count(&self) -> usize {
        // Relaxed: as `databases_end`.
        self.written_count.load(Ordering::Relaxed)
    }

    /// Databases of a range that were written and not flushed since, in their order. Looks at eight
    /// bytes for each of the others.
    pub fn written(&self, databases: Range<usize>) -> impl Iterator<Item = usize> {
        let end = databases.end.min(self.databases_end());
        // Relaxed: only whether there is a content, as with `databases_end`.
        let content = |database: usize| self.databases[database].load(Ordering::Relaxed);
        let is_written = move |&database: &usize| !content(database).is_null();
        (databases.start..end).filter(is_written)
    }

    /// The database from which a walk round through all goes on behind one: its next written one,
    /// or the first of all.
    #[must_use]
    pub fn written_behind(&self, database: usize) -> usize {
        let behind = self.written(database + 1..usize::MAX).next();
        behind.or_else(|| self.written(0..usize::MAX).next()).unwrap_or(0)
    }

    /// Secret of the key hashes.
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

    /// Slots and hashes of several keys, each equal to [`Keyspace::key_hash`], in less time for
    /// short ones.
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
        &self.slots[slot].word
    }

    #[inline]
    fn database<'g>(&'g self, database: usize, _section: Section<'g>) -> Option<&'g Database> {
        // Acquire: pairs with the Release stores of `database_or_new` and `swap_databases`.
        let pointer = self.databases[database].load(Ordering::Acquire);
        // SAFETY: a database is freed when the keyspace is dropped, which is borrowed for `'g`, or
        // a grace period after `detach` took it out of reach: `'g` lies within a section of the
        // same domain.
        unsafe { pointer.as_ref() }
    }

    fn database_or_new<'g>(
        &'g self,
        database: usize,
        _section: Section<'g>,
        heap: &Heap,
    ) -> &'g Database {
        let place = &self.databases[database];
        // Acquire: pairs with the Release half of the exchange below.
        let mut pointer = place.load(Ordering::Acquire);
        if pointer.is_null() {
            let fresh = Box::new(Database::new(database));
            let own_bytes = fresh.own_bytes();
            let fresh = Box::into_raw(fresh);
            // AcqRel: publishes the fresh tables, or sees those of the thread that was first.
            match place.compare_exchange(pointer, fresh, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => {
                    heap.allocated(own_bytes);
                    // Relaxed: hints for walks over all databases.
                    self.databases_end.fetch_max(database + 1, Ordering::Relaxed);
                    self.written_count.fetch_add(1, Ordering::Relaxed);
                    pointer = fresh;
                }
                Err(first) => {
                    // SAFETY: `fresh` was never shared.
                    drop(unsafe { Box::from_raw(fresh) });
                    pointer = first;
                }
            }
        }
        // SAFETY: not null, and freed no earlier than a grace period after this section (see
        // `database`).
        unsafe { &*pointer }
    }

    /// Prefetches the word of a slot.
    #[inline]
    pub fn prefetch_word(&self, slot: SlotNumber) {
        prefetch(ptr::from_ref(&self.slots[slot]).cast());
    }

    /// Prefetches the root of a slot's table. To be called for each of many keys before
    /// [`Keyspace::prefetch_buckets`], so that their misses overlap.
    #[inline]
    pub fn prefetch_table(&self, database: usize, slot: SlotNumber, section: Section<'_>) {
        if let Some(database) = self.database(database, section) {
            prefetch(ptr::from_ref(&database.tables[slot]).cast());
        }
    }

    /// Prefetches the buckets of keys whose tables were prefetched.
    #[inline]
    pub fn prefetch_buckets(
        &self,
        database: usize,
        keys: impl Iterator<Item = KeyHash>,
        section: Section<'_>,
    ) {
        let Some(database) = self.database(database, section) else { return };
        for key in keys {
            database.tables[key.slot].prefetch_bucket(key.hash, section);
        }
    }

    /// Prefetches the entries of keys whose buckets were prefetched, and notes their places. For
    /// few keys at a time: a core has room for some 16 misses, and waits with the next one until
    /// one of them is over.
    #[inline]
    pub fn prefetch_entries<'h>(
        &self,
        database: usize,
        keys: impl Iterator<Item = &'h mut KeyHash>,
        section: Section<'_>,
    ) {
        let Some(database) = self.database(database, section) else { return };
        for key in keys {
            let table = &database.tables[key.slot];
            key.likely_place = table.prefetch_entries(key.hash, section);
        }
    }

    /// The entry of a key as [`Keyspace::prefetch_entries`] saw it, if it is still there; now and
    /// then that of another key. For prefetching.
    #[must_use]
    #[inline]
    pub fn likely_entry<'g>(
        &'g self,
        database: usize,
        key: KeyHash,
        section: Section<'g>,
    ) -> Option<EntryRef<'g>> {
        self.database(database, section)?.tables[key.slot].likely_entry(key, section)
    }

    /// Finds a key without a lock. The slot's word decides whether the answer counts (see
    /// [`crate::word`]).
    #[must_use]
    #[inline(always)]
    pub fn find<'g>(
        &'g self,
        database: usize,
        key_hash: KeyHash,
        key: &[u8],
        section: Section<'g>,
    ) -> Option<EntryRef<'g>> {
        let database = self.database(database, section)?;
        database.tables[key_hash.slot].entry(key_hash, key, section)
    }

    /// Takes the lock of a slot if it is free. Never waits.
    #[must_use]
    #[inline]
    pub fn try_lock(&self, slot: SlotNumber) -> Option<SlotLock<'_, S>> {
        self.word(slot).try_lock().then(|| SlotLock { keyspace: self, slot, keeps_versions: false })
    }

    /// Number of keys in a database. Atomic per slot.
    #[must_use]
    pub fn key_count(&self, database: usize, section: Section<'_>) -> u64 {
        self.database(database, section).map_or(0, Database::key_count)
    }

    /// Number of keys with an expiry in a database. Atomic per slot.
    #[must_use]
    pub fn expiring_count(&self, database: usize, section: Section<'_>) -> u64 {
        self.database(database, section).map_or(0, Database::expiring_count)
    }

    /// Number of hashes with fields that expire in a database. A statistic of all slots.
    #[must_use]
    pub fn volatile_count(&self, database: usize, section: Section<'_>) -> u64 {
        // Relaxed: a statistic.
        self.database(database, section)
            .map_or(0, |database| database.volatile_count.load(Ordering::Relaxed))
    }

    /// Number of keys in one slot of a database. As for a lookup without a lock, the slot's word
    /// decides whether it counts; otherwise it is a hint.
    #[must_use]
    pub fn slot_key_count(&self, database: usize, slot: SlotNumber, section: Section<'_>) -> u32 {
        self.database(database, section).map_or(0, |database| database.slot_key_count(slot))
    }

    /// Counts of the parts of a slot's table. Takes time proportional to its size.
    #[must_use]
    pub fn table_shape(
        &self,
        database: usize,
        slot: SlotNumber,
        section: Section<'_>,
    ) -> TableShape {
        self.database(database, section)
            .map_or_else(TableShape::default, |found| found.tables[slot].shape(section))
    }

    /// First slot from `from` on that may have keys in a database, see
    /// [`Keyspace::nonempty_slots`].
    #[must_use]
    pub fn next_nonempty_slot(
        &self,
        database: usize,
        from: usize,
        section: Section<'_>,
    ) -> Option<SlotNumber> {
        self.nonempty_slots(database, from, section).next()
    }

    /// Slots from `from` on that may have keys in a database, ascending; by the bitmap, 64 slots at
    /// a step. Every slot that has keys is among them, also while a change of several publications
    /// has taken them out for a moment. One that is found empty is passed by from now on.
    pub fn nonempty_slots<'g>(
        &'g self,
        database: usize,
        from: usize,
        section: Section<'g>,
    ) -> impl Iterator<Item = SlotNumber> + use<'g, S> {
        let (found, mut next) = (self.database(database, section), from);
        std::iter::from_fn(move || {
            let database = found?;
            // A key added meanwhile may be missed, as a walk is atomic per slot only.
            let slot = database.nonempty.next(next)?;
            next = slot.index() + 1;
            if database.slot_key_count(slot) == 0
                && let Some(_lock) = self.try_lock(slot)
            {
                database.note_empty(slot);
            }
            Some(slot)
        })
    }

    /// Visits the bucket of a slot that holds the hash `from`, and returns the hash to go on from,
    /// a multiple of `granularity` (a power of two up to
    /// [`SCAN_GRANULARITY_MAX`](crate::limits::SCAN_GRANULARITY_MAX)), or `None` when the slot has
    /// no more.
    ///
    /// Every entry that stays in the slot throughout a walk from 0 is visited at least once.
    pub fn visit_bucket<'g>(
        &'g self,
        database: usize,
        slot: SlotNumber,
        from: u64,
        granularity: u64,
        section: Section<'g>,
        visit: &mut dyn FnMut(EntryRef<'g>),
    ) -> Option<u64> {
        let table = &self.database(database, section)?.tables[slot];
        table.visit_bucket(from, granularity, &self.seed, section, visit)
    }

    /// All entries of a slot, each once. Under the slot's lock, or if its word is unchanged
    /// afterwards, exactly those; otherwise a concurrent change may be seen in part.
    pub fn entries<'g>(
        &'g self,
        database: usize,
        slot: SlotNumber,
        section: Section<'g>,
    ) -> impl Iterator<Item = EntryRef<'g>> {
        let table = self.database(database, section).map(|found| &found.tables[slot]);
        table.into_iter().flat_map(move |table| table.entries(&self.seed, section))
    }

    /// The entries of a slot that expire, without touching the others.
    pub fn expiring_entries<'g>(
        &'g self,
        database: usize,
        slot: SlotNumber,
        section: Section<'g>,
    ) -> impl Iterator<Item = EntryRef<'g>> {
        let table = self.database(database, section).map(|found| &found.tables[slot]);
        table.into_iter().flat_map(move |table| table.expiring_entries(&self.seed, section))
    }

    /// True if a slot has entries that expire.
    #[must_use]
    pub fn has_expiring(&self, database: usize, slot: SlotNumber, section: Section<'_>) -> bool {
        // Relaxed: a statistic.
        self.database(database, section)
            .is_some_and(|found| found.expiring_counts[slot].load(Ordering::Relaxed) != 0)
    }

    /// Number of times that databases were exchanged or taken out, which no slot's word shows. To
    /// be compared by a thread that has found something and passed the gate since: lookups on both
    /// sides are of one moment only if it is the same.
    #[must_use]
    pub fn replaced_count(&self) -> u64 {
        // Relaxed: changed with the gate closed, which orders it.
        self.replaced_count.load(Ordering::Relaxed)
    }

    fn note_replaced(&self, _alone: &ClosedGate<'_>) {
        // Relaxed: as in `replaced_count`.
        self.replaced_count.fetch_add(1, Ordering::Relaxed);
    }

    /// Exchanges two databases (`SWAPDB`).
    ///
    /// # Panics
    ///
    /// When `alone` is of another keyspace's gate.
    pub fn swap_databases(&self, first: usize, second: usize, alone: &ClosedGate<'_>) {
        self.check_alone(alone);
        self.note_replaced(alone);
        // Relaxed loads, Release stores: the gate orders this against everybody; Release pairs with
        // `database`.
        let one = self.databases[first].load(Ordering::Relaxed);
        let other = self.databases[second].load(Ordering::Relaxed);
        self.databases[first].store(other, Ordering::Release);
        self.databases[second].store(one, Ordering::Release);
        if !(one.is_null() && other.is_null()) {
            // Relaxed: as in `database_or_new`.
            self.databases_end.fetch_max(first.max(second) + 1, Ordering::Relaxed);
        }
    }

    /// Takes a database's content out of the keyspace (`FLUSHDB`, `FLUSHALL`) and retires it: it is
    /// no longer live. [`Keyspace::take_unreachable`] returns it when a grace period is over,
    /// because readers outside of the gate may still look at it.
    ///
    /// # Panics
    ///
    /// When `alone` is of another keyspace's gate.
    pub fn detach(&self, database: usize, alone: &ClosedGate<'_>, heap: &Heap) -> Option<Detached> {
        self.check_alone(alone);
        self.note_replaced(alone);
        // AcqRel: takes over what the last writers published.
        let pointer = self.databases[database].swap(ptr::null_mut(), Ordering::AcqRel);
        let content = NonNull::new(pointer)?;
        // Relaxed: as in `database_or_new`.
        self.written_count.fetch_sub(1, Ordering::Relaxed);
        // SAFETY: it is freed after a grace period that has not begun: it is retired below.
        let database = unsafe { content.as_ref() };
        let detached = Detached { key_count: database.key_count(), bytes: database.total_bytes() };
        let departing = Departing { content, detached, to: Arc::clone(&self.unreachable) };
        let departing = NonNull::from(Box::leak(Box::new(departing))).cast();
        // SAFETY: `arrive` takes the box, on any thread. The heap is of the members' domain;
        // readers refer to the content, which `arrive` does not free. It counts no bytes: they are
        // counted apart, and must not hold writers back.
        heap.retire_uncounted(unsafe { Garbage::new(departing, 0, arrive) });
        Some(detached)
    }

    /// Detached databases that no thread can refer to any more, to be freed wherever it suits.
    /// Those that a [`Version`](crate::Version) may still read stay until it is gone.
    #[must_use]
    pub fn take_unreachable(&self) -> Vec<Unreachable> {
        let mut arrived = self.unreachable.arrived();
        let (pinned, free) =
            std::mem::take(&mut *arrived).into_iter().partition(Unreachable::is_pinned);
        *arrived = pinned;
        free
    }

    /// Begins a cut of all databases: they are handed to a walker as they are now. None while
    /// another cut is active. Takes time proportional to the databases that were ever written, and
    /// to the keys only when very many cuts were given up before.
    ///
    /// # Panics
    ///
    /// When `alone` is of another keyspace's gate.
    #[must_use]
    pub fn cut(&self, alone: &ClosedGate<'_>, section: Section<'_>) -> Option<Cut> {
        self.check_alone(alone);
        if self.has_active_cut() {
            return None;
        }
        // No cut begins meanwhile, as the gate is closed: none loses its stamps.
        if self.cuts.is_used_up() {
            self.clear_stamps(alone, section);
        }
        // Relaxed: the gate orders it.
        let databases = self.databases[..self.databases_end()].iter().enumerate();
        let content = |place: &AtomicPtr<Database>| NonNull::new(place.load(Ordering::Relaxed));
        let contents = databases.filter_map(|(number, place)| Some((number, content(place)?)));
        Some(Cut::begin(&self.cuts, contents, alone))
    }

    /// Clears the epochs of all entries: none of them may come again.
    #[cold]
    fn clear_stamps(&self, _alone: &ClosedGate<'_>, section: Section<'_>) {
        for database in self.written(0..usize::MAX) {
            for slot in SlotNumber::all() {
                self.entries(database, slot, section).for_each(|entry| entry.set_epoch(0));
            }
        }
        self.cuts.note_cleared();
    }

    /// True if cuts of this keyspace are these.
    pub(crate) fn is_cut_by(&self, cuts: &Arc<Cuts>) -> bool {
        Arc::ptr_eq(&self.cuts, cuts)
    }

    /// True while a cut is active.
    #[must_use]
    pub fn has_active_cut(&self) -> bool {
        !self.active_cut.is_inactive()
    }

    /// Bytes that the active cut keeps from being freed.
    #[must_use]
    pub fn cut_held_bytes(&self) -> usize {
        self.active_cut.held_bytes()
    }

    /// The most bytes that the last cut has kept from being freed.
    #[must_use]
    pub fn cut_held_peak_bytes(&self) -> usize {
        self.active_cut.held_peak_bytes()
    }

    /// Retires what writers handed over that had not noticed the end of a cut. To be called now and
    /// then by the thread that walks, while no cut is active.
    pub fn discard_handed_over(&self, heap: &Heap) {
        self.cuts.discard(heap);
    }

    /// True if a [`Version`](crate::Version) keeps a detached database from being freed.
    #[must_use]
    pub fn has_pinned_unreachable(&self) -> bool {
        self.unreachable.arrived().iter().any(Unreachable::is_pinned)
    }

    /// Visits the engine's state of each slot that has some, and locks these slots one after the
    /// other. Returns the slots that are locked already, by the closer itself, which reaches their
    /// state by its own locks.
    ///
    /// # Panics
    ///
    /// When `alone` is of another keyspace's gate.
    #[must_use]
    pub fn for_each_side(
        &self,
        alone: &ClosedGate<'_>,
        mut visit: impl FnMut(SlotNumber, &mut S),
    ) -> Vec<SlotNumber> {
        self.check_alone(alone);
        let mut locked = Vec::new();
        // State made before the gate closed is seen, and none is made now.
        for slot in self.with_side.iter() {
            match self.try_lock(slot) {
                Some(mut lock) => lock.side_if_any().into_iter().for_each(|side| visit(slot, side)),
                None => locked.push(slot),
            }
        }
        locked
    }
}

impl<S> Drop for Keyspace<S> {
    fn drop(&mut self) {
        for place in &mut self.databases {
            if let Some(content) = NonNull::new(*place.get_mut()) {
                // No reader is left: references handed out under sections borrow the keyspace.
                let detached = Detached { key_count: 0, bytes: 0 };
                // SAFETY: as above, and the keyspace owned it.
                drop(unsafe { Unreachable::new(content, detached) });
            }
        }
    }
}
