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
        match self.known_read(group) {
            Some(count) => group.entries_read = Some(count.wrapping_add(1)),
            None if self.state.entries_added > 0 => group.entries_read = self.added_up_to(id),
            None => {}
        }
        group.last_id = id;
    }

    /// Entries that a group has read, if each that follows is one more: then it is so from there
    /// on.
    fn known_read(&self, group: &Group) -> Option<u64> {
        group
            .entries_read
            .filter(|_| group.last_id >= self.first_id && !self.has_deleted_from(group.last_id))
    }

    /// Lets a group go on over `count` entries, as [`Counters::read`] does for each of their ids,
    /// of which `last` is the last.
    pub(crate) fn read_all(
        &self,
        group: &mut Group,
        mut ids: impl Iterator<Item = StreamId>,
        (count, last): (u64, StreamId),
    ) {
        for left in (1..=count).rev() {
            if let Some(read) = self.known_read(group) {
                group.entries_read = Some(read.wrapping_add(left));
                group.last_id = last;
                return;
            }
            let Some(id) = ids.next() else { return };
            self.read(group, id);
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_entries_at_once_count_as_one_by_one() {
        let id = |ms: u64| StreamId { ms, seq: 0 };
        for (deleted, added, read, last) in [0, 1, 4, 9].into_iter().flat_map(|deleted| {
            [0, 6, 12].into_iter().flat_map(move |added| {
                [None, Some(0), Some(5), Some(u64::MAX)]
                    .into_iter()
                    .flat_map(move |read| (0..9).map(move |last| (deleted, added, read, last)))
            })
        }) {
            let state =
                StreamState { last_id: id(10), max_deleted_id: id(deleted), entries_added: added };
            let counters = Counters { state, length: 6, first_id: id(3) };
            let group = Group { number: 2, last_id: id(last), entries_read: read };
            for count in 0..=10 - last {
                let ids = || (last + 1..).map(id).take(count as usize);
                let (mut single, mut all) = (group, group);
                ids().for_each(|id| counters.read(&mut single, id));
                counters.read_all(&mut all, ids(), (count, ids().last().unwrap_or_default()));
                assert_eq!(all, single, "{deleted} {added} {group:?} {count}");
            }
        }
    }
}
