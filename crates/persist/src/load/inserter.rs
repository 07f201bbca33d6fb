//! Insertion of keys whose parts arrive in their order.

use std::thread;

use tidemill_engine::shared::Shared;
use tidemill_engine::stored::{CollectionDraft, KeyDraft, KeySpec, RefusedKey};
use tidemill_rcu::{Budget, Flavour};
use tidemill_rdb::value::Item;
use tidemill_store::{Heap, Member};

use super::batch::{Batch, KeyAttributes, Step};
use super::{LoadFault, LoadRules, Loaded};
use crate::limits::{EMPTY_KEYS_LOGGED, PUT_KEYS, SLOT_PAUSE};

impl KeyAttributes {
    fn spec(self) -> KeySpec {
        let KeyAttributes { database, key_hash, encoding, expires_at_ms, idle_s, frequency } = self;
        let idle_s = idle_s.unwrap_or(0);
        KeySpec { database, key_hash, stored: encoding, expires_at_ms, idle_s, frequency }
    }
}

/// Keys of one thread on their way into the keyspace. Whole ones are put some at a time, so that
/// their cache misses overlap and the gate is entered once for all.
pub(super) struct Inserter<'l, F: Flavour> {
    shared: &'l Shared,
    pub(super) member: &'l mut Member<F>,
    heap: &'l Heap,
    rules: LoadRules<'l>,
    /// The collection whose elements arrive.
    draft: Option<Box<CollectionDraft<'l>>>,
    whole: Vec<KeyDraft<'l>>,
    /// Offset up to which the file had been read for what is inserted.
    pub(super) before_offset: u64,
    pub(super) loaded: Loaded,
    /// Live bytes of the heap that are counted.
    published_bytes: i64,
}

impl<'l, F: Flavour> Inserter<'l, F> {
    pub(super) fn new(
        shared: &'l Shared,
        member: &'l mut Member<F>,
        heap: &'l Heap,
        rules: LoadRules<'l>,
    ) -> Inserter<'l, F> {
        Inserter {
            shared,
            member,
            heap,
            rules,
            draft: None,
            whole: Vec::with_capacity(PUT_KEYS),
            before_offset: 0,
            loaded: Loaded::default(),
            published_bytes: heap.live_bytes(),
        }
    }

    /// Inserts what a batch has.
    pub(super) fn insert(&mut self, batch: &Batch) -> Result<(), LoadFault> {
        self.before_offset = batch.before_offset;
        for step in batch.steps() {
            match step {
                Step::String(attributes, name, text) => self.string(attributes, name, text)?,
                Step::Key(attributes, name) => self.begin(attributes, name),
                Step::Item(item) => self.item(item)?,
                Step::End => self.end()?,
            }
        }
        self.publish();
        Ok(())
    }

    fn string(
        &mut self,
        attributes: KeyAttributes,
        name: &[u8],
        text: &[u8],
    ) -> Result<(), LoadFault> {
        let LoadRules { clock, settings, .. } = self.rules;
        let spec = attributes.spec();
        self.add(KeyDraft::string(spec, name, text, settings, clock, self.heap))
    }

    /// Begins a collection.
    pub(super) fn begin(&mut self, attributes: KeyAttributes, name: &[u8]) {
        let LoadRules { clock, settings, .. } = self.rules;
        let place = (self.shared, self.heap);
        self.draft = CollectionDraft::new(attributes.spec(), name.to_vec(), settings, clock, place);
    }

    pub(super) fn item(&mut self, item: Item<'_>) -> Result<(), LoadFault> {
        let Some(draft) = &mut self.draft else { return Ok(()) };
        if let Item::HashField { expires_at_ms: Some(at_ms), .. } = item
            && !self.rules.keeps_expired
        {
            let clock = self.rules.clock;
            let at_ms = clock.expiry_at(at_ms as i64);
            if at_ms.is_some_and(|at_ms| clock.has_passed(at_ms)) {
                return Ok(());
            }
        }
        let before_offset = self.before_offset;
        draft.take(item).map_err(|error| LoadFault::Key {
            name: draft.name().to_vec(),
            database: draft.database(),
            before_offset,
            error,
        })
    }

    pub(super) fn end(&mut self) -> Result<(), LoadFault> {
        let Some(draft) = self.draft.take() else { return Ok(()) };
        if draft.is_empty() {
            let name = draft.name().escape_ascii();
            if self.loaded.empty_keys < EMPTY_KEYS_LOGGED {
                log::info!("Loading RDB: skipping empty key: {name}");
            }
            self.loaded.empty_keys += 1;
            return Ok(());
        }
        self.add(draft.into())
    }

    fn add(&mut self, key: KeyDraft<'l>) -> Result<(), LoadFault> {
        self.whole.push(key);
        if self.whole.len() < PUT_KEYS { Ok(()) } else { self.put() }
    }

    /// Puts all whole keys into the keyspace.
    pub(super) fn put(&mut self) -> Result<(), LoadFault> {
        let (shared, heap) = (self.shared, self.heap);
        let keyspace = &shared.keyspace;
        while !self.whole.is_empty() {
            let mut drafts = std::mem::take(&mut self.whole);
            let present = self.rules.present;
            let (before_offset, whole, loaded) =
                (self.before_offset, &mut self.whole, &mut self.loaded);
            self.member.inside(|member| {
                let guard = member.enter();
                let section = guard.section();
                let places = || drafts.iter().map(|draft| (draft.database(), draft.key_hash()));
                for (database, key_hash) in places() {
                    keyspace.prefetch_word(key_hash.slot);
                    keyspace.prefetch_table(database, key_hash.slot, section);
                }
                for (database, key_hash) in places() {
                    keyspace.prefetch_buckets(database, std::iter::once(key_hash), section);
                }
                let mut rest = drafts.drain(..);
                while let Some(draft) = rest.next() {
                    match draft.put(present, shared, section, heap) {
                        Ok(None) => loaded.keys += 1,
                        Ok(Some(waiting)) => whole.push(waiting),
                        Err(refused) => {
                            rest.for_each(|draft| draft.discard(heap));
                            return Err(fault(*refused, before_offset));
                        }
                    }
                }
                drop(rest);
                Ok(())
            })?;
            if whole.is_empty() {
                // Its memory is of use again.
                *whole = drafts;
                return Ok(());
            }
            // Outside of the gate, for the owner of the slot may wait for it.
            self.member.offline(|| thread::sleep(SLOT_PAUSE));
        }
        Ok(())
    }

    /// Counts the memory that was taken, and frees what was retired.
    fn publish(&mut self) {
        let live_bytes = self.heap.live_bytes();
        self.shared.add_live_bytes(live_bytes - self.published_bytes);
        self.published_bytes = live_bytes;
        self.member.quiescent();
        self.heap.retired().reclaim(self.member.domain(), Budget::UNLIMITED);
    }
}

impl<F: Flavour> Drop for Inserter<'_, F> {
    /// Keys that were put before a fault stay in the keyspace, and count.
    fn drop(&mut self) {
        self.draft = None;
        self.whole.drain(..).for_each(|draft| draft.discard(self.heap));
        self.publish();
    }
}

fn fault(RefusedKey { name, database, error }: RefusedKey, before_offset: u64) -> LoadFault {
    LoadFault::Key { name, database, before_offset, error }
}
