//! The parser of a file, and the threads that insert what it finds.
//!
//! ```text
//! file ─ chunks ─▶ parser ─┬─ batches ─▶ inserter 0: slots 0, 2, 4 ...
//!                          ├─ batches ─▶ inserter 1: slots 1, 3, 5 ...
//!                          └─ streams, and batches for which a queue has no room:
//!                             by the parser itself
//! ```
//!
//! A key goes to the inserter of its slot, so no two of them want one lock. Inserting takes more
//! time than parsing: where the inserters are few, the parser helps them instead of waiting.
//!
//! The queues between are bounded: memory besides the data is a few batches per inserter, whatever
//! the file holds, but for a string that is larger than a batch, and for the elements of a
//! collection that are gathered before its tree is built, 32 MiB at most.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, SyncSender, TrySendError, channel, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, Scope};

use tidemill_engine::execute::restore_libraries;
use tidemill_engine::saving::Present;
use tidemill_engine::script::{Policy, RestoreError};
use tidemill_engine::shared::Shared;
use tidemill_rcu::{Domain, Flavour, Limits};
use tidemill_rdb::file::Event;
use tidemill_rdb::value::{Item, ValueEncoding, ValueType};

use super::batch::{Batch, KeyAttributes};
use super::inserter::Inserter;
use super::{LoadFault, LoadRules, Loaded, join};
use crate::limits::{BATCHES_QUEUED, LARGE_ITEM_BYTES};
use crate::test_delay::delay;

/// Outcome of the inserters.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    /// First fault.
    fault: Mutex<Option<LoadFault>>,
    has_failed: AtomicBool,
    /// Sum of what they counted.
    loaded: Mutex<Loaded>,
}

impl Outcome {
    fn fail(&self, fault: LoadFault) {
        let mut first = self.fault.lock().unwrap_or_else(PoisonError::into_inner);
        first.get_or_insert(fault);
        // Relaxed: a hint; the fault is behind its mutex.
        self.has_failed.store(true, Ordering::Relaxed);
    }

    /// The first fault, if there was one.
    pub(super) fn take_fault(&self) -> Option<LoadFault> {
        self.fault.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    pub(super) fn loaded(&self) -> Loaded {
        *self.loaded.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, counts: Loaded) {
        let mut loaded = self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        loaded.keys += counts.keys;
        loaded.empty_keys += counts.empty_keys;
    }
}

/// Way to one inserter.
struct Lane {
    batch: Batch,
    full: SyncSender<Batch>,
    /// Batches that come back.
    empty: Receiver<Batch>,
}

/// Inserter of the key whose value arrives.
#[derive(Clone, Copy, Debug)]
enum Target {
    /// None: the key has expired.
    Nobody,
    /// That of a lane, for a string.
    String(usize),
    /// That of a lane, for a collection.
    Lane(usize),
    /// The parser.
    Own,
}

/// Parser of a file.
pub(super) struct Parser<'l, F: Flavour> {
    shared: &'l Shared,
    rules: LoadRules<'l>,
    outcome: &'l Outcome,
    pub(super) own: Inserter<'l, F>,
    lanes: Vec<Lane>,
    target: Target,
    database: usize,
    /// Counts of the parser; keys are those that were handed over.
    pub(super) loaded: Loaded,
    pub(super) key_delay_us: i64,
    /// Sources of libraries of functions.
    libraries: Vec<Vec<u8>>,
}

impl<'l, F: Flavour> Parser<'l, F> {
    /// A parser with that number of inserters, whose threads end when it is dropped.
    ///
    /// # Errors
    ///
    /// [`LoadFault::Threads`].
    pub(super) fn new<'s>(
        scope: &'s Scope<'s, 'l>,
        (shared, domain): (&'l Shared, &'l Arc<Domain<F>>),
        rules: LoadRules<'l>,
        inserter_count: usize,
        own: Inserter<'l, F>,
        outcome: &'l Outcome,
    ) -> Result<Parser<'l, F>, LoadFault> {
        let lanes = (0..inserter_count).map(|index| {
            let (full, batches) = sync_channel(BATCHES_QUEUED);
            let (back, empty) = channel();
            let body = move || insert_all((shared, domain), rules, outcome, &batches, &back);
            let name = format!("load-{index}");
            thread::Builder::new().name(name).spawn_scoped(scope, body)?;
            Ok(Lane { batch: Batch::default(), full, empty })
        });
        let lanes: std::io::Result<Vec<Lane>> = lanes.collect();
        Ok(Parser {
            shared,
            rules,
            outcome,
            own,
            lanes: lanes.map_err(LoadFault::Threads)?,
            target: Target::Nobody,
            database: 0,
            loaded: Loaded::default(),
            key_delay_us: 0,
            libraries: Vec::new(),
        })
    }

    pub(super) fn rules(&self) -> LoadRules<'l> {
        self.rules
    }

    /// Ok while there is a reason to go on.
    pub(super) fn check(&self) -> Result<(), LoadFault> {
        if self.shared.loading.is_stopped() {
            return Err(LoadFault::Stopped);
        }
        // Relaxed: see `Outcome::fail`.
        match self.outcome.has_failed.load(Ordering::Relaxed) {
            true => Err(self.fault()),
            false => Ok(()),
        }
    }

    pub(super) fn take(&mut self, event: Event<'_>) -> Result<(), LoadFault> {
        match event {
            Event::Database(number) => {
                let count = self.shared.keyspace.database_count();
                match usize::try_from(number).ok().filter(|&database| database < count) {
                    Some(database) => self.database = database,
                    None => return Err(LoadFault::Database { number, count }),
                }
            }
            Event::Key { name, encoding, expires_at_ms, idle_s, frequency } => {
                return self.begin(name, encoding, expires_at_ms, (idle_s, frequency));
            }
            Event::Item(item) => return self.item(item),
            Event::KeyEnd => return self.end(),
            Event::Functions(source) => {
                self.libraries.push(source.to_vec());
                self.loaded.libraries += 1;
            }
            Event::ModuleData(_) => self.loaded.module_parts += 1,
            Event::Version(_)
            | Event::Aux { .. }
            | Event::Sizes { .. }
            | Event::SlotSizes { .. }
            | Event::SlotImport(_)
            | Event::SlotRange(..) => {}
        }
        Ok(())
    }

    fn begin(
        &mut self,
        name: &[u8],
        encoding: ValueEncoding,
        expires_at_ms: Option<i64>,
        (idle_s, frequency): (Option<u64>, Option<u8>),
    ) -> Result<(), LoadFault> {
        let clock = self.rules.clock;
        let expires_at_ms = expires_at_ms.map(|at_ms| clock.expiry_at(at_ms).unwrap_or(u64::MAX));
        self.target = Target::Nobody;
        let has_expired = expires_at_ms.is_some_and(|at_ms| clock.has_passed(at_ms));
        if has_expired && !self.rules.keeps_expired {
            self.loaded.expired_keys += 1;
            return Ok(());
        }
        self.loaded.keys += 1;
        let key_hash = self.shared.keyspace.key_hash(name);
        let database = self.database;
        let attributes =
            KeyAttributes { database, key_hash, encoding, expires_at_ms, idle_s, frequency };
        let index = key_hash.slot.index() % self.lanes.len();
        let batch = &mut self.lanes[index].batch;
        let pushed = match encoding.value_type() {
            ValueType::Stream => {
                self.target = Target::Own;
                self.own.before_offset = self.loaded.bytes;
                self.own.begin(attributes, name);
                return Ok(());
            }
            ValueType::String => {
                self.target = Target::String(index);
                batch.push_name(attributes, name)
            }
            _ => {
                self.target = Target::Lane(index);
                batch.push_key(attributes, name)
            }
        };
        pushed.map_err(|_| LoadFault::NoMemory { bytes: name.len() })
    }

    fn item(&mut self, item: Item<'_>) -> Result<(), LoadFault> {
        match (self.target, item) {
            (Target::Nobody, _) => Ok(()),
            (Target::Own, item) => self.own.item(item),
            (Target::String(index), Item::String(text)) => self.text(index, text),
            (Target::Lane(index) | Target::String(index), item) => {
                let pushed = self.lanes[index].batch.push_item(&item);
                pushed.map_err(|_| LoadFault::NoMemory { bytes: 0 })?;
                self.send_if(index, Batch::is_full)
            }
        }
    }

    fn text(&mut self, index: usize, text: &[u8]) -> Result<(), LoadFault> {
        let bytes = text.len();
        // Once in the batch, and once in the keyspace.
        if bytes >= LARGE_ITEM_BYTES && !self.shared.host.has_room(bytes.saturating_mul(2)) {
            return Err(LoadFault::NoMemory { bytes });
        }
        let pushed = self.lanes[index].batch.push_text(text);
        pushed.map_err(|_| LoadFault::NoMemory { bytes })
    }

    fn end(&mut self) -> Result<(), LoadFault> {
        if self.key_delay_us != 0 {
            let key_delay_us = self.key_delay_us;
            let loading = &self.shared.loading;
            self.own.member.offline(|| delay(key_delay_us, || loading.is_stopped()));
            self.check()?;
        }
        match self.target {
            Target::Nobody => Ok(()),
            Target::Own => self.own.end(),
            Target::String(index) => self.send_if(index, Batch::is_full),
            Target::Lane(index) => {
                let pushed = self.lanes[index].batch.push_end();
                pushed.map_err(|_| LoadFault::NoMemory { bytes: 0 })?;
                self.send_if(index, Batch::is_full)
            }
        }
    }

    /// Hands the batch of an inserter over if it is to be. While its queue is full, this thread
    /// inserts a batch of whole keys itself, and waits with another one.
    fn send_if(&mut self, index: usize, is_due: fn(&Batch) -> bool) -> Result<(), LoadFault> {
        let lane = &mut self.lanes[index];
        if !is_due(&lane.batch) {
            return Ok(());
        }
        lane.batch.before_offset = self.loaded.bytes;
        let mut batch = match lane.full.try_send(std::mem::take(&mut lane.batch)) {
            Ok(()) => {
                lane.batch = lane.empty.try_recv().unwrap_or_default();
                return Ok(());
            }
            Err(TrySendError::Disconnected(_)) => return Err(self.fault()),
            Err(TrySendError::Full(batch)) => batch,
        };
        // Keys of one name stay in their order where the last one counts.
        if batch.is_whole() && self.rules.present != Present::Replaced {
            self.own.insert(&batch)?;
            batch.clear();
            self.lanes[index].batch = batch;
            return Ok(());
        }
        let lane = &mut self.lanes[index];
        let sent = self.own.member.offline(|| lane.full.send(batch));
        lane.batch = lane.empty.try_recv().unwrap_or_default();
        sent.map_err(|_| self.fault())
    }

    /// Fault of an inserter that is gone.
    fn fault(&self) -> LoadFault {
        self.outcome.take_fault().unwrap_or(LoadFault::Stopped)
    }

    /// Hands over all that is left.
    pub(super) fn finish(&mut self) -> Result<(), LoadFault> {
        (0..self.lanes.len())
            .try_for_each(|index| self.send_if(index, |batch| !batch.is_empty()))?;
        self.own.put()?;
        let policy = match self.rules.present {
            Present::Removed => Policy::Flush,
            Present::Kept => Policy::Append,
            Present::Replaced => Policy::Replace,
        };
        let sources = self.libraries.iter().map(|source| &source[..]);
        restore_libraries(self.shared, sources, policy).map_err(|error| match error {
            RestoreError::Library(text) => LoadFault::Library(text),
            RestoreError::Payload => LoadFault::Library(b"no payload".to_vec()),
        })?;
        // Those of its own are counted as handed over.
        self.outcome.add(self.own.loaded);
        Ok(())
    }

    /// Lets the inserters end once they have inserted what they were given.
    pub(super) fn close(&mut self) {
        self.lanes.clear();
    }
}

/// Body of an inserter's thread: inserts what comes until the parser is gone, or a fault.
fn insert_all<F: Flavour>(
    (shared, domain): (&Shared, &Arc<Domain<F>>),
    rules: LoadRules<'_>,
    outcome: &Outcome,
    batches: &Receiver<Batch>,
    back: &Sender<Batch>,
) {
    let mut member = match join(shared, domain) {
        Ok(member) => member,
        Err(fault) => return outcome.fail(fault),
    };
    let heap = member.heap(Limits::default());
    let mut inserter = Inserter::new(shared, &mut member, &heap, rules);
    while let Ok(mut batch) = inserter.member.offline(|| batches.recv()) {
        let inserted = inserter.insert(&batch);
        if let Err(fault) = inserted {
            return outcome.fail(fault);
        }
        batch.clear();
        // The parser may be gone already.
        let _ = back.send(batch);
    }
    match inserter.put() {
        Ok(()) => outcome.add(inserter.loaded),
        Err(fault) => outcome.fail(fault),
    }
}
