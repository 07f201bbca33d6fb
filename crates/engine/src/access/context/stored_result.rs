//! Commands that compute from several keys and store the result.
//!
//! Under the locks of all its keys, a command that takes long would keep other workers waiting. It
//! therefore stops as soon as it knows that ([`Cx::check_work`]), and runs once more on what is
//! found under the locks, which are given back ([`found_keys`](crate::access::found_keys)). Before
//! it publishes, it locks its keys again ([`Cx::lock_for_result`]) and goes on if under each of
//! them is the entry that it found, or still none, so that the result is that of one moment. An
//! entry is kept by the read section from the first locks on: no other one can have its address.
//! Collections that may change under their entries are pinned until the entries are compared: a
//! change of a pinned one makes another entry.

use tidemill_store::EntryRef;

use super::cx::{Access, Cx};
use crate::access::locks::{LockSet, Slots};
use crate::access::outcome::Stop;
use crate::access::unit::Unit;
use crate::limits::ELEMENTS_UNDER_LOCKS_MAX;

impl<'k: 'g, 'g> Cx<'k, 'g> {
    /// The entry of a key that a writing command reads. Counts as a use of the key and as a hit or
    /// miss.
    pub(crate) fn source(&mut self, key: &'g [u8]) -> Option<EntryRef<'g>> {
        if !self.is_locked() {
            return self.read(key);
        }
        let entry = self.edit(key).counted().entry()?;
        self.touch(entry);
        Some(entry)
    }

    /// Asks before a computation on a number of elements whether it may be done now. Nothing but
    /// expired keys must have been changed.
    ///
    /// # Errors
    ///
    /// [`Stop::TakesLong`]: the command runs again, without its locks.
    pub(crate) fn check_work(&self, element_count: u64) -> Result<(), Box<Stop>> {
        let is_long = element_count > ELEMENTS_UNDER_LOCKS_MAX;
        if is_long && self.may_release && self.is_locked() {
            return Err(Box::new(Stop::TakesLong));
        }
        Ok(())
    }

    /// Locks the command's keys again, if it works without their locks, to publish what it
    /// computed from them.
    ///
    /// # Errors
    ///
    /// [`Stop::NeedLocks`] when a key was changed meanwhile, has expired, or is taken.
    pub(crate) fn lock_for_result(&mut self) -> Result<(), Box<Stop>> {
        let Access::Found(found) = &self.access else { return Ok(()) };
        let changed = || Box::new(Stop::NeedLocks);
        if found.lacked_any() {
            return Err(changed());
        }
        let entries = found.entries();
        let positions = self.command.key_positions(self.args).unwrap_or_default();
        let hashes: Vec<_> =
            positions.iter().map(|&position| self.key_hash(self.args.get(position))).collect();
        let mut slots: Slots = hashes.iter().map(|hash| hash.slot).collect();
        slots.sort_unstable();
        slots.dedup();
        let locks = LockSet::several(self.shared, &slots).map_err(|_| changed())?;
        let mut unit = Unit::new(self.shared, self.worker, locks);
        let keyspace = &self.shared.keyspace;
        for ((&position, &hash), found) in positions.iter().zip(&hashes).zip(entries) {
            let key = self.args.get(position);
            let present = keyspace.find(self.database, hash, key, self.section);
            // A key that has expired since it was set is none, and yet there when a log is
            // replayed: the command runs again and deletes it first.
            let is_same = match (found, present) {
                (Some(found), Some(present)) => {
                    found.is(present) && !unit.is_over(self.shared, self.worker, present)
                }
                (found, present) => found.is_none() && present.is_none(),
            };
            if !is_same {
                return Err(changed());
            }
        }
        unit.mark_held_timed(self.shared, self.worker);
        self.access = Access::Locked(unit);
        Ok(())
    }
}
