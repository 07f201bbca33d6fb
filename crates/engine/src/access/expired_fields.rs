//! Deletion of the expired fields of a hash: by commands that change it, and by the sweep.

use tidemill_store::hash::Seed;
use tidemill_store::value::hash::{Hash, HashEdit};
use tidemill_store::{EntryRef, Kind};

use crate::access::context::{Cx, Edit};
use crate::commit::{Event, EventClass};
use crate::expiry_clock::ExpiryClock;
use crate::limits::REAPED_FIELDS_MAX;
use crate::memory::Room;
use crate::shared::Shared;

/// Fields of a hash were deleted because their time was over.
pub(crate) const EXPIRED_EVENT: Event = Event::new(EventClass::HASH, "hexpired");

/// Earliest expiry of a field of a hash, in ms since the Unix epoch; none for other types.
pub(crate) fn first_field_expiry(shared: &Shared, entry: EntryRef<'_>) -> Option<u64> {
    entry.view::<Hash<'_>>(shared.keyspace.seed())?.first_expiry()
}

/// The clock of the edit if fields of the hash have expired by it. From then on they have for
/// everybody.
pub(crate) fn due_clock(edit: &mut Edit<'_, '_, '_>, entry: EntryRef<'_>) -> Option<ExpiryClock> {
    let shared = edit.shared();
    let first_ms = first_field_expiry(shared, entry)?;
    let clock = edit.own_clock();
    clock.has_passed(first_ms).then(|| {
        shared.saw_expired(clock.last_passed_ms());
        clock
    })
}

/// True if the time of all fields of a hash is over: the key is no more then, and what comes next
/// has no time limit.
pub(crate) fn is_over(seed: &Seed, entry: EntryRef<'_>, clock: ExpiryClock) -> bool {
    let hash = entry.view::<Hash<'_>>(seed);
    hash.and_then(|hash| hash.last_expiry()).is_some_and(|last_ms| clock.has_passed(last_ms))
}

/// Result of deleting the expired fields of a hash.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Reaped {
    /// Fields that were deleted one by one.
    pub(crate) count: usize,
    /// Others may be left.
    pub(crate) leaves_some: bool,
}

/// Deletes fields of a hash whose time is over, at most [`REAPED_FIELDS_MAX`], or the hash when it
/// has no others. It is no change of the command's.
pub(crate) fn delete_expired_fields(cx: &mut Cx<'_, '_>, key: &[u8]) -> Reaped {
    let (seed, room, changes) = (cx.seed(), cx.room(), cx.unit().changes());
    let mut edit = cx.edit(key);
    let Ok(Some(entry)) = edit.entry_of(Kind::Hash) else { return Reaped::default() };
    let Some(clock) = due_clock(&mut edit, entry) else { return Reaped::default() };
    let mut expired = Vec::new();
    if is_over(seed, entry, clock) {
        let length = entry.view::<Hash<'_>>(seed).map_or(0, |hash| hash.len());
        edit.remove(EXPIRED_EVENT);
        cx.event(cx.database, key, Event::new(EventClass::GENERIC, "del"));
        cx.count_expired_fields(length as usize);
        cx.propagate_beside(cx.database, [&b"DEL"[..], key]);
    } else {
        let changed = edit.change::<Hash<'_>, _>(EXPIRED_EVENT, |hash| {
            // Without room the sweep need not come back soon.
            (expired, _) = delete_due_fields(room, hash, clock);
            Ok((!expired.is_empty()).then(|| (entry.encoding(), ())))
        });
        debug_assert!(changed.is_ok(), "deleting fields refuses nothing");
        note_expired(cx, key, &expired);
    }
    cx.unit().set_changes(changes);
    Reaped { count: expired.len(), leaves_some: expired.len() == REAPED_FIELDS_MAX }
}

/// Counts and journals fields that were deleted because their time was over, before the command's
/// own effect.
pub(crate) fn note_expired(cx: &mut Cx<'_, '_>, key: &[u8], fields: &[Vec<u8>]) {
    if fields.is_empty() {
        return;
    }
    cx.count_expired_fields(fields.len());
    journal_deleted(cx, key, fields);
}

/// Journals that fields were deleted before the command's own effect.
pub(crate) fn journal_deleted(cx: &mut Cx<'_, '_>, key: &[u8], fields: &[Vec<u8>]) {
    if !fields.is_empty() && cx.is_journaled() {
        let arguments = [&b"HDEL"[..], key].into_iter().chain(fields.iter().map(Vec::as_slice));
        cx.propagate_beside(cx.database, arguments);
    }
}

/// Deletes fields whose time is over, at most [`REAPED_FIELDS_MAX`] and as long as there is room
/// for their names. Returns them, and whether others may be left.
pub(crate) fn delete_due_fields(
    room: Room<'_>,
    hash: &mut HashEdit<'_>,
    clock: ExpiryClock,
) -> (Vec<Vec<u8>>, bool) {
    let (mut due, mut leaves_some) = (Vec::new(), false);
    if let Some(view) = hash.view() {
        view.due(clock.last_passed_ms(), |entry| {
            let field = room.name_copy(entry.field);
            leaves_some = field.is_none();
            due.extend(field.map(Vec::from));
            leaves_some |= due.len() == REAPED_FIELDS_MAX;
            !leaves_some
        });
    }
    due.iter().for_each(|field| {
        hash.remove(field);
    });
    (due, leaves_some)
}
