//! How hashes are changed: fields whose time is over go first, as many of them as one command may take time for. Those
//! beyond are left to later commands and to the sweep; a command that names one of them finds it gone all the same. When
//! the time of all is over, the hash goes as a whole, in constant time.

use tidemill_store::value::hash::{Field, HashEdit};
use tidemill_store::{Encoding, EntryRef, Kind};

use crate::commit::{Event, EventClass};
use crate::context::{Cx, Edit};
use crate::error::CommandError;
use crate::expiry::ExpiryClock;
use crate::limits::REAPED_FIELDS_MAX;
use crate::shared::Shared;

pub(super) const SET_EVENT: Event = Event::new(EventClass::HASH, "hset");
pub(super) const DELETED_EVENT: Event = Event::new(EventClass::HASH, "hdel");

/// A hash that is being changed.
pub(super) struct Change<'e, 'h> {
    edit: &'e mut HashEdit<'h>,
    /// The clock, if fields may be left whose time is over by it.
    due_clock: Option<ExpiryClock>,
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
        if let Some(clock) = self.due_clock
            && let Some(found) = self.edit.get(field)
            && found.expires_at_ms.is_some_and(|at_ms| clock.has_passed(at_ms))
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
    let settings = &cx.worker.settings;
    let entries_max = settings.hash_listpack_entries_max;
    let value_bytes_max = settings.hash_listpack_value_bytes_max;
    let shared = cx.shared;
    let mut edit = cx.edit(key);
    let mut old = edit.entry_of(Kind::Hash)?;
    let due_clock = old.and_then(|entry| due_clock(&mut edit, shared, entry));
    if let (Some(entry), Some(clock)) = (old, due_clock)
        && is_over(shared, entry, clock)
    {
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
        expired = due_clock.map_or(Vec::new(), |clock| delete_due_fields(hash, clock));
        let mut changing = Change {
            due_clock: due_clock.filter(|_| expired.len() == REAPED_FIELDS_MAX),
            edit: hash,
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

/// The clock of the edit if fields of the hash have expired by it. From then on they have for everybody.
fn due_clock(
    edit: &mut Edit<'_, '_, '_>,
    shared: &Shared,
    entry: EntryRef<'_>,
) -> Option<ExpiryClock> {
    let first_ms = entry.hash(shared.keyspace.seed())?.first_expiry()?;
    let clock = edit.clock();
    clock.has_passed(first_ms).then(|| {
        shared.saw_expired(clock.last_passed_ms());
        clock
    })
}

/// Whether the time of all fields of a hash is over: the key is no more then, and what comes next has no time limit.
fn is_over(shared: &Shared, entry: EntryRef<'_>, clock: ExpiryClock) -> bool {
    let hash = entry.hash(shared.keyspace.seed());
    hash.and_then(|hash| hash.last_expiry()).is_some_and(|last_ms| clock.has_passed(last_ms))
}

/// What became of the expired fields of a hash.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Reaped {
    /// Fields that were deleted one by one.
    pub(crate) count: usize,
    /// Others may be left.
    pub(crate) leaves_some: bool,
}

/// Deletes fields of a hash whose time is over, at most [`REAPED_FIELDS_MAX`], or the hash when it has no others. It is no
/// change of the command's.
pub(crate) fn delete_expired_fields(cx: &mut Cx<'_, '_>, key: &[u8]) -> Reaped {
    let (shared, changes) = (cx.shared, cx.worker.changes);
    let mut edit = cx.edit(key);
    let Ok(Some(entry)) = edit.entry_of(Kind::Hash) else { return Reaped::default() };
    let Some(clock) = due_clock(&mut edit, shared, entry) else { return Reaped::default() };
    let hexpired = Event::new(EventClass::HASH, "hexpired");
    let mut expired = Vec::new();
    if is_over(shared, entry, clock) {
        let length = entry.hash(shared.keyspace.seed()).map_or(0, |hash| hash.len());
        edit.remove(hexpired);
        cx.event(cx.database, key, Event::new(EventClass::GENERIC, "del"));
        cx.count_expired_fields(length as usize);
        if cx.is_journaled() {
            cx.worker.effects.push_beside(cx.database, [&b"DEL"[..], key]);
        }
    } else {
        let changed = edit.change_hash(hexpired, |hash| {
            expired = delete_due_fields(hash, clock);
            Ok((!expired.is_empty()).then(|| (entry.encoding(), ())))
        });
        debug_assert!(changed.is_ok(), "deleting fields refuses nothing");
        note_expired(cx, key, &expired);
    }
    cx.worker.changes = changes;
    Reaped { count: expired.len(), leaves_some: expired.len() == REAPED_FIELDS_MAX }
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
fn delete_due_fields(hash: &mut HashEdit<'_>, clock: ExpiryClock) -> Vec<Vec<u8>> {
    let mut due = Vec::new();
    if let Some(view) = hash.view() {
        view.due(clock.last_passed_ms(), |entry| {
            due.push(entry.field.to_vec());
            due.len() < REAPED_FIELDS_MAX
        });
    }
    due.iter().for_each(|field| {
        hash.remove(field);
    });
    due
}
