//! Key under construction from a file.

use std::fmt;

use tidemill_rdb::value::{Item, ValueEncoding, ValueType};
use tidemill_store::{
    Collection, Disposal, EntrySpec, Heap, KeyHash, Kind, NewValue, OwnedEntry, Section, SlotLock,
    TreeSpec,
};

use super::draft::{
    BadItem, Draft, HashDraft, ListDraft, SetDraft, SortedSetDraft, StreamDraft,
    has_possible_length, piece_bytes,
};
use crate::expiry_clock::ExpiryClock;
use crate::handlers::string::encoding_of;
use crate::saving::Present;
use crate::settings::Settings;
use crate::shared::Shared;
use crate::slots::registry::SlotRegistry;
use crate::use_stamp::UseStamp;

/// Attributes of a key in a file.
#[derive(Clone, Copy, Debug)]
pub struct KeySpec {
    /// Its database.
    pub database: usize,
    /// Its slot and hash.
    pub key_hash: KeyHash,
    /// Encoding of its value.
    pub stored: ValueEncoding,
    /// Server's time in milliseconds at which it expires.
    pub expires_at_ms: Option<u64>,
    /// Seconds for which it was not used.
    pub idle_s: u64,
    /// Frequency of its use; none when that is not known.
    pub frequency: Option<u8>,
}

impl KeySpec {
    /// The recency field of its entry.
    fn recency(&self, settings: &Settings, clock: ExpiryClock) -> u32 {
        let now_s = clock.now_ms() / 1000;
        // Attributes that another policy noted are passed over, as in Valkey.
        let stamp = match self.frequency {
            Some(frequency) if settings.counts_uses() => UseStamp::with_frequency(now_s, frequency),
            _ if settings.counts_uses() => UseStamp::new(now_s),
            _ => UseStamp::new(now_s.saturating_sub(self.idle_s)),
        };
        stamp.field()
    }
}

/// Reason why a key cannot be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DraftError {
    /// An element of its value occurs twice.
    Malformed,
    /// An element of its value is longer than one may be.
    TooLong,
    /// A key of this name is there.
    Duplicate,
}

impl From<BadItem> for DraftError {
    fn from(_: BadItem) -> DraftError {
        DraftError::Malformed
    }
}

/// Key that was not put.
#[derive(Debug)]
pub struct RefusedKey {
    /// Its name.
    pub name: Vec<u8>,
    /// Its database.
    pub database: usize,
    /// Reason.
    pub error: DraftError,
}

/// A collection and its judgement.
struct Collected<'h, D: Draft> {
    draft: D,
    edit: <D::Value as Collection>::Edit<'h>,
}

impl<'h, D: Draft> Collected<'h, D> {
    fn new(draft: D, shared: &'h Shared, heap: &'h Heap) -> Collected<'h, D> {
        Collected { draft, edit: D::Value::create(shared.keyspace.seed(), heap) }
    }

    fn take(&mut self, item: Item<'_>) -> Result<(), DraftError> {
        self.draft.take(&mut self.edit, item)?;
        Ok(())
    }

    fn put(
        mut self,
        (spec, name, recency): (&KeySpec, &[u8], u32),
        lock: &mut SlotLock<'_, SlotRegistry>,
        section: Section<'_>,
        heap: &'h Heap,
    ) -> Result<(), DraftError> {
        self.draft.settle(&mut self.edit).map_err(|_| DraftError::Malformed)?;
        let tree = TreeSpec {
            key: name,
            hash: spec.key_hash.hash,
            encoding: self.draft.encoding(&mut self.edit)?,
            expires_at_ms: spec.expires_at_ms,
            recency,
        };
        let _present =
            lock.put_tree::<D::Value>(spec.database, None, self.edit, tree, section, heap);
        Ok(())
    }
}

enum Value<'h> {
    List(Collected<'h, ListDraft>),
    Hash(Collected<'h, HashDraft>),
    Set(Collected<'h, SetDraft>),
    SortedSet(Collected<'h, SortedSetDraft>),
    Stream(Collected<'h, StreamDraft>),
}

/// Collection under a key, whose elements arrive one by one.
pub struct CollectionDraft<'h> {
    spec: KeySpec,
    name: Vec<u8>,
    recency: u32,
    value: Value<'h>,
    is_empty: bool,
}

impl fmt::Debug for CollectionDraft<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("CollectionDraft").field("spec", &self.spec).finish_non_exhaustive()
    }
}

impl<'h> CollectionDraft<'h> {
    /// Key without elements yet; none for a string.
    #[must_use]
    pub fn new(
        spec: KeySpec,
        name: Vec<u8>,
        settings: &Settings,
        clock: ExpiryClock,
        (shared, heap): (&'h Shared, &'h Heap),
    ) -> Option<Box<CollectionDraft<'h>>> {
        let stored = spec.stored;
        let value = match stored.value_type() {
            ValueType::String => return None,
            ValueType::List => {
                let draft = ListDraft::new(stored, None, settings);
                Value::List(Collected::new(draft, shared, heap))
            }
            ValueType::Hash => {
                let draft = HashDraft::new(stored, settings, clock);
                Value::Hash(Collected::new(draft, shared, heap))
            }
            ValueType::Set => {
                let draft = SetDraft::new(stored, None, settings);
                Value::Set(Collected::new(draft, shared, heap))
            }
            ValueType::SortedSet => {
                let draft = SortedSetDraft::new(stored, settings);
                Value::SortedSet(Collected::new(draft, shared, heap))
            }
            ValueType::Stream => {
                Value::Stream(Collected::new(StreamDraft::new(stored), shared, heap))
            }
        };
        let recency = spec.recency(settings, clock);
        Some(Box::new(CollectionDraft { spec, name, recency, value, is_empty: true }))
    }

    /// The key.
    #[must_use]
    pub fn name(&self) -> &[u8] {
        &self.name
    }

    /// Its database.
    #[must_use]
    pub fn database(&self) -> usize {
        self.spec.database
    }

    /// True if no element has come: the key is not put then.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.is_empty
    }

    /// Adds the next element.
    ///
    /// # Errors
    ///
    /// [`DraftError::Malformed`], [`DraftError::TooLong`].
    pub fn take(&mut self, item: Item<'_>) -> Result<(), DraftError> {
        self.is_empty = false;
        if !has_possible_length(piece_bytes(&item)) {
            return Err(DraftError::TooLong);
        }
        match &mut self.value {
            Value::List(list) => list.take(item),
            Value::Hash(hash) => hash.take(item),
            Value::Set(set) => set.take(item),
            Value::SortedSet(set) => set.take(item),
            Value::Stream(stream) => stream.take(item),
        }
    }

    fn put(
        self,
        shared: &Shared,
        lock: &mut SlotLock<'_, SlotRegistry>,
        section: Section<'_>,
        heap: &'h Heap,
    ) -> Result<(), RefusedKey> {
        let CollectionDraft { spec, name, recency, value, .. } = self;
        let place = (&spec, &name[..], recency);
        let put = match value {
            Value::List(list) => list.put(place, lock, section, heap),
            Value::Hash(hash) => {
                if hash.draft.has_expiries() {
                    shared.note_expiring_field();
                }
                hash.put(place, lock, section, heap)
            }
            Value::Set(set) => set.put(place, lock, section, heap),
            Value::SortedSet(set) => set.put(place, lock, section, heap),
            Value::Stream(stream) => stream.put(place, lock, section, heap),
        };
        put.map_err(|error| RefusedKey { name, database: spec.database, error })
    }
}

#[derive(Debug)]
enum WholeValue<'h> {
    String(OwnedEntry),
    Collection(Box<CollectionDraft<'h>>),
}

/// Key with its whole value, to be put into the keyspace. Small, for it waits beside others.
/// Dropped before [`KeyDraft::put`], it leaves the bytes of a string counted as live: see
/// [`KeyDraft::discard`].
#[derive(Debug)]
pub struct KeyDraft<'h> {
    database: usize,
    key_hash: KeyHash,
    value: WholeValue<'h>,
}

impl<'h> From<Box<CollectionDraft<'h>>> for KeyDraft<'h> {
    fn from(draft: Box<CollectionDraft<'h>>) -> KeyDraft<'h> {
        let KeySpec { database, key_hash, .. } = draft.spec;
        KeyDraft { database, key_hash, value: WholeValue::Collection(draft) }
    }
}

impl<'h> KeyDraft<'h> {
    /// String under a key.
    #[must_use]
    pub fn string(
        spec: KeySpec,
        name: &[u8],
        text: &[u8],
        settings: &Settings,
        clock: ExpiryClock,
        heap: &Heap,
    ) -> KeyDraft<'h> {
        let entry = EntrySpec {
            key: name,
            kind: Kind::String,
            encoding: encoding_of(name, text, false),
            expires_at_ms: spec.expires_at_ms,
            recency: spec.recency(settings, clock),
            value: NewValue::String(text),
        };
        let value = WholeValue::String(OwnedEntry::new(entry, heap));
        KeyDraft { database: spec.database, key_hash: spec.key_hash, value }
    }

    /// Its database.
    #[must_use]
    pub fn database(&self) -> usize {
        self.database
    }

    /// Its slot and hash.
    #[must_use]
    pub fn key_hash(&self) -> KeyHash {
        self.key_hash
    }

    fn name(&self) -> &[u8] {
        match &self.value {
            WholeValue::String(entry) => entry.as_ref().key(),
            WholeValue::Collection(draft) => &draft.name,
        }
    }

    /// Frees the key, which is not put, and takes its bytes out of the live ones again.
    pub fn discard(self, heap: &Heap) {
        if let WholeValue::String(entry) = self.value {
            entry.discard(heap);
        }
    }

    /// Puts the key into the keyspace; sinks are told nothing. Gives it back when its slot is
    /// locked: a client may watch keys at this moment.
    ///
    /// # Errors
    ///
    /// [`DraftError::Duplicate`]; [`DraftError::Malformed`] for a value without elements, or with
    /// one twice.
    pub fn put(
        self,
        present: Present,
        shared: &Shared,
        section: Section<'_>,
        heap: &'h Heap,
    ) -> Result<Option<KeyDraft<'h>>, Box<RefusedKey>> {
        let KeyDraft { database, key_hash, .. } = self;
        let Some(mut lock) = shared.keyspace.try_lock(key_hash.slot) else {
            return Ok(Some(self));
        };
        if let Some(found) = lock.find(database, key_hash, self.name(), section) {
            if present != Present::Replaced {
                let (name, error) = (self.name().to_vec(), DraftError::Duplicate);
                self.discard(heap);
                return Err(Box::new(RefusedKey { name, database, error }));
            }
            lock.remove(database, key_hash.hash, found, Disposal::RetireValue, section, heap);
        }
        match self.value {
            WholeValue::String(entry) => {
                lock.insert(database, key_hash.hash, entry, section, heap);
                Ok(None)
            }
            WholeValue::Collection(draft) => {
                draft.put(shared, &mut lock, section, heap).map(|()| None).map_err(Box::new)
            }
        }
    }
}
