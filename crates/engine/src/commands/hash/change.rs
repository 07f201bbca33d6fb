//! How hashes are changed: fields whose time is over go first, as many of them as one command may take time for. Those
//! beyond are left to later commands and to the sweep; a command that names one of them finds it gone all the same.

use tidemill_store::value::hash::{Field, HashEdit};
use tidemill_store::{Encoding, EntryRef, Kind};

use crate::commit::{Event, EventClass};
use crate::context::Cx;
use crate::error::CommandError;
use crate::limits::REAPED_FIELDS_MAX;
use crate::shared::Shared;

pub(super) const SET_EVENT: Event = Event::new(EventClass::HASH, "hset");
pub(super) const DELETED_EVENT: Event = Event::new(EventClass::HASH, "hdel");

/// A hash that is being changed.
pub(super) struct Change<'e, 'h> {
    edit: &'e mut HashEdit<'h>,
    now_ms: u64,
    /// Whether fields may be left whose time is over.
    has_due: bool,
    expired: &'e mut Vec<Vec<u8>>,
    entries_max: u64,
    value_bytes_max: usize,
    is_table: bool,
    change_count: u64,
    sets_expiry: bool,
}

impl Change<'_, '_> {
    /// A field, if it is there and its time is not over.
    pub(super) fn get(&mut self, field: &[u8]) -> Option<Field<'_>> {
        self.expire(field);
        self.edit.get(field)
    }

    /// Deletes a field whose time is over, so that the journal tells of it before the command does something to it.
    fn expire(&mut self, field: &[u8]) {
        if self.has_due
            && let Some(found) = self.edit.get(field)
            && found.expires_at_ms.is_some_and(|at_ms| at_ms < self.now_ms)
        {
            self.edit.remove(field);
            self.expired.push(field.to_vec());
        }
    }

    /// Sets a field; tells whether it is new.
    pub(super) fn set(&mut self, field: &[u8], value: &[u8], expires_at_ms: Option<u64>) -> bool {
        self.expire(field);
        self.change_count += 1;
        self.is_table |= field.len().max(value.len()) > self.value_bytes_max;
        self.note_expiry(expires_at_ms);
        self.edit.set(field, value, expires_at_ms)
    }

    /// Sets or clears the expiry of a field that [`Change::get`] found.
    pub(super) fn set_expiry(&mut self, field: &[u8], expires_at_ms: Option<u64>) {
        self.change_count += 1;
        self.note_expiry(expires_at_ms);
        self.edit.set_expiry(field, expires_at_ms);
    }

    fn note_expiry(&mut self, expires_at_ms: Option<u64>) {
        self.sets_expiry |= expires_at_ms.is_some();
        self.is_table |= expires_at_ms.is_some();
    }

    /// Removes a field; tells whether it was there.
    pub(super) fn remove(&mut self, field: &[u8]) -> bool {
        self.expire(field);
        let was_there = self.edit.remove(field);
        self.change_count += u64::from(was_there);
        was_there
    }

    /// The time by which expiries are judged.
    pub(super) fn now_ms(&self) -> u64 {
        self.now_ms
    }

    fn encoding(&self) -> Encoding {
        if self.is_table || self.edit.len() > self.entries_max {
            Encoding::Hashtable
        } else {
            Encoding::Listpack
        }
    }
}

/// Lets `change` change the hash under `key`, or a new one. Nothing is published when it changes nothing.
pub(super) fn change<T>(
    cx: &mut Cx<'_, '_>,
    key: &[u8],
    event: Event,
    change: impl FnOnce(&mut Change<'_, '_>) -> Result<T, CommandError>,
) -> Result<T, CommandError> {
    let now_ms = cx.shared.expiry_clock_ms(cx.now_ms());
    let settings = &cx.worker.settings;
    let entries_max = settings.hash_listpack_entries_max;
    let value_bytes_max = settings.hash_listpack_value_bytes_max;
    let shared = cx.shared;
    let mut edit = cx.edit(key);
    let mut old = edit.entry_of(Kind::Hash)?;
    if old.is_some_and(|entry| is_over(shared, entry, now_ms)) {
        // The key goes and comes again: a reader must not see that it was gone.
        cx.mark_held();
        delete_expired_fields(cx, key);
        edit = cx.edit(key);
        old = None;
    }
    let mut result = None;
    let mut expired = Vec::new();
    let (mut sets_expiry, mut change_count) = (false, 0);
    let published = edit.change_hash(event, |hash| {
        expired = delete_due_fields(hash, now_ms);
        let mut changing = Change {
            has_due: expired.len() == REAPED_FIELDS_MAX,
            edit: hash,
            now_ms,
            expired: &mut expired,
            entries_max,
            value_bytes_max,
            is_table: old.is_some_and(|entry| entry.encoding() == Encoding::Hashtable),
            change_count: 0,
            sets_expiry: false,
        };
        result = Some(change(&mut changing)?);
        (sets_expiry, change_count) = (changing.sets_expiry, changing.change_count);
        Ok((change_count > 0).then(|| (changing.encoding(), ())))
    })?;
    if published.is_some() {
        cx.count_changes(change_count);
        note_expired(cx, key, &expired);
    }
    if sets_expiry {
        cx.shared.note_expiring_field();
    }
    result.ok_or(CommandError::Syntax)
}

/// Whether the time of all fields of a hash is over: the key is no more then, and what comes next has no time limit. Of
/// a large hash nobody asks: it is there until the last of its fields was deleted.
fn is_over(shared: &Shared, entry: EntryRef<'_>, now_ms: u64) -> bool {
    let Some(hash) = entry.hash(shared.keyspace.seed()) else { return false };
    let mut due_count = 0;
    if hash.len() <= REAPED_FIELDS_MAX as u64
        && hash.first_expiry().is_some_and(|first_ms| first_ms < now_ms)
    {
        hash.due(now_ms.saturating_sub(1), |_| {
            due_count += 1;
            true
        });
    }
    due_count == hash.len()
}

/// Deletes fields of a hash whose time is over, at most [`REAPED_FIELDS_MAX`]. It is no change of the command's.
pub(crate) fn delete_expired_fields(cx: &mut Cx<'_, '_>, key: &[u8]) {
    let now_ms = cx.shared.expiry_clock_ms(cx.now_ms());
    let changes = cx.worker.changes;
    let edit = cx.edit(key);
    let Ok(Some(entry)) = edit.entry_of(Kind::Hash) else { return };
    let mut expired = Vec::new();
    let changed = edit.change_hash(Event::new(EventClass::HASH, "hexpired"), |hash| {
        expired = delete_due_fields(hash, now_ms);
        Ok((!expired.is_empty()).then(|| (entry.encoding(), ())))
    });
    debug_assert!(changed.is_ok(), "deleting fields refuses nothing");
    note_expired(cx, key, &expired);
    cx.worker.changes = changes;
}

/// Counts and journals fields that were deleted because their time was over, before the command's own effect.
fn note_expired(cx: &mut Cx<'_, '_>, key: &[u8], fields: &[Vec<u8>]) {
    if fields.is_empty() {
        return;
    }
    cx.worker.stats(cx.shared).expired_fields.add(fields.len() as u64);
    if cx.is_journaled() {
        let arguments = [&b"HDEL"[..], key].into_iter().chain(fields.iter().map(Vec::as_slice));
        cx.worker.effects.push_beside(cx.database, arguments);
    }
}

/// Deletes fields whose time is over, at most [`REAPED_FIELDS_MAX`], and returns them.
fn delete_due_fields(hash: &mut HashEdit<'_>, now_ms: u64) -> Vec<Vec<u8>> {
    let mut due = Vec::new();
    if let Some(view) = hash.view()
        && view.first_expiry().is_some_and(|first_ms| first_ms < now_ms)
    {
        view.due(now_ms.saturating_sub(1), |entry| {
            due.push(entry.field.to_vec());
            due.len() < REAPED_FIELDS_MAX
        });
    }
    due.iter().for_each(|field| {
        hash.remove(field);
    });
    due
}
