//! Reads of keys: lookups, the judgement of expiry, and the verdict of reads without locks.

use tidemill_store::word::Word;
use tidemill_store::{Collection, EntryRef, KeyHash, Kind, SlotNumber, StringValue};

use super::cx::{Access, Cx};
use super::lookups::{Seen, Sightings, Verdict};
use crate::error::CommandError;

impl<'k: 'g, 'g> Cx<'k, 'g> {
    #[inline]
    pub(super) fn is_expired(&self, entry: EntryRef<'_>) -> bool {
        entry.expires_at_ms().is_some_and(|at_ms| self.clock_of(entry.key()).has_passed(at_ms))
    }

    /// Notes that something in a slot was found expired that expires at `at_ms` at the latest: it
    /// stays so for everybody. Tells whether the finding counts; if not, the command runs again.
    #[cold]
    pub(crate) fn found_expired(&mut self, slot: SlotNumber, at_ms: u64) -> bool {
        match &mut self.access {
            // Judged under the locks; it has no fields that expire.
            Access::Locked(_) | Access::Found(_) => {
                self.shared.saw_expired(at_ms);
                true
            }
            Access::Optimistic(lookups) => {
                let word = self.shared.keyspace.word(slot);
                let before = lookups.seen.word_before(slot).unwrap_or(Word::of_vain_lookup());
                let counts = self.shared.confirms_expired(at_ms, word, before);
                if !counts {
                    lookups.seen.spoil(slot);
                }
                counts
            }
        }
    }

    /// The entry of a key, if the key exists and has not expired. Counts as a use of the key and as
    /// a hit or miss.
    #[inline]
    pub fn read(&mut self, key: &[u8]) -> Option<EntryRef<'g>> {
        self.read_in(self.database, key)
    }

    /// As [`Cx::read`], in another database.
    #[inline(always)]
    pub fn read_in(&mut self, database: usize, key: &[u8]) -> Option<EntryRef<'g>> {
        let entry = self.peek_in(database, key);
        self.count_lookup(entry.is_some());
        match entry {
            Some(entry) => self.touch(entry),
            None => self.note_missed(database, key),
        }
        entry
    }

    /// As [`Cx::read`], without counting as a use of the key.
    pub(crate) fn look(&mut self, key: &[u8]) -> Option<EntryRef<'g>> {
        let entry = self.inspect(key);
        if entry.is_none() {
            self.note_missed(self.database, key);
        }
        entry
    }

    /// As [`Cx::look`], without an event when there is no such key.
    pub(crate) fn inspect(&mut self, key: &[u8]) -> Option<EntryRef<'g>> {
        let entry = self.peek(key);
        self.count_lookup(entry.is_some());
        entry
    }

    /// Counts a hit or a miss.
    #[inline(always)]
    pub(crate) fn count_lookup(&mut self, is_hit: bool) {
        self.worker.count_lookup(is_hit);
    }

    /// Notes that a read did not find a key. The event is published once the command counts.
    #[inline(always)]
    pub(super) fn note_missed(&mut self, database: usize, key: &[u8]) {
        if self.worker.notes_misses {
            self.worker.note_missed(database, key);
        }
    }

    /// The entry of a key as [`Cx::read`] finds it, without counting as a use, a hit or a miss.
    #[inline]
    pub fn peek(&mut self, key: &[u8]) -> Option<EntryRef<'g>> {
        self.peek_in(self.database, key)
    }

    /// As [`Cx::peek`], in another database.
    #[inline(always)]
    pub fn peek_in(&mut self, database: usize, key: &[u8]) -> Option<EntryRef<'g>> {
        let key_hash = self.key_hash(key);
        let keyspace = &self.shared.keyspace;
        let entry = match &mut self.access {
            // Judged when it was found.
            Access::Found(found) => return found.find(database, key),
            Access::Locked(_) => keyspace.find(database, key_hash, key, self.section),
            Access::Optimistic(lookups) => {
                let before = keyspace.word(key_hash.slot).load();
                let entry = keyspace.find(database, key_hash, key, self.section);
                let is_whole = entry.is_some_and(|entry| !entry.changes_in_place());
                lookups.seen.push(Seen::new(key_hash.slot, before, is_whole));
                entry
            }
        }?;
        if self.is_expired(entry) {
            self.note_expired(database, entry, key_hash);
            return None;
        }
        Some(entry)
    }

    /// Lets reads count as uses of keys, whatever the client wants.
    pub(crate) fn touch_always(&mut self) {
        self.touch = true;
    }

    /// Notes that an entry was used.
    #[inline]
    pub fn touch(&mut self, entry: EntryRef<'_>) {
        if self.touch {
            self.worker.note_use(entry);
        }
    }

    #[cold]
    fn note_expired(&mut self, database: usize, entry: EntryRef<'_>, key_hash: KeyHash) {
        let at_ms = entry.expires_at_ms().expect("an expired entry has an expiry");
        if self.found_expired(key_hash.slot, at_ms) {
            self.worker.note_expired(self.shared, database, entry.key(), key_hash);
        }
    }

    /// The entry of a key that must be of a kind if it exists.
    ///
    /// # Errors
    ///
    /// [`CommandError::WrongType`] when it is of another kind.
    #[inline(always)]
    pub fn read_kind(
        &mut self,
        key: &[u8],
        kind: Kind,
    ) -> Result<Option<EntryRef<'g>>, CommandError> {
        match self.read(key) {
            Some(entry) if entry.kind() != kind => Err(CommandError::WrongType),
            found => Ok(found),
        }
    }

    /// The string under a key.
    ///
    /// # Errors
    ///
    /// [`CommandError::WrongType`] when it is no string.
    #[inline]
    pub fn read_string(&mut self, key: &[u8]) -> Result<Option<StringValue<'g>>, CommandError> {
        Ok(self.read_kind(key, Kind::String)?.and_then(EntryRef::string))
    }

    /// The collection under a key.
    ///
    /// # Errors
    ///
    /// [`CommandError::WrongType`] when it is of another type.
    #[inline]
    pub fn read_as<C: Collection>(
        &mut self,
        key: &[u8],
    ) -> Result<Option<C::View<'g>>, CommandError> {
        let entry = self.read_kind(key, C::KIND)?;
        Ok(entry.and_then(|entry| self.view_of::<C>(entry)))
    }

    /// View of the collection that was just found. One of a single leaf is of one moment.
    #[inline(always)]
    fn view_of<C: Collection>(&mut self, entry: EntryRef<'g>) -> Option<C::View<'g>> {
        let (view, is_leaf) = entry.view_and_is_leaf::<C>(self.seed())?;
        if is_leaf {
            self.reads_one_leaf();
        }
        Some(view)
    }

    /// Declares that of the collection that was just found, the command reads one leaf and looks
    /// for it once, by a key or field and not by a position. Nothing else is read; so the read is
    /// of one moment also when the slot changes meanwhile: see
    /// docs/internals/consistency.md, Reads of collections.
    #[inline(always)]
    pub(crate) fn reads_one_leaf(&mut self) {
        if let Access::Optimistic(lookups) = &mut self.access {
            lookups.seen.reads_one_leaf();
        }
    }

    /// As [`Cx::read_as`], without counting as a use, a hit or a miss.
    ///
    /// # Errors
    ///
    /// As [`Cx::read_as`].
    pub fn peek_as<C: Collection>(
        &mut self,
        key: &[u8],
    ) -> Result<Option<C::View<'g>>, CommandError> {
        let found = self.peek(key);
        if found.is_some_and(|entry| entry.kind() != C::KIND) {
            return Err(CommandError::WrongType);
        }
        Ok(found.and_then(|entry| self.view_of::<C>(entry)))
    }

    /// Checks what an optimistic handler saw.
    #[inline(always)]
    pub(crate) fn verdict(&self) -> Verdict {
        let stale = match &self.access {
            Access::Locked(_) | Access::Found(_) => None,
            Access::Optimistic(lookups) => lookups.stale_slot(self.shared),
        };
        stale.map_or(Verdict::Valid, Verdict::Stale)
    }

    /// Ends a read without locks, by which the context holds nothing that needs a drop: that of all
    /// that access may hold costs a command as much as its verdict.
    #[inline(always)]
    pub(crate) fn end_lookups(&mut self) {
        if let Access::Optimistic(lookups) = &mut self.access {
            lookups.seen = Sightings::None;
        } else {
            unreachable!("a read takes no locks");
        }
    }
}
