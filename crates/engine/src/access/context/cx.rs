//! The context itself: what a handler is given, and what it may ask for besides keys.

use std::cell::Cell;
use std::fmt;

use rand_xoshiro::Xoshiro256PlusPlus;
use smallvec::SmallVec;
use tidemill_rdb::encode::Compressor;
use tidemill_resp::encode::{Protocol, ReplyBuffer};
use tidemill_resp::request::ArgumentView;
use tidemill_store::hash::Seed;
use tidemill_store::{Heap, KeyHash, Section, SlotNumber};

use super::lookups::{Lookups, Sightings};
use crate::access::found_keys::FoundKeys;
use crate::access::key_hashes::KeyHashes;
use crate::access::outcome::Stop;
use crate::access::unit::Unit;
use crate::command::Command;
use crate::expiry_clock::ExpiryClock;
use crate::long_reply::LongReply;
use crate::memory::Room;
use crate::settings::Settings;
use crate::shared::{LogPosition, Shared, log_level};
use crate::worker::Worker;

/// Way in which a handler may reach keys. With a tag of its own: finding it in a niche costs each
/// lookup some instructions.
#[derive(Debug)]
#[repr(u8)]
pub(crate) enum Access<'k, 'g> {
    /// Reading without locks; what was seen is checked afterwards.
    Optimistic(Lookups),
    /// Under the locks of all its keys' slots.
    Locked(Unit<'k>),
    /// Reading what was found under those locks, which were given back.
    Found(FoundKeys<'g>),
}

impl<'k> Access<'k, '_> {
    /// Without locks, and nothing looked up yet.
    #[inline(always)]
    pub(crate) fn optimistic() -> Self {
        Access::Optimistic(Lookups { seen: Sightings::None, clock: Cell::new(None) })
    }

    /// The unit under whose locks keys are reached.
    ///
    /// # Panics
    ///
    /// When keys are read without locks: only a command that is declared as a write may change any.
    #[inline]
    pub(super) fn unit(&mut self) -> &mut Unit<'k> {
        match self {
            Access::Locked(unit) => unit,
            Access::Optimistic(_) | Access::Found(_) => {
                panic!("a command that edits is declared as a write")
            }
        }
    }
}

/// Context of a keyed handler.
#[derive(Debug)]
pub struct Cx<'k: 'g, 'g> {
    /// The command's name and arguments.
    pub args: &'g ArgumentView<'g>,
    /// Target of the reply.
    pub reply: &'g mut ReplyBuffer,
    pub(super) worker: &'g mut Worker,
    pub(super) shared: &'k Shared,
    /// The selected database.
    pub database: usize,
    pub(super) section: Section<'g>,
    pub(super) access: Access<'k, 'g>,
    /// The keys whose hashes were computed before.
    pub(super) known: KeyHashes<'g>,
    /// True if reads count as uses of the key.
    pub(super) touch: bool,
    /// True if keys may be read that no argument names.
    pub(super) may_discover_keys: bool,
    /// True if the command may wait for its keys.
    pub(super) may_block: bool,
    /// True if the command may run again without its locks.
    pub(super) may_release: bool,
    /// Place for the rest of a reply that is made in pieces; none when it is to be made at once.
    pub(super) pending_reply: Option<&'g mut Option<Box<LongReply>>>,
    /// The key that became ready, when the command runs in the place of a blocked client.
    pub(super) ready_key: Option<&'g [u8]>,
    /// Name by which the command was called; for commands that answer to several names.
    pub command: &'static Command,
}

impl<'k: 'g, 'g> Cx<'k, 'g> {
    /// Score that a member may have, one of the arguments; see [`ScoreHints`].
    ///
    /// [`ScoreHints`]: crate::worker::score_hints::ScoreHints
    #[must_use]
    #[inline]
    pub(crate) fn score_hint(&self, member: &[u8]) -> Option<f64> {
        self.worker.score_hints.of(member)
    }

    /// Unix time of the command in milliseconds, as clients see it.
    pub(crate) fn unix_ms(&self) -> i64 {
        let clock = self.clock();
        clock.wall_ms(clock.now_ms()) as i64
    }

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

    /// The time from which new expiries are counted: one moment for the whole command, transaction
    /// or script, unless that locks more slots meanwhile. To be asked only for what expires: under
    /// locks, the first time costs a full fence.
    #[must_use]
    pub fn clock(&self) -> ExpiryClock {
        match &self.access {
            Access::Locked(unit) => unit.expiry_clock(self.shared, self.worker),
            Access::Found(found) => found.clock(),
            Access::Optimistic(lookups) => lookups.clock.get().unwrap_or_else(|| {
                let clock = self.worker.expiry_clock(self.shared);
                lookups.clock.set(Some(clock));
                clock
            }),
        }
    }

    /// The time by which expiries of a key and of its fields are judged. It is earlier than
    /// [`Cx::clock`] when a script has locked other slots since.
    #[must_use]
    pub(crate) fn clock_of(&self, key: &[u8]) -> ExpiryClock {
        match &self.access {
            Access::Locked(unit) => unit.clock_of_key(self.shared, self.worker, key),
            Access::Found(_) | Access::Optimistic(_) => self.clock(),
        }
    }

    /// As [`Cx::clock`]: Unix time in milliseconds.
    #[must_use]
    pub fn now_ms(&self) -> u64 {
        self.clock().now_ms()
    }

    /// True if the caller may read keys that no argument names.
    #[must_use]
    pub fn may_discover_keys(&self) -> bool {
        self.may_discover_keys
    }

    /// The settings in force.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.worker.settings
    }

    /// Longest string, in bytes.
    #[must_use]
    pub(crate) fn string_bytes_max(&self) -> u64 {
        self.worker.string_bytes_max() as u64
    }

    /// True if payloads with wrong checksums are refused.
    pub(crate) fn verifies_checksums(&self) -> bool {
        self.shared.verifies_checksums()
    }

    /// Logs, at a limited rate, what is wrong with a payload that a client sent.
    #[cold]
    pub(crate) fn log_damage(&mut self, damage: fmt::Arguments<'_>) {
        let rate = &mut self.worker.damage_lines;
        if !rate.admits(self.shared.clock.monotonic_us()) {
            return;
        }
        let line = match rate.take_withheld() {
            0 => damage.to_string(),
            count => format!("{damage}; damaged payloads since the last such line: {count} more"),
        };
        self.shared.host.log(log_level::VERBOSE, line.as_bytes());
    }

    /// Records of the journal and of the append-only file; none while that is off.
    #[must_use]
    pub fn log_position(&self) -> Option<LogPosition> {
        self.shared.host.log_position()
    }

    /// Random numbers; not for secrets.
    pub fn random(&mut self) -> &mut Xoshiro256PlusPlus {
        &mut self.worker.random
    }

    /// True if the command is a script's.
    pub(crate) fn runs_script(&self) -> bool {
        self.worker.runs_script
    }

    /// Secret of the hashes of keys and fields.
    #[must_use]
    pub fn seed(&self) -> &'k Seed {
        self.shared.keyspace.seed()
    }

    /// The worker's compressor, for strings of payloads.
    pub(crate) fn compressor(&mut self) -> &mut Compressor {
        &mut self.worker.compressor
    }

    /// Memory of the worker, for entries that are built for an edit.
    #[must_use]
    pub fn heap(&self) -> &Heap {
        &self.worker.heap
    }

    /// True if keys are read without locks: the command may run again.
    pub(crate) fn is_optimistic(&self) -> bool {
        matches!(self.access, Access::Optimistic(_))
    }

    /// True if keys may be changed.
    pub(crate) fn is_locked(&self) -> bool {
        matches!(self.access, Access::Locked(_))
    }

    /// Gives the locks back: the command goes on with what was found under them, where nothing was
    /// changed.
    pub(crate) fn go_on_with(&mut self, found: FoundKeys<'g>) {
        self.access = Access::Found(found);
    }

    /// True if the command asked for a key that was not found for it.
    pub(crate) fn lacked_any(&self) -> bool {
        matches!(&self.access, Access::Found(found) if found.lacked_any())
    }

    /// End of a command that ran under locks: the unit that it is a part of.
    pub(crate) fn into_unit(self) -> Unit<'k> {
        self.worker.end_write_count();
        match self.access {
            Access::Locked(unit) => unit,
            Access::Optimistic(_) | Access::Found(_) => unreachable!("a write stays locked"),
        }
    }

    /// End of a command that read without locks: all lookups so far.
    pub(crate) fn into_lookups(self) -> Lookups {
        match self.access {
            Access::Optimistic(lookups) => lookups,
            Access::Locked(_) | Access::Found(_) => unreachable!("a read takes no locks"),
        }
    }

    /// Number of databases.
    #[must_use]
    pub fn database_count(&self) -> usize {
        self.shared.keyspace.database_count()
    }

    /// Unix time in seconds by which uses of keys are stamped.
    #[must_use]
    pub(crate) fn use_s(&self) -> u64 {
        self.worker.now_s()
    }

    /// Notes that a field gets an expiry: the sweep looks for such from now on.
    pub(crate) fn note_expiring_field(&self) {
        self.shared.note_expiring_field();
    }

    /// Memory that the system would give.
    pub(crate) fn room(&self) -> Room<'k> {
        Room::of(self.shared)
    }

    /// The client's protocol.
    #[must_use]
    pub fn protocol(&self) -> Protocol {
        self.reply.protocol()
    }

    #[inline(always)]
    pub(crate) fn key_hash(&mut self, key: &[u8]) -> KeyHash {
        match self.known {
            KeyHashes::One(known, hash) if std::ptr::eq(known, key) => hash,
            _ => self.other_key_hash(key),
        }
    }

    #[inline(never)]
    fn other_key_hash(&mut self, key: &[u8]) -> KeyHash {
        let known = match &mut self.known {
            KeyHashes::None | KeyHashes::One(..) => None,
            KeyHashes::Several(keys) => keys.find(key, self.shared, self.database, self.section),
        };
        known.unwrap_or_else(|| self.shared.keyspace.key_hash(key))
    }

    /// Gets hold of a key that the arguments do not name, before it is read: where locks are held,
    /// its slot is locked too.
    ///
    /// # Errors
    ///
    /// [`Stop::Wait`] when it is taken. The command must not have changed anything yet.
    pub fn lock_discovered_key(&mut self, key: &[u8]) -> Result<(), Box<Stop>> {
        match &mut self.access {
            Access::Optimistic(_) => Ok(()),
            Access::Found(_) => Err(Box::new(Stop::NeedLocks)),
            Access::Locked(unit) => {
                let slot = SlotNumber::of_key(key);
                unit.add_without_waiting(self.shared, slot).map_err(Stop::wait)
            }
        }
    }

    /// The unit that the command is a part of.
    ///
    /// # Panics
    ///
    /// As [`Access::unit`].
    pub(crate) fn unit(&mut self) -> &mut Unit<'k> {
        self.access.unit()
    }

    /// Marks the locked slots held: what follows is one change to readers, however often it
    /// publishes.
    pub(crate) fn mark_held(&mut self) {
        if let Access::Locked(unit) = &mut self.access {
            unit.mark_held_timed(self.shared, self.worker);
        }
    }

    /// The keys that a blocking command looks at, of the arguments from `first` to before `end`:
    /// all of them, or in the place of a blocked client those up to the one that became ready.
    pub fn candidate_keys(&self, first: usize, end: usize) -> SmallVec<[&'g [u8]; 2]> {
        let keys = (first..end).map(|index| self.args.get(index));
        match self.ready_key {
            Some(ready) => keys.clone().take_while(|&key| key != ready).chain([ready]).collect(),
            None => keys.collect(),
        }
    }

    /// True if the command may wait for its keys; in a transaction it may not and answers null at
    /// once.
    #[must_use]
    pub fn may_block(&self) -> bool {
        self.may_block
    }
}
