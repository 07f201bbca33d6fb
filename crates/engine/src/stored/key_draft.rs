//! Key under construction from a file.

use std::fmt;

use tidemill_rdb::value::{Item, ValueEncoding, ValueType};
use tidemill_store::{
    Collection, Disposal, EntrySpec, Heap, KeyHash, Kind, NewValue, OwnedEntry, Section, SlotLock,
    TreeSpec,
};

use super::draft::{BadItem, Draft, HashDraft, ListDraft, SetDraft, SortedSetDraft, StreamDraft};
use crate::expiry_clock::ExpiryClock;
use crate::handlers::string::encoding_of;
use crate::saving::Present;
use crate::settings::Settings;
use crate::shared::Shared;
use crate::slots::registry::SlotRegistry;
use crate::use_stamp::UseStamp;

/// Attributes of a key in a file.
#[derive(Clone, Debug)]
pub struct KeySpec {
    /// Its database.
    pub database: usize,
    /// Its name.
    pub name: Vec<u8>,
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

/// Reason why a key cannot be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DraftError {
    /// Values of its type are not stored yet.
    Unsupported(Kind),
    /// An element of its value occurs twice.
    Malformed,
    /// A key of this name is there.
    Duplicate,
}

impl From<BadItem> for DraftError {
    fn from(_: BadItem) -> DraftError {
        DraftError::Malformed
    }
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
        (spec, recency): (&KeySpec, u32),
        hash: u64,
        lock: &mut SlotLock<'_, SlotRegistry>,
        section: Section<'_>,
        heap: &'h Heap,
    ) -> Result<(), DraftError> {
        self.draft.settle(&mut self.edit).map_err(|_| DraftError::Malformed)?;
        let tree = TreeSpec {
            key: &spec.name,
            hash,
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
    String(Option<OwnedEntry>),
    List(Collected<'h, ListDraft>),
    Hash(Collected<'h, HashDraft>),
    Set(Collected<'h, SetDraft>),
    SortedSet(Collected<'h, SortedSetDraft>),
    Stream(Collected<'h, StreamDraft>),
}

/// Key whose value arrives element by element. Dropped before [`KeyDraft::put`], it leaves the
/// bytes of a string counted as live: loading that failed goes no further.
pub struct KeyDraft<'h> {
    spec: KeySpec,
    recency: u32,
    value: Value<'h>,
    shared: &'h Shared,
    heap: &'h Heap,
    is_empty: bool,
}

impl fmt::Debug for KeyDraft<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("KeyDraft").field("spec", &self.spec).finish_non_exhaustive()
    }
}

impl<'h> KeyDraft<'h> {
    /// Key without elements yet.
    ///
    /// # Errors
    ///
    /// [`DraftError::Unsupported`].
    pub fn new(
        spec: KeySpec,
        settings: &Settings,
        clock: ExpiryClock,
        shared: &'h Shared,
        heap: &'h Heap,
    ) -> Result<KeyDraft<'h>, DraftError> {
        let stored = spec.stored;
        let value = match stored.value_type() {
            ValueType::String => Value::String(None),
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
        let now_s = clock.now_ms() / 1000;
        // Attributes that another policy noted are passed over, as in Valkey.
        let stamp = match spec.frequency {
            Some(frequency) if settings.counts_uses() => UseStamp::with_frequency(now_s, frequency),
            _ if settings.counts_uses() => UseStamp::new(now_s),
            _ => UseStamp::new(now_s.saturating_sub(spec.idle_s)),
        };
        Ok(KeyDraft { spec, recency: stamp.field(), value, shared, heap, is_empty: true })
    }

    /// Name and attributes.
    #[must_use]
    pub fn spec(&self) -> &KeySpec {
        &self.spec
    }

    /// Its database.
    #[must_use]
    pub fn database(&self) -> usize {
        self.spec.database
    }

    /// Its slot and hash.
    #[must_use]
    pub fn key_hash(&self) -> KeyHash {
        self.spec.key_hash
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
    /// [`DraftError::Malformed`].
    pub fn take(&mut self, item: Item<'_>) -> Result<(), DraftError> {
        self.is_empty = false;
        match &mut self.value {
            Value::String(entry) => {
                let Item::String(text) = item else { return Err(DraftError::Malformed) };
                let spec = EntrySpec {
                    key: &self.spec.name,
                    kind: Kind::String,
                    encoding: encoding_of(&self.spec.name, text, false),
                    expires_at_ms: self.spec.expires_at_ms,
                    recency: self.recency,
                    value: NewValue::String(text),
                };
                *entry = Some(OwnedEntry::new(spec, self.heap));
                Ok(())
            }
            Value::List(list) => list.take(item),
            Value::Hash(hash) => hash.take(item),
            Value::Set(set) => set.take(item),
            Value::SortedSet(set) => set.take(item),
            Value::Stream(stream) => stream.take(item),
        }
    }

    /// Puts the key into the keyspace; sinks are told nothing. Gives it back when its slot is
    /// locked: a client may watch keys at this moment.
    ///
    /// # Errors
    ///
    /// [`DraftError::Duplicate`]; [`DraftError::Malformed`] for a value without elements.
    pub fn put(
        self,
        present: Present,
        section: Section<'_>,
    ) -> Result<Option<KeyDraft<'h>>, (Box<KeySpec>, DraftError)> {
        let key_hash = self.spec.key_hash;
        let Some(mut lock) = self.shared.keyspace.try_lock(key_hash.slot) else {
            return Ok(Some(self));
        };
        let lock = &mut lock;
        let KeyDraft { spec, recency, value, shared, heap, .. } = self;
        let (database, hash) = (spec.database, key_hash.hash);
        if let Some(found) = lock.find(database, key_hash, &spec.name, section) {
            if present != Present::Replaced {
                if let Value::String(Some(entry)) = value {
                    entry.discard(heap);
                }
                return Err((Box::new(spec), DraftError::Duplicate));
            }
            lock.remove(database, hash, found, Disposal::RetireValue, section, heap);
        }
        let put = match value {
            Value::String(None) => Err(DraftError::Malformed),
            Value::String(Some(entry)) => {
                lock.insert(database, hash, entry, section, heap);
                Ok(())
            }
            Value::List(list) => list.put((&spec, recency), hash, lock, section, heap),
            Value::Hash(hash_value) => {
                if hash_value.draft.has_expiries() {
                    shared.note_expiring_field();
                }
                hash_value.put((&spec, recency), hash, lock, section, heap)
            }
            Value::Set(set) => set.put((&spec, recency), hash, lock, section, heap),
            Value::SortedSet(set) => set.put((&spec, recency), hash, lock, section, heap),
            Value::Stream(stream) => stream.put((&spec, recency), hash, lock, section, heap),
        };
        put.map(|()| None).map_err(|error| (Box::new(spec), error))
    }
}
