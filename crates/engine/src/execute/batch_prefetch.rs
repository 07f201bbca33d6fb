//! Prefetching of a batch: entries and collections of the keys of its next requests are asked of
//! the memory while others are executed.

use std::ops::Range;

use smallvec::SmallVec;
use tidemill_store::EntryRef;
use tidemill_store::value::hash::Hash;
use tidemill_store::value::set::Set;
use tidemill_store::value::sorted_set::SortedSet;
use tidemill_store::value::{Kind, LeafPrefetch};

use super::batch::{Batch, Request};
use super::executor::Executor;
use crate::access::section::{Enter, OpenSection};
use crate::handlers::set::member_of;
use crate::limits::{PREFETCHED_ENTRIES_MAX, PREFETCHED_NAME_BYTES_MAX, WRITE_RUN_COMMANDS_MAX};
use crate::shared::Shared;

impl<E: Enter> Executor<'_, '_, E> {
    /// Asks the processor for the entries of the requests from `first` on that are executed next.
    #[inline]
    pub(super) fn prefetch_entries(&self, requests: &mut [Request], first: usize) {
        let guard = self.reader.enter();
        let end = requests.len().min(first + PREFETCHED_ENTRIES_MAX);
        let keys = requests[first..end].iter_mut().filter_map(Request::key_hash_mut);
        self.shared.keyspace.prefetch_entries(self.session.database, keys, guard.section());
    }

    /// Asks the processor for the collections and entries of the requests from `index` on.
    #[inline]
    pub(super) fn prefetch_next(&mut self, batch: &mut Batch, index: usize, input: &[u8]) {
        let next = index + PREFETCHED_ENTRIES_MAX;
        self.prefetch_values(batch, index, input);
        if next < batch.requests.len() {
            self.prefetch_entries(&mut batch.requests, next);
        }
    }

    /// Asks for the leaves that the requests of a run, from `first` to before `end`, look into;
    /// those of the first few were asked for before it.
    #[inline]
    pub(super) fn prefetch_run(&self, batch: &Batch, (first, end): (usize, usize), input: &[u8]) {
        let guard = self.reader.enter();
        let (keyspace, database) = (&self.shared.keyspace, self.session.database);
        let key = batch.requests[first].key_hash();
        let entry = key.and_then(|key| keyspace.likely_entry(database, key, guard.section()));
        if let Some(entry) = entry
            && entry.is_seldom_cached()
        {
            let from = (first + 1).next_multiple_of(PREFETCHED_ENTRIES_MAX);
            let requests = (from..end).map(|index| (index, entry));
            prefetch_leaves(self.shared, batch, requests, input, |_| ());
        }
    }

    /// Asks for what would have been asked for within a run of the requests from `first` to before
    /// `end`.
    #[inline(never)]
    pub(super) fn prefetch_behind_run(
        &mut self,
        batch: &mut Batch,
        (first, end): (usize, usize),
        input: &[u8],
    ) {
        let index = end.next_multiple_of(PREFETCHED_ENTRIES_MAX) - PREFETCHED_ENTRIES_MAX;
        if index > first {
            self.prefetch_next(batch, index, input);
        }
    }

    /// Asks the processor for the collections under the keys of the next requests, whose entries
    /// were asked for long ago.
    #[inline]
    fn prefetch_values(&mut self, batch: &Batch, index: usize, input: &[u8]) {
        let end = batch.requests.len().min(index + PREFETCHED_ENTRIES_MAX);
        if batch.requests[index..end].iter().any(|next| next.is_of_collections) {
            self.prefetch_values_of(batch, index..end, input);
        }
    }

    #[inline(never)]
    fn prefetch_values_of(&mut self, batch: &Batch, indices: Range<usize>, input: &[u8]) {
        let keyspace = &self.shared.keyspace;
        let guard = self.reader.enter();
        let mut entries = [None; PREFETCHED_ENTRIES_MAX];
        for (place, request) in entries.iter_mut().zip(&batch.requests[indices.clone()]) {
            if request.is_of_collections
                && let Some(key) = request.key_hash()
            {
                *place = keyspace.likely_entry(self.session.database, key, guard.section());
                place.iter().for_each(|entry: &EntryRef<'_>| entry.prefetch_root());
            }
        }
        if entries.iter().flatten().any(|entry| entry.is_seldom_cached()) {
            let is_large = |entry: &EntryRef<'_>| entry.is_seldom_cached();
            let found = indices.zip(entries);
            let large = found.filter_map(|(index, entry)| Some((index, entry.filter(is_large)?)));
            let hints = &mut self.worker.score_hints;
            hints.clear();
            prefetch_leaves(self.shared, batch, large, input, |descent| hints.note(descent));
        }
    }
}

/// Asks the processor for the leaves that requests look into, level by level, and calls `note` at
/// each leaf. A request is given by its index, with the entry of its key, which is seldom cached.
#[inline(never)]
fn prefetch_leaves<'g>(
    shared: &'g Shared,
    batch: &'g Batch,
    requests: impl Iterator<Item = (usize, EntryRef<'g>)>,
    input: &'g [u8],
    mut note: impl FnMut(&LeafPrefetch<'g>),
) {
    let seed = shared.keyspace.seed();
    let descent = |(index, entry): (usize, EntryRef<'g>)| {
        let element = usize::from(shared.commands.traits(batch.requests[index].id?).element);
        let args = batch.view(index, input);
        if element == 0 || element >= args.len() {
            return None;
        }
        let name = args.get(element);
        if name.len() > PREFETCHED_NAME_BYTES_MAX {
            return None;
        }
        match entry.kind() {
            Kind::Hash => Some(entry.view::<Hash<'_>>(seed)?.prefetch(name)),
            Kind::Set => Some(entry.view::<Set<'_>>(seed)?.prefetch(member_of(name))),
            Kind::SortedSet => entry.view::<SortedSet<'_>>(seed)?.prefetch(name),
            Kind::String | Kind::List | Kind::Stream => None,
        }
    };
    let mut descents: SmallVec<[LeafPrefetch<'_>; WRITE_RUN_COMMANDS_MAX]> =
        requests.filter_map(descent).collect();
    while !descents.is_empty() {
        descents.retain(|descent| {
            let goes_on = descent.go_down();
            if !goes_on {
                note(descent);
            }
            goes_on
        });
    }
}
