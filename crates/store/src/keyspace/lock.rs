//! The lock of one slot: what is found under it, and every change of the slot's tables.
#![allow(unsafe_code)]

use std::fmt;
use std::sync::atomic::Ordering;

use super::Keyspace;
use super::database::Database;
use crate::entry::{self, Disposal, EntryRef, Marks, OwnedEntry};
use crate::heap::Heap;
use crate::key::KeyHash;
use crate::member::Section;
use crate::pin::Pin;
use crate::slot::SlotNumber;
use crate::table::Position;
use crate::version::Version;
use crate::word::SlotWord;

/// Lock of one slot. Dropping it releases the slot and wakes the sessions that wait for it.
pub struct SlotLock<'k, S> {
    pub(super) keyspace: &'k Keyspace<S>,
    pub(super) slot: SlotNumber,
    /// Nothing may change in place under this lock.
    pub(super) keeps_versions: bool,
}

impl<S> fmt::Debug for SlotLock<'_, S> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("SlotLock").field(&self.slot).finish()
    }
}

/// Entry found under its slot's lock, ready to be replaced or removed.
#[derive(Clone, Copy, Debug)]
pub struct Found<'g> {
    /// The entry.
    pub entry: EntryRef<'g>,
    position: Position,
}

impl Found<'_> {
    /// True if the entry is still in the place where it was found.
    pub(crate) fn is_current(&self) -> bool {
        self.position.refers_to(self.entry)
    }
}

/// Lock of one slot that outlives what it was borrowed from. The slot stays locked until it is
/// [attached](Keyspace::attach) and dropped: dropping this one leaves it locked for ever.
#[derive(Debug)]
#[must_use = "the slot stays locked"]
pub struct DetachedLock {
    slot: SlotNumber,
    /// Address of the keyspace, to which alone it may return.
    keyspace: usize,
}

impl DetachedLock {
    /// The locked slot.
    #[must_use]
    pub fn slot(&self) -> SlotNumber {
        self.slot
    }
}

impl<S> Keyspace<S> {
    fn address(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    /// The lock that was detached.
    ///
    /// # Panics
    ///
    /// When it is of another keyspace.
    pub fn attach(&self, lock: DetachedLock) -> SlotLock<'_, S> {
        assert!(lock.keyspace == self.address(), "a lock returns to its keyspace");
        SlotLock { keyspace: self, slot: lock.slot, keeps_versions: false }
    }
}

impl<S> SlotLock<'_, S> {
    /// Detaches the lock: the slot stays locked.
    pub fn detach(self) -> DetachedLock {
        let lock = DetachedLock { slot: self.slot, keyspace: self.keyspace.address() };
        std::mem::forget(self);
        lock
    }
}

impl<'k, S: Default> SlotLock<'k, S> {
    /// The locked slot.
    #[must_use]
    pub fn slot(&self) -> SlotNumber {
        self.slot
    }

    /// Marks the slot held: readers wait until it is released. For changes of several publications
    /// that must appear as one.
    pub fn mark_held(&mut self) {
        self.keyspace.word(self.slot).mark_held();
    }

    /// Lets everything that is found under this lock stay as it is until the lock is given back,
    /// whatever is published meanwhile: for who may have to put it back.
    pub fn keep_versions(&mut self) {
        self.keeps_versions = true;
    }

    /// The engine's state under this lock, made at the first call.
    pub fn side(&mut self) -> &mut S {
        let place = &self.keyspace.slots[self.slot].side;
        // Relaxed, both: the lock orders it; other threads only test it for null.
        let mut side = place.load(Ordering::Relaxed);
        if side.is_null() {
            side = Box::into_raw(Box::default());
            place.store(side, Ordering::Relaxed);
            self.keyspace.with_side.note(self.slot);
        }
        // SAFETY: the lock is held and `&mut self` makes this the only reference.
        unsafe { &mut *side }
    }

    /// The engine's state under this lock, if it was ever made.
    pub fn side_if_any(&mut self) -> Option<&mut S> {
        // Relaxed: as in `side`.
        let side = self.keyspace.slots[self.slot].side.load(Ordering::Relaxed);
        // SAFETY: the lock is held and `&mut self` makes this the only reference.
        unsafe { side.as_mut() }
    }

    pub(super) fn word(&self) -> &SlotWord {
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
    ) -> Option<Found<'g>>
    where
        'k: 'g,
    {
        debug_assert_eq!(key_hash.slot, self.slot);
        let table = &self.keyspace.database(database, section)?.tables[self.slot];
        let (entry, position) = table.find(key_hash, key, section)?;
        Some(Found { entry, position })
    }

    /// The database that `found` is in.
    ///
    /// # Panics
    ///
    /// When the entry is not there any more: it must not be retired twice.
    pub(super) fn database_of<'g>(
        &self,
        database: usize,
        hash: u64,
        found: Found<'_>,
        section: Section<'g>,
    ) -> &'g Database
    where
        'k: 'g,
    {
        let database = self.keyspace.database(database, section);
        let holds = |database: &&Database| {
            database.tables[self.slot].holds(found.position, hash, found.entry, section)
        };
        database.filter(holds).expect("what was found is used before the next change of the slot")
    }

    /// Marks an entry that is about to be published as none of the active cut's.
    #[inline]
    fn stamp(&self, entry: &OwnedEntry) {
        let epoch = self.keyspace.active_cut.epoch();
        if epoch != 0 {
            entry.as_ref().set_epoch(epoch);
        }
    }

    /// Retires an entry that was taken out of its table, or hands it over to the active cut.
    /// Returns the bytes of the entry and its value.
    ///
    /// # Safety
    ///
    /// As for [`entry::retire`].
    #[inline]
    unsafe fn dispose(
        &self,
        entry: EntryRef<'_>,
        disposal: Disposal,
        database: &Database,
        heap: &Heap,
    ) -> usize {
        let epoch = self.keyspace.active_cut.epoch();
        if epoch != 0 && entry.epoch() != epoch {
            let cuts = &self.keyspace.cuts;
            // SAFETY: the caller's promise; nodes are retired behind the publication.
            return unsafe { cuts.hand_over(epoch, database.cut_number(), entry, disposal, heap) };
        }
        // SAFETY: the caller's promise.
        unsafe { entry::retire(entry, disposal, heap) }
    }

    /// Publishes an entry whose key is absent. The caller has looked: a present key would be there
    /// twice.
    pub fn insert(
        &mut self,
        database: usize,
        hash: u64,
        entry: OwnedEntry,
        section: Section<'_>,
        heap: &Heap,
    ) {
        let database = self.keyspace.database_or_new(database, section, heap);
        let marks = entry.as_ref().marks();
        let entry_bytes = entry.bytes() as i64;
        self.stamp(&entry);
        // SAFETY: published below; from then on only retirement frees it.
        let entry = unsafe { EntryRef::from_pointer(entry.into_pointer()) };
        let table = &database.tables[self.slot];
        let live_bytes = heap.live_bytes();
        let position = table.vacancy(hash, &self.keyspace.seed, section, heap);
        let table_bytes = heap.live_bytes() - live_bytes;
        database.note_nonempty(self.slot);
        self.word().begin_change();
        position.fill(hash, entry);
        database.count(self.slot, 1, Marks::default(), marks);
        self.word().end_change();
        database.count_bytes(self.slot, entry_bytes + table_bytes);
    }

    /// Pins the current versions of all collections in all slots that the calling thread has
    /// locked, this one among them: what is found there does not change while the pin lives.
    #[must_use]
    pub fn pin_all(&mut self) -> Pin {
        Pin::begin()
    }

    /// Pins the current version of a collection; none when the value is not a tree.
    ///
    /// # Panics
    ///
    /// When the slot changed since `found` was found.
    #[must_use]
    pub fn pin(&mut self, database: usize, hash: u64, found: Found<'_>) -> Option<Version> {
        // SAFETY: `found` does not outlive the section that it was found in.
        let section = unsafe { Section::assume() };
        self.database_of(database, hash, found, section);
        let root = found.entry.root()?;
        // SAFETY: the entry is in this slot, of which `self` is the lock.
        Some(unsafe { Version::of(root, found.entry.kind()) })
    }

    /// Publishes an entry in place of another one of the same key, and retires the old one.
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
        // SAFETY: `found` does not outlive the section that it was found in.
        let section = unsafe { Section::assume() };
        let database = self.database_of(database, hash, found, section);
        // SAFETY: the database has just been found to hold it.
        unsafe { self.replace_in(database, hash, found, entry, disposal, heap) };
    }

    /// As [`SlotLock::replace`].
    ///
    /// # Safety
    ///
    /// `found` is what the slot's table in `database` holds for its key.
    #[inline]
    unsafe fn replace_in(
        &self,
        database: &Database,
        hash: u64,
        found: Found<'_>,
        entry: OwnedEntry,
        disposal: Disposal,
        heap: &Heap,
    ) {
        let (old, new) = (found.entry.marks(), entry.as_ref().marks());
        let bytes = entry.bytes() as i64;
        self.stamp(&entry);
        // SAFETY: published below; from then on only retirement frees it.
        let entry = unsafe { EntryRef::from_pointer(entry.into_pointer()) };
        self.word().begin_change();
        found.position.replace(hash, entry);
        self.word().end_change();
        if old != new {
            database.count(self.slot, 0, old, new);
        }
        // SAFETY: no table refers to the old entry any more.
        let old_bytes = unsafe { self.dispose(found.entry, disposal, database, heap) };
        database.count_bytes(self.slot, bytes - old_bytes as i64);
    }

    /// Publishes what `build` makes of the key's entry, if it makes anything: in the place of that
    /// entry, whose value is retired with it, or as a new one. Tells whether it did.
    #[inline(always)]
    pub fn put_with<'g>(
        &mut self,
        database: usize,
        (key_hash, key): (KeyHash, &[u8]),
        section: Section<'g>,
        heap: &Heap,
        build: impl FnOnce(Option<EntryRef<'g>>) -> Option<OwnedEntry>,
    ) -> bool
    where
        'k: 'g,
    {
        let found = self.find(database, key_hash, key, section);
        let Some(entry) = build(found.map(|found| found.entry)) else { return false };
        let hash = key_hash.hash;
        match (found, self.keyspace.database(database, section)) {
            (Some(found), Some(database)) => {
                // SAFETY: it was found under this lock, which is borrowed since.
                unsafe {
                    self.replace_in(database, hash, found, entry, Disposal::RetireValue, heap);
                }
            }
            _ => self.insert(database, hash, entry, section, heap),
        }
        true
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
        database.count(self.slot, -1, marks, Marks::default());
        self.word().end_change();
        let live_bytes = heap.live_bytes();
        database.tables[self.slot].tidy(hash, &self.keyspace.seed, section, heap);
        let table_bytes = heap.live_bytes() - live_bytes;
        // SAFETY: no table refers to the entry any more.
        let entry_bytes = unsafe { self.dispose(found.entry, disposal, database, heap) };
        database.count_bytes(self.slot, table_bytes - entry_bytes as i64);
    }
}

impl<S> Drop for SlotLock<'_, S> {
    fn drop(&mut self) {
        let word = &self.keyspace.slots[self.slot].word;
        if word.unlock() {
            self.keyspace.observer.released(self.slot, &|| word.clear_waiting());
        }
    }
}
