//! Sinks of changes: watchers, keyspace events, waiters, the journal.
//!
//! Every change of a key ends in [`Cx::changed`](crate::access::context::Cx), under the slot's
//! lock, and goes through the sinks in one order: watchers of the key, keyspace events, waiters for
//! the key; and at the end of the unit, still under its locks, the journal. Events and journal are
//! switched on and off while the server runs, with all workers stopped.
//!
//! The place of a record in the journal is its number, taken once the unit has its last lock and
//! before anything of it can be seen: a reader that acts on a value finds the value's record before
//! its own. [`Unit`](crate::access::unit::Unit) keeps that rule.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use bitflags::bitflags;
pub use tidemill_journal::{Record, RecordNumber};
use tidemill_resp::request::{Arguments, Limits, OwnedArguments, Progress, RequestParser};
use tidemill_store::gate::ClosedGate;

use crate::limits::KEPT_RECORD_BYTES;

bitflags! {
    /// Classes of keyspace events, as in `notify-keyspace-events`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct EventClass: u16 {
        /// `g`: commands for any type.
        const GENERIC = 1;
        /// `$`: strings.
        const STRING = 1 << 1;
        /// `l`: lists.
        const LIST = 1 << 2;
        /// `h`: hashes.
        const HASH = 1 << 3;
        /// `x`: a key expired.
        const EXPIRED = 1 << 4;
        /// `n`: a key is new.
        const NEW = 1 << 5;
        /// `s`: sets.
        const SET = 1 << 6;
        /// `z`: sorted sets.
        const SORTED_SET = 1 << 7;
        /// `t`: streams.
        const STREAM = 1 << 8;
        /// `e`: a key was evicted.
        const EVICTED = 1 << 9;
        /// `d`: modules.
        const MODULE = 1 << 10;
        /// `m`: a read did not find its key.
        const MISS = 1 << 11;
        /// `A`: all classes that Redis had before it had `m` and `n`.
        const ALL = Self::GENERIC.bits()
            | Self::STRING.bits()
            | Self::LIST.bits()
            | Self::HASH.bits()
            | Self::EXPIRED.bits()
            | Self::SET.bits()
            | Self::SORTED_SET.bits()
            | Self::STREAM.bits()
            | Self::EVICTED.bits()
            | Self::MODULE.bits();
        /// `K`: events are published to the key's channel. No class of an event.
        const KEYSPACE = 1 << 12;
        /// `E`: events are published to the event's channel. No class of an event.
        const KEYEVENT = 1 << 13;
    }
}

impl EventClass {
    /// Classes named by letters, of which the configuration has refused unknown ones.
    #[must_use]
    pub fn of_letters(letters: &str) -> EventClass {
        let class = |letter| match letter {
            'g' => EventClass::GENERIC,
            '$' => EventClass::STRING,
            'l' => EventClass::LIST,
            'h' => EventClass::HASH,
            's' => EventClass::SET,
            'z' => EventClass::SORTED_SET,
            't' => EventClass::STREAM,
            'x' => EventClass::EXPIRED,
            'e' => EventClass::EVICTED,
            'd' => EventClass::MODULE,
            'm' => EventClass::MISS,
            'n' => EventClass::NEW,
            'A' => EventClass::ALL,
            'K' => EventClass::KEYSPACE,
            'E' => EventClass::KEYEVENT,
            _ => EventClass::empty(),
        };
        letters.chars().map(class).collect()
    }
}

/// One keyspace event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// Its class.
    pub class: EventClass,
    /// Its name.
    pub name: &'static str,
    /// Names of events of the same class that the same change is, behind it.
    pub followed_by: &'static [&'static str],
}

impl Event {
    /// None: a change that watchers and the journal learn of, and no event tells.
    pub const SILENT: Event = Event::new(EventClass::empty(), "");

    /// None, and no watcher learns of the change either: the journal alone does.
    pub const UNTOLD: Event = Event::new(EventClass::empty(), "untold");

    /// The key was not there before.
    pub const NEW_KEY: Event = Event::new(EventClass::NEW, "new");

    /// An event.
    #[must_use]
    pub const fn new(class: EventClass, name: &'static str) -> Event {
        Event { class, name, followed_by: &[] }
    }

    /// The event, and others of its class behind it.
    #[must_use]
    pub const fn followed_by(self, names: &'static [&'static str]) -> Event {
        Event { followed_by: names, ..self }
    }
}

/// Receiver of keyspace events.
pub trait KeyspaceEvents: Send + Sync + 'static {
    /// Called under the key's slot lock, in the order of the changes of one key. Must not block.
    fn event(&self, database: usize, key: &[u8], event: Event);
}

/// Receiver of effects, for an append-only file or replicas.
pub trait Journal: fmt::Debug + Send + Sync + 'static {
    /// Takes the next number, for a record that the same worker appends soon: before it takes
    /// another one, and before it gives up the locks of the slots that the record changes. Must not
    /// block.
    fn number(&self) -> RecordNumber;

    /// Appends the record of a number that a worker took: the effects of one unit, which are
    /// applied together or not at all. It is empty when nothing came of the change for which the
    /// number was taken. The journal leaves the record empty.
    ///
    /// Called under the locks of all slots that the record changes, so the numbers of one slot's
    /// records, and those of one worker's, ascend in the order of the calls. Must not block.
    fn append(&self, worker: usize, number: RecordNumber, record: &mut Record);
}

impl Journal for tidemill_journal::Journal {
    fn number(&self) -> RecordNumber {
        self.allocate()
    }

    fn append(&self, worker: usize, number: RecordNumber, record: &mut Record) {
        self.push(worker, number, record);
    }
}

bitflags! {
    /// Sinks that are switched on and off.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct ActiveSinks: u8 {
        /// Keyspace events.
        const EVENTS = 1;
        /// The journal.
        const JOURNAL = 1 << 1;
    }
}

/// Sinks outside of the engine.
#[derive(Default)]
pub struct Sinks {
    events: Option<Box<dyn KeyspaceEvents>>,
    journal: Option<Box<dyn Journal>>,
    /// Bits of [`ActiveSinks`]. Not part of the settings, which a worker takes up at its next
    /// boundary: a unit reads this word once it has its locks, so it holds from the moment the gate
    /// opens.
    active: AtomicU8,
}

impl Sinks {
    /// Sinks that are there and active.
    #[must_use]
    pub fn new(
        events: Option<Box<dyn KeyspaceEvents>>,
        journal: Option<Box<dyn Journal>>,
    ) -> Sinks {
        let active = AtomicU8::new(ActiveSinks::all().bits());
        Sinks { events, journal, active }
    }

    /// Sinks that are there and not active yet.
    #[must_use]
    pub fn inactive(
        events: Option<Box<dyn KeyspaceEvents>>,
        journal: Option<Box<dyn Journal>>,
    ) -> Sinks {
        Sinks { events, journal, active: AtomicU8::new(0) }
    }

    /// Switches sinks on and off. No unit is under way meanwhile: each tells a sink all or nothing.
    pub fn switch(&self, active: ActiveSinks, _alone: &ClosedGate<'_>) {
        // Relaxed: the gate orders it before everything that others do once it is open.
        self.active.store(active.bits(), Ordering::Relaxed);
    }

    #[inline(always)]
    fn is_active(&self, sink: ActiveSinks) -> bool {
        // Relaxed: it changes only while the reader is outside of the gate.
        self.active.load(Ordering::Relaxed) & sink.bits() != 0
    }

    /// The receiver of keyspace events.
    #[inline]
    pub(crate) fn events(&self) -> Option<&dyn KeyspaceEvents> {
        self.events.as_deref().filter(|_| self.is_active(ActiveSinks::EVENTS))
    }

    /// The journal.
    #[inline(always)]
    pub(crate) fn journal(&self) -> Option<&dyn Journal> {
        self.journal.as_deref().filter(|_| self.is_active(ActiveSinks::JOURNAL))
    }

    /// The journal, switched on or not.
    #[inline]
    pub(crate) fn installed_journal(&self) -> Option<&dyn Journal> {
        self.journal.as_deref()
    }
}

impl fmt::Debug for Sinks {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Sinks")
            .field("events", &self.events.is_some())
            .field("journal", &self.journal.is_some())
            .field("active", &ActiveSinks::from_bits_truncate(self.active.load(Ordering::Relaxed)))
            .finish()
    }
}

/// Effects of the unit that is executed.
#[derive(Debug, Default)]
pub(crate) struct Effects {
    /// Effects of the commands of this record that are done.
    record: Record,
    /// Effect of the present command in its own words, if `is_explicit`; otherwise it is the
    /// command itself.
    explicit: Record,
    is_explicit: bool,
}

impl Effects {
    /// Effect of the present command, in place of itself or in addition to earlier ones.
    pub(crate) fn push<'a>(
        &mut self,
        database: usize,
        arguments: impl IntoIterator<Item = &'a [u8], IntoIter: Clone>,
    ) {
        self.is_explicit = true;
        self.explicit.push(database, arguments);
    }

    /// The present command itself is no effect.
    pub(crate) fn replace_command(&mut self) {
        self.is_explicit = true;
    }

    /// An effect beside the command's own.
    pub(crate) fn push_beside<'a>(
        &mut self,
        database: usize,
        arguments: impl IntoIterator<Item = &'a [u8], IntoIter: Clone>,
    ) {
        self.record.push(database, arguments);
    }

    /// End of a command that made `changes` changes: without any it has no effect.
    pub(crate) fn end_command<'a>(
        &mut self,
        database: usize,
        args: impl Iterator<Item = &'a [u8]> + Clone,
        changes: u64,
    ) {
        match (changes, std::mem::take(&mut self.is_explicit)) {
            (0, _) => self.explicit.clear(usize::MAX),
            (_, true) => self.record.append(&mut self.explicit),
            (_, false) => self.record.push(database, args),
        }
    }

    /// Forgets everything; false if the buffers are so large that they are not to be kept.
    pub(crate) fn clear_for_next(&mut self) -> bool {
        self.is_explicit = false;
        let records = [&mut self.record, &mut self.explicit];
        records.into_iter().all(|record| {
            record.clear(usize::MAX);
            record.buffer_bytes() <= KEPT_RECORD_BYTES
        })
    }

    /// The record of everything since it was last taken or appended to a journal.
    pub(crate) fn record(&mut self) -> &mut Record {
        &mut self.record
    }
}

/// One command in a journal record: what to run again to have the same effect.
#[derive(Debug)]
pub struct Effect {
    /// The database that it ran in.
    pub database: usize,
    /// The command and its arguments.
    pub arguments: OwnedArguments,
}

impl Effect {
    /// # Panics
    ///
    /// When the effect is no command.
    fn of_encoded(effect: tidemill_journal::Effect<'_>) -> Effect {
        let mut arguments = Arguments::new();
        let limits = Limits::default();
        let parsed = RequestParser::new().parse(effect.bytes, &limits, &mut arguments);
        assert!(matches!(parsed, Ok(Progress::Complete { .. })), "an effect is one command");
        let arguments = OwnedArguments::new(arguments.view(effect.bytes).iter());
        Effect { database: effect.database, arguments }
    }
}

/// A journal in memory, for tests.
#[derive(Debug, Default)]
pub struct MemoryJournal {
    next: AtomicU64,
    records: Mutex<BTreeMap<RecordNumber, Vec<Effect>>>,
}

impl MemoryJournal {
    /// All records so far by ascending numbers, without empty ones; the journal is empty
    /// afterwards.
    ///
    /// # Panics
    ///
    /// When a number was taken whose record is missing.
    #[must_use]
    pub fn take(&self) -> Vec<Vec<Effect>> {
        let mut records = self.records.lock().unwrap_or_else(PoisonError::into_inner);
        let records = std::mem::take(&mut *records);
        // Relaxed: the caller has seen the writers end.
        let end = self.next.load(Ordering::Relaxed);
        let last = records.last_key_value().map_or(end, |(&number, _)| number + 1);
        assert_eq!(last, end, "the record of a number is missing");
        let count = records.first_key_value().map_or(0, |(&first, _)| end - first);
        assert_eq!(records.len() as u64, count, "the record of a number is missing");
        records.into_values().filter(|record| !record.is_empty()).collect()
    }
}

impl Journal for MemoryJournal {
    fn number(&self) -> RecordNumber {
        // Relaxed: one number each is all that is asked; that those of one slot ascend is the
        // lock's doing, and what a reader saw before it wrote is ordered by the change that it saw.
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    fn append(&self, _worker: usize, number: RecordNumber, record: &mut Record) {
        let effects = record.effects().map(Effect::of_encoded).collect();
        record.clear(0);
        let mut records = self.records.lock().unwrap_or_else(PoisonError::into_inner);
        let former = records.insert(number, effects);
        assert!(former.is_none(), "number {number} was used twice");
    }
}

impl<J: Journal> Journal for std::sync::Arc<J> {
    fn number(&self) -> RecordNumber {
        J::number(self)
    }

    fn append(&self, worker: usize, number: RecordNumber, record: &mut Record) {
        J::append(self, worker, number, record);
    }
}
