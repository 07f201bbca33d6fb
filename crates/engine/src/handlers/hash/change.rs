//! Changes of hashes: fields whose time is over go first, as many of them as one command may
//! take time for. Those beyond are left to later commands and to the sweep; a command that names
//! one of them finds it gone nevertheless. When the time of all is over, the hash goes as a whole,
//! in constant time. While active expiry is off (`DEBUG SET-ACTIVE-EXPIRE 0`), only fields that a
//! command names go. In import mode all stay for the source of the import: to other clients they
//! are not there, until one sets them.

use tidemill_resp::request::ArgumentView;
use tidemill_store::value::hash::{Field, FieldPlace, Hash, HashEdit};
use tidemill_store::{Encoding, Kind};

use crate::access::context::Cx;
use crate::access::expired_fields::{
    EXPIRED_EVENT, delete_due_fields, delete_expired_fields, due_clock, is_over, journal_deleted,
    note_expired,
};
use crate::commit::{Event, EventClass};
use crate::error::CommandError;
use crate::expiry_clock::ExpiryClock;
use crate::memory::Room;

pub(super) const SET_EVENT: Event = Event::new(EventClass::HASH, "hset");
pub(super) const DELETED_EVENT: Event = Event::new(EventClass::HASH, "hdel");

/// A hash that is being changed.
pub(super) struct Change<'e, 'h> {
    edit: &'e mut HashEdit<'h>,
    /// The clock, if fields may be left whose time is over by it.
    due_clock: Option<ExpiryClock>,
    entries_max: u64,
    tally: Tally<'e>,
}

/// Consequences of the changes of fields.
struct Tally<'e> {
    room: Room<'e>,
    /// Fields that went because their time is over.
    expired: &'e mut Vec<Vec<u8>>,
    value_bytes_max: usize,
    is_table: bool,
    /// A field was set by the present command.
    has_set: bool,
    change_count: u64,
    sets_expiry: bool,
}

impl<'e, 'h> Change<'e, 'h> {
    /// Looks a field up, to be changed by what is there.
    pub(super) fn place<'c>(&'c mut self, field: &'c [u8]) -> FieldChange<'c, 'h, 'e> {
        let is_kept = self.expire(field);
        FieldChange { place: self.edit.place(field), field, is_kept, tally: &mut self.tally }
    }

    /// Deletes a field whose time is over, so that the journal tells of it before the command does
    /// something to it. Tells whether it has to stay instead.
    fn expire(&mut self, field: &[u8]) -> bool {
        let Some(clock) = self.due_clock else { return false };
        let place = self.edit.place(field);
        let expires_at_ms = place.get().and_then(|found| found.expires_at_ms);
        let is_over = expires_at_ms.is_some_and(|at_ms| clock.has_passed(at_ms));
        if is_over && !clock.keeps_expired() {
            place.remove();
            self.tally.expired.push(field.to_vec());
        }
        is_over && clock.keeps_expired()
    }

    /// Sets a field; tells whether it is new.
    pub(super) fn set(&mut self, field: &[u8], value: &[u8], expires_at_ms: Option<u64>) -> bool {
        self.place(field).set(value, expires_at_ms)
    }

    /// Sets the fields that arguments of `HSET` name; returns how many are new.
    pub(super) fn set_pairs(&mut self, args: &ArgumentView<'_>) -> usize {
        let pairs = (2..args.len()).step_by(2);
        // Valkey judges before it looks for fields that are named twice.
        self.tally.is_table |= pairs.len() as u64 > self.entries_max;
        pairs.filter(|&index| self.set(args.get(index), args.get(index + 1), None)).count()
    }

    /// Removes a field; tells whether it was there.
    pub(super) fn remove(&mut self, field: &[u8]) -> bool {
        self.place(field).remove()
    }

    /// Removes a field although its time may be over; tells whether it was there.
    pub(super) fn remove_any(&mut self, field: &[u8]) -> bool {
        let place = self.edit.place(field);
        FieldChange { place, field, is_kept: false, tally: &mut self.tally }.remove()
    }

    /// End of a command, of those that are carried out together: a hash that was a table once
    /// stays one.
    pub(super) fn end_command(&mut self) {
        self.tally.is_table = self.encoding() == Encoding::Hashtable;
        self.tally.has_set = false;
    }

    /// Number of changes so far.
    pub(super) fn change_count(&self) -> u64 {
        self.tally.change_count
    }

    /// Number of fields.
    pub(super) fn len(&self) -> u64 {
        self.edit.len()
    }

    /// Encoding behind a command. As in Valkey, a limit that was lowered is noticed when a field is
    /// set.
    fn encoding(&self) -> Encoding {
        if self.tally.is_table || self.tally.has_set && self.edit.len() > self.entries_max {
            Encoding::Hashtable
        } else {
            Encoding::Listpack
        }
    }
}

/// A field that is being changed, looked up once. Its time is not over, or it is hidden.
pub(super) struct FieldChange<'c, 'h, 't> {
    place: FieldPlace<'c, 'h>,
    field: &'c [u8],
    /// Its time is over and it stays, seen by the source of an import alone.
    is_kept: bool,
    tally: &'c mut Tally<'t>,
}

impl FieldChange<'_, '_, '_> {
    /// The field, if it is there.
    pub(super) fn get(&self) -> Option<Field<'_>> {
        self.place.get().filter(|_| !self.is_kept)
    }

    /// Sets the field; tells whether it is new. As in Valkey, one that was hidden is not.
    pub(super) fn set(self, value: &[u8], expires_at_ms: Option<u64>) -> bool {
        if self.is_kept {
            // A command that asks for the old field would find it when it is replayed.
            self.tally.expired.push(self.field.to_vec());
        }
        self.tally.change_count += 1;
        self.tally.has_set = true;
        self.tally.is_table |= self.field.len().max(value.len()) > self.tally.value_bytes_max;
        self.tally.note_expiry(expires_at_ms);
        self.place.set(value, expires_at_ms)
    }

    /// Sets or clears the expiry of a field that is there.
    ///
    /// # Errors
    ///
    /// [`CommandError::NoMemory`] when there is none for a copy of the field: it is stored with its
    /// expiry.
    pub(super) fn set_expiry(self, expires_at_ms: Option<u64>) -> Result<(), CommandError> {
        let bytes = self.get().map_or(0, |found| found.value.len());
        self.tally.room.check((self.field.len() + bytes) as u64)?;
        self.tally.change_count += 1;
        self.tally.note_expiry(expires_at_ms);
        self.place.set_expiry(expires_at_ms);
        Ok(())
    }

    /// Removes the field; tells whether it was there.
    pub(super) fn remove(self) -> bool {
        let was_there = !self.is_kept && self.place.remove();
        self.tally.change_count += u64::from(was_there);
        was_there
    }
}

impl Tally<'_> {
    fn note_expiry(&mut self, expires_at_ms: Option<u64>) {
        self.sets_expiry |= expires_at_ms.is_some();
        self.is_table |= expires_at_ms.is_some();
    }
}

/// Lets `change` change the hash under `key`, or a new one. Nothing is published when it changes
/// nothing.
pub(super) fn change<T>(
    cx: &mut Cx<'_, '_>,
    key: &[u8],
    event: Event,
    change: impl FnOnce(&mut Change<'_, '_>) -> Result<T, CommandError>,
) -> Result<T, CommandError> {
    let settings = &cx.settings();
    let entries_max = settings.hash_listpack_entries_max;
    let value_bytes_max = settings.hash_listpack_value_bytes_max;
    let (room, seed, argument_count) = (cx.room(), cx.seed(), cx.args.len() as u64);
    let mut edit = cx.edit(key);
    let mut old = edit.entry_of(Kind::Hash)?;
    if let Some(entry) = old {
        room.check_edit(entry, argument_count)?;
    }
    let due_clock = old.and_then(|entry| due_clock(&mut edit, entry));
    let keeps_expired = edit.clock().keeps_expired();
    let expires_unnamed = edit.shared().expires_actively() && !keeps_expired;
    if let (Some(entry), Some(clock)) = (old, due_clock)
        && expires_unnamed
        && is_over(seed, entry, clock)
    {
        // The key goes and comes again: a reader must not see that it was gone.
        cx.mark_held();
        delete_expired_fields(cx, key);
        edit = cx.edit(key);
        old = None;
    }
    let mut result = None;
    let (mut expired, mut leaves_some) = (Vec::new(), !expires_unnamed);
    let (mut sets_expiry, mut change_count) = (false, 0);
    let is_published = edit.change_behind::<Hash<'_>>(event, |hash| {
        if let Some(clock) = due_clock.filter(|_| expires_unnamed) {
            (expired, leaves_some) = delete_due_fields(room, hash, clock);
        }
        let mut changing = Change {
            due_clock: due_clock.filter(|_| leaves_some),
            edit: hash,
            entries_max,
            tally: Tally {
                room,
                expired: &mut expired,
                value_bytes_max,
                is_table: old.is_some_and(|entry| entry.encoding() == Encoding::Hashtable),
                has_set: false,
                change_count: 0,
                sets_expiry: false,
            },
        };
        result = Some(change(&mut changing)?);
        (sets_expiry, change_count) = (changing.tally.sets_expiry, changing.tally.change_count);
        let tells_expired = !keeps_expired && !changing.tally.expired.is_empty();
        let before = tells_expired.then_some(EXPIRED_EVENT);
        Ok((change_count > 0).then(|| (changing.encoding(), before)))
    })?;
    if is_published {
        cx.count_changes(change_count);
        match keeps_expired {
            true => journal_deleted(cx, key, &expired),
            false => note_expired(cx, key, &expired),
        }
    }
    if sets_expiry {
        cx.note_expiring_field();
    }
    result.ok_or(CommandError::Syntax)
}
