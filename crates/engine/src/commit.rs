//! Who hears of changes, and what they hear.
//!
//! Every change of a key ends in [`Cx::changed`](crate::context::Cx), under the slot's lock, and goes through the sinks in
//! one order: who watches the key, keyspace events, who waits for the key; and when the command, transaction or script is
//! done, still under its locks, the journal. A sink that is not there costs a branch.

use std::fmt;
use std::sync::{Mutex, PoisonError};

use bitflags::bitflags;
use tidemill_resp::request::{ArgumentView, OwnedArguments};

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
    }
}

/// One keyspace event.
#[derive(Clone, Copy, Debug)]
pub struct Event {
    /// Its class.
    pub class: EventClass,
    /// Its name.
    pub name: &'static str,
}

impl Event {
    /// An event.
    #[must_use]
    pub const fn new(class: EventClass, name: &'static str) -> Event {
        Event { class, name }
    }
}

/// Hears of keyspace events.
pub trait KeyspaceEvents: Send + Sync + 'static {
    /// Called under the key's slot lock, in the order of the changes of one key. Must not block.
    fn event(&self, database: usize, key: &[u8], event: Event);
}

/// One command in a journal record: what to run again to have the same effect.
#[derive(Debug)]
pub struct Effect {
    /// The database that it ran in.
    pub database: usize,
    /// The command and its arguments.
    pub arguments: OwnedArguments,
}

/// Hears of effects, for an append-only file or replicas.
pub trait Journal: Send + Sync + 'static {
    /// Appends one record: the effects of one command, transaction or script, which are applied together or not at all.
    ///
    /// Called under the locks of all slots that the record changes, so records of one slot come in the order of their
    /// effects. Must not block.
    fn append(&self, record: Vec<Effect>);
}

/// Who hears of changes.
#[derive(Default)]
pub struct Sinks {
    /// Keyspace events.
    pub events: Option<Box<dyn KeyspaceEvents>>,
    /// The journal.
    pub journal: Option<Box<dyn Journal>>,
}

impl fmt::Debug for Sinks {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Sinks")
            .field("events", &self.events.is_some())
            .field("journal", &self.journal.is_some())
            .finish()
    }
}

/// What the command that runs will leave in the journal.
#[derive(Debug, Default)]
pub(crate) struct Effects {
    /// Effects of the commands of this record that are done.
    record: Vec<Effect>,
    /// What the present command says that its effect is; otherwise it is the command itself.
    explicit: Option<Vec<Effect>>,
}

impl Effects {
    /// The command's effect is `arguments`, in place of itself or in addition to what it said before.
    pub(crate) fn push<'a>(
        &mut self,
        database: usize,
        arguments: impl IntoIterator<Item = &'a [u8]>,
    ) {
        let effect = Effect { database, arguments: OwnedArguments::new(arguments) };
        self.explicit.get_or_insert_default().push(effect);
    }

    /// An effect beside the command's own.
    pub(crate) fn push_beside<'a>(
        &mut self,
        database: usize,
        arguments: impl IntoIterator<Item = &'a [u8]>,
    ) {
        self.record.push(Effect { database, arguments: OwnedArguments::new(arguments) });
    }

    /// The command has no effect worth a record, although it changed something.
    pub(crate) fn suppress(&mut self) {
        self.explicit.get_or_insert_default();
    }

    /// A command is done; it made `changes` changes. Without any it has no effect, whatever it said.
    pub(crate) fn end_command(&mut self, database: usize, args: &ArgumentView<'_>, changes: u64) {
        let explicit = self.explicit.take();
        if changes == 0 {
            return;
        }
        match explicit {
            Some(effects) => self.record.extend(effects),
            None => {
                self.record.push(Effect { database, arguments: OwnedArguments::new(args.iter()) });
            }
        }
    }

    /// The record of everything since the last call.
    pub(crate) fn take(&mut self) -> Vec<Effect> {
        std::mem::take(&mut self.record)
    }
}

/// A journal in memory, for tests.
#[derive(Debug, Default)]
pub struct MemoryJournal {
    records: Mutex<Vec<Vec<Effect>>>,
}

impl MemoryJournal {
    /// All records so far; the journal is empty afterwards.
    #[must_use]
    pub fn take(&self) -> Vec<Vec<Effect>> {
        std::mem::take(&mut self.records.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Journal for MemoryJournal {
    fn append(&self, record: Vec<Effect>) {
        self.records.lock().unwrap_or_else(PoisonError::into_inner).push(record);
    }
}

impl<J: Journal> Journal for std::sync::Arc<J> {
    fn append(&self, record: Vec<Effect>) {
        J::append(self, record);
    }
}
