//! Batches: requests that are parsed, and whose keys are hashed, before the first of them is
//! executed.

use tidemill_resp::request::{ArgumentView, Arguments};
use tidemill_store::{KeyBytes, KeyHash, LANES, SlotNumber};

use crate::command::CommandId;
use crate::limits::{BATCH_REQUESTS_MAX, BRIEF_REQUEST_BYTES_MAX, HASHED_TOGETHER_MIN};
use crate::shared::Shared;
use crate::worker::called::{Called, Course};

/// One parsed request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Request {
    /// Start of its bytes in the input; its arguments count from here.
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) id: Option<CommandId>,
    /// The first key's argument and hash, for commands with a key in a fixed place.
    pub(super) key: Option<(usize, KeyHash)>,
    /// True if its keys hold collections.
    pub(super) is_of_collections: bool,
    pub(super) course: Course,
}

impl Request {
    pub(super) fn key_hash(&self) -> Option<KeyHash> {
        self.key.map(|(_, hash)| hash)
    }

    pub(super) fn key_hash_mut(&mut self) -> Option<&mut KeyHash> {
        self.key.as_mut().map(|(_, hash)| hash)
    }
}

/// Parsed requests, with the hashes of their keys. One per worker, reused for all connections.
#[derive(Debug)]
pub struct Batch {
    pub(super) arguments: Vec<Arguments>,
    pub(super) requests: Vec<Request>,
}

impl Default for Batch {
    fn default() -> Self {
        Batch::of(BATCH_REQUESTS_MAX)
    }
}

impl Batch {
    /// Room for one request.
    pub(super) fn of_one() -> Batch {
        Batch::of(1)
    }

    fn of(requests: usize) -> Batch {
        Batch {
            arguments: (0..requests).map(|_| Arguments::new()).collect(),
            requests: Vec::with_capacity(requests),
        }
    }

    /// Hashes the keys of all requests, and calls `prefetch` for the slot of each.
    #[inline]
    pub(super) fn hash_keys(
        &mut self,
        shared: &Shared,
        input: &[u8],
        prefetch: impl Fn(SlotNumber),
    ) {
        let Batch { arguments, requests, .. } = self;
        for (requests, arguments) in requests.chunks_mut(LANES).zip(arguments.chunks(LANES)) {
            if requests[0].key.is_none() && requests.iter().all(|request| request.key.is_none()) {
                continue;
            }
            if requests.len() >= HASHED_TOGETHER_MIN {
                hash_together(shared, requests, arguments, input);
            } else {
                for (request, arguments) in requests.iter_mut().zip(arguments) {
                    let view = arguments.view(&input[request.start..]);
                    if let Some((index, known)) = &mut request.key {
                        *known = shared.keyspace.key_hash(view.get(*index));
                    }
                }
            }
            requests.iter().filter_map(Request::key_hash).for_each(|known| prefetch(known.slot));
        }
    }

    /// The arguments of the request at an index.
    pub(super) fn view<'a>(&'a self, index: usize, input: &'a [u8]) -> ArgumentView<'a> {
        self.arguments[index].view(&input[self.requests[index].start..])
    }

    /// Lets go of the argument that the first request's input lacked.
    #[cold]
    pub(super) fn release_large(&mut self) {
        self.arguments[0].release_large();
    }

    /// Gives memory back that large requests left allocated.
    pub fn shrink(&mut self) {
        self.arguments.iter_mut().for_each(Arguments::shrink);
    }
}

/// A request before its key is hashed.
#[inline(always)]
pub(super) fn request(called: Option<Called>, start: usize, length: usize) -> Request {
    let end = start + length;
    let Some(Called { id, key, is_of_collections, course }) = called else {
        let (is_of_collections, course) = (false, Course::Full);
        return Request { start, end, id: None, key: None, is_of_collections, course };
    };
    let key = (key > 0).then(|| (usize::from(key), KeyHash::default()));
    let course = if length <= BRIEF_REQUEST_BYTES_MAX { course } else { Course::Full };
    Request { start, end, id: Some(id), key, is_of_collections, course }
}

/// Hashes the keys of up to [`LANES`] requests side by side; one without a key takes the place of
/// an empty one.
#[inline(never)]
fn hash_together(shared: &Shared, requests: &mut [Request], arguments: &[Arguments], input: &[u8]) {
    let mut keys = [KeyBytes::default(); LANES];
    for ((key, request), arguments) in keys.iter_mut().zip(&*requests).zip(arguments) {
        if let Some((index, _)) = request.key {
            let view = arguments.view(&input[request.start..]);
            let (behind, length) = view.get_in_buffer(index);
            *key = KeyBytes::new(behind, length);
        }
    }
    let hashes = shared.keyspace.key_hashes(&keys);
    for (known, hash) in requests.iter_mut().map(Request::key_hash_mut).zip(hashes) {
        if let Some(known) = known {
            *known = hash;
        }
    }
}

/// Hashes keys, several side by side where that is faster, into the places of their hashes.
#[inline]
pub(super) fn hash_keys(shared: &Shared, keys: &[KeyBytes<'_>], hashes: &mut [&mut KeyHash]) {
    for (keys, hashes) in keys.chunks(LANES).zip(hashes.chunks_mut(LANES)) {
        if keys.len() >= HASHED_TOGETHER_MIN {
            let mut lanes = [KeyBytes::default(); LANES];
            lanes[..keys.len()].copy_from_slice(keys);
            let known = shared.keyspace.key_hashes(&lanes);
            hashes.iter_mut().zip(known).for_each(|(hash, known)| **hash = known);
        } else {
            let known = keys.iter().map(|key| shared.keyspace.key_hash(key.key()));
            hashes.iter_mut().zip(known).for_each(|(hash, known)| **hash = known);
        }
    }
}
