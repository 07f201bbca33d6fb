//! Progress of a group: the counter of entries read, and the lag.
//!
//! Valkey counts what a group has read as entries that were ever added up to its last id. It knows
//! that where nothing was deleted behind that id, and at the ends of the stream.

use tidemill_store::value::stream::{Group, Stream, StreamId, StreamState};

/// Facts that the counters of a stream are computed from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Counters {
    state: StreamState,
    length: u64,
    first_id: StreamId,
}

impl Counters {
    pub(crate) fn of(stream: Stream<'_>) -> Counters {
        Counters { state: stream.state(), length: stream.len(), first_id: stream.first_id() }
    }

    /// True if an entry with an id from `start` on may have been deleted.
    fn has_deleted_from(&self, start: StreamId) -> bool {
        let deleted = self.state.max_deleted_id;
        self.length > 0 && deleted != StreamId::MIN && start <= deleted
    }

    /// Entries that were ever added up to an id, where that is known.
    pub(crate) fn added_up_to(&self, id: StreamId) -> Option<u64> {
        let StreamState { last_id, max_deleted_id, entries_added } = self.state;
        if entries_added == 0 {
            return Some(0);
        }
        if self.length == 0 && id <= last_id {
            return Some(entries_added);
        }
        if id != StreamId::MIN && id < max_deleted_id || id > last_id {
            return None;
        }
        if id == last_id {
            return Some(entries_added);
        }
        if max_deleted_id != StreamId::MIN && max_deleted_id >= self.first_id {
            return None;
        }
        let before_first = entries_added.wrapping_sub(self.length);
        match id.cmp(&self.first_id) {
            std::cmp::Ordering::Less => Some(before_first),
            std::cmp::Ordering::Equal => Some(before_first.wrapping_add(1)),
            std::cmp::Ordering::Greater => None,
        }
    }

    /// Lets a group go on to the entry of an id behind its last one.
    pub(crate) fn read(&self, group: &mut Group, id: StreamId) {
        let known = group
            .entries_read
            .filter(|_| group.last_id >= self.first_id && !self.has_deleted_from(group.last_id));
        match known {
            Some(count) => group.entries_read = Some(count.wrapping_add(1)),
            None if self.state.entries_added > 0 => group.entries_read = self.added_up_to(id),
            None => {}
        }
        group.last_id = id;
    }

    /// Entries that a group has still to read, where that is known.
    pub(crate) fn lag(&self, group: &Group) -> Option<i64> {
        let added = self.state.entries_added;
        if added == 0 {
            return Some(0);
        }
        let known = group.entries_read.filter(|_| !self.has_deleted_from(group.last_id));
        let read = known.or_else(|| self.added_up_to(group.last_id))?;
        Some(added.wrapping_sub(read) as i64)
    }
}
