//! Progress of a worker's defragmentation through its share of the keyspace.

use std::collections::VecDeque;

use tidemill_store::TreePlace;

/// Large collection that is not done: its walk goes on from the place in its tree.
#[derive(Debug)]
pub(crate) struct Unfinished {
    pub(crate) database: usize,
    pub(crate) key: Box<[u8]>,
    pub(crate) place: TreePlace,
}

/// Walk of a worker's defragmentation.
#[derive(Debug)]
pub(crate) struct Walk {
    pub(crate) database: usize,
    pub(crate) slot: usize,
    pub(crate) hash: u64,
    /// Collections of the last bucket that are not done; the walk goes on behind them.
    pub(crate) unfinished: VecDeque<Unfinished>,
    /// Blocks that it moved since it began at the first database.
    pub(crate) moved_count: u64,
    /// The last round through all databases moved nothing.
    pub(crate) has_moved_nothing: bool,
}

impl Walk {
    /// The beginning of a worker's share.
    pub(crate) fn new(worker: usize) -> Walk {
        Walk {
            database: 0,
            slot: worker,
            hash: 0,
            unfinished: VecDeque::new(),
            moved_count: 0,
            has_moved_nothing: false,
        }
    }
}
