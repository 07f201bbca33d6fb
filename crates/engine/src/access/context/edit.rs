//! Edits of keys under the locks of their slots.

use tidemill_store::{
    Collection, Disposal, Encoding, EntryRef, EntrySpec, EntryTarget, Found, KeyHash, Kind,
    NewValue, OwnedEntry, Published, TreeSpec,
};

use super::cx::Cx;
use crate::commit::{Event, EventClass};
use crate::error::CommandError;
use crate::expiry_clock::ExpiryClock;
use crate::shared::Shared;
use crate::worker::Worker;

impl<'k: 'g, 'g> Cx<'k, 'g> {
    /// Begins a change of a key. A key that has expired is deleted first.
    ///
    /// # Panics
    ///
    /// When the key's slot is not locked: a write command declares its keys.
    pub fn edit<'c>(&'c mut self, key: &'c [u8]) -> Edit<'c, 'k, 'g> {
        self.edit_in(self.database, key)
    }

    /// As [`Cx::edit`], in another database.
    ///
    /// # Panics
    ///
    /// As [`Cx::edit`].
    pub fn edit_in<'c>(&'c mut self, database: usize, key: &'c [u8]) -> Edit<'c, 'k, 'g> {
        let key_hash = self.key_hash(key);
        let section = self.section;
        let found = self.access.lock(key_hash.slot).find(database, key_hash, key, section);
        if self.touch
            && let Some(found) = found
        {
            self.note_use_by_write(found);
        }
        let mut edit = Edit { cx: self, database, key, key_hash, found };
        if edit.found.is_some_and(|found| edit.cx.is_expired(found.entry)) {
            edit.expire();
        }
        edit
    }
}

impl Cx<'_, '_> {
    /// Notes a use of what may be about to be changed: a change of its expiry alone leaves the
    /// entry as it is, and some commands of the write path only read.
    #[inline]
    fn note_use_by_write(&mut self, found: Found<'_>) {
        match self.worker.counts_uses() {
            true => self.worker.count_write(found.entry),
            false => self.worker.note_use(found.entry),
        }
    }
}

/// New type, value and expiry of a key.
#[derive(Debug)]
pub struct NewEntry<'v> {
    /// Its type.
    pub kind: Kind,
    /// Answer of `OBJECT ENCODING`.
    pub encoding: Encoding,
    /// Unix time in milliseconds at which it expires.
    pub expires_at_ms: Option<u64>,
    /// Its value.
    pub value: NewValue<'v>,
}

/// Encoding and expiry of a collection that was filled, if it is to be put.
pub(crate) type Filled<E> = Result<Option<(Encoding, Option<u64>)>, E>;

/// Encoding of a collection, if it was changed, and an event to be told before the change's own.
pub(crate) type ChangedBehind = Option<(Encoding, Option<Event>)>;

/// A change of one key, under its slot's lock. Each change ends in the sinks: watchers, events,
/// waiters.
#[derive(Debug)]
pub struct Edit<'c, 'k: 'g, 'g> {
    cx: &'c mut Cx<'k, 'g>,
    database: usize,
    key: &'c [u8],
    key_hash: KeyHash,
    found: Option<Found<'g>>,
}

impl<'k: 'g, 'g> Edit<'_, 'k, 'g> {
    pub(crate) fn shared(&self) -> &'k Shared {
        self.cx.shared
    }

    /// The entry as it is.
    #[must_use]
    pub fn entry(&self) -> Option<EntryRef<'g>> {
        self.found.map(|found| found.entry)
    }

    /// The entry, which must be of a kind if it exists.
    ///
    /// # Errors
    ///
    /// [`CommandError::WrongType`] when it is of another kind.
    pub fn entry_of(&self, kind: Kind) -> Result<Option<EntryRef<'g>>, CommandError> {
        match self.entry() {
            Some(entry) if entry.kind() != kind => Err(CommandError::WrongType),
            entry => Ok(entry),
        }
    }

    /// The collection under the key, if it exists.
    ///
    /// # Errors
    ///
    /// [`CommandError::WrongType`] when it is of another type.
    pub fn read_as<C: Collection>(&self) -> Result<Option<C::View<'g>>, CommandError> {
        let entry = self.entry_of(C::KIND)?;
        Ok(entry.and_then(|entry| entry.view::<C>(self.cx.seed())))
    }

    /// The time by which expiries of the key's fields are judged.
    #[must_use]
    pub(crate) fn own_clock(&self) -> ExpiryClock {
        self.cx.clock_of(self.key)
    }

    /// As [`Cx::clock`].
    #[must_use]
    pub fn clock(&self) -> ExpiryClock {
        self.cx.clock()
    }

    /// Unix time in milliseconds at which the key expires.
    #[must_use]
    pub fn expires_at_ms(&self) -> Option<u64> {
        self.entry().and_then(EntryRef::expires_at_ms)
    }

    /// Puts a value under the key in the place of whatever is there.
    pub fn put(self, new: NewEntry<'_>, event: Event) {
        let entry = self.build(new);
        let is_new = self.found.is_none();
        self.put_built(entry, event, is_new);
    }

    /// As [`Edit::put`]; the key counts as new whatever was there.
    pub(crate) fn put_anew(self, new: NewEntry<'_>, event: Event) {
        let entry = self.build(new);
        self.put_built(entry, event, true);
    }

    /// Puts the value that the key has already, otherwise encoded: no change for any sink.
    ///
    /// # Panics
    ///
    /// When the key does not exist.
    pub fn put_same(self, new: NewEntry<'_>) {
        let entry = self.build(new);
        let Edit { cx, database, key_hash, found, .. } = self;
        let found = found.expect("only an existing key is encoded anew");
        let heap = &cx.worker.heap;
        let lock = cx.access.lock(key_hash.slot);
        lock.replace(database, key_hash.hash, found, entry, Disposal::RetireValue, heap);
    }

    fn build(&self, new: NewEntry<'_>) -> OwnedEntry {
        let spec = EntrySpec {
            key: self.key,
            kind: new.kind,
            encoding: new.encoding,
            expires_at_ms: new.expires_at_ms,
            recency: self.cx.worker.written_recency(self.entry()),
            value: new.value,
        };
        OwnedEntry::new(spec, &self.cx.worker.heap)
    }

    /// Puts an entry that was built for this key in the place of whatever is there. The key is new
    /// even then: that is told by [`Cx::new_key_event`].
    pub fn put_entry(self, entry: OwnedEntry, event: Event) {
        entry.as_ref().set_recency(self.cx.worker.written_recency(None));
        self.put_built(entry, event, false);
    }

    /// Puts an entry in the place of whatever is there; tells of a new key if it `is_new`.
    fn put_built(self, entry: OwnedEntry, event: Event, is_new: bool) {
        let Edit { cx, database, key, key_hash, found } = self;
        let section = cx.section;
        let heap = &cx.worker.heap;
        let lock = cx.access.lock_to_publish(cx.shared, key_hash.slot);
        match found {
            Some(found) => {
                lock.replace(database, key_hash.hash, found, entry, Disposal::RetireValue, heap)
            }
            None => lock.insert(database, key_hash.hash, entry, section, heap),
        }
        cx.changed(database, key, key_hash, event, is_new);
    }

    /// Puts a new collection, which `fill` fills with one element at least, under the key in the
    /// place of whatever is there.
    pub fn put_as<C: Collection>(
        self,
        encoding: Encoding,
        event: Event,
        fill: impl FnOnce(&mut C::Edit<'_>),
    ) {
        let Edit { cx, database, key, key_hash, found } = self;
        let section = cx.section;
        let heap = &cx.worker.heap;
        let mut collection = C::create(cx.shared.keyspace.seed(), heap);
        fill(&mut collection);
        let spec = tree_spec(key, key_hash, encoding, None, cx.worker);
        let lock = cx.access.lock_to_publish(cx.shared, key_hash.slot);
        let _present = lock.put_tree::<C>(database, found, collection, spec, section, heap);
        cx.changed(database, key, key_hash, event, found.is_none());
    }

    /// Puts a new collection under the key in the place of whatever is there. `fill` fills it and
    /// returns its encoding and expiry, or `None` to leave all as it was; tells whether it was put.
    /// The key counts as new if it `is_anew` or nothing was there.
    ///
    /// # Errors
    ///
    /// Those of `fill`; then nothing is changed.
    pub(crate) fn replace_as<C: Collection, E>(
        self,
        (event, is_anew): (Event, bool),
        fill: impl FnOnce(&mut C::Edit<'_>) -> Filled<E>,
    ) -> Result<bool, E> {
        let Edit { cx, database, key, key_hash, found } = self;
        let section = cx.section;
        let heap = &cx.worker.heap;
        let mut collection = C::create(cx.shared.keyspace.seed(), heap);
        let Some((encoding, expires_at_ms)) = fill(&mut collection)? else { return Ok(false) };
        let spec = tree_spec(key, key_hash, encoding, None, cx.worker);
        let spec = TreeSpec { expires_at_ms, ..spec };
        let lock = cx.access.lock_to_publish(cx.shared, key_hash.slot);
        let _present = lock.put_tree::<C>(database, found, collection, spec, section, heap);
        cx.changed(database, key, key_hash, event, is_anew || found.is_none());
        Ok(true)
    }

    /// Gives the key another expiry, or none.
    ///
    /// # Panics
    ///
    /// When the key does not exist.
    pub fn set_expiry(self, expires_at_ms: Option<u64>, event: Event) {
        let Edit { cx, database, key, key_hash, found } = self;
        let found = found.expect("only an existing key expires");
        let heap = &cx.worker.heap;
        let lock = cx.access.lock_to_publish(cx.shared, key_hash.slot);
        lock.set_expiry(database, key_hash.hash, found, expires_at_ms, heap);
        cx.changed(database, key, key_hash, event, false);
    }

    /// Removes the key; tells whether it was there.
    pub fn remove(self, event: Event) -> bool {
        let Edit { cx, database, key, key_hash, found } = self;
        let Some(found) = found else { return false };
        let section = cx.section;
        let heap = &cx.worker.heap;
        let lock = cx.access.lock_to_publish(cx.shared, key_hash.slot);
        lock.remove(database, key_hash.hash, found, Disposal::RetireValue, section, heap);
        cx.changed(database, key, key_hash, event, false);
        true
    }

    /// Removes the key and returns its value as an entry of `place`, which must be put somewhere.
    ///
    /// # Panics
    ///
    /// When the key does not exist.
    #[must_use]
    pub fn take_as(self, place: EntryTarget<'_>, event: Event) -> OwnedEntry {
        let Edit { cx, database, key, key_hash, found } = self;
        let found = found.expect("only an existing key moves");
        let section = cx.section;
        let heap = &cx.worker.heap;
        let lock = cx.access.lock_to_publish(cx.shared, key_hash.slot);
        let entry = lock.take_as(database, key_hash.hash, found, place, section, heap);
        cx.changed(database, key, key_hash, event, false);
        entry
    }

    /// Lets `change` edit the collection, or a new one, and publishes the result; an empty
    /// collection removes the key. A plain string becomes chunks.
    ///
    /// `change` returns the collection's encoding and what the caller wants back, or `None` to
    /// leave all as it was.
    ///
    /// # Errors
    ///
    /// Those of `change`; then nothing is changed.
    pub fn change<C: Collection, T>(
        mut self,
        event: Event,
        change: impl FnOnce(&mut C::Edit<'_>) -> Result<Option<(Encoding, T)>, CommandError>,
    ) -> Result<Option<T>, CommandError> {
        let Some((published, result)) = self.publish_edit(change)? else { return Ok(None) };
        let Edit { cx, database, key, key_hash, found } = self;
        cx.tree_changed(database, key, key_hash, event, found, published);
        Ok(Some(result))
    }

    /// As [`Edit::change`], where `change` also returns an event that is told before the change's
    /// own. Tells whether anything was changed.
    ///
    /// # Errors
    ///
    /// As [`Edit::change`].
    pub(crate) fn change_behind<C: Collection>(
        mut self,
        event: Event,
        change: impl FnOnce(&mut C::Edit<'_>) -> Result<ChangedBehind, CommandError>,
    ) -> Result<bool, CommandError> {
        let Some((published, before)) = self.publish_edit(change)? else { return Ok(false) };
        let Edit { cx, database, key, key_hash, found } = self;
        if let Some(before) = before {
            cx.event(database, key, before);
        }
        cx.tree_changed(database, key, key_hash, event, found, published);
        Ok(true)
    }

    /// As [`Edit::change`] of a collection that exists, where what its elements are does not
    /// change: neither watchers nor waiters are told, and there may be no event.
    ///
    /// # Errors
    ///
    /// As [`Edit::change`].
    pub(crate) fn change_beside<C: Collection, T>(
        mut self,
        event: Option<Event>,
        change: impl FnOnce(&mut C::Edit<'_>) -> Result<Option<(Encoding, T)>, CommandError>,
    ) -> Result<Option<T>, CommandError> {
        let Some((_, result)) = self.publish_edit(change)? else { return Ok(None) };
        let Edit { cx, database, key, .. } = self;
        cx.unit().note_changes(1);
        if let Some(event) = event {
            cx.event(database, key, event);
        }
        Ok(Some(result))
    }

    /// Lets `change` edit the collection and publishes the result, of which no sink is told.
    #[inline(always)]
    fn publish_edit<C: Collection, T>(
        &mut self,
        change: impl FnOnce(&mut C::Edit<'_>) -> Result<Option<(Encoding, T)>, CommandError>,
    ) -> Result<Option<(Published, T)>, CommandError> {
        let Edit { cx, database, key, key_hash, found } = self;
        let section = cx.section;
        let heap = &cx.worker.heap;
        let lock = cx.access.lock(key_hash.slot);
        let mut editing = lock.edit::<C>(*found, heap);
        let Some((encoding, result)) = change(&mut editing)? else { return Ok(None) };
        let spec = tree_spec(key, *key_hash, encoding, *found, cx.worker);
        let lock = cx.access.lock_to_publish(cx.shared, key_hash.slot);
        let published = lock.publish_tree(*database, editing, spec, section, heap);
        Ok(Some((published, result)))
    }

    /// Gives the value another encoding. To clients this is no change: no event, and nobody who
    /// watches is disturbed.
    ///
    /// # Panics
    ///
    /// When the key does not exist.
    pub fn set_encoding(self, encoding: Encoding) {
        let Edit { cx, database, key_hash, found, .. } = self;
        let found = found.expect("only an existing key is encoded anew");
        let recency = cx.worker.written_recency(Some(found.entry));
        let heap = &cx.worker.heap;
        let lock = cx.access.lock(key_hash.slot);
        lock.set_encoding(database, key_hash.hash, found, encoding, recency, heap);
    }

    /// Counts as a hit or miss, for commands that answer what they change.
    pub(crate) fn counted(self) -> Self {
        self.cx.count_lookup(self.found.is_some());
        if self.found.is_none() {
            self.cx.note_missed(self.database, self.key);
        }
        self
    }

    /// Evicts the key: deletes it to make room for others. The deletion is journaled by itself.
    pub(crate) fn evict(self) {
        let Edit { cx, database, key, key_hash, found } = self;
        let is_lazy = cx.worker.settings.evicts_lazily;
        let edit = Edit { cx: &mut *cx, database, key, key_hash, found };
        if edit.remove(Event::new(EventClass::EVICTED, "evicted")) {
            let word: &[u8] = if is_lazy { b"UNLINK" } else { b"DEL" };
            cx.propagate_beside(database, [word, key]);
            cx.worker.stats(cx.shared).evicted_keys.add(1);
        }
    }

    /// Deletes the key because its time is over.
    fn expire(&mut self) {
        let Some(found) = self.found.take() else { return };
        let section = self.cx.section;
        let expires_at_ms = found.entry.expires_at_ms();
        self.cx.shared.saw_expired(expires_at_ms.expect("an expired entry has an expiry"));
        let heap = &self.cx.worker.heap;
        let lock = self.cx.access.lock_to_publish(self.cx.shared, self.key_hash.slot);
        let hash = self.key_hash.hash;
        lock.remove(self.database, hash, found, Disposal::RetireValue, section, heap);
        let cx = &mut *self.cx;
        cx.count_expired_key();
        cx.propagate_beside(self.database, [&b"DEL"[..], self.key]);
        cx.tell_registered(self.database, self.key, self.key_hash, false);
        // The deletion is journaled by itself and is no change of the command's.
        cx.event(self.database, self.key, Event::new(EventClass::EXPIRED, "expired"));
    }

    /// True if there is no such key, or no longer: one that had expired was deleted when the edit
    /// began.
    pub(crate) fn is_gone(&self) -> bool {
        self.found.is_none()
    }
}

fn tree_spec<'v>(
    key: &'v [u8],
    key_hash: KeyHash,
    encoding: Encoding,
    found: Option<Found<'_>>,
    worker: &Worker,
) -> TreeSpec<'v> {
    TreeSpec {
        key,
        hash: key_hash.hash,
        encoding,
        expires_at_ms: found.and_then(|found| found.entry.expires_at_ms()),
        recency: worker.written_recency(found.map(|found| found.entry)),
    }
}
