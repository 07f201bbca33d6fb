//! Progress of a worker's sweep through its share of the keyspace.

/// Position of a worker's sweep.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Position {
    pub(crate) database: usize,
    pub(crate) slot: usize,
    pub(crate) hash: u64,
    /// Steps in a row that deleted fields of this bucket and left others.
    pub(crate) repeated: usize,
}

impl Position {
    /// The beginning of a worker's share.
    pub(crate) fn new(worker: usize) -> Position {
        Position { database: 0, slot: worker, hash: 0, repeated: 0 }
    }
}

/// Findings of a worker's sweep in the database that it is in: keys with an expiry, and the
/// milliseconds they have left.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Expiring {
    pub(crate) keys: u64,
    pub(crate) ms: u64,
}
