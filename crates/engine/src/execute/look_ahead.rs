//! Look-ahead: requests of connections that became ready together, parsed before the first of them
//! has its turn, so that their cache misses overlap.

use smallvec::SmallVec;
use tidemill_resp::request::{LargeArgument, RequestParser};
use tidemill_store::KeyHash;

use super::batch::{Batch, Request, request};
use crate::access::section::{Enter, OpenSection};
use crate::limits::PREFETCHED_ENTRIES_MAX;
use crate::shared::Shared;
use crate::worker::Worker;

/// Room for the input of one connection that is parsed ahead of its turn.
#[derive(Debug)]
pub struct LookAhead {
    batch: Batch,
    is_filled: bool,
}

/// Whole input of a turn, parsed ahead. The turn consumes it.
#[derive(Debug)]
pub struct Ahead<'b>(&'b mut Batch);

/// Requests of a turn.
#[derive(Debug)]
pub enum Requests<'b> {
    /// Parsed by the turn, into this batch.
    Unparsed(&'b mut Batch),
    /// Parsed by the turn too; the first one lacks an argument in its input.
    WithLarge(&'b mut Batch, LargeArgument<'b>),
    /// Parsed ahead.
    Ahead(Ahead<'b>),
}

impl<'b> Requests<'b> {
    /// The batch of the turn; true if it holds all of the turn's input; the argument that the input
    /// lacks.
    #[inline(always)]
    pub(super) fn into_batch(self) -> (&'b mut Batch, bool, Option<LargeArgument<'b>>) {
        match self {
            Requests::Unparsed(batch) => (batch, false, None),
            Requests::WithLarge(batch, large) => (batch, false, Some(large)),
            Requests::Ahead(Ahead(batch)) => (batch, true, None),
        }
    }
}

impl Default for LookAhead {
    fn default() -> LookAhead {
        LookAhead { batch: Batch::of_one(), is_filled: false }
    }
}

impl LookAhead {
    /// Parses the input of a connection ahead of its turn, if it is one short request of a kind
    /// that was seen before. It is empty before.
    pub fn look(&mut self, shared: &Shared, worker: &Worker, parser: &RequestParser, input: &[u8]) {
        let LookAhead { batch, is_filled } = self;
        batch.requests.clear();
        let parsed = worker.heads.parse(input, &mut batch.arguments[0]);
        let Some((length, called)) = parsed else { return };
        if length == input.len() && parser.is_idle() {
            let mut request = request(Some(called), 0, length);
            if let Some((index, known)) = &mut request.key {
                let key = batch.arguments[0].get(*index, input);
                *known = shared.keyspace.key_hash(key);
                shared.keyspace.prefetch_word(known.slot);
            }
            batch.requests.push(request);
            *is_filled = true;
        }
    }

    /// Forgets the input.
    pub fn clear(&mut self) {
        self.is_filled = false;
    }

    /// The input that was parsed, for its turn; none a second time.
    #[must_use]
    #[inline]
    pub fn take(&mut self) -> Option<Ahead<'_>> {
        std::mem::take(&mut self.is_filled).then_some(Ahead(&mut self.batch))
    }

    fn key_hash_mut(&mut self) -> Option<&mut KeyHash> {
        let request = self.batch.requests.first_mut().filter(|_| self.is_filled);
        request.and_then(Request::key_hash_mut)
    }
}

/// Asks the processor for the memory that the requests of several connections will read; the
/// connections use one database.
///
/// A client that waits for each reply has one request in its batch. Where many do, their cache
/// misses overlap too.
pub fn prefetch<'b, E: Enter, A: Iterator<Item = &'b mut LookAhead>>(
    shared: &Shared,
    reader: &E,
    database: usize,
    ahead: A,
) {
    let guard = reader.enter();
    let mut keys: SmallVec<[&mut KeyHash; PREFETCHED_ENTRIES_MAX]> = SmallVec::new();
    for key in ahead.filter_map(LookAhead::key_hash_mut) {
        shared.keyspace.prefetch_table(database, key.slot, guard.section());
        keys.push(key);
    }
    let hashes = keys.iter().map(|key| **key);
    shared.keyspace.prefetch_buckets(database, hashes, guard.section());
    let keys = keys.iter_mut().map(|key| &mut **key);
    shared.keyspace.prefetch_entries(database, keys, guard.section());
}
