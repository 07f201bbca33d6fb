//! Look-ahead: requests of connections that became ready together, parsed before the first of them
//! has its turn, so that their cache misses overlap.

use smallvec::SmallVec;
use tidemill_resp::request::{LargeArgument, RequestParser};
use tidemill_store::{KeyBytes, KeyHash};

use super::batch::{Batch, hash_keys, request};
use crate::access::section::{Enter, OpenSection};
use crate::limits::PREFETCHED_ENTRIES_MAX;
use crate::shared::Shared;
use crate::worker::Worker;

/// Room for the input of one connection that is parsed ahead of its turn.
#[derive(Debug)]
pub struct LookAhead {
    batch: Batch,
    stage: Stage,
}

/// Contents of a [`LookAhead`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Nothing,
    /// A request, whose key has no hash yet.
    Parsed,
    /// A request that can be executed.
    Hashed,
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
        LookAhead { batch: Batch::of_one(), stage: Stage::Nothing }
    }
}

impl LookAhead {
    /// Parses the input of a connection ahead of its turn, if it is one short request of a kind
    /// that was seen before. It is empty before. The turn gets it once [`prefetch`] has hashed its
    /// key.
    pub fn look(&mut self, worker: &Worker, parser: &RequestParser, input: &[u8]) {
        let LookAhead { batch, stage } = self;
        batch.requests.clear();
        let parsed = worker.heads.parse(input, &mut batch.arguments[0]);
        let Some((length, called)) = parsed else { return };
        if length == input.len() && parser.is_idle() {
            batch.requests.push(request(Some(called), 0, length));
            *stage = Stage::Parsed;
        }
    }

    /// Forgets the input.
    pub fn clear(&mut self) {
        self.stage = Stage::Nothing;
    }

    /// The input that was parsed and hashed, for its turn; none a second time.
    #[must_use]
    #[inline]
    pub fn take(&mut self) -> Option<Ahead<'_>> {
        let stage = std::mem::replace(&mut self.stage, Stage::Nothing);
        (stage == Stage::Hashed).then_some(Ahead(&mut self.batch))
    }

    /// The key of the request that was parsed from the beginning of `buffer`, and the place of its
    /// hash, which the caller fills.
    fn begin_hashing<'a>(
        &'a mut self,
        buffer: &'a [u8],
    ) -> Option<(KeyBytes<'a>, &'a mut KeyHash)> {
        let LookAhead { batch: Batch { arguments, requests }, stage } = self;
        if *stage == Stage::Nothing {
            return None;
        }
        *stage = Stage::Hashed;
        let (index, hash) = requests[0].key.as_mut()?;
        let (behind, length) = arguments[0].view(buffer).get_in_buffer(*index);
        Some((KeyBytes::new(behind, length), hash))
    }
}

/// Hashes the keys of the requests of several connections, and asks the processor for the memory
/// that these will read; the connections use one database. With each comes a buffer that its input
/// is at the beginning of.
///
/// A client that waits for each reply has one request in its batch. Where many do, their cache
/// misses overlap too.
pub fn prefetch<'b, E: Enter, A: Iterator<Item = (&'b mut LookAhead, &'b [u8])>>(
    shared: &Shared,
    reader: &E,
    database: usize,
    ahead: A,
) {
    let guard = reader.enter();
    let mut keys: SmallVec<[KeyBytes<'_>; PREFETCHED_ENTRIES_MAX]> = SmallVec::new();
    let mut hashes: SmallVec<[&mut KeyHash; PREFETCHED_ENTRIES_MAX]> = SmallVec::new();
    for (key, hash) in ahead.filter_map(|(ahead, buffer)| ahead.begin_hashing(buffer)) {
        keys.push(key);
        hashes.push(hash);
    }
    hash_keys(shared, &keys, &mut hashes);
    for hash in &hashes {
        shared.keyspace.prefetch_word(hash.slot);
        shared.keyspace.prefetch_table(database, hash.slot, guard.section());
    }
    let known = hashes.iter().map(|hash| **hash);
    shared.keyspace.prefetch_buckets(database, known, guard.section());
    let hashes = hashes.iter_mut().map(|hash| &mut **hash);
    shared.keyspace.prefetch_entries(database, hashes, guard.section());
}
