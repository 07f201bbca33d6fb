//! Clients that wait for keys: `BLPOP` and its kin.
//!
//! A client looks at its keys and registers under the locks of all of them, so that no write comes
//! between. The writer of one of the keys serves the waiters in the order of their arrival before
//! it releases the slot: one compare-and-swap decides that a waiter is served and not timed out or
//! killed, its command runs in its place, and the reply goes to the mailbox of the worker that owns
//! it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use tidemill_resp::encode::Protocol;
use tidemill_resp::request::OwnedArguments;

use crate::acl::Account;
use crate::blocking::Block;
use crate::command::Command;
use crate::slots::tracked::Tracker;

/// End of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitEnd {
    /// The command ran; its duration in nanoseconds.
    Served(u64),
    /// Its time was over, or a command ended it as if it were.
    TimedOut,
    /// A command ended it with an error.
    Refused,
    /// Its client may not call the command any more.
    Denied,
}

impl WaitEnd {
    /// Nanoseconds that the command ran.
    pub(crate) fn elapsed_ns(self) -> u64 {
        match self {
            WaitEnd::Served(elapsed_ns) => elapsed_ns,
            WaitEnd::TimedOut | WaitEnd::Refused | WaitEnd::Denied => 0,
        }
    }
}

/// Memory of a registration beside its key, about: the places in the slot's maps, and a queue of
/// one waiter.
pub(crate) const REGISTRATION_BYTES: usize = 320;

const WAITING: u8 = 0;
const SERVED: u8 = 1;
const ENDED: u8 = 2;

/// One wait of one client.
#[derive(Debug)]
pub struct Waiter {
    state: AtomicU8,
    /// The number of the wait.
    pub id: u64,
    /// The worker that owns the client.
    pub worker: usize,
    /// The client's session.
    pub session: u64,
    /// Account of its user.
    pub account: Arc<Account>,
    /// The database it had selected.
    pub database: usize,
    /// Its command.
    pub command: &'static Command,
    /// The command's arguments.
    pub arguments: OwnedArguments,
    /// Those that the client sent, where they are others.
    pub sent_arguments: Option<OwnedArguments>,
    /// RESP version of its replies.
    pub protocol: Protocol,
    /// Condition and keys that it waits for.
    pub block: Block,
    /// When its time is over, in monotonic microseconds.
    pub deadline_us: Option<u64>,
    /// The client, if it is to be told when keys change that its command reads.
    pub tracker: Option<Arc<Tracker>>,
    /// Its own changes are not told to it.
    pub is_noloop: bool,
    /// Its command counts as a use of the keys that it reads.
    pub touches: bool,
}

impl Waiter {
    /// A wait that begins at `now_us`.
    #[must_use]
    pub fn new(
        id: u64,
        (worker, session, account): (usize, u64, Arc<Account>),
        database: usize,
        (command, arguments): (&'static Command, OwnedArguments),
        protocol: Protocol,
        block: Block,
        now_us: u64,
    ) -> Waiter {
        let deadline_us = (block.timeout_us > 0).then(|| now_us.saturating_add(block.timeout_us));
        Waiter {
            deadline_us,
            state: AtomicU8::new(WAITING),
            id,
            worker,
            session,
            account,
            database,
            command,
            arguments,
            sent_arguments: None,
            protocol,
            block,
            tracker: None,
            is_noloop: false,
            touches: true,
        }
    }

    /// The wait of a client that may have set `CLIENT NO-TOUCH`.
    #[must_use]
    pub(crate) fn touching(self, touches: bool) -> Waiter {
        Waiter { touches, ..self }
    }

    /// The wait of a client that tracks keys.
    #[must_use]
    pub(crate) fn tracked(self, tracker: Option<Arc<Tracker>>, is_noloop: bool) -> Waiter {
        Waiter { tracker, is_noloop, ..self }
    }

    /// The wait of a client that sent other arguments.
    #[must_use]
    pub(crate) fn sent_as(self, sent_arguments: Option<OwnedArguments>) -> Waiter {
        Waiter { sent_arguments, ..self }
    }

    /// True until the wait has ended.
    #[must_use]
    pub fn is_waiting(&self) -> bool {
        // Relaxed: a hint; `finish` decides.
        self.state.load(Ordering::Relaxed) == WAITING
    }

    fn finish(&self, state: u8) -> bool {
        // AcqRel: of a server, a timer and a killer exactly one wins, and sees what the waiter
        // wrote before.
        self.state.compare_exchange(WAITING, state, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// The caller serves it now, if nobody ended the wait before.
    #[must_use]
    pub fn serve(&self) -> bool {
        self.finish(SERVED)
    }

    /// The wait ends without a key (time, command, disconnection), if nobody serves it.
    #[must_use]
    pub fn end(&self) -> bool {
        self.finish(ENDED)
    }

    /// Memory that it takes, its registrations included.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        let keys: usize = self.keys().map(<[u8]>::len).sum();
        let registered = keys + self.block.keys.len() * REGISTRATION_BYTES;
        let sent = self.sent_arguments.as_ref().map_or(0, OwnedArguments::allocated_bytes);
        size_of::<Waiter>() + self.arguments.allocated_bytes() + sent + registered
    }

    /// The keys it waits for.
    pub fn keys(&self) -> impl Iterator<Item = &[u8]> {
        self.block.keys.iter().map(|&position| self.arguments.view().get(position))
    }

    /// Keys that its command looks at before `key`.
    pub(crate) fn keys_before<'w>(&'w self, key: &'w [u8]) -> impl Iterator<Item = &'w [u8]> {
        self.keys().take_while(move |&before| before != key)
    }
}

/// When the waits of one worker's blocked clients end by themselves: at a time, in monotonic
/// microseconds, or when a record is durable.
///
/// A wait that ends in another way is removed at once ([`Deadlines::remove`]): a wait without end
/// must not keep those behind it.
#[derive(Debug, Default)]
pub struct Deadlines {
    /// By time and number of the wait.
    waiters: BTreeMap<(u64, u64), Arc<Waiter>>,
    /// Waits that end when a record is durable, by record and number of the wait.
    by_record: BTreeMap<(u64, u64), Arc<Waiter>>,
}

impl Deadlines {
    /// A wait with a deadline has begun.
    pub fn insert(&mut self, waiter: &Arc<Waiter>) {
        if let Some(at_us) = waiter.deadline_us {
            self.waiters.insert((at_us, waiter.id), Arc::clone(waiter));
        }
        if let Some(record) = waiter.block.on_timeout.awaited_record() {
            self.by_record.insert((record, waiter.id), Arc::clone(waiter));
        }
    }

    /// A wait is over.
    pub fn remove(&mut self, waiter: &Waiter) {
        if let Some(at_us) = waiter.deadline_us {
            self.waiters.remove(&(at_us, waiter.id));
        }
        if let Some(record) = waiter.block.on_timeout.awaited_record() {
            self.by_record.remove(&(record, waiter.id));
        }
    }

    /// The first record that is waited for; 0 if none is.
    #[must_use]
    pub fn first_record(&self) -> u64 {
        self.by_record.first_key_value().map_or(0, |(&(record, _), _)| record.max(1))
    }

    /// Ends the next wait whose record is durable; without a log, any.
    pub fn end_next_durable(&mut self, durable: Option<u64>) -> Option<Arc<Waiter>> {
        let is_over = |record| durable.is_none_or(|durable| durable >= record);
        while let Some(first) = self.by_record.first_entry().filter(|first| is_over(first.key().0))
        {
            let waiter = first.remove();
            if waiter.end() {
                return Some(waiter);
            }
        }
        None
    }

    /// When the next one is due.
    #[must_use]
    pub fn next_us(&self) -> Option<u64> {
        self.waiters.first_key_value().map(|(&(at_us, _), _)| at_us)
    }

    /// Ends the next wait whose time is over by `now_us`.
    pub fn end_next(&mut self, now_us: u64) -> Option<Arc<Waiter>> {
        while let Some(first) = self.waiters.first_entry().filter(|first| first.key().0 <= now_us) {
            let waiter = first.remove();
            if waiter.end() {
                return Some(waiter);
            }
        }
        None
    }

    /// Number of waiters.
    #[must_use]
    pub fn len(&self) -> usize {
        self.waiters.len()
    }

    /// True if no wait has a deadline.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.waiters.is_empty()
    }
}
