//! Consequences of a change: sinks, watchers and waiters, the journal, counts.

use tidemill_store::{Found, KeyHash, Published};

use super::cx::{Access, Cx};
use super::slot::ALL_DECLARED;
use crate::command::Flags;
use crate::commit::{Event, EventClass};
use crate::slots::ready::ReadyKey;
use crate::slots::tracked::Untracked;

impl Cx<'_, '_> {
    /// Writes a keyspace event of a key whose slot is locked.
    pub fn event(&mut self, database: usize, key: &[u8], event: Event) {
        let is_heard =
            self.shared.sinks.events().is_some() || self.worker.settings.publishes(event.class);
        if is_heard || !self.worker.missed.is_empty() {
            self.tell(database, key, event);
        }
    }

    #[cold]
    fn tell(&mut self, database: usize, key: &[u8], event: Event) {
        if let Access::Locked(unit) = &mut self.access
            && let Some(outbox) = unit.outbox()
        {
            outbox.misses(self.worker);
            return outbox.event(database, key, event);
        }
        // A command that has changed something is not repeated: what it missed before counts.
        self.worker.publish_misses(self.shared);
        self.worker.tell_event(self.shared, database, key, event);
    }

    /// Tells of a key that an entry is about to be put under by [`Edit::put_entry`]: as in Valkey,
    /// it is told before anything else, and counts as new when it takes another one's place.
    ///
    /// [`Edit::put_entry`]: super::Edit::put_entry
    pub(crate) fn new_key_event(&mut self, database: usize, key: &[u8]) {
        self.event(database, key, Event::NEW_KEY);
    }

    /// Effect of the command for the journal, in place of the command as it came. May be called
    /// several times.
    pub fn propagate<'b>(
        &mut self,
        arguments: impl IntoIterator<Item = &'b [u8], IntoIter: Clone>,
    ) {
        let database = self.database;
        if let Some(effects) = self.unit().effects() {
            effects.push(database, arguments);
        }
    }

    /// The command has no effect for the journal but those that [`Cx::propagate`] is told of.
    pub(crate) fn propagate_nothing(&mut self) {
        if let Some(effects) = self.unit().effects() {
            effects.replace_command();
        }
    }

    /// As [`Cx::propagate`], beside the command's own effect and before it.
    pub(crate) fn propagate_beside<'b>(
        &mut self,
        database: usize,
        arguments: impl IntoIterator<Item = &'b [u8], IntoIter: Clone>,
    ) {
        if let Some(effects) = self.unit().effects() {
            effects.push_beside(database, arguments);
        }
    }

    /// True if effects are journaled: [`Cx::propagate`] and what only it needs may be left out
    /// otherwise.
    #[must_use]
    pub fn is_journaled(&self) -> bool {
        matches!(&self.access, Access::Locked(unit) if unit.is_journaled())
    }

    pub(super) fn tree_changed(
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
    pub(crate) fn count_expired_key(&mut self) {
        self.worker.count_expired_key(self.shared);
    }

    /// As [`Cx::count_expired_key`], for fields of a hash.
    pub(crate) fn count_expired_fields(&mut self, count: usize) {
        self.worker.count_expired_fields(self.shared, count);
    }

    /// Sets the number of changes that a command counts as, where that is not one for every key
    /// that changed. INFO shows the sum as `rdb_changes_since_last_save`.
    pub(crate) fn count_changes(&mut self, count: u64) {
        debug_assert!(count > 0, "without changes there is nothing to count");
        if self.unit().changes() > 0 {
            self.unit().set_changes(count);
        }
    }

    /// As [`Cx::count_changes`], also where what changed counts as nothing.
    pub(crate) fn set_changes(&mut self, count: u64) {
        self.unit().set_changes(count);
    }

    /// Lets waiters of a key be looked at, although no change did that. The key's slot is locked.
    pub(crate) fn note_ready(&mut self, key: &[u8]) {
        let (database, key_hash) = (self.database, self.key_hash(key));
        let unit = self.unit();
        let side = unit.lock(key_hash.slot).expect(ALL_DECLARED).side_if_any();
        if side.is_some_and(|side| side.has_waiters(database, key)) {
            unit.note_ready(ReadyKey { database, key: key.into(), key_hash });
        }
    }

    /// Tells those who watch a key, wait for it or track it that it changed: by the command, or
    /// because its time was over. The key's slot is locked.
    #[inline(always)]
    pub(super) fn tell_registered(
        &mut self,
        database: usize,
        key: &[u8],
        key_hash: KeyHash,
        is_by_command: bool,
    ) {
        let shared = self.shared;
        let unit = self.unit();
        let side = unit.lock(key_hash.slot).expect(ALL_DECLARED).side_if_any();
        if let Some(side) = side
            && !side.is_idle()
        {
            if is_by_command {
                side.touch(database, key);
            } else {
                side.touch_expired(database, key);
            }
            let untracked = side.tracked.untrack(&shared.tracking.totals, key);
            // A wait for a group of consumers ends with its key, however that goes.
            if side.has_waiters(database, key) {
                unit.note_ready(ReadyKey { database, key: key.into(), key_hash });
            }
            if let Some(untracked) = untracked {
                if is_by_command && self.command.flags.contains(Flags::READONLY) {
                    self.keep_tracked(key_hash, &untracked);
                }
                self.worker.post_invalidation(self.shared, untracked);
            }
        }
        if self.shared.tracking.prefixes.count() > 0 {
            self.worker.gather_change(key, is_by_command);
        }
    }

    /// A command that reads has changed what is kept beside the value (`PFCOUNT`): its client has
    /// read the key as it is now, and goes on to be told of changes.
    #[cold]
    fn keep_tracked(&mut self, key_hash: KeyHash, untracked: &Untracked) {
        let session = self.worker.changes.session;
        let mut trackers = untracked.trackers.iter();
        let Some(own) = trackers.find(|tracker| tracker.session == session) else { return };
        let shared = self.shared;
        let side = self.unit().lock(key_hash.slot).expect(ALL_DECLARED).side();
        side.tracked.track(&shared.tracking.totals, &untracked.key, own);
    }

    /// Tells the sinks that a key changed. The key's slot is locked.
    pub(super) fn changed(
        &mut self,
        database: usize,
        key: &[u8],
        key_hash: KeyHash,
        event: Event,
        is_new: bool,
    ) {
        self.unit().note_changes(1);
        if event == Event::UNTOLD {
            return;
        }
        self.tell_registered(database, key, key_hash, true);
        if is_new {
            self.new_key_event(database, key);
        }
        if event != Event::SILENT {
            self.event(database, key, event);
        }
    }
}
