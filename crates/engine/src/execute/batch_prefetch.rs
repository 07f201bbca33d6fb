//! Prefetching of a batch: entries and collections of the keys of its next requests are asked of
//! the memory while others are executed.

use super::batch::{Batch, Request};
use super::executor::Executor;
use crate::access::section::{Enter, OpenSection};
use crate::limits::PREFETCHED_ENTRIES_MAX;

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
    pub(super) fn prefetch_next(&mut self, batch: &mut Batch, index: usize) {
        let next = index + PREFETCHED_ENTRIES_MAX;
        self.prefetch_values(&batch.requests[index..]);
        if next < batch.requests.len() {
            self.prefetch_entries(&mut batch.requests, next);
        }
    }

    /// Asks for what would have been asked for within a run of the requests from `first` to before
    /// `end`.
    #[inline(never)]
    pub(super) fn prefetch_behind_run(&mut self, batch: &mut Batch, first: usize, end: usize) {
        let index = end.next_multiple_of(PREFETCHED_ENTRIES_MAX) - PREFETCHED_ENTRIES_MAX;
        if index > first {
            self.prefetch_next(batch, index);
        }
    }

    /// Asks the processor for the collections under the keys of the next requests, whose entries
    /// were asked for long ago.
    #[inline]
    fn prefetch_values(&self, requests: &[Request]) {
        let next = &requests[..requests.len().min(PREFETCHED_ENTRIES_MAX)];
        if next.iter().any(|next| next.is_of_collections) {
            self.prefetch_values_of(next);
        }
    }

    #[inline(never)]
    fn prefetch_values_of(&self, requests: &[Request]) {
        let guard = self.reader.enter();
        let of_collections = requests.iter().filter(|request| request.is_of_collections);
        let keys = of_collections.filter_map(Request::key_hash);
        self.shared.keyspace.prefetch_values(self.session.database, keys, guard.section());
    }
}
