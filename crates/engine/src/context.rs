//! What a handler works with.
//!
//! A keyed handler gets a [`Cx`]: it reads through [`Cx::read`] and writes through [`Cx::edit`], and does not know whether
//! it runs without a lock, under one, in a transaction, or in the place of a client that was blocked. Expiry happens in
//! here, memory limits before, never in handlers.

use std::cell::Cell;
use std::sync::Arc;

use smallvec::SmallVec;
use tidemill_resp::encode::{Protocol, ReplyBuffer};
use tidemill_resp::request::ArgumentView;
use tidemill_store::gate::ClosedGate;
use tidemill_store::value::hash::{Hash, HashEdit};
use tidemill_store::value::list::{List, ListEdit};
use tidemill_store::value::text::TextEdit;
use tidemill_store::word::Word;
use tidemill_store::{
    Disposal, Editing, Encoding, EntryRef, EntrySpec, Found, KeyHash, Kind, NewValue, OwnedEntry,
    Place, Published, Section, SlotNumber, StringValue, TreeSpec,
};

use crate::command::{Command, Stop};
use crate::commit::{Event, EventClass};
use crate::error::CommandError;
use crate::expiry::ExpiryClock;
use crate::found_keys::FoundKeys;
use crate::known_keys::KnownKeys;
use crate::locks::LockSet;
use crate::long_reply::LongReply;
use crate::ready::ReadyKey;
use crate::section::ReadSide;
use crate::session::Session;
use crate::shared::Shared;
use crate::worker::{ExpiredKey, Worker};

/// A lookup without a lock: the slot's word before it, and whether there was an entry.
///
/// Slot and hit share a word: small fields that are written one by one and then copied together hold the processor up.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen {
    before: Word,
    slot_and_hit: u64,
}

impl Seen {
    #[inline(always)]
    fn new(slot: SlotNumber, before: Word, is_hit: bool) -> Seen {
        Seen { before, slot_and_hit: (slot.index() as u64) << 1 | u64::from(is_hit) }
    }

    #[inline(always)]
    fn slot(&self) -> SlotNumber {
        SlotNumber::from_index((self.slot_and_hit >> 1) as usize).expect("it was one before")
    }

    #[inline(always)]
    fn is_hit(&self) -> bool {
        self.slot_and_hit & 1 == 1
    }
}

/// All lookups of a command that reads without locks; nearly all make one.
#[derive(Debug)]
pub(crate) enum Sightings {
    None,
    One(Seen),
    Several(Vec<Seen>),
}

impl Sightings {
    #[inline(always)]
    fn push(&mut self, seen: Seen) {
        match self {
            Sightings::None => *self = Sightings::One(seen),
            _ => self.push_another(seen),
        }
    }

    /// The lookups of a slot do not count: the command has to run again.
    #[cold]
    fn spoil(&mut self, slot: SlotNumber) {
        let of_slot = |seen: &mut Seen| {
            if seen.slot() == slot {
                seen.before = Word::of_vain_lookup();
            }
        };
        match self {
            Sightings::None => {}
            Sightings::One(seen) => of_slot(seen),
            Sightings::Several(all) => all.iter_mut().for_each(of_slot),
        }
    }

    /// The word of a slot as it was loaded before the last lookup in it.
    fn word_before(&self, slot: SlotNumber) -> Option<Word> {
        let all = match self {
            Sightings::None => &[],
            Sightings::One(seen) => std::slice::from_ref(seen),
            Sightings::Several(all) => all,
        };
        all.iter().rev().find(|seen| seen.slot() == slot).map(|seen| seen.before)
    }

    fn push_another(&mut self, seen: Seen) {
        let mut all = match std::mem::replace(self, Sightings::None) {
            Sightings::None => Vec::new(),
            Sightings::One(first) => vec![first],
            Sightings::Several(all) => all,
        };
        all.push(seen);
        *self = Sightings::Several(all);
    }
}

/// What a command that reads without locks has found.
#[derive(Debug)]
pub(crate) struct Lookups {
    seen: Sightings,
    /// The time by which expiries are judged, once one was.
    clock: Cell<Option<ExpiryClock>>,
}

impl Lookups {
    /// A slot that changed or is held since a lookup in it.
    #[inline(always)]
    fn stale_slot(&self, shared: &Shared) -> Option<SlotNumber> {
        let now = |seen: &Seen| shared.keyspace.word(seen.slot()).load_after();
        let changed = match &self.seen {
            Sightings::None => None,
            Sightings::One(seen) if seen.is_hit() => {
                (!seen.before.confirms_hit(now(seen))).then_some(seen)
            }
            Sightings::One(seen) => (!seen.before.is_unchanged(now(seen))).then_some(seen),
            Sightings::Several(all) if self.is_outdated(shared) => all.first(),
            Sightings::Several(all) => all.iter().find(|seen| !seen.before.is_unchanged(now(seen))),
        };
        changed.map(Seen::slot)
    }

    /// Whether something may have expired for everybody since it was found alive. A read of several keys takes effect where
    /// this looks: behind the last lookup and before the words are loaded again. One key was alive when it was judged.
    fn is_outdated(&self, shared: &Shared) -> bool {
        self.clock.get().is_some_and(|clock| clock.is_behind(shared))
    }
}

/// How a handler may reach keys.
#[derive(Debug)]
pub(crate) enum Access<'k, 'g> {
    /// Reading without locks; what was seen is checked afterwards.
    Optimistic(Lookups),
    /// Under the locks of all its keys' slots.
    Locked(LockSet<'k>),
    /// Reading what was found under those locks, which were given back.
    Found(FoundKeys<'g>),
}

impl Access<'_, '_> {
    /// Without locks, and nothing looked up yet.
    #[inline(always)]
    pub(crate) fn optimistic() -> Self {
        Access::Optimistic(Lookups { seen: Sightings::None, clock: Cell::new(None) })
    }
}

/// Whether what an optimistic handler saw counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Valid,
    /// It does not; this slot changed or is held.
    Stale(SlotNumber),
}

/// What a keyed handler works with.
#[derive(Debug)]
pub struct Cx<'k: 'g, 'g> {
    /// The command's name and arguments.
    pub args: &'g ArgumentView<'g>,
    /// Where the reply goes.
    pub reply: &'g mut ReplyBuffer,
    /// The worker that runs the command.
    pub worker: &'g mut Worker,
    /// The server.
    pub shared: &'k Shared,
    /// The selected database.
    pub database: usize,
    pub(crate) section: Section<'g>,
    pub(crate) access: Access<'k, 'g>,
    /// The keys whose hashes were computed before.
    pub(crate) known: KnownKeys<'g>,
    /// Whether reads count as uses of the key.
    pub(crate) touch: bool,
    /// Whether the command may wait for its keys.
    pub(crate) may_block: bool,
    /// Where the rest of a reply is left that is made in pieces; none when it is to be made at once.
    pub(crate) rest: Option<&'g mut Option<Box<LongReply>>>,
    /// The key that became ready, when the command runs in the place of a blocked client.
    pub(crate) ready_key: Option<&'g [u8]>,
    /// How the command was called; for commands that answer to several names.
    pub command: &'static Command,
}

impl<'k: 'g, 'g> Cx<'k, 'g> {
    /// The argument at `index`; 0 is the command's name.
    ///
    /// # Panics
    ///
    /// When there is no such argument; the arity is checked before a handler runs.
    #[must_use]
    #[inline]
    pub fn arg(&self, index: usize) -> &'g [u8] {
        self.args.get(index)
    }

    /// The time by which expiries are judged and from which new ones are counted: one moment for the whole command,
    /// transaction or script. To be asked only for what expires: under locks, the first time costs a full fence.
    #[must_use]
    pub fn clock(&self) -> ExpiryClock {
        match &self.access {
            Access::Locked(locks) => locks.expiry_clock(self.shared, self.worker),
            Access::Found(found) => found.clock(),
            Access::Optimistic(lookups) => lookups.clock.get().unwrap_or_else(|| {
                let clock = self.shared.expiry_clock(self.worker);
                lookups.clock.set(Some(clock));
                clock
            }),
        }
    }

    /// As [`Cx::clock`]: Unix time in milliseconds.
    #[must_use]
    pub fn now_ms(&self) -> u64 {
        self.clock().now_ms()
    }

    /// What the client speaks.
    #[must_use]
    pub fn protocol(&self) -> Protocol {
        self.reply.protocol()
    }

    #[inline(always)]
    pub(crate) fn key_hash(&mut self, key: &[u8]) -> KeyHash {
        match self.known {
            KnownKeys::One(known, hash) if std::ptr::eq(known, key) => hash,
            _ => self.other_key_hash(key),
        }
    }

    #[inline(never)]
    fn other_key_hash(&mut self, key: &[u8]) -> KeyHash {
        let known = match &mut self.known {
            KnownKeys::None | KnownKeys::One(..) => None,
            KnownKeys::Several(keys) => keys.find(key, self.shared, self.database, self.section),
        };
        known.unwrap_or_else(|| self.shared.keyspace.key_hash(key))
    }

    #[inline]
    fn is_expired(&self, entry: EntryRef<'_>) -> bool {
        entry.expires_at_ms().is_some_and(|at_ms| self.clock().has_passed(at_ms))
    }

    /// Notes that something in a slot was found expired that expires at `at_ms` at the latest: it stays so for everybody.
    /// Tells whether the finding counts; if not, the command runs again.
    #[cold]
    pub(crate) fn found_expired(&mut self, slot: SlotNumber, at_ms: u64) -> bool {
        match &mut self.access {
            // What was found was judged under the locks, and has no fields that expire.
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

    /// The entry of a key, if the key exists and has not expired. Counts as a use of the key and as a hit or miss.
    #[inline]
    pub fn read(&mut self, key: &[u8]) -> Option<EntryRef<'g>> {
        self.read_in(self.database, key)
    }

    /// As [`Cx::read`], in another database.
    #[inline(always)]
    pub fn read_in(&mut self, database: usize, key: &[u8]) -> Option<EntryRef<'g>> {
        let entry = self.peek_in(database, key);
        self.count_lookup(entry.is_some());
        if let Some(entry) = entry {
            self.touch(entry);
        }
        entry
    }

    /// As [`Cx::read`], without counting as a use of the key.
    pub(crate) fn look(&mut self, key: &[u8]) -> Option<EntryRef<'g>> {
        let entry = self.peek(key);
        self.count_lookup(entry.is_some());
        entry
    }

    #[inline(always)]
    fn count_lookup(&self, is_hit: bool) {
        let stats = self.worker.stats(self.shared);
        if is_hit { &stats.keyspace_hits } else { &stats.keyspace_misses }.add(1);
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
                lookups.seen.push(Seen::new(key_hash.slot, before, entry.is_some()));
                entry
            }
        }?;
        if self.is_expired(entry) {
            self.note_expired(database, entry, key_hash);
            return None;
        }
        Some(entry)
    }

    /// Notes that an entry was used.
    #[inline]
    pub fn touch(&self, entry: EntryRef<'_>) {
        let now = self.worker.recency();
        // Stored only when the second changed, so that readers of a hot key share its line.
        if self.touch && entry.recency() != now {
            entry.set_recency(now);
        }
    }

    #[cold]
    fn note_expired(&mut self, database: usize, entry: EntryRef<'_>, key_hash: KeyHash) {
        let at_ms = entry.expires_at_ms().expect("an expired entry has an expiry");
        if self.found_expired(key_hash.slot, at_ms) {
            self.worker.expired.push(ExpiredKey { database, key: entry.key().into(), key_hash });
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

    /// The list under a key.
    ///
    /// # Errors
    ///
    /// [`CommandError::WrongType`] when it is no list.
    pub fn read_list(&mut self, key: &[u8]) -> Result<Option<List<'g>>, CommandError> {
        Ok(self.read_kind(key, Kind::List)?.and_then(EntryRef::list))
    }

    /// The hash under a key.
    ///
    /// # Errors
    ///
    /// [`CommandError::WrongType`] when it is no hash.
    pub fn read_hash(&mut self, key: &[u8]) -> Result<Option<Hash<'g>>, CommandError> {
        let entry = self.read_kind(key, Kind::Hash)?;
        Ok(entry.and_then(|entry| entry.hash(self.shared.keyspace.seed())))
    }

    /// The hash under a key, without counting as a use, a hit or a miss.
    ///
    /// # Errors
    ///
    /// [`CommandError::WrongType`] when it is no hash.
    pub fn peek_hash(&mut self, key: &[u8]) -> Result<Option<Hash<'g>>, CommandError> {
        match self.peek(key) {
            Some(entry) if entry.kind() != Kind::Hash => Err(CommandError::WrongType),
            found => Ok(found.and_then(|entry| entry.hash(self.shared.keyspace.seed()))),
        }
    }

    /// Gets hold of a key that the arguments do not name, before it is read: where locks are held, its slot is locked too.
    ///
    /// # Errors
    ///
    /// [`Stop::Wait`] when it is taken. The command must not have changed anything yet.
    pub fn meet(&mut self, key: &[u8]) -> Result<(), Box<Stop>> {
        match &mut self.access {
            Access::Optimistic(_) => Ok(()),
            Access::Found(_) => Err(Box::new(Stop::NeedLocks)),
            Access::Locked(locks) => {
                locks.add(self.shared, SlotNumber::of_key(key)).map_err(Stop::wait)
            }
        }
    }

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
        let found = self.locks(key_hash.slot).find(database, key_hash, key);
        let mut edit = Edit { cx: self, database, key, key_hash, found };
        if edit.found.is_some_and(|found| edit.cx.is_expired(found.entry)) {
            edit.expire();
        }
        edit
    }

    /// Marks the locked slots held: what follows is one change to readers, however often it publishes.
    pub(crate) fn mark_held(&mut self) {
        if let Access::Locked(locks) = &mut self.access {
            locks.mark_held();
        }
    }

    fn locks(&mut self, slot: SlotNumber) -> Locked<'_, 'k, 'g> {
        Locked { section: self.section, access: &mut self.access, slot }
    }

    /// Writes a keyspace event of a key whose slot is locked.
    pub fn event(&self, database: usize, key: &[u8], event: Event) {
        if let Some(events) = &self.shared.sinks.events {
            events.event(database, key, event);
        }
    }

    /// The command's effect for the journal is this, not the command as it came. May be called several times.
    pub fn propagate<'b>(&mut self, arguments: impl IntoIterator<Item = &'b [u8]>) {
        if self.shared.sinks.journal.is_some() {
            self.worker.effects.push(self.database, arguments);
        }
    }

    /// Whether anybody reads the journal: what only [`Cx::propagate`] needs may be left out otherwise.
    #[must_use]
    pub fn is_journaled(&self) -> bool {
        self.shared.sinks.journal.is_some()
    }

    /// The command leaves nothing in the journal, although it changed something.
    pub fn propagate_nothing(&mut self) {
        self.worker.effects.suppress();
    }

    /// The keys that a blocking command looks at, of the arguments from `first` to before `end`: all of them, or in the
    /// place of a blocked client those up to the one that became ready.
    pub fn candidate_keys(&self, first: usize, end: usize) -> SmallVec<[&'g [u8]; 2]> {
        let keys = (first..end).map(|index| self.args.get(index));
        match self.ready_key {
            Some(ready) => keys.clone().take_while(|&key| key != ready).chain([ready]).collect(),
            None => keys.collect(),
        }
    }

    /// Whether the command may wait for its keys; in a transaction it may not and answers null at once.
    #[must_use]
    pub fn may_block(&self) -> bool {
        self.may_block
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
}

/// The lock of one slot within a context's access.
struct Locked<'c, 'k: 'g, 'g> {
    section: Section<'g>,
    access: &'c mut Access<'k, 'g>,
    slot: SlotNumber,
}

impl<'c, 'k: 'g, 'g> Locked<'c, 'k, 'g> {
    fn find(self, database: usize, key_hash: KeyHash, key: &[u8]) -> Option<Found<'g>> {
        let section = self.section;
        self.lock().find(database, key_hash, key, section)
    }

    fn lock(self) -> &'c mut tidemill_store::SlotLock<'k, crate::side::Side> {
        match self.access {
            Access::Locked(locks) => {
                locks.lock(self.slot).expect("a write command declares all keys that it edits")
            }
            Access::Optimistic(_) | Access::Found(_) => {
                panic!("a command that edits is declared as a write")
            }
        }
    }
}

/// What a key is about to become.
#[derive(Debug)]
pub struct NewEntry<'v> {
    /// Its type.
    pub kind: Kind,
    /// What `OBJECT ENCODING` will answer.
    pub encoding: Encoding,
    /// Unix time in milliseconds at which it expires.
    pub expires_at_ms: Option<u64>,
    /// Its value.
    pub value: NewValue<'v>,
}

/// A change of one key, under its slot's lock. Each change ends in the sinks: watchers, events, waiters.
#[derive(Debug)]
pub struct Edit<'c, 'k: 'g, 'g> {
    cx: &'c mut Cx<'k, 'g>,
    database: usize,
    key: &'c [u8],
    key_hash: KeyHash,
    found: Option<Found<'g>>,
}

impl<'k: 'g, 'g> Edit<'_, 'k, 'g> {
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
        self.put_entry(entry, event);
    }

    /// Puts the value that the key has already, otherwise encoded: no change that a sink hears of.
    ///
    /// # Panics
    ///
    /// When the key does not exist.
    pub fn put_same(self, new: NewEntry<'_>) {
        let entry = self.build(new);
        let Edit { cx, database, key_hash, found, .. } = self;
        let found = found.expect("only an existing key is encoded anew");
        let section = cx.section;
        let heap = &cx.worker.heap;
        let lock = Locked { section, access: &mut cx.access, slot: key_hash.slot }.lock();
        lock.replace(database, key_hash.hash, found, entry, Disposal::RetireValue, heap);
    }

    fn build(&self, new: NewEntry<'_>) -> OwnedEntry {
        let spec = EntrySpec {
            key: self.key,
            kind: new.kind,
            encoding: new.encoding,
            expires_at_ms: new.expires_at_ms,
            recency: self.cx.worker.recency(),
            value: new.value,
        };
        OwnedEntry::new(spec, &self.cx.worker.heap)
    }

    /// Puts an entry that was built for this key in the place of whatever is there.
    pub fn put_entry(self, entry: OwnedEntry, event: Event) {
        let Edit { cx, database, key, key_hash, found } = self;
        let Locked { section, .. } = cx.locks(key_hash.slot);
        let heap = &cx.worker.heap;
        let lock = Locked { section, access: &mut cx.access, slot: key_hash.slot }.lock();
        match found {
            Some(found) => {
                lock.replace(database, key_hash.hash, found, entry, Disposal::RetireValue, heap)
            }
            None => lock.insert(database, key_hash.hash, entry, section, heap),
        }
        cx.changed(database, key, key_hash, event, found.is_none());
    }

    /// Puts a list of elements, of which there is one at least, under the key in the place of whatever is there.
    pub fn put_list<'e>(
        self,
        elements: impl Iterator<Item = &'e [u8]>,
        encoding: Encoding,
        event: Event,
    ) {
        let Edit { cx, database, key, key_hash, found } = self;
        let section = cx.section;
        let heap = &cx.worker.heap;
        let mut list = ListEdit::create(heap);
        elements.for_each(|element| list.push_back(element));
        let spec = TreeSpec {
            key,
            hash: key_hash.hash,
            encoding,
            expires_at_ms: None,
            recency: cx.worker.recency(),
        };
        let lock = Locked { section, access: &mut cx.access, slot: key_hash.slot }.lock();
        let _present = lock.put_tree(database, found, list, spec, section, heap);
        cx.changed(database, key, key_hash, event, found.is_none());
    }

    /// Gives the key another expiry, or none.
    ///
    /// # Panics
    ///
    /// When the key does not exist.
    pub fn set_expiry(self, expires_at_ms: Option<u64>, event: Event) {
        let Edit { cx, database, key, key_hash, found } = self;
        let found = found.expect("only an existing key expires");
        let section = cx.section;
        let heap = &cx.worker.heap;
        let lock = Locked { section, access: &mut cx.access, slot: key_hash.slot }.lock();
        lock.set_expiry(database, key_hash.hash, found, expires_at_ms, heap);
        cx.changed(database, key, key_hash, event, false);
    }

    /// Removes the key; tells whether it was there.
    pub fn remove(self, event: Event) -> bool {
        let Edit { cx, database, key, key_hash, found } = self;
        let Some(found) = found else { return false };
        let section = cx.section;
        let heap = &cx.worker.heap;
        let lock = Locked { section, access: &mut cx.access, slot: key_hash.slot }.lock();
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
    pub fn take_as(self, place: Place<'_>, event: Event) -> OwnedEntry {
        let Edit { cx, database, key, key_hash, found } = self;
        let found = found.expect("only an existing key moves");
        let section = cx.section;
        let heap = &cx.worker.heap;
        let lock = Locked { section, access: &mut cx.access, slot: key_hash.slot }.lock();
        let entry = lock.take_as(database, key_hash.hash, found, place, section, heap);
        cx.changed(database, key, key_hash, event, false);
        entry
    }

    /// Lets `change` edit the list, or a new one, and publishes the result; an empty list removes the key.
    ///
    /// `change` returns the list's encoding and what the caller wants back, or `None` to leave all as it was.
    ///
    /// # Errors
    ///
    /// What `change` says; then nothing is changed.
    pub fn change_list<T>(
        self,
        event: Event,
        change: impl FnOnce(&mut ListEdit<'_>) -> Result<Option<(Encoding, T)>, CommandError>,
    ) -> Result<Option<T>, CommandError> {
        let Edit { cx, database, key, key_hash, found } = self;
        let section = cx.section;
        let heap = &cx.worker.heap;
        let lock = Locked { section, access: &mut cx.access, slot: key_hash.slot }.lock();
        let mut editing = lock.edit_list(found, heap);
        let Some((encoding, result)) = change(&mut editing)? else { return Ok(None) };
        let spec = tree_spec(key, key_hash, encoding, found, cx.worker);
        let published = lock.publish_tree(database, editing, spec, section, heap);
        cx.tree_changed(database, key, key_hash, event, found, published);
        Ok(Some(result))
    }

    /// Calls the list by another encoding. To clients this is no change: no event, nobody who watches is disturbed.
    pub fn convert_list(self, encoding: Encoding) {
        let Edit { cx, database, key, key_hash, found } = self;
        let section = cx.section;
        let heap = &cx.worker.heap;
        let lock = Locked { section, access: &mut cx.access, slot: key_hash.slot }.lock();
        let editing = lock.edit_list(found, heap);
        let spec = tree_spec(key, key_hash, encoding, found, cx.worker);
        lock.publish_tree(database, editing, spec, section, heap);
    }

    /// Lets `change` edit the hash, or a new one, as [`Edit::change_list`] does with a list.
    ///
    /// # Errors
    ///
    /// What `change` says; then nothing is changed.
    pub fn change_hash<T>(
        self,
        event: Event,
        change: impl FnOnce(&mut HashEdit<'_>) -> Result<Option<(Encoding, T)>, CommandError>,
    ) -> Result<Option<T>, CommandError> {
        let Edit { cx, database, key, key_hash, found } = self;
        let section = cx.section;
        let heap = &cx.worker.heap;
        let lock = Locked { section, access: &mut cx.access, slot: key_hash.slot }.lock();
        let mut editing = lock.edit_hash(found, cx.shared.keyspace.seed(), heap);
        let Some((encoding, result)) = change(&mut editing)? else { return Ok(None) };
        let spec = tree_spec(key, key_hash, encoding, found, cx.worker);
        let published = lock.publish_tree(database, editing, spec, section, heap);
        cx.tree_changed(database, key, key_hash, event, found, published);
        Ok(Some(result))
    }

    /// Lets `change` edit the string in chunks, as [`Edit::change_list`] does with a list. A plain string becomes chunks.
    ///
    /// # Errors
    ///
    /// What `change` says; then nothing is changed.
    pub fn change_text<T>(
        self,
        event: Event,
        change: impl FnOnce(&mut TextEdit<'_>) -> Result<Option<T>, CommandError>,
    ) -> Result<Option<T>, CommandError> {
        let Edit { cx, database, key, key_hash, found } = self;
        let section = cx.section;
        let heap = &cx.worker.heap;
        let lock = Locked { section, access: &mut cx.access, slot: key_hash.slot }.lock();
        let mut editing: Editing<'_, TextEdit<'_>> = lock.edit_text(found, heap);
        let Some(result) = change(&mut editing)? else { return Ok(None) };
        let spec = tree_spec(key, key_hash, Encoding::Raw, found, cx.worker);
        let published = lock.publish_tree(database, editing, spec, section, heap);
        cx.tree_changed(database, key, key_hash, event, found, published);
        Ok(Some(result))
    }

    /// Counts as a hit or miss, for commands that answer what they change.
    pub(crate) fn counted(self) -> Self {
        self.cx.count_lookup(self.found.is_some());
        self
    }

    /// Deletes the key because its time is over.
    fn expire(&mut self) {
        let Some(found) = self.found.take() else { return };
        let section = self.cx.section;
        let expires_at_ms = found.entry.expires_at_ms();
        self.cx.shared.saw_expired(expires_at_ms.expect("an expired entry has an expiry"));
        let heap = &self.cx.worker.heap;
        let lock = Locked { section, access: &mut self.cx.access, slot: self.key_hash.slot }.lock();
        let hash = self.key_hash.hash;
        lock.remove(self.database, hash, found, Disposal::RetireValue, section, heap);
        let cx = &mut *self.cx;
        cx.worker.stats(cx.shared).expired_keys.add(1);
        if cx.is_journaled() {
            cx.worker.effects.push_beside(self.database, [&b"DEL"[..], self.key]);
        }
        let lock = Locked { section, access: &mut cx.access, slot: self.key_hash.slot }.lock();
        if let Some(side) = lock.side_if_any() {
            side.touch_expired(self.database, self.key);
        }
        // The deletion is journaled by itself and is no change of the command's.
        cx.event(self.database, self.key, Event::new(EventClass::EXPIRED, "expired"));
    }

    /// Deletes the key if its time is over; tells whether it did. For the sweep, and after a read that found it expired.
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
        recency: worker.recency(),
    }
}

impl Cx<'_, '_> {
    fn tree_changed(
        &mut self,
        database: usize,
        key: &[u8],
        key_hash: KeyHash,
        event: Event,
        found: Option<Found<'_>>,
        published: Published,
    ) {
        self.changed(database, key, key_hash, event, found.is_none());
        if published == Published::Removed && found.is_some() {
            self.event(database, key, Event::new(EventClass::GENERIC, "del"));
        }
    }

    /// Counts a key that a command deletes because the expiry that it was to get has passed.
    pub(crate) fn count_expired_key(&self) {
        self.worker.stats(self.shared).expired_keys.add(1);
    }

    /// As [`Cx::count_expired_key`], for fields of a hash.
    pub(crate) fn count_expired_fields(&self, count: usize) {
        self.worker.stats(self.shared).expired_fields.add(count as u64);
    }

    /// What a command that changed something counts as, where that is not one for every key that changed. INFO shows the
    /// sum as `rdb_changes_since_last_save`.
    pub(crate) fn count_changes(&mut self, count: u64) {
        debug_assert!(count > 0, "without changes there is nothing to count");
        if self.worker.changes > 0 {
            self.worker.changes = count;
        }
    }

    /// Tells the sinks that a key changed. The key's slot is locked.
    fn changed(
        &mut self,
        database: usize,
        key: &[u8],
        key_hash: KeyHash,
        event: Event,
        is_new: bool,
    ) {
        self.worker.changes += 1;
        let lock = Locked { section: self.section, access: &mut self.access, slot: key_hash.slot };
        if let Some(side) = lock.lock().side_if_any()
            && !side.is_idle()
        {
            side.touch(database, key);
            if side.has_waiters(database, key) {
                let ready = ReadyKey { database, key: key.into(), key_hash };
                self.worker.ready.push(ready);
            }
        }
        if is_new {
            self.event(database, key, Event::new(EventClass::NEW, "new"));
        }
        self.event(database, key, event);
    }
}

/// What a handler of the session, the server or the whole keyspace works with.
pub struct SessionCx<'k, 's> {
    /// The command's name and arguments.
    pub args: ArgumentView<'s>,
    /// Where the reply goes.
    pub reply: &'s mut ReplyBuffer,
    /// The worker that runs the command.
    pub worker: &'s mut Worker,
    /// The client's session.
    pub session: &'s mut Session,
    /// The server.
    pub shared: &'k Arc<Shared>,
    /// Opens read sections.
    pub reader: &'s mut dyn ReadSide,
    /// The command.
    pub command: &'static Command,
    /// Whether it runs in `EXEC`.
    pub in_transaction: bool,
    /// The closed gate, when all other workers are stopped for the transaction at hand.
    pub alone: Option<&'s ClosedGate<'s>>,
    /// The locks of the transaction at hand.
    pub locks: Option<&'s mut LockSet<'k>>,
}

impl std::fmt::Debug for SessionCx<'_, '_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("SessionCx").field("command", &self.command).finish_non_exhaustive()
    }
}

impl<'s> SessionCx<'_, 's> {
    /// The argument at `index`; 0 is the command's name.
    ///
    /// # Panics
    ///
    /// When there is no such argument; the arity is checked before a handler runs.
    #[must_use]
    pub fn arg(&self, index: usize) -> &'s [u8] {
        self.args.get(index)
    }
}
